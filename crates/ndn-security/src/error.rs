//! Errors; each names what failed.

use ndn_packet::{DecodeError, EncodeError, SignatureType};
use thiserror::Error;

use crate::der::DerError;

/// Why a key or a certificate file could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The text is not base64 (whitespace is ignored).
    #[error("{what} is not valid base64")]
    Base64 {
        /// The structure being decoded.
        what: &'static str,
    },
    /// The text has nothing but white space.
    #[error("it holds no key")]
    Empty,
    /// A PEM armour is missing, broken, or of another kind.
    #[error("no PEM block of such a key was found")]
    Pem,
    /// A DER structure is malformed.
    #[error("{what} is malformed: {source}")]
    Der {
        /// Structure that was being decoded.
        what: &'static str,
        /// Why it was refused.
        source: DerError,
    },
    /// An algorithm or parameter that this crate does not implement.
    #[error("{what} uses an unsupported {kind} (object identifier {oid})")]
    UnsupportedAlgorithm {
        /// Structure that names the algorithm.
        what: &'static str,
        /// The kind of algorithm.
        kind: &'static str,
        /// Its object identifier in dotted form.
        oid: String,
    },
    /// The cryptographic library refuses the key (size, curve, consistency).
    #[error("{what} was rejected: {reason}")]
    Rejected {
        /// Key that was refused.
        what: &'static str,
        /// The library's reason.
        reason: String,
    },
    /// The key is encrypted and needs a passphrase.
    #[error("the private key is encrypted: a passphrase is needed")]
    PassphraseNeeded,
    /// Decryption failed: most probably the passphrase is wrong.
    #[error("the private key cannot be decrypted: wrong passphrase or damaged file")]
    Decryption,
    /// The SafeBag's private key does not belong to its certificate.
    #[error("the private key in the SafeBag does not belong to its certificate")]
    KeyMismatch,
    /// An operation of the cryptographic library failed.
    #[error("{0} failed in the cryptographic library")]
    Crypto(&'static str),
}

impl KeyError {
    pub(crate) fn der(what: &'static str) -> impl Fn(DerError) -> Self {
        move |source| Self::Der { what, source }
    }
}

/// Why a packet could not be signed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SignError {
    /// The output buffer is shorter than the signature.
    #[error("a signature of {needed} bytes does not fit the buffer of {available} bytes")]
    BufferTooSmall {
        /// Bytes that the signature takes.
        needed: usize,
        /// Bytes that were offered.
        available: usize,
    },
    /// The signing operation of the cryptographic library failed.
    #[error("signing with {0} failed in the cryptographic library")]
    Crypto(&'static str),
    /// The packet could not be encoded.
    #[error("the packet cannot be encoded: {0}")]
    Encode(#[source] EncodeError),
}

/// Why a signature is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The packet has no SignatureInfo or no SignatureValue.
    #[error("the packet is not signed")]
    NotSigned,
    /// A signature element cannot be read.
    #[error("the signature elements of the packet are malformed: {0}")]
    Malformed(#[source] DecodeError),
    /// The packet's SignatureType is not the one this verifier checks.
    #[error("the packet is signed with {found}, {expected} is expected")]
    WrongType {
        /// Type that the verifier checks.
        expected: SignatureType,
        /// Type in the packet.
        found: SignatureType,
    },
    /// The signature does not match the packet and the key.
    #[error("the {0} does not match the packet")]
    Mismatch(SignatureType),
    /// Nor could it: the packet says that another key has signed it.
    #[error("it is signed with another key, {0}")]
    OtherKey(String),
    /// The Interest has ApplicationParameters or a ParametersSha256Digest component, but not both.
    #[error(
        "the Interest has ApplicationParameters or a ParametersSha256Digest component, not both"
    )]
    ParametersDigestUnpaired,
    /// The Interest's ParametersSha256Digest component does not match its parameters.
    #[error("the ParametersSha256Digest component of the Interest does not match its parameters")]
    ParametersDigestMismatch,
    /// The packet is not the one that a manifest lists in its place.
    #[error("the packet is not the one that the manifest lists")]
    NotListed,
    /// Trust rules refuse it.
    #[error(transparent)]
    Untrusted(Box<crate::trust::TrustError>),
}

/// Why a packet is not a certificate, or a certificate could not be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// The packet is malformed.
    #[error("the certificate is not a valid Data packet: {0}")]
    Packet(#[source] DecodeError),
    /// The SafeBag around the certificate is malformed.
    #[error("the SafeBag is malformed: {0}")]
    SafeBag(#[source] DecodeError),
    /// The name has no `KEY` component where the format requires it.
    #[error(
        "{0} is not the name of a key (/<identity>/KEY/<key-id>) or of its certificate (…/<issuer-id>/<version>)"
    )]
    Name(String),
    /// ContentType is not Key.
    #[error("the ContentType of the certificate is {0}, not 2 (Key)")]
    ContentType(u64),
    /// There is no ValidityPeriod.
    #[error("the certificate has no ValidityPeriod")]
    NoValidityPeriod,
    /// The validity that was asked for ends before it begins, or lies outside the years 0 to 9999.
    #[error("the validity period ends before it begins, or lies outside the years 0 to 9999")]
    InvalidValidityPeriod,
    /// The key, or the text around it, cannot be read.
    #[error(transparent)]
    Key(KeyError),
    /// The certificate could not be signed.
    #[error(transparent)]
    Sign(#[from] SignError),
}
