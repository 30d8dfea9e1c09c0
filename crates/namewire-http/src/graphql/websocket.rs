//! Subscriptions by the WebSocket protocol `graphql-transport-ws`.

use std::any::TypeId;
use std::fmt::Display;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_graphql::http::{WebSocket, WebSocketProtocols, WsMessage};
use async_graphql::{Data, Error, Executor, Pos, Request, Response as GraphResponse};
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_util::stream::{BoxStream, once, unfold};
use futures_util::{SinkExt, StreamExt};
use hyper::header::{
    CONNECTION, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::http::request::Parts;
use hyper::upgrade::OnUpgrade;
use hyper::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message, Role, WebSocketConfig};

use super::access::{busy, coded};
use super::waiting::WaitingPlace;
use crate::shared::{Body, Shared, text};
use crate::tokens::Principal;

/// Maximum number of WebSocket connections with a valid token.
pub(crate) const SOCKETS_MAX: usize = 64;
/// Maximum number of subscriptions of a connection.
const SUBSCRIPTIONS_MAX: usize = 16;
/// Maximum length of a message, bytes.
const MESSAGE_LEN_MAX: usize = 64 << 10;
/// Messages that wait to be executed.
const MESSAGES_MAX: usize = 16;
/// Maximum time in which a client has to take a message.
const WRITE_TIME: Duration = Duration::from_secs(10);
/// Maximum time from the handshake to a valid `connection_init`.
const INIT_TIME: Duration = Duration::from_secs(5);
/// Interval of pings. A client that has sent nothing for one interval after a ping is disconnected, and so is one whose
/// token is not valid any more.
const PING_INTERVAL: Duration = Duration::from_secs(15);
const PROTOCOL: &str = "graphql-transport-ws";
/// Appended to the key of a client (RFC 6455, section 1.3).
const ACCEPT_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Whether the head asks for a WebSocket.
pub(crate) fn is_requested(fields: &HeaderMap) -> bool {
    has(fields, &UPGRADE, "websocket")
}

/// Whether a field has a value in its list, in any case.
fn has(fields: &HeaderMap, name: &HeaderName, value: &str) -> bool {
    let values = fields.get_all(name).iter().filter_map(|field| field.to_str().ok());
    values.flat_map(|field| field.split(',')).any(|one| one.trim().eq_ignore_ascii_case(value))
}

/// Answers a handshake, and serves the connection in a task.
pub(crate) fn upgrade(shared: &Arc<Shared>, peer: IpAddr, head: &mut Parts) -> Response<Body> {
    let fields = &head.headers;
    let key = fields.get(SEC_WEBSOCKET_KEY).filter(|_| {
        has(fields, &CONNECTION, "upgrade")
            && has(fields, &SEC_WEBSOCKET_VERSION, "13")
            && has(fields, &SEC_WEBSOCKET_PROTOCOL, PROTOCOL)
    });
    let accept = key.map(|key| {
        let hashed = [key.as_bytes(), ACCEPT_SUFFIX.as_bytes()].concat();
        BASE64.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &hashed))
    });
    let accept = accept.and_then(|accept| HeaderValue::try_from(accept).ok());
    let (Some(accept), Some(upgrade)) = (accept, head.extensions.remove::<OnUpgrade>()) else {
        let reason = format!("the handshake must be for version 13 and the protocol {PROTOCOL}\n");
        return text(StatusCode::BAD_REQUEST, reason);
    };
    tokio::spawn(serve(upgrade, Arc::clone(shared), shared.waiting.enter(peer)));
    let mut response = text(StatusCode::SWITCHING_PROTOCOLS, "");
    let fields = response.headers_mut();
    fields.insert(UPGRADE, HeaderValue::from_static("websocket"));
    fields.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    fields.insert(SEC_WEBSOCKET_ACCEPT, accept);
    fields.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
    response
}

/// The resources of the server that a connection holds.
enum Session {
    /// It has not shown a valid token yet.
    Waiting { _place: WaitingPlace },
    /// It has shown this one.
    Open { secret: String, _permit: OwnedSemaphorePermit },
}

