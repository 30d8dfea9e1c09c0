//! Manifests from server to consumer, honest and not.

use std::io::IoSliceMut;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ndn_client::Request;
use ndn_client::fetch::{
    Discovery, FetchError, FetchFailure, FetchOptions, FoundObject, Verification,
};
use ndn_packet::{ContentType, Data, DataBuilder, Name};
use ndn_security::{DigestSigner, KeySigner, KeyType, Locator, PrivateKey, Signer, sign_data};

use super::bed::{Bed, bytes, name, pair};
use crate::manifest::{leaves_name, manifest_name};
use crate::{
    Event, FileMetadata, FileServer, FileSource, FileStat, ListFailure, Manifest, ManifestError,
    Mount, OpenFailure, Opened, Root, RootOptions, ServerOptions, SourceFile, SourceListing,
    fetch_manifest,
};

fn key() -> (Arc<dyn Signer>, FetchOptions) {
    let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
    let signer = KeySigner::new(Arc::clone(&key), Locator::Digest(key.key_digest()));
    let verification = Verification::Verifier(Arc::new(key.public_key().unwrap()));
    let lifetime = Duration::from_secs(2);
    let options = FetchOptions { verification, lifetime, ..FetchOptions::default() };
    (Arc::new(signer), options)
}

async fn with_key(segment_len: usize) -> (Bed, FetchOptions) {
    let (signer, options) = key();
    let serving = ServerOptions { signer, ..ServerOptions::default() };
    (Bed::with(RootOptions::default(), serving, Some(segment_len)).await, options)
}

async fn manifest(
    bed: &Bed,
    uri: &str,
    options: &FetchOptions,
) -> Result<Option<Arc<Manifest>>, ManifestError> {
    let found = bed.consumer.find(&name(uri), options).await.unwrap();
    fetch_manifest(&bed.consumer, &found, options, |_| {}).await
}

async fn fetch(
    bed: &Bed,
    manifest: &Arc<Manifest>,
    options: &FetchOptions,
) -> Result<Vec<u8>, FetchError> {
    let options = FetchOptions { verification: manifest.verification(), ..options.clone() };
    bed.consumer.fetch_found(manifest.to_found(), 0, &options).collect(usize::MAX).await
}

#[tokio::test]
async fn file_of_any_size_is_verified_by_one_signature() {
    // With segments of 200 bytes a node lists five: three levels below the root. Those of 50 bytes are shorter
    // than any node.
    for (segment_len, sizes) in [
        (50, vec![0, 50, 750, 1000]),
        (200, vec![0, 1, 200, 201, 1000, 1001, 50_000]),
        (8192, vec![0, 8192, 3_000_000]),
    ] {
        let (bed, options) = with_key(segment_len).await;
        for size in sizes {
            let content = bytes(size, size);
            let file = format!("file-{size}");
            bed.write(&file, &content);
            let uri = format!("/x/{file}");
            let manifest = manifest(&bed, &uri, &options).await.unwrap().unwrap();
            assert_eq!(manifest.size(), u64::try_from(size).unwrap());
            assert_eq!(
                manifest.segments(),
                u64::try_from(size.div_ceil(segment_len).max(1)).unwrap()
            );
            assert!(fetch(&bed, &manifest, &options).await.unwrap() == content, "{size}");
            // Segments have a valid DigestSha256 for consumers without manifest support.
            assert!(bed.fetch_digest_only(&uri).await == content, "{size}");
        }
        assert!(bed.count(Event::ManifestBuilt) <= 7);
    }
}

/// The metadata of a small file contain its manifest: one signature and one exchange less.
#[tokio::test]
async fn small_files_need_no_packet_for_their_manifest() {
    let (bed, options) = with_key(1000).await;
    for (size, is_in_metadata) in [(0, true), (1, true), (1000, true), (8000, true), (8001, false)]
    {
        let content = bytes(size, size);
        let (file, before) = (format!("file-{size}"), bed.count(Event::ManifestNode));
        bed.write(&file, &content);
        let uri = format!("/x/{file}");
        let manifest = manifest(&bed, &uri, &options).await.unwrap().unwrap();
        assert_eq!(bed.count(Event::ManifestNode) == before, is_in_metadata, "{size}");
        assert!(fetch(&bed, &manifest, &options).await.unwrap() == content, "{size}");
        // The packet exists for consumers that ignore the copy in the metadata.
        let mut root = manifest_name(manifest.object());
        root.push_segment(0);
        let packet = bed.consumer.express(&ndn_client::InterestRequest::new(root)).await.unwrap();
        options.verification.check(&packet.data()).unwrap();
        let root = bed.metadata_of(&uri).await.manifest_root;
        assert!(root.is_none_or(|root| packet.content() == root), "{size}");
    }
    // A file that has changed has another one.
    bed.write("file-1000", &bytes(7, 900));
    let manifest = manifest(&bed, "/x/file-1000", &options).await.unwrap().unwrap();
    assert!(fetch(&bed, &manifest, &options).await.unwrap() == bytes(7, 900));
}

