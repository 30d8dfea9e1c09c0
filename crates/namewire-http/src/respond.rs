//! From a request to its response.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    HeaderMap, HeaderValue, REFERRER_POLICY, VARY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};

use crate::admission::{Refusal, check_reading};
use crate::calls::Unanswered;
use crate::exposition::Format;
use crate::graphql::{post, websocket};
use crate::metrics::metrics;
use crate::pages::page;
use crate::shared::{Body, Shared, text};

/// Responds to a request.
pub(crate) async fn respond(
    shared: &Arc<Shared>,
    peer: SocketAddr,
    request: Request<Incoming>,
) -> Response<Body> {
    shared.counters.requests.increment();
    let (mut head, body) = request.into_parts();
    let (mut response, origin) = match admit(shared, &head) {
        Err(refusal) => (refuse(shared, refusal), None),
        Ok(origin) if origin.is_some() && is_preflight(&head) => (answer_preflight(), origin),
        Ok(origin) => match answer(shared, peer, &mut head, body).await {
            Ok(response) => (response, origin),
            Err(refusal) => (refuse(shared, refusal), origin),
        },
    };
    tracing::debug!(%peer, method = %head.method, path = head.uri.path(), status = response.status().as_u16(), "HTTP");
    protect(response.headers_mut(), origin);
    response
}

/// Checks the host and the origin of a request. Returns the listed origin that the response is for, if any.
fn admit(shared: &Shared, head: &Parts) -> Result<Option<HeaderValue>, Refusal> {
    // A target with a host is one for a proxy.
    if head.uri.authority().is_some() {
        return Err(Refusal::Host);
    }
    shared.admission.check(&head.headers)
}

async fn answer(
    shared: &Arc<Shared>,
    peer: SocketAddr,
    head: &mut Parts,
    body: Incoming,
) -> Result<Response<Body>, Refusal> {
    match head.uri.path() {
        "/graphql" if websocket::is_requested(&head.headers) => {
            Ok(websocket::upgrade(shared, peer.ip(), head))
        }
        "/graphql" => post::execute(shared, head, body).await,
        "/metrics" => {
            check_reading(&head.method)?;
            Ok(answer_metrics(shared, &head.headers).await)
        }
        "/health" => {
            check_reading(&head.method)?;
            Ok(answer_health(shared).await)
        }
        "/ready" => {
            check_reading(&head.method)?;
            Ok(match shared.is_ready.load(Ordering::Acquire) {
                true => answer_health(shared).await,
                false => text(StatusCode::SERVICE_UNAVAILABLE, "the forwarder starts or stops\n"),
            })
        }
        path => {
            let page = page(path).ok_or(Refusal::Path)?;
            check_reading(&head.method)?;
            Ok(page)
        }
    }
}

/// Whether a browser asks what a page of a listed origin may send (Fetch Standard, CORS-preflight request).
fn is_preflight(head: &Parts) -> bool {
    head.method == Method::OPTIONS && head.uri.path() == "/graphql"
}

fn answer_preflight() -> Response<Body> {
    let mut response = text(StatusCode::NO_CONTENT, "");
    let fields = response.headers_mut();
    fields.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("POST"));
    let allowed = HeaderValue::from_static("authorization, content-type");
    fields.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    response
}

async fn answer_metrics(shared: &Shared, fields: &HeaderMap) -> Response<Body> {
    let accept = fields.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let format = Format::accepted(accept);
    let http = shared.counters.values();
    let written =
        shared.calls.call_openly(move |operations| metrics(operations, http, format)).await;
    match written {
        Ok(written) => {
            let mut response = text(StatusCode::OK, written);
            let content_type = HeaderValue::from_static(format.content_type());
            response.headers_mut().insert(CONTENT_TYPE, content_type);
            response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
            response
        }
        Err(error) => unanswered(shared, &error),
    }
}

/// Healthy is a forwarder whose control thread and workers answer.
async fn answer_health(shared: &Shared) -> Response<Body> {
    match shared.calls.call_openly(|operations| operations.limits().map(drop)).await {
        Ok(()) => text(StatusCode::OK, "ok\n"),
        Err(error) => unanswered(shared, &error),
    }
}

fn unanswered(shared: &Shared, error: &Unanswered) -> Response<Body> {
    shared.counters.unanswered.increment();
    text(StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n"))
}

fn refuse(shared: &Shared, refusal: Refusal) -> Response<Body> {
    let counters = &shared.counters;
    match refusal {
        Refusal::NoHost | Refusal::Host => counters.refused_host.increment(),
        Refusal::Origin => counters.refused_origin.increment(),
        Refusal::Token => counters.refused_token.increment(),
        Refusal::Method(_) | Refusal::Path | Refusal::Type | Refusal::TooSlow => {
            counters.refused_other.increment()
        }
        Refusal::TooLong => counters.refused_length.increment(),
        Refusal::Rate => counters.refused_rate.increment(),
    }
    let mut response = text(refusal.status(), refusal.text());
    if refusal == Refusal::Token {
        // Tokens are those of GraphQL, whose clients read errors in its form.
        response = post::unauthenticated(refusal.text().trim_end());
        let asked = HeaderValue::from_static("Bearer error=\"invalid_token\"");
        response.headers_mut().insert(WWW_AUTHENTICATE, asked);
    }
    if let Refusal::Method(allowed) = refusal {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    }
    response
}

/// Adds the fields that keep browsers from using a response otherwise.
pub(crate) fn protect(fields: &mut HeaderMap, origin: Option<HeaderValue>) {
    let field = HeaderValue::from_static;
    fields.insert(X_CONTENT_TYPE_OPTIONS, field("nosniff"));
    fields.insert(REFERRER_POLICY, field("no-referrer"));
    fields.insert("cross-origin-resource-policy", field("same-origin"));
    fields.entry(CACHE_CONTROL).or_insert(field("no-store"));
    let policy = field("default-src 'none'; frame-ancestors 'none'");
    fields.entry(CONTENT_SECURITY_POLICY).or_insert(policy);
    if let Some(origin) = origin {
        fields.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        fields.append(VARY, field("Origin"));
        fields.insert("cross-origin-resource-policy", field("cross-origin"));
    }
}
