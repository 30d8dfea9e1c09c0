//! Datasets as a client fetches them.

use ndn_packet::ContentType;

use super::*;
use crate::dataset::{
    ChannelStatus, CsInfo, FaceQueryFilter, FaceStatus, FibEntry, ForwarderStatus, RibEntry,
    StrategyChoice, decode_dataset,
};
use crate::types::{FACE_ID_CONTENT_STORE, FACE_ID_INTERNAL, FACE_ID_NULL};

/// Content of one segment, and its name without the segment number.
fn first_segment(harness: &mut Harness, prefix: &Name) -> (Vec<u8>, Name) {
    let builder = InterestBuilder::new(prefix).can_be_prefix(true).must_be_fresh(true);
    let handled = harness.interest(&builder.to_vec().unwrap(), APP);
    assert_eq!(handled, RequestOutcome::Data { answered: true });
    let (wire, may_cache) = harness.sent.remove(0);
    assert!(!may_cache);
    let data = Data::parse(&wire).unwrap();
    assert_eq!(data.name().last().unwrap().as_segment(), Some(0));
    assert_eq!(data.name().len(), prefix.len() + 2);
    (data.content().unwrap().to_vec(), data.name().parent().to_name())
}

fn fetch(harness: &mut Harness, prefix: &Name) -> Vec<u8> {
    let (mut content, version) = first_segment(harness, prefix);
    for segment in 1.. {
        let mut name = version.clone();
        name.push_segment(segment);
        let wire = InterestBuilder::new(&name).to_vec().unwrap();
        match harness.interest(&wire, APP) {
            RequestOutcome::Data { answered: true } => {}
            RequestOutcome::Data { answered: false } => break,
            other => panic!("{other:?}"),
        }
        let (wire, _) = harness.sent.remove(0);
        let data = Data::parse(&wire).unwrap();
        content.extend_from_slice(data.content().unwrap());
        if data.final_block_id() == data.name().last() {
            break;
        }
    }
    content
}

fn list<T: DatasetItem>(harness: &mut Harness, uri: &str) -> Vec<T> {
    decode_dataset(&fetch(harness, &name(uri))).unwrap()
}

#[test]
fn face_list_has_all_faces_with_their_counters() {
    let mut harness = Harness::new();
    let faces: Vec<FaceStatus> = list(&mut harness, "/localhost/nfd/faces/list");
    let ids: Vec<u64> = faces.iter().map(|face| face.properties.face_id).collect();
    assert_eq!(ids, [1, 254, 255, APP, TUNNEL]);
    assert_eq!(faces[0].properties.remote_uri, "internal://");
    assert_eq!(faces[3].counters.in_interests, APP);
    assert_eq!((faces[4].expiration_period_ms, faces[4].mtu), (Some(600), Some(8800)));

    harness.state.face_resized(TUNNEL, 1452);
    // Nobody has this one.
    harness.state.face_resized(9, 1452);
    let filter =
        FaceQueryFilter { scope: Some(Scope::NonLocal.number()), ..FaceQueryFilter::default() };
    let query = crate::Dataset::FaceQuery(filter).prefix();
    let faces: Vec<FaceStatus> = decode_dataset(&fetch(&mut harness, &query)).unwrap();
    assert_eq!(faces.len(), 1);
    assert_eq!((faces[0].properties.face_id, faces[0].mtu), (TUNNEL, Some(1452)));
    let faces: Vec<FaceStatus> = list(&mut harness, "/localhost/nfd/faces/list");
    assert_eq!(faces.last().unwrap().mtu, Some(1452), "not what was listed before");
    let filter = FaceQueryFilter { face_id: Some(9), ..FaceQueryFilter::default() };
    let nothing = crate::Dataset::FaceQuery(filter).prefix();
    assert_eq!(fetch(&mut harness, &nothing), []);

    let channels: Vec<ChannelStatus> = list(&mut harness, "/localhost/nfd/faces/channels");
    assert_eq!(channels[1].local_uri, "unix:///run/nfd/nfd.sock");
}

