//! Values of settings in TOML, for each type of value.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use ndn_packet::Name;
use ndn_types::{
    Arrangement, ByteSize, FaceUri, duration_of_number, format_duration, parse_duration,
    size_of_number,
};
#[cfg(test)]
use proptest::prelude::*;
use toml::de::{DeInteger, DeValue};

use crate::file_mode::FileMode;

/// The value of a setting.
pub(crate) trait Value: Clone + fmt::Debug + PartialEq + 'static {
    /// Reads a value.
    ///
    /// # Errors
    /// The reason why it is not a value of this type.
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String>;

    /// The value as [`Self::from_toml`] reads it; none where the setting is left out of the file.
    fn to_toml(&self) -> Option<String>;

    /// The type of the value, for the reference.
    fn type_name() -> String;

    /// Values with which tests write and read configurations.
    #[cfg(test)]
    fn examples() -> Vec<Self>;

    /// Values for property tests.
    #[cfg(test)]
    fn arbitrary() -> BoxedStrategy<Self> {
        prop::sample::select(Self::examples()).boxed()
    }
}

/// A value that can be limited to a range.
pub(crate) trait Number: Value + PartialOrd {
    /// Whether it is written with a unit, in quotes. An integer without one is then reported as such, not as out of
    /// range.
    const HAS_UNIT: bool = false;

    /// A bound of a range, in messages and in the reference.
    fn shown(&self) -> String {
        self.to_toml().unwrap_or_default().trim_matches('"').to_owned()
    }

    /// Values of a range, for property tests.
    #[cfg(test)]
    fn arbitrary_in(range: RangeInclusive<Self>) -> BoxedStrategy<Self>;
}

/// Reads a number of `range`. A number that the type cannot hold is out of range, too.
pub(crate) fn number_in<T: Number>(
    value: &DeValue<'_>,
    range: &RangeInclusive<T>,
) -> Result<T, String> {
    let outside = |shown: &str| {
        let (low, high) = (range.start().shown(), range.end().shown());
        Err(format!("{shown} is out of range: it must lie between {low} and {high}"))
    };
    match (T::from_toml(value), value.as_integer()) {
        (Ok(read), _) if range.contains(&read) => Ok(read),
        (Ok(read), _) => outside(&read.shown()),
        (Err(_), Some(integer)) if !T::HAS_UNIT => outside(&decimal(integer)),
        (Err(reason), _) => Err(reason),
    }
}

/// The message about a value of another type.
pub(crate) fn expected(expectation: &str, found: &DeValue<'_>) -> String {
    match found.as_str() {
        Some(text) if text.len() <= 40 => {
            format!("expected {expectation}, found {text:?} in quotes")
        }
        _ => format!("expected {expectation}, found {}", found.type_str()),
    }
}

/// A number that is not in quotes, in decimal digits.
fn number_text(value: &DeValue<'_>) -> Option<String> {
    let float = || value.as_float().map(|float| float.as_str().to_owned());
    value.as_integer().map(decimal).or_else(float)
}

/// A whole number in decimal digits, whatever its radix in the file.
fn decimal(integer: &DeInteger<'_>) -> String {
    let value = i128::from_str_radix(integer.as_str(), integer.radix());
    value.map_or_else(|_| integer.to_string(), |value| value.to_string())
}

/// The string that a value is.
pub(crate) fn string_of<'v>(expectation: &str, value: &'v DeValue<'_>) -> Result<&'v str, String> {
    value.as_str().ok_or_else(|| expected(expectation, value))
}

/// A string in the quotes and escapes of TOML.
pub(crate) fn quoted(text: impl fmt::Display) -> String {
    toml::Value::String(text.to_string()).to_string()
}

impl Value for bool {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        value.as_bool().ok_or_else(|| expected("true or false", value))
    }

    fn to_toml(&self) -> Option<String> {
        Some(self.to_string())
    }

    fn type_name() -> String {
        "`true` or `false`".to_owned()
    }

    #[cfg(test)]
    fn examples() -> Vec<Self> {
        vec![false, true]
    }
}

macro_rules! integer {
    ($($number:ty),*) => {$(
        impl Value for $number {
            fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
                let integer = value.as_integer().ok_or_else(|| expected("a whole number", value))?;
                <$number>::from_str_radix(integer.as_str(), integer.radix()).map_err(|_| {
                    let integer = decimal(integer);
                    format!("{integer} is out of range: it must lie between 0 and {}", <$number>::MAX)
                })
            }

            fn to_toml(&self) -> Option<String> {
                Some(self.to_string())
            }

            fn type_name() -> String {
                "whole number".to_owned()
            }

            #[cfg(test)]
            fn examples() -> Vec<Self> {
                vec![0, 1, <$number>::MAX]
            }
        }

        impl Number for $number {
            #[cfg(test)]
            fn arbitrary_in(range: RangeInclusive<Self>) -> BoxedStrategy<Self> {
                range.boxed()
            }
        }
    )*};
}

integer!(u8, u16, u32, u64, usize);

