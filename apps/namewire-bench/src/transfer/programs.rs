//! The programs of a transfer: forwarder, server, fetcher.

use std::fs;
use std::io::Read;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use ndn_security::{KeyType, PrivateKey};
use ndn_sys::cpu::steal_ns_of;

use super::cases::{Case, FetchedContent, Mode};
use super::folder::Served;
use super::report::CpuByProcess;
use crate::relay::Transport;
use crate::relay::addresses::Addresses;
use crate::relay::clock::{monotonic_ns, pause};
use crate::relay::program::Program;
use crate::relay::programs::{CS_CAPACITY, Running};

/// Start timeout of a server: one reads and signs its whole file first.
const START_TIMEOUT_NS: u64 = 120_000_000_000;

/// Content Store capacity of other forwarders, so small that the packets of a fetch are evicted before the next one:
/// ours is emptied before each fetch.
const CS_PACKETS_OF_OTHERS: u32 = 1024;

/// One fetch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fetched {
    pub(super) seconds: f64,
    pub(super) cpu: CpuByProcess,
    /// Steal time as a share.
    pub(super) stolen: f64,
}

/// A fetcher's command line.
#[derive(Debug, Clone)]
pub(super) struct Fetcher {
    pub(super) executable: PathBuf,
    /// `OUTPUT` stands for the output file.
    pub(super) arguments: Vec<String>,
    /// Whether it writes to standard output.
    pub(super) to_stdout: bool,
    /// The address of the forwarder.
    pub(super) transport: String,
}

impl Fetcher {
    fn command(&self, folder: &Path, output: &Path) -> anyhow::Result<Command> {
        let mut command = Command::new(&self.executable);
        command.env("NDN_CLIENT_TRANSPORT", &self.transport).env("HOME", folder);
        command.args(self.arguments.iter().map(|argument| match argument.as_str() {
            "OUTPUT" => output.as_os_str(),
            other => other.as_ref(),
        }));
        if self.to_stdout {
            command.stdout(fs::File::create(output)?);
        } else {
            command.stdout(Stdio::null());
        }
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        Ok(command)
    }
}

/// Running programs of a case.
#[derive(Debug)]
pub(super) struct CasePrograms {
    pub(super) folder: PathBuf,
    /// Case of this project's programs.
    pub(super) case: Option<Case>,
    pub(super) served: Served,
    pub(super) fetcher: Fetcher,
    /// Shared processors.
    pub(super) cpus: Vec<usize>,
    /// Dropped before the forwarder.
    pub(super) server: Server,
    /// The forwarder between server and fetcher, if any.
    pub(super) forwarder: Option<Running>,
    pub(super) socket: PathBuf,
}

impl CasePrograms {
    /// Starts this project's forwarder and server.
    pub(super) fn namewire(
        folder: &Path,
        cpus: &[usize],
        case: &Case,
        served: Served,
    ) -> anyhow::Result<Self> {
        let executable = crate::program::namewire()?;
        let port = if case.udp { free_port()? } else { 0 };
        let (forwarder, socket) =
            forwarder(Program::Namewire, &executable, folder, first(cpus), port)?;
        let key = write_key(folder, case.mode)?;
        let mut command = command(&executable, &socket, folder);
        command.arg("serve").arg(served.root()).args(["--prefix", "/bench"]);
        match case.mode {
            Mode::Manifest | Mode::ManifestCold => command.args(["--sign", &key]),
            Mode::Ecdsa | Mode::Ed25519 | Mode::Hmac => {
                command.args(["--sign", &key, "--sign-segments"])
            }
            Mode::Digest | Mode::Unverified => command.arg("--sign-segments"),
        };
        if let Some(length) = case.segment_len {
            command.args(["--segment-size", &format!("{length}B")]);
        }
        let server = Server::start(command, "serving ", None, folder)?;
        let verify = match case.mode {
            Mode::Digest => "digest",
            Mode::Unverified => "none",
            Mode::Manifest | Mode::ManifestCold | Mode::Hmac | Mode::Ecdsa | Mode::Ed25519 => &key,
        };
        let object = format!("/bench/{}", served.what.name());
        let mut arguments = vec!["get", &object, "--quiet", "--verify", verify, "-o", "OUTPUT"];
        if case.what == FetchedContent::Tree {
            arguments.push("--recursive");
        }
        let transport = match case.udp {
            true => format!("udp4://127.0.0.1:{port}"),
            false => format!("unix://{}", socket.display()),
        };
        let arguments = arguments.into_iter().map(str::to_owned).collect();
        let fetcher = Fetcher { executable, arguments, to_stdout: false, transport };
        let (folder, case, cpus) = (folder.to_owned(), Some(case.clone()), cpus.to_owned());
        Ok(Self { folder, case, served, fetcher, cpus, server, forwarder: Some(forwarder), socket })
    }

