//! A forwarder of one's own.

use std::fmt::Write;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{Process, run_to_end};
use crate::program::program;
use crate::wait_until;

/// What a forwarder is started with.
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

    /// Listens for WebSockets on the loopback interface, too; not together with [`tcp`](Self::tcp).
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

    /// Has this variable in its environment.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &Path) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts the forwarder and waits until it accepts connections.
    ///
    /// # Panics
    /// It does not.
    #[must_use]
    pub fn start(&self) -> Forwarder {
        Forwarder::start(self)
    }
}

/// A running forwarder, ended when dropped.
#[derive(Debug)]
pub struct Forwarder {
    /// Dropped before the directory it writes to.
    pub process: Process,
    directory: TempDir,
    socket: PathBuf,
    port: u16,
}

impl Forwarder {
    fn start(settings: &Settings) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("forwarder.sock");
        // Between choosing a free port and binding it, somebody else may take it. So may one that was left.
        let (process, port) = wait_until("a port that is free", || {
            let port = settings.port.unwrap_or_else(free_port);
            let config = directory.path().join("namewire.toml");
            std::fs::write(&config, toml(settings, &socket, port)).expect("a configuration file");
            let mut command = Command::new(program());
            command.arg("run").arg("--config").arg(&config).args(&settings.arguments);
            command.env("STATE_DIRECTORY", directory.path());
            command.envs(settings.environment.iter().map(|(name, value)| (name, value)));
            let mut process = Process::start("forwarder", command, directory.path());
            if wait_until_listening(&mut process) {
                return Some((process, port));
            }
            let complaint = process.stderr();
            assert!(complaint.contains("in use"), "the forwarder does not start:\n{complaint}");
            None
        });
        Self { process, directory, socket, port }
    }

    /// Its Unix socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Its UDP and TCP port, as far as it has them.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A directory that goes away with the forwarder.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// `NDN_CLIENT_TRANSPORT` for its Unix socket.
    #[must_use]
    pub fn unix(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// `NDN_CLIENT_TRANSPORT` for its TCP port.
    #[must_use]
    pub fn tcp(&self) -> String {
        format!("tcp4://127.0.0.1:{}", self.port)
    }

    /// `NDN_CLIENT_TRANSPORT` for its WebSocket port.
    #[must_use]
    pub fn websocket(&self) -> String {
        format!("ws://127.0.0.1:{}", self.port)
    }

    /// The address of its WebTransport port, with the hash of its certificate.
    ///
    /// # Panics
    /// It has none.
    #[must_use]
    pub fn webtransport(&self) -> String {
        let status = self.json(&["webtransport"]);
        let hash = status["certificate_hashes"][0].as_str().expect("a certificate");
        format!("https://127.0.0.1:{}/ndn#sha256={hash}", self.port)
    }

    /// A connection to its Unix socket.
    ///
    /// # Panics
    /// It does not accept.
    #[must_use]
    pub fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.socket).expect("the forwarder accepts");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
        stream.set_write_timeout(Some(Duration::from_secs(10))).expect("a time-out");
        stream
    }

    /// A command that is to use this forwarder.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(arguments).env("NDN_CLIENT_TRANSPORT", self.unix());
        command.env("XDG_CACHE_HOME", self.directory().join("cache"));
        command
    }

    /// Runs `namewire` with these arguments to its end.
    #[must_use]
    pub fn run(&self, arguments: &[&str]) -> Output {
        run_to_end(self.command(arguments))
    }

    /// What `namewire` with these arguments prints.
    ///
    /// # Panics
    /// It fails.
    #[must_use]
    pub fn output(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "namewire {arguments:?}: {}\n{complaint}", output.status);
        String::from_utf8(output.stdout)
            .unwrap_or_else(|_| panic!("namewire {arguments:?} prints no text"))
    }

    /// The JSON that `namewire` with these arguments and `--json` prints.
    ///
    /// # Panics
    /// It fails.
    #[must_use]
    pub fn json(&self, arguments: &[&str]) -> Value {
        let output = self.output(&[arguments, &["--json"]].concat());
        serde_json::from_str(&output)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {output}"))
    }

    /// Starts `namewire` with these arguments beside the forwarder.
    #[must_use]
    pub fn spawn(&self, name: &str, arguments: &[&str]) -> Process {
        Process::start(name, self.command(arguments), self.directory.path())
    }

    /// Checks that the forwarder still answers, within a time that shows it is not busy otherwise.
    ///
    /// # Panics
    /// It does not.
    pub fn assert_healthy(&mut self) {
        assert!(self.process.is_running(), "the forwarder ended:\n{}", self.process.everything());
        let status = self.json(&["status"]);
        assert!(status["version"].is_string(), "{status}");
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

fn toml(settings: &Settings, socket: &Path, port: u16) -> String {
    let mut toml = String::new();
    let listener = |enabled: bool| match enabled {
        true => format!("enabled = true\naddresses = [\"127.0.0.1\"]\nport = {port}\n"),
        false => "enabled = false\n".to_owned(),
    };
    let more = |name: &str| -> String {
        let lines = settings.listeners.iter().filter(|(one, _)| *one == name);
        lines.map(|(_, toml)| format!("{toml}\n")).collect()
    };
    let (tcp, udp) = (listener(settings.tcp) + &more("tcp"), listener(settings.udp));
    let unix = more("unix");
    let websocket = listener(settings.websocket);
    let webtransport = match &settings.webtransport {
        Some(more) => format!("[listeners.webtransport]\n{}{more}\n", listener(true)),
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

/// How many workers forwarders have: `NAMEWIRE_TEST_WORKERS`, or one.
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