/// Values in metadata count only if their signature was verified: a client that accepted them without a key needs a
/// signed manifest.
#[tokio::test]
async fn claims_of_metadata_are_verified() {
    let (bed, options) = with_key(1000).await;
    bed.write("file", &bytes(1, 900));
    let (_, other) = key();
    let digest = FetchOptions::default();
    let found = bed.consumer.find(&name("/x/file"), &digest).await.unwrap();
    assert!(bed.metadata_of("/x/file").await.manifest_root.is_some());
    let refused = fetch_manifest(&bed.consumer, &found, &other, |_| {}).await.unwrap_err();
    assert!(matches!(refused, ManifestError::Untrusted { .. }), "{refused}");
    assert!(bed.count(Event::ManifestNode) > 0);
    fetch_manifest(&bed.consumer, &found, &options, |_| {}).await.unwrap().unwrap();
    // One that the right key signed, of another object.
    let (signer, options) = key();
    let like = bed.metadata_of("/x/file").await;
    let metadata = FileMetadata { name: name("/forged/file/v=1"), ..like };
    let data_name = name("/forged/file/32=metadata/v=1/seg=0");
    let content = metadata.encode();
    let data = DataBuilder::new(&data_name).final_segment(0).content(&content);
    let packet = sign_data(&data, signer.as_ref()).unwrap();
    let answer = move |request: Request| request.answer(&packet);
    let _attached = bed.producer().attach(&name("/forged"), answer).unwrap();
    let refused = manifest(&bed, "/forged/file", &options).await.unwrap_err();
    assert!(matches!(refused, ManifestError::OfAnother { .. }), "{refused}");
}

/// Metadata that would not fit their packet with it leave the root out, and it is asked for.
#[tokio::test]
async fn manifest_root_is_omitted_from_packets_without_room() {
    let mut have_root = Vec::new();
    for packet_len_max in [500, 1000] {
        let (signer, options) = key();
        let packet_len_max = Some(packet_len_max);
        let serving = ServerOptions { signer, packet_len_max, ..ServerOptions::default() };
        let bed = Bed::with(RootOptions::default(), serving, Some(200)).await;
        bed.write("file", &bytes(1, 750));
        let found = bed.consumer.find(&name("/x/file"), &options).await.unwrap();
        let metadata = FileMetadata::decode(found.metadata().unwrap()).unwrap();
        have_root.push(metadata.manifest_root.is_some());
        let manifest =
            fetch_manifest(&bed.consumer, &found, &options, |_| {}).await.unwrap().unwrap();
        assert!(fetch(&bed, &manifest, &options).await.unwrap() == bytes(1, 750));
    }
    assert_eq!(have_root, [false, true]);
}

/// A range needs the nodes between the root and its segments, and no others.
#[tokio::test]
async fn range_needs_only_the_nodes_above_it() {
    // A node lists four: 250 segments, 63 leaves, 16 and 4 nodes above them.
    let (bed, options) = with_key(200).await;
    let content = bytes(1, 50_000);
    bed.write("file", &content);
    let manifest = manifest(&bed, "/x/file", &options).await.unwrap().unwrap();
    let verification = manifest.verification();
    let mut fetching = FetchOptions { verification, ..options };
    assert_eq!(manifest.known_nodes(), 1);
    for (first, last, known) in [(137, 137, 4), (137, 138, 4), (136, 139, 4), (0, 0, 7)] {
        fetching.config.last_segment_needed = Some(last);
        let stream = bed.consumer.fetch_found(manifest.to_found(), first, &fetching);
        let range = stream.collect(usize::MAX).await.unwrap();
        let at = |segment: u64| usize::try_from(segment * 200).unwrap();
        assert!(range == content[at(first)..at(last + 1)]);
        assert_eq!(manifest.known_nodes(), known, "{first}-{last}");
    }
    // Many readers at a time get what they ask for, and each what others ask for behind that.
    let readers = (0..50).map(|reader| {
        let mut fetching = fetching.clone();
        let (first, found) = (reader * 5, manifest.to_found());
        fetching.config.last_segment_needed = Some(first + 4);
        let stream = bed.consumer.fetch_found(found, first, &fetching);
        tokio::spawn(async move { (first, stream.collect(usize::MAX).await.unwrap()) })
    });
    for reader in readers.collect::<Vec<_>>() {
        let (first, range) = reader.await.unwrap();
        let first = usize::try_from(first * 200).unwrap();
        assert!(range.starts_with(&content[first..first + 1000]));
    }
}

/// A file of 100 GiB whose bytes at `offset` are `content`, and zeros elsewhere.
fn write_sparse(bed: &Bed, path: &str, offset: u64, content: &[u8]) {
    let file = std::fs::File::create(bed.path(path)).unwrap();
    file.set_len(100 << 30).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, content, offset).unwrap();
}

