//! Three forwarders in a row.

use std::time::Duration;

use namewire_tests::{Application, Received, Topology, wait_until};
use ndn_management::{ControlParameters, Verb, route_flag};
use ndn_packet::NackReason;

use super::try_exchange;

const HOUR_MS: u64 = 3_600_000;

/// Every neighbour of `b` may register prefixes with it.
const LOCALHOP: &str = "[management]\nlocalhop_rib = \"trust-anchor { type any }\"";

/// Three forwarders in a row: a UDP tunnel from `a` to `b`, a TCP tunnel from `b` to `c`.
struct Line {
    topology: Topology,
    a_to_b: u64,
    b_to_c: u64,
}

impl Line {
    fn new() -> Option<Self> {
        let mut topology = Topology::new(&["a", "b", "c"], &[("a", "b"), ("b", "c")])?;
        for (node, toml) in [("a", ""), ("b", LOCALHOP), ("c", "")] {
            topology.start_forwarder(node, toml);
        }
        let a_to_b = topology.create_face("a", "udp4", "b");
        let b_to_c = topology.create_face("b", "tcp4", "c");
        Some(Self { topology, a_to_b, b_to_c })
    }

    fn attach(&self, node: &str) -> Application {
        Application::attach(&self.topology.socket(node))
    }

    /// Routes from `a` to `c`.
    fn route(&self, prefix: &str) {
        self.topology.add_route("a", prefix, self.a_to_b, &[]);
        self.topology.add_route("b", prefix, self.b_to_c, &[]);
    }

    /// Routes from `a` to `c`, where an application serves the prefix.
    fn serve(&self, prefix: &str) -> Application {
        self.route(prefix);
        let mut producer = self.attach("c");
        producer.register(prefix, 0);
        producer
    }
}

#[test]
fn hosts_on_a_line_exchange_packets() {
    let Some(mut line) = Line::new() else { return };
    tunnels_carry_both_ways(&line);
    interests_for_the_same_are_one(&line);
    localhost_stays_on_its_host(&line);
    localhop_goes_one_hop(&line);
    stale_data_is_not_fresh(&line);
    the_longest_prefix_counts(&line);
    routes_are_inherited(&line);
    a_nack_has_the_latest_nonce(&line);
    a_neighbour_registers(&line);
    a_route_ends_when_it_expires(&line);
    permanent_faces_outlive_their_peer(&mut line);
}

fn tunnels_carry_both_ways(line: &Line) {
    let mut producer = line.serve("/tunnel/to-c");
    let mut consumer = line.attach("a");
    let names: Vec<_> = (0..20).map(|number| format!("/tunnel/to-c/{number:02}")).collect();
    for (nonce, uri) in (1..).zip(&names) {
        consumer.express(uri, nonce);
    }
    assert_eq!(producer.serve_until("/tunnel/to-c/19"), names);
    for uri in &names {
        assert_eq!(consumer.expect_data(uri), uri.as_bytes());
    }
    // The other way, by the faces that the neighbours made on demand.
    let back = |node: &str, remote: &str| {
        let list = line.topology.output(node, &["face", "list", "--json"]);
        let faces: Vec<serde_json::Value> = serde_json::from_str(&list).unwrap();
        let is_it = |face: &&serde_json::Value| {
            face["remote_uri"].as_str().unwrap().contains(remote)
                && face["persistency"] == "on-demand"
        };
        faces.iter().find(is_it).expect("a face")["face_id"].as_u64().unwrap()
    };
    let c_to_b = back("c", &line.topology.address("b", "c"));
    line.topology.add_route("c", "/tunnel/to-a", c_to_b, &[]);
    let b_to_a = back("b", &line.topology.address("a", "b"));
    line.topology.add_route("b", "/tunnel/to-a", b_to_a, &[]);
    let (mut producer, mut consumer) = (line.attach("a"), line.attach("c"));
    producer.register("/tunnel/to-a", 0);
    consumer.express("/tunnel/to-a/0", 1);
    producer.serve_until("/tunnel/to-a/0");
    consumer.expect_data("/tunnel/to-a/0");
}