impl Session {
    fn secret(&self) -> Option<&str> {
        match self {
            Self::Waiting { .. } => None,
            Self::Open { secret, .. } => Some(secret),
        }
    }
}

fn lock(session: &Mutex<Session>) -> MutexGuard<'_, Session> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(upgrade: OnUpgrade, shared: Arc<Shared>, place: WaitingPlace) {
    let displaced = place.displaced();
    let upgraded = tokio::select! {
        upgraded = upgrade => upgraded,
        () = displaced.notified() => return,
    };
    let Ok(upgraded) = upgraded else { return };
    serve_stream(TokioIo::new(upgraded), shared, place).await;
}

async fn serve_stream(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    shared: Arc<Shared>,
    place: WaitingPlace,
) {
    let displaced = place.displaced();
    let config = WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_LEN_MAX))
        .max_frame_size(Some(MESSAGE_LEN_MAX));
    let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
    let (mut sink, mut source) = socket.split();
    let (messages, received) = mpsc::channel::<Vec<u8>>(MESSAGES_MAX);
    let received = unfold(received, |mut received| async move {
        received.recv().await.map(|message| (message, received))
    });
    let session = Arc::new(Mutex::new(Session::Waiting { _place: place }));
    let executor = Limited { shared: Arc::clone(&shared), active: Arc::default() };
    let (initial, kept) = (Arc::clone(&shared), Arc::clone(&session));
    let answers = WebSocket::new(executor, received, WebSocketProtocols::GraphQLWS)
        .on_connection_init(move |payload| async move { initialize(&initial, &kept, &payload) });
    let mut answers = std::pin::pin!(answers);
    let mut pings = tokio::time::interval(PING_INTERVAL);
    pings.tick().await;
    let init_time = tokio::time::sleep(INIT_TIME);
    let mut init_time = std::pin::pin!(init_time);
    let mut is_waiting = true;
    let mut is_alive = true;
    loop {
        let answer = tokio::select! {
            message = source.next() => match message {
                Some(Ok(Message::Text(message))) => {
                    is_alive = true;
                    match messages.try_send(message.as_bytes().to_vec()) {
                        Ok(()) => continue,
                        Err(_) => close(4429, "too many messages wait"),
                    }
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {
                    is_alive = true;
                    continue;
                }
                Some(Ok(Message::Binary(_) | Message::Frame(_))) => close(1003, "messages are text"),
                Some(Ok(Message::Close(_)) | Err(_)) | None => break,
            },
            answer = answers.next() => match answer {
                Some(WsMessage::Text(answer)) => Message::text(answer),
                Some(WsMessage::Close(code, reason)) => close(code, &reason),
                None => break,
            },
            () = displaced.notified() => match *lock(&session) {
                Session::Waiting { .. } => close(4408, "others wait for the place of this connection"),
                // It has shown its token meanwhile.
                Session::Open { .. } => continue,
            },
            () = init_time.as_mut(), if is_waiting => {
                is_waiting = matches!(*lock(&session), Session::Waiting { .. });
                match is_waiting {
                    true => close(4408, "connection_init was not received in time"),
                    false => continue,
                }
            }
            _ = pings.tick() => {
                let secret = lock(&session).secret().map(str::to_owned);
                let is_valid = secret.is_some_and(|secret| principal(&shared, &secret).is_some());
                if !is_valid {
                    close(4401, "no valid token")
                } else if std::mem::take(&mut is_alive) {
                    Message::Ping(Vec::new().into())
                } else {
                    close(4408, "the client does not answer")
                }
            }
        };
        let is_end = answer.is_close();
        let sent = tokio::time::timeout(WRITE_TIME, sink.send(answer)).await;
        if is_end || !matches!(sent, Ok(Ok(()))) {
            break;
        }
    }
}

fn close(code: u16, reason: &str) -> Message {
    // A frame has room for 123 bytes of it.
    let reason: String = reason.chars().take(100).filter(char::is_ascii).collect();
    Message::Close(Some(CloseFrame { code: CloseCode::from(code), reason: reason.into() }))
}

fn principal(shared: &Shared, secret: &str) -> Option<Principal> {
    shared.tokens.principal(secret, shared.calls.unix_s())
}

