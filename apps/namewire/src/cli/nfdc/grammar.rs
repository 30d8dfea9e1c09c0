//! The commands of nfdc and the grammar of their arguments: positional ones first, then by name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use ndn_management::route_origin_from_text;
use ndn_packet::Name;
use ndn_types::{FaceUri, Persistency};

/// The kind of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A flag.
    Flag,
    Boolean,
    Unsigned,
    Text,
    ReportFormat,
    Name,
    FaceUri,
    FaceIdOrUri,
    Persistency,
    Origin,
}

/// One argument of one command.
struct Argument {
    name: &'static str,
    kind: Kind,
    is_required: bool,
    is_positional: bool,
    /// The name of the value in the manual, if it differs from the kind.
    word: Option<&'static str>,
}

struct Definition {
    command: &'static str,
    title: &'static str,
    arguments: &'static [Argument],
}

const fn must(name: &'static str, kind: Kind) -> Argument {
    Argument { name, kind, is_required: true, is_positional: true, word: None }
}

const fn may(name: &'static str, kind: Kind) -> Argument {
    Argument { name, kind, is_required: false, is_positional: true, word: None }
}

const fn named(name: &'static str, kind: Kind) -> Argument {
    Argument { name, kind, is_required: false, is_positional: false, word: None }
}

const fn command(
    command: &'static str,
    title: &'static str,
    arguments: &'static [Argument],
) -> Definition {
    Definition { command, title, arguments }
}

/// In the order of the help.
const COMMANDS: [Definition; 19] = [
    command("status report", "print full status report", &[may("format", Kind::ReportFormat)]),
    command("status show", "print general status", &[]),
    command("channel list", "print channel list", &[]),
    command("fib list", "print FIB entries", &[]),
    command("cs info", "print CS information", &[]),
    command(
        "face list",
        "print face list",
        &[
            may("remote", Kind::FaceUri),
            named("local", Kind::FaceUri),
            Argument { word: Some("scheme"), ..named("scheme", Kind::Text) },
        ],
    ),
    command("face show", "show face information", &[must("id", Kind::Unsigned)]),
    command(
        "face create",
        "create a face",
        &[
            must("remote", Kind::FaceUri),
            may("persistency", Kind::Persistency),
            named("local", Kind::FaceUri),
            named("reliability", Kind::Boolean),
            named("congestion-marking", Kind::Boolean),
            named("congestion-marking-interval", Kind::Unsigned),
            named("default-congestion-threshold", Kind::Unsigned),
            named("mtu", Kind::Text),
        ],
    ),
    command("face destroy", "destroy a face", &[must("face", Kind::FaceIdOrUri)]),
    command(
        "route list",
        "print RIB routes",
        &[may("nexthop", Kind::FaceIdOrUri), named("origin", Kind::Origin)],
    ),
    command("route show", "show routes toward a prefix", &[must("prefix", Kind::Name)]),
    command(
        "route add",
        "add a route",
        &[
            must("prefix", Kind::Name),
            must("nexthop", Kind::FaceIdOrUri),
            named("origin", Kind::Origin),
            named("cost", Kind::Unsigned),
            named("no-inherit", Kind::Flag),
            named("capture", Kind::Flag),
            named("expires", Kind::Unsigned),
        ],
    ),
    command(
        "route remove",
        "remove a route",
        &[
            must("prefix", Kind::Name),
            must("nexthop", Kind::FaceIdOrUri),
            named("origin", Kind::Origin),
        ],
    ),
    command(
        "cs config",
        "change CS configuration",
        &[
            named("capacity", Kind::Unsigned),
            named("admit", Kind::Boolean),
            named("serve", Kind::Boolean),
        ],
    ),
    command(
        "cs erase",
        "erase cached Data",
        &[must("prefix", Kind::Name), named("count", Kind::Unsigned)],
    ),
    command("strategy list", "print strategy choices", &[]),
    command("strategy show", "show strategy choice of an entry", &[must("prefix", Kind::Name)]),
    command(
        "strategy set",
        "set strategy choice for a name prefix",
        &[must("prefix", Kind::Name), must("strategy", Kind::Name)],
    ),
    command(
        "strategy unset",
        "clear strategy choice at a name prefix",
        &[must("prefix", Kind::Name)],
    ),
];

