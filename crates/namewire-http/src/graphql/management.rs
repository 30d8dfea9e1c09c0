//! Datasets and commands of NFD's management protocol in GraphQL.
//!
//! The arguments of a command follow from the rules of its fields in `ndn_management`.

use std::collections::BTreeMap;

use async_graphql::Error;
use async_graphql::dynamic::{Field, FieldFuture, InputValue, ResolverContext, TypeRef};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use namewire_control::{FieldInfo, LinkCounters, Operations, ResultInfo, WorkerStatistics};
use ndn_management::command::Field as Parameter;
use ndn_management::{
    CallError, ChannelStatus, ControlParameters, CsInfo, Dataset, DatasetInfo, DatasetValue,
    Described, FaceDriver, FaceStatus, FibEntry, ForwarderStatus, Management, NextHopRecord,
    Persistency, RibEntry, RouteRecord, StrategyChoice, Verb, cs_flag, face_flag, route_flag,
    route_origin_from_text, route_origin_text,
};
use ndn_packet::Name;
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
        /// Counters of the first 1,000 faces by FaceId.
        pub faces: BTreeMap<u64, LinkCounters>,
    }

    /// The parameters of a command as the forwarder has carried it out. Those that the command does not have are null.
    pub struct Parameters {
        /// Prefix.
        pub name: Option<String>,
        /// FaceId.
        pub face_id: Option<u64>,
        /// Remote URI.
        pub uri: Option<String>,
        /// Local URI.
        pub local_uri: Option<String>,
        /// Origin of the route.
        pub origin: Option<String>,
        /// Cost.
        pub cost: Option<u64>,
        /// Capacity, packets.
        pub capacity: Option<u64>,
        /// Number of packets.
        pub count: Option<u64>,
        /// Flags.
        pub flags: Option<u64>,
        /// Strategy.
        pub strategy: Option<String>,
        /// Lifetime of the route, milliseconds.
        pub expiration_period_ms: Option<u64>,
        /// Persistency of the face.
        pub persistency: Option<String>,
        /// Interval of congestion marking, nanoseconds.
        pub base_congestion_marking_interval_ns: Option<u64>,
        /// Queue length at which congestion marking starts, bytes.
        pub default_congestion_threshold: Option<u64>,
        /// Maximum length of a packet, bytes.
        pub mtu: Option<u64>,
    }
}

/// Structures of datasets that are types of the schema.
const DATASETS: [&DatasetInfo; 9] = [
    ForwarderStatus::INFO,
    FaceStatus::INFO,
    ChannelStatus::INFO,
    NextHopRecord::INFO,
    FibEntry::INFO,
    RouteRecord::INFO,
    RibEntry::INFO,
    CsInfo::INFO,
    StrategyChoice::INFO,
];

/// Adds the types of datasets. The type of a face has its link, too.
///
/// # Errors
/// A field has a type without a shape.
pub(super) fn declare_datasets(types: &mut Types) -> Result<(), String> {
    for info in DATASETS {
        let mut fields = fields_of(info)?;
        if info == FaceStatus::INFO {
            let shape = Shape::Optional(Box::new(Shape::Object("LinkCounters".to_owned())));
            let help = "State and counters of the link; null if the face has gone meanwhile.";
            fields.push(("link", help, shape));
        }
        types.add(info.name, info.help, fields);
    }
    Ok(())
}

/// The fields of a structure: name, help text, shape. Flags are a field each, and origins words.
fn fields_of(
    info: &'static DatasetInfo,
) -> Result<Vec<(&'static str, &'static str, Shape)>, String> {
    let mut fields = Vec::new();
    for field in info.fields {
        match field.part {
            Some(part) => fields.extend(fields_of(part)?),
            None if field.name == "flags" => {
                let flags = flags_of(info).iter();
                fields.extend(flags.map(|(name, _, help)| (*name, *help, Shape::Truth)));
            }
            None if field.name == "origin" => fields.push((field.name, field.help, Shape::Text)),
            None => fields.push((field.name, field.help, Shape::parse(field.of)?)),
        }
    }
    Ok(fields)
}

/// A value of a dataset as JSON, with the same fields.
fn json_of_value(value: DatasetValue) -> Value {
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
        if field.part.is_some()
            && let DatasetValue::Structure(part, values) = value
        {
            insert_fields(into, part, values);
        } else if field.name == "flags"
            && let DatasetValue::Number(bits) = value
        {
            let flags = flags_of(info).iter();
            into.extend(flags.map(|(name, bit, _)| ((*name).to_owned(), (bits & bit != 0).into())));
        } else if field.name == "origin"
            && let DatasetValue::Number(origin) = value
        {
            into.insert(field.name.to_owned(), route_origin_text(origin).into());
        } else {
            into.insert(field.name.to_owned(), json_of_value(value));
        }
    }
}

