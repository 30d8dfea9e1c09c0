//! Ethernet: hosts in network namespaces of their own, on a bridge.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use namewire_tests::{
    Bridge, Process, Script, dissect_with_tshark, forwarder_of_host, run_to_end, skip,
    skip_unless_found, station, wait_until,
};
use serde_json::Value;

const GROUP: &str = "ether://[01:00:5e:00:17:aa]";

/// Writes each frame of NDN that goes through a port as a line of hexadecimal digits.
const SNIFFER: &str = r"
import socket, sys
tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
tap.bind((sys.argv[1], 0))
out = open(sys.argv[2], 'w')
open(sys.argv[2] + '.ready', 'w').close()
while True:
    frame = tap.recv(65536)
    if frame[12:14] == b'\x86\x24':
        out.write(frame.hex() + '\n')
        out.flush()
";

fn namewire(directory: &Path, host: usize) -> String {
    format!("exec {}\n", forwarder_of_host(directory, host, "driver = \"packet\""))
}

#[test]
fn four_hosts_on_a_bridge_exchange_packets() {
    let Some(bridge) = Bridge::new(&[namewire as Script; 4]) else { return };
    let faces: Vec<Value> = (1..=4).map(|host| bridge.face(host, GROUP)).collect();
    for face in &faces {
        assert_eq!(face["link_type"], "multi-access", "{face}");
        assert_eq!(face["persistency"], "permanent", "{face}");
        assert_eq!(face["scope"], "non-local", "{face}");
        assert_eq!(face["mtu_bytes"], 8800, "{face}");
    }
    std::fs::write(bridge.path("sniffer.py"), SNIFFER).unwrap();
    bridge.change("python3 sniffer.py port2 frames 2>sniffer.err &");
    wait_until("the sniffer", || bridge.path("frames.ready").exists().then_some(()));

    // The group: one asks, all hear it, one answers.
    let servers: Vec<Process> =
        (2..=4).map(|host| bridge.ping_server(host, &format!("/host{host}"))).collect();
    let group = faces[0]["face_id"].to_string();
    bridge.succeed(1, &["route", "add", "/", &group, "--cost", "10"]);
    for host in 2..=4 {
        bridge.ping_often(1, &format!("/host{host}"));
    }
    let counted = |host: usize, key: &str| bridge.face(host, GROUP)["counters"][key].as_u64();
    for host in 2..=4 {
        assert!(counted(host, "in_interests") >= Some(33), "host {host} hears everything");
    }
    assert_eq!(counted(1, "in_interests"), Some(0), "nobody hears himself");

    // Two stations, with reliability: who is spoken to has a face for it already, or gets one.
    bridge.succeed(2, &["face", "create", &station(1), "dev://eth0", "--reliability", "on"]);
    let persistency = ["--persistency", "permanent", "--reliability", "on"];
    let to = station(2);
    bridge.succeed(1, &[&["face", "create", &to, "dev://eth0"], &persistency[..]].concat());
    let face = bridge.face(1, &station(2));
    assert_eq!((&face["link_type"], &face["mtu_bytes"]), (&"point-to-point".into(), &8800.into()));
    let station_server = bridge.ping_server(2, "/station");
    bridge.succeed(1, &["route", "add", "/station", &face["face_id"].to_string()]);
    bridge.ping_often(1, "/station");
    wait_until("acknowledgements", || {
        let link = &bridge.face(1, &station(2))["link"];
        (link["out_acknowledged"].as_u64() >= Some(11)).then_some(())
    });
    let status = bridge.run(1, &["status"]);
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.contains("eth0 by packet, 2 faces"), "{status}");
    bridge.succeed(3, &["face", "create", &station(2), "dev://eth0"]);
    bridge.succeed(3, &["route", "add", "/station", &station(2)]);
    bridge.ping_often(3, "/station");
    assert_eq!(bridge.face(2, &station(3))["persistency"], "on-demand");
    check_frames(&bridge);
    check_capture(&bridge);

    interface_goes_and_comes(&bridge, &faces[0], &face);
    vlan(&bridge);
    drop((servers, station_server));
}

