//! Private keys: generation, import and export.

use std::fmt;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
};
use ndn_packet::SignatureType;
use zeroize::Zeroizing;

use crate::der::{self, DerError, DerReader};
use crate::digest::{Sha256Digest, digest_parts, sha256};
use crate::pbes2::{self, EncryptionSeed};
use crate::{KeyError, PublicKey, SignError, base64_text, oid};

const WHAT: &str = "the private key";

/// Tags of the optional fields of ECPrivateKey: the curve and the public point.
const CONTEXT_0: u8 = 0xa0;
const CONTEXT_1: u8 = 0xa1;
/// More than an ECPrivateKey of P-256 has, 121 bytes.
const EC_PRIVATE_KEY_LEN_MAX: usize = 160;

/// Kinds of asymmetric keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyType {
    /// ECDSA over a NIST curve, with SHA-256.
    Ecdsa,
    /// Ed25519.
    Ed25519,
    /// RSA, PKCS#1 v1.5 with SHA-256.
    Rsa,
}

impl KeyType {
    /// The SignatureType of this kind of key.
    #[must_use]
    pub fn signature_type(self) -> SignatureType {
        match self {
            Self::Ecdsa => SignatureType::SHA256_WITH_ECDSA,
            Self::Ed25519 => SignatureType::ED25519,
            Self::Rsa => SignatureType::SHA256_WITH_RSA,
        }
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ecdsa => "ECDSA",
            Self::Ed25519 => "Ed25519",
            Self::Rsa => "RSA",
        })
    }
}

enum Inner {
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(Box<rsa::KeyPair>),
}

/// An asymmetric private key that signs: ECDSA P-256, Ed25519 or RSA.
///
/// The cryptographic library holds the secret and clears it when the key is dropped.
pub struct PrivateKey {
    inner: Inner,
    spki: Box<[u8]>,
}

