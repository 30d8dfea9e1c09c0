//! Sequences of requests.

use ndn_types::random::Random;

use crate::InputError;
use crate::topology::{REQUESTS_MAX, Topology};

/// Files in a dataset of [`Pattern::Datasets`].
const DATASET_FILES: usize = 20;
/// Time between two files of a job of [`Pattern::Datasets`], in seconds.
const FILE_INTERVAL_S: f64 = 2.0;
/// Time between two changes of [`Pattern::Drift`], in seconds, and the share of ranks that change.
const DRIFT_INTERVAL_S: f64 = 20.0;
const DRIFT_SHARE: f64 = 0.05;
/// Share of requests of [`Pattern::OneHit`] for objects that are requested once.
const ONE_HIT_SHARE: f64 = 0.5;

/// A request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    /// Time in seconds.
    pub time_s: f64,
    /// Node of the consumer.
    pub node: u32,
    /// Object.
    pub object: u32,
}

/// Requests in the order of time, and the sizes of the objects in bytes.
#[derive(Debug, Clone)]
pub struct Trace {
    /// Requests.
    pub requests: Vec<Request>,
    /// Sizes.
    pub sizes: Vec<u64>,
    /// Expected requests per second by object and consumer, if that does not change with time.
    pub rates: Option<Vec<f64>>,
}

/// Kind of a generated trace. Requests arrive as Poisson processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Zipf popularity that does not change.
    Zipf,
    /// Zipf popularity of which 5 % of the ranks change their objects every 20 s.
    Drift,
    /// Half of the requests are for objects that are requested once.
    OneHit,
    /// Jobs that read the 20 files of a dataset in order, one every 2 s; datasets by Zipf popularity (as jobs of
    /// CMS do).
    Datasets,
}

impl Pattern {
    /// All patterns and their names.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::Zipf, "zipf"),
        (Self::Drift, "drift"),
        (Self::OneHit, "one-hit"),
        (Self::Datasets, "datasets"),
    ];
}

/// Indices with probabilities proportional to weights, by Walker's alias method in Vose's form (Vose: "A Linear
/// Algorithm for Generating Random Numbers with a Given Distribution", IEEE TSE 17(9), 1991).
#[derive(Debug)]
struct Alias {
    cells: Vec<(f64, u32)>,
}

impl Alias {
    fn new(weights: &[f64]) -> Self {
        let scale = weights.len() as f64 / weights.iter().sum::<f64>();
        let mut cells: Vec<(f64, u32)> = weights
            .iter()
            .enumerate()
            .map(|(index, weight)| (weight * scale, index as u32))
            .collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..cells.len()).partition(|index| cells[*index].0 < 1.0);
        while let (Some(&less), Some(&more)) = (small.last(), large.last()) {
            small.pop();
            cells[less].1 = more as u32;
            cells[more].0 -= 1.0 - cells[less].0;
            if cells[more].0 < 1.0 {
                large.pop();
                small.push(more);
            }
        }
        for index in small.into_iter().chain(large) {
            cells[index].0 = 1.0;
        }
        Self { cells }
    }

    fn draw(&self, random: &mut Random) -> u32 {
        let index = random.below(self.cells.len() as u64) as usize;
        let (threshold, other) = self.cells[index];
        if random.unit() < threshold { index as u32 } else { other }
    }
}

fn zipf_weights(count: usize, exponent: f64) -> Vec<f64> {
    (1..=count).map(|rank| (rank as f64).powf(-exponent)).collect()
}

impl Trace {
    /// Generates a trace for a network: a function of its load, the pattern and the seed.
    ///
    /// # Errors
    ///
    /// The trace has too many requests.
    pub fn generate(topology: &Topology, pattern: Pattern, seed: u64) -> Result<Self, InputError> {
        let load = &topology.load;
        let consumers = &topology.consumers;
        let total_rate = load.requests_per_s * consumers.len() as f64;
        let expected = topology.expected_requests()?;
        let mut random = Random::new(seed, 1);
        let mut requests = Vec::with_capacity((expected * 1.1) as usize);
        let mut sizes = vec![load.object_bytes; load.objects];
        let mut rates = None;
        if pattern == Pattern::Datasets {
            let datasets = load.objects.div_ceil(DATASET_FILES);
            let popularity = Alias::new(&zipf_weights(datasets, load.zipf));
            let mut time_s = 0.0;
            loop {
                time_s -= random.unit().ln() * DATASET_FILES as f64 / total_rate;
                if time_s >= load.duration_s {
                    break;
                }
                let node = consumers[random.below(consumers.len() as u64) as usize] as u32;
                let first = popularity.draw(&mut random) as usize * DATASET_FILES;
                for (order, object) in (first..load.objects.min(first + DATASET_FILES)).enumerate()
                {
                    let time_s = time_s + order as f64 * FILE_INTERVAL_S;
                    if time_s < load.duration_s {
                        requests.push(Request { time_s, node, object: object as u32 });
                    }
                }
            }
            requests.sort_by(|a, b| a.time_s.total_cmp(&b.time_s));
            return Ok(Self { requests, sizes, rates });
        }
        let weights = zipf_weights(load.objects, load.zipf);
        let popularity = Alias::new(&weights);
        if pattern == Pattern::Zipf {
            let sum: f64 = weights.iter().sum();
            rates = Some(weights.iter().map(|weight| load.requests_per_s * weight / sum).collect());
        }
        let mut objects: Vec<u32> = (0..load.objects as u32).collect();
        let mut next_drift_s = DRIFT_INTERVAL_S;
        let mut time_s = 0.0;
        loop {
            time_s -= random.unit().ln() / total_rate;
            if time_s >= load.duration_s {
                break;
            }
            let node = consumers[random.below(consumers.len() as u64) as usize] as u32;
            let rank = popularity.draw(&mut random) as usize;
            while pattern == Pattern::Drift && time_s >= next_drift_s {
                next_drift_s += DRIFT_INTERVAL_S;
                for _ in 0..(DRIFT_SHARE * objects.len() as f64).ceil() as usize {
                    let (one, other) =
                        (random.below(objects.len() as u64), random.below(objects.len() as u64));
                    objects.swap(one as usize, other as usize);
                }
            }
            let mut object = objects[rank];
            if pattern == Pattern::OneHit && random.unit() < ONE_HIT_SHARE {
                object = sizes.len() as u32;
                sizes.push(load.object_bytes);
            }
            requests.push(Request { time_s, node, object });
        }
        Ok(Self { requests, sizes, rates })
    }

