//! Sections `authorizations` and `rib`: access control. No setting may grant more than the file
//! does.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ndn_management::access::PRIVILEGED_MODULES;
use ndn_security::info::Node;

use super::{Reader, seconds};
use crate::management::{Authorize, AuthorizedSigner, Privilege, Propagate, TrustRules};

impl Reader<'_> {
    /// As in NFD, no error here prevents the start.
    fn read_propagate(&mut self, section: &Node) {
        let mut propagate = Propagate { enabled: true, ..Propagate::default() };
        for node in &section.children {
            let target = match node.key.as_str() {
                "cost" => {
                    propagate.cost = self.cost(node).unwrap_or(propagate.cost);
                    continue;
                }
                "timeout" => {
                    if let Some(timeout) = self.bounded(node, 100, 3_600_000) {
                        propagate.timeout = Duration::from_millis(timeout);
                    }
                    continue;
                }
                "refresh_interval" => &mut propagate.refresh_interval,
                "base_retry_wait" => &mut propagate.base_retry_wait,
                "max_retry_wait" => &mut propagate.max_retry_wait,
                _ => {
                    self.no_effect(node, "NFD ignores it, too");
                    continue;
                }
            };
            if let Some(wait) = self.bounded(node, 1, WAIT_SECONDS_MAX) {
                *target = seconds(wait);
            }
        }
        if propagate.base_retry_wait > propagate.max_retry_wait {
            self.warn(section, "`base_retry_wait` exceeds `max_retry_wait`, which is used instead");
            propagate.base_retry_wait = propagate.max_retry_wait;
        }
        self.config.management.propagate = propagate;
    }

    /// NFD converts a negative number to an unsigned one.
    fn cost(&mut self, node: &Node) -> Option<u64> {
        if let Ok(negative @ ..0) = node.value.parse::<i64>() {
            let cost = negative.cast_unsigned();
            self.warn(node, format!("`cost` is {cost}, as in NFD"));
            return Some(cost);
        }
        self.bounded(node, 0, u64::MAX)
    }

    /// A number, of which NFD accepts any: clamped to the limits. Other values leave the default,
    /// as in NFD.
    fn bounded(&mut self, node: &Node, min: u64, max: u64) -> Option<u64> {
        let Ok(number) = node.value.parse::<u64>() else {
            self.no_effect(node, "it is not a number: the default is used");
            return None;
        };
        let bounded = number.clamp(min, max);
        if bounded != number {
            self.warn(node, format!("`{}` is {bounded}: it is between {min} and {max}", node.key));
        }
        Some(bounded)
    }

    pub(super) fn read_authorizations(&mut self, section: &Node) {
        if section.children.is_empty() {
            self.refuse(section, "`authorize` is missing in `authorizations`");
        }
        for node in &section.children {
            if node.key == "authorize" {
                self.read_authorize(node);
            } else {
                self.refuse_unknown(node, "authorizations");
            }
        }
    }

    fn read_authorize(&mut self, section: &Node) {
        let (Some(certfile), Some(list)) = (section.child("certfile"), section.child("privileges"))
        else {
            return self.refuse(section, "`authorize` needs `certfile` and `privileges`");
        };
        let signer = match certfile.value.as_str() {
            "" => return self.refuse(certfile, "`certfile` is empty"),
            "any" => AuthorizedSigner::Any,
            file => AuthorizedSigner::Certificate(self.directory.join(file)),
        };
        self.locations.add("management.authorizations", certfile);
        let mut privileges = Vec::new();
        for node in &list.children {
            if !node.value.is_empty() {
                let text = format!(
                    "`{}` follows `{}` on its line, where NFD ignores it: write each privilege on its own line",
                    node.value, node.key
                );
                self.refuse(node, text);
            }
            match PRIVILEGED_MODULES.into_iter().find(|module| module.as_str() == node.key) {
                Some(module) => privileges.push(Privilege(module)),
                None => self.refuse(node, format!("unknown module `{}`", node.key)),
            }
        }
        if privileges.is_empty() {
            self.warn(section, "`authorize` grants no privilege");
        } else {
            self.config
                .management
                .authorizations
                .push(Authorize { certificate: signer, privileges });
        }
    }

    /// Trust rules. As in NFD, a trust anchor whose file is missing authorizes nobody.
    fn rules(&mut self, key: &'static str, section: &Node) -> TrustRules {
        let node = section;
        let mut section = section.clone();
        section.children.retain(|anchor| {
            let Some(file) = missing_file(anchor, self.directory) else { return true };
            let text =
                "the file does not exist: the anchor authorizes nobody until the next reload";
            self.warn(file, text);
            false
        });
        self.locations.add_text(key, node, &section);
        rules_of(section, self.directory)
    }

    pub(super) fn read_rib(&mut self, section: &Node) {
        for node in &section.children {
            match node.key.as_str() {
                "localhost_security" => {
                    self.config.management.localhost_rib =
                        self.rules("management.localhost_rib", node);
                }
                "localhop_security" => {
                    self.config.management.localhop_rib =
                        self.rules("management.localhop_rib", node);
                }
                "prefix_announcement_validation" => {
                    self.config.management.prefix_announcements =
                        self.rules("management.prefix_announcements", node);
                }
                "auto_prefix_propagate" => {
                    self.locations.add("management.propagate.enabled", node);
                    self.read_propagate(node);
                }
                "readvertise_nlsr" => {
                    self.config.management.readvertise_nlsr = self.yes_no(node);
                }
                _ => self.refuse_unknown(node, "rib"),
            }
        }
        if let (Some(node), Some(_)) =
            (section.child("auto_prefix_propagate"), section.child("localhop_security"))
        {
            self.refuse(node, "`auto_prefix_propagate` and `localhop_security` exclude each other");
        }
    }
}

/// Maximum time of a key of `auto_prefix_propagate`: a day.
const WAIT_SECONDS_MAX: u64 = 86_400;

fn rules_of(mut section: Node, directory: &Path) -> TrustRules {
    let is_any = |node: &Node| {
        node.key == "trust-anchor" && node.child("type").is_some_and(|ty| ty.value == "any")
    };
    match &section.children[..] {
        [] => TrustRules::Nobody,
        [only] if is_any(only) => TrustRules::Any,
        _ => {
            let anchors = section.children.iter_mut().filter(|node| node.key == "trust-anchor");
            for node in anchors.flat_map(|anchor| &mut anchor.children) {
                if node.key == "file-name" || node.key == "dir" {
                    node.value = directory.join(&node.value).display().to_string();
                }
            }
            TrustRules::Inline { text: section.children_to_text(), directory: PathBuf::new() }
        }
    }
}

/// The file of a trust anchor, if it does not exist.
fn missing_file<'n>(anchor: &'n Node, directory: &Path) -> Option<&'n Node> {
    let of_key = |key: &str| anchor.children.iter().find(|node| node.key.eq_ignore_ascii_case(key));
    let is_anchor = anchor.key.eq_ignore_ascii_case("trust-anchor");
    let is_file = of_key("type").is_some_and(|ty| ty.value.eq_ignore_ascii_case("file"));
    let file = of_key("file-name").filter(|_| is_anchor && is_file)?;
    let found = std::fs::metadata(directory.join(&file.value));
    found.is_err_and(|error| error.kind() == ErrorKind::NotFound).then_some(file)
}
