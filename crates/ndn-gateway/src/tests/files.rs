//! Files and directories, as clients receive them.

use std::sync::Arc;
use std::time::Duration;

use ndn_client::fetch::Verification;
use ndn_client::{Content, PublishOptions};
use ndn_files::ServerOptions;
use ndn_security::{KeySigner, KeyType, Locator, PrivateKey};

use super::bed::{Bed, bytes, name, options, pair};
use crate::{Gateway, GatewayOptions};

#[tokio::test]
async fn file_is_read_whole_and_in_parts() {
    let bed = Bed::new().await;
    let content = bytes(1, 12_345);
    bed.write("sub/ü b.txt", &content);
    let path = "/sub/%C3%BC%20b.txt";
    let whole = bed.get(path, &[]).await;
    assert_eq!((whole.status, &whole.body), (200, &content));
    assert_eq!(whole.field("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(whole.field("accept-ranges"), Some("bytes"));
    assert!(whole.field("ndn-name").unwrap().starts_with("/x/sub/%C3%BC%20b.txt/v="));
    for (range, first, last) in [
        ("bytes=0-0", 0, 0),
        ("bytes=999-1000", 999, 1000),
        ("bytes=1000-1999", 1000, 1999),
        ("bytes=1500-7300", 1500, 7300),
        ("bytes=12344-", 12_344, 12_344),
        ("bytes=-1", 12_344, 12_344),
        ("bytes=-345", 12_000, 12_344),
        ("bytes=0-99999", 0, 12_344),
    ] {
        let part = bed.get(path, &[("Range", range)]).await;
        assert_eq!(part.status, 206, "{range}");
        assert!(part.body == content[first..=last], "{range}");
        let reported = format!("bytes {first}-{last}/12345");
        assert_eq!(part.field("content-range"), Some(reported.as_str()));
    }
    let beyond = bed.get(path, &[("Range", "bytes=12345-")]).await;
    assert_eq!((beyond.status, beyond.field("content-range")), (416, Some("bytes */12345")));
    let ignored = bed.get(path, &[("Range", "bytes=5-2")]).await;
    assert_eq!((ignored.status, &ignored.body), (200, &content));
}

#[tokio::test]
async fn several_ranges_are_sent_as_multipart() {
    let bed = Bed::new().await;
    let content = bytes(2, 5000);
    bed.write("a", &content);
    let answer = bed.get("/a", &[("Range", "bytes=10-19, -5,990-1010,9000-")]).await;
    assert_eq!(answer.status, 206);
    let boundary = answer.field("content-type").unwrap();
    let boundary = boundary.strip_prefix("multipart/byteranges; boundary=").unwrap();
    let mut expected = Vec::new();
    for (first, last) in [(10, 19), (4995, 4999), (990, 1010)] {
        let head = format!(
            "\r\n--{boundary}\r\nContent-Type: application/octet-stream\r\n\
             Content-Range: bytes {first}-{last}/5000\r\n\r\n"
        );
        expected.extend_from_slice(head.as_bytes());
        expected.extend_from_slice(&content[first..=last]);
    }
    expected.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    assert_eq!(String::from_utf8_lossy(&answer.body), String::from_utf8_lossy(&expected));
    assert!(answer.body == expected);
}

#[tokio::test]
async fn head_returns_the_same_headers_without_content() {
    let bed = Bed::new().await;
    bed.write("a", &bytes(3, 5000));
    bed.write("empty", &[]);
    let mut client = bed.connect().await;
    for (path, length) in [("/a", "5000"), ("/empty", "0")] {
        let head = client.request("HEAD", path, &[("Range", "bytes=0-1")]).await;
        assert_eq!((head.status, head.field("content-length")), (200, Some(length)));
        let get = client.request("GET", path, &[]).await;
        assert_eq!((get.status, get.field("content-length")), (200, Some(length)));
        assert_eq!(get.field("etag"), head.field("etag"));
    }
    let none = client.request("GET", "/empty", &[("Range", "bytes=0-")]).await;
    assert_eq!((none.status, none.field("content-range")), (416, Some("bytes */0")));
}

#[tokio::test]
async fn client_with_the_current_version_gets_not_modified() {
    let bed = Bed::new().await;
    bed.write("a", b"one");
    let first = bed.get("/a", &[]).await;
    let (etag, modified) = (first.field("etag").unwrap(), first.field("last-modified").unwrap());
    let again = bed.get("/a", &[("If-None-Match", etag)]).await;
    assert_eq!((again.status, again.body.len(), again.field("etag")), (304, 0, Some(etag)));
    assert_eq!(bed.get("/a", &[("If-Modified-Since", modified)]).await.status, 304);
    assert_eq!(bed.get("/a", &[("If-Match", "\"v1\"")]).await.status, 412);
    let range = [("Range", "bytes=1-1"), ("If-Range", etag)];
    assert_eq!(bed.get("/a", &range).await.text(), "n");

    bed.write("a", b"another");
    let changed = bed.get("/a", &[("If-None-Match", etag)]).await;
    assert_eq!((changed.status, changed.text().as_str()), (200, "another"));
    // A part of the new version must not continue the old one.
    assert_eq!(bed.get("/a", &range).await.text(), "another");
}

#[tokio::test]
async fn directories_are_listed() {
    let bed = Bed::new().await;
    bed.write("d/a&b", b"1");
    bed.write("d/sub/c", b"2");
    let redirect = bed.get("/d", &[]).await;
    assert_eq!((redirect.status, redirect.field("location")), (301, Some("./d/")));
    let html = bed.get("/d/", &[("Accept", "text/html")]).await;
    assert!(html.text().contains("<a href=\"a%26b\">a&amp;b</a>"), "{}", html.text());
    assert!(html.field("content-security-policy").unwrap().starts_with("default-src 'none'"));
    let json = bed.get("/d/", &[("Accept", "application/json")]).await;
    let listing: serde_json::Value = serde_json::from_slice(&json.body).unwrap();
    assert_eq!(listing["name"], "/x/d");
    assert_eq!(listing["entries"][0]["name"], "a&b");
    assert_eq!(listing["entries"][1]["href"], "sub/");
    assert_ne!(html.field("etag"), json.field("etag"));
    let etag = json.field("etag").unwrap();
    let fields = [("Accept", "application/json"), ("If-None-Match", etag)];
    assert_eq!(bed.get("/d/", &fields).await.status, 304);
    let root = bed.get("/", &[]).await;
    assert!(root.text().contains("href=\"d/\"") && !root.text().contains("../"));
    assert_eq!(bed.get("/d/a%26b/", &[]).await.status, 404);
}

#[tokio::test]
async fn content_is_verified_by_its_manifest() {
    let key = |_| Arc::new(PrivateKey::generate(KeyType::Ecdsa).unwrap());
    let keys = [key(0), key(1)];
    let signer = KeySigner::new(Arc::clone(&keys[0]), Locator::Digest(keys[0].key_digest()));
    for (verifier, status) in [(&keys[0], 200), (&keys[1], 502)] {
        let mut options = options();
        let verifier = Arc::new(verifier.public_key().unwrap());
        options.fetching.verification = Verification::Verifier(verifier);
        options.metadata_lifetime = Duration::from_secs(3600);
        let signer = Arc::new(signer.clone());
        let bed = Bed::with(options, ServerOptions { signer, ..ServerOptions::default() }).await;
        let content = bytes(4, 100_000);
        bed.write("a", &content);
        for _ in 0..2 {
            let answer = bed.get("/a", &[]).await;
            assert_eq!(answer.status, status, "{}", answer.text());
            assert_eq!(answer.body == content, status == 200);
        }
        if status == 502 {
            let answer = bed.get("/a", &[]).await;
            assert!(answer.text().contains("does not verify"), "{}", answer.text());
        }
    }
}

/// Requests `/a` until the answer has this status and content; the server checks its files
/// periodically.
async fn get_until(bed: &Bed, status: u16, content: Option<&[u8]>) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let answer = bed.get("/a", &[]).await;
        if answer.status == status && content.is_none_or(|content| answer.body == content) {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{}: {}", answer.status, answer.text());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A version older than a verified one is not served, unless enabled.
#[tokio::test]
async fn older_versions_are_not_cached_again() {
    for allow_older in [false, true] {
        let key = Arc::new(PrivateKey::generate(KeyType::Ecdsa).unwrap());
        let mut options = options();
        let verifier = Arc::new(key.public_key().unwrap());
        options.fetching.verification = Verification::Verifier(verifier);
        options.allow_older = allow_older;
        let signer = Arc::new(KeySigner::new(Arc::clone(&key), Locator::Digest(key.key_digest())));
        let bed = Bed::with(options, ServerOptions { signer, ..ServerOptions::default() }).await;
        let put = |content: &[u8], seconds: u64| {
            bed.write("a", content);
            let file = bed.directory.path().join("a");
            let file = std::fs::File::options().write(true).open(file).unwrap();
            file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
        };
        put(b"second", 2_000_000);
        get_until(&bed, 200, Some(b"second")).await;
        put(b"first", 1_000_000);
        if allow_older {
            get_until(&bed, 200, Some(b"first")).await;
        } else {
            get_until(&bed, 502, None).await;
            assert!(bed.get("/a", &[]).await.text().contains("is older than version 2000000"));
        }
        put(b"third", 3_000_000);
        get_until(&bed, 200, Some(b"third")).await;
    }
}

/// Metadata is cached, yet a changed file is read in its new version.
#[tokio::test]
async fn deleted_version_is_looked_up_again() {
    let mut options = options();
    options.metadata_lifetime = Duration::from_secs(3600);
    let bed = Bed::with(options, ServerOptions::default()).await;
    bed.write("a", &bytes(5, 3000));
    let first = bed.get("/a", &[]).await;
    assert_eq!(first.body, bytes(5, 3000));
    bed.write("a", &bytes(6, 4000));
    let second = bed.get("/a", &[]).await;
    assert_eq!(second.body, bytes(6, 4000), "{}", second.text());
    assert_ne!(first.field("etag"), second.field("etag"));
}

/// Objects of other producers have metadata with a name and no length.
#[tokio::test]
async fn objects_without_length_are_streamed() {
    let (producer, consumer) = pair();
    let content = bytes(7, 30_000);
    let publish = PublishOptions { segment_len: 1000, ..PublishOptions::default() };
    let object = Content::Bytes(content.clone().into());
    let published = producer.publish(&name("/x/object"), object, &publish).await.unwrap();
    let gateway = Gateway::new(consumer, GatewayOptions { ..options() });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move { gateway.serve(listener).await });
    let answer = super::bed::get(address, "/object", &[("Range", "bytes=0-1")]).await;
    assert_eq!((answer.status, answer.field("accept-ranges")), (200, Some("none")));
    assert!(answer.body == content);
    serving.abort();
    drop(published);
}
