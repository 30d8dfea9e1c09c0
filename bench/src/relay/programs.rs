//! The forwarders that the relay bench starts: our own, the dumb relay, and those on PATH.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};

use super::clock;
use super::dumb::PRODUCER_SUFFIX;

/// The cache of every program, in packets.
pub(crate) const CS_CAPACITY: u32 = 65_536;
/// How long a program may take to listen.
const START_TIMEOUT_NS: u64 = 10_000_000_000;

/// A program under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Program {
    /// This binary's `run`.
    Namewire,
    /// This binary's `bench dumb-relay`.
    Dumb,
    /// NFD.
    Nfd,
    /// ndnd (YaNFD).
    Ndnd,
}

impl Program {
    /// The name in cases and messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Namewire => "namewire",
            Self::Dumb => "dumb",
            Self::Nfd => "nfd",
            Self::Ndnd => "ndnd",
        }
    }

    /// Where its executable is, if it can be had.
    pub(crate) fn locate(self) -> Option<PathBuf> {
        match self {
            Self::Namewire | Self::Dumb => std::env::current_exe().ok(),
            Self::Nfd | Self::Ndnd => std::env::var_os("PATH").and_then(|path| {
                std::env::split_paths(&path)
                    .map(|folder| folder.join(self.name()))
                    .find(|candidate| candidate.is_file())
            }),
        }
    }
}

/// Ports and paths of one run.
#[derive(Debug, Clone)]
pub(crate) struct Addresses {
    /// A folder of our own for sockets, configuration and logs.
    pub(crate) folder: PathBuf,
    /// The UDP port that the program listens on.
    pub(crate) udp_port: u16,
    /// The UDP port of the producer.
    pub(crate) producer_port: u16,
    /// The UDP ports of the consumers.
    pub(crate) consumer_ports: Vec<u16>,
    /// Whether the exchanges go over UDP.
    pub(crate) udp: bool,
    /// Further lines of this project's configuration.
    pub(crate) settings: &'static str,
    /// Workers of this project's forwarder.
    pub(crate) workers: usize,
}

impl Addresses {
    /// The Unix socket of the program.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("forwarder.sock")
    }

    /// Where a program tells how many system calls it made, if it does.
    pub(crate) fn statistics_socket(&self, program: Program) -> Option<PathBuf> {
        match program {
            Program::Namewire => Some(self.socket().with_extension("control.sock")),
            Program::Dumb => Some(self.folder.join("statistics.sock")),
            Program::Nfd | Program::Ndnd => None,
        }
    }

    /// Where the producer connects: the dumb relay has a socket of its own for it.
    pub(crate) fn producer_socket(&self, program: Program) -> PathBuf {
        let mut path = self.socket().into_os_string();
        if program == Program::Dumb {
            path.push(PRODUCER_SUFFIX);
        }
        PathBuf::from(path)
    }
}

