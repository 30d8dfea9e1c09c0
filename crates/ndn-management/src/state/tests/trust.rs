//! Access control, certificates from the network, prefix announcements.

use std::sync::Arc;

use ndn_packet::{Component, DataBuilder, InterestBuilder, SignatureInfo};
use ndn_security::info::Node;
use ndn_security::trust::TrustPolicy;
use ndn_security::{CertificateOptions, DigestSigner, KeyType, Locator, SHA256_LEN, Signer};

use super::learning::learn_with;
use super::*;
use crate::access::AccessControl;
use crate::access::tests::{Identity, signed};
use crate::announcement::PrefixAnnouncement;
use crate::sign::digest_signature;
use crate::types::FACE_ID_INTERNAL;

const LOCALHOP: &str = "/localhop/nfd";
const MILLISECOND: Duration = Duration::from_millis(1);

fn hierarchy(root: &Identity) -> TrustPolicy {
    let rules = "
        rule { id commands for interest
          checker { type customized key-locator { type name regex ^<>*<KEY><>{1,3}$ } } }
        rule { id hierarchy for data checker { type hierarchical } }
        trust-anchor { type file file-name root }";
    let node = Node::parse_single("rules", rules).unwrap();
    TrustPolicy::from_info(&node, &mut |_| Ok(vec![Arc::clone(&root.certificate)])).unwrap()
}

pub(super) fn guarded(root: &Identity) -> Harness {
    let mut access = AccessControl::everyone_local();
    access.set_localhop_rib(hierarchy(root));
    access.set_announcements(hierarchy(root));
    let mut harness = Harness::new();
    *harness.state.authorization.authorizer_mut() = Box::new(access);
    harness
}

impl Harness {
    fn register(&mut self, client: &Identity) -> RequestOutcome {
        self.register_from(TUNNEL, client)
    }

    fn register_from(&mut self, face_id: u64, client: &Identity) -> RequestOutcome {
        self.pass(MILLISECOND);
        let time = Some(self.now.unix_ms());
        let wire = signed(LOCALHOP, Verb::RibRegister, &client.signer(), time);
        self.interest(&wire, face_id)
    }

    pub(super) fn data(&mut self, certificate: &Identity) {
        self.data_from(TUNNEL, certificate);
    }

    fn data_from(&mut self, face_id: u64, certificate: &Identity) {
        self.state.handle_data(self.now, certificate.certificate.wire(), face_id);
        self.handle_all();
    }

    /// The names that were asked for, with the face.
    pub(super) fn asked(&mut self) -> Vec<(String, Option<u64>)> {
        self.take_actions()
            .into_iter()
            .map(|action| match action {
                Action::SendInterest { wire, next_hop } => {
                    (Interest::parse(&wire).unwrap().name().to_uri(), next_hop)
                }
                other => panic!("{other:?}"),
            })
            .collect()
    }

    fn announce(&mut self, wire: &[u8]) -> RequestOutcome {
        let info =
            SignatureInfo { time_ms: Some(self.now.unix_ms()), ..DigestSigner.signature_info() };
        let command = CommandBuilder::default()
            .announcement(wire, 1, &info, SHA256_LEN, digest_signature)
            .unwrap();
        self.interest(&command, APP)
    }
}

pub(super) fn announcement(prefix: &str, expiration_ms: u64, signer: &dyn Signer) -> Vec<u8> {
    let sign = |parts: &[&[u8]], out: &mut [u8]| signer.sign(parts, out).ok();
    let (info, length) = (signer.signature_info(), signer.signature_len_max());
    PrefixAnnouncement::encode(&name(prefix), 1, expiration_ms, &info, length, sign).unwrap()
}

#[test]
fn localhop_management_has_a_route_only_if_enabled() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let mut plain = Harness::new();
    let internal = FACE_ID_INTERNAL;
    plain.state.register_management().unwrap();
    plain.run();
    assert_eq!(plain.fib(LOCALHOP), []);
    let mut hub = guarded(&root);
    hub.state.register_management().unwrap();
    hub.run();
    assert_eq!(hub.fib(LOCALHOP), [(internal, 0)]);
    assert_eq!(hub.fib("/localhost/nfd"), [(internal, 0)]);
}

