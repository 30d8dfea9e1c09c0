//! Ethernet faces by AF_XDP, which root's rights are needed for: hosts on a bridge, one of which is killed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use namewire_tests::{
    Bridge, Process, Script, forwarder_of_host, looping, run_to_end, skip, station, wait_until,
};
use serde_json::Value;

const GROUP: &str = "ether://[01:00:5e:00:17:aa]";

/// A connection of the kernel's TCP beside: what one end sends comes back, and is counted in a file.
const TCP: &str = r"
import socket, sys
if sys.argv[1] == 'server':
    listener = socket.create_server(('10.9.9.2', 7007))
    open('server.ready', 'w').close()
    connection, _ = listener.accept()
    while data := connection.recv(65536):
        connection.sendall(data)
else:
    connection = socket.create_connection(('10.9.9.2', 7007))
    block = bytes(range(256)) * 200
    rounds = 0
    while True:
        connection.sendall(block)
        received = b''
        while len(received) < len(block):
            received += connection.recv(65536)
        assert received == block
        rounds += 1
        with open('rounds.new', 'w') as out:
            out.write(str(rounds))
        import os
        os.rename('rounds.new', 'rounds')
";

/// Runs a forwarder with this driver again and again.
fn with_driver(directory: &Path, host: usize, driver: &str) -> String {
    looping(host, &forwarder_of_host(directory, host, &format!("driver = \"{driver}\"")))
}

fn by_xdp(directory: &Path, host: usize) -> String {
    with_driver(directory, host, "xdp")
}

fn by_itself(directory: &Path, host: usize) -> String {
    with_driver(directory, host, "auto")
}

/// The output of a command on a host.
fn prints(bridge: &Bridge, host: usize, command: &str) -> String {
    bridge.change(&format!("nsenter -n -t $(cat host{host}.pid) {command} > said 2>&1"));
    std::fs::read_to_string(bridge.path("said")).unwrap()
}

/// Whether an XDP program is attached to the interface of a host.
fn has_program(bridge: &Bridge, host: usize) -> bool {
    let link = prints(bridge, host, "ip link show eth0");
    assert!(link.contains("eth0"), "{link}");
    link.contains("xdp")
}

/// Number of rounds of the TCP connection so far.
fn rounds(bridge: &Bridge) -> u64 {
    let text = std::fs::read_to_string(bridge.path("rounds")).unwrap_or_default();
    text.parse().unwrap_or(0)
}

/// The TCP connection goes on.
fn flows(bridge: &Bridge) {
    let before = rounds(bridge);
    wait_until("TCP to go on", || (rounds(bridge) > before + 3).then_some(()));
}

#[test]
fn hosts_with_af_xdp_exchange_packets_with_others() {
    if let Err(error) = ndn_sys::xdp::may_use() {
        return skip("AF_XDP", &error.to_string());
    }
    let Some(bridge) = Bridge::of_root(&[by_xdp as Script, by_xdp, by_itself]) else { return };
    let group = bridge.face(1, GROUP);
    assert!(has_program(&bridge, 1), "the driver that was asked for");
    assert_eq!(group["link"]["driver"], "xdp");
    for host in 2..=3 {
        bridge.face(host, GROUP);
    }
    assert!(!has_program(&bridge, 3), "a device that copies frames is left to AF_PACKET");
    assert_eq!(bridge.face(3, GROUP)["link"]["driver"], "packet");
    let table = bridge.run(3, &["face", "list", "--long"]).stdout;
    let table = String::from_utf8_lossy(&table).into_owned();
    assert!(table.contains("DRIVER") && table.contains(" packet"), "{table}");
    std::fs::write(bridge.path("tcp.py"), TCP).unwrap();
    for host in 1..=2 {
        prints(&bridge, host, &format!("ip address add 10.9.9.{host}/24 dev eth0"));
    }
    bridge.change("nsenter -n -t $(cat host2.pid) python3 tcp.py server > server.err 2>&1 &");
    wait_until("the server", || bridge.path("server.ready").exists().then_some(()));
    bridge.change("nsenter -n -t $(cat host1.pid) python3 tcp.py client > client.err 2>&1 &");
    flows(&bridge);

    // The group: drivers of both kinds hear each other, and TCP flows beside.
    let servers = [1, 2, 3].map(|host| bridge.ping_server(host, &format!("/host{host}")));
    for host in 1..=3 {
        let group = bridge.face(host, GROUP)["face_id"].to_string();
        bridge.succeed(host, &["route", "add", "/", &group, "--cost", "10"]);
    }
    for (from, to) in [(1, 2), (1, 3), (3, 1)] {
        bridge.ping_often(from, &format!("/host{to}"));
    }
    let counted = |host: usize, key: &str| bridge.face(host, GROUP)["counters"][key].as_u64();
    assert!(counted(2, "in_interests") >= Some(11), "a group hears everything");
    flows(&bridge);

    let station_server = stations(&bridge);
    interface_goes_and_comes(&bridge, &group);
    killed(&bridge);
    drop((servers, station_server));
}

