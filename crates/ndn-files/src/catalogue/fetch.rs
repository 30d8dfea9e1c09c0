//! Fetches catalogues.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ndn_client::Endpoint;
use ndn_client::fetch::{Discovery, FetchOptions, Verification};
use ndn_packet::Name;
use ndn_security::{Sha256Digest, sha256};

use super::format::{
    CatalogueEntry, CatalogueError, CatalogueIndex, INDEX_LEN_MAX, PAGE_LEN_MAX, PageReference,
    decode_page,
};
use super::publish::{catalogue_name, page_name};

/// Fetches the index of the catalogue of `prefix`; `options` state how it is verified. Returns its version, too: the time at
/// which it was published, in nanoseconds since 1970.
///
/// # Errors
/// There is none, it does not verify, or it is malformed.
pub async fn fetch_index(
    endpoint: &Endpoint,
    prefix: &Name,
    options: &FetchOptions,
) -> Result<(CatalogueIndex, u64), CatalogueError> {
    let options = FetchOptions { discovery: Discovery::Metadata, ..options.clone() };
    let stream = endpoint.fetch(&catalogue_name(prefix), &options).await?;
    let version = stream.name().as_ref().last().and_then(|last| last.as_version());
    let version = version.ok_or(CatalogueError::Contradiction("its name has no version"))?;
    let index = CatalogueIndex::decode(&stream.collect(INDEX_LEN_MAX).await?)?;
    if index.prefix != *prefix {
        return Err(CatalogueError::Contradiction("it is the catalogue of another name"));
    }
    Ok((index, version))
}

/// Fetches a page that the index of the catalogue of `prefix` lists, or reads it from `cache`.
///
/// # Errors
/// There is none, or it is not the page that the index lists.
pub async fn fetch_page(
    endpoint: &Endpoint,
    prefix: &Name,
    page: &PageReference,
    cache: Option<&PageCache>,
    options: &FetchOptions,
) -> Result<Vec<CatalogueEntry>, CatalogueError> {
    if let Some(bytes) = cache.and_then(|cache| cache.load(&page.digest)) {
        return decode_page(&bytes);
    }
    let options = FetchOptions {
        discovery: Discovery::Auto,
        // The index states the digest of the whole.
        verification: Verification::Digest,
        ..options.clone()
    };
    let stream = endpoint.fetch(&page_name(prefix, &page.digest), &options).await?;
    let bytes = stream.collect(PAGE_LEN_MAX).await?;
    if sha256(&bytes) != page.digest {
        return Err(CatalogueError::Contradiction("a page is not the one that the index lists"));
    }
    let entries = decode_page(&bytes)?;
    if let Some(cache) = cache
        && let Err(error) = cache.store(&page.digest, &bytes)
    {
        tracing::debug!(%error, "a page of a catalogue is not kept");
    }
    Ok(entries)
}

/// A directory of pages that were fetched before, by their digests.
#[derive(Debug, Clone)]
pub struct PageCache {
    directory: PathBuf,
    bytes_max: u64,
}

impl PageCache {
    /// Uses `directory`, which is created if missing, for at most about `bytes_max` bytes.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn open(directory: &Path, bytes_max: u64) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let cache = Self { directory: directory.to_owned(), bytes_max };
        cache.remove_oldest()?;
        Ok(cache)
    }

    fn path(&self, digest: &Sha256Digest) -> PathBuf {
        let name: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        self.directory.join(name).with_extension("page")
    }

    /// The bytes with this digest, if they are here undamaged.
    fn load(&self, digest: &Sha256Digest) -> Option<Vec<u8>> {
        let path = self.path(digest);
        if fs::metadata(&path).ok()?.len() > PAGE_LEN_MAX as u64 {
            return None;
        }
        fs::read(path).ok().filter(|bytes| sha256(bytes) == *digest)
    }

    fn store(&self, digest: &Sha256Digest, bytes: &[u8]) -> io::Result<()> {
        let path = self.path(digest);
        let unfinished = path.with_extension(format!("{}.tmp", std::process::id()));
        fs::write(&unfinished, bytes)?;
        fs::rename(unfinished, path)
    }

    fn remove_oldest(&self) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            files.push((metadata.modified()?, metadata.len(), entry.path()));
        }
        files.sort();
        let mut total: u64 = files.iter().map(|(_, length, _)| length).sum();
        for (_, length, path) in files {
            if total <= self.bytes_max {
                break;
            }
            fs::remove_file(path)?;
            total -= length;
        }
        Ok(())
    }
}
