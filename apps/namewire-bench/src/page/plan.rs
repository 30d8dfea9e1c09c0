//! The inputs of a benchmark.

use std::time::Duration;

use ndn_client::link::SimulatedLinkOptions;
use ndn_packet::MAX_PACKET_SIZE;
use serde::{Deserialize, Serialize};

use super::fetch_node::GetOutput;
use crate::relay::program::Program;

/// Content bytes of a segment that leave room for name and signature in a packet.
const PAYLOAD_MAX: u64 = 8000;
/// Names of this length are the shortest: node, worker, flow and segment. Files have a version, too.
const COMPONENTS_MIN: u32 = 5;
const COMPONENTS_MAX: u32 = 15;
/// A file of this length does not fit the Content Store of the forwarder.
const FILE_MIB_MIN: u32 = 16;
/// Maximum number of files of all fetches of a direction.
const FILES_MAX: u32 = 1024;

/// Transport of the faces between F and the other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PageTransport {
    /// Unix stream sockets.
    Unix,
    /// UDP over the loopback interface.
    Udp,
    /// TCP over the loopback interface.
    Tcp,
    /// Shared memory.
    Memif,
    /// UDP over virtual Ethernet devices; each node has a network namespace. Takes root.
    Veth,
}

/// The segments that fetches ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum InterestPattern {
    /// Each fetch has content of its own.
    Distinct,
    /// Fetches are in pairs: the second one asks for what the first one has received, so that F has it in its cache.
    Repeated,
}

/// Measurements in turn with those of Namewire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Peers {
    /// None.
    None,
    /// NFD.
    Nfd,
    /// ndnd.
    Ndnd,
    /// Both.
    All,
    /// No other forwarder, but whole transfers of the file, as `bench transfer` measures them.
    Transfer,
}

impl Peers {
    /// The programs that take the place of F.
    #[must_use]
    pub(crate) fn programs(self) -> &'static [Program] {
        match self {
            Self::None | Self::Transfer => &[],
            Self::Nfd => &[Program::Nfd],
            Self::Ndnd => &[Program::Ndnd],
            Self::All => &[Program::Nfd, Program::Ndnd],
        }
    }
}

/// The direction of the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Traffic {
    /// A produces, B fetches.
    AToB,
    /// B produces, A fetches.
    BToA,
    /// Both at the same time.
    Both,
}

impl Traffic {
    /// Producer and consumer of each direction.
    #[must_use]
    pub(crate) fn directions(self) -> &'static [(Node, Node)] {
        match self {
            Self::AToB => &[(Node::A, Node::B)],
            Self::BToA => &[(Node::B, Node::A)],
            Self::Both => &[(Node::A, Node::B), (Node::B, Node::A)],
        }
    }
}

/// A node at an end of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Node {
    /// The first.
    A,
    /// The last.
    B,
}

impl Node {
    /// Its letter.
    #[must_use]
    pub(crate) fn letter(self) -> char {
        match self {
            Self::A => 'A',
            Self::B => 'B',
        }
    }

    /// Its name in messages.
    #[must_use]
    pub(crate) fn title(self) -> String {
        format!("node {}", self.letter())
    }
}

/// The programs that produce content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProducerKind {
    /// `namewire traffic producer`: Data of one length for each Interest, without end.
    Generator,
    /// `namewire serve`: a file, read from memory.
    Files,
}

/// The programs that fetch content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ConsumerKind {
    /// The state machine of `namewire get` over the sockets of the traffic generator, all fetches in one process.
    Fetcher,
    /// `namewire get` into the null device, a process for each file.
    Get,
    /// `namewire get` into a file in memory.
    GetFile,
}

impl ConsumerKind {
    /// Output of `namewire get`, if that fetches.
    pub(super) const fn output(self) -> Option<GetOutput> {
        match self {
            Self::Fetcher => None,
            Self::Get => Some(GetOutput::Null),
            Self::GetFile => Some(GetOutput::File),
        }
    }
}

