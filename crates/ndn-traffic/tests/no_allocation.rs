//! Once it runs, the generator does not allocate: exchanges over a stream and over UDP, with answers of
//! several lengths, Nacks and silence, under a counting allocator.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use ndn_sys::allocation::CountingAllocator;
use ndn_traffic::io::Endpoint;
use ndn_traffic::{
    Arrivals, Consumer, ConsumerPattern, ConsumerScenario, Load, Names, Producer, ProducerPattern,
    ProducerScenario,
};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const ROUND_NS: u64 = 1_000_000;

/// A UDP port of the loopback interface that is free now.
fn free_port() -> SocketAddr {
    std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

/// The consumer's ends and the producer's, of a stream and of UDP.
fn endpoints() -> [Vec<Endpoint>; 2] {
    let (near, far) = UnixStream::pair().unwrap();
    let (near, far) = (OwnedFd::from(near), OwnedFd::from(far));
    let (near_at, far_at) = (free_port(), free_port());
    let datagram = |local, remote| Endpoint::connected_datagram(local, remote).unwrap();
    [
        vec![Endpoint::stream(near).unwrap(), datagram(near_at, far_at)],
        vec![Endpoint::stream(far).unwrap(), datagram(far_at, near_at)],
    ]
}

fn consumer(load: Load) -> Consumer {
    let pattern = |prefix: &str, names| ConsumerPattern {
        prefix: prefix.to_owned(),
        names,
        lifetime_ms: 20,
        ..ConsumerPattern::default()
    };
    let patterns = vec![
        pattern("/unique", Names::Unique),
        pattern("/often", Names::Zipf { count: 100, exponent: 1.0 }),
        pattern("/in/turn", Names::Repeated { count: 7 }),
    ];
    let scenario =
        ConsumerScenario { patterns, load, faces: 2, burst: 1, outstanding_max: 64, count: None };
    Consumer::new(&scenario, 7, 0).unwrap()
}

fn producer() -> Producer {
    let pattern = ProducerPattern {
        prefix: "/".to_owned(),
        payload: vec![10, 100, 1000],
        nack_ratio: 0.1,
        silence_ratio: 0.05,
        ..ProducerPattern::default()
    };
    Producer::new(&ProducerScenario { patterns: vec![pattern] }, 8).unwrap()
}

/// Sends what is due, answers what has come, and takes the answers.
fn round(
    consumer: &mut Consumer,
    producer: &mut Producer,
    [asking, answering]: &mut [Vec<Endpoint>; 2],
    now_ns: u64,
) {
    consumer.handle_timeout(now_ns);
    while let Some(face) = consumer.next_face(now_ns) {
        let interest = consumer.make_interest(now_ns);
        asking[face].push(|out| out.extend_from_slice(interest));
    }
    asking.iter_mut().for_each(|endpoint| assert!(endpoint.flush().unwrap()));
    for endpoint in answering {
        let answer = |frame: &[u8], output: &mut ndn_traffic::io::Output| {
            producer.handle_frame(frame, |write| output.push(|out| write(out)));
        };
        endpoint.receive(answer).unwrap();
        assert!(endpoint.flush().unwrap());
    }
    for (face, endpoint) in asking.iter_mut().enumerate() {
        endpoint.receive(|frame, _| consumer.handle_frame(face, frame, now_ns)).unwrap();
    }
}

#[test]
fn no_packet_allocates() {
    for load in [Load::Window(64), Load::Rate { per_second: 30_000.0, arrivals: Arrivals::Poisson }]
    {
        let (mut consumer, mut producer) = (consumer(load), producer());
        let mut ends = endpoints();
        let mut now_ns = 0;
        let mut run = |consumer: &mut Consumer, rounds: u64| {
            let before = CountingAllocator::count_of_thread();
            for _ in 0..rounds {
                now_ns += ROUND_NS;
                round(consumer, &mut producer, &mut ends, now_ns);
            }
            CountingAllocator::count_of_thread() - before
        };
        // Buffers grow to the longest that there ever is: more than may come at once later, however late
        // the kernel hands it on.
        assert!(run(&mut self::consumer(Load::Window(512)), 100) > 0, "it counts");
        run(&mut consumer, 500);
        assert_eq!(run(&mut consumer, 2000), 0, "allocations with {load:?}");
        let sums = |of: fn(&ndn_traffic::PatternCounters) -> u64| consumer.counters().map(of).sum();
        let (satisfied, nacked, lost): (u64, u64, u64) =
            (sums(|one| one.satisfied), sums(|one| one.nacked), sums(|one| one.timed_out));
        assert!(satisfied > 10_000 && nacked > 500 && lost > 100, "{satisfied} {nacked} {lost}");
    }
}
