//! The virtual plane against a naive implementation of its equations for whole networks, conservation, stability,
//! and neighbours that are silent, absent or lie.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::needless_range_loop,
    reason = "small numbers; the model computes in wider types, and on matrices as the equations do"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ndn_types::random::Random;
use ndn_vip::{Amount, REQUEST, Score, Settings, Transfer, VirtualPlane};

const NETWORKS: u64 = 1000;
const SLOTS: usize = 40;

/// A random network. Links have a capacity for the Data that arrives at the first node.
struct Network {
    nodes: usize,
    sizes: Vec<u64>,
    sources: Vec<BTreeSet<usize>>,
    links: BTreeMap<(usize, usize), u64>,
    routable: BTreeSet<(usize, usize, usize)>,
    settings: Vec<Settings>,
    requests: Vec<Vec<u64>>,
}

impl Network {
    fn random(random: &mut Random) -> Self {
        let mut below = |count: u64| random.below(count);
        let nodes = 2 + below(7) as usize;
        let objects = 1 + below(10) as usize;
        let has_equal_sizes = below(2) == 0;
        let sizes: Vec<u64> =
            (0..objects).map(|_| if has_equal_sizes { 1000 } else { 200 + below(2000) }).collect();
        let mut links = BTreeMap::new();
        for node in 1..nodes {
            let other = below(node as u64) as usize;
            for _ in 0..1 + below(2) {
                let pair = if links.contains_key(&(node, other)) {
                    (node, below(node as u64) as usize)
                } else {
                    (node, other)
                };
                links.insert(pair, 500 + below(20_000));
                links.insert((pair.1, pair.0), 500 + below(20_000));
            }
        }
        let sources = (0..objects)
            .map(|_| (0..1 + below(2)).map(|_| below(nodes as u64) as usize).collect())
            .collect();
        let mut routable = BTreeSet::new();
        for &(from, to) in links.keys() {
            routable.extend((0..objects).filter(|_| below(5) > 0).map(|object| (from, to, object)));
        }
        let settings = (0..nodes)
            .map(|_| Settings {
                slot_ms: 200 + below(3000),
                cache_bytes: below(6000),
                read_bytes_per_s: below(20_000),
                window_slots: 1 + below(12) as usize,
                score: if below(2) == 0 { Score::Count } else { Score::Arrivals },
                read_penalty: if below(2) == 0 { 0 } else { below(2 * REQUEST) },
                write_penalty: if below(2) == 0 { 0 } else { below(4 * REQUEST) },
            })
            .collect();
        let load = 1 + below(8);
        let requests = (0..nodes).map(|_| (0..objects).map(|_| below(load)).collect()).collect();
        Self { nodes, sizes, sources, links, routable, settings, requests }
    }

    fn neighbours(&self, node: usize) -> Vec<usize> {
        self.links.keys().filter(|link| link.0 == node).map(|link| link.1).collect()
    }

    fn planes(&self) -> Vec<VirtualPlane> {
        (0..self.nodes).map(|node| self.plane(node)).collect()
    }

    fn plane(&self, node: usize) -> VirtualPlane {
        let mut plane = VirtualPlane::new(self.settings[node].clone());
        for (object, &size) in self.sizes.iter().enumerate() {
            plane.add_object(size, self.sources[object].contains(&node));
        }
        for (id, other) in self.neighbours(node).into_iter().enumerate() {
            plane.add_neighbour(self.links[&(node, other)], self.links[&(other, node)]);
            for object in 0..self.sizes.len() {
                plane.set_routable(id, object, self.routable.contains(&(node, other, object)));
            }
        }
        plane
    }

    /// Number of `of` among the neighbours of `node`.
    fn id(&self, node: usize, of: usize) -> usize {
        self.neighbours(node).iter().position(|other| *other == of).expect("linked")
    }
}

type Transfers = BTreeSet<(usize, usize, usize, Amount)>;

