//! Rare events of a model, by importance splitting over the length of a queue.
//!
//! A trace approaches a loss as a queue grows. Its levels are lengths of that queue, entered when a poll first finds it so
//! long. A trace that starts at an entry is the same trace up to there, with other random numbers for the packets in that
//! queue, for the rest of the interval until the next Interest, and for the Interests that follow: those of packets
//! elsewhere in the network belong to the state, as do all pauses of processors. So a state is the random numbers of a trace, in parts, and a trace is
//! simulated from its begin.
//!
//! The estimate is unbiased whatever queue and levels are. They decide how many runs see the event, so the width of the interval.
//! A queue that fills up between two polls passes no level: there, most of the mean is that of rare, large replications.

use crate::distribution::Distribution;
use crate::fast::FastEngine;
use crate::file::Model;
use crate::network::{Arrivals, QueueId};
use crate::property::{Property, Trace};
use crate::random::{Draw, SplicedRandom, StreamId, TraceRandom};
use crate::smc::splitting::{LevelProcess, Step, replicate};

/// The share of pilot runs that enter the next level.
const PILOT_SHARE: f64 = 0.2;
const LEVELS_MAX: usize = 200;
/// An interval is drawn again if it is longer than it already is with at least this probability: others would take too many
/// tries.
const LATER_LEAST: f64 = 1e-3;
/// The shortest length that is a level: shorter ones are not recorded.
const LEVEL_LEAST: usize = 2;
/// The number of the pilot among the traces: replications have the others.
const PILOT: u32 = u32::MAX;

/// Levels of a queue, chosen by pilot runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Splitting {
    queue: QueueId,
    levels: Vec<usize>,
    effort: usize,
}

/// Why splitting does not apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RareError {
    /// The property or the model.
    Unfit(&'static str),
    /// A queue that no station of the model polls.
    Queue {
        /// The name.
        name: String,
        /// The queues that can be given.
        names: String,
    },
}

impl core::fmt::Display for RareError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Unfit(reason) => f.write_str(reason),
            Self::Queue { name, names } => {
                write!(f, "no thread of the model polls a queue \"{name}\": there are {names}")
            }
        }
    }
}

impl core::error::Error for RareError {}

/// Simulates traces between levels.
#[derive(Debug)]
pub(crate) struct Splitter<'m> {
    model: &'m Model,
    property: &'m Property,
    is_complement: bool,
    engine: FastEngine<'m>,
    splitting: Splitting,
}

/// Random numbers of a trace, and its entries.
type Run = (SplicedRandom, Vec<Entry>);

/// An entry to a level.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    length: usize,
    /// The first Interest that does not belong to the state, and the time before which it is not sent.
    from: (u32, u64),
    /// The Interests that wait in the queue, with the place on their way.
    waiting: Vec<(u32, u8)>,
}

/// The begin of a trace: a trace with an entry, or nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Begin(Option<(SplicedRandom, Entry)>);

impl Splitting {
    /// Chooses levels of the queue with this name so that about a fifth of `effort` pilot runs enters each from the one
    /// before.
    ///
    /// # Errors
    /// A property, a model or a queue that splitting does not apply to.
    pub fn new(
        model: &Model,
        property: &Property,
        queue: &str,
        effort: usize,
        seed: u64,
    ) -> Result<Self, RareError> {
        let network = &model.network;
        if !property.is_probability() && property.natural_bounds() != Some((0.0, 1.0)) {
            return Err(RareError::Unfit(
                "importance splitting estimates P and E(share(..)): values between 0 and 1",
            ));
        }
        if let Some(refusal) = FastEngine::refusal(network) {
            return Err(RareError::Unfit(refusal));
        }
        if network.consumers.len() > 1 {
            return Err(RareError::Unfit("importance splitting takes models of one consumer"));
        }
        if effort == 0 {
            return Err(RareError::Unfit("importance splitting needs runs per level"));
        }
        let named = network.queues.iter().position(|spec| spec.name == queue);
        let mut engine = FastEngine::without_digests(network);
        let Some(queue) = named.filter(|queue| engine.watch(*queue)) else {
            let polled = |number: &usize| engine.watch(*number);
            let names: Vec<&str> = (0..network.queues.len())
                .filter(polled)
                .map(|number| network.queues[number].name.as_str())
                .collect();
            return Err(RareError::Queue { name: queue.to_owned(), names: names.join(", ") });
        };
        let mut splitter =
            Splitter::new(model, property, Self { queue, levels: Vec::new(), effort });
        splitter.choose_levels(TraceRandom::new(seed, PILOT));
        Ok(splitter.splitting)
    }

    /// Lengths of the queue that are levels.
    #[must_use]
    pub fn levels(&self) -> &[usize] {
        &self.levels
    }
}

impl<'m> Splitter<'m> {
    pub(crate) fn new(model: &'m Model, property: &'m Property, splitting: Splitting) -> Self {
        let mut engine = FastEngine::without_digests(&model.network);
        engine.watch(splitting.queue);
        Self { model, property, is_complement: property.is_rarely_false(), engine, splitting }
    }

    /// A replication: an unbiased estimate of the observation's mean, or of its complement.
    pub(crate) fn replicate(&mut self, random: TraceRandom) -> f64 {
        let effort = self.splitting.effort;
        replicate(self, effort, random)
    }

    fn simulate(&mut self, begin: Begin, draw: &mut Draw) -> SplicedRandom {
        let fresh = TraceRandom::new(draw.bits(), 0);
        let random = match begin.0 {
            Some((before, Entry { from, waiting, .. })) => before.then(from, &waiting, fresh),
            None => fresh.into(),
        };
        self.engine.run_spliced(&random, self.model.horizon_ps);
        random
    }

