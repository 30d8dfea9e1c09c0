//! The prefetch stages of a burst. All are hints that may be left out, repeated or given stale keys.

use super::Pcct;
use super::pit::Pit;
use crate::{DataKey, InterestKey, Token};

/// Stages of a burst.
impl Pcct {
    /// First stage for an Interest.
    #[inline]
    pub fn prefetch_interest_buckets(&self, key: &InterestKey<'_>) {
        self.index.prefetch(key.name_hash());
        if key.has_digest {
            self.index.prefetch(key.data_hash());
        }
        if key.can_be_prefix {
            self.cs.tree.prefetch_search_buckets(key.hashes);
        }
    }

    /// Second stage for an Interest: the entries that its bucket names. Whether the third stage
    /// may find something.
    #[inline]
    pub fn prefetch_interest_entries(&self, key: &InterestKey<'_>) -> bool {
        let mut has_cached = self.prefetch_entries(key.name_hash());
        if key.has_digest {
            has_cached |= self.prefetch_entries(key.data_hash());
        }
        if key.can_be_prefix {
            self.cs.tree.prefetch_search_nodes(key.hashes);
        }
        has_cached || key.can_be_prefix
    }

    /// Third stage for an Interest: the start of a cached Data.
    #[inline]
    pub fn prefetch_interest_payload(&self, key: &InterestKey<'_>) {
        self.index.for_each(key.data_hash(), |reference| {
            if !Pit::owns(reference) {
                self.cs.prefetch_packet(reference);
            }
        });
        if key.can_be_prefix
            && let Some(entry) = self.cs.tree.likely_entry(&self.cs.entries, key.hashes)
        {
            self.cs.prefetch(entry);
        }
    }

    /// First stage for a Data. `token` is the PIT token it carries, if it is one of this shard's.
    #[inline]
    pub fn prefetch_data_buckets(&self, key: &DataKey<'_>, token: Option<Token>) {
        self.index.prefetch(key.name_hash());
        if let Some(token) = token {
            self.pit.prefetch_entry(token.entry);
        }
        let depth = key.hashes.len() - 1;
        self.cs.tree.prefetch_parent_buckets(key.hashes);
        let mut lengths = self.pit.prefix_lengths_below(depth);
        while lengths != 0 {
            self.index.prefetch(key.hashes[lengths.trailing_zeros() as usize]);
            lengths &= lengths - 1;
        }
    }

    /// Second stage for a Data: the entries that its buckets name. With a token of this shard, the
    /// first stage has asked for the PIT entry already.
    #[inline]
    pub fn prefetch_data_entries(&self, key: &DataKey<'_>, token: Option<Token>) {
        if token.is_none() {
            self.prefetch_entries(key.name_hash());
        }
        self.cs.tree.prefetch_parents(key.hashes);
    }

    /// Third stage for a Data: the newest Data below the node that it is going to hang on.
    #[inline]
    pub fn prefetch_data_sibling(&self, key: &DataKey<'_>) {
        if let Some(entry) = self.cs.tree.likely_sibling(key.hashes) {
            self.cs.prefetch(entry);
        }
    }

    /// Asks for what a bucket names; whether any of it is cached Data.
    #[inline(always)]
    fn prefetch_entries(&self, hash: u64) -> bool {
        let mut has_cached = false;
        self.index.for_each(hash, |reference| {
            if Pit::owns(reference) {
                self.pit.prefetch(reference);
            } else {
                self.cs.prefetch(reference);
                has_cached = true;
            }
        });
        has_cached
    }
}
