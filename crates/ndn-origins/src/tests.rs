//! Origins in memory that count, delay, fail and change.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use ndn_client::fetch::{Discovery, FetchOptions};
use ndn_client::{Endpoint, EndpointOptions, Request};
use ndn_files::{
    FileServer, FileSource, ListFailure, Mount, OpenFailure, Opened, ServerOptions, fetch_manifest,
    parse_listing,
};
use ndn_management::{ControlParameters, ControlResponse};
use ndn_packet::{DataBuilder, Name};
use ndn_security::DigestSigner;
use object_store::memory::InMemory;
use object_store::path::Path as ObjectPath;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::blocks::BLOCK_LEN;
use crate::connect::Connected;
use crate::origin::{Origin, OriginOptions};
use crate::runtime::Runtime;

/// A store in memory, and what tests want to know and change.
#[derive(Debug, Default)]
struct Watched {
    store: InMemory,
    reads: AtomicU64,
    in_flight: AtomicUsize,
    in_flight_most: AtomicUsize,
    delay: Duration,
    ignores_conditions: bool,
    fails: AtomicBool,
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watched")
    }
}

#[async_trait]
impl ObjectStore for Watched {
    async fn put_opts(
        &self,
        location: &ObjectPath,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.store.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &ObjectPath,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &ObjectPath, mut options: GetOptions) -> Result<GetResult> {
        if options.head {
            return self.store.get_opts(location, options).await;
        }
        self.reads.fetch_add(1, Ordering::SeqCst);
        let now = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        self.in_flight_most.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(self.delay).await;
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        if self.fails.load(Ordering::SeqCst) {
            return Err(object_store::Error::Generic { store: "test", source: "broken".into() });
        }
        if self.ignores_conditions {
            (options.if_match, options.if_unmodified_since) = (None, None);
        }
        self.store.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<ObjectPath>>,
    ) -> BoxStream<'static, Result<ObjectPath>> {
        self.store.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&ObjectPath>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&ObjectPath>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(
        &self,
        from: &ObjectPath,
        to: &ObjectPath,
        options: CopyOptions,
    ) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }
}

/// An origin of the objects below `base`, and what changes them.
struct Bed {
    origin: Arc<Origin>,
    store: Arc<Watched>,
    writer: Runtime,
}

impl Bed {
    fn new(store: Watched, options: &OriginOptions) -> Self {
        let store = Arc::new(store);
        let connected = Connected {
            store: Arc::clone(&store) as Arc<dyn ObjectStore>,
            base: ObjectPath::from("base"),
            lists: true,
            lists_states: true,
        };
        let runtime = Runtime::start().unwrap();
        let origin = Arc::new(Origin::of("test".to_owned(), connected, options, runtime));
        Self { origin, store, writer: Runtime::start().unwrap() }
    }

    /// For threads outside of runtimes.
    fn write(&self, path: &str, content: &[u8]) {
        let path = ObjectPath::parse(format!("base/{path}")).unwrap();
        let write = self.store.store.put(&path, content.to_vec().into());
        self.writer.wait(Duration::from_secs(10), write).unwrap().unwrap();
    }

    fn open(&self, path: &str) -> Opened {
        self.origin.open_file(Path::new(path)).unwrap()
    }

    fn reads(&self) -> u64 {
        self.store.reads.load(Ordering::SeqCst)
    }
}

fn read(opened: &Opened, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut content = vec![0; length];
    opened.file.read(offset, &mut [IoSliceMut::new(&mut content)])?;
    Ok(content)
}

fn bytes(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|i| u8::try_from((i * 7 + i / 251 + seed * 31) % 256).unwrap()).collect()
}

/// [`BLOCK_LEN`].
const BLOCK: usize = 1 << 20;

#[test]
fn concurrent_readers_of_a_block_share_one_request() {
    let store = Watched { delay: Duration::from_millis(50), ..Watched::default() };
    let bed = Bed::new(store, &OriginOptions::default());
    let content = bytes(1, BLOCK);
    bed.write("file", &content);
    let opened = bed.open("file");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (opened, content) = (&opened, &content);
            scope.spawn(move || {
                let from = thread * 1000;
                let found = read(opened, from as u64, 5000).unwrap();
                assert!(found == content[from..from + 5000]);
            });
        }
    });
    assert_eq!(bed.reads(), 1);
}

