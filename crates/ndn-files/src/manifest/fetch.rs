//! Consumer side: fetches a manifest, verifies it node by node, and then verifies segments with it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ndn_client::fetch::{
    Discovery, FetchError, FetchFailure, FetchOptions, FoundObject, PacketVerifier, Verification,
};
use ndn_client::{Endpoint, ExpressError, InterestRequest};
use ndn_packet::{ContentType, Data, Name};
use ndn_security::{Sha256Digest, VerifyError, sha256};

use super::root::{Root, digests_of};
use super::tree::Tree;
use crate::metadata::{FileMetadata, MetadataError};

/// Shortest and longest time between two Interests for a manifest that is being prepared.
const PREPARATION_INTERVAL: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(2)];
/// Number of estimates in a row that are no shorter than an earlier one, after which the wait ends.
const STALLED_ESTIMATES_MAX: u32 = 30;
/// Maximum number of nodes that may differ from the listed ones.
const WRONG_NODES_MAX: u32 = 256;

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
    /// A node differs from the listed one.
    #[error("node {node} of the manifest {name} is not the one that the manifest lists")]
    Node {
        /// Name of the manifest.
        name: String,
        /// Number of the node.
        node: u64,
    },
    /// A node cannot be fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
}

/// A verified manifest: the digest of every segment of a version.
#[derive(Debug)]
pub struct Manifest {
    name: Name,
    size: u64,
    segment_size: u64,
    digests: Vec<Sha256Digest>,
    /// The verification of the root.
    signer: Verification,
}

impl Manifest {
    /// Name of the object with its version.
    #[must_use]
    pub fn object(&self) -> &Name {
        &self.name
    }

    /// Length of the object in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Content bytes of each segment but the last.
    #[must_use]
    pub fn segment_size(&self) -> u64 {
        self.segment_size
    }

    /// Number of segments.
    #[must_use]
    pub fn segments(&self) -> u64 {
        u64::try_from(self.digests.len()).unwrap_or(u64::MAX)
    }

    /// The object, to be fetched with [`Self::verification`]: it ends where the manifest says.
    #[must_use]
    pub fn to_found(&self) -> FoundObject {
        FoundObject::known(self.name.clone(), self.segments().saturating_sub(1))
    }

    /// Verification of the object's segments.
    #[must_use]
    pub fn verification(self: &Arc<Self>) -> Verification {
        Verification::Packets(Arc::<Self>::clone(self))
    }
}

impl PacketVerifier for Manifest {
    fn check_digest(&self, data: &Data<'_>, digest: &Sha256Digest) -> Result<(), VerifyError> {
        // The digest covers the name, too; the number is only the index.
        let segment = data.name().last().and_then(|last| last.as_segment());
        let listed = segment.and_then(|segment| self.digests.get(usize::try_from(segment).ok()?));
        match listed {
            Some(listed) if listed == digest => Ok(()),
            _ => Err(VerifyError::NotListed),
        }
    }

    fn expected(&self, segment: u64) -> Option<Sha256Digest> {
        self.digests.get(usize::try_from(segment).ok()?).copied()
    }

    fn check_nack(&self, nack: &Data<'_>) -> Result<(), VerifyError> {
        // A key that may sign the manifest may also state that its object is gone.
        self.signer.check(nack)
    }
}

/// Digests listed by the nodes: those of the nodes from 1 on, and then those of the segments. They
/// become known node by node, in order, while later nodes arrive already.
struct Nodes {
    listed: Mutex<Vec<Sha256Digest>>,
    /// Digests of nodes that arrived before the nodes that list them; `None` where several arrived,
    /// and it is unknown whose content was kept.
    early: Mutex<HashMap<u64, Option<Sha256Digest>>>,
    /// Number of nodes.
    nodes: u64,
    /// The verification that Nacks must pass.
    signer: Verification,
}

impl Nodes {
    fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        // No invariant spans a panic.
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listed(&self, node: u64) -> Option<Sha256Digest> {
        let index = usize::try_from(node.checked_sub(1)?).ok()?;
        let is_node = node < self.nodes;
        Self::lock(&self.listed).get(index).copied().filter(|_| is_node)
    }

    /// Appends the digests of the next node.
    fn extend(&self, digests: &[Sha256Digest]) {
        Self::lock(&self.listed).extend_from_slice(digests);
    }

    /// Whether a node accepted early is the listed one, now that all before it are known.
    fn is_right(&self, node: u64) -> bool {
        let early = Self::lock(&self.early).remove(&node);
        early.is_none_or(|early| early.is_some() && early == self.listed(node))
    }
}