/// The equations, for all nodes at once, on matrices.
struct Naive<'a> {
    network: &'a Network,
    v: Vec<Vec<u64>>,
    cached: Vec<BTreeSet<usize>>,
    arrivals: Vec<Vec<Vec<u64>>>,
}

impl<'a> Naive<'a> {
    fn new(network: &'a Network) -> Self {
        let zero = vec![vec![0; network.sizes.len()]; network.nodes];
        let arrivals = Vec::new();
        Self { network, v: zero, cached: vec![BTreeSet::new(); network.nodes], arrivals }
    }

    fn score(&self, n: usize, k: usize) -> u64 {
        let settings = &self.network.settings[n];
        if settings.score == Score::Count {
            return self.v[n][k];
        }
        let window = self.arrivals.iter().rev().take(settings.window_slots);
        window.map(|slot| slot[n][k]).sum::<u64>() / settings.window_slots as u64
    }

    /// By density in decreasing order while it fits; or the best single object.
    fn knapsack(&self, n: usize) -> BTreeSet<usize> {
        let (network, settings) = (self.network, &self.network.settings[n]);
        let value = |k: usize| {
            let write = if self.cached[n].contains(&k) { 0 } else { settings.write_penalty };
            self.score(n, k) as i128 - settings.read_penalty as i128 - write as i128
        };
        let mut left: Vec<usize> = (0..network.sizes.len())
            .filter(|k| value(*k) > 0 && !network.sources[*k].contains(&n))
            .filter(|k| network.sizes[*k] <= settings.cache_bytes)
            .collect();
        let mut single: Option<usize> = None;
        for &k in &left {
            if single.is_none_or(|best| value(k) > value(best)) {
                single = Some(k);
            }
        }
        let mut chosen = BTreeSet::new();
        let mut room = settings.cache_bytes;
        while !left.is_empty() {
            let mut best = 0;
            for position in 1..left.len() {
                let (a, b) = (left[position], left[best]);
                if value(a) * network.sizes[b] as i128 > value(b) * network.sizes[a] as i128 {
                    best = position;
                }
            }
            let k = left.remove(best);
            if network.sizes[k] <= room {
                room -= network.sizes[k];
                chosen.insert(k);
            }
        }
        match single {
            Some(k) if value(k) > chosen.iter().map(|k| value(*k)).sum() => BTreeSet::from([k]),
            _ => chosen,
        }
    }

    fn slot(&mut self, requests: &[Vec<u64>]) -> Transfers {
        let network = self.network;
        // (3)
        let mut choices = Vec::new();
        for &(n, b) in network.links.keys() {
            let mut best: Option<(u64, usize)> = None;
            for k in (0..network.sizes.len()).filter(|k| network.routable.contains(&(n, b, *k))) {
                let difference = self.v[n][k] as i128 - self.v[b][k] as i128;
                if difference > best.map_or(0, |best| best.0 as i128) {
                    best = Some((difference as u64, k));
                }
            }
            choices.extend(best.map(|(difference, k)| (n, difference, b, k)));
        }
        // (4), (5)
        for n in 0..network.nodes {
            self.cached[n] = self.knapsack(n);
            let settings = &network.settings[n];
            for &k in &self.cached[n] {
                let read = u128::from(settings.read_bytes_per_s) * u128::from(settings.slot_ms);
                let rate = read * u128::from(REQUEST) / (u128::from(settings.cache_bytes) * 1000);
                self.v[n][k] = self.v[n][k].saturating_sub(rate as u64);
            }
        }
        // (6)
        choices.sort_by(|a, b| (a.0, b.1, a.2).cmp(&(b.0, a.1, b.2)));
        let mut transfers = Transfers::new();
        for (n, _, b, k) in choices {
            let bytes =
                u128::from(network.links[&(n, b)]) * u128::from(network.settings[n].slot_ms) / 1000;
            let carried = bytes * u128::from(REQUEST) / u128::from(network.sizes[k]);
            let mu = self.v[n][k].min(carried as u64);
            if mu > 0 {
                self.v[n][k] -= mu;
                transfers.insert((n, b, k, mu));
            }
        }
        // (7), (1)
        let mut arrivals = requests.to_vec();
        for &(_, b, k, mu) in &transfers {
            arrivals[b][k] += mu;
        }
        for n in 0..network.nodes {
            for k in 0..network.sizes.len() {
                self.v[n][k] += arrivals[n][k];
                if network.sources[k].contains(&n) {
                    self.v[n][k] = 0;
                }
            }
        }
        self.arrivals.push(arrivals);
        transfers
    }
}

