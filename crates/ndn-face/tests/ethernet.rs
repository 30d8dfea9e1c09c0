//! Ethernet faces on a pair of virtual devices, in a network namespace of their own.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "test code")]

mod support;

use std::os::fd::AsFd;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use ndn_face::{
    CloseReason, ETHER_TYPE, FaceChange, FaceCounters, FaceEvent, FaceOptions, LinkDropReason,
    NewStation, OnDemandSettings, PeerKey, PortId, PortOptions, PortSocket, Ports,
};
use ndn_sys::netlink::{NetworkDevice, network_devices};
use ndn_sys::packet::{LinkAddress, PacketSocket, PacketSocketOptions};
use ndn_sys::poll::{Events, Interest, Poller};
use ndn_sys::udp::SendBatch;
use ndn_sys::xdp::{XdpError, XdpOptions, XdpPort, may_use};
use ndn_table::FaceIndex;
use ndn_types::{Persistency, Scope};
use support::{Worker, properties, tlv};

const GROUP: [u8; 6] = [1, 0, 0x5e, 0, 0x17, 0xaa];
/// An EtherType for experiments.
const EXPERIMENTAL: u16 = 0x88b5;
const PORT: PortId = PortId(3);

/// Makes AF_XDP drive the ports of a test.
const BY_XDP: &str = "PORTS_BY_XDP";

/// Runs a test that is ignored otherwise, in a namespace, by each driver, if the kernel allows it.
fn in_namespace(test: &str) {
    in_namespace_by(test, "-rn", None);
    match may_use() {
        // XDP programs need rights outside of any user namespace.
        Ok(()) => in_namespace_by(test, "-n", Some((BY_XDP, "1"))),
        Err(error) => eprintln!("*** SKIPPED: {error} ***"),
    }
}

fn in_namespace_by(test: &str, namespaces: &str, driver: Option<(&str, &str)>) {
    let program = std::env::current_exe().unwrap();
    let mut probe = Command::new("unshare");
    probe.args([namespaces, "ip", "link", "add", "probe0", "type", "veth"]);
    match probe.output() {
        Ok(output) if output.status.success() => {}
        other => return eprintln!("*** SKIPPED: no network namespaces: {other:?} ***"),
    }
    let mut command = Command::new("unshare");
    command.arg(namespaces).arg(program).args(["--ignored", "--exact", test, "--nocapture"]);
    let output = command.envs(driver).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{driver:?}: {errors}");
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {output:?}");
}

fn link(name: &str) -> NetworkDevice {
    network_devices().unwrap().into_iter().find(|link| link.name == name).unwrap()
}

/// The driver that a worker receives by.
fn port_socket(link: &NetworkDevice) -> PortSocket {
    if std::env::var_os(BY_XDP).is_none() {
        return socket(link).into();
    }
    let options = XdpOptions {
        interface: link.index,
        protocol: ETHER_TYPE,
        mac: link.mac.unwrap(),
        group: Some(GROUP),
        payload_max: link.mtu as usize,
        queue_count: 1,
        ring_bytes: 1 << 20,
        mode: None,
    };
    // The kernel takes its time to give a queue free.
    let mut attempts = (0..300).map(|_| XdpPort::open(&options));
    let opened = attempts.find(|one| !one.as_ref().is_err_and(XdpError::is_busy));
    opened.unwrap().unwrap().into()
}

fn socket(link: &NetworkDevice) -> PacketSocket {
    let options = PacketSocketOptions {
        interface: link.index,
        protocol: ETHER_TYPE,
        group: Some(GROUP),
        payload_max: link.mtu as usize,
        ring_bytes: 1 << 20,
    };
    PacketSocket::open(&options).unwrap()
}

/// Waits until frames go from one end to the other: the kernel starts that some time after both are up.
fn settle(links: &[NetworkDevice; 2]) {
    let open = |link: &NetworkDevice| {
        let (protocol, payload_max, ring_bytes) = (EXPERIMENTAL, 100, 1 << 16);
        let (interface, group) = (link.index, None);
        let options = PacketSocketOptions { interface, protocol, group, payload_max, ring_bytes };
        PacketSocket::open(&options).unwrap()
    };
    let ends = [open(&links[0]), open(&links[1])];
    let poller = Poller::new().unwrap();
    let mut events = Events::with_capacity(1);
    for (from, to) in [(0, 1), (1, 0)] {
        poller.add(&ends[to], 0, Interest::Readable).unwrap();
        let (interface, mac) = (links[from].index, links[to].mac.unwrap());
        while ends[to].peek().is_none() {
            let mut batch = SendBatch::with_capacity(1, 1);
            let mut builder = batch.start();
            builder.push_slice(b"?");
            builder.end_frame(&LinkAddress { interface, protocol: EXPERIMENTAL, mac });
            // What is lost now is sent again.
            let _ = builder.send(ends[from].as_fd());
            poller.wait(&mut events, Some(Duration::from_millis(20))).unwrap();
        }
        poller.remove(&ends[to]).unwrap();
    }
}

