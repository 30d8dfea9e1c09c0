//! Errors; each names what failed.

use thiserror::Error;

use crate::der::DerError;

/// Why a key or a certificate file could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The text is not base64 (whitespace is ignored).
    #[error("{what} is not valid base64")]
    Base64 {
        /// What was being decoded.
        what: &'static str,
    },
    /// A PEM armour is missing, broken, or of another kind.
    #[error("no PEM block of a private key was found")]
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
        /// What kind of algorithm it is.
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
    /// A SafeBag is malformed.
    #[error("the SafeBag is malformed: {0}")]
    SafeBag(&'static str),
    /// The SafeBag's private key does not belong to its certificate.
    #[error("the private key in the SafeBag does not belong to its certificate")]
    KeyMismatch,
    /// An operation of the cryptographic library failed.
    #[error("{0} failed in the cryptographic library")]
    Crypto(&'static str),
    /// A key name without `/KEY/<keyid>` at its end.
    #[error("{0} is not a key name: it must end in /KEY/<key-id>")]
    NotAKeyName(String),
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
}

/// Why a signature is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The packet has no SignatureInfo or no SignatureValue.
    #[error("the packet is not signed")]
    NotSigned,
    /// The Interest's ParametersSha256DigestComponent is absent.
    #[error("the Interest has parameters but no ParametersSha256Digest component")]
    ParametersDigestMissing,
    /// The Interest's ParametersSha256DigestComponent does not match its parameters.
    #[error("the Interest's ParametersSha256Digest component does not match its parameters")]
    ParametersDigestMismatch,
}
