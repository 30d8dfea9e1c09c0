//! Routes that self-learning makes, on virtual time.

use ndn_packet::NameRef;
use ndn_security::{DigestSigner, KeyType};

use super::trust::{announcement, guarded};
use super::*;
use crate::access::tests::Identity;
use crate::announcement::PrefixAnnouncement;
use crate::types::route_origin;

const MINUTE: Duration = Duration::from_secs(60);
const COST: u64 = 2048;

fn pass(harness: &mut Harness, time: Duration) {
    harness.pass(time);
    harness.handle_timeout();
    harness.run();
}

fn learn(harness: &mut Harness, wire: &[u8]) -> Learning {
    // It came with a Data of just that name.
    let announced =
        Data::parse(wire).ok().and_then(|data| PrefixAnnouncement::from_data(&data).ok());
    let with = announced.map_or_else(|| name("/net/app/1"), |announcement| announcement.prefix);
    learn_with(harness, TUNNEL, with.as_ref(), wire)
}

/// The result of an announcement that comes with a Data of this name.
pub(super) fn learn_with(
    harness: &mut Harness,
    face_id: u64,
    name: NameRef<'_>,
    wire: &[u8],
) -> Learning {
    harness.state.receive_announcement(harness.now, face_id, name, wire.to_vec());
    harness.handle_all();
    let outcome = std::iter::from_fn(|| harness.state.poll_outcome()).last();
    let Some((of_face, RequestOutcome::Announcement(learning))) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(of_face, face_id);
    learning
}

/// The prefix of the learnt route that ends when the face refuses an Interest.
fn refuse(harness: &mut Harness, face_id: u64, name: &Name) -> Option<Name> {
    harness.state.receive_refusal(face_id, name.clone());
    harness.handle_all();
    let outcomes = std::iter::from_fn(|| harness.state.poll_outcome());
    let forgotten = outcomes.filter_map(|(_, outcome)| match outcome {
        RequestOutcome::Announcement(Learning::Forgotten(prefix)) => Some(prefix),
        _ => None,
    });
    forgotten.last()
}

#[test]
fn announcement_adds_a_route_and_the_next_one_renews_it() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let mut harness = guarded(&root);
    let wire = announcement("/net/app", 3_600_000, &root.signer());
    assert_eq!(learn(&mut harness, &wire), Learning::Learnt(name("/net/app")));
    assert_eq!(harness.fib("/net/app"), [(TUNNEL, COST)]);
    let route = *harness
        .state
        .rib()
        .find(name("/net/app").as_ref(), TUNNEL, route_origin::PREFIX_ANNOUNCEMENT)
        .unwrap();
    assert_eq!(route.expires_at, Some(harness.now.monotonic + 10 * MINUTE));
    assert!(route.is_child_inherit(), "as in NFD");

    pass(&mut harness, 9 * MINUTE);
    assert_eq!(learn(&mut harness, &wire), Learning::Learnt(name("/net/app")));
    pass(&mut harness, 9 * MINUTE);
    assert_eq!(harness.fib("/net/app"), [(TUNNEL, COST)], "renewed");
    pass(&mut harness, MINUTE + Duration::from_nanos(1));
    assert_eq!(harness.fib("/net/app"), []);

    // One that holds for less is kept for less.
    let brief = announcement("/net/app", 5000, &root.signer());
    learn(&mut harness, &brief);
    pass(&mut harness, 5 * SECOND);
    assert_eq!(harness.fib("/net/app"), []);
}

#[test]
fn forget_learnt_removes_the_longest_route_of_its_face() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let mut harness = guarded(&root);
    for prefix in ["/net", "/net/app"] {
        learn(&mut harness, &announcement(prefix, 3_600_000, &root.signer()));
    }
    let refused = name("/net/app/x/1");
    assert_eq!(refuse(&mut harness, APP, &refused), None, "not of that face");
    assert_eq!(refuse(&mut harness, TUNNEL, &refused), Some(name("/net/app")));
    harness.run();
    assert_eq!(harness.fib("/net/app"), []);
    assert_eq!(harness.fib("/net"), [(TUNNEL, COST)]);
    assert_eq!(refuse(&mut harness, TUNNEL, &refused), Some(name("/net")));
    assert_eq!(refuse(&mut harness, TUNNEL, &refused), None);
}

#[test]
fn refused_interest_ends_also_what_an_announcement_before_it_adds() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let mut harness = guarded(&root);
    let wire = announcement("/net/app", 3_600_000, &root.signer());
    learn(&mut harness, &wire);
    let data = name("/net/app/1");
    // The renewal has not had its turn yet.
    harness.state.receive_announcement(harness.now, TUNNEL, data.as_ref(), wire.clone());
    assert_eq!(refuse(&mut harness, TUNNEL, &data), Some(name("/net/app")));
    harness.run();
    assert_eq!(harness.fib("/net/app"), []);
    // One that came later is not concerned.
    harness.state.receive_refusal(TUNNEL, data.clone());
    harness.state.receive_announcement(harness.now, TUNNEL, data.as_ref(), wire);
    harness.handle_all();
    harness.run();
    assert_eq!(harness.fib("/net/app"), [(TUNNEL, COST)]);
}