/// The flags of a structure.
fn flags_of(info: &DatasetInfo) -> &'static [Flag] {
    match info.name {
        "FaceProperties" => &FACE_FLAGS,
        "CsInfo" => &CS_FLAGS,
        "RouteRecord" => &ROUTE_FLAGS,
        _ => &[],
    }
}

/// A flag: field or argument, bit, help text.
type Flag = (&'static str, u64, &'static str);

const FACE_FLAGS: [Flag; 3] = [
    (
        "localFields",
        face_flag::LOCAL_FIELDS,
        "Whether applications may set NextHopFaceId and similar fields.",
    ),
    ("reliability", face_flag::LP_RELIABILITY, "Whether the link is reliable."),
    ("congestionMarking", face_flag::CONGESTION_MARKING, "Whether the face marks congestion."),
];

const CS_FLAGS: [Flag; 2] = [
    ("admit", cs_flag::ADMIT, "Whether Data are cached."),
    ("serve", cs_flag::SERVE, "Whether cached Data answer Interests."),
];

const ROUTE_FLAGS: [Flag; 2] = [
    (
        "childInherit",
        route_flag::CHILD_INHERIT,
        "Whether longer prefixes inherit the route; true by default.",
    ),
    ("capture", route_flag::CAPTURE, "Whether routes of shorter prefixes are not used."),
];

/// Which part of a dataset is selected.
#[derive(Debug, Clone, Default)]
struct Selection {
    /// Maximum number of items.
    first: usize,
    /// Number of items to leave out before.
    skip: usize,
    /// Only faces with higher FaceIds.
    after: Option<u64>,
    /// Only names with this prefix.
    prefix: Name,
    /// Whether the link counters of faces are selected.
    with_links: bool,
}

/// How the items of a dataset are selected.
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
            let selection = selection(&context)?;
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
            field.argument(InputValue::new("first", number()).description(first)).argument(
                InputValue::new("after", number())
                    .description("Only faces with higher FaceIds, to continue a list."),
            )
        }
        Paging::Names => field
            .argument(InputValue::new("first", number()).description(first))
            .argument(
                InputValue::new("skip", number())
                    .description("Number of items to leave out before, to continue a list."),
            )
            .argument(
                InputValue::new("prefix", TypeRef::named(TypeRef::STRING))
                    .description("Only names with this prefix, a URI."),
            ),
    })
}

fn selection(context: &ResolverContext<'_>) -> Result<Selection, Error> {
    let number = |name: &str| number(context, name);
    let first = number("first")?.unwrap_or(ITEMS_DEFAULT);
    if first > ITEMS_MAX {
        return Err(bad_input(format!("first: the maximum is {ITEMS_MAX}")));
    }
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Ok(Selection {
        first: count(first),
        skip: count(number("skip")?.unwrap_or(0)),
        after: number("after")?,
        prefix: text(context, "prefix")?
            .map(|uri| name("prefix", &uri))
            .transpose()?
            .unwrap_or_default(),
        with_links: context.look_ahead().field("link").exists(),
    })
}

fn number(context: &ResolverContext<'_>, name: &str) -> Result<Option<u64>, Error> {
    let argument = context.args.get(name).filter(|value| !value.is_null());
    argument.map(|value| value.u64()).transpose()
}

fn text(context: &ResolverContext<'_>, name: &str) -> Result<Option<String>, Error> {
    let argument = context.args.get(name).filter(|value| !value.is_null());
    argument.map(|value| value.string().map(str::to_owned)).transpose()
}

fn truth(context: &ResolverContext<'_>, name: &str) -> Result<Option<bool>, Error> {
    let argument = context.args.get(name).filter(|value| !value.is_null());
    argument.map(|value| value.boolean()).transpose()
}

fn name(argument: &str, uri: &str) -> Result<Name, Error> {
    Name::from_uri(uri)
        .map_err(|error| bad_input(format!("{argument}: {uri} is not a name: {error}")))
}

