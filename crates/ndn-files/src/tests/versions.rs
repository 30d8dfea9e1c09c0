//! Changes that keep the modification time.

use std::fs::{File, Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use super::bed::{Bed, bytes};
use crate::{FileMetadata, ServerOptions};

const FILE_LEN: usize = 100_000;

/// Writes a file, or replaces it by a new one, without another modification time.
fn write_with_time_of(path: &Path, content: &[u8], is_new: bool) {
    let modified = path.metadata().unwrap().modified().unwrap();
    let written = if is_new { path.with_extension("new") } else { path.to_owned() };
    std::fs::write(&written, content).unwrap();
    File::options().write(true).open(&written).unwrap().set_modified(modified).unwrap();
    std::fs::rename(written, path).unwrap();
    assert_eq!(path.metadata().unwrap().modified().unwrap(), modified);
}

fn options(manifests: &Path) -> ServerOptions {
    // Each request finds out whether the path has another file.
    let stat_validity = Duration::ZERO;
    ServerOptions {
        manifest_directory: Some(manifests.to_owned()),
        stat_validity,
        ..Default::default()
    }
}

async fn versions(bed: &Bed, uri: &str) -> (u64, FileMetadata) {
    let metadata = bed.metadata(uri).await.unwrap();
    (metadata.version().unwrap(), metadata)
}

#[tokio::test]
async fn changes_that_keep_the_modification_time_are_new_versions() {
    let (served, manifests) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = served.path().join("file");
    std::fs::write(&path, bytes(0, FILE_LEN)).unwrap();
    let bed = Bed::of(served.path(), options(manifests.path())).await;
    let (first, metadata) = versions(&bed, "/x/file").await;
    assert_eq!(metadata.mtime_ns, Some(first));
    assert!(bed.fetch("/x/file").await.unwrap() == bytes(0, FILE_LEN));
    write_with_time_of(&path, &bytes(1, FILE_LEN), true);
    let (second, metadata) = versions(&bed, "/x/file").await;
    assert_eq!((second, metadata.mtime_ns), (first + 1, Some(first)));
    assert!(bed.fetch("/x/file").await.unwrap() == bytes(1, FILE_LEN));
    // Interests that are still there may see the file before it has its former time: its version is higher than any.
    write_with_time_of(&path, &bytes(2, FILE_LEN), false);
    let (third, metadata) = versions(&bed, "/x/file").await;
    assert!(third > second && metadata.mtime_ns == Some(first));
    assert!(bed.fetch("/x/file").await.unwrap() == bytes(2, FILE_LEN));
    drop(bed);
    // While no server runs.
    write_with_time_of(&path, &bytes(3, FILE_LEN), true);
    let bed = Bed::of(served.path(), options(manifests.path())).await;
    assert_eq!(versions(&bed, "/x/file").await.0, third + 1);
    assert!(bed.fetch("/x/file").await.unwrap() == bytes(3, FILE_LEN));
    drop(bed);
    let bed = Bed::of(served.path(), options(manifests.path())).await;
    assert_eq!(versions(&bed, "/x/file").await.0, third + 1);
    // A server that has seen nothing of this.
    let other = Bed::of(served.path(), ServerOptions::default()).await;
    assert_eq!(versions(&other, "/x/file").await.0, first);
}

#[tokio::test]
async fn new_permissions_and_links_are_no_new_version() {
    let (served, manifests) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (file, length) in [("large", FILE_LEN), ("small", 100)] {
        let path = served.path().join(file);
        std::fs::write(&path, bytes(0, length)).unwrap();
        let bed = Bed::of(served.path(), options(manifests.path())).await;
        let uri = format!("/x/{file}");
        let (first, _) = versions(&bed, &uri).await;
        set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let (second, metadata) = versions(&bed, &uri).await;
        assert_eq!((second, metadata.mode & 0o777), (first, 0o640), "{file}");
        std::fs::hard_link(&path, path.with_extension("link")).unwrap();
        assert_eq!(versions(&bed, &uri).await.0, first, "{file}");
        write_with_time_of(&path, &bytes(1, length), true);
        let (third, _) = versions(&bed, &uri).await;
        assert_eq!(third, first + 1, "{file}");
    }
}

#[tokio::test]
async fn listing_of_a_directory_that_keeps_its_modification_time_is_a_new_version() {
    let bed = Bed::new().await;
    bed.write("d/a", b"");
    let (first, _) = versions(&bed, "/x/d").await;
    assert_eq!(bed.fetch("/x/d").await.unwrap(), b"a\0");
    let directory = File::open(bed.path("d")).unwrap();
    let modified = directory.metadata().unwrap().modified().unwrap();
    bed.write("d/b", b"");
    directory.set_modified(modified).unwrap();
    assert_eq!(bed.fetch("/x/d").await.unwrap(), b"a\0b\0");
    let (second, metadata) = versions(&bed, "/x/d").await;
    assert!(second > first && metadata.mtime_ns == Some(first));
}
