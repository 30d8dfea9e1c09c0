//! The benchmark page: a line of three nodes, A, F and B, as NDN-DPDK measures it. F is a forwarder; A and B produce and
//! fetch content through it. Each trial starts all of them anew.

mod api;
mod export;
mod fetch_node;
mod figures;
mod get_node;
mod history;
mod node_tasks;
mod nodes;
mod plan;
mod record;
mod remote;
mod service;
mod transfer;
mod trial;

pub(crate) use api::ApiOptions;
pub(crate) use export::{csv, html, microseconds, svg};
pub(crate) use fetch_node::{Figures, Order, Reported, run_fetch_node};
pub(crate) use get_node::run_get_node;
pub(crate) use history::{History, LIST_LEN, default_file};
pub(crate) use nodes::{Consumer, start_until};
pub(crate) use plan::{
    CongestionKind, ConsumerKind, InterestPattern, PageTransport, Peers, Plan, ProducerKind,
    Traffic,
};
pub(crate) use record::{Record, State, Statistic, Summary, compared, listed};
pub(crate) use remote::{Elsewhere, RemoteOptions};
pub(crate) use service::BenchSite;
pub(crate) use trial::{Progress, run_trials};

/// Milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    crate::relay::clock::wall_ns() / 1_000_000
}
