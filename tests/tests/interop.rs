//! Every producer with every consumer: a segmented object of 10 MiB, byte for byte, through
//! `namewire run`.
//!
//! The Content Store is off, so that every fetch reaches the producer. Prefixes are registered and
//! versions discovered (RDR) by each library's own means.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use namewire_tests::{
    Forwarder, Peer, Settings, Transport, WellKnownLink, noise, require, wait_until,
};

const OBJECT_BYTES: usize = 10 * 1024 * 1024;
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
        (Peer::NdnApp, _) => WellKnownLink::to(producing.socket()),
        (_, Peer::NdnApp) => WellKnownLink::to(consuming.socket()),
        _ => None,
    };
    let object = noise(7, OBJECT_BYTES);
    let file = directory.join("object");
    std::fs::write(&file, &object).unwrap();
    let prefix = format!("/interop/{}-{}", producer.name(), consumer.name());
    let _serving = producer.produce(producing, &prefix, &file, directory);
    let fetched = consumer.fetch_from(producer, consuming, &prefix, directory);
    assert_eq!(fetched.len(), object.len(), "{} to {}", producer.name(), consumer.name());
    assert!(fetched == object, "{} to {}: the bytes differ", producer.name(), consumer.name());
}

fn over_unix(producer: Peer, consumer: Peer) {
    if require(&[producer, consumer]) {
        let forwarder = Settings::new().toml(NO_CACHE).start();
        let unix = Transport(forwarder.unix());
        transfer(producer, consumer, &forwarder, &unix, &unix);
    }
}

fn over_tcp(producer: Peer, consumer: Peer) {
    if require(&[producer, consumer]) {
        let forwarder = Settings::new().tcp().toml(NO_CACHE).start();
        let tcp = Transport(forwarder.tcp());
        transfer(producer, consumer, &forwarder, &tcp, &tcp);
    }
}

/// UDP is never local, so no application can register over it: two forwarders, and between them a
/// UDP face and a route that the operator makes.
fn over_udp(producer: Peer, consumer: Peer) {
    if require(&[producer, consumer]) {
        let near = Settings::new().udp().toml(NO_CACHE).start();
        let far = Settings::new().udp().toml(NO_CACHE).start();
        let peer = format!("udp4://127.0.0.1:{}", far.port());
        let face = near.json(&["face", "create", &peer]);
        let face_id = face["face_id"].as_u64().unwrap().to_string();
        let _ = near.output(&["route", "add", "/interop", &face_id]);
        transfer(producer, consumer, &near, &Transport(far.unix()), &Transport(near.unix()));
        let faces = near.json(&["face", "list"]);
        let udp = faces.as_array().unwrap().iter().find(|face| face["remote_uri"] == peer.as_str());
        let in_data = udp.unwrap()["counters"]["in_data"].as_u64().unwrap();
        assert!(in_data > 1000, "the object came over the UDP face ({in_data} Data)");
    }
}

macro_rules! matrix {
    ($over:ident: $($test:ident $producer:ident $consumer:ident;)*) => {$(
        #[test]
        fn $test() {
            $over(Peer::$producer, Peer::$consumer);
        }
    )*};
}

mod unix {
    use super::*;

    matrix! { over_unix:
        namewire_to_namewire Namewire Namewire;
        namewire_to_python Namewire Python;
        namewire_to_ndnts Namewire Ndnts;
        namewire_to_ndn_js Namewire NdnJs;
        namewire_to_ndn_app Namewire NdnApp;
        python_to_namewire Python Namewire;
        python_to_python Python Python;
        python_to_ndnts Python Ndnts;
        python_to_ndn_js Python NdnJs;
        python_to_ndn_app Python NdnApp;
        ndnts_to_namewire Ndnts Namewire;
        ndnts_to_python Ndnts Python;
        ndnts_to_ndnts Ndnts Ndnts;
        ndnts_to_ndn_js Ndnts NdnJs;
        ndnts_to_ndn_app Ndnts NdnApp;
        ndn_js_to_namewire NdnJs Namewire;
        ndn_js_to_python NdnJs Python;
        ndn_js_to_ndnts NdnJs Ndnts;
        ndn_js_to_ndn_js NdnJs NdnJs;
        ndn_js_to_ndn_app NdnJs NdnApp;
        ndn_js_marked_to_namewire NdnJsMarked Namewire;
        ndn_app_to_namewire NdnApp Namewire;
        ndn_app_to_python NdnApp Python;
        ndn_app_to_ndnts NdnApp Ndnts;
        ndn_app_to_ndn_js NdnApp NdnJs;
        ndn_app_to_ndn_app NdnApp NdnApp;
    }
}

