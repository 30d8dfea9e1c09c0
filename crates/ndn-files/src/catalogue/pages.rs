//! Divides entries into pages so that a change of one file changes few of them.

use ndn_security::sha256;

use super::format::{CatalogueEntry, ENTRIES_MAX, PAGE_LEN_MAX, encode_page};

/// One path in this number ends a page.
const ENTRIES_MEAN: u16 = 128;
/// A page of this length is ended.
const LEN_TARGET: usize = PAGE_LEN_MAX / 2;

/// A page: its bytes, and the number of its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) bytes: Vec<u8>,
    pub(super) entries: usize,
}

/// Divides entries, which are in the order of their paths. Where a page ends depends on the paths alone, so that a file that
/// is added or removed does not shift the others.
pub(super) fn paginate(entries: &[CatalogueEntry]) -> Vec<Page> {
    let mut pages = Vec::new();
    let (mut from, mut length) = (0, 0);
    let mut scratch = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        scratch.clear();
        entry.append_to(&mut scratch);
        length += scratch.len();
        let digest = sha256(entry.path.value());
        let ends = u16::from_be_bytes([digest[0], digest[1]]).is_multiple_of(ENTRIES_MEAN);
        let is_full = at + 1 - from >= ENTRIES_MAX || length >= LEN_TARGET;
        if ends || is_full || at + 1 == entries.len() {
            pages.push(Page { bytes: encode_page(&entries[from..=at]), entries: at + 1 - from });
            (from, length) = (at + 1, 0);
        }
    }
    pages
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use ndn_packet::Name;

    use super::super::format::decode_page;
    use super::*;

    fn entries(count: usize) -> Vec<CatalogueEntry> {
        let mut entries: Vec<_> = (0..count)
            .map(|n| CatalogueEntry {
                path: Name::from_uri(&format!("/dir-{}/file-{n}", n % 10)).unwrap(),
                version: 1,
                size: 2,
                mtime_ns: 3,
                digest: Some([4; 32]),
                fields: Vec::new(),
            })
            .collect();
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        entries
    }

    #[test]
    fn pages_have_all_entries_within_the_limits() {
        let mut all = entries(5000);
        // The longest entries there are.
        for entry in &mut all[..300] {
            entry.fields = (10..74).map(|n| (n.to_string(), "x".repeat(4096))).collect();
        }
        let pages = paginate(&all);
        let read: Vec<_> =
            pages.iter().flat_map(|page| decode_page(&page.bytes).unwrap()).collect();
        assert!(read == all);
        assert!(pages.iter().all(|page| page.entries > 0));
        assert_eq!(paginate(&[]), []);
    }

    #[test]
    fn one_more_file_changes_at_most_two_pages() {
        let mut all = entries(5000);
        let before: HashSet<_> = paginate(&all).into_iter().map(|page| page.bytes).collect();
        assert!(before.len() > 20, "{}", before.len());
        all.remove(2500);
        let after = paginate(&all);
        let changed = after.iter().filter(|page| !before.contains(&page.bytes)).count();
        assert!(changed <= 2, "{changed}");
    }
}
