//! A command that only the holder of a key may give: `cargo run -p ndn-client --example signed_command`.
//!
//! The Interest carries parameters and is signed; the producer verifies it, and refuses a command that it has executed
//! before.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::collections::HashSet;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use ndn_client::{Endpoint, InterestRequest, Registration, Request};
use ndn_packet::{DataBuilder, Name};
use ndn_security::{DigestSigner, Signer, Verifier, sha256, verify_interest};

/// Executes commands under `prefix` whose signature `verifier` accepts.
pub(crate) async fn serve_commands(
    endpoint: &Endpoint,
    prefix: &Name,
    verifier: Arc<dyn Verifier>,
) -> Result<Registration, Box<dyn Error>> {
    // A service that runs for long would limit its memory by the time in the signature.
    let executed = Mutex::new(HashSet::new());
    let handler = move |request: Request| {
        let interest = request.interest();
        let is_genuine = interest.parameters_digest_is_valid(sha256)
            && verify_interest(&interest, verifier.as_ref()).is_ok();
        let mut executed = executed.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = if !is_genuine {
            "refused: not signed with the key".to_owned()
        } else if !executed.insert(request.name().to_name()) {
            "refused: executed before".to_owned()
        } else {
            let command = interest.parameters().unwrap_or_default();
            format!("done: {}", String::from_utf8_lossy(command))
        };
        let data = DataBuilder::new(request.name()).content(answer.as_bytes());
        if let Err(error) = request.answer_with(&data, &DigestSigner) {
            eprintln!("{}: {error}", request.name());
        }
    };
    Ok(endpoint.produce(prefix, handler).await?)
}

/// Sends a command, and returns the answer.
pub(crate) async fn command(
    endpoint: &Endpoint,
    name: Name,
    command: &str,
    signer: Arc<dyn Signer>,
) -> Result<String, Box<dyn Error>> {
    let request = InterestRequest::new(name).parameters(command.into()).signer(signer);
    let answer = endpoint.express(&request).await?;
    Ok(String::from_utf8_lossy(&answer.content()).into_owned())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let key = ndn_security::PrivateKey::generate(ndn_security::KeyType::Ecdsa)?;
    let public = Arc::new(key.public_key()?);
    let signer = ndn_security::KeySigner::new(
        Arc::new(key),
        ndn_security::Locator::Name("/example/operator/KEY/1".parse()?),
    );
    let server = Endpoint::open().await?;
    let registration = serve_commands(&server, &"/example/lamp".parse()?, public).await?;
    let operator = Endpoint::open().await?;
    let answer = command(&operator, "/example/lamp".parse()?, "on", Arc::new(signer)).await?;
    println!("{answer}");
    Ok(registration.unregister().await?)
}
