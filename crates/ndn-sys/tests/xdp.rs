//! AF_XDP on a pair of virtual devices, in a network namespace of their own.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::os::fd::AsFd;
use std::process::Command;
use std::time::Duration;

use ndn_sys::device::queues;
use ndn_sys::netlink::{NetworkDevice, network_devices};
use ndn_sys::packet::{Delivery, LinkAddress, PacketSocket, PacketSocketOptions};
use ndn_sys::poll::{Events, Interest, Poller};
use ndn_sys::udp::SendBatch;
use ndn_sys::xdp::{XdpMode, XdpOptions, XdpPort, XdpRefusal, XdpStep, may_use};

const PROTOCOL: u16 = 0x8624;
/// An EtherType for experiments.
const EXPERIMENTAL: u16 = 0x88b5;
const GROUP: [u8; 6] = [1, 0, 0x5e, 0, 0x17, 0xaa];
/// First byte of a frame that may be lost.
const PROBE: [u8; 1] = *b"?";
const TIMEOUT: Duration = Duration::from_secs(30);

/// Runs a test that is ignored otherwise, in a namespace, if the kernel allows it. XDP programs need
/// rights outside of any user namespace.
fn in_namespace(test: &str) {
    if let Err(error) = may_use() {
        return eprintln!("*** SKIPPED: {error} ***");
    }
    let program = std::env::current_exe().unwrap();
    let mut probe = Command::new("unshare");
    probe.args(["-n", "ip", "link", "add", "probe0", "type", "veth"]);
    match probe.output() {
        Ok(output) if output.status.success() => {}
        other => return eprintln!("*** SKIPPED: no network namespaces: {other:?} ***"),
    }
    let mut command = Command::new("unshare");
    command.arg("-n").arg(program).args(["--ignored", "--exact", test, "--nocapture"]);
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    eprint!("{errors}");
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {output:?}");
}

fn link(name: &str) -> NetworkDevice {
    network_devices().unwrap().into_iter().find(|link| link.name == name).unwrap()
}

fn pair(options: &str) -> [NetworkDevice; 2] {
    ip(&format!("link add near {options} type veth peer name far {options}"));
    ip("link set near up");
    ip("link set far up");
    while ["near", "far"].iter().any(|name| !link(name).state.is_running()) {
        std::thread::yield_now();
    }
    [link("near"), link("far")]
}

fn options(link: &NetworkDevice, mode: Option<XdpMode>) -> XdpOptions {
    XdpOptions {
        interface: link.index,
        protocol: PROTOCOL,
        mac: link.mac.unwrap(),
        group: Some(GROUP),
        payload_max: link.mtu as usize,
        queue_count: queues(&link.name).unwrap_or(link.queues).0,
        ring_bytes: 1 << 20,
        mode,
    }
}

/// Opens a port, once the kernel has given its queues free, which may take as long as it likes.
fn open(options: &XdpOptions) -> XdpPort {
    for _ in 0..300 {
        match XdpPort::open(options) {
            Err(error) if error.is_busy() => {}
            opened => return opened.unwrap(),
        }
    }
    panic!("the queues stay busy");
}

fn packet_socket(link: &NetworkDevice, protocol: u16, group: Option<[u8; 6]>) -> PacketSocket {
    let payload_max = link.mtu as usize;
    let ring_bytes = 1 << 18;
    let interface = link.index;
    PacketSocket::open(&PacketSocketOptions { interface, protocol, group, payload_max, ring_bytes })
        .unwrap()
}

fn send_as(socket: &PacketSocket, to: LinkAddress, payload: &[u8]) {
    let mut batch = SendBatch::with_capacity(1, 1);
    let mut builder = batch.start();
    builder.push_slice(payload);
    builder.end_frame(&to);
    let _ = builder.send(socket.as_fd());
}

/// Waits until one of the descriptors is readable; false after the given time.
fn wait<'d>(
    descriptors: impl Iterator<Item = std::os::fd::BorrowedFd<'d>>,
    time: Duration,
) -> bool {
    let poller = Poller::new().unwrap();
    for descriptor in descriptors {
        poller.add(descriptor, 1, Interest::Readable).unwrap();
    }
    let mut events = Events::with_capacity(1);
    poller.wait(&mut events, Some(time)).unwrap();
    !events.is_empty()
}

type Taken = (Vec<u8>, Option<[u8; 6]>, Delivery, u16);

/// The next frame, but for those of `settle`.
fn receive(port: &mut XdpPort) -> Taken {
    loop {
        while !port.prepare() {
            assert!(wait(port.descriptors(), TIMEOUT), "no frame came");
        }
        let frame = port.peek().unwrap();
        let taken = (frame.payload.to_vec(), frame.source, frame.delivery, frame.vlan);
        port.release();
        if taken.0.first() != Some(&PROBE[0]) {
            return taken;
        }
    }
}

