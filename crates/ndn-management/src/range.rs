//! Ranges of names in tables.

use std::ops::Bound;

use ndn_packet::{Name, NameRef};

/// Names with a prefix, after another one in the canonical order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NameRange {
    /// The prefix.
    pub prefix: Name,
    /// Only names after this one.
    pub after: Option<Name>,
}

impl NameRange {
    /// Where it begins in a table whose keys are the values of names.
    pub(crate) fn start(&self) -> Bound<&[u8]> {
        match &self.after {
            Some(after) if after.value() >= self.prefix.value() => Bound::Excluded(after.value()),
            Some(_) | None => Bound::Included(self.prefix.value()),
        }
    }

    /// Whether a name at its start or after it is in it. Those that are follow each other.
    pub(crate) fn has(&self, name: NameRef<'_>) -> bool {
        name.starts_with(self.prefix.as_ref())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn range_begins_after_a_name_and_ends_with_its_prefix() {
        let names = ["/", "/a", "/a/b", "/a/b/c", "/a/d", "/aa", "/b"];
        let table: BTreeSet<Name> = names.iter().map(|uri| uri.parse().unwrap()).collect();
        let found = |prefix: &str, after: Option<&str>| -> Vec<String> {
            let after = after.map(|uri| uri.parse().unwrap());
            let range = NameRange { prefix: prefix.parse().unwrap(), after };
            let found = table.range::<[u8], _>((range.start(), Bound::Unbounded));
            let found = found.take_while(|name| range.has(name.as_ref()));
            found.map(|name| name.to_string()).collect()
        };
        assert_eq!(found("/a", None), ["/a", "/a/b", "/a/b/c", "/a/d"]);
        assert_eq!(found("/a", Some("/a/b")), ["/a/b/c", "/a/d"]);
        // A name that is not in the table any more.
        assert_eq!(found("/a", Some("/a/c")), ["/a/d"]);
        assert_eq!(found("/a", Some("/")), ["/a", "/a/b", "/a/b/c", "/a/d"]);
        assert_eq!(found("/a", Some("/b")), Vec::<String>::new());
        assert_eq!(found("/", None).len(), table.len());
        assert_eq!(found("/", Some("/b")), ["/aa"]);
    }
}
