//! WebTransport over HTTP/3 (draft-ietf-webtrans-http3) for NDN: each datagram is one NDNLPv2 frame,
//! and so is each unidirectional stream, for packets longer than a datagram.
//!
//! A session appears to the rest of a program as a byte stream of frames, none longer than the `mtu` of the session:
//! the user of the stream fragments packets. The MTU follows the path, and is that of any packet once the peer is known
//! to read streams.
//!
//! | module | what it holds |
//! |---|---|
//! | [`Service`] | the thread on which sessions live |
//! | [`Listen`], [`Rules`], [`Accepted`] | what listeners need, and what they tell |
//! | [`Target`], [`attach`], [`connect`], [`Session`] | sessions that are opened here |
//! | [`Identity`], [`CertificateHash`] | certificates |
//! | [`PathMtu`] | how long frames may be |
//! | [`Counters`] | what is counted |
//!
//! Listeners, and the thread of a forwarder, are for Linux; sessions are opened on other systems, too.
#![forbid(unsafe_code)]
#![cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux uses all of it"))]

mod certificate;
mod client;
mod counters;
mod frame;
mod path;
#[cfg(target_os = "linux")]
mod rotation;
#[cfg(target_os = "linux")]
mod server;
#[cfg(target_os = "linux")]
mod service;
mod session;
mod streams;
mod verifier;
#[cfg(any(test, target_os = "linux"))]
mod x509;

pub use certificate::{CertificateError, CertificateHash, Identity};
pub use client::{Attached, ConnectError, Target, TargetError, attach, connect};
pub use counters::{Counters, WebTransportValues};
pub use path::PathMtu;
#[cfg(target_os = "linux")]
pub use server::{Accepted, Admits, HandshakePlaces, Rules, SessionPlaces, bind};
#[cfg(target_os = "linux")]
pub use service::{Connecting, Listen, OnConnected, Service};
pub use session::Session;

/// The UDP port of gateways that speak WebTransport, where an address has none.
pub const PORT: u16 = 6367;
/// The path of the sessions of a forwarder.
pub const PATH: &str = "/ndn";
