//! Parts of a file, and damage to them.

use std::path::Path;

use super::*;

fn origin(version: u64) -> Origin {
    Origin { name: format!("/object/v={version}"), verification: "digest".to_owned() }
}

fn put(part: &mut PartFile, segment: u64, content: &[u8]) {
    part.write_segment(segment, content).unwrap();
}

/// Why the content cannot be resumed.
fn refusal(part: &mut PartFile, origin: &Origin) -> Option<Unusable> {
    match part.resume(origin, None, &Verification::Skip).unwrap() {
        EarlierFetch::Unusable { reason, .. } => Some(reason),
        EarlierFetch::Nothing | EarlierFetch::WithoutSidecar | EarlierFetch::Resumable(_) => None,
    }
}

/// A directory with the first two segments of `/object/v=1`.
fn interrupted() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("object");
    let mut part = PartFile::open(path.clone()).unwrap();
    part.begin(Some(origin(1))).unwrap();
    put(&mut part, 0, b"first ");
    put(&mut part, 1, b"second");
    assert_eq!(part.keep(), Some(12));
    assert!(!path.exists());
    (directory, path)
}

#[test]
fn interrupted_fetch_is_resumed() {
    let (directory, path) = interrupted();
    let mut part = PartFile::open(path.clone()).unwrap();
    let progress = part.resume(&origin(1), None, &Verification::Skip).unwrap().progress().unwrap();
    assert_eq!((progress.segments, progress.bytes, progress.segment_len), (2, 12, 6));
    assert_eq!(part.head(6).unwrap(), b"first ");
    put(&mut part, 2, b"third");
    // Interrupted once more.
    assert_eq!(part.keep(), Some(17));
    let mut part = PartFile::open(path.clone()).unwrap();
    assert_eq!(
        part.resume(&origin(1), None, &Verification::Skip).unwrap().progress().unwrap().segments,
        3
    );
    part.complete().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"first secondthird");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
}

#[test]
fn part_of_another_object_is_not_resumed() {
    let (_directory, path) = interrupted();
    let mut part = PartFile::open(path.clone()).unwrap();
    assert_eq!(refusal(&mut part, &origin(2)), Some(Unusable::OfAnother));
    let other_key = Origin { verification: "key 1".to_owned(), ..origin(1) };
    assert_eq!(refusal(&mut part, &other_key), Some(Unusable::OtherVerification));
    part.begin(Some(origin(2))).unwrap();
    put(&mut part, 0, b"new");
    part.complete().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
}

#[test]
fn earlier_part_is_kept_until_a_fetch_begins() {
    let (_directory, path) = interrupted();
    // Nothing arrived to replace it: a wrong signature, or no answer.
    let mut part = PartFile::open(path.clone()).unwrap();
    assert_eq!(refusal(&mut part, &origin(2)), Some(Unusable::OfAnother));
    assert_eq!(part.keep(), Some(12));
    let mut part = PartFile::open(path.clone()).unwrap();
    assert_eq!(
        part.resume(&origin(1), None, &Verification::Skip).unwrap().progress().unwrap().segments,
        2
    );
    // Once a fetch has begun, its own state is kept.
    part.begin(Some(origin(2))).unwrap();
    assert_eq!(part.keep(), None);
    assert!(!hidden_names(&path).unwrap().0.exists());
}

#[test]
fn failed_fetch_without_content_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let part = PartFile::open(directory.path().join("object")).unwrap();
    assert_eq!(part.keep(), None);
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
}

#[test]
fn sidecar_without_its_part_is_ignored() {
    let (directory, path) = interrupted();
    let (part_path, sidecar) = hidden_names(&path).unwrap();
    fs::remove_file(part_path).unwrap();
    let part = PartFile::open(path.clone()).unwrap();
    assert_eq!(part.earlier_fetch(&origin(1)), EarlierFetch::Nothing);
    assert_eq!(part.keep(), None, "nothing can be resumed");
    assert!(!sidecar.exists());
    let mut part = PartFile::open(path.clone()).unwrap();
    part.begin(Some(origin(1))).unwrap();
    put(&mut part, 0, b"all");
    part.complete().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"all");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
}

