//! An interface with two queues, by AF_XDP and two workers, which root's rights are needed for. The other end of the
//! link chooses the queue of each frame.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use namewire_tests::{Bridge, Script, program, skip, wait_until};
use serde_json::Value;

/// A link between the hosts, beside the bridge.
const LINK: &str = "ip link add eth1 numrxqueues 2 numtxqueues 2 address 02:00:00:00:01:01 \
                    netns $(cat host1.pid) type veth peer name eth1 numrxqueues 2 numtxqueues 2 \
                    address 02:00:00:00:01:02 netns $(cat host2.pid)";

/// The other end of the link: stations, or stations that speak to the group, each of which asks for
/// names of a ping server, by either queue in turn: a socket without queueing discipline sends by the queue of its
/// processor. Prints how often each of them was answered.
const ASK: &str = r"
import json, os, select, socket, struct, sys
kind, first, count, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
HOST, SETTLER, GROUP = bytes.fromhex('020000000101'), bytes.fromhex('020000000301'), bytes.fromhex('01005e0017aa')
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
wire.bind(('eth1', 0))
wire.setsockopt(263, 20, 1)
cpus = sorted(os.sched_getaffinity(0))
by_queue = [[cpu for cpu in cpus if cpu % 2 == queue] for queue in range(2)]
def emit(frame, queue):
    os.sched_setaffinity(0, by_queue[queue][:1])
    wire.send(frame.ljust(60, b'\0'))
def tlv(kind, value):
    return bytes([kind, len(value)]) + value
def station(number):
    return bytes([2, 0, 0, 0, 2, number])
def interest(number):
    name = tlv(8, b'q') + tlv(8, b'ping') + tlv(8, str(number).encode())
    return tlv(5, tlv(7, name) + tlv(10, os.urandom(4)) + tlv(12, b'\x7f\xff'))
def fragments(packet):
    half = len(packet) // 2
    for at, part in enumerate([packet[:half], packet[half:]]):
        sequence = tlv(0x51, struct.pack('!Q', 70 + at))
        yield tlv(0x64, sequence + tlv(0x52, bytes([at])) + tlv(0x53, b'\x02') + tlv(0x50, part))
if kind == 'settle':
    ear = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x8624))
    ear.bind(('eth1', 0x8624))
    answered = [False, False]
    for number in range(500):
        for queue in range(2):
            emit(HOST + SETTLER + b'\x86\x24' + interest(queue), queue)
            while select.select([ear], [], [], 0.05)[0]:
                bytes_in, whence = ear.recvfrom(9000)
                if whence[2] == socket.PACKET_OUTGOING:
                    continue
                for one in range(2):
                    answered[one] |= tlv(8, str(one).encode()) in bytes_in
        if all(answered):
            print('settled')
            break
    sys.exit()
ear = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x8624))
ear.bind(('eth1', 0x8624))
answers, number = {}, first
for turn in range(rounds):
    asked, parts = {}, []
    for peer in range(count):
        number += 1
        asked[b'\x08' + bytes([len(str(number))]) + str(number).encode()] = peer
        if kind == 'stations':
            emit(HOST + station(peer) + b'\x86\x24' + interest(number), (turn + peer) % 2)
        else:
            parts.append([(peer, part) for part in fragments(interest(number))])
    # First all first fragments, then the second ones, with the same numbers.
    for both in zip(*parts):
        for peer, part in both:
            emit(GROUP + station(peer) + b'\x86\x24' + part, turn % 2)
    while asked:
        if not select.select([ear], [], [], 10)[0]:
            sys.exit('%s: no answer to %s in turn %d' % (kind, asked, turn))
        bytes_in, whence = ear.recvfrom(9000)
        if whence[2] == socket.PACKET_OUTGOING:
            continue
        for name, peer in list(asked.items()):
            if name in bytes_in:
                wanted = {'stations': bytes_in[:6] == station(peer), 'group': bytes_in[:6] == GROUP}
                assert wanted[kind], (peer, bytes_in)
                del asked[name]
                answers[peer] = answers.get(peer, 0) + 1
                break
        else:
            sys.exit('nobody has asked for this: %r' % bytes_in)
print(json.dumps([answers[peer] for peer in range(count)]))
";

/// Runs a forwarder with two workers again and again, each time that a file says so.
fn by_two_workers(directory: &Path, host: usize) -> String {
    let text = format!(
        "[listeners.unix]\npath = \"{0}/host{host}.sock\"\n[listeners.tcp]\nenabled = false\n\
         [listeners.multicast]\nenabled = false\n[listeners.ethernet]\nenabled = true\n\
         interfaces = [\"eth1\"]\nring = \"256KiB\"\ndriver = \"xdp\"\n\
         [forwarder]\nworkers = 2\n",
        directory.display()
    );
    let path = directory.join(format!("host{host}.toml"));
    std::fs::write(&path, text).unwrap();
    format!(
        "while :; do '{}' run --config '{}' 2> forwarder.err & echo $! > forwarder.new\n\
         mv forwarder.new forwarder.pid; wait $! || true; touch ended\n\
         until test -e again; do sleep 0.05; done; rm again; done\n",
        program().display(),
        path.display()
    )
}

