//! What forwarding knows of a face.

use ndn_table::FaceIndex;
use ndn_types::{LinkType, Scope};

use crate::Flags;

/// When Interests that leave by a face carry a PIT token of ours.
///
/// Some applications refuse an Interest with a token, and few return it, so a face toward a
/// local application says [`Never`](Self::Never).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PitTokenPolicy {
    /// Never.
    Never,
    /// From the first Interest on: the peer is known to return tokens.
    Always,
    /// Once the peer has sent an Interest with a token itself.
    WhenSeen,
}

/// What the control thread tells a shard of a face.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaceProperties {
    /// The management protocol's number of the face.
    pub face_id: u64,
    /// Local or not.
    pub scope: Scope,
    /// Who is at the other end.
    pub link_type: LinkType,
    /// When to originate PIT tokens.
    pub pit_tokens: PitTokenPolicy,
    /// Whether IncomingFaceId is sent, and NextHopFaceId is heeded.
    pub local_fields: bool,
    /// Whether the Interests that the face may have pending are limited
    /// ([`ShardConfig::pending_quota`](crate::ShardConfig::pending_quota)).
    pub pending_quota: bool,
}

impl FaceProperties {
    /// A point-to-point face with neither tokens nor local fields.
    #[must_use]
    pub fn point_to_point(face_id: u64, scope: Scope) -> Self {
        Self {
            face_id,
            scope,
            link_type: LinkType::PointToPoint,
            pit_tokens: PitTokenPolicy::Never,
            local_fields: false,
            pending_quota: false,
        }
    }
}

/// The face that a packet arrives on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RxFace {
    /// The face.
    pub index: FaceIndex,
    /// Local or not.
    pub scope: Scope,
    /// Who is at the other end.
    pub link_type: LinkType,
    /// Whether NextHopFaceId is heeded; otherwise it is ignored here.
    pub local_fields: bool,
    /// The same as they stand in a descriptor.
    pub(crate) flags: Flags,
}

impl RxFace {
    /// The face `index` with these properties.
    #[must_use]
    pub fn new(index: FaceIndex, properties: &FaceProperties) -> Self {
        Self {
            index,
            scope: properties.scope,
            link_type: properties.link_type,
            local_fields: properties.local_fields,
            flags: Flags::default()
                .with(Flags::FROM_LOCAL, properties.scope == Scope::Local)
                .with(Flags::FROM_POINT_TO_POINT, properties.link_type == LinkType::PointToPoint)
                .with(Flags::FROM_AD_HOC, properties.link_type == LinkType::AdHoc),
        }
    }
}
