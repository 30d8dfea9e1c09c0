//! Ports on DPDK's virtual devices. `make dpdk` runs this; it takes root for those that are interfaces of the
//! kernel, and says so where it skips them.
#![cfg(feature = "dpdk")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it skips"
)]

use std::time::{Duration, Instant};

use ndn_dpdk::{DpdkError, DpdkOptions, DpdkPort, EnvironmentError, start};
use ndn_sys::packet::{
    Delivery, FramePort, FrameRefusal, LinkAddress, PacketSocket, PacketSocketOptions,
};
use ndn_sys::udp::SendBatch;

const NDN: u16 = 0x8624;
const GROUP: [u8; 6] = [1, 0, 0x5e, 0, 0x17, 0xaa];
const DEADLINE: Duration = Duration::from_secs(60);

fn options(name: &str) -> DpdkOptions {
    DpdkOptions {
        name: name.to_owned(),
        interface: 1 << 31,
        protocol: NDN,
        group: Some(GROUP),
        mtu: 1500,
        descriptors: 256,
        buffers: 2048,
    }
}

#[expect(clippy::disallowed_methods, reason = "a deadline of a test")]
fn wait_for<T>(mut poll: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(begin.elapsed() < DEADLINE, "nothing came in time");
        std::thread::yield_now();
    }
}

/// Sends one frame, however long the driver takes to have room.
fn send(port: &mut DpdkPort, to: [u8; 6], payload: &[&[u8]]) {
    wait_for(|| match port.send(to, payload) {
        Ok(()) => Some(()),
        Err(FrameRefusal::Full) => {
            port.transmit().unwrap();
            None
        }
        Err(refusal @ FrameRefusal::TooLong) => panic!("{refusal:?}"),
    });
    wait_for(|| port.transmit().unwrap().is_done.then_some(()));
}

/// The next frame that is for anybody.
fn receive(port: &mut DpdkPort) -> (Vec<u8>, Option<[u8; 6]>, Delivery) {
    wait_for(|| {
        if !port.prepare() {
            return None;
        }
        let frame = port.peek().unwrap();
        let found = frame.source.map(|_| (frame.payload.to_vec(), frame.source, frame.delivery));
        port.release();
        found
    })
}

/// The queues of a port could take all of them.
fn too_few_buffers_are_refused() {
    let few = DpdkOptions { buffers: 575, ..options("net_ring0") };
    let refused = DpdkPort::open(&few).unwrap_err().to_string();
    assert!(refused.contains("with so few buffers"), "{refused}");
    drop(DpdkPort::open(&DpdkOptions { buffers: 576, ..few }).unwrap());
}

/// Links are asked from any thread, and outlive the port.
fn links_are_polled_while_others_use_the_port() {
    let mut port = DpdkPort::open(&options("net_ring0")).unwrap();
    let link = port.link();
    let asked = std::thread::spawn(move || (0..10_000).filter(|_| link.is_up()).count());
    let lost = std::iter::repeat_with(|| port.take_lost()).take(10_000).sum::<u64>();
    assert_eq!((asked.join().unwrap(), lost), (10_000, 0));
    let link = port.link();
    drop(port);
    assert!(!link.is_up());
}

/// A port that takes less than comes.
fn frames_that_are_too_long_are_dropped() {
    let mut port = DpdkPort::open(&options("net_ring0")).unwrap();
    let own = port.mac();
    for length in [1500, 104, 105, 1500] {
        send(&mut port, own, &[&[7; 1500][..length]]);
    }
    drop(port);
    // They are still in the ring.
    let mut port = DpdkPort::open(&DpdkOptions { mtu: 100, ..options("net_ring0") }).unwrap();
    assert_eq!(port.mtu(), 100);
    let (received, _, _) = receive(&mut port);
    assert_eq!(received, [7; 104], "there may be a tag");
    assert!(!port.prepare() && port.peek().is_none());
    assert_eq!((port.take_lost(), port.take_lost()), (3, 0));
    send(&mut port, own, &[b"next"]);
    assert_eq!(receive(&mut port).0[..4], *b"next");
}

/// Sent frames are received again.
fn a_ring_brings_back_what_was_sent() {
    let mut port = DpdkPort::open(&options("net_ring0")).unwrap();
    assert!(port.link().is_up(), "{port:?}");
    assert_eq!((port.mtu(), port.driver().as_str()), (1500, "net_ring"));
    let own = port.mac();
    for length in [1_usize, 45, 46, 47, 1499, 1500] {
        let payload: Vec<u8> = (0..length).map(|at| at.to_le_bytes()[0]).collect();
        let (front, back) = payload.split_at(length / 2);
        send(&mut port, own, &[front, back]);
        let (received, source, delivery) = receive(&mut port);
        assert_eq!(received[..length], payload, "of {length} bytes");
        assert!(
            received[length..].iter().all(|&byte| byte == 0) && received.len() == length.max(46)
        );
        assert_eq!((source, delivery), (Some(own), Delivery::Host));
    }
    send(&mut port, GROUP, &[b"to all"]);
    assert_eq!(receive(&mut port).2, Delivery::Group);
    send(&mut port, [2; 6], &[b"to another"]);
    assert_eq!(receive(&mut port).2, Delivery::Other);
    assert_eq!(port.send(own, &[&[0; 1501]]), Err(FrameRefusal::TooLong));
    // More than fit the device's memory at once, in bursts: all come, in order.
    let mut next = 0_u32;
    for number in 0..10_000_u32 {
        send(&mut port, own, &[&number.to_be_bytes()]);
        if number % 100 == 99 {
            for _ in 0..100 {
                let (received, _, _) = receive(&mut port);
                assert_eq!(received[..4], next.to_be_bytes());
                next += 1;
            }
        }
    }
    assert!(!port.prepare(), "nothing is left");
    assert_eq!((port.take_lost(), port.take_lost_when_idle()), (0, 0));
}

