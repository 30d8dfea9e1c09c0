//! The cache on disk without a network.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

const SEGMENT_LEN: usize = 8000;
const TRUST: Sha256Digest = [1; 32];

fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap()
}

fn stat(uri: &str) -> Stat {
    Stat {
        name: name(uri),
        is_directory: false,
        size: None,
        modified_ns: Some(5),
        permissions: Some(0o644),
    }
}

/// A layout of `segments` segments, the last of which has one byte.
fn layout(segments: u64) -> Layout {
    let segment_size = SEGMENT_LEN as u64;
    Layout { size: (segments - 1) * segment_size + 1, segment_size }
}

/// The content of a segment, which differs for each object and segment.
fn content(object: u64, segment: u64, layout: Layout) -> Bytes {
    let length = usize::try_from(layout.length_of(segment)).unwrap();
    let seed = ((object << 32) | segment).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    seed.iter().copied().cycle().take(length).collect::<Vec<_>>().into()
}

/// A cache, and its warnings.
struct Opened {
    cache: Arc<DiskCache>,
    warnings: Arc<Mutex<Vec<String>>>,
}

impl Opened {
    fn new(directory: &Path) -> Self {
        Self::with(directory, DiskCacheOptions::BYTES_MIN)
    }

    fn with(directory: &Path, bytes_max: u64) -> Self {
        let warnings = Arc::new(Mutex::new(Vec::new()));
        let written = Arc::clone(&warnings);
        let warn: Warn = Arc::new(move |text| written.lock().unwrap().push(text.to_owned()));
        let options =
            DiskCacheOptions { bytes_max, warn, ..DiskCacheOptions::new(directory.into()) };
        Self { cache: Arc::new(DiskCache::open(&options)), warnings }
    }

    fn object(&self, number: u64, layout: Layout) -> Arc<CachedObject> {
        self.cache.object(TRUST, &stat(&format!("/x/{number}/v=7")), layout).unwrap()
    }

    fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap().clone()
    }
}