#[test]
fn routes_and_strategies_of_shorter_prefixes_lead_nothing_past_management() {
    let mut hub = guarded(&Identity::new("/net", KeyType::Ecdsa));
    hub.state.register_management().unwrap();
    hub.state.set_default_strategies().unwrap();
    hub.run();
    for prefix in ["/", "/localhost", "/localhop"] {
        let inherited =
            ControlParameters { flags: Some(route_flag::CHILD_INHERIT), ..named(prefix) };
        assert!(hub.command(APP, Verb::RibRegister, &inherited).is_ok());
        let strategy = Some(name("/localhost/nfd/strategy/multicast"));
        let choice = ControlParameters { strategy, ..named(prefix) };
        assert!(hub.command(APP, Verb::StrategySet, &choice).is_ok());
    }
    let best_route = name("/localhost/nfd/strategy/best-route/v=5");
    for prefix in ["/localhost/nfd", LOCALHOP] {
        assert_eq!(hub.fib(prefix), [(FACE_ID_INTERNAL, 0)]);
        let choices: BTreeMap<_, _> = hub.state.strategy_choices().collect();
        assert_eq!(choices.get(&name(prefix)), Some(&&best_route), "{prefix}");
    }
    // A configuration that no longer chooses for the prefix leaves the default.
    let localhop = name(LOCALHOP);
    let multicast = name("/localhost/nfd/strategy/multicast");
    hub.state.set_strategy(&localhop, multicast.as_ref()).unwrap();
    let changes = hub.state.plan_strategies([&localhop], []).unwrap();
    hub.state.change_strategies(changes);
    let choices: BTreeMap<_, _> = hub.state.strategy_choices().collect();
    assert_eq!(choices.get(&localhop), Some(&&best_route));
    // Management that does not serve it any more leaves another choice alone.
    let authorizers = [AccessControl::default(), localhop_access(), AccessControl::default()];
    let chosen = name("/localhost/nfd/strategy/multicast/v=5");
    for (authorizer, expected) in
        authorizers.into_iter().zip([None, Some(&best_route), Some(&chosen)])
    {
        hub.state.set_authorizer(Box::new(authorizer)).unwrap();
        let choices: BTreeMap<_, _> = hub.state.strategy_choices().collect();
        assert_eq!(choices.get(&localhop).copied(), expected);
        if expected.is_some() {
            hub.state.set_strategy(&localhop, multicast.as_ref()).unwrap();
        }
    }
}

#[test]
fn reload_that_serves_localhop_and_drops_its_choice_leaves_the_default() {
    let mut hub = Harness::new();
    hub.state.set_default_strategies().unwrap();
    let localhop = name(LOCALHOP);
    let multicast = name("/localhost/nfd/strategy/multicast");
    hub.state.set_strategy(&localhop, multicast.as_ref()).unwrap();
    let changes = hub.state.plan_strategies([&localhop], []).unwrap();
    hub.state.set_authorizer(Box::new(localhop_access())).unwrap();
    hub.state.change_strategies(changes);
    let choices: BTreeMap<_, _> = hub.state.strategy_choices().collect();
    let best_route = name("/localhost/nfd/strategy/best-route/v=5");
    assert_eq!(choices.get(&localhop), Some(&&best_route));
}

fn localhop_access() -> AccessControl {
    let mut access = AccessControl::default();
    access.set_localhop_rib(TrustPolicy::accept_all());
    access
}

#[test]
fn certificates_are_fetched_one_after_the_other() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let site = Identity::issued("/net/site", KeyType::Ecdsa, Some(&root));
    let user = Identity::issued("/net/site/user", KeyType::Ecdsa, Some(&site));
    let mut harness = guarded(&root);
    assert!(matches!(harness.register(&user), RequestOutcome::Command { code: None, .. }));
    let to = |face: Option<u64>, uri: &str| vec![(uri.to_owned(), face)];
    assert_eq!(harness.asked(), to(Some(TUNNEL), "/net/site/user/KEY/k"));
    harness.advance(30 * MILLISECOND);
    assert_eq!(harness.asked(), to(None, "/net/site/user/KEY/k"));
    harness.data(&site);
    assert!(harness.asked().is_empty(), "no command waits for this certificate yet");
    harness.data(&user);
    assert_eq!(harness.asked(), to(Some(TUNNEL), "/net/site/KEY/k"));
    assert!(harness.sent.is_empty());
    harness.data(&site);
    assert_eq!(harness.response().code, 200);
    assert_eq!(harness.fib("/p"), [(TUNNEL, 0)]);
    let outcomes: Vec<_> = std::iter::from_fn(|| harness.state.poll_outcome()).collect();
    assert!(
        matches!(
            outcomes[..],
            [
                (TUNNEL, RequestOutcome::Command { code: None, .. }),
                (TUNNEL, RequestOutcome::Command { code: Some(200), .. })
            ]
        ),
        "{outcomes:?}"
    );
    // From now on the certificates are known.
    assert!(matches!(harness.register(&user), RequestOutcome::Command { code: Some(200), .. }));
}