fn report(network: &Network, planes: &mut [VirtualPlane], node: usize) {
    let counts: Vec<_> = (0..network.sizes.len()).map(|k| (k, planes[node].count(k))).collect();
    for other in network.neighbours(node) {
        planes[other].receive_counts(network.id(other, node), &counts);
    }
}

fn deliver(
    network: &Network,
    planes: &mut [VirtualPlane],
    from: usize,
    transfer: Transfer,
) -> usize {
    let to = network.neighbours(from)[transfer.neighbour];
    planes[to].receive_vips(network.id(to, from), transfer.object, transfer.amount);
    to
}

/// Asserts that the VIPs that a node accepted equal those that left it and those that it holds.
fn assert_conserved(network: &Network, planes: &[VirtualPlane], place: &str) {
    for plane in planes {
        let counters = plane.counters();
        let held: u64 = (0..network.sizes.len()).map(|k| plane.count(k)).sum();
        let taken = counters.requested + counters.received;
        assert_eq!(taken, counters.sent + counters.drained + counters.absorbed + held, "{place}");
    }
}

#[test]
fn plane_equals_the_equations_slot_by_slot() {
    let (mut cached, mut sent) = (0, 0);
    for stream in 0..NETWORKS {
        let mut random = Random::new(2014, stream);
        let mut network = Network::random(&mut random);
        // The slots of a network are equal here: what a node sends fits its neighbour's slot.
        let slot_ms = network.settings[0].slot_ms;
        network.settings.iter_mut().for_each(|settings| settings.slot_ms = slot_ms);
        let mut planes = network.planes();
        let mut naive = Naive::new(&network);
        for slot in 0..SLOTS {
            let place = format!("network {stream}, slot {slot}");
            (0..network.nodes).for_each(|node| report(&network, &mut planes, node));
            let requests: Vec<Vec<u64>> = network
                .requests
                .iter()
                .map(|rates| rates.iter().map(|rate| random.below(rate + 1) * REQUEST).collect())
                .collect();
            let mut transfers = Transfers::new();
            for node in 0..network.nodes {
                for transfer in planes[node].start_slot() {
                    let to = deliver(&network, &mut planes, node, transfer);
                    transfers.insert((node, to, transfer.object, transfer.amount));
                }
                for (object, &amount) in requests[node].iter().enumerate() {
                    planes[node].request(object, amount);
                }
            }
            planes.iter_mut().for_each(VirtualPlane::end_slot);
            assert_eq!(transfers, naive.slot(&requests), "{place}");
            sent += transfers.len();
            for (node, plane) in planes.iter().enumerate() {
                for k in 0..network.sizes.len() {
                    assert_eq!(
                        plane.count(k),
                        naive.v[node][k],
                        "{place}, node {node}, object {k}"
                    );
                    let is_cached = naive.cached[node].contains(&k);
                    assert_eq!(plane.is_cached(k), is_cached, "{place}, node {node}, object {k}");
                    assert_eq!(
                        plane.score(k),
                        naive.score(node, k),
                        "{place}, node {node}, object {k}"
                    );
                    cached += u64::from(is_cached);
                }
                assert_eq!(plane.counters().lost, 0, "{place}");
            }
            assert_conserved(&network, &planes, &place);
        }
    }
    assert!(cached > 100_000 && sent > 100_000, "{cached} cached, {sent} sent");
}