/// Faces of stations, and the driver as an operator wishes. Returns the server of `/station`.
fn stations(bridge: &Bridge) -> Process {
    let create = ["face", "create", &station(2), "dev://eth0", "--persistency", "permanent"];
    bridge.succeed(1, &create);
    let face = bridge.face(1, &station(2));
    let mtu = face["mtu_bytes"].as_u64();
    assert!(mtu == Some(8800) || mtu == Some(3822), "with pieces or without: {mtu:?}");
    let server = bridge.ping_server(2, "/station");
    bridge.succeed(1, &["route", "add", "/station", &face["face_id"].to_string()]);
    bridge.ping_often(1, "/station");
    // Another driver on request, and back again. The group's face is still the same.
    let group = bridge.face(3, GROUP);
    let create = |to: usize, driver: &str| {
        let to = station(to);
        bridge.succeed(3, &["face", "create", &to, "dev://eth0", "--driver", driver]);
    };
    create(2, "xdp");
    assert!(has_program(bridge, 3));
    assert_eq!(bridge.face(3, GROUP)["link"]["driver"], "xdp");
    bridge.succeed(3, &["route", "add", "/station", &station(2)]);
    bridge.ping_often(3, "/station");
    let text = prints(
        bridge,
        3,
        &format!("'{}' interfaces eth0 --json", namewire_tests::program().display()),
    );
    let reported: Vec<Value> = serde_json::from_str(&text).unwrap();
    let of_interface = &reported[0]["af_xdp"];
    assert!(of_interface["program"].is_u64(), "{text}");
    assert_eq!(of_interface["program_name"], "namewire_xdp", "{text}");
    assert_eq!(of_interface["process"]["name"], "namewire", "{text}");
    assert_eq!(reported[0]["pick"], "af_xdp", "{text}");
    create(1, "packet");
    assert!(!has_program(bridge, 3));
    bridge.ping_often(3, "/station");
    assert_eq!(bridge.face(3, GROUP)["face_id"], group["face_id"]);
    let refused = bridge.run(3, &["face", "create", "udp4://10.9.9.1", "--driver", "xdp"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("Only Ethernet"), "{refused:?}");
    server
}

fn interface_goes_and_comes(bridge: &Bridge, group: &Value) {
    // Another address.
    let host = "nsenter -n -t $(cat host1.pid) ip link set";
    bridge.change(&format!(
        "{host} eth0 down; {host} eth0 address 02:00:00:00:00:0a; {host} eth0 up"
    ));
    bridge.ping(1, "/host3");
    assert_eq!(bridge.face(1, GROUP)["face_id"], group["face_id"]);
    bridge.ping(1, "/station");
    // Another MTU, for which the sockets have to be made anew.
    bridge.change(&format!("{host} eth0 mtu 1400"));
    bridge.ping(1, "/station");
    wait_until("the program", || has_program(bridge, 1).then_some(()));
    // Deleted, and made anew.
    bridge.change("ip link del port1");
    wait_until("the face to go", || bridge.faces(1, GROUP, "dev://eth0").is_empty().then_some(()));
    bridge.change("plug 1");
    assert_ne!(bridge.face(1, GROUP)["face_id"], group["face_id"]);
    bridge.ping(1, "/station");
    assert!(has_program(bridge, 1));
}

/// A forwarder that is killed leaves no program, and the next one has the interface at once.
fn killed(bridge: &Bridge) {
    assert!(has_program(bridge, 2));
    bridge.change("kill -9 $(cat forwarder2.pid)");
    wait_until("its end", || bridge.path("ended2").exists().then_some(()));
    wait_until("the program to go", || (!has_program(bridge, 2)).then_some(()));
    std::fs::write(bridge.path("again2"), "").unwrap();
    bridge.face(2, GROUP);
    assert!(has_program(bridge, 2));
    let server = bridge.ping_server(2, "/again");
    bridge.ping_often(3, "/again");
    drop(server);
    let list = run_to_end(bridge.command(2, &["face", "list", "--json"]));
    assert!(list.status.success());
}