#[test]
fn missing_or_useless_certificate_ends_in_403() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let unknown = Identity::new("/net/unknown", KeyType::Ecdsa);
    let mut harness = guarded(&root);
    harness.register(&unknown);
    assert_eq!(harness.asked().len(), 1);
    harness.advance(3 * SECOND);
    assert!(harness.sent.is_empty());
    harness.advance(2 * SECOND);
    assert_eq!(harness.response().code, 403);
    let outcome = harness.state.poll_outcome().unwrap();
    assert!(matches!(outcome, (TUNNEL, RequestOutcome::Refused { code: 403, .. })), "{outcome:?}");

    // For a moment, the certificate is not requested again.
    harness.asked();
    assert!(matches!(harness.register(&unknown), RequestOutcome::Refused { code: 403, .. }));
    assert!(harness.asked().is_empty());
    harness.response();
    harness.advance(SECOND);

    harness.register(&unknown);
    assert_eq!(harness.asked().len(), 1);
    harness.data(&unknown);
    // A self-signed certificate that is no trust anchor requires itself. Another one may arrive, for a short time.
    assert!(harness.sent.is_empty());
    harness.advance(SECOND);
    assert_eq!(harness.response().code, 403);
    harness.take_actions();
    harness.advance(5 * SECOND);
    assert!(harness.take_actions().is_empty(), "it is not fetched any more");
    assert_eq!(harness.fib("/p"), []);
}

#[test]
fn forged_certificates_do_not_end_the_wait_for_the_right_one() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let other = Identity::issued("/net/other", KeyType::Ecdsa, Some(&root));
    let site = Identity::issued("/net/site", KeyType::Ecdsa, Some(&root));
    let user = Identity::issued("/net/site/user", KeyType::Ecdsa, Some(&site));
    // Of the name of the user's key: self-signed, by a key that nobody has, and by one that has no certificate.
    let unknown = Identity::new("/net/site", KeyType::Ecdsa);
    let forged = [
        Identity::new("/net/site/user", KeyType::Ecdsa),
        Identity::issued("/net/site/user", KeyType::Ecdsa, Some(&other)),
        Identity::issued("/net/site/user", KeyType::Ecdsa, Some(&unknown)),
    ];
    let mut harness = guarded(&root);
    assert!(matches!(harness.register(&user), RequestOutcome::Command { code: None, .. }));
    harness.take_actions();
    let mut asked = Vec::new();
    for one in &forged {
        harness.data(one);
        for _ in 0..3 {
            harness.advance(30 * MILLISECOND);
            for action in harness.take_actions() {
                match action {
                    Action::EraseCs { prefix, .. } => {
                        assert_eq!(prefix, one.certificate.name());
                    }
                    Action::SendInterest { next_hop, .. } => asked.push(next_hop),
                    other => panic!("{other:?}"),
                }
            }
        }
        // The same one again, from a cache of another forwarder.
        harness.data(one);
        assert!(harness.sent.is_empty(), "it waits on");
    }
    assert!(asked.contains(&Some(TUNNEL)) && asked.contains(&None), "{asked:?}");
    harness.data(&user);
    harness.data(&unknown);
    assert!(harness.sent.is_empty(), "a forged issuer");
    harness.data(&site);
    assert_eq!(harness.response().code, 200);
    assert_eq!(harness.fib("/p"), [(TUNNEL, 0)]);
    harness.take_actions();
    harness.advance(5 * SECOND);
    assert!(harness.take_actions().is_empty() && harness.sent.is_empty(), "nothing waits");
}

#[test]
fn forged_certificates_without_end_end_in_403() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let user = Identity::issued("/net/user", KeyType::Ecdsa, Some(&root));
    let mut harness = guarded(&root);
    harness.register(&user);
    let mut answered = 0;
    while harness.sent.is_empty() {
        answered += 1;
        harness.data(&Identity::new("/net/user", KeyType::Ecdsa));
        harness.advance(10 * MILLISECOND);
        assert!(answered <= 100, "it does not end");
    }
    assert_eq!(harness.response().code, 403);
    harness.take_actions();
    harness.advance(5 * SECOND);
    assert!(harness.take_actions().is_empty() && harness.sent.is_empty(), "nothing waits");
    // The certificate has not failed to arrive: the next command fetches it.
    harness.register(&user);
    harness.data(&user);
    assert_eq!(harness.response().code, 200);
}

