//! Routes of applications, told to a routing daemon.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ndn_packet::{ContentType, KeyLocator, SignatureInfo, SignatureType};
use ndn_security::{KeySigner, KeyType, Signer};

use super::*;
use crate::access::tests::Identity;
use crate::readvertise::{CommandSigner, ReadvertiseOptions, Signing, UnsignedCommand};
use crate::sign::digest_signature;
use crate::types::route_origin;

/// A routing daemon on this host.
const DAEMON: u64 = 302;

fn harness() -> Harness {
    let mut harness = Harness::new();
    harness.state.face_created(harness.now, record(DAEMON, "fd://21", Scope::Local));
    harness.run();
    harness.sent.clear();
    harness.state.set_operators(Operators { users: vec![1000], protect_others: false });
    harness
}

fn client(uri: &str) -> ControlParameters {
    ControlParameters { origin: Some(route_origin::CLIENT), ..named(uri) }
}

impl Harness {
    /// Commands to the daemon since the last call: verb, prefix, name.
    fn reported(&mut self) -> Vec<(String, Name)> {
        self.handle_timeout();
        self.run();
        self.take_actions()
            .into_iter()
            .map(|action| match action {
                Action::SendInterest { wire, next_hop: None } => {
                    let interest = Interest::parse(&wire).unwrap();
                    assert!(interest.name().to_uri().starts_with("/localhost/nlsr/rib/"));
                    let parameters = interest.name().component(4).unwrap().value();
                    let prefix = ControlParameters::decode(parameters).unwrap().name.unwrap();
                    let verb = interest.name().component(3).unwrap().to_string();
                    (format!("{verb} {prefix}"), interest.name().to_name())
                }
                other => panic!("{other:?}"),
            })
            .collect()
    }

    fn confirm(&mut self, command: &Name) {
        let content = ControlResponse::new(200, "").to_vec();
        let info = SignatureInfo::new(SignatureType::DIGEST_SHA256);
        let data = DataBuilder::new(command)
            .content_type(ContentType::BLOB)
            .content(&content)
            .to_vec(&info, ndn_security::SHA256_LEN, digest_signature)
            .unwrap();
        self.state.handle_data(self.now, &data, TUNNEL);
        self.run();
    }
}

fn verbs(reported: &[(String, Name)]) -> Vec<&str> {
    reported.iter().map(|(verb, _)| verb.as_str()).collect()
}

#[test]
fn client_routes_are_readvertised_and_withdrawn_with_their_face() {
    let mut harness = harness();
    harness.command(APP, Verb::RibRegister, &client("/early"));
    harness.state.set_readvertise_nlsr(true);
    assert!(harness.reported().is_empty(), "there is no daemon");
    // The daemon comes.
    harness.command(DAEMON, Verb::RibRegister, &named("/localhost/nlsr"));
    let reported = harness.reported();
    assert_eq!(verbs(&reported), ["register /early"]);
    harness.confirm(&reported[0].1);

    harness.command(APP, Verb::RibRegister, &client("/late"));
    harness.command(APP, Verb::RibRegister, &named("/application"));
    let reported = harness.reported();
    assert_eq!(verbs(&reported), ["register /late"], "only those of origin client");
    harness.confirm(&reported[0].1);
    assert!(harness.reported().is_empty());

    harness.state.face_destroyed(harness.now, APP);
    let mut reported = harness.reported();
    reported.sort();
    assert_eq!(verbs(&reported), ["unregister /early", "unregister /late"]);
    reported.iter().for_each(|(_, name)| harness.confirm(name));
    assert!(harness.reported().is_empty());
}

#[test]
fn readvertisement_is_off_by_default() {
    let mut harness = harness();
    harness.command(DAEMON, Verb::RibRegister, &named("/localhost/nlsr"));
    harness.command(APP, Verb::RibRegister, &client("/a"));
    assert!(harness.reported().is_empty());
    harness.state.set_readvertise_nlsr(true);
    assert_eq!(verbs(&harness.reported()), ["register /a"]);
    harness.state.set_readvertise_nlsr(false);
    harness.command(APP, Verb::RibRegister, &client("/b"));
    assert!(harness.reported().is_empty());
}

