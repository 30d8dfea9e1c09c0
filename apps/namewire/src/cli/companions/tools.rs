//! The programs of NFD, ndn-tools and ndn-cxx, by whose names this program can be started: their options, translated to those
//! of this program, and their exit statuses.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::cli::failure::Failure;

/// The default path of NFD's configuration.
const NFD_CONF: &str = "/etc/ndn/nfd.conf";
const NFD_CONF_OPTION: &str = "--nfd-conf";

/// A program of NFD or ndn-tools, or a command of ndnsec.
#[derive(Debug)]
pub(in crate::cli) struct Tool {
    pub(super) name: &'static str,
    /// The command here.
    pub(super) command: &'static [&'static str],
    /// Options for what that program does by default, with their values. The path of NFD's configuration is one if the file
    /// exists.
    defaults: &'static [(&'static str, &'static str)],
    exit_status: ExitStatus,
    pub(super) options: &'static [(&'static str, Meaning)],
}

/// The exit statuses of a program, as its manual page lists them. Status 2 is that of a malformed command line everywhere.
#[derive(Clone, Copy, Debug)]
enum ExitStatus {
    /// Those of this program.
    Own,
    /// 1: all failures.
    Plain,
    /// 3: timeout; 4: Nack.
    Peek,
    /// 3: timeout; 5: the prefix was not registered.
    Poke,
    /// 1: pings without an answer; 2: all failures.
    Ping,
    /// 5: the verification failed.
    Chunks,
}

impl ExitStatus {
    fn of(self, failure: &Failure) -> u8 {
        match (self, failure.itself()) {
            (Self::Own, _) => failure.status(),
            (_, Failure::OutputClosed) => 0,
            (_, Failure::Interrupted) => failure.status(),
            (_, Failure::Usage(_)) => 2,
            (Self::Peek | Self::Poke, Failure::NoAnswer(_)) => 3,
            (Self::Peek, Failure::Nacked(_) | Failure::NoRoute(_)) => 4,
            (Self::Poke, Failure::Unregistered(_)) | (Self::Chunks, Failure::Unverified(_)) => 5,
            (Self::Ping, failure) if failure.is_unanswered() => 1,
            (Self::Ping, _) => 2,
            (Self::Plain | Self::Peek | Self::Poke | Self::Chunks, _) => 1,
        }
    }
}

