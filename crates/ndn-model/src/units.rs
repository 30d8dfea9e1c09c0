//! Quantities in files and properties: a number and a unit.

/// Picoseconds of each unit of time.
const TIMES: [(&str, f64); 6] =
    [("ps", 1.0), ("ns", 1e3), ("us", 1e6), ("µs", 1e6), ("ms", 1e9), ("s", 1e12)];
/// Packets per second of each unit of rate.
const RATES: [(&str, f64); 4] = [("/s", 1.0), ("k/s", 1e3), ("M/s", 1e6), ("G/s", 1e9)];
/// Bits per second.
const BIT_RATES: [(&str, f64); 4] =
    [("bit/s", 1.0), ("kbit/s", 1e3), ("Mbit/s", 1e6), ("Gbit/s", 1e9)];
/// Bytes.
const SIZES: [(&str, f64); 3] = [("B", 1.0), ("kB", 1e3), ("KiB", 1024.0)];

/// Parses a duration such as `700 ns`, in picoseconds.
pub(crate) fn duration_ps(text: &str) -> Result<f64, String> {
    quantity(text, &TIMES, "a duration such as \"700 ns\"")
}

/// Parses a rate of packets such as `2 M/s`, per second.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    quantity(text, &RATES, "a rate such as \"2 M/s\"")
}

/// Parses a rate of bits such as `100 Gbit/s`, per second.
pub(crate) fn bit_rate(text: &str) -> Result<f64, String> {
    quantity(text, &BIT_RATES, "a bit rate such as \"100 Gbit/s\"")
}

/// Parses a size such as `1200 B`, in bytes.
pub(crate) fn size(text: &str) -> Result<f64, String> {
    quantity(text, &SIZES, "a size such as \"1200 B\"")
}

fn quantity(text: &str, units: &[(&str, f64)], expected: &str) -> Result<f64, String> {
    let text = text.trim();
    let end = text
        .char_indices()
        .find(|(index, c)| {
            !(c.is_ascii_digit()
                || matches!(c, '.' | '_')
                || (*index > 0 && is_exponent(text, *index)))
        })
        .map_or(text.len(), |(index, _)| index);
    let (number, unit) = (text[..end].replace('_', ""), text[end..].trim());
    let names = || units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let Ok(value) = number.parse::<f64>() else {
        return Err(format!("\"{text}\" is not {expected}"));
    };
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        let problem =
            if unit.is_empty() { "has no unit".into() } else { format!("has the unit \"{unit}\"") };
        return Err(format!("\"{text}\" {problem}: expected {expected} (units: {})", names()));
    };
    Ok(value * factor)
}

/// Whether the character belongs to an exponent such as in `1e-3`.
fn is_exponent(text: &str, index: usize) -> bool {
    let bytes = text.as_bytes();
    let digit_after = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    match bytes[index] {
        b'e' => {
            digit_after(index + 1)
                || (matches!(bytes.get(index + 1), Some(b'-' | b'+')) && digit_after(index + 2))
        }
        b'-' | b'+' => bytes[index - 1] == b'e' && digit_after(index + 1),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn quantities_have_a_number_and_a_unit() {
        assert_eq!(duration_ps("700 ns").unwrap(), 700e3);
        assert_eq!(duration_ps("1.5us").unwrap(), 1.5e6);
        assert_eq!(duration_ps("1e-3 s").unwrap(), 1e9);
        assert_eq!(rate("2 M/s").unwrap(), 2e6);
        assert_eq!(rate("2_000/s").unwrap(), 2e3);
        assert_eq!(bit_rate("100 Gbit/s").unwrap(), 1e11);
        assert_eq!(size("1200 B").unwrap(), 1200.0);
    }

    #[test]
    fn wrong_units_are_named() {
        assert!(duration_ps("700").unwrap_err().contains("no unit"));
        assert!(duration_ps("700 B").unwrap_err().contains("\"B\""));
        assert!(duration_ps("-3 ns").is_err());
        assert!(duration_ps("nan ns").is_err());
        assert!(rate("2 M").unwrap_err().contains("M/s"));
    }
}