const ON_DEMAND: OnDemandSettings =
    OnDemandSettings { mtu: 1500, idle_timeout: Duration::from_secs(600) };

fn station(mac: [u8; 6]) -> NewStation {
    NewStation { port: PORT, mac }
}

fn peer(mac: [u8; 6]) -> PeerKey {
    PeerKey::Ethernet(station(mac).peer())
}

fn options(persistency: Persistency, mtu: u32) -> FaceOptions {
    FaceOptions::datagram(properties(Scope::NonLocal), persistency, mtu as usize)
}

/// A worker with the device of `link`, on which it makes faces on demand.
fn worker(link: &NetworkDevice) -> Worker {
    let mut worker = Worker::new();
    let port = PortOptions {
        name: link.name.as_str().into(),
        socket: Some(port_socket(link)),
        is_up: true,
        accepts: true,
        has_others: false,
        on_demand: ON_DEMAND,
    };
    worker.faces.transport_mut::<Ports>().add(PORT, port).unwrap();
    worker.accept_unknown_peers = Some(options(Persistency::OnDemand, link.mtu));
    worker
}

/// A worker for each end of a link, and the hardware addresses.
struct Ends {
    near: Worker,
    far: Worker,
    links: [NetworkDevice; 2],
}

impl Ends {
    fn new(mtu: u32) -> Self {
        ip(&format!("link add near mtu {mtu} type veth peer name far mtu {mtu}"));
        ip("link set near up");
        ip("link set far up");
        let links = [link("near"), link("far")];
        settle(&links);
        Self { near: worker(&links[0]), far: worker(&links[1]), links }
    }

    fn mac(&self, end: usize) -> [u8; 6] {
        self.links[end].mac.unwrap()
    }

    /// A face of `near` for a station or group.
    fn add(&mut self, mac: [u8; 6], persistency: Persistency) -> (FaceIndex, Arc<FaceCounters>) {
        let options = options(persistency, self.links[0].mtu);
        self.near.open(NewStation { port: PORT, mac }, &options)
    }

    /// Sends by `near` and gives what `far` receives: from which face, and the packet.
    fn pass(&mut self, face: FaceIndex, wire: &[u8]) -> (FaceIndex, Vec<u8>) {
        self.near.send(face, wire);
        self.near.flush();
        let (from, received, _) = self.far.receive();
        (from, received)
    }

    /// The other way.
    fn answer(&mut self, face: FaceIndex, wire: &[u8]) -> (FaceIndex, Vec<u8>) {
        self.far.send(face, wire);
        self.far.flush();
        let (from, received, _) = self.near.receive();
        (from, received)
    }
}

fn change(worker: &mut Worker) -> FaceEvent {
    worker.faces.poll_event().unwrap()
}

#[test]
fn stations_and_the_group_exchange_packets() {
    in_namespace("inner_exchange");
}

#[test]
#[ignore = "run by the test above, in a namespace"]
fn inner_exchange() {
    let mut ends = Ends::new(1500);
    let (far_mac, near_mac) = (ends.mac(1), ends.mac(0));
    let (face, counters) = ends.add(far_mac, Persistency::Persistent);
    let again = ends.near.next_index();
    let twice = options(Persistency::Persistent, 1500);
    let now = ends.near.now;
    assert!(ends.near.faces.open(now, again, station(far_mac), &twice).is_err());
    assert_eq!(ends.near.faces.face_of(peer(far_mac)), Some(face));
    // One frame, whole and in pieces.
    let mut there = None;
    for length in [20, 60, 1500, 1501, 8800] {
        let interest = tlv(5, length, 1);
        let (from, received) = ends.pass(face, &interest);
        assert_eq!(received, interest);
        assert_eq!(*there.get_or_insert(from), from, "one face for one station");
        let data = tlv(6, length, 2);
        assert_eq!(ends.answer(from, &data), (face, data));
    }
    assert_eq!(ends.far.unknown_peers, [peer(near_mac)]);
    assert!(counters.out_frames.value() > 8, "the longest have become pieces");

    // A group: each host with a face of it receives the frame, and answers to all.
    let (group, _) = ends.add(GROUP, Persistency::Permanent);
    assert_eq!(ends.near.faces.face_of(peer(GROUP)), Some(group));
    let (index, _) = ends.far.open(station(GROUP), &options(Persistency::Permanent, 1500));
    for length in [20, 4000] {
        let interest = tlv(5, length, 3);
        assert_eq!(ends.pass(group, &interest), (index, interest));
        let data = tlv(6, length, 4);
        assert_eq!(ends.answer(index, &data), (group, data));
    }
    // A destroyed face leaves no trace.
    assert!(ends.near.faces.remove(face, &ends.near.pool));
    assert_eq!(ends.near.faces.face_of(peer(far_mac)), None);
    ends.near.finish();
    ends.far.finish();
}