/// Checks the frames on the wire, as a socket of the test captured them.
fn check_frames(bridge: &Bridge) {
    let text = std::fs::read_to_string(bridge.path("frames")).unwrap();
    let frames: Vec<Vec<u8>> = text
        .lines()
        .map(|line| {
            let bytes = (0..line.len()).step_by(2);
            bytes.map(|at| u8::from_str_radix(&line[at..at + 2], 16).unwrap()).collect()
        })
        .collect();
    let has = |to: [u8; 6], from: u8, first: u8| {
        let source = [2, 0, 0, 0, 0, from];
        frames.iter().any(|frame| frame[..6] == to && frame[6..12] == source && frame[14] == first)
    };
    let group = [1, 0, 0x5e, 0, 0x17, 0xaa];
    assert!(frames.iter().all(|frame| frame.len() >= 60), "short frames are padded");
    assert!(has(group, 1, 5), "a plain Interest to the group");
    assert!(has(group, 2, 6) || has(group, 2, 0x64), "its Data to the group");
    assert!(has([2, 0, 0, 0, 0, 2], 1, 0x64), "a reliable link has headers");
    assert!(has([2, 0, 0, 0, 0, 1], 2, 0x64), "in both directions");
    if !skip_unless_found("tshark") {
        return;
    }
    // Ethernet, microseconds, native byte order of this machine.
    let mut file = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1].map(u32::to_ne_bytes).concat();
    for frame in &frames {
        let length = u32::try_from(frame.len()).unwrap();
        file.extend([0, 0, length, length].map(u32::to_ne_bytes).concat());
        file.extend(frame);
    }
    std::fs::write(bridge.path("frames.pcap"), file).unwrap();
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(bridge.path("frames.pcap"));
    tshark.args(["-T", "fields", "-e", "eth.type", "-e", "eth.dst"]);
    let read = run_to_end(tshark);
    let lines = String::from_utf8_lossy(&read.stdout).into_owned();
    assert_eq!(lines.lines().count(), frames.len(), "{read:?}");
    assert!(lines.lines().all(|line| line.starts_with("0x8624\t")), "{lines}");
    assert!(lines.contains("01:00:5e:00:17:aa") && lines.contains("02:00:00:00:00:02"), "{lines}");
}

/// Lets tshark dissect what a forwarder captures of its Ethernet faces.
fn check_capture(bridge: &Bridge) {
    if !skip_unless_found("tshark") {
        return;
    }
    let file = bridge.path("capture.pcapng");
    let arguments = ["capture", "--name", "/station", "-w", file.to_str().unwrap()];
    let mut capture =
        Process::start("capture", bridge.command(1, &arguments), bridge.directory.path());
    wait_until("a captured packet", || {
        bridge.ping(1, "/station");
        (std::fs::metadata(&file).ok()?.len() > 1000).then_some(())
    });
    capture.signal(rustix::process::Signal::INT);
    assert!(capture.wait().success(), "{}", capture.everything());
    let filter = "ndn.name contains \"/station\"";
    let fields = ["ndn.type", "frame.interface_name"];
    let shown = dissect_with_tshark(&bridge.path("home"), &file, filter, &fields);
    for kind in ["Interest", "Data"] {
        let is_of =
            |fields: &Vec<String>| fields[0].ends_with(kind) && fields[1].contains("ether://");
        assert!(shown.iter().any(is_of), "{kind}: {shown:?}");
    }
}

