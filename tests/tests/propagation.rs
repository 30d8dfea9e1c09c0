//! `auto_prefix_propagate`: prefixes of a host, registered with its gateway by an identity of the key
//! chain.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use namewire_tests::{Endpoint, Settings, program, run_to_end, skip_unless_file, wait_until};
use serde_json::Value;

/// A signer whose key `root.cert` vouches for may register anything.
const RULES: &str = r#"
[management]
localhop_rib = '''
rule
{
  id "commands"
  for interest
  filter
  {
    type name
    regex ^<localhop><nfd><rib>[<register><unregister>]<>{1,3}$
  }
  checker
  {
    type customized
    sig-type ecdsa-sha256
    key-locator
    {
      type name
      regex ^<>*<KEY><>{1,3}$
    }
  }
}
trust-anchor
{
  type file
  file-name ANCHOR
}
'''
"#;

/// Runs `namewire key`, with a key chain of its own.
fn key(home: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(program());
    command.arg("key").args(arguments).env("HOME", home);
    command.env_remove("NDN_CLIENT_PIB").env_remove("NDN_CLIENT_TPM");
    let output = run_to_end(command);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The routes of a prefix.
fn routes(forwarder: &Endpoint, prefix: &str) -> Vec<Value> {
    let routes = forwarder.json(&["route", "list"]);
    let routes = routes.as_array().unwrap().iter();
    routes.filter(|route| route["prefix"] == *prefix).cloned().collect()
}

#[test]
fn a_host_registers_its_prefixes_with_its_gateway() {
    let home = tempfile::tempdir().unwrap();
    let anchor = home.path().join("root.cert");
    std::fs::write(&anchor, key(home.path(), &["gen", "/site/host"])).unwrap();
    // The default one, which nothing here belongs to.
    key(home.path(), &["gen", "/somebody/else"]);
    let rules = RULES.replace("ANCHOR", &anchor.display().to_string());
    let gateway = Settings::new().udp().toml(&rules).start();
    // What is lost on the way is soon tried again.
    let propagate = "[management.propagate]\nenabled = true\nrefresh_interval = \"200ms\"\n\
                     cost = 7\ntimeout = \"2s\"\nbase_retry_wait = \"100ms\"\n\
                     max_retry_wait = \"500ms\"\n";
    let host = Settings::new().udp().toml(propagate).variable("HOME", home.path()).start_program();
    let uri = format!("udp4://127.0.0.1:{}", gateway.port());
    let mut server = host.spawn("server", &["ping-server", "/site/host/ping"]);
    server.wait_for_output("/site/host/ping");
    let mut other = host.spawn("other", &["ping-server", "/nobody/ping"]);
    other.wait_for_output("/nobody/ping");
    let _ = host.output(&["route", "add", "/localhop/nfd", &uri]);

    let route = wait_until("the prefix at the gateway", || routes(&gateway, "/site/host").pop());
    assert_eq!((&route["origin"], &route["cost"]), (&"client".into(), &7.into()), "{route}");
    let text = gateway.output(&["ping", "/site/host/ping", "--count", "3", "--interval", "10ms"]);
    assert!(text.contains('3'), "{text}");
    assert!(routes(&gateway, "/nobody/ping").is_empty() && routes(&gateway, "/nobody").is_empty());

    // What is lost there comes again.
    let face = route["face_id"].to_string();
    let _ = gateway.output(&["route", "remove", "/site/host", &face, "--origin", "client"]);
    wait_until("the prefix to come again", || routes(&gateway, "/site/host").pop());

    // And what is not served any more goes.
    drop(server);
    wait_until("the prefix to go", || routes(&gateway, "/site/host").is_empty().then_some(()));
}

#[test]
fn gateway_rejects_unknown_clients() {
    let home = tempfile::tempdir().unwrap();
    let anchor = home.path().join("root.cert");
    std::fs::write(&anchor, key(home.path(), &["gen", "/site"])).unwrap();
    let other = home.path().join("other");
    std::fs::create_dir(&other).unwrap();
    key(&other, &["gen", "/site"]);
    let rules = RULES.replace("ANCHOR", &anchor.display().to_string());
    let gateway = Settings::new().udp().toml(&rules).start_program();
    let propagate = "[management.propagate]\nenabled = true\ntimeout = \"8s\"\n\
                     base_retry_wait = \"100ms\"\nmax_retry_wait = \"500ms\"\n";
    let host = Settings::new().udp().toml(propagate).variable("HOME", &other).start_program();
    let uri = format!("udp4://127.0.0.1:{}", gateway.port());
    let _ = host.output(&["route", "add", "/localhop/nfd", &uri]);
    let mut server = host.spawn("server", &["ping-server", "/site/ping"]);
    server.wait_for_output("/site/ping");
    wait_until("the refusal", || {
        gateway.process.stderr().contains("management command rejected").then_some(())
    });
    assert!(routes(&gateway, "/site").is_empty());
}

/// Holds a database until its standard input ends.
const HOLD: &str = "\
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute('BEGIN EXCLUSIVE')
print('held', flush=True)
sys.stdin.read()
";

#[test]
fn locked_key_chain_delays_only_signed_commands() {
    let python = concat!(env!("CARGO_MANIFEST_DIR"), "/../.venv/bin/python");
    if !skip_unless_file(Path::new(python), "python") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let anchor = home.path().join("root.cert");
    std::fs::write(&anchor, key(home.path(), &["gen", "/site"])).unwrap();
    let rules = RULES.replace("ANCHOR", &anchor.display().to_string());
    let gateway = Settings::new().udp().toml(&rules).start();
    let mut holder = Command::new(python)
        .args(["-c", HOLD])
        .arg(home.path().join(".ndn/pib.db"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "held\n");

    let propagate = "[management.propagate]\nenabled = true\nrefresh_interval = \"200ms\"\n\
                     base_retry_wait = \"100ms\"\nmax_retry_wait = \"500ms\"\n";
    let host = Settings::new().udp().toml(propagate).variable("HOME", home.path()).start_program();
    let uri = format!("udp4://127.0.0.1:{}", gateway.port());
    let _ = host.output(&["route", "add", "/localhop/nfd", &uri]);
    let mut server = host.spawn("server", &["ping-server", "/site/ping"]);
    server.wait_for_output("/site/ping");
    wait_until("a word about the lock", || {
        host.process.stderr().contains("locked by another program").then_some(())
    });
    let _ = host.output(&["status"]);
    assert!(routes(&gateway, "/site").is_empty());
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
    wait_until("the prefix at the gateway", || routes(&gateway, "/site").pop());
}
