//! The C library, by programs in C and C++, against a forwarder and `namewire serve`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use namewire_tests::{Forwarder, Process, Settings, program, run_to_end};

/// The directory of the bindings.
const BINDINGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../bindings/c");

struct Bed {
    _server: Process,
    forwarder: Forwarder,
    served: PathBuf,
    /// Public keys: of the server, and another.
    keys: [PathBuf; 2],
}

impl Bed {
    fn new() -> Self {
        let forwarder = Settings::new().start();
        let directory = forwarder.directory().to_owned();
        let served = directory.join("served");
        fs::create_dir_all(served.join("sub")).unwrap();
        let keys = ["own", "other"].map(|name| {
            let [private, public] =
                ["", ".public"].map(|kind| directory.join(format!("{name}{kind}.pem")));
            openssl(&["genpkey", "-algorithm", "ed25519"], &private);
            openssl(&["pkey", "-in", private.to_str().unwrap(), "-pubout"], &public);
            (private, public)
        });
        let [path, key] = [&served, &keys[0].0].map(|path| path.display().to_string());
        let serve = ["serve", path.as_str(), "--prefix", "/files", "--sign", key.as_str()];
        let mut server = forwarder.spawn("server", &serve);
        server.wait_for_output("serving ");
        Self { _server: server, forwarder, served, keys: keys.map(|(_, public)| public) }
    }

    /// Compiles a source file of the bindings.
    fn compile(&self, compiler: &str, options: &[&str], source: &str) -> PathBuf {
        let output = self.forwarder.directory().join(format!("{compiler}-program"));
        let libraries = program().parent().unwrap();
        let mut command = Command::new(compiler);
        command.args(["-Wall", "-Wextra", "-Werror", "-g"]).args(options);
        command.arg("-I").arg(Path::new(BINDINGS).join("include"));
        command.arg(Path::new(BINDINGS).join(source)).arg("-L").arg(libraries);
        command.args(["-lnamewire", "-lpthread"]).arg("-o").arg(&output);
        let ended = run_to_end(command);
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        output
    }

    fn run(&self, program: &Path, arguments: &[&Path]) -> Output {
        let mut command = Command::new(program);
        command.args(arguments).env("NDN_CLIENT_TRANSPORT", self.forwarder.unix());
        command.env("LD_LIBRARY_PATH", namewire_tests::program().parent().unwrap());
        // Memory that lives as long as the process is no leak of a test.
        command.env("ASAN_OPTIONS", "detect_leaks=0");
        run_to_end(command)
    }

    fn assert_passes(&self, program: &Path) {
        let ended = self.run(program, &[&self.served, &self.keys[0], &self.keys[1]]);
        let printed = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success() && ended.stdout == b"passed\n", "{printed}");
    }
}

fn openssl(arguments: &[&str], output: &Path) {
    let mut command = Command::new("openssl");
    command.args(arguments).arg("-out").arg(output);
    assert!(run_to_end(command).status.success(), "openssl {arguments:?}");
}

#[test]
fn program_in_c_passes() {
    let bed = Bed::new();
    bed.assert_passes(&bed.compile("cc", &["-std=c11", "-D_GNU_SOURCE"], "tests/library.c"));
}

#[test]
fn program_in_c_passes_with_the_address_sanitizer() {
    let bed = Bed::new();
    let options = ["-std=c11", "-D_GNU_SOURCE", "-fsanitize=address,undefined"];
    bed.assert_passes(&bed.compile("cc", &options, "tests/library.c"));
}

#[test]
fn example_prints_a_file_also_as_c_plus_plus() {
    let bed = Bed::new();
    fs::write(bed.served.join("text"), "a text\n").unwrap();
    for (compiler, options) in [("cc", &["-std=c11"][..]), ("c++", &["-x", "c++", "-std=c++17"])] {
        let cat = bed.compile(compiler, options, "examples/cat.c");
        let ended = bed.run(&cat, &[Path::new("/files/text")]);
        assert!(ended.status.success() && ended.stdout == b"a text\n", "{ended:?}");
        let ended = bed.run(&cat, &[Path::new("/files/none")]);
        let printed = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{printed}");
        assert!(printed.contains("there is no such object: /files/none"), "{printed}");
    }
}

#[test]
fn program_in_c_plus_plus_lists_a_directory() {
    let bed = Bed::new();
    fs::write(bed.served.join("text"), "a text\n").unwrap();
    let list = bed.compile("c++", &["-std=c++17"], "examples/list.cpp");
    let ended = bed.run(&list, &[Path::new("/files")]);
    assert!(ended.status.success() && ended.stdout == b"sub/\ntext\t7\n", "{ended:?}");
    let ended = bed.run(&list, &[Path::new("/files/none")]);
    let printed = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(3), "{printed}");
    assert!(printed.contains("/files/none"), "{printed}");
}

/// The names of functions in the header.
fn declared() -> BTreeSet<String> {
    let header = fs::read_to_string(Path::new(BINDINGS).join("include/namewire.h")).unwrap();
    let words = header.match_indices("namewire_").filter_map(|(at, _)| {
        let end = header[at..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
        header[at + end..].starts_with('(').then(|| header[at..at + end].to_owned())
    });
    words.collect()
}

#[test]
fn library_exports_what_the_header_declares() {
    let mut command = Command::new("nm");
    command.args(["--dynamic", "--defined-only", "--format=posix"]);
    command.arg(program().with_file_name("libnamewire.so"));
    let listed = String::from_utf8(run_to_end(command).stdout).unwrap();
    let exported: BTreeSet<String> =
        listed.lines().filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect();
    assert_eq!(exported, declared());
    assert_eq!(exported.len(), 13);
}
