//! Invariants on the frames of one node.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use ndn_packet::{Data, Interest, LpPacket, Name, Packet};

use crate::node::{Port, PortKind, PortSpec};
use crate::scenario::is_localhop;

/// Time after its lifetime in which an Interest may still be answered: timers have a granularity.
const EXPIRY_SLACK: Duration = Duration::from_millis(50);
/// Time for which a (name, nonce) pair is remembered: the lifetime of the dead nonce list (NFD: 6 s).
const NONCE_LIFETIME: Duration = Duration::from_secs(6);

/// An invariant that a frame of a node breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// The frame is no NDNLPv2 packet with an Interest or Data.
    Malformed,
    /// Data on a face without a pending Interest of that face that it satisfies.
    UnsolicitedData(Name),
    /// A Nack on a face without a pending Interest of that name and nonce.
    UnsolicitedNack(Name, u32),
    /// An Interest was forwarded more often by one face than it arrived by any.
    Loop(Name, u32),
    /// An Interest or Data under `/localhost` left the host, or an Interest under `/localhop` that came from a neighbour.
    Scope(Name),
    /// Data that was no longer fresh answered an Interest with MustBeFresh.
    Stale(Name),
    /// A frame is longer than the MTU of the port.
    TooLong(usize),
    /// A Nack on a face with several neighbours.
    SharedNack(Name),
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => write!(formatter, "sent a malformed frame"),
            Self::UnsolicitedData(name) => {
                write!(formatter, "sent Data {name} to a face with no such pending Interest")
            }
            Self::UnsolicitedNack(name, nonce) => {
                write!(
                    formatter,
                    "sent a Nack for {name} nonce {nonce:08x} to a face with no such Interest"
                )
            }
            Self::Loop(name, nonce) => {
                write!(formatter, "forwarded the looping Interest {name} nonce {nonce:08x}")
            }
            Self::Scope(name) => write!(formatter, "sent {name} beyond its scope"),
            Self::Stale(name) => {
                write!(formatter, "answered an Interest with MustBeFresh with stale Data {name}")
            }
            Self::TooLong(length) => {
                write!(formatter, "sent a frame of {length} bytes, which exceeds the MTU")
            }
            Self::SharedNack(name) => {
                write!(formatter, "sent a Nack for {name} to a face with several neighbours")
            }
        }
    }
}

/// The selectors that distinguish PIT entries of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Selectors {
    pub(crate) can_be_prefix: bool,
    pub(crate) must_be_fresh: bool,
}

impl Selectors {
    fn index(self) -> usize {
        usize::from(self.can_be_prefix) + 2 * usize::from(self.must_be_fresh)
    }
}

/// A Data packet, parsed as far as the invariants need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DataSeen {
    pub(crate) name: Name,
    digest_name: Name,
    freshness: Duration,
}

impl DataSeen {
    /// The names of Interests that it may satisfy, as values, those that the fewest packets satisfy first; with
    /// whether CanBePrefix is needed.
    fn interest_names(&self) -> impl Iterator<Item = (&[u8], bool)> {
        let exact = [self.digest_name.value(), self.name.value()].map(|value| (value, false));
        let lengths = (0..=self.name.len()).rev();
        exact.into_iter().chain(lengths.map(|len| (self.name.as_ref().prefix(len).value(), true)))
    }
}

/// A frame, parsed as far as the invariants need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    Interest {
        name: Name,
        selectors: Selectors,
        nonce: u32,
        lifetime: Duration,
    },
    Data(DataSeen),
    Nack {
        name: Name,
        nonce: u32,
    },
    /// A link packet without a network packet.
    Idle,
}

impl Seen {
    /// Parses a frame with a whole packet or none.
    pub(crate) fn parse(frame: &[u8]) -> Option<Self> {
        let lp = LpPacket::parse(frame).ok()?;
        match lp.fragment() {
            Some(packet) => Self::packet(&lp, packet),
            None => Some(Self::Idle),
        }
    }