/// A result as JSON. The structures consist of texts, numbers and lists, which always have JSON.
fn json(value: impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

/// The selected items of a list of names.
fn named<T: Described>(
    mut items: Vec<T>,
    selection: &Selection,
    name_of: impl Fn(&T) -> &Name,
) -> Value {
    items.retain(|item| name_of(item).starts_with(selection.prefix.as_ref()));
    items.sort_by(|a, b| name_of(a).cmp(name_of(b)));
    let selected = items.iter().skip(selection.skip).take(selection.first);
    selected.map(|item| json_of_value(item.value())).collect()
}

fn read_status(operations: &dyn Operations, _: &Selection) -> Result<Value, CallError> {
    Ok(json_of_value(ManagementBy(operations).status()?.value()))
}

fn read_faces(operations: &dyn Operations, selection: &Selection) -> Result<Value, CallError> {
    let mut faces = ManagementBy(operations).faces()?;
    faces.sort_unstable_by_key(|face| face.properties.face_id);
    faces.retain(|face| selection.after.is_none_or(|after| face.properties.face_id > after));
    faces.truncate(selection.first);
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
    let entries = ManagementBy(operations).dataset::<FibEntry>(&Dataset::FibList)?;
    Ok(named(entries, selection, |entry| &entry.name))
}

fn read_rib(operations: &dyn Operations, selection: &Selection) -> Result<Value, CallError> {
    let entries = ManagementBy(operations).routes()?;
    Ok(named(entries, selection, |entry| &entry.name))
}

fn read_cs(operations: &dyn Operations, _: &Selection) -> Result<Value, CallError> {
    let infos = ManagementBy(operations).dataset::<CsInfo>(&Dataset::CsInfo)?;
    let info = infos.first().map(|info| json_of_value(info.value()));
    info.ok_or_else(|| CallError::Malformed("no CsInfo".to_owned()))
}

fn read_strategies(operations: &dyn Operations, selection: &Selection) -> Result<Value, CallError> {
    let dataset = Dataset::StrategyChoiceList;
    let choices = ManagementBy(operations).dataset::<StrategyChoice>(&dataset)?;
    Ok(named(choices, selection, |choice| &choice.name))
}

/// The name of a command in the schema, such as `ribRegister`.
pub(super) fn command_name(verb: Verb) -> String {
    camel(&format!("{}.{}", verb.module().as_str(), verb.as_str()))
}

/// The fields of commands.
pub(super) fn mutations() -> impl Iterator<Item = Field> {
    Verb::ALL.into_iter().map(mutation)
}

fn mutation(verb: Verb) -> Field {
    let of = Shape::Object("Parameters".to_owned());
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
            Ok(of.value(&json(shown(&done?))))
        })
    });
    let help = format!("`{verb}` of NFD management; role {}.", Role::Operate);
    arguments(verb).into_iter().fold(field.description(help), Field::argument)
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

/// An argument of commands, with its help text.
struct Argument {
    parameter: Parameter,
    name: &'static str,
    of: &'static str,
    help: &'static str,
}

/// The arguments for parameters. Flags and Mask are arguments of their own.
const ARGUMENTS: [Argument; 14] = [
    argument(Parameter::Name, "name", TypeRef::STRING, "Prefix, as a URI."),
    argument(Parameter::FaceId, "faceId", NUMBER, "FaceId."),
    argument(Parameter::Uri, "uri", TypeRef::STRING, "Remote face URI."),
    argument(Parameter::LocalUri, "localUri", TypeRef::STRING, "Local face URI."),
    argument(
        Parameter::Origin,
        "origin",
        TypeRef::STRING,
        "Origin of the route: a word such as `static`, or a number.",
    ),
    argument(Parameter::Cost, "cost", NUMBER, "Cost; lower is preferred."),
    argument(Parameter::Capacity, "capacity", NUMBER, "Capacity, packets."),
    argument(Parameter::Count, "count", NUMBER, "Maximum number of packets."),
    argument(Parameter::Strategy, "strategy", TypeRef::STRING, "Name of the strategy, as a URI."),
    argument(
        Parameter::ExpirationPeriod,
        "expirationPeriodMs",
        NUMBER,
        "Lifetime of the route, milliseconds.",
    ),
    argument(
        Parameter::Persistency,
        "persistency",
        TypeRef::STRING,
        "`persistent` or `permanent`.",
    ),
    argument(
        Parameter::BaseCongestionMarkingInterval,
        "baseCongestionMarkingIntervalNs",
        NUMBER,
        "Interval of congestion marking, nanoseconds.",
    ),
    argument(
        Parameter::DefaultCongestionThreshold,
        "defaultCongestionThreshold",
        NUMBER,
        "Queue length at which congestion marking starts, bytes.",
    ),
    argument(Parameter::Mtu, "mtu", NUMBER, "Maximum length of a packet, bytes."),
];

const fn argument(
    parameter: Parameter,
    name: &'static str,
    of: &'static str,
    help: &'static str,
) -> Argument {
    Argument { parameter, name, of, help }
}

/// The flags of a command.
const fn flags(verb: Verb) -> &'static [Flag] {
    match verb {
        Verb::FaceCreate | Verb::FaceUpdate => &FACE_FLAGS,
        Verb::CsConfig => &CS_FLAGS,
        Verb::RibRegister => &ROUTE_FLAGS,
        Verb::FaceDestroy
        | Verb::FibAddNextHop
        | Verb::FibRemoveNextHop
        | Verb::CsErase
        | Verb::StrategySet
        | Verb::StrategyUnset
        | Verb::RibUnregister
        | Verb::RibAnnounce => &[],
    }
}

