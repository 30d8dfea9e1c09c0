//! Certificates needed by trust rules are fetched by name.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use ndn_packet::{Component, ContentType, DataBuilder, Name};
use ndn_security::trust::{AnchorSource, TrustPolicy};
use ndn_security::{
    Certificate, CertificateOptions, DigestSigner, KeySigner, KeyType, Locator, PrivateKey, SELF,
    Signer, key_name,
};
use ndn_sys::clock::ManualClock;
use ndn_types::Timestamp;

use crate::fetch::{FetchOptions, Verification};
use crate::testing::{Behaviour, FakeForwarder};
use crate::{
    CertificateVerifier, Content, Endpoint, InterestRequest, PublishOptions, Registration, Request,
    Trust,
};

const NOW: i64 = 1_700_000_000;

const RULES: &str = "
anchor root.cert
data /lab/<site>/** by /lab/<site>/server
key /lab/<site>/server by /lab/<site>
key /lab/<site> by /lab
";

fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap()
}

struct Identity {
    key: Arc<PrivateKey>,
    certificate: Arc<Certificate>,
}

impl Identity {
    fn new(uri: &str, issuer: Option<&Self>, not_after: i64) -> Self {
        let key = Arc::new(PrivateKey::generate(KeyType::Ecdsa).unwrap());
        let name = key_name(name(uri).as_ref(), Component::generic(b"k"));
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

    fn signer(&self) -> KeySigner {
        let locator = Locator::Name(self.certificate.key_name().to_name());
        KeySigner::new(Arc::clone(&self.key), locator)
    }

    async fn serve(&self, endpoint: &Endpoint) -> Registration {
        let certificate = Arc::clone(&self.certificate);
        let answer = move |request: Request| request.answer(certificate.wire());
        endpoint.produce(&self.certificate.key_name().to_name(), answer).await.unwrap()
    }
}

struct Lab {
    root: Identity,
    site: Identity,
    server: Identity,
    forwarder: FakeForwarder,
    producer: Endpoint,
    consumer: Endpoint,
    now: Arc<AtomicI64>,
}

impl Lab {
    fn new() -> Self {
        let root = Identity::new("/lab", None, NOW + 1000);
        let site = Identity::new("/lab/a", Some(&root), NOW + 1000);
        let server = Identity::new("/lab/a/server", Some(&site), NOW + 500);
        let forwarder = FakeForwarder::new(Behaviour::default());
        let (producer, consumer) = (forwarder.attach(), forwarder.attach());
        let now = Arc::new(AtomicI64::new(NOW));
        Self { root, site, server, forwarder, producer, consumer, now }
    }

    fn trust(&self, rules: &str) -> Trust {
        let mut load = |_: AnchorSource<'_>| Ok(vec![Arc::clone(&self.root.certificate)]);
        let policy = TrustPolicy::from_text("rules", rules, &mut load).unwrap();
        let now = Arc::clone(&self.now);
        let policy = policy.with_anchors_that_expire();
        Trust::with_clock(policy, move || now.load(Ordering::Relaxed))
    }

    fn options(&self, trust: &Arc<Trust>) -> FetchOptions {
        let verification = Verification::Trust(Arc::clone(trust));
        FetchOptions { verification, ..FetchOptions::default() }
    }

    async fn publish(&self, uri: &str, signer: impl Signer + 'static) -> crate::PublishedObject {
        let options = PublishOptions { signer: Arc::new(signer), ..PublishOptions::default() };
        let content = Content::Bytes(vec![7; 30_000].into());
        self.producer.publish(&name(uri), content, &options).await.unwrap()
    }

    async fn fetch(&self, uri: &str, options: &FetchOptions) -> Result<Vec<u8>, String> {
        let stream = self.consumer.fetch(&name(uri), options).await;
        let stream = stream.map_err(|error| error.to_string())?;
        stream.collect(1 << 20).await.map_err(|error| error.to_string())
    }

    fn asked_for_certificates(&self) -> usize {
        let interests = self.forwarder.interests();
        interests.iter().filter(|interest| interest.contains("/KEY/")).count()
    }
}

#[tokio::test(start_paused = true)]
async fn certificate_chain_is_fetched_once_and_trusted_while_valid() {
    let lab = Lab::new();
    let _site = lab.site.serve(&lab.producer).await;
    let _server = lab.server.serve(&lab.producer).await;
    let _object = lab.publish("/lab/a/x", lab.server.signer()).await;
    let options = lab.options(&Arc::new(lab.trust(RULES)));
    assert_eq!(lab.fetch("/lab/a/x", &options).await.unwrap(), vec![7; 30_000]);
    assert_eq!(lab.asked_for_certificates(), 2);
    assert_eq!(lab.fetch("/lab/a/x", &options).await.unwrap(), vec![7; 30_000]);
    assert_eq!(lab.asked_for_certificates(), 2, "they are kept");
    lab.now.store(NOW + 501, Ordering::Relaxed);
    let output = lab.fetch("/lab/a/x", &options).await.unwrap_err();
    let expired = "certificate /lab/a/server/KEY/k/NA/v=1 is valid from 2023-11-14 21:56:40 to \
                   2023-11-14 22:21:40, and it is 2023-11-14 22:21:41";
    assert!(output.contains(expired), "{output}");
}

#[tokio::test(start_paused = true)]
async fn error_names_the_wrong_and_the_allowed_signer() {
    let lab = Lab::new();
    let _site = lab.site.serve(&lab.producer).await;
    let _server = lab.server.serve(&lab.producer).await;
    let _object = lab.publish("/lab/b/x", lab.server.signer()).await;
    let _digest = lab.publish("/lab/a/y", DigestSigner).await;
    let options = lab.options(&Arc::new(lab.trust(RULES)));
    let output = lab.fetch("/lab/b/x", &options).await.unwrap_err();
    assert!(output.contains("does not let /lab/a/server/KEY/k sign /lab/b/x"), "{output}");
    assert!(output.ends_with("it takes a key of /lab/b/server"), "{output}");
    let output = lab.fetch("/lab/a/y", &options).await.unwrap_err();
    assert!(output.ends_with("it takes a key of /lab/a/server"), "{output}");
    assert_eq!(lab.asked_for_certificates(), 0, "rules come before certificates");
}

#[tokio::test(start_paused = true)]
async fn missing_certificate_is_named() {
    let lab = Lab::new();
    let _server = lab.server.serve(&lab.producer).await;
    let _object = lab.publish("/lab/a/x", lab.server.signer()).await;
    let options = lab.options(&Arc::new(lab.trust(RULES)));
    let output = lab.fetch("/lab/a/x", &options).await.unwrap_err();
    assert!(output.contains("certificate /lab/a/KEY/k is needed to verify it"), "{output}");
    assert!(output.contains("no route to /lab/a/KEY/k (does the producer serve it?"), "{output}");
    // A Data that is not a certificate does not help.
    let nonsense = |request: Request| {
        let key = DataBuilder::new(request.name()).content_type(ContentType::KEY);
        request.answer_with(&key, &DigestSigner).unwrap();
    };
    let _site = lab.producer.produce(&name("/lab/a/KEY/k"), nonsense).await.unwrap();
    let output = lab.fetch("/lab/a/x", &options).await.unwrap_err();
    assert!(output.contains("/lab/a/KEY/k is not a certificate"), "{output}");
}

/// Chains without an anchor end in an error, whatever their shape.
#[tokio::test(start_paused = true)]
async fn certificate_loops_and_long_chains_are_rejected() {
    let lab = Lab::new();
    // Self-signed, and not trusted by any rule.
    let island = Identity::new("/lab/a/server", None, NOW + 1000);
    let _served = island.serve(&lab.producer).await;
    let _object = lab.publish("/lab/a/x", island.signer()).await;
    let rules = "anchor root.cert\ndata /** by /**\nkey /** by /**";
    let options = lab.options(&Arc::new(lab.trust(rules)));
    let output = lab.fetch("/lab/a/x", &options).await.unwrap_err();
    assert!(output.contains("they lead to /lab/a/server/KEY/k again"), "{output}");

    let mut chain = vec![Identity::new("/c", None, NOW + 1000)];
    let mut uri = "/c".to_owned();
    let mut served = Vec::new();
    for _ in 0..30 {
        uri.push_str("/c");
        let next = Identity::new(&uri, chain.last(), NOW + 1000);
        served.push(next.serve(&lab.producer).await);
        chain.push(next);
    }
    let last = chain.last().unwrap();
    let _object = lab.publish("/endless", last.signer()).await;
    let before = lab.asked_for_certificates();
    let output = lab.fetch("/endless", &options).await.unwrap_err();
    assert!(output.contains("more than 25 certificates lead from"), "{output}");
    // By metadata, and by prefix.
    assert!(lab.asked_for_certificates() - before <= 2 * 26);
}

/// An old certificate in a cache does not block a new one.
#[tokio::test(start_paused = true)]
async fn fresh_certificate_is_requested_after_expiry() {
    let lab = Lab::new();
    let _site = lab.site.serve(&lab.producer).await;
    let options = CertificateOptions {
        issuer_id: Component::generic(b"NA"),
        version: 0,
        not_before_unix_s: NOW - 1000,
        not_after_unix_s: NOW - 500,
        description: &[],
    };
    let public = lab.server.key.public_key().unwrap();
    let key = lab.server.certificate.key_name();
    let old = Certificate::issue(key, &public, &options, &lab.site.signer()).unwrap();
    let new = Arc::clone(&lab.server.certificate);
    let answer = move |request: Request| {
        let is_fresh = request.interest().must_be_fresh();
        request.answer(if is_fresh { new.wire() } else { old.wire() });
    };
    let _server = lab.producer.produce(&key.to_name(), answer).await.unwrap();
    let _object = lab.publish("/lab/a/x", lab.server.signer()).await;
    let options = lab.options(&Arc::new(lab.trust(RULES)));
    assert_eq!(lab.fetch("/lab/a/x", &options).await.unwrap().len(), 30_000);
}

#[tokio::test(start_paused = true)]
async fn certificate_verifier_checks_validity() {
    let lab = Lab::new();
    let _object = lab.publish("/lab/a/x", lab.server.signer()).await;
    let now = Arc::clone(&lab.now);
    let certificate = Arc::clone(&lab.server.certificate);
    let clock = move || now.load(Ordering::Relaxed);
    let verifier = Arc::new(CertificateVerifier::with_clock(certificate, clock));
    let request = InterestRequest::new(name("/lab/a/x"))
        .can_be_prefix(true)
        .lifetime(Duration::from_millis(100))
        .verifier(verifier);
    for (time, accepted) in [(NOW, true), (NOW + 500, true), (NOW + 501, false), (NOW, true)] {
        lab.now.store(time, Ordering::Relaxed);
        assert_eq!(lab.consumer.express(&request).await.is_ok(), accepted, "{time}");
    }
    // A key other than the signer's is reported as such.
    let other = Arc::clone(&lab.site.certificate);
    let request = request.verifier(Arc::new(CertificateVerifier::with_clock(other, || NOW)));
    let error = lab.consumer.express(&request).await.unwrap_err().to_string();
    assert!(error.contains("signed with another key, /lab/a/server/KEY/"), "{error}");
}

fn issue(
    uri: &str,
    key: &Arc<PrivateKey>,
    version: u64,
    not_after: i64,
    signer: &dyn Signer,
) -> Arc<Certificate> {
    let kn = key_name(name(uri).as_ref(), Component::generic(b"k"));
    let options = CertificateOptions {
        issuer_id: Component::generic(b"NA"),
        version,
        not_before_unix_s: NOW - 1000,
        not_after_unix_s: not_after,
        description: &[],
    };
    Arc::new(Certificate::issue(kn.as_ref(), &key.public_key().unwrap(), &options, signer).unwrap())
}

async fn serve_two(
    lab: &Lab,
    first: Arc<Certificate>,
    second: Arc<Certificate>,
    at: &str,
) -> (Registration, Arc<AtomicBool>) {
    let flag = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&flag);
    let answer = move |request: Request| {
        let one = if switch.load(Ordering::Relaxed) { &second } else { &first };
        request.answer(one.wire());
    };
    (lab.producer.produce(&name(at), answer).await.unwrap(), flag)
}

#[tokio::test(start_paused = true)]
async fn forged_certificate_is_not_cached() {
    let lab = Lab::new();
    let _site = lab.site.serve(&lab.producer).await;
    let forged = Identity::new("/lab/a/server", None, NOW + 1000);
    let (_r, flag) = serve_two(
        &lab,
        Arc::clone(&forged.certificate),
        Arc::clone(&lab.server.certificate),
        "/lab/a/server/KEY/k",
    )
    .await;
    let _object = lab.publish("/lab/a/x", lab.server.signer()).await;
    let options = lab.options(&Arc::new(lab.trust(RULES)));
    let output = lab.fetch("/lab/a/x", &options).await.unwrap_err();
    assert!(
        output.contains("was not made with the key of /lab/a/server/KEY/k/self/v=1"),
        "{output}"
    );
    flag.store(true, Ordering::Relaxed);
    assert_eq!(lab.fetch("/lab/a/x", &options).await.unwrap().len(), 30_000);
}

#[tokio::test(start_paused = true)]
async fn renewed_certificate_is_fetched() {
    let lab = Lab::new();
    let _site = lab.site.serve(&lab.producer).await;
    let renewed = issue("/lab/a/server", &lab.server.key, 2, NOW + 900, &lab.site.signer());
    let (_r, flag) =
        serve_two(&lab, Arc::clone(&lab.server.certificate), renewed, "/lab/a/server/KEY/k").await;
    let _object = lab.publish("/lab/a/x", lab.server.signer()).await;
    let options = lab.options(&Arc::new(lab.trust(RULES)));
    assert_eq!(lab.fetch("/lab/a/x", &options).await.unwrap().len(), 30_000);
    flag.store(true, Ordering::Relaxed);
    lab.now.store(NOW + 501, Ordering::Relaxed);
    assert_eq!(lab.fetch("/lab/a/x", &options).await.unwrap().len(), 30_000);
}

#[tokio::test(start_paused = true)]
async fn name_component_key_is_not_confused_with_a_key_name() {
    let lab = Lab::new();
    let key_site = Identity::new("/lab/KEY", Some(&lab.root), NOW + 1000);
    let key_server = Identity::new("/lab/KEY/server", Some(&key_site), NOW + 1000);
    let liar = KeySigner::new(Arc::clone(&key_server.key), Locator::Name(name("/lab/KEY/server")));
    let stolen = Arc::new(PrivateKey::generate(KeyType::Ecdsa).unwrap());
    let fake_site_certificate = issue("/lab/a", &stolen, 7, NOW + 1000, &liar);
    let fake_site = Identity { key: stolen, certificate: fake_site_certificate };
    let fake_server = Identity::new("/lab/a/server", Some(&fake_site), NOW + 1000);
    let _fake_site = fake_site.serve(&lab.producer).await;
    let _fake_server = fake_server.serve(&lab.producer).await;
    let _key_site = key_site.serve(&lab.producer).await;
    let (_key_server, _) = serve_two(
        &lab,
        Arc::clone(&key_server.certificate),
        Arc::clone(&key_server.certificate),
        "/lab/KEY/server",
    )
    .await;
    let _object = lab.publish("/lab/a/x", fake_server.signer()).await;
    let options = lab.options(&Arc::new(lab.trust(RULES)));
    let output = lab.fetch("/lab/a/x", &options).await.unwrap_err();
    assert!(output.contains("/lab/KEY/server is needed"), "{output}");
}

#[tokio::test(start_paused = true)]
async fn unsigned_nack_is_rejected() {
    let lab = Lab::new();
    let answer = |request: Request| {
        let data = DataBuilder::new(request.name()).content_type(ContentType::NACK);
        request.answer_with(&data, &DigestSigner).unwrap();
    };
    let _r = lab.producer.produce(&name("/lab/a/n"), answer).await.unwrap();
    let options = lab.options(&Arc::new(lab.trust(RULES)));
    for uri in ["/lab/a/n", "/lab/a/n/v=1"] {
        let output = lab.fetch(uri, &options).await.unwrap_err();
        assert!(output.contains("it takes a key of /lab/a/server"), "{output}");
    }
}

#[tokio::test(start_paused = true)]
async fn directory_entry_is_not_mistaken_for_the_directory() {
    let lab = Lab::new();
    let _site = lab.site.serve(&lab.producer).await;
    let _server = lab.server.serve(&lab.producer).await;
    let signer = lab.server.signer();
    let answer = move |request: Request| {
        if request.name().components().any(|c| c.ty() == ndn_packet::ComponentType::KEYWORD) {
            return;
        }
        let child = name("/lab/a/dir/child/v=1/seg=0");
        let data = DataBuilder::new(&child).final_segment(0).freshness_ms(1000).content(b"child");
        request.answer_with(&data, &signer).unwrap();
    };
    let _r = lab.producer.produce(&name("/lab/a/dir"), answer).await.unwrap();
    let options = lab.options(&Arc::new(lab.trust(RULES)));
    let output = lab.fetch("/lab/a/dir", &options).await.unwrap_err();
    assert!(output.contains("cannot be found"), "{output}");
}

/// A forged Nack in a cache is bypassed.
#[tokio::test(start_paused = true)]
async fn forged_nack_in_a_cache_is_bypassed() {
    let lab = Lab::new();
    let _site = lab.site.serve(&lab.producer).await;
    let _server = lab.server.serve(&lab.producer).await;
    let signer = lab.server.signer();
    let answer = move |request: Request| {
        let segment = request.name().last().and_then(|last| last.as_segment()).unwrap();
        let data = DataBuilder::new(request.name()).final_segment(2);
        if segment == 1 && !request.interest().must_be_fresh() {
            let nack = data.content_type(ContentType::NACK);
            request.answer_with(&nack, &DigestSigner).unwrap();
        } else {
            request.answer_with(&data.content(b"right"), &signer).unwrap();
        }
    };
    let _served = lab.producer.produce(&name("/lab/a/o/v=1"), answer).await.unwrap();
    let options = lab.options(&Arc::new(lab.trust(RULES)));
    assert_eq!(lab.fetch("/lab/a/o/v=1", &options).await.unwrap(), b"rightrightright");
    let found = crate::fetch::FoundObject::known(name("/lab/a/o/v=1"), 2);
    let segment = lab.consumer.fetch_segment(&found, 1, &options).await.unwrap();
    assert_eq!(segment.data().content(), Some(b"right".as_slice()));
}

/// Forged metadata is bypassed when it is stale, and so is a Nack.
#[tokio::test(start_paused = true)]
async fn discovery_continues_after_failed_verification() {
    let lab = Lab::new();
    let _site = lab.site.serve(&lab.producer).await;
    let _server = lab.server.serve(&lab.producer).await;
    for content_type in [ContentType::BLOB, ContentType::NACK] {
        let uri = format!("/lab/a/o{}", content_type.0);
        let signer = lab.server.signer();
        let asked = AtomicI64::new(0);
        let object = name(&uri);
        let answer = move |request: Request| {
            if request.name().last().and_then(|last| last.as_segment()).is_some() {
                let data = DataBuilder::new(request.name()).final_segment(0).content(b"right");
                return request.answer_with(&data, &signer).unwrap();
            }
            let mut metadata = request.name().to_name();
            metadata.push_version(1).push_segment(0);
            let mut versioned = object.clone();
            versioned.push_version(1);
            let mut content = Vec::new();
            ndn_packet::tlv::append_name(&mut content, versioned.as_ref());
            let data = DataBuilder::new(&metadata).final_segment(0).freshness_ms(100);
            if asked.fetch_add(1, Ordering::Relaxed) < 2 {
                let data = data.content_type(content_type).content(&content);
                request.answer_with(&data, &DigestSigner).unwrap();
            } else {
                request.answer_with(&data.content(&content), &signer).unwrap();
            }
        };
        let _served = lab.producer.produce(&name(&uri), answer).await.unwrap();
        let options = lab.options(&Arc::new(lab.trust(RULES)));
        assert_eq!(lab.fetch(&uri, &options).await.unwrap(), b"right");
    }
}

/// Anchors are reloaded when the rules say so, without any other event.
#[tokio::test(start_paused = true)]
async fn trust_anchors_are_reloaded() {
    let lab = Lab::new();
    let other = Identity::new("/lab", None, NOW + 1000);
    let rules = "rule { id all for data checker { type hierarchical } }
        trust-anchor { type file file-name root.cert refresh 10s }";
    let mut load = |_: AnchorSource<'_>| Ok(vec![Arc::clone(&lab.root.certificate)]);
    let mut no_include = |_: &str| Err(String::new());
    let policy = TrustPolicy::from_rules("rules", rules, &mut no_include, &mut load).unwrap();
    let clock = ManualClock::new(Timestamp::from_millis(5000), Duration::ZERO);
    let now = clock.clone();
    let anchor = Arc::clone(&other.certificate);
    let reload = move |_: AnchorSource<'_>| Ok(vec![Arc::clone(&anchor)]);
    let trust = Trust::with_clock(policy, || NOW).with_reload_at(reload, move || now.now());
    let signed = |by: &Identity| {
        ndn_security::sign_data(&DataBuilder::new(&name("/lab/x")), &by.signer()).unwrap()
    };
    let check = |packet: &[u8]| trust.check(&ndn_packet::Data::parse(packet).unwrap()).is_ok();
    let (before, after) = (signed(&lab.root), signed(&other));
    for (seconds, expected) in [(5, (true, false)), (14, (true, false)), (15, (false, true))] {
        clock.advance_to(Timestamp::from_millis(seconds * 1000));
        assert_eq!((check(&before), check(&after)), expected, "{seconds} s");
    }
}

/// A wrong key is reported soon, even if there is no answer for the prefix.
#[tokio::test(start_paused = true)]
async fn wrong_key_is_reported_soon() {
    let lab = Lab::new();
    let signer = lab.server.signer();
    let answer = move |request: Request| {
        let mut metadata = request.name().to_name();
        if metadata.as_ref().last().is_some_and(|last| last == crate::fetch::METADATA) {
            metadata.push_version(1).push_segment(0);
            let data = DataBuilder::new(&metadata).final_segment(0).freshness_ms(10);
            request.answer_with(&data, &signer).unwrap();
        }
    };
    let _served = lab.producer.produce(&name("/lab/a/x"), answer).await.unwrap();
    let other = PrivateKey::generate(KeyType::Ecdsa).unwrap().public_key().unwrap();
    let verification = Verification::Verifier(Arc::new(other));
    let options = FetchOptions { verification, ..FetchOptions::default() };
    let start = tokio::time::Instant::now();
    let output = lab.fetch("/lab/a/x", &options).await.unwrap_err();
    assert!(output.contains("does not verify"), "{output}");
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}
