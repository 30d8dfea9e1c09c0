//! Ethernet faces: stations and a group behind one network device.

mod padding;
mod socket;

use std::sync::Arc;

use hashbrown::HashMap;
use ndn_table::FaceIndex;

use crate::datagram::{ChannelCounters, DatagramQueue};
use crate::leaning::Leaning;

pub use padding::without_padding;
pub use socket::PortSocket;

/// The EtherType of NDN.
pub const ETHER_TYPE: u16 = 0x8624;
/// Stations that may have faces on one device, however many workers have queues of it, before none is made for those
/// that nobody asked for: senders may lie about their addresses.
pub const STRANGERS_MAX: usize = 4096;

/// A network device of a [`FaceSet`](crate::FaceSet), by a small number that its owner chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId(pub u32);

impl PortId {
    /// Numbers are below this.
    pub const COUNT_MAX: u32 = 1 << 16;
}

/// What to do with a network device.
#[derive(Debug)]
pub struct PortOptions {
    /// Its name.
    pub name: Arc<str>,
    /// The socket on it; none while there is no such device.
    pub socket: Option<PortSocket>,
    /// Frames can go out.
    pub is_up: bool,
    /// Whether to ask for a face when a stranger sends.
    pub accepts: bool,
    /// Other workers have queues of the device, too, and perhaps the faces of those who send to ours.
    pub has_others: bool,
}

/// A network device and who is behind it.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) name: Arc<str>,
    pub(crate) socket: Option<PortSocket>,
    pub(crate) is_up: bool,
    pub(crate) accepts: bool,
    pub(crate) has_others: bool,
    /// The face of the group that the socket has joined: ours, or known to be another worker's.
    pub(crate) group: Option<FaceIndex>,
    /// Likewise.
    pub(crate) stations: HashMap<[u8; 6], FaceIndex>,
    /// How many of them are ours.
    pub(crate) own_count: usize,
    pub(crate) queue: DatagramQueue,
    /// The socket is registered for writability.
    pub(crate) waits_writable: bool,
    /// The queue is listed for the next flush.
    pub(crate) listed: bool,
    /// The stranger who sent the next frame has been reported.
    pub(crate) reported: bool,
    /// Frames left for the current event.
    pub(crate) frames_left: usize,
    pub(crate) counters: Arc<ChannelCounters>,
    pub(crate) leaning: Leaning,
}

impl Port {
    pub(crate) fn new(options: PortOptions) -> Self {
        let PortOptions { name, socket, is_up, accepts, has_others } = options;
        Self {
            name,
            socket,
            is_up,
            accepts,
            has_others,
            group: None,
            stations: HashMap::new(),
            own_count: 0,
            queue: DatagramQueue::in_order(),
            waits_writable: false,
            listed: false,
            reported: false,
            frames_left: 0,
            counters: Arc::default(),
            leaning: Leaning::default(),
        }
    }

    /// Whether one more stranger may have a face, for all that is known here: of the faces of other workers, those only
    /// are that have sent to ours.
    pub(crate) fn has_room(&self) -> bool {
        self.own_count < STRANGERS_MAX
    }

    /// All faces on it, those of other workers among them.
    pub(crate) fn faces(&self) -> Vec<FaceIndex> {
        let mut faces: Vec<_> = self.stations.values().copied().chain(self.group).collect();
        faces.sort_unstable();
        faces
    }
}

/// Whether frames to this address go to several stations.
pub(crate) fn is_group(mac: [u8; 6]) -> bool {
    mac[0] & 1 != 0
}
