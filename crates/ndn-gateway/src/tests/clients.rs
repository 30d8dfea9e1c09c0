//! Clients of WebDAV and S3, and those with tokens.

use ndn_files::ServerOptions;

use super::bed::{Bed, bytes, options};
use crate::{GatewayOptions, Tokens};

#[tokio::test]
async fn propfind_lists_files_with_their_sizes_and_times() {
    let bed = Bed::new().await;
    bed.write("d/a&b", &bytes(1, 4321));
    bed.write("d/sub/c", b"1");
    let mut client = bed.connect().await;
    let options = client.request("OPTIONS", "/d/", &[]).await;
    assert_eq!(options.field("dav"), Some("1"));
    assert!(options.field("allow").unwrap().contains("PROPFIND"));
    let body = "<?xml version=\"1.0\"?><propfind xmlns=\"DAV:\"><allprop/></propfind>";
    for path in ["/d/", "/d"] {
        client
            .send(&format!(
                "PROPFIND {path} HTTP/1.1\r\nHost: gateway\r\nDepth: 1\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ))
            .await;
        let answer = client.answer(false).await;
        let text = answer.text();
        assert_eq!(answer.status, 207, "{text}");
        assert_eq!(answer.field("content-type"), Some("application/xml; charset=utf-8"));
        assert_eq!(text.matches("<D:response>").count(), 3, "{text}");
        assert!(text.contains("<D:href>/d/</D:href>"), "{text}");
        assert!(text.contains("<D:href>/d/sub/</D:href>"), "{text}");
        let file = text.split("<D:href>/d/a%26b</D:href>").nth(1).unwrap();
        let file = file.split("</D:response>").next().unwrap();
        assert!(file.contains("<D:getcontentlength>4321</D:getcontentlength>"), "{file}");
        assert!(file.contains("<D:getlastmodified>") && file.contains("GMT"), "{file}");
        assert!(file.contains("<D:getetag>&quot;v") && !file.contains("collection"), "{file}");
    }
    let alone = client.request("PROPFIND", "/d/a%26b", &[("Depth", "0")]).await;
    assert_eq!(alone.text().matches("<D:response>").count(), 1, "{}", alone.text());
    for depth in [&[][..], &[("Depth", "infinity")]] {
        assert_eq!(client.request("PROPFIND", "/d/", depth).await.status, 403);
    }
    assert_eq!(client.request("PROPFIND", "/none", &[("Depth", "1")]).await.status, 404);
}

#[tokio::test]
async fn listings_have_sizes_and_times() {
    let bed = Bed::new().await;
    bed.write("d/a", &bytes(1, 4321));
    bed.write("d/sub/c", b"1");
    let html = bed.get("/d/", &[]).await.text();
    assert!(html.contains("<a href=\"a\">a</a> <span>4321 bytes</span> <time>20"), "{html}");
    let json = bed.get("/d/", &[("Accept", "application/json")]).await.text();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["schema"], &json["entries"][0]["bytes"]), (&1.into(), &4321.into()));
    let modified = std::fs::metadata(bed.directory.path().join("d/a")).unwrap().modified().unwrap();
    let modified = modified.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    let stated = json["entries"][0]["modified_ns"].as_u64().unwrap();
    assert_eq!(u128::from(stated), modified);
    assert!(json["entries"][1]["bytes"].is_null(), "a directory");
}

async fn bucket() -> Bed {
    let options = GatewayOptions { bucket: Some("data".to_owned()), ..options() };
    let bed = Bed::with(options, ServerOptions::default()).await;
    bed.write("a/b", &bytes(1, 4321));
    bed.write("a/c/d", b"1");
    bed.write("e f", b"22");
    bed
}

