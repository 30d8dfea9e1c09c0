//! Slow, numerous and vanished clients.

use std::time::Duration;

use ndn_files::ServerOptions;

use super::bed::{Bed, bytes, options};
use crate::Limits;

#[tokio::test]
async fn disconnected_client_ends_the_fetch() {
    let mut options = options();
    options.limits = Limits { transfers: 1, read_ahead_segments: 16, ..Limits::default() };
    let bed = Bed::with(options, ServerOptions::default()).await;
    bed.write("large", &bytes(1, 8_000_000));
    bed.write("small", b"1");
    let mut gone = bed.connect().await;
    gone.send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(gone.take(1000).await.is_some());
    drop(gone);
    // There is room for one transfer, which the first client had.
    assert_eq!(bed.get("/small", &[]).await.text(), "1");
    let log = bed.log(2).await;
    assert_eq!((&log[0]["path"], &log[0]["complete"]), (&"/large".into(), &false.into()));
    assert!(log[0]["bytes"].as_u64().unwrap() < 8_000_000);
    assert_eq!((&log[1]["path"], &log[1]["complete"]), (&"/small".into(), &true.into()));
    assert_eq!(bed.gateway.counters().aborted(), 1);
}

/// The data fetched for a client that receives nothing is bounded.
#[tokio::test]
async fn slow_client_gets_everything_with_bounded_buffering() {
    let mut options = options();
    options.limits = Limits { read_ahead_segments: 16, ..Limits::default() };
    let bed = Bed::with(options, ServerOptions::default()).await;
    let content = bytes(2, 9_000_000);
    bed.write("large", &content);
    let mut slow = bed.connect_with_small_buffer().await;
    slow.send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let mut received = slow.take(1000).await.unwrap();
    // Other clients are served meanwhile.
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let address = bed.address;
        clients.spawn(async move {
            super::bed::get(address, "/large", &[("Range", "bytes=5000000-5009999")]).await
        });
    }
    while let Some(answer) = clients.join_next().await {
        assert!(answer.unwrap().body == content[5_000_000..=5_009_999]);
    }
    // The kernel buffers at most 4 MiB for a slow client.
    assert!(bed.segments_served() < 6000, "{} of 9000", bed.segments_served());
    let head = received.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    received.extend(slow.take(head + content.len() - 1000).await.unwrap());
    assert!(received[head..] == content);
}

#[tokio::test]
async fn connection_serves_many_requests() {
    let bed = Bed::new().await;
    bed.write("a", &bytes(3, 2500));
    let mut client = bed.connect().await;
    for _ in 0..50 {
        assert_eq!(client.request("GET", "/a", &[]).await.body, bytes(3, 2500));
    }
    assert_eq!(bed.gateway.counters().connections(), 1);
    let log = bed.log(50).await;
    assert!(log.iter().all(|line| line["status"] == 200 && line["bytes"] == 2500));
}

#[tokio::test]
async fn missing_request_head_ends_the_connection() {
    let mut options = options();
    options.limits = Limits { head_time: Duration::from_millis(100), ..Limits::default() };
    let bed = Bed::with(options, ServerOptions::default()).await;
    let mut slow = bed.connect().await;
    slow.send("GET /a HTTP/1.1\r\nHo").await;
    let ended = async { while !slow.is_ended().await {} };
    tokio::time::timeout(Duration::from_secs(60), ended).await.expect("the connection to end");
}

/// Connections beyond the share of an address are closed; when one ends, another is accepted.
#[tokio::test]
async fn connections_of_an_address_are_limited_to_its_share() {
    let mut options = options();
    options.limits = Limits { connections: 2, ..Limits::default() };
    let bed = Bed::with(options, ServerOptions::default()).await;
    bed.write("a", b"1");
    let mut held = [bed.connect().await, bed.connect().await];
    for client in &mut held {
        assert_eq!(client.request("GET", "/a", &[]).await.text(), "1");
    }
    assert!(bed.connect().await.is_ended().await);
    let [one, _other] = held;
    drop(one);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        assert!(tokio::time::Instant::now() < deadline, "no room again");
        let mut client = bed.connect().await;
        client.try_send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n").await;
        if !client.is_ended().await {
            break;
        }
    }
}

/// A stalled reader that holds all its transfers is disconnected, and its transfers become
/// available.
#[tokio::test]
async fn stalled_reader_releases_its_transfers() {
    let mut options = options();
    options.limits = Limits {
        transfers: 1,
        read_ahead_segments: 16,
        stall_time: Duration::from_secs(1),
        rate_min: 1 << 30,
        ..Limits::default()
    };
    let bed = Bed::with(options, ServerOptions::default()).await;
    bed.write("large", &bytes(1, 20_000_000));
    bed.write("small", b"1");
    let mut slow = bed.connect_with_small_buffer().await;
    slow.send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(slow.take(1000).await.is_some());
    // It waits for the only transfer of this address.
    assert_eq!(bed.get("/small", &[]).await.text(), "1");
    assert_eq!(bed.log(2).await[0]["complete"], false);
    assert_eq!(bed.gateway.counters().aborted(), 1);
}

/// Readers that take just enough to stay connected hold transfers for as long as they like.
#[tokio::test]
async fn slow_readers_of_some_addresses_leave_transfers_to_others() {
    let mut options = options();
    options.limits =
        Limits { transfers: 4, read_ahead_segments: 16, rate_min: 0, ..Limits::default() };
    let bed = Bed::with(options, ServerOptions::default()).await;
    bed.write("large", &bytes(1, 20_000_000));
    bed.write("small", b"1");
    let mut slow = Vec::new();
    for last in [2, 2, 3, 3] {
        let mut client = bed.connect_from([127, 0, 0, last]).await;
        client.send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(client.take(1000).await.is_some());
        slow.push(client);
    }
    for _ in 0..20 {
        assert_eq!(bed.get("/small", &[]).await.text(), "1");
    }
    // The others keep one each, at least.
    let aborted = bed.gateway.counters().aborted();
    assert!((1..=2).contains(&aborted), "{aborted}");
}

/// Connections without requests last until the head of a request is due.
#[tokio::test]
async fn idle_connections_of_some_addresses_leave_connections_to_others() {
    let mut options = options();
    options.limits = Limits { connections: 8, ..Limits::default() };
    let bed = Bed::with(options, ServerOptions::default()).await;
    bed.write("small", b"1");
    let mut idle = Vec::new();
    for last in [2, 3, 4, 5] {
        for _ in 0..2 {
            idle.push(bed.connect_from([127, 0, 0, last]).await);
        }
    }
    for _ in 0..20 {
        assert_eq!(bed.get("/small", &[]).await.text(), "1");
    }
}

#[tokio::test]
async fn clients_cannot_inject_log_lines() {
    let bed = Bed::new().await;
    let agent = "\"}\\n{\"status\": 200";
    bed.get("/%0A%22%7D", &[("User-Agent", agent)]).await;
    let log = bed.log(1).await;
    assert_eq!((&log[0]["path"], &log[0]["user_agent"]), (&"/%0A%22%7D".into(), &agent.into()));
}
