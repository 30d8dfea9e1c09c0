//! Forwarders of a test: in this process, or as the program.

use std::fmt::Write;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};

use namewire_daemon::Hooks;

use crate::endpoint::Endpoint;
use crate::log::Position;
use crate::process::Process;
use crate::program::program;
use crate::{TIMEOUT, wait_until};

/// The parameters with which a forwarder is started.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    tcp: bool,
    udp: bool,
    websocket: bool,
    webtransport: Option<String>,
    port: Option<u16>,
    workers: Option<usize>,
    toml: String,
    /// More settings of listeners, by table.
    listeners: Vec<(&'static str, String)>,
    arguments: Vec<String>,
    environment: Vec<(String, PathBuf)>,
}

impl Settings {
    /// A Unix socket and nothing else.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Listens on a TCP port of the loopback interface, too.
    #[must_use]
    pub fn tcp(mut self) -> Self {
        self.tcp = true;
        self
    }

    /// Listens on a UDP port of the loopback interface, too.
    #[must_use]
    pub fn udp(mut self) -> Self {
        self.udp = true;
        self
    }

    /// Listens for WebSockets on the loopback interface, too; together with [`tcp`](Self::tcp), on a port of their own.
    #[must_use]
    pub fn websocket(mut self) -> Self {
        self.websocket = true;
        self
    }

    /// Listens for WebTransport on the loopback interface, too; not together with [`udp`](Self::udp).
    #[must_use]
    pub fn webtransport(self) -> Self {
        self.webtransport_with("")
    }

    /// As [`webtransport`](Self::webtransport), with more settings of that listener.
    #[must_use]
    pub fn webtransport_with(mut self, toml: &str) -> Self {
        self.webtransport = Some(toml.to_owned());
        self
    }

    /// Listens on this port, that of an earlier forwarder, and not on any that is free.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Sets the number of workers, whatever the default of the tests.
    #[must_use]
    pub fn workers(mut self, count: usize) -> Self {
        self.workers = Some(count);
        self
    }

    /// Appends to the configuration file.
    #[must_use]
    pub fn toml(mut self, toml: &str) -> Self {
        self.toml.push_str(toml);
        self.toml.push('\n');
        self
    }

    /// Appends an argument to `namewire run`.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// More settings of the table `[listeners.NAME]`, for `unix` or `tcp`.
    #[must_use]
    pub fn listener(mut self, name: &'static str, toml: &str) -> Self {
        self.listeners.push((name, toml.to_owned()));
        self
    }

    /// Sets this variable in its environment.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &Path) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts a forwarder in this process and waits until it accepts connections.
    ///
    /// # Panics
    /// It does not, or has arguments or variables, which only a program has.
    #[must_use]
    pub fn start(&self) -> Forwarder {
        Forwarder::start(self)
    }

    /// Starts the program and waits until it accepts connections: for tests of the process (signals, standard error,
    /// arguments, environment, limits, memory).
    ///
    /// # Panics
    /// It does not.
    #[must_use]
    pub fn start_program(&self) -> ForwarderProcess {
        ForwarderProcess::start(self)
    }
}

/// A running forwarder in this process. When dropped it is stopped, and the test fails unless it ends in time and without
/// a fault.
#[derive(Debug)]
pub struct Forwarder {
    /// Present until it is dropped.
    running: Option<namewire_daemon::Forwarder>,
    announcement: String,
    log: Position,
    endpoint: Endpoint,
}

impl Forwarder {
    fn start(settings: &Settings) -> Self {
        let is_program = !(settings.arguments.is_empty() && settings.environment.is_empty());
        assert!(!is_program, "a forwarder with arguments or variables is a program: {settings:?}");
        let log = Position::end();
        let mut endpoint = Endpoint::new();
        let (running, announcement) = start_at_free_port(settings, &mut endpoint, |file| {
            let config = namewire_config::load(file).expect("a configuration without faults");
            let mut hooks = Hooks::none().expect("a file descriptor");
            let (announce, announced) = mpsc::channel();
            hooks.on_listening = Box::new(move |lines| {
                // A test that has given up does not wait for it.
                let _ = announce.send(lines.to_owned());
            });
            let environment = namewire_daemon::Environment::system();
            let running = namewire_daemon::Forwarder::start(&config, environment, hooks);
            let running = running.map_err(|error| format!("{error:#}"))?;
            match announced.recv_timeout(TIMEOUT) {
                Ok(lines) => Ok((running, lines)),
                Err(_) => Err(format!("it ends with {:?}", running.shut_down())),
            }
        });
        Self { running: Some(running), announcement, log, endpoint }
    }

    /// The addresses at which it listens, as announced at its start.
    #[must_use]
    pub fn announcement(&self) -> &str {
        &self.announcement
    }
}

impl Deref for Forwarder {
    type Target = Endpoint;

    fn deref(&self) -> &Endpoint {
        &self.endpoint
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else { return };
        let (send, ended) = mpsc::channel();
        std::thread::spawn(move || send.send(running.shut_down()));
        let fault = match ended.recv_timeout(TIMEOUT) {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(format!("the forwarder ended with a fault: {error:#}")),
            Err(RecvTimeoutError::Timeout) => {
                Some(format!("the forwarder does not end within {TIMEOUT:?}"))
            }
            Err(RecvTimeoutError::Disconnected) => Some("the end of the forwarder panicked".into()),
        };
        let is_failing = std::thread::panicking();
        if is_failing || fault.is_some() {
            eprintln!("--- log of all forwarders since the start of this one\n{}", self.log.text());
        }
        match fault {
            Some(fault) if is_failing => eprintln!("{fault}"),
            Some(fault) => panic!("{fault}"),
            None => {}
        }
    }
}

