//! Page sizes of a pool.
//!
//! In order of preference: reserved huge pages (hugetlb), which are taken at once and stay
//! resident; transparent huge pages, which the kernel creates on first touch if advised to and
//! available; ordinary pages. Reserved huge pages need no privilege, only that some are free.

use std::fs;
use std::io;
use std::path::Path;

/// Size of the reserved huge pages used: 2 MiB.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The page sizes that a pool may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PagePreference {
    /// The best available.
    #[default]
    Best,
    /// Transparent huge pages, then ordinary ones: leaves the reserved huge pages to others.
    Transparent,
    /// Ordinary pages.
    Ordinary,
}

/// The page sizes that a pool uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolPages {
    /// Bytes in reserved huge pages. They are resident from the start.
    pub huge_bytes: usize,
    /// Bytes advised as transparent huge pages, where the first page is one.
    pub transparent_bytes: usize,
    /// Bytes in ordinary pages.
    pub ordinary_bytes: usize,
}

impl PoolPages {
    /// Sum of two pools.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            huge_bytes: self.huge_bytes + other.huge_bytes,
            transparent_bytes: self.transparent_bytes + other.transparent_bytes,
            ordinary_bytes: self.ordinary_bytes + other.ordinary_bytes,
        }
    }
}

/// Bytes in reserved huge pages that are neither in use nor promised: of `node`, or of the machine
/// if `None`. 0 if `/sys` does not report it.
#[must_use]
pub fn free_huge_bytes(node: Option<usize>) -> usize {
    free_huge_bytes_below(Path::new("/sys"), node)
}

fn free_huge_bytes_below(sys: &Path, node: Option<usize>) -> usize {
    let pages = |folder: &Path, file: &str| -> Option<usize> {
        let text = fs::read_to_string(folder.join("hugepages-2048kB").join(file)).ok()?;
        text.trim().parse().ok()
    };
    let machine = sys.join("kernel/mm/hugepages");
    // Promised to mappings that have not touched them yet, on any node.
    let promised = pages(&machine, "resv_hugepages").unwrap_or(0);
    let free = pages(&machine, "free_hugepages").unwrap_or(0).saturating_sub(promised);
    let of_node = node.and_then(|node| {
        let folder = sys.join(format!("devices/system/node/node{node}/hugepages"));
        pages(&folder, "free_hugepages")
    });
    of_node.unwrap_or(free).min(free) * HUGE_PAGE_BYTES
}

/// Bytes of the mapping around `address` that are transparent huge pages now.
pub(crate) fn transparent_bytes_at(address: usize) -> io::Result<usize> {
    Ok(transparent_bytes_in(&fs::read_to_string("/proc/self/smaps")?, address))
}

fn transparent_bytes_in(smaps: &str, address: usize) -> usize {
    let mut is_there = false;
    for line in smaps.lines() {
        let Some((first, rest)) = line.split_once(' ') else { continue };
        if let Some((start, end)) = first.split_once('-') {
            let bound = |text| usize::from_str_radix(text, 16);
            is_there = matches!((bound(start), bound(end)), (Ok(start), Ok(end))
                if (start..end).contains(&address));
        } else if is_there && first == "AnonHugePages:" {
            let kibibytes = rest.split_ascii_whitespace().next().and_then(|text| text.parse().ok());
            return kibibytes.unwrap_or(0_usize) * 1024;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn mapping_of_an_address_is_found() {
        let smaps = "7f0000000000-7f0000200000 rw-p 00000000 00:00 0 \nSize:   2048 kB\n\
                     AnonHugePages:         0 kB\nVmFlags: rd wr\n\
                     7f0000200000-7f0000800000 rw-p 00000000 00:00 0 [heap]\nSize: 6144 kB\n\
                     AnonHugePages:      4096 kB\n";
        assert_eq!(transparent_bytes_in(smaps, 0x7f00_0000_0000), 0);
        assert_eq!(transparent_bytes_in(smaps, 0x7f00_0020_0000), 4 << 20);
        assert_eq!(transparent_bytes_in(smaps, 0x7f00_007f_ffff), 4 << 20);
        assert_eq!(transparent_bytes_in(smaps, 0x7f00_0080_0000), 0);
        assert_eq!(transparent_bytes_in("nonsense\n12-\n", 0x12), 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "files are isolated")]
    fn reserved_but_untouched_huge_pages_are_not_free() {
        let folder = std::env::temp_dir().join(format!("namewire-pages-{}", std::process::id()));
        let write = |place: &str, text: &str| {
            let path = folder.join(place);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(free_huge_bytes_below(&folder, None), 0);
        write("kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "10\n");
        write("kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "4\n");
        write("devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages", "3\n");
        write("devices/system/node/node2/hugepages/hugepages-2048kB/free_hugepages", "7\n");
        assert_eq!(free_huge_bytes_below(&folder, None), 6 * HUGE_PAGE_BYTES);
        assert_eq!(free_huge_bytes_below(&folder, Some(1)), 3 * HUGE_PAGE_BYTES);
        assert_eq!(free_huge_bytes_below(&folder, Some(2)), 6 * HUGE_PAGE_BYTES);
        assert_eq!(free_huge_bytes_below(&folder, Some(3)), 6 * HUGE_PAGE_BYTES, "not told apart");
        fs::remove_dir_all(folder).unwrap();
    }
}
