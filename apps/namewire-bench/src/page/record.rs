//! A benchmark with its trials, their statistics, and the comparison of two.

use ndn_cache_sim::report::Estimate;
use serde::{Deserialize, Serialize};

use super::figures::Trial;
use super::plan::Plan;
use super::remote::Elsewhere;
use super::transfer::Client;
use super::trial::Progress;

/// The name of this project's forwarder beside others.
pub(super) const OWN: &str = "namewire";

/// Mean, standard deviation and confidence interval of the trials.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Statistic {
    /// Mean.
    pub(crate) mean: f64,
    /// Standard deviation of the sample; `None` for one trial.
    pub(crate) standard_deviation: Option<f64>,
    /// Half-width of the 95 % confidence interval of the mean (Student's t); `None` for one trial.
    pub(crate) interval: Option<f64>,
}

impl Statistic {
    /// Of the values of trials; `None` without any.
    #[must_use]
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let Estimate { mean, half_width } = Estimate::new(values);
        let several = values.len() > 1;
        Some(Self {
            mean,
            standard_deviation: several.then(|| variance(values, mean).sqrt()),
            interval: several.then_some(half_width),
        })
    }
}

fn variance(values: &[f64], mean: f64) -> f64 {
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    squares / (count(values) - 1.0)
}

#[expect(clippy::cast_precision_loss, reason = "a number of trials")]
fn count(values: &[f64]) -> f64 {
    values.len() as f64
}

/// Statistics of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Summary {
    /// Data per second, of all directions.
    pub(crate) data_per_s: Statistic,
    /// Content bits per second, of all directions.
    pub(crate) goodput_bit_per_s: Statistic,
}

impl Summary {
    /// Of trials; `None` without any.
    fn of(trials: &[Trial]) -> Option<Self> {
        let of =
            |value: fn(&Trial) -> f64| Statistic::of(&trials.iter().map(value).collect::<Vec<_>>());
        Some(Self {
            data_per_s: of(|trial| trial.data_per_s)?,
            goodput_bit_per_s: of(|trial| trial.goodput_bit_per_s)?,
        })
    }
}

/// State of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// Trials are being run.
    Running,
    /// All trials have ended.
    Done,
    /// It was stopped; there are the trials before.
    Stopped,
    /// A program failed; there are the trials before.
    Failed,
}

/// The trials of another program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Peer {
    /// The program.
    pub(crate) program: String,
    /// Why it has no further trials.
    pub(crate) reason: Option<String>,
    /// Its trials.
    pub(crate) trials: Vec<Trial>,
}

impl Peer {
    /// Statistics of its trials; `None` without any.
    #[must_use]
    pub(crate) fn summary(&self) -> Option<Summary> {
        Summary::of(&self.trials)
    }
}

/// A figure that was published elsewhere, of another machine: it cannot be compared with those of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Published {
    /// The program.
    pub(crate) program: &'static str,
    /// The figure.
    pub(crate) figure: &'static str,
    /// The machine, as far as the source describes it.
    pub(crate) machine: &'static str,
    /// Where it was published.
    pub(crate) source: &'static str,
}

/// Figures that were published elsewhere.
pub(crate) const PUBLISHED: [Published; 1] = [Published {
    program: "NDN-DPDK",
    figure: "more than 100 Gbit/s forwarded",
    machine: "dedicated processors and network cards; the forwarder on one machine, the traffic generator on another",
    source: "Shi, Pesavento, Benmohamed: NDN-DPDK, ACM ICN 2020, doi:10.1145/3405656.3418715",
}];

/// A benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Its number in the history.
    pub(crate) id: i64,
    /// Start, in milliseconds since 1970.
    pub(crate) unix_ms: u64,
    /// Version of the program.
    pub(crate) version: String,
    /// The machine.
    pub(crate) machine: serde_json::Value,
    /// The inputs.
    pub(crate) plan: Plan,
    /// State.
    pub(crate) state: State,
    /// Why it failed.
    pub(crate) reason: Option<String>,
    /// The trials.
    pub(crate) trials: Vec<Trial>,
    /// Other programs in the place of F, in turn with it.
    #[serde(default)]
    pub(crate) peers: Vec<Peer>,
}