/// A certificate for the key of an identity, in the name of a key that does not exist, which anybody can make.
fn forged_for_key_of(identity: &Identity, version: u64) -> Vec<u8> {
    let forger = Identity::new("/net", KeyType::Ecdsa);
    let options = CertificateOptions {
        issuer_id: Component::generic(b"forged"),
        version,
        not_before_unix_s: 1_699_999_000,
        not_after_unix_s: 1_700_001_000,
        description: &[],
    };
    let locator = Locator::Name(name(&format!("/net/KEY/none-{version}")));
    let signer = forger.signer_as(locator);
    let public = identity.certificate.public_key();
    let key_name = identity.certificate.key_name();
    Certificate::issue(key_name, public, &options, &signer).unwrap().wire().to_vec()
}

impl Harness {
    fn wire_from(&mut self, face_id: u64, certificate: &[u8]) {
        self.state.handle_data(self.now, certificate, face_id);
        self.handle_all();
    }

    /// Handles actions for a time, and answers the Interests with this certificate; returns the next hops asked.
    fn answer_all(&mut self, certificate: &Identity, time: Duration) -> Vec<Option<u64>> {
        let end = self.now.monotonic + time;
        let mut next_hops = Vec::new();
        while self.now.monotonic < end {
            for action in self.take_actions() {
                if let Action::SendInterest { next_hop, .. } = action {
                    next_hops.push(next_hop);
                    self.data(certificate);
                }
            }
            self.advance(10 * MILLISECOND);
        }
        next_hops
    }
}

#[test]
fn identical_forged_answers_do_not_keep_other_next_hops_from_being_asked() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let user = Identity::issued("/net/user", KeyType::Ecdsa, Some(&root));
    let forged = Identity::new("/net/user", KeyType::Ecdsa);
    let mut harness = guarded(&root);
    for face_id in 400..405 {
        let uri = format!("udp4://192.0.2.{}:6363", face_id - 300);
        harness.state.face_created(harness.now, record(face_id, &uri, Scope::NonLocal));
        harness
            .state
            .add_route(
                name("/net").as_ref(),
                crate::state::learning::learnt_route(harness.now, face_id, Timestamp::MAX),
            )
            .unwrap();
    }
    harness.run();
    harness.sent.clear();
    harness.take_actions();
    harness.register(&user);
    let asked = harness.answer_all(&forged, 900 * MILLISECOND);
    for face_id in [TUNNEL].into_iter().chain(400..405) {
        assert!(asked.contains(&Some(face_id)), "{face_id}: {asked:?}");
    }
    assert!(harness.sent.is_empty(), "it waits on");
    harness.data_from(404, &user);
    assert_eq!(harness.response().code, 200);
}

#[test]
fn certificate_for_the_right_key_by_nobody_does_not_hide_the_issuer() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let site = Identity::issued("/net/site", KeyType::Ecdsa, Some(&root));
    let user = Identity::issued("/net/site/user", KeyType::Ecdsa, Some(&site));
    let mut harness = guarded(&root);
    harness.register(&user);
    harness.take_actions();
    harness.wire_from(TUNNEL, &forged_for_key_of(&user, 1));
    assert_eq!(harness.asked(), [("/net/KEY/none-1".to_owned(), Some(TUNNEL))]);
    harness.data(&user);
    assert_eq!(harness.asked(), [("/net/site/KEY/k".to_owned(), Some(TUNNEL))]);
    // Forged certificates that arrive while the issuer is fetched do not shorten the time for it.
    harness.data(&Identity::new("/net/site/user", KeyType::Ecdsa));
    harness.advance(1500 * MILLISECOND);
    assert!(harness.sent.is_empty(), "it waits on");
    harness.data(&site);
    assert_eq!(harness.response().code, 200);
    harness.take_actions();
    harness.advance(5 * SECOND);
    assert!(harness.take_actions().is_empty(), "nothing waits");
}

#[test]
fn forged_certificates_of_one_address_leave_the_right_one_to_others() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let site = Identity::issued("/net/site", KeyType::Ecdsa, Some(&root));
    let user = Identity::issued("/net/site/user", KeyType::Ecdsa, Some(&site));
    for is_of_key in [false, true] {
        let mut harness = guarded(&root);
        for port in 0..40 {
            let uri = format!("udp4://192.0.2.66:{}", 7000 + port);
            harness.state.face_created(harness.now, record(400 + port, &uri, Scope::NonLocal));
        }
        harness.run();
        harness.sent.clear();
        harness.register(&user);
        if is_of_key {
            harness.data(&user);
        }
        for port in 0..40 {
            let forged = match is_of_key {
                true => forged_for_key_of(&user, port),
                false => {
                    Identity::new("/net/site/user", KeyType::Ecdsa).certificate.wire().to_vec()
                }
            };
            harness.wire_from(400 + port, &forged);
        }
        assert!(harness.sent.is_empty(), "it waits on");
        harness.data(&user);
        harness.data(&site);
        assert_eq!(harness.response().code, 200);
    }
}