/// While the server hashes a large file, signed leaves verify the ranges that are needed.
#[tokio::test]
async fn file_is_verified_before_it_is_hashed() {
    let (bed, options) = with_key(8192).await;
    let (offset, content) = (77 << 30, bytes(1, 8192));
    write_sparse(&bed, "large", offset, &content);
    let metadata = bed.metadata_of("/x/large").await;
    // Without a directory for digests, so large a file has no manifest at all.
    assert!(metadata.manifest.is_none() && metadata.signed_leaves.is_some());
    bed.write("smaller", &[]);
    std::fs::File::options()
        .write(true)
        .open(bed.path("smaller"))
        .unwrap()
        .set_len(1 << 30)
        .unwrap();
    let smaller = bed.metadata_of("/x/smaller").await;
    assert!(smaller.manifest.is_some() && smaller.preparation_ms.is_some());
    assert!(smaller.signed_leaves.is_some());
    let manifest = manifest(&bed, "/x/large", &options).await.unwrap().unwrap();
    assert_eq!((manifest.size(), manifest.segments()), (100 << 30, (100 << 30) / 8192));
    let verification = manifest.verification();
    let mut fetching = FetchOptions { verification, ..options };
    for (segment, content, leaves) in
        [(offset / 8192, content, 1), (0, vec![0; 8192], 2), (1, vec![0; 8192], 2)]
    {
        fetching.config.last_segment_needed = Some(segment);
        let stream = bed.consumer.fetch_found(manifest.to_found(), segment, &fetching);
        assert!(stream.collect(usize::MAX).await.unwrap() == content);
        assert_eq!(bed.count(Event::SignedLeaf), leaves);
    }
    // Another consumer gets them from memory.
    let found = bed.consumer.fetch_segment(&manifest.to_found(), 5, &fetching).await.unwrap();
    assert!(found.content() == [0; 8192][..]);
    assert_eq!((bed.count(Event::SignedLeaf), bed.count(Event::ManifestBuilt)), (2, 0));
}

/// Leaves that were made one by one become the manifest, without reading the file again.
#[tokio::test]
async fn all_leaves_of_a_file_become_its_manifest() {
    let (bed, options) = with_key(8192).await;
    let file = std::fs::File::create(bed.path("file")).unwrap();
    file.set_len(256 << 20).unwrap();
    let content = bytes(1, 100_000);
    std::os::unix::fs::FileExt::write_all_at(&file, &content, 100 << 20).unwrap();
    let metadata = bed.metadata_of("/x/file").await;
    let fanout = metadata.signed_leaves.unwrap().fanout;
    let by_leaves = manifest(&bed, "/x/file", &options).await.unwrap().unwrap();
    let verification = by_leaves.verification();
    let leaves = by_leaves.segments().div_ceil(fanout);
    assert_eq!(bed.count(Event::ManifestBuilt), 0);
    verification.load(0..=by_leaves.segments() - 1).await.unwrap();
    assert_eq!((bed.count(Event::SignedLeaf), bed.count(Event::ManifestBuilt)), (leaves, 1));
    let metadata = bed.metadata_of("/x/file").await;
    assert!(metadata.signed_leaves.is_none() && metadata.preparation_ms.is_none());
    let whole = manifest(&bed, "/x/file", &options).await.unwrap().unwrap();
    assert_eq!(bed.count(Event::ManifestBuilt), 1);
    // Both list the same digests, which are those of the segments.
    let segment = (100 << 20) / 8192;
    let known = whole.verification();
    known.load(segment..=segment).await.unwrap();
    assert_eq!(known.expected(segment), verification.expected(segment));
    let fetching = FetchOptions { verification: known, ..options };
    let found = bed.consumer.fetch_segment(&whole.to_found(), segment, &fetching).await.unwrap();
    assert!(found.content() == content[..8192]);
}

/// A directory of which the file `slow` takes a while to read.
#[derive(Debug)]
struct WithSlowFile(Root);

#[derive(Debug)]
struct SlowFile(Box<dyn SourceFile>);

impl FileSource for WithSlowFile {
    fn stat(&self, path: &Path) -> Result<FileStat, OpenFailure> {
        self.0.stat(path)
    }

    fn open_file(&self, path: &Path) -> Result<Opened, OpenFailure> {
        let opened = self.0.open_file(path)?;
        if path != Path::new("slow") {
            return Ok(opened);
        }
        Ok(Opened { file: Box::new(SlowFile(opened.file)), ..opened })
    }

    fn list(&self, path: &Path) -> Result<SourceListing, ListFailure> {
        self.0.list(path)
    }

    fn location(&self) -> String {
        self.0.location()
    }

    fn serves_hidden(&self) -> bool {
        self.0.serves_hidden()
    }
}

