//! Drops the privileges of root once the sockets are open.

use anyhow::{Context, anyhow, bail};
use ndn_sys::file::FileIdentity;
use ndn_sys::privileges::{self, Capability, Identity};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid, chownat, fchown, open};
use tracing::{info, warn};

use namewire_daemon::{OpenForwarder, OwnFile};

use crate::config::{Config, Driver, Listeners};

/// Default limit below which only root can bind ports.
const UNPRIVILEGED_PORT: u16 = 1024;

/// The change of user and group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// No change: none is configured.
    None,
    /// No change, and the reason why the configured one has no effect.
    NoEffect(String),
    /// A change to this user, keeping these capabilities.
    Become(Identity, Vec<Capability>),
}

/// The change of a configuration.
///
/// # Errors
/// The configured user or group is invalid.
pub(super) fn plan(config: &Config) -> anyhow::Result<Change> {
    let Some(name) = &config.privileges.user else { return Ok(Change::None) };
    if !privileges::can_become_another() {
        let uid = rustix::process::geteuid().as_raw();
        return Ok(Change::NoEffect(format!(
            "privileges.user: the forwarder stays user {uid}: only root can become {name}"
        )));
    }
    let cannot_read = || format!("privileges.user: cannot look for {name}");
    let user = privileges::find_user(name).with_context(cannot_read)?;
    let user = user.ok_or_else(|| anyhow!("privileges.user: there is no user {name}"))?;
    if user.uid == 0 {
        bail!("privileges.user: {name} is root; leave `user` out to stay root");
    }
    let gid = match &config.privileges.group {
        None => user.gid,
        Some(name) => privileges::find_group(name)
            .with_context(|| format!("privileges.group: cannot look for {name}"))?
            .ok_or_else(|| anyhow!("privileges.group: there is no group {name}"))?,
    };
    if gid == 0 {
        bail!("privileges.group: the group would be root's; name another one");
    }
    let groups = privileges::groups_of(&user, gid).with_context(cannot_read)?;
    // The group of root must not be among the supplementary groups.
    let groups = groups.into_iter().filter(|group| *group != 0).collect();
    Ok(Change::Become(Identity { uid: user.uid, gid, groups }, kept(config)))
}

/// Capabilities for faces that are created later; listeners are open already.
fn kept(config: &Config) -> Vec<Capability> {
    let start = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let start = start.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(UNPRIVILEGED_PORT);
    // A new kind of listener must add here the capabilities that its later faces need, such as RawNetwork for packet
    // sockets.
    let Listeners {
        unix: _,
        memif: _,
        tcp: _,
        websocket: _,
        webtransport: _,
        udp,
        multicast,
        ethernet,
        dpdk: _,
    } = &config.listeners;
    let multicast = Some(multicast).filter(|multicast| multicast.enabled);
    let groups = multicast.into_iter().flat_map(|multicast| &multicast.groups);
    let has_bound_faces = !config.bound_faces.is_empty();
    // UDP neighbours have sockets at the port of the listener; bound faces send from it.
    let udp = (udp.enabled || has_bound_faces).then_some(udp.port);
    let mut ports = groups.map(std::net::SocketAddr::port).chain(udp);
    let mut kept = Vec::new();
    if ports.any(|port| port < start) {
        kept.push(Capability::BindPorts);
    }
    let has_stations = config.static_faces.iter().any(|face| face.interface.is_some());
    if ethernet.enabled
        || has_stations
        || has_bound_faces
            && is_older_than_5_7(rustix::system::uname().release().to_string_lossy().as_ref())
    {
        kept.push(Capability::RawNetwork);
    }
    // With "auto", AF_XDP is used if capabilities kept for other reasons allow it.
    if ethernet.driver == Driver::Xdp && (ethernet.enabled || has_stations) {
        kept.extend([Capability::NetworkAdmin, Capability::Bpf]);
    }
    kept
}

/// Whether only root can bind sockets to interfaces in this release of Linux.
fn is_older_than_5_7(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|text| text.parse::<u32>());
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < (5, 7),
        _ => false,
    }
}

/// Performs the change. Files and directories created for the sockets, and `state`, are given to the new user,
/// who removes them at the end, and so are the UDP sockets: only sockets of one user can share a
/// port.
///
/// # Errors
/// The system rejects the change. The process must terminate.
pub(super) fn carry_out(
    change: &Change,
    forwarder: &OpenForwarder,
    state: Option<&OwnFile>,
) -> anyhow::Result<()> {
    let (identity, kept) = match change {
        Change::None => return Ok(()),
        Change::NoEffect(reason) => {
            warn!("{reason}");
            return Ok(());
        }
        Change::Become(identity, kept) => (identity, kept),
    };
    let Identity { uid, gid, .. } = *identity;
    let (user, group) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
    for socket in forwarder.udp_sockets() {
        fchown(socket, user, group).context("cannot give a UDP socket to another user")?;
    }
    for file in forwarder.own_files().iter().chain(state) {
        give_away(file, user, group)
            .with_context(|| format!("cannot give {} to user {uid}", file.path.display()))?;
    }
    if kept.contains(&Capability::Bpf) {
        // It cannot be raised later, and the memory of AF_XDP is locked.
        privileges::raise_locked_memory();
    }
    privileges::become_identity(identity, kept)
        .with_context(|| format!("cannot become user {uid} of group {gid}"))?;
    info!(uid, gid, ?kept, "root privileges dropped");
    Ok(())
}

