//! In-records and out-records: the first of each is stored in the PIT entry, the others in bounded
//! side arrays.

use ndn_packet::lp::PIT_TOKEN_LENGTH_MAX;
use ndn_types::{PrincipalIndex, Timestamp};

use crate::arena::{Arena, NONE};
use crate::{FaceIndex, Ledger, Resource};

/// Maximum number of in-records of one PIT entry: downstream faces that wait for the same Data.
pub const IN_RECORDS_PER_ENTRY_MAX: u16 = 1024;

/// Maximum number of out-records of one PIT entry: upstream faces to which the Interest was sent.
pub(crate) const OUT_RECORDS_PER_ENTRY_MAX: u16 = 1024;

/// Bytes of a downstream PIT token that fit the in-record itself.
pub const PIT_TOKEN_INLINE_MAX: usize = 8;

/// In-record: a downstream face that waits for the Data.
#[derive(Clone, Copy, Debug)]
pub struct InRecord {
    /// The downstream face.
    pub face: FaceIndex,
    /// Nonce of its last Interest.
    pub nonce: u32,
    /// When its last Interest arrived.
    pub renewed: Timestamp,
    /// Lifetime of its last Interest.
    pub lifetime_ms: u32,
    /// The principal of the downstream, which is charged for the record.
    pub principal: PrincipalIndex,
    /// Reserved for the strategy; 0 in a new record.
    pub strategy_state: u8,
    token_length: u8,
    /// The token, or its index in the side array when it is longer.
    token: [u8; PIT_TOKEN_INLINE_MAX],
}

/// Out-record: an upstream face to which the Interest was sent.
#[derive(Clone, Copy, Debug)]
pub struct OutRecord {
    /// The upstream face.
    pub face: FaceIndex,
    /// Nonce of the last Interest sent to it.
    pub nonce: u32,
    /// When the last Interest was sent to it.
    pub renewed: Timestamp,
    /// Lifetime of the last Interest sent to it.
    pub lifetime_ms: u32,
    /// Reason of the Nack that answered the last Interest; a new Interest clears it.
    pub nack_reason: Option<u16>,
    /// Reserved for the strategy, for example a suppression interval; 0 in a new record.
    pub strategy_state: u32,
    /// Number of components of the prefix that the strategy measures the answer for;
    /// [`UNMEASURED`](Self::UNMEASURED) if it has set none.
    pub measured_depth: u8,
}

const _: () = assert!(size_of::<InRecord>() == 32 && size_of::<OutRecord>() == 32);

impl InRecord {
    pub(super) const EMPTY: Self = Self {
        face: FaceIndex::from_bits(u32::MAX),
        nonce: 0,
        renewed: Timestamp::ZERO,
        lifetime_ms: 0,
        principal: PrincipalIndex::OTHER,
        strategy_state: 0,
        token_length: 0,
        token: [0; PIT_TOKEN_INLINE_MAX],
    };

    /// A record without a token, charged to [`PrincipalIndex::OTHER`].
    #[inline]
    #[must_use]
    pub fn new(face: FaceIndex, nonce: u32, lifetime_ms: u32, renewed: Timestamp) -> Self {
        Self { face, nonce, renewed, lifetime_ms, ..Self::EMPTY }
    }

    /// The record, charged to `principal`.
    #[inline]
    #[must_use]
    pub fn charged_to(self, principal: PrincipalIndex) -> Self {
        Self { principal, ..self }
    }

    /// The record with a PIT token of the first `length` bytes, at most all.
    #[inline]
    #[must_use]
    pub fn with_token(self, token: [u8; PIT_TOKEN_INLINE_MAX], length: u8) -> Self {
        debug_assert!(usize::from(length) <= PIT_TOKEN_INLINE_MAX);
        Self { token, token_length: length, ..self }
    }

    /// When the record expires.
    #[must_use]
    pub fn expiry(&self) -> Timestamp {
        self.renewed.plus_millis(u64::from(self.lifetime_ms))
    }

    /// Its token, if that fits the record; empty for none.
    #[must_use]
    #[inline(always)]
    pub fn short_token(&self) -> Option<&[u8]> {
        self.token.get(..usize::from(self.token_length))
    }

    /// Whether its token takes a place in the table of long tokens.
    #[inline]
    pub(super) fn has_long_token(&self) -> bool {
        usize::from(self.token_length) > PIT_TOKEN_INLINE_MAX
    }

    fn long_token(&self) -> Option<u32> {
        let [a, b, c, d, ..] = self.token;
        self.has_long_token().then(|| u32::from_le_bytes([a, b, c, d]))
    }
}

