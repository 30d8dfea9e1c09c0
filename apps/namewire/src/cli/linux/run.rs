//! `namewire run`: the forwarder's options, which override its configuration file.

use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Args;

use super::config::Source;
use crate::cli::failure::{Failure, Outcome};
use crate::cli::output;
use crate::config::nfd_conf::FreePorts;
use crate::config::{
    Config, ConfigError, Conflict, LogFormat, LogLevel, WORKERS_MAX, WorkerCount, check_module,
};
use namewire_daemon::ConfigSource;
use ndn_sys::clock::Clock;

use crate::process::logging::LogFile;
use crate::process::{self, Prepared};

/// Options, and the settings that they determine.
const OPTIONS: &[(&str, &[&str])] = &[
    ("--socket", &["listeners.unix.path"]),
    ("--port", &["listeners.udp.port", "listeners.tcp.port"]),
    ("--address", &["listeners.udp.addresses", "listeners.tcp.addresses"]),
    ("--no-unix", &["listeners.unix.enabled"]),
    ("--no-tcp", &["listeners.tcp.enabled"]),
    ("--no-udp", &["listeners.udp.enabled"]),
    ("--cs-capacity", &["tables.cs.capacity_packets"]),
    ("--cpu", &["forwarder.cpus"]),
    ("--workers", &["forwarder.workers"]),
    ("--user", &["privileges.user"]),
    ("--log", &["log.level", "log.modules"]),
    ("--log-format", &["log.format"]),
    ("--control", &["control.path"]),
    ("--http", &["control.http.listen"]),
];

/// Whether an option is one of `arguments`.
fn is_given(option: &str, arguments: &[OsString]) -> bool {
    let is_it = |word: &OsString| word.to_string_lossy().split('=').next() == Some(option);
    arguments.iter().any(is_it)
}

/// Run the forwarder
///
/// Without options it listens on a Unix socket and on UDP and TCP port 6363. The socket is /run/nfd/nfd.sock for root,
/// otherwise $XDG_RUNTIME_DIR/nfd/nfd.sock; where that variable is not set, use --socket. SIGTERM or Ctrl-C stops the
/// forwarder; SIGHUP makes it read its configuration file again. Options override the configuration file; `namewire
/// config sample` explains every setting.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
// `start` has options of the same name, which include these.
#[group(skip)]
pub(in crate::cli) struct Options {
    /// Configuration file (TOML)
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Configuration file of NFD or MW-NFD (nfd.conf)
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    nfd_conf: Option<PathBuf>,
    /// Path of the Unix socket
    #[arg(long, value_name = "PATH")]
    pub(in crate::cli) socket: Option<PathBuf>,
    /// UDP and TCP port
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// UDP and TCP address to listen on; may be repeated [default: all addresses]
    #[arg(long, value_name = "ADDRESS")]
    address: Vec<IpAddr>,
    /// Do not listen on a Unix socket
    #[arg(long)]
    no_unix: bool,
    /// Do not listen on TCP
    #[arg(long)]
    no_tcp: bool,
    /// Do not listen on UDP
    #[arg(long)]
    no_udp: bool,
    /// Capacity of the Content Store, in packets
    #[arg(long, value_name = "PACKETS")]
    cs_capacity: Option<usize>,
    /// Number of workers, or `auto`: one on one or two processors, otherwise one per physical core
    #[arg(long, value_name = "NUMBER", value_parser = workers)]
    workers: Option<WorkerCount>,
    /// Processor to pin the worker to; implies one worker
    #[arg(long, value_name = "NUMBER", conflicts_with = "workers")]
    cpu: Option<usize>,
    /// User to change to after the sockets are open, if started by root
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Log level, `debug` for all modules or `ndn_dataplane=debug` for one; may be repeated
    #[arg(long, value_name = "LEVEL")]
    log: Vec<String>,
    /// Form of log lines
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"])]
    log_format: Option<String>,
    /// Path of the control socket
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Serve the HTTP API on this address and port, such as 127.0.0.1:6380; may be repeated
    #[arg(long, value_name = "ADDRESS:PORT")]
    http: Vec<SocketAddr>,
    /// Append the log to this file instead of standard error; SIGHUP reopens it, for log rotation
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) log_file: Option<PathBuf>,
}

