//! docs/reference/nfd-compatibility.md: what is said to work names a test, and the tests that it names exist.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What stands between backticks, each with the crate that is named before it.
fn references(cell: &str) -> Vec<(Option<String>, String)> {
    let mut found = Vec::new();
    let mut owner = None;
    for (index, part) in cell.split('`').enumerate() {
        if index % 2 == 0 {
            let word = part.split_whitespace().rev().find(|word| word.starts_with("ndn-"));
            owner = word.map(str::to_owned).or(owner);
        } else if !part.contains(' ') && !part.contains('.') {
            found.push((owner.clone(), part.to_owned()));
        }
    }
    found
}

/// Where tests with such a name may be.
fn places(owner: Option<&str>) -> Vec<PathBuf> {
    let mut places = vec![root().join("tests/tests"), root().join("apps/namewire/src")];
    if let Some(owner) = owner {
        let own = root().join("crates").join(owner);
        places.extend([own.join("src"), own.join("tests"), own.join("tests/shard"), own]);
    }
    places
}

/// Whether `path` is a module or a function somewhere below `place`: the longest part of it that is a
/// file or a directory, and the rest, in order, inside of it.
fn is_below(place: &Path, path: &str) -> bool {
    let parts: Vec<&str> = path.split([':', '/']).filter(|part| !part.is_empty()).collect();
    (1..=parts.len()).rev().any(|count| {
        let module = parts[..count].iter().fold(place.to_owned(), |path, part| path.join(part));
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
    places(owner).iter().any(|place| is_below(place, path))
}

#[test]
fn what_works_names_its_test_and_the_test_exists() {
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
            wrong.push(format!("{what} works, and no test is named"));
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
fn what_does_not_exist_is_noticed() {
    assert!(exists(None, "compatibility::what_does_not_exist_is_noticed"));
    assert!(exists(Some("ndn-management"), "access::tests"));
    for missing in ["compatibility::no_such_test", "no_such_file", "compatibility::tests::x"] {
        assert!(!exists(Some("ndn-management"), missing), "{missing}");
    }
}
