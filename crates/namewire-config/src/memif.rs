//! memif: the listener, what is known of secrets, and how both are written.

use std::path::{Path, PathBuf};

use ndn_memif::{Address, Secret};
use toml::de::DeValue;

use super::place::Place;
use super::reader::{FromToml, Section};
use super::schema::FileMode;
use super::to_toml::{Writer, text};
use super::{ByteSize, Config, Remark};

/// Least and most memory that all clients together may share.
const MEMORY_MIN: ByteSize = ByteSize::mebibytes(1);
const MEMORY_MAX: ByteSize = ByteSize::mebibytes(1 << 20);

/// Settings of the memif listener, and of memif faces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemifListener {
    /// Whether to listen at all.
    pub enabled: bool,
    /// The socket path; none is `memif.sock` beside the Unix socket.
    pub path: Option<PathBuf>,
    /// Permission bits of the socket file.
    pub mode: u32,
    /// Bytes of a buffer; none is what suits the peer.
    pub dataroom: Option<u32>,
    /// Whether programs that are not Namewire are sent frames in several buffers.
    pub chains: bool,
    /// Memory that all clients together may share.
    pub memory: ByteSize,
}

/// What has to be said for an interface: by clients if the socket is that of the listener, else by this
/// forwarder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemifSecret {
    /// The path of the server's socket.
    pub socket: PathBuf,
    /// The interface; none is all that have no secret of their own.
    pub id: Option<u32>,
    /// The secret.
    pub secret: Secret,
}

/// Which clients of the listener have to say a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemifSecrecy {
    /// All of them.
    All,
    /// Those of these interfaces, which may be none.
    Of(Vec<u32>),
}

impl Default for MemifListener {
    /// Off: each client makes the forwarder map memory of its own.
    fn default() -> Self {
        let memory = ByteSize::mebibytes(4 << 10);
        Self { enabled: false, path: None, mode: 0o666, dataroom: None, chains: false, memory }
    }
}

impl MemifListener {
    /// Reads `[listeners.memif]`.
    pub(super) fn read(&mut self, mut section: Section<'_>) {
        section.read("enabled", &mut self.enabled);
        section.read_optional("path", &mut self.path);
        let mut mode = FileMode(self.mode);
        section.read("mode", &mut mode);
        self.mode = mode.0;
        let lengths = ndn_memif::BUFFER_LENGTH_MIN..=ndn_memif::BUFFER_LENGTH_MAX;
        section.read_optional_in("dataroom", &mut self.dataroom, lengths);
        section.read("chains", &mut self.chains);
        section.read_in("memory", &mut self.memory, MEMORY_MIN..=MEMORY_MAX);
        let place = "what clients have to say is in [[memif_secrets]], with `socket` and `secret`";
        section.misplaced("secret", place);
        section.finish();
    }

    /// Writes what differs from `default`.
    pub(super) fn write(&self, writer: &mut Writer, default: &Self) {
        writer.section("[listeners.memif]");
        writer.changed("enabled", &self.enabled, &default.enabled, self.enabled);
        let path = self.path.as_ref().map_or_else(String::new, |path| path.display().to_string());
        writer.changed("path", &self.path, &default.path, text(path));
        writer.changed("mode", &self.mode, &default.mode, format!("\"{:04o}\"", self.mode));
        let dataroom = self.dataroom.unwrap_or_default();
        writer.changed("dataroom", &self.dataroom, &default.dataroom, dataroom);
        writer.changed("chains", &self.chains, &default.chains, self.chains);
        writer.changed("memory", &self.memory, &default.memory, text(self.memory));
    }
}

/// The path without the links in it, as far as it is there: `/var/run` is `/run`. What is written in another
/// way is the same socket, and its clients are not to come in without a secret.
fn resolved(socket: &Path) -> PathBuf {
    let folder = socket.parent().and_then(|folder| folder.canonicalize().ok());
    let beside = folder.zip(socket.file_name()).map(|(folder, name)| folder.join(name));
    socket.canonicalize().ok().or(beside).unwrap_or_else(|| socket.to_owned())
}