#[test]
fn query_of_many_faces_is_answered_in_slices() {
    let mut harness = Harness::new();
    let many = 6000..12_000;
    for face_id in many.clone() {
        let scope = [Scope::Local, Scope::NonLocal][usize::from(face_id % 2 == 1)];
        harness.state.face_created(
            harness.now,
            record(face_id, &format!("udp4://192.0.2.1:{face_id}"), scope),
        );
    }
    harness.run();
    harness.sent.clear();
    let filter =
        FaceQueryFilter { scope: Some(Scope::NonLocal.number()), ..FaceQueryFilter::default() };
    let query = crate::Dataset::FaceQuery(filter).prefix();
    let wire = InterestBuilder::new(&query).can_be_prefix(true).to_vec().unwrap();
    // A request that is repeated meanwhile gets the same version.
    for _ in 0..2 {
        assert_eq!(harness.interest(&wire, APP), RequestOutcome::Data { answered: true });
    }
    assert!(harness.sent.is_empty() && harness.state.is_listing());
    // Whatever else is wanted does not wait.
    assert!(harness.command(APP, Verb::RibRegister, &named("/a")).is_ok());
    // A face that was listed already closes, another one is created.
    harness.state.face_destroyed(harness.now, 6001);
    harness.state.face_created(harness.now, record(20_001, "udp4://192.0.2.2:1", Scope::NonLocal));
    harness.run();
    harness.sent.clear();
    let mut slices = 0;
    while harness.state.is_listing() {
        harness.handle_timeout();
        slices += 1;
    }
    harness.run();
    assert!(slices > 0, "{slices}");
    let (wire, _) = harness.sent.remove(0);
    assert!(harness.sent.is_empty(), "one version for all who asked");
    let version = Data::parse(&wire).unwrap().name().parent().to_name();
    let mut content = Data::parse(&wire).unwrap().content().unwrap().to_vec();
    for segment in 1.. {
        let mut name = version.clone();
        name.push_segment(segment);
        let wire = InterestBuilder::new(&name).to_vec().unwrap();
        if harness.interest(&wire, APP) != (RequestOutcome::Data { answered: true }) {
            break;
        }
        let (wire, _) = harness.sent.remove(0);
        content.extend_from_slice(Data::parse(&wire).unwrap().content().unwrap());
    }
    let listed: Vec<FaceStatus> = decode_dataset(&content).unwrap();
    let listed: Vec<u64> = listed.iter().map(|face| face.properties.face_id).collect();
    let living = many.filter(|face_id| face_id % 2 == 1 && *face_id != 6001);
    let expected: Vec<u64> = [TUNNEL].into_iter().chain(living).chain([20_001]).collect();
    assert_eq!(listed, expected);
}

#[test]
fn query_that_names_faces_is_answered_at_once() {
    let mut harness = Harness::new();
    for face_id in 1000..51_000 {
        let uri = format!("udp4://192.0.2.1:{}", face_id / 2);
        harness.state.face_created(harness.now, record(face_id, &uri, Scope::NonLocal));
    }
    harness.state.face_created(harness.now, record(60_000, "fd://20", Scope::Local));
    harness.run();
    harness.sent.clear();
    let uri = |uri: &str| Some(uri.to_owned());
    let any = FaceQueryFilter::default();
    let named = [
        (FaceQueryFilter { face_id: Some(50_999), ..any.clone() }, vec![50_999]),
        (FaceQueryFilter { face_id: Some(999), ..any.clone() }, vec![]),
        (FaceQueryFilter { face_id: Some(APP), remote_uri: uri("fd://9"), ..any.clone() }, vec![]),
        (
            FaceQueryFilter { remote_uri: uri("udp4://192.0.2.1:700"), ..any.clone() },
            vec![1400, 1401],
        ),
        (FaceQueryFilter { remote_uri: uri("fd://20"), ..any.clone() }, vec![APP, 60_000]),
        (FaceQueryFilter { remote_uri: uri("null://"), ..any.clone() }, vec![FACE_ID_NULL]),
    ];
    for (filter, expected) in named {
        harness.telemetry.face_reads.set(0);
        let query = crate::Dataset::FaceQuery(filter).prefix();
        let faces: Vec<FaceStatus> = decode_dataset(&fetch(&mut harness, &query)).unwrap();
        let ids: Vec<u64> = faces.iter().map(|face| face.properties.face_id).collect();
        assert_eq!(ids, expected);
        assert_eq!(harness.telemetry.face_reads.get(), expected.len());
    }
    let filter = FaceQueryFilter { scope: Some(Scope::Local.number()), ..any };
    let query = crate::Dataset::FaceQuery(filter).prefix();
    let wire = InterestBuilder::new(&query).can_be_prefix(true).to_vec().unwrap();
    assert_eq!(harness.interest(&wire, APP), RequestOutcome::Data { answered: true });
    let mut slices = 1;
    while harness.sent.is_empty() {
        assert!(harness.state.is_listing());
        harness.handle_timeout();
        harness.run();
        slices += 1;
    }
    assert!(slices >= 3, "faces that are left out are work, too");
    let faces: Vec<FaceStatus> = decode_dataset(&published(&mut harness)).unwrap();
    let ids: Vec<u64> = faces.iter().map(|face| face.properties.face_id).collect();
    assert_eq!(ids, [FACE_ID_INTERNAL, FACE_ID_CONTENT_STORE, FACE_ID_NULL, APP, 60_000]);
}

