//! Files, listings, versions.

use std::sync::{Arc, Mutex};

use ndn_client::fetch::{FetchError, FetchOptions};
use ndn_packet::ContentType;
use ndn_security::{KeySigner, KeyType, Locator, PrivateKey};

use super::bed::{Bed, bytes, name, pair};
use crate::{Event, FileServer, FileStat, Mount, Observer, RootOptions, ServerOptions};

#[tokio::test]
async fn files_of_many_sizes_are_fetched_completely() {
    let bed = Bed::new().await;
    for (seed, length) in [0, 1, 8191, 8192, 8193, 100_000, 3_000_000].into_iter().enumerate() {
        let content = bytes(seed, length);
        let path = format!("dir/{length}");
        bed.write(&path, &content);
        let metadata = bed.metadata(&format!("/x/{path}")).await.unwrap();
        assert_eq!(metadata.size, Some(u64::try_from(length).unwrap()));
        assert_eq!(metadata.segment_size, Some(8192));
        assert!(!metadata.is_directory());
        let stat = FileStat::of(std::fs::File::open(bed.path(&path)).unwrap()).unwrap();
        assert_eq!(metadata.version(), Some(stat.mtime_ns));
        assert_eq!((metadata.mtime_ns, metadata.mode), (Some(stat.mtime_ns), stat.mode.into()));
        assert!(bed.fetch(&format!("/x/{path}")).await.unwrap() == content, "{length}");
    }
    // A segment may be asked for more than once.
    let least = 8191 + 8192 + 8193 + 1 + 100_000 + 3_000_000;
    assert!(bed.server.counters().content_bytes() >= least);
}

#[tokio::test]
async fn single_file_is_served_by_a_name_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(".file");
    std::fs::write(&path, bytes(1, 100_000)).unwrap();
    std::fs::write(directory.path().join("other"), b"other").unwrap();
    let (producer, consumer) = pair();
    let mount = Mount::open_file(name("/a/object"), &path).unwrap();
    let options = ServerOptions::default();
    let server = FileServer::start(&producer, vec![mount], &options).await.unwrap();
    let fetching = FetchOptions::default();
    let fetched = consumer.fetch(&name("/a/object"), &fetching).await.unwrap();
    assert!(fetched.collect(1 << 20).await.unwrap() == bytes(1, 100_000));
    for other in ["/a/object/other", "/a/object/.file"] {
        let refused = consumer.fetch(&name(other), &fetching).await.unwrap_err();
        assert!(matches!(refused, FetchError::NotFound { .. }), "{refused}");
    }
    assert!(Mount::open_file(name("/a"), directory.path()).is_err());
    drop(server);
}

#[tokio::test]
async fn segment_length_is_configurable_and_fits_the_packet() {
    let options = ServerOptions { packet_len_max: Some(1452), ..ServerOptions::default() };
    let bed = Bed::with(RootOptions::default(), options, Some(1000)).await;
    let content = bytes(3, 50_000);
    bed.write("file", &content);
    let long = "long".repeat(60);
    bed.write(&long, &content);
    assert_eq!(bed.metadata("/x/file").await.unwrap().segment_size, Some(1000));
    let shorter = bed.metadata(&format!("/x/{long}")).await.unwrap().segment_size.unwrap();
    assert_eq!(shorter, 1000);
    assert!(bed.fetch("/x/file").await.unwrap() == content);
    assert!(bed.fetch(&format!("/x/{long}")).await.unwrap() == content);
}

#[tokio::test]
async fn slow_signatures_are_made_on_all_threads() {
    let key = Arc::new(PrivateKey::generate(KeyType::Ecdsa).unwrap());
    let signer = KeySigner::new(Arc::clone(&key), Locator::Digest(key.key_digest()));
    let options =
        ServerOptions { signer: Arc::new(signer), manifests: false, ..Default::default() };
    let bed = Bed::with(RootOptions::default(), options, None).await;
    let content = bytes(5, 1_000_000);
    bed.write("file", &content);
    let verification =
        ndn_client::fetch::Verification::Verifier(Arc::new(key.public_key().unwrap()));
    let fetching = FetchOptions { verification, ..Default::default() };
    let stream = bed.consumer.fetch(&name("/x/file"), &fetching).await.unwrap();
    assert!(stream.collect(usize::MAX).await.unwrap() == content);
}

#[tokio::test]
async fn directories_are_listed() {
    let bed = Bed::new().await;
    for file in ["b", "a/inner", "ä ö", ".hidden", "c"] {
        bed.write(file, b"content");
    }
    let listing = "a/\0b\0c\0ä ö\0".as_bytes();
    for uri in ["/x", "/x/32=ls"] {
        let metadata = bed.metadata(uri).await.unwrap();
        assert!(metadata.is_directory());
        assert_eq!(
            (metadata.size, metadata.segment_size, metadata.final_segment),
            (None, None, None)
        );
        let listed = metadata.name.to_uri();
        assert!(listed.starts_with("/x/32=ls/v="), "{listed}");
        assert!(bed.fetch(uri).await.unwrap() == listing);
    }
    assert_eq!(bed.fetch("/x/a").await.unwrap(), b"inner\0");
    // A file has no listing.
    assert_eq!(bed.metadata("/x/b/32=ls").await, Err(ContentType::NACK));
    // The version of a listing changes with the directory.
    let before = bed.metadata("/x").await.unwrap();
    bed.write("d", b"");
    assert_eq!(bed.fetch("/x").await.unwrap(), "a/\0b\0c\0d\0ä ö\0".as_bytes());
    // What was made once is still there, complete.
    let old = bed.packet(&format!("{}/seg=0", before.name.to_uri())).await.unwrap();
    assert_eq!(old, (ContentType::BLOB, listing.to_vec()));
    let mut other = before.name.clone();
    other.truncate(other.len() - 1);
    other.push_version(1);
    assert_eq!(
        bed.packet(&format!("{}/seg=0", other.to_uri())).await.unwrap().0,
        ContentType::NACK
    );
}