/// The default verb of a noun.
const ALIASES: [(&str, &str); 7] = [
    ("status", "status show"),
    ("channel", "channel list"),
    ("fib", "fib list"),
    ("cs", "cs info"),
    ("face", "face list"),
    ("route", "route list"),
    ("strategy", "strategy list"),
];

/// The words that may follow those of a command: nouns, verbs, then the names of arguments that are not given yet.
pub(in crate::cli) fn words_after(words: &[String]) -> BTreeSet<&'static str> {
    let parts = COMMANDS.iter().filter_map(|known| known.command.split_once(' '));
    match words {
        [] => parts.map(|(noun, _)| noun).collect(),
        [noun] => parts.filter(|(known, _)| known == noun).map(|(_, verb)| verb).collect(),
        [noun, verb, given @ ..] => {
            let command = format!("{noun} {verb}");
            let known = COMMANDS.iter().find(|known| known.command == command);
            let arguments = known.into_iter().flat_map(|known| known.arguments);
            arguments
                .filter(|argument| !argument.is_positional)
                .map(|argument| argument.name)
                .filter(|name| !given.iter().any(|word| word == name))
                .collect()
        }
    }
}

/// A parsed value.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Flag,
    Boolean(bool),
    Unsigned(u64),
    Text(String),
    Name(Name),
    Uri(FaceUri),
    Persistency(Persistency),
}

/// A face by its FaceId or by the URI of its peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FaceReference {
    Id(u64),
    Uri(FaceUri),
}

/// A command with its arguments.
#[derive(Debug, PartialEq)]
pub(super) struct Parsed {
    /// Noun and verb.
    pub(super) command: &'static str,
    pub(super) arguments: Arguments,
}

/// Arguments by name, each of its kind.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Arguments {
    values: BTreeMap<&'static str, Value>,
}

impl Arguments {
    pub(super) fn flag(&self, name: &str) -> bool {
        matches!(self.values.get(name), Some(Value::Flag))
    }

    pub(super) fn boolean(&self, name: &str) -> Option<bool> {
        if let Some(Value::Boolean(value)) = self.values.get(name) { Some(*value) } else { None }
    }

    pub(super) fn unsigned(&self, name: &str) -> Option<u64> {
        if let Some(Value::Unsigned(value)) = self.values.get(name) { Some(*value) } else { None }
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        if let Some(Value::Text(value)) = self.values.get(name) { Some(value) } else { None }
    }

    pub(super) fn name(&self, name: &str) -> Option<&Name> {
        if let Some(Value::Name(value)) = self.values.get(name) { Some(value) } else { None }
    }

    pub(super) fn uri(&self, name: &str) -> Option<&FaceUri> {
        if let Some(Value::Uri(value)) = self.values.get(name) { Some(value) } else { None }
    }

    pub(super) fn face(&self, name: &str) -> Option<FaceReference> {
        let id = self.unsigned(name).map(FaceReference::Id);
        id.or_else(|| self.uri(name).cloned().map(FaceReference::Uri))
    }

    pub(super) fn persistency(&self, name: &str) -> Option<Persistency> {
        if let Some(Value::Persistency(value)) = self.values.get(name) {
            Some(*value)
        } else {
            None
        }
    }
}

/// Parses a command.
pub(super) fn parse(words: &[&str]) -> Result<Parsed, String> {
    let noun = words.first().copied().unwrap_or_default();
    let verb = words.get(1).copied().unwrap_or_default();
    let alias = ALIASES.iter().find(|(alias, _)| words.len() == 1 && *alias == noun);
    let requested = match alias {
        Some((_, command)) => (*command).to_owned(),
        None => format!("{noun} {verb}"),
    };
    let definition = COMMANDS
        .iter()
        .find(|definition| definition.command == requested)
        .ok_or_else(|| format!("No such command: {noun} {verb}"))?;
    let arguments = parse_arguments(definition.arguments, words.get(2..).unwrap_or_default())?;
    Ok(Parsed { command: definition.command, arguments })
}

