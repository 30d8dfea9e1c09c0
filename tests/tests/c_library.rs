//! The C library, by programs in C and C++, against a forwarder and `namewire serve`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Duration;

use namewire_tests::{
    Forwarder, Process, Settings, noise, program, run_to_end, skip_unless_found, wait_until_within,
};
use rustix::process::Signal;

/// The directory of the bindings.
const BINDINGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../bindings/c");

/// The options of the test program in C.
const C11: [&str; 2] = ["-std=c11", "-D_GNU_SOURCE"];

/// The libraries of this build, made as they are installed.
fn libraries() -> &'static Path {
    static LIBRARIES: OnceLock<PathBuf> = OnceLock::new();
    LIBRARIES.get_or_init(|| {
        let out = program().with_file_name("c");
        make(&out, &["all"]);
        out
    })
}

/// Runs the Makefile of the library, which makes its files in `out`.
fn make(out: &Path, arguments: &[&str]) {
    let mut make = Command::new("make");
    make.args(["--no-print-directory", "-C", BINDINGS]).args(arguments);
    make.arg(format!("LIBRARY={}", program().with_file_name("libnamewire.a").display()));
    make.arg(format!("OUT={}", out.display()));
    let ended = run_to_end(make);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

struct Bed {
    _server: Process,
    forwarder: Forwarder,
    served: PathBuf,
    /// Public keys (of the server, and another), and the private key of the server.
    keys: [PathBuf; 3],
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
        let [(private, own), (_, other)] = keys;
        let keys = [own, other, private];
        Self { _server: server, forwarder, served, keys }
    }

    /// Compiles a source file of the bindings.
    fn compile(&self, compiler: &str, options: &[&str], source: &str) -> PathBuf {
        let output = self.forwarder.directory().join(format!("{compiler}-program"));
        compile_to(&output, compiler, options, source);
        output
    }

    fn run(&self, program: &Path, arguments: &[&Path]) -> Output {
        run_to_end(self.prepared(Command::new(program), arguments))
    }

    /// A command with the environment of programs that use the library.
    fn prepared(&self, mut command: Command, arguments: &[&Path]) -> Command {
        command.args(arguments).env("NDN_CLIENT_TRANSPORT", self.forwarder.unix());
        command.env("LD_LIBRARY_PATH", libraries());
        // Memory that lives as long as the process is no leak of a test.
        command.env("ASAN_OPTIONS", "detect_leaks=0");
        // The threads of the library are not those of the sanitizer's compiler: what they do is not watched. The child of
        // a fork makes threads.
        let suppressions = self.forwarder.directory().join("suppressions");
        fs::write(&suppressions, "called_from_lib:libnamewire.so\n").unwrap();
        let options = format!("die_after_fork=0 suppressions={}", suppressions.display());
        command.env("TSAN_OPTIONS", options);
        command
    }

    /// Runs what takes minutes on a busy machine to its end.
    fn run_long(&self, name: &str, command: Command) -> Process {
        let mut process = Process::start(name, command, self.forwarder.directory());
        let limit = Duration::from_secs(300);
        wait_until_within(limit, name, || (!process.is_running()).then_some(()));
        process
    }

    /// The arguments of the test program.
    fn arguments(&self) -> [&Path; 4] {
        [&self.served, &self.keys[0], &self.keys[1], &self.keys[2]]
    }

    fn assert_passes(&self, program: &Path) {
        let ended = self.run(program, &self.arguments());
        let printed = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success() && ended.stdout == b"passed\n", "{printed}");
    }
}

