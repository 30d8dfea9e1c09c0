//! Privileges, signers and repeated commands.
#![allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking"
)]

use ndn_packet::{Component, Interest, SignatureInfo, SignatureType, tlv};
use ndn_security::{
    CertificateOptions, DigestSigner, HmacKey, KeySigner, KeyType, Locator, PrivateKey, SELF,
    Signer, key_name,
};

use super::*;
use crate::client::CommandBuilder;
use crate::command::{self, Verb};
use crate::testing::name;
use crate::{ControlParameters, Requester};
use ndn_types::Scope;
use std::time::Duration;

pub(crate) const NOW: Now =
    Now { monotonic: Timestamp::from_nanos(1 << 40), unix: Duration::from_secs(1_700_000_000) };
const LOCAL: Requester = Requester { face_id: 300, scope: Scope::Local };
const REMOTE: Requester = Requester { face_id: 301, scope: Scope::NonLocal };

/// A key with its certificate.
pub(crate) struct Identity {
    key: Arc<PrivateKey>,
    pub(crate) certificate: Arc<Certificate>,
}

impl Identity {
    pub(crate) fn new(uri: &str, key_type: KeyType) -> Self {
        Self::issued(uri, key_type, None)
    }

    pub(crate) fn issued(uri: &str, key_type: KeyType, issuer: Option<&Self>) -> Self {
        let key = Arc::new(PrivateKey::generate(key_type).unwrap());
        let key_name = key_name(name(uri).as_ref(), Component::generic(b"k"));
        let now = 1_700_000_000;
        let options = CertificateOptions {
            issuer_id: SELF,
            version: 1,
            not_before_unix_s: now - 1000,
            not_after_unix_s: now + 1000,
            description: &[],
        };
        let certificate = match issuer {
            None => Certificate::self_sign(key_name.as_ref(), &key, &options).unwrap(),
            Some(issuer) => {
                let public = key.public_key().unwrap();
                let signer = issuer.signer();
                Certificate::issue(key_name.as_ref(), &public, &options, &signer).unwrap()
            }
        };
        Self { key, certificate: Arc::new(certificate) }
    }

    pub(crate) fn signer(&self) -> KeySigner {
        self.signer_as(Locator::Name(self.certificate.key_name().to_name()))
    }

    pub(crate) fn signer_as(&self, locator: Locator) -> KeySigner {
        KeySigner::new(Arc::clone(&self.key), locator)
    }
}

pub(crate) fn signed(
    prefix: &str,
    verb: Verb,
    signer: &dyn Signer,
    time_ms: Option<u64>,
) -> Vec<u8> {
    let parameters = ControlParameters { name: Some(name("/p")), ..ControlParameters::default() };
    let info = SignatureInfo { time_ms, nonce: Some(&[1]), ..signer.signature_info() };
    CommandBuilder::new(name(prefix))
        .signed_interest(verb, &parameters, 1, &info, signer.signature_len_max(), |parts, out| {
            signer.sign(parts, out).ok()
        })
        .unwrap()
}

/// The same command in the format of 2013.
fn signed_2013(verb: Verb, signer: &dyn Signer, time_ms: u64) -> Vec<u8> {
    let parameters = ControlParameters { name: Some(name("/p")), ..ControlParameters::default() };
    let mut command = CommandBuilder::default().name(verb, &parameters);
    command.push_generic(time_ms.to_be_bytes()).push_generic(1_u64.to_be_bytes());
    let mut template = name("/");
    template.append(command.as_ref());
    let info = signer.signature_info();
    // SignatureInfo as Data has it.
    let carrier = name("/x");
    let data = ndn_packet::DataBuilder::new(&carrier)
        .to_vec(&info, signer.signature_len_max(), |parts, out| signer.sign(parts, out).ok())
        .unwrap();
    let mut reader = tlv::Reader::new(&data).read_only(ndn_packet::types::DATA).unwrap().reader();
    let info = loop {
        let element = reader.next_tlv().unwrap().unwrap();
        if element.ty() == ndn_packet::types::SIGNATURE_INFO {
            break element.wire().to_vec();
        }
    };
    command.push_generic(info);
    let mut signature = vec![0; signer.signature_len_max()];
    let length = signer.sign(&[command.value()], &mut signature).unwrap();
    let mut value = Vec::new();
    tlv::append_tlv(&mut value, ndn_packet::types::SIGNATURE_VALUE, &signature[..length]);
    command.push_generic(value);
    ndn_packet::InterestBuilder::new(&command).nonce(1).to_vec().unwrap()
}

