//! The plug-in for XRootD, loaded by its server, between `namewire serve` and XRootD's clients.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use namewire_tests::{
    Forwarder, Process, Settings, XRootD, noise, program, run_to_end, skip_unless_file,
    skip_unless_found, try_xrdcp, wait_until, xrdcp, xrootd_command, xrootd_vector_reads,
};
use rustix::process::Signal;

/// The repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const FILE_BYTES: usize = 5 * 1024 * 1024 + 77;

/// Whether the programs, the headers of plug-ins and the module for Python are there.
fn is_testable() -> bool {
    let header = Path::new("/usr/include/xrootd/XrdOss/XrdOss.hh");
    let module = Path::new("/usr/lib/python3/dist-packages/XRootD/__init__.py");
    skip_unless_found("xrootd")
        && skip_unless_found("xrdcp")
        && skip_unless_file(header, "libxrootd-server-dev")
        && skip_unless_file(module, "python3-xrootd")
}

/// The plug-in, linked with the C library of this build as `make xrootd` links it.
fn plug_in() -> &'static Path {
    static PLUG_IN: OnceLock<PathBuf> = OnceLock::new();
    PLUG_IN.get_or_init(|| {
        let out = program().with_file_name("libXrdNamewire.so");
        make(&out, &[]);
        out
    })
}

