//! `tasks`: traffic generators, fetches, file servers and benchmarks that the API starts and stops.

use std::path::Path;
use std::time::Duration;

use async_graphql::Error;
use async_graphql::dynamic::{
    Field, FieldFuture, FieldValue, InputValue, ResolverContext, SubscriptionField,
    SubscriptionFieldFuture, TypeRef,
};
use futures_util::stream::unfold;
use ndn_packet::Name;
use ndn_types::FaceUri;
use rustix::process::Signal;
use serde_json::{Map, Value, json};

use super::access::{self, bad_input, refusal};
use super::management::{number, text, truth};
use super::shapes::{NUMBER, Shape, Types, json_of};
use crate::calls::unix_ms;
use crate::tasks::{Order, Tasks};
use crate::tokens::Role;

/// Time after the request to stop at which a task is killed.
const STOP_TIME: Duration = Duration::from_secs(10);
/// Maximum number of names of a task.
const NAMES_MAX: usize = 64;

/// Form of an argument on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Names, at the end of the command line.
    Names,
    /// A name, at the end of the command line.
    Name,
    /// A permitted directory, at the end of the command line.
    Directory,
    /// The name of an option that has the address of a forwarder on another host as its value.
    TransportOf(&'static str),
    /// The name of an option that has a name as its value.
    NameOf(&'static str),
    /// The name of an option that has a file in a permitted directory as its value.
    FileOf(&'static str),
    /// The name of an option, and the unit of its value.
    NumberOf(&'static str, &'static str),
    /// The name of an option that has a number with a fraction as its value.
    DecimalOf(&'static str),
    /// The name of an option that has one of these words as its value.
    WordOf(&'static str, &'static [&'static str]),
    /// The name of an option without a value.
    Flag(&'static str),
}

/// An argument.
struct Parameter {
    name: &'static str,
    form: Form,
    is_required: bool,
    /// The role that its use takes.
    role: Role,
    help: &'static str,
}

impl Parameter {
    fn is_given(&self, context: &ResolverContext<'_>) -> bool {
        context.args.get(self.name).is_some_and(|value| !value.is_null())
    }
}

const fn required(name: &'static str, form: Form, help: &'static str) -> Parameter {
    Parameter { name, form, is_required: true, role: Role::Operate, help }
}

const fn optional(name: &'static str, form: Form, help: &'static str) -> Parameter {
    Parameter { is_required: false, ..required(name, form, help) }
}

/// A kind of task.
struct Kind {
    name: &'static str,
    field: &'static str,
    command: &'static [&'static str],
    /// The role that a start takes, whatever its arguments.
    role: Role,
    has_metrics: bool,
    help: &'static str,
    parameters: &'static [Parameter],
    /// Arguments of which only one can be given.
    alternatives: &'static [&'static str],
}

impl Kind {
    /// The role that a start with these arguments takes: the highest of those of its kind and of its arguments.
    fn role_of(&self, context: &ResolverContext<'_>) -> Role {
        let given = self.parameters.iter().filter(|parameter| parameter.is_given(context));
        given.map(|parameter| parameter.role).fold(self.role, Role::max)
    }
}

const PAYLOAD: &str = "Content bytes of a Data.";

/// Another forwarder than this one: this host then sends packets to any address.
const TRANSPORT: Parameter = Parameter {
    role: Role::Admin,
    ..optional(
        "transport",
        Form::TransportOf("--transport"),
        "The forwarder to connect to, `udp://…` or `tcp://…`; this one by default.",
    )
};

const KINDS: [Kind; 6] = [
    Kind {
        name: "trafficProducer",
        field: "trafficProducerStart",
        command: &["traffic", "producer", "--json"],
        role: Role::Operate,
        has_metrics: true,
        help: "Answers Interests with Data (`namewire traffic producer`).",
        parameters: &[
            required("prefixes", Form::Names, "Prefixes of the Interests."),
            optional("payload", Form::NumberOf("--payload", "B"), PAYLOAD),
            optional(
                "digest",
                Form::Flag("--digest"),
                "Whether Data are signed with their digest.",
            ),
            optional(
                "suffix",
                Form::NameOf("--suffix"),
                "Appended to the names of Data, for Interests with CanBePrefix.",
            ),
            TRANSPORT,
            optional(
                "localhop",
                Form::Flag("--localhop"),
                "Whether the prefixes are registered under `/localhop/nfd`, which takes `management.localhop_rib` \
                 of that forwarder.",
            ),
        ],
        alternatives: &[],
    },
    Kind {
        name: "trafficConsumer",
        field: "trafficConsumerStart",
        command: &["traffic", "consumer", "--json"],
        role: Role::Operate,
        has_metrics: true,
        help: "Sends Interests and measures the answers (`namewire traffic consumer`).",
        parameters: &[
            required("prefixes", Form::Names, "Prefixes of the Interests, with equal shares."),
            optional(
                "window",
                Form::NumberOf("--window", ""),
                "Interests in flight; 64 by default.",
            ),
            optional(
                "rate",
                Form::NumberOf("--rate", ""),
                "Interests per second, instead of a window.",
            ),
            optional("count", Form::NumberOf("--count", ""), "Number of Interests to send."),
            optional("durationS", Form::NumberOf("--duration", "s"), "Time to send, in seconds."),
            TRANSPORT,
        ],
        alternatives: &["window", "rate"],
    },
    Kind {
        name: "fetch",
        field: "fetchStart",
        command: &["get", "--json"],
        role: Role::Admin,
        has_metrics: true,
        help: "Fetches an object into a file (`namewire get`).",
        parameters: &[
            required("name", Form::Name, "Name of the object."),
            required(
                "file",
                Form::FileOf("--output"),
                "The file, in one of `control.http.directories`.",
            ),
        ],
        alternatives: &[],
    },
    Kind {
        name: "fileServer",
        field: "fileServerStart",
        command: &["serve", "--json"],
        role: Role::Admin,
        has_metrics: true,
        help: "Serves the files of a directory (`namewire serve`).",
        parameters: &[
            required("prefix", Form::NameOf("--prefix"), "Prefix of the files."),
            required(
                "directory",
                Form::Directory,
                "One of `control.http.directories`, or below one.",
            ),
        ],
        alternatives: &[],
    },
    Kind {
        name: "benchmarkFetch",
        field: "benchmarkFetchStart",
        command: &["bench", "page-fetch"],
        role: Role::Admin,
        has_metrics: false,
        help: "The consumer of a node of a benchmark on another host (`namewire bench page --node-b`): fetches content \
               without end, and keeps nothing of it. The result has a line of JSON with the figures so far, four times a \
               second.",
        parameters: &[
            required("names", Form::Names, "Names of the content, one fetch each."),
            Parameter { is_required: true, ..TRANSPORT },
            required("durationS", Form::NumberOf("--duration", "s"), "Time to fetch, in seconds."),
            optional(
                "canBePrefix",
                Form::Flag("--can-be-prefix"),
                "Whether Interests have CanBePrefix.",
            ),
            optional(
                "repeated",
                Form::Flag("--repeated"),
                "Whether every second fetch asks for what the one before has received.",
            ),
            optional(
                "verify",
                Form::Flag("--verify"),
                "Whether the digest of each Data is verified.",
            ),
            optional(
                "congestion",
                Form::WordOf("--window", &["cubic", "delay"]),
                "Congestion control: `cubic` (the default) or `delay`.",
            ),
            optional(
                "window",
                Form::NumberOf("--window", ""),
                "Constant window in Interests, instead of congestion control.",
            ),
        ],
        alternatives: &["congestion", "window"],
    },
    Kind {
        name: "benchmark",
        field: "benchmarkStart",
        command: &["bench", "page", "--headless", "--json", "--progress"],
        role: Role::Admin,
        has_metrics: false,
        help: "Measures a line of three nodes on this host, A–F–B, where F is another forwarder (`namewire bench page \
               --headless`). It takes processor time from this forwarder. The result is JSON; messages have lines of JSON \
               with live figures.",
        parameters: &[
            optional("workers", Form::NumberOf("--workers", ""), "Workers of F."),
            optional(
                "transport",
                Form::WordOf("--transport", &["unix", "udp", "tcp", "memif", "veth"]),
                "`unix`, `udp`, `tcp`, `memif`, or `veth` (takes root).",
            ),
            optional(
                "traffic",
                Form::WordOf("--traffic", &["a-to-b", "b-to-a", "both"]),
                "Direction of the content: `a-to-b`, `b-to-a` or `both`.",
            ),
            optional(
                "flows",
                Form::NumberOf("--flows", ""),
                "Fetches at a time in each direction.",
            ),
            optional("payload", Form::NumberOf("--payload", ""), PAYLOAD),
            optional("components", Form::NumberOf("--components", ""), "Components of names."),
            optional(
                "fileMib",
                Form::NumberOf("--file-mib", ""),
                "Size of each file, MiB, with the producer `files`.",
            ),
            optional(
                "fileCount",
                Form::NumberOf("--file-count", ""),
                "Files of each fetch, fetched in turn, with the producer `files`.",
            ),
            optional(
                "consumer",
                Form::WordOf("--consumer", &["fetcher", "get", "get-file"]),
                "`fetcher`, or with the producer `files` `get` (`namewire get` into the null device) or `get-file` (the same \
                 into files in memory).",
            ),
            optional(
                "delayMs",
                Form::DecimalOf("--delay-ms"),
                "Delay of the link between F and B in each direction, milliseconds; over UDP.",
            ),
            optional(
                "rateMbit",
                Form::NumberOf("--rate-mbit", ""),
                "Rate of that link in each direction, Mbit/s; 0 for none.",
            ),
            optional("loss", Form::DecimalOf("--loss"), "Loss on that link, a share of 1."),
            optional(
                "producer",
                Form::WordOf("--producer", &["generator", "files"]),
                "`generator`, or `files` for a file server.",
            ),
            optional(
                "interests",
                Form::WordOf("--interests", &["distinct", "repeated"]),
                "`distinct`, or `repeated`: every second fetch asks for what the one before has received.",
            ),
            optional(
                "verify",
                Form::Flag("--verify"),
                "Whether the digest of each Data is verified.",
            ),
            optional(
                "congestion",
                Form::WordOf("--congestion", &["cubic", "delay", "fixed"]),
                "Congestion control: `cubic`, `delay` or `fixed`.",
            ),
            optional(
                "window",
                Form::NumberOf("--window", ""),
                "Interests in flight of a fetch, with congestion control `fixed`.",
            ),
            optional(
                "peers",
                Form::WordOf("--peers", &["none", "nfd", "ndnd", "all", "transfer"]),
                "Measured in turn with it: `none`, `nfd`, `ndnd` or `all` in the place of F, or `transfer` (whole fetches \
                 through the same nodes, with the producer `files`).",
            ),
            optional(
                "durationS",
                Form::NumberOf("--duration", ""),
                "Time of each trial, in seconds.",
            ),
            optional("trials", Form::NumberOf("--trials", ""), "Number of trials."),
        ],
        alternatives: &[],
    },
];

/// Adds the type of the results.
pub(super) fn declare(types: &mut Types) {
    let kinds = "`trafficProducer`, `trafficConsumer`, `fetch`, `fileServer`, `benchmark` or `benchmarkFetch`.";
    let cpu = "CPU time of its process so far, nanoseconds; null after its end.";
    let state = "`running`, `stopping`, `stopped`, `done`, or `failed`.";
    let status = "Exit status; null while it runs, or if a signal has ended it.";
    let metrics = "Its metrics, as it serves them for Prometheus, rounded to whole numbers; none after its end.";
    types.add(
        "Task",
        "A command that the API has started. It is a process, and ends with the forwarder.",
        vec![
            ("id", "Its number.", Shape::Number),
            ("kind", kinds, Shape::Text),
            ("state", state, Shape::Text),
            ("arguments", "Arguments of the program.", Shape::List(Box::new(Shape::Text))),
            ("principal", "Name of the token that started it.", Shape::Text),
            ("unix_ms", "Time of its start, milliseconds since 1970.", Shape::Number),
            ("status", status, Shape::Optional(Box::new(Shape::Number))),
            ("messages", "Its messages: the last 16 KiB of standard error.", Shape::Text),
            ("result", "Its results: standard output, 1 MiB at most.", Shape::Text),
            ("metrics", metrics, Shape::Map(Box::new(Shape::Number))),
            ("cpu_ns", cpu, Shape::Optional(Box::new(Shape::Number))),
        ],
    );
}

fn task() -> Shape {
    Shape::Object("Task".to_owned())
}

/// The tasks that a query or subscription has selected.
struct Selected {
    tasks: Tasks,
    id: Option<u64>,
    result_after: usize,
    with_metrics: bool,
}

impl Selected {
    fn new(context: &ResolverContext<'_>) -> Result<Self, Error> {
        access::authorize(context, Role::Operate)?;
        let result_after = number(context, "resultAfter")?.unwrap_or(0);
        Ok(Self {
            tasks: context.data::<Tasks>()?.clone(),
            id: number(context, "id")?,
            result_after: usize::try_from(result_after).unwrap_or(usize::MAX),
            with_metrics: context.look_ahead().field("metrics").exists(),
        })
    }

    async fn read(&self) -> Vec<Value> {
        let mut found = self.tasks.list(self.id, self.result_after);
        if self.with_metrics {
            for task in &mut found {
                let metrics = self.tasks.metrics(task["id"].as_u64().unwrap_or(0)).await;
                task["metrics"] = json!(metrics);
            }
        }
        found
    }

    fn arguments() -> [InputValue; 2] {
        let help = "Only the results after this number of bytes, to continue reading them.";
        [
            InputValue::new("id", TypeRef::named(NUMBER)).description("Only this one."),
            InputValue::new("resultAfter", TypeRef::named(NUMBER)).description(help),
        ]
    }
}

const TASKS: &str = "Traffic generators, fetches, file servers and benchmarks that were started by the API, the latest 50 first";

/// The query `tasks`.
pub(super) fn query() -> Field {
    let shape = Shape::List(Box::new(task()));
    let field = Field::new("tasks", shape.type_ref(), move |context| {
        let shape = shape.clone();
        FieldFuture::new(async move {
            let found = Selected::new(&context)?.read().await;
            Ok(shape.value(&found.into()))
        })
    });
    let field = field.description(format!("{TASKS}; role operate."));
    Selected::arguments().into_iter().fold(field, Field::argument)
}

/// The subscription `tasks`.
pub(super) fn subscription() -> SubscriptionField {
    let shape = Shape::List(Box::new(task()));
    let field = SubscriptionField::new("tasks", shape.type_ref(), move |context| {
        let shape = shape.clone();
        SubscriptionFieldFuture::new(async move {
            let selected = Selected::new(&context)?;
            let changes = selected.tasks.changes();
            Ok(unfold((selected, changes, false), move |(selected, mut changes, is_later)| {
                let shape = shape.clone();
                async move {
                    if is_later {
                        selected.tasks.next_change(&mut changes).await?;
                    }
                    let found = selected.read().await;
                    let value = shape.value(&found.into()).unwrap_or(FieldValue::NULL);
                    Some((Ok::<_, Error>(value), (selected, changes, true)))
                }
            }))
        })
    });
    let help = "now, after each change, and each second while one of them runs; at most four times a second";
    let field = field.description(format!("{TASKS}: {help}; role operate."));
    Selected::arguments().into_iter().fold(field, SubscriptionField::argument)
}

/// The fields that start and stop tasks.
pub(super) fn mutations() -> Vec<Field> {
    KINDS.iter().map(start).chain([stop()]).collect()
}

fn start(kind: &'static Kind) -> Field {
    let field = Field::new(kind.field, task().type_ref(), move |context| {
        FieldFuture::new(async move {
            let role = kind.role_of(&context);
            let (calls, principal) = access::authorize(&context, role)?;
            let given: Map<String, Value> = context
                .args
                .iter()
                .map(|(name, value)| (name.to_string(), json_of(value.as_value())))
                .collect();
            let tasks = context.data::<Tasks>()?.clone();
            let started = match arguments(kind, &context, &tasks) {
                Err(error) => Err(error),
                Ok(arguments) => {
                    let name = principal.name.clone();
                    let started = calls.call(move |operations| {
                        let (kind, principal) = (kind.name, name);
                        let unix_ms = unix_ms(operations);
                        let id =
                            tasks.start(Order { kind, role, arguments, principal, unix_ms })?;
                        Ok(tasks.list(Some(id), 0).pop().unwrap_or_default())
                    });
                    started.await.map_err(|failure| access::unanswered(&failure))
                }
            };
            access::log_change(&principal, kind.field, &given.into(), &started);
            Ok(task().value(&started?))
        })
    });
    let argument = |field: Field, parameter: &Parameter| {
        let (required, named) = (TypeRef::named_nn, TypeRef::named);
        let of = match (parameter.form, parameter.is_required) {
            (Form::Names, _) => TypeRef::named_nn_list_nn(TypeRef::STRING),
            (Form::NumberOf(..), true) => required(NUMBER),
            (Form::NumberOf(..), false) => named(NUMBER),
            (Form::DecimalOf(_), _) => named(TypeRef::FLOAT),
            (Form::Flag(_), _) => named(TypeRef::BOOLEAN),
            (_, true) => required(TypeRef::STRING),
            (_, false) => named(TypeRef::STRING),
        };
        let help = match parameter.role > kind.role {
            true => format!("{} Role {}.", parameter.help, parameter.role),
            false => parameter.help.to_owned(),
        };
        field.argument(InputValue::new(parameter.name, of).description(help))
    };
    let field = kind.parameters.iter().fold(field, argument);
    field.description(format!("{} Role {}.", kind.help, kind.role))
}

/// The arguments of the program. Values cannot be taken for options: those of options follow `=`, others `--`.
fn arguments(
    kind: &Kind,
    context: &ResolverContext<'_>,
    tasks: &Tasks,
) -> Result<Vec<String>, Error> {
    let alternatives = kind.parameters.iter().filter(|one| kind.alternatives.contains(&one.name));
    if alternatives.filter(|one| one.is_given(context)).count() > 1 {
        let names = kind.alternatives.join(" and ");
        return Err(bad_input(format!("{names}: only one of them can be given")));
    }
    let state = &tasks.programs().map_err(refusal)?.state;
    let mut options: Vec<String> = kind.command.iter().map(|&word| word.to_owned()).collect();
    let mut others = Vec::new();
    if kind.has_metrics {
        options.push("--metrics=127.0.0.1:0".to_owned());
    } else if kind.name == "benchmark" {
        options.extend(history_file(state.as_deref()));
    }
    for Parameter { name, form, .. } in kind.parameters {
        match *form {
            Form::Names => {
                let names = context.args.try_get(name)?.list()?;
                let names = names.iter().map(|one| uri(name, one.string()?));
                others.extend(names.collect::<Result<Vec<_>, _>>()?);
                if others.is_empty() || others.len() > NAMES_MAX {
                    return Err(bad_input(format!("{name}: 1 to {NAMES_MAX} names")));
                }
            }
            Form::NumberOf(option, unit) => {
                let value = number(context, name)?;
                options.extend(value.map(|value| format!("{option}={value}{unit}")));
            }
            Form::DecimalOf(option) => {
                let value = context.args.get(name).filter(|value| !value.is_null());
                let value = value.map(|value| value.f64()).transpose()?;
                options.extend(value.map(|value| format!("{option}={value}")));
            }
            Form::Flag(option) => {
                options.extend(truth(context, name)?.filter(|set| *set).map(|_| option.to_owned()));
            }
            Form::WordOf(option, words) => {
                let Some(value) = text(context, name)? else { continue };
                if !words.contains(&value.as_str()) {
                    let words = words.join(", ");
                    return Err(bad_input(format!("{name}: `{value}` is not one of {words}")));
                }
                options.push(format!("{option}={value}"));
            }
            Form::NameOf(option) => {
                let Some(value) = text(context, name)? else { continue };
                options.push(format!("{option}={}", uri(name, &value)?));
            }
            Form::TransportOf(option) => {
                let Some(value) = text(context, name)? else { continue };
                let scheme = value.split_once("://").map_or("", |(scheme, _)| scheme);
                // Others would be files of this host.
                if !FaceUri::IP_SCHEMES.contains(&scheme) {
                    let schemes = FaceUri::IP_SCHEMES.join("://, ");
                    return Err(bad_input(format!("{name}: `{value}` is not one of {schemes}://")));
                }
                options.push(format!("{option}={value}"));
            }
            Form::FileOf(option) => {
                let value = text(context, name)?.unwrap_or_default();
                options.push(format!("{option}={}", file(name, &value, tasks)?));
            }
            Form::Name => others.push(uri(name, &text(context, name)?.unwrap_or_default())?),
            Form::Directory => {
                let value = text(context, name)?.unwrap_or_default();
                let permitted = tasks.permitted(Path::new(&value));
                let permitted =
                    permitted.map_err(|reason| bad_input(format!("{name}: {reason}")))?;
                others.push(permitted.display().to_string());
            }
        }
    }
    if !others.is_empty() {
        options.push("--".to_owned());
    }
    Ok([options, others].concat())
}

/// The option with the file of the history, in this directory of files that tasks keep.
fn history_file(state: Option<&Path>) -> Option<String> {
    Some(format!("--history={}", state?.join("bench.sqlite").display()))
}

/// The query `benchmarkHistory`.
pub(super) fn history() -> Field {
    let text = Shape::Text;
    let field = Field::new("benchmarkHistory", text.type_ref(), move |context| {
        let text = text.clone();
        FieldFuture::new(async move {
            access::authorize(&context, Role::Operate)?;
            let tasks = context.data::<Tasks>()?.clone();
            let mut arguments: Vec<String> = ["bench", "page-history"].map(str::to_owned).into();
            arguments.extend(history_file(tasks.programs().map_err(refusal)?.state.as_deref()));
            for (name, option, _) in HISTORY_ARGUMENTS {
                let value = number(&context, name)?;
                arguments.extend(value.map(|value| format!("{option}={value}")));
            }
            let read = tasks.read_history(&arguments).await;
            Ok(text.value(&read.map_err(|failure| access::unanswered(&failure))?.into()))
        })
    });
    let help = "Benchmarks that this forwarder has started, as JSON: the latest 50, or two of them compared (`namewire \
                bench page`); role operate.";
    let arguments = HISTORY_ARGUMENTS
        .into_iter()
        .map(|(name, _, help)| InputValue::new(name, TypeRef::named(NUMBER)).description(help));
    arguments.fold(field.description(help), Field::argument)
}

/// Arguments of the history, with the options of the program.
const HISTORY_ARGUMENTS: [(&str, &str, &str); 3] = [
    ("before", "--before", "The latest 50 before this number."),
    ("first", "--first", "Number of the one that the second is compared with."),
    ("second", "--second", "Number of the second."),
];

/// A name as the program takes it.
fn uri(argument: &str, value: &str) -> Result<String, Error> {
    let name = Name::from_uri(value);
    let name = name.map_err(|error| bad_input(format!("{argument}: {value}: {error}")))?;
    Ok(name.to_uri())
}

/// A file in a permitted directory, which need not exist.
fn file(argument: &str, value: &str, tasks: &Tasks) -> Result<String, Error> {
    let path = Path::new(value);
    let parts = path.parent().zip(path.file_name());
    let wrong = |reason: &str| bad_input(format!("{argument}: {reason}"));
    let (directory, name) = parts.ok_or_else(|| wrong("it is not the path of a file"))?;
    let directory = tasks.permitted(directory).map_err(|reason| wrong(&reason))?;
    Ok(directory.join(name).display().to_string())
}

/// `taskStop`.
fn stop() -> Field {
    let field = Field::new("taskStop", task().type_ref(), |context| {
        FieldFuture::new(async move {
            let (_, principal) = access::authorize(&context, Role::Operate)?;
            let id = context.args.try_get("id")?.u64()?;
            let tasks = context.data::<Tasks>()?.clone();
            let role = tasks.role_of(id);
            let role = role.ok_or_else(|| bad_input(format!("id: there is no task {id}")))?;
            access::authorize(&context, role)?;
            let stopped = match tasks.signal(id, Signal::INT) {
                true => Ok(()),
                false => Err(refusal(format!("task {id} has ended"))),
            };
            access::log_change(&principal, "taskStop", &json!({ "id": id }), &stopped);
            stopped?;
            let task = tasks.list(Some(id), 0).pop().unwrap_or_default();
            tokio::spawn(async move {
                tokio::time::sleep(STOP_TIME).await;
                tasks.signal(id, Signal::KILL);
            });
            Ok(self::task().value(&task))
        })
    });
    let id = InputValue::new("id", TypeRef::named_nn(NUMBER)).description("Its number.");
    let help = "Ends a task as an interrupt does; it is killed if it has not ended after 10 s. Takes the role that its \
                start takes.";
    field.argument(id).description(help)
}
