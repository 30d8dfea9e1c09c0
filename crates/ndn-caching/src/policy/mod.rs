//! Replacement policies.
//!
//! A policy orders the slots of a cache: numbers below the capacity in entries that the owner of the cache
//! assigns. It holds no objects and has no clock. Several objects may have the same key. After its creation it does not allocate.

mod arc;
mod gdsf;
mod kind;
mod lfu;
mod lru;
mod priority_fifo;
mod random;
mod s3_fifo;
mod sieve;
#[cfg(feature = "vip")]
mod vip_objects;
#[cfg(feature = "vip")]
mod vip_scores;
mod w_tiny_lfu;
mod windowed_lfu;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

pub use kind::{PolicyKind, UnknownPolicy};
#[cfg(feature = "vip")]
pub use vip_objects::{ObjectPolicy, Penalties};
#[cfg(feature = "vip")]
pub use vip_scores::{ScorePolicy, Scores};

/// Number of an object's place in a cache.
pub type Slot = u32;

/// Freshness and origin of a Data packet, for [`PolicyKind::PriorityFifo`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// No Interest was pending for it.
    Unsolicited,
    /// Its FreshnessPeriod has passed, or it has none.
    Stale,
    /// Within its FreshnessPeriod.
    Fresh,
}

/// The properties of an object that a policy uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object {
    /// Identity, for example a hash of the name; need not be uniformly distributed.
    pub key: u64,
    /// Share of the capacity: 1, or a size in the unit of [`Capacity::weight`].
    pub weight: u32,
    /// Freshness and origin.
    pub class: Class,
}

impl Object {
    /// An object of weight 1.
    #[must_use]
    pub const fn unit(key: u64) -> Self {
        Self::sized(key, 1)
    }

    /// An object of some weight.
    #[must_use]
    pub const fn sized(key: u64, weight: u32) -> Self {
        Self { key, weight, class: Class::Fresh }
    }
}

/// Limits of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Maximum sum of the weights.
    pub weight: u64,
    /// Maximum number of objects, and of slots.
    pub entries: u32,
}

impl Capacity {
    /// Up to `entries` objects of weight 1.
    #[must_use]
    pub const fn entries(entries: u32) -> Self {
        Self { weight: entries as u64, entries }
    }
}

/// Worth of an object to a cache, for each byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Worth {
    /// Of keeping it, if it is cached.
    pub kept: u64,
    /// Of admitting it, after the cost of writing it. At most `kept`.
    pub admitted: u64,
}

/// Worth of objects to a cache, by [`Object::key`]; that of others is 0.
pub type ObjectScores = HashMap<u64, Worth>;

/// A replacement policy. The owner of the cache reports every request by `hit` or `miss`. To store an object
/// it calls `evict` until the object fits, then `insert`.
pub trait Policy: fmt::Debug + Send {
    /// A request for the object in `slot`.
    fn hit(&mut self, slot: Slot);

    /// A request for an object that is not cached. A cache that learns the weight of an object when it is
    /// fetched calls it then, before [`evict`](Self::evict).
    fn miss(&mut self, _object: Object) {}

    /// Chooses an object that makes room for `incoming`, and forgets it. `None`: `incoming` is not to be
    /// stored, or there is no object. Without `incoming`, there is a result if there is an object; calls until
    /// there is none return the objects in the order of their eviction.
    fn evict(&mut self, incoming: Option<Object>) -> Option<Slot>;

    /// `object` was stored in `slot`, which was free.
    fn insert(&mut self, slot: Slot, object: Object);

    /// The object in `slot` was removed for another reason than `evict`.
    fn remove(&mut self, slot: Slot);

    /// The class of the object in `slot` changed.
    fn reclassify(&mut self, _slot: Slot, _class: Class) {}

    /// The cache has room for `weight` from now on, at most what the policy was built for. Slots stay.
    fn set_capacity(&mut self, _weight: u64) {}

    /// Scores that are set from outside changed.
    fn rescore(&mut self) {}

    /// Replaces the scores of a policy that orders objects by scores from outside.
    fn set_scores(&mut self, _scores: Arc<ObjectScores>) {}

    /// Whether an object has a score, so that a further tier should have it when it is evicted.
    fn is_scored(&self, _object: Object) -> bool {
        false
    }
}
