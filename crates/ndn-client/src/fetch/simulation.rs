//! The fetch state machine on a simulated network in virtual time.
#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a failed unwrap is a failed test; small counts"
)]

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Range;
use std::time::Duration;

use ndn_packet::NackReason;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{BypassBy, DataOutcome, FetchConfig, FetchFailure, FetchState, RtoBounds, WindowMode};

const MS: Duration = Duration::from_millis(1);

/// One link between consumer and producer, with a queue in the direction of the Data.
struct Network {
    /// Round-trip time without queueing.
    delay: Duration,
    /// Random addition to the delay of each Data.
    jitter: Duration,
    /// Segments with an even number return after this time instead (a nearby cache).
    cached_delay: Option<Duration>,
    /// Transmission time per Data at the bottleneck.
    service: Duration,
    /// Queue length in Data; more are dropped.
    queue_max: u32,
    /// Queue length above which Data are marked.
    mark_above: Option<u32>,
    /// Fraction of exchanges lost at random.
    loss: f64,
    /// Segments that are never answered.
    dead: BTreeSet<u64>,
    /// Segments answered with this many Nacks first.
    nacks: u32,
    /// All Interests in this time are answered with Nacks.
    outage: Range<Duration>,
    /// FinalBlockId is in the last Data only.
    final_in_last_only: bool,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            delay: 50 * MS,
            jitter: Duration::ZERO,
            cached_delay: None,
            service: Duration::from_micros(100),
            queue_max: 100_000,
            mark_above: None,
            loss: 0.0,
            dead: BTreeSet::new(),
            nacks: 0,
            outage: Duration::ZERO..Duration::ZERO,
            final_in_last_only: false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Data { segment: u64, marked: bool },
    Nack { segment: u64 },
}

struct Run {
    state: FetchState,
    now: Duration,
    received: Vec<u64>,
    /// Arrival of the last Data.
    last_answer: Duration,
}

/// Runs a fetch of `count` segments to its end.
fn run(network: &Network, config: FetchConfig, count: u64) -> Run {
    let mut state = FetchState::new(config, 0, None);
    let mut random = StdRng::seed_from_u64(1);
    let mut now = Duration::ZERO;
    let mut events = BinaryHeap::new();
    let mut bottleneck_free = Duration::ZERO;
    let mut received = Vec::new();
    let mut last_answer = now;
    let mut attempts = std::collections::HashMap::<u64, u32>::new();
    let mut nacks = std::collections::HashMap::<u64, u32>::new();
    while !state.is_complete() && state.failure().is_none() {
        while let Some(transmit) = state.poll_transmit(now) {
            let segment = transmit.segment;
            let attempt = attempts.entry(segment).or_default();
            *attempt += 1;
            assert_eq!(*attempt, transmit.attempt);
            let nacked = nacks.entry(segment).or_default();
            if *nacked < network.nacks || network.outage.contains(&now) {
                *nacked += 1;
                let at = bottleneck_free.max(now + network.delay);
                events.push(Reverse((at, Event::Nack { segment })));
                continue;
            }
            if segment >= count
                || network.dead.contains(&segment)
                || random.random_bool(network.loss)
            {
                continue;
            }
            if let Some(delay) = network.cached_delay.filter(|_| segment % 2 == 0) {
                events.push(Reverse((now + delay, Event::Data { segment, marked: false })));
                continue;
            }
            let arrival = now + network.delay;
            let start = arrival.max(bottleneck_free);
            let waiting = (start - arrival).as_nanos() / network.service.as_nanos();
            if waiting >= u128::from(network.queue_max) {
                continue;
            }
            bottleneck_free = start + network.service;
            let marked = network.mark_above.is_some_and(|limit| waiting > u128::from(limit));
            let jitter = network.jitter.mul_f64(random.random());
            let at = bottleneck_free + jitter;
            events.push(Reverse((at, Event::Data { segment, marked })));
        }
        let deadline = state.poll_timeout();
        let event = events.peek().map(|Reverse((at, _))| *at);
        match (event, deadline) {
            (Some(at), deadline) if deadline.is_none_or(|(due, _)| at <= due) => {
                now = at;
                let Reverse((_, event)) = events.pop().unwrap();
                match event {
                    Event::Nack { segment } => {
                        state.handle_nack(now, segment, NackReason::NO_ROUTE);
                        if !received.is_empty() {
                            // Nacks after the first Data are not counted as attempts.
                            attempts.entry(segment).and_modify(|count| *count -= 1);
                        }
                    }
                    Event::Data { segment, marked } => {
                        let last = count - 1;
                        let stated = !network.final_in_last_only || segment == last;
                        let outcome =
                            state.handle_data(now, segment, stated.then_some(last), marked);
                        if outcome == DataOutcome::New {
                            received.push(segment);
                            last_answer = now;
                        }
                        state.set_consumed(state.first_missing());
                    }
                }
            }
            (_, Some((due, _))) => {
                now = now.max(due);
                state.handle_timeout(now);
            }
            (_, None) => panic!("nothing can happen any more: {state:?}"),
        }
        assert!(now < Duration::from_secs(100_000));
    }
    if state.is_complete() {
        let distinct: BTreeSet<_> = received.iter().copied().collect();
        assert_eq!(distinct.len(), received.len(), "a segment was new twice");
        let requested = config.last_segment_needed.map_or(count, |last| count.min(last + 1));
        assert_eq!(distinct, (0..requested).collect());
    }
    Run { state, now, received, last_answer }
}

