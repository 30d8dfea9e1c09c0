//! Routes of applications, told to a routing daemon.

use ndn_packet::{ContentType, SignatureInfo, SignatureType};

use super::*;
use crate::sign::digest_signature;
use crate::types::route_origin;

/// A routing daemon on this host.
const DAEMON: u64 = 302;

fn harness() -> Harness {
    let mut harness = Harness::new();
    harness.state.face_created(harness.now, record(DAEMON, "fd://21", FaceScope::Local));
    harness.run();
    harness.sent.clear();
    harness
}

fn client(uri: &str) -> ControlParameters {
    ControlParameters { origin: Some(route_origin::CLIENT), ..named(uri) }
}

impl Harness {
    /// Commands to the daemon since the last call: verb, prefix, name.
    fn told(&mut self) -> Vec<(String, Name)> {
        self.state.handle_timeout(self.now);
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
        self.state.handle_data(self.now, &data);
        self.run();
    }
}

fn verbs(told: &[(String, Name)]) -> Vec<&str> {
    told.iter().map(|(verb, _)| verb.as_str()).collect()
}

#[test]
fn routes_of_clients_are_told_and_withdrawn_with_their_face() {
    let mut harness = harness();
    harness.command(APP, Verb::RibRegister, &client("/early"));
    harness.state.set_readvertise_nlsr(true);
    assert!(harness.told().is_empty(), "there is no daemon");
    // The daemon comes.
    harness.command(DAEMON, Verb::RibRegister, &named("/localhost/nlsr"));
    let told = harness.told();
    assert_eq!(verbs(&told), ["register /early"]);
    harness.confirm(&told[0].1);

    harness.command(APP, Verb::RibRegister, &client("/late"));
    harness.command(APP, Verb::RibRegister, &named("/application"));
    let told = harness.told();
    assert_eq!(verbs(&told), ["register /late"], "only those of origin client");
    harness.confirm(&told[0].1);
    assert!(harness.told().is_empty());

    harness.state.face_destroyed(harness.now, APP);
    let mut told = harness.told();
    told.sort();
    assert_eq!(verbs(&told), ["unregister /early", "unregister /late"]);
    told.iter().for_each(|(_, name)| harness.confirm(name));
    assert!(harness.told().is_empty());
}

#[test]
fn nothing_is_told_unless_that_is_wanted() {
    let mut harness = harness();
    harness.command(DAEMON, Verb::RibRegister, &named("/localhost/nlsr"));
    harness.command(APP, Verb::RibRegister, &client("/a"));
    assert!(harness.told().is_empty());
    harness.state.set_readvertise_nlsr(true);
    assert_eq!(verbs(&harness.told()), ["register /a"]);
    harness.state.set_readvertise_nlsr(false);
    harness.command(APP, Verb::RibRegister, &client("/b"));
    assert!(harness.told().is_empty());
}