fn ask_at(
    access: &mut AccessControl,
    now: Now,
    wire: &[u8],
    requester: Requester,
) -> Authorization {
    let interest = Interest::parse(wire).unwrap();
    let command = command::parse_command(&interest, ndn_security::sha256).unwrap();
    let verdict = access.authorize(now, &command, requester, &[]);
    if matches!(verdict, Authorization::Accept { .. }) {
        access.command_accepted(now, &command);
    }
    verdict
}

fn ask(access: &mut AccessControl, wire: &[u8]) -> Authorization {
    ask_at(access, NOW, wire, LOCAL)
}

fn is_accepted(verdict: &Authorization) -> bool {
    matches!(verdict, Authorization::Accept { .. })
}

fn is_rejected(verdict: &Authorization) -> bool {
    matches!(verdict, Authorization::Reject { .. })
}

const LOCALHOST: &str = "/localhost/nfd";
const TIME_MS: u64 = 1_700_000_000_000;

#[test]
fn command_without_privilege_is_refused() {
    let mut access = AccessControl::default();
    for verb in Verb::ALL.iter().copied().filter(|verb| *verb != Verb::RibAnnounce) {
        let wire = signed(LOCALHOST, verb, &DigestSigner, Some(TIME_MS));
        assert!(is_rejected(&ask(&mut access, &wire)), "{verb}");
    }
    access.grant_everyone(Module::Cs);
    let wire = signed(LOCALHOST, Verb::CsErase, &DigestSigner, None);
    assert!(is_accepted(&ask(&mut access, &wire)));
    let wire = signed(LOCALHOST, Verb::FaceCreate, &DigestSigner, Some(TIME_MS));
    assert!(is_rejected(&ask(&mut access, &wire)));
}

#[test]
fn every_key_type_can_be_authorized() {
    for key_type in [KeyType::Ecdsa, KeyType::Ed25519, KeyType::Rsa] {
        let (admin, other) = (Identity::new("/admin", key_type), Identity::new("/admin", key_type));
        let mut access = AccessControl::default();
        access.grant(Module::Fib, Arc::clone(&admin.certificate));
        let verb = Verb::FibAddNextHop;
        let good = signed(LOCALHOST, verb, &admin.signer(), Some(TIME_MS));
        assert!(is_accepted(&ask(&mut access, &good)), "{key_type}");
        let older = signed_2013(verb, &admin.signer(), TIME_MS + 1);
        assert!(is_accepted(&ask(&mut access, &older)), "{key_type}: {older:02x?}");
        let forged = signed(LOCALHOST, verb, &other.signer(), Some(TIME_MS + 2));
        assert!(is_rejected(&ask(&mut access, &forged)));
        let elsewhere = signed(LOCALHOST, Verb::CsConfig, &admin.signer(), Some(TIME_MS + 3));
        assert!(is_rejected(&ask(&mut access, &elsewhere)));
        let digest = signed(LOCALHOST, verb, &DigestSigner, Some(TIME_MS + 4));
        assert!(is_rejected(&ask(&mut access, &digest)));
    }
}

#[test]
fn hmac_signature_is_not_accepted() {
    let admin = Identity::new("/admin", KeyType::Ecdsa);
    let locator = Locator::Name(admin.certificate.key_name().to_name());
    let shared = HmacKey::new(b"secret", locator);
    for (verb, module) in [(Verb::FibAddNextHop, Module::Fib), (Verb::RibRegister, Module::Rib)] {
        let current = signed(LOCALHOST, verb, &shared, Some(TIME_MS));
        let older = signed_2013(verb, &shared, TIME_MS + 1);
        for wire in [current, older] {
            assert!(is_accepted(&ask(&mut AccessControl::everyone_local(), &wire)), "{verb}");
            let mut access = AccessControl::default();
            access.grant(module, Arc::clone(&admin.certificate));
            assert!(is_rejected(&ask(&mut access, &wire)), "{verb}: no certificate contains it");
        }
    }
}

#[test]
fn replayed_or_outdated_command_is_refused() {
    let admin = Identity::new("/admin", KeyType::Ecdsa);
    let mut access = AccessControl::default();
    access.grant(Module::Fib, Arc::clone(&admin.certificate));
    let command = |time| signed(LOCALHOST, Verb::FibRemoveNextHop, &admin.signer(), time);
    assert!(is_rejected(&ask(&mut access, &command(None))));
    assert!(is_rejected(&ask(&mut access, &command(Some(TIME_MS - 120_001)))));
    let good = command(Some(TIME_MS));
    assert!(is_accepted(&ask(&mut access, &good)));
    assert!(is_rejected(&ask(&mut access, &good)), "replayed");
    let overtaken = command(Some(TIME_MS - 1));
    assert!(
        is_accepted(&ask(&mut access, &overtaken)) && is_rejected(&ask(&mut access, &overtaken))
    );
    assert!(is_accepted(&ask(&mut access, &command(Some(TIME_MS + 1)))));
    // A forged command does not use up the time of a later one.
    let forger = Identity::new("/admin", KeyType::Ecdsa);
    let forged = signed(LOCALHOST, Verb::FibRemoveNextHop, &forger.signer(), Some(TIME_MS + 100));
    assert!(is_rejected(&ask(&mut access, &forged)));
    assert!(is_accepted(&ask(&mut access, &command(Some(TIME_MS + 2)))));
}