/// Congestion control of the fetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CongestionKind {
    /// CUBIC.
    Cubic,
    /// Delay-based.
    Delay,
    /// A constant number of Interests, `window`.
    Fixed,
}

/// The inputs of a benchmark. Missing fields have the default.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Plan {
    /// Workers of F, 1 to 16.
    pub(crate) workers: u32,
    /// Transport of the faces.
    pub(crate) transport: PageTransport,
    /// Direction of the content.
    pub(crate) traffic: Traffic,
    /// Fetches at a time in each direction, 1 to 64. Their names are divided between the workers.
    pub(crate) flows: u32,
    /// Components of the names of Interests, 5 to 15.
    pub(crate) components: u32,
    /// Content bytes of a Data, 1 to 8000.
    pub(crate) payload: u32,
    /// Whether Interests have CanBePrefix, and Data one component more (generator only).
    pub(crate) prefix_match: bool,
    /// The segments that fetches ask for (`repeated`: generator only).
    pub(crate) interests: InterestPattern,
    /// Whether consumers verify the digest of each Data.
    pub(crate) verify: bool,
    /// Congestion control of the fetches.
    pub(crate) congestion: CongestionKind,
    /// Window of each fetch with congestion control `fixed`, in Interests, 1 to 16384.
    pub(crate) window: u32,
    /// The programs that produce content.
    pub(crate) producer: ProducerKind,
    /// Length of each file, 16 to 4096 MiB.
    pub(crate) file_mib: u32,
    /// Number of files of each fetch, which it fetches in turn, again and again; at most 1,024 of all fetches of a direction.
    pub(crate) file_count: u32,
    /// The programs that fetch content (`get`, `get_file`: files only).
    pub(crate) consumer: ConsumerKind,
    /// Time from one end of the link between F and B to the other, in milliseconds, 0 to 1000 (UDP only).
    pub(crate) delay_ms: f64,
    /// Rate of that link in 10^6 bit/s, each way; 0: not limited (UDP only).
    pub(crate) rate_mbit: u32,
    /// Share of its datagrams that are lost, 0 to 0.5 (UDP only).
    pub(crate) loss: f64,
    /// Measurements in turn with those of Namewire.
    pub(crate) peers: Peers,
    /// Time that is measured in each trial, in seconds, 1 to 600.
    pub(crate) duration_s: u32,
    /// Number of trials, 1 to 100. Each starts all nodes anew.
    pub(crate) trials: u32,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            workers: 1,
            transport: PageTransport::Unix,
            traffic: Traffic::AToB,
            flows: 1,
            components: 5,
            payload: 4000,
            prefix_match: false,
            interests: InterestPattern::Distinct,
            verify: false,
            congestion: CongestionKind::Cubic,
            window: 256,
            producer: ProducerKind::Generator,
            file_mib: 64,
            file_count: 1,
            consumer: ConsumerKind::Fetcher,
            delay_ms: 0.0,
            rate_mbit: 0,
            loss: 0.0,
            peers: Peers::None,
            duration_s: 10,
            trials: 5,
        }
    }
}