#[tokio::test]
async fn bucket_of_s3_is_listed() {
    let bed = bucket().await;
    let mut client = bed.connect().await;
    let mut list = async |query: &str| {
        let answer = client.request("GET", &format!("/data?list-type=2{query}"), &[]).await;
        let text = answer.text();
        assert_eq!(
            (answer.status, answer.field("content-type")),
            (200, Some("application/xml")),
            "{text}"
        );
        text
    };
    let all = list("").await;
    let keys: Vec<_> =
        all.split("<Key>").skip(1).map(|key| key.split('<').next().unwrap()).collect();
    assert_eq!(keys, ["a/b", "a/c/d", "e f"]);
    assert!(all.contains("<Size>4321</Size>") && all.contains("<IsTruncated>false<"), "{all}");
    let top = list("&delimiter=%2F&prefix=").await;
    assert!(top.contains("<CommonPrefixes><Prefix>a/</Prefix>"), "{top}");
    assert!(!top.contains("<Key>a/b") && top.contains("<Key>e f<"), "{top}");
    let first = list("&max-keys=1&encoding-type=url").await;
    assert!(first.contains("<IsTruncated>true<") && first.contains("<Key>a/b<"), "{first}");
    assert!(list("&prefix=none").await.contains("<KeyCount>0<"));
}

#[tokio::test]
async fn objects_of_s3_are_files() {
    let bed = bucket().await;
    let mut client = bed.connect().await;
    let part = client.request("GET", "/data/a/b", &[("Range", "bytes=10-19")]).await;
    assert_eq!((part.status, part.body), (206, bytes(1, 4321)[10..20].to_vec()));
    let head = client.request("HEAD", "/data/a/b", &[]).await;
    assert_eq!((head.status, head.field("content-length")), (200, Some("4321")));
    assert_eq!(client.request("HEAD", "/data", &[]).await.status, 200);
    let signed = [("x-amz-content-sha256", "UNSIGNED-PAYLOAD")];
    assert!(client.request("GET", "/", &signed).await.text().contains("<Name>data</Name>"));
    let numbered = [("amz-sdk-invocation-id", "1"), ("amz-sdk-request", "attempt=1")];
    assert!(client.request("GET", "/", &numbered).await.text().contains("<Name>data</Name>"));
    assert!(client.request("GET", "/", &[]).await.text().contains("<!DOCTYPE html>"));
    for (path, headers) in [("/other?list-type=2&prefix=", &[][..]), ("/a/b", &numbered[..])] {
        let answer = client.request("GET", path, headers).await;
        assert_eq!((answer.status, answer.field("content-type")), (404, Some("application/xml")));
        assert!(answer.text().contains("<Code>NoSuchBucket</Code>"), "{path}");
    }
    assert!(
        client.request("GET", "/data?location", &[]).await.text().contains("LocationConstraint")
    );
    // Others read the same files at their usual paths.
    assert_eq!(client.request("GET", "/e%20f", &[]).await.text(), "22");
    for (method, path, status, code) in [
        ("GET", "/data/none", 404, "NoSuchKey"),
        ("GET", "/data/a", 404, "NoSuchKey"),
        ("GET", "/data/a/", 404, "NoSuchKey"),
        ("PUT", "/data/x", 405, "MethodNotAllowed"),
        ("DELETE", "/data/e%20f", 405, "MethodNotAllowed"),
        ("PROPFIND", "/data/a", 405, "MethodNotAllowed"),
        ("GET", "/data?versions", 501, "NotImplemented"),
        ("GET", "/data/../x", 400, "InvalidArgument"),
    ] {
        let answer = bed.request(method, path, &[]).await;
        let text = answer.text();
        assert!(
            answer.status == status && text.contains(&format!("<Code>{code}</Code>")),
            "{path}: {text}"
        );
    }
}

#[tokio::test]
async fn clients_without_a_token_read_nothing() {
    let options = GatewayOptions { tokens: Tokens::from_lines("secret\n"), ..options() };
    let bed = Bed::with(options, ServerOptions::default()).await;
    bed.write("a", b"1");
    let mut client = bed.connect().await;
    for (method, path) in
        [("GET", "/a"), ("HEAD", "/a"), ("GET", "/"), ("PROPFIND", "/"), ("OPTIONS", "/a")]
    {
        for fields in [&[][..], &[("Authorization", "Bearer wrong")]] {
            let answer = client.request(method, path, fields).await;
            assert_eq!(answer.status, 401, "{method} {path}");
            assert!(answer.field("www-authenticate").unwrap().starts_with("Bearer"));
        }
    }
    let allowed = client.request("GET", "/a", &[("Authorization", "Bearer secret")]).await;
    assert_eq!(allowed.text(), "1");
}