#[test]
fn refused_interest_ends_the_wait_of_an_announcement_for_certificates() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let site = Identity::issued("/net/site", KeyType::Ecdsa, Some(&root));
    let mut harness = guarded(&root);
    let wire = announcement("/net/site/app", 60_000, &site.signer());
    for (refused, learnt) in [("/net/site/app/1", false), ("/net/site", true)] {
        assert_eq!(learn(&mut harness, &wire), Learning::Waiting);
        refuse(&mut harness, TUNNEL, &name(refused));
        harness.data(&site);
        assert_eq!(!harness.fib("/net/site/app").is_empty(), learnt, "{refused}");
    }
}

#[test]
fn untrusted_announcement_adds_no_route() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let mut harness = guarded(&root);
    let cases = [
        announcement("/elsewhere", 5000, &root.signer()),
        announcement("/net/app", 5000, &DigestSigner),
        announcement("/net/app", 0, &root.signer()),
        root.certificate.wire().to_vec(),
        b"\x06\x03nonsense".to_vec(),
        Vec::new(),
    ];
    for wire in cases {
        assert!(matches!(learn(&mut harness, &wire), Learning::Refused(_)), "{wire:?}");
    }
    let wire = announcement("/net/app", 5000, &root.signer());
    harness.state.receive_announcement(harness.now, 999, name("/net/app").as_ref(), wire);
    harness.handle_all();
    let outcome = std::iter::from_fn(|| harness.state.poll_outcome()).last();
    assert!(matches!(outcome, Some((999, RequestOutcome::UnknownFace))), "{outcome:?}");
    assert_eq!(harness.state.rib().route_count(), 0);
}

#[test]
fn certificate_of_an_announcement_is_fetched() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let site = Identity::issued("/net/site", KeyType::Ecdsa, Some(&root));
    let mut harness = guarded(&root);
    let wire = announcement("/net/site/app", 60_000, &site.signer());
    assert_eq!(learn(&mut harness, &wire), Learning::Waiting);
    // A second announcement requires no further Interest.
    assert_eq!(learn(&mut harness, &wire), Learning::Waiting);
    let next_hops = |harness: &mut Harness| -> Vec<Option<u64>> {
        harness.asked().into_iter().map(|(_, next_hop)| next_hop).collect()
    };
    assert_eq!(next_hops(&mut harness), [Some(TUNNEL)]);
    harness.advance(SECOND / 10);
    assert_eq!(next_hops(&mut harness), [None], "the network follows the face");
    harness.data(&site);
    assert_eq!(harness.fib("/net/site/app"), [(TUNNEL, COST)]);

    // A certificate that does not arrive.
    let other = Identity::issued("/net/other", KeyType::Ecdsa, Some(&root));
    let wire = announcement("/net/other/app", 60_000, &other.signer());
    assert_eq!(learn(&mut harness, &wire), Learning::Waiting);
    harness.asked();
    pass(&mut harness, 4 * SECOND);
    harness.data(&other);
    assert_eq!(harness.fib("/net/other/app"), []);
}

#[test]
fn data_carries_the_announcement_of_its_route() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let mut harness = guarded(&root);
    let data = name("/net/app/1");
    assert_eq!(harness.state.find_announcement(harness.now, data.as_ref()), None, "no route");
    // Of a route of an application, one is made: it holds as long as the route, within bounds.
    for (expires_in, period_ms) in
        [(None, 3_600_000), (Some(SECOND), 15_000), (Some(100 * SECOND), 100_000)]
    {
        let expires_at = expires_in.map(|left| harness.now.monotonic + left);
        let route = Route { face_id: APP, origin: 0, cost: 0, flags: 1, expires_at };
        harness.state.add_route(name("/net").as_ref(), route).unwrap();
        let wire = harness.state.find_announcement(harness.now, data.as_ref()).unwrap();
        let made = PrefixAnnouncement::from_data(&Data::parse(&wire).unwrap()).unwrap();
        assert_eq!((made.prefix, made.expiration_ms), (name("/net"), period_ms));
    }
    // That of a learnt route goes on as it came, until it ends.
    let wire = announcement("/net/app", 60_000, &root.signer());
    learn(&mut harness, &wire);
    assert_eq!(harness.state.find_announcement(harness.now, data.as_ref()), Some(wire));
    refuse(&mut harness, TUNNEL, &data);
    let made = harness.state.find_announcement(harness.now, data.as_ref()).unwrap();
    assert!(Data::parse(&made).unwrap().name().starts_with(name("/net/32=PA").as_ref()));
}

#[test]
fn announcement_of_another_prefix_is_refused() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let mut harness = guarded(&root);
    let wire = announcement("/net/app", 60_000, &root.signer());
    let mut learn = |uri: &str| {
        let data = name(uri);
        learn_with(&mut harness, TUNNEL, data.as_ref(), &wire)
    };
    for other in ["/net", "/net/application/1", "/elsewhere/app"] {
        assert!(matches!(learn(other), Learning::Refused(_)), "{other}");
    }
    for fitting in ["/net/app", "/net/app/1/2"] {
        assert_eq!(learn(fitting), Learning::Learnt(name("/net/app")), "{fitting}");
    }
}