#[test]
fn vips_are_conserved_when_slots_are_not_synchronised() {
    for stream in 0..200 {
        let mut random = Random::new(2015, stream);
        let network = Network::random(&mut random);
        let mut planes = network.planes();
        let mut in_flight: Vec<(u64, usize, Transfer)> = Vec::new();
        for time_ms in 0..20_000u64 {
            let mut arrived = Vec::new();
            in_flight.retain(|&(at, from, transfer)| {
                let is_due = at <= time_ms;
                arrived.extend(is_due.then_some((from, transfer)));
                !is_due
            });
            for (from, transfer) in arrived {
                deliver(&network, &mut planes, from, transfer);
            }
            for node in 0..network.nodes {
                // Slots start at different times and differ in duration.
                if (time_ms + 37 * node as u64).is_multiple_of(network.settings[node].slot_ms) {
                    planes[node].end_slot();
                    report(&network, &mut planes, node);
                    let delay_ms = 1 + random.below(300);
                    for transfer in planes[node].start_slot() {
                        in_flight.push((time_ms + delay_ms, node, transfer));
                    }
                }
                if random.below(50) == 0 {
                    let object = random.below(network.sizes.len() as u64) as usize;
                    planes[node].request(object, REQUEST);
                }
            }
        }
        planes.iter_mut().for_each(VirtualPlane::end_slot);
        assert_conserved(&network, &planes, &format!("network {stream}"));
        // What was sent was received, was counted as lost, or is on the way.
        let sum = |of: fn(&ndn_vip::Counters) -> u64| -> u64 {
            planes.iter().map(|plane| of(&plane.counters())).sum()
        };
        let flying: u64 = in_flight.iter().map(|(_, _, transfer)| transfer.amount).sum();
        assert_eq!(sum(|of| of.sent), sum(|of| of.received) + sum(|of| of.lost) + flying);
    }
}

fn settings() -> Settings {
    Settings {
        slot_ms: 1000,
        cache_bytes: 0,
        read_bytes_per_s: 0,
        window_slots: 10,
        score: Score::Count,
        read_penalty: 0,
        write_penalty: 0,
    }
}

/// Three nodes in a line, a source of two objects at the end, 10 objects per slot on each link.
fn line(cache_bytes: u64) -> Network {
    let mut network = Network {
        nodes: 3,
        sizes: vec![1000; 2],
        sources: vec![BTreeSet::from([2]); 2],
        links: BTreeMap::new(),
        routable: BTreeSet::new(),
        settings: vec![Settings { cache_bytes, read_bytes_per_s: 100_000, ..settings() }; 3],
        requests: Vec::new(),
    };
    for (from, to) in [(0, 1), (1, 2)] {
        network.links.insert((from, to), 10_000);
        network.links.insert((to, from), 10_000);
        network.routable.extend([(from, to, 0), (from, to, 1)]);
    }
    network
}

/// Runs a line under Poisson-like load; the sum of V at half time and at the end, in requests.
fn backlog(network: &Network, load: u64) -> [u64; 2] {
    let mut planes = network.planes();
    let mut random = Random::new(3, 0);
    let mut at_half = 0;
    for slot in 0..4000 {
        (0..3).for_each(|node| report(network, &mut planes, node));
        for node in 0..3 {
            for transfer in planes[node].start_slot() {
                deliver(network, &mut planes, node, transfer);
            }
        }
        planes[0].request(0, random.below(load + 1) * REQUEST);
        planes[0].request(1, random.below(load + 1) * REQUEST);
        planes.iter_mut().for_each(VirtualPlane::end_slot);
        if slot == 1999 {
            at_half = held(network, &planes);
        }
    }
    [at_half, held(network, &planes)]
}

fn held(network: &Network, planes: &[VirtualPlane]) -> u64 {
    let counts = planes.iter().flat_map(|plane| (0..network.sizes.len()).map(|k| plane.count(k)));
    counts.sum::<u64>() / REQUEST
}

