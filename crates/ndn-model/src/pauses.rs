//! Pauses of processors, from what a meter has seen: how often they begin, how long they take, and whether those of several
//! processors coincide.
//!
//! A meter does nothing but read the clock on a processor, during a watch. Between two readings that are far apart the
//! processor did something else. Whether the forwarder has work makes no difference to a watch.
//!
//! A watch cuts off the last interval, and the one before its first pause is not whole. Intervals are estimated from
//! the others by Kaplan and Meier's product limit (1958), which takes account of those that were cut off, and scaled so
//! that pauses are as frequent as in all watches together.

use libm::log;
use serde::{Deserialize, Serialize};

use crate::distribution::{Distribution, QuantileTable};
#[cfg(test)]
use crate::network::{
    Pauses,
    streams::{pause_interval, pause_length},
};
use crate::random::{StreamId, TraceRandom};

/// Readings of the clock further apart than this are a pause, in nanoseconds. Interrupts of the kernel take less; service
/// times that take longer are not the forwarder's.
pub const PAUSE_MIN_NS: u64 = 100_000;

/// A measurement is disturbed if other threads of this machine ran for a larger share of it: a wait of a tick (4 ms) can overflow a
/// queue. Where nothing else runs, threads of the kernel take up to 0.8 %.
pub const LATENCY_DELAYED_MAX: f64 = 0.01;

/// Cells of a distribution, and the probability of its tail at least.
const CELLS: usize = 32;
const TAIL: f64 = 0.01;
/// Whole intervals that make a distribution: with fewer they are regarded as exponential.
const INTERVALS_MIN: usize = 20;
/// Bootstrap replicates.
pub const REPLICATES: u32 = 8;
/// Pauses are common to the processors if more of them than this coincide.
const TOGETHER: f64 = 0.5;
const NS: f64 = 1e3;

/// The readings of a meter on one processor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// The processor.
    pub processor: usize,
    /// Its begin, in nanoseconds since that of the first watch of the run. Watches that overlap are compared.
    pub begin_ns: u64,
    /// From its first to its last reading of the clock.
    pub watched_ns: u64,
    /// Processor time of the meter. Pauses of which the kernel does not know are in it.
    pub cpu_ns: u64,
    /// Time that the meter could not run because other threads of this machine did.
    #[serde(default)]
    pub delayed_ns: u64,
    /// Begin since that of the watch, and length, of each pause.
    pub pauses: Vec<(u64, u64)>,
}

impl Watch {
    /// Whether other threads of this machine took little of it: what they take is not what the host does.
    fn is_undisturbed(&self) -> bool {
        self.delayed_ns as f64 <= LATENCY_DELAYED_MAX * self.watched_ns as f64
    }

    fn paused_ns(&self) -> u64 {
        self.pauses.iter().map(|(_, length)| *length).sum()
    }

    /// The part of its pauses that the kernel counts as processor time of what runs there.
    fn charged_ns(&self) -> u64 {
        let not_charged_ns = self.watched_ns.saturating_sub(self.cpu_ns);
        self.paused_ns().saturating_sub(not_charged_ns)
    }

    /// From the end of each pause to the begin of the next one; then to the end of the watch.
    fn intervals_ns(&self) -> (Vec<f64>, Option<f64>) {
        let mut ends = self.pauses.iter().map(|(begin, length)| begin + length);
        let begins = self.pauses.iter().skip(1).map(|(begin, _)| *begin);
        let whole = ends.clone().zip(begins).map(|(end, begin)| begin.saturating_sub(end) as f64);
        let rest = ends.next_back().and_then(|end| self.watched_ns.checked_sub(end));
        (whole.collect(), rest.map(|rest| rest as f64))
    }

    /// Its pauses on the clock of the run.
    fn on_the_clock(&self) -> impl Iterator<Item = (u64, u64)> {
        let at =
            |(begin, length): &(u64, u64)| (self.begin_ns + begin, self.begin_ns + begin + length);
        self.pauses.iter().map(at)
    }
}

/// A distribution of nanoseconds: equally likely cells between quantiles, and an exponential tail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Quantiles {
    /// Quantiles at equal steps up to the tail.
    pub quantiles: Vec<f64>,
    /// Probability of the tail.
    pub tail_probability: f64,
    /// Mean excess in the tail.
    pub tail_mean: f64,
}

impl Quantiles {
    /// As a distribution, which is in picoseconds.
    #[must_use]
    pub fn distribution(&self) -> Distribution {
        Distribution::Empirical(QuantileTable {
            quantiles: self.quantiles.iter().map(|q| q * NS).collect(),
            tail_probability: self.tail_probability,
            tail_mean: self.tail_mean * NS,
        })
    }

