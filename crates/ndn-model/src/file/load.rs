//! The load of a network, and what its traces take: Interests, pauses and times.

use crate::distribution::Distribution;
use crate::fast::FastEngine;
use crate::network::{Arrivals, Consumer, Kind, Link, Network, Pauses, Peer, Stage};

/// Pauses of all processors in a trace, at most.
const PAUSES_MAX: f64 = 10e6;

/// The longest mean service, transmission, delay, on- or off-period, or pace.
pub(super) fn longest_time(network: &Network) -> f64 {
    let services = network.services.all().map(Distribution::mean);
    let links = network.faces.iter().flat_map(|face| [&face.incoming, &face.outgoing]);
    let links = links.flat_map(|link| link.transmit_ps.into_iter().chain([link.delay_ps]));
    let periods = network.consumers.iter().flat_map(|consumer| match &consumer.arrivals {
        Arrivals::OnOff { on, off, .. } => [on.mean(), off.mean()],
        Arrivals::Window(window) => [window.pace_ps as f64, 0.0],
        Arrivals::Renewal(_) | Arrivals::Trace(_) => [0.0, 0.0],
    });
    let pauses = network.pauses.iter().map(|pauses| pauses.length.mean());
    let times = services.chain(links.map(|time| time as f64)).chain(periods).chain(pauses);
    times.fold(0.0, f64::max)
}

/// The reason why pauses are too many for a trace, if they are.
pub(super) fn too_many_pauses(network: &Network, horizon_ps: u64) -> Option<String> {
    let pauses = network.pauses.as_ref()?;
    let each = horizon_ps as f64 / (pauses.interval.mean() + pauses.length.mean()).max(1.0);
    let count = each * pauses.processors() as f64;
    let reason = || format!("a trace has {count:.0} pauses: at most {PAUSES_MAX:.0} are kept");
    (count > PAUSES_MAX).then(reason)
}

/// Mean Interests per picosecond of a consumer; 0 of one with a window, which sends what the others leave.
fn rate_of(arrivals: &Arrivals) -> f64 {
    match arrivals {
        Arrivals::Window(_) => 0.0,
        Arrivals::Renewal(interval) => 1.0 / interval.mean(),
        Arrivals::OnOff { interval_ps, on, off } => {
            let share = on.mean() / (on.mean() + off.mean());
            share / *interval_ps as f64
        }
        Arrivals::Trace(times) => {
            times.len() as f64 / times.last().map_or(1.0, |last| (*last).max(1) as f64)
        }
    }
}

/// Interests per picosecond of all consumers; at most, of those with a window.
pub(super) fn total_rate(network: &Network) -> f64 {
    let rate = |(face, consumer): (usize, &Consumer)| match &consumer.arrivals {
        Arrivals::Window(window) => {
            let by_window = window.most / shortest_round_trip(network, face);
            by_window.min(1.0 / window.pace_ps as f64)
        }
        arrivals @ (Arrivals::Renewal(_) | Arrivals::OnOff { .. } | Arrivals::Trace(_)) => {
            rate_of(arrivals)
        }
    };
    network.consumers.iter().enumerate().map(rate).sum()
}

/// The mean time from an Interest on the face of a consumer to its Data where nobody waits, by the shortest way.
fn shortest_round_trip(network: &Network, face: usize) -> f64 {
    let services = &network.services;
    let both_ways = |face: usize| {
        let face = &network.faces[face];
        let interest = |link: &Link| (link.delay_ps + link.transmit_ps[0]) as f64;
        let data = |link: &Link| (link.delay_ps + link.transmit_ps[1]) as f64;
        match face.peer {
            Peer::Consumer(_) => interest(&face.incoming) + data(&face.outgoing),
            Peer::Producer(_) => interest(&face.outgoing) + data(&face.incoming),
        }
    };
    let ends = both_ways(face) + services.input[0].mean() + services.output[1].mean();
    if network.hit_ratio > 0.0 {
        return ends + services.forward_hit.mean();
    }
    let producers = network.consumers.len()..network.faces.len();
    let producer = producers.map(both_ways).fold(f64::INFINITY, f64::min);
    let forwarding = services.forward[0].mean() + services.forward[1].mean();
    let middle = services.output[0].mean() + services.produce.mean() + services.input[1].mean();
    ends + producer + forwarding + middle
}

/// Load that is offered to each station, as a fraction of its time, if nothing is lost.
#[must_use]
pub fn offered_load(network: &Network) -> Vec<f64> {
    let services = &network.services;
    let hit = network.hit_ratio;
    let answer = |kinds: &[Distribution; 3]| {
        let nack = network.producer_nack_ratio;
        (1.0 - nack) * kinds[Kind::Data as usize].mean() + nack * kinds[Kind::Nack as usize].mean()
    };
    let mut load = vec![0.0; network.stations.len()];
    for (face, consumer) in network.consumers.iter().enumerate() {
        let rate = rate_of(&consumer.arrivals);
        let mut before = 0.0;
        for (offset, cumulative) in consumer.prefix_cdf.iter().enumerate() {
            let share = rate * (cumulative - before);
            before = *cumulative;
            let prefix = consumer.first_prefix + offset as u32;
            let client = &network.faces[face];
            let server = &network.faces[network.producer_face(prefix)];
            let shard = &network.shards[usize::from(network.shard_of_prefix[prefix as usize])];
            let mut add =
                |queue: usize, time: f64| load[network.queues[queue].station] += share * time;
            let miss = 1.0 - hit;
            add(client.input_queue, services.input[0].mean() * client.input_factor);
            let interest = hit * services.forward_hit.mean() + miss * services.forward[0].mean();
            add(shard.queues[0], interest * shard.forward_factor[0]);
            add(server.output_queue, miss * services.output[0].mean() * server.output_factor);
            add(server.input_queue, miss * answer(&services.input) * server.input_factor);
            add(shard.queues[1], miss * answer(&services.forward) * shard.forward_factor[1]);
            add(client.output_queue, answer(&services.output) * client.output_factor);
            if let Peer::Producer(queue) = server.peer {
                add(queue, miss * services.produce.mean());
            }
        }
    }
    load
}

pub(super) fn warnings(network: &Network, interests: f64) -> Vec<String> {
    let mut warnings = Vec::new();
    for ((id, station), load) in network.stations.iter().enumerate().zip(offered_load(network)) {
        let pauses = network.pauses.as_ref().filter(|pauses| pauses.stations[id].is_some());
        let load = load / (1.0 - pauses.map_or(0.0, Pauses::share));
        if load >= 1.0 {
            warnings.push(format!(
                "{}: offered load {load:.2}: its queues are unstable, and results depend on the horizon",
                station.name
            ));
        }
    }
    if let Some(reason) = FastEngine::refusal(network) {
        warnings.push(format!("simulated by the reference engine, which is slower: {reason}"));
    }
    if interests < 1000.0 {
        warnings
            .push(format!("a trace has about {interests:.0} Interests: ratios of it are coarse"));
    }
    let produces = network.queues.iter().filter(|queue| queue.stage == Stage::Produce).count();
    debug_assert_eq!(produces, network.producer_count(), "each producer has a queue");
    warnings
}
