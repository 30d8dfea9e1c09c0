//! Counters of faces and sockets: written by one worker, read by any thread.

use ndn_forwarding::Counter;

/// Why a face discarded a frame or a packet. Each variant has a counter in [`FaceCounters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum LinkDropReason {
    // On arrival.
    /// Not a well-formed LpPacket, Interest or Data.
    Malformed,
    /// A frame that is neither LpPacket nor Interest nor Data.
    UnknownType,
    /// A datagram longer than the forwarder accepts.
    Truncated,
    /// A network packet of more than 8800 bytes.
    TooLong,
    /// No pool block to put a packet into.
    NoBuffer,
    /// FragIndex not below FragCount, FragCount 0, no Sequence, or no payload.
    BadFragment,
    /// FragCount above 400.
    TooManyFragments,
    /// A fragment that was received before.
    DuplicateFragment,
    /// A fragment whose FragCount differs from that of the others.
    FragmentMismatch,
    /// Fragments that together are longer than a packet may be: the whole message is dropped.
    ReassemblyTooLong,
    /// An incomplete message that a newer one evicted, or a fragment for which there was no memory.
    ReassemblyFull,
    /// An incomplete message that received no fragment for 500 ms.
    ReassemblyTimeout,
    /// On a reliable link, a frame whose Sequence was received before.
    DuplicateSequence,
    /// An Interest beyond the rate limit of the face.
    InterestRate,
    /// An Interest to management beyond the rate limit of a face whose commands were refused too often.
    ManagementRate,

    // On departure.
    /// The packet does not fit the link even in fragments.
    OverMtu,
    /// The output queue is at its limit.
    QueueFull,
    /// The face has no connection at the moment.
    Down,
    /// The kernel refused the packet.
    SendError,
    /// On a reliable link, a packet with a frame that was lost in every retransmission.
    RetransmissionsExhausted,
}

impl LinkDropReason {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; 20] = [
        Self::Malformed,
        Self::UnknownType,
        Self::Truncated,
        Self::TooLong,
        Self::NoBuffer,
        Self::BadFragment,
        Self::TooManyFragments,
        Self::DuplicateFragment,
        Self::FragmentMismatch,
        Self::ReassemblyTooLong,
        Self::ReassemblyFull,
        Self::ReassemblyTimeout,
        Self::DuplicateSequence,
        Self::InterestRate,
        Self::ManagementRate,
        Self::OverMtu,
        Self::QueueFull,
        Self::Down,
        Self::SendError,
        Self::RetransmissionsExhausted,
    ];

    /// The name in metrics and log lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::UnknownType => "unknown_type",
            Self::Truncated => "truncated",
            Self::TooLong => "too_long",
            Self::NoBuffer => "no_buffer",
            Self::BadFragment => "bad_fragment",
            Self::TooManyFragments => "too_many_fragments",
            Self::DuplicateFragment => "duplicate_fragment",
            Self::FragmentMismatch => "fragment_mismatch",
            Self::ReassemblyTooLong => "reassembly_too_long",
            Self::ReassemblyFull => "reassembly_full",
            Self::ReassemblyTimeout => "reassembly_timeout",
            Self::DuplicateSequence => "duplicate_sequence",
            Self::InterestRate => "interest_rate",
            Self::ManagementRate => "management_rate",
            Self::OverMtu => "over_mtu",
            Self::QueueFull => "queue_full",
            Self::Down => "down",
            Self::SendError => "send_error",
            Self::RetransmissionsExhausted => "retransmissions_exhausted",
        }
    }
}

/// The counters of one face. Packets are network-layer packets; bytes and frames are those on the
/// link, headers included.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct FaceCounters {
    /// Interests received.
    pub in_interests: Counter,
    /// Data received.
    pub in_data: Counter,
    /// Nacks received.
    pub in_nacks: Counter,
    /// Frames received.
    pub in_frames: Counter,
    /// Bytes received.
    pub in_bytes: Counter,
    /// Interests put into the output queue.
    pub out_interests: Counter,
    /// Data put into the output queue.
    pub out_data: Counter,
    /// Nacks put into the output queue.
    pub out_nacks: Counter,
    /// Frames put into the output queue.
    pub out_frames: Counter,
    /// Bytes put into the output queue.
    pub out_bytes: Counter,
    /// Congestion marks that this face has set.
    pub out_marks: Counter,
    /// Frames that a reliable link has sent again.
    pub out_retransmissions: Counter,
    /// Frames of a reliable link that the peer has acknowledged.
    pub out_acknowledged: Counter,
    /// Bytes in the output queue after the last flush: a level, not a sum.
    pub queued_bytes: Counter,
    /// When the face last received something, nanoseconds on the worker's clock.
    pub last_received_ns: Counter,
    drops: [Counter; LinkDropReason::ALL.len()],
}

impl FaceCounters {
    /// The counter of one drop reason.
    #[inline]
    #[must_use]
    pub fn dropped(&self, reason: LinkDropReason) -> &Counter {
        &self.drops[reason as usize]
    }

    /// All drops together.
    #[must_use]
    pub fn dropped_total(&self) -> u64 {
        self.drops.iter().map(Counter::value).sum()
    }
}

/// System calls of the sockets of a [`FaceSet`](crate::FaceSet), and the frames that they moved: their ratio is the
/// batch size. Internal faces make no system calls and are not counted.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CallCounters {
    /// System calls that received, including those that found nothing.
    pub receive_calls: Counter,
    /// Frames that they brought.
    pub received_frames: Counter,
    /// Bytes of those frames.
    pub received_bytes: Counter,
    /// System calls that sent, including those for which the kernel had no room.
    pub send_calls: Counter,
    /// Frames that they sent. Frames of a queue that takes several calls count with the last.
    pub sent_frames: Counter,
    /// Bytes that they sent.
    pub sent_bytes: Counter,
    /// Messages that the kernel dropped because the queue was full, at UDP sockets that many
    /// peers share. A message may be several datagrams that the kernel has joined (GRO).
    pub shared_socket_drops: Counter,
    /// The same at UDP sockets of one face.
    pub own_socket_drops: Counter,
    /// Malformed frames that arrived at another worker than that of their face, or after the face was closed.
    pub bad_foreign_frames: Counter,
}

impl CallCounters {
    /// Drops at UDP sockets of one face each, or at shared ones.
    pub(crate) fn socket_drops(&self, is_of_one_face: bool) -> &Counter {
        if is_of_one_face { &self.own_socket_drops } else { &self.shared_socket_drops }
    }
}

/// What a UDP socket or a network device counts beside its faces.
#[derive(Debug, Default)]
pub struct ChannelCounters {
    /// Messages of peers that have no face, dropped.
    pub no_face: Counter,
    /// Messages that the kernel dropped because the queue of the socket was full.
    pub kernel_drops: Counter,
    /// Errors of receiving, such as an ICMP message for something sent.
    pub receive_errors: Counter,
    /// System calls that received.
    pub receive_calls: Counter,
    /// System calls that sent.
    pub send_calls: Counter,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_own_counter_and_name() {
        let counters = FaceCounters::default();
        for (index, reason) in LinkDropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
            counters.dropped(reason).add(index as u64);
            assert_eq!(counters.dropped(reason).value(), index as u64);
        }
        let mut names = LinkDropReason::ALL.map(LinkDropReason::name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(counters.dropped_total(), 190);
    }
}
