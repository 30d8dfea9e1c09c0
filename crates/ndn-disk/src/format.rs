//! Layout of the file or block device. All numbers are little-endian.
//!
//! | part | place | contents |
//! |---|---|---|
//! | superblock | byte 0 | [`Superblock`] |
//! | segments of share 0, 1, … | from [`DATA_OFFSET`] | header, records, directory, trailer |
//!
//! A segment is written front to back. Its trailer comes last, so a segment without a valid trailer was being written
//! when the forwarder ended, and its records are found one by one. Each checksum covers the identifier of the format and
//! the sequence number of the segment, so nothing of an earlier use of the same place is valid.

use std::fmt;

use twox_hash::XxHash3_64;

/// Records begin at multiples of this, bytes.
pub const UNIT: usize = 64;
/// Reads and writes begin and end at multiples of this, bytes.
pub const BLOCK: usize = 4096;
/// First byte of the segments.
pub const DATA_OFFSET: u64 = 1 << 20;
/// Bytes at the start of a file or device that must be zero before it is formatted: the signatures of file systems and
/// volume managers lie there.
pub const CONTENTS_CHECK_BYTES: usize = 128 << 10;
/// Smallest and largest segment, bytes; both are powers of two.
pub(crate) const SEGMENT_BYTES_MIN: usize = 256 << 10;
/// Largest segment, bytes.
pub(crate) const SEGMENT_BYTES_MAX: usize = 4 << 20;
/// Segments that a share has at least.
pub(crate) const SEGMENTS_MIN: u32 = 8;
/// Segments that a share has at least if these need not be the smallest.
const SEGMENTS_PREFERRED: u64 = 32;
/// Largest packet, bytes: the limit of NDN packets.
pub const PACKET_BYTES_MAX: usize = 8800;
/// Length of a record before its packet, bytes.
pub(crate) const RECORD_HEADER: usize = 32;
/// Length of the header and of the trailer of a segment, bytes.
pub(crate) const SEGMENT_HEADER: usize = UNIT;
/// Length of an entry of the directory, bytes.
pub(crate) const DIRECTORY_ENTRY: usize = 16;

const SUPERBLOCK_MAGIC: [u8; 8] = *b"NDNDISK1";
const HEADER_MAGIC: [u8; 8] = *b"NDNSEGHD";
const TRAILER_MAGIC: [u8; 8] = *b"NDNSEGTR";
const KIND_DATA: u8 = 1;
const KIND_ERASURE: u8 = 2;

const _: () = assert!((RECORD_HEADER + PACKET_BYTES_MAX).div_ceil(UNIT) <= 255);
const _: () = assert!(SEGMENT_BYTES_MAX / UNIT <= 1 << 24);

/// Description of a formatted file or device.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Superblock {
    /// Random number of this formatting.
    pub format_id: u64,
    /// Key of the hash function of names.
    pub hash_key: [u8; 16],
    /// Hash of a fixed name with this key: another implementation of the function has another.
    pub hash_check: u64,
    /// Number of shares.
    pub shares: u32,
    /// Segments of each share.
    pub segments: u32,
    /// Length of a segment.
    pub segment_bytes: u32,
}

impl fmt::Debug for Superblock {
    /// Omits the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Superblock")
            .field("format_id", &self.format_id)
            .field("shares", &self.shares)
            .field("segments", &self.segments)
            .field("segment_bytes", &self.segment_bytes)
            .finish_non_exhaustive()
    }
}

/// The file or device is too small for its shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooSmall {
    /// Bytes that are needed.
    pub needed: u64,
}

impl Superblock {
    /// Encoded length, bytes.
    pub const LENGTH: usize = BLOCK;

