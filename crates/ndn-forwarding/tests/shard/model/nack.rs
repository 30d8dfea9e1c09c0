//! Incoming and outgoing Nacks.

use super::{Arrival, Departure, Face, Link, Model, OutToken, PitKey, Time};
use crate::wire::{Interest, Packet};

impl Model {
    pub(super) fn receive_nack(
        &mut self,
        now: Time,
        arrival: &Arrival,
        reason: u64,
        interest: &Interest,
    ) {
        if self.face(arrival.face).link != Link::PointToPoint {
            return;
        }
        let key = (interest.name.clone(), interest.can_be_prefix, interest.must_be_fresh);
        let gone = self.gone.clone();
        let Some(entry) = self.pit.get_mut(&key) else { return };
        let record = entry.out_records.iter_mut().find(|record| record.face == arrival.face);
        let Some(record) = record else { return };
        if Some(record.nonce) != interest.nonce {
            return;
        }
        record.nack = Some(reason);
        let is_waiting = entry.out_records.iter().any(|record| record.is_awaited(now, &gone));
        let strategy = entry.strategy;
        strategy.after_receive_nack(self, now, &key, arrival);
        if !is_waiting && self.pit.contains_key(&key) {
            self.finalize(&key, None, now);
        }
    }

    /// Sends a Nack to `face`, if it is a downstream whose Interest has not expired, and removes the
    /// in-record.
    pub(super) fn send_nack(
        &mut self,
        now: Time,
        key: &PitKey,
        face: Face,
        reason: u64,
        mark: u64,
    ) {
        let takes_nacks = self.face(face).link == Link::PointToPoint && !self.is_gone(face);
        let entry = self.pit.get_mut(key).unwrap();
        let position = entry.in_records.iter().position(|record| record.face == face);
        let Some(position) = position.filter(|_| takes_nacks) else { return };
        let record = entry.in_records.remove(position);
        if record.expiry <= now {
            return;
        }
        let interest = Interest { nonce: Some(record.nonce), ..entry.interest.clone() };
        self.depart(Departure {
            face,
            packet: Packet::Nack(reason, interest),
            token: OutToken::Echo(record.token),
            mark,
            incoming_face: None,
        });
    }
}