/// Fraction of the bottleneck's capacity used by the run.
fn utilization(network: &Network, run: &Run) -> f64 {
    let busy = network.service * u32::try_from(run.received.len()).unwrap();
    busy.as_secs_f64() / run.now.as_secs_f64()
}

#[test]
fn perfect_network_needs_no_retransmission() {
    let network = Network::default();
    let run = run(&network, FetchConfig::default(), 50_000);
    let progress = run.state.progress();
    assert_eq!((progress.retransmissions, progress.timeouts, progress.losses), (0, 0, 0));
    assert_eq!(progress.segments, 50_000);
    assert!(utilization(&network, &run) > 0.8, "{}", utilization(&network, &run));
}

#[test]
fn short_queue_is_well_utilized() {
    // Bandwidth-delay product 500 segments, queue of a quarter of it.
    let network = Network { queue_max: 125, ..Network::default() };
    let run = run(&network, FetchConfig::default(), 200_000);
    let progress = run.state.progress();
    assert!(progress.losses > 0);
    assert!(utilization(&network, &run) > 0.75, "{}", utilization(&network, &run));
    assert!(progress.retransmissions < 4_000, "{progress:?}");
}

#[test]
fn marks_prevent_loss() {
    let network = Network { queue_max: 2_000, mark_above: Some(150), ..Network::default() };
    let run = run(&network, FetchConfig::default(), 200_000);
    let progress = run.state.progress();
    assert!(progress.congestion_marks > 0);
    assert_eq!(progress.losses + progress.timeouts, 0, "{progress:?}");
    assert!(utilization(&network, &run) > 0.8, "{}", utilization(&network, &run));
}

#[test]
fn random_loss_is_repaired_without_time_outs() {
    let network = Network { loss: 0.01, ..Network::default() };
    let run = run(&network, FetchConfig::default(), 20_000);
    let progress = run.state.progress();
    assert!(progress.losses > 100, "{progress:?}");
    assert!(progress.timeouts < 10, "{progress:?}");
    assert!(progress.retransmissions < 300, "{progress:?}");
}

#[test]
fn fetch_completes_under_heavy_loss() {
    let network = Network { loss: 0.3, ..Network::default() };
    let run = run(&network, FetchConfig::default(), 500);
    assert!(run.state.is_complete(), "{:?}", run.state.failure());
}

#[test]
fn reordering_raises_the_loss_detection_threshold() {
    let network = Network { jitter: 40 * MS, ..Network::default() };
    let run = run(&network, FetchConfig::default(), 50_000);
    let progress = run.state.progress();
    assert!(progress.retransmissions < 500, "{progress:?}");
    assert!(progress.window > 400, "{progress:?}");
}

#[test]
fn half_full_cache_does_not_cause_loss_detection() {
    let network = Network { cached_delay: Some(MS), ..Network::default() };
    let run = run(&network, FetchConfig::default(), 50_000);
    let progress = run.state.progress();
    assert!(progress.retransmissions < 1_500, "{progress:?}");
}

