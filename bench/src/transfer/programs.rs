//! The programs of a transfer: forwarder, server, fetcher.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use ndn_security::{KeyType, PrivateKey};

use super::{CpuByProcess, Mode};
use crate::relay::clock::{monotonic_ns, pause, steal_ns};
use crate::relay::programs::{Addresses, Program, Running};

/// How long a server may take to start.
const START_TIMEOUT_NS: u64 = 60_000_000_000;

/// One fetch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fetched {
    pub(super) seconds: f64,
    pub(super) cpu: CpuByProcess,
    /// Share of the time that the host took away.
    pub(super) stolen: f64,
}

/// What is running for a case.
#[derive(Debug)]
pub(super) struct Kit {
    folder: PathBuf,
    program: Program,
    executable: PathBuf,
    mode: Mode,
    /// Dropped before the forwarder.
    server: Server,
    forwarder: Running,
    socket: PathBuf,
}

impl Kit {
    /// This program's forwarder and server.
    pub(super) fn namewire(folder: &Path, cpu: usize, mode: Mode) -> anyhow::Result<Self> {
        let executable = std::env::current_exe()?;
        let key = folder.join("key");
        fs::write(&key, PrivateKey::generate(KeyType::Ecdsa)?.to_pem()?)?;
        Self::start(folder, Program::Namewire, executable, cpu, mode, |command| {
            command.arg("serve").arg(folder.join("served")).args(["--prefix", "/bench"]);
            match mode {
                Mode::Manifest | Mode::ManifestCold => command.arg("--sign").arg(&key),
                Mode::Ecdsa => command.arg("--sign").arg(&key).arg("--sign-segments"),
                Mode::Digest | Mode::Unverified => command.arg("--sign-segments"),
            };
            Ok(("serving ", None))
        })
    }

    /// ndnd's.
    pub(super) fn ndnd(
        folder: &Path,
        executable: &Path,
        cpu: usize,
        file: &Path,
    ) -> anyhow::Result<Self> {
        let input = fs::File::open(file)?;
        let executable = executable.to_owned();
        Self::start(folder, Program::Ndnd, executable, cpu, Mode::Digest, |command| {
            command.args(["put", "--expose", "/bench/file"]);
            Ok(("Registered route", Some(input)))
        })
    }