/// Runs the Makefile of the plug-in, which makes the file `out`.
fn make(out: &Path, arguments: &[&str]) {
    let library = program().with_file_name("libnamewire.a");
    let mut make = Command::new("make");
    make.args(["--no-print-directory", "-C"]).arg(Path::new(ROOT).join("bindings/xrootd"));
    make.arg(format!("LIBRARY={}", library.display())).arg(format!("OUT={}", out.display()));
    make.args(arguments);
    let ended = run_to_end(make);
    assert!(ended.status.success(), "{}", text(&ended.stderr));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A forwarder, a file server, and XRootD, which exports its files below `/data`.
struct Bed {
    xrootd: XRootD,
    server: Option<Process>,
    forwarder: Forwarder,
    served: PathBuf,
    key: PathBuf,
}

impl Bed {
    fn new(options: &str) -> Self {
        let forwarder = Settings::new().start();
        let directory = forwarder.directory().to_owned();
        let served = directory.join("served");
        fs::create_dir_all(served.join("data/sub")).unwrap();
        fs::write(served.join("data/large"), noise(1, FILE_BYTES)).unwrap();
        fs::write(served.join("data/empty"), b"").unwrap();
        fs::write(served.join("data/sub/ü=b%41"), noise(2, 9000)).unwrap();
        let keys = ["own", "other"].map(|name| key_pair(&directory, name));
        let mut bed = Self {
            xrootd: start(&forwarder, &keys[0].1, options),
            server: None,
            forwarder,
            served,
            key: keys[0].0.clone(),
        };
        bed.serve();
        bed
    }

    fn serve(&mut self) {
        let [path, key] = [&self.served, &self.key].map(|path| path.display().to_string());
        let serve = ["serve", path.as_str(), "--prefix", "/site", "--sign", key.as_str()];
        let mut server = self.forwarder.spawn("server", &serve);
        server.wait_for_output("serving ");
        self.server = Some(server);
    }

    fn directory(&self) -> &Path {
        self.forwarder.directory()
    }

    fn local(&self, path: &str) -> Vec<u8> {
        fs::read(self.served.join(path.trim_start_matches('/'))).unwrap()
    }

    fn xrdfs(&self, arguments: &[&str]) -> Output {
        let mut command = xrootd_command("xrdfs", self.directory());
        command.arg(self.xrootd.address()).args(arguments);
        run_to_end(command)
    }

    /// Output of `xrdfs`.
    fn listed(&self, arguments: &[&str]) -> String {
        let ended = self.xrdfs(arguments);
        let complaint = format!("{}{}", text(&ended.stderr), self.xrootd.log());
        assert!(ended.status.success(), "{arguments:?}: {complaint}");
        text(&ended.stdout)
    }

    /// Checks that a command fails with this code of XRootD's protocol.
    #[track_caller]
    fn assert_fails(&self, ended: &Output, code: u32) {
        let printed = text(&[&ended.stdout[..], &ended.stderr].concat());
        assert!(!ended.status.success(), "{printed}");
        assert!(printed.contains(&format!("[{code}]")), "{printed}{}", self.xrootd.log());
    }

    fn copy(&self, path: &str) -> Output {
        try_xrdcp(&self.xrootd.url(path), &self.directory().join("out"), self.directory())
    }
}

/// A server of XRootD that verifies by this public key.
fn start(forwarder: &Forwarder, key: &Path, options: &str) -> XRootD {
    let (plug_in, transport) = (plug_in().display(), forwarder.unix());
    let text = format!(
        "all.export /data\nofs.osslib {plug_in} prefix=/site transport={transport} verify={} {options}\n\
         ofs.ckslib * {plug_in}\nxrootd.chksum max 4 md5 adler32 crc32c\n",
        key.display()
    );
    XRootD::start("xrootd", &text, forwarder.directory())
}

/// A private and a public key.
fn key_pair(directory: &Path, name: &str) -> (PathBuf, PathBuf) {
    let [private, public] = ["", ".public"].map(|kind| directory.join(format!("{name}{kind}.pem")));
    let openssl = |arguments: &[&str], output: &Path| {
        let mut command = Command::new("openssl");
        command.args(arguments).arg("-out").arg(output);
        assert!(run_to_end(command).status.success(), "openssl {arguments:?}");
    };
    openssl(&["genpkey", "-algorithm", "ed25519"], &private);
    openssl(&["pkey", "-in", private.to_str().unwrap(), "-pubout"], &public);
    (private, public)
}

/// A checksum by the module `zlib` or `hashlib` of Python.
fn checksum(expression: &str, file: &Path) -> String {
    let script = format!(
        "import hashlib, sys, zlib; content = open(sys.argv[1], 'rb').read(); print({expression})"
    );
    let mut command = Command::new("python3");
    command.args(["-c", &script]).arg(file);
    let ended = run_to_end(command);
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    text(&ended.stdout).trim().to_owned()
}

#[test]
fn xrdcp_copies_what_is_served() {
    if !is_testable() {
        return;
    }
    let bed = Bed::new("");
    for path in ["/data/large", "/data/empty", "/data/sub/ü=b%41"] {
        assert!(xrdcp(&bed.xrootd.url(path), bed.directory()) == bed.local(path), "{path}");
    }
    // The client computes the checksum of what it received, and compares it with that of the server.
    let mut command = xrootd_command("xrdcp", bed.directory());
    command
        .args(["--nopbar", "--force", "--cksum", "md5:source"])
        .arg(bed.xrootd.url("/data/large"));
    command.arg(bed.directory().join("out"));
    let ended = run_to_end(command);
    assert!(ended.status.success(), "{}{}", text(&ended.stderr), bed.xrootd.log());
    assert!(fs::read(bed.directory().join("out")).unwrap() == bed.local("/data/large"));
}

#[test]
fn xrdfs_lists_and_describes() {
    if !is_testable() {
        return;
    }
    let bed = Bed::new("");
    assert_eq!(bed.listed(&["ls", "/data"]), "/data/empty\n/data/large\n/data/sub\n");
    assert_eq!(bed.listed(&["ls", "/data/sub"]), "/data/sub/ü=b%41\n");
    let long = bed.listed(&["ls", "-l", "/data"]);
    let lines: Vec<Vec<&str>> =
        long.lines().map(|line| line.split_whitespace().collect()).collect();
    let size = FILE_BYTES.to_string();
    assert!(lines[1][0].starts_with("-r--") && lines[1].contains(&size.as_str()), "{long}");
    assert!(lines[2][0].starts_with("dr-x") && lines[2].contains(&"/data/sub"), "{long}");
    // Three parts of a listing.
    let many = bed.served.join("data/sub/many");
    fs::create_dir(&many).unwrap();
    (0..150).for_each(|number| fs::write(many.join(format!("{number:03}")), b"1234").unwrap());
    let long = bed.listed(&["ls", "-l", "/data/sub/many"]);
    let described = long.lines().zip(0..).filter(|(line, number)| {
        line.contains(" 4 ") && line.ends_with(&format!("/data/sub/many/{number:03}"))
    });
    assert_eq!(described.count(), 150, "{long}");
    let stat = bed.listed(&["stat", "/data/large"]);
    assert!(stat.lines().any(|line| line.split_whitespace().eq(["Size:", &size])), "{stat}");
    assert!(stat.contains("IsReadable") && !stat.contains("IsDir"), "{stat}");
    assert!(!stat.contains("IsWritable"), "{stat}");
    assert!(bed.listed(&["stat", "/data/sub"]).contains("IsDir"));
}

#[test]
fn checksums_are_those_of_the_version() {
    if !is_testable() {
        return;
    }
    let bed = Bed::new("metadata_lifetime_ms=100");
    let file = bed.served.join("data/large");
    let query = |algorithm: &str, path: &str| {
        let path = format!("{path}?cks.type={algorithm}");
        bed.listed(&["query", "checksum", &path]).trim().to_owned()
    };
    let md5 = checksum("hashlib.md5(content).hexdigest()", &file);
    let adler = checksum("format(zlib.adler32(content), '08x')", &file);
    // The second one comes from memory.
    for _ in 0..2 {
        assert_eq!(query("md5", "/data/large"), format!("md5 {md5}"));
        assert_eq!(query("adler32", "/data/large"), format!("adler32 {adler}"));
    }
    assert_eq!(query("md5", "/data/empty"), "md5 d41d8cd98f00b204e9800998ecf8427e");
    fs::write(&file, noise(9, 100_000)).unwrap();
    let md5 = checksum("hashlib.md5(content).hexdigest()", &file);
    wait_until("the checksum of the new version", || {
        (query("md5", "/data/large") == format!("md5 {md5}")).then_some(())
    });
    bed.assert_fails(&bed.xrdfs(&["query", "checksum", "/data/none"]), 3011);
    bed.assert_fails(&bed.xrdfs(&["query", "checksum", "/data/sub"]), 3016);
}

#[test]
fn vector_reads_return_the_parts() {
    if !is_testable() {
        return;
    }
    let bed = Bed::new("");
    let reads = [
        vec![(0, 1), (8191, 2), (20_000, 100_000), (FILE_BYTES - 1, 1)],
        vec![(3_000_000, 8192), (100, 50), (150, 50), (120, 60)],
        (0..1000).map(|number| (number * 5000, 500)).collect(),
    ];
    let (url, copy) = (bed.xrootd.url("/data/large"), bed.served.join("data/large"));
    let output = xrootd_vector_reads(&url, &copy, &reads, bed.directory());
    let printed = text(&output.stderr);
    assert!(output.status.success(), "{printed}{}", bed.xrootd.log());
    assert_eq!(text(&output.stdout), "4\n4\n1000\n", "{printed}");
    // A part beyond the end fails as a whole.
    let beyond = [vec![(0, 10), (FILE_BYTES - 5, 10)]];
    assert!(!xrootd_vector_reads(&url, &copy, &beyond, bed.directory()).status.success());
}

#[test]
fn thirty_two_clients_copy_at_a_time() {
    const CLIENTS: u64 = 32;
    if !is_testable() {
        return;
    }
    let mut bed = Bed::new("");
    for number in 0..CLIENTS / 2 {
        let content = noise(100 + number, 700_000 + usize::try_from(number).unwrap());
        fs::write(bed.served.join(format!("data/file{number}")), content).unwrap();
    }
    // One half copies files of its own, the other half copies the same one.
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let bed = &bed;
            scope.spawn(move || {
                let path = match client < CLIENTS / 2 {
                    true => format!("/data/file{client}"),
                    false => "/data/large".to_owned(),
                };
                let directory = bed.directory().join(format!("client{client}"));
                fs::create_dir(&directory).unwrap();
                assert!(xrdcp(&bed.xrootd.url(&path), &directory) == bed.local(&path), "{path}");
            });
        }
    });
    assert!(bed.xrootd.is_running());
}

