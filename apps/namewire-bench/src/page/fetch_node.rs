//! The consumer of a node: a process that fetches with the state machine of `namewire get`, over the batched sockets of
//! the traffic generator, and prints its figures as lines of JSON.
//!
//! It prints [`Figures`] every [`INTERVAL`] and at the end. To begin at the same time as others, it can print
//! `{"ready": true}` and wait for a line on standard input before. Content is counted, verified if the order says so, and
//! not kept.

use std::collections::VecDeque;
use std::io::{BufRead, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use hdrhistogram::Histogram;
use namewire::cli::shared::positive_duration;
use ndn_client::fetch::{
    DataOutcome, Discovery, FetchConfig, FetchOptions, FetchState, Verification, WindowMode,
};
use ndn_client::{EndpointOptions, ForwarderAddress};
use ndn_packet::lp::append_packet;
use ndn_packet::{ContentType, Convention, Data, InterestBuilder, LpHeader, LpPacket, Name};
use ndn_security::{DigestVerifier, verify_data};
use ndn_sys::clock;
use ndn_traffic::io::Endpoint;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

/// Time between two lines of figures.
pub(super) const INTERVAL: Duration = Duration::from_millis(250);
/// Largest latency that is distinguished.
const LATENCY_US_MAX: u64 = 60_000_000;
const LIFETIME_MS: u64 = 4000;
/// Longest frame over UDP.
const MTU: usize = 8800;
/// Unsent output above which no Interests are made.
const BACKLOG_MAX: usize = 512 * 1024;
/// Distance of the first fetch of a pair to the second one, in segments: F has room for as many Data of all pairs.
const LEAD_MAX: u32 = 1024;
/// Waits shorter than this are not worth a timer.
const TIMER_SLACK: Duration = Duration::from_micros(80);

/// Output of `namewire get`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GetOutput {
    /// The null device
    Null,
    /// A file in memory
    File,
}

/// Content to fetch: the command line of the process.
#[derive(Args, Debug, Clone, PartialEq, Eq)]
pub(crate) struct Order {
    /// The forwarder
    #[arg(long, value_name = "URI")]
    pub(crate) transport: String,
    /// Names of the content, one fetch each
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// The names are those of files, whose version is found first and which end: each fetch has this number of them, in turn
    #[arg(long, value_name = "NUMBER")]
    pub(crate) files: Option<u32>,
    /// Fetch files by `namewire get`
    #[arg(long, value_name = "OUTPUT", requires_all = ["files", "folder"])]
    pub(crate) get: Option<GetOutput>,
    /// Folder of what it writes
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) folder: Option<PathBuf>,
    /// Send Interests with CanBePrefix
    #[arg(long)]
    pub(crate) can_be_prefix: bool,
    /// Have every second fetch ask for what the one before it has received
    #[arg(long = "repeated")]
    pub(crate) is_repeated: bool,
    /// Verify the digest of each Data
    #[arg(long)]
    pub(crate) verify: bool,
    /// Congestion control: cubic, delay, or a constant window in Interests
    #[arg(long, value_name = "WINDOW", default_value = "cubic")]
    pub(crate) window: String,
    /// Time to fetch
    #[arg(long, value_name = "DURATION", value_parser = positive_duration)]
    pub(crate) duration: Duration,
}

impl Order {
    /// The arguments that have this order as their value.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let Self { transport, names, window, duration, .. } = self;
        let flags = [
            ("--can-be-prefix", self.can_be_prefix),
            ("--repeated", self.is_repeated),
            ("--verify", self.verify),
        ];
        let mut arguments = vec![
            format!("--transport={transport}"),
            format!("--window={window}"),
            format!("--duration={}ms", duration.as_millis()),
        ];
        arguments
            .extend(flags.into_iter().filter(|(_, set)| *set).map(|(flag, _)| flag.to_owned()));
        arguments.extend(self.files.map(|count| format!("--files={count}")));
        let get = self.get.and_then(|output| output.to_possible_value());
        arguments.extend(get.map(|output| format!("--get={}", output.get_name())));
        arguments.extend(self.folder.as_ref().map(|path| format!("--folder={}", path.display())));
        arguments.push("--".to_owned());
        arguments.extend(names.iter().cloned());
        arguments
    }

    /// The settings of a fetch. The fetches of a pair wait for each other by their buffers.
    fn config_of(&self, config: FetchConfig, number: usize) -> FetchConfig {
        match (self.is_repeated, number % 2) {
            (false, _) => config,
            (true, 0) => FetchConfig { buffer_segments: LEAD_MAX, ..config },
            (true, _) => FetchConfig { buffer_segments: 0, ..config },
        }
    }
}

