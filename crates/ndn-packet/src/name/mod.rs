//! Names (packet specification, section "Name").

mod component;
mod convention;
mod name_ref;
mod owned;
mod scanner;
#[cfg(test)]
mod tests;
mod uri;

pub use component::{Component, ComponentType};
pub use convention::Convention;
pub use name_ref::{Components, NameRef};
pub use owned::Name;
pub(crate) use scanner::NameScan;
pub use scanner::{NameScanner, RawComponent, SHORT_COMPONENT_LEN_MAX};

/// The largest number of components a name may have here; what fits a packet of
/// [`crate::MAX_PACKET_SIZE`] bytes is always accepted. A forwarder sets its own, smaller limit.
pub const MAX_COMPONENTS: usize = u16::MAX as usize;
