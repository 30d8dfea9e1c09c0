//! Datasets and commands of NFD's management protocol in GraphQL.
//!
//! The arguments of a command follow from the rules of its parameters in `ndn_management`.

use std::collections::BTreeMap;

use async_graphql::Error;
use async_graphql::dynamic::{Field, FieldFuture, InputValue, ResolverContext, TypeRef};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use namewire_control::{
    Dispatch, FieldInfo, LedgerStatus, LinkCounters, Operations, ResultInfo, WorkerStatistics,
};
use ndn_management::{
    CallError, ChannelStatus, ControlParameters, CsInfo, Dataset, DatasetField, DatasetInfo,
    DatasetItem, DatasetValue, Described, FaceStatus, FibEntry, Flag, Form, ForwarderStatus,
    Management, NameRange, NextHopRecord, Parameter, RibEntry, RouteRecord, StrategyChoice,
    TableItems, TablePart, Verb, decode_dataset,
};
use ndn_packet::Name;
use ndn_types::Scope;
use serde::Serialize;
use serde_json::{Map, Value};

use super::access::{self, bad_input};
use super::shapes::{NUMBER, Shape, Types, camel, json_of};
use crate::calls::ManagementBy;
use crate::metrics::links_of;
use crate::tokens::Role;

/// Maximum number of items of a list, and the number without the argument `first`.
const ITEMS_MAX: u64 = 1000;
const ITEMS_DEFAULT: u64 = 100;

