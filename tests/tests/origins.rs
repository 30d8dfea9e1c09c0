//! `namewire serve` of buckets and web servers: moto, nginx, Python's http.server and our own gateway.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use namewire_tests::{
    Forwarder, Process, Settings, free_port, noise, run_to_end, skip, skip_unless_found, wait_until,
};
use rustix::process::Signal;
use serde_json::Value;

const LARGE_BYTES: usize = 5 * 1024 * 1024 + 77;

/// A service of S3 in memory.
struct Moto {
    _process: Process,
    endpoint: String,
}

impl Moto {
    /// Starts it in `directory`; after `unchecked` requests, it checks credentials.
    fn start(directory: &Path, unchecked: Option<u32>) -> Option<Self> {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.venv/bin/moto_server");
        let program = if own.is_file() { own } else { PathBuf::from("moto_server") };
        if program.is_relative() && !skip_unless_found("moto_server") {
            return None;
        }
        let port = free_port();
        let mut command = Command::new(program);
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        if let Some(unchecked) = unchecked {
            command.env("INITIAL_NO_AUTH_ACTION_COUNT", unchecked.to_string());
        }
        let process = Process::start("moto", command, directory);
        wait_for_port(port);
        let moto = Self { _process: process, endpoint: format!("http://127.0.0.1:{port}") };
        let mut bucket = Command::new("curl");
        bucket.args(["--silent", "--fail", "--noproxy", "*", "--request", "PUT"]);
        bucket.arg(format!("{}/data", moto.endpoint));
        assert!(run_to_end(bucket).status.success());
        Some(moto)
    }

    /// Writes an object of the bucket `data`.
    fn put(&self, key: &str, content: &[u8]) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), content).unwrap();
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--fail", "--noproxy", "*"]);
        command.args(["--aws-sigv4", "aws:amz:us-east-1:s3", "--user", "a-key:a-secret"]);
        command.arg("--upload-file").arg(file.path());
        command.arg(format!("{}/data/{key}", self.endpoint));
        let output = run_to_end(command);
        assert!(output.status.success(), "{key}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn credentials(&self, command: &mut Command) {
        without_credentials(command);
        command.env("AWS_ENDPOINT_URL", &self.endpoint);
        command.env("AWS_ACCESS_KEY_ID", "a-key").env("AWS_SECRET_ACCESS_KEY", "a-secret");
    }
}

/// Removes the credentials that the machine of the test may have; no metadata service and no proxy is used.
fn without_credentials(command: &mut Command) {
    for (variable, _) in std::env::vars().filter(|(variable, _)| variable.starts_with("AWS_")) {
        command.env_remove(variable);
    }
    command.env("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1");
    command.env("NO_PROXY", "127.0.0.1");
}

fn wait_for_port(port: u16) {
    wait_until("a server to listen", || TcpStream::connect(("127.0.0.1", port)).ok());
}

fn serve(forwarder: &Forwarder, name: &str, arguments: &[&str], moto: Option<&Moto>) -> Process {
    let mut command = forwarder.command(&[&["serve"], arguments].concat());
    match moto {
        Some(moto) => moto.credentials(&mut command),
        None => without_credentials(&mut command),
    }
    let mut server = Process::start(name, command, forwarder.directory());
    server.wait_for_output("serving ");
    server
}

fn get(forwarder: &Forwarder, name: &str) -> Vec<u8> {
    let output = forwarder.run(&["get", name, "-o", "-"]);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {complaint}");
    output.stdout
}

