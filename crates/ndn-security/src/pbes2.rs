//! Password-encrypted PKCS#8 (RFC 5958 EncryptedPrivateKeyInfo with PBES2, RFC 8018).
//!
//! Reads PBKDF2 with HMAC-SHA-1, -256, -384 or -512 and AES-128, -192 or -256 in CBC mode; writes
//! PBKDF2 with HMAC-SHA-256 and AES-256-CBC, which is what `ndnsec export` writes.

use std::num::NonZeroU32;

use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, Algorithm, DecryptionContext, EncryptionContext,
    PaddedBlockDecryptingKey, PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::pbkdf2;
use zeroize::Zeroizing;

use crate::der::{self, DerError, DerReader};
use crate::{KeyError, oid};

/// Upper bound of the PBKDF2 iteration count that is accepted, so that a file cannot keep the
/// reader busy for minutes.
const ITERATION_COUNT_MAX: u32 = 10_000_000;

/// PBKDF2 iteration count that is written.
const ITERATION_COUNT: u32 = 100_000;

const WHAT: &str = "the encrypted private key";

/// Randomness for encrypting one private key; use fresh bytes for every key.
#[derive(Debug, Clone, Copy)]
pub struct EncryptionSeed {
    /// Salt of the key derivation.
    pub salt: [u8; 16],
    /// Initialization vector of the cipher.
    pub iv: [u8; 16],
}

struct Parameters<'a> {
    prf: pbkdf2::Algorithm,
    salt: &'a [u8],
    iterations: NonZeroU32,
    cipher: &'static Algorithm,
    key_len: usize,
    iv: [u8; 16],
}

/// Decrypts EncryptedPrivateKeyInfo into the PKCS#8 PrivateKeyInfo inside.
pub(crate) fn decrypt(input: &[u8], passphrase: &[u8]) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let bad = KeyError::der(WHAT);
    let mut reader = DerReader::of_sequence(input).map_err(&bad)?;
    let algorithm = reader.sequence().map_err(&bad)?;
    let ciphertext = reader.element(der::OCTET_STRING).map_err(&bad)?;
    reader.finish().map_err(&bad)?;
    let parameters = parse_parameters(algorithm)?;

    let mut key = Zeroizing::new([0u8; 32]);
    let key = &mut key[..parameters.key_len];
    pbkdf2::derive(parameters.prf, parameters.iterations, parameters.salt, passphrase, key);
    let mut text = Zeroizing::new(ciphertext.to_vec());
    let plain_len = UnboundCipherKey::new(parameters.cipher, key)
        .and_then(PaddedBlockDecryptingKey::cbc_pkcs7)
        .and_then(|cipher| {
            let iv = DecryptionContext::Iv128(FixedLength::from(parameters.iv));
            cipher.decrypt(&mut text, iv).map(|plain| plain.len())
        })
        .map_err(|_| KeyError::Decryption)?;
    text.truncate(plain_len);
    // A wrong passphrase passes the padding check once in 256 times; it does not also give a
    // well-formed outer SEQUENCE.
    DerReader::of_sequence(&text).map_err(|_| KeyError::Decryption)?;
    Ok(text)
}

/// Encrypts a PKCS#8 PrivateKeyInfo.
pub(crate) fn encrypt(
    plain: &[u8],
    passphrase: &[u8],
    seed: &EncryptionSeed,
) -> Result<Vec<u8>, KeyError> {
    let failed = |_| KeyError::Crypto("encrypting the private key");
    let iterations = NonZeroU32::new(ITERATION_COUNT).unwrap_or(NonZeroU32::MIN);
    let mut key = Zeroizing::new([0u8; 32]);
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, &seed.salt, passphrase, &mut key[..]);
    let mut text = Zeroizing::new(plain.to_vec());
    let cipher = UnboundCipherKey::new(&AES_256, &key[..])
        .and_then(PaddedBlockEncryptingKey::cbc_pkcs7)
        .map_err(failed)?;
    let iv = EncryptionContext::Iv128(FixedLength::from(seed.iv));
    cipher.less_safe_encrypt(&mut *text, iv).map_err(failed)?;

    let prf = der::element(
        der::SEQUENCE,
        &[
            &der::element(der::OBJECT_IDENTIFIER, &[oid::HMAC_SHA256]),
            &der::element(der::NULL, &[]),
        ],
    );
    let kdf_parameters = der::element(
        der::SEQUENCE,
        &[&der::element(der::OCTET_STRING, &[&seed.salt]), &der::unsigned(ITERATION_COUNT), &prf],
    );
    let kdf = der::element(
        der::SEQUENCE,
        &[&der::element(der::OBJECT_IDENTIFIER, &[oid::PBKDF2]), &kdf_parameters],
    );
    let scheme = der::element(
        der::SEQUENCE,
        &[
            &der::element(der::OBJECT_IDENTIFIER, &[oid::AES_256_CBC]),
            &der::element(der::OCTET_STRING, &[&seed.iv]),
        ],
    );
    let algorithm = der::element(
        der::SEQUENCE,
        &[
            &der::element(der::OBJECT_IDENTIFIER, &[oid::PBES2]),
            &der::element(der::SEQUENCE, &[&kdf, &scheme]),
        ],
    );
    Ok(der::element(der::SEQUENCE, &[&algorithm, &der::element(der::OCTET_STRING, &[&text])]))
}

