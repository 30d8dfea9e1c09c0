//! Which faces a worker may have: their numbers, and the limits of those that peers make by sending.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ndn_face::{FaceOptions, LinkOptions, OnDemandPeer, OnDemandSettings, PeerKey, PortId};
use ndn_forwarding::FaceProperties;
use ndn_table::FaceIndex;
use ndn_types::{Persistency, PrincipalKey, Scope, Timestamp};

use crate::faces::FaceNumbers;
use crate::options::OnDemandOptions;

/// Minimum time between two reports of a rejected peer to the control thread: addresses are easily forged.
const REJECTION_REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// A principal or device that was refused a face is refused others for this time without asking: all workers share the
/// lock, and frames without a face may be as many as the line carries.
const REFUSAL_TIME: Duration = Duration::from_millis(10);
/// Number of refused principals and devices that are remembered.
const REFUSALS_MAX: u64 = 256;

/// The limit at which a face was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Refused {
    /// The limit of a principal, or of all faces.
    Principal(PrincipalKey),
    /// The limit of stations of a network device. Their addresses may be forged, a new one for each frame.
    Device(PortId),
}

/// Principals and devices that were refused a face a short time ago.
#[derive(Debug)]
pub(crate) struct Refusals(Vec<(Refused, Timestamp)>);

impl Refusals {
    /// None.
    pub(crate) fn new() -> Self {
        let none = (Refused::Principal(PrincipalKey::OTHER), Timestamp::ZERO);
        Self((0..REFUSALS_MAX).map(|_| none).collect())
    }

    fn place(refused: Refused) -> usize {
        let mut hasher = DefaultHasher::new();
        refused.hash(&mut hasher);
        usize::try_from(hasher.finish() % REFUSALS_MAX).unwrap_or_default()
    }

    fn includes(&self, refused: Refused, now: Timestamp) -> bool {
        let (remembered, until) = self.0[Self::place(refused)];
        remembered == refused && now < until
    }

    pub(super) fn note(&mut self, refused: Refused, now: Timestamp) {
        self.0[Self::place(refused)] = (refused, now.plus(REFUSAL_TIME));
    }
}

/// Admission of faces to one worker.
#[derive(Debug)]
pub(crate) struct FaceAdmission {
    pub(crate) numbers: FaceNumbers,
    pub(crate) on_demand: OnDemandOptions,
    pub(crate) next_face_id: Arc<AtomicU64>,
    /// Time of the next report of a rejected peer.
    pub(crate) next_rejection_report: Timestamp,
    pub(crate) refusals: Refusals,
}

impl FaceAdmission {
    /// A FaceId that was never used.
    pub(super) fn new_face_id(&self) -> u64 {
        self.next_face_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether there is no on-demand face for a peer, as far as this worker knows. Takes no lock.
    pub(super) fn refuses(&self, key: PeerKey, peer: &OnDemandPeer, now: Timestamp) -> bool {
        let is_refused = |refused| self.refusals.includes(refused, now);
        !peer.has_room
            || self.numbers.is_full()
            || key.device().is_some_and(|port| is_refused(Refused::Device(port)))
            || is_refused(Refused::Principal(peer.principal))
    }

    /// FaceId and index for an on-demand face; none if a limit is reached.
    pub(super) fn allocate_for_peer(
        &mut self,
        key: PeerKey,
        peer: &OnDemandPeer,
        now: Timestamp,
    ) -> Option<(u64, FaceIndex)> {
        let principal = peer.principal;
        if self.refuses(key, peer, now) {
            return None;
        }
        let face_id = self.new_face_id();
        let index = self.numbers.allocate(face_id, principal);
        if index.is_none() {
            self.refusals.note(Refused::Principal(principal), now);
        }
        Some((face_id, index?))
    }

    /// Frees the number of a face that has closed.
    pub(super) fn release(&mut self, index: FaceIndex) {
        self.numbers.release(index);
    }

    /// Whether to report a rejected peer now.
    pub(super) fn reports_rejection(&mut self, now: Timestamp) -> bool {
        let is_due = now >= self.next_rejection_report;
        if is_due {
            self.next_rejection_report = now.plus(REJECTION_REPORT_INTERVAL);
        }
        is_due
    }

    /// Options of an on-demand face.
    pub(super) fn peer_options(&self, face_id: u64, peer: &OnDemandPeer) -> FaceOptions {
        let OnDemandOptions { mtu, link, idle_timeout, pit_tokens, .. } = self.on_demand;
        let properties = FaceProperties {
            pit_tokens,
            principal: peer.principal,
            ..FaceProperties::point_to_point(face_id, Scope::NonLocal)
        };
        let worker = FaceOptions {
            link,
            idle_timeout: Some(idle_timeout),
            ..FaceOptions::datagram(properties, Persistency::OnDemand, mtu)
        };
        match peer.settings {
            None => worker,
            Some(OnDemandSettings { mtu, idle_timeout }) => FaceOptions {
                link: LinkOptions { mtu: Some(mtu), ..link },
                idle_timeout: Some(idle_timeout),
                ..worker
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_is_remembered_for_a_while_and_for_its_principal_or_device_only() {
        let peer =
            |last| Refused::Principal(PrincipalKey::remote(([192, 0, 2, last], 6363).into()));
        let mut refusals = Refusals::new();
        let at = Timestamp::from_millis;
        assert!(!refusals.includes(Refused::Principal(PrincipalKey::OTHER), at(0)));
        let device = |port| Refused::Device(PortId(port));
        refusals.note(device(1), at(5));
        assert!(refusals.includes(device(1), at(14)) && !refusals.includes(device(1), at(15)));
        assert!(!refusals.includes(device(2), at(6)));
        refusals.note(peer(1), at(5));
        assert!(refusals.includes(peer(1), at(14)) && !refusals.includes(peer(1), at(15)));
        for last in 2..=255 {
            assert!(!refusals.includes(peer(last), at(6)));
            refusals.note(peer(last), at(6));
            assert!(refusals.includes(peer(last), at(6)), "the last one is remembered");
        }
    }
}
