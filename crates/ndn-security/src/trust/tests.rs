//! Chains of certificates against the rules of NFD's sample configuration, and others.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use ndn_packet::{Component, Data, DataBuilder, Interest, InterestBuilder, Name};

use super::*;
use crate::info::Node;
use crate::{
    AntiReplay, CertificateOptions, DigestSigner, KeySigner, KeyType, Locator, PrivateKey, SELF,
    Signer, key_name, sign_data, sign_interest,
};

pub(super) const NOW: i64 = 1_700_000_000;

const RULES: &str = r#"
rule
{
  id "RIB Command Interest"
  for interest
  filter
  {
    type name
    regex ^<localhop><nfd><rib>[<register><unregister>]<>{1,3}$
  }
  checker
  {
    type customized
    sig-type ecdsa-sha256
    key-locator
    {
      type name
      regex ^<>*<KEY><>{1,3}$
    }
  }
}
rule
{
  id "Certificate Hierarchy"
  for data
  filter
  {
    type name
    regex ^<>*<KEY><>{3}$
  }
  checker
  {
    type hierarchical
  }
}
trust-anchor
{
  type file
  file-name root.cert
}
"#;

pub(super) struct Identity {
    pub(super) key: Arc<PrivateKey>,
    pub(super) certificate: Arc<Certificate>,
}

impl Identity {
    pub(super) fn new(name: &str, issuer: Option<&Self>, not_after: i64) -> Self {
        let key = Arc::new(PrivateKey::generate(KeyType::Ecdsa).unwrap());
        let name = key_name(Name::from_uri(name).unwrap().as_ref(), Component::generic(b"key-1"));
        let options = CertificateOptions {
            issuer_id: if issuer.is_some() { Component::generic(b"NA") } else { SELF },
            version: 1,
            not_before_unix_s: NOW - 1000,
            not_after_unix_s: not_after,
            description: &[],
        };
        let certificate = match issuer {
            None => Certificate::self_sign(name.as_ref(), &key, &options).unwrap(),
            Some(issuer) => {
                let public = key.public_key().unwrap();
                Certificate::issue(name.as_ref(), &public, &options, &issuer.signer()).unwrap()
            }
        };
        Self { key, certificate: Arc::new(certificate) }
    }

    pub(super) fn signer(&self) -> KeySigner {
        let locator = Locator::Name(self.certificate.key_name().to_name());
        KeySigner::new(Arc::clone(&self.key), locator)
    }
}

fn policy(rules: &str, root: &Identity) -> TrustPolicy {
    let node = Node::parse_single("rules", rules).unwrap();
    let anchor = Arc::clone(&root.certificate);
    TrustPolicy::from_info(&node, &mut |source| {
        assert_eq!(source, AnchorSource::File("root.cert"));
        Ok(vec![Arc::clone(&anchor)])
    })
    .unwrap()
}

fn interest(name: &str, signer: &dyn Signer) -> Vec<u8> {
    let name = Name::from_uri(name).unwrap();
    sign_interest(&InterestBuilder::new(&name).nonce(1), signer, &AntiReplay::default()).unwrap()
}

pub(super) fn judge(policy: &mut TrustPolicy, wire: &[u8], fetched: &[&Identity]) -> Validation {
    let fetched: Vec<_> =
        fetched.iter().map(|identity| Arc::clone(&identity.certificate)).collect();
    if let Ok(interest) = Interest::parse(wire) {
        return policy.validate(&SignedPacket::from_interest(&interest).unwrap(), &fetched, NOW);
    }
    let data = Data::parse(wire).unwrap();
    policy.validate(&SignedPacket::from_data(&data).unwrap(), &fetched, NOW)
}

/// The name of the first certificate that is missing, and why a fetched one does not stand for it.
pub(super) fn missing(validation: Validation) -> Option<(Name, Option<TrustError>)> {
    match validation {
        Validation::NeedsCertificates(Search { names, refusal, .. }) => {
            names.into_iter().next().zip(Some(refusal))
        }
        Validation::Accepted | Validation::Refused(_) => None,
    }
}

