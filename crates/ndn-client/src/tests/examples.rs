//! The examples do what they state.

use std::sync::Arc;

use ndn_packet::{Component, Name};
use ndn_security::{
    Certificate, CertificateOptions, DigestSigner, KeySigner, KeyType, Locator, PrivateKey, SELF,
    key_name,
};

use crate::testing::{Behaviour, FakeForwarder};
use crate::{Content, Endpoint, PublishOptions, Request};

macro_rules! example {
    ($name:ident, $file:literal) => {
        #[path = $file]
        #[allow(dead_code, reason = "the main function is for `cargo run`")]
        mod $name;
    };
}

example!(consumer, "../../examples/consumer.rs");
example!(object, "../../examples/object.rs");
example!(producer, "../../examples/producer.rs");
example!(service, "../../examples/service.rs");
example!(signed_command, "../../examples/signed_command.rs");
example!(trust_rules, "../../examples/trust_rules.rs");

fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap()
}

fn endpoints() -> (Endpoint, Endpoint) {
    let forwarder = FakeForwarder::new(Behaviour::default());
    (forwarder.attach(), forwarder.attach())
}

#[tokio::test(start_paused = true)]
async fn consumer_fetches_from_producer() {
    let (server, client) = endpoints();
    let _registration = producer::greet(&server, &name("/greeting")).await.unwrap();
    let content = consumer::fetch(&client, name("/greeting/you")).await.unwrap();
    assert_eq!(content.as_deref(), Some(&b"hello you"[..]));
    let _silent = server.produce(&name("/silent"), |_: Request| {}).await.unwrap();
    assert_eq!(consumer::fetch(&client, name("/silent")).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn object_of_many_segments_is_fetched() {
    let (server, client) = endpoints();
    let content: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let published = object::publish(&server, &name("/object"), content.clone()).await.unwrap();
    assert!(object::fetch(&client, &name("/object"), 1 << 20).await.unwrap() == content);
    assert_eq!(published.final_segment(), 24);
}

#[tokio::test(start_paused = true)]
async fn service_replies_to_requests() {
    let (server, client) = endpoints();
    let _registration = service::serve(&server, &name("/upper")).await.unwrap();
    assert_eq!(service::request(&client, &name("/upper"), "abc").await.unwrap(), "ABC");
}

#[tokio::test(start_paused = true)]
async fn command_needs_the_key() {
    let (server, client) = endpoints();
    let key = PrivateKey::generate(KeyType::Ecdsa).unwrap();
    let public = Arc::new(key.public_key().unwrap());
    let _registration =
        signed_command::serve_commands(&server, &name("/lamp"), public).await.unwrap();
    let signer = KeySigner::new(Arc::new(key), Locator::Name(name("/operator/KEY/1")));
    let command = |signer| signed_command::command(&client, name("/lamp"), "on", signer);
    assert_eq!(command(Arc::new(signer)).await.unwrap(), "done: on");
    let refused = command(Arc::new(DigestSigner)).await.unwrap();
    assert!(refused.starts_with("refused: not signed"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn trusted_object_is_fetched_and_another_refused() {
    let (server, client) = endpoints();
    let identity = |uri: &str| {
        let key = Arc::new(PrivateKey::generate(KeyType::Ecdsa).unwrap());
        let name = key_name(name(uri).as_ref(), Component::generic(b"k"));
        let signer = KeySigner::new(Arc::clone(&key), Locator::Name(name.clone()));
        (key, name, signer)
    };
    let options = CertificateOptions {
        issuer_id: SELF,
        version: 1,
        not_before_unix_s: 0,
        not_after_unix_s: 4_000_000_000,
        description: &[],
    };
    let (root_key, root_name, root_signer) = identity("/lab");
    let root = Arc::new(Certificate::self_sign(root_name.as_ref(), &root_key, &options).unwrap());
    let (site_key, site_name, site_signer) = identity("/lab/a");
    let public = site_key.public_key().unwrap();
    let site = Certificate::issue(site_name.as_ref(), &public, &options, &root_signer).unwrap();
    let answer = move |request: Request| request.answer(site.wire());
    let _certificate = server.produce(&site_name, answer).await.unwrap();
    let signed = PublishOptions { signer: Arc::new(site_signer), ..PublishOptions::default() };
    let content = || Content::Bytes(vec![1; 20_000].into());
    let _own = server.publish(&name("/lab/a/report"), content(), &signed).await.unwrap();
    let report = name("/lab/a/report");
    let fetched = trust_rules::fetch_trusted(&client, &report, Arc::clone(&root)).await.unwrap();
    assert_eq!(fetched.len(), 20_000);
    let _other = server.publish(&name("/lab/b/report"), content(), &signed).await.unwrap();
    let refused = trust_rules::fetch_trusted(&client, &name("/lab/b/report"), root).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("does not let /lab/a/KEY/k"), "{refused}");
}
