//! Throughput of runs over that of the model: a correction, and how far a single run is from it.
//!
//! A run that satisfies nearly all Interests shows that its capacity is at least its rate. Such runs are taken into account
//! as observations that are cut off, by the product limit of Kaplan and Meier (1958): some runs lose Interests at half the
//! predicted capacity, and it counts how many do not.

use libm::{exp, hypot, log, sqrt};
use serde::{Deserialize, Serialize};

use super::censored::Normal;
use super::run::Setting;
use crate::special::{normal_quantile, student_t_quantile};

/// Runs with losses from which on there is a correction.
const RUNS_MIN: usize = 4;

/// Share that a run satisfies at least if it shows no limit of its throughput.
const SATISFIED_MIN: f64 = 0.95;

/// Share of answers from which on a run counts as it is in the normal distribution of capacities. One with fewer is lower than all
/// others for ranks, but its logarithm says nothing of those above.
const ANSWERED_MIN: f64 = 0.01;

/// Answers of a run and of its model.
pub(super) struct Answers {
    pub(super) setting: Setting,
    /// Share of the Interests that is answered.
    pub(super) measured: f64,
    pub(super) predicted: f64,
    /// The rate at which the busiest worker of the model has no time left, over that of the run.
    pub(super) headroom: f64,
}

impl Answers {
    pub(super) fn capacity(&self) -> RunCapacity {
        RunCapacity {
            log_ratio: log(self.measured / self.predicted / self.headroom.max(1.0)),
            is_least: self.measured >= SATISFIED_MIN,
        }
    }
}

/// The capacity that a run shows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RunCapacity {
    /// Logarithm of its ratio to the predicted one.
    pub log_ratio: f64,
    /// Whether it is at least this, as the run satisfied nearly all Interests.
    pub is_least: bool,
}

/// Answers of runs over those of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Throughput {
    /// Runs that lose Interests.
    pub runs: usize,
    /// The ratio of the capacity that runs show to that of the model; 1 with too few runs.
    pub factor: f64,
    /// Standard deviation of the logarithm of a run around it; 0 with too few runs.
    pub deviation: f64,
    /// The same around other runs with losses of the same setting; none if no setting has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated_deviation: Option<f64>,
    /// Capacities of all runs, in order.
    #[serde(default)]
    pub capacities: Vec<RunCapacity>,
}

/// Runs by which a bound below the capacity of a further run is a rank of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranks {
    /// Runs at risk where the lowest capacity is shown.
    pub runs: usize,
    /// Runs that the confidence needs.
    pub needed: usize,
}

impl Ranks {
    /// Whether there are as many as needed.
    #[must_use]
    pub const fn suffice(self) -> bool {
        self.runs >= self.needed
    }
}

impl Default for Throughput {
    fn default() -> Self {
        Self {
            runs: 0,
            factor: 1.0,
            deviation: 0.0,
            repeated_deviation: None,
            capacities: Vec::new(),
        }
    }
}

impl Throughput {
    pub(super) fn of(all: &[Answers]) -> Self {
        let answered = all.iter().filter(|one| one.measured >= ANSWERED_MIN);
        let lowest = answered.map(|one| one.capacity().log_ratio).min_by(f64::total_cmp);
        let lowest = lowest.unwrap_or(f64::MIN);
        let all: Vec<(Setting, RunCapacity)> =
            all.iter().map(|one| (one.setting, one.capacity())).collect();
        let mut capacities: Vec<RunCapacity> = all.iter().map(|(_, one)| *one).collect();
        // One that is at least this much is above one that is just as much.
        capacities
            .sort_by(|a, b| a.log_ratio.total_cmp(&b.log_ratio).then(a.is_least.cmp(&b.is_least)));
        let limits: Vec<(Setting, f64)> = all
            .iter()
            .filter(|(_, one)| !one.is_least)
            .map(|(setting, one)| (*setting, one.log_ratio))
            .collect();
        let mut own = Self {
            runs: limits.len(),
            repeated_deviation: repeated_deviation(&limits),
            ..Self::default()
        };
        if own.runs >= RUNS_MIN {
            let values = capacities.iter().map(|one| (one.log_ratio.max(lowest), one.is_least));
            let Normal { mean, deviation } = Normal::of(values);
            // Where runs have two modes, the median is in the more frequent one.
            let middle = median(&capacities).unwrap_or(mean);
            own.factor = exp(middle);
            own.deviation = hypot(deviation, mean - middle);
            capacities.iter_mut().for_each(|one| one.log_ratio -= middle);
        }
        Self { capacities, ..own }
    }

