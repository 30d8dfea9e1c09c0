//! Signing of what management sends; the key is the caller's business.

use ndn_packet::{DataBuilder, SignatureInfo, SignatureType};

/// Completes a Data with a signature.
pub trait DataSigner {
    /// The signed packet, or `None` if it cannot be made.
    fn sign(&mut self, data: &DataBuilder<'_>) -> Option<Vec<u8>>;
}

impl<F: FnMut(&DataBuilder<'_>) -> Option<Vec<u8>>> DataSigner for F {
    fn sign(&mut self, data: &DataBuilder<'_>) -> Option<Vec<u8>> {
        self(data)
    }
}

/// DigestSha256: what answers over a local face need.
#[derive(Debug, Clone, Copy, Default)]
pub struct DigestSigner;

impl DataSigner for DigestSigner {
    fn sign(&mut self, data: &DataBuilder<'_>) -> Option<Vec<u8>> {
        let info = SignatureInfo::new(SignatureType::DIGEST_SHA256);
        data.to_vec(&info, ndn_security::SHA256_LEN, digest_signature).ok()
    }
}

/// Writes the SHA-256 digest of `parts` into `signature`.
pub(crate) fn digest_signature(parts: &[&[u8]], signature: &mut [u8]) -> Option<usize> {
    let digest = ndn_security::sha256_parts(parts);
    signature.get_mut(..digest.len())?.copy_from_slice(&digest);
    Some(digest.len())
}
