//! Both engines against closed forms of queueing theory.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small numbers")]

use ndn_model::assembly::{Common, Dispatch, ForwardingQueues, NdnDpdk, Placement, Traffic};
use ndn_model::bip::{Component, ComponentId, Composition, Engine, Interaction, Transition};
use ndn_model::distribution::{Distribution, ErlangBranch};
use ndn_model::fast::FastEngine;
use ndn_model::network::{
    Arrivals, Consumer, Link, Network, Outcome, Pauses, QueueId, Services, TraceResult,
};
use ndn_model::random::{StreamId, TraceRandom};
use ndn_model::special::student_t_quantile;

const NS: f64 = 1000.0;

fn exponential(mean: f64) -> Distribution {
    Distribution::Exponential { mean }
}

/// Asserts that `exact` lies in the 99.9 % interval over traces, and that the interval is narrow.
fn assert_agrees(name: &str, observations: &[f64], exact: f64, relative_width: f64) {
    let n = observations.len() as f64;
    let mean = observations.iter().sum::<f64>() / n;
    let variance = observations.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let radius = student_t_quantile(0.9995, n - 1.0) * (variance / n).sqrt();
    assert!((mean - exact).abs() <= radius, "{name}: {mean} ± {radius} is not {exact}");
    assert!(radius <= relative_width * exact, "{name}: ± {radius} at {exact} says little");
}

/// A link that only delays.
fn wire() -> Link {
    Link { transmit_ps: [0; 3], delay_ps: 1, loss: 0.0, capacity: None, turns_ps: [1; 2] }
}

fn consumer(interval: Distribution) -> Consumer {
    Consumer { arrivals: Arrivals::Renewal(interval), first_prefix: 0, prefix_cdf: vec![1.0] }
}

/// A forwarder with one thread of each kind that takes single packets; only `services` take time.
fn forwarder(
    consumers: Vec<Consumer>,
    services: Services,
    capacity: usize,
    inputs: usize,
) -> Network {
    let common = Common {
        services,
        placement: Placement::P1,
        remote_factor: 1.0,
        dispatch: Dispatch::Balanced,
        pit_capacity: None,
        hit_ratio: 0.0,
        poll_ps: 0,
        nic_capacity: capacity,
        nic_burst: 1,
    };
    let forwarder = NdnDpdk {
        common,
        input_threads: inputs,
        forwarding_threads: 1,
        output_threads: 1,
        queues: ForwardingQueues::ByKind { capacity, bursts: [1; 3], management: None },
        output_capacity: 1 << 20,
        output_burst: 1,
    };
    let traffic = Traffic {
        consumers,
        consumer_links: [wire(), wire()],
        producers: 1,
        producer_links: [wire(), wire()],
        producer_capacity: 1 << 20,
        lifetime_ps: u64::MAX / 4,
        producer_nack_ratio: 0.0,
    };
    let network = forwarder.assemble(&traffic);
    assert_eq!(network.fault(), None);
    network
}

fn instant() -> Distribution {
    Distribution::Constant(0.0)
}

fn instant_services() -> Services {
    let kinds = || [instant(), instant(), instant()];
    Services {
        input: kinds(),
        forward: kinds(),
        forward_hit: instant(),
        output: kinds(),
        produce: instant(),
    }
}

/// One queue: the forwarding thread takes `service` for each Interest.
fn single_server(
    interval: Distribution,
    service: Distribution,
    capacity: usize,
) -> (Network, QueueId) {
    let mut services = instant_services();
    services.forward[0] = service;
    let network = forwarder(vec![consumer(interval)], services, capacity, 1);
    let queue = network.queues.iter().position(|q| q.name == "forwarding 0 interests").unwrap();
    (network, queue)
}

fn traces(
    network: &Network,
    count: u32,
    horizon: f64,
    mut observe: impl FnMut(&TraceResult) -> f64,
) -> Vec<f64> {
    let mut engine = FastEngine::new(network);
    let run = |trace| observe(engine.run(TraceRandom::new(77, trace), horizon as u64));
    (0..count).map(run).collect()
}

/// Loss of M/M/1/K, K counting the one in service.
fn mm1k_loss(rho: f64, k: i32) -> f64 {
    (1.0 - rho) * rho.powi(k) / (1.0 - rho.powi(k + 1))
}