/// The refusal to serve an address, with these variables.
fn refused(forwarder: &Forwarder, address: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = forwarder.command(&["serve", address, "--prefix", "/files"]);
    without_credentials(&mut command);
    command.envs(variables.iter().copied());
    let output = run_to_end(command);
    assert!(!output.status.success());
    output
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn bucket_is_served_as_a_directory_is() {
    let forwarder = Settings::new().start();
    let Some(moto) = Moto::start(forwarder.directory(), None) else { return };
    let large = noise(1, LARGE_BYTES);
    moto.put("run/large", &large);
    moto.put("run/sub/small", b"small");
    moto.put("run/sub/empty", b"");
    moto.put("run/a%20b", b"with a space");
    moto.put("other", b"not below the prefix");
    let arguments = ["s3://data/run", "--prefix", "/files", "--json"];
    let mut server = serve_json(&forwarder, "server", &arguments, &moto);

    assert!(get(&forwarder, "/files/large") == large);
    assert_eq!(get(&forwarder, "/files/sub/small"), b"small");
    assert_eq!(get(&forwarder, "/files/sub/empty"), b"");
    assert_eq!(get(&forwarder, "/files/a%20b"), b"with a space");
    let range = forwarder.run(&["get", "/files/large", "--range", "3000000-3000009", "-o", "-"]);
    assert!(range.stdout == large[3_000_000..3_000_010], "{}", complaint(&range));
    let listed = forwarder.json(&["ls", "-R", "/files"]);
    let mut names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["/files/a%20b", "/files/large", "/files/sub", "/files/sub/empty", "/files/sub/small"]
    );
    let out = forwarder.directory().join("out");
    let _ = forwarder.output(&["get", "-r", "/files", "-o", &out.display().to_string(), "--quiet"]);
    assert!(fs::read(out.join("large")).unwrap() == large);
    for (missing, reason) in [
        ("/files/none", "there is no such object"),
        ("/files/other", "there is no such object"),
        ("/files/...../other", "not a valid file name"),
    ] {
        let output = forwarder.run(&["get", missing, "-o", "-"]);
        assert!(complaint(&output).contains(reason), "{missing}: {}", complaint(&output));
    }
    let compare = ["sync", "/files", &out.display().to_string(), "--verify-only"];
    let _ = forwarder.output(&compare);
    let report = end(&mut server);
    assert!(report["manifests_built"].as_u64().unwrap() > 0, "{report}");

    // Digests outlive the server: no object is read whole again for its manifest.
    let mut server = serve_json(&forwarder, "again", &arguments, &moto);
    let _ = forwarder.output(&["cs", "erase", "/files"]);
    let _ = forwarder.output(&compare);
    let report = end(&mut server);
    assert!(report["manifests_loaded"].as_u64().unwrap() >= 1, "{report}");
}

fn serve_json(forwarder: &Forwarder, name: &str, arguments: &[&str], moto: &Moto) -> Process {
    let mut command = forwarder.command(&[&["serve"], arguments].concat());
    moto.credentials(&mut command);
    let mut server = Process::start(name, command, forwarder.directory());
    server.wait_for_output("directory");
    server
}

/// Interrupts a server, and returns its report.
fn end(server: &mut Process) -> Value {
    server.signal(Signal::INT);
    server.wait();
    let stdout = server.stdout();
    let mut reports = serde_json::Deserializer::from_str(&stdout).into_iter::<Value>();
    reports.by_ref().last().unwrap().unwrap()
}

