//! A whole Namewire forwarder as a [`Node`].

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use namewire_config::{Config, TrustRules};
use namewire_daemon::{CallError, Environment, Management, Seeds, SteppedForwarder};
use ndn_dataplane::{MemoryFaceOptions, WorkerView};
use ndn_face::InternalEnd;
use ndn_forwarding::{DropReason, InterestAccount};
use ndn_management::client::CommandBuilder;
use ndn_management::{ControlParameters, ControlResponse, Verb, face_flag};
use ndn_packet::{Data, LpPacket, Name};
use ndn_sys::clock::ManualClock;
use ndn_types::{LinkType, Persistency, Scope, Timestamp, duration_ns};

use crate::node::{Node, NodeSpec, Port, PortKind, PortSpec, Pressure};
use crate::scenario::MTU_MAX;

/// Monotonic time at the begin of a scenario: not zero, as on any host.
pub(crate) const CLOCK_ORIGIN: Duration = Duration::from_secs(1000);
/// Unix time when the monotonic clock shows zero: 2026-01-01.
pub(crate) const UNIX_ORIGIN: Duration = Duration::from_secs(1_767_225_600);
/// Frames that a face queues each way: more than a PIT has entries.
const FACE_QUEUE: usize = 2048;
/// The same of the consumer's face, the first: a burst, which is more than a ring between workers has room for.
const CONSUMER_QUEUE: usize = 16_384;
/// Bytes of the Content Store of a worker: room for its part of 256 packets of any scenario.
const CS_BYTES: u64 = 1 << 18;
/// Steps until a signed command is answered at most.
const COMMAND_STEPS_MAX: usize = 10_000;
/// A planted fault strikes once in this number of occasions.
const FAULT_INTERVAL: u64 = 5;

/// A fault that is planted in a forwarder, to verify that simulations find it. Faults strike between two steps of
/// the forwarder, by calls that only [`SteppedForwarder`] has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedFault {
    /// Messages between workers disappear.
    LostRingMessage,
    /// PIT entries whose lifetime is over are never removed.
    PitEntryKept,
    /// After a restart, prefixes have wrong next hops in the FIB of the workers.
    WrongNextHopAfterRestart,
    /// The Content Store takes stale Data for fresh.
    StaleDataKeptFresh,
    /// Strategies do nothing about some Interests.
    InterestForgotten,
    /// Packet buffers are never given back.
    BlockLeaked,
    /// Packets are sent in frames longer than the MTU.
    MtuIgnored,
    /// Nodes with even numbers do not acknowledge frames of faces with reliability.
    FramesUnacknowledged,
    /// Prefix announcements in answers are refused.
    AnnouncementRefused,
    /// Faces of neighbours have the scope of applications.
    NeighbourLocal,
}

impl PlantedFault {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::LostRingMessage,
        Self::PitEntryKept,
        Self::WrongNextHopAfterRestart,
        Self::StaleDataKeptFresh,
        Self::InterestForgotten,
        Self::BlockLeaked,
        Self::MtuIgnored,
        Self::FramesUnacknowledged,
        Self::AnnouncementRefused,
        Self::NeighbourLocal,
    ];
}

impl fmt::Display for PlantedFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::LostRingMessage => "lost-ring-message",
            Self::PitEntryKept => "pit-entry-kept",
            Self::WrongNextHopAfterRestart => "wrong-next-hop-after-restart",
            Self::StaleDataKeptFresh => "stale-data-kept-fresh",
            Self::InterestForgotten => "interest-forgotten",
            Self::BlockLeaked => "block-leaked",
            Self::MtuIgnored => "mtu-ignored",
            Self::FramesUnacknowledged => "frames-unacknowledged",
            Self::AnnouncementRefused => "announcement-refused",
            Self::NeighbourLocal => "neighbour-local",
        })
    }
}

impl FromStr for PlantedFault {
    type Err = String;

    /// Reads a name as written by `Display`.
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|fault| fault.to_string() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(|fault| fault.to_string());
            format!("`{text}` is none of {}", names.join(", "))
        })
    }
}