impl Plan {
    /// Checks all values.
    ///
    /// # Errors
    /// The first unusable value, by the name of its field.
    pub(crate) fn check(&self) -> Result<(), String> {
        let whole = [
            ("workers", self.workers, 1, 16),
            ("flows", self.flows, 1, 64),
            ("components", self.components, COMPONENTS_MIN, COMPONENTS_MAX),
            ("payload", self.payload, 1, u32::try_from(PAYLOAD_MAX).unwrap_or(0)),
            ("window", self.window, 1, 16_384),
            ("file_mib", self.file_mib, FILE_MIB_MIN, 4096),
            ("file_count", self.file_count, 1, FILES_MAX / self.flows.clamp(1, 64)),
            ("duration_s", self.duration_s, 1, 600),
            ("trials", self.trials, 1, 100),
        ];
        for (name, value, min, max) in whole {
            if !(min..=max).contains(&value) {
                return Err(format!("{name}: {value} is not from {min} to {max}"));
            }
        }
        for (name, value, max) in [("delay_ms", self.delay_ms, 1000.0), ("loss", self.loss, 0.5)] {
            if !(0.0..=max).contains(&value) {
                return Err(format!("{name}: {value} is not from 0 to {max}"));
            }
        }
        if self.has_link() && self.transport != PageTransport::Udp {
            return Err("delay_ms, rate_mbit and loss are those of a link of UDP: transport: udp"
                .to_owned());
        }
        let needs_files = self.consumer != ConsumerKind::Fetcher || self.file_count > 1;
        if needs_files && self.producer != ProducerKind::Files {
            return Err(
                "consumer, file_count: they are for files of a file server: producer: files"
                    .to_owned(),
            );
        }
        if self.prefix_match && self.producer == ProducerKind::Files {
            return Err("prefix_match: a file server answers exact names only".to_owned());
        }
        if self.interests == InterestPattern::Repeated {
            if self.producer == ProducerKind::Files {
                return Err("interests: repeated ones are for the packet generator".to_owned());
            }
            if self.flows % 2 == 1 {
                return Err("flows: with repeated interests, fetches are in pairs".to_owned());
            }
        }
        if !self.peers.programs().is_empty() && self.transport == PageTransport::Memif {
            return Err("peers: they have no memif: transport: unix, udp, tcp or veth".to_owned());
        }
        let is_one_fetch = self.flows == 1 && self.traffic != Traffic::Both;
        if self.peers == Peers::Transfer && !(self.producer == ProducerKind::Files && is_one_fetch)
        {
            return Err("peers: a transfer is one fetch from a file server: producer: files, flows: 1, traffic: \
                        a-to-b or b-to-a"
                .to_owned());
        }
        Ok(())
    }

    /// Whether the link emulator is between F and B.
    #[must_use]
    pub(crate) fn has_link(&self) -> bool {
        self.delay_ms > 0.0 || self.rate_mbit > 0 || self.loss > 0.0
    }

    /// The link between F and B in one direction. Its queue holds 100 ms at its rate, at least 1 MiB.
    pub(super) fn link(&self, seed: u64) -> SimulatedLinkOptions {
        let rate = match self.rate_mbit {
            0 => u64::MAX,
            megabits => u64::from(megabits) * 1_000_000,
        };
        let queue_bytes = if self.rate_mbit == 0 { u64::MAX } else { (rate / 80).max(1 << 20) };
        SimulatedLinkOptions {
            rate,
            delay: Duration::from_secs_f64(self.delay_ms / 1e3),
            queue_bytes,
            loss: self.loss,
            seed,
            ..SimulatedLinkOptions::default()
        }
    }

    /// The names that the fetches of content of `producer` begin with: `/A/WORKER/CONTENT/I/I…`, without version and
    /// segment. Those of the files of one fetch follow each other.
    pub(super) fn names(&self, producer: Node) -> Vec<String> {
        let segment_and_version = match self.producer {
            ProducerKind::Generator => 1,
            ProducerKind::Files => 2,
        };
        let padding = self.components - 3 - segment_and_version;
        let padding = "/I".repeat(usize::try_from(padding).unwrap_or(0));
        let (letter, workers, shared) = (producer.letter(), self.workers, self.flows_of_a_name());
        let contents = self.flows / shared;
        let of = |flow: u32| {
            let (content, padding) = (flow / shared, &padding);
            let numbers = (0..self.file_count).map(move |file| content + file * contents);
            numbers.map(move |number| format!("/{letter}/{}/{number}{padding}", content % workers))
        };
        (0..self.flows).flat_map(of).collect()
    }

    /// The prefixes that a producer registers, one for each worker that has flows.
    pub(super) fn prefixes(&self, producer: Node) -> Vec<String> {
        let letter = producer.letter();
        let contents = self.flows / self.flows_of_a_name();
        (0..self.workers.min(contents)).map(|worker| format!("/{letter}/{worker}")).collect()
    }