    /// Parses a packet that came in frames; `lp` is the first.
    fn packet(lp: &LpPacket<'_>, packet: &[u8]) -> Option<Self> {
        match Packet::parse(packet).ok()? {
            Packet::Interest(interest) => Self::interest(&interest, lp.nack().is_some()),
            Packet::Data(data) => Some(Self::data(&data)),
        }
    }

    fn interest(interest: &Interest<'_>, is_nack: bool) -> Option<Self> {
        let (name, nonce) = (interest.name().to_name(), interest.nonce()?);
        if is_nack {
            return Some(Self::Nack { name, nonce });
        }
        let lifetime = Duration::from_millis(interest.lifetime_ms());
        let selectors = Selectors {
            can_be_prefix: interest.can_be_prefix(),
            must_be_fresh: interest.must_be_fresh(),
        };
        Some(Self::Interest { name, selectors, nonce, lifetime })
    }

    fn data(data: &Data<'_>) -> Self {
        let name = data.name().to_name();
        let mut digest_name = name.clone();
        digest_name.push_implicit_digest(&data.implicit_digest(ndn_security::sha256));
        let freshness = Duration::from_millis(data.freshness_ms().unwrap_or(0));
        Self::Data(DataSeen { name, digest_name, freshness })
    }
}

/// An Interest that a face brought and that has not been answered on it.
#[derive(Debug)]
struct Pending {
    selectors: Selectors,
    nonce: u32,
    arrived: Duration,
    expires: Duration,
}

/// Receptions and transmissions of one (name, nonce) pair, by port.
#[derive(Debug)]
struct Passage {
    nonce: u32,
    selectors: Selectors,
    received: HashMap<Port, u32>,
    sent: HashMap<Port, u32>,
    /// When it was first received or last sent: the nonce is remembered from then on.
    last: Duration,
}

/// The Interests of one name.
#[derive(Debug, Default)]
struct NamePassages {
    passages: Vec<Passage>,
    /// When the PIT entry of each combination of selectors ends at the latest.
    pending_until: [Duration; 4],
}

/// A Data packet that may be in the Content Store.
#[derive(Debug, Clone, Copy)]
struct Cached {
    arrived: Duration,
    fresh_until: Duration,
}

/// Puts the fragments that pass a port in one direction together. Forgets none: in case of doubt, a packet arrived.
#[derive(Debug, Default)]
struct Fragments {
    /// Sequences of frames that have passed.
    sequences: HashSet<u64>,
    /// Incomplete and complete messages, by the sequence of their first fragment.
    messages: HashMap<u64, BTreeMap<u64, Vec<u8>>>,
}

/// A frame, or the frames that it completes.
enum Passed {
    /// It has passed before.
    Again,
    /// Other fragments of its packet are missing.
    Part,
    /// A packet, or a frame without one; `None` if it is malformed.
    Whole(Option<Seen>),
}

impl Fragments {
    /// Takes in a frame. `Again` is returned only if `once` is set.
    fn pass(&mut self, frame: &[u8], once: bool) -> Passed {
        let Ok(lp) = LpPacket::parse(frame) else { return Passed::Whole(None) };
        let Some(sequence) = lp.sequence() else { return Passed::Whole(Seen::parse(frame)) };
        if !self.sequences.insert(sequence) && once {
            return Passed::Again;
        }
        if lp.frag_count() <= 1 {
            return Passed::Whole(Seen::parse(frame));
        }
        let message = sequence.wrapping_sub(lp.frag_index());
        let parts = self.messages.entry(message).or_default();
        // The next face of a peer counts from the beginning: its frames replace those of the same sequence.
        parts.insert(lp.frag_index(), frame.to_vec());
        if (parts.len() as u64) < lp.frag_count() {
            return Passed::Part;
        }
        let frames = parts.values().map(|frame| LpPacket::parse(frame).ok());
        let Some(frames) = frames.collect::<Option<Vec<_>>>() else { return Passed::Whole(None) };
        let packet: Vec<u8> =
            frames.iter().flat_map(|lp| lp.fragment().unwrap_or_default()).copied().collect();
        Passed::Whole(frames.first().and_then(|first| Seen::packet(first, &packet)))
    }
}