    /// Why this is not the throughput of runs.
    pub(super) fn fault(&self) -> Option<&'static str> {
        let logs = self.capacities.iter().map(|one| one.log_ratio);
        match () {
            () if !(self.factor > 0.0 && self.factor.is_finite()) => Some("one is not a factor"),
            () if !(self.deviation >= 0.0 && self.deviation.is_finite()) => {
                Some("one has no deviation of at least 0")
            }
            () if self.runs > 0 && self.capacities.is_empty() => {
                Some("of a former version: `model calibrate` it again")
            }
            () if !logs.clone().all(f64::is_finite) => Some("a capacity is not a number"),
            () if !logs.is_sorted() => Some("the capacities are not in order"),
            () => None,
        }
    }

    /// Standard deviations of normal variables whose intervals with probability `confidence` are as wide as that of a further
    /// run, below and above: by rank, or Student's where the runs do not suffice for that.
    #[must_use]
    pub fn deviations_at(&self, confidence: f64) -> [f64; 2] {
        // Both quantiles are 0 in the middle, and infinite at the end.
        let level = (0.5 + 0.5 * confidence).clamp(0.6, 1.0 - 1e-9);
        let normal = normal_quantile(level);
        let by_rank = self.bounds(1.0 - level).map(|bound| bound.map(|log| log.abs() / normal));
        let student = self.quantile(level) * self.deviation / normal;
        let seen = [self.extreme(f64::min), self.extreme(f64::max)];
        [0, 1].map(|side| by_rank[side].unwrap_or(student.max(seen[side].abs() / normal)))
    }

    /// The quantile of a further run over the deviation: Student's, or a normal one with too few runs.
    fn quantile(&self, level: f64) -> f64 {
        if self.runs < RUNS_MIN {
            return normal_quantile(level);
        }
        let runs = self.runs as f64;
        student_t_quantile(level, runs - 1.0) * sqrt(1.0 + 1.0 / runs)
    }

    /// The runs by which a bound on one side has this probability.
    #[must_use]
    pub fn ranks(&self, confidence: f64) -> Ranks {
        const ROUNDING: f64 = 1e-9;
        let lowest = self.capacities.iter().position(|one| !one.is_least);
        let needed = (1.0 / (1.0 - confidence) - ROUNDING).ceil() as usize;
        Ranks {
            runs: lowest.map_or(0, |lowest| self.capacities.len() - lowest),
            needed: needed.saturating_sub(1),
        }
    }

    /// A distribution that is nowhere above that of a further run, as probabilities and logarithms of capacities: the product
    /// limit in which that run is one of those at risk, with each probability at the limit before. There is none before the
    /// lowest one: its probability is at infinitely low values if the ranks suffice for `confidence`, else at those of Student's
    /// distribution with a deviation of at least `deviation_min`.
    pub(super) fn below_further_run(&self, confidence: f64, deviation_min: f64) -> Vec<(f64, f64)> {
        /// The part of a probability that is below the next value, and the number of these.
        const PART: f64 = 0.9;
        const PARTS: usize = 150;
        let count = self.capacities.len();
        let (mut above, mut value) = (1.0, f64::NEG_INFINITY);
        let mut all: Vec<(f64, f64)> = Vec::new();
        for (index, one) in self.capacities.iter().enumerate().filter(|(_, one)| !one.is_least) {
            let next = above * (1.0 - 1.0 / (count - index + 1) as f64);
            all.push((above - next, value));
            (above, value) = (next, one.log_ratio);
        }
        all.push((above, value));
        if self.ranks(confidence).suffice() {
            return all;
        }
        let lowest = all.get(1).map_or(f64::INFINITY, |(_, log)| *log);
        let deviation = self.deviation.max(deviation_min);
        for _ in 0..PARTS {
            let next = PART * all[0].0;
            let value = f64::min(self.quantile(next) * deviation, lowest);
            all.push((all[0].0 - next, value));
            all[0].0 = next;
        }
        all
    }

    /// The logarithms below and above which the capacity of a further run is with at most this probability each, by the
    /// product limit in which that run is one of those at risk. None where the runs do not suffice; 0 where they are on the
    /// other side of the prediction.
    fn bounds(&self, probability: f64) -> [Option<f64>; 2] {
        let count = self.capacities.len();
        let (mut low, mut high) = (None, None);
        let mut above = 1.0;
        for (index, one) in self.capacities.iter().enumerate().filter(|(_, one)| !one.is_least) {
            above *= 1.0 - 1.0 / (count - index + 1) as f64;
            if 1.0 - above <= probability {
                low = Some(one.log_ratio.min(0.0));
            }
            if above <= probability && high.is_none() {
                high = Some(one.log_ratio.max(0.0));
            }
        }
        [low, high]
    }

    /// The extreme of the runs that show a limit; 0 of none.
    fn extreme(&self, of: fn(f64, f64) -> f64) -> f64 {
        let limits = self.capacities.iter().filter(|one| !one.is_least);
        limits.map(|one| one.log_ratio).fold(0.0, of)
    }
}

