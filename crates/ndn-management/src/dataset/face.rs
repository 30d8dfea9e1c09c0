//! Blocks of `faces/list`, `faces/query` and `faces/channels`.

use ndn_packet::DecodeError;
use ndn_packet::tlv::{self, Tlv};

use super::DatasetItem;
use super::declare::dataset;
use crate::block::{self, OrderedFields};
use crate::numbers;
use crate::types::{LinkType, Persistency, Scope};

dataset! { part:
    /// The properties of a face.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct FaceProperties {
        /// FaceId; never reused while the forwarder runs.
        pub face_id: u64,
        /// Remote URI.
        pub remote_uri: String,
        /// Local URI.
        pub local_uri: String,
        /// `local` or `non-local`: whether the peer is on this host.
        pub scope: Scope,
        /// `on-demand`, `persistent` or `permanent`: when the face closes.
        pub persistency: Persistency,
        /// `point-to-point`, `multi-access` or `adhoc`: the number of its peers.
        pub link_type: LinkType,
        /// [`face_flag`](crate::face_flag) bits.
        pub flags: u64,
    }
}

dataset! { part:
    /// The counters of a face: network-layer packets, and bytes on the link.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct FaceCounters {
        /// Interests received.
        pub in_interests: u64,
        /// Data received.
        pub in_data: u64,
        /// Nacks received.
        pub in_nacks: u64,
        /// Interests sent.
        pub out_interests: u64,
        /// Data sent.
        pub out_data: u64,
        /// Nacks sent.
        pub out_nacks: u64,
        /// Bytes received.
        pub in_bytes: u64,
        /// Bytes sent.
        pub out_bytes: u64,
    }
}

dataset! { item:
    /// One face in `faces/list` and `faces/query`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct FaceStatus {
        /// Its properties.
        pub properties: FaceProperties,
        /// Time until an idle on-demand face is closed, milliseconds.
        pub expiration_period_ms: Option<u64>,
        /// Interval of congestion marking, nanoseconds.
        pub base_congestion_marking_interval_ns: Option<u64>,
        /// Queue length at which congestion marking starts, bytes.
        pub default_congestion_threshold: Option<u64>,
        /// Maximum length of a packet, bytes.
        pub mtu: Option<u64>,
        /// Its counters.
        pub counters: FaceCounters,
    }
}

impl DatasetItem for FaceStatus {
    const TYPE: u32 = numbers::DATASET_ITEM;

    fn encode(&self, out: &mut Vec<u8>) {
        let properties = &self.properties;
        let counters = &self.counters;
        tlv::append_nested(out, Self::TYPE, |out| {
            tlv::append_number(out, numbers::FACE_ID, properties.face_id);
            block::append_text(out, numbers::URI, &properties.remote_uri);
            block::append_text(out, numbers::LOCAL_URI, &properties.local_uri);
            block::append_optional_number(
                out,
                numbers::EXPIRATION_PERIOD,
                self.expiration_period_ms,
            );
            append_kind(out, properties);
            block::append_optional_number(
                out,
                numbers::BASE_CONGESTION_MARKING_INTERVAL,
                self.base_congestion_marking_interval_ns,
            );
            block::append_optional_number(
                out,
                numbers::DEFAULT_CONGESTION_THRESHOLD,
                self.default_congestion_threshold,
            );
            block::append_optional_number(out, numbers::MTU, self.mtu);
            for (number, value) in [
                (numbers::N_IN_INTERESTS, counters.in_interests),
                (numbers::N_IN_DATA, counters.in_data),
                (numbers::N_IN_NACKS, counters.in_nacks),
                (numbers::N_OUT_INTERESTS, counters.out_interests),
                (numbers::N_OUT_DATA, counters.out_data),
                (numbers::N_OUT_NACKS, counters.out_nacks),
                (numbers::N_IN_BYTES, counters.in_bytes),
                (numbers::N_OUT_BYTES, counters.out_bytes),
                (numbers::FLAGS, properties.flags),
            ] {
                tlv::append_number(out, number, value);
            }
        });
    }

    fn decode_fields(block: Tlv<'_>) -> Result<Self, DecodeError> {
        let mut fields = OrderedFields::new(block.reader());
        let mut properties = FaceProperties {
            face_id: fields.number(numbers::FACE_ID)?,
            remote_uri: fields.text(numbers::URI)?,
            local_uri: fields.text(numbers::LOCAL_URI)?,
            scope: Scope::NonLocal,
            persistency: Persistency::Persistent,
            link_type: LinkType::PointToPoint,
            flags: 0,
        };
        let expiration_period_ms = fields.optional_number(numbers::EXPIRATION_PERIOD)?;
        properties.scope = fields.variant(numbers::FACE_SCOPE, Scope::from_number)?;
        properties.persistency =
            fields.variant(numbers::FACE_PERSISTENCY, Persistency::from_number)?;
        properties.link_type = fields.variant(numbers::LINK_TYPE, LinkType::from_number)?;
        let base_congestion_marking_interval_ns =
            fields.optional_number(numbers::BASE_CONGESTION_MARKING_INTERVAL)?;
        let default_congestion_threshold =
            fields.optional_number(numbers::DEFAULT_CONGESTION_THRESHOLD)?;
        let mtu = fields.optional_number(numbers::MTU)?;
        let counters = FaceCounters {
            in_interests: fields.number(numbers::N_IN_INTERESTS)?,
            in_data: fields.number(numbers::N_IN_DATA)?,
            in_nacks: fields.number(numbers::N_IN_NACKS)?,
            out_interests: fields.number(numbers::N_OUT_INTERESTS)?,
            out_data: fields.number(numbers::N_OUT_DATA)?,
            out_nacks: fields.number(numbers::N_OUT_NACKS)?,
            in_bytes: fields.number(numbers::N_IN_BYTES)?,
            out_bytes: fields.number(numbers::N_OUT_BYTES)?,
        };
        properties.flags = fields.number(numbers::FLAGS)?;
        Ok(Self {
            properties,
            expiration_period_ms,
            base_congestion_marking_interval_ns,
            default_congestion_threshold,
            mtu,
            counters,
        })
    }
}