impl OutRecord {
    pub(super) const EMPTY: Self = Self {
        face: FaceIndex::from_bits(u32::MAX),
        nonce: 0,
        renewed: Timestamp::ZERO,
        lifetime_ms: 0,
        nack_reason: None,
        strategy_state: 0,
        measured_depth: Self::UNMEASURED,
    };

    /// Depth of no prefix: names have fewer components.
    pub const UNMEASURED: u8 = u8::MAX;

    /// When the record expires.
    #[must_use]
    pub fn expiry(&self) -> Timestamp {
        self.renewed.plus_millis(u64::from(self.lifetime_ms))
    }
}

/// Common part of the two kinds of record.
pub(super) trait Record: Copy {
    fn face(&self) -> FaceIndex;
}

impl Record for InRecord {
    fn face(&self) -> FaceIndex {
        self.face
    }
}

impl Record for OutRecord {
    fn face(&self) -> FaceIndex {
        self.face
    }
}

/// List of the records of one entry: `count` in all, of which one is stored in the entry and the
/// others on `chain`. Packed, because the first line of the entry has no byte to spare.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(2))]
pub(super) struct RecordList {
    pub(super) count: u16,
    pub(super) chain: u32,
}

impl RecordList {
    pub(super) const EMPTY: Self = Self { count: 0, chain: NONE };
    /// The record in the entry alone.
    pub(super) const ONE: Self = Self { count: 1, chain: NONE };
}

/// Place of a record of an entry: until records of this entry are removed or moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordPlace(u32);

impl RecordPlace {
    /// In the entry itself; other places are links of the side array.
    pub(super) const FIRST: Self = Self(NONE);
}

/// Result of one search of the in-records of an entry, which may be many, for an Interest.
#[derive(Clone, Copy, Debug)]
pub struct InRecordSearch {
    /// Number of in-records.
    pub count: usize,
    /// Where that of its face is.
    pub own: Option<RecordPlace>,
    /// Whether that of its face has its Nonce.
    pub own_has_nonce: bool,
    /// Whether one of another face has its Nonce.
    pub other_has_nonce: bool,
    /// Number of those of its principal.
    pub of_principal: usize,
    /// Of those of other faces, the one that expires last, and when.
    pub latest_other: Option<(RecordPlace, Timestamp)>,
    /// When the first of all expires.
    pub earliest: Timestamp,
}

impl InRecordSearch {
    /// In an entry without in-records.
    pub const NONE: Self = Self {
        count: 0,
        own: None,
        own_has_nonce: false,
        other_has_nonce: false,
        of_principal: 0,
        latest_other: None,
        earliest: Timestamp::MAX,
    };