#[test]
fn malformed_query_is_nacked() {
    let mut harness = Harness::new();
    let query = name("/localhost/nfd/faces/query/x");
    let wire = InterestBuilder::new(&query).can_be_prefix(true).to_vec().unwrap();
    harness.interest(&wire, APP);
    let (wire, _) = harness.sent.remove(0);
    let data = Data::parse(&wire).unwrap();
    assert_eq!((data.name().to_name(), data.content_type()), (query, ContentType::NACK));
    assert_eq!(ControlResponse::decode(data.content().unwrap()).unwrap().code, 400);
}

#[test]
fn rib_fib_and_strategy_lists_have_all_entries() {
    let mut harness = Harness::new();
    let parameters = ControlParameters { expiration_period_ms: Some(10_000), ..named("/a") };
    harness.command(APP, Verb::RibRegister, &parameters);
    let parameters = ControlParameters { face_id: Some(TUNNEL), cost: Some(3), ..named("/b") };
    harness.command(APP, Verb::FibAddNextHop, &parameters);
    harness.advance(2 * SECOND);

    let rib: Vec<RibEntry> = list(&mut harness, "/localhost/nfd/rib/list");
    assert_eq!(rib.len(), 1);
    assert_eq!((&rib[0].name, rib[0].routes.len()), (&name("/a"), 1));
    assert_eq!(
        (rib[0].routes[0].face_id, rib[0].routes[0].expiration_period_ms),
        (APP, Some(8000))
    );
    let fib: Vec<FibEntry> = list(&mut harness, "/localhost/nfd/fib/list");
    assert_eq!(fib.iter().map(|entry| &entry.name).collect::<Vec<_>>(), [&name("/a"), &name("/b")]);
    assert_eq!((fib[1].next_hops[0].face_id, fib[1].next_hops[0].cost), (TUNNEL, 3));

    harness
        .state
        .set_strategy(&Name::new(), name("/localhost/nfd/strategy/best-route").as_ref())
        .unwrap();
    let choices: Vec<StrategyChoice> = list(&mut harness, "/localhost/nfd/strategy-choice/list");
    assert_eq!(choices[0].strategy, name("/localhost/nfd/strategy/best-route/v=5"));

    let info = CsInfo::decode(&fetch(&mut harness, &name("/localhost/nfd/cs/info"))).unwrap();
    assert_eq!(info, CsInfo { capacity: 65_536, flags: 3, entries: 3, hits: 4, misses: 5 });
    let status = fetch(&mut harness, &name("/localhost/nfd/status/general"));
    let status = ForwarderStatus::decode(&status).unwrap();
    assert_eq!((status.version.as_str(), status.fib_entries, status.pit_entries), ("test", 2, 1));
    assert_eq!(status.current_timestamp_ms, 1_700_000_002_000);
    assert_eq!(status.counters.unsatisfied_interests, 12);
}

