//! Counters of a listener. Only the thread of the service writes them.

ndn_types::counters! {
    /// Events at the listeners, and on all sessions together.
    #[derive(Debug, Default)]
    pub struct Counters, WebTransportValues {
        /// Sessions that were accepted.
        accepted: Monotone(Sessions),
        /// Sessions that have ended.
        ended: Monotone(Sessions),
        /// Connections rejected or ended because their peer had its share of the handshakes or sessions.
        refused_full: Monotone(Connections),
        /// Connections that had to prove their address first, because many handshakes were in progress.
        retried: Monotone(Connections),
        /// Requests for another path.
        refused_path: Monotone(Requests),
        /// Requests of web pages whose origin may not connect.
        refused_origin: Monotone(Requests),
        /// Peers that take no datagrams, or too short ones.
        refused_datagrams: Monotone(Connections),
        /// Connections that did not become a session: no HTTP/3, a broken or unfinished handshake.
        failed: Monotone(Connections),
        /// Received datagrams that are not one whole TLV element. They are dropped.
        malformed_datagrams: Monotone(Datagrams),
        /// Packets that came by streams of their own.
        received_streams: Monotone(Packets),
        /// Packets sent by streams of their own.
        sent_streams: Monotone(Packets),
        /// Packets sent by streams of their own that the peer's QUIC did not take, or did not confirm before the session
        /// ended.
        lost_streams: Monotone(Packets),
        /// Received streams that are not one whole TLV element, or were taken back. They are dropped.
        malformed_streams: Monotone(Streams),
        /// Received streams that took too long. They are dropped.
        overdue_streams: Monotone(Streams),
        /// Frames that were longer than the path takes at that moment. They are dropped.
        oversized_frames: Monotone(Frames),
    }
}
