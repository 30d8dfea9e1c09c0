//! Packets of the fast engine.

use crate::network::Kind;

/// Beyond all times of a trace, and far enough from the end of 64 bits for a sum of two.
pub(super) const NEVER: u64 = 1 << 62;

/// A packet of an Interest: there is one at a time. Two words, which the compiler keeps in registers: a structure of more
/// fields would be written in parts and read as a whole, which stalls the processor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet {
    pub(super) time_ps: u64,
    /// Number of the Interest, origin, form: 32, 16 and 16 bits.
    rest: u64,
}

const ORIGIN: u32 = 32;
const FORM: u32 = 48;

impl Packet {
    pub(super) const NONE: Self = Self::new(0, 0, 0, Form::GONE);

    #[inline]
    pub(super) const fn new(time_ps: u64, id: u32, origin: u16, form: Form) -> Self {
        let rest = id as u64 | (origin as u64) << ORIGIN | (form.0 as u64) << FORM;
        Self { time_ps, rest }
    }

    /// The number of the Interest.
    #[inline]
    pub(super) const fn id(self) -> u32 {
        self.rest as u32
    }

    /// Where it comes from: stations in their order, then links.
    #[inline]
    const fn origin(self) -> u16 {
        (self.rest >> ORIGIN) as u16
    }

    #[inline]
    pub(super) const fn form(self) -> Form {
        Form((self.rest >> FORM) as u16)
    }

    #[inline]
    pub(super) const fn at(self, time_ps: u64) -> Self {
        Self { time_ps, ..self }
    }

    #[inline]
    pub(super) const fn with_origin(self, origin: u16) -> Self {
        let kept = self.rest & !(0xffff << ORIGIN);
        Self { rest: kept | (origin as u64) << ORIGIN, ..self }
    }

    #[inline]
    pub(super) const fn with_form(self, form: Form) -> Self {
        let kept = self.rest & !(0xffff << FORM);
        Self { rest: kept | (form.0 as u64) << FORM, ..self }
    }

    /// Whether it arrives at a queue before `other`.
    #[inline]
    pub(super) const fn is_before(self, other: Self) -> bool {
        self.time_ps < other.time_ps
            || (self.time_ps == other.time_ps && self.origin() < other.origin())
    }
}

/// Kind of a packet, and whether it is a Nack that the forwarder itself has made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form(u16);

impl Form {
    pub(super) const REFUSAL: Self = Self(3);
    /// The place of a packet that has been dropped.
    pub(super) const GONE: Self = Self(4);

    #[inline]
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