/// Counters since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// Time since the start.
    pub(crate) elapsed_ms: f64,
    /// Data received, each once.
    pub(crate) data: u64,
    /// Their content.
    pub(crate) bytes: u64,
    /// Interests sent.
    pub(crate) interests: u64,
    /// Interests among them that were sent for a segment again.
    pub(crate) retransmissions: u64,
    /// Nacks received.
    pub(crate) nacks: u64,
    /// Data with a congestion mark.
    pub(crate) marks: u64,
    /// Windows of all fetches, in Interests.
    pub(crate) window: u64,
    /// Latency of Interests that were sent once: since the previous line, and in the last line since the start.
    pub(crate) latency: Latency,
    /// CPU time of the process since the start, in microseconds.
    pub(crate) cpu_us: f64,
    /// Whether this is the last line.
    pub(crate) is_end: bool,
}

/// A line of a consumer, with the number of its direction; `None` at its end.
pub(crate) type Reported = (usize, Option<Figures>);

/// Percentiles of the latency, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Latency {
    /// Median.
    pub(crate) p50_us: u64,
    /// 90th percentile.
    pub(crate) p90_us: u64,
    /// 99th percentile.
    pub(crate) p99_us: u64,
    /// 99.9th percentile.
    pub(crate) p999_us: u64,
    /// Maximum.
    pub(crate) max_us: u64,
}

impl Latency {
    fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile);
        Self {
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: histogram.max(),
        }
    }
}

/// Runs the process. It `waits` for a line on standard input when it is ready to begin, and fetches files once or, until the
/// time is over, again and again.
///
/// # Errors
/// The order or the forwarder cannot be used, or a fetch fails.
pub(crate) fn run_fetch_node(order: &Order, waits: bool, is_once: bool) -> anyhow::Result<()> {
    let window = match order.window.as_str() {
        "cubic" => WindowMode::CUBIC,
        "delay" => WindowMode::DELAY,
        size => WindowMode::Fixed(size.parse().context("the window")?),
    };
    let files = usize::try_from(order.files.unwrap_or(1))?.max(1);
    let flows = order.names.len().div_ceil(files);
    ensure!(flows > 0 && flows < usize::from(u8::MAX), "names");
    let address: ForwarderAddress = order.transport.parse().context("the transport")?;
    let found = find(order, &address)?;
    let mut endpoint = connect(&address)?;
    endpoint.set_mtu(MTU);
    let config = FetchConfig { window, retransmissions_max: u32::MAX, ..FetchConfig::default() };
    let flow = |(number, objects): (usize, &[Found])| {
        Flow::new(order.config_of(config, number), objects.to_vec())
    };
    let flows = found.chunks(files).enumerate().map(flow).collect();
    let mut node = FetchNode::new(flows, endpoint, order)?;
    let mut out = std::io::stdout().lock();
    if waits {
        wait_to_begin(&mut out)?;
    }
    node.run(order.duration, is_once, |figures| {
        serde_json::to_writer(&mut out, figures)?;
        writeln!(out)?;
        out.flush()
    })
}

/// Prints that the process is ready, and waits for a line on standard input.
pub(super) fn wait_to_begin(out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "{{\"ready\": true}}")?;
    out.flush()?;
    std::io::stdin().lock().read_line(&mut String::new())?;
    Ok(())
}

/// CPU time of this process so far.
fn own_cpu() -> std::io::Result<Duration> {
    ndn_sys::cpu::process_time(std::process::id())
}

/// A name that segments follow, with the final segment if there is one.
type Found = (Name, Option<u64>);

