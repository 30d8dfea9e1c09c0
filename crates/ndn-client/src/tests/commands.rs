//! Times of management commands.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ndn_management::{ControlParameters, Verb};
use ndn_packet::{Interest, LpPacket, Name};
use ndn_security::{DigestSigner, HmacKey, Locator, Signer};
use tokio::io::AsyncReadExt;
use tokio::time::Instant;

use crate::framer::Framer;
use crate::handle::COMMAND_LEAD_MAX_MS;
use crate::{Endpoint, EndpointOptions};

const COMMANDS: usize = 3;

/// Times of commands that are requested at once.
#[derive(Default)]
struct Sent {
    times: Vec<Duration>,
    /// By how many milliseconds each SignatureTime is later than that of the command before.
    steps_ms: Vec<i64>,
}

/// Requests commands for `/a/0` and so on. The last one before all is ahead of the clock by the maximum and `further_ms`.
async fn sent(signer: Arc<dyn Signer>, further_ms: u64) -> Sent {
    let (ours, mut theirs) = tokio::io::duplex(1 << 20);
    let (reader, writer) = tokio::io::split(ours);
    let options = EndpointOptions { command_signer: signer, ..EndpointOptions::default() };
    let endpoint = Endpoint::from_stream(reader, writer, &options);
    let mut last_ms = crate::real_time::unix_ms() + COMMAND_LEAD_MAX_MS + further_ms;
    endpoint.handle.common().last_command_ms.store(last_ms, Ordering::Relaxed);
    let began = Instant::now();
    for number in 0..COMMANDS {
        let management = endpoint.management();
        tokio::spawn(async move {
            let name = Some(prefix(number));
            let parameters = ControlParameters { name, ..ControlParameters::default() };
            management.respond(Verb::RibRegister, &parameters).await
        });
    }
    let mut sent = Sent::default();
    let mut framer = Framer::default();
    while sent.times.len() < COMMANDS {
        let length = theirs.read(framer.space()).await.unwrap();
        framer.read(length);
        while let Some(frame) = framer.next_frame().unwrap() {
            let packet = LpPacket::parse(&frame).unwrap();
            let interest = Interest::parse(packet.fragment().unwrap()).unwrap();
            let time_ms = interest.signature_info().unwrap().unwrap().time_ms.unwrap();
            let parameters = interest.name().component(4).unwrap();
            let parameters = ControlParameters::decode(parameters.value()).unwrap();
            assert_eq!(parameters.name, Some(prefix(sent.times.len())));
            sent.times.push(began.elapsed());
            sent.steps_ms.push(time_ms.cast_signed() - last_ms.cast_signed());
            last_ms = time_ms;
        }
    }
    sent
}

fn prefix(number: usize) -> Name {
    format!("/a/{number}").parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn commands_by_a_key_wait_in_order_until_the_clock_is_near_their_times() {
    let key = HmacKey::new(b"shared", Locator::None);
    let Sent { times, steps_ms } = sent(Arc::new(key), COMMAND_LEAD_MAX_MS / 2).await;
    assert_eq!(steps_ms, [1; COMMANDS]);
    // The clock of the kernel, which SignatureTimes are compared with, does not see the time that passes on the paused clock: each
    // command waits as long after the one before.
    let pause = Duration::from_millis(COMMAND_LEAD_MAX_MS / 2);
    for (time, pauses) in times.iter().zip(1..) {
        assert!((pause * pauses).abs_diff(*time) < pause / 3, "{times:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn commands_do_not_wait_for_a_clock_that_was_put_back() {
    let key = HmacKey::new(b"shared", Locator::None);
    let Sent { times, steps_ms } = sent(Arc::new(key), 3_600_000).await;
    assert_eq!(times, [Duration::ZERO; COMMANDS]);
    assert!(steps_ms[0] < -3_600_000 && steps_ms[1..].iter().all(|step| *step > 0), "{steps_ms:?}");
}

#[tokio::test(start_paused = true)]
async fn commands_by_a_digest_do_not_wait() {
    let Sent { times, steps_ms } = sent(Arc::new(DigestSigner), COMMAND_LEAD_MAX_MS / 2).await;
    assert_eq!((times, steps_ms), (vec![Duration::ZERO; COMMANDS], vec![1; COMMANDS]));
}