/// Declares structures of results, and `RESULTS`, their declarations.
macro_rules! results {
    ($(
        #[doc = $help:literal]
        pub struct $Result:ident {
            $( #[doc = $field_help:literal] pub $field:ident: $Field:ty, )+
        }
    )+) => {
        $(
            #[derive(Debug, Clone, Serialize)]
            pub(super) struct $Result { $( pub(super) $field: $Field, )+ }
        )+

        /// The declarations of structures that are not datasets of management.
        pub(super) const RESULTS: &[ResultInfo] = &[$( ResultInfo {
            name: stringify!($Result),
            help: $help.trim_ascii(),
            fields: &[$( FieldInfo {
                name: stringify!($field),
                of: stringify!($Field),
                help: $field_help.trim_ascii(),
                is_flat: false,
            }, )+],
        }, )+];
    };
}

results! {
    /// Counters at a moment.
    pub struct Sample {
        /// Milliseconds since 1970.
        pub unix_ms: u64,
        /// Samples that this subscription has lost so far because it was not read in time.
        pub lost: u64,
        /// Counters of the workers.
        pub workers: Vec<WorkerStatistics>,
        /// Counters of the faces that were chosen, otherwise of the first 1,000 by FaceId.
        pub faces: BTreeMap<u64, LinkCounters>,
        /// Use of scarce resources, with the 100 principals that hold the largest parts of a table.
        pub limits: Option<LedgerStatus>,
        /// Number of all principals, with the limits.
        pub principals: Option<u64>,
        /// The dispatch of names to workers; null if there is one worker.
        pub dispatch: Option<Dispatch>,
    }
}

/// Structures of management that are types of the schema.
const STRUCTURES: [&DatasetInfo; 10] = [
    ForwarderStatus::INFO,
    FaceStatus::INFO,
    ChannelStatus::INFO,
    NextHopRecord::INFO,
    FibEntry::INFO,
    RouteRecord::INFO,
    RibEntry::INFO,
    CsInfo::INFO,
    StrategyChoice::INFO,
    ControlParameters::INFO,
];

/// Adds the types of structures of management. The type of a face has its link, too.
///
/// # Errors
/// A field has a type without a shape.
pub(super) fn declare_structures(types: &mut Types) -> Result<(), String> {
    for info in STRUCTURES {
        let mut fields = fields_of(info)?;
        if info.name == FaceStatus::INFO.name {
            let shape = Shape::Optional(Box::new(Shape::Object("LinkCounters".to_owned())));
            let help = "State and counters of the link; null if the face has gone meanwhile.";
            fields.push(("link", help, shape));
        }
        types.add(info.name, info.help, fields);
    }
    Ok(())
}

/// The fields of a structure: name, help text, shape. Flags are a field each.
fn fields_of(
    info: &'static DatasetInfo,
) -> Result<Vec<(&'static str, &'static str, Shape)>, String> {
    let mut fields = Vec::new();
    for field in info.fields {
        match (field.part, field.form) {
            (Some(part), _) => fields.extend(fields_of(part)?),
            (None, Form::Flags(flags)) => {
                fields.extend(flags.iter().map(|flag| (flag.name, flag.help, Shape::Truth)));
            }
            (None, Form::Plain | Form::Word { .. }) => {
                fields.push((field.name, field.help, shape_of(field)?));
            }
        }
    }
    Ok(fields)
}

/// The shape of a field that is not flags.
fn shape_of(field: &DatasetField) -> Result<Shape, String> {
    Ok(match (Shape::parse(field.of)?, field.form) {
        (Shape::Number, Form::Word { .. }) => Shape::Text,
        (Shape::Optional(_), Form::Word { .. }) => Shape::Optional(Box::new(Shape::Text)),
        (shape, _) => shape,
    })
}

/// A value of management as JSON, with the same fields.
pub(super) fn json_of_value(value: DatasetValue) -> Value {
    match value {
        DatasetValue::None => Value::Null,
        DatasetValue::Number(number) => number.into(),
        DatasetValue::Text(text) => text.into(),
        DatasetValue::List(items) => items.into_iter().map(json_of_value).collect(),
        DatasetValue::Structure(info, values) => {
            let mut fields = Map::new();
            insert_fields(&mut fields, info, values);
            fields.into()
        }
    }
}

fn insert_fields(into: &mut Map<String, Value>, info: &DatasetInfo, values: Vec<DatasetValue>) {
    for (field, value) in info.fields.iter().zip(values) {
        match (field.part, field.form, value) {
            (Some(part), _, DatasetValue::Structure(_, values)) => {
                insert_fields(into, part, values);
            }
            (None, Form::Flags(flags), DatasetValue::Number(bits)) => {
                let is_set = |flag: &Flag| (bits & flag.bit != 0).into();
                into.extend(flags.iter().map(|flag| (flag.name.to_owned(), is_set(flag))));
            }
            (_, _, value) => drop(into.insert(field.name.to_owned(), json_of_value(value))),
        }
    }
}

/// Which part of a dataset is selected.
#[derive(Debug, Clone, Default)]
pub(super) struct Selection {
    /// Maximum number of items.
    pub(super) first: usize,
    /// Number of items to leave out before, of the tree of names.
    pub(super) skip: usize,
    /// Only faces with higher FaceIds.
    pub(super) after: Option<u64>,
    /// Only faces of this scope.
    pub(super) scope: Option<Scope>,
    /// Only these names.
    pub(super) names: NameRange,
    /// Whether the link counters of faces are selected.
    pub(super) with_links: bool,
}

/// The selection of items of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Paging {
    /// There is one item, or a few.
    Whole,
    /// By FaceId.
    Faces,
    /// By prefix, in the canonical order of names.
    Names,
}

/// A dataset of management as a field.
struct DatasetQuery {
    name: &'static str,
    help: &'static str,
    /// The type of the result, in Rust.
    of: &'static str,
    paging: Paging,
    read: fn(&dyn Operations, &Selection) -> Result<Value, CallError>,
}

