//! Names, unrelated or of segments, and the packets that carry them.

use ndn_packet::tlv::{Writer, tlv_len};
use ndn_packet::types;

/// Names in use before they repeat: 2^24.
const NAME_BITS: u32 = 24;
const NAME_MASK: u64 = (1 << NAME_BITS) - 1;

/// Files that are transferred at the same time, and segments of each.
const FILES: u64 = 8;
const SEGMENTS: u64 = 1024;

/// Type of a segment component, and the first number that takes two bytes.
const SEGMENT: u8 = 50;
const FIRST_SEGMENT: u64 = 256;

/// The order of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameOrder {
    /// Unrelated names: no two that are close in time have more than their route in common.
    Random,
    /// Eight files at a time, the segments of each in order.
    Segments,
}

/// The shape of the names of a case; all have the same length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NameShape {
    /// At least 4.
    pub(crate) components: usize,
    /// Prefixes of two components that have a route.
    pub(crate) prefix_count: u32,
    pub(crate) order: NameOrder,
}

impl NameShape {
    /// Returns the value of the Name TLV of name `sequence`. There are at least 2^24 different ones.
    pub(crate) fn name(&self, sequence: u64) -> NameValue {
        match self.order {
            NameOrder::Random => {
                let id = permute(sequence & NAME_MASK);
                let mut name = self.object(id);
                name.push_number::<7, 10>(b"", id % 9_999_991);
                name
            }
            NameOrder::Segments => {
                let (file, index) = (sequence % FILES, sequence / FILES);
                let mut name = self.object(permute((index / SEGMENTS * FILES + file) & NAME_MASK));
                let segment = u16::try_from(FIRST_SEGMENT + index % SEGMENTS).unwrap_or(u16::MAX);
                name.push(SEGMENT, &segment.to_be_bytes());
                name
            }
        }
    }

    /// Bytes of the last component of a name.
    pub(crate) fn last_component_length(&self) -> usize {
        match self.order {
            NameOrder::Random => 9,
            NameOrder::Segments => 4,
        }
    }

    /// All but the last component of a name.
    fn object(&self, id: u64) -> NameValue {
        let mut name = self.prefix(id % u64::from(self.prefix_count));
        for _ in 4..self.components {
            name.push_component(b"part00");
        }
        name.push_number::<12, 16>(b"", (id * 0x5851_F42D) & 0xFFFF_FFFF_FFFF);
        name
    }

    /// Returns the prefix of route `index`.
    #[expect(clippy::unused_self, reason = "names of all shapes begin alike")]
    pub(crate) fn prefix(&self, index: u64) -> NameValue {
        let mut name = NameValue { bytes: [0; NAME_LENGTH_MAX], length: 0 };
        name.push_component(b"bench");
        name.push_number::<7, 10>(b"p", index);
        name
    }
}

/// Maximum length of a name.
const NAME_LENGTH_MAX: usize = 128;

/// The value of a Name TLV, built without allocation: packets are built just before the shard gets them, and this
/// should leave few traces in the caches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NameValue {
    bytes: [u8; NAME_LENGTH_MAX],
    length: usize,
}

impl NameValue {
    /// Appends a generic component.
    fn push_component(&mut self, value: &[u8]) {
        self.push(8, value);
    }

    /// Appends a component of this type.
    fn push(&mut self, ty: u8, value: &[u8]) {
        let header = [ty, u8::try_from(value.len()).expect("a short component")];
        for part in [&header, value] {
            self.bytes[self.length..self.length + part.len()].copy_from_slice(part);
            self.length += part.len();
        }
    }

    /// Appends a component of `prefix` and `DIGITS` digits to the base `BASE`.
    fn push_number<const DIGITS: usize, const BASE: u64>(&mut self, prefix: &[u8], number: u64) {
        let mut value = [0; 16];
        value[..prefix.len()].copy_from_slice(prefix);
        let mut rest = number;
        let length = prefix.len() + DIGITS;
        for place in value[prefix.len()..length].iter_mut().rev() {
            *place = b"0123456789abcdef"[usize::try_from(rest % BASE).unwrap_or(0)];
            rest /= BASE;
        }
        self.push_component(&value[..length]);
    }
}

impl std::ops::Deref for NameValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A bijective scattering of the numbers below 2^24.
fn permute(number: u64) -> u64 {
    let mut mixed = number;
    for factor in [0x9E_3779, 0xC2_B2AF, 0x27_D4EB] {
        mixed = (mixed * (factor | 1)) & NAME_MASK;
        mixed ^= mixed >> 13;
    }
    mixed
}

/// Template of Interests of one length, whose name and Nonce are replaced.
#[derive(Debug)]
pub(crate) struct InterestTemplate {
    wire: Vec<u8>,
    name_start: usize,
    name_length: usize,
    nonce_start: usize,
}

impl InterestTemplate {
    pub(crate) fn new(name: &[u8], can_be_prefix: bool) -> Self {
        let selectors = if can_be_prefix { 2 } else { 0 };
        let value_length = tlv_len(types::NAME, name.len()) + selectors + 6 + 4;
        let mut wire = vec![0; tlv_len(types::INTEREST, value_length)];
        let name_start = wire.len() - value_length + 2;
        let mut writer = Writer::new(&mut wire);
        let written = (|| {
            writer.header(types::INTEREST, value_length)?;
            writer.tlv(types::NAME, name)?;
            if can_be_prefix {
                writer.tlv(types::CAN_BE_PREFIX, &[])?;
            }
            writer.tlv(types::NONCE, &[0; 4])?;
            writer.number(types::INTEREST_LIFETIME, 4000)
        })();
        written.expect("the buffer has the right size");
        let nonce_start = wire.len() - 8;
        Self { wire, name_start, name_length: name.len(), nonce_start }
    }

