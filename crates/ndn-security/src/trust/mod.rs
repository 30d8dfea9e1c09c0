//! Trust rules: the keys that may sign a name, and the trust anchors (ndn-cxx documentation, "Validator Configuration File
//! Format").
//!
//! A [`TrustPolicy`] is read from the INFO format of ndn-cxx, or from rules of one line each, and validates one packet at a
//! time. It fetches nothing: it returns the name of a missing certificate, and the caller repeats the call with it.

mod anchors;
mod climb;
mod config;
mod error;
mod name_regex;
mod pattern;
mod rules;
#[cfg(test)]
mod tests;
mod text;
#[cfg(test)]
mod text_tests;

use std::collections::VecDeque;
use std::sync::Arc;

use ndn_packet::{Data, Interest, KeyLocator, Name, NameRef, SignatureInfo, SignatureType};
use ndn_types::Timestamp;

use anchors::AnchorGroup;
pub use anchors::{AnchorChange, AnchorSource, LoadAnchors};
use climb::Climber;
pub use error::{KeyAction, TrustError};
use rules::{PacketSort, Rule, Signer, Subject};

use crate::{Certificate, DigestVerifier, Verifier};

/// Maximum number of certificates between a packet and its trust anchor.
pub const CHAIN_MAX: usize = 25;
/// Maximum number of rules in a file of rules of one line.
const MAX_RULES: usize = 10_000;
/// Maximum number of cached trusted certificates.
const VERIFIED_MAX: usize = 1024;
/// Time for which they are cached, seconds.
const VERIFIED_LIFETIME_S: i64 = 3600;

/// The key name that stands for DigestSha256 in rules.
pub const DIGEST_IDENTITY: &str = "/localhost/identity/digest-sha256";

/// Interest or Data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketKind {
    /// A signed Interest.
    Interest,
    /// A Data.
    Data,
}

/// The parts of a signed packet that trust depends on.
#[derive(Debug, Clone, Copy)]
pub struct SignedPacket<'a> {
    /// Interest or Data.
    pub kind: PacketKind,
    /// The name that rules apply to: without the components of the signature.
    pub name: NameRef<'a>,
    /// SignatureInfo.
    pub info: SignatureInfo<'a>,
    /// The signed portion, in pieces.
    pub signed: [&'a [u8]; 2],
    /// The signature.
    pub value: &'a [u8],
}

impl<'a> SignedPacket<'a> {
    /// A Data; `None` if its SignatureInfo is malformed.
    #[must_use]
    pub fn from_data(data: &Data<'a>) -> Option<Self> {
        Some(Self {
            kind: PacketKind::Data,
            name: data.name(),
            info: data.signature_info().ok()?,
            signed: [data.signed_portion(), &[]],
            value: data.signature_value(),
        })
    }

    /// A signed Interest (packet specification 0.3); `None` if it is not signed.
    #[must_use]
    pub fn from_interest(interest: &Interest<'a>) -> Option<Self> {
        Some(Self {
            kind: PacketKind::Interest,
            name: interest.name().parent(),
            info: interest.signature_info().ok()??,
            signed: interest.signed_portion()?,
            value: interest.signature_value()?,
        })
    }

    /// The name of the key, [`DIGEST_IDENTITY`] for a digest.
    ///
    /// # Errors
    /// If the locator is absent or not a name.
    pub fn key_name(&self) -> Result<Name, TrustError> {
        if self.info.signature_type == SignatureType::DIGEST_SHA256 {
            return Ok(Name::from_uri(DIGEST_IDENTITY).unwrap_or_default());
        }
        match self.info.key_locator {
            Some(KeyLocator::Name(name)) => Ok(name.to_name()),
            Some(KeyLocator::Digest(_)) | None => {
                Err(TrustError::KeyLocator { name: self.name.to_name() })
            }
        }
    }

    /// `key` is the name of the certificate that has the verifier's key.
    fn is_verified_by(&self, verifier: &dyn Verifier, key: NameRef<'_>) -> Result<(), TrustError> {
        verifier
            .verify(&self.info, &self.signed, self.value)
            .map_err(|_| TrustError::Signature { name: self.name.to_name(), key: key.to_name() })
    }
}

/// The result of the validation of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Validation {
    /// The packet is trusted.
    Accepted,
    /// The packet is not trusted, whatever certificates are fetched.
    Refused(TrustError),
    /// Certificates are missing.
    NeedsCertificates(Search),
}

/// An unfinished search for a chain of certificates from a packet to a trust anchor.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Search {
    /// Prefixes of the names of certificates that may continue a chain, the ends of the chains first. Certificates of these
    /// names may be among the fetched ones: another one can lead to an anchor.
    pub names: Vec<Name>,
    /// Positions of the fetched certificates whose keys signed the packet or another one of these.
    pub followed: Vec<usize>,
    /// Why a fetched certificate does not continue a chain.
    pub refusal: Option<TrustError>,
}

impl Search {
    /// The reason why the packet is not trusted, if no further certificate can be had.
    #[must_use]
    pub fn into_error(self, name: NameRef<'_>) -> TrustError {
        let certificate = self.names.into_iter().next().unwrap_or_default();
        self.refusal.unwrap_or(TrustError::Loop { name: name.to_name(), certificate })
    }
}