fn interests_for_the_same_are_one(line: &Line) {
    let mut producer = line.serve("/aggregate/x");
    let mut consumers = [line.attach("a"), line.attach("a")];
    for (nonce, consumer) in (1..).zip(&mut consumers) {
        consumer.express("/aggregate/x/same", nonce);
        consumer.express(&format!("/aggregate/x/mrk{nonce}"), 10 + nonce);
    }
    // Both have arrived once both marks have.
    let mut names: Vec<_> = (0..3).map(|_| producer.receive_interest().0).collect();
    names.sort();
    assert_eq!(names, ["/aggregate/x/mrk1", "/aggregate/x/mrk2", "/aggregate/x/same"]);
    producer.answer("/aggregate/x/same", b"for both", None);
    for consumer in &mut consumers {
        assert_eq!(consumer.expect_data("/aggregate/x/same"), b"for both");
    }
    consumers[0].express("/aggregate/x/last", 20);
    assert_eq!(producer.serve_until("/aggregate/x/last").len(), 1, "nothing came a second time");
}

fn localhost_stays_on_its_host(line: &Line) {
    line.topology.add_route("a", "/localhost/scope", line.a_to_b, &[]);
    // Multicast, which is the default there, would be silent.
    let _ = line.topology.output("a", &["strategy", "set", "/localhost/scope", "best-route"]);
    let mut neighbour = line.attach("b");
    neighbour.register("/localhost/scope", 0);
    let before = line.topology.counter("a", line.a_to_b, "out_interests");
    let mut consumer = line.attach("a");
    consumer.express("/localhost/scope/1", 7);
    let uri = "/localhost/scope/1".to_owned();
    assert_eq!(consumer.receive(), Received::Nack(uri, 7, NackReason::NO_ROUTE));
    assert_eq!(line.topology.counter("a", line.a_to_b, "out_interests"), before);
    // An application of the host serves it.
    let mut local = line.attach("a");
    local.register("/localhost/scope", 0);
    consumer.express("/localhost/scope/2", 8);
    local.serve_until("/localhost/scope/2");
    consumer.expect_data("/localhost/scope/2");
}

fn localhop_goes_one_hop(line: &Line) {
    let mut far = line.serve("/localhop/scope");
    let mut consumer = line.attach("a");
    consumer.express("/localhop/scope/1", 7);
    let uri = "/localhop/scope/1".to_owned();
    assert_eq!(consumer.receive(), Received::Nack(uri, 7, NackReason::NO_ROUTE));
    let mut near = line.attach("b");
    near.register("/localhop/scope", 0);
    consumer.express("/localhop/scope/2", 8);
    near.serve_until("/localhop/scope/2");
    consumer.expect_data("/localhop/scope/2");
    // From `b` itself, `c` is one hop away.
    drop(near);
    let mut between = line.attach("b");
    between.express("/localhop/scope/3", 9);
    assert_eq!(far.serve_until("/localhop/scope/3"), ["/localhop/scope/3"]);
    between.expect_data("/localhop/scope/3");
}

fn stale_data_is_not_fresh(line: &Line) {
    let mut producer = line.serve("/fresh/x");
    let mut consumer = line.attach("a");
    let [never, long, short] = ["/fresh/x/never", "/fresh/x/long", "/fresh/x/short"];
    for (nonce, (uri, freshness_ms)) in
        (1..).zip([(never, None), (long, Some(HOUR_MS)), (short, Some(100))])
    {
        consumer.express(uri, nonce);
        producer.expect_interest(uri);
        producer.answer(uri, b"first", freshness_ms);
        assert_eq!(consumer.expect_data(uri), b"first");
    }
    // Whatever its age, it answers Interests without MustBeFresh.
    for (nonce, uri) in (11..).zip([never, long]) {
        consumer.express(uri, nonce);
        assert_eq!(consumer.expect_data(uri), b"first");
    }
    // With MustBeFresh, fresh Data comes from the store; other Interests go to the producer again.
    consumer.express_with(long, 21, |interest| interest.must_be_fresh(true));
    assert_eq!(consumer.expect_data(long), b"first");
    consumer.express_with(never, 22, |interest| interest.must_be_fresh(true));
    producer.expect_interest(never);
    producer.answer(never, b"second", Some(HOUR_MS));
    assert_eq!(consumer.expect_data(never), b"second");
    consumer.express_with(never, 23, |interest| interest.must_be_fresh(true));
    assert_eq!(consumer.expect_data(never), b"second");
    // What was fresh becomes stale.
    let mut nonces = 100..;
    wait_until("stale Data", || {
        let nonce = nonces.next().unwrap();
        consumer.express_with(short, nonce, |interest| interest.must_be_fresh(true));
        // From the store or from the producer: nobody knows beforehand.
        let received = wait_until("Data", || {
            let moment = Duration::from_millis(10);
            if producer.try_receive(moment).is_some() {
                producer.answer(short, b"second", Some(HOUR_MS));
            }
            consumer.try_receive(moment)
        });
        let Received::Data(name, content) = received else { panic!("{received:?}") };
        assert_eq!(name, short);
        (content == b"second").then_some(())
    });
}

