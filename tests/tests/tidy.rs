//! Rules of CONTRIBUTING.md that a program can check.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Largest committed file.
const BYTES_MAX: u64 = 1024 * 1024;
/// Crates that may have unsafe code.
const UNSAFE_ALLOWED: [&str; 4] =
    ["crates/ndn-dpdk", "crates/ndn-ring", "crates/ndn-sha256", "crates/ndn-sys"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The committed files; none in a source archive, which has no git.
fn committed_files() -> Vec<PathBuf> {
    let listed = Command::new("git").arg("ls-files").current_dir(root()).output();
    let Ok(listed) = listed else { return Vec::new() };
    String::from_utf8(listed.stdout)
        .unwrap()
        .lines()
        .map(PathBuf::from)
        .filter(|path| root().join(path).exists())
        .collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(root().join(path))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn with_extension(extension: &str) -> Vec<PathBuf> {
    committed_files()
        .into_iter()
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect()
}

/// Directories of all packages.
fn packages() -> Vec<PathBuf> {
    let manifests = committed_files().into_iter().filter(|path| path.ends_with("Cargo.toml"));
    manifests
        .filter(|path| read(path).contains("[package]"))
        .map(|path| path.parent().unwrap().to_owned())
        .collect()
}

#[test]
fn committed_files_are_small() {
    for path in committed_files() {
        let bytes = std::fs::metadata(root().join(&path)).unwrap().len();
        assert!(bytes <= BYTES_MAX, "{} has {bytes} bytes", path.display());
    }
}

#[test]
fn every_package_has_a_readme_with_three_answers() {
    for package in packages() {
        // Described in the README of the folder above.
        if package.starts_with("fuzz/libfuzzer") || package.starts_with("tests/interop") {
            continue;
        }
        let readme = package.join("README.md");
        assert!(root().join(&readme).exists(), "{} is missing", readme.display());
        let text = read(&readme);
        for question in ["Which thread", "Which file to read first"] {
            assert!(text.contains(question), "{} does not answer: {question}", readme.display());
        }
    }
}

#[test]
fn unsafe_code_is_confined_to_four_crates() {
    let roots = with_extension("rs")
        .into_iter()
        .filter(|path| path.ends_with("src/lib.rs") || path.ends_with("src/main.rs"));
    for path in roots {
        let allowed = UNSAFE_ALLOWED.iter().any(|package| path.starts_with(package));
        let is_fuzzer = path.starts_with("fuzz/libfuzzer");
        assert!(
            allowed || is_fuzzer || read(&path).contains("#![forbid(unsafe_code)]"),
            "{}",
            path.display()
        );
    }
}

#[test]
fn package_lock_files_name_no_registry() {
    for path in committed_files().iter().filter(|path| path.ends_with("package-lock.json")) {
        assert!(
            !read(path).contains("\"resolved\""),
            "{} records where packages came from",
            path.display()
        );
    }
}
