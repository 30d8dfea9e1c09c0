//! Runs whose results are known, and invariants of all methods.

use ndn_cache_sim::engine::{Method, Metrics, Run};
use ndn_cache_sim::topology::Topology;
use ndn_cache_sim::trace::{Pattern, Trace};

fn line() -> Topology {
    Topology::known("line").expect("known")
}

fn run(topology: &Topology, trace: &Trace, method: &str, seed: u64) -> Metrics {
    let method = Method::parse(method).expect("known")[0];
    Run::new(topology, trace, method, seed).metrics()
}

fn assert_near(value: f64, expected: f64) {
    let error = (value - expected).abs();
    assert!(error < 1e-9 * expected.abs().max(1.0), "{value} instead of {expected}");
}

/// 5 MB over 500 Mbit/s take 80 ms per link; the delays of the links are 1, 10, 10 and 10 ms.
#[test]
fn request_takes_delays_and_transmissions() {
    // The request at 0 s is in the warm-up; of the two at 10 s the second waits for the first.
    let text = "0,consumer,/a,5000000\n10,consumer,/b,5000000\n10,consumer,/c,5000000\n";
    let trace = Trace::parse(text, "trace", &line()).expect("valid");
    let metrics = run(&line(), &trace, "none/shortest-path", 0);
    assert_eq!(metrics.requests, 2);
    let first_ms = 2.0 * 31.0 + 4.0 * 80.0;
    assert_near(metrics.delay_ms, (first_ms + first_ms + 80.0) / 2.0);
    assert_near(metrics.stretch, 1.0);
    assert_near(metrics.origin_share, 1.0);
    assert_near(metrics.writes_per_request, 0.0);
}

#[test]
fn cached_object_comes_from_the_first_cache() {
    let text = "0,consumer,/a,5000000\n10,consumer,/a,5000000\n";
    let trace = Trace::parse(text, "trace", &line()).expect("valid");
    let metrics = run(&line(), &trace, "lru/shortest-path", 0);
    assert_near(metrics.delay_ms, 2.0 + 80.0);
    assert_near(metrics.hit_share, 1.0);
    assert_near(metrics.first_hit_share, 1.0);
    assert_near(metrics.origin_share, 0.0);
    assert_near(metrics.stretch, 0.25);
    assert_near(metrics.writes_per_request, 0.0);
}

#[test]
fn request_for_an_object_on_its_way_is_aggregated() {
    let text = "0,consumer,/x,5000000\n10,consumer,/a,5000000\n10.1,consumer,/a,5000000\n";
    let trace = Trace::parse(text, "trace", &line()).expect("valid");
    for method in ["none/shortest-path", "lru/shortest-path"] {
        let metrics = run(&line(), &trace, method, 0);
        assert_near(metrics.aggregated_share, 0.5);
        assert_near(metrics.delay_ms, (382.0 + 282.0) / 2.0);
        assert_near(metrics.origin_share, 0.5);
    }
}

#[test]
fn queue_follows_the_formula_of_pollaczek_and_khinchine() {
    // One link; objects of 80 ms at 10 per second are M/D/1 with load 0.8: the mean wait is 0.8 / (2 · 0.2) · 80 ms.
    // Hardly any object is requested again during its transfer, as there are many.
    let text = r#"
        name = "one"
        source = "test"
        nodes = ["a", "b"]
        links = [["a", "b", 1.0]]
        consumers = ["a"]
        producers = ["b"]
        caches = []
        [load]
        requests_per_s = 10.0
        zipf = 0.0
        objects = 100000
        object_bytes = 5000000
        cache_bytes = 0
        link_mbit_per_s = 500
        cache_read_mbit_per_s = 1
        duration_s = 20000
    "#;
    let topology = Topology::parse(text, "one").expect("valid");
    let trace = Trace::generate(&topology, Pattern::Zipf, 5).expect("valid");
    let delay_ms = run(&topology, &trace, "none/shortest-path", 5).delay_ms;
    let expected_ms = 2.0 + 80.0 + 160.0;
    assert!((delay_ms / expected_ms - 1.0).abs() < 0.05, "{delay_ms} instead of {expected_ms}");
}

#[test]
fn hit_ratio_of_lru_follows_the_formula_of_che() {
    let mut topology = line();
    topology.has_cache = vec![false, true, false, false, false];
    topology.load.duration_s = 20_000.0;
    topology.load.link_mbit_per_s = 1e6;
    let trace = Trace::generate(&topology, Pattern::Zipf, 1).expect("valid");
    let metrics = run(&topology, &trace, "lru/shortest-path", 1);
    // Che, Tung, Wang 2002: the hit ratio of an object is 1 − exp(−rate · T), where T fills the cache.
    let rates = trace.rates.expect("stationary");
    let filled = |time_s: f64| rates.iter().map(|rate| 1.0 - (-rate * time_s).exp()).sum::<f64>();
    let (mut low, mut high) = (0.0, 1e6);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if filled(middle) < 50.0 { low = middle } else { high = middle }
    }
    let hits = rates.iter().map(|rate| rate * (1.0 - (-rate * low).exp())).sum::<f64>();
    let expected = hits / rates.iter().sum::<f64>();
    let found = metrics.hit_share + metrics.aggregated_share;
    assert!((found / expected - 1.0).abs() < 0.02, "{found} instead of {expected}");
}