/// Starts a forwarder without sockets.
///
/// # Panics
/// If the forwarder does not start: its settings do not depend on the machine.
#[must_use]
pub fn start_forwarder(spec: &NodeSpec, now: Duration) -> Box<dyn Node> {
    start_faulty_forwarder(None)(spec, now)
}

/// Starts forwarders with a planted fault, if any.
///
/// # Panics
/// The returned function panics as [`start_forwarder`] does.
pub fn start_faulty_forwarder(
    fault: Option<PlantedFault>,
) -> impl Fn(&NodeSpec, Duration) -> Box<dyn Node> {
    move |spec, now| match ForwarderNode::new(spec, now, fault) {
        Ok(node) => Box::new(node),
        Err(error) => panic!("a forwarder of the simulation does not start: {error:#}"),
    }
}

/// The other end of a face.
#[derive(Debug)]
struct Face {
    face_id: u64,
    end: InternalEnd,
}

/// A stepped forwarder, its clock, and the other ends of its faces.
#[derive(Debug)]
struct ForwarderNode {
    forwarder: SteppedForwarder,
    clock: ManualClock,
    number: usize,
    ports: Vec<PortSpec>,
    /// By port; `None` while it is closed.
    faces: Vec<Option<Face>>,
    cs_capacity: usize,
    pit_capacity: usize,
    fault: Option<PlantedFault>,
    is_restart: bool,
    /// Occasions for the planted fault so far.
    occasions: u64,
    /// The face of an operator that sends signed commands, if routes are changed by these.
    operator: Option<InternalEnd>,
    /// Signed commands so far.
    commands: u64,
    /// Unix time in milliseconds of the last one.
    last_command_ms: u64,
    /// The first failure of a call that returns nothing.
    error: Option<String>,
}

impl ForwarderNode {
    fn new(spec: &NodeSpec, now: Duration, fault: Option<PlantedFault>) -> anyhow::Result<Self> {
        let clock = ManualClock::new(Timestamp::ZERO + CLOCK_ORIGIN + now, UNIX_ORIGIN);
        // A restarted forwarder has other seeds, as on any host.
        let seeds = Seeds::from_number(spec.seed ^ duration_ns(now));
        let environment = Environment { clock: clock.clone().into(), seeds };
        let mut config = config(spec);
        config.management.prefix_announcements = match fault {
            Some(PlantedFault::AnnouncementRefused) => TrustRules::Nobody,
            _ => TrustRules::Any,
        };
        let mut forwarder = SteppedForwarder::new(&config, &environment)?;
        forwarder.shuffle_steps(spec.seed ^ duration_ns(now));
        let mut node = Self {
            forwarder,
            clock,
            number: spec.number,
            ports: spec.ports.clone(),
            faces: spec.ports.iter().map(|_| None).collect(),
            // Each worker has an equal part of a capacity, rounded up.
            cs_capacity: spec.cs_capacity.next_multiple_of(spec.workers),
            pit_capacity: spec.pit_capacity.next_multiple_of(spec.workers),
            fault,
            is_restart: !now.is_zero(),
            occasions: 0,
            operator: None,
            commands: 0,
            last_command_ms: 0,
            error: None,
        };
        for port in 0..spec.ports.len() {
            node.add_face(port)?;
        }
        if spec.has_signed_commands {
            let options = memory_face(spec.ports.len(), &PortSpec::whole(PortKind::Local))?;
            node.operator = Some(node.forwarder.add_memory_face(&options)?.1);
        }
        Ok(node)
    }

    fn add_face(&mut self, port: Port) -> anyhow::Result<()> {
        let mut options = memory_face(port, &self.ports[port])?;
        if self.fault == Some(PlantedFault::MtuIgnored) {
            options.mtu = MTU_MAX;
        }
        if self.fault == Some(PlantedFault::NeighbourLocal) {
            options.scope = Scope::Local;
        }
        let (face_id, end) = self.forwarder.add_memory_face(&options)?;
        self.faces[port] = Some(Face { face_id, end });
        let is_silent =
            self.fault == Some(PlantedFault::FramesUnacknowledged) && self.number.is_multiple_of(2);
        if self.ports[port].is_reliable && !is_silent {
            let mut parameters =
                ControlParameters { face_id: Some(face_id), ..ControlParameters::default() };
            parameters.set_flag(face_flag::LP_RELIABILITY, true);
            self.forwarder.command(Verb::FaceUpdate, &parameters)?;
        }
        Ok(())
    }