#[test]
fn damaged_part_is_not_resumed() {
    let damages: [fn(&Path, &Path); 4] = [
        |part, _| fs::write(part, "first secon").unwrap(),
        |part, _| fs::write(part, "first sEcond").unwrap(),
        |_, sidecar| fs::write(sidecar, "{").unwrap(),
        |_, sidecar| fs::remove_file(sidecar).unwrap(),
    ];
    for damage in damages {
        let (_directory, path) = interrupted();
        let (part_path, sidecar) = hidden_names(&path).unwrap();
        damage(&part_path, &sidecar);
        let mut part = PartFile::open(path).unwrap();
        assert_eq!(part.resume(&origin(1), None, &Verification::Skip).unwrap().progress(), None);
    }
    // More than the sidecar states: the rest was written after it.
    let (_directory, path) = interrupted();
    let (part_path, _) = hidden_names(&path).unwrap();
    fs::write(part_path, "first secondthi").unwrap();
    let mut part = PartFile::open(path.clone()).unwrap();
    assert!(part.resume(&origin(1), None, &Verification::Skip).unwrap().progress().is_some());
    put(&mut part, 2, b"third");
    part.complete().unwrap();
    assert_eq!(fs::read(path).unwrap(), b"first secondthird");
}

#[test]
fn part_is_locked_by_one_fetch() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("object");
    let first = PartFile::open(path.clone()).unwrap();
    assert!(matches!(PartFile::open(path.clone()), Err(PartError::Busy(_))));
    first.discard();
    assert!(PartFile::open(path).is_ok());
}

#[test]
fn symbolic_links_are_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("object");
    let (part, sidecar) = hidden_names(&path).unwrap();
    let victim = directory.path().join("victim");
    fs::write(&victim, "mine").unwrap();
    std::os::unix::fs::symlink(&victim, &part).unwrap();
    assert!(PartFile::open(path.clone()).is_err());
    fs::remove_file(&part).unwrap();
    fs::hard_link(&victim, &part).unwrap();
    assert!(PartFile::open(path.clone()).is_err());
    fs::remove_file(&part).unwrap();
    std::os::unix::fs::symlink(&victim, &sidecar).unwrap();
    let mut file = PartFile::open(path).unwrap();
    assert_eq!(file.resume(&origin(1), None, &Verification::Skip).unwrap(), EarlierFetch::Nothing);
    file.begin(Some(origin(1))).unwrap();
    put(&mut file, 0, b"x");
    assert!(file.keep().is_some());
    assert_eq!(fs::read(&victim).unwrap(), b"mine");
}

#[test]
fn unusable_part_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x".repeat(255));
    for (origin, content) in [(None, Some(b"x")), (Some(origin(1)), None)] {
        let mut part = PartFile::open(path.clone()).unwrap();
        part.begin(origin).unwrap();
        if let Some(content) = content {
            put(&mut part, 0, content);
        }
        assert_eq!(part.keep(), None);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    }
}

#[test]
fn segments_may_arrive_in_any_order() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("object");
    let mut part = PartFile::open(path.clone()).unwrap();
    part.begin(Some(origin(1))).unwrap();
    part.set_segment_len(2);
    for (segment, content) in [(3, &b"7"[..]), (1, b"34"), (0, b"12")] {
        put(&mut part, segment, content);
    }
    assert_eq!(part.segments(), 2);
    assert_eq!(part.keep(), Some(4));
    let mut part = PartFile::open(path.clone()).unwrap();
    assert_eq!(
        part.resume(&origin(1), None, &Verification::Skip).unwrap().progress().unwrap().segments,
        2
    );
    part.reserve(7).unwrap();
    put(&mut part, 3, b"7");
    put(&mut part, 2, b"56");
    part.complete().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"1234567");
}

#[test]
fn segment_after_a_shorter_one_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let mut part = PartFile::open(directory.path().join("object")).unwrap();
    part.begin(None).unwrap();
    put(&mut part, 0, b"12");
    put(&mut part, 1, b"3");
    let stored = Stored { segment: 2, length: 2, checksum: Some(0) };
    assert!(matches!(part.note(stored), Err(NoteError::Irregular(_))));
    part.discard();
}

#[test]
fn lack_of_space_is_reported_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let part = PartFile::open(directory.path().join("object")).unwrap();
    assert!(matches!(part.reserve(1 << 60), Err(PartError::DiskFull { .. })));
    part.discard();
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
}

#[test]
fn names_of_parts_and_sidecars_are_reserved() {
    for path in ["foo", ".foo", "foo.part", &"x".repeat(255)] {
        let (part, sidecar) = hidden_names(Path::new(path)).unwrap();
        let mut new = sidecar.clone();
        new.as_mut_os_string().push(".new");
        for hidden in [part, sidecar, new] {
            assert!(is_reserved_name(hidden.as_os_str().as_bytes()), "{}", hidden.display());
            let refused = PartFile::open(Path::new("/nowhere").join(&hidden));
            assert!(matches!(refused, Err(PartError::Reserved(_))), "{}", hidden.display());
        }
    }
    for name in [".Foo.PART", ".foo.part.Json", ".foo.part. .", ".foo.part.j\u{17f}on", "..part"] {
        assert!(is_reserved_name(name.as_bytes()), "{name}");
    }
    for name in
        ["", ".", "..", "foo.part", "foo.part.json", ".foo", ".partly", ".foo.partial", ". "]
    {
        assert!(!is_reserved_name(name.as_bytes()), "{name}");
    }
}

