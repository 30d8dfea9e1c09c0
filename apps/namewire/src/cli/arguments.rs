//! Parses names, durations, sizes and Base64 on the command line.

use std::any::TypeId;
use std::error::Error as _;
use std::net::AddrParseError;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine, alphabet};
use clap::error::{ContextKind, ContextValue};
use ndn_management::PREFIX_DEPTH_MAX;
use ndn_packet::Name;
use ndn_table::NAME_COMPONENTS_MAX;

use crate::config::ByteSize;
pub use crate::config::parse_duration as duration;

/// Parses a name.
pub(super) fn name(text: &str) -> Result<Name, String> {
    if !text.starts_with('/') && !text.starts_with("ndn:") {
        return Err("names begin with `/`".to_owned());
    }
    Name::from_uri(text).map_err(|error| error.to_string())
}

/// Parses the name of an Interest.
pub(super) fn interest_name(text: &str) -> Result<Name, String> {
    with_components(name(text)?, NAME_COMPONENTS_MAX)
}

/// Parses the name of an object to fetch: Interests for it have names of at least one component more.
pub(super) fn object_name(text: &str) -> Result<Name, String> {
    with_components(name(text)?, NAME_COMPONENTS_MAX - 1)
}

/// Maximum number of components of the name of a file or directory of a file server: the metadata of both, and the listing of a
/// directory, have three more.
pub(super) const FILE_COMPONENTS_MAX: usize = NAME_COMPONENTS_MAX - 3;

/// Parses the name of a directory of a file server.
pub(super) fn directory_name(text: &str) -> Result<Name, String> {
    with_components(name(text)?, FILE_COMPONENTS_MAX)
}

/// Why a file or directory of a file server cannot be fetched, if its name has too many components.
pub(super) fn too_deep(name: &Name) -> Option<String> {
    let components_max = FILE_COMPONENTS_MAX;
    (name.len() > components_max).then(|| {
        let excess = excess(name.len(), components_max, "for files and directories");
        format!("{name} has {excess}, {}", reason_of_drops())
    })
}

/// The text about a name of too many components.
fn excess(count: usize, components_max: usize, place: &str) -> String {
    format!("{count} components: at most {components_max} are possible {place}")
}

fn reason_of_drops() -> String {
    format!("as forwarders drop packets whose names have more than {NAME_COMPONENTS_MAX}")
}

/// A name of at most `components_max` components beside its implicit digest.
pub(super) fn with_components(name: Name, components_max: usize) -> Result<Name, String> {
    let digest = usize::from(name.as_ref().implicit_digest().is_some());
    match name.len() - digest {
        count if count > components_max => {
            Err(format!("it has {}, {}", excess(count, components_max, "here"), reason_of_drops()))
        }
        _ => Ok(name),
    }
}

/// Parses the prefix of a route or a strategy, whose length forwarders limit.
pub(super) fn prefix_name(text: &str) -> Result<Name, String> {
    let name = name(text)?;
    check_depth(&name, PREFIX_DEPTH_MAX, "for a prefix")?;
    Ok(name)
}

/// Refuses a prefix that is too long to be registered.
fn check_depth(prefix: &Name, components_max: usize, place: &str) -> Result<(), String> {
    match prefix.len() {
        count if count > components_max => {
            let excess = excess(count, components_max, place);
            Err(format!("it has {excess}: NFD and Namewire accept no more"))
        }
        _ => Ok(()),
    }
}

/// Parses the prefix of a ping server, which registers a name of one component more.
pub(super) fn pinged_prefix(text: &str) -> Result<Name, String> {
    let name = published_name(text)?;
    check_depth(&name, PREFIX_DEPTH_MAX - 1, "for a prefix of pings")?;
    Ok(name)
}

/// Parses a name to publish under, which is registered as a prefix and cannot contain a digest component.
pub(super) fn published_name(text: &str) -> Result<Name, String> {
    without_digest(prefix_name(text)?)
}

/// Parses the name of an object, which is registered as a prefix without the version at its end.
pub(super) fn published_object(text: &str) -> Result<Name, String> {
    let name = without_digest(name(text)?)?;
    let with_version = usize::from(name.as_ref().ends_in_version());
    let place = if with_version == 0 { "for a prefix" } else { "with a version" };
    check_depth(&name, PREFIX_DEPTH_MAX + with_version, place)?;
    Ok(name)
}

fn without_digest(name: Name) -> Result<Name, String> {
    match name.components().any(|component| component.ty().is_digest()) {
        true => Err("a name to publish under cannot contain a digest component".to_owned()),
        false => Ok(name),
    }
}

/// Parses a name to publish under, which is neither `/` nor one of management.
pub(super) fn served_name(text: &str) -> Result<Name, String> {
    let name = published_name(text)?;
    why_not_served(&name).map_or(Ok(name), Err)
}

