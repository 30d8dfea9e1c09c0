//! Answers to words of other programs that are no commands here.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue};

/// Words, and the command that does it.
const WORDS: &[(&[&str], &str)] = &[
    (
        &["fuse", "umount", "unmount"],
        "`namewire mount NAME DIRECTORY` mounts, `umount DIRECTORY` ends it",
    ),
    (
        &["rm", "del", "delete", "remove", "erase"],
        "`face destroy`, `route remove`, `strategy unset`, `cs erase` or `key delete` remove things",
    ),
    (&["add", "create", "new"], "`face create`, `route add` or `key gen` add things"),
    (
        &["list"],
        "`namewire ls NAME` lists a directory; `face`, `route`, `strategy` and `key list` list the rest",
    ),
    (
        &["cp", "copy", "fetch", "download", "pull", "cat", "wget", "catchunks", "ndncatchunks"],
        "`namewire get NAME` fetches an object",
    ),
    (
        &["rsync", "mirror", "clone"],
        "`namewire sync NAME DIRECTORY` copies a directory, and only what changed if repeated",
    ),
    (
        &["publish", "send", "push", "upload", "putchunks", "ndnputchunks"],
        "`namewire put NAME FILE` publishes a file, `namewire serve` a directory",
    ),
    (&["register", "advertise"], "`namewire route add PREFIX NEXTHOP` adds a route"),
    (
        &["connect"],
        "`namewire face create URI` connects to another forwarder, `namewire route add PREFIX URI` also routes to it",
    ),
    (
        &["daemon", "nfd", "server", "up"],
        "`namewire run` is the forwarder, `namewire start` runs it in the background",
    ),
    (
        &["restart", "reload"],
        "`namewire config reload` reads the configuration again; `namewire stop` and `namewire start` restart",
    ),
    (&["version"], "`namewire --version`"),
    (&["fib", "rib", "routes"], "`namewire route` lists routes, `namewire route fib` next hops"),
    (&["faces"], "`namewire face` lists faces"),
    (&["strategy-choice"], "`namewire strategy` lists and sets strategies"),
    (
        &["dump", "tcpdump", "ndndump"],
        "`namewire capture` captures packets, `namewire dissect` shows one",
    ),
    (
        &["info", "stat", "stats"],
        "`namewire status` shows the forwarder, `namewire ls -l NAME` files",
    ),
    (&["identity", "keys", "ndnsec"], "`namewire key` and `namewire cert` manage the key chain"),
    (
        &["chown", "chmod", "mkdir", "mv"],
        "directories are served read-only: change the files of the server",
    ),
];

/// The answer to a word that is not a command, if it is the first of the command line `arguments`: groups have
/// subcommands of their own, and clap suggests them.
pub(super) fn answer(word: &str, arguments: &[OsString]) -> Option<&'static str> {
    if arguments.get(1).is_none_or(|first| first != word) {
        return None;
    }
    WORDS.iter().find(|(words, _)| words.contains(&word)).map(|(_, answer)| *answer)
}

/// Words after these commands that are no arguments of theirs, and what is meant.
const ARGUMENTS: &[(&str, &str, &str)] = &[
    ("route", "cost", "the cost is an option: --cost 5"),
    ("cs", "--capacity", "`namewire cs config --capacity PACKETS` changes the capacity"),
    (
        "config",
        "show",
        "`namewire config sample` prints all settings, `namewire config check FILE` checks a file, `namewire status` \
         shows the forwarder",
    ),
];

/// Returns the hint for an argument that is refused after `commands`, the words of the command line.
pub(super) fn hint_for(error: &clap::Error, commands: &[&str]) -> Option<&'static str> {
    let refused = error.get(ContextKind::InvalidArg);
    let refused = refused.or_else(|| error.get(ContextKind::InvalidSubcommand));
    let Some(ContextValue::String(refused)) = refused else { return None };
    let command = *commands.first()?;
    let known = ARGUMENTS.iter().find(|(of, word, _)| *of == command && word == refused);
    match known {
        Some((_, _, hint)) => Some(*hint),
        // A second positional argument.
        None if command == "serve" && !refused.starts_with('-') => {
            Some("the name is an option: namewire serve DIRECTORY --prefix NAME")
        }
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn commands_of_other_programs_get_a_hint() {
        let answer = |line: &str| {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            answer(arguments.last()?.to_str()?, &arguments)
        };
        assert!(answer("namewire fuse").unwrap().contains("namewire mount"));
        assert!(answer("namewire rm").unwrap().contains("cs erase"));
        assert_eq!(answer("namewire frobnicate"), None);
        assert_eq!(answer("namewire cs stats"), None);
        let program = crate::cli::Arguments::command();
        for word in WORDS.iter().flat_map(|(words, _)| *words) {
            assert!(program.find_subcommand(word).is_none(), "{word} is a command");
        }
    }

    #[test]
    fn refused_arguments_get_a_hint() {
        for (line, expected) in [
            ("namewire serve /z share", "--prefix NAME"),
            ("namewire cs --capacity 5", "cs config --capacity"),
            ("namewire config show", "config sample"),
            ("namewire route add /a 1 cost 5", "--cost 5"),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            let error = crate::cli::Arguments::command().try_get_matches_from(&words).unwrap_err();
            let hint = hint_for(&error, &words[1..]).unwrap();
            assert!(hint.contains(expected), "{line}: {hint}");
        }
        let words = ["namewire", "serve", "--frobnicate"];
        let error = crate::cli::Arguments::command().try_get_matches_from(words).unwrap_err();
        assert_eq!(hint_for(&error, &words[1..]), None);
    }

    #[test]
    fn synonyms_of_subcommands_are_accepted() {
        for (line, group, command) in [
            ("namewire face ls", "face", "list"),
            ("namewire face rm 257", "face", "destroy"),
            ("namewire face del 257", "face", "destroy"),
            ("namewire face add udp4://192.0.2.1", "face", "create"),
            ("namewire route ls", "route", "list"),
            ("namewire route rm /a 257", "route", "remove"),
            ("namewire route del /a 257", "route", "remove"),
            ("namewire strategy ls", "strategy", "list"),
            ("namewire strategy rm /a", "strategy", "unset"),
            ("namewire key ls", "key", "list"),
            ("namewire key rm /a", "key", "delete"),
        ] {
            let matches = crate::cli::Arguments::command().get_matches_from(line.split(' '));
            let (found, matches) = matches.subcommand().unwrap();
            assert_eq!((found, matches.subcommand_name()), (group, Some(command)), "{line}");
        }
    }
}