    /// Divides `bytes` into shares of equal size.
    ///
    /// # Errors
    /// [`TooSmall`] if a share has fewer than `SEGMENTS_MIN` segments.
    pub fn plan(bytes: u64, shares: u32) -> Result<(u32, u32), TooSmall> {
        let shares = u64::from(shares.max(1));
        let per_share = bytes.saturating_sub(DATA_OFFSET) / shares;
        let mut segment_bytes = SEGMENT_BYTES_MAX as u64;
        while segment_bytes > SEGMENT_BYTES_MIN as u64
            && per_share / segment_bytes < SEGMENTS_PREFERRED
        {
            segment_bytes /= 2;
        }
        // The place of a record has 40 bits.
        let most = (1 << 40) / (segment_bytes / UNIT as u64);
        let segments = (per_share / segment_bytes).min(most);
        if segments < u64::from(SEGMENTS_MIN) {
            let smallest = u64::from(SEGMENTS_MIN) * SEGMENT_BYTES_MIN as u64;
            return Err(TooSmall { needed: DATA_OFFSET + shares * smallest });
        }
        let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Ok((narrow(segments), narrow(segment_bytes)))
    }

    /// Bytes from the start of the file to the end of the last share.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.share_offset(self.shares)
    }

    /// First byte of a share.
    #[must_use]
    pub fn share_offset(&self, share: u32) -> u64 {
        DATA_OFFSET + u64::from(share) * u64::from(self.segments) * u64::from(self.segment_bytes)
    }

    /// The first block of the file.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        let mut at = Writer { bytes: &mut bytes, at: 0 };
        at.put(&SUPERBLOCK_MAGIC);
        at.put(&self.format_id.to_le_bytes());
        at.put(&self.hash_key);
        at.put(&self.hash_check.to_le_bytes());
        at.put(&self.shares.to_le_bytes());
        at.put(&self.segments.to_le_bytes());
        at.put(&self.segment_bytes.to_le_bytes());
        at.put(&[0; 4]);
        let length = at.at;
        let checksum = XxHash3_64::oneshot(&bytes[..length]);
        bytes[length..length + 8].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the first block of a file of `file_bytes`.
    #[must_use]
    pub fn decode(bytes: &[u8], file_bytes: u64) -> FirstBlock {
        let mut at = Reader(bytes);
        if at.take() != Some(SUPERBLOCK_MAGIC) {
            return match bytes.iter().all(|&byte| byte == 0) {
                true => FirstBlock::Blank,
                false => FirstBlock::OtherContents,
            };
        }
        Self::decode_fields(bytes, at, file_bytes).map_or(FirstBlock::Damaged, FirstBlock::Valid)
    }

    fn decode_fields(bytes: &[u8], mut at: Reader<'_>, file_bytes: u64) -> Option<Self> {
        let superblock = Self {
            format_id: at.u64()?,
            hash_key: at.take()?,
            hash_check: at.u64()?,
            shares: at.u32()?,
            segments: at.u32()?,
            segment_bytes: at.u32()?,
        };
        at.u32()?;
        let length = bytes.len() - at.0.len();
        let is_intact = at.u64()? == XxHash3_64::oneshot(&bytes[..length]);
        let size = superblock.segment_bytes as usize;
        let has_shape = size.is_power_of_two()
            && (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&size)
            && superblock.segments >= SEGMENTS_MIN
            && (1..=u32::from(u16::MAX)).contains(&superblock.shares)
            && u64::from(superblock.segments) * (size / UNIT) as u64 <= 1 << 40
            && superblock.end() <= file_bytes;
        (is_intact && has_shape).then_some(superblock)
    }
}

/// Contents of the first block of a file or device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstBlock {
    /// Zeros.
    Blank,
    /// A superblock.
    Valid(Superblock),
    /// A superblock with a wrong checksum, or of a larger file.
    Damaged,
    /// Contents of another program, which must not be overwritten.
    OtherContents,
}

/// Identity of a segment: all its checksums depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentId {
    /// [`Superblock::format_id`].
    pub format_id: u64,
    /// The share.
    pub share: u32,
    /// Sequence number in the log of the share, from 1.
    pub sequence: u64,
}

impl SegmentId {
    /// Seed of the checksum of what lies in `unit` of the segment.
    fn seed(self, unit: u32) -> u64 {
        let mixed = self.format_id ^ self.sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (u64::from(self.share) << 40 | u64::from(unit)).wrapping_mul(0xd6e8_feb8_6659_fd93)
    }

