//! A node: a whole forwarder on virtual time, and the other ends of its faces.

use std::time::Duration;

use namewire_config::{ByteSize, Config, Pages, TrustRules, VipLink, WorkerCount};
use namewire_daemon::{Environment, Management, Seeds, SteppedForwarder};
use ndn_cache_sim::topology::Hop;
use ndn_caching::PolicyKind;
use ndn_dataplane::MemoryFaceOptions;
use ndn_face::InternalEnd;
use ndn_management::{ControlParameters, Verb, face_flag};
use ndn_packet::{MAX_PACKET_SIZE, Name};
use ndn_sys::clock::ManualClock;
use ndn_types::{FaceUri, LinkType, Persistency, Scope};

use crate::network::{Network, VipSettings};
use crate::simulation::server::Handled;

/// Frames that wait at a face in each direction at most: of neighbours, which send one after the other, and of applications,
/// which send a whole window.
const QUEUE_FRAMES: (usize, usize) = (1024, 16_384);
/// Interests that wait in a node at most.
const PIT_ENTRIES: usize = 16_384;
/// Faces beside those of neighbours: applications and management.
const FACES_SPARE: usize = 16;
/// Capacity of the FIB at least, without and with a routing daemon, which has some prefixes for each node.
const FIB_ENTRIES_MIN: (usize, usize) = (256, 4096);
/// Memory for packets on their way.
const POOL_BYTES: u64 = 4 << 20;
/// Memory of the Content Store for a Data beside its content: name, signature and entry.
const DATA_OVERHEAD: u64 = 400;
/// The smallest Content Store that a configuration can have.
const CS_BYTES_MIN: u64 = 1 << 18;
/// Numbers of objects that VIP can have, and the lowest rate of its links and caches in bytes per second.
const VIP_OBJECTS: (usize, usize) = (16, 65_536);
const VIP_RATE_MIN: u64 = 1024;

/// Settings of a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeSettings<'a> {
    /// Capacity of the Content Store in packets; 0 disables it.
    pub(crate) cs_packets: usize,
    /// Longest content of a Data in bytes.
    pub(crate) segment_bytes: u64,
    /// Strategy for all names: its name below `/localhost/nfd/strategy`.
    pub(crate) strategy: &'a str,
    /// Replacement policy of the Content Store.
    pub(crate) cs_policy: PolicyKind,
    /// Settings of VIP, if it takes part.
    pub(crate) vip: Option<VipSettings>,
    /// Number of prefixes with routes.
    pub(crate) prefixes: usize,
    /// Links to neighbours.
    pub(crate) links: &'a [Hop],
    /// Whether the node has consumers.
    pub(crate) has_consumers: bool,
    /// Whether the node is a source of objects.
    pub(crate) is_source: bool,
    /// Whether a routing daemon learns the prefixes of applications.
    pub(crate) has_routing_daemon: bool,
}

impl<'a> NodeSettings<'a> {
    /// The settings of a node of `network` without a routing daemon.
    pub(crate) fn of(network: &Network<'a>, node: usize) -> Self {
        let topology = network.topology;
        Self {
            cs_packets: network.cs_packets_of(node) as usize,
            segment_bytes: network.segment_bytes,
            strategy: network.strategy,
            cs_policy: network.cs_policy_of(node),
            vip: network.vip(),
            prefixes: network.prefix_count(node),
            links: &topology.hops[node],
            has_consumers: topology.consumers.contains(&node),
            is_source: topology.producers.contains(&node),
            has_routing_daemon: false,
        }
    }
}

/// Bytes of memory of a Content Store.
pub(crate) fn cs_bytes(packets: u64, segment_bytes: u64) -> u64 {
    packets.saturating_mul(segment_bytes + DATA_OVERHEAD).max(CS_BYTES_MIN)
}

/// A forwarder with a face for each neighbour, one for consumers and one for producers if it has any.
#[derive(Debug)]
pub(crate) struct Node {
    forwarder: SteppedForwarder,
    /// Identifiers and ends of the faces, those of neighbours first.
    faces: Vec<(u64, InternalEnd)>,
    consumers: Option<usize>,
    producers: Option<usize>,
}

