//! Clients of the HTTP API: pages that follow counters, and a scraper.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::json;

use crate::relay::clock;

/// Subscriptions of a connection: there are at most 64 connections with a token.
const SUBSCRIPTIONS: usize = 2;
/// Interval between two reads of all connections.
const READ_INTERVAL: Duration = Duration::from_millis(20);
const SCRAPE_INTERVAL_NS: u64 = 1_000_000_000;
const TIMEOUT: Duration = Duration::from_secs(10);

/// The subscription of the overview page.
const QUERY: &str = "subscription { counters(intervalMs: 1000) { unixMs lost workers { inInterests inData outInterests \
    outData csHits csMisses dropped pitEntries csEntries waitedNs receivedBytes sentBytes } } }";

/// Running clients.
pub(super) struct Clients {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Clients {
    /// Connects this number of subscribers.
    pub(super) fn start(
        port: u16,
        token: &str,
        subscribers: usize,
        scrapes: bool,
    ) -> anyhow::Result<Self> {
        let mut connections = Vec::new();
        let mut left = subscribers;
        while left > 0 {
            let subscriptions = left.min(SUBSCRIPTIONS);
            connections.push(connect(port, token, subscriptions).context("a subscriber")?);
            left -= subscriptions;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("clients".to_owned());
        let thread = thread.spawn(move || read_all(connections, port, scrapes, &stopped))?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Disconnects them; returns the bytes that they received.
    pub(super) fn end(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or(0)
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn connect(port: u16, token: &str, subscriptions: usize) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(
        stream,
        "GET /graphql HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: bmFtZXdpcmUtYmVuY2gtLQ==\r\n\
         Sec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n"
    )?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    ensure!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    send(&mut stream, &json!({ "type": "connection_init", "payload": { "token": token } }))?;
    let answer = receive(&mut stream)?;
    ensure!(answer.contains("connection_ack"), "{answer}");
    for number in 0..subscriptions {
        let payload = json!({ "query": QUERY });
        let id = number.to_string();
        send(&mut stream, &json!({ "type": "subscribe", "id": id, "payload": payload }))?;
    }
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Receives a short message.
fn receive(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = [0; 2];
    stream.read_exact(&mut head)?;
    let mut content = vec![0; usize::from(head[1] & 0x7f)];
    stream.read_exact(&mut content)?;
    Ok(String::from_utf8_lossy(&content).into_owned())
}

/// Sends a text message (RFC 6455, section 5.2) with the mask 0, which leaves it as it is.
fn send(stream: &mut TcpStream, message: &serde_json::Value) -> io::Result<()> {
    let text = message.to_string();
    let length = u16::try_from(text.len()).map_err(io::Error::other)?;
    let mut frame = vec![0x81, 0x80 | 126];
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(text.as_bytes());
    stream.write_all(&frame)
}

fn read_all(mut connections: Vec<TcpStream>, port: u16, scrapes: bool, stop: &AtomicBool) -> u64 {
    let (mut buffer, mut received, mut next_scrape) = ([0; 16 << 10], 0, clock::monotonic_ns());
    while !stop.load(Ordering::Relaxed) {
        for stream in &mut connections {
            loop {
                match stream.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(count) => received += u64::try_from(count).unwrap_or(0),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    // Nothing more now, or the connection ended.
                    Err(_) => break,
                }
            }
        }
        let now = clock::monotonic_ns();
        if scrapes && now >= next_scrape {
            next_scrape = now + SCRAPE_INTERVAL_NS;
            received += scrape(port).unwrap_or(0);
        }
        clock::pause(READ_INTERVAL);
    }
    received
}

/// Reads the metrics once; returns their length.
fn scrape(port: u16) -> io::Result<u64> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(stream, "GET /metrics HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n")?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response)?;
    Ok(u64::try_from(response.len()).unwrap_or(0))
}
