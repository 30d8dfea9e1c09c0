//! Arguments of the program if it is started by the name of a program of NFD, ndn-tools or ndn-cxx.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::tools::{self, Tool};

/// The default path of NFD's configuration.
const NFD_CONF: &str = "/etc/ndn/nfd.conf";

/// The arguments of this program, and the program by whose name it was started, if that has exit statuses of its own.
pub(in crate::cli) type Invocation = (Vec<OsString>, Option<&'static Tool>);

/// Translates the arguments of other programs to those of this program.
///
/// # Errors
/// The text about an option that has no counterpart.
pub(in crate::cli) fn invocation() -> Result<Invocation, String> {
    let given: Vec<_> = std::env::args_os().collect();
    let called = called(&given);
    let Some((tool, rest)) = tools::find(&called, given.get(1..).unwrap_or_default()) else {
        return Ok((translate(given, Path::new(NFD_CONF).exists()), None));
    };
    let asks_version = rest.len() == 1 && (rest[0] == "-V" || rest[0] == "--version");
    let arguments = if asks_version { vec!["--version".into()] } else { tool.translate(rest)? };
    Ok((std::iter::once("namewire".into()).chain(arguments).collect(), Some(tool)))
}

/// The name by which the program was started.
fn called(given: &[OsString]) -> String {
    let called = given.first().map(Path::new).and_then(Path::file_name).and_then(OsStr::to_str);
    called.unwrap_or_default().to_owned()
}

fn translate(given: Vec<OsString>, has_nfd_conf: bool) -> Vec<OsString> {
    let called = called(&given);
    let with_conf: &[&str] = &["--nfd-conf", NFD_CONF];
    let command: Vec<&str> = match called.as_str() {
        "nfd" => vec!["run"],
        "nfd-start" if has_nfd_conf => [&["start"], with_conf].concat(),
        "nfd-start" => vec!["start"],
        "nfd-stop" => vec!["stop"],
        "nfd-status" => vec!["nfdc", "status", "report"],
        "nfdc" => vec!["nfdc"],
        "nfd-autoreg" => vec!["autoreg"],
        "ndn-autoconfig" => vec!["autoconfig"],
        "ndn-autoconfig-server" => vec!["autoconfig-server"],
        "nfd-status-http-server" => vec!["status-server"],
        "namewire-extcap" => vec!["extcap"],
        _ => return given,
    };
    let rest = &given[1..];
    // All of them have this option; there is one version.
    let asks_version = rest.len() == 1 && (rest[0] == "-V" || rest[0] == "--version");
    let mut arguments = vec![OsString::from("namewire")];
    if asks_version && command[0] != "nfdc" {
        arguments.push("--version".into());
        return arguments;
    }
    arguments.extend(command.iter().map(OsString::from));
    match command[0] {
        "run" => arguments.extend(run_options(rest, has_nfd_conf)),
        // `-p` is a prefix everywhere else; its value may be in the same word.
        "status-server" => arguments.extend(rest.iter().map(|option| {
            match option.to_str().and_then(|option| option.strip_prefix("-p")) {
                Some("") => "--port".into(),
                Some(port) => format!("--port={}", port.trim_start_matches('=')).into(),
                None => option.clone(),
            }
        })),
        _ => arguments.extend_from_slice(rest),
    }
    arguments
}

/// The options of nfd: `-c FILE`, `--config FILE`, `--config=FILE`; the default is NFD's default
/// path.
fn run_options(given: &[OsString], has_nfd_conf: bool) -> Vec<OsString> {
    let mut options = Vec::new();
    let mut names_file = false;
    for option in given {
        let text = option.to_string_lossy();
        if text == "-c" || text == "--config" {
            names_file = true;
            options.push("--nfd-conf".into());
        } else if let Some(file) = text.strip_prefix("--config=") {
            names_file = true;
            options.push(format!("--nfd-conf={file}").into());
        } else {
            options.push(option.clone());
        }
    }
    let asks_help = given.iter().any(|option| option == "-h" || option == "--help");
    if !names_file && !asks_help && has_nfd_conf {
        options.extend(["--nfd-conf", NFD_CONF].map(OsString::from));
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(line: &str, has_nfd_conf: bool) -> String {
        let given = line.split(' ').map(OsString::from).collect();
        let words = translate(given, has_nfd_conf);
        words.join(OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn program_names_of_nfd_are_translated() {
        for (line, expected) in [
            ("/usr/bin/namewire run -c x", "/usr/bin/namewire run -c x"),
            ("/usr/bin/nfdc face list", "namewire nfdc face list"),
            ("nfdc -V", "namewire nfdc -V"),
            ("nfd-status", "namewire nfdc status report"),
            ("nfd-autoreg -i /a -c 5", "namewire autoreg -i /a -c 5"),
            ("ndn-autoconfig -d", "namewire autoconfig -d"),
            ("ndn-autoconfig-server -p /a udp://h", "namewire autoconfig-server -p /a udp://h"),
            ("nfd-status-http-server -p 8000", "namewire status-server --port 8000"),
            ("nfd-status-http-server -p8000", "namewire status-server --port=8000"),
            ("nfd-status-http-server --version", "namewire --version"),
            ("nfd-stop", "namewire stop"),
            ("nfd-start", "namewire start"),
            ("nfd -c /x/nfd.conf", "namewire run --nfd-conf /x/nfd.conf"),
            ("nfd --config=/x/nfd.conf", "namewire run --nfd-conf=/x/nfd.conf"),
            ("nfd", "namewire run"),
        ] {
            assert_eq!(translated(line, false), expected);
        }
        assert_eq!(translated("nfd", true), "namewire run --nfd-conf /etc/ndn/nfd.conf");
        assert_eq!(translated("nfd --help", true), "namewire run --help");
        let start = "namewire start --nfd-conf /etc/ndn/nfd.conf";
        assert_eq!(translated("nfd-start", true), start);
    }
}
