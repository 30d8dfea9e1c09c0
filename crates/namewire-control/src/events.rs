//! Events of faces and routes, for programs that embed the forwarder.

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

/// A route or the strategy of a name has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RoutingEvent {
    /// `route-added`, `route-changed`, `route-removed`, `strategy-set`, `strategy-unset`, or `more`: further changes that have
    /// no event each, because there were too many at once.
    pub kind: String,
    /// The prefix.
    pub name: String,
    /// Next hop of the route.
    pub face_id: Option<u64>,
    /// Origin of the route.
    pub origin: Option<String>,
    /// Cost of the route.
    pub cost: Option<u64>,
    /// The strategy that was set.
    pub strategy: Option<String>,
}

/// A receiver of events. The control thread calls it for each event, so it must not wait. It returns false when it needs no
/// further events.
pub struct EventSink<E>(pub Box<dyn FnMut(E) -> bool + Send>);

impl<E> fmt::Debug for EventSink<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("EventSink")
    }
}