    /// Executes a command of an operator: by a local call, or by a signed Interest that goes through a face, a worker and
    /// the face of management, and so does its answer.
    fn command(&mut self, verb: Verb, parameters: &ControlParameters) {
        let result = match self.operator.take() {
            None => self.forwarder.command(verb, parameters).map(drop).map_err(|e| e.to_string()),
            Some(mut end) => {
                let result = self.signed_command(&mut end, verb, parameters);
                self.operator = Some(end);
                result
            }
        };
        if let Err(error) = result {
            self.error.get_or_insert_with(|| format!("{verb:?}: {error}"));
        }
    }

    fn signed_command(
        &mut self,
        end: &mut InternalEnd,
        verb: Verb,
        parameters: &ControlParameters,
    ) -> Result<(), String> {
        self.commands += 1;
        // Replay protection requires that the time increases, and is later than the start.
        self.last_command_ms = self.forwarder.unix_ms().max(self.last_command_ms) + 1;
        let builder = CommandBuilder::default();
        let interest =
            builder.digest_signed_interest(verb, parameters, self.commands, self.last_command_ms);
        let interest = interest.map_err(|error| error.to_string())?;
        end.send(interest).map_err(|_| "the queue of the operator is full".to_owned())?;
        for _ in 0..COMMAND_STEPS_MAX {
            if let Some(frame) = end.receive() {
                let lp = LpPacket::parse(&frame).map_err(|error| error.to_string())?;
                let data = Data::parse(lp.fragment().unwrap_or_default());
                let data = data.map_err(|error| error.to_string())?;
                let response = ControlResponse::decode(data.content().unwrap_or_default());
                let response = response.map_err(|error| error.to_string())?;
                return if response.is_ok() { Ok(()) } else { Err(response.text) };
            }
            if !self.forwarder.step().map_err(|error| format!("{error:#}"))? {
                break;
            }
        }
        Err("a signed command has no answer before time passes".to_owned())
    }

    fn face_id(&self, port: Port) -> Option<u64> {
        self.faces[port].as_ref().map(|face| face.face_id)
    }

    /// Lets the planted fault strike between two steps.
    fn strike(&mut self) {
        self.occasions += 1;
        if !self.occasions.is_multiple_of(FAULT_INTERVAL) {
            return;
        }
        for worker in self.forwarder.workers_mut() {
            let _ = match self.fault {
                Some(PlantedFault::LostRingMessage) => worker.lose_message(),
                Some(PlantedFault::PitEntryKept) => worker.lose_expiry(),
                Some(PlantedFault::StaleDataKeptFresh) => worker.keep_fresh(),
                Some(PlantedFault::InterestForgotten) => worker.forget_interests(),
                Some(PlantedFault::BlockLeaked) => worker.leak_block(),
                Some(
                    PlantedFault::WrongNextHopAfterRestart
                    | PlantedFault::MtuIgnored
                    | PlantedFault::FramesUnacknowledged
                    | PlantedFault::AnnouncementRefused
                    | PlantedFault::NeighbourLocal,
                )
                | None => false,
            };
        }
    }

    fn advance(&mut self, now: Duration) {
        self.clock.advance_to(Timestamp::ZERO + CLOCK_ORIGIN + now);
    }

    fn note<T>(&mut self, what: &str, result: Result<T, CallError>) {
        if let Err(error) = result {
            self.error.get_or_insert_with(|| format!("{what}: {error}"));
        }
    }
}

impl Node for ForwarderNode {
    fn deliver(&mut self, port: Port, frame: &[u8]) -> bool {
        self.faces[port].as_mut().is_some_and(|face| face.end.send(frame.to_vec()).is_ok())
    }