    fn scaled(mut self, factor: f64) -> Self {
        self.quantiles.iter_mut().for_each(|quantile| *quantile *= factor);
        self.tail_mean *= factor;
        self
    }

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.distribution().mean() / NS
    }

    /// The value that is exceeded with this probability, of the tail at most.
    pub(crate) fn exceeded_with(&self, probability: f64) -> f64 {
        let last = self.quantiles.last().copied().unwrap_or(0.0);
        last + self.tail_mean * log(self.tail_probability / probability).max(0.0)
    }

    /// The mean of a function of it.
    pub(crate) fn mean_of(&self, function: impl Fn(f64) -> f64) -> f64 {
        /// Values of each cell, and of the tail, whose mean is taken: those in the middle of parts that are equally likely.
        const OF_CELL: usize = 16;
        const OF_TAIL: usize = 512;
        let middles = |count: usize| (0..count).map(move |part| (part as f64 + 0.5) / count as f64);
        let cells = self
            .quantiles
            .windows(2)
            .flat_map(|ends| middles(OF_CELL).map(|level| ends[0] + level * (ends[1] - ends[0])));
        let count = (OF_CELL * self.quantiles.len().saturating_sub(1)).max(1) as f64;
        let last = self.quantiles.last().copied().unwrap_or(0.0);
        let tail = middles(OF_TAIL).map(|level| last + self.tail_mean * log(1.0 / level));
        let of_cells = cells.map(&function).sum::<f64>() / count;
        let of_tail = tail.map(&function).sum::<f64>() / OF_TAIL as f64;
        (1.0 - self.tail_probability) * of_cells + self.tail_probability * of_tail
    }

    pub(crate) fn exponential(mean: f64) -> Self {
        let level = |cell: usize| (1.0 - TAIL) * cell as f64 / CELLS as f64;
        // Not a negated logarithm: the first one would be -0, which a model file does not have.
        let quantiles = (0..=CELLS).map(|cell| mean * log(1.0 / (1.0 - level(cell)))).collect();
        Self { quantiles, tail_probability: TAIL, tail_mean: mean }
    }

    /// The product limit of durations above `least`, some of which were `cut` off. Beyond the last whole one, and in the tail
    /// where none is, the mean excess is `mean`.
    fn product_limit(whole: &[f64], cut: &[f64], least: f64, mean: f64) -> Self {
        let whole_ones = whole.iter().map(|value| (*value, true));
        let mut all: Vec<(f64, bool)> =
            whole_ones.chain(cut.iter().map(|value| (*value, false))).collect();
        // One that was cut off was longer than a whole one of the same length.
        all.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        let mut points = vec![(0.0, least)];
        let mut survival = 1.0;
        for (index, (value, is_whole)) in all.iter().enumerate() {
            if *is_whole {
                survival *= 1.0 - 1.0 / (all.len() - index) as f64;
                points.push((1.0 - survival, *value));
            }
        }
        let tail_probability = survival.clamp(TAIL, 0.99);
        let quantile = |level: f64| {
            let after = points.partition_point(|point| point.0 < level).clamp(1, points.len() - 1);
            let ((low, from), (high, to)) = (points[after - 1], points[after]);
            let part = if high > low { ((level - low) / (high - low)).min(1.0) } else { 1.0 };
            from + part * (to - from)
        };
        let quantiles: Vec<f64> = (0..=CELLS)
            .map(|cell| quantile((1.0 - tail_probability) * cell as f64 / CELLS as f64))
            .collect();
        let last = quantiles[CELLS];
        // The mean of an exponential tail of which some were cut off (Epstein, Sobel 1953).
        let excess: f64 = all.iter().map(|(value, _)| (value - last).max(0.0)).sum();
        let ended = whole.iter().filter(|value| **value > last).count();
        let tail_mean = if ended > 0 && excess > 0.0 { excess / ended as f64 } else { mean };
        Self { quantiles, tail_probability, tail_mean: tail_mean.max(1.0) }
    }
}

/// The law of the pauses of a processor, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PauseLaw {
    /// From the end of a pause to the begin of the next one.
    pub interval: Quantiles,
    /// Length.
    pub length: Quantiles,
}

