//! Requests of HTTP clients to a gateway: paths and ranges.

use ndn_gateway::{RequestedRange, encode, parse_path, requested_range};
use ndn_packet::{ComponentType, Name};

/// Takes the first line as the path of a URL, the second as a Range field, and the number of bytes of the
/// rest, or what eight of them say, as the length of the file.
pub(crate) fn gateway(bytes: &[u8]) {
    let mut lines = bytes.splitn(3, |byte| *byte == b'\n');
    let mut line = || lines.next().unwrap_or_default();
    let (path, field, rest) = (line(), line(), line());
    if let Ok(path) = core::str::from_utf8(path) {
        check_path(path);
    }
    let length = u64::try_from(rest.len()).expect("a length");
    let size = rest.first_chunk().map_or(length, |bytes| u64::from_be_bytes(*bytes));
    if let Ok(field) = core::str::from_utf8(field) {
        check_range(field, size);
    }
}

/// No path leads out of the prefix, to another type of component, or to what a file cannot be called; and
/// what it names has a path that names the same.
fn check_path(path: &str) {
    let prefix = Name::from_uri("/x/v=1").expect("a name");
    let Ok(place) = parse_path(&prefix, path) else {
        return;
    };
    assert!(place.name.starts_with(prefix.as_ref()));
    let mut again = String::new();
    for component in place.name.components().skip(prefix.len()) {
        assert_eq!(component.ty(), ComponentType::GENERIC);
        let value = component.value();
        assert!(!value.is_empty() && value.len() <= 255 && !matches!(value, b"." | b".."));
        assert!(!value.iter().any(|byte| matches!(byte, b'/' | 0)));
        again.push('/');
        again.push_str(&encode(value));
    }
    if place.is_directory {
        again.push('/');
    }
    assert_eq!(parse_path(&prefix, &again).as_ref(), Ok(&place), "{again}");
}

/// Ranges lie within the file and are together no longer than it.
fn check_range(field: &str, size: u64) {
    let RequestedRange::Ranges(ranges) = requested_range(field, size) else {
        return;
    };
    assert!(!ranges.is_empty());
    let mut total = 0;
    for range in ranges {
        assert!(range.first <= range.last && range.last < size, "{range:?} of {size}");
        total += u128::from(range.bytes());
    }
    assert!(total <= u128::from(size), "{total} of {size}");
}