/// Nothing has come but what `settle` has sent.
fn receive_nothing(port: &mut XdpPort) {
    while port.prepare() {
        assert_eq!(port.peek().unwrap().payload[..1], PROBE);
        port.release();
    }
}

/// Sends all, however often the kernel has to be asked.
fn send(port: &mut XdpPort, to: [u8; 6], parts: &[&[u8]]) {
    while let Err(refusal) = port.send(to, parts) {
        assert_eq!(refusal, XdpRefusal::Full);
        port.transmit().unwrap();
    }
    while !port.transmit().unwrap().is_done {}
}

/// Sends until something comes: a link that has just come up may lose some.
fn settle(from: &mut XdpPort, to: &mut XdpPort, mac: [u8; 6]) {
    while !to.prepare() {
        send(from, mac, &[&PROBE]);
        wait(to.descriptors(), Duration::from_millis(20));
    }
}

fn modes(test: impl Fn(XdpMode)) {
    for mode in [XdpMode::Native, XdpMode::Generic] {
        test(mode);
        ip("link del near");
    }
}

#[test]
fn frames_are_exchanged_in_both_modes() {
    in_namespace("inner_exchange");
}

#[test]
#[ignore = "run by the test above, in a namespace"]
fn inner_exchange() {
    modes(|mode| {
        let [near_link, far_link] = pair("mtu 1500");
        let (near_mac, far_mac) = (near_link.mac.unwrap(), far_link.mac.unwrap());
        let mut near = open(&options(&near_link, Some(mode)));
        let mut far = open(&options(&far_link, Some(mode)));
        let setup = near.setup();
        eprintln!("{setup:?}");
        assert_eq!((setup.mode, setup.payload_max), (mode, 1500));
        settle(&mut near, &mut far, far_mac);
        settle(&mut far, &mut near, near_mac);
        // To a station, in pieces, padded to 46 bytes.
        send(&mut near, far_mac, &[b"ab", b"", b"cde"]);
        let (payload, source, delivery, vlan) = receive(&mut far);
        assert_eq!((payload.len(), &payload[..6]), (46, &b"abcde\0"[..]));
        assert_eq!((source, delivery, vlan), (Some(near_mac), Delivery::Host, 0));
        // To the group and to others.
        for (to, expected) in [(GROUP, Delivery::Group), ([0xff; 6], Delivery::Other)] {
            send(&mut near, to, &[&[7; 1500]]);
            let (payload, source, delivery, _) = receive(&mut far);
            assert_eq!((payload, source, delivery), (vec![7; 1500], Some(near_mac), expected));
        }
        assert_eq!(near.send(far_mac, &[&[0; 1501]]), Err(XdpRefusal::TooLong));
        // What is sent is not received.
        receive_nothing(&mut near);
        // Many, in order; nothing is lost that is taken in time.
        for number in 0..3000_u32 {
            let bytes = number.to_be_bytes();
            send(&mut near, far_mac, &[&bytes]);
            assert_eq!(receive(&mut far).0[..4], bytes);
        }
        assert_eq!(far.take_lost(), 0);
        // More than there is room for: what is lost is counted.
        let mut lost = 0;
        while lost == 0 {
            send(&mut near, far_mac, &[b"more"]);
            lost = far.take_lost();
        }
        assert!(far.prepare() && far.peek().unwrap().follows_loss);
        let mut received = 0;
        while far.prepare() {
            far.release();
            received += 1;
        }
        assert!(received > 400, "about 512 fit: {received}");
    });
}

#[test]
fn other_frames_go_to_the_kernel() {
    in_namespace("inner_others");
}

#[test]
#[ignore = "run by the test above, in a namespace"]
fn inner_others() {
    modes(|mode| {
        let [near_link, far_link] = pair("mtu 1500");
        let far_mac = far_link.mac.unwrap();
        let mut near = open(&options(&near_link, Some(mode)));
        let mut far = open(&options(&far_link, Some(mode)));
        settle(&mut near, &mut far, far_mac);
        let mut kernels = [EXPERIMENTAL, PROTOCOL].map(|one| packet_socket(&far_link, one, None));
        let sender = packet_socket(&near_link, EXPERIMENTAL, None);
        let to = |protocol| LinkAddress { interface: near_link.index, protocol, mac: far_mac };
        // A frame of a VLAN: its tag is the first thing that a socket may send.
        let tagged =
            |vlan: u16| [&vlan.to_be_bytes()[..], &PROTOCOL.to_be_bytes(), &[9; 60]].concat();
        send_as(&sender, to(0x8100), &tagged(7));
        send_as(&sender, to(EXPERIMENTAL), b"other");
        assert!(wait(std::iter::once(kernels[0].as_fd()), TIMEOUT), "it goes to the kernel");
        assert_eq!(kernels[0].peek().unwrap().payload, b"other");
        kernels[0].release();
        // A VLAN has a device of its own.
        receive_nothing(&mut far);
        send_as(&sender, to(0x8100), &tagged(0xe000));
        let (payload, _, delivery, vlan) = receive(&mut far);
        assert_eq!((&payload[..], delivery, vlan), (&[9; 60][..], Delivery::Host, 0));
        // Ours goes to the kernel again when the port is gone.
        while kernels[1].peek().is_some() {
            // That of the VLAN.
            assert_eq!(kernels[1].peek().unwrap().vlan, 7);
            kernels[1].release();
        }
        drop(far);
        while kernels[1].peek().is_none_or(|frame| frame.payload != b"ours") {
            kernels[1].release();
            send_as(&sender, to(PROTOCOL), b"ours");
            wait(std::iter::once(kernels[1].as_fd()), Duration::from_millis(20));
        }
    });
}

