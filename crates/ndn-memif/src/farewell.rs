//! Why a side ends a connection.

use std::fmt;

use crate::text;

const REASON_LENGTH: usize = 96;

/// What a side says when it leaves, or when it does not want the other one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Farewell {
    /// Of no defined meaning; this program says 0.
    pub code: u32,
    /// For people.
    reason: [u8; REASON_LENGTH],
}

impl Farewell {
    /// The first 95 bytes of `reason`, or as many whole letters as fit them.
    #[must_use]
    pub fn new(code: u32, reason: &str) -> Self {
        let end = reason.floor_char_boundary(REASON_LENGTH - 1);
        Self { code, reason: text::padded(&reason.as_bytes()[..end]) }
    }

    /// Whether the message concerns a secret, as far as it can be known: each server words it differently.
    #[must_use]
    pub fn is_about_secrets(&self) -> bool {
        text::printable(&self.reason).to_ascii_lowercase().contains("secret")
    }

    /// Whether the words are that the interface has a client, as this program, DPDK and libmemif say it.
    #[must_use]
    pub fn is_about_another_client(&self) -> bool {
        let words = text::printable(&self.reason).to_ascii_lowercase();
        words.contains("already connected") || words.contains("already in use")
    }

    pub(crate) const fn of_fields(code: u32, reason: [u8; REASON_LENGTH]) -> Self {
        Self { code, reason }
    }

    pub(crate) const fn reason(&self) -> &[u8; REASON_LENGTH] {
        &self.reason
    }
}

impl fmt::Display for Farewell {
    /// The reason in quotation marks, as it is the other side's: what of it is no printable character is
    /// shown as `?`. A code that is not 0 comes behind it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = text::printable(&self.reason);
        match reason.trim() {
            "" => formatter.write_str("no reason is given")?,
            reason => write!(formatter, "\"{reason}\"")?,
        }
        match self.code {
            0 => Ok(()),
            code => write!(formatter, " (code {code})"),
        }
    }
}

impl fmt::Debug for Farewell {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Farewell({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_other_side_says_is_shown_as_its_words() {
        for (code, reason, shown) in [
            (0, "enough", "\"enough\""),
            (7, "enough", "\"enough\" (code 7)"),
            (0, "", "no reason is given"),
            (1, " ", "no reason is given (code 1)"),
            (0, "a\nb\u{1b}[2Jc", "\"a?b?[2Jc\""),
        ] {
            assert_eq!(Farewell::new(code, reason).to_string(), shown);
        }
    }

    #[test]
    fn long_reasons_end_with_a_whole_letter() {
        let reason = format!("{}ü", "x".repeat(REASON_LENGTH - 2));
        let shown = Farewell::new(0, &reason).to_string();
        assert_eq!(shown, format!("\"{}\"", "x".repeat(REASON_LENGTH - 2)));
    }
}
