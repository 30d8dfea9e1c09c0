//! Random commands, events, completions and garbage: what must hold whatever comes.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Command {
        verb: Verb,
        parameters: Box<ControlParameters>,
        face_id: u64,
    },
    /// A command whose bytes are changed at some places.
    Damaged {
        verb: Verb,
        parameters: Box<ControlParameters>,
        changes: Vec<(usize, u8)>,
    },
    Dataset {
        uri: &'static str,
        fetch: bool,
    },
    FaceCreated(u64),
    FaceDestroyed(u64),
    FaceState(u64, bool),
    /// Completes the oldest open action, well or badly.
    Complete(bool),
    Advance(Duration),
}

fn any_name() -> impl Strategy<Value = Name> {
    prop_oneof![
        8 => prop::sample::select(vec!["/", "/a", "/a/b", "/a/b/c", "/b", "/localhost/nfd"]).prop_map(name),
        1 => (30..40_usize).prop_map(deep_name),
    ]
}

fn any_strategy_name() -> impl Strategy<Value = Name> {
    let names =
        vec!["/multicast", "/multicast/v=1", "/best-route/v=9", "/x", "/best-route/v=5/a~1", ""];
    prop::sample::select(names).prop_map(|tail| name(&format!("/localhost/nfd/strategy{tail}")))
}

fn any_uri() -> impl Strategy<Value = String> {
    let uris = vec![
        "udp4://192.0.2.1:6363",
        "udp4://192.0.2.2:6363",
        "tcp6://[2001:db8::1]:6363",
        "udp://192.0.2.1",
        "ether://[08:00:27:01:dd:01]",
        "nonsense",
        "",
    ];
    prop::sample::select(uris).prop_map(str::to_owned)
}

fn any_face() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), 300..306_u64, Just(u64::MAX)]
}

fn any_parameters() -> impl Strategy<Value = ControlParameters> {
    let option = prop::option::of::<BoxedStrategy<u64>>;
    let small = || option(prop_oneof![0..4_u64, Just(255), Just(u64::MAX)].boxed());
    let rare = || prop::option::weighted(0.1, prop_oneof![0..4_u64, Just(u64::MAX)]);
    (
        (
            prop::option::weighted(0.9, any_name()),
            option(any_face().boxed()),
            prop::option::weighted(0.2, any_uri()),
        ),
        (small(), small(), rare(), rare(), rare(), rare()),
        (prop::option::weighted(0.2, any_strategy_name()), small(), rare(), rare(), rare(), rare()),
    )
        .prop_map(
            |((name, face_id, uri), (origin, cost, capacity, count, flags, mask), more)| {
                let (strategy, expiration_period_ms, persistency, base, threshold, mtu) = more;
                ControlParameters {
                    name,
                    face_id,
                    uri,
                    local_uri: None,
                    origin,
                    cost,
                    capacity,
                    count,
                    flags,
                    mask,
                    strategy,
                    expiration_period_ms,
                    persistency,
                    base_congestion_marking_interval_ns: base,
                    default_congestion_threshold: threshold,
                    mtu,
                    driver: None,
                }
            },
        )
}

/// Drops what the verb does not take, so that most commands get past the rules. Rare parameters stay.
fn suited(verb: Verb, mut parameters: ControlParameters) -> ControlParameters {
    use crate::Parameter::{Cost, ExpirationPeriod, FaceId, Name, Origin, Strategy, Uri};
    for parameter in [Name, FaceId, Origin, Cost, ExpirationPeriod, Uri, Strategy] {
        if !verb.takes(parameter) {
            parameters.set(parameter, crate::DatasetValue::None).unwrap();
        }
    }
    parameters
}

fn any_step() -> impl Strategy<Value = Step> {
    let verb = || prop::sample::select(Verb::ALL.to_vec());
    let datasets = vec![
        "/localhost/nfd/faces/list",
        "/localhost/nfd/fib/list",
        "/localhost/nfd/rib/list",
        "/localhost/nfd/strategy-choice/list",
        "/localhost/nfd/status/general",
        "/localhost/nfd/faces/query/%96%00",
        "/localhost/nfd/faces/query/%96%01",
        "/localhost/nfd/faces/events",
    ];
    prop_oneof![
        10 => (verb(), any_parameters(), 298..306_u64).prop_map(|(verb, parameters, face_id)| {
            Step::Command { verb, parameters: Box::new(suited(verb, parameters)), face_id }
        }),
        2 => (verb(), any_parameters(), 298..306_u64).prop_map(|(verb, parameters, face_id)| {
            Step::Command { verb, parameters: Box::new(parameters), face_id }
        }),
        2 => (verb(), any_parameters(), prop::collection::vec((any::<usize>(), any::<u8>()), 1..4))
            .prop_map(|(verb, parameters, changes)| Step::Damaged { verb, parameters: Box::new(parameters), changes }),
        1 => (prop::sample::select(datasets), any::<bool>()).prop_map(|(uri, fetch)| Step::Dataset { uri, fetch }),
        2 => (300..306_u64).prop_map(Step::FaceCreated),
        1 => (300..306_u64).prop_map(Step::FaceDestroyed),
        1 => (300..306_u64, any::<bool>()).prop_map(|(face_id, is_up)| Step::FaceState(face_id, is_up)),
        3 => any::<bool>().prop_map(Step::Complete),
        1 => (0..3_000_000_000_u64).prop_map(|nanos| Step::Advance(Duration::from_nanos(nanos))),
    ]
}

