//! [`CsReplacement`]: a replacement policy with the memory that it needs, and [`Replacement`]: the one in force.

use std::sync::Arc;

use ndn_caching::{Capacity, Class, Object, Policy, PolicyKind};
use ndn_types::Timestamp;

use crate::timer_wheel::TimerWheel;
use crate::{DataKey, ObjectRules};

/// Maximum number of timer records for one slot (priority FIFO).
pub(super) const TIMERS_PER_ENTRY_MAX: u8 = 2;

/// The objects that a policy orders: all are single packets in the Content Store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CsObjects {
    /// Packets of weight 1; the key is the hash of the name.
    Packets,
    /// Packets whose weight is their length in bytes; the key is the hash of the name.
    Sized,
    /// Packets of weight 1; the key is that of the object that they belong to by these rules.
    Segments(Arc<ObjectRules>),
}

/// A replacement policy with the memory that it needs, so that the thread that puts it in force does not allocate.
#[derive(Debug)]
pub struct CsReplacement {
    pub(super) kind: PolicyKind,
    pub(super) objects: CsObjects,
    /// `None` for LRU and priority FIFO, which are queues through the headers.
    pub(super) policy: Option<Box<dyn Policy>>,
    /// Freshness timers of priority FIFO.
    pub(super) wheel: Option<TimerWheel>,
}

impl CsReplacement {
    /// The policy `kind` for a Content Store of up to `packets`. `now` is the current time.
    #[must_use]
    pub fn new(kind: PolicyKind, packets: u32, now: Timestamp) -> Self {
        let is_gdsf = kind == PolicyKind::Gdsf;
        let objects = if is_gdsf { CsObjects::Sized } else { CsObjects::Packets };
        if kind == PolicyKind::PriorityFifo {
            let timers = packets as usize * usize::from(TIMERS_PER_ENTRY_MAX);
            Self { kind, objects, policy: None, wheel: Some(TimerWheel::new(timers, now)) }
        } else if kind == PolicyKind::Lru {
            Self { kind, objects, policy: None, wheel: None }
        } else {
            Self::with_policy(kind, objects, kind.build(Capacity::entries(packets)))
        }
    }

    /// VIP for a Content Store of up to `packets`, whose objects are those of the rules.
    #[must_use]
    pub fn vip(packets: u32, rules: Arc<ObjectRules>) -> Self {
        let policy = PolicyKind::Vip.build(Capacity::entries(packets));
        Self::with_policy(PolicyKind::Vip, CsObjects::Segments(rules), policy)
    }

    /// A policy that was built for [`Capacity::entries`] of the packets of the Content Store. `kind` is what is reported.
    ///
    /// # Panics
    /// If `kind` is LRU or priority FIFO.
    #[must_use]
    pub fn with_policy(kind: PolicyKind, objects: CsObjects, policy: Box<dyn Policy>) -> Self {
        let is_queue = matches!(kind, PolicyKind::Lru | PolicyKind::PriorityFifo);
        assert!(!is_queue, "{kind} is no policy object");
        Self { kind, objects, policy: Some(policy), wheel: None }
    }
}

/// The policy in force, and the one before it during a change.
#[derive(Debug)]
pub(super) struct Replacement {
    pub(super) kind: PolicyKind,
    pub(super) objects: CsObjects,
    /// The policy object in force; `None` for LRU and priority FIFO.
    pub(super) current: Option<Box<dyn Policy>>,
    /// Capacity that `current` was given.
    pub(super) capacity: usize,
    /// A policy object that still has Data. Until it has none, `current` has none either.
    pub(super) former: Option<Box<dyn Policy>>,
    /// The next slot whose Data gets a freshness timer, after a change to priority FIFO.
    pub(super) unscheduled: Option<u32>,
    /// Whether there is memory for freshness timers.
    pub(super) has_timers: bool,
    /// Whether a change is in progress.
    pub(super) is_changing: bool,
}

impl Replacement {
    /// Starts without Data; `packets` is the capacity.
    pub(super) fn new(
        kind: PolicyKind,
        objects: CsObjects,
        policy: Option<Box<dyn Policy>>,
        packets: usize,
    ) -> Self {
        Self {
            kind,
            objects,
            current: policy,
            capacity: packets,
            former: None,
            unscheduled: None,
            has_timers: kind == PolicyKind::PriorityFifo,
            is_changing: false,
        }
    }

    /// Whether a policy object is in force.
    #[inline(always)]
    pub(super) fn is_object(&self) -> bool {
        self.current.is_some()
    }

    /// The policy object that has the Data which are in no queue.
    pub(super) fn holder(&mut self) -> Option<&mut Box<dyn Policy>> {
        self.former.as_mut().or(self.current.as_mut())
    }

    /// The key of the object that a Data belongs to.
    pub(super) fn key(&self, key: &DataKey<'_>) -> u64 {
        match &self.objects {
            CsObjects::Segments(rules) => rules.object(key.name(), key.hashes()).key(key.hashes()),
            CsObjects::Packets | CsObjects::Sized => key.name_hash(),
        }
    }

    /// Whether the policy object in force has a score of an object.
    pub(super) fn is_scored(&self, object: Object) -> bool {
        self.current.as_ref().is_some_and(|policy| policy.is_scored(object))
    }

    /// A packet of some length in bytes, as the policy object in force gets it.
    pub(super) fn object(&self, key: u64, length: usize) -> Object {
        let weight = match self.objects {
            CsObjects::Sized => u32::try_from(length).unwrap_or(u32::MAX),
            CsObjects::Packets | CsObjects::Segments(_) => 1,
        };
        Object { key, weight, class: Class::Fresh }
    }
}
