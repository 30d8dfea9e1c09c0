//! Counters of faces and sockets: written by one worker, read by any thread.

use ndn_types::Counter;

ndn_types::drop_reasons! {
    /// Why a face dropped a frame or a packet. Each variant has a counter in [`FaceCounters`].
    pub enum LinkDropReason {
        "Receiving" {
            /// Not a well-formed LpPacket, Interest or Data.
            Malformed = "malformed",
            /// A frame that is neither LpPacket nor Interest nor Data.
            UnknownType = "unknown_type",
            /// A datagram longer than the receive buffer.
            Truncated = "truncated",
            /// A network packet of more than 8,800 bytes.
            TooLong = "too_long",
            /// No packet buffer was free.
            NoBuffer = "no_buffer" as "without packet memory",
            /// FragIndex not below FragCount, FragCount 0, no Sequence, or no payload.
            BadFragment = "bad_fragment",
            /// FragCount above `limits.reassembly_fragments`.
            TooManyFragments = "too_many_fragments",
            /// A fragment that was received before.
            DuplicateFragment = "duplicate_fragment",
            /// A fragment whose FragCount differs from that of the others.
            FragmentMismatch = "fragment_mismatch",
            /// The fragments together exceed the packet size: all of them are dropped.
            ReassemblyTooLong = "reassembly_too_long",
            /// An incomplete packet that a newer one displaced, or a fragment for which there was no memory.
            ReassemblyFull = "reassembly_full",
            /// An incomplete packet whose fragments did not arrive within `limits.reassembly_timeout`.
            ReassemblyTimeout = "reassembly_timeout",
            /// On a reliable link, a frame whose Sequence was received before.
            DuplicateSequence = "duplicate_sequence",
            /// An Interest beyond `limits.interests_per_second`.
            InterestRate = "interest_rate",
            /// An Interest to management from a face that is limited because too many of its commands were rejected.
            ManagementRate = "management_rate",
        }
        "Sending" {
            /// The packet cannot be sent on this link, even in fragments.
            OverMtu = "over_mtu" as "too long for the link",
            /// The output queue is full (`send_queue`).
            QueueFull = "queue_full",
            /// The face has no connection at the moment.
            Down = "down" as "without a connection",
            /// The kernel rejected the packet.
            SendError = "send_error" as "refused by the kernel",
            /// On a reliable link, a packet with a frame that was lost in every retransmission.
            RetransmissionsExhausted = "retransmissions_exhausted",
        }
    }
}

ndn_types::counters! {
    /// The counters of one face. Packets are network-layer packets; bytes and frames are those on the
    /// link, headers included.
    #[derive(Debug, Default)]
    #[repr(align(128))]
    pub struct FaceCounters, FaceValues {
        /// Interests received.
        in_interests: Monotone(Packets),
        /// Data received.
        in_data: Monotone(Packets),
        /// Nacks received.
        in_nacks: Monotone(Packets),
        /// Frames received.
        in_frames: Monotone(Frames),
        /// Bytes received.
        in_bytes: Monotone(Bytes),
        /// Interests put into the output queue.
        out_interests: Monotone(Packets),
        /// Data put into the output queue.
        out_data: Monotone(Packets),
        /// Nacks put into the output queue.
        out_nacks: Monotone(Packets),
        /// Frames put into the output queue.
        out_frames: Monotone(Frames),
        /// Bytes put into the output queue.
        out_bytes: Monotone(Bytes),
        /// Congestion marks that this face has set.
        out_marks: Monotone(Marks),
        /// Frames that a reliable link has retransmitted.
        out_retransmissions: Monotone(Frames),
        /// Frames of a reliable link that the peer has acknowledged.
        out_acknowledged: Monotone(Frames),
        /// Bytes in the output queue after the last flush.
        queued_bytes: Gauge(Bytes),
        state
        /// When the face last received something, nanoseconds on the worker's clock.
        pub last_received_ns: Counter,
        drops: [Counter; LinkDropReason::ALL.len()],
    }
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

ndn_types::counters! {
    /// System calls of the sockets of a worker, and the frames that they moved: their ratio is the
    /// batch size. Internal faces make no system calls and are not counted.
    #[derive(Debug, Default)]
    #[repr(align(128))]
    pub struct CallCounters, CallValues {
        /// System calls that received, including those that found nothing.
        receive_calls: Monotone(Calls),
        /// Frames received by system calls.
        received_frames: Monotone(Frames),
        /// Bytes of the frames received by system calls.
        received_bytes: Monotone(Bytes),
        /// System calls that sent, including those for which the kernel had no room.
        send_calls: Monotone(Calls),
        /// Frames sent by system calls. Those of a queue that takes several calls count with the last.
        sent_frames: Monotone(Frames),
        /// Bytes of the frames sent by system calls.
        sent_bytes: Monotone(Bytes),
        /// Messages that the kernel dropped at UDP sockets shared by peers because the receive buffer was full. A message
        /// may be several datagrams that the kernel has joined (GRO).
        shared_socket_drops: Monotone(Messages),
        /// Messages that the kernel dropped at UDP sockets of one face because the receive buffer was full.
        own_socket_drops: Monotone(Messages),
        /// Frames dropped by another worker than that of their face, or after the face was destroyed, because they were
        /// malformed or no buffer was free.
        bad_remote_frames: Monotone(Frames),
        /// Packets and frames dropped because their face had been destroyed when its worker got to them.
        destroyed_face: Monotone(Frames),
        /// Connections closed because the peer sent something other than Interests, Data and LpPackets.
        other_protocol: Monotone(Connections),
    }
}

impl CallCounters {
    /// Drops at UDP sockets of one face each, or at shared ones.
    #[inline]
    #[must_use]
    pub fn socket_drops(&self, is_of_one_face: bool) -> &Counter {
        if is_of_one_face { &self.own_socket_drops } else { &self.shared_socket_drops }
    }
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
