//! A segmented object from one application to another, byte for byte, through a forwarder.
//!
//! The Content Store is off, so that every fetch reaches the producer. Prefixes are registered and versions discovered
//! (RDR) by each library's own means.

use crate::{Forwarder, Peer, Settings, Transport, WellKnownPath, noise, require};

/// Length of the object.
pub const OBJECT_BYTES: usize = 10 * 1024 * 1024;
const NO_CACHE: &str = "[tables.cs]\nadmit = false\nserve = false";

/// Publishes with one application and fetches with another, each over its own transport.
fn transfer(
    producer: Peer,
    consumer: Peer,
    forwarder: &Forwarder,
    producing: &Transport,
    consuming: &Transport,
) {
    let directory = forwarder.directory();
    let _link = match (producer, consumer) {
        (Peer::NdnApp, _) => WellKnownPath::to(producing.socket()),
        (_, Peer::NdnApp) => WellKnownPath::to(consuming.socket()),
        _ => None,
    };
    let object = noise(7, OBJECT_BYTES);
    let file = directory.join("object");
    std::fs::write(&file, &object).expect("the file to publish");
    let prefix = format!("/interop/{}-{}", producer.name(), consumer.name());
    let _serving = producer.produce(producing, &prefix, &file, directory);
    let fetched = consumer.fetch_from(producer, consuming, &prefix, directory);
    assert_eq!(fetched.len(), object.len(), "{} to {}", producer.name(), consumer.name());
    assert!(fetched == object, "{} to {}: the bytes differ", producer.name(), consumer.name());
}

/// Transfers an object over Unix sockets.
///
/// # Panics
/// The object does not arrive.
pub fn over_unix(producer: Peer, consumer: Peer) {
    if require(&[producer, consumer]) {
        let forwarder = Settings::new().toml(NO_CACHE).start();
        let unix = Transport(forwarder.unix());
        transfer(producer, consumer, &forwarder, &unix, &unix);
    }
}

/// Transfers an object over TCP.
///
/// # Panics
/// The object does not arrive.
pub fn over_tcp(producer: Peer, consumer: Peer) {
    if require(&[producer, consumer]) {
        let forwarder = Settings::new().tcp().toml(NO_CACHE).start();
        let tcp = Transport(forwarder.tcp());
        transfer(producer, consumer, &forwarder, &tcp, &tcp);
    }
}

/// Transfers an object over UDP. UDP is never local, so no application can register over it: there are two forwarders
/// with a UDP face and a route between them that an operator makes.
///
/// # Panics
/// The object does not arrive, or not over UDP.
pub fn over_udp(producer: Peer, consumer: Peer) {
    if require(&[producer, consumer]) {
        let near = Settings::new().udp().toml(NO_CACHE).start();
        let far = Settings::new().udp().toml(NO_CACHE).start();
        let peer = format!("udp4://127.0.0.1:{}", far.port());
        let face = near.json(&["face", "create", &peer]);
        let face_id = face["face_id"].as_u64().expect("a FaceId").to_string();
        let _ = near.output(&["route", "add", "/interop", &face_id]);
        transfer(producer, consumer, &near, &Transport(far.unix()), &Transport(near.unix()));
        let faces = near.json(&["face", "list"]);
        let mut faces = faces.as_array().into_iter().flatten();
        let udp = faces.find(|face| face["remote_uri"] == peer.as_str()).expect("the UDP face");
        let in_data = udp["counters"]["in_data"].as_u64().expect("a counter");
        assert!(in_data > 1000, "the object came over the UDP face ({in_data} Data)");
    }
}

/// Declares tests: name, producer, consumer.
#[macro_export]
macro_rules! transfers {
    ($over:ident: $($test:ident $producer:ident $consumer:ident;)*) => {$(
        #[test]
        fn $test() {
            $crate::transfers::$over($crate::Peer::$producer, $crate::Peer::$consumer);
        }
    )*};
}