/// The median by the product limit; none if fewer than half of the runs show a limit.
fn median(capacities: &[RunCapacity]) -> Option<f64> {
    let mut above = 1.0;
    let mut limits = capacities.iter().enumerate().filter(|(_, one)| !one.is_least);
    let middle = limits.find(|(index, _)| {
        above *= 1.0 - 1.0 / (capacities.len() - index) as f64;
        above <= 0.5
    });
    middle.map(|(_, one)| one.log_ratio)
}

/// Standard deviation between the runs of a setting, over the settings with several runs.
fn repeated_deviation(all: &[(Setting, f64)]) -> Option<f64> {
    let (mut squares, mut freedom) = (0.0, 0);
    for (index, (setting, _)) in all.iter().enumerate() {
        if all[..index].iter().any(|(other, _)| other == setting) {
            continue;
        }
        let same = all.iter().filter(|(other, _)| other == setting);
        let logs: Vec<f64> = same.map(|(_, log)| *log).collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        squares += logs.iter().map(|log| (log - mean) * (log - mean)).sum::<f64>();
        freedom += logs.len() - 1;
    }
    (freedom > 0).then(|| sqrt(squares / freedom as f64))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::calibrate::test_campaign::{campaign, rig};
    use crate::calibrate::{Calibration, calibrate};
    use crate::random::{StreamId, TraceRandom};

    fn answers(measured: f64, predicted: f64, headroom: f64, rate: f64) -> Answers {
        let setting = Setting { rate, ..campaign()[0].setting };
        Answers { setting, measured, predicted, headroom }
    }

    #[test]
    fn throughput_of_few_runs_has_a_wider_interval() {
        let capacities = vec![RunCapacity { log_ratio: 0.0, is_least: false }; 4];
        let known = Throughput { runs: 4, deviation: 0.1, capacities, ..Throughput::default() };
        // Student's quantile with three degrees of freedom is 3.182.
        let expected = 0.1 * 3.182_446 / 1.959_964 * sqrt(1.25);
        let near = |found: [f64; 2], expected: f64, tolerance: f64| {
            assert!(found.iter().all(|one| (one - expected).abs() < tolerance), "{found:?}");
        };
        near(known.deviations_at(0.95), expected, 1e-5);
        near(Throughput { runs: 100_000, ..known.clone() }.deviations_at(0.95), 0.1, 1e-4);
        assert!(
            [0.0, 1.0].iter().all(|at| known.deviations_at(*at).iter().all(|one| one.is_finite()))
        );
        near(Throughput::default().deviations_at(0.95), 0.0, f64::EPSILON);
        let calibration = calibrate(&campaign(), &rig(64, 8)).unwrap();
        let fault = |own: Throughput| {
            let throughput = [known.clone(), own];
            Calibration { throughput, ..calibration.clone() }.fault().unwrap_or_default()
        };
        assert_eq!(fault(known.clone()), "");
        for deviation in [-0.1, f64::NAN, f64::INFINITY] {
            let fault = fault(Throughput { deviation, ..known.clone() });
            assert!(fault.starts_with("throughput: one has no deviation"), "{fault}");
        }
        let of = |logs: [f64; 2]| {
            let capacities = logs.map(|log_ratio| RunCapacity { log_ratio, is_least: false });
            fault(Throughput { capacities: capacities.to_vec(), ..known.clone() })
        };
        assert_eq!(of([0.0, f64::NAN]), "throughput: a capacity is not a number");
        assert_eq!(of([0.1, 0.0]), "throughput: the capacities are not in order");
    }

    /// One run in ten has half the throughput of the others. An interval of 90 % reaches there, one of 70 % does not.
    #[test]
    fn interval_of_two_modes_reaches_to_the_lower_one() {
        let share = |number: usize| {
            let noise = 0.01 * (number % 7) as f64;
            if number.is_multiple_of(10) { 0.25 + noise } else { 0.5 + noise }
        };
        let all: Vec<Answers> =
            (0..100).map(|number| answers(share(number), 0.53, 0.5, number as f64)).collect();
        let throughput = Throughput::of(&all);
        let bound = |confidence: f64| {
            let normal = normal_quantile(0.5 + 0.5 * confidence);
            throughput.deviations_at(confidence).map(|one| normal * one)
        };
        let [below, above] = bound(0.9);
        assert!(below > 0.6 && above < 0.1, "{below} {above}");
        assert!(bound(0.7)[0] < 0.1, "{:?}", bound(0.7));
        // As many runs as stated are in the interval.
        let inside = |confidence: f64| {
            let [below, above] = bound(confidence);
            let range = -below - 1e-9..=above + 1e-9;
            let ratio = |number: usize| log(share(number) / 0.53 / throughput.factor);
            (0..100).filter(|number| range.contains(&ratio(*number))).count()
        };
        assert!(inside(0.9) >= 90 && inside(0.7) >= 70, "{} {}", inside(0.9), inside(0.7));
    }

    #[test]
    fn run_without_answers_is_the_lowest_and_does_not_widen_the_upper_side() {
        let share = |number: u32| 0.5 + 0.01 * f64::from(number % 7);
        let mut all: Vec<Answers> =
            (0..53).map(|number| answers(share(number), 0.53, 0.5, f64::from(number))).collect();
        let [_, above] = Throughput::of(&all).deviations_at(0.99);
        all.push(answers(1e-6, 0.53, 0.5, 99.0));
        let throughput = Throughput::of(&all);
        assert!(throughput.capacities[0].log_ratio < -10.0);
        let found = throughput.deviations_at(0.99)[1];
        assert!(found < 1.5 * above, "{found}, {above} without it");
    }

    /// Runs at six loads, of which some have half the capacity of the others: the interval contains a further run as often as it
    /// states, where ranks decide and where there are too few runs for that.
    #[test]
    fn intervals_contain_further_runs_as_often_as_stated() {
        const CAMPAIGNS: u32 = 400;
        const LOADS: [f64; 6] = [0.3, 0.6, 0.85, 1.1, 1.4, 2.0];
        let setting = campaign()[0].setting;
        let log_capacity = |campaign: u32, number: u64| {
            let mut draw = TraceRandom::new(9, campaign).draw(StreamId(1), number);
            let is_slow = draw.below(100) < 15;
            0.05 * draw.normal() - if is_slow { 0.7 } else { 0.0 }
        };
        for (runs, confidence) in [(48, 0.9), (48, 0.95), (200, 0.95), (12, 0.95)] {
            let is_inside = |campaign: &u32| {
                let of_run = |number: u64| {
                    let load = LOADS[number as usize % LOADS.len()];
                    let share = |capacity: f64| (capacity / load).min(1.0);
                    let measured = share(exp(log_capacity(*campaign, number)));
                    Answers { setting, measured, predicted: share(1.0), headroom: 1.0 / load }
                };
                let throughput = Throughput::of(&(0..runs).map(of_run).collect::<Vec<_>>());
                let normal = normal_quantile(0.5 + 0.5 * confidence);
                let [below, above] = throughput.deviations_at(confidence).map(|one| one * normal);
                let further = log_capacity(*campaign, runs) - log(throughput.factor);
                (-below - 1e-9..=above + 1e-9).contains(&further)
            };
            let inside = (0..CAMPAIGNS).filter(is_inside).count();
            let share = inside as f64 / f64::from(CAMPAIGNS);
            let error = sqrt(confidence * (1.0 - confidence) / f64::from(CAMPAIGNS));
            let expected = confidence - 2.0 * error..1.0 - 0.15 * (1.0 - confidence);
            assert!(expected.contains(&share), "{runs} runs, {confidence}: {share}");
        }
    }

    #[test]
    fn runs_without_losses_are_cut_off_at_their_rate() {
        let mut all: Vec<Answers> = (0..40).map(|_| answers(0.5, 0.5, 0.5, 2e6)).collect();
        // Runs at half the capacity, of which some lose Interests. Each counts against all that satisfy as much.
        all.extend((0..38).map(|_| answers(1.0, 1.0, 2.0, 5e5)));
        all.extend((0..2).map(|_| answers(0.8, 1.0, 2.0, 5e5)));
        let throughput = Throughput::of(&all);
        assert_eq!((throughput.runs, throughput.capacities.len()), (42, 80));
        assert!((throughput.factor - 1.0).abs() < 0.1, "{throughput:?}");
        let low = log(0.4 / throughput.factor);
        assert!((throughput.capacities[0].log_ratio - low).abs() < 1e-12);
        let [bound, _] = throughput.bounds(0.025);
        assert!(bound.is_some_and(|log| (log - low).abs() < 1e-12), "2 of 81: {bound:?}");
        assert_eq!(throughput.bounds(0.01)[0], None, "80 runs do not suffice for that");
        let [below, _] = throughput.deviations_at(0.98);
        assert!(
            below * normal_quantile(0.99) >= -low - 1e-9,
            "not less than what was seen: {below}"
        );
    }

    #[test]
    fn deviation_of_repeated_runs_is_around_those_of_the_same_setting() {
        let all: Vec<Answers> = [0.4, 0.44, 0.6, 0.66, 0.5]
            .into_iter()
            .zip([1.0, 1.0, 2.0, 2.0, 3.0])
            .map(|(measured, rate)| answers(measured, 0.5, 0.5, rate))
            .collect();
        let found = Throughput::of(&all).repeated_deviation.unwrap();
        assert!((found - log(1.1) / 2.0_f64.sqrt()).abs() < 1e-9, "{found}");
        assert_eq!(Throughput::of(&all[1..2]).repeated_deviation, None);
    }
}
