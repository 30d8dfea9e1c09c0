//! From measured runs of the real forwarder to a model of it.
//!
//! Each run of a campaign has a [`Setting`] and shows how much processor time the workers used for how many
//! Interests. Processor time, unlike elapsed time, does not count what other programs of the machine take.
//! A linear model of the time per Interest in the number of sleeps, name components, payload, hits, FIB size and
//! crossings between workers gives the means; histograms of service times give the shape of their distribution and
//! how the means divide between the stages. Pauses of the host are a process of their own ([`pauses`](crate::pauses)): times as
//! long are not in the distribution, and what pauses take of processor time is not in the means. The uncertainty is that
//! of a bootstrap over whole runs: packets of one run share caches and disturbances, runs in random order do not.
//!
//! | module | contents |
//! |---|---|
//! | `run` | the record of a run |
//! | `selection` | the runs that an estimate uses |
//! | `effects`, `cost` | the linear model of processor time, and its fit to runs |
//! | `least_squares`, `censored`, `order_statistics` | the statistics behind them |
//! | `transfer` | the time of a cache line between processors |
//! | `service_times` | shares of the stages, shapes of distributions |
//! | `throughput`, `latency` | corrections by what the model does not explain |
//! | `calibration`, `ranges` | the parameters, their file, and the ranges that were measured |
//! | `slowdown`, `uncertainty` | the machine during a run, deviations and intervals |
//! | `packet_times`, `model_text` | times of packets, model files |
//! | `prediction`, `capacity`, `long_time` | simulation of runs, search for capacities of runs, and for long |
//! | `estimate` | all parameters from the runs of a campaign |

mod calibration;
mod capacity;
mod censored;
mod cost;
mod effects;
mod error;
mod estimate;
mod latency;
mod least_squares;
mod long_time;
mod model_text;
mod order_statistics;
mod packet_times;
mod prediction;
mod ranges;
mod run;
mod selection;
mod service_times;
mod slowdown;
#[cfg(test)]
mod test_campaign;
mod throughput;
mod transfer;
mod uncertainty;

pub use calibration::{Calibration, probe_effect};
pub use capacity::{CapacityOfRuns, CapacitySearch};
pub use effects::EFFECTS;
pub use error::CalibrateError;
pub use estimate::calibrate;
pub use latency::{Discrepancy, LatencyFactors};
pub use long_time::LongTimeCapacity;
pub use model_text::model_text;
pub use order_statistics::half_width;
pub use packet_times::{PacketTime, PacketTimes};
pub use prediction::{ModelOfRun, Prediction};
pub use ranges::Ranges;
pub use run::{
    Disturbance, FACES, Histogram, Host, PREFIXES, QueueLength, QueueLengths, Rig, Run,
    STALL_MIN_NS, ServiceTimes, Setting, Stalls,
};
pub use selection::{LeftOut, LeftOutReason, why_unusable, why_without_latency};
pub use service_times::Shape;
pub use slowdown::Slowdown;
pub use throughput::{Ranks, RunCapacity, Throughput};
pub use transfer::TransferInfluence;
pub use uncertainty::Uncertainty;