fn interface_goes_and_comes(bridge: &Bridge, group: &Value, permanent: &Value) {
    // Without a link, faces stay.
    bridge.change("ip link set port1 down");
    bridge.change("ip link set port1 up");
    bridge.ping(1, "/station");
    assert_eq!(bridge.face(1, GROUP)["face_id"], group["face_id"]);
    // Another address, and the same faces go on: the others learn it.
    let host = "nsenter -n -t $(cat host1.pid) ip link set";
    bridge.change(&format!(
        "{host} eth0 down; {host} eth0 address 02:00:00:00:00:0a; {host} eth0 up"
    ));
    wait_until("an answer at another address", || {
        let ping = ["ping", "/host3", "--count", "1", "--timeout", "1s"];
        bridge.run(1, &ping).status.success().then_some(())
    });
    assert_eq!(bridge.face(1, GROUP)["face_id"], group["face_id"]);
    // Deleted under traffic: the face of the group goes, the permanent one waits.
    let traffic = bridge.command(1, &["ping", "/station", "--interval", "5ms"]);
    let traffic = Process::start("traffic", traffic, bridge.directory.path());
    bridge.change("ip link del port1");
    wait_until("the face to go", || bridge.faces(1, GROUP, "dev://eth0").is_empty().then_some(()));
    assert_eq!(bridge.face(1, &station(2))["face_id"], permanent["face_id"]);
    bridge.change("plug 1");
    assert_ne!(bridge.face(1, GROUP)["face_id"], group["face_id"]);
    bridge.ping(1, "/station");
    assert_eq!(bridge.face(1, &station(2))["face_id"], permanent["face_id"]);
    drop(traffic);
}

/// A VLAN has an interface and faces of its own.
fn vlan(bridge: &Bridge) {
    bridge.change(
        "for host in 1 2; do
           inside() { nsenter -n -t $(cat host$host.pid) \"$@\"; }
           if inside ip link add link eth0 name eth0.7 type vlan id 7; then
             inside ip link add link eth0 name other0 type vlan id 8
             inside ip link set eth0.7 up
             inside ip link set other0 up
             touch has_vlans
           fi
         done 2>vlan.err",
    );
    if !bridge.path("has_vlans").exists() {
        return skip("VLANs", "the kernel refuses them");
    }
    let local = "dev://eth0.7";
    let face = wait_until(local, || bridge.faces(1, GROUP, local).pop());
    wait_until(local, || bridge.faces(2, GROUP, local).pop());
    bridge.succeed(1, &["route", "add", "/host2/vlan", &face["face_id"].to_string()]);
    bridge.ping_often(1, "/host2/vlan");
    assert!(bridge.faces(1, GROUP, "dev://other0").is_empty(), "on the list of exceptions");
}

/// NFD's settings: Unix socket and Ethernet only.
const NFD: &str = r"
general { }
log { default_level INFO }
tables { cs_max_packets 100 }
face_system
{
  unix
  {
    path SOCKET
  }
  ether
  {
    listen yes
    mcast yes
  }
}
authorizations
{
  authorize
  {
    certfile any
    privileges
    {
      faces
      fib
      cs
      strategy-choice
    }
  }
}
rib
{
  localhost_security
  {
    trust-anchor
    {
      type any
    }
  }
}
";

fn nfd(directory: &Path, host: usize) -> String {
    let socket = directory.join(format!("host{host}.sock")).display().to_string();
    std::fs::write(directory.join("nfd.conf"), NFD.replace("SOCKET", &socket)).unwrap();
    // It reads the list of interfaces when it starts.
    let home = directory.display();
    format!(
        "until ip link show eth0 2>/dev/null | grep -q LOWER_UP; do sleep 0.05; done\n\
         export HOME='{home}'\nexec nfd --config '{home}/nfd.conf'\n"
    )
}

#[test]
fn nfd_and_namewire_exchange_packets_over_ethernet() {
    if !skip_unless_found("nfd") {
        return;
    }
    let Some(bridge) = Bridge::new(&[namewire, nfd]) else { return };
    let group = bridge.face(1, GROUP);
    bridge.face(2, GROUP);
    // Each asks the other, by the group and from station to station.
    let servers = [(1, "/ours"), (2, "/theirs"), (2, "/station")]
        .map(|(host, prefix)| bridge.ping_server(host, prefix));
    bridge.succeed(1, &["route", "add", "/theirs", &group["face_id"].to_string()]);
    bridge.ping_often(1, "/theirs");
    bridge.succeed(1, &["face", "create", &station(2), "dev://eth0"]);
    bridge.succeed(2, &["face", "create", &station(1), "dev://eth0"]);
    bridge.succeed(1, &["route", "add", "/station", &station(2)]);
    bridge.succeed(2, &["route", "add", "/ours", &station(1)]);
    bridge.ping_often(1, "/station");
    bridge.ping_often(2, "/ours");
    drop(servers);
}