impl Config {
    /// What has to be said for an interface, which may be nothing.
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

    /// Whether it is an interface of this forwarder's own listener.
    #[must_use]
    pub fn is_own_memif(&self, interface: &Address) -> bool {
        let own = || resolved(&self.listeners.memif_path());
        self.listeners.memif.enabled && resolved(&interface.socket) == own()
    }

    /// Which clients of the listener have to say a secret.
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

    /// Secrets that nothing in the configuration has a use for.
    pub(super) fn unused_memif_secrets(&self) -> impl Iterator<Item = Remark> + '_ {
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
            let reason = format!("{reason}: this secret is for `face create memif://{shown}/…` only");
            Some(Remark { key: format!("memif_secrets.{number}.socket"), reason })
        })
    }
}

/// Reads `[[memif_secrets]]`.
pub(super) fn read_secrets(root: &mut Section<'_>, config: &mut Config) {
    let mut seen: Vec<(Place<'_>, MemifSecret)> = Vec::new();
    for section in root.sections("memif_secrets") {
        let place = section.place("socket");
        let Some(found) = read_secret(section) else { continue };
        let is_same = |other: &MemifSecret| other.socket == found.socket && other.id == found.id;
        if let Some((earlier, other)) = seen.iter().find(|(_, other)| is_same(other)) {
            let interface = other.id.map_or_else(String::new, |id| format!(", interface {id},"));
            let socket = other.socket.display();
            place.object_beside(earlier, &format!("{socket}{interface} has two secrets"));
        }
        seen.push((place, found));
    }
    config.memif_secrets = seen.into_iter().map(|(_, found)| found).collect();
}

fn read_secret(mut section: Section<'_>) -> Option<MemifSecret> {
    let socket =
        section.read_required_checked("socket", |path: &PathBuf| match path.is_absolute() {
            true => Ok(()),
            false => {
                Err(format!("{} is relative: write the path from the root on", path.display()))
            }
        });
    let mut id = None;
    section.read_optional_in("id", &mut id, 0..=u32::MAX);
    let secret = section.read_required("secret");
    section.finish();
    Some(MemifSecret { socket: socket?, id, secret: secret? })
}

/// Writes `[[memif_secrets]]`.
pub(super) fn write_secrets(writer: &mut Writer, secrets: &[MemifSecret]) {
    for MemifSecret { socket, id, secret } in secrets {
        writer.section("[[memif_secrets]]");
        writer.line("socket", text(socket.display()));
        if let Some(id) = id {
            writer.line("id", id);
        }
        writer.line("secret", text(secret.reveal()));
    }
}

impl FromToml for Secret {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        // What it is, is not said again.
        let text =
            value.as_str().ok_or_else(|| format!("expected text, found {}", value.type_str()));
        Self::new(text?).map_err(|error| error.to_string())
    }

    fn kind() -> String {
        format!("text of at most {} bytes", ndn_memif::SECRET_LENGTH)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use crate::parse;

    #[test]
    fn an_interface_has_its_own_secret_or_that_of_its_socket() {
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

    /// A path with a link in it, as /var/run is one, protects the same socket.
    #[test]
    fn a_secret_is_for_the_socket_however_its_path_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        for exists in [false, true] {
            for (written, asked) in [(&link, &real), (&real, &link)] {
                let socket = written.join("memif.sock");
                let text = format!("[[memif_secrets]]\nsocket = {socket:?}\nsecret = \"x\"");
                let config = parse("test", &text).unwrap();
                let of = |name: &str| {
                    let uri = format!("memif://{}/{name}/0", asked.display());
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
    fn secrets_that_make_no_sense_are_refused() {
        let refused = |text: &str| {
            let text = format!("[[memif_secrets]]\n{text}");
            parse("test", &text).expect_err(&text).to_string()
        };
        for (text, said) in [
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
            let found = refused(text);
            assert!(found.contains(said), "{text}: {found}");
        }
    }
}
