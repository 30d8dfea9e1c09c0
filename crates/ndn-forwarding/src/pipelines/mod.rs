//! Forwarding pipelines. See the NFD developer's guide, "Forwarding Pipelines".

mod copies;
mod cross_shard;
mod data;
mod eviction;
mod finalize;
mod interest;
mod learning;
mod nack;
mod outgoing;
mod sweep;
mod timer;

pub(crate) use data::Matches;
pub(crate) use finalize::Ending;
pub(crate) use sweep::Sweep;