#[test]
fn pause_of_the_network_costs_two_retransmissions() {
    let config = FetchConfig { window: WindowMode::Fixed(500), ..FetchConfig::default() };
    let mut state = FetchState::new(config, 0, Some(10_000));
    let mut now = Duration::ZERO;
    let mut flight: Vec<u64> = Vec::new();
    for _ in 0..3 {
        while let Some(transmit) = state.poll_transmit(now) {
            flight.push(transmit.segment);
        }
        now += MS;
        for segment in flight.drain(..) {
            state.handle_data(now, segment, None, false);
        }
    }
    while let Some(transmit) = state.poll_transmit(now) {
        flight.push(transmit.segment);
    }
    // All answers come, but 300 ms late; the time-out is 200 ms.
    let late = now + 300 * MS;
    while let Some((due, _)) = state.poll_timeout().filter(|(due, _)| *due < late) {
        state.handle_timeout(due);
        while state.poll_transmit(due).is_some() {}
    }
    assert_eq!(state.progress().retransmissions, 2);
    for segment in flight {
        state.handle_data(late, segment, None, false);
        state.set_consumed(state.first_missing());
    }
    assert_eq!(state.in_flight(), 0);
    assert_eq!(state.progress().retransmissions, 2);
}

#[test]
fn unanswered_segment_fails_the_fetch_and_is_named() {
    let network = Network { dead: BTreeSet::from([7]), ..Network::default() };
    let config = FetchConfig { retransmissions_max: 3, ..FetchConfig::default() };
    let run = run(&network, config, 100);
    let failure = run.state.failure();
    assert!(matches!(failure, Some(FetchFailure::Timeout { segment: 7, .. })), "{failure:?}");
    assert!(!run.received.contains(&7));
}

#[test]
fn missing_answers_cause_back_off() {
    let network = Network { dead: (0..100).collect(), ..Network::default() };
    let config = FetchConfig { retransmissions_max: 4, ..FetchConfig::default() };
    let run = run(&network, config, 100);
    let waited = Duration::from_secs(100);
    // Probes for the other segments of the window come between.
    let failure = FetchFailure::Timeout { segment: 0, attempts: 6, waited };
    assert_eq!(run.state.failure(), Some(&failure));
    assert_eq!(run.now, waited);
    let interests = run.state.progress().interests;
    assert!(interests < 80, "{interests}");
}

#[test]
fn fetch_without_any_answer_fails_after_its_time() {
    for window in [WindowMode::Fixed(1), WindowMode::Fixed(4096), WindowMode::default()] {
        for (rto_max_s, retransmissions_max, answered) in
            [(1, 0, 0), (1, 15, 40), (2, 2, 0), (4, 2, 40), (4, 15, 0), (30, 5, 0), (30, 5, 40)]
        {
            let rto_max = Duration::from_secs(rto_max_s);
            let rto = RtoBounds { max: rto_max, ..RtoBounds::default() };
            let config = FetchConfig { window, rto, retransmissions_max, ..FetchConfig::default() };
            let network = Network { dead: (answered..10_000).collect(), ..Network::default() };
            let run = run(&network, config, 10_000);
            let limit = rto_max * (retransmissions_max + 1);
            let case = format!("{window:?}, {limit:?}, {answered} answered");
            let failure = run.state.failure();
            let is_named = matches!(failure, Some(FetchFailure::Timeout { segment, waited, .. })
                if *segment == answered && *waited == limit);
            assert!(is_named, "{case}: {failure:?}");
            let silence = run.now - run.last_answer;
            let round_trip = network.delay + network.service * 40;
            assert!(silence <= limit && silence + round_trip >= limit, "{case}: {silence:?}");
        }
    }
}

#[test]
fn nacked_segments_are_retried_and_counted() {
    let network = Network { nacks: 2, ..Network::default() };
    let first = run(&network, FetchConfig::default(), 100);
    assert!(first.state.is_complete());
    let progress = first.state.progress();
    assert!(progress.nacks >= 200, "{progress:?}");
    let config = FetchConfig { retransmissions_max: 1, ..FetchConfig::default() };
    let network = Network { nacks: 5, ..Network::default() };
    let second = run(&network, config, 100);
    let reason = NackReason::NO_ROUTE;
    assert_eq!(second.state.failure(), Some(&FetchFailure::Nack { segment: 0, reason }));
}

#[test]
fn fetch_goes_on_after_an_outage() {
    let second = Duration::from_secs(1);
    for window in [WindowMode::Fixed(500), WindowMode::default()] {
        let network = Network { outage: 2 * second..12 * second, ..Network::default() };
        let config = FetchConfig { window, ..FetchConfig::default() };
        let run = run(&network, config, 50_000);
        assert!(run.state.is_complete(), "{window:?}: {:?}", run.state.failure());
        let progress = run.state.progress();
        // Those of the Interests in flight at its beginning, and some probes.
        assert!((10..5_000).contains(&progress.nacks), "{window:?}: {progress:?}");
        assert!(progress.retransmissions <= progress.nacks, "{window:?}: {progress:?}");
        assert!(run.now < 30 * second, "{window:?}: {:?}", run.now);
    }
}