    /// Header of the segment.
    #[must_use]
    pub fn encode_header(self) -> [u8; SEGMENT_HEADER] {
        let mut bytes = [0; SEGMENT_HEADER];
        bytes[..8].copy_from_slice(&HEADER_MAGIC);
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        let checksum = XxHash3_64::oneshot_with_seed(self.seed(0), &bytes[..16]);
        bytes[16..24].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The sequence number in the header of a segment, if it is valid for this share. `self.sequence` is not used.
    #[must_use]
    pub fn decode_header(self, bytes: &[u8]) -> Option<u64> {
        let mut at = Reader(bytes);
        (at.take()? == HEADER_MAGIC).then_some(())?;
        let sequence = at.u64()?;
        let expected = Self { sequence, ..self }.encode_header();
        (bytes.get(..SEGMENT_HEADER)? == expected).then_some(sequence)
    }
}

/// End of a complete segment: where its directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// Sequence number of the segment.
    pub sequence: u64,
    /// Entries of the directory, which lies before the trailer.
    pub count: u32,
    /// Checksum of the directory.
    pub directory_checksum: u64,
}

impl Trailer {
    /// Encodes the trailer of the segment `id`.
    #[must_use]
    pub fn encode(&self, id: SegmentId) -> [u8; SEGMENT_HEADER] {
        let mut bytes = [0; SEGMENT_HEADER];
        bytes[..8].copy_from_slice(&TRAILER_MAGIC);
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.count.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.directory_checksum.to_le_bytes());
        let seed = SegmentId { sequence: self.sequence, ..id }.seed(u32::MAX);
        let checksum = XxHash3_64::oneshot_with_seed(seed, &bytes[..32]);
        bytes[32..40].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the last `SEGMENT_HEADER` bytes of a segment; `id.sequence` is not used.
    #[must_use]
    pub fn decode(bytes: &[u8], id: SegmentId) -> Option<Self> {
        let mut at = Reader(bytes);
        (at.take()? == TRAILER_MAGIC).then_some(())?;
        let (sequence, count) = (at.u64()?, at.u32()?);
        at.u32()?;
        let trailer = Self { sequence, count, directory_checksum: at.u64()? };
        (bytes == trailer.encode(id)).then_some(trailer)
    }

    /// Bytes of the directory.
    #[must_use]
    pub fn directory_bytes(&self) -> usize {
        self.count as usize * DIRECTORY_ENTRY
    }
}

/// Entry of the directory of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Hash of the name; 0 for an erasure.
    pub hash: u64,
    /// Unit of the segment at which the record begins.
    pub unit: u32,
    /// Length of the record, units.
    pub units: u8,
    /// The record is an erasure.
    pub is_erasure: bool,
    /// The Data had a FreshnessPeriod.
    pub may_be_fresh: bool,
    /// Part of a hash of the packet.
    pub tag: u16,
}

impl DirectoryEntry {
    /// Encodes the entry.
    #[must_use]
    pub fn encode(&self) -> [u8; DIRECTORY_ENTRY] {
        let mut bytes = [0; DIRECTORY_ENTRY];
        bytes[..8].copy_from_slice(&self.hash.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.unit.to_le_bytes());
        bytes[12] = self.units;
        bytes[13] = u8::from(self.is_erasure) | u8::from(self.may_be_fresh) << 1;
        bytes[14..].copy_from_slice(&self.tag.to_le_bytes());
        bytes
    }

    /// Decodes an entry of a segment of `segment_units`.
    #[must_use]
    pub fn decode(bytes: &[u8], segment_units: u32) -> Option<Self> {
        let mut at = Reader(bytes);
        let (hash, unit) = (at.u64()?, at.u32()?);
        let [units, flags] = at.take()?;
        let tag = u16::from_le_bytes(at.take()?);
        let fits = unit >= 1 && units >= 1 && unit.checked_add(units.into())? < segment_units;
        let (is_erasure, may_be_fresh) = (flags & 1 != 0, flags & 2 != 0);
        fits.then_some(Self { hash, unit, units, is_erasure, may_be_fresh, tag })
    }

