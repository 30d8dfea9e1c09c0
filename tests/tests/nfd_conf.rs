//! NFD's configuration files: the forwarder starts from them, keeps what they close closed, and
//! reads them again when told to.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use namewire_tests::{Process, Settings, program, run_to_end, skip, wait_until};
use rustix::process::Signal;

/// The sections of NFD's and MW-NFD's samples, with what they turn on.
const LIKE_THE_SAMPLES: &str = r#"
; a comment
general { }
log { default_level INFO }
forwarder { default_hop_limit 0 }
tables
{
  pm_cs_max_packets 1000 ; packets
  em_cs_max_packets 234
  cs_policy lru
  cs_unsolicited_policy drop-all
  strategy_choice
  {
    /               /localhost/nfd/strategy/best-route
    /localhost      /localhost/nfd/strategy/multicast
    /localhost/nfd  /localhost/nfd/strategy/best-route
    /ndn/broadcast  /localhost/nfd/strategy/multicast
    /hii/dcn        /localhost/nfd/strategy/multicast
  }
  network_region { }
}
face_system
{
  general { enable_congestion_marking yes }
  unix { path SOCKET }
  udp
  {
    listen no
    mcast yes
    mcast_group 224.0.23.170
    whitelist { ifname no-such* }
  }
  ether { listen no mcast no }
  netdev_bound { }
}
authorizations
{
  authorize { certfile any privileges { faces
    fib
    cs
    strategy-choice
  } }
}
rib
{
  localhost_security { trust-anchor { type any } }
  prefix_announcement_validation { trust-anchor { type any } }
  auto_prefix_propagate { cost 15 }
  readvertise_nlsr no
}
mw-nfd
{
  input-thread-core-assign { }
  forwarding-worker-core-assign 1,2
  prefix-length-for-distribution 2
  fib-sharding yes ; or no
  router-name DCN09
}
"#;

struct Running {
    process: Process,
    directory: tempfile::TempDir,
}

impl Running {
    fn start(conf: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let running = Self { process: Self::begin(conf, directory.path()), directory };
        wait_until("the socket", || UnixStream::connect(running.socket()).ok());
        running
    }

    fn begin(conf: &str, directory: &Path) -> Process {
        write(conf, directory);
        let mut command = Command::new(program());
        command.arg("run").arg("--nfd-conf").arg(directory.join("nfd.conf"));
        Process::start("forwarder", command, directory)
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("nfd.sock")
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(program());
        let transport = format!("unix://{}", self.socket().display());
        command.args(arguments).env("NDN_CLIENT_TRANSPORT", transport);
        run_to_end(command)
    }
}

fn write(conf: &str, directory: &Path) {
    let socket = directory.join("nfd.sock").display().to_string();
    std::fs::write(directory.join("nfd.conf"), conf.replace("SOCKET", &socket)).unwrap();
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn sample_file_starts_and_missing_parts_are_reported() {
    let forwarder = Running::start(LIKE_THE_SAMPLES);
    let status = forwarder.run(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["cs"]["capacity_packets"], 1234);
    let strategies = text(&forwarder.run(&["strategy", "list"]));
    assert!(strategies.contains("/hii/dcn"), "{strategies}");
    let printed = forwarder.process.stderr();
    assert!(printed.contains("nfd.conf:55: "), "prefix-length-for-distribution: {printed}");
    let added = forwarder.run(&["face", "create", "udp4://192.0.2.1:6363"]);
    assert!(!added.status.success(), "there is no UDP socket: {}", text(&added));
}

#[test]
fn operation_without_privileges_fails() {
    let conf = "face_system { unix { path SOCKET } }";
    let forwarder = Running::start(conf);
    for command in [
        &["cs", "config", "--capacity", "5"][..],
        &["strategy", "set", "/a", "multicast"],
        &["cs", "erase", "/"],
    ] {
        let output = forwarder.run(command);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        assert!(text(&output).contains("403"), "{}", text(&output));
    }
    // Who may read is not restricted.
    assert!(forwarder.run(&["status"]).status.success());
    wait_until("the refusals to be logged", || {
        forwarder.process.stderr().contains("management command rejected").then_some(())
    });
}

#[test]
fn sample_configurations_of_an_installed_nfd_start() {
    let Some(sample) = installed_sample() else {
        return skip("nfd.conf.sample", "no NFD is installed");
    };
    let output = run_to_end({
        let mut command = Command::new(program());
        command.args(["config", "convert"]).arg(&sample);
        command
    });
    assert!(output.status.success(), "{}", text(&output));
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nfd.sock").display().to_string();
    let converted = String::from_utf8(output.stdout).unwrap();
    let converted = converted.replace("/run/nfd/nfd.sock", &socket).replace("/usr/local", "");
    std::fs::write(directory.path().join("converted.toml"), &converted).unwrap();
    let check = run_to_end({
        let mut command = Command::new(program());
        command.args(["config", "check"]).arg(directory.path().join("converted.toml"));
        command
    });
    assert!(check.status.success(), "{converted}\n{}", text(&check));
}

#[test]
fn configuration_of_nfd_is_checked() {
    let directory = tempfile::tempdir().unwrap();
    let check = |conf: &str| {
        write(conf, directory.path());
        let mut command = Command::new(program());
        command.args(["config", "check", "--json"]).arg(directory.path().join("nfd.conf"));
        run_to_end(command)
    };
    let usable = check(LIKE_THE_SAMPLES);
    assert!(usable.status.success(), "{}", text(&usable));
    let checked: serde_json::Value = serde_json::from_slice(&usable.stdout).unwrap();
    let warnings = checked["warnings"].as_array().unwrap();
    let is_of_line =
        |warning: &&serde_json::Value| warning.as_str().unwrap().contains("nfd.conf:55: ");
    assert_eq!(warnings.iter().filter(is_of_line).count(), 1, "{checked}");
    let wrong = check("tables\n{\n  cs_max_packets many\n}\n");
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong));
    assert!(text(&wrong).contains("nfd.conf:3: "), "{}", text(&wrong));
}

