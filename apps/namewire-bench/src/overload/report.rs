//! Options of the bench, and its report.

use std::time::Duration;

use serde::Serialize;

/// Share of the Interests that are satisfied at a sustainable rate.
pub(super) const SUSTAINED_MIN: f64 = 0.99;
/// The same when the rate is measured again with the others: below this share it is not sustainable. In between, the
/// rate and its multiples are slightly too high, so the reported shares of the peak are lower bounds.
pub(super) const BORNE_OUT_MIN: f64 = 0.9;

/// Options of the bench.
#[derive(Debug, Clone)]
pub struct OverloadOptions {
    /// Offered rates, in multiples of the sustainable one.
    pub ratios: Vec<f64>,
    /// Duration of each rate.
    pub stretch: Duration,
    /// Repetitions of each rate; the medians are reported.
    pub rounds: usize,
    /// Bytes of content in a Data, for one run of rates each.
    pub payloads: Vec<usize>,
    /// Interests that a consumer sends at once, as one message of the kernel: a constant, so that the cost of
    /// receiving one does not depend on the rate.
    pub burst: usize,
    /// Workers of the forwarder, for one run of rates each.
    pub workers: Vec<usize>,
    /// The processors of the workers, the producer and each consumer.
    pub cpus: Vec<usize>,
    /// The first of the UDP ports to use on the loopback interface.
    pub first_port: u16,
}

impl Default for OverloadOptions {
    fn default() -> Self {
        Self {
            ratios: vec![0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0],
            stretch: Duration::from_secs(3),
            rounds: 3,
            payloads: vec![100, 1000],
            burst: 8,
            workers: vec![1, 2],
            cpus: vec![0, 1, 2, 3],
            first_port: 27_363,
        }
    }
}

/// Packet losses by location, in messages per second. A message is the unit that a sender passes to the kernel: a
/// burst of Interests, or up to 64 Data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Losses {
    /// Interests dropped at the full socket between consumers and forwarder.
    pub interest_socket: f64,
    /// Answers dropped at the forwarder's full socket towards the producer.
    pub answer_socket: f64,
    /// Interests rejected because of the queue delay (`CoDel`).
    pub shed: f64,
    /// Packets dropped at a full queue between two workers.
    pub between_workers: f64,
    /// Interests dropped at the producer's full socket.
    pub producer_socket: f64,
    /// Answers dropped at a consumer's full socket.
    pub consumer_socket: f64,
}

/// One row: a rate offered to the forwarder.
#[derive(Debug, Clone, Serialize)]
pub struct OverloadCase {
    /// Whether the forwarder takes Data and Nacks before Interests.
    pub answers_first: bool,
    /// Intended rate, in multiples of the sustainable one.
    pub ratio: f64,
    /// Interests sent per second.
    pub offered_per_s: f64,
    /// Interests satisfied per second, before the end of the stretch.
    pub satisfied_per_s: f64,
    /// The same over the maximum of the same mode; `None` if the generator was the limit, here or at the peak, or if
    /// the run is not valid.
    pub of_peak: Option<f64>,
    /// Share of the sent Interests that were satisfied before the end of the stretch.
    pub satisfied: f64,
    /// Interests per second ended by a Nack.
    pub nacked_per_s: f64,
    /// Share of the producer's Data that reached no consumer: wasted work.
    pub answers_lost: f64,
    /// Where packets were lost.
    pub losses: Losses,
    /// Median latency of satisfied Interests, from their scheduled sending time.
    pub p50_ms: f64,
    /// Its 99th percentile.
    pub p99_ms: f64,
    /// CPU time of the forwarder as a share of that of its processors.
    pub forwarder_busy: f64,
    /// CPU time of the producer as a share of the wall time. Consumers spin.
    pub producer_busy: f64,
    /// The generator was the limit: it sent less than 95 % of the intended rate, its sockets overflowed, or the
    /// producer was busy for more than 80 % of the time.
    pub generator_bound: bool,
    /// Rounds discarded because of more than 1 % steal time.
    pub rounds_discarded: usize,
}

/// Satisfied rate of one mode under overload, relative to its peak.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OverloadMode {
    /// Whether the forwarder takes Data and Nacks before Interests.
    pub answers_first: bool,
    /// Maximum of satisfied Interests per second.
    pub peak_per_s: f64,
    /// Share of the peak at 1.5 times the sustainable rate, if that was offered, the generator was not the limit, and
    /// the run is valid.
    pub of_peak_at_1_5: Option<f64>,
    /// The same at 3 times.
    pub of_peak_at_3: Option<f64>,
}