    /// Checksum of an encoded directory.
    #[must_use]
    pub fn checksum(directory: &[u8], id: SegmentId) -> u64 {
        XxHash3_64::oneshot_with_seed(id.seed(u32::MAX - 1), directory)
    }
}

/// A record: a packet with its metadata, or the erasure of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The record is an erasure, and `bytes` the value of the prefix.
    pub is_erasure: bool,
    /// Hash of the name; 0 for an erasure.
    pub hash: u64,
    /// End of freshness, in milliseconds since 1970; 0 for Data that was never fresh.
    pub fresh_until_ms: u64,
    /// The packet.
    pub bytes: &'a [u8],
}

/// Reason why a place has no valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// The bytes are not those that were written.
    Checksum,
    /// The record is not the one that was expected.
    Other,
}

impl<'a> Record<'a> {
    /// Length of a record of `bytes`, in units.
    #[must_use]
    pub fn units_of(bytes: usize) -> usize {
        (RECORD_HEADER + bytes).div_ceil(UNIT)
    }

    /// Writes the record to `out`, which begins at `unit` of the segment `id` and has the length of the record in
    /// whole units.
    pub fn encode(&self, id: SegmentId, unit: u32, out: &mut [u8]) {
        let end = RECORD_HEADER + self.bytes.len();
        let length = u16::try_from(self.bytes.len()).unwrap_or(u16::MAX);
        out[8] = if self.is_erasure { KIND_ERASURE } else { KIND_DATA };
        out[9] = 0;
        out[10..12].copy_from_slice(&length.to_le_bytes());
        out[12..16].fill(0);
        out[16..24].copy_from_slice(&self.hash.to_le_bytes());
        out[24..32].copy_from_slice(&self.fresh_until_ms.to_le_bytes());
        out[RECORD_HEADER..end].copy_from_slice(self.bytes);
        out[end..].fill(0);
        let checksum = XxHash3_64::oneshot_with_seed(id.seed(unit), &out[8..end]);
        out[..8].copy_from_slice(&checksum.to_le_bytes());
    }

    /// The record at the start of `bytes`, which begin at `unit` of the segment `id`.
    ///
    /// # Errors
    /// [`RecordError::Checksum`] for all bytes that were not written there as one record of this segment.
    pub fn decode(bytes: &'a [u8], id: SegmentId, unit: u32) -> Result<Self, RecordError> {
        Self::decode_parts(bytes, id, unit).ok_or(RecordError::Checksum)
    }

    fn decode_parts(bytes: &'a [u8], id: SegmentId, unit: u32) -> Option<Self> {
        let mut at = Reader(bytes);
        let checksum = at.u64()?;
        let [kind, _] = at.take()?;
        let length = usize::from(u16::from_le_bytes(at.take()?));
        at.u32()?;
        let (hash, fresh_until_ms) = (at.u64()?, at.u64()?);
        let covered = bytes.get(8..RECORD_HEADER + length)?;
        if length > PACKET_BYTES_MAX
            || XxHash3_64::oneshot_with_seed(id.seed(unit), covered) != checksum
        {
            return None;
        }
        let is_erasure = match kind {
            KIND_DATA => false,
            KIND_ERASURE => true,
            _ => return None,
        };
        let bytes = &bytes[RECORD_HEADER..RECORD_HEADER + length];
        Some(Self { is_erasure, hash, fresh_until_ms, bytes })
    }

    /// Part of a hash of the packet that an index entry keeps: 14 bits.
    #[must_use]
    pub fn tag(&self) -> u16 {
        let [low, high, ..] = XxHash3_64::oneshot(self.bytes).to_le_bytes();
        u16::from_le_bytes([low, high]) & 0x3fff
    }
}

/// Value of the Name at the start of a valid Data or Interest; `None` if the bytes are neither.
#[must_use]
pub fn name_of(wire: &[u8]) -> Option<&[u8]> {
    let (_, packet) = element(wire)?;
    let (kind, name) = element(packet)?;
    (kind == 7).then_some(name)
}

