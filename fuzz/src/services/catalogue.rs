//! Indexes and pages of catalogues.

use ndn_files::{CatalogueIndex, decode_page, encode_page};

/// Takes the bytes as an index and as a page.
pub(crate) fn catalogue(bytes: &[u8]) {
    if let Ok(index) = CatalogueIndex::decode(bytes) {
        let again = CatalogueIndex::decode(&index.encode()).expect("what was read can be written");
        assert_eq!(again, index);
        assert!(index.entries() >= index.pages.len() as u64);
    }
    if let Ok(entries) = decode_page(bytes) {
        let again = decode_page(&encode_page(&entries)).expect("what was read can be written");
        assert_eq!(again, entries);
        for entry in &entries {
            // Consumers make local paths of it.
            for component in entry.path.components() {
                let value = component.value();
                assert!(!matches!(value, b"" | b"." | b"..") && !value.contains(&b'/'));
            }
        }
    }
}
