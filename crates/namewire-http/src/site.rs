//! A server for the pages or the metrics of another program, with the limits and checks of the API.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::stream::unfold;
use http_body_util::{BodyExt, LengthLimitError, Limited, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore, mpsc};

use crate::admission::{Admission, Refusal};
use crate::connections::{Accepting, STALL_TIME};
use crate::counters::HttpCounters;
use crate::pages::POLICY;
use crate::respond::protect;
use crate::shared::{Body, text};

/// Maximum length of the body of a request, in bytes.
const BODY_LEN_MAX: usize = 64 << 10;
/// Maximum time to receive it.
const BODY_TIME: Duration = Duration::from_secs(5);
/// Maximum number of requests that are answered at a time, each on a thread.
const ANSWERS_MAX: usize = 4;

/// A request that has passed the checks of host and origin.
#[derive(Clone, PartialEq, Eq)]
pub struct SiteRequest {
    /// Method, such as `GET`.
    pub method: String,
    /// Path, without the query.
    pub path: String,
    /// The query after `?`; empty if there is none.
    pub query: String,
    /// The bearer token, if there is one.
    pub token: Option<String>,
    /// The field Accept; empty if there is none.
    pub accept: String,
    /// The body, which has the type `application/json` unless it is empty.
    pub body: Vec<u8>,
}

impl fmt::Debug for SiteRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, path, query, .. } = self;
        let mut shown = formatter.debug_struct("SiteRequest");
        shown.field("method", method).field("path", path).field("query", query);
        shown.finish_non_exhaustive()
    }
}

/// The body of a response.
#[derive(Debug)]
pub enum SiteBody {
    /// All of it.
    Whole(Vec<u8>),
    /// Pieces, as they are sent.
    Pieces(mpsc::Receiver<Vec<u8>>),
}

/// A response.
#[derive(Debug)]
pub struct SiteReply {
    /// Status code.
    pub status: u16,
    /// Content type.
    pub kind: &'static str,
    /// The body.
    pub body: SiteBody,
}

impl SiteReply {
    /// A whole response.
    #[must_use]
    pub fn new(status: u16, kind: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status, kind, body: SiteBody::Whole(body.into()) }
    }

    /// A line of text.
    #[must_use]
    pub fn text(status: u16, line: &str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", format!("{line}\n"))
    }
}

/// Answers the requests of a [`SiteServer`].
pub trait Site: Send + Sync + 'static {
    /// Answers a request, on a thread that may block.
    fn answer(&self, request: SiteRequest) -> SiteReply;
}

/// A running server. Dropping it ends its connections.
#[derive(Debug)]
pub struct SiteServer {
    address: SocketAddr,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl SiteServer {
    /// Listens on a loopback address; port 0 selects a free port.
    ///
    /// # Errors
    /// The address is not one of loopback or cannot be used, or there is no thread or descriptor left; the error names
    /// the address.
    pub fn start(listen: SocketAddr, site: Arc<dyn Site>) -> io::Result<Self> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{listen}: {error}"));
        if !listen.ip().to_canonical().is_loopback() {
            let reason = "it is not a loopback address, and this server has no TLS";
            return Err(named(io::Error::new(io::ErrorKind::InvalidInput, reason)));
        }
        let socket = StdListener::bind(listen).map_err(named)?;
        socket.set_nonblocking(true).map_err(named)?;
        let address = socket.local_addr().map_err(named)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(ANSWERS_MAX)
            .thread_name("http-answer")
            .build()?;
        let socket = {
            let _entered = runtime.enter();
            TcpListener::from_std(socket)?
        };
        let permits = Arc::new(Semaphore::new(ANSWERS_MAX));
        let accepting = Accepting {
            tls: None,
            counters: Arc::new(HttpCounters::default()),
            stall_time: STALL_TIME,
            respond: move |_, request| respond(Arc::clone(&site), Arc::clone(&permits), request),
        };
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let serving = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accepting.accept_all(vec![socket]) => {}
                    () = stopped.notified() => {}
                }
            });
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("http".to_owned()).spawn(serving)?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// The address, with the port that the kernel has chosen.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for SiteServer {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of that thread has been reported there.
            let _ = thread.join();
        }
    }
}

async fn respond(
    site: Arc<dyn Site>,
    permits: Arc<Semaphore>,
    request: Request<Incoming>,
) -> Response<Body> {
    let mut response = match read(request).await {
        Err(refusal) => text(refusal.status(), refusal.text()),
        Ok(request) => {
            let Ok(permit) = permits.acquire_owned().await else {
                return text(StatusCode::SERVICE_UNAVAILABLE, "");
            };
            let answered = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                site.answer(request)
            });
            match answered.await {
                Ok(reply) => of_reply(reply),
                // The panic was reported by its thread.
                Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "the request failed\n"),
            }
        }
    };
    protect(response.headers_mut(), None);
    response
}

/// Checks the head of a request, and reads its body.
async fn read(request: Request<Incoming>) -> Result<SiteRequest, Refusal> {
    let (head, body) = request.into_parts();
    if head.uri.authority().is_some() {
        return Err(Refusal::Host);
    }
    Admission::default().check(&head.headers)?;
    let field = |name| head.headers.get(name).and_then(|field| field.to_str().ok());
    let body = Limited::new(body, BODY_LEN_MAX).collect();
    let body = match tokio::time::timeout(BODY_TIME, body).await {
        Err(_) => return Err(Refusal::TooSlow),
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(Refusal::TooLong),
        Ok(Err(_)) => return Err(Refusal::TooSlow),
    };
    let kind = field(CONTENT_TYPE).and_then(|kind| kind.split(';').next()).unwrap_or_default();
    // A page can send other types without asking first.
    if !body.is_empty() && !kind.trim().eq_ignore_ascii_case("application/json") {
        return Err(Refusal::Type);
    }
    let token = field(AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
    Ok(SiteRequest {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        token: token.map(|token| token.trim().to_owned()),
        accept: field(ACCEPT).unwrap_or_default().to_owned(),
        body: body.to_vec(),
    })
}

fn of_reply(reply: SiteReply) -> Response<Body> {
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = match reply.body {
        SiteBody::Whole(body) => text(status, body),
        SiteBody::Pieces(pieces) => {
            let pieces = unfold(pieces, |mut pieces| async move {
                let piece = pieces.recv().await?;
                Some((Ok(Frame::data(Bytes::from(piece))), pieces))
            });
            let mut response = Response::new(StreamBody::new(pieces).boxed_unsync());
            *response.status_mut() = status;
            response
        }
    };
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static(reply.kind));
    if reply.kind.starts_with("text/html") {
        fields.insert(CONTENT_SECURITY_POLICY, POLICY);
    }
    response
}
