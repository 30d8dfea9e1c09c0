//! Settings that do not fit this machine; the configuration may come from another one.

use ndn_sys::interface::interfaces;
use tracing::warn;

use crate::config::{Config, InterfaceRule, Warning, WorkerCount};
use crate::{memory, placement, settings};

/// Returns settings that do not fit this machine: interfaces that do not exist (yet), more workers than processors, and
/// more memory than there is.
#[must_use]
pub fn machine_warnings(config: &Config) -> Vec<Warning> {
    let workers = placement::plan(&config.forwarder).map_or(1, |places| places.len());
    let forwarding = workers.saturating_sub(config.forwarder.io_workers).max(1);
    let mut warnings = interfaces_missing(config);
    let cpus = ndn_sys::cpu::allowed_cpus().map_or(usize::MAX, |cpus| cpus.len());
    let is_fixed = config.forwarder.workers != WorkerCount::Auto;
    warnings.extend(is_fixed.then(|| excess_workers(workers, cpus)).flatten());
    warnings.extend(pool_misfit(config, workers, memory::system_bytes()));
    let content_store = settings::cs_bytes(config, forwarding);
    warnings.extend(excess_content_store(config, content_store, memory::cs_bytes_max()));
    let excess = settings::policy_excess(config, config.tables.cs.policy);
    warnings.extend(excess.map(|reason| Warning { key: "tables.cs.policy".to_owned(), reason }));
    warnings
}

/// Logs the warnings.
pub(super) fn log_warnings(config: &Config) {
    for warning in machine_warnings(config) {
        warn!("{}", warning.reason);
    }
}

/// Configured interfaces that do not exist: faces wait for them.
fn interfaces_missing(config: &Config) -> Vec<Warning> {
    let Ok(there) = interfaces() else { return Vec::new() };
    let is_missing = |name: &str| !there.iter().any(|interface| interface.name == name);
    let missing = named(config).into_iter().filter(|(_, name)| is_missing(name));
    let warnings = missing.map(|(key, name)| {
        let reason = format!("{key}: there is no interface {name}; should one come, it is used");
        Warning { key: key.to_owned(), reason }
    });
    warnings.collect()
}

/// Workers that share processors wait for each other.
fn excess_workers(workers: usize, cpus: usize) -> Option<Warning> {
    let key = "forwarder.workers";
    let processors = if cpus == 1 { "processor" } else { "processors" };
    let reason = format!(
        "{key}: {workers} workers share {cpus} {processors}: the forwarder is slower than with one for each"
    );
    (workers > cpus).then(|| Warning { key: key.to_owned(), reason })
}

/// A pool that is smaller than the workers need, or larger than the memory.
fn pool_misfit(config: &Config, workers: usize, memory: u64) -> Option<Warning> {
    let (key, pool) = ("pool.capacity", &config.pool);
    let capacity = pool.capacity;
    let reason = if let Some(needed) = pool.shortage(workers) {
        format!("{key}: {capacity} are less than {workers} workers need: they take {needed}")
    } else if pool.exceeds(memory) {
        format!("{key}: {capacity} are more than the {} MiB of this system", memory >> 20)
    } else {
        return None;
    };
    Some(Warning { key: key.to_owned(), reason })
}

/// The kernel refuses to reserve more memory than exists.
fn excess_content_store(config: &Config, bytes: usize, max: usize) -> Option<Warning> {
    let cs = &config.tables.cs;
    let is_of_bytes = cs.capacity_bytes.is_some();
    let key = if is_of_bytes { "tables.cs.capacity_bytes" } else { "tables.cs.capacity_packets" };
    let reason = format!(
        "{key}: the Content Store needs {} MiB and gets {} MiB, three quarters of the memory of this system: it holds \
         as many packets as fit",
        bytes >> 20,
        max >> 20
    );
    (bytes > max).then(|| Warning { key: key.to_owned(), reason })
}

