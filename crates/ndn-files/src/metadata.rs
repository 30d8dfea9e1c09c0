//! File metadata of the file service.

use ndn_packet::tlv::{Reader, append_name, append_nested, append_number, append_tlv};
use ndn_packet::{Component, DecodeError, Name, NameRef, types};

use crate::stat::{FileKind, FileStat};

/// TLV types of the file service.
mod types_here {
    pub(super) const SEGMENT_SIZE: u32 = 0xF500;
    pub(super) const SIZE: u32 = 0xF502;
    pub(super) const MODE: u32 = 0xF504;
    pub(super) const ATIME: u32 = 0xF506;
    pub(super) const BTIME: u32 = 0xF508;
    pub(super) const CTIME: u32 = 0xF50A;
    pub(super) const MTIME: u32 = 0xF50C;
    /// Our extension: name of the manifest. Even, so that other implementations skip it.
    pub(super) const MANIFEST: u32 = 0xF520;
    /// Our extension, also even: content of the root of a manifest without other nodes.
    pub(super) const MANIFEST_ROOT: u32 = 0xF522;
    /// Our extension, also even: estimated time until the manifest is ready.
    pub(super) const PREPARATION: u32 = 0xF524;
    /// Our extension, also even: signed leaves, a Name and the fan-out.
    pub(super) const SIGNED_LEAVES: u32 = 0xF526;
    pub(super) const FANOUT: u32 = 0xF532;
}

/// Why metadata are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// Malformed.
    #[error("malformed metadata: {0}")]
    Malformed(#[from] DecodeError),
    /// Inconsistent.
    #[error("contradictory metadata: {0}")]
    Contradiction(&'static str),
}

/// Leaves of a manifest that is not ready, each signed by the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedLeaves {
    /// Their name with version; the number of a leaf follows.
    pub name: Name,
    /// Number of segments that each leaf lists, except the last.
    pub fanout: u64,
}

/// Metadata of a file or directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileMetadata {
    /// Name with version, of the file or of the directory's listing.
    pub name: Name,
    /// Number of the last segment; files only.
    pub final_segment: Option<u64>,
    /// Content bytes of each segment but the last; files only.
    pub segment_size: Option<u64>,
    /// Length in bytes; files only.
    pub size: Option<u64>,
    /// Type and permissions as in `st_mode`.
    pub mode: u64,
    /// Last access, in nanoseconds since 1970.
    pub atime_ns: Option<u64>,
    /// Creation, in nanoseconds since 1970.
    pub btime_ns: Option<u64>,
    /// Last change of the inode, in nanoseconds since 1970.
    pub ctime_ns: Option<u64>,
    /// Last change of content, in nanoseconds since 1970.
    pub mtime_ns: Option<u64>,
    /// Name of the manifest with version, if the server has one.
    pub manifest: Option<Name>,
    /// Content of the root of the manifest, for small files.
    pub manifest_root: Option<Vec<u8>>,
    /// Estimated time until the manifest is ready, in milliseconds; `None` if it is, or will be at once.
    pub preparation_ms: Option<u64>,
    /// Signed leaves, which verify segments until the manifest is ready.
    pub signed_leaves: Option<SignedLeaves>,
}

impl FileMetadata {
    /// Metadata of the file described by `stat`; `segments` are the size and the last number of its
    /// segments, for regular files only.
    pub(crate) fn new(name: Name, stat: &FileStat, segments: Option<(u64, u64)>) -> Self {
        let is_file = stat.kind == FileKind::Regular;
        Self {
            name,
            final_segment: segments.map(|(_, last)| last),
            segment_size: segments.map(|(size, _)| size),
            size: is_file.then_some(stat.size),
            mode: stat.mode.into(),
            atime_ns: Some(stat.atime_ns),
            btime_ns: stat.btime_ns,
            ctime_ns: Some(stat.ctime_ns),
            mtime_ns: Some(stat.mtime_ns),
            manifest: None,
            manifest_root: None,
            preparation_ms: None,
            signed_leaves: None,
        }
    }

