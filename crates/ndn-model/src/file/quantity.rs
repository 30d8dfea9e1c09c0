//! Quantities with units, counts and ratios of model files.

use serde::Deserialize;
use serde::de::{self, Deserializer};
use serde_spanned::Spanned;

use crate::units;

/// Picoseconds that times may reach: 11 days.
pub(super) const TIME_MAX: f64 = 1e18;

macro_rules! quantity {
    ($name:ident, $parse:path, $least:expr, $most:expr, $reason:literal) => {
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub(super) struct $name(pub(super) f64);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                let value = $parse(&text).map_err(de::Error::custom)?;
                if !($least..=$most).contains(&value) {
                    return Err(de::Error::custom(format!("\"{text}\": {}", $reason)));
                }
                Ok(Self(value))
            }
        }
    };
}

quantity!(Duration, units::duration_ps, 0.0, TIME_MAX, "a duration is below 11 days");
quantity!(Rate, units::rate, 1e-6, 1e12, "a rate is above zero, at most 1000 G/s");
quantity!(BitRate, units::bit_rate, 1.0, 1e15, "a bit rate is at least 1 bit/s");
quantity!(Size, units::size, 0.0, 1e6, "a size is at most 1 MB");

/// A number of things, at least one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Count<const MAX: usize = 100_000_000>(pub(super) usize);

/// A number of threads, producers or phases: each of them takes memory, or time.
pub(super) type FewCount = Count<PARTS_MAX>;

/// Threads, consumers and producers at most; their numbers have 16 bits.
pub(super) const PARTS_MAX: usize = 1000;
/// Prefixes of a consumer at most, and numbers of prefixes.
pub(super) const PREFIXES_MAX: usize = 1 << 20;

impl<'de, const MAX: usize> Deserialize<'de> for Count<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = i64::deserialize(deserializer)?;
        match usize::try_from(value) {
            Ok(count) if (1..=MAX).contains(&count) => Ok(Self(count)),
            _ => Err(de::Error::custom(format!("{value} is not a count from 1 to {MAX}"))),
        }
    }
}

/// The count at a key of the file, or what it is without one.
pub(super) fn count<const MAX: usize>(
    value: &Option<Spanned<Count<MAX>>>,
    default: usize,
) -> usize {
    value.as_ref().map_or(default, |spanned| spanned.get_ref().0)
}

/// A number from 0 to 1.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ratio(pub(super) f64);

impl<'de> Deserialize<'de> for Ratio {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(deserializer)?;
        if !(0.0..=1.0).contains(&value) {
            return Err(de::Error::custom(format!("{value} is not a ratio from 0 to 1")));
        }
        Ok(Self(value))
    }
}