fn nothing(_: &Path, _: usize) -> String {
    "while :; do sleep 1; done\n".to_owned()
}

/// Does something on a host.
fn on(bridge: &Bridge, host: usize, command: &str) -> String {
    bridge.change(&format!("nsenter -n -t $(cat host{host}.pid) {command} > said 2>&1 || true"));
    std::fs::read_to_string(bridge.path("said")).unwrap()
}

/// A number of consumers of a kind ask a number of times, from this number on. All are answered once for each time.
fn ask(bridge: &Bridge, kind: &str, first: u32, count: usize, rounds: u64) {
    let printed = on(bridge, 2, &format!("python3 ask.py {kind} {first} {count} {rounds}"));
    let answers: Vec<u64> = serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{printed}"));
    assert_eq!(answers, vec![rounds; count]);
}

fn faces(bridge: &Bridge, is_requested: impl Fn(&str) -> bool) -> Vec<Value> {
    let output = bridge.run(1, &["face", "list", "--json"]);
    let mut faces: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    faces.retain(|face| is_requested(face["remote_uri"].as_str().unwrap()));
    faces
}

fn workers(bridge: &Bridge) -> Vec<Value> {
    let output = bridge.run(1, &["workers", "--json", "--duration", "100ms"]);
    let reported: Value = serde_json::from_slice(&output.stdout).unwrap();
    reported.as_array().unwrap_or_else(|| panic!("{reported}")).clone()
}

fn has_program(bridge: &Bridge) -> bool {
    let link = on(bridge, 1, "ip link show eth1");
    assert!(link.contains("eth1"), "{link}");
    link.contains("xdp")
}

#[test]
fn queues_of_an_interface_are_dealt_over_workers() {
    if let Err(error) = ndn_sys::xdp::may_use() {
        return skip("AF_XDP", &error.to_string());
    }
    if std::thread::available_parallelism().unwrap().get() < 2 {
        return skip("processors", "there is one");
    }
    let Some(bridge) = Bridge::of_root(&[by_two_workers as Script, nothing]) else { return };
    std::fs::write(bridge.path("ask.py"), ASK).unwrap();
    bridge.change(LINK);
    for host in [1, 2] {
        on(&bridge, host, "ip link set eth1 up");
    }
    wait_until("the program", || has_program(&bridge).then_some(()));
    let log = std::fs::read_to_string(bridge.path("forwarder.err")).unwrap();
    assert!(log.contains("queues_of_workers=[1, 1]"), "{log}");
    let server = bridge.ping_server(1, "/q");
    settle(&bridge);
    stations(&bridge);
    group(&bridge);
    drop(server);
    killed(&bridge);
}

/// Waits until frames go both ways by both queues: a link that has just come up may lose some.
fn settle(bridge: &Bridge) {
    let printed = on(bridge, 2, "python3 ask.py settle 1 1 1");
    assert_eq!(printed.trim(), "settled");
}

/// Stations, whose frames come by either queue.
fn stations(bridge: &Bridge) {
    ask(bridge, "stations", 20_000, 8, 30);
    let known = faces(bridge, |remote| remote.starts_with("ether://[02:00:00:00:02:"));
    assert_eq!(known.len(), 8, "{known:?}");
    for face in &known {
        let counters = &face["counters"];
        assert_eq!((&counters["in_interests"], &counters["out_data"]), (&30.into(), &30.into()));
        assert_eq!(face["link"]["driver"], "xdp");
    }
    let reported = workers(bridge);
    assert_eq!(reported.len(), 2);
    let crossed = |worker: &Value| worker["total"]["crossings_sent"].as_u64().unwrap();
    assert!(reported.iter().map(crossed).sum::<u64>() > 100, "{reported:?}");
}

/// The group has one face, which puts fragments together that come by either queue.
fn group(bridge: &Bridge) {
    ask(bridge, "group", 30_000, 4, 30);
    let known = faces(bridge, |remote| remote == "ether://[01:00:5e:00:17:aa]");
    assert_eq!(known.len(), 1);
    assert_eq!(known[0]["counters"]["in_interests"], 120);
}

/// Nothing is left of a forwarder that has ended, and the next one has both queues.
fn killed(bridge: &Bridge) {
    for signal in ["-9", "-TERM"] {
        bridge.change(&format!("kill {signal} $(cat forwarder.pid)"));
        wait_until("its end", || std::fs::remove_file(bridge.path("ended")).ok());
        wait_until("the program to go", || (!has_program(bridge)).then_some(()));
        std::fs::write(bridge.path("again"), "").unwrap();
        wait_until("the program", || has_program(bridge).then_some(()));
        let server = bridge.ping_server(1, "/q");
        settle(bridge);
        ask(bridge, "stations", 50_000, 4, 10);
        drop(server);
    }
}