#[test]
fn fast_engine_has_the_loss_of_mm1k() {
    assert!((mm1k_loss(0.9, 10) - 0.050_813_731_3).abs() < 1e-10);
    assert!((mm1k_loss(0.99, 1024) - 3.391_984e-7).abs() < 1e-13);
    for (rho, k) in [(0.9, 10), (0.5, 3), (1.2, 20)] {
        let (network, queue) =
            single_server(exponential(1000.0 * NS / rho), exponential(1000.0 * NS), k as usize - 1);
        // From an empty queue: the first thousandth of a trace weighs little.
        let losses = traces(&network, 30, 4e4 * 1000.0 * NS, |result| {
            let record = result.queues[queue];
            record.dropped as f64 / (record.dropped + record.entered) as f64
        });
        assert_agrees(&format!("M/M/1/{k}"), &losses, mm1k_loss(rho, k), 0.05);
    }
}

#[test]
fn fast_engine_has_the_waits_of_pollaczek_and_khinchine() {
    let services = [
        ("M/D/1", Distribution::Constant(700.0 * NS)),
        ("M/M/1", exponential(700.0 * NS)),
        ("M/U/1", Distribution::Uniform { low: 100.0 * NS, high: 1300.0 * NS }),
        ("M/Gamma/1", Distribution::Gamma { shape: 3.0, scale: 200.0 * NS }),
        ("M/Weibull/1", Distribution::Weibull { shape: 1.6, scale: 700.0 * NS }),
        ("M/Lognormal/1", Distribution::Lognormal { mu: 13.2, sigma: 0.6 }),
        (
            "M/HyperErlang/1",
            Distribution::HyperErlang(vec![
                ErlangBranch { weight: 0.9, phases: 4, mean: 500.0 * NS },
                ErlangBranch { weight: 0.1, phases: 1, mean: 2000.0 * NS },
            ]),
        ),
    ];
    for (name, service) in services {
        let rate = 0.7 / (1000.0 * NS);
        let load = rate * service.mean();
        let exact = rate * service.second_moment() / (2.0 * (1.0 - load));
        let (network, queue) = single_server(exponential(1.0 / rate), service, 1 << 20);
        let waits = traces(&network, 24, 4e4 * 1000.0 * NS, |result| {
            result.queues[queue].waited_ps as f64 / result.queues[queue].entered as f64
        });
        assert_agrees(name, &waits, exact, 0.06);
    }
}

/// The same queue on a processor that pauses, also while it has nothing to do.
fn interrupted_server(
    (interval, service): (Distribution, Distribution),
    (between, length): (Distribution, Distribution),
    capacity: usize,
) -> (Network, QueueId) {
    let (mut network, queue) = single_server(interval, service, capacity);
    let mut stations = vec![None; network.stations.len()];
    stations[network.queues[queue].station] = Some(0);
    let consumers = vec![None; network.consumers.len()];
    network.pauses = Some(Pauses { interval: between, length, stations, consumers });
    assert_eq!(network.fault(), None);
    (network, queue)
}

/// M/G/1 with interruptions by a Poisson process while the server runs, and preemptive resume (model A of Avi-Itzhak and
/// Naor, 1963). A service with its interruptions takes C with E(C) = E(S)(1 + ξE(R)) and
/// E(C²) = E(S²)(1 + ξE(R))² + E(S)ξE(R²); who finds no other one may find the server interrupted.
#[test]
fn fast_engine_has_the_waits_of_avi_itzhak_and_naor() {
    let between = 8000.0 * NS;
    for (name, service, length) in [
        ("M/D/1, constant pauses", Distribution::Constant(600.0 * NS), {
            Distribution::Constant(1000.0 * NS)
        }),
        ("M/M/1, exponential pauses", exponential(600.0 * NS), exponential(1000.0 * NS)),
        (
            "M/U/1, hyper-Erlang pauses",
            Distribution::Uniform { low: 100.0 * NS, high: 900.0 * NS },
            Distribution::HyperErlang(vec![
                ErlangBranch { weight: 0.9, phases: 4, mean: 500.0 * NS },
                ErlangBranch { weight: 0.1, phases: 1, mean: 5000.0 * NS },
            ]),
        ),
    ] {
        let rate = 1.0 / (1000.0 * NS);
        let stretch = 1.0 + length.mean() / between;
        let (mean, second) = (
            service.mean() * stretch,
            service.second_moment() * stretch * stretch
                + service.mean() * length.second_moment() / between,
        );
        let exact = rate * second / (2.0 * (1.0 - rate * mean))
            + length.second_moment() / between / (2.0 * stretch);
        let laws = (exponential(between), length);
        let (network, queue) =
            interrupted_server((exponential(1.0 / rate), service), laws, 1 << 20);
        let waits = traces(&network, 30, 4e4 * 1000.0 * NS, |result| {
            result.queues[queue].waited_ps as f64 / result.queues[queue].entered as f64
        });
        assert_agrees(name, &waits, exact, 0.08);
    }
}