fn parse_arguments(known: &'static [Argument], words: &[&str]) -> Result<Arguments, String> {
    let mut arguments = Arguments::default();
    let mut positional = known.iter().filter(|argument| argument.is_positional).peekable();
    let mut words = words.iter();
    'words: while let Some(word) = words.next() {
        if let Some(argument) = known.iter().find(|argument| argument.name == *word) {
            let value = if argument.kind == Kind::Flag {
                Value::Flag
            } else {
                let (name, kind) = (argument.name, argument.word());
                let text = words.next().ok_or_else(|| format!("{name}: {kind} is missing"))?;
                argument.kind.parse(text).map_err(|reason| {
                    format!("{name}: cannot parse '{text}' as {kind} ({reason})")
                })?
            };
            arguments.values.insert(argument.name, value);
            // Positional arguments precede named ones.
            while positional.next().is_some() {}
            continue;
        }
        for argument in positional.by_ref() {
            match argument.kind.parse(word) {
                Ok(value) => {
                    arguments.values.insert(argument.name, value);
                    continue 'words;
                }
                Err(reason) if argument.is_required => {
                    let (name, kind) = (argument.name, argument.word());
                    return Err(format!(
                        "cannot parse '{word}' as an argument name or as {kind} for {name} ({reason})"
                    ));
                }
                // It may be the value of the next argument.
                Err(_) => {}
            }
        }
        return Err(format!("cannot parse '{word}' as an argument name"));
    }
    // In the order of their names, as in nfdc.
    let mut missing: Vec<&str> = known
        .iter()
        .filter(|argument| argument.is_required && !arguments.values.contains_key(argument.name))
        .map(|argument| argument.name)
        .collect();
    missing.sort_unstable();
    match missing.first() {
        Some(name) => Err(format!("{name}: required argument is missing")),
        None => Ok(arguments),
    }
}

impl Argument {
    fn word(&self) -> &'static str {
        self.word.unwrap_or(match self.kind {
            Kind::Flag => "",
            Kind::Boolean => "bool",
            Kind::Unsigned => "uint",
            Kind::Text => "str",
            Kind::ReportFormat => "fmt",
            Kind::Name => "name",
            Kind::FaceUri => "uri",
            Kind::FaceIdOrUri => "face",
            Kind::Persistency => "persistency",
            Kind::Origin => "origin",
        })
    }
}

impl Kind {
    fn parse(self, text: &str) -> Result<Value, String> {
        Ok(match self {
            Self::Flag => Value::Flag,
            Self::Boolean => match text {
                "on" | "true" | "enabled" | "yes" | "1" => Value::Boolean(true),
                "off" | "false" | "disabled" | "no" | "0" => Value::Boolean(false),
                _ => return Err(format!("unrecognized boolean value '{text}'")),
            },
            Self::Unsigned => Value::Unsigned(parse_unsigned(text)?),
            Self::Text => Value::Text(text.to_owned()),
            Self::ReportFormat => match text {
                "xml" | "text" | "json" => Value::Text(text.to_owned()),
                _ => return Err(format!("unrecognized ReportFormat '{text}'")),
            },
            Self::Name => Value::Name(Name::from_uri(text).map_err(|error| error.to_string())?),
            Self::FaceUri => Value::Uri(parse_uri(text)?),
            Self::FaceIdOrUri => match text.parse() {
                Ok(id) => Value::Unsigned(id),
                Err(_) => Value::Uri(parse_uri(text)?),
            },
            Self::Persistency => match text {
                "persistent" => Value::Persistency(Persistency::Persistent),
                "permanent" => Value::Persistency(Persistency::Permanent),
                _ => return Err(format!("unrecognized Persistency '{text}'")),
            },
            Self::Origin => {
                Value::Unsigned(route_origin_from_text(text).ok_or("unknown route origin")?)
            }
        })
    }
}

pub(super) fn parse_unsigned(text: &str) -> Result<u64, String> {
    let number: i64 = text.parse().map_err(|_| {
        "bad lexical cast: source type value could not be interpreted as target".to_owned()
    })?;
    u64::try_from(number).map_err(|_| format!("value '{text}' is negative"))
}

fn parse_uri(text: &str) -> Result<FaceUri, String> {
    FaceUri::parse(text).map_err(|_| format!("Malformed URI: {text}"))
}

const USAGE: &str =
    "nfdc [-h|--help] [-V|--version] [-f|--batch <batch-file>] [<command> [<args>]]\n";

/// The list of all commands.
pub(super) fn help() -> String {
    let mut out = format!("{USAGE}\nAll subcommands:\n");
    for definition in &COMMANDS {
        let _ = writeln!(out, "  {:15} {}", definition.command, definition.title);
    }
    out.push_str("\nSee 'nfdc help <command>' to read about a specific subcommand.\n");
    out
}