fn workers(text: &str) -> Result<WorkerCount, String> {
    if text == "auto" {
        return Ok(WorkerCount::Auto);
    }
    let count = text.parse().ok().filter(|count| (1..=WORKERS_MAX).contains(count));
    count
        .map(WorkerCount::Fixed)
        .ok_or_else(|| format!("it is `auto` or a number from 1 to {WORKERS_MAX}"))
}

pub(in crate::cli) fn run(options: &Options) -> Outcome {
    let ports = FreePorts::default();
    let (config, plan) = options.prepare(&ports)?;
    let again = options.clone();
    let has_file = options.config.is_some() || options.nfd_conf.is_some();
    let read = move || {
        let (config, source) = configuration(&again, &ports)
            .map_err(|failure| crate::cli::failure::bare_lines(&failure.to_string()))?;
        // Files that settings name are read later; their errors belong to lines of this file.
        namewire_daemon::check_access(&config, &Clock::system())
            .map_err(|faults| crate::cli::failure::bare_lines(&source.describe_all(&faults)))?;
        Ok(config)
    };
    let log_file = options.log_file.as_deref().map(open_log).transpose()?;
    let overrides = options.overrides();
    let source = ConfigSource { read: Box::new(read), has_file, overrides };
    process::run(&config, plan, source, log_file).map_err(Failure::from)
}

fn open_log(path: &Path) -> Outcome<LogFile> {
    let shown = format_args!("--log-file {}", path.display());
    LogFile::open(path).map_err(|error| Failure::file(shown, &error))
}

impl Options {
    /// The configuration and its plan on this machine. Problems of the file, the options and the
    /// machine are reported together.
    fn prepare(&self, ports: &FreePorts) -> Outcome<(Config, Prepared)> {
        let Settings { config, source, problems } = self.settings(ports)?;
        if config.log.format == LogFormat::Json {
            output::note_as_json_lines();
        }
        let planned = Prepared::new(&config);
        let Some((error, of_file)) = problems else {
            let plan = planned.map_err(|faults| self.refuse(&faults, &source))?;
            super::config::report(config.warnings(), &source);
            return Ok((config, plan));
        };
        let faults = planned.err().unwrap_or_default();
        let more = faults.into_iter().filter(|fault| !of_file.contains(fault));
        let (of_options, more): (Vec<_>, Vec<_>) =
            more.partition(|fault| self.option_of(fault).is_some());
        let mut reported = vec![super::config::describe(&error.with(&more))];
        reported.extend(of_options.iter().map(|fault| self.describe(fault, &source)));
        Err(Failure::Usage(crate::cli::failure::lines(&reported)))
    }

    /// The failure for conflicts, each with its option or line.
    fn refuse(&self, faults: &[Conflict], source: &Source) -> Failure {
        let reported: Vec<_> = faults.iter().map(|fault| self.describe(fault, source)).collect();
        Failure::Usage(crate::cli::failure::lines(&reported))
    }

    fn describe(&self, fault: &Conflict, source: &Source) -> String {
        match self.option_of(fault) {
            Some(option) => format!("{option}: {fault}"),
            None => source.describe(fault),
        }
    }

