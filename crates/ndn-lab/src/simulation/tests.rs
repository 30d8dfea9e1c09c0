use ndn_cache_sim::engine::{Method, Run, WARM_UP_SHARE, sources};
use ndn_cache_sim::topology::Topology;
use ndn_cache_sim::trace::{Pattern, Trace};

use ndn_cache_sim::trace::Request;
use ndn_client::fetch::WindowMode;
use ndn_model::calibrate::{Calibration, EFFECTS};

use super::*;
use crate::network::CsPolicy;
use crate::progress::RunProgress;

fn topology(name: &str, load: &[&str]) -> Topology {
    let text = ndn_cache_sim::topology::FILES.iter().find(|(known, _)| *known == name).unwrap().1;
    let load: Vec<String> = load.iter().map(|one| (*one).to_owned()).collect();
    Topology::parse_with(text, name, &load).unwrap()
}

fn measure(
    topology: &Topology,
    requests: &[Request],
    sizes: &[u64],
    change: impl Fn(&mut Network<'_>),
) -> Measures {
    measure_timed((topology, None), requests, sizes, change)
}

fn measure_timed(
    (topology, calibration): (&Topology, Option<&Calibration>),
    requests: &[Request],
    sizes: &[u64],
    change: impl Fn(&mut Network<'_>),
) -> Measures {
    let sources = sources(topology, sizes.len(), 1);
    let progress = RunProgress::default();
    let mut network = Network {
        topology,
        requests,
        sizes,
        sources: &sources,
        segment_bytes: 1000,
        cs_packets: None,
        own_caches: &BTreeMap::new(),
        name_components: 3,
        has_object_routes: false,
        window: WindowMode::CUBIC,
        has_popular_names: true,
        strategy: "best-route",
        cs_policy: CsPolicy::LRU,
        loss: 0.0,
        warm_up: Duration::ZERO,
        calibration,
        seed: 1,
        progress: Some(&progress),
    };
    change(&mut network);
    let measures = simulate(&network).unwrap();
    // All but the last request had begun when that began.
    let share = (requests.len() - 1) as f64 / requests.len() as f64;
    assert_eq!(progress.share(), Some(share));
    measures
}

/// Objects of one segment: the Content Stores of real forwarders are the LRU caches of the simulator of caches. Requests are
/// rare, because that one serves links in the order of requests.
#[test]
fn hits_are_those_of_simulated_caches() {
    for name in ["abilene", "tree"] {
        let topology = topology(
            name,
            &["object_bytes=1000", "cache_bytes=50000", "requests_per_s=1", "duration_s=1200"],
        );
        let trace = Trace::generate(&topology, Pattern::Zipf, 1).unwrap();
        let method = Method::parse("lru/shortest-path").unwrap()[0];
        let expected = Run::new(&topology, &trace, method, 1).metrics();
        let warm_up = trace.requests.last().unwrap().time_s * WARM_UP_SHARE;
        let found = measure(&topology, &trace.requests, &trace.sizes, |network| {
            network.warm_up = Duration::from_secs_f64(warm_up);
        });
        assert!(expected.hit_share > 0.1, "{expected:?}");
        for (found, expected) in [
            (found.hit_share, expected.hit_share),
            (found.origin_share, expected.origin_share),
            (found.delay_ms, expected.delay_ms),
        ] {
            assert!((found / expected - 1.0).abs() < 0.02, "{name}: {found} {expected}");
        }
    }
}

#[test]
fn download_takes_the_round_trip_and_the_time_on_the_link() {
    let topology = topology("line", &["link_mbit_per_s=80", "cache_bytes=0"]);
    let request = Request { time_s: 0.0, node: 0, object: 0 };
    // One segment: 1 + 3 * 10 ms to the producer and back, and 1000 bytes with their headers on four links of 10 MB/s.
    let found = measure(&topology, &[request], &[1000], |_| ());
    assert!((62.4..63.0).contains(&found.delay_ms), "{found:?}");
    assert_eq!((found.origin_share, found.hit_share, found.interests), (1.0, 0.0, 1.0));
    assert_eq!((found.links_per_segment, found.path_stretch), (4.0, 1.0));
    // Many segments: the rate of the link, but for headers and the begin.
    let found =
        measure(&topology, &[request], &[50_000_000], |network| network.segment_bytes = 8000);
    assert!((60.0..80.0).contains(&found.goodput_mbit_per_s), "{found:?}");
}

/// A worker that takes 40 µs for an Interest, 60 µs for its Data, and 50 µs for an Interest that its Content Store answers.
fn calibration() -> Calibration {
    Calibration::parse(include_str!("../../../../tests/calibration.toml")).unwrap()
}

/// The line with delays of 0.1 ms and links that take no time.
fn near_line() -> Topology {
    let text = ndn_cache_sim::topology::FILES.iter().find(|(known, _)| *known == "line").unwrap().1;
    let load = ["cache_bytes=1000000", "link_mbit_per_s=1000000"].map(str::to_owned);
    Topology::parse_with(&text.replace(", 10.0]", ", 0.1]"), "line", &load).unwrap()
}

/// Each of the five forwarders of the line takes its time for the Interest and for its Data; a hit saves the way behind it.
#[test]
fn forwarders_take_the_times_of_the_calibration() {
    let topology = near_line();
    let request = |time_s| Request { time_s, node: 0, object: 0 };
    let timed = calibration();
    let run = |requests: &[Request], size, is_timed: bool| {
        let calibration = is_timed.then_some(&timed);
        measure_timed((&topology, calibration), requests, &[size], |network| {
            network.segment_bytes = 8000;
            network.window = WindowMode::Fixed(64);
        })
    };
    let (fast, slow) = (run(&[request(0.0)], 1000, false), run(&[request(0.0)], 1000, true));
    let difference_ms = slow.delay_ms - fast.delay_ms;
    assert!((difference_ms - 5.0 * 0.1).abs() < 1e-3, "{fast:?} {slow:?}");
    assert!((slow.of_nodes["cpu_ms"] - 0.5).abs() < 1e-3, "{slow:?}");
    assert!((slow.of_nodes["cpu_ms.f1"] - 0.1).abs() < 1e-3, "{slow:?}");
    assert!(!fast.of_nodes.contains_key("cpu_ms"));
    // The second request is answered by the first cache on the way.
    let both = run(&[request(0.0), request(1.0)], 1000, true);
    let hits: Vec<&String> = both
        .of_nodes
        .keys()
        .filter(|name| name.starts_with("cs_hits") && both.of_nodes[*name] > 0.0)
        .collect();
    let [hit] = hits[..] else { panic!("{both:?}") };
    let node = hit.strip_prefix("cs_hits.").unwrap();
    let more_ms = both.of_nodes[&format!("cpu_ms.{node}")] - 0.1;
    assert!((more_ms - 0.05).abs() < 1e-3, "{both:?}");
    // The workers wait in the kernel before the Interest and before the Data, but for that of the producer, which answers at once.
    let mut sleepy = calibration();
    sleepy.effects[EFFECTS.iter().position(|known| *known == "sleep").unwrap()] = 10_000.0;
    let woken = measure_timed((&topology, Some(&sleepy)), &[request(0.0)], &[1000], |_| ());
    assert!((woken.delay_ms - slow.delay_ms - 0.09).abs() < 1e-3, "{woken:?} {slow:?}");
    assert!((woken.of_nodes["sleep_ms"] - 0.09).abs() < 1e-3, "{woken:?}");
    assert!((woken.of_nodes["cpu_ms"] - 0.59).abs() < 1e-3, "{woken:?}");
    assert_eq!(slow.of_nodes["sleep_ms.f1"], 0.0, "{slow:?}");
}

/// Frames of a face are sent in their order, at equal distances until the end of the work.
#[test]
fn frames_are_sent_while_the_worker_works() {
    let topology = near_line();
    let request = Request { time_s: 0.0, node: 0, object: 0 };
    measure(&topology, &[request], &[1000], |network| {
        let mut simulation = Simulation::new(network).unwrap();
        let frames: [(usize, u8); 5] = [(0, 1), (1, 2), (0, 3), (0, 4), (0, 5)];
        let output = frames.map(|(face, byte)| (face, vec![byte])).to_vec();
        simulation.send_until(ORIGIN + Duration::from_micros(100), 1, output);
        let mut sent = Vec::new();
        while let Some(Reverse((at, _, Event::Send { face, frame, .. }))) = simulation.events.pop()
        {
            sent.push(((at - ORIGIN).as_micros(), face, frame[0]));
        }
        assert_eq!(sent, [(25, 0, 1), (50, 0, 3), (75, 0, 4), (100, 1, 2), (100, 0, 5)]);
    });
}

/// A worker that is always busy takes 100 µs for a segment of 8000 bytes.
#[test]
fn busy_forwarder_limits_the_throughput() {
    let topology = near_line();
    let calibration = calibration();
    let request = Request { time_s: 0.0, node: 0, object: 0 };
    let run = || {
        measure_timed((&topology, Some(&calibration)), &[request], &[16_000_000], |network| {
            network.segment_bytes = 8000;
            network.window = WindowMode::Fixed(64);
        })
    };
    let busy = run();
    assert!((560.0..640.0).contains(&busy.goodput_mbit_per_s), "{busy:?}");
    assert_eq!(run(), busy);
}

/// One link of the line with properties of its own; the others carry 80 Mbit/s and lose nothing.
#[test]
fn slow_link_limits_the_download() {
    let run = |properties: &str, window| {
        let text =
            ndn_cache_sim::topology::FILES.iter().find(|(known, _)| *known == "line").unwrap().1;
        let from = "[\"f2\", \"f3\", 10.0]";
        assert!(text.contains(from));
        let to = format!("{{ between = [\"f2\", \"f3\"], delay_ms = 10.0{properties} }}");
        let load = ["link_mbit_per_s=80", "cache_bytes=0"].map(str::to_owned);
        let topology = Topology::parse_with(&text.replace(from, &to), "line", &load).unwrap();
        let request = Request { time_s: 0.0, node: 0, object: 0 };
        measure(&topology, &[request], &[5_000_000], |network| {
            network.segment_bytes = 8000;
            network.window = window;
        })
    };
    let window = WindowMode::Fixed(50);
    let (others, slow) = (run("", window), run(", mbit_per_s = 8", window));
    assert!((30.0..80.0).contains(&others.goodput_mbit_per_s), "{others:?}");
    assert!((7.0..8.0).contains(&slow.goodput_mbit_per_s), "{slow:?}");
    // The window of 400 kB does not fit into the queue.
    let dropped = run(", mbit_per_s = 8, queue_bytes = 40_000", window);
    assert_eq!(slow.retransmission_share, 0.0, "{slow:?}");
    assert!(dropped.retransmission_share > 0.01, "{dropped:?}");
    let lossy = run(", loss = 0.05", WindowMode::CUBIC);
    assert!((0.02..0.2).contains(&lossy.retransmission_share), "{lossy:?}");
}

#[test]
fn lost_frames_are_fetched_again_and_the_result_repeats() {
    let topology = topology("line", &["cache_bytes=0"]);
    let request = Request { time_s: 0.0, node: 0, object: 0 };
    let run =
        |loss: f64| measure(&topology, &[request], &[3_000_000], |network| network.loss = loss);
    let (whole, lossy) = (run(0.0), run(0.01));
    assert_eq!(whole.retransmission_share, 0.0);
    assert!(lossy.retransmission_share > 0.01, "{lossy:?}");
    assert!(lossy.delay_ms > whole.delay_ms);
    assert_eq!(run(0.01), lossy);
}

/// A route for each object instead of each source changes nothing but the tables of the routers.
#[test]
fn routes_of_objects_lead_where_those_of_sources_do() {
    let topology = topology(
        "tree",
        &["objects=300", "object_bytes=1000", "cache_bytes=20000", "duration_s=60"],
    );
    let trace = Trace::generate(&topology, Pattern::Zipf, 1).unwrap();
    let run = |has_object_routes: bool| {
        measure(&topology, &trace.requests, &trace.sizes, |network| {
            network.has_object_routes = has_object_routes;
            let routes = (0..topology.nodes.len()).map(|node| network.prefixes_of(node).len());
            assert_eq!(routes.max().unwrap() >= 300, has_object_routes);
        })
    };
    assert_eq!(run(true), run(false));
}

/// Consumers behind a router with a cache: the first download is from the source, the second from the cache.
#[test]
fn cache_shortens_the_distribution_of_one_object() {
    let run = |cache: &str| {
        let topology = topology("abilene", &[cache, "link_mbit_per_s=100"]);
        let requests: Vec<Request> = topology
            .consumers
            .iter()
            .enumerate()
            .map(|(number, node)| Request {
                time_s: number as f64 * 1e-3,
                node: *node as u32,
                object: 0,
            })
            .collect();
        measure(&topology, &requests, &[2_000_000], |network| network.segment_bytes = 8000)
    };
    let (with, without) = (run("cache_bytes=10000000"), run("cache_bytes=0"));
    assert!(with.origin_share < 0.9 * without.origin_share, "{with:?} {without:?}");
    assert!(with.path_stretch < 0.9 && without.path_stretch > with.path_stretch, "{with:?}");
    assert!(with.distribution_ms < without.distribution_ms, "{with:?} {without:?}");
    assert!(with.distribution_ms >= with.delay_ms);
}

/// Forwarders that exchange counts answer more requests from their Content Stores than LRU does, and each run gives the same.
#[cfg(feature = "vip")]
#[test]
fn vip_caches_what_is_popular() {
    let topology = topology(
        "line",
        &["object_bytes=16000", "objects=60", "cache_bytes=96000", "zipf=1", "duration_s=120"],
    );
    let trace = Trace::generate(&topology, Pattern::Zipf, 1).unwrap();
    let run = |kind, strategy| {
        measure(&topology, &trace.requests, &trace.sizes, |network| {
            network.segment_bytes = 4000;
            network.warm_up = Duration::from_secs(40);
            network.strategy = strategy;
            network.cs_policy = CsPolicy { kind, vip_score: namewire_config::VipScore::Arrivals };
        })
    };
    let lru = run(ndn_caching::PolicyKind::Lru, "best-route");
    let vip = run(ndn_caching::PolicyKind::Vip, "vip");
    assert!(vip.hit_share > 1.1 * lru.hit_share, "{vip:?} {lru:?}");
    assert!(vip.origin_share < lru.origin_share, "{vip:?} {lru:?}");
    assert_eq!(run(ndn_caching::PolicyKind::Vip, "vip"), vip);
}
