//! Empirical coverage of the statistical methods over a grid of probabilities.
//!
//! `cargo test` repeats each cell a few hundred times; `cargo test -p ndn-model --test coverage --
//! --ignored` 10,000 times, as a claim about coverage deserves.
#![allow(clippy::unwrap_used, reason = "tests")]

use ndn_model::random::{Draw, StreamId, TraceRandom};
use ndn_model::smc::Verdict;
use ndn_model::smc::fixed::{clopper_pearson, okamoto_interval, okamoto_sample_size};
use ndn_model::smc::mean::BoundedSample;
use ndn_model::smc::quantile::dkw_interval;
use ndn_model::smc::sequence::BetaBinomialSequence;
use ndn_model::smc::test::{Hypotheses, SamplingPlan, Sprt};

const GRID: [f64; 11] = [0.0, 1e-4, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0];
const ERROR: f64 = 0.05;

/// Asserts that `covers` holds in at least 95 % of the repetitions, less four standard deviations of
/// what chance does to the count.
fn assert_coverage(name: &str, repetitions: u32, mut covers: impl FnMut(&mut Draw) -> bool) {
    let count = (0..repetitions)
        .filter(|repetition| covers(&mut TraceRandom::new(2026, *repetition).draw(StreamId(9), 0)))
        .count();
    let n = f64::from(repetitions);
    let least = n * (1.0 - ERROR) - 4.0 * (n * ERROR * (1.0 - ERROR)).sqrt();
    assert!(count as f64 >= least, "{name}: {count} of {repetitions} intervals cover");
}

fn cover_grid(repetitions: u32) {
    let okamoto_trials = okamoto_sample_size(0.05, ERROR).unwrap();
    for p in GRID {
        assert_coverage(&format!("Okamoto at {p}"), repetitions, |draw| {
            let successes = (0..okamoto_trials).filter(|_| draw.unit() < p).count() as u64;
            okamoto_interval(successes, okamoto_trials, 0.05).contains(p)
        });
        assert_coverage(&format!("Clopper-Pearson at {p}"), repetitions, |draw| {
            let successes = (0..500).filter(|_| draw.unit() < p).count() as u64;
            clopper_pearson(successes, 500, ERROR).contains(p)
        });
        // The interval is computed after every observation, and must contain p each time.
        assert_coverage(&format!("beta-binomial sequence at {p}"), repetitions, |draw| {
            let mut sequence = BetaBinomialSequence::new(ERROR).unwrap();
            (1..=1000u32).all(|trial| {
                sequence.observe(draw.unit() < p);
                !(trial < 20 || trial % 25 == 0) || sequence.interval().contains(p)
            })
        });
        assert_coverage(&format!("betting at {p}"), repetitions, |draw| {
            let mut sample = BoundedSample::new(0.0, 1.0).unwrap();
            (1..=200u32).all(|trial| {
                // Uniform fractions of successes: mean p, variance below that of a coin.
                let value = if draw.unit() < p { 1.0 } else { 0.0 };
                sample.observe(value).unwrap();
                trial % 50 != 0 || sample.betting(ERROR).unwrap().contains(p)
            })
        });
        assert_coverage(&format!("empirical Bernstein at {p}"), repetitions, |draw| {
            let mut sample = BoundedSample::new(0.0, 1.0).unwrap();
            for _ in 0..200 {
                sample.observe(if draw.unit() < p { 1.0 } else { 0.0 }).unwrap();
            }
            sample.empirical_bernstein(ERROR).unwrap().contains(p)
        });
    }
    for level in [0.01, 0.5, 0.9, 0.99] {
        assert_coverage(&format!("DKW at {level}"), repetitions, |draw| {
            let mut sample: Vec<f64> = (0..400).map(|_| draw.unit()).collect();
            sample.sort_by(f64::total_cmp);
            dkw_interval(&sample, level, ERROR).unwrap().contains(level)
        });
    }
}

fn cover_decisions(repetitions: u32) {
    for (accept, reject) in [(0.96, 0.90), (0.999, 0.99), (0.02, 0.005), (0.6, 0.4)] {
        let hypotheses = Hypotheses::new(accept, reject, ERROR, ERROR).unwrap();
        let plan = SamplingPlan::smallest(hypotheses);
        for (p, right) in [(accept, Verdict::Holds), (reject, Verdict::Fails)] {
            assert_coverage(&format!("SPRT at {p}"), repetitions, |draw| {
                let mut test = Sprt::new(hypotheses);
                while test.observe(draw.unit() < p) == Verdict::Undecided {}
                test.verdict() == right
            });
            assert_coverage(&format!("sampling plan at {p}"), repetitions, |draw| {
                let successes = (0..plan.trials).filter(|_| draw.unit() < p).count() as u64;
                plan.verdict(successes) == right
            });
        }
    }
}

#[test]
fn intervals_cover_at_least_as_often_as_stated() {
    cover_grid(200);
}

#[test]
fn decisions_are_right_at_least_as_often_as_stated() {
    cover_decisions(300);
}

#[test]
#[ignore = "minutes: 10,000 repetitions of each cell"]
fn intervals_cover_in_ten_thousand_repetitions() {
    cover_grid(10_000);
}

#[test]
#[ignore = "minutes: 10,000 repetitions of each cell"]
fn decisions_are_right_in_ten_thousand_repetitions() {
    cover_decisions(10_000);
}
