//! The other shards of the forwarder, as one shard knows them.

use std::collections::HashMap;
use std::sync::Arc;

use ndn_ring::CopyBlock;
use ndn_table::{
    FaceIndex, NameHasher, Ndt, Pcct, PitIndex, ShortPrefixInterests, ShortPrefixInterestsFull,
    Token,
};
use ndn_types::Timestamp;

use crate::dispatch::{AddressedMessage, DataVisit, ShardMessage};

/// Maximum number of Content Store probes tracked at a time. Beyond it, an Interest may be
/// forwarded although another shard has its Data cached.
const PROBES_MAX: usize = 1024;
/// Time after which a probe counts as lost.
const PROBE_TIME_MAX_MS: u64 = 100;
/// Minimum time between two searches for lost probes.
const CLEANUP_PAUSE_MS: u64 = 10;
/// Maximum number of spare visits kept for reuse.
const SPARE_VISITS_MAX: usize = 64;
/// Initial capacity of the outbox, in messages.
const OUTBOX_LENGTH: usize = 256;

/// The tables that all shards of a forwarder share.
#[derive(Debug, Clone)]
pub struct SharedTables {
    /// The shard of each name.
    pub ndt: Arc<Ndt>,
    /// Pending Interests that Data of other shards may satisfy.
    pub short_prefix: Arc<ShortPrefixInterests>,
}

impl SharedTables {
    /// Empty tables for `shard_count` shards, with names dispatched by their first `depth`
    /// components.
    #[must_use]
    pub fn new(shard_count: usize, depth: usize) -> Self {
        Self::with(Ndt::new(shard_count, depth))
    }

    /// As [`Self::new`], if only `members` own names.
    #[must_use]
    pub fn with_members(shard_count: usize, members: &[u8], depth: usize) -> Self {
        Self::with(Ndt::with_members(shard_count, members, depth))
    }

    fn with(ndt: Ndt) -> Self {
        let short_prefix = ShortPrefixInterests::new(ndt.shard_count());
        Self { ndt: Arc::new(ndt), short_prefix: Arc::new(short_prefix) }
    }
}

/// State for communication with other shards; a single shard has none.
#[derive(Debug)]
pub(crate) struct PeerShards {
    /// Number of this shard.
    shard: u8,
    pub(crate) shared: SharedTables,
    /// Messages for other shards.
    pub(crate) outbox: Vec<AddressedMessage>,
    /// Not before the expiry of any pending Interest.
    latest_expiry: Timestamp,
    /// The latest expiry of Interests that came, or were renewed, during or after the last pass over
    /// the PIT.
    noted_expiry: Timestamp,
    /// The latest expiry of Interests that have ended since that pass started.
    ended_expiry: Timestamp,
    probes: Probes,
    #[expect(clippy::vec_box, reason = "they travel as boxes")]
    spare_visits: Vec<Box<DataVisit>>,
    /// Copies of cached Data sent to another shard.
    pub(crate) copies: CopyBlock,
}

impl PeerShards {
    pub(crate) fn new(shard: u8, shared: SharedTables) -> Self {
        Self {
            shard,
            shared,
            outbox: Vec::with_capacity(OUTBOX_LENGTH),
            latest_expiry: Timestamp::ZERO,
            noted_expiry: Timestamp::ZERO,
            ended_expiry: Timestamp::ZERO,
            probes: Probes::new(),
            spare_visits: Vec::with_capacity(SPARE_VISITS_MAX),
            copies: CopyBlock::default(),
        }
    }

    /// Queues a message, sent at the end of the burst.
    pub(crate) fn send(&mut self, to: u8, message: ShardMessage) {
        self.outbox.push(AddressedMessage { to, message });
    }

    /// The shard that a probe visits next.
    pub(crate) fn next_shard(&self) -> u8 {
        let members = self.shared.ndt.members();
        let next = members.iter().position(|member| *member == self.shard).map_or(0, |own| own + 1);
        members[next % members.len()]
    }