/// Rules and trust anchors.
#[derive(Debug, Clone, Default)]
pub struct TrustPolicy {
    accepts_all: bool,
    interest_rules: Vec<Rule>,
    data_rules: Vec<Rule>,
    groups: Vec<AnchorGroup>,
    /// Whether rules for Interests are about the prefixes of routes, not about the names of commands.
    has_routes: bool,
    /// Whether the validity periods of anchors are checked.
    anchors_expire: bool,
    /// Trusted certificates below the anchors.
    verified: VecDeque<Verified>,
    /// Number of changes of the anchors.
    anchor_changes: u64,
}

/// A trusted certificate.
#[derive(Debug, Clone)]
struct Verified {
    certificate: Arc<Certificate>,
    /// The last second, since 1970, at which its whole chain is valid.
    until_unix_s: i64,
}

impl Verified {
    fn is_good_at(&self, unix_s: i64) -> bool {
        unix_s <= self.until_unix_s && self.certificate.validity().contains(unix_s)
    }
}

/// The result of [`TrustPolicy::judge`].
#[derive(Debug, Clone)]
pub struct Judgement {
    /// The result for the packet.
    pub validation: Validation,
    /// Certificates that were found to be trusted.
    learned: Vec<Verified>,
    unix_s: i64,
    /// The generation of the anchors at that time.
    anchor_changes: u64,
}

impl Judgement {
    /// Whether there are trusted certificates that the policy has not cached.
    #[must_use]
    pub fn has_learned(&self) -> bool {
        !self.learned.is_empty()
    }
}

impl TrustPolicy {
    /// Trusts every packet.
    #[must_use]
    pub fn accept_all() -> Self {
        Self { accepts_all: true, ..Self::default() }
    }

    /// Trusts the packets that one of these certificates signed, with any name.
    #[must_use]
    pub fn signed_by(anchors: Vec<Arc<Certificate>>) -> Self {
        let rules = vec![Rule::any_key()];
        let groups = vec![AnchorGroup::fixed(anchors)];
        Self { interest_rules: rules.clone(), data_rules: rules, groups, ..Self::default() }
    }

    /// Whether its rules for Interests are about the prefixes of routes (`route`): these take the place of
    /// [`SignedPacket::name`].
    #[must_use]
    pub fn has_routes(&self) -> bool {
        self.has_routes
    }

    /// Whether every packet is trusted.
    #[must_use]
    pub fn accepts_all(&self) -> bool {
        self.accepts_all
    }

    /// Enables the check of the validity periods of anchors. Otherwise anchors are trusted as long as they are configured, as
    /// in NFD.
    #[must_use]
    pub fn with_anchors_that_expire(mut self) -> Self {
        self.anchors_expire = true;
        self
    }

    /// The trust anchors.
    pub fn anchors(&self) -> impl Iterator<Item = &Arc<Certificate>> {
        self.groups.iter().flat_map(AnchorGroup::anchors)
    }

    /// The time of the next call of [`refresh_anchors`](Self::refresh_anchors); `None` if no anchor is refreshed.
    #[must_use]
    pub fn next_refresh(&self) -> Option<Timestamp> {
        self.groups.iter().filter_map(AnchorGroup::next_refresh).min()
    }

    /// Reads the anchors whose refresh is due; the first call starts the periods. Certificates that depend on removed anchors
    /// are no longer trusted.
    pub fn refresh_anchors(&mut self, now: Timestamp, load: LoadAnchors<'_>) -> Vec<AnchorChange> {
        let changes = self.groups.iter_mut().filter_map(|group| group.refresh(now, load));
        let changes: Vec<AnchorChange> = changes.collect();
        if changes.iter().any(|change| matches!(change, AnchorChange::Changed { .. })) {
            self.verified.clear();
            self.anchor_changes += 1;
        }
        changes
    }

    /// Checks whether the refreshed anchors can be read; changes nothing.
    ///
    /// # Errors
    /// The reason why some cannot be read.
    pub fn check_anchors(&self, load: LoadAnchors<'_>) -> Result<(), String> {
        self.groups.iter().try_for_each(|group| group.check(load))
    }

    /// Validates a packet, and caches the certificates that are found to be trusted. `fetched` are the certificates that
    /// previous calls required, in any order; `unix_s` is the time in seconds since 1970.
    pub fn validate(
        &mut self,
        packet: &SignedPacket<'_>,
        fetched: &[Arc<Certificate>],
        unix_s: i64,
    ) -> Validation {
        let judgement = self.judge(packet, fetched, unix_s);
        let validation = judgement.validation.clone();
        self.learn(judgement);
        validation
    }

