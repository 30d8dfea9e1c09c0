//! Values that the shell completes: names, faces, strategies, words of nfdc.
//!
//! The scripts of `namewire completions` run the program with [`VARIABLE`] set; it then prints the candidates for the
//! word under the cursor. Names and faces are those of the forwarder that `--transport` or `--socket` names before it, else the
//! environment. There are none without a forwarder, or if it does not answer in time.

use std::any::TypeId;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::time::Duration;

use clap::Arg;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use ndn_client::fetch::{Discovery, FetchOptions};
use ndn_client::{Endpoint, ForwarderAddress};
use ndn_forwarding::strategy::known_strategies;
use ndn_management::{Dataset, FaceStatus, FibEntry};
use ndn_packet::Name;

use super::arguments::name;
use super::connect::{self, ConnectOptions, transport};
use super::manage::FaceArgument;
use super::{nfdc, tree};

/// The environment variable with the shell that requests candidates.
pub(super) const VARIABLE: &str = "NAMEWIRE_COMPLETE";
/// Maximum time for all candidates of a word.
const TIME_LIMIT: Duration = Duration::from_secs(1);
/// Tables with more entries are not read for a word.
const ENTRIES_MAX: u64 = 10_000;
const CANDIDATES_MAX: usize = 1000;
/// Names of the forwarder itself are candidates only below this prefix.
const LOCAL: &str = "/localhost";

/// The command line with completion of its values.
pub(super) fn completed(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|argument| match completer(&argument) {
        Some(completer) => argument.add(completer),
        None => argument,
    });
    command.mut_subcommands(completed)
}

/// The completer of an argument, by the type of its value.
fn completer(argument: &Arg) -> Option<ArgValueCompleter> {
    let (id, ty) = (argument.get_id().as_str(), argument.get_value_parser().type_id());
    if id == "strategy" {
        Some(ArgValueCompleter::new(strategies))
    } else if ty == TypeId::of::<Name>() {
        Some(ArgValueCompleter::new(names))
    } else if ty == TypeId::of::<FaceArgument>() || id == "face" {
        Some(ArgValueCompleter::new(faces))
    } else if id == nfdc::ARGUMENTS {
        Some(ArgValueCompleter::new(words_of_nfdc))
    } else {
        None
    }
}

/// The short names of this program's strategies, or their full names.
fn strategies(typed: &OsStr) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let of_strategy = |strategy: Name, about: &str| {
        let short =
            strategy.component(3).map(|part| String::from_utf8_lossy(part.value()).into_owned());
        let text = if typed.starts_with('/') { strategy.to_string() } else { short? };
        let is_match = text.starts_with(&*typed);
        is_match.then(|| CompletionCandidate::new(text).help(Some(about.to_owned().into())))
    };
    known_strategies().filter_map(|known| of_strategy(known.name, known.about)).collect()
}

/// FaceIds, with the URIs of their peers; URIs once one is begun.
fn faces(typed: &OsStr) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let faces =
        within_time(async |endpoint| endpoint.management().dataset(&Dataset::FaceList).await.ok());
    let faces: Vec<FaceStatus> = faces.unwrap_or_default();
    let is_uri = typed.contains(|letter: char| letter.is_ascii_alphabetic());
    let candidates = faces.into_iter().filter_map(|face| {
        let (id, uri) = (face.properties.face_id.to_string(), face.properties.remote_uri);
        let (value, help) = if is_uri { (uri, id) } else { (id, uri) };
        let is_match = value.starts_with(&*typed);
        is_match.then(|| CompletionCandidate::new(value).help(Some(help.into())))
    });
    candidates.take(CANDIDATES_MAX).collect()
}

/// Names with routes; below the prefix of a file server, the entries of its directories.
fn names(typed: &OsStr) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str().filter(|typed| typed.is_empty() || typed.starts_with('/'))
    else {
        return Vec::new();
    };
    let found = within_time(async |endpoint| Some(names_below(&endpoint, typed).await));
    found
        .unwrap_or_default()
        .into_iter()
        .take(CANDIDATES_MAX)
        .map(CompletionCandidate::new)
        .collect()
}

