//! Values as TOML has them, and what is said of those that do not fit.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ndn_dataplane::Arrangement;
use toml::de::DeValue;

use super::types::{WORKERS_MAX, WorkerCount};
use super::units::{ByteSize, parse_duration};

/// A value that can be read from TOML.
pub(super) trait FromToml: Sized {
    /// Reads it, or says what is wrong.
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String>;

    /// What it looks like, for the reference.
    fn kind() -> String {
        "text".to_owned()
    }

    /// Whether it is written with a unit, so that a number alone may be something else than one out of range.
    fn has_unit() -> bool {
        false
    }
}

/// A number of this range; one that its type does not hold is out of it likewise.
pub(super) fn number_in<T>(
    value: &DeValue<'_>,
    range: &std::ops::RangeInclusive<T>,
) -> Result<T, String>
where
    T: FromToml + PartialOrd + Shown,
{
    let outside = |shown: &str| {
        let (low, high) = (range.start().shown(), range.end().shown());
        Err(format!("{shown} is out of range: it must lie between {low} and {high}"))
    };
    match (T::from_toml(value), value.as_integer()) {
        (Ok(read), _) if range.contains(&read) => Ok(read),
        (Ok(read), _) => outside(&read.shown()),
        (Err(_), Some(integer)) if !T::has_unit() => outside(&integer.to_string()),
        (Err(reason), _) => Err(reason),
    }
}

pub(super) fn expected(wanted: &str, found: &DeValue<'_>) -> String {
    match found.as_str() {
        Some(text) if text.len() <= 40 => format!("expected {wanted}, found {text:?} in quotes"),
        _ => format!("expected {wanted}, found {}", found.type_str()),
    }
}

fn text_of<'v>(wanted: &str, value: &'v DeValue<'_>) -> Result<&'v str, String> {
    value.as_str().ok_or_else(|| expected(wanted, value))
}

impl FromToml for bool {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        value.as_bool().ok_or_else(|| expected("true or false", value))
    }

    fn kind() -> String {
        "`true` or `false`".to_owned()
    }
}

macro_rules! whole_number {
    ($($number:ty),*) => {$(
        impl FromToml for $number {
            fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
                let integer = value.as_integer().ok_or_else(|| expected("a whole number", value))?;
                <$number>::from_str_radix(integer.as_str(), integer.radix()).map_err(|_| {
                    format!("{integer} is out of range: it must lie between 0 and {}", <$number>::MAX)
                })
            }

            fn kind() -> String {
                "whole number".to_owned()
            }
        }
    )*};
}

whole_number!(u8, u16, u32, u64, usize);

impl FromToml for String {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        text_of("a string", value).map(str::to_owned)
    }
}

impl FromToml for PathBuf {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        let text = text_of("a path", value)?;
        if text.is_empty() || text.contains('\0') {
            return Err("the path is empty or has a NUL character".to_owned());
        }
        Ok(Self::from(text))
    }

    fn kind() -> String {
        "path".to_owned()
    }
}

impl FromToml for Duration {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        parse_duration(text_of("a duration such as \"250ms\" or \"10min\"", value)?)
    }

    fn kind() -> String {
        "duration".to_owned()
    }

    fn has_unit() -> bool {
        true
    }
}

impl FromToml for ByteSize {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match value {
            DeValue::Integer(_) => u64::from_toml(value).map(Self),
            DeValue::String(text) => text.parse(),
            DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_)
            | DeValue::Table(_) => Err(expected("a size such as \"64KiB\"", value)),
        }
    }

    fn kind() -> String {
        "size".to_owned()
    }
}

impl FromToml for WorkerCount {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match value.as_str() {
            Some("auto") => Ok(Self::Auto),
            Some(_) => Err(expected("a whole number or \"auto\"", value)),
            None => number_in(value, &(1..=WORKERS_MAX)).map(Self::Fixed),
        }
    }

    fn kind() -> String {
        "whole number or `\"auto\"`".to_owned()
    }
}

impl FromToml for Arrangement {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        text_of("P1, P2, P3 or P4", value)?.parse()
    }

    fn kind() -> String {
        "`\"P1\"`, `\"P2\"`, `\"P3\"` or `\"P4\"`".to_owned()
    }
}

impl FromToml for SocketAddr {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        let text = text_of("an address and a port", value)?;
        text.parse().map_err(|_| format!("\"{text}\" is not an address and a port"))
    }

    fn kind() -> String {
        "address and port".to_owned()
    }
}

impl FromToml for IpAddr {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        let text = text_of("an IP address", value)?;
        text.parse().map_err(|_| format!("`{text}` is not an IP address"))
    }

    fn kind() -> String {
        "IP address".to_owned()
    }
}

impl<T: FromToml> FromToml for Vec<T> {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        let items = value.as_array().ok_or_else(|| expected("a list", value))?;
        let (mut read, mut reasons) = (Vec::new(), Vec::new());
        for item in items {
            match T::from_toml(item.get_ref()) {
                Ok(value) => read.push(value),
                Err(reason) => reasons.push(reason),
            }
        }
        if reasons.is_empty() { Ok(read) } else { Err(reasons.join("; ")) }
    }

    fn kind() -> String {
        format!("list: {}", T::kind())
    }
}

/// Reads one of a fixed set of words.
pub(super) fn one_of<T: Copy>(value: &DeValue<'_>, choices: &[(&str, T)]) -> Result<T, String> {
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
pub(super) fn words(choices: &[&str]) -> String {
    choices.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", ")
}

/// How a bound of a range is written in a message.
pub(super) trait Shown {
    fn shown(&self) -> String;
}

macro_rules! shown_as_displayed {
    ($($number:ty),*) => {$(
        impl Shown for $number {
            fn shown(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

shown_as_displayed!(u8, u16, u32, u64, usize, ByteSize);

impl Shown for Duration {
    fn shown(&self) -> String {
        super::units::format_duration(*self)
    }
}
