#![allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking"
)]

use ndn_packet::InterestBuilder;

use super::*;
use crate::authorize::AnySigner;
use crate::client::CommandBuilder;
use crate::command::Verb;
use crate::testing::name;
use crate::{Command, ControlParameters};

const LOCAL: Requester = Requester { face_id: 300, scope: Scope::Local };
const REMOTE: Requester = Requester { face_id: 301, scope: Scope::NonLocal };

fn run(wire: &[u8], requester: Requester, authorizer: &mut dyn Authorizer) -> Dispatch {
    dispatch(Now::default(), &Interest::parse(wire).unwrap(), requester, authorizer, &[])
}

fn ask(uri: &str, can_be_prefix: bool) -> Dispatch {
    let name = name(uri);
    let wire = InterestBuilder::new(&name).can_be_prefix(can_be_prefix).to_vec().unwrap();
    run(&wire, LOCAL, &mut AnySigner::default())
}

fn register(prefix: &str, uri: &str) -> Vec<u8> {
    let parameters = ControlParameters { name: Some(name(uri)), ..ControlParameters::default() };
    CommandBuilder::new(name(prefix))
        .digest_signed_interest(Verb::RibRegister, &parameters, 1, 2)
        .unwrap()
}

#[test]
fn dataset_is_dispatched_by_name() {
    for (uri, dataset) in [
        ("/localhost/nfd/status/general", Dataset::ForwarderStatus),
        ("/localhost/nfd/faces/list", Dataset::FaceList),
        ("/localhost/nfd/faces/channels", Dataset::ChannelList),
        ("/localhost/nfd/fib/list", Dataset::FibList),
        ("/localhost/nfd/rib/list", Dataset::RibList),
        ("/localhost/nfd/cs/info", Dataset::CsInfo),
        ("/localhost/nfd/strategy-choice/list", Dataset::StrategyChoiceList),
        (
            "/localhost/nfd/faces/query/%96%03%69%01%07",
            Dataset::FaceQuery(FaceQueryFilter { face_id: Some(7), ..FaceQueryFilter::default() }),
        ),
    ] {
        assert_eq!(dataset.prefix(), name(uri));
        assert_eq!(ask(uri, false), Dispatch::Ignore(IgnoreReason::NotDiscovery), "{uri}");
        assert_eq!(ask(uri, true), Dispatch::Publish { dataset, prefix: name(uri) });
        assert_eq!(ask(&format!("{uri}/v=1"), true), Dispatch::Stored);
        assert_eq!(ask(&format!("{uri}/v=1/seg=0"), false), Dispatch::Stored);
    }
}

/// The pynfdc of python-ndn signs its requests for datasets.
#[test]
fn dataset_is_named_before_the_digest_of_parameters() {
    let filter = "/localhost/nfd/faces/query/%96%03%69%01%07";
    for uri in ["/localhost/nfd/status/general", "/localhost/nfd/rib/list", filter] {
        let mut name = name(uri);
        let interest = InterestBuilder::new(&name).parameters(b"x").can_be_prefix(true);
        let wire = interest.to_vec_with_parameters(ndn_security::sha256).unwrap();
        let signed = Interest::parse(&wire).unwrap().name().to_name();
        let Dispatch::Publish { dataset, prefix } = run(&wire, LOCAL, &mut AnySigner::default())
        else {
            panic!("{uri}")
        };
        assert_eq!((dataset.prefix(), &prefix), (name.clone(), &signed));
        name.push_version(7);
        assert_eq!(ask(&format!("{signed}/v=7/seg=0"), false), Dispatch::Stored);
    }
    // A digest without parameters names nothing.
    let digest = format!("/localhost/nfd/rib/list/params-sha256={}", "00".repeat(32));
    assert_eq!(ask(&digest, true), Dispatch::Ignore(IgnoreReason::UnknownName));
}

