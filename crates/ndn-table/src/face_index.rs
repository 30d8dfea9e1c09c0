//! Face identifiers as the tables store them.

use std::fmt;

/// A slot in the forwarder's face table, and a generation that distinguishes successive faces of
/// the slot.
///
/// The tables only store and compare it. It is not the `FaceId` of NFD management.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaceIndex(u32);

impl FaceIndex {
    /// Bits of the slot number.
    pub const SLOT_BITS: u32 = 20;
    /// Number of slots that can be addressed.
    pub const SLOT_COUNT_MAX: u32 = 1 << Self::SLOT_BITS;
    /// Number of generations before they repeat.
    pub const GENERATION_COUNT: u32 = 1 << (32 - Self::SLOT_BITS);

    /// The face of `slot` and `generation`; both are truncated to their bits.
    #[must_use]
    pub const fn new(slot: u32, generation: u32) -> Self {
        Self((slot & (Self::SLOT_COUNT_MAX - 1)) | (generation << Self::SLOT_BITS))
    }

    /// Slot, below [`Self::SLOT_COUNT_MAX`].
    #[must_use]
    pub const fn slot(self) -> u32 {
        self.0 & (Self::SLOT_COUNT_MAX - 1)
    }

    /// Generation, below [`Self::GENERATION_COUNT`].
    #[must_use]
    pub const fn generation(self) -> u32 {
        self.0 >> Self::SLOT_BITS
    }

    /// Slot and generation as one number.
    #[must_use]
    pub const fn to_bits(self) -> u32 {
        self.0
    }

    /// The inverse of [`Self::to_bits`].
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

impl fmt::Display for FaceIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot(), self.generation())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_round_trip() {
        let face = FaceIndex::new(0xF_FFFF, 0xABC);
        assert_eq!((face.slot(), face.generation()), (0xF_FFFF, 0xABC));
        assert_eq!(FaceIndex::from_bits(face.to_bits()), face);
        assert_eq!(FaceIndex::new(3, FaceIndex::GENERATION_COUNT), FaceIndex::new(3, 0));
        assert_eq!(FaceIndex::new(3, 1).to_string(), "3.1");
    }
}
