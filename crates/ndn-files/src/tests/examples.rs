//! The example does what it states.

use std::sync::Arc;

use ndn_security::{KeyType, PrivateKey};

use super::bed::{bytes, name, pair};

#[path = "../../examples/file_with_manifest.rs"]
#[expect(dead_code, reason = "tests do not run `main`")]
mod file_with_manifest;

#[tokio::test]
async fn file_is_fetched_under_its_manifest_and_not_with_another_key() {
    let (producer, consumer) = pair();
    let directory = tempfile::tempdir().unwrap();
    let content = bytes(1, 100_000);
    std::fs::write(directory.path().join("file"), &content).unwrap();
    let key = || Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
    let (own, other) = (key(), key());
    let server =
        file_with_manifest::serve(&producer, directory.path(), &name("/x"), &own).await.unwrap();
    let fetch = async |key: &PrivateKey| {
        file_with_manifest::fetch(&consumer, &name("/x/file"), key, 1 << 20).await
    };
    assert!(fetch(&own).await.unwrap() == content);
    let refused = fetch(&other).await.unwrap_err().to_string();
    assert!(refused.contains("does not verify"), "{refused}");
    server.stop().await.unwrap();
}
