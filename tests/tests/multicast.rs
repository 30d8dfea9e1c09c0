//! Faces of network interfaces, UDP multicast and bound ones: two forwarders in network namespaces of
//! their own, on one link.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use namewire_tests::{Process, program, run_to_end, skip, skip_unless_found, wait_until};
use serde_json::Value;

/// Two namespaces with a link between them, and a forwarder in each. Whatever appears in
/// `commands` is done to the interfaces of the first. All of it ends with the first process.
const SCRIPT: &str = r#"
set -e
cd "$1"
mount -t sysfs sysfs /sys 2>/dev/null || true
ip link set lo up
unshare -n sh -c '
  echo $$ > far.pid
  until test -e linked; do sleep 0.05; done
  ip addr add 10.9.0.2/24 dev far
  ip link set far up
  exec "$0" run $1
' "$2" "$4" &
until test -s far.pid; do sleep 0.05; done
ip link add near type veth peer name far netns "$(cat far.pid)"
ip addr add 10.9.0.1/24 dev near
ip link set near up
touch linked
"$2" run $3 &
forwarder=$!
while :; do
  if test -e commands; then mv commands doing; . ./doing; fi
  sleep 0.05
done
"#;

struct Link {
    directory: tempfile::TempDir,
    /// Ended before the directory goes.
    process: Option<Process>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.process.take();
    }
}

fn write_toml(directory: &Path, name: &str, interfaces: &str) -> String {
    let path = directory.join(format!("{name}.toml"));
    let text = format!(
        "[listeners.unix]\npath = \"{0}/{name}.sock\"\n[listeners.tcp]\nenabled = false\n\
         [listeners.udp]\nenabled = false\n[listeners.multicast]\nenabled = true\n\
         interfaces = [{interfaces}]\nexcept = [\"10.99.0.0/16\"]\n\
         [control]\nenabled = false\n",
        directory.display()
    );
    std::fs::write(&path, text).unwrap();
    format!("--config {}", path.display())
}

/// UDP faces to whom commands name; those of groups tell the addresses.
fn unicast(directory: &Path, name: &str) -> String {
    let options = write_toml(directory, name, "\"near\", \"far\"");
    let path = directory.join(format!("{name}.toml"));
    let text = std::fs::read_to_string(&path).unwrap();
    let enabled =
        text.replace("[listeners.udp]\nenabled = false", "[listeners.udp]\nenabled = true");
    assert_ne!(enabled, text);
    std::fs::write(&path, enabled).unwrap();
    options
}

/// UDP faces to the other end, bound to interfaces.
fn bound(directory: &Path, name: &str) -> String {
    let path = directory.join(format!("{name}.toml"));
    let text = format!(
        "[listeners.unix]\npath = \"{0}/{name}.sock\"\n[listeners.tcp]\nenabled = false\n\
         [control]\nenabled = false\n[[bound_faces]]\nremotes = [\"udp4://10.9.0.2:6363\"]\n\
         interfaces = [\"near\", \"late*\"]\nexcept = [\"late9\"]\n",
        directory.display()
    );
    std::fs::write(&path, text).unwrap();
    format!("--config {}", path.display())
}

fn toml(directory: &Path, name: &str) -> String {
    write_toml(directory, name, "\"near\", \"far\", \"late*\"")
}

