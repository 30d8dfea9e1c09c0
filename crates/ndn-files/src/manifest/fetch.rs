//! Consumer side: finds the root of a manifest, and verifies segments with the digests below it.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use ndn_client::fetch::{
    Discovery, FetchError, FetchOptions, FoundObject, Loading, PacketVerifier, Verification,
};
use ndn_client::{Endpoint, ExpressError, InterestRequest};
use ndn_packet::{ContentType, Data, Name};
use ndn_security::{Sha256Digest, VerifyError};

use super::digests::{Digests, Source};
use super::root::Root;
use super::tree::Tree;
use crate::metadata::{FileMetadata, MetadataError, SignedLeaves};

/// Shortest and longest time between two Interests for a manifest that is being prepared.
const PREPARATION_INTERVAL: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(2)];
/// Number of estimates in a row that are no shorter than an earlier one, after which the wait ends.
const STALLED_ESTIMATES_MAX: u32 = 30;

/// Why no manifest is available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The metadata are invalid.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The root cannot be fetched.
    #[error("the manifest cannot be fetched: {0}")]
    Unanswered(#[source] ExpressError),
    /// The root is not signed by a trusted key.
    #[error("the manifest {name} does not verify: {reason}")]
    Untrusted {
        /// Name of the root.
        name: String,
        /// Why not.
        #[source]
        reason: VerifyError,
    },
    /// The root is malformed.
    #[error("the manifest {name} cannot be used: {reason}")]
    Malformed {
        /// Name of the root.
        name: String,
        /// Why not.
        reason: String,
    },
    /// The root belongs to another object, or another version.
    #[error("the manifest {name} is of {of}")]
    OfAnother {
        /// Name of the root.
        name: String,
        /// The object in the root.
        of: String,
    },
    /// Metadata and manifest contradict each other.
    #[error("the metadata states another size than the manifest {name}")]
    SizeDiffers {
        /// Name of the root.
        name: String,
    },
    /// The file changed while its manifest was being prepared.
    #[error("{name} changed while the server prepared its manifest")]
    Changed {
        /// Name of the file with its old version.
        name: String,
    },
    /// The metadata cannot be fetched again.
    #[error(transparent)]
    Fetch(#[from] FetchError),
}

/// A verified manifest: the digest of every segment of a version. Its nodes are fetched when the segments that they list are
/// checked, so that a range of a large object needs only the nodes above it.
#[derive(Debug)]
pub struct Manifest {
    digests: Arc<Digests>,
}

impl Manifest {
    /// Name of the object with its version.
    #[must_use]
    pub fn object(&self) -> &Name {
        &self.digests.root().name
    }

    /// Length of the object in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.digests.root().size
    }

    /// Content bytes of each segment but the last.
    #[must_use]
    pub fn segment_size(&self) -> u64 {
        self.digests.root().segment_size
    }

    /// Number of segments. The whole manifest takes 32 bytes for each.
    #[must_use]
    pub fn segments(&self) -> u64 {
        self.digests.segments()
    }

    /// Number of nodes that were fetched, and the root.
    #[cfg(test)]
    pub(crate) fn known_nodes(&self) -> usize {
        self.digests.known_nodes()
    }

    /// The object, to be fetched with [`Self::verification`]: it ends where the manifest says.
    #[must_use]
    pub fn to_found(&self) -> FoundObject {
        FoundObject::known(self.object().clone(), self.segments().saturating_sub(1))
    }

    /// Verification of the object's segments. Those that are checked other than by a fetch must be loaded before
    /// ([`Verification::load`]).
    #[must_use]
    pub fn verification(self: &Arc<Self>) -> Verification {
        Verification::Packets(Arc::<Self>::clone(self))
    }
}

impl PacketVerifier for Manifest {
    fn load(&self, segments: RangeInclusive<u64>) -> Option<Loading> {
        self.digests.load(&segments)
    }