impl SourceFile for SlowFile {
    fn read(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> std::io::Result<()> {
        // The server measures how fast it hashes.
        std::thread::sleep(Duration::from_millis(100));
        self.0.read(offset, buffers)
    }

    fn is_unchanged(&self, since: &FileStat) -> Result<bool, OpenFailure> {
        self.0.is_unchanged(since)
    }
}

/// Each segment is hashed once for its signature and once for the manifest, however many fetch the file at a time, and
/// whichever is first: a fetch with or without manifest, or the leaf that lists the segment.
#[tokio::test]
async fn first_fetches_hash_each_segment_once() {
    let (signer, options) = key();
    let directory = tempfile::tempdir().unwrap();
    let (content, size) = (bytes(3, 6_000_000), 6_000_000);
    std::fs::write(directory.path().join("file"), &content).unwrap();
    std::fs::write(directory.path().join("slow"), &content[..100_000]).unwrap();
    let root = Root::open(directory.path(), RootOptions::default()).unwrap();
    let mount = Mount::of(name("/x"), Arc::new(WithSlowFile(root)));
    let (producer, consumer) = pair();
    let serving = ServerOptions { signer, threads: Some(3), ..ServerOptions::default() };
    let server = FileServer::start(&producer, vec![mount], &serving).await.unwrap();
    let counters = server.counters();
    let manifest = async |uri: &str| {
        let found = consumer.find(&name(uri), &options).await.unwrap();
        fetch_manifest(&consumer, &found, &options, |_| {}).await.unwrap().unwrap()
    };
    let fetch = async |manifest: &Arc<Manifest>| {
        let verification = manifest.verification();
        let options = FetchOptions { verification, ..options.clone() };
        let fetched = consumer.fetch_found(manifest.to_found(), 0, &options);
        fetched.collect(usize::MAX).await.unwrap()
    };
    let slow = manifest("/x/slow").await;
    assert!(fetch(&slow).await == content[..100_000]);
    assert_eq!((counters.signed_bytes(), counters.digested_bytes()), (100_000, 100_000));
    let leaves = manifest("/x/file").await;
    assert_eq!((counters.signed_bytes(), counters.count(Event::SignedLeaf)), (100_000, 0));
    leaves.verification().load(0..=0).await.unwrap();
    assert!(counters.count(Event::SignedLeaf) > 0, "no signed leaves");
    let other = manifest("/x/file").await;
    let metadata = FetchOptions { discovery: Discovery::Metadata, ..FetchOptions::default() };
    let digest_only = async {
        let fetched = consumer.fetch(&name("/x/file"), &metadata).await.unwrap();
        fetched.collect(usize::MAX).await.unwrap()
    };
    let fetched = tokio::join!(fetch(&leaves), fetch(&other), digest_only);
    assert!(fetched.0 == content && fetched.1 == content && fetched.2 == content);
    let hashed = size + 100_000;
    assert_eq!((counters.signed_bytes(), counters.digested_bytes()), (hashed, hashed));
    // The digests have become the manifest.
    let whole = manifest("/x/file").await;
    assert!(fetch(&whole).await == content);
    assert_eq!((counters.signed_bytes(), counters.digested_bytes()), (hashed, hashed));
    assert_eq!(counters.count(Event::ManifestBuilt), 2);
}

/// Requests for leaves of another version, or beyond the end, do not make the server keep digests of the file.
#[tokio::test]
async fn requests_for_missing_leaves_are_refused_early() {
    let bed = Bed::new().await;
    let content = bytes(1, 100_000);
    bed.write("file", &content);
    let current = bed.metadata_of("/x/file").await.name;
    for (version, leaf, event) in
        [(name("/x/file/v=1"), 0, Event::WrongVersion), (current, 1, Event::BeyondEnd)]
    {
        let mut leaf_name = leaves_name(&version);
        leaf_name.push_segment(leaf);
        bed.packet(&leaf_name.to_string()).await;
        assert_eq!(bed.count(event), 1);
    }
    assert!(bed.fetch_digest_only("/x/file").await == content);
    assert_eq!(bed.server.counters().digested_bytes(), 0);
}

/// A signed leaf is of one object, one layout and one position, and by the right key.
#[tokio::test]
async fn signed_leaves_of_others_are_rejected() {
    let (signer, options) = key();
    let serving = ServerOptions { signer: Arc::clone(&signer), ..ServerOptions::default() };
    let bed = Bed::with(RootOptions::default(), serving, Some(8192)).await;
    write_sparse(&bed, "large", 0, &[]);
    let metadata = bed.metadata_of("/x/large").await;
    let leaves = metadata.signed_leaves.clone().unwrap();
    let mut leaf = leaves.name.clone();
    leaf.push_segment(3);
    let request = ndn_client::InterestRequest::new(leaf);
    let honest = bed.consumer.express(&request).await.unwrap().content();
    let forged = key().0;
    for (uri, layout, signer, is_accepted) in [
        ("/a", metadata.name.clone(), &signer, true),
        ("/b", name("/other/file/v=7"), &signer, false),
        ("/c", metadata.name.clone(), &forged, false),
    ] {
        let (signer, honest) = (Arc::clone(signer), honest.clone());
        let answer = move |request: Request| {
            let name = request.name();
            let data = DataBuilder::new(name).content_type(ContentType::MANIFEST);
            request.answer_with(&data.content(&honest), signer.as_ref()).unwrap();
        };
        let signed_leaves = crate::SignedLeaves { name: name(uri), fanout: leaves.fanout };
        let stated = FileMetadata {
            name: layout.clone(),
            signed_leaves: Some(signed_leaves),
            ..metadata.clone()
        };
        let _attached = bed.producer().attach(&name(uri), answer).unwrap();
        let content = stated.encode();
        let of = name(&format!("{uri}x/file"));
        let metadata_of = move |request: Request| {
            let mut name = request.name().to_name();
            name.push_version(1).push_segment(0);
            let data = DataBuilder::new(&name).content(&content);
            request.answer_with(&data, &DigestSigner).unwrap();
        };
        let _described = bed.producer().attach(&of, metadata_of).unwrap();
        let found = bed.consumer.find(&of, &FetchOptions::default()).await.unwrap();
        let found = fetch_manifest(&bed.consumer, &found, &options, |_| {}).await;
        let verification = found.unwrap().unwrap().verification();
        let third = 3 * leaves.fanout;
        assert_eq!(verification.load(third..=third).await.is_ok(), is_accepted, "{uri}");
        // The digests are those of the segments.
        if is_accepted {
            let expected = verification.expected(third).unwrap();
            let object = FoundObject::known(layout.clone(), metadata.final_segment.unwrap());
            let unverified = FetchOptions::default();
            let segment = bed.consumer.fetch_segment(&object, third, &unverified).await.unwrap();
            assert_eq!(ndn_security::sha256(segment.wire()), expected);
        }
    }
}

#[tokio::test]
async fn manifest_is_built_once_per_version() {
    let (bed, options) = with_key(1000).await;
    bed.write("file", &bytes(1, 100_000));
    let first = manifest(&bed, "/x/file", &options).await.unwrap().unwrap();
    manifest(&bed, "/x/file", &options).await.unwrap().unwrap();
    assert_eq!(bed.count(Event::ManifestBuilt), 1);
    bed.write("file", &bytes(2, 100_000));
    let second = manifest(&bed, "/x/file", &options).await.unwrap().unwrap();
    assert_eq!(bed.count(Event::ManifestBuilt), 2);
    assert!(fetch(&bed, &second, &options).await.unwrap() == bytes(2, 100_000));
    // The old version is gone; nothing of the new one passes for it.
    let old = fetch(&bed, &first, &options).await.unwrap_err();
    assert!(matches!(
        old,
        FetchError::Failed { failure: FetchFailure::ApplicationNack { .. }, .. }
    ));
}

#[tokio::test]
async fn restarted_server_uses_stored_digests() {
    let cache = tempfile::tempdir().unwrap();
    let served = tempfile::tempdir().unwrap();
    let content = bytes(1, 100_000);
    std::fs::write(served.path().join("file"), &content).unwrap();
    for round in 0..2 {
        // Another key each time: what is kept depends on none.
        let (signer, options) = key();
        let manifest_directory = Some(cache.path().join("digests"));
        let serving = ServerOptions { signer, manifest_directory, ..ServerOptions::default() };
        let bed = Bed::of(served.path(), serving).await;
        let manifest = manifest(&bed, "/x/file", &options).await.unwrap().unwrap();
        assert!(fetch(&bed, &manifest, &options).await.unwrap() == content);
        assert_eq!(bed.count(Event::ManifestBuilt), u64::from(round == 0));
        assert_eq!(bed.count(Event::ManifestLoaded), u64::from(round == 1));
    }
}

/// A manifest that does not fit the memory for manifests is served from the disk, where there is one for it.
#[tokio::test]
async fn manifests_larger_than_memory_are_served_from_disk() {
    let served = tempfile::tempdir().unwrap();
    let cache = tempfile::tempdir().unwrap();
    let content = bytes(1, 200_000);
    std::fs::write(served.path().join("file"), &content).unwrap();
    let stored = || {
        let entries = std::fs::read_dir(cache.path()).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some()).collect::<Vec<_>>()
    };
    for (round, disk) in [(0, false), (0, true), (1, true), (2, true)] {
        let (signer, options) = key();
        let serving = ServerOptions {
            signer,
            manifest_bytes_max: 30_000,
            manifest_directory: disk.then(|| cache.path().to_owned()),
            packet_len_max: Some(500),
            ..ServerOptions::default()
        };
        let bed = Bed::of(served.path(), serving).await;
        let found = manifest(&bed, "/x/file", &options).await.unwrap().unwrap();
        assert!(fetch(&bed, &found, &options).await.unwrap() == content);
        if !disk {
            assert_eq!(bed.count(Event::ManifestBuilt), 0, "one that is too large is not built");
            assert!(bed.count(Event::SignedLeaf) > 0);
            continue;
        }
        let event = if round == 1 { Event::ManifestLoaded } else { Event::ManifestBuilt };
        assert_eq!(bed.count(event), 1, "round {round}");
        let [file] = stored().try_into().unwrap();
        // What is on disk is not believed: neither while it is used, nor at the next start.
        if round > 0 {
            let mut changed = std::fs::read(&file).unwrap();
            let middle = changed.len() * 3 / 4;
            changed[middle] ^= 1;
            use std::os::unix::fs::FileExt;
            let open = std::fs::File::options().write(true).open(&file).unwrap();
            open.write_all_at(&changed, 0).unwrap();
        }
        if round == 2 {
            let again = manifest(&bed, "/x/file", &options).await.unwrap().unwrap();
            assert!(fetch(&bed, &again, &options).await.unwrap() == content);
            assert!(bed.count(Event::Failed) > 0 && bed.count(Event::ManifestBuilt) == 2);
        }
    }
}