#[test]
fn failures_have_codes_of_the_protocol() {
    if !is_testable() {
        return;
    }
    let bed = Bed::new("timeout_ms=2000 lifetime_ms=500");
    bed.assert_fails(&bed.copy("/data/none"), 3011);
    bed.assert_fails(&bed.xrdfs(&["stat", "/data/none"]), 3011);
    bed.assert_fails(&bed.xrdfs(&["ls", "/data/none"]), 3011);
    // Outside of what the server exports.
    bed.assert_fails(&bed.xrdfs(&["ls", "/other"]), 3010);
    // Nothing can be written.
    let local = bed.directory().join("written");
    fs::write(&local, b"content").unwrap();
    let mut command = xrootd_command("xrdcp", bed.directory());
    command.args(["--nopbar", "--force"]).arg(&local).arg(bed.xrootd.url("/data/written"));
    bed.assert_fails(&run_to_end(command), 3025);
    bed.assert_fails(&bed.xrdfs(&["rm", "/data/large"]), 3025);
    bed.assert_fails(&bed.xrdfs(&["mkdir", "/data/new"]), 3025);
    bed.assert_fails(&bed.xrdfs(&["mv", "/data/large", "/data/moved"]), 3025);
    assert!(bed.local("/data/large") == noise(1, FILE_BYTES));
}

