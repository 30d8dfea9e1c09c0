//! Signing of Data and Interests.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::hmac;
use ndn_packet::{DataBuilder, InterestBuilder, KeyLocator, Name, SignatureInfo, SignatureType};
use zeroize::Zeroizing;

use crate::digest::{SHA256_LEN, Sha256Digest, sha256, sha256_parts};
use crate::private_key::{PrivateKey, copy_signature};
use crate::{KeyError, SignError, base64_text};

/// Signs with one key.
pub trait Signer: Send + Sync {
    /// SignatureType and KeyLocator to put into the packet.
    fn signature_info(&self) -> SignatureInfo<'_>;

    /// Upper bound of a signature's length in bytes.
    fn signature_len_max(&self) -> usize;

    /// Signs the concatenation of `parts` into the front of `out`, which has at least
    /// [`Signer::signature_len_max`] bytes; returns the signature's length.
    ///
    /// # Errors
    /// `BufferTooSmall` if `out` is shorter than the signature; `Crypto` if the library fails.
    fn sign(&self, parts: &[&[u8]], out: &mut [u8]) -> Result<usize, SignError>;

    /// Whether signing is too slow (tens of microseconds) for the thread that serves a connection.
    fn is_slow(&self) -> bool {
        false
    }
}

/// SHA-256 as a signature: integrity only.
#[derive(Debug, Clone, Copy, Default)]
pub struct DigestSigner;

impl Signer for DigestSigner {
    fn signature_info(&self) -> SignatureInfo<'_> {
        SignatureInfo::new(SignatureType::DIGEST_SHA256)
    }

    fn signature_len_max(&self) -> usize {
        SHA256_LEN
    }

    fn sign(&self, parts: &[&[u8]], out: &mut [u8]) -> Result<usize, SignError> {
        copy_signature(&sha256_parts(parts), out)
    }
}

/// SignatureNull: no signature; only where the specification of an application requires it.
#[derive(Debug, Clone, Copy, Default)]
pub struct NullSigner;

impl Signer for NullSigner {
    fn signature_info(&self) -> SignatureInfo<'_> {
        SignatureInfo::new(SignatureType::NULL)
    }

    fn signature_len_max(&self) -> usize {
        0
    }

    fn sign(&self, _parts: &[&[u8]], _out: &mut [u8]) -> Result<usize, SignError> {
        Ok(0)
    }
}

/// An owned KeyLocator.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Locator {
    /// No KeyLocator.
    #[default]
    None,
    /// Name of a key or of its certificate.
    Name(Name),
    /// SHA-256 of the public key.
    Digest(Sha256Digest),
}

impl Locator {
    /// As an element of SignatureInfo.
    #[must_use]
    pub fn as_key_locator(&self) -> Option<KeyLocator<'_>> {
        match self {
            Self::None => None,
            Self::Name(name) => Some(KeyLocator::Name(name.as_ref())),
            Self::Digest(digest) => Some(KeyLocator::Digest(digest)),
        }
    }
}

/// HMAC-SHA-256 with a shared key, which also verifies (see [`crate::Verifier`]).
#[derive(Clone)]
pub struct HmacKey {
    key: hmac::Key,
    locator: Locator,
}

impl HmacKey {
    /// A key of these bytes, of any length.
    #[must_use]
    pub fn new(key: &[u8], locator: Locator) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, key), locator }
    }

    /// A key in base64.
    ///
    /// # Errors
    /// `Base64`, `Empty`.
    pub fn from_base64(text: &str, locator: Locator) -> Result<Self, KeyError> {
        let key: Zeroizing<Vec<u8>> = base64_text::decode(text, "the HMAC key")?;
        if key.is_empty() {
            return Err(KeyError::Empty);
        }
        Ok(Self::new(&key, locator))
    }

    pub(crate) fn code(&self, parts: &[&[u8]]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.key);
        for part in parts {
            context.update(part);
        }
        context.sign()
    }
}

impl fmt::Debug for HmacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HmacKey").field("locator", &self.locator).finish_non_exhaustive()
    }
}

