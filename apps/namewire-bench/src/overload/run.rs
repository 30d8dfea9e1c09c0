//! Searches for the sustainable rate, and offers multiples of it.

use ndn_traffic::{Arrivals, Load};

use super::offer::{OfferResult, Subject, to_f64};
use super::report::{
    BORNE_OUT_MIN, Losses, OverloadCase, OverloadMode, OverloadOptions, OverloadRun, SUSTAINED_MIN,
};
use super::search::largest_sustained;
use ndn_pipeline_bench::median;

/// Maximum steal time of a valid round, as a share.
const STEAL_MAX: f64 = 0.01;
/// Minimum share of the intended rate that must be sent.
const SENT_MIN: f64 = 0.95;
/// Maximum share of the time that the producer may be busy.
const BUSY_MAX: f64 = 0.8;
/// Maximum share of the packets that the generator's sockets may lose.
const LOST_MAX: f64 = 0.01;
/// Searches for the sustainable rate if the measurement at it does not confirm the first one.
const SEARCHES: usize = 2;
/// Offers per rate; a short disturbance of the machine is not an overload.
const TRIES: usize = 3;
const SUCCESSES: usize = 2;
/// More than any consumer can send per second.
const UNBOUNDED: f64 = 2e7;

/// Measures all rates, for one number of workers and one size of Data.
pub(super) fn run(
    options: &OverloadOptions,
    workers: usize,
    payload: usize,
    progress: &mut impl FnMut(&str),
) -> anyhow::Result<OverloadRun> {
    let here = format!("{workers} workers, {payload} B");
    progress(&format!("{here}: start and warm"));
    let start = |answers_first| -> anyhow::Result<Subject<'_>> {
        let mut subject = Subject::start(options, workers, payload, answers_first)?;
        subject.warm()?;
        Ok(subject)
    };
    let (mut first, mut plain) = (start(true)?, start(false)?);
    let closed_loop_per_s = first.closed_loop()?;
    let (mut start_per_s, mut searches) = (closed_loop_per_s, 0);
    let (sustainable_per_s, generator_per_s, rows, is_valid) = loop {
        let sustainable_per_s = first.sustainable(start_per_s)?;
        searches += 1;
        let most = first.offer(open_loop(UNBOUNDED, first.consumers()), None, options.stretch)?;
        let generator_per_s = most.per_second(most.sent);
        progress(&format!(
            "{here}: {sustainable_per_s:.0}/s are sustainable, {closed_loop_per_s:.0}/s in a closed \
             loop; consumers can send {generator_per_s:.0}/s"
        ));
        let is_last = searches == SEARCHES;
        let mut subjects = [&mut first, &mut plain];
        let (rows, is_valid) =
            measure(options, sustainable_per_s, &mut subjects, is_last, &here, progress)?;
        if is_valid || is_last {
            break (sustainable_per_s, generator_per_s, rows, is_valid);
        }
        progress(&format!("{here}: {sustainable_per_s:.0}/s are not sustained, search again"));
        start_per_s = sustainable_per_s;
    };
    let touchstone = rows.iter().flatten().find(|row| row.is_touchstone());
    let satisfied_at_1 = touchstone.map(|row| row.satisfied);
    let (mut cases, mut modes) = (Vec::new(), Vec::new());
    for (mut rows, answers_first) in rows.into_iter().zip([true, false]) {
        modes.push(OverloadMode::of(&mut rows, answers_first, is_valid));
        cases.extend(rows);
    }
    Ok(OverloadRun {
        workers,
        payload,
        valid: is_valid,
        satisfied_at_1,
        sustainable_per_s,
        closed_loop_per_s,
        generator_per_s,
        modes,
        cases,
    })
}