    /// Whether it is of a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.mode & 0o170_000 == 0o040_000
    }

    /// Version, from the name.
    #[must_use]
    pub fn version(&self) -> Option<u64> {
        self.name.as_ref().last().and_then(|last| last.as_version())
    }

    /// As the content of a Data.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        append_name(&mut out, self.name.as_ref());
        if let Some(last) = self.final_segment {
            append_nested(&mut out, types::FINAL_BLOCK_ID, |out| {
                append_number(out, ndn_packet::ComponentType::SEGMENT.tlv_type(), last);
            });
        }
        let mut number = |ty, value: Option<u64>| {
            if let Some(value) = value {
                append_number(&mut out, ty, value);
            }
        };
        number(types_here::SEGMENT_SIZE, self.segment_size);
        number(types_here::SIZE, self.size);
        number(types_here::MODE, Some(self.mode));
        number(types_here::ATIME, self.atime_ns);
        number(types_here::BTIME, self.btime_ns);
        number(types_here::CTIME, self.ctime_ns);
        number(types_here::MTIME, self.mtime_ns);
        if let Some(manifest) = &self.manifest {
            append_nested(&mut out, types_here::MANIFEST, |out| {
                append_name(out, manifest.as_ref());
            });
        }
        if let Some(root) = &self.manifest_root {
            append_tlv(&mut out, types_here::MANIFEST_ROOT, root);
        }
        if let Some(preparation_ms) = self.preparation_ms {
            append_number(&mut out, types_here::PREPARATION, preparation_ms);
        }
        if let Some(SignedLeaves { name, fanout }) = &self.signed_leaves {
            append_nested(&mut out, types_here::SIGNED_LEAVES, |out| {
                append_name(out, name.as_ref());
                append_number(out, types_here::FANOUT, *fanout);
            });
        }
        out
    }

    /// Parses the content of a Data. Unknown non-critical elements are skipped.
    ///
    /// # Errors
    /// `Malformed`; `Contradiction` if the size does not match the segments.
    pub fn decode(content: &[u8]) -> Result<Self, MetadataError> {
        let mut reader = Reader::new(content);
        let name = NameRef::from_tlv(&reader.read_expected(types::NAME)?)?.to_name();
        let mut found = Self {
            name,
            final_segment: None,
            segment_size: None,
            size: None,
            mode: 0,
            atime_ns: None,
            btime_ns: None,
            ctime_ns: None,
            mtime_ns: None,
            manifest: None,
            manifest_root: None,
            preparation_ms: None,
            signed_leaves: None,
        };
        while let Some(element) = reader.next_tlv()? {
            match element.ty() {
                types::FINAL_BLOCK_ID => {
                    let component = element.reader().read()?;
                    found.final_segment = Component::from_tlv(&component)?.as_segment();
                }
                types_here::SEGMENT_SIZE => found.segment_size = Some(element.number()?),
                types_here::SIZE => found.size = Some(element.number()?),
                types_here::MODE => found.mode = element.number()?,
                types_here::ATIME => found.atime_ns = Some(element.number()?),
                types_here::BTIME => found.btime_ns = Some(element.number()?),
                types_here::CTIME => found.ctime_ns = Some(element.number()?),
                types_here::MTIME => found.mtime_ns = Some(element.number()?),
                types_here::MANIFEST => {
                    let name = element.reader().read_expected(types::NAME)?;
                    found.manifest = Some(NameRef::from_tlv(&name)?.to_name());
                }
                types_here::MANIFEST_ROOT => found.manifest_root = Some(element.value().to_vec()),
                types_here::PREPARATION => found.preparation_ms = Some(element.number()?),
                types_here::SIGNED_LEAVES => {
                    let mut inside = element.reader();
                    let name = NameRef::from_tlv(&inside.read_expected(types::NAME)?)?.to_name();
                    let fanout = inside.read_expected(types_here::FANOUT)?.number()?;
                    found.signed_leaves = Some(SignedLeaves { name, fanout });
                }
                _ => element.skip_unrecognized()?,
            }
        }
        found.check()?;
        Ok(found)
    }

    fn check(&self) -> Result<(), MetadataError> {
        let (Some(size), Some(segment_size)) = (self.size, self.segment_size) else {
            return Ok(());
        };
        if segment_size == 0 {
            return Err(MetadataError::Contradiction("segments without bytes"));
        }
        let last = size.div_ceil(segment_size).saturating_sub(1);
        if self.final_segment.is_some_and(|stated| stated != last) {
            return Err(MetadataError::Contradiction(
                "the last segment is not where the size ends",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn example() -> FileMetadata {
        FileMetadata {
            name: Name::from_uri("/x/file/v=1700000000123456789").unwrap(),
            final_segment: Some(2),
            segment_size: Some(8192),
            size: Some(20_000),
            mode: 0o100_644,
            atime_ns: Some(1),
            btime_ns: None,
            ctime_ns: Some(3),
            mtime_ns: Some(1_700_000_000_123_456_789),
            manifest: Some(Name::from_uri("/x/file/32=manifest/v=7").unwrap()),
            manifest_root: Some(vec![1, 2, 3]),
            preparation_ms: Some(2500),
            signed_leaves: Some(SignedLeaves {
                name: Name::from_uri("/x/file/32=leaves/v=7").unwrap(),
                fanout: 250,
            }),
        }
    }

    #[test]
    fn encoding_round_trips() {
        let metadata = example();
        assert_eq!(FileMetadata::decode(&metadata.encode()), Ok(metadata.clone()));
        assert!(!metadata.is_directory());
        assert_eq!(metadata.version(), metadata.mtime_ns);
        let directory = FileMetadata {
            final_segment: None,
            segment_size: None,
            size: None,
            mode: 0o040_755,
            ..example()
        };
        assert_eq!(FileMetadata::decode(&directory.encode()), Ok(directory.clone()));
        assert!(directory.is_directory());
    }

    #[test]
    fn unknown_elements_are_skipped_unless_they_are_critical() {
        let mut content = example().encode();
        append_number(&mut content, 0xF5FE, 7);
        assert_eq!(FileMetadata::decode(&content), Ok(example()));
        append_number(&mut content, 0xF5FF, 7);
        assert!(matches!(FileMetadata::decode(&content), Err(MetadataError::Malformed(_))));
    }

    #[test]
    fn inconsistent_sizes_are_rejected() {
        for (size, segment_size, last) in [(20_000, 0, 2), (20_000, 8192, 3), (0, 8192, 1)] {
            let metadata = FileMetadata {
                size: Some(size),
                segment_size: Some(segment_size),
                final_segment: Some(last),
                ..example()
            };
            let read = FileMetadata::decode(&metadata.encode());
            assert!(matches!(read, Err(MetadataError::Contradiction(_))), "{read:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            cut in 0_usize..200,
            flip in any::<(usize, u8)>(),
        ) {
            let _ = FileMetadata::decode(&bytes);
            let mut content = example().encode();
            let at = flip.0 % content.len();
            content[at] ^= flip.1;
            content.truncate(cut);
            let _ = FileMetadata::decode(&content);
        }
    }
}