    /// Reads a trace: lines `seconds,node,object,bytes`; objects are any text, lines that begin with `#` are skipped.
    /// `origin` names the input in errors.
    ///
    /// # Errors
    ///
    /// Names the line that is invalid.
    pub fn parse(text: &str, origin: &str, topology: &Topology) -> Result<Self, InputError> {
        let mut objects = std::collections::HashMap::new();
        let mut trace = Self { requests: Vec::new(), sizes: Vec::new(), rates: None };
        let mut last_s = 0.0;
        for (number, line) in text.lines().enumerate() {
            let fail = |what: &str| InputError(format!("{origin}:{}: {what}", number + 1));
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            let &[time, node, object, bytes] = &fields[..] else {
                return Err(fail("expected seconds,node,object,bytes"));
            };
            let time_s: f64 = time.parse().map_err(|_| fail(&format!("'{time}' is not a time")))?;
            if !(last_s..1e12).contains(&time_s) {
                return Err(fail(&format!("time {time} is before the line above, or not finite")));
            }
            last_s = time_s;
            let place = topology.nodes.iter().position(|name| name == node);
            let node = place.ok_or_else(|| fail(&format!("there is no node '{node}'")))? as u32;
            let bytes: u64 =
                bytes.parse().map_err(|_| fail(&format!("'{bytes}' is not a number of bytes")))?;
            let object = *objects.entry(object.to_owned()).or_insert_with(|| {
                trace.sizes.push(bytes.max(1));
                trace.sizes.len() as u32 - 1
            });
            trace.requests.push(Request { time_s, node, object });
            if trace.requests.len() > REQUESTS_MAX {
                return Err(fail(&format!("more than {REQUESTS_MAX} requests")));
            }
        }
        if trace.requests.is_empty() {
            return Err(InputError(format!("{origin}: no requests")));
        }
        Ok(trace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Topology {
        Topology::known("line").expect("known")
    }

    #[test]
    fn zipf_requests_have_their_rates() {
        let trace = Trace::generate(&line(), Pattern::Zipf, 1).expect("valid");
        let rates = trace.rates.expect("stationary");
        assert!((rates.iter().sum::<f64>() - 10.0).abs() < 1e-9);
        for object in [0, 1, 9] {
            let count = trace.requests.iter().filter(|request| request.object == object).count();
            let expected = rates[object as usize] * 400.0;
            assert!((count as f64 - expected).abs() < 5.0 * expected.sqrt(), "{count} {expected}");
        }
        assert!(trace.requests.is_sorted_by(|a, b| a.time_s <= b.time_s));
        let again = Trace::generate(&line(), Pattern::Zipf, 1).expect("valid").requests;
        assert_eq!(trace.requests, again);
        assert_ne!(
            trace.requests,
            Trace::generate(&line(), Pattern::Zipf, 2).expect("valid").requests
        );
    }

    #[test]
    fn patterns_have_their_shapes() {
        let one_hit = Trace::generate(&line(), Pattern::OneHit, 1).expect("valid");
        let share = (one_hit.sizes.len() - 1000) as f64 / one_hit.requests.len() as f64;
        assert!((share - 0.5).abs() < 0.03, "{share}");
        let drift = Trace::generate(&line(), Pattern::Drift, 1).expect("valid");
        let top = |from_s: f64| {
            let requests = drift.requests.iter().filter(|request| request.time_s >= from_s);
            requests.take(1000).filter(|request| request.object < 20).count()
        };
        assert!(top(0.0) > 2 * top(300.0), "{} {}", top(0.0), top(300.0));
        let datasets = Trace::generate(&line(), Pattern::Datasets, 1).expect("valid");
        assert!(datasets.requests.is_sorted_by(|a, b| a.time_s <= b.time_s));
        let first = datasets.requests[0];
        let next = datasets.requests.iter().find(|request| request.object == first.object + 1);
        assert!(next.is_some_and(|next| next.time_s - first.time_s <= FILE_INTERVAL_S + 1e-9));
    }

    #[test]
    fn trace_files_are_read_and_errors_name_the_line() {
        let parse = |text: &str| Trace::parse(text, "t.csv", &line());
        let trace =
            parse("# c\n0.5,consumer,/a,10\n1,consumer,/b,20\n1,consumer,/a,10\n").expect("valid");
        assert_eq!(trace.sizes, [10, 20]);
        assert_eq!(
            trace.requests.iter().map(|request| request.object).collect::<Vec<_>>(),
            [0, 1, 0]
        );
        for (text, message) in [
            ("0,consumer,/a", "t.csv:1: expected"),
            ("0,consumer,/a,1\n-1,consumer,/a,1", "t.csv:2: time -1"),
            ("0,nowhere,/a,1", "no node 'nowhere'"),
            ("0,consumer,/a,x", "'x' is not"),
            ("nan,consumer,/a,1", "t.csv:1: time nan"),
            ("# none", "t.csv: no requests"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
