//! The WebTransport listener, and sessions that are opened here.

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

/// What is opened before the rights of root are given up.
#[derive(Debug, Default)]
pub(super) struct Opened {
    /// Where it listens.
    pub(super) sockets: Vec<UdpSocket>,
    /// The certificate of the files, if there are any.
    pub(super) identity: Option<Identity>,
    /// The file for one that is made here.
    pub(super) kept_in: Option<PathBuf>,
}

/// What the service tells.
#[derive(Debug)]
pub(super) enum SessionEvent {
    /// Somebody has opened a session.
    Accepted(Accepted),
    /// The path of a session takes other frames than before.
    Path {
        /// Its face.
        face_id: u64,
        /// Longest frame.
        length: usize,
    },
    /// An attempt to open one has ended.
    Connected {
        /// With whom.
        target: Target,
        /// What for.
        wanted: Wanted,
        /// How.
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
    /// Faces whose frames are as long as the path takes.
    followed: HashMap<u64, FollowedPath>,
}

/// A face that follows the path of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FollowedPath {
    /// The length that its frames have.
    pub(super) given: usize,
    /// That of the path.
    pub(super) found: usize,
}

/// The certificate that the settings name, if they name one.
///
/// # Errors
/// The files cannot be read, or do not hold what they should.
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

/// The file for a certificate that is made here. Listeners of several forwarders differ in the port.
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

/// Where a service manager says, or where programs of this user keep what they need again.
fn state_directory(variable: impl Fn(&str) -> Option<PathBuf>, is_root: bool) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
    // systemd.exec(5): several are separated by colons.
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

/// Makes the directory of that file while there are the rights of root, for who gives them up; it becomes the
/// successor's, with what is opened otherwise. What cannot be made is told when the file is written.
pub(super) fn make_directory(file: &Path) -> Option<OwnFile> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    // Keys are to be in there.
    directory::make_parent(file, Access::Private).ok().flatten()
}

impl WebTransport {
    pub(super) fn new() -> anyhow::Result<Self> {
        let (sender, events) = channel();
        let (waker, followed) = (Arc::new(Waker::new()?), HashMap::new());
        Ok(Self { service: None, events, sender, waker, followed })
    }

    /// What wakes when there are events.
    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// What has happened since the last time.
    pub(super) fn take_events(&mut self) -> Vec<SessionEvent> {
        self.waker.reset();
        self.events.try_iter().collect()
    }

    /// Tells of changes of a session's path, for a face whose frames are to be as long as it takes: now so long.
    pub(super) fn follow(&mut self, face_id: u64, mtu: &PathMtu) -> usize {
        let (sender, waker) = (self.sender.clone(), Arc::clone(&self.waker));
        mtu.tell(move |length| {
            let _ = sender.send(SessionEvent::Path { face_id, length });
            waker.wake();
        });
        // What changes from here on is told.
        let length = mtu.value();
        self.followed.insert(face_id, FollowedPath { given: length, found: length });
        length
    }

    /// The path that a face follows, if it does.
    pub(super) fn followed(&mut self, face_id: u64) -> Option<&mut FollowedPath> {
        self.followed.get_mut(&face_id)
    }

    /// A face is gone, or has an MTU from an operator.
    pub(super) fn forget(&mut self, face_id: u64) {
        self.followed.remove(&face_id);
    }

    /// Begins to listen.
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
                // If nobody takes it, the forwarder is about to end.
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
    /// There is no thread for it.
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

    /// Reads the files of the certificate again, if there are any; it may have been renewed.
    ///
    /// # Errors
    /// They cannot be used.
    pub(super) fn read_certificate(
        &self,
        config: &WebTransportListener,
    ) -> anyhow::Result<Option<Identity>> {
        if self.service.is_some() && config.enabled { identity(config) } else { Ok(None) }
    }

    /// Uses a certificate from now on; without one, what is in use stays.
    pub(super) fn use_certificate(&self, certificate: Option<Identity>) {
        if let (Some(service), Some(identity)) = (&self.service, certificate) {
            service.set_identity(identity);
        }
    }

    /// What an operator wants to know, if anything listens or was connected.
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
    fn what_management_takes_for_canonical_is_a_target() {
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
    fn certificates_are_kept_where_the_system_keeps_state() {
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
    fn files_that_are_no_certificate_are_refused_before_the_start() {
        let text = "[listeners.webtransport]\nenabled = true\ncertificate = \"/etc/passwd\"\nkey = \"/etc/passwd\"";
        let config = parse("test", text).unwrap();
        let said = Plan::new(&config).unwrap_err()[0].to_string();
        assert!(said.contains("certificate /etc/passwd") && said.contains("PEM"), "{said}");
    }
}
