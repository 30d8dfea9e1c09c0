//! Running forwarders of the relay bench: this project's, the dumb relay, and those on PATH.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};

use super::addresses::Addresses;
use super::link::Side;
use super::program::Program;
use super::transport::Transport;
use super::{clock, testpmd};
use crate::started::Process;

/// Default Content Store capacity of every program, in packets.
pub(crate) const CS_CAPACITY: u32 = 65_536;
/// Start timeout of a program.
const START_TIMEOUT_NS: u64 = 10_000_000_000;

/// A started program; terminated on drop, and killed if it does not end.
#[derive(Debug)]
pub(crate) struct Running {
    child: Process,
    log: PathBuf,
}

impl Running {
    /// Starts `program` on `cpus` only, and waits until it listens.
    pub(crate) fn start(
        program: Program,
        executable: &Path,
        addresses: &Addresses,
        cpus: &[usize],
    ) -> anyhow::Result<Self> {
        let log = addresses.folder.join(format!("{}.log", program.name()));
        let mut command = addresses.command(executable);
        match program {
            Program::Namewire => {
                let config = addresses.folder.join("namewire.toml");
                fs::write(&config, namewire_config(addresses))?;
                command.arg("run").arg("--config").arg(config);
            }
            Program::Dumb => {
                command.args(["dumb-relay", "--statistics"]);
                command.args(addresses.statistics_socket(program));
                dumb_arguments(&mut command, addresses);
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
            Program::Testpmd => command = testpmd::command(executable, addresses, cpus)?,
        }
        let mut running = Self::spawn(command, log, cpus)
            .with_context(|| format!("cannot start {}", executable.display()))?;
        running.await_listening(program, addresses)?;
        Ok(running)
    }

    /// Starts `command` on these processors, with its output in `log`.
    pub(super) fn spawn(mut command: Command, log: PathBuf, cpus: &[usize]) -> io::Result<Self> {
        let out = fs::File::create(&log)?;
        // Some programs end at the end of their input.
        command.stdin(Stdio::piped()).stdout(out.try_clone()?).stderr(out);
        let child = pinned(cpus, || Process::spawn(&mut command))?;
        Ok(Self { child, log })
    }

    /// Waits until it listens.
    pub(super) fn await_listening(
        &mut self,
        program: Program,
        addresses: &Addresses,
    ) -> anyhow::Result<()> {
        let socket = match addresses.statistics_socket(program) {
            Some(statistics)
                if program == Program::Dumb && addresses.transport != Transport::Unix =>
            {
                statistics
            }
            Some(_) | None => addresses.producer_socket(program),
        };
        let start = clock::monotonic_ns();
        while clock::monotonic_ns() - start < START_TIMEOUT_NS {
            if let Some(status) = self.child.try_wait()? {
                let output = fs::read_to_string(&self.log).unwrap_or_default();
                bail!("{} ended at once ({status}): {output}", program.name());
            }
            // The dumb relay takes its first connection for the producer, so only the file is checked.
            let ready = match program {
                Program::Dumb => socket.exists(),
                Program::Testpmd => fs::read_to_string(&self.log)
                    .is_ok_and(|output| output.contains(testpmd::READY)),
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

    /// Its output so far.
    pub(crate) fn output(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Pauses or resumes the program.
    pub(super) fn set_paused(&self, paused: bool) {
        let signal = match paused {
            true => rustix::process::Signal::STOP,
            false => rustix::process::Signal::CONT,
        };
        self.signal(signal);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // The program may have ended on its own.
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// CPU time of all its threads so far, user and kernel, in nanoseconds.
    pub(crate) fn cpu_ns(&self) -> io::Result<u64> {
        let time = ndn_sys::cpu::process_time(self.child.id())?;
        Ok(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }

    /// CPU time of its threads with this name, user and kernel, in nanoseconds.
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
        self.signal(rustix::process::Signal::TERM);
        self.set_paused(false);
        let start = clock::monotonic_ns();
        while clock::monotonic_ns() - start < 2_000_000_000 {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            clock::pause(Duration::from_millis(5));
        }
    }
}

/// Runs `spawn` with this thread pinned to `cpus`, so that the child inherits the affinity.
fn pinned<T>(cpus: &[usize], spawn: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let before = rustix::thread::sched_getaffinity(None)?;
    let mut only = rustix::thread::CpuSet::new();
    cpus.iter().for_each(|&cpu| only.set(cpu));
    rustix::thread::sched_setaffinity(None, &only)?;
    let result = spawn();
    rustix::thread::sched_setaffinity(None, &before)?;
    result
}

fn dumb_arguments(command: &mut Command, addresses: &Addresses) {
    match addresses.transport {
        Transport::Unix => {
            command.arg("--unix").arg(addresses.socket());
        }
        Transport::Tcp => {
            command.args(["--tcp", &addresses.program_address(Side::Consumer).to_string()]);
        }
        Transport::Udp | Transport::UdpVeth => {
            let sockets = addresses.dumb_sockets().into_iter();
            let sockets: Vec<_> = sockets.map(|(own, peer)| format!("{own}-{peer}")).collect();
            command.args(["--udp", &sockets.join(",")]);
        }
        // testpmd replaces it on these transports.
        Transport::Ether | Transport::Xdp | Transport::Memif => {}
    }
    command.args(["--consumers", &addresses.consumer_ports.len().to_string()]);
}

fn namewire_config(addresses: &Addresses) -> String {
    let listening = match addresses.link {
        // It has two addresses and a namespace of its own.
        Some(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, addresses.udp_port)),
        None => addresses.program_address(Side::Consumer),
    };
    let listening = [listening];
    let (udp, tcp) = match addresses.transport {
        Transport::Udp | Transport::UdpVeth => (&listening[..], &[][..]),
        Transport::Tcp => (&[][..], &listening[..]),
        Transport::Unix | Transport::Ether | Transport::Xdp | Transport::Memif => {
            (&[][..], &[][..])
        }
    };
    let faces = match addresses.transport {
        Transport::Ether => "[listeners.ethernet]\ndriver = \"packet\"\n".to_owned(),
        Transport::Xdp => "[listeners.ethernet]\ndriver = \"xdp\"\n".to_owned(),
        Transport::Memif => {
            let path = addresses.memif(Program::Namewire, Side::Consumer).socket;
            format!("[listeners.memif]\nenabled = true\npath = \"{}\"\n", path.display())
        }
        Transport::Unix | Transport::Tcp | Transport::Udp | Transport::UdpVeth => String::new(),
    };
    let (socket, cs_packets) = (addresses.socket(), addresses.cs_packets);
    let text = crate::config_text::namewire(&socket, udp, tcp, cs_packets, addresses.workers);
    text + &faces + addresses.settings
}

fn nfd_config(addresses: &Addresses) -> String {
    let (port, cs_packets) = (addresses.udp_port, addresses.cs_packets);
    let faces = match addresses.transport {
        // It does not support the last two.
        Transport::Unix | Transport::Xdp | Transport::Memif => String::new(),
        Transport::Tcp => {
            format!("  tcp\n  {{\n    listen yes\n    port {port}\n    enable_v6 no\n  }}\n")
        }
        Transport::Udp | Transport::UdpVeth => format!(
            "  udp\n  {{\n    listen yes\n    port {port}\n    enable_v6 no\n    mcast no\n  }}\n"
        ),
        Transport::Ether => {
            "  ether\n  {\n    listen yes\n    idle_timeout 600\n    mcast no\n  }\n".to_owned()
        }
    };
    format!(
        "log\n{{\n  default_level NONE\n}}\n\
         tables\n{{\n  cs_max_packets {cs_packets}\n  cs_policy lru\n\
         \x20 strategy_choice\n  {{\n    / /localhost/nfd/strategy/best-route\n  }}\n}}\n\
         face_system\n{{\n  unix\n  {{\n    path {}\n  }}\n{faces}}}\n\
         authorizations\n{{\n  authorize\n  {{\n    certfile any\n    privileges\n    {{\n\
         faces\nfib\ncs\nstrategy-choice\n    }}\n  }}\n}}\n\
         rib\n{{\n  localhost_security\n  {{\n    trust-anchor\n    {{\n      type any\n    }}\n  }}\n\
         \x20 localhop_security\n  {{\n    trust-anchor\n    {{\n      type any\n    }}\n  }}\n}}\n",
        addresses.socket().display()
    )
}

fn ndnd_config(addresses: &Addresses) -> String {
    // The capacity is a 16-bit number there, at most 65535. The generator does not reassemble fragments, and the
    // other programs send none for this size. The default algorithm of the FIB compares a name with all siblings in
    // turn, so that 10,000 routes would take four fifths of the time.
    let cs_packets = addresses.cs_packets.min(65_535);
    format!(
        "core:\n  log_level: ERROR\n\
         faces:\n  queue_size: 4096\n\
         \x20 udp:\n    enabled_unicast: {udp}\n    enabled_multicast: false\n    port_unicast: {port}\n    default_mtu: 8800\n\
         \x20 tcp:\n    enabled: {tcp}\n    port_unicast: {port}\n\
         \x20 unix:\n    enabled: true\n    socket_path: {socket}\n\
         \x20 websocket:\n    enabled: false\n\
         \x20 http3:\n    enabled: false\n\
         fw:\n  threads: 1\n  queue_size: 4096\n\
         tables:\n  content_store:\n    capacity: {cs_packets}\n    admit: true\n    serve: true\n\
         \x20   replacement_policy: lru\n  fib:\n    algorithm: hashtable\n  rib:\n    readvertise_nlsr: false\n\
         mgmt:\n  allow_localhop: true\n",
        udp = addresses.transport.is_udp(),
        tcp = addresses.transport == Transport::Tcp,
        port = addresses.udp_port,
        socket = addresses.socket().display(),
    )
}
