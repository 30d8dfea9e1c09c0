//! SHA-256, for implicit digests.

use aws_lc_rs::digest::{SHA256, digest};

/// The implicit digest of a Data packet.
#[cold]
pub(crate) fn sha256(packet: &[u8]) -> [u8; 32] {
    let mut output = [0; 32];
    output.copy_from_slice(digest(&SHA256, packet).as_ref());
    output
}
