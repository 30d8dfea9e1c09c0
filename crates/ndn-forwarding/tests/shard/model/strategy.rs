//! The strategies best-route and multicast.

use super::{Arrival, Face, Link, Model, PitKey, Time, is_under};
use crate::wire::{Interest, NO_ROUTE};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    BestRoute(Suppression),
    Multicast(Suppression),
}

/// Retransmission suppression: intervals that grow by a factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suppression {
    pub initial_ms: u64,
    pub max_ms: u64,
    pub multiplier: u64,
}

impl Default for Suppression {
    fn default() -> Self {
        Self { initial_ms: 10, max_ms: 250, multiplier: 2 }
    }
}

impl Suppression {
    fn next(self, interval_ms: u64) -> u64 {
        (interval_ms * self.multiplier).min(self.max_ms)
    }
}

impl Strategy {
    pub fn best_route() -> Self {
        Self::BestRoute(Suppression::default())
    }

    pub fn multicast() -> Self {
        Self::Multicast(Suppression::default())
    }

    pub(super) fn after_receive_interest(
        self,
        model: &mut Model,
        now: Time,
        key: &PitKey,
        arrival: &Arrival,
        interest: &Interest,
    ) {
        let eligible = eligible(model, arrival, interest);
        match self {
            Self::BestRoute(suppression) => {
                best_route(suppression, model, now, key, arrival, interest, &eligible);
            }
            Self::Multicast(suppression) => {
                let mut insists = None;
                for hop in eligible {
                    let hop = (hop, &mut insists);
                    multicast(suppression, model, now, key, arrival, interest, hop);
                }
            }
        }
    }

    pub(super) fn has_next_hop(model: &Model, arrival: &Arrival, interest: &Interest) -> bool {
        !eligible(model, arrival, interest).is_empty()
    }

    pub(super) fn after_receive_nack(
        self,
        model: &mut Model,
        now: Time,
        key: &PitKey,
        arrival: &Arrival,
    ) {
        if let Self::Multicast(_) = self {
            return;
        }
        let records = &model.pit[key].out_records;
        let waiting: Vec<Face> = records
            .iter()
            .filter(|record| record.nack.is_none() && !model.is_gone(record.face))
            .map(|record| record.face)
            .collect();
        // 0 means "no reason", the most severe.
        let reasons = records.iter().filter_map(|record| record.nack);
        let reason = reasons.min_by_key(|&reason| if reason == 0 { u64::MAX } else { reason });
        let reason = reason.unwrap_or(0);
        let downstreams: Vec<Face> = model.pit[key].in_records.iter().map(|r| r.face).collect();
        match waiting[..] {
            [] => {
                for face in downstreams {
                    model.send_nack(now, key, face, reason, arrival.mark);
                }
            }
            [face] if downstreams.contains(&face) => {
                model.send_nack(now, key, face, reason, arrival.mark);
            }
            _ => {}
        }
    }
}

fn eligible(model: &Model, arrival: &Arrival, interest: &Interest) -> Vec<Face> {
    let hops = model.next_hops(interest);
    let hops = hops.iter().map(|&(face, _)| face);
    hops.filter(|&hop| is_eligible(model, arrival, interest, hop)).collect()
}

fn is_eligible(model: &Model, arrival: &Arrival, interest: &Interest, hop: Face) -> bool {
    if model.is_gone(hop) {
        return false;
    }
    let out = model.face(hop);
    let from_local = model.face(arrival.face).local;
    let violates_scope = !out.local
        && (is_under(&interest.name, "localhost")
            || (is_under(&interest.name, "localhop") && !from_local));
    !violates_scope && (hop != arrival.face || out.link == Link::AdHoc)
}

fn best_route(
    suppression: Suppression,
    model: &mut Model,
    now: Time,
    key: &PitKey,
    arrival: &Arrival,
    interest: &Interest,
    eligible: &[Face],
) {
    let gone = model.gone.clone();
    let entry = model.pit.get_mut(key).unwrap();
    if !entry.out_records.iter().any(|record| record.is_awaited(now, &gone)) {
        match eligible.first() {
            Some(&hop) => {
                model.send_interest(now, key, arrival, interest, hop);
            }
            None => {
                model.send_nack(now, key, arrival.face, NO_ROUTE, 0);
                model.finalize(key, None, now);
            }
        }
        return;
    }
    let last_sent = entry.out_records.iter().map(|record| record.renewed).max().unwrap();
    let interval_ms = entry.interval_ms.unwrap_or(suppression.initial_ms);
    if now - last_sent < interval_ms {
        if !entry.insists(arrival.face) {
            return;
        }
    } else {
        entry.interval_ms = Some(suppression.next(interval_ms));
    }
    let record_of = |hop: Face| entry.out_records.iter().find(|record| record.face == hop);
    let unused = eligible.iter().find(|&&hop| record_of(hop).is_none_or(|r| r.expiry <= now));
    let earliest = || eligible.iter().min_by_key(|&&hop| record_of(hop).map(|r| r.renewed));
    if let Some(&hop) = unused.or_else(earliest) {
        model.send_interest(now, key, arrival, interest, hop);
    }
}

fn multicast(
    suppression: Suppression,
    model: &mut Model,
    now: Time,
    key: &PitKey,
    arrival: &Arrival,
    interest: &Interest,
    (hop, insists): (Face, &mut Option<bool>),
) {
    let records = &model.pit[key].out_records;
    let Some(record) = records.iter().find(|record| record.face == hop) else {
        model.send_interest(now, key, arrival, interest, hop);
        return;
    };
    let interval_ms = record.interval_ms.max(suppression.initial_ms);
    let is_due = now - record.renewed >= interval_ms;
    let entry = model.pit.get_mut(key).unwrap();
    let is_sent = is_due || *insists.get_or_insert_with(|| entry.insists(arrival.face));
    if is_sent && model.send_interest(now, key, arrival, interest, hop) {
        let records = &mut model.pit.get_mut(key).unwrap().out_records;
        let record = records.iter_mut().find(|record| record.face == hop).unwrap();
        if is_due {
            record.interval_ms = suppression.next(interval_ms);
        }
        record.is_directed = false;
    }
}

impl Strategy {
    /// Best-route with parameters other than the defaults.
    pub fn best_route_without_timeout() -> Self {
        Self::BestRoute(Suppression { initial_ms: 50, max_ms: 300, multiplier: 3 })
    }

    /// Its strategy name.
    pub fn uri(self) -> String {
        let (name, Suppression { initial_ms, max_ms, multiplier }) = match self {
            Self::BestRoute(suppression) => ("best-route", suppression),
            Self::Multicast(suppression) => ("multicast", suppression),
        };
        format!(
            "/localhost/nfd/strategy/{name}/v=5/retx-suppression-initial~{initial_ms}\
             /retx-suppression-max~{max_ms}/retx-suppression-multiplier~{multiplier}"
        )
    }
}
