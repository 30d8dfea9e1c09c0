//! A trust rule: the packets that it applies to, and the keys that it allows.

use ndn_packet::{Name, NameRef, SignatureType};

use super::DIGEST_IDENTITY;
use super::name_regex::NameRegex;
use super::pattern::{Bindings, NamePattern};
use crate::Certificate;
use crate::certificate::KEY;

/// Components from `KEY` on in the name of a certificate.
const KEY_SUFFIX_MAX: usize = 4;

/// A relation of two names.
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

/// The role of a packet: rules by patterns distinguish certificates from content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PacketSort {
    /// A certificate in the chain.
    Certificate,
    /// The packet at the start of the chain.
    Other,
}

/// A name that rules apply to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) name: NameRef<'a>,
    pub(super) sort: PacketSort,
}

impl<'a> Subject<'a> {
    /// The name that a pattern of this role is compared with: the identity of a certificate, or the name of content; `None` for
    /// packets of the other role.
    fn for_pattern(self, sort: PacketSort) -> Option<NameRef<'a>> {
        match (self.sort == sort, sort) {
            (false, _) => None,
            (true, PacketSort::Other) => Some(self.name),
            (true, PacketSort::Certificate) => {
                let length = self.name.len().checked_sub(KEY_SUFFIX_MAX)?;
                Some(self.name.prefix(length))
            }
        }
    }
}

/// The signer, as far as it is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signer<'a> {
    pub(super) locator: NameRef<'a>,
    identity: Option<NameRef<'a>>,
}

impl<'a> Signer<'a> {
    /// The key name that the packet claims, before its certificate is available.
    pub(super) fn of_locator(locator: NameRef<'a>) -> Self {
        Self { locator, identity: identity(locator) }
    }

    /// The name of the key, without the components of a certificate.
    fn key(&self) -> Option<NameRef<'a>> {
        let length = self.identity?.len() + 2;
        (length <= self.locator.len()).then(|| self.locator.prefix(length))
    }

    /// The identity of a certificate.
    pub(super) fn of_certificate(locator: NameRef<'a>, certificate: &'a Certificate) -> Self {
        Self { locator, identity: Some(certificate.identity()) }
    }
}

/// The names that a rule applies to.
#[derive(Debug, Clone)]
pub(super) enum Filter {
    Relation {
        name: Name,
        relation: Relation,
    },
    Regex(NameRegex),
    Pattern {
        names: NamePattern,
        sort: PacketSort,
        /// Number of variables in it.
        variables: usize,
    },
}

impl Filter {
    fn matches(&self, subject: Subject<'_>) -> bool {
        match self {
            Self::Relation { name: own, relation } => relation.holds(own.as_ref(), subject.name),
            Self::Regex(regex) => regex.matches(subject.name).is_some(),
            Self::Pattern { names, sort, variables } => subject
                .for_pattern(*sort)
                .is_some_and(|name| names.matches(name, &mut vec![None; *variables])),
        }
    }
}

/// The requirement on the name of the key.
#[derive(Debug, Clone)]
pub(super) enum KeyCheck {
    /// Any name.
    Any,
    /// The identity in it.
    Identity {
        name: Name,
        relation: Relation,
    },
    Regex(NameRegex),
    /// The names that the two expressions extract from the names of key and packet.
    Hyper {
        key: NameRegex,
        key_template: String,
        packet: NameRegex,
        packet_template: String,
        relation: Relation,
    },
    /// The identity in it matches a pattern, with the variables of the packet's name.
    Pattern {
        names: NamePattern,
        sort: PacketSort,
        signer: NamePattern,
        /// The pattern is of names of keys, not of identities.
        is_of_key: bool,
        /// Number of variables.
        variables: usize,
    },
}

impl KeyCheck {
    /// The identity of the issuer is a prefix of the packet's name.
    pub(super) fn hierarchical() -> Result<Self, String> {
        Ok(Self::Hyper {
            key: NameRegex::new("^(<>*)<KEY><>{1,3}$")?,
            key_template: "\\1".to_owned(),
            packet: NameRegex::new("^(<>*)$")?,
            packet_template: "\\1".to_owned(),
            relation: Relation::IsPrefixOf,
        })
    }