async fn names_below(endpoint: &Endpoint, typed: &str) -> BTreeSet<String> {
    let entries = async {
        let management = endpoint.management();
        let is_small = management.forwarder_status().await.ok()?.fib_entries <= ENTRIES_MAX;
        if is_small { management.dataset(&Dataset::FibList).await.ok() } else { None }
    };
    let entries: Vec<FibEntry> = entries.await.unwrap_or_default();
    let prefixes: Vec<Name> = entries
        .into_iter()
        .filter(|entry| !entry.next_hops.is_empty() && !entry.name.is_empty())
        .map(|entry| entry.name)
        .collect();
    let mut candidates = with_routes(&prefixes, typed);
    let Some(directory) = directory_of(&prefixes, typed) else { return candidates };
    // The server may be far away: what is found until the time limit is not lost.
    let fetching = FetchOptions { discovery: Discovery::Metadata, ..FetchOptions::default() };
    let listing = tokio::time::timeout(TIME_LIMIT / 2, tree::list(endpoint, &directory, &fetching));
    let Ok(Ok((_, entries))) = listing.await else { return candidates };
    for entry in entries {
        let mut name = directory.clone();
        name.push_generic(&entry.file_name);
        let text = format!("{name}{}", if entry.is_directory { "/" } else { "" });
        if text.starts_with(typed) {
            candidates.insert(text);
        }
    }
    candidates
}

/// The prefixes that begin with what was typed.
fn with_routes(prefixes: &[Name], typed: &str) -> BTreeSet<String> {
    let texts = prefixes.iter().map(Name::to_string);
    texts
        .filter(|text| text.starts_with(typed))
        .filter(|text| typed.starts_with(LOCAL) || !text.starts_with(LOCAL))
        .collect()
}

/// The directory whose entries complete what was typed, if a route other than `/` leads to it.
fn directory_of(prefixes: &[Name], typed: &str) -> Option<Name> {
    let (directory, _) = typed.rsplit_once('/')?;
    let directory = name(directory).ok()?;
    let has_route = prefixes.iter().any(|prefix| directory.starts_with(prefix.as_ref()));
    (has_route && !typed.starts_with(LOCAL)).then_some(directory)
}

/// The next word of a command of nfdc, by the words before it.
fn words_of_nfdc(typed: &OsStr) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let words: Vec<String> = std::env::args().skip_while(|word| word != "nfdc").skip(1).collect();
    let before = words.iter().rposition(|word| *word == typed).unwrap_or(words.len());
    let expected = nfdc::words_after(&words[..before]);
    let matching = expected.into_iter().filter(|word| word.starts_with(&*typed));
    matching.map(CompletionCandidate::new).collect()
}

/// The forwarder that these words name: the value of the last `--transport` or `--socket`.
fn forwarder_of(words: &[String]) -> Option<ForwarderAddress> {
    const OPTIONS: [&str; 2] = ["--transport", "--socket"];
    let value = |at: usize| match words[at].split_once('=') {
        Some((option, value)) if OPTIONS.contains(&option) => joined(value, &words[at + 1..]),
        _ if OPTIONS.contains(&&*words[at]) => {
            let rest = &words[at + 1..];
            let rest = rest.strip_prefix(&["=".to_owned()]).unwrap_or(rest);
            rest.split_first().and_then(|(first, rest)| joined(first, rest))
        }
        _ => None,
    };
    (0..words.len()).rev().find_map(value).and_then(|text| transport(&text).ok())
}

/// A value that bash has split at its colons.
fn joined(first: &str, rest: &[String]) -> Option<String> {
    let mut value = first.to_owned();
    let mut parts = rest.iter();
    while parts.as_slice().first().is_some_and(|part| part == ":") {
        value.extend(parts.by_ref().take(2).map(String::as_str));
    }
    (!value.is_empty()).then_some(value)
}

