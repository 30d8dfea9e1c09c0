//! Estimation of a calibration from the runs of a campaign.

use libm::log;

use super::calibration::Calibration;
use super::cost::{CostFit, generator};
use super::effects::{EFFECT_COUNT, TRANSFER};
use super::error::CalibrateError;
use super::latency::{Discrepancy, latency_errors, latency_outside_forwarder};
use super::order_statistics::{half_width, median};
use super::prediction::{ModelOfRun, Prediction, TRACES_OF_LAW};
use super::ranges::Ranges;
use super::run::{Rig, Run, Setting};
use super::selection::{
    LeftOut, LeftOutReason, for_generator_cost, left_out, usable, usable_for_latency,
    with_least_load, without_waiting_workers,
};
use super::service_times::{forwarding_shapes, pauses_in_services, stage_shares};
use super::slowdown::Slowdown;
use super::throughput::{Answers, Throughput};
use super::transfer::TransferInfluence;
use crate::pauses::PauseProcess;

/// Runs that the time to wake up is estimated from, at most, and the longest time.
const WAKE_UP_RUNS_MAX: usize = 8;
const WAKE_UP_MAX_NS: f64 = 100e3;

/// Calibrates from the runs of a campaign.
///
/// # Errors
/// Too few runs, none with service times, or runs that do not tell the effects apart.
pub fn calibrate(runs: &[Run], rig: &Rig) -> Result<Calibration, CalibrateError> {
    let usable = usable(runs);
    let mut transfers = TransferInfluence::by_workers(&usable);
    let reference_ns = usable.iter().map(|run| run.host.reference_ns());
    let reference_ns = median(reference_ns.filter(|ns| *ns > 0.0).collect());
    let CostFit { runs: timed, effects, residual, replicates, slowdown_exponent } =
        CostFit::of(&without_waiting_workers(&usable), &transfers, reference_ns)?;
    let (generator, generator_transfer) =
        generator(&for_generator_cost(&usable, rig.processors), &transfers);
    for (transfer, effect) in transfers.iter_mut().zip(&effects[TRANSFER..]) {
        transfer.effect = *effect;
    }
    let mut calibration = Calibration {
        runs: timed,
        left_out: left_out(runs),
        discarded: runs.iter().map(|run| run.discarded).sum(),
        reference_ns,
        slowdown_exponent,
        transfers,
        effects: effects[..EFFECT_COUNT].to_vec(),
        residual,
        replicates,
        shares: stage_shares(&usable)?,
        shapes: forwarding_shapes(&usable)?,
        generator,
        generator_transfer,
        latency_ns: latency_outside_forwarder(&usable),
        pauses: PauseProcess::of(&usable.iter().map(|run| &run.pauses[..]).collect::<Vec<_>>()),
        pauses_in_services: pauses_in_services(&usable, rig.processors),
        throughput: Default::default(),
        turn_ns: rig.turn_ns,
        wake_up_ns: 0.0,
        discrepancies: Vec::new(),
        latency_residual: 0.0,
        queue: rig.queue,
        processors: rig.processors,
        ranges: Ranges::of(&usable),
    };
    subtract_charged_pauses(&mut calibration);
    let for_latency = usable_for_latency(&usable);
    estimate_wake_up(&mut calibration, &for_latency);
    estimate_throughput(&mut calibration, &usable, rig.warm_up);
    estimate_latency_ratios(&mut calibration, &for_latency, rig.warm_up);
    Ok(calibration)
}

/// Subtracts from all times the pauses that the kernel counts as processor time.
fn subtract_charged_pauses(calibration: &mut Calibration) {
    let running = 1.0 - calibration.pauses.as_ref().map_or(0.0, |pauses| pauses.charged);
    let effects = calibration.effects.iter_mut().chain(calibration.replicates.iter_mut().flatten());
    let transfers = calibration.transfers.iter_mut().map(|transfer| &mut transfer.effect);
    let transfers = transfers.chain(Some(&mut calibration.generator_transfer));
    effects.chain(&mut calibration.generator).chain(transfers).for_each(|ns| *ns *= running);
}

