//! In-records and out-records of PIT entries.

use super::PitError;
use super::pit::Pit;
use super::pit_entry::PitIndex;
use super::records::{
    IN_RECORDS_PER_ENTRY_MAX, InRecord, InRecordInsert, OUT_RECORDS_PER_ENTRY_MAX, OutRecord,
};
use crate::FaceIndex;

impl Pit {
    pub(super) fn in_records(&self, place: PitIndex) -> impl Iterator<Item = &InRecord> {
        let entry = &self.entries[place.0];
        self.in_store.iter(&entry.in_first, entry.in_list)
    }

    pub(super) fn token_bytes<'a>(&'a self, record: &'a InRecord) -> &'a [u8] {
        self.tokens.token(record)
    }

    #[inline]
    pub(super) fn insert_in_record(
        &mut self,
        place: PitIndex,
        new: InRecord,
        token: &[u8],
    ) -> Result<InRecordInsert, PitError> {
        let entry = &mut self.entries[place.0];
        let list = &mut entry.in_list;
        if let Some(record) = self.in_store.find_mut(&mut entry.in_first, *list, new.face) {
            if !self.tokens.set(record, token) {
                return Err(PitError::TokensFull);
            }
            record.nonce = new.nonce;
            record.renewed = new.renewed;
            record.lifetime_ms = new.lifetime_ms;
            return Ok(InRecordInsert::Renewed);
        }
        if list.count >= IN_RECORDS_PER_ENTRY_MAX {
            return Err(PitError::RecordsFull);
        }
        let mut record = new;
        if !self.tokens.set(&mut record, token) {
            return Err(PitError::TokensFull);
        }
        if !self.in_store.push(&mut entry.in_first, list, record) {
            self.tokens.release(&mut record);
            return Err(PitError::RecordsFull);
        }
        self.in_records_len += 1;
        Ok(InRecordInsert::Added)
    }

    pub(super) fn in_record_mut(
        &mut self,
        place: PitIndex,
        face: FaceIndex,
    ) -> Option<&mut InRecord> {
        let entry = &mut self.entries[place.0];
        self.in_store.find_mut(&mut entry.in_first, entry.in_list, face)
    }

    pub(super) fn remove_in_record(&mut self, place: PitIndex, face: FaceIndex) -> bool {
        let entry = &mut self.entries[place.0];
        match self.in_store.remove(&mut entry.in_first, &mut entry.in_list, face) {
            Some(mut record) => {
                self.tokens.release(&mut record);
                self.in_records_len -= 1;
                true
            }
            None => false,
        }
    }

    #[inline]
    pub(super) fn clear_in_records(&mut self, place: PitIndex) {
        let entry = &mut self.entries[place.0];
        if entry.in_list.count == 0 {
            return;
        }
        self.in_records_len -= usize::from(entry.in_list.count);
        self.tokens.release(&mut entry.in_first);
        if entry.in_list.count > 1 {
            for record in self.in_store.iter(&entry.in_first, entry.in_list).skip(1) {
                self.tokens.release(&mut { *record });
            }
        }
        self.in_store.clear(&mut entry.in_list);
    }

    pub(super) fn out_records(&self, place: PitIndex) -> impl Iterator<Item = &OutRecord> {
        let entry = &self.entries[place.0];
        self.out_store.iter(&entry.out_first, entry.out_list)
    }

    #[inline]
    pub(super) fn insert_out_record(
        &mut self,
        place: PitIndex,
        new: OutRecord,
    ) -> Result<(), PitError> {
        let entry = &mut self.entries[place.0];
        let list = &mut entry.out_list;
        if let Some(record) = self.out_store.find_mut(&mut entry.out_first, *list, new.face) {
            *record = OutRecord { strategy_state: record.strategy_state, ..new };
            return Ok(());
        }
        if list.count >= OUT_RECORDS_PER_ENTRY_MAX
            || !self.out_store.push(&mut entry.out_first, list, new)
        {
            return Err(PitError::RecordsFull);
        }
        Ok(())
    }

    pub(super) fn out_record_mut(
        &mut self,
        place: PitIndex,
        face: FaceIndex,
    ) -> Option<&mut OutRecord> {
        let entry = &mut self.entries[place.0];
        self.out_store.find_mut(&mut entry.out_first, entry.out_list, face)
    }

    pub(super) fn remove_out_record(&mut self, place: PitIndex, face: FaceIndex) -> bool {
        let entry = &mut self.entries[place.0];
        self.out_store.remove(&mut entry.out_first, &mut entry.out_list, face).is_some()
    }

    pub(super) fn clear_out_records(&mut self, place: PitIndex) {
        let entry = &mut self.entries[place.0];
        self.out_store.clear(&mut entry.out_list);
    }
}
