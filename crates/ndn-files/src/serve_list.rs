//! Serving directory listings.

use std::sync::Arc;

use crate::cache::Key;
use crate::counters::Event;
use crate::listing::list;
use crate::packet::Layout;
use crate::place::{Place, Refused, failed_to_stat};
use crate::root::OpenFailure;
use crate::serve::{ATTEMPTS_MAX, Job, Scratch, Service};
use crate::stat::{FileKind, FileStat};

/// A directory's listing in one version.
#[derive(Debug)]
pub(crate) struct Listing {
    bytes: Vec<u8>,
    layout: Layout,
}

impl Service {
    pub(crate) fn list_segment(
        &self,
        place: &Place<'_>,
        version: u64,
        segment: u64,
        job: &Job,
        scratch: &mut Scratch,
    ) -> Result<(), Refused> {
        let listing = self.listing(place, version)?;
        if segment > listing.layout.final_segment {
            return Err(Refused::silently(Event::NotFound));
        }
        let seal = self.seal()?;
        let failed = || Refused::silently(Event::Failed);
        let mut packet = vec![0; listing.layout.packet_len_max(&seal)];
        let slot = listing.layout.lay_out(segment, &seal, &mut packet).map_err(|_| failed())?;
        let (offset, length) = listing.layout.extent(segment);
        let offset = usize::try_from(offset).map_err(|_| failed())?;
        let content = listing.bytes.get(offset..offset + length).ok_or_else(failed)?;
        packet[slot.content.clone()].copy_from_slice(content);
        let range = seal.close(&slot, &mut packet, &mut scratch.signature).map_err(|_| failed())?;
        scratch.answers.push(&job.request, &packet[range]);
        self.counters.add(Event::Segment, 1);
        self.counters.add_content(u64::try_from(length).unwrap_or(0));
        Ok(())
    }

    /// The listing in `version`: as it was made before, or from the directory if that is its version.
    fn listing(&self, place: &Place<'_>, version: u64) -> Result<Arc<Listing>, Refused> {
        let name = place.listing_name(version);
        let key: Key = Arc::from(name.value());
        if let Some(listing) = self.listings().find(&key) {
            return Ok(Arc::clone(listing));
        }
        for _ in 0..ATTEMPTS_MAX {
            let opened = place.mount.root.open_file(&place.path)?;
            if opened.stat.kind != FileKind::Directory {
                return Err(OpenFailure::NotFound.into());
            }
            let current = opened.stat.mtime_ns;
            if version != current {
                return Err(Refused { event: Event::WrongVersion, tell: version < current });
            }
            self.counters.add(Event::Opened, 1);
            let bytes = list(&place.mount.root, &place.path, &opened.file)?;
            let now = FileStat::of(&opened.file).map_err(failed_to_stat)?;
            if now.mtime_ns != current {
                self.counters.add(Event::Changed, 1);
                continue;
            }
            let seal = self.seal()?;
            let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            let layout = Layout::new(name.clone(), size, &place.mount.limits, &seal)
                .ok_or(Refused { event: Event::RefusedPath, tell: true })?;
            let weight = bytes.len() + key.len();
            let listing = Arc::new(Listing { bytes, layout });
            self.listings().insert(&key, Arc::clone(&listing), weight);
            return Ok(listing);
        }
        Err(Refused::silently(Event::Changed))
    }
}
