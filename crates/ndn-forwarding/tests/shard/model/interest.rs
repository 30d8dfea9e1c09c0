//! Incoming and outgoing Interests.

use std::cmp::Reverse;

use super::{
    Arrival, Departure, Face, InRecord, Link, Model, OutRecord, OutToken, PitEntry, PitKey,
    Strategy, Time, Tokens, is_prefix, is_under,
};
use crate::wire::{CONGESTION, DUPLICATE, Data, Interest, Packet};

impl Model {
    pub(super) fn receive_interest(
        &mut self,
        now: Time,
        arrival: &Arrival,
        mut interest: Interest,
        choose: &mut dyn FnMut(&[Data]) -> Data,
    ) {
        let spec = self.face(arrival.face);
        let forbidden = arrival.no_cache || arrival.next_hop.is_some() && !spec.local_fields;
        if interest.name.is_empty() || interest.hop_limit == Some(0) || forbidden {
            return;
        }
        interest.hop_limit = interest.hop_limit.map(|hop_limit| hop_limit - 1);
        if !spec.local && is_under(&interest.name, "localhost") {
            return;
        }
        if self.is_gone(arrival.face) {
            return;
        }
        if !arrival.token.is_empty() {
            self.token_senders.push(arrival.face);
        }
        let nonce = interest.nonce.unwrap();
        let regions = &self.regions;
        if interest.hint.iter().any(|hint| regions.iter().any(|region| is_prefix(hint, region))) {
            interest.hint.clear();
        }
        let key = (interest.name.clone(), interest.can_be_prefix, interest.must_be_fresh);
        if self.is_duplicate(&key, nonce, arrival.face) {
            self.refuse(arrival, &interest, DUPLICATE);
            return;
        }
        let is_pending = self
            .pit
            .get(&key)
            .is_some_and(|entry| entry.in_records.iter().any(|record| !self.is_gone(record.face)));
        if !is_pending && let Some(data) = self.store.find(&interest, now, choose) {
            if self.pit.contains_key(&key) {
                self.finalize(&key, Some(data.freshness_ms.unwrap_or(0)), now);
            } else {
                self.satisfied += 1;
            }
            let from = self.content_store_face;
            self.send_data(arrival.face, &data, arrival.token.clone(), 0, from);
            return;
        }
        if !self.pit.contains_key(&key) && self.pit.len() >= self.pit_capacity {
            self.refuse(arrival, &interest, CONGESTION);
            return;
        }
        self.join(now, &key, arrival, &interest);
        self.forward(now, &key, arrival, &interest);
    }

    fn refuse(&mut self, arrival: &Arrival, interest: &Interest, reason: u64) {
        if self.face(arrival.face).link == Link::PointToPoint {
            self.depart(Departure {
                face: arrival.face,
                packet: Packet::Nack(reason, interest.clone()),
                token: OutToken::Echo(arrival.token.clone()),
                mark: 0,
                incoming_face: None,
            });
        }
    }

    fn is_duplicate(&self, key: &PitKey, nonce: u32, face: Face) -> bool {
        let is_dead = self.dead_nonces.contains_key(&(key.0.clone(), nonce));
        let Some(entry) = self.pit.get(key) else { return is_dead };
        let is_point_to_point = self.face(face).link == Link::PointToPoint;
        let in_same = entry.in_records.iter().any(|r| r.nonce == nonce && r.face == face);
        let anywhere = entry.in_records.iter().any(|record| record.nonce == nonce)
            || entry.out_records.iter().any(|record| record.nonce == nonce);
        (is_dead || anywhere) && !(is_point_to_point && in_same)
    }

    /// Adds or renews the in-record.
    fn join(&mut self, now: Time, key: &PitKey, arrival: &Arrival, interest: &Interest) {
        let strategy = self.strategy(&interest.name);
        let entry = self.pit.entry(key.clone()).or_insert_with(|| PitEntry {
            interest: interest.clone(),
            strategy,
            in_records: Vec::new(),
            out_records: Vec::new(),
            expiry: now,
            interval_ms: None,
        });
        let lifetime_ms = interest.lifetime_ms.unwrap_or(4000);
        let record = InRecord {
            face: arrival.face,
            nonce: interest.nonce.unwrap(),
            lifetime_ms,
            expiry: now + lifetime_ms,
            token: arrival.token.clone(),
            suppressed: 0,
        };
        match entry.in_records.iter_mut().find(|record| record.face == arrival.face) {
            Some(known) => *known = InRecord { suppressed: known.suppressed, ..record },
            None => entry.in_records.push(record),
        }
        entry.expiry = entry.in_records.iter().map(|record| record.expiry).max().unwrap();
    }