/// Acknowledgements that a port with reliability waits for, at most: the forwarder keeps this number.
const ACKS_MAX: usize = 8192;

/// The link layer of a port.
#[derive(Debug, Default)]
struct LinkLayer {
    sent: Fragments,
    received: Fragments,
    /// TxSequences of received frames that the node has not acknowledged; `None` once there were too many.
    unacknowledged: Option<HashSet<u64>>,
}

impl LinkLayer {
    fn new(spec: &PortSpec) -> Self {
        Self { unacknowledged: spec.is_reliable.then(HashSet::new), ..Self::default() }
    }
}

/// The frames of one node, from its start to its end.
#[derive(Debug)]
pub struct Monitor {
    ports: Vec<PortSpec>,
    links: Vec<LinkLayer>,
    /// By port and by the value of the name.
    pending: Vec<HashMap<Vec<u8>, Vec<Pending>>>,
    /// By the value of the name.
    passages: HashMap<Vec<u8>, NamePassages>,
    /// By the value of the name with the implicit digest.
    cached: HashMap<Vec<u8>, Cached>,
    /// Interests that have reached the node for certain, and those that may have.
    interests: [u64; 2],
}

impl Monitor {
    /// A monitor of a node that has just started.
    #[must_use]
    pub fn new(ports: &[PortSpec]) -> Self {
        Self {
            ports: ports.to_vec(),
            links: ports.iter().map(LinkLayer::new).collect(),
            pending: ports.iter().map(|_| HashMap::new()).collect(),
            passages: HashMap::new(),
            cached: HashMap::new(),
            interests: [0; 2],
        }
    }

    /// The fewest and the most Interests that may have reached the node. Fragments may be discarded when others are late,
    /// and copies of retransmitted frames are.
    #[must_use]
    pub const fn interests_in(&self) -> RangeInclusive<u64> {
        self.interests[0]..=self.interests[1]
    }

    /// Checks that the node has acknowledged the frames of ports with reliability.
    ///
    /// # Errors
    /// The port and the number of frames.
    pub fn check_acknowledged(&self) -> Result<(), String> {
        let counts =
            self.links.iter().map(|link| link.unacknowledged.as_ref().map_or(0, HashSet::len));
        match counts.enumerate().find(|(_, count)| *count > 0) {
            Some((port, count)) => {
                Err(format!("port {port}: {count} frames were not acknowledged"))
            }
            None => Ok(()),
        }
    }

    /// Notes that the face of a port was closed: its Interests are pending no more, and the next face of the port is
    /// another next hop, to which strategies may send a pending Interest.
    pub fn note_face_closed(&mut self, port: Port) {
        self.pending[port].clear();
        for passage in self.passages.values_mut().flat_map(|of_name| &mut of_name.passages) {
            passage.sent.remove(&port);
        }
        self.links[port] = LinkLayer::new(&self.ports[port]);
    }

    /// Notes a frame that is delivered to the node.
    pub fn note_delivered(&mut self, now: Duration, port: Port, frame: &[u8]) {
        let lp = LpPacket::parse(frame).ok();
        let unacknowledged = &mut self.links[port].unacknowledged;
        if let Some(waiting) = unacknowledged
            && let Some(tx_sequence) = lp.and_then(|lp| lp.tx_sequence())
        {
            waiting.insert(tx_sequence);
            if waiting.len() > ACKS_MAX {
                *unacknowledged = None;
            }
        }
        let Passed::Whole(seen) = self.links[port].received.pass(frame, false) else { return };
        match seen {
            Some(Seen::Interest { name, selectors, nonce, lifetime }) => {
                let expires = now + lifetime + EXPIRY_SLACK;
                let is_certain = lp.is_some_and(|lp| lp.sequence().is_none());
                self.interests[0] += u64::from(is_certain);
                self.interests[1] += 1;
                self.note_interest(now, port, &name, nonce, selectors, expires);
            }
            Some(Seen::Data(data)) => {
                self.forget(now, &data);
                let fresh_until = now + data.freshness;
                let cached = self.cached.entry(data.digest_name.value().to_vec());
                let cached = cached.or_insert(Cached { arrived: now, fresh_until });
                cached.arrived = now;
                cached.fresh_until = cached.fresh_until.max(fresh_until);
            }
            Some(Seen::Nack { .. } | Seen::Idle) | None => {}
        }
    }