/// The names that segments follow.
fn find(order: &Order, address: &ForwarderAddress) -> anyhow::Result<Vec<Found>> {
    let names = order.names.iter().map(|name| Name::from_uri(name).context("a name"));
    let names = names.collect::<anyhow::Result<Vec<_>>>()?;
    if order.files.is_none() {
        return Ok(names.into_iter().map(|name| (name, None)).collect());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let options =
            EndpointOptions { address: Some(address.clone()), ..EndpointOptions::default() };
        let endpoint = ndn_client::Endpoint::connect(options).await?;
        let options = FetchOptions {
            discovery: Discovery::Metadata,
            verification: Verification::Skip,
            discovery_retransmissions: 10,
            ..FetchOptions::default()
        };
        let mut found = Vec::new();
        for name in names {
            let object = endpoint.find(&name, &options).await?;
            found.push((object.name().clone(), object.final_segment()));
        }
        Ok(found)
    })
}

fn connect(address: &ForwarderAddress) -> anyhow::Result<Endpoint> {
    let resolve = |host: &str, port: u16| -> anyhow::Result<SocketAddr> {
        (host, port).to_socket_addrs()?.next().context("an address")
    };
    Ok(match address {
        ForwarderAddress::Unix(path) => {
            Endpoint::stream(OwnedFd::from(UnixStream::connect(path)?))?
        }
        ForwarderAddress::Tcp { host, port, .. } => {
            let stream = std::net::TcpStream::connect(resolve(host, *port)?)?;
            stream.set_nodelay(true)?;
            Endpoint::stream(OwnedFd::from(stream))?
        }
        ForwarderAddress::Udp { host, port, .. } => {
            let remote = resolve(host, *port)?;
            let local = if remote.is_ipv6() { ([0; 16], 0).into() } else { ([0; 4], 0).into() };
            Endpoint::connected_datagram(local, remote)?
        }
        ForwarderAddress::Memif(address) => {
            Endpoint::memif(address, std::process::id(), ndn_client::memif_secret()?)?
        }
        ForwarderAddress::WebTransport(_) => bail!("the transport is not one of the bench"),
    })
}

/// A fetch.
struct Flow {
    config: FetchConfig,
    state: FetchState,
    /// The objects, which it fetches in turn.
    objects: Vec<Found>,
    /// The one that it fetches, and its name.
    object: usize,
    name: Name,
    /// Number of the current pass over the content: answers to earlier ones are late.
    pass: u8,
    /// Times at which the segments from `sent_base` on were sent; `None` if more than once.
    sent: VecDeque<Option<Duration>>,
    sent_base: u64,
    /// Of the passes before this one.
    before: (u64, u64),
}

impl Flow {
    /// A fetch of at least one object.
    fn new(config: FetchConfig, objects: Vec<Found>) -> Self {
        let (name, last) = objects[0].clone();
        Self {
            config,
            state: FetchState::new(config, 0, last),
            objects,
            object: 0,
            name,
            pass: 0,
            sent: VecDeque::new(),
            sent_base: 0,
            before: (0, 0),
        }
    }

    /// Begins the next object, after the last one the first.
    fn restart(&mut self) {
        let progress = self.state.progress();
        self.before.0 += progress.interests;
        self.before.1 += progress.retransmissions;
        self.object = (self.object + 1) % self.objects.len();
        let (name, last) = &self.objects[self.object];
        self.name.clone_from(name);
        self.state = FetchState::new(self.config, 0, *last);
        self.pass = self.pass.wrapping_add(1);
        self.sent.clear();
        self.sent_base = 0;
    }

    fn note_sent(&mut self, segment: u64, attempt: u32, now: Duration) {
        let Some(at) = segment.checked_sub(self.sent_base) else { return };
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        if attempt == 1 && at == self.sent.len() {
            self.sent.push_back(Some(now));
        } else if let Some(sent) = self.sent.get_mut(at) {
            *sent = None;
        }
    }

    /// The time at which a received segment was sent, and forgets those that are not needed any more.
    fn take_sent(&mut self, segment: u64) -> Option<Duration> {
        let at = usize::try_from(segment.checked_sub(self.sent_base)?).ok()?;
        let sent = self.sent.get_mut(at)?.take();
        while self.sent_base < self.state.first_missing() && self.sent.pop_front().is_some() {
            self.sent_base += 1;
        }
        sent
    }
}

