//! Files of trust rules and trust anchors.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ndn_security::info::InfoError;
use ndn_security::trust::{AnchorSource, TrustPolicy};
use ndn_security::{Certificate, CertificateError, sha256};
use ndn_sys::clock::Clock;
use thiserror::Error;

use crate::trust::Trust;

/// Maximum size of certificate and rule files, bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why rules or trust anchors cannot be read from files.
#[derive(Debug, Error)]
pub enum RuleFileError {
    /// A file or directory cannot be read.
    #[error("cannot read {}: {reason}", .path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The reason.
        reason: std::io::Error,
    },
    /// A file is larger than rules and certificates are.
    #[error("{} has {length} bytes: too many", .path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its length in bytes.
        length: u64,
    },
    /// A file of rules is not UTF-8.
    #[error("{} is not text", .path.display())]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// A file holds no certificate.
    #[error("{} is not a certificate: {reason}", .path.display())]
    NotCertificate {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: CertificateError,
    },
    /// The rules name no trust anchor that is valid now: no packet could be verified.
    #[error("{} has no trust anchor: no packet could be verified", .path.display())]
    NoAnchor {
        /// The file.
        path: PathBuf,
    },
    /// The rules are malformed.
    #[error(transparent)]
    Rules(#[from] InfoError),
}

impl RuleFileError {
    fn is_denied(&self) -> bool {
        matches!(self, Self::Read { reason, .. }
            if reason.kind() == std::io::ErrorKind::PermissionDenied)
    }
}

/// Trust rules for Data, in either format.
#[derive(Debug)]
pub struct DataRules {
    /// The rules.
    pub policy: TrustPolicy,
    /// Text of the file, followed by the texts of the files that it includes.
    pub texts: Vec<String>,
}

impl DataRules {
    /// Reads trust rules for Data and the trust anchors that they name.
    ///
    /// # Errors
    /// A file cannot be read or is malformed; the error names it.
    pub fn read(path: &Path, clock: &Clock) -> Result<Self, RuleFileError> {
        let text = read_text(path)?;
        let directory = path.parent().unwrap_or(Path::new(""));
        let mut texts = vec![text.clone()];
        let mut include = |file: &str| {
            let text = read_text(&directory.join(file)).map_err(|error| error.to_string())?;
            texts.push(text.clone());
            Ok(text)
        };
        let mut load = |source: AnchorSource<'_>| anchors_beside(path, source, clock);
        let origin = path.display().to_string();
        let policy = TrustPolicy::from_rules(&origin, &text, &mut include, &mut load)?;
        let policy = policy.with_anchors_that_expire();
        if policy.anchors().next().is_none() && !policy.accepts_all() {
            return Err(RuleFileError::NoAnchor { path: path.to_owned() });
        }
        Ok(Self { policy, texts })
    }
}

impl Trust {
    /// Verifies by the rules of a file, and reads the anchors again when the rules require it.
    ///
    /// # Errors
    /// As [`DataRules::read`].
    pub fn from_file(path: &Path) -> Result<Self, RuleFileError> {
        #[expect(clippy::disallowed_methods, reason = "the clock of a client that was given none")]
        let clock = Clock::system();
        let DataRules { policy, texts } = DataRules::read(path, &clock)?;
        // Digests, so that texts cannot run into each other.
        let texts = texts.iter().map(|text| sha256(text.as_bytes()));
        let anchors = policy.anchors().map(|anchor| sha256(anchor.wire()));
        let fingerprint = sha256(texts.chain(anchors).collect::<Vec<_>>().as_flattened());
        let path = path.to_owned();
        let reload = move |source: AnchorSource<'_>| anchors_beside(&path, source, &clock);
        Ok(Self::new(policy).with_reload(reload).with_fingerprint(fingerprint))
    }
}

/// Reads the trust anchors that the rules in file `rules` name.
fn anchors_beside(
    rules: &Path,
    source: AnchorSource<'_>,
    clock: &Clock,
) -> Result<Vec<Arc<Certificate>>, String> {
    anchors_in(rules.parent().unwrap_or(Path::new("")), source, clock)
}

/// Reads trust anchors; their paths start at `directory`.
///
/// # Errors
/// An anchor cannot be read.
pub fn anchors_in(
    directory: &Path,
    source: AnchorSource<'_>,
    clock: &Clock,
) -> Result<Vec<Arc<Certificate>>, String> {
    let beside = |path: &str| directory.join(path).display().to_string();
    let loaded = match source {
        AnchorSource::File(file) => anchors(AnchorSource::File(&beside(file)), clock),
        AnchorSource::Directory(path) => anchors(AnchorSource::Directory(&beside(path)), clock),
    };
    loaded.map_err(|error| error.to_string())
}

/// Reads trust anchors.
///
/// # Errors
/// An anchor cannot be read.
pub fn anchors(
    source: AnchorSource<'_>,
    clock: &Clock,
) -> Result<Vec<Arc<Certificate>>, RuleFileError> {
    match source {
        AnchorSource::File(file) => Ok(vec![read_certificate(Path::new(file), clock)?]),
        AnchorSource::Directory(path) => {
            let path = Path::new(path);
            let cannot_read = |reason| RuleFileError::Read { path: path.to_owned(), reason };
            let mut files = Vec::new();
            for entry in std::fs::read_dir(path).map_err(cannot_read)? {
                let file: PathBuf = entry.map_err(cannot_read)?.path();
                if file.is_file() {
                    files.push(file);
                }
            }
            files.sort();
            // Other files of the directory are ignored, as ndn-cxx does.
            let read = files.iter().filter_map(|file| match read_certificate(file, clock) {
                Ok(certificate) => Some(Ok(certificate)),
                // An unreadable file may be an anchor, so the anchors of this directory are unknown.
                Err(error) if error.is_denied() => Some(Err(error)),
                Err(error) => {
                    tracing::warn!("not a trust anchor: {error}");
                    None
                }
            });
            read.collect()
        }
    }
}

/// Reads a certificate, in base64 or wire format.
///
/// # Errors
/// The file cannot be read, or is no certificate.
pub fn read_certificate(path: &Path, clock: &Clock) -> Result<Arc<Certificate>, RuleFileError> {
    let bytes = read_bytes(path)?;
    let parsed = match std::str::from_utf8(&bytes) {
        Ok(text) => Certificate::from_text(text),
        Err(_) => Certificate::parse(bytes),
    };
    let not_certificate = |reason| RuleFileError::NotCertificate { path: path.to_owned(), reason };
    let certificate = parsed.map_err(not_certificate)?;
    let unix_s = i64::try_from(clock.unix_time().as_secs()).unwrap_or(i64::MAX);
    if !certificate.validity().contains(unix_s) {
        let (name, file) = (certificate.name().to_uri(), path.display());
        tracing::warn!("certificate {name} in {file} is not valid at this time");
    }
    Ok(Arc::new(certificate))
}

/// Reads a file of rules.
///
/// # Errors
/// It cannot be read, is too long, or not UTF-8.
pub fn read_text(path: &Path) -> Result<String, RuleFileError> {
    String::from_utf8(read_bytes(path)?)
        .map_err(|_| RuleFileError::NotText { path: path.to_owned() })
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, RuleFileError> {
    let cannot_read = |reason| RuleFileError::Read { path: path.to_owned(), reason };
    let length = std::fs::metadata(path).map_err(cannot_read)?.len();
    if length > FILE_BYTES_MAX {
        return Err(RuleFileError::TooLong { path: path.to_owned(), length });
    }
    std::fs::read(path).map_err(cannot_read)
}
