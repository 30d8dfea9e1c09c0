//! NDN packet format: TLV, Name, Interest, Data, NDNLPv2; borrowed views and builders.
//!
//! | module | what it holds |
//! |---|---|
//! | [`tlv`] | type-length-value reading and writing, numbers, element order rules |
//! | [`types`] | every TLV number used here |
//! | [`name`] | [`NameRef`], [`Name`], [`Component`], URI form, canonical order |
//! | [`interest`] | [`Interest`] view and [`InterestBuilder`] |
//! | [`data`] | [`Data`] view and [`DataBuilder`] |
//! | [`signature`] | [`SignatureInfo`], [`KeyLocator`], [`ValidityPeriod`] |
//! | [`lp`] | [`LpPacket`] view, [`LpHeader`] writer, [`NackReason`] |
//! | [`dissect`] | packet dissector |
//!
//! Views borrow from the packet and hold validated offsets; parsing does not allocate. The crate
//! contains no cryptography: closures of the caller compute digests and signatures.
#![forbid(unsafe_code)]

pub mod data;
pub mod dissect;
pub mod error;
pub mod interest;
pub mod lp;
pub mod name;
pub mod packet;
pub mod signature;
mod span;
#[cfg(test)]
mod testing;
pub mod tlv;
pub mod types;

pub use data::{ContentType, Data, DataBuilder, DataLayout};
pub use error::{DecodeError, EncodeError, UriError};
pub use interest::{Interest, InterestBuilder};
pub use lp::{LpHeader, LpPacket, NackReason};
pub use name::{Component, ComponentType, Convention, Name, NameRef};
pub use packet::Packet;
pub use signature::{KeyLocator, SignatureInfo, SignatureType, ValidityPeriod};

/// Largest practical size of a network packet, in bytes (packet specification, "MAX_NDN_PACKET_SIZE").
///
/// Parsers accept larger packets; each link enforces its own limit.
pub const MAX_PACKET_SIZE: usize = 8800;

/// Lifetime of an Interest without an InterestLifetime element, in milliseconds.
pub const DEFAULT_LIFETIME_MS: u64 = 4000;
