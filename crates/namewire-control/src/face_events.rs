//! Events of faces, for programs that embed the forwarder.

use std::fmt;

use serde::Serialize;

/// A face was created, destroyed, or went up or down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FaceEvent {
    /// `created`, `destroyed`, `up` or `down`.
    pub kind: String,
    /// The face.
    pub face_id: u64,
    /// URI of its peer.
    pub remote_uri: String,
    /// URI of its own end.
    pub local_uri: String,
    /// `on-demand`, `persistent` or `permanent`.
    pub persistency: String,
}

/// A receiver of events of faces. The control thread calls it for each event, so it must not wait. It returns false when it
/// needs no further events.
pub struct FaceEventSink(pub Box<dyn FnMut(FaceEvent) -> bool + Send>);

impl fmt::Debug for FaceEventSink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("FaceEventSink")
    }
}