/// The loss of M/M/1/K whose server is interrupted and repaired at constant rates (White and Christie, 1958, with a bound): by
/// Gaussian elimination of the balance equations. K counts the one in service; without one, K - 1 have room.
fn interrupted_mm1k_loss(
    (arrival, service): (f64, f64),
    (interrupted, repaired): (f64, f64),
    k: usize,
) -> f64 {
    // With n packets: the server runs, is interrupted with one in service, without one.
    let (runs, busy, idle) = (|n: usize| n, |n: usize| k + n, |n: usize| 2 * k + 1 + n);
    let count = 3 * k + 1;
    let mut rows = vec![vec![0.0; count + 1]; count];
    let mut note = |from: usize, to: usize, rate: f64| {
        rows[to][from] += rate;
        rows[from][from] -= rate;
    };
    for n in 0..k {
        note(runs(n), runs(n + 1), arrival);
        note(runs(n + 1), runs(n), service);
        note(runs(n + 1), busy(n + 1), interrupted);
        note(busy(n + 1), runs(n + 1), repaired);
        note(idle(n), runs(n), repaired);
        if n + 1 < k {
            note(busy(n + 1), busy(n + 2), arrival);
            note(idle(n), idle(n + 1), arrival);
        }
    }
    note(runs(0), idle(0), interrupted);
    // One equation follows from the others: instead, probabilities add up to 1.
    rows[count - 1].fill(1.0);
    for pivot in 0..count {
        let best = (pivot..count)
            .max_by(|a, b| f64::total_cmp(&rows[*a][pivot].abs(), &rows[*b][pivot].abs()));
        rows.swap(pivot, best.unwrap());
        let own = rows[pivot].clone();
        for (index, row) in rows.iter_mut().enumerate() {
            let factor = row[pivot] / own[pivot];
            if index != pivot {
                row.iter_mut().zip(&own).for_each(|(cell, own)| *cell -= factor * own);
            }
        }
    }
    let full = [runs(k), busy(k), idle(k - 1)];
    full.into_iter().map(|state| rows[state][count] / rows[state][state]).sum()
}

#[test]
fn fast_engine_has_the_loss_of_an_interrupted_mm1k() {
    // Without interruptions it is M/M/1/K.
    let plain = interrupted_mm1k_loss((0.9, 1.0), (1e-12, 1.0), 10);
    assert!((plain - mm1k_loss(0.9, 10)).abs() < 1e-9, "{plain}");
    for (rho, between, length, k) in [(0.7, 20.0, 5.0, 10), (0.6, 20.0, 8.0, 8), (0.9, 8.0, 2.0, 5)]
    {
        let exact = interrupted_mm1k_loss((rho, 1.0), (1.0 / between, 1.0 / length), k);
        let unit = 1000.0 * NS;
        let times = (exponential(unit / rho), exponential(unit));
        let laws = (exponential(between * unit), exponential(length * unit));
        let (network, queue) = interrupted_server(times, laws, k - 1);
        let losses = traces(&network, 40, 4e4 * unit, |result| {
            let record = result.queues[queue];
            record.dropped as f64 / (record.dropped + record.entered) as f64
        });
        assert_agrees(&format!("interrupted M/M/1/{k}"), &losses, exact, 0.08);
    }
}