fn the_longest_prefix_counts(line: &Line) {
    line.topology.add_route("a", "/fib/x", line.a_to_b, &[]);
    let mut producers = ["/fib/x/a", "/fib/x/a/b", "/fib/x/ab"].map(|prefix| {
        let mut producer = line.attach("b");
        producer.register(prefix, 0);
        producer
    });
    let mut consumer = line.attach("a");
    let expected = [
        ("/fib/x/a", 0),
        ("/fib/x/a/1", 0),
        ("/fib/x/a/bc", 0),
        ("/fib/x/a/b", 1),
        ("/fib/x/a/b/c/d", 1),
        ("/fib/x/ab/b", 2),
    ];
    for (nonce, (uri, which)) in (1..).zip(expected) {
        consumer.express(uri, nonce);
        assert_eq!(producers[which].serve_until(uri), [uri]);
        consumer.expect_data(uri);
    }
    for (nonce, uri) in (20..).zip(["/fib/x", "/fib/x/abc", "/fib/x/b"]) {
        consumer.express(uri, nonce);
        assert_eq!(consumer.receive(), Received::Nack(uri.to_owned(), nonce, NackReason::NO_ROUTE));
    }
}

/// Flags of four routes, and how many Interests each application serves.
fn routes_are_inherited(line: &Line) {
    let base = "/inherit/x";
    line.topology.add_route("a", base, line.a_to_b, &[]);
    let _ = line.topology.output("b", &["strategy", "set", base, "multicast"]);
    let routes = [
        (base.to_owned(), route_flag::CHILD_INHERIT),
        (base.to_owned(), 0),
        (format!("{base}/deep"), route_flag::CHILD_INHERIT),
        (format!("{base}/own"), route_flag::CAPTURE),
    ];
    let mut producers = routes.map(|(prefix, flags)| {
        let mut producer = line.attach("b");
        producer.register(&prefix, flags);
        producer
    });
    let names = ["/1", "/deep/1", "/deep/own/1", "/own/1", "/deep/end", "/own/end", "/end"];
    let expected: [&[&str]; 4] = [
        &["/1", "/deep/1", "/deep/own/1", "/deep/end", "/end"],
        &["/1", "/end"],
        &["/deep/1", "/deep/own/1", "/deep/end"],
        &["/own/1", "/own/end"],
    ];
    let mut consumer = line.attach("a");
    for (nonce, name) in (1..).zip(names) {
        consumer.express(&format!("{base}{name}"), nonce);
        // All who are asked get the Interest before any of them answers.
        for (producer, _) in producers.iter_mut().zip(expected).filter(|(_, e)| e.contains(&name)) {
            producer.expect_interest(&format!("{base}{name}"));
        }
        let asked = expected.iter().position(|e| e.contains(&name)).unwrap();
        producers[asked].answer(&format!("{base}{name}"), b"", None);
        consumer.expect_data(&format!("{base}{name}"));
    }
    // Nobody got more: the ends were the last.
    for producer in &mut producers {
        assert_eq!(producer.try_receive(Duration::from_millis(1)), None);
    }
}

fn a_nack_has_the_latest_nonce(line: &Line) {
    let mut producer = line.serve("/nack/x");
    let [mut one, mut two] = [line.attach("a"), line.attach("a")];
    let uri = "/nack/x/1";
    one.express(uri, 1);
    let first = producer.expect_interest(uri);
    assert_eq!(first, 1);
    // Two more of the first consumer and one of the second; some are suppressed on the way.
    one.express(uri, 2);
    one.express(uri, 3);
    one.express("/nack/x/A", 10);
    two.express(uri, 4);
    two.express("/nack/x/B", 11);
    let mut last = first;
    let mut marks = 0;
    while marks < 2 {
        let (name, nonce) = producer.receive_interest();
        match name == uri {
            true => last = nonce,
            false => marks += 1,
        }
    }
    producer.refuse(uri, last, NackReason::CONGESTION);
    for (consumer, nonce) in [(&mut one, 3), (&mut two, 4)] {
        let nack = Received::Nack(uri.to_owned(), nonce, NackReason::CONGESTION);
        assert_eq!(consumer.receive(), nack);
    }
}