#[test]
fn version_is_unchanged_while_the_table_changes() {
    let mut harness = Harness::new();
    for number in 0..700 {
        harness.command(APP, Verb::RibRegister, &named(&format!("/prefix/{number}")));
    }
    let prefix = name("/localhost/nfd/fib/list");
    let (mut content, version) = first_segment(&mut harness, &prefix);
    for segment in 1.. {
        harness.command(APP, Verb::RibUnregister, &named(&format!("/prefix/{segment}")));
        let mut name = version.clone();
        name.push_segment(segment);
        let wire = InterestBuilder::new(&name).to_vec().unwrap();
        if harness.interest(&wire, APP) == (RequestOutcome::Data { answered: false }) {
            break;
        }
        content
            .extend_from_slice(Data::parse(&harness.sent.remove(0).0).unwrap().content().unwrap());
    }
    assert_eq!(decode_dataset::<FibEntry>(&content).unwrap().len(), 700);
    let fresh: Vec<FibEntry> = list(&mut harness, "/localhost/nfd/fib/list");
    assert!(fresh.len() < 700);
}

#[test]
fn unchanged_table_is_encoded_once_within_a_second() {
    let mut harness = Harness::new();
    harness.command(APP, Verb::RibRegister, &named("/a"));
    let prefix = name("/localhost/nfd/rib/list");
    let (_, first) = first_segment(&mut harness, &prefix);
    assert_eq!(first_segment(&mut harness, &prefix).1, first);
    // A change shows at once.
    harness.command(APP, Verb::RibRegister, &named("/b"));
    let (content, second) = first_segment(&mut harness, &prefix);
    assert_ne!(second, first);
    assert_eq!(decode_dataset::<RibEntry>(&content).unwrap().len(), 2);
    harness.advance(SECOND);
    assert_ne!(first_segment(&mut harness, &prefix).1, second);
    assert_eq!(harness.state.counters().datasets, 3);
}

/// Enough routes for several slices: names of 300 bytes.
fn fill(harness: &mut Harness, count: u64) {
    for number in 0..count {
        let route = Route { face_id: APP, origin: 0, cost: 0, flags: 0, expires_at: None };
        harness.state.routes.rib.register(long_name(number).as_ref(), route).unwrap();
    }
    harness.state.routes.rib_changed();
    harness.run();
}

fn long_name(number: u64) -> Name {
    let mut name = name("/long");
    name.push_segment(number).push_generic([7; 300]);
    name
}

fn discover(harness: &mut Harness, uri: &str) {
    let prefix = name(uri);
    let builder = InterestBuilder::new(&prefix).can_be_prefix(true).must_be_fresh(true);
    let handled = harness.interest(&builder.to_vec().unwrap(), APP);
    assert_eq!(handled, RequestOutcome::Data { answered: true });
}

/// The version whose first segment is the last Data sent.
fn published(harness: &mut Harness) -> Vec<u8> {
    let (wire, _) = harness.sent.pop().unwrap();
    let first = Data::parse(&wire).unwrap().name().parent().to_name();
    assert!(harness.sent.is_empty());
    fetch_version(harness, &first)
}

fn fetch_version(harness: &mut Harness, version: &Name) -> Vec<u8> {
    let mut content = Vec::new();
    for segment in 0.. {
        let mut name = version.clone();
        name.push_segment(segment);
        harness.interest(&InterestBuilder::new(&name).to_vec().unwrap(), APP);
        let (wire, _) = harness.sent.remove(0);
        let data = Data::parse(&wire).unwrap();
        content.extend_from_slice(data.content().unwrap());
        if data.final_block_id() == data.name().last() {
            return content;
        }
    }
    unreachable!()
}