/// `Scope`, `Persistency`, `LinkType`, in this order in every block that has them.
pub(super) fn append_kind(out: &mut Vec<u8>, properties: &FaceProperties) {
    tlv::append_number(out, numbers::FACE_SCOPE, properties.scope.number());
    tlv::append_number(out, numbers::FACE_PERSISTENCY, properties.persistency.number());
    tlv::append_number(out, numbers::LINK_TYPE, properties.link_type.number());
}

dataset! { item:
    /// One listener in `faces/channels`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ChannelStatus {
        /// Its URI.
        pub local_uri: String,
    }
}

impl DatasetItem for ChannelStatus {
    const TYPE: u32 = numbers::CHANNEL_STATUS;

    fn encode(&self, out: &mut Vec<u8>) {
        tlv::append_nested(out, Self::TYPE, |out| {
            block::append_text(out, numbers::LOCAL_URI, &self.local_uri);
        });
    }

    fn decode_fields(block: Tlv<'_>) -> Result<Self, DecodeError> {
        Ok(Self { local_uri: OrderedFields::new(block.reader()).text(numbers::LOCAL_URI)? })
    }
}

/// The filter of `faces/query`: a face matches if it agrees in every field that is present.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaceQueryFilter {
    /// FaceId.
    pub face_id: Option<u64>,
    /// Scheme of the remote or of the local face URI.
    pub uri_scheme: Option<String>,
    /// Whole remote face URI.
    pub remote_uri: Option<String>,
    /// Whole local face URI.
    pub local_uri: Option<String>,
    /// Number of a scope; an unknown number matches no face.
    pub scope: Option<u64>,
    /// Number of a persistency, likewise.
    pub persistency: Option<u64>,
    /// Number of a link type, likewise.
    pub link_type: Option<u64>,
}

impl FaceQueryFilter {
    /// Whether a face matches.
    #[must_use]
    pub fn matches(&self, face: &FaceProperties) -> bool {
        let scheme_matches = |requested: &str| {
            [&face.remote_uri, &face.local_uri]
                .iter()
                .any(|uri| uri.strip_prefix(requested).is_some_and(|rest| rest.starts_with("://")))
        };
        self.face_id.is_none_or(|face_id| face_id == face.face_id)
            && self.uri_scheme.as_deref().is_none_or(scheme_matches)
            && self.remote_uri.as_ref().is_none_or(|uri| *uri == face.remote_uri)
            && self.local_uri.as_ref().is_none_or(|uri| *uri == face.local_uri)
            && self.scope.is_none_or(|scope| scope == face.scope.number())
            && self.persistency.is_none_or(|number| number == face.persistency.number())
            && self.link_type.is_none_or(|number| number == face.link_type.number())
    }
}

impl DatasetItem for FaceQueryFilter {
    const TYPE: u32 = numbers::FACE_QUERY_FILTER;

    fn encode(&self, out: &mut Vec<u8>) {
        tlv::append_nested(out, Self::TYPE, |out| {
            block::append_optional_number(out, numbers::FACE_ID, self.face_id);
            block::append_optional_text(out, numbers::URI_SCHEME, self.uri_scheme.as_deref());
            block::append_optional_text(out, numbers::URI, self.remote_uri.as_deref());
            block::append_optional_text(out, numbers::LOCAL_URI, self.local_uri.as_deref());
            block::append_optional_number(out, numbers::FACE_SCOPE, self.scope);
            block::append_optional_number(out, numbers::FACE_PERSISTENCY, self.persistency);
            block::append_optional_number(out, numbers::LINK_TYPE, self.link_type);
        });
    }

    fn decode_fields(block: Tlv<'_>) -> Result<Self, DecodeError> {
        let mut fields = OrderedFields::new(block.reader());
        Ok(Self {
            face_id: fields.optional_number(numbers::FACE_ID)?,
            uri_scheme: fields.optional_lossy_text(numbers::URI_SCHEME)?,
            remote_uri: fields.optional_lossy_text(numbers::URI)?,
            local_uri: fields.optional_lossy_text(numbers::LOCAL_URI)?,
            scope: fields.optional_number(numbers::FACE_SCOPE)?,
            persistency: fields.optional_number(numbers::FACE_PERSISTENCY)?,
            link_type: fields.optional_number(numbers::LINK_TYPE)?,
        })
    }
}
