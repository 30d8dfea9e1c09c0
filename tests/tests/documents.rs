//! The documents: links, the table of contents, and pages that list what the program has.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(root().join(path))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All Markdown files below a folder, relative to the repository.
fn markdown_below(folder: &str) -> Vec<PathBuf> {
    files_below(folder, "md")
}

fn files_below(folder: &str, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The documents: the book, the pages at the top, the notebook, and the README of each package.
fn documents() -> Vec<PathBuf> {
    let listed = Command::new("git").args(["ls-files", "*.md"]).current_dir(root()).output();
    let listed = listed.map(|output| String::from_utf8(output.stdout).unwrap()).unwrap_or_default();
    let mut documents: BTreeSet<PathBuf> = markdown_below("docs").into_iter().collect();
    documents.extend(listed.lines().map(PathBuf::from).filter(|path| root().join(path).exists()));
    documents.into_iter().collect()
}

/// The lines outside of fenced blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// A line without the text between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// The targets of the links of a page.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text) {
        let line = without_code(line);
        for part in line.split("](").skip(1) {
            if let Some((target, _)) = part.split_once(')') {
                found.push(target.to_owned());
            }
        }
    }
    found
}

/// The anchors of a page, as GitHub and mdBook make them from headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    let slug = |heading: &str| {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>()
    };
    headings.map(slug).collect()
}

/// `base/../target` without the dots.
fn resolve(page: &Path, target: &str) -> PathBuf {
    let mut resolved = PathBuf::new();
    for component in page.parent().unwrap().join(target).components() {
        if component == Component::ParentDir {
            assert!(resolved.pop(), "{}: {target}", page.display());
        } else {
            resolved.push(component);
        }
    }
    resolved
}

#[test]
fn relative_links_and_anchors_exist() {
    let mut wrong = Vec::new();
    let mut anchors_of: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    for page in documents() {
        let text = read(&page);
        for link in links(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (target, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let path = if target.is_empty() { page.clone() } else { resolve(&page, target) };
            if !root().join(&path).exists() {
                wrong.push(format!("{}: {link}", page.display()));
                continue;
            }
            if anchor.is_empty() {
                continue;
            }
            let known = anchors_of.entry(path.clone()).or_insert_with(|| anchors(&read(&path)));
            if !known.contains(anchor) {
                wrong.push(format!("{}: {link} (no such heading)", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_page_is_in_the_table_of_contents_once() {
    let summary = Path::new("docs/SUMMARY.md");
    let mut listed: Vec<PathBuf> =
        links(&read(summary)).iter().map(|link| resolve(summary, link)).collect();
    listed.sort();
    let pages: Vec<PathBuf> =
        markdown_below("docs").into_iter().filter(|page| page != summary).collect();
    assert_eq!(pages, listed);
}

#[test]
fn files_named_by_internals_pages_exist() {
    let mut wrong = Vec::new();
    let pages = markdown_below("docs/internals");
    for page in pages.iter().map(PathBuf::as_path).chain([Path::new("CONTRIBUTING.md")]) {
        for line in prose(&read(page)) {
            for code in line.split('`').skip(1).step_by(2) {
                let is_path = ["crates/", "apps/", "tests/", "scripts/", "bench/", "docs/"]
                    .iter()
                    .any(|folder| code.starts_with(folder));
                if is_path && !code.contains(' ') && !root().join(code).exists() {
                    wrong.push(format!("{}: {code}", page.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_code_map_lists_every_crate() {
    let page = read(Path::new("docs/internals/architecture.md"));
    for folder in ["crates", "apps"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let entry = entry.unwrap();
            if !entry.path().join("Cargo.toml").exists() {
                continue;
            }
            let name = entry.file_name().into_string().unwrap();
            let is_listed =
                page.contains(&format!("`{name}`")) || page.contains(&format!("`{folder}/{name}`"));
            assert!(is_listed, "docs/internals/architecture.md does not list {folder}/{name}");
        }
    }
}

#[test]
fn tests_named_by_the_threat_model_exist() {
    let folders = ["crates", "apps", "tests", "fuzz/src"];
    let mut tests = BTreeSet::new();
    for file in folders.iter().flat_map(|folder| files_below(folder, "rs")) {
        let text = read(&file);
        let attributes = ["#[test]\n", "#[tokio::test]\n", "#[tokio::test("];
        let after_attribute = attributes.iter().flat_map(|one| text.split(one).skip(1));
        for function in after_attribute.filter_map(|rest| rest.split_once("fn ")) {
            tests.insert(function.1.split('(').next().unwrap_or_default().to_owned());
        }
    }
    let page = read(Path::new("docs/operating/security.md"));
    let (_, table) = page.split_once("## Threat model").unwrap();
    let rows = table.lines().skip_while(|line| !line.starts_with('|')).skip(2);
    let (mut wrong, mut count) = (Vec::new(), 0);
    for row in rows.take_while(|line| line.starts_with('|')) {
        let column = row.trim_end_matches(['|', ' ']).rsplit('|').next().unwrap_or_default();
        let names: Vec<_> = column.split('`').skip(1).step_by(2).collect();
        let is_identifier = |name: &&str| name.contains('_') && !name.contains(['/', ' ']);
        let identifiers = names.iter().copied().filter(is_identifier);
        wrong.extend(identifiers.filter(|name| !tests.contains(*name)));
        assert!(!names.is_empty(), "no test is named: {row}");
        count += 1;
    }
    assert!(count > 50, "{count} rows are found");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
