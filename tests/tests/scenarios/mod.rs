//! The classic scenarios of forwarding, over links between network namespaces.
//!
//! One topology serves many scenarios: each has names of its own. Names of one scenario share their
//! first two components, so that one worker forwards them, in their order. Over UDP, packets of
//! different lengths may overtake each other: where the order counts, names have the same length.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use namewire_tests::{Application, Received, now};

mod diamond;
mod failover;
mod line;

/// Whether the Data comes, where it may not. The producer answers everything that it is asked, and
/// what the consumer gets late from exchanges that failed is passed over.
fn try_exchange(
    consumer: &mut Application,
    producer: &mut Application,
    uri: &str,
    nonce: u32,
) -> bool {
    consumer.express_with(uri, nonce, |interest| interest.lifetime_ms(2000));
    let deadline = now() + Duration::from_secs(2);
    let moment = Duration::from_millis(10);
    while now() < deadline {
        if let Some(Received::Interest(name, _)) = producer.try_receive(moment) {
            producer.answer(&name, b"", None);
        }
        match consumer.try_receive(moment) {
            Some(Received::Data(name, _)) if name == uri => return true,
            Some(Received::Nack(name, ..)) if name == uri => return false,
            _ => {}
        }
    }
    false
}
