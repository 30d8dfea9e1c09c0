//! The strategy vip, and the counts of local requests.

use std::num::NonZeroU32;

use ndn_packet::tlv::{append_name, append_number};
use ndn_table::ObjectDivision;

use super::{Case, LOCAL_A, LOCAL_B, data, from, interest};
use crate::bed::{Bed, SentKind};
use crate::model::{Face, Time};
use crate::wire::{Component, Data, Interest, name};

/// TLV-TYPE of a segment component.
const SEGMENT: u16 = 50;
/// TLV-TYPEs of a keyword and of a version component.
const KEYWORD: u16 = 32;
const VERSION: u16 = 54;
/// TLV-TYPE of the length of a file in metadata.
const FILE_SIZE: u32 = 0xF502;
const SECOND: Time = 1000;

/// Faces 2, 3 and 4 are next hops of `/a`, in ascending cost; face 1 sends Interests.
struct Scene {
    bed: Bed,
    nonce: u32,
}

impl Scene {
    fn new(parameters: &str) -> Self {
        let case = Case::new("vip").route("/a", 2).route("/a", 3).route("/a", 4);
        let mut bed = case.with(|world| world.cs_capacity = 0).world.bed(1);
        bed.set_strategy(&name("/a"), &format!("/localhost/nfd/strategy/vip/v=1{parameters}"));
        Self { bed, nonce: 0 }
    }

    /// Sends an Interest on face 1; returns the faces that it leaves on.
    fn request(&mut self, now: Time, uri: &str) -> Vec<Face> {
        self.nonce += 1;
        self.bed.sent.0.clear();
        self.bed.process(now, &[from(1, interest(uri, self.nonce))]);
        let sent = self.bed.sent.0.iter().filter(|sent| sent.kind == SentKind::Interest);
        sent.map(|sent| sent.face).collect()
    }

    fn answer(&mut self, now: Time, face: Face, uri: &str) {
        self.bed.process(now, &[from(face, data(uri))]);
    }
}

#[test]
fn interest_goes_where_most_vips_were_sent_for_its_object() {
    let mut scene = Scene::new("");
    scene.bed.set_vips(&[("/a/x", &[(3, 5), (4, 9)]), ("/a/y", &[(3, 6)])]);
    assert_eq!(scene.request(0, "/a/x/0"), [4]);
    assert_eq!(scene.request(1, "/a/x/1"), [4], "all segments follow");
    assert_eq!(scene.request(2, "/a/y/0"), [3]);
    assert_eq!(scene.request(3, "/a/y"), [3], "the object itself");
    assert_eq!(scene.request(4, "/a/z/0"), [2], "without VIPs as best-route");
    // A later slot.
    scene.bed.set_vips(&[("/a/x", &[(2, 1)])]);
    assert_eq!(scene.request(5, "/a/x/2"), [2]);
    // A next hop that is no longer one is not used, whatever was sent to it.
    scene.bed.set_vips(&[("/a/x", &[(11, 7), (3, 1)])]);
    assert_eq!(scene.request(6, "/a/x/3"), [3]);
    scene.bed.remove_face(3);
    // Interests that waited for it are sent again.
    scene.bed.advance(7);
    assert_eq!(scene.request(7, "/a/x/4"), [2]);
}

#[test]
fn rules_decide_which_object_a_name_belongs_to() {
    let mut scene = Scene::new("");
    let rules = [("/a", 1), ("/a/b", 2)].map(|(uri, of)| (uri, ObjectDivision::Components(of)));
    scene.bed.set_vips_by_rules(&[("/a/x", &[(4, 9)]), ("/a/b/c/d", &[(3, 6)])], &rules);
    assert_eq!(scene.request(0, "/a/x/1/2/3"), [4]);
    assert_eq!(scene.request(1, "/a/x"), [4]);
    assert_eq!(scene.request(2, "/a/b/c/d/e"), [3]);
    assert_eq!(scene.request(3, "/a/b/c"), [2], "shorter than the object");
    assert_eq!(scene.request(4, "/a/y/x"), [2], "without VIPs as best-route");
}

#[test]
fn equal_vips_go_to_the_next_hop_that_answers_sooner() {
    let mut scene = Scene::new("");
    let vips = |scene: &mut Scene, third, fourth| {
        scene.bed.set_vips(&[("/a/x", &[(3, third), (4, fourth)])]);
    };
    for (number, (third, fourth, face, rtt)) in
        [(2, 1, 3, 80), (1, 2, 4, 20)].into_iter().enumerate()
    {
        vips(&mut scene, third, fourth);
        let (now, uri) = (number as u64 * 100, format!("/a/x/{number}"));
        assert_eq!(scene.request(now, &uri), [face]);
        scene.answer(now + rtt, face, &uri);
    }
    vips(&mut scene, 1, 1);
    assert_eq!(scene.request(300, "/a/x/9"), [4]);
}