#[test]
fn refusals_that_no_certificate_changes_are_immediate() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let user = Identity::issued("/net/user", KeyType::Ecdsa, Some(&root));
    let impostor = Identity::new("/net/user", KeyType::Ecdsa);
    let mut harness = guarded(&root);
    // A bad signature under a genuine certificate, which stays in the Content Store.
    harness.register(&impostor);
    harness.take_actions();
    harness.data(&user);
    assert_eq!(harness.response().code, 403);
    assert!(harness.take_actions().is_empty(), "nothing is erased or requested");
    // A retransmission: the first copy is executed, the second is a replay.
    let time = Some(harness.now.unix_ms() + 10);
    let wire = signed(LOCALHOP, Verb::RibRegister, &user.signer(), time);
    harness.interest(&wire, TUNNEL);
    harness.interest(&wire, TUNNEL);
    harness.take_actions();
    harness.data(&user);
    let codes: Vec<_> = std::iter::from_fn(|| harness.state.poll_outcome())
        .filter_map(|(_, handled)| match handled {
            RequestOutcome::Command { code, .. } => code,
            RequestOutcome::Refused { code, .. } => Some(code),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(codes, [403, 200, 403]);
    harness.take_actions();
    harness.advance(5 * SECOND);
    assert!(harness.take_actions().is_empty(), "nothing waits");
}

#[test]
fn announcement_continues_to_wait_after_a_forged_certificate() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let sub = Identity::issued("/net/sub", KeyType::Ecdsa, Some(&root));
    let mut harness = guarded(&root);
    let wire = announcement("/net/sub/app", 5000, &sub.signer());
    let data = name("/net/sub/app/data");
    let learning = learn_with(&mut harness, TUNNEL, data.as_ref(), &wire);
    assert_eq!(learning, Learning::Waiting);
    harness.data(&Identity::new("/net/sub", KeyType::Ecdsa));
    harness.advance(100 * MILLISECOND);
    harness.data(&sub);
    assert_eq!(harness.fib("/net/sub/app"), [(TUNNEL, 2048)]);
    harness.take_actions();
    harness.advance(5 * SECOND);
    assert!(harness.take_actions().is_empty(), "nothing waits");
}

#[test]
fn waiting_commands_of_a_face_are_limited() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let mut harness = guarded(&root);
    let unknown = Identity::new("/net/unknown", KeyType::Ecdsa);
    let codes: Vec<_> = (0..300)
        .map(|_| match harness.register(&unknown) {
            RequestOutcome::Command { code: None, .. } => 0,
            RequestOutcome::Refused { code, .. } => code,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(codes.iter().filter(|code| **code == 0).count(), 16, "of one face");
    assert_eq!(codes[299], 403);
    assert_eq!(harness.asked().len(), 1, "a certificate is fetched once");
}

/// The network answers an Interest only if it is no retransmission within the suppression interval of best-route (10 ms,
/// doubled with each, at most 250 ms), and never from the requester.
#[test]
fn chain_of_certificates_is_fetched_from_the_network_within_the_lifetime() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let region = Identity::issued("/net/region", KeyType::Ecdsa, Some(&root));
    let site = Identity::issued("/net/region/site", KeyType::Ecdsa, Some(&region));
    let user = Identity::issued("/net/region/site/user", KeyType::Ecdsa, Some(&site));
    let mut harness = guarded(&root);
    assert!(matches!(harness.register(&user), RequestOutcome::Command { code: None, .. }));
    let began = harness.now.monotonic;
    for certificate in [&user, &site, &region] {
        let (mut last, mut interval, mut lost) = (None, 10 * MILLISECOND, 0);
        loop {
            let sent = harness.asked();
            assert!(sent.len() <= 1, "two Interests in one moment: {sent:?}");
            let now = harness.now.monotonic;
            for (name, next_hop) in sent {
                assert!(certificate.certificate.name().to_uri().starts_with(&name), "{name}");
                let is_forwarded = last.is_none_or(|last| now - last >= interval);
                last = Some(now);
                if next_hop.is_none() && is_forwarded {
                    interval = (interval * 2).min(250 * MILLISECOND);
                    lost += 1;
                }
            }
            // The first Interest that the network gets is lost.
            if lost == 2 {
                break;
            }
            harness.advance(10 * MILLISECOND);
            assert!(harness.now.monotonic < began + 4 * SECOND, "it never arrives");
        }
        harness.data(certificate);
    }
    assert_eq!(harness.response().code, 200);
    assert!(harness.now.monotonic < began + 4 * SECOND);
    assert_eq!(harness.fib("/p"), [(TUNNEL, 0)]);
}

