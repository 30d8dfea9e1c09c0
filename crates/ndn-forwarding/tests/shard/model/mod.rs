//! Reference model of a forwarder: one packet at a time, ordered maps, linear searches.
//!
//! It follows the protocol and the pipelines of NFD as plainly as possible, and shares no code with
//! the crate under test.

mod data;
mod interest;
mod nack;
mod store;
mod strategy;

use std::collections::BTreeMap;

pub use self::store::Store;
pub use self::strategy::Strategy;
use crate::wire::{Data, Interest, Name, Packet};

pub type Face = u32;
/// Milliseconds.
pub type Time = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    PointToPoint,
    MultiAccess,
    AdHoc,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tokens {
    Never,
    Always,
    WhenSeen,
}

#[derive(Clone, Copy, Debug)]
pub struct FaceSpec {
    pub local: bool,
    pub link: Link,
    pub tokens: Tokens,
    pub local_fields: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsolicited {
    DropAll,
    AdmitLocal,
    AdmitNetwork,
    AdmitAll,
}

/// A packet as it arrives.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub face: Face,
    pub packet: Packet,
    pub token: Vec<u8>,
    pub mark: u64,
    pub no_cache: bool,
    pub next_hop: Option<Face>,
}

impl Arrival {
    pub fn new(face: Face, packet: Packet) -> Self {
        Self { face, packet, token: Vec::new(), mark: 0, no_cache: false, next_hop: None }
    }
}

/// The token of a sent packet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutToken {
    /// One of the forwarder's own, of which only the presence is predicted.
    Own,
    /// Bytes from downstream, or none.
    Echo(Vec<u8>),
}

/// A sent packet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Departure {
    pub face: Face,
    pub packet: Packet,
    pub token: OutToken,
    pub mark: u64,
    pub incoming_face: Option<Face>,
}

#[derive(Clone, Debug)]
pub(crate) struct InRecord {
    face: Face,
    nonce: u32,
    lifetime_ms: u64,
    expiry: Time,
    token: Vec<u8>,
    /// Number of its Interests that were suppressed while others waited, too.
    suppressed: u8,
}

#[derive(Clone, Debug)]
pub(crate) struct OutRecord {
    face: Face,
    nonce: u32,
    renewed: Time,
    expiry: Time,
    nack: Option<u64>,
    /// Suppression interval of the multicast strategy.
    interval_ms: u64,
    /// NextHopFaceId named the face.
    is_directed: bool,
}

