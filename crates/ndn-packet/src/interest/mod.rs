//! Interest packets (packet specification, section "Interest Packet").

mod builder;
mod forwarding_hint;
#[cfg(test)]
mod tests;
mod view;

pub use builder::InterestBuilder;
pub use forwarding_hint::ForwardingHint;
pub use view::{CommonInterest, Interest, ParametersDigest, PlainInterest};
