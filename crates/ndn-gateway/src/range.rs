//! The Range field (RFC 9110, section 14).

/// Maximum number of ranges in a request; with more, the whole file is sent.
const RANGES_MAX: usize = 1024;

/// A byte range, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The first byte, counted from 0.
    pub first: u64,
    /// The last byte, not before the first.
    pub last: u64,
}

impl Range {
    /// Length in bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.last - self.first + 1
    }
}

/// The requested part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestedRange {
    /// The whole file: no Range field, or one that is ignored.
    Whole,
    /// These ranges, in this order; at least one.
    Ranges(Vec<Range>),
    /// No range overlaps the file.
    Unsatisfiable,
}

/// Parses `field`, the value of a Range field, for a file of `size` bytes.
///
/// Other units than bytes and malformed fields are ignored (RFC 9110, section 14.2), and so are too
/// many ranges, and ranges whose sum exceeds the file: a short request must not cost many times the
/// file.
#[must_use]
pub fn requested_range(field: &str, size: u64) -> RequestedRange {
    let Some(specifiers) = field.trim().strip_prefix("bytes=") else {
        return RequestedRange::Whole;
    };
    let mut ranges = Vec::new();
    for (index, specifier) in specifiers.split(',').enumerate() {
        let specifier = specifier.trim_matches([' ', '\t']);
        if specifier.is_empty() {
            continue;
        }
        if index >= RANGES_MAX {
            return RequestedRange::Whole;
        }
        match read(specifier, size) {
            None => return RequestedRange::Whole,
            Some(Specifier::Beyond) => {}
            Some(Specifier::Within(range)) => ranges.push(range),
        }
    }
    let total = ranges.iter().map(|range| u128::from(range.bytes())).sum::<u128>();
    if total > u128::from(size) {
        return RequestedRange::Whole;
    }
    match ranges.is_empty() {
        true => RequestedRange::Unsatisfiable,
        false => RequestedRange::Ranges(ranges),
    }
}

enum Specifier {
    Within(Range),
    Beyond,
}

/// `None` if it is malformed.
fn read(specifier: &str, size: u64) -> Option<Specifier> {
    let (first, last) = specifier.split_once('-')?;
    if first.is_empty() {
        let suffix = number(last)?.min(size);
        return Some(match suffix {
            0 => Specifier::Beyond,
            suffix => Specifier::Within(Range { first: size - suffix, last: size - 1 }),
        });
    }
    let first = number(first)?;
    let last = match last {
        "" => u64::MAX,
        last => number(last)?,
    };
    if last < first {
        return None;
    }
    Some(match first < size {
        true => Specifier::Within(Range { first, last: last.min(size - 1) }),
        false => Specifier::Beyond,
    })
}

/// Digits only: no sign; a number out of range counts as the largest.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranges(field: &str, size: u64) -> Vec<(u64, u64)> {
        match requested_range(field, size) {
            RequestedRange::Ranges(ranges) => {
                ranges.into_iter().map(|range| (range.first, range.last)).collect()
            }
            other @ (RequestedRange::Whole | RequestedRange::Unsatisfiable) => {
                panic!("{field}: {other:?}")
            }
        }
    }

    #[test]
    fn ranges_are_truncated_at_the_end_of_the_file() {
        assert_eq!(ranges("bytes=0-0", 100), [(0, 0)]);
        assert_eq!(ranges("bytes=0-99", 100), [(0, 99)]);
        assert_eq!(ranges("bytes=10-1000", 100), [(10, 99)]);
        assert_eq!(ranges("bytes=99-", 100), [(99, 99)]);
        assert_eq!(ranges("bytes=-1", 100), [(99, 99)]);
        assert_eq!(ranges("bytes=-1000", 100), [(0, 99)]);
        assert_eq!(ranges("bytes=5-99999999999999999999999", 100), [(5, 99)]);
        assert_eq!(ranges("bytes=0-1, 5-6,,\t-2", 100), [(0, 1), (5, 6), (98, 99)]);
        assert_eq!(ranges("bytes=0-1,100-,-0", 100), [(0, 1)]);
    }

    #[test]
    fn ranges_beyond_the_file_cannot_be_satisfied() {
        for (field, size) in [
            ("bytes=100-", 100),
            ("bytes=100-200,300-", 100),
            ("bytes=-0", 100),
            ("bytes=0-", 0),
            ("bytes=-5", 0),
            ("bytes=", 100),
            ("bytes=99999999999999999999999-", 100),
        ] {
            assert_eq!(requested_range(field, size), RequestedRange::Unsatisfiable, "{field}");
        }
    }

    #[test]
    fn malformed_or_expensive_ranges_are_ignored() {
        for field in [
            "lines=1-2",
            "bytes",
            "bytes=5",
            "bytes=5-2",
            "bytes=-",
            "bytes=+5-6",
            "bytes=0x1-2",
            "bytes=a-b",
            "bytes=1-2,x",
            "bytes=--5",
            "bytes=0-99,0-99",
            "bytes=0-,0-,0-",
        ] {
            assert_eq!(requested_range(field, 100), RequestedRange::Whole, "{field}");
        }
        let many = format!("bytes={}", vec!["0-0"; RANGES_MAX + 1].join(","));
        assert_eq!(requested_range(&many, 1 << 30), RequestedRange::Whole);
    }

    proptest! {
        #[test]
        fn range_selects_its_bytes(size in 0u64..50, first in 0u64..60, last in 0u64..60) {
            let all: Vec<u64> = (0..size).collect();
            let expected: Vec<u64> =
                all.iter().copied().filter(|byte| (first..=last).contains(byte)).collect();
            match requested_range(&format!("bytes={first}-{last}"), size) {
                RequestedRange::Ranges(ranges) => {
                    let found: Vec<u64> = (ranges[0].first..=ranges[0].last).collect();
                    prop_assert_eq!(found, expected);
                }
                RequestedRange::Unsatisfiable => prop_assert!(expected.is_empty() && first <= last),
                RequestedRange::Whole => prop_assert!(last < first),
            }
        }

        #[test]
        fn any_field_gives_ranges_within_the_file(field in "(bytes=)?[-0-9, a]{0,40}", size: u64) {
            if let RequestedRange::Ranges(ranges) = requested_range(&field, size) {
                prop_assert!(!ranges.is_empty());
                for range in ranges {
                    prop_assert!(range.first <= range.last && range.last < size);
                }
            }
        }
    }
}
