//! The PIB: an SQLite database with the tables of ndn-cxx's `pib-sqlite3`.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ndn_packet::{Name, NameRef, tlv, types};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Params, Row};

use crate::location::create_directory;
use crate::{KeyChainError, Locations};

/// Maximum wait for the lock of the database.
const BUSY_TIMEOUT: Duration = Duration::from_secs(3);

const SCHEMA: &str = include_str!("schema.sql");

/// The mode of access to a key chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read only; the key chain has to exist.
    Read,
    /// Read and write; the key chain is created if it does not exist.
    Write,
}

/// An identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityEntry {
    /// Its name.
    pub name: Name,
    /// Whether it is the default identity.
    pub is_default: bool,
}

/// A key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyEntry {
    /// Its name.
    pub name: Name,
    /// Whether it is the default key of its identity.
    pub is_default: bool,
    /// DER SubjectPublicKeyInfo.
    pub spki: Vec<u8>,
}

/// A certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateEntry {
    /// Its name.
    pub name: Name,
    /// Whether it is the default certificate of its key.
    pub is_default: bool,
    /// The Data packet.
    pub wire: Vec<u8>,
}

/// Checks whether a database can be read, because SQLite's error does not show the cause. An empty file is what the making of
/// a key chain leaves if it fails, such as on a full file system.
fn check_file(path: &Path) -> Result<(), KeyChainError> {
    match File::open(path).map_err(|error| (error.kind(), error)) {
        Ok(file) => match file.metadata() {
            Ok(found) if found.is_file() && found.len() == 0 => {
                Err(KeyChainError::NoKeyChain(path.to_owned()))
            }
            Ok(_) | Err(_) => Ok(()),
        },
        Err((ErrorKind::NotFound, _)) => Err(KeyChainError::NoKeyChain(path.to_owned())),
        Err((ErrorKind::PermissionDenied, _)) => Err(KeyChainError::NoRights(path.to_owned())),
        Err((_, error)) => Err(KeyChainError::file(path)(error)),
    }
}

/// Makes the tables that do not exist, all or none.
fn create_tables(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(&format!("BEGIN;\n{SCHEMA}\nCOMMIT;"))
}

/// The database.
#[derive(Debug)]
pub(crate) struct Pib {
    path: PathBuf,
    connection: Connection,
}

