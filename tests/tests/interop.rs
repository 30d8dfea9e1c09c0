//! Transfers of an object with one and with two workers: each application with itself over each transport, every one
//! with Namewire over UDP. `interop_matrix.rs` has the others, to which the number of workers makes no difference.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use namewire_tests::{Peer, Settings, Transport, noise, wait_until, worker_count};

mod unix {
    namewire_tests::transfers! { over_unix:
        namewire_to_namewire Namewire Namewire;
        python_to_python Python Python;
        ndnts_to_ndnts Ndnts Ndnts;
        ndn_js_to_ndn_js NdnJs NdnJs;
        ndn_app_to_ndn_app NdnApp NdnApp;
    }
}

/// All but ndn-app, which has Unix sockets only.
mod tcp {
    namewire_tests::transfers! { over_tcp:
        namewire_to_namewire Namewire Namewire;
        python_to_python Python Python;
        ndnts_to_ndnts Ndnts Ndnts;
        ndn_js_to_ndn_js NdnJs NdnJs;
    }
}

mod udp {
    namewire_tests::transfers! { over_udp:
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
    namewire_tests::transfers! { over_unix:
        chunks_to_chunks Chunks Chunks;
        ndnd_to_ndnd Ndnd Ndnd;
    }
}

#[test]
fn second_fetch_is_served_by_the_content_store() {
    let forwarder = Settings::new().start();
    let unix = Transport(forwarder.unix());
    let object = noise(3, 1 << 20);
    let file = forwarder.directory().join("object");
    std::fs::write(&file, &object).unwrap();
    let mut attempt = 0;
    // If a fetch takes longer than half a second, names may move to another worker, away from their cached Data.
    wait_until("a fetch during which no names move", || {
        attempt += 1;
        let prefix = format!("/cached/{attempt}");
        let serving = Peer::Namewire.produce(&unix, &prefix, &file, forwarder.directory());
        assert!(Peer::Namewire.fetch(&unix, &prefix, forwarder.directory()) == object);
        let published = serving.stdout();
        let versioned = published.split([' ', ':']).nth(1).unwrap().to_owned();
        drop(serving);
        wait_until("the producer's face to be gone", || {
            let fib = forwarder.output(&["route", "fib"]);
            (!fib.contains("/cached")).then_some(())
        });
        let again = forwarder.directory().join(format!("again-{attempt}"));
        let fetched = forwarder.run(&["get", &versioned, "-o", again.to_str().unwrap(), "--quiet"]);
        if !fetched.status.success() {
            let reason = String::from_utf8_lossy(&fetched.stderr);
            assert!(worker_count() > 1 && reason.contains("no route"), "{reason}");
            return None;
        }
        assert!(std::fs::read(&again).unwrap() == object);
        Some(())
    });
    let hits = forwarder.json(&["cs"])["hits"].as_u64().unwrap();
    assert!(hits >= 1 << 7, "{hits} hits for at least as many segments");
}