/// Runs `work` with a connection to the forwarder of the command line or the environment; `None` if there is none, or not in time.
fn within_time<T>(work: impl AsyncFnOnce(Endpoint) -> Option<T>) -> Option<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let found = runtime.block_on(async {
        let candidates = async {
            let words: Vec<String> = std::env::args().collect();
            let options = ConnectOptions::with_transport(forwarder_of(&words));
            // A note would be within the line that is being typed.
            connect::note_nothing();
            let endpoint = options.open().await.ok()?;
            work(endpoint).await
        };
        tokio::time::timeout(TIME_LIMIT, candidates).await
    });
    // What waits in threads, such as a look-up of a host name, is left.
    runtime.shutdown_background();
    found.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixes() -> Vec<Name> {
        ["/site/data", "/site/x", "/localhost/nfd"].map(|uri| uri.parse().unwrap()).into()
    }

    #[test]
    fn prefixes_with_routes_complete_a_name() {
        let found = |typed| with_routes(&prefixes(), typed).into_iter().collect::<Vec<_>>();
        assert_eq!(found("/si"), ["/site/data", "/site/x"]);
        assert_eq!(found(""), ["/site/data", "/site/x"]);
        assert_eq!(found("/site/d"), ["/site/data"]);
        assert_eq!(found("/localhost"), ["/localhost/nfd"]);
    }

    #[test]
    fn forwarder_of_the_line_is_found() {
        for line in [
            "get --transport unix:///tmp/x.sock /a",
            "--transport unix : ///tmp/x.sock get /a",
            "get --transport=unix : ///tmp/x.sock /a",
            "get --transport = unix : ///tmp/x.sock /a",
            "get --transport tcp://127.0.0.1:1 --socket /tmp/x.sock /a",
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let found = forwarder_of(&words).map(|address| address.to_string());
            assert_eq!(found.as_deref(), Some("unix:///tmp/x.sock"), "{line}");
        }
        for line in ["get /a", "get --transport", "get --transport= /a", "get --transport x://y"] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert!(forwarder_of(&words).is_none(), "{line}");
        }
    }

    #[test]
    fn only_directories_with_a_route_are_listed() {
        let directory = |typed| directory_of(&prefixes(), typed).map(|name| name.to_string());
        assert_eq!(directory("/site/data/2"), Some("/site/data".to_owned()));
        assert_eq!(directory("/site/data/a%20b/"), Some("/site/data/a%20b".to_owned()));
        for typed in ["", "/", "/site/d", "/other/", "/localhost/nfd/"] {
            assert_eq!(directory(typed), None, "{typed}");
        }
    }

    #[test]
    fn strategies_complete_by_short_and_full_name() {
        let found = |typed: &str| {
            let found = strategies(OsStr::new(typed)).into_iter();
            found.map(|one| one.get_value().to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(found("best"), ["best-route"]);
        assert!(found("/localhost/nfd/strategy/mult")[0].contains("/multicast/"));
        assert!(found("").len() > 5);
        assert!(found("nonsense").is_empty());
    }

    #[test]
    fn arguments_of_commands_have_completers() {
        let program = crate::cli::program();
        let has_completer = |path: &[&str], argument: &str| {
            let found =
                path.iter().try_fold(&program, |command, name| command.find_subcommand(name));
            let found = found.unwrap().get_arguments().find(|one| one.get_id() == argument);
            found.unwrap().get::<ArgValueCompleter>().is_some()
        };
        for (path, argument) in [
            (&["get"][..], "name"),
            (&["ls"], "name"),
            (&["strategy", "set"], "strategy"),
            (&["strategy", "set"], "prefix"),
            (&["face", "destroy"], "face"),
            (&["route", "add"], "nexthop"),
            (&["capture"], "face"),
            (&["nfdc"], "arguments"),
        ] {
            assert!(has_completer(path, argument), "{path:?} {argument}");
        }
        assert!(!has_completer(&["get"], "output"), "the shell completes files");
    }
}
