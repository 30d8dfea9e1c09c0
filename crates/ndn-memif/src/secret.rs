//! Secrets of interfaces.

use std::fmt;

/// Bytes of a secret in a message.
pub const SECRET_LENGTH: usize = 24;

/// A shared secret of at most 24 bytes, or none.
///
/// Comparison takes constant time, and `Debug` does not show it.
#[derive(Clone, Copy, Default, Eq)]
pub struct Secret([u8; SECRET_LENGTH]);

/// Why a text is no valid secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// An empty text means no secret.
    #[error("a secret has a byte at least")]
    Empty,
    /// It exceeds the field of the message.
    #[error("a secret has at most {SECRET_LENGTH} bytes")]
    TooLong,
    /// Other programs end the secret there.
    #[error("a secret holds no zero bytes")]
    Zero,
}

impl Secret {
    /// The secret `text`, padded with zeros as in other programs.
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

    /// Whether there is no secret.
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

    /// The text, to be written to a configuration.
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
        // Keeps the compiler from ending the comparison early.
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
    fn secret_length_is_limited() {
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
    fn every_byte_is_compared() {
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
    fn debug_does_not_show_secrets() {
        let secret = Secret::new("swordfish").unwrap();
        assert!(!format!("{secret:?}{:?}", Some(secret)).contains("sword"));
        assert_eq!(format!("{:?}", Secret::default()), "Secret(none)");
    }
}