/// A started program; ended when dropped.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    /// Starts `program`, which may use `cpus` alone, and waits until it listens.
    pub(crate) fn start(
        program: Program,
        executable: &Path,
        addresses: &Addresses,
        cpus: &[usize],
    ) -> anyhow::Result<Self> {
        let log = addresses.folder.join(format!("{}.log", program.name()));
        let mut command = Command::new(executable);
        match program {
            Program::Namewire => {
                let config = addresses.folder.join("namewire.toml");
                fs::write(&config, namewire_config(addresses))?;
                command.arg("run").arg("--config").arg(config);
            }
            Program::Dumb => {
                command.args(["bench", "dumb-relay", "--statistics"]);
                command.args(addresses.statistics_socket(program));
                if addresses.udp {
                    let ports: Vec<String> =
                        addresses.consumer_ports.iter().map(u16::to_string).collect();
                    command.args(["--listen-port", &addresses.udp_port.to_string()]);
                    command.args(["--producer-port", &addresses.producer_port.to_string()]);
                    command.args(["--consumer-ports", &ports.join(",")]);
                } else {
                    command.arg("--unix").arg(addresses.socket());
                    command.args(["--consumers", &addresses.consumer_ports.len().to_string()]);
                }
            }
            Program::Nfd => {
                let config = addresses.folder.join("nfd.conf");
                fs::write(&config, nfd_config(addresses))?;
                command.arg("--config").arg(config);
            }
            Program::Ndnd => {
                let config = addresses.folder.join("ndnd.yml");
                fs::write(&config, ndnd_config(addresses))?;
                command.args(["fw", "run"]).arg(config);
                command.env("GOMAXPROCS", "1");
            }
        }
        let mut running = Self::spawn(command, log, cpus)
            .with_context(|| format!("cannot start {}", executable.display()))?;
        running.await_listening(program, addresses)?;
        Ok(running)
    }

    /// Starts `command` on these processors; what it says goes into `log`.
    pub(super) fn spawn(mut command: Command, log: PathBuf, cpus: &[usize]) -> io::Result<Self> {
        let out = fs::File::create(&log)?;
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        let child = pinned(cpus, || command.spawn())?;
        Ok(Self { child, log })
    }

    /// Waits until it listens.
    pub(super) fn await_listening(
        &mut self,
        program: Program,
        addresses: &Addresses,
    ) -> anyhow::Result<()> {
        let socket = match addresses.statistics_socket(program) {
            Some(statistics) if program == Program::Dumb && addresses.udp => statistics,
            Some(_) | None => addresses.producer_socket(program),
        };
        let start = clock::monotonic_ns();
        while clock::monotonic_ns() - start < START_TIMEOUT_NS {
            if let Some(status) = self.child.try_wait()? {
                let said = fs::read_to_string(&self.log).unwrap_or_default();
                bail!("{} ended at once ({status}): {said}", program.name());
            }
            // The dumb relay takes its first connection for the producer: only look for the file.
            let ready = match program {
                Program::Dumb => socket.exists(),
                Program::Namewire | Program::Nfd | Program::Ndnd => {
                    UnixStream::connect(&socket).is_ok()
                }
            };
            if ready {
                return Ok(());
            }
            clock::pause(Duration::from_millis(5));
        }
        bail!("{} does not listen on {} after 10 s", program.name(), socket.display())
    }

    /// CPU time of all its threads so far, user and kernel, in nanoseconds.
    pub(crate) fn cpu_ns(&self) -> io::Result<u64> {
        let time = ndn_sys::cpu::process_time(self.child.id())?;
        Ok(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Time that its threads of this name have run so far, user and kernel, in nanoseconds.
    pub(crate) fn thread_cpu_ns(&self, name: &str) -> io::Result<u64> {
        let mut sum = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let task = task?.path();
            if fs::read_to_string(task.join("comm"))?.trim_end() == name {
                // proc(5): the first number is the time on a processor.
                let text = fs::read_to_string(task.join("schedstat"))?;
                let first = text.split_ascii_whitespace().next();
                sum += first.and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
            }
        }
        Ok(sum)
    }

    /// Resident memory in bytes.
    pub(crate) fn resident_bytes(&self) -> io::Result<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let kib = text
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.split_ascii_whitespace().next())
            .and_then(|field| field.parse::<u64>().ok())
            .unwrap_or(0);
        Ok(kib * 1024)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(pid) =
            i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw)
        {
            // It may have ended by itself: then there is nothing to end.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let start = clock::monotonic_ns();
        while clock::monotonic_ns() - start < 2_000_000_000 {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            clock::pause(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `spawn` with this thread on `cpus` alone, so that the child starts and stays there.
fn pinned<T>(cpus: &[usize], spawn: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let before = rustix::thread::sched_getaffinity(None)?;
    let mut only = rustix::thread::CpuSet::new();
    cpus.iter().for_each(|&cpu| only.set(cpu));
    rustix::thread::sched_setaffinity(None, &only)?;
    let result = spawn();
    rustix::thread::sched_setaffinity(None, &before)?;
    result
}

fn namewire_config(addresses: &Addresses) -> String {
    let text = crate::config_text::namewire(
        &addresses.socket(),
        addresses.udp.then_some(addresses.udp_port),
        CS_CAPACITY,
        addresses.workers,
    );
    text + addresses.settings
}

fn nfd_config(addresses: &Addresses) -> String {
    let udp = if addresses.udp {
        format!(
            "  udp\n  {{\n    listen yes\n    port {}\n    enable_v6 no\n    mcast no\n  }}\n",
            addresses.udp_port
        )
    } else {
        String::new()
    };
    format!(
        "log\n{{\n  default_level NONE\n}}\n\
         tables\n{{\n  cs_max_packets {CS_CAPACITY}\n  cs_policy lru\n\
         \x20 strategy_choice\n  {{\n    / /localhost/nfd/strategy/best-route\n  }}\n}}\n\
         face_system\n{{\n  unix\n  {{\n    path {}\n  }}\n{udp}}}\n\
         authorizations\n{{\n  authorize\n  {{\n    certfile any\n    privileges\n    {{\n\
         faces\nfib\ncs\nstrategy-choice\n    }}\n  }}\n}}\n\
         rib\n{{\n  localhost_security\n  {{\n    trust-anchor\n    {{\n      type any\n    }}\n  }}\n}}\n",
        addresses.socket().display()
    )
}

fn ndnd_config(addresses: &Addresses) -> String {
    // The capacity is a 16-bit number there; 65535 is its largest. The generator takes no
    // fragments, and the others send none of that size.
    format!(
        "core:\n  log_level: ERROR\n\
         faces:\n  queue_size: 4096\n\
         \x20 udp:\n    enabled_unicast: {udp}\n    enabled_multicast: false\n    port_unicast: {port}\n    default_mtu: 8800\n\
         \x20 tcp:\n    enabled: false\n\
         \x20 unix:\n    enabled: true\n    socket_path: {socket}\n\
         \x20 websocket:\n    enabled: false\n\
         \x20 http3:\n    enabled: false\n\
         fw:\n  threads: 1\n  queue_size: 4096\n\
         tables:\n  content_store:\n    capacity: 65535\n    admit: true\n    serve: true\n\
         \x20   replacement_policy: lru\n  rib:\n    readvertise_nlsr: false\n",
        udp = addresses.udp,
        port = addresses.udp_port,
        socket = addresses.socket().display(),
    )
}
