//! One keyed hash per name prefix, computed once per packet and used by every table.

use std::ops::Range;

use ndn_packet::NameRef;
use ndn_packet::name::{CommonComponents, NameScanner, RawComponent};
use ndn_ring::{AesHasher, Section, Sections};

use crate::sip::SipHasher;

/// Maximum number of components in a name that can be forwarded.
///
/// Every prefix length then fits one 64-bit mask, and every table is exact for every name it
/// accepts. [`NameHasher::hash_prefixes`] rejects deeper names and the forwarder counts the drop.
pub const NAME_COMPONENTS_MAX: usize = 63;

/// Room for the hashes of the deepest name: prefix lengths 0 to [`NAME_COMPONENTS_MAX`].
pub const PREFIX_HASHES_MAX: usize = NAME_COMPONENTS_MAX + 1;

/// A keyed hash over the component TLVs of a name.
///
/// The hash is keyed because names are untrusted input: without the key, nobody can direct names at
/// one bucket. All shards, the FIB writer and the dispatcher share one key. Hash values have no
/// meaning outside the process: the function is [`AesHasher`] where the processor has AES
/// instructions, otherwise SipHash-1-3.
#[derive(Clone, Copy, Debug)]
pub struct NameHasher {
    function: Function,
    /// Hash of the name without components.
    empty: u64,
}

#[derive(Clone, Copy, Debug)]
enum Function {
    Aes(AesHasher),
    Sip(SipHasher),
}

/// Longest name that [`NameHasher::hash_full_name`] accepts, longer than any packet.
const FULL_NAME_LENGTH_MAX: usize = 9216;

impl NameHasher {
    /// A hasher for a 128-bit secret key.
    #[must_use]
    pub fn new(key: [u8; 16]) -> Self {
        let sip = SipHasher::new(key);
        // SipHash of a counter stands in for independent random keys.
        let keys = std::array::from_fn(|number: usize| {
            let halves = [2 * number, 2 * number + 1].map(|half| sip.hash(&half.to_le_bytes()));
            (u128::from(halves[0]) << 64 | u128::from(halves[1])).to_le_bytes()
        });
        Self::of(AesHasher::new(keys).map_or(Function::Sip(sip), Function::Aes))
    }

