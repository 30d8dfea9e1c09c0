//! Properties of a face (NFD wiki, `FaceMgmt`).

/// Defines an enumeration of the management protocol: its variants, their numbers on the wire and the words that NFD's
/// tools print and read.
#[macro_export]
macro_rules! wire_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $value:literal => $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$vmeta])* $variant),+
        }

        impl $name {
            /// The number on the wire.
            #[must_use]
            pub const fn number(self) -> u64 {
                match self { $(Self::$variant => $value),+ }
            }

            /// The variant with this number on the wire.
            #[must_use]
            pub const fn from_number(number: u64) -> Option<Self> {
                match number { $($value => Some(Self::$variant),)+ _ => None }
            }

            /// The word in the output and the arguments of NFD's tools.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// The variant with this word.
            #[must_use]
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($text => Some(Self::$variant),)+ _ => None }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }
    };
}

wire_enum! {
    /// When a face closes.
    Persistency {
        /// It stays until it fails or is destroyed. A UDP face has no connection: an ICMP error is counted and does not
        /// close it.
        Persistent = 0 => "persistent",
        /// It was created for a peer that sent first, and closes on an error or after an idle period.
        OnDemand = 1 => "on-demand",
        /// It stays until it is destroyed; a failed connection is re-established.
        Permanent = 2 => "permanent",
    }
}

wire_enum! {
    /// Whether a face reaches only this host: packets under `/localhost` use local faces alone.
    Scope {
        /// The peer may be another host.
        NonLocal = 0 => "non-local",
        /// The peer is an application on this host.
        Local = 1 => "local",
    }
}

wire_enum! {
    /// The number of peers of a face.
    LinkType {
        /// One peer.
        PointToPoint = 0 => "point-to-point",
        /// A group in which every node hears every other.
        MultiAccess = 1 => "multi-access",
        /// A group in which some nodes do not hear each other: a packet may leave by the face it came from.
        AdHoc = 2 => "adhoc",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_words_survive_a_round_trip() {
        for (number, word) in [(0, "persistent"), (1, "on-demand"), (2, "permanent")] {
            let persistency = Persistency::from_number(number).unwrap();
            assert_eq!((persistency.number(), persistency.as_str()), (number, word));
            assert_eq!(Persistency::from_word(word), Some(persistency));
        }
        assert_eq!(Persistency::from_number(3), None);
        assert_eq!(Scope::Local.number(), 1);
        assert_eq!(LinkType::from_word("adhoc"), Some(LinkType::AdHoc));
        assert_eq!(LinkType::MultiAccess.to_string(), "multi-access");
    }
}