    fn step(&mut self, now: Duration) -> bool {
        self.advance(now);
        if self.fault.is_some() {
            self.strike();
        }
        match self.forwarder.step() {
            Ok(has_worked) => has_worked,
            Err(error) => {
                self.error.get_or_insert_with(|| format!("{error:#}"));
                false
            }
        }
    }

    fn stall(&mut self, is_stalled: bool) {
        // The second one has the face of the consumer.
        let has_others = self.forwarder.workers().len() > 1;
        self.forwarder.stall((is_stalled && has_others).then_some(0));
    }

    fn poll_output(&mut self) -> Option<(Port, Vec<u8>)> {
        let mut faces = self.faces.iter_mut().enumerate();
        faces.find_map(|(port, face)| face.as_mut()?.end.receive().map(|frame| (port, frame)))
    }

    fn next_deadline(&self) -> Option<Duration> {
        let (at, _) = self.forwarder.next_deadline()?;
        Some(at.since(Timestamp::ZERO + CLOCK_ORIGIN))
    }

    fn add_route(&mut self, now: Duration, prefix: &Name, port: Port, cost: u64) {
        self.advance(now);
        let Some(face_id) = self.face_id(port) else { return };
        let parameters = ControlParameters {
            name: Some(prefix.clone()),
            face_id: Some(face_id),
            cost: Some(cost),
            // Not inherited: next hops of a shorter prefix lead to another producer.
            flags: Some(0),
            ..ControlParameters::default()
        };
        self.command(Verb::RibRegister, &parameters);
        if self.fault == Some(PlantedFault::WrongNextHopAfterRestart) && self.is_restart {
            let other = self.face_id((port + 1) % self.faces.len());
            other.into_iter().for_each(|face_id| self.forwarder.corrupt_next_hop(prefix, face_id));
        }
    }

    fn remove_route(&mut self, now: Duration, prefix: &Name, port: Port) {
        self.advance(now);
        let Some(face_id) = self.face_id(port) else { return };
        let parameters = ControlParameters {
            name: Some(prefix.clone()),
            face_id: Some(face_id),
            ..ControlParameters::default()
        };
        self.command(Verb::RibUnregister, &parameters);
    }

    fn set_strategy(&mut self, now: Duration, prefix: &Name, strategy: Option<&str>) {
        self.advance(now);
        let Some(strategy) = strategy else {
            let parameters =
                ControlParameters { name: Some(prefix.clone()), ..ControlParameters::default() };
            return self.command(Verb::StrategyUnset, &parameters);
        };
        let mut name = Name::new();
        for component in ["localhost", "nfd", "strategy", strategy] {
            name.push_generic(component);
        }
        let result = self.forwarder.set_strategy(prefix, &name);
        self.note("strategy-choice/set", result);
    }

    fn close_face(&mut self, now: Duration, port: Port) {
        self.advance(now);
        if let Some(face_id) = self.face_id(port) {
            let result = self.forwarder.destroy_face(face_id);
            self.note("faces/destroy", result);
            self.faces[port] = None;
        }
    }

    fn open_face(&mut self, now: Duration, port: Port) {
        self.advance(now);
        if self.faces[port].is_none()
            && let Err(error) = self.add_face(port)
        {
            self.error.get_or_insert_with(|| format!("a face cannot be added: {error:#}"));
        }
    }

    fn next_hops(&self, prefix: &Name) -> Vec<Vec<Port>> {
        let routes = self.forwarder.state().fib().find(prefix.as_ref()).unwrap_or_default();
        let of_routes = routes.iter().map(|next_hop| next_hop.face_id).collect();
        let mut tables = self.forwarder.next_hops(prefix);
        tables.insert(0, of_routes);
        let port_of =
            |face_id| (0..self.faces.len()).find(|&port| self.face_id(port) == Some(face_id));
        let ports_of = |face_ids: Vec<u64>| {
            let mut ports: Vec<_> = face_ids.into_iter().filter_map(port_of).collect();
            ports.sort_unstable();
            ports
        };
        tables.into_iter().map(ports_of).collect()
    }

