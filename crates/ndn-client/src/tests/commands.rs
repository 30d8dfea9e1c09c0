//! Times of management commands.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ndn_management::{ControlParameters, Verb};
use ndn_packet::{Interest, LpPacket};
use ndn_security::{DigestSigner, HmacKey, Locator, Signer};
use tokio::io::AsyncReadExt;
use tokio::time::Instant;

use crate::framer::Framer;
use crate::handle::COMMAND_LEAD_MAX_MS;
use crate::{Endpoint, EndpointOptions};

const COMMANDS: usize = 3;

/// When commands that are requested at once are sent, and by how many milliseconds each SignatureTime is later than that of the
/// command before. The last one before all is ahead of the clock by the maximum and `further_ms`.
async fn sent(signer: Arc<dyn Signer>, further_ms: u64) -> (Vec<Duration>, Vec<u64>) {
    let (ours, mut theirs) = tokio::io::duplex(1 << 20);
    let (reader, writer) = tokio::io::split(ours);
    let options = EndpointOptions { command_signer: signer, ..EndpointOptions::default() };
    let endpoint = Endpoint::from_stream(reader, writer, &options);
    let mut last_ms = crate::real_time::unix_ms() + COMMAND_LEAD_MAX_MS + further_ms;
    endpoint.handle.common().last_command_ms.store(last_ms, Ordering::Relaxed);
    let began = Instant::now();
    for _ in 0..COMMANDS {
        let management = endpoint.management();
        tokio::spawn(async move {
            let name = Some("/a".parse().unwrap());
            let parameters = ControlParameters { name, ..ControlParameters::default() };
            management.respond(Verb::RibRegister, &parameters).await
        });
    }
    let (mut times, mut steps_ms) = (Vec::new(), Vec::new());
    let mut framer = Framer::default();
    while times.len() < COMMANDS {
        let length = theirs.read(framer.space()).await.unwrap();
        framer.read(length);
        while let Some(frame) = framer.next_frame().unwrap() {
            let packet = LpPacket::parse(&frame).unwrap();
            let interest = Interest::parse(packet.fragment().unwrap()).unwrap();
            let time_ms = interest.signature_info().unwrap().unwrap().time_ms.unwrap();
            times.push(began.elapsed());
            steps_ms.push(time_ms - last_ms);
            last_ms = time_ms;
        }
    }
    (times, steps_ms)
}

#[tokio::test(start_paused = true)]
async fn commands_by_a_key_wait_in_order_until_the_clock_is_near_their_times() {
    let key = HmacKey::new(b"shared", Locator::None);
    let (times, steps_ms) = sent(Arc::new(key), 3_600_000).await;
    assert_eq!(steps_ms, [1; COMMANDS]);
    // The clock of the kernel, which SignatureTimes are compared with, does not see the hours that pass on the paused clock: each
    // command waits for an hour after the one before.
    let hour = Duration::from_secs(3600);
    for (time, hours) in times.iter().zip(1..) {
        assert!((hour * hours).abs_diff(*time) < hour / 10, "{times:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn commands_by_a_digest_do_not_wait() {
    let (times, steps_ms) = sent(Arc::new(DigestSigner), 3_600_000).await;
    assert_eq!((times, steps_ms), (vec![Duration::ZERO; COMMANDS], vec![1; COMMANDS]));
}
