//! One rule: which packets it is about, and what it asks of their keys.

use ndn_packet::{Component, Name, NameRef, SignatureType};

use super::DIGEST_IDENTITY;
use super::name_regex::NameRegex;

/// `KEY`, which parts the name of an identity from that of its key.
const KEY: Component<'static> = Component::generic(b"KEY");
/// Components from `KEY` on in the name of a certificate.
const KEY_SUFFIX_MAX: usize = 4;

/// How two names are related.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    Equal,
    IsPrefixOf,
    IsStrictPrefixOf,
}

impl Relation {
    fn holds(self, a: NameRef<'_>, b: NameRef<'_>) -> bool {
        match self {
            Self::Equal => a == b,
            Self::IsPrefixOf => b.starts_with(a),
            Self::IsStrictPrefixOf => b.starts_with(a) && a.len() < b.len(),
        }
    }
}

/// Which names a rule is about.
#[derive(Debug, Clone)]
pub(super) enum Filter {
    Relation { name: Name, relation: Relation },
    Regex(NameRegex),
}

impl Filter {
    fn matches(&self, name: NameRef<'_>) -> bool {
        match self {
            Self::Relation { name: own, relation } => relation.holds(own.as_ref(), name),
            Self::Regex(regex) => regex.matches(name).is_some(),
        }
    }
}

/// What the name of the key has to be like.
#[derive(Debug, Clone)]
pub(super) enum KeyCheck {
    /// Anything.
    Any,
    /// The identity in it.
    Identity {
        name: Name,
        relation: Relation,
    },
    Regex(NameRegex),
    /// What the two expressions take out of the names of key and packet.
    Hyper {
        key: NameRegex,
        key_template: String,
        packet: NameRegex,
        packet_template: String,
        relation: Relation,
    },
}

impl KeyCheck {
    /// The issuer's name is a prefix of what it signs.
    pub(super) fn hierarchical() -> Result<Self, String> {
        Ok(Self::Hyper {
            key: NameRegex::new("^(<>*)<KEY><>{1,3}$")?,
            key_template: "\\1".to_owned(),
            packet: NameRegex::new("^(<>*)$")?,
            packet_template: "\\1".to_owned(),
            relation: Relation::IsPrefixOf,
        })
    }

    fn allows(&self, name: NameRef<'_>, key: NameRef<'_>) -> bool {
        match self {
            Self::Any => true,
            Self::Identity { name: own, relation } => {
                identity(key).is_some_and(|identity| relation.holds(own.as_ref(), identity))
            }
            Self::Regex(regex) => regex.matches(key).is_some(),
            Self::Hyper { key: key_regex, key_template, packet, packet_template, relation } => {
                let (Some(of_key), Some(of_packet)) =
                    (key_regex.matches(key), packet.matches(name))
                else {
                    return false;
                };
                let of_key = of_key.expand(key, key_template);
                let of_packet = of_packet.expand(name, packet_template);
                relation.holds(of_key.as_ref(), of_packet.as_ref())
            }
        }
    }
}

/// The identity in the name of a key or a certificate.
fn identity(key: NameRef<'_>) -> Option<NameRef<'_>> {
    if key.to_uri() == DIGEST_IDENTITY {
        return Some(key);
    }
    let first = key.len().saturating_sub(KEY_SUFFIX_MAX);
    let at = (first..key.len()).rev().find(|&index| key.component(index) == Some(KEY))?;
    Some(key.prefix(at))
}

#[derive(Debug, Clone)]
pub(super) struct Checker {
    /// `None`: of any type that takes a key. A digest, which anybody can compute, has to be asked
    /// for.
    pub(super) signature_type: Option<SignatureType>,
    pub(super) key: KeyCheck,
}

fn needs_key(ty: SignatureType) -> bool {
    ty != SignatureType::DIGEST_SHA256 && ty != SignatureType::NULL
}

/// One rule.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) id: String,
    /// Without any, the rule is about every packet.
    pub(super) filters: Vec<Filter>,
    /// One of them has to be content.
    pub(super) checkers: Vec<Checker>,
}

impl Rule {
    pub(super) fn any_key() -> Self {
        let checker = Checker { signature_type: None, key: KeyCheck::Any };
        Self { id: "any key".to_owned(), filters: Vec::new(), checkers: vec![checker] }
    }

    pub(super) fn matches(&self, name: NameRef<'_>) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| filter.matches(name))
    }

    pub(super) fn allows(&self, ty: SignatureType, name: NameRef<'_>, key: NameRef<'_>) -> bool {
        self.checkers.iter().any(|checker| {
            checker.signature_type.map_or_else(|| needs_key(ty), |wanted| wanted == ty)
                && checker.key.allows(name, key)
        })
    }
}