/// Changes the owner of a created file, but not of another file in its place.
fn give_away(file: &OwnFile, user: Option<Uid>, group: Option<Gid>) -> anyhow::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found;
    let ours = match &file.opened {
        Some(opened) => opened,
        None => {
            found = open(&file.path, flags, Mode::empty())?;
            if FileIdentity::of_descriptor(&found)? != file.identity {
                bail!("the file was replaced");
            }
            &found
        }
    };
    Ok(chownat(ours, "", user, group, AtFlags::EMPTY_PATH)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    fn plan_of(text: &str) -> anyhow::Result<Change> {
        plan(&parse("test", text).unwrap())
    }

    #[test]
    fn privileges_stay_without_a_configured_user() {
        assert_eq!(plan_of("").unwrap(), Change::None);
    }

    #[test]
    fn only_root_changes_its_user() {
        let asked = plan_of("privileges = { user = \"daemon\" }").unwrap();
        match privileges::can_become_another() {
            true => {
                let Change::Become(identity, kept) = asked else { panic!("{asked:?}") };
                let daemon = privileges::find_user("daemon").unwrap().unwrap();
                assert_eq!((identity.uid, identity.gid), (daemon.uid, daemon.gid));
                assert!(identity.groups.contains(&daemon.gid));
                assert_eq!(kept, []);
                for wrong in [
                    "privileges.user = \"no-such-user-here\"",
                    "privileges.user = \"root\"",
                    "privileges = { user = \"daemon\", group = \"no-such-group-here\" }",
                    "privileges = { user = \"daemon\", group = \"root\" }",
                ] {
                    plan_of(wrong).unwrap_err();
                }
            }
            false => assert!(matches!(asked, Change::NoEffect(_)), "{asked:?}"),
        }
    }

    #[test]
    fn rights_are_kept_for_faces_that_are_made_later() {
        let kept = |text: &str| kept(&parse("test", text).unwrap());
        assert_eq!(kept("listeners.tcp.port = 80"), [], "it is open already");
        assert_eq!(kept("listeners.udp = { port = 1, enabled = false }"), []);
        assert_eq!(kept("listeners.ethernet.enabled = true"), [Capability::RawNetwork]);
        let xdp = "listeners.ethernet = { enabled = true, driver = \"xdp\" }";
        let needed = [Capability::RawNetwork, Capability::NetworkAdmin, Capability::Bpf];
        assert_eq!(kept(xdp), needed);
        assert_eq!(kept("listeners.ethernet.driver = \"xdp\""), [], "it is not used");
        let station = "static_faces = [{ uri = \"ether://[2:0:0:0:0:1]\", interface = \"eth1\" }]";
        assert_eq!(kept(station), [Capability::RawNetwork]);
        let start = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
        if start.is_ok_and(|text| text.trim() == "0") {
            eprintln!("*** SKIPPED: everybody may bind every port here ***");
            return;
        }
        assert_eq!(kept("listeners.udp.port = 1"), [Capability::BindPorts]);
        let group = "listeners.multicast = { enabled = true, groups = [\"224.0.23.170:1\"] }";
        assert_eq!(kept(group), [Capability::BindPorts]);
    }

    #[test]
    fn only_created_files_change_their_owner() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let bind = |name: &str| std::os::unix::net::UnixListener::bind(path(name)).unwrap();
        let _sockets = (bind("socket"), bind("other"));
        std::os::unix::fs::symlink(path("socket"), path("link")).unwrap();
        let own = (Some(rustix::process::geteuid()), Some(rustix::process::getegid()));
        let identity = FileIdentity::of(&path("socket")).unwrap();
        let give = |name: &str| {
            let file = OwnFile { path: path(name), identity, opened: None };
            give_away(&file, own.0, own.1)
        };
        give("socket").unwrap();
        for other in ["other", "link", "nothing", "."] {
            give(other).unwrap_err();
        }
        let made = directory.path().join("made");
        std::fs::create_dir(&made).unwrap();
        let opened = open(&made, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let identity = FileIdentity::of_descriptor(&opened).unwrap();
        let made = OwnFile { path: made, identity, opened: Some(opened) };
        give_away(&made, own.0, own.1).unwrap();
    }

    #[test]
    fn releases_of_linux_are_distinguished() {
        for (release, is_older) in
            [("5.6.19-300", true), ("4.19.0", true), ("5.7", false), ("6.1.0-20-amd64", false)]
        {
            assert_eq!(is_older_than_5_7(release), is_older, "{release}");
        }
    }
}