#[test]
fn neighbour_is_served_while_one_address_floods_commands_from_many_ports() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let user = Identity::issued("/net/user", KeyType::Ecdsa, Some(&root));
    let attacker = Identity::new("/net/attacker", KeyType::Ecdsa);
    let mut harness = with_hostile_ports(&root);
    let waiting = (0..16 * 16).filter(|number| {
        let handled = harness.register_from(400 + number / 16, &attacker);
        matches!(handled, RequestOutcome::Command { code: None, .. })
    });
    assert_eq!(waiting.count(), 178, "all places that are open to remote peers");
    assert!(matches!(harness.register(&user), RequestOutcome::Command { code: None, .. }));
    // A command of the attacker made room for it, and was refused.
    harness.sent.clear();
    harness.data(&user);
    assert_eq!(harness.response().code, 200);
    assert_eq!(harness.fib("/p"), [(TUNNEL, 0)]);
}

/// Number of requests that are handled until a command of `user` that arrives now is answered.
fn handled_before(harness: &mut Harness, user: &Identity) -> usize {
    harness.sent.clear();
    let time = Some(harness.now.unix_ms());
    let wire = signed(LOCALHOP, Verb::RibRegister, &user.signer(), time);
    let name = Interest::parse(&wire).unwrap().name().to_name();
    harness.state.receive_interest(wire, TUNNEL);
    let is_answer = |sent: &(Vec<u8>, bool)| Data::parse(&sent.0).unwrap().name() == name.as_ref();
    let mut handled = 0;
    while !harness.sent.iter().any(is_answer) {
        assert!(harness.state.handle_next(harness.now, &harness.telemetry), "no answer");
        harness.state.charge(MILLISECOND);
        harness.run();
        handled += 1;
    }
    handled
}

fn with_hostile_ports(root: &Identity) -> Harness {
    let mut harness = guarded(root);
    for port in 0..16 {
        let uri = format!("udp4://192.0.2.66:{}", 7000 + port);
        harness.state.face_created(harness.now, record(400 + port, &uri, Scope::NonLocal));
    }
    harness
}

#[test]
fn signatures_of_one_host_do_not_delay_commands_of_others() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let imposter = Identity::new("/net", KeyType::Ecdsa);
    let mut harness = with_hostile_ports(&root);
    let time = Some(harness.now.unix_ms());
    let forged = signed(LOCALHOP, Verb::RibRegister, &imposter.signer(), time);
    for number in 0..20_000 {
        harness.state.receive_interest(forged.clone(), 400 + number % 16);
    }
    let dropped = harness.state.counters().dropped;
    assert!((10_000..20_000).contains(&dropped), "{dropped}: memory is limited");
    assert!(
        harness.state.poll_outcome().is_some_and(|(_, handled)| handled == RequestOutcome::Dropped)
    );
    assert!(handled_before(&mut harness, &root) <= 2);
    assert_eq!(harness.fib("/p"), [(TUNNEL, 0)]);
}

#[test]
fn commands_of_one_key_from_two_principals_are_all_executed() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let mut harness = with_hostile_ports(&root);
    for number in 0..30 {
        let time = Some(harness.now.unix_ms() - 100 + number);
        let wire = signed(LOCALHOP, Verb::RibRegister, &root.signer(), time);
        harness.state.receive_interest(wire, 400);
    }
    // The latest of all, whose turn comes after the first one or two.
    assert!(handled_before(&mut harness, &root) <= 2);
    while let Some((_, handled)) = harness.state.poll_outcome() {
        assert!(matches!(handled, RequestOutcome::Command { code: Some(200), .. }), "{handled:?}");
    }
    let mut handled = 0;
    while harness.state.handle_next(harness.now, &harness.telemetry) {
        let Some((_, outcome)) = harness.state.poll_outcome() else { panic!("no outcome") };
        assert!(matches!(outcome, RequestOutcome::Command { code: Some(200), .. }), "{outcome:?}");
        handled += 1;
    }
    assert!(handled >= 28, "{handled}");
}

#[test]
fn commands_whose_certificate_arrives_do_not_delay_those_of_others() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let attacker = Identity::issued("/net/attacker", KeyType::Ecdsa, Some(&root));
    let mut harness = with_hostile_ports(&root);
    for number in 0..16 * 16 {
        harness.register_from(400 + number / 16, &attacker);
    }
    assert_eq!(harness.state.waiting_places().resources[0].total, 178);
    harness.state.handle_data(harness.now, attacker.certificate.wire(), TUNNEL);
    assert!(handled_before(&mut harness, &root) <= 2);
    harness.handle_all();
    assert!(harness.state.waiting_places().is_zero() && harness.state.request_bytes().is_zero());
}

