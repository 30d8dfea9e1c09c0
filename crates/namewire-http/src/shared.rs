//! State that all requests share, and their responses as text.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use async_graphql::dynamic::Schema;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::sync::Semaphore;

use crate::admission::{Admission, Rate};
use crate::calls::Calls;
use crate::counters::HttpCounters;
use crate::graphql::waiting::WaitingConnections;
use crate::tokens::Tokens;

/// State shared by all requests.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) admission: Admission,
    pub(crate) calls: Calls,
    pub(crate) counters: Arc<HttpCounters>,
    pub(crate) is_ready: Arc<AtomicBool>,
    pub(crate) rate: Rate,
    pub(crate) tokens: Tokens,
    pub(crate) schema: Schema,
    /// WebSocket connections without a valid token yet.
    pub(crate) waiting: WaitingConnections,
    /// Limits WebSocket connections with a token.
    pub(crate) sockets: Arc<Semaphore>,
}

/// The body of a response.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// A response with a text.
pub(crate) fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()).boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, TEXT);
    response
}
