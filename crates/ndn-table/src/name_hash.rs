//! One keyed hash per name prefix, computed once per packet and used by every table.

use ndn_packet::NameRef;

use crate::sip::SipState;

/// Most components a name may have to be hashed, and so to be forwarded at all.
///
/// Every prefix length then fits one 64-bit mask, and every table is exact for every name it
/// accepts. Deeper names exist in attacks only: [`NameHasher::hash_prefixes`] refuses them and
/// the forwarder counts the drop.
pub const NAME_COMPONENTS_MAX: usize = 63;

/// Room for the hashes of the deepest name: prefix lengths 0 to [`NAME_COMPONENTS_MAX`].
pub const PREFIX_HASHES_MAX: usize = NAME_COMPONENTS_MAX + 1;

/// Keyed SipHash-1-3 over the component TLVs of a name.
///
/// Keyed because names come from strangers: without the key nobody can aim names at one bucket.
/// All shards, the FIB writer and the dispatcher share one key.
#[derive(Clone, Copy, Debug)]
pub struct NameHasher {
    initial: SipState,
    /// Hash of the name without components.
    empty: u64,
}

impl NameHasher {
    /// A hasher for a 128-bit secret key.
    #[must_use]
    pub fn new(key: [u8; 16]) -> Self {
        let [low, high] = [&key[..8], &key[8..]].map(little_endian_word);
        let initial = SipState::new(low, high);
        Self { initial, empty: initial.finish(0) }
    }

    /// Writes the hash of the first `i` components of `name` to `hashes[i]`, for `i` from 0 to
    /// the number of components, and returns how many were written (components + 1).
    ///
    /// `None` when the name has more than [`NAME_COMPONENTS_MAX`] components or more than
    /// `hashes` has room for; the content of `hashes` is then unspecified.
    #[inline]
    pub fn hash_prefixes(&self, name: NameRef<'_>, hashes: &mut [u64]) -> Option<usize> {
        self.hash_value_prefixes(name.value(), hashes)
    }

    /// [`Self::hash_prefixes`] for the value of a Name TLV that has been validated before.
    #[inline]
    pub fn hash_value_prefixes(&self, value: &[u8], hashes: &mut [u64]) -> Option<usize> {
        let (first, longer) = hashes.split_first_mut()?;
        *first = self.empty;
        let mut state = self.initial;
        let mut absorbed = 0;
        let mut end = 0;
        let mut count = 1;
        for hash in longer.iter_mut().take(NAME_COMPONENTS_MAX) {
            if end == value.len() {
                return Some(count);
            }
            end = component_end(value, end)?;
            while absorbed + 8 <= end {
                state.absorb(little_endian_word(&value[absorbed..absorbed + 8]));
                absorbed += 8;
            }
            *hash = state.finish(last_word(value, absorbed, end));
            count += 1;
        }
        (end == value.len()).then_some(count)
    }

    /// The hash of a whole name.
    #[must_use]
    pub fn hash_value(&self, value: &[u8]) -> u64 {
        let mut state = self.initial;
        let mut words = value.chunks_exact(8);
        for word in &mut words {
            state.absorb(little_endian_word(word));
        }
        state.finish(last_word(value, value.len() - words.remainder().len(), value.len()))
    }

    /// The hash of the full name of a Data: `value` and the implicit digest.
    pub(crate) fn hash_full_name(&self, value: &[u8], digest: &[u8; 32]) -> u64 {
        let mut state = self.initial;
        let mut words = value.chunks_exact(8);
        for word in &mut words {
            state.absorb(little_endian_word(word));
        }
        let rest = words.remainder();
        let mut tail = [0; 7 + 2 + 32];
        let tail_length = rest.len() + 2 + 32;
        let (from_value, component) = tail[..tail_length].split_at_mut(rest.len());
        from_value.copy_from_slice(rest);
        component[..2].copy_from_slice(&DIGEST_HEADER);
        component[2..].copy_from_slice(digest);
        let mut words = tail[..tail_length].chunks_exact(8);
        for word in &mut words {
            state.absorb(little_endian_word(word));
        }
        let last =
            words.remainder().iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        state.finish(((value.len() + 2 + 32) as u64) << 56 | last)
    }
}

/// A component TLV of an implicit digest starts with its type and length.
const DIGEST_HEADER: [u8; 2] = [1, 32];

/// The final SipHash word of a message `value[..end]` of which `absorbed` bytes are taken in.
#[inline(always)]
fn last_word(value: &[u8], absorbed: usize, end: usize) -> u64 {
    let length = (end as u64) << 56;
    let rest = end - absorbed;
    if rest == 0 {
        return length;
    }
    let tail = if let Some(bytes) = value.get(absorbed..absorbed + 8) {
        little_endian_word(bytes) & (u64::MAX >> (64 - 8 * rest))
    } else if end >= 8 {
        little_endian_word(&value[end - 8..end]) >> (64 - 8 * rest)
    } else {
        value[absorbed..end].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
    };
    length | tail
}