const QUERIES: [DatasetQuery; 7] = [
    DatasetQuery {
        name: "status",
        help: "The forwarder as a whole (`status/general` of NFD management).",
        of: "ForwarderStatus",
        paging: Paging::Whole,
        read: read_status,
    },
    DatasetQuery {
        name: "faces",
        help: "Faces in the order of their FaceIds (`faces/list`).",
        of: "Vec<FaceStatus>",
        paging: Paging::Faces,
        read: read_faces,
    },
    DatasetQuery {
        name: "channels",
        help: "Listening addresses (`faces/channels`).",
        of: "Vec<ChannelStatus>",
        paging: Paging::Whole,
        read: read_channels,
    },
    DatasetQuery {
        name: "fib",
        help: "FIB entries in the canonical order of names (`fib/list`).",
        of: "Vec<FibEntry>",
        paging: Paging::Names,
        read: read_fib,
    },
    DatasetQuery {
        name: "rib",
        help: "RIB entries in the canonical order of names (`rib/list`).",
        of: "Vec<RibEntry>",
        paging: Paging::Names,
        read: read_rib,
    },
    DatasetQuery {
        name: "cs",
        help: "The Content Store (`cs/info`).",
        of: "CsInfo",
        paging: Paging::Whole,
        read: read_cs,
    },
    DatasetQuery {
        name: "strategies",
        help: "Strategies of prefixes in the canonical order of names (`strategy-choice/list`).",
        of: "Vec<StrategyChoice>",
        paging: Paging::Names,
        read: read_strategies,
    },
];

/// The fields of datasets.
///
/// # Errors
/// A type has no shape.
pub(super) fn queries(types: &mut Types) -> Result<Vec<Field>, String> {
    QUERIES.iter().map(|dataset| query(dataset, types)).collect()
}

fn query(dataset: &'static DatasetQuery, types: &mut Types) -> Result<Field, String> {
    let shape = Shape::parse(dataset.of)?;
    types.declare_parts(&shape);
    let field = Field::new(dataset.name, shape.type_ref(), move |context| {
        let shape = shape.clone();
        FieldFuture::new(async move {
            let (calls, _) = access::authorize(&context, Role::Read)?;
            let selection = selection(&context, dataset.paging)?;
            let read = calls.call(move |operations| Ok((dataset.read)(operations, &selection)));
            let read = read.await.map_err(|failure| access::unanswered(&failure))?;
            Ok(shape.value(&read.map_err(|failure| access::refused(&failure))?))
        })
    });
    let first =
        format!("Maximum number of items: {ITEMS_DEFAULT} by default, {ITEMS_MAX} at most.");
    let number = || TypeRef::named(NUMBER);
    let field = field.description(dataset.help);
    Ok(match dataset.paging {
        Paging::Whole => field,
        Paging::Faces => {
            field
                .argument(InputValue::new("first", number()).description(first))
                .argument(
                    InputValue::new("after", number())
                        .description("Only faces with higher FaceIds, to continue a list."),
                )
                .argument(InputValue::new("scope", TypeRef::named(TypeRef::STRING)).description(
                    "Only faces of this scope: `local` (applications) or `non-local`.",
                ))
        }
        Paging::Names => field
            .argument(InputValue::new("first", number()).description(first))
            .argument(
                InputValue::new("after", TypeRef::named(TypeRef::STRING))
                    .description("Only names after this one, a URI, to continue a list."),
            )
            .argument(
                InputValue::new("prefix", TypeRef::named(TypeRef::STRING))
                    .description("Only names with this prefix, a URI."),
            ),
    })
}

fn selection(context: &ResolverContext<'_>, paging: Paging) -> Result<Selection, Error> {
    let mut selection = Selection { first: first(context)?, ..Selection::default() };
    match paging {
        Paging::Whole => {}
        Paging::Faces => {
            selection.after = number(context, "after")?;
            selection.scope = scope(context)?;
            selection.with_links = context.look_ahead().field("link").exists();
        }
        Paging::Names => {
            let given = |argument: &str| {
                let uri = text(context, argument)?;
                uri.map(|uri| name(argument, &uri)).transpose()
            };
            let prefix = given("prefix")?.unwrap_or_default();
            selection.names = NameRange { prefix, after: given("after")? };
        }
    }
    Ok(selection)
}

/// The selection of nodes of the tree of names.
pub(super) fn nodes(context: &ResolverContext<'_>) -> Result<Selection, Error> {
    let skip = number(context, "skip")?.unwrap_or(0);
    let skip = usize::try_from(skip).unwrap_or(usize::MAX);
    Ok(Selection { first: first(context)?, skip, ..Selection::default() })
}

