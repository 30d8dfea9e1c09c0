//! The digests of a manifest, fetched as they are needed: the nodes on the way from the root to the segments that are
//! checked, and further ones ahead of a reader that goes on in order.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use ndn_client::Endpoint;
use ndn_client::fetch::{
    FetchError, FetchFailure, FetchOptions, FoundObject, Loading, PacketVerifier, Verification,
};
use ndn_packet::{Data, Name};
use ndn_security::{Sha256Digest, VerifyError};
use tokio::sync::Notify;

use super::root::{Root, digests_of};
use super::tree::Tree;

/// Maximum number of leaves fetched ahead of a reader: half a gigabyte of segments of 8,192 bytes.
const AHEAD_MAX: u64 = 256;
/// The same for signed leaves, for each of which the server reads and hashes its segments.
const AHEAD_SIGNED_MAX: u64 = 8;

/// Leaves before those needed last that a reader in order may still need, because packets arrive in any order.
const REORDERED_MAX: u64 = 16;

/// Source of the leaves.
#[derive(Debug)]
pub(super) enum Source {
    /// Nodes of the manifest of this name, each listed by the one above.
    Nodes(Name),
    /// Leaves of this name, each signed.
    SignedLeaves(Name),
}

impl Source {
    fn name(&self) -> &Name {
        match self {
            Self::Nodes(name) | Self::SignedLeaves(name) => name,
        }
    }

    fn ahead_max(&self) -> u64 {
        match self {
            Self::Nodes(_) => AHEAD_MAX,
            Self::SignedLeaves(_) => AHEAD_SIGNED_MAX,
        }
    }
}

/// Digests of the segments of one object. Nothing that was fetched is removed.
pub(super) struct Digests {
    /// Values of the root, also where there is none: then without digests.
    root: Root,
    tree: Tree,
    source: Source,
    endpoint: Endpoint,
    /// With the verification of root, signed leaves and Nacks.
    options: FetchOptions,
    /// Digests that nodes list, by the numbers of the nodes.
    nodes: RwLock<HashMap<u64, Arc<[Sha256Digest]>>>,
    reading: Mutex<Reading>,
    /// A fetch of leaves has ended.
    ended: Notify,
}

/// Leaves that are being fetched, and the order in which they were needed.
#[derive(Debug, Default)]
struct Reading {
    fetching: Vec<RangeInclusive<u64>>,
    /// The leaf after those needed last.
    next: u64,
    /// Leaves to fetch ahead.
    ahead: u64,
}

impl Digests {
    /// `root` has the digests of the root, or none with signed leaves.
    pub(super) fn new(
        root: Root,
        tree: Tree,
        source: Source,
        endpoint: Endpoint,
        options: FetchOptions,
    ) -> Self {
        let mut nodes = HashMap::new();
        if !root.digests.is_empty() {
            nodes.insert(0, Arc::from(root.digests.as_slice()));
        }
        let (nodes, reading) = (RwLock::new(nodes), Mutex::default());
        Self { root, tree, source, endpoint, options, nodes, reading, ended: Notify::new() }
    }

    pub(super) fn root(&self) -> &Root {
        &self.root
    }

    pub(super) fn segments(&self) -> u64 {
        self.tree.segments
    }

    /// The verification of root, signed leaves and Nacks.
    pub(super) fn signer(&self) -> &Verification {
        &self.options.verification
    }

    /// The digest of a segment, if its leaf was fetched.
    pub(super) fn of_segment(&self, segment: u64) -> Option<Sha256Digest> {
        let (leaf, index) = (segment / self.tree.fanout, segment % self.tree.fanout);
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        let listed = nodes.get(&self.tree.leaf_node(leaf))?;
        listed.get(usize::try_from(index).ok()?).copied()
    }

    #[cfg(test)]
    pub(super) fn known_nodes(&self) -> usize {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn has(&self, node: u64) -> bool {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner).contains_key(&node)
    }

    fn reading(&self) -> MutexGuard<'_, Reading> {
        // No invariant spans a panic.
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// First and last missing leaf of a range.
    fn missing(&self, leaves: &RangeInclusive<u64>) -> Option<RangeInclusive<u64>> {
        let is_missing = |leaf: &u64| !self.has(self.tree.leaf_node(*leaf));
        let first = leaves.clone().find(is_missing)?;
        let last = (first..=*leaves.end()).rev().find(is_missing)?;
        Some(first..=last)
    }

