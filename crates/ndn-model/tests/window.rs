//! Consumers with a window against what windows, round-trip times and timeouts imply.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use ndn_model::check::{Checker, Method, Runner};
use ndn_model::fast::FastEngine;
use ndn_model::file::Model;
use ndn_model::network::{Outcome, Record};
use ndn_model::property::Property;
use ndn_model::random::TraceRandom;
use ndn_model::reference;
use ndn_model::smc::Verdict;

/// A forwarder of one worker that takes 400 ns for an Interest and its Data, 20 us from the producer and back.
fn model(consumer: &str, forwarder: &str, links: &str) -> Model {
    let text = format!(
        "[forwarder]\nkind = \"namewire\"\nworkers = 1\nnic-burst = 1\n{forwarder}\n{links}\n\
         [services]\ninput = {{ interest = \"50 ns\", data = \"50 ns\" }}\n\
         forward = {{ interest = \"100 ns\", data = \"100 ns\" }}\n\
         output = {{ interest = \"50 ns\", data = \"50 ns\" }}\nproduce = \"1 ns\"\n\
         [[consumers]]\narrivals = \"window\"\n{consumer}\n[run]\nhorizon = \"1 ms\"\n"
    );
    Model::parse(&text).unwrap()
}

/// A queue of 16 packets, in which Interests do not wait for all Data.
const SMALL: &str = "nic-capacity = 16\nanswers-first = false";
const FAR: &str = "[links]\nproducer = { delay = \"10 us\" }";

fn run(model: &Model) -> Vec<Record> {
    reference::run(&Arc::new(model.network.clone()), TraceRandom::new(1, 0), model.horizon_ps)
        .records
}

/// Most Interests that were in flight when one was sent, with it.
fn most_in_flight(records: &[Record]) -> usize {
    let before = |index: usize| {
        let sent_ps = records[index].created_ps;
        records[..index].iter().filter(|other| other.ended_ps > sent_ps).count()
    };
    (0..records.len()).map(|index| before(index) + 1).max().unwrap_or(0)
}

/// Lengths of the groups of Interests between which at least `gap_ps` pass.
fn groups(records: &[Record], gap_ps: u64) -> Vec<usize> {
    let is_same = |a: &Record, b: &Record| b.created_ps - a.created_ps < gap_ps;
    records.chunk_by(is_same).map(<[Record]>::len).collect()
}

#[test]
fn rate_of_a_constant_window_is_window_over_round_trip_time() {
    let model = model("control = \"none\"\nwindow = 8", "", FAR);
    let records = run(&model);
    assert!(records.iter().all(|record| record.outcome == Outcome::Satisfied));
    assert_eq!(most_in_flight(&records), 8);
    // Nobody waits but for the packets of the same window: 20 us, and up to eight times 200 ns on each side.
    let (low, high) = (8.0 * 1000.0 / 23.6, 8.0 * 1000.0 / 20.4);
    let sent = records.len() as f64;
    assert!(sent >= low && sent <= high + 8.0, "{sent} {low} {high}");
    // Where the worker is the bottleneck, its rate counts: 400 ns for an Interest and its Data.
    let near = run(&self::model("control = \"none\"\nwindow = 8", "", ""));
    let sent = near.len() as f64;
    assert!((sent - 2500.0).abs() < 25.0, "{sent}");
}

