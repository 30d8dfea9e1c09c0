//! The file TPM: one private key a file, named by the SHA-256 of the key's name.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ndn_packet::NameRef;
use ndn_security::{PrivateKey, sha256};
use zeroize::Zeroizing;

use crate::KeyChainError;
use crate::location::create_directory;
use crate::pib::wire_of;

const FILE_MODE: u32 = 0o600;

/// A directory of key files.
#[derive(Debug)]
pub(crate) struct Tpm {
    directory: PathBuf,
}

impl Tpm {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// The file of a key: the hexadecimal SHA-256 of its name's TLV.
    pub(crate) fn path(&self, key: NameRef<'_>) -> PathBuf {
        let mut file = String::new();
        for byte in sha256(&wire_of(key)) {
            let _ = write!(file, "{byte:02x}");
        }
        self.directory.join(file + ".privkey")
    }

    pub(crate) fn load(&self, key: NameRef<'_>) -> Result<PrivateKey, KeyChainError> {
        let path = self.path(key);
        let text = fs::read_to_string(&path).map(Zeroizing::new).map_err(|source| {
            if source.kind() == io::ErrorKind::NotFound {
                KeyChainError::NoPrivateKey { key: key.to_uri(), path: path.clone() }
            } else {
                KeyChainError::File { path: path.clone(), source }
            }
        })?;
        PrivateKey::from_text(&text, None)
            .map_err(|source| KeyChainError::Key { key: path.display().to_string(), source })
    }

    /// Writes the file of a new key. It has its mode from the first moment on, and its name once it
    /// is complete.
    pub(crate) fn store(
        &self,
        name: NameRef<'_>,
        key: &PrivateKey,
    ) -> Result<StoredKey, KeyChainError> {
        let path = self.path(name);
        let text = key
            .to_key_file_text()
            .map_err(|source| KeyChainError::Key { key: name.to_uri(), source })?;
        create_directory(&self.directory)?;
        let temporary = path.with_extension(format!("{}.new", std::process::id()));
        let written = write_new(&temporary, text.as_bytes())
            .map_err(KeyChainError::file(&temporary))
            .and_then(|()| {
                // A link, unlike renaming, does not replace what is there.
                fs::hard_link(&temporary, &path).map_err(|source| {
                    if source.kind() == io::ErrorKind::AlreadyExists {
                        KeyChainError::Exists(name.to_uri())
                    } else {
                        KeyChainError::File { path: path.clone(), source }
                    }
                })
            });
        let _ = fs::remove_file(&temporary);
        written.map(|()| StoredKey { path, is_kept: false })
    }

    /// Removes the file of a key, if there is one.
    pub(crate) fn remove(&self, key: NameRef<'_>) -> Result<(), KeyChainError> {
        let path = self.path(key);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(KeyChainError::file(&path)(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// A key file that goes again unless the PIB has taken the key as well.
#[derive(Debug)]
pub(crate) struct StoredKey {
    path: PathBuf,
    is_kept: bool,
}

impl StoredKey {
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for StoredKey {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}