#[test]
fn object_that_changes_under_way_is_a_new_version() {
    let forwarder = Settings::new().start();
    let Some(moto) = Moto::start(forwarder.directory(), None) else { return };
    // More than is read ahead.
    let (old, new) = (noise(2, 3 * LARGE_BYTES), noise(3, LARGE_BYTES - 1000));
    moto.put("file", &old);
    let server = serve(&forwarder, "server", &["s3://data", "--prefix", "/files"], Some(&moto));
    let version = |forwarder: &Forwarder| {
        let listed = forwarder.json(&["ls", "/files"]);
        listed[0]["version"].as_u64().unwrap()
    };
    let before = version(&forwarder);
    // The first block is in the server's memory now, and the last ones are not.
    let range = forwarder.run(&["get", "/files/file", "--range", "0-99", "-o", "-"]);
    assert!(range.stdout == old[..100]);
    moto.put("file", &new);
    // Segments of the old version are no longer there; those of the new one do not take their place.
    let old_name = format!("/files/file/v={before}");
    let output = forwarder.run(&["get", &old_name, "-o", "-", "--retries", "1"]);
    assert!(!output.status.success() && !complaint(&output).is_empty());
    assert!(output.stdout.len() <= old.len() && old.starts_with(&output.stdout));
    wait_until("the new version", || (version(&forwarder) != before).then_some(()));
    assert!(get(&forwarder, "/files/file") == new);
    // While it changes again and again, every fetch has one state, or fails.
    let states: Vec<Vec<u8>> = (10..14).map(|seed| noise(seed, LARGE_BYTES)).collect();
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| states.iter().for_each(|state| moto.put("file", state)));
        while !writing.is_finished() {
            let output = forwarder.run(&["get", "/files/file", "-o", "-", "--retries", "2"]);
            let is_whole = |state: &Vec<u8>| *state == output.stdout;
            let is_one = states.iter().any(is_whole) || new == output.stdout;
            assert!(is_one || !output.status.success(), "a mixture: {}", complaint(&output));
        }
    });
    let latest = states.last().unwrap();
    wait_until("the last version", || (get(&forwarder, "/files/file") == *latest).then_some(()));
    drop(server);
}

#[test]
fn absent_and_refused_credentials_fail_at_the_start() {
    let forwarder = Settings::new().start();
    let Some(moto) = Moto::start(forwarder.directory(), Some(2)) else { return };
    moto.put("file", b"content");
    let endpoint = ("AWS_ENDPOINT_URL", moto.endpoint.as_str());
    let absent = refused(&forwarder, "s3://data", &[endpoint]);
    assert!(complaint(&absent).contains("no credentials: set AWS_ACCESS_KEY_ID"), "{absent:?}");
    let key = ("AWS_ACCESS_KEY_ID", "AKIAUNKNOWN");
    let half = refused(&forwarder, "s3://data", &[endpoint, key]);
    assert_eq!(half.status.code(), Some(2));
    assert!(complaint(&half).to_lowercase().contains("secret"), "{half:?}");
    let secret = ("AWS_SECRET_ACCESS_KEY", "a-secret-of-nobody");
    let wrong = refused(&forwarder, "s3://data", &[endpoint, key, secret]);
    assert!(complaint(&wrong).contains("the credentials are refused"), "{wrong:?}");
    assert!(!complaint(&wrong).contains("a-secret-of-nobody"), "{wrong:?}");
}

#[test]
fn origins_that_cannot_be_served_are_reported_at_the_start() {
    let forwarder = Settings::new().start();
    for (address, status, expected) in [
        ("s3://", 2, "the name of a bucket"),
        ("s3://data/a//b", 2, "an empty part"),
        ("https://user:secret@127.0.0.1/x", 2, "user name or password is not accepted"),
        ("http://127.0.0.1/x?y", 2, "`?` or `#`"),
        ("http://127.0.0.1:1/", 1, "refused"),
        ("https://name.invalid/", 1, "name.invalid"),
    ] {
        let output = refused(&forwarder, address, &[]);
        let complaint = complaint(&output);
        assert!(complaint.contains(expected), "{address}: {complaint}");
        assert!(!complaint.contains("secret"), "{complaint}");
        assert_eq!(output.status.code(), Some(status), "{address}: {complaint}");
    }
    let Some(moto) = Moto::start(forwarder.directory(), None) else { return };
    let variables = [
        ("AWS_ENDPOINT_URL", moto.endpoint.as_str()),
        ("AWS_ACCESS_KEY_ID", "a-key"),
        ("AWS_SECRET_ACCESS_KEY", "a-secret"),
    ];
    let output = refused(&forwarder, "s3://none", &variables);
    assert!(complaint(&output).contains("there is no such bucket"), "{output:?}");
}