#[inline(always)]
fn little_endian_word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// End of the component TLV that starts at `start`, `None` where the value is malformed.
#[inline(always)]
pub(crate) fn component_end(value: &[u8], start: usize) -> Option<usize> {
    let end = match value.get(start..start + 2) {
        Some(&[kind, length]) if kind < 0xFD && length < 0xFD => start + 2 + usize::from(length),
        _ => long_component_end(value, start)?,
    };
    (end <= value.len()).then_some(end)
}

#[cold]
fn long_component_end(value: &[u8], start: usize) -> Option<usize> {
    let (_, start) = var_number(value, start)?;
    let (length, start) = var_number(value, start)?;
    start.checked_add(length)
}

/// The VAR-NUMBER at `start` and the position after it.
fn var_number(value: &[u8], start: usize) -> Option<(usize, usize)> {
    let first = *value.get(start)?;
    let width = match first {
        0xFD => 2,
        0xFE => 4,
        0xFF => 8,
        _ => return Some((usize::from(first), start + 1)),
    };
    let bytes = value.get(start + 1..start + 1 + width)?;
    let number = bytes.iter().fold(0_u64, |number, &byte| number << 8 | u64::from(byte));
    Some((usize::try_from(number).ok()?, start + 1 + width))
}

#[cfg(test)]
mod tests {
    use std::hash::Hasher;

    use proptest::prelude::*;
    use siphasher::sip::SipHasher13;

    use super::*;

    const KEY: [u8; 16] = *b"0123456789abcdef";

    fn reference(bytes: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&KEY);
        hasher.write(bytes);
        hasher.finish()
    }

    fn component(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for number in [usize::from(kind), value.len()] {
            match u8::try_from(number) {
                Ok(byte) if byte < 0xFD => out.push(byte),
                _ => {
                    out.push(0xFD);
                    out.extend(u16::try_from(number).unwrap().to_be_bytes());
                }
            }
        }
        out.extend(value);
        out
    }

    proptest! {
        #[test]
        fn every_prefix_equals_the_one_shot_hash(
            components in proptest::collection::vec(
                (1..=65535_u16, proptest::collection::vec(any::<u8>(), 0..300)), 0..=NAME_COMPONENTS_MAX)
        ) {
            let mut value = Vec::new();
            let mut expected = vec![reference(&[])];
            for (kind, bytes) in &components {
                value.extend(component(*kind, bytes));
                expected.push(reference(&value));
            }
            let hasher = NameHasher::new(KEY);
            let mut hashes = [0; PREFIX_HASHES_MAX];
            let count = hasher.hash_value_prefixes(&value, &mut hashes);
            prop_assert_eq!(count, Some(expected.len()));
            prop_assert_eq!(&hashes[..expected.len()], &expected[..]);
            prop_assert_eq!(hasher.hash_value(&value), expected[components.len()]);
        }
    }

    #[test]
    fn short_tails_at_the_end_of_the_value() {
        let hasher = NameHasher::new(KEY);
        for length in 0..40 {
            let value = component(8, &vec![0xA5; length]);
            let mut hashes = [0; 2];
            assert_eq!(hasher.hash_value_prefixes(&value, &mut hashes), Some(2));
            assert_eq!(hashes, [reference(&[]), reference(&value)]);
        }
    }

    #[test]
    fn full_names_hash_like_any_other() {
        let hasher = NameHasher::new(KEY);
        let digest = std::array::from_fn(|place| u8::try_from(place * 7).unwrap());
        for length in 0..300 {
            let value = component(8, &vec![0x5A; length]);
            let full_name = [&value[..], &component(1, &digest)].concat();
            assert_eq!(hasher.hash_full_name(&value, &digest), reference(&full_name));
        }
    }

    #[test]
    fn too_deep_and_malformed_names_are_refused() {
        let hasher = NameHasher::new(KEY);
        let mut hashes = [0; PREFIX_HASHES_MAX];
        let deepest = [8, 0].repeat(NAME_COMPONENTS_MAX);
        assert_eq!(hasher.hash_value_prefixes(&deepest, &mut hashes), Some(PREFIX_HASHES_MAX));
        assert_eq!(hasher.hash_value_prefixes(&[8, 0].repeat(64), &mut [0; 100]), None);
        assert_eq!(hasher.hash_value_prefixes(&[8, 0, 8, 0], &mut hashes[..2]), None);
        for malformed in [&[8][..], &[8, 2, 0], &[8, 0xFD, 1], &[0xFF, 0, 0, 0]] {
            assert_eq!(hasher.hash_value_prefixes(malformed, &mut hashes), None);
        }
    }
}
