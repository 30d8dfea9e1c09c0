//! Sizes and durations as they are written in configurations, scenario files and on command lines: `64KiB`, `1.5s`.

use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::time::Duration;

use crate::time::duration_ns;

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

const SIZE_UNITS: [(&str, u64); 9] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// Short forms of [`SIZE_UNITS`], which are read and not written.
const SIZE_ALIASES: [(&str, u64); 9] = [
    ("k", 1_000),
    ("KB", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
];

/// The units that a message about a number without one proposes.
const COMMON_UNITS: [&str; 5] = ["ms", "s", "min", "B", "KiB"];

const DURATION_UNITS: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

impl ByteSize {
    /// A size of `count` KiB.
    pub const fn kibibytes(count: u64) -> Self {
        Self(count << 10)
    }

    /// A size of `count` MiB.
    pub const fn mebibytes(count: u64) -> Self {
        Self(count << 20)
    }
}

/// Reads a size such as `64KiB`, `1.5MB` or `8k`. `0` needs no unit.
impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example = "64KiB, 1.5MB or 8800B";
        read_in_units(text, ("size", example), SIZE_UNITS.iter().chain(&SIZE_ALIASES)).map(Self)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        format_in_units(formatter, self.0, &SIZE_UNITS[..5])
    }
}

/// Reads a duration such as `250ms`, `1.5s` or `10min`. `0` needs no unit.
///
/// # Errors
/// The text is no number with one of the units ns, us, ms, s, min, h, is no whole number of nanoseconds, or overflows 64
/// bits of them.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let example = "250ms, 1.5s or 10min";
    let nanoseconds = read_in_units(text, ("duration", example), DURATION_UNITS.iter());
    nanoseconds.map(Duration::from_nanos)
}

/// Reads a number with one of these units; `0` needs none. `what` is what the text should be, with examples.
fn read_in_units<'u>(
    text: &str,
    (what, examples): (&str, &str),
    units: impl Iterator<Item = &'u (&'static str, u64)> + Clone,
) -> Result<u64, String> {
    if let Some(positive) = text.trim().strip_prefix('-')
        && read_in_units(positive, (what, examples), units.clone()).is_ok()
    {
        return Err(format!("a {what} is not negative"));
    }
    let (number, unit) = split_number(text);
    if unit.is_empty() && multiple(number, 1) == Some(0) {
        return Ok(0);
    }
    if unit.is_empty() && number.parse::<f64>().is_ok() {
        return Err(lacks_unit(number, units, ""));
    }
    let factor = units.clone().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    let amount = factor.and_then(|factor| multiple(number, factor));
    amount.ok_or_else(|| {
        let names: Vec<_> = units.map(|(name, _)| *name).collect();
        if factor.is_some_and(|factor| is_too_large(number, factor)) {
            return format!("`{text}`: a {what} has at most 64 bits");
        }
        match factor.is_none() && !unit.is_empty() && !number.is_empty() {
            true => format!("`{text}`: {unit} is not a unit; the units are {}", names.join(", ")),
            false => {
                format!("`{text}` is not a {what}: write a number with a unit, such as {examples}")
            }
        }
    })
}

/// Whether a decimal number times a factor exceeds 64 bits.
fn is_too_large(number: &str, factor: u64) -> bool {
    let whole = number.split('.').next().unwrap_or_default();
    let is_number = !whole.is_empty() && number.parse::<f64>().is_ok();
    is_number && whole.parse().ok().and_then(|whole: u64| whole.checked_mul(factor)).is_none()
}

/// The message about a number without a unit, with the mend.
fn lacks_unit<'u>(
    number: &str,
    units: impl Iterator<Item = &'u (&'static str, u64)>,
    quote: &str,
) -> String {
    let names = units.map(|(name, _)| *name).filter(|name| COMMON_UNITS.contains(name));
    let written: Vec<_> = names.map(|name| format!("{quote}{number}{name}{quote}")).collect();
    format!("`{number}` has no unit: write {}", written.join(" or "))
}

/// Reads a size that a file has as a number instead of a string, such as `8000`: `0` only.
///
/// # Errors
/// The message with the mend, in quotes.
pub fn size_of_number(number: &str) -> Result<ByteSize, String> {
    match number.parse() {
        Ok(zero) => Ok(zero),
        Err(_) => Err(lacks_unit(number, SIZE_UNITS.iter(), "\"")),
    }
}

/// Reads a duration that a file has as a number instead of a string, such as `250`: `0` only.
///
/// # Errors
/// The message with the mend, in quotes.
pub fn duration_of_number(number: &str) -> Result<Duration, String> {
    match parse_duration(number) {
        Ok(zero) => Ok(zero),
        Err(_) => Err(lacks_unit(number, DURATION_UNITS.iter(), "\"")),
    }
}

/// The units of sizes and durations, in Markdown.
#[must_use]
pub fn units_table() -> String {
    let mut page = "| unit | value |\n|---|---|\n".to_owned();
    for (name, bytes) in SIZE_UNITS {
        let aliases = SIZE_ALIASES.iter().filter(|(_, same)| *same == bytes);
        let aliases: String = aliases.map(|(alias, _)| format!(", `{alias}`")).collect();
        let _ = writeln!(page, "| `{name}`{aliases} | {} |", counted(bytes, "byte"));
    }
    for (name, nanoseconds) in DURATION_UNITS {
        let value = match nanoseconds / 1_000_000_000 {
            0 => counted(nanoseconds, "nanosecond"),
            seconds => counted(seconds, "second"),
        };
        let _ = writeln!(page, "| `{name}` | {value} |");
    }
    page
}

