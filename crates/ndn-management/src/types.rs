//! Enumerations and flag bits of the NFD management protocol.

use ndn_types::wire_enum;
pub use ndn_types::{LinkType, Persistency, Scope};

/// The face that management itself uses.
pub const FACE_ID_INTERNAL: u64 = 1;
/// Names the Content Store as a packet's origin.
pub const FACE_ID_CONTENT_STORE: u64 = 254;
/// The face that drops everything.
pub const FACE_ID_NULL: u64 = 255;
/// FaceIds up to this one are reserved; ordinary faces start above it.
pub const FACE_ID_RESERVED_MAX: u64 = 255;
/// Maximum number of components of a FIB, RIB or strategy-choice prefix.
pub const PREFIX_DEPTH_MAX: usize = 32;
/// `cs/erase` removes at most this many packets per command.
pub const CS_ERASE_LIMIT: u64 = 256;
/// Minimum MTU of a face.
pub const MTU_MIN: u64 = 64;

/// Bit numbers of `Flags` and `Mask` in `faces/*`.
pub mod face_flag {
    /// IncomingFaceId, NextHopFaceId and CachePolicy are understood on this face.
    pub const LOCAL_FIELDS: u64 = 1 << 0;
    /// NDNLPv2 reliability.
    pub const LP_RELIABILITY: u64 = 1 << 1;
    /// Congestion marks are set on a long queue.
    pub const CONGESTION_MARKING: u64 = 1 << 2;
}

/// Bit numbers of `Flags` and `Mask` in `cs/config` and `cs/info`.
pub mod cs_flag {
    /// Arriving Data is admitted.
    pub const ADMIT: u64 = 1 << 0;
    /// Interests are answered from the Content Store.
    pub const SERVE: u64 = 1 << 1;
}

/// Bits of a route's `Flags`.
pub mod route_flag {
    /// Longer RIB prefixes inherit the route.
    pub const CHILD_INHERIT: u64 = 1;
    /// The prefix and those below it inherit nothing from shorter prefixes.
    pub const CAPTURE: u64 = 2;
}

/// Values of a route's `Origin`.
pub mod route_origin {
    /// Registered by an application.
    pub const APP: u64 = 0;
    /// Automatic registration by `nfd-autoreg`.
    pub const AUTOREG: u64 = 64;
    /// Remote registration by a client.
    pub const CLIENT: u64 = 65;
    /// `ndn-autoconfig`.
    pub const AUTOCONF: u64 = 66;
    /// The NLSR routing daemon.
    pub const NLSR: u64 = 128;
    /// A prefix announcement.
    pub const PREFIX_ANNOUNCEMENT: u64 = 129;
    /// An operator.
    pub const STATIC: u64 = 255;
    /// Of no known origin: the largest there is.
    pub const NONE: u64 = 65_535;
}

wire_enum! {
    /// How frames of a network interface reach the forwarder. Not of NFD: see
    /// [`ControlParameters::driver`](crate::ControlParameters::driver).
    FaceDriver {
        /// AF_PACKET.
        Packet = 1 => "packet",
        /// AF_XDP.
        Xdp = 2 => "xdp",
    }
}

wire_enum! {
    /// The kind of a face event (`faces/events`).
    FaceEventKind {
        /// The face was created.
        Created = 1 => "created",
        /// The face was destroyed.
        Destroyed = 2 => "destroyed",
        /// The face went up.
        Up = 3 => "up",
        /// The face went down.
        Down = 4 => "down",
    }
}

/// The word that NFD's tools print for a route origin, or the number itself.
#[must_use]
pub fn route_origin_text(origin: u64) -> String {
    match origin {
        route_origin::APP => "app".to_owned(),
        route_origin::AUTOREG => "autoreg".to_owned(),
        route_origin::CLIENT => "client".to_owned(),
        route_origin::AUTOCONF => "autoconf".to_owned(),
        route_origin::NLSR => "nlsr".to_owned(),
        route_origin::PREFIX_ANNOUNCEMENT => "prefixann".to_owned(),
        route_origin::STATIC => "static".to_owned(),
        route_origin::NONE => "none".to_owned(),
        other => other.to_string(),
    }
}

/// The route origin that a word of NFD's tools, or a number, stands for.
#[must_use]
pub fn route_origin_from_text(text: &str) -> Option<u64> {
    Some(match text {
        "app" => route_origin::APP,
        "autoreg" => route_origin::AUTOREG,
        "client" => route_origin::CLIENT,
        "autoconf" => route_origin::AUTOCONF,
        "nlsr" => route_origin::NLSR,
        "prefixann" => route_origin::PREFIX_ANNOUNCEMENT,
        "static" => route_origin::STATIC,
        "none" => route_origin::NONE,
        other => return other.parse::<u16>().ok().map(u64::from),
    })
}