#[tokio::test]
async fn listings_of_many_segments_are_fetched_completely() {
    let bed = Bed::new().await;
    let mut expected = Vec::new();
    for number in 0..3000 {
        let file = format!("file-{number:06}");
        bed.write(&file, b"");
        expected.extend_from_slice(file.as_bytes());
        expected.push(0);
    }
    assert!(bed.fetch("/x").await.unwrap() == expected);
}

#[tokio::test]
async fn missing_files_get_a_nack() {
    let bed = Bed::new().await;
    bed.write("file", &bytes(1, 10_000));
    for uri in ["/x/none", "/x/file/below", "/x/none/32=ls"] {
        assert_eq!(bed.metadata(uri).await, Err(ContentType::NACK), "{uri}");
    }
    assert!(matches!(bed.fetch("/x/none").await, Err(FetchError::NotFound { .. })));
    let metadata = bed.metadata("/x/file").await.unwrap();
    // Fetchers that do not know the end yet ask for what lies beyond it: that is no failure.
    assert_eq!(bed.packet(&format!("{}/seg=2", metadata.name.to_uri())).await, None);
    // Of a file that is not there, a segment is not refused for good: it may come back.
    assert_eq!(bed.packet("/x/none/v=1/seg=0").await, None);
    assert_eq!(bed.packet("/x/file/unknown/32=thing").await, None);
    assert_eq!(bed.count(Event::Unrecognised), 1);
}

#[tokio::test]
async fn content_of_two_versions_is_never_mixed() {
    let options = ServerOptions { stat_validity: std::time::Duration::MAX, ..Default::default() };
    let bed = Bed::with(RootOptions::default(), options, None).await;
    bed.write("file", &bytes(1, 20_000));
    let old = bed.metadata("/x/file").await.unwrap();
    let segment = |name: &ndn_packet::Name, number| format!("{}/seg={number}", name.to_uri());
    assert_eq!(bed.packet(&segment(&old.name, 0)).await.unwrap().1, bytes(1, 20_000)[..8192]);
    // The file is open, and is written to in place.
    bed.write("file", &bytes(2, 20_000));
    assert_eq!(bed.packet(&segment(&old.name, 1)).await.unwrap().0, ContentType::NACK);
    let new = bed.metadata("/x/file").await.unwrap();
    assert!(new.version() > old.version());
    assert_eq!(bed.packet(&segment(&new.name, 1)).await.unwrap().1, bytes(2, 20_000)[8192..16_384]);
    // Truncated, and replaced by another file.
    bed.write("file", &bytes(3, 9000));
    assert_eq!(bed.packet(&segment(&new.name, 2)).await.unwrap().0, ContentType::NACK);
    bed.write("other", &bytes(4, 9000));
    std::fs::rename(bed.path("other"), bed.path("file")).unwrap();
    assert!(bed.fetch("/x/file").await.unwrap() == bytes(4, 9000));
    assert!(bed.count(Event::Changed) >= 2);
    assert!(bed.count(Event::WrongVersion) >= 2);
}

#[tokio::test]
async fn future_version_is_not_nacked() {
    let bed = Bed::new().await;
    bed.write("file", b"content");
    assert_eq!(bed.packet(&format!("/x/file/v={}/seg=0", u64::MAX)).await, None);
}

#[tokio::test]
async fn more_files_than_the_open_limit_are_served() {
    let options = ServerOptions { open_files_max: 4, ..ServerOptions::default() };
    let bed = Bed::with(RootOptions::default(), options, None).await;
    for round in 0..2 {
        for number in 0..20 {
            let path = format!("file-{number}");
            if round == 0 {
                bed.write(&path, &bytes(number, 30_000));
            }
            assert!(bed.fetch(&format!("/x/{path}")).await.unwrap() == bytes(number, 30_000));
        }
    }
}

#[tokio::test]
async fn observer_is_notified_of_fetches_and_rejections() {
    let seen: Arc<Mutex<Vec<(String, Event)>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let observer: Observer =
        Arc::new(move |name, event| noted.lock().unwrap().push((name.to_uri(), event)));
    let options = ServerOptions { observer: Some(observer), ..ServerOptions::default() };
    let bed = Bed::with(RootOptions::default(), options, None).await;
    bed.write("file", &bytes(1, 20_000));
    bed.fetch("/x/file").await.unwrap();
    assert_eq!(bed.metadata("/x/none").await, Err(ContentType::NACK));
    let of = |name: &str| {
        let seen = seen.lock().unwrap();
        let events = seen.iter().filter(|(uri, _)| uri == name).map(|(_, event)| *event);
        events.collect::<Vec<_>>()
    };
    assert_eq!(of("/x/file/32=metadata"), [Event::Metadata]);
    assert_eq!(of("/x/none/32=metadata"), [Event::NotFound]);
    assert_eq!(seen.lock().unwrap().len(), 2, "segments are not observed");
}