impl Value for String {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        string_of("a string", value).map(str::to_owned)
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(self))
    }

    fn type_name() -> String {
        "text".to_owned()
    }

    #[cfg(test)]
    fn examples() -> Vec<Self> {
        ["", "eth1", "with \"quotes\" and a \\", "two\nlines\t'''", "grün #1"]
            .map(Self::from)
            .into()
    }
}

impl Value for PathBuf {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        let text = string_of("a path", value)?;
        if text.is_empty() || text.contains('\0') {
            return Err("the path is empty or has a NUL character".to_owned());
        }
        Ok(Self::from(text))
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(self.display()))
    }

    fn type_name() -> String {
        "path".to_owned()
    }

    #[cfg(test)]
    fn examples() -> Vec<Self> {
        ["/tmp/a b", "relative", "/tmp/a \"quoted\" path", "/run/ndn/fwd.sock"]
            .map(Self::from)
            .into()
    }
}

impl Value for Duration {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match (value.as_str(), number_text(value)) {
            (Some(text), _) => parse_duration(text),
            (None, Some(number)) => duration_of_number(&number),
            (None, None) => Err(expected("a duration such as \"250ms\" or \"10min\"", value)),
        }
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(format_duration(*self)))
    }

    fn type_name() -> String {
        "duration".to_owned()
    }

    #[cfg(test)]
    fn examples() -> Vec<Self> {
        vec![Self::ZERO, Self::from_millis(1500), Self::from_secs(3600)]
    }
}

impl Number for Duration {
    const HAS_UNIT: bool = true;

    #[cfg(test)]
    fn arbitrary_in(range: RangeInclusive<Self>) -> BoxedStrategy<Self> {
        let nanos = |duration: &Self| u64::try_from(duration.as_nanos()).unwrap();
        (nanos(range.start())..=nanos(range.end())).prop_map(Self::from_nanos).boxed()
    }
}

impl Value for ByteSize {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match (value.as_str(), number_text(value)) {
            (Some(text), _) => text.parse(),
            (None, Some(number)) => size_of_number(&number),
            (None, None) => Err(expected("a size such as \"64KiB\"", value)),
        }
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(self))
    }

    fn type_name() -> String {
        "size".to_owned()
    }

    #[cfg(test)]
    fn examples() -> Vec<Self> {
        vec![Self(0), Self(999), Self::mebibytes(3)]
    }
}

impl Number for ByteSize {
    const HAS_UNIT: bool = true;

    #[cfg(test)]
    fn arbitrary_in(range: RangeInclusive<Self>) -> BoxedStrategy<Self> {
        (range.start().0..=range.end().0).prop_map(Self).boxed()
    }
}

/// A setting whose absence has a meaning of its own.
impl<T: Value> Value for Option<T> {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        T::from_toml(value).map(Some)
    }

    fn to_toml(&self) -> Option<String> {
        self.as_ref().and_then(T::to_toml)
    }

    fn type_name() -> String {
        T::type_name()
    }

    #[cfg(test)]
    fn examples() -> Vec<Self> {
        std::iter::once(None).chain(T::examples().into_iter().map(Some)).collect()
    }

    #[cfg(test)]
    fn arbitrary() -> BoxedStrategy<Self> {
        prop::option::of(T::arbitrary()).boxed()
    }
}

impl<T: Number> Number for Option<T> {
    const HAS_UNIT: bool = T::HAS_UNIT;

    #[cfg(test)]
    fn arbitrary_in(range: RangeInclusive<Self>) -> BoxedStrategy<Self> {
        let (low, high) = range.into_inner();
        prop::option::of(T::arbitrary_in(low.unwrap()..=high.unwrap())).boxed()
    }
}

/// A quota: 0 is none.
impl Value for Option<NonZeroU32> {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        u32::from_toml(value).map(NonZeroU32::new)
    }

    fn to_toml(&self) -> Option<String> {
        Some(self.map_or(0, NonZeroU32::get).to_string())
    }

    fn type_name() -> String {
        u32::type_name()
    }

    #[cfg(test)]
    fn examples() -> Vec<Self> {
        [0, 1, u32::MAX].map(NonZeroU32::new).into()
    }
}

impl Number for Option<NonZeroU32> {
    #[cfg(test)]
    fn arbitrary_in(range: RangeInclusive<Self>) -> BoxedStrategy<Self> {
        let (low, high) = range.into_inner();
        let number = |bound: Self| bound.map_or(0, NonZeroU32::get);
        (number(low)..=number(high)).prop_map(NonZeroU32::new).boxed()
    }
}

impl<T: Value> Value for Vec<T> {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        let items = value.as_array().ok_or_else(|| expected("a list", value))?;
        let (mut read, mut reasons) = (Self::new(), Vec::new());
        for item in items {
            match T::from_toml(item.get_ref()) {
                Ok(value) => read.push(value),
                Err(reason) => reasons.push(reason),
            }
        }
        if reasons.is_empty() { Ok(read) } else { Err(reasons.join("; ")) }
    }

    fn to_toml(&self) -> Option<String> {
        let items: Vec<_> = self.iter().filter_map(T::to_toml).collect();
        Some(format!("[{}]", items.join(", ")))
    }

    fn type_name() -> String {
        format!("list: {}", T::type_name())
    }

    #[cfg(test)]
    fn examples() -> Vec<Self> {
        vec![Self::new(), T::examples()]
    }

    #[cfg(test)]
    fn arbitrary() -> BoxedStrategy<Self> {
        prop::collection::vec(T::arbitrary(), 0..4).boxed()
    }
}

