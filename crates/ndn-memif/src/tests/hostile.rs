//! Peers that do not keep to the protocol.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use ndn_sys::interrupt::Interrupt;
use ndn_sys::shared_memory::SharedMemory;

use super::*;
use crate::limits::CHAIN_RECEIVED_MAX;
use crate::ring::{COOKIE, Descriptor, FLAG_NEXT, Fault, ring_length};
use crate::{DisconnectReason, MESSAGE_LENGTH, Message, Name, Secret};

const RING: usize = ring_length(2);
const AT_DESCRIPTORS: usize = 128;

/// A client that says and writes what it likes.
struct Client {
    socket: OwnedFd,
    memory: SharedMemory,
    file: OwnedFd,
    server: Option<ServerHandshake>,
}

impl Client {
    /// Two rings of four descriptors, and 512 bytes behind them.
    fn new() -> Self {
        let (socket, far) = seqpacket::pair().unwrap();
        let (memory, file) = SharedMemory::create("hostile", 2 * RING + 512).unwrap();
        for ring in 0..2 {
            memory.word32(ring * RING).unwrap().store(COOKIE, Ordering::Relaxed);
        }
        let server = Some(ServerHandshake::new(far, ServerOptions::default()).unwrap());
        Self { socket, memory, file, server }
    }

    fn exchange(&mut self, message: &Message, descriptor: Option<&OwnedFd>) -> Outcome {
        let descriptor = descriptor.map(AsFd::as_fd);
        seqpacket::send(self.socket.as_fd(), &message.encode(), descriptor).unwrap();
        self.step()
    }

    fn step(&mut self) -> Outcome {
        match self.server.take().unwrap().advance(|_, _| Ok(())) {
            Ok(Progress::Waiting(server)) => {
                self.server = Some(server);
                Outcome::Waiting
            }
            Ok(Progress::Done(link)) => Outcome::Done(link),
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }

    fn init(&mut self) {
        let secret = Secret::default();
        let init = Message::Init { version: 0x200, id: 0, mode: 0, secret, name: Name::new("x") };
        self.exchange(&init, None).waits();
    }

    fn add_region(&mut self) -> Outcome {
        let file = self.file.try_clone().unwrap();
        let size = self.memory.len() as u64;
        self.exchange(&Message::AddRegion { index: 0, size }, Some(&file))
    }

    fn add_ring(&mut self, to_server: bool, offset: u32, log2_size: u8) -> Outcome {
        let interrupt = Interrupt::new().unwrap();
        let event = interrupt.as_fd().try_clone_to_owned().unwrap();
        let ring = Message::AddRing { to_server, index: 0, region: 0, offset, log2_size };
        self.exchange(&ring, Some(&event))
    }

    fn connect(&mut self) -> Outcome {
        self.exchange(&Message::Connect { interface: Name::new("x") }, None)
    }

    /// Does everything right.
    fn finish(&mut self) -> Connection {
        self.init();
        self.add_region().waits();
        self.add_ring(true, 0, 2).waits();
        self.add_ring(false, RING as u32, 2).waits();
        match self.connect() {
            Outcome::Done(link) => *link,
            other @ (Outcome::Waiting | Outcome::Failed(_)) => panic!("{other:?}"),
        }
    }

    fn set_head(&self, ring: usize, head: u16) {
        self.memory.word16(ring * RING + 6).unwrap().store(head, Ordering::Release);
    }

    fn describe(
        &self,
        ring: usize,
        slot: usize,
        flags: u16,
        region: u16,
        length: u32,
        offset: u32,
    ) {
        let at = ring * RING + AT_DESCRIPTORS + 16 * slot;
        self.memory.word16(at).unwrap().store(flags, Ordering::Relaxed);
        self.memory.word16(at + 2).unwrap().store(region, Ordering::Relaxed);
        self.memory.word32(at + 4).unwrap().store(length, Ordering::Relaxed);
        self.memory.word32(at + 8).unwrap().store(offset, Ordering::Relaxed);
    }
}

#[derive(Debug)]
enum Outcome {
    Waiting,
    Done(Box<Connection>),
    Failed(String),
}

impl Outcome {
    fn waits(self) {
        assert!(matches!(self, Self::Waiting), "{self:?}");
    }

