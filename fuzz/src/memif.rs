//! memif with a peer that says and writes what it likes.

use std::cell::RefCell;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ndn_memif::{
    ClientHandshake, ClientOptions, Connection, MESSAGE_LENGTH, MemoryBudget, Message, Name,
    Progress, Received, Secret, ServerHandshake, ServerOptions,
};
use ndn_sys::interrupt::{Interrupt, Interrupter};
use ndn_sys::seqpacket;
use ndn_sys::shared_memory::SharedMemory;

/// Bytes that the hostile client shares: two rings of eight descriptors, and 2 KiB for frames.
const MEMORY: usize = 2 * RING + 2048;
const RING: usize = 128 + 8 * 16;
const COOKIE: u32 = 0x3E3_1F20;
const VERSION: u16 = 0x200;

/// The frame that is sent.
static LONGEST: [u8; 40_000] = [7; 40_000];

thread_local! {
    // Making these takes longer than all the rest.
    static INTERRUPTER: RefCell<Option<Interrupter>> = const { RefCell::new(None) };
    static ATTACHMENTS: RefCell<Attachments> = RefCell::default();
    static RINGS_OF_SERVER: RefCell<Option<Rings>> = const { RefCell::new(None) };
    static RINGS_OF_CLIENT: RefCell<Option<Rings>> = const { RefCell::new(None) };
}

/// The first byte says who is tried: a server by its messages, a client by its messages, a server by its
/// rings, a client by its rings. Where a sandbox has no shared memory, nothing is tried.
pub(crate) fn memif(bytes: &[u8]) {
    let Some((&kind, rest)) = bytes.split_first() else { return };
    let _ = match kind % 4 {
        0 => with_attachments(|attachments| send_to_server(rest, attachments)),
        1 => with_attachments(|attachments| send_to_client(rest, attachments)),
        2 => RINGS_OF_SERVER.with_borrow_mut(|rings| use_again(rings, hostile_client, rest)),
        _ => RINGS_OF_CLIENT.with_borrow_mut(|rings| use_again(rings, hostile_server, rest)),
    };
}

/// Messages of the input, each after a byte that selects its attachment.
fn messages(bytes: &[u8]) -> impl Iterator<Item = (u8, [u8; MESSAGE_LENGTH])> + '_ {
    bytes.chunks(1 + MESSAGE_LENGTH / 4).map(|chunk| {
        let mut message = [0; MESSAGE_LENGTH];
        let rest = &chunk[1..];
        message[..rest.len()].copy_from_slice(rest);
        (chunk[0], message)
    })
}

/// The attachments of the messages of an input. Those of former inputs are used again, except for the memory: its content
/// is part of the state.
#[derive(Default)]
struct Attachments {
    memories: Vec<(SharedMemory, OwnedFd)>,
    memories_used: usize,
    interrupt: Option<OwnedFd>,
    nothing: Option<OwnedFd>,
}

impl Attachments {
    /// Sends a message with its attachment.
    fn send(&mut self, socket: &OwnedFd, kind: u8, message: &[u8]) -> Option<()> {
        let own = match kind % 4 {
            0 => None,
            1 => Some(self.memory()?),
            2 => {
                let interrupt = || Interrupt::new().ok()?.as_fd().try_clone_to_owned().ok();
                Some(or_insert(&mut self.interrupt, interrupt)?)
            }
            _ => {
                let nothing = || std::fs::File::open("/dev/null").ok().map(OwnedFd::from);
                Some(or_insert(&mut self.nothing, nothing)?)
            }
        };
        seqpacket::send(socket.as_fd(), message, own.map(AsFd::as_fd)).ok()
    }

    /// Memory full of zeros that no message of this input has been sent with.
    fn memory(&mut self) -> Option<&OwnedFd> {
        if self.memories_used == self.memories.len() {
            self.memories.push(SharedMemory::create("fuzz", MEMORY).ok()?);
        }
        let (memory, file) = self.memories.get(self.memories_used)?;
        self.memories_used += 1;
        memory.copy_in(0, &[0; MEMORY]).ok()?;
        Some(file)
    }
}

fn with_attachments(test: impl FnOnce(&mut Attachments) -> Option<()>) -> Option<()> {
    ATTACHMENTS.with_borrow_mut(|attachments| {
        attachments.memories_used = 0;
        test(attachments)
    })
}

