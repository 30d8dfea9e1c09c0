//! Content of objects.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

/// The content of an object.
#[derive(Debug, Clone)]
pub enum Content {
    /// Bytes in memory.
    Bytes(Bytes),
    /// The first `len` bytes of a file, read on request.
    File {
        /// The open file.
        file: Arc<File>,
        /// Length in bytes.
        len: u64,
    },
}

impl Content {
    /// A file in its present length; bytes appended later do not belong to the object.
    ///
    /// # Errors
    /// When it cannot be opened, or is not a regular file.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(Self::File { file: Arc::new(file), len: metadata.len() })
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            Self::File { len, .. } => *len,
        }
    }

    /// Whether the content is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The `length` bytes from `offset`, read into `scratch` if they are not in memory.
    pub(crate) fn read<'a>(
        &'a self,
        offset: u64,
        length: usize,
        scratch: &'a mut Vec<u8>,
    ) -> io::Result<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => {
                let start = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
                let range = start..start.saturating_add(length);
                bytes.get(range).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
            }
            Self::File { file, .. } => {
                scratch.resize(length, 0);
                file.read_exact_at(scratch, offset)?;
                Ok(scratch)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn both_kinds_of_content_read_the_same_range() {
        let bytes: Vec<u8> = (0..200).collect();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        let opened = Content::open(file.path()).unwrap();
        // Bytes appended later do not belong to the object.
        file.write_all(b"more").unwrap();
        let mut scratch = Vec::new();
        for content in [opened, Content::Bytes(bytes.clone().into())] {
            assert_eq!(content.len(), 200);
            assert_eq!(content.read(150, 50, &mut scratch).unwrap(), &bytes[150..]);
            assert_eq!(content.read(200, 0, &mut scratch).unwrap(), &[0u8; 0]);
            if let Content::Bytes(_) = content {
                assert!(content.read(150, 51, &mut scratch).is_err());
            }
        }
        assert!(Content::open(std::env::temp_dir()).is_err());
    }
}
