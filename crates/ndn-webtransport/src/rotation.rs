//! Self-signed certificates that renew themselves, and the file that keeps them across restarts, so that the hash of a
//! listener stays valid.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use wtransport::tls::rustls::pki_types::pem::PemObject;
use wtransport::tls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::certificate::{CertificateError, CertificateHash, Identity};
use crate::x509;

const DAY_S: u64 = 86_400;
/// Self-signed certificates hold from a day ago, for clocks that are late.
const EARLIER_S: u64 = DAY_S;
/// End of validity from now: browsers reject a hash of a certificate that is valid for more than 14 days.
const LATER_S: u64 = 12 * DAY_S;
/// Time before the end at which the successor is created and its hash published.
const PREPARE_S: u64 = 6 * DAY_S;
/// Time before the end at which the successor takes over.
const TAKE_OVER_S: u64 = DAY_S;

/// Maximum length of the file.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// A self-signed certificate, and what is kept of it.
#[derive(Clone)]
struct SelfSigned {
    identity: Identity,
    end_s: u64,
    /// The certificate and its key, in PEM.
    text: String,
}

impl std::fmt::Debug for SelfSigned {
    /// Without the key.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { identity, end_s, text: _ } = self;
        let mut shown = formatter.debug_struct("SelfSigned");
        shown.field("identity", identity).field("end_s", end_s).finish_non_exhaustive()
    }
}

impl SelfSigned {
    /// One that holds from a day before `now_s` (seconds since 1970) to 12 days after.
    fn new(now_s: u64) -> Result<Self, CertificateError> {
        let end_s = now_s.saturating_add(LATER_S);
        let (key, certificate) = x509::self_signed(now_s.saturating_sub(EARLIER_S), end_s)?;
        Self::of(certificate, key, end_s)
    }

    fn of(certificate: Vec<u8>, key: Vec<u8>, end_s: u64) -> Result<Self, CertificateError> {
        let text =
            [x509::pem("CERTIFICATE", &certificate), x509::pem("PRIVATE KEY", &key)].concat();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key));
        let identity = Identity::new(vec![CertificateDer::from(certificate)], key)?;
        Ok(Self { identity, end_s, text })
    }

    /// Whether it can be shown from `now_s` on for a while.
    fn is_valid(&self, now_s: u64) -> bool {
        !self.is_of_the_future(now_s) && self.end_s >= now_s.saturating_add(TAKE_OVER_S)
    }

    /// Whether it is not valid yet: the clock was ahead when it was made, or is behind now. A clock that has
    /// gone back a little, or is minutes behind at the start, leaves it valid.
    fn is_of_the_future(&self, now_s: u64) -> bool {
        self.end_s > now_s.saturating_add(EARLIER_S + LATER_S)
    }
}

impl Identity {
    /// A self-signed one with a key of its own, that holds from a day before `now_s` (seconds since 1970)
    /// to 12 days after.
    ///
    /// # Errors
    /// There are no random numbers.
    pub fn self_signed(now_s: u64) -> Result<Self, CertificateError> {
        SelfSigned::new(now_s).map(|made| made.identity)
    }
}

/// Self-signed certificates, one after the other.
#[derive(Debug)]
pub(crate) struct Rotation {
    current: SelfSigned,
    next: Option<SelfSigned>,
    /// Where they are kept.
    file: Option<PathBuf>,
}

impl Rotation {
    /// Takes those of `file` if it is there and they still hold, else makes one.
    ///
    /// # Errors
    /// None can be made. What is wrong with the file is logged only.
    pub(crate) fn new(file: Option<PathBuf>, now_s: u64) -> Result<Self, CertificateError> {
        let (mut kept, mut is_usable) = (Vec::new(), true);
        if let Some(path) = &file {
            let reported = path.display();
            match read(path) {
                Ok(read) => kept = read,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if is_unfit(&error) => tracing::warn!(
                    file = %reported, %error,
                    "the kept certificate of WebTransport is not used, and is replaced"
                ),
                Err(error) => {
                    // It may be a good one: the next start can have it.
                    is_usable = false;
                    tracing::warn!(
                        file = %reported, %error,
                        "the kept certificate of WebTransport cannot be read: there is another one until the next start"
                    );
                }
            }
        }
        let file = file.filter(|_| is_usable);
        let has_some = !kept.is_empty();
        let is_early = kept.iter().any(|made| made.is_of_the_future(now_s));
        let mut kept = kept.into_iter().filter(|made| made.is_valid(now_s));
        let Some(current) = kept.next() else {
            if is_early {
                tracing::warn!(
                    "the kept certificate of WebTransport is not valid yet by the clock of this system: addresses with its hash have to be changed"
                );
            } else if has_some {
                tracing::warn!(
                    "the kept certificate of WebTransport has ended: addresses with its hash have to be changed"
                );
            }
            let rotation = Self { current: SelfSigned::new(now_s)?, next: None, file };
            rotation.keep();
            return Ok(rotation);
        };
        Ok(Self { current, next: kept.next(), file })
    }

