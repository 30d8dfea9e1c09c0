//! The processes of one trial: forwarder F, and producers and consumers of the nodes A and B.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use super::api::ApiOptions;
use super::fetch_node::{Order, Reported};
use super::node_tasks::{RemoteConsumer, RemoteProducer};
use super::plan::{CongestionKind, InterestPattern, Node, PageTransport, Plan, ProducerKind};
use super::remote::{Remote, RemoteOptions};
use crate::relay::addresses::Addresses;
use crate::relay::clock;
use crate::relay::link::{Link as Devices, Side, check_tools};
use crate::relay::program::Program;
use crate::relay::programs::Running;
use crate::started::Process;
use crate::{LinkRelay, LinkRelayOptions, LinkReport, Transport};

/// Content Store of F, in packets: so small that a fetch finds nothing of the one before.
const CS_PACKETS: u32 = 1024;
/// The same for fetches in pairs: all that is between them.
const CS_PACKETS_REPEATED: u32 = 65_536;
/// Port of F where it has a namespace of its own.
const OWN_PORT: u16 = 6363;
/// Time for a program to be ready.
const START_TIMEOUT_NS: u64 = 60_000_000_000;
/// Part of the line that F prints when it has started.
const LISTENING: &str = "listening on ";
/// Producers reached by UDP or shared memory register over their face.
const SETTINGS: &str = "[management]\nlocalhop_rib = \"any\"\n";

/// The forwarder F, with the link to it if there is one.
pub(super) struct Forwarder {
    place: Place,
    /// Namespaces of all nodes, if they have one each.
    devices: Option<Arc<Devices>>,
    folder: PathBuf,
    socket: PathBuf,
    port: u16,
    link: Option<Link>,
}

/// Where F runs.
enum Place {
    /// On this host, as a process of this one.
    Started(Program, Running),
    /// Elsewhere.
    Remote(Remote),
}

impl Forwarder {
    /// Takes a forwarder elsewhere as F.
    pub(super) fn remote(options: &RemoteOptions, folder: &Path) -> anyhow::Result<Self> {
        let place = Place::Remote(Remote::prepare(options)?);
        let (devices, folder, socket) = (None, folder.to_owned(), PathBuf::new());
        Ok(Self { place, devices, folder, socket, port: 0, link: None })
    }

    /// Whether it is elsewhere.
    pub(super) fn is_remote(&self) -> bool {
        matches!(self.place, Place::Remote(_))
    }

    /// Starts a program as F, and assigns the names of each worker.
    pub(super) fn start(
        plan: &Plan,
        (program, executable): (Program, &Path),
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let transport = match plan.transport {
            PageTransport::Unix => Transport::Unix,
            PageTransport::Udp => Transport::Udp,
            PageTransport::Tcp => Transport::Tcp,
            PageTransport::Memif => Transport::Memif,
            PageTransport::Veth => Transport::UdpVeth,
        };
        let devices = match plan.transport {
            PageTransport::Veth => {
                ensure!(rustix::process::geteuid().is_root(), "transport veth takes root");
                check_tools()?;
                Some(Arc::new(Devices::of_line()?))
            }
            PageTransport::Unix
            | PageTransport::Udp
            | PageTransport::Tcp
            | PageTransport::Memif => None,
        };
        let port = free_port(plan.transport)?;
        let addresses = Addresses {
            folder: folder.to_owned(),
            udp_port: port,
            producer_port: 0,
            consumer_ports: Vec::new(),
            transport,
            link: devices.clone(),
            settings: SETTINGS,
            cs_packets: match plan.interests {
                InterestPattern::Distinct => CS_PACKETS,
                InterestPattern::Repeated => CS_PACKETS_REPEATED,
            },
            workers: usize::try_from(plan.workers)?,
        };
        let socket = addresses.socket();
        let _ = fs::remove_file(&socket);
        let cpus = allowed_cpus()?;
        let running = Running::start(program, executable, &addresses, &cpus)?;
        // It accepts connections a moment before management has its routes, and others before they listen on ports.
        let is_ready = || match (program, plan.transport) {
            (Program::Namewire, _) => running.output().contains(LISTENING),
            (_, PageTransport::Tcp) => std::net::TcpStream::connect(("127.0.0.1", port)).is_ok(),
            (_, _) => true,
        };
        let start = clock::monotonic_ns();
        while !is_ready() {
            if clock::monotonic_ns() - start >= START_TIMEOUT_NS {
                bail!("F does not listen after a minute: {}", running.output());
            }
            clock::pause(Duration::from_millis(5));
        }
        let link = if plan.has_link() { Some(Link::start(plan, port)?) } else { None };
        let folder = folder.to_owned();
        let place = Place::Started(program, running);
        let forwarder = Self { place, devices, folder, socket, port, link };
        if plan.workers > 1 && program == Program::Namewire {
            forwarder.assign_names(plan, executable)?;
        }
        Ok(forwarder)
    }

