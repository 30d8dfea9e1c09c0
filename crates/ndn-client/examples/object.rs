//! Publishes an object of many segments, and fetches it: `cargo run -p ndn-client --example object`.
//!
//! Objects have a version and numbered segments; metadata (RDR) name the current version. The fetch adapts its window to
//! losses and congestion marks, and verifies each segment.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::error::Error;

use ndn_client::fetch::{FetchOptions, Verification};
use ndn_client::{Content, Endpoint, PublishOptions, PublishedObject};
use ndn_packet::Name;

/// Publishes `content` under `name`; it is served while the result exists.
pub(crate) async fn publish(
    endpoint: &Endpoint,
    name: &Name,
    content: Vec<u8>,
) -> Result<PublishedObject, Box<dyn Error>> {
    let options = PublishOptions { segment_len: 4000, ..PublishOptions::default() };
    Ok(endpoint.publish(name, Content::Bytes(content.into()), &options).await?)
}

/// Fetches the current version of an object of at most `length_max` bytes.
pub(crate) async fn fetch(
    endpoint: &Endpoint,
    name: &Name,
    length_max: usize,
) -> Result<Vec<u8>, Box<dyn Error>> {
    let options = FetchOptions { verification: Verification::Digest, ..FetchOptions::default() };
    let stream = endpoint.fetch(name, &options).await?;
    Ok(stream.collect(length_max).await?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let name: Name = "/example/object".parse()?;
    let producer = Endpoint::open().await?;
    let object = publish(&producer, &name, vec![7; 1_000_000]).await?;
    let consumer = Endpoint::open().await?;
    let content = fetch(&consumer, &name, 1 << 24).await?;
    println!("{}: {} bytes", object.versioned_name(), content.len());
    Ok(object.unpublish().await?)
}
