//! Devices that carry Ethernet faces.

use ndn_management::Now;

use super::{Control, resize};
use crate::ethernet::{Context, OwnPort};

impl Control {
    /// Makes faces on devices that have drivers of their own.
    pub(super) fn add_own_ports(&mut self, own: Vec<OwnPort>) {
        let now = self.now();
        let Self { ethernet, config, dataplane, .. } = self;
        let mut context = Context { now_ns: now.monotonic_ns, config, dataplane };
        own.into_iter().for_each(|port| ethernet.add_own(port, &mut context));
    }

    pub(super) fn look_at_ethernet(&mut self, now: Now) {
        let Self { ethernet, config, dataplane, faces, state, .. } = self;
        let mut context = Context { now_ns: now.monotonic_ns, config, dataplane };
        let has_face = |name: &str| faces.values().any(|face| face.interface() == Some(name));
        ethernet.look(&mut context, has_face);
        for resized in ethernet.take_resized() {
            for (&face_id, face) in faces.iter_mut() {
                let is_on_it = face.interface() == Some(&resized.name);
                let length = resized.frame_length(face.options.link.mtu).filter(|_| is_on_it);
                if let Some(length) = length {
                    resize(state, dataplane, face_id, face, length);
                }
            }
        }
    }
}
