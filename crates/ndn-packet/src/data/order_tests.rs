//! The parser of elements in their usual order against the one that takes any.

use proptest::prelude::*;

use crate::data::Data;
use crate::testing::tlv;
use crate::tlv::Reader;
use crate::types;

/// Elements of MetaInfo, of which some are not valid.
const META_INFO: [&[u8]; 10] = [
    &[24, 1, 0],
    &[24, 2, 1, 0],
    &[24, 0],
    &[25, 1, 9],
    &[25, 3, 1, 2, 3],
    &[26, 3, 8, 1, 9],
    &[26, 0],
    &[26, 6, 8, 1, 9, 8, 1, 9],
    &[200, 0],
    &[29, 0],
];

/// Elements behind MetaInfo, of which some are not valid.
const ELEMENTS: [&[u8]; 9] = [
    &[21, 2, 0, 0],
    &[21, 0],
    &[21, 253, 0, 1, 0],
    &[22, 3, 27, 1, 0],
    &[22, 0],
    &[23, 1, 9],
    &[23, 0],
    &[252, 0],
    &[241, 0],
];

fn pieces(of: &[&[u8]], mut which: Vec<usize>, is_sorted: bool) -> Vec<u8> {
    if is_sorted {
        which.sort_unstable();
    }
    which.iter().flat_map(|&piece| of[piece].to_vec()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn both_ways_of_parsing_agree(
        meta_info in proptest::option::of(proptest::collection::vec(0..META_INFO.len(), 0..4)),
        elements in proptest::collection::vec(0..ELEMENTS.len(), 2..6),
        is_sorted in any::<(bool, bool)>(),
        flipped in proptest::option::of(any::<(usize, u8)>()),
    ) {
        let mut value = tlv(types::NAME, &[8, 1, 97]);
        if let Some(meta_info) = meta_info {
            value.extend(tlv(types::META_INFO, &pieces(&META_INFO, meta_info, is_sorted.0)));
        }
        value.extend(pieces(&ELEMENTS, elements, is_sorted.1));
        let mut wire = tlv(types::DATA, &value);
        if let Some((place, bit)) = flipped {
            let place = place % wire.len();
            wire[place] ^= 1 << (bit % 8);
        }
        let fast = Data::parse(&wire);
        let slow = Reader::new(&wire)
            .read_only(types::DATA)
            .and_then(|outer| Data::any_elements(&wire, outer.value_offset()));
        prop_assert_eq!(fast.is_ok(), slow.is_ok(), "{:?} {:?}", fast, slow);
        if let (Ok(fast), Ok(slow)) = (fast, slow) {
            prop_assert_eq!(format!("{fast:?}"), format!("{slow:?}"));
        }
    }
}