#[test]
fn sidecar_with_a_wider_mode_is_ignored() {
    use std::os::unix::fs::PermissionsExt;
    let (_directory, path) = interrupted();
    let (_, sidecar) = hidden_names(&path).unwrap();
    let resumed_with = |mode| {
        fs::set_permissions(&sidecar, fs::Permissions::from_mode(mode)).unwrap();
        let mut part = PartFile::open(path.clone()).unwrap();
        part.resume(&origin(1), None, &Verification::Skip).unwrap().progress().is_some()
    };
    assert_eq!(fs::metadata(&sidecar).unwrap().permissions().mode() & 0o7777, 0o600);
    for mode in [0o644, 0o640, 0o660, 0o604, 0o700] {
        assert!(!resumed_with(mode), "{mode:o}");
    }
    assert!(resumed_with(0o600));
}

fn make_pipe(path: &Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

/// A killed fetch leaves what the sidecar states, and there is one soon.
#[test]
fn sidecar_is_written_early_and_then_less_often() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("object");
    let (_, sidecar) = hidden_names(&path).unwrap();
    let mut part = PartFile::open(path.clone()).unwrap();
    part.begin(Some(origin(1))).unwrap();
    part.set_segment_len(4096);
    // What a fetch finds after one that was killed.
    let left = || {
        let copies = tempfile::tempdir().unwrap();
        let (copied_part, copied_sidecar) = hidden_names(&copies.path().join("object")).unwrap();
        fs::copy(hidden_names(&path).unwrap().0, copied_part).unwrap();
        let _ = fs::copy(&sidecar, copied_sidecar);
        PartFile::open(copies.path().join("object")).unwrap().earlier_fetch(&origin(1))
    };
    assert_eq!(left(), EarlierFetch::Nothing);
    let mut reported = Vec::new();
    for segment in 0..1024 {
        put(&mut part, segment, &[0x5a; 4096]);
        match left() {
            EarlierFetch::WithoutSidecar => assert!(reported.is_empty()),
            EarlierFetch::Resumable(progress) if reported.last() != Some(&progress.bytes) => {
                assert_eq!(progress.bytes, (segment + 1) * 4096);
                reported.push(progress.bytes);
            }
            EarlierFetch::Resumable(progress) => assert!(progress.bytes * 2 > segment * 4096),
            other @ (EarlierFetch::Nothing | EarlierFetch::Unusable { .. }) => panic!("{other:?}"),
        }
    }
    assert_eq!(reported, [128, 256, 512, 1024, 2048, 4096].map(|kibibytes| kibibytes << 10));
}

/// Opening a pipe waits for a writer, unless told not to.
#[test]
fn opening_a_pipe_does_not_block() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("object");
    make_pipe(&path);
    make_pipe(&directory.path().join(".object.part.json"));
    let part = PartFile::open(path).unwrap();
    assert_eq!(part.earlier_fetch(&origin(1)), EarlierFetch::Nothing);
}

/// Inconsistent values are rejected, whatever they request.
#[test]
fn sidecar_with_inconsistent_values_is_not_resumed() {
    let (directory, path) = interrupted();
    let sidecar = directory.path().join(".object.part.json");
    let text = fs::read_to_string(&sidecar).unwrap();
    let with_checksum: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut without = with_checksum.clone();
    without.as_object_mut().unwrap().remove("xxh64").unwrap();
    for value in [with_checksum, without] {
        for (segment_len, segments, bytes) in [
            (1 << 40, 1, 1 << 40),
            (u64::MAX, 1, u64::MAX),
            (0, 2, 12),
            (6, 3, 12),
            ((1 << 20) + 1, 1, 12),
        ] {
            let mut value = value.clone();
            value["segment_len"] = segment_len.into();
            value["segments"] = segments.into();
            value["bytes"] = bytes.into();
            fs::write(&sidecar, value.to_string()).unwrap();
            let mut part = PartFile::open(path.clone()).unwrap();
            assert_eq!(refusal(&mut part, &origin(1)), Some(Unusable::Damaged), "{value}");
        }
    }
}

