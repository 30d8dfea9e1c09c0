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
    probes: HashMap<(u32, u16), ProbeState>,
    #[expect(clippy::vec_box, reason = "they travel as boxes")]
    spare_visits: Vec<Box<DataVisit>>,
    /// Copies of cached Data sent to another shard.
    pub(crate) copies: CopyBlock,
}

/// The probes of one PIT entry.
#[derive(Debug, Clone, Copy)]
struct ProbeState {
    count: u32,
    until: Timestamp,
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
            probes: HashMap::with_capacity(PROBES_MAX),
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
        self.latest_expiry = self.latest_expiry.max(expiry);
        self.noted_expiry = self.noted_expiry.max(expiry);
    }

    /// Records the end of an Interest.
    #[inline]
    pub(crate) fn note_end(&mut self, expiry: Timestamp) {
        self.ended_expiry = self.ended_expiry.max(expiry);
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
        let until = now.plus_millis(PROBE_TIME_MAX_MS);
        if self.probes.len() >= PROBES_MAX {
            self.probes.retain(|_, probe| probe.until > now);
        }
        if self.probes.len() < PROBES_MAX {
            let probe = self.probes.entry(key_of(entry)).or_insert(ProbeState { count: 0, until });
            *probe = ProbeState { count: probe.count + 1, until };
        }
    }

    /// Records that a probe has returned.
    pub(crate) fn end_probe(&mut self, entry: Token) {
        if let Some(probe) = self.probes.get_mut(&key_of(entry)) {
            probe.count -= 1;
            if probe.count == 0 {
                self.probes.remove(&key_of(entry));
            }
        }
    }

    /// Whether a probe for this entry is in progress, so that its Interest has not been forwarded
    /// yet.
    pub(crate) fn is_probing(&self, entry: Token, now: Timestamp) -> bool {
        self.probes.get(&key_of(entry)).is_some_and(|probe| probe.until > now)
    }
}

fn key_of(entry: Token) -> (u32, u16) {
    (entry.entry, entry.generation)
}