#[tokio::test]
async fn signature_of_another_key_is_rejected() {
    let (bed, _) = with_key(1000).await;
    let (_, other) = key();
    bed.write("file", &bytes(1, 100_000));
    // Neither the metadata ...
    let found = bed.consumer.find(&name("/x/file"), &other).await;
    assert!(matches!(found, Err(FetchError::Verification { .. })), "{found:?}");
    // ... nor the manifest.
    let digest = FetchOptions::default();
    let found = bed.consumer.find(&name("/x/file"), &digest).await.unwrap();
    let refused = fetch_manifest(&bed.consumer, &found, &other, |_| {}).await.unwrap_err();
    assert!(matches!(refused, ManifestError::Untrusted { .. }), "{refused}");
}

/// Checks `segment` of an honest server against its manifest, after `change` had it.
async fn changed(
    segment: u64,
    change: impl Fn(&mut Vec<u8>),
) -> Result<(), ndn_security::VerifyError> {
    let (bed, options) = with_key(1000).await;
    bed.write("file", &bytes(1, 100_000));
    let manifest = manifest(&bed, "/x/file", &options).await.unwrap().unwrap();
    let request =
        ndn_client::InterestRequest::new(name(&format!("{}/seg={segment}", manifest.object())));
    let received = bed.consumer.express(&request).await.unwrap();
    let mut wire = received.wire().to_vec();
    change(&mut wire);
    manifest.verification().load(0..=u64::MAX).await.unwrap();
    manifest.verification().check(&Data::parse(&wire).unwrap())
}

