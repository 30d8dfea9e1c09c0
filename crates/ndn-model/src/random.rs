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

    /// The first words of the draws with the numbers `first`, `first + 1`, … of `stream`. Two neighbours share a block.
    #[inline]
    pub fn first_words(self, stream: StreamId, first: u64, words: &mut [u64]) {
        let mut block = first >> 1;
        let odd = ((first & 1) as usize).min(words.len());
        let (before, rest) = words.split_at_mut(odd);
        for word in before {
            *word = self.block(stream, block, 0)[1];
            block += 1;
        }
        let mut pairs = rest.chunks_exact_mut(2);
        for pair in &mut pairs {
            pair.copy_from_slice(&self.block(stream, block, 0));
            block += 1;
        }
        for word in pairs.into_remainder() {
            *word = self.block(stream, block, 0)[0];
        }
    }

    /// The draw with number `index` of `stream`, of which the first word is known.
    #[inline]
    #[must_use]
    pub const fn draw_from(self, stream: StreamId, index: u64, first_word: u64) -> Draw {
        Draw { random: self, stream, index, lane: 1, spare: Some(first_word) }
    }

    /// One block of 128 bits. Block `index` of lane 0 holds the first words of draws 2 · index and
    /// 2 · index + 1; the blocks of other lanes hold further words of draw `index`.
    #[inline]
    const fn block(self, stream: StreamId, index: u64, lane: u16) -> [u64; 2] {
        // 48 bits of index: at 100 M packets/s, a month of simulated time in one trace.
        let counter = [
            (index & 0xffff_ffff_ffff) | (lane as u64) << 48,
            (self.trace as u64) << 32 | stream.0 as u64,
        ];
        philox2x64_7(counter, self.seed)
    }
}

/// The random numbers of a trace that begins like other traces: those of its first Interests are theirs.
///
/// A number that belongs to an Interest is that of its part. Where there is more than one part, the network has one
/// consumer: its Interests, and so its intervals, have the numbers of all Interests.
///
/// Interests that waited where a part ends have numbers of the next part for what was still before them. The place of an
/// Interest on its way is a number that rises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplicedRandom {
    /// In order; the last one has no end.
    parts: Vec<Part>,
    waited: Vec<Waited>,
}

/// Interests with the same random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// The number of the first one.
    pub begin: u32,
    /// The number of the first one of the next part.
    pub end: u32,
    /// The first one is sent no earlier.
    pub after_ps: u64,
    pub random: TraceRandom,
}

/// An Interest that waited where a part ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waited {
    pub interest: u32,
    /// The first place on its way for which the numbers are others.
    pub order: u8,
    pub random: TraceRandom,
}

impl Default for SplicedRandom {
    fn default() -> Self {
        TraceRandom::new(0, 0).into()
    }
}

impl From<TraceRandom> for SplicedRandom {
    fn from(random: TraceRandom) -> Self {
        let part = Part { begin: 0, end: u32::MAX, after_ps: 0, random };
        Self { parts: vec![part], waited: Vec::new() }
    }
}

impl SplicedRandom {
    /// The same for the Interests before `from`, which is in the last part, except for the `waiting` ones from a place on
    /// their way on; then `random`. The first one of these is sent no earlier than `after_ps`: if its interval has begun
    /// before, it is one that ends later.
    #[must_use]
    pub fn then(
        &self,
        (from, after_ps): (u32, u64),
        waiting: &[(u32, u8)],
        random: TraceRandom,
    ) -> Self {
        let Self { mut parts, mut waited } = self.clone();
        if let Some(last) = parts.last_mut() {
            last.end = from;
        }
        // An end at the same Interest as the one before leaves nothing of the part.
        parts.pop_if(|last| last.begin == last.end);
        parts.push(Part { begin: from, end: u32::MAX, after_ps, random });
        let again =
            |(interest, order): &(u32, u8)| Waited { interest: *interest, order: *order, random };
        waited.extend(waiting.iter().map(again));
        // Of one Interest, the last end of a part comes last.
        waited.sort_by_key(|waited| waited.interest);
        Self { parts, waited }
    }

    /// The random numbers of an Interest at a place on its way.
    #[inline]
    #[must_use]
    pub fn of(&self, interest: u32, order: u8) -> TraceRandom {
        if let [part] = &self.parts[..] { part.random } else { self.of_part(interest, order) }
    }

    fn of_part(&self, interest: u32, order: u8) -> TraceRandom {
        let begin = self.waited.partition_point(|waited| waited.interest < interest);
        let own = self.waited[begin..].iter().take_while(|waited| waited.interest == interest);
        let waited = own.filter(|waited| waited.order <= order).last();
        waited.map_or_else(|| self.at(interest).random, |waited| waited.random)
    }

