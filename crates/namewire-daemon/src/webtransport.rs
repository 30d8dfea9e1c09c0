//! The WebTransport listener, and outgoing sessions.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::Context;
use ndn_sys::poll::Waker;
use ndn_webtransport::{Accepted, Identity, Listen, PathMtu, Rules, Service, Target};

use super::directory::{self, Access, OwnFile};
use super::faces::Wanted;
use super::websocket::Admission;
use crate::config::{Config, WebTransportListener};
use namewire_control::WebTransportStatus;

/// Resources opened before root privileges are dropped.
#[derive(Debug, Default)]
pub(super) struct Opened {
    /// Listening sockets.
    pub(super) sockets: Vec<UdpSocket>,
    /// The configured certificate, if any.
    pub(super) identity: Option<Identity>,
    /// The file for a generated certificate.
    pub(super) kept_in: Option<PathBuf>,
}

/// Events of the service.
#[derive(Debug)]
pub(super) enum SessionEvent {
    /// A peer has opened a session.
    Accepted(Accepted),
    /// The path MTU of a session has changed.
    Path {
        /// FaceId of the session.
        face_id: u64,
        /// Maximum frame length.
        length: usize,
    },
    /// An attempt to open a session has ended.
    Connected {
        /// The peer.
        target: Target,
        /// The requested face.
        wanted: Wanted,
        /// The result.
        result: Result<Accepted, String>,
    },
}

/// The control thread's side of the service.
#[derive(Debug)]
pub(super) struct WebTransport {
    service: Option<Service>,
    events: Receiver<SessionEvent>,
    sender: Sender<SessionEvent>,
    waker: Arc<Waker>,
    /// Faces whose frame length follows the path MTU.
    followed: HashMap<u64, FollowedPath>,
}

/// A face that follows the path MTU of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FollowedPath {
    /// Current frame length of the face.
    pub(super) given: usize,
    /// Path MTU.
    pub(super) found: usize,
}

/// Reads the configured certificate, if any.
///
/// # Errors
/// The files cannot be read or are malformed.
pub(super) fn identity(config: &WebTransportListener) -> anyhow::Result<Option<Identity>> {
    let (Some(certificate), Some(key)) = (&config.certificate, &config.key) else {
        return Ok(None);
    };
    let read = |name: &str, path: &Path| {
        let what = || format!("listeners.webtransport.{name}: cannot read {}", path.display());
        std::fs::read(path).with_context(what)
    };
    let identity = Identity::from_pem(&read("certificate", certificate)?, &read("key", key)?);
    let what = || {
        let (certificate, key) = (certificate.display(), key.display());
        format!("listeners.webtransport: certificate {certificate} and key {key}")
    };
    identity.map(Some).with_context(what)
}

/// Returns the file for a generated certificate. Listeners of several forwarders differ in the port.
pub(super) fn kept_in(
    settings: &WebTransportListener,
    socket: Option<&UdpSocket>,
) -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let is_root = rustix::process::geteuid().is_root();
    let directory =
        settings.state_directory.clone().or_else(|| state_directory(variable, is_root))?;
    let port = socket?.local_addr().ok()?.port();
    Some(directory.join(format!("webtransport-{port}.pem")))
}

/// Returns the state directory of the service manager, else that of the user.
fn state_directory(variable: impl Fn(&str) -> Option<PathBuf>, is_root: bool) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
    // Several directories are separated by colons (systemd.exec(5)).
    let of_service = absolute("STATE_DIRECTORY").and_then(|paths| {
        let paths = paths.into_os_string().into_string().ok()?;
        paths.split(':').next().map(PathBuf::from)
    });
    of_service.or_else(|| is_root.then(|| PathBuf::from("/var/lib/namewire"))).or_else(|| {
        let of_user =
            absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
        of_user.map(|directory| directory.join("namewire"))
    })
}

/// Creates the directory of that file while the process still has root privileges; the directory is handed to the new
/// user with the other opened files. An error is reported when the file is written.
pub(super) fn make_directory(file: &Path) -> Option<OwnFile> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    // The directory will contain private keys.
    directory::make_parent(file, Access::Private).ok().flatten()
}

impl WebTransport {
    pub(super) fn new() -> anyhow::Result<Self> {
        let (sender, events) = channel();
        let (waker, followed) = (Arc::new(Waker::new()?), HashMap::new());
        Ok(Self { service: None, events, sender, waker, followed })
    }

    /// Wakes the control thread after events.
    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Returns the events since the last call.
    pub(super) fn take_events(&mut self) -> Vec<SessionEvent> {
        self.waker.reset();
        self.events.try_iter().collect()
    }

    /// Starts to report changes of a session's path MTU for a face that follows it; returns the current length.
    pub(super) fn follow(&mut self, face_id: u64, mtu: &PathMtu) -> usize {
        let (sender, waker) = (self.sender.clone(), Arc::clone(&self.waker));
        mtu.tell(move |length| {
            let _ = sender.send(SessionEvent::Path { face_id, length });
            waker.wake();
        });
        // Later changes are reported as events.
        let length = mtu.value();
        self.followed.insert(face_id, FollowedPath { given: length, found: length });
        length
    }

    /// Returns the path that a face follows, if any.
    pub(super) fn followed(&mut self, face_id: u64) -> Option<&mut FollowedPath> {
        self.followed.get_mut(&face_id)
    }

