//! Replacement policies.
//!
//! A policy orders the slots of a cache: numbers below the capacity in entries that the owner of the cache
//! assigns. It holds no objects and has no clock. After its creation it does not allocate.

mod arc;
mod gdsf;
mod lfu;
mod lru;
mod priority_fifo;
mod random;
mod s3_fifo;
mod sieve;
mod w_tiny_lfu;
mod windowed_lfu;

use std::fmt;
use std::str::FromStr;

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

/// What a policy knows about an object.
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

/// A replacement policy. The owner of the cache reports every request by `hit` or `miss`. To store an object
/// it calls `evict` until the object fits, then `insert`.
pub trait Policy: fmt::Debug + Send {
    /// A request for the object in `slot`.
    fn hit(&mut self, slot: Slot);

    /// A request for an object that is not cached.
    fn miss(&mut self, _object: Object) {}

    /// Chooses an object that makes room for `incoming`, and forgets it. `None`: `incoming` is not to be
    /// stored, or there is no object.
    fn evict(&mut self, incoming: Object) -> Option<Slot>;

    /// `object` was stored in `slot`, which was free.
    fn insert(&mut self, slot: Slot, object: Object);

    /// The object in `slot` was removed for another reason than `evict`.
    fn remove(&mut self, slot: Slot);

    /// The class of the object in `slot` changed.
    fn reclassify(&mut self, _slot: Slot, _class: Class) {}

    /// Scores that are set from outside changed.
    fn rescore(&mut self) {}
}

/// The policies that [`PolicyKind::build`] makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PolicyKind {
    /// Least recently used.
    Lru,
    /// Three queues: unsolicited, stale, fresh, each in order of arrival (NFD's default).
    PriorityFifo,
    /// Least frequently used; counts are halved when their mean exceeds a limit.
    Lfu,
    /// Least frequently used among the last requests, with admission.
    WindowedLfu,
    /// LRU window before a segmented LRU with admission by a frequency sketch.
    WTinyLfu,
    /// Small and main FIFO queue with a queue of evicted keys.
    S3Fifo,
    /// FIFO queue with a hand that evicts what was not requested since its last visit.
    Sieve,
    /// Adaptive replacement cache.
    Arc,
    /// Greedy dual, size and frequency: keeps small and frequent objects.
    Gdsf,
    /// A uniformly random object (UNIF in the VIP papers).
    Random,
}

impl PolicyKind {
    /// All policies.
    pub const ALL: [Self; 10] = [
        Self::Lru,
        Self::PriorityFifo,
        Self::Lfu,
        Self::WindowedLfu,
        Self::WTinyLfu,
        Self::S3Fifo,
        Self::Sieve,
        Self::Arc,
        Self::Gdsf,
        Self::Random,
    ];

    /// The name, in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::PriorityFifo => "priority-fifo",
            Self::Lfu => "lfu",
            Self::WindowedLfu => "windowed-lfu",
            Self::WTinyLfu => "w-tinylfu",
            Self::S3Fifo => "s3-fifo",
            Self::Sieve => "sieve",
            Self::Arc => "arc",
            Self::Gdsf => "gdsf",
            Self::Random => "random",
        }
    }

    /// Builds the policy for a cache.
    #[must_use]
    pub fn build(self, capacity: Capacity) -> Box<dyn Policy> {
        match self {
            Self::Lru => Box::new(lru::Lru::new(capacity)),
            Self::PriorityFifo => Box::new(priority_fifo::PriorityFifo::new(capacity)),
            Self::Lfu => Box::new(lfu::Lfu::new(capacity)),
            Self::WindowedLfu => Box::new(windowed_lfu::WindowedLfu::new(capacity)),
            Self::WTinyLfu => Box::new(w_tiny_lfu::WTinyLfu::new(capacity)),
            Self::S3Fifo => Box::new(s3_fifo::S3Fifo::new(capacity)),
            Self::Sieve => Box::new(sieve::Sieve::new(capacity)),
            Self::Arc => Box::new(arc::Arc::new(capacity)),
            Self::Gdsf => Box::new(gdsf::Gdsf::new(capacity)),
            Self::Random => Box::new(random::Uniform::new(capacity)),
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// An unknown name of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPolicy(String);

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<_> = PolicyKind::ALL.iter().map(|kind| kind.name()).collect();
        write!(formatter, "unknown cache policy '{}'; known: {}", self.0, known.join(", "))
    }
}

impl std::error::Error for UnknownPolicy {}

impl FromStr for PolicyKind {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        let known = Self::ALL.into_iter().find(|kind| kind.name() == name);
        known.ok_or_else(|| UnknownPolicy(name.to_owned()))
    }
}
