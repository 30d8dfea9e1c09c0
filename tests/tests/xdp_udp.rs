//! UDP by AF_XDP, which root's rights are needed for: hosts on a bridge, two of which take it past the kernel.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use namewire_tests::{Bridge, Process, Script, looping, program, wait_until};
use serde_json::Value;

/// Beside NDN: TCP and another UDP port, whose echoes are counted in files.
const OTHERS: &str = r"
import os, socket, sys, threading, time
def count(name, number):
    with open(name + '.new', 'w') as out:
        out.write(str(number))
    os.rename(name + '.new', name)
def tcp():
    connection = socket.create_connection(('10.9.9.1', 7007))
    block = bytes(range(256)) * 200
    rounds = 0
    while True:
        connection.sendall(block)
        received = b''
        while len(received) < len(block):
            received += connection.recv(65536)
        assert received == block
        rounds += 1
        count('tcp', rounds)
def udp():
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    own.settimeout(0.2)
    rounds = 0
    while True:
        while os.path.exists('others.pause'):
            open('others.paused', 'w').close()
            time.sleep(0.01)
        if os.path.exists('others.paused'):
            os.remove('others.paused')
        own.sendto(bytes(rounds % 1400), ('10.9.9.1', 6364))
        try:
            if len(own.recv(2000)) == rounds % 1400:
                rounds += 1
                count('udp', rounds)
        except TimeoutError:
            pass
def serve_udp():
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    own.bind(('0.0.0.0', 6364))
    while True:
        data, peer = own.recvfrom(2000)
        own.sendto(data, peer)
if sys.argv[1] == 'server':
    threading.Thread(target=serve_udp, daemon=True).start()
    listener = socket.create_server(('0.0.0.0', 7007))
    open('others.ready', 'w').close()
    connection, _ = listener.accept()
    while data := connection.recv(65536):
        connection.sendall(data)
else:
    threading.Thread(target=udp, daemon=True).start()
    tcp()
";

