//! Measures how many Interests the fast engine simulates per second of processor time (Linux).
//!
//! `speed [NAME [ROUNDS]]` runs the models whose name contains NAME; with one round under callgrind, divide its
//! instructions by the Interests printed.
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small numbers")]
#![allow(clippy::print_stdout, reason = "a program")]
#![allow(missing_docs, reason = "a program")]

use ndn_model::assembly::{
    Common, Dispatch, ForwardingQueues, Namewire, NdnDpdk, Placement, Traffic, namewire_overload,
    zipf_cdf,
};
use ndn_model::distribution::{Distribution, QuantileTable};
use ndn_model::fast::FastEngine;
use ndn_model::network::{Arrivals, Consumer, Link, Network, Outcome, Services};
use ndn_model::random::TraceRandom;

/// A table such as a calibration gives: 64 cells and a tail, with this mean.
fn table(mean: f64) -> Distribution {
    Distribution::Empirical(QuantileTable {
        quantiles: (0..=64).map(|cell| mean * (0.5 + f64::from(cell) / 66.0)).collect(),
        tail_probability: 0.01,
        tail_mean: mean,
    })
}

fn wire() -> Link {
    Link { transmit_ps: [0; 3], delay_ps: 1_000_000, loss: 0.0, capacity: None, turns_ps: [1; 2] }
}

fn traffic(rate: f64) -> Traffic {
    let arrivals = Arrivals::Renewal(Distribution::Constant(1e12 / rate));
    Traffic {
        consumers: vec![Consumer { arrivals, first_prefix: 0, prefix_cdf: zipf_cdf(255, 0.0) }],
        consumer_links: [wire(), wire()],
        producers: 1,
        producer_links: [wire(), wire()],
        producer_capacity: 1 << 16,
        lifetime_ps: 4_000_000_000_000,
        producer_nack_ratio: 0.0,
    }
}

fn common(input: &Distribution, output: &Distribution, placement: Placement) -> Common {
    let constant = Distribution::Constant;
    let three = |d: &Distribution| [d.clone(), d.clone(), d.clone()];
    Common {
        services: Services {
            input: three(input),
            forward: [table(400e3), table(300e3), constant(100e3)],
            forward_hit: constant(200e3),
            output: three(output),
            produce: constant(10e3),
        },
        placement,
        remote_factor: 1.2,
        dispatch: Dispatch::Balanced,
        pit_capacity: None,
        hit_ratio: 0.0,
        poll_ps: 0,
        nic_capacity: 4096,
        nic_burst: 64,
    }
}

/// Processor time of this thread so far, in seconds: a shared machine does not disturb it.
fn processor_time() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let on_cpu_ns = text.split(' ').next().and_then(|field| field.parse::<f64>().ok());
    on_cpu_ns.unwrap_or(f64::NAN) / 1e9
}

fn measure(name: &str, network: &Network, rate: f64) {
    let mut arguments = std::env::args().skip(1);
    let (filter, rounds) = (arguments.next(), arguments.next());
    if !filter.is_none_or(|filter| name.contains(&filter)) {
        return;
    }
    let rounds = rounds.map_or(5, |rounds| rounds.parse().expect("a number of rounds"));
    let mut engine = FastEngine::without_digests(network);
    let horizon_ps = (5_000.0 / rate * 1e12) as u64;
    let _ = engine.run(TraceRandom::new(1, 0), horizon_ps);
    let mut best = 0.0f64;
    let mut satisfied = 0u64;
    for round in 0..rounds {
        let begin = processor_time();
        let mut interests = 0;
        for trace in 0..100 {
            let result = engine.run(TraceRandom::new(1, 100 * round + trace), horizon_ps);
            interests += result.records.len();
            satisfied +=
                result.records.iter().filter(|r| r.outcome == Outcome::Satisfied).count() as u64;
        }
        best = best.max(interests as f64 / (processor_time() - begin));
    }
    println!("{name}: {:.1} M Interests/s (best of {rounds}), {satisfied} satisfied", best / 1e6);
}

fn main() {
    let zero = Distribution::Constant(0.0);
    for workers in [1, 8] {
        let rate = 1.1e6 * f64::from(workers);
        let namewire = Namewire {
            common: common(&zero, &zero, Placement::P1),
            workers: workers as usize,
            input_workers: 0,
            ring_capacity: 4096,
            ring_burst: 64,
            overload: Some(namewire_overload()),
            answers_first: true,
        };
        measure(&format!("namewire, {workers} workers"), &namewire.assemble(&traffic(rate)), rate);
        let fixed = Distribution::Constant(20e3);
        let ndn_dpdk = NdnDpdk {
            common: common(&fixed, &fixed, Placement::P2),
            input_threads: 2,
            forwarding_threads: workers as usize,
            output_threads: 1,
            queues: ForwardingQueues::ByKind {
                capacity: 4096,
                bursts: [48, 64, 64],
                management: None,
            },
            output_capacity: 4096,
            output_burst: 64,
        };
        let name = format!("ndn-dpdk, {workers} forwarding threads");
        measure(&name, &ndn_dpdk.assemble(&traffic(rate)), rate);
    }
}
