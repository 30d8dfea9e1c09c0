//! No decoder panics, whatever the bytes; what decodes encodes to something that decodes the same.

use proptest::prelude::*;

use crate::dataset::{
    ChannelStatus, CsInfo, DatasetItem, FaceEventNotification, FaceQueryFilter, FaceStatus,
    FibEntry, ForwarderStatus, NextHopRecord, RibEntry, RouteRecord, StrategyChoice,
    decode_dataset,
};
use crate::{ControlParameters, ControlResponse};
use ndn_types::FaceUri;

fn check<T: DatasetItem + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    if let Ok(item) = T::decode(bytes) {
        assert_eq!(T::decode(&item.to_vec()), Ok(item));
    }
    let _ = decode_dataset::<T>(bytes).map(|items| items.len());
}

fn check_all(bytes: &[u8]) {
    check::<ChannelStatus>(bytes);
    check::<CsInfo>(bytes);
    check::<FaceEventNotification>(bytes);
    check::<FaceQueryFilter>(bytes);
    check::<FaceStatus>(bytes);
    check::<FibEntry>(bytes);
    check::<NextHopRecord>(bytes);
    check::<RibEntry>(bytes);
    check::<RouteRecord>(bytes);
    check::<StrategyChoice>(bytes);
    if let Ok(status) = ForwarderStatus::decode(bytes) {
        assert_eq!(ForwarderStatus::decode(&status.to_vec()), Ok(status));
    }
    if let Ok(parameters) = ControlParameters::decode(bytes) {
        assert_eq!(ControlParameters::decode(&parameters.to_vec()), Ok(parameters));
    }
    if let Ok(response) = ControlResponse::decode(bytes) {
        assert_eq!(ControlResponse::decode(&response.to_vec()), Ok(response));
    }
}

/// Nested elements of the types that occur, so that the inner decoders are reached.
fn any_block() -> impl Strategy<Value = Vec<u8>> {
    let types = prop::sample::select(vec![
        7_u32, 8, 101, 102, 103, 104, 105, 106, 107, 108, 109, 111, 112, 114, 128, 129, 130, 131,
        132, 133, 134, 135, 136, 137, 150, 192, 193, 144, 145, 250, 251,
    ]);
    let value = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..9),
        Just(vec![0]),
        Just(vec![1, 0]),
        Just(b"text".to_vec()),
    ];
    let leaf = (types.clone(), value).prop_map(|(ty, value)| {
        let mut out = Vec::new();
        ndn_packet::tlv::append_tlv(&mut out, ty, &value);
        out
    });
    leaf.prop_recursive(4, 40, 8, move |inner| {
        (types.clone(), prop::collection::vec(inner, 0..8)).prop_map(|(ty, children)| {
            let mut out = Vec::new();
            ndn_packet::tlv::append_tlv(&mut out, ty, &children.concat());
            out
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check_all(&bytes);
    }

    #[test]
    fn arbitrary_blocks_never_panic(bytes in any_block()) {
        check_all(&bytes);
    }

    #[test]
    fn arbitrary_face_uris_round_trip_or_are_rejected(text in "[a-z0-9+]{0,6}(://)?[\\[\\]a-f0-9.:%/]{0,20}") {
        if let Ok(uri) = FaceUri::parse(&text) {
            prop_assert_eq!(FaceUri::parse(&uri.to_string()), Ok(uri.clone()));
            if let Ok(canonical) = uri.canonize() {
                prop_assert!(canonical.is_canonical(), "{}", canonical);
            }
        }
    }
}
