//! Enumerations and flag bits of the NFD management protocol.

use ndn_types::{Persistency, wire_enum};

use crate::dataset::description::{Form, described_by_text};

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

/// Declares flags: a module of their bits, and their form.
macro_rules! flags {
    (
        $(#[doc = $help:literal])+
        $module:ident {
            $( $(#[doc = $flag_help:literal])+ $FLAG:ident = $bit:literal => $name:literal, )+
        }
    ) => {
        $(#[doc = $help])+
        pub mod $module {
            use crate::dataset::description::{Flag, Form};

            $(
                $(#[doc = $flag_help])+
                pub const $FLAG: u64 = $bit;
            )+

            /// The flags by name.
            pub const FLAGS: Form = Form::Flags(&[$( Flag {
                name: $name,
                help: concat!($($flag_help),+).trim_ascii(),
                bit: $bit,
            }, )+]);
        }
    };
}

flags! {
    /// Bits of `Flags` and `Mask` in `faces/*`.
    face_flag {
        /// Whether applications may set IncomingFaceId, NextHopFaceId and CachePolicy.
        LOCAL_FIELDS = 1 => "local_fields",
        /// Whether the link is reliable (NDNLPv2 reliability).
        LP_RELIABILITY = 2 => "reliability",
        /// Whether the face sets congestion marks when its queue is long.
        CONGESTION_MARKING = 4 => "congestion_marking",
    }
}

flags! {
    /// Bits of `Flags` and `Mask` in `cs/config` and `cs/info`.
    cs_flag {
        /// Whether arriving Data are admitted to the Content Store.
        ADMIT = 1 => "admit",
        /// Whether the Content Store answers Interests.
        SERVE = 2 => "serve",
    }
}

flags! {
    /// Bits of a route's `Flags`.
    route_flag {
        /// Whether longer prefixes inherit the route; true by default.
        CHILD_INHERIT = 1 => "child_inherit",
        /// Whether the prefix, and those below it, inherit no routes of shorter prefixes.
        CAPTURE = 2 => "capture",
    }
}

/// Declares [`route_origin`].
macro_rules! route_origins {
    ($( $(#[doc = $help:literal])+ $ORIGIN:ident = $number:literal => $word:literal, )+) => {
        /// Values of a route's `Origin`.
        pub mod route_origin {
            use crate::dataset::description::Form;

            $(
                $(#[doc = $help])+
                pub const $ORIGIN: u64 = $number;
            )+

            /// The origins with the words of NFD's tools.
            pub(super) const WORDS: &[(u64, &str)] = &[$( ($number, $word) ),+];

            /// A word, or the number of an origin that has none.
            pub const WORD: Form = Form::Word {
                text_of: super::route_origin_text,
                number_of: super::route_origin_from_text,
            };
        }
    };
}

route_origins! {
    /// Registered by an application.
    APP = 0 => "app",
    /// Automatic registration by `nfd-autoreg`.
    AUTOREG = 64 => "autoreg",
    /// Remote registration by a client.
    CLIENT = 65 => "client",
    /// `ndn-autoconfig`.
    AUTOCONF = 66 => "autoconf",
    /// The NLSR routing daemon.
    NLSR = 128 => "nlsr",
    /// A prefix announcement.
    PREFIX_ANNOUNCEMENT = 129 => "prefixann",
    /// An operator.
    STATIC = 255 => "static",
    /// Of no known origin: the largest there is.
    NONE = 65_535 => "none",
}

wire_enum! {
    /// The driver by which frames of a network interface reach the forwarder. Not of NFD: see
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

described_by_text!(FaceEventKind);

/// The word of a variant that a number stands for, or the number itself.
macro_rules! word {
    ($Type:ty) => {
        Form::Word {
            text_of: |number| match <$Type>::from_number(number) {
                Some(variant) => variant.to_string(),
                None => number.to_string(),
            },
            number_of: |word| <$Type>::from_word(word).map(<$Type>::number),
        }
    };
}

/// The form of a [`Persistency`] that is held as a number.
pub(crate) const PERSISTENCY_WORD: Form = word!(Persistency);
/// The form of a [`FaceDriver`] that is held as a number.
pub(crate) const DRIVER_WORD: Form = word!(FaceDriver);

/// The word that NFD's tools print for a route origin, or the number itself.
#[must_use]
pub fn route_origin_text(origin: u64) -> String {
    let found = route_origin::WORDS.iter().find(|(number, _)| *number == origin);
    found.map_or_else(|| origin.to_string(), |(_, word)| (*word).to_owned())
}

/// The route origin that a word of NFD's tools, or a number, stands for.
#[must_use]
pub fn route_origin_from_text(text: &str) -> Option<u64> {
    match route_origin::WORDS.iter().find(|(_, word)| *word == text) {
        Some((number, _)) => Some(*number),
        None => text.parse::<u16>().ok().map(u64::from),
    }
}