    fn allows<'a>(&self, subject: Subject<'a>, signer: Signer<'a>) -> bool {
        let (name, key) = (subject.name, signer.locator);
        match self {
            Self::Any => true,
            Self::Identity { name: own, relation } => {
                signer.identity.is_some_and(|identity| relation.holds(own.as_ref(), identity))
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
            Self::Pattern { names, sort, signer: pattern, is_of_key, variables } => {
                let of_signer = if *is_of_key { signer.key() } else { signer.identity };
                let (Some(name), Some(of_signer)) = (subject.for_pattern(*sort), of_signer) else {
                    return false;
                };
                let mut bindings: Bindings<'a> = vec![None; *variables];
                names.matches(name, &mut bindings) && pattern.matches(of_signer, &mut bindings)
            }
        }
    }

    /// The keys that it allows for a packet.
    fn describe(&self, subject: Subject<'_>) -> String {
        match self {
            Self::Any => "any key".to_owned(),
            Self::Identity { name, relation: Relation::Equal } => format!("a key of {name}"),
            Self::Identity { name, relation: Relation::IsPrefixOf } => {
                format!("a key of {name} or of an identity below")
            }
            Self::Identity { name, relation: Relation::IsStrictPrefixOf } => {
                format!("a key of an identity below {name}")
            }
            Self::Regex(regex) => format!("a key whose name matches `{}`", regex.text()),
            Self::Hyper { key, key_template, packet, packet_template, relation } => {
                let relation = match relation {
                    Relation::Equal => "is",
                    Relation::IsPrefixOf => "is a prefix of",
                    Relation::IsStrictPrefixOf => "is a prefix of, and shorter than,",
                };
                let taken = packet.matches(subject.name);
                let taken = taken.map_or_else(
                    || format!("`{packet_template}` in `{}`", packet.text()),
                    |taken| taken.expand(subject.name, packet_template).to_uri(),
                );
                let key = key.text();
                format!("a key whose `{key_template}` in `{key}` {relation} {taken}")
            }
            Self::Pattern { names, sort, signer, is_of_key, variables } => {
                let mut bindings: Bindings<'_> = vec![None; *variables];
                if let Some(name) = subject.for_pattern(*sort) {
                    names.matches(name, &mut bindings);
                }
                let kind = if *is_of_key { "the key" } else { "a key of" };
                format!("{kind} {}", signer.describe(&bindings))
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
    /// `None`: any type with a key. A digest has to be allowed explicitly.
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
    /// Without filters, the rule applies to every packet.
    pub(super) filters: Vec<Filter>,
    /// At least one of them has to accept.
    pub(super) checkers: Vec<Checker>,
}

impl Rule {
    pub(super) fn any_key() -> Self {
        let checker = Checker { signature_type: None, key: KeyCheck::Any };
        Self { id: "any key".to_owned(), filters: Vec::new(), checkers: vec![checker] }
    }

    pub(super) fn matches(&self, subject: Subject<'_>) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| filter.matches(subject))
    }

    pub(super) fn allows<'a>(
        &self,
        ty: SignatureType,
        subject: Subject<'a>,
        signer: Signer<'a>,
    ) -> bool {
        self.checkers.iter().any(|checker| {
            checker.signature_type.map_or_else(|| needs_key(ty), |requested| requested == ty)
                && checker.key.allows(subject, signer)
        })
    }

    /// The keys that its checkers allow for a packet.
    pub(super) fn describe(&self, subject: Subject<'_>) -> String {
        let checkers = self.checkers.iter().map(|checker| match checker.signature_type {
            Some(SignatureType::DIGEST_SHA256) => "a digest".to_owned(),
            Some(ty) => format!("{} with {ty}", checker.key.describe(subject)),
            None => checker.key.describe(subject),
        });
        checkers.collect::<Vec<_>>().join(", or ")
    }
}
