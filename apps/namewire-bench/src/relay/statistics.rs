//! System calls of a program under test, and packets per call.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use ndn_traffic::io::Calls;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Answer to `statistics` on the control socket of `namewire run`; the dumb relay sends the same.
#[derive(Debug, Serialize, Deserialize)]
struct StatisticsResponse<T> {
    result: Workers<T>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Workers<T> {
    workers: Vec<T>,
}

/// Returns the counters of each worker from the control socket at `path`.
///
/// # Errors
/// No program answers, or the answer is malformed.
pub(crate) fn ask_workers<T: DeserializeOwned>(path: &Path) -> anyhow::Result<Vec<T>> {
    let stream = UnixStream::connect(path).with_context(|| path.display().to_string())?;
    ask_workers_by(&stream)
}

fn ask_workers_by<T: DeserializeOwned>(mut stream: &UnixStream) -> anyhow::Result<Vec<T>> {
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.write_all(b"{\"method\":\"statistics\"}\n")?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    let answer: StatisticsResponse<T> = serde_json::from_str(&line).context("no statistics")?;
    Ok(answer.result.workers)
}

/// Quartiles of a repeated measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Quartiles {
    /// First quartile.
    pub lower: f64,
    /// Median.
    pub median: f64,
    /// Third quartile.
    pub upper: f64,
    /// Number of measurements.
    pub count: usize,
}

impl Quartiles {
    /// Quartiles of `figures`, if there are any.
    pub(crate) fn of(mut figures: Vec<f64>) -> Option<Self> {
        figures.sort_by(f64::total_cmp);
        let count = figures.len();
        let at = |quarter: usize| figures.get(quarter * count.saturating_sub(1) / 4).copied();
        Some(Self {
            lower: at(1)?,
            median: ndn_pipeline_bench::median(figures.iter().copied()),
            upper: at(3)?,
            count,
        })
    }
}

/// System call counters of an endpoint or a program.
pub(super) trait CallFigures: Sized {
    /// Requests the counters from the socket at `path`.
    ///
    /// # Errors
    /// No program answers.
    fn ask(path: &Path) -> anyhow::Result<Self>;

    fn ask_by(stream: &UnixStream) -> anyhow::Result<Self>;

    /// Answers a client after its request.
    ///
    /// # Errors
    /// The client has gone or sends no request.
    fn answer(self, stream: &UnixStream) -> io::Result<()>;

    /// Returns the counts since `earlier`.
    fn since(self, earlier: Self) -> Self;

    /// Packets per receiving system call, and per sending one.
    fn packets_per_call(self) -> (f64, f64);
}

impl CallFigures for Calls {
    fn ask(path: &Path) -> anyhow::Result<Self> {
        let stream = UnixStream::connect(path).with_context(|| path.display().to_string())?;
        Self::ask_by(&stream)
    }

    fn ask_by(stream: &UnixStream) -> anyhow::Result<Self> {
        Ok(ask_workers_by(stream)?.into_iter().fold(Self::default(), Self::plus))
    }

    fn answer(self, mut stream: &UnixStream) -> io::Result<()> {
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        BufReader::new(stream).read_line(&mut String::new())?;
        let mut line =
            serde_json::to_vec(&StatisticsResponse { result: Workers { workers: vec![self] } })?;
        line.push(b'\n');
        stream.write_all(&line)
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            receive_calls: self.receive_calls - earlier.receive_calls,
            received_frames: self.received_frames - earlier.received_frames,
            send_calls: self.send_calls - earlier.send_calls,
            sent_frames: self.sent_frames - earlier.sent_frames,
        }
    }

    fn packets_per_call(self) -> (f64, f64) {
        let ratio = |packets, calls: u64| to_f64(packets) / to_f64(calls.max(1));
        (ratio(self.received_frames, self.receive_calls), ratio(self.sent_frames, self.send_calls))
    }
}

/// Converts a count for arithmetic.
#[expect(clippy::cast_precision_loss, reason = "figures of a benchmark, far below 2^53")]
pub(super) fn to_f64(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_decoded_by_the_client() {
        let (near, far) = UnixStream::pair().unwrap();
        let calls = Calls { receive_calls: 3, received_frames: 12, send_calls: 2, sent_frames: 11 };
        let answering = std::thread::spawn(move || calls.answer(&far).unwrap());
        let received = Calls::ask_by(&near).unwrap();
        answering.join().unwrap();
        assert_eq!(received, calls);
        let earlier = Calls { receive_calls: 1, received_frames: 2, send_calls: 1, sent_frames: 1 };
        assert_eq!(received.since(earlier).packets_per_call(), (5.0, 10.0));
        assert!(Calls::ask_by(&near).is_err(), "the other side is gone");
    }
}
