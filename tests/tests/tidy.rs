//! Rules of CONTRIBUTING.md that a program can check.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Largest committed file.
const BYTES_MAX: u64 = 1024 * 1024;
/// Crates that may have unsafe code.
const UNSAFE_ALLOWED: [&str; 5] =
    ["bindings/c", "crates/ndn-dpdk", "crates/ndn-ring", "crates/ndn-sha256", "crates/ndn-sys"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The committed files. In a source archive, which has no git, all files that are not built or
/// installed.
fn committed_files() -> Vec<PathBuf> {
    let listed = Command::new("git").arg("ls-files").current_dir(root()).output();
    let listed =
        listed.map_or_else(|_| String::new(), |out| String::from_utf8(out.stdout).unwrap());
    let mut files: Vec<PathBuf> = listed.lines().map(PathBuf::from).collect();
    if files.is_empty() {
        add_files(&root(), &mut files);
        for file in &mut files {
            *file = file.strip_prefix(root()).unwrap().to_owned();
        }
    }
    files.retain(|path| root().join(path).exists());
    assert!(files.len() > 500, "only {} files of the project are found", files.len());
    files
}

/// Adds all files below `directory` but hidden directories and those that builds fill.
fn add_files(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if !entry.file_type().unwrap().is_dir() {
            files.push(entry.path());
        } else if !["target", "node_modules", "__pycache__", ".venv", ".git"]
            .contains(&name.as_str())
        {
            add_files(&entry.path(), files);
        }
    }
}