#[test]
fn long_outage_fails_the_fetch() {
    let second = Duration::from_secs(1);
    let rto = RtoBounds { max: 4 * second, ..RtoBounds::default() };
    for (retransmissions_max, timeout) in [(0, 4 * second), (3, 16 * second)] {
        let config = FetchConfig {
            window: WindowMode::Fixed(100),
            rto,
            retransmissions_max,
            ..FetchConfig::default()
        };
        let network = Network { outage: second..1_000 * second, ..Network::default() };
        let run = run(&network, config, 50_000);
        let segment = run.state.first_missing();
        let reason = NackReason::NO_ROUTE;
        assert_eq!(run.state.failure(), Some(&FetchFailure::Nack { segment, reason }));
        let silence = run.now - run.last_answer;
        assert!(silence >= timeout && silence <= timeout + second, "{silence:?}");
        let nacks = run.state.progress().nacks;
        assert!((100..200).contains(&nacks), "{nacks}");
    }
}

#[test]
fn end_may_be_stated_only_in_the_last_segment() {
    for count in [1, 2, 9, 10, 11, 1_000] {
        let network = Network { final_in_last_only: true, ..Network::default() };
        let run = run(&network, FetchConfig::default(), count);
        assert!(run.state.is_complete(), "{count}: {:?}", run.state.failure());
        assert_eq!(run.state.in_flight(), 0);
    }
}

#[test]
fn fixed_window_is_constant() {
    let config = FetchConfig { window: WindowMode::Fixed(20), ..FetchConfig::default() };
    let run = run(&Network { loss: 0.01, ..Network::default() }, config, 2_000);
    assert_eq!(run.state.progress().window, 20);
    assert!(run.state.is_complete());
}

#[test]
fn nothing_beyond_the_last_needed_segment_is_requested() {
    for (last_segment_needed, complete_at) in [(0, 1), (41, 42), (99, 100), (500, 100)] {
        let config = FetchConfig {
            last_segment_needed: Some(last_segment_needed),
            ..FetchConfig::default()
        };
        let run = run(&Network { loss: 0.01, ..Network::default() }, config, 100);
        assert!(run.state.is_complete(), "{last_segment_needed}: {:?}", run.state.failure());
        assert_eq!(run.state.progress().segments, complete_at);
        assert!(run.received.iter().all(|segment| *segment < complete_at));
    }
}

#[test]
fn stalled_consumer_bounds_the_buffer() {
    let config = FetchConfig { buffer_segments: 64, ..FetchConfig::default() };
    let mut state = FetchState::new(config, 0, Some(999));
    let mut now = Duration::ZERO;
    let mut highest = 0;
    for _ in 0..100 {
        let mut batch = Vec::new();
        while let Some(transmit) = state.poll_transmit(now) {
            batch.push(transmit.segment);
        }
        now += MS;
        for segment in batch {
            highest = highest.max(segment);
            state.handle_data(now, segment, Some(999), false);
        }
    }
    assert_eq!(highest, 63);
    assert_eq!(state.poll_timeout(), None);
    state.set_consumed(1);
    assert_eq!(state.poll_transmit(now).map(|transmit| transmit.segment), Some(64));
    assert_eq!(state.poll_transmit(now), None);
}

#[test]
fn contradicting_final_segments_fail_the_fetch() {
    let mut state = FetchState::new(FetchConfig::default(), 0, None);
    while state.poll_transmit(Duration::ZERO).is_some() {}
    state.handle_data(MS, 1, Some(5), false);
    assert_eq!(state.final_segment(), Some(5));
    assert_eq!(state.handle_data(MS, 7, Some(5), false), DataOutcome::Unexpected);
    // It is requested again, bypassing caches.
    for _ in 0..4 {
        assert_eq!(state.failure(), None);
        assert_eq!(state.handle_data(MS, 2, Some(6), false), DataOutcome::Unexpected);
        assert_eq!(state.final_segment(), Some(5));
        if let Some(again) = state.poll_transmit(MS) {
            assert_eq!((again.segment, again.cache_bypass), (2, Some(BypassBy::Digest)));
        }
    }
    assert_eq!(state.failure(), Some(&FetchFailure::FinalBlockIdChanged { known: 5, now: 6 }));
    let mut state = FetchState::new(FetchConfig::default(), 0, None);
    while state.poll_transmit(Duration::ZERO).is_some() {}
    state.handle_data(MS, 1, Some(5), false);
    state.handle_data(MS, 2, Some(6), false);
    assert_eq!(state.handle_data(MS, 2, Some(5), false), DataOutcome::New);
    assert_eq!(state.failure(), None);
    let mut state = FetchState::new(FetchConfig::default(), 0, None);
    while state.poll_transmit(Duration::ZERO).is_some() {}
    state.handle_data(MS, 4, None, false);
    state.handle_data(MS, 1, Some(2), false);
    assert_eq!(state.failure(), Some(&FetchFailure::BeyondFinalBlock { segment: 1, last: 2 }));
    assert_eq!(state.poll_transmit(MS), None);
}