/// Why a name is not published under without `--force`: the route of `/` attracts the Interests of all names, and management
/// answers for others.
fn why_not_served(name: &Name) -> Option<String> {
    if name.is_empty() {
        let reason =
            "it would attract the Interests of all names: choose a name of one component or more";
        return Some(reason.to_owned());
    }
    let management = ["/localhost/nfd", "/localhop/nfd"];
    let of_management = management.into_iter().find(|prefix| {
        Name::from_uri(prefix).is_ok_and(|prefix| name.as_ref().starts_with(prefix.as_ref()))
    });
    of_management
        .map(|prefix| format!("names under {prefix} are those of the forwarder's management"))
}

/// Refuses a name as [`served_name`] does, unless `is_forced`.
pub(super) fn check_served(name: &Name, is_forced: bool) -> Result<(), String> {
    match why_not_served(name) {
        Some(reason) if !is_forced => {
            Err(format!("{name}: {reason}; --force publishes under it all the same"))
        }
        Some(_) | None => Ok(()),
    }
}

/// Parses the name of an identity, which is not empty.
pub(super) fn identity_name(text: &str) -> Result<Name, String> {
    let name = name(text)?;
    match name.is_empty() {
        true => Err("an identity has a name of one component or more".to_owned()),
        false => Ok(name),
    }
}

/// Parses a whole number from 1.
pub(super) fn at_least_one<T>(text: &str) -> Result<T, String>
where
    T: FromStr<Err = ParseIntError> + PartialEq,
{
    let zero = T::from_str("0").ok();
    match text.parse::<T>() {
        Ok(number) if zero.as_ref() != Some(&number) => Ok(number),
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => {
            Err("the number is too large".to_owned())
        }
        Ok(_) | Err(_) => Err("it is a whole number, 1 or more".to_owned()),
    }
}

/// The reason of the refusal of `value`, if the words of an error are those of a library.
pub(super) fn reason_in_words(
    error: &(dyn std::error::Error + 'static),
    value: &str,
) -> Option<String> {
    if let Some(error) = error.downcast_ref::<ParseIntError>() {
        let is_large = *error.kind() == IntErrorKind::PosOverflow;
        let is_negative =
            value.strip_prefix('-').is_some_and(|number| number.parse::<u64>().is_ok());
        let reason = match (is_large, is_negative) {
            (true, _) => "the number is too large",
            (_, true) => "the number is not negative",
            (false, false) => "it is not a whole number",
        };
        return Some(reason.to_owned());
    }
    if error.is::<ParseFloatError>() {
        return Some("it is not a number".to_owned());
    }
    let text = error.to_string();
    if error.is::<AddrParseError>() {
        let reason = match text.contains("socket") {
            true => "it is an IP address and a port, such as 127.0.0.1:6380 or [::1]:6380",
            false => "it is an IP address, such as 192.0.2.1 or ::1",
        };
        return Some(reason.to_owned());
    }
    let (from, to) = text.rsplit_once(" is not in ")?.1.split_once("..=")?;
    Some(format!("it is a whole number from {from} to {to}"))
}

/// The text of an error about a value that is no number or address, without the words of libraries.
pub(super) fn wrong_value(error: &clap::Error) -> Option<String> {
    let source = error.source()?;
    let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) else {
        return None;
    };
    let reason = reason_in_words(source, value)?;
    Some(error.render().to_string().trim_end().replace(&source.to_string(), &reason))
}

/// Options take a value that is a negative number, and those with a duration or a size one that begins with a dash: the reason
/// of its refusal is that it is negative, and not that there is no option of this name.
pub(super) fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|argument| {
        let has_unit = argument.get_value_parser().type_id() == TypeId::of::<Duration>()
            || argument.get_value_names().is_some_and(|names| names[0].starts_with("SIZE"));
        match argument.get_action().takes_values() {
            true if has_unit => argument.allow_hyphen_values(true),
            true => argument.allow_negative_numbers(true),
            false => argument,
        }
    });
    command.mut_subcommands(with_negative_numbers)
}

/// Parses a number of bytes with its unit, in this range.
pub fn size<T>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: TryFrom<u64> + TryInto<u64> + PartialOrd + Copy + Send + Sync + 'static,
{
    move |text| {
        let ByteSize(bytes) = text.parse()?;
        T::try_from(bytes).ok().filter(|bytes| range.contains(bytes)).ok_or_else(|| {
            let shown = |end: T| ByteSize(end.try_into().unwrap_or(u64::MAX));
            let (from, to) = (shown(*range.start()), shown(*range.end()));
            match to.0 < u64::from(u32::MAX) || bytes > to.0 {
                true => format!("it is from {from} to {to}"),
                false => format!("it is {from} or more"),
            }
        })
    }
}

/// As [`duration`], but not zero.
pub fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("it must not be zero".to_owned()),
        duration => Ok(duration),
    }
}