impl Pib {
    pub(crate) fn open(locations: &Locations, access: Access) -> Result<Self, KeyChainError> {
        let path = locations.pib.clone();
        let mut flags = OpenFlags::SQLITE_OPEN_NO_MUTEX;
        match access {
            Access::Read => {
                check_file(&path)?;
                flags |= OpenFlags::SQLITE_OPEN_READ_ONLY;
            }
            Access::Write => {
                if let Some(directory) = path.parent() {
                    create_directory(directory)?;
                }
                flags |= OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
            }
        }
        let bad = KeyChainError::database(&path);
        let connection = Connection::open_with_flags(&path, flags).map_err(&bad)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(&bad)?;
        if access == Access::Write {
            connection.pragma_update(None, "foreign_keys", true).map_err(&bad)?;
            create_tables(&connection).map_err(&bad)?;
        }
        drop(bad);
        let pib = Self { path, connection };
        pib.check_tpm(locations, access)?;
        Ok(pib)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Refuses a PIB that belongs to another TPM. ndn-cxx empties it, but its certificates may be the only copies.
    fn check_tpm(&self, locations: &Locations, access: Access) -> Result<(), KeyChainError> {
        let locator = locations.tpm_locator.as_str();
        let query = "SELECT CAST(tpm_locator AS TEXT) FROM tpmInfo";
        let found: Option<Option<String>> = self
            .connection
            .query_row(query, [], |row| row.get(0))
            .optional()
            .map_err(KeyChainError::database(&self.path))?;
        let has_row = found.is_some();
        match found.flatten().filter(|found| !found.is_empty()) {
            Some(found) if !locations.is_own_locator(&found) => Err(KeyChainError::TpmMismatch {
                path: self.path.clone(),
                expected: found,
                found: locator.to_owned(),
            }),
            Some(_) => Ok(()),
            None if access == Access::Read => Ok(()),
            None if has_row => {
                self.execute("UPDATE tpmInfo SET tpm_locator=?", (locator.as_bytes(),)).map(drop)
            }
            None => {
                let insert = "INSERT INTO tpmInfo(tpm_locator) VALUES(?)";
                self.execute(insert, (locator.as_bytes(),)).map(drop)
            }
        }
    }

    /// Executes `work` in a transaction.
    pub(crate) fn transaction<T>(
        &mut self,
        work: impl FnOnce(&Self) -> Result<T, KeyChainError>,
    ) -> Result<T, KeyChainError> {
        let bad = KeyChainError::database(&self.path);
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(&bad)?;
        match work(self) {
            Ok(done) => match self.connection.execute_batch("COMMIT").map_err(&bad) {
                Ok(()) => Ok(done),
                Err(error) => {
                    let _ = self.connection.execute_batch("ROLLBACK");
                    Err(error)
                }
            },
            Err(error) => {
                let _ = self.connection.execute_batch("ROLLBACK");
                Err(error)
            }
        }
    }

    pub(crate) fn identities(&self) -> Result<Vec<IdentityEntry>, KeyChainError> {
        self.rows("SELECT identity, is_default FROM identities ORDER BY id", [], |row| {
            Ok((row.get(0)?, row.get(1)?, Vec::new()))
        })?
        .into_iter()
        .map(|row| self.entry(row).map(|(name, is_default, _)| IdentityEntry { name, is_default }))
        .collect()
    }

    pub(crate) fn keys(&self, identity: NameRef<'_>) -> Result<Vec<KeyEntry>, KeyChainError> {
        let query = "SELECT key_name, keys.is_default, key_bits FROM keys
            JOIN identities ON identities.id=identity_id WHERE identity=? ORDER BY keys.id";
        self.rows(query, (wire_of(identity),), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
            .into_iter()
            .map(|row| {
                self.entry(row).map(|(name, is_default, spki)| KeyEntry { name, is_default, spki })
            })
            .collect()
    }

    pub(crate) fn certificates(
        &self,
        key: NameRef<'_>,
    ) -> Result<Vec<CertificateEntry>, KeyChainError> {
        let query = "SELECT certificate_name, certificates.is_default, certificate_data
            FROM certificates JOIN keys ON keys.id=key_id WHERE key_name=?
            ORDER BY certificates.id";
        self.rows(query, (wire_of(key),), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
            .into_iter()
            .map(|row| {
                self.entry(row).map(|(name, is_default, wire)| CertificateEntry {
                    name,
                    is_default,
                    wire,
                })
            })
            .collect()
    }

    pub(crate) fn add_identity(&self, name: NameRef<'_>) -> Result<(), KeyChainError> {
        let insert = "INSERT OR IGNORE INTO identities(identity) VALUES(?)";
        self.execute(insert, (wire_of(name),)).map(drop)
    }

    pub(crate) fn add_key(
        &self,
        identity: NameRef<'_>,
        name: NameRef<'_>,
        spki: &[u8],
    ) -> Result<(), KeyChainError> {
        let insert = "INSERT INTO keys(identity_id, key_name, key_bits)
            SELECT id, ?, ? FROM identities WHERE identity=?";
        self.execute(insert, (wire_of(name), spki, wire_of(identity))).map(drop)
    }

    /// Adds a certificate, or replaces the one of the same name.
    pub(crate) fn add_certificate(
        &self,
        key: NameRef<'_>,
        name: NameRef<'_>,
        wire: &[u8],
    ) -> Result<(), KeyChainError> {
        let update = "UPDATE certificates SET certificate_data=? WHERE certificate_name=?";
        if self.execute(update, (wire, wire_of(name)))? > 0 {
            return Ok(());
        }
        let insert = "INSERT INTO certificates(key_id, certificate_name, certificate_data)
            SELECT id, ?, ? FROM keys WHERE key_name=?";
        self.execute(insert, (wire_of(name), wire, wire_of(key))).map(drop)
    }

    /// Makes it the default among its siblings; returns whether it exists.
    pub(crate) fn set_default(&self, kind: Kind, name: NameRef<'_>) -> Result<bool, KeyChainError> {
        let (table, column) = kind.column();
        let update = format!("UPDATE {table} SET is_default=1 WHERE {column}=?");
        self.execute(&update, (wire_of(name),)).map(|count| count > 0)
    }

    /// Removes it and its dependents; returns whether it existed.
    pub(crate) fn remove(&self, kind: Kind, name: NameRef<'_>) -> Result<bool, KeyChainError> {
        let (table, column) = kind.column();
        let delete = format!("DELETE FROM {table} WHERE {column}=?");
        self.execute(&delete, (wire_of(name),)).map(|count| count > 0)
    }

    fn execute(&self, statement: &str, values: impl Params) -> Result<usize, KeyChainError> {
        self.connection.execute(statement, values).map_err(KeyChainError::database(&self.path))
    }

    fn rows(
        &self,
        query: &str,
        values: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<RawEntry>,
    ) -> Result<Vec<RawEntry>, KeyChainError> {
        let run = || {
            let mut statement = self.connection.prepare(query)?;
            statement.query_map(values, read)?.collect::<rusqlite::Result<Vec<_>>>()
        };
        run().map_err(KeyChainError::database(&self.path))
    }

    fn entry(&self, row: RawEntry) -> Result<(Name, bool, Vec<u8>), KeyChainError> {
        let (wire, is_default, value) = row;
        let name = NameRef::parse(&wire).map_err(|error| KeyChainError::Malformed {
            path: self.path.clone(),
            what: format!("a name ({error})"),
        })?;
        Ok((name.to_name(), is_default != 0, value))
    }
}

/// Name in its TLV, `is_default`, and a value.
type RawEntry = (Vec<u8>, i64, Vec<u8>);

/// The object of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Identity,
    Key,
    Certificate,
}

impl Kind {
    fn column(self) -> (&'static str, &'static str) {
        match self {
            Self::Identity => ("identities", "identity"),
            Self::Key => ("keys", "key_name"),
            Self::Certificate => ("certificates", "certificate_name"),
        }
    }
}

/// A name with its type and length, as in the PIB.
pub(crate) fn wire_of(name: NameRef<'_>) -> Vec<u8> {
    let mut wire = Vec::new();
    tlv::append_tlv(&mut wire, types::NAME, name.value());
    wire
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    /// As on a full file system.
    #[test]
    fn key_chain_that_cannot_be_made_does_not_exist_afterwards() {
        let directory = tempfile::tempdir().unwrap();
        let locations = Locations::in_directory(directory.path());
        for pages in 1..8 {
            let connection = Connection::open(&locations.pib).unwrap();
            connection.pragma_update(None, "max_page_count", pages).unwrap();
            let error =
                KeyChainError::database(&locations.pib)(create_tables(&connection).unwrap_err());
            assert!(error.to_string().ends_with("pib.db: database or disk is full"), "{error}");
            drop(connection);
            let error = Pib::open(&locations, Access::Read).unwrap_err();
            assert!(matches!(error, KeyChainError::NoKeyChain(_)), "{pages}: {error}");
        }
        Pib::open(&locations, Access::Write).unwrap();
        assert_eq!(Pib::open(&locations, Access::Read).unwrap().identities().unwrap(), []);
    }
}
