//! Importance splitting against exact queues and plain traces.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small numbers")]

use ndn_model::check::{CheckResult, Checker, Method, Runner};
use ndn_model::file::Model;
use ndn_model::property::Property;
use ndn_model::rare::Splitting;
use ndn_model::smc::Verdict;
use ndn_model::smc::splitting::SplittingEstimate;

/// In microseconds. Short traces: the event is rarer, but a run to the next level takes less time.
const WARM_UP: f64 = 5.0;
const HORIZON: f64 = 25.0;

/// M/M/1/`places` with service times of `mean_ns` and an Interest per microsecond: one packet is in service.
fn text(places: usize, mean_ns: u32) -> String {
    format!(
        "[forwarder]\nkind = \"ndn-dpdk\"\nqueue-capacity = {capacity}\nbursts = [1, 1, 1]\n\
         [services]\ninput = {{ interest = \"0 ns\", data = \"0 ns\" }}\n\
         forward = {{ interest = {{ exponential = \"{mean_ns} ns\" }}, data = \"1 ps\" }}\n\
         output = {{ interest = \"0 ns\", data = \"0 ns\" }}\n\
         [[consumers]]\ninterval = {{ exponential = \"1 us\" }}\n\
         [run]\nhorizon = \"{HORIZON} us\"\nwarm-up = \"{WARM_UP} us\"\n",
        capacity = places - 1,
    )
}

fn queue(places: usize, mean_ns: u32) -> Model {
    Model::parse(&text(places, mean_ns)).unwrap()
}

/// M/M/1/`places`, uniformized: at each jump an Interest arrives with probability `up`, or a service ends if one is going on.
struct Exact {
    places: usize,
    up: f64,
}

/// Above the number of Interests of any trace, in practice.
const SENT_MAX: usize = 100;

impl Exact {
    fn new(places: usize, mean_ns: u32) -> Self {
        Self { places, up: 1.0 / (1.0 + 1e3 / f64::from(mean_ns)) }
    }

    /// `weights` after `time`: the mean over the Poisson number of jumps.
    fn after(
        &self,
        time: f64,
        mut weights: Vec<f64>,
        jump: impl Fn(&[f64]) -> Vec<f64>,
    ) -> Vec<f64> {
        let mean = time / self.up;
        let mut probability = (-mean).exp();
        let mut sum = vec![0.0; weights.len()];
        for number in 1..=(2.0 * mean + 100.0) as u32 {
            sum.iter_mut().zip(&weights).for_each(|(sum, weight)| *sum += probability * weight);
            weights = jump(&weights);
            probability *= mean / f64::from(number);
        }
        sum
    }

    /// The lengths at the end of the warm-up.
    fn warm(&self) -> Vec<f64> {
        let mut empty = vec![0.0; self.places + 1];
        empty[0] = 1.0;
        self.after(WARM_UP, empty, |weights| {
            let mut next = vec![0.0; weights.len()];
            for (length, weight) in weights.iter().enumerate() {
                next[(length + 1).min(self.places)] += self.up * weight;
                next[length.saturating_sub(1)] += (1.0 - self.up) * weight;
            }
            next
        })
    }

    /// The probability that an Interest is lost after the warm-up.
    fn any(&self) -> f64 {
        let mut warm = self.warm();
        warm.push(0.0);
        let lost = self.places + 1;
        let end = self.after(HORIZON - WARM_UP, warm, |weights| {
            let mut next = vec![0.0; weights.len()];
            next[lost] = weights[lost];
            for (length, weight) in weights[..lost].iter().enumerate() {
                next[length + 1] += self.up * weight;
                next[length.saturating_sub(1)] += (1.0 - self.up) * weight;
            }
            next
        });
        end[lost]
    }

