//! memif: frames between two processes by shared memory (FD.io, protocol version 2).
//!
//! A *client* makes the memory: rings of descriptors and the buffers that they name. It connects to the
//! socket of a *server*, hands the memory over, and from then on frames travel without system calls, but
//! for interrupts to a side that sleeps. The words of the protocol: C2S is the direction from client to
//! server, S2C the other one (older texts: slave and master, S2M and M2S).
//!
//! | module | what it holds |
//! |---|---|
//! | [`Message`] | the messages on the socket |
//! | [`ClientHandshake`], [`ServerHandshake`] | from a connected socket to a [`Link`] |
//! | [`Link`] | the rings of a connection |
//! | [`Receiver`], [`Sender`] | one ring, from either side |
//! | [`Secret`], [`Refusal`], [`MemoryBudget`] | whom a server wants |
//! | [`Farewell`] | why a side leaves |
//! | [`Address`] | `memif:///path/id` |
//!
//! The peer is not trusted. It can write to all of the shared memory at any time, so each word of a descriptor is read
//! once and checked before use, frames are copied out before they are decoded, and a side keeps its own positions to
//! itself. Shared memory cannot be taken away again (see [`ndn_sys::shared_memory`]), and the type of received
//! descriptors is verified.
#![forbid(unsafe_code)]

mod address;
mod budget;
mod farewell;
mod handshake;
mod limits;
mod link;
mod message;
mod receive;
mod regions;
mod ring;
mod secret;
mod send;
#[cfg(test)]
mod tests;
mod text;

pub use address::{Address, AddressError};
pub use budget::MemoryBudget;
pub use farewell::Farewell;
pub use handshake::{
    ClientHandshake, ClientOptions, HandshakeError, Progress, Refusal, ServerHandshake,
    ServerOptions, turn_away,
};
pub use limits::{
    BUFFER_LENGTH_DEFAULT, BUFFER_LENGTH_MAX, BUFFER_LENGTH_MIN, LOG2_RING_SIZE_DEFAULT,
    LOG2_RING_SIZE_MAX, RINGS_MAX,
};
pub use link::{Ended, Link, ended};
pub use message::{MESSAGE_LENGTH, Message, MessageError, Name};
pub use receive::{Received, Receiver};
pub use ring::Fault;
pub use secret::{SECRET_LENGTH, Secret, SecretError};
pub use send::{Sender, Sent};
