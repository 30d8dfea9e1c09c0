use super::*;
use crate::{Producer, ProducerPattern, ProducerScenario};

const DAY_NS: u64 = 86_400_000_000_000;

fn pattern(prefix: &str) -> ConsumerPattern {
    ConsumerPattern { prefix: prefix.to_owned(), ..ConsumerPattern::default() }
}

fn consumer(patterns: Vec<ConsumerPattern>, load: Load, faces: u32) -> Consumer {
    let scenario = ConsumerScenario {
        patterns,
        load,
        faces,
        burst: 1,
        outstanding_max: 1000,
        count: Some(1000),
    };
    Consumer::new(&scenario, 1, 0).unwrap()
}

/// Sends all due Interests; each packet with its face.
fn send(consumer: &mut Consumer, now_ns: u64) -> Vec<(usize, Vec<u8>)> {
    let mut sent = Vec::new();
    while let Some(face) = consumer.next_face(now_ns) {
        sent.push((face, consumer.make_interest(now_ns).to_vec()));
    }
    sent
}

fn producer(pattern: ProducerPattern) -> Producer {
    Producer::new(&ProducerScenario { patterns: vec![pattern] }, 2).unwrap()
}

fn answer(producer: &mut Producer, interest: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    producer.handle_frame(interest, |write| write(&mut out));
    out
}

fn first(consumer: &Consumer) -> &PatternCounters {
    consumer.counters().next().unwrap()
}

#[test]
fn window_is_kept_full_and_never_exceeded() {
    let mut consumer = consumer(vec![pattern("/a")], Load::Window(4), 3);
    let mut producer = producer(ProducerPattern { prefix: "/a".to_owned(), ..Default::default() });
    let sent = send(&mut consumer, 10);
    let faces: Vec<usize> = sent.iter().map(|(face, _)| *face).collect();
    assert_eq!(faces, [0, 1, 2, 0]);
    let data = answer(&mut producer, &sent[1].1);
    consumer.handle_frame(0, &data, 20);
    assert_eq!((consumer.outstanding(), consumer.unexpected()), (4, 1), "the wrong face");
    consumer.handle_frame(1, &data, 1_010);
    assert_eq!(consumer.outstanding(), 3);
    consumer.handle_frame(1, &data, 1_010);
    assert_eq!((consumer.outstanding(), consumer.unexpected()), (3, 2), "twice");
    assert_eq!(send(&mut consumer, 1_010).len(), 1);
    assert_eq!((first(&consumer).sent, first(&consumer).satisfied), (5, 1));
    assert_eq!(first(&consumer).latency_ns.max(), 1_000);
}

/// A burst is due at once and sent on one face, and the rate is the requested one.
#[test]
fn bursts_are_due_at_once_at_the_requested_rate() {
    for arrivals in [Arrivals::Fixed, Arrivals::Poisson] {
        let load = Load::Rate { per_second: 1e6, arrivals };
        let scenario = ConsumerScenario {
            patterns: vec![pattern("/a")],
            load,
            faces: 3,
            burst: 8,
            outstanding_max: 1 << 16,
            count: Some(20_000),
        };
        let mut consumer = Consumer::new(&scenario, 1, 0).unwrap();
        let (mut now_ns, mut last_face) = (0, 2);
        while let Some(deadline) = consumer.next_deadline().filter(|_| consumer.left > 0) {
            now_ns = deadline;
            let faces: Vec<usize> =
                send(&mut consumer, now_ns).into_iter().map(|(face, _)| face).collect();
            assert_eq!(faces.len() % 8, 0);
            for burst in faces.chunks(8) {
                last_face = (last_face + 1) % 3;
                assert_eq!(burst, [last_face; 8]);
            }
        }
        assert_eq!(first(&consumer).sent, 20_000);
        assert!((18_000_000..22_000_000).contains(&now_ns), "{now_ns} ns for 20,000");
    }
}

