//! Access of tests to a forwarder: its addresses, and commands that use it.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::peers::skip;
use crate::process::{Process, run_to_end};
use crate::program::program;

/// The addresses and the directory of a running forwarder.
#[derive(Debug)]
pub struct Endpoint {
    directory: TempDir,
    socket: PathBuf,
    port: u16,
    websocket_port: u16,
}

impl Endpoint {
    /// A directory of its own, a Unix socket in it, and no port yet.
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("forwarder.sock");
        Self { directory, socket, port: 0, websocket_port: 0 }
    }

    pub(crate) fn set_ports(&mut self, port: u16, websocket_port: u16) {
        (self.port, self.websocket_port) = (port, websocket_port);
    }

    /// Its Unix socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Its UDP and TCP port, as far as it has them; without TCP, also that for WebSockets.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its port for WebSockets, if it has one.
    #[must_use]
    pub fn websocket_port(&self) -> u16 {
        self.websocket_port
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
        format!("ws://127.0.0.1:{}", self.websocket_port)
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

    /// Lets other users open the directory of the socket.
    ///
    /// # Panics
    /// The directory cannot be changed.
    pub fn open_to_users(&self) {
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(self.directory(), open).expect("a directory of this user");
    }

    /// As [`command`](Self::command), for a program of another user, to whom the directory is [open](Self::open_to_users)
    /// from now on. Without the right to start one it says so, loudly.
    #[must_use]
    pub fn command_as(&self, user: u32, arguments: &[&str]) -> Option<Command> {
        if !rustix::process::geteuid().is_root() {
            skip("root", "only root can start a program of another user");
            return None;
        }
        self.open_to_users();
        let of_user = |arguments: &[&str]| {
            let mut command = self.command(arguments);
            command.uid(user).gid(user).env("HOME", "/nonexistent");
            command
        };
        if of_user(&["--version"]).output().is_err() {
            skip("open-directory", "the program is in a directory that other users cannot open");
            return None;
        }
        Some(of_user(arguments))
    }

    /// Runs `namewire` with these arguments to its end.
    #[must_use]
    pub fn run(&self, arguments: &[&str]) -> Output {
        run_to_end(self.command(arguments))
    }

    /// The output of `namewire` with these arguments.
    ///
    /// # Panics
    /// The command fails.
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

    /// Checks that the forwarder still answers.
    ///
    /// # Panics
    /// It does not.
    pub fn assert_healthy(&self) {
        let status = self.json(&["status"]);
        assert!(status["version"].is_string(), "{status}");
    }
}
