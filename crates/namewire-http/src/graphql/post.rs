//! GraphQL by POST: the token, the body, the status of the response.

use std::time::Duration;

use async_graphql::{ErrorExtensionValues, Request as GraphRequest, Value};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use serde_json::json;

use super::access::{FORBIDDEN, UNAUTHENTICATED, coded};
use crate::admission::Refusal;
use crate::shared::{Body, Shared, text};
use crate::tokens::Principal;

/// Maximum length of a body, bytes.
const BODY_LEN_MAX: usize = 64 << 10;
/// Maximum time to receive a body.
const BODY_TIME: Duration = Duration::from_secs(5);
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The principal of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Presented {
    /// There is no token.
    Nothing,
    /// The token is not valid.
    Wrong,
    /// The token is valid.
    Valid(Principal),
}

/// The principal whose token is in the field Authorization.
fn presented(shared: &Shared, fields: &HeaderMap) -> Presented {
    let Some(field) = fields.get(AUTHORIZATION) else { return Presented::Nothing };
    let secret = field.to_str().ok().and_then(|value| value.strip_prefix("Bearer "));
    match secret.and_then(|secret| shared.tokens.principal(secret.trim(), shared.calls.unix_s())) {
        Some(principal) => Presented::Valid(principal),
        None => Presented::Wrong,
    }
}

/// Executes the request in the body.
///
/// # Errors
/// The request is not one for GraphQL.
pub(crate) async fn execute(
    shared: &Shared,
    head: &Parts,
    body: Incoming,
) -> Result<Response<Body>, Refusal> {
    if head.method != Method::POST {
        return Err(Refusal::Method("POST"));
    }
    let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    // A page can send other types without asking first.
    if !kind.trim().eq_ignore_ascii_case("application/json") {
        return Err(Refusal::Type);
    }
    let presented = presented(shared, &head.headers);
    let principal = match &presented {
        Presented::Valid(principal) => Some(principal.clone()),
        Presented::Nothing | Presented::Wrong => None,
    };
    shared.rate.admit(shared.calls.unix_s(), principal.as_ref())?;
    if presented == Presented::Wrong {
        return Err(Refusal::Token);
    }
    let body = read(body).await?;
    let request: GraphRequest = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => {
            let reason = format!("the body is not a GraphQL request: {error}\n");
            return Ok(text(StatusCode::BAD_REQUEST, reason));
        }
    };
    let request = match principal {
        Some(principal) => request.data(principal),
        None => request,
    };
    let response = coded(shared.schema.execute(request).await, &shared.counters);
    let status = status(response.errors.iter().filter_map(|error| error.extensions.as_ref()));
    let written = serde_json::to_vec(&response).unwrap_or_default();
    let mut answer = text(status, written);
    answer.headers_mut().insert(CONTENT_TYPE, JSON);
    if status == StatusCode::UNAUTHORIZED {
        answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    Ok(answer)
}

/// The answer to a request whose token is refused for this reason.
pub(crate) fn unauthenticated(reason: &str) -> Response<Body> {
    let error = json!({ "message": reason, "extensions": { "code": UNAUTHENTICATED } });
    let body = json!({ "data": null, "errors": [error] }).to_string();
    let mut answer = text(StatusCode::UNAUTHORIZED, body);
    answer.headers_mut().insert(CONTENT_TYPE, JSON);
    answer
}

async fn read(body: Incoming) -> Result<hyper::body::Bytes, Refusal> {
    let read = Limited::new(body, BODY_LEN_MAX).collect();
    match tokio::time::timeout(BODY_TIME, read).await {
        Err(_) => Err(Refusal::TooSlow),
        Ok(Ok(read)) => Ok(read.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Refusal::TooLong),
        Ok(Err(_)) => Err(Refusal::TooSlow),
    }
}

/// 200, unless an operation needs a token or a higher role.
fn status<'a>(errors: impl Iterator<Item = &'a ErrorExtensionValues>) -> StatusCode {
    let mut status = StatusCode::OK;
    for extensions in errors {
        match extensions.get("code") {
            Some(Value::String(code)) if code == UNAUTHENTICATED => {
                return StatusCode::UNAUTHORIZED;
            }
            Some(Value::String(code)) if code == FORBIDDEN => status = StatusCode::FORBIDDEN,
            Some(_) | None => {}
        }
    }
    status
}