/// A user in its place could keep the prefixes of others from the network, and would see them.
#[test]
fn names_of_the_routing_daemon_are_for_operators_while_there_are_commands_for_it() {
    let mut harness = harness();
    harness.state.set_operators(Operators::default());
    assert!(harness.command(APP, Verb::RibRegister, &named("/localhost/nlsr/x")).is_ok());
    harness.state.set_readvertise_nlsr(true);
    for verb in [Verb::RibRegister, Verb::FibAddNextHop, Verb::RibUnregister] {
        assert_eq!(harness.command(DAEMON, verb, &named("/localhost/nlsr")).code, 403);
    }
    harness.state.set_operators(Operators { users: vec![1000], protect_others: false });
    assert!(harness.command(DAEMON, Verb::RibRegister, &named("/localhost/nlsr")).is_ok());
}

/// A user that was first would keep what is for the daemon.
#[test]
fn routes_for_the_routing_daemon_that_are_not_of_operators_end() {
    let mut harness = harness();
    let operators = |users: &[u32]| Operators { users: users.to_vec(), protect_others: false };
    let register = |harness: &mut Harness| {
        harness.command(APP, Verb::RibRegister, &named("/localhost/nlsr"));
        harness.command(APP, Verb::RibRegister, &named("/localhost/nlsr/rib"));
        harness.command(APP, Verb::FibAddNextHop, &named("/localhost/nlsr/fib"));
        harness.command(APP, Verb::RibRegister, &named("/localhost/other"));
        harness.run();
    };
    let names = ["/localhost/nlsr", "/localhost/nlsr/rib", "/localhost/nlsr/fib"];
    let remaining = |harness: &mut Harness| {
        harness.run();
        assert_eq!(harness.fib("/localhost/other").len(), 1);
        names.iter().filter(|uri| !harness.fib(uri).is_empty()).count()
    };
    harness.state.set_operators(operators(&[]));
    register(&mut harness);
    assert_eq!(remaining(&mut harness), 3);
    harness.state.set_readvertise_nlsr(true);
    assert_eq!(remaining(&mut harness), 0, "it is on");
    let forgotten = |harness: &mut Harness| {
        let forgets = |action: &Action| matches!(action, Action::ForgetRoute { .. });
        harness.take_actions().iter().filter(|action| forgets(action)).count()
    };
    assert_eq!(forgotten(&mut harness), 3);

    harness.state.set_operators(operators(&[1000]));
    register(&mut harness);
    harness.state.set_readvertise_nlsr(true);
    harness.state.set_operators(operators(&[1000, 2000]));
    assert_eq!(remaining(&mut harness), 3, "those of operators");
    harness.state.set_operators(operators(&[2000]));
    assert_eq!(remaining(&mut harness), 0, "they are no operators any more");
    harness.state.set_operators(operators(&[1000]));
    harness.state.set_readvertise_nlsr(false);
    register(&mut harness);
    // Both in one reload.
    harness.state.set_operators(operators(&[]));
    harness.state.set_readvertise_nlsr(true);
    assert_eq!(remaining(&mut harness), 0);

    // A face that comes back.
    let route = Route { face_id: APP, origin: 0, cost: 0, flags: 0, expires_at: None };
    let user = Some(PrincipalKey::LocalApplication { uid: 1000, pid: 0 });
    let nlsr = name("/localhost/nlsr");
    let added = harness.state.add_owned_route(nlsr.as_ref(), route, user);
    assert_eq!(added, Err(RouteError::ForOperators));
    let hop = NextHop { face_id: APP, cost: 0 };
    let added = harness.state.add_owned_next_hop(&nlsr, hop, user);
    assert_eq!(added, Err(RouteError::ForOperators));
}

#[test]
fn longer_route_of_a_user_does_not_make_the_daemon_absent() {
    let mut harness = harness();
    harness.state.set_operators(Operators::default());
    harness.command(APP, Verb::RibRegister, &client("/app"));
    harness.command(APP, Verb::RibRegister, &named("/localhost/nlsr/x"));
    let of_daemon = Route { face_id: DAEMON, origin: 0, cost: 0, flags: 0, expires_at: None };
    harness.state.add_route(name("/localhost/nlsr").as_ref(), of_daemon).unwrap();
    harness.run();
    let _ = harness.take_actions();
    harness.state.set_readvertise_nlsr(true);
    harness.handle_timeout();
    harness.run();
    let sent = |action: &Action| matches!(action, Action::SendInterest { .. });
    let actions = harness.take_actions();
    assert!(actions.iter().any(sent), "/app is advertised: {actions:?}");
}

