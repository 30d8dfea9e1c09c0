//! `--verify rules:FILE`: anchor, site and server, made with `namewire key` and `namewire cert` or with
//! ndnsec; certificates are fetched through `namewire run`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use namewire_tests::{Forwarder, Process, Settings, noise, program, skip_unless_found};

/// First and last second of certificates.
const VALIDITY: [&str; 4] = ["-S", "20200101000000", "-E", "20991231235959"];

const RULES: &str = "
anchor root.cert
data /lab/<site>/files/** by /lab/<site>/server
key /lab/<site>/server by /lab/<site>
key /lab/<site> by /lab
";

/// The same for ndn-cxx, as far as its format has it.
const RULES_OF_NDN_CXX: &str = r#"
rule {
  id "certificates"
  for data
  filter { type name  regex ^<>*<KEY><>{3}$ }
  checker { type hierarchical }
}
rule {
  id "files"
  for data
  filter { type name  name /lab/a/files  relation is-prefix-of }
  checker {
    type customized
    sig-type ecdsa-sha256
    key-locator { type name  name /lab/a/server  relation equal }
  }
}
trust-anchor { type file  file-name root.cert }
"#;

/// The output of `command`, with a home directory of its own.
fn print(mut command: Command, home: &Path, input: &str) -> String {
    command.env("HOME", home).env_remove("NDN_CLIENT_PIB").env_remove("NDN_CLIENT_TPM");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It may end without reading.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Makes keys: with our own tools or with those of ndn-cxx, which take other words.
#[derive(Clone, Copy)]
enum Maker {
    Namewire,
    Ndnsec,
}

impl Maker {
    fn command(self, arguments: [&[&str]; 2]) -> Command {
        let (mut command, arguments) = match self {
            Self::Namewire => (Command::new(program()), arguments[0]),
            Self::Ndnsec => (Command::new("ndnsec"), arguments[1]),
        };
        command.args(arguments);
        command
    }

    /// Makes `/lab`, `/lab/a` and `/lab/a/server` in `home`, and files of their certificates.
    fn make(self, home: &Path) {
        let keep = |name: &str, text: &str| fs::write(home.join(name), text).unwrap();
        let root = self.command([&["key", "gen", "/lab"], &["key-gen", "/lab"]]);
        keep("root.cert", &print(root, home, ""));
        for (identity, issuer, file) in
            [("/lab/a", "/lab", "site.cert"), ("/lab/a/server", "/lab/a", "server.cert")]
        {
            let made = self.command([&["key", "gen", identity], &["key-gen", identity]]);
            print(made, home, "");
            let request = self.command([&["cert", "request", identity], &["sign-req", identity]]);
            let request = print(request, home, "");
            let ours = [&["cert", "sign", "-s", issuer], &VALIDITY[..]].concat();
            let theirs = [&["cert-gen", "-s", issuer], &VALIDITY[..], &["-"]].concat();
            let sign = self.command([&ours, &theirs]);
            let certificate = print(sign, home, &request);
            let install = self.command([&["cert", "install", "-"], &["cert-install", "-"]]);
            print(install, home, &certificate);
            keep(file, &certificate);
        }
    }
}

struct Bed {
    _server: Process,
    forwarder: Forwarder,
    content: Vec<u8>,
}

impl Bed {
    /// Serves `/lab/a/files`, and `/lab/b/files` which the same key may not sign.
    fn new(maker: Maker, certificates: &[&str]) -> Self {
        Self::with(maker, certificates, |_| {})
    }

    /// As [`Self::new`], with a change of the key chain before the server starts.
    fn with(maker: Maker, certificates: &[&str], change: impl FnOnce(&Path)) -> Self {
        let forwarder = Settings::new().start();
        let home = forwarder.directory().to_owned();
        maker.make(&home);
        change(&home);
        fs::write(home.join("lab.rules"), RULES).unwrap();
        fs::write(home.join("ndn-cxx.rules"), RULES_OF_NDN_CXX).unwrap();
        let content = noise(1, 300_000);
        fs::create_dir_all(home.join("served")).unwrap();
        fs::write(home.join("served/x"), &content).unwrap();
        let mounts = "[[mount]]\nprefix = \"/lab/a/files\"\ndirectory = \"served\"\n\
                      [[mount]]\nprefix = \"/lab/b/files\"\ndirectory = \"served\"\n";
        fs::write(home.join("mounts.toml"), mounts).unwrap();
        let mounts = home.join("mounts.toml").display().to_string();
        let mut arguments = vec!["serve", "--mounts", &mounts, "--identity", "/lab/a/server"];
        let files: Vec<String> =
            certificates.iter().map(|file| home.join(file).display().to_string()).collect();
        for file in &files {
            arguments.extend(["--certificate", file]);
        }
        let mut command = forwarder.command(&arguments);
        command.env("HOME", &home).env_remove("NDN_CLIENT_PIB").env_remove("NDN_CLIENT_TPM");
        let mut server = Process::start("server", command, &home);
        server.wait_for_output("/lab/b/files");
        Self { _server: server, forwarder, content }
    }

    fn get(&self, name: &str, rules: &str) -> Output {
        let rules = format!("rules:{}", self.forwarder.directory().join(rules).display());
        self.forwarder.run(&["get", name, "-o", "-", "--lifetime", "2s", "--verify", &rules])
    }

    fn assert_fetched(&self, rules: &str) {
        let fetched = self.get("/lab/a/files/x", rules);
        let printed = String::from_utf8_lossy(&fetched.stderr);
        assert!(fetched.status.success() && fetched.stdout == self.content, "{rules}: {printed}");
    }

    fn assert_refused(&self, name: &str, rules: &str, explanation: &str) {
        let refused = self.get(name, rules);
        let printed = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(5), "{printed}");
        assert!(printed.contains(explanation), "{printed}");
        assert!(refused.stdout.is_empty());
    }
}

#[test]
fn files_are_verified_by_a_chain_of_certificates() {
    // The server has the certificates in its key chain.
    let bed = Bed::new(Maker::Namewire, &[]);
    bed.assert_fetched("lab.rules");
    bed.assert_fetched("ndn-cxx.rules");
    bed.assert_refused("/lab/b/files/x", "lab.rules", "it takes a key of /lab/b/server");
    bed.assert_refused("/lab/b/files/x", "ndn-cxx.rules", "no rule is about /lab/b/files/x");
    // A key of the same name that somebody else has made.
    let other = bed.forwarder.directory().join("other");
    fs::create_dir(&other).unwrap();
    Maker::Namewire.make(&other);
    fs::write(other.join("lab.rules"), RULES).unwrap();
    bed.assert_refused("/lab/a/files/x", "other/lab.rules", "certificate /lab/KEY/");
    // The gateway believes the same.
    for (rules, status) in [("lab.rules", "200"), ("other/lab.rules", "502")] {
        if !skip_unless_found("curl") {
            return;
        }
        let rules = format!("rules:{}", bed.forwarder.directory().join(rules).display());
        let arguments =
            ["gateway", "--prefix", "/lab/a/files", "--listen", "127.0.0.1:0", "--verify", &rules];
        let mut gateway = bed.forwarder.spawn("gateway", &arguments);
        gateway.wait_for_output("serving ");
        let url = format!("{}x", gateway.stdout().trim().rsplit(' ').next().unwrap());
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--noproxy", "*", "--write-out", "%{stderr}%{http_code}", &url]);
        let answer = namewire_tests::run_to_end(curl);
        assert_eq!(String::from_utf8_lossy(&answer.stderr), status);
        assert_eq!(answer.stdout == bed.content, status == "200");
    }
}

#[test]
fn missing_certificate_is_reported_by_name() {
    let bed = Bed::with(Maker::Namewire, &["server.cert"], |home| {
        let mut command = Command::new(program());
        command.args(["key", "delete", "/lab/a", "--yes"]);
        print(command, home, "");
    });
    bed.assert_refused("/lab/a/files/x", "lab.rules", "certificate /lab/a/KEY/");
    bed.assert_refused("/lab/a/files/x", "lab.rules", "serve --certificate FILE)");
}

#[test]
fn files_are_verified_by_certificates_of_ndnsec() {
    if skip_unless_found("ndnsec") {
        let bed = Bed::new(Maker::Ndnsec, &["site.cert", "server.cert"]);
        bed.assert_fetched("lab.rules");
        bed.assert_fetched("ndn-cxx.rules");
    }
}