/// Handles `connection_init`, whose payload is `{"token": "…"}`.
fn initialize(
    shared: &Shared,
    session: &Mutex<Session>,
    payload: &serde_json::Value,
) -> Result<Data, Error> {
    let secret = payload["token"].as_str().unwrap_or_default();
    let Some(principal) = principal(shared, secret) else {
        shared.counters.refused_token.increment();
        return Err(Error::new("the token is missing, wrong or has expired"));
    };
    let permit = Arc::clone(&shared.sockets).try_acquire_owned();
    let permit = permit.map_err(|_| {
        shared.counters.refused_other.increment();
        Error::new("too many connections")
    })?;
    *lock(session) = Session::Open { secret: secret.to_owned(), _permit: permit };
    let mut data = Data::default();
    data.insert(principal);
    Ok(data)
}

/// The schema with limits of the number of subscriptions and of the rate of requests.
#[derive(Clone)]
struct Limited {
    shared: Arc<Shared>,
    active: Arc<AtomicUsize>,
}

/// Counts a subscription until it is dropped.
struct Active(Arc<AtomicUsize>);

impl Drop for Active {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// One response with the error that a limit is reached.
fn failed(text: impl Display) -> BoxStream<'static, GraphResponse> {
    let error = GraphResponse::from_errors(vec![busy(text).into_server_error(Pos::default())]);
    once(async move { error }).boxed()
}

impl Executor for Limited {
    async fn execute(&self, request: Request) -> GraphResponse {
        self.shared.schema.execute(request).await
    }