/// All fetches of a node, over one face.
struct FetchNode {
    flows: Vec<Flow>,
    endpoint: Endpoint,
    can_be_prefix: bool,
    is_repeated: bool,
    verify: bool,
    figures: Figures,
    /// Latencies since the previous line, and before.
    recent: Histogram<u64>,
    all: Histogram<u64>,
    nonce: u32,
    packet: Vec<u8>,
    /// CPU time of the process at the start.
    cpu_before: Duration,
}

impl FetchNode {
    fn new(flows: Vec<Flow>, endpoint: Endpoint, order: &Order) -> anyhow::Result<Self> {
        let histogram = || Histogram::new_with_bounds(1, LATENCY_US_MAX, 3);
        let Order { can_be_prefix, is_repeated, verify, .. } = *order;
        Ok(Self {
            flows,
            endpoint,
            can_be_prefix,
            is_repeated,
            verify,
            figures: Figures::default(),
            recent: histogram()?,
            all: histogram()?,
            nonce: std::process::id().wrapping_mul(0x9e37_79b9),
            packet: Vec::new(),
            cpu_before: Duration::ZERO,
        })
    }

    fn run(
        &mut self,
        duration: Duration,
        is_once: bool,
        mut report: impl FnMut(&Figures) -> std::io::Result<()>,
    ) -> anyhow::Result<()> {
        self.cpu_before = own_cpu()?;
        let start = clock::now();
        let elapsed = || Duration::from_nanos(clock::now().saturating_sub(start));
        let mut next_report = INTERVAL;
        let mut now = Duration::ZERO;
        while now < duration {
            self.transmit(now)?;
            let deadline = self.next_deadline().unwrap_or(duration).min(next_report).min(duration);
            self.wait(deadline.saturating_sub(now))?;
            now = elapsed();
            self.receive(now)?;
            release(&mut self.flows, self.is_repeated);
            for flow in &mut self.flows {
                if flow.state.poll_timeout().is_some_and(|(at, _)| at <= now) {
                    flow.state.handle_timeout(now);
                }
                if let Some(failure) = flow.state.failure() {
                    bail!("{}: {failure}", flow.name);
                }
                if flow.state.is_complete() && !is_once {
                    flow.restart();
                }
            }
            if is_once && self.flows.iter().all(|flow| flow.state.is_complete()) {
                break;
            }
            if now >= next_report && now < duration {
                next_report = now + INTERVAL;
                report(&self.figures_at(now, false)?)?;
            }
        }
        report(&self.figures_at(now, true)?)?;
        Ok(())
    }

    fn figures_at(&mut self, now: Duration, is_end: bool) -> std::io::Result<Figures> {
        let recent = Latency::of(&self.recent);
        // The bounds are the same.
        let _ = self.all.add(&self.recent);
        self.recent.reset();
        let mut figures = Figures {
            elapsed_ms: now.as_secs_f64() * 1e3,
            latency: if is_end { Latency::of(&self.all) } else { recent },
            cpu_us: own_cpu()?.saturating_sub(self.cpu_before).as_secs_f64() * 1e6,
            is_end,
            ..self.figures
        };
        for flow in &self.flows {
            let progress = flow.state.progress();
            figures.interests += flow.before.0 + progress.interests;
            figures.retransmissions += flow.before.1 + progress.retransmissions;
            figures.window += u64::try_from(progress.window).unwrap_or(0);
        }
        Ok(figures)
    }

    fn next_deadline(&mut self) -> Option<Duration> {
        self.flows.iter_mut().filter_map(|flow| Some(flow.state.poll_timeout()?.0)).min()
    }

    /// Sends the Interests that the windows allow.
    fn transmit(&mut self, now: Duration) -> anyhow::Result<()> {
        for (number, flow) in (0_u8..).zip(&mut self.flows) {
            let prefix_len = flow.name.len();
            while self.endpoint.backlog() < BACKLOG_MAX
                && let Some(transmit) = flow.state.poll_transmit(now)
            {
                let segment = transmit.segment;
                flow.note_sent(segment, transmit.attempt, now);
                flow.name.push_segment(segment);
                self.nonce = self.nonce.wrapping_add(1);
                let interest = InterestBuilder::new(flow.name.as_ref())
                    .can_be_prefix(self.can_be_prefix)
                    .nonce(self.nonce)
                    .lifetime_ms(LIFETIME_MS);
                self.packet.resize(interest.encoded_len(), 0);
                let written = interest.write(&mut self.packet)?;
                flow.name.truncate(prefix_len);
                let token = to_token(number, flow.pass, segment);
                let header = LpHeader { pit_token: &token, ..LpHeader::default() };
                self.endpoint.push(|out| append_packet(out, &header, &self.packet[..written]));
            }
        }
        self.endpoint.flush()?;
        Ok(())
    }

