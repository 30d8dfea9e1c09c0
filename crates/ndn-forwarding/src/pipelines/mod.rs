//! Forwarding pipelines. See the NFD developer's guide, "Forwarding Pipelines".

mod copies;
mod cross_shard;
mod data;
mod finalize;
mod interest;
mod learning;
mod nack;
mod outgoing;
mod timer;

pub(crate) use data::Matches;
pub(crate) use finalize::Ending;
pub(crate) use outgoing::OutgoingData;
