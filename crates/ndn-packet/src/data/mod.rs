//! Data packets (packet specification, section "Data Packet").

mod builder;
#[cfg(test)]
mod tests;
mod view;

pub use builder::DataBuilder;
pub use view::{CommonData, ContentType, Data, DataLayout, PlainData};
