//! Registration, serving, reconnection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ndn_packet::{DataBuilder, Name};
use ndn_security::DigestSigner;

use crate::testing::{Behaviour, FakeForwarder};
use crate::{
    AsyncHandler, CommandError, ConnectionState, Endpoint, EndpointOptions, ForwarderAddress,
    InterestRequest, PingOutcome, PingServer, Pinger, RegisterError, Request,
};

fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap()
}

fn answer(content: &'static str) -> impl Fn(Request) + Send + Sync + 'static {
    move |request| {
        let data = DataBuilder::new(request.name()).content(content.as_bytes());
        request.answer_with(&data, &DigestSigner).unwrap();
    }
}

async fn ask(endpoint: &Endpoint, uri: &str) -> Option<String> {
    let request = InterestRequest::new(name(uri)).lifetime(Duration::from_millis(100));
    let data = endpoint.express(&request).await.ok()?;
    Some(String::from_utf8(data.content().to_vec()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn longest_prefix_answers_until_unregistered() {
    let forwarder = FakeForwarder::new(Behaviour { tokens: true, ..Behaviour::default() });
    let (producer, consumer) = (forwarder.attach(), forwarder.attach());
    let _short = producer.produce(&name("/a"), answer("short")).await.unwrap();
    let long = producer.produce(&name("/a/b"), answer("long")).await.unwrap();
    assert_eq!(ask(&consumer, "/a/x").await.as_deref(), Some("short"));
    assert_eq!(ask(&consumer, "/a/b").await.as_deref(), Some("long"));
    assert_eq!(ask(&consumer, "/a/b/c").await.as_deref(), Some("long"));
    let again = producer.produce(&name("/a/b"), answer("twice")).await;
    assert_eq!(again.unwrap_err(), RegisterError::InUse("/a/b".into()));
    long.unregister().await.unwrap();
    assert_eq!(forwarder.routes(), ["/a"]);
    assert_eq!(ask(&consumer, "/a/b/c").await.as_deref(), Some("short"));
    assert_eq!(forwarder.token_mismatches(), 0);
}

#[tokio::test(start_paused = true)]
async fn dropped_registration_is_unregistered() {
    let forwarder = FakeForwarder::new(Behaviour::default());
    let producer = forwarder.attach();
    let served = producer.produce(&name("/gone"), answer("x")).await.unwrap();
    drop(served);
    drop(producer);
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(forwarder.routes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn removal_of_a_route_is_waited_for_a_second() {
    let delay = Duration::from_millis(1500);
    let forwarder = FakeForwarder::new(Behaviour { delay, ..Behaviour::default() });
    let producer = forwarder.attach();
    let served = producer.produce(&name("/slow"), answer("x")).await.unwrap();
    let before = tokio::time::Instant::now();
    let error = served.unregister().await.unwrap_err();
    assert!(matches!(error, CommandError::NoAnswer(_)), "{error}");
    assert_eq!(before.elapsed().as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn command_error_contains_code_and_text() {
    let forwarder =
        FakeForwarder::new(Behaviour { command_status: Some(403), ..Behaviour::default() });
    let producer = forwarder.attach();
    let error = producer.produce(&name("/denied"), answer("x")).await.unwrap_err();
    let RegisterError::Command { prefix, error } = &error else { panic!("{error}") };
    assert_eq!(prefix, "/denied");
    let expected =
        CommandError::Refused { command: "rib/register".into(), code: 403, text: "no".into() };
    assert_eq!(*error, expected);
    forwarder.set(|behaviour| behaviour.command_status = None);
    // The prefix is free again.
    producer.produce(&name("/denied"), answer("x")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn asynchronous_handlers_run_concurrently() {
    let forwarder = FakeForwarder::new(Behaviour { tokens: true, ..Behaviour::default() });
    let (producer, consumer) = (forwarder.attach(), forwarder.attach());
    let handler = AsyncHandler::new(|request: Request| async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let data = DataBuilder::new(request.name()).content(b"late");
        request.answer_with(&data, &DigestSigner).unwrap();
    });
    let _served = producer.produce(&name("/async"), handler).await.unwrap();
    let start = tokio::time::Instant::now();
    let (first, second) = tokio::join!(ask(&consumer, "/async/1"), ask(&consumer, "/async/2"));
    assert_eq!((first.as_deref(), second.as_deref()), (Some("late"), Some("late")));
    assert_eq!(start.elapsed().as_millis(), 50);
    assert_eq!(forwarder.token_mismatches(), 0);
}

#[tokio::test(start_paused = true)]
async fn pings_are_answered_and_counted() {
    let forwarder = FakeForwarder::new(Behaviour::default());
    let (producer, consumer) = (forwarder.attach(), forwarder.attach());
    let pinger = Pinger::new(&consumer, &name("/host"), None, Duration::from_millis(100));
    assert!(matches!(pinger.ping(1).await.unwrap(), PingOutcome::Nack(..)));
    let server = PingServer::start(
        &producer,
        &name("/host"),
        Duration::from_secs(1),
        None,
        Arc::new(DigestSigner),
    )
    .await
    .unwrap();
    forwarder.set(|behaviour| behaviour.delay = Duration::from_millis(10));
    let outcome = pinger.ping(2).await.unwrap();
    assert_eq!(outcome, PingOutcome::Answer(Duration::from_millis(20)));
    assert!(forwarder.interests().contains(&"/host/ping/2".to_owned()));
    forwarder.set(|behaviour| behaviour.loss = 1.0);
    assert_eq!(pinger.ping(3).await.unwrap(), PingOutcome::Timeout);
    assert_eq!(server.answered(), 2);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn lost_connection_is_restored_with_its_prefixes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("forwarder.sock");
    let forwarder = FakeForwarder::new(Behaviour::default());
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let accepting = forwarder.clone();
    let accepted = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&accepted);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counter.fetch_add(1, Ordering::Relaxed);
            accepting.serve(stream);
        }
    });
    let options = EndpointOptions {
        address: Some(ForwarderAddress::Unix(path.clone())),
        ..EndpointOptions::default()
    };
    let producer = Endpoint::connect(options.clone()).await.unwrap();
    let _served = producer.produce(&name("/stays"), answer("here")).await.unwrap();
    let mut state = producer.state();
    state.mark_unchanged();
    forwarder.cut();
    state.wait_for(|state| *state == ConnectionState::Reconnecting).await.unwrap();
    state.wait_for(|state| *state == ConnectionState::Connected).await.unwrap();
    let consumer = Endpoint::connect(options).await.unwrap();
    let request = InterestRequest::new(name("/stays/x"))
        .lifetime(Duration::from_millis(200))
        .retransmissions(20);
    let data = loop {
        match consumer.express(&request).await {
            Ok(data) => break data,
            // Until the registration has completed.
            Err(crate::ExpressError::Nack { .. }) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(data.content(), "here");
    assert_eq!(accepted.load(Ordering::Relaxed), 3);
}

/// A forwarder at its face limit closes connections at once. It must not be tried twenty times a
/// second.
#[tokio::test]
async fn reconnection_backs_off_when_closed_immediately() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("full.sock");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let options = EndpointOptions {
        address: Some(ForwarderAddress::Unix(path)),
        ..EndpointOptions::default()
    };
    let begun = tokio::time::Instant::now();
    let endpoint = Endpoint::connect(options).await.unwrap();
    let mut turned_away = endpoint.turned_away();
    turned_away.wait_for(|times| *times >= 6).await.unwrap();
    // At least half of 50, 100, 200, 400 and 800 ms.
    assert!(begun.elapsed() >= Duration::from_millis(770), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn missing_forwarder_error_gives_advice() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nobody.sock");
    let options = EndpointOptions {
        address: Some(ForwarderAddress::Unix(path.clone())),
        ..EndpointOptions::default()
    };
    let error = Endpoint::connect(options).await.unwrap_err().to_string();
    assert!(error.contains(path.to_str().unwrap()), "{error}");
    assert!(error.contains("Is the forwarder running"), "{error}");
}