impl Signer for HmacKey {
    fn signature_info(&self) -> SignatureInfo<'_> {
        SignatureInfo {
            key_locator: self.locator.as_key_locator(),
            ..SignatureInfo::new(SignatureType::HMAC_WITH_SHA256)
        }
    }

    fn signature_len_max(&self) -> usize {
        SHA256_LEN
    }

    fn sign(&self, parts: &[&[u8]], out: &mut [u8]) -> Result<usize, SignError> {
        copy_signature(self.code(parts).as_ref(), out)
    }
}

/// Signs with an asymmetric private key.
#[derive(Debug, Clone)]
pub struct KeySigner {
    key: Arc<PrivateKey>,
    locator: Locator,
}

impl KeySigner {
    /// `locator` usually is the name of the key or of its certificate.
    #[must_use]
    pub fn new(key: Arc<PrivateKey>, locator: Locator) -> Self {
        Self { key, locator }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &PrivateKey {
        &self.key
    }
}

impl Signer for KeySigner {
    fn signature_info(&self) -> SignatureInfo<'_> {
        SignatureInfo {
            key_locator: self.locator.as_key_locator(),
            ..SignatureInfo::new(self.key.key_type().signature_type())
        }
    }

    fn signature_len_max(&self) -> usize {
        self.key.signature_len_max()
    }

    fn sign(&self, parts: &[&[u8]], out: &mut [u8]) -> Result<usize, SignError> {
        self.key.sign(parts, out)
    }

    fn is_slow(&self) -> bool {
        true
    }
}

/// Upper bound of the length that [`write_data`] writes.
#[must_use]
pub fn data_len_max(data: &DataBuilder<'_>, signer: &dyn Signer) -> usize {
    data.encoded_len(&signer.signature_info(), signer.signature_len_max())
}

/// Signs `data` and writes it into the front of `out`, which must have [`data_len_max`] bytes;
/// returns the packet's length.
///
/// # Errors
/// `Encode` if `out` is too short or the packet is invalid, and those of [`Signer::sign`].
pub fn write_data(
    data: &DataBuilder<'_>,
    signer: &dyn Signer,
    out: &mut [u8],
) -> Result<usize, SignError> {
    let mut failure = None;
    let info = signer.signature_info();
    data.write(out, &info, signer.signature_len_max(), keep_error(signer, &mut failure))
        .map_err(|e| failure.unwrap_or(SignError::Encode(e)))
}

/// Signs `data` into a new vector.
///
/// # Errors
/// As [`write_data`].
pub fn sign_data(data: &DataBuilder<'_>, signer: &dyn Signer) -> Result<Vec<u8>, SignError> {
    let mut out = vec![0; data_len_max(data, signer)];
    let length = write_data(data, signer, &mut out)?;
    out.truncate(length);
    Ok(out)
}

/// The elements of an Interest signature that prevent replay (packet specification, section "Interest Signature").
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AntiReplay<'a> {
    /// SignatureNonce: random bytes, at least one; eight are usual.
    pub nonce: Option<&'a [u8]>,
    /// SignatureTime in milliseconds since 1970.
    pub time_ms: Option<u64>,
    /// SignatureSeqNum.
    pub sequence_num: Option<u64>,
}

/// Signs `interest` into a new vector. ApplicationParameters is written empty if it is not set, and
/// the ParametersSha256Digest component is put into the name.
///
/// # Errors
/// `Encode` if the Interest is invalid, and those of [`Signer::sign`].
pub fn sign_interest(
    interest: &InterestBuilder<'_>,
    signer: &dyn Signer,
    anti_replay: &AntiReplay<'_>,
) -> Result<Vec<u8>, SignError> {
    let mut failure = None;
    let info = SignatureInfo {
        nonce: anti_replay.nonce,
        time_ms: anti_replay.time_ms,
        sequence_num: anti_replay.sequence_num,
        ..signer.signature_info()
    };
    interest
        .to_vec_signed(&info, signer.signature_len_max(), keep_error(signer, &mut failure), sha256)
        .map_err(|e| failure.unwrap_or(SignError::Encode(e)))
}

/// The signing function of a packet builder; it stores an error in `failure`.
pub(crate) fn keep_error<'a>(
    signer: &'a dyn Signer,
    failure: &'a mut Option<SignError>,
) -> impl FnOnce(&[&[u8]], &mut [u8]) -> Option<usize> + 'a {
    move |parts, out| signer.sign(parts, out).map_err(|e| *failure = Some(e)).ok()
}