/// A running `namewire run`, ended when dropped.
#[derive(Debug)]
pub struct ForwarderProcess {
    /// Dropped before the directory it writes to.
    pub process: Process,
    endpoint: Endpoint,
}

impl ForwarderProcess {
    fn start(settings: &Settings) -> Self {
        let mut endpoint = Endpoint::new();
        let directory = endpoint.directory().to_owned();
        let process = start_at_free_port(settings, &mut endpoint, |config| {
            let mut command = Command::new(program());
            command.arg("run").arg("--config").arg(config).args(&settings.arguments);
            command.env("STATE_DIRECTORY", &directory);
            command.envs(settings.environment.iter().map(|(name, value)| (name, value)));
            let mut process = Process::start("forwarder", command, &directory);
            if wait_until_listening(&mut process) { Ok(process) } else { Err(process.stderr()) }
        });
        Self { process, endpoint }
    }

    /// Checks that the forwarder still runs and answers.
    ///
    /// # Panics
    /// It does not.
    pub fn assert_healthy(&mut self) {
        assert!(self.process.is_running(), "the forwarder ended:\n{}", self.process.everything());
        self.endpoint.assert_healthy();
    }

    /// Resident memory in KiB.
    ///
    /// # Panics
    /// The forwarder is gone.
    #[must_use]
    pub fn resident_kib(&self) -> u64 {
        let path = format!("/proc/{}/status", self.process.pid().as_raw_nonzero());
        let status = std::fs::read_to_string(path).expect("the forwarder's status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
        line.trim().trim_end_matches(" kB").parse().expect("a number of KiB")
    }
}

impl Deref for ForwarderProcess {
    type Target = Endpoint;

    fn deref(&self) -> &Endpoint {
        &self.endpoint
    }
}

/// Writes the configuration with a free port and starts a forwarder with it. Between choosing a port and binding it,
/// another program may take it; then another port is chosen.
fn start_at_free_port<T>(
    settings: &Settings,
    endpoint: &mut Endpoint,
    mut start: impl FnMut(&Path) -> Result<T, String>,
) -> T {
    let config = endpoint.directory().join("namewire.toml");
    let mut attempts = 0;
    wait_until("a port that is free", || {
        let port = settings.port.unwrap_or_else(free_port);
        let websocket_port = if settings.tcp { free_port() } else { port };
        endpoint.set_ports(port, websocket_port);
        let text = toml(settings, endpoint.socket(), port, websocket_port);
        std::fs::write(&config, text).expect("a file");
        match start(&config) {
            Ok(started) => Some(started),
            // The port that a test has chosen becomes free once its former forwarder has ended.
            Err(error) if is_of_port(&error) && (settings.port.is_some() || attempts < 10) => {
                attempts += 1;
                None
            }
            Err(error) => panic!("the forwarder does not start:\n{error}"),
        }
    })
}

/// Whether a forwarder has not started because another program has taken its port.
fn is_of_port(error: &str) -> bool {
    error.lines().any(|line| line.contains(" port ") && line.contains(" in use"))
}

fn toml(settings: &Settings, socket: &Path, port: u16, websocket_port: u16) -> String {
    let mut toml = String::new();
    let listener = |enabled: bool, port: u16| match enabled {
        true => format!("enabled = true\naddresses = [\"127.0.0.1\"]\nport = {port}\n"),
        false => "enabled = false\n".to_owned(),
    };
    let more = |name: &str| -> String {
        let lines = settings.listeners.iter().filter(|(one, _)| *one == name);
        lines.map(|(_, toml)| format!("{toml}\n")).collect()
    };
    let (tcp, udp) = (listener(settings.tcp, port) + &more("tcp"), listener(settings.udp, port));
    let unix = more("unix");
    let websocket = listener(settings.websocket, websocket_port);
    // Its certificate stays in the directory of the forwarder, unless the test names another place.
    let names_state = |more: &String| more.contains("state_directory");
    let state = match settings.webtransport.as_ref().is_some_and(names_state) {
        true => String::new(),
        false => format!("state_directory = {:?}\n", socket.with_file_name("state")),
    };
    let webtransport = match &settings.webtransport {
        Some(more) => format!("[listeners.webtransport]\n{}{state}{more}\n", listener(true, port)),
        None => String::new(),
    };
    write!(
        toml,
        "[forwarder]\nworkers = {}\n\
         [listeners.unix]\npath = \"{}\"\n{unix}[listeners.tcp]\n{tcp}[listeners.udp]\n{udp}\
         {webtransport}[listeners.websocket]\n{websocket}{}",
        settings.workers.unwrap_or_else(worker_count),
        socket.display(),
        settings.toml
    )
    .expect("a String takes everything");
    toml
}

/// Number of workers of each forwarder: `NAMEWIRE_TEST_WORKERS`, or one.
#[must_use]
pub fn worker_count() -> usize {
    std::env::var("NAMEWIRE_TEST_WORKERS").ok().and_then(|count| count.parse().ok()).unwrap_or(1)
}

/// False if the process ends before it announces where it listens, which it does last.
fn wait_until_listening(process: &mut Process) -> bool {
    wait_until("the forwarder to listen", || {
        if process.stdout().contains("NDN_CLIENT_TRANSPORT=") {
            return Some(true);
        }
        (!process.is_running()).then_some(false)
    })
}

/// Returns a port that no process uses now, neither over TCP nor over UDP.
///
/// # Panics
/// There is none.
#[must_use]
pub fn free_port() -> u16 {
    wait_until("a free port", || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
        let port = listener.local_addr().ok()?.port();
        UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).ok().map(|_| port)
    })
}