#[test]
fn jumbo_frames_are_not_fragmented() {
    in_namespace("inner_jumbo");
}

#[test]
#[ignore = "run by the test above, in a namespace"]
fn inner_jumbo() {
    let mut ends = Ends::new(9000);
    let (face, counters) = ends.add(ends.mac(1), Persistency::Persistent);
    let data = tlv(6, 8800, 1);
    for _ in 0..300 {
        assert_eq!(ends.pass(face, &data).1, data);
    }
    assert_eq!(counters.out_frames.value(), 300);
    ends.near.finish();
    ends.far.finish();
}

#[test]
fn malformed_frames_are_dropped() {
    in_namespace("inner_hostile");
}

#[test]
#[ignore = "run by the test above, in a namespace"]
fn inner_hostile() {
    let mut ends = Ends::new(1500);
    let (near_mac, far_mac) = (ends.mac(0), ends.mac(1));
    let (face, counters) = ends.add(far_mac, Persistency::Persistent);
    let sender = socket(&ends.links[1]);
    let raw = |payload: &[u8]| {
        let mut batch = SendBatch::with_capacity(1, 1);
        let mut builder = batch.start();
        builder.push_slice(payload);
        let interface = ends.links[1].index;
        builder.end_frame(&LinkAddress { interface, protocol: ETHER_TYPE, mac: near_mac });
        assert_eq!(builder.send(sender.as_fd()).unwrap(), 1);
    };
    let interest = tlv(5, 20, 1);
    let padded = [&interest[..], &[0; 26]].concat();
    let longer = [&interest[..], &tlv(5, 30, 2)].concat();
    let cut = &tlv(5, 100, 3)[..60];
    let other = tlv(7, 40, 4);
    for payload in [&[0; 46][..], cut, &[0xff; 60], &other, &[0x64, 44], &padded, &longer] {
        raw(payload);
    }
    for _ in 0..2 {
        assert_eq!(ends.near.receive().1, interest, "bytes after it are ignored");
    }
    raw(&tlv(5, 50, 9));
    assert_eq!(ends.near.receive().0, face);
    let dropped = |reason| counters.dropped(reason).value();
    assert_eq!(dropped(LinkDropReason::Malformed), 4);
    assert_eq!(dropped(LinkDropReason::UnknownType), 1);
    ends.near.finish();
    ends.far.finish();
}

#[test]
fn faces_follow_their_device() {
    in_namespace("inner_device");
}