#[test]
fn consecutive_blocks_are_read_ahead_and_distant_ones_are_not() {
    let bed = Bed::new(Watched::default(), &OriginOptions::default());
    let content = bytes(2, 20 * BLOCK + 5);
    bed.write("file", &content);
    let opened = bed.open("file");
    // Across a border, far from the start.
    let from = 12 * BLOCK - 10;
    assert!(read(&opened, from as u64, 20).unwrap() == content[from..from + 20]);
    assert_eq!(bed.reads(), 2);
    assert!(read(&opened, 0, content.len()).unwrap() == content);
    assert_eq!(bed.reads(), 21, "each block once");
    let error = read(&opened, content.len() as u64 - 5, 6).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn requests_in_flight_are_limited() {
    let store = Watched { delay: Duration::from_millis(10), ..Watched::default() };
    let bed = Bed::new(store, &OriginOptions { reads_max: 3, ..OriginOptions::default() });
    let content = bytes(3, 24 * BLOCK);
    bed.write("file", &content);
    assert!(read(&bed.open("file"), 0, content.len()).unwrap() == content);
    assert_eq!(bed.store.in_flight_most.load(Ordering::SeqCst), 3);
}

#[test]
fn object_that_changes_is_never_mixed() {
    for ignores_conditions in [false, true] {
        let store = Watched { ignores_conditions, ..Watched::default() };
        let bed = Bed::new(store, &OriginOptions::default());
        let (old, new) = (bytes(4, 8 * BLOCK), bytes(5, 8 * BLOCK));
        bed.write("file", &old);
        let opened = bed.open("file");
        assert!(read(&opened, 7 * BLOCK_LEN, 10).unwrap() == old[7 * BLOCK..7 * BLOCK + 10]);
        assert!(opened.file.is_unchanged(&opened.stat).unwrap());
        bed.write("file", &new);
        // What is in memory is still of the version that was opened.
        assert!(read(&opened, 7 * BLOCK_LEN, 10).unwrap() == old[7 * BLOCK..7 * BLOCK + 10]);
        let error = read(&opened, 4 * BLOCK_LEN, 10).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(!opened.file.is_unchanged(&opened.stat).unwrap());
        let again = bed.open("file");
        assert_ne!(again.stat.mtime_ns, opened.stat.mtime_ns, "a version of its own");
        assert!(read(&again, 0, new.len()).unwrap() == new);
    }
}

#[test]
fn failed_and_slow_reads_end_and_are_tried_again() {
    let bed = Bed::new(Watched::default(), &OriginOptions::default());
    bed.write("file", b"content");
    let opened = bed.open("file");
    bed.store.fails.store(true, Ordering::SeqCst);
    assert!(read(&opened, 0, 7).unwrap_err().to_string().contains("broken"));
    assert!(opened.file.is_unchanged(&opened.stat).unwrap(), "no answer is no change");
    bed.store.fails.store(false, Ordering::SeqCst);
    assert_eq!(read(&opened, 0, 7).unwrap(), b"content");

    let store = Watched { delay: Duration::from_secs(3600), ..Watched::default() };
    let read_timeout = Duration::from_millis(50);
    let bed = Bed::new(store, &OriginOptions { read_timeout, ..OriginOptions::default() });
    bed.write("file", b"content");
    let error = read(&bed.open("file"), 0, 7).unwrap_err();
    assert!(error.to_string().contains("no answer within"), "{error}");
}

#[test]
fn objects_are_files_and_prefixes_are_directories() {
    let bed = Bed::new(Watched::default(), &OriginOptions::default());
    for path in ["a", "b/c", "b/d/e", "ü b", ".hidden", "b/.hidden/f"] {
        bed.write(path, path.as_bytes());
    }
    let names = |path: &str| {
        let listing = bed.origin.list(Path::new(path)).unwrap();
        let mut names: Vec<_> = listing
            .entries
            .iter()
            .map(|entry| (String::from_utf8(entry.file_name.clone()).unwrap(), entry.is_directory))
            .collect();
        names.sort();
        names
    };
    let entry = |name: &str, is_directory| (name.to_owned(), is_directory);
    assert_eq!(names("."), [entry("a", false), entry("b", true), entry("ü b", false)]);
    assert_eq!(names("b"), [entry("c", false), entry("d", true)]);
    let stat = bed.origin.stat(Path::new("b/c")).unwrap();
    assert_eq!(stat.size, 3);
    let listed = bed.origin.list(Path::new("b")).unwrap();
    let listed = listed.entries.iter().find(|entry| entry.file_name == b"c").unwrap();
    assert!(listed.stat.unwrap().is_same_content(&stat), "listing and HEAD agree");
    for missing in ["x", "b/x", "a/x", "b//c", "..", "b/../a"] {
        let found = bed.origin.stat(Path::new(missing));
        assert_eq!(found, Err(OpenFailure::NotFound), "{missing}");
    }
    let found = bed.origin.list(Path::new("a")).map(|_| ());
    assert_eq!(found, Err(ListFailure::Open(OpenFailure::NotFound)));
    assert_eq!(
        bed.origin.open_file(Path::new("b")).map(|_| ()).unwrap_err(),
        OpenFailure::NotFound
    );
}

fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap()
}