impl PacketVerifier for Nodes {
    fn check_digest(&self, data: &Data<'_>, digest: &Sha256Digest) -> Result<(), VerifyError> {
        let digest = *digest;
        let node = data.name().last().and_then(|last| last.as_segment());
        let node = node.ok_or(VerifyError::NotListed)?;
        match self.listed(node) {
            Some(listed) if listed == digest => Ok(()),
            None if (1..self.nodes).contains(&node) => {
                let mut early = Self::lock(&self.early);
                let known = early.entry(node).or_insert(Some(digest));
                if *known != Some(digest) {
                    *known = None;
                }
                Ok(())
            }
            Some(_) | None => Err(VerifyError::NotListed),
        }
    }

    fn expected(&self, node: u64) -> Option<Sha256Digest> {
        self.listed(node)
    }

    fn check_nack(&self, nack: &Data<'_>) -> Result<(), VerifyError> {
        self.signer.check(nack)
    }
}

/// Fetches and verifies the manifest of an object; `None` if its metadata names none. `options`
/// determine how, and the key of the root. While the server prepares the manifest, `waiting` is called
/// with the time that it estimates, every two seconds at least.
///
/// # Errors
/// All of [`ManifestError`].
pub async fn fetch_manifest(
    endpoint: &Endpoint,
    found: &FoundObject,
    options: &FetchOptions,
    waiting: impl FnMut(Duration),
) -> Result<Option<Arc<Manifest>>, ManifestError> {
    match find_manifest(endpoint, found, options, waiting).await? {
        Some(root) => Ok(Some(root.fetch(endpoint, options).await?)),
        None => Ok(None),
    }
}

/// The root of a manifest, without its other nodes.
#[derive(Debug)]
pub struct ManifestRoot {
    name: Name,
    root: Root,
    tree: Tree,
}

impl ManifestRoot {
    /// Number of segments. The whole manifest takes 32 bytes for each.
    #[must_use]
    pub fn segments(&self) -> u64 {
        self.tree.segments
    }

    /// Fetches and verifies the other nodes, according to `options`.
    ///
    /// # Errors
    /// [`ManifestError::Node`] and [`ManifestError::Fetch`].
    pub async fn fetch(
        self,
        endpoint: &Endpoint,
        options: &FetchOptions,
    ) -> Result<Arc<Manifest>, ManifestError> {
        let digests = fetch_nodes(endpoint, &self.name, &self.root, &self.tree, options).await?;
        let Root { name, size, segment_size, .. } = self.root;
        let signer = options.verification.clone();
        Ok(Arc::new(Manifest { name, size, segment_size, digests, signer }))
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
    Ok(Some(ManifestRoot { name: name.clone(), root, tree }))
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

/// Fetches the other nodes; returns the digests of the segments. A node that differs from the
/// listed one is requested again, by its digest.
async fn fetch_nodes(
    endpoint: &Endpoint,
    name: &Name,
    root: &Root,
    tree: &Tree,
    options: &FetchOptions,
) -> Result<Vec<Sha256Digest>, ManifestError> {
    if tree.nodes() == 1 {
        return Ok(root.digests.clone());
    }
    let nodes = Arc::new(Nodes {
        listed: Mutex::new(root.digests.clone()),
        early: Mutex::default(),
        nodes: tree.nodes(),
        signer: options.verification.clone(),
    });
    let verification = Verification::Packets(Arc::<Nodes>::clone(&nodes));
    let fetching = FetchOptions { verification, ..options.clone() };
    let found = FoundObject::known(name.clone(), tree.nodes() - 1);
    let cache_bypass = endpoint.cache_bypass(&found, &fetching);
    let mut wrong_nodes = 0;
    let mut stream = endpoint.fetch_found(found, 1, &fetching);
    for node in 1..tree.nodes() {
        let wrong = || ManifestError::Node { name: name.to_uri(), node };
        let mut content =
            stream.next().await.map_err(|error| not_listed(error, name))?.ok_or_else(wrong)?;
        if !nodes.is_right(node) {
            wrong_nodes += 1;
            let listed = nodes.listed(node).filter(|_| wrong_nodes <= WRONG_NODES_MAX);
            let listed = listed.ok_or_else(wrong)?;
            let again = cache_bypass.fetch(node, Some(&listed)).await.map_err(|_| wrong())?;
            if sha256(again.wire()) != listed {
                return Err(wrong());
            }
            content = again.content();
        }
        let digests = digests_of(&content).ok_or_else(wrong)?;
        if u64::try_from(digests.len()) != Ok(tree.digests_of(node)) {
            return Err(wrong());
        }
        nodes.extend(&digests);
    }
    let mut listed = std::mem::take(&mut *Nodes::lock(&nodes.listed));
    let inner = usize::try_from(tree.nodes() - 1).unwrap_or(usize::MAX);
    Ok(listed.split_off(inner.min(listed.len())))
}

fn not_listed(error: FetchError, name: &Name) -> ManifestError {
    if let FetchError::Failed { failure: FetchFailure::Verification { segment, .. }, .. } = error {
        return ManifestError::Node { name: name.to_uri(), node: segment };
    }
    error.into()
}
