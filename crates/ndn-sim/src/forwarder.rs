//! A whole Namewire forwarder as a [`Node`].

use std::time::Duration;

use namewire_config::Config;
use namewire_daemon::{CallError, Environment, Management, Seeds, SteppedForwarder};
use ndn_dataplane::MemoryFaceOptions;
use ndn_face::InternalEnd;
use ndn_forwarding::InterestAccount;
use ndn_management::{ControlParameters, Verb};
use ndn_packet::Name;
use ndn_sys::clock::ManualClock;
use ndn_types::{Persistency, Scope};

use crate::node::{Node, NodeSpec, Port};

/// What a monotonic clock shows at the begin of a scenario: not zero, as on any host.
const CLOCK_ORIGIN: Duration = Duration::from_secs(1000);
/// Unix time when the monotonic clock shows zero: 2026-01-01.
const UNIX_ORIGIN: Duration = Duration::from_secs(1_767_225_600);
/// Capacity of the PIT.
const PIT_CAPACITY: usize = 1024;
/// MTU of faces: larger than any packet of a scenario.
const MTU: usize = 8800;
/// Frames that a face queues each way: more than a scenario sends at one instant.
const FACE_QUEUE: usize = 1024;

/// Starts a forwarder without sockets.
///
/// # Panics
/// If the forwarder does not start: its settings do not depend on the machine.
#[must_use]
pub fn start_forwarder(spec: &NodeSpec, now: Duration) -> Box<dyn Node> {
    match ForwarderNode::new(spec, now) {
        Ok(node) => Box::new(node),
        Err(error) => panic!("a forwarder of the simulation does not start: {error:#}"),
    }
}

/// A stepped forwarder, its clock, and the other ends of its faces.
#[derive(Debug)]
struct ForwarderNode {
    forwarder: SteppedForwarder,
    clock: ManualClock,
    ends: Vec<InternalEnd>,
    face_ids: Vec<u64>,
    cs_capacity: usize,
    /// What went wrong in a call that returns nothing.
    error: Option<String>,
}

impl ForwarderNode {
    fn new(spec: &NodeSpec, now: Duration) -> anyhow::Result<Self> {
        let clock = ManualClock::new(nanos(CLOCK_ORIGIN + now), UNIX_ORIGIN);
        // A restarted forwarder has other seeds, as on any host.
        let seeds = Seeds::from_number(spec.seed ^ nanos(now));
        let environment = Environment { clock: clock.clone().into(), seeds };
        let mut forwarder = SteppedForwarder::new(&config(spec), &environment)?;
        let (mut ends, mut face_ids) = (Vec::new(), Vec::new());
        for (port, &is_local) in spec.ports_local.iter().enumerate() {
            let options = MemoryFaceOptions {
                number: u64::try_from(port)?,
                scope: if is_local { Scope::Local } else { Scope::NonLocal },
                principal: None,
                persistency: Persistency::Permanent,
                mtu: MTU,
                queue_frames_max: FACE_QUEUE,
            };
            let (face_id, end) = forwarder.add_memory_face(&options)?;
            ends.push(end);
            face_ids.push(face_id);
        }
        // Each worker has an equal part of the capacity, rounded up.
        let cs_capacity = spec.cs_capacity.next_multiple_of(spec.workers);
        Ok(Self { forwarder, clock, ends, face_ids, cs_capacity, error: None })
    }

    fn advance(&mut self, now: Duration) {
        self.clock.advance_to(nanos(CLOCK_ORIGIN + now));
    }

    fn note<T>(&mut self, what: &str, result: Result<T, CallError>) {
        if let Err(error) = result {
            self.error.get_or_insert_with(|| format!("{what}: {error}"));
        }
    }
}

impl Node for ForwarderNode {
    fn deliver(&mut self, port: Port, frame: &[u8]) {
        if self.ends[port].send(frame.to_vec()).is_err() {
            self.error.get_or_insert_with(|| format!("the queue of port {port} is full"));
        }
    }

    fn step(&mut self, now: Duration) -> bool {
        self.advance(now);
        match self.forwarder.step() {
            Ok(has_worked) => has_worked,
            Err(error) => {
                self.error.get_or_insert_with(|| format!("{error:#}"));
                false
            }
        }
    }

    fn poll_output(&mut self) -> Option<(Port, Vec<u8>)> {
        let mut ends = self.ends.iter_mut().enumerate();
        ends.find_map(|(port, end)| end.receive().map(|frame| (port, frame)))
    }

    fn next_deadline(&self) -> Option<Duration> {
        let (at, _) = self.forwarder.next_deadline()?;
        Some(Duration::from_nanos(at.as_nanos()).saturating_sub(CLOCK_ORIGIN))
    }

    fn add_route(&mut self, now: Duration, prefix: &Name, port: Port, cost: u64) {
        self.advance(now);
        let parameters = ControlParameters {
            name: Some(prefix.clone()),
            face_id: Some(self.face_ids[port]),
            cost: Some(cost),
            // Not inherited: next hops of a shorter prefix lead to another producer.
            flags: Some(0),
            ..ControlParameters::default()
        };
        let result = self.forwarder.command(Verb::RibRegister, &parameters);
        self.note("rib/register", result);
    }

    fn set_strategy(&mut self, now: Duration, prefix: &Name, strategy: &str) {
        self.advance(now);
        let mut name = Name::new();
        for component in ["localhost", "nfd", "strategy", strategy] {
            name.push_generic(component);
        }
        let result = self.forwarder.set_strategy(prefix, &name);
        self.note("strategy-choice/set", result);
    }

    fn next_hops(&self, prefix: &Name) -> Vec<Port> {
        let next_hops = self.forwarder.state().fib().find(prefix.as_ref()).unwrap_or_default();
        let port_of = |face_id| self.face_ids.iter().position(|id| *id == face_id);
        let mut ports: Vec<_> =
            next_hops.iter().filter_map(|next_hop| port_of(next_hop.face_id)).collect();
        ports.sort_unstable();
        ports
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
        if pit > as_u64(PIT_CAPACITY) {
            return Err(format!("{pit} entries in a PIT of {PIT_CAPACITY}"));
        }
        Ok(())
    }

    fn check_idle(&self, interests_in: u64) -> Result<(), String> {
        let counters = self.forwarder.counters();
        // The counters of all workers together: what one passed on to another entered once.
        let account = InterestAccount::of(&counters);
        let outcomes = account.accounted_for() - account.passed_on;
        if account.entered != interests_in || outcomes != interests_in {
            return Err(format!(
                "{interests_in} Interests arrived, {} entered, {outcomes} have an outcome: {account:?}",
                account.entered
            ));
        }
        let pit = counters.pit_entries.value();
        if account.pending > 0 || pit > 0 {
            return Err(format!("{pit} PIT entries and {} in-records are left", account.pending));
        }
        let faces =
            self.forwarder.state().faces().filter(|face| face.properties.face_id > 255).count();
        if faces != self.ends.len() {
            return Err(format!("{faces} faces instead of {}", self.ends.len()));
        }
        Ok(())
    }
}

/// A configuration that opens nothing.
fn config(spec: &NodeSpec) -> Config {
    let mut config = Config::default();
    config.control.enabled = false;
    config.forwarder.workers = namewire_config::WorkerCount::Fixed(spec.workers);
    config.tables.pit_capacity = PIT_CAPACITY;
    config.tables.fib_capacity = 256;
    config.tables.cs.capacity_packets = spec.cs_capacity;
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

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn as_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
