//! `namewire run`: the forwarder's options, which override its configuration file.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;

use super::failure::{Failure, Outcome};
use crate::config::{Config, LogLevel, WORKERS_MAX, WorkerCount, check_module};

/// Run the forwarder
///
/// Without any option it listens on its Unix socket (/run/nfd/nfd.sock for root, otherwise
/// $XDG_RUNTIME_DIR/nfd/nfd.sock; without that variable, --socket has to name one) and on UDP and TCP
/// port 6363. SIGTERM or Ctrl-C ends it; SIGHUP
/// makes it read its configuration file again.
/// Options override the configuration file; `namewire config sample` explains every setting.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct Options {
    /// Configuration file (TOML)
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Configuration file of NFD or MW-NFD instead
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    nfd_conf: Option<PathBuf>,
    /// Path of the Unix socket
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// UDP and TCP port
    #[arg(long, short, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// UDP and TCP address to listen on, instead of all; may be repeated
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
    /// Data packets in the Content Store
    #[arg(long, value_name = "PACKETS")]
    cs_capacity: Option<usize>,
    /// Worker threads, or `auto`: as many as physical cores
    #[arg(long, value_name = "NUMBER", value_parser = workers)]
    workers: Option<WorkerCount>,
    /// Processor to pin the worker to, of which there is one then
    #[arg(long, value_name = "NUMBER", conflicts_with = "workers")]
    cpu: Option<usize>,
    /// User to become once the sockets are open, when started by root
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Log level, `debug` for all modules or `ndn_face=debug` for one; may be repeated
    #[arg(long, value_name = "LEVEL")]
    log: Vec<String>,
    /// Path of the control socket
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
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

pub(super) fn run(options: &Options) -> Outcome {
    let config = configuration(options)?;
    let plan = super::config::plan(&config)?;
    let again = options.clone();
    let source = move || configuration(&again).map_err(|failure| failure.to_string());
    crate::run::run(&config, plan, Box::new(source)).map_err(Failure::from)
}

/// The configuration file's settings, or the defaults, as the options change them.
fn configuration(options: &Options) -> Outcome<Config> {
    let mut config = match (&options.config, &options.nfd_conf) {
        (Some(file), _) => super::config::load(file)?,
        (None, Some(file)) => super::config::load_nfd_conf(file)?,
        (None, None) => Config::default(),
    };
    let listeners = &mut config.listeners;
    if let Some(path) = &options.socket {
        listeners.unix.path = Some(path.clone());
        listeners.unix.enabled = true;
    }
    if let Some(port) = options.port {
        listeners.udp.port = port;
        listeners.tcp.port = port;
    }
    if !options.address.is_empty() {
        listeners.udp.addresses.clone_from(&options.address);
        listeners.tcp.addresses.clone_from(&options.address);
    }
    listeners.unix.enabled &= !options.no_unix;
    listeners.tcp.enabled &= !options.no_tcp;
    listeners.udp.enabled &= !options.no_udp;
    if let Some(workers) = options.workers {
        config.forwarder.workers = workers;
    }
    if let Some(cpu) = options.cpu {
        config.forwarder.cpus = vec![cpu];
    }
    if let Some(path) = &options.control {
        config.control.path = Some(path.clone());
        config.control.enabled = true;
    }
    if let Some(capacity) = options.cs_capacity {
        config.tables.cs.capacity_packets = capacity;
    }
    if let Some(user) = &options.user {
        config.privileges.user = Some(user.clone());
    }
    for directive in &options.log {
        apply_log(&mut config, directive)
            .map_err(|reason| Failure::Usage(format!("--log {directive}: {reason}")))?;
    }
    config.check().map_err(|contradiction| Failure::Usage(contradiction.reason))?;
    Ok(config)
}

fn apply_log(config: &mut Config, directive: &str) -> Result<(), String> {
    let (module, word) = match directive.split_once('=') {
        Some((module, word)) => (Some(module), word),
        None => (None, directive),
    };
    let level = LogLevel::from_name(word).ok_or_else(|| {
        format!("`{word}` is no level; the levels are {}", LogLevel::NAMES.join(", "))
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
    use std::path::Path;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        options: Options,
    }

    fn configured(arguments: &[&str]) -> Outcome<Config> {
        let program = Program::parse_from(std::iter::once(&"run").chain(arguments));
        configuration(&program.options)
    }

    #[test]
    fn without_options_the_defaults_hold() {
        assert_eq!(configured(&[]).unwrap(), Config::default());
    }

    #[test]
    fn options_change_the_configuration() {
        let arguments = "--socket /tmp/a.sock --port 7000 --address 127.0.0.1 --no-tcp --cs-capacity 5 --cpu 2 --log warn --log ndn_face=debug";
        let config = configured(&arguments.split(' ').collect::<Vec<_>>()).unwrap();
        assert_eq!(config.socket_path().as_deref(), Some(Path::new("/tmp/a.sock")));
        assert_eq!(config.listeners.udp.port, 7000);
        assert_eq!(config.listeners.udp.addresses, ["127.0.0.1".parse::<IpAddr>().unwrap()]);
        assert!(config.listeners.udp.enabled && !config.listeners.tcp.enabled);
        assert_eq!(config.tables.cs.capacity_packets, 5);
        assert_eq!(config.forwarder.cpus, [2]);
        assert_eq!(config.log.level, LogLevel::Warn);
        assert_eq!(config.log.modules["ndn_face"], LogLevel::Debug);
    }

    #[test]
    fn workers_are_a_number_or_as_many_as_fit() {
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
    fn options_out_of_bounds_are_refused() {
        assert!(configured(&["--cs-capacity", "99999999999"]).is_err());
        assert!(configured(&["--log", "loud"]).is_err());
        assert!(configured(&["--log", "a b=info"]).is_err());
        assert!(configured(&["--no-unix", "--no-tcp", "--no-udp"]).is_err());
    }
}
