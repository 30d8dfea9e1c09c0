//! UDP faces that follow their paths: the frame length that of the path MTU, the state that of the network device.
//!
//! The kernel discovers path MTUs: it sends datagrams up to the known MTU with "do not fragment" set and records the
//! routers' replies (RFC 1191, RFC 8201). It splits longer datagrams into IP fragments, which routers and firewalls
//! often drop. The control thread therefore reads the path MTU from the kernel when a face is created and
//! periodically afterwards, and the face splits packets into NDNLPv2 fragments of that length.
//!
//! A face is down while the kernel has no route to the peer, or while the network device of the route has no link.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ndn_sys::interface::interfaces;
use ndn_sys::udp::{is_shortage, udp_route};
use ndn_types::Timestamp;
use tracing::info;

use super::commands::FaceCommands;
use super::service::{Cx, Deadline, Event, Reason, Service, ServiceName};
use crate::config::Config;
use crate::faces::FaceSpec;
use crate::settings;

/// Poll interval.
const POLL_INTERVAL: Duration = Duration::from_secs(30);
/// Poll interval while a face has no path: routes come back after links and addresses.
const POLL_INTERVAL_WHILE_DOWN: Duration = Duration::from_secs(1);

/// Faces that follow their path MTU, and their frame lengths.
#[derive(Debug, Default)]
pub(super) struct PathMtus {
    faces: BTreeMap<u64, PathFace>,
    next_poll: Timestamp,
}

/// A face that follows its path MTU.
#[derive(Debug)]
struct PathFace {
    peer: SocketAddr,
    /// Frame length.
    length: usize,
    /// There is no path at the moment.
    is_down: bool,
    /// Not polled since it was requested: the face may still be in creation.
    is_new: bool,
}

impl PathFace {
    /// Returns whether the face continues to follow its path, given the MTU that the poll found for it (`None`: no
    /// such face). It stops once the face is gone or an operator has set an MTU.
    fn follows(&mut self, found: Option<Option<usize>>) -> bool {
        let is_new = std::mem::take(&mut self.is_new);
        found.map_or(is_new, |mtu| mtu == Some(self.length))
    }
}

impl Service for PathMtus {
    type Dataplane = dyn FaceCommands;
    const NAME: ServiceName = ServiceName::PathMtus;

    #[expect(clippy::wildcard_enum_match_arm, reason = "`Event::receivers` is exhaustive")]
    fn handle_event(&mut self, cx: &mut Cx<'_>, event: Event) -> Option<Event> {
        match event {
            Event::FollowPath { face_id, peer, length } => {
                if self.faces.is_empty() {
                    self.next_poll = cx.after(POLL_INTERVAL);
                }
                self.faces.insert(face_id, PathFace { peer, length, is_down: false, is_new: true });
                None
            }
            Event::LinksChanged => {
                self.next_poll = Timestamp::ZERO;
                Some(event)
            }
            other => other.unhandled(),
        }
    }

    fn next_deadline(&self) -> Option<Deadline> {
        (!self.faces.is_empty()).then_some((self.next_poll, Reason::PathMtu))
    }

    /// Polls the kernel and resizes the frames of faces whose path has changed.
    fn handle_timeout(&mut self, cx: &mut Cx<'_>, _: Reason) {
        let most = settings::mtu(&cx.config().faces);
        let down = addresses_without_link();
        self.faces.retain(|&face_id, followed| {
            let mtu = cx.faces().get(face_id).map(|face| face.options.link.mtu);
            if !followed.follows(mtu) {
                return false;
            }
            if mtu.is_none() {
                return true;
            }
            let PathFace { peer, length, is_down, .. } = followed;
            let route = match udp_route(*peer) {
                Err(error) if is_shortage(&error) => return true,
                found => found.ok().filter(|route| !down.contains(&route.source)),
            };
            if route.is_none() != *is_down {
                *is_down = route.is_none();
                cx.set_link(face_id, *is_down);
            }
            // Without a path, frames keep their length.
            let Some(route) = route else { return true };
            let now = longest(Some(route.payload_max), most);
            if now != *length {
                info!(face = face_id, %peer, before = *length, now, "MTU of the path changed");
                *length = now;
                cx.resize(face_id, now);
            }
            true
        });
        let is_any_down = self.faces.values().any(|face| face.is_down);
        let interval = if is_any_down { POLL_INTERVAL_WHILE_DOWN } else { POLL_INTERVAL };
        self.next_poll = cx.after(interval);
    }
}

/// The addresses of network interfaces that have no link.
fn addresses_without_link() -> Vec<IpAddr> {
    let interfaces = interfaces().unwrap_or_default();
    let down = interfaces.into_iter().filter(|interface| !interface.is_running);
    down.flat_map(|interface| interface.addresses).collect()
}

/// Returns the frame length of a new UDP face if it follows the path, whose maximum payload is `payload_max` if the
/// kernel knows it.
pub(super) fn frame_length(
    config: &Config,
    spec: &FaceSpec,
    payload_max: Option<usize>,
) -> Option<usize> {
    let follows = config.faces.path_mtu && spec.options.mtu.is_none();
    follows.then(|| longest(payload_max, settings::mtu(&config.faces)))
}

/// Frame length to a peer: the path's maximum payload, if known, limited to `most`.
fn longest(payload_max: Option<usize>, most: usize) -> usize {
    // A shorter path cannot carry NDN: every packet must fit into 400 fragments.
    const LEAST: usize = 256;
    payload_max.map_or(most, |payload_max| payload_max.max(LEAST).min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn face_in_creation_keeps_following_its_path() {
        let peer = "192.0.2.1:6363".parse().unwrap();
        let new = || PathFace { peer, length: 1472, is_down: false, is_new: true };
        let mut face = new();
        assert!(face.follows(None), "a look came in between");
        assert!(face.follows(Some(Some(1472))));
        assert!(!face.follows(None), "it is gone");
        let mut refused = new();
        assert!(refused.follows(None));
        assert!(!refused.follows(None), "it never came into being");
        assert!(!new().follows(Some(Some(1200))), "an operator has given it an MTU");
    }
}
