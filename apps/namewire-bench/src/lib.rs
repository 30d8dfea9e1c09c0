//! Benchmarks of the pipeline and of the whole forwarder.
#![forbid(unsafe_code)]

pub mod cli;
mod config_text;
mod distance;
mod link;
mod live;
mod machine;
mod model;
mod overload;
mod pipeline;
mod program;
mod relay;
mod started;
mod transfer;

pub use distance::{DistanceCase, DistanceOptions, DistanceReport, run_distance};
pub use link::{LinkCounters, LinkRelay, LinkRelayOptions, LinkReport};
pub use live::{IdleOptions, IdleReport, SkewCase, SkewOptions, SkewReport, run_idle, run_skew};
pub use machine::Machine;
pub use model::{ModelCase, ModelOptions, ModelReport, VerdictCase, run_model};
pub use overload::{
    Losses, OverloadCase, OverloadMode, OverloadOptions, OverloadReport, OverloadRun, plot,
    run_overload,
};
pub use pipeline::{
    Arrival, PipelineCase, PipelineOptions, PipelineReport, ShardsCase, ShardsReport, TraceCase,
    TraceReport, run_in_turn, run_pipeline, run_shards, run_trace_cost,
};
pub use relay::{
    Change, CpuOfWorkers, ManagementCase, ManagementOptions, ManagementReport, Quartiles,
    RelayCase, RelayOptions, RelayReport, Transport, enter_namespace, relay_tcp, relay_udp,
    relay_unix, run_management, run_relay,
};
pub use started::end_started;
pub use transfer::{
    CpuByProcess, TransferCase, TransferOptions, TransferRatio, TransferReport, run_transfer,
};

/// The median; NaN for an empty iterator.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}
