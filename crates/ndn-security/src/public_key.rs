//! Public keys from SubjectPublicKeyInfo (RFC 5280 section 4.1.2.7).

use std::fmt;
use std::ops::RangeInclusive;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P521_SHA256_ASN1, ED25519,
    ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, VerificationAlgorithm,
};

use crate::base64_text;
use crate::der::{self, DerError, DerReader};
use crate::digest::{Sha256Digest, digest_parts, sha256};
use crate::oid;
use crate::{KeyError, KeyType};

const WHAT: &str = "the public key";

/// Accepted lengths of an RSA modulus.
const RSA_BITS: RangeInclusive<usize> = 2048..=8192;

/// A parsed public key that verifies signatures.
///
/// RSA (2048 to 8192 bits), ECDSA over P-256, P-384 and P-521 with SHA-256, and Ed25519.
pub struct PublicKey {
    key_type: KeyType,
    spki: Box<[u8]>,
    parsed: ParsedPublicKey,
}

impl PublicKey {
    /// Parses a DER SubjectPublicKeyInfo, the Content of an NDN certificate.
    ///
    /// # Errors
    /// `Der`, `UnsupportedAlgorithm` or `Rejected` with the fault of the key.
    pub fn from_spki(spki: &[u8]) -> Result<Self, KeyError> {
        let (key_type, algorithm, key_bits) = dissect(spki)?;
        // The library gets the point or modulus without its encoding where it accepts that, so that algorithm and
        // parameters are checked in one place.
        let input = if key_type == KeyType::Rsa { spki } else { key_bits };
        let parsed = ParsedPublicKey::new(algorithm, input)
            .map_err(|e| KeyError::Rejected { what: WHAT, reason: e.to_string() })?;
        Ok(Self { key_type, spki: spki.into(), parsed })
    }

    /// Parses a PEM block of a SubjectPublicKeyInfo (RFC 7468, section 13).
    ///
    /// # Errors
    /// `Pem` without such a block, `Base64`, and those of [`Self::from_spki`].
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        match base64_text::decode_pem(text)? {
            ("PUBLIC KEY", spki) => Self::from_spki(&spki),
            _ => Err(KeyError::Pem),
        }
    }

    /// The kind of key.
    #[must_use]
    pub fn key_type(&self) -> KeyType {
        self.key_type
    }

    /// The DER SubjectPublicKeyInfo.
    #[must_use]
    pub fn spki(&self) -> &[u8] {
        &self.spki
    }

    /// SHA-256 of the SubjectPublicKeyInfo: the value of a KeyDigest locator.
    #[must_use]
    pub fn key_digest(&self) -> Sha256Digest {
        sha256(&self.spki)
    }

    /// Whether `signature` over the concatenation of `parts` was made by this key.
    #[must_use]
    pub fn matches(&self, parts: &[&[u8]], signature: &[u8]) -> bool {
        match (self.key_type, parts) {
            (KeyType::Ed25519, [message]) => self.parsed.verify_sig(message, signature).is_ok(),
            // Ed25519 hashes its input twice, so the parts must be brought together.
            (KeyType::Ed25519, _) => self.parsed.verify_sig(&parts.concat(), signature).is_ok(),
            (KeyType::Rsa | KeyType::Ecdsa, _) => {
                self.parsed.verify_digest_sig(&digest_parts(parts), signature).is_ok()
            }
        }
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublicKey").field("key_type", &self.key_type).finish_non_exhaustive()
    }
}

/// `(key type, verification algorithm, contents of subjectPublicKey)`.
fn dissect(spki: &[u8]) -> Result<(KeyType, &'static dyn VerificationAlgorithm, &[u8]), KeyError> {
    let bad = KeyError::der(WHAT);
    let mut reader = DerReader::of_sequence(spki).map_err(&bad)?;
    let mut algorithm = reader.sequence().map_err(&bad)?;
    let algorithm_oid = algorithm.object_identifier().map_err(&bad)?;
    let key_bits = reader.bit_string().map_err(&bad)?;
    reader.finish().map_err(&bad)?;
    match algorithm_oid {
        oid::EC_PUBLIC_KEY => {
            if algorithm.peek_tag() == Some(der::SEQUENCE) {
                // RFC 5480 section 2.1.1 forbids explicit curve parameters.
                return Err(KeyError::Rejected {
                    what: WHAT,
                    reason: "its curve is given by explicit parameters, not by name".into(),
                });
            }
            let curve = algorithm.object_identifier().map_err(&bad)?;
            let verification: &'static dyn VerificationAlgorithm = match curve {
                oid::P256 => &ECDSA_P256_SHA256_ASN1,
                oid::P384 => &ECDSA_P384_SHA256_ASN1,
                oid::P521 => &ECDSA_P521_SHA256_ASN1,
                other => return Err(oid::unsupported(WHAT, "elliptic curve", other)),
            };
            Ok((KeyType::Ecdsa, verification, key_bits))
        }
        oid::RSA_ENCRYPTION => {
            let bits = rsa_modulus_bits(key_bits).map_err(&bad)?;
            if !RSA_BITS.contains(&bits) {
                return Err(KeyError::Rejected {
                    what: WHAT,
                    reason: format!(
                        "its RSA modulus has {bits} bits, allowed are {} to {}",
                        RSA_BITS.start(),
                        RSA_BITS.end()
                    ),
                });
            }
            Ok((KeyType::Rsa, &RSA_PKCS1_2048_8192_SHA256, key_bits))
        }
        oid::ED25519 => Ok((KeyType::Ed25519, &ED25519, key_bits)),
        other => Err(oid::unsupported(WHAT, "key algorithm", other)),
    }
}

/// Length in bits of the modulus of an RSAPublicKey (RFC 8017 appendix A.1.1).
fn rsa_modulus_bits(public_key: &[u8]) -> Result<usize, DerError> {
    let modulus = DerReader::of_sequence(public_key)?.element(der::INTEGER)?;
    let zeros = modulus.iter().take_while(|&&byte| byte == 0).count();
    let significant = &modulus[zeros..];
    let first = significant.first().ok_or(DerError::BadValue)?;
    Ok(significant.len() * 8 - usize::try_from(first.leading_zeros()).unwrap_or(0))
}
