//! Poll tokens, and the identifiers of what faces share.

use std::net::SocketAddr;

use ndn_table::FaceIndex;

/// Poll tokens from here on belong to the worker; those below belong to the [`FaceSet`](crate::FaceSet).
pub const WORKER_TOKEN_MIN: u64 = 1 << 33;
/// Marks the token of a descriptor that several faces share. The token of a face is its index.
const SHARED: u64 = 1 << 32;
/// Bits of the number of a shared descriptor; the kind of transport is above them.
const NUMBER_BITS: u32 = 24;

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

/// The owner of the descriptor that a poll token stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A face with descriptors of its own: stream, memif, internal.
    Face(FaceIndex),
    /// A descriptor that faces share: a UDP socket, a network device.
    Shared {
        /// The kind of transport ([`Transport::KIND`](crate::transport::Transport::KIND)).
        kind: u8,
        /// The number that the kind gave it.
        number: u32,
    },
}

impl Source {
    /// Numbers of shared descriptors are below this.
    pub(crate) const NUMBER_COUNT_MAX: u32 = 1 << NUMBER_BITS;

    /// The source of an event with this token; `None` if it is none of the face set's.
    #[inline]
    pub(crate) fn of(token: u64) -> Option<Self> {
        let low = u32::try_from(token & (SHARED - 1)).ok()?;
        Some(match token & SHARED != 0 {
            false => Self::Face(FaceIndex::from_bits(low)),
            true => Self::Shared {
                kind: u8::try_from(low >> NUMBER_BITS).ok()?,
                number: low & (Self::NUMBER_COUNT_MAX - 1),
            },
        })
    }

    #[inline]
    pub(crate) fn token(self) -> u64 {
        match self {
            Self::Face(index) => u64::from(index.to_bits()),
            Self::Shared { kind, number } => {
                debug_assert!(number < Self::NUMBER_COUNT_MAX);
                SHARED | u64::from(u32::from(kind) << NUMBER_BITS | number)
            }
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
            Source::Shared { kind: 0, number: 0 },
            Source::Shared { kind: 1, number: 77 },
            Source::Shared { kind: u8::MAX, number: Source::NUMBER_COUNT_MAX - 1 },
        ] {
            assert!(source.token() < WORKER_TOKEN_MIN);
            assert_eq!(Source::of(source.token()), Some(source));
        }
    }
}
