//! Counters of faces and sockets: written by one worker, read by any thread.

pub use ndn_counters::{CallCounters, CallValues, FaceCounters, FaceValues, LinkDropReason};
use ndn_types::Counter;

/// Counters of a UDP socket or a network device, beside those of its faces.
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
