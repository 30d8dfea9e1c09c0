//! The disk tier of the Content Store: takes what is evicted from memory, and is searched when memory has no Data.

use ndn_disk::{Lookup, Packet, Share};
use ndn_types::Timestamp;

use super::composite::Pcct;
use super::packet_name::packet_has_name;
use crate::{DataKey, InterestKey};

/// Result of [`Pcct::find_on_disk`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskLookup<'a> {
    /// The disk has no Data of the name, or none that can be fresh enough.
    Miss,
    /// The Data, which is not written yet.
    Found(Packet<'a>),
    /// A read may find it: [`Share::begin_read`] with this hash.
    Read(u64),
}

/// Disk tier of the Content Store.
impl Pcct {
    /// Adds a disk tier.
    pub fn attach_disk(&mut self, disk: Box<Share>) {
        self.cs.disk = Some(disk);
    }

    /// Whether there is a disk tier.
    #[must_use]
    #[inline]
    pub fn has_disk(&self) -> bool {
        self.cs.disk.is_some()
    }

    /// The disk tier, if there is one.
    #[must_use]
    pub fn disk(&self) -> Option<&Share> {
        self.cs.disk.as_deref()
    }

    /// The disk tier, if there is one.
    pub fn disk_mut(&mut self) -> Option<&mut Share> {
        self.cs.disk.as_deref_mut()
    }

    /// Searches the disk for Data of the name of an Interest, without its digest: CanBePrefix finds no longer names. To
    /// be called if memory has no Data. Nothing is found while the Content Store does not serve.
    pub fn find_on_disk(&mut self, key: &InterestKey<'_>) -> DiskLookup<'_> {
        let serves = self.cs.serve;
        let Some(disk) = self.cs.disk.as_deref_mut().filter(|_| serves) else {
            return DiskLookup::Miss;
        };
        let hash = key.data_hash();
        match disk.find(hash, key.must_be_fresh) {
            Lookup::Miss => DiskLookup::Miss,
            Lookup::OnDisk => DiskLookup::Read(hash),
            Lookup::Buffered(packet) if packet_has_name(packet.wire, key.data_name()) => {
                DiskLookup::Found(packet)
            }
            Lookup::Buffered(_) => DiskLookup::Miss,
        }
    }

    /// Inserts a Data that was read from the disk, so that memory answers next. `fresh_until` is the end of its
    /// freshness.
    pub fn promote_data(
        &mut self,
        key: &DataKey<'_>,
        wire: &[u8],
        fresh_until: Timestamp,
        now: Timestamp,
    ) {
        let freshness_ms = match fresh_until {
            Timestamp::ZERO => 0,
            until => until.nanos_since(now) / ndn_types::NANOS_PER_MILLI,
        };
        // Not an error: memory may not admit, or have no room for so large a packet.
        let _ = self.insert_data(key, wire, freshness_ms, true, now);
    }
}

impl InterestKey<'_> {
    /// Hash of the name without a digest: the key of the disk tier.
    #[must_use]
    pub fn disk_hash(&self) -> u64 {
        self.data_hash()
    }

    /// Whether `digest` is the implicit digest at the end of the name, if there is one.
    #[must_use]
    pub fn accepts_digest(&self, digest: impl FnOnce() -> [u8; 32]) -> bool {
        self.digest().is_none_or(|expected| digest() == *expected)
    }

    /// Whether the Interest has MustBeFresh.
    #[must_use]
    pub fn must_be_fresh(&self) -> bool {
        self.must_be_fresh
    }
}