/// It is missing, and no other was fetched.
pub(super) fn needed(identity: &Identity) -> Option<(Name, Option<TrustError>)> {
    Some((identity.certificate.key_name().to_name(), None))
}

const COMMAND: &str = "/localhop/nfd/rib/register/parameters";

#[test]
fn chain_to_the_anchor_is_fetched_and_then_trusted() {
    let root = Identity::new("/net", None, NOW + 1000);
    let site = Identity::new("/net/site", Some(&root), NOW + 1000);
    let user = Identity::new("/net/site/user", Some(&site), NOW + 1000);
    let mut policy = policy(RULES, &root);
    let wire = interest(COMMAND, &user.signer());
    assert_eq!(missing(judge(&mut policy, &wire, &[])), needed(&user));
    assert_eq!(missing(judge(&mut policy, &wire, &[&user])), needed(&site));
    assert_eq!(judge(&mut policy, &wire, &[&site, &user]), Validation::Accepted);
    assert_eq!(judge(&mut policy, &wire, &[]), Validation::Accepted, "remembered");
    assert_eq!(judge(&mut policy, &interest(COMMAND, &root.signer()), &[]), Validation::Accepted);
}

#[test]
fn wrong_names_keys_and_times_are_refused() {
    let root = Identity::new("/net", None, NOW + 1000);
    let mut policy = policy(RULES, &root);
    let refused = |validation| matches!(validation, Validation::Refused(_));
    let other = Identity::new("/other", Some(&root), NOW + 1000);
    let verdict = missing(judge(&mut policy, &interest(COMMAND, &other.signer()), &[&other]));
    assert!(matches!(verdict, Some((_, Some(TrustError::NotAllowed { .. })))), "{verdict:?}");
    let expired = Identity::new("/net/old", Some(&root), NOW - 1);
    let verdict = missing(judge(&mut policy, &interest(COMMAND, &expired.signer()), &[&expired]));
    assert!(matches!(verdict, Some((_, Some(TrustError::Expired { .. })))), "{verdict:?}");
    let impostor = Identity::new("/net", None, NOW + 1000);
    assert!(refused(judge(&mut policy, &interest(COMMAND, &impostor.signer()), &[])));
    let outside = interest("/localhop/nfd/rib/list/x", &root.signer());
    assert!(refused(judge(&mut policy, &outside, &[])));
    assert!(refused(judge(&mut policy, &interest(COMMAND, &DigestSigner), &[])));
    let name = Name::from_uri("/net/data").unwrap();
    let data = sign_data(&DataBuilder::new(&name), &root.signer()).unwrap();
    assert!(refused(judge(&mut policy, &data, &[])), "no rule is about it");
}

fn signed_as(identity: &Identity, locator: &str) -> KeySigner {
    KeySigner::new(Arc::clone(&identity.key), Locator::Name(Name::from_uri(locator).unwrap()))
}

/// The key of `identity` with a certificate that is signed with the key of `issuer`, by whatever name.
fn certified_as(identity: &Identity, issuer: &Identity, locator: &str) -> Identity {
    let options = CertificateOptions {
        issuer_id: Component::generic(b"NB"),
        version: 9,
        not_before_unix_s: NOW - 1000,
        not_after_unix_s: NOW + 1000,
        description: &[],
    };
    let public = identity.key.public_key().unwrap();
    let signer = signed_as(issuer, locator);
    let key_name = identity.certificate.key_name();
    let certificate = Certificate::issue(key_name, &public, &options, &signer).unwrap();
    Identity { key: Arc::clone(&identity.key), certificate: Arc::new(certificate) }
}

