//! Which TCP connections from loopback addresses are those of local applications.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, anyhow};
use ndn_sys::netlink::user_of_tcp_peer;
use ndn_sys::privileges::find_user;
use ndn_types::{PrincipalKey, Scope};

use crate::config::{self, Listeners, LocalUsers};

/// The permission bit that lets users other than the owner and the group connect to a Unix socket.
const OTHERS_WRITE: u32 = 0o002;
/// The permission bit that lets others open the files of a directory by name.
const OTHERS_SEARCH: u32 = 0o001;
const ROOT: u32 = 0;

/// The loopback peers that may use `/localhost`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LocalPeers {
    /// None.
    Nobody,
    /// Those of root, of this process's user, and of these users.
    Users(Vec<u32>),
    /// Those whose user the kernel names.
    AnyUser,
    /// All of them.
    Any,
}

impl LocalPeers {
    /// The peers that the configuration allows; none unless `loopback_is_local`. The directory of the Unix socket must
    /// exist.
    ///
    /// # Errors
    /// A user does not exist; the error names it.
    pub(super) fn new(config: &Listeners, loopback_is_local: bool) -> anyhow::Result<Self> {
        const KEY: &str = "listeners.tcp.local_users";
        if !loopback_is_local {
            return Ok(Self::Nobody);
        }
        match &config.tcp.local_users {
            None if is_open_to_others(config) => Ok(Self::AnyUser),
            None => Ok(Self::Users(Vec::new())),
            Some(LocalUsers::Any) => Ok(Self::Any),
            Some(LocalUsers::Listed(names)) => user_ids(names, KEY).map(Self::Users),
        }
    }

    /// Identity of the peer of a connection; the kernel is asked once. Connections that the forwarder itself made have the
    /// same rules as accepted ones.
    pub(super) fn identify(&self, connection: BorrowedFd<'_>, peer: SocketAddr) -> PeerIdentity {
        let remote = PeerIdentity::remote(peer);
        if *self == Self::Nobody || !peer.ip().to_canonical().is_loopback() {
            return remote;
        }
        let not_local = match user_of_tcp_peer(connection) {
            Ok(Some(uid)) if self.includes(uid) => {
                let principal = PrincipalKey::LocalApplication { uid, pid: 0 };
                return PeerIdentity { scope: Scope::Local, principal, not_local: None };
            }
            Ok(_) | Err(_) if *self == Self::Any => {
                return PeerIdentity { scope: Scope::Local, ..remote };
            }
            Ok(Some(user)) => NotLocal::User(user),
            Ok(None) => NotLocal::NoUser,
            Err(error) => NotLocal::NotNamed(error),
        };
        PeerIdentity { not_local: Some(not_local), ..remote }
    }

    fn includes(&self, user: u32) -> bool {
        match self {
            Self::Nobody => false,
            Self::Users(users) => {
                let own = rustix::process::geteuid().as_raw();
                user == ROOT || user == own || users.contains(&user)
            }
            Self::AnyUser | Self::Any => true,
        }
    }
}

/// The user IDs of users by name or number. `key` is the setting that lists them.
///
/// # Errors
/// A user does not exist; the error names it.
pub(super) fn user_ids(users: &[String], key: &str) -> anyhow::Result<Vec<u32>> {
    let number = |name: &String| {
        // The system need not have a name for a number.
        if let Ok(number) = name.parse() {
            return Ok(number);
        }
        let user = find_user(name).with_context(|| format!("{key}: {name}"))?;
        let user = user.ok_or_else(|| anyhow!("{key}: there is no user {name}"))?;
        Ok(user.uid)
    };
    users.iter().map(number).collect()
}

/// Identity of the peer of a connection.
#[derive(Debug)]
pub(super) struct PeerIdentity {
    /// Whether it may use `/localhost`.
    pub(super) scope: Scope,
    /// The principal that is charged for what it takes.
    pub(super) principal: PrincipalKey,
    /// Why a connection from a loopback address is not local.
    pub(super) not_local: Option<NotLocal>,
}

impl PeerIdentity {
    /// A peer that is not local.
    pub(super) fn remote(peer: SocketAddr) -> Self {
        let principal = PrincipalKey::remote(peer);
        Self { scope: Scope::NonLocal, principal, not_local: None }
    }

    /// A peer whose address is not known.
    pub(super) fn unknown() -> Self {
        Self { scope: Scope::NonLocal, principal: PrincipalKey::OTHER, not_local: None }
    }

    /// The process at the other end of a Unix socket.
    pub(super) fn application(socket: BorrowedFd<'_>) -> Self {
        let process = ndn_sys::seqpacket::process_of_peer(socket);
        let principal = process
            .map_or(PrincipalKey::OTHER, |(uid, pid)| PrincipalKey::LocalApplication { uid, pid });
        Self { scope: Scope::Local, principal, not_local: None }
    }
}