#[test]
fn successor_refuses_commands_signed_before_it() {
    let admin = Identity::new("/admin", KeyType::Ecdsa);
    let mut access = AccessControl::default();
    access.grant(Module::Fib, Arc::clone(&admin.certificate));
    access.refuse_signed_before(TIME_MS);
    let command = |time| signed(LOCALHOST, Verb::FibAddNextHop, &admin.signer(), Some(time));
    assert!(is_rejected(&ask(&mut access, &command(TIME_MS))));
    assert!(is_accepted(&ask(&mut access, &command(TIME_MS + 1))));
}

#[test]
fn successor_inherits_the_records_of_executed_commands() {
    let [admin, other] = ["/admin", "/other"].map(|uri| Identity::new(uri, KeyType::Ecdsa));
    let mut before = AccessControl::default();
    before.grant(Module::Fib, Arc::clone(&admin.certificate));
    before.grant_everyone(Module::Cs);
    before.refuse_signed_before(TIME_MS - 5000);
    let command =
        |verb, principal: &Identity, time| signed(LOCALHOST, verb, &principal.signer(), Some(time));
    let fib = |time| command(Verb::FibAddNextHop, &admin, time);
    let cs = |time| command(Verb::CsConfig, &admin, time);
    assert!(is_accepted(&ask(&mut before, &fib(TIME_MS - 1000))));
    assert!(is_accepted(&ask(&mut before, &cs(TIME_MS - 1000))));

    // A reload, at which the clocks of clients are a second behind.
    let mut after = AccessControl::default();
    for module in [Module::Fib, Module::Cs] {
        after.grant(module, Arc::clone(&admin.certificate));
        after.grant(module, Arc::clone(&other.certificate));
    }
    after.refuse_signed_before(TIME_MS);
    after.inherit(before.replay_records());
    assert!(is_rejected(&ask(&mut after, &fib(TIME_MS - 1000))), "executed before the reload");
    assert!(is_accepted(&ask(&mut after, &fib(TIME_MS - 999))), "the clock may be behind");
    let of_other = command(Verb::FibAddNextHop, &other, TIME_MS - 999);
    assert!(is_accepted(&ask(&mut after, &of_other)));
    assert!(is_rejected(&ask(&mut after, &cs(TIME_MS - 1000))), "executed without a record");
    assert!(is_accepted(&ask(&mut after, &cs(TIME_MS + 1))));
}

#[test]
fn signature_without_key_name_gets_no_answer() {
    let admin = Identity::new("/admin", KeyType::Ecdsa);
    let mut access = AccessControl::default();
    access.grant(Module::Fib, Arc::clone(&admin.certificate));
    let anonymous = KeySigner::new(Arc::clone(&admin.key), Locator::None);
    let wire = signed(LOCALHOST, Verb::FibAddNextHop, &anonymous, Some(TIME_MS));
    assert!(matches!(ask(&mut access, &wire), Authorization::Ignore { .. }));
}

