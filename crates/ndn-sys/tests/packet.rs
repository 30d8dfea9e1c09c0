//! Packet sockets on a pair of virtual devices, in a network namespace of their own.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::io;
use std::os::fd::AsFd;
use std::process::Command;
use std::time::Duration;

use ndn_sys::netlink::{LinkMonitor, LinkState, NetworkDevice, network_devices};
use ndn_sys::packet::{Delivery, LinkAddress, PacketSocket, PacketSocketOptions};
use ndn_sys::poll::{Events, Interest, Poller};
use ndn_sys::udp::SendBatch;

const PROTOCOL: u16 = 0x8624;
const GROUP: [u8; 6] = [1, 0, 0x5e, 0, 0x17, 0xaa];
const ENOBUFS: i32 = 105;
/// An EtherType for experiments.
const EXPERIMENTAL: u16 = 0x88b5;
const TIMEOUT: Duration = Duration::from_secs(30);

/// Runs a test that is ignored otherwise, in a namespace, if the kernel allows one.
fn in_namespace(test: &str) {
    let program = std::env::current_exe().unwrap();
    let mut probe = Command::new("unshare");
    probe.args(["-rn", "ip", "link", "add", "probe0", "type", "veth"]);
    match probe.output() {
        Ok(output) if output.status.success() => {}
        other => return eprintln!("*** SKIPPED: no network namespaces: {other:?} ***"),
    }
    let mut command = Command::new("unshare");
    command.arg("-rn").arg(program).args(["--ignored", "--exact", test, "--nocapture"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {output:?}");
}

fn link(name: &str) -> NetworkDevice {
    network_devices().unwrap().into_iter().find(|link| link.name == name).unwrap()
}

fn pair() -> [NetworkDevice; 2] {
    ip("link add near type veth peer name far");
    ip("link set near up");
    ip("link set far up");
    let links = [link("near"), link("far")];
    settle(&links);
    links
}

/// Waits until frames go from one end to the other: the kernel starts that some time after both are up.
fn settle([near, far]: &[NetworkDevice; 2]) {
    let open = |link: &NetworkDevice| {
        PacketSocket::open(&PacketSocketOptions {
            interface: link.index,
            protocol: EXPERIMENTAL,
            group: None,
            payload_max: 100,
            ring_bytes: 1 << 16,
        })
    };
    let ends = [open(near).unwrap(), open(far).unwrap()];
    for (from, to) in [(0, 1), (1, 0)] {
        let links = [near, far];
        let mac = links[to].mac.unwrap();
        let address = LinkAddress { interface: links[from].index, protocol: EXPERIMENTAL, mac };
        while ends[to].peek().is_none() {
            send_as(&ends[from], &address, &[b"?"]);
            wait(&ends[to], Interest::Readable, Duration::from_millis(20));
        }
    }
}

fn open(link: &NetworkDevice, group: Option<[u8; 6]>) -> PacketSocket {
    let options = PacketSocketOptions {
        interface: link.index,
        protocol: PROTOCOL,
        group,
        payload_max: link.mtu as usize,
        ring_bytes: 1 << 18,
    };
    PacketSocket::open(&options).unwrap()
}

fn send(socket: &PacketSocket, interface: u32, mac: [u8; 6], payloads: &[&[u8]]) {
    send_as(socket, &LinkAddress { interface, protocol: PROTOCOL, mac }, payloads);
}

/// Sends all of them, however long the kernel takes; some may be lost.
fn send_as(socket: &PacketSocket, to: &LinkAddress, payloads: &[&[u8]]) {
    let mut batch = SendBatch::with_capacity(8, 8);
    let mut sent = 0;
    while sent < payloads.len() {
        let mut builder = batch.start();
        for payload in payloads[sent..].iter().take(8) {
            builder.push_slice(payload);
            builder.end_frame(to);
        }
        match builder.send(socket.as_fd()) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait(socket, Interest::Writable, TIMEOUT);
            }
            // The queue of the device is full, or not there yet.
            Err(error) if error.raw_os_error() == Some(ENOBUFS) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

/// False if nothing happened in this time.
fn wait(socket: &PacketSocket, interest: Interest, timeout: Duration) -> bool {
    let poller = Poller::new().unwrap();
    poller.add(socket, 1, interest).unwrap();
    let mut events = Events::with_capacity(1);
    poller.wait(&mut events, Some(timeout)).unwrap();
    !events.is_empty()
}

/// The next frame: payload, sender and delivery.
fn receive(socket: &mut PacketSocket) -> (Vec<u8>, Option<[u8; 6]>, Delivery) {
    while socket.peek().is_none() {
        assert!(wait(socket, Interest::Readable, TIMEOUT), "no frame came");
        let _ = socket.take_error();
    }
    take(socket).unwrap()
}

fn take(socket: &mut PacketSocket) -> Option<(Vec<u8>, Option<[u8; 6]>, Delivery)> {
    let frame = socket.peek()?;
    let received = (frame.payload.to_vec(), frame.source, frame.delivery);
    socket.release();
    Some(received)
}

#[test]
fn frames_are_sent_and_received() {
    in_namespace("inner_frames");
}

#[test]
#[ignore = "run by the test above, in a namespace"]
fn inner_frames() {
    let [near_link, far_link] = pair();
    let (near_mac, far_mac) = (near_link.mac.unwrap(), far_link.mac.unwrap());
    let near = open(&near_link, Some(GROUP));
    let mut far = open(&far_link, Some(GROUP));
    let mut lone = open(&far_link, None);

    // To a station: a short one, and one as long as the device takes.
    let long = vec![7; near_link.mtu as usize];
    send(&near, near_link.index, far_mac, &[b"one", &long]);
    for expected in [b"one".as_slice(), &long] {
        let (payload, source, delivery) = receive(&mut far);
        assert_eq!((&payload[..], source), (expected, Some(near_mac)));
        assert_eq!(delivery, Delivery::Host);
    }
    // To a group: members get it. To other groups and other stations: nobody does.
    let other_group = [1, 0, 0x5e, 0, 0x17, 0xab];
    send(&near, near_link.index, other_group, &[b"other group"]);
    send(&near, near_link.index, [0xff; 6], &[b"everybody"]);
    send(&near, near_link.index, [2, 9, 9, 9, 9, 9], &[b"somebody else"]);
    send(&near, near_link.index, GROUP, &[b"two"]);
    assert_eq!(receive(&mut far), (b"two".to_vec(), Some(near_mac), Delivery::Group));
    assert!(far.peek().is_none());
    send(&near, near_link.index, far_mac, &[b"three"]);
    assert_eq!(receive(&mut lone).0, b"one");
    assert_eq!(receive(&mut lone).0, long);
    assert_eq!(receive(&mut lone).0, b"three", "it is no member");
    // Nobody hears himself.
    assert!(near.peek().is_none());

    // A longer frame than the device takes is refused, and what follows is not.
    let too_long = vec![7; near_link.mtu as usize + 1];
    let mut batch = SendBatch::with_capacity(1, 1);
    let mut builder = batch.start();
    builder.push_slice(&too_long);
    let to = LinkAddress { interface: near_link.index, protocol: PROTOCOL, mac: far_mac };
    builder.end_frame(&to);
    assert!(builder.send(near.as_fd()).is_err());

    // More than the ring takes: some are lost, and the loss is reported.
    let mut lost = 0;
    while lost == 0 {
        send(&near, near_link.index, far_mac, &[long.as_slice(); 8]);
        lost = far.take_statistics().unwrap().lost;
    }
    // Older frames give way to newer ones, and the queue between the devices may be full.
    loop {
        send(&near, near_link.index, far_mac, &[b"four"]);
        wait(&far, Interest::Readable, TIMEOUT);
        if std::iter::from_fn(|| take(&mut far)).any(|frame| frame.0 == b"four") {
            break;
        }
    }
}

#[test]
fn tagged_frame_is_not_received_on_the_untagged_device() {
    in_namespace("inner_tags");
}

#[test]
#[ignore = "run by the test above, in a namespace"]
fn inner_tags() {
    let [near_link, far_link] = pair();
    let near = open(&near_link, None);
    let mut far = open(&far_link, Some(GROUP));
    // A tag: priority and number of the VLAN, then the EtherType of what follows.
    let frame =
        |tag: u16, payload: &[u8]| [&tag.to_be_bytes(), &PROTOCOL.to_be_bytes(), payload].concat();
    let frames = [frame(42, b"for VLAN 42"), frame(5 << 13, b"with priority")];
    for payload in &frames {
        for mac in [far_link.mac.unwrap(), GROUP] {
            let to = LinkAddress { interface: near_link.index, protocol: 0x8100, mac };
            send_as(&near, &to, &[payload]);
        }
    }
    assert_eq!(receive(&mut far).0, b"with priority");
    assert_eq!(receive(&mut far).0, b"with priority");
    assert!(far.peek().is_none());
}

#[test]
fn vlans_have_frames_of_their_own() {
    in_namespace("inner_vlans");
}

#[test]
#[ignore = "run by the test above, in a namespace"]
fn inner_vlans() {
    let [near_link, far_link] = pair();
    let mut probe = Command::new("ip");
    probe.args("link add link near name near.43 type vlan id 43".split(' '));
    if !probe.status().unwrap().success() {
        return eprintln!("*** SKIPPED: this kernel has no VLANs ***");
    }
    ip("link set near.43 up");
    for end in ["near", "far"] {
        ip(&format!("link add link {end} name {end}.42 type vlan id 42"));
        ip(&format!("link set {end}.42 up"));
    }
    let (near_vlan, far_vlan, lone_vlan) = (link("near.42"), link("far.42"), link("near.43"));
    assert_eq!((near_vlan.vlan, near_vlan.lower), (Some(42), Some(near_link.index)));
    assert_eq!(near_vlan.kind.as_deref(), Some("vlan"));
    let mut plain = open(&far_link, Some(GROUP));
    let mut tagged = open(&far_vlan, Some(GROUP));
    let far_mac = far_link.mac.unwrap();
    // On VLAN 43 the other end has no device, on 42 it has one, and the last one is untagged.
    for (from, payload) in
        [(&lone_vlan, b"lone  "), (&near_vlan, b"tagged"), (&near_link, b"plain ")]
    {
        let socket = open(from, None);
        for to in [far_mac, GROUP] {
            send(&socket, from.index, to, &[payload]);
        }
    }
    for _ in 0..2 {
        assert_eq!(receive(&mut tagged).0, b"tagged");
        assert_eq!(receive(&mut plain).0, b"plain ");
    }
    assert!(tagged.peek().is_none() && plain.peek().is_none());
}

#[test]
fn monitor_reports_added_and_removed_devices() {
    in_namespace("inner_devices");
}

#[test]
#[ignore = "run by the test above, in a namespace"]
fn inner_devices() {
    let monitor = LinkMonitor::new().unwrap();
    let poller = Poller::new().unwrap();
    poller.add(&monitor, 1, Interest::Readable).unwrap();
    let mut events = Events::with_capacity(1);
    let mut expect = || {
        poller.wait(&mut events, Some(TIMEOUT)).unwrap();
        assert!(!events.is_empty(), "nothing was reported");
        monitor.reset();
    };
    let [near_link, far_link] = pair();
    expect();
    let near = open(&near_link, None);
    let mut far = open(&far_link, None);
    let far_mac = far_link.mac.unwrap();
    ip("link set far down");
    expect();
    assert_eq!(link("far").state, LinkState::Disabled);
    // The other end has no carrier.
    while link("near").state.is_running() {
        expect();
    }
    assert!(far.take_error().is_err() && far.take_error().is_ok(), "it is reported once");
    // Up again, and with another address: the same socket goes on.
    ip("link set far address 02:00:00:00:00:77");
    ip("link set far up");
    expect();
    while !link("near").state.is_running() {
        expect();
    }
    settle(&[link("near"), link("far")]);
    send(&near, near_link.index, [2, 0, 0, 0, 0, 0x77], &[b"again"]);
    let (payload, source, _) = receive(&mut far);
    assert_eq!((payload, source), (b"again".to_vec(), near_link.mac));
    assert_ne!(far_mac, link("far").mac.unwrap());
    ip("link del far");
    expect();
    assert!(network_devices().unwrap().iter().all(|link| link.name != "far"));
    assert!(far.take_error().is_err());
}