/// Why a connection from a loopback address is not local.
#[derive(Debug)]
pub(super) enum NotLocal {
    /// This user may not use the Unix socket.
    User(u32),
    /// The peer has closed its socket already, or is in another network namespace.
    NoUser,
    /// The kernel does not answer.
    NotNamed(std::io::Error),
}

impl fmt::Display for NotLocal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(user) => write!(formatter, "user {user} may not use the Unix socket"),
            Self::NoUser => formatter.write_str("it has no user any more"),
            Self::NotNamed(error) => {
                write!(formatter, "the kernel does not name its user: {error}")
            }
        }
    }
}

/// Whether every user of this host can connect to the Unix socket.
fn is_open_to_others(config: &Listeners) -> bool {
    let path = config.unix.path.clone().unwrap_or_else(config::default_socket_path);
    let Ok(path) = std::path::absolute(path) else { return false };
    let is_searchable = |directory: &Path| {
        std::fs::metadata(directory).is_ok_and(|state| state.mode() & OTHERS_SEARCH != 0)
    };
    config.unix.enabled
        && config.unix.mode.0 & OTHERS_WRITE != 0
        && path.ancestors().skip(1).all(is_searchable)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::fs::PermissionsExt;

    use ndn_types::PrincipalClass;

    use super::*;
    use crate::config;

    fn peers(text: &str) -> anyhow::Result<LocalPeers> {
        let config = config::parse("test", text).unwrap();
        LocalPeers::new(&config.listeners, config.listeners.tcp.loopback_is_local)
    }

    #[test]
    fn loopback_peers_have_the_users_of_the_unix_socket_by_default() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let unix = |mode: &str| {
            format!("listeners.unix = {{ path = {:?}, mode = {mode:?} }}", inner.join("nfd.sock"))
        };
        let set_mode = |mode| {
            std::fs::set_permissions(directory.path(), Permissions::from_mode(mode)).unwrap();
        };
        set_mode(0o755);
        assert_eq!(peers(&unix("0666")).unwrap(), LocalPeers::AnyUser);
        // Others cannot reach a socket below a closed directory, whatever its own mode.
        set_mode(0o700);
        assert_eq!(peers(&unix("0666")).unwrap(), LocalPeers::Users(Vec::new()));
        set_mode(0o755);
        let disabled = "listeners.unix.enabled = false";
        assert_eq!(peers(disabled).unwrap(), LocalPeers::Users(Vec::new()));
        let private = peers(&unix("0660")).unwrap();
        assert_eq!(private, LocalPeers::Users(Vec::new()));
        let own = rustix::process::geteuid().as_raw();
        assert!(private.includes(own) && private.includes(ROOT) && !private.includes(own + 1));
    }

    #[test]
    fn setting_lists_users_by_name_or_number() {
        let listed = peers("listeners.tcp.local_users = [\"root\", \"54321\"]").unwrap();
        assert_eq!(listed, LocalPeers::Users(vec![0, 54_321]));
        assert!(listed.includes(54_321) && !listed.includes(54_322));
        assert_eq!(peers("listeners.tcp.local_users = \"any\"").unwrap(), LocalPeers::Any);
        let off = "listeners.tcp = { local_users = \"any\", loopback_is_local = false }";
        assert_eq!(peers(off).unwrap(), LocalPeers::Nobody);
        let error = peers("listeners.tcp.local_users = [\"no such user\"]").unwrap_err();
        assert_eq!(error.to_string(), "listeners.tcp.local_users: there is no user no such user");
    }

    #[test]
    fn connection_is_local_if_the_kernel_names_an_allowed_user() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || {
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (far, peer) = listener.accept().unwrap();
            (near, far, peer)
        };
        let (_near, far, peer) = connect();
        for (peers, scope) in [
            (LocalPeers::Nobody, Scope::NonLocal),
            (LocalPeers::Users(Vec::new()), Scope::Local),
            (LocalPeers::AnyUser, Scope::Local),
            (LocalPeers::Any, Scope::Local),
        ] {
            let identity = peers.identify(far.as_fd(), peer);
            assert_eq!(identity.scope, scope, "{peers:?}");
            assert_eq!(identity.principal.class() == PrincipalClass::Local, scope == Scope::Local);
            let elsewhere = "192.0.2.1:7".parse().unwrap();
            let identity = peers.identify(far.as_fd(), elsewhere);
            assert_eq!(identity.scope, Scope::NonLocal, "{peers:?}");
        }
        let (near, far, peer) = connect();
        drop(near);
        let identity = LocalPeers::AnyUser.identify(far.as_fd(), peer);
        assert_eq!(identity.scope, Scope::NonLocal);
        assert!(matches!(identity.not_local, Some(NotLocal::NoUser)));
        assert_eq!(LocalPeers::Any.identify(far.as_fd(), peer).scope, Scope::Local);
    }
}
