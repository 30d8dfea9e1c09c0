//! The parser of trust rules and anchors in the INFO format.

use std::sync::Arc;

use ndn_packet::{Name, SignatureType};

use super::TrustPolicy;
use super::anchors::{AnchorGroup, AnchorSource, Kept, LoadAnchors};
use super::name_regex::NameRegex;
use super::rules::{Checker, Filter, KeyCheck, Relation, Rule};
use crate::Certificate;
use crate::info::{InfoError, Node};

/// The period of `refresh 0`, as in ndn-cxx; without `refresh`, anchors are read once.
const REFRESH_S_DEFAULT: u64 = 3600;

impl TrustPolicy {
    /// Parses the entries of `section`; `load` reads certificates from their location.
    ///
    /// # Errors
    /// The first fault, with its line.
    pub fn from_info(section: &Node, load: LoadAnchors<'_>) -> Result<Self, InfoError> {
        let mut policy = Self::default();
        for entry in &section.children {
            if is(&entry.key, "rule") {
                let (rule, is_for_data) = read_rule(entry)?;
                let rules = match is_for_data {
                    true => &mut policy.data_rules,
                    false => &mut policy.interest_rules,
                };
                rules.push(rule);
            } else if is(&entry.key, "trust-anchor") {
                read_anchor(entry, load, &mut policy)?;
            } else {
                return Err(entry.error(format!(
                    "unknown section `{}`: trust rules have the sections rule and trust-anchor",
                    entry.key
                )));
            }
        }
        Ok(policy)
    }
}

fn is(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

/// The properties of one section.
struct Properties<'n> {
    section: &'n Node,
    rest: Vec<&'n Node>,
}

impl<'n> Properties<'n> {
    fn new(section: &'n Node) -> Self {
        Self { section, rest: section.children.iter().collect() }
    }

    fn take_optional(&mut self, key: &str) -> Option<&'n Node> {
        let at = self.rest.iter().position(|node| is(&node.key, key))?;
        Some(self.rest.remove(at))
    }

    fn take(&mut self, key: &str) -> Result<&'n Node, InfoError> {
        self.take_optional(key).ok_or_else(|| {
            self.section.error(format!("`{key}` is missing in `{}`", self.section.key))
        })
    }

    fn take_all(&mut self, key: &str) -> Vec<&'n Node> {
        let (taken, rest) = self.rest.iter().partition(|node| is(&node.key, key));
        self.rest = rest;
        taken
    }

    fn finish(self) -> Result<(), InfoError> {
        match self.rest.first() {
            Some(node) => {
                Err(node.error(format!("unknown key `{}` in `{}`", node.key, self.section.key)))
            }
            None => Ok(()),
        }
    }
}

fn read_anchor(
    section: &Node,
    load: LoadAnchors<'_>,
    policy: &mut TrustPolicy,
) -> Result<(), InfoError> {
    let mut properties = Properties::new(section);
    let ty = properties.take("type")?;
    if is(&ty.value, "any") {
        policy.accepts_all = true;
        // ndn-cxx ignores all other properties here.
        return Ok(());
    }
    if is(&ty.value, "file") {
        let file = properties.take("file-name")?;
        let anchors = load(AnchorSource::File(&file.value)).map_err(|reason| file.error(reason))?;
        let refresh_s = read_refresh(&mut properties)?;
        policy.groups.push(AnchorGroup::new(Kept::File(file.value.clone()), refresh_s, anchors));
    } else if is(&ty.value, "dir") {
        let dir = properties.take("dir")?;
        let source = AnchorSource::Directory(&dir.value);
        let anchors = load(source).map_err(|reason| dir.error(reason))?;
        let refresh_s = read_refresh(&mut properties)?;
        policy.groups.push(AnchorGroup::new(
            Kept::Directory(dir.value.clone()),
            refresh_s,
            anchors,
        ));
    } else if is(&ty.value, "base64") {
        let text = properties.take("base64-string")?;
        let certificate =
            Certificate::from_text(&text.value).map_err(|error| text.error(error.to_string()))?;
        policy.groups.push(AnchorGroup::fixed(vec![Arc::new(certificate)]));
    } else {
        return Err(ty.error(format!("unknown type of trust anchor `{}`", ty.value)));
    }
    properties.finish()
}

/// The refresh period of anchors, seconds.
fn read_refresh(properties: &mut Properties<'_>) -> Result<Option<u64>, InfoError> {
    let Some(refresh) = properties.take_optional("refresh") else { return Ok(None) };
    let units = [('h', 3600), ('m', 60), ('s', 1)];
    let read = units.into_iter().find_map(|(unit, seconds)| {
        let number: u32 = refresh.value.strip_suffix(unit)?.parse().ok()?;
        Some(u64::from(number) * seconds)
    });
    match read {
        Some(0) => Ok(Some(REFRESH_S_DEFAULT)),
        Some(seconds) => Ok(Some(seconds)),
        None => Err(refresh.error(format!("`{}` is not a time such as 1h", refresh.value))),
    }
}

