//! The parser of elements in their usual order against the one that takes any.

use proptest::prelude::*;

use crate::error::DecodeError;
use crate::interest::Interest;
use crate::name::Component;
use crate::testing::tlv;
use crate::tlv::Reader;
use crate::{ComponentType, types};

/// Components, of which some are not valid.
fn component() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => (0..17_usize).prop_map(|length| tlv(8, &vec![7; length])),
        1 => Just(tlv(1, &[9; 32])),
        1 => Just(tlv(2, &[9; 32])),
        1 => prop_oneof![Just(tlv(1, &[0])), Just(tlv(2, &[])), Just(vec![0, 0])],
        1 => prop_oneof![Just(tlv(253, &[7])), Just(vec![253, 0, 252, 1, 7]), Just(tlv(252, &[7]))],
        1 => Just(vec![8, 253, 0, 3, 1, 2, 3]),
    ]
}

/// Elements behind the name, of which some are not valid.
const ELEMENTS: [&[u8]; 16] = [
    &[33, 0],
    &[33, 1, 0],
    &[18, 0],
    &[30, 3, 7, 1, 8],
    &[30, 5, 7, 3, 8, 1, 9],
    &[10, 4, 1, 2, 3, 4],
    &[10, 3, 1, 2, 3],
    &[12, 1, 9],
    &[12, 2, 1, 0],
    &[12, 3, 1, 2, 3],
    &[12, 8, 0, 0, 0, 0, 0, 0, 0, 9],
    &[34, 1, 5],
    &[34, 2, 5, 5],
    &[36, 0],
    &[252, 1, 0],
    &[241, 1, 0],
];

/// Parses without the short way, and checks the name component by component.
fn parse_slowly(wire: &[u8]) -> Result<Interest<'_>, DecodeError> {
    let outer = Reader::new(wire).read_only(types::INTEREST)?;
    let interest = Interest::any_elements(wire, outer.value_offset())?;
    let name = interest.name_value_range();
    let mut components = Reader::at(&wire[..name.end], name.start);
    let (mut count, mut parameters_digests, mut ends_in_digest) = (0, 0, false);
    while let Some(element) = components.next_tlv()? {
        let component = Component::from_tlv(&element)?;
        count += 1;
        ends_in_digest = component.ty() == ComponentType::IMPLICIT_SHA256_DIGEST;
        parameters_digests += u32::from(component.ty() == ComponentType::PARAMETERS_SHA256_DIGEST);
    }
    assert_eq!(interest.name().len(), count);
    assert_eq!(interest.name_ends_in_implicit_digest(), ends_in_digest);
    if count == 0 || parameters_digests > 1 {
        return Err(DecodeError::EmptyName { offset: 0 });
    }
    Ok(interest)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn both_ways_of_parsing_agree(
        components in proptest::collection::vec(component(), 0..5),
        mut elements in proptest::collection::vec(0..ELEMENTS.len(), 0..6),
        is_sorted in any::<bool>(),
        flipped in proptest::option::of(any::<(usize, u8)>()),
    ) {
        if is_sorted {
            elements.sort_unstable();
        }
        let mut value = tlv(types::NAME, &components.concat());
        elements.iter().for_each(|&element| value.extend(ELEMENTS[element]));
        let mut wire = tlv(types::INTEREST, &value);
        if let Some((place, bit)) = flipped {
            let place = place % wire.len();
            wire[place] ^= 1 << (bit % 8);
        }
        let (fast, slow) = (Interest::parse(&wire), parse_slowly(&wire));
        prop_assert_eq!(fast.is_ok(), slow.is_ok(), "{:?} {:?}", fast, slow);
        if let (Ok(fast), Ok(slow)) = (fast, slow) {
            prop_assert_eq!(format!("{fast:?}"), format!("{slow:?}"));
        }
    }
}