    /// The part of an Interest that is generated.
    pub(crate) fn at(&self, interest: u32) -> Part {
        let part = self.parts.partition_point(|part| part.end <= interest);
        self.parts[part.min(self.parts.len() - 1)]
    }

    /// The Interests of this range that waited, those of an Interest in order of time.
    pub(crate) fn waited(&self, first: u32, end: u32) -> &[Waited] {
        let begin = self.waited.partition_point(|waited| waited.interest < first);
        let end = self.waited.partition_point(|waited| waited.interest < end);
        &self.waited[begin..end]
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
        let lane = self.lane;
        // Lane 0 is never reached again: 131,069 words are more than any variate takes.
        self.lane = if lane == u16::MAX { 1 } else { lane + 1 };
        if lane == 0 {
            return self.random.block(self.stream, self.index >> 1, 0)[(self.index & 1) as usize];
        }
        let [first, second] = self.random.block(self.stream, self.index, lane);
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

/// Philox2x64 with seven rounds; six pass BigCrush (Salmon, Moraes, Dror, Shaw: "Parallel Random Numbers: As
/// Easy as 1, 2, 3", SC 2011).
#[inline]
const fn philox2x64_7(mut counter: [u64; 2], mut key: u64) -> [u64; 2] {
    let mut round = 0;
    while round < 7 {
        let product = 0xd2b7_4407_b1ce_6e93 * counter[0] as u128;
        counter = [(product >> 64) as u64 ^ key ^ counter[1], product as u64];
        key = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
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
        assert_eq!(philox2x64_7([0; 2], 0), [0xb41d_a69f_bfef_c666, 0x511e_9ce1_a553_4056]);
        assert_eq!(
            philox2x64_7([u64::MAX; 2], u64::MAX),
            [0xa469_6cc0_4462_015d, 0x7247_82da_e171_69e9]
        );
        assert_eq!(
            philox2x64_7([0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344], 0xa409_3822_299f_31d0),
            [0x98ed_1534_392b_f372, 0x6752_8b15_6888_2fd5]
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
    fn draws_in_a_row_are_the_same_as_one_by_one() {
        let random = TraceRandom::new(1, 2);
        for (first, count) in [(6, 9), (7, 9), (7, 2), (7, 1), (6, 1), (7, 0)] {
            let mut words = vec![0; count];
            random.first_words(StreamId(3), first, &mut words);
            for (index, word) in (first..).zip(words) {
                let mut draw = random.draw_from(StreamId(3), index, word);
                let mut alone = random.draw(StreamId(3), index);
                for _ in 0..5 {
                    assert_eq!(draw.bits(), alone.bits());
                }
            }
        }
    }

    #[test]
    fn spliced_numbers_are_those_of_their_parts() {
        let [a, b, c] = [0, 1, 2].map(|trace| TraceRandom::new(1, trace));
        let begun = SplicedRandom::from(a).then((5, 0), &[], b);
        let spliced = begun.then((5, 70), &[], c).then((9, 80), &[], a);
        let part = |interest| {
            let Part { random, begin, end, after_ps } = spliced.at(interest);
            (random, begin, end, after_ps)
        };
        let parts = [0, 4, 5, 8, 9, 100].map(part);
        let (first, second, last) = ((a, 0, 5, 0), (c, 5, 9, 70), (a, 9, u32::MAX, 80));
        assert_eq!(parts, [first, first, second, second, last, last]);
        assert_eq!((spliced.of(6, 0), SplicedRandom::from(b).of(6, 0)), (c, b));
    }

    #[test]
    fn interests_that_waited_have_later_numbers_for_the_rest_of_their_way() {
        let [a, b, c] = [0, 1, 2].map(|trace| TraceRandom::new(1, trace));
        let begun = SplicedRandom::from(a).then((5, 0), &[(4, 2), (3, 2)], b);
        let spliced = begun.then((9, 0), &[(3, 6)], c);
        let of = |interest| [1, 2, 5, 6, 7].map(|order| spliced.of(interest, order));
        assert_eq!(of(2), [a; 5]);
        assert_eq!(of(3), [a, b, b, c, c]);
        assert_eq!(of(4), [a, b, b, b, b]);
        assert_eq!(of(5), [b; 5]);
        assert_eq!((spliced.waited(0, 4).len(), spliced.waited(4, 9).len()), (2, 1));
    }

    #[test]
    fn consecutive_draws_use_distinct_words() {
        let random = TraceRandom::new(1, 2);
        let mut words: Vec<u64> = (0..50)
            .flat_map(|index| {
                let mut draw = random.draw(StreamId(3), index);
                [draw.bits(), draw.bits(), draw.bits(), draw.bits()]
            })
            .collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 200);
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