#[test]
fn fast_engine_has_the_waits_of_cobham() {
    // Two consumers whose NIC rings one input thread polls by class; the producer's has its own.
    let mut services = instant_services();
    services.input[0] = exponential(300.0 * NS);
    let interval = 1000.0 * NS;
    let consumers = vec![consumer(exponential(interval)), consumer(exponential(interval))];
    let mut network = forwarder(consumers, services, 1 << 20, 3);
    let [first, second] = [network.faces[0].input_queue, network.faces[1].input_queue];
    network.queues[second].station = network.queues[first].station;
    network.queues[second].class = 1;
    let station = network.queues[first].station;
    network.stations[1].queues.clear();
    network.stations[station].queues = vec![first, second];
    network.faces[1].input_factor = 1.5;
    assert_eq!(network.fault(), None);

    let (rho1, rho2) = (0.3, 0.45);
    let residual = (2.0 * 300.0f64.powi(2) + 2.0 * 450.0f64.powi(2)) / 2.0 / 1000.0 * NS;
    let exact = [residual / (1.0 - rho1), residual / ((1.0 - rho1) * (1.0 - rho1 - rho2))];
    for (queue, exact) in [first, second].into_iter().zip(exact) {
        let waits = traces(&network, 24, 4e4 * 1000.0 * NS, |result| {
            result.queues[queue].waited_ps as f64 / result.queues[queue].entered as f64
        });
        assert_agrees("Cobham", &waits, exact, 0.06);
    }
}

#[test]
fn fast_engine_loses_the_excess_of_an_overloaded_deterministic_queue() {
    // D/D/1/K at 1.5 times the capacity: a third is lost once the queue is full, and not before.
    let (interval, service) = (600.0 * NS, 900.0 * NS);
    let (network, queue) =
        single_server(Distribution::Constant(interval), Distribution::Constant(service), 9);
    let mut engine = FastEngine::new(&network);
    let result = engine.run(TraceRandom::new(1, 0), (30_000.0 * interval) as u64);
    let record = result.queues[queue];
    let offered = record.entered + record.dropped;
    // The server works without a pause from the first arrival: one departure per service time.
    let busy = (offered as f64 * interval / service).floor() as u64;
    assert!(record.entered.abs_diff(busy + 9) <= 2, "{record:?} of {offered}");
    let dropped: Vec<u64> = result
        .records
        .iter()
        .enumerate()
        .filter(|(_, record)| matches!(record.outcome, Outcome::QueueFull(_)))
        .map(|(id, _)| id as u64)
        .collect();
    assert!(dropped[0] > 24, "the queue fills first: {}", dropped[0]);
    assert!(dropped.windows(2).all(|pair| pair[1] - pair[0] == 3), "then every third is lost");
}

/// A queue with `servers` servers and room for `places` customers, as components.
struct MultiServer {
    composition: Composition<Vec<u64>>,
    queue: ComponentId,
}

/// Variables of the queue: waiting, offered, lost, busy servers.
const WAITING: usize = 0;
const OFFERED: usize = 1;
const LOST: usize = 2;
const BUSY: usize = 3;