/// A new identity with such a certificate.
fn issued_as(name: &str, issuer: &Identity, locator: &str) -> Identity {
    certified_as(&Identity::new(name, None, NOW + 1000), issuer, locator)
}

/// The owner of a certificate below `/net/KEY` cannot sign as `/net` by naming a part of the key name.
#[test]
fn identity_named_key_is_not_confused_with_another() {
    let root = Identity::new("/net", None, NOW + 1000);
    let site = Identity::new("/net/KEY", Some(&root), NOW + 1000);
    let server = Identity::new("/net/KEY/x", Some(&site), NOW + 1000);
    for locator in ["/net/KEY/x", "/net/KEY/x/KEY", "/net/KEY/x/KEY/key-1"] {
        let forged = issued_as("/net/a", &server, locator);
        let wire = interest(COMMAND, &forged.signer());
        let mut policy = policy(RULES, &root);
        let verdict = judge(&mut policy, &wire, &[&forged, &server, &site]);
        assert_ne!(verdict, Validation::Accepted, "{locator}");
    }
    // The way that it has to be is open.
    let honest = issued_as("/net/a", &root, "/net/KEY/key-1");
    let wire = interest(COMMAND, &honest.signer());
    assert_eq!(judge(&mut policy(RULES, &root), &wire, &[&honest]), Validation::Accepted);
}

/// Certificates that lead nowhere stand beside the right one, before it or behind it.
#[test]
fn forged_certificate_does_not_hide_the_genuine_one() {
    let root = Identity::new("/net", None, NOW + 1000);
    let user = Identity::new("/net/user", Some(&root), NOW + 1000);
    let other_key = Identity::new("/net/user", None, NOW + 1000);
    // The right key, vouched for by nobody who may.
    let same_key = certified_as(&user, &other_key, "/net/user/KEY/other");
    let wire = interest(COMMAND, &user.signer());
    for fetched in [[&other_key, &same_key, &user], [&user, &same_key, &other_key]] {
        assert_eq!(judge(&mut policy(RULES, &root), &wire, &fetched), Validation::Accepted);
    }
    let verdict = missing(judge(&mut policy(RULES, &root), &wire, &[&other_key]));
    assert!(matches!(verdict, Some((_, Some(TrustError::Signature { .. })))), "{verdict:?}");
}

#[test]
fn certificates_that_sign_each_other_are_not_trusted() {
    let a = Identity::new("/net/a", None, NOW + 1000);
    let b = Identity::new("/net/a/b", Some(&a), NOW + 1000);
    let root = Identity::new("/net", None, NOW + 1000);
    let mut policy = policy(RULES, &root);
    let wire = interest(COMMAND, &b.signer());
    let verdict = judge(&mut policy, &wire, &[&a, &b]);
    // The self-signed certificate asks for itself again, and never gets anywhere.
    assert_eq!(missing(verdict), needed(&a));
}

#[test]
fn each_possible_next_certificate_of_a_chain_is_requested() {
    let root = Identity::new("/net", None, NOW + 1000);
    let site = Identity::new("/net/site", Some(&root), NOW + 1000);
    let user = Identity::new("/net/site/user", Some(&site), NOW + 1000);
    let impostor = Identity::new("/net/site/user", None, NOW + 1000);
    let key_name = |identity: &Identity| identity.certificate.key_name().to_name();
    // Anybody can sign a certificate for the key of the user, in the name of a key that does not exist.
    let forged = certified_as(&user, &impostor, "/net/KEY/none");
    let wire = interest(COMMAND, &user.signer());
    let mut policy = policy(RULES, &root);
    let Validation::NeedsCertificates(search) =
        judge(&mut policy, &wire, &[&forged, &impostor, &user])
    else {
        panic!("a chain is complete")
    };
    let none = Name::from_uri("/net/KEY/none").unwrap();
    assert_eq!(search.names, [none, key_name(&site), key_name(&user)]);
    assert_eq!(search.followed, [0, 2], "not the certificate of another key");
    let fetched = [&forged, &user, &site];
    assert_eq!(judge(&mut policy, &wire, &fetched), Validation::Accepted);
}