/// The owner of a route is the owner of its readvertisement.
#[test]
fn prefixes_of_one_user_leave_commands_to_the_daemon_to_those_of_another() {
    const OTHER: u64 = 303;
    let mut harness = harness();
    let mut other = record(OTHER, "fd://22", Scope::Local);
    other.principal = PrincipalKey::LocalApplication { uid: 2000, pid: 9 };
    harness.state.face_created(harness.now, other);
    harness.run();
    harness.sent.clear();
    harness.state.set_operators(Operators::default());
    let of_daemon = Route { face_id: DAEMON, origin: 0, cost: 0, flags: 0, expires_at: None };
    harness.state.add_route(name("/localhost/nlsr").as_ref(), of_daemon).unwrap();
    harness.state.set_readvertise_nlsr(true);
    harness.run();
    for number in 0..100 {
        harness.command(APP, Verb::RibRegister, &client(&format!("/many/{number}")));
    }
    let unanswered = harness.reported();
    assert_eq!(unanswered.len(), 32, "half of the commands that may wait");
    harness.command(OTHER, Verb::RibRegister, &client("/other"));
    assert_eq!(verbs(&harness.reported()), ["register /other"]);
}

const GATEWAY: &str = "/localhop/nfd";

/// A key chain with these identities.
#[derive(Default)]
struct KeyChain {
    identities: Vec<(Name, KeySigner)>,
    last_ms: u64,
    /// Somebody else holds it.
    is_locked: Arc<AtomicBool>,
}

impl KeyChain {
    fn with(uris: &[&str]) -> Self {
        let signer = |uri: &&str| (name(uri), Identity::new(uri, KeyType::Ecdsa).signer());
        Self { identities: uris.iter().map(signer).collect(), ..Self::default() }
    }
}

impl CommandSigner for KeyChain {
    fn sign(
        &mut self,
        now: Now,
        command: &UnsignedCommand<'_>,
        identity: Option<&Name>,
    ) -> Signing {
        let UnsignedCommand { builder, verb, parameters, nonce, time_ms } = *command;
        assert!(time_ms > self.last_ms && time_ms >= now.unix_ms());
        self.last_ms = time_ms;
        if self.is_locked.load(Ordering::Relaxed) {
            return Signing::Later;
        }
        let found = self.identities.iter().find(|(name, _)| Some(name) == identity);
        let Some((_, signer)) = found else { return Signing::Impossible };
        let nonce = nonce.to_be_bytes();
        let info = SignatureInfo {
            nonce: Some(&nonce),
            time_ms: Some(time_ms),
            ..signer.signature_info()
        };
        let length = signer.signature_len_max();
        let sign = |parts: &[&[u8]], out: &mut [u8]| signer.sign(parts, out).ok();
        Signing::Signed(builder.signed_interest(verb, parameters, 1, &info, length, sign).unwrap())
    }

    fn identities(&mut self, _now: Now) -> Option<Vec<Name>> {
        let is_locked = self.is_locked.load(Ordering::Relaxed);
        (!is_locked).then(|| self.identities.iter().map(|(name, _)| name.clone()).collect())
    }
}

fn host(identities: &[&str]) -> Harness {
    let mut harness = Harness::new();
    harness.state.set_operator_users(vec![1000]);
    harness.state.command_signer = Box::new(KeyChain::with(identities));
    harness.state.set_propagate(Some(ReadvertiseOptions::gateway()));
    harness
}

impl Harness {
    fn wait(&mut self, seconds: u64) {
        self.pass(Duration::from_secs(seconds));
    }