    fn start(
        folder: &Path,
        program: Program,
        executable: PathBuf,
        cpu: usize,
        mode: Mode,
        arguments: impl FnOnce(&mut Command) -> anyhow::Result<(&'static str, Option<fs::File>)>,
    ) -> anyhow::Result<Self> {
        let addresses = Addresses {
            folder: folder.to_owned(),
            udp_port: 0,
            producer_port: 0,
            consumer_ports: Vec::new(),
            udp: false,
            settings: "",
            workers: 1,
        };
        let socket = addresses.socket();
        let _ = fs::remove_file(&socket);
        let forwarder = Running::start(program, &executable, &addresses, &[cpu])?;
        let mut command = command(&executable, &socket, folder);
        let (ready, input) = arguments(&mut command)?;
        let server = Server::start(command, ready, input, folder)?;
        Ok(Self { folder: folder.to_owned(), program, executable, mode, server, forwarder, socket })
    }

    fn output(&self) -> PathBuf {
        self.folder.join("fetched")
    }

    /// Fetches the file once.
    pub(super) fn fetch(&mut self) -> anyhow::Result<Fetched> {
        self.prepare()?;
        let mut fetcher = command(&self.executable, &self.socket, &self.folder);
        if self.program == Program::Namewire {
            fetcher.args(["get", "/bench/file", "--quiet", "-o"]).arg(self.output());
            match self.mode {
                Mode::Manifest | Mode::ManifestCold | Mode::Ecdsa => {
                    fetcher.arg("--verify").arg(self.folder.join("key"))
                }
                Mode::Digest => fetcher.args(["--verify", "digest"]),
                Mode::Unverified => fetcher.args(["--verify", "none"]),
            };
        } else {
            fetcher.args(["cat", "/bench/file"]).stdout(fs::File::create(self.output())?);
        }
        let before = self.cpu_ns()?;
        let (start, stolen) = (monotonic_ns(), steal_ns());
        let status = fetcher.stdin(Stdio::null()).stderr(Stdio::null()).status()?;
        let elapsed = seconds(monotonic_ns() - start);
        let stolen = seconds(steal_ns() - stolen) / elapsed;
        ensure!(status.success(), "the fetcher failed: {status}");
        let after = self.cpu_ns()?;
        let of = |part: usize| seconds(after[part].saturating_sub(before[part]));
        let cpu = CpuByProcess { server: of(0), forwarder: of(1), fetcher: of(2) };
        Ok(Fetched { seconds: elapsed, cpu, stolen })
    }

    /// Brings about what the case is about: an empty cache, a manifest that is there or not.
    fn prepare(&mut self) -> anyhow::Result<()> {
        let _ = fs::remove_file(self.output());
        if self.program != Program::Namewire {
            return Ok(());
        }
        if self.mode == Mode::ManifestCold {
            // A file with another time has another version, and so no manifest.
            let file = fs::File::options().write(true).open(self.folder.join("served/file"))?;
            file.set_modified(std::time::UNIX_EPOCH + Duration::from_nanos(wall_ns()))?;
        }
        let mut erase = command(&self.executable, &self.socket, &self.folder);
        erase.args(["cs", "erase", "/bench"]).stdout(Stdio::null()).stderr(Stdio::null());
        ensure!(erase.status()?.success(), "the Content Store cannot be emptied");
        Ok(())
    }

    /// CPU time of server, forwarder and all fetchers so far.
    fn cpu_ns(&self) -> anyhow::Result<[u64; 3]> {
        let of = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Ok([
            of(ndn_sys::cpu::process_time(self.server.child.id())?),
            self.forwarder.cpu_ns()?,
            of(ndn_sys::cpu::CpuTimes::of_children()?.total()),
        ])
    }

    /// Whether what was fetched is the file.
    pub(super) fn compare(&self, file: &Path) -> anyhow::Result<()> {
        let (mut one, mut other) = (fs::File::open(file)?, fs::File::open(self.output())?);
        ensure!(one.metadata()?.len() == other.metadata()?.len(), "the lengths differ");
        let (mut left, mut right) = (vec![0; 1 << 20], vec![0; 1 << 20]);
        loop {
            let count = one.read(&mut left)?;
            if count == 0 {
                return Ok(());
            }
            other.read_exact(&mut right[..count])?;
            ensure!(left[..count] == right[..count], "the contents differ");
        }
    }
}

fn command(executable: &Path, socket: &Path, home: &Path) -> Command {
    let mut command = Command::new(executable);
    command.env("NDN_CLIENT_TRANSPORT", format!("unix://{}", socket.display())).env("HOME", home);
    command
}

fn wall_ns() -> u64 {
    u64::try_from(ndn_sys::clock::wall_clock().as_nanos()).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "times of less than an hour")]
fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// A started server; ended when dropped.
#[derive(Debug)]
struct Server {
    child: Child,
}

impl Server {
    fn start(
        mut command: Command,
        ready: &str,
        input: Option<fs::File>,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let log = folder.join("server.log");
        let out = fs::File::create(&log)?;
        command.stdin(input.map_or_else(Stdio::null, Stdio::from));
        command.stdout(out.try_clone()?).stderr(out);
        let child = command.spawn().with_context(|| format!("{command:?} cannot be started"))?;
        let mut server = Self { child };
        let start = monotonic_ns();
        while monotonic_ns() - start < START_TIMEOUT_NS {
            let said = fs::read_to_string(&log).unwrap_or_default();
            if said.contains(ready) {
                return Ok(server);
            }
            if let Some(status) = server.child.try_wait()? {
                bail!("the server ended at once ({status}): {said}");
            }
            pause(Duration::from_millis(5));
        }
        bail!("the server is not ready after a minute")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