    fn output(&self) -> PathBuf {
        self.folder.join("fetched")
    }

    /// Content bytes of a fetch.
    pub(super) fn bytes(&self) -> u64 {
        self.served.bytes
    }

    /// Fetches the served content once.
    pub(super) fn fetch(&mut self) -> anyhow::Result<Fetched> {
        self.prepare()?;
        let mut command = self.fetcher.command(&self.folder, &self.output())?;
        let before = self.cpu_ns()?;
        let (start, stolen) = (monotonic_ns(), steal_ns_of(&self.cpus));
        let ended = command.output()?;
        let elapsed = seconds(monotonic_ns() - start);
        let stolen = seconds(steal_ns_of(&self.cpus) - stolen) / elapsed;
        let printed = String::from_utf8_lossy(&ended.stderr);
        ensure!(ended.status.success(), "the fetcher failed ({}): {printed}", ended.status);
        let after = self.cpu_ns()?;
        let of = |part: usize| seconds(after[part].saturating_sub(before[part]));
        let cpu = CpuByProcess { server: of(0), forwarder: of(1), fetcher: of(2) };
        Ok(Fetched { seconds: elapsed, cpu, stolen })
    }

    /// Establishes the state for the case: an empty cache, with or without a manifest.
    fn prepare(&mut self) -> anyhow::Result<()> {
        self.remove_output();
        let Some(case) = &self.case else {
            return Ok(());
        };
        if case.mode == Mode::ManifestCold {
            // A new modification time gives the file a new version, and so no manifest.
            let file = fs::File::options().write(true).open(&self.served.path)?;
            file.set_modified(std::time::UNIX_EPOCH + Duration::from_nanos(wall_ns()))?;
        }
        if case.what == FetchedContent::Cached {
            return Ok(());
        }
        let mut erase = command(&self.fetcher.executable, &self.socket, &self.folder);
        erase.args(["cs", "erase", "/bench"]).stdout(Stdio::null()).stderr(Stdio::null());
        ensure!(erase.status()?.success(), "the Content Store cannot be emptied");
        Ok(())
    }

    /// Removes the fetched output.
    pub(super) fn remove_output(&self) {
        let output = self.output();
        let _ =
            if output.is_dir() { fs::remove_dir_all(&output) } else { fs::remove_file(&output) };
    }

    /// CPU time of server, forwarder and all fetchers so far.
    fn cpu_ns(&self) -> anyhow::Result<[u64; 3]> {
        let of = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Ok([
            of(ndn_sys::cpu::process_time(self.server.child.id())?),
            self.forwarder.as_ref().map_or(Ok(0), Running::cpu_ns)?,
            of(ndn_sys::cpu::CpuTimes::of_children()?.total()),
        ])
    }

    /// Checks that the fetched content equals the served content.
    pub(super) fn compare(&self) -> anyhow::Result<()> {
        if self.served.what != FetchedContent::Tree {
            return same_file(&self.served.path, &self.output());
        }
        let mut files = 0;
        for entry in fs::read_dir(&self.served.path)? {
            let entry = entry?;
            same_file(&entry.path(), &self.output().join(entry.file_name()))?;
            files += 1;
        }
        ensure!(fs::read_dir(self.output())?.count() == files, "there are other files");
        Ok(())
    }
}

