//! Faces that go while others register, list and leave: a part of what led to them at a time.

use std::net::Ipv6Addr;

use proptest::prelude::*;

use super::*;
use crate::dataset::{FibEntry, RibEntry, decode_dataset};
use crate::rib::Route;
use crate::state::routes::{
    AT_ONCE_MAX, HIDDEN_AT_ONCE, ROOM_SLICES_MAX, SLICE_PREFIXES, SLICES_PER_VERSION,
};

/// The prefixes of RIB entries, and prefixes of which only `fib/*` commands add entries.
const RIB: [&str; 9] = ["/", "/a", "/a/b", "/a/b/c", "/a/d", "/b", "/b/c", "/c", "/d"];
const FIB: [&str; 6] = ["/f", "/f/a", "/f/b", "/f/c", "/g", "/h"];
const FACES: usize = 3;

#[derive(Debug, Clone)]
enum Step {
    Register {
        prefix: usize,
        face: usize,
        cost: u64,
        flags: u64,
        /// Seconds.
        period: Option<u64>,
    },
    Unregister {
        prefix: usize,
        face: usize,
    },
    AddNextHop {
        prefix: usize,
        face: usize,
        cost: u64,
    },
    RemoveNextHop {
        prefix: usize,
        face: usize,
    },
    /// The face goes, and another one comes.
    Gone(usize),
    /// One slice.
    Timeout,
    /// A second passes.
    Second,
    List,
}

fn any_step() -> impl Strategy<Value = Step> {
    let (rib, fib, face) = (0..RIB.len(), 0..FIB.len(), 0..FACES);
    prop_oneof![
        12 => (rib.clone(), face.clone(), 0..3_u64, 0..4_u64, prop::option::of(1..3_u64)).prop_map(
            |(prefix, face, cost, flags, period)| Step::Register { prefix, face, cost, flags, period }
        ),
        1 => (rib, face.clone()).prop_map(|(prefix, face)| Step::Unregister { prefix, face }),
        6 => (fib.clone(), face.clone(), 0..3_u64)
            .prop_map(|(prefix, face, cost)| Step::AddNextHop { prefix, face, cost }),
        1 => (fib, face.clone()).prop_map(|(prefix, face)| Step::RemoveNextHop { prefix, face }),
        2 => face.prop_map(Step::Gone),
        3 => Just(Step::Timeout),
        1 => Just(Step::Second),
        2 => Just(Step::List),
    ]
}

/// Two control planes with the same input; one of them removes everything at once.
struct Pair {
    sliced: Harness,
    naive: Harness,
    faces: [u64; FACES],
    last_face: u64,
}

impl Pair {
    fn new() -> Self {
        let (mut sliced, mut naive) = (Harness::new(), Harness::new());
        for face_id in [302, 303, 304] {
            for harness in [&mut sliced, &mut naive] {
                let face = record(face_id, &format!("fd://{face_id}"), Scope::Local);
                harness.state.face_created(harness.now, face);
                harness.run();
                harness.sent.clear();
            }
        }
        Self { sliced, naive, faces: [302, 303, 304], last_face: 304 }
    }

    fn apply(&mut self, step: Step) {
        let faces = self.faces;
        let (verb, parameters) = match step {
            Step::Register { prefix, face, cost, flags, period } => {
                let (face_id, flags) = (Some(faces[face]), Some(flags));
                let (cost, expiration_period_ms) = (Some(cost), period.map(|s| 1000 * s));
                let route = ControlParameters {
                    face_id,
                    cost,
                    flags,
                    expiration_period_ms,
                    ..named(RIB[prefix])
                };
                (Verb::RibRegister, route)
            }
            Step::Unregister { prefix, face } => {
                let face_id = Some(faces[face]);
                (Verb::RibUnregister, ControlParameters { face_id, ..named(RIB[prefix]) })
            }
            Step::AddNextHop { prefix, face, cost } => {
                let (face_id, cost) = (Some(faces[face]), Some(cost));
                (Verb::FibAddNextHop, ControlParameters { face_id, cost, ..named(FIB[prefix]) })
            }
            Step::RemoveNextHop { prefix, face } => {
                let face_id = Some(faces[face]);
                (Verb::FibRemoveNextHop, ControlParameters { face_id, ..named(FIB[prefix]) })
            }
            Step::Gone(face) => return self.replace(face),
            Step::Timeout => {
                self.sliced.handle_timeout();
                return self.sliced.run();
            }
            Step::Second => return self.pass(),
            Step::List => return self.ask(),
        };
        assert!(self.sliced.command(APP, verb, &parameters).is_ok());
        assert!(self.naive.command(APP, verb, &parameters).is_ok());
    }

