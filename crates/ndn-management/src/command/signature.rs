//! Signatures of commands in both formats.

use ndn_packet::tlv::{Reader, decode_number};
use ndn_packet::{DecodeError, Interest, KeyLocator, NameRef, SignatureInfo, types};

/// Trailing components of the older format: timestamp, nonce, SignatureInfo, SignatureValue.
const TRAILER_LEN: usize = 4;

/// The signature of a command, well-formed and not verified.
#[derive(Debug, Clone, Copy)]
pub enum CommandSignature<'a> {
    /// No signature.
    Absent,
    /// Signed Interest (packet specification 0.3).
    Interest {
        /// Type, key locator, time, nonce, sequence number.
        info: SignatureInfo<'a>,
        /// The signed portion, in pieces.
        signed: [&'a [u8]; 2],
        /// The signature.
        value: &'a [u8],
    },
    /// Command Interest of 2013: the last four name components.
    NameComponents {
        /// Milliseconds since the Unix epoch, by the signer's clock.
        timestamp_ms: u64,
        /// Type and key locator.
        info: SignatureInfo<'a>,
        /// The signed portion: the name components before the last one.
        signed: &'a [u8],
        /// The signature.
        value: &'a [u8],
    },
}

/// The reason why a signature is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// SignatureInfo or SignatureValue is malformed.
    #[error("{0}")]
    Malformed(#[from] DecodeError),
    /// One of InterestSignatureInfo and InterestSignatureValue without the other.
    #[error("SignatureInfo and SignatureValue go together")]
    Incomplete,
    /// The parameters digest in the name is not that of the parameters.
    #[error("the parameters digest does not match")]
    DigestMismatch,
    /// The timestamp or nonce component of the older format is no number.
    #[error("timestamp or nonce component is not a number")]
    InvalidTimestamp,
}

impl<'a> CommandSignature<'a> {
    /// Parses the signature of an Interest whose name has `front_len` components before it.
    pub(super) fn parse(
        interest: &Interest<'a>,
        front_len: usize,
        sha256: impl FnOnce(&[u8]) -> [u8; 32],
    ) -> Result<Self, SignatureError> {
        if !interest.parameters_digest_is_valid(sha256) {
            return Err(SignatureError::DigestMismatch);
        }
        match (interest.signature_info()?, interest.signature_value()) {
            (Some(info), Some(value)) => {
                let signed = interest.signed_portion().ok_or(SignatureError::Incomplete)?;
                Ok(Self::Interest { info, signed, value })
            }
            (None, None) if interest.name().len() >= front_len + TRAILER_LEN => {
                Self::from_components(interest.name())
            }
            (None, None) => Ok(Self::Absent),
            _ => Err(SignatureError::Incomplete),
        }
    }

    fn from_components(name: NameRef<'a>) -> Result<Self, SignatureError> {
        let front_len = name.len() - TRAILER_LEN;
        let mut trailer = name.suffix(front_len).components();
        let mut next = || trailer.next().map(|component| component.value()).unwrap_or_default();
        let (timestamp, nonce, info, value) = (next(), next(), next(), next());
        let (Some(timestamp_ms), Some(_nonce)) = (decode_number(timestamp), decode_number(nonce))
        else {
            return Err(SignatureError::InvalidTimestamp);
        };
        let info = Reader::new(info).read_only(types::SIGNATURE_INFO)?;
        let value = Reader::new(value).read_only(types::SIGNATURE_VALUE)?;
        Ok(Self::NameComponents {
            timestamp_ms,
            info: SignatureInfo::from_tlv(&info)?,
            signed: name.parent().value(),
            value: value.value(),
        })
    }

    /// SignatureInfo of either format.
    #[must_use]
    pub const fn info(&self) -> Option<&SignatureInfo<'a>> {
        match self {
            Self::Absent => None,
            Self::Interest { info, .. } | Self::NameComponents { info, .. } => Some(info),
        }
    }

    /// The time of the signature, by the signer's clock, milliseconds since the Unix epoch.
    #[must_use]
    pub const fn time_ms(&self) -> Option<u64> {
        match self {
            Self::Absent => None,
            Self::Interest { info, .. } => info.time_ms,
            Self::NameComponents { timestamp_ms, .. } => Some(*timestamp_ms),
        }
    }

    /// The name in the key locator.
    #[must_use]
    pub fn key_name(&self) -> Option<NameRef<'a>> {
        match self.info()?.key_locator? {
            KeyLocator::Name(name) => Some(name),
            KeyLocator::Digest(_) => None,
        }
    }

    /// The signer, for logs: the key name, or the kind of signature if it has no key.
    #[must_use]
    pub fn signer(&self) -> String {
        match (self.key_name(), self.info()) {
            (Some(name), _) => name.to_uri(),
            (None, Some(info)) => info.signature_type.to_string(),
            (None, None) => "nobody".to_owned(),
        }
    }
}
