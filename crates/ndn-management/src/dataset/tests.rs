//! Every block against bytes that an independent client library wrote (python-ndn 0.5).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Debug;

use ndn_packet::Name;
use ndn_packet::tlv::{self, Reader};
use proptest::prelude::*;

use super::*;
use crate::testing::{hex, name};
use crate::types::{FaceEventKind, cs_flag, face_flag, route_flag, route_origin};
use ndn_types::{LinkType, Persistency, Scope};

fn assert_wire<T: DatasetItem + PartialEq + Debug>(item: &T, wire: &str) {
    let wire = hex(wire);
    assert_eq!(item.to_vec(), wire);
    assert_eq!(T::decode(&wire).unwrap(), *item);
    // No prefix of the block is one, and neither is the block with a byte behind it.
    for end in 0..wire.len() {
        assert!(T::decode(&wire[..end]).is_err(), "first {end} bytes");
    }
    assert!(T::decode(&[&wire[..], &[0]].concat()).is_err());
}

fn application_face() -> FaceStatus {
    FaceStatus {
        properties: FaceProperties {
            face_id: 262,
            remote_uri: "fd://20".to_owned(),
            local_uri: "unix:///run/nfd/nfd.sock".to_owned(),
            scope: Scope::Local,
            persistency: Persistency::OnDemand,
            link_type: LinkType::PointToPoint,
            flags: face_flag::LOCAL_FIELDS | face_flag::CONGESTION_MARKING,
        },
        expiration_period_ms: Some(5000),
        base_congestion_marking_interval_ns: Some(100_000_000),
        default_congestion_threshold: Some(65_536),
        mtu: Some(8800),
        counters: FaceCounters {
            in_interests: 1,
            in_data: 2,
            in_nacks: 3,
            out_interests: 4,
            out_data: 5,
            out_nacks: 6,
            in_bytes: 70_000,
            out_bytes: 1 << 33,
        },
    }
}

#[test]
fn face_status_has_the_wire_format_of_nfd() {
    assert_wire(
        &application_face(),
        "8069 69020106 720766643a2f2f3230 8118756e69783a2f2f2f72756e2f6e66642f6e66642e736f636b 6d021388
         840101 850101 860100 870405f5e100 880400010000 89022260
         900101 910102 970103 920104 930105 980106 940400011170 95080000000200000000 6c0105",
    );
    let bare = FaceStatus {
        expiration_period_ms: None,
        base_congestion_marking_interval_ns: None,
        default_congestion_threshold: None,
        mtu: None,
        ..application_face()
    };
    assert_eq!(FaceStatus::decode(&bare.to_vec()).unwrap(), bare);
}

#[test]
fn forwarder_status_has_the_wire_format_of_nfd() {
    let status = ForwarderStatus {
        version: "24.07".to_owned(),
        start_timestamp_ms: 1_700_000_000_000,
        current_timestamp_ms: 1_700_000_001_000,
        name_tree_entries: 1,
        fib_entries: 2,
        pit_entries: 3,
        measurements_entries: 4,
        cs_entries: 5,
        counters: ForwarderCounters {
            in_interests: 6,
            in_data: 7,
            in_nacks: 8,
            out_interests: 9,
            out_data: 10,
            out_nacks: 11,
            satisfied_interests: 12,
            unsatisfied_interests: 13,
        },
    };
    let wire = hex(
        "800532342e3037 81080000018bcfe56800 82080000018bcfe56be8 830101 840102 850103 860104 870105
         900106 910107 970108 920109 93010a 98010b 99010c 9a010d",
    );
    assert_eq!(status.to_vec(), wire);
    assert_eq!(ForwarderStatus::decode(&wire).unwrap(), status);
    // Another implementation adds fields of its own at the end.
    let extended = [&wire[..], &hex("c80100 d00101")].concat();
    assert_eq!(ForwarderStatus::decode(&extended).unwrap(), status);
    for end in 0..wire.len() {
        assert!(ForwarderStatus::decode(&wire[..end]).is_err(), "first {end} bytes");
    }
}

#[test]
fn channel_status_has_the_wire_format_of_nfd() {
    let channel = ChannelStatus { local_uri: "udp4://0.0.0.0:6363".to_owned() };
    assert_wire(&channel, "8215 8113 756470343a2f2f302e302e302e303a36333633");
}

#[test]
fn face_query_filter_has_the_wire_format_of_nfd() {
    let filter = FaceQueryFilter {
        face_id: Some(7),
        uri_scheme: Some("udp4".to_owned()),
        remote_uri: Some("udp4://192.0.2.1:6363".to_owned()),
        local_uri: Some("udp4://192.0.2.2:6363".to_owned()),
        scope: Some(Scope::NonLocal.number()),
        persistency: Some(Persistency::Permanent.number()),
        link_type: Some(LinkType::MultiAccess.number()),
    };
    assert_wire(
        &filter,
        "9640 690107 830475647034 7215756470343a2f2f3139322e302e322e313a36333633
         8115756470343a2f2f3139322e302e322e323a36333633 840100 850102 860101",
    );
    assert_eq!(FaceQueryFilter::default().to_vec(), hex("9600"));
    assert_eq!(FaceQueryFilter::decode(&hex("9600")).unwrap(), FaceQueryFilter::default());
}