    fn fails(self, with: &str) {
        match self {
            Self::Failed(reason) => assert!(reason.contains(with), "{reason}"),
            other @ (Self::Waiting | Self::Done(_)) => panic!("{other:?} instead of {with}"),
        }
    }
}

#[test]
fn unexpected_message_ends_the_handshake() {
    let connect = Message::Connect { interface: Name::new("x") };
    for message in [Message::Ack, connect, Message::AddRegion { index: 0, size: 1 }] {
        Client::new().exchange(&message, None).fails("Unexpected message");
    }
    let mut client = Client::new();
    client.init();
    let init = Message::Init {
        version: 0x200,
        id: 0,
        mode: 0,
        secret: Secret::default(),
        name: Name::new("x"),
    };
    client.exchange(&init, None).fails("Unexpected message");
    let mut client = Client::new();
    client.init();
    client.connect().fails("Missing rings");
    let mut client = Client::new();
    seqpacket::send(client.socket.as_fd(), &[3; MESSAGE_LENGTH - 1], None).unwrap();
    client.step().fails("127 bytes");
    let mut client = Client::new();
    seqpacket::send(client.socket.as_fd(), &[3; MESSAGE_LENGTH + 5], None).unwrap();
    client.step().fails("message size");
    for (version, mode, with) in [(0x100, 0, "version"), (0x200, 1, "ethernet"), (0x200, 77, "eth")]
    {
        let name = Name::new("x");
        let init = Message::Init { version, id: 0, mode, secret: Secret::default(), name };
        Client::new().exchange(&init, None).fails(with);
    }
}

#[test]
fn invalid_regions_are_rejected() {
    let start = || {
        let mut client = Client::new();
        client.init();
        client
    };
    let region = |index, size| Message::AddRegion { index, size };
    start().exchange(&region(0, 4096), None).fails("Missing descriptor");
    let mut client = start();
    let file = client.file.try_clone().unwrap();
    client.exchange(&region(1, 512), Some(&file)).fails("region index");
    for size in [0, 1 << 20, 1 << 29, u64::MAX / 2] {
        start().exchange(&region(0, size), Some(&file)).fails("memory");
    }
    start().exchange(&region(0, u64::MAX), Some(&file)).fails("Too much");
    // Nothing that could become shorter.
    let plain = OwnedFd::from(tempfile::tempfile().unwrap());
    start().exchange(&region(0, 512), Some(&plain)).fails("not sealed");
    // Every region counts towards the limit of memory.
    let mut client = start();
    for index in 0..16 {
        client.exchange(&region(index, 512), Some(&file)).waits();
    }
    client.exchange(&region(16, 512), Some(&file)).fails("region index");
}

#[test]
fn rings_outside_their_regions_are_rejected() {
    let start = || {
        let mut client = Client::new();
        client.init();
        client.add_region().waits();
        client
    };
    let connects = |to_server: (u32, u8), to_client: (u32, u8)| {
        let mut client = start();
        client.add_ring(true, to_server.0, to_server.1).waits();
        client.add_ring(false, to_client.0, to_client.1).waits();
        client.connect()
    };
    let good = (RING as u32, 2);
    assert!(matches!(connects((0, 2), good), Outcome::Done(_)));
    for bad in [(4, 2), (0, 14), (u32::MAX - 7, 2), (2 * RING as u32 + 448, 0)] {
        connects(bad, good).fails("outside");
        connects((0, 2), bad).fails("outside");
    }
    // Rings may lie one over the other: that is the client's loss. But each begins as rings do.
    assert!(matches!(connects((0, 2), (0, 1)), Outcome::Done(_)));
    connects((8, 1), good).fails("Wrong ring");
    start().add_ring(true, 0, 15).fails("ring size");
    start().add_ring(true, 0, 255).fails("ring size");
    let mut client = start();
    client.add_ring(true, 0, 2).waits();
    client.connect().fails("Missing rings");
    let mut client = start();
    client.add_ring(true, 0, 2).waits();
    client.add_ring(true, 0, 2).fails("ring index");
    let ring = Message::AddRing { to_server: true, index: 0, region: 0, offset: 0, log2_size: 2 };
    start().exchange(&ring, None).fails("Missing descriptor");
    let plain = OwnedFd::from(tempfile::tempfile().unwrap());
    start().exchange(&ring, Some(&plain)).fails("no eventfd");
    let ring = Message::AddRing { to_server: true, index: 0, region: 3, offset: 0, log2_size: 2 };
    let event = Interrupt::new().unwrap().as_fd().try_clone_to_owned().unwrap();
    let mut client = start();
    client.exchange(&ring, Some(&event)).waits();
    client.add_ring(false, RING as u32, 2).waits();
    client.connect().fails("outside");
}

#[test]
fn client_may_disconnect_at_any_step() {
    for steps in 0..4 {
        let mut client = Client::new();
        if steps > 0 {
            client.init();
        }
        if steps > 1 {
            client.add_region().waits();
        }
        if steps > 2 {
            client.add_ring(true, 0, 2).waits();
        }
        let (_near, far) = seqpacket::pair().unwrap();
        client.socket = far;
        let outcome = client.step();
        assert!(matches!(&outcome, Outcome::Failed(_)), "{outcome:?}");
    }
}

#[test]
fn invalid_positions_are_faults() {
    for head in [5, 6, 100, 0x7fff, 0xffff] {
        let mut client = Client::new();
        let mut link = client.finish();
        client.set_head(0, head);
        assert_eq!(link.receivers[0].receive(&mut [0; 9]), Err(Fault::Positions), "{head}");
        client.set_head(1, head);
        assert_eq!(link.senders[0].send(&[b"x"]), Err(Fault::Positions), "{head}");
    }
    // Back again.
    let mut client = Client::new();
    let mut link = client.finish();
    client.describe(0, 0, 0, 0, 4, 2 * RING as u32);
    client.set_head(0, 1);
    assert_eq!(link.receivers[0].receive(&mut [0; 9]), Ok(Received::Frame(4)));
    client.set_head(0, 0);
    assert_eq!(link.receivers[0].receive(&mut [0; 9]), Err(Fault::Positions));
}

#[test]
fn frame_with_invalid_descriptor_is_skipped() {
    let mut client = Client::new();
    let mut link = client.finish();
    let (data, end) = (2 * RING as u32, 2 * RING as u32 + 512);
    let wrong = [
        (0, 1, 4, data),
        (0, 0xffff, 4, data),
        (0, 0, 4, end - 3),
        (0, 0, 513, data),
        (0, 0, u32::MAX, data),
        (0, 0, u32::MAX, u32::MAX),
        (0, 0, 1, u32::MAX),
    ];
    let mut head = 0_u16;
    for (flags, region, length, offset) in wrong {
        client.describe(0, usize::from(head % 4), flags, region, length, offset);
        client.describe(0, usize::from((head + 1) % 4), 0, 0, 3, data);
        head += 2;
        client.set_head(0, head);
        let mut buffer = [0; 2048];
        assert_eq!(link.receivers[0].receive(&mut buffer), Ok(Received::Malformed));
        assert_eq!(link.receivers[0].receive(&mut buffer), Ok(Received::Frame(3)));
        link.receivers[0].release().unwrap();
    }
    // A chain that does not end.
    for slot in 0..4 {
        client.describe(0, slot, 1, 0, 1, data);
    }
    client.set_head(0, head + 4);
    assert_eq!(link.receivers[0].receive(&mut [0; 99]), Ok(Received::Malformed));
    assert_eq!(link.receivers[0].receive(&mut [0; 99]), Ok(Received::Nothing));
}

#[test]
fn frame_with_too_many_buffers_is_a_fault() {
    let (mut client, mut server) =
        connect(ClientOptions { log2_ring_size: Some(10), ..Default::default() });
    let pieces = u16::try_from(CHAIN_RECEIVED_MAX).unwrap();
    for receiver in [&mut server.receivers[0], &mut client.receivers[0]] {
        let ring = receiver.ring().clone();
        // The maximum number, all of them empty, and then one more.
        let frames =
            [(0..pieces, Ok(Received::Frame(0))), (pieces..2 * pieces + 1, Err(Fault::Chain))];
        for (positions, expected) in frames {
            let end = positions.end;
            for position in positions {
                let flags = if position + 1 < end { FLAG_NEXT } else { 0 };
                let descriptor = Descriptor { flags, region: 0, length: 0, offset: 0 };
                ring.set_descriptor(position, descriptor).unwrap();
            }
            // Towards a server the head says where frames end, towards a client the tail.
            let mark = if receiver.is_of_client() { ring.tail() } else { ring.head() };
            mark.unwrap().store(end, Ordering::Release);
            assert_eq!(receiver.receive(&mut [0; 9]), expected);
        }
    }
}

#[test]
fn invalid_buffers_are_faults() {
    let (data, end) = (2 * RING as u32, 2 * RING as u32 + 512);
    for (region, length, offset) in [(1, 9, data), (0, 0, data), (0, 9, end - 8), (0, u32::MAX, 0)]
    {
        let mut client = Client::new();
        let mut link = client.finish();
        client.describe(1, 0, 0, region, length, offset);
        client.set_head(1, 1);
        assert_eq!(link.senders[0].send(&[b"x"]), Err(Fault::Descriptor));
    }
    let mut client = Client::new();
    let mut link = client.finish();
    client.describe(1, 0, 7, 0, 2, end - 2);
    client.describe(1, 1, 7, 0, 1, data);
    client.set_head(1, 2);
    assert_eq!(link.senders[0].send(&[b"abcd"]), Ok(Sent::Full));
    assert_eq!(link.senders[0].send(&[b"a", b"", b"bc"]), Ok(Sent::Queued));
    let mut tail = [0; 2];
    client.memory.copy_out(end as usize - 2, &mut tail).unwrap();
    assert_eq!(&tail, b"ab");
}

#[test]
fn client_ignores_buffer_addresses_of_the_server() {
    let (mut client, mut server) =
        connect(ClientOptions { buffer_length: Some(2048), ..Default::default() });
    let mut interrupter = Interrupter::new().unwrap();
    server.senders[0].send(&[b"frame"]).unwrap();
    server.senders[0].publish(&mut interrupter).unwrap();
    // As if the server wrote into the descriptor.
    let ring = ring_length(10);
    let memory = server.receivers[0].ring().regions().region(0).unwrap();
    let at = ring + AT_DESCRIPTORS;
    memory.word16(at + 2).unwrap().store(77, Ordering::Relaxed);
    memory.word32(at + 8).unwrap().store(u32::MAX, Ordering::Relaxed);
    let mut buffer = [0; 64];
    assert_eq!(client.receivers[0].receive(&mut buffer), Ok(Received::Frame(5)));
    assert_eq!(&buffer[..5], b"frame");
    // More than a buffer holds.
    server.senders[0].send(&[b"frame"]).unwrap();
    server.senders[0].publish(&mut interrupter).unwrap();
    let memory = server.receivers[0].ring().regions().region(0).unwrap();
    memory.word32(at + 16 + 4).unwrap().store(2049, Ordering::Relaxed);
    assert_eq!(client.receivers[0].receive(&mut [0; 9000]), Ok(Received::Malformed));
    // More than it was given, and back.
    for tail in [1025, 2, 0, 0xffff] {
        let memory = server.receivers[0].ring().regions().region(0).unwrap();
        memory.word16(ring + 64).unwrap().store(tail, Ordering::Relaxed);
        let outcome = client.receivers[0].receive(&mut [0; 64]);
        let expected = if tail == 2 { Ok(Received::Nothing) } else { Err(Fault::Positions) };
        assert_eq!(outcome, expected, "{tail}");
    }
    // What was not published cannot be taken.
    let (mut client, server) = connect(ClientOptions::default());
    let memory = server.receivers[0].ring().regions().region(0).unwrap();
    memory.word16(64).unwrap().store(3, Ordering::Relaxed);
    let mut outcome = Ok(Sent::Queued);
    while outcome == Ok(Sent::Queued) {
        outcome = client.senders[0].send(&[b"x"]);
    }
    assert_eq!(outcome, Err(Fault::Positions));
}

#[test]
fn client_rejects_invalid_messages() {
    let hello = |versions, log2_ring_size_max| Message::Hello {
        name: Name::new("odd"),
        versions,
        region_max: 0,
        ring_to_client_max: 0,
        ring_to_server_max: u16::MAX,
        log2_ring_size_max,
    };
    let exchange = |messages: &[Message]| {
        let (near, far) = seqpacket::pair().unwrap();
        let options = ClientOptions { rings: 9, ..Default::default() };
        let mut client = ClientHandshake::new(near, options);
        for message in messages {
            seqpacket::send(far.as_fd(), &message.encode(), None).unwrap();
            client = match client.advance() {
                Ok(Progress::Waiting(client)) => client,
                Ok(Progress::Done(_)) => return "done".to_owned(),
                Err(error) => return error.to_string(),
            };
        }
        "waits".to_owned()
    };
    let connected = Message::Connected { interface: Name::new("x") };
    let good = hello((0x200, 0x200), 14);
    assert!(exchange(&[Message::Ack]).contains("Unexpected"));
    assert!(exchange(std::slice::from_ref(&connected)).contains("Unexpected"));
    assert!(exchange(&[hello((0x201, 0x300), 14)]).contains("version"));
    assert!(exchange(&[good.clone(), good.clone()]).contains("Unexpected"));
    assert!(exchange(&[good.clone(), connected.clone()]).contains("Unexpected"));
    assert_eq!(exchange(&[hello((0x100, 0x300), 0)]), "waits");
    let disconnect = Message::Disconnect(DisconnectReason::new(0, "no"));
    assert!(exchange(&[good.clone(), disconnect]).contains("no"));
    // Initialization, region, two rings, connect: the fifth answer is one too many.
    let answers = |count: usize, last: &Message| {
        let acks = std::iter::repeat_n(Message::Ack, count);
        let all: Vec<_> = [good.clone()].into_iter().chain(acks).chain([last.clone()]).collect();
        exchange(&all)
    };
    assert_eq!(answers(4, &connected), "done");
    assert!(answers(3, &connected).contains("Unexpected"));
    assert!(answers(4, &Message::Ack).contains("Unexpected"));
}
