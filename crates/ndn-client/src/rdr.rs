//! Names of the Realtime Data Retrieval protocol.

use ndn_packet::Component;

/// Keyword component of metadata.
pub(crate) const METADATA: Component<'static> = Component::keyword(b"metadata");
