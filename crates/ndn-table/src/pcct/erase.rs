//! Erasing cached Data by prefix, a bounded number at a time.

use super::cs::Cs;
use super::packet_name;
use crate::hash_index::HashIndex;
use crate::key::DataKey;

/// What one call of [`Pcct::erase_data`](crate::Pcct::erase_data) did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EraseResult {
    /// Data erased.
    pub erased: usize,
    /// Whether more Data of the prefix remain.
    pub more: bool,
}

impl Cs {
    /// Erases up to `limit` Data whose name starts with the name of `key`.
    pub(super) fn erase(
        &mut self,
        index: &mut HashIndex,
        key: &DataKey<'_>,
        limit: usize,
    ) -> EraseResult {
        let mut erased = 0;
        loop {
            let Some(place) = self.find_under(index, key) else {
                return EraseResult { erased, more: false };
            };
            if erased == limit {
                return EraseResult { erased, more: true };
            }
            self.remove(index, place);
            erased += 1;
        }
    }

    /// Any Data at or below a name.
    fn find_under(&self, index: &HashIndex, key: &DataKey<'_>) -> Option<u32> {
        let name = key.name().value();
        let exact = index.find(key.name_hash(), |place| {
            !super::pit::Pit::owns(place) && packet_name(self.packet(place)) == name
        });
        if exact.is_some() {
            return exact;
        }
        self.tree.find_below(&self.entries, key.hashes, None, |place| {
            packet_name(self.packet(place)).starts_with(name)
        })
    }
}