/// The maximum number of items that is asked for.
fn first(context: &ResolverContext<'_>) -> Result<usize, Error> {
    let first = number(context, "first")?.unwrap_or(ITEMS_DEFAULT);
    if first > ITEMS_MAX {
        return Err(bad_input(format!("first: the maximum is {ITEMS_MAX}")));
    }
    Ok(usize::try_from(first).unwrap_or(usize::MAX))
}

fn scope(context: &ResolverContext<'_>) -> Result<Option<Scope>, Error> {
    let Some(word) = text(context, "scope")? else { return Ok(None) };
    let scope = [Scope::Local, Scope::NonLocal].into_iter().find(|scope| scope.as_str() == word);
    let unknown = || bad_input(format!("scope: `{word}` is neither local nor non-local"));
    scope.map(Some).ok_or_else(unknown)
}

pub(super) fn number(context: &ResolverContext<'_>, name: &str) -> Result<Option<u64>, Error> {
    let argument = context.args.get(name).filter(|value| !value.is_null());
    argument.map(|value| value.u64()).transpose()
}

pub(super) fn text(context: &ResolverContext<'_>, name: &str) -> Result<Option<String>, Error> {
    let argument = context.args.get(name).filter(|value| !value.is_null());
    argument.map(|value| value.string().map(str::to_owned)).transpose()
}

pub(super) fn truth(context: &ResolverContext<'_>, name: &str) -> Result<Option<bool>, Error> {
    let argument = context.args.get(name).filter(|value| !value.is_null());
    argument.map(|value| value.boolean()).transpose()
}

pub(super) fn name(argument: &str, uri: &str) -> Result<Name, Error> {
    Name::from_uri(uri)
        .map_err(|error| bad_input(format!("{argument}: {uri} is not a name: {error}")))
}