impl Node {
    /// Starts a forwarder.
    ///
    /// # Errors
    /// The reason why it does not start.
    pub(crate) fn start(
        settings: NodeSettings<'_>,
        clock: &ManualClock,
        seed: u64,
    ) -> Result<Self, String> {
        let environment =
            Environment { clock: clock.clone().into(), seeds: Seeds::from_number(seed) };
        let failed = |error: &dyn std::fmt::Display| format!("a forwarder does not start: {error}");
        let forwarder = SteppedForwarder::new(&configuration(settings), &environment);
        let NodeSettings { links, has_consumers, is_source, .. } = settings;
        let neighbours = links.len();
        let mut node = Self {
            forwarder: forwarder.map_err(|error| failed(&format!("{error:#}")))?,
            faces: Vec::new(),
            consumers: has_consumers.then_some(neighbours),
            producers: is_source.then_some(neighbours + usize::from(has_consumers)),
        };
        for number in 0..neighbours + usize::from(has_consumers) + usize::from(is_source) {
            let is_neighbour = number < neighbours;
            let options = MemoryFaceOptions {
                number: number as u64,
                scope: if is_neighbour { Scope::NonLocal } else { Scope::Local },
                link_type: LinkType::PointToPoint,
                principal: None,
                persistency: Persistency::Permanent,
                mtu: MAX_PACKET_SIZE,
                queue_frames_max: if is_neighbour { QUEUE_FRAMES.0 } else { QUEUE_FRAMES.1 },
            };
            let face = node.forwarder.add_memory_face(&options);
            node.faces.push(face.map_err(|error| failed(&error))?);
        }
        if let Some(producers) = node.producers {
            // The node of a source does not cache its own objects: producers say so in a local field.
            let face_id = Some(node.faces[producers].0);
            let mut parameters = ControlParameters { face_id, ..ControlParameters::default() };
            parameters.set_flag(face_flag::LOCAL_FIELDS, true);
            let updated = node.forwarder.command(Verb::FaceUpdate, &parameters);
            updated.map_err(|error| failed(&error))?;
        }
        let mut strategy = Name::new();
        for component in ["localhost", "nfd", "strategy", settings.strategy] {
            strategy.push_generic(component);
        }
        let chosen = node.forwarder.set_strategy(&Name::new(), &strategy);
        chosen.map_err(|error| format!("strategy '{}': {error}", settings.strategy))?;
        Ok(node)
    }

    /// The face of the consumers of this node.
    pub(crate) fn consumers(&self) -> Option<usize> {
        self.consumers
    }

    /// The face of the producers of this node.
    pub(crate) fn producers(&self) -> Option<usize> {
        self.producers
    }

    /// Adds a route.
    ///
    /// # Errors
    /// Management refuses it.
    pub(crate) fn add_route(
        &mut self,
        prefix: &Name,
        face: usize,
        cost: u64,
    ) -> Result<(), String> {
        let parameters = ControlParameters {
            name: Some(prefix.clone()),
            face_id: Some(self.faces[face].0),
            cost: Some(cost),
            flags: Some(0),
            ..ControlParameters::default()
        };
        let added = self.forwarder.command(Verb::RibRegister, &parameters);
        added.map(drop).map_err(|error| format!("a route is rejected: {error}"))
    }

    /// Hands over a frame; false if the queue of the face is full.
    pub(crate) fn deliver(&mut self, face: usize, frame: Vec<u8>) -> bool {
        let (_, end) = &mut self.faces[face];
        // The buffer of the last frame: the forwarder would keep hundreds for frames to come.
        drop(end.buffer());
        end.send(frame).is_ok()
    }

    /// Handles what is due. Returns whether there was anything.
    ///
    /// # Errors
    /// The forwarder has a fault.
    pub(crate) fn step(&mut self) -> Result<bool, String> {
        self.forwarder.step().map_err(|error| format!("a forwarder has ended: {error:#}"))
    }

