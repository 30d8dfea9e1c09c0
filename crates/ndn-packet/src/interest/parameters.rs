//! What an Interest carries beyond its name and selectors: parameters, signature; and what answers it.

use crate::data::Data;
use crate::error::DecodeError;
use crate::interest::Interest;
use crate::signature::SignatureInfo;

/// How the ParametersSha256DigestComponent of an Interest name relates to its ApplicationParameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParametersDigest {
    /// Neither digest nor parameters.
    Absent,
    /// Only one of the two: the Interest is to be refused.
    Unpaired,
    /// Both; whether they match takes a hash to tell.
    Paired,
}

impl<'a> Interest<'a> {
    /// The value of ApplicationParameters.
    #[inline]
    #[must_use]
    pub fn parameters(&self) -> Option<&'a [u8]> {
        self.parameters.slice(self.wire())
    }

    /// What ParametersSha256Digest is computed over: ApplicationParameters and all that follows it.
    #[inline]
    #[must_use]
    pub fn parameters_portion(&self) -> Option<&'a [u8]> {
        self.parameters_portion.slice(self.wire())
    }

    /// Whether the name has a parameters digest and the packet has parameters.
    #[inline]
    #[must_use]
    pub const fn parameters_digest(&self) -> ParametersDigest {
        match (self.has_parameters_digest, self.parameters.is_some()) {
            (false, false) => ParametersDigest::Absent,
            (true, true) => ParametersDigest::Paired,
            _ => ParametersDigest::Unpaired,
        }
    }

    /// Checks the parameters digest in the name with the given SHA-256 function, which is called
    /// only when there is something to check.
    #[inline]
    pub fn parameters_digest_is_valid(&self, sha256: impl FnOnce(&[u8]) -> [u8; 32]) -> bool {
        match self.parameters_digest() {
            ParametersDigest::Absent => true,
            ParametersDigest::Unpaired => false,
            ParametersDigest::Paired => {
                match (self.name().parameters_digest(), self.parameters_portion()) {
                    (Some((_, digest)), Some(portion)) => *digest == sha256(portion),
                    _ => false,
                }
            }
        }
    }

    /// Whether InterestSignatureInfo and InterestSignatureValue are present.
    #[inline]
    #[must_use]
    pub const fn is_signed(&self) -> bool {
        self.signature_info.is_some() && self.signature_value.is_some()
    }

    /// InterestSignatureInfo.
    ///
    /// # Errors
    /// When its inside breaks the rules.
    pub fn signature_info(&self) -> Result<Option<SignatureInfo<'a>>, DecodeError> {
        match self.signature_info.reader(self.wire()) {
            Some(reader) => SignatureInfo::from_reader(reader).map(Some),
            None => Ok(None),
        }
    }

    /// The value of InterestSignatureValue.
    #[inline]
    #[must_use]
    pub fn signature_value(&self) -> Option<&'a [u8]> {
        self.signature_value.slice(self.wire())
    }

    /// What the signature covers, in order: the components in front of the parameters digest, and
    /// ApplicationParameters up to InterestSignatureValue.
    ///
    /// `None` unless signed, with parameters, and with the digest as the name's last component.
    #[must_use]
    pub fn signed_portion(&self) -> Option<[&'a [u8]; 2]> {
        if !self.is_signed() || !self.parameters.is_some() {
            return None;
        }
        let name = self.name();
        name.last()?.parameters_digest()?;
        let portion = self.parameters_portion.start as usize..self.signature_value_tlv as usize;
        Some([name.parent().value(), self.wire().get(portion)?])
    }

    /// Whether `data` answers this Interest by name (freshness aside). `sha256` is called only when
    /// the Interest names an implicit digest.
    pub fn matches(&self, data: &Data<'_>, sha256: impl FnOnce(&[u8]) -> [u8; 32]) -> bool {
        let (name, data_name) = (self.name(), data.name());
        if name.len() > data_name.len() {
            return match name.implicit_digest() {
                Some(digest) => name.parent() == data_name && *digest == sha256(data.wire()),
                None => false,
            };
        }
        if self.can_be_prefix { data_name.starts_with(name) } else { data_name == name }
    }
}