#[test]
fn waiting_commands_end_with_their_face() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let user = Identity::issued("/net/user", KeyType::Ecdsa, Some(&root));
    let mut harness = guarded(&root);
    harness.register(&user);
    harness.asked();
    harness.state.face_destroyed(harness.now, TUNNEL);
    harness.run();
    harness.sent.clear();
    harness.advance(10 * SECOND);
    assert!(harness.asked().is_empty() && harness.sent.is_empty());
    assert_eq!(harness.state.poll_outcome(), None);
}

#[test]
fn announcement_adds_a_route_that_expires() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let mut harness = guarded(&root);
    let handled = harness.announce(&announcement("/net/app", 5000, &root.signer()));
    assert!(matches!(handled, RequestOutcome::Command { code: Some(200), .. }), "{handled:?}");
    let parameters = harness.response().parameters().unwrap();
    assert_eq!(parameters.name, Some(name("/net/app")));
    assert_eq!((parameters.face_id, parameters.origin), (Some(APP), Some(129)));
    assert_eq!((parameters.cost, parameters.expiration_period_ms), (Some(2048), Some(5000)));
    assert_eq!(harness.fib("/net/app"), [(APP, 2048)]);
    // Longer prefixes inherit the route, as in NFD.
    let route = harness.state.rib().routes(name("/net/app").as_ref())[0];
    assert!(route.is_child_inherit());
    harness.advance(5 * SECOND);
    assert_eq!(harness.fib("/net/app"), []);
}

#[test]
fn untrusted_or_malformed_announcement_is_refused() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let mut harness = guarded(&root);
    let code = |handled: RequestOutcome| match handled {
        RequestOutcome::Refused { code, .. } | RequestOutcome::Command { code: Some(code), .. } => {
            code
        }
        other => panic!("{other:?}"),
    };
    let outside = announcement("/elsewhere", 5000, &root.signer());
    assert_eq!(code(harness.announce(&outside)), 403);
    let digest = announcement("/net/app", 5000, &DigestSigner);
    assert_eq!(code(harness.announce(&digest)), 403);
    let ended = announcement("/net/app", 0, &root.signer());
    assert_eq!(code(harness.announce(&ended)), 406);
    let mut damaged = announcement("/net/app", 5000, &root.signer());
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    assert_eq!(code(harness.announce(&damaged)), 403);
    assert_eq!(code(harness.announce(b"")), 400);
    assert_eq!(code(harness.announce(root.certificate.wire())), 400);
    let long = announcement(&"/x".repeat(33), 5000, &root.signer());
    assert_eq!(code(harness.announce(&long)), 403, "not under /net");
    assert_eq!(harness.fib("/net/app"), []);

    let sub = Identity::issued("/net/sub", KeyType::Ecdsa, Some(&root));
    let handled = harness.announce(&announcement("/net/sub/app", 5000, &sub.signer()));
    assert!(matches!(handled, RequestOutcome::Command { code: None, .. }));
    harness.data(&sub);
    assert_eq!(harness.fib("/net/sub/app"), [(APP, 2048)]);
}

#[test]
fn other_data_under_the_name_of_the_key_does_not_end_the_fetch() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let user = Identity::issued("/net/user", KeyType::Ecdsa, Some(&root));
    let mut harness = guarded(&root);
    assert!(matches!(harness.register(&user), RequestOutcome::Command { code: None, .. }));
    let data_name = user.certificate.name().to_name();
    let no_certificate = DataBuilder::new(&data_name).content(b"no key");
    let no_certificate = ndn_security::sign_data(&no_certificate, &DigestSigner).unwrap();
    harness.state.handle_data(harness.now, &no_certificate, TUNNEL);
    let other_key = Identity::new("/net/user/KEY/k", KeyType::Ecdsa);
    harness.data(&other_key);
    assert!(harness.sent.is_empty() && harness.state.poll_outcome().is_none(), "it still waits");
    harness.asked();
    harness.advance(30 * MILLISECOND);
    assert_eq!(harness.asked(), [("/net/user/KEY/k".to_owned(), None)], "it is still fetched");
    harness.data(&user);
    assert_eq!(harness.response().code, 200);
}

