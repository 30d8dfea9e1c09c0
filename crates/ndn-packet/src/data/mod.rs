//! Data packets (packet specification, section "Data Packet").

mod builder;
mod view;

pub use builder::DataBuilder;
pub use view::{ContentType, Data};
