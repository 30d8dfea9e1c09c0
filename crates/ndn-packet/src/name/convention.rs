//! Naming conventions for versions and segment numbers.

use core::fmt;

use crate::name::{Component, ComponentType, Name};
use crate::tlv::{Number, decode_number};

/// Marker of a segment number in the marked convention.
const SEGMENT_MARKER: u8 = 0x00;
/// Marker of a version in the marked convention.
const VERSION_MARKER: u8 = 0xFD;

/// Encoding of versions and segment numbers as name components.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Convention {
    /// Typed components (NDN Naming Conventions, revisions 2 and 3): `v=7`, `seg=0`.
    #[default]
    Typed,
    /// GenericNameComponents with a marker, from before components had types (revision 1):
    /// `%FD%07`, `%00%00`. They cannot be distinguished from other components with the same bytes.
    Marked,
}

impl Convention {
    /// The version in a component of this convention.
    #[must_use]
    pub fn version_of(self, component: &Component<'_>) -> Option<u64> {
        match self {
            Self::Typed => component.as_version(),
            Self::Marked => marked(component, VERSION_MARKER),
        }
    }

    /// The segment number in a component of this convention.
    #[must_use]
    pub fn segment_of(self, component: &Component<'_>) -> Option<u64> {
        match self {
            Self::Typed => component.as_segment(),
            Self::Marked => marked(component, SEGMENT_MARKER),
        }
    }

    /// The convention in which a component is a segment number, if any.
    #[must_use]
    pub fn of_segment(component: &Component<'_>) -> Option<Self> {
        [Self::Typed, Self::Marked].into_iter().find(|one| one.segment_of(component).is_some())
    }

    /// Appends a segment number to a name.
    ///
    /// # Panics
    /// As [`Name::push`].
    pub fn push_segment(self, name: &mut Name, segment: u64) {
        match self {
            Self::Typed => {
                name.push_segment(segment);
            }
            Self::Marked => push_marked(name, SEGMENT_MARKER, segment),
        }
    }

    /// Appends a version to a name.
    ///
    /// # Panics
    /// As [`Name::push`].
    pub fn push_version(self, name: &mut Name, version: u64) {
        match self {
            Self::Typed => {
                name.push_version(version);
            }
            Self::Marked => push_marked(name, VERSION_MARKER, version),
        }
    }
}

/// `typed` or `marked`.
impl fmt::Display for Convention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Typed => "typed",
            Self::Marked => "marked",
        })
    }
}

impl Component<'_> {
    /// The version in this component, in either convention.
    #[must_use]
    pub fn as_version_or_marked(&self) -> Option<u64> {
        self.as_version().or_else(|| Convention::Marked.version_of(self))
    }

    /// The segment number in this component, in either convention.
    #[must_use]
    pub fn as_segment_or_marked(&self) -> Option<u64> {
        self.as_segment().or_else(|| Convention::Marked.segment_of(self))
    }
}

/// The number after a marker.
fn marked(component: &Component<'_>, marker: u8) -> Option<u64> {
    let (&first, digits) = component.value().split_first()?;
    let is_marked = component.ty() == ComponentType::GENERIC && first == marker;
    if is_marked { decode_number(digits) } else { None }
}

fn push_marked(name: &mut Name, marker: u8, number: u64) {
    let number = Number::new(number);
    let digits = number.as_bytes();
    let mut value = [marker; 9];
    value[1..=digits.len()].copy_from_slice(digits);
    name.push_generic(&value[..=digits.len()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip_in_each_convention() {
        for number in [0, 5, 0xFF, 0x100, 0xFFFF, 0x1_0000, u64::from(u32::MAX), 1 << 32, u64::MAX]
        {
            for convention in [Convention::Typed, Convention::Marked] {
                let other = match convention {
                    Convention::Typed => Convention::Marked,
                    Convention::Marked => Convention::Typed,
                };
                let mut name = Name::from_uri("/a").unwrap();
                convention.push_version(&mut name, number);
                convention.push_segment(&mut name, number);
                let (version, segment) =
                    (name.as_ref().component(1).unwrap(), name.as_ref().component(2).unwrap());
                assert_eq!(convention.version_of(&version), Some(number), "{name}");
                assert_eq!(convention.segment_of(&segment), Some(number), "{name}");
                assert_eq!(other.version_of(&version), None, "{name}");
                assert_eq!(other.segment_of(&segment), None, "{name}");
                assert_eq!(Convention::of_segment(&segment), Some(convention), "{name}");
                assert_eq!(convention.version_of(&segment), None, "{name}");
                assert_eq!(convention.segment_of(&version), None, "{name}");
                assert_eq!(version.as_version_or_marked(), Some(number), "{name}");
                assert_eq!(segment.as_segment_or_marked(), Some(number), "{name}");
            }
        }
    }

    #[test]
    fn marked_numbers_have_the_specified_encoding() {
        let mut name = Name::from_uri("/a").unwrap();
        Convention::Marked.push_version(&mut name, 1000);
        Convention::Marked.push_segment(&mut name, 7);
        assert_eq!(name.to_uri(), "/a/%FD%03%E8/%00%07");
    }

    #[test]
    fn other_components_are_not_numbers() {
        for uri in ["/%00", "/%FD", "/%00%00%00%00", "/32=%00%01", "/32=%FD%01", "/text"] {
            let name = Name::from_uri(uri).unwrap();
            let component = name.as_ref().component(0).unwrap();
            assert_eq!(component.as_version_or_marked(), None, "{uri}");
            assert_eq!(component.as_segment_or_marked(), None, "{uri}");
        }
    }
}