    /// The next frame that the node sends, with its face.
    pub(crate) fn poll_output(&mut self) -> Option<(usize, Vec<u8>)> {
        let mut faces = self.faces.iter_mut().enumerate();
        faces.find_map(|(number, (_, end))| Some((number, end.receive()?)))
    }

    /// Time of the next step if no frame arrives.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        let (at, _) = self.forwarder.next_deadline()?;
        Some(Duration::from_nanos(at.as_nanos()))
    }

    /// Interests that its Content Store has answered.
    pub(crate) fn cs_hits(&self) -> u64 {
        self.forwarder.counters().cs_hits.value()
    }

    /// Packets that it has handled.
    pub(super) fn handled(&self) -> Handled {
        let counters = self.forwarder.counters();
        let hits = counters.cs_hits.value();
        let interests = counters.in_interests.value() + counters.in_nacks.value();
        Handled { interests: interests.saturating_sub(hits), data: counters.in_data.value(), hits }
    }
}

/// A forwarder of one worker that opens nothing.
fn configuration(settings: NodeSettings<'_>) -> Config {
    let mut config = tables(settings, 1, |number| Some(FaceUri::memory(number as u64)));
    config.control.enabled = false;
    config.pool.pages = Pages::Ordinary;
    config.pool.capacity = ByteSize(POOL_BYTES);
    let listeners = &mut config.listeners;
    listeners.unix.enabled = false;
    listeners.udp.enabled = false;
    listeners.tcp.enabled = false;
    listeners.websocket.enabled = false;
    listeners.multicast.enabled = false;
    config
}

/// Workers, tables and limits of a node. `remote` is the remote URI of the face of a link, if it is known.
pub(crate) fn tables(
    settings: NodeSettings<'_>,
    workers: usize,
    remote: impl Fn(usize) -> Option<FaceUri>,
) -> Config {
    let mut config = Config::default();
    config.forwarder.workers = WorkerCount::Fixed(workers);
    config.management.readvertise_nlsr = settings.has_routing_daemon;
    config.tables.pit_capacity = PIT_ENTRIES;
    let (without, with) = FIB_ENTRIES_MIN;
    let entries = if settings.has_routing_daemon { with } else { without };
    config.tables.fib_capacity = settings.prefixes + entries;
    let routes = &mut config.limits.routes_per_principal;
    *routes = settings.prefixes.max(*routes);
    config.tables.cs.capacity_packets = settings.cs_packets;
    let cs_content = (settings.cs_packets as u64).saturating_mul(settings.segment_bytes);
    let bytes = cs_bytes(settings.cs_packets as u64, settings.segment_bytes);
    config.tables.cs.capacity_bytes = Some(ByteSize(bytes));
    config.tables.cs.policy = settings.cs_policy;
    if let Some(VipSettings { score, objects, link_mbit_per_s, read_mbit_per_s, penalties }) =
        settings.vip
    {
        let vip = &mut config.caching.vip;
        [vip.read_penalty, vip.write_penalty] = penalties;
        let rate = |mbit_per_s: f64| ByteSize(((mbit_per_s * 125_000.0) as u64).max(VIP_RATE_MIN));
        vip.enabled = true;
        vip.signers = TrustRules::Any;
        vip.objects = objects.clamp(VIP_OBJECTS.0, VIP_OBJECTS.1);
        vip.link_rate = rate(link_mbit_per_s);
        let link = |(number, hop): (usize, &Hop)| {
            let rate = rate(hop.properties.mbit_per_s?);
            Some(VipLink { uri: remote(number)?, rate })
        };
        vip.links = settings.links.iter().enumerate().filter_map(link).collect();
        vip.read_rate = rate(read_mbit_per_s);
        vip.cache_size = Some(ByteSize(cs_content.max(1)));
        vip.score = score;
    }
    // A third of the faces are reserved for other classes of principals.
    config.limits.faces = 2 * settings.links.len() + FACES_SPARE;
    config
}