    #[inline]
    fn add(&mut self, place: RecordPlace, record: &InRecord, new: &InRecord) {
        let (has_nonce, expiry) = (record.nonce == new.nonce, record.expiry());
        self.count += 1;
        self.of_principal += usize::from(record.principal == new.principal);
        self.earliest = self.earliest.min(expiry);
        if record.face == new.face {
            self.own = Some(place);
            self.own_has_nonce = has_nonce;
            return;
        }
        self.other_has_nonce |= has_nonce;
        if self.latest_other.is_none_or(|(_, latest)| latest <= expiry) {
            self.latest_other = Some((place, expiry));
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Link<T> {
    pub(super) record: T,
    next: u32,
    /// The PIT entry of the record, [`NONE`] if the link is free.
    pub(super) entry: u32,
}

/// The side array for records beyond the first of an entry.
#[derive(Debug)]
pub(super) struct RecordStore<T> {
    links: Arena<Link<T>>,
}

impl RecordStore<InRecord> {
    /// Searches the in-records for an Interest that would have the in-record `new`.
    #[inline]
    pub(super) fn search(
        &self,
        first: &InRecord,
        list: RecordList,
        new: &InRecord,
    ) -> InRecordSearch {
        let mut search = InRecordSearch::NONE;
        if list.count > 0 {
            search.add(RecordPlace::FIRST, first, new);
        }
        let mut position = list.chain;
        while position != NONE {
            let link = &self.links[position];
            search.add(RecordPlace(position), &link.record, new);
            position = link.next;
        }
        search
    }
}

impl<T: Record> RecordStore<T> {
    pub(super) fn new(capacity: usize) -> Self {
        Self { links: Arena::new(capacity) }
    }

    /// Records in the side array.
    pub(super) fn len(&self) -> usize {
        self.links.len()
    }

    /// The links that were ever used; some may be free.
    pub(super) fn links(&self) -> &[Link<T>] {
        self.links.slots()
    }

    fn free(&mut self, position: u32) {
        self.links[position].entry = NONE;
        self.links.release(position);
    }

    /// Every record of an entry.
    #[inline(always)]
    pub(super) fn iter<'a>(&'a self, first: &'a T, list: &RecordList) -> RecordIter<'a, T> {
        RecordIter { store: self, first: (list.count > 0).then_some(first), chain: list.chain }
    }

    /// Where the record of `face` is.
    #[inline]
    pub(super) fn find(&self, first: &T, list: RecordList, face: FaceIndex) -> Option<RecordPlace> {
        if list.count == 0 {
            return None;
        }
        if first.face() == face {
            return Some(RecordPlace::FIRST);
        }
        let mut position = list.chain;
        while position != NONE && self.links[position].record.face() != face {
            position = self.links[position].next;
        }
        (position != NONE).then_some(RecordPlace(position))
    }

    /// The record in a place.
    #[inline]
    pub(super) fn at<'a>(&'a self, first: &'a T, place: RecordPlace) -> &'a T {
        if place == RecordPlace::FIRST { first } else { &self.links[place.0].record }
    }

    /// The record in a place.
    #[inline]
    pub(super) fn at_mut<'a>(&'a mut self, first: &'a mut T, place: RecordPlace) -> &'a mut T {
        if place == RecordPlace::FIRST { first } else { &mut self.links[place.0].record }
    }

    /// The place after another one of an entry; the first place without one.
    pub(super) fn next_place(
        &self,
        list: RecordList,
        after: Option<RecordPlace>,
    ) -> Option<RecordPlace> {
        let position = match after {
            None => return (list.count > 0).then_some(RecordPlace::FIRST),
            Some(RecordPlace::FIRST) => list.chain,
            Some(RecordPlace(position)) => self.links[position].next,
        };
        (position != NONE).then_some(RecordPlace(position))
    }

    /// All places of an entry.
    pub(super) fn places(&self, list: RecordList) -> impl Iterator<Item = RecordPlace> {
        let next = move |place: &RecordPlace| self.next_place(list, Some(*place));
        std::iter::successors(self.next_place(list, None), next)
    }

    /// Exchanges the record in a place with the first.
    pub(super) fn swap_with_first(&mut self, first: &mut T, place: RecordPlace) {
        if place != RecordPlace::FIRST {
            std::mem::swap(first, &mut self.links[place.0].record);
        }
    }

    /// Adds a record of `entry`; returns `None` when the side array is full.
    #[inline]
    pub(super) fn push(
        &mut self,
        first: &mut T,
        list: &mut RecordList,
        record: T,
        entry: u32,
    ) -> Option<RecordPlace> {
        let mut place = RecordPlace::FIRST;
        if list.count == 0 {
            *first = record;
        } else {
            let position = self.links.allocate(|| Link { record, next: NONE, entry })?;
            self.links[position] = Link { record, next: list.chain, entry };
            list.chain = position;
            place = RecordPlace(position);
        }
        list.count += 1;
        Some(place)
    }

    /// Removes the record of `face`.
    pub(super) fn remove(
        &mut self,
        first: &mut T,
        list: &mut RecordList,
        face: FaceIndex,
    ) -> Option<T> {
        if list.count == 0 {
            return None;
        }
        if first.face() == face {
            let removed = *first;
            if list.chain != NONE {
                let Link { record, next, .. } = self.links[list.chain];
                *first = record;
                self.free(list.chain);
                list.chain = next;
            }
            list.count -= 1;
            return Some(removed);
        }
        let mut previous = NONE;
        let mut position = list.chain;
        while position != NONE {
            let Link { record, next, .. } = self.links[position];
            if record.face() == face {
                if previous == NONE {
                    list.chain = next;
                } else {
                    self.links[previous].next = next;
                }
                self.free(position);
                list.count -= 1;
                return Some(record);
            }
            previous = position;
            position = next;
        }
        None
    }

    /// Removes the records for which `keep` returns false. Each is asked about once, the first last.
    pub(super) fn retain(
        &mut self,
        first: &mut T,
        list: &mut RecordList,
        mut keep: impl FnMut(&T) -> bool,
    ) {
        let mut previous = NONE;
        let mut position = list.chain;
        while position != NONE {
            let Link { record, next, .. } = self.links[position];
            if keep(&record) {
                previous = position;
            } else {
                if previous == NONE {
                    list.chain = next;
                } else {
                    self.links[previous].next = next;
                }
                self.free(position);
                list.count -= 1;
            }
            position = next;
        }
        if list.count > 0 && !keep(first) {
            let face = first.face();
            self.remove(first, list, face);
        }
    }

    /// Removes every record.
    #[inline]
    pub(super) fn clear(&mut self, list: &mut RecordList) {
        let mut position = list.chain;
        while position != NONE {
            self.free(position);
            position = self.links[position].next;
        }
        *list = RecordList::EMPTY;
    }
}

/// Iterator over the records of an entry.
#[derive(Debug)]
pub(super) struct RecordIter<'a, T> {
    store: &'a RecordStore<T>,
    first: Option<&'a T>,
    chain: u32,
}

impl<'a, T> Iterator for RecordIter<'a, T> {
    type Item = &'a T;

    #[inline]
    fn next(&mut self) -> Option<&'a T> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        if self.chain == NONE {
            return None;
        }
        let link = &self.store.links[self.chain];
        self.chain = link.next;
        Some(&link.record)
    }
}

