//! Fast random numbers, and weighted choice.

/// The random numbers of a generator.
#[derive(Debug, Clone)]
pub(crate) struct Random(ndn_types::random::Random);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(ndn_types::random::Random::with_state(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.bits()
    }

    /// Four random bytes.
    pub(crate) fn nonce(&mut self) -> [u8; 4] {
        let [a, b, c, d, ..] = self.next().to_be_bytes();
        [a, b, c, d]
    }

    /// A number below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        let high = (self.next() >> 32) * u64::from(bound);
        u32::try_from(high >> 32).unwrap_or(0)
    }

    /// A number from 0 (included) to 1 (excluded).
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// An exponentially distributed number with mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }
}

/// Draws indices by weight in constant time (Walker's alias method, tables after Vose 1991).
#[derive(Debug, Clone)]
pub(crate) struct Alias {
    /// Probability to keep an index, and the index to take otherwise.
    cells: Vec<(f64, u32)>,
}

impl Alias {
    /// `weights` is not empty, has no negative number, and a positive sum.
    pub(crate) fn new(weights: &[f64]) -> Self {
        let count = u32::try_from(weights.len()).unwrap_or(u32::MAX);
        let scale = f64::from(count) / weights.iter().sum::<f64>();
        let mut cells: Vec<(f64, u32)> =
            (0..count).zip(weights).map(|(index, weight)| (weight * scale, index)).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..count).partition(|index| cells[*index as usize].0 < 1.0);
        while let (Some(low), Some(high)) = (small.pop(), large.pop()) {
            cells[low as usize].1 = high;
            let rest = cells[high as usize].0 + cells[low as usize].0 - 1.0;
            cells[high as usize].0 = rest;
            if rest < 1.0 { small.push(high) } else { large.push(high) }
        }
        // The rest differs from 1 by rounding only.
        for index in small.into_iter().chain(large) {
            cells[index as usize].0 = 1.0;
        }
        Self { cells }
    }

    /// Weights 1, 1/2^s, 1/3^s, ... of `count` ranks.
    pub(crate) fn zipf(count: u32, exponent: f64) -> Self {
        let weights: Vec<f64> = (1..=count).map(|rank| f64::from(rank).powf(-exponent)).collect();
        Self::new(&weights)
    }

    pub(crate) fn draw(&self, random: &mut Random) -> u32 {
        if self.cells.len() == 1 {
            return 0;
        }
        let index = random.below(u32::try_from(self.cells.len()).unwrap_or(u32::MAX));
        let (keep, other) = self.cells[index as usize];
        if random.unit() < keep { index } else { other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frequencies(alias: &Alias, count: usize, draws: u32) -> Vec<f64> {
        let mut random = Random::new(7);
        let mut seen = vec![0.0; count];
        for _ in 0..draws {
            seen[alias.draw(&mut random) as usize] += 1.0 / f64::from(draws);
        }
        seen
    }

    #[test]
    fn weights_determine_frequencies() {
        let seen = frequencies(&Alias::new(&[1.0, 0.0, 3.0, 4.0]), 4, 400_000);
        for (seen, requested) in seen.iter().zip([0.125, 0.0, 0.375, 0.5]) {
            assert!((seen - requested).abs() < 0.005, "{seen} instead of {requested}");
        }
    }

    #[test]
    fn zipf_ranks_follow_the_distribution() {
        let seen = frequencies(&Alias::zipf(1000, 1.0), 1000, 1_000_000);
        let harmonic: f64 = (1..=1000).map(|rank| 1.0 / f64::from(rank)).sum();
        for rank in [1_u32, 2, 3, 10] {
            let requested = 1.0 / (f64::from(rank) * harmonic);
            let found = seen[rank as usize - 1];
            assert!(
                (found / requested - 1.0).abs() < 0.05,
                "rank {rank}: {found}, not {requested}"
            );
        }
    }

    #[test]
    fn exponential_has_mean_one() {
        let mut random = Random::new(3);
        let mean = (0..200_000).map(|_| random.exponential()).sum::<f64>() / 200_000.0;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
    }
}
