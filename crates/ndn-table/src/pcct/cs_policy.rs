//! Policies of `ndn-caching` in the Content Store, and the change from one policy to another.
//!
//! LRU and priority FIFO are queues through the headers. Every other policy is an object that orders the slots of the
//! headers. After a change, [`Cs::poll`] hands the Data over in steps, in the order in which the former policy would evict
//! them: from a former policy object to the main queue, then from the queues to the policy object in force. Data that
//! are still in a queue are evicted first.

use std::sync::Arc;

use ndn_caching::{Object, ObjectScores};
use ndn_disk::Packet;
use ndn_packet::NameRef;
use ndn_types::Timestamp;

use super::config::CsError;
use super::cs::{Cs, EVICTIONS_PER_INSERT_MAX, NewData};
use super::cs_entry::{CsIndex, QueueKind};
use super::cs_replacement::{CsObjects, CsReplacement, Replacement};
use super::packet_name::packet_name;
use crate::arena::NONE;
use crate::byte_slab::DIGEST_LENGTH;
use crate::hash_index::HashIndex;
use crate::{DataKey, PREFIX_HASHES_MAX};

/// Steps of a change that are done with it.
const FIRST_STEPS: usize = 256;

/// Change of the policy.
impl Cs {
    /// Puts another policy in force. Nothing is evicted.
    pub(super) fn set_replacement(&mut self, new: CsReplacement, now: Timestamp) {
        let CsReplacement { kind, objects, policy, wheel } = new;
        let capacity = self.entries.capacity();
        let replacement = &mut self.replacement;
        let former = std::mem::replace(&mut replacement.current, policy);
        if replacement.former.is_none() {
            replacement.former = former;
        }
        replacement.kind = kind;
        replacement.objects = objects;
        replacement.capacity = capacity;
        replacement.is_changing = true;
        replacement.unscheduled = wheel.is_some().then_some(0);
        // The entries count the records of a wheel, which stays when another policy follows.
        if let Some(wheel) = wheel
            && !replacement.has_timers
        {
            self.wheel = wheel;
            replacement.has_timers = true;
        }
        for _ in 0..FIRST_STEPS {
            if !self.hand_over(now) {
                break;
            }
        }
    }

    /// One step of a change of policy. Returns false if there is none left.
    #[cold]
    pub(super) fn hand_over(&mut self, now: Timestamp) -> bool {
        if let Some(former) = &mut self.replacement.former {
            match former.evict(None) {
                Some(slot) => self.enqueue(slot, true, now),
                None => self.replacement.former = None,
            }
            return true;
        }
        if self.replacement.is_object()
            && let Some(slot) = self.queues.victim()
        {
            self.leave_queue(slot);
            let object = self.object_in(slot);
            self.give_to_policy(slot, object);
            return true;
        }
        if let Some(slot) = self.replacement.unscheduled
            && let Some(entry) = self.entries.slots().get(slot as usize)
        {
            self.replacement.unscheduled = Some(slot + 1);
            if entry.is_in_use && entry.queue == QueueKind::Main && entry.timer_count == 0 {
                if entry.is_fresh(now) {
                    self.schedule_stale(slot, now);
                } else {
                    self.requeue(slot, QueueKind::Stale);
                }
            }
            return true;
        }
        self.replacement.is_changing = false;
        false
    }
}

/// Events for the policy object in force.
impl Cs {
    /// Inserts a copy of a Data.
    #[cold]
    pub(super) fn insert_by_policy(
        &mut self,
        index: &mut HashIndex,
        key: &DataKey<'_>,
        arrival: &NewData<'_>,
        fresh_until: Timestamp,
    ) -> Result<CsIndex, CsError> {
        let wire = arrival.wire;
        let object = self.replacement.object(self.replacement.key(key), wire.len());
        if arrival.solicited
            && let Some(policy) = &mut self.replacement.current
        {
            // An Interest found none.
            policy.miss(object);
        }
        let length = wire.len() + DIGEST_LENGTH;
        let allocated = self.allocate_for(index, length, Some(object), EVICTIONS_PER_INSERT_MAX);
        let slot = match allocated {
            Err(CsError::Refused) => {
                // As if it had been cached and evicted at once.
                let is_scored = self.replacement.is_scored(object);
                if let Some(disk) = &mut self.disk {
                    disk.offer(key.name_hash(), Packet { wire, fresh_until }, is_scored);
                }
                return Err(CsError::Refused);
            }
            allocated => allocated?,
        };
        self.add_to_index(index, key, slot)?;
        self.fill(index, key, wire, slot, fresh_until);
        self.enqueue_object(slot, object);
        self.counters.insertions += 1;
        Ok(CsIndex(slot))
    }