impl Link {
    /// The two configurations are written by `configure`, which returns the arguments of `run`.
    fn new(configure: [fn(&Path, &str) -> String; 2]) -> Option<Self> {
        let mut probe = Command::new("unshare");
        probe.args([
            "-rn",
            "--pid",
            "--fork",
            "--kill-child",
            "ip",
            "link",
            "add",
            "probe0",
            "type",
            "veth",
        ]);
        if !(skip_unless_found("unshare") && skip_unless_found("ip")) {
            return None;
        }
        let probed = run_to_end(probe);
        if !probed.status.success() {
            let why = String::from_utf8_lossy(&probed.stderr);
            skip("network-namespaces", why.trim());
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let [near, far] = configure;
        let (near, far) = (near(directory.path(), "near"), far(directory.path(), "far"));
        let mut command = Command::new("unshare");
        command.args(["-rnm", "--pid", "--fork", "--kill-child", "sh", "-c", SCRIPT, "sh"]);
        command.arg(directory.path()).arg(program()).args([near, far]);
        let process = Process::start("link", command, directory.path());
        let link = Self { directory, process: Some(process) };
        for name in ["near", "far"] {
            wait_until("a forwarder", || link.socket(name).exists().then_some(()));
        }
        Some(link)
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{name}.sock"))
    }

    fn command(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        let transport = format!("unix://{}", self.socket(name).display());
        command.args(arguments).env("NDN_CLIENT_TRANSPORT", transport);
        command
    }

    fn run(&self, name: &str, arguments: &[&str]) -> Output {
        run_to_end(self.command(name, arguments))
    }

    fn all_faces(&self, name: &str) -> Vec<Value> {
        let output = self.run(name, &["face", "list", "--json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// The face with this local URI.
    fn face_at(&self, name: &str, local_uri: &str) -> Option<Value> {
        self.all_faces(name).into_iter().find(|face| face["local_uri"] == *local_uri)
    }

    /// The multicast faces that have this local end.
    fn faces(&self, name: &str, local: &str) -> Vec<Value> {
        let faces = self.all_faces(name);
        let is_of =
            |face: &Value, key: &str, text: &str| face[key].as_str().unwrap().contains(text);
        let is_group = |face: &Value| is_of(face, "remote_uri", "224.0.23.170:56363");
        faces.into_iter().filter(|face| is_group(face) && is_of(face, "local_uri", local)).collect()
    }

    fn face(&self, name: &str, local: &str) -> Value {
        wait_until(local, || self.faces(name, local).pop())
    }

    /// Does something to the interfaces of `near`.
    fn change(&self, commands: &str) {
        let path = self.directory.path().join("commands");
        std::fs::write(path.with_extension("new"), commands).unwrap();
        std::fs::rename(path.with_extension("new"), path).unwrap();
    }
}

#[test]
fn neighbours_on_a_link_receive_from_each_other() {
    let Some(link) = Link::new([toml, toml]) else { return };
    let (near, far) = (link.face("near", "10.9.0.1"), link.face("far", "10.9.0.2"));
    for face in [&near, &far] {
        assert_eq!(face["link_type"], "multi-access", "{face}");
        assert_eq!(face["persistency"], "permanent", "{face}");
        assert_eq!(face["scope"], "non-local", "{face}");
    }
    let server = link.command("far", &["ping-server", "/multicast"]);
    let _server = Process::start("server", server, link.directory.path());
    wait_until("the route of the server", || {
        let routes = link.run("far", &["nfdc", "route", "list"]);
        String::from_utf8_lossy(&routes.stdout).contains("/multicast").then_some(())
    });
    let face_id = near["face_id"].to_string();
    assert!(link.run("near", &["route", "add", "/multicast", &face_id]).status.success());
    let ping = link.run("near", &["ping", "/multicast", "--count", "20", "--interval", "10ms"]);
    let text = String::from_utf8_lossy(&ping.stdout);
    assert!(ping.status.success() && text.contains("20"), "{text}{ping:?}");
    // Nobody hears himself.
    let counters = |name: &str, local: &str, key: &str| {
        link.face(name, local)["counters"][key].as_u64().unwrap()
    };
    assert_eq!(counters("near", "10.9.0.1", "in_interests"), 0);
    assert!(counters("far", "10.9.0.2", "in_interests") >= 20);
    assert!(counters("near", "10.9.0.1", "in_data") >= 20);
}

#[test]
fn faces_are_created_and_destroyed_with_their_interfaces() {
    let Some(link) = Link::new([toml, toml]) else { return };
    let first = link.face("near", "10.9.0.1");
    link.change(
        "add() {
             ip link add $1 type veth peer name p$1
             ip addr add $2 dev $1
             ip link set p$1 up
             ip link set $1 up
         }
         add late0 10.9.1.1/24
         add other 10.9.2.1/24
         add late1 10.99.0.1/24
         add late2 10.9.3.1/24",
    );
    let late = link.face("near", "10.9.1.1");
    link.face("near", "10.9.3.1");
    assert!(link.faces("near", "10.9.2.1").is_empty(), "not on the list");
    assert!(link.faces("near", "10.99.0.1").is_empty(), "on the list of exceptions");
    link.change("ip link set late0 down; ip link del late2");
    for gone in ["10.9.1.1", "10.9.3.1"] {
        wait_until("the face to go", || link.faces("near", gone).is_empty().then_some(()));
    }
    link.change("ip link set late0 up");
    let again = link.face("near", "10.9.1.1");
    assert_ne!(again["face_id"], late["face_id"]);
    assert_eq!(link.face("near", "10.9.0.1")["face_id"], first["face_id"], "it stayed");

    // Other interfaces by the configuration, read again.
    write_toml(link.directory.path(), "near", "\"near\", \"other\"");
    link.change("kill -HUP $forwarder");
    link.face("near", "10.9.2.1");
    wait_until("the face to go", || link.faces("near", "10.9.1.1").is_empty().then_some(()));
    assert_eq!(link.face("near", "10.9.0.1")["face_id"], first["face_id"], "it stayed");
}

#[test]
fn faces_are_bound_to_interfaces() {
    let Some(link) = Link::new([bound, bound]) else { return };
    let at = |interface: &str| link.face_at("near", &format!("udp4+dev://{interface}:6363"));
    let near = wait_until("the bound face", || at("near"));
    assert_eq!(near["remote_uri"], "udp4://10.9.0.2:6363");
    assert_eq!(near["persistency"], "permanent");
    assert_eq!(near["link_type"], "point-to-point");
    assert_eq!(near["scope"], "non-local");

    let server = link.command("far", &["ping-server", "/bound"]);
    let mut server = Process::start("server", server, link.directory.path());
    server.wait_for_output("/bound");
    let route = |face: &Value| ["/bound".to_owned(), face["face_id"].to_string()];
    let add = |face: &Value| {
        let [prefix, face] = route(face);
        assert!(link.run("near", &["route", "add", &prefix, &face]).status.success());
    };
    let ping = |count: &str| {
        let options = ["--count", count, "--interval", "10ms", "--timeout", "500ms"];
        link.run("near", &[&["ping", "/bound"][..], &options].concat())
    };
    add(&near);
    let output = ping("20");
    assert!(output.status.success(), "{output:?}");
    // The other end knows it by the usual port.
    let far =
        link.all_faces("far").into_iter().find(|face| face["remote_uri"] == "udp4://10.9.0.1:6363");
    assert_eq!(far.unwrap()["persistency"], "on-demand");

    // By another interface, the same peer is not to be had: nothing leaves by the first one.
    link.change(
        "add() {
             ip link add $1 type veth peer name p$1
             ip addr add $2 dev $1
             ip link set p$1 up
             ip link set $1 up
         }
         add late0 10.9.1.1/24
         add late9 10.9.9.1/24",
    );
    let late = wait_until("the face of the new interface", || at("late0"));
    assert!(at("late9").is_none(), "it is on the list of exceptions");
    add(&late);
    let [prefix, face] = route(&near);
    assert!(link.run("near", &["route", "remove", &prefix, &face]).status.success());
    assert!(!ping("2").status.success(), "the face of late0 must not reach the peer");
    let sent = at("late0").unwrap()["counters"]["out_interests"].as_u64().unwrap();
    assert!(sent > 0, "it was tried");
    add(&near);
    link.change("ip link del late0");
    wait_until("the face to go", || at("late0").is_none().then_some(()));
    assert!(ping("5").status.success(), "the first face goes on");
    assert_eq!(at("near").unwrap()["face_id"], near["face_id"]);
}

/// The answer to `face create --json` that succeeds, or the error message.
fn create(link: &Link, uri: &str) -> Result<Value, String> {
    let output = link.run("near", &["face", "create", uri, "--json"]);
    match output.status.success() {
        true => Ok(serde_json::from_slice(&output.stdout).unwrap()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

#[test]
fn local_uri_has_an_address_and_unroutable_peers_are_rejected() {
    let Some(link) = Link::new([unicast, unicast]) else { return };
    link.face("near", "10.9.0.1");
    let face = create(&link, "udp4://10.9.0.2").unwrap();
    assert_eq!(face["local_uri"], "udp4://10.9.0.1:6363", "{face}");
    let listed = wait_until("the face", || link.face_at("near", "udp4://10.9.0.1:6363"));
    assert_eq!(listed["remote_uri"], "udp4://10.9.0.2:6363");
    for nowhere in ["udp4://203.0.113.1", "udp4://255.255.255.255"] {
        let printed = create(&link, nowhere).unwrap_err();
        let expected = "Face creation failed: connect: Network is unreachable";
        assert!(printed.contains("504") && printed.contains(expected), "{printed}");
        assert!(!printed.contains("os error"), "{printed}");
    }
    let printed = create(&link, "udp4://10.9.0.255").unwrap_err();
    assert!(printed.contains("connect: Permission denied"), "{printed}");
}

#[test]
fn neighbours_are_distinguished_by_their_links() {
    let Some(link) = Link::new([unicast, unicast]) else { return };
    link.change(
        "ip link add late0 type veth peer name plate0
         ip link set plate0 up
         ip link set late0 up
         if ip addr add fe80::aa/64 dev near nodad && ip addr add fe80::bb/64 dev late0 nodad
         then touch with-ipv6; else touch without-ipv6; fi",
    );
    let has = |file: &str| link.directory.path().join(file).exists();
    wait_until("the links", || (has("with-ipv6") || has("without-ipv6")).then_some(()));
    if has("without-ipv6") {
        return skip("IPv6", "the kernel refuses it");
    }
    // The faces of groups are on a link, too.
    let group = wait_until("the group at the other end", || {
        let is_group = |face: &Value| face["remote_uri"] == "udp6://[ff02::1234%far]:56363";
        link.all_faces("far").into_iter().find(is_group)
    });
    let far = group["local_uri"].as_str().unwrap().trim_start_matches("udp6://[");
    let far = far.split_once("%far]:56363").unwrap().0;
    assert!(far.starts_with("fe80::"), "{far}");

    let uri = |zone: &str| format!("udp6://[{far}{zone}]:6363");
    // The kernel looks for a while whether its address is taken.
    let near = wait_until("a face on the link", || create(&link, &uri("%near")).ok());
    assert_eq!(near["remote_uri"], uri("%near"), "{near}");
    let local = near["local_uri"].as_str().unwrap();
    assert!(local.starts_with("udp6://[fe80::") && local.ends_with("%near]:6363"), "{near}");
    let late = wait_until("a face on the other", || create(&link, &uri("%late0")).ok());
    assert_eq!((&late["remote_uri"], &late["what"]), (&uri("%late0").into(), &"created".into()));
    assert_ne!(late["face_id"], near["face_id"]);
    for (wrong, why) in [("", "write its interface"), ("%nosuch", "no network interface nosuch")] {
        let printed = create(&link, &uri(wrong)).unwrap_err();
        assert!(
            printed.contains("400") && printed.contains("Non-canonical remote URI: "),
            "{printed}"
        );
        assert!(printed.contains(why), "{printed}");
    }

    let server = link.command("far", &["ping-server", "/link"]);
    let mut server = Process::start("server", server, link.directory.path());
    server.wait_for_output("/link");
    assert!(link.run("near", &["route", "add", "/link", &uri("%near")]).status.success());
    wait_until("an answer", || {
        let options = ["--count", "1", "--timeout", "500ms"];
        let ping = link.run("near", &[&["ping", "/link"][..], &options].concat());
        ping.status.success().then_some(())
    });
    let there = local.replace("%near", "%far");
    let of_peer = link.all_faces("far").into_iter().find(|face| face["remote_uri"] == *there);
    assert_eq!(of_peer.unwrap()["local_uri"], uri("%far"));

    assert!(link.run("near", &["face", "destroy", &uri("%near")]).status.success());
    let left = || link.all_faces("near").into_iter().map(|face| face["remote_uri"].clone());
    wait_until("the face to go", || (!left().any(|one| one == uri("%near"))).then_some(()));
    assert!(left().any(|one| one == uri("%late0")));
}
