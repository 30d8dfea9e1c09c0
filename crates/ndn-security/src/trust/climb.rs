//! The search for a chain of certificates from a packet to a trust anchor.

use std::sync::Arc;

use ndn_packet::{Data, NameRef, SignatureType};

use super::rules::{PacketSort, Signer};
use super::{CHAIN_MAX, Search, SignedPacket, TrustError, TrustPolicy};
use crate::Certificate;
use crate::certificate::KEY;

/// Searches a chain through the available certificates. A certificate of any name can be forged: one that leads to no anchor
/// does not hide another one that does.
pub(super) struct Climber<'p> {
    policy: &'p TrustPolicy,
    fetched: &'p [Arc<Certificate>],
    unix_s: i64,
    /// Name of the packet.
    subject: NameRef<'p>,
    /// Positions of certificates that were followed; their issuers do not depend on the packet.
    visited: Vec<usize>,
    /// The chain from the packet on.
    pub(super) chain: Vec<Arc<Certificate>>,
    /// The end of validity of the trusted end of the chain.
    pub(super) until_unix_s: i64,
    /// The missing certificates, if the packet is not trusted.
    pub(super) search: Search,
}

/// Why a certificate does not lead to an anchor.
enum Fault {
    /// Another certificate of the key may.
    Certificate(TrustError),
    /// The certificate is genuine, and its key did not sign the packet: no other certificate does.
    Packet(TrustError),
}

impl From<TrustError> for Fault {
    fn from(error: TrustError) -> Self {
        Self::Certificate(error)
    }
}

impl<'p> Climber<'p> {
    pub(super) fn new(
        policy: &'p TrustPolicy,
        fetched: &'p [Arc<Certificate>],
        unix_s: i64,
        subject: NameRef<'p>,
    ) -> Self {
        Self {
            policy,
            fetched,
            unix_s,
            subject,
            visited: Vec::new(),
            chain: Vec::new(),
            until_unix_s: i64::MAX,
            search: Search::default(),
        }
    }

    /// Whether the packet is trusted; if it is not, `search` has what is missing.
    ///
    /// # Errors
    /// The reason why no certificate can make it trusted.
    pub(super) fn climb(
        &mut self,
        packet: &SignedPacket<'_>,
        sort: PacketSort,
    ) -> Result<bool, TrustError> {
        if packet.info.signature_type == SignatureType::DIGEST_SHA256 {
            return Err(TrustError::KeyLocator { name: packet.name.to_name() });
        }
        let key = packet.key_name()?;
        self.policy.check_rules(packet, Signer::of_locator(key.as_ref()), sort)?;
        let (mut refusal, mut leads_on) = (None, false);
        let policy = self.policy;
        let trusted = policy.trusted(self.unix_s);
        for (trusted, until_unix_s) in trusted.filter(|(one, _)| is_of_key(one, key.as_ref())) {
            match self.check_trusted(packet, key.as_ref(), sort, trusted) {
                Ok(()) => {
                    self.until_unix_s = until_unix_s;
                    return Ok(true);
                }
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
        let fetched = self.fetched.iter().enumerate();
        let of_key = fetched.filter(|(_, one)| is_of_key(one, key.as_ref()));
        let is_valid = |one: &Certificate| one.validity().contains(self.unix_s);
        let (valid, other): (Vec<_>, Vec<_>) = of_key.partition(|(_, one)| is_valid(one));
        for (position, certificate) in valid.into_iter().chain(other) {
            if self.visited.contains(&position) {
                continue;
            }
            match self.follow(packet, key.as_ref(), sort, (position, certificate)) {
                Ok(true) => return Ok(true),
                Ok(false) => leads_on = true,
                Err(Fault::Certificate(error)) => {
                    self.search.refusal.get_or_insert(error);
                }
                Err(Fault::Packet(error)) => return Err(error),
            }
        }
        match refusal {
            Some(error) if !leads_on => Err(error),
            _ => {
                if !self.search.names.contains(&key) {
                    self.search.names.push(key);
                }
                Ok(false)
            }
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
        (position, certificate): (usize, &Arc<Certificate>),
    ) -> Result<bool, Fault> {
        // A regular expression cannot determine which of several `KEY` components ends the identity.
        if certificate.identity().components().any(|component| component == KEY) {
            return Err(TrustError::Identity { name: certificate.name().to_name() }.into());
        }
        if !certificate.validity().contains(self.unix_s) {
            return Err(TrustError::expired(certificate, self.unix_s).into());
        }
        self.policy.check_rules(packet, Signer::of_certificate(key, certificate), sort)?;
        let data = Data::parse(certificate.wire()).ok();
        let link = data.as_ref().and_then(SignedPacket::from_data);
        let no_locator = || TrustError::KeyLocator { name: certificate.name().to_name() };
        let link = link.ok_or_else(no_locator)?;
        if let Err(error) = packet.is_verified_by(certificate.public_key(), certificate.name()) {
            let mut issuers = Climber::new(self.policy, &[], self.unix_s, link.name);
            return Err(match issuers.climb(&link, PacketSort::Certificate) {
                Ok(true) => Fault::Packet(error),
                Ok(false) | Err(_) => Fault::Certificate(error),
            });
        }
        if self.chain.len() == CHAIN_MAX {
            return Err(TrustError::TooLong { name: self.subject.to_name() }.into());
        }
        self.visited.push(position);
        self.chain.push(Arc::clone(certificate));
        let end = self.climb(&link, PacketSort::Certificate);
        if !matches!(end, Ok(true)) {
            self.chain.pop();
        }
        if matches!(end, Ok(false)) {
            self.search.followed.push(position);
        }
        Ok(end?)
    }
}

/// Whether a locator is the name of the certificate's key, or a longer prefix of the certificate's name.
fn is_of_key(certificate: &Certificate, locator: NameRef<'_>) -> bool {
    locator.len() >= certificate.key_name().len() && certificate.name().starts_with(locator)
}