#[test]
fn commands_are_executed_between_slices_of_a_large_table() {
    for (uri, is_fib) in [("/localhost/nfd/fib/list", true), ("/localhost/nfd/rib/list", false)] {
        let mut harness = Harness::new();
        fill(&mut harness, 3000);
        discover(&mut harness, uri);
        assert!(harness.sent.is_empty(), "that is more than one slice");
        assert_eq!(harness.state.next_deadline(), Some(Timestamp::ZERO));
        harness.handle_timeout();
        harness.run();
        assert!(harness.sent.is_empty(), "and more than two");
        // What is done before and behind the place that has been reached, and who asks once more.
        harness.command(APP, Verb::RibRegister, &named("/a"));
        harness.command(APP, Verb::RibRegister, &named("/z"));
        let parameters = ControlParameters { name: Some(long_name(0)), ..named("/") };
        harness.command(APP, Verb::RibUnregister, &parameters);
        discover(&mut harness, uri);
        let mut slices = 0;
        while harness.sent.is_empty() {
            harness.handle_timeout();
            harness.run();
            slices += 1;
            assert!(slices < 100);
        }
        assert_ne!(harness.state.next_deadline(), Some(Timestamp::ZERO));
        assert_eq!(harness.state.counters().datasets, 1, "one version for both");
        let content = published(&mut harness);
        let names: Vec<Name> = if is_fib {
            let entries = decode_dataset::<FibEntry>(&content).unwrap();
            entries.into_iter().map(|entry| entry.name).collect()
        } else {
            let entries = decode_dataset::<RibEntry>(&content).unwrap();
            entries.into_iter().map(|entry| entry.name).collect()
        };
        let mut expected: Vec<Name> = (1..3000).map(long_name).collect();
        expected.extend([name("/a"), name("/z")]);
        expected.sort();
        assert!(names == expected, "it is of the moment in which it was complete");
        // From now on a change costs no more than itself.
        harness.command(APP, Verb::RibRegister, &named("/b"));
        discover(&mut harness, uri);
        assert_eq!(harness.sent.len(), 1);
    }
}

#[test]
fn face_list_is_consistent_while_faces_change_between_slices() {
    let mut harness = Harness::new();
    let (first, count) = (1000, 10_000);
    for face_id in first..first + count {
        let uri = format!("udp4://192.0.2.2:{face_id}");
        harness.state.face_created(harness.now, record(face_id, &uri, Scope::NonLocal));
    }
    harness.run();
    harness.sent.clear();
    for round in 0..2 {
        harness.telemetry.face_reads.set(0);
        discover(&mut harness, "/localhost/nfd/faces/list");
        assert!(harness.sent.is_empty() && harness.state.is_listing(), "one slice is not enough");
        assert!(harness.telemetry.face_reads.get() < 5000, "and is not most of it");
        // Of what has been encoded, one goes and one changes; one is new; and somebody asks once more.
        harness.state.face_destroyed(harness.now, first + round);
        harness.state.adopt_face(first + 5 + round, Persistency::Permanent);
        let new = record(first + count + round, "udp4://192.0.2.3:1", Scope::NonLocal);
        harness.state.face_created(harness.now, new);
        harness.run();
        harness.sent.clear();
        discover(&mut harness, "/localhost/nfd/faces/list");
        let mut slices = 0;
        while harness.sent.is_empty() {
            harness.handle_timeout();
            harness.run();
            slices += 1;
            assert!(slices < 100);
        }
        assert!(harness.telemetry.face_reads.get() < 11_000, "nothing is encoded many times");
        let faces = decode_dataset::<FaceStatus>(&published(&mut harness)).unwrap();
        let ids: Vec<u64> = faces.iter().map(|face| face.properties.face_id).collect();
        let reserved = [FACE_ID_INTERNAL, FACE_ID_CONTENT_STORE, FACE_ID_NULL, APP, TUNNEL];
        let others = first + round + 1..=first + count + round;
        let expected: Vec<u64> = reserved.into_iter().chain(others).collect();
        assert!(ids == expected, "they are those of the moment in which it was complete");
        let adopted = faces.iter().find(|face| face.properties.face_id == first + 5 + round);
        let persistency = adopted.unwrap().properties.persistency;
        assert_eq!(persistency, Persistency::Permanent);
    }
    harness.advance(60 * SECOND);
    assert!(!harness.state.faces.listing.is_kept());
}

