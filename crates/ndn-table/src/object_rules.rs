//! [`ObjectRules`]: the objects that names belong to.

use ndn_packet::NameRef;

use crate::{NameHasher, PREFIX_HASHES_MAX};

/// Maximum number of rules: each name is compared with all.
pub const OBJECT_RULES_MAX: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rule {
    prefix_len: usize,
    prefix_hash: u64,
    object_len: usize,
}

/// Rules that map names to objects: the object of a name under a prefix is the name with some number of components after
/// the prefix. The longest prefix decides. Without a rule, the object is the name without a segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectRules {
    /// The longest prefix first.
    rules: Vec<Rule>,
}

impl ObjectRules {
    /// Rules: prefixes and numbers of components. Those beyond [`OBJECT_RULES_MAX`], and prefixes that are too long for any
    /// packet, are left out.
    #[must_use]
    pub fn new<'a>(
        rules: impl IntoIterator<Item = (NameRef<'a>, usize)>,
        hasher: NameHasher,
    ) -> Self {
        let mut hashes = [0; PREFIX_HASHES_MAX];
        let rules = rules.into_iter().filter_map(|(prefix, components)| {
            let count = hasher.hash_prefixes(prefix, &mut hashes)?;
            let (prefix_len, prefix_hash) = (count - 1, hashes[count - 1]);
            Some(Rule { prefix_len, prefix_hash, object_len: prefix_len + components })
        });
        let mut rules: Vec<Rule> = rules.take(OBJECT_RULES_MAX).collect();
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.prefix_len));
        Self { rules }
    }

    /// Number of components of the object's name, if there is a rule for it. `hashes` are those of the prefixes of a name,
    /// the empty one first.
    #[must_use]
    pub fn find(&self, hashes: &[u64]) -> Option<usize> {
        let mut rules = self.rules.iter();
        let rule = rules.find(|rule| hashes.get(rule.prefix_len) == Some(&rule.prefix_hash))?;
        Some(rule.object_len.min(hashes.len() - 1))
    }

    /// Number of components of the name of the object that a name belongs to.
    #[must_use]
    pub fn object_len(&self, name: NameRef<'_>, hashes: &[u64]) -> usize {
        let is_segment = || name.last().is_some_and(|last| last.as_segment().is_some());
        self.find(hashes).unwrap_or_else(|| name.len() - usize::from(is_segment()))
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
        let of = prefixes.iter().zip([1, 2, 0]).map(|(prefix, count)| (prefix.as_ref(), count));
        let rules = ObjectRules::new(of, hasher);
        let object = |name: &Name| {
            let mut hashes = [0; PREFIX_HASHES_MAX];
            let count = hasher.hash_prefixes(name.as_ref(), &mut hashes).unwrap();
            let len = rules.object_len(name.as_ref(), &hashes[..count]);
            name.as_ref().prefix(len).to_uri()
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
}
