//! Face properties that forwarding uses.

use ndn_table::FaceIndex;
use ndn_types::{LinkType, PrincipalClass, PrincipalKey, Scope};

use crate::Flags;

/// When Interests sent on a face carry a PIT token of this forwarder.
///
/// Some applications reject an Interest with a token, and few return it, so faces to local
/// applications use [`Never`](Self::Never).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PitTokenPolicy {
    /// Never.
    Never,
    /// From the first Interest on: the peer is known to return tokens.
    Always,
    /// Once the peer has sent an Interest with a token.
    WhenSeen,
}

/// Properties of a face, as the control thread passes them to a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaceProperties {
    /// FaceId of the management protocol.
    pub face_id: u64,
    /// Local or non-local.
    pub scope: Scope,
    /// Point-to-point, multi-access or ad-hoc.
    pub link_type: LinkType,
    /// When to originate PIT tokens.
    pub pit_tokens: PitTokenPolicy,
    /// Whether IncomingFaceId is sent, and NextHopFaceId is followed.
    pub local_fields: bool,
    /// The principal that is charged for its packets.
    pub principal: PrincipalKey,
}

impl FaceProperties {
    /// A point-to-point face without tokens or local fields, which is a principal of its own
    /// ([`PrincipalKey::Neighbour`]).
    #[must_use]
    pub fn point_to_point(face_id: u64, scope: Scope) -> Self {
        Self {
            face_id,
            scope,
            link_type: LinkType::PointToPoint,
            pit_tokens: PitTokenPolicy::Never,
            local_fields: false,
            principal: PrincipalKey::Neighbour { face_id },
        }
    }
}

/// The arrival face of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RxFace {
    /// The face.
    pub index: FaceIndex,
    /// Local or non-local.
    pub scope: Scope,
    /// Point-to-point, multi-access or ad-hoc.
    pub link_type: LinkType,
    /// Whether NextHopFaceId is followed; otherwise it is ignored.
    pub local_fields: bool,
    /// Whether the lifetime of its Interests is limited as that of on-demand peers.
    pub is_remote: bool,
    /// The same properties as descriptor flags.
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
            is_remote: properties.principal.class() == PrincipalClass::Remote,
            flags: Flags::default()
                .with(Flags::FROM_LOCAL, properties.scope == Scope::Local)
                .with(Flags::FROM_POINT_TO_POINT, properties.link_type == LinkType::PointToPoint)
                .with(Flags::FROM_AD_HOC, properties.link_type == LinkType::AdHoc),
        }
    }
}