fn parse_parameters(mut algorithm: DerReader<'_>) -> Result<Parameters<'_>, KeyError> {
    let bad = KeyError::der(WHAT);
    let scheme_oid = algorithm.object_identifier().map_err(&bad)?;
    if scheme_oid != oid::PBES2 {
        return Err(oid::unsupported(WHAT, "encryption scheme", scheme_oid));
    }
    let mut pbes2 = algorithm.sequence().map_err(&bad)?;
    let mut kdf = pbes2.sequence().map_err(&bad)?;
    let kdf_oid = kdf.object_identifier().map_err(&bad)?;
    if kdf_oid != oid::PBKDF2 {
        return Err(oid::unsupported(WHAT, "key derivation", kdf_oid));
    }
    let mut kdf = kdf.sequence().map_err(&bad)?;
    let salt = kdf.element(der::OCTET_STRING).map_err(&bad)?;
    let iterations = kdf.unsigned().map_err(&bad)?;
    if iterations > ITERATION_COUNT_MAX {
        return Err(bad(DerError::BadValue));
    }
    let iterations = NonZeroU32::new(iterations).ok_or(bad(DerError::BadValue))?;
    if kdf.peek_tag() == Some(der::INTEGER) {
        // keyLength repeats what the cipher says.
        kdf.unsigned().map_err(&bad)?;
    }
    let prf = if kdf.is_empty() {
        pbkdf2::PBKDF2_HMAC_SHA1
    } else {
        match kdf.sequence().and_then(|mut prf| prf.object_identifier()).map_err(&bad)? {
            oid::HMAC_SHA1 => pbkdf2::PBKDF2_HMAC_SHA1,
            oid::HMAC_SHA256 => pbkdf2::PBKDF2_HMAC_SHA256,
            oid::HMAC_SHA384 => pbkdf2::PBKDF2_HMAC_SHA384,
            oid::HMAC_SHA512 => pbkdf2::PBKDF2_HMAC_SHA512,
            other => return Err(oid::unsupported(WHAT, "pseudo-random function", other)),
        }
    };
    let mut encryption = pbes2.sequence().map_err(&bad)?;
    let (cipher, key_len) = match encryption.object_identifier().map_err(&bad)? {
        oid::AES_128_CBC => (&AES_128, 16),
        oid::AES_192_CBC => (&AES_192, 24),
        oid::AES_256_CBC => (&AES_256, 32),
        other => return Err(oid::unsupported(WHAT, "cipher", other)),
    };
    let iv = encryption.element(der::OCTET_STRING).map_err(&bad)?;
    let iv = iv.try_into().map_err(|_| bad(DerError::BadValue))?;
    Ok(Parameters { prf, salt, iterations, cipher, key_len, iv })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: EncryptionSeed = EncryptionSeed { salt: [7; 16], iv: [9; 16] };

    #[test]
    fn encrypted_key_round_trips() {
        let plain = der::element(der::SEQUENCE, &[&[5; 77]]);
        let encrypted = encrypt(&plain, b"passphrase", &SEED).unwrap();
        assert_eq!(*decrypt(&encrypted, b"passphrase").unwrap(), plain);
        assert_eq!(decrypt(&encrypted, b"wrong").unwrap_err(), KeyError::Decryption);
        assert_eq!(decrypt(&encrypted, b"").unwrap_err(), KeyError::Decryption);
    }

    #[test]
    fn every_truncation_is_an_error() {
        let plain = der::element(der::SEQUENCE, &[&[5; 77]]);
        let encrypted = encrypt(&plain, b"p", &SEED).unwrap();
        for length in 0..encrypted.len() {
            assert!(decrypt(&encrypted[..length], b"p").is_err());
        }
    }
}
