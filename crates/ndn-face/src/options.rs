//! Settings of a face, which the control thread makes or changes.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use ndn_forwarding::FaceProperties;
use ndn_types::{Persistency, PrincipalKey};

/// Default of [`LinkOptions::congestion_interval`].
pub(crate) const CONGESTION_INTERVAL: Duration = Duration::from_millis(100);
/// Default of [`LinkOptions::congestion_threshold`], bytes.
pub(crate) const CONGESTION_THRESHOLD: usize = 65_536;
/// Default of [`LinkOptions::queue_bytes_max`]. Two windows of 1,000 packets of the largest size
/// fit; memory is bounded by the worker's limit over all faces.
pub(crate) const QUEUE_BYTES_MAX: usize = 16 << 20;
/// Idle time after which an on-demand UDP face closes.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// Limits on the incomplete messages of one face.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReassemblyLimits {
    /// Fragments of one message.
    pub fragments_max: usize,
    /// Incomplete messages at a time. A further one evicts the oldest, which after loss will never be
    /// complete.
    pub messages_max: usize,
    /// Time after its latest fragment at which a message is dropped. It is dropped after four times as long in any case.
    pub timeout: Duration,
}

impl Default for ReassemblyLimits {
    /// NFD's values, and 32 messages.
    fn default() -> Self {
        Self { fragments_max: 400, messages_max: 32, timeout: Duration::from_millis(500) }
    }
}

/// Settings of a [`LinkService`](crate::LinkService).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkOptions {
    /// Largest frame that the link takes, bytes; a longer packet is fragmented. `None` on a
    /// stream, which takes whole packets of any size.
    pub mtu: Option<usize>,
    /// Send IncomingFaceId.
    pub local_fields: bool,
    /// Retransmit frames until they are acknowledged (NDNLPv2, "Link Reliability"). The peer must do the
    /// same.
    pub reliability: bool,
    /// Mark packets while the output queue exceeds the threshold (NDNLPv2, "Congestion Marking").
    pub congestion_marking: bool,
    /// Time for which the queue must exceed the threshold before the first mark; also the longest time
    /// between two marks.
    pub congestion_interval: Duration,
    /// Bytes in the output queue above which packets are marked.
    pub congestion_threshold: usize,
    /// Bytes in the output queue at which packets are dropped.
    pub queue_bytes_max: usize,
    /// Maximum rate of Interests per second, with a burst of a quarter of a second; more are dropped.
    /// `None` for no limit.
    pub interests_per_second: Option<NonZeroU32>,
    /// The same for Interests below `/localhost/nfd` and `/localhop/nfd`, set on faces whose commands
    /// management refuses repeatedly.
    pub management_per_second: Option<NonZeroU32>,
    /// Limits of reassembly.
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

/// All settings of a face.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaceOptions {
    /// Properties that forwarding uses.
    pub properties: FaceProperties,
    /// When the face goes away.
    pub persistency: Persistency,
    /// The principal whose command made the face persistent or permanent, if that was not an operator.
    pub keeper: Option<PrincipalKey>,
    /// Settings of the link service.
    pub link: LinkOptions,
    /// Time without received frames after which an on-demand face closes; `None` for never.
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
            keeper: None,
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

    /// The principal that the face itself is charged to. One that an operator keeps is charged to itself:
    /// nobody gives it up for others.
    #[must_use]
    pub fn holder(&self) -> PrincipalKey {
        let FaceProperties { principal, face_id, .. } = self.properties;
        match (self.persistency, principal) {
            (Persistency::OnDemand, _) | (_, PrincipalKey::Management) => principal,
            (Persistency::Persistent | Persistency::Permanent, _) => {
                self.keeper.unwrap_or(PrincipalKey::Neighbour { face_id })
            }
        }
    }

    /// Whether the face may be closed for those of others when its holder has more than its share.
    #[must_use]
    pub fn gives_way(&self) -> bool {
        self.persistency == Persistency::OnDemand || self.keeper.is_some()
    }
}

#[cfg(test)]
mod tests {
    use ndn_types::Scope;

    use super::*;

    #[test]
    fn faces_that_operators_keep_are_charged_to_themselves() {
        let peer = PrincipalKey::remote(([192, 0, 2, 1], 6363).into());
        let holder = |principal, persistency| {
            let own = FaceProperties::point_to_point(7, Scope::NonLocal);
            FaceOptions::datagram(FaceProperties { principal, ..own }, persistency, 1400).holder()
        };
        assert_eq!(holder(peer, Persistency::OnDemand), peer);
        for persistency in [Persistency::Persistent, Persistency::Permanent] {
            assert_eq!(holder(peer, persistency), PrincipalKey::Neighbour { face_id: 7 });
            assert_eq!(holder(PrincipalKey::Management, persistency), PrincipalKey::Management);
        }
    }

    #[test]
    fn faces_that_a_user_keeps_are_charged_to_the_user_and_give_way() {
        let peer = PrincipalKey::remote(([192, 0, 2, 1], 6363).into());
        let own = FaceProperties::point_to_point(7, Scope::NonLocal);
        let properties = FaceProperties { principal: peer, ..own };
        let user = PrincipalKey::LocalApplication { uid: 1000, pid: 0 };
        let mut options = FaceOptions::datagram(properties, Persistency::Persistent, 1400);
        assert!(!options.gives_way());
        options.keeper = Some(user);
        assert!(options.gives_way() && options.holder() == user);
    }
}