/// Compiles a source file of the bindings to `output`.
fn compile_to(output: &Path, compiler: &str, options: &[&str], source: &str) {
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-Werror", "-g"]).args(options);
    command.arg("-I").arg(Path::new(BINDINGS).join("include"));
    command.arg(Path::new(BINDINGS).join(source)).arg("-L").arg(libraries());
    command.args(["-lnamewire", "-lpthread"]).arg("-o").arg(output);
    let ended = run_to_end(command);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

fn openssl(arguments: &[&str], output: &Path) {
    let mut command = Command::new("openssl");
    command.args(arguments).arg("-out").arg(output);
    assert!(run_to_end(command).status.success(), "openssl {arguments:?}");
}

#[test]
fn program_in_c_passes() {
    let bed = Bed::new();
    bed.assert_passes(&bed.compile("gcc", &C11, "tests/library.c"));
}

#[test]
fn program_in_c_passes_with_clang() {
    if !skip_unless_found("clang") {
        return;
    }
    let bed = Bed::new();
    bed.assert_passes(&bed.compile("clang", &C11, "tests/library.c"));
}

#[test]
fn program_in_c_passes_with_the_address_sanitizer() {
    let bed = Bed::new();
    let options = [&C11[..], &["-fsanitize=address,undefined"]].concat();
    bed.assert_passes(&bed.compile("gcc", &options, "tests/library.c"));
}

#[test]
fn program_in_c_passes_with_the_thread_sanitizer() {
    let bed = Bed::new();
    let options = [&C11[..], &["-fsanitize=thread"]].concat();
    bed.assert_passes(&bed.compile("gcc", &options, "tests/library.c"));
}

#[test]
fn program_in_c_passes_under_valgrind() {
    if !skip_unless_found("valgrind") {
        return;
    }
    let bed = Bed::new();
    let compiled = bed.compile("gcc", &C11, "tests/library.c");
    let mut valgrind = Command::new("valgrind");
    // The child of the fork leaves alone what the threads of its parent own.
    valgrind.args(["--error-exitcode=99", "--child-silent-after-fork=yes", "--leak-check=full"]);
    valgrind.args(["--show-leak-kinds=definite", "--errors-for-leak-kinds=none"]).arg(compiled);
    let mut valgrind = bed.prepared(valgrind, &bed.arguments());
    valgrind.env("WITHOUT_OPENAT2", "1");
    // It takes fifty times as long as without.
    let mut process = bed.run_long("valgrind", valgrind);
    let printed = process.stderr();
    assert!(process.wait().success() && process.stdout() == "passed\n", "{printed}");
    assert!(printed.contains("ERROR SUMMARY: 0 errors"), "{printed}");
    assert!(printed.contains(" definitely lost: 0 bytes"), "{printed}");
}

#[test]
fn reads_go_on_when_the_forwarder_is_started_again() {
    let mut forwarder = Settings::new().start_program();
    let served = forwarder.directory().join("served");
    fs::create_dir(&served).unwrap();
    fs::write(served.join("file"), noise(1, 300_000)).unwrap();
    let directory = served.display().to_string();
    let mut server = forwarder.spawn("server", &["serve", &directory, "--prefix", "/files"]);
    server.wait_for_output("serving ");
    let compiled = forwarder.directory().join("restart");
    compile_to(&compiled, "gcc", &C11, "tests/restart.c");
    let mut command = Command::new(compiled);
    command.arg("/files/file").env("NDN_CLIENT_TRANSPORT", forwarder.unix());
    command.env("LD_LIBRARY_PATH", libraries());
    let mut reader = Process::start("reader", command, forwarder.directory());
    reader.wait_for_output("reading");
    forwarder.process.signal(Signal::KILL);
    forwarder.process.wait();
    reader.wait_for_output("failed");
    let directory = forwarder.directory().to_owned();
    let mut command = Command::new(program());
    command.arg("run").arg("--config").arg(directory.join("namewire.toml"));
    forwarder.process = Process::start("forwarder-again", command, &directory);
    reader.wait_for_output("read again");
    assert!(reader.wait().success(), "{}", reader.everything());
}

#[test]
fn library_can_be_closed_while_its_threads_end() {
    let bed = Bed::new();
    fs::write(bed.served.join("text"), "a text\n").unwrap();
    // Otherwise the program is linked with the library, and it is never unloaded.
    let options = [&C11[..], &["-Wl,--as-needed"]].concat();
    let compiled = bed.compile("gcc", &options, "tests/unload.c");
    let needed = output_of("readelf", &["--dynamic", "--wide"], &compiled);
    assert!(!needed.contains("libnamewire"), "{needed}");
    let library = libraries().join("libnamewire.so");
    let ended = bed.run(&compiled, &[&library, Path::new("/files/text")]);
    assert!(ended.status.success() && ended.stdout == b"passed\n", "{ended:?}");
}

/// Compiles `cat.c` with what is installed below a prefix, as `pkg-config` says, and runs it.
fn assert_compiles_with(bed: &Bed, pkg_config: &dyn Fn(&[&str]) -> Vec<String>, libraries: &Path) {
    let compile = |name: &str, linked: Vec<String>| {
        let output = bed.forwarder.directory().join(name);
        let mut command = Command::new("gcc");
        command.args(pkg_config(&["--cflags"]));
        command.arg(Path::new(BINDINGS).join("examples/cat.c")).args(linked);
        command.arg("-o").arg(&output);
        let ended = run_to_end(command);
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        output
    };
    let run = |compiled: &Path, libraries: &Path| {
        let mut command = Command::new(compiled);
        command.arg("/files/text").env("NDN_CLIENT_TRANSPORT", bed.forwarder.unix());
        command.env("LD_LIBRARY_PATH", libraries);
        run_to_end(command)
    };
    let shared = compile("shared", pkg_config(&["--libs"]));
    let ended = run(&shared, libraries);
    assert!(ended.status.success() && ended.stdout == b"a text\n", "{ended:?}");
    // Without the library it does not start.
    assert!(!run(&shared, Path::new("/nonexistent")).status.success());
    let fixed = ["-Wl,-Bstatic", "-lnamewire", "-Wl,-Bdynamic"].map(str::to_owned).to_vec();
    let listed = pkg_config(&["--libs", "--static"]).into_iter();
    let others = listed.filter(|word| word != "-lnamewire");
    let (directories, others): (Vec<_>, Vec<_>) = others.partition(|word| word.starts_with("-L"));
    let fixed = compile("fixed", [directories, fixed, others].concat());
    let ended = run(&fixed, Path::new("/nonexistent"));
    assert!(ended.status.success() && ended.stdout == b"a text\n", "{ended:?}");
}

/// The output of `pkg-config`, as words.
fn pkg_config(directory: &Path, root: &Path, arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.args(arguments).arg("namewire");
    // Packages of the machine's directories are named, too.
    command.env("PKG_CONFIG_ALLOW_SYSTEM_LIBS", "1").env("PKG_CONFIG_ALLOW_SYSTEM_CFLAGS", "1");
    command.env("PKG_CONFIG_PATH", directory).env("PKG_CONFIG_SYSROOT_DIR", root);
    let ended = run_to_end(command);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let printed = String::from_utf8(ended.stdout).unwrap();
    printed.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn program_is_compiled_with_what_is_installed() {
    if !skip_unless_found("pkg-config") {
        return;
    }
    let bed = Bed::new();
    fs::write(bed.served.join("text"), "a text\n").unwrap();
    let prefix = bed.forwarder.directory().join("prefix");
    make(libraries(), &["install", &format!("PREFIX={}", prefix.display())]);
    let directory = prefix.join("lib/pkgconfig");
    let ask = |arguments: &[&str]| pkg_config(&directory, Path::new(""), arguments);
    assert_eq!(ask(&["--modversion"]), [env!("CARGO_PKG_VERSION")]);
    for page in ["libnamewire", "namewire_open"] {
        assert!(prefix.join(format!("share/man/man3/{page}.3")).is_file(), "{page}");
    }
    assert_compiles_with(&bed, &ask, &prefix.join("lib"));
    // As in an archive, which can be unpacked anywhere.
    let archive = bed.forwarder.directory().join("archive");
    make(libraries(), &["install", "PREFIX=", &format!("DESTDIR={}", archive.display())]);
    let directory = archive.join("lib/pkgconfig");
    let ask = |arguments: &[&str]| pkg_config(&directory, Path::new(""), arguments);
    assert_compiles_with(&bed, &ask, &archive.join("lib"));
}

#[test]
fn program_is_compiled_with_the_debian_packages() {
    if !skip_unless_found("pkg-config") || !skip_unless_found("dpkg-deb") {
        return;
    }
    let bed = Bed::new();
    fs::write(bed.served.join("text"), "a text\n").unwrap();
    let [packages, root] = ["packages", "root"].map(|name| bed.forwarder.directory().join(name));
    let mut command = Command::new(Path::new(BINDINGS).join("../../scripts/package-deb"));
    command.arg(program()).arg(&packages).arg(program().with_file_name("libnamewire.a"));
    command.env("DEB_COMPRESSION", "none");
    let mut packed = bed.run_long("package-deb", command);
    assert!(packed.wait().success(), "{}", packed.everything());
    for package in ["libnamewire0", "libnamewire-dev"] {
        let made = fs::read_dir(&packages).unwrap().map(|entry| entry.unwrap().path());
        let named = |path: &PathBuf| {
            path.file_name().unwrap().to_str().unwrap().starts_with(&format!("{package}_"))
        };
        let file = made.into_iter().find(named).unwrap();
        let mut command = Command::new("dpkg-deb");
        command.arg("--extract").arg(file).arg(&root);
        assert!(run_to_end(command).status.success(), "{package}");
    }
    let libraries = fs::read_dir(root.join("usr/lib")).unwrap().next().unwrap().unwrap().path();
    let directory = libraries.join("pkgconfig");
    let ask = |arguments: &[&str]| pkg_config(&directory, &root, arguments);
    assert_compiles_with(&bed, &ask, &libraries);
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

#[test]
fn program_in_c_plus_plus_answers_interests() {
    let bed = Bed::new();
    let program = bed.compile("c++", &["-std=c++17"], "examples/serve.cpp");
    let command = bed.prepared(Command::new(program), &[Path::new("/greetings")]);
    let mut serving = Process::start("serve", command, bed.forwarder.directory());
    serving.wait_for_output("serving /greetings");
    let peek = |name: &str| bed.forwarder.run(&["peek", name]);
    let answered = peek("/greetings/alice");
    assert!(answered.status.success() && answered.stdout == b"Hello, alice!\n", "{answered:?}");
    // The function throws an exception.
    assert!(!peek("/greetings").status.success());
    serving.signal(Signal::INT);
    assert!(serving.wait().success(), "{}", serving.everything());
    assert!(!peek("/greetings/bob").status.success());
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

/// The names of functions of a version in the list of what the library exports.
fn listed(version: &str) -> BTreeSet<String> {
    let list = fs::read_to_string(Path::new(BINDINGS).join("namewire.map")).unwrap();
    let (_, rest) = list.split_once(&format!("\n{version} {{\n")).unwrap();
    let (names, _) = rest.split_once("local:").unwrap();
    let names = names.lines().filter_map(|line| line.trim().strip_suffix(';'));
    names.map(str::to_owned).collect()
}

fn output_of(program: &str, arguments: &[&str], library: &Path) -> String {
    let mut command = Command::new(program);
    command.args(arguments).arg(library);
    let ended = run_to_end(command);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8(ended.stdout).unwrap()
}

#[test]
fn library_exports_what_the_header_declares() {
    let library = libraries().join("libnamewire.so");
    let arguments = ["--dynamic", "--defined-only", "--with-symbol-versions", "--format=posix"];
    let symbols = output_of("nm", &arguments, &library);
    let exported: BTreeSet<String> = symbols
        .lines()
        .filter_map(|line| Some(line.split(' ').next()?.to_owned()))
        // The version is a symbol, too.
        .filter(|name| name != "NAMEWIRE_0.1")
        .collect();
    let versioned = |name: &String| format!("{name}@@NAMEWIRE_0.1");
    assert_eq!(exported, listed("NAMEWIRE_0.1").iter().map(versioned).collect());
    assert_eq!(exported.len(), 26);
    assert_eq!(listed("NAMEWIRE_0.1"), declared());
    let properties = output_of("readelf", &["--dynamic", "--wide"], &library);
    let soname = properties.lines().find(|line| line.contains("(SONAME)")).unwrap();
    assert!(soname.ends_with("[libnamewire.so.0]"), "{soname}");
    let flags = properties.lines().find(|line| line.contains("(FLAGS_1)")).unwrap();
    assert!(flags.contains("NODELETE"), "{flags}");
    // Nothing beyond the C library and the unwinder of the compiler.
    for line in properties.lines().filter(|line| line.contains("(NEEDED)")) {
        let needed = line.split(['[', ']']).nth(1).unwrap();
        let known = ["libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"];
        assert!(known.contains(&needed) || needed.starts_with("ld-linux"), "{line}");
    }
}
