//! Interest packets (packet specification, section "Interest Packet").

mod builder;
mod view;

pub use builder::InterestBuilder;
pub use view::{ForwardingHint, Interest, ParametersDigest};
