//! Sizes of a FIB, and what it refuses.

use std::fmt;

use super::depth_tree::FIB_DEPTH_MAX;
use super::entry::StrategyId;
use crate::NameHasher;

/// Sizes of a FIB.
#[derive(Clone, Debug)]
pub struct FibConfig {
    /// Prefixes with next hops or a strategy choice, at most.
    pub entries_max: usize,
    /// The hasher of the shards.
    pub hasher: NameHasher,
    /// Strategy of `/`.
    pub default_strategy: StrategyId,
}

/// Why a change of the FIB was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FibError {
    /// There are [`FibConfig::entries_max`] prefixes.
    Full,
    /// The prefix has more than [`FIB_DEPTH_MAX`] components.
    TooDeep,
}

impl fmt::Display for FibError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the FIB is full"),
            Self::TooDeep => write!(f, "the prefix has more than {FIB_DEPTH_MAX} components"),
        }
    }
}

impl std::error::Error for FibError {}
