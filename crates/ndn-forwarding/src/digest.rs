//! SHA-256, for implicit digests and those of parameters.

use aws_lc_rs::digest::{SHA256, digest};

/// The digest of a Data packet, or of the parameters of an Interest.
#[cold]
pub(crate) fn sha256(packet: &[u8]) -> [u8; 32] {
    let mut output = [0; 32];
    output.copy_from_slice(digest(&SHA256, packet).as_ref());
    output
}
