//! Attacks by path: whatever the name, nothing outside the mount is served.

use std::os::unix::fs::symlink;

use ndn_packet::ContentType;

use super::bed::{Bed, bytes};
use crate::{Event, RootOptions, ServerOptions};

const REFUSED: Result<crate::FileMetadata, ContentType> = Err(ContentType::NACK);

async fn with(root: RootOptions) -> Bed {
    Bed::with(root, ServerOptions::default(), None).await
}

#[tokio::test]
async fn names_that_leave_the_directory_are_rejected_and_counted() {
    let bed = with(RootOptions { hidden: true, symlinks: true, ..RootOptions::default() }).await;
    bed.write("dir/file", b"content");
    let outside = bed.directory.path().parent().unwrap().join("outside-the-mount");
    let long = "x".repeat(256);
    let deep = "/d".repeat(300);
    let attacks = [
        // `.....` is `..`, `....` is `.`, `...` is empty.
        "/x/...../etc/passwd".to_owned(),
        "/x/dir/...../...../etc".to_owned(),
        "/x/..../dir".to_owned(),
        "/x/dir/.../file".to_owned(),
        "/x/dir%2Ffile".to_owned(),
        "/x/..%2F..%2Fetc%2Fpasswd".to_owned(),
        "/x/%2Fetc%2Fpasswd".to_owned(),
        "/x/dir%00".to_owned(),
        "/x/dir/v=1".to_owned(),
        "/x/seg=1/file".to_owned(),
        format!("/x/{long}"),
        format!("/x{deep}"),
    ];
    for (done, attack) in attacks.iter().enumerate() {
        assert_eq!(bed.metadata(attack).await, REFUSED, "{attack}");
        assert_eq!(bed.count(Event::RefusedPath), u64::try_from(done).unwrap() + 1, "{attack}");
    }
    assert!(!outside.exists());
}

#[tokio::test]
async fn symbolic_links_are_followed_if_enabled_and_never_leave_the_directory() {
    for follow in [false, true] {
        let bed = with(RootOptions { symlinks: follow, ..RootOptions::default() }).await;
        let secret = tempfile::tempdir().unwrap();
        std::fs::write(secret.path().join("secret"), b"secret").unwrap();
        bed.write("dir/file", &bytes(1, 10));
        symlink("dir/file", bed.path("inside")).unwrap();
        symlink("dir", bed.path("dir-inside")).unwrap();
        symlink(secret.path().join("secret"), bed.path("out")).unwrap();
        symlink("../../../../../../etc/passwd", bed.path("up")).unwrap();
        symlink(secret.path(), bed.path("dir-out")).unwrap();
        symlink("/proc/self/cwd", bed.path("magic")).unwrap();
        symlink("loop", bed.path("loop")).unwrap();
        for attack in ["/x/out", "/x/up", "/x/dir-out/secret", "/x/magic/Cargo.toml", "/x/loop"] {
            assert_eq!(bed.metadata(attack).await, REFUSED, "{attack}");
        }
        assert!(bed.count(Event::RefusedEscape) >= 5);
        let found = bed.metadata("/x/inside").await;
        assert_eq!(found.is_ok(), follow);
        assert_eq!(bed.metadata("/x/dir-inside/file").await.is_ok(), follow);
        let listing = bed.fetch("/x").await.unwrap();
        let expected: &[u8] = if follow { b"dir/\0dir-inside/\0inside\0" } else { b"dir/\0" };
        assert_eq!(String::from_utf8_lossy(&listing), String::from_utf8_lossy(expected));
    }
}

#[tokio::test]
async fn special_files_are_never_opened() {
    let bed = Bed::new().await;
    let fifo = bed.path("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(bed.path("socket")).unwrap();
    for uri in ["/x/fifo", "/x/socket"] {
        // Opening a pipe for reading would block until somebody writes.
        assert_eq!(bed.metadata(uri).await, REFUSED);
        assert_eq!(bed.packet(&format!("{uri}/v=1/seg=0")).await, None);
    }
    assert_eq!(bed.count(Event::RefusedSpecial), 4);
    assert_eq!(bed.fetch("/x").await.unwrap(), b"");
}

#[tokio::test]
async fn hidden_files_are_served_only_if_enabled() {
    for hidden in [false, true] {
        let bed = with(RootOptions { hidden, ..RootOptions::default() }).await;
        bed.write(".git/config", b"content");
        bed.write("file", b"content");
        assert_eq!(bed.metadata("/x/.git/config").await.is_ok(), hidden);
        let (_, content) = bed.express("/x/.git/config/32=metadata", true).await.unwrap();
        assert_eq!(content == b"path", !hidden, "the consumer learns why");
        let expected: &[u8] = if hidden { b".git/\0file\0" } else { b"file\0" };
        assert_eq!(bed.fetch("/x").await.unwrap(), expected);
    }
}

#[tokio::test]
async fn other_file_systems_are_entered_only_if_enabled() {
    for other_file_systems in [false, true] {
        let options = RootOptions { other_file_systems, ..RootOptions::default() };
        let root = crate::Root::open(std::path::Path::new("/"), options).unwrap();
        // The proc file system is mounted everywhere where tests run.
        let found = root.stat(std::path::Path::new("proc/version"));
        assert_eq!(found.is_ok(), other_file_systems, "{found:?}");
        // Its magic links lead nowhere in any case.
        assert!(root.stat(std::path::Path::new("proc/self/exe")).is_err());
    }
}

#[tokio::test]
async fn unreadable_file_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let bed = Bed::new().await;
    bed.write("file", b"content");
    std::fs::set_permissions(bed.path("file"), std::fs::Permissions::from_mode(0o0)).unwrap();
    let readable = std::fs::File::open(bed.path("file")).is_ok();
    // Root may read everything.
    assert_eq!(bed.metadata("/x/file").await.is_ok(), readable);
    assert_eq!(bed.count(Event::Denied), u64::from(!readable));
    let (_, content) = bed.express("/x/file/32=metadata", true).await.unwrap();
    assert_eq!(content == b"denied", !readable, "the consumer learns why");
    // A copy of the directory fails, and does not seem complete.
    assert_eq!(bed.fetch("/x").await.unwrap(), b"file\0");
    bed.write("directory/file", b"content");
    let directory = bed.path("directory");
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o0)).unwrap();
    for name in ["/x/directory/32=metadata", "/x/directory/32=ls/32=metadata"] {
        let (_, content) = bed.express(name, true).await.unwrap();
        assert_eq!(content == b"denied", !readable, "{name}");
    }
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o700)).unwrap();
}
