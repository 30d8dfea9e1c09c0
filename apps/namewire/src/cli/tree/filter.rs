//! Which files of a tree are copied: the patterns of rsync's `--include` and `--exclude`.

use std::sync::{Arc, Mutex, PoisonError};

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Id};
use regex_automata::nfa::thompson;
use regex_automata::nfa::thompson::pikevm::{Cache, PikeVM};
use regex_automata::util::syntax;

use crate::cli::file_name;

const HELP_OF_EXCLUDE: &str = "Leave out files and directories that match PATTERN, as with rsync

The first pattern that matches decides; without one, a file is copied. Patterns are read in the order of the command \
line. What is left out is not deleted either.

`*` matches any characters but slashes, `**` also slashes, `?` one character but a slash, `[a-z]` one of a set; a \
backslash escapes them. A pattern with a slash inside or with `**` is compared with the whole path below SOURCE, at its \
end; any other one with the last component. A leading slash means the beginning of the path, a trailing one only \
directories. `DIR/***` matches a directory and all that is in it. The contents of a directory that is left out are not \
considered.";

/// Patterns in the order of the command line.
#[derive(Debug, Clone, Default)]
pub(in crate::cli) struct Filter {
    rules: Arc<[Rule]>,
}

#[derive(Debug)]
struct Rule {
    is_include: bool,
    pattern: Pattern,
}

impl Filter {
    /// Whether the entry at `path`, relative to the root and without a leading slash, is left out. The directories above
    /// it are not.
    pub(super) fn excludes(&self, path: &[u8], is_directory: bool) -> bool {
        let rule = self.rules.iter().find(|rule| rule.pattern.matches(path, is_directory));
        rule.is_some_and(|rule| !rule.is_include)
    }
}

impl Args for Filter {
    fn augment_args(command: Command) -> Command {
        let option = |name: &'static str| {
            Arg::new(name).long(name).value_name("PATTERN").action(ArgAction::Append)
        };
        let parse = |text: &str| Pattern::parse(text).map(|_| text.to_owned());
        let (short, _) = HELP_OF_EXCLUDE.split_once("\n\n").unwrap_or((HELP_OF_EXCLUDE, ""));
        command
            .arg(option("exclude").value_parser(parse).help(short).long_help(HELP_OF_EXCLUDE))
            .arg(option("include").value_parser(parse).help(
            "Copy files and directories that match PATTERN, although a later pattern excludes them",
        ))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }

    fn group_id() -> Option<Id> {
        None
    }
}