/// Beside the `nfd` on PATH, where its installation puts it.
fn installed_sample() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .filter(|directory| directory.join("nfd").exists())
        .filter_map(|directory| Some(directory.parent()?.join("etc/ndn/nfd.conf.sample")))
        .chain([PathBuf::from("/etc/ndn/nfd.conf.sample")])
        .find(|sample| sample.exists())
}

#[test]
fn converted_file_has_the_same_settings() {
    let directory = tempfile::tempdir().unwrap();
    write(LIKE_THE_SAMPLES, directory.path());
    let mut command = Command::new(program());
    command.args(["config", "convert"]).arg(directory.path().join("nfd.conf"));
    let output = run_to_end(command);
    assert!(output.status.success(), "{}", text(&output));
    let toml = String::from_utf8(output.stdout).unwrap();
    let forwarder = Settings::new().toml("").start_program();
    let check = directory.path().join("converted.toml");
    std::fs::write(&check, &toml).unwrap();
    assert!(forwarder.run(&["config", "check", check.to_str().unwrap()]).status.success());
    assert!(toml.contains("capacity_packets = 1234"), "{toml}");
    assert!(!toml.contains("localhop_rib = \"any\""), "{toml}");
}

#[test]
fn reload_applies_valid_changes_and_rejects_invalid_ones() {
    let conf = |privilege: &str, packets: u32| {
        format!(
            "face_system {{ unix {{ path SOCKET }} }}\n\
             tables {{ cs_max_packets {packets} }}\n\
             authorizations {{ authorize {{ certfile any privileges {{ {privilege}\n}} }} }}\n\
             log {{ default_level INFO }}"
        )
    };
    let forwarder = Running::start(&conf("fib", 100));
    let refused = forwarder.run(&["strategy", "set", "/a", "multicast"]);
    assert!(text(&refused).contains("403"), "{}", text(&refused));

    write(&conf("strategy-choice", 200), forwarder.directory.path());
    forwarder.process.signal(Signal::HUP);
    wait_until("the new privileges", || {
        forwarder.run(&["strategy", "set", "/a", "multicast"]).status.success().then_some(())
    });
    let status = text(&forwarder.run(&["cs", "info", "--json"]));
    assert!(status.contains("200"), "{status}");

    // What waits for the next start is named each time, as long as it waits.
    let waits = conf("strategy-choice", 200) + "\nforwarder { default_hop_limit 7 }";
    write(&waits, forwarder.directory.path());
    for times in 1..=2 {
        forwarder.process.signal(Signal::HUP);
        wait_until("the setting that waits", || {
            let printed = forwarder.process.stderr();
            (printed.matches("forwarder.default_hop_limit").count() >= times).then_some(())
        });
    }

    // What commands chose stays, of prefixes that the file does not name: `/`, too.
    let reloads = || forwarder.process.stderr().matches("the configuration was read again").count();
    assert!(forwarder.run(&["strategy", "set", "/", "multicast"]).status.success());
    let before = reloads();
    forwarder.process.signal(Signal::HUP);
    wait_until("the same again", || (reloads() > before).then_some(()));
    let strategy_of = |prefix: &str| {
        let list = forwarder.run(&["strategy", "list", "--json"]);
        let list: serde_json::Value = serde_json::from_slice(&list.stdout).unwrap();
        let choices = list.as_array().unwrap().iter();
        let choice = choices.into_iter().find(|choice| choice["prefix"] == prefix);
        choice.map(|choice| choice["strategy"].as_str().unwrap().to_owned())
    };
    let uri = |strategy: &str| Some(format!("/localhost/nfd/strategy/{strategy}/v=5"));
    assert_eq!((strategy_of("/"), strategy_of("/a")), (uri("multicast"), uri("multicast")));

    // Of a file with something wrong, however late, nothing is in force.
    let deep = "/x".repeat(33);
    let wrong = [
        "authorizations { nonsense }".to_owned(),
        conf("cs", 300)
            + &format!(
                "\ntables {{ strategy_choice {{\n/ /localhost/nfd/strategy/asf\n{deep} /localhost/nfd/strategy/asf\n}} }}"
            ),
    ];
    for (times, wrong) in (1..).zip(&wrong) {
        write(wrong, forwarder.directory.path());
        forwarder.process.signal(Signal::HUP);
        wait_until("the refusal", || {
            let printed = forwarder.process.stderr();
            (printed.matches("the configuration stays as it was").count() == times).then_some(())
        });
    }
    assert!(forwarder.process.stderr().contains("33 components"));
    assert!(forwarder.run(&["strategy", "set", "/b", "multicast"]).status.success());
    let refused = forwarder.run(&["cs", "config", "--capacity", "5"]);
    assert!(text(&refused).contains("403"), "{}", text(&refused));
    assert_eq!(strategy_of("/"), uri("multicast"));
    let status = text(&forwarder.run(&["cs", "info", "--json"]));
    assert!(status.contains("200"), "{status}");
}