/// Frames of other types are for nobody, and memory does not run out over them.
fn null_device_brings_frames_without_a_face() {
    let mut port = DpdkPort::open(&options("net_null0")).unwrap();
    for _ in 0..100_000 {
        if port.prepare() {
            // It writes nothing: what was sent by the same memory before may be in it.
            assert_eq!(port.peek().unwrap().delivery, Delivery::Other);
            port.release();
        }
        if port.send([2; 6], &[b"to nobody"]).is_err() {
            port.transmit().unwrap();
        }
    }
    assert!(port.transmit().unwrap().is_done);
}

/// Frames to and from an interface of the kernel.
fn frames_cross(port_name: &str, interface: u32) {
    let mut port = DpdkPort::open(&options(port_name)).unwrap();
    let kernel = PacketSocket::open(&PacketSocketOptions {
        interface,
        protocol: NDN,
        group: Some(GROUP),
        payload_max: 1500,
        ring_bytes: 1 << 20,
    });
    let mut kernel = kernel.unwrap();
    wait_for(|| port.link().is_up().then_some(()));
    for to in [GROUP, [0xff; 6]] {
        send(&mut port, to, &[b"to the ", b"kernel"]);
    }
    let received = wait_for(|| {
        let frame = kernel.peek()?;
        Some((frame.payload[..13].to_vec(), frame.source, frame.delivery))
    });
    assert_eq!(received, (b"to the kernel".to_vec(), Some(port.mac()), Delivery::Group));
    kernel.release();
    let mut batch = SendBatch::with_capacity(1, 2);
    let long = [9_u8; 1500];
    for (to, payload) in [(port.mac(), &long[..]), (GROUP, &b"group"[..])] {
        wait_for(|| {
            let mut builder = batch.start();
            builder.push_slice(payload);
            builder.end_frame(&LinkAddress { interface, protocol: NDN, mac: to });
            builder.send(std::os::fd::AsFd::as_fd(&kernel)).is_ok().then_some(())
        });
        let (received, source, delivery) = receive(&mut port);
        assert_eq!(&received[..payload.len()], payload);
        assert!(source.is_some());
        let expected = if to == GROUP { Delivery::Group } else { Delivery::Host };
        // A tap has no address of its own that the kernel's side would know.
        assert!(delivery == expected || port_name.starts_with("net_af_packet"), "{delivery:?}");
    }
}

fn index_of(name: &str) -> Option<u32> {
    let links = ndn_sys::netlink::network_devices().ok()?;
    links.into_iter().find(|link| link.name == name).map(|link| link.index)
}

fn run(command: &str) -> bool {
    let mut words = command.split(' ');
    let program = words.next().unwrap();
    std::process::Command::new(program).args(words).status().is_ok_and(|status| status.success())
}

/// An interface that goes when the test ends, however it does.
struct Interface(String);

impl Drop for Interface {
    fn drop(&mut self) {
        run(&format!("ip link del {}", self.0));
    }
}

/// DPDK starts once in a process, so there is one test.
#[test]
fn frames_are_sent_and_received_by_virtual_devices() {
    let id = std::process::id() % 100_000;
    let (tap, near, far) = (format!("nwt{id}"), format!("nwv{id}"), format!("nww{id}"));
    let may_tap =
        std::path::Path::new("/dev/net/tun").exists() && ndn_sys::packet::may_open().is_ok();
    let has_veth = may_tap && run(&format!("ip link add {near} type veth peer name {far}"));
    let _veth = has_veth.then(|| Interface(near.clone()));
    if has_veth {
        assert!(run(&format!("ip link set {near} up")) && run(&format!("ip link set {far} up")));
    }
    let mut arguments: Vec<String> =
        ["--no-huge", "--no-shconf", "-m", "128", "--no-pci", "--no-telemetry", "--log-level=4"]
            .map(str::to_owned)
            .to_vec();
    arguments.extend(["--vdev=net_ring0".to_owned(), "--vdev=net_null0".to_owned()]);
    if may_tap {
        arguments.push(format!("--vdev=net_tap0,iface={tap}"));
    }
    if has_veth {
        arguments.push(format!("--vdev=net_af_packet0,iface={near}"));
    }
    let before = ndn_sys::cpu::allowed_cpus().unwrap();
    start(&arguments).unwrap();
    assert_eq!(ndn_sys::cpu::allowed_cpus().unwrap(), before, "it pins nobody");
    start(&arguments).unwrap();
    assert!(matches!(start(&[]), Err(EnvironmentError::Before)));
    let missing: DpdkError = DpdkPort::open(&options("net_nowhere")).unwrap_err();
    assert!(missing.to_string().contains("cannot find it"), "{missing}");
    too_few_buffers_are_refused();
    links_are_polled_while_others_use_the_port();
    frames_that_are_too_long_are_dropped();
    a_ring_brings_back_what_was_sent();
    null_device_brings_frames_without_a_face();
    match index_of(&tap) {
        Some(interface) => {
            assert!(run(&format!("ip link set {tap} up")));
            frames_cross("net_tap0", interface);
        }
        None => eprintln!("SKIPPED: net_tap, which takes root and /dev/net/tun"),
    }
    match index_of(&far).filter(|_| has_veth) {
        Some(interface) => frames_cross("net_af_packet0", interface),
        None => eprintln!("SKIPPED: net_af_packet, which takes root and veth"),
    }
}
