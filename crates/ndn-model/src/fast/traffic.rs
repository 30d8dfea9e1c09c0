//! Interests of the fast engine: drawn ahead, in order of time.

use super::packet::NEVER;
use crate::network::{ArrivalClock, Consumer, Network, streams};
use crate::random::{Part, SplicedRandom, to_unit};

/// An Interest that is generated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fresh {
    pub time_ps: u64,
    pub consumer: usize,
    pub prefix: u32,
}

/// All consumers.
#[derive(Debug)]
pub(super) struct Traffic<'n> {
    network: &'n Network,
    sources: Vec<Source>,
    /// For each consumer, where the search for a prefix begins.
    guides: Vec<Vec<u32>>,
    /// Whether anything depends on the prefix of an Interest.
    needs_prefixes: bool,
    fresh: Vec<Fresh>,
    words: Vec<u64>,
    random: SplicedRandom,
    horizon_ps: u64,
}

/// When a consumer sends.
#[derive(Debug, Default)]
struct Source {
    clock: ArrivalClock,
    /// Interests whose times have been drawn.
    count: u32,
    times_ps: Vec<u64>,
    /// The first of them that has not been taken.
    head: usize,
}

impl<'n> Traffic<'n> {
    pub(super) fn new(network: &'n Network) -> Self {
        Self {
            network,
            sources: network.consumers.iter().map(|_| Source::default()).collect(),
            guides: network.consumers.iter().map(guide).collect(),
            needs_prefixes: network.shards.len() > 1 || network.producer_count() > 1,
            fresh: Vec::new(),
            words: Vec::new(),
            random: SplicedRandom::default(),
            horizon_ps: 0,
        }
    }

    pub(super) fn reset(&mut self, random: &SplicedRandom, horizon_ps: u64) {
        self.random.clone_from(random);
        self.horizon_ps = horizon_ps;
        for (consumer, source) in self.sources.iter_mut().enumerate() {
            (source.clock, source.count) = (ArrivalClock::default(), 0);
            source.refill((self.network, consumer), &self.random, horizon_ps);
        }
    }

    /// When the next Interest is sent.
    pub(super) fn next_ps(&self) -> u64 {
        self.earliest().1
    }

    /// Draws the next Interests, `count` at most, of which the first has the number `first`.
    pub(super) fn draw(&mut self, first: u32, count: usize) -> &[Fresh] {
        let Part { random, end, .. } = self.random.at(first);
        let count = count.min((end - first) as usize);
        self.fresh.clear();
        while self.fresh.len() < count {
            let (consumer, time_ps) = self.earliest();
            if time_ps == NEVER {
                break;
            }
            let prefix = self.network.consumers[consumer].first_prefix;
            self.fresh.push(Fresh { time_ps, consumer, prefix });
            let source = &mut self.sources[consumer];
            source.head += 1;
            if source.head == source.times_ps.len() {
                source.refill((self.network, consumer), &self.random, self.horizon_ps);
            }
        }
        if self.needs_prefixes {
            self.words.resize(self.fresh.len(), 0);
            random.first_words(streams::PREFIX, u64::from(first), &mut self.words);
            for (fresh, word) in self.fresh.iter_mut().zip(&self.words) {
                let spec = &self.network.consumers[fresh.consumer];
                fresh.prefix = guided_prefix(spec, &self.guides[fresh.consumer], to_unit(*word));
            }
        }
        &self.fresh
    }

    #[inline]
    fn earliest(&self) -> (usize, u64) {
        let mut earliest = (0, self.sources[0].next_ps());
        for (consumer, source) in self.sources.iter().enumerate().skip(1) {
            if source.next_ps() < earliest.1 {
                earliest = (consumer, source.next_ps());
            }
        }
        earliest
    }
}

impl Source {
    #[inline]
    fn next_ps(&self) -> u64 {
        self.times_ps.get(self.head).copied().unwrap_or(NEVER)
    }

    /// Draws the next times; none are left after the horizon.
    fn refill(
        &mut self,
        (network, consumer): (&Network, usize),
        random: &SplicedRandom,
        horizon_ps: u64,
    ) {
        // Where random numbers change within a trace there is one consumer: its Interests are all.
        let part = random.at(self.count);
        let count = ArrivalClock::BLOCK.min((part.end - self.count) as usize);
        let after_ps = if part.begin == self.count { part.after_ps } else { 0 };
        self.head = 0;
        self.times_ps.clear();
        let arrivals = &network.consumers[consumer].arrivals;
        let range = (count, after_ps..horizon_ps);
        self.clock.extend(arrivals, consumer, part.random, range, &mut self.times_ps);
        self.count += self.times_ps.len() as u32;
    }
}

/// Cells of a guide.
const GUIDE_CELLS: usize = 2048;

/// The first prefix that a uniform number in each of the cells may select (Chen, Asau: "On Generating Random
/// Variates from an Empirical Distribution", 1974).
fn guide(consumer: &Consumer) -> Vec<u32> {
    let at = |cell: usize| cell as f64 / GUIDE_CELLS as f64;
    let first = |cell| consumer.prefix_cdf.partition_point(|p| *p <= at(cell)) as u32;
    (0..GUIDE_CELLS).map(first).collect()
}

/// As [`Consumer::prefix`], without a search.
#[inline]
fn guided_prefix(consumer: &Consumer, guide: &[u32], unit: f64) -> u32 {
    let last = consumer.prefix_cdf.len() - 1;
    let mut index = guide[(unit * GUIDE_CELLS as f64) as usize] as usize;
    while index < last && consumer.prefix_cdf[index] <= unit {
        index += 1;
    }
    consumer.first_prefix + index.min(last) as u32
}
