//! Figures of trials, and how they follow from those of consumers.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::fetch_node::{Figures, Latency};
use super::plan::Node;

/// The reason of a benchmark that was stopped.
pub(super) const STOPPED: &str = "stopped";

/// Figures of one direction of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct DirectionFigures {
    /// `A` or `B`.
    pub(crate) producer: char,
    /// `B` or `A`.
    pub(crate) consumer: char,
    /// Data received, each once.
    pub(crate) data: u64,
    /// Their content in bytes.
    pub(crate) content_bytes: u64,
    /// Data per second.
    pub(crate) data_per_s: f64,
    /// Content bits per second.
    pub(crate) goodput_bit_per_s: f64,
    /// Interests sent.
    pub(crate) interests: u64,
    /// Interests that were sent for a segment again.
    pub(crate) retransmissions: u64,
    /// Retransmissions relative to Interests.
    pub(crate) loss: f64,
    /// Nacks received.
    pub(crate) nacks: u64,
    /// Data with a congestion mark.
    pub(crate) marks: u64,
    /// Latency of Interests that were sent once; zero for transfers, which do not measure it.
    pub(crate) latency: Latency,
}

/// CPU time of each node for one Data of the trial, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CpuPerData {
    /// Node A.
    pub(crate) a_us: f64,
    /// The forwarder F.
    pub(crate) f_us: f64,
    /// Node B.
    pub(crate) b_us: f64,
}

/// Datagrams that the link emulator dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LinkLosses {
    /// Lost at random.
    pub(crate) lost: u64,
    /// Not taken by the queue.
    pub(crate) overflowed: u64,
}

/// A trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Trial {
    /// Start, in milliseconds since 1970.
    pub(crate) unix_ms: u64,
    /// Measured time.
    pub(crate) seconds: f64,
    /// Data per second, of all directions.
    pub(crate) data_per_s: f64,
    /// Content bits per second, of all directions.
    pub(crate) goodput_bit_per_s: f64,
    /// By direction.
    pub(crate) directions: Vec<DirectionFigures>,
    /// CPU time for a Data.
    pub(crate) cpu_per_data: CpuPerData,
    /// Losses of the link emulator, if there is one.
    pub(crate) link: Option<LinkLosses>,
    /// Interests that F answered from its Content Store; `None` for other programs.
    #[serde(default)]
    pub(crate) cache_hits: Option<u64>,
}

/// Figures of one direction while a trial runs, of the last quarter of a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct LiveDirection {
    /// `A` or `B`.
    pub(crate) producer: char,
    /// Data per second.
    pub(crate) data_per_s: f64,
    /// Content bits per second.
    pub(crate) goodput_bit_per_s: f64,
    /// Retransmissions relative to Interests.
    pub(crate) loss: f64,
    /// Windows of all fetches, in Interests.
    pub(crate) window: u64,
    /// Latency.
    pub(crate) latency: Latency,
}

pub(super) fn live_direction(producer: Node, before: &Figures, now: &Figures) -> LiveDirection {
    let seconds = (now.elapsed_ms - before.elapsed_ms) / 1e3;
    let interests = now.interests - before.interests;
    LiveDirection {
        producer: producer.letter(),
        data_per_s: float(now.data - before.data) / seconds,
        goodput_bit_per_s: float(now.bytes - before.bytes) * 8.0 / seconds,
        loss: share(now.retransmissions - before.retransmissions, interests),
        window: now.window,
        latency: now.latency,
    }
}

pub(super) fn direction_figures(
    producer: Node,
    consumer: Node,
    figures: &Figures,
) -> DirectionFigures {
    let seconds = figures.elapsed_ms / 1e3;
    DirectionFigures {
        producer: producer.letter(),
        consumer: consumer.letter(),
        data: figures.data,
        content_bytes: figures.bytes,
        data_per_s: float(figures.data) / seconds,
        goodput_bit_per_s: float(figures.bytes) * 8.0 / seconds,
        interests: figures.interests,
        retransmissions: figures.retransmissions,
        loss: share(figures.retransmissions, figures.interests),
        nacks: figures.nacks,
        marks: figures.marks,
        latency: figures.latency,
    }
}

pub(super) fn per_data(before: [Duration; 3], after: [Duration; 3], data: u64) -> CpuPerData {
    let of = |at: usize| {
        let used = after[at].saturating_sub(before[at]).as_secs_f64() * 1e6;
        if data == 0 { 0.0 } else { used / float(data) }
    };
    CpuPerData { a_us: of(0), f_us: of(1), b_us: of(2) }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { float(part) / float(whole) }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a trial, for rates")]
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_cover_the_time_between_two_lines() {
        let before = Figures {
            elapsed_ms: 250.0,
            data: 10,
            bytes: 100,
            interests: 20,
            ..Figures::default()
        };
        let now = Figures {
            elapsed_ms: 500.0,
            data: 20,
            bytes: 200,
            interests: 40,
            retransmissions: 5,
            ..before
        };
        let live = live_direction(Node::B, &before, &now);
        assert_eq!((live.producer, live.data_per_s, live.goodput_bit_per_s), ('B', 40.0, 3200.0));
        assert_eq!(live.loss, 0.25);
        let whole = direction_figures(Node::A, Node::B, &now);
        assert_eq!((whole.data_per_s, whole.goodput_bit_per_s, whole.loss), (40.0, 3200.0, 0.125));
    }

    #[test]
    fn cpu_time_is_divided_by_the_data_of_all_directions() {
        let ms = Duration::from_millis;
        let cpu = per_data([ms(1), ms(2), ms(3)], [ms(2), ms(4), ms(6)], 1000);
        assert_eq!((cpu.a_us, cpu.f_us, cpu.b_us), (1.0, 2.0, 3.0));
        assert_eq!(per_data([ms(0); 3], [ms(1); 3], 0), CpuPerData::default());
    }
}