    fn of(function: Function) -> Self {
        let empty = match &function {
            Function::Aes(aes) => aes.hash_sections(std::iter::empty()),
            Function::Sip(sip) => sip.hash(&[]),
        };
        Self { function, empty }
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

    /// Hash of the name without components.
    #[inline]
    #[must_use]
    pub fn hash_empty(&self) -> u64 {
        self.empty
    }

    /// [`Self::hash_prefixes`] for the value of a validated Name TLV.
    #[inline]
    pub fn hash_value_prefixes(&self, value: &[u8], hashes: &mut [u64]) -> Option<usize> {
        let mut scanner = NameScanner::new(value);
        let count = self.hash_scanned(&mut scanner, hashes);
        (count > 0 && scanner.rest().is_empty()).then_some(count)
    }

    /// [`Self::hash_prefixes`] for a name that is being parsed: hashes components until one is
    /// invalid, [`NAME_COMPONENTS_MAX`] are hashed, or `hashes` is full. Returns the number of
    /// hashes written.
    #[inline]
    pub fn hash_scanned(&self, scanner: &mut NameScanner<'_>, hashes: &mut [u64]) -> usize {
        let Some((first, longer)) = hashes.split_first_mut() else { return 0 };
        *first = self.empty;
        let room = longer.len().min(NAME_COMPONENTS_MAX);
        let longer = &mut longer[..room];
        let mut sections = ScannedSections(scanner.clone());
        let count = match &self.function {
            Function::Aes(aes) => aes.hash_prefixes(&mut sections, longer),
            Function::Sip(sip) => sip.hash_prefixes(&mut sections, longer),
        };
        *scanner = sections.0;
        count + 1
    }

    /// Validates the name whose value lies at `range` in `packet`, and writes the same hashes as
    /// [`Self::hash_prefixes`]. Returns the number of components and the last hash; `None` if `range` is not in
    /// `packet` or empty, and also when a component is not [common](CommonComponents), but perhaps valid.
    #[inline(always)]
    pub fn hash_common(
        &self,
        packet: &[u8],
        range: Range<usize>,
        hashes: &mut [u64],
    ) -> Option<(usize, u64)> {
        let length = packet.get(range.clone())?.len();
        let front = packet.get(range.start..)?;
        let (first, longer) = hashes.split_first_mut()?;
        *first = self.empty;
        let room = longer.len().min(NAME_COMPONENTS_MAX);
        let longer = &mut longer[..room];
        let (count, hash) = match &self.function {
            Function::Aes(aes) => {
                aes.hash_all_prefixes::<CommonSections<'_>>(front, length, longer)
            }
            Function::Sip(sip) => {
                let mut sections = CommonSections::within(front, 0..length);
                let count = sip.hash_prefixes(&mut sections, longer);
                let count = if sections.is_at_end() { count } else { 0 };
                (count, longer[..count].last().copied().unwrap_or_default())
            }
        };
        (count > 0).then_some((count, hash))
    }

    /// The hash of a whole name, equal to its last prefix hash; accepts any bytes.
    #[must_use]
    pub fn hash_value(&self, value: &[u8]) -> u64 {
        match &self.function {
            Function::Aes(aes) => {
                let mut sections = ScannedSections(NameScanner::new(value));
                let hash = aes.hash_sections(&mut sections);
                if sections.0.rest().is_empty() { hash } else { aes.hash(value) }
            }
            Function::Sip(sip) => sip.hash(value),
        }
    }

    /// The hash of the full name of a Data: `value` and the implicit digest.
    pub(crate) fn hash_full_name(&self, value: &[u8], digest: &[u8; 32]) -> u64 {
        let mut full_name = [0; FULL_NAME_LENGTH_MAX + DIGEST_COMPONENT_LENGTH];
        // No PIT entry can have a name longer than a packet.
        let Some(start) = full_name.get_mut(..value.len()) else { return 0 };
        start.copy_from_slice(value);
        let length = value.len() + DIGEST_COMPONENT_LENGTH;
        let Some(component) = full_name.get_mut(value.len()..length) else { return 0 };
        component[..2].copy_from_slice(&DIGEST_HEADER);
        component[2..].copy_from_slice(digest);
        self.hash_value(&full_name[..length])
    }
}

/// The components of a name, as long as they are common.
struct CommonSections<'a>(CommonComponents<'a>);

impl<'a> Iterator for CommonSections<'a> {
    type Item = Section<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Section<'a>> {
        self.0.next_component().map(section_of)
    }
}

impl<'a> Sections<'a> for CommonSections<'a> {
    #[inline(always)]
    fn within(bytes: &'a [u8], range: Range<usize>) -> Self {
        Self(CommonComponents::within(bytes, range))
    }

    #[inline(always)]
    fn is_at_end(&self) -> bool {
        self.0.is_at_end()
    }
}

/// The components of a name, as long as they are valid.
#[derive(Clone)]
struct ScannedSections<'a>(NameScanner<'a>);

impl<'a> Iterator for ScannedSections<'a> {
    type Item = Section<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Section<'a>> {
        self.0.next_component().map(section_of)
    }
}