    fn execute_stream(
        &self,
        request: Request,
        session_data: Option<Arc<Data>>,
    ) -> BoxStream<'static, GraphResponse> {
        let data = session_data.as_ref().and_then(|data| data.get(&TypeId::of::<Principal>()));
        let principal = data.and_then(|data| data.downcast_ref::<Principal>());
        if let Err(refusal) = self.shared.rate.admit(self.shared.calls.unix_s(), principal) {
            self.shared.counters.refused_rate.increment();
            return failed(refusal.text().trim_end());
        }
        let count = self.active.fetch_add(1, Ordering::AcqRel);
        let active = Active(Arc::clone(&self.active));
        if count >= SUBSCRIPTIONS_MAX {
            drop(active);
            return failed(format!("a connection has at most {SUBSCRIPTIONS_MAX} subscriptions"));
        }
        let responses = Executor::execute_stream(&self.shared.schema, request, session_data);
        let counters = Arc::clone(&self.shared.counters);
        responses
            .map(move |response| {
                let _ = &active;
                coded(response, &counters)
            })
            .boxed()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use namewire_daemon::Forwarder;
    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt, DuplexStream};
    use tokio::sync::Semaphore;
    use tokio::time::Instant;

    use super::*;
    use crate::admission::{Admission, Rate};
    use crate::calls::Calls;
    use crate::calls::tests::forwarder;
    use crate::graphql::sampler::Sampler;
    use crate::graphql::schema;
    use crate::graphql::waiting::WaitingConnections;
    use crate::tasks::Tasks;
    use crate::tokens::{Role as TokenRole, Token, TokenFile, Tokens};

    /// A server without sockets, its tokens, and the forwarder behind it. Fields are dropped in this order.
    struct Server {
        shared: Arc<Shared>,
        sampler: Sampler,
        tokens: TokenFile,
        _forwarder: Forwarder,
        _directory: tempfile::TempDir,
    }

    impl Server {
        fn new() -> Self {
            let forwarder = forwarder();
            let directory = tempfile::tempdir().unwrap();
            let tokens = TokenFile::new(directory.path().join("tokens"));
            tokens.write(&[Token::new("test", TokenRole::Read, None).unwrap()]).unwrap();
            let (calls, sampler) = (Calls::new(forwarder.operations()), Sampler::new());
            let operations = (calls.clone(), sampler.clone(), Tasks::new(None));
            let shared = Arc::new(Shared {
                admission: Admission::default(),
                schema: schema(Some(operations)).unwrap(),
                waiting: WaitingConnections::default(),
                sockets: Arc::new(Semaphore::new(SOCKETS_MAX)),
                rate: Rate::default(),
                tokens: Tokens::new(tokens.clone()),
                calls,
                counters: Arc::default(),
                is_ready: Arc::default(),
            });
            Self { shared, sampler, tokens, _forwarder: forwarder, _directory: directory }
        }

        /// A connection that has shown its token. The pipes of both directions have this length.
        async fn connect(&self, length: usize) -> WebSocketStream<DuplexStream> {
            let (own, other) = tokio::io::duplex(length);
            let place = self.shared.waiting.enter([127, 0, 0, 1].into());
            tokio::spawn(serve_stream(other, Arc::clone(&self.shared), place));
            let mut client = WebSocketStream::from_raw_socket(own, Role::Client, None).await;
            let secret = self.tokens.read().unwrap().remove(0).secret;
            let init = json!({ "type": "connection_init", "payload": { "token": secret } });
            client.send(Message::text(init.to_string())).await.unwrap();
            assert_eq!(text_of(client.next().await)["type"], "connection_ack");
            client
        }
    }

    fn text_of<E: std::fmt::Debug>(message: Option<Result<Message, E>>) -> Value {
        let message = message.unwrap().unwrap();
        serde_json::from_str(message.to_text().unwrap()).unwrap()
    }

    /// The code with which the server closes the connection, and the time until then.
    async fn closed(mut client: WebSocketStream<DuplexStream>) -> (u16, Duration) {
        let start = Instant::now();
        loop {
            match client.next().await {
                Some(Ok(Message::Close(Some(frame)))) => {
                    return (frame.code.into(), start.elapsed());
                }
                Some(Ok(Message::Ping(_))) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn connection_ends_with_its_token() {
        let server = Server::new();
        let client = server.connect(4096).await;
        server.tokens.write(&[Token::new("test", TokenRole::Read, None).unwrap()]).unwrap();
        let (code, time) = closed(client).await;
        assert!(code == 4401 && time <= PING_INTERVAL, "{code} after {time:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn half_open_connection_is_closed() {
        let server = Server::new();
        let mut client = server.connect(4096).await;
        // Its end does not read, and so sends no pong. What was sent to it is read afterwards.
        tokio::time::sleep(PING_INTERVAL * 2 + WRITE_TIME).await;
        assert_eq!(server.shared.sockets.available_permits(), SOCKETS_MAX, "it is served no more");
        let mut sent = Vec::new();
        client.get_mut().read_to_end(&mut sent).await.unwrap();
        let is_close = |frame: &[u8]| frame[0] == 0x88 && frame[2..] == 4408_u16.to_be_bytes();
        assert!(sent.windows(4).any(is_close), "{sent:?}");
        // One that reads answers pings, and stays.
        let mut client = server.connect(4096).await;
        let more = tokio::time::timeout(PING_INTERVAL * 10, async {
            while let Some(Ok(message)) = client.next().await {
                assert!(message.is_ping(), "{message:?}");
            }
        });
        assert!(more.await.is_err(), "it has ended");
    }

    #[tokio::test(start_paused = true)]
    async fn slow_subscriber_receives_the_number_of_lost_samples() {
        let server = Server::new();
        let (sampler, calls) = (server.sampler.clone(), server.shared.calls.clone());
        tokio::spawn(async move { sampler.run(&calls).await });
        let mut client = server.connect(256).await;
        let query = "subscription { counters(intervalMs: 100) { lost unixMs } }";
        let message = json!({ "type": "subscribe", "id": "1", "payload": { "query": query } });
        client.send(Message::text(message.to_string())).await.unwrap();
        let first = text_of(client.next().await);
        assert_eq!(first["payload"]["data"]["counters"]["lost"], 0, "{first}");
        tokio::time::sleep(WRITE_TIME / 2).await;
        loop {
            let sample = text_of(client.next().await);
            let lost = sample["payload"]["data"]["counters"]["lost"].as_u64().unwrap();
            if lost > 0 {
                assert!((10..50).contains(&lost), "{sample}");
                break;
            }
        }
    }
}
