//! UDP by AF_XDP beside the kernel's, on a pair of virtual devices in network namespaces of their own.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use ndn_sys::netlink::{Link, RouteTable, links};
use ndn_sys::packet::{DatagramFault, DatagramHeaders};
use ndn_sys::poll::{Events, Interest, Poller};
use ndn_sys::xdp::{XdpError, XdpMode, XdpOptions, XdpPort, XdpUdp, may_use};

const PATIENCE: Duration = Duration::from_secs(30);
const PORT: u16 = 6363;

/// The far end lies in a namespace of its own, so that what is sent there goes over the link. Whoever is ready
/// with its part says so by a file.
const FAR: &str = r#"
ip link add near type veth peer name far netns $1
ip address add 192.0.2.1/24 dev near
ip address add 2001:db8::1/64 dev near nodad
ip link set lo up
ip link set near up
"#;

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {output:?}");
}

fn link(name: &str) -> Link {
    links().unwrap().into_iter().find(|link| link.name == name).unwrap()
}

fn open(link: &Link, mode: XdpMode) -> XdpPort {
    let options = XdpOptions {
        interface: link.index,
        protocol: 0x8624,
        mac: link.mac.unwrap(),
        group: None,
        payload_max: link.mtu as usize,
        queue_count: 1,
        ring_bytes: 1 << 20,
        mode: Some(mode),
        udp: Some(XdpUdp { port: PORT, is_virtual: true }),
    };
    let mut attempts = (0..300).map(|_| XdpPort::open(&options));
    let opened = attempts.find(|one| !one.as_ref().is_err_and(XdpError::is_busy));
    opened.unwrap().unwrap()
}

/// The next datagram, as sender, address and content.
fn receive(port: &mut XdpPort) -> Result<(SocketAddr, SocketAddr, Vec<u8>), DatagramFault> {
    loop {
        while !port.prepare() {
            let poller = Poller::new().unwrap();
            for descriptor in port.descriptors() {
                poller.add(descriptor, 1, Interest::Readable).unwrap();
            }
            let mut events = Events::with_capacity(1);
            poller.wait(&mut events, Some(PATIENCE)).unwrap();
            assert!(!events.is_empty(), "nothing came");
        }
        let taken = port.peek_datagram().map(|datagram| {
            datagram.map(|one| (one.source, one.destination, one.payload.to_vec()))
        });
        assert!(port.peek().unwrap().source.is_none(), "it is no frame of ours");
        port.release();
        if let Some(taken) = taken {
            return taken;
        }
    }
}

fn receive_nothing(port: &mut XdpPort) {
    assert!(!port.prepare(), "{:?}", port.peek_datagram());
}

/// Threads of their own are in a namespace of their own: a socket stays in the one that it was made in.
fn in_far_namespace<T: Send>(make: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let pid = std::env::var("FAR_PID").unwrap();
            let file = std::fs::File::open(format!("/proc/{pid}/ns/net")).unwrap();
            rustix::thread::move_into_link_name_space(
                std::os::fd::AsFd::as_fd(&file),
                Some(rustix::thread::LinkNameSpaceType::Network),
            )
            .unwrap();
            make()
        });
        thread.join().unwrap()
    })
}