    /// The mean of a trace's share of lost Interests. It is less than the share of all Interests that are lost: traces with
    /// losses have more Interests than others.
    fn share(&self) -> f64 {
        // For each length and number of Interests: the probability, and the mean number of losses there.
        let place = |length: usize, sent: usize| 2 * (length * SENT_MAX + sent);
        let mut begin = vec![0.0; place(self.places + 1, 0)];
        for (length, weight) in self.warm().into_iter().enumerate() {
            begin[place(length, 0)] = weight;
        }
        let end = self.after(HORIZON - WARM_UP, begin, |weights| {
            let mut next = vec![0.0; weights.len()];
            for length in 0..=self.places {
                for sent in 0..SENT_MAX {
                    let from = place(length, sent);
                    let (weight, losses) = (weights[from], weights[from + 1]);
                    let lost = if length == self.places { weight } else { 0.0 };
                    let up = place((length + 1).min(self.places), (sent + 1).min(SENT_MAX - 1));
                    let down = place(length.saturating_sub(1), sent);
                    next[up] += self.up * weight;
                    next[up + 1] += self.up * (losses + lost);
                    next[down] += (1.0 - self.up) * weight;
                    next[down + 1] += (1.0 - self.up) * losses;
                }
            }
            next
        });
        let each = (0..=self.places).flat_map(|length| (1..SENT_MAX).map(move |n| (length, n)));
        each.map(|(length, sent)| end[place(length, sent) + 1] / sent as f64).sum()
    }
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

fn assert_exact(model: &Model, text: &str, exact: f64) {
    let answer = split(model, text, (1000, 30));
    let interval = answer.interval.unwrap();
    assert!(interval.contains(exact), "{exact:e} {answer:?}");
    assert!(interval.high < 2.0 * exact, "{exact:e} {answer:?}");
}

#[test]
fn share_of_rare_losses_is_that_of_the_exact_queue() {
    assert_exact(&queue(10, 500), "E(share(dropped))", Exact::new(10, 500).share());
}

#[test]
fn share_of_rare_losses_is_that_of_a_longer_exact_queue() {
    assert_exact(&queue(20, 700), "E(share(dropped))", Exact::new(20, 700).share());
}

#[test]
fn probability_of_a_rare_loss_is_that_of_the_exact_queue() {
    assert_exact(&queue(16, 500), "P(count(dropped) >= 1)", Exact::new(16, 500).any());
}

#[test]
fn losses_within_one_service_have_no_narrow_interval() {
    // At 10 % load, the queue fills up during one long service: no poll sees a level on the way.
    let (exact, model) = (Exact::new(10, 100).any(), queue(10, 100));
    let interval = split(&model, "P(count(dropped) >= 1)", (200, 30)).interval.unwrap();
    assert!(interval.contains(exact) && interval.high > 0.1, "{exact:e} {interval:?}");
}

#[test]
fn exact_values_and_splitting_are_those_of_plain_traces_where_they_see_the_event() {
    let (exact, model) = (Exact::new(6, 300), queue(6, 300));
    for (text, exact) in
        [("E(share(dropped))", exact.share()), ("P(count(dropped) >= 1)", exact.any())]
    {
        let property = Property::parse(text, &model).unwrap();
        let mut runner = Runner::new(&model, &property, 9);
        let values: Vec<f64> = (0..100_000).map(|trace| runner.observe(trace)).collect();
        let plain = SplittingEstimate::of(values, 0.01).unwrap().interval;
        assert!(plain.contains(exact) && plain.low > 0.8 * exact, "{text} {exact:e} {plain:?}");
        let own = split(&model, text, (500, 50)).interval.unwrap();
        assert!(own.contains(exact) && own.low > 0.5 * exact, "{text} {exact:e} {own:?}");
    }
}

#[test]
fn decision_that_all_are_satisfied_is_one_about_the_rare_loss() {
    let model = queue(10, 500);
    let exact = Exact::new(10, 500).any();
    for (factor, verdict) in [(2.0, Verdict::Holds), (0.5, Verdict::Fails)] {
        let text = format!("P(all(satisfied)) >= {}", 1.0 - factor * exact);
        let answer = split(&model, &text, (500, 30));
        assert_eq!(answer.verdict, Some(verdict), "{text} {answer:?}");
        assert!(answer.interval.unwrap().contains(1.0 - exact), "{exact:e} {answer:?}");
    }
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