impl Record {
    /// One that begins now.
    #[must_use]
    pub(crate) fn new(plan: Plan, elsewhere: &Elsewhere, unix_ms: u64) -> Self {
        let machine = serde_json::to_value(ndn_pipeline_bench::Machine::read());
        let mut machine = machine.unwrap_or_default();
        let Elsewhere { forwarder, a, b } = elsewhere;
        let places = [
            ("forwarder", forwarder.as_ref().map(|forwarder| &forwarder.transport)),
            ("node_a", a.as_ref().map(|api| &api.url)),
            ("node_b", b.as_ref().map(|api| &api.url)),
        ];
        for (node, place) in places {
            if let Some(place) = place {
                machine[node] = place.clone().into();
            }
        }
        Self {
            id: 0,
            unix_ms,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            machine,
            plan,
            state: State::Running,
            reason: None,
            trials: Vec::new(),
            peers: Vec::new(),
        }
    }

    /// Takes the figures of a trial; returns whether there were any.
    pub(crate) fn note(&mut self, progress: &Progress) -> bool {
        match progress {
            Progress::Trial { .. } | Progress::Live { .. } => false,
            Progress::Ended { program, figures, .. } if *program == OWN => {
                self.trials.push(figures.clone());
                true
            }
            Progress::Ended { program, figures, .. } => {
                self.peer(program).trials.push(figures.clone());
                true
            }
            Progress::Missing { program, reason } => {
                self.peer(program).reason = Some(reason.clone());
                true
            }
        }
    }

    /// A message about its progress, with the statistics so far.
    #[must_use]
    pub(crate) fn message(&self, progress: &Progress) -> serde_json::Value {
        let mut value = serde_json::to_value(progress).unwrap_or_default();
        value["run"] = self.id.into();
        value["unix_ms"] = super::unix_ms().into();
        value["trials"] = self.plan.trials.into();
        value["summary"] = serde_json::to_value(self.summary()).unwrap_or_default();
        value["peers"] = self.peer_summaries().into();
        value
    }

    /// Statistics of the other programs, without their trials.
    #[must_use]
    fn peer_summaries(&self) -> Vec<serde_json::Value> {
        let of = |peer: &Peer| {
            serde_json::json!({
                "program": peer.program, "reason": peer.reason, "summary": peer.summary(),
            })
        };
        self.peers.iter().map(of).collect()
    }

    fn peer(&mut self, program: &str) -> &mut Peer {
        let found = self.peers.iter().position(|peer| peer.program == program);
        let at = found.unwrap_or_else(|| {
            self.peers.push(Peer { program: program.to_owned(), ..Peer::default() });
            self.peers.len() - 1
        });
        &mut self.peers[at]
    }

    /// Statistics of its trials; `None` without any.
    #[must_use]
    pub(crate) fn summary(&self) -> Option<Summary> {
        Summary::of(&self.trials)
    }

    /// Goodput over that of the transfers beside it, of pairs of trials, by the name of the transfers.
    #[must_use]
    pub(crate) fn ratios_to_transfers(&self) -> Vec<(&'static str, Statistic)> {
        let of = |client: Client| {
            let transfers = self.peers.iter().find(|peer| peer.program == client.name())?;
            let pairs = self.trials.iter().zip(&transfers.trials);
            let ratios: Vec<f64> =
                pairs.map(|(own, other)| own.goodput_bit_per_s / other.goodput_bit_per_s).collect();
            Some((client.name(), Statistic::of(&ratios)?))
        };
        Client::ALL.into_iter().filter_map(of).collect()
    }

    /// The trials of all programs, each with its program and number.
    pub(crate) fn all_trials(&self) -> impl Iterator<Item = (&str, u32, &Trial)> {
        let own = (1..).zip(&self.trials).map(|(number, trial)| (OWN, number, trial));
        let others = self.peers.iter().flat_map(|peer| {
            (1..).zip(&peer.trials).map(|(number, trial)| (peer.program.as_str(), number, trial))
        });
        own.chain(others)
    }

    /// The statistics of all programs that have trials.
    pub(crate) fn all_summaries(&self) -> impl Iterator<Item = (&str, Summary)> {
        let own = self.summary().map(|summary| (OWN, summary));
        let others = self.peers.iter();
        let others = others.filter_map(|peer| Some((peer.program.as_str(), peer.summary()?)));
        own.into_iter().chain(others)
    }

    /// As JSON, with the statistics of all programs, and what was published elsewhere.
    #[must_use]
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let json = |value| serde_json::to_value(value).unwrap_or_default();
        let mut value = serde_json::to_value(self).unwrap_or_default();
        value["summary"] = json(self.summary());
        let ratios = self.ratios_to_transfers().into_iter();
        value["ratios_to_transfers"] = ratios
            .map(|(over, ratio)| serde_json::json!({ "over": over, "ratio": ratio }))
            .collect();
        for (at, peer) in self.peers.iter().enumerate() {
            value["peers"][at]["summary"] = json(peer.summary());
        }
        value["published_elsewhere"] = serde_json::to_value(PUBLISHED).unwrap_or_default();
        value
    }
}

