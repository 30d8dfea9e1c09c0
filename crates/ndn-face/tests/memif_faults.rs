//! A peer of a memif face that does not keep to the protocol.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use ndn_face::{CloseReason, FaceChange, FaceEvent, FaceOptions, MemifEnd};
use ndn_memif::{
    Connection, DisconnectReason, Fault, MESSAGE_LENGTH, Message, Name, Progress, Secret,
    ServerHandshake, ServerOptions,
};
use ndn_sys::interrupt::{Interrupt, Interrupter};
use ndn_sys::seqpacket;
use ndn_sys::shared_memory::SharedMemory;
use ndn_types::{Persistency, Scope};
use support::{Worker, properties, tlv};

/// A client that writes what it likes into its two rings of four descriptors.
struct Hostile {
    socket: OwnedFd,
    memory: SharedMemory,
    interrupt: Interrupt,
}

impl Hostile {
    const RING: usize = 128 + 4 * 16;

    fn connect() -> (Self, Box<Connection>) {
        let (socket, far) = seqpacket::pair().unwrap();
        let (memory, file) = SharedMemory::create("hostile", 2 * Self::RING).unwrap();
        let interrupt = Interrupt::new().unwrap();
        let event = || Some(interrupt.as_fd());
        let ring = |to_server, offset| Message::AddRing {
            to_server,
            index: 0,
            region: 0,
            offset,
            log2_size: 2,
        };
        let name = Name::new("hostile");
        let secret = Secret::default();
        let messages = [
            (Message::Init { version: 0x200, id: 0, mode: 0, secret, name }, None),
            (Message::AddRegion { index: 0, size: memory.len() as u64 }, Some(file.as_fd())),
            (ring(true, 0), event()),
            (ring(false, u32::try_from(Self::RING).unwrap()), event()),
            (Message::Connect { interface: name }, None),
        ];
        for number in 0..2 {
            memory.word32(number * Self::RING).unwrap().store(0x3E3_1F20, Ordering::Relaxed);
        }
        let mut server = ServerHandshake::new(far, ServerOptions::default()).unwrap();
        for (message, descriptor) in &messages {
            seqpacket::send(socket.as_fd(), &message.encode(), *descriptor).unwrap();
            server = match server.advance(|_, _| Ok(())).unwrap() {
                Progress::Waiting(server) => server,
                Progress::Done(link) => return (Self { socket, memory, interrupt }, link),
            };
        }
        panic!("the server wants more");
    }

    /// This number of frames, or buffers for some of them.
    fn set_head(&self, ring: usize, head: u16) {
        self.memory.word16(ring * Self::RING + 6).unwrap().store(head, Ordering::Release);
    }

    /// Why the server has ended the connection.
    fn reason(&self) -> DisconnectReason {
        loop {
            let mut bytes = [0; MESSAGE_LENGTH];
            let received = seqpacket::receive(self.socket.as_fd(), &mut bytes).unwrap();
            let message = Message::decode(&bytes[..received.length]).unwrap();
            if let Message::Disconnect(reason) = message {
                return reason;
            }
        }
    }
}

#[test]
fn disconnect_names_the_fault_of_the_peer() {
    let mut interrupter = Interrupter::new().unwrap();
    let options = FaceOptions::datagram(properties(Scope::Local), Persistency::OnDemand, 8800);
    for is_found_on_receipt in [true, false] {
        let mut near = Worker::new();
        let (peer, link) = Hostile::connect();
        let index = near.next_index();
        let end = MemifEnd::Accepted(link);
        near.faces.open(near.now, index, end, &options).unwrap();
        if is_found_on_receipt {
            peer.set_head(0, 5);
            interrupter.raise(&peer.interrupt).unwrap();
            near.settle();
        } else {
            // It has given no buffer yet, so this waits.
            near.send(index, &tlv(6, 100, 1));
            near.flush();
            assert_eq!(near.faces.poll_event(), None);
            peer.set_head(1, 5);
            near.send(index, &tlv(6, 100, 2));
            near.flush();
        }
        let change = FaceChange::Closed(CloseReason::Misbehaved);
        assert_eq!(near.faces.poll_event(), Some(FaceEvent { face: index, change }));
        assert_eq!(peer.reason(), DisconnectReason::new(0, &Fault::Positions.to_string()));
        near.finish();
    }
}
