//! Converts URL paths to names of files or directories, and back.

use ndn_packet::Name;

/// Maximum length of a component in bytes: the limit of file names.
const COMPONENT_LEN_MAX: usize = 255;
/// Maximum depth of a path in components.
const DEPTH_MAX: usize = 256;

/// Why a URL path is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It does not begin with `/`.
    #[error("the path does not begin with `/`")]
    NotAbsolute,
    /// A component is empty.
    #[error("a component of the path is empty")]
    Empty,
    /// A component is `.` or `..`.
    #[error("a component of the path is `.` or `..`")]
    Dots,
    /// A component is not a file name.
    #[error("a component of the path holds an encoded `/` or zero byte")]
    Separator,
    /// Invalid percent-encoding.
    #[error("a `%` in the path is not followed by two hexadecimal digits")]
    Encoding,
    /// A component has more than 255 bytes, or there are more than 256.
    #[error("the path is too long")]
    TooLong,
}

/// Target of a URL path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathTarget {
    /// The name, without version.
    pub name: Name,
    /// The path ends with `/`: it denotes a directory.
    pub is_directory: bool,
}

/// Parses a URL path below `prefix`. Each component becomes a GenericNameComponent with the same
/// bytes.
///
/// Several leading `/` count as one: clients that concatenate an address and an absolute path (such
/// as XRootD's proxy) send them. Empty components elsewhere are rejected.
///
/// # Errors
/// Why the path is invalid.
pub fn parse_path(prefix: &Name, path: &str) -> Result<PathTarget, PathError> {
    let path = path.strip_prefix('/').ok_or(PathError::NotAbsolute)?.trim_start_matches('/');
    let mut name = prefix.clone();
    if path.is_empty() {
        return Ok(PathTarget { name, is_directory: true });
    }
    let (path, is_directory) = match path.strip_suffix('/') {
        Some(path) => (path, true),
        None => (path, false),
    };
    for (index, component) in path.split('/').enumerate() {
        if index == DEPTH_MAX {
            return Err(PathError::TooLong);
        }
        let component = decode(component)?;
        match component.as_slice() {
            [] => return Err(PathError::Empty),
            b"." | b".." => return Err(PathError::Dots),
            long if long.len() > COMPONENT_LEN_MAX => return Err(PathError::TooLong),
            bytes if bytes.iter().any(|byte| matches!(byte, b'/' | 0)) => {
                return Err(PathError::Separator);
            }
            bytes => name.push_generic(bytes),
        };
    }
    Ok(PathTarget { name, is_directory })
}

/// Decodes percent-encoding.
pub(crate) fn decode(component: &str) -> Result<Vec<u8>, PathError> {
    let mut bytes = component.bytes();
    let mut decoded = Vec::with_capacity(component.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || hexadecimal(bytes.next()?);
        match (digit(), digit()) {
            (Some(high), Some(low)) => decoded.push(high << 4 | low),
            _ => return Err(PathError::Encoding),
        }
    }
    Ok(decoded)
}

fn hexadecimal(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// A file name as a component of a URL: all but unreserved characters (RFC 3986, section 2.3) are
/// encoded.
#[must_use]
pub fn encode(file_name: &[u8]) -> String {
    let mut encoded = String::with_capacity(file_name.len());
    for &byte in file_name {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn target(path: &str) -> Result<(String, bool), PathError> {
        let prefix = Name::from_uri("/x").unwrap();
        parse_path(&prefix, path).map(|target| (target.name.to_uri(), target.is_directory))
    }

    #[test]
    fn paths_become_names() {
        for (path, name, is_directory) in [
            ("/", "/x", true),
            ("/a", "/x/a", false),
            ("/a/b/", "/x/a/b", true),
            ("/a%20b/%C3%BC", "/x/a%20b/%C3%BC", false),
            ("//a", "/x/a", false),
            ("///", "/x", true),
            // Not a version component, but a file of this name.
            ("/v=7", "/x/v%3D7", false),
            ("/32=ls", "/x/32%3Dls", false),
            ("/a/...", "/x/a/......", false),
            ("/%ff", "/x/%FF", false),
        ] {
            assert_eq!(target(path), Ok((name.to_owned(), is_directory)), "{path}");
        }
    }

    #[test]
    fn invalid_paths_are_rejected() {
        for (path, error) in [
            ("*", PathError::NotAbsolute),
            ("a", PathError::NotAbsolute),
            ("", PathError::NotAbsolute),
            ("/a//b", PathError::Empty),
            ("/a//", PathError::Empty),
            ("/..", PathError::Dots),
            ("/a/../b", PathError::Dots),
            ("/./a", PathError::Dots),
            ("/%2e%2E/etc", PathError::Dots),
            ("/a%2fb", PathError::Separator),
            ("/..%2f..%2fetc%2fpasswd", PathError::Separator),
            ("/a%00", PathError::Separator),
            ("/a%", PathError::Encoding),
            ("/a%4", PathError::Encoding),
            ("/a%zz", PathError::Encoding),
            ("/%u002e", PathError::Encoding),
        ] {
            assert_eq!(target(path), Err(error), "{path}");
        }
        assert_eq!(target(&format!("/{}", "x".repeat(256))), Err(PathError::TooLong));
        assert_eq!(target(&"/x".repeat(257)), Err(PathError::TooLong));
        assert!(target(&format!("/{}", "%41".repeat(255))).is_ok());
    }

    proptest! {
        #[test]
        fn encoding_round_trips(
            components in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..8), 1..5)
        ) {
            let mut name = Name::from_uri("/x").unwrap();
            let mut path = String::new();
            for component in &components {
                name.push_generic(component);
                path.push('/');
                path.push_str(&encode(component));
            }
            let is_file = |component: &Vec<u8>| {
                !matches!(component.as_slice(), b"." | b"..")
                    && !component.iter().any(|byte| matches!(byte, b'/' | 0))
            };
            let found = parse_path(&Name::from_uri("/x").unwrap(), &path);
            if components.iter().all(is_file) {
                prop_assert_eq!(found, Ok(PathTarget { name, is_directory: false }));
            } else {
                prop_assert!(found.is_err());
            }
        }

        #[test]
        fn any_path_parses_or_is_rejected(path in "\\PC*") {
            if let Ok(target) = parse_path(&Name::from_uri("/x").unwrap(), &path) {
                prop_assert!(target.name.as_ref().starts_with(Name::from_uri("/x").unwrap().as_ref()));
                for component in target.name.components() {
                    prop_assert!(!component.value().is_empty());
                    prop_assert!(!component.value().contains(&b'/'));
                    prop_assert!(!matches!(component.value(), b"." | b".."));
                }
            }
        }
    }
}