/// A result as JSON. The structures consist of texts, numbers and lists, which always have JSON.
fn json(value: impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

/// The first items of a part of a table, and the name after which further ones may follow.
pub(super) fn read_part<T: DatasetItem>(
    operations: &dyn Operations,
    part: TablePart,
    first: usize,
) -> Result<(Vec<T>, Option<Name>), CallError> {
    let read = operations.table_part(part, first).map_err(CallError::NoAnswer)?;
    let TableItems { encoded, rest_after } = read;
    let items =
        decode_dataset(&encoded).map_err(|error| CallError::Malformed(error.to_string()))?;
    Ok((items, rest_after))
}

/// The selected items of a table of names.
fn read_names<T: Described + DatasetItem>(
    operations: &dyn Operations,
    selection: &Selection,
    part: fn(NameRange) -> TablePart,
) -> Result<Value, CallError> {
    let read = |range, first| read_part(operations, part(range), first);
    let items = read_first::<T>(read, selection.names.clone(), selection.first)?;
    Ok(items.iter().map(|item| json_of_value(item.value())).collect())
}

/// The first items of a range of names: parts of a table may have fewer items than requested.
fn read_first<T>(
    read: impl Fn(NameRange, usize) -> Result<(Vec<T>, Option<Name>), CallError>,
    mut range: NameRange,
    first: usize,
) -> Result<Vec<T>, CallError> {
    let mut items = Vec::new();
    loop {
        let (part, rest_after) = read(range.clone(), first - items.len())?;
        items.extend(part);
        if items.len() >= first || rest_after.is_none() {
            return Ok(items);
        }
        range.after = rest_after;
    }
}

fn read_status(operations: &dyn Operations, _: &Selection) -> Result<Value, CallError> {
    Ok(json_of_value(ManagementBy(operations).status()?.value()))
}

fn read_faces(operations: &dyn Operations, selection: &Selection) -> Result<Value, CallError> {
    let Selection { after, scope, first, .. } = *selection;
    let part = TablePart::Faces { after, scope };
    let (faces, _) = read_part::<FaceStatus>(operations, part, first)?;
    let mut shown: Vec<Value> = faces.iter().map(|face| json_of_value(face.value())).collect();
    if selection.with_links {
        let links = links_of(operations, &faces).map_err(CallError::NoAnswer)?;
        for (face, link) in links {
            let face_id = face.properties.face_id;
            if let Ok(at) = faces.binary_search_by_key(&face_id, |face| face.properties.face_id) {
                shown[at]["link"] = json(link);
            }
        }
    }
    Ok(shown.into())
}

fn read_channels(operations: &dyn Operations, _: &Selection) -> Result<Value, CallError> {
    let channels = ManagementBy(operations).dataset::<ChannelStatus>(&Dataset::ChannelList)?;
    Ok(json_of_value(channels.value()))
}

fn read_fib(operations: &dyn Operations, selection: &Selection) -> Result<Value, CallError> {
    read_names::<FibEntry>(operations, selection, TablePart::Fib)
}

fn read_rib(operations: &dyn Operations, selection: &Selection) -> Result<Value, CallError> {
    read_names::<RibEntry>(operations, selection, TablePart::Rib)
}

fn read_cs(operations: &dyn Operations, _: &Selection) -> Result<Value, CallError> {
    let infos = ManagementBy(operations).dataset::<CsInfo>(&Dataset::CsInfo)?;
    let info = infos.first().map(|info| json_of_value(info.value()));
    info.ok_or_else(|| CallError::Malformed("no CsInfo".to_owned()))
}

fn read_strategies(operations: &dyn Operations, selection: &Selection) -> Result<Value, CallError> {
    read_names::<StrategyChoice>(operations, selection, TablePart::Strategies)
}

/// The name of a command in the schema, such as `ribRegister`.
pub(super) fn command_name(verb: Verb) -> String {
    camel(&format!("{}.{}", verb.module().as_str(), verb.as_str()))
}

/// The fields of commands.
///
/// # Errors
/// A parameter has a type without a shape.
pub(super) fn mutations() -> Result<Vec<Field>, String> {
    Verb::ALL.iter().map(|verb| mutation(*verb)).collect()
}

fn mutation(verb: Verb) -> Result<Field, String> {
    let of = Shape::Object(ControlParameters::INFO.name.to_owned());
    let field = Field::new(command_name(verb), of.type_ref(), move |context| {
        let of = of.clone();
        FieldFuture::new(async move {
            let (calls, principal) = access::authorize(&context, Role::Operate)?;
            let arguments: Map<String, Value> = context
                .args
                .iter()
                .map(|(name, value)| (name.to_string(), json_of(value.as_value())))
                .collect();
            let command = command(verb, &context);
            let done = match command {
                Err(error) => Err(error),
                Ok(command) => {
                    let called =
                        calls.call(move |operations| Ok(command.execute(operations))).await;
                    let called = called.map_err(|failure| access::unanswered(&failure));
                    called.and_then(|done| done.map_err(|failure| access::refused(&failure)))
                }
            };
            access::log_change(&principal, &verb.to_string(), &Value::Object(arguments), &done);
            Ok(of.value(&json_of_value(done?.value())))
        })
    });
    let help = format!("`{verb}` of NFD management; role {}.", Role::Operate);
    Ok(arguments(verb)?.into_iter().fold(field.description(help), Field::argument))
}

/// A command to be executed.
enum Command {
    Parameters(Verb, Box<ControlParameters>),
    Announcement(Vec<u8>),
}

impl Command {
    fn execute(self, operations: &dyn Operations) -> Result<ControlParameters, CallError> {
        let mut management = ManagementBy(operations);
        match self {
            Self::Parameters(verb, parameters) => management.command(verb, &parameters),
            Self::Announcement(announcement) => management.announce(&announcement),
        }
    }
}

/// The flags that a command has as arguments of their own, in the place of Flags and Mask.
fn flags(verb: Verb) -> &'static [Flag] {
    match verb.module().flags() {
        Form::Flags(flags) if verb.takes(Parameter::Flags) => flags,
        Form::Flags(_) | Form::Plain | Form::Word { .. } => &[],
    }
}

