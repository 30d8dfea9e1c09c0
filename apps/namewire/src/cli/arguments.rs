//! Parses names and durations on the command line.

use std::time::Duration;

use ndn_packet::Name;

use crate::config::parse_duration;

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

/// Parses a duration; a number without a unit is in milliseconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(milliseconds) => Ok(Duration::from_millis(milliseconds)),
        Err(_) => parse_duration(text),
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
    fn durations_have_a_unit_or_are_in_milliseconds() {
        assert_eq!(duration("250"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert!(duration("0.5s").is_err());
    }

    #[test]
    fn a_time_to_wait_is_not_zero() {
        assert_eq!(positive_duration("1ms"), Ok(Duration::from_millis(1)));
        assert!(positive_duration("0").is_err());
        assert!(positive_duration("0s").is_err());
    }
}
