//! Modules that log.

/// Modules that log.
pub const LOG_MODULES: [&str; 15] = [
    "namewire",
    "namewire_control",
    "namewire_daemon",
    "ndn_client",
    "ndn_dataplane",
    "ndn_face",
    "ndn_files",
    "ndn_forwarding",
    "ndn_gateway",
    "ndn_management",
    "ndn_ring",
    "ndn_security",
    "ndn_sys",
    "ndn_table",
    "ndn_webtransport",
];

/// Libraries of others that log what nobody but their authors wants to know at the levels debug and trace: there
/// only what is asked for by name.
pub const LOG_LIBRARIES: [&str; 7] =
    ["h3", "quinn", "quinn_proto", "quinn_udp", "rustls", "tokio", "wtransport"];

/// Checks that a text names a module that may log, or a part of one, such as `ndn_table::fib`.
///
/// # Errors
/// What is wrong with it, and which modules there are.
pub fn check_module(text: &str) -> Result<(), String> {
    let first = text.split("::").next().unwrap_or_default();
    let is_known = LOG_MODULES.contains(&first) || LOG_LIBRARIES.contains(&first);
    if let Some(counterpart) = counterpart_of(text) {
        return Err(match counterpart {
            Counterpart::Module(ours) => {
                format!("`{text}` is a module of NFD; here it is {ours} that logs such things")
            }
            Counterpart::None(why) => {
                format!("`{text}` is a module of NFD without a counterpart: {why}")
            }
        });
    }
    match is_module(text) && is_known {
        true => Ok(()),
        false => Err(format!(
            "`{text}` is not the name of a module; there are {}, parts of them, such as ndn_table::fib, and of \
             libraries {}",
            LOG_MODULES.join(", "),
            LOG_LIBRARIES.join(", ")
        )),
    }
}

