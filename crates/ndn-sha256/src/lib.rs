//! SHA-256 of several inputs at a time, with processor instructions.
//!
//! The SHA-256 instructions of one input depend on each other: a round needs the one before.
//! [`pair()`]: two inputs interleaved fill the pauses. [`lanes()`]: sixteen inputs need no SHA-256
//! instructions, as each word is one lane of a 512-bit vector; on processors with such vectors that
//! takes half the time of pairs for the same number of bytes.

#[cfg(target_arch = "x86_64")]
mod lanes;
#[cfg(target_arch = "x86_64")]
mod pair;

/// Length of a digest in bytes.
const DIGEST_LEN: usize = 32;
/// Length of a block in bytes.
#[cfg(any(test, target_arch = "x86_64"))]
const BLOCK_LEN: usize = 64;

/// Maximum number of inputs of [`lanes()`].
pub const LANES: usize = 16;

/// FIPS 180-4, section 5.3.3.
#[cfg(target_arch = "x86_64")]
const INITIAL: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// Round constants: FIPS 180-4, section 4.2.2.
#[cfg(target_arch = "x86_64")]
const K: [u32; 64] = [
    0x428a_2f98,
    0x7137_4491,
    0xb5c0_fbcf,
    0xe9b5_dba5,
    0x3956_c25b,
    0x59f1_11f1,
    0x923f_82a4,
    0xab1c_5ed5,
    0xd807_aa98,
    0x1283_5b01,
    0x2431_85be,
    0x550c_7dc3,
    0x72be_5d74,
    0x80de_b1fe,
    0x9bdc_06a7,
    0xc19b_f174,
    0xe49b_69c1,
    0xefbe_4786,
    0x0fc1_9dc6,
    0x240c_a1cc,
    0x2de9_2c6f,
    0x4a74_84aa,
    0x5cb0_a9dc,
    0x76f9_88da,
    0x983e_5152,
    0xa831_c66d,
    0xb003_27c8,
    0xbf59_7fc7,
    0xc6e0_0bf3,
    0xd5a7_9147,
    0x06ca_6351,
    0x1429_2967,
    0x27b7_0a85,
    0x2e1b_2138,
    0x4d2c_6dfc,
    0x5338_0d13,
    0x650a_7354,
    0x766a_0abb,
    0x81c2_c92e,
    0x9272_2c85,
    0xa2bf_e8a1,
    0xa81a_664b,
    0xc24b_8b70,
    0xc76c_51a3,
    0xd192_e819,
    0xd699_0624,
    0xf40e_3585,
    0x106a_a070,
    0x19a4_c116,
    0x1e37_6c08,
    0x2748_774c,
    0x34b0_bcb5,
    0x391c_0cb3,
    0x4ed8_aa4a,
    0x5b9c_ca4f,
    0x682e_6ff3,
    0x748f_82ee,
    0x78a5_636f,
    0x84c8_7814,
    0x8cc7_0208,
    0x90be_fffa,
    0xa450_6ceb,
    0xbef9_a3f7,
    0xc671_78f2,
];

/// SHA-256 of `one` and of `other`; `None` if the processor has no instructions that make this
/// worthwhile.
///
/// Most efficient for inputs of similar length.
#[must_use]
#[inline]
pub fn pair(one: &[u8], other: &[u8]) -> Option<[[u8; DIGEST_LEN]; 2]> {
    #[cfg(target_arch = "x86_64")]
    if pair::is_available() {
        // SAFETY: the processor has the features that the function is compiled for. The gain
        // is `sha256_pairs` beside `sha256` in the costs that `namewire bench transfer --json` prints.
        return Some(unsafe { pair::digest_pair(one, other) });
    }
    let _ = (one, other);
    None
}