/// Reads Base64 of either alphabet, with or without padding; white space is ignored.
pub(super) fn from_base64(text: &str) -> Result<Vec<u8>, String> {
    let config =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let engine = GeneralPurpose::new(&alphabet::STANDARD, config);
    let standard = |character| match character {
        '-' => '+',
        '_' => '/',
        other => other,
    };
    let digits: String = text.chars().filter(|c| !c.is_whitespace()).map(standard).collect();
    engine.decode(digits).map_err(|error| format!("it is not Base64: {error}"))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    #[test]
    fn durations_and_sizes_need_a_unit() {
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert_eq!(duration("-1s").unwrap_err(), "a duration is not negative");
        assert_eq!(at_least_one::<u64>("7"), Ok(7));
        assert_eq!(at_least_one("7"), Ok(NonZeroU32::MIN.saturating_add(6)));
        for refused in ["0", "-1", "x"] {
            let reasons =
                [at_least_one::<u64>(refused).err(), at_least_one::<NonZeroU32>(refused).err()];
            assert_eq!(
                reasons,
                [(); 2].map(|()| Some("it is a whole number, 1 or more".to_owned()))
            );
        }
        let reason = duration("250").unwrap_err();
        assert!(reason.contains("250ms"), "{reason}");
        let any = size(0..=u64::MAX);
        assert_eq!((any("8k"), any("0"), any("2GiB")), (Ok(8000), Ok(0), Ok(2 << 30)));
        assert_eq!(any("8000").unwrap_err(), "`8000` has no unit: write 8000B or 8000KiB");
        assert_eq!(size(64..=8800_usize)("9kB").unwrap_err(), "it is from 64B to 8800B");
        assert_eq!(size(1..=u64::MAX)("0").unwrap_err(), "it is 1B or more");
        let error = size(1..=1_u64 << 40)("2TiB").unwrap_err();
        assert!(error.starts_with("it is from 1B to "), "{error}");
    }

    #[test]
    fn all_units_of_the_notes_are_read() {
        let notes = crate::cli::failure::NOTES;
        let lines = notes.lines().skip(1).take_while(|line| !line.is_empty());
        let mut read = 0;
        for line in lines {
            let (units, what) = line.trim().split_once("  ").unwrap();
            let aliases =
                what.split_once("also ").map_or("", |(_, after)| after.split(':').next().unwrap());
            let (_, examples) = what.rsplit_once(": ").unwrap();
            let of_units =
                units.split(", ").chain(aliases.split(", ").filter(|unit| !unit.is_empty()));
            for text in of_units
                .map(|unit| format!("3{unit}"))
                .chain(examples.split(", ").map(str::to_owned))
            {
                let is_read = match what.trim().starts_with("durations") {
                    true => duration(&text).is_ok(),
                    false => size(0..=u64::MAX)(&text).is_ok(),
                };
                assert!(is_read, "{text}");
                read += 1;
            }
        }
        assert_eq!(read, 6 + 3 + 5 + 4 + 3 + 4 + 4 + 2);
    }

    #[test]
    fn root_and_names_of_management_are_not_served() {
        for (uri, reason) in [
            ("/", "all names"),
            ("/localhost/nfd", "management"),
            ("/localhost/nfd/rib", "management"),
            ("/localhop/nfd/x", "management"),
            ("x", "begin with `/`"),
        ] {
            assert!(served_name(uri).unwrap_err().contains(reason), "{uri}");
        }
        assert!(served_name("/localhost/app").is_ok());
        for name in [Name::default(), "/localhost/nfd/x".parse().unwrap()] {
            let reason = check_served(&name, false).unwrap_err();
            assert!(reason.ends_with("--force publishes under it all the same"), "{reason}");
            assert_eq!(check_served(&name, true), Ok(()));
        }
        assert!(identity_name("/").is_err() && identity_name("/me").is_ok());
    }

    #[test]
    fn requested_names_fit_the_tables_of_forwarders() {
        let of = |count: usize| "/a".repeat(count);
        assert!(object_name(&of(62)).is_ok() && interest_name(&of(63)).is_ok());
        let digest = format!("{}/sha256digest={}", of(63), "07".repeat(32));
        assert!(interest_name(&digest).is_ok() && interest_name(&of(64)).is_err());
        let reason = object_name(&of(63)).unwrap_err();
        assert!(reason.starts_with("it has 63 components: at most 62"), "{reason}");
        assert!(directory_name(&of(60)).is_ok());
        let reason = directory_name(&of(61)).unwrap_err();
        assert!(reason.starts_with("it has 61 components: at most 60"), "{reason}");
        assert!(prefix_name(&of(32)).is_ok() && published_name(&of(32)).is_ok());
        assert!(pinged_prefix(&of(31)).is_ok() && pinged_prefix(&of(32)).is_err());
        let (in_full, too_long) = (format!("{}/v=1", of(32)), format!("{}/v=1", of(33)));
        assert!(published_object(&in_full).is_ok() && published_object(&of(33)).is_err());
        let reason = published_object(&too_long).unwrap_err();
        assert!(reason.starts_with("it has 34 components: at most 33 are possible "), "{reason}");
        let reason = "it has 33 components: at most 32 are possible for a prefix: NFD and Namewire accept no more";
        assert_eq!(
            [prefix_name, published_name].map(|parse| parse(&of(33)).unwrap_err()),
            [reason; 2]
        );
    }

    #[test]
    fn zero_timeout_is_rejected() {
        assert_eq!(positive_duration("1ms"), Ok(Duration::from_millis(1)));
        assert!(positive_duration("0").is_err());
        assert!(positive_duration("0s").is_err());
    }
}
