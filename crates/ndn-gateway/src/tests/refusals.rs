//! Rejected requests.

use std::time::Duration;

use super::bed::{Bed, options};
use ndn_files::ServerOptions;

#[tokio::test]
async fn paths_without_a_file_are_rejected() {
    let bed = Bed::new().await;
    bed.write("a", b"1");
    let mut client = bed.connect().await;
    for path in [
        "/../etc/passwd",
        "/a/../../etc/passwd",
        "/%2e%2e/etc/passwd",
        "/..%2fetc%2fpasswd",
        "/a%00.txt",
        "/sub//a",
        "/a%2",
        "/./a",
    ] {
        let answer = client.request("GET", path, &[]).await;
        assert_eq!(answer.status, 400, "{path}: {}", answer.text());
    }
    // Keywords of the protocol are file names here, and such files do not exist.
    for path in
        ["/a/32=metadata", "/a/v=1/seg=0", "/32=ls", "/a%2Fv=1", "/.hidden", "/...", "/none"]
    {
        let status = client.request("GET", path, &[]).await.status;
        assert!(matches!(status, 400 | 404), "{path}: {status}");
    }
    assert_eq!(client.request("GET", "//a", &[]).await.text(), "1");
    assert_eq!(client.request("GET", "/a?x=../..", &[]).await.text(), "1");
}

#[tokio::test]
async fn allowed_methods_are_reported() {
    let bed = Bed::new().await;
    bed.write("a", b"1");
    let mut client = bed.connect().await;
    for path in ["*", "/", "/a", "/none"] {
        let answer = client.request("OPTIONS", path, &[]).await;
        let allow = answer.field("allow").unwrap();
        assert!(answer.status == 200 && allow.contains("GET") && allow.contains("HEAD"), "{path}");
    }
    for method in ["POST", "PUT", "DELETE", "PATCH", "MKCOL", "PROPPATCH"] {
        let answer = bed.request(method, "/a", &[]).await;
        assert_eq!((answer.status, answer.field("allow").is_some()), (405, true), "{method}");
    }
}

#[tokio::test]
async fn http_1_1_requires_a_host() {
    let bed = Bed::new().await;
    bed.write("a", b"1");
    let mut client = bed.connect().await;
    client.send("GET /a HTTP/1.1\r\n\r\n").await;
    assert_eq!(client.answer(false).await.status, 400);
    let mut client = bed.connect().await;
    client.send("GET /a HTTP/1.0\r\n\r\n").await;
    assert_eq!(client.answer(false).await.text(), "1");
    let mut client = bed.connect().await;
    client.send("nonsense\r\n\r\n").await;
    assert_eq!(client.answer(false).await.status, 400);
}

/// A web page whose name resolves to this machine (DNS rebinding) reads nothing.
#[tokio::test]
async fn foreign_hosts_are_rejected() {
    let bed = Bed::new().await;
    bed.write("a", b"1");
    for (request, status) in [
        ("GET /a HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        ("GET / HTTP/1.1\r\nHost: evil.example:80\r\n\r\n", 421),
        ("GET /a HTTP/1.0\r\nHost: evil.example\r\n\r\n", 421),
        ("GET http://evil.example/a HTTP/1.1\r\nHost: localhost\r\n\r\n", 421),
        ("GET /a HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 421),
        ("GET /a HTTP/1.1\r\nHost: localhost:8080\r\n\r\n", 200),
        ("GET /a HTTP/1.1\r\nHost: [::1]\r\n\r\n", 200),
        ("GET http://127.0.0.1:1/a HTTP/1.1\r\nHost: gateway\r\n\r\n", 200),
    ] {
        let mut client = bed.connect().await;
        client.send(request).await;
        assert_eq!(client.answer(false).await.status, status, "{request}");
    }
}

#[tokio::test]
async fn unresponsive_server_is_reported_by_status() {
    let mut options = options();
    options.fetching.lifetime = Duration::from_millis(200);
    options.fetching.give_up_after(0);
    let mut bed = Bed::with(options, ServerOptions::default()).await;
    bed.write("a", b"1");
    bed.stop_server().await;
    let answer = bed.get("/a", &[]).await;
    assert_eq!(answer.status, 504, "{}", answer.text());
    let log = bed.log(1).await;
    assert_eq!(log[0]["status"], 504);
    assert!(log[0]["error"].as_str().unwrap().contains("no answer"), "{log:?}");
}
