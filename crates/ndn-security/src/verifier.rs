//! Verification of Data and Interests.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use ndn_packet::interest::ParametersDigest;
use ndn_packet::{Data, Interest, KeyLocator, SignatureInfo, SignatureType};

use crate::digest::{Sha256Digest, sha256, sha256_each, sha256_parts};
use crate::{HmacKey, PublicKey, VerifyError};

/// Verifies signatures of one kind with one key.
pub trait Verifier: Send + Sync {
    /// Verifies `signature` over the concatenation of `parts`.
    ///
    /// # Errors
    /// `WrongType` or `Mismatch`.
    fn verify(
        &self,
        info: &SignatureInfo<'_>,
        parts: &[&[u8]],
        signature: &[u8],
    ) -> Result<(), VerifyError>;

    /// Identifies what is accepted: equal for verifiers of the same key only. `None` if that cannot be said.
    fn fingerprint(&self) -> Option<Sha256Digest> {
        None
    }
}

/// Verifies DigestSha256: integrity only.
#[derive(Debug, Clone, Copy, Default)]
pub struct DigestVerifier;

impl Verifier for DigestVerifier {
    fn verify(
        &self,
        info: &SignatureInfo<'_>,
        parts: &[&[u8]],
        signature: &[u8],
    ) -> Result<(), VerifyError> {
        check_type(info, SignatureType::DIGEST_SHA256)?;
        accept_if(sha256_parts(parts) == signature, SignatureType::DIGEST_SHA256)
    }

    fn fingerprint(&self) -> Option<Sha256Digest> {
        Some(sha256(b"DigestSha256"))
    }
}

impl Verifier for HmacKey {
    fn verify(
        &self,
        info: &SignatureInfo<'_>,
        parts: &[&[u8]],
        signature: &[u8],
    ) -> Result<(), VerifyError> {
        check_type(info, SignatureType::HMAC_WITH_SHA256)?;
        let equal = verify_slices_are_equal(self.code(parts).as_ref(), signature).is_ok();
        accept_if(equal, SignatureType::HMAC_WITH_SHA256)
    }

    fn fingerprint(&self) -> Option<Sha256Digest> {
        // No signature covers this text, which is no packet.
        self.code(&[b"fingerprint of a key of NDN"]).as_ref().try_into().ok()
    }
}

impl Verifier for PublicKey {
    fn verify(
        &self,
        info: &SignatureInfo<'_>,
        parts: &[&[u8]],
        signature: &[u8],
    ) -> Result<(), VerifyError> {
        let expected = self.key_type().signature_type();
        let checked = check_type(info, expected)
            .and_then(|()| accept_if(self.matches(parts, signature), expected));
        checked.map_err(|error| match info.key_locator {
            Some(KeyLocator::Digest(digest)) if digest != &self.key_digest()[..] => {
                let digits = digest.iter().map(|byte| format!("{byte:02x}"));
                VerifyError::OtherKey(format!("of the digest {}", digits.collect::<String>()))
            }
            _ => error,
        })
    }

    fn fingerprint(&self) -> Option<Sha256Digest> {
        Some(self.key_digest())
    }
}

fn check_type(info: &SignatureInfo<'_>, expected: SignatureType) -> Result<(), VerifyError> {
    let found = info.signature_type;
    if found == expected { Ok(()) } else { Err(VerifyError::WrongType { expected, found }) }
}

fn accept_if(matches: bool, signature_type: SignatureType) -> Result<(), VerifyError> {
    if matches { Ok(()) } else { Err(VerifyError::Mismatch(signature_type)) }
}

/// Verifies the signature of `data`.
///
/// # Errors
/// `Malformed` for a malformed SignatureInfo, and those of [`Verifier::verify`].
pub fn verify_data(data: &Data<'_>, verifier: &dyn Verifier) -> Result<(), VerifyError> {
    let info = data.signature_info().map_err(VerifyError::Malformed)?;
    verifier.verify(&info, &[data.signed_portion()], data.signature_value())
}

/// Verifies DigestSha256 of many Data at once; the results are those of [`verify_data`] with [`DigestVerifier`].
#[must_use]
pub fn verify_digests(all: &[Data<'_>]) -> Vec<Result<(), VerifyError>> {
    let signed: Vec<_> = all.iter().map(Data::signed_portion).collect();
    let check = |(data, digest): (&Data<'_>, Sha256Digest)| {
        let info = data.signature_info().map_err(VerifyError::Malformed)?;
        check_type(&info, SignatureType::DIGEST_SHA256)?;
        accept_if(digest == data.signature_value(), SignatureType::DIGEST_SHA256)
    };
    all.iter().zip(sha256_each(&signed)).map(check).collect()
}

/// Checks that the ParametersSha256Digest component of `interest` matches its parameters. An
/// Interest with neither is valid.
///
/// # Errors
/// `ParametersDigestUnpaired` or `ParametersDigestMismatch`.
pub fn verify_parameters_digest(interest: &Interest<'_>) -> Result<(), VerifyError> {
    match interest.parameters_digest() {
        ParametersDigest::Absent => Ok(()),
        ParametersDigest::Unpaired => Err(VerifyError::ParametersDigestUnpaired),
        ParametersDigest::Paired if interest.parameters_digest_is_valid(sha256) => Ok(()),
        ParametersDigest::Paired => Err(VerifyError::ParametersDigestMismatch),
    }
}

/// Checks the signature of `interest` and its ParametersSha256Digest component, and returns the
/// SignatureInfo, whose nonce, time and sequence number the caller checks against replay.
///
/// # Errors
/// `NotSigned`, `Malformed`, and those of [`verify_parameters_digest`] and [`Verifier::verify`].
pub fn verify_interest<'a>(
    interest: &Interest<'a>,
    verifier: &dyn Verifier,
) -> Result<SignatureInfo<'a>, VerifyError> {
    let info = interest.signature_info().map_err(VerifyError::Malformed)?;
    let (Some(info), Some(signature), Some(parts)) =
        (info, interest.signature_value(), interest.signed_portion())
    else {
        return Err(VerifyError::NotSigned);
    };
    verify_parameters_digest(interest)?;
    verifier.verify(&info, &parts, signature)?;
    Ok(info)
}
