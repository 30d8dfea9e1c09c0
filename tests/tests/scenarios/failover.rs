//! The better of two paths dies under an exchange.

use std::time::{Duration, Instant};

use namewire_tests::{Application, Received, Topology, now, wait_until};

/// Interests that are pending at a time.
const WINDOW: u32 = 16;
/// Longest pause of the exchange. The aim is 300 ms; machines that run tests can be busy for longer.
const GAP_MAX: Duration = Duration::from_secs(1);

/// The kind of failure of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    /// The forwarder in the middle is killed.
    Forwarder,
    /// The first link is taken down.
    Link,
}

/// From `a` to `d` by `b`, which is cheaper, or by `c`.
struct Paths {
    topology: Topology,
    scheme: &'static str,
    to_b: u64,
}

impl Paths {
    const PREFIX: &'static str = "/failover/x";

    fn new(scheme: &'static str) -> Option<Self> {
        let links = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")];
        let mut topology = Topology::new(&["a", "b", "c", "d"], &links)?;
        ["a", "b", "c", "d"].iter().for_each(|node| topology.start_forwarder(node, ""));
        let to_b = topology.create_face("a", scheme, "b");
        let to_c = topology.create_face("a", scheme, "c");
        topology.add_route("a", Self::PREFIX, to_b, &["--cost", "10"]);
        topology.add_route("a", Self::PREFIX, to_c, &["--cost", "20"]);
        let paths = Self { topology, scheme, to_b };
        ["b", "c"].iter().for_each(|node| paths.connect(node));
        Some(paths)
    }

    /// Makes the route of a forwarder in the middle.
    fn connect(&self, node: &str) {
        let face = self.topology.create_face(node, self.scheme, "d");
        self.topology.add_route(node, Self::PREFIX, face, &[]);
    }

    fn kill(&mut self, death: Death) {
        match death {
            // Until the process has ended, its socket takes Interests, and no ICMP message comes back for them.
            Death::Forwarder => self.topology.shell("kill -9 $pid_b; wait $pid_b; true"),
            Death::Link => self.topology.set_link("a", "b", "down"),
        }
    }

    fn revive(&mut self, death: Death) {
        match death {
            Death::Forwarder => {
                self.topology.stop("b");
                self.topology.start_forwarder("b", "");
                self.connect("b");
            }
            Death::Link => self.topology.set_link("a", "b", "up"),
        }
    }

    fn received(&self) -> u64 {
        self.topology.counter("a", self.to_b, "in_data")
    }
}

/// A consumer that sends every Interest once, and its producer.
struct Exchange {
    consumer: Application,
    producer: Application,
    expressed: u32,
    answered: u32,
    latest: Instant,
    longest_gap: Duration,
}

impl Exchange {
    fn new(topology: &Topology) -> Self {
        let mut producer = Application::attach(&topology.socket("d"));
        producer.register(Paths::PREFIX, 0);
        let consumer = Application::attach(&topology.socket("a"));
        let (latest, longest_gap) = (now(), Duration::ZERO);
        Self { consumer, producer, expressed: 0, answered: 0, latest, longest_gap }
    }

    /// Exchanges this number of Interests and Data; every Interest has to be answered.
    fn run(&mut self, count: u32, title: &str) {
        let (until, deadline) = (self.answered + count, now() + namewire_tests::TIMEOUT);
        let moment = Duration::from_millis(1);
        while self.answered < until {
            assert!(now() < deadline, "{title}: {} of {until} were answered", self.answered);
            while self.expressed < (self.answered + WINDOW).min(until) {
                self.expressed += 1;
                let uri = format!("{}/{}", Paths::PREFIX, self.expressed);
                self.consumer.express(&uri, self.expressed);
            }
            while let Some(Received::Interest(name, _)) = self.producer.try_receive(moment) {
                self.producer.answer(&name, b"", None);
            }
            match self.consumer.try_receive(moment) {
                Some(Received::Data(..)) => {
                    self.answered += 1;
                    let now = now();
                    self.longest_gap = self.longest_gap.max(now.duration_since(self.latest));
                    self.latest = now;
                }
                Some(other) => panic!("{title}: {other:?}"),
                None => {}
            }
        }
    }
}

fn survive(scheme: &'static str, death: Death, strategies: &[&str]) {
    let Some(mut paths) = Paths::new(scheme) else { return };
    let mut exchange = Exchange::new(&paths.topology);
    for strategy in strategies {
        let title = format!("{strategy} over {scheme}, {death:?}");
        let _ = paths.topology.output("a", &["strategy", "set", Paths::PREFIX, strategy]);
        exchange.run(200, &title);
        exchange.longest_gap = Duration::ZERO;
        // All that is pending when the path dies is answered, without a retransmission by the consumer.
        exchange.consumer.express(&format!("{}/{}", Paths::PREFIX, exchange.expressed + 1), 1);
        exchange.expressed += 1;
        paths.kill(death);
        exchange.latest = now();
        exchange.run(400, &title);
        assert!(exchange.longest_gap < GAP_MAX, "{title}: {:?}", exchange.longest_gap);
        paths.revive(death);
        let before = paths.received();
        wait_until(&format!("{title}: Data by the path that is back"), || {
            exchange.run(20, &title);
            (paths.received() > before).then_some(())
        });
    }
}

#[test]
fn fetch_survives_the_death_of_a_neighbour_over_tcp() {
    survive("tcp4", Death::Forwarder, &["best-route", "asf", "fast-route", "weighted"]);
}

#[test]
fn fetch_survives_the_death_of_a_neighbour_over_udp() {
    survive("udp4", Death::Forwarder, &["best-route", "asf", "round-robin"]);
}

#[test]
fn fetch_survives_the_loss_of_a_link_over_udp() {
    survive("udp4", Death::Link, &["best-route", "asf", "round-robin"]);
}