    pub(crate) fn current(&self) -> &Identity {
        &self.current.identity
    }

    /// The hash of the current certificate, and of the one to come if there is one.
    pub(crate) fn hashes(&self) -> Vec<CertificateHash> {
        let next = self.next.as_ref().map(|next| next.identity.hash());
        std::iter::once(self.current.identity.hash()).chain(next).collect()
    }

    /// Makes or installs a successor when it is time. Whether something has changed.
    pub(crate) fn poll(&mut self, now_s: u64) -> Result<bool, CertificateError> {
        let mut has_changed = false;
        // After a long sleep, or when the clock was put forward.
        if self.next.as_ref().is_some_and(|next| now_s.saturating_add(TAKE_OVER_S) >= next.end_s) {
            self.next = None;
        }
        if self.next.is_none() && now_s.saturating_add(PREPARE_S) >= self.current.end_s {
            self.next = Some(SelfSigned::new(now_s)?);
            has_changed = true;
        }
        if now_s.saturating_add(TAKE_OVER_S) >= self.current.end_s
            && let Some(next) = self.next.take()
        {
            self.current = next;
            has_changed = true;
        }
        if has_changed {
            self.keep();
        }
        Ok(has_changed)
    }

    fn keep(&self) {
        let Some(file) = &self.file else { return };
        let made = std::iter::once(&self.current).chain(&self.next);
        let text: String = made.map(|made| made.text.as_str()).collect();
        if let Err(error) = write(file, text.as_bytes()) {
            let file = file.display();
            tracing::warn!(
                %file, %error,
                "the certificate of WebTransport cannot be kept: it will be another one after the next start"
            );
        }
    }
}

/// Whether this is about what [`read()`] has found, not about reading. A link in its place is found, too.
fn is_unfit(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData
        || error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

/// Reads what [`write()`] wrote. One that others could read or have written is not taken.
fn read(file: &Path) -> io::Result<Vec<SelfSigned>> {
    let unfit = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason.to_owned());
    let no_follow = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(no_follow.bits()).map_err(io::Error::other)?;
    let opened = fs::OpenOptions::new().read(true).custom_flags(flags).open(file)?;
    let metadata = opened.metadata()?;
    if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
        return Err(unfit("it is no file with a certificate"));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(unfit("others may read its key: its mode has to be 0600"));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(unfit("it belongs to another user"));
    }
    let mut text = Vec::new();
    opened.take(FILE_BYTES_MAX).read_to_end(&mut text)?;
    let malformed = |error: &dyn std::fmt::Display| unfit(&error.to_string());
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let keys: Result<Vec<_>, _> = PrivatePkcs8KeyDer::pem_slice_iter(&text).collect();
    let certificates = certificates.map_err(|error| malformed(&error))?;
    let keys = keys.map_err(|error| malformed(&error))?;
    if certificates.is_empty() || certificates.len() != keys.len() {
        return Err(unfit("it does not hold certificates, each with its key"));
    }
    certificates
        .into_iter()
        .zip(keys)
        .map(|(certificate, key)| {
            let end_s = x509::not_after_s(&certificate)
                .ok_or_else(|| unfit("it holds a certificate that was not made here"))?;
            let (certificate, key) = (certificate.to_vec(), key.secret_pkcs8_der().to_vec());
            SelfSigned::of(certificate, key, end_s).map_err(|error| malformed(&error))
        })
        .collect()
}

