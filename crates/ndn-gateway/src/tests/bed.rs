//! A file server, a gateway to it, and an HTTP client.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ndn_client::fetch::FetchOptions;
use ndn_client::{Endpoint, EndpointOptions, Request};
use ndn_files::{Event, FileServer, Mount, RootOptions, ServerOptions};
use ndn_management::{ControlParameters, ControlResponse};
use ndn_packet::{DataBuilder, Name};
use ndn_security::DigestSigner;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;

use crate::{AccessLog, Gateway, GatewayOptions, Limits, Tokens};

/// Time limit of each wait in tests.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(super) fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap()
}

/// `length` bytes, different for different seeds.
pub(super) fn bytes(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|i| u8::try_from((i * 7 + i / 251 + seed * 31) % 256).unwrap()).collect()
}

/// Two endpoints at the ends of one stream; the second accepts all registrations of the first.
pub(super) fn pair() -> (Endpoint, Endpoint) {
    let (one, other) = tokio::io::duplex(1 << 20);
    let endpoint = |stream| {
        let (reader, writer) = tokio::io::split(stream);
        Endpoint::from_stream(reader, writer, &EndpointOptions::default())
    };
    let (producer, consumer) = (endpoint(one), endpoint(other));
    let grant = |request: Request| {
        let name = request.name();
        let parameters = name.component(4).unwrap();
        let parameters = ControlParameters::decode(parameters.value()).unwrap();
        let content = ControlResponse::new(200, "OK").with_body(&parameters).to_vec();
        let data = DataBuilder::new(name).content(&content);
        request.answer_with(&data, &DigestSigner).unwrap();
    };
    // It lives as long as the connection.
    std::mem::forget(consumer.attach(&name("/localhost/nfd"), grant).unwrap());
    (producer, consumer)
}

/// A log that tests can read.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub(super) struct Bed {
    pub(super) directory: TempDir,
    pub(super) gateway: Arc<Gateway>,
    pub(super) address: SocketAddr,
    server: Option<FileServer>,
    lines: Lines,
    serving: JoinHandle<()>,
    _producer: Endpoint,
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

pub(super) fn options() -> GatewayOptions {
    let fetching = FetchOptions { lifetime: Duration::from_secs(20), ..FetchOptions::default() };
    GatewayOptions {
        prefix: name("/x"),
        fetching,
        metadata_lifetime: Duration::ZERO,
        allow_older: false,
        limits: Limits::default(),
        hosts: vec!["gateway".to_owned(), "x".to_owned()],
        bucket: None,
        tokens: Tokens::default(),
        tls: None,
        log: AccessLog::none(),
    }
}

impl Bed {
    pub(super) async fn new() -> Self {
        Self::with(options(), ServerOptions::default()).await
    }

