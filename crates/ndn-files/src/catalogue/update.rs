//! Keeps the catalogues of all mounts up to date.

use std::collections::HashMap;
use std::fs;
use std::io::{self, IoSliceMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ndn_packet::Name;
use ndn_security::{Sha256, Sha256Digest, sha256};

use super::format::{CatalogueEntry, decode_page};
use super::pages::paginate;
use super::publish::PublishedCatalogue;
use super::sidecar::{self, SUFFIX};
use crate::not_served::NotServed;
use crate::preparations::Preparations;
use crate::prepare::SETTLED_NS;
use crate::serve::{MountPoint, Service};
use crate::source::{FileSource, Opened};
use crate::stat::FileStat;
use crate::walk::{WalkedFile, walk};

/// Maximum number of files of a catalogue; further ones are left out.
const FILES_MAX: usize = 1 << 20;
/// While files are hashed, the catalogue is published this often, in nanoseconds.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(10);
/// Bytes that are hashed at a time.
const READ_LEN: usize = 1 << 20;
/// Maximum size of a file of stored entries.
const STORED_BYTES_MAX: u64 = 2 << 30;

/// State of a file when it was found last.
#[derive(Debug, Clone)]
struct Known {
    version: u64,
    mtime_ns: u64,
    size: u64,
    digest: Option<Sha256Digest>,
    /// State of the sidecar file, and its fields.
    sidecar: Option<(FileStat, Vec<(String, String)>)>,
}

/// A file that was found, with its version.
type Versioned = (WalkedFile, u64);

/// A mount with its catalogue.
pub(crate) struct Catalogued {
    pub(crate) mount: Arc<MountPoint>,
    pub(crate) published: Arc<PublishedCatalogue>,
}

/// Walks mounts, hashes files, and publishes catalogues.
pub(crate) struct Cataloguer<'a> {
    service: &'a Service,
    preparations: &'a Preparations,
    not_served: &'a NotServed,
    /// Directory for the digests of contents, which outlive the server.
    directory: Option<&'a Path>,
    /// Whether files of remote sources are read to hash them.
    hashes_remote: bool,
}

impl<'a> Cataloguer<'a> {
    pub(crate) fn new(
        service: &'a Service,
        directory: Option<&'a Path>,
        hashes_remote: bool,
    ) -> Self {
        let (preparations, not_served) = (&service.preparations, &service.not_served);
        Self { service, preparations, not_served, directory, hashes_remote }
    }

    /// Keeps catalogues up to date until the server ends.
    pub(crate) fn run(&self, mounts: &[Catalogued]) {
        let mut known: Vec<_> =
            mounts.iter().map(|one| self.load(&one.mount.prefix).unwrap_or_default()).collect();
        loop {
            for (one, known) in mounts.iter().zip(&mut known) {
                self.update(one, known);
            }
            if !self.preparations.wait() {
                return;
            }
        }
    }

    /// Walks a mount, and publishes what has changed. `known` is what was found before.
    fn update(&self, one: &Catalogued, known: &mut HashMap<Name, Known>) {
        let Some((files, mut sidecars)) = self.find(&one.mount) else { return };
        let mut now = HashMap::with_capacity(files.len());
        let mut missing = Vec::new();
        for (WalkedFile { name, path, stat }, version) in files {
            let below = name.as_ref().suffix(one.mount.prefix.len()).to_name();
            let before = known.remove(&below);
            let is_same = |known: &Known| known.version == version && known.size == stat.size;
            let digest =
                before.as_ref().filter(|known| is_same(known)).and_then(|known| known.digest);
            let sidecar = sidecars.remove(path.as_path()).and_then(|state| {
                let before = before.and_then(|known| known.sidecar);
                let kept = before.filter(|(known, _)| known.is_same_content(&state));
                kept.or_else(|| Some((state, read_sidecar(one.mount.source.as_ref(), &path)?)))
            });
            if digest.is_none() {
                missing.push((below.clone(), name, path));
            }
            let (mtime_ns, size) = (stat.mtime_ns, stat.size);
            let entry = Known { version, mtime_ns, size, digest, sidecar };
            now.insert(below, entry);
        }
        *known = now;
        publish(&one.published, known);
        self.hash(one, missing, known);
    }