/// Where this program logs what a module of NFD, or of ndn-cxx in it, logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counterpart {
    /// This module of ours.
    Module(&'static str),
    /// Nowhere, and why.
    None(&'static str),
}

const PACKETS: Counterpart = Counterpart::None(
    "what becomes of packets is counted (namewire workers, namewire face show) and captured (namewire capture), \
     not logged",
);
const CONTROL: Counterpart = Counterpart::Module("namewire_daemon::control");
const ETHERNET: Counterpart = Counterpart::Module("namewire_daemon::ethernet");

/// That of a module that `nfd --modules` lists, or of one of other versions that is named alike. Names without
/// a dot are those of NFD, as in its configuration.
pub(super) fn counterpart_of(module: &str) -> Option<Counterpart> {
    if let Some(of_library) = module.strip_prefix("ndn.") {
        return Some(match of_library {
            "NetworkMonitor" => Counterpart::Module("namewire_daemon"),
            "mgmt.Dispatcher" => CONTROL,
            _ if of_library.starts_with("security.") => {
                Counterpart::Module("namewire_daemon::access")
            }
            _ => Counterpart::None("it is part of the library that NFD is built on"),
        });
    }
    let name = module.strip_prefix("nfd.").unwrap_or(module);
    let ends_with = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    Some(match name {
        "Main" | "Nfd" => Counterpart::Module("namewire_daemon"),
        "PrivilegeHelper" => Counterpart::Module("namewire::process::privileges"),
        "NetdevBound" => Counterpart::Module("namewire_daemon::bound"),
        "MulticastUdpTransport" | "UdpFactory" => Counterpart::Module("namewire_daemon::multicast"),
        "AsfProbingModule" | "ContentStore" | "Cs" | "CsPolicy" | "DeadNonceList" | "Fib"
        | "Forwarder" | "Measurements" | "Pit" | "ProcessNackTraits" => PACKETS,
        "RibEntry" | "RibService" | "StrategyChoice" | "FaceTable" | "FaceSystem" => CONTROL,
        _ if name.starts_with("NameTree") || name.starts_with("Lp") => PACKETS,
        _ if ends_with(&["Strategy", "LinkService"]) => PACKETS,
        _ if name.contains("Ethernet") => ETHERNET,
        _ if ends_with(&["Manager", "Authenticator", "FibUpdater", "Rib", "Readvertise"]) => {
            CONTROL
        }
        _ if ends_with(&["ReadvertiseDestination", "Transport", "Channel", "Factory"]) => CONTROL,
        _ => return None,
    })
}

/// Whether a text has the form of a module path, such as `ndn_face` or `ndn_table::fib`.
fn is_module(text: &str) -> bool {
    let is_word = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    text.split("::").all(is_word)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    /// What `nfd --modules` prints, of NFD 24.07 on ndn-cxx 0.9.0.
    const OF_NFD: &str = "ndn.Face ndn.NetworkMonitor ndn.TcpTransport ndn.UnixTransport ndn.mgmt.Dispatcher \
        ndn.security.CertificateBundleFetcher ndn.security.CertificateCache ndn.security.CertificateContainer \
        ndn.security.CertificateFetcher ndn.security.Identity ndn.security.IdentityContainer ndn.security.Key \
        ndn.security.KeyChain ndn.security.KeyContainer ndn.security.Pib ndn.security.TrustAnchorGroup \
        ndn.security.ValidationState ndn.security.Validator ndn.security.validator_config.Rule \
        nfd.AccessStrategy nfd.AsfProbingModule nfd.AsfStrategy nfd.BestRouteStrategy \
        nfd.CommandAuthenticator nfd.ContentStore nfd.CsPolicy nfd.DeadNonceList nfd.EthernetChannel \
        nfd.EthernetFactory nfd.EthernetTransport nfd.FaceManager nfd.FaceSystem nfd.FaceTable nfd.FibManager \
        nfd.FibUpdater nfd.Forwarder nfd.GenericLinkService nfd.InternalClientTransport \
        nfd.InternalForwarderTransport nfd.LinkService nfd.LpFragmenter nfd.LpReassembler nfd.LpReliability \
        nfd.Main nfd.MulticastEthernetTransport nfd.MulticastStrategy nfd.MulticastUdpTransport nfd.NameTree \
        nfd.NameTreeHashtable nfd.NameTreeIterator nfd.NetdevBound nfd.Nfd nfd.NfdRibReadvertiseDestination \
        nfd.NullTransport nfd.PrivilegeHelper nfd.ProcessNackTraits nfd.RandomStrategy nfd.Readvertise \
        nfd.ReadvertiseDestination nfd.Rib nfd.RibEntry nfd.RibManager nfd.RibService nfd.SelfLearningStrategy \
        nfd.Strategy nfd.StrategyChoice nfd.StrategyChoiceManager nfd.TcpChannel nfd.TcpFactory \
        nfd.TcpTransport nfd.Transport nfd.UdpChannel nfd.UdpFactory nfd.UnicastEthernetTransport \
        nfd.UnicastUdpTransport nfd.UnixStreamChannel nfd.UnixStreamFactory nfd.UnixStreamTransport";

    #[test]
    fn every_module_of_nfd_is_known_and_leads_to_one_that_logs() {
        for module in OF_NFD.split_whitespace() {
            let Some(counterpart) = counterpart_of(module) else { panic!("{module}") };
            if let Counterpart::Module(ours) = counterpart {
                assert_eq!(check_module(ours), Ok(()), "{module}");
            }
            let told = check_module(module).unwrap_err();
            assert!(told.contains("of NFD"), "{told}");
        }
        assert_eq!(counterpart_of("FibManager"), Some(CONTROL), "as in its configuration");
        assert_eq!(counterpart_of("nfd.EthernetTransport"), Some(ETHERNET));
        assert_eq!(counterpart_of("BestRouteStrategy"), Some(PACKETS));
        assert_eq!(counterpart_of("namewire_daemon::control"), None);
    }

    /// The words of a text that may name modules.
    fn words(text: &str) -> Vec<&str> {
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect()
    }

    #[test]
    fn the_reference_has_all_modules() {
        let reference = crate::reference();
        let of_log = reference.split("### `[log.modules]`").nth(1).unwrap();
        let of_log = words(of_log.split("###").next().unwrap());
        for module in LOG_MODULES.iter().chain(&LOG_LIBRARIES) {
            assert!(of_log.contains(module), "{module}");
        }
    }

    #[test]
    fn every_crate_that_logs_is_a_module() {
        let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        let mut count = 0;
        for entry in std::fs::read_dir(crates).unwrap() {
            let directory = entry.unwrap();
            let manifest = std::fs::read_to_string(directory.path().join("Cargo.toml")).unwrap();
            if manifest.lines().any(|line| line.starts_with("tracing")) {
                let name = directory.file_name().into_string().unwrap().replace('-', "_");
                assert!(LOG_MODULES.contains(&name.as_str()), "{name}");
                count += 1;
            }
        }
        assert!(count > 3, "{count} crates log");
    }

    #[test]
    fn modules_that_log_are_known_by_name() {
        for known in ["ndn_face", "ndn_table::fib", "quinn_proto::connection", "ndn_webtransport"] {
            assert_eq!(check_module(known), Ok(()), "{known}");
        }
        for unknown in ["", "ndn", "ndn_fase", "ndn_face::", "ndn_face:fib", "a b", "serde"] {
            assert!(check_module(unknown).is_err(), "{unknown}");
        }
    }
}
