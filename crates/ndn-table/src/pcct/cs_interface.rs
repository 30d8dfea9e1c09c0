//! The Content Store as a shard calls it.

use super::cs::Arrival;
use super::{CsCounters, CsError, CsIndex, CsPolicy, EraseResult, Pcct};
use crate::{DataKey, InterestKey, Timestamp};

/// The Content Store.
impl Pcct {
    /// Cached packets.
    #[must_use]
    pub fn cs_len(&self) -> usize {
        self.cs.len()
    }

    /// Highest number of cached packets.
    #[must_use]
    pub fn cs_capacity(&self) -> usize {
        self.cs.capacity()
    }

    /// Sets the capacity in packets and returns what it is now: at most what the table was built
    /// for. What is above it is evicted by [`Self::poll_cs`] and by insertions.
    pub fn set_cs_capacity(&mut self, packets: usize) -> usize {
        self.cs.set_capacity(packets)
    }

    /// Sets how many bytes cached packets may take, at most what the table was built for.
    pub fn set_cs_bytes_max(&mut self, bytes: usize) {
        self.cs.set_bytes_max(bytes);
    }

    /// Eviction policy.
    #[must_use]
    pub fn cs_policy(&self) -> CsPolicy {
        self.cs.policy()
    }

    /// Whether Data are admitted.
    #[must_use]
    pub fn cs_admit(&self) -> bool {
        self.cs.admit
    }

    /// Switches admission of Data on or off.
    pub fn set_cs_admit(&mut self, admit: bool) {
        self.cs.admit = admit;
    }

    /// Whether Interests are served.
    #[must_use]
    pub fn cs_serve(&self) -> bool {
        self.cs.serve
    }

    /// Switches serving on or off; off, every lookup is a miss.
    pub fn set_cs_serve(&mut self, serve: bool) {
        self.cs.serve = serve;
    }

    /// Hits, misses, insertions, evictions.
    #[must_use]
    pub fn cs_counters(&self) -> CsCounters {
        self.cs.counters
    }

    /// Bytes of memory that hold cached packets.
    #[must_use]
    pub fn cs_bytes_in_use(&self) -> usize {
        self.cs.bytes_in_use()
    }

    /// Name prefixes at which the names of cached packets part.
    #[must_use]
    pub fn cs_prefix_node_count(&self) -> usize {
        self.cs.tree.len()
    }

    /// Unsolicited, stale and other Data cached; only the last is counted under
    /// [`CsPolicy::Lru`].
    #[must_use]
    pub fn cs_queue_lengths(&self) -> [u32; 3] {
        self.cs.queue_lengths()
    }

    /// Every cached packet, the one to be evicted next first. Takes time in proportion to the
    /// number of packets.
    pub fn cached_packets(&self) -> impl Iterator<Item = &[u8]> {
        self.cs.packets()
    }

    /// The cached Data that answers an Interest, counted as a hit or a miss. `digest` computes the
    /// SHA-256 of the packet it is given; it is called only for an Interest with an implicit
    /// digest, and once per cached packet.
    #[inline]
    pub fn find_data(
        &mut self,
        key: &InterestKey<'_>,
        now: Timestamp,
        digest: impl FnMut(&[u8]) -> [u8; 32],
    ) -> Option<CsIndex> {
        let is_absent = self.absent.knows(key.data_hash());
        self.cs.find(&self.index, key, is_absent, now, digest)
    }

    /// The whole packet of a cached Data.
    #[must_use]
    #[inline]
    pub fn data(&self, index: CsIndex) -> &[u8] {
        self.cs.packet(index.0)
    }

    /// Copies a Data into the Content Store, evicting what the policy names. `wire` is the whole
    /// Data TLV; `freshness_ms` its FreshnessPeriod, 0 when absent; `solicited` whether a PIT
    /// entry asked for it. The same packet again counts as arriving now.
    ///
    /// # Errors
    /// When it is not cached; Data may have been evicted for it nevertheless.
    #[inline]
    pub fn insert_data(
        &mut self,
        key: &DataKey<'_>,
        wire: &[u8],
        freshness_ms: u64,
        solicited: bool,
        now: Timestamp,
    ) -> Result<CsIndex, CsError> {
        let is_absent = self.absent.knows(key.name_hash());
        self.absent.forget();
        let arrival = Arrival { wire, freshness_ms, solicited, is_absent };
        self.cs.insert(&mut self.index, key, &arrival, now)
    }

    /// Erases up to `limit` Data whose name starts with the name of `key`.
    pub fn erase_data(&mut self, key: &DataKey<'_>, limit: usize) -> EraseResult {
        self.cs.erase(&mut self.index, key, limit)
    }

    /// Up to `limit` steps of what the Content Store does by itself: moving Data whose freshness
    /// has run out, evicting after the capacity was lowered. True when more is to do now.
    pub fn poll_cs(&mut self, now: Timestamp, limit: usize) -> bool {
        self.cs.poll(&mut self.index, now, limit)
    }
}