fn multi_server(rate: f64, service: &Distribution, servers: usize, places: u64) -> MultiServer {
    let mut composition = Composition::default();
    let mut queue = Component::new("queue", vec![0; 4]);
    let only = queue.state("only");
    let [put, take, back] = ["put", "take", "back"].map(|name| queue.port(name));
    queue.transition(Transition::new(only, put, only).action(move |v: &mut Vec<u64>, _| {
        v[OFFERED] += 1;
        if v[WAITING] + v[BUSY] < places { v[WAITING] += 1 } else { v[LOST] += 1 }
    }));
    let waits = |v: &Vec<u64>| v[WAITING] > 0;
    queue.transition(Transition::new(only, take, only).guard(waits).action(
        |v: &mut Vec<u64>, _| {
            v[WAITING] -= 1;
            v[BUSY] += 1;
        },
    ));
    queue.transition(Transition::new(only, back, only).action(|v: &mut Vec<u64>, _| v[BUSY] -= 1));
    let queue = composition.component(queue);

    let mut source = Component::new("source", vec![0]);
    let only = source.state("only");
    let emit = source.port("emit");
    let interval = exponential(1.0 / rate);
    source.transition(
        Transition::new(only, emit, only)
            .delay(move |v: &Vec<u64>, now| {
                interval.sample_ps(&mut now.random.draw(StreamId(1), v[0]), 1.0)
            })
            .action(|v, _| v[0] += 1),
    );
    let source = composition.component(source);
    composition.interaction(Interaction::new("arrive", vec![(source, emit), (queue, put)]));
    for number in 0..servers {
        let mut server = Component::new(format!("server {number}"), vec![0]);
        let [idle, busy] = ["idle", "busy"].map(|name| server.state(name));
        let [begin, end] = ["begin", "end"].map(|name| server.port(name));
        server
            .transition(Transition::new(idle, begin, busy).action(|v: &mut Vec<u64>, _| v[0] += 1));
        let service = service.clone();
        server.transition(Transition::new(busy, end, idle).delay(move |v: &Vec<u64>, now| {
            let stream = StreamId(10 + number as u32);
            service.sample_ps(&mut now.random.draw(stream, v[0]), 1.0)
        }));
        let server = composition.component(server);
        composition.interaction(
            Interaction::new("begin", vec![(server, begin), (queue, take)]).priority(1),
        );
        composition.interaction(Interaction::new("end", vec![(server, end), (queue, back)]));
    }
    MultiServer { composition, queue }
}

/// Loss of M/M/c/K by its birth-death equations.
fn mmck_loss(offered: f64, servers: usize, places: usize) -> f64 {
    let mut weights = vec![1.0];
    for n in 1..=places {
        weights.push(weights[n - 1] * offered / n.min(servers) as f64);
    }
    weights[places] / weights.iter().sum::<f64>()
}

fn reference_losses(
    offered: f64,
    service: &Distribution,
    servers: usize,
    places: usize,
) -> Vec<f64> {
    let rate = offered / service.mean();
    (0..16)
        .map(|trace| {
            let model = multi_server(rate, service, servers, places as u64);
            let mut engine = Engine::new(model.composition, TraceRandom::new(99, trace));
            engine.run((12_000.0 / rate) as u64, |_, _| {});
            let variables = engine.variables(model.queue);
            variables[LOST] as f64 / variables[OFFERED] as f64
        })
        .collect()
}

#[test]
fn reference_engine_has_the_loss_of_mmck_and_erlang() {
    let service = exponential(1000.0 * NS);
    for (offered, servers, places) in [(0.9, 1, 10), (2.5, 3, 8), (4.0, 4, 12)] {
        let losses = reference_losses(offered, &service, servers, places);
        assert_agrees("M/M/c/K", &losses, mmck_loss(offered, servers, places), 0.12);
    }
    // Erlang B depends on the mean service only.
    let exact = mmck_loss(5.0, 7, 7);
    assert!((exact - 0.120_519).abs() < 1e-6, "{exact}");
    for service in [service, Distribution::Constant(1000.0 * NS)] {
        assert_agrees("Erlang B", &reference_losses(5.0, &service, 7, 7), exact, 0.06);
    }
}

#[test]
fn reference_engine_keeps_littles_law_exactly() {
    let model = multi_server(1.6 / (1000.0 * NS), &exponential(1000.0 * NS), 2, 30);
    let queue = model.queue;
    let mut engine = Engine::new(model.composition, TraceRandom::new(5, 0));
    // The integral of the number of customers against the sum of their times: the same number.
    let (mut area, mut last, mut present) = (0u128, 0, 0u64);
    let (mut arrivals, mut departures) = (0u128, 0u128);
    engine.run(20_000_000_000, |firing, engine| {
        area += u128::from(present) * u128::from(firing.time_ps - last);
        last = firing.time_ps;
        let variables = engine.variables(queue);
        let now = variables[WAITING] + variables[BUSY];
        if now > present {
            arrivals += u128::from(firing.time_ps);
        } else if now < present {
            departures += u128::from(firing.time_ps);
        }
        present = now;
    });
    // Those still present leave at the end of the observation.
    departures += u128::from(present) * u128::from(last);
    assert_eq!(area, departures - arrivals);
    assert!(area > 0);
}
