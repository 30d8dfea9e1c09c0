//! The published catalogue of a mount: answers Interests for the index and its pages.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use ndn_client::{Content, Handler, PublishError, PublishOptions, Request, SegmentedObject};
use ndn_packet::{Component, Name};
use ndn_security::{DigestSigner, Sha256Digest, Signer, sha256};

use super::format::{CatalogueEntry, CatalogueIndex, PAGES_MAX, PageReference};
use super::pages::{Page, paginate};
use crate::request::CATALOGUE;

/// Keyword component of catalogues.
/// Keyword component of pages.
const PAGE: Component<'static> = Component::keyword(b"page");
/// Version of pages: their names have their digests.
const PAGE_VERSION: u64 = 1;
/// Content bytes per segment where packets may have the maximum length.
const SEGMENT_LEN: usize = 8000;
/// Bytes of a packet beside name and content.
const PACKET_REST: usize = 700;
/// Shortest content of a segment.
const SEGMENT_LEN_MIN: usize = 256;
/// FreshnessPeriod of segments.
const FRESHNESS: Duration = Duration::from_secs(3600);

/// Name of the catalogue of a prefix.
pub(crate) fn catalogue_name(prefix: &Name) -> Name {
    let mut name = prefix.clone();
    name.push(CATALOGUE);
    name
}

/// Name of a page with its version.
pub(crate) fn page_name(prefix: &Name, digest: &Sha256Digest) -> Name {
    let mut name = catalogue_name(prefix);
    name.push(PAGE).push_generic(digest).push_version(PAGE_VERSION);
    name
}

/// One version of a catalogue.
struct Generation {
    index: SegmentedObject,
    /// Name of the index with its version.
    name: Name,
    content: Vec<u8>,
    pages: HashMap<Sha256Digest, Arc<SegmentedObject>>,
}

#[derive(Default)]
struct Generations {
    current: Option<Generation>,
    /// Consumers may be fetching it.
    previous: Option<Generation>,
}

/// The catalogue of a mount, in its last two versions.
pub(crate) struct PublishedCatalogue {
    prefix: Name,
    replicas: Vec<Name>,
    signer: Arc<dyn Signer>,
    packet_len_max: usize,
    generations: Mutex<Generations>,
}

impl PublishedCatalogue {
    pub(crate) fn new(
        prefix: Name,
        replicas: Vec<Name>,
        signer: Arc<dyn Signer>,
        packet_len_max: usize,
    ) -> Self {
        Self { prefix, replicas, signer, packet_len_max, generations: Mutex::default() }
    }

    pub(crate) fn name(&self) -> Name {
        catalogue_name(&self.prefix)
    }

    fn generations(&self) -> MutexGuard<'_, Generations> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes entries, which are in the order of their paths, unless they are published already. Returns the number of
    /// pages that are new; `None` if nothing has changed.
    ///
    /// # Errors
    /// The name is too long for packets.
    pub(crate) fn publish(
        &self,
        entries: &[CatalogueEntry],
    ) -> Result<Option<usize>, PublishError> {
        let pages: Vec<(Sha256Digest, Page)> = paginate(entries)
            .into_iter()
            .take(PAGES_MAX)
            .map(|page| (sha256(&page.bytes), page))
            .collect();
        let reference = |(digest, page): &(Sha256Digest, Page)| PageReference {
            digest: *digest,
            length: u64::try_from(page.bytes.len()).unwrap_or(u64::MAX),
            entries: u64::try_from(page.entries).unwrap_or(u64::MAX),
        };
        let index = CatalogueIndex {
            prefix: self.prefix.clone(),
            replicas: self.replicas.clone(),
            pages: pages.iter().map(reference).collect(),
        };
        let content = index.encode();
        let known = {
            let generations = self.generations();
            let current = generations.current.as_ref();
            if current.is_some_and(|current| current.content == content) {
                return Ok(None);
            }
            current.map(|current| current.pages.clone()).unwrap_or_default()
        };
        let mut added = 0;
        let mut objects = HashMap::with_capacity(pages.len());
        for (digest, page) in pages {
            let object = match known.get(&digest) {
                Some(object) => Arc::clone(object),
                None => {
                    added += 1;
                    Arc::new(self.page(&digest, page.bytes)?)
                }
            };
            objects.insert(digest, object);
        }
        let version = crate::real_time::unix_ns();
        let object =
            self.object(&self.name(), version, content.clone(), Arc::clone(&self.signer))?;
        let mut name = self.name();
        name.push_version(version);
        let mut generations = self.generations();
        let generation = Generation { index: object, name, content, pages: objects };
        generations.previous = generations.current.replace(generation);
        Ok(Some(added))
    }

    fn page(&self, digest: &Sha256Digest, bytes: Vec<u8>) -> Result<SegmentedObject, PublishError> {
        let name = page_name(&self.prefix, digest);
        // The index has its digest: it needs no other signature.
        let name = name.as_ref().parent().to_name();
        self.object(&name, PAGE_VERSION, bytes, Arc::new(DigestSigner))
    }

    fn object(
        &self,
        name: &Name,
        version: u64,
        content: Vec<u8>,
        signer: Arc<dyn Signer>,
    ) -> Result<SegmentedObject, PublishError> {
        let room = self.packet_len_max.saturating_sub(name.value().len() + PACKET_REST);
        let mut options = PublishOptions {
            version: Some(version),
            segment_len: room.clamp(SEGMENT_LEN_MIN, SEGMENT_LEN),
            freshness: FRESHNESS,
            signer,
            ..PublishOptions::default()
        };
        let content = Content::Bytes(Bytes::from(content));
        match SegmentedObject::new(name, content.clone(), &options) {
            Err(PublishError::SegmentTooLong { segment_len_max, .. }) if segment_len_max > 0 => {
                options.segment_len = segment_len_max;
                SegmentedObject::new(name, content, &options)
            }
            made => made,
        }
    }
}

impl Handler for PublishedCatalogue {
    fn handle(&self, request: Request) {
        let name = request.name();
        let below = name.suffix(self.prefix.len() + 1);
        let generations = self.generations();
        let both = || [&generations.current, &generations.previous].into_iter().flatten();
        if below.component(0) == Some(PAGE) {
            let digest = below.component(1).and_then(|digest| digest.value().try_into().ok());
            let page = digest.and_then(|digest: Sha256Digest| {
                both().find_map(|generation| generation.pages.get(&digest).map(Arc::clone))
            });
            drop(generations);
            if let Some(page) = page {
                page.handle(request);
            }
            return;
        }
        let is_of = |generation: &&Generation| name.starts_with(generation.name.as_ref());
        let generation = both().find(is_of).or(generations.current.as_ref());
        if let Some(generation) = generation {
            generation.index.handle(request);
        }
    }
}

impl std::fmt::Debug for PublishedCatalogue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PublishedCatalogue").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