/// The rates for a number of workers and a size of Data.
#[derive(Debug, Clone, Serialize)]
pub struct OverloadRun {
    /// Workers of the forwarder.
    pub workers: usize,
    /// Bytes of content in a Data.
    pub payload: usize,
    /// Whether the sustainable rate is confirmed: with answers first, 90 % are satisfied in the row at it. If not,
    /// even after a second search, the multiples have no meaning. Without such a row the rate is not checked and
    /// counts as valid.
    pub valid: bool,
    /// Share of satisfied Interests in that row. Below 99 % the rate is too high, and the reported shares of the peak
    /// are lower bounds.
    pub satisfied_at_1: Option<f64>,
    /// The maximum rate in an open loop of which 99 % are satisfied before the end of the stretch, with answers
    /// first.
    pub sustainable_per_s: f64,
    /// Exchanges per second of a closed loop, for comparison.
    pub closed_loop_per_s: f64,
    /// Interests per second that the consumers can send while they receive the answers.
    pub generator_per_s: f64,
    /// Shares of the peaks.
    pub modes: Vec<OverloadMode>,
    /// The rows, by mode and rate.
    pub cases: Vec<OverloadCase>,
}

/// Report of one run of the bench.
#[derive(Debug, Clone, Serialize)]
pub struct OverloadReport {
    /// Always `overload`.
    pub bench: &'static str,
    /// The machine.
    pub machine: ndn_pipeline_bench::Machine,
    /// The processors of the workers, the producer and each consumer.
    pub cpus: Vec<usize>,
    /// Interests that a consumer sends at once.
    pub burst: usize,
    /// By number of workers and size of Data.
    pub runs: Vec<OverloadRun>,
}

impl OverloadCase {
    pub(super) fn is_at(&self, ratio: f64) -> bool {
        (self.ratio - ratio).abs() < 1e-9
    }

    /// Returns whether this row checks the sustainable rate.
    pub(super) fn is_touchstone(&self) -> bool {
        self.answers_first && self.is_at(1.0)
    }

    /// Returns whether this row does not refute that this share is satisfied at the sustainable rate.
    pub(super) fn bears_out(&self, satisfied_min: f64) -> bool {
        !self.is_touchstone() || self.satisfied >= satisfied_min
    }
}

impl OverloadMode {
    /// Completes and summarizes the rows of one mode.
    pub(super) fn of(rows: &mut [OverloadCase], answers_first: bool, is_valid: bool) -> Self {
        let peak = rows.iter().max_by(|a, b| a.satisfied_per_s.total_cmp(&b.satisfied_per_s));
        let peak_per_s = peak.map_or(0.0, |row| row.satisfied_per_s);
        // With a faster generator the peak might be higher.
        let is_peak = is_valid && peak.is_some_and(|row| !row.generator_bound);
        for row in rows.iter_mut() {
            let is_share = is_peak && !row.generator_bound;
            row.of_peak = is_share.then(|| row.satisfied_per_s / peak_per_s);
        }
        let at = |ratio: f64| rows.iter().find(|row| row.is_at(ratio)).and_then(|row| row.of_peak);
        Self { answers_first, peak_per_s, of_peak_at_1_5: at(1.5), of_peak_at_3: at(3.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_peak_of_the_mode() {
        let row = |ratio, satisfied_per_s| {
            crate::overload::plot::tests::case(true, ratio, satisfied_per_s)
        };
        let mut rows = vec![row(0.5, 50.0), row(1.5, 100.0), row(3.0, 80.0)];
        let mode = OverloadMode::of(&mut rows, true, true);
        assert_eq!((mode.of_peak_at_1_5, mode.of_peak_at_3), (Some(1.0), Some(0.8)));
        let shares = [0.5, 1.0, 0.8].map(Some);
        assert_eq!(rows.iter().map(|row| row.of_peak).collect::<Vec<_>>(), shares);
        assert_eq!(OverloadMode::of(&mut rows[..1], true, true).of_peak_at_3, None, "not offered");
    }

    #[test]
    fn shares_are_omitted_if_the_generator_or_the_search_failed() {
        let row = |ratio, satisfied_per_s| {
            crate::overload::plot::tests::case(true, ratio, satisfied_per_s)
        };
        let rows = [row(0.5, 50.0), row(1.5, 100.0), row(3.0, 80.0)];
        let shares = |bound: Option<usize>, is_valid| {
            let mut rows = rows.clone();
            bound.into_iter().for_each(|place| rows[place].generator_bound = true);
            let mode = OverloadMode::of(&mut rows, true, is_valid);
            assert_eq!(
                [mode.of_peak_at_1_5, mode.of_peak_at_3],
                [rows[1].of_peak, rows[2].of_peak]
            );
            (mode.of_peak_at_1_5, mode.of_peak_at_3)
        };
        assert_eq!(shares(None, false), (None, None));
        assert_eq!(shares(Some(2), true), (Some(1.0), None));
        assert_eq!(shares(Some(1), true), (None, None), "nobody knows the peak");
        assert_eq!(shares(Some(0), true), (Some(1.0), Some(0.8)));
    }

    #[test]
    fn only_the_row_at_the_sustainable_rate_can_refute_it() {
        let bears_out = |answers_first, ratio, satisfied| {
            let row = crate::overload::plot::tests::case(answers_first, ratio, 1e5);
            OverloadCase { satisfied, ..row }.bears_out(SUSTAINED_MIN)
        };
        assert!(bears_out(true, 1.0, 0.99) && !bears_out(true, 1.0, 0.98));
        assert!(bears_out(false, 1.0, 0.5) && bears_out(true, 1.25, 0.5));
    }
}
