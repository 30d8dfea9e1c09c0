//! Configured interfaces that do not exist.

use ndn_sys::interface::interfaces;
use tracing::warn;

use crate::config::{Config, InterfaceRule, Warning};

/// Returns configured interfaces that do not exist (yet), with their settings: faces wait for them.
#[must_use]
pub fn interfaces_missing(config: &Config) -> Vec<Warning> {
    let Ok(there) = interfaces() else { return Vec::new() };
    let is_missing = |name: &str| !there.iter().any(|interface| interface.name == name);
    let missing = named(config).into_iter().filter(|(_, name)| is_missing(name));
    let warnings = missing.map(|(key, name)| {
        let reason = format!("{key}: there is no interface {name}; should one come, it is used");
        Warning { key: key.to_owned(), reason }
    });
    warnings.collect()
}

/// Logs a warning for each of them.
pub(super) fn warn_of_interfaces(config: &Config) {
    for warning in interfaces_missing(config) {
        warn!("{}", warning.reason);
    }
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
}