    /// The option that has set the setting at fault, if there is one.
    fn option_of(&self, fault: &Conflict) -> Option<&'static str> {
        let given = self.arguments();
        let given = OPTIONS.iter().filter(|(option, _)| is_given(option, &given));
        let mut of_key =
            given.filter(|(_, keys)| fault.keys.iter().any(|key| keys.contains(&&**key)));
        of_key.next().map(|(option, _)| *option)
    }

    /// The options that are given, each with its settings, which the file cannot change.
    fn overrides(&self) -> Vec<String> {
        let given = self.arguments();
        let given = OPTIONS.iter().filter(|(option, _)| is_given(option, &given));
        given.map(|(option, keys)| format!("{option}: {}", keys.join(", "))).collect()
    }

    /// The options as command-line arguments.
    pub(in crate::cli) fn arguments(&self) -> Vec<OsString> {
        let Self { config, nfd_conf, socket, port, address, no_unix, no_tcp, no_udp, .. } = self;
        let Self {
            cs_capacity, workers, cpu, user, log, log_format, control, http, log_file, ..
        } = self;
        let mut arguments: Vec<OsString> = Vec::new();
        let mut option = |name: &str, value: &OsStr| {
            // As one word, so that a value can begin with a dash.
            let mut word = OsString::from(name);
            word.push("=");
            word.push(value);
            arguments.push(word);
        };
        for (name, path) in [
            ("--config", config),
            ("--nfd-conf", nfd_conf),
            ("--socket", socket),
            ("--control", control),
            ("--log-file", log_file),
        ] {
            path.iter().for_each(|path| option(name, path.as_os_str()));
        }
        let mut text = |name: &str, value: String| option(name, OsStr::new(&value));
        port.iter().for_each(|port| text("--port", port.to_string()));
        address.iter().for_each(|address| text("--address", address.to_string()));
        cs_capacity.iter().for_each(|packets| text("--cs-capacity", packets.to_string()));
        workers.iter().for_each(|workers| text("--workers", workers.to_string()));
        cpu.iter().for_each(|cpu| text("--cpu", cpu.to_string()));
        user.iter().for_each(|user| text("--user", user.clone()));
        log.iter().for_each(|level| text("--log", level.clone()));
        log_format.iter().for_each(|format| text("--log-format", format.clone()));
        http.iter().for_each(|address| text("--http", address.to_string()));
        let switches = [("--no-unix", no_unix), ("--no-tcp", no_tcp), ("--no-udp", no_udp)];
        let given = switches.iter().filter(|(_, is_given)| **is_given);
        arguments.extend(given.map(|(name, _)| OsString::from(name)));
        arguments
    }

    /// The settings of the configuration file or the defaults, changed by the options.
    fn settings(&self, ports: &FreePorts) -> Outcome<Settings> {
        let (mut config, source, error) = match (&self.config, &self.nfd_conf) {
            (Some(file), _) => super::config::load_leniently(file)?,
            (None, Some(file)) => {
                let (config, source) = super::config::load_nfd_conf(file, ports)?;
                (config, source, None)
            }
            (None, None) => (Config::default(), Source::Defaults, None),
        };
        let problems = error.map(|error| (error, config.conflicts()));
        let listeners = &mut config.listeners;
        if let Some(path) = &self.socket {
            let absolute = std::path::absolute(path);
            let absolute = absolute.map_err(|error| Failure::file(path.display(), &error))?;
            listeners.unix.path = Some(absolute);
            listeners.unix.enabled = true;
        }
        if let Some(port) = self.port {
            listeners.udp.port = port;
            listeners.tcp.port = port;
        }
        if !self.address.is_empty() {
            listeners.udp.addresses.clone_from(&self.address);
            listeners.tcp.addresses.clone_from(&self.address);
        }
        listeners.unix.enabled &= !self.no_unix;
        listeners.tcp.enabled &= !self.no_tcp;
        listeners.udp.enabled &= !self.no_udp;
        if let Some(workers) = self.workers {
            config.forwarder.workers = workers;
        }
        if let Some(cpu) = self.cpu {
            config.forwarder.cpus = vec![cpu];
        }
        if let Some(path) = &self.control {
            config.control.path = Some(path.clone());
            config.control.enabled = true;
        }
        if !self.http.is_empty() {
            config.control.http.listen.clone_from(&self.http);
            config.control.http.enabled = true;
        }
        if let Some(capacity) = self.cs_capacity {
            config.tables.cs.capacity_packets = capacity;
        }
        if let Some(user) = &self.user {
            config.privileges.user = Some(user.clone());
        }
        for directive in &self.log {
            apply_log(&mut config, directive)
                .map_err(|reason| Failure::Usage(format!("--log {directive}: {reason}")))?;
        }
        if let Some(format) = &self.log_format {
            config.log.format = match format.as_str() {
                "json" => LogFormat::Json,
                _ => LogFormat::Text,
            };
        }
        Ok(Settings { config, source, problems })
    }
}