/// Puts a file in place that its owner alone can read: the earlier one is there until this one is whole.
fn write(file: &Path, text: &[u8]) -> io::Result<()> {
    if let Some(directory) = file.parent() {
        use std::os::unix::fs::DirBuilderExt;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let temporary = file.with_extension(format!("{}.new", std::process::id()));
    // Of one who had this number and was killed.
    let _ = fs::remove_file(&temporary);
    let written = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut opened| opened.write_all(text).and_then(|()| opened.sync_all()))
        .and_then(|()| fs::rename(&temporary, file));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: u64 = 1_795_000_000;

    #[test]
    fn successor_exists_before_a_certificate_expires() {
        let mut rotation = Rotation::new(None, NOW_S).unwrap();
        let first = rotation.current().hash();
        assert!(!rotation.poll(NOW_S + 5 * DAY_S).unwrap());
        assert_eq!(rotation.hashes(), [first]);
        assert!(rotation.poll(NOW_S + 6 * DAY_S).unwrap());
        let [published_first, published_next] = rotation.hashes()[..] else {
            panic!("no successor")
        };
        assert_eq!(published_first, first);
        assert_ne!(published_next, first);
        assert!(!rotation.poll(NOW_S + 10 * DAY_S).unwrap());
        assert!(rotation.poll(NOW_S + 11 * DAY_S).unwrap());
        // The published successor takes over.
        assert_eq!(rotation.hashes(), [published_next]);
        assert!(!rotation.poll(NOW_S + 11 * DAY_S + 1).unwrap());
        // It was made on the sixth day, and holds to the eighteenth.
        assert!(rotation.poll(NOW_S + 12 * DAY_S).unwrap());
        assert_eq!(rotation.hashes().len(), 2);
    }

    #[test]
    fn certificate_is_renewed_after_a_sleep_of_weeks() {
        let mut rotation = Rotation::new(None, NOW_S).unwrap();
        rotation.poll(NOW_S + 7 * DAY_S).unwrap();
        let earlier = rotation.hashes();
        assert!(rotation.poll(NOW_S + 40 * DAY_S).unwrap());
        assert!(!earlier.contains(&rotation.current().hash()));
        assert_eq!(rotation.current.end_s, NOW_S + 52 * DAY_S);
    }

    #[test]
    fn certificate_is_kept_over_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("state").join("certificate.pem");
        let open = |now_s: u64| Rotation::new(Some(file.clone()), now_s).unwrap();
        let mut first = open(NOW_S);
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(fs::metadata(file.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
        assert_eq!(open(NOW_S + DAY_S).hashes(), first.hashes());
        // With the successor, once there is one, that takes over while nobody runs.
        first.poll(NOW_S + 7 * DAY_S).unwrap();
        let both = first.hashes();
        assert_eq!(open(NOW_S + 8 * DAY_S).hashes(), both);
        assert_eq!(open(NOW_S + 13 * DAY_S).hashes(), both[1..]);
        // After weeks there is none that holds, and before it was made neither.
        let later = open(NOW_S + 40 * DAY_S).hashes();
        assert!(!both.contains(&later[0]));
        assert_ne!(open(NOW_S).hashes(), later);
        assert_eq!(
            fs::read_dir(file.parent().unwrap()).unwrap().count(),
            1,
            "nothing is left over"
        );
    }

    #[test]
    fn certificate_is_kept_if_the_clock_steps_back_a_little() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("certificate.pem");
        let open = |now_s: u64| Rotation::new(Some(file.clone()), now_s).unwrap();
        let first = open(NOW_S).hashes();
        for earlier_s in [1, 600, DAY_S - 1, DAY_S] {
            assert_eq!(open(NOW_S - earlier_s).hashes(), first, "{earlier_s} s earlier");
        }
        // It is not valid before.
        assert_ne!(open(NOW_S - DAY_S - 1).hashes(), first);
    }

    #[test]
    fn unreadable_certificate_file_is_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("certificate.pem");
        let first = Rotation::new(Some(file.clone()), NOW_S).unwrap().hashes();
        // A component of the path that is no directory stands for whatever keeps a file from being read.
        let below = file.join("certificate.pem");
        let mut other = Rotation::new(Some(below), NOW_S).unwrap();
        assert_ne!(other.hashes(), first);
        assert!(other.file.is_none());
        // Neither at the start nor later is anything written.
        assert!(other.poll(NOW_S + 7 * DAY_S).unwrap());
        assert_eq!(Rotation::new(Some(file), NOW_S).unwrap().hashes(), first);
        let unreadable = io::Error::from(rustix::io::Errno::MFILE);
        assert!(!is_unfit(&unreadable) && is_unfit(&io::ErrorKind::InvalidData.into()));
    }

    #[test]
    fn certificate_file_accessible_to_others_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("certificate.pem");
        let open = || Rotation::new(Some(file.clone()), NOW_S).unwrap().hashes();
        let first = open();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let second = open();
        assert_ne!(second, first);
        assert_eq!(open(), second, "a proper one was put in its place");
        let elsewhere = directory.path().join("elsewhere.pem");
        fs::rename(&file, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
        let third = open();
        assert_ne!(third, second);
        let text = fs::read_to_string(&file).unwrap();
        for broken in ["", "nonsense", &text[..text.len() / 2], &text.replace("MI", "AA")] {
            fs::write(&file, broken).unwrap();
            let hashes = open();
            assert_ne!(hashes, third);
            assert_eq!(open(), hashes);
        }
    }
}
