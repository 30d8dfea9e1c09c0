//! The PIT as a shard calls it.

use ndn_packet::NameRef;

use super::records::{InRecord, InRecordInsert, OutRecord};
use super::{Pcct, PitEntry, PitError, PitIndex, PitMatches};
use crate::{DataKey, FaceIndex, InterestKey, Timestamp, Token};

/// What [`Pcct::insert_interest`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PitInsert {
    /// The entry of the Interest.
    pub index: PitIndex,
    /// Whether the entry was made by this call; then it has no records and no expiry yet.
    pub is_new: bool,
}

/// The PIT.
impl Pcct {
    /// PIT entries in use.
    #[must_use]
    pub fn pit_len(&self) -> usize {
        self.pit.len()
    }

    /// PIT entries that there is room for.
    #[must_use]
    #[inline]
    pub fn pit_capacity(&self) -> usize {
        self.pit.capacity()
    }

    /// Bytes in use for Interests longer than [`PIT_INTEREST_INLINE_MAX`](crate::PIT_INTEREST_INLINE_MAX),
    /// in whole chunks, and how many there may be.
    #[must_use]
    pub fn pit_bytes(&self) -> (usize, usize) {
        self.pit.bytes()
    }

    /// In-records and out-records beyond the first of their entry.
    #[must_use]
    pub fn extra_record_counts(&self) -> (usize, usize) {
        self.pit.side_counts()
    }

    /// Finds the entry of an Interest (same name, CanBePrefix and MustBeFresh) or makes one with a
    /// copy of the packet. `wire` is the whole Interest TLV.
    ///
    /// # Errors
    /// When a limit is reached; nothing is changed then.
    #[inline]
    pub fn insert_interest(
        &mut self,
        key: &InterestKey<'_>,
        wire: &[u8],
    ) -> Result<PitInsert, PitError> {
        if let Some(index) = self.find_interest(key) {
            return Ok(PitInsert { index, is_new: false });
        }
        let index = self.pit.insert(&mut self.index, key, wire)?;
        Ok(PitInsert { index, is_new: true })
    }

    /// Makes the entry of an Interest that [`Self::find_interest`] has just not found.
    ///
    /// # Errors
    /// When a limit is reached; nothing is changed then.
    #[inline]
    pub fn insert_new_interest(
        &mut self,
        key: &InterestKey<'_>,
        wire: &[u8],
    ) -> Result<PitIndex, PitError> {
        debug_assert!(self.find_interest(key).is_none(), "there is an entry already");
        self.pit.insert(&mut self.index, key, wire)
    }

    /// Finds the entry of an Interest.
    #[must_use]
    #[inline]
    pub fn find_interest(&self, key: &InterestKey<'_>) -> Option<PitIndex> {
        let mut has_cached = false;
        let found = self.pit.find(&self.index, key, &mut has_cached);
        let saw_all = found.is_none() && !key.has_digest;
        self.absent.note(key.name_hash(), saw_all && !has_cached);
        found
    }

    /// The entry that a returning token names, if it is still that one. Whoever uses it compares
    /// the name, because the token came from the network.
    #[must_use]
    pub fn find_token(&self, token: Token) -> Option<PitIndex> {
        self.pit.find_token(token)
    }

    /// The token that names an entry upstream.
    #[must_use]
    pub fn token(&self, index: PitIndex, shard: u8) -> Token {
        self.pit.token(index, shard)
    }

    /// Writes to `found` every entry that a Data satisfies: those of its own name, those of its
    /// full name, and those with CanBePrefix of each shorter name. `digest` computes the SHA-256
    /// of the packet and is called only if an entry asks for an implicit digest of this name, or
    /// of one of the few that share its counter.
    #[inline]
    pub fn find_pit_matches(
        &self,
        key: &DataKey<'_>,
        digest: impl FnOnce() -> [u8; 32],
        found: &mut PitMatches,
    ) {
        let has_cached = self.pit.matches(&self.index, key, digest, found);
        self.absent.note(key.name_hash(), !has_cached);
    }

    /// An entry.
    #[must_use]
    #[inline]
    pub fn entry(&self, index: PitIndex) -> &PitEntry {
        self.pit.entry(index)
    }

    /// An entry, to set what belongs to the strategy and the forwarder.
    #[inline]
    pub fn entry_mut(&mut self, index: PitIndex) -> &mut PitEntry {
        self.pit.entry_mut(index)
    }

    /// The Interest that made the entry, the whole packet.
    #[must_use]
    #[inline]
    pub fn interest(&self, index: PitIndex) -> &[u8] {
        self.pit.interest(index)
    }