    /// Routes expire: in one go, or the first slice of them.
    fn pass(&mut self) {
        for harness in [&mut self.sliced, &mut self.naive] {
            harness.pass(SECOND);
            harness.handle_timeout();
        }
        self.sliced.run();
        self.finish();
    }

    fn finish(&mut self) {
        while self.naive.state.is_changing_routes() {
            self.naive.handle_timeout();
        }
        self.naive.run();
    }

    fn replace(&mut self, face: usize) {
        self.last_face += 1;
        let (old, new) = (std::mem::replace(&mut self.faces[face], self.last_face), self.last_face);
        for harness in [&mut self.sliced, &mut self.naive] {
            harness.state.face_destroyed(harness.now, old);
            let face = record(new, &format!("fd://{new}"), Scope::Local);
            harness.state.face_created(harness.now, face);
            harness.run();
            harness.sent.clear();
        }
        self.finish();
    }

    fn ask(&mut self) {
        for uri in ["/localhost/nfd/rib/list", "/localhost/nfd/fib/list"] {
            let wire = InterestBuilder::new(&name(uri)).can_be_prefix(true).to_vec().unwrap();
            let handled = self.sliced.interest(&wire, APP);
            assert_eq!(handled, RequestOutcome::Data { answered: true });
        }
    }

    /// Lists that have been answered contain routes to existing faces only. Those of the FIB show what is inherited so far.
    fn check_lists(&mut self) {
        for (wire, _) in std::mem::take(&mut self.sliced.sent) {
            let data = Data::parse(&wire).unwrap();
            let content = data.content().unwrap();
            if data.name().starts_with(name("/localhost/nfd/rib").as_ref()) {
                let listed = decode_dataset::<RibEntry>(content).unwrap().into_iter();
                let listed: Vec<(Name, usize)> =
                    listed.map(|entry| (entry.name, entry.routes.len())).collect();
                let rib = self.naive.state.rib();
                let expected: Vec<(Name, usize)> =
                    rib.iter().map(|(name, routes)| (name.to_name(), routes.len())).collect();
                assert_eq!(listed, expected);
            } else {
                let listed = decode_dataset::<FibEntry>(content).unwrap().into_iter();
                let hops = |entry: FibEntry| {
                    let hops = entry.next_hops.iter().map(|hop| (hop.face_id, hop.cost));
                    (entry.name, hops.collect())
                };
                let listed: Vec<(Name, Vec<(u64, u64)>)> = listed.map(hops).collect();
                let state = &self.sliced.state;
                let living = |hop: &&NextHop| state.face(hop.face_id).is_some();
                let expected = state.fib().iter().map(|(name, hops)| {
                    let hops = hops.iter().filter(living).map(|hop| (hop.face_id, hop.cost));
                    (name.to_name(), hops.collect())
                });
                let expected: Vec<(Name, Vec<(u64, u64)>)> =
                    expected.filter(|(_, hops): &(_, Vec<_>)| !hops.is_empty()).collect();
                assert_eq!(listed, expected);
            }
        }
    }