    /// Notifies all other shards that a face sends PIT tokens.
    #[cold]
    pub(crate) fn share_token_sender(&mut self, face: FaceIndex) {
        let shards = u8::try_from(self.shared.ndt.shard_count()).unwrap_or(u8::MAX);
        for to in (0..shards).filter(|&to| to != self.shard) {
            self.outbox.push(AddressedMessage { to, message: ShardMessage::FaceSendsTokens(face) });
        }
    }

    pub(crate) fn take_visit(&mut self) -> Box<DataVisit> {
        self.spare_visits.pop().unwrap_or_else(|| Box::new(DataVisit::new()))
    }

    pub(crate) fn return_visit(&mut self, mut visit: Box<DataVisit>) {
        if self.spare_visits.len() < SPARE_VISITS_MAX {
            visit.reset();
            self.spare_visits.push(visit);
        }
    }

    /// Records the expiry of an Interest.
    #[inline]
    pub(crate) fn note_expiry(&mut self, expiry: Timestamp) {
        // The latest expiry is not before that noted in a pass. Most Interests of a burst expire at the same time.
        if expiry > self.noted_expiry {
            self.noted_expiry = expiry;
            self.latest_expiry = self.latest_expiry.max(expiry);
        }
    }

    /// Records the end of an Interest.
    #[inline]
    pub(crate) fn note_end(&mut self, expiry: Timestamp) {
        // Most Interests that end have the same expiry as the one before.
        if expiry > self.ended_expiry {
            self.ended_expiry = expiry;
        }
    }

    /// Not before the expiry of any pending Interest.
    pub(crate) fn latest_expiry(&self) -> Timestamp {
        self.latest_expiry
    }

    /// Whether an Interest with the latest expiry has ended, so that a pass over the PIT may find an
    /// earlier one.
    pub(crate) fn is_latest_stale(&self) -> bool {
        self.ended_expiry >= self.latest_expiry
    }

    /// Forgets that an Interest with the latest expiry has ended.
    pub(crate) fn forget_ended(&mut self) {
        self.ended_expiry = Timestamp::ZERO;
    }

    /// Starts a pass over the PIT for the latest expiry.
    pub(crate) fn begin_pass(&mut self) {
        self.noted_expiry = Timestamp::ZERO;
        self.ended_expiry = Timestamp::ZERO;
    }

    /// Ends the pass, which has found `expiry`.
    pub(crate) fn end_pass(&mut self, expiry: Timestamp) {
        self.latest_expiry = expiry.max(self.noted_expiry);
    }

    /// Publishes a short-prefix Interest.
    pub(crate) fn publish(
        &mut self,
        pcct: &mut Pcct,
        hasher: &NameHasher,
        entry: PitIndex,
    ) -> Result<(), ShortPrefixInterestsFull> {
        let (hash, components, number) = self.key_of(pcct, hasher, entry);
        let (published, expiry) = (&self.shared.short_prefix, pcct.entry(entry).expiry());
        published.publish(self.shard, hash, components, number, expiry)?;
        pcct.note_published(entry);
        Ok(())
    }

    /// Updates the expiry of a published Interest.
    pub(crate) fn renew(&mut self, pcct: &Pcct, hasher: &NameHasher, entry: PitIndex) {
        let (hash, _, number) = self.key_of(pcct, hasher, entry);
        let expiry = pcct.entry(entry).expiry();
        self.shared.short_prefix.set_expiry(self.shard, hash, number, expiry);
    }

    /// Withdraws a published PIT entry that is about to be erased.
    #[cold]
    pub(crate) fn withdraw(&mut self, pcct: &Pcct, hasher: &NameHasher, entry: PitIndex) {
        let (hash, components, number) = self.key_of(pcct, hasher, entry);
        self.shared.short_prefix.withdraw(self.shard, hash, components, number);
    }