impl PrivateKey {
    /// Generates a key with the random generator of the cryptographic library: P-256 for ECDSA,
    /// 2048 bits for RSA.
    ///
    /// # Errors
    /// `Crypto` if the library fails.
    pub fn generate(key_type: KeyType) -> Result<Self, KeyError> {
        let failed = |_| KeyError::Crypto("generating a key");
        Self::from_inner(match key_type {
            KeyType::Ecdsa => Inner::Ecdsa(
                EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).map_err(failed)?,
            ),
            KeyType::Ed25519 => Inner::Ed25519(Ed25519KeyPair::generate().map_err(failed)?),
            KeyType::Rsa => {
                Inner::Rsa(Box::new(rsa::KeyPair::generate(rsa::KeySize::Rsa2048).map_err(failed)?))
            }
        })
    }

    /// Reads an unencrypted private key in DER: PKCS#8 (RFC 5958), PKCS#1 RSAPrivateKey (RFC 8017)
    /// or SEC 1 ECPrivateKey (RFC 5915). The latter two are what the key files of `ndnsec` and
    /// python-ndn hold.
    ///
    /// # Errors
    /// `PassphraseNeeded` for an encrypted key; `Der`, `UnsupportedAlgorithm`, `Rejected`.
    pub fn from_der(input: &[u8]) -> Result<Self, KeyError> {
        let bad = KeyError::der(WHAT);
        let mut reader = DerReader::of_sequence(input).map_err(&bad)?;
        if reader.peek_tag() == Some(der::SEQUENCE) {
            return Err(KeyError::PassphraseNeeded);
        }
        let version = reader.unsigned().map_err(&bad)?;
        let rejected = |e: aws_lc_rs::error::KeyRejected| KeyError::Rejected {
            what: WHAT,
            reason: e.to_string(),
        };
        let inner = match (version, reader.peek_tag()) {
            (_, Some(der::SEQUENCE)) => {
                let mut algorithm = reader.sequence().map_err(&bad)?;
                match algorithm.object_identifier().map_err(&bad)? {
                    oid::EC_PUBLIC_KEY => Inner::Ecdsa(
                        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, input)
                            .map_err(rejected)?,
                    ),
                    oid::ED25519 => {
                        Inner::Ed25519(Ed25519KeyPair::from_pkcs8(input).map_err(rejected)?)
                    }
                    oid::RSA_ENCRYPTION => {
                        Inner::Rsa(Box::new(rsa::KeyPair::from_pkcs8(input).map_err(rejected)?))
                    }
                    other => return Err(oid::unsupported(WHAT, "key algorithm", other)),
                }
            }
            (1, Some(der::OCTET_STRING)) => Inner::Ecdsa(
                EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_ASN1_SIGNING, input)
                    .map_err(rejected)?,
            ),
            (0, Some(der::INTEGER)) => {
                Inner::Rsa(Box::new(rsa::KeyPair::from_der(input).map_err(rejected)?))
            }
            _ => return Err(bad(DerError::BadValue)),
        };
        Self::from_inner(inner)
    }

    /// Reads a private key from encrypted PKCS#8 DER (PBES2 with AES-CBC).
    ///
    /// # Errors
    /// `Decryption` if the passphrase is wrong, and those of [`Self::from_der`].
    pub fn from_encrypted_der(input: &[u8], passphrase: &[u8]) -> Result<Self, KeyError> {
        Self::from_der(&pbes2::decrypt(input, passphrase)?)
    }

    /// Reads a private key from text: PEM (`PRIVATE KEY`, `ENCRYPTED PRIVATE KEY`,
    /// `EC PRIVATE KEY`, `RSA PRIVATE KEY`) or the bare base64 of any DER form above.
    ///
    /// # Errors
    /// `PassphraseNeeded` for an encrypted key without `passphrase`; `Pem`, `Base64`, and those of
    /// [`Self::from_der`] and [`Self::from_encrypted_der`].
    pub fn from_text(text: &str, passphrase: Option<&[u8]>) -> Result<Self, KeyError> {
        let der = if text.contains("-----BEGIN ") {
            match base64_text::decode_pem(text)? {
                (
                    "PRIVATE KEY" | "ENCRYPTED PRIVATE KEY" | "EC PRIVATE KEY" | "RSA PRIVATE KEY",
                    der,
                ) => der,
                _ => return Err(KeyError::Pem),
            }
        } else {
            base64_text::decode(text, WHAT)?
        };
        match (Self::from_der(&der), passphrase) {
            (Err(KeyError::PassphraseNeeded), Some(passphrase)) => {
                Self::from_encrypted_der(&der, passphrase)
            }
            (result, _) => result,
        }
    }

    /// The key as unencrypted PKCS#8 DER.
    ///
    /// # Errors
    /// `Crypto` if the library fails.
    pub fn to_pkcs8_der(&self) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        let failed = |_| KeyError::Crypto("encoding the private key");
        Ok(Zeroizing::new(match &self.inner {
            Inner::Ecdsa(pair) => pair.to_pkcs8v1().map_err(failed)?.as_ref().to_vec(),
            Inner::Ed25519(pair) => pair.to_pkcs8v1().map_err(failed)?.as_ref().to_vec(),
            Inner::Rsa(pair) => {
                let der: Pkcs8V1Der<'_> = pair.as_der().map_err(failed)?;
                der.as_ref().to_vec()
            }
        }))
    }

    /// The key as PKCS#8 PEM.
    ///
    /// # Errors
    /// `Crypto` if the library fails.
    pub fn to_pem(&self) -> Result<Zeroizing<String>, KeyError> {
        Ok(base64_text::encode_pem("PRIVATE KEY", &self.to_pkcs8_der()?))
    }

    /// The key as the file TPM of ndn-cxx keeps it: lines of base64 over SEC 1 ECPrivateKey with its
    /// curve (RFC 5915), PKCS#1 RSAPrivateKey (RFC 8017), or PKCS#8 for Ed25519, which has no older
    /// form. [`Self::from_text`] reads it.
    ///
    /// # Errors
    /// `Crypto` if the library fails.
    pub fn to_key_file_text(&self) -> Result<Zeroizing<String>, KeyError> {
        let pkcs8 = self.to_pkcs8_der()?;
        let inner = |der| -> Result<_, DerError> {
            let mut reader = DerReader::of_sequence(der)?;
            reader.unsigned()?;
            reader.sequence()?;
            reader.element(der::OCTET_STRING)
        };
        let bad = KeyError::der(WHAT);
        Ok(match &self.inner {
            Inner::Ed25519(_) => base64_text::encode_lines(&pkcs8),
            Inner::Rsa(_) => base64_text::encode_lines(inner(&pkcs8).map_err(bad)?),
            Inner::Ecdsa(pair) => {
                let mut reader = inner(&pkcs8).and_then(DerReader::of_sequence).map_err(&bad)?;
                reader.unsigned().map_err(&bad)?;
                let secret = reader.element(der::OCTET_STRING).map_err(&bad)?;
                let curve = der::element(der::OBJECT_IDENTIFIER, &[oid::P256]);
                let point = der::element(der::BIT_STRING, &[&[0], pair.public_key().as_ref()]);
                // Reserved in one step: a growing vector leaves copies of the secret in memory.
                let mut body = Zeroizing::new(Vec::with_capacity(EC_PRIVATE_KEY_LEN_MAX));
                body.extend_from_slice(&der::unsigned(1));
                der::write_element(&mut body, der::OCTET_STRING, secret);
                der::write_element(&mut body, CONTEXT_0, &curve);
                der::write_element(&mut body, CONTEXT_1, &point);
                let mut whole = Zeroizing::new(Vec::with_capacity(EC_PRIVATE_KEY_LEN_MAX));
                der::write_element(&mut whole, der::SEQUENCE, &body);
                base64_text::encode_lines(&whole)
            }
        })
    }

    /// The key as encrypted PKCS#8 DER (PBKDF2-HMAC-SHA-256, AES-256-CBC).
    ///
    /// # Errors
    /// `Crypto` if the library fails.
    pub fn to_encrypted_der(
        &self,
        passphrase: &[u8],
        seed: &EncryptionSeed,
    ) -> Result<Vec<u8>, KeyError> {
        pbes2::encrypt(&self.to_pkcs8_der()?, passphrase, seed)
    }

    /// The kind of key.
    #[must_use]
    pub fn key_type(&self) -> KeyType {
        match &self.inner {
            Inner::Ecdsa(_) => KeyType::Ecdsa,
            Inner::Ed25519(_) => KeyType::Ed25519,
            Inner::Rsa(_) => KeyType::Rsa,
        }
    }

    /// DER SubjectPublicKeyInfo of the public half.
    #[must_use]
    pub fn spki(&self) -> &[u8] {
        &self.spki
    }

    /// SHA-256 of the SubjectPublicKeyInfo: the value of a KeyDigest locator.
    #[must_use]
    pub fn key_digest(&self) -> Sha256Digest {
        sha256(&self.spki)
    }

    /// The public half.
    ///
    /// # Errors
    /// `Rejected` if the key is too small to verify with.
    pub fn public_key(&self) -> Result<PublicKey, KeyError> {
        PublicKey::from_spki(&self.spki)
    }

    /// Upper bound of a signature's length in bytes.
    #[must_use]
    pub fn signature_len_max(&self) -> usize {
        match &self.inner {
            // SEQUENCE of two INTEGERs of at most 33 bytes.
            Inner::Ecdsa(_) => 72,
            Inner::Ed25519(_) => 64,
            Inner::Rsa(pair) => pair.public_modulus_len(),
        }
    }

    /// Signs the concatenation of `parts` into the front of `out`; returns the signature's length.
    ///
    /// # Errors
    /// `BufferTooSmall` if `out` is shorter than the signature; `Crypto` if the library fails.
    pub fn sign(&self, parts: &[&[u8]], out: &mut [u8]) -> Result<usize, SignError> {
        match &self.inner {
            Inner::Ecdsa(pair) => {
                let signature = pair
                    .sign_digest(&digest_parts(parts))
                    .map_err(|_| SignError::Crypto("an ECDSA key"))?;
                copy_signature(signature.as_ref(), out)
            }
            Inner::Ed25519(pair) => {
                // Ed25519 hashes its input twice, so the parts must be brought together.
                let signature = match parts {
                    [message] => pair.try_sign(message),
                    _ => pair.try_sign(&parts.concat()),
                };
                let signature = signature.map_err(|_| SignError::Crypto("an Ed25519 key"))?;
                copy_signature(signature.as_ref(), out)
            }
            Inner::Rsa(pair) => {
                let needed = pair.public_modulus_len();
                let available = out.len();
                let out =
                    out.get_mut(..needed).ok_or(SignError::BufferTooSmall { needed, available })?;
                pair.sign_digest(&RSA_PKCS1_SHA256, &digest_parts(parts), out)
                    .map_err(|_| SignError::Crypto("an RSA key"))?;
                Ok(needed)
            }
        }
    }

    fn from_inner(inner: Inner) -> Result<Self, KeyError> {
        let spki: PublicKeyX509Der<'_> = match &inner {
            Inner::Ecdsa(pair) => pair.public_key().as_der(),
            Inner::Ed25519(pair) => pair.public_key().as_der(),
            Inner::Rsa(pair) => pair.public_key().as_der(),
        }
        .map_err(|_| KeyError::Crypto("encoding the public key"))?;
        let spki = spki.as_ref().into();
        Ok(Self { inner, spki })
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateKey").field("key_type", &self.key_type()).finish_non_exhaustive()
    }
}

pub(crate) fn copy_signature(signature: &[u8], out: &mut [u8]) -> Result<usize, SignError> {
    let available = out.len();
    out.get_mut(..signature.len())
        .ok_or(SignError::BufferTooSmall { needed: signature.len(), available })?
        .copy_from_slice(signature);
    Ok(signature.len())
}