    /// Waits for packets, for room where output waits, or for this time.
    fn wait(&mut self, time: Duration) -> anyhow::Result<()> {
        if self.endpoint.prepare_to_wait()? {
            return Ok(());
        }
        let time = time.saturating_sub(TIMER_SLACK);
        let time = Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(0),
            tv_nsec: i64::from(time.subsec_nanos()),
        };
        let is_waiting = self.endpoint.backlog() > 0;
        let flags = if is_waiting { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut fds = [PollFd::from_borrowed_fd(self.endpoint.fd(), flags)];
        match poll(&mut fds, Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn receive(&mut self, now: Duration) -> anyhow::Result<()> {
        let Self { flows, endpoint, figures, recent, verify, .. } = self;
        let mut wrong = None;
        endpoint.receive(|frame, _| {
            let handled = handle(flows, figures, recent, frame, now);
            let verified = handled.and_then(|data| match data {
                Some(data) if *verify => check_digest(&data),
                Some(_) | None => Ok(()),
            });
            if let Err(reason) = verified {
                wrong = Some(reason);
            }
        })?;
        match wrong {
            Some(reason) => bail!("{reason}"),
            None => Ok(()),
        }
    }
}

/// Makes room for further segments in the fetches.
fn release(flows: &mut [Flow], is_repeated: bool) {
    let received: Vec<u64> = flows.iter().map(|flow| flow.state.first_missing()).collect();
    for (number, flow) in flows.iter_mut().enumerate() {
        let own = received[number];
        let consumed = match (is_repeated, number % 2) {
            (false, _) => own,
            (true, 0) => received.get(number + 1).map_or(own, |second| own.min(*second)),
            (true, _) => received[number - 1],
        };
        flow.state.set_consumed(consumed);
    }
}

/// Verifies the digest of a Data.
fn check_digest(data: &Data<'_>) -> Result<(), String> {
    verify_data(data, &DigestVerifier).map_err(|error| format!("{}: {error}", data.name()))
}

/// Handles a packet, and returns Data that is new.
fn handle<'a>(
    flows: &mut [Flow],
    figures: &mut Figures,
    recent: &mut Histogram<u64>,
    frame: &'a [u8],
    now: Duration,
) -> Result<Option<Data<'a>>, String> {
    let Ok(packet) = LpPacket::parse(frame) else { return Ok(None) };
    let Some((number, pass, segment)) = packet.pit_token().and_then(from_token) else {
        return Ok(None);
    };
    let Some(flow) = flows.get_mut(usize::from(number)).filter(|flow| flow.pass == pass) else {
        return Ok(None);
    };
    if let Some(reason) = packet.nack() {
        figures.nacks += 1;
        flow.state.handle_nack(now, segment, reason);
        return Ok(None);
    }
    let Some(data) = packet.fragment().and_then(|data| Data::parse(data).ok()) else {
        return Ok(None);
    };
    if data.content_type() == ContentType::NACK {
        return Err(format!("the producer has no {}", data.name()));
    }
    let last = data.final_block_id().and_then(|last| Convention::Typed.segment_of(&last));
    let is_marked = packet.congestion_mark().is_some_and(|mark| mark > 0);
    figures.marks += u64::from(is_marked);
    if flow.state.handle_data(now, segment, last, is_marked) == DataOutcome::New {
        figures.data += 1;
        figures.bytes +=
            data.content().map_or(0, |content| u64::try_from(content.len()).unwrap_or(0));
        if let Some(sent) = flow.take_sent(segment) {
            let latency = now.saturating_sub(sent).as_micros();
            recent.saturating_record(u64::try_from(latency).unwrap_or(u64::MAX).max(1));
        }
        return Ok(Some(data));
    }
    Ok(None)
}

