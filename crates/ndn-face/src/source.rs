//! What a poller event speaks of.

use std::net::SocketAddr;

use ndn_table::FaceIndex;

/// Poll tokens from here on belong to the worker; those below belong to the [`FaceSet`](crate::FaceSet).
pub const WORKER_TOKEN_MIN: u64 = 1 << 33;
/// Marks the token of a socket that several faces share; the low 32 bits are its number. The token of a face is its
/// index.
const SHARED_SOCKET: u64 = 1 << 32;
/// Marks the numbers that are those of network devices.
const PORT: u32 = 1 << 31;

/// A UDP socket of a [`FaceSet`](crate::FaceSet).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChannelId(pub(crate) u32);

impl ChannelId {
    /// A small number. The number of a closed socket is used again.
    #[must_use]
    pub fn number(self) -> usize {
        self.0 as usize
    }
}

/// A network device of a [`FaceSet`](crate::FaceSet), by a small number that its owner chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId(pub u32);

impl PortId {
    /// Numbers are below this.
    pub const COUNT_MAX: u32 = 1 << 16;
}

/// One sender of a link that has several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// By its address and port.
    Internet(SocketAddr),
    /// By its hardware address.
    Station([u8; 6]),
}

/// What a poll token stands for: whatever has descriptors of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A face with descriptors of its own: stream, memif, internal.
    Face(FaceIndex),
    /// A UDP socket.
    Channel(ChannelId),
    /// A network device.
    Port(PortId),
}

impl Source {
    /// The source of an event with this token; `None` if it is none of the face set's.
    #[inline]
    pub(crate) fn of(token: u64) -> Option<Self> {
        let number = u32::try_from(token & (SHARED_SOCKET - 1)).ok()?;
        Some(match (token & SHARED_SOCKET != 0, number & PORT != 0) {
            (false, _) => Self::Face(FaceIndex::from_bits(number)),
            (true, false) => Self::Channel(ChannelId(number)),
            (true, true) => Self::Port(PortId(number & !PORT)),
        })
    }

    #[inline]
    pub(crate) fn token(self) -> u64 {
        match self {
            Self::Face(index) => u64::from(index.to_bits()),
            Self::Channel(channel) => SHARED_SOCKET | u64::from(channel.0),
            Self::Port(port) => SHARED_SOCKET | u64::from(PORT | port.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_name_their_source() {
        for source in [
            Source::Face(FaceIndex::from_bits(0)),
            Source::Face(FaceIndex::from_bits(u32::MAX)),
            Source::Channel(ChannelId(0)),
            Source::Channel(ChannelId(77)),
            Source::Port(PortId(0)),
            Source::Port(PortId(PortId::COUNT_MAX - 1)),
        ] {
            assert!(source.token() < WORKER_TOKEN_MIN);
            assert_eq!(Source::of(source.token()), Some(source));
        }
    }
}
