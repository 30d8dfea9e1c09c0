//! memif: frames between two processes by shared memory (FD.io, protocol version 2).
//!
//! A *client* allocates the memory: rings of descriptors, and buffers. It connects to the socket of a
//! *server* and shares the memory; from then on frames need no system calls, except interrupts to a side
//! that sleeps. C2S is the direction from client to server, S2C the other one (older terms: slave and
//! master, S2M and M2S).
//!
//! | type | content |
//! |---|---|
//! | [`Message`] | the messages on the socket |
//! | [`ClientHandshake`], [`ServerHandshake`] | from a connected socket to a [`Connection`] |
//! | [`Connection`] | the rings of a connection |
//! | [`Receiver`], [`Sender`] | one ring, from either side |
//! | [`Secret`], [`Refusal`], [`MemoryBudget`] | which clients a server admits |
//! | [`DisconnectReason`] | why a side ends the connection |
//! | [`Address`] | `memif:///path/id` |
//!
//! The peer is not trusted. It can write to all of the shared memory at any time, so each word of a
//! descriptor is read once and checked before use, frames are copied before they are parsed, and each
//! side keeps its own positions in private memory. Shared memory cannot be shrunk (see
//! [`ndn_sys::shared_memory`]), and the type of received descriptors is checked.
//!
//! On other systems than Linux, there are addresses, secrets and limits only.
#![forbid(unsafe_code)]
#![cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux uses all of it"))]

mod address;
#[cfg(target_os = "linux")]
mod budget;
#[cfg(target_os = "linux")]
mod connection;
mod disconnect;
#[cfg(target_os = "linux")]
mod handshake;
mod limits;
#[cfg(target_os = "linux")]
mod message;
#[cfg(target_os = "linux")]
mod receive;
#[cfg(target_os = "linux")]
mod regions;
#[cfg(target_os = "linux")]
mod ring;
mod secret;
#[cfg(target_os = "linux")]
mod send;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
mod text;

pub use address::{Address, AddressError};
#[cfg(target_os = "linux")]
pub use budget::MemoryBudget;
#[cfg(target_os = "linux")]
pub use connection::{Connection, Ended, ended, send_disconnect};
pub use disconnect::DisconnectReason;
#[cfg(target_os = "linux")]
pub use handshake::{
    ClientHandshake, ClientOptions, HandshakeError, Progress, Refusal, ServerHandshake,
    ServerOptions,
};
pub use limits::{BUFFER_LENGTH_MAX, BUFFER_LENGTH_MIN};
#[cfg(target_os = "linux")]
pub use message::{MESSAGE_LENGTH, Message, MessageError, Name};
#[cfg(target_os = "linux")]
pub use receive::{Received, Receiver};
#[cfg(target_os = "linux")]
pub use ring::Fault;
pub use secret::{SECRET_LENGTH, Secret, SecretError};
#[cfg(target_os = "linux")]
pub use send::{Sender, Sent};
