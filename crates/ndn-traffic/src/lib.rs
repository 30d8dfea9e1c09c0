#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod consumer;
pub mod io;
mod outstanding;
mod producer;
mod random;
mod scenario;
mod template;
mod wire;

pub use consumer::{Consumer, ConsumerTotals, NackCounts, PatternCounters};
pub use producer::{Producer, ProducerCounters};
pub use scenario::{
    Arrivals, ConsumerPattern, ConsumerScenario, Load, Names, ProducerPattern, ProducerScenario,
    ScenarioError,
};