#[test]
fn next_hop_that_does_not_answer_is_avoided_and_probed_again() {
    let mut scene = Scene::new("/probing-interval~10000");
    scene.bed.set_vips(&[("/a/x", &[(3, 5), (4, 9)])]);
    let mut now = 1;
    let mut round = |scene: &mut Scene, number: u64, silent: Option<Face>| {
        let uri = format!("/a/x/{number}");
        let faces = scene.request(now, &uri);
        for &face in faces.iter().filter(|face| Some(**face) != silent) {
            scene.answer(now + 20, face, &uri);
        }
        now += 5 * SECOND;
        scene.bed.advance(now);
        faces[0]
    };
    assert_eq!(round(&mut scene, 0, None), 4);
    let chosen: Vec<Face> = (1..10).map(|n| round(&mut scene, n, Some(4))).collect();
    let first_left = chosen.iter().position(|face| *face != 4).unwrap();
    assert!((2..=4).contains(&first_left), "{chosen:?}");
    assert!(chosen[first_left..].iter().all(|face| *face == 3), "next by VIPs: {chosen:?}");
    let chosen: Vec<Face> = (10..40).map(|n| round(&mut scene, n, None)).collect();
    assert_eq!(chosen.last(), Some(&4), "a probe was answered: {chosen:?}");
    // No next hop with VIPs answers: another one is used.
    scene.bed.set_vips(&[("/a/x", &[(4, 9)])]);
    let chosen: Vec<Face> = (40..50).map(|n| round(&mut scene, n, Some(4))).collect();
    assert!(chosen.last().is_some_and(|face| *face != 4), "{chosen:?}");
}

/// An Interest for a segment.
fn segment(uri: &str, number: u8, nonce: u32) -> Interest {
    let mut interest = interest(uri, nonce);
    interest.name.push(Component(SEGMENT, vec![number]));
    interest
}

#[test]
fn local_requests_for_first_segments_are_counted_by_object() {
    let case = Case::new("counts").route("/a", 2).route("/localhost", 2).route("/localhop", 2);
    for shards in [1, 3] {
        let mut bed = case.world.bed(shards);
        assert_eq!(bed.take_requests(), [], "counting starts");
        bed.process(
            0,
            &[
                from(LOCAL_A, segment("/a/x", 0, 1)),
                from(LOCAL_B, segment("/a/x", 0, 2)),
                from(LOCAL_A, segment("/a/y", 0, 3)),
                // Further segments, other hosts, other names, and names that stay on the host or link.
                from(LOCAL_A, segment("/a/x", 1, 4)),
                from(3, segment("/a/z", 0, 5)),
                from(LOCAL_A, interest("/a/w/0", 6)),
                from(LOCAL_A, segment("/localhost/x", 0, 7)),
                from(LOCAL_A, segment("/localhop/x", 0, 8)),
            ],
        );
        // A retransmission, and a loop.
        bed.process(100, &[from(LOCAL_A, segment("/a/x", 0, 9))]);
        bed.process(100, &[from(LOCAL_B, segment("/a/y", 0, 3))]);
        let mut answer = data("/a/x");
        answer.name = segment("/a/x", 0, 0).name;
        bed.process(200, &[from(2, answer)]);
        // Answered by the Content Store.
        bed.process(300, &[from(LOCAL_A, segment("/a/x", 0, 10))]);
        let expected = [("/a/x".to_owned(), 3), ("/a/y".to_owned(), 1)];
        assert_eq!(bed.take_requests(), expected, "{shards}");
        assert_eq!(bed.take_requests(), []);
    }
}

#[test]
fn requests_are_counted_by_the_objects_of_rules() {
    let mut bed = Case::new("rules").route("/a", 2).world.bed(1);
    let rules = [("/a", 1), ("/a/one", 0)].map(|(uri, of)| (uri, ObjectDivision::Components(of)));
    bed.set_vips_by_rules(&[], &rules);
    bed.process(
        0,
        &[
            from(LOCAL_A, segment("/a/x/1", 0, 1)),
            from(LOCAL_A, segment("/a/x/2", 0, 2)),
            // The object itself.
            from(LOCAL_A, interest("/a/x", 3)),
            from(LOCAL_A, interest("/a/one", 4)),
            // Further segments, and other names under the object.
            from(LOCAL_A, segment("/a/x/1", 1, 5)),
            from(LOCAL_A, interest("/a/x/3", 6)),
        ],
    );
    let expected = [("/a/one".to_owned(), 1), ("/a/x".to_owned(), 3)];
    assert_eq!(bed.take_requests(), expected);
}