/// All but ndn-app, which has Unix sockets only.
mod tcp {
    use super::*;

    matrix! { over_tcp:
        namewire_to_namewire Namewire Namewire;
        namewire_to_python Namewire Python;
        namewire_to_ndnts Namewire Ndnts;
        namewire_to_ndn_js Namewire NdnJs;
        python_to_namewire Python Namewire;
        python_to_python Python Python;
        python_to_ndnts Python Ndnts;
        python_to_ndn_js Python NdnJs;
        ndnts_to_namewire Ndnts Namewire;
        ndnts_to_python Ndnts Python;
        ndnts_to_ndnts Ndnts Ndnts;
        ndnts_to_ndn_js Ndnts NdnJs;
        ndn_js_to_namewire NdnJs Namewire;
        ndn_js_to_python NdnJs Python;
        ndn_js_to_ndnts NdnJs Ndnts;
        ndn_js_to_ndn_js NdnJs NdnJs;
    }
}

mod udp {
    use super::*;

    matrix! { over_udp:
        namewire_to_namewire Namewire Namewire;
        namewire_to_python Namewire Python;
        namewire_to_ndnts Namewire Ndnts;
        namewire_to_ndn_js Namewire NdnJs;
        namewire_to_ndn_app Namewire NdnApp;
        python_to_namewire Python Namewire;
        ndnts_to_namewire Ndnts Namewire;
        ndn_js_to_namewire NdnJs Namewire;
        ndn_app_to_namewire NdnApp Namewire;
    }
}

/// Programs that are used if they are found on PATH.
mod on_path {
    use super::*;

    matrix! { over_unix:
        chunks_to_chunks Chunks Chunks;
        chunks_to_namewire Chunks Namewire;
        chunks_marked_to_namewire ChunksMarked Namewire;
        namewire_to_chunks Namewire Chunks;
        chunks_to_python Chunks Python;
        ndnts_to_chunks Ndnts Chunks;
        ndnd_to_ndnd Ndnd Ndnd;
        ndnd_to_namewire Ndnd Namewire;
        namewire_to_ndnd Namewire Ndnd;
        ndnd_to_chunks Ndnd Chunks;
        chunks_to_ndnd Chunks Ndnd;
    }
}

#[test]
fn a_second_fetch_comes_from_the_content_store() {
    let forwarder = Settings::new().start();
    let unix = Transport(forwarder.unix());
    let object = noise(3, OBJECT_BYTES);
    let file = forwarder.directory().join("object");
    std::fs::write(&file, &object).unwrap();
    let serving = Peer::Namewire.produce(&unix, "/cached", &file, forwarder.directory());
    assert!(Peer::Namewire.fetch(&unix, "/cached", forwarder.directory()) == object);
    let published = serving.stdout();
    let versioned = published.split([' ', ':']).nth(1).unwrap().to_owned();
    drop(serving);
    wait_until("the producer's face to be gone", || {
        let fib = forwarder.output(&["route", "fib"]);
        (!fib.contains("/cached")).then_some(())
    });
    assert!(Peer::Namewire.fetch(&unix, &versioned, forwarder.directory()) == object);
    let hits = forwarder.json(&["cs"])["hits"].as_u64().unwrap();
    assert!(hits >= 1400, "{hits} hits");
}