impl FromArgMatches for Filter {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut patterns = Vec::new();
        for (name, is_include) in [("include", true), ("exclude", false)] {
            let indices = matches.indices_of(name).into_iter().flatten();
            let values = matches.get_many::<String>(name).into_iter().flatten();
            patterns.extend(indices.zip(values).map(|(index, value)| (index, is_include, value)));
        }
        patterns.sort_unstable_by_key(|(index, ..)| *index);
        let rule = |(_, is_include, pattern): (usize, bool, &String)| {
            let pattern = Pattern::parse(pattern);
            pattern.map(|pattern| Rule { is_include, pattern })
        };
        let rules: Result<_, _> = patterns.into_iter().map(rule).collect();
        let rules = rules.map_err(|reason| clap::Error::raw(ErrorKind::ValueValidation, reason))?;
        Ok(Self { rules })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// A pattern of rsync(1), section "INCLUDE/EXCLUDE PATTERN RULES".
#[derive(Debug)]
pub(in crate::cli) struct Pattern {
    matcher: PikeVM,
    cache: Mutex<Cache>,
    /// It ended with a slash.
    is_of_directories: bool,
    /// It ended with `/***`: a directory is compared with a slash at its end.
    has_contents: bool,
    /// It is compared with the whole path, which begins with a slash then, else with the last component.
    is_of_paths: bool,
    /// It may have escapes of names as they are printed.
    has_percent: bool,
}

impl Pattern {
    pub(in crate::cli) fn parse(text: &str) -> Result<Self, String> {
        let (text, is_of_directories) = match text.strip_suffix('/') {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let (pattern, is_anchored) = match text.strip_prefix('/') {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        if pattern.is_empty() {
            return Err("a pattern is not empty".to_owned());
        }
        let is_of_paths = is_anchored || pattern.contains('/') || pattern.contains("**");
        let beginning = match (is_of_paths, is_anchored) {
            (false, _) => "",
            (true, true) => "/",
            (true, false) if pattern.starts_with("**") => "",
            (true, false) => ".*/",
        };
        let regex = format!("\\A{beginning}{}\\z", regex_of(pattern)?);
        let bytes = syntax::Config::new().unicode(false).utf8(false).dot_matches_new_line(true);
        let matcher = PikeVM::builder()
            .syntax(bytes)
            .thompson(thompson::Config::new().utf8(false))
            .build(&regex)
            .map_err(|error| error.to_string())?;
        let cache = Mutex::new(matcher.create_cache());
        let has_contents = pattern.ends_with("/***");
        let has_percent = pattern.contains('%');
        Ok(Self { matcher, cache, is_of_directories, has_contents, is_of_paths, has_percent })
    }

    /// Whether it matches the path of a file as it is, or as [`file_name::path`] prints it.
    pub(in crate::cli) fn matches_printed(&self, path: &[u8]) -> bool {
        self.matches(path, false)
            || self.has_percent && self.matches(file_name::path(path).as_bytes(), false)
    }

    /// Whether it matches the path.
    fn matches(&self, path: &[u8], is_directory: bool) -> bool {
        if self.is_of_directories && !is_directory {
            return false;
        }
        let mut subject = Vec::with_capacity(path.len() + 2);
        if self.is_of_paths {
            subject.push(b'/');
            subject.extend_from_slice(path);
        } else {
            subject.extend(path.rsplit(|byte| *byte == b'/').next().unwrap_or_default());
        }
        if self.has_contents && is_directory {
            subject.push(b'/');
        }
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        self.matcher.is_match(&mut cache, &subject)
    }
}

/// The pattern as a regular expression of bytes.
fn regex_of(pattern: &str) -> Result<String, String> {
    // A backslash escapes only where there is something to escape.
    let escapes = pattern.contains(['*', '?', '[']);
    let mut regex = String::new();
    let mut rest = pattern.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'*' => {
                let more = rest.iter().take_while(|byte| **byte == b'*').count();
                rest = &rest[more..];
                regex.push_str(if more == 0 { "[^/]*" } else { ".*" });
            }
            b'?' => regex.push_str("[^/]"),
            b'[' => {
                rest = class(rest, &mut regex).ok_or_else(|| {
                    format!("`{pattern}`: `[` has no `]`; `\\[` is the character itself")
                })?
            }
            b'\\' if escapes && !rest.is_empty() => {
                literal(rest[0], &mut regex);
                rest = &rest[1..];
            }
            byte => literal(*byte, &mut regex),
        }
    }
    Ok(regex)
}

fn literal(byte: u8, regex: &mut String) {
    regex.push_str(&format!("\\x{byte:02x}"));
}

/// Translates a set behind its `[`, and returns what follows it; `None` without its end. A slash is in no set.
fn class<'a>(set: &'a [u8], regex: &mut String) -> Option<&'a [u8]> {
    let (is_negated, mut rest) = match set.split_first()? {
        (b'!' | b'^', rest) => (true, rest),
        _ => (false, set),
    };
    regex.push_str(if is_negated { "[[^" } else { "[[" });
    let mut is_first = true;
    loop {
        let (byte, after) = rest.split_first()?;
        rest = after;
        match byte {
            b']' if !is_first => break,
            b'[' if rest.first() == Some(&b':') => {
                let length = rest.iter().position(|byte| *byte == b']')?;
                let name = std::str::from_utf8(&rest[..length]).ok()?;
                regex.push_str(&format!("[{name}]"));
                rest = &rest[length + 1..];
            }
            byte => {
                let (byte, after) = escaped(*byte, rest)?;
                rest = after;
                literal(byte, regex);
                // A range, unless the minus is the last character.
                if let [b'-', end, after @ ..] = rest
                    && *end != b']'
                {
                    let (end, after) = escaped(*end, after)?;
                    regex.push('-');
                    literal(end, regex);
                    rest = after;
                }
            }
        }
        is_first = false;
    }
    regex.push_str("]&&[^/]]");
    Some(rest)
}