fn or_insert(
    place: &mut Option<OwnedFd>,
    make: impl FnOnce() -> Option<OwnedFd>,
) -> Option<&OwnedFd> {
    if place.is_none() {
        *place = make();
    }
    place.as_ref()
}

/// Memory that was charged while a client was connected is released, however it ends.
fn send_to_server(bytes: &[u8], attachments: &mut Attachments) -> Option<()> {
    let memory = MemoryBudget::new(4 * MEMORY as u64);
    let output = send_within(bytes, attachments, &memory);
    assert_eq!(memory.used(), 0);
    output
}

fn send_within(
    bytes: &[u8],
    attachments: &mut Attachments,
    memory: &Arc<MemoryBudget>,
) -> Option<()> {
    let (near, far) = seqpacket::pair().ok()?;
    let options = ServerOptions { memory: Some(Arc::clone(memory)), ..ServerOptions::default() };
    let mut server = ServerHandshake::new(near, options).ok()?;
    for (kind, message) in messages(bytes) {
        let length = if kind > 250 { usize::from(kind) - 250 } else { MESSAGE_LENGTH };
        attachments.send(&far, kind, &message[..length])?;
        server = match server.advance(|_, _| Ok(())).ok()? {
            Progress::Waiting(server) => server,
            Progress::Done(mut link) => {
                // One user may have half of it.
                assert!((1..=memory.bytes_max() / 2).contains(&memory.used()));
                use_rings(&mut link);
                return None;
            }
        };
    }
    None
}

fn send_to_client(bytes: &[u8], attachments: &mut Attachments) -> Option<()> {
    let (near, far) = seqpacket::pair().ok()?;
    let mut client = ClientHandshake::new(near, small());
    for (kind, message) in messages(bytes) {
        attachments.send(&far, kind, &message)?;
        client = match client.advance().ok()? {
            Progress::Waiting(client) => client,
            Progress::Done(mut link) => {
                use_rings(&mut link);
                return None;
            }
        };
    }
    None
}

fn small() -> ClientOptions {
    ClientOptions { log2_ring_size: Some(3), buffer_length: Some(512), ..ClientOptions::default() }
}

/// Takes and sends something, whatever the memory holds.
fn use_rings(link: &mut Connection) -> Option<()> {
    // Longer than a piece, shorter than some chains.
    let mut buffer = [0; 1500];
    for receiver in &mut link.receivers {
        // A ring holds no more than its descriptors.
        for _ in 0..1 << 14 {
            match receiver.receive(&mut buffer).ok()? {
                Received::Nothing => break,
                Received::Frame(length) => assert!(length <= buffer.len()),
                Received::TooLong | Received::Malformed => {}
            }
        }
        receiver.release().ok()?;
    }
    INTERRUPTER.with_borrow_mut(|interrupter| {
        if interrupter.is_none() {
            *interrupter = Interrupter::new().ok();
        }
        let interrupter = interrupter.as_mut()?;
        for sender in &mut link.senders {
            // In one buffer, in several, and longer than any ring of them.
            for length in [3, 700, 9000, 40_000] {
                let _ = sender.send(&[b"header", &LONGEST[..length]]).ok()?;
            }
            sender.publish(interrupter).ok()?;
        }
        Some(())
    })
}

/// A connection after the handshake, and the hostile side of it.
struct Rings {
    link: Connection,
    memory: SharedMemory,
    /// Content of the memory after the handshake.
    #[cfg_attr(not(fuzzing), expect(dead_code, reason = "they are not used again"))]
    content: Vec<u8>,
    _far: OwnedFd,
}

impl Rings {
    fn new(link: Connection, memory: SharedMemory, far: OwnedFd) -> Option<Self> {
        let mut content = vec![0; memory.len()];
        memory.copy_out(0, &mut content).ok()?;
        Some(Self { link, memory, content, _far: far })
    }

    /// Returns to the state after the handshake.
    #[cfg(fuzzing)]
    fn restart(&mut self) {
        self.link.receivers.iter_mut().for_each(ndn_memif::Receiver::restart);
        self.link.senders.iter_mut().for_each(ndn_memif::Sender::restart);
        self.memory.copy_in(0, &self.content).expect("it is as long as before");
    }
}

