//! Answers to words of other programs that are no commands here.

use std::ffi::OsString;

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