fn escaped(byte: u8, rest: &[u8]) -> Option<(u8, &[u8])> {
    match byte {
        b'\\' => rest.split_first().map(|(byte, rest)| (*byte, rest)),
        byte => Some((byte, rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        let (path, is_directory) = match path.strip_suffix('/') {
            Some(path) => (path, true),
            None => (path, false),
        };
        Pattern::parse(pattern).unwrap().matches(path.as_bytes(), is_directory)
    }

    /// The statements of rsync(1), "INCLUDE/EXCLUDE PATTERN RULES" and "PATTERN MATCHING": paths of directories end with
    /// a slash.
    #[test]
    fn patterns_match_as_the_manual_of_rsync_states() {
        for (pattern, matching, others) in [
            // Without a slash or `**`: the last component.
            ("foo", &["foo", "a/foo", "a/b/foo", "foo/"][..], &["foo/a", "xfoo", "foox"][..]),
            ("*.o", &["x.o", "a/x.o", ".o"], &["x.o/y", "x.oo"]),
            ("?", &["a", "x/b"], &["ab", ""]),
            // A leading slash: the root of the transfer.
            ("/foo", &["foo", "foo/"], &["a/foo", "foo/a"]),
            ("/foo/bar", &["foo/bar"], &["a/foo/bar", "foo/bar/x"]),
            ("/*", &["foo", "bar/"], &["a/foo"]),
            // A slash inside: the end of the path, at a component.
            ("foo/bar", &["foo/bar", "a/foo/bar", "a/b/foo/bar"], &["xfoo/bar", "foo/bar/x"]),
            ("a/*/c", &["a/b/c", "x/a/b/c"], &["a/c", "a/b/b/c"]),
            // A trailing slash: directories only, and it is no slash inside.
            ("foo/", &["foo/", "a/foo/"], &["foo", "a/foo", "foo/a"]),
            ("a/foo/", &["a/foo/", "x/a/foo/"], &["foo/", "a/foo"]),
            // `**` matches slashes, and `*` does not.
            ("/foo/*", &["foo/a", "foo/b/"], &["foo/a/b", "foo/"]),
            ("/foo/**", &["foo/a", "foo/a/b"], &["foo/", "x/foo/a"]),
            ("a**z", &["az", "a/b/z", "x/abz", "axz"], &["xaz", "ba/z"]),
            ("**/foo", &["foo", "a/foo", "a/b/foo"], &["xfoo"]),
            ("**foo", &["foo", "xfoo", "a/xfoo"], &["foox"]),
            ("foo/**/bar", &["foo/a/bar", "foo/a/b/bar", "x/foo/a/bar"], &["foo/bar"]),
            // `/***`: the directory and its contents.
            ("foo/***", &["foo/", "foo/a", "foo/a/b", "x/foo/a"], &["foo", "xfoo/a"]),
            // Sets; a slash is in none.
            ("[a-c]x", &["ax", "cx"], &["dx", "-x"]),
            ("[!a-c]x", &["dx"], &["ax"]),
            ("[^a]", &["b"], &["a"]),
            ("[]x]", &["]", "x"], &["["]),
            ("[a-]", &["a", "-"], &["b"]),
            ("[[:digit:]]", &["7"], &["a", ":"]),
            ("a[/]b", &[], &["a/b"]),
            ("a[^x]b", &["a-b"], &["a/b", "axb"]),
            // A backslash escapes if there are wildcards, and is itself otherwise.
            ("\\*?", &["*a"], &["ab"]),
            ("a\\b", &["a\\b"], &["ab"]),
            ("[\\]]", &["]"], &["\\"]),
            ("ü?", &["üx"], &["ux"]),
        ] {
            for path in matching {
                assert!(matches(pattern, path), "{pattern} {path}");
            }
            for path in others {
                assert!(!matches(pattern, path), "{pattern} {path}");
            }
        }
        for wrong in ["", "/", "[a", "[", "[a-"] {
            assert!(Pattern::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_are_compared_as_they_are_or_also_as_they_are_printed() {
        let matches_printed = |pattern: &str, path: &str| {
            Pattern::parse(pattern).unwrap().matches_printed(path.as_bytes())
        };
        for pattern in ["year=2024/**", "year%3D2024/**"] {
            assert!(matches_printed(pattern, "year=2024/a"), "{pattern}");
        }
        assert!(matches_printed("50%41", "50%41") && matches_printed("50%2541", "50%41"));
        assert!(!matches_printed("50%41", "50A"));
        assert!(matches("year%3D2024", "year%3D2024") && !matches("year%3D2024", "year=2024"));
        assert!(!matches("50%2541", "50%41"));
    }

    #[test]
    fn names_of_any_bytes_are_compared() {
        let pattern = Pattern::parse("a?").unwrap();
        assert!(pattern.matches(b"a\xff", false) && pattern.matches(b"a\n", false));
        assert!(!pattern.matches(b"a\xff\xff", false));
        assert!(Pattern::parse("**x").unwrap().matches(b"\xff/\n/x", false));
    }

    fn filter(line: &str) -> Filter {
        let command = Filter::augment_args(Command::new("sync"));
        let matches = command.get_matches_from(line.split(' '));
        Filter::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn first_matching_pattern_of_the_command_line_decides() {
        let sources = filter("sync --include=*/ --include *.c --exclude=*");
        assert!(!sources.excludes(b"a/x.c", false) && !sources.excludes(b"a", true));
        assert!(sources.excludes(b"a/x.o", false));
        let none = filter("sync --exclude=* --include=*.c");
        assert!(none.excludes(b"x.c", false));
        let one = filter("sync --exclude=/some/secret --exclude *.tmp");
        assert!(one.excludes(b"some/secret", true) && one.excludes(b"a/x.tmp", false));
        assert!(!one.excludes(b"a/some/secret", true) && !filter("sync").excludes(b"a", false));
    }
}