/// The same packet with other content, under a valid DigestSha256.
fn forge(wire: &mut Vec<u8>, name: &Name, content: &[u8]) {
    let data = DataBuilder::new(name).freshness_ms(10_000).final_segment(99).content(content);
    *wire = sign_data(&data, &DigestSigner).unwrap();
}

#[tokio::test]
async fn unlisted_segments_are_rejected() {
    changed(7, |_| {}).await.unwrap();
    let flipped = changed(7, |wire| *wire.last_mut().unwrap() ^= 1).await;
    assert_eq!(flipped, Err(ndn_security::VerifyError::NotListed));
    let forged = changed(7, |wire| {
        let name = Data::parse(wire).unwrap().name().to_name();
        forge(wire, &name, &[0; 1000]);
    });
    assert_eq!(forged.await, Err(ndn_security::VerifyError::NotListed));
    let moved = changed(7, |wire| {
        let data = Data::parse(wire).unwrap();
        let (content, mut name) =
            (data.content().unwrap().to_vec(), data.name().parent().to_name());
        name.push_segment(8);
        forge(wire, &name, &content);
    });
    assert_eq!(moved.await, Err(ndn_security::VerifyError::NotListed));
    let beyond = changed(7, |wire| {
        let mut name = Data::parse(wire).unwrap().name().parent().to_name();
        name.push_segment(100);
        forge(wire, &name, &[0; 10]);
    });
    assert_eq!(beyond.await, Err(ndn_security::VerifyError::NotListed));
}

#[tokio::test]
async fn object_ends_where_its_manifest_says() {
    let (bed, options) = with_key(1000).await;
    bed.write("file", &bytes(1, 100_000));
    let manifest = manifest(&bed, "/x/file", &options).await.unwrap().unwrap();
    // A truncated object states another last segment, and such a packet is not listed.
    let truncated = FoundObject::known(manifest.object().clone(), 49);
    let options = FetchOptions { verification: manifest.verification(), ..options };
    let fetched = bed.consumer.fetch_found(truncated, 0, &options).collect(usize::MAX).await;
    let wrong = FetchFailure::FinalBlockIdChanged { known: 49, now: 99 };
    assert!(matches!(fetched, Err(FetchError::Failed { failure, .. }) if failure == wrong));
}

#[tokio::test]
async fn unlisted_nodes_are_rejected() {
    let (signer, options) = key();
    // One server announces the manifest, another has a node that is not in it.
    let (bed, _) = with_key(200).await;
    bed.write("file", &bytes(1, 10_000));
    let version = bed.metadata_of("/x/file").await;
    let producer = name("/forged");
    let root_name = name("/forged/file/32=manifest/v=1");
    let packets: Vec<(Name, Vec<u8>)> = forged_manifest(&root_name, signer.as_ref(), &version);
    let answer = move |request: Request| {
        let asked = request.name().to_name();
        if let Some((_, packet)) = packets.iter().find(|(name, _)| name.starts_with(asked.as_ref()))
        {
            request.answer(packet);
        }
    };
    let _attached = bed.producer().attach(&producer, answer).unwrap();
    let manifest = manifest(&bed, "/forged/file", &options).await.unwrap().unwrap();
    manifest.verification().load(0..=1).await.unwrap();
    let refused = manifest.verification().load(2..=3).await.unwrap_err();
    let FetchError::Failed { name, failure } = &refused else { panic!("{refused}") };
    assert_eq!(*name, root_name.to_uri());
    assert!(matches!(failure, FetchFailure::Verification { segment: 2, .. }), "{refused}");
}

