//! Open directories.

use std::sync::Arc;

use futures_util::StreamExt;
use ndn_access::{Access, AccessError, Stat};
use ndn_files::ListingEntry;
use ndn_packet::Name;

/// Number of entries whose attributes are fetched at a time.
const STATS_AT_A_TIME: usize = 32;

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
            let next = self.entries.iter().skip(stats.len()).take(STATS_AT_A_TIME);
            let names: Vec<Name> = next.map(|entry| self.name_of(entry)).collect();
            let fetched =
                names.into_iter().map(|name| async move { describe(access, &name).await });
            let fetched: Vec<_> =
                futures_util::stream::iter(fetched).buffered(STATS_AT_A_TIME).collect().await;
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

/// The attributes of a file or directory, with its size; `None` if it does not exist.
pub(crate) async fn describe(access: &Access, name: &Name) -> Result<Option<Stat>, AccessError> {
    let stat = access.stat_metadata(name).await?;
    match stat {
        // Metadata of other services does not state the size.
        Some(stat) if !stat.is_directory && stat.size.is_none() => {
            Ok(Some(access.open(name).await?.stat()))
        }
        stat => Ok(stat),
    }
}