/// Type and value of the TLV element at the start of `bytes`, with a type of one byte.
fn element(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (&kind, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=252 => (usize::from(first), rest),
        253 => {
            let (length, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_be_bytes(*length)), rest)
        }
        254.. => return None,
    };
    (kind < 253).then_some((kind, rest.get(..length)?))
}

struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, value: &[u8]) {
        self.bytes[self.at..self.at + value.len()].copy_from_slice(value);
        self.at += value.len();
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (value, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*value)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const ID: SegmentId = SegmentId { format_id: 7, share: 1, sequence: 9 };

    fn superblock() -> Superblock {
        let (segments, segment_bytes) = Superblock::plan(64 << 20, 2).unwrap();
        let hash_key = *b"key of the tests";
        Superblock { format_id: 7, hash_key, hash_check: 3, shares: 2, segments, segment_bytes }
    }

    #[test]
    fn changed_bit_in_the_superblock_is_detected() {
        let bytes = superblock().encode();
        assert_eq!(Superblock::decode(&bytes, 64 << 20), FirstBlock::Valid(superblock()));
        assert_eq!(Superblock::decode(&bytes, 1 << 20), FirstBlock::Damaged);
        assert_eq!(Superblock::decode(&[0; BLOCK], 64 << 20), FirstBlock::Blank);
        for bit in 0..64 * 8 {
            let mut wrong = bytes;
            wrong[bit / 8] ^= 1 << (bit % 8);
            let expected = if bit < 64 { FirstBlock::OtherContents } else { FirstBlock::Damaged };
            assert_eq!(Superblock::decode(&wrong, 64 << 20), expected, "bit {bit}");
        }
    }

    #[test]
    fn plan_fits_every_size() {
        for bytes in [4 << 20, 16 << 20, 1 << 30, 1 << 40, 1 << 46] {
            for shares in [1, 3, 16] {
                match Superblock::plan(bytes, shares) {
                    Ok((segments, segment_bytes)) => {
                        let planned =
                            Superblock { shares, segments, segment_bytes, ..superblock() };
                        assert!(planned.end() <= bytes);
                        let decoded = Superblock::decode(&planned.encode(), bytes);
                        assert_eq!(decoded, FirstBlock::Valid(planned));
                    }
                    Err(TooSmall { needed }) => {
                        assert!(needed > bytes);
                        Superblock::plan(needed, shares).unwrap();
                    }
                }
            }
        }
    }

    #[test]
    fn record_is_valid_only_at_its_place_and_unchanged() {
        let record =
            Record { is_erasure: false, hash: 5, fresh_until_ms: 6, bytes: &[6, 3, 7, 1, 8] };
        let mut bytes = [0xFF; UNIT];
        record.encode(ID, 4, &mut bytes);
        assert_eq!(Record::decode(&bytes, ID, 4), Ok(record));
        assert!(Record::decode(&bytes, ID, 5).is_err());
        for other in [
            SegmentId { sequence: 10, ..ID },
            SegmentId { share: 2, ..ID },
            SegmentId { format_id: 8, ..ID },
        ] {
            assert!(Record::decode(&bytes, other, 4).is_err());
        }
        for bit in 0..(RECORD_HEADER + 5) * 8 {
            let mut wrong = bytes;
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert!(Record::decode(&wrong, ID, 4).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn header_trailer_and_directory_round_trip() {
        assert_eq!(ID.decode_header(&ID.encode_header()), Some(9));
        let trailer = Trailer { sequence: 9, count: 3, directory_checksum: 8 };
        assert_eq!(Trailer::decode(&trailer.encode(ID), ID), Some(trailer));
        let other = SegmentId { share: 2, ..ID };
        assert_eq!(Trailer::decode(&trailer.encode(ID), other), None);
        assert_eq!(other.decode_header(&ID.encode_header()), None);
        let entry = DirectoryEntry {
            hash: 1,
            unit: 2,
            units: 3,
            is_erasure: true,
            may_be_fresh: true,
            tag: 0x3fff,
        };
        assert_eq!(DirectoryEntry::decode(&entry.encode(), 6), Some(entry));
        assert_eq!(DirectoryEntry::decode(&entry.encode(), 5), None);
    }
}