#[test]
fn counts_stay_bounded_inside_the_region_and_grow_outside() {
    // Means of 4 + 4 and 7 + 7 requests a slot over links of 10.
    let network = line(0);
    let inside = backlog(&network, 8);
    assert!(inside[0] < 200 && inside[1] < 200, "{inside:?}");
    let outside = backlog(&network, 14);
    assert!(outside[0] > 6000 && outside[1] > 14_000, "{outside:?}");
    // A cache for one object, read at 100 objects a slot, brings the same load inside.
    let cached = backlog(&line(1000), 14);
    assert!(cached[0] < 500 && cached[1] < 500, "{cached:?}");
}

/// A node with one object and two neighbours of 4000 and 2000 bytes per second.
fn node(score: Score) -> VirtualPlane {
    let mut plane = VirtualPlane::new(Settings { score, cache_bytes: 1000, ..settings() });
    plane.add_object(1000, false);
    plane.add_neighbour(4000, 4000);
    plane.add_neighbour(2000, 2000);
    (0..2).for_each(|neighbour| plane.set_routable(neighbour, 0, true));
    plane
}

#[test]
fn vips_are_sent_to_links_in_order_of_count_difference() {
    let mut plane = node(Score::Count);
    plane.request(0, 5 * REQUEST);
    plane.end_slot();
    plane.receive_counts(0, &[(0, REQUEST)]);
    plane.receive_counts(1, &[(0, 0)]);
    // The differences are 4 and 5: neighbour 1 takes 2, neighbour 0 the 3 that are left.
    let sent = plane.start_slot();
    let expected = [
        Transfer { neighbour: 1, object: 0, amount: 2 * REQUEST },
        Transfer { neighbour: 0, object: 0, amount: 3 * REQUEST },
    ];
    assert_eq!(sent, expected);
    assert_eq!(plane.count(0), 0);
}

#[test]
fn silent_and_absent_neighbours_receive_nothing() {
    let mut plane = node(Score::Count);
    plane.request(0, 100 * REQUEST);
    plane.end_slot();
    assert_eq!(plane.start_slot(), [], "no report yet");
    plane.receive_counts(0, &[]);
    assert_eq!(plane.start_slot().len(), 1);
    (0..4).for_each(|_| plane.end_slot());
    assert_eq!(plane.start_slot(), [], "silent for four slots");
    plane.receive_counts(0, &[]);
    assert_eq!(plane.start_slot().len(), 1);
    plane.set_present(0, false);
    plane.receive_counts(0, &[]);
    assert_eq!(plane.start_slot(), []);
    plane.receive_vips(0, 0, REQUEST);
    assert_eq!(plane.counters().lost, REQUEST);
}

#[test]
fn excessive_vips_and_counts_are_contained() {
    let mut plane = node(Score::Count);
    // The link carries 4 requests a slot.
    plane.receive_vips(0, 0, Amount::MAX);
    plane.receive_vips(0, 0, 5 * REQUEST);
    plane.receive_vips(0, 7, 5 * REQUEST);
    plane.receive_vips(9, 0, 5 * REQUEST);
    assert_eq!(plane.counters().received, 8 * REQUEST);
    plane.end_slot();
    assert_eq!(plane.count(0), 8 * REQUEST);
    plane.receive_counts(0, &[(0, Amount::MAX), (7, 1)]);
    assert_eq!(plane.start_slot(), [], "the neighbour reports more than there is");
    plane.request(0, Amount::MAX);
    plane.request(0, Amount::MAX);
    (0..3).for_each(|_| plane.end_slot());
    assert!(plane.count(0) <= 1 << 60);
}

#[test]
fn write_penalty_prevents_caching() {
    let penalties = Settings { read_penalty: REQUEST, write_penalty: 2 * REQUEST, ..settings() };
    let mut plane = VirtualPlane::new(Settings { cache_bytes: 1000, ..penalties });
    plane.add_object(1000, false);
    plane.add_object(1000, false);
    let mut step = |requests: [u64; 2]| {
        (0..2).for_each(|object| plane.request(object, requests[object] * REQUEST));
        plane.end_slot();
        plane.start_slot();
        [plane.is_cached(0), plane.is_cached(1)]
    };
    assert_eq!(step([3, 0]), [false, false], "worth nothing after both penalties");
    assert_eq!(step([1, 0]), [true, false]);
    assert_eq!(step([0, 6]), [true, false], "a gain of 2 does not exceed the write penalty");
    assert_eq!(step([0, 1]), [false, true]);
}