    /// Name of the Interest.
    #[must_use]
    #[inline]
    pub fn interest_name(&self, index: PitIndex) -> NameRef<'_> {
        self.pit.name(index)
    }

    /// In-records of all entries.
    #[must_use]
    pub fn in_records_len(&self) -> usize {
        self.pit.in_records_len
    }

    /// Downstreams that wait.
    #[inline]
    pub fn in_records(&self, index: PitIndex) -> impl Iterator<Item = &InRecord> {
        self.pit.in_records(index)
    }

    /// The in-record of a face.
    #[inline]
    pub fn in_record_mut(&mut self, index: PitIndex, face: FaceIndex) -> Option<&mut InRecord> {
        self.pit.in_record_mut(index, face)
    }

    /// The PIT token that came with the downstream's last Interest, empty for none.
    #[must_use]
    #[inline]
    pub fn token_bytes<'a>(&'a self, record: &'a InRecord) -> &'a [u8] {
        self.pit.token_bytes(record)
    }

    /// Adds the in-record of `face`, or renews it, and says which.
    ///
    /// # Errors
    /// [`PitError::RecordsFull`] and [`PitError::TokensFull`]. Nothing is changed then: no record
    /// was added, and one that was there before keeps its Nonce, its lifetime and its token.
    #[inline]
    pub fn insert_in_record(
        &mut self,
        index: PitIndex,
        face: FaceIndex,
        nonce: u32,
        lifetime_ms: u32,
        now: Timestamp,
        token: &[u8],
    ) -> Result<InRecordInsert, PitError> {
        let record = InRecord::new(face, nonce, lifetime_ms, now);
        self.pit.insert_in_record(index, record, token)
    }

    /// Removes the in-record of `face`; false when there was none.
    pub fn remove_in_record(&mut self, index: PitIndex, face: FaceIndex) -> bool {
        self.pit.remove_in_record(index, face)
    }

    /// Removes all in-records.
    pub fn clear_in_records(&mut self, index: PitIndex) {
        self.pit.clear_in_records(index);
    }

    /// Upstreams that were asked.
    #[inline]
    pub fn out_records(&self, index: PitIndex) -> impl Iterator<Item = &OutRecord> {
        self.pit.out_records(index)
    }

    /// The out-record of a face.
    #[inline]
    pub fn out_record_mut(&mut self, index: PitIndex, face: FaceIndex) -> Option<&mut OutRecord> {
        self.pit.out_record_mut(index, face)
    }

    /// Adds the out-record of `face`, or renews it, which forgets its Nack and keeps its
    /// `strategy_state`.
    ///
    /// # Errors
    /// [`PitError::RecordsFull`].
    #[inline]
    pub fn insert_out_record(
        &mut self,
        index: PitIndex,
        face: FaceIndex,
        nonce: u32,
        lifetime_ms: u32,
        now: Timestamp,
    ) -> Result<(), PitError> {
        let record = OutRecord { face, nonce, renewed: now, lifetime_ms, ..OutRecord::EMPTY };
        self.pit.insert_out_record(index, record)
    }

    /// Removes the out-record of `face`; false when there was none.
    pub fn remove_out_record(&mut self, index: PitIndex, face: FaceIndex) -> bool {
        self.pit.remove_out_record(index, face)
    }

    /// Removes all out-records.
    pub fn clear_out_records(&mut self, index: PitIndex) {
        self.pit.clear_out_records(index);
    }

    /// Sets when [`Self::pop_expired`] returns the entry.
    #[inline]
    pub fn set_expiry(&mut self, index: PitIndex, deadline: Timestamp, now: Timestamp) {
        self.pit.set_expiry(index, deadline, now);
    }

    /// Removes an entry with all its records. The index names nothing afterwards.
    #[inline]
    pub fn erase(&mut self, index: PitIndex) {
        self.pit.erase(&mut self.index, index);
    }

    /// The next entry whose expiry has passed, for the caller to erase (or to set a new expiry; it
    /// is not returned again otherwise). Each timer record that is looked at takes one from
    /// `budget`; `None` with `budget` at 0 means that more may be due.
    ///
    /// An entry comes at most about 1 ms after its expiry, and at most 250 ms later than that when
    /// its slot has had its deadline moved earlier again and again.
    #[inline]
    pub fn pop_expired(&mut self, now: Timestamp, budget: &mut u32) -> Option<PitIndex> {
        self.pit.pop_expired(now, budget)
    }
}
