//! Files of text.

use std::io;
use std::path::Path;

/// Reads a file of text.
///
/// # Errors
/// It cannot be read, or is no text, which is said in words that name what is wrong with the file.
pub fn read(path: &Path) -> io::Result<String> {
    std::fs::read_to_string(path).map_err(in_words)
}

/// Replaces the error for bytes that are not UTF-8 by one that names the cause.
pub fn in_words(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::InvalidData {
        let text = "it is a binary file, not text (it has bytes that are not UTF-8)";
        return io::Error::new(io::ErrorKind::InvalidData, text);
    }
    error
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn file_that_is_not_text_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, b"text").unwrap();
        assert_eq!(read(&path).unwrap(), "text");
        std::fs::write(&path, b"\x06\xfd\xff").unwrap();
        let error = read(&path).unwrap_err();
        assert!(error.to_string().contains("binary file"), "{error}");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
