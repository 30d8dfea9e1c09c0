//! The policies by name.

use std::fmt;
use std::str::FromStr;

use super::{Capacity, Policy};

/// The policies by name.
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
    /// Whole objects by the scores of VIP, which is patented in the United States (US 12155738 B2).
    Vip,
}

impl PolicyKind {
    /// The policies that decide by what a single cache observes: all but VIP.
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

    fn named() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().chain([Self::Vip])
    }

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
            Self::Vip => "vip",
        }
    }

    /// Maximum memory for each entry of the capacity, in bytes.
    #[must_use]
    pub const fn entry_bytes_max(self) -> usize {
        match self {
            Self::Lru => 12,
            Self::PriorityFifo | Self::Sieve => 13,
            Self::Lfu => 28,
            Self::WindowedLfu => 1100,
            Self::WTinyLfu => 32,
            Self::S3Fifo => 75,
            Self::Arc => 170,
            Self::Gdsf => 36,
            Self::Random => 8,
            Self::Vip => 110,
        }
    }

    /// Builds the policy for a cache. Without the cargo feature `vip`, VIP is LRU; configurations refuse it then.
    #[must_use]
    pub fn build(self, capacity: Capacity) -> Box<dyn Policy> {
        match self {
            Self::Lru => Box::new(super::lru::Lru::new(capacity)),
            Self::PriorityFifo => Box::new(super::priority_fifo::PriorityFifo::new(capacity)),
            Self::Lfu => Box::new(super::lfu::Lfu::new(capacity)),
            Self::WindowedLfu => Box::new(super::windowed_lfu::WindowedLfu::new(capacity)),
            Self::WTinyLfu => Box::new(super::w_tiny_lfu::WTinyLfu::new(capacity)),
            Self::S3Fifo => Box::new(super::s3_fifo::S3Fifo::new(capacity)),
            Self::Sieve => Box::new(super::sieve::Sieve::new(capacity)),
            Self::Arc => Box::new(super::arc::Arc::new(capacity)),
            Self::Gdsf => Box::new(super::gdsf::Gdsf::new(capacity)),
            Self::Random => Box::new(super::random::Uniform::new(capacity)),
            #[cfg(feature = "vip")]
            Self::Vip => Box::new(super::ObjectPolicy::new(capacity)),
            #[cfg(not(feature = "vip"))]
            Self::Vip => Box::new(super::lru::Lru::new(capacity)),
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
        let known: Vec<_> = PolicyKind::named().map(PolicyKind::name).collect();
        write!(formatter, "unknown cache policy '{}'; known: {}", self.0, known.join(", "))
    }
}

impl std::error::Error for UnknownPolicy {}

impl FromStr for PolicyKind {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        let known = Self::named().find(|kind| kind.name() == name);
        known.ok_or_else(|| UnknownPolicy(name.to_owned()))
    }
}