    fn forward(&mut self, now: Time, key: &PitKey, arrival: &Arrival, interest: &Interest) {
        if let Some(next_hop) = arrival.next_hop {
            if !self.is_gone(next_hop) && self.send_interest(now, key, arrival, interest, next_hop)
            {
                let records = &mut self.pit.get_mut(key).unwrap().out_records;
                let record = records.iter_mut().find(|record| record.face == next_hop).unwrap();
                record.is_directed = true;
            }
            return;
        }
        let strategy = self.strategy(&interest.name);
        strategy.after_receive_interest(self, now, key, arrival, interest);
    }

    /// Passes an Interest to its strategy again if all of its upstreams are gone and there is another.
    pub(super) fn send_again(&mut self, now: Time, key: &PitKey) {
        let entry = &self.pit[key];
        let is_pending = |record: &&OutRecord| record.nack.is_none() && record.expiry > now;
        let pending: Vec<_> = entry.out_records.iter().filter(is_pending).collect();
        let is_lost = pending.iter().all(|record| self.is_gone(record.face))
            && pending.iter().any(|record| !record.is_directed);
        let waiting = entry.in_records.iter().filter(|record| record.expiry > now);
        let waiting = waiting.max_by_key(|record| (record.expiry, Reverse(record.face)));
        let Some(downstream) = waiting.filter(|_| is_lost) else { return };
        let (face, lifetime_ms, strategy) =
            (downstream.face, downstream.lifetime_ms, entry.strategy);
        let sent = entry.out_records.iter().map(|record| record.nonce);
        let nonce = other_nonce(sent.fold(0, u32::wrapping_add));
        let interest = Interest { nonce: Some(nonce), ..entry.interest.clone() };
        let arrival = Arrival::new(face, Packet::Interest(interest.clone()));
        if Strategy::has_next_hop(self, &arrival, &interest) {
            strategy.after_receive_interest(self, now, key, &arrival, &interest);
        }
        for record in self.pit.get_mut(key).iter_mut().flat_map(|entry| &mut entry.out_records) {
            if record.nonce == nonce {
                record.expiry = now + lifetime_ms;
            }
        }
    }

    /// Adds or renews the out-record and sends. Returns whether it did.
    pub(super) fn send_interest(
        &mut self,
        now: Time,
        key: &PitKey,
        arrival: &Arrival,
        interest: &Interest,
        face: Face,
    ) -> bool {
        let spec = self.face(face);
        if interest.hop_limit == Some(0) && !spec.local {
            return false;
        }
        let entry = self.pit.get_mut(key).unwrap();
        let position = entry.out_records.iter().position(|record| record.face == face);
        let record = OutRecord {
            face,
            nonce: interest.nonce.unwrap(),
            renewed: now,
            expiry: now + interest.lifetime_ms.unwrap_or(4000),
            nack: None,
            interval_ms: position.map_or(0, |position| entry.out_records[position].interval_ms),
            is_directed: position.is_some_and(|position| entry.out_records[position].is_directed),
        };
        match position {
            Some(position) => {
                let previous = std::mem::replace(&mut entry.out_records[position], record).nonce;
                if Some(previous) != interest.nonce {
                    let until = now + self.dead_nonce_lifetime_ms;
                    self.dead_nonces.insert((key.0.clone(), previous), until);
                }
            }
            None => entry.out_records.push(record),
        }
        let has_token = match spec.tokens {
            Tokens::Never => false,
            Tokens::Always => true,
            Tokens::WhenSeen => self.token_senders.contains(&face),
        };
        self.depart(Departure {
            face,
            packet: Packet::Interest(interest.clone()),
            token: if has_token { OutToken::Own } else { OutToken::Echo(Vec::new()) },
            mark: arrival.mark,
            incoming_face: spec.local_fields.then_some(arrival.face),
        });
        true
    }
}

/// The Nonce of a copy: SplitMix64's finaliser of the Nonce with bit 32 set, the last four bytes.
fn other_nonce(nonce: u32) -> u32 {
    let bits = ndn_types::random::finalize(u64::from(nonce) + (1 << 32));
    u32::try_from(bits & u64::from(u32::MAX)).unwrap()
}