    /// Routes to faces that are there and that have not expired are the same at any time; the rest is there
    /// for a while.
    fn check_routes(&self) {
        let living = |harness: &Harness| -> Vec<(Name, Route)> {
            let rib = harness.state.rib().iter();
            let routes = rib.flat_map(|(prefix, routes)| {
                routes.iter().map(move |route| (prefix.to_name(), *route))
            });
            let is_living = |route: &Route| {
                let is_over = route.expires_at.is_some_and(|at| at <= harness.now.monotonic);
                harness.state.face(route.face_id).is_some() && !is_over
            };
            let mut living: Vec<(Name, Route)> =
                routes.filter(|(_, route)| is_living(route)).collect();
            // One that comes again before it has been removed is where it was.
            living.sort_by(|(a, one), (b, other)| (a, one.face_id).cmp(&(b, other.face_id)));
            living
        };
        assert_eq!(living(&self.sliced), living(&self.naive));
        if !self.sliced.state.is_changing_routes() {
            assert_eq!(self.sliced.fib, self.naive.fib);
            assert_eq!(self.sliced.state.rib().route_count(), self.naive.state.rib().route_count());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn removal_in_slices_has_the_result_of_removal_at_once(
        steps in prop::collection::vec(any_step(), 1..120),
    ) {
        let mut pair = Pair::new();
        for step in steps {
            pair.apply(step);
            pair.check_lists();
            pair.check_routes();
        }
        pair.ask();
        prop_assert!(pair.sliced.sent.len() >= 2, "a requested list is sent");
        pair.check_lists();
        while pair.sliced.state.is_changing_routes() {
            pair.apply(Step::Timeout);
            pair.check_routes();
        }
    }
}

/// Registers as many prefixes as four slices have.
fn fill(harness: &mut Harness) {
    for number in 0..4 * SLICE_PREFIXES {
        harness.command(APP, Verb::RibRegister, &named(&format!("/many/{number}")));
    }
    harness.batches.clear();
}

/// The batches of FIB updates since the last call: whether somebody waits.
fn awaited(harness: &mut Harness) -> Vec<bool> {
    harness.run();
    std::mem::take(&mut harness.batches)
}

/// One more application.
fn create(harness: &mut Harness, face_id: u64) {
    let face = record(face_id, &format!("fd://{face_id}"), Scope::Local);
    harness.state.face_created(harness.now, face);
    harness.run();
    harness.sent.clear();
    harness.batches.clear();
}

#[test]
fn requests_are_served_while_routes_are_removed() {
    let mut harness = Harness::new();
    fill(&mut harness);
    harness.state.face_destroyed(harness.now, APP);
    assert!(harness.state.is_changing_routes());
    assert_eq!(harness.state.next_deadline(), Some(Timestamp::ZERO), "it goes on at once");
    assert_eq!(awaited(&mut harness), [false], "more follow");
    let wire = CommandBuilder::default()
        .digest_signed_interest(Verb::RibRegister, &named("/a"), 9, 9)
        .unwrap();
    harness.state.handle_interest(harness.now, &wire, TUNNEL, &harness.telemetry);
    let wire = CommandBuilder::default()
        .digest_signed_interest(Verb::FibAddNextHop, &named("/b"), 9, 9)
        .unwrap();
    harness.state.face_created(harness.now, record(400, "fd://9", Scope::Local));
    harness.state.handle_interest(harness.now, &wire, 400, &harness.telemetry);
    assert_eq!(awaited(&mut harness), [true], "a command waits for its route");
    let mut rounds = Vec::new();
    while harness.state.is_changing_routes() {
        harness.handle_timeout();
        rounds.extend(awaited(&mut harness));
    }
    assert_eq!(rounds, [false, false, true], "the last part is published with all before it");
}

#[test]
fn face_with_few_routes_is_removed_at_once() {
    let mut harness = Harness::new();
    fill(&mut harness);
    create(&mut harness, 400);
    harness.command(400, Verb::RibRegister, &named("/few"));
    harness.batches.clear();
    harness.state.face_destroyed(harness.now, APP);
    assert_eq!(awaited(&mut harness), [false]);
    harness.state.face_destroyed(harness.now, 400);
    assert!(harness.state.is_changing_routes());
    assert_eq!(awaited(&mut harness), [true], "a shorter prefix is to be found in its place");
    // Nor does the first of two wait for the second.
    create(&mut harness, 401);
    for number in 0..3 * SLICE_PREFIXES {
        harness.command(401, Verb::RibRegister, &named(&format!("/other/{number}")));
    }
    harness.batches.clear();
    harness.state.face_destroyed(harness.now, 401);
    let mut rounds = awaited(&mut harness);
    while harness.state.is_changing_routes() {
        harness.handle_timeout();
        rounds.extend(awaited(&mut harness));
    }
    assert_eq!(rounds, [false, false, false, true, false, true]);
}

#[test]
fn command_waits_for_the_publication_of_a_slice() {
    for verb in [Verb::FibRemoveNextHop, Verb::RibUnregister] {
        let mut harness = Harness::new();
        fill(&mut harness);
        create(&mut harness, 400);
        harness.state.face_destroyed(harness.now, APP);
        assert_eq!(awaited(&mut harness), [false]);
        let first = ControlParameters { face_id: Some(APP), ..named("/many/0") };
        assert_eq!(harness.state.fib().find(name("/many/0").as_ref()), None);
        let wire = CommandBuilder::default().digest_signed_interest(verb, &first, 9, 9).unwrap();
        harness.state.handle_interest(harness.now, &wire, 400, &harness.telemetry);
        let published = harness.state.poll_action();
        let nothing_more = Action::UpdateFib { updates: Vec::new(), is_awaited: true };
        assert_eq!(published, Some(nothing_more), "before the answer");
        assert_eq!(awaited(&mut harness), [], "once");
        harness.handle_timeout();
        assert_eq!(awaited(&mut harness), [false], "no command waits for later changes");
    }
}

/// All applications are operators', which may use the whole tables.
fn operators(config: ControlConfig) -> Harness {
    let mut harness = Harness::with_config(config);
    harness.state.set_operator_users(vec![1000]);
    harness
}

#[test]
fn removals_in_progress_make_room_in_a_share() {
    let config = ControlConfig { fib_entries_max: 40 * SLICE_PREFIXES, ..ControlConfig::default() };
    let mut harness = Harness::with_config(config);
    create(&mut harness, 400);
    let register = |harness: &mut Harness, face_id: u64, number: usize| {
        harness.command(face_id, Verb::RibRegister, &named(&format!("/{face_id}/{number}"))).is_ok()
    };
    let count = (0..1000).take_while(|number| register(&mut harness, APP, *number)).count();
    assert!((5 * SLICE_PREFIXES..40 * SLICE_PREFIXES).contains(&count), "{count}");
    assert!(!register(&mut harness, 400, 0), "it is a face of the same user");
    harness.state.face_destroyed(harness.now, APP);
    assert!((0..count).all(|number| register(&mut harness, 400, number)));
}

#[test]
fn removals_in_progress_make_room() {
    let limit = 4 * SLICE_PREFIXES;
    let full_fib = ControlConfig { fib_entries_max: limit, ..ControlConfig::default() };
    let full_rib = ControlConfig { rib_routes_max: limit, ..ControlConfig::default() };
    for config in [full_fib, full_rib] {
        let mut harness = operators(config);
        create(&mut harness, 400);
        fill(&mut harness);
        let full = harness.command(400, Verb::RibRegister, &named("/more"));
        assert_eq!(full.code, 500, "there is no room");
        harness.state.face_destroyed(harness.now, APP);
        harness.run();
        harness.sent.clear();
        for number in 0..limit {
            let parameters = named(&format!("/again/{number}"));
            assert!(harness.command(400, Verb::RibRegister, &parameters).is_ok());
        }
        assert!(!harness.state.is_changing_routes(), "all of it was in the way");
    }
}

/// A full FIB, the first `shared` prefixes of which have next hops through two faces, of which one has just
/// gone.
fn full_fib(shared: usize, others: usize) -> Harness {
    let fib_entries_max = shared + others;
    let mut harness = operators(ControlConfig { fib_entries_max, ..ControlConfig::default() });
    create(&mut harness, 400);
    for number in 0..fib_entries_max {
        let prefix = named(&format!("/many/{number:05}"));
        harness.command(APP, Verb::RibRegister, &prefix);
        if number < shared {
            harness.command(400, Verb::RibRegister, &prefix);
        }
    }
    harness.state.face_destroyed(harness.now, APP);
    harness.run();
    harness.sent.clear();
    harness
}

#[test]
fn slices_for_room_are_limited() {
    let mut harness = full_fib(3 * SLICE_PREFIXES, 2 * SLICE_PREFIXES);
    for verb in [Verb::RibRegister, Verb::FibAddNextHop] {
        let more = named(&format!("/more/{verb:?}"));
        assert!(harness.command(400, verb, &more).is_ok());
    }
    assert!(harness.state.is_changing_routes(), "no more than it takes");

    let mut harness = full_fib((ROOM_SLICES_MAX + 2) * SLICE_PREFIXES, 1);
    let full = harness.command(400, Verb::RibRegister, &named("/more"));
    assert_eq!(full.code, 500, "others wait, too");
    assert!(harness.state.is_changing_routes());
    assert!(harness.command(400, Verb::RibRegister, &named("/more")).is_ok(), "the next time");
}

/// Registers as many prefixes as this number of slices have, for a second, which is over then.
fn expire(harness: &mut Harness, slices: usize) {
    for number in 0..slices * SLICE_PREFIXES {
        let period = Some(1000);
        let prefix = named(&format!("/many/{number}"));
        let parameters = ControlParameters { expiration_period_ms: period, ..prefix };
        harness.command(APP, Verb::RibRegister, &parameters);
    }
    harness.now.monotonic += SECOND;
    harness.batches.clear();
}

#[test]
fn expired_routes_share_fib_versions_and_are_not_listed() {
    let mut harness = Harness::new();
    expire(&mut harness, SLICES_PER_VERSION + 2);
    harness.handle_timeout();
    assert!(harness.state.is_changing_routes());
    assert_eq!(awaited(&mut harness), [false], "more follow");
    for uri in ["/localhost/nfd/rib/list", "/localhost/nfd/fib/list"] {
        let wire = InterestBuilder::new(&name(uri)).can_be_prefix(true).to_vec().unwrap();
        assert_eq!(harness.interest(&wire, APP), RequestOutcome::Data { answered: true });
    }
    let (rib, fib) = (&harness.sent[0].0, &harness.sent[1].0);
    let content = |wire| Data::parse(wire).unwrap().content().unwrap().to_vec();
    assert!(content(rib).is_empty(), "no route is listed");
    assert!(!content(fib).is_empty(), "their next hops are in use");
    let mut rounds = Vec::new();
    while harness.state.is_changing_routes() {
        harness.state.handle_timeout(harness.now);
        rounds.extend(awaited(&mut harness));
    }
    assert_eq!(rounds.len(), SLICES_PER_VERSION + 1);
    let versions: Vec<usize> = (0..rounds.len()).filter(|round| rounds[*round]).collect();
    assert_eq!(versions, [SLICES_PER_VERSION - 2, SLICES_PER_VERSION]);
}

/// A face of an application of a user.
fn create_of(harness: &mut Harness, face_id: u64, uid: u32) {
    let mut face = record(face_id, &format!("fd://{face_id}"), Scope::Local);
    face.principal = PrincipalKey::LocalApplication { uid, pid: 9 };
    harness.state.face_created(harness.now, face);
    harness.run();
    harness.sent.clear();
}

/// Rounds of management, of some milliseconds each, that others wait for while a user with routes of this number of slices
/// goes away: for the answer to a command, for a list of routes and one of next hops, and for the end of the routes of a face
/// that closes meanwhile, which has two slices more than are removed at once.
fn rounds_of_others(slices: usize) -> [usize; 3] {
    const OTHER: u64 = 400;
    let mut harness = Harness::new();
    create_of(&mut harness, OTHER, 2000);
    for number in 0..3 * SLICE_PREFIXES {
        harness.command(OTHER, Verb::RibRegister, &named(&format!("/other/{number:05}")));
    }
    for number in 0..slices * SLICE_PREFIXES {
        harness.command(APP, Verb::RibRegister, &named(&format!("/many/{number:05}")));
    }
    create_of(&mut harness, 401, 2000);
    harness.state.face_destroyed(harness.now, APP);
    harness.state.face_destroyed(harness.now, OTHER);
    harness.run();
    harness.sent.clear();
    let wire = CommandBuilder::default()
        .digest_signed_interest(Verb::RibRegister, &named("/a"), 9, 9)
        .unwrap();
    harness.state.handle_interest(harness.now, &wire, 401, &harness.telemetry);
    for uri in ["/localhost/nfd/rib/list", "/localhost/nfd/fib/list"] {
        let wire = InterestBuilder::new(&name(uri)).can_be_prefix(true).to_vec().unwrap();
        harness.state.handle_interest(harness.now, &wire, 401, &harness.telemetry);
    }
    let (mut rounds, mut answered, mut ended) = (0, Vec::new(), None);
    loop {
        harness.run();
        answered.extend(harness.sent.drain(..).map(|_| rounds));
        if harness.fib(&format!("/other/{:05}", 3 * SLICE_PREFIXES - 1)).is_empty() {
            ended.get_or_insert(rounds);
        }
        if !harness.state.is_changing_routes() && answered.len() >= 3 {
            break;
        }
        harness.handle_timeout();
        rounds += 1;
    }
    [answered[0], answered[2], ended.unwrap()]
}

#[test]
fn others_do_not_wait_for_the_routes_of_a_user() {
    let [few, many] = [4, 60].map(rounds_of_others);
    assert_eq!(few, many);
    assert_eq!(many, [0, 0, 4]);
}

/// Closes faces of a user until no further prefix is removed at once.
fn use_up_at_once(harness: &mut Harness, uid: u32) {
    let faces = 2000..2000 + AT_ONCE_MAX as u64;
    for face_id in faces.clone() {
        create_of(harness, face_id, uid);
        harness.command(face_id, Verb::RibRegister, &named(&format!("/{face_id}")));
    }
    faces.for_each(|face_id| harness.state.face_destroyed(harness.now, face_id));
    harness.run();
    assert!(!harness.state.is_changing_routes());
}

#[test]
fn version_from_before_a_face_was_destroyed_is_not_sent_after_it() {
    for prefixes in [1, HIDDEN_AT_ONCE + 100] {
        check_versions_around_the_end_of_a_face(prefixes);
    }
}

fn check_versions_around_the_end_of_a_face(prefixes: usize) {
    let mut harness = Harness::new();
    create(&mut harness, 400);
    for number in 0..prefixes {
        for verb in [Verb::RibRegister, Verb::FibAddNextHop] {
            let prefix = named(&format!("/{verb:?}/{number}"));
            assert!(harness.command(APP, verb, &prefix).is_ok());
        }
    }
    use_up_at_once(&mut harness, 2000);
    let shown = |harness: &mut Harness| {
        ["/localhost/nfd/rib/list", "/localhost/nfd/fib/list"].map(|uri| {
            let wire = InterestBuilder::new(&name(uri)).can_be_prefix(true).to_vec().unwrap();
            harness.interest(&wire, 400);
            let (wire, _) = harness.sent.pop().unwrap();
            !Data::parse(&wire).unwrap().content().unwrap().is_empty()
        })
    };
    assert_eq!(shown(&mut harness), [true, true]);
    harness.state.face_destroyed(harness.now, APP);
    assert!(harness.state.is_changing_routes());
    harness.run();
    harness.sent.clear();
    assert_eq!(shown(&mut harness), [false, false]);
}

/// The number of prefixes below this one that have routes.
fn count_below(harness: &Harness, uri: &str) -> usize {
    let top = name(uri);
    harness.state.rib().iter().filter(|(prefix, _)| prefix.starts_with(top.as_ref())).count()
}

/// A user whose faces have these numbers of prefixes each, and one with a single face, close them at the same time. Returns the
/// users of the slices.
fn slices_of_two(faces_of_first: usize, prefixes_of_each: usize) -> String {
    const SINGLE: u64 = 400;
    let mut harness = Harness::new();
    let faces = 1000..1000 + faces_of_first as u64;
    let count = faces_of_first * prefixes_of_each;
    let both = faces.clone().map(|face_id| (face_id, 2000, prefixes_of_each));
    for (face_id, uid, prefixes) in both.chain([(SINGLE, 3000, count)]) {
        create_of(&mut harness, face_id, uid);
        for number in 0..prefixes {
            let prefix = named(&format!("/{uid}/{face_id}/{number}"));
            harness.command(face_id, Verb::RibRegister, &prefix);
        }
    }
    use_up_at_once(&mut harness, 2000);
    faces.chain([SINGLE]).for_each(|face_id| harness.state.face_destroyed(harness.now, face_id));
    let left = |harness: &Harness| ["/2000", "/3000"].map(|top| count_below(harness, top));
    let (mut users, mut before) = (String::new(), left(&harness));
    assert_eq!(before, [count; 2]);
    while harness.state.is_changing_routes() {
        harness.handle_timeout();
        let after = left(&harness);
        users.push(match [before[0] - after[0], before[1] - after[1]] {
            [SLICE_PREFIXES, 0] => '1',
            [0, SLICE_PREFIXES] => '2',
            other => panic!("{other:?} after {users}"),
        });
        before = after;
    }
    users
}

#[test]
fn turn_of_a_user_is_a_slice_whatever_the_number_of_its_faces() {
    for prefixes_of_each in [1, 2, SLICE_PREFIXES, SLICE_PREFIXES + 1, 4 * SLICE_PREFIXES] {
        let faces = 4 * SLICE_PREFIXES / prefixes_of_each;
        assert_eq!(slices_of_two(faces, prefixes_of_each), "12121212", "{prefixes_of_each}");
    }
}

#[test]
fn turn_goes_on_in_the_next_slice() {
    const SMALL: usize = SLICE_PREFIXES - 1;
    let users = [(5000, SMALL), (6000, 3 * SLICE_PREFIXES), (7000, SMALL), (8000, SMALL)];
    let mut harness = Harness::new();
    for (uid, count) in users {
        create_of(&mut harness, uid.into(), uid);
        for number in 0..count {
            harness.command(uid.into(), Verb::RibRegister, &named(&format!("/{uid}/{number}")));
        }
    }
    use_up_at_once(&mut harness, 1000);
    for (uid, _) in users {
        harness.state.face_destroyed(harness.now, uid.into());
    }
    let counts = |harness: &Harness| users.map(|(uid, _)| count_below(harness, &format!("/{uid}")));
    let mut left = vec![counts(&harness)];
    while harness.state.is_changing_routes() {
        harness.handle_timeout();
        left.push(counts(&harness));
    }
    let of_large: Vec<usize> = left.windows(2).map(|pair| pair[0][1] - pair[1][1]).collect();
    // The first turn of the large one has a prefix of the first slice and the rest of it in the second one.
    assert_eq!(of_large, [1, SMALL, 0, SLICE_PREFIXES, SLICE_PREFIXES], "{left:?}");
}

/// Rounds until a face with two slices is gone, beside ten other faces with as many each, of these principals and keepers.
fn rounds_beside(principals: impl Fn(u64) -> (PrincipalKey, Option<PrincipalKey>)) -> usize {
    const FACES: u64 = 10;
    const OTHER: u64 = 400;
    let mut harness = Harness::new();
    create_of(&mut harness, OTHER, 2000);
    for number in 0..2 * SLICE_PREFIXES {
        harness.command(OTHER, Verb::RibRegister, &named(&format!("/other/{number}")));
    }
    for number in 0..FACES {
        let (face_id, (principal, keeper)) = (1000 + number, principals(number));
        let face = record(face_id, &format!("udp4://192.0.2.{number}:6363"), Scope::NonLocal);
        harness.state.face_created(harness.now, FaceRecord { principal, keeper, ..face });
        harness.run();
        harness.sent.clear();
        for prefix in 0..2 * SLICE_PREFIXES {
            let named = named(&format!("/kept/{number}/{prefix}"));
            let route = ControlParameters { face_id: Some(face_id), ..named };
            assert!(harness.command(APP, Verb::RibRegister, &route).is_ok());
        }
    }
    use_up_at_once(&mut harness, 1000);
    for face_id in (1000..1000 + FACES).chain([OTHER]) {
        harness.state.face_destroyed(harness.now, face_id);
    }
    let mut rounds = 0;
    while count_below(&harness, "/other") > 0 {
        harness.handle_timeout();
        rounds += 1;
    }
    rounds
}

#[test]
fn faces_that_a_user_keeps_have_the_turns_of_the_user() {
    let address = |number: u64| ([192, 0, 2, u8::try_from(number).unwrap()], 6363).into();
    let user = PrincipalKey::LocalApplication { uid: 1000, pid: 0 };
    assert_eq!(rounds_beside(|_| (principal_of("fd://20"), None)), 4, "they take turns");
    let rounds = rounds_beside(|number| (PrincipalKey::remote(address(number)), Some(user)));
    assert_eq!(rounds, 4);
}

#[test]
fn networks_of_a_site_have_the_turns_of_one_principal() {
    let rounds = rounds_beside(|number| {
        let network = u16::try_from(number).unwrap();
        let address = Ipv6Addr::new(0x2001, 0xdb8, 7, network, 0, 0, 0, 1);
        (PrincipalKey::remote((address, 6363).into()), None)
    });
    assert_eq!(rounds, 4);
}

/// Whether a route of a prefix, or a next hop of `fib/*` commands, is refused to a user that has the maximum of one principal,
/// all of which is to be removed after other routes.
fn is_prefix_full(verb: Verb, period: Option<u64>) -> bool {
    const OWN_MAX: u64 = 16;
    let mut harness = Harness::new();
    let faces = 1000..1000 + OWN_MAX;
    let add = |harness: &mut Harness, face_id: u64, uri: &str, period: Option<u64>| {
        let prefix = named(uri);
        let parameters = ControlParameters { expiration_period_ms: period, ..prefix };
        harness.command(face_id, verb, &parameters).code
    };
    for number in 0..4 * SLICE_PREFIXES {
        add(&mut harness, APP, &format!("/a/{number}"), period.map(|period| period - 1));
    }
    for face_id in faces.clone() {
        create(&mut harness, face_id);
        assert_eq!(add(&mut harness, face_id, "/b", period), status::OK);
    }
    create(&mut harness, 400);
    assert_eq!(add(&mut harness, 400, "/b", None), status::INTERNAL_ERROR, "it is full");
    use_up_at_once(&mut harness, 1000);
    if let Some(period) = period {
        harness.pass(Duration::from_millis(period));
        harness.handle_timeout();
    } else {
        harness.state.face_destroyed(harness.now, APP);
        faces.for_each(|face_id| harness.state.face_destroyed(harness.now, face_id));
    }
    harness.run();
    harness.sent.clear();
    let hops = |harness: &Harness| harness.fib("/b").len() as u64;
    assert_eq!(hops(&harness), OWN_MAX);
    let code = add(&mut harness, 400, "/b", None);
    assert!(harness.state.is_changing_routes());
    assert_eq!(hops(&harness), OWN_MAX, "no more was removed than it takes");
    code != status::OK
}

#[test]
fn routes_that_are_being_removed_leave_room_at_their_prefix() {
    assert!(!is_prefix_full(Verb::RibRegister, None));
    assert!(!is_prefix_full(Verb::RibRegister, Some(1000)));
    assert!(!is_prefix_full(Verb::FibAddNextHop, None));
}

#[test]
fn faces_that_close_at_once_leave_time_to_others() {
    let faces = 1000..1000 + 2 * AT_ONCE_MAX as u64;
    let mut harness = Harness::new();
    for face_id in faces.clone() {
        create_of(&mut harness, face_id, 2000);
        for number in 0..2 {
            harness.command(face_id, Verb::RibRegister, &named(&format!("/{face_id}/{number}")));
        }
    }
    faces.for_each(|face_id| harness.state.face_destroyed(harness.now, face_id));
    let mut left = vec![harness.state.rib().route_count()];
    while harness.state.is_changing_routes() {
        harness.handle_timeout();
        left.push(harness.state.rib().route_count());
    }
    assert_eq!(left[0], 3 * AT_ONCE_MAX, "others are served between the slices");
    assert!(left.windows(2).all(|pair| pair[0] - pair[1] == SLICE_PREFIXES), "{left:?}");
    assert_eq!(left.last(), Some(&0));
}

#[test]
fn user_whose_routes_end_has_room_beside_another() {
    // More slices than one command waits for.
    const ROUTES: usize = (ROOM_SLICES_MAX + 8) * SLICE_PREFIXES;
    let config = ControlConfig {
        fib_entries_max: 400 * SLICE_PREFIXES,
        routes_per_principal_max: ROUTES,
        ..ControlConfig::default()
    };
    let mut harness = Harness::with_config(config);
    create_of(&mut harness, 400, 2000);
    create_of(&mut harness, 401, 2000);
    let register = |harness: &mut Harness, face_id: u64, number: usize| {
        harness.command(face_id, Verb::RibRegister, &named(&format!("/{face_id}/{number}"))).is_ok()
    };
    let fill = |harness: &mut Harness, face_id: u64| {
        (0..).take_while(|number| register(harness, face_id, *number)).count()
    };
    let (of_first, of_second) = (fill(&mut harness, APP), fill(&mut harness, 400));
    assert_eq!((of_first, of_second), (ROUTES, ROUTES));
    harness.state.face_destroyed(harness.now, APP);
    harness.state.face_destroyed(harness.now, 400);
    assert!((0..of_second).all(|number| register(&mut harness, 401, number)));
}

#[test]
fn expired_routes_make_room_beside_a_face_with_many_routes() {
    let config = ControlConfig { rib_routes_max: 4 * SLICE_PREFIXES, ..ControlConfig::default() };
    let mut harness = operators(config);
    expire(&mut harness, 4);
    harness.handle_timeout();
    harness.run();
    for number in 0..4 * SLICE_PREFIXES {
        let parameters = named(&format!("/again/{number}"));
        assert!(harness.command(APP, Verb::RibRegister, &parameters).is_ok());
    }
    assert!(!harness.state.is_changing_routes(), "all of them were in the way");
    harness.command(APP, Verb::RibUnregister, &named("/again/0"));
    create(&mut harness, 400);
    let period = Some(1000);
    let parameters = ControlParameters { expiration_period_ms: period, ..named("/few") };
    assert!(harness.command(400, Verb::RibRegister, &parameters).is_ok());
    harness.now.monotonic += SECOND;
    harness.batches.clear();
    harness.state.face_destroyed(harness.now, APP);
    assert_eq!(awaited(&mut harness), [false]);
    harness.handle_timeout();
    assert!(harness.state.is_changing_routes());
    assert_eq!(awaited(&mut harness), [true], "the route whose time is over is used no more");
}

#[test]
fn routes_that_expire_together_are_removed_in_slices() {
    let mut harness = Harness::new();
    expire(&mut harness, 4);
    let mut left = Vec::new();
    while harness.state.rib().route_count() > 0 {
        assert!(harness.state.next_deadline().is_some_and(|at| at <= harness.now.monotonic));
        harness.handle_timeout();
        left.push(harness.state.rib().route_count() / SLICE_PREFIXES);
    }
    assert_eq!(left, [3, 2, 1, 0]);
}