/// SHA-256 of each of `inputs`, followed by unspecified digests; `None` if the processor has no
/// 512-bit vectors, if [`pair()`] would be faster because the inputs are few or one is much longer
/// than the others, or if there are more than [`LANES`].
#[must_use]
#[inline]
pub fn lanes(inputs: &[&[u8]]) -> Option<[[u8; DIGEST_LEN]; LANES]> {
    #[cfg(target_arch = "x86_64")]
    if lanes::is_available() && is_worthwhile(inputs) {
        let all = std::array::from_fn(|lane| inputs.get(lane).copied().unwrap_or_default());
        // SAFETY: the processor has the features that the function is compiled for. The gain is
        // `sha256_lanes` beside `sha256_pairs` in the costs that `namewire bench transfer --json` prints.
        return Some(unsafe { lanes::digest_lanes(all) });
    }
    let _ = inputs;
    None
}

/// Whether all lanes for the length of the longest input cost less than the inputs in pairs: a
/// block in a lane takes half the time.
#[cfg(any(test, target_arch = "x86_64"))]
fn is_worthwhile(inputs: &[&[u8]]) -> bool {
    let blocks = |input: &&[u8]| input.len() / BLOCK_LEN + 1;
    let longest = inputs.iter().map(blocks).max().unwrap_or(0);
    inputs.len() <= LANES && inputs.iter().map(blocks).sum::<usize>() > longest * (LANES / 2)
}

/// The last one or two blocks of an input: the rest and the padding.
#[cfg(target_arch = "x86_64")]
fn tail(input: &[u8]) -> ([u8; 2 * BLOCK_LEN], usize) {
    let rest = &input[input.len() - input.len() % BLOCK_LEN..];
    let mut out = [0; 2 * BLOCK_LEN];
    out[..rest.len()].copy_from_slice(rest);
    out[rest.len()] = 0x80;
    let blocks = if rest.len() + 9 > BLOCK_LEN { 2 } else { 1 };
    let bits = (input.len() as u64).wrapping_mul(8).to_be_bytes();
    out[blocks * BLOCK_LEN - 8..blocks * BLOCK_LEN].copy_from_slice(&bits);
    (out, blocks)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::io::Write;

    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const LONG: &str = "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";
    const LONG_INPUT: &[u8] = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";

    /// Printed past the test runner, which captures the output of passing tests.
    fn skipped(why: &str) {
        let _ = writeln!(std::io::stderr(), "*** SKIPPED: {why} ***");
    }

    fn hex(digest: [u8; DIGEST_LEN]) -> String {
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn pair_digests_agree_with_fips_180_4() {
        let Some([one, other]) = pair(b"abc", LONG_INPUT) else {
            return skipped("this processor has no instructions for SHA-256");
        };
        assert_eq!([hex(one), hex(other)], [ABC, LONG]);
        assert_eq!(pair(b"", b"").unwrap().map(hex), [EMPTY, EMPTY]);
    }

    #[test]
    fn lane_digests_agree_with_fips_180_4() {
        let inputs: [&[u8]; LANES] =
            std::array::from_fn(|lane| [b"abc".as_slice(), LONG_INPUT, b""][lane % 3]);
        let Some(digests) = lanes(&inputs) else {
            return skipped("this processor has no vectors of 512 bits: no lane was tested");
        };
        for (lane, digest) in digests.into_iter().enumerate() {
            assert_eq!(hex(digest), [ABC, LONG, EMPTY][lane % 3], "lane {lane}");
        }
    }

    #[test]
    fn few_or_uneven_inputs_use_pairs() {
        let inputs = [[7_u8; 1000].as_slice(); LANES + 1];
        assert!(is_worthwhile(&inputs[..LANES]) && is_worthwhile(&inputs[..LANES / 2 + 1]));
        assert!(
            !is_worthwhile(&inputs) && !is_worthwhile(&inputs[..LANES / 2]) && !is_worthwhile(&[])
        );
        let mut uneven = [[7_u8; 100].as_slice(); LANES];
        uneven[3] = &[7; 1000];
        assert!(!is_worthwhile(&uneven));
    }
}