    /// Runs a command of the program at F.
    fn command(&self, executable: &Path, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new(executable);
        command.args(arguments).stdin(Stdio::null());
        command.env("NDN_CLIENT_TRANSPORT", format!("unix://{}", self.socket.display()));
        let output = command.output()?;
        let reason = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {}", arguments.join(" "), reason.trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Hits of its Content Store so far; `None` for other programs, which do not all count them.
    pub(super) fn cache_hits(&self, executable: &Path) -> anyhow::Result<Option<u64>> {
        match &self.place {
            Place::Remote(remote) => return remote.cache_hits(),
            Place::Started(Program::Namewire, _) => {}
            Place::Started(..) => return Ok(None),
        }
        let printed = self.command(executable, &["cs", "--json"])?;
        let info: serde_json::Value = serde_json::from_str(&printed).context("namewire cs")?;
        Ok(info["hits"].as_u64())
    }

    /// A command that runs a program of a node, in the namespace of the node if it has one.
    pub(super) fn at(&self, node: Node, executable: &Path) -> Command {
        match &self.devices {
            Some(devices) => devices.at(executable, side(node)),
            None => Command::new(executable),
        }
    }

    /// Gives `/A/0` and `/B/0` to worker 0, and so on.
    fn assign_names(&self, plan: &Plan, executable: &Path) -> anyhow::Result<()> {
        for node in [Node::A, Node::B] {
            for worker in 0..plan.workers {
                let name = format!("/{}/{worker}", node.letter());
                self.command(executable, &["ndt", "set", &name, &worker.to_string()])?;
            }
        }
        Ok(())
    }

    /// The address of F for a node; that of the link for B, if there is one.
    pub(super) fn address(&self, plan: &Plan, node: Node) -> String {
        if let Place::Remote(remote) = &self.place {
            return remote.transport().to_owned();
        }
        let port = match (&self.link, node) {
            (Some(link), Node::B) => link.port,
            (Some(_) | None, _) => self.port,
        };
        match plan.transport {
            PageTransport::Unix => format!("unix://{}", self.socket.display()),
            PageTransport::Udp => format!("udp4://127.0.0.1:{port}"),
            PageTransport::Tcp => format!("tcp4://127.0.0.1:{port}"),
            PageTransport::Memif => format!("memif://{}", self.folder.join("memif.sock").display()),
            PageTransport::Veth => {
                let devices = self.devices.as_ref();
                let ip = devices.map_or(Ipv4Addr::LOCALHOST, |link| link.far_ip(side(node)));
                format!("udp4://{ip}:{port}")
            }
        }
    }

    /// Content that the consumer of a direction fetches.
    pub(super) fn order(&self, plan: &Plan, (producer, consumer): (Node, Node)) -> Order {
        Order {
            transport: self.address(plan, consumer),
            names: plan.names(producer),
            files: (plan.producer == ProducerKind::Files).then_some(plan.file_count),
            get: None,
            folder: None,
            can_be_prefix: plan.prefix_match,
            is_repeated: plan.interests == InterestPattern::Repeated,
            verify: plan.verify,
            window: match plan.congestion {
                CongestionKind::Cubic => "cubic".to_owned(),
                CongestionKind::Delay => "delay".to_owned(),
                CongestionKind::Fixed => plan.window.to_string(),
            },
            duration: Duration::from_secs(plan.duration_s.into()),
        }
    }

    /// CPU time so far; of a forwarder elsewhere, that in which its workers do not wait.
    pub(super) fn cpu(&self) -> anyhow::Result<Duration> {
        match &self.place {
            Place::Started(_, running) => Ok(Duration::from_nanos(running.cpu_ns()?)),
            Place::Remote(remote) => remote.busy(),
        }
    }

    /// Ends the link, and returns its counters.
    pub(super) fn end_link(&mut self) -> anyhow::Result<Option<LinkReport>> {
        self.link.take().map(Link::end).transpose()
    }
}

/// The devices of a node.
fn side(node: Node) -> Side {
    match node {
        Node::A => Side::Producer,
        Node::B => Side::Consumer,
    }
}

fn free_port(transport: PageTransport) -> anyhow::Result<u16> {
    Ok(match transport {
        PageTransport::Unix | PageTransport::Memif => 0,
        PageTransport::Veth => OWN_PORT,
        PageTransport::Udp => std::net::UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port(),
        PageTransport::Tcp => std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port(),
    })
}

/// The processors that this process may use.
fn allowed_cpus() -> anyhow::Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// The link emulator between B and F, on a thread of this process.
struct Link {
    port: u16,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<std::io::Result<LinkReport>>>,
}

impl Link {
    fn start(plan: &Plan, to: u16) -> anyhow::Result<Self> {
        let mut relay = LinkRelay::bind(&LinkRelayOptions {
            listen: ([127, 0, 0, 1], 0).into(),
            to: ([127, 0, 0, 1], to).into(),
            there: plan.link(1),
            back: plan.link(2),
        })?;
        let port = relay.local_addr()?.port();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("link".to_owned());
        let thread = Some(thread.spawn(move || relay.run(&stopped))?);
        Ok(Self { port, stop, thread })
    }