    pub(super) async fn with(options: GatewayOptions, serving: ServerOptions) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (producer, consumer) = pair();
        let mut mount = Mount::open(name("/x"), directory.path(), RootOptions::default()).unwrap();
        mount.segment_len = Some(1000);
        let server = FileServer::start(&producer, vec![mount], &serving).await.unwrap();
        let lines = Lines::default();
        let log = AccessLog::to(lines.clone()).unwrap();
        let gateway = Gateway::new(consumer, GatewayOptions { log, ..options });
        let gateway = Arc::new(gateway);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn({
            let gateway = Arc::clone(&gateway);
            async move { gateway.serve(listener).await }
        });
        let server = Some(server);
        Self { directory, gateway, address, server, lines, serving, _producer: producer }
    }

    /// The server stops answering.
    pub(super) async fn stop_server(&mut self) {
        self.server.take().unwrap().stop().await.unwrap();
    }

    pub(super) fn write(&self, path: &str, content: &[u8]) {
        let path = self.directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(super) async fn connect(&self) -> Client {
        Client { stream: TcpStream::connect(self.address).await.unwrap(), received: Vec::new() }
    }

    /// A client with a small receive buffer.
    pub(super) async fn connect_with_small_buffer(&self) -> Client {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(8192).unwrap();
        Client { stream: socket.connect(self.address).await.unwrap(), received: Vec::new() }
    }

    /// A client with a small receive buffer, from this address.
    pub(super) async fn connect_from(&self, address: [u8; 4]) -> Client {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(8192).unwrap();
        socket.bind((address, 0).into()).unwrap();
        Client { stream: socket.connect(self.address).await.unwrap(), received: Vec::new() }
    }

    pub(super) fn segments_served(&self) -> u64 {
        self.server.as_ref().unwrap().counters().count(Event::Segment)
    }

    /// One GET on a separate connection.
    pub(super) async fn get(&self, path: &str, fields: &[(&str, &str)]) -> HttpResponse {
        self.request("GET", path, fields).await
    }

    pub(super) async fn request(
        &self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
    ) -> HttpResponse {
        self.connect().await.request(method, path, fields).await
    }

    /// Waits until the log has `count` lines, and reads them.
    pub(super) async fn log(&self, count: usize) -> Vec<serde_json::Value> {
        let wait = async {
            loop {
                let lines = self.lines.0.lock().unwrap().clone();
                let lines: Vec<_> = lines.split_inclusive(|byte| *byte == b'\n').collect();
                if lines.len() >= count {
                    return lines
                        .iter()
                        .map(|line| serde_json::from_slice(line).unwrap())
                        .collect();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, wait).await.expect("lines in the log")
    }
}

/// A connection of an HTTP client.
pub(super) struct Client {
    pub(super) stream: TcpStream,
    received: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct HttpResponse {
    pub(super) status: u16,
    head: String,
    pub(super) body: Vec<u8>,
}

impl HttpResponse {
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (its_name, value) = line.split_once(':')?;
            its_name.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Client {
    pub(super) async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Sends to a gateway that may have closed the connection.
    pub(super) async fn try_send(&mut self, text: &str) {
        let _ = self.stream.write_all(text.as_bytes()).await;
    }

    pub(super) async fn request(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
    ) -> HttpResponse {
        let mut text = format!("{method} {path} HTTP/1.1\r\nHost: gateway\r\n");
        for (name, value) in fields {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        self.send(&format!("{text}\r\n")).await;
        self.answer(method == "HEAD").await
    }

    /// Reads an answer whose body has a Content-Length or is chunked.
    pub(super) async fn answer(&mut self, is_head: bool) -> HttpResponse {
        let end = self.receive_until(b"\r\n\r\n").await.expect("the head of an answer");
        let head = String::from_utf8(self.received.drain(..end).collect()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = HttpResponse { status, head, body: Vec::new() };
        if is_head || status == 304 {
            return answer;
        }
        if answer.field("transfer-encoding") == Some("chunked") {
            loop {
                let end = self.receive_until(b"\r\n").await.expect("the length of a chunk");
                let length: Vec<u8> = self.received.drain(..end).collect();
                let length = std::str::from_utf8(&length).unwrap().trim();
                let length = usize::from_str_radix(length, 16).unwrap();
                let chunk = self.take(length + 2).await.expect("a chunk");
                answer.body.extend_from_slice(&chunk[..length]);
                if length == 0 {
                    return answer;
                }
            }
        }
        let length = answer.field("content-length").unwrap().parse().unwrap();
        answer.body = self.take(length).await.expect("the announced length");
        answer
    }

    /// Whether the gateway closes the connection.
    pub(super) async fn is_ended(&mut self) -> bool {
        !self.receive().await
    }

    async fn receive_until(&mut self, mark: &[u8]) -> Option<usize> {
        loop {
            let found = self.received.windows(mark.len()).position(|window| window == mark);
            if let Some(at) = found {
                return Some(at + mark.len());
            }
            if !self.receive().await {
                return None;
            }
        }
    }

    /// The next bytes; `None` if the connection ends before.
    pub(super) async fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        while self.received.len() < length {
            if !self.receive().await {
                return None;
            }
        }
        Some(self.received.drain(..length).collect())
    }

    async fn receive(&mut self) -> bool {
        let mut buffer = [0; 4096];
        let read = tokio::time::timeout(TIMEOUT, self.stream.read(&mut buffer)).await;
        let length = read.expect("no silence").unwrap_or(0);
        self.received.extend_from_slice(&buffer[..length]);
        length > 0
    }
}

/// One GET of a gateway at `address`.
pub(super) async fn get(address: SocketAddr, path: &str, fields: &[(&str, &str)]) -> HttpResponse {
    let stream = TcpStream::connect(address).await.unwrap();
    Client { stream, received: Vec::new() }.request("GET", path, fields).await
}