/// A number with its unit, in groups of three digits.
fn counted(count: u64, unit: &str) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let ending = if count == 1 { "" } else { "s" };
    format!("{grouped} {unit}{ending}")
}

/// A decimal number times a factor, if that is a whole number of 64 bits.
fn multiple(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_plain = number.split_once('.').is_none() || (!whole.is_empty() && !fraction.is_empty());
    let digits = u32::try_from(fraction.len()).ok().filter(|digits| *digits <= 12 && is_plain)?;
    let scale = 10_u128.pow(digits);
    let scaled: u128 = format!("{whole}{fraction}").parse().ok()?;
    let product = scaled.checked_mul(u128::from(factor))?;
    product.is_multiple_of(scale).then(|| u64::try_from(product / scale).ok()).flatten()
}

/// Writes a duration the way [`parse_duration`] reads it, in the largest unit that is exact.
pub fn format_duration(duration: Duration) -> String {
    struct Shown(u64);
    impl fmt::Display for Shown {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            format_in_units(formatter, self.0, &DURATION_UNITS)
        }
    }
    if duration.is_zero() {
        return "0s".to_owned();
    }
    Shown(duration_ns(duration)).to_string()
}

fn split_number(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text
        .find(|character: char| !character.is_ascii_digit() && character != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim_start())
}

fn format_in_units(
    formatter: &mut fmt::Formatter<'_>,
    amount: u64,
    units: &[(&str, u64)],
) -> fmt::Result {
    for (name, factor) in units.iter().rev() {
        if amount >= *factor && amount.is_multiple_of(*factor) {
            return write!(formatter, "{}{name}", amount / factor);
        }
    }
    write!(formatter, "{amount}{}", units[0].0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_round_trip() {
        for (text, bytes) in [
            ("0", 0),
            ("17B", 17),
            ("64KiB", 65_536),
            ("3 MB", 3_000_000),
            ("2GiB", 2 << 30),
            ("8k", 8000),
            ("1.5MiB", 3 << 19),
            ("0.5G", 500_000_000),
        ] {
            assert_eq!(text.parse::<ByteSize>(), Ok(ByteSize(bytes)), "{text}");
        }
        for size in [ByteSize(0), ByteSize(1), ByteSize(1000), ByteSize(65_536), ByteSize(3 << 20)]
        {
            assert_eq!(size.to_string().parse::<ByteSize>(), Ok(size));
        }
    }

    #[test]
    fn invalid_sizes_and_durations_are_rejected() {
        for text in [
            "",
            "17",
            "1.5",
            "KiB",
            "-1KiB",
            "1.0001B",
            "1.2.3MB",
            ".5k",
            "12kb",
            "99999999999TiB",
            "1 2KiB",
        ] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
        for text in ["", "5", "ms", "-5s", "1.5", "1.5ns", "1.s", "3 parsecs", "99999999999999h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        let reason = parse_duration("5").unwrap_err();
        assert_eq!(reason, "`5` has no unit: write 5ms or 5s or 5min");
        let reason = "8000".parse::<ByteSize>().unwrap_err();
        assert_eq!(reason, "`8000` has no unit: write 8000B or 8000KiB");
        let reason = "99999999999TiB".parse::<ByteSize>().unwrap_err();
        assert_eq!(reason, "`99999999999TiB`: a size has at most 64 bits");
        assert!(parse_duration("99999999999999h").unwrap_err().contains("at most 64 bits"));
        assert_eq!("-1KiB".parse::<ByteSize>().unwrap_err(), "a size is not negative");
        assert_eq!(parse_duration("-5s").unwrap_err(), "a duration is not negative");
        let reason = parse_duration("3 parsecs").unwrap_err();
        assert!(reason.contains("parsecs is not a unit; the units are ns, us"), "{reason}");
    }

    #[test]
    fn number_without_unit_is_rejected_with_the_correct_form() {
        let reason = size_of_number("8000").unwrap_err();
        assert_eq!(reason, "`8000` has no unit: write \"8000B\" or \"8000KiB\"");
        let reason = duration_of_number("2.5").unwrap_err();
        assert_eq!(reason, "`2.5` has no unit: write \"2.5ms\" or \"2.5s\" or \"2.5min\"");
        assert_eq!(size_of_number("0"), Ok(ByteSize(0)));
        assert_eq!(duration_of_number("0"), Ok(Duration::ZERO));
    }

    #[test]
    fn documented_table_lists_every_unit() {
        let table = units_table();
        let units = SIZE_UNITS.iter().chain(&SIZE_ALIASES).chain(&DURATION_UNITS);
        for (name, _) in units {
            assert!(table.contains(&format!("`{name}`")), "{name}");
        }
        assert!(table.contains("| `kB`, `k`, `KB` | 1,000 bytes |\n"), "{table}");
        assert!(table.contains("| `us` | 1,000 nanoseconds |\n| `ms`"), "{table}");
    }

    #[test]
    fn durations_round_trip() {
        for (text, duration) in [
            ("250ms", Duration::from_millis(250)),
            ("10min", Duration::from_secs(600)),
            ("0s", Duration::ZERO),
            ("20us", Duration::from_micros(20)),
        ] {
            assert_eq!(parse_duration(text), Ok(duration));
            assert_eq!(format_duration(duration), text);
        }
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("0.25h"), Ok(Duration::from_secs(900)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
    }
}