/// Measures the rows of both modes, answers first before the other, and returns whether the row at the sustainable
/// rate confirms it. If not, measures nothing beyond it, except in the last try.
fn measure(
    options: &OverloadOptions,
    sustainable_per_s: f64,
    subjects: &mut [&mut Subject<'_>; 2],
    is_last: bool,
    here: &str,
    progress: &mut impl FnMut(&str),
) -> anyhow::Result<([Vec<OverloadCase>; 2], bool)> {
    let (mut rows, mut is_valid) = ([Vec::new(), Vec::new()], true);
    for &ratio in &options.ratios {
        // Modes alternate, so that other activity of the machine affects both.
        let mut outcomes = [Vec::new(), Vec::new()];
        let rate = ratio * sustainable_per_s;
        for _ in 0..options.rounds {
            for (subject, outcomes) in subjects.iter_mut().zip(&mut outcomes) {
                let load = open_loop(rate, subject.consumers());
                outcomes.push(subject.offer(load, None, options.stretch)?);
            }
        }
        for ((rows, outcomes), answers_first) in rows.iter_mut().zip(outcomes).zip([true, false]) {
            let row = case(answers_first, ratio, rate, outcomes);
            let mode = if answers_first { "answers first" } else { "as it comes" };
            progress(&format!(
                "{here}, {mode}: {ratio:.2} x, {:.0}/s sent, {:.0}/s satisfied",
                row.offered_per_s, row.satisfied_per_s
            ));
            is_valid &= row.bears_out(if is_last { BORNE_OUT_MIN } else { SUSTAINED_MIN });
            rows.push(row);
        }
        if !is_valid && !is_last {
            break;
        }
    }
    Ok((rows, is_valid))
}

/// Returns the load of an open loop with this number of Interests per second over all consumers.
fn open_loop(per_second: f64, consumers: usize) -> Load {
    let per_second = per_second / to_f64(consumers as u64);
    Load::Rate { per_second, arrivals: Arrivals::Poisson }
}

impl Subject<'_> {
    /// Exchanges per second of a closed loop.
    fn closed_loop(&mut self) -> anyhow::Result<f64> {
        let mut rates = Vec::new();
        for _ in 0..TRIES {
            let outcome = self.offer(self.window(), None, self.stretch())?;
            rates.push(outcome.per_second(outcome.satisfied_in_time));
        }
        Ok(median(rates.into_iter()))
    }

    /// Searches for the maximum rate of which nearly all Interests are satisfied in an open loop.
    fn sustainable(&mut self, start: f64) -> anyhow::Result<f64> {
        largest_sustained(start, |rate| {
            let mut successes = 0;
            for tries in 1..=TRIES {
                let outcome =
                    self.offer(open_loop(rate, self.consumers()), None, self.stretch())?;
                let was_sent = outcome.per_second(outcome.sent) >= SENT_MIN * rate;
                successes += usize::from(was_sent && outcome.satisfied_share() >= SUSTAINED_MIN);
                if successes == SUCCESSES || tries - successes > TRIES - SUCCESSES {
                    break;
                }
            }
            Ok(successes == SUCCESSES)
        })
    }
}

/// Summarizes the rounds of a rate in a row.
fn case(
    answers_first: bool,
    ratio: f64,
    rate: f64,
    mut outcomes: Vec<OfferResult>,
) -> OverloadCase {
    let rounds_discarded = outcomes.iter().filter(|one| one.stolen > STEAL_MAX).count();
    // Without an undisturbed round, the disturbed ones are used and their number is reported.
    if rounds_discarded < outcomes.len() {
        outcomes.retain(|outcome| outcome.stolen <= STEAL_MAX);
    }
    let over = |figure: &dyn Fn(&OfferResult) -> f64| median(outcomes.iter().map(figure));
    let offered_per_s = over(&|one| one.per_second(one.sent));
    let millis =
        |quantile: f64| over(&|one| to_f64(one.latency_ns.value_at_quantile(quantile)) / 1e6);
    let producer_busy = over(&|one| one.producer_busy);
    let is_slow = offered_per_s < SENT_MIN * rate || producer_busy > BUSY_MAX;
    OverloadCase {
        answers_first,
        ratio,
        offered_per_s,
        satisfied_per_s: over(&|one| one.per_second(one.satisfied_in_time)),
        of_peak: None,
        satisfied: over(&OfferResult::satisfied_share),
        nacked_per_s: over(&|one| one.per_second(one.nacked)),
        answers_lost: over(&|one| {
            1.0 - to_f64(one.satisfied) / to_f64(one.answers.max(one.satisfied).max(1))
        }),
        losses: Losses {
            interest_socket: over(&|one| one.losses.interest_socket),
            answer_socket: over(&|one| one.losses.answer_socket),
            shed: over(&|one| one.losses.shed),
            between_workers: over(&|one| one.losses.between_workers),
            producer_socket: over(&|one| one.losses.producer_socket),
            consumer_socket: over(&|one| one.losses.consumer_socket),
        },
        p50_ms: millis(0.5),
        p99_ms: millis(0.99),
        forwarder_busy: over(&|one| one.forwarder_busy),
        producer_busy,
        generator_bound: is_slow || over(&OfferResult::lost_by_generator) > LOST_MAX,
        rounds_discarded,
    }
}
