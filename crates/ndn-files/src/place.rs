//! Where a request leads to, and why it may lead nowhere.

use std::path::PathBuf;
use std::sync::Arc;

use ndn_packet::Name;

use crate::cache::Key;
use crate::counters::Event;
use crate::listing::ListFailure;
use crate::path::path_of;
use crate::request::LIST;
use crate::root::OpenFailure;
use crate::serve::{Job, MountPoint};

/// Why a request gets no content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) event: Event,
    /// Whether the consumer is told.
    pub(crate) tell: bool,
}

impl Refused {
    pub(crate) fn silently(event: Event) -> Self {
        Self { event, tell: false }
    }
}

impl From<OpenFailure> for Refused {
    fn from(failure: OpenFailure) -> Self {
        // What may be different the next time is left to the consumer's retransmission.
        Self { event: failure.into(), tell: !matches!(failure, OpenFailure::Other(_)) }
    }
}

impl From<ListFailure> for Refused {
    fn from(failure: ListFailure) -> Self {
        match failure {
            ListFailure::Open(failure) => failure.into(),
            ListFailure::TooLong => Self { event: Event::Failed, tell: true },
        }
    }
}

pub(crate) fn failed_to_stat(errno: rustix::io::Errno) -> Refused {
    Refused::silently(OpenFailure::from(errno).into())
}

/// Where a request leads to.
pub(crate) struct Place<'a> {
    pub(crate) key: &'a Key,
    pub(crate) mount: Arc<MountPoint>,
    /// Name of the file, without version.
    pub(crate) name: Name,
    pub(crate) path: PathBuf,
}

impl<'a> Place<'a> {
    pub(crate) fn of(job: &Job, key: &'a Key) -> Result<Self, Refused> {
        let name = job.request.name();
        let name = name.prefix(job.path_end);
        let mount = Arc::clone(&job.mount);
        let below = name.suffix(mount.prefix.len());
        let path = path_of(below, mount.root.options().hidden)
            .map_err(|refusal| Refused { event: refusal.into(), tell: true })?;
        Ok(Self { key, mount, name: name.to_name(), path })
    }

    pub(crate) fn listing_name(&self, version: u64) -> Name {
        let mut name = self.name.clone();
        name.push(LIST).push_version(version);
        name
    }
}