    /// All files of a mount with their versions, and the states of sidecar files by the paths of their files; `None` if some
    /// may be missing.
    fn find(&self, mount: &MountPoint) -> Option<(Vec<Versioned>, HashMap<PathBuf, FileStat>)> {
        let (mut files, mut sidecars) = (Vec::new(), HashMap::new());
        let mut left_out = 0_usize;
        let is_closed = || self.preparations.is_closed();
        let visit = |found: WalkedFile| {
            if let Some(path) = file_of_sidecar(&found.path) {
                sidecars.insert(path, found.stat);
            } else if files.len() < FILES_MAX {
                let version = self.service.version(mount, &found.name, &found.stat);
                files.push((found, version));
            } else {
                left_out += 1;
            }
        };
        let leave_out =
            |path: &Path, reason| self.not_served.note(mount.source.as_ref(), path, reason);
        let is_complete = walk(mount.source.as_ref(), &mount.prefix, is_closed, visit, leave_out);
        if left_out > 0 {
            tracing::warn!(prefix = %mount.prefix, left_out, "a catalogue has at most {FILES_MAX} files");
        }
        if !is_complete && !self.preparations.is_closed() {
            tracing::warn!(prefix = %mount.prefix, "not all files were found: the catalogue is kept as it is");
        }
        is_complete.then_some((files, sidecars))
    }

    /// Hashes the files without digest, and publishes them from time to time.
    fn hash(
        &self,
        one: &Catalogued,
        missing: Vec<(Name, Name, PathBuf)>,
        known: &mut HashMap<Name, Known>,
    ) {
        if one.mount.source.is_remote() && !self.hashes_remote {
            return;
        }
        let (mut published, mut hashed) = (crate::real_time::now(), 0_usize);
        for (key, name, path) in missing {
            if self.preparations.is_closed() {
                return;
            }
            let Some(entry) = known.get_mut(&key) else { continue };
            // The hash of a file that is being written would be of no use.
            let age_ns = crate::real_time::unix_ns().saturating_sub(entry.mtime_ns);
            if age_ns < SETTLED_NS {
                continue;
            }
            match self.digest_of(&one.mount, &name, &path, entry) {
                Ok(digest) => {
                    entry.digest = digest;
                    hashed += 1;
                }
                Err(error) => {
                    tracing::warn!(file = %path.display(), %error, "a file is not hashed")
                }
            }
            let now = crate::real_time::now();
            if now - published > PUBLISH_INTERVAL {
                publish(&one.published, known);
                published = now;
            }
        }
        publish(&one.published, known);
        if hashed > 0
            && let Err(error) = self.store(&one.mount.prefix, known)
        {
            tracing::warn!(prefix = %one.mount.prefix, %error, "the digests of a catalogue are not stored");
        }
    }

    /// SHA-256 of the content of a file; `None` if it is not in the version that is known, or changes meanwhile.
    fn digest_of(
        &self,
        mount: &MountPoint,
        name: &Name,
        path: &Path,
        known: &Known,
    ) -> io::Result<Option<Sha256Digest>> {
        let opened = mount.source.open_file(path).map_err(io::Error::other)?;
        let version = self.service.version(mount, name, &opened.stat);
        if version != known.version || opened.stat.size != known.size {
            return Ok(None);
        }
        content_digest(&opened)
    }

    /// The file of stored entries of a mount.
    fn stored(&self, prefix: &Name) -> Option<PathBuf> {
        let digest = sha256(prefix.value());
        let name: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(self.directory?.join(name).with_extension("catalogue"))
    }

    /// The states of the files of a mount, as an earlier server stored them.
    fn load(&self, prefix: &Name) -> Option<HashMap<Name, Known>> {
        let path = self.stored(prefix)?;
        if fs::metadata(&path).ok()?.len() > STORED_BYTES_MAX {
            return None;
        }
        let bytes = fs::read(path).ok()?;
        let mut rest = bytes.as_slice();
        let mut known = HashMap::new();
        while let Some((length, after)) = rest.split_first_chunk() {
            let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
            let (page, after) = after.split_at_checked(length)?;
            for entry in decode_page(page).ok()? {
                let CatalogueEntry { path, version, mtime_ns, size, digest, .. } = entry;
                let found = Known { version, mtime_ns, size, digest, sidecar: None };
                known.insert(path, found);
            }
            rest = after;
        }
        Some(known)
    }