/// nginx with the files of `directory`, at its URL; by TLS with `server.pem` and `server.key` of the directory.
fn nginx(directory: &Path, files: &Path, is_secure: bool) -> Option<(Process, String)> {
    let executable = ["/usr/sbin/nginx", "/usr/local/sbin/nginx"]
        .into_iter()
        .find(|path| Path::new(path).is_file());
    let Some(executable) = executable else {
        skip("nginx", "it is neither in /usr/sbin nor in /usr/local/sbin");
        return None;
    };
    let (port, own) = (free_port(), directory.join("nginx"));
    fs::create_dir_all(&own).unwrap();
    let own = own.display();
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let (scheme, secure, keys) = match is_secure {
        false => ("http", "", String::new()),
        true => {
            let at = directory.display();
            let keys =
                format!("ssl_certificate {at}/server.pem; ssl_certificate_key {at}/server.key;");
            ("https", " ssl", keys)
        }
    };
    let configuration = format!(
        "{user} daemon off; pid {own}/pid; error_log {own}/error.log;\n\
         events {{ worker_connections 256; }}\n\
         http {{ access_log {own}/access.log; client_body_temp_path {own}/body;\n\
         proxy_temp_path {own}/proxy; fastcgi_temp_path {own}/fastcgi;\n\
         uwsgi_temp_path {own}/uwsgi; scgi_temp_path {own}/scgi;\n\
         server {{ listen 127.0.0.1:{port}{secure}; {keys} root {}; location /private {{ return 401; }} }} }}\n",
        files.display()
    );
    let path = directory.join("nginx.conf");
    fs::write(&path, configuration).unwrap();
    let mut command = Command::new(executable);
    command.arg("-c").arg(&path);
    let process = Process::start("nginx", command, directory);
    wait_for_port(port);
    Some((process, format!("{scheme}://127.0.0.1:{port}/")))
}

#[test]
fn files_of_nginx_are_found_by_their_names() {
    let forwarder = Settings::new().start();
    let files = forwarder.directory().join("files");
    fs::create_dir_all(files.join("sub")).unwrap();
    let large = noise(4, LARGE_BYTES);
    fs::write(files.join("sub/large"), &large).unwrap();
    fs::write(files.join("ü b"), b"umlaut").unwrap();
    let Some((_nginx, url)) = nginx(forwarder.directory(), &files, false) else { return };
    let server = serve(&forwarder, "server", &[&url, "--prefix", "/files"], None);
    assert!(server.stderr().contains("does not list directories"), "{}", server.stderr());
    assert!(get(&forwarder, "/files/sub/large") == large);
    assert_eq!(get(&forwarder, "/files/%C3%BC%20b"), b"umlaut");
    let missing = forwarder.run(&["get", "/files/sub/none", "-o", "-"]);
    assert!(complaint(&missing).contains("there is no such object"), "{}", complaint(&missing));
    // nginx makes the entity tag of time and size.
    let new = noise(5, LARGE_BYTES + 1);
    fs::write(files.join("sub/large"), &new).unwrap();
    wait_until("the new version", || (get(&forwarder, "/files/sub/large") == new).then_some(()));
    let private = refused(&forwarder, &format!("{url}private"), &[]);
    assert!(complaint(&private).contains("requires credentials"), "{private:?}");
}

/// Makes a certificate authority (`ca.pem`), and the certificate of a web server on this machine.
fn make_certificate(directory: &Path) {
    let script = "new='req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
        openssl $new -x509 -keyout ca.key -out ca.pem -days 2 -subj '/CN=authority'
        openssl $new -keyout server.key -out server.csr -subj '/CN=server'
        echo 'subjectAltName=IP:127.0.0.1' > extensions
        openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
            -extfile extensions -out server.pem";
    let mut command = Command::new("sh");
    command.args(["-ec", script]).current_dir(directory);
    let output = run_to_end(command);
    assert!(output.status.success(), "{}", complaint(&output));
}