    /// Commands to the gateway since the last call, each confirmed if `answers`: verb, prefix, and
    /// the key that signed.
    fn registered(&mut self, answers: bool) -> Vec<String> {
        let mut registered = Vec::new();
        loop {
            self.handle_timeout();
            self.run();
            let actions = self.take_actions();
            if actions.is_empty() {
                return registered;
            }
            for action in actions {
                if matches!(action, Action::ForgetRoute { .. }) {
                    continue;
                }
                let Action::SendInterest { wire, next_hop: None } = action else {
                    panic!("{action:?}")
                };
                let interest = Interest::parse(&wire).unwrap();
                let command = interest.name();
                assert!(command.to_uri().starts_with("/localhop/nfd/rib/"));
                let parameters = command.component(4).unwrap().value();
                let parameters = ControlParameters::decode(parameters).unwrap();
                let verb = command.component(3).unwrap().to_string();
                assert_eq!(parameters.origin, Some(route_origin::CLIENT));
                assert_eq!(parameters.cost, (verb == "register").then_some(15));
                assert_eq!(parameters.face_id, None, "that is for the gateway to know");
                let info = interest.signature_info().unwrap().unwrap();
                let Some(KeyLocator::Name(key)) = info.key_locator else { panic!("{info:?}") };
                let prefix = parameters.name.unwrap();
                registered.push(format!("{verb} {prefix} by {key}"));
                if answers {
                    self.confirm(&command.to_name());
                }
            }
        }
    }
}

#[test]
fn prefixes_are_registered_with_the_gateway_by_the_shortest_identity() {
    let mut host = host(&["/site/host/user", "/site/host", "/other/nrd", "/elsewhere"]);
    for uri in
        ["/site/host/a", "/site/host/user/b", "/other/c", "/nobody/d", "/localhost/e", "/site"]
    {
        host.command(APP, Verb::RibRegister, &named(uri));
    }
    assert!(host.registered(true).is_empty(), "there is no gateway");
    let gateway = ControlParameters { face_id: Some(TUNNEL), ..named(GATEWAY) };
    host.command(APP, Verb::RibRegister, &gateway);
    let mut registered = host.registered(true);
    registered.sort();
    assert_eq!(
        registered,
        ["register /other by /other/nrd/KEY/k", "register /site/host by /site/host/KEY/k"]
    );

    // It stays known as long as a prefix of it has a route.
    host.command(APP, Verb::RibUnregister, &named("/site/host/a"));
    assert!(host.registered(true).is_empty());
    host.command(APP, Verb::RibUnregister, &named("/site/host/user/b"));
    assert_eq!(host.registered(true), ["unregister /site/host by /site/host/KEY/k"]);
    host.command(APP, Verb::RibRegister, &named("/site/host/again"));
    assert_eq!(host.registered(true), ["register /site/host by /site/host/KEY/k"]);
    host.state.face_destroyed(host.now, APP);
    let mut registered = host.registered(true);
    registered.sort();
    assert_eq!(
        registered,
        ["unregister /other by /other/nrd/KEY/k", "unregister /site/host by /site/host/KEY/k"]
    );
    host.wait(10_000);
    assert!(host.registered(true).is_empty(), "nothing is left to be refreshed");
}

#[test]
fn registration_is_refreshed_retried_and_repeated_for_another_gateway() {
    let mut host = host(&["/site"]);
    let gateway = ControlParameters { face_id: Some(TUNNEL), ..named("/") };
    // A route of all names leads there, too.
    host.command(APP, Verb::RibRegister, &gateway);
    host.command(APP, Verb::RibRegister, &named("/site/a"));
    let register = ["register /site by /site/KEY/k"];
    assert_eq!(host.registered(true), register);
    for _ in 0..3 {
        host.wait(24);
        assert!(host.registered(true).is_empty());
        host.wait(1);
        assert!(host.state.next_deadline().unwrap() <= host.now.monotonic);
        assert_eq!(host.registered(true), register, "refreshed");
    }
    // Nobody answers: after the time-out it waits for longer each time.
    host.wait(25);
    for wait in [10 + 50, 10 + 100, 10 + 200] {
        assert_eq!(host.registered(false), register);
        host.wait(10);
        assert!(host.registered(false).is_empty());
        host.wait(wait - 11);
        assert!(host.registered(false).is_empty());
        host.wait(1);
    }
    assert_eq!(host.registered(true), register);
    // The gateway goes, and another comes.
    host.command(APP, Verb::RibUnregister, &gateway);
    assert!(host.registered(true).is_empty());
    host.wait(100);
    assert!(host.registered(true).is_empty(), "there is nobody to tell");
    host.command(APP, Verb::RibRegister, &gateway);
    assert_eq!(host.registered(true), register);
    // And while nobody listens, what ends needs not be withdrawn.
    for (verb, parameters) in [
        (Verb::RibUnregister, &gateway),
        (Verb::RibUnregister, &named("/site/a")),
        (Verb::RibRegister, &gateway),
    ] {
        host.command(APP, verb, parameters);
        assert!(host.registered(true).is_empty());
    }
}