/// A benchmark as JSON without its trials, of which it has the number.
fn summarized(record: &Record) -> serde_json::Value {
    let mut value = record.to_json();
    if let Some(fields) = value.as_object_mut() {
        fields.insert("trials".to_owned(), record.trials.len().into());
        for field in ["machine", "peers", "published_elsewhere"] {
            fields.remove(field);
        }
    }
    value
}

/// Benchmarks as JSON for a list.
pub(crate) fn listed(records: &[Record]) -> Vec<serde_json::Value> {
    records.iter().map(summarized).collect()
}

/// Two benchmarks as JSON, and the second compared with the first; `None` if one has no trials.
pub(crate) fn compared(one: &Record, other: &Record) -> Option<serde_json::Value> {
    let comparison = Comparison::of(one, other)?;
    let (a, b) = (summarized(one), summarized(other));
    Some(serde_json::json!({ "a": a, "b": b, "comparison": comparison }))
}

/// The difference between two benchmarks in one figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Difference {
    /// Mean of the second over that of the first.
    pub(crate) ratio: f64,
    /// Mean of the second less that of the first.
    pub(crate) difference: f64,
    /// Half-width of the 95 % confidence interval of the difference (Welch); `None` where one has a single trial.
    pub(crate) interval: Option<f64>,
}

impl Difference {
    /// Of the values of two benchmarks; `None` if one has no trials.
    #[must_use]
    pub(crate) fn of(one: &[f64], other: &[f64]) -> Option<Self> {
        let (first, second) = (Statistic::of(one)?, Statistic::of(other)?);
        let interval = (one.len() > 1 && other.len() > 1).then(|| {
            let part = |values: &[f64], mean| variance(values, mean) / count(values);
            let (a, b) = (part(one, first.mean), part(other, second.mean));
            let freedom =
                (a + b).powi(2) / (a * a / (count(one) - 1.0) + b * b / (count(other) - 1.0));
            // The smaller number of degrees is the wider interval.
            half_width_factor(freedom) * (a + b).sqrt()
        });
        let (ratio, difference) = (second.mean / first.mean, second.mean - first.mean);
        Some(Self { ratio, difference, interval })
    }
}

/// 97.5 % quantile of Student's t for these degrees of freedom, rounded down: the half-width of the interval of a sample
/// whose standard error is 1.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 198")]
fn half_width_factor(freedom: f64) -> f64 {
    let size = if freedom.is_finite() { freedom.clamp(1.0, 200.0) as usize + 1 } else { 201 };
    // Alternating values, scaled so that the standard error of their mean is 1.
    let values: Vec<f64> = (0..size).map(|at| if at % 2 == 0 { 1.0 } else { -1.0 }).collect();
    let mean = values.iter().sum::<f64>() / count(&values);
    let error = (variance(&values, mean) / count(&values)).sqrt();
    Estimate::new(&values).half_width / error
}

/// Two benchmarks compared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Comparison {
    /// Data per second.
    pub(crate) data_per_s: Difference,
    /// Content bits per second.
    pub(crate) goodput_bit_per_s: Difference,
}