/// Interfaces that the settings in use name in full (no pattern), with their settings.
fn named(config: &Config) -> Vec<(&'static str, &str)> {
    let (multicast, ethernet) = (&config.listeners.multicast, &config.listeners.ethernet);
    let mut lists = vec![
        (multicast.enabled, "listeners.multicast.interfaces", &multicast.interfaces),
        (ethernet.enabled, "listeners.ethernet.interfaces", &ethernet.interfaces),
        (
            ethernet.enabled && ethernet.multicast,
            "listeners.ethernet.multicast_interfaces",
            &ethernet.multicast_interfaces,
        ),
    ];
    for bound in &config.bound_faces {
        lists.push((true, "bound_faces.interfaces", &bound.interfaces));
    }
    let mut named = Vec::new();
    for (_, setting, rules) in lists.into_iter().filter(|(is_used, ..)| *is_used) {
        for rule in rules {
            if let InterfaceRule::Name(name) = rule
                && !name.contains(['*', '?'])
            {
                named.push((setting, name.as_str()));
            }
        }
    }
    let faces = config.static_faces.iter().filter_map(|face| face.interface.as_deref());
    named.extend(faces.map(|name| ("static_faces.interface", name)));
    named
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::config::parse;

    #[test]
    fn only_interfaces_named_in_used_settings_are_reported() {
        let text = "listeners.ethernet = { enabled = true, interfaces = [\"eth95\", \"eth?\"] }";
        let config = parse("test", text).unwrap();
        assert_eq!(named(&config), [("listeners.ethernet.interfaces", "eth95")]);
        let missing = interfaces_missing(&config);
        assert_eq!(missing[0].key, "listeners.ethernet.interfaces");
        assert!(missing[0].reason.contains("there is no interface eth95"), "{missing:?}");
        let text = "listeners.multicast = { enabled = true, interfaces = [\"eth99\", \"en*\"] }\n\
                    listeners.ethernet = { enabled = false, interfaces = [\"eth98\"] }\n\
                    [[bound_faces]]\nremotes = [\"udp4://192.0.2.1:6363\"]\ninterfaces = [\"eth97\"]\n\
                    [[static_faces]]\nuri = \"ether://[02:00:00:00:00:01]\"\ninterface = \"eth96\"\n";
        let config = parse("test", text).unwrap();
        assert_eq!(
            named(&config),
            [
                ("listeners.multicast.interfaces", "eth99"),
                ("bound_faces.interfaces", "eth97"),
                ("static_faces.interface", "eth96"),
            ]
        );
    }

    #[test]
    fn more_workers_than_processors_are_reported() {
        assert_eq!(excess_workers(2, 2), None);
        let warning = excess_workers(3, 2).unwrap();
        assert_eq!(warning.key, "forwarder.workers");
        assert!(warning.reason.contains("3 workers share 2 processors"), "{warning:?}");
    }

    #[test]
    fn memory_that_this_system_lacks_is_reported_with_its_setting() {
        let config = parse("test", "tables.cs.capacity_bytes = \"900TiB\"").unwrap();
        let warnings = machine_warnings(&config);
        assert_eq!(warnings[0].key, "tables.cs.capacity_bytes", "{warnings:?}");
        let config = parse("test", "tables.cs.capacity_packets = 16000000").unwrap();
        let bytes = settings::cs_bytes(&config, 1);
        assert_eq!(excess_content_store(&config, bytes, bytes), None);
        let warning = excess_content_store(&config, bytes, bytes - 1).unwrap();
        assert_eq!(warning.key, "tables.cs.capacity_packets");
        let config = parse("test", "pool.capacity = \"8MiB\"").unwrap();
        assert_eq!(pool_misfit(&config, 2, 8 << 20), None);
        let reason = |workers, memory| pool_misfit(&config, workers, memory).unwrap().reason;
        assert!(reason(3, 8 << 20).contains("8MiB are less than 3 workers need"));
        assert!(reason(1, 7 << 20).contains("8MiB are more than the 7 MiB"));
    }
}
