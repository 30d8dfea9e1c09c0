//! Answers, without a log record.

use bytes::Bytes;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderName, HeaderValue,
    LAST_MODIFIED, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{HeaderMap, Response, StatusCode};

use crate::access_log::Record;
use crate::body::GatewayBody;
use crate::conditions::Validators;
use crate::failure::Failure;
use crate::listing::Page;
use crate::transfer::Chunks;
use crate::transfers::TransferPermit;

/// The methods allowed for every resource.
pub(crate) const ALLOWED: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS, PROPFIND");
/// The schemes by which a client sends a token.
const CHALLENGES: [&str; 2] = ["Bearer realm=\"ndn\"", "Basic realm=\"ndn\", charset=\"UTF-8\""];
/// Retry-After of a rejected request, in seconds.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("2");

/// An answer without its record.
pub(crate) struct HttpAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) content: Content,
}

pub(crate) enum Content {
    Empty,
    Whole(Bytes),
    /// A page, its length, and the permit held until it is sent.
    Page(Box<Page>, u64, TransferPermit),
    Chunks(Chunks, Option<u64>),
}

impl HttpAnswer {
    pub(crate) fn new(status: StatusCode) -> Self {
        Self { status, headers: HeaderMap::new(), content: Content::Empty }
    }

    /// Sets a header; omitted if the text is not a valid value.
    pub(crate) fn set(&mut self, name: HeaderName, text: &str) {
        if let Ok(value) = HeaderValue::from_str(text) {
            self.headers.insert(name, value);
        }
    }

    pub(crate) fn set_length(&mut self, length: u64) {
        self.headers.insert(CONTENT_LENGTH, length.into());
    }

    pub(crate) fn with_text(self, text: &str) -> Self {
        self.with_content("text/plain; charset=utf-8", format!("{text}\n"))
    }

    /// Content that no cache keeps.
    pub(crate) fn with_content(mut self, ty: &'static str, text: String) -> Self {
        let text = Bytes::from(text);
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static(ty));
        self.headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        self.headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        self.set_length(u64::try_from(text.len()).unwrap_or(0));
        self.content = Content::Whole(text);
        self
    }

    pub(crate) fn with_validators(mut self, validators: &Validators) -> Self {
        self.set(ETAG, &validators.etag);
        if let Some(modified) = validators.modified {
            self.set(LAST_MODIFIED, &httpdate::fmt_http_date(modified));
        }
        // Clients may cache it, and must revalidate each time.
        self.headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        self
    }

    pub(crate) fn finish(self, is_head: bool, mut record: Record) -> Response<GatewayBody> {
        let status = self.status;
        let body = if is_head {
            record.answered(status.as_u16(), Some(0));
            GatewayBody::empty(record)
        } else {
            match self.content {
                Content::Empty => {
                    record.answered(status.as_u16(), Some(0));
                    GatewayBody::empty(record)
                }
                Content::Whole(bytes) => {
                    record.answered(status.as_u16(), u64::try_from(bytes.len()).ok());
                    GatewayBody::whole(bytes, record)
                }
                Content::Page(page, length, permit) => {
                    record.answered(status.as_u16(), Some(length));
                    GatewayBody::page(page, length, permit, record)
                }
                Content::Chunks(chunks, length) => {
                    record.answered(status.as_u16(), length);
                    GatewayBody::chunks(chunks, length, record)
                }
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = self.headers;
        response
    }
}

/// The answer for a failure.
pub(crate) fn refusal(failure: &Failure) -> HttpAnswer {
    let mut answer = HttpAnswer::new(failure.status).with_text(&failure.text);
    if failure.status == StatusCode::METHOD_NOT_ALLOWED {
        answer.headers.insert(ALLOW, ALLOWED);
    }
    if failure.status == StatusCode::UNAUTHORIZED {
        for challenge in CHALLENGES {
            answer.headers.append(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
    }
    if failure.status == StatusCode::SERVICE_UNAVAILABLE {
        answer.headers.insert(RETRY_AFTER, RETRY_SECONDS);
    }
    answer
}
