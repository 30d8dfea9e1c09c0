//! The file of the disk cache, changed by arbitrary bytes.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, OnceLock};

use ndn_disk::{
    Admission, DATA_OFFSET, DirectoryEntry, FirstBlock, Lookup, Packet, Record, SegmentId, Share,
    ShareOptions, Storage, Superblock, Trailer, recover,
};
use ndn_types::Timestamp;

/// Size of the file: eight segments of the smallest size.
const FILE_BYTES: usize = (1 << 20) + (2 << 20);
/// Length of an edit without its bytes: place, length.
const EDIT_HEADER: usize = 5;

struct Memory(Mutex<Vec<u8>>);

impl Storage for Memory {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let bytes = self.0.lock().map_err(|_| io::ErrorKind::Other)?;
        let read = bytes.get(start..start + buffer.len());
        buffer.copy_from_slice(read.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, written: &[u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let mut bytes = self.0.lock().map_err(|_| io::ErrorKind::Other)?;
        let place = bytes.get_mut(start..start + written.len());
        place.ok_or(io::ErrorKind::StorageFull)?.copy_from_slice(written);
        Ok(())
    }
}

fn options() -> ShareOptions {
    let (segments, segment_bytes) =
        Superblock::plan(FILE_BYTES as u64, 1).expect("the file has room for one share");
    let (format_id, hash_key, hash_check) = (7, [3; 16], 5);
    let superblock =
        Superblock { format_id, hash_key, hash_check, shares: 1, segments, segment_bytes };
    ShareOptions {
        superblock,
        share: 0,
        packets_max: 2000,
        reads_max: 4,
        admission: Admission::All,
        unix_origin_ms: 0,
    }
}

/// A file, and its packets by hash.
type Image = (Vec<u8>, BTreeMap<u64, Vec<u8>>);

/// A valid file, with complete segments, one that was being written and an erasure; and its packets by hash.
fn image() -> &'static Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let options = options();
        let memory = Memory(Mutex::new(vec![0; FILE_BYTES]));
        let superblock = options.superblock.encode();
        memory.write_at(&superblock, 0).expect("a write");
        let mut share = recover(&memory, options).expect("a share");
        let mut packets = BTreeMap::new();
        for number in 0..500_u16 {
            let [high, low] = number.to_be_bytes();
            let mut wire = vec![6, 253, 4, 0, 7, 4, 8, 2, high, low];
            wire.resize(4 + 1024, low);
            let hash = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            share.offer(hash, Packet { wire: &wire, fresh_until: Timestamp::ZERO }, true);
            packets.insert(hash, wire);
            if number == 300 {
                share.erase(&[8, 2, 0, 100]);
            }
            write(&mut share, &memory);
        }
        share.flush();
        write(&mut share, &memory);
        assert!(share.is_flushed());
        let bytes = memory.0.into_inner().expect("nobody panicked");
        (bytes, packets)
    })
}

fn write(share: &mut Share, memory: &Memory) {
    while let Some(request) = share.poll_request() {
        let completion = request.perform(memory);
        if let Some(answer) = share.complete(Timestamp::ZERO, completion) {
            share.recycle(answer);
        }
    }
}

/// Takes the bytes as each part of the file, and as edits of a valid file (place, length, bytes): no packet is returned
/// that was not written.
pub(crate) fn disk(bytes: &[u8]) {
    let id = SegmentId { format_id: 7, share: 0, sequence: 1 };
    if let FirstBlock::Valid(superblock) = Superblock::decode(bytes, FILE_BYTES as u64) {
        assert!(superblock.end() <= FILE_BYTES as u64);
    }
    if let Ok(record) = Record::decode(bytes, id, 1) {
        assert!(record.bytes.len() <= bytes.len());
    }
    let _ =
        (Trailer::decode(bytes, id), DirectoryEntry::decode(bytes, 4096), id.decode_header(bytes));
    let (image, packets) = image();
    let mut edited = image.clone();
    let mut rest = bytes;
    while let Some((header, more)) = rest.split_first_chunk::<EDIT_HEADER>() {
        let [p0, p1, p2, p3, length] = *header;
        let place = usize::try_from(DATA_OFFSET).unwrap_or(0)
            + u32::from_le_bytes([p0, p1, p2, p3]) as usize % (2 << 20);
        let (edit, more) = more.split_at(usize::from(length).min(more.len()));
        let end = (place + edit.len()).min(FILE_BYTES);
        edited[place..end].copy_from_slice(&edit[..end - place]);
        rest = more;
    }
    let memory = Memory(Mutex::new(edited));
    let mut share = recover(&memory, options()).expect("contents are no error");
    for (&hash, wire) in packets {
        if share.find(hash, false) != Lookup::OnDisk || !share.begin_read(hash, hash) {
            continue;
        }
        while let Some(request) = share.poll_request() {
            let completion = request.perform(&memory);
            if let Some(answer) = share.complete(Timestamp::ZERO, completion) {
                assert!(answer.packet().is_none_or(|found| found.wire == *wire), "another packet");
                share.recycle(answer);
            }
        }
    }
    if bytes.is_empty() {
        assert_eq!(share.counters().values().reads, 500);
        assert_eq!(share.counters().values().mismatches, 1, "the erased packet");
    }
}
