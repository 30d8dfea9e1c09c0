//! Parses names, durations and sizes on the command line.

use std::time::Duration;

use ndn_packet::Name;

use crate::config::{ByteSize, parse_duration};

/// Parses a name.
pub(super) fn name(text: &str) -> Result<Name, String> {
    if !text.starts_with('/') && !text.starts_with("ndn:") {
        return Err("names begin with `/`".to_owned());
    }
    Name::from_uri(text).map_err(|error| error.to_string())
}

/// Parses a name to publish under, which cannot contain a digest component.
pub(super) fn published_name(text: &str) -> Result<Name, String> {
    let name = name(text)?;
    match name.components().any(|component| component.ty().is_digest()) {
        true => Err("a name to publish under cannot contain a digest component".to_owned()),
        false => Ok(name),
    }
}

/// Parses a name under which an object or a directory is published: not `/`, whose route would attract the Interests of
/// all names, and none that management answers.
pub(super) fn served_name(text: &str) -> Result<Name, String> {
    let name = published_name(text)?;
    if name.is_empty() {
        let reason =
            "it would attract the Interests of all names: choose a name of one component or more";
        return Err(reason.to_owned());
    }
    let management = ["/localhost/nfd", "/localhop/nfd"];
    let of_management = management.into_iter().find(|prefix| {
        Name::from_uri(prefix).is_ok_and(|prefix| name.as_ref().starts_with(prefix.as_ref()))
    });
    match of_management {
        Some(prefix) => {
            Err(format!("names under {prefix} are those of the forwarder's management"))
        }
        None => Ok(name),
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

/// Parses a duration with its unit.
pub fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text)
}

/// Parses a number of bytes, with or without a unit.
pub(super) fn size(text: &str) -> Result<u64, String> {
    text.parse::<ByteSize>().map(|size| size.0)
}

/// As [`size`], but not zero.
pub(super) fn positive_size(text: &str) -> Result<u64, String> {
    match size(text)? {
        0 => Err("it must not be zero".to_owned()),
        size => Ok(size),
    }
}

/// As [`duration`], but not zero.
pub fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("it must not be zero".to_owned()),
        duration => Ok(duration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit_and_sizes_may_have_one() {
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        let reason = duration("250").unwrap_err();
        assert!(reason.contains("250ms"), "{reason}");
        assert_eq!((size("8k"), size("8000"), size("2GiB")), (Ok(8000), Ok(8000), Ok(2 << 30)));
        assert!(positive_size("0").is_err() && size("8x").is_err());
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
        assert!(identity_name("/").is_err() && identity_name("/me").is_ok());
    }

    #[test]
    fn a_time_to_wait_is_not_zero() {
        assert_eq!(positive_duration("1ms"), Ok(Duration::from_millis(1)));
        assert!(positive_duration("0").is_err());
        assert!(positive_duration("0s").is_err());
    }
}
