//! The options of ndn-tools and ndnsec, translated to those of this program.

use std::ffi::{OsStr, OsString};

/// A program of ndn-tools, or a command of ndnsec.
pub(super) struct Tool {
    pub(super) name: &'static str,
    /// The command here, with options for what that program does by default.
    command: &'static [&'static str],
    options: &'static [(&'static str, Meaning)],
}

/// The translation of an option. The text of an option is its letter and its word, separated by a comma.
#[derive(Clone, Copy)]
enum Meaning {
    /// These arguments instead.
    Is(&'static [&'static str]),
    /// As the option of this name, with the same value.
    Value(&'static str),
    /// As the option of this name; the value is in milliseconds, or in bytes.
    Milliseconds(&'static str),
    Bytes(&'static str),
    /// It has no effect, and no value, or one.
    Ignored,
    IgnoredValue,
    /// It is not offered, for this reason.
    Refused(&'static str),
}

use Meaning::{Bytes, Ignored, IgnoredValue, Is, Milliseconds, Refused, Value};

const HELP: (&str, Meaning) = ("h,help", Is(&["--help"]));
const QUIET: (&str, Meaning) = ("q,quiet", Is(&["--quiet"]));
const SIGNING_INFO: (&str, Meaning) =
    ("S,signing-info", Refused("use --identity NAME or --sign FILE"));
const TIMESTAMP: (&str, Meaning) = ("T,timestamp", Ignored);

const TOOLS: &[Tool] = &[
    Tool {
        name: "ndnpeek",
        command: &["peek", "--format", "packet"],
        options: &[
            HELP,
            ("P,prefix", Is(&["--can-be-prefix"])),
            ("f,fresh", Is(&["--fresh"])),
            ("l,lifetime", Milliseconds("--lifetime")),
            ("w,timeout", Milliseconds("--lifetime")),
            ("H,hop-limit", Value("--hop-limit")),
            ("A,app-params", Refused("use --app-params-file")),
            (",app-params-file", Value("--parameters")),
            ("p,payload", Is(&["--format", "content"])),
            ("v,verbose", Ignored),
        ],
    },
    Tool {
        name: "ndnpoke",
        command: &["poke"],
        options: &[
            HELP,
            ("x,freshness", Milliseconds("--freshness")),
            ("F,final", Is(&["--final"])),
            ("w,timeout", Milliseconds("--timeout")),
            ("i,identity", Value("--identity")),
            ("D,digest", Is(&["--sign", "digest"])),
            ("u,unsolicited", Refused("the packet is sent when an Interest asks for it")),
            ("f,force", Refused("the packet is sent when an Interest asks for it")),
            SIGNING_INFO,
            ("v,verbose", Ignored),
        ],
    },
    Tool {
        name: "ndnping",
        command: &["ping"],
        options: &[
            HELP,
            ("i,interval", Milliseconds("--interval")),
            ("t,timeout", Milliseconds("--timeout")),
            ("c,count", Value("--count")),
            ("n,start", Value("--start")),
            ("p,identifier", Value("--identifier")),
            ("a,cache", Is(&["--allow-cached"])),
            TIMESTAMP,
            QUIET,
        ],
    },
    Tool {
        name: "ndnpingserver",
        command: &["ping-server"],
        options: &[
            HELP,
            ("x,freshness", Milliseconds("--freshness")),
            ("s,size", Bytes("--size")),
            ("p,satisfy", Refused("it runs until it is interrupted")),
            TIMESTAMP,
            ("q,quiet", Ignored),
        ],
    },
    Tool {
        name: "ndncatchunks",
        command: &["get", "--output", "-"],
        options: &[
            HELP,
            ("f,fresh", Ignored),
            ("l,lifetime", Milliseconds("--lifetime")),
            ("r,retries", Value("--retries")),
            ("D,no-version-discovery", Is(&["--discover", "none"])),
            ("p,pipeline-type", IgnoredValue),
            ("s,pipeline-size", Value("--window")),
            ("N,naming-convention", IgnoredValue),
            QUIET,
            ("v,verbose", Ignored),
            (",ignore-marks", Ignored),
            (",disable-cwa", Ignored),
            (",init-cwnd", IgnoredValue),
            (",init-ssthresh", IgnoredValue),
            (",rto-alpha", IgnoredValue),
            (",rto-beta", IgnoredValue),
            (",rto-k", IgnoredValue),
            (",min-rto", IgnoredValue),
            (",max-rto", IgnoredValue),
            (",aimd-step", IgnoredValue),
            (",aimd-beta", IgnoredValue),
            (",cubic-beta", IgnoredValue),
            (",log-cwnd", Refused("--json prints statistics")),
            (",log-rtt", Refused("--json prints statistics")),
        ],
    },
    Tool {
        name: "ndnputchunks",
        command: &["put"],
        options: &[
            HELP,
            ("f,freshness", Milliseconds("--freshness")),
            ("s,size", Bytes("--segment-size")),
            ("i,identity", Value("--identity")),
            ("p,print-data-version", Ignored),
            ("N,naming-convention", IgnoredValue),
            SIGNING_INFO,
            ("q,quiet", Ignored),
            ("v,verbose", Ignored),
        ],
    },
];

/// Commands of ndnsec, which are also programs: `ndnsec-list`.
const NDNSEC: &[Tool] = &[
    Tool {
        name: "list",
        command: &["key", "list"],
        options: &[HELP, ("k,key", Ignored), ("c,cert", Ignored), ("v,verbose", Ignored)],
    },
    Tool {
        name: "get-default",
        command: &["key", "default"],
        options: &[HELP, ("k,key", Ignored), ("c,cert", Ignored), ("q,quiet", Ignored)],
    },
    Tool {
        name: "set-default",
        command: &["key", "default"],
        options: &[HELP, ("k,default-key", Ignored), ("c,default-cert", Ignored)],
    },
    Tool {
        name: "delete",
        command: &["key", "delete", "--yes", "--kind", "identity"],
        options: &[
            HELP,
            ("i,delete-id", Is(&["--kind", "identity"])),
            ("k,delete-key", Is(&["--kind", "key"])),
            ("c,delete-cert", Is(&["--kind", "certificate"])),
            ("n,name", Is(&[])),
        ],
    },
    Tool {
        name: "key-gen",
        command: &["key", "gen"],
        options: &[
            HELP,
            ("i,identity", Is(&[])),
            ("n,not-default", Is(&["--not-default"])),
            ("t,type", Value("--type")),
            (",keyid", Value("--key-id")),
        ],
    },
    Tool { name: "sign-req", command: &["cert", "request"], options: &[HELP, ("k,key", Ignored)] },
    Tool {
        name: "cert-gen",
        command: &["cert", "sign"],
        options: &[
            HELP,
            ("S,not-before", Value("--not-before")),
            ("E,not-after", Value("--not-after")),
            ("I,info", Value("--info")),
            ("s,sign-id", Value("--identity")),
            ("i,issuer-id", Value("--issuer")),
            ("r,request", Is(&[])),
        ],
    },
    Tool {
        name: "cert-dump",
        command: &["cert", "dump"],
        options: &[
            HELP,
            ("i,identity", Ignored),
            ("k,key", Ignored),
            ("f,file", Is(&["--file"])),
            ("p,pretty", Is(&["--pretty"])),
        ],
    },
    Tool {
        name: "cert-install",
        command: &["cert", "install"],
        options: &[
            HELP,
            ("f,cert-file", Is(&[])),
            ("I,identity-default", Is(&["--identity-default"])),
            ("K,key-default", Is(&["--key-default"])),
            ("N,no-default", Is(&["--no-default"])),
        ],
    },
    Tool {
        name: "export",
        command: &["key", "export"],
        options: &[
            HELP,
            ("i,identity", Is(&[])),
            ("o,output", Value("--output")),
            ("P,password", Refused("set NAMEWIRE_PASSPHRASE, or use --passphrase-file")),
        ],
    },
    Tool {
        name: "import",
        command: &["key", "import"],
        options: &[
            HELP,
            ("i,input", Is(&[])),
            ("P,password", Refused("set NAMEWIRE_PASSPHRASE, or use --passphrase-file")),
        ],
    },
];

/// The program `called`, and its arguments; `ndnsec` takes its command from them.
pub(super) fn find<'a>(
    called: &str,
    rest: &'a [OsString],
) -> Option<(&'static Tool, &'a [OsString])> {
    let of_name = |tools: &'static [Tool], name: &str| tools.iter().find(|tool| tool.name == name);
    if let Some(tool) = of_name(TOOLS, called) {
        return Some((tool, rest));
    }
    if called == "ndnsec" {
        let (command, rest) = rest.split_first()?;
        return of_name(NDNSEC, command.to_str()?).map(|tool| (tool, rest));
    }
    of_name(NDNSEC, called.strip_prefix("ndnsec-")?).map(|tool| (tool, rest))
}

impl Tool {
    /// The arguments of this program.
    ///
    /// # Errors
    /// The text about an option that is not offered.
    pub(super) fn translate(&self, given: &[OsString]) -> Result<Vec<OsString>, String> {
        let mut translated: Vec<OsString> = self.command.iter().map(OsString::from).collect();
        let mut rest = given.iter();
        while let Some(word) = rest.next() {
            let Some(text) = word.to_str().filter(|text| text.len() > 1 && text.starts_with('-'))
            else {
                translated.push(word.clone());
                continue;
            };
            if text == "--" {
                translated.push(word.clone());
                translated.extend(rest.cloned());
                break;
            }
            if let Some(option) = text.strip_prefix("--") {
                let (name, value) = match option.split_once('=') {
                    Some((name, value)) => (name, Some(value)),
                    None => (option, None),
                };
                match self.meaning(|_, long| long == name) {
                    Some(meaning) => {
                        self.add(word, meaning, value, &mut rest, &mut translated)?;
                    }
                    // Options of this program work, too.
                    None => translated.push(word.clone()),
                }
                continue;
            }
            // Letters in one word; what follows one with a value is its value.
            let mut letters = &text[1..];
            while let Some(letter) = letters.chars().next() {
                let tail = &letters[letter.len_utf8()..];
                let mut buffer = [0; 4];
                let short = &*letter.encode_utf8(&mut buffer);
                let Some(meaning) = self.meaning(|own, _| own == short) else {
                    translated.push(format!("-{letters}").into());
                    break;
                };
                let takes_value = !matches!(meaning, Is(_) | Ignored);
                let value = Some(tail).filter(|tail| takes_value && !tail.is_empty());
                self.add(word, meaning, value, &mut rest, &mut translated)?;
                letters = if takes_value { "" } else { tail };
            }
        }
        Ok(self.finished(translated))
    }

    fn meaning(&self, is_meant: impl Fn(&str, &str) -> bool) -> Option<Meaning> {
        let found = self.options.iter().find(|(names, _)| {
            names.split_once(',').is_some_and(|(short, long)| is_meant(short, long))
        });
        found.map(|(_, meaning)| *meaning)
    }

    fn add<'a>(
        &self,
        option: &OsStr,
        meaning: Meaning,
        value: Option<&str>,
        rest: &mut impl Iterator<Item = &'a OsString>,
        translated: &mut Vec<OsString>,
    ) -> Result<(), String> {
        let option = option.display();
        let mut value = || {
            let value = value.map(OsString::from).or_else(|| rest.next().cloned());
            value.ok_or_else(|| format!("{option} needs a value"))
        };
        let (name, value) = match meaning {
            Is(arguments) => {
                translated.extend(arguments.iter().map(OsString::from));
                return Ok(());
            }
            Ignored => return Ok(()),
            IgnoredValue => return value().map(drop),
            Refused(reason) => {
                return Err(format!("{option} of {} is not offered: {reason}", self.name));
            }
            Value(name) => (name, value()?),
            Milliseconds(name) => (name, with_unit(value()?, "ms")),
            Bytes(name) => (name, with_unit(value()?, "B")),
        };
        // As one word, so that a value can begin with a dash.
        let mut argument = OsString::from(name);
        argument.push("=");
        argument.push(value);
        translated.push(argument);
        Ok(())
    }

    /// The last value of an option given twice counts, here the default of `command` and one that was given; key types are
    /// letters in ndnsec.
    fn finished(&self, mut translated: Vec<OsString>) -> Vec<OsString> {
        let is_format = |word: &OsString| word == "--format";
        if translated.iter().filter(|word| is_format(word)).count() > 1
            && let Some(first) = translated.iter().position(is_format)
        {
            translated.drain(first..first + 2);
        }
        for word in &mut translated {
            for (letter, kind) in [("--type=e", "--type=ecdsa"), ("--type=r", "--type=rsa")] {
                if word == letter {
                    *word = kind.into();
                }
            }
        }
        translated
    }
}

/// A plain number with its unit; other texts are refused by the option itself.
fn with_unit(value: OsString, unit: &str) -> OsString {
    let is_number =
        value.to_str().is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let mut value = value;
    if is_number {
        value.push(unit);
    }
    value
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn translated(line: &str) -> Result<String, String> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let (tool, rest) = find(words[0].to_str().unwrap(), &words[1..]).unwrap();
        let arguments = tool.translate(rest)?;
        Ok(arguments.join(OsStr::new(" ")).into_string().unwrap())
    }

    #[test]
    fn options_of_other_programs_are_translated() {
        for (line, expected) in [
            ("ndnpeek -p /a", "peek --format content /a"),
            (
                "ndnpeek -Pfl 250 /a",
                "peek --format packet --can-be-prefix --fresh --lifetime=250ms /a",
            ),
            (
                "ndnpeek --prefix --timeout=1000 /a",
                "peek --format packet --can-be-prefix --lifetime=1000ms /a",
            ),
            ("ndnpoke -Fx1000 /a", "poke --final --freshness=1000ms /a"),
            (
                "ndnping -c4 -i 100 -t500 -a /a",
                "ping --count=4 --interval=100ms --timeout=500ms --allow-cached /a",
            ),
            ("ndnping -T -q --identifier x /a", "ping --quiet --identifier=x /a"),
            ("ndnpingserver -s 100 -x 0 /a", "ping-server --size=100B --freshness=0ms /a"),
            ("ndncatchunks -p fixed -s 20 -q /a", "get --output - --window=20 --quiet /a"),
            (
                "ndncatchunks -D -r 3 --min-rto 200 /a",
                "get --output - --discover none --retries=3 /a",
            ),
            ("ndnputchunks -s 4000 -f 5000 /a", "put --segment-size=4000B --freshness=5000ms /a"),
            ("ndnsec key-gen -t e -n /me", "key gen --type=ecdsa --not-default /me"),
            ("ndnsec-key-gen -tr /me", "key gen --type=rsa /me"),
            ("ndnsec list -c", "key list"),
            (
                "ndnsec cert-gen -s /me -i CA request",
                "cert sign --identity=/me --issuer=CA request",
            ),
            ("ndnsec cert-dump -pf file", "cert dump --pretty --file file"),
            ("ndnsec cert-install -N file", "cert install --no-default file"),
            ("ndnsec export -o bag /me", "key export --output=bag /me"),
            ("ndnsec delete /me", "key delete --yes --kind identity /me"),
            ("ndnsec delete -k /me/KEY/1", "key delete --yes --kind identity --kind key /me/KEY/1"),
        ] {
            assert_eq!(translated(line).as_deref(), Ok(expected), "{line}");
            let arguments = format!("namewire {expected}");
            let parsed =
                crate::cli::Arguments::command().try_get_matches_from(arguments.split(' '));
            assert!(parsed.is_ok(), "{line}: {parsed:?}");
        }
        for (line, reason) in [
            ("ndnpeek -A x /a", "--app-params-file"),
            ("ndnpoke /a -S id:/me", "--identity"),
            ("ndnping /a -c", "needs a value"),
        ] {
            let refused = translated(line).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
        assert_eq!(translated("ndnping --json /a").as_deref(), Ok("ping --json /a"));
        assert_eq!(translated("ndnping -- -a").as_deref(), Ok("ping -- -a"));
    }

    #[test]
    fn other_words_are_no_tools() {
        assert!(find("namewire", &[]).is_none() && find("ndnsec", &[]).is_none());
        assert!(find("ndnsec", &["frobnicate".into()]).is_none());
    }

    #[test]
    fn every_translated_option_exists() {
        for tool in TOOLS.iter().chain(NDNSEC) {
            let mut command = crate::cli::Arguments::command();
            command.build();
            for word in tool.command {
                if let Some(below) = command.find_subcommand(word) {
                    command = below.clone();
                }
            }
            for (_, meaning) in tool.options {
                let option = match meaning {
                    Is([name, ..]) | Value(name) | Milliseconds(name) | Bytes(name) => *name,
                    Is([]) | Ignored | IgnoredValue | Refused(_) => continue,
                };
                let exists = command.get_arguments().any(|argument| {
                    argument.get_long().is_some_and(|long| format!("--{long}") == option)
                });
                assert!(exists || option == "--help", "{} {option}", tool.name);
            }
        }
    }
}
