//! Reproducible randomness.

/// Reproducible random numbers.
#[derive(Clone, Debug)]
pub struct Random(ndn_types::random::Random);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(ndn_types::random::Random::with_state(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.bits()
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}
