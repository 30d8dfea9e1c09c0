//! The better of two paths dies under an exchange.

use std::io::Read;
use std::net::UdpSocket;
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;

use namewire_tests::{
    Application, Process, Received, Settings, Topology, noise, now, run_to_end, skip_unless_found,
    wait_until,
};
use rustix::process::Signal;
use serde_json::Value;

/// Interests that are pending at a time.
const WINDOW: u32 = 16;

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
    /// Settings of all forwarders.
    toml: &'static str,
    to_b: u64,
}

impl Paths {
    const PREFIX: &'static str = "/failover/x";

    fn new(scheme: &'static str, toml: &'static str) -> Option<Self> {
        let links = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")];
        let mut topology = Topology::new(&["a", "b", "c", "d"], &links)?;
        ["a", "b", "c", "d"].iter().for_each(|node| topology.start_forwarder(node, toml));
        let to_b = topology.create_face("a", scheme, "b");
        let to_c = topology.create_face("a", scheme, "c");
        topology.add_route("a", Self::PREFIX, to_b, &["--cost", "10"]);
        topology.add_route("a", Self::PREFIX, to_c, &["--cost", "20"]);
        let paths = Self { topology, scheme, toml, to_b };
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
                self.topology.start_forwarder("b", self.toml);
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
}

impl Exchange {
    fn new(topology: &Topology) -> Self {
        let mut producer = Application::attach(&topology.socket("d"));
        producer.register(Paths::PREFIX, 0);
        let consumer = Application::attach(&topology.socket("a"));
        Self { consumer, producer, expressed: 0, answered: 0 }
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
                Some(Received::Data(..)) => self.answered += 1,
                Some(other) => panic!("{title}: {other:?}"),
                None => {}
            }
        }
    }
}