    /// Fetches the leaves of these segments that are missing; `None` if none is. Begins to fetch further ones if the
    /// segments follow those of the last call.
    pub(super) fn load(self: &Arc<Self>, segments: &RangeInclusive<u64>) -> Option<Loading> {
        let last = (*segments.end()).min(self.tree.segments - 1);
        let first = (*segments.start()).min(last);
        let leaves = first / self.tree.fanout..=last / self.tree.fanout;
        self.read_ahead(&leaves);
        let missing = self.missing(&leaves)?;
        let digests = Arc::clone(self);
        Some(Box::pin(async move { digests.fetch(missing).await }))
    }

    /// Fetches leaves behind `leaves` in a task of its own, before the reader is half way through those it has.
    fn read_ahead(self: &Arc<Self>, leaves: &RangeInclusive<u64>) {
        let mut reading = self.reading();
        let next = leaves.end() + 1;
        if (next..=next + REORDERED_MAX).contains(&reading.next) {
            return;
        }
        // The first call is for any position.
        let follows =
            reading.next > 0 && (reading.next - 1..=reading.next).contains(leaves.start());
        reading.ahead =
            if follows { (reading.ahead * 2).clamp(1, self.source.ahead_max()) } else { 0 };
        reading.next = next;
        if reading.ahead == 0 || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let leaf_last = self.tree.leaves() - 1;
        let half = next..=(next + reading.ahead / 2).min(leaf_last);
        let is_coming = |leaf: u64| reading.fetching.iter().any(|range| range.contains(&leaf));
        let is_near = |leaf: u64| self.has(self.tree.leaf_node(leaf)) || is_coming(leaf);
        if next > leaf_last || half.clone().all(is_near) {
            return;
        }
        let behind = next..=(next + reading.ahead - 1).min(leaf_last);
        drop(reading);
        let digests = Arc::clone(self);
        tokio::spawn(async move {
            if let Some(missing) = digests.missing(&behind) {
                // The reader fetches them itself, and reports why it cannot.
                let _ = digests.fetch(missing).await;
            }
        });
    }

    /// Fetches leaves, unless that is being done already: then waits for it.
    async fn fetch(&self, leaves: RangeInclusive<u64>) -> Result<(), FetchError> {
        let mut left = leaves;
        loop {
            let ended = self.ended.notified();
            let Some(missing) = self.missing(&left) else { return Ok(()) };
            let turn = self.begin(missing);
            match turn {
                Some(turn) => {
                    self.fetch_leaves(turn.leaves.clone()).await?;
                    left = turn.leaves.end() + 1..=*left.end();
                }
                None => ended.await,
            }
        }
    }