/// Due Interests are not postponed because a face accepts nothing.
#[test]
fn rest_of_a_burst_uses_the_next_face() {
    let scenario = ConsumerScenario {
        patterns: vec![pattern("/a")],
        load: Load::Rate { per_second: 1e6, arrivals: Arrivals::Fixed },
        faces: 3,
        burst: 4,
        outstanding_max: 100,
        count: None,
    };
    let mut consumer = Consumer::new(&scenario, 1, 0).unwrap();
    consumer.make_interest(0);
    consumer.skip_face();
    let faces: Vec<usize> = send(&mut consumer, 4_000).into_iter().map(|(face, _)| face).collect();
    assert_eq!(faces, [1, 1, 1, 2, 2, 2, 2]);
}

#[test]
fn phase_delays_even_intervals_only() {
    let due = |load, part| {
        let scenario = ConsumerScenario {
            patterns: vec![pattern("/a")],
            load,
            faces: 1,
            burst: 2,
            outstanding_max: 100,
            count: None,
        };
        let mut consumer = Consumer::new(&scenario, 1, 500).unwrap().with_phase(part);
        (0..3)
            .map(|_| {
                let due_ns = consumer.due_ns();
                send(&mut consumer, due_ns);
                due_ns
            })
            .collect::<Vec<_>>()
    };
    let rate = |arrivals| Load::Rate { per_second: 1e6, arrivals };
    assert_eq!(due(rate(Arrivals::Fixed), 0.0), [500, 2_500, 4_500]);
    assert_eq!(due(rate(Arrivals::Fixed), 0.25), [1_000, 3_000, 5_000], "of a burst's interval");
    let poisson = || rate(Arrivals::Poisson);
    assert_eq!(due(poisson(), 0.25), due(poisson(), 0.0));
    assert_eq!(due(Load::Window(4), 0.25), [0; 3]);
}

#[test]
fn latency_counts_from_the_scheduled_time() {
    let load = Load::Rate { per_second: 1e6, arrivals: Arrivals::Fixed };
    let mut consumer = consumer(vec![pattern("/a")], load, 1);
    let mut producer = producer(ProducerPattern { prefix: "/a".to_owned(), ..Default::default() });
    assert_eq!(send(&mut consumer, 0).len(), 1);
    assert_eq!(consumer.next_deadline(), Some(1_000));
    // The sender was away for 100 µs: all Interests due meanwhile are sent at once.
    let sent = send(&mut consumer, 100_000);
    assert_eq!(sent.len(), 100);
    for (face, interest) in &sent {
        let data = answer(&mut producer, interest);
        consumer.handle_frame(*face, &data, 100_000);
    }
    let latency = &first(&consumer).latency_ns;
    assert_eq!(latency.len(), 100);
    assert!(latency.max() >= 98_900, "{}", latency.max());
    assert!((latency.mean() - 49_500.0).abs() < 500.0, "{}", latency.mean());
}

#[test]
fn poisson_keeps_the_rate_and_varies() {
    let load = Load::Rate { per_second: 1e3, arrivals: Arrivals::Poisson };
    let mut consumer = consumer(vec![pattern("/a")], load, 1);
    let counts: Vec<usize> =
        (0..100).map(|step| send(&mut consumer, step * 5_000_000).len()).collect();
    let sum: usize = counts.iter().sum();
    assert!((430..570).contains(&sum), "{sum} in half a second");
    assert!(counts.contains(&0) && counts.iter().any(|count| *count > 8), "{counts:?}");
}

#[test]
fn exchanged_counters_have_what_came_before() {
    let mut consumer = consumer(vec![pattern("/a"), pattern("/b")], Load::Window(4), 1);
    let sent = send(&mut consumer, 0).len() as u64;
    let mut counters = vec![PatternCounters::zero(); 2];
    consumer.exchange_counters(&mut counters);
    assert_eq!(counters.iter().map(|one| one.sent).sum::<u64>(), sent);
    assert_eq!((consumer.totals().sent, consumer.totals().outstanding), (0, sent));
    let mut producer = producer(ProducerPattern { prefix: "/".to_owned(), ..Default::default() });
    consumer.handle_timeout(DAY_NS);
    assert_eq!(consumer.totals().timed_out, sent);
    for (face, interest) in send(&mut consumer, DAY_NS) {
        consumer.handle_frame(face, &answer(&mut producer, &interest), DAY_NS + 1_000);
    }
    assert_eq!((consumer.totals().sent, consumer.totals().satisfied), (4, 4));
    assert!(consumer.counters().all(|one| one.latency_ns.len() == one.satisfied));
}