    fn note_interest(
        &mut self,
        now: Duration,
        port: Port,
        name: &Name,
        nonce: u32,
        selectors: Selectors,
        expires: Duration,
    ) {
        let of_name = self.passages.entry(name.value().to_vec()).or_default();
        let until = &mut of_name.pending_until[selectors.index()];
        *until = (*until).max(expires);
        of_name.passages.retain(|passage| now < passage.last + NONCE_LIFETIME);
        match of_name.passages.iter_mut().find(|passage| passage.nonce == nonce) {
            Some(passage) => {
                passage.selectors = selectors;
                *passage.received.entry(port).or_default() += 1;
            }
            None => of_name.passages.push(Passage {
                nonce,
                selectors,
                received: HashMap::from([(port, 1)]),
                sent: HashMap::new(),
                last: now,
            }),
        }
        let pending = self.pending[port].entry(name.value().to_vec()).or_default();
        pending.retain(|interest| interest.expires > now);
        pending.push(Pending { selectors, nonce, arrived: now, expires });
    }

    /// Checks a frame that the node sends.
    ///
    /// # Errors
    /// The invariant that it breaks.
    pub fn check_sent(&mut self, now: Duration, port: Port, frame: &[u8]) -> Result<(), Violation> {
        if frame.len() > self.ports[port].mtu {
            return Err(Violation::TooLong(frame.len()));
        }
        let link = &mut self.links[port];
        if let Some(waiting) = &mut link.unacknowledged {
            let lp = LpPacket::parse(frame).map_err(|_| Violation::Malformed)?;
            for ack in lp.acks() {
                waiting.remove(&ack);
            }
        }
        // Frames are sent again with the same Sequence.
        let Passed::Whole(seen) = link.sent.pass(frame, true) else { return Ok(()) };
        match seen.ok_or(Violation::Malformed)? {
            Seen::Idle => Ok(()),
            Seen::Interest { name, nonce, .. } => {
                self.check_scope(port, &name)?;
                self.check_hop(now, port, &name, nonce)?;
                self.check_loop(now, port, name, nonce)
            }
            Seen::Data(data) => {
                self.check_scope(port, &data.name)?;
                self.forget(now, &data);
                self.take_answered(now, port, &data)
            }
            Seen::Nack { name, .. } if self.ports[port].kind == PortKind::Shared => {
                Err(Violation::SharedNack(name))
            }
            Seen::Nack { name, nonce } => {
                let pending = self.pending[port].get_mut(name.value());
                let pending = pending.and_then(|pending| {
                    let is_match =
                        |interest: &Pending| interest.nonce == nonce && interest.expires > now;
                    let position = pending.iter().position(is_match)?;
                    Some(pending.remove(position))
                });
                pending.map(drop).ok_or(Violation::UnsolicitedNack(name, nonce))
            }
        }
    }

    /// Data ends the PIT entries that it satisfies without putting their nonces into the dead nonce list (NFD
    /// Developer's Guide, Interest finalize pipeline): an Interest that comes by another path afterwards is a new
    /// one. The nonces stay if a copy of the Interest would not find the Data in the Content Store, because
    /// MustBeFresh outlasts its FreshnessPeriod.
    fn forget(&mut self, now: Duration, data: &DataSeen) {
        for (name, needs_prefix) in data.interest_names() {
            let Some(of_name) = self.passages.get_mut(name) else { continue };
            let pending_until = of_name.pending_until;
            let is_satisfied = |selectors: Selectors| {
                (selectors.can_be_prefix || !needs_prefix) && pending_until[selectors.index()] > now
            };
            of_name.passages.retain(|passage| {
                let is_kept = passage.selectors.must_be_fresh && data.freshness < NONCE_LIFETIME;
                !is_satisfied(passage.selectors) || is_kept
            });
        }
    }

