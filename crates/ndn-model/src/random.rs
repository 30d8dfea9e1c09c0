//! Counter-based random numbers: a draw is a function of (seed, trace, stream, index).
//!
//! No generator has a state that advances, so two engines that evaluate packets in a different order,
//! two designs that are compared, and any number of threads see the same numbers: these are the common
//! random numbers of a comparison.

/// Identifies what a random number is used for, for example "service times of forwarding thread 3".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// The random numbers of one trace (one independent simulation run).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceRandom {
    seed: u64,
    trace: u32,
}

impl TraceRandom {
    /// The numbers of trace `trace` under `seed`.
    #[must_use]
    pub const fn new(seed: u64, trace: u32) -> Self {
        Self { seed, trace }
    }

    /// The draw with number `index` of `stream`.
    #[inline]
    #[must_use]
    pub const fn draw(self, stream: StreamId, index: u64) -> Draw {
        Draw { random: self, stream, index, lane: 0, spare: None }
    }

    /// One block of 128 bits. A `lane` distinguishes further blocks of the same draw.
    #[inline]
    const fn block(self, stream: StreamId, index: u64, lane: u16) -> [u64; 2] {
        // 48 bits of index: at 100 M packets/s, a month of simulated time in one trace.
        let counter =
            [low(index), (low(index >> 32) & 0xffff) | ((lane as u32) << 16), stream.0, self.trace];
        let [a, b, c, d] = philox4x32_10(counter, [low(self.seed), low(self.seed >> 32)]);
        [(b as u64) << 32 | a as u64, (d as u64) << 32 | c as u64]
    }
}

/// One draw: as many uniform numbers as a distribution needs for one variate.
#[derive(Debug, Clone)]
pub struct Draw {
    random: TraceRandom,
    stream: StreamId,
    index: u64,
    lane: u16,
    spare: Option<u64>,
}

impl Draw {
    /// The next 64 bits of this draw.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        if let Some(bits) = self.spare.take() {
            return bits;
        }
        let [first, second] = self.random.block(self.stream, self.index, self.lane);
        self.lane = self.lane.wrapping_add(1);
        self.spare = Some(second);
        first
    }

    /// The next number of this draw in the open interval (0, 1).
    #[inline]
    pub fn unit(&mut self) -> f64 {
        to_unit(self.bits())
    }

    /// An index below `count`, uniform up to a bias of `count` / 2^64.
    #[inline]
    pub fn below(&mut self, count: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(count)) >> 64) as u64
    }

    /// A standard normal variate, by inversion.
    pub fn normal(&mut self) -> f64 {
        crate::special::normal_quantile(self.unit())
    }
}

/// Maps 64 bits to the midpoints of 2^52 cells of (0, 1).
#[inline]
pub(crate) fn to_unit(bits: u64) -> f64 {
    ((bits >> 12) as f64 + 0.5) * (1.0 / (1u64 << 52) as f64)
}

#[inline]
const fn low(word: u64) -> u32 {
    word as u32
}

/// Philox4x32 with ten rounds (Salmon, Moraes, Dror, Shaw: "Parallel Random Numbers: As Easy as 1, 2,
/// 3", SC 2011).
#[inline]
const fn philox4x32_10(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    let mut round = 0;
    while round < 10 {
        let product0 = 0xd251_1f53 * counter[0] as u64;
        let product1 = 0xcd9e_8d57 * counter[2] as u64;
        counter = [
            low(product1 >> 32) ^ counter[1] ^ key[0],
            low(product1),
            low(product0 >> 32) ^ counter[3] ^ key[1],
            low(product0),
        ];
        key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
        round += 1;
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers of the Random123 distribution.
    #[test]
    fn philox_gives_the_published_vectors() {
        assert_eq!(
            philox4x32_10([0; 4], [0; 2]),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            philox4x32_10([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox4x32_10(
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0]
            ),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn draws_depend_on_every_part_of_the_key() {
        let bits = |seed, trace, stream, index| {
            TraceRandom::new(seed, trace).draw(StreamId(stream), index).bits()
        };
        let base = bits(1, 2, 3, 4);
        assert_eq!(base, bits(1, 2, 3, 4));
        let others = [
            bits(1 << 40, 2, 3, 4),
            bits(1, 3, 3, 4),
            bits(1, 2, 4, 4),
            bits(1, 2, 3, 5),
            bits(1, 2, 3, 4 + (1 << 33)),
        ];
        assert!(others.iter().all(|other| *other != base));
    }

    #[test]
    fn uniform_numbers_stay_inside_the_open_interval() {
        assert!(to_unit(0) > 0.0);
        assert!(to_unit(u64::MAX) < 1.0);
        let mut draw = TraceRandom::new(7, 0).draw(StreamId(0), 0);
        let mean = (0..20_000).map(|_| draw.unit()).sum::<f64>() / 20_000.0;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        assert!((0..1000).all(|_| draw.below(7) < 7));
    }
}
