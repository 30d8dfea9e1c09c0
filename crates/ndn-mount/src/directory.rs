//! Open directories.

use std::sync::Arc;

use ndn_access::{Access, AccessError, Stat};
use ndn_files::ListingEntry;
use ndn_packet::Name;

/// Number of entries whose attributes are fetched together.
const STATS_TOGETHER: usize = 256;

/// An open directory: its entries at the time when it was opened.
#[derive(Debug)]
pub(crate) struct Directory {
    name: Name,
    entries: Vec<ListingEntry>,
    /// Attributes by index, fetched in groups; `None`: the entry does not exist any more.
    stats: tokio::sync::Mutex<Vec<Option<Stat>>>,
}

impl Directory {
    pub(crate) fn new(name: Name, entries: Vec<ListingEntry>) -> Arc<Self> {
        Arc::new(Self { name, entries, stats: tokio::sync::Mutex::default() })
    }

    pub(crate) fn entries(&self) -> &[ListingEntry] {
        &self.entries
    }

    pub(crate) fn name_of(&self, entry: &ListingEntry) -> Name {
        let mut name = self.name.clone();
        name.push_generic(&entry.file_name);
        name
    }

    /// The attributes of an entry; those of the next ones are fetched with them.
    pub(crate) async fn stat(
        &self,
        access: &Access,
        index: usize,
    ) -> Result<Option<Stat>, AccessError> {
        let mut stats = self.stats.lock().await;
        while stats.len() <= index {
            let next = self.entries.iter().skip(stats.len()).take(STATS_TOGETHER);
            let names: Vec<Name> = next.map(|entry| self.name_of(entry)).collect();
            let fetched = access.describe_each(names).await;
            if fetched.is_empty() {
                return Ok(None);
            }
            for stat in fetched {
                stats.push(stat?);
            }
        }
        Ok(stats[index].clone())
    }
}