    /// The new maxima of the queue in the trace that has been simulated.
    fn entries(&self) -> impl Iterator<Item = Entry> {
        let records = &self.engine.results().records;
        self.engine.peaks(self.splitting.queue).iter().map(|peak| {
            let sent = records.partition_point(|record| record.created_ps < peak.time_ps);
            let last_ps = sent.checked_sub(1).map_or(0, |last| records[last].created_ps);
            let (length, waiting) = (peak.length, peak.waiting.clone());
            let from = match &self.model.network.consumers[0].arrivals {
                // Without random numbers.
                Arrivals::Renewal(Distribution::Constant(_)) | Arrivals::Trace(_) => (sent, 0),
                Arrivals::Renewal(interval)
                    if 1.0 - interval.cdf((peak.time_ps - last_ps) as f64) > LATER_LEAST =>
                {
                    (sent, peak.time_ps)
                }
                // The time of the next Interest belongs to the state.
                Arrivals::Renewal(_) | Arrivals::OnOff { .. } | Arrivals::Window(_) => {
                    (sent + 1, 0)
                }
            };
            Entry { length, from: (from.0 as u32, from.1), waiting }
        })
    }

    fn value(&self) -> f64 {
        let value = self.property.observe(&Trace::new(self.model, self.engine.results()));
        if self.is_complement { 1.0 - value } else { value }
    }

    fn choose_levels(&mut self, random: TraceRandom) {
        let effort = self.splitting.effort;
        let capacity = self.model.network.queues[self.splitting.queue].capacity;
        let mut begins = vec![Begin::default()];
        let mut before = LEVEL_LEAST - 1;
        while before < capacity && self.splitting.levels.len() < LEVELS_MAX {
            let stream = StreamId(self.splitting.levels.len() as u32);
            let mut runs: Vec<Run> = Vec::new();
            for run in 0..effort as u64 {
                let mut draw = random.draw(stream, run);
                let begin = begins[draw.below(begins.len() as u64) as usize].clone();
                runs.push((self.simulate(begin, &mut draw), self.entries().collect::<Vec<_>>()));
            }
            let longest = |(_, entries): &Run| entries.last().map_or(0, |entry| entry.length);
            let mut lengths: Vec<usize> = runs.iter().map(longest).collect();
            lengths.sort_unstable();
            let usual = lengths[((1.0 - PILOT_SHARE) * (effort - 1) as f64) as usize];
            let level = usual.max(before + 1);
            let begin = |(random, entries): &Run| {
                let entry = entries.iter().find(|entry| entry.length >= level)?;
                Some(Begin(Some((random.clone(), entry.clone()))))
            };
            begins = runs.iter().filter_map(begin).collect();
            if begins.is_empty() {
                return;
            }
            self.splitting.levels.push(level);
            before = level;
        }
    }
}

impl LevelProcess for Splitter<'_> {
    type State = Begin;

    fn level_count(&self) -> usize {
        self.splitting.levels.len()
    }

    fn start(&self, _: &mut Draw) -> Begin {
        Begin::default()
    }

    fn run(&mut self, begin: Begin, level: usize, draw: &mut Draw) -> Step<Begin> {
        let random = self.simulate(begin, draw);
        let Some(level) = self.splitting.levels.get(level - 1) else {
            return Step::Ended(self.value());
        };
        let entry = self.entries().find(|entry| entry.length >= *level);
        match entry {
            Some(entry) => Step::Entered(Begin(Some((random, entry)))),
            None => Step::Ended(self.value()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::file::tests::EXAMPLE;

    #[test]
    fn trace_from_an_entry_is_the_same_up_to_there_and_another_one_after() {
        let more = "workers = 2\nnic-burst = 3\nnic-capacity = 30";
        let text = EXAMPLE.replace("workers = 2", more).replace("10 ms", "400 us");
        let text = text.replace("1 ms", "20 us").replace("\"1 M/s\"", "\"1.9 M/s\"");
        let model = Model::parse(&text).unwrap();
        let property = Property::parse("P(all(satisfied))", &model).unwrap();
        let queues = &model.network.queues;
        let mut compared = 0;
        for name in ["nic 0", "worker 1 interests", "worker 1 answers"] {
            let queue = queues.iter().position(|queue| queue.name == name).unwrap();
            let splitting = Splitting { queue, levels: Vec::new(), effort: 1 };
            let mut splitter = Splitter::new(&model, &property, splitting);
            for trace in 0..40 {
                let mut draw = TraceRandom::new(3, trace).draw(StreamId(0), 0);
                let random = splitter.simulate(Begin::default(), &mut draw);
                let (entries, peaks) =
                    (splitter.entries().collect::<Vec<_>>(), splitter.engine.peaks(queue).to_vec());
                let before = splitter.engine.results().records.clone();
                for (entry, peak) in entries.iter().zip(&peaks).step_by(3) {
                    let begin = Begin(Some((random.clone(), entry.clone())));
                    splitter.simulate(begin, &mut draw);
                    let after = &splitter.engine.results().records;
                    let has_ended = |record: &&crate::network::Record| {
                        record.created_ps < peak.time_ps && record.ended_ps < peak.time_ps
                    };
                    let ended: Vec<_> = before.iter().filter(has_ended).collect();
                    assert_eq!(ended, after.iter().filter(has_ended).collect::<Vec<_>>());
                    assert!(splitter.engine.peaks(queue).contains(peak), "{name} {peak:?}");
                    assert_ne!(&before, after);
                    compared += 1;
                }
            }
        }
        assert!(compared > 100, "{compared}");
    }
}
