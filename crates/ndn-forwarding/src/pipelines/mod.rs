//! Forwarding pipelines. See the NFD developer's guide, "Forwarding Pipelines".

mod aside;
mod copies;
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