    /// Adds Data that are in no queue.
    #[cold]
    pub(super) fn enqueue_by_policy(&mut self, slot: u32) {
        let object = self.object_in(slot);
        self.enqueue_object(slot, object);
    }

    /// Adds Data to the policy object, or to the main queue while a former policy object has Data.
    fn enqueue_object(&mut self, slot: u32, object: Object) {
        if self.replacement.former.is_some() {
            self.queues.push(self.entries.slots_mut(), slot, QueueKind::Main);
        } else {
            self.give_to_policy(slot, object);
        }
    }

    fn give_to_policy(&mut self, slot: u32, object: Object) {
        let entry = &mut self.entries[slot];
        entry.queue = QueueKind::Policy;
        // No Data follows it in a queue.
        entry.newer = NONE;
        if let Some(policy) = &mut self.replacement.current {
            policy.insert(slot, object);
        }
    }

    fn object_in(&self, slot: u32) -> Object {
        let packet = self.packet(slot);
        let mut key = self.entries[slot].hash;
        if matches!(self.replacement.objects, CsObjects::Segments(_)) {
            let name = packet_name(packet);
            let mut hashes = [0; PREFIX_HASHES_MAX];
            if let Some(count) = self.hasher.hash_value_prefixes(name, &mut hashes)
                && let Ok(name) = NameRef::from_value(name)
            {
                key = self.replacement.key(&DataKey::new(name, &hashes[..count]));
            }
        }
        self.replacement.object(key, packet.len())
    }

    /// An Interest was satisfied, or the Data arrived again.
    #[cold]
    pub(super) fn note_hit(&mut self, slot: u32) {
        if self.entries[slot].queue != QueueKind::Policy {
            self.requeue(slot, QueueKind::Main);
        } else if let Some(policy) = self.replacement.holder() {
            policy.hit(slot);
        }
    }

    /// Data that the policy object has are removed.
    #[cold]
    pub(super) fn forget_by_policy(&mut self, slot: u32) {
        if let Some(policy) = self.replacement.holder() {
            policy.remove(slot);
        }
    }

    /// Takes out the choice of the policy object, to make room for `incoming` if there is one.
    #[cold]
    pub(super) fn choose_by_policy(&mut self, incoming: Option<Object>) -> Result<u32, CsError> {
        let len = self.entries.len();
        let Replacement { current, former, capacity, .. } = &mut self.replacement;
        if let Some(victim) = former.as_mut().and_then(|former| former.evict(None)) {
            return Ok(victim);
        }
        let Some(policy) = current.as_mut().filter(|_| len > 0) else { return Err(CsError::Full) };
        // The limit of bytes applies, or the capacity was changed: the policy divides the room that there is.
        if *capacity != len {
            *capacity = len;
            policy.set_capacity(len as u64);
        }
        policy.evict(incoming).ok_or(CsError::Refused)
    }

    /// Gives the policy in force other scores, if it orders objects by scores from outside.
    pub(super) fn set_scores(&mut self, scores: Arc<ObjectScores>) {
        if let Some(policy) = &mut self.replacement.current {
            policy.set_scores(scores);
        }
    }

    /// Whether the object of a Data has a score.
    pub(super) fn is_scored(&self, slot: u32) -> bool {
        self.replacement.current.is_some() && self.replacement.is_scored(self.object_in(slot))
    }

    /// The slots that policy objects have, in no order.
    pub(super) fn slots_of_policy(&self) -> impl Iterator<Item = u32> {
        let slots = (0..).zip(self.entries.slots());
        slots
            .filter(|(_, entry)| entry.is_in_use && entry.queue == QueueKind::Policy)
            .map(|(slot, _)| slot)
    }
}
