//! Blocks of `faces/list`, `faces/query` and `faces/channels`.

use super::declare::dataset;
use crate::types::face_flag;
use ndn_types::{LinkType, Persistency, Scope};

dataset! {
    /// The properties of a face.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct FaceProperties {
        /// FaceId; never reused while the forwarder runs.
        pub face_id: u64 = FACE_ID,
        /// Remote URI.
        pub remote_uri: String = URI,
        /// Local URI.
        pub local_uri: String = LOCAL_URI,
        /// `local` or `non-local`: whether the peer is on this host.
        pub scope: Scope = FACE_SCOPE,
        /// `on-demand`, `persistent` or `permanent`: when the face closes.
        pub persistency: Persistency = FACE_PERSISTENCY,
        /// `point-to-point`, `multi-access` or `adhoc`: the number of its peers.
        pub link_type: LinkType = LINK_TYPE,
        /// [`face_flag`] bits.
        pub flags: u64 = FLAGS as face_flag::FLAGS,
    }
}

dataset! {
    /// The counters of a face: network-layer packets, and bytes on the link.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct FaceCounters {
        /// Interests received.
        pub in_interests: u64 = N_IN_INTERESTS,
        /// Data received.
        pub in_data: u64 = N_IN_DATA,
        /// Nacks received.
        pub in_nacks: u64 = N_IN_NACKS,
        /// Interests sent.
        pub out_interests: u64 = N_OUT_INTERESTS,
        /// Data sent.
        pub out_data: u64 = N_OUT_DATA,
        /// Nacks sent.
        pub out_nacks: u64 = N_OUT_NACKS,
        /// Bytes received.
        pub in_bytes: u64 = N_IN_BYTES,
        /// Bytes sent.
        pub out_bytes: u64 = N_OUT_BYTES,
    }
}

dataset! {
    /// One face in `faces/list` and `faces/query`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct FaceStatus = DATASET_ITEM {
        /// Its properties.
        pub properties: FaceProperties,
        /// Time until an idle on-demand face is closed, milliseconds.
        pub expiration_period_ms: Option<u64> = EXPIRATION_PERIOD after LOCAL_URI,
        /// Interval of congestion marking, nanoseconds.
        pub base_congestion_marking_interval_ns: Option<u64> =
            BASE_CONGESTION_MARKING_INTERVAL after LINK_TYPE,
        /// Queue length at which congestion marking starts, bytes.
        pub default_congestion_threshold: Option<u64> = DEFAULT_CONGESTION_THRESHOLD,
        /// Maximum length of a packet, bytes.
        pub mtu: Option<u64> = MTU,
        /// Its counters.
        pub counters: FaceCounters,
    }
}

dataset! {
    /// One listener in `faces/channels`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ChannelStatus = CHANNEL_STATUS {
        /// Its URI.
        pub local_uri: String = LOCAL_URI,
    }
}

dataset! {
    /// The filter of `faces/query`: a face matches if it agrees in every field that is present.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct FaceQueryFilter = FACE_QUERY_FILTER {
        /// FaceId.
        pub face_id: Option<u64> = FACE_ID,
        /// Scheme of the remote or of the local face URI.
        pub uri_scheme: Option<String> = URI_SCHEME,
        /// Whole remote face URI.
        pub remote_uri: Option<String> = URI,
        /// Whole local face URI.
        pub local_uri: Option<String> = LOCAL_URI,
        /// Number of a scope; an unknown number matches no face.
        pub scope: Option<u64> = FACE_SCOPE,
        /// Number of a persistency, likewise.
        pub persistency: Option<u64> = FACE_PERSISTENCY,
        /// Number of a link type, likewise.
        pub link_type: Option<u64> = LINK_TYPE,
    }
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