/// The translation of an option. The text of an option is its letter and its word, separated by a comma.
#[derive(Clone, Copy, Debug)]
pub(super) enum Meaning {
    /// These arguments instead.
    Is(&'static [&'static str]),
    /// As the option of this name, with the same value.
    Value(&'static str),
    /// As the option of this name; the value is in milliseconds, or in bytes.
    Milliseconds(&'static str),
    Bytes(&'static str),
    /// Signer of Data: `id:NAME`, `key:NAME` or `cert:NAME`.
    Signing,
    /// It has no effect, and no value, or one.
    Ignored,
    IgnoredValue,
    /// It is not offered, for this reason.
    Refused(&'static str),
}

use Meaning::{Bytes, Ignored, IgnoredValue, Is, Milliseconds, Refused, Signing, Value};

const HELP: (&str, Meaning) = ("h,help", Is(&["--help"]));
const QUIET: (&str, Meaning) = ("q,quiet", Is(&["--quiet"]));
const SIGNING_INFO: (&str, Meaning) = ("S,signing-info", Signing);
/// The name of ndn-cxx for a digest in place of a signature.
const DIGEST_IDENTITY: &str = "/localhost/identity/digest-sha256";
const CATCHUNKS: Tool = Tool {
    name: "ndncatchunks",
    command: &["get"],
    defaults: &[("--output", "-")],
    exit_status: ExitStatus::Chunks,
    options: CATCHUNKS_OPTIONS,
};
const PUTCHUNKS: Tool = Tool {
    name: "ndnputchunks",
    command: &["put"],
    defaults: &[],
    exit_status: ExitStatus::Plain,
    options: PUTCHUNKS_OPTIONS,
};

const CATCHUNKS_OPTIONS: &[(&str, Meaning)] = &[
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
    (",reset-cwnd-to-init", Ignored),
    (",fast-conv", Ignored),
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
];
const PUTCHUNKS_OPTIONS: &[(&str, Meaning)] = &[
    HELP,
    ("f,freshness", Milliseconds("--freshness")),
    ("s,size", Bytes("--segment-size")),
    ("i,identity", Value("--identity")),
    ("p,print-data-version", Is(&["--print-version"])),
    ("N,naming-convention", IgnoredValue),
    SIGNING_INFO,
    QUIET,
    ("v,verbose", Ignored),
];

const TOOLS: &[Tool] = &[
    Tool {
        name: "nfd",
        command: &["run"],
        defaults: &[(NFD_CONF_OPTION, NFD_CONF)],
        exit_status: ExitStatus::Own,
        options: &[("c,config", Value(NFD_CONF_OPTION))],
    },
    Tool {
        name: "nfd-start",
        command: &["start"],
        defaults: &[(NFD_CONF_OPTION, NFD_CONF)],
        exit_status: ExitStatus::Own,
        options: &[("c,config", Value(NFD_CONF_OPTION))],
    },
    same_options("nfd-stop", &["stop"]),
    same_options("nfd-status", &["nfdc", "status", "report"]),
    same_options("nfdc", &["nfdc"]),
    same_options("nfd-autoreg", &["autoreg"]),
    same_options("ndn-autoconfig", &["autoconfig"]),
    same_options("ndn-autoconfig-server", &["autoconfig-server"]),
    Tool {
        defaults: &[("--port", "8080")],
        // `-p` is a prefix everywhere else.
        options: &[("p,port", Value("--port"))],
        ..same_options("nfd-status-http-server", &["status-server"])
    },
    same_options("namewire-extcap", &["extcap"]),
    Tool {
        name: "ndnpeek",
        command: &["peek"],
        defaults: &[("--format", "packet"), ("--verify", "none")],
        exit_status: ExitStatus::Peek,
        options: &[
            HELP,
            ("P,prefix", Is(&["--can-be-prefix"])),
            ("f,fresh", Is(&["--fresh"])),
            ("l,lifetime", Milliseconds("--lifetime")),
            ("w,timeout", Milliseconds("--lifetime")),
            ("H,hop-limit", Value("--hop-limit")),
            ("F,fwhint", Value("--hint")),
            ("A,app-params", Value("--parameters-base64")),
            (",app-params-file", Value("--parameters")),
            ("p,payload", Is(&["--format", "content"])),
            ("v,verbose", Ignored),
        ],
    },
    Tool {
        name: "ndnpoke",
        command: &["poke"],
        defaults: &[("--freshness", "10s")],
        exit_status: ExitStatus::Poke,
        options: &[
            HELP,
            ("f,freshness", Milliseconds("--freshness")),
            ("x,freshness", Milliseconds("--freshness")),
            ("F,final", Is(&["--final"])),
            ("w,timeout", Milliseconds("--timeout")),
            ("i,identity", Value("--identity")),
            ("D,digest", Is(&["--sign", "digest"])),
            ("u,unsolicited", Refused("the packet is sent when an Interest asks for it")),
            SIGNING_INFO,
            ("v,verbose", Ignored),
        ],
    },
    Tool {
        name: "ndnping",
        command: &["ping", "--require-all"],
        defaults: &[],
        exit_status: ExitStatus::Ping,
        options: &[
            HELP,
            ("i,interval", Milliseconds("--interval")),
            ("o,timeout", Milliseconds("--timeout")),
            ("c,count", Value("--count")),
            ("n,start", Value("--start")),
            ("p,identifier", Value("--identifier")),
            ("a,cache", Is(&["--allow-cached"])),
            ("t,timestamp", Is(&["--timestamp"])),
            QUIET,
        ],
    },
    Tool {
        name: "ndnpingserver",
        command: &["ping-server"],
        defaults: &[("--size", "0")],
        exit_status: ExitStatus::Plain,
        options: &[
            HELP,
            ("f,freshness", Milliseconds("--freshness")),
            ("x,freshness", Milliseconds("--freshness")),
            ("s,size", Bytes("--size")),
            ("p,satisfy", Value("--count")),
            ("t,timestamp", Ignored),
            ("q,quiet", Ignored),
        ],
    },
    CATCHUNKS,
    Tool { name: "ndnget", ..CATCHUNKS },
    PUTCHUNKS,
    Tool { name: "ndnserve", ..PUTCHUNKS },
];

/// A program whose options and exit statuses are those of a command here.
const fn same_options(name: &'static str, command: &'static [&'static str]) -> Tool {
    Tool { name, command, defaults: &[], exit_status: ExitStatus::Own, options: &[] }
}

/// Commands of ndnsec, which are also programs: `ndnsec-list`.
pub(super) const NDNSEC: &[Tool] = &[
    Tool {
        name: "list",
        command: &["key", "list"],
        defaults: &[("--depth", "identity")],
        exit_status: ExitStatus::Plain,
        options: &[
            HELP,
            ("k,key", Is(&["--depth", "key"])),
            ("c,cert", Is(&["--depth", "certificate"])),
            ("v,verbose", Is(&["--depth", "key"])),
        ],
    },
    Tool {
        name: "get-default",
        command: &["key", "default"],
        defaults: &[],
        exit_status: ExitStatus::Plain,
        options: &[
            HELP,
            ("k,default-key", Is(&["--show", "key"])),
            ("c,default-cert", Is(&["--show", "certificate"])),
            ("i,identity", Value("--of")),
            ("K,key", Value("--of")),
            ("q,quiet", Is(&["--no-newline"])),
        ],
    },
    Tool {
        name: "set-default",
        command: &["key", "default"],
        defaults: &[],
        exit_status: ExitStatus::Plain,
        options: &[HELP, ("k,default-key", Ignored), ("c,default-cert", Ignored)],
    },
    Tool {
        name: "delete",
        command: &["key", "delete", "--yes"],
        defaults: &[("--kind", "identity")],
        exit_status: ExitStatus::Plain,
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
        defaults: &[],
        exit_status: ExitStatus::Plain,
        options: &[
            HELP,
            ("i,identity", Is(&[])),
            ("n,not-default", Is(&["--not-default"])),
            ("t,type", Value("--type")),
            (",keyid", Value("--key-id")),
        ],
    },
    Tool {
        name: "sign-req",
        command: &["cert", "request"],
        defaults: &[],
        exit_status: ExitStatus::Plain,
        options: &[HELP, ("k,key", Ignored)],
    },
    Tool {
        name: "cert-gen",
        command: &["cert", "sign"],
        defaults: &[],
        exit_status: ExitStatus::Plain,
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
        defaults: &[],
        exit_status: ExitStatus::Plain,
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
        defaults: &[],
        exit_status: ExitStatus::Plain,
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
        defaults: &[],
        exit_status: ExitStatus::Plain,
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
        defaults: &[],
        exit_status: ExitStatus::Plain,
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
    /// The name, with that of the program in front of a command.
    pub(super) fn full_name(&self) -> String {
        match NDNSEC.iter().any(|tool| tool.name == self.name) {
            true => format!("ndnsec {}", self.name),
            false => self.name.to_owned(),
        }
    }

    /// Whether these arguments ask for the usage of a program that has options of its own.
    pub(super) fn asks_for_usage(&self, given: &[OsString]) -> bool {
        self.has_own_help() && given.iter().any(|word| word == "-h" || word == "--help")
    }

    pub(super) fn has_own_help(&self) -> bool {
        self.meaning(|_, long| long == "help").is_some()
    }

    /// The exit status of a failed command.
    pub(in crate::cli) fn exit_status(&self, failure: &Failure) -> u8 {
        self.exit_status.of(failure)
    }

    /// The arguments of this program.
    ///
    /// # Errors
    /// The text about an option that is not offered.
    pub(super) fn translate(&self, given: &[OsString]) -> Result<Vec<OsString>, String> {
        // All of them have this option; there is one version. nfdc prints it in its own form.
        let asks_version = given.len() == 1 && (given[0] == "-V" || given[0] == "--version");
        if asks_version && self.command[0] != "nfdc" {
            return Ok(vec!["--version".into()]);
        }
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
                let value = value.map(|value| value.strip_prefix('=').unwrap_or(value));
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
            Signing => {
                translated.extend(signing(&value()?)?);
                return Ok(());
            }
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

    /// Adds the defaults of options that were not given; key types are letters in ndnsec.
    fn finished(&self, mut translated: Vec<OsString>) -> Vec<OsString> {
        let apply = self
            .defaults
            .iter()
            .filter(|(name, value)| *name != NFD_CONF_OPTION || Path::new(value).exists());
        for (name, value) in apply.rev() {
            let is_it = |word: &OsString| {
                word.to_str().is_some_and(|word| word.split('=').next() == Some(*name))
            };
            if !translated.iter().any(is_it) {
                let at = self.command.len();
                translated.insert(at, format!("{name}={value}").into());
            }
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

/// The options for the signing information of ndn-cxx. An empty text is the default.
fn signing(value: &OsStr) -> Result<Vec<OsString>, String> {
    let text = value.to_string_lossy();
    let (scheme, name) = text.split_once(':').unwrap_or(("id", &text));
    match (scheme, name) {
        ("id", "") => Ok(Vec::new()),
        ("id", DIGEST_IDENTITY) => Ok(vec!["--sign=digest".into()]),
        ("id" | "key" | "cert", name) => Ok(vec![format!("--identity={name}").into()]),
        _ => Err(format!("signing information {text}: use id:NAME, key:NAME or cert:NAME")),
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
    fn failure_that_was_reported_when_it_occurred_has_its_status() {
        let failure =
            || Failure::Reported(Box::new(Failure::Unverified("not verified".to_owned())));
        assert_eq!(ExitStatus::Chunks.of(&failure()), 5);
        assert_eq!(ExitStatus::Own.of(&failure()), 5);
        assert_eq!(ExitStatus::Plain.of(&failure()), 1);
    }

    #[test]
    fn options_of_other_programs_are_translated() {
        for (line, expected) in [
            ("ndnpeek -p /a", "peek --verify=none --format content /a"),
            (
                "ndnpeek -Pfl 250 /a",
                "peek --format=packet --verify=none --can-be-prefix --fresh --lifetime=250ms /a",
            ),
            (
                "ndnpeek --prefix --timeout=1000 /a",
                "peek --format=packet --verify=none --can-be-prefix --lifetime=1000ms /a",
            ),
            (
                "ndnpeek -F /r -A aGVsbG8= /a",
                "peek --format=packet --verify=none --hint=/r --parameters-base64=aGVsbG8= /a",
            ),
            ("ndnpoke -Ff1000 /a", "poke --final --freshness=1000ms /a"),
            ("ndnpoke -S id:/me /a", "poke --freshness=10s --identity=/me /a"),
            (
                "ndnpoke -S id:/localhost/identity/digest-sha256 /a",
                "poke --freshness=10s --sign=digest /a",
            ),
            (
                "ndnping -c4 -i 100 -o500 -a /a",
                "ping --require-all --count=4 --interval=100ms --timeout=500ms --allow-cached /a",
            ),
            ("ndnping -t -p x /a", "ping --require-all --timestamp --identifier=x /a"),
            (
                "ndnpingserver -s 100 -f 0 -p 4 /a",
                "ping-server --size=100B --freshness=0ms --count=4 /a",
            ),
            ("ndncatchunks -p fixed -s 20 -q /a", "get --output=- --window=20 --quiet /a"),
            ("ndnget --fast-conv /a", "get --output=- /a"),
            (
                "ndncatchunks -D -r 3 --min-rto 200 /a",
                "get --output=- --discover none --retries=3 /a",
            ),
            ("ndnputchunks -s 4000 -f 5000 /a", "put --segment-size=4000B --freshness=5000ms /a"),
            ("ndnserve -pq /a", "put --print-version --quiet /a"),
            ("ndnsec key-gen -t e -n /me", "key gen --type=ecdsa --not-default /me"),
            ("ndnsec-key-gen -tr /me", "key gen --type=rsa /me"),
            ("ndnsec list", "key list --depth=identity"),
            ("ndnsec list -c", "key list --depth certificate"),
            ("ndnsec get-default -k -i /me", "key default --show key --of=/me"),
            (
                "ndnsec cert-gen -s /me -i CA request",
                "cert sign --identity=/me --issuer=CA request",
            ),
            ("ndnsec cert-dump -pf file", "cert dump --pretty --file file"),
            ("ndnsec cert-install -N file", "cert install --no-default file"),
            ("ndnsec export -o bag /me", "key export --output=bag /me"),
            ("ndnsec delete /me", "key delete --yes --kind=identity /me"),
            ("ndnsec delete -k /me/KEY/1", "key delete --yes --kind key /me/KEY/1"),
        ] {
            assert_eq!(translated(line).as_deref(), Ok(expected), "{line}");
            let arguments = format!("namewire {expected}");
            let parsed =
                crate::cli::Arguments::command().try_get_matches_from(arguments.split(' '));
            assert!(parsed.is_ok(), "{line}: {parsed:?}");
        }
        for (line, reason) in [
            ("ndnpoke /a -S hmac:x", "use id:NAME"),
            ("ndnpoke -u /a", "when an Interest asks for it"),
            ("ndnping /a -c", "needs a value"),
        ] {
            let refused = translated(line).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
        assert_eq!(translated("ndnping --json /a").as_deref(), Ok("ping --require-all --json /a"));
        assert_eq!(translated("ndnping -- -a").as_deref(), Ok("ping --require-all -- -a"));
    }

    #[test]
    fn program_names_of_nfd_are_translated() {
        let conf = match Path::new(NFD_CONF).exists() {
            true => format!(" {NFD_CONF_OPTION}={NFD_CONF}"),
            false => String::new(),
        };
        for (line, expected) in [
            ("nfdc face list", "nfdc face list".to_owned()),
            ("nfdc -V", "nfdc -V".to_owned()),
            ("nfd-status", "nfdc status report".to_owned()),
            ("nfd-autoreg -i /a -c 5", "autoreg -i /a -c 5".to_owned()),
            ("ndn-autoconfig -d", "autoconfig -d".to_owned()),
            ("ndn-autoconfig-server -p /a udp://h", "autoconfig-server -p /a udp://h".to_owned()),
            ("nfd-status-http-server -p 8000", "status-server --port=8000".to_owned()),
            ("nfd-status-http-server -p8000", "status-server --port=8000".to_owned()),
            (
                "nfd-status-http-server -p=8000 -a ::1",
                "status-server --port=8000 -a ::1".to_owned(),
            ),
            ("nfd-status-http-server", "status-server --port=8080".to_owned()),
            ("nfd-status-http-server --version", "--version".to_owned()),
            ("ndnpeek -V", "--version".to_owned()),
            ("nfd-stop", "stop".to_owned()),
            ("nfd-start", format!("start{conf}")),
            ("nfd-start --config /x/nfd.conf", "start --nfd-conf=/x/nfd.conf".to_owned()),
            ("nfd -c /x/nfd.conf", "run --nfd-conf=/x/nfd.conf".to_owned()),
            ("nfd --config=/x/nfd.conf", "run --nfd-conf=/x/nfd.conf".to_owned()),
            ("nfd --config /x/nfd.conf", "run --nfd-conf=/x/nfd.conf".to_owned()),
            ("nfd --help", format!("run{conf} --help")),
            ("nfd", format!("run{conf}")),
            ("namewire-extcap --extcap-version=4.2", "extcap --extcap-version=4.2".to_owned()),
        ] {
            assert_eq!(translated(line), Ok(expected), "{line}");
        }
        let (nfd, _) = find("nfd", &[]).unwrap();
        assert_eq!(nfd.exit_status(&Failure::Unreachable(String::new())), 3);
    }

    #[test]
    fn unknown_program_names_are_not_translated() {
        assert!(find("namewire", &[]).is_none() && find("ndnsec", &[]).is_none());
        assert!(find("ndnsec", &["frobnicate".into()]).is_none());
    }

    #[test]
    fn every_translated_option_exists() {
        for tool in TOOLS.iter().chain(NDNSEC) {
            let mut command = crate::cli::Arguments::command();
            command.build();
            for word in tool.command.iter().filter(|word| !word.starts_with('-')) {
                if let Some(below) = command.find_subcommand(word) {
                    command = below.clone();
                }
            }
            for (_, meaning) in tool.options {
                let option = match meaning {
                    Is([name, ..]) | Value(name) | Milliseconds(name) | Bytes(name) => *name,
                    Is([]) | Ignored | IgnoredValue | Refused(_) | Signing => continue,
                };
                let exists = command.get_arguments().any(|argument| {
                    argument.get_long().is_some_and(|long| format!("--{long}") == option)
                });
                assert!(exists || option == "--help", "{} {option}", tool.name);
            }
        }
    }
}