/// The parameters that are an argument of a command.
fn parameters(verb: Verb) -> impl Iterator<Item = Parameter> {
    let is_flags = |parameter| matches!(parameter, Parameter::Flags | Parameter::Mask);
    let parameters = Parameter::ALL.iter().copied();
    parameters.filter(move |parameter| verb.takes(*parameter) && !is_flags(*parameter))
}

/// The arguments of a command, by the rules of its parameters.
fn arguments(verb: Verb) -> Result<Vec<InputValue>, String> {
    let mut arguments = Vec::new();
    for parameter in parameters(verb) {
        let info = parameter.info();
        let shape = shape_of(info)?;
        let of = if let Shape::Optional(inner) = &shape
            && verb.required().contains(&parameter)
        {
            inner.type_ref()
        } else {
            shape.type_ref()
        };
        arguments.push(InputValue::new(camel(info.name), of).description(info.help));
    }
    for flag in flags(verb) {
        let of = TypeRef::named(TypeRef::BOOLEAN);
        arguments.push(InputValue::new(camel(flag.name), of).description(flag.help));
    }
    if verb == Verb::RibAnnounce {
        let help = "The prefix announcement: a Data packet, in base64.";
        arguments.push(
            InputValue::new("announcement", TypeRef::named_nn(TypeRef::STRING)).description(help),
        );
    }
    Ok(arguments)
}

/// The command of the arguments.
fn command(verb: Verb, context: &ResolverContext<'_>) -> Result<Command, Error> {
    if verb == Verb::RibAnnounce {
        let announcement = text(context, "announcement")?.unwrap_or_default();
        let decoded = BASE64.decode(announcement);
        let decoded = decoded.map_err(|error| bad_input(format!("announcement: {error}")))?;
        return Ok(Command::Announcement(decoded));
    }
    let mut command = ControlParameters::default();
    for parameter in parameters(verb) {
        let name = camel(parameter.info().name);
        let value = match context.args.get(&name).map(|value| json_of(value.as_value())) {
            None | Some(Value::Null) => DatasetValue::None,
            Some(Value::String(text)) => DatasetValue::Text(text),
            Some(value) => match value.as_u64() {
                Some(number) => DatasetValue::Number(number),
                None => return Err(bad_input(format!("{name}: {value} is not a number"))),
            },
        };
        let set = command.set(parameter, value);
        set.map_err(|error| bad_input(format!("{name}: {error}")))?;
    }
    for flag in flags(verb) {
        if let Some(value) = truth(context, &camel(flag.name))? {
            command.set_flag(flag.bit, value);
        }
    }
    // Without a mask, flags that are not given have their default.
    if !verb.takes(Parameter::Mask)
        && let (Some(flags), Some(mask)) = (command.flags.take(), command.mask.take())
    {
        let mut default = ControlParameters::default();
        verb.apply_defaults(&mut default);
        command.flags = Some(flags | default.flags.unwrap_or(0) & !mask);
    }
    Ok(Command::Parameters(verb, Box::new(command)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn list_continues_after_parts_with_fewer_items() {
        // Of each part, one name is visited; every second one is hidden.
        let names = ["/a", "/b", "/c", "/d", "/e"].map(|uri| Name::from_uri(uri).unwrap());
        let read = |range: NameRange, _: usize| {
            let next = range.after.map_or(0, |after| names.binary_search(&after).unwrap() + 1);
            let items: Vec<usize> =
                Some(next).filter(|number| number % 2 == 1).into_iter().collect();
            Ok((items, names.get(next).filter(|_| next < 4).cloned()))
        };
        let items = |first| read_first(read, NameRange::default(), first).unwrap();
        assert_eq!(
            [items(0), items(1), items(2), items(9)],
            [vec![], vec![1], vec![1, 3], vec![1, 3]]
        );
    }
}