/// The behaviour of a cache between server and consumer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cache {
    /// Root, nodes and one segment are others than those of the server, unless fresh ones or those of a
    /// digest are asked for.
    Wrong,
    /// In the place of one segment there is a Nack that nobody signed.
    Nack,
    /// The version is gone: whatever is asked for, unless by a digest, the server says so.
    Gone,
}

/// A file of 50 segments at `/file` behind a cache, with the honest packets of a server.
async fn cached(cache: Cache) -> (Bed, Arc<Manifest>, FetchOptions, Vec<u8>) {
    let (signer, options) = key();
    let serving = ServerOptions { signer: Arc::clone(&signer), ..ServerOptions::default() };
    let bed = Bed::with(RootOptions::default(), serving, Some(200)).await;
    let content = bytes(1, 10_000);
    bed.write("file", &content);
    let honest = manifest(&bed, "/x/file", &options).await.unwrap().unwrap();
    let mut packets: Vec<Vec<u8>> = Vec::new();
    let metadata = bed.metadata_of("/x/file").await;
    for prefix in [honest.object().clone(), metadata.manifest.unwrap()] {
        let (mut segment, mut last) = (0, 0);
        while segment <= last {
            let mut name = prefix.clone();
            name.push_segment(segment);
            let request = ndn_client::InterestRequest::new(name);
            let received = bed.consumer.express(&request).await.unwrap();
            last = received.data().final_block_id().unwrap().as_segment().unwrap();
            packets.push(received.wire().to_vec());
            segment += 1;
        }
    }
    // From now on the cache answers, for all but metadata.
    let answer = move |request: Request| {
        let asked = request.name();
        let by_digest = asked.implicit_digest().is_some();
        let plain = if by_digest { asked.parent() } else { asked };
        let segment = plain.last().and_then(|last| last.as_segment()).unwrap();
        let is_node = plain.components().any(|part| part == crate::request::MANIFEST);
        let honest = packets.iter().find(|packet| Data::parse(packet).unwrap().name() == plain);
        let honest = honest.unwrap();
        let cache_bypass = by_digest || request.interest().must_be_fresh();
        if !is_node && cache != Cache::Wrong && (segment == 7 || cache == Cache::Gone) {
            let nack = DataBuilder::new(plain).content_type(ContentType::NACK);
            if cache == Cache::Gone {
                if !by_digest {
                    request.answer_with(&nack, signer.as_ref()).unwrap();
                }
                return;
            }
            if !cache_bypass {
                request.answer_with(&nack, &DigestSigner).unwrap();
                return;
            }
        }
        if cache == Cache::Wrong && !cache_bypass && (is_node || segment == 9) {
            let data = Data::parse(honest).unwrap();
            let forged = DataBuilder::new(plain)
                .content_type(data.content_type())
                .final_segment(segment)
                .content(data.content().unwrap());
            request.answer_with(&forged, &DigestSigner).unwrap();
            return;
        }
        request.answer(honest);
    };
    let path = honest.object().clone();
    let below = [path, name("/x/file/32=manifest")];
    for prefix in below {
        // It lives as long as the connection.
        std::mem::forget(bed.producer().attach(&prefix, answer.clone()).unwrap());
    }
    (bed, honest, options, content)
}

#[tokio::test]
async fn wrong_packets_in_a_cache_are_bypassed_with_a_manifest() {
    let (bed, honest, options, content) = cached(Cache::Wrong).await;
    let manifest = manifest(&bed, "/x/file", &options).await.unwrap().unwrap();
    assert_eq!((manifest.size(), manifest.segments()), (honest.size(), honest.segments()));
    assert!(fetch(&bed, &manifest, &options).await.unwrap() == content);
}

#[tokio::test]
async fn unsigned_nack_does_not_end_a_manifest_fetch() {
    let (bed, manifest, options, content) = cached(Cache::Nack).await;
    assert!(fetch(&bed, &manifest, &options).await.unwrap() == content);
    let options = FetchOptions { verification: manifest.verification(), ..options };
    let segment = bed.consumer.fetch_segment(&manifest.to_found(), 7, &options).await.unwrap();
    assert!(segment.content() == content[1400..1600]);
}

#[tokio::test]
async fn deleted_version_ends_a_manifest_fetch() {
    let (bed, manifest, options, _) = cached(Cache::Gone).await;
    let gone = |error: FetchError| {
        let failure = FetchFailure::ApplicationNack { segment: 0 };
        let FetchError::Failed { failure: found, .. } = &error else { panic!("{error}") };
        assert_eq!(std::mem::discriminant(found), std::mem::discriminant(&failure), "{error}");
    };
    gone(fetch(&bed, &manifest, &options).await.unwrap_err());
    let options = FetchOptions { verification: manifest.verification(), ..options };
    gone(bed.consumer.fetch_segment(&manifest.to_found(), 7, &options).await.unwrap_err());
}