#[test]
fn unanswered_interest_times_out_after_its_lifetime() {
    let short = ConsumerPattern { lifetime_ms: 1, ..pattern("/short") };
    let mut consumer = consumer(vec![pattern("/long"), short], Load::Window(100), 1);
    assert_eq!(send(&mut consumer, 0).len(), 100);
    consumer.stop();
    consumer.handle_timeout(999_999);
    assert_eq!(consumer.outstanding(), 100);
    assert_eq!(consumer.next_deadline(), Some(1_000_000));
    consumer.handle_timeout(1_000_000);
    let counters: Vec<(u64, u64)> =
        consumer.counters().map(|one| (one.sent, one.timed_out)).collect();
    assert_eq!(counters[0].1, 0);
    assert!(counters[1].0 > 0 && counters[1].0 == counters[1].1);
    consumer.handle_timeout(4_000_000_000);
    assert!(consumer.is_done());
}

#[test]
fn answers_after_the_stop_are_counted_separately() {
    let mut consumer = consumer(vec![pattern("/a")], Load::Window(3), 1);
    let mut producer = producer(ProducerPattern { prefix: "/a".to_owned(), ..Default::default() });
    let answers: Vec<Vec<u8>> =
        send(&mut consumer, 0).iter().map(|(_, sent)| answer(&mut producer, sent)).collect();
    consumer.handle_frame(0, &answers[0], 10);
    assert_eq!(consumer.at_stop(), None);
    for data in &answers[1..] {
        consumer.stop();
        consumer.handle_frame(0, data, 20);
    }
    let at_stop = consumer.at_stop().unwrap();
    assert_eq!((at_stop.sent, at_stop.satisfied, at_stop.outstanding), (3, 1, 2));
    assert_eq!((consumer.totals().satisfied, consumer.is_done()), (3, true));
}

#[test]
fn weights_divide_the_interests() {
    let heavy = ConsumerPattern { weight: 3.0, ..pattern("/heavy") };
    let mut consumer = consumer(vec![pattern("/light"), heavy], Load::Window(1000), 1);
    assert_eq!(send(&mut consumer, 0).len(), 1000);
    let sent: Vec<u64> = consumer.counters().map(|one| one.sent).collect();
    assert!((690..810).contains(&sent[1]), "{sent:?}");
}

#[test]
fn one_answer_satisfies_all_earlier_interests_of_the_name() {
    let repeated = ConsumerPattern { names: Names::Repeated { count: 2 }, ..pattern("/a") };
    let mut consumer = consumer(vec![repeated], Load::Window(6), 1);
    let mut producer = producer(ProducerPattern { prefix: "/a".to_owned(), ..Default::default() });
    let sent = send(&mut consumer, 0);
    // Interests 0, 2 and 4 have the same name. An answer to 2 does not answer 4, which was sent
    // later.
    let data = answer(&mut producer, &sent[2].1);
    consumer.handle_frame(0, &data, 10);
    assert_eq!(first(&consumer).satisfied, 2);
    let data = answer(&mut producer, &sent[4].1);
    consumer.handle_frame(0, &data, 10);
    assert_eq!(first(&consumer).satisfied, 3);
    let data = answer(&mut producer, &sent[5].1);
    consumer.handle_frame(0, &data, 10);
    assert_eq!((first(&consumer).satisfied, consumer.outstanding()), (6, 0));
}