fn a_neighbour_registers(line: &Line) {
    line.topology.add_route("a", "/remote/x", line.a_to_b, &[]);
    let mut consumer = line.attach("a");
    consumer.express("/remote/x/1", 1);
    let uri = "/remote/x/1".to_owned();
    assert_eq!(consumer.receive(), Received::Nack(uri, 1, NackReason::NO_ROUTE));
    let c_to_b = line.topology.create_face("c", "udp4", "b");
    line.topology.add_route("c", "/localhop/nfd", c_to_b, &[]);
    let mut producer = line.attach("c");
    producer.register("/remote/x", 0);
    let parameters = ControlParameters {
        name: Some("/remote/x".parse().unwrap()),
        ..ControlParameters::default()
    };
    assert_eq!(producer.command("/localhop/nfd", Verb::RibRegister, &parameters), 200);
    consumer.express("/remote/x/2", 2);
    producer.serve_until("/remote/x/2");
    consumer.expect_data("/remote/x/2");
    assert_eq!(producer.command("/localhop/nfd", Verb::RibUnregister, &parameters), 200);
    consumer.express("/remote/x/3", 3);
    let uri = "/remote/x/3".to_owned();
    assert_eq!(consumer.receive(), Received::Nack(uri, 3, NackReason::NO_ROUTE));
}

fn a_route_ends_when_it_expires(line: &Line) {
    let mut producer = line.attach("c");
    producer.register("/expire/x", 0);
    line.topology.add_route("b", "/expire/x", line.b_to_c, &[]);
    let mut consumer = line.attach("a");
    let mut numbers = 0_u32..;
    // Whether an Interest is answered, or comes back.
    let mut try_once = || {
        let number = numbers.next().unwrap();
        consumer.express(&format!("/expire/x/{number}"), number);
        wait_until("a reaction", || {
            let moment = Duration::from_millis(10);
            if let Some(Received::Interest(name, _)) = producer.try_receive(moment) {
                producer.answer(&name, b"", None);
            }
            consumer.try_receive(moment).map(|received| matches!(received, Received::Data(..)))
        })
    };
    assert!(!try_once(), "no route yet");
    wait_until("an exchange while the route is there", || {
        line.topology.add_route("a", "/expire/x", line.a_to_b, &["--expires", "1s"]);
        try_once().then_some(())
    });
    wait_until("the route to expire", || (!try_once()).then_some(()));
}

/// `c` goes and comes back: its neighbour's faces, over TCP and UDP, are the same as before.
fn permanent_faces_outlive_their_peer(line: &mut Line) {
    // There may be one already, which `c` made.
    let udp = line.topology.create_face("b", "udp4", "c");
    let permanent = ["face", "update", &udp.to_string(), "--persistency", "permanent"];
    let _ = line.topology.output("b", &permanent);
    for (prefix, face) in [("/restart/tcp", line.b_to_c), ("/restart/udp", udp)] {
        line.topology.add_route("a", prefix, line.a_to_b, &[]);
        line.topology.add_route("b", prefix, face, &[]);
    }
    let mut number = 0;
    for round in 0..2 {
        let mut producer = line.attach("c");
        let mut consumer = line.attach("a");
        let prefixes = ["/restart/tcp", "/restart/udp"];
        // Before anything is asked for, which would come in between.
        for prefix in prefixes {
            producer.register(prefix, 0);
        }
        for prefix in prefixes {
            wait_until(&format!("{prefix} in round {round}"), || {
                number += 1;
                let uri = format!("{prefix}/{number}");
                // Packets that come too early are lost.
                try_exchange(&mut consumer, &mut producer, &uri, number).then_some(())
            });
        }
        if round == 0 {
            line.topology.stop("c");
            line.topology.start_forwarder("c", "");
        }
    }
    for face in [line.b_to_c, udp] {
        let face = line.topology.face("b", face).expect("the same face");
        assert_eq!(face["persistency"], "permanent", "{face}");
    }
}