/// The setting of a run with its rate and hits as measured, and its prediction without a part that comes from itself.
fn predict_run<'c>(
    calibration: &'c Calibration,
    run: &Run,
    times: (f64, f64),
) -> Option<(ModelOfRun<'c>, Prediction)> {
    let setting = Setting { rate: run.rate(), hit_ratio: run.measured_hit_ratio(), ..run.setting };
    let slowdown = Slowdown::of(calibration, run);
    let model = ModelOfRun { calibration, setting, slowdown, times };
    let traces = if calibration.pauses.is_some() { TRACES_OF_LAW } else { 1 };
    let prediction = model.predict(traces).ok()?;
    Some((model, prediction))
}

/// Estimates the time that a worker takes to wake up: with it, the latencies of the runs with the least load are nearest to
/// those of the model. Because of the turns, a range of times can have the same latencies: then it is the shortest.
fn estimate_wake_up(calibration: &mut Calibration, runs: &[&Run]) {
    const STEPS: u32 = 20;
    const TIMES: (f64, f64) = (0.02, 0.1);
    if calibration.turn_ns == 0 {
        return;
    }
    let mut idlest = with_least_load(runs);
    idlest.truncate(WAKE_UP_RUNS_MAX);
    let mut best = (f64::INFINITY, 0.0);
    for step in 0..=STEPS {
        calibration.wake_up_ns = f64::from(step) * WAKE_UP_MAX_NS / f64::from(STEPS);
        let errors = idlest.iter().filter_map(|run| {
            let (_, predicted) = predict_run(calibration, run, TIMES)?;
            let error = |level: usize, ns: u64| log(ns as f64 / predicted.latency_ns[level]).abs();
            Some(error(0, run.latency_ns[0]) + error(1, run.latency_ns[2]))
        });
        let error = median(errors.collect());
        if error < best.0 {
            best = (error, calibration.wake_up_ns);
        }
    }
    calibration.wake_up_ns = best.1;
}

/// Compares the answers of runs with more load than they can satisfy with those of the model. What keeps a worker from its
/// work, and is neither in its processor time nor seen by the meter of pauses, is in their ratio.
fn estimate_throughput(calibration: &mut Calibration, runs: &[&Run], warm_up: f64) {
    let mut answers = [Vec::new(), Vec::new()];
    for run in runs {
        // A run without answers has a capacity below that of one answer.
        let satisfied = f64::max(run.satisfied as f64, 0.5);
        let prediction = predict_run(calibration, run, (warm_up, run.seconds));
        let own = prediction.map(|(model, predicted)| Answers {
            setting: run.setting,
            measured: satisfied / run.sent.max(1) as f64,
            predicted: predicted.satisfied,
            headroom: model.headroom(),
        });
        match own.filter(|own| own.capacity().log_ratio.is_finite()) {
            Some(own) => answers[usize::from(calibration.is_shared(&run.setting))].push(own),
            None => note_not_predicted(calibration, run),
        }
    }
    calibration.throughput = answers.map(|answers| Throughput::of(&answers));
}

/// Notes that a run is left out, once.
fn note_not_predicted(calibration: &mut Calibration, run: &Run) {
    let own = LeftOut { run: run.number, reason: LeftOutReason::NotPredicted };
    if !calibration.left_out.contains(&own) {
        calibration.left_out.push(own);
    }
}