    /// Stores what is known, for the next start.
    fn store(&self, prefix: &Name, known: &HashMap<Name, Known>) -> io::Result<()> {
        let Some(path) = self.stored(prefix) else { return Ok(()) };
        let mut bytes = Vec::new();
        for page in paginate(&entries(known)) {
            let length = u32::try_from(page.bytes.len()).map_err(io::Error::other)?;
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(&page.bytes);
        }
        let unfinished = path.with_extension(format!("{}.tmp", std::process::id()));
        fs::write(&unfinished, bytes)?;
        fs::rename(unfinished, path)
    }
}

fn publish(published: &PublishedCatalogue, known: &HashMap<Name, Known>) {
    let entries = entries(known);
    match published.publish(&entries) {
        Ok(None) => {}
        Ok(Some(pages)) => {
            tracing::info!(name = %published.name(), files = entries.len(), pages, "catalogue published");
        }
        Err(error) => {
            tracing::warn!(name = %published.name(), %error, "the catalogue cannot be published");
        }
    }
}

/// The entries in the order of their paths.
fn entries(known: &HashMap<Name, Known>) -> Vec<CatalogueEntry> {
    let entry = |(path, known): (&Name, &Known)| CatalogueEntry {
        path: path.clone(),
        version: known.version,
        size: known.size,
        mtime_ns: known.mtime_ns,
        digest: known.digest,
        fields: known.sidecar.as_ref().map(|(_, fields)| fields.clone()).unwrap_or_default(),
    };
    let mut entries: Vec<_> = known.iter().map(entry).collect();
    entries.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    entries
}

/// The path of the file whose metadata a sidecar file has; `None` for other files.
fn file_of_sidecar(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.as_encoded_bytes().strip_suffix(SUFFIX)?;
    let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty())?;
    Some(path.with_file_name(name))
}

/// The fields in the sidecar file of a file; `None` if it cannot be read or understood.
fn read_sidecar(source: &dyn FileSource, file: &Path) -> Option<Vec<(String, String)>> {
    let mut name = file.file_name()?.to_owned();
    name.push(std::str::from_utf8(SUFFIX).ok()?);
    let path = file.with_file_name(name);
    let refused = |reason: String| {
        tracing::warn!(file = %path.display(), reason, "metadata that cannot be read is left out");
    };
    let opened = source.open_file(&path).map_err(|error| refused(error.to_string())).ok()?;
    if opened.stat.size > sidecar::LEN_MAX {
        refused(format!("it has more than {} bytes", sidecar::LEN_MAX));
        return None;
    }
    let mut text = vec![0; usize::try_from(opened.stat.size).ok()?];
    let read = opened.file.read(0, &mut [IoSliceMut::new(&mut text)]);
    read.map_err(|error| refused(error.to_string())).ok()?;
    sidecar::parse(&text).map_err(refused).ok()
}

/// SHA-256 of the content of a file; `None` if it changes meanwhile.
fn content_digest(opened: &Opened) -> io::Result<Option<Sha256Digest>> {
    let size = opened.stat.size;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; READ_LEN];
    let mut offset = 0;
    while offset < size {
        let left = usize::try_from(size - offset).unwrap_or(usize::MAX).min(READ_LEN);
        match opened.file.read(offset, &mut [IoSliceMut::new(&mut buffer[..left])]) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        digest.update(&buffer[..left]);
        offset += u64::try_from(left).unwrap_or(u64::MAX);
    }
    let is_unchanged = opened.file.is_unchanged(&opened.stat).map_err(io::Error::other)?;
    Ok(is_unchanged.then(|| digest.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sidecar_files_belong_to_the_file_without_their_ending() {
        let of = |path: &str| file_of_sidecar(Path::new(path));
        assert_eq!(of("a/run.root.meta.json"), Some(PathBuf::from("a/run.root")));
        assert_eq!(of("a/run.json"), None);
        assert_eq!(of("a/.meta.json"), None);
    }
}