#[test]
fn table_that_changes_faster_than_slices_follow_is_listed() {
    let mut harness = Harness::new();
    fill(&mut harness, 2000);
    discover(&mut harness, "/localhost/nfd/rib/list");
    let mut rounds = 0;
    while harness.sent.is_empty() {
        for number in 0..2000 {
            harness.state.routes.rib.listing.changed(long_name(number).value());
        }
        harness.handle_timeout();
        harness.run();
        rounds += 1;
        assert!(rounds < 1000);
    }
    let content = published(&mut harness);
    assert_eq!(decode_dataset::<RibEntry>(&content).unwrap().len(), 2000);
}

#[test]
fn remaining_lifetime_is_encoded_anew_and_idle_listing_is_dropped() {
    let mut harness = Harness::new();
    let parameters = ControlParameters { expiration_period_ms: Some(100_000), ..named("/a") };
    harness.command(APP, Verb::RibRegister, &parameters);
    for remaining_ms in [100_000, 98_000, 96_000] {
        let rib: Vec<RibEntry> = list(&mut harness, "/localhost/nfd/rib/list");
        assert_eq!(rib[0].routes[0].expiration_period_ms, Some(remaining_ms));
        harness.advance(2 * SECOND);
    }
    assert!(harness.state.routes.rib.listing.is_kept());
    harness.advance(60 * SECOND);
    assert!(!harness.state.routes.rib.listing.is_kept());
}

/// An application at FaceId `face_id` with a process of its own.
fn application(harness: &mut Harness, face_id: u64) {
    let pid = u32::try_from(face_id).unwrap();
    let principal = PrincipalKey::LocalApplication { uid: 1000, pid };
    let face = FaceRecord { principal, ..record(face_id, "fd://21", Scope::Local) };
    harness.state.face_created(harness.now, face);
}

/// One of 32 filters that all remote faces of a test match.
fn filter(number: u64) -> FaceQueryFilter {
    let is_set = |bit: u64| number >> bit & 1 == 1;
    FaceQueryFilter {
        face_id: None,
        remote_uri: None,
        uri_scheme: is_set(0).then(|| "udp4".to_owned()),
        local_uri: is_set(1).then(|| "unix:///run/nfd/nfd.sock".to_owned()),
        scope: is_set(2).then_some(Scope::NonLocal.number()),
        persistency: is_set(3).then_some(Persistency::OnDemand.number()),
        link_type: is_set(4).then_some(LinkType::PointToPoint.number()),
    }
}

/// Queries that take many slices each, from processes with more than all places.
#[test]
fn queries_of_some_processes_leave_places_and_turns_to_others() {
    let mut harness = Harness::new();
    for face_id in 6000..10_000 {
        let face = record(face_id, &format!("udp4://192.0.2.1:{face_id}"), Scope::NonLocal);
        harness.state.face_created(harness.now, face);
    }
    for face_id in [500, 501, 502, 600] {
        application(&mut harness, face_id);
    }
    harness.run();
    harness.sent.clear();
    let ask = |harness: &mut Harness, face_id, number| {
        let query = crate::Dataset::FaceQuery(filter(number)).prefix();
        let wire = InterestBuilder::new(&query).can_be_prefix(true).to_vec().unwrap();
        harness.interest(&wire, face_id);
    };
    for number in 1..31 {
        for face_id in 500..503 {
            ask(&mut harness, face_id, number);
        }
    }
    let (places, _) = harness.state.dataset_places();
    assert_eq!(places.resources[0].total, 52, "the reserve of neighbours is left");
    ask(&mut harness, 600, 31);
    let mut slices = 0;
    let is_answered = |harness: &Harness| {
        harness.sent.iter().any(|(wire, _)| {
            let uri = Data::parse(wire).unwrap().name().to_uri();
            uri.starts_with(&crate::Dataset::FaceQuery(filter(31)).prefix().to_uri())
        })
    };
    while !is_answered(&harness) {
        harness.handle_timeout();
        harness.run();
        slices += 1;
        assert!(slices < 1000);
    }
    // A slice for each of the four processes in turn.
    let own = 4000 * 256 / (256 << 10) + 2;
    assert!(slices <= own * 4, "{slices} slices");
    while harness.state.is_listing() {
        harness.handle_timeout();
    }
    let (places, _) = harness.state.dataset_places();
    assert!(places.is_zero());
}
