//! What the control thread says about a face when it makes or changes it.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use ndn_forwarding::FaceProperties;
use ndn_types::Persistency;

use crate::ReassemblyLimits;

/// Default of [`LinkOptions::congestion_interval`].
pub const CONGESTION_INTERVAL: Duration = Duration::from_millis(100);
/// Default of [`LinkOptions::congestion_threshold`], bytes.
pub const CONGESTION_THRESHOLD: usize = 65_536;
/// Default of [`LinkOptions::queue_bytes_max`]. Two windows of 1,000 packets of the largest size
/// fit; the worker's own limit over all faces is what bounds memory.
pub const QUEUE_BYTES_MAX: usize = 16 << 20;
/// Idle time after which an on-demand UDP face closes.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// Settings of a [`LinkService`](crate::LinkService).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkOptions {
    /// Largest frame that the link takes, bytes; a longer packet is fragmented. `None` on a
    /// stream, which takes whole packets of any size.
    pub mtu: Option<usize>,
    /// Send IncomingFaceId.
    pub local_fields: bool,
    /// Have frames acknowledged, and send them again until they are (NDNLPv2, "Link
    /// Reliability"). The peer must do the same.
    pub reliability: bool,
    /// Mark packets while the output queue is long.
    pub congestion_marking: bool,
    /// How long the queue must have been long before the first mark; also the longest time
    /// between two marks.
    pub congestion_interval: Duration,
    /// Bytes in the output queue from which it is long.
    pub congestion_threshold: usize,
    /// Bytes in the output queue at which packets are dropped.
    pub queue_bytes_max: usize,
    /// Interests taken per second; beyond them, and what comes in a quarter of a second in one
    /// burst, they are dropped. `None` for as many as come.
    pub interests_per_second: Option<NonZeroU32>,
    /// The same for Interests below `/localhost/nfd` and `/localhop/nfd`: what a face is held to whose
    /// commands management keeps refusing.
    pub management_per_second: Option<NonZeroU32>,
    /// What is taken of packets in pieces.
    pub reassembly: ReassemblyLimits,
}

impl LinkOptions {
    /// The defaults for a stream transport: no fragmentation, no local fields, and congestion
    /// marking with NFD's values.
    #[must_use]
    pub fn stream() -> Self {
        Self {
            mtu: None,
            local_fields: false,
            reliability: false,
            congestion_marking: true,
            congestion_interval: CONGESTION_INTERVAL,
            congestion_threshold: CONGESTION_THRESHOLD,
            queue_bytes_max: QUEUE_BYTES_MAX,
            interests_per_second: None,
            management_per_second: None,
            reassembly: ReassemblyLimits::default(),
        }
    }

    /// The defaults for a datagram transport with frames of at most `mtu` bytes.
    #[must_use]
    pub fn datagram(mtu: usize) -> Self {
        Self { mtu: Some(mtu), ..Self::stream() }
    }
}

/// A face to be made, or how a face is to be from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaceOptions {
    /// What forwarding has to know.
    pub properties: FaceProperties,
    /// When the face goes away.
    pub persistency: Persistency,
    /// What the link service has to know.
    pub link: LinkOptions,
    /// An on-demand face closes after it has received nothing for so long; `None` for never.
    pub idle_timeout: Option<Duration>,
    /// Where a permanent TCP face connects to when its connection fails.
    pub reconnect_to: Option<SocketAddr>,
}

impl FaceOptions {
    /// A stream face: it closes with its connection.
    #[must_use]
    pub fn stream(properties: FaceProperties, persistency: Persistency) -> Self {
        Self {
            properties,
            persistency,
            link: LinkOptions { local_fields: properties.local_fields, ..LinkOptions::stream() },
            idle_timeout: None,
            reconnect_to: None,
        }
    }

    /// A datagram face with frames of at most `mtu` bytes. On demand, it closes when idle.
    #[must_use]
    pub fn datagram(properties: FaceProperties, persistency: Persistency, mtu: usize) -> Self {
        let local_fields = properties.local_fields;
        Self {
            link: LinkOptions { local_fields, ..LinkOptions::datagram(mtu) },
            idle_timeout: Some(IDLE_TIMEOUT),
            ..Self::stream(properties, persistency)
        }
    }
}
