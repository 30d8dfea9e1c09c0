//! Rules of one line each, and what refusals say.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::tests::{Identity, NOW, judge, missing, needed};
use super::*;
use crate::info::InfoError;
use crate::{DigestSigner, Signer, sign_data};
use ndn_packet::DataBuilder;

const RULES: &str = "
# Whom we trust.
anchor root.cert
data /lab/<site>/files/** by /lab/<site>/server   # its own files
data /lab/all by /lab/*
key  /lab/<site>/server by /lab/<site>
key  /lab/<site> by /lab
";

fn policy(rules: &str, root: &Identity) -> Result<TrustPolicy, InfoError> {
    let mut no_include = |_: &str| Err(String::new());
    TrustPolicy::from_rules("rules", rules, &mut no_include, &mut |source| {
        assert_eq!(source, AnchorSource::File("root.cert"));
        Ok(vec![Arc::clone(&root.certificate)])
    })
}

fn data(name: &str, signer: &dyn Signer) -> Vec<u8> {
    sign_data(&DataBuilder::new(&Name::from_uri(name).unwrap()), signer).unwrap()
}

fn refusal(validation: Validation) -> String {
    match validation {
        Validation::Refused(error) => error.to_string(),
        Validation::NeedsCertificates(Search { refusal: Some(error), .. }) => error.to_string(),
        other @ (Validation::Accepted | Validation::NeedsCertificates(_)) => panic!("{other:?}"),
    }
}

struct Lab {
    root: Identity,
    site: Identity,
    server: Identity,
    other_site: Identity,
}

impl Lab {
    fn new() -> Self {
        let root = Identity::new("/lab", None, NOW + 1000);
        let site = Identity::new("/lab/a", Some(&root), NOW + 1000);
        let server = Identity::new("/lab/a/server", Some(&site), NOW + 500);
        let other_site = Identity::new("/lab/b", Some(&root), NOW + 1000);
        Self { root, site, server, other_site }
    }
}

#[test]
fn chain_of_three_certificates_is_trusted() {
    let lab = Lab::new();
    let mut policy = policy(RULES, &lab.root).unwrap();
    let wire = data("/lab/a/files/x", &lab.server.signer());
    assert_eq!(missing(judge(&mut policy, &wire, &[])), needed(&lab.server));
    assert_eq!(missing(judge(&mut policy, &wire, &[&lab.server])), needed(&lab.site));
    assert_eq!(judge(&mut policy, &wire, &[&lab.server, &lab.site]), Validation::Accepted);
    assert_eq!(judge(&mut policy, &wire, &[]), Validation::Accepted, "remembered");
}

/// The cached verdict on a chain expires with the first of its certificates.
#[test]
fn certificate_is_trusted_no_longer_than_its_issuers() {
    let root = Identity::new("/lab", None, NOW + 1000);
    let site = Identity::new("/lab/a", Some(&root), NOW + 200);
    let server = Identity::new("/lab/a/server", Some(&site), NOW + 500);
    let fetched = [Arc::clone(&server.certificate), Arc::clone(&site.certificate)];
    let wire = data("/lab/a/files/x", &server.signer());
    let packet = Data::parse(&wire).unwrap();
    let packet = SignedPacket::from_data(&packet).unwrap();
    let mut rules = policy(RULES, &root).unwrap();
    assert_eq!(rules.validate(&packet, &fetched, NOW), Validation::Accepted);
    assert_eq!(rules.validate(&packet, &[], NOW + 200), Validation::Accepted, "the last second");
    assert_eq!(missing(rules.validate(&packet, &[], NOW + 201)), needed(&server));
    let output = refusal(rules.validate(&packet, &fetched, NOW + 201));
    assert!(output.starts_with("certificate /lab/a/KEY/key-1/NA/v=1 is valid from"), "{output}");
    // An anchor that expires bounds what rests on it as well.
    let root = Identity::new("/lab", None, NOW + 100);
    let site = Identity::new("/lab/a", Some(&root), NOW + 1000);
    let server = Identity::new("/lab/a/server", Some(&site), NOW + 1000);
    let fetched = [Arc::clone(&server.certificate), Arc::clone(&site.certificate)];
    let wire = data("/lab/a/files/x", &server.signer());
    let packet = Data::parse(&wire).unwrap();
    let packet = SignedPacket::from_data(&packet).unwrap();
    for (expires, expected) in [(true, false), (false, true)] {
        let mut rules = policy(RULES, &root).unwrap();
        if expires {
            rules = rules.with_anchors_that_expire();
        }
        assert_eq!(rules.validate(&packet, &fetched, NOW), Validation::Accepted);
        let later = rules.validate(&packet, &[], NOW + 101);
        assert_eq!(later == Validation::Accepted, expected, "{later:?}");
    }
}

/// Verdicts that depend on removed anchors are dropped.
#[test]
fn verdict_of_removed_anchors_is_dropped() {
    let lab = Lab::new();
    let other = Identity::new("/lab", None, NOW + 1000);
    let mut no_include = |_: &str| Err(String::new());
    let mut load = |_: AnchorSource<'_>| Ok(vec![Arc::clone(&lab.root.certificate)]);
    let mut policy =
        TrustPolicy::from_rules("rules", INFO_RULES, &mut no_include, &mut load).unwrap();
    let wire = data("/lab/a/files/x", &lab.site.signer());
    let packet = Data::parse(&wire).unwrap();
    let packet = SignedPacket::from_data(&packet).unwrap();
    let fetched = [Arc::clone(&lab.site.certificate)];
    let judgement = policy.judge(&packet, &fetched, NOW);
    assert_eq!(judgement.validation, Validation::Accepted);
    assert!(judgement.has_learned());
    let mut reload = |_: AnchorSource<'_>| Ok(vec![Arc::clone(&other.certificate)]);
    policy.refresh_anchors(Timestamp::ZERO, &mut reload);
    assert_eq!(policy.refresh_anchors(Timestamp::from_millis(1000), &mut reload).len(), 1);
    policy.learn(judgement);
    assert!(!policy.is_verified(&lab.site.certificate));
    assert_eq!(missing(policy.validate(&packet, &[], NOW)), needed(&lab.site));
}

/// The error of a misspelt line is that of the format in which the file is.
#[test]
fn misspelt_line_has_the_error_of_its_format() {
    let lab = Lab::new();
    let error = |rules: &str| policy(rules, &lab.root).unwrap_err().to_string();
    let lines = "neither `anchor FILE`, `data NAMES by IDENTITIES`";
    for (rules, start, reason) in [
        ("anchr root.cert\ndata /a by /b", "rules:1: ", lines),
        ("# Whom we trust.\ndta /a by /b", "rules:2: ", lines),
        ("anchor root.cert\ndta /a by /b", "rules:2: ", lines),
        ("ruel\n{\n id x\n}", "rules:1: ", "unknown section `ruel`"),
        ("ruel {\n id \"data /a by /b\"\n}", "rules:1: ", "unknown section `ruel`"),
        ("trust-anchr {\n  data x by y\n}", "rules:1: ", "unknown section `trust-anchr`"),
    ] {
        let error = error(rules);
        assert!(error.starts_with(start) && error.contains(reason), "{rules:?}: {error}");
    }
}

const INFO_RULES: &str = r#"
rule { id "all" for data filter { type name regex ^<>*$ } checker { type hierarchical } }
trust-anchor { type file file-name root.cert refresh 1s }
"#;

#[test]
fn rejection_names_the_accepted_values() {
    let lab = Lab::new();
    let mut policy = policy(RULES, &lab.root).unwrap();
    let mut refuse =
        |wire: &[u8]| refusal(judge(&mut policy, wire, &[&lab.server, &lab.site, &lab.other_site]));
    let output = refuse(&data("/lab/b/files/x", &lab.server.signer()));
    let rule = "rule `data /lab/<site>/files/** by /lab/<site>/server` does not let \
                /lab/a/server/KEY/key-1 sign /lab/b/files/x; it takes a key of /lab/b/server";
    assert_eq!(output, rule);
    let output = refuse(&data("/lab/a/files/x", &lab.site.signer()));
    assert!(output.ends_with("it takes a key of /lab/a/server"), "{output}");
    let output = refuse(&data("/lab/a/files/x", &DigestSigner));
    assert!(output.contains("/localhost/identity/digest-sha256"), "{output}");
    let output = refuse(&data("/elsewhere", &lab.server.signer()));
    assert!(output.starts_with("no rule is about /elsewhere; there are `data "), "{output}");
    // Somebody else's key under the same name.
    let impostor = Identity::new("/lab/a/server", Some(&lab.site), NOW + 1000);
    let output = refuse(&data("/lab/a/files/x", &impostor.signer()));
    assert!(
        output.contains("was not made with the key of /lab/a/server/KEY/key-1/NA/v=1"),
        "{output}"
    );
}

/// A key that may sign data may not sign certificates, whatever the name of the data.
#[test]
fn signers_of_data_do_not_vouch_for_keys() {
    let lab = Lab::new();
    let rules = "anchor root.cert\ndata /lab/** by /lab/**\nkey /lab/a/server by /lab/a\nkey /lab/a by /lab";
    let mut policy = policy(rules, &lab.root).unwrap();
    let evil = Identity::new("/lab/evil", Some(&lab.server), NOW + 1000);
    let wire = data("/lab/x", &evil.signer());
    let output = refusal(judge(&mut policy, &wire, &[&evil, &lab.server, &lab.site]));
    assert!(output.starts_with("no rule is about /lab/evil/KEY/key-1/NA/v=1"), "{output}");
    let wire = data("/lab/x", &lab.server.signer());
    assert_eq!(judge(&mut policy, &wire, &[&lab.server, &lab.site]), Validation::Accepted);
}

#[test]
fn certificates_are_trusted_within_their_time() {
    let lab = Lab::new();
    let fetched = [Arc::clone(&lab.server.certificate), Arc::clone(&lab.site.certificate)];
    let wire = data("/lab/a/files/x", &lab.server.signer());
    let packet = Data::parse(&wire).unwrap();
    let packet = SignedPacket::from_data(&packet).unwrap();
    let at = |policy: &mut TrustPolicy, time| policy.validate(&packet, &fetched, time);
    for before in [true, false] {
        let mut policy = policy(RULES, &lab.root).unwrap().with_anchors_that_expire();
        if before {
            assert_eq!(at(&mut policy, NOW), Validation::Accepted);
        }
        assert_eq!(at(&mut policy, NOW + 500), Validation::Accepted, "the last second");
        // Even if it was remembered as good.
        let output = refusal(at(&mut policy, NOW + 501));
        assert!(
            output.starts_with("certificate /lab/a/server/KEY/key-1/NA/v=1 is valid from"),
            "{output}"
        );
        assert!(
            output.contains("to 2023-11-14 22:21:40, and it is 2023-11-14 22:21:41"),
            "{output}"
        );
        let output = refusal(at(&mut policy, NOW - 1001));
        assert!(output.contains("is valid from"), "{output}");
    }
    let wire = data("/lab/all", &lab.root.signer());
    let packet = Data::parse(&wire).unwrap();
    let packet = SignedPacket::from_data(&packet).unwrap();
    let rules = "anchor root.cert\ndata /lab/all by /lab";
    let mut lasting = policy(rules, &lab.root).unwrap();
    assert_eq!(lasting.validate(&packet, &[], NOW + 1001), Validation::Accepted);
    let mut expiring = lasting.clone().with_anchors_that_expire();
    assert_eq!(expiring.validate(&packet, &[], NOW + 1000), Validation::Accepted);
    let output = refusal(expiring.validate(&packet, &[], NOW + 1001));
    assert!(output.starts_with("certificate /lab/KEY/key-1/self/v=1 is valid"), "{output}");
}

#[test]
fn valid_certificate_is_preferred_to_an_expired_one() {
    let lab = Lab::new();
    let mut policy = policy(RULES, &lab.root).unwrap();
    let options = crate::CertificateOptions {
        issuer_id: ndn_packet::Component::generic(b"NA"),
        version: 0,
        not_before_unix_s: NOW - 1000,
        not_after_unix_s: NOW - 500,
        description: &[],
    };
    let key = lab.server.key.public_key().unwrap();
    let name = lab.server.certificate.key_name();
    let old = Certificate::issue(name, &key, &options, &lab.site.signer()).unwrap();
    let fetched =
        [Arc::new(old), Arc::clone(&lab.server.certificate), Arc::clone(&lab.site.certificate)];
    let wire = data("/lab/a/files/x", &lab.server.signer());
    let packet = Data::parse(&wire).unwrap();
    let packet = SignedPacket::from_data(&packet).unwrap();
    assert_eq!(policy.validate(&packet, &fetched, NOW), Validation::Accepted);
}

#[test]
fn wrong_rules_name_their_line() {
    let root = Identity::new("/lab", None, NOW + 1000);
    for (rules, line, part) in [
        ("anchor root.cert\ndata /a", 2, "neither"),
        ("data /a by /b", 1, "no `anchor`"),
        ("anchor root.cert\n\nkey a by /b", 3, "does not begin with"),
        ("anchor root.cert\ndata /<x> by /<y>", 2, "`<y>` in `/<y>` is not in `/<x>`"),
        ("anchor root.cert\nallow /a by /b", 2, "neither"),
        ("anchor", 1, "neither"),
    ] {
        let error = policy(rules, &root).unwrap_err();
        assert!(error.line == line && error.message.contains(part), "{rules}: {error}");
    }
    assert!(policy("", &root).unwrap().anchors().count() == 0, "rules of ndn-cxx, and none");
    let info = "; ndn-cxx\ntrust-anchor { type file file-name root.cert }";
    assert_eq!(policy(info, &root).unwrap().anchors().count(), 1);
}

#[test]
fn routes_are_limited_to_identities_and_keys_of_rules() {
    const ROUTES: &str = "
anchor root.cert
key /lab/<site> by /lab
route /lab/a/printer by /lab/b/KEY/key-1
route /lab/<site>/** by /lab/<site>
route /shared/** by digest
";
    let lab = Lab::new();
    let mut policy = policy(ROUTES, &lab.root).unwrap();
    assert!(policy.has_routes());
    // The name is that of the prefix, as management passes it.
    let mut register = |prefix: &str, signer: &dyn Signer, fetched: &[&Identity]| {
        let wire = data(prefix, signer);
        let data = Data::parse(&wire).unwrap();
        let packet = SignedPacket::from_data(&data).unwrap();
        let packet = SignedPacket { kind: PacketKind::Interest, ..packet };
        let fetched: Vec<_> = fetched.iter().map(|one| Arc::clone(&one.certificate)).collect();
        policy.validate(&packet, &fetched, NOW)
    };
    let (a, b) = (&lab.site, &lab.other_site);
    assert_eq!(register("/lab/a/x/y", &a.signer(), &[a]), Validation::Accepted);
    let refused = refusal(register("/lab/a/x", &b.signer(), &[b]));
    assert!(
        refused.starts_with(
            "rule `route /lab/<site>/** by /lab/<site>` does not let /lab/b/KEY/key-1"
        ),
        "{refused}"
    );
    assert!(refused.ends_with(" register /lab/a/x; it takes a key of /lab/a"), "{refused}");
    let refused = refusal(register("/lab/a/x", &DigestSigner, &[]));
    assert!(refused.contains("register /lab/a/x"), "{refused}");
    // One key alone.
    assert_eq!(register("/lab/a/printer", &b.signer(), &[b]), Validation::Accepted);
    let refused = refusal(register("/lab/a/printer", &a.signer(), &[a]));
    assert!(refused.ends_with("it takes the key /lab/b/KEY/key-1"), "{refused}");
    // Everybody, also with a trusted key.
    assert_eq!(register("/shared/x", &DigestSigner, &[]), Validation::Accepted);
    assert_eq!(register("/shared/x", &a.signer(), &[a]), Validation::Accepted);
    let refused = refusal(register("/other", &a.signer(), &[a]));
    assert!(refused.starts_with("no rule is about /other"), "{refused}");
}

#[test]
fn rules_without_anchor_are_useful_for_digests_only() {
    let parse = |rules: &str| {
        TrustPolicy::from_text("rules", rules, &mut |_| unreachable!("there is no anchor"))
    };
    assert!(parse("route /shared/** by digest").is_ok());
    assert!(parse("route /lab/** by /lab").unwrap_err().to_string().contains("no `anchor`"));
    assert!(parse("route /lab/** by").unwrap_err().to_string().contains("`route PREFIXES by"));
}