/// The arguments of a command, by the rules of its fields.
fn arguments(verb: Verb) -> Vec<InputValue> {
    let (required, optional) = (verb.required_fields(), verb.optional_fields());
    let mut arguments = Vec::new();
    for Argument { parameter, name, of, help } in &ARGUMENTS {
        if required.contains(parameter) {
            arguments.push(InputValue::new(*name, TypeRef::named_nn(*of)).description(*help));
        } else if optional.contains(parameter) {
            arguments.push(InputValue::new(*name, TypeRef::named(*of)).description(*help));
        }
    }
    if optional.contains(&Parameter::Driver) {
        let help = "Driver of an Ethernet face: `packet` or `xdp`.";
        arguments
            .push(InputValue::new("driver", TypeRef::named(TypeRef::STRING)).description(help));
    }
    for (name, _, help) in flags(verb) {
        arguments.push(InputValue::new(*name, TypeRef::named(TypeRef::BOOLEAN)).description(*help));
    }
    if verb == Verb::RibAnnounce {
        let help = "The prefix announcement: a Data packet, in base64.";
        arguments.push(
            InputValue::new("announcement", TypeRef::named_nn(TypeRef::STRING)).description(help),
        );
    }
    arguments
}

/// The command of the arguments.
fn command(verb: Verb, context: &ResolverContext<'_>) -> Result<Command, Error> {
    if verb == Verb::RibAnnounce {
        let announcement = text(context, "announcement")?.unwrap_or_default();
        let decoded = BASE64.decode(announcement);
        let decoded = decoded.map_err(|error| bad_input(format!("announcement: {error}")))?;
        return Ok(Command::Announcement(decoded));
    }
    let number = |name: &str| number(context, name);
    let mut parameters = ControlParameters {
        name: text(context, "name")?.map(|uri| name("name", &uri)).transpose()?,
        face_id: number("faceId")?,
        uri: text(context, "uri")?,
        local_uri: text(context, "localUri")?,
        origin: word(context, "origin", route_origin_from_text)?,
        cost: number("cost")?,
        capacity: number("capacity")?,
        count: number("count")?,
        flags: None,
        mask: None,
        strategy: text(context, "strategy")?.map(|uri| name("strategy", &uri)).transpose()?,
        expiration_period_ms: number("expirationPeriodMs")?,
        face_persistency: word(context, "persistency", |word| {
            Persistency::from_word(word).map(Persistency::number)
        })?,
        base_congestion_marking_interval_ns: number("baseCongestionMarkingIntervalNs")?,
        default_congestion_threshold: number("defaultCongestionThreshold")?,
        mtu: number("mtu")?,
        driver: word(context, "driver", |word| {
            FaceDriver::from_word(word).map(FaceDriver::number)
        })?,
    };
    for (name, bit, _) in flags(verb) {
        if let Some(value) = truth(context, name)? {
            parameters.set_flag(*bit, value);
        }
    }
    if verb == Verb::RibRegister {
        // A route has flags, but no mask.
        let given = parameters.flags.take().unwrap_or(0);
        let mask = parameters.mask.take().unwrap_or(0);
        parameters.flags = Some(given | (route_flag::CHILD_INHERIT & !mask));
    }
    Ok(Command::Parameters(verb, Box::new(parameters)))
}

/// An argument that is one of some words.
fn word(
    context: &ResolverContext<'_>,
    name: &str,
    number_of: impl Fn(&str) -> Option<u64>,
) -> Result<Option<u64>, Error> {
    let Some(word) = text(context, name)? else { return Ok(None) };
    let number = number_of(&word);
    number.map(Some).ok_or_else(|| bad_input(format!("{name}: `{word}` is unknown")))
}

/// The parameters of a response.
fn shown(parameters: &ControlParameters) -> Parameters {
    let persistency = parameters.face_persistency.and_then(Persistency::from_number);
    Parameters {
        name: parameters.name.as_ref().map(ToString::to_string),
        face_id: parameters.face_id,
        uri: parameters.uri.clone(),
        local_uri: parameters.local_uri.clone(),
        origin: parameters.origin.map(route_origin_text),
        cost: parameters.cost,
        capacity: parameters.capacity,
        count: parameters.count,
        flags: parameters.flags,
        strategy: parameters.strategy.as_ref().map(ToString::to_string),
        expiration_period_ms: parameters.expiration_period_ms,
        persistency: persistency.map(|persistency| persistency.to_string()),
        base_congestion_marking_interval_ns: parameters.base_congestion_marking_interval_ns,
        default_congestion_threshold: parameters.default_congestion_threshold,
        mtu: parameters.mtu,
    }
}