#[test]
fn withdrawn_interest_is_not_satisfied_by_the_answer_to_another_one() {
    let repeated = ConsumerPattern { names: Names::Repeated { count: 1 }, ..pattern("/a") };
    let load = Load::Rate { per_second: 1e6, arrivals: Arrivals::Fixed };
    let mut consumer = consumer(vec![repeated], load, 1);
    let mut producer = producer(ProducerPattern { prefix: "/a".to_owned(), ..Default::default() });
    let mut sent = Vec::new();
    for number in 0..5 {
        assert_eq!(consumer.next_face(4_000), Some(0));
        sent.push(consumer.make_interest(4_000).to_vec());
        if matches!(number, 1 | 2 | 4) {
            consumer.withdraw();
        }
    }
    // A second call withdraws nothing.
    consumer.withdraw();
    let totals = consumer.totals();
    assert_eq!((totals.sent, totals.withdrawn, totals.outstanding), (2, 3, 2));
    let refused = answer(&mut producer, &sent[4]);
    consumer.handle_frame(0, &refused, 5_000);
    assert_eq!((consumer.totals().satisfied, consumer.unexpected()), (0, 1));
    // The answer to the second one of those that were sent also satisfies the first one, before the two that were not.
    let data = answer(&mut producer, &sent[3]);
    consumer.handle_frame(0, &data, 5_000);
    let totals = consumer.totals();
    assert_eq!((totals.satisfied, totals.outstanding), (2, 0));
    assert_eq!(
        first(&consumer).latency_ns.len(),
        2,
        "latencies are those of the Interests that were sent"
    );
}

#[test]
fn data_has_a_digest_if_the_pattern_says_so() {
    let mut consumer = consumer(vec![pattern("/a")], Load::Window(1), 1);
    let sent = send(&mut consumer, 0);
    for digest in [true, false] {
        let suffix = "/v".to_owned();
        let one = ProducerPattern { prefix: "/a".to_owned(), suffix, digest, ..Default::default() };
        let packet = answer(&mut producer(one), &sent[0].1);
        let packet = ndn_packet::LpPacket::parse(&packet).unwrap();
        let data = ndn_packet::Data::parse(packet.fragment().unwrap()).unwrap();
        let verified = ndn_security::verify_data(&data, &ndn_security::DigestVerifier);
        assert_eq!(verified.is_ok(), digest);
    }
}

#[test]
fn nack_and_silence_ratios_hold() {
    let mut consumer = consumer(vec![pattern("/a")], Load::Window(1000), 1);
    let mut producer = producer(ProducerPattern {
        prefix: "/a".to_owned(),
        nack_ratio: 0.25,
        silence_ratio: 0.25,
        ..Default::default()
    });
    for (face, interest) in send(&mut consumer, 0) {
        let packet = answer(&mut producer, &interest);
        if !packet.is_empty() {
            consumer.handle_frame(face, &packet, 1);
        }
    }
    consumer.handle_timeout(u64::MAX);
    let counters = first(&consumer);
    assert!((200..300).contains(&counters.nacked), "{counters:?}");
    let NackCounts { no_route, congestion } = counters.nacked_for;
    assert_eq!((no_route, congestion), (counters.nacked, 0), "that is what producers say");
    assert!((200..300).contains(&counters.timed_out), "{counters:?}");
    assert_eq!(counters.satisfied + counters.nacked + counters.timed_out, 1000);
    let answers = producer.counters()[0];
    assert_eq!((answers.nacks, answers.data), (counters.nacked, counters.satisfied));
    assert!(consumer.is_done(), "the count has been reached");
}

#[test]
fn noise_from_the_network_is_counted() {
    let mut consumer = consumer(vec![pattern("/a")], Load::Window(1), 1);
    for noise in [&b""[..], b"\x06", b"\x64\x03\x62\x05", b"\x06\x00", b"\xFD\xFF"] {
        consumer.handle_frame(0, noise, 1);
    }
    assert_eq!(consumer.unexpected(), 5);
}

#[test]
fn invalid_scenarios_are_rejected() {
    let refuse = |patterns, load| {
        let scenario = ConsumerScenario {
            patterns,
            load,
            faces: 1,
            burst: 1,
            outstanding_max: 1,
            count: None,
        };
        Consumer::new(&scenario, 1, 0).unwrap_err();
    };
    refuse(Vec::new(), Load::Window(1));
    refuse(vec![pattern("a")], Load::Window(1));
    refuse(vec![pattern("/a")], Load::Window(0));
    refuse(vec![pattern("/a")], Load::Rate { per_second: f64::NAN, arrivals: Arrivals::Fixed });
    refuse(vec![ConsumerPattern { components: 1, ..pattern("/a") }], Load::Window(1));
    refuse(vec![ConsumerPattern { weight: 0.0, ..pattern("/a") }], Load::Window(1));
}
