//! Probes: copies of an Interest with their own Nonce.

use ndn_packet::Interest;
use ndn_table::{FaceIndex, PREFIX_HASHES_MAX, PitIndex};

use super::measurements::mix;
use super::{Context, PendingInterest};
use crate::TxPacket;
use crate::face_table::{FaceFlags, LinkState};

impl Context<'_> {
    /// Sends the Interest to `face` with another Nonce, so that it is not dropped as a loop where
    /// the paths meet. Returns false if that was not possible.
    pub(super) fn send_probe(
        &mut self,
        interest: &PendingInterest<'_>,
        face: FaceIndex,
        nonce: u32,
    ) -> bool {
        let mut is_sent = false;
        self.with_nonce(interest, nonce, |context, probe| {
            is_sent = context.send_interest(probe, face);
        });
        is_sent
    }

    /// Calls `act` with a copy of the Interest that has another Nonce.
    pub(crate) fn with_nonce(
        &mut self,
        interest: &PendingInterest<'_>,
        nonce: u32,
        act: impl FnOnce(&mut Self, &PendingInterest<'_>),
    ) {
        let wire = interest.packet.wire;
        let offset = Interest::parse(wire).ok().and_then(|view| view.nonce_offset());
        let Some(place) = offset.map(|offset| offset..offset + 4) else { return };
        let mut copy = std::mem::take(&mut self.tables.probe_scratch);
        copy.clear();
        copy.extend_from_slice(wire);
        if let Some(place) = copy.get_mut(place) {
            place.copy_from_slice(&nonce.to_be_bytes());
            let packet = TxPacket { wire: &copy, handle: None, ..interest.packet };
            act(self, &PendingInterest { packet, nonce, ..*interest });
        }
        self.tables.probe_scratch = copy;
    }

    /// Sends copies of a new Interest to the next hops that came back or are in doubt, until something arrives on them.
    #[cold]
    pub(crate) fn probe_uncertain(&mut self, interest: &PendingInterest<'_>) {
        for hop in interest.next_hops {
            let face = hop.face;
            let flags = self.find_permitted(interest, face);
            let link_state = flags.map(FaceFlags::link_state);
            if matches!(link_state, Some(LinkState::Returning | LinkState::Doubted))
                && self.out_record(interest.entry, face).is_none()
                && self.tables.faces.take_probe(face, self.now)
            {
                self.send_probe(interest, face, other_nonce(interest.nonce));
            }
        }
    }

    /// Hashes the prefixes of the name of a pending Interest; returns their number.
    pub(super) fn hash_name_of(
        &self,
        entry: PitIndex,
        hashes: &mut [u64; PREFIX_HASHES_MAX],
    ) -> usize {
        let Ok(interest) = Interest::parse(self.tables.pcct.interest(entry)) else { return 0 };
        self.tables.hasher.hash_prefixes(interest.name(), hashes).unwrap_or(0)
    }
}

/// A Nonce for a copy of an Interest.
pub(crate) fn other_nonce(nonce: u32) -> u32 {
    let [.., a, b, c, d] = mix(u64::from(nonce) | 1 << 32).to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}
