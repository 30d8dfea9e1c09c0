//! Importance splitting against exact queues and plain traces.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small numbers")]

use ndn_model::check::{CheckResult, Checker, Method, Runner};
use ndn_model::file::Model;
use ndn_model::property::Property;
use ndn_model::rare::Splitting;
use ndn_model::smc::Verdict;

/// M/M/1/`places` with service times of `mean_ns` and an Interest per microsecond: one packet is in service.
fn text(places: usize, mean_ns: u32) -> String {
    format!(
        "[forwarder]\nkind = \"ndn-dpdk\"\nqueue-capacity = {capacity}\nbursts = [1, 1, 1]\n\
         [services]\ninput = {{ interest = \"0 ns\", data = \"0 ns\" }}\n\
         forward = {{ interest = {{ exponential = \"{mean_ns} ns\" }}, data = \"1 ps\" }}\n\
         output = {{ interest = \"0 ns\", data = \"0 ns\" }}\n\
         [[consumers]]\ninterval = {{ exponential = \"1 us\" }}\n\
         [run]\nhorizon = \"100 us\"\nwarm-up = \"20 us\"\n",
        capacity = places - 1,
    )
}

fn queue(places: usize, mean_ns: u32) -> Model {
    Model::parse(&text(places, mean_ns)).unwrap()
}

/// Share of the Interests that M/M/1/`places` loses.
fn loss(places: i32, load: f64) -> f64 {
    (1.0 - load) * load.powi(places) / (1.0 - load.powi(places + 1))
}

fn split(model: &Model, text: &str, (effort, replications): (usize, u32)) -> CheckResult {
    let property = Property::parse(text, model).unwrap();
    let splitting = Splitting::new(model, &property, "forwarding 0 interests", effort, 5).unwrap();
    assert!(splitting.levels().is_sorted() && splitting.levels().len() > 2, "{splitting:?}");
    let mut runner = Runner::splitting(model, &property, 5, splitting);
    let method = Method::Splitting { replications };
    let mut checker = Checker::new(&property, method, 0.01).unwrap();
    while !checker.observe(runner.observe(checker.traces())).unwrap() {}
    checker.answer().unwrap()
}

#[test]
fn rare_losses_are_those_of_the_exact_queue() {
    for (places, mean_ns) in [(8, 300), (10, 200), (10, 100)] {
        let exact = loss(places, f64::from(mean_ns) / 1e3);
        let model = queue(places as usize, mean_ns);
        let answer = split(&model, "E(share(dropped))", (200, 30));
        let interval = answer.interval.unwrap();
        assert!(interval.contains(exact), "{exact:e} {answer:?}");
        assert!((0.5..2.0).contains(&(answer.estimate / exact)), "{exact:e} {answer:?}");
    }
}

#[test]
fn estimate_is_that_of_plain_traces_where_they_see_the_event() {
    let model = queue(6, 200);
    let text = "P(count(dropped) >= 1)";
    let property = Property::parse(text, &model).unwrap();
    let mut runner = Runner::new(&model, &property, 9);
    let method = Method::ClopperPearson { traces: 10_000 };
    let mut plain = Checker::new(&property, method, 0.01).unwrap();
    while !plain.observe(runner.observe(plain.traces())).unwrap() {}
    let plain = plain.answer().unwrap();
    let answer = split(&model, text, (200, 30));
    let (own, other) = (answer.interval.unwrap(), plain.interval.unwrap());
    assert!(own.low <= other.high && other.low <= own.high, "{answer:?} {plain:?}");
    assert!(answer.estimate > 0.001 && answer.estimate < 0.1, "{answer:?}");
}

#[test]
fn decision_that_all_are_satisfied_is_one_about_the_rare_loss() {
    let model = queue(10, 200);
    let holds = split(&model, "P(all(satisfied)) >= 0.9999", (100, 10));
    assert_eq!(holds.verdict, Some(Verdict::Holds), "{holds:?}");
    assert!(holds.estimate < 1.0 && holds.estimate > 0.9999, "{holds:?}");
    let fails = split(&model, "P(all(satisfied)) >= 0.99999999", (100, 10));
    assert_eq!(fails.verdict, Some(Verdict::Fails), "{fails:?}");
}

#[test]
fn queues_and_properties_without_levels_are_rejected() {
    let model = queue(10, 200);
    let new = |text: &str, queue: &str| {
        Splitting::new(&model, &Property::parse(text, &model).unwrap(), queue, 10, 1)
    };
    let unknown = new("E(share(dropped))", "producer 0").unwrap_err().to_string();
    assert!(unknown.contains("\"producer 0\"") && unknown.contains("nic 0"), "{unknown}");
    assert!(new("E(mean(latency))", "nic 0").is_err());
    let two = text(10, 200) + "[[consumers]]\nrate = \"1 M/s\"\n";
    let model = Model::parse(&two).unwrap();
    let property = Property::parse("E(share(dropped))", &model).unwrap();
    assert!(Splitting::new(&model, &property, "nic 0", 10, 1).is_err());
}