impl PauseLaw {
    /// The law behind some watches; none without pauses.
    fn of<'w>(watches: impl Iterator<Item = &'w Watch> + Clone) -> Option<Self> {
        let mut lengths: Vec<f64> = Vec::new();
        let (mut whole, mut cut, mut running_ns) = (Vec::new(), Vec::new(), 0.0);
        for watch in watches {
            lengths.extend(watch.pauses.iter().map(|(_, length)| *length as f64));
            running_ns += watch.watched_ns.saturating_sub(watch.paused_ns()) as f64;
            let (intervals, rest) = watch.intervals_ns();
            whole.extend(intervals);
            cut.extend(rest);
        }
        if lengths.is_empty() {
            return None;
        }
        let count = lengths.len() as f64;
        // Watches begin at any time: what ran between pauses, over their number.
        let (interval_ns, length_ns) = (running_ns / count, lengths.iter().sum::<f64>() / count);
        let interval = if whole.len() < INTERVALS_MIN {
            Quantiles::exponential(interval_ns)
        } else {
            let limit = Quantiles::product_limit(&whole, &cut, 0.0, interval_ns);
            let factor = interval_ns / limit.mean();
            limit.scaled(factor)
        };
        let length = Quantiles::product_limit(&lengths, &[], PAUSE_MIN_NS as f64, 0.1 * length_ns);
        let factor = length_ns / length.mean();
        Some(Self { interval, length: length.scaled(factor) })
    }
}

/// The pauses of the processors of a machine during a campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PauseProcess {
    /// Pauses seen.
    pub count: usize,
    /// Seconds watched, of all processors.
    pub seconds: f64,
    /// Share of the time that pauses take.
    pub share: f64,
    /// Share of the time that they take and the kernel counts as processor time of what runs.
    pub charged: f64,
    /// Share of pauses that overlap with one of another processor; none if only one was watched at a time.
    pub coinciding: Option<f64>,
    /// Correlation of an interval with the next one: 0 if they are independent, as the model has it.
    pub correlation: f64,
    /// Estimated from all watches.
    pub law: PauseLaw,
    /// Bootstrap replicates over runs.
    pub replicates: Vec<PauseLaw>,
}

impl PauseProcess {
    /// The process behind the watches of each run; none if there were no pauses.
    #[must_use]
    pub fn of(runs: &[&[Watch]]) -> Option<Self> {
        let all = || runs.iter().copied().flatten().filter(|watch| watch.is_undisturbed());
        let law = PauseLaw::of(all())?;
        let total = |of: fn(&Watch) -> u64| all().map(of).sum::<u64>() as f64;
        let watched_ns = total(|watch| watch.watched_ns);
        let replicates = (0..REPLICATES).filter_map(|replicate| {
            let random = TraceRandom::new(0x7061_7573, replicate);
            let drawn: Vec<&Watch> = (0..runs.len() as u64)
                .flat_map(|index| {
                    runs[random.draw(StreamId(0), index).below(runs.len() as u64) as usize]
                })
                .filter(|watch| watch.is_undisturbed())
                .collect();
            PauseLaw::of(drawn.iter().copied())
        });
        Some(Self {
            count: all().map(|watch| watch.pauses.len()).sum(),
            seconds: watched_ns / 1e9,
            share: total(Watch::paused_ns) / watched_ns,
            charged: total(Watch::charged_ns) / watched_ns,
            coinciding: coinciding(runs),
            correlation: correlation(all()),
            replicates: replicates.collect(),
            law,
        })
    }

    /// Whether pauses are common to all processors.
    #[must_use]
    pub fn are_together(&self) -> bool {
        self.coinciding.is_some_and(|share| share > TOGETHER)
    }
}

/// The share of pauses that overlap with one of another processor that was watched at the same time.
fn coinciding(runs: &[&[Watch]]) -> Option<f64> {
    let (mut count, mut overlapping) = (0_u32, 0_u32);
    for watches in runs {
        for (index, watch) in watches.iter().enumerate() {
            let end_ns = watch.begin_ns + watch.watched_ns;
            let is_beside = |(number, other): &(usize, &Watch)| {
                *number != index
                    && other.processor != watch.processor
                    && other.begin_ns < end_ns
                    && watch.begin_ns < other.begin_ns + other.watched_ns
            };
            let beside: Vec<&Watch> =
                watches.iter().enumerate().filter(is_beside).map(|(_, other)| other).collect();
            if beside.is_empty() {
                continue;
            }
            let mut others =
                beside.iter().copied().flat_map(Watch::on_the_clock).collect::<Vec<_>>();
            others.sort_unstable();
            for (begin, end) in watch.on_the_clock() {
                count += 1;
                overlapping +=
                    u32::from(others.iter().any(|other| other.0 < end && begin < other.1));
            }
        }
    }
    (count > 0).then(|| f64::from(overlapping) / f64::from(count))
}