#[test]
fn unknown_name_is_ignored() {
    for uri in [
        "/",
        "/localhost",
        "/localhost/nfd",
        "/localhost/nfd/faces",
        "/localhost/nfd/fib/list/x",
        "/localhost/nfd/status/special",
        "/localhop/nfd/rib/list",
    ] {
        if uri != "/" {
            assert_eq!(ask(uri, true), Dispatch::Ignore(IgnoreReason::UnknownName), "{uri}");
        }
    }
    assert_eq!(ask("/localhost/nfd/faces/events", true), Dispatch::Events);
    assert_eq!(ask("/localhost/nfd/faces/events/seq=3", false), Dispatch::Events);
}

#[test]
fn malformed_filter_is_nacked() {
    for uri in [
        "/localhost/nfd/faces/query",
        "/localhost/nfd/faces/query/x",
        "/localhost/nfd/faces/query/%96%01",
    ] {
        let Dispatch::NackDataset(response) = ask(uri, true) else { panic!("{uri}") };
        assert_eq!((response.code, response.text.as_str()), (400, "Malformed filter"));
    }
}

#[test]
fn remote_face_gets_no_dataset() {
    let dataset = name("/localhost/nfd/rib/list");
    let wire = InterestBuilder::new(&dataset).can_be_prefix(true).to_vec().unwrap();
    let authorizer = &mut AnySigner::default();
    assert_eq!(run(&wire, REMOTE, authorizer), Dispatch::Ignore(IgnoreReason::NotLocal));
    let ignored = |dispatch| matches!(dispatch, Dispatch::Ignore(IgnoreReason::Unauthorised(_)));
    assert!(ignored(run(&register("/localhost/nfd", "/a"), REMOTE, authorizer)));
    assert!(ignored(run(&register("/localhop/nfd", "/a"), REMOTE, authorizer)));
    assert!(ignored(run(&register("/localhop/nfd", "/a"), LOCAL, authorizer)));
}

#[test]
fn commands_of_local_faces_are_accepted_and_face_0_is_their_own() {
    let wire = register("/localhost/nfd", "/a");
    let Dispatch::Execute(command) = run(&wire, LOCAL, &mut AnySigner::default()) else { panic!() };
    assert_eq!(command.signer, "DigestSha256");
    assert_eq!(command.parameters.face_id, Some(300));
    let expected = crate::Request::RibRegister {
        prefix: name("/a"),
        face_id: 300,
        origin: 0,
        cost: 0,
        flags: 1,
        expiration_period_ms: None,
    };
    assert_eq!(command.request, expected);
}

#[test]
fn unsigned_command_is_accepted_unless_a_signature_is_required() {
    let parameters = ControlParameters { name: Some(name("/a")), ..ControlParameters::default() };
    let unsigned = CommandBuilder::default().name(Verb::RibRegister, &parameters);
    let wire = InterestBuilder::new(&unsigned).to_vec().unwrap();
    assert!(matches!(run(&wire, LOCAL, &mut AnySigner::default()), Dispatch::Execute(_)));
    let mut strict = AnySigner { require_signature: true, ..AnySigner::default() };
    let Dispatch::Refuse { response, signer, .. } = run(&wire, LOCAL, &mut strict) else {
        panic!()
    };
    assert_eq!((response.code, signer.as_str()), (403, "nobody"));
}

struct Nobody;

impl Authorizer for Nobody {
    fn authorize(
        &mut self,
        _: Now,
        command: &Command<'_>,
        _: Requester,
        _: &[Arc<Certificate>],
    ) -> Authorization {
        Authorization::Reject { signer: command.signature.signer(), reason: "test".to_owned() }
    }
}

#[test]
fn authorization_precedes_the_check_of_parameters() {
    let wire = CommandBuilder::default()
        .digest_signed_interest(Verb::RibRegister, &ControlParameters::default(), 1, 2)
        .unwrap();
    let code = |dispatch| match dispatch {
        Dispatch::Refuse { response, .. } => response.code,
        other => panic!("{other:?}"),
    };
    assert_eq!(code(run(&wire, LOCAL, &mut Nobody)), 403);
    assert_eq!(code(run(&wire, LOCAL, &mut AnySigner::default())), 400);
}
