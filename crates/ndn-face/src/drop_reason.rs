//! Why a face threw a frame or a packet away.

/// Why a link service or a transport dropped what it had; each has a counter of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum LinkDropReason {
    /// Received: not an LpPacket, an Interest or a Data, or a header field breaks the rules.
    MalformedHeader,
    /// Received: a fragment without Sequence, with FragIndex not below FragCount, or with another
    /// FragCount than the message's other fragments.
    InvalidFragment,
    /// Received: more fragments than a message may have.
    FragmentCount,
    /// Received: a fragment that was there already.
    DuplicateFragment,
    /// Received: a message whose fragments together are longer than a packet may be.
    MessageLength,
    /// Received: a partial message given up for a newer one.
    ReassemblyFull,
    /// Received: a partial message whose other fragments did not come in time.
    ReassemblyTimeout,
    /// Received: longer than the transport's frame limit.
    FrameLength,
    /// Received: no buffer was free to take it.
    NoBuffer,
    /// To send: longer than the MTU, on a face that does not fragment, or in too many fragments.
    MtuExceeded,
    /// To send: the output queue is full.
    QueueFull,
    /// To send: the face has no connection.
    NotConnected,
    /// To send: the socket refused it.
    SendFailed,
}

impl LinkDropReason {
    /// Every reason, in the order of the discriminants.
    pub const ALL: [Self; 13] = [
        Self::MalformedHeader,
        Self::InvalidFragment,
        Self::FragmentCount,
        Self::DuplicateFragment,
        Self::MessageLength,
        Self::ReassemblyFull,
        Self::ReassemblyTimeout,
        Self::FrameLength,
        Self::NoBuffer,
        Self::MtuExceeded,
        Self::QueueFull,
        Self::NotConnected,
        Self::SendFailed,
    ];

    /// The name in logs and statistics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MalformedHeader => "malformed-header",
            Self::InvalidFragment => "invalid-fragment",
            Self::FragmentCount => "fragment-count",
            Self::DuplicateFragment => "duplicate-fragment",
            Self::MessageLength => "message-length",
            Self::ReassemblyFull => "reassembly-full",
            Self::ReassemblyTimeout => "reassembly-timeout",
            Self::FrameLength => "frame-length",
            Self::NoBuffer => "no-buffer",
            Self::MtuExceeded => "mtu-exceeded",
            Self::QueueFull => "queue-full",
            Self::NotConnected => "not-connected",
            Self::SendFailed => "send-failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_in_the_order_of_the_discriminants_and_names_differ() {
        for (index, reason) in LinkDropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
        }
        let names: std::collections::BTreeSet<_> =
            LinkDropReason::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), LinkDropReason::ALL.len());
    }
}
