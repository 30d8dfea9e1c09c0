//! Lookup keys: a packet's name and the hashes computed when the packet was parsed.

use ndn_packet::NameRef;

use crate::name_hash::{DIGEST_COMPONENT_LENGTH, component_end};

/// Lookup key of an Interest: its name with the prefix hashes, and its selectors.
///
/// The Content Store looks up a name that ends in an implicit digest without the digest, because
/// Data is indexed by its name. The PIT uses the name as it stands.
#[derive(Clone, Copy, Debug)]
pub struct InterestKey<'a> {
    pub(crate) name: NameRef<'a>,
    pub(crate) hashes: &'a [u64],
    pub(crate) can_be_prefix: bool,
    pub(crate) must_be_fresh: bool,
    /// The value ends in an ImplicitSha256Digest component.
    pub(crate) has_digest: bool,
}

impl<'a> InterestKey<'a> {
    /// The key of an Interest; `hashes` are what `NameHasher::hash_prefixes` wrote for `name`
    /// (one more than the name has components).
    #[must_use]
    #[inline]
    pub fn new(
        name: NameRef<'a>,
        hashes: &'a [u64],
        can_be_prefix: bool,
        must_be_fresh: bool,
    ) -> Self {
        let has_digest = ends_in_digest(name.value());
        Self::with_digest(name, hashes, can_be_prefix, must_be_fresh, has_digest)
    }

    /// [`Self::new`] for a caller that knows whether the name ends in an ImplicitSha256Digest
    /// component.
    #[must_use]
    #[inline]
    pub fn with_digest(
        name: NameRef<'a>,
        hashes: &'a [u64],
        can_be_prefix: bool,
        must_be_fresh: bool,
        has_digest: bool,
    ) -> Self {
        debug_assert_eq!(hashes.len(), name.len() + 1);
        debug_assert_eq!(has_digest, ends_in_digest(name.value()));
        Self { name, hashes, can_be_prefix, must_be_fresh, has_digest }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> NameRef<'a> {
        self.name
    }

    /// Hashes of the prefixes of the name, the empty one first.
    #[must_use]
    #[inline]
    pub fn hashes(&self) -> &'a [u64] {
        self.hashes
    }

    /// Hash of the whole name: the key of the PIT and of the dead nonce list.
    #[must_use]
    #[inline]
    pub fn name_hash(&self) -> u64 {
        self.hashes[self.hashes.len() - 1]
    }

    /// Number of components, without a trailing implicit digest.
    #[inline]
    pub(crate) fn depth(&self) -> usize {
        self.hashes.len() - 1 - usize::from(self.has_digest)
    }

    /// Hash of the name without a trailing implicit digest: the key in the Content Store.
    #[inline]
    pub(crate) fn data_hash(&self) -> u64 {
        self.hashes[self.depth()]
    }

    /// Value of the name without a trailing implicit digest.
    #[inline]
    pub(crate) fn data_name(&self) -> &'a [u8] {
        let value = self.name.value();
        if self.has_digest { &value[..value.len() - DIGEST_COMPONENT_LENGTH] } else { value }
    }

    /// The implicit digest at the end of the name.
    #[inline]
    pub(crate) fn digest(&self) -> Option<&'a [u8]> {
        let value = self.name.value();
        self.has_digest.then(|| &value[value.len() - 32..])
    }
}

/// Lookup key of a Data: its name with the prefix hashes.
#[derive(Clone, Copy, Debug)]
pub struct DataKey<'a> {
    pub(crate) name: NameRef<'a>,
    pub(crate) hashes: &'a [u64],
}

impl<'a> DataKey<'a> {
    /// The key of a Data; `hashes` are what `NameHasher::hash_prefixes` wrote for `name`.
    #[must_use]
    #[inline]
    pub fn new(name: NameRef<'a>, hashes: &'a [u64]) -> Self {
        debug_assert_eq!(hashes.len(), name.len() + 1);
        Self { name, hashes }
    }

    /// Hashes of the prefixes of the name, the empty one first.
    #[must_use]
    #[inline]
    pub fn hashes(&self) -> &'a [u64] {
        self.hashes
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> NameRef<'a> {
        self.name
    }

    /// Hash of the whole name.
    #[must_use]
    #[inline]
    pub fn name_hash(&self) -> u64 {
        self.hashes[self.hashes.len() - 1]
    }
}

/// Whether the last component of a valid name is an ImplicitSha256Digest.
#[inline]
fn ends_in_digest(value: &[u8]) -> bool {
    let Some(start) = value.len().checked_sub(DIGEST_COMPONENT_LENGTH) else { return false };
    // Almost every name fails on these two bytes. They may also lie inside a longer component, so
    // the few names that have them are walked.
    value[start] == 1 && value[start + 1] == 32 && is_component_start(value, start)
}

#[cold]
fn is_component_start(value: &[u8], requested: usize) -> bool {
    let mut start = 0;
    while start < requested {
        match component_end(value, start) {
            Some(end) => start = end,
            None => return false,
        }
    }
    start == requested
}
