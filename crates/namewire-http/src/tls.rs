//! Certificate and key of TLS, which are read again when their files change.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ndn_gateway::{ServerConfig, TlsError, server_config};

use crate::file_version::FileVersion;

/// Maximum length of each file, bytes.
const FILE_LEN_MAX: u64 = 256 << 10;

/// The versions of both files.
type Versions = [Option<FileVersion>; 2];

/// The certificate chain and the key, in PEM.
pub(crate) struct TlsFiles {
    certificate: PathBuf,
    key: PathBuf,
    loaded: Mutex<(Versions, Arc<ServerConfig>)>,
}

impl fmt::Debug for TlsFiles {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { certificate, key, loaded: _ } = self;
        let mut shown = formatter.debug_struct("TlsFiles");
        shown.field("certificate", certificate).field("key", key).finish_non_exhaustive()
    }
}

impl TlsFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be read, or they cannot be used; the error names the file.
    pub(crate) fn open(certificate: PathBuf, key: PathBuf) -> io::Result<Self> {
        let versions = versions(&certificate, &key);
        let config = load(&certificate, &key)?;
        Ok(Self { certificate, key, loaded: Mutex::new((versions, config)) })
    }

    /// The configuration for the next connection. Files that cannot be used any more are logged once, and the previous
    /// certificate stays.
    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let found = versions(&self.certificate, &self.key);
        if loaded.0 != found {
            loaded.0 = found;
            match load(&self.certificate, &self.key) {
                Ok(config) => {
                    loaded.1 = config;
                    tracing::info!(certificate = %self.certificate.display(), "the HTTP API has a new certificate");
                }
                Err(error) => {
                    tracing::error!(%error, "the HTTP API keeps its previous certificate");
                }
            }
        }
        Arc::clone(&loaded.1)
    }
}

fn versions(certificate: &Path, key: &Path) -> Versions {
    [FileVersion::of(certificate), FileVersion::of(key)]
}

fn load(certificate: &Path, key: &Path) -> io::Result<Arc<ServerConfig>> {
    let (chain, secret) = (read(certificate)?, read(key)?);
    server_config(&chain, &secret).map_err(|error| {
        let file = if matches!(error, TlsError::NoKey) { key } else { certificate };
        io::Error::other(format!("{}: {error}", file.display()))
    })
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_LEN_MAX).read_to_end(&mut content));
    match read {
        Ok(_) => Ok(content),
        Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
    }
}
