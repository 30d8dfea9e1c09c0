//! Interest packets (packet specification, section "Interest Packet").

mod builder;
#[cfg(test)]
mod builder_tests;
mod forwarding_hint;
mod nonce;
#[cfg(test)]
mod order_tests;
mod parameters;
#[cfg(test)]
mod tests;
mod view;

pub use builder::InterestBuilder;
pub use forwarding_hint::ForwardingHint;
pub use parameters::ParametersDigest;
pub use view::Interest;