#[test]
fn prefixes_without_identity_are_checked_again_at_reload() {
    let mut host = host(&[]);
    let gateway = ControlParameters { face_id: Some(TUNNEL), ..named(GATEWAY) };
    host.command(APP, Verb::RibRegister, &gateway);
    host.command(APP, Verb::RibRegister, &named("/site/a"));
    assert!(host.registered(true).is_empty());
    host.state.command_signer = Box::new(KeyChain::with(&["/site"]));
    host.state.set_propagate(Some(ReadvertiseOptions::gateway()));
    assert_eq!(host.registered(true), ["register /site by /site/KEY/k"]);
    host.state.set_propagate(Some(ReadvertiseOptions::gateway()));
    assert!(host.registered(true).is_empty(), "it is known");
    host.state.set_propagate(None);
    host.command(APP, Verb::RibUnregister, &named("/site/a"));
    assert!(host.registered(true).is_empty());
    assert!(!host.state.routes.rib.has_changed(), "nobody takes the changes");
}

#[test]
fn unanswered_prefix_does_not_delay_others() {
    let mut host = host(&["/a", "/b", "/c"]);
    for uri in [GATEWAY, "/a/x"] {
        host.command(APP, Verb::RibRegister, &named(uri));
    }
    assert_eq!(host.registered(false), ["register /a by /a/KEY/k"]);
    host.command(APP, Verb::RibRegister, &named("/b/x"));
    assert_eq!(host.registered(true), ["register /b by /b/KEY/k"]);
    host.wait(1);
    host.command(APP, Verb::RibRegister, &named("/c/x"));
    assert_eq!(host.registered(true), ["register /c by /c/KEY/k"]);
    host.wait(25);
    let again = ["register /b by /b/KEY/k", "register /c by /c/KEY/k"];
    assert_eq!(host.registered(true), again, "refreshed, while /a waits to be tried again");
}

#[test]
fn commands_wait_for_a_locked_key_chain() {
    let mut host = Harness::new();
    host.state.set_operator_users(vec![1000]);
    let keys = KeyChain::with(&["/site"]);
    let is_locked = Arc::clone(&keys.is_locked);
    is_locked.store(true, Ordering::Relaxed);
    host.state.command_signer = Box::new(keys);
    host.state.set_propagate(Some(ReadvertiseOptions::gateway()));
    host.command(APP, Verb::RibRegister, &named(GATEWAY));
    host.command(APP, Verb::RibRegister, &named("/site/a"));
    assert!(host.registered(true).is_empty());
    assert_eq!(
        host.state.next_deadline(),
        None,
        "the owner of the signer reports when signing can continue"
    );
    is_locked.store(false, Ordering::Relaxed);
    assert_eq!(host.registered(true), ["register /site by /site/KEY/k"]);
    // The identities are known, the key is not.
    is_locked.store(true, Ordering::Relaxed);
    host.wait(25);
    assert!(host.registered(true).is_empty());
    assert_eq!(host.state.next_deadline(), None);
    is_locked.store(false, Ordering::Relaxed);
    assert_eq!(host.registered(true), ["register /site by /site/KEY/k"], "and without a penalty");
}

#[test]
fn route_removed_while_identities_are_unknown_is_not_registered() {
    let mut host = Harness::new();
    host.state.set_operator_users(vec![1000]);
    let keys = KeyChain::with(&["/site"]);
    let is_locked = Arc::clone(&keys.is_locked);
    is_locked.store(true, Ordering::Relaxed);
    host.state.command_signer = Box::new(keys);
    host.state.set_propagate(Some(ReadvertiseOptions::gateway()));
    host.command(APP, Verb::RibRegister, &named(GATEWAY));
    host.command(APP, Verb::RibRegister, &named("/site/a"));
    assert!(host.registered(true).is_empty());
    host.command(APP, Verb::RibUnregister, &named("/site/a"));
    assert!(host.registered(true).is_empty());
    is_locked.store(false, Ordering::Relaxed);
    assert!(host.registered(true).is_empty());
}