    /// Registers the fetch of the first of these leaves that nobody fetches; `None` if the first is being fetched.
    fn begin(&self, missing: RangeInclusive<u64>) -> Option<Turn<'_>> {
        let mut reading = self.reading();
        let (first, mut last) = missing.into_inner();
        for other in &reading.fetching {
            if other.contains(&first) {
                return None;
            }
            if *other.start() > first {
                last = last.min(other.start() - 1);
            }
        }
        reading.fetching.push(first..=last);
        Some(Turn { digests: self, leaves: first..=last })
    }

    /// Fetches and verifies leaves, and the nodes above them that are missing, level by level from the top.
    async fn fetch_leaves(&self, leaves: RangeInclusive<u64>) -> Result<(), FetchError> {
        if let Source::SignedLeaves(name) = &self.source {
            return self.fetch_signed(name, leaves).await;
        }
        let mut ranges = vec![leaves];
        for _ in 1..self.tree.levels.len() {
            let below = &ranges[ranges.len() - 1];
            let fanout = self.tree.fanout;
            ranges.push(below.start() / fanout..=below.end() / fanout);
        }
        for (level, range) in ranges.into_iter().enumerate().take(self.tree.levels.len()).rev() {
            let first_node = self.tree.first_of(level);
            let nodes = first_node + range.start()..=first_node + range.end();
            let mut missing = nodes.filter(|node| !self.has(*node));
            if let Some(first) = missing.next() {
                self.fetch_nodes(first..=missing.last().unwrap_or(first)).await?;
            }
        }
        Ok(())
    }

    /// Fetches nodes of one level; those above them are known.
    async fn fetch_nodes(&self, nodes: RangeInclusive<u64>) -> Result<(), FetchError> {
        let (first, last) = nodes.into_inner();
        let listed = (first..=last).map(|node| self.listed(node)).collect::<Option<Vec<_>>>();
        let listed = listed.ok_or_else(|| self.wrong(first))?;
        let verifier = ListedNodes { first, listed, signer: self.options.verification.clone() };
        let verification = Verification::Packets(Arc::new(verifier));
        let found = FoundObject::known(self.source.name().clone(), self.tree.nodes() - 1);
        self.fetch_contents(found, first..=last, verification, |node, content| {
            self.insert(node, digests_of(content))
        })
        .await
    }

    /// Fetches signed leaves.
    async fn fetch_signed(
        &self,
        name: &Name,
        leaves: RangeInclusive<u64>,
    ) -> Result<(), FetchError> {
        let found = FoundObject::known(name.clone(), self.tree.leaves() - 1);
        let verification = self.options.verification.clone();
        if matches!(verification, Verification::Trust(_)) {
            // Fetches the certificates; the leaf is in caches then.
            self.endpoint.fetch_segment(&found, *leaves.start(), &self.options).await?;
        }
        self.fetch_contents(found, leaves, verification, |leaf, content| {
            let stated = Root::read(content).ok().map(|(stated, _)| stated);
            let digests = stated.and_then(|stated| {
                let same = Root { digests: Vec::new(), ..stated.clone() } == self.root;
                same.then_some(stated.digests)
            });
            self.insert(self.tree.leaf_node(leaf), digests)
        })
        .await
    }

    /// Fetches segments of a manifest; passes the number and content of each to `keep`, which refuses it by returning
    /// false.
    async fn fetch_contents(
        &self,
        found: FoundObject,
        numbers: RangeInclusive<u64>,
        verification: Verification,
        keep: impl Fn(u64, &[u8]) -> bool,
    ) -> Result<(), FetchError> {
        let mut options = FetchOptions { verification, ..self.options.clone() };
        options.config.last_segment_needed = Some(*numbers.end());
        let mut stream = self.endpoint.fetch_found(found, *numbers.start(), &options);
        for number in numbers {
            let content = stream.next().await?.ok_or_else(|| self.wrong(number))?;
            if !keep(number, &content) {
                return Err(self.wrong(number));
            }
        }
        Ok(())
    }

    /// Keeps the digests that a node lists; false if their number is wrong.
    fn insert(&self, node: u64, digests: Option<Vec<Sha256Digest>>) -> bool {
        let count = self.tree.digests_of(node);
        let right = digests.filter(|digests| u64::try_from(digests.len()) == Ok(count));
        let Some(right) = right else { return false };
        let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        nodes.insert(node, Arc::from(right));
        true
    }

    /// The digest of a node according to the one above it.
    fn listed(&self, node: u64) -> Option<Sha256Digest> {
        let (parent, index) = self.tree.parent_of(node)?;
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        nodes.get(&parent)?.get(usize::try_from(index).ok()?).copied()
    }

    fn wrong(&self, number: u64) -> FetchError {
        let reason = VerifyError::NotListed.to_string();
        let failure = FetchFailure::Verification { segment: number, reason };
        FetchError::Failed { name: self.source.name().to_uri(), failure }
    }
}

impl std::fmt::Debug for Digests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Digests").field("source", &self.source).finish_non_exhaustive()
    }
}

/// Leaves being fetched; ends when dropped.
struct Turn<'a> {
    digests: &'a Digests,
    leaves: RangeInclusive<u64>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut reading = self.digests.reading();
        if let Some(at) = reading.fetching.iter().position(|range| *range == self.leaves) {
            reading.fetching.swap_remove(at);
        }
        drop(reading);
        self.digests.ended.notify_waiters();
    }
}

/// Verifies nodes that the level above lists.
struct ListedNodes {
    first: u64,
    listed: Vec<Sha256Digest>,
    signer: Verification,
}

impl PacketVerifier for ListedNodes {
    fn check_digest(&self, data: &Data<'_>, digest: &Sha256Digest) -> Result<(), VerifyError> {
        let node = data.name().last().and_then(|last| last.as_segment());
        match node.and_then(|node| self.expected(node)) {
            Some(listed) if listed == *digest => Ok(()),
            _ => Err(VerifyError::NotListed),
        }
    }

    fn expected(&self, node: u64) -> Option<Sha256Digest> {
        let index = usize::try_from(node.checked_sub(self.first)?).ok()?;
        self.listed.get(index).copied()
    }

    fn check_nack(&self, nack: &Data<'_>) -> Result<(), VerifyError> {
        self.signer.check(nack)
    }
}