    /// Stops following: the face is gone or an operator has set its MTU.
    pub(super) fn forget(&mut self, face_id: u64) {
        self.followed.remove(&face_id);
    }

    /// Starts to listen.
    pub(super) fn listen(&mut self, config: &Config, opened: Opened) -> anyhow::Result<()> {
        let settings = &config.listeners.webtransport;
        let admission = Admission {
            loopback_is_local: false,
            origins: settings.origins.clone(),
            local_origins: Vec::new(),
        };
        let admits = move |origin: Option<&str>| admission.client(origin.as_slice()).is_some();
        let (sender, waker) = (self.sender.clone(), Arc::clone(&self.waker));
        let listen = Listen {
            kept_in: opened.kept_in,
            sockets: opened.sockets,
            identity: opened.identity,
            rules: Rules {
                sessions_max: settings.sessions,
                idle_timeout: settings.idle_timeout,
                admits: Box::new(admits),
            },
            on_accepted: Box::new(move |session| {
                // The receiver is gone only while the forwarder stops.
                let _ = sender.send(SessionEvent::Accepted(session));
                waker.wake();
            }),
        };
        self.service = Some(Service::start(Some(listen)).context("WebTransport")?);
        Ok(())
    }

    /// Opens a session.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn connect(
        &mut self,
        config: &Config,
        target: Target,
        wanted: Wanted,
    ) -> std::io::Result<()> {
        let service = match &mut self.service {
            Some(service) => service,
            none => none.insert(Service::start(None)?),
        };
        let (sender, waker) = (self.sender.clone(), Arc::clone(&self.waker));
        let told = target.clone();
        let on_connected = Box::new(move |result| {
            let _ = sender.send(SessionEvent::Connected { target: told, wanted, result });
            waker.wake();
        });
        service.connect(target, config.listeners.webtransport.idle_timeout, on_connected);
        Ok(())
    }

    /// Reads the configured certificate files again, if any; they may have been renewed.
    ///
    /// # Errors
    /// The files cannot be used.
    pub(super) fn read_certificate(
        &self,
        config: &WebTransportListener,
    ) -> anyhow::Result<Option<Identity>> {
        if self.service.is_some() && config.enabled { identity(config) } else { Ok(None) }
    }

    /// Replaces the certificate; `None` keeps the current one.
    pub(super) fn use_certificate(&self, certificate: Option<Identity>) {
        if let (Some(service), Some(identity)) = (&self.service, certificate) {
            service.set_identity(identity);
        }
    }

    /// Returns the status for the control socket, if a listener or a session exists.
    pub(super) fn status(&self, config: &Config, addresses: &[SocketAddr]) -> WebTransportStatus {
        let Some(service) = &self.service else { return WebTransportStatus::default() };
        let counters = service.counters().named();
        WebTransportStatus {
            addresses: addresses.iter().map(SocketAddr::to_string).collect(),
            certificate_hashes: service.hashes().iter().map(ToString::to_string).collect(),
            self_signed: config.listeners.webtransport.certificate.is_none(),
            counters: counters.map(|(name, count)| (name.to_owned(), count)).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use ndn_types::FaceUri;
    use ndn_webtransport::Target;

    use crate::Plan;
    use crate::config::parse;

    #[test]
    fn canonical_uris_are_valid_targets() {
        for text in [
            "https://host.example:6367/ndn",
            "https://HOST",
            "https://192.0.2.1:443/",
            "https://[2001:db8::1]:6367/ndn",
            &format!("https://localhost#sha256={}", "0a".repeat(32)),
        ] {
            let uri = FaceUri::parse(text).unwrap().canonize().unwrap();
            assert!(uri.is_canonical(), "{uri}");
            let target: Target = uri.to_string().parse().unwrap();
            assert_eq!(target.to_string(), uri.to_string());
        }
    }

    #[test]
    fn certificates_are_kept_in_the_state_directory() {
        let found = |variables: &[(&str, &str)], is_root| {
            let value = |name: &str| {
                variables.iter().find(|(one, _)| *one == name).map(|(_, value)| (*value).into())
            };
            super::state_directory(value, is_root).map(|path| path.display().to_string())
        };
        let (home, state) = (("HOME", "/home/me"), ("XDG_STATE_HOME", "/home/me/state"));
        let service = ("STATE_DIRECTORY", "/var/lib/a:/var/lib/b");
        assert_eq!(found(&[home], false).as_deref(), Some("/home/me/.local/state/namewire"));
        assert_eq!(found(&[home, state], false).as_deref(), Some("/home/me/state/namewire"));
        assert_eq!(found(&[home, state], true).as_deref(), Some("/var/lib/namewire"));
        assert_eq!(found(&[home, service], true).as_deref(), Some("/var/lib/a"));
        assert_eq!(found(&[("HOME", "here")], false), None);
    }

    #[test]
    fn invalid_certificate_files_are_rejected_before_the_start() {
        let text = "[listeners.webtransport]\nenabled = true\ncertificate = \"/etc/passwd\"\nkey = \"/etc/passwd\"";
        let config = parse("test", text).unwrap();
        let said = Plan::new(&config).unwrap_err()[0].to_string();
        assert!(said.contains("certificate /etc/passwd") && said.contains("PEM"), "{said}");
    }
}