/// Returns the processor of the forwarder.
pub(super) fn first(cpus: &[usize]) -> usize {
    cpus.first().copied().unwrap_or(0)
}

fn same_file(one: &Path, other: &Path) -> anyhow::Result<()> {
    let (mut one, mut other) = (fs::File::open(one)?, fs::File::open(other)?);
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

/// Starts a forwarder; with a UDP port unless it is 0.
pub(super) fn forwarder(
    program: Program,
    executable: &Path,
    folder: &Path,
    cpu: usize,
    udp_port: u16,
) -> anyhow::Result<(Running, PathBuf)> {
    let cs_packets = if program == Program::Namewire { CS_CAPACITY } else { CS_PACKETS_OF_OTHERS };
    let addresses = Addresses {
        folder: folder.to_owned(),
        udp_port,
        producer_port: 0,
        consumer_ports: Vec::new(),
        transport: if udp_port == 0 { Transport::Unix } else { Transport::Udp },
        link: None,
        settings: "",
        cs_packets,
        workers: 1,
    };
    let socket = addresses.socket();
    let _ = fs::remove_file(&socket);
    Ok((Running::start(program, executable, &addresses, &[cpu])?, socket))
}

/// Returns a currently unused UDP port.
pub(super) fn free_port() -> anyhow::Result<u16> {
    Ok(UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Writes a key for `mode`; returns its name for `--sign` and `--verify`.
fn write_key(folder: &Path, mode: Mode) -> anyhow::Result<String> {
    let path = folder.join("key");
    let (text, kind) = match mode {
        // 32 bytes in Base64.
        Mode::Hmac => ("QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVowMTIzNDU=".to_owned(), "hmac:"),
        Mode::Ed25519 => (PrivateKey::generate(KeyType::Ed25519)?.to_pem()?.to_string(), ""),
        Mode::Manifest | Mode::ManifestCold | Mode::Digest | Mode::Unverified | Mode::Ecdsa => {
            (PrivateKey::generate(KeyType::Ecdsa)?.to_pem()?.to_string(), "")
        }
    };
    fs::write(&path, text)?;
    Ok(format!("{kind}{}", path.display()))
}

/// Returns a command for an application of the forwarder at `socket`.
pub(super) fn command(executable: &Path, socket: &Path, home: &Path) -> Command {
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

/// A started server; terminated on drop.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
}

impl Server {
    /// Starts the server and waits until its output contains `ready`.
    pub(super) fn start(
        command: Command,
        ready: &str,
        input: Option<fs::File>,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        Self::start_until(command, input, folder, |printed| printed.contains(ready))
    }

    /// Starts the server and waits until it accepts TCP connections.
    pub(super) fn start_listening(
        command: Command,
        port: u16,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        Self::start_until(command, None, folder, |_| {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        })
    }

    fn start_until(
        mut command: Command,
        input: Option<fs::File>,
        folder: &Path,
        is_ready: impl Fn(&str) -> bool,
    ) -> anyhow::Result<Self> {
        let log = folder.join("server.log");
        let out = fs::File::create(&log)?;
        command.stdin(input.map_or_else(Stdio::null, Stdio::from));
        command.stdout(out.try_clone()?).stderr(out);
        let child = command.spawn().with_context(|| format!("{command:?} cannot be started"))?;
        let mut server = Self { child };
        let start = monotonic_ns();
        while monotonic_ns() - start < START_TIMEOUT_NS {
            let printed = fs::read_to_string(&log).unwrap_or_default();
            if is_ready(&printed) {
                return Ok(server);
            }
            if let Some(status) = server.child.try_wait()? {
                bail!("the server ended at once ({status}): {printed}");
            }
            pause(Duration::from_millis(5));
        }
        bail!("the server is not ready after two minutes")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