    fn end(mut self) -> anyhow::Result<LinkReport> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("the link has ended before")?;
        let report = thread.join().map_err(|_| anyhow::anyhow!("the link has panicked"))?;
        report.context("the link")
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The reason has been reported, or nobody needs it.
            let _ = thread.join();
        }
    }
}

/// The component that the generator appends to the names of Data for Interests with CanBePrefix.
const SUFFIX: &str = "/D";

/// A producer of a node.
pub(super) enum Producer {
    /// A process of this one.
    Here(Process),
    /// A task of a node on another host.
    Elsewhere(RemoteProducer),
}

impl Producer {
    /// Starts it, and waits until it has registered its prefixes. `served` has the files.
    pub(super) fn start(
        plan: &Plan,
        (node, elsewhere): (Node, Option<&ApiOptions>),
        forwarder: &Forwarder,
        executable: &Path,
        served: &Path,
    ) -> anyhow::Result<Self> {
        if let Some(options) = elsewhere {
            let suffix = plan.prefix_match.then_some(SUFFIX);
            let content = (plan.payload, suffix, plan.verify);
            let address = forwarder.address(plan, node);
            let started = RemoteProducer::start(options, &address, &plan.prefixes(node), content);
            return Ok(Self::Elsewhere(started.with_context(|| node.title())?));
        }
        let payload = format!("{}B", plan.payload);
        let mut command = forwarder.at(node, executable);
        let ready = match plan.producer {
            ProducerKind::Generator => {
                command.args(["traffic", "producer", "--payload", &payload]);
                command.args(plan.prefixes(node));
                if plan.prefix_match {
                    command.args(["--suffix", SUFFIX]);
                }
                let is_datagram =
                    matches!(plan.transport, PageTransport::Udp | PageTransport::Veth);
                if is_datagram || forwarder.is_remote() {
                    command.arg("--localhop");
                }
                if plan.verify {
                    command.arg("--digest");
                }
                "responding"
            }
            ProducerKind::Files => {
                let mounts = served.join(format!("{}.toml", node.letter()));
                write_files(plan, node, served, &mounts)?;
                // Without a signature of each segment, it would make a manifest meanwhile.
                command.args(["serve", "--sign-segments", "--segment-size", &payload]);
                command.arg("--mounts").arg(mounts);
                "serving "
            }
        };
        command.args(["--transport", &forwarder.address(plan, node)]);
        command.env("HOME", served).env_remove("XDG_CACHE_HOME");
        let log = forwarder.folder.join(format!("producer-{}.log", node.letter()));
        Ok(Self::Here(start_until(command, &log, ready)?))
    }

    /// CPU time so far.
    pub(super) fn cpu(&self) -> anyhow::Result<Duration> {
        match self {
            Self::Here(process) => Ok(ndn_sys::cpu::process_time(process.id())?),
            Self::Elsewhere(producer) => producer.cpu(),
        }
    }
}

/// The file that all names are links to, so that a set of files needs the memory of one.
pub(super) const FILE: &str = "file";

/// Gives the file the names of the flows, and lists the directories of the workers in `mounts`.
fn write_files(plan: &Plan, node: Node, served: &Path, mounts: &Path) -> anyhow::Result<()> {
    for name in plan.names(node) {
        let path = served.join(name.trim_start_matches('/'));
        fs::create_dir_all(path.parent().context("a directory")?)?;
        if !path.exists() {
            fs::hard_link(served.join(FILE), &path).with_context(|| path.display().to_string())?;
        }
    }
    let entries: String = plan
        .prefixes(node)
        .iter()
        .map(|prefix| {
            let directory = served.join(prefix.trim_start_matches('/'));
            format!("[[mount]]\nprefix = \"{prefix}\"\ndirectory = \"{}\"\n", directory.display())
        })
        .collect();
    Ok(fs::write(mounts, entries)?)
}

