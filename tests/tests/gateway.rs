//! `namewire gateway` between `namewire serve` and HTTP clients of others.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use namewire_tests::{
    Forwarder, Process, Settings, XRootD, noise, run_to_end, skip, skip_unless_file,
    skip_unless_found, wait_until, xrdcp, xrootd_vector_reads,
};
use rustix::process::Signal;
use serde_json::Value;

const FILE_BYTES: usize = 3 * 1024 * 1024 + 77;

struct Bed {
    _gateway: Process,
    server: Process,
    forwarder: Forwarder,
    served: PathBuf,
    log: PathBuf,
    url: String,
}

impl Bed {
    /// Serves a few files as `/files`, and these at `url`.
    fn new(serve: &[&str], gateway: &[&str]) -> Self {
        let forwarder = Settings::new().start();
        let served = forwarder.directory().join("served");
        fs::create_dir_all(served.join("sub")).unwrap();
        fs::write(served.join("large"), noise(1, FILE_BYTES)).unwrap();
        fs::write(served.join("sub/ü b"), noise(2, 8192)).unwrap();
        fs::write(served.join(".hidden"), b"secret").unwrap();
        fs::write(forwarder.directory().join("outside"), b"secret").unwrap();
        let server = start_server(&forwarder, &served, "server", serve);
        let log = forwarder.directory().join("access.log");
        let log_argument = log.display().to_string();
        let fixed = ["gateway", "--prefix", "/files", "--listen", "127.0.0.1:0", "--log"];
        let arguments = [&fixed[..], &[log_argument.as_str()], gateway].concat();
        let mut gateway = forwarder.spawn("gateway", &arguments);
        gateway.wait_for_output("serving ");
        let url = gateway.stdout().trim().rsplit(' ').next().unwrap().to_owned();
        Self { _gateway: gateway, server, forwarder, served, log, url }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    fn curl(&self, arguments: &[&str], path: &str) -> Output {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--noproxy", "*", "--path-as-is"]);
        run_to_end({
            command.args(arguments).arg(self.url(path));
            command
        })
    }

    /// The status and the body.
    fn get(&self, arguments: &[&str], path: &str) -> (String, Vec<u8>) {
        let status = ["--write-out", "%{stderr}%{http_code}"];
        let output = self.curl(&[&status[..], arguments].concat(), path);
        (String::from_utf8_lossy(&output.stderr).into_owned(), output.stdout)
    }

    fn etag(&self, path: &str) -> String {
        let head = String::from_utf8(self.curl(&["--head"], path).stdout).unwrap().to_lowercase();
        let etag = head.lines().find_map(|line| line.strip_prefix("etag: "));
        etag.unwrap_or_else(|| panic!("{head}")).to_owned()
    }

    fn log(&self) -> Vec<Value> {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines = log.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn start_server(forwarder: &Forwarder, served: &Path, name: &str, more: &[&str]) -> Process {
    let served = served.display().to_string();
    let arguments = [&["serve", served.as_str(), "--prefix", "/files"], more].concat();
    let mut server = forwarder.spawn(name, &arguments);
    server.wait_for_output("serving ");
    server
}

/// Replaces the content of a file by `cp -p` of one with the same size and modification time.
fn copy_with_time_of(bed: &Bed, path: &Path, content: &[u8]) {
    let before = path.metadata().unwrap();
    let other = bed.forwarder.directory().join("other");
    fs::write(&other, content).unwrap();
    for arguments in [
        ["touch", "-r", path.to_str().unwrap(), other.to_str().unwrap()],
        ["cp", "-p", other.to_str().unwrap(), path.to_str().unwrap()],
    ] {
        let mut command = Command::new(arguments[0]);
        command.args(&arguments[1..]);
        assert!(run_to_end(command).status.success(), "{arguments:?}");
    }
    let after = path.metadata().unwrap();
    assert_eq!(
        (after.len(), after.modified().unwrap()),
        (before.len(), before.modified().unwrap())
    );
}

/// Checks that `get` and `sync` bring this content of the file `large`, through the cache of the forwarder.
fn assert_all_fetch(bed: &Bed, content: &[u8]) {
    let path = |name: &str| bed.forwarder.directory().join(name).display().to_string();
    let (out, copy, compared) = (path("out"), path("copy"), path("compared"));
    let _ = bed.forwarder.output(&["get", "/files/large", "-o", &out]);
    assert!(fs::read(out).unwrap() == content, "get");
    for (directory, options) in [(copy, &[][..]), (compared, &["--checksum"])] {
        let synced = Path::new(&directory).join("large");
        let unchanged = u64::from(synced.exists());
        let report = bed.forwarder.json(&[&["sync", "/files", &directory], options].concat());
        assert_eq!((&report["files"], &report["unchanged"]), (&2.into(), &unchanged.into()));
        assert!(fs::read(synced).unwrap() == content, "{options:?}");
    }
}

#[test]
fn change_that_keeps_the_modification_time_reaches_all_consumers() {
    if !skip_unless_found("curl") {
        return;
    }
    let mut bed = Bed::new(&[], &[]);
    let large = bed.served.join("large");
    let first = fs::read(&large).unwrap();
    assert_all_fetch(&bed, &first);
    let mut etags = vec![bed.etag("large")];
    for round in 1..=2 {
        let content = noise(10 + round, FILE_BYTES);
        if round == 2 {
            // While the server does not run.
            bed.server.signal(Signal::TERM);
            bed.server.wait();
        }
        copy_with_time_of(&bed, &large, &content);
        if round == 2 {
            bed.server = start_server(&bed.forwarder, &bed.served, "server-again", &[]);
        }
        assert_all_fetch(&bed, &content);
        let etag = wait_until("another entity tag", || {
            let etag = bed.etag("large");
            (!etags.contains(&etag)).then_some(etag)
        });
        assert!(bed.get(&[], "large").1 == content);
        etags.push(etag);
    }
    // The version outlives the server.
    bed.server.signal(Signal::TERM);
    bed.server.wait();
    bed.server = start_server(&bed.forwarder, &bed.served, "server-last", &[]);
    assert_eq!(Some(&bed.etag("large")), etags.last());
}

#[test]
fn port_in_use_is_reported_with_the_option_for_another() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let mut gateway = Command::new(namewire_tests::program());
    gateway.args(["gateway", "--prefix", "/files", "--listen", &address.to_string()]);
    let ended = run_to_end(gateway);
    let message = String::from_utf8_lossy(&ended.stderr);
    let port = address.port();
    assert_eq!(ended.status.code(), Some(1), "{message}");
    let expected = format!("HTTP port {port} is in use on 127.0.0.1; choose another with --listen");
    assert!(message.contains(&expected), "{message}");
}

#[test]
fn curl_reads_files() {
    if !skip_unless_found("curl") {
        return;
    }
    let bed = Bed::new(&[], &[]);
    let large = fs::read(bed.served.join("large")).unwrap();
    let (status, body) = bed.get(&[], "large");
    assert!(status == "200" && body == large, "{status}");
    for (range, expected) in [
        ("0-0", &large[..1]),
        ("1000000-2000000", &large[1_000_000..=2_000_000]),
        ("3145800-", &large[3_145_800..]),
        ("-5", &large[FILE_BYTES - 5..]),
    ] {
        let (status, body) = bed.get(&["--range", range], "large");
        assert!(status == "206" && body == expected, "{range}: {status}, {} bytes", body.len());
    }
    let (status, body) = bed.get(&["--range", "0-9,3000000-3000009"], "large");
    assert_eq!(status, "206");
    for part in [&large[..10], &large[3_000_000..3_000_010]] {
        assert!(body.windows(10).any(|window| window == part));
    }
    // An interrupted download goes on.
    let part = bed.forwarder.directory().join("part");
    fs::write(&part, &large[..1_234_567]).unwrap();
    let part_argument = part.display().to_string();
    assert_eq!(bed.get(&["--continue-at", "-", "--output", &part_argument], "large").0, "206");
    assert!(fs::read(&part).unwrap() == large);

    let head = bed.curl(&["--head"], "large").stdout;
    let head = String::from_utf8(head).unwrap().to_lowercase();
    assert!(head.contains("content-length: 3145805\r\n"), "{head}");
    let condition = format!("If-None-Match: {}", bed.etag("large"));
    assert_eq!(bed.get(&["--header", &condition], "large").0, "304");

    let (status, body) = bed.get(&["--location"], "sub");
    let page = String::from_utf8(body).unwrap();
    assert!(status == "200" && page.contains("<a href=\"%C3%BC%20b\">ü b</a>"), "{page}");
    let small = fs::read(bed.served.join("sub/ü b")).unwrap();
    assert!(bed.get(&[], "sub/%C3%BC%20b").1 == small);
    for path in ["../outside", "%2e%2e/outside", "..%2foutside", "sub/../../outside", "a%00"] {
        assert_eq!(bed.get(&[], path).0, "400", "{path}");
    }
    for path in [".hidden", "none", "large/32=metadata", "large/v=1/seg=0"] {
        assert_eq!(bed.get(&[], path).0, "404", "{path}");
    }
}

#[test]
fn a_killed_client_ends_the_fetch() {
    if !skip_unless_found("curl") {
        return;
    }
    let bed = Bed::new(&[], &["--transfers", "1", "--read-ahead", "16"]);
    fs::write(bed.served.join("huge"), noise(3, 48 << 20)).unwrap();
    let out = bed.forwarder.directory().join("out");
    let mut command = Command::new("curl");
    command.args(["--silent", "--noproxy", "*", "--limit-rate", "100k", "--output"]).arg(&out);
    command.arg(bed.url("huge"));
    let mut curl = Process::start("curl", command, bed.forwarder.directory());
    wait_until("the first bytes", || {
        fs::metadata(&out).ok().filter(|metadata| metadata.len() > 0).map(|_| ())
    });
    curl.signal(Signal::KILL);
    curl.wait();
    // Only one transfer is allowed, and the client that is gone had that.
    assert_eq!(bed.get(&[], "large").1.len(), FILE_BYTES);
    let log = wait_until("both requests in the log", || {
        let log = bed.log();
        (log.len() == 2).then_some(log)
    });
    let killed = log.iter().find(|line| line["path"] == "/huge").unwrap();
    assert_eq!(killed["complete"], false);
}

#[test]
fn unverified_content_is_not_sent() {
    if !skip_unless_found("curl") {
        return;
    }
    let keys = tempfile::tempdir().unwrap();
    let key = |name: &str| {
        let file = keys.path().join(name);
        let key = ndn_security::PrivateKey::generate(ndn_security::KeyType::Ecdsa).unwrap();
        fs::write(&file, key.to_pem().unwrap()).unwrap();
        file.display().to_string()
    };
    let (trusted, other) = (key("trusted"), key("other"));
    for (signer, expected) in [(&trusted, "200"), (&other, "502")] {
        let bed = Bed::new(&["--sign", signer], &["--verify", &trusted]);
        let (status, body) = bed.get(&[], "large");
        assert_eq!(status, expected);
        let is_right = body == fs::read(bed.served.join("large")).unwrap();
        assert_eq!(is_right, expected == "200");
    }
}

#[test]
fn a_browser_shows_directories() {
    if !skip_unless_found("chromium") {
        return;
    }
    let bed = Bed::new(&[], &[]);
    let directory = bed.forwarder.directory();
    let mut browser = Command::new("chromium");
    browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
    browser.args(["--no-first-run", "--disable-background-networking", "--dump-dom"]);
    browser.arg(format!("--user-data-dir={}", directory.join("browser").display()));
    browser.arg(bed.url("sub/")).env("HOME", directory);
    let shown = run_to_end(browser);
    let page = String::from_utf8_lossy(&shown.stdout);
    assert!(page.contains("<a href=\"%C3%BC%20b\">ü b</a>"), "{page}");
}

#[test]
fn files_of_ndn6_tools_are_read() {
    if !(skip_unless_found("ndn6-file-server") && skip_unless_found("curl")) {
        return;
    }
    let bed = Bed::new(&[], &[]);
    let directory = bed.served.display().to_string();
    let mut command = Command::new("ndn6-file-server");
    // Metadata below one prefix names files below another.
    command.args(["-D", "/theirs", "-b", "/theirs/replica", "-d", &directory]);
    command
        .env("NDN_CLIENT_TRANSPORT", bed.forwarder.unix())
        .env("HOME", bed.forwarder.directory());
    let _server = Process::start("ndn6", command, bed.forwarder.directory());
    let large = fs::read(bed.served.join("large")).unwrap();
    wait_until("the file server of ndn6-tools", || {
        let metadata = ["peek", "-Pf", "--lifetime", "1s", "/theirs/large/32=metadata"];
        bed.forwarder.run(&metadata).status.success().then_some(())
    });
    let fetched = bed.forwarder.run(&["get", "/theirs/large", "-o", "-"]);
    let printed = String::from_utf8_lossy(&fetched.stderr);
    assert!(fetched.status.success() && fetched.stdout == large, "{printed}");
    let arguments = ["gateway", "--prefix", "/theirs", "--listen", "127.0.0.1:0"];
    let mut gateway = bed.forwarder.spawn("their-gateway", &arguments);
    gateway.wait_for_output("serving ");
    let url = gateway.stdout().trim().rsplit(' ').next().unwrap().to_owned();
    let bed = Bed { url, ..bed };
    let (status, body) = bed.get(&["--range", "1000000-2000000"], "large");
    assert!(status == "206" && body == large[1_000_000..=2_000_000], "{status}");
    let (status, body) = bed.get(&["--location"], "sub");
    assert!(status == "200" && String::from_utf8_lossy(&body).contains("ü b"), "{status}");
}

/// XRootD's cache, with the gateway as its origin.
fn start_cache(bed: &Bed) -> XRootD {
    let directory = bed.forwarder.directory();
    let data = directory.join("xcache/data");
    fs::create_dir_all(&data).unwrap();
    let origin = bed.url.trim_end_matches('/');
    let text = format!(
        "all.export /\noss.localroot {}\nofs.osslib libXrdPss.so\npss.cachelib libXrdPfc.so\n\
         pss.origin {origin}\npfc.ram 1g\npfc.blocksize 512k\npfc.prefetch 0\n\
         pfc.diskusage 0.98 0.99\n",
        data.display()
    );
    XRootD::start("xcache", &text, directory)
}

fn xrootd_found() -> bool {
    let plugin = Path::new("/etc/xrootd/client.plugins.d/xrdcl-http-plugin.conf");
    skip_unless_found("xrdcp") && skip_unless_file(plugin, "xrootd-client-http-plugins")
}

#[test]
fn the_client_of_xrootd_copies_files() {
    if !xrootd_found() {
        return;
    }
    let bed = Bed::new(&[], &[]);
    for path in ["large", "sub/%C3%BC%20b"] {
        let copied = xrdcp(&bed.url(path), bed.forwarder.directory());
        let file = path.replace("%C3%BC%20b", "ü b");
        assert!(copied == fs::read(bed.served.join(file)).unwrap(), "{path}");
    }
}

#[test]
fn vector_read_of_xrootd_is_one_request() {
    let module = Path::new("/usr/lib/python3/dist-packages/XRootD/__init__.py");
    if !xrootd_found() || !skip_unless_file(module, "python3-xrootd") {
        return;
    }
    let bed = Bed::new(&[], &[]);
    // Within a segment, over several, one beside the other, the last byte.
    let reads = [
        vec![(0, 1), (8191, 2), (20_000, 100_000), (FILE_BYTES - 1, 1)],
        vec![(100, 50), (150, 50), (3_000_000, 8192)],
        (0..100).map(|number| (number * 30_000, 500)).collect(),
    ];
    let (url, copy) = (bed.url("large"), bed.served.join("large"));
    let output = xrootd_vector_reads(&url, &copy, &reads, bed.forwarder.directory());
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "4\n3\n100\n", "{printed}");
    let sent = wait_until("the requests in the log", || {
        let log = bed.log();
        let sent = log.iter().filter(|line| line["method"] == "GET" && line["path"] == "/large");
        let sent: Vec<_> =
            sent.map(|line| (line["status"].clone(), line["bytes"].clone())).collect();
        (sent.len() >= reads.len()).then_some(sent)
    });
    assert_eq!(sent.len(), reads.len(), "one request for each: {sent:?}");
    for ((status, bytes), read) in sent.iter().zip(&reads) {
        let content: usize = read.iter().map(|(_, length)| length).sum();
        assert_eq!(*status, 206);
        // What lies between the parts counts, too.
        assert!(bytes.as_u64() > u64::try_from(content).ok(), "{bytes} for {content}");
    }
}

#[test]
fn cache_of_xrootd_fetches_a_file_once() {
    if !xrootd_found() || !skip_unless_found("xrootd") {
        return;
    }
    let bed = Bed::new(&[], &[]);
    let mut cache = start_cache(&bed);
    let mut copy = || {
        let copied = xrdcp(&cache.url("/large"), bed.forwarder.directory());
        assert!(cache.is_running());
        copied
    };
    let large = fs::read(bed.served.join("large")).unwrap();
    assert!(copy() == large);
    // Requests are in the log when they are over, so wait for all of them.
    let mark = |path: &str| {
        assert_eq!(bed.get(&[], path).0, "404");
        let name = format!("/{path}");
        wait_until("the mark in the log", || {
            let log = bed.log();
            let mark = log.iter().find(|line| line["path"] == name.as_str())?;
            Some(mark["time"].as_str().unwrap().to_owned())
        })
    };
    let first = mark("first");
    assert!(copy() == large);
    mark("second");
    let log = bed.log();
    let later = log.iter().filter(|line| line["time"].as_str().unwrap() > first.as_str());
    let later: Vec<_> = later.map(|line| &line["path"]).collect();
    assert_eq!(later, ["/second"], "the second copy comes from the cache");
    let sent = log.iter().filter(|line| line["method"] == "GET" && line["status"] == 206);
    let sent: u64 = sent.filter_map(|line| line["bytes"].as_u64()).sum();
    assert!(sent <= u64::try_from(FILE_BYTES).unwrap(), "nothing was asked for twice: {sent}");
    assert!(log.iter().any(|line| line["status"] == 206));
}

/// A certificate for this host, and its key.
fn certificate(directory: &Path) -> (String, String) {
    let path = |name: &str| directory.join(name).display().to_string();
    let (certificate, key) = (path("tls-certificate.pem"), path("tls-key.pem"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
    openssl.args(["-nodes", "-days", "7", "-subj", "/CN=test"]);
    openssl.args(["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", &key, "-out", &certificate]);
    let made = run_to_end(openssl);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (certificate, key)
}

#[test]
fn curl_reads_over_tls_with_a_token() {
    if !skip_unless_found("curl") || !skip_unless_found("openssl") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = certificate(directory.path());
    let token = directory.path().join("tokens");
    fs::write(&token, "secret\n").unwrap();
    let token = token.display().to_string();
    let bed = Bed::new(
        &[],
        &["--tls-certificate", &certificate, "--tls-key", &key, "--token-file", &token],
    );
    assert!(bed.url.starts_with("https://"), "{}", bed.url);
    let trusting = ["--cacert", &certificate];
    let (status, body) =
        bed.get(&[&trusting[..], &["-H", "Authorization: Bearer secret"]].concat(), "large");
    assert_eq!((status.as_str(), body), ("200", fs::read(bed.served.join("large")).unwrap()));
    let (status, body) = bed.get(&[&trusting[..], &["-u", "me:secret"]].concat(), "sub/");
    assert!(status == "200" && String::from_utf8_lossy(&body).contains("ü b"));
    assert_eq!(bed.get(&trusting, "large").0, "401");
    let untrusted = bed.curl(&[], "large");
    assert_eq!(untrusted.status.code(), Some(60), "the certificate is checked");
    let plain = run_to_end({
        let mut command = Command::new("curl");
        command.args(["--silent", "--noproxy", "*", &bed.url.replace("https", "http")]);
        command
    });
    assert!(!plain.status.success());
}

#[test]
fn curl_reads_properties_of_webdav() {
    if !skip_unless_found("curl") {
        return;
    }
    let bed = Bed::new(&[], &[]);
    let (status, body) = bed.get(&["-X", "PROPFIND", "-H", "Depth: 1"], "sub/");
    let text = String::from_utf8_lossy(&body);
    assert_eq!(status, "207", "{text}");
    assert!(text.contains("<D:href>/sub/%C3%BC%20b</D:href>"), "{text}");
    assert!(text.contains("<D:getcontentlength>8192<"), "{text}");
}

/// Runs a client of S3 on the bucket `data`.
fn aws(bed: &Bed, arguments: &[&str]) -> Output {
    let mut command = Command::new("aws");
    command.args(["--endpoint-url", bed.url.trim_end_matches('/')]).args(arguments);
    command.env("HOME", bed.forwarder.directory()).env("AWS_EC2_METADATA_DISABLED", "true");
    command.env("AWS_ACCESS_KEY_ID", "any").env("AWS_SECRET_ACCESS_KEY", "any");
    command.env("AWS_DEFAULT_REGION", "us-east-1").env("NO_PROXY", "*");
    let output = run_to_end(command);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn the_client_of_s3_lists_and_copies() {
    if !skip_unless_found("aws") {
        return;
    }
    let bed = Bed::new(&[], &["--s3-bucket", "data"]);
    let text =
        |arguments: &[&str]| String::from_utf8_lossy(&aws(&bed, arguments).stdout).into_owned();
    assert!(text(&["s3", "ls"]).contains("data"));
    let top = text(&["s3", "ls", "s3://data/"]);
    assert!(top.contains("PRE sub/") && top.contains("large"), "{top}");
    let all = text(&["s3", "ls", "--recursive", "--page-size", "1", "s3://data"]);
    assert!(all.contains("8192 sub/ü b") && all.contains(&format!("{FILE_BYTES} large")), "{all}");
    let copy = bed.forwarder.directory().join("copied");
    let copied = copy.display().to_string();
    text(&["s3", "sync", "--no-sign-request", "s3://data", &copied]);
    for path in ["large", "sub/ü b"] {
        assert!(
            fs::read(copy.join(path)).unwrap() == fs::read(bed.served.join(path)).unwrap(),
            "{path}"
        );
    }
    // What is there is not copied again.
    let again = text(&["s3", "sync", "s3://data", &copied]);
    assert!(!again.contains("download"), "{again}");
    let part = copy.join("part").display().to_string();
    text(&[
        "s3api",
        "get-object",
        "--bucket",
        "data",
        "--key",
        "large",
        "--range",
        "bytes=5-14",
        &part,
    ]);
    assert_eq!(fs::read(&part).unwrap(), fs::read(bed.served.join("large")).unwrap()[5..15]);
    let head = text(&["s3api", "head-object", "--bucket", "data", "--key", "large"]);
    let head: Value = serde_json::from_str(&head).unwrap();
    assert_eq!(head["ContentLength"], FILE_BYTES, "{head}");
    assert!(head["ETag"].is_string() && head["LastModified"].is_string(), "{head}");
}

#[test]
fn wget_copies_a_directory() {
    if !skip_unless_found("wget") {
        return;
    }
    let bed = Bed::new(&[], &[]);
    let copy = bed.forwarder.directory().join("copy");
    let mut wget = Command::new("wget");
    wget.args(["--recursive", "--no-parent", "--no-host-directories", "--no-verbose"]);
    wget.args(["--no-proxy", "--restrict-file-names=unix,nocontrol"]);
    wget.arg("--directory-prefix").arg(&copy).arg(&bed.url);
    let output = run_to_end(wget);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for path in ["large", "sub/ü b"] {
        let same = fs::read(copy.join(path)).unwrap() == fs::read(bed.served.join(path)).unwrap();
        assert!(same, "{path}");
    }
    assert!(!copy.join(".hidden").exists());
}

#[test]
fn aria2_fetches_a_file_by_several_connections() {
    if !skip_unless_found("aria2c") {
        return;
    }
    let bed = Bed::new(&[], &[]);
    let mut aria2 = Command::new("aria2c");
    aria2.args(["--no-conf", "--quiet", "--split=3", "--min-split-size=1M", "--no-proxy=*"]);
    aria2.arg("--max-connection-per-server=3").arg("--dir").arg(bed.forwarder.directory());
    aria2.args(["--out=copy", &bed.url("large")]);
    let output = run_to_end(aria2);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let copy = fs::read(bed.forwarder.directory().join("copy")).unwrap();
    assert!(copy == fs::read(bed.served.join("large")).unwrap());
    let log = wait_until("the requests in the access log", || {
        let log = bed.log();
        (log.len() >= 3).then_some(log)
    });
    // A request that aria2 gives up, because other connections have brought its part, has no status.
    let statuses = log.iter().map(|line| &line["status"]);
    let (parts, others): (Vec<_>, Vec<_>) = statuses.partition(|status| **status == 206);
    assert!(parts.len() >= 2, "{log:?}");
    assert!(others.iter().all(|status| status.is_null() || **status == 200), "{log:?}");
}

/// Writes the configuration of rclone for both of its ways to read, and runs it.
fn rclone(bed: &Bed, arguments: &[&str]) -> String {
    let mut command = Command::new("rclone");
    let (url, home) = (bed.url.trim_end_matches('/'), bed.forwarder.directory());
    command.env("RCLONE_CONFIG", home.join("rclone.conf")).env("HOME", home).env("NO_PROXY", "*");
    command.env("RCLONE_CONFIG_DAV_TYPE", "webdav").env("RCLONE_CONFIG_DAV_URL", url);
    command.env("RCLONE_CONFIG_S3_TYPE", "s3").env("RCLONE_CONFIG_S3_PROVIDER", "Other");
    // The S3 library of rclone 1.60 does not start with such a bundle.
    command.env_remove("AWS_CA_BUNDLE");
    command.env("RCLONE_CONFIG_S3_LIST_VERSION", "2");
    command.env("RCLONE_CONFIG_S3_ENDPOINT", url).env("RCLONE_CONFIG_S3_FORCE_PATH_STYLE", "true");
    let output = run_to_end({
        command.args(arguments);
        command
    });
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn rclone_copies_over_webdav_and_s3() {
    if !skip_unless_found("rclone") {
        return;
    }
    let bed = Bed::new(&[], &["--s3-bucket", "data"]);
    for (number, remote) in ["dav:", "s3:data"].into_iter().enumerate() {
        let listed = rclone(&bed, &["lsl", remote]);
        assert!(listed.contains("8192") && listed.contains("sub/ü b"), "{remote}: {listed}");
        let copy = bed.forwarder.directory().join(format!("copy-{number}"));
        rclone(&bed, &["copy", remote, &copy.display().to_string()]);
        for path in ["large", "sub/ü b"] {
            let is_same =
                fs::read(copy.join(path)).unwrap() == fs::read(bed.served.join(path)).unwrap();
            assert!(is_same, "{remote}: {path}");
        }
    }
}

/// Directories are not listed: davfs2 1.6.1 answers `getdents64` with EINVAL on Linux 6.18, whatever the server. It finds files
/// by the same requests.
#[test]
fn davfs2_mounts_over_webdav() {
    if !skip_unless_found("mount.davfs") {
        return;
    }
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        return skip("fuse", "davfs2 needs root and /dev/fuse");
    }
    let bed = Bed::new(&[], &[]);
    let home = bed.forwarder.directory();
    let (configuration, mounted) = (home.join("davfs2.conf"), home.join("mounted"));
    fs::write(&configuration, "ask_auth 0\nuse_locks 0\n").unwrap();
    fs::create_dir(&mounted).unwrap();
    let mut mount = Command::new("mount.davfs");
    // Names of files are converted to the character set of the locale.
    mount.env("LC_ALL", "C.UTF-8").env_remove("http_proxy").arg(&bed.url).arg(&mounted);
    mount.arg("-o").arg(format!("ro,conf={}", configuration.display()));
    let output = run_to_end(mount);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read = ["large", "sub/ü b"].map(|path| fs::read(mounted.join(path)));
    let size = fs::metadata(mounted.join("large")).map(|found| found.len());
    let is_there = mounted.join("none").exists() || mounted.join(".hidden").exists();
    let mut unmount = Command::new("umount");
    unmount.arg(&mounted);
    let output = run_to_end(unmount);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!((size.unwrap(), is_there), (FILE_BYTES as u64, false));
    for (path, content) in ["large", "sub/ü b"].into_iter().zip(read) {
        assert!(content.unwrap() == fs::read(bed.served.join(path)).unwrap(), "{path}");
    }
}

/// Dask and pandas find files with fsspec.
#[test]
fn fsspec_finds_files_by_pattern() {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(".venv/bin/python");
    if !skip_unless_file(&python, "python") {
        return;
    }
    let bed = Bed::new(&[], &[]);
    let program = "import fsspec, sys; fs = fsspec.filesystem('http'); \
                   print(fs.glob(sys.argv[1] + 'sub/*')); print(fs.cat(sys.argv[1] + 'large') == open(sys.argv[2], 'rb').read())";
    let large = bed.served.join("large").display().to_string();
    let mut command = Command::new(python);
    command.args(["-c", program, &bed.url, &large]).env("NO_PROXY", "*");
    let output = run_to_end(command);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("sub/%C3%BC%20b") && text.contains("True"), "{text}");
}

#[test]
fn forwarder_that_a_signal_has_stopped_is_named() {
    let forwarder = Settings::new().start_program();
    let mut gateway = forwarder.spawn(
        "gateway",
        &[
            "gateway",
            "--prefix",
            "/files",
            "--listen",
            "127.0.0.1:0",
            "--lifetime",
            "100ms",
            "--retries",
            "0",
        ],
    );
    gateway.wait_for_output("serving ");
    let url = format!("{}/a", gateway.stdout().trim().rsplit(' ').next().unwrap());
    forwarder.process.signal(Signal::STOP);
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--noproxy", "*", "--write-out", "%{http_code}", &url]);
    let answer = run_to_end(curl);
    forwarder.process.signal(Signal::CONT);
    let answer = String::from_utf8(answer.stdout).unwrap();
    let reason = "the forwarder of the gateway does not run: a signal has stopped it";
    assert!(answer.contains(reason) && answer.ends_with("503"), "{answer}");
}
