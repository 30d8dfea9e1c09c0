//! docs/reference/nfd-compatibility.md: every row that works names a test, and the named tests exist.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The parts between backticks, each with the crate that is named before it.
fn references(cell: &str) -> Vec<(Option<String>, String)> {
    let mut found = Vec::new();
    let mut owner = None;
    for (index, part) in cell.split('`').enumerate() {
        if index % 2 == 0 {
            let word = part
                .split_whitespace()
                .rev()
                .find(|word| word.starts_with("ndn-") || word.starts_with("namewire-"));
            owner = word.map(str::to_owned).or(owner);
        } else if !part.contains(' ') && !part.contains('.') {
            found.push((owner.clone(), part.to_owned()));
        }
    }
    found
}

/// The folders that may hold tests of a crate.
fn folders(owner: Option<&str>) -> Vec<PathBuf> {
    let mut folders = vec![root().join("tests/tests"), root().join("apps/namewire/src")];
    if let Some(owner) = owner {
        let own = root().join("crates").join(owner);
        folders.extend([own.join("src"), own.join("tests"), own.join("tests/shard"), own]);
    }
    folders
}

/// Whether `path` is a module or a function below `folder`: the longest part of it that is a
/// file or a directory, and the rest, in order, inside of it.
fn is_below(folder: &Path, path: &str) -> bool {
    let parts: Vec<&str> = path.split([':', '/']).filter(|part| !part.is_empty()).collect();
    (1..=parts.len()).rev().any(|count| {
        let module = parts[..count].iter().fold(folder.to_owned(), |path, part| path.join(part));
        let file = module.with_extension("rs");
        let rest = &parts[count..];
        if rest.is_empty() {
            return file.is_file() || module.is_dir();
        }
        let texts = [file, module.join("mod.rs")].map(std::fs::read_to_string);
        texts.into_iter().flatten().any(|text| {
            rest.iter().all(|part| {
                text.contains(&format!("fn {part}(")) || text.contains(&format!("mod {part} {{"))
            })
        })
    })
}

fn exists(owner: Option<&str>, path: &str) -> bool {
    folders(owner).iter().any(|folder| is_below(folder, path))
}

#[test]
fn rows_that_work_name_existing_tests() {
    let table =
        std::fs::read_to_string(root().join("docs/reference/nfd-compatibility.md")).unwrap();
    let (mut rows, mut wrong) = (0, Vec::new());
    let mut has_tests = false;
    for line in table.lines() {
        let Some(row) = line.strip_prefix("| ").and_then(|line| line.strip_suffix('|')) else {
            has_tests &= line.starts_with('|');
            continue;
        };
        let cells: Vec<&str> = row.split(" |").map(str::trim).collect();
        if cells.get(2) == Some(&"shown by") {
            has_tests = true;
            continue;
        }
        if !has_tests {
            continue;
        }
        let (what, state, shown) = (cells[0], cells[1], cells.get(2).copied().unwrap_or_default());
        rows += 1;
        let named = references(shown);
        let is_named = !named.is_empty() || shown.contains(" tests");
        if state.starts_with("works") && !is_named {
            wrong.push(format!("{what} works, but no test is named"));
        }
        for (owner, path) in named {
            if !exists(owner.as_deref(), &path) {
                wrong.push(format!("{what}: there is no {} {path}", owner.unwrap_or_default()));
            }
        }
    }
    assert!(rows > 50, "the tables were not found: {rows}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn missing_tests_are_detected() {
    assert!(exists(None, "compatibility::missing_tests_are_detected"));
    assert!(exists(Some("ndn-management"), "access::tests"));
    for missing in ["compatibility::no_such_test", "no_such_file", "compatibility::tests::x"] {
        assert!(!exists(Some("ndn-management"), missing), "{missing}");
    }
}