/// The bytes that a directory takes on the disk.
fn measured(directory: &Path) -> u64 {
    files(directory).iter().map(|path| fs::metadata(path).unwrap().blocks() * 512).sum()
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

#[tokio::test]
async fn segments_are_read_by_a_later_process() {
    let directory = TempDir::new().unwrap();
    let layout = layout(300);
    let packet =
        |segment: u64| Some(Sha256Digest::from([u8::try_from(segment % 251).unwrap(); 32]));
    {
        let first = Opened::new(directory.path());
        let object = first.object(3, layout);
        for segment in [0, 1, 2, 130, 131, 200, 299] {
            object.offer(segment, packet(segment), content(3, segment, layout));
        }
        first.cache.flush().await;
        let counters = first.cache.counters();
        assert_eq!((counters.stored, counters.dropped, counters.warning), (7, 0, None));
    }
    let second = Opened::new(directory.path());
    let (found, found_layout) = second.cache.find(TRUST, &name("/x/3/v=7")).await.unwrap();
    assert_eq!(found, Stat { size: Some(layout.size), ..stat("/x/3/v=7") });
    assert_eq!(found_layout, layout);
    let object = second.object(3, layout);
    let read = object.read(0..=299, usize::MAX, Vec::new()).await;
    for (segment, read) in (0..).zip(&read) {
        let is_there = [0, 1, 2, 130, 131, 200, 299].contains(&segment);
        assert_eq!(*read, is_there.then(|| content(3, segment, layout)), "{segment}");
    }
    let counters = second.cache.counters();
    assert_eq!((counters.hits, counters.misses, counters.damaged), (7, 293, 0));
    // The manifest lists the same packets, or another one.
    let other = vec![packet(0), packet(9), packet(2)];
    let read = object.read(0..=2, usize::MAX, other).await;
    assert_eq!(read.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(second.cache.counters().damaged, 1);
    // Another verification, version or length.
    assert_eq!(second.cache.find([2; 32], &name("/x/3/v=7")).await, None);
    assert_eq!(second.cache.find(TRUST, &name("/x/3/v=8")).await, None);
    let stat = stat("/x/3/v=7");
    for object in [
        second.cache.object([2; 32], &stat, layout),
        second.cache.object(TRUST, &stat, Layout { size: layout.size - 1, ..layout }),
    ] {
        assert_eq!(object.unwrap().read(0..=0, 1, Vec::new()).await, [None]);
    }
}

#[tokio::test]
async fn limit_is_kept_and_what_is_used_stays() {
    let directory = TempDir::new().unwrap();
    let opened = Opened::new(directory.path());
    let limit = DiskCacheOptions::BYTES_MIN;
    let layout = layout(131);
    // 60 files of a MiB: twice the limit.
    for number in 0..60 {
        let object = opened.object(number, layout);
        for segment in 0..131 {
            object.offer(segment, None, content(number, segment, layout));
        }
        opened.cache.flush().await;
        assert!(measured(directory.path()) <= limit, "{}", measured(directory.path()));
        let used = opened.object(0, layout).read(0..=130, usize::MAX, Vec::new()).await;
        assert!(used.iter().all(Option::is_some), "object 0 is used after {number}");
        // The time of use has the resolution of the kernel's tick.
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let newest = opened.object(59, layout).read(0..=130, usize::MAX, Vec::new()).await;
    assert!(newest.iter().all(Option::is_some));
    let oldest = opened.object(1, layout).read(0..=130, usize::MAX, Vec::new()).await;
    assert!(oldest.iter().all(Option::is_none));
    assert_eq!(opened.cache.find(TRUST, &name("/x/1/v=7")).await, None, "the record goes, too");
    assert!(opened.cache.find(TRUST, &name("/x/0/v=7")).await.is_some());
    assert!(opened.cache.counters().evicted_bytes > 20 << 20);
    assert!(measured(directory.path()) > limit / 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caches_share_a_directory() {
    let directory = TempDir::new().unwrap();
    let layout = layout(131);
    let work = |number: u64| {
        let path = directory.path().to_owned();
        async move {
            let opened = Opened::new(&path);
            // Both write object 0, and one of their own in turn.
            for round in 0..20 {
                for object in [0, number * 100 + round] {
                    let cached = opened.object(object, layout);
                    for segment in 0..131 {
                        cached.offer(segment, None, content(object, segment, layout));
                    }
                    opened.cache.flush().await;
                    let read = cached.read(0..=130, usize::MAX, Vec::new()).await;
                    for (segment, read) in (0..).zip(read).filter_map(|(s, read)| Some((s, read?)))
                    {
                        assert_eq!(read, content(object, segment, layout));
                    }
                }
            }
            assert!(opened.cache.counters().hits > 0, "process {number} read nothing back");
            opened.warnings()
        }
    };
    let (one, other) = tokio::join!(tokio::spawn(work(1)), tokio::spawn(work(2)));
    assert_eq!((one.unwrap(), other.unwrap()), (Vec::new(), Vec::new()));
    let limit = DiskCacheOptions::BYTES_MIN;
    assert!(measured(directory.path()) <= limit + limit / 16, "{}", measured(directory.path()));
}

#[tokio::test]
async fn content_is_dropped_if_too_little_can_be_removed() {
    let directory = TempDir::new().unwrap();
    // The record of an object is not removed by itself.
    let other = directory.path().join("blocks-1/00/00");
    fs::create_dir_all(&other).unwrap();
    let limit = usize::try_from(DiskCacheOptions::BYTES_MIN).unwrap();
    fs::write(other.join("object"), vec![1; limit]).unwrap();
    let opened = Opened::new(directory.path());
    let layout = layout(10);
    let object = opened.object(1, layout);
    for segment in 0..10 {
        object.offer(segment, None, content(1, segment, layout));
        opened.cache.flush().await;
    }
    let warnings = opened.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("its limit is reached"), "{warnings:?}");
    let counters = opened.cache.counters();
    assert_eq!((counters.stored, counters.dropped), (0, 10));
}

#[tokio::test]
async fn only_this_user_has_access() {
    let directory = TempDir::new().unwrap();
    let given = directory.path().join("cache");
    let opened = Opened::new(&given);
    opened.object(1, layout(1)).offer(0, None, content(1, 0, layout(1)));
    opened.cache.flush().await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let files = files(&given);
    assert_eq!(files.len(), 3, "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{file:?}");
        for above in file.ancestors().skip(1).take_while(|above| above.starts_with(&given)) {
            assert_eq!(mode(above), 0o700, "{above:?}");
        }
    }
}

#[tokio::test]
async fn directory_that_cannot_be_used_is_a_warning() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let open = directory.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    for (path, reason) in [(file, "exists"), (open, "others may write")] {
        let opened = Opened::new(&path);
        let warnings = opened.warnings();
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("no content is cached on disk"), "{warnings:?}");
        assert!(warnings[0].contains(reason) || warnings[0].contains("directory"), "{warnings:?}");
        assert_eq!(opened.cache.counters().warning.as_ref(), warnings.first());
        assert!(opened.cache.object(TRUST, &stat("/x/1/v=7"), layout(1)).is_none());
        assert_eq!(opened.cache.find(TRUST, &name("/x/1/v=7")).await, None);
    }
}

#[tokio::test]
async fn failed_write_is_one_warning() {
    let directory = TempDir::new().unwrap();
    let opened = Opened::new(directory.path());
    let layout = layout(131);
    let object = opened.object(1, layout);
    object.offer(0, None, content(1, 0, layout));
    opened.cache.flush().await;
    // A directory in the place of the next file.
    let stored = files(directory.path()).into_iter().find(|path| path.ends_with("0")).unwrap();
    let large = self::layout(400);
    let other = opened.object(2, large);
    other.offer(0, None, content(2, 0, large));
    opened.cache.flush().await;
    let beside = files(directory.path())
        .into_iter()
        .find(|path| path.ends_with("0") && *path != stored)
        .unwrap();
    fs::create_dir(beside.with_file_name("1")).unwrap();
    for segment in 131..140 {
        other.offer(segment, None, content(2, segment, large));
        opened.cache.flush().await;
    }
    assert_eq!(opened.warnings().len(), 1, "{:?}", opened.warnings());
    let counters = opened.cache.counters();
    assert_eq!((counters.stored, counters.dropped), (2, 9));
    assert_eq!(other.read(131..=131, 1, Vec::new()).await, [None]);
    assert_eq!(other.read(0..=0, 1, Vec::new()).await, [Some(content(2, 0, large))]);
}

#[test]
fn sizes_are_read_from_words() {
    let at = || PathBuf::from("/tmp/cache");
    let size = |text| DiskCacheOptions::from_words(at(), text).map(|options| options.bytes_max);
    assert_eq!(size(None), Ok(10 << 30));
    assert_eq!(size(Some("20GiB")), Ok(20 << 30));
    for (wrong, reason) in [("many", "cache_dir_size: "), ("1MiB", "less than 32MiB")] {
        let error = size(Some(wrong)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(reason), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever happens to the files, no wrong byte is returned.
    #[test]
    fn damage_is_a_miss(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0_u8..4), 1..8)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let directory = TempDir::new().unwrap();
            let layout = layout(140);
            {
                let opened = Opened::new(directory.path());
                for number in 0..2 {
                    let object = opened.object(number, layout);
                    for segment in (0..140).filter(|segment| segment % 7 != 3) {
                        object.offer(segment, None, content(number, segment, layout));
                    }
                }
                opened.cache.flush().await;
            }
            let touched = AtomicUsize::new(0);
            for (file, place, kind) in &changes {
                let mut all = files(directory.path());
                all.sort();
                let path = file.get(&all);
                let mut bytes = fs::read(path).unwrap();
                if bytes.is_empty() {
                    continue;
                }
                let at = place.index(bytes.len());
                match kind {
                    0 => bytes[at] ^= 1 << (at % 8),
                    1 => bytes.truncate(at),
                    2 => bytes[at..].fill(0),
                    // The file of another object, or of other segments.
                    _ => bytes = fs::read(&all[(at + 1) % all.len()]).unwrap(),
                }
                touched.fetch_add(1, Ordering::Relaxed);
                fs::write(path, bytes).unwrap();
            }
            let opened = Opened::new(directory.path());
            let mut missing = 0;
            for number in 0..2 {
                let uri = format!("/x/{number}/v=7");
                if let Some((found, found_layout)) = opened.cache.find(TRUST, &name(&uri)).await {
                    assert_eq!((found.modified_ns, found_layout), (Some(5), layout));
                }
                let object = opened.object(number, layout);
                let read = object.read(0..=139, usize::MAX, Vec::new()).await;
                for (segment, read) in (0..).zip(read) {
                    match read {
                        Some(read) => assert_eq!(read, content(number, segment, layout)),
                        None => missing += 1,
                    }
                }
                // What is missing is stored again.
                for segment in 0..140 {
                    object.offer(segment, None, content(number, segment, layout));
                }
                opened.cache.flush().await;
                let read = object.read(0..=139, usize::MAX, Vec::new()).await;
                assert!(read.iter().all(Option::is_some));
            }
            assert!(missing >= 40 && touched.into_inner() <= changes.len());
        });
    }
}