#[test]
fn data_of_another_key_is_refused() {
    if !is_testable() {
        return;
    }
    let mut bed = Bed::new("metadata_lifetime_ms=100");
    assert!(bed.copy("/data/large").status.success());
    // Another server takes over the prefix.
    let server = bed.server.take().unwrap();
    server.signal(Signal::TERM);
    drop(server);
    bed.key = bed.directory().join("other.pem");
    fs::write(bed.served.join("data/large"), noise(7, 50_000)).unwrap();
    bed.serve();
    wait_until("the refusal", || {
        let ended = bed.copy("/data/large");
        (!ended.status.success()).then(|| bed.assert_fails(&ended, 3007))
    });
    assert!(bed.xrootd.log().contains("/data/large failed:"), "{}", bed.xrootd.log());
}

#[test]
fn missing_answers_are_errors_until_the_producer_returns() {
    if !is_testable() {
        return;
    }
    let mut bed = Bed::new("timeout_ms=2000 lifetime_ms=500 metadata_lifetime_ms=1");
    assert!(bed.copy("/data/large").status.success());
    let server = bed.server.take().unwrap();
    server.signal(Signal::STOP);
    // The forwarder answers with Nacks, or nobody answers.
    wait_until("an error", || {
        let ended = bed.xrdfs(&["stat", "/data/other"]);
        (!ended.status.success()).then(|| bed.assert_fails(&ended, 3014))
    });
    server.signal(Signal::CONT);
    wait_until("an answer", || bed.copy("/data/empty").status.success().then_some(()));
    bed.server = Some(server);
}

#[test]
fn server_starts_before_the_forwarder() {
    if !is_testable() {
        return;
    }
    let forwarder = Settings::new().start();
    let directory = forwarder.directory().to_owned();
    let socket = directory.join("later.sock");
    let plug_in = plug_in().display();
    let text = format!(
        "all.export /data\nofs.osslib {plug_in} prefix=/site transport=unix://{}\n",
        socket.display()
    );
    let xrootd = XRootD::start("xrootd", &text, &directory);
    let stat = || {
        let mut command = xrootd_command("xrdfs", &directory);
        command.arg(xrootd.address()).args(["stat", "/data/x"]);
        let ended = run_to_end(command);
        String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned()
    };
    assert!(stat().contains("[3014]"), "{}", stat());
    std::os::unix::fs::symlink(forwarder.socket(), &socket).unwrap();
    fs::create_dir_all(directory.join("served/data")).unwrap();
    fs::write(directory.join("served/data/x"), b"content").unwrap();
    let served = directory.join("served").display().to_string();
    let mut server = forwarder.spawn("server", &["serve", &served, "--prefix", "/site"]);
    server.wait_for_output("serving ");
    wait_until("an answer", || stat().contains("Size:   7").then_some(()));
}

#[test]
fn content_is_cached_on_disk() {
    if !is_testable() {
        return;
    }
    let mut bed = Bed::new("cache_dir=/dev/null/cache");
    assert!(bed.xrootd.log().contains("no content is cached on disk"), "{}", bed.xrootd.log());
    assert!(bed.copy("/data/large").status.success());
    let cache = bed.directory().join("xrootd/cache");
    let options = format!("cache_dir={} cache_dir_size=1GiB", cache.display());
    bed.xrootd = start(&bed.forwarder, &bed.directory().join("own.public.pem"), &options);
    assert!(bed.copy("/data/large").status.success());
    assert!(fs::read(bed.directory().join("out")).unwrap() == bed.local("/data/large"));
    wait_until("the content on disk", || (bytes_below(&cache) > FILE_BYTES as u64).then_some(()));
}

