//! [`ObjectRules`]: the objects that names belong to.

use std::num::{NonZeroU32, NonZeroU64};

use ndn_packet::NameRef;
use ndn_types::random::mix;

use crate::{NameHasher, PREFIX_HASHES_MAX};

/// Maximum number of rules: each name is compared with all.
pub const OBJECT_RULES_MAX: usize = 64;

/// The objects of the names under a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectDivision {
    /// The name with this number of components after the prefix is the object.
    Components(usize),
    /// Of names that end in a segment, the block of this number of segments is the object. Its name is that of its first
    /// segment.
    Blocks(NonZeroU32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rule {
    prefix_len: usize,
    prefix_hash: u64,
    division: ObjectDivision,
}

/// A block of segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentBlock {
    /// Number of its first segment.
    pub first: u64,
    /// Its number of segments, except of the last block.
    pub segments: NonZeroU64,
}

/// The object that a name belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedObject {
    /// Number of components that the name has in common with the object's; of a block, all but the segment.
    pub len: usize,
    /// The block, if the object is one.
    pub block: Option<SegmentBlock>,
}

impl NamedObject {
    /// The key of the object, by the hashes of the prefixes of the name.
    ///
    /// # Panics
    /// If `hashes` are fewer than those of the name.
    #[must_use]
    pub fn key(&self, hashes: &[u64]) -> u64 {
        let hash = hashes[self.len];
        self.block.map_or(hash, |block| mix(hash ^ mix(block.first)))
    }

    /// Number of the first segment.
    #[must_use]
    pub fn first_segment(&self) -> u64 {
        self.block.map_or(0, |block| block.first)
    }
}

/// Rules that map names to objects: the object of a name under a prefix is the name with some number of components after
/// the prefix, or the block of segments. The longest prefix decides. Without a rule, the object is the name without a segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectRules {
    /// The longest prefix first.
    rules: Vec<Rule>,
    has_blocks: bool,
}

impl ObjectRules {
    /// Rules: prefixes and what they make of names. Those beyond [`OBJECT_RULES_MAX`], and prefixes that are too long for
    /// any packet, are left out.
    #[must_use]
    pub fn new<'a>(
        rules: impl IntoIterator<Item = (NameRef<'a>, ObjectDivision)>,
        hasher: NameHasher,
    ) -> Self {
        let mut hashes = [0; PREFIX_HASHES_MAX];
        let rules = rules.into_iter().filter_map(|(prefix, division)| {
            let count = hasher.hash_prefixes(prefix, &mut hashes)?;
            let (prefix_len, prefix_hash) = (count - 1, hashes[count - 1]);
            Some(Rule { prefix_len, prefix_hash, division })
        });
        let mut rules: Vec<Rule> = rules.take(OBJECT_RULES_MAX).collect();
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.prefix_len));
        let is_of_blocks = |rule: &Rule| matches!(rule.division, ObjectDivision::Blocks(_));
        let has_blocks = rules.iter().any(is_of_blocks);
        Self { rules, has_blocks }
    }

    /// Whether the objects of some names are blocks.
    #[inline]
    #[must_use]
    pub fn has_blocks(&self) -> bool {
        self.has_blocks
    }

    /// The object that a name belongs to, if there is a rule for it. `hashes` are those of the prefixes of the name, the
    /// empty one first; `segment` returns the number of its last component, if that is a segment.
    #[must_use]
    pub fn find(
        &self,
        hashes: &[u64],
        segment: impl FnOnce() -> Option<u64>,
    ) -> Option<NamedObject> {
        let mut rules = self.rules.iter();
        let rule = rules.find(|rule| hashes.get(rule.prefix_len) == Some(&rule.prefix_hash))?;
        let whole = hashes.len() - 1;
        match rule.division {
            ObjectDivision::Components(components) => {
                Some(NamedObject { len: whole.min(rule.prefix_len + components), block: None })
            }
            ObjectDivision::Blocks(segments) => {
                let (segment, segments) = (segment()?, NonZeroU64::from(segments));
                let block = SegmentBlock { first: segment - segment % segments, segments };
                Some(NamedObject { len: whole.saturating_sub(1), block: Some(block) })
            }
        }
    }

    /// The object that a name belongs to.
    #[must_use]
    pub fn object(&self, name: NameRef<'_>, hashes: &[u64]) -> NamedObject {
        self.find(hashes, || name.segment()).unwrap_or_else(|| {
            let len = name.len() - usize::from(name.segment().is_some());
            NamedObject { len, block: None }
        })
    }

    /// The key of the object that has this name.
    #[must_use]
    pub fn object_key(&self, name: NameRef<'_>, hasher: NameHasher) -> Option<u64> {
        let mut hashes = [0; PREFIX_HASHES_MAX];
        let count = hasher.hash_prefixes(name, &mut hashes)?;
        let (hashes, segment) = (&hashes[..count], name.segment());
        let found = self.find(hashes, || segment);
        let block = found.filter(|object| object.block.is_some_and(|b| Some(b.first) == segment));
        block.map_or_else(|| hashes.last().copied(), |block| Some(block.key(hashes)))
    }
}

