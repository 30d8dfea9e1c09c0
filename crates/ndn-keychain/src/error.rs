//! Errors; each has the file or the name that it concerns.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use ndn_security::{CertificateError, KeyError};
use thiserror::Error;

/// An error of the key chain.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyChainError {
    /// A locator names a store of a kind that is not implemented.
    #[error("{origin}: there is no support for a {what} at `{locator}`, only for `{supported}:`")]
    Locator {
        /// The variable or the file with the locator.
        origin: String,
        /// PIB or TPM.
        what: &'static str,
        /// The locator.
        locator: String,
        /// The scheme that is implemented.
        supported: &'static str,
    },
    /// The PIB belongs to another TPM. (ndn-cxx empties the PIB.)
    #[error(
        "{path}: this key chain keeps its private keys at `{expected}`, not at `{found}`: see NDN_CLIENT_TPM and client.conf"
    )]
    TpmMismatch {
        /// The database.
        path: PathBuf,
        /// The locator in the database.
        expected: String,
        /// The locator of the environment.
        found: String,
    },
    /// The database does not exist, or its file is empty.
    #[error("{}: there is no key chain yet", .0.display())]
    NoKeyChain(PathBuf),
    /// No permission for the database, or for a directory in its path.
    #[error("{}: the key chain cannot be opened: no rights for the file, or for a directory on the way to it", .0.display())]
    NoRights(PathBuf),
    /// Another program has locked the database.
    #[error("{}: the key chain is locked by another program", .0.display())]
    Locked(PathBuf),
    /// The database, its file or its directory cannot be written.
    #[error("{}: the key chain cannot be written: the file or its directory is read-only", .0.display())]
    ReadOnly(PathBuf),
    /// The file is no database, or not one of a key chain.
    #[error("{}: this file is not a key chain, or it is damaged", .0.display())]
    Invalid(PathBuf),
    /// The database failed otherwise.
    #[error("{path}: {source}")]
    Database {
        /// The database.
        path: PathBuf,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
    /// A row of the database is malformed.
    #[error("{path}: {what} in the key chain is malformed")]
    Malformed {
        /// The database.
        path: PathBuf,
        /// The part.
        what: String,
    },
    /// A file or a directory failed.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The private key of a key in the PIB is not in the TPM.
    #[error("{key}: its private key is missing: there is no file {}", path.display())]
    NoPrivateKey {
        /// Name of the key.
        key: String,
        /// The missing file.
        path: PathBuf,
    },
    /// A private key is unusable.
    #[error("{key}: {source}")]
    Key {
        /// Name of the key, or of the file.
        key: String,
        /// The reason.
        source: KeyError,
    },
    /// A certificate is unusable, or could not be created.
    #[error("{name}: {source}")]
    Certificate {
        /// Name of the certificate or key.
        name: String,
        /// The reason.
        source: CertificateError,
    },
    /// No object has this name.
    #[error("{0} is no identity, key or certificate of this key chain")]
    NotFound(String),
    /// An identity without keys, or a key without certificates.
    #[error("{name} has no {what}")]
    Without {
        /// The identity or the key.
        name: String,
        /// The missing item: a key or a certificate.
        what: &'static str,
    },
    /// There is no default identity.
    #[error("the key chain has no default identity")]
    NoDefaultIdentity,
    /// The key exists.
    #[error("{0} exists already")]
    Exists(String),
}

impl KeyChainError {
    pub(crate) fn database(path: &Path) -> impl Fn(rusqlite::Error) -> Self {
        move |source| {
            use rusqlite::ErrorCode;
            let path = path.to_owned();
            match source.sqlite_error_code() {
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked(path),
                Some(ErrorCode::ReadOnly) => Self::ReadOnly(path),
                Some(ErrorCode::CannotOpen) if is_closed(&path) => Self::NoRights(path),
                Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Self::Invalid(path),
                _ if source.to_string().starts_with("no such table") => Self::Invalid(path),
                _ => Self::Database { path, source },
            }
        }
    }

    pub(crate) fn file(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }
}

/// Whether a file cannot be opened or created for lack of permission. SQLite reports the same error for directories, and
/// when no descriptors are left.
fn is_closed(path: &Path) -> bool {
    let opened = File::open(path).or_else(|error| {
        if error.kind() != ErrorKind::NotFound {
            return Err(error);
        }
        let made = OpenOptions::new().write(true).create_new(true).open(path)?;
        // It was an attempt.
        let _ = std::fs::remove_file(path);
        Ok(made)
    });
    opened.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}