/// `make failover` measures the pause, with the program and on a quiet machine.
fn survive(scheme: &'static str, death: Death, strategies: &[&str]) {
    let Some(mut paths) = Paths::new(scheme, "") else { return };
    let mut exchange = Exchange::new(&paths.topology);
    for strategy in strategies {
        let title = format!("{strategy} over {scheme}, {death:?}");
        let _ = paths.topology.output("a", &["strategy", "set", Paths::PREFIX, strategy]);
        exchange.run(200, &title);
        // All that is pending when the path dies is answered, without a retransmission by the consumer.
        exchange.consumer.express(&format!("{}/{}", Paths::PREFIX, exchange.expressed + 1), 1);
        exchange.expressed += 1;
        paths.kill(death);
        exchange.run(400, &title);
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

/// Length of the file that is fetched while a path dies.
const FILE_BYTES: usize = 200 << 20;
/// Bytes after which the path dies.
const BEFORE_DEATH: usize = FILE_BYTES / 4;
/// The aim for the longest pause of the output of `get`, which is in order: one lost segment stops it.
const FETCH_GAP_MAX: Duration = Duration::from_millis(300);

/// Reads an output to its end, and calls `at_mark` after `mark` bytes. Returns its length, and the longest pause after that.
fn longest_gap(mut output: ChildStdout, mark: usize, at_mark: impl FnOnce()) -> (usize, Duration) {
    let (mut at_mark, mut buffer) = (Some(at_mark), vec![0; 1 << 20]);
    let (mut read, mut longest, mut latest) = (0, Duration::ZERO, now());
    loop {
        let length = output.read(&mut buffer).unwrap();
        let moment = now();
        if at_mark.is_none() {
            longest = longest.max(moment.duration_since(latest));
        }
        latest = moment;
        read += length;
        if length == 0 {
            return (read, longest);
        }
        if let Some(at_mark) = (read >= mark).then(|| at_mark.take()).flatten() {
            latest = now();
            at_mark();
        }
    }
}

/// `make failover` prints the longest pause of each fetch, and fails if one exceeds the aim.
#[test]
#[ignore = "a measurement, for a quiet machine"]
#[allow(clippy::print_stdout, reason = "a measurement that prints its results")]
fn gap_of_a_large_fetch_is_short_under_every_strategy() {
    let mut longer = Vec::new();
    for (scheme, death) in
        [("tcp4", Death::Forwarder), ("udp4", Death::Forwarder), ("udp4", Death::Link)]
    {
        // Every segment comes from the producer.
        let Some(mut paths) = Paths::new(scheme, "[tables.cs]\nadmit = false\nserve = false")
        else {
            return;
        };
        let served = paths.topology.directory().join("served");
        std::fs::create_dir(&served).unwrap();
        std::fs::write(served.join("large"), noise(1, FILE_BYTES)).unwrap();
        std::fs::write(served.join("small"), noise(2, 1 << 20)).unwrap();
        let directory = served.display().to_string();
        let serve = ["serve", directory.as_str(), "--prefix", Paths::PREFIX, "--no-prehash"];
        let command = paths.topology.command("d", &serve);
        let mut server = Process::start("server", command, paths.topology.directory());
        server.wait_for_output("serving ");
        let known = paths.topology.output("a", &["strategy", "known", "--json"]);
        let known: Value = serde_json::from_str(&known).unwrap();
        for strategy in known.as_array().unwrap().iter().filter_map(|one| one["strategy"].as_str())
        {
            let _ = paths.topology.output("a", &["strategy", "set", Paths::PREFIX, strategy]);
            let object = |file: &str| format!("{}/{file}", Paths::PREFIX);
            let (large, small) = (object("large"), object("small"));
            let mut command = paths.topology.command("a", &["get", &large, "-o", "-", "--quiet"]);
            let mut fetch = command.stdout(Stdio::piped()).spawn().unwrap();
            let output = fetch.stdout.take().unwrap();
            let (read, gap) = longest_gap(output, BEFORE_DEATH, || paths.kill(death));
            assert!(fetch.wait().unwrap().success(), "{strategy} over {scheme}, {death:?}");
            assert_eq!(read, FILE_BYTES, "{strategy} over {scheme}, {death:?}");
            let line = format!("{scheme}, {death:?}, {strategy}: {} ms", gap.as_millis());
            println!("{line}");
            longer.extend((gap > FETCH_GAP_MAX).then_some(line));
            paths.revive(death);
            let before = paths.received();
            wait_until(&format!("{strategy}: Data by the path that is back"), || {
                let _ = paths.topology.output("a", &["get", &small, "-o", "-", "--quiet"]);
                (paths.received() > before).then_some(())
            });
        }
    }
    assert!(longer.is_empty(), "longer than {} ms: {longer:#?}", FETCH_GAP_MAX.as_millis());
}

#[test]
fn measurement_fails_where_nothing_can_be_measured() {
    let nowhere = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["gap_of_a_large_fetch", "--ignored", "--nocapture"]);
    // Without the programs that make network namespaces.
    command.env("PATH", nowhere.path()).env("NAMEWIRE_MEASURES", "1");
    let output = run_to_end(command);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{printed}");
    assert!(printed.contains("nothing is measured: no unshare"), "{printed}");
}

/// Bytes of the file that ndncatchunks fetches, of which a quarter comes before the better path dies.
const BYTES_BESIDE_NFD: usize = 20 << 20;
/// By how much our pause may exceed that of NFD on a busy machine.
const SLACK: Duration = Duration::from_millis(300);
/// Number of fetches, of which the one with the shortest pause counts.
const ATTEMPTS: usize = 3;

/// The longest pause of ndncatchunks after the better of two neighbours of this forwarder was killed. `manage` runs commands
/// of nfdc on it.
fn pause_of(transport: &str, manage: &dyn Fn(&[&str])) -> Duration {
    let [mut better, other] = [(); 2].map(|()| Settings::new().udp().start_program());
    let file = other.directory().join("object");
    std::fs::write(&file, noise(1, BYTES_BESIDE_NFD)).unwrap();
    let path = file.display().to_string();
    let producers = [&better, &other].map(|neighbour| {
        let put = ["put", Paths::PREFIX, &path, "--version", "1", "--segment-size", "7000B"];
        let mut put = neighbour.spawn("put", &put);
        put.wait_for_output("published");
        put
    });
    for (neighbour, cost) in [(&better, "1"), (&other, "2")] {
        let uri = format!("udp4://127.0.0.1:{}", neighbour.port());
        manage(&["route", "add", Paths::PREFIX, &uri, "cost", cost]);
    }
    let mut command = Command::new("ndncatchunks");
    command.args(["-q", &format!("{}/v=1", Paths::PREFIX)]).env("NDN_CLIENT_TRANSPORT", transport);
    let mut fetch = command.env("HOME", other.directory()).stdout(Stdio::piped()).spawn().unwrap();
    let output = fetch.stdout.take().unwrap();
    let (read, pause) = longest_gap(output, BYTES_BESIDE_NFD / 4, || {
        better.process.signal(Signal::KILL);
        better.process.wait();
    });
    assert!(fetch.wait().unwrap().success() && read == BYTES_BESIDE_NFD, "{read} bytes");
    drop(producers);
    pause
}

#[test]
fn pause_after_a_death_is_no_longer_than_that_of_nfd() {
    if !(skip_unless_found("nfd") && skip_unless_found("nfdc") && skip_unless_found("ndncatchunks"))
    {
        return;
    }
    let shortest = |pause: fn() -> Duration| (0..ATTEMPTS).map(|_| pause()).min().unwrap();
    let (pause, pause_of_nfd) = (shortest(our_pause), shortest(pause_of_nfd));
    assert!(pause <= pause_of_nfd + SLACK, "{pause:?}; that of NFD: {pause_of_nfd:?}");
}

fn our_pause() -> Duration {
    let ours = Settings::new().udp().start();
    pause_of(&ours.unix(), &|arguments| {
        let output = ours.run(&[&["nfdc"][..], arguments].concat());
        assert!(output.status.success(), "{output:?}");
    })
}

fn pause_of_nfd() -> Duration {
    let [directory, home] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let socket = directory.path().join("nfd.sock");
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let _nfd = crate::reliability::nfd(directory.path(), &socket, port);
    let transport = format!("unix://{}", socket.display());
    let nfdc = |arguments: &[&str]| {
        let mut command = Command::new("nfdc");
        command.args(arguments).env("HOME", home.path());
        command.env("NDN_CLIENT_TRANSPORT", &transport);
        run_to_end(command)
    };
    wait_until("NFD", || nfdc(&["status"]).status.success().then_some(()));
    pause_of(&transport, &|arguments| {
        let output = nfdc(arguments);
        assert!(output.status.success(), "{output:?}");
    })
}
