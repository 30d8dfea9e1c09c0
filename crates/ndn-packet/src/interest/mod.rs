//! Interest packets (packet specification, section "Interest Packet").

mod builder;
#[cfg(test)]
mod builder_tests;
mod forwarding_hint;
mod nonce;
#[cfg(test)]
mod tests;
mod view;

pub use builder::InterestBuilder;
pub use forwarding_hint::ForwardingHint;
pub use view::{Interest, ParametersDigest};
