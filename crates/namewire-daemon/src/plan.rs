//! Checks a configuration against this machine before anything is opened. `namewire config check` runs the same
//! checks.

use std::path::Path;
use std::sync::Arc;

use anyhow::bail;
use ndn_dataplane::WorkerPlacement;
use ndn_management::ControlState;
use ndn_sys::clock::Clock;
use ndn_sys::poll::Waker;

use super::{directory, dpdk, placement, vip, webtransport};
use crate::config::{Config, Conflict, WebTransportListener};
use crate::control::setup::management;

/// Input of a forwarder's start beside its configuration.
#[derive(Debug)]
pub struct Plan {
    pub(super) management: ControlState,
    /// Signals that the key chain was read.
    pub(super) key_chain: Arc<Waker>,
    pub(super) places: Vec<WorkerPlacement>,
    /// Keys of the exchange of VIP, if it is enabled.
    #[cfg(feature = "vip")]
    pub(super) vip: Option<vip::Keys>,
}

impl Plan {
    /// Checks the configuration as a whole and against the machine: processors, directories of sockets, keys,
    /// certificates and trust rules at the time of `clock`.
    ///
    /// # Errors
    /// All conflicts, each with the setting or file at fault.
    pub fn new(config: &Config, clock: &Clock) -> Result<Self, Vec<Conflict>> {
        Self::checked(config, config.conflicts(), clock)
    }

    /// As [`Self::new`], for a forwarder that an embedding program reaches through in-memory faces: it needs no
    /// listener.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn embedded(config: &Config, clock: &Clock) -> Result<Self, Vec<Conflict>> {
        let mut faults = config.conflicts();
        faults.retain(|fault| fault.keys != ["listeners"]);
        Self::checked(config, faults, clock)
    }

    fn checked(
        config: &Config,
        mut faults: Vec<Conflict>,
        clock: &Clock,
    ) -> Result<Self, Vec<Conflict>> {
        let dpdk = dpdk::check(config);
        let dpdk = dpdk.map_err(|error| Conflict::from_error(&["listeners.dpdk.ports"], &error));
        faults.extend(dpdk.err());
        faults.extend(faults_of_socket_places(config));
        if config.listeners.webtransport.enabled {
            faults.extend(check_webtransport(&config.listeners.webtransport).err());
        }
        faults.extend(vip::check(config));
        #[cfg(feature = "vip")]
        let vip = vip::keys(config, clock).unwrap_or_else(|refused| {
            faults.extend(refused);
            None
        });
        let places = placement::plan(&config.forwarder).map_err(|fault| vec![fault]);
        match (places, management(config, clock)) {
            (Ok(places), Ok((management, key_chain))) if faults.is_empty() => Ok(Self {
                management,
                key_chain,
                places,
                #[cfg(feature = "vip")]
                vip,
            }),
            (places, management) => {
                let more = [places.err(), management.err()];
                faults.extend(more.into_iter().flatten().flatten());
                Err(faults)
            }
        }
    }
}

/// Rejects an unusable certificate, and a certificate directory that is not a directory.
fn check_webtransport(settings: &WebTransportListener) -> Result<(), Conflict> {
    let keys = ["listeners.webtransport.certificate", "listeners.webtransport.key"];
    let identity = webtransport::identity(settings);
    let identity = identity.map_err(|error| Conflict::from_error(&keys, &error))?;
    if let (Some(directory), None) = (&settings.state_directory, identity) {
        let key = "listeners.webtransport.state_directory";
        directory::check_parent(&directory.join("certificate"))
            .map_err(|reason| Conflict::new(&[key], format!("{key}: {reason:#}")))?;
    }
    Ok(())
}

/// Rejects paths at which no socket can be created.
fn faults_of_socket_places(config: &Config) -> impl Iterator<Item = Conflict> + '_ {
    config.sockets_with_paths().into_iter().filter_map(|(key, path)| {
        let reason = check_socket_place(&path).err()?;
        let keys = config.keys_of_path(key);
        Some(Conflict::new(&keys, format!("{key}: {reason:#}")))
    })
}