/// Tries rings that `make` has connected: for each input, or, under the fuzzer, once. All state of them is in memory.
fn use_again(rings: &mut Option<Rings>, make: fn() -> Option<Rings>, bytes: &[u8]) -> Option<()> {
    #[cfg(fuzzing)]
    rings.iter_mut().for_each(Rings::restart);
    if cfg!(not(fuzzing)) || rings.is_none() {
        *rings = make();
    }
    let Rings { link, memory, .. } = rings.as_mut()?;
    write(memory, bytes, link)
}

/// Writes what the input says, and lets the other side work in between: where, what, how wide.
fn write(memory: &SharedMemory, bytes: &[u8], link: &mut Connection) -> Option<()> {
    for operation in bytes.chunks_exact(7) {
        let &[a, b, c, d, e, f, how] = operation else { continue };
        let at = usize::from(u16::from_ne_bytes([a, b])) % memory.len();
        let value = u32::from_ne_bytes([c, d, e, f]);
        if how & 1 == 0 {
            if let Ok(word) = memory.word16(at & !1) {
                word.store(u16::from_ne_bytes([c, d]), Ordering::Release);
            }
        } else if let Ok(word) = memory.word32(at & !3) {
            word.store(value, Ordering::Release);
        }
        if how & 2 != 0 {
            use_rings(link)?;
        }
    }
    use_rings(link)
}

fn hostile_client() -> Option<Rings> {
    let (near, far) = seqpacket::pair().ok()?;
    let (memory, file) = SharedMemory::create("fuzz", MEMORY).ok()?;
    let mut server = ServerHandshake::new(near, ServerOptions::default()).ok()?;
    let interrupt = Interrupt::new().ok()?.as_fd().try_clone_to_owned().ok()?;
    let ring = |to_server: bool| {
        let offset = if to_server { 0 } else { u32::try_from(RING).unwrap_or(0) };
        Message::AddRing { to_server, index: 0, region: 0, offset, log2_size: 3 }
    };
    let name = Name::new("fuzz");
    let init = Message::Init { version: VERSION, id: 0, mode: 0, secret: Secret::default(), name };
    let output = [
        (init, None),
        (Message::AddRegion { index: 0, size: MEMORY as u64 }, Some(&file)),
        (ring(true), Some(&interrupt)),
        (ring(false), Some(&interrupt)),
        (Message::Connect { interface: name }, None),
    ];
    for at in [0, RING] {
        memory.word32(at).ok()?.store(COOKIE, Ordering::Relaxed);
    }
    for (message, own) in output {
        seqpacket::send(far.as_fd(), &message.encode(), own.map(AsFd::as_fd)).ok()?;
        server = match server.advance(|_, _| Ok(())).ok()? {
            Progress::Waiting(server) => server,
            Progress::Done(link) => return Rings::new(*link, memory, far),
        };
    }
    None
}

fn hostile_server() -> Option<Rings> {
    let (near, far) = seqpacket::pair().ok()?;
    let mut client = ClientHandshake::new(near, small());
    let name = Name::new("fuzz");
    let hello = Message::Hello {
        name,
        versions: (VERSION, VERSION),
        region_max: 0,
        ring_to_client_max: 0,
        ring_to_server_max: 0,
        log2_ring_size_max: 14,
    };
    let mut memory = None;
    let mut answer = hello;
    loop {
        seqpacket::send(far.as_fd(), &answer.encode(), None).ok()?;
        client = match client.advance().ok()? {
            Progress::Waiting(client) => client,
            Progress::Done(link) => return Rings::new(*link, memory?, far),
        };
        let mut buffer = [0; MESSAGE_LENGTH];
        let received = seqpacket::receive(far.as_fd(), &mut buffer).ok()?;
        answer = match Message::decode(&buffer).ok()? {
            Message::AddRegion { size, .. } => {
                let file = received.descriptors.first()?;
                memory = SharedMemory::adopt(file.as_fd(), size).ok();
                Message::Ack
            }
            Message::Connect { .. } => Message::Connected { interface: name },
            Message::Ack
            | Message::Hello { .. }
            | Message::Init { .. }
            | Message::AddRing { .. }
            | Message::Connected { .. }
            | Message::Disconnect(_) => Message::Ack,
        };
    }
}
