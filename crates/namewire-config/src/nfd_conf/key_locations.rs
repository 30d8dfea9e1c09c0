//! The locations of settings in an nfd.conf, and their names there.

use std::sync::Arc;

use ndn_security::info::{InfoError, Node};

use crate::conflict::Conflict;
use crate::management::TEXT_ORIGIN;

/// The locations of settings whose problems show only on the machine, or together with other settings.
#[derive(Clone, Debug, Default)]
pub struct KeyLocations(Vec<KeyLocation>);

#[derive(Clone, Debug)]
struct KeyLocation {
    /// The setting of a [`Config`](crate::Config), as a dotted path.
    key: &'static str,
    /// Its name in the file.
    name: String,
    value: String,
    /// File and line.
    at: InfoError,
    /// Files and lines of the lines of its text, where it has one.
    lines: Vec<(Arc<str>, usize)>,
}

impl KeyLocations {
    /// Records that a setting, as a dotted path, is that of the node.
    pub(super) fn add(&mut self, key: &'static str, node: &Node) {
        let (name, value) = (node.key.clone(), node.value.clone());
        self.0.push(KeyLocation { key, name, value, at: node.error(""), lines: Vec::new() });
    }

    /// As [`Self::add`], of rules that were converted to text: a problem of a line of the text is reported as a
    /// problem of the line of the file.
    pub(super) fn add_text(&mut self, key: &'static str, node: &Node, text_of: &Node) {
        self.add(key, node);
        if let Some(location) = self.0.last_mut() {
            location.lines = text_of.places_of_lines();
        }
    }

    /// A conflict with file and line and the name of the setting in the file; if the file does not have the setting,
    /// with the name of the file, `origin`.
    #[must_use]
    pub fn describe(&self, origin: &str, conflict: &Conflict) -> String {
        let Conflict { keys, reason } = conflict;
        let Some(location) = keys.iter().find_map(|key| self.find(key, reason)) else {
            return format!("{origin}: {reason}");
        };
        let reason = reason
            .strip_prefix(location.key)
            .map_or(&**reason, |reason| reason.strip_prefix(": ").unwrap_or(reason));
        let in_text = line_of_text(reason).and_then(|(line, rest)| {
            let (origin, line) = location.lines.get(line.checked_sub(1)?)?;
            Some(format!("{origin}:{line}: `{}`: {rest}", location.name))
        });
        let InfoError { origin, line, .. } = &location.at;
        in_text.unwrap_or_else(|| format!("{origin}:{line}: `{}`: {reason}", location.name))
    }

    /// The location of a setting; of several, that whose value the reason contains.
    fn find(&self, key: &str, reason: &str) -> Option<&KeyLocation> {
        let of_key = || self.0.iter().filter(|location| location.key == key);
        let named = |location: &&KeyLocation| {
            !location.value.is_empty() && reason.contains(&location.value)
        };
        of_key().find(named).or_else(|| of_key().next())
    }
}

/// The line of a text of rules that a reason begins with, and the rest of it.
fn line_of_text(reason: &str) -> Option<(usize, &str)> {
    let (line, rest) = reason.strip_prefix(TEXT_ORIGIN)?.strip_prefix(':')?.split_once(": ")?;
    Some((line.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::super::tests::locations;
    use super::*;

    #[test]
    fn conflicts_are_reported_with_lines_and_names_of_the_file() {
        let text = "face_system {\n unix {\n path /tmp/x.sock\n }\n}\nmw-nfd {\n\
                    forwarding-worker-core-assign 4000\n}\nauthorizations {\n\
                    authorize {\n certfile a.cert\n privileges {\n faces\n }\n }\n\
                    authorize {\n certfile b.cert\n privileges {\n cs\n }\n }\n}\n\
                    general {\n user nobody-here\n}\n\
                    rib {\n localhop_security {\n rule {\n id x\n for data }\n }\n}\n";
        let locations = locations(text);
        let described = |key: &'static str, reason: &str| {
            let reason = format!("{key}: {reason}");
            locations.describe("nfd.conf", &Conflict::new(&[key], reason))
        };
        assert_eq!(
            described("forwarder.cpus", "processor 4000 cannot be used here"),
            "nfd.conf:7: `forwarding-worker-core-assign`: processor 4000 cannot be used here"
        );
        let described_of =
            |file: &str| described("management.authorizations", &format!("cannot read {file}"));
        assert!(described_of("/etc/ndn/a.cert").starts_with("nfd.conf:11: `certfile`: cannot"));
        assert!(described_of("/etc/ndn/b.cert").starts_with("nfd.conf:17: `certfile`: cannot"));
        assert!(described("privileges.user", "x").starts_with("nfd.conf:24: `user`: x"));
        assert!(described("management.localhop_rib", "x").starts_with("nfd.conf:27: "));
        let taken = described("listeners.unix.path", "/tmp/x.sock exists and is not a socket");
        assert!(taken.starts_with("nfd.conf:3: `path`: /tmp/x.sock exists"), "{taken}");
        assert_eq!(described("control.path", "x"), "nfd.conf: control.path: x");
        assert_eq!(
            described("management.localhop_rib", "line:4: no such word"),
            "nfd.conf:30: `localhop_security`: no such word"
        );
        assert!(described("management.localhop_rib", "line:40: x").starts_with("nfd.conf:27: "));
    }
}
