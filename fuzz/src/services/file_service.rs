//! Messages of a file server: metadata of files and listings of directories.

use std::os::unix::ffi::OsStrExt;

use ndn_files::{FileMetadata, parse_listing};

/// Takes the bytes as metadata and as a listing.
pub(crate) fn file_service(bytes: &[u8]) {
    if let Ok(metadata) = FileMetadata::decode(bytes) {
        let again = FileMetadata::decode(&metadata.encode()).expect("what was read can be written");
        assert_eq!(again, metadata);
        // A part of a file is looked for by division.
        if let (Some(size), Some(segment_size)) = (metadata.size, metadata.segment_size) {
            assert!(segment_size > 0);
            let last = size.div_ceil(segment_size).saturating_sub(1);
            assert!(metadata.final_segment.is_none_or(|stated| stated == last));
        }
    }
    if let Some(entries) = parse_listing(bytes) {
        let mut written = Vec::new();
        for entry in &entries {
            // Nothing leads out of the directory that entries are written to.
            let path = std::path::Path::new(std::ffi::OsStr::from_bytes(&entry.file_name));
            let mut components = path.components();
            let first = components.next();
            assert!(matches!(first, Some(std::path::Component::Normal(_))), "{path:?}");
            assert!(components.next().is_none() && !entry.file_name.contains(&0));
            written.extend_from_slice(&entry.file_name);
            written.extend_from_slice(if entry.is_directory { b"/\0" } else { b"\0" });
        }
        assert_eq!(written, bytes);
    }
}
