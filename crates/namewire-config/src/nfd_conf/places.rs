//! Where settings stand in an nfd.conf, and what NFD calls them.

use std::sync::Arc;

use ndn_security::info::{InfoError, Node};

use crate::{Contradiction, TEXT_ORIGIN};

/// Where settings stand that only the machine, or others, show to be wrong.
#[derive(Clone, Debug, Default)]
pub struct Places(Vec<Place>);

#[derive(Clone, Debug)]
struct Place {
    /// What the setting is called in our configuration.
    key: &'static str,
    /// What the file calls it.
    name: String,
    value: String,
    /// File and line.
    at: InfoError,
    /// Files and lines of the lines of its text, where it has one.
    lines: Vec<(Arc<str>, usize)>,
}

impl Places {
    /// The setting of this key, as a dotted path, is that of the node.
    pub(super) fn add(&mut self, key: &'static str, node: &Node) {
        let (name, value) = (node.key.clone(), node.value.clone());
        self.0.push(Place { key, name, value, at: node.error(""), lines: Vec::new() });
    }

    /// As [`Self::add`], of rules that were written down as text: what is wrong with a line of it is told as what
    /// is wrong with that of the file.
    pub(super) fn add_text(&mut self, key: &'static str, node: &Node, text_of: &Node) {
        self.add(key, node);
        if let Some(place) = self.0.last_mut() {
            place.lines = text_of.places_of_lines();
        }
    }

    /// What is wrong, with file and line and the name of the setting there; of a setting that the file
    /// does not have, with the file, `origin`.
    #[must_use]
    pub fn describe(&self, origin: &str, fault: &Contradiction) -> String {
        let Contradiction { keys, reason } = fault;
        let Some(place) = keys.iter().find_map(|key| self.find(key, reason)) else {
            return format!("{origin}: {reason}");
        };
        let reason = reason
            .strip_prefix(place.key)
            .map_or(&**reason, |reason| reason.strip_prefix(": ").unwrap_or(reason));
        let in_text = line_of_text(reason).and_then(|(line, rest)| {
            let (origin, line) = place.lines.get(line.checked_sub(1)?)?;
            Some(format!("{origin}:{line}: `{}`: {rest}", place.name))
        });
        let InfoError { origin, line, .. } = &place.at;
        in_text.unwrap_or_else(|| format!("{origin}:{line}: `{}`: {reason}", place.name))
    }

    /// Of several of a key, that which the reason names.
    fn find(&self, key: &str, reason: &str) -> Option<&Place> {
        let of_key = || self.0.iter().filter(|place| place.key == key);
        let named = |place: &&Place| !place.value.is_empty() && reason.contains(&place.value);
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

    use super::super::tests::places;
    use super::*;

    #[test]
    fn what_the_machine_does_not_have_is_told_in_words_of_the_file() {
        let text = "face_system {\n unix {\n path /tmp/x.sock\n }\n}\nmw-nfd {\n\
                    forwarding-worker-core-assign 4000\n}\nauthorizations {\n\
                    authorize {\n certfile a.cert\n privileges {\n faces\n }\n }\n\
                    authorize {\n certfile b.cert\n privileges {\n cs\n }\n }\n}\n\
                    general {\n user nobody-here\n}\n\
                    rib {\n localhop_security {\n rule {\n id x\n for data }\n }\n}\n";
        let places = places(text);
        let told = |key: &'static str, reason: &str| {
            let reason = format!("{key}: {reason}");
            places.describe("nfd.conf", &Contradiction { keys: vec![key], reason })
        };
        assert_eq!(
            told("forwarder.cpus", "processor 4000 cannot be used here"),
            "nfd.conf:7: `forwarding-worker-core-assign`: processor 4000 cannot be used here"
        );
        let told_of =
            |file: &str| told("management.authorizations", &format!("cannot read {file}"));
        assert!(told_of("/etc/ndn/a.cert").starts_with("nfd.conf:11: `certfile`: cannot"));
        assert!(told_of("/etc/ndn/b.cert").starts_with("nfd.conf:17: `certfile`: cannot"));
        assert!(told("privileges.user", "x").starts_with("nfd.conf:24: `user`: x"));
        assert!(told("management.localhop_rib", "x").starts_with("nfd.conf:27: "));
        let taken = told("listeners.unix.path", "/tmp/x.sock exists and is not a socket");
        assert!(taken.starts_with("nfd.conf:3: `path`: /tmp/x.sock exists"), "{taken}");
        assert_eq!(told("control.path", "x"), "nfd.conf: control.path: x");
        assert_eq!(
            told("management.localhop_rib", "line:4: no such word"),
            "nfd.conf:30: `localhop_security`: no such word"
        );
        assert!(told("management.localhop_rib", "line:40: x").starts_with("nfd.conf:27: "));
    }
}