#[test]
fn filter_matches_faces_that_agree_in_every_field() {
    let face = application_face().properties;
    let filter = FaceQueryFilter::default();
    assert!(filter.matches(&face));
    assert!(FaceQueryFilter { face_id: Some(262), ..filter.clone() }.matches(&face));
    assert!(!FaceQueryFilter { face_id: Some(263), ..filter.clone() }.matches(&face));
    for (scheme, matches) in
        [("fd", true), ("unix", true), ("f", false), ("udp4", false), ("", false)]
    {
        let filter = FaceQueryFilter { uri_scheme: Some(scheme.to_owned()), ..filter.clone() };
        assert_eq!(filter.matches(&face), matches, "{scheme}");
    }
    assert!(
        !FaceQueryFilter { remote_uri: Some("fd://2".to_owned()), ..filter.clone() }.matches(&face)
    );
    assert!(
        FaceQueryFilter { scope: Some(Scope::Local.number()), ..filter.clone() }.matches(&face)
    );
    let contradiction = FaceQueryFilter {
        scope: Some(Scope::Local.number()),
        link_type: Some(LinkType::MultiAccess.number()),
        ..filter
    };
    assert!(!contradiction.matches(&face));
}

#[test]
fn face_event_notification_has_the_wire_format_of_nfd() {
    let notification = FaceEventNotification {
        kind: FaceEventKind::Down,
        properties: FaceProperties {
            face_id: 300,
            remote_uri: "tcp4://192.0.2.1:6363".to_owned(),
            local_uri: "tcp4://192.0.2.2:40000".to_owned(),
            scope: Scope::NonLocal,
            persistency: Persistency::Permanent,
            link_type: LinkType::PointToPoint,
            flags: 0,
        },
    };
    assert_wire(
        &notification,
        "c042 c10104 6902012c 7215746370343a2f2f3139322e302e322e313a36333633
         8116746370343a2f2f3139322e302e322e323a3430303030 840100 850102 860100 6c0100",
    );
}

#[test]
fn rib_entry_has_the_wire_format_of_nfd() {
    let entry = RibEntry {
        name: name("/a/b"),
        routes: vec![
            RouteRecord {
                face_id: 300,
                origin: route_origin::APP,
                cost: 5,
                flags: route_flag::CHILD_INHERIT,
                expiration_period_ms: None,
            },
            RouteRecord {
                face_id: 301,
                origin: route_origin::STATIC,
                cost: 0,
                flags: route_flag::CAPTURE,
                expiration_period_ms: Some(60_000),
            },
        ],
    };
    assert_wire(
        &entry,
        "802a 0706080161080162 810d 6902012c 6f0100 6a0105 6c0101
         8111 6902012d 6f01ff 6a0100 6c0102 6d02ea60",
    );
}

#[test]
fn fib_entry_has_the_wire_format_of_nfd() {
    let entry = FibEntry {
        name: Name::new(),
        next_hops: vec![
            NextHopRecord { face_id: 300, cost: 5 },
            NextHopRecord { face_id: 301, cost: 300 },
        ],
    };
    assert_wire(&entry, "8015 0700 8107 6902012c 6a0105 8108 6902012d 6a02012c");
}

#[test]
fn strategy_choice_has_the_wire_format_of_nfd() {
    let choice = StrategyChoice {
        name: Name::new(),
        strategy: name("/localhost/nfd/strategy/best-route/v=5"),
    };
    assert_wire(
        &choice,
        "802f 0700 6b2b 0729 08096c6f63616c686f7374 08036e6664 08087374726174656779
         080a626573742d726f757465 360105",
    );
}

#[test]
fn cs_info_has_the_wire_format_of_nfd() {
    let info = CsInfo {
        capacity: 65_536,
        flags: cs_flag::ADMIT | cs_flag::SERVE,
        entries: 10,
        hits: 11,
        misses: 12,
    };
    assert_wire(&info, "8012 830400010000 6c0103 87010a 81010b 82010c");
}

#[test]
fn dataset_is_a_sequence_of_blocks() {
    let items = [("udp4://0.0.0.0:6363"), ("tcp6://[::]:6363")]
        .map(|uri| ChannelStatus { local_uri: uri.to_owned() });
    let mut content = Vec::new();
    for item in &items {
        item.encode(&mut content);
    }
    assert_eq!(decode_dataset::<ChannelStatus>(&content).unwrap(), items);
    assert_eq!(decode_dataset::<ChannelStatus>(&[]).unwrap(), []);
    assert!(decode_dataset::<ChannelStatus>(&content[..content.len() - 1]).is_err());
    // Unknown blocks between them: skipped unless critical.
    assert_eq!(
        decode_dataset::<ChannelStatus>(&[&content[..], &[0xF0, 0]].concat()).unwrap(),
        items
    );
    assert!(decode_dataset::<ChannelStatus>(&[&content[..], &[0xF1, 0]].concat()).is_err());
}