/// The arguments of the commands of a noun. (nfdc opens a manual page.)
pub(super) fn help_about<'a>(mut words: impl Iterator<Item = &'a str>) -> String {
    let Some(noun) = words.next() else { return help() };
    let verb = words.next();
    let mut out = String::new();
    for definition in &COMMANDS {
        let Some((own_noun, own_verb)) = definition.command.split_once(' ') else { continue };
        if own_noun != noun || verb.is_some_and(|verb| verb != own_verb) {
            continue;
        }
        let _ = write!(out, "nfdc {}", definition.command);
        for argument in definition.arguments {
            let (name, word) = (argument.name, argument.word());
            let _ = match (argument.kind, argument.is_required, argument.is_positional) {
                (Kind::Flag, ..) => write!(out, " [{name}]"),
                (_, true, _) => write!(out, " [{name}] <{word}>"),
                (_, false, true) => write!(out, " [[{name}] <{word}>]"),
                (_, false, false) => write!(out, " [{name} <{word}>]"),
            };
        }
        let _ = writeln!(out, "\n    {}", definition.title);
    }
    if out.is_empty() { help() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Parsed, String> {
        parse(&line.split(' ').collect::<Vec<_>>())
    }

    #[test]
    fn options_follow_the_words_of_the_command() {
        let after = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            words_after(&words).into_iter().collect::<Vec<_>>()
        };
        assert!(after(&[]).contains(&"strategy"));
        assert_eq!(after(&["cs"]), ["config", "erase", "info"]);
        assert_eq!(after(&["route", "remove", "/p", "300"]), ["origin"]);
        assert!(after(&["route", "remove", "/p", "300", "origin", "0"]).is_empty());
        assert!(after(&["nonsense"]).is_empty());
    }

    #[test]
    fn arguments_are_read_by_position_or_name() {
        for line in [
            "route add /p 300 cost 5",
            "route add prefix /p nexthop 300 cost 5",
            "route add /p nexthop 300 cost 5",
            "route add cost 5 nexthop 300 prefix /p",
        ] {
            let parsed = read(line).unwrap();
            assert_eq!(parsed.arguments.name("prefix"), Some(&"/p".parse().unwrap()), "{line}");
            assert_eq!(parsed.arguments.face("nexthop"), Some(FaceReference::Id(300)));
            assert_eq!(parsed.arguments.unsigned("cost"), Some(5));
            assert!(!parsed.arguments.flag("capture"));
        }
        let parsed = read("face create udp4://192.0.2.1:6363 permanent reliability on").unwrap();
        assert_eq!(parsed.arguments.persistency("persistency"), Some(Persistency::Permanent));
        assert_eq!(parsed.arguments.boolean("reliability"), Some(true));
        assert!(read("route add /p 300 capture no-inherit").unwrap().arguments.flag("capture"));
        assert_eq!(read("cs").unwrap().command, "cs info");
        assert_eq!(
            read("route list nlsr origin nlsr").unwrap_err(),
            "cannot parse 'nlsr' as an argument name"
        );
    }

    /// As nfdc 24.07 words them.
    #[test]
    fn errors_have_the_words_of_nfdc() {
        for (line, message) in [
            ("nosuch", "No such command: nosuch "),
            ("face nosuch", "No such command: face nosuch"),
            ("face show", "id: required argument is missing"),
            (
                "face show x",
                "cannot parse 'x' as an argument name or as uint for id (bad lexical cast: source type value could not be interpreted as target)",
            ),
            (
                "face create bogus",
                "cannot parse 'bogus' as an argument name or as uri for remote (Malformed URI: bogus)",
            ),
            ("route add /x", "nexthop: required argument is missing"),
            ("route add /x nexthop", "nexthop: face is missing"),
            (
                "cs config capacity -1",
                "capacity: cannot parse '-1' as uint (value '-1' is negative)",
            ),
            ("cs config bogus 1", "cannot parse 'bogus' as an argument name"),
            ("route list bogus", "cannot parse 'bogus' as an argument name"),
        ] {
            assert_eq!(read(line).unwrap_err(), message, "{line}");
        }
    }

    #[test]
    fn every_command_has_help() {
        assert_eq!(help().lines().count(), 3 + COMMANDS.len() + 2);
        assert!(help().contains("  strategy unset  clear strategy choice at a name prefix\n"));
        let about = help_about(["face", "create"].into_iter());
        assert!(about.starts_with("nfdc face create [remote] <uri> [[persistency] <persistency>]"));
        assert_eq!(help_about(["what"].into_iter()), help());
    }
}
