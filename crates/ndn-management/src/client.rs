//! The other side of the protocol: names and Interests of commands and datasets.

use ndn_packet::{EncodeError, InterestBuilder, Name, SignatureInfo, SignatureType};

use crate::ControlParameters;
use crate::command::{TopPrefix, Verb};
use crate::sign::digest_signature;

/// Makes command Interests for a forwarder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandBuilder {
    prefix: Name,
    lifetime_ms: u64,
}

impl Default for CommandBuilder {
    fn default() -> Self {
        Self::new(TopPrefix::Localhost.to_name())
    }
}

impl CommandBuilder {
    /// Default time-out of a command, milliseconds.
    pub const LIFETIME_MS_DEFAULT: u64 = 10_000;

    /// Commands under `prefix`, usually `/localhost/nfd`.
    #[must_use]
    pub const fn new(prefix: Name) -> Self {
        Self { prefix, lifetime_ms: Self::LIFETIME_MS_DEFAULT }
    }

    /// Sets the lifetime of the Interests.
    #[must_use]
    pub const fn lifetime_ms(mut self, lifetime_ms: u64) -> Self {
        self.lifetime_ms = lifetime_ms;
        self
    }

    /// The name of a command without its signature.
    #[must_use]
    pub fn name(&self, verb: Verb, parameters: &ControlParameters) -> Name {
        let mut name = self.prefix.clone();
        name.push_generic(verb.module().as_str());
        name.push_generic(verb.as_str());
        name.push_generic(parameters.to_vec());
        name
    }

    /// A signed Interest (packet specification 0.3). `sign` works as for
    /// [`InterestBuilder::write_signed`]; `info` should hold a SignatureTime and a SignatureNonce,
    /// since forwarders refuse repeated commands.
    ///
    /// # Errors
    /// As [`InterestBuilder::write_signed`].
    pub fn signed_interest(
        &self,
        verb: Verb,
        parameters: &ControlParameters,
        nonce: u32,
        info: &SignatureInfo<'_>,
        signature_len_max: usize,
        sign: impl FnOnce(&[&[u8]], &mut [u8]) -> Option<usize>,
    ) -> Result<Vec<u8>, EncodeError> {
        let name = self.name(verb, parameters);
        InterestBuilder::new(&name)
            .must_be_fresh(true)
            .nonce(nonce)
            .lifetime_ms(self.lifetime_ms)
            .to_vec_signed(info, signature_len_max, sign, ndn_security::sha256)
    }

    /// `rib/announce` with a prefix announcement, as a signed Interest. `sign` and `info` are as
    /// for [`CommandBuilder::signed_interest`].
    ///
    /// # Errors
    /// As [`InterestBuilder::write_signed`].
    pub fn announcement(
        &self,
        announcement: &[u8],
        nonce: u32,
        info: &SignatureInfo<'_>,
        signature_len_max: usize,
        sign: impl FnOnce(&[&[u8]], &mut [u8]) -> Option<usize>,
    ) -> Result<Vec<u8>, EncodeError> {
        let mut name = self.prefix.clone();
        name.push_generic(Verb::RibAnnounce.module().as_str());
        name.push_generic(Verb::RibAnnounce.as_str());
        InterestBuilder::new(&name)
            .must_be_fresh(true)
            .nonce(nonce)
            .lifetime_ms(self.lifetime_ms)
            .parameters(announcement)
            .to_vec_signed(info, signature_len_max, sign, ndn_security::sha256)
    }

    /// A command signed with DigestSha256, which forwarders accept over local faces by default.
    /// `nonce` is random, `unix_ms` is the wall clock.
    ///
    /// # Errors
    /// As [`InterestBuilder::write_signed`].
    pub fn digest_signed_interest(
        &self,
        verb: Verb,
        parameters: &ControlParameters,
        nonce: u64,
        unix_ms: u64,
    ) -> Result<Vec<u8>, EncodeError> {
        let nonce_bytes = nonce.to_be_bytes();
        let (info, packet_nonce) = digest_info(&nonce_bytes, unix_ms);
        let length = ndn_security::SHA256_LEN;
        self.signed_interest(verb, parameters, packet_nonce, &info, length, digest_signature)
    }

    /// `rib/announce` with a prefix announcement, signed as by [`Self::digest_signed_interest`].
    ///
    /// # Errors
    /// As [`InterestBuilder::write_signed`].
    pub fn digest_signed_announcement(
        &self,
        announcement: &[u8],
        nonce: u64,
        unix_ms: u64,
    ) -> Result<Vec<u8>, EncodeError> {
        let nonce_bytes = nonce.to_be_bytes();
        let (info, packet_nonce) = digest_info(&nonce_bytes, unix_ms);
        let length = ndn_security::SHA256_LEN;
        self.announcement(announcement, packet_nonce, &info, length, digest_signature)
    }
}

/// The signature information of a command with a digest, and the Nonce of its Interest.
fn digest_info(nonce: &[u8; 8], unix_ms: u64) -> (SignatureInfo<'_>, u32) {
    let [a, b, c, d, ..] = *nonce;
    let mut info = SignatureInfo::new(SignatureType::DIGEST_SHA256);
    info.nonce = Some(nonce);
    info.time_ms = Some(unix_ms);
    (info, u32::from_be_bytes([a, b, c, d]))
}

#[cfg(test)]
mod tests;