    fn key_of(&self, pcct: &Pcct, hasher: &NameHasher, entry: PitIndex) -> (u64, usize, u32) {
        let name = pcct.interest_name(entry);
        (hasher.hash_value(name.value()), name.len(), pcct.token(entry, self.shard).entry)
    }

    /// Records that a probe for a PIT entry starts.
    pub(crate) fn begin_probe(&mut self, entry: Token, now: Timestamp) {
        self.probes.begin(entry, now);
    }

    /// Records that a probe has returned.
    pub(crate) fn end_probe(&mut self, entry: Token) {
        self.probes.end(entry);
    }

    /// Whether a probe for this entry is in progress, so that its Interest has not been forwarded
    /// yet.
    pub(crate) fn is_probing(&self, entry: Token, now: Timestamp) -> bool {
        self.probes.is_in_progress(entry, now)
    }
}

/// The probes in progress, by PIT entry.
#[derive(Debug)]
struct Probes {
    entries: HashMap<(u32, u16), ProbeState>,
    /// When lost probes may be removed again.
    next_cleanup: Timestamp,
}

/// The probes of one PIT entry.
#[derive(Debug, Clone, Copy)]
struct ProbeState {
    count: u32,
    until: Timestamp,
}

impl Probes {
    fn new() -> Self {
        Self { entries: HashMap::with_capacity(PROBES_MAX), next_cleanup: Timestamp::ZERO }
    }

    fn begin(&mut self, entry: Token, now: Timestamp) {
        let until = now.plus_millis(PROBE_TIME_MAX_MS);
        if self.entries.len() >= PROBES_MAX {
            self.clean_up(now);
        }
        if self.entries.len() < PROBES_MAX {
            let probe = self.entries.entry(key_of(entry)).or_insert(ProbeState { count: 0, until });
            *probe = ProbeState { count: probe.count + 1, until };
        }
    }

    /// Removes lost probes, unless it did so a short time ago: a search visits all.
    #[cold]
    fn clean_up(&mut self, now: Timestamp) {
        if now >= self.next_cleanup {
            self.next_cleanup = now.plus_millis(CLEANUP_PAUSE_MS);
            self.entries.retain(|_, probe| probe.until > now);
        }
    }

    fn end(&mut self, entry: Token) {
        if let Some(probe) = self.entries.get_mut(&key_of(entry)) {
            probe.count -= 1;
            if probe.count == 0 {
                self.entries.remove(&key_of(entry));
            }
        }
    }

    fn is_in_progress(&self, entry: Token, now: Timestamp) -> bool {
        self.entries.get(&key_of(entry)).is_some_and(|probe| probe.until > now)
    }
}

fn key_of(entry: Token) -> (u32, u16) {
    (entry.entry, entry.generation)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(number: u32) -> Token {
        Token { shard: 0, entry: number, generation: 0 }
    }

    /// Any peer causes probes by short names.
    #[test]
    fn flood_of_probes_is_searched_for_lost_ones_now_and_then() {
        let mut probes = Probes::new();
        let begin = Timestamp::from_millis(1000);
        let count = u32::try_from(PROBES_MAX).unwrap_or(u32::MAX);
        (0..count).for_each(|number| probes.begin(token(number), begin));
        let (mut searches, mut now) = (0, begin);
        let last = count + 100_500;
        for number in count..=last {
            now = now.plus_nanos(1000);
            let before = probes.next_cleanup;
            probes.begin(token(number), now);
            searches += u32::from(probes.next_cleanup != before);
            assert!(probes.entries.len() <= PROBES_MAX);
        }
        // In 100.5 ms.
        assert!((2..=11).contains(&searches), "{searches} searches");
        assert!(!probes.is_in_progress(token(0), now), "lost");
        assert!(probes.is_in_progress(token(last), now), "in the place of a lost one");
        probes.end(token(last));
        assert!(!probes.is_in_progress(token(last), now));
    }
}