#[cfg(test)]
mod tests {
    use ndn_packet::Name;

    use super::*;

    #[test]
    fn longest_prefix_decides_and_names_without_a_rule_end_before_the_segment() {
        let hasher = NameHasher::new(*b"key of the tests");
        let name = |uri: &str| Name::from_uri(uri).unwrap();
        let prefixes = [name("/data"), name("/data/cms"), name("/logs")];
        let of = prefixes.iter().zip([1, 2, 0].map(ObjectDivision::Components));
        let rules = ObjectRules::new(of.map(|(prefix, of)| (prefix.as_ref(), of)), hasher);
        let object = |name: &Name| {
            let mut hashes = [0; PREFIX_HASHES_MAX];
            let count = hasher.hash_prefixes(name.as_ref(), &mut hashes).unwrap();
            let object = rules.object(name.as_ref(), &hashes[..count]);
            assert_eq!((object.block, object.key(&hashes[..count])), (None, hashes[object.len]));
            name.as_ref().prefix(object.len).to_uri()
        };
        for (uri, expected) in [
            ("/data/a/b/c", "/data/a"),
            ("/data", "/data"),
            ("/data/cms/x/y/z", "/data/cms/x/y"),
            ("/data/cms/x", "/data/cms/x"),
            ("/logs/1/2", "/logs"),
            ("/a/b", "/a/b"),
            ("/", "/"),
        ] {
            assert_eq!(object(&name(uri)), expected);
        }
        let mut segment = name("/a/b");
        segment.push_segment(7);
        assert_eq!(object(&segment), "/a/b");
        let mut segment = name("/data/a/b");
        segment.push_segment(7);
        assert_eq!(object(&segment), "/data/a");
    }

    #[test]
    fn segments_of_a_block_have_its_key() {
        let hasher = NameHasher::new(*b"key of the tests");
        let name = |uri: &str| Name::from_uri(uri).unwrap();
        let blocks = ObjectDivision::Blocks(NonZeroU32::new(4).unwrap());
        let prefixes =
            [(name("/files"), blocks), (name("/files/whole"), ObjectDivision::Components(1))];
        let of = prefixes.iter().map(|(prefix, of)| (prefix.as_ref(), *of));
        let rules = ObjectRules::new(of, hasher);
        assert!(rules.has_blocks() && !ObjectRules::default().has_blocks());
        let find = |uri: &str, segment: Option<u64>| {
            let mut name = name(uri);
            segment.into_iter().for_each(|number| _ = name.push_segment(number));
            let mut hashes = [0; PREFIX_HASHES_MAX];
            let count = hasher.hash_prefixes(name.as_ref(), &mut hashes).unwrap();
            let object = rules.object(name.as_ref(), &hashes[..count]);
            (object.key(&hashes[..count]), object, name)
        };
        let (key, object, first) = find("/files/a/v=1", Some(8));
        assert_eq!((object.len, object.first_segment()), (3, 8));
        assert_eq!(rules.object_key(first.as_ref(), hasher), Some(key), "its name has its key");
        for segment in 8..12 {
            assert_eq!(find("/files/a/v=1", Some(segment)).0, key);
        }
        let others = [("/files/a/v=1", 7), ("/files/a/v=1", 12), ("/files/a/v=2", 8)];
        for (uri, segment) in others {
            assert_ne!(find(uri, Some(segment)).0, key, "{uri} {segment}");
        }
        // The name of no block, and names without a segment, are objects of their own.
        let (_, _, inside) = find("/files/a/v=1", Some(9));
        let (plain, object, whole) = find("/files/a/32=metadata", None);
        assert_eq!((object.len, object.block), (3, None));
        assert_eq!(rules.object_key(whole.as_ref(), hasher), Some(plain));
        assert_eq!(
            rules.object_key(inside.as_ref(), hasher),
            Some(hasher.hash_value(inside.as_ref().value()))
        );
        let (_, object, _) = find("/files/whole/b/v=1", Some(9));
        assert_eq!((object.len, object.block), (3, None));
    }
}