/// Length of all files below a directory.
fn bytes_below(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| if path.is_dir() { bytes_below(&path) } else { path.metadata().unwrap().len() })
        .sum()
}

#[test]
fn invalid_options_prevent_the_start() {
    if !is_testable() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for (options, complaint) in [
        ("prefix", "prefix: key=value is required"),
        ("prefix=data", "prefix=data: a name begins with /"),
        ("colour=red", "colour is not an option"),
        ("timeout_ms=1s", "timeout_ms=1s: a number is required"),
        ("prefix=/site verify=/nonexistent.pem", "/nonexistent.pem: "),
        ("prefix=/site cache_dir=cache cache_dir_size=1MiB", "cache_dir_size: 1MiB is less"),
        ("transport=pigeon://", "pigeon"),
    ] {
        let configuration = directory.path().join("xrootd.cfg");
        let run = directory.path().display();
        let lines = format!(
            "xrd.port any\nall.adminpath {run}\nall.pidpath {run}\nall.export /data\nofs.osslib {} {options}\n",
            plug_in().display()
        );
        fs::write(&configuration, lines).unwrap();
        let mut command = Command::new("xrootd");
        if rustix::process::geteuid().is_root() {
            let mut chown = Command::new("chown");
            chown.args(["-R", "xrootd"]).arg(directory.path());
            assert!(run_to_end(chown).status.success());
            command.args(["-R", "xrootd"]);
        }
        command.arg("-c").arg(&configuration).current_dir(directory.path());
        let ended = run_to_end(command);
        let printed = text(&ended.stderr);
        assert!(!ended.status.success() && printed.contains(complaint), "{options}: {printed}");
    }
}

/// The fenced blocks of a language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if line.strip_prefix("```") == Some(language) {
            let block: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
            found.push(block.join("\n"));
        }
    }
    found
}

/// The configuration and the commands of docs/data/xrootd.md, with the plug-in as it is installed.
#[test]
fn documented_commands_succeed() {
    if !is_testable() {
        return;
    }
    let page = fs::read_to_string(Path::new(ROOT).join("docs/data/xrootd.md")).unwrap();
    let forwarder = Settings::new().start();
    let directory = forwarder.directory().to_owned();
    let prefix = directory.join("prefix");
    make(plug_in(), &["install", &format!("PREFIX={}", prefix.display())]);
    let installed = prefix.join("lib/libXrdNamewire.so");
    let served = directory.join("served");
    fs::create_dir_all(served.join("2026")).unwrap();
    fs::write(served.join("2026/run.root"), noise(3, 500_000)).unwrap();
    let (private, public) = key_pair(&directory, "site");
    let [path, key] = [&served, &private].map(|path| path.display().to_string());
    let serve = ["serve", path.as_str(), "--prefix", "/site/data", "--sign", key.as_str()];
    let mut server = forwarder.spawn("server", &serve);
    server.wait_for_output("serving ");
    let configuration = blocks(&page, "text").remove(0);
    let verify = format!("{} transport={}", public.display(), forwarder.unix());
    let configuration = configuration
        .replace("libXrdNamewire.so", &installed.display().to_string())
        .replace("/etc/namewire/site.pem", &verify);
    let xrootd = XRootD::start("xrootd", &format!("{configuration}\n"), &directory);
    let commands = blocks(&page, "console").pop().unwrap();
    let commands: Vec<_> = commands.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    assert_eq!(commands.len(), 4);
    for command in commands {
        let command = command.replace("root://localhost", &xrootd.address());
        let mut shell = xrootd_command("sh", &directory);
        shell.args(["-c", &command]).current_dir(&directory);
        let ended = run_to_end(shell);
        let printed = text(&[&ended.stdout[..], &ended.stderr].concat());
        assert!(ended.status.success(), "{command}: {printed}{}", xrootd.log());
    }
    assert!(fs::read(directory.join("run.root")).unwrap() == noise(3, 500_000));
}
