//! Invariants on the frames of one node.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use ndn_packet::{Data, Interest, LpPacket, Name, Packet};

use crate::node::Port;

/// How much later than its lifetime an Interest may still be answered: timers have a granularity.
const EXPIRY_SLACK: Duration = Duration::from_millis(50);
/// How long a (name, nonce) pair is remembered: the lifetime of the dead nonce list (NFD: 6 s).
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
    /// An Interest was forwarded more often by one face than it arrived by the face that brought it first.
    Loop(Name, u32),
    /// An Interest of scope `/localhost` left the host, or Data of it.
    Scope(Name),
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
        }
    }
}

/// A frame, parsed as far as the invariants need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    Interest {
        name: Name,
        can_be_prefix: bool,
        nonce: u32,
        lifetime: Duration,
    },
    Data {
        name: Name,
        digest_name: Name,
    },
    Nack {
        name: Name,
        nonce: u32,
    },
    /// A link packet without a network packet.
    Idle,
}

impl Seen {
    /// Parses a frame.
    pub(crate) fn parse(frame: &[u8]) -> Option<Self> {
        let lp = LpPacket::parse(frame).ok()?;
        let Some(packet) = lp.fragment() else { return Some(Self::Idle) };
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
        Some(Self::Interest { name, can_be_prefix: interest.can_be_prefix(), nonce, lifetime })
    }

    fn data(data: &Data<'_>) -> Self {
        let name = data.name().to_name();
        let mut digest_name = name.clone();
        digest_name.push_implicit_digest(&data.implicit_digest(ndn_security::sha256));
        Self::Data { name, digest_name }
    }
}

/// An Interest that a face brought and that has not been answered on it.
#[derive(Debug)]
struct Pending {
    name: Name,
    can_be_prefix: bool,
    nonce: u32,
    expires: Duration,
}

impl Pending {
    fn is_satisfied_by(&self, name: &Name, digest_name: &Name) -> bool {
        self.name == *name
            || self.name == *digest_name
            || (self.can_be_prefix && name.starts_with(self.name.as_ref()))
    }
}

/// Receptions of one (name, nonce) pair by the port that brought it first, and transmissions by port.
#[derive(Debug)]
struct Passage {
    first_port: Port,
    received: u32,
    sent: HashMap<Port, u32>,
    last: Duration,
}

/// The frames of one node, from its start to its end.
#[derive(Debug)]
pub struct Monitor {
    ports_local: Vec<bool>,
    pending: Vec<Vec<Pending>>,
    passages: HashMap<(Name, u32), Passage>,
    interests_in: u64,
}

impl Monitor {
    /// A monitor of a node that has just started.
    #[must_use]
    pub fn new(ports_local: &[bool]) -> Self {
        Self {
            ports_local: ports_local.to_vec(),
            pending: ports_local.iter().map(|_| Vec::new()).collect(),
            passages: HashMap::new(),
            interests_in: 0,
        }
    }

    /// Interests delivered to the node.
    #[must_use]
    pub const fn interests_in(&self) -> u64 {
        self.interests_in
    }

    /// Notes a frame that is delivered to the node.
    pub fn note_delivered(&mut self, now: Duration, port: Port, frame: &[u8]) {
        let (name, can_be_prefix, nonce, lifetime) = match Seen::parse(frame) {
            Some(Seen::Interest { name, can_be_prefix, nonce, lifetime }) => {
                (name, can_be_prefix, nonce, lifetime)
            }
            Some(Seen::Data { name, digest_name }) => return self.forget(&name, &digest_name),
            Some(Seen::Nack { .. } | Seen::Idle) | None => return,
        };
        self.interests_in += 1;
        let passage = self.passages.entry((name.clone(), nonce)).or_insert_with(|| Passage {
            first_port: port,
            received: 0,
            sent: HashMap::new(),
            last: now,
        });
        if now > passage.last + NONCE_LIFETIME {
            *passage = Passage { first_port: port, received: 0, sent: HashMap::new(), last: now };
        }
        passage.last = now;
        if passage.first_port == port {
            passage.received += 1;
        }
        let pending = &mut self.pending[port];
        pending.retain(|interest| interest.expires > now);
        let expires = now + lifetime + EXPIRY_SLACK;
        pending.push(Pending { name, can_be_prefix, nonce, expires });
    }

    /// Checks a frame that the node sends.
    ///
    /// # Errors
    /// The invariant that it breaks.
    pub fn check_sent(&mut self, now: Duration, port: Port, frame: &[u8]) -> Result<(), Violation> {
        match Seen::parse(frame).ok_or(Violation::Malformed)? {
            Seen::Idle => Ok(()),
            Seen::Interest { name, nonce, .. } => {
                self.check_scope(port, &name)?;
                self.check_loop(port, name, nonce)
            }
            Seen::Data { name, digest_name } => {
                self.check_scope(port, &name)?;
                self.forget(&name, &digest_name);
                let is_match = |interest: &Pending| interest.is_satisfied_by(&name, &digest_name);
                self.take_pending(now, port, is_match)
                    .ok_or_else(|| Violation::UnsolicitedData(name.clone()))
            }
            Seen::Nack { name, nonce } => {
                let is_match =
                    |interest: &Pending| interest.nonce == nonce && interest.name == name;
                self.take_pending(now, port, is_match)
                    .ok_or_else(|| Violation::UnsolicitedNack(name.clone(), nonce))
            }
        }
    }

    /// Data ends its PIT entries without putting their nonces into the dead nonce list (NFD Developer's
    /// Guide, Interest finalize pipeline): an Interest that comes by another path afterwards is a new one.
    fn forget(&mut self, name: &Name, digest_name: &Name) {
        self.passages.retain(|(interest, _), _| {
            !(name.starts_with(interest.as_ref()) || interest == digest_name)
        });
    }

    /// Removes the pending Interest that matches and that the fewest other packets would satisfy, so that a
    /// later packet finds the one that it belongs to.
    fn take_pending(
        &mut self,
        now: Duration,
        port: Port,
        is_match: impl Fn(&Pending) -> bool,
    ) -> Option<()> {
        let pending = &mut self.pending[port];
        let matching = pending.iter().enumerate();
        let matching =
            matching.filter(|(_, interest)| interest.expires >= now && is_match(interest));
        let (index, _) = matching.min_by_key(|(_, interest)| {
            (interest.can_be_prefix, std::cmp::Reverse(interest.name.len()))
        })?;
        pending.remove(index);
        Some(())
    }

    fn check_scope(&self, port: Port, name: &Name) -> Result<(), Violation> {
        let is_local = name.component(0).is_some_and(|first| first.value() == b"localhost");
        if is_local && !self.ports_local[port] {
            return Err(Violation::Scope(name.clone()));
        }
        Ok(())
    }

    /// The forwarder's own Interests arrive by no port, so they are not checked.
    fn check_loop(&mut self, port: Port, name: Name, nonce: u32) -> Result<(), Violation> {
        let key = (name, nonce);
        let Some(passage) = self.passages.get_mut(&key) else { return Ok(()) };
        let sent = passage.sent.entry(port).or_default();
        *sent += 1;
        if *sent > passage.received {
            return Err(Violation::Loop(key.0, nonce));
        }
        Ok(())
    }
}