/// Blocks of four segments.
fn blocks() -> [(&'static str, ObjectDivision); 1] {
    [("/a", ObjectDivision::Blocks(NonZeroU32::new(4).unwrap()))]
}

#[test]
fn interests_for_a_block_go_where_its_vips_were_sent() {
    let mut scene = Scene::new("");
    let vips: &[(&str, &[(Face, u64)])] =
        &[("/a/x/seg=0", &[(3, 5)]), ("/a/x/seg=4", &[(4, 9)]), ("/a/x", &[(3, 7)])];
    scene.bed.set_vips_by_rules(vips, &blocks());
    let mut request = |number: u8| {
        scene.nonce += 1;
        scene.bed.sent.0.clear();
        scene.bed.process(0, &[from(1, segment("/a/x", number, scene.nonce))]);
        let sent = scene.bed.sent.0.iter().filter(|sent| sent.kind == SentKind::Interest);
        sent.map(|sent| sent.face).collect::<Vec<_>>()
    };
    assert_eq!([0, 3, 4, 7].map(&mut request), [[3], [3], [4], [4]]);
    assert_eq!(request(8), [2], "a block without VIPs as best-route");
}

#[test]
fn requests_are_counted_by_block() {
    let mut bed = Case::new("blocks").route("/a", 2).world.bed(1);
    bed.set_vips_by_rules(&[], &blocks());
    let segments = [0, 1, 3, 4, 4, 7, 8];
    let interests = (1..).zip(segments).map(|(nonce, number)| {
        let face = if nonce % 2 == 0 { LOCAL_A } else { LOCAL_B };
        from(face, segment("/a/x", number, nonce))
    });
    bed.process(0, &interests.collect::<Vec<_>>());
    // Names without a segment are counted as without a rule.
    bed.process(1, &[from(LOCAL_A, interest("/a/x", 20))]);
    let expected = [("/a/x/seg=0", 1), ("/a/x/seg=4", 2), ("/a/x/seg=8", 1)];
    assert_eq!(bed.take_requests(), expected.map(|(name, count)| (name.to_owned(), count)));
}

/// Metadata of files below a prefix, which has the size of `file`.
fn metadata(prefix: &str, version: u8, file: &str, size_bytes: u64) -> Data {
    let mut content = Vec::new();
    append_name(&mut content, ndn_packet::Name::from_uri(file).unwrap().as_ref());
    append_number(&mut content, FILE_SIZE, size_bytes);
    let mut metadata = data(prefix).content(&content);
    metadata.name.push(Component(KEYWORD, b"metadata".to_vec()));
    metadata.name.push(Component(VERSION, vec![version]));
    metadata.name.push(Component(SEGMENT, vec![0]));
    metadata
}

/// A remote host requests Data, and gets it.
fn transfer(bed: &mut Bed, nonce: u32, data: Data) {
    let mut request = interest("/", nonce);
    request.name.clone_from(&data.name);
    bed.process(0, &[from(3, request)]);
    bed.process(0, &[from(2, data)]);
}

#[test]
fn metadata_of_any_version_takes_one_place() {
    let mut bed = Case::new("metadata").route("/a", 2).world.bed(1);
    // There is room for ten objects.
    bed.set_vips(&[]);
    for version in 0..20_u8 {
        let metadata = metadata("/a/file", version, "/a/file/v=1", 5000);
        transfer(&mut bed, version.into(), metadata);
    }
    assert_eq!(bed.take_sizes(), [("/a/file/v=1".to_owned(), 5000, true)]);
    // The size of the next version is learned in the next slot.
    for (version, file) in [(30_u8, "/a/file/v=1"), (31, "/a/file/v=2")] {
        let size_bytes = u64::from(version) * 1000;
        transfer(&mut bed, version.into(), metadata("/a/file", version, file, size_bytes));
    }
    assert_eq!(bed.take_sizes(), [("/a/file/v=1".to_owned(), 30_000, true)]);
    transfer(&mut bed, 32, metadata("/a/file", 32, "/a/file/v=2", 32_000));
    assert_eq!(bed.take_sizes(), [("/a/file/v=2".to_owned(), 32_000, true)]);
}

#[test]
fn metadata_of_another_prefix_changes_nothing() {
    let mut bed = Case::new("names").route("/a", 2).world.bed(1);
    bed.set_vips(&[]);
    let files = ["/a/file/v=1", "/a/other/x/v=1", "/a/other/x", "/a/other", "/a", "/"];
    for (nonce, file) in (1_u8..).zip(files) {
        transfer(&mut bed, nonce.into(), metadata("/a/other", nonce, file, 1 << 40));
    }
    assert_eq!(bed.take_sizes(), []);
}

#[test]
fn metadata_is_of_no_use_where_files_are_not_objects() {
    for rule in [blocks()[0], ("/a", ObjectDivision::Components(1))] {
        let mut bed = Case::new("parts").route("/a", 2).world.bed(1);
        bed.set_vips_by_rules(&[], &[rule]);
        transfer(&mut bed, 1, metadata("/a/file", 1, "/a/file/v=1", 5000));
        assert_eq!(bed.take_sizes(), [], "{rule:?}");
    }
    let mut bed = Case::new("whole").route("/a", 2).world.bed(1);
    bed.set_vips_by_rules(&[], &[("/a", ObjectDivision::Components(2))]);
    transfer(&mut bed, 1, metadata("/a/file", 1, "/a/file/v=1", 5000));
    assert_eq!(bed.take_sizes(), [("/a/file/v=1".to_owned(), 5000, true)]);
}