#[test]
fn certificate_of_a_web_server_is_checked() {
    let forwarder = Settings::new().start();
    let files = forwarder.directory().join("files");
    fs::create_dir_all(&files).unwrap();
    let content = noise(6, 1_000_000);
    fs::write(files.join("file"), &content).unwrap();
    make_certificate(forwarder.directory());
    let Some((_nginx, url)) = nginx(forwarder.directory(), &files, true) else { return };
    let unknown = refused(&forwarder, &url, &[]);
    assert!(complaint(&unknown).contains("certificate"), "{unknown:?}");
    let mut command = forwarder.command(&["serve", &url, "--prefix", "/files"]);
    without_credentials(&mut command);
    command.env("SSL_CERT_FILE", forwarder.directory().join("ca.pem"));
    let mut server = Process::start("server", command, forwarder.directory());
    server.wait_for_output("serving ");
    assert!(get(&forwarder, "/files/file") == content);
}

#[test]
fn web_server_without_ranges_serves_small_files() {
    if !skip_unless_found("python3") {
        return;
    }
    let forwarder = Settings::new().start();
    let files = forwarder.directory().join("files");
    fs::create_dir_all(&files).unwrap();
    fs::write(files.join("small"), b"small").unwrap();
    fs::write(files.join("large"), noise(6, LARGE_BYTES)).unwrap();
    let port = free_port();
    let mut command = Command::new("python3");
    command.args(["-m", "http.server", "--bind", "127.0.0.1", &port.to_string()]);
    command.current_dir(&files);
    let _web = Process::start("web", command, forwarder.directory());
    wait_for_port(port);
    let url = format!("http://127.0.0.1:{port}/");
    let server = serve(&forwarder, "server", &[&url, "--prefix", "/files"], None);
    assert_eq!(get(&forwarder, "/files/small"), b"small");
    let large = forwarder.run(&["get", "/files/large", "-o", "-", "--retries", "1"]);
    assert!(!large.status.success());
    let log = server.stderr();
    assert!(log.contains("the server does not support range requests"), "{log}");
}

#[test]
fn own_gateway_is_an_origin() {
    let forwarder = Settings::new().start();
    let files = forwarder.directory().join("files");
    fs::create_dir_all(files.join("sub")).unwrap();
    let large = noise(7, LARGE_BYTES);
    fs::write(files.join("sub/large"), &large).unwrap();
    let directory = files.display().to_string();
    let _first = serve(&forwarder, "first", &[&directory, "--prefix", "/first"], None);
    let fixed = ["gateway", "--prefix", "/first", "--listen", "127.0.0.1:0", "--s3-bucket", "data"];
    let mut gateway = forwarder.spawn("gateway", &fixed);
    gateway.wait_for_output("serving ");
    let url = gateway.stdout().trim().rsplit(' ').next().unwrap().to_owned();
    let mut command = forwarder.command(&["serve", "s3://data/sub", "--prefix", "/second"]);
    without_credentials(&mut command);
    command.env("AWS_ENDPOINT_URL", url.trim_end_matches('/')).env("AWS_SKIP_SIGNATURE", "true");
    let mut second = Process::start("second", command, forwarder.directory());
    second.wait_for_output("serving ");
    assert!(get(&forwarder, "/second/large") == large);
    assert_eq!(forwarder.output(&["ls", "/second"]), "large\n");
    // The same files by WebDAV.
    let server = serve(&forwarder, "third", &[&url, "--prefix", "/third"], None);
    assert!(!server.stderr().contains("does not list"), "{}", server.stderr());
    assert!(get(&forwarder, "/third/sub/large") == large);
    assert_eq!(forwarder.output(&["ls", "/third"]), "sub/\n");
}
