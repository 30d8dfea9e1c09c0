//! UDP faces whose frames are no longer than the path takes whole.
//!
//! The kernel discovers what paths take: it sends what is no longer than it knows of with "do not fragment" set, and
//! remembers what routers say (RFC 1191, RFC 8201). Longer datagrams it cuts into IP fragments, which routers and
//! firewalls like to drop. So the kernel is asked when a face is made, and now and then, and the face cuts
//! packets into NDNLPv2 fragments of that length.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use ndn_dataplane::Command;
use ndn_sys::udp::udp_route;
use tracing::info;

use super::Control;
use crate::run::faces::Wanted;
use crate::run::settings;

/// How often the kernel is asked.
const LOOK: Duration = Duration::from_secs(30);

/// The faces that follow their path, and the length of their frames.
#[derive(Debug, Default)]
pub(super) struct PathMtus {
    faces: BTreeMap<u64, (SocketAddr, usize)>,
    next_look_ns: u64,
}

impl PathMtus {
    pub(super) fn next_deadline_ns(&self) -> Option<u64> {
        (!self.faces.is_empty()).then_some(self.next_look_ns)
    }
}

impl Control {
    /// The length of frames to `peer`, of a face that is made as `wanted`, if it is to follow the path.
    pub(super) fn path_mtu(
        &mut self,
        face_id: u64,
        peer: SocketAddr,
        wanted: &Wanted,
        now_ns: u64,
    ) -> Option<usize> {
        if !self.config.faces.path_mtu || wanted.options.mtu.is_some() {
            return None;
        }
        let length = longest(peer, settings::mtu(&self.config.faces));
        if self.paths.faces.is_empty() {
            self.paths.next_look_ns = now_ns + nanos(LOOK);
        }
        self.paths.faces.insert(face_id, (peer, length));
        Some(length)
    }

    /// Asks the kernel again, and gives faces other lengths where the path has changed.
    pub(super) fn look_at_paths(&mut self, now_ns: u64) {
        if self.paths.faces.is_empty() || now_ns < self.paths.next_look_ns {
            return;
        }
        self.paths.next_look_ns = now_ns + nanos(LOOK);
        let most = settings::mtu(&self.config.faces);
        let Self { paths, faces, dataplane, .. } = self;
        paths.faces.retain(|&face_id, (peer, length)| {
            // One that is gone, or that an operator has given an MTU.
            let Some(face) = faces.get_mut(&face_id) else { return false };
            if face.options.link.mtu != Some(*length) {
                return false;
            }
            let now = longest(*peer, most);
            if now != *length {
                info!(face = face_id, %peer, before = *length, now, "the path takes other frames");
                *length = now;
                face.options.link.mtu = Some(now);
                let options = Box::new(face.options);
                dataplane.send(Command::UpdateFace { face_id, options });
            }
            true
        });
    }
}

/// The length of frames to a peer: what the path takes, if the kernel knows a way, and no more than `most`.
fn longest(peer: SocketAddr, most: usize) -> usize {
    // Less than that would be no path for NDN: every packet has to fit 400 fragments.
    const LEAST: usize = 256;
    udp_route(peer).map_or(most, |route| route.payload_max.max(LEAST).min(most))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