    pub(crate) fn len(&self) -> usize {
        self.wire.len()
    }

    /// Returns the range of the Name's value.
    pub(crate) fn name_range(&self) -> std::ops::Range<usize> {
        self.name_start..self.name_start + self.name_length
    }

    /// Returns the offset of the Nonce.
    pub(crate) fn nonce_start(&self) -> usize {
        self.nonce_start
    }

    /// Writes the Interest for `name`, which must have the length of the template's.
    pub(crate) fn write(&self, name: &[u8], nonce: u32, out: &mut [u8]) {
        out[..self.wire.len()].copy_from_slice(&self.wire);
        out[self.name_range()].copy_from_slice(name);
        out[self.nonce_start..self.nonce_start + 4].copy_from_slice(&nonce.to_be_bytes());
    }
}

/// Template of Data of one length, whose name and a part of the content are replaced.
#[derive(Debug)]
pub(crate) struct DataTemplate {
    wire: Vec<u8>,
    name_start: usize,
    name_length: usize,
    content_start: usize,
}

impl DataTemplate {
    pub(crate) fn new(name: &[u8], payload: usize) -> Self {
        const META_INFO: &[u8] = &[25, 2, 0x27, 0x10];
        const SIGNATURE_INFO: &[u8] = &[27, 1, 0];
        let after = tlv_len(types::SIGNATURE_INFO, SIGNATURE_INFO.len()) + 34;
        let value_length = tlv_len(types::NAME, name.len())
            + tlv_len(types::META_INFO, META_INFO.len())
            + tlv_len(types::CONTENT, payload)
            + after;
        let mut wire = vec![0; tlv_len(types::DATA, value_length)];
        let name_start = wire.len() - value_length + 2;
        let content_start = wire.len() - after - payload;
        let content: Vec<u8> = (0..payload).map(|i| i.to_le_bytes()[0]).collect();
        let mut writer = Writer::new(&mut wire);
        let written = (|| {
            writer.header(types::DATA, value_length)?;
            writer.tlv(types::NAME, name)?;
            writer.tlv(types::META_INFO, META_INFO)?;
            writer.tlv(types::CONTENT, &content)?;
            writer.tlv(types::SIGNATURE_INFO, SIGNATURE_INFO)?;
            writer.tlv(types::SIGNATURE_VALUE, &[7; 32])
        })();
        written.expect("the buffer has the right size");
        Self { wire, name_start, name_length: name.len(), content_start }
    }

    pub(crate) fn len(&self) -> usize {
        self.wire.len()
    }

    /// Returns the range of the Name's value.
    pub(crate) fn name_range(&self) -> std::ops::Range<usize> {
        self.name_start..self.name_start + self.name_length
    }

    /// Writes the Data of `name`, which must have the length of the template's.
    pub(crate) fn write(&self, name: &[u8], sequence: u64, out: &mut [u8]) {
        out[..self.wire.len()].copy_from_slice(&self.wire);
        out[self.name_range()].copy_from_slice(name);
        out[self.content_start..self.content_start + 8].copy_from_slice(&sequence.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutation_is_a_bijection() {
        let mut seen = vec![false; 1 << NAME_BITS];
        for number in 0..1 << NAME_BITS {
            let place = usize::try_from(permute(number)).unwrap();
            assert!(!std::mem::replace(&mut seen[place], true));
        }
    }

    #[test]
    fn templates_give_valid_packets() {
        for components in [4, 7, 13] {
            let order = if components == 13 { NameOrder::Segments } else { NameOrder::Random };
            let shape = NameShape { components, prefix_count: 10_000, order };
            let (first, other) = (shape.name(0), shape.name(77));
            assert_eq!(first.len(), other.len());
            let mut wire = [0; 2000];
            let template = InterestTemplate::new(&first, components == 7);
            template.write(&other, 0xABCD_EF01, &mut wire);
            let interest = ndn_packet::Interest::parse(&wire[..template.len()]).unwrap();
            assert_eq!(interest.name().value(), &*other);
            assert_eq!(interest.name().len(), components);
            assert_eq!(interest.can_be_prefix(), components == 7);
            assert_eq!((interest.nonce(), interest.lifetime_ms()), (Some(0xABCD_EF01), 4000));
            let template = DataTemplate::new(&first, 1000);
            template.write(&other, 5, &mut wire);
            let data = ndn_packet::Data::parse(&wire[..template.len()]).unwrap();
            assert_eq!(data.name().value(), &*other);
            assert_eq!(data.content().unwrap().len(), 1000);
            assert_eq!(data.freshness_ms(), Some(10_000));
        }
        let shape = NameShape { components: 4, prefix_count: 1, order: NameOrder::Random };
        assert_eq!(shape.name(1).len(), 40);
    }

    #[test]
    fn files_take_turns_and_their_segments_ascend() {
        let shape = NameShape { components: 4, prefix_count: 10, order: NameOrder::Segments };
        let split = |sequence| {
            let name = shape.name(sequence).to_vec();
            let (file, segment) = name.split_at(name.len() - shape.last_component_length());
            (file.to_vec(), segment.to_vec())
        };
        let (first, others) = (split(0), split(1));
        assert_ne!(first.0, others.0);
        assert_eq!(split(FILES), (first.0.clone(), vec![SEGMENT, 2, 1, 1]));
        assert_eq!(split(FILES * (SEGMENTS - 1)), (first.0.clone(), vec![SEGMENT, 2, 4, 255]));
        assert_ne!(split(FILES * SEGMENTS).0, first.0, "the next file");
        assert_eq!(first.1, vec![SEGMENT, 2, 1, 0]);
    }
}
