//! Inputs of clients without a connection, for the fuzz targets.

use std::sync::OnceLock;

use async_graphql::Request;
use async_graphql::dynamic::Schema;
use futures_util::FutureExt;
use hyper::header::{HOST, HeaderMap, HeaderValue, ORIGIN};

use crate::admission::Admission;
use crate::graphql::schema;
use crate::tokens::Token;

/// Whether a request with these fields is admitted by a server without further hosts and origins.
#[must_use]
pub fn is_admitted(host: &[u8], origin: Option<&[u8]>) -> bool {
    let mut fields = HeaderMap::new();
    for (name, value) in [(HOST, Some(host)), (ORIGIN, origin)] {
        let Some(value) = value else { continue };
        let Ok(value) = HeaderValue::from_bytes(value) else { return false };
        fields.append(name, value);
    }
    Admission::default().check(&fields).is_ok()
}

/// The response to the body of a GraphQL request without a token, and whether it has errors; `None` if the body is not a
/// request.
#[must_use]
pub fn answer(body: &[u8]) -> Option<(Vec<u8>, bool)> {
    static SCHEMA: OnceLock<Option<Schema>> = OnceLock::new();
    let request: Request = serde_json::from_slice(body).ok()?;
    let schema = SCHEMA.get_or_init(|| schema(None).ok()).as_ref()?;
    // Without a token, no operation is called, so there is nothing to wait for.
    let response = schema.execute(request).now_or_never()?;
    let is_failure = response.is_err();
    Some((serde_json::to_vec(&response).ok()?, is_failure))
}

/// The line of the file of tokens that this line is understood as, if it is one.
#[must_use]
pub fn token_line(line: &str) -> Option<String> {
    Token::from_line(line).ok().map(|token| token.to_line())
}
