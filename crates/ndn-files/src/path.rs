//! Converts name components to a path below a mount.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ndn_packet::{ComponentType, NameRef};

/// Maximum length of a file name in bytes (Linux).
const FILE_NAME_LEN_MAX: usize = 255;
/// Maximum length of a path in bytes; Linux allows 4096 with the final zero byte.
const PATH_LEN_MAX: usize = 4095;
/// Maximum depth of a path in components.
const DEPTH_MAX: usize = 256;

/// Why a name is not the name of a served file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A component of another type than GenericNameComponent.
    #[error("a component of the path is not generic")]
    Type,
    /// An empty component.
    #[error("a component of the path is empty")]
    Empty,
    /// `.` or `..`.
    #[error("a component of the path is `.` or `..`")]
    Dots,
    /// A `/` or zero byte within a component.
    #[error("a component of the path holds a separator or a zero byte")]
    Separator,
    /// Too long, or too deep.
    #[error("the path is too long")]
    TooLong,
    /// A hidden file, and the mount does not serve those.
    #[error("hidden files are not served")]
    Hidden,
}

/// The path that `name` gives, relative to the mount; `.` for the mount itself.
///
/// # Errors
/// Rejects everything that could lead to a file other than the one with these components.
pub(crate) fn path_of(name: NameRef<'_>, hidden: bool) -> Result<PathBuf, Refusal> {
    if name.is_empty() {
        return Ok(PathBuf::from("."));
    }
    if name.len() > DEPTH_MAX {
        return Err(Refusal::TooLong);
    }
    let mut path = PathBuf::new();
    for component in name.components() {
        if component.ty() != ComponentType::GENERIC {
            return Err(Refusal::Type);
        }
        let value = component.value();
        check_file_name(value)?;
        if !hidden && value.starts_with(b".") {
            return Err(Refusal::Hidden);
        }
        path.push(Path::new(OsStr::from_bytes(value)));
    }
    if path.as_os_str().len() > PATH_LEN_MAX {
        return Err(Refusal::TooLong);
    }
    Ok(path)
}

fn check_file_name(value: &[u8]) -> Result<(), Refusal> {
    match value {
        [] => Err(Refusal::Empty),
        b"." | b".." => Err(Refusal::Dots),
        _ if value.len() > FILE_NAME_LEN_MAX => Err(Refusal::TooLong),
        _ if value.iter().any(|byte| matches!(byte, b'/' | 0)) => Err(Refusal::Separator),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use ndn_packet::Name;
    use proptest::prelude::*;

    use super::*;

    fn path(uri: &str, hidden: bool) -> Result<PathBuf, Refusal> {
        path_of(Name::from_uri(uri).unwrap().as_ref(), hidden)
    }

    #[test]
    fn components_are_joined_to_a_path() {
        assert_eq!(path("/", false), Ok(PathBuf::from(".")));
        assert_eq!(path("/a/b.c/%20", false), Ok(PathBuf::from("a/b.c/ ")));
        assert_eq!(path("/a/.b", true), Ok(PathBuf::from("a/.b")));
        assert_eq!(path("/%FF%FE", false).unwrap().as_os_str().as_bytes(), [0xff, 0xfe]);
    }

    #[test]
    fn unsafe_components_are_rejected() {
        assert_eq!(path("/a/.b", false), Err(Refusal::Hidden));
        // `...` is the empty component, `....` and `.....` are `.` and `..`.
        assert_eq!(path("/a/.../b", true), Err(Refusal::Empty));
        assert_eq!(path("/..../b", true), Err(Refusal::Dots));
        assert_eq!(path("/a/.....", true), Err(Refusal::Dots));
        assert_eq!(path("/a%2Fb", true), Err(Refusal::Separator));
        assert_eq!(path("/%2Fetc", true), Err(Refusal::Separator));
        assert_eq!(path("/a%00", true), Err(Refusal::Separator));
        assert_eq!(path("/a/32=ls", true), Err(Refusal::Type));
        assert_eq!(path(&format!("/{}", "x".repeat(256)), true), Err(Refusal::TooLong));
        assert_eq!(path(&"/x".repeat(257), true), Err(Refusal::TooLong));
        assert_eq!(path(&format!("/{}", "x".repeat(250)).repeat(20), true), Err(Refusal::TooLong));
    }

    proptest! {
        #[test]
        fn path_has_the_components_of_its_name(
            components in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..6), 1..6)
        ) {
            let mut name = Name::new();
            for component in &components {
                name.push_generic(component);
            }
            if let Ok(path) = path_of(name.as_ref(), true) {
                let found: Vec<Vec<u8>> = path
                    .components()
                    .map(|component| {
                        assert!(matches!(component, std::path::Component::Normal(_)));
                        component.as_os_str().as_bytes().to_vec()
                    })
                    .collect();
                prop_assert_eq!(found, components);
            }
        }
    }
}
