//! Nodes as packets, stored in memory or rebuilt from digests on disk.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use ndn_packet::{ContentType, Data, DataBuilder, EncodeError, Name};
use ndn_security::{DigestSigner, SHA256_LEN, Sha256Digest, SignError, Signer, sha256, sign_data};

use super::disk::DirectoryFailure;
use super::root::{Root, digests_of};
use super::tree::Tree;
use crate::packet::Layout;

/// Why a manifest cannot be built.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildFailure {
    #[error("reading: {0}")]
    Read(#[from] io::Error),
    #[error(transparent)]
    Directory(#[from] DirectoryFailure),
    #[error("signing: {0}")]
    Sign(#[from] SignError),
    #[error("the file has changed")]
    Changed,
    /// Too many segments, or a name that leaves no room for two digests in a packet.
    #[error("the file is too large for a manifest, or its name too long")]
    TooLarge,
}

impl From<EncodeError> for BuildFailure {
    fn from(error: EncodeError) -> Self {
        Self::Sign(SignError::Encode(error))
    }
}

/// The common parts of the nodes of a manifest.
#[derive(Debug, Clone)]
pub(super) struct NodeForm {
    pub(super) name: Name,
    pub(super) freshness_ms: u64,
    pub(super) tree: Tree,
}

impl NodeForm {
    pub(super) fn packet(
        &self,
        number: u64,
        content: &[u8],
        signer: &dyn Signer,
    ) -> Result<Vec<u8>, SignError> {
        let mut full = self.name.clone();
        full.push_segment(number);
        let data = DataBuilder::new(&full)
            .content_type(ContentType::MANIFEST)
            .freshness_ms(self.freshness_ms)
            .final_segment(self.tree.nodes() - 1)
            .content(content);
        sign_data(&data, signer)
    }

    fn fanout(&self) -> Result<usize, BuildFailure> {
        usize::try_from(self.tree.fanout).map_err(|_| BuildFailure::TooLarge)
    }

    /// Builds the nodes from `first_level` up, counted from the leaves, which list `digests`: the
    /// content of the root, and the others as packets, in the order of their numbers.
    pub(super) fn nodes_from(
        &self,
        layout: &Layout,
        first_level: usize,
        mut digests: Vec<Sha256Digest>,
    ) -> Result<(Vec<u8>, Vec<Vec<u8>>), BuildFailure> {
        let mut levels = Vec::new();
        for level in first_level..self.tree.levels.len() {
            let (mut packets, mut above) = (Vec::new(), Vec::new());
            for (number, listed) in
                (self.tree.first_of(level)..).zip(digests.chunks(self.fanout()?))
            {
                let node = self.packet(number, listed.as_flattened(), &DigestSigner)?;
                above.push(sha256(&node));
                packets.push(node);
            }
            digests = above;
            levels.push(packets);
        }
        let root = Root {
            name: layout.name.clone(),
            size: layout.size,
            segment_size: u64::try_from(layout.segment_len).map_err(|_| BuildFailure::TooLarge)?,
            fanout: self.tree.fanout,
            digests,
        };
        Ok((root.encode(), levels.into_iter().rev().flatten().collect()))
    }
}

/// Leaves of a manifest too large for memory: built on request, from the digests of the segments in
/// a file.
#[derive(Debug)]
pub(super) struct Leaves {
    form: NodeForm,
    file: File,
    /// Offset of the digests in the file.
    offset: u64,
    /// Digests of the leaves: the file is not trusted.
    digests: Vec<Sha256Digest>,
}

impl Leaves {
    /// The leaves that list the digests at `offset` of `file`; `None` for a tree without leaves.
    pub(super) fn new(form: NodeForm, file: File, offset: u64) -> Result<Self, BuildFailure> {
        let count = form.tree.levels.first().copied().ok_or(BuildFailure::TooLarge)?;
        let mut leaves = Self { form, file, offset, digests: Vec::new() };
        for index in 0..count {
            let leaf = leaves.make(index)?;
            leaves.digests.push(sha256(&leaf));
        }
        Ok(leaves)
    }

    /// Digests of the leaves, from left to right.
    pub(super) fn digests(&self) -> &[Sha256Digest] {
        &self.digests
    }

    /// The leaf of this number, if it is that of a leaf.
    ///
    /// # Errors
    /// The file cannot be read, or was changed.
    pub(super) fn packet(&self, node: u64) -> io::Result<Option<Vec<u8>>> {
        let index = node.checked_sub(self.form.tree.first_of(0));
        let listed = index.and_then(|index| self.digests.get(usize::try_from(index).ok()?));
        let Some((index, listed)) = index.zip(listed) else {
            return Ok(None);
        };
        let packet = self.make(index).map_err(|error| match error {
            BuildFailure::Read(error) => error,
            other @ (BuildFailure::Directory(_)
            | BuildFailure::Sign(_)
            | BuildFailure::Changed
            | BuildFailure::TooLarge) => io::Error::other(other),
        })?;
        if sha256(&packet) != *listed {
            let reason = "the stored digests are not those that were stored";
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        Ok(Some(packet))
    }

    fn make(&self, index: u64) -> Result<Vec<u8>, BuildFailure> {
        let tree = &self.form.tree;
        let first = index * tree.fanout;
        let count = tree.segments.saturating_sub(first).min(tree.fanout);
        let length = usize::try_from(count).map_err(|_| BuildFailure::TooLarge)? * SHA256_LEN;
        let mut content = vec![0; length];
        self.file.read_exact_at(&mut content, self.offset + first * 32)?;
        Ok(self.form.packet(tree.first_of(0) + index, &content, &DigestSigner)?)
    }
}

/// Nodes by their numbers.
#[derive(Debug)]
pub(super) struct Nodes {
    form: NodeForm,
    /// Content of the root.
    root: Vec<u8>,
    /// The root, signed on first request: a client that has its content from metadata never
    /// requests it.
    signed_root: OnceLock<Vec<u8>>,
    /// From 1 on: all, or those above the leaves.
    packets: Vec<Vec<u8>>,
    leaves: Option<Leaves>,
}

impl Nodes {
    pub(super) fn new(
        form: NodeForm,
        (root, packets): (Vec<u8>, Vec<Vec<u8>>),
        leaves: Option<Leaves>,
    ) -> Self {
        Self { form, root, signed_root: OnceLock::new(), packets, leaves }
    }

    /// Content of the root, if there are no other nodes.
    pub(super) fn only_root(&self) -> Option<&[u8]> {
        (self.form.tree.nodes() == 1).then_some(&self.root)
    }

    /// The packet of a node; the root is signed by `signer`.
    ///
    /// # Errors
    /// It cannot be rebuilt, or cannot be signed.
    pub(super) fn packet(
        &self,
        node: u64,
        signer: &dyn Signer,
    ) -> io::Result<Option<Cow<'_, [u8]>>> {
        let Some(index) = node.checked_sub(1) else {
            if let Some(root) = self.signed_root.get() {
                return Ok(Some(Cow::Borrowed(root)));
            }
            let root = self.form.packet(0, &self.root, signer).map_err(io::Error::other)?;
            return Ok(Some(Cow::Borrowed(self.signed_root.get_or_init(|| root))));
        };
        let kept = usize::try_from(index).ok().and_then(|index| self.packets.get(index));
        match (kept, &self.leaves) {
            (Some(kept), _) => Ok(Some(Cow::Borrowed(kept))),
            (None, Some(leaves)) => Ok(leaves.packet(node)?.map(Cow::Owned)),
            (None, None) => Ok(None),
        }
    }

    /// Digests of the segments that a leaf lists, if the leaf is in memory.
    pub(super) fn digests_of_leaf(&self, leaf: u64) -> Option<Vec<Sha256Digest>> {
        let tree = &self.form.tree;
        if leaf >= tree.leaves() {
            return None;
        }
        let Some(index) = tree.leaf_node(leaf).checked_sub(1) else {
            return Root::decode(&self.root).ok().map(|(root, _)| root.digests);
        };
        let packet = self.packets.get(usize::try_from(index).ok()?)?;
        digests_of(Data::parse(packet).ok()?.content()?)
    }

    /// Bytes of memory.
    pub(super) fn weight(&self) -> usize {
        let leaves = self.leaves.as_ref().map_or(0, |leaves| leaves.digests.len() * SHA256_LEN);
        // The root is stored twice, once with its signature.
        self.packets.iter().map(Vec::len).sum::<usize>() + 2 * self.root.len() + leaves
    }
}
