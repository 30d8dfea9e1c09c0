//! Why a file server refuses an object: the content of its application Nacks.

use crate::counters::Event;

/// Reasons other than that there is no such file or version, as content of a Nack, and in words.
const REASONS: [(Event, &[u8], &str); 2] = [
    (Event::Denied, b"denied", "the server has no permission to read it"),
    (
        Event::RefusedPath,
        b"path",
        "its path is too long, or a part of it is hidden or not a valid file name",
    ),
];

/// Content of the Nack after an event; empty without a further reason.
pub(crate) fn nack_content(event: Event) -> &'static [u8] {
    REASONS.iter().find(|(of, ..)| *of == event).map_or(&[], |(_, content, _)| content)
}

/// Whether a Nack with this content states that the server has no permission to read the object.
#[must_use]
pub fn is_denial(content: &[u8]) -> bool {
    content == nack_content(Event::Denied)
}

/// The reason that a Nack of a file server has as its content, in words.
#[must_use]
pub fn refusal_reason(content: &[u8]) -> Option<&'static str> {
    REASONS.iter().find(|(_, of, _)| *of == content).map(|(.., words)| *words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_permission_differs_from_a_missing_file() {
        assert_eq!(refusal_reason(nack_content(Event::NotFound)), None);
        let denied = refusal_reason(nack_content(Event::Denied)).unwrap();
        assert!(denied.contains("no permission"), "{denied}");
        assert!(is_denial(nack_content(Event::Denied)) && !is_denial(b""));
        assert_eq!(refusal_reason(b"x"), None);
    }
}
