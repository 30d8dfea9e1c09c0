//! UDP faces: many peers on one socket, or one peer on a connected socket.

mod input;
mod output;
mod standing;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use hashbrown::HashMap;
use ndn_forwarding::Counter;
use ndn_sys::udp::UdpSocket;
use ndn_table::FaceIndex;

use crate::leaning::Leaning;

pub(crate) use input::{DatagramInput, Opened};
pub(crate) use output::{DatagramQueue, DatagramWriter, Destination, Frame, SendCounters, Target};
pub(crate) use standing::Standing;

/// A UDP socket of a [`FaceSet`](crate::FaceSet).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChannelId(pub(crate) u32);

impl ChannelId {
    /// A small number: that of a socket that was closed is used again.
    #[must_use]
    pub fn number(self) -> usize {
        self.0 as usize
    }
}

/// What a UDP socket counts beside its faces.
#[derive(Debug, Default)]
pub struct ChannelCounters {
    /// Messages of peers that have no face, dropped.
    pub no_face: Counter,
    /// Datagrams that the kernel dropped because they were not read in time.
    pub kernel_drops: Counter,
    /// Errors of receiving, such as an ICMP message for something sent.
    pub receive_errors: Counter,
    /// System calls that received.
    pub receive_calls: Counter,
    /// System calls that sent.
    pub send_calls: Counter,
}

/// A UDP socket and who is behind it.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) socket: UdpSocket,
    pub(crate) local: SocketAddr,
    /// The face of a connected socket.
    pub(crate) owner: Option<FaceIndex>,
    /// The only peer of whom anything is taken for the owner.
    pub(crate) only: Option<SocketAddr>,
    /// The faces of an unconnected one.
    pub(crate) peers: HashMap<SocketAddr, FaceIndex>,
    /// Whether to ask for a face when a stranger sends.
    pub(crate) accepts: bool,
    pub(crate) queue: DatagramQueue,
    /// The socket is registered for writability.
    pub(crate) waits_writable: bool,
    /// The queue is listed for the next flush.
    pub(crate) listed: bool,
    pub(crate) counters: std::sync::Arc<ChannelCounters>,
    /// Whether what comes piles up.
    pub(crate) standing: Standing,
    /// What it has brought.
    pub(crate) leaning: Leaning,
    /// The kernel's count of its drops, when it last told.
    kernel_count: u32,
}

impl Channel {
    pub(crate) fn new(
        socket: UdpSocket,
        local: SocketAddr,
        owner: Option<FaceIndex>,
        accepts: bool,
    ) -> Self {
        let queue = DatagramQueue::new(socket.can_segment());
        Self {
            socket,
            local,
            owner,
            only: None,
            standing: Standing::default(),
            leaning: Leaning::default(),
            peers: HashMap::new(),
            accepts,
            queue,
            waits_writable: false,
            listed: false,
            counters: std::sync::Arc::default(),
            kernel_count: 0,
        }
    }

    /// Adds what the kernel has dropped until it counted this far, and says how much that is. The
    /// kernel's count has 32 bits, and begins again behind them.
    pub(crate) fn count_drops(&mut self, kernel_count: u32) -> u64 {
        let new_drops = kernel_count.wrapping_sub(self.kernel_count);
        if new_drops > u32::MAX / 2 {
            // An older count, of a message that overtook another one on its way into the queue.
            return 0;
        }
        self.kernel_count = kernel_count;
        self.counters.kernel_drops.add(u64::from(new_drops));
        u64::from(new_drops)
    }

    /// The face that a message from `peer` belongs to.
    pub(crate) fn face_of(&self, peer: Option<SocketAddr>) -> Option<FaceIndex> {
        match self.owner {
            Some(owner) if self.only.is_none() || self.only == peer => Some(owner),
            Some(_) => None,
            None => self.peers.get(&peer?).copied(),
        }
    }
}