    fn check_digest(&self, data: &Data<'_>, digest: &Sha256Digest) -> Result<(), VerifyError> {
        // The digest covers the name, too; the number is only the index.
        let segment = data.name().last().and_then(|last| last.as_segment());
        match segment.and_then(|segment| self.expected(segment)) {
            Some(listed) if listed == *digest => Ok(()),
            _ => Err(VerifyError::NotListed),
        }
    }

    fn expected(&self, segment: u64) -> Option<Sha256Digest> {
        self.digests.of_segment(segment)
    }

    fn check_nack(&self, nack: &Data<'_>) -> Result<(), VerifyError> {
        // A key that may sign the manifest may also state that its object is gone.
        self.digests.signer().check(nack)
    }
}

/// Finds the manifest of an object; `None` if its metadata names none. `options` determine how its nodes are fetched, and
/// the key of the root. While a server prepares a manifest and offers no signed leaves, `waiting` is called with the time
/// that it estimates, every two seconds at least.
///
/// # Errors
/// All of [`ManifestError`].
pub async fn fetch_manifest(
    endpoint: &Endpoint,
    found: &FoundObject,
    options: &FetchOptions,
    waiting: impl FnMut(Duration),
) -> Result<Option<Arc<Manifest>>, ManifestError> {
    let root = find_manifest(endpoint, found, options, waiting).await?;
    Ok(root.map(|root| root.into_manifest(endpoint, options)))
}

/// The root of a manifest, without its other nodes; or the values of signed leaves in the metadata.
#[derive(Debug)]
pub struct ManifestRoot {
    source: Source,
    root: Root,
    tree: Tree,
}

impl ManifestRoot {
    /// Number of segments. The whole manifest takes 32 bytes for each.
    #[must_use]
    pub fn segments(&self) -> u64 {
        self.tree.segments
    }

    /// The manifest, whose nodes are fetched according to `options` when they are needed.
    #[must_use]
    pub fn into_manifest(self, endpoint: &Endpoint, options: &FetchOptions) -> Arc<Manifest> {
        let Self { source, root, tree } = self;
        let digests = Digests::new(root, tree, source, endpoint.clone(), options.clone());
        Arc::new(Manifest { digests: Arc::new(digests) })
    }
}

/// Fetches and verifies the root of the manifest of an object, which states the size of the
/// manifest; `None` if its metadata names none. For `waiting`, see [`fetch_manifest`].
///
/// # Errors
/// All of [`ManifestError`] except those of nodes.
pub async fn find_manifest(
    endpoint: &Endpoint,
    found: &FoundObject,
    options: &FetchOptions,
    waiting: impl FnMut(Duration),
) -> Result<Option<ManifestRoot>, ManifestError> {
    let Some(metadata) = found.metadata() else {
        return Ok(None);
    };
    let metadata = FileMetadata::decode(metadata)?;
    if let Some(leaves) = &metadata.signed_leaves {
        return signed_leaves(found, &metadata, leaves).map(Some);
    }
    let Some(name) = &metadata.manifest else {
        return Ok(None);
    };
    let stated = metadata.manifest_root.as_deref();
    let (root, tree) = match stated.filter(|_| found.metadata_is_verified_by(&options.verification))
    {
        Some(root) => read_root(root, &name.to_uri(), found.name())?,
        None => {
            await_preparation(endpoint, &metadata, name, options, waiting).await?;
            fetch_root(endpoint, name, found.name(), options).await?
        }
    };
    if metadata.size.is_some_and(|size| size != root.size) {
        return Err(ManifestError::SizeDiffers { name: name.to_uri() });
    }
    Ok(Some(ManifestRoot { source: Source::Nodes(name.clone()), root, tree }))
}

/// The manifest of a file that the server is still hashing, which signs each leaf. Each leaf repeats what the metadata state
/// here.
fn signed_leaves(
    found: &FoundObject,
    metadata: &FileMetadata,
    leaves: &SignedLeaves,
) -> Result<ManifestRoot, ManifestError> {
    let contradiction = |text| ManifestError::Metadata(MetadataError::Contradiction(text));
    let (Some(size), Some(segment_size)) = (metadata.size, metadata.segment_size) else {
        return Err(contradiction("signed leaves of a file without size"));
    };
    let name = found.name().clone();
    let SignedLeaves { name: of, fanout } = leaves;
    let tree = Tree::new(size.div_ceil(segment_size).max(1), *fanout)
        .ok_or_else(|| contradiction("signed leaves that there cannot be"))?;
    let root = Root { name, size, segment_size, fanout: *fanout, digests: Vec::new() };
    Ok(ManifestRoot { source: Source::SignedLeaves(of.clone()), root, tree })
}

