//! Interests and their answers.

use std::sync::Arc;
use std::time::Duration;

use ndn_packet::{Component, DataBuilder, Interest, NackReason, Name};
use ndn_security::{DigestSigner, DigestVerifier, HmacKey, Locator, sha256, sign_data};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::testing::{Behaviour, FakeForwarder, raw};
use crate::{ConnectionState, ExpressError, InterestRequest, Request};

fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap()
}

/// Answers with the Interest's name, followed by `suffix`.
fn echo(suffix: &'static str) -> impl Fn(Request) + Send + Sync + 'static {
    move |request| {
        let mut answer = request.name().to_name();
        if !suffix.is_empty() {
            answer.push_generic(suffix);
        }
        let data = DataBuilder::new(answer.as_ref()).content(b"echo").freshness_ms(1000);
        request.answer_with(&data, &DigestSigner).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn interest_is_answered() {
    let forwarder = FakeForwarder::new(Behaviour { tokens: true, ..Behaviour::default() });
    let (producer, consumer) = (forwarder.attach(), forwarder.attach());
    let _served = producer.produce(&name("/app"), echo("")).await.unwrap();
    assert_eq!(forwarder.routes(), ["/app"]);
    let request = InterestRequest::new(name("/app/x")).verifier(Arc::new(DigestVerifier));
    let data = consumer.express(&request).await.unwrap();
    assert_eq!(data.data().name(), name("/app/x").as_ref());
    assert_eq!(data.content(), "echo");
    assert_eq!(consumer.pending_count(), 0);
    assert_eq!(forwarder.token_mismatches(), 0);
}

#[tokio::test(start_paused = true)]
async fn prefixes_and_digests_match_and_other_names_do_not() {
    let (endpoint, mut other) = raw();
    let signed =
        |uri: &str| sign_data(&DataBuilder::new(name(uri).as_ref()), &DigestSigner).unwrap();
    let wire = signed("/a/b/c");
    let mut full_name = name("/a/b/c");
    full_name
        .push(Component::new(ndn_packet::ComponentType::IMPLICIT_SHA256_DIGEST, &sha256(&wire)));
    let mut wrong_digest = name("/a/b/c");
    wrong_digest.push_implicit_digest(&[7; 32]);
    let ask = |name: Name, can_be_prefix| {
        let endpoint = endpoint.clone();
        let request = InterestRequest::new(name)
            .can_be_prefix(can_be_prefix)
            .lifetime(Duration::from_millis(100));
        tokio::spawn(async move { endpoint.express(&request).await.is_ok() })
    };
    let questions = [
        (name("/a/b/c"), false, true),
        (name("/a/b/c"), true, true),
        (name("/a/b"), true, true),
        (name("/a"), true, true),
        (full_name, false, true),
        (name("/a/b"), false, false),
        (name("/a/b/d"), true, false),
        (name("/a/b/c/d"), true, false),
        (wrong_digest, false, false),
    ];
    let tasks: Vec<_> =
        questions.iter().map(|(name, prefix, _)| ask(name.clone(), *prefix)).collect();
    // All Interests are sent before the Data arrives.
    while endpoint.pending_count() < questions.len() {
        tokio::task::yield_now().await;
    }
    other.write_all(&wire).await.unwrap();
    for (task, (name, _, expected)) in tasks.into_iter().zip(&questions) {
        assert_eq!(task.await.unwrap(), *expected, "{name}");
    }
    assert_eq!(endpoint.pending_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn unanswered_interest_times_out_after_all_attempts_with_new_nonces() {
    let (endpoint, mut other) = raw();
    let request = InterestRequest::new(name("/silent"))
        .lifetime(Duration::from_millis(500))
        .retransmission_interval(Duration::from_millis(100))
        .retransmissions(2);
    let start = tokio::time::Instant::now();
    let error = endpoint.express(&request).await.unwrap_err();
    assert_eq!(start.elapsed().as_millis(), 700);
    assert!(matches!(error, ExpressError::Timeout { attempts: 3, .. }), "{error}");
    let mut sent = vec![0; 4096];
    let length = other.read(&mut sent).await.unwrap();
    let each = length / 3;
    let mut nonces: Vec<_> =
        sent[..length].chunks(each).map(|wire| Interest::parse(wire).unwrap().nonce()).collect();
    nonces.dedup();
    assert_eq!(nonces.len(), 3);
    assert_eq!(endpoint.pending_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn late_answer_to_the_first_transmission_is_accepted() {
    let forwarder =
        FakeForwarder::new(Behaviour { delay: Duration::from_millis(150), ..Behaviour::default() });
    let (producer, consumer) = (forwarder.attach(), forwarder.attach());
    let _served = producer.produce(&name("/slow"), echo("")).await.unwrap();
    let request = InterestRequest::new(name("/slow/x"))
        .retransmission_interval(Duration::from_millis(100))
        .retransmissions(5);
    let start = tokio::time::Instant::now();
    consumer.express(&request).await.unwrap();
    assert_eq!(start.elapsed().as_millis(), 300);
}

#[tokio::test(start_paused = true)]
async fn nack_error_includes_its_reason() {
    let forwarder = FakeForwarder::new(Behaviour::default());
    let consumer = forwarder.attach();
    let error = consumer.express(&InterestRequest::new(name("/nowhere"))).await.unwrap_err();
    assert_eq!(error, ExpressError::Nack { name: "/nowhere".into(), reason: NackReason::NO_ROUTE });
    assert_eq!(consumer.pending_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn no_route_is_accepted_some_seconds_after_reconnection() {
    let forwarder = FakeForwarder::new(Behaviour::default());
    let (producer, consumer) = (forwarder.attach(), forwarder.attach());
    let come_back = |endpoint: &crate::Endpoint| {
        endpoint.handle.shared().lock().reconnected_at = Some(tokio::time::Instant::now());
    };
    come_back(&consumer);
    let asked = {
        let consumer = consumer.clone();
        tokio::spawn(async move { consumer.express(&InterestRequest::new(name("/late/x"))).await })
    };
    tokio::time::sleep(Duration::from_secs(3)).await;
    let _served = producer.produce(&name("/late"), echo("")).await.unwrap();
    asked.await.unwrap().unwrap();

    come_back(&consumer);
    let start = tokio::time::Instant::now();
    let nowhere = InterestRequest::new(name("/nowhere"));
    let refused = ExpressError::Nack { name: "/nowhere".into(), reason: NackReason::NO_ROUTE };
    assert_eq!(consumer.express(&nowhere.clone().believe_nacks()).await.unwrap_err(), refused);
    assert!(start.elapsed() < Duration::from_secs(1));
    assert_eq!(consumer.express(&nowhere).await.unwrap_err(), refused);
    let waited = start.elapsed();
    assert!(waited >= Duration::from_secs(10) && waited < Duration::from_secs(12), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn congestion_and_duplicate_nacks_are_retried() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let forwarder = FakeForwarder::new(Behaviour::default());
    let (producer, consumer) = (forwarder.attach(), forwarder.attach());
    let count = AtomicU32::new(0);
    let answer = echo("");
    // The in-memory forwarder drops Nacks of producers, so this one writes to the consumer
    // directly.
    let _served = producer.produce(&name("/busy"), answer).await.unwrap();
    let (endpoint, mut other) = raw();
    let request = InterestRequest::new(name("/busy/x")).retransmissions(2);
    let asked = tokio::spawn(async move { endpoint.express(&request).await });
    let mut buffer = vec![0; 4096];
    for reason in [NackReason::DUPLICATE, NackReason::CONGESTION] {
        let length = other.read(&mut buffer).await.unwrap();
        let header = ndn_packet::LpHeader { nack: Some(reason), ..ndn_packet::LpHeader::default() };
        let mut nack = Vec::new();
        ndn_packet::lp::append_packet(&mut nack, &header, &buffer[..length]);
        other.write_all(&nack).await.unwrap();
        count.fetch_add(1, Ordering::Relaxed);
    }
    assert!(other.read(&mut buffer).await.unwrap() > 0);
    let data = sign_data(&DataBuilder::new(name("/busy/x").as_ref()), &DigestSigner).unwrap();
    other.write_all(&data).await.unwrap();
    asked.await.unwrap().unwrap();
    assert_eq!(count.into_inner(), 2);
    drop(consumer);
}

#[tokio::test(start_paused = true)]
async fn invalid_signature_is_rejected() {
    let forwarder = FakeForwarder::new(Behaviour::default());
    let (producer, consumer) = (forwarder.attach(), forwarder.attach());
    let _served = producer.produce(&name("/app"), echo("")).await.unwrap();
    let key = HmacKey::new(b"shared", Locator::None);
    let request = InterestRequest::new(name("/app/x")).verifier(Arc::new(key));
    let error = consumer.express(&request).await.unwrap_err();
    assert!(matches!(error, ExpressError::Verification { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn parameters_and_signatures_arrive_intact() {
    let forwarder = FakeForwarder::new(Behaviour::default());
    let (producer, consumer) = (forwarder.attach(), forwarder.attach());
    let key = HmacKey::new(b"shared", Locator::None);
    let verifier = key.clone();
    let serve = move |request: Request| {
        let interest = request.interest();
        let info = ndn_security::verify_interest(&interest, &verifier).unwrap();
        assert!(info.time_ms.is_some() && info.nonce.is_some());
        assert_eq!(interest.parameters(), Some(&b"parameters"[..]));
        let data = DataBuilder::new(interest.name());
        request.answer_with(&data, &verifier).unwrap();
    };
    let _served = producer.produce(&name("/command"), serve).await.unwrap();
    let request = InterestRequest::new(name("/command"))
        .parameters(b"parameters".to_vec())
        .signer(Arc::new(key.clone()))
        .verifier(Arc::new(key));
    let data = consumer.express(&request).await.unwrap();
    assert!(data.data().name().last().unwrap().parameters_digest().is_some());
}

#[tokio::test(start_paused = true)]
async fn dropping_the_future_cancels() {
    let (endpoint, _other) = raw();
    let request = InterestRequest::new(name("/forgotten")).can_be_prefix(true);
    {
        let asked = endpoint.express(&request);
        tokio::pin!(asked);
        let waited = tokio::time::timeout(Duration::from_millis(10), &mut asked).await;
        assert!(waited.is_err());
        assert_eq!(endpoint.pending_count(), 1);
    }
    assert_eq!(endpoint.pending_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn end_of_connection_is_reported_immediately() {
    let (endpoint, other) = raw();
    let mut state = endpoint.state();
    assert_eq!(*state.borrow_and_update(), ConnectionState::Connected);
    let request = InterestRequest::new(name("/cut"));
    let asked = {
        let endpoint = endpoint.clone();
        let request = request.clone();
        tokio::spawn(async move { endpoint.express(&request).await })
    };
    tokio::time::sleep(Duration::from_millis(1)).await;
    drop(other);
    assert_eq!(asked.await.unwrap().unwrap_err(), ExpressError::Closed);
    state.changed().await.unwrap();
    assert_eq!(*state.borrow(), ConnectionState::Closed);
    assert_eq!(endpoint.express(&request).await.unwrap_err(), ExpressError::Closed);
}

#[tokio::test(start_paused = true)]
async fn tens_of_thousands_of_interests_can_be_pending() {
    const COUNT: u64 = 30_000;
    let forwarder = FakeForwarder::new(Behaviour { tokens: true, ..Behaviour::default() });
    let producer = forwarder.attach();
    let consumer = forwarder.attach();
    let requests: Arc<std::sync::Mutex<Vec<Request>>> = Arc::default();
    let keep = Arc::clone(&requests);
    let serve = move |request: Request| keep.lock().unwrap().push(request);
    let _served = producer.attach(&name("/many"), serve).unwrap();
    let _registered = producer.produce(&name("/many/x"), |_| {}).await.unwrap();
    forwarder.set(|behaviour| behaviour.tokens = false);
    let (endpoint, mut other) = raw();
    let tasks: Vec<_> = (0..COUNT)
        .map(|number| {
            let endpoint = endpoint.clone();
            let mut name = name("/many");
            name.push_segment(number);
            tokio::spawn(async move { endpoint.express(&InterestRequest::new(name)).await })
        })
        .collect();
    let reader = tokio::spawn(async move {
        let mut framer = crate::framer::Framer::default();
        let mut names = Vec::new();
        while names.len() < usize::try_from(COUNT).unwrap() {
            let count = other.read(framer.space()).await.unwrap();
            framer.read(count);
            while let Some(frame) = framer.next_frame().unwrap() {
                names.push(Interest::parse(&frame).unwrap().name().to_name());
            }
        }
        // The last first.
        for name in names.iter().rev() {
            let data = sign_data(&DataBuilder::new(name.as_ref()), &DigestSigner).unwrap();
            other.write_all(&data).await.unwrap();
        }
        other
    });
    for (number, task) in tasks.into_iter().enumerate() {
        let data = task.await.unwrap().unwrap();
        let last = data.data().name().last().unwrap().as_segment();
        assert_eq!(last, u64::try_from(number).ok());
    }
    drop(reader.await.unwrap());
    drop(consumer);
}