impl Comparison {
    /// Compares the second with the first; `None` if one has no trials.
    #[must_use]
    pub(crate) fn of(one: &Record, other: &Record) -> Option<Self> {
        let of = |value: fn(&Trial) -> f64| {
            let values = |record: &Record| record.trials.iter().map(value).collect::<Vec<_>>();
            Difference::of(&values(one), &values(other))
        };
        Some(Self {
            data_per_s: of(|trial| trial.data_per_s)?,
            goodput_bit_per_s: of(|trial| trial.goodput_bit_per_s)?,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::page::fetch_node::Latency;
    use crate::page::figures::{CpuPerData, DirectionFigures};

    /// A finished benchmark whose trials had these rates of Data.
    pub(in crate::page) fn record(rates: &[f64]) -> Record {
        let direction = DirectionFigures {
            producer: 'A',
            consumer: 'B',
            data: 5000,
            content_bytes: 20_000_000,
            data_per_s: 1000.0,
            goodput_bit_per_s: 32e6,
            interests: 5100,
            retransmissions: 51,
            loss: 0.01,
            nacks: 0,
            marks: 0,
            latency: Latency { p50_us: 100, p90_us: 200, p99_us: 300, p999_us: 400, max_us: 500 },
        };
        let trial = |(at, rate): (u64, &f64)| Trial {
            unix_ms: 1_700_000_000_000 + at * 5000,
            seconds: 5.0,
            data_per_s: *rate,
            goodput_bit_per_s: rate * 32_000.0,
            directions: vec![DirectionFigures { data_per_s: *rate, ..direction }],
            cpu_per_data: CpuPerData { a_us: 1.0, f_us: 2.0, b_us: 3.0 },
            link: None,
            cache_hits: Some(0),
        };
        Record {
            id: 7,
            state: State::Done,
            trials: (0..).zip(rates).map(trial).collect(),
            ..Record::new(Plan::default(), &Elsewhere::default(), 1_700_000_000_000)
        }
    }

    #[test]
    fn statistics_are_those_of_a_sample() {
        let summary = record(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).summary().unwrap();
        let Statistic { mean, standard_deviation, interval } = summary.data_per_s;
        assert_eq!(mean, 5.0);
        assert!((standard_deviation.unwrap() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        // 2.364624 is the 97.5 % quantile for 7 degrees of freedom.
        let half_width = 2.364_624 * (32.0_f64 / 7.0 / 8.0).sqrt();
        assert!((interval.unwrap() - half_width).abs() < 2e-3);
        let one = record(&[3.0]).summary().unwrap().data_per_s;
        assert_eq!(one, Statistic { mean: 3.0, standard_deviation: None, interval: None });
        assert_eq!(record(&[]).summary(), None);
    }

    #[test]
    fn difference_has_the_interval_of_welch() {
        // Degrees of freedom 4.0 (equal variances, three values each): 2.776445 · sqrt(1/3 + 1/3).
        let difference = Difference::of(&[1.0, 2.0, 3.0], &[11.0, 12.0, 13.0]).unwrap();
        assert_eq!((difference.ratio, difference.difference), (6.0, 10.0));
        let expected = 2.776_445 * (2.0_f64 / 3.0).sqrt();
        assert!((difference.interval.unwrap() - expected).abs() < 1e-3, "{difference:?}");
        assert_eq!(Difference::of(&[1.0], &[2.0, 3.0]).unwrap().interval, None);
        // Equal values have no variance, and no interval beyond the difference.
        let equal = Difference::of(&[1.0, 1.0], &[2.0, 2.0]).unwrap();
        assert_eq!((equal.difference, equal.interval), (1.0, Some(0.0)));
    }

    #[test]
    fn other_programs_have_trials_and_statistics_of_their_own() {
        let mut one = record(&[1.0]);
        let figures = record(&[4.0]).trials.remove(0);
        for program in ["namewire", "nfd", "nfd"] {
            assert!(one.note(&Progress::Ended { trial: 2, program, figures: figures.clone() }));
        }
        let reason = "ndnd is not on PATH".to_owned();
        assert!(one.note(&Progress::Missing { program: "ndnd", reason }));
        assert!(!one.note(&Progress::Trial { trial: 3, program: "nfd" }));
        let json = one.to_json();
        assert_eq!(json["summary"]["data_per_s"]["mean"], 2.5);
        assert_eq!(json["peers"][0]["summary"]["data_per_s"]["mean"], 4.0);
        assert_eq!(json["peers"][1]["reason"], "ndnd is not on PATH");
        assert!(json["peers"][1]["summary"].is_null());
        assert_eq!(json["published_elsewhere"][0]["program"], "NDN-DPDK");
    }

    #[test]
    fn ratios_to_transfers_are_those_of_pairs() {
        let mut one = record(&[2.0, 4.0, 6.0]);
        assert_eq!(one.ratios_to_transfers(), []);
        let program = Client::Get.name();
        for (trial, figures) in (1..).zip(record(&[2.0, 2.0]).trials) {
            assert!(one.note(&Progress::Ended { trial, program, figures }));
        }
        let [(over, ratio)] = one.ratios_to_transfers()[..] else { panic!("{one:?}") };
        assert_eq!((over, ratio.mean), ("transfer-get", 1.5));
        assert_eq!(one.to_json()["ratios_to_transfers"][0]["ratio"]["mean"], 1.5);
    }

    #[test]
    fn records_survive_json() {
        let one = record(&[1.0, 2.0]);
        let text = serde_json::to_string(&one).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), one);
        assert_eq!(one.to_json()["summary"]["data_per_s"]["mean"], 1.5);
    }
}
