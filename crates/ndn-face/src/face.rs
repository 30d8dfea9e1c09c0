//! One face.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use ndn_forwarding::RxFace;
use ndn_table::{FaceIndex, Timestamp};

use crate::datagram::ChannelId;
use crate::ether::PortId;
use crate::internal::InternalEnd;
use crate::leaning::Leaning;
use crate::memif::MemifTransport;
use crate::output::OutputQueue;
use crate::reconnect::Reconnect;
use crate::websocket::WebSocket;
use crate::{FaceOptions, LinkService, Persistency};

/// A link service and a transport, and what the face's worker has to know.
///
/// Ten thousand of these may be idle, so it stays small: what a face needs only while it is
/// active is taken from the worker and given back.
#[derive(Debug)]
pub(crate) struct Face {
    pub(crate) index: FaceIndex,
    /// What goes with each received packet.
    pub(crate) rx: RxFace,
    pub(crate) link: LinkService,
    pub(crate) transport: Transport,
    pub(crate) options: FaceOptions,
    /// When the face is due for a look at its timers.
    pub(crate) deadline: Option<Timestamp>,
    /// The face is listed for the next flush.
    pub(crate) listed: bool,
    /// What its stream has brought.
    pub(crate) leaning: Leaning,
    /// A socket that only receives, from its peer alone.
    pub(crate) own_input: Option<ChannelId>,
}

/// How the frames of a face travel.
#[derive(Debug)]
pub(crate) enum Transport {
    Stream(StreamTransport),
    Datagram {
        channel: ChannelId,
        peer: Option<SocketAddr>,
    },
    /// Frames to a station or a group behind a network device.
    Ether {
        port: PortId,
        mac: [u8; 6],
    },
    /// Rings in shared memory.
    Memif(Box<MemifTransport>),
    Internal(InternalEnd),
}

/// A byte stream: Unix or TCP, perhaps with WebSocket on it.
#[derive(Debug)]
pub(crate) struct StreamTransport {
    pub(crate) connection: Connection,
    /// The beginning of a frame whose end has not been read.
    pub(crate) partial: Vec<u8>,
    /// Taken from the worker's spare ones when something is sent, given back when all of it is
    /// written.
    pub(crate) output: Option<Box<OutputQueue>>,
    /// Frames travel in WebSocket messages.
    pub(crate) websocket: Option<Box<WebSocket>>,
}

/// The connection of a stream face.
#[derive(Debug)]
pub(crate) enum Connection {
    /// There is one.
    Up(OwnedFd),
    /// There is none, or only an attempt.
    Down { reconnect: Reconnect, attempt: Option<OwnedFd> },
}

impl Face {
    /// Gives the link service its options, as far as the transport of the moment allows.
    pub(crate) fn set_link_options(&mut self) {
        let mut options = self.options.link;
        if let Transport::Memif(memif) = &self.transport
            && let (Some(mtu), Some(longest)) = (options.mtu, memif.frame_length_max())
        {
            options.mtu = Some(mtu.min(longest));
        }
        self.link.set_options(options);
    }

    /// Whether the face has lost its connection.
    pub(crate) fn is_down(&self) -> bool {
        match &self.transport {
            Transport::Stream(stream) => matches!(stream.connection, Connection::Down { .. }),
            Transport::Memif(memif) => !memif.is_up(),
            Transport::Datagram { .. } | Transport::Ether { .. } | Transport::Internal(_) => false,
        }
    }

    /// When the face needs a look: its link service, its idle timeout, its reconnection.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        let reconnect = match &self.transport {
            Transport::Stream(StreamTransport {
                connection: Connection::Down { reconnect, .. },
                ..
            }) => Some(reconnect.deadline()),
            Transport::Memif(memif) => memif.next_deadline(),
            Transport::Stream(_)
            | Transport::Datagram { .. }
            | Transport::Ether { .. }
            | Transport::Internal(_) => None,
        };
        let websocket = match &self.transport {
            Transport::Stream(stream) => stream.websocket.as_ref().map(|one| one.next_deadline()),
            Transport::Datagram { .. }
            | Transport::Ether { .. }
            | Transport::Memif(_)
            | Transport::Internal(_) => None,
        };
        let deadlines = [self.link.next_deadline(), self.idle_deadline(), reconnect, websocket];
        deadlines.into_iter().flatten().min()
    }

    /// When the face closes if it receives nothing.
    pub(crate) fn idle_deadline(&self) -> Option<Timestamp> {
        let timeout = self.options.idle_timeout?;
        let last = Timestamp::from_nanos(self.link.counters().last_received_ns.value());
        (self.options.persistency == Persistency::OnDemand).then(|| last.plus(timeout))
    }
}