/// The settings of a forwarder.
struct Settings {
    config: Config,
    source: Source,
    /// Errors of the file alone, and settings of it that exclude each other.
    problems: Option<(ConfigError, Vec<Conflict>)>,
}

/// The settings of the configuration file, or the defaults, changed by options; this machine is not inspected.
fn configuration(options: &Options, ports: &FreePorts) -> Outcome<(Config, Source)> {
    let Settings { config, source, problems } = options.settings(ports)?;
    if let Some((error, _)) = problems {
        return Err(Failure::Usage(super::config::describe(&error)));
    }
    let faults = config.conflicts();
    if !faults.is_empty() {
        return Err(options.refuse(&faults, &source));
    }
    super::config::report(config.warnings(), &source);
    Ok((config, source))
}

fn apply_log(config: &mut Config, directive: &str) -> Result<(), String> {
    let (module, word) = match directive.split_once('=') {
        Some((module, word)) => (Some(module), word),
        None => (None, directive),
    };
    let level = LogLevel::from_name(word).ok_or_else(|| {
        format!("`{word}` is not a level; the levels are {}", LogLevel::NAMES.join(", "))
    })?;
    match module {
        None => config.log.level = level,
        Some(module) => {
            check_module(module)?;
            config.log.modules.insert(module.to_owned(), level);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        options: Options,
    }

    fn configured(arguments: &[&str]) -> Outcome<Config> {
        let program = Program::parse_from(std::iter::once(&"run").chain(arguments));
        configuration(&program.options, &FreePorts::default()).map(|(config, _)| config)
    }

    #[test]
    fn run_without_options_uses_the_defaults() {
        assert_eq!(configured(&[]).unwrap(), Config::default());
    }

    /// Applications receive an absolute path, which they need.
    #[test]
    fn relative_socket_path_becomes_absolute() {
        let config = configured(&["--socket", "a.sock"]).unwrap();
        let expected = std::env::current_dir().unwrap().join("a.sock");
        assert_eq!(config.socket_path(), Some(expected));
    }

    #[test]
    fn options_change_the_configuration() {
        let arguments = "--socket /tmp/a.sock --port 7000 --address 127.0.0.1 --no-tcp --cs-capacity 5 --cpu 2 --log warn --log ndn_dataplane=debug";
        let config = configured(&arguments.split(' ').collect::<Vec<_>>()).unwrap();
        assert_eq!(config.socket_path().as_deref(), Some(Path::new("/tmp/a.sock")));
        assert_eq!(config.listeners.udp.port, 7000);
        assert_eq!(config.listeners.udp.addresses, ["127.0.0.1".parse::<IpAddr>().unwrap()]);
        assert!(config.listeners.udp.enabled && !config.listeners.tcp.enabled);
        assert_eq!(config.tables.cs.capacity_packets, 5);
        assert_eq!(config.forwarder.cpus, [2]);
        assert_eq!(config.log.level, LogLevel::Warn);
        let program = std::iter::once("run").chain(arguments.split(' '));
        let overrides = Program::parse_from(program).options.overrides();
        for expected in
            ["--port: listeners.udp.port, listeners.tcp.port", "--no-tcp: listeners.tcp.enabled"]
        {
            assert!(overrides.iter().any(|option| option == expected), "{overrides:?}");
        }
        assert!(!overrides.iter().any(|option| option.starts_with("--no-udp")), "{overrides:?}");
        assert_eq!(config.log.modules["ndn_dataplane"], LogLevel::Debug);
    }

    #[test]
    fn options_round_trip_as_arguments() {
        for arguments in [
            "",
            "--config=/a.toml --socket=-x --control /c --port 7000 --address ::1 --address 127.0.0.1",
            "--nfd-conf nfd.conf --no-unix --no-tcp --no-udp --cs-capacity 5 --cpu 2 --user ndn",
            "--workers auto --log warn --log ndn_dataplane=debug --log-format=json --log-file namewire.log",
            "--workers 3 --http 127.0.0.1:6380 --http [::1]:0",
        ] {
            let given = arguments.split(' ').filter(|word| !word.is_empty());
            let options = Program::parse_from(std::iter::once("run").chain(given)).options;
            let written = std::iter::once("run".into()).chain(options.arguments());
            assert_eq!(Program::parse_from(written).options, options, "{arguments}");
        }
    }

    #[test]
    fn option_at_fault_is_named() {
        let options = Program::parse_from(["run", "--cpu", "4000"]).options;
        let Err(failure) = options.prepare(&FreePorts::default()) else {
            panic!("there is no such processor")
        };
        let reported = failure.to_string();
        assert!(
            reported.starts_with("--cpu: ") && reported.contains("processor 4000"),
            "{reported}"
        );
        let Err(failure) = configured(&["--cs-capacity", "99999999999"]) else {
            panic!("it is too large")
        };
        let reported = failure.to_string();
        assert!(reported.starts_with("--cs-capacity: tables.cs.capacity_packets: "), "{reported}");
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("namewire.toml");
        let text = "unknown = 1\n[forwarder]\ncpus = [4000]\n[control]\npath = \"/dev/null/control.sock\"\n";
        std::fs::write(&file, text).unwrap();
        let path = file.to_str().unwrap();
        let reported = |more: &[&str]| {
            let arguments = [&["run", "--config", path], more].concat();
            let Err(failure) =
                Program::parse_from(arguments).options.prepare(&FreePorts::default())
            else {
                panic!("nothing of it can be")
            };
            failure.to_string()
        };
        let of_file = reported(&[]);
        let places: Vec<_> =
            of_file.lines().map(|line| line.contains(&format!("{path}:"))).collect();
        assert_eq!(places, [true; 3], "{of_file}");
        for what in ["`unknown`", "processor 4000", "/dev/null"] {
            assert!(of_file.contains(what), "{what}: {of_file}");
        }
        let with_option = reported(&["--user", "no-such-user-here"]);
        assert_eq!(with_option.lines().count(), 4, "{with_option}");
        assert!(with_option.contains("namewire: --user: "), "{with_option}");
        assert!(with_option.starts_with(&of_file), "{with_option}");
    }

    #[test]
    fn workers_are_a_number_or_auto() {
        let workers = |text: &str| configured(&["--workers", text]).unwrap().forwarder.workers;
        assert_eq!(workers("3"), WorkerCount::Fixed(3));
        assert_eq!(workers("auto"), WorkerCount::Auto);
        for wrong in
            [&["--workers", "0"][..], &["--workers", "65"], &["--workers", "2", "--cpu", "1"]]
        {
            assert!(Program::try_parse_from([&["run"], wrong].concat()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn options_out_of_range_are_rejected() {
        assert!(configured(&["--cs-capacity", "99999999999"]).is_err());
        assert!(configured(&["--log", "loud"]).is_err());
        assert!(configured(&["--log", "a b=info"]).is_err());
        assert!(configured(&["--no-unix", "--no-tcp", "--no-udp"]).is_err());
    }
}
