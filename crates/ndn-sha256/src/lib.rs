//! SHA-256 of two inputs at a time, by instructions of the processor.
//!
//! The processor's instructions for SHA-256 wait for each other within one input: a round needs the one
//! before. Two inputs side by side fill the pauses.

#[cfg(target_arch = "x86_64")]
mod x86;

/// Length of a digest in bytes.
const DIGEST_LEN: usize = 32;
/// Length of a block in bytes.
const BLOCK_LEN: usize = 64;

/// SHA-256 of `one` and of `other`, or none if the processor has no instructions that make this worthwhile.
///
/// Inputs of about the same length take the least time for their bytes.
#[must_use]
#[inline]
pub fn pair(one: &[u8], other: &[u8]) -> Option<[[u8; DIGEST_LEN]; 2]> {
    #[cfg(target_arch = "x86_64")]
    if x86::is_available() {
        // SAFETY: the processor has the features that the function is compiled for. What two at a time save
        // is `sha256_pairs` beside `sha256` in the costs that `namewire bench transfer --json` tells.
        return Some(unsafe { x86::digest_pair(one, other) });
    }
    let _ = (one, other);
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn hex(digest: [u8; DIGEST_LEN]) -> String {
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn both_digests_are_those_of_fips_180_4() {
        let long = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        let Some([one, other]) = pair(b"abc", long) else {
            eprintln!("skipped: this processor has no instructions for SHA-256");
            return;
        };
        assert_eq!(hex(one), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(hex(other), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(pair(b"", b"").unwrap().map(hex), [empty, empty]);
    }
}
