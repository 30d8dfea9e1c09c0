//! A request–reply service: `cargo run -p ndn-client --example service`.
//!
//! The request is in the parameters of an Interest, and the reply is Data of that name, which contains the digest of the
//! parameters. The handler is asynchronous: a slow request does not delay others.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::error::Error;

use ndn_client::{AsyncHandler, Endpoint, InterestRequest, Registration, Request};
use ndn_packet::{DataBuilder, Name};
use ndn_security::{DigestSigner, sha256};

/// Replies to requests with their text in upper case.
pub(crate) async fn serve(
    endpoint: &Endpoint,
    prefix: &Name,
) -> Result<Registration, Box<dyn Error>> {
    let handler = AsyncHandler::new(|request: Request| async move {
        let interest = request.interest();
        if !interest.parameters_digest_is_valid(sha256) {
            return;
        }
        let text = String::from_utf8_lossy(interest.parameters().unwrap_or_default()).into_owned();
        // Work that takes long does not delay other requests.
        let Ok(text) = tokio::task::spawn_blocking(move || text.to_uppercase()).await else {
            return;
        };
        let data = DataBuilder::new(request.name()).content(text.as_bytes());
        if let Err(error) = request.answer_with(&data, &DigestSigner) {
            eprintln!("{}: {error}", request.name());
        }
    });
    Ok(endpoint.produce(prefix, handler).await?)
}

/// Sends a request, and returns the reply.
pub(crate) async fn request(
    endpoint: &Endpoint,
    prefix: &Name,
    text: &str,
) -> Result<String, Box<dyn Error>> {
    let request = InterestRequest::new(prefix.clone()).parameters(text.into()).retransmissions(2);
    let reply = endpoint.express(&request).await?;
    Ok(String::from_utf8_lossy(&reply.content()).into_owned())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let prefix: Name = "/example/upper".parse()?;
    let server = Endpoint::open().await?;
    let registration = serve(&server, &prefix).await?;
    let client = Endpoint::open().await?;
    println!("{}", request(&client, &prefix, "hello").await?);
    Ok(registration.unregister().await?)
}