    /// Removes the pending Interest that matches and that the fewest other packets would satisfy, so that a
    /// later packet finds the one that it belongs to.
    fn take_answered(
        &mut self,
        now: Duration,
        port: Port,
        data: &DataSeen,
    ) -> Result<(), Violation> {
        let cached = self.cached.get(data.digest_name.value()).copied();
        let mut is_stale = false;
        for (name, needs_prefix) in data.interest_names() {
            let Some(pending) = self.pending[port].get_mut(name) else { continue };
            let position = pending.iter().position(|interest| {
                let is_match =
                    interest.expires > now && (interest.selectors.can_be_prefix || !needs_prefix);
                // Data that arrived after the Interest satisfies it in any case.
                let is_from_cache = |cached: &Cached| cached.arrived < interest.arrived;
                let is_too_old = |cached: Cached| cached.fresh_until <= now;
                let is_refused = interest.selectors.must_be_fresh
                    && cached.filter(is_from_cache).is_some_and(is_too_old);
                is_stale |= is_match && is_refused;
                is_match && !is_refused
            });
            if let Some(position) = position {
                pending.remove(position);
                return Ok(());
            }
        }
        if is_stale {
            return Err(Violation::Stale(data.name.clone()));
        }
        Err(Violation::UnsolicitedData(data.name.clone()))
    }

    fn check_scope(&self, port: Port, name: &Name) -> Result<(), Violation> {
        let is_local = name.component(0).is_some_and(|first| first.value() == b"localhost");
        if is_local && !self.ports[port].is_local() {
            return Err(Violation::Scope(name.clone()));
        }
        Ok(())
    }

    /// An Interest under `/localhop` goes to a neighbour only if an application sent it, or waits for the same name. Data is
    /// not restricted: it answers a neighbour from the Content Store, as in NFD, and comes from other neighbours only if an
    /// application has requested it.
    fn check_hop(
        &self,
        now: Duration,
        port: Port,
        name: &Name,
        nonce: u32,
    ) -> Result<(), Violation> {
        if self.ports[port].is_local() || !is_localhop(name) {
            return Ok(());
        }
        let local = |port: &Port| self.ports[*port].is_local();
        let waits = |port: Port| {
            let pending = self.pending[port].get(name.value());
            pending.is_some_and(|pending| pending.iter().any(|interest| interest.expires > now))
        };
        let of_name = self.passages.get(name.value());
        let mut passages = of_name.into_iter().flat_map(|of_name| &of_name.passages);
        let is_of_neighbour = passages
            .find(|passage| passage.nonce == nonce)
            .is_some_and(|passage| !passage.received.keys().any(local));
        match is_of_neighbour && !(0..self.ports.len()).filter(local).any(waits) {
            true => Err(Violation::Scope(name.clone())),
            false => Ok(()),
        }
    }