#[test]
fn unexpected_data_changes_nothing() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let mut harness = guarded(&root);
    harness.data(&root);
    harness.state.handle_data(harness.now, &[6, 0], TUNNEL);
    assert_eq!(harness.state.counters().malformed, 1);
    let unsigned = InterestBuilder::new(&name("/localhop/nfd/rib/register/x")).to_vec().unwrap();
    assert!(matches!(harness.interest(&unsigned, TUNNEL), RequestOutcome::Ignored(_)));
    assert!(harness.sent.is_empty() && harness.take_actions().is_empty());
}

#[test]
fn anchors_are_refreshed_at_their_deadline() {
    use ndn_security::trust::AnchorChange;
    use std::sync::Mutex;
    const PERIOD: Duration = Duration::from_secs(60);

    let (old, new) = (Identity::new("/net", KeyType::Ecdsa), Identity::new("/net", KeyType::Ecdsa));
    let user = Identity::issued("/net/user", KeyType::Ecdsa, Some(&old));
    let kept = Arc::new(Mutex::new(Ok(vec![Arc::clone(&old.certificate)])));
    let rules = "
        rule { id commands for interest
          checker { type customized key-locator { type name regex ^<>*<KEY><>{1,3}$ } } }
        rule { id hierarchy for data checker { type hierarchical } }
        trust-anchor { type dir dir anchors refresh 1m }";
    let node = Node::parse_single("rules", rules).unwrap();
    let loader = Arc::clone(&kept);
    let policy = TrustPolicy::from_info(&node, &mut |_| loader.lock().unwrap().clone()).unwrap();
    let mut access = AccessControl::everyone_local();
    access.set_localhop_rib(policy);
    let loader = Arc::clone(&kept);
    access.set_anchor_loader(move |_| loader.lock().unwrap().clone());
    let mut harness = Harness::new();
    *harness.state.authorization.authorizer_mut() = Box::new(access);
    let tick = |harness: &mut Harness| {
        harness.handle_timeout();
        harness.run();
        std::iter::from_fn(|| harness.state.poll_anchor_change()).collect::<Vec<_>>()
    };
    let accepted = |harness: &mut Harness, client: &Identity| {
        harness.take_actions();
        matches!(harness.register(client), RequestOutcome::Command { code: Some(200), .. })
    };

    let begun = harness.now.monotonic;
    assert!(tick(&mut harness).is_empty());
    assert!(accepted(&mut harness, &old) && !accepted(&mut harness, &new));
    // What is good by the anchor is remembered.
    assert!(!accepted(&mut harness, &user));
    harness.data(&user);
    assert!(accepted(&mut harness, &user));

    // Nothing is read before its time, and the time is known.
    *kept.lock().unwrap() = Ok(vec![Arc::clone(&new.certificate)]);
    assert!(tick(&mut harness).is_empty());
    assert!(accepted(&mut harness, &old));
    let due = begun + PERIOD;
    assert_eq!(harness.state.authorization.authorizer_mut().next_refresh(), Some(due));
    assert!(harness.state.next_deadline().unwrap() <= due);
    harness.now.monotonic = begun + (PERIOD - Duration::from_nanos(1));
    assert!(tick(&mut harness).is_empty());
    harness.now.monotonic = due;
    let path = "anchors".to_owned();
    assert_eq!(tick(&mut harness), [AnchorChange::Changed { path: path.clone(), count: 1 }]);
    assert!(accepted(&mut harness, &new) && !accepted(&mut harness, &old));
    assert!(!accepted(&mut harness, &user), "what the old anchor vouched for is forgotten");

    // An unchanged file is not reported; a file that cannot be read any more is reported once.
    harness.now.monotonic = due + PERIOD;
    assert!(tick(&mut harness).is_empty());
    *kept.lock().unwrap() = Err("it is gone".to_owned());
    harness.now.monotonic = due + 2 * PERIOD;
    let reason = "it is gone".to_owned();
    assert_eq!(tick(&mut harness), [AnchorChange::Unreadable { path, reason }]);
    assert!(accepted(&mut harness, &new), "the anchors stay");
    assert!(harness.state.check_anchors().is_err());
    harness.now.monotonic = due + 3 * PERIOD;
    assert!(tick(&mut harness).is_empty());
    *kept.lock().unwrap() = Ok(vec![Arc::clone(&new.certificate)]);
    harness.now.monotonic = due + 4 * PERIOD;
    assert!(tick(&mut harness).is_empty(), "they are the same again");
    assert!(accepted(&mut harness, &new));
    assert_eq!(harness.state.check_anchors(), Ok(()));
    *kept.lock().unwrap() = Err("it is gone once more".to_owned());
    harness.now.monotonic = due + 5 * PERIOD;
    assert!(matches!(&tick(&mut harness)[..], [AnchorChange::Unreadable { .. }]), "reported again");
}