/// Two endpoints at the ends of one stream; the second grants whatever the first registers.
fn pair() -> (Endpoint, Endpoint) {
    let (one, other) = tokio::io::duplex(1 << 20);
    let endpoint = |stream| {
        let (reader, writer) = tokio::io::split(stream);
        Endpoint::from_stream(reader, writer, &EndpointOptions::default())
    };
    let (producer, consumer) = (endpoint(one), endpoint(other));
    let grant = |request: Request| {
        let name = request.name();
        let parameters = name.component(4).unwrap();
        let parameters = ControlParameters::decode(parameters.value()).unwrap();
        let content = ControlResponse::new(200, "OK").with_body(&parameters).to_vec();
        let data = DataBuilder::new(name).content(&content);
        request.answer_with(&data, &DigestSigner).unwrap();
    };
    // It lives as long as the connection.
    std::mem::forget(consumer.attach(&name("/localhost/nfd"), grant).unwrap());
    (producer, consumer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_server_serves_an_origin() {
    let digests = tempfile::tempdir().unwrap();
    let bed = Bed::new(Watched::default(), &OriginOptions::default());
    let (large, small) = (bytes(6, 3 * BLOCK + 77), bytes(7, 100));
    for (path, content) in [("base/large", &large), ("base/sub/small", &small)] {
        bed.store.store.put(&ObjectPath::from(path), content.clone().into()).await.unwrap();
    }
    let (producer, consumer) = pair();
    let mount = || Mount::of(name("/x"), Arc::clone(&bed.origin) as Arc<dyn FileSource>);
    let options = ServerOptions {
        manifest_directory: Some(digests.path().to_owned()),
        prepare_manifests: true,
        ..ServerOptions::default()
    };
    let server = FileServer::start(&producer, vec![mount()], &options).await.unwrap();
    let fetch = async |uri: &str| {
        let options = FetchOptions { discovery: Discovery::Metadata, ..FetchOptions::default() };
        consumer.fetch(&name(uri), &options).await.unwrap().collect(usize::MAX).await.unwrap()
    };
    assert!(fetch("/x/large").await == large);
    assert!(fetch("/x/sub/small").await == small);
    assert_eq!(bed.reads(), 5, "four blocks and a small object, and nothing was hashed ahead");
    let discovery = FetchOptions { discovery: Discovery::Metadata, ..FetchOptions::default() };
    let found = consumer.find(&name("/x/large"), &discovery).await.unwrap();
    let manifest = fetch_manifest(&consumer, &found, &discovery, |_| {}).await.unwrap();
    assert_eq!(manifest.unwrap().size(), large.len() as u64);
    let listing = fetch("/x/32=ls").await;
    let listing = parse_listing(&listing).unwrap();
    assert_eq!(listing.iter().map(|entry| entry.is_directory).collect::<Vec<_>>(), [false, true]);
    drop(server);
}