#[derive(Debug, Clone)]
enum Operation {
    Transmit,
    Data(u64, bool),
    Nack(u64),
    Advance(u64),
    Consume(u64),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => Just(Operation::Transmit),
        4 => (0u64..30, any::<bool>()).prop_map(|(segment, marked)| Operation::Data(segment, marked)),
        1 => (0u64..30).prop_map(Operation::Nack),
        1 => (0u64..3_000).prop_map(Operation::Advance),
        1 => (0u64..30).prop_map(Operation::Consume),
    ]
}

proptest! {
    /// Against a naive model: the set of received segments, and that window, buffer and range of
    /// segments are respected for any input.
    #[test]
    fn agrees_with_a_naive_model(operations in proptest::collection::vec(operation(), 1..200)) {
        let config = FetchConfig { buffer_segments: 12, ..FetchConfig::default() };
        let mut state = FetchState::new(config, 0, Some(24));
        let mut now = Duration::ZERO;
        let mut outstanding = BTreeSet::new();
        let mut received = BTreeSet::new();
        let mut consumed = 0u64;
        // In an outage: the Interest that may be unanswered.
        let mut outage: Option<Option<u64>> = None;
        for operation in operations {
            match operation {
                Operation::Transmit => {
                    if let Some(transmit) = state.poll_transmit(now) {
                        prop_assert!(transmit.segment <= 24);
                        prop_assert!(transmit.segment < consumed + 12);
                        prop_assert!(!received.contains(&transmit.segment));
                        if let Some(probe) = &mut outage {
                            prop_assert_eq!(probe.replace(transmit.segment), None);
                        }
                        outstanding.insert(transmit.segment);
                    }
                }
                Operation::Data(segment, marked) => {
                    let outcome = state.handle_data(now, segment, Some(24), marked);
                    outage = None;
                    if outcome == DataOutcome::New {
                        prop_assert!(received.insert(segment));
                        prop_assert!(segment <= 24);
                    } else {
                        prop_assert!(received.contains(&segment) || !outstanding.contains(&segment));
                    }
                }
                Operation::Nack(segment) => {
                    let congested = segment % 2 == 0;
                    let before = state.progress().nacks;
                    let reason =
                        if congested { NackReason::CONGESTION } else { NackReason::NO_ROUTE };
                    state.handle_nack(now, segment, reason);
                    let begins = outage.is_none() && !congested && !received.is_empty();
                    let is_for_probe = outage == Some(Some(segment));
                    if state.progress().nacks > before && (begins || is_for_probe) {
                        outage = Some(None);
                        prop_assert_eq!(state.poll_transmit(now), None);
                    }
                }
                Operation::Advance(ms) => {
                    now += MS * u32::try_from(ms).unwrap();
                    let unanswered = |state: &FetchState| state.progress().losses + state.progress().timeouts;
                    let before = unanswered(&state);
                    while let Some((due, _)) = state.poll_timeout() {
                        if due > now {
                            break;
                        }
                        state.handle_timeout(due);
                    }
                    if unanswered(&state) > before {
                        outage = outage.map(|_| None);
                    }
                }
                Operation::Consume(segment) => {
                    let segment = segment.min(state.first_missing());
                    consumed = consumed.max(segment);
                    state.set_consumed(segment);
                }
            }
            let missing = (0..25).find(|segment| !received.contains(segment)).unwrap_or(25);
            prop_assert_eq!(state.first_missing(), missing);
            prop_assert_eq!(state.progress().segments, u64::try_from(received.len()).unwrap());
            prop_assert_eq!(state.is_complete(), received.len() == 25 && state.failure().is_none());
            prop_assert!(state.in_flight() <= outstanding.difference(&received).count());
        }
    }
}
