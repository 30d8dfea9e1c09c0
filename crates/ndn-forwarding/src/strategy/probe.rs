//! Probes: copies of an Interest with their own Nonce.

use ndn_packet::Interest;
use ndn_table::{FaceIndex, PREFIX_HASHES_MAX, PitIndex};

use super::{Context, InterestPacket, PendingInterest};

impl Context<'_> {
    /// Sends the Interest to `face` with another Nonce, so that it is not dropped as a loop where
    /// the paths meet. Returns false if that was not possible.
    pub(super) fn send_probe(
        &mut self,
        interest: &PendingInterest<'_>,
        face: FaceIndex,
        nonce: u32,
    ) -> bool {
        let wire = interest.packet.wire;
        let offset = Interest::parse(wire).ok().and_then(|view| view.nonce_offset());
        let Some(place) = offset.map(|offset| offset..offset + 4) else { return false };
        // Free to use while an Interest is forwarded.
        let mut copy = std::mem::take(&mut self.tables.timer_scratch);
        copy.clear();
        copy.extend_from_slice(wire);
        let is_patched = copy.get_mut(place).map(|p| p.copy_from_slice(&nonce.to_be_bytes()));
        let packet = InterestPacket { wire: &copy, handle: None, nonce, ..interest.packet };
        let probe = PendingInterest {
            entry: interest.entry,
            face: interest.face,
            next_hops: interest.next_hops,
            next_hops_depth: interest.next_hops_depth,
            prefix_hashes: interest.prefix_hashes,
            packet,
        };
        let is_sent = is_patched.is_some() && self.send_interest(&probe, face);
        self.tables.timer_scratch = copy;
        is_sent
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