#[test]
fn source_archive_has_the_files_of_git() {
    let mut found = Vec::new();
    add_files(&root(), &mut found);
    let found: BTreeSet<_> =
        found.iter().map(|file| file.strip_prefix(root()).unwrap().to_owned()).collect();
    let missing: Vec<_> =
        committed_files().into_iter().filter(|file| !found.contains(file)).collect();
    assert!(missing.is_empty(), "{missing:?}");
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
fn unsafe_code_is_confined_to_named_packages() {
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

#[test]
fn every_end_to_end_test_file_is_a_module_of_one_program() {
    let programs = ["forwarding", "program"].map(|name| format!("tests/tests/{name}.rs"));
    let declared = programs.each_ref().map(|program| read(Path::new(program)));
    let modules = with_extension("rs").into_iter().filter(|path| {
        let is_program = programs.iter().any(|program| path == Path::new(program));
        path.parent() == Some(Path::new("tests/tests")) && !is_program
    });
    for path in modules {
        let declaration = format!("mod {};", path.file_stem().unwrap().to_str().unwrap());
        let count =
            declared.iter().filter(|text| text.lines().any(|line| line == declaration)).count();
        assert_eq!(count, 1, "{} is not a module of one of {programs:?}", path.display());
    }
}

/// The modules of a package, each with the text of its file, tests left out.
fn modules(package: &Path) -> BTreeMap<Vec<String>, String> {
    let source = package.join("src");
    let mut found = BTreeMap::new();
    for path in with_extension("rs") {
        let Ok(inner) = path.strip_prefix(&source) else { continue };
        let inner = inner.with_extension("");
        let mut module: Vec<String> =
            inner.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
        if ["mod", "lib", "main"].contains(&module.last().unwrap().as_str()) {
            module.pop();
        }
        if module.iter().all(|part| part != "tests") {
            let text = read(&path);
            let end = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
            found.insert(module, text[..end].to_owned());
        }
    }
    found
}

/// `a::{b, c::{d, e}}` as `a::b`, `a::c::d` and `a::c::e`.
fn expanded(path: &str) -> Vec<String> {
    let Some((prefix, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let body = rest.strip_suffix('}').unwrap_or(rest);
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in body.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&body[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&body[start..]);
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.flat_map(|part| expanded(&format!("{prefix}{part}"))).collect()
}

/// The paths from `root` that a text contains outside of imports, comments left out.
fn inline_paths<'t>(text: &'t str, root: &'t str) -> impl Iterator<Item = String> + 't {
    let lines = text.lines().map(|line| line.split("//").next().unwrap());
    let lines = lines.filter(|line| !line.contains("pub(in "));
    let is_of_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    lines.flat_map(move |line| {
        line.match_indices(root).filter_map(move |(at, _)| {
            let is_start = !line[..at].ends_with(is_of_path);
            let end = line[at..].find(|c| !is_of_path(c)).map_or(line.len(), |length| at + length);
            is_start.then(|| line[at..end].to_owned())
        })
    })
}

/// The modules of the same package that a module imports from or names by a path.
fn imports(module: &[String], modules: &BTreeMap<Vec<String>, String>) -> BTreeSet<Vec<String>> {
    let text = &modules[module];
    let children: BTreeSet<&str> = modules
        .keys()
        .filter_map(|other| Some(other.strip_prefix(module)?.first()?.as_str()))
        .collect();
    // What a module re-exports is its interface, not an import.
    let is_export = |before: &str| before.trim_start().starts_with("pub");
    let parts: Vec<&str> = text.split("use ").collect();
    let imported = parts.windows(2).filter_map(|pair| {
        let before = pair[0].rsplit('\n').next().unwrap();
        let (path, _) = pair[1].split_once(';').filter(|_| !is_export(before))?;
        Some(path.chars().filter(|c| !c.is_whitespace()).collect::<String>())
    });
    let lines = text.lines().filter(|line| !(is_export(line) && line.contains(" use ")));
    let body: String = lines.map(|line| format!("{line}\n")).collect();
    let roots: Vec<String> =
        ["crate", "super"].iter().chain(&children).map(|root| format!("{root}::")).collect();
    let inline = roots.iter().flat_map(|root| inline_paths(&body, root));
    let mut found = BTreeSet::new();
    for path in imported.chain(inline) {
        for path in expanded(&path).into_iter().filter(|path| !path.ends_with("::")) {
            let mut segments = path.split("::").peekable();
            let mut base = match segments.peek() {
                Some(&"crate") => Vec::new(),
                Some(&("self" | "super")) => module.to_vec(),
                Some(child) if children.contains(child) => module.to_vec(),
                _ => continue,
            };
            while let Some(&first) = segments.peek() {
                match first {
                    "super" => drop(base.pop()),
                    "self" | "crate" => {}
                    _ => break,
                }
                segments.next();
            }
            base.extend(segments.map(str::to_owned));
            let target = (1..=base.len()).rev().map(|count| &base[..count]);
            let target = target.into_iter().find(|target| modules.contains_key(*target));
            found.extend(target.filter(|target| *target != module).map(<[String]>::to_vec));
        }
    }
    found
}

/// The modules that a module imports from, directly or through others.
fn reachable<'a>(
    from: &Vec<String>,
    edges: &'a BTreeMap<&Vec<String>, BTreeSet<Vec<String>>>,
) -> BTreeSet<&'a Vec<String>> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&Vec<String>> = edges[from].iter().collect();
    while let Some(module) = open.pop() {
        if seen.insert(module) {
            open.extend(&edges[module]);
        }
    }
    seen
}

/// The groups of modules of a package that import each other, directly or through others.
fn circles(package: &Path) -> Vec<Vec<String>> {
    let modules = modules(package);
    let edges: BTreeMap<_, _> =
        modules.keys().map(|module| (module, imports(module, &modules))).collect();
    let reach: BTreeMap<_, _> =
        modules.keys().map(|module| (module, reachable(module, &edges))).collect();
    let mut groups = BTreeSet::new();
    for (module, reached) in &reach {
        if reached.contains(module) {
            let mutual = reached.iter().filter(|other| reach[**other].contains(module));
            groups.insert(mutual.map(|other| other.join("::")).collect::<Vec<_>>());
        }
    }
    groups.into_iter().collect()
}

#[test]
fn files_of_a_package_do_not_import_each_other_in_circles() {
    let found: Vec<_> = packages()
        .into_iter()
        .map(|package| (package.display().to_string(), circles(&package)))
        .filter(|(_, circles)| !circles.is_empty())
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}
