//! From a packet to a trust anchor, certificate by certificate.

use std::sync::Arc;

use ndn_packet::{Data, Name, NameRef, SignatureType};

use super::rules::{PacketSort, Signer};
use super::{CHAIN_MAX, SignedPacket, TrustError, TrustPolicy};
use crate::Certificate;
use crate::certificate::KEY;

/// Looks for a way through the certificates that there are. Anybody can make a certificate of any
/// name: one that leads nowhere does not hide another one that leads to an anchor.
pub(super) struct Climber<'p> {
    pub(super) policy: &'p TrustPolicy,
    pub(super) fetched: &'p [Arc<Certificate>],
    pub(super) unix_s: i64,
    /// Name of the packet that all is about.
    pub(super) subject: NameRef<'p>,
    /// Those that were followed: where one leads does not depend on what it is to vouch for.
    followed: Vec<*const Certificate>,
    /// Certificates from the packet on; once an anchor is reached, those that are good.
    pub(super) chain: Vec<Arc<Certificate>>,
    /// How long what the chain ends at needs no further proof.
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

    /// `None`: the packet is good; otherwise the name of a certificate that is missing.
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

    /// Whether a certificate that needs no further proof vouches for the packet.
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

    /// On from a certificate that has the key which the packet names.
    fn follow(
        &mut self,
        packet: &SignedPacket<'_>,
        key: NameRef<'_>,
        sort: PacketSort,
        certificate: &Arc<Certificate>,
    ) -> Result<Option<Name>, TrustError> {
        // Regular expressions cannot decide which of several `KEY` components ends the identity.
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

/// Whether a locator is the name of the certificate's key, or that and more of the certificate's name.
fn is_of_key(certificate: &Certificate, locator: NameRef<'_>) -> bool {
    locator.len() >= certificate.key_name().len() && certificate.name().starts_with(locator)
}