#[test]
#[ignore = "run by the test above, in a namespace"]
fn inner_device() {
    let mut ends = Ends::new(1500);
    let far_mac = ends.mac(1);
    let (permanent, counters) = ends.add(far_mac, Persistency::Permanent);
    let (persistent, _) = ends.add([2, 0, 0, 0, 0, 9], Persistency::Persistent);
    let (group, _) = ends.add(GROUP, Persistency::Permanent);
    let interest = tlv(5, 20, 1);
    let (there, _) = ends.pass(permanent, &interest);

    // Without a link, all of them wait.
    ends.near.faces.transport_mut::<Ports>().set_state(PORT, false);
    ends.near.faces.transport_mut::<Ports>().set_state(PORT, false);
    let faces = [permanent, persistent, group];
    for face in faces {
        let down = FaceChange::Down(CloseReason::NoLink);
        assert_eq!(change(&mut ends.near), FaceEvent { face, change: down });
    }
    assert_eq!(ends.near.faces.poll_event(), None);
    ends.near.send(permanent, &interest);
    assert_eq!(counters.dropped(LinkDropReason::Down).value(), 1);
    ends.near.faces.transport_mut::<Ports>().set_state(PORT, true);
    for face in faces {
        assert_eq!(change(&mut ends.near), FaceEvent { face, change: FaceChange::Up });
    }
    assert_eq!(ends.pass(permanent, &interest), (there, interest.clone()));

    // What a reliable link has to send again is over with while there is no link.
    let reliable =
        ndn_face::LinkOptions { reliability: true, ..options(Persistency::Permanent, 1500).link };
    let reliable = FaceOptions { link: reliable, ..options(Persistency::Permanent, 1500) };
    ends.near.faces.update(permanent, &reliable, &ends.near.pool);
    ends.near.send(permanent, &interest);
    ends.near.faces.transport_mut::<Ports>().set_state(PORT, false);
    ends.near.advance(Duration::from_secs(60));
    ends.near.faces.transport_mut::<Ports>().set_state(PORT, true);
    while ends.near.faces.poll_event().is_some() {}
    let plain = options(Persistency::Permanent, 1500);
    ends.near.faces.update(permanent, &plain, &ends.near.pool);

    // Without a device, the permanent one waits.
    ends.near.send(permanent, &interest);
    ip("link del near");
    ends.near.poll(Duration::from_millis(1));
    let (faces, pool) = (&mut ends.near.faces, &ends.near.pool);
    faces.transport_mut::<Ports>().set_socket(PORT, None, pool).unwrap();
    for face in [persistent, group] {
        let closed = FaceChange::Closed(CloseReason::InterfaceGone);
        assert_eq!(change(&mut ends.near), FaceEvent { face, change: closed });
    }
    let down = FaceChange::Down(CloseReason::NoLink);
    assert_eq!(change(&mut ends.near), FaceEvent { face: permanent, change: down });
    ends.near.send(permanent, &interest);
    ends.near.flush();
    ends.far.finish();

    // It is there again, with another number and another address at the other end.
    ip("link add near type veth peer name far");
    ip("link set far address 02:00:00:00:00:09");
    ip("link set near up");
    ip("link set far up");
    ends.links = [link("near"), link("far")];
    settle(&ends.links);
    ends.far = worker(&ends.links[1]);
    let (faces, pool) = (&mut ends.near.faces, &ends.near.pool);
    faces
        .transport_mut::<Ports>()
        .set_socket(PORT, Some(port_socket(&ends.links[0])), pool)
        .unwrap();
    faces.transport_mut::<Ports>().set_state(PORT, true);
    assert_eq!(change(&mut ends.near), FaceEvent { face: permanent, change: FaceChange::Up });
    let near_mac = ends.mac(0);
    let (index, _) = ends.far.open(station(near_mac), &options(Persistency::Persistent, 1500));
    // The station that `permanent` is for is gone; who speaks now gets another face.
    let (from, received) = ends.answer(index, &interest);
    assert_eq!(received, interest);
    assert_ne!(from, permanent);
    assert_eq!(ends.pass(from, &interest), (index, interest));

    let (faces, pool) = (&mut ends.near.faces, &ends.near.pool);
    faces.transport_mut::<Ports>().remove(PORT, pool);
    faces.transport_mut::<Ports>().remove(PORT, pool);
    assert!(!faces.contains(permanent) && !faces.contains(from));
    ends.near.finish();
    ends.far.finish();
}

#[test]
fn changed_port_purpose_keeps_stations() {
    let mut worker = Worker::new();
    let port = PortOptions {
        name: "eth7".into(),
        socket: None,
        is_up: true,
        accepts: false,
        has_others: false,
        on_demand: ON_DEMAND,
    };
    worker.faces.transport_mut::<Ports>().add(PORT, port).unwrap();
    let mac = [2, 0, 0, 0, 0, 9];
    let mut add = |mac| worker.open(station(mac), &options(Persistency::Permanent, 1500)).0;
    let (face, group) = (add(mac), add(GROUP));
    worker.faces.transport_mut::<Ports>().set_purpose(PORT, true, false, &worker.pool);
    assert_eq!(worker.faces.face_of(peer(GROUP)), Some(group), "it is still this group");
    worker.faces.transport_mut::<Ports>().set_purpose(PORT, true, true, &worker.pool);
    assert_eq!(worker.faces.face_of(peer(GROUP)), None);
    assert_eq!(worker.faces.face_of(peer(mac)), Some(face));
    let elsewhere = [1, 0, 0x5e, 0, 0x17, 0xab];
    let (other, _) = worker.open(station(elsewhere), &options(Persistency::Permanent, 1500));
    assert_eq!(worker.faces.face_of(peer(elsewhere)), Some(other));
}
