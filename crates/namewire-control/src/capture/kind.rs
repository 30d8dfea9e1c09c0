//! Kinds of captured packets.

use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The kind of a captured packet; in JSON, its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapturedKind {
    /// An Interest.
    Interest,
    /// A Data.
    Data,
    /// A network Nack.
    Nack,
    /// A fragment of a longer packet, or acknowledgements.
    Link,
    /// A frame that is not NDN, malformed or truncated.
    Other,
}

impl CapturedKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Interest, Self::Data, Self::Nack, Self::Link, Self::Other];

    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Interest => "Interest",
            Self::Data => "Data",
            Self::Nack => "Nack",
            Self::Link => "NDNLPv2",
            Self::Other => "other",
        }
    }

    const fn bit(self) -> u8 {
        match self {
            Self::Interest => 1,
            Self::Data => 2,
            Self::Nack => 4,
            Self::Link => 8,
            Self::Other => 16,
        }
    }
}

/// From its word, in upper or lower case.
impl FromStr for CapturedKind {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.word().eq_ignore_ascii_case(word));
        found.ok_or_else(|| {
            format!("`{word}` is not one of {}", Self::ALL.map(Self::word).join(", "))
        })
    }
}

impl Serialize for CapturedKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl<'de> Deserialize<'de> for CapturedKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// A set of kinds; in JSON, an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapturedKinds(u8);

impl CapturedKinds {
    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `kind` is one of them.
    #[must_use]
    pub const fn contains(self, kind: CapturedKind) -> bool {
        self.0 & kind.bit() != 0
    }
}

impl FromIterator<CapturedKind> for CapturedKinds {
    fn from_iter<I: IntoIterator<Item = CapturedKind>>(kinds: I) -> Self {
        Self(kinds.into_iter().fold(0, |bits, kind| bits | kind.bit()))
    }
}

impl Serialize for CapturedKinds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(CapturedKind::ALL.into_iter().filter(|kind| self.contains(*kind)))
    }
}

impl<'de> Deserialize<'de> for CapturedKinds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<CapturedKind>::deserialize(deserializer)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_arrays_of_words() {
        for (words, kept) in [
            ("[]", "[]"),
            (r#"["other","NDNLPv2"]"#, r#"["NDNLPv2","other"]"#),
            (r#"["interest","DATA","Data"]"#, r#"["Interest","Data"]"#),
        ] {
            let kinds: CapturedKinds = serde_json::from_str(words).unwrap();
            assert_eq!(serde_json::to_string(&kinds).unwrap(), kept);
            assert_eq!(kinds.is_empty(), kept == "[]");
        }
        let refused = serde_json::from_str::<CapturedKinds>(r#"["Packet"]"#).unwrap_err();
        let expected = "`Packet` is not one of Interest, Data, Nack, NDNLPv2, other";
        assert!(refused.to_string().starts_with(expected), "{refused}");
        for kind in CapturedKind::ALL {
            let one = CapturedKinds::from_iter([kind]);
            assert!(
                CapturedKind::ALL.into_iter().all(|other| one.contains(other) == (other == kind))
            );
        }
    }
}