fn check_socket_place(path: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    directory::check_parent(path)?;
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            bail!("{} exists and is not a socket", path.display())
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    fn clock() -> Clock {
        let unix_origin = std::time::Duration::from_secs(1_767_225_600);
        ndn_sys::clock::ManualClock::new(ndn_types::Timestamp::ZERO, unix_origin).into()
    }

    fn refused(text: &str) -> String {
        let config = parse("test", text).unwrap();
        Plan::new(&config, &clock()).expect_err(text)[0].to_string()
    }

    #[test]
    fn unavailable_resources_are_rejected() {
        let output = refused("forwarder.cpus = [4000]");
        assert!(output.contains("processor 4000"), "{output}");
        let text = "forwarder = { workers = 64, placement = \"P4\", io_workers = 60 }";
        let output = refused(text);
        assert!(output.contains("forwarder.placement = P4"), "{output}");
        let output = refused("control.path = \"/nonexistent/deep/control.sock\"");
        assert!(output.contains("control.path: ") && output.contains("/nonexistent"), "{output}");
        let output = refused("listeners.memif = { enabled = true, path = \"/nonexistent/a/b\" }");
        assert!(output.contains("listeners.memif.path: "), "{output}");
        let output = refused("listeners.unix.path = \"/etc/passwd\"");
        assert!(output.contains("/etc/passwd exists"), "{output}");
        let output = refused("management.localhost_rib = \"/nonexistent/rules\"");
        assert!(output.contains("/nonexistent/rules"), "{output}");
        let output = refused(
            "listeners.webtransport = { enabled = true, state_directory = \"/etc/passwd\" }",
        );
        assert!(
            output.starts_with("listeners.webtransport.state_directory: ")
                && output.contains("/etc/passwd"),
            "{output}"
        );
    }

    #[test]
    fn all_unavailable_resources_are_reported() {
        let text = "control.path = \"/nonexistent/a/b\"\nforwarder.cpus = [4000]\n\
                    [management]\n\
                    localhost_rib = \"/nonexistent/rules\"\n\
                    localhop_rib = \"/nonexistent/more\"\n\
                    [[management.authorizations]]\ncertificate = \"/nonexistent/certificate\"\n\
                    privileges = [\"cs\"]";
        let config = parse("test", text).unwrap();
        let faults = Plan::new(&config, &clock()).unwrap_err();
        let keys: Vec<_> = faults.iter().map(|fault| fault.keys[0].as_str()).collect();
        let expected = [
            "control.path",
            "forwarder.cpus",
            "management.authorizations",
            "management.localhost_rib",
            "management.localhop_rib",
        ];
        assert_eq!(keys, expected, "{faults:?}");
    }

    #[cfg(not(feature = "dpdk"))]
    #[test]
    fn dpdk_ports_are_rejected_without_dpdk() {
        let output = refused("listeners.dpdk.ports = [\"net_tap0\"]");
        assert!(
            output.contains("listeners.dpdk.ports: ") && output.contains("without DPDK"),
            "{output}"
        );
    }

    #[cfg(not(feature = "vip"))]
    #[test]
    fn vip_is_rejected_without_vip() {
        let output = refused("caching.vip.enabled = true");
        assert!(
            output.contains("caching.vip.enabled: this program was built without VIP")
                && output.contains("patented"),
            "{output}"
        );
    }

    #[cfg(feature = "vip")]
    #[test]
    fn rules_of_vip_that_cannot_be_read_are_rejected() {
        let output = refused("caching.vip = { enabled = true, signers = \"/nonexistent/rules\" }");
        assert!(output.contains("/nonexistent/rules"), "{output}");
    }

    #[test]
    fn missing_directory_is_created_but_not_its_parents() {
        let directory = tempfile::tempdir().unwrap();
        let below = |path: &str| {
            let path = directory.path().join(path).display().to_string();
            parse("test", &format!("listeners.unix.path = \"{path}\"")).unwrap()
        };
        Plan::new(&below("nfd/nfd.sock"), &clock()).unwrap();
        assert!(!directory.path().join("nfd").exists(), "nothing is made before the start");
        Plan::new(&below("nfd/more/nfd.sock"), &clock()).unwrap_err();
    }
}
