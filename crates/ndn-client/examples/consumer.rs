//! Fetches one Data: `cargo run -p ndn-client --example consumer /example/greeting/you`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use ndn_client::{Endpoint, ExpressError, InterestRequest};
use ndn_packet::Name;
use ndn_security::DigestVerifier;

/// The content of the Data `name`, or `None` if nobody answers within three seconds.
pub(crate) async fn fetch(
    endpoint: &Endpoint,
    name: Name,
) -> Result<Option<Vec<u8>>, Box<dyn Error>> {
    let request = InterestRequest::new(name)
        .must_be_fresh(true)
        .lifetime(Duration::from_secs(1))
        .retransmissions(2)
        .verifier(Arc::new(DigestVerifier));
    match endpoint.express(&request).await {
        Ok(data) => Ok(Some(data.content().to_vec())),
        Err(ExpressError::Timeout { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let name = std::env::args().nth(1).ok_or("usage: consumer NAME")?;
    let endpoint = Endpoint::open().await?;
    match fetch(&endpoint, name.parse()?).await? {
        Some(content) => println!("{}", String::from_utf8_lossy(&content)),
        None => println!("no answer"),
    }
    Ok(())
}