/// Compares the latencies of the runs with those of the model.
fn estimate_latency_ratios(calibration: &mut Calibration, runs: &[&Run], warm_up: f64) {
    let mut all = Vec::new();
    for run in runs {
        let prediction = predict_run(calibration, run, (warm_up, run.seconds));
        let Some((model, predicted)) =
            prediction.filter(|(_, predicted)| predicted.latency_ns[0] > 0.0)
        else {
            note_not_predicted(calibration, run);
            continue;
        };
        let measured = [run.latency_ns[0], run.latency_ns[2]];
        let ratio = [0, 1].map(|level| measured[level] as f64 / predicted.latency_ns[level]);
        all.push(Discrepancy {
            is_shared: calibration.is_shared(&run.setting),
            load: model.load(),
            ratio,
        });
    }
    calibration.discrepancies = all;
    calibration.latency_residual = half_width(latency_errors(&calibration.discrepancies));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use libm::exp;

    use crate::assembly::Placement;
    use crate::calibrate::effects::REMOTE;
    use crate::calibrate::test_campaign::{TRUE, campaign, paused_campaign, rig};
    use crate::calibrate::{CapacitySearch, EFFECTS, LatencyFactors, Uncertainty, model_text};
    use crate::file::Model;
    use crate::network::Network;
    use crate::random::{StreamId, TraceRandom};

    fn capacity(calibration: &Calibration, setting: Setting) -> f64 {
        let search = CapacitySearch { calibration, setting, unsatisfied: 0.001, times: (0.1, 0.2) };
        search.of_long_time().unwrap().rate
    }

    #[test]
    fn effects_of_known_runs_are_recovered() {
        let calibration = calibrate(&campaign(), &rig(1024, 2)).unwrap();
        for (name, (found, expected)) in EFFECTS.iter().zip(calibration.effects.iter().zip(TRUE)) {
            assert!(
                (found - expected).abs() < 0.03 * expected + 15.0,
                "{name}: {found} {expected}"
            );
        }
        assert!((0.005..0.02).contains(&calibration.residual), "{}", calibration.residual);
        let setting = campaign()[5].setting;
        let deviation = Uncertainty::of(&calibration, &setting).run_deviation();
        assert!((0.005..0.025).contains(&deviation), "{deviation}");
    }

    #[test]
    fn placements_are_answered_if_remote_memory_was_measured() {
        let local = calibrate(&campaign(), &rig(1024, 2)).unwrap();
        assert!(local.answers(Placement::P1) && !local.answers(Placement::P4));
        // 250 ns more for each Interest and its Data in remote memory.
        let moved = |(number, run): (usize, Run)| {
            if number % 3 != 1 {
                return run;
            }
            let setting = Setting { placement: Placement::P4, ..run.setting };
            let cpu_ns = run.cpu_ns.iter().map(|ns| ns + 250 * run.interests).collect();
            Run { setting, cpu_ns, ..run }
        };
        let runs: Vec<Run> = campaign().into_iter().enumerate().map(moved).collect();
        let calibration = calibrate(&runs, &rig(1024, 2)).unwrap();
        assert!((calibration.effects[REMOTE] - 250.0).abs() < 25.0, "{:?}", calibration.effects);
        assert!(calibration.answers(Placement::P2) && calibration.answers(Placement::P4));
        let near = Setting { placement: Placement::P1, hit_ratio: 0.0, ..campaign()[0].setting };
        let rate = |placement: Placement| {
            let setting = Setting { placement, ..near };
            capacity(&calibration, setting)
        };
        let [p1, p2, p4] = [Placement::P1, Placement::P2, Placement::P4].map(rate);
        let slower = calibration.saturated_ns(&Setting { placement: Placement::P4, ..near }, None)
            / calibration.saturated_ns(&near, None);
        assert!((p1 / p4 / slower - 1.0).abs() < 0.02, "{p1} {p4} {slower}");
        assert!(p2 < 0.99 * p1 && p4 < 0.99 * p2, "{p1} {p2} {p4}");
        let notes = calibration.extrapolations(&Setting { placement: Placement::P2, ..near });
        assert!(notes.iter().any(|note| note.contains("half of what P4 does")), "{notes:?}");
    }

    #[test]
    fn latencies_are_those_of_runs_with_a_similar_load() {
        // Twice as long at low loads as at high ones, as where threads sleep.
        let with_latency = |run: Run| {
            let latency_ns = if run.setting.rate < 150e3 {
                [80_000, 120_000, 180_000]
            } else {
                [40_000, 60_000, 90_000]
            };
            Run { latency_ns, ..run }
        };
        let at = |rate: f64| {
            campaign().into_iter().map(move |run| {
                let sent = (rate * run.seconds) as u64;
                Run { sent, satisfied: sent, setting: Setting { rate, ..run.setting }, ..run }
            })
        };
        let runs: Vec<Run> = at(100e3).chain(at(220e3)).map(with_latency).collect();
        let calibration = calibrate(&runs, &rig(1024, 8)).unwrap();
        assert!(calibration.latency_residual < 0.2, "{}", calibration.latency_residual);
        for (rate, expected) in [(100e3, 180_000.0), (220e3, 90_000.0)] {
            let setting = Setting { rate, hit_ratio: 0.0, ..campaign()[0].setting };
            let model = ModelOfRun {
                calibration: &calibration,
                setting,
                slowdown: Slowdown::NONE,
                times: (0.05, 0.1),
            };
            let found = model.predict(1).unwrap().latency_ns[1];
            assert!((found / expected - 1.0).abs() < 0.25, "{rate}: {found}");
        }
        let few = |runs: usize| {
            let discrepancies = calibration.discrepancies[..runs].to_vec();
            LatencyFactors::of(&discrepancies, 0.95).range
        };
        assert!(few(0).is_none() && few(18).is_none(), "19 runs have 19 in 20 below the largest");
        let (low, high) = LatencyFactors::of(&calibration.discrepancies, 0.95).range.unwrap();
        // More than one in twenty has a load between the two.
        assert!(low < 1.0 && high > 1.0 && high < 2.1, "{low} {high}");
    }

    #[test]
    fn throughput_of_overloaded_runs_corrects_the_capacity() {
        let known = calibrate(&campaign(), &rig(64, 8)).unwrap();
        assert_eq!(known.throughput.each_ref().map(|one| one.runs), [0; 2]);
        // A worker has a tenth less of its processor than its processor time shows, and runs differ by three percent.
        let slower = |run: Run| {
            let rate = 1.5e9 * run.setting.workers as f64 / known.saturated_ns(&run.setting, None);
            let (seconds, sent) = (0.1, (0.1 * rate) as u64);
            let noise = TraceRandom::new(4, 0).draw(StreamId(1), run.number as u64).normal();
            let satisfied = (sent as f64 * 0.9 * exp(0.03 * noise) / 1.5) as u64;
            Run { seconds, sent, satisfied, refused: sent - satisfied, ..run }
        };
        let runs: Vec<Run> = campaign().into_iter().map(slower).collect();
        // One of them has no answer, and one no setting of the model.
        let stopped = |run: Run| match run.number {
            7 => Run { satisfied: 0, refused: run.sent, ..run },
            8 => Run { sent: 0, satisfied: 0, refused: 0, ..run },
            _ => run,
        };
        let others: Vec<Run> = runs.iter().cloned().map(stopped).collect();
        let found = calibrate(&others, &rig(64, 8)).unwrap();
        let capacities = &found.throughput[0].capacities;
        assert_eq!(capacities.len(), 63);
        assert!(!capacities[0].is_least && capacities[0].log_ratio < -8.0, "{:?}", capacities[0]);
        let not_predicted = LeftOut { run: 8, reason: LeftOutReason::NotPredicted };
        assert_eq!(found.left_out.iter().filter(|one| **one == not_predicted).count(), 1);
        let calibration = calibrate(&runs, &rig(64, 8)).unwrap();
        let found = &calibration.throughput[0];
        assert!(found.runs > 50 && (found.factor - 0.9).abs() < 0.03, "{found:?}");
        assert!((0.02..0.06).contains(&found.deviation), "{found:?}");
        let setting = Setting { workers: 1, hit_ratio: 0.0, ..campaign()[0].setting };
        let rate = |of: &Calibration| capacity(of, setting);
        assert!((rate(&calibration) / rate(&known) - 0.9).abs() < 0.03);
        let (low, high) = Uncertainty::of(&calibration, &setting).throughput_factors(0.95);
        assert!((0.85..0.97).contains(&low) && high > 1.03 && high < 1.15, "{low} {high}");
    }

    #[test]
    fn time_to_wake_up_is_that_of_the_latencies_of_calm_runs() {
        let known = Calibration {
            turn_ns: 20_000,
            wake_up_ns: 30_000.0,
            ..calibrate(&campaign(), &rig(4096, 8)).unwrap()
        };
        let known = Calibration { discrepancies: Vec::new(), ..known };
        let woken = |run: Run| {
            let (_, predicted) = predict_run(&known, &run, (0.02, 0.1)).unwrap();
            let latency_ns = predicted.latency_ns.map(|ns| ns as u64);
            Run { latency_ns: [latency_ns[0], latency_ns[1], latency_ns[1]], ..run }
        };
        let runs: Vec<Run> = campaign().into_iter().map(woken).collect();
        let rig = Rig { turn_ns: 20_000, ..rig(4096, 8) };
        let found = calibrate(&runs, &rig).unwrap();
        assert!((found.wake_up_ns - 30_000.0).abs() < 1.0, "{}", found.wake_up_ns);
        assert!(found.latency_residual < 0.05, "{}", found.latency_residual);
    }

    #[test]
    fn campaigns_that_do_not_suffice_are_refused() {
        let few: Vec<Run> = campaign().into_iter().take(10).collect();
        assert!(matches!(
            calibrate(&few, &rig(1024, 2)),
            Err(CalibrateError::TooFewRuns { runs: 10, .. })
        ));
        let untraced: Vec<Run> =
            campaign().into_iter().map(|run| Run { services: None, ..run }).collect();
        assert_eq!(calibrate(&untraced, &rig(1024, 2)), Err(CalibrateError::NotTraced));
        let idle = campaign().into_iter().map(|run| Run { cpu_ns: vec![0], ..run });
        let runs: Vec<Run> = campaign().into_iter().chain(idle).collect();
        let calibration = calibrate(&runs, &rig(1024, 2)).unwrap();
        assert_eq!((calibration.runs, calibration.fault()), (64, None));
    }

    #[test]
    fn planted_pauses_are_recovered_and_taken_off() {
        let (planted, runs) = paused_campaign();
        let calibration = calibrate(&runs, &rig(1024, 2)).unwrap();
        let pauses = calibration.pauses.as_ref().unwrap();
        assert!((pauses.share - 0.1).abs() < 0.01 && !pauses.are_together(), "{pauses:?}");
        for (own, known) in
            [(&pauses.law.interval, &planted.interval), (&pauses.law.length, &planted.length)]
        {
            let ratio = own.distribution().mean() / known.mean();
            assert!((ratio - 1.0).abs() < 0.1, "{ratio}");
        }
        for (name, (found, expected)) in EFFECTS.iter().zip(calibration.effects.iter().zip(TRUE)) {
            assert!(
                (found - expected).abs() < 0.05 * expected + 15.0,
                "{name}: {found} {expected}"
            );
        }
        // The model of a setting has them, on the processors that the campaign has.
        let setting = Setting { workers: 1, hit_ratio: 0.0, ..runs[0].setting };
        let network = |calibration: &Calibration, workers| {
            let setting = Setting { workers, ..setting };
            let text = model_text(calibration, &setting, 0.1, 0.2).unwrap();
            Model::parse(&text).unwrap().network
        };
        let processors = |network: Network| network.pauses.map(|p| (p.stations, p.consumers));
        let own = (vec![Some(0), Some(1), Some(1)], vec![Some(1); 2]);
        assert_eq!(processors(network(&calibration, 1)), Some(own));
        let shared = (vec![Some(0), Some(1), Some(1), Some(0)], vec![Some(0), Some(1)]);
        assert_eq!(processors(network(&calibration, 2)), Some(shared));
        let elsewhere = (vec![Some(0), None, None], vec![None; 2]);
        let far = calibration.clone().without_generator();
        assert_eq!(processors(network(&far, 1)), Some(elsewhere));
        let calm = calibration.clone().without_pauses();
        assert_eq!(processors(network(&calm, 1)), None);
        // And it is written and read with the calibration.
        let text = toml::to_string(&calibration).unwrap();
        assert_eq!(toml::from_str::<Calibration>(&text).unwrap(), calibration);
    }
}