#[inline(always)]
fn section_of(component: RawComponent<'_>) -> Section<'_> {
    match component {
        RawComponent::Short { block, len } => Section::Short { block, len },
        RawComponent::Long(wire) => Section::Long(wire),
    }
}

/// A component TLV of an implicit digest starts with its type and length.
const DIGEST_HEADER: [u8; 2] = [1, 32];

/// Bytes of an ImplicitSha256Digest component: type, length, digest.
pub(crate) const DIGEST_COMPONENT_LENGTH: usize = 2 + 32;

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

    type OneShot = Box<dyn Fn(&[u8]) -> u64>;

    /// Both hash functions, each with its one-shot form.
    fn hashers() -> [(NameHasher, OneShot); 2] {
        let aes = NameHasher::new(KEY);
        let sip = NameHasher::of(Function::Sip(SipHasher::new(KEY)));
        [(aes, Box::new(move |bytes| aes.hash_value(bytes))), (sip, Box::new(reference))]
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
            for (hasher, reference) in hashers() {
                let mut value = Vec::new();
                let mut expected = vec![reference(&[])];
                for (kind, bytes) in &components {
                    // Digest components of any other length are invalid.
                    let digest = [bytes.first().copied().unwrap_or_default(); 32];
                    let bytes = if *kind <= 2 { &digest[..] } else { bytes };
                    value.extend(component(*kind, bytes));
                    expected.push(reference(&value));
                }
                let mut hashes = [0; PREFIX_HASHES_MAX];
                let count = hasher.hash_value_prefixes(&value, &mut hashes);
                prop_assert_eq!(count, Some(expected.len()));
                prop_assert_eq!(&hashes[..expected.len()], &expected[..]);
                prop_assert_eq!(hasher.hash_value(&value), expected[components.len()]);
            }
        }
    }

    proptest! {
        #[test]
        fn common_names_have_the_same_hashes_anywhere_in_a_packet(
            components in proptest::collection::vec(
                (3..=252_u16, proptest::collection::vec(any::<u8>(), 0..=252)), 0..=NAME_COMPONENTS_MAX),
            before in 0..5_usize,
            behind in 0..20_usize,
        ) {
            let mut value = Vec::new();
            let mut ends = vec![0];
            for (kind, bytes) in &components {
                value.extend(component(*kind, bytes));
                ends.push(value.len());
            }
            let packet = [&vec![8; before][..], &value, &vec![8; behind]].concat();
            for (hasher, reference) in hashers() {
                let mut hashes = [0; PREFIX_HASHES_MAX];
                let found = hasher.hash_common(&packet, before..before + value.len(), &mut hashes);
                let expected: Vec<_> = ends.iter().map(|&end| reference(&value[..end])).collect();
                let count = components.len();
                prop_assert_eq!(found, (count > 0).then_some((count, expected[count])));
                prop_assert_eq!(&hashes[..expected.len()], &expected[..]);
            }
        }
    }

    #[test]
    fn names_with_unusual_types_take_the_general_hash_path() {
        let common = component(8, b"a");
        let mut others = vec![component(8, &[0x41; 253]), vec![8, 253, 0, 1, 0x41]];
        others.extend([0, 1, 2, 253, 254, 255, 256].map(|kind| component(kind, &[7; 32])));
        // Valid if a byte from 253 on were a type or a length.
        others.extend([vec![253, 0], vec![255, 0], [&[8, 253][..], &[0x41; 253]].concat()]);
        // Valid together with what follows the name.
        others.extend([vec![8], vec![8, 2, 0]]);
        for (hasher, _) in hashers() {
            let mut hashes = [0; PREFIX_HASHES_MAX];
            for other in &others {
                for value in [[other, &common[..]].concat(), [&common, &other[..]].concat()] {
                    let packet = [&value[..], &[8; 20]].concat();
                    let count = hasher.hash_common(&packet, 0..value.len(), &mut hashes);
                    assert_eq!(count, None, "{value:x?}");
                }
            }
            let deepest = [8, 0].repeat(NAME_COMPONENTS_MAX);
            let whole = |value: &[u8], hashes: &mut [u64]| {
                let packet = [value, &[8; 20]].concat();
                hasher.hash_common(&packet, 0..value.len(), hashes).map(|(count, _)| count)
            };
            assert_eq!(whole(&deepest, &mut hashes), Some(NAME_COMPONENTS_MAX));
            assert_eq!(whole(&[8, 0].repeat(64), &mut [0; 100]), None, "too deep");
            assert_eq!(whole(&[8, 0, 8, 0], &mut [0; 2]), None, "no room");
            assert_eq!(whole(&[8, 0], &mut []), None, "no room at all");
            assert_eq!(hasher.hash_common(&common, 0..9, &mut hashes), None, "beyond the packet");
            assert_eq!(hasher.hash_common(&common, 9..9, &mut hashes), None, "behind the packet");
        }
    }

    #[test]
    fn names_with_short_last_words_are_hashed_correctly() {
        for (hasher, reference) in hashers() {
            for length in 0..40 {
                let value = component(8, &vec![0xA5; length]);
                let mut hashes = [0; 2];
                assert_eq!(hasher.hash_value_prefixes(&value, &mut hashes), Some(2));
                assert_eq!(hashes, [reference(&[]), reference(&value)]);
            }
        }
    }

    #[test]
    fn hash_does_not_depend_on_alignment() {
        for (hasher, reference) in hashers() {
            for length in 0..40 {
                let value = [component(8, b"a"), component(8, &vec![0xA5; length])].concat();
                for behind in 0..20 {
                    let packet = [&[7, 45][..], &value, &vec![0xFF; behind]].concat();
                    let mut scanner = NameScanner::within(&packet, 2..2 + value.len());
                    let mut hashes = [0; 3];
                    assert_eq!(hasher.hash_scanned(&mut scanner, &mut hashes), 3);
                    assert_eq!(scanner.rest(), []);
                    assert_eq!(hashes[2], reference(&value));
                    let mut common = [0; 3];
                    let range = 2..2 + value.len();
                    let found = hasher.hash_common(&packet, range, &mut common);
                    assert_eq!(found, Some((2, common[2])));
                    assert_eq!(common, hashes);
                }
            }
        }
    }

    #[test]
    fn arbitrary_bytes_can_be_hashed() {
        for (hasher, _) in hashers() {
            let mut seen = std::collections::BTreeSet::new();
            for length in 0..40 {
                for first in [0, 8, 0xFF] {
                    let mut bytes = vec![0; length];
                    bytes.iter_mut().take(1).for_each(|byte| *byte = first);
                    let is_new = seen.insert(hasher.hash_value(&bytes));
                    assert_eq!(is_new, length > 0 || first == 0, "{bytes:?}");
                }
            }
        }
    }

    #[test]
    fn full_name_hash_equals_prefix_hash() {
        let digest = std::array::from_fn(|position| u8::try_from(position * 7).unwrap());
        for (hasher, reference) in hashers() {
            for length in 0..300 {
                let value = component(8, &vec![0x5A; length]);
                let full_name = [&value[..], &component(1, &digest)].concat();
                assert_eq!(hasher.hash_full_name(&value, &digest), reference(&full_name));
            }
            assert_eq!(hasher.hash_full_name(&[8; 9300], &digest), 0);
        }
    }

    #[test]
    fn keys_change_every_hash() {
        let name = component(8, b"name");
        for make in [NameHasher::new, |key| NameHasher::of(Function::Sip(SipHasher::new(key)))] {
            let mut seen = std::collections::BTreeSet::new();
            for bit in 0..128 {
                let hasher = make((1_u128 << bit).to_le_bytes());
                assert!(seen.insert(hasher.hash_value(&name)) && seen.insert(hasher.empty));
            }
        }
    }

    #[test]
    fn too_deep_and_malformed_names_are_rejected() {
        for (hasher, _) in hashers() {
            let mut hashes = [0; PREFIX_HASHES_MAX];
            let deepest = [8, 0].repeat(NAME_COMPONENTS_MAX);
            let count = hasher.hash_value_prefixes(&deepest, &mut hashes);
            assert_eq!(count, Some(PREFIX_HASHES_MAX));
            assert_eq!(hasher.hash_value_prefixes(&[8, 0].repeat(64), &mut [0; 100]), None);
            assert_eq!(hasher.hash_value_prefixes(&[8, 0, 8, 0], &mut hashes[..2]), None);
            for malformed in [&[8][..], &[8, 2, 0], &[8, 0xFD, 1], &[0xFF, 0, 0, 0]] {
                assert_eq!(hasher.hash_value_prefixes(malformed, &mut hashes), None);
            }
        }
    }
}
