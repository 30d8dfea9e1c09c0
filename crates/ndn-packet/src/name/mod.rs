//! Names (packet specification, section "Name").

mod component;
mod convention;
mod name_types;
mod scanner;
#[cfg(test)]
mod tests;

pub use component::{Component, ComponentType};
pub use convention::Convention;
pub use name_types::{Components, Name, NameRef};
pub(crate) use scanner::NameScan;
pub use scanner::{CommonComponents, NameScanner, RawComponent, SHORT_COMPONENT_LEN_MAX};

/// Maximum number of components in a name; a packet of [`crate::MAX_PACKET_SIZE`] bytes never
/// exceeds it. A forwarder sets its own, smaller limit.
pub const MAX_COMPONENTS: usize = u16::MAX as usize;