    /// As [`Self::validate`], without caching, which [`Self::learn`] does: several threads can validate packets by the same
    /// policy.
    #[must_use]
    pub fn judge(
        &self,
        packet: &SignedPacket<'_>,
        fetched: &[Arc<Certificate>],
        unix_s: i64,
    ) -> Judgement {
        let end = if self.accepts_all {
            Ok(Climbed::Good(Vec::new()))
        } else {
            self.climb(packet, fetched, unix_s)
        };
        let (validation, learned) = match end {
            Ok(Climbed::Good(learned)) => (Validation::Accepted, learned),
            Ok(Climbed::Missing(search)) => (Validation::NeedsCertificates(search), Vec::new()),
            Err(error) => (Validation::Refused(error), Vec::new()),
        };
        Judgement { validation, learned, unix_s, anchor_changes: self.anchor_changes }
    }

    /// Caches the trusted certificates of a result, unless the anchors have changed since.
    pub fn learn(&mut self, judgement: Judgement) {
        let Judgement { learned, unix_s, anchor_changes, .. } = judgement;
        if learned.is_empty() || anchor_changes != self.anchor_changes {
            return;
        }
        self.verified.retain(|verified| verified.is_good_at(unix_s));
        for verified in learned {
            // Another thread may have cached it.
            if self.is_verified(&verified.certificate) {
                continue;
            }
            if self.verified.len() == VERIFIED_MAX {
                self.verified.pop_front();
            }
            self.verified.push_back(verified);
        }
    }

    fn climb(
        &self,
        packet: &SignedPacket<'_>,
        fetched: &[Arc<Certificate>],
        unix_s: i64,
    ) -> Result<Climbed, TrustError> {
        if packet.info.signature_type == SignatureType::DIGEST_SHA256 {
            let key = packet.key_name()?;
            self.check_rules(packet, Signer::of_locator(key.as_ref()), PacketSort::Other)?;
            packet.is_verified_by(&DigestVerifier, key.as_ref())?;
            return Ok(Climbed::Good(Vec::new()));
        }
        let mut climber = Climber::new(self, fetched, unix_s, packet.name);
        if !climber.climb(packet, PacketSort::Other)? {
            return Ok(Climbed::Missing(climber.search));
        }
        // A certificate is trusted no longer than its issuer.
        let mut until_unix_s = climber.until_unix_s.min(unix_s + VERIFIED_LIFETIME_S - 1);
        let mut learned = Vec::with_capacity(climber.chain.len());
        for certificate in climber.chain.into_iter().rev() {
            let not_after = certificate.validity().not_after_unix_s().unwrap_or(unix_s);
            until_unix_s = until_unix_s.min(not_after);
            learned.push(Verified { certificate, until_unix_s });
        }
        Ok(Climbed::Good(learned))
    }

    fn check_rules(
        &self,
        packet: &SignedPacket<'_>,
        signer: Signer<'_>,
        sort: PacketSort,
    ) -> Result<(), TrustError> {
        let rules = match packet.kind {
            PacketKind::Interest => &self.interest_rules,
            PacketKind::Data => &self.data_rules,
        };
        let subject = Subject { name: packet.name, sort };
        let rule = rules.iter().find(|rule| rule.matches(subject)).ok_or_else(|| {
            TrustError::NoRule { name: packet.name.to_name(), known: list(rules) }
        })?;
        if rule.allows(packet.info.signature_type, subject, signer) {
            return Ok(());
        }
        Err(TrustError::NotAllowed {
            rule: rule.id.clone(),
            name: packet.name.to_name(),
            key: signer.locator.to_name(),
            action: match packet.kind {
                PacketKind::Interest if self.has_routes => KeyAction::Register,
                PacketKind::Interest | PacketKind::Data => KeyAction::Sign,
            },
            requested: rule.describe(subject),
        })
    }

    /// Certificates that need no further proof, each with the last second at which that is so.
    fn trusted(&self, unix_s: i64) -> impl Iterator<Item = (&Arc<Certificate>, i64)> {
        let until = |anchor: &Certificate| {
            let not_after = anchor.validity().not_after_unix_s();
            not_after.filter(|_| self.anchors_expire).unwrap_or(i64::MAX)
        };
        let anchors = self.anchors().map(move |anchor| (anchor, until(anchor)));
        let verified = self.verified.iter().filter(move |verified| verified.is_good_at(unix_s));
        anchors.chain(verified.map(|verified| (&verified.certificate, verified.until_unix_s)))
    }

    /// Whether a packet was trusted by this certificate a short while ago.
    #[must_use]
    pub fn is_verified(&self, certificate: &Arc<Certificate>) -> bool {
        self.verified.iter().any(|verified| Arc::ptr_eq(&verified.certificate, certificate))
    }
}

/// Where the way from a packet ends.
enum Climbed {
    /// At an anchor, by way of these certificates.
    Good(Vec<Verified>),
    /// At certificates that are not there.
    Missing(Search),
}

/// The rules that there are, as far as there is room for them.
fn list(rules: &[Rule]) -> String {
    const SHOWN_MAX: usize = 5;
    let shown: Vec<_> = rules.iter().take(SHOWN_MAX).map(|rule| format!("`{}`", rule.id)).collect();
    match rules.len() {
        0 => "there are none".to_owned(),
        count if count > SHOWN_MAX => format!("the first of {count} are {}", shown.join(", ")),
        _ => format!("there are {}", shown.join(", ")),
    }
}