/// Metadata, a root that lists two nodes, and only the first of those.
fn forged_manifest(
    manifest: &Name,
    signer: &dyn Signer,
    like: &FileMetadata,
) -> Vec<(Name, Vec<u8>)> {
    use ndn_packet::tlv::{append_name, append_number, append_tlv};
    let node = |number: u64, signer: &dyn Signer, content: &[u8]| {
        let mut name = manifest.clone();
        name.push_segment(number);
        let data = DataBuilder::new(&name)
            .content_type(ContentType::MANIFEST)
            .final_segment(2)
            .content(content);
        (name.clone(), sign_data(&data, signer).unwrap())
    };
    let object = name("/forged/file/v=1");
    let metadata = FileMetadata {
        name: object.clone(),
        final_segment: Some(3),
        segment_size: Some(200),
        size: Some(800),
        manifest: Some(manifest.clone()),
        manifest_root: None,
        ..like.clone()
    };
    let metadata_name = name("/forged/file/32=metadata/v=1/seg=0");
    let data = metadata.encode();
    let data = DataBuilder::new(&metadata_name).final_segment(0).content(&data);
    let metadata = (metadata_name.clone(), sign_data(&data, signer).unwrap());
    let first = node(1, &DigestSigner, &[1; 64]);
    let listed = node(2, &DigestSigner, &[2; 64]);
    let instead = node(2, &DigestSigner, &[3; 64]);
    let mut root = Vec::new();
    append_number(&mut root, 0xF530, 1);
    append_name(&mut root, object.as_ref());
    append_number(&mut root, 0xF500, 200);
    append_number(&mut root, 0xF502, 800);
    append_number(&mut root, 0xF532, 2);
    let digests = [ndn_security::sha256(&first.1), ndn_security::sha256(&listed.1)];
    append_tlv(&mut root, 0xF534, digests.as_flattened());
    vec![metadata, node(0, signer, &root), first, instead]
}

/// A manifest that is stored before it is requested needs no hashing then.
#[tokio::test]
async fn manifests_are_prepared_before_they_are_requested() {
    let (signer, options) = key();
    let (directory, digests) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::set_permissions(&digests, std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .unwrap();
    let content = bytes(1, 300_000);
    std::fs::create_dir(directory.path().join("inner")).unwrap();
    let past = std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    for (path, length) in [("large", 300_000), ("inner/large", 200_000), ("small", 10)] {
        let file = std::fs::File::create(directory.path().join(path)).unwrap();
        std::io::Write::write_all(&mut &file, &content[..length]).unwrap();
        file.set_modified(past).unwrap();
    }
    let serving = ServerOptions {
        signer,
        manifest_directory: Some(digests.path().to_owned()),
        prepare_manifests: true,
        ..ServerOptions::default()
    };
    let bed = Bed::of(directory.path(), serving).await;
    let prepared = async {
        while bed.server.preparation().walks == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), prepared).await.unwrap();
    let prepared = bed.server.preparation();
    assert_eq!((prepared.files, prepared.files_total), (2, 2), "small files need none");
    assert_eq!((prepared.bytes, prepared.bytes_total), (500_000, 500_000));
    assert_eq!(bed.count(Event::ManifestBuilt), 2);
    let manifest = manifest(&bed, "/x/large", &options).await.unwrap().unwrap();
    assert!(fetch(&bed, &manifest, &options).await.unwrap() == content);
    assert_eq!((bed.count(Event::ManifestBuilt), bed.count(Event::ManifestLoaded)), (2, 1));
}

/// The consumer waits for a manifest that takes longer than any of its Interests, and reports the server's estimates.
#[tokio::test]
async fn consumer_waits_while_the_manifest_is_prepared() {
    let (signer, options) = key();
    let bed = Bed::new().await;
    let object = name("/y/file/v=7");
    let asked = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = Arc::clone(&asked);
    let answer = move |request: Request| {
        if request.name().component(2) != Some(crate::request::METADATA) {
            return;
        }
        let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let metadata = FileMetadata {
            name: object.clone(),
            final_segment: Some(9),
            segment_size: Some(1000),
            size: Some(10_000),
            mode: 0o100_644,
            manifest: Some(manifest_name(&object)),
            preparation_ms: (number < 3).then_some(600 - 200 * number),
            ..FileMetadata::default()
        };
        let mut name = request.name().to_name();
        name.push_version(number).push_segment(0);
        let content = metadata.encode();
        let data = DataBuilder::new(&name).content(&content).freshness_ms(1);
        request.answer_with(&data, signer.as_ref()).unwrap();
    };
    let _serving = bed.producer().produce(&name("/y"), answer).await.unwrap();
    let options = FetchOptions { lifetime: Duration::from_millis(300), ..options };
    let config = ndn_client::fetch::FetchConfig { retransmissions_max: 0, ..options.config };
    let options = FetchOptions { config, ..options };
    let found = bed.consumer.find(&name("/y/file"), &options).await.unwrap();
    let mut estimates = Vec::new();
    let wait = |left: Duration| estimates.push(left.as_millis());
    let failed = fetch_manifest(&bed.consumer, &found, &options, wait).await.unwrap_err();
    // Nobody answers for the root after all.
    assert!(matches!(failed, ManifestError::Unanswered(_)), "{failed}");
    assert_eq!(estimates, [600, 400, 200]);
    assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 4);
}