/// Sends an Interest from a port of nobody, with a checksum that is right or not, until a file is there.
const RAW: &str = r"
import os, socket, struct, sys, time
port, wrong = int(sys.argv[1]), int(sys.argv[2])
source, to = socket.inet_aton('10.9.9.3'), socket.inet_aton('10.9.9.1')
interest = b'\x05\x0d\x07\x05\x08\x03bad\x0a\x04' + os.urandom(4)
length = 8 + len(interest)
datagram = struct.pack('!HHHH', port, 6363, length, 0) + interest
covered = source + to + struct.pack('!BBH', 0, 17, length) + datagram
covered += b'\0' * (len(covered) % 2)
total = sum(struct.unpack('!%dH' % (len(covered) // 2), covered))
while total >> 16:
    total = (total & 0xffff) + (total >> 16)
checksum = (~total & 0xffff) ^ wrong
datagram = datagram[:6] + struct.pack('!H', checksum) + datagram[8:]
own = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
while not os.path.exists('raw.end'):
    own.sendto(datagram, ('10.9.9.1', 0))
    time.sleep(0.01)
";

/// Runs a forwarder with UDP again and again.
fn with_udp(directory: &Path, host: usize, ethernet: &str) -> String {
    let text = format!(
        "[listeners.unix]\npath = \"{0}/host{host}.sock\"\n[listeners.tcp]\nenabled = false\n\
         [listeners.multicast]\nenabled = false\n{ethernet}\n[forwarder]\nworkers = 1\n",
        directory.display()
    );
    let path = directory.join(format!("host{host}.toml"));
    std::fs::write(&path, text).unwrap();
    looping(host, &format!("'{}' run --config '{}'", program().display(), path.display()))
}

fn by_xdp(directory: &Path, host: usize) -> String {
    let ethernet = "[listeners.ethernet]\nenabled = true\nring = \"256KiB\"\ndriver = \"xdp\"\n\
                    udp_interfaces = [\"eth*\"]";
    with_udp(directory, host, ethernet)
}

/// Has a running forwarder take UDP on these interfaces.
fn take_udp_on(bridge: &Bridge, host: usize, interfaces: &str) {
    let path = bridge.path(&format!("host{host}.toml"));
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once("udp_interfaces = ").unwrap();
    let (_, behind) = rest.split_once('\n').unwrap();
    std::fs::write(path, format!("{before}udp_interfaces = {interfaces}\n{behind}")).unwrap();
    bridge.change(&format!("kill -HUP $(cat forwarder{host}.pid)"));
}

fn by_kernel(directory: &Path, host: usize) -> String {
    with_udp(directory, host, "")
}

/// Does something on a host.
fn on(bridge: &Bridge, host: usize, command: &str) -> String {
    bridge.change(&format!("nsenter -n -t $(cat host{host}.pid) {command} > said 2>&1"));
    std::fs::read_to_string(bridge.path("said")).unwrap()
}

/// Datagrams that the sockets of a host's kernel have received and sent, over IPv4 and IPv6.
fn by_sockets(bridge: &Bridge, host: usize) -> [u64; 2] {
    let text = on(bridge, host, "cat /proc/net/snmp /proc/net/snmp6");
    let mut lines = text.lines().filter(|line| line.starts_with("Udp:"));
    let columns =
        lines.next().unwrap().split_whitespace().zip(lines.next().unwrap().split_whitespace());
    let v4: Vec<(&str, &str)> = columns.collect();
    let v6: Vec<(&str, &str)> =
        text.lines().filter_map(|line| line.split_once(char::is_whitespace)).collect();
    ["InDatagrams", "OutDatagrams"].map(|key| {
        let of = |list: &[(&str, &str)], key: &str| {
            let found = list.iter().find(|(name, _)| *name == key).unwrap();
            found.1.trim().parse::<u64>().unwrap()
        };
        of(&v4, key) + of(&v6, &format!("Udp6{key}"))
    })
}

/// The UDP faces of a host to `remote`.
fn faces(bridge: &Bridge, host: usize, remote: &str) -> Vec<Value> {
    let output = bridge.run(host, &["face", "list", "--json"]);
    let faces: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap_or_default();
    faces.into_iter().filter(|face| face["remote_uri"] == remote).collect()
}

/// What the UDP face of a host to `remote` sends by.
fn driver(bridge: &Bridge, host: usize, remote: &str) -> Value {
    faces(bridge, host, remote).pop().unwrap()["link"]["driver"].take()
}

/// Makes a permanent face and a route.
fn reach(bridge: &Bridge, host: usize, remote: &str, prefix: &str) {
    let output =
        bridge.run(host, &["face", "create", remote, "--persistency", "permanent", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let face: Value = serde_json::from_slice(&output.stdout).unwrap();
    bridge.succeed(host, &["route", "add", prefix, &face["face_id"].to_string()]);
}

/// Pings go and come without a socket of the pinging host's kernel, once that knows the neighbour.
fn past_the_kernel(bridge: &Bridge, host: usize, prefix: &str) {
    wait_until(&format!("{prefix} past the kernel of host {host}"), || {
        let before = by_sockets(bridge, host);
        bridge.ping_often(host, prefix);
        (by_sockets(bridge, host) == before).then_some(())
    });
}

/// The others go on.
fn others_flow(bridge: &Bridge) {
    let counts = || {
        ["tcp", "udp"].map(|name| {
            let text = std::fs::read_to_string(bridge.path(name)).unwrap_or_default();
            text.parse::<u64>().unwrap_or(0)
        })
    };
    let before = counts();
    wait_until("TCP and another port to go on", || {
        let now = counts();
        (now[0] > before[0] + 3 && now[1] > before[1] + 3).then_some(())
    });
}

fn has_program(bridge: &Bridge, host: usize) -> bool {
    let link = on(bridge, host, "ip link show eth0");
    assert!(link.contains("eth0"), "{link}");
    link.contains("xdp")
}

fn give_addresses(bridge: &Bridge, host: usize, number: usize) {
    on(bridge, host, &format!("ip address add 10.9.9.{number}/24 dev eth0"));
    on(bridge, host, &format!("ip address add fd09::{number}/64 dev eth0 nodad"));
}

#[test]
fn datagrams_pass_by_the_kernel() {
    if let Err(error) = ndn_sys::xdp::may_use() {
        return eprintln!("*** SKIPPED: {error} ***");
    }
    let Some(bridge) = Bridge::of_root(&[by_xdp as Script, by_kernel, by_xdp]) else { return };
    for host in 1..=3 {
        // The forwarders run already, and hear of it.
        give_addresses(&bridge, host, host);
        wait_until("a forwarder", || {
            bridge.run(host, &["face", "list"]).status.success().then_some(())
        });
    }
    wait_until("the programs", || {
        (has_program(&bridge, 1) && has_program(&bridge, 3)).then_some(())
    });
    std::fs::write(bridge.path("others.py"), OTHERS).unwrap();
    on(&bridge, 1, "python3 others.py server > server.err 2>&1 &");
    wait_until("the server", || bridge.path("others.ready").exists().then_some(()));
    on(&bridge, 2, "python3 others.py client > client.err 2>&1 &");
    others_flow(&bridge);

    let servers = [1, 2, 3].map(|host| bridge.ping_server(host, &format!("/host{host}")));
    reach(&bridge, 1, "udp4://10.9.9.2", "/host2");
    reach(&bridge, 1, "udp6://[fd09::3]", "/host3");
    reach(&bridge, 2, "udp4://10.9.9.1", "/host1");
    reach(&bridge, 3, "udp6://[fd09::1]", "/host1");
    // The other end speaks to the face that there is.
    bridge.ping_often(2, "/host1");
    assert_eq!(faces(&bridge, 1, "udp4://10.9.9.2:6363").len(), 1);
    only_ndn(&bridge);
    on_the_link(&bridge);
    long_packets(&bridge);
    wrong_checksums(&bridge);
    changes(&bridge);
    turned_off_and_on(&bridge);
    killed(&bridge);
    std::fs::remove_file(bridge.path("others.pause")).unwrap();
    others_flow(&bridge);
    drop(servers);
}

/// Pings past the kernel. Its counts are of all ports.
fn only_ndn(bridge: &Bridge) {
    std::fs::write(bridge.path("others.pause"), "").unwrap();
    wait_until("the other port to rest", || bridge.path("others.paused").exists().then_some(()));
    for (host, prefix) in [(1, "/host2"), (1, "/host3"), (3, "/host1")] {
        past_the_kernel(bridge, host, prefix);
    }
    wait_until("its driver", || (driver(bridge, 1, "udp4://10.9.9.2:6363") == "xdp").then_some(()));
    assert!(driver(bridge, 2, "udp4://10.9.9.1:6363").is_null());
    std::fs::remove_file(bridge.path("others.pause")).unwrap();
    others_flow(bridge);
    std::fs::write(bridge.path("others.pause"), "").unwrap();
    wait_until("the other port to rest", || bridge.path("others.paused").exists().then_some(()));
}

/// A peer whose address means something on the link only.
fn on_the_link(bridge: &Bridge) {
    let server = bridge.ping_server(3, "/link");
    // That of hardware address 02:00:00:00:00:03.
    reach(bridge, 1, "udp6://[fe80::ff:fe00:3%eth0]", "/link");
    bridge.ping(1, "/link");
    past_the_kernel(bridge, 1, "/link");
    assert_eq!(faces(bridge, 3, "udp6://[fe80::ff:fe00:1%eth0]:6363").len(), 1);
    drop(server);
}

/// Datagrams that a frame of AF_XDP has no room for.
fn long_packets(bridge: &Bridge) {
    let servers = [1, 2].map(|host| {
        let prefix = format!("/long{host}");
        let command = bridge.command(host, &["ping-server", &prefix, "--size", "8000"]);
        Process::start(&format!("long{host}"), command, bridge.directory.path())
    });
    bridge.succeed(1, &["route", "add", "/long2", "udp4://10.9.9.2"]);
    bridge.succeed(2, &["route", "add", "/long1", "udp4://10.9.9.1"]);
    bridge.ping_often(1, "/long2");
    bridge.ping_often(2, "/long1");
    drop(servers);
}

/// What was damaged is counted and brings nobody a face; the same whole does.
fn wrong_checksums(bridge: &Bridge) {
    std::fs::write(bridge.path("raw.py"), RAW).unwrap();
    on(bridge, 3, "python3 raw.py 9999 4660 > raw.err 2>&1 &");
    wait_until("a damaged datagram", || {
        let output = bridge.run(1, &["workers", "--json", "--seconds", "0.1"]);
        let told: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        let count = |worker: &Value| worker["total"]["damaged_datagrams"].as_u64().unwrap();
        (told.iter().map(count).sum::<u64>() > 0).then_some(())
    });
    assert!(faces(bridge, 1, "udp4://10.9.9.3:9999").is_empty());
    on(bridge, 3, "python3 raw.py 9999 0 > raw.err 2>&1 &");
    let face = wait_until("a face", || faces(bridge, 1, "udp4://10.9.9.3:9999").pop());
    assert_eq!(face["persistency"], "on-demand");
    std::fs::write(bridge.path("raw.end"), "").unwrap();
}

/// Neighbours, addresses and MTUs that are others from now on.
fn changes(bridge: &Bridge) {
    // By itself, the kernel believes no other hardware address for a second after one.
    on(bridge, 1, "sh -c 'echo 0 > /proc/sys/net/ipv4/neigh/eth0/locktime'");
    on(bridge, 2, "ip link set eth0 address 02:00:00:00:00:22");
    bridge.ping(2, "/host1");
    bridge.ping(1, "/host2");
    past_the_kernel(bridge, 1, "/host2");
    on(bridge, 3, "ip address del 10.9.9.3/24 dev eth0");
    on(bridge, 3, "ip address add 10.9.9.33/24 dev eth0");
    let server = bridge.ping_server(3, "/moved");
    reach(bridge, 1, "udp4://10.9.9.33", "/moved");
    wait_until("the new address past the kernel of the other host", || {
        let before = by_sockets(bridge, 3);
        bridge.ping_often(1, "/moved");
        (by_sockets(bridge, 3) == before).then_some(())
    });
    let counted = faces(bridge, 1, "udp4://10.9.9.33:6363").pop().unwrap();
    assert!(counted["counters"]["in_data"].as_u64() >= Some(10), "{counted}");
    drop(server);
    on(bridge, 3, "ip link set eth0 mtu 8000");
    bridge.ping(1, "/host3");
    wait_until("the program", || has_program(bridge, 3).then_some(()));
    past_the_kernel(bridge, 3, "/host1");
}

/// A neighbour that is somebody else by the time that UDP is taken again is not sent to by what was known before.
fn turned_off_and_on(bridge: &Bridge) {
    const REMOTE: &str = "udp6://[fd09::3]:6363";
    past_the_kernel(bridge, 1, "/host3");
    wait_until("the driver", || (driver(bridge, 1, REMOTE) == "xdp").then_some(()));
    take_udp_on(bridge, 1, "[]");
    wait_until("the kernel to send", || driver(bridge, 1, REMOTE).is_null().then_some(()));
    on(bridge, 3, "ip link set eth0 address 02:00:00:00:00:33");
    on(bridge, 1, "ip neigh flush dev eth0");
    take_udp_on(bridge, 1, "[\"eth*\"]");
    bridge.ping(1, "/host3");
    past_the_kernel(bridge, 1, "/host3");
}

/// Nothing is left of a forwarder that has ended, and the next one goes on.
fn killed(bridge: &Bridge) {
    for signal in ["-9", "-TERM"] {
        bridge.change(&format!("kill {signal} $(cat forwarder3.pid)"));
        wait_until("its end", || std::fs::remove_file(bridge.path("ended3")).ok());
        wait_until("the program to go", || (!has_program(bridge, 3)).then_some(()));
        std::fs::write(bridge.path("again3"), "").unwrap();
        wait_until("the program", || has_program(bridge, 3).then_some(()));
        let server = bridge.ping_server(3, &format!("/again{signal}"));
        bridge.succeed(1, &["route", "add", &format!("/again{signal}"), "udp4://10.9.9.33"]);
        bridge.ping(1, &format!("/again{signal}"));
        past_the_kernel(bridge, 1, &format!("/again{signal}"));
        drop(server);
    }
}
