//! How the names of an entry that was split are told apart.

use ndn_packet::NameRef;

/// Segments that stay together: a run of them is read from one upstream, and cached in one shard.
const RUN_BITS: u32 = 6;

/// The hash of the first `depth` components of a name. If the last of them is a Segment or a
/// ByteOffset, its number counts in runs of 64.
pub(super) fn hash(name: NameRef<'_>, hashes: &[u64], depth: usize) -> u64 {
    let last = depth.checked_sub(1).and_then(|last| Some((last, name.component(last)?)));
    let Some((parent, component)) = last else { return hashes[depth] };
    let number = component.as_segment().or_else(|| component.as_byte_offset());
    match number {
        Some(number) => mix(hashes[parent], number >> RUN_BITS),
        None => hashes[depth],
    }
}

/// Spreads runs over all entries. The hash is keyed, so nobody can tell which.
fn mix(hash: u64, run: u64) -> u64 {
    let mut mixed = hash.wrapping_add(run.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
