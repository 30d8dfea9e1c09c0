//! Fetches an object whose signer must satisfy trust rules:
//! `cargo run -p ndn-client --example trust_rules root.cert /lab/a/report`.
//!
//! Certificates between the object and the trust anchor are fetched by name.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::error::Error;
use std::sync::Arc;

use ndn_client::fetch::{FetchOptions, Verification};
use ndn_client::{Endpoint, Trust};
use ndn_packet::Name;
use ndn_security::Certificate;
use ndn_security::trust::TrustPolicy;

/// Each site signs what is below its name; the root signs the keys of sites.
const RULES: &str = "
anchor root.cert
data /lab/<site>/** by /lab/<site>
key /lab/<site> by /lab
";

/// Fetches an object, if the rules allow its signer and certificates prove it.
pub(crate) async fn fetch_trusted(
    endpoint: &Endpoint,
    name: &Name,
    root: Arc<Certificate>,
) -> Result<Vec<u8>, Box<dyn Error>> {
    // A program would read the file that the rule names.
    let mut load = |_: ndn_security::trust::AnchorSource<'_>| Ok(vec![Arc::clone(&root)]);
    let policy = TrustPolicy::from_text("rules", RULES, &mut load)?.with_anchors_that_expire();
    let verification = Verification::Trust(Arc::new(Trust::new(policy)));
    let options = FetchOptions { verification, ..FetchOptions::default() };
    Ok(endpoint.fetch(name, &options).await?.collect(1 << 24).await?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(file), Some(name)) = (arguments.next(), arguments.next()) else {
        return Err("usage: trust_rules CERTIFICATE NAME".into());
    };
    let root = Arc::new(Certificate::from_text(&std::fs::read_to_string(file)?)?);
    let endpoint = Endpoint::open().await?;
    let content = fetch_trusted(&endpoint, &name.parse()?, root).await?;
    println!("{} bytes", content.len());
    Ok(())
}
