//! Four forwarders: two ways from one end to the other.

use namewire_tests::{Application, Received, Topology, wait_until};
use ndn_packet::NackReason;

use super::try_exchange;

/// Four forwarders: from `a` to `d` by `b` or by `c`, over UDP.
struct Diamond {
    topology: Topology,
    /// From the first node to the second.
    faces: Vec<(&'static str, &'static str, u64)>,
}

impl Diamond {
    fn new() -> Option<Self> {
        let links = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")];
        let mut topology = Topology::new(&["a", "b", "c", "d"], &links)?;
        for node in ["a", "b", "c", "d"] {
            topology.start_forwarder(node, "");
        }
        let ways = links.into_iter().chain([("c", "a"), ("d", "c")]);
        let faces = ways.map(|(from, to)| (from, to, topology.create_face(from, "udp4", to)));
        let faces = faces.collect();
        Some(Self { topology, faces })
    }

    fn face(&self, from: &str, to: &str) -> u64 {
        self.faces.iter().find(|face| (face.0, face.1) == (from, to)).unwrap().2
    }

    fn route(&self, from: &str, to: &str, prefix: &str, cost: &str) {
        self.topology.add_route(from, prefix, self.face(from, to), &["--cost", cost]);
    }

    /// Routes both ways to `d`, where an application serves the prefix.
    fn serve(&self, prefix: &str, strategy: &str) -> Application {
        for (from, to, cost) in
            [("a", "b", "10"), ("a", "c", "20"), ("b", "d", "1"), ("c", "d", "1")]
        {
            self.route(from, to, prefix, cost);
        }
        let _ = self.topology.output("a", &["strategy", "set", prefix, strategy]);
        let mut producer = Application::attach(&self.topology.socket("d"));
        producer.register(prefix, 0);
        producer
    }

    fn sent(&self, from: &str, to: &str) -> u64 {
        self.topology.counter(from, self.face(from, to), "out_interests")
    }
}

#[test]
fn strategies_use_both_paths_of_a_diamond() {
    let Some(mut diamond) = Diamond::new() else { return };
    an_interest_does_not_go_round(&diamond);
    multicast_sends_to_all_next_hops(&diamond);
    asf_goes_around_a_link_that_fails(&mut diamond);
}

fn an_interest_does_not_go_round(diamond: &Diamond) {
    let ring = [("a", "b"), ("b", "d"), ("d", "c"), ("c", "a")];
    for (from, to) in ring {
        diamond.route(from, to, "/loop/x", "1");
    }
    let sent = || ring.map(|(from, to)| diamond.sent(from, to));
    let before = sent();
    let mut consumer = Application::attach(&diamond.topology.socket("a"));
    consumer.express("/loop/x/1", 5);
    let uri = "/loop/x/1".to_owned();
    assert_eq!(consumer.receive(), Received::Nack(uri, 5, NackReason::DUPLICATE));
    assert_eq!(sent(), before.map(|count| count + 1), "each passes it on once");
}

fn multicast_sends_to_all_next_hops(diamond: &Diamond) {
    let mut producer = diamond.serve("/multicast/x", "multicast");
    let ways = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")];
    let sent = || ways.map(|(from, to)| diamond.sent(from, to));
    let before = sent();
    let mut consumer = Application::attach(&diamond.topology.socket("a"));
    consumer.express("/multicast/x/1", 1);
    producer.expect_interest("/multicast/x/1");
    wait_until("both ways to have been tried", || {
        (sent() == before.map(|count| count + 1)).then_some(())
    });
    // It came twice with one Nonce; the producer is asked once, the consumer answered once.
    producer.answer("/multicast/x/1", b"once", None);
    consumer.expect_data("/multicast/x/1");
    consumer.express("/multicast/x/2", 2);
    assert_eq!(producer.serve_until("/multicast/x/2"), ["/multicast/x/2"]);
    consumer.expect_data("/multicast/x/2");
}

fn asf_goes_around_a_link_that_fails(diamond: &mut Diamond) {
    let mut producer =
        diamond.serve("/failure/x", "/localhost/nfd/strategy/asf/v=5/probing-interval~1000");
    let mut consumer = Application::attach(&diamond.topology.socket("a"));
    let mut number = 0;
    let mut exchange = || {
        number += 1;
        let uri = format!("/failure/x/{number}");
        try_exchange(&mut consumer, &mut producer, &uri, number)
    };
    for _ in 0..10 {
        wait_until("an exchange", || exchange().then_some(()));
    }
    for (cut, other) in [("b", "c"), ("c", "b")] {
        diamond.topology.set_link("a", cut, "down");
        // The other way takes over, and stays.
        let mut in_a_row = 0;
        wait_until("ten exchanges in a row", || {
            in_a_row = if exchange() { in_a_row + 1 } else { 0 };
            (in_a_row == 10).then_some(())
        });
        diamond.topology.set_link("a", cut, "up");
        // Probes find out that it is back, so that the other may fail in turn.
        let before = diamond.topology.counter("a", diamond.face("a", cut), "in_data");
        wait_until("a probe that is answered", || {
            exchange();
            let now = diamond.topology.counter("a", diamond.face("a", cut), "in_data");
            (now > before).then_some(())
        });
        assert!(diamond.topology.counter("a", diamond.face("a", other), "in_data") > 0);
    }
}
