//! The reason of a DISCONNECT message.

use std::fmt;

use crate::text;

const REASON_LENGTH: usize = 96;

/// Why a side ends or refuses a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DisconnectReason {
    /// Without defined meaning; this program sends 0.
    pub code: u32,
    /// Human-readable, padded with zeros.
    reason: [u8; REASON_LENGTH],
}

impl DisconnectReason {
    /// The first 95 bytes of `reason`, cut at a character boundary.
    #[must_use]
    pub fn new(code: u32, reason: &str) -> Self {
        let end = reason.floor_char_boundary(REASON_LENGTH - 1);
        Self { code, reason: text::padded(&reason.as_bytes()[..end]) }
    }

    /// Whether the reason mentions a secret. Each server has its own wording.
    #[must_use]
    pub fn mentions_secret(&self) -> bool {
        text::printable(&self.reason).to_ascii_lowercase().contains("secret")
    }

    /// Whether the reason is that the interface has a client, in the wording of this program, DPDK and libmemif.
    #[must_use]
    pub fn mentions_other_client(&self) -> bool {
        let words = text::printable(&self.reason).to_ascii_lowercase();
        words.contains("already connected") || words.contains("already in use")
    }

    pub(crate) const fn of_fields(code: u32, reason: [u8; REASON_LENGTH]) -> Self {
        Self { code, reason }
    }

    pub(crate) const fn text(&self) -> &[u8; REASON_LENGTH] {
        &self.reason
    }
}

impl fmt::Display for DisconnectReason {
    /// The reason in quotation marks, since the peer chose it, with `?` for characters that are not printable. A code
    /// other than 0 follows.
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

impl fmt::Debug for DisconnectReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "DisconnectReason({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_of_the_peer_is_quoted() {
        for (code, reason, shown) in [
            (0, "enough", "\"enough\""),
            (7, "enough", "\"enough\" (code 7)"),
            (0, "", "no reason is given"),
            (1, " ", "no reason is given (code 1)"),
            (0, "a\nb\u{1b}[2Jc", "\"a?b?[2Jc\""),
        ] {
            assert_eq!(DisconnectReason::new(code, reason).to_string(), shown);
        }
    }

    #[test]
    fn long_reason_is_cut_at_a_character_boundary() {
        let reason = format!("{}ü", "x".repeat(REASON_LENGTH - 2));
        let shown = DisconnectReason::new(0, &reason).to_string();
        assert_eq!(shown, format!("\"{}\"", "x".repeat(REASON_LENGTH - 2)));
    }
}