impl OutRecord {
    /// Whether the upstream may still answer.
    fn is_awaited(&self, now: Time, gone: &[Face]) -> bool {
        self.expiry > now && self.nack.is_none() && !gone.contains(&self.face)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct PitEntry {
    /// The Interest that created the entry.
    interest: Interest,
    /// Its strategy, which decides on Nacks.
    strategy: Strategy,
    in_records: Vec<InRecord>,
    out_records: Vec<OutRecord>,
    expiry: Time,
    /// Suppression interval of the best-route strategy.
    interval_ms: Option<u64>,
}

impl PitEntry {
    /// Whether an Interest that is suppressed is sent nevertheless.
    fn insists(&mut self, face: Face) -> bool {
        if self.in_records.len() < 2 {
            return false;
        }
        let Some(record) = self.in_records.iter_mut().find(|record| record.face == face) else {
            return false;
        };
        record.suppressed = record.suppressed.saturating_add(1);
        [2, 4, 8, 16, 32, 64, 128].contains(&record.suppressed)
    }
}

/// Name, CanBePrefix, MustBeFresh.
pub(crate) type PitKey = (Name, bool, bool);

#[derive(Clone, Debug)]
pub struct Model {
    /// Including removed faces.
    pub faces: BTreeMap<Face, FaceSpec>,
    gone: Vec<Face>,
    /// A face was removed since the time was advanced.
    has_lost_faces: bool,
    /// Next hops by cost.
    pub fib: BTreeMap<Name, Vec<(Face, u32)>>,
    pub strategies: BTreeMap<Name, Strategy>,
    pub regions: Vec<Name>,
    pub unsolicited: Unsolicited,
    pub pit_capacity: usize,
    pub store: Store,
    pub satisfied: u64,
    pub unsatisfied: u64,
    pub dead_nonce_lifetime_ms: u64,
    pit: BTreeMap<PitKey, PitEntry>,
    dead_nonces: BTreeMap<(Name, u32), Time>,
    /// Faces that have sent a token.
    token_senders: Vec<Face>,
    departures: Vec<Departure>,
    /// FaceId reported for Data from the Content Store.
    content_store_face: Face,
}

impl Model {
    pub fn new(cs_capacity: usize) -> Self {
        Self {
            faces: BTreeMap::new(),
            gone: Vec::new(),
            has_lost_faces: false,
            fib: BTreeMap::new(),
            strategies: BTreeMap::from([(Vec::new(), Strategy::best_route())]),
            regions: Vec::new(),
            unsolicited: Unsolicited::DropAll,
            pit_capacity: usize::MAX,
            store: Store::new(cs_capacity),
            satisfied: 0,
            unsatisfied: 0,
            dead_nonce_lifetime_ms: 6000,
            pit: BTreeMap::new(),
            dead_nonces: BTreeMap::new(),
            token_senders: Vec::new(),
            departures: Vec::new(),
            content_store_face: 254,
        }
    }

    /// Advances the time up to and including `now`.
    pub fn advance(&mut self, now: Time) {
        let is_over = |(_, entry): &(&PitKey, &PitEntry)| entry.expiry <= now;
        let expired: Vec<_> = self.pit.iter().filter(is_over).map(|(key, _)| key.clone()).collect();
        for key in expired {
            self.finalize(&key, None, now);
        }
        self.end_records_of_gone_faces(now);
        if std::mem::take(&mut self.has_lost_faces) {
            let keys: Vec<_> = self.pit.keys().cloned().collect();
            keys.iter().for_each(|key| self.send_again(now, key));
        }
        self.dead_nonces.retain(|_, until| *until > now);
    }

    /// An entry ends with the last of the downstreams that are left.
    fn end_records_of_gone_faces(&mut self, now: Time) {
        let gone = &self.gone;
        let mut abandoned = Vec::new();
        for (key, entry) in &mut self.pit {
            let before = entry.in_records.len();
            entry.in_records.retain(|record| !gone.contains(&record.face));
            let removed = before - entry.in_records.len();
            if removed > 0 {
                let latest = entry.in_records.iter().map(|record| record.expiry).max();
                entry.expiry = entry.expiry.min(latest.unwrap_or(now));
            }
            if entry.expiry <= now {
                abandoned.push(key.clone());
            }
        }
        for key in abandoned {
            self.finalize(&key, None, now);
        }
    }

    /// Receives one packet; returns the packets sent. Where several cached Data satisfy an
    /// Interest, `choose` selects one.
    pub fn receive(
        &mut self,
        now: Time,
        arrival: &Arrival,
        choose: &mut dyn FnMut(&[Data]) -> Data,
    ) -> Vec<Departure> {
        self.advance(now);
        match &arrival.packet {
            Packet::Interest(interest) => {
                self.receive_interest(now, arrival, interest.clone(), choose);
            }
            Packet::Data(data) => self.receive_data(now, arrival, data),
            Packet::Nack(reason, interest) => self.receive_nack(now, arrival, *reason, interest),
        }
        std::mem::take(&mut self.departures)
    }

    pub fn set_route(&mut self, prefix: &Name, face: Face, cost: u32) {
        let hops = self.fib.entry(prefix.clone()).or_default();
        hops.retain(|(other, _)| *other != face);
        hops.push((face, cost));
        hops.sort_by_key(|&(_, cost)| cost);
    }

    pub fn remove_route(&mut self, prefix: &Name, face: Face) {
        let Some(hops) = self.fib.get_mut(prefix) else { return };
        hops.retain(|(other, _)| *other != face);
        if hops.is_empty() {
            self.fib.remove(prefix);
        }
    }

    /// Its routes and records remain, without effect.
    pub fn remove_face(&mut self, face: Face) {
        self.has_lost_faces |= !self.gone.contains(&face);
        self.gone.push(face);
    }

    pub fn is_gone(&self, face: Face) -> bool {
        self.gone.contains(&face) || !self.faces.contains_key(&face)
    }

    pub fn pit_len(&self) -> usize {
        self.pit.len()
    }

    fn face(&self, face: Face) -> FaceSpec {
        self.faces[&face]
    }

    /// The next hops for `interest`: of its hint, if it has one that is to be followed.
    fn next_hops(&self, interest: &Interest) -> Vec<(Face, u32)> {
        if interest.hint.is_empty() {
            return self.longest_prefix(&interest.name);
        }
        let routes = interest.hint.iter().map(|delegation| self.longest_prefix(delegation));
        routes.into_iter().find(|hops| !hops.is_empty()).unwrap_or_default()
    }

    fn longest_prefix(&self, name: &Name) -> Vec<(Face, u32)> {
        let prefixes = (0..=name.len()).rev().map(|length| name[..length].to_vec());
        prefixes.into_iter().find_map(|prefix| self.fib.get(&prefix).cloned()).unwrap_or_default()
    }

    fn strategy(&self, name: &Name) -> Strategy {
        let prefixes = (0..=name.len()).rev().map(|length| name[..length].to_vec());
        prefixes.into_iter().find_map(|prefix| self.strategies.get(&prefix).copied()).unwrap()
    }

    /// Ends a PIT entry: with the FreshnessPeriod of the Data that satisfied it, or none.
    fn finalize(&mut self, key: &PitKey, freshness_ms: Option<u64>, now: Time) {
        let entry = self.pit.remove(key).unwrap();
        let lifetime_ms = self.dead_nonce_lifetime_ms;
        match freshness_ms {
            Some(_) => self.satisfied += 1,
            None => self.unsatisfied += 1,
        }
        let is_uncached = entry.out_records.len() > 1 && self.store.capacity() == 0;
        let becomes_stale = |freshness_ms| key.2 && freshness_ms < lifetime_ms;
        if freshness_ms.is_none_or(|freshness_ms| becomes_stale(freshness_ms) || is_uncached) {
            for record in entry.out_records {
                let until = now + lifetime_ms;
                self.dead_nonces.insert((key.0.clone(), record.nonce), until);
            }
        }
    }

    fn depart(&mut self, departure: Departure) {
        self.departures.push(departure);
    }

    fn send_data(
        &mut self,
        face: Face,
        data: &Data,
        token: Vec<u8>,
        mark: u64,
        incoming_face: Face,
    ) {
        let spec = self.face(face);
        if self.is_gone(face) || !spec.local && is_under(&data.name, "localhost") {
            return;
        }
        self.depart(Departure {
            face,
            packet: Packet::Data(data.clone()),
            token: OutToken::Echo(token),
            mark,
            incoming_face: spec.local_fields.then_some(incoming_face),
        });
    }
}

pub(crate) fn is_under(name: &Name, first: &str) -> bool {
    name.first().is_some_and(|component| component.0 == 8 && component.1 == first.as_bytes())
}

pub(crate) fn is_prefix(prefix: &Name, name: &Name) -> bool {
    name.starts_with(prefix)
}
