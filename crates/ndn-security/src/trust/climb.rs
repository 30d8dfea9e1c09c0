//! The search for a chain of certificates from a packet to a trust anchor.

use std::sync::Arc;

use ndn_packet::{Data, Name, NameRef, SignatureType};

use super::rules::{PacketSort, Signer};
use super::{CHAIN_MAX, SignedPacket, TrustError, TrustPolicy};
use crate::Certificate;
use crate::certificate::KEY;

/// Searches a chain through the available certificates. A certificate of any name can be forged: one that leads to no anchor
/// does not hide another one that does.
pub(super) struct Climber<'p> {
    pub(super) policy: &'p TrustPolicy,
    pub(super) fetched: &'p [Arc<Certificate>],
    pub(super) unix_s: i64,
    /// Name of the packet.
    pub(super) subject: NameRef<'p>,
    /// Certificates that were followed; their issuers do not depend on the packet.
    followed: Vec<*const Certificate>,
    /// The chain from the packet on.
    pub(super) chain: Vec<Arc<Certificate>>,
    /// The end of validity of the trusted end of the chain.
    pub(super) until_unix_s: i64,
}

impl<'p> Climber<'p> {
    pub(super) fn new(
        policy: &'p TrustPolicy,
        fetched: &'p [Arc<Certificate>],
        unix_s: i64,
        subject: NameRef<'p>,
    ) -> Self {
        let (followed, chain) = (Vec::new(), Vec::new());
        Self { policy, fetched, unix_s, subject, followed, chain, until_unix_s: i64::MAX }
    }

    /// `None` if the packet is trusted; otherwise the name of a missing certificate.
    pub(super) fn climb(
        &mut self,
        packet: &SignedPacket<'_>,
        sort: PacketSort,
    ) -> Result<Option<Name>, TrustError> {
        if packet.info.signature_type == SignatureType::DIGEST_SHA256 {
            return Err(TrustError::KeyLocator { name: packet.name.to_name() });
        }
        let key = packet.key_name()?;
        self.policy.check_rules(packet, Signer::of_locator(key.as_ref()), sort)?;
        let (mut missing, mut refusal) = (None, None);
        let policy = self.policy;
        let trusted = policy.trusted(self.unix_s);
        for (trusted, until_unix_s) in trusted.filter(|(one, _)| is_of_key(one, key.as_ref())) {
            match self.check_trusted(packet, key.as_ref(), sort, trusted) {
                Ok(()) => {
                    self.until_unix_s = until_unix_s;
                    return Ok(None);
                }
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
        let fetched = self.fetched;
        let is_valid = |one: &Certificate| one.validity().contains(self.unix_s);
        let (valid, other): (Vec<_>, Vec<_>) = fetched
            .iter()
            .filter(|one| is_of_key(one, key.as_ref()))
            .partition(|one| is_valid(one));
        for certificate in valid.into_iter().chain(other) {
            if self.followed.contains(&Arc::as_ptr(certificate)) {
                continue;
            }
            match self.follow(packet, key.as_ref(), sort, certificate) {
                Ok(None) => return Ok(None),
                Ok(name) => missing = missing.or(name),
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
        match (missing, refusal) {
            (None, Some(error)) => Err(error),
            (missing, _) => Ok(Some(missing.unwrap_or(key))),
        }
    }

    /// Whether a trusted certificate signed the packet.
    fn check_trusted(
        &self,
        packet: &SignedPacket<'_>,
        key: NameRef<'_>,
        sort: PacketSort,
        trusted: &Certificate,
    ) -> Result<(), TrustError> {
        if self.policy.anchors_expire && !trusted.validity().contains(self.unix_s) {
            return Err(TrustError::expired(trusted, self.unix_s));
        }
        self.policy.check_rules(packet, Signer::of_certificate(key, trusted), sort)?;
        packet.is_verified_by(trusted.public_key(), trusted.name())
    }

    /// Continues from a certificate of the key that the packet names.
    fn follow(
        &mut self,
        packet: &SignedPacket<'_>,
        key: NameRef<'_>,
        sort: PacketSort,
        certificate: &Arc<Certificate>,
    ) -> Result<Option<Name>, TrustError> {
        // A regular expression cannot determine which of several `KEY` components ends the identity.
        if certificate.identity().components().any(|component| component == KEY) {
            return Err(TrustError::Identity { name: certificate.name().to_name() });
        }
        if !certificate.validity().contains(self.unix_s) {
            return Err(TrustError::expired(certificate, self.unix_s));
        }
        self.policy.check_rules(packet, Signer::of_certificate(key, certificate), sort)?;
        packet.is_verified_by(certificate.public_key(), certificate.name())?;
        if self.chain.len() == CHAIN_MAX {
            return Err(TrustError::TooLong { name: self.subject.to_name() });
        }
        let data = Data::parse(certificate.wire()).ok();
        let link = data.as_ref().and_then(SignedPacket::from_data);
        let no_locator = || TrustError::KeyLocator { name: certificate.name().to_name() };
        let link = link.ok_or_else(no_locator)?;
        self.followed.push(Arc::as_ptr(certificate));
        self.chain.push(Arc::clone(certificate));
        let end = self.climb(&link, PacketSort::Certificate);
        if !matches!(end, Ok(None)) {
            self.chain.pop();
        }
        end
    }
}

/// Whether a locator is the name of the certificate's key, or a longer prefix of the certificate's name.
fn is_of_key(certificate: &Certificate, locator: NameRef<'_>) -> bool {
    locator.len() >= certificate.key_name().len() && certificate.name().starts_with(locator)
}