#[test]
fn all_methods_keep_the_invariants_and_repeat() {
    for name in ["abilene", "geant", "tree", "grid", "line", "sc22"] {
        let mut topology = Topology::known(name).expect("known");
        topology.load.duration_s /= 8.0;
        topology.load.objects = topology.load.objects.min(200);
        let patterns = [Pattern::Zipf, Pattern::Drift, Pattern::OneHit, Pattern::Datasets];
        for (seed, pattern) in (0..).zip(patterns) {
            let trace = Trace::generate(&topology, pattern, seed).expect("valid");
            for method in Method::all() {
                let metrics = Run::new(&topology, &trace, method, seed).metrics();
                let place = format!("{name}, {pattern:?}, {}: {metrics:?}", method.name());
                assert!(metrics.requests > 0, "{place}");
                let shares = metrics.hit_share + metrics.aggregated_share + metrics.origin_share;
                assert!((shares - 1.0).abs() < 1e-9, "sizes are equal: {place}");
                assert!(metrics.first_hit_share <= metrics.hit_share, "{place}");
                assert!(metrics.delay_ms >= 0.0 && metrics.delay_p99_ms >= 0.0, "{place}");
                if matches!(method, Method::NoCache(_)) {
                    assert!(metrics.hit_share == 0.0, "{place}");
                }
                if pattern == Pattern::Zipf {
                    let again = Run::new(&topology, &trace, method, seed).metrics();
                    assert_eq!(metrics, again, "{place}");
                }
            }
        }
    }
}

#[test]
fn unknown_methods_are_refused_by_name() {
    let error = Method::parse("lru/fastest").expect_err("unknown").to_string();
    assert!(error.contains("'lru/fastest'") && error.contains("lru/round-robin"), "{error}");
    assert_eq!(Method::parse("lru").expect("known").len(), 3);
    if cfg!(not(feature = "vip")) {
        let error = Method::parse("vip").expect_err("not built").to_string();
        assert!(error.contains("patented") && error.contains("'vip'"), "{error}");
    }
}

#[cfg(feature = "vip")]
mod joint {
    use super::*;

    /// With one consumer and a path, the best placement is known: the most popular objects at the first cache, the
    /// next at the others. The conditional gradient finds it.
    #[test]
    fn min_delay_places_the_popular_objects_in_the_order_of_the_path() {
        let mut topology = line();
        topology.load.cache_bytes = 10 * topology.load.object_bytes;
        // Few requests are aggregated.
        topology.load.requests_per_s = 1.0;
        topology.load.duration_s = 10_000.0;
        let trace = Trace::generate(&topology, Pattern::Zipf, 3).expect("valid");
        let metrics = run(&topology, &trace, "min-delay", 3);
        let rates = trace.rates.as_ref().expect("stationary");
        let share = |objects: std::ops::Range<usize>| {
            rates[objects].iter().sum::<f64>() / rates.iter().sum::<f64>()
        };
        assert!((metrics.first_hit_share - share(0..10)).abs() < 0.02, "{metrics:?}");
        assert!((metrics.origin_share - (1.0 - share(0..30))).abs() < 0.02, "{metrics:?}");
    }

    #[test]
    fn vip_caches_the_popular_objects() {
        let mut topology = line();
        topology.load.duration_s = 1000.0;
        let trace = Trace::generate(&topology, Pattern::Zipf, 3).expect("valid");
        let hits = |method| run(&topology, &trace, method, 3).hit_share;
        let random = hits("random/shortest-path");
        for method in ["vip", "vip2"] {
            assert!(hits(method) > random + 0.03, "{method}: {} {random}", hits(method));
        }
    }

    /// Penalties make writes rarer. Above all scores nothing is replaced.
    #[test]
    fn penalties_make_writes_rarer() {
        let mut topology = line();
        topology.load.duration_s = 1000.0;
        let trace = Trace::generate(&topology, Pattern::Zipf, 3).expect("valid");
        let mut with = |read_penalty: f64, write_penalty: f64| {
            topology.load.read_penalty = read_penalty;
            topology.load.write_penalty = write_penalty;
            run(&topology, &trace, "vip2", 3)
        };
        let free = with(0.0, 0.0);
        let share = |of: &Metrics| {
            (of.writes_per_request / free.writes_per_request, of.hit_share / free.hit_share)
        };
        let costly = with(0.0, 0.1);
        let (writes, hits) = share(&costly);
        assert!(writes < 0.1 && hits > 0.75, "{costly:?} {free:?}");
        let without_rare = with(0.05, 0.0);
        let (writes, hits) = share(&without_rare);
        assert!(writes < 0.7 && hits > 0.95, "{without_rare:?} {free:?}");
        assert!(with(0.0, 1e6).writes_per_request < 0.001);
    }
}