    /// The forwarder's own Interests arrive by no port, so they are not checked.
    fn check_loop(
        &mut self,
        now: Duration,
        port: Port,
        name: Name,
        nonce: u32,
    ) -> Result<(), Violation> {
        let Some(of_name) = self.passages.get_mut(name.value()) else { return Ok(()) };
        let mut passages = of_name.passages.iter_mut();
        let Some(passage) = passages.find(|passage| passage.nonce == nonce) else { return Ok(()) };
        passage.last = now;
        let sent = passage.sent.entry(port).or_default();
        *sent += 1;
        // The same nonce again from the same neighbour is a retransmission.
        if *sent > passage.received.values().copied().max().unwrap_or(0) {
            return Err(Violation::Loop(name, nonce));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use ndn_packet::{DataBuilder, InterestBuilder, SignatureInfo, SignatureType};
    use ndn_packet::{LpHeader, NackReason};

    use super::*;

    const PORTS: [PortSpec; 3] = [
        PortSpec::whole(PortKind::Local),
        PortSpec::whole(PortKind::Neighbour),
        PortSpec::whole(PortKind::Neighbour),
    ];
    const CONSUMER: Port = 0;
    const UPSTREAM: Port = 1;
    const OTHER_UPSTREAM: Port = 2;

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn interest(uri: &str, nonce: u32, can_be_prefix: bool, must_be_fresh: bool) -> Vec<u8> {
        let name = Name::from_uri(uri).unwrap();
        let interest = InterestBuilder::new(&name).nonce(nonce).lifetime_ms(1000);
        interest.can_be_prefix(can_be_prefix).must_be_fresh(must_be_fresh).to_vec().unwrap()
    }

    fn data(uri: &str, freshness_ms: u64) -> Vec<u8> {
        let name = Name::from_uri(uri).unwrap();
        let info = SignatureInfo::new(SignatureType::DIGEST_SHA256);
        let data = DataBuilder::new(&name).content(b"").freshness_ms(freshness_ms);
        data.to_vec(&info, 32, |_, _| Some(32)).unwrap()
    }

    fn nack(interest: &[u8]) -> Vec<u8> {
        let header = LpHeader { nack: Some(NackReason::NO_ROUTE), ..LpHeader::default() };
        let mut frame = vec![0; header.encoded_len(interest.len()) + interest.len()];
        header.write(interest, &mut frame).unwrap();
        frame
    }

    #[test]
    fn stale_data_does_not_answer_must_be_fresh() {
        let mut monitor = Monitor::new(&PORTS);
        monitor.note_delivered(at(0), CONSUMER, &interest("/a", 1, false, false));
        monitor.note_delivered(at(10), UPSTREAM, &data("/a", 100));
        monitor.check_sent(at(10), CONSUMER, &data("/a", 100)).unwrap();
        // Fresh, from the Content Store.
        monitor.note_delivered(at(50), CONSUMER, &interest("/a", 2, false, true));
        monitor.check_sent(at(50), CONSUMER, &data("/a", 100)).unwrap();
        // Stale, for an Interest that takes it.
        monitor.note_delivered(at(200), CONSUMER, &interest("/a", 3, false, true));
        monitor.note_delivered(at(200), CONSUMER, &interest("/a", 4, false, false));
        monitor.check_sent(at(200), CONSUMER, &data("/a", 100)).unwrap();
        let stale = monitor.check_sent(at(200), CONSUMER, &data("/a", 100));
        assert_eq!(stale, Err(Violation::Stale(Name::from_uri("/a").unwrap())));
        // It arrives again after the Interest.
        monitor.note_delivered(at(210), UPSTREAM, &data("/a", 100));
        monitor.check_sent(at(210), CONSUMER, &data("/a", 100)).unwrap();
    }

    #[test]
    fn localhop_interest_of_a_neighbour_goes_to_applications_only() {
        let mut monitor = Monitor::new(&PORTS);
        let [of_neighbour, of_application] =
            [1, 2].map(|nonce| interest("/localhop/a", nonce, false, false));
        monitor.note_delivered(at(0), OTHER_UPSTREAM, &of_neighbour);
        monitor.check_sent(at(0), CONSUMER, &of_neighbour).unwrap();
        let sent = monitor.check_sent(at(0), UPSTREAM, &of_neighbour);
        assert_eq!(sent, Err(Violation::Scope(Name::from_uri("/localhop/a").unwrap())));
        // The application waits for the same Data from then on.
        monitor.note_delivered(at(10), CONSUMER, &of_application);
        monitor.check_sent(at(10), UPSTREAM, &of_application).unwrap();
        monitor.check_sent(at(10), UPSTREAM, &of_neighbour).unwrap();
        monitor.note_delivered(at(20), UPSTREAM, &data("/localhop/a", 0));
        monitor.check_sent(at(20), CONSUMER, &data("/localhop/a", 0)).unwrap();
        monitor.check_sent(at(20), OTHER_UPSTREAM, &data("/localhop/a", 0)).unwrap();
    }

    #[test]
    fn data_ends_the_interests_that_it_satisfies() {
        for (uri, can_be_prefix, is_ended) in
            [("/a/b", false, true), ("/a", true, true), ("/a", false, false)]
        {
            let mut monitor = Monitor::new(&PORTS);
            let looping = interest(uri, 7, can_be_prefix, false);
            monitor.note_delivered(at(0), CONSUMER, &looping);
            monitor.check_sent(at(0), UPSTREAM, &looping).unwrap();
            monitor.note_delivered(at(10), UPSTREAM, &data("/a/b", 0));
            // The Interest comes by another path.
            monitor.note_delivered(at(20), OTHER_UPSTREAM, &looping);
            let sent = monitor.check_sent(at(20), UPSTREAM, &looping);
            assert_eq!(sent.is_ok(), is_ended, "{uri} {can_be_prefix}: {sent:?}");
        }
    }

    #[test]
    fn replaced_nonce_is_remembered_after_a_nack() {
        let mut monitor = Monitor::new(&PORTS);
        let [first, second] = [1, 2].map(|nonce| interest("/a", nonce, false, false));
        monitor.note_delivered(at(0), CONSUMER, &first);
        monitor.check_sent(at(0), UPSTREAM, &first).unwrap();
        monitor.note_delivered(at(20), CONSUMER, &second);
        monitor.check_sent(at(20), UPSTREAM, &second).unwrap();
        monitor.check_sent(at(30), CONSUMER, &nack(&first)).unwrap();
        for (looping, nonce) in [(&first, 1), (&second, 2)] {
            monitor.note_delivered(at(40), OTHER_UPSTREAM, looping);
            let sent = monitor.check_sent(at(40), UPSTREAM, looping);
            assert_eq!(sent, Err(Violation::Loop(Name::from_uri("/a").unwrap(), nonce)));
        }
    }

    #[test]
    fn retransmission_may_come_by_another_face_than_the_first_copy() {
        let mut monitor = Monitor::new(&PORTS);
        let again = interest("/a", 7, false, false);
        monitor.note_delivered(at(0), OTHER_UPSTREAM, &again);
        for time in [10, 20] {
            monitor.note_delivered(at(time), CONSUMER, &again);
            monitor.check_sent(at(time), UPSTREAM, &again).unwrap();
        }
        monitor.note_delivered(at(30), OTHER_UPSTREAM, &again);
        let sent = monitor.check_sent(at(30), UPSTREAM, &again);
        assert_eq!(sent, Err(Violation::Loop(Name::from_uri("/a").unwrap(), 7)));
    }

    #[test]
    fn nonce_is_forgotten_after_its_lifetime() {
        let mut monitor = Monitor::new(&PORTS);
        let looping = interest("/a", 7, false, false);
        monitor.note_delivered(at(0), CONSUMER, &looping);
        monitor.check_sent(at(0), UPSTREAM, &looping).unwrap();
        // Dropped, so it is not remembered for longer.
        monitor.note_delivered(at(4000), OTHER_UPSTREAM, &looping);
        monitor.note_delivered(at(6001), OTHER_UPSTREAM, &looping);
        monitor.check_sent(at(6001), UPSTREAM, &looping).unwrap();
    }

    #[test]
    fn nonce_of_an_expired_interest_is_remembered() {
        let mut monitor = Monitor::new(&PORTS);
        let looping = interest("/a", 7, false, false);
        monitor.note_delivered(at(0), CONSUMER, &looping);
        monitor.check_sent(at(0), UPSTREAM, &looping).unwrap();
        // Unsolicited by now.
        monitor.note_delivered(at(2000), UPSTREAM, &data("/a", 0));
        monitor.note_delivered(at(2100), OTHER_UPSTREAM, &looping);
        let sent = monitor.check_sent(at(2100), UPSTREAM, &looping);
        assert_eq!(sent, Err(Violation::Loop(Name::from_uri("/a").unwrap(), 7)));
    }

    #[test]
    fn pending_interest_may_go_to_the_next_face_of_a_port_once() {
        let mut monitor = Monitor::new(&PORTS);
        let pending = interest("/a", 7, false, false);
        monitor.note_delivered(at(0), CONSUMER, &pending);
        monitor.check_sent(at(0), UPSTREAM, &pending).unwrap();
        monitor.note_face_closed(UPSTREAM);
        monitor.check_sent(at(200), UPSTREAM, &pending).unwrap();
        let sent = monitor.check_sent(at(300), UPSTREAM, &pending);
        assert_eq!(sent, Err(Violation::Loop(Name::from_uri("/a").unwrap(), 7)));
    }
}
