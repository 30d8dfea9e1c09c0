//! Connects to an origin, and checks that it can be served.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::client::HttpError;
use object_store::http::HttpBuilder;
use object_store::path::Path as ObjectPath;
use object_store::{ClientOptions, Error, GetOptions, ObjectStore, RetryConfig};

use crate::address::Address;
use crate::error::{OpenError, Refusal, cause, refusal};
use crate::runtime::Runtime;

/// Time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for one request of the library, and for its repetitions.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Requests that are repeated after a failure.
const RETRIES_MAX: usize = 3;
/// Time for the requests that check an origin at the start.
const CHECK_TIMEOUT: Duration = Duration::from_secs(45);
/// Variables that name credentials other than those of the machine the server runs on.
const CREDENTIALS: [&str; 5] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
];

/// A store, the path of the origin in it, and whether it lists directories.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) base: ObjectPath,
    pub(crate) lists: bool,
    /// Whether listings have the state of objects as `HEAD` gives it.
    pub(crate) lists_states: bool,
}

/// Connects to the origin at `address`.
pub(crate) fn connect(address: &Address, runtime: &Runtime) -> Result<Connected, OpenError> {
    match address {
        Address::S3 { bucket, prefix } => s3(address, bucket, prefix, runtime),
        Address::Http { url } => http(address, url, runtime),
    }
}

fn client_options(allow_http: bool) -> ClientOptions {
    ClientOptions::new()
        .with_allow_http(allow_http)
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_timeout(REQUEST_TIMEOUT)
}

fn retry() -> RetryConfig {
    RetryConfig {
        max_retries: RETRIES_MAX,
        retry_timeout: REQUEST_TIMEOUT,
        ..RetryConfig::default()
    }
}

fn s3(
    address: &Address,
    bucket: &str,
    prefix: &str,
    runtime: &Runtime,
) -> Result<Connected, OpenError> {
    let of = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let endpoint = of("AWS_ENDPOINT_URL_S3").or_else(|| of("AWS_ENDPOINT_URL"));
    // The endpoint is a choice of the operator.
    let allow_http = endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"));
    let is_public = of("AWS_SKIP_SIGNATURE").is_some_and(|value| value != "false" && value != "0");
    let has_credentials = is_public || CREDENTIALS.into_iter().any(|name| of(name).is_some());
    let builder = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_client_options(client_options(allow_http))
        .with_retry(retry());
    let settings = |error: Error| OpenError::Settings(address.to_string(), cause(&error));
    let base = ObjectPath::parse(prefix).map_err(|error| settings(error.into()))?;
    let store: Arc<dyn ObjectStore> = Arc::new(builder.build().map_err(settings)?);
    let first = async { store.list(Some(&base)).next().await.transpose() };
    let checked = runtime.wait(CHECK_TIMEOUT, first).unwrap_or_else(|| Err(late()));
    let at = address.to_string();
    match checked {
        Ok(Some(_)) => {}
        Ok(None) => tracing::warn!(origin = at, "there are no objects yet"),
        Err(error) => {
            let reason = cause(&error);
            return Err(match refusal(&error) {
                Some(Refusal::NotFound) => OpenError::NoBucket(at),
                _ if !has_credentials => OpenError::NoCredentials(at, reason),
                Some(Refusal::Denied) => OpenError::Refused(at, reason),
                None => OpenError::Unreachable(at, reason),
            });
        }
    }
    Ok(Connected { store, base, lists: true, lists_states: true })
}

fn http(address: &Address, url: &str, runtime: &Runtime) -> Result<Connected, OpenError> {
    let at = address.to_string();
    let builder = HttpBuilder::new()
        .with_url(url)
        .with_client_options(client_options(url.starts_with("http://")))
        .with_retry(retry());
    let store = builder.build().map_err(|error| OpenError::Settings(at.clone(), cause(&error)))?;
    let store: Arc<dyn ObjectStore> = Arc::new(store);
    let base = ObjectPath::default();
    let head = store.get_opts(&base, GetOptions { head: true, ..GetOptions::default() });
    match runtime.wait(CHECK_TIMEOUT, head).unwrap_or_else(|| Err(late())) {
        Err(error) if matches!(error, Error::Unauthenticated { .. }) => {
            return Err(OpenError::Protected(at, cause(&error)));
        }
        Err(error) if !is_answer(&error) => return Err(OpenError::Unreachable(at, cause(&error))),
        // A directory may have no page, or one that is not listed.
        Ok(_) | Err(_) => {}
    }
    // Only WebDAV lists directories.
    let list = store.list_with_delimiter(None);
    let lists = matches!(runtime.wait(CHECK_TIMEOUT, list), Some(Ok(_)));
    Ok(Connected { store, base, lists, lists_states: false })
}

/// Whether the server answered, although it refused.
fn is_answer(error: &Error) -> bool {
    let Error::Generic { source, .. } = error else { return true };
    // A status, or headers that a page without content does not have; not a failure to connect.
    let mut reason: Option<&(dyn std::error::Error + 'static)> = Some(source.as_ref());
    while let Some(error) = reason {
        if error.is::<HttpError>() {
            return false;
        }
        reason = error.source();
    }
    true
}

fn late() -> Error {
    Error::Generic { store: "origin", source: "no answer".into() }
}