/// Waits while the metadata of a file state that its manifest is being prepared, and the estimate falls.
/// Interests for the root make the server begin.
async fn await_preparation(
    endpoint: &Endpoint,
    metadata: &FileMetadata,
    manifest: &Name,
    options: &FetchOptions,
    mut waiting: impl FnMut(Duration),
) -> Result<(), ManifestError> {
    let mut root_name = manifest.clone();
    root_name.push_segment(0);
    let file = metadata.name.as_ref().parent().to_name();
    let asking = FetchOptions { discovery: Discovery::Metadata, ..options.clone() };
    let mut preparation_ms = metadata.preparation_ms;
    let (mut shortest_ms, mut stalled) = (u64::MAX, 0);
    while let Some(left_ms) = preparation_ms {
        stalled = if left_ms < shortest_ms { 0 } else { stalled + 1 };
        shortest_ms = shortest_ms.min(left_ms);
        if stalled >= STALLED_ESTIMATES_MAX {
            // The server cannot prepare it: the caller asks for the root and reports that it is missing.
            return Ok(());
        }
        let left = Duration::from_millis(left_ms);
        waiting(left);
        let [shortest, longest] = PREPARATION_INTERVAL;
        let request = InterestRequest::new(root_name.clone())
            .lifetime(left.clamp(shortest, longest))
            .retransmissions(0);
        match endpoint.express(&request).await {
            Err(ExpressError::Timeout { .. }) => {}
            // It is there, or cannot be fetched: the caller finds out which.
            Ok(_) | Err(_) => return Ok(()),
        }
        let found = endpoint.find(&file, &asking).await?;
        if *found.name() != metadata.name {
            return Err(ManifestError::Changed { name: metadata.name.to_uri() });
        }
        let current = found.metadata().map(|content| FileMetadata::decode(content)).transpose()?;
        preparation_ms = current.and_then(|current| current.preparation_ms);
    }
    Ok(())
}

async fn fetch_root(
    endpoint: &Endpoint,
    name: &Name,
    object: &Name,
    options: &FetchOptions,
) -> Result<(Root, Tree), ManifestError> {
    let mut root_name = name.clone();
    root_name.push_segment(0);
    let uri = root_name.to_uri();
    // Building it may take a while.
    let request = InterestRequest::new(root_name)
        .lifetime(options.lifetime)
        .retransmissions(options.config.retransmissions_max);
    let attempts = options.config.retransmissions_max.saturating_add(1);
    let timeout = options.lifetime.saturating_mul(attempts);
    let received = endpoint.express_verified(request, timeout, options).await;
    let received = received.map_err(|error| {
        if let ExpressError::Verification { name, reason } = error {
            return ManifestError::Untrusted { name, reason };
        }
        ManifestError::Unanswered(error)
    })?;
    let data = received.data();
    if data.content_type() != ContentType::MANIFEST {
        let reason = format!("it is a {}", data.content_type());
        return Err(ManifestError::Malformed { name: uri, reason });
    }
    read_root(data.content().unwrap_or_default(), &uri, object)
}

/// Parses the content of a root, which must be that of `object`.
fn read_root(content: &[u8], uri: &str, object: &Name) -> Result<(Root, Tree), ManifestError> {
    let (root, tree) = Root::decode(content).map_err(|error| ManifestError::Malformed {
        name: uri.to_owned(),
        reason: error.to_string(),
    })?;
    if root.name != *object {
        return Err(ManifestError::OfAnother { name: uri.to_owned(), of: root.name.to_uri() });
    }
    Ok((root, tree))
}