/// Values that are written as strings: how they are read, and their names in the reference.
macro_rules! text_value {
    ($type:ty, $name:expr, $examples:expr, $read:expr) => {
        impl $crate::value::Value for $type {
            fn from_toml(value: &toml::de::DeValue<'_>) -> Result<Self, String> {
                let text = $crate::value::string_of(&format!("a string ({})", $name), value)?;
                let read: fn(&str) -> Result<Self, String> = $read;
                read(text)
            }

            fn to_toml(&self) -> Option<String> {
                Some($crate::value::quoted(self))
            }

            fn type_name() -> String {
                $name.to_owned()
            }

            #[cfg(test)]
            fn examples() -> Vec<Self> {
                let read: fn(&str) -> Result<Self, String> = $read;
                $examples.map(|text: &str| read(text).expect(text)).into()
            }
        }
    };
}
pub(crate) use text_value;

text_value!(
    FileMode,
    "permission bits in octal, such as `\"0666\"`",
    ["0000", "0600", "0777"],
    |text| text.parse()
);
text_value!(Arrangement, "`\"P1\"`, `\"P2\"`, `\"P3\"` or `\"P4\"`", ["P1", "P4"], |text| text
    .parse());
text_value!(
    SocketAddr,
    "address and port",
    ["192.0.2.1:6363", "224.0.23.170:56363", "[ff02::1234]:56363", "127.0.0.1:6380"],
    |text| text.parse().map_err(|_| format!("\"{text}\" is not an address and a port"))
);
text_value!(IpAddr, "IP address", ["0.0.0.0", "::", "192.0.2.1"], |text| {
    text.parse().map_err(|_| format!("`{text}` is not an IP address"))
});
text_value!(Name, "name", ["/", "/a b/%00", "/net/8=x"], |text| {
    if !text.starts_with('/') {
        return Err(format!("`{text}` is not a name: names begin with `/`"));
    }
    Self::from_uri(text).map_err(|error| format!("`{text}` is not a name: {error}"))
});
text_value!(
    FaceUri,
    "face URI",
    [
        "udp4://192.0.2.1:6363",
        "udp://router.example:6363",
        "tcp6://[2001:db8::1]:7000",
        "ether://[08:00:27:01:02:03]",
        "memif:///run/ndn/fwd.sock/0"
    ],
    read_face_uri
);

/// The URI of a face that can be created, in canonical form, or of UDP or TCP with a host name.
fn read_face_uri(text: &str) -> Result<FaceUri, String> {
    let uri = FaceUri::parse(text).map_err(|error| error.to_string())?;
    if let Some(why) = uri.unreachable_reason() {
        return Err(format!("`{text}` is not the address of a peer: {why}"));
    }
    if uri.has_host_name() {
        return uri.with_port().map_err(|error| error.to_string());
    }
    let uri = uri.canonize().map_err(|error| error.to_string())?;
    let schemes = ["udp4", "udp6", "tcp4", "tcp6", "ether", "memif", "https"];
    if schemes.contains(&uri.scheme()) {
        Ok(uri)
    } else {
        Err(format!(
            "`{text}` is no UDP, TCP, WebTransport, Ethernet or memif face: write one such as \"udp4://192.0.2.1:6363\""
        ))
    }
}

/// A value that is one of a fixed set of words, each of which is one value of the type.
macro_rules! words {
    ($type:ty { $($word:literal => $value:expr),* $(,)? }) => {
        impl $crate::value::Value for $type {
            fn from_toml(value: &toml::de::DeValue<'_>) -> Result<Self, String> {
                $crate::value::one_of(value, &[$(($word, $value)),*])
            }

            fn to_toml(&self) -> Option<String> {
                $(if *self == $value {
                    return Some($crate::value::quoted($word));
                })*
                None
            }

            fn type_name() -> String {
                $crate::value::alternatives(&[$($word),*])
            }

            #[cfg(test)]
            fn examples() -> Vec<Self> {
                vec![$($value),*]
            }
        }
    };
}
pub(crate) use words;

/// Reads one of a fixed set of words.
pub(crate) fn one_of<T: Copy>(value: &DeValue<'_>, choices: &[(&str, T)]) -> Result<T, String> {
    let words =
        || choices.iter().map(|(word, _)| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
    let text = value.as_str().ok_or_else(|| expected(&format!("one of {}", words()), value))?;
    choices
        .iter()
        .find(|(word, _)| *word == text)
        .map(|(_, choice)| *choice)
        .ok_or_else(|| format!("`{text}` is not one of {}", words()))
}

/// Words, for the reference.
pub(crate) fn alternatives(words: &[&str]) -> String {
    words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", ")
}