/// Some bytes from the middle: the first and the last segment are cut.
#[test]
fn fetch_of_a_byte_range_is_resumed() {
    let object = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("object");
    for (first, end) in [(0, 36), (7, 30), (10, 30), (19, 21), (12, 15), (5, 36)] {
        let extent = Extent { first, end };
        let segments: Vec<&[u8]> = (first / 10..end.div_ceil(10))
            .map(|segment| {
                let from = usize::try_from(first.max(segment * 10)).unwrap();
                &object[from..usize::try_from(end.min(segment * 10 + 10)).unwrap()]
            })
            .collect();
        // Interrupted after each.
        for (number, content) in segments.iter().enumerate() {
            let mut part = PartFile::open(path.clone()).unwrap();
            part.set_extent(extent);
            let left = part.resume(&origin(1), None, &Verification::Skip).unwrap().progress();
            let there = left.map_or(0, |left| left.segments);
            assert_eq!(there, u64::try_from(number).unwrap(), "{extent:?}");
            if there == 0 {
                part.begin(Some(origin(1))).unwrap();
                part.set_segment_len(10);
            }
            put(&mut part, there, content);
            assert!(part.keep().is_some());
        }
        // The state of one extent is not resumed for another, nor for the whole.
        for other in [None, Some(Extent { first, end: end + 1 })] {
            let mut part = PartFile::open(path.clone()).unwrap();
            part.extent = other;
            assert_eq!(refusal(&mut part, &origin(1)), Some(Unusable::OtherExtent));
            part.keep();
        }
        // Nor if it is damaged.
        let hidden = directory.path().join(".object.part");
        let whole = fs::read(&hidden).unwrap();
        let mut damaged = whole.clone();
        *damaged.last_mut().unwrap() ^= 1;
        for (there, expected) in [(&damaged, Some(Unusable::Damaged)), (&whole, None)] {
            fs::write(&hidden, there).unwrap();
            let mut part = PartFile::open(path.clone()).unwrap();
            part.set_extent(extent);
            assert_eq!(refusal(&mut part, &origin(1)), expected);
            if expected.is_some() {
                part.keep();
                continue;
            }
            part.complete().unwrap();
        }
        let (from, to) = (usize::try_from(first).unwrap(), usize::try_from(end).unwrap());
        assert_eq!(fs::read(&path).unwrap(), &object[from..to], "{extent:?}");
        assert_eq!(version::read(&path), None, "a part is no version");
    }
}

/// Metadata of a file with this mode.
fn metadata(mode: u64) -> FileMetadata {
    FileMetadata {
        name: "/object/v=1".parse().unwrap(),
        mode: 0o100_000 | mode,
        mtime_ns: Some(1_000_000_000),
        ..FileMetadata::default()
    }
}

#[test]
fn permissions_of_the_server_are_limited_by_those_of_the_created_file() {
    for (server, created, expected) in [
        (0o777, 0o666, 0o777),
        (0o755, 0o644, 0o755),
        (0o777, 0o664, 0o775),
        (0o4755, 0o600, 0o700),
        (0o666, 0o640, 0o640),
        (0o000, 0o644, 0o600),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("object");
        let mut part = PartFile::open(path.clone()).unwrap();
        // As under another umask.
        part.file.set_permissions(fs::Permissions::from_mode(created)).unwrap();
        part.begin(Some(origin(1))).unwrap();
        put(&mut part, 0, b"all");
        part.set_attributes(Attributes::of(&metadata(server)));
        assert!(part.complete().unwrap());
        let found = fs::metadata(&path).unwrap();
        assert_eq!(found.permissions().mode() & 0o7777, expected, "{server:o} {created:o}");
        assert_eq!(found.modified().unwrap(), SystemTime::UNIX_EPOCH + Duration::from_secs(1));
    }
}

#[test]
fn file_is_complete_where_attributes_cannot_be_set() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("object");
    let mut part = PartFile::open(path.clone()).unwrap();
    part.begin(None).unwrap();
    part.append(b"all").unwrap();
    part.writer.flush().unwrap();
    // Files of proc(5) have fixed permissions.
    part.file = Arc::new(OpenOptions::new().write(true).open("/proc/self/comm").unwrap());
    part.set_durable(false);
    part.set_attributes(Attributes::of(&metadata(0o644)));
    assert!(!part.complete().unwrap());
    assert_eq!(fs::read(&path).unwrap(), b"all");
}

/// The permissions are those of a new file, not of what the link leads to.
#[test]
fn link_is_replaced_and_its_target_is_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let (other, path) = (directory.path().join("other"), directory.path().join("object"));
    fs::write(&other, "mine").unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o777)).unwrap();
    std::os::unix::fs::symlink(&other, &path).unwrap();
    let mut part = PartFile::open(path.clone()).unwrap();
    part.begin(None).unwrap();
    part.append(b"served").unwrap();
    part.complete().unwrap();
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
    assert_eq!(fs::read(&path).unwrap(), b"served");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o111, 0);
    assert_eq!(fs::read(&other).unwrap(), b"mine");
}