#[test]
fn genuine_certificate_of_another_key_refutes_the_packet() {
    let root = Identity::new("/net", None, NOW + 1000);
    let user = Identity::new("/net/user", Some(&root), NOW + 1000);
    let impostor = Identity::new("/net/user", None, NOW + 1000);
    let wire = interest(COMMAND, &impostor.signer());
    let verdict = judge(&mut policy(RULES, &root), &wire, &[&user]);
    assert!(matches!(verdict, Validation::Refused(TrustError::Signature { .. })), "{verdict:?}");
}

#[test]
fn name_relations_and_digest_signatures_are_checked() {
    let root = Identity::new("/net", None, NOW + 1000);
    let rules = r"
      rule { id named for interest
        filter { type name name /app relation is-strict-prefix-of }
        checker { type customized key-locator { type name name /net relation equal } }
        checker { type customized sig-type sha256 } }
      trust-anchor { type file file-name root.cert refresh 1h }";
    let mut policy = policy(rules, &root);
    assert_eq!(judge(&mut policy, &interest("/app/x", &root.signer()), &[]), Validation::Accepted);
    assert_eq!(judge(&mut policy, &interest("/app/x", &DigestSigner), &[]), Validation::Accepted);
    let sub = Identity::new("/net/sub", Some(&root), NOW + 1000);
    for wire in [interest("/app", &root.signer()), interest("/app/x", &sub.signer())] {
        assert!(matches!(judge(&mut policy, &wire, &[&sub]), Validation::Refused(_)));
    }
}

#[test]
fn any_accepts_all_and_bad_rules_name_their_line() {
    let any = Node::parse_single("x", "trust-anchor { type any }").unwrap();
    let mut nothing = |_: AnchorSource<'_>| Err("cannot be read".to_owned());
    assert!(TrustPolicy::from_info(&any, &mut nothing).unwrap().accepts_all());
    for (text, line) in [
        ("what {\n}", 1),
        ("rule {\n id a\n for both\n}", 3),
        ("rule {\n id a\n for data\n}", 1),
        ("rule {\n id a\n for data\n checker { type hierarchical\n more x\n } }", 5),
        (
            "rule {\n id a\n for data\n filter { type name\n regex <a\n }\n checker { type hierarchical } }",
            5,
        ),
        ("trust-anchor {\n type file\n file-name x\n}", 3),
        ("trust-anchor {\n type moon\n}", 2),
    ] {
        let node = Node::parse_single("rules", text).unwrap();
        let error = TrustPolicy::from_info(&node, &mut nothing).unwrap_err();
        assert_eq!(error.line, line, "{text}: {error}");
    }
}

#[test]
fn base64_trust_anchor_is_read() {
    let root = Identity::new("/net", None, NOW + 1000);
    let text = root.certificate.to_text().replace('\n', "");
    let rules = format!("trust-anchor {{ type base64 base64-string \"{text}\" }}");
    let node = Node::parse_single("rules", &rules).unwrap();
    let policy = TrustPolicy::from_info(&node, &mut |_| Err(String::new())).unwrap();
    assert_eq!(policy.anchors().next().unwrap().name(), root.certificate.name());
}

#[test]
fn holder_of_a_certificate_is_distinguished_from_a_digest() {
    let root = Identity::new("/net", None, NOW + 1000);
    let mut policy = TrustPolicy::signed_by(vec![Arc::clone(&root.certificate)]);
    assert_eq!(judge(&mut policy, &interest("/x", &root.signer()), &[]), Validation::Accepted);
    for wire in [interest("/x", &DigestSigner), interest("/x", &crate::NullSigner)] {
        assert!(matches!(judge(&mut policy, &wire, &[]), Validation::Refused(_)));
    }
}
