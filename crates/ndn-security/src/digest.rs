//! SHA-256: one-shot, over parts, incremental.

use std::fmt;

use aws_lc_rs::digest;

/// Length of a SHA-256 digest in bytes.
pub const SHA256_LEN: usize = 32;

/// A SHA-256 digest.
pub type Sha256Digest = [u8; SHA256_LEN];

/// SHA-256 of `bytes`.
///
/// The implicit digest of a Data packet is this over its whole TLV (NDN packet specification,
/// "Implicit Digest Component").
#[must_use]
pub fn sha256(bytes: &[u8]) -> Sha256Digest {
    to_array(&digest::digest(&digest::SHA256, bytes))
}

/// SHA-256 of `one` and of `other`: where the processor allows it, in not much more time than one of them
/// takes.
#[must_use]
pub fn sha256_pair(one: &[u8], other: &[u8]) -> [Sha256Digest; 2] {
    ndn_sha256::pair(one, other).unwrap_or_else(|| [sha256(one), sha256(other)])
}

/// SHA-256 of each of `inputs`, in their order: many at a time where the processor allows it, which takes a part
/// of the time that they take one after the other if they are of about the same length.
#[must_use]
pub fn sha256_each(inputs: &[&[u8]]) -> Vec<Sha256Digest> {
    let mut digests = Vec::with_capacity(inputs.len());
    for some in inputs.chunks(ndn_sha256::LANES) {
        if let Some(lanes) = ndn_sha256::lanes(some) {
            digests.extend_from_slice(&lanes[..some.len()]);
            continue;
        }
        let (pairs, rest) = some.as_chunks();
        digests.extend(pairs.iter().flat_map(|[one, other]| sha256_pair(one, other)));
        digests.extend(rest.iter().map(|input| sha256(input)));
    }
    digests
}

/// SHA-1 of `bytes`, for protocols that use it where it protects nothing, as the handshake of
/// WebSocket does (RFC 6455, section 4.2.2).
#[must_use]
pub fn sha1(bytes: &[u8]) -> [u8; 20] {
    let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, bytes);
    digest.as_ref().try_into().unwrap_or_default()
}

/// SHA-256 of the concatenation of `parts`.
#[must_use]
pub fn sha256_parts(parts: &[&[u8]]) -> Sha256Digest {
    to_array(&digest_parts(parts))
}

pub(crate) fn digest_parts(parts: &[&[u8]]) -> digest::Digest {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(part);
    }
    context.finish()
}

/// Incremental SHA-256.
#[derive(Clone)]
pub struct Sha256(digest::Context);

impl Sha256 {
    /// A digest over nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self(digest::Context::new(&digest::SHA256))
    }

    /// Appends `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all bytes appended.
    #[must_use]
    pub fn finish(self) -> Sha256Digest {
        to_array(&self.0.finish())
    }
}

impl Default for Sha256 {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sha256").finish_non_exhaustive()
    }
}

fn to_array(digest: &digest::Digest) -> Sha256Digest {
    let mut out = [0; SHA256_LEN];
    out.copy_from_slice(digest.as_ref());
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn digests_of_two_at_a_time_equal_single_digests(
            bytes in proptest::collection::vec(any::<u8>(), 0..1000),
            cut in any::<proptest::sample::Index>(),
        ) {
            let (one, other) = bytes.split_at(cut.index(bytes.len() + 1));
            prop_assert_eq!(sha256_pair(one, other), [sha256(one), sha256(other)]);
        }
    }

    proptest! {
        #[test]
        fn digests_of_many_at_a_time_equal_single_digests(
            inputs in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..700), 0..40),
            even in proptest::option::of(0_usize..700),
        ) {
            let of = |input: &Vec<u8>| even.map_or(input.len(), |length| length.min(input.len()));
            let inputs: Vec<_> = inputs.iter().map(|input| &input[..of(input)]).collect();
            let alone: Vec<_> = inputs.iter().map(|input| sha256(input)).collect();
            prop_assert_eq!(sha256_each(&inputs), alone);
        }
    }

    #[test]
    fn messages_of_every_length_are_padded_in_every_lane() {
        let bytes: Vec<u8> = (0..=255).collect();
        for length in 0..bytes.len() - 16 {
            // All of one length; and lengths that end in different blocks.
            let even = [&bytes[..length]; 16];
            assert_eq!(sha256_each(&even), [sha256(&bytes[..length]); 16]);
            let uneven: [_; 16] =
                std::array::from_fn(|lane| &bytes[lane..lane + length + 15 - lane]);
            assert_eq!(sha256_each(&uneven), uneven.map(sha256));
        }
    }

    #[test]
    fn last_blocks_of_every_length_are_padded() {
        let bytes: Vec<u8> = (0..=255).collect();
        for length in 0..=bytes.len() {
            for other in [0, length / 2, length] {
                let pair = sha256_pair(&bytes[..length], &bytes[..other]);
                assert_eq!(pair, [sha256(&bytes[..length]), sha256(&bytes[..other])]);
            }
        }
    }

    const ABC: Sha256Digest = [
        0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22,
        0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00,
        0x15, 0xad,
    ];

    #[test]
    fn all_interfaces_give_the_digests_of_fips_180_4() {
        assert_eq!(sha256(b"abc"), ABC);
        assert_eq!(sha256_parts(&[b"a", b"", b"bc"]), ABC);
        let mut incremental = Sha256::new();
        incremental.update(b"ab");
        incremental.update(b"c");
        assert_eq!(incremental.finish(), ABC);
    }
}