fn socket(local: &str) -> UdpSocket {
    let socket = UdpSocket::bind(local).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn received(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = [0; 9000];
    let (length, from) = socket.recv_from(&mut buffer).unwrap();
    (buffer[..length].to_vec(), from)
}

#[test]
fn datagrams_are_taken_and_others_left_to_the_kernel() {
    if let Err(error) = may_use() {
        return eprintln!("*** SKIPPED: {error} ***");
    }
    // Asked beforehand: what the test below says on its own account is no reason to skip it.
    let probe = Command::new("unshare").args(["-n", "true"]).output();
    if !probe.as_ref().is_ok_and(|output| output.status.success()) {
        return eprintln!("*** SKIPPED: no network namespaces: {probe:?} ***");
    }
    let program = std::env::current_exe().unwrap();
    let script = format!(
        "unshare -n sleep 1000 & far=$!\n\
         trap 'kill $far' EXIT\n\
         until test \"$(readlink /proc/$far/ns/net)\" != \"$(readlink /proc/self/ns/net)\"; do sleep 0.01; done\n\
         set -e -- $far\n{FAR}\n\
         nsenter -n -t $far ip address add 192.0.2.2/24 dev far\n\
         nsenter -n -t $far ip address add 2001:db8::2/64 dev far nodad\n\
         nsenter -n -t $far ip link set far up\n\
         FAR_PID=$far '{}' --ignored --exact inner_udp --nocapture\n",
        program.display()
    );
    let mut command = Command::new("unshare");
    command.args(["-n", "sh", "-c", &script]);
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    eprint!("{errors}");
}

#[test]
#[ignore = "run by the test above, in a namespace"]
fn inner_udp() {
    let near = link("near");
    let mut port = open(&near, XdpMode::Native);
    assert!(port.setup().takes_udp);
    let mac = near.mac.unwrap();
    let (v4, v6) = ("192.0.2.1:6363", "[2001:db8::1]:6363");
    let far: [UdpSocket; 2] =
        in_far_namespace(|| [socket("192.0.2.2:7000"), socket("[2001:db8::2]:7000")]);
    let kernels = [socket(v4), socket(v6)];
    // Nothing is taken as long as no address is known.
    for ((far, kernel), to) in far.iter().zip(&kernels).zip([v4, v6]) {
        far.send_to(b"kernel", to).unwrap();
        assert_eq!(received(kernel).0, b"kernel");
    }
    receive_nothing(&mut port);
    let addresses = std::sync::Arc::clone(port.addresses().unwrap());
    let own = ["192.0.2.1", "2001:db8::1"].map(|text| text.parse().unwrap());
    addresses.set(mac, own).unwrap();
    let payload: Vec<u8> = (0..=255).cycle().take(1400).collect();
    for (far, to) in far.iter().zip([v4, v6]) {
        for length in [0, 1, 2, 17, 18, 19, 1400] {
            far.send_to(&payload[..length], to).unwrap();
            let (source, destination, bytes) = receive(&mut port).unwrap();
            assert_eq!(source, far.local_addr().unwrap());
            assert_eq!((destination.to_string().as_str(), &bytes[..]), (to, &payload[..length]));
        }
    }
    // Another port, and fragments, belong to the kernel.
    let other = socket("192.0.2.1:6364");
    far[0].send_to(b"other", other.local_addr().unwrap()).unwrap();
    assert_eq!(received(&other).0, b"other");
    for ((far, kernel), to) in far.iter().zip(&kernels).zip([v4, v6]) {
        far.send_to(&[7; 4000], to).unwrap();
        assert_eq!(received(kernel).0, [7; 4000]);
    }
    receive_nothing(&mut port);
    answers(&mut port, &far, &payload);
    // An address that is gone, and one that has come.
    addresses.set(mac, own.into_iter().skip(1)).unwrap();
    far[0].send_to(b"gone", v4).unwrap();
    assert_eq!(received(&kernels[0]).0, b"gone");
    far[1].send_to(b"stays", v6).unwrap();
    assert_eq!(receive(&mut port).unwrap().2, b"stays");
    addresses.set([2, 0, 0, 0, 0, 0x77], own).unwrap();
    far[1].send_to(b"another device", v6).unwrap();
    assert_eq!(received(&kernels[1]).0, b"another device");
    // All of it is the kernel's when the port is gone, and in generic mode.
    addresses.set(mac, own).unwrap();
    drop(port);
    let mut port = open(&near, XdpMode::Generic);
    assert!(!port.setup().takes_udp && port.addresses().is_none());
    far[0].send_to(b"generic", v4).unwrap();
    assert_eq!(received(&kernels[0]).0, b"generic");
    receive_nothing(&mut port);
    ip("link del near");
}

/// What is sent reaches the sockets of the kernel at the other end.
fn answers(port: &mut XdpPort, far: &[UdpSocket; 2], payload: &[u8]) {
    let mut table = RouteTable::open().unwrap();
    for (far, source) in far.iter().zip(["192.0.2.1:6363", "[2001:db8::1]:6363"]) {
        let peer = far.local_addr().unwrap();
        let route = table.find(peer.ip(), None, None).unwrap();
        assert_eq!((route.interface, route.gateway), (Some(port.interface()), None));
        let neighbours = table.neighbours().unwrap();
        let found = neighbours.iter().find(|one| one.address == peer.ip());
        // The kernel has answered its question, or may have given it up since.
        let mac =
            found.map_or_else(|| in_far_namespace(|| link("far").mac.unwrap()), |one| one.mac);
        let source: SocketAddr = source.parse().unwrap();
        let headers = DatagramHeaders { source, peer };
        for length in [0, 1, 2, 17, 18, 19, 1400] {
            let pieces = [&payload[..length / 3], &payload[length / 3..length]];
            let mut written = [0; DatagramHeaders::LENGTH_MAX];
            let at = headers.write(pieces, &mut written).unwrap();
            let parts = [&written[..at], pieces[0], pieces[1]];
            port.send_as(headers.protocol(), mac, &parts).unwrap();
            while !port.transmit().unwrap().is_done {}
            assert_eq!(received(far), (payload[..length].to_vec(), source));
        }
    }
}