#[test]
fn unequal_sizes_reach_half_of_the_best_sum() {
    let mut worst = 1.0_f64;
    for stream in 0..500 {
        let mut random = Random::new(5, stream);
        let capacity = 10 + random.below(40);
        let mut plane = VirtualPlane::new(Settings { cache_bytes: capacity, ..settings() });
        let objects = 1 + random.below(12) as usize;
        let sizes: Vec<u64> = (0..objects).map(|_| 1 + random.below(30)).collect();
        let scores: Vec<u64> = (0..objects).map(|_| random.below(50)).collect();
        for (object, &size) in sizes.iter().enumerate() {
            plane.add_object(size, false);
            plane.request(object, scores[object] * REQUEST);
        }
        plane.end_slot();
        plane.start_slot();
        let is_cached: Vec<bool> = (0..objects).map(|object| plane.is_cached(object)).collect();
        let sum = |of: &[u64], chosen: &dyn Fn(usize) -> bool| -> u64 {
            (0..objects).filter(|object| chosen(*object)).map(|object| of[object]).sum()
        };
        assert!(sum(&sizes, &|object| is_cached[object]) <= capacity);
        let best = (0..1u32 << objects)
            .filter(|set| sum(&sizes, &|object| set >> object & 1 == 1) <= capacity)
            .map(|set| sum(&scores, &|object| set >> object & 1 == 1))
            .max()
            .expect("the empty set fits");
        let found = sum(&scores, &|object| is_cached[object]);
        assert!(2 * found >= best, "{found} of {best}");
        worst = worst.min(found as f64 / best.max(1) as f64);
    }
    assert!(worst < 1.0, "the bound is tested with sets that are not optimal");
}

#[test]
fn next_hop_is_where_most_vips_went() {
    let mut plane = node(Score::Count);
    assert_eq!(plane.next_hop(0, 0..2), None, "no VIPs were sent");
    (0..2).for_each(|neighbour| plane.receive_counts(neighbour, &[]));
    plane.request(0, 100 * REQUEST);
    plane.end_slot();
    plane.start_slot();
    assert_eq!(plane.next_hop(0, 0..2), Some(0), "4 to neighbour 0, 2 to neighbour 1");
    assert_eq!(plane.next_hop(0, 1..2), Some(1));
    plane.set_present(0, false);
    assert_eq!(plane.next_hop(0, 0..2), Some(1));
}

#[test]
fn equal_means_are_decided_by_the_last_response() {
    let mut plane = VirtualPlane::new(settings());
    plane.add_object(1000, false);
    for neighbour in 0..2 {
        plane.add_neighbour(1000, 1000);
        plane.set_routable(neighbour, 0, true);
        plane.receive_counts(neighbour, &[]);
    }
    plane.request(0, 100 * REQUEST);
    plane.end_slot();
    plane.start_slot();
    assert_eq!(plane.next_hop(0, 0..2), Some(0));
    plane.response(0, Duration::from_millis(5));
    plane.response(1, Duration::from_millis(4));
    assert_eq!(plane.next_hop(0, 0..2), Some(1));
}

#[test]
fn mean_of_sent_vips_forgets_after_the_window() {
    let mut plane = node(Score::Count);
    plane.receive_counts(0, &[]);
    plane.request(0, REQUEST);
    plane.end_slot();
    plane.start_slot();
    assert_eq!(plane.next_hop(0, 0..1), Some(0));
    for slot in 1..=10 {
        plane.end_slot();
        plane.receive_counts(0, &[]);
        plane.start_slot();
        assert_eq!(plane.next_hop(0, 0..1), (slot < 10).then_some(0), "after {slot} slots");
    }
}
