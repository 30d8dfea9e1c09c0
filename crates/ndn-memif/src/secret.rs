//! What a client has to know of an interface.

use std::fmt;

/// Bytes of a secret in a message.
pub const SECRET_LENGTH: usize = 24;

/// A text of at most 24 bytes that server and client both know, or none.
///
/// It is compared in constant time, and is not shown.
#[derive(Clone, Copy, Default, Eq)]
pub struct Secret([u8; SECRET_LENGTH]);

/// Why a text is no secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// That means that there is none.
    #[error("a secret has a byte at least")]
    Empty,
    /// The message has no room for it.
    #[error("a secret has at most {SECRET_LENGTH} bytes")]
    TooLong,
    /// Others use the text before the first zero.
    #[error("a secret holds no zero bytes")]
    Zero,
}

impl Secret {
    /// The secret that is written so; zeros fill the field behind it, as others have it.
    ///
    /// # Errors
    /// See [`SecretError`].
    pub fn new(text: &str) -> Result<Self, SecretError> {
        let mut field = [0; SECRET_LENGTH];
        if text.is_empty() {
            return Err(SecretError::Empty);
        }
        if text.contains('\0') {
            return Err(SecretError::Zero);
        }
        let room = field.get_mut(..text.len()).ok_or(SecretError::TooLong)?;
        room.copy_from_slice(text.as_bytes());
        Ok(Self(field))
    }

    /// Whether it is none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) const fn of_field(field: [u8; SECRET_LENGTH]) -> Self {
        Self(field)
    }

    pub(crate) const fn field(&self) -> &[u8; SECRET_LENGTH] {
        &self.0
    }

    /// The text, to be written where it was read.
    #[must_use]
    pub fn reveal(&self) -> String {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(SECRET_LENGTH);
        String::from_utf8_lossy(&self.0[..end]).into_owned()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        let bytes = self.0.iter().zip(&other.0);
        let different = bytes.fold(0, |different, (one, other)| different | (one ^ other));
        // What the compiler does not know, it cannot make a shorter way of.
        std::hint::black_box(different) == 0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.is_none() { "Secret(none)" } else { "Secret(not shown)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_short_texts() {
        let longest = "x".repeat(SECRET_LENGTH);
        for text in ["a", "with spaces", "schlüssel", &longest] {
            let secret = Secret::new(text).unwrap();
            assert_eq!(secret.reveal(), text);
            assert_eq!(Secret::of_field(*secret.field()), secret);
            assert!(!secret.is_none());
        }
        assert_eq!(Secret::new(""), Err(SecretError::Empty));
        assert_eq!(Secret::new("a\0b"), Err(SecretError::Zero));
        assert_eq!(Secret::new(&"x".repeat(SECRET_LENGTH + 1)), Err(SecretError::TooLong));
    }

    #[test]
    fn every_byte_counts() {
        let text = "abcdefghijklmnopqrstuvwx";
        let secret = Secret::new(text).unwrap();
        assert_eq!(secret, Secret::new(text).unwrap());
        for at in 0..SECRET_LENGTH {
            let mut field = *secret.field();
            field[at] ^= 0x80;
            assert_ne!(secret, Secret::of_field(field), "byte {at}");
            assert_ne!(secret, Secret::new(&text[..at.max(1)]).unwrap());
        }
        assert!(Secret::default().is_none());
    }

    #[test]
    fn they_are_not_shown() {
        let secret = Secret::new("swordfish").unwrap();
        assert!(!format!("{secret:?}{:?}", Some(secret)).contains("sword"));
        assert_eq!(format!("{:?}", Secret::default()), "Secret(none)");
    }
}
