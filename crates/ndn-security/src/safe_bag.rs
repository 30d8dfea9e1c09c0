//! SafeBag: a certificate and its private key under a passphrase, as `ndnsec export` writes.

use ndn_packet::tlv::{self, Reader};
use ndn_packet::types;
use zeroize::Zeroizing;

use crate::{Certificate, CertificateError, EncryptionSeed, KeyError, PrivateKey, base64_text};

/// TLV-TYPE of SafeBag.
const SAFE_BAG: u32 = 128;
/// TLV-TYPE of the encrypted PKCS#8 key in a SafeBag.
const ENCRYPTED_KEY: u32 = 129;

/// A certificate with its encrypted private key.
#[derive(Debug)]
pub struct SafeBag {
    certificate: Certificate,
    encrypted_key: Vec<u8>,
}

impl SafeBag {
    /// Encrypts `key` with `passphrase` beside its certificate.
    ///
    /// # Errors
    /// `KeyMismatch` if `certificate` is not of `key`; `Crypto`.
    pub fn seal(
        certificate: Certificate,
        key: &PrivateKey,
        passphrase: &[u8],
        seed: &EncryptionSeed,
    ) -> Result<Self, KeyError> {
        if certificate.public_key().spki() != key.spki() {
            return Err(KeyError::KeyMismatch);
        }
        let encrypted_key = key.to_encrypted_der(passphrase, seed)?;
        Ok(Self { certificate, encrypted_key })
    }

    /// Parses a SafeBag TLV.
    ///
    /// # Errors
    /// Names the part that is malformed.
    pub fn parse(wire: &[u8]) -> Result<Self, CertificateError> {
        let mut inner =
            Reader::new(wire).read_only(SAFE_BAG).map_err(CertificateError::SafeBag)?.reader();
        let certificate = inner.read_expected(types::DATA).map_err(CertificateError::SafeBag)?;
        let key = inner.read_expected(ENCRYPTED_KEY).map_err(CertificateError::SafeBag)?;
        inner.finish().map_err(CertificateError::SafeBag)?;
        Ok(Self {
            certificate: Certificate::parse(certificate.wire().to_vec())?,
            encrypted_key: key.value().to_vec(),
        })
    }

    /// Parses the base64 of a SafeBag.
    ///
    /// # Errors
    /// Those of [`Self::parse`], or that the text is not base64.
    pub fn from_text(text: &str) -> Result<Self, CertificateError> {
        Self::parse(&base64_text::decode(text, "the SafeBag")?)
    }

    /// The SafeBag TLV.
    #[must_use]
    pub fn to_wire(&self) -> Vec<u8> {
        let mut out = Vec::new();
        tlv::append_nested(&mut out, SAFE_BAG, |bag| {
            bag.extend_from_slice(self.certificate.wire());
            tlv::append_tlv(bag, ENCRYPTED_KEY, &self.encrypted_key);
        });
        out
    }

    /// The SafeBag in base64, in lines of 64 characters.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        base64_text::encode_lines(&self.to_wire())
    }

    /// The certificate.
    #[must_use]
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Decrypts the private key.
    ///
    /// # Errors
    /// `Decryption` for a wrong passphrase, `KeyMismatch` if the key is not that of the certificate,
    /// and those of [`PrivateKey::from_encrypted_der`].
    pub fn open(&self, passphrase: &[u8]) -> Result<PrivateKey, KeyError> {
        let key = PrivateKey::from_encrypted_der(&self.encrypted_key, passphrase)?;
        if key.spki() == self.certificate.public_key().spki() {
            Ok(key)
        } else {
            Err(KeyError::KeyMismatch)
        }
    }
}