/// A PIT token: flow, pass, and segment, of which 32 bits suffice. ndnd ends at tokens of other lengths than 6 bytes.
fn to_token(flow: u8, pass: u8, segment: u64) -> [u8; 6] {
    let [_, _, _, _, a, b, c, d] = segment.to_be_bytes();
    [flow, pass, a, b, c, d]
}

fn from_token(token: &[u8]) -> Option<(u8, u8, u64)> {
    let [flow, pass, a, b, c, d] = *token else { return None };
    Some((flow, pass, u32::from_be_bytes([a, b, c, d]).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[derive(clap::Parser)]
    struct Parsed {
        #[command(flatten)]
        order: Order,
    }

    fn order() -> Order {
        Order {
            transport: "udp4://192.0.2.1:6363".to_owned(),
            names: vec!["/A/0/0/I".to_owned(), "/A/0/0/I".to_owned()],
            files: None,
            get: None,
            folder: None,
            can_be_prefix: true,
            is_repeated: true,
            verify: false,
            window: "128".to_owned(),
            duration: MS,
        }
    }

    #[test]
    fn arguments_have_the_order_as_their_value() {
        let own = std::iter::once("page-fetch".to_owned());
        let files = Order { files: Some(2), verify: true, is_repeated: false, ..order() };
        let get = Order {
            get: Some(GetOutput::File),
            folder: Some("/dev/shm/x".into()),
            ..files.clone()
        };
        for order in [order(), files, get] {
            let parsed =
                <Parsed as clap::Parser>::try_parse_from(own.clone().chain(order.arguments()));
            assert_eq!(parsed.unwrap().order, order);
        }
    }

    #[test]
    fn tokens_hold_flow_pass_and_segment() {
        for parts in [(0, 0, 0), (255, 255, 0xFFFF_FFFF), (1, 2, 3)] {
            assert_eq!(from_token(&to_token(parts.0, parts.1, parts.2)), Some(parts));
        }
        assert_eq!(from_token(&[1]), None);
    }

    #[test]
    fn second_fetch_of_a_pair_follows_the_first_one() {
        let order = order();
        let config =
            FetchConfig { window: WindowMode::Fixed(2 * LEAD_MAX), ..FetchConfig::default() };
        let flow = |number| Flow::new(order.config_of(config, number), vec![(Name::new(), None)]);
        let mut flows = [flow(0), flow(1)];
        let send = |flow: &mut Flow| {
            std::iter::from_fn(|| flow.state.poll_transmit(MS)).map(|one| one.segment).last()
        };
        release(&mut flows, true);
        // The first one has its distance, the second one nothing yet.
        assert_eq!(send(&mut flows[0]), Some(u64::from(LEAD_MAX) - 1));
        assert_eq!(send(&mut flows[1]), None);
        for segment in 0..3 {
            flows[0].state.handle_data(2 * MS, segment, None, false);
        }
        release(&mut flows, true);
        assert_eq!((send(&mut flows[0]), send(&mut flows[1])), (None, Some(2)));
        flows[1].state.handle_data(3 * MS, 0, None, false);
        release(&mut flows, true);
        assert_eq!((send(&mut flows[0]), send(&mut flows[1])), (Some(1024), None));
    }

    #[test]
    fn latency_is_that_of_interests_sent_once() {
        let config = FetchConfig { window: WindowMode::Fixed(3), ..FetchConfig::default() };
        let objects = ["/first", "/second"].map(|name| (name.parse().unwrap(), Some(9)));
        let mut flow = Flow::new(config, objects.to_vec());
        for segment in 0..3 {
            assert_eq!(flow.state.poll_transmit(MS).map(|one| one.segment), Some(segment));
            flow.note_sent(segment, 1, MS * u32::try_from(segment).unwrap());
        }
        flow.note_sent(1, 2, 7 * MS);
        for (segment, sent) in [(2, Some(2 * MS)), (0, Some(Duration::ZERO)), (1, None)] {
            flow.state.handle_data(9 * MS, segment, None, false);
            assert_eq!(flow.take_sent(segment), sent, "{segment}");
        }
        assert_eq!((flow.sent_base, flow.sent.len()), (3, 0));
        flow.restart();
        assert_eq!((flow.pass, flow.before, flow.state.first_missing()), (1, (3, 0), 0));
        assert_eq!(flow.name, objects[1].0);
        flow.restart();
        assert_eq!(flow.name, objects[0].0);
    }
}
