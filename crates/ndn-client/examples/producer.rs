//! Answers Interests under a prefix: `cargo run -p ndn-client --example producer`, then `namewire peek /example/greeting/you`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::error::Error;

use ndn_client::{Endpoint, Registration, Request};
use ndn_packet::{DataBuilder, Name};
use ndn_security::DigestSigner;

/// Registers `prefix`, and answers each Interest for a name below it with a greeting.
pub(crate) async fn greet(
    endpoint: &Endpoint,
    prefix: &Name,
) -> Result<Registration, Box<dyn Error>> {
    let handler = |request: Request| {
        let Some(word) = request.name().last() else { return };
        let content = format!("hello {word}");
        // A cache may answer for ten seconds.
        let data =
            DataBuilder::new(request.name()).content(content.as_bytes()).freshness_ms(10_000);
        if let Err(error) = request.answer_with(&data, &DigestSigner) {
            eprintln!("{}: {error}", request.name());
        }
    };
    Ok(endpoint.produce(prefix, handler).await?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // Found by NDN_CLIENT_TRANSPORT, client.conf, or at the default socket.
    let endpoint = Endpoint::open().await?;
    let registration = greet(&endpoint, &"/example/greeting".parse()?).await?;
    println!("serving {}; Ctrl-C ends it", registration.prefix());
    tokio::signal::ctrl_c().await?;
    Ok(registration.unregister().await?)
}
