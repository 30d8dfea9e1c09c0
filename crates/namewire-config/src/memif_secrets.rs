//! Which secret a memif interface has.

use std::path::{Path, PathBuf};

use ndn_memif::{Address, Secret};

use crate::config::Config;
use crate::conflict::Warning;
use crate::memif::MemifSecret;

/// The clients of the listener that must present a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemifSecrecy {
    /// All clients.
    All,
    /// Clients of these interfaces.
    Of(Vec<u32>),
}

/// The path without symbolic links, as far as it exists: `/var/run` is `/run`. A secret protects a socket
/// whichever of its paths the configuration has.
fn resolved(socket: &Path) -> PathBuf {
    let folder = socket.parent().and_then(|folder| folder.canonicalize().ok());
    let beside = folder.zip(socket.file_name()).map(|(folder, name)| folder.join(name));
    socket.canonicalize().ok().or(beside).unwrap_or_else(|| socket.to_owned())
}

impl Config {
    /// The secret of an interface; empty if it has none.
    #[must_use]
    pub fn memif_secret(&self, interface: &Address) -> Secret {
        let socket = resolved(&interface.socket);
        let is_for =
            |one: &&MemifSecret| one.socket == interface.socket || resolved(&one.socket) == socket;
        let of_socket = || self.memif_secrets.iter().filter(is_for);
        let own = of_socket().find(|one| one.id.is_some() && one.id == interface.id);
        let found = own.or_else(|| of_socket().find(|one| one.id.is_none()));
        found.map_or_else(Secret::default, |one| one.secret)
    }

    /// Whether an interface belongs to the listener of this forwarder.
    #[must_use]
    pub fn is_own_memif(&self, interface: &Address) -> bool {
        let own = || resolved(&self.listeners.memif_path());
        self.listeners.memif.enabled && resolved(&interface.socket) == own()
    }

    /// The clients of the listener that must present a secret.
    #[must_use]
    pub fn memif_secrecy(&self) -> MemifSecrecy {
        let socket = resolved(&self.listeners.memif_path());
        let is_own = |one: &&MemifSecret| resolved(&one.socket) == socket;
        let own = || self.memif_secrets.iter().filter(is_own);
        match own().any(|one| one.id.is_none()) {
            true => MemifSecrecy::All,
            false => MemifSecrecy::Of(own().filter_map(|one| one.id).collect()),
        }
    }

    /// Warns of secrets that nothing in the configuration uses.
    pub(crate) fn unused_memif_secrets(&self) -> impl Iterator<Item = Warning> + '_ {
        let path = self.listeners.memif_path();
        let own = resolved(&path);
        let is_enabled = self.listeners.memif.enabled;
        let faces = self.static_faces.iter().filter(|face| face.uri.scheme() == "memif");
        let faces = faces.filter_map(|face| Address::from_path(face.uri.path()).ok());
        let faces: Vec<_> =
            faces.map(|face| (resolved(&face.socket), face.id.unwrap_or(0))).collect();
        self.memif_secrets.iter().enumerate().filter_map(move |(number, one)| {
            let socket = resolved(&one.socket);
            let mut ids = faces.iter().filter(|(other, _)| *other == socket).map(|(_, id)| *id);
            let is_of_face = ids.clone().any(|id| one.id.is_none_or(|own| own == id));
            if is_of_face || is_enabled && socket == own {
                return None;
            }
            let shown = one.socket.display();
            let reason = match (one.id, ids.next()) {
                (Some(id), Some(_)) => format!("no static face has interface {id} of {shown}"),
                _ if socket == own => {
                    format!("{shown} would be the socket of [listeners.memif], which is not enabled")
                }
                _ if is_enabled => format!(
                    "neither [listeners.memif], whose socket is {}, nor a static face has the socket {shown}",
                    path.display()
                ),
                _ => format!("no static face has the socket {shown}, and [listeners.memif] is not enabled"),
            };
            let reason = format!("{reason}: this secret is used by `face create memif://{shown}/…` only");
            Some(Warning { key: format!("memif_secrets.{number}.socket"), reason })
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use crate::parse;

    #[test]
    fn interface_uses_its_own_secret_or_that_of_its_socket() {
        let text = "[[memif_secrets]]\nsocket = \"/run/a\"\nsecret = \"all of a\"\n\
                    [[memif_secrets]]\nsocket = \"/run/a\"\nid = 7\nsecret = \"seven\"\n\
                    [[memif_secrets]]\nsocket = \"/run/b\"\nid = 0\nsecret = \"zero\"";
        let config = parse("test", text).unwrap();
        let of = |uri: &str| config.memif_secret(&uri.parse().unwrap()).reveal();
        for (uri, secret) in [
            ("memif:///run/a/0", "all of a"),
            ("memif:///run/a/7", "seven"),
            ("memif:///run/a", "all of a"),
            ("memif:///run/b/0", "zero"),
            ("memif:///run/b/1", ""),
            ("memif:///run/b", ""),
            ("memif:///run/c/0", ""),
        ] {
            assert_eq!(of(uri), secret, "{uri}");
        }
        assert!(!format!("{config:?}").contains("seven"));
    }

    #[test]
    fn secret_is_found_through_symbolic_links() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        for exists in [false, true] {
            for (written, requested) in [(&link, &real), (&real, &link)] {
                let socket = written.join("memif.sock");
                let text = format!("[[memif_secrets]]\nsocket = {socket:?}\nsecret = \"x\"");
                let config = parse("test", &text).unwrap();
                let of = |name: &str| {
                    let uri = format!("memif://{}/{name}/0", requested.display());
                    config.memif_secret(&uri.parse().unwrap()).reveal().to_owned()
                };
                assert_eq!((of("memif.sock").as_str(), of("other.sock").as_str()), ("x", ""));
            }
            if !exists {
                std::fs::write(real.join("memif.sock"), "").unwrap();
            }
        }
    }

    #[test]
    fn invalid_secrets_are_rejected() {
        let rejected = |text: &str| {
            let text = format!("[[memif_secrets]]\n{text}");
            parse("test", &text).expect_err(&text).to_string()
        };
        for (text, reason) in [
            ("socket = \"run/a\"\nsecret = \"x\"", "is relative"),
            ("socket = \"/run/a\"", "`memif_secrets.secret` is missing"),
            ("secret = \"x\"", "`memif_secrets.socket` is missing"),
            ("socket = \"/run/a\"\nsecret = \"\"", "a byte at least"),
            ("socket = \"/run/a\"\nsecret = \"1234567890123456789012345\"", "at most 24 bytes"),
            ("socket = \"/run/a\"\nsecret = 7", "expected text, found"),
            ("socket = \"/run/a\"\nid = -1\nsecret = \"x\"", "between 0 and"),
            (
                "socket = \"/run/a\"\nid = 1\nsecret = \"x\"\n[[memif_secrets]]\nsocket = \"/run/a\"\n\
                 id = 1\nsecret = \"y\"",
                "/run/a, interface 1, has two secrets",
            ),
        ] {
            let found = rejected(text);
            assert!(found.contains(reason), "{text}: {found}");
        }
    }
}
