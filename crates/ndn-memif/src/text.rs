//! Texts in fields of fixed length.

/// As much of `text` as fits in front of a zero.
pub(crate) fn padded<const LENGTH: usize>(text: &[u8]) -> [u8; LENGTH] {
    let mut field = [0; LENGTH];
    let length = text.len().min(LENGTH - 1);
    field[..length].copy_from_slice(&text[..length]);
    field
}

/// What comes before the first zero, for people.
pub(crate) fn printable(field: &[u8]) -> String {
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    let text = String::from_utf8_lossy(&field[..end]);
    let shown = |letter: char| {
        if letter.is_control() || letter == char::REPLACEMENT_CHARACTER { '?' } else { letter }
    };
    text.chars().map(shown).collect()
}
