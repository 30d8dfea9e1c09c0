//! Runs of a forwarder whose times are known, for tests.

use crate::assembly::Placement;
use crate::calibrate::effects::{Effects, regressors};
use crate::calibrate::least_squares::dot;
use crate::calibrate::run::{
    Histogram, Host, QueueLengths, Rig, Run, ServiceTimes, Setting, Stalls,
};
use crate::distribution::Distribution;
use crate::network::Pauses;
use crate::pauses::{self, Watch};
use crate::random::{StreamId, TraceRandom};

/// A campaign without turns of the generator.
pub(super) fn rig(queue: usize, processors: usize) -> Rig {
    Rig { queue, processors, turn_ns: 0, warm_up: 0.1 }
}

pub(super) const TRUE: Effects =
    [5000.0, 2000.0, 30.0, 100.0, 900.0, 20.0, 80.0, 300.0, 10.0, 40.0, 0.0, 0.0, 0.0];

pub(super) fn histogram(mean: u64) -> Histogram {
    let buckets =
        vec![(mean / 2, mean / 2 + 8, 50), (mean, mean + 8, 40), (2 * mean, 2 * mean + 8, 10)];
    let sum_ns = buckets.iter().map(|(from, below, count)| (from + below) / 2 * count).sum();
    Histogram { count: 100, sum_ns, buckets }
}

/// Runs of a forwarder whose times are `TRUE`, with an error of one percent.
pub(super) fn campaign() -> Vec<Run> {
    let mut runs = Vec::new();
    for number in 0..64usize {
        let bit = |place: usize| number >> place & 1;
        let setting = Setting {
            workers: 1 + bit(0),
            components: 3 + 10 * bit(1),
            payload: 1200 * bit(2),
            hit_ratio: 0.5 * bit(3) as f64,
            routes: 64 << (6 * bit(4)),
            rate: 100e3,
            placement: Placement::P1,
        };
        let sleeps = if bit(5) == 0 { 0.0 } else { 0.1 + 0.1 * (number % 5) as f64 };
        let services = (number % 3 == 0).then(|| ServiceTimes {
            interest_dispatch: histogram(100),
            interest_forwarding: histogram(600),
            data_dispatch: histogram(100),
            data_forwarding: histogram(500),
            forwarding_by_burst_size: vec![(64, 10, 600_000)],
        });
        let x = regressors(&setting, setting.hit_ratio, sleeps, services.is_some(), 0.0);
        let noise = TraceRandom::new(3, 0).draw(StreamId(1), number as u64).normal();
        let cost = dot(&x, &TRUE) * (1.0 + 0.01 * noise);
        let interests = 50_000u64;
        runs.push(Run {
            number,
            setting,
            discarded: 0,
            discarded_for: Vec::new(),
            disturbed_by: None,
            host: Host::default(),
            pauses: Vec::new(),
            seconds: 0.5,
            counted_seconds: 0.0,
            sent: interests,
            satisfied: interests,
            refused: 0,
            interests,
            hits: (interests as f64 * setting.hit_ratio) as u64,
            bursts: interests / 20,
            sleeps: (interests as f64 * sleeps) as u64,
            cpu_ns: vec![(cost * interests as f64) as u64],
            delayed_ns: vec![0],
            generator_delayed_ns: 0,
            generator_cpu_ns: 100_000_000,
            generator_stalls: Stalls::default(),
            pit_entries: 0,
            queues: QueueLengths::default(),
            latency_ns: [40_000, 60_000, 90_000],
            services,
        });
    }
    runs
}

/// A campaign of a forwarder forty times as slow, so that few Interests suffice. A pause of its machine, longer by 2 ms, fills a
/// queue of 48 packets at three quarters of the load.
pub(super) fn slow_campaign() -> Vec<Run> {
    const FACTOR: u64 = 40;
    let slower = |mut histogram: Histogram| {
        for bucket in &mut histogram.buckets {
            *bucket = (FACTOR * bucket.0, FACTOR * bucket.1, bucket.2);
        }
        histogram.sum_ns *= FACTOR;
        histogram
    };
    let slow = |mut run: Run| {
        run.pauses.iter_mut().flat_map(|watch| &mut watch.pauses).for_each(|p| p.1 += 2_000_000);
        let services = run.services.map(|services| ServiceTimes {
            interest_dispatch: slower(services.interest_dispatch),
            interest_forwarding: slower(services.interest_forwarding),
            data_dispatch: slower(services.data_dispatch),
            data_forwarding: slower(services.data_forwarding),
            ..services
        });
        Run {
            cpu_ns: run.cpu_ns.iter().map(|ns| FACTOR * ns).collect(),
            sent: run.sent / FACTOR,
            satisfied: run.satisfied / FACTOR,
            services,
            ..run
        }
    };
    paused_campaign().1.into_iter().map(slow).collect()
}

/// The campaign on a machine that pauses each processor by itself for a tenth of the time, charged to what runs.
pub(super) fn paused_campaign() -> (Pauses, Vec<Run>) {
    let planted = Pauses {
        interval: Distribution::Exponential { mean: 9e9 },
        length: Distribution::Gamma { shape: 4.0, scale: 0.25e9 },
        stations: vec![],
        consumers: vec![],
    };
    let paused = |run: Run| {
        let watch = |number: u64| {
            let (processor, begin_ns) = (number as usize % 2, number / 2 * 700_000_000);
            let random = TraceRandom::new(9, run.number as u32);
            let times = (begin_ns + 50_000_000, 100_000_000);
            Watch { begin_ns, ..pauses::watch(&planted, processor, random, times) }
        };
        let pauses = (0..4).map(watch).collect();
        let cpu_ns = run.cpu_ns.iter().map(|ns| (*ns as f64 / 0.9) as u64).collect();
        Run { pauses, cpu_ns, ..run }
    };
    let runs = campaign().into_iter().map(paused).collect();
    (planted, runs)
}