    /// Fetches of the same content.
    fn flows_of_a_name(&self) -> u32 {
        match self.interests {
            InterestPattern::Distinct => 1,
            InterestPattern::Repeated => 2,
        }
    }
}

const _: () = assert!(PAYLOAD_MAX < MAX_PACKET_SIZE as u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_requested_components_and_divide_flows_between_workers() {
        let plan = Plan { workers: 2, flows: 3, components: 7, ..Plan::default() };
        assert_eq!(plan.names(Node::B), ["/B/0/0/I/I/I", "/B/1/1/I/I/I", "/B/0/2/I/I/I"]);
        assert_eq!(plan.prefixes(Node::B), ["/B/0", "/B/1"]);
        // A version and a segment follow.
        let plan = Plan { producer: ProducerKind::Files, components: 5, ..plan };
        assert_eq!(plan.names(Node::A)[0], "/A/0/0");
        // A set of files has the worker of its fetch.
        let plan = Plan { workers: 2, flows: 3, file_count: 2, ..plan };
        let names = ["/A/0/0", "/A/0/3", "/A/1/1", "/A/1/4", "/A/0/2", "/A/0/5"];
        assert_eq!(plan.names(Node::A), names);
        let interests = InterestPattern::Repeated;
        let plan = Plan { workers: 4, flows: 4, interests, ..Plan::default() };
        assert_eq!(plan.names(Node::A), ["/A/0/0/I", "/A/0/0/I", "/A/1/1/I", "/A/1/1/I"]);
        assert_eq!(plan.prefixes(Node::A), ["/A/0", "/A/1"]);
    }

    #[test]
    fn unusable_inputs_are_named() {
        let good = Plan::default();
        assert_eq!(good.check(), Ok(()));
        for (plan, name) in [
            (Plan { workers: 0, ..good }, "workers"),
            (Plan { trials: 101, ..good }, "trials"),
            (Plan { loss: f64::NAN, ..good }, "loss"),
            (Plan { delay_ms: -1.0, ..good }, "delay_ms"),
            (Plan { delay_ms: 5.0, ..good }, "transport: udp"),
            (Plan { prefix_match: true, producer: ProducerKind::Files, ..good }, "prefix_match"),
            (Plan { interests: InterestPattern::Repeated, ..good }, "flows"),
            (Plan { peers: Peers::All, transport: PageTransport::Memif, ..good }, "peers"),
            (Plan { peers: Peers::Transfer, ..good }, "file server"),
            (Plan { consumer: ConsumerKind::Get, ..good }, "producer: files"),
            (Plan { file_count: 2, ..good }, "producer: files"),
            (
                Plan { flows: 64, file_count: 17, producer: ProducerKind::Files, ..good },
                "file_count: 17 is not from 1 to 16",
            ),
            (
                Plan {
                    peers: Peers::Transfer,
                    producer: ProducerKind::Files,
                    traffic: Traffic::Both,
                    ..good
                },
                "file server",
            ),
        ] {
            let reason = plan.check().unwrap_err();
            assert!(reason.contains(name), "{reason}");
        }
        let memif = PageTransport::Memif;
        let files = ProducerKind::Files;
        let transfer = Plan { peers: Peers::Transfer, producer: files, transport: memif, ..good };
        assert_eq!(transfer.check(), Ok(()));
        assert!(serde_json::from_str::<Plan>("{\"worker\": 1}").is_err());
        assert_eq!(
            serde_json::from_str::<Plan>("{\"trials\": 2}").unwrap(),
            Plan { trials: 2, ..good }
        );
    }

    #[test]
    fn link_without_a_rate_never_overflows() {
        let plan = Plan { transport: PageTransport::Udp, delay_ms: 2.5, ..Plan::default() };
        let link = plan.link(1);
        assert_eq!((link.rate, link.queue_bytes), (u64::MAX, u64::MAX));
        assert_eq!(link.delay, Duration::from_micros(2500));
        assert_eq!(Plan { rate_mbit: 1000, ..plan }.link(1).queue_bytes, 12_500_000);
    }
}