#[test]
fn slow_start_doubles_the_window_up_to_the_threshold() {
    let model = model("window = 2\nslow-start = 16\nwindow-max = 64", "", FAR);
    let groups = groups(&run(&model), 5_000_000);
    assert_eq!(groups[..4], [2, 4, 8, 16], "{groups:?}");
    // An Interest more per round trip.
    let later = &groups[4..25];
    assert!(later.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{groups:?}");
    assert!(later[20] >= 28, "{groups:?}");
}

#[test]
fn timeouts_halve_the_window_once_per_window() {
    let lost = "[links]\nproducer = { delay = \"10 us\", loss = 1.0 }";
    let model = model("window = 8\ntimeout = \"100 us\"", "", lost);
    let groups = groups(&run(&model), 50_000_000);
    // At 100 us, 200 us and so on; the last ones are sent at 900 us.
    assert_eq!(groups, [8, 4, 2, 2, 2, 2, 2, 2, 2, 2]);
}

#[test]
fn congestion_keeps_the_window_near_what_queue_and_way_hold() {
    let model = model("window-max = 1000\ntimeout = \"60 us\"", SMALL, FAR);
    let records = run(&model);
    let dropped = records.iter().filter(|r| matches!(r.outcome, Outcome::QueueFull(_))).count();
    let satisfied = records.iter().filter(|r| r.outcome == Outcome::Satisfied).count();
    assert_eq!(dropped + satisfied, records.len());
    assert!(dropped > 3, "{dropped}");
    // 50 Interests are on the way at the worker's rate; slow start overshoots at the beginning.
    assert!(satisfied > 1250 && dropped < records.len() / 5, "{satisfied} {dropped}");
    let constant = run(&self::model("control = \"none\"\nwindow = 1000", SMALL, FAR));
    let lost = constant.iter().filter(|r| matches!(r.outcome, Outcome::QueueFull(_))).count();
    assert!(lost as f64 / constant.len() as f64 > 3.0 * dropped as f64 / records.len() as f64);
}

#[test]
fn properties_of_windows_are_checked_by_the_reference_engine() {
    let model = model("window = 4\nwindow-max = 8", "", FAR);
    assert!(FastEngine::refusal(&model.network).is_some());
    assert!(model.warnings.iter().any(|w| w.contains("reference engine")), "{:?}", model.warnings);
    let property = Property::parse("P(all(satisfied)) >= 0.9", &model).unwrap();
    let mut runner = Runner::new(&model, &property, 1);
    let method = Method::ConfidenceSequence { precision: 0.1 };
    let mut checker = Checker::new(&property, method, 0.05).unwrap();
    while !checker.observe(runner.observe(checker.traces())).unwrap() {}
    assert_eq!(checker.answer().unwrap().verdict, Some(Verdict::Holds));
}

#[test]
fn keys_that_contradict_a_window_are_refused() {
    let refused = |consumer: &str| {
        let text = format!(
            "[forwarder]\nkind = \"namewire\"\n[services]\ninput = {{ interest = \"1 ns\", data = \"1 ns\" }}\n\
             forward = {{ interest = \"1 ns\", data = \"1 ns\" }}\n\
             output = {{ interest = \"1 ns\", data = \"1 ns\" }}\n\
             [links]\nproducer = {{ delay = \"10 us\" }}\n\
             [[consumers]]\n{consumer}\n[run]\nhorizon = \"1 ms\"\n"
        );
        Model::parse(&text).unwrap_err().to_string()
    };
    for (consumer, reason) in [
        ("arrivals = \"window\"\nrate = \"1 M/s\"", "no rate, interval or times"),
        ("rate = \"1 M/s\"\nwindow = 4", "`window` belongs to arrivals"),
        ("rate = \"1 M/s\"\ntimeout = \"1 ms\"", "`timeout` belongs to arrivals"),
        ("arrivals = \"window\"\nwindow = 4\nwindow-max = 2", "window-max is not below window"),
        ("arrivals = \"window\"\ncontrol = \"none\"\ndecrease = 0.7", "belong to control"),
        ("arrivals = \"window\"\ndecrease = 0.0", "a factor above 0"),
        ("arrivals = \"window\"\ntimeout = \"0 ns\"", "a timeout is above zero"),
        ("arrivals = \"window\"\nwindow-max = 100000000", "up to"),
    ] {
        let error = refused(consumer);
        assert!(error.contains(reason), "{consumer}: {error}");
    }
}