#[test]
fn long_frames_come_in_several_pieces() {
    in_namespace("inner_jumbo");
}

#[test]
#[ignore = "run by the test above, in a namespace"]
fn inner_jumbo() {
    modes(|mode| {
        let [near_link, far_link] = pair("mtu 9000");
        let (near_mac, far_mac) = (near_link.mac.unwrap(), far_link.mac.unwrap());
        let opened = [&near_link, &far_link].map(|link| XdpPort::open(&options(link, Some(mode))));
        let [Ok(mut near), Ok(mut far)] = opened else {
            return eprintln!("*** SKIPPED: this kernel cannot: {opened:?} ***");
        };
        eprintln!("{:?}", near.setup());
        settle(&mut near, &mut far, far_mac);
        let payload_max = near.setup().payload_max;
        assert_eq!(payload_max, if near.setup().multi_buffer { 9000 } else { 3822 });
        let bytes: Vec<u8> = (0..payload_max).map(|at| u8::try_from(at % 251).unwrap()).collect();
        for length in [46, 3000, 3822, 3823, 4082, 4083, 8178, 8179, 9000] {
            let Some(payload) = bytes.get(..length) else { continue };
            for _ in 0..300 {
                send(&mut near, far_mac, &[&payload[..20], &payload[20..]]);
                let (received, source, ..) = receive(&mut far);
                assert!(received == payload && source == Some(near_mac), "{length}");
            }
        }
        let longer = vec![0; payload_max + 1];
        assert_eq!(near.send(far_mac, &[&longer]), Err(XdpRefusal::TooLong));
    });
}

#[test]
fn frames_of_all_device_queues_are_received() {
    in_namespace("inner_queues");
}

#[test]
#[ignore = "run by the test above, in a namespace"]
fn inner_queues() {
    modes(|mode| {
        let [near_link, far_link] = pair("numrxqueues 4 numtxqueues 4");
        let far_mac = far_link.mac.unwrap();
        let mut far = open(&options(&far_link, Some(mode)));
        eprintln!("{:?}", far.setup());
        assert_eq!(far.setup().queue_count, 4);
        // Some that there are not do not matter.
        let wide = XdpOptions { queue_count: 9, ..options(&near_link, Some(mode)) };
        assert_eq!(open(&wide).setup().queue_count, 4);
        // Each sending queue of one end leads to a receiving one of the other; processors have theirs.
        let mut near = open(&options(&near_link, Some(mode)));
        settle(&mut near, &mut far, far_mac);
        let sender = packet_socket(&near_link, EXPERIMENTAL, None);
        let to = LinkAddress { interface: near_link.index, protocol: PROTOCOL, mac: far_mac };
        for number in 0..200_u32 {
            send_as(&sender, to, &number.to_be_bytes());
            send(&mut near, far_mac, &[&number.to_be_bytes()]);
            let mut arrived =
                [receive(&mut far).0, receive(&mut far).0].map(|one| one[..4].to_vec());
            arrived.sort_unstable();
            assert_eq!(arrived, [number.to_be_bytes(); 2]);
        }
    });
}

#[test]
fn device_queues_are_divided_between_threads() {
    in_namespace("inner_parts");
}