#[test]
fn localhop_accepts_rib_commands_only() {
    let root = Identity::new("/net", KeyType::Ecdsa);
    let mut access = AccessControl::everyone_local();
    let localhop = "/localhop/nfd";
    let register = |time| signed(localhop, Verb::RibRegister, &root.signer(), Some(time));
    let ignored = |verdict| matches!(verdict, Authorization::Ignore { .. });
    assert!(ignored(ask_at(&mut access, NOW, &register(TIME_MS), REMOTE)));
    let policy = TrustPolicy::signed_by(vec![Arc::clone(&root.certificate)]);
    access.set_localhop_rib(policy);
    assert!(access.is_localhop_enabled());
    assert!(is_accepted(&ask_at(&mut access, NOW, &register(TIME_MS), REMOTE)));
    let digest = signed(localhop, Verb::RibRegister, &DigestSigner, Some(TIME_MS + 1));
    assert!(is_rejected(&ask_at(&mut access, NOW, &digest, REMOTE)));
    let at_home = signed(LOCALHOST, Verb::RibRegister, &root.signer(), Some(TIME_MS + 1));
    assert!(ignored(ask_at(&mut access, NOW, &at_home, REMOTE)));
    for verb in [Verb::FaceCreate, Verb::CsErase, Verb::FibAddNextHop, Verb::StrategySet] {
        let wire = signed(localhop, verb, &root.signer(), Some(TIME_MS + 2));
        assert!(ignored(ask_at(&mut access, NOW, &wire, REMOTE)), "{verb}");
    }
    let unknown_peer = Identity::new("/net/x", KeyType::Ecdsa);
    let wire = signed(localhop, Verb::RibRegister, &unknown_peer.signer(), Some(TIME_MS));
    assert!(matches!(
        ask_at(&mut access, NOW, &wire, REMOTE),
        Authorization::NeedsCertificates { search, .. }
            if search.names == [unknown_peer.certificate.key_name().to_name()]
    ));
}

#[test]
fn rib_command_without_signature_is_refused() {
    let mut access = AccessControl::everyone_local();
    let parameters = ControlParameters { name: Some(name("/p")), ..ControlParameters::default() };
    let unsigned = |verb| {
        let name = CommandBuilder::default().name(verb, &parameters);
        ndn_packet::InterestBuilder::new(&name).nonce(1).to_vec().unwrap()
    };
    assert!(is_rejected(&ask(&mut access, &unsigned(Verb::RibRegister))));
    assert!(is_accepted(&ask(&mut access, &unsigned(Verb::FibAddNextHop))));
    let null = signed(LOCALHOST, Verb::RibRegister, &ndn_security::NullSigner, None);
    assert!(is_accepted(&ask(&mut access, &null)));
    assert_eq!(SignatureType::NULL.0, 200);
}

#[test]
fn routes_are_limited_by_the_identity_that_registers_them() {
    let (alice, bob) =
        (Identity::new("/op/alice", KeyType::Ecdsa), Identity::new("/op/bob", KeyType::Ecdsa));
    let anchors = [Arc::clone(&alice.certificate), Arc::clone(&bob.certificate)];
    let rules = "anchor both\nroute /p by /op/alice\nroute /op/<who>/** by /op/<who>\n";
    let policy = TrustPolicy::from_text("rules", rules, &mut |_| Ok(anchors.to_vec())).unwrap();
    let mut access = AccessControl::everyone_local();
    access.set_localhost_rib(policy.clone());
    access.set_localhop_rib(policy);
    for (prefix, requester) in [(LOCALHOST, LOCAL), ("/localhop/nfd", REMOTE)] {
        // The commands of these tests are about /p.
        for verb in [Verb::RibRegister, Verb::RibUnregister] {
            let time_ms = if verb == Verb::RibRegister { TIME_MS } else { TIME_MS + 1 };
            let by_alice = signed(prefix, verb, &alice.signer(), Some(time_ms));
            let verdict = ask_at(&mut access, NOW, &by_alice, requester);
            assert!(is_accepted(&verdict), "{verb} {verdict:?}");
            let by_bob = signed(prefix, verb, &bob.signer(), Some(time_ms));
            match ask_at(&mut access, NOW, &by_bob, requester) {
                Authorization::Reject { reason, .. } => {
                    assert!(reason.contains("rule `route /p by /op/alice`"), "{reason}");
                    assert!(reason.contains("/op/bob/KEY/k register /p;"), "{reason}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
    // Other commands are not about prefixes.
    let wire = signed(LOCALHOST, Verb::CsErase, &DigestSigner, None);
    assert!(is_accepted(&ask(&mut access, &wire)));
}

#[test]
fn digest_commands_of_one_process_do_not_refuse_those_of_others() {
    let rules = "route /p by digest\n";
    let policy = TrustPolicy::from_text("rules", rules, &mut |_| Ok(Vec::new())).unwrap();
    let mut access = AccessControl::everyone_local();
    access.set_localhost_rib(policy);
    access.refuse_signed_before(TIME_MS - 1);
    let register = |time_ms| signed(LOCALHOST, Verb::RibRegister, &DigestSigner, time_ms);
    for time_ms in TIME_MS + 115_000..TIME_MS + 119_200 {
        assert!(is_accepted(&ask(&mut access, &register(Some(time_ms)))));
    }
    // Of two processes in one millisecond, and of one without a clock.
    for time_ms in [Some(TIME_MS), Some(TIME_MS), None] {
        assert!(is_accepted(&ask(&mut access, &register(time_ms))), "{time_ms:?}");
    }
}