/// The rule, and whether it is about Data.
fn read_rule(section: &Node) -> Result<(Rule, bool), InfoError> {
    let mut properties = Properties::new(section);
    let id = properties.take("id")?.value.clone();
    let packets = properties.take("for")?;
    let is_for_data = is(&packets.value, "data");
    if !is_for_data && !is(&packets.value, "interest") {
        return Err(packets.error(format!("`{}` is neither data nor interest", packets.value)));
    }
    let filters = properties.take_all("filter").into_iter().map(read_filter);
    let filters = filters.collect::<Result<Vec<_>, _>>()?;
    let checkers = properties.take_all("checker").into_iter().map(read_checker);
    let checkers = checkers.collect::<Result<Vec<_>, _>>()?;
    properties.finish()?;
    if checkers.is_empty() {
        return Err(section.error(format!("rule \"{id}\" has no checker")));
    }
    Ok((Rule { id, filters, checkers }, is_for_data))
}

fn read_filter(section: &Node) -> Result<Filter, InfoError> {
    let mut properties = Properties::new(section);
    expect_type(&mut properties, "name")?;
    let filter = match properties.take_optional("name") {
        Some(node) => {
            let (name, relation) = (read_name(node)?, read_relation(&mut properties, "relation")?);
            Filter::Relation { name, relation }
        }
        None => Filter::Regex(read_regex(properties.take("regex")?)?),
    };
    properties.finish()?;
    Ok(filter)
}

fn read_checker(section: &Node) -> Result<Checker, InfoError> {
    let mut properties = Properties::new(section);
    let ty = properties.take("type")?;
    let signature_type = match properties.take_optional("sig-type") {
        Some(node) => read_signature_type(node)?,
        None => SignatureType::SHA256_WITH_ECDSA,
    };
    let key = if is(&ty.value, "hierarchical") {
        KeyCheck::hierarchical().map_err(|reason| section.error(reason))?
    } else if is(&ty.value, "customized") {
        match properties.take_optional("key-locator") {
            Some(locator) => read_key_locator(locator)?,
            None if signature_type == SignatureType::DIGEST_SHA256 => KeyCheck::Any,
            None => return Err(section.error("`key-locator` is missing in `checker`")),
        }
    } else {
        return Err(ty.error(format!("unknown type of checker `{}`", ty.value)));
    };
    properties.finish()?;
    Ok(Checker { signature_type: Some(signature_type), key })
}

fn read_key_locator(section: &Node) -> Result<KeyCheck, InfoError> {
    let mut properties = Properties::new(section);
    expect_type(&mut properties, "name")?;
    let check = if let Some(node) = properties.take_optional("name") {
        let (name, relation) = (read_name(node)?, read_relation(&mut properties, "relation")?);
        KeyCheck::Identity { name, relation }
    } else if let Some(node) = properties.take_optional("regex") {
        KeyCheck::Regex(read_regex(node)?)
    } else {
        read_hyper_relation(properties.take("hyper-relation")?)?
    };
    properties.finish()?;
    Ok(check)
}

fn read_hyper_relation(section: &Node) -> Result<KeyCheck, InfoError> {
    let mut properties = Properties::new(section);
    let (key, key_template) = read_extraction(&mut properties, "k-regex", "k-expand")?;
    let relation = read_relation(&mut properties, "h-relation")?;
    let (packet, packet_template) = read_extraction(&mut properties, "p-regex", "p-expand")?;
    properties.finish()?;
    Ok(KeyCheck::Hyper { key, key_template, packet, packet_template, relation })
}

fn read_extraction(
    properties: &mut Properties<'_>,
    regex: &str,
    template: &str,
) -> Result<(NameRegex, String), InfoError> {
    let regex = read_regex(properties.take(regex)?)?;
    let template = properties.take(template)?;
    regex.check_template(&template.value).map_err(|reason| template.error(reason))?;
    Ok((regex, template.value.clone()))
}

fn expect_type(properties: &mut Properties<'_>, requested: &str) -> Result<(), InfoError> {
    let ty = properties.take("type")?;
    if is(&ty.value, requested) {
        return Ok(());
    }
    Err(ty.error(format!("unknown type `{}`: only `{requested}` is known here", ty.value)))
}

fn read_name(node: &Node) -> Result<Name, InfoError> {
    Name::from_uri(&node.value)
        .map_err(|error| node.error(format!("`{}` is not a name: {error}", node.value)))
}

fn read_regex(node: &Node) -> Result<NameRegex, InfoError> {
    NameRegex::new(&node.value).map_err(|reason| {
        node.error(format!("`{}` is not an expression over names: {reason}", node.value))
    })
}

fn read_relation(properties: &mut Properties<'_>, key: &str) -> Result<Relation, InfoError> {
    let node = properties.take(key)?;
    let relations = [
        ("equal", Relation::Equal),
        ("is-prefix-of", Relation::IsPrefixOf),
        ("is-strict-prefix-of", Relation::IsStrictPrefixOf),
    ];
    let found = relations.into_iter().find(|(word, _)| is(&node.value, word));
    found
        .map(|(_, relation)| relation)
        .ok_or_else(|| node.error(format!("unknown relation `{}`", node.value)))
}

fn read_signature_type(node: &Node) -> Result<SignatureType, InfoError> {
    let types = [
        ("rsa-sha256", SignatureType::SHA256_WITH_RSA),
        ("ecdsa-sha256", SignatureType::SHA256_WITH_ECDSA),
        ("ed25519", SignatureType::ED25519),
        ("sha256", SignatureType::DIGEST_SHA256),
    ];
    let found = types.into_iter().find(|(word, _)| is(&node.value, word));
    found
        .map(|(_, ty)| ty)
        .ok_or_else(|| node.error(format!("unknown type of signature `{}`", node.value)))
}
