//! What the control thread asks of a worker.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use ndn_face::{FaceOptions, FrameTap, InternalEnd, MemifEnd, PortId, PortSocket};
use ndn_forwarding::{ProducerRegions, StrategyTable};
use ndn_packet::Name;
use ndn_sys::udp::UdpSocket;
use ndn_table::{FibSnapshot, Token};
use ndn_types::FaceUri;

/// An order to a worker. Orders are carried out in the order in which they were given, between
/// bursts.
#[derive(Debug)]
pub enum Command {
    /// Make a face; answered by [`Event::FaceAdded`](crate::Event::FaceAdded) or
    /// [`Event::FaceRefused`](crate::Event::FaceRefused).
    AddFace(Box<NewFace>),
    /// Change the options of a face. One that is gone already is passed over.
    UpdateFace {
        /// The face.
        face_id: u64,
        /// All its options.
        options: Box<FaceOptions>,
    },
    /// Let a UDP face that shares the socket of strangers receive by a socket of its own from now on:
    /// Interests are sent there, and answers are not to wait behind others' Interests. One that is gone
    /// already, or has such a socket, is passed over.
    SeparateInput {
        /// The face.
        face_id: u64,
    },
    /// Close a face; answered by [`Event::FaceClosed`](crate::Event::FaceClosed).
    RemoveFace {
        /// The face.
        face_id: u64,
    },
    /// Take a network device, for faces on it.
    AddPort(Box<NewPort>),
    /// Something is different with a network device.
    ChangePort {
        /// The device.
        port: PortId,
        /// What is.
        change: Box<PortChange>,
    },
    /// Use these tables from the next burst on.
    SetTables {
        /// The FIB.
        fib: Arc<FibSnapshot>,
        /// The strategy instances, if there are new ones.
        strategies: Option<Arc<StrategyTable>>,
    },
    /// Use other producer regions.
    SetRegions(Arc<ProducerRegions>),
    /// Change the Content Store.
    ConfigureCs(CsSettings),
    /// Erase up to `limit` packets under `prefix`; answered by
    /// [`Event::CsErased`](crate::Event::CsErased).
    EraseCs {
        /// Goes back with the answer.
        ticket: u64,
        /// Everything under this name.
        prefix: Name,
        /// Packets at most.
        limit: usize,
    },
    /// Answer [`LearningRequest::Find`](ndn_forwarding::LearningRequest::Find).
    AnswerLearning {
        /// That of the request.
        ticket: Token,
        /// What to send with the Data, if there is anything.
        announcement: Option<Box<[u8]>>,
    },
    /// Show every frame to this tap from now on, or to nobody.
    SetTap(Option<Box<dyn FrameTap>>),
    /// Measure service times from now on, or no more.
    Trace(bool),
    /// Send what waits, close everything and end.
    Stop,
}

/// A face to be made.
#[derive(Debug)]
pub struct NewFace {
    /// Goes back with the answer; `None` if nobody waits for it.
    pub ticket: Option<u64>,
    /// How its frames travel.
    pub transport: NewTransport,
    /// Its options; their `face_id` is the number of the face.
    pub options: FaceOptions,
    /// The far end, for management.
    pub remote: FaceUri,
    /// The near end, for management. Of a datagram face the worker knows better.
    pub local: FaceUri,
}

/// How the frames of a new face travel.
#[derive(Debug)]
pub enum NewTransport {
    /// A connected, non-blocking stream.
    Stream(OwnedFd),
    /// A stream behind a WebSocket handshake.
    WebSocket(OwnedFd),
    /// Rings in shared memory, or a server of such that is being connected to.
    Memif(MemifEnd),
    /// The worker's end of the face of management.
    Internal(InternalEnd),
    /// The worker's end of a face in memory, whose other end the embedding program has.
    Memory(InternalEnd),
    /// A socket that has joined a UDP group, and the group.
    Group(UdpSocket, SocketAddr),
    /// A connected UDP socket of the face's own.
    Connected(UdpSocket),
    /// A UDP peer, on the worker's socket for its address family.
    Datagram(SocketAddr),
    /// A station behind a network device, or the group that its socket has joined.
    Station(PortId, [u8; 6]),
}

/// A network device to be taken. A face on it belongs to one worker.
#[derive(Debug)]
pub struct NewPort {
    /// Its number, which nothing else has.
    pub port: PortId,
    /// Its name.
    pub name: Arc<str>,
    /// Frames can go out.
    pub is_up: bool,
    /// Whether stations that send get faces.
    pub accepts: bool,
    /// What brings its frames, for one worker each: for no more of them than [may have some of
    /// it](crate::Dataplane::port_workers). The first one has the faces that are made on request.
    pub sockets: Vec<PortSocket>,
    /// Faces of stations that have spoken first.
    pub stations: StationOptions,
}

/// Faces for stations that have spoken first.
#[derive(Debug, Clone, Copy)]
pub struct StationOptions {
    /// Longest payload of a frame, bytes.
    pub mtu: usize,
    /// After how long without a packet they close.
    pub idle_timeout: Duration,
}

/// What can happen to a network device.
#[derive(Debug)]
pub enum PortChange {
    /// Frames can go out, or not.
    Link(bool),
    /// It has other sockets ([`NewPort::sockets`]), and new faces of stations have other options. For a worker that
    /// gets none, the device is gone.
    Sockets(Vec<PortSocket>, StationOptions),
    /// Its sockets are to be closed, for others that cannot be had as long as there are these.
    /// Faces wait for that.
    Suspend,
    /// It has another address.
    Address([u8; 6]),
    /// It is used for something else: the faces of stations stay.
    Purpose {
        /// Stations that send get faces.
        accepts: bool,
        /// Its group is another one, or none: the face of that closes.
        leaves_group: bool,
    },
    /// It is gone. Permanent faces of stations wait for it.
    Gone,
    /// It is not wanted any more, and neither are its faces.
    Remove,
}

/// Settings of the Content Store; `None` leaves one as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CsSettings {
    /// Packets.
    pub capacity_packets: Option<usize>,
    /// Admit arriving Data.
    pub admit: Option<bool>,
    /// Answer Interests.
    pub serve: Option<bool>,
}
