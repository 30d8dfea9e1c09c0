//! Random numbers that are the same on any machine: SplitMix64 (Steele, Lea, Flood: "Fast Splittable
//! Pseudorandom Number Generators", OOPSLA 2014). They are not secret: some of them reveal all others.

const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser: permutes 64 bits so that all bits of the result depend on all bits of `bits`. 0 stays 0.
#[inline]
#[must_use]
pub const fn finalize(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The first number of the generator whose state is `value`: a hash of it.
#[inline]
#[must_use]
pub const fn mix(value: u64) -> u64 {
    finalize(value.wrapping_add(INCREMENT))
}

/// A generator with a state of 64 bits.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The generator that starts with this state.
    #[must_use]
    pub const fn with_state(state: u64) -> Self {
        Self { state }
    }

    /// The generator of stream `stream` under `seed`.
    #[must_use]
    pub const fn new(seed: u64, stream: u64) -> Self {
        Self::with_state(mix(mix(seed) ^ stream))
    }

    /// The next 64 bits.
    #[inline]
    pub const fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(INCREMENT);
        finalize(self.state)
    }

    /// The next index below `count`, uniform up to a bias of `count` / 2^64; 0 if `count` is 0.
    #[inline]
    pub fn below(&mut self, count: u64) -> u64 {
        let product = u128::from(self.bits()) * u128::from(count);
        u64::try_from(product >> 64).unwrap_or_default()
    }

    /// The next number in the open interval (0, 1).
    #[inline]
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 12) as f64 + 0.5) * (1.0 / (1u64 << 52) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers of the algorithm for the seed 1234567, which its authors' code prints.
    #[test]
    fn generator_gives_the_known_sequence() {
        let mut random = Random::with_state(1_234_567);
        let known =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([random.bits(), random.bits(), random.bits()], known);
        assert_eq!(mix(1_234_567), known[0]);
    }

    #[test]
    fn numbers_stay_in_their_range_and_streams_differ() {
        let mut random = Random::new(7, 0);
        let mean = (0..20_000).map(|_| random.unit()).sum::<f64>() / 20_000.0;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        assert!((0..1000).all(|_| random.below(7) < 7));
        let mixed: std::collections::BTreeSet<u64> = (0..100_000).map(mix).collect();
        assert_eq!(mixed.len(), 100_000, "a permutation");
        assert_ne!(Random::new(7, 0).bits(), Random::new(7, 1).bits());
        assert_ne!(Random::new(7, 0).bits(), Random::new(8, 0).bits());
    }
}
