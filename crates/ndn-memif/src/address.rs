//! Addresses of connections: `memif:///path/of/socket/id`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Longest path of a Unix socket, bytes.
const PATH_LENGTH_MAX: usize = 107;

/// A socket, and an interface behind it.
///
/// The number of the interface is the last part of the path, as Face URIs have no place for it
/// elsewhere. A path that ends in something else has none: a client then takes one at random.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// The server's Unix socket, an absolute path.
    pub socket: PathBuf,
    /// Which of its interfaces.
    pub id: Option<u32>,
}

/// Why a text is no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It begins otherwise.
    #[error("it does not begin with memif:///")]
    Scheme,
    /// A part of the path says nothing.
    #[error("its path is that of no file")]
    Path,
    /// The system takes no such paths.
    #[error("its path is longer than the path of a socket may be")]
    TooLong,
}

impl Address {
    /// The address of a `path` as in a URI: that of the socket, and perhaps a number behind it.
    ///
    /// # Errors
    /// See [`AddressError`].
    pub fn from_path(path: &str) -> Result<Self, AddressError> {
        if !path.starts_with('/') {
            return Err(AddressError::Scheme);
        }
        let (socket, id) = match path.rsplit_once('/') {
            Some((socket, last)) if is_number(last) => (socket, last.parse().ok()),
            _ => (path, None),
        };
        let names_file = Path::new(socket).file_name().is_some() && !socket.ends_with('/');
        if !names_file || socket.contains('\0') {
            return Err(AddressError::Path);
        }
        if socket.len() > PATH_LENGTH_MAX {
            return Err(AddressError::TooLong);
        }
        Ok(Self { socket: socket.into(), id })
    }
}

/// Whether this is the one way of writing an interface's number.
fn is_number(text: &str) -> bool {
    text.parse::<u32>().is_ok_and(|number| number.to_string() == text)
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        Self::from_path(text.strip_prefix("memif://").ok_or(AddressError::Scheme)?)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "memif://{}", self.socket.display())?;
        self.id.map_or(Ok(()), |id| write!(formatter, "/{id}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_a_round_trip() {
        for (text, socket, id) in [
            ("memif:///run/memif.sock/0", "/run/memif.sock", Some(0)),
            ("memif:///run/memif.sock/4294967295", "/run/memif.sock", Some(u32::MAX)),
            ("memif:///run/memif.sock", "/run/memif.sock", None),
            // No number of an interface.
            ("memif:///run/4294967296", "/run/4294967296", None),
            ("memif:///run/007", "/run/007", None),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!((address.socket.to_str().unwrap(), address.id), (socket, id), "{text}");
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn invalid_addresses_are_rejected() {
        for text in ["", "unix:///run/x", "memif://run/x/0", "memif://", "memif:/run/x"] {
            assert_eq!(text.parse::<Address>(), Err(AddressError::Scheme), "{text}");
        }
        for text in ["memif:///", "memif:///0", "memif:///run/", "memif:///run/..", "memif:///x//0"]
        {
            assert_eq!(text.parse::<Address>(), Err(AddressError::Path), "{text}");
        }
        let long = format!("memif:///{}/0", "x".repeat(107));
        assert_eq!(long.parse::<Address>(), Err(AddressError::TooLong));
    }
}
