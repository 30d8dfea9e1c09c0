//! Text in fields of fixed length.

/// The field with `text`, cut so that a zero follows.
pub(crate) fn padded<const LENGTH: usize>(text: &[u8]) -> [u8; LENGTH] {
    let mut field = [0; LENGTH];
    let length = text.len().min(LENGTH - 1);
    field[..length].copy_from_slice(&text[..length]);
    field
}

/// The text before the first zero, for display: characters that are not printable or that reorder or hide text
/// (Unicode format characters) become question marks.
pub(crate) fn printable(field: &[u8]) -> String {
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    let text = String::from_utf8_lossy(&field[..end]);
    text.chars().map(|letter| if is_printable(letter) { letter } else { '?' }).collect()
}

/// By the standard library, whose `escape_debug` escapes such characters.
fn is_printable(letter: char) -> bool {
    let is_plain = matches!(letter, '"' | '\'' | '\\') || letter.escape_debug().len() == 1;
    is_plain && letter != char::REPLACEMENT_CHARACTER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_and_control_characters_are_replaced() {
        let plain = "VPP 24.02 \"köln\" 'x' \\ 例え";
        assert_eq!(printable(plain.as_bytes()), plain);
        assert_eq!(printable(b"before\0behind"), "before");
        assert_eq!(printable(b"\xFFa\n\x1B[1m"), "?a??[1m");
        for letter in
            "\u{202E}\u{2066}\u{2069}\u{200B}\u{200F}\u{FEFF}\u{AD}\u{2028}\u{E0001}".chars()
        {
            assert_eq!(printable(format!("a{letter}b").as_bytes()), "a?b", "{letter:?}");
        }
    }
}