#[test]
#[ignore = "run by the test above, in a namespace"]
fn inner_parts() {
    // In generic mode, the kernel of a veth takes all frames for those of its first queue.
    let [near_link, far_link] = pair("numrxqueues 4 numtxqueues 4");
    let far_mac = far_link.mac.unwrap();
    let options = [&near_link, &far_link].map(|link| options(link, Some(XdpMode::Native)));
    let with_retries = |options: &XdpOptions, count| loop {
        match XdpPort::open_parts(options, count) {
            Err(error) if error.is_busy() => {}
            opened => return opened.unwrap(),
        }
    };
    // As many as there are queues, although more were asked for.
    let mut near = with_retries(&XdpOptions { queue_count: 9, ..options[0] }, 6);
    assert_eq!(near.len(), 4);
    let mut far = with_retries(&options[1], 2);
    assert_eq!(far.iter().map(|part| part.setup().queue_count).collect::<Vec<_>>(), [2, 2]);
    // What one end sends by a queue, the other receives by that queue.
    for (queue, from) in near.iter_mut().enumerate() {
        settle(from, &mut far[queue % 2], far_mac);
    }
    for number in 0..2000_u32 {
        let queue = number as usize % 4;
        send(&mut near[queue], far_mac, &[&number.to_be_bytes()]);
        assert_eq!(receive(&mut far[queue % 2]).0[..4], number.to_be_bytes());
    }
    far.iter_mut().for_each(receive_nothing);
    // Both threads send, by queues of their own.
    let near_mac = near_link.mac.unwrap();
    for (queue, from) in far.iter_mut().enumerate() {
        settle(from, &mut near[queue], near_mac);
        send(from, near_mac, &[b"back"]);
        assert_eq!(receive(&mut near[queue]).0[..4], *b"back");
    }
    // Without the second one, its queues are the kernel's, and the first goes on.
    let mut kernel = packet_socket(&far_link, PROTOCOL, None);
    drop(far.pop());
    assert!(link("far").xdp_program.is_some());
    while kernel.peek().is_none() {
        send(&mut near[1], far_mac, &[b"kernel"]);
        wait(std::iter::once(kernel.as_fd()), Duration::from_millis(20));
    }
    assert_eq!(kernel.peek().unwrap().payload[..6], *b"kernel");
    kernel.release();
    send(&mut near[2], far_mac, &[b"first"]);
    assert_eq!(receive(&mut far[0]).0[..5], *b"first");
    drop(far);
    assert!(link("far").xdp_program.is_none());
}

#[test]
fn peer_sends_by_the_queues_that_this_end_receives_from() {
    in_namespace("inner_fewer");
}

#[test]
#[ignore = "run by the test above, in a namespace"]
fn inner_fewer() {
    ip(
        "link add near numrxqueues 1 numtxqueues 1 type veth peer name far numrxqueues 2 numtxqueues 2",
    );
    let refused = XdpPort::open(&options(&link("near"), Some(XdpMode::Native))).unwrap_err();
    let reported = refused.to_string();
    assert!(refused.step == XdpStep::Attach && reported.contains("more queues"), "{reported}");
    // In generic mode the kernel does not mind.
    assert!(XdpPort::open(&options(&link("near"), None)).is_ok());
}

#[test]
fn attached_device_is_busy_and_can_be_recreated() {
    in_namespace("inner_device");
}

#[test]
#[ignore = "run by the test above, in a namespace"]
fn inner_device() {
    modes(|mode| {
        let [near_link, far_link] = pair("mtu 1500");
        let mut near = open(&options(&near_link, Some(mode)));
        assert!(link("near").xdp_program.is_some() && link("far").xdp_program.is_none());
        let again = XdpPort::open(&options(&near_link, None)).unwrap_err();
        assert!(again.is_busy() && again.step == XdpStep::Attach, "{again}");
        let mut far = open(&options(&far_link, None));
        settle(&mut near, &mut far, far_link.mac.unwrap());
        // Down and up again: the same sockets go on.
        ip("link set far down");
        assert!(near.send(far_link.mac.unwrap(), &[b"lost"]).is_ok());
        let _ = near.transmit();
        ip("link set far address 02:00:00:00:00:77");
        ip("link set far up");
        while !link("near").state.is_running() {
            std::thread::yield_now();
        }
        far.set_mac([2, 0, 0, 0, 0, 0x77]);
        settle(&mut near, &mut far, [2, 0, 0, 0, 0, 0x77]);
        send(&mut near, [2, 0, 0, 0, 0, 0x77], &[b"again"]);
        assert_eq!(receive(&mut far).2, Delivery::Host);
        // Gone and made anew.
        ip("link del near");
        assert!(near.send([2, 0, 0, 0, 0, 0x77], &[b"lost"]).is_ok());
        assert!(near.transmit().is_err());
        let [near_link, far_link] = pair("mtu 1500");
        drop(near);
        let mut near = open(&options(&near_link, Some(mode)));
        let mut far = open(&options(&far_link, Some(mode)));
        settle(&mut near, &mut far, far_link.mac.unwrap());
        // Closed and opened at once.
        for _ in 0..5 {
            drop(far);
            far = open(&options(&far_link, Some(mode)));
        }
        settle(&mut near, &mut far, far_link.mac.unwrap());
    });
}