/// Correlation of intervals with the next one of the same watch, on the scale of logarithms; 0 with too few.
fn correlation<'w>(watches: impl Iterator<Item = &'w Watch>) -> f64 {
    let mut pairs = Vec::new();
    for watch in watches {
        let intervals = watch.intervals_ns().0;
        pairs.extend(
            intervals.windows(2).map(|pair| (log(pair[0].max(1.0)), log(pair[1].max(1.0)))),
        );
    }
    let count = pairs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let sum =
        |of: &dyn Fn(f64, f64) -> f64| pairs.iter().map(|p| of(p.0 - x, p.1 - y)).sum::<f64>();
    let (xx, yy, xy) = (sum(&|x, _| x * x), sum(&|_, y| y * y), sum(&|x, y| x * y));
    if pairs.len() < INTERVALS_MIN || xx <= 0.0 || yy <= 0.0 { 0.0 } else { xy / (xx * yy).sqrt() }
}

/// The watch of a meter over pauses with these laws, that begins `after_ns` after their begin.
#[cfg(test)]
pub(crate) fn watch(
    pauses: &Pauses,
    processor: usize,
    random: TraceRandom,
    (after_ns, watched_ns): (u64, u64),
) -> Watch {
    let mut seen = Watch { processor, watched_ns, cpu_ns: watched_ns, ..Watch::default() };
    let (end_ns, mut time_ns) = (after_ns + watched_ns, 0);
    for number in 0.. {
        let draw = |stream| random.draw(stream, number);
        let between = pauses.interval.sample_ps(&mut draw(pause_interval(processor)), 1.0);
        let length = pauses.length.sample_ps(&mut draw(pause_length(processor)), 1.0);
        let begin_ns = time_ns + between / 1000;
        time_ns = begin_ns + length / 1000;
        if begin_ns >= end_ns {
            break;
        }
        if begin_ns >= after_ns {
            seen.pauses.push((begin_ns - after_ns, length / 1000));
        }
    }
    // The last reading is after the last pause.
    let last_ns = seen.pauses.last().map_or(0, |(begin, length)| begin + length);
    seen.watched_ns = watched_ns.max(last_ns);
    seen.cpu_ns = seen.watched_ns;
    seen
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use libm::exp;

    use super::*;

    fn pauses(interval: Distribution, length: Distribution) -> Pauses {
        Pauses { interval, length, stations: vec![], consumers: vec![] }
    }

    /// Runs of two watches of 100 ms on each of two processors.
    fn campaign(pauses: &Pauses, runs: u32, is_common: bool) -> Vec<Vec<Watch>> {
        let one = |run: u32, processor: usize, number: u64| {
            let random = TraceRandom::new(5, run);
            let source = if is_common { 0 } else { processor };
            let begin_ns = number * 700_000_000;
            let seen = watch(pauses, source, random, (1_000_000_000 + begin_ns, 100_000_000));
            Watch { processor, begin_ns, ..seen }
        };
        let of_run = |run| (0..4).map(|watch| one(run, watch % 2, watch as u64 / 2)).collect();
        (0..runs).map(of_run).collect()
    }

    fn process(campaign: &[Vec<Watch>]) -> PauseProcess {
        let runs: Vec<&[Watch]> = campaign.iter().map(Vec::as_slice).collect();
        PauseProcess::of(&runs).unwrap()
    }

    fn near(name: &str, found: f64, expected: f64, tolerance: f64) {
        assert!((found / expected - 1.0).abs() < tolerance, "{name}: {found} is not {expected}");
    }

    #[test]
    fn planted_pauses_are_recovered() {
        let length = Distribution::Gamma { shape: 9.0, scale: 1.4e9 / 9.0 };
        for (name, interval) in [
            ("exponential", Distribution::Exponential { mean: 22e9 }),
            ("regular", Distribution::Gamma { shape: 16.0, scale: 22e9 / 16.0 }),
            (
                "bursts",
                Distribution::HyperErlang(vec![
                    crate::distribution::ErlangBranch { weight: 0.7, phases: 2, mean: 5e9 },
                    crate::distribution::ErlangBranch { weight: 0.3, phases: 1, mean: 60e9 },
                ]),
            ),
        ] {
            let planted = pauses(interval, length.clone());
            let found = process(&campaign(&planted, 150, false));
            near(name, found.share, planted.share(), 0.08);
            near(name, found.charged, found.share, 1e-9);
            assert!(!found.are_together() && found.correlation.abs() < 0.12, "{found:?}");
            let (own, known) = (found.law.interval.distribution(), &planted.interval);
            near(name, own.mean(), known.mean(), 0.08);
            near(name, found.law.length.distribution().mean(), 1.4e9, 0.03);
            for level in [0.1, 0.25, 0.5, 0.75, 0.9] {
                let expected = crate::fit::quantile(&planted.length, level);
                near(
                    name,
                    crate::fit::quantile(&found.law.length.distribution(), level),
                    expected,
                    0.06,
                );
                let expected = crate::fit::quantile(known, level);
                assert!(
                    (own.cdf(expected) - level).abs() < 0.06,
                    "{name} at {level}: {}",
                    own.cdf(expected)
                );
            }
            // The truth lies within what the bootstrap says of the frequency.
            assert_eq!(found.replicates.len(), REPLICATES as usize);
            let means = found.replicates.iter().map(|law| law.interval.mean());
            let (low, high) = means.fold((f64::INFINITY, 0.0), |(l, h), x| (x.min(l), x.max(h)));
            assert!(low < 1.05 * 22e6 && high > 0.95 * known.mean() / NS, "{low} {high}");
        }
    }

    #[test]
    fn common_pauses_coincide() {
        let planted = pauses(
            Distribution::Exponential { mean: 22e9 },
            Distribution::Exponential { mean: 1.4e9 },
        );
        let apart = process(&campaign(&planted, 60, false)).coinciding.unwrap();
        assert!((0.04..0.25).contains(&apart), "by chance: {apart}");
        let common = process(&campaign(&planted, 60, true));
        assert!(common.coinciding > Some(0.99) && common.are_together(), "{common:?}");
        let one: Vec<Vec<Watch>> =
            campaign(&planted, 60, true).into_iter().map(|run| vec![run[0].clone()]).collect();
        assert_eq!(process(&one).coinciding, None);
    }

    #[test]
    fn rare_pauses_are_exponential_beyond_the_watches() {
        let planted =
            pauses(Distribution::Exponential { mean: 400e9 }, Distribution::Constant(2e9));
        let found = process(&campaign(&planted, 200, false));
        near("interval", found.law.interval.mean(), 400e6, 0.25);
        near("tail", found.law.interval.tail_mean, 400e6, 0.4);
        near("length", found.law.length.mean(), 2e6, 0.01);
    }

    #[test]
    fn quantiles_of_rare_pauses_are_not_negative() {
        let law = Quantiles::exponential(1e6);
        assert!(law.quantiles.iter().all(|quantile| quantile.is_sign_positive()), "{law:?}");
    }

    #[test]
    fn without_pauses_there_is_no_process() {
        let calm = Watch { watched_ns: 1_000_000, cpu_ns: 1_000_000, ..Watch::default() };
        assert_eq!(PauseProcess::of(&[&[calm], &[]]), None);
        assert_eq!(PauseProcess::of(&[]), None);
    }

    #[test]
    fn pauses_that_the_kernel_knows_are_not_charged() {
        let pauses = vec![(1_000_000, 500_000), (5_000_000, 1_500_000)];
        let watched_ns = 10_000_000;
        let unknown = Watch { watched_ns, cpu_ns: 9_990_000, pauses, ..Watch::default() };
        assert_eq!(unknown.charged_ns(), 1_990_000);
        let known = Watch { cpu_ns: 8_000_000, ..unknown.clone() };
        assert_eq!(known.charged_ns(), 0);
        assert_eq!(unknown.intervals_ns(), (vec![3_500_000.0], Some(3_500_000.0)));
    }

    #[test]
    fn product_limit_is_that_of_an_exponential_that_is_cut_off() {
        let random = TraceRandom::new(1, 0);
        let (mut whole, mut cut) = (Vec::new(), Vec::new());
        for index in 0..4000 {
            let value = -100.0 * log(random.draw(StreamId(0), index).unit());
            let limit = 250.0 * random.draw(StreamId(1), index).unit();
            if value < limit { whole.push(value) } else { cut.push(limit) }
        }
        let found = Quantiles::product_limit(&whole, &cut, 0.0, 100.0).distribution();
        for x in [20.0, 50.0, 100.0, 200.0] {
            let exact = 1.0 - exp(-x / 100.0);
            assert!((found.cdf(x * NS) - exact).abs() < 0.02, "{x}: {} {exact}", found.cdf(x * NS));
        }
        near("mean", found.mean(), 100.0 * NS, 0.1);
    }
}