    fn pressure(&self) -> Pressure {
        let exchanges = self.forwarder.workers().iter().filter_map(WorkerView::exchange_counters);
        let depths = exchanges.map(|counters| counters.queued_interests.most.value());
        let counters = self.forwarder.counters();
        let reasons = [DropReason::PitFull, DropReason::PitShare];
        Pressure {
            pit_full: reasons.iter().map(|&reason| counters.dropped(reason)).sum(),
            ring_depth_max: depths.max().unwrap_or(0),
        }
    }

    fn check(&self) -> Result<(), String> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let counters = self.forwarder.counters();
        let (cs, pit) = (counters.cs_entries.value(), counters.pit_entries.value());
        if cs > as_u64(self.cs_capacity) {
            return Err(format!("{cs} packets in a Content Store of {}", self.cs_capacity));
        }
        if pit > as_u64(self.pit_capacity) {
            return Err(format!("{pit} entries in a PIT of {}", self.pit_capacity));
        }
        Ok(())
    }

    fn check_idle(&mut self, interests_in: RangeInclusive<u64>) -> Result<(), String> {
        let counters = self.forwarder.counters();
        // The counters of all workers together: what one passed on to another entered once.
        let account = InterestAccount::of(&counters);
        let outcomes = account.accounted_for() - account.passed_on;
        let entered = account.entered - self.commands;
        if !interests_in.contains(&entered) || outcomes != account.entered {
            return Err(format!(
                "{interests_in:?} Interests arrived, {entered} entered, {outcomes} have an outcome: {account:?}"
            ));
        }
        let pit = counters.pit_entries.value();
        if account.pending > 0 || pit > 0 {
            return Err(format!("{pit} PIT entries and {} in-records are left", account.pending));
        }
        let faces =
            self.forwarder.state().faces().filter(|face| face.properties.face_id > 255).count();
        let open = self.faces.iter().flatten().count() + usize::from(self.operator.is_some());
        if faces != open {
            return Err(format!("{faces} faces instead of {open}"));
        }
        let exchanges = self.forwarder.workers().iter().filter_map(WorkerView::exchange_counters);
        let (sent, taken) = exchanges.fold((0, 0), |(sent, taken), counters| {
            (sent + counters.crossings_sent.value(), taken + counters.crossings_taken.value())
        });
        if sent != taken {
            return Err(format!("workers sent {sent} messages to others, which took {taken}"));
        }
        match self.forwarder.release_blocks() {
            0 => Ok(()),
            blocks => Err(format!("workers hold {blocks} packet buffers without packets")),
        }
    }
}

fn memory_face(number: usize, spec: &PortSpec) -> anyhow::Result<MemoryFaceOptions> {
    Ok(MemoryFaceOptions {
        number: u64::try_from(number)?,
        scope: if spec.is_local() { Scope::Local } else { Scope::NonLocal },
        link_type: match spec.kind {
            PortKind::Local | PortKind::Neighbour => LinkType::PointToPoint,
            PortKind::Shared => LinkType::MultiAccess,
        },
        principal: None,
        persistency: Persistency::Permanent,
        mtu: spec.mtu,
        queue_frames_max: if number == 0 { CONSUMER_QUEUE } else { FACE_QUEUE },
    })
}

/// A configuration that opens nothing.
pub(crate) fn config(spec: &NodeSpec) -> Config {
    let mut config = Config::default();
    config.control.enabled = false;
    config.forwarder.workers = namewire_config::WorkerCount::Fixed(spec.workers);
    config.tables.pit_capacity = spec.pit_capacity;
    config.tables.fib_capacity = 256;
    config.tables.cs.capacity_packets = spec.cs_capacity;
    // Its index is made for as many packets as fit: most of the time to start a forwarder.
    config.tables.cs.capacity_bytes =
        Some(namewire_config::ByteSize(CS_BYTES * as_u64(spec.workers)));
    config.pool.pages = namewire_config::Pages::Ordinary;
    config.pool.capacity = namewire_config::ByteSize((4 << 20) * as_u64(spec.workers));
    let listeners = &mut config.listeners;
    listeners.unix.enabled = false;
    listeners.udp.enabled = false;
    listeners.tcp.enabled = false;
    listeners.websocket.enabled = false;
    listeners.multicast.enabled = false;
    config
}

fn as_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