/// Starts a program, and waits until its output contains `ready`.
pub(crate) fn start_until(
    mut command: Command,
    log: &Path,
    ready: &str,
) -> anyhow::Result<Process> {
    let out = fs::File::create(log)?;
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
    let mut process = Process::spawn(&mut command).with_context(|| format!("{command:?}"))?;
    let start = clock::monotonic_ns();
    while clock::monotonic_ns() - start < START_TIMEOUT_NS {
        let printed = fs::read_to_string(log).unwrap_or_default();
        if printed.contains(ready) {
            return Ok(process);
        }
        if let Some(status) = process.try_wait()? {
            bail!("a program ended at once ({status}): {}", printed.trim());
        }
        clock::pause(Duration::from_millis(5));
    }
    bail!("a program is not ready after a minute: {}", log.display())
}

/// A consumer of a node: a process of `namewire-bench page-fetch`.
pub(crate) struct Consumer {
    process: Process,
    input: ChildStdin,
    log: PathBuf,
    reader: Option<JoinHandle<()>>,
}

impl Consumer {
    /// Starts one by this order with a command that runs this program, with its standard error in `log`.
    pub(crate) fn spawn(
        mut command: Command,
        order: &Order,
        log: PathBuf,
        (number, reports): (usize, Sender<Reported>),
    ) -> anyhow::Result<Self> {
        command.args(["page-fetch", "--wait"]).args(order.arguments());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(fs::File::create(&log)?);
        let mut process = Process::spawn(&mut command).context("a consumer")?;
        let (input, output) = process.pipes();
        let input = input.context("a pipe")?;
        let mut output = BufReader::new(output.context("a pipe")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        if !line.contains("ready") {
            let reason = fs::read_to_string(&log).unwrap_or_default();
            bail!("a consumer does not start: {}", reason.trim());
        }
        let read = move || {
            for line in output.lines().map_while(Result::ok) {
                let Ok(figures) = serde_json::from_str(&line) else { break };
                if reports.send((number, Some(figures))).is_err() {
                    return;
                }
            }
            // Nobody waits for it after an interrupt.
            let _ = reports.send((number, None));
        };
        let reader = Some(std::thread::Builder::new().name("figures".to_owned()).spawn(read)?);
        Ok(Self { process, input, log, reader })
    }

    /// Begins to fetch.
    pub(crate) fn go(&mut self) -> anyhow::Result<()> {
        Ok(self.input.write_all(b"go\n")?)
    }

    /// Its standard error so far.
    fn reason(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default().trim().to_owned()
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        // What it has started ends with it.
        self.process.kill();
        if let Some(reader) = self.reader.take() {
            // It ends with the output of the process.
            let _ = reader.join();
        }
    }
}

/// The consumer of a direction.
pub(super) enum Fetcher {
    /// A process of this one.
    Here(Consumer),
    /// A task of a node on another host.
    Elsewhere(RemoteConsumer),
}

impl Fetcher {
    /// Starts it; one of this host waits until it has found its content, or writes below `memory`. Its figures go to
    /// `reports`.
    pub(super) fn start(
        plan: &Plan,
        (number, (producer, node)): (usize, (Node, Node)),
        elsewhere: Option<&ApiOptions>,
        (forwarder, memory): (&Forwarder, Option<&Path>),
        reports: Sender<Reported>,
    ) -> anyhow::Result<Self> {
        let mut order = forwarder.order(plan, (producer, node));
        if let Some((output, memory)) = plan.consumer.output().zip(memory) {
            let folder = memory.join(format!("consumer-{}", node.letter()));
            fs::create_dir_all(&folder)?;
            (order.get, order.folder) = (Some(output), Some(folder));
        }
        if let Some(options) = elsewhere {
            let consumer = RemoteConsumer::new(options, order, (number, reports));
            return Ok(Self::Elsewhere(consumer.with_context(|| node.title())?));
        }
        let log = forwarder.folder.join(format!("consumer-{}.log", node.letter()));
        let command = forwarder.at(node, &std::env::current_exe()?);
        Ok(Self::Here(Consumer::spawn(command, &order, log, (number, reports))?))
    }

    /// Begins to fetch.
    pub(super) fn go(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Here(consumer) => consumer.go(),
            Self::Elsewhere(consumer) => consumer.go(),
        }
    }

    /// Why it has ended.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Here(consumer) => consumer.reason(),
            Self::Elsewhere(consumer) => consumer.reason(),
        }
    }
}
