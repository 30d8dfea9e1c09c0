//! Benchmarks of the pipeline and of the whole forwarder.
#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "benches measure real time")]

mod access;
pub mod cli;
mod config_text;
mod control;
mod disk;
mod distance;
mod link;
mod live;
mod model;
mod overload;
mod page;
mod program;
mod relay;
mod started;
mod sync;
mod transfer;

pub use access::{
    AccessBenchOptions, AccessCase, AccessRatio, AccessReport, MissingWay, ReaderSource,
    run_access, run_reader,
};
pub use control::{ControlCostCase, ControlCostOptions, ControlCostReport, run_control_cost};
pub use disk::{DiskOptions, DiskReport, FioReport, run_disk};
pub use distance::{DistanceCase, DistanceOptions, DistanceReport, run_distance};
pub use link::{LinkCounters, LinkRelay, LinkRelayOptions, LinkReport};
pub use live::{IdleOptions, IdleReport, SkewCase, SkewOptions, SkewReport, run_idle, run_skew};
pub use model::{ModelCase, ModelOptions, ModelReport, VerdictCase, run_model};
pub use overload::{
    Losses, OverloadCase, OverloadMode, OverloadOptions, OverloadReport, OverloadRun, plot,
    run_overload,
};
pub use relay::{
    Change, CpuOfWorkers, ManagementCase, ManagementOptions, ManagementReport, Quartiles,
    RelayCase, RelayOptions, RelayReport, Transport, enter_namespace, relay_tcp, relay_udp,
    relay_unix, run_management, run_relay,
};
pub use started::end_started;
pub use sync::{SyncBenchOptions, SyncCase, SyncReport, run_sync};
pub use transfer::{
    CpuByProcess, TransferCase, TransferOptions, TransferRatio, TransferReport, run_transfer,
};