/// Downstream PIT tokens that are too long for their in-record.
#[derive(Debug)]
pub(super) struct TokenStore {
    tokens: Arena<LongToken>,
}

/// A token, and the in-record that it belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct LongToken {
    bytes: [u8; PIT_TOKEN_LENGTH_MAX],
    /// The PIT entry of the record, [`NONE`] if the place is free.
    pub(super) entry: u32,
    pub(super) face: FaceIndex,
    pub(super) principal: PrincipalIndex,
}

impl TokenStore {
    pub(super) fn new(capacity: usize) -> Self {
        Self { tokens: Arena::new(capacity) }
    }

    /// The places that were ever used; some may be free.
    pub(super) fn places(&self) -> &[LongToken] {
        self.tokens.slots()
    }

    /// Sets the token of `record` in `entry`. Returns false when the token is too long or there is no room;
    /// the record is unchanged then.
    #[inline(always)]
    pub(super) fn set(
        &mut self,
        ledger: &mut Ledger,
        entry: u32,
        record: &mut InRecord,
        token: &[u8],
    ) -> bool {
        if token.len() > PIT_TOKEN_INLINE_MAX {
            return self.set_long(ledger, entry, record, token);
        }
        self.release(ledger, record);
        record.token[..token.len()].copy_from_slice(token);
        record.token_length = u8::try_from(token.len()).unwrap_or_default();
        true
    }

    #[cold]
    fn set_long(
        &mut self,
        ledger: &mut Ledger,
        entry: u32,
        record: &mut InRecord,
        token: &[u8],
    ) -> bool {
        let mut bytes = [0; PIT_TOKEN_LENGTH_MAX];
        let Some(slot) = bytes.get_mut(..token.len()) else { return false };
        slot.copy_from_slice(token);
        let InRecord { face, principal, .. } = *record;
        let long = LongToken { bytes, entry, face, principal };
        let position = match record.long_token() {
            Some(position) => position,
            None => {
                let Some(position) = self.tokens.allocate(|| long) else { return false };
                ledger.charge(principal, Resource::LongTokens, 1);
                position
            }
        };
        self.tokens[position] = long;
        record.token[..4].copy_from_slice(&position.to_le_bytes());
        record.token_length = u8::try_from(token.len()).unwrap_or_default();
        true
    }

    /// Charges `record`, which belongs to another principal, and its token to `principal`.
    pub(super) fn change_principal(
        &mut self,
        ledger: &mut Ledger,
        record: &mut InRecord,
        principal: PrincipalIndex,
    ) {
        let previous = std::mem::replace(&mut record.principal, principal);
        if let Some(position) = record.long_token() {
            self.tokens[position].principal = principal;
            ledger.charge(principal, Resource::LongTokens, 1);
            ledger.release(previous, Resource::LongTokens, 1);
        }
    }

    /// The token of `record`, empty when it has none.
    #[inline(always)]
    pub(super) fn token<'a>(&'a self, record: &'a InRecord) -> &'a [u8] {
        let bytes: &[u8] = match record.long_token() {
            Some(position) => &self.tokens[position].bytes,
            None => &record.token,
        };
        &bytes[..usize::from(record.token_length)]
    }

    /// Removes the token of `record`.
    #[inline(always)]
    pub(super) fn release(&mut self, ledger: &mut Ledger, record: &mut InRecord) {
        if record.has_long_token() {
            self.release_long(ledger, record);
        }
        record.token_length = 0;
    }

    #[cold]
    fn release_long(&mut self, ledger: &mut Ledger, record: &InRecord) {
        if let Some(position) = record.long_token() {
            self.tokens[position].entry = NONE;
            self.tokens.release(position);
            ledger.release(record.principal, Resource::LongTokens, 1);
        }
    }
}
