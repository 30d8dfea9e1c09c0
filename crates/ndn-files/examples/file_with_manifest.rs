//! Serves a directory whose files are signed by one key, and fetches a file that must be: `cargo run -p ndn-files --example
//! file_with_manifest`.
//!
//! A manifest lists the digests of all segments of a file, so that one signature covers the file, and segments are
//! verified by their digests in any order.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use ndn_client::Endpoint;
use ndn_client::fetch::{FetchOptions, Verification};
use ndn_files::{FileServer, Mount, RootOptions, ServerOptions, fetch_manifest};
use ndn_packet::Name;
use ndn_security::{KeySigner, KeyType, Locator, PrivateKey};

/// Serves `directory` under `prefix` while the result exists; manifests are signed with `key`.
pub(crate) async fn serve(
    endpoint: &Endpoint,
    directory: &Path,
    prefix: &Name,
    key: &Arc<PrivateKey>,
) -> Result<FileServer, Box<dyn Error>> {
    let signer = KeySigner::new(Arc::clone(key), Locator::Digest(key.key_digest()));
    let options = ServerOptions { signer: Arc::new(signer), ..ServerOptions::default() };
    let mount = Mount::open(prefix.clone(), directory, RootOptions::default())?;
    Ok(FileServer::start(endpoint, vec![mount], &options).await?)
}

/// Fetches the current version of a file of at most `length_max` bytes that the holder of `key` has signed.
pub(crate) async fn fetch(
    endpoint: &Endpoint,
    name: &Name,
    key: &PrivateKey,
    length_max: usize,
) -> Result<Vec<u8>, Box<dyn Error>> {
    let verification = Verification::Verifier(Arc::new(key.public_key()?));
    let options = FetchOptions { verification, ..FetchOptions::default() };
    let found = endpoint.find(name, &options).await?;
    // The server may have to hash a large file first; then it states how long that takes.
    let manifest = fetch_manifest(endpoint, &found, &options, |left| {
        println!("the manifest is ready in about {} s", left.as_secs());
    });
    let manifest = manifest.await?.ok_or("the server offers no manifest")?;
    let by_digest = FetchOptions { verification: manifest.verification(), ..options };
    let content = endpoint.fetch_found(manifest.to_found(), 0, &by_digest);
    Ok(content.collect(length_max).await?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let key = Arc::new(PrivateKey::generate(KeyType::Ed25519)?);
    let producer = Endpoint::open().await?;
    let server = serve(&producer, Path::new("."), &"/example/files".parse()?, &key).await?;
    let consumer = Endpoint::open().await?;
    let content = fetch(&consumer, &"/example/files/Cargo.toml".parse()?, &key, 1 << 24).await?;
    println!("{} bytes, verified", content.len());
    Ok(server.stop().await?)
}