fn scope_of(face_id: u64) -> Scope {
    if face_id.is_multiple_of(2) { Scope::Local } else { Scope::NonLocal }
}

fn complete(harness: &mut Harness, well: bool, open: &mut Vec<Action>) {
    if open.is_empty() {
        return;
    }
    match open.remove(0) {
        Action::CreateFace { ticket, specification } => {
            let face_id = 302 + ticket_number(ticket) % 4;
            let face = record(face_id, &specification.remote.to_string(), scope_of(face_id));
            let known = harness.state.face(face_id).is_some();
            let made = if known { CreatedFace::Existing(face) } else { CreatedFace::New(face) };
            let error = FaceCreationError { code: 504, reason: String::new() };
            harness.state.face_creation_done(
                harness.now,
                ticket,
                if well { Ok(made) } else { Err(error) },
            );
        }
        Action::EraseCs { ticket, limit, .. } => harness.state.cs_erase_done(ticket, limit, well),
        Action::DestroyFace { face_id } => harness.state.face_destroyed(harness.now, face_id),
        _ => {}
    }
    harness.run();
}

const fn ticket_number(ticket: Ticket) -> u64 {
    ticket.0
}

/// Only a face whose removal is not over yet may be pointed to.
fn check(harness: &Harness) {
    let departures = &harness.state.routes.removals.faces;
    assert!(harness.state.is_changing_routes() || departures.is_empty());
    let exists = |face_id| harness.state.face(face_id).is_some() || departures.contains(&face_id);
    for (prefix, routes) in harness.state.rib().iter() {
        assert!(prefix.len() <= 32 && !routes.is_empty());
        for route in routes {
            assert!(exists(route.face_id), "route of {prefix} to a face that is gone");
            assert!(route.expires_at.is_none_or(|at| at > harness.now.monotonic), "expired route");
        }
    }
    for (prefix, hops) in harness.state.fib().iter() {
        assert!(!hops.is_empty() && hops.is_sorted_by_key(|hop| hop.cost));
        assert!(hops.iter().all(|hop| exists(hop.face_id)), "next hop of {prefix} is gone");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_requests_get_one_answer_each_and_leave_no_reference_to_a_destroyed_face(
        steps in prop::collection::vec(any_step(), 1..60),
    ) {
        let mut harness = Harness::new();
        let mut open: Vec<Action> = Vec::new();
        for step in steps {
            harness.sent.clear();
            match step {
                Step::Command { verb, parameters, face_id } => {
                    let handled = harness.begin(face_id, verb, &parameters);
                    let expected = match handled {
                        RequestOutcome::Command { code, .. } => usize::from(code.is_some()),
                        RequestOutcome::Refused { .. } => 1,
                        _ => 0,
                    };
                    prop_assert_eq!(harness.sent.len(), expected);
                }
                Step::Damaged { verb, parameters, changes } => {
                    let mut wire = CommandBuilder::default()
                        .digest_signed_interest(verb, &parameters, 1, 2)
                        .unwrap();
                    for (at, value) in changes {
                        let at = at % wire.len();
                        wire[at] = value;
                    }
                    harness.interest(&wire, APP);
                    prop_assert!(harness.sent.len() <= 1);
                }
                Step::Dataset { uri, fetch } => {
                    let mut dataset = name(uri);
                    if fetch {
                        dataset.push_version(harness.now.unix_us()).push_segment(0);
                    }
                    let wire = InterestBuilder::new(&dataset).can_be_prefix(!fetch).to_vec().unwrap();
                    harness.interest(&wire, APP);
                    prop_assert!(harness.sent.len() <= 1);
                }
                Step::FaceCreated(face_id) => {
                    let face = record(face_id, &format!("udp4://198.51.100.{face_id}:1"), scope_of(face_id));
                    harness.state.face_created(harness.now, face);
                }
                Step::FaceDestroyed(face_id) => harness.state.face_destroyed(harness.now, face_id),
                Step::FaceState(face_id, is_up) => harness.state.face_changed_state(harness.now, face_id, is_up),
                Step::Complete(well) => complete(&mut harness, well, &mut open),
                Step::Advance(by) => harness.advance(by),
            }
            harness.run();
            open.append(&mut harness.actions);
            check(&harness);
        }
        while harness.state.is_changing_routes() {
            harness.handle_timeout();
            harness.run();
            check(&harness);
        }
        prop_assert!(harness.state.routes.removals.faces.is_empty());
        check(&harness);
    }
}
