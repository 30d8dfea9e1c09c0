//! Which faces a worker may have: their numbers, and the limits of those that peers make by sending.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ndn_face::{FaceOptions, LinkOptions, OnDemandPeer, OnDemandSettings};
use ndn_forwarding::{FaceProperties, Scope};
use ndn_table::{FaceIndex, Timestamp};
use ndn_types::Persistency;

use crate::faces::FaceNumbers;
use crate::options::OnDemandOptions;

/// Minimum time between two reports of a rejected peer to the control thread: addresses are easily forged.
const REJECTION_REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Admission of faces to one worker.
#[derive(Debug)]
pub(crate) struct FaceAdmission {
    pub(crate) numbers: FaceNumbers,
    pub(crate) on_demand: OnDemandOptions,
    pub(crate) next_face_id: Arc<AtomicU64>,
    /// Time of the next report of a rejected peer.
    pub(crate) next_rejection_report: Timestamp,
}

impl FaceAdmission {
    /// A FaceId that was never used.
    pub(super) fn new_face_id(&self) -> u64 {
        self.next_face_id.fetch_add(1, Ordering::Relaxed)
    }

    /// An index for an on-demand face; none if a limit is reached.
    pub(super) fn allocate_for_peer(
        &mut self,
        peer: &OnDemandPeer,
        face_id: u64,
    ) -> Option<FaceIndex> {
        if !peer.has_room {
            return None;
        }
        self.numbers.allocate(face_id, peer.principal)
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
