//! Packets of the fast engine.

use crate::network::Kind;

pub(super) const NEVER: u64 = u64::MAX;

/// A packet of an Interest: there is one at a time. Small enough for two registers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet {
    pub(super) time_ps: u64,
    pub(super) id: u32,
    /// Where it comes from: stations in their order, then links.
    pub(super) origin: u16,
    pub(super) form: Form,
}

impl Packet {
    pub(super) const NONE: Self = Self { time_ps: 0, id: 0, origin: 0, form: Form::GONE };

    /// Whether it arrives at a queue before `other`.
    #[inline]
    pub(super) const fn is_before(&self, other: &Self) -> bool {
        self.time_ps < other.time_ps
            || (self.time_ps == other.time_ps && self.origin < other.origin)
    }
}

/// Kind of a packet, and whether it is a Nack that the forwarder itself has made. Without invalid values: the
/// compiler copies packets whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form(u16);

impl Form {
    pub(super) const REFUSAL: Self = Self(3);
    /// The place of a packet that has been dropped.
    pub(super) const GONE: Self = Self(4);

    pub(super) const fn new(kind: Kind) -> Self {
        Self(kind as u16)
    }

    #[inline]
    pub(super) const fn kind(self) -> Kind {
        match self.0 {
            0 => Kind::Interest,
            1 => Kind::Data,
            _ => Kind::Nack,
        }
    }

    /// The number of its kind.
    #[inline]
    pub(super) fn index(self) -> usize {
        usize::from(self.0.min(Kind::Nack as u16))
    }

    #[inline]
    pub(super) const fn is_interest(self) -> bool {
        self.0 == Kind::Interest as u16
    }

    /// Whether the forwarder receives it from a producer.
    #[inline]
    pub(super) const fn is_from_producer(self) -> bool {
        self.0 == Kind::Data as u16 || self.0 == Kind::Nack as u16
    }
}