/// The elements of a block.
fn elements(block: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = Reader::new(block).read().unwrap().reader();
    let mut elements = Vec::new();
    while let Some(tlv) = reader.next_tlv().unwrap() {
        elements.push(tlv.wire().to_vec());
    }
    elements
}

/// A block with another element before the one at `position`.
fn with_element(block: &[u8], position: usize, element: &[u8]) -> Vec<u8> {
    let ty = Reader::new(block).read().unwrap().ty();
    let mut elements = elements(block);
    elements.insert(position, element.to_vec());
    let mut out = Vec::new();
    tlv::append_tlv(&mut out, ty, &elements.concat());
    out
}

/// A block is the same with a non-critical element at any place, and refused with a critical one before its last field.
fn assert_extensible<T: DatasetItem + PartialEq + Debug>(item: &T) {
    let block = item.to_vec();
    let count = elements(&block).len();
    for position in 0..=count {
        let extended = with_element(&block, position, &[0xF0, 0]);
        assert_eq!(T::decode(&extended).as_ref(), Ok(item), "before {position}");
    }
    for position in 0..count {
        assert!(T::decode(&with_element(&block, position, &[0xF1, 0])).is_err(), "{position}");
    }
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-zé/:]{1,20}"]
}

fn any_face() -> impl Strategy<Value = FaceStatus> {
    let kind = (
        prop::sample::select(vec![Scope::Local, Scope::NonLocal]),
        prop::sample::select(vec![Persistency::OnDemand, Persistency::Permanent]),
        prop::sample::select(vec![LinkType::MultiAccess, LinkType::AdHoc]),
    );
    (any_text(), any_text(), kind, any::<[Option<u64>; 4]>(), any::<[u64; 10]>()).prop_map(
        |(remote_uri, local_uri, (scope, persistency, link_type), options, numbers)| {
            let [expiration_period_ms, interval, threshold, mtu] = options;
            let [face_id, flags, a, b, c, d, e, f, g, h] = numbers;
            let properties = FaceProperties {
                face_id,
                remote_uri,
                local_uri,
                scope,
                persistency,
                link_type,
                flags,
            };
            let counters = FaceCounters {
                in_interests: a,
                in_data: b,
                in_nacks: c,
                out_interests: d,
                out_data: e,
                out_nacks: f,
                in_bytes: g,
                out_bytes: h,
            };
            FaceStatus {
                properties,
                expiration_period_ms,
                base_congestion_marking_interval_ns: interval,
                default_congestion_threshold: threshold,
                mtu,
                counters,
            }
        },
    )
}

fn any_rib_entry() -> impl Strategy<Value = RibEntry> {
    let route = (any::<[u64; 4]>(), any::<Option<u64>>()).prop_map(|(numbers, expires)| {
        let [face_id, origin, cost, flags] = numbers;
        RouteRecord { face_id, origin, cost, flags, expiration_period_ms: expires }
    });
    ("(/[a-z]{1,3}){1,4}", prop::collection::vec(route, 0..4))
        .prop_map(|(uri, routes)| RibEntry { name: name(&uri), routes })
}

proptest! {
    #[test]
    fn faces_survive_a_round_trip(face in any_face()) {
        prop_assert_eq!(FaceStatus::decode(&face.to_vec()), Ok(face.clone()));
        assert_extensible(&face);
        let FaceStatus { properties, .. } = face;
        assert_extensible(&FaceEventNotification { kind: FaceEventKind::Created, properties });
    }

    #[test]
    fn routes_survive_a_round_trip(entry in any_rib_entry()) {
        prop_assert_eq!(RibEntry::decode(&entry.to_vec()), Ok(entry.clone()));
        let mut encoded = Vec::new();
        append_entry(&mut encoded, entry.name.as_ref(), entry.routes.iter().copied());
        prop_assert_eq!(encoded, entry.to_vec());
        assert_extensible(&entry);
    }
}

#[test]
fn unknown_fields_are_ignored_unless_critical() {
    // NextHopRecord with an element between its fields.
    assert_eq!(
        NextHopRecord::decode(&hex("8109 6902012c f000 6a0105")).unwrap(),
        NextHopRecord { face_id: 300, cost: 5 }
    );
    assert!(NextHopRecord::decode(&hex("8109 6902012c f100 6a0105")).is_err());
    // Fields in the wrong order.
    assert!(NextHopRecord::decode(&hex("8107 6a0105 6902012c")).is_err());
    // Unknown values of enumerations, and texts that are none, are those of no face.
    for unknown in ["9603 840107", "9603 850107", "9603 860107", "9603 8301ff", "9603 7201ff"] {
        let filter = FaceQueryFilter::decode(&hex(unknown)).unwrap();
        assert!(!filter.matches(&application_face().properties), "{unknown}");
    }
}
