//! Parses the name of a request.

use ndn_packet::{Component, ComponentType, Interest, NameRef};

/// Keyword component of metadata (Realtime Data Retrieval protocol).
pub const METADATA: Component<'static> = Component::keyword(b"metadata");
/// Keyword component of directory listings.
pub const LIST: Component<'static> = Component::keyword(b"ls");

/// Keyword component of manifests.
pub const MANIFEST: Component<'static> = Component::keyword(b"manifest");

/// Keyword component of signed leaves of manifests.
pub const LEAVES: Component<'static> = Component::keyword(b"leaves");

/// Keyword component of catalogues.
pub(crate) const CATALOGUE: Component<'static> = Component::keyword(b"catalogue");

/// Maximum number of components after the path.
const SUFFIX_LEN_MAX: usize = 3;

/// The requested part of a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Requested {
    /// `32=metadata`
    Metadata,
    /// `32=ls/32=metadata`
    ListMetadata,
    /// `32=catalogue/32=metadata` where there is no catalogue, which would answer.
    MissingCatalogue,
    /// Nothing, or `v=<version>`: the first segment, as consumers without metadata discover it.
    First { version: Option<u64> },
    /// `v=<version>/seg=<segment>`
    Segment { version: u64, segment: u64 },
    /// `32=ls/v=<version>/seg=<segment>`
    ListSegment { version: u64, segment: u64 },
    /// `32=manifest/v=<version>/seg=<node>`
    Manifest { version: u64, node: u64 },
    /// `32=leaves/v=<version>/seg=<leaf>`
    Leaf { version: u64, leaf: u64 },
}

/// A parsed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Classified {
    /// Number of components of the mount and of the path.
    pub(crate) path_end: usize,
    pub(crate) requested: Requested,
}

/// Parses the name of an Interest under a mount whose prefix has `mount_len` components. `None` for
/// names outside the file service.
pub(crate) fn classify(interest: &Interest<'_>, mount_len: usize) -> Option<Classified> {
    let name = interest.name();
    // The implicit digest is left to the comparison: there is only one packet of a name here.
    let name = if name.implicit_digest().is_some() { name.parent() } else { name };
    if interest.can_be_prefix() && is_metadata_of_no_file(name, mount_len) {
        return Some(Classified { path_end: name.len() - 1, requested: Requested::Metadata });
    }
    classify_name(name, mount_len, interest.can_be_prefix())
}

/// Whether a name is that of metadata of a name with a number, such as `dir/v=1/file`, which is not that of a segment either. It is
/// answered, so that a client does not wait: files may be called `v=1`, which is another component.
fn is_metadata_of_no_file(name: NameRef<'_>, mount_len: usize) -> bool {
    let object = name.parent();
    name.last() == Some(METADATA)
        && object.suffix(mount_len).components().any(|part| part.ty().number_prefix().is_some())
        && classify_name(object, mount_len, false).is_none()
}

fn classify_name(name: NameRef<'_>, mount_len: usize, can_be_prefix: bool) -> Option<Classified> {
    let mut suffix = [Component::generic(&[]); SUFFIX_LEN_MAX];
    let mut suffix_len = 0;
    let mut path_end = mount_len;
    for component in name.components().skip(mount_len) {
        if suffix_len == 0 && component.ty() == ComponentType::GENERIC {
            path_end += 1;
            continue;
        }
        *suffix.get_mut(suffix_len)? = component;
        suffix_len += 1;
    }
    let requested = requested(&suffix[..suffix_len], can_be_prefix)?;
    Some(Classified { path_end, requested })
}

fn requested(suffix: &[Component<'_>], can_be_prefix: bool) -> Option<Requested> {
    match suffix {
        [] if can_be_prefix => Some(Requested::First { version: None }),
        [METADATA] if can_be_prefix => Some(Requested::Metadata),
        [LIST, METADATA] if can_be_prefix => Some(Requested::ListMetadata),
        [CATALOGUE, METADATA] if can_be_prefix => Some(Requested::MissingCatalogue),
        [version] if can_be_prefix => {
            Some(Requested::First { version: Some(version.as_version()?) })
        }
        [version, segment] => {
            let (version, segment) = (version.as_version()?, segment.as_segment()?);
            Some(Requested::Segment { version, segment })
        }
        [LIST, version, segment] => {
            let (version, segment) = (version.as_version()?, segment.as_segment()?);
            Some(Requested::ListSegment { version, segment })
        }
        [LEAVES, version, leaf] => {
            let (version, leaf) = (version.as_version()?, leaf.as_segment()?);
            Some(Requested::Leaf { version, leaf })
        }
        [MANIFEST, version, node] => {
            let (version, node) = (version.as_version()?, node.as_segment()?);
            Some(Requested::Manifest { version, node })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use ndn_packet::{InterestBuilder, Name};

    use super::*;

    fn classified(uri: &str, can_be_prefix: bool) -> Option<Classified> {
        let name = Name::from_uri(uri).unwrap();
        let interest = InterestBuilder::new(&name).can_be_prefix(can_be_prefix).to_vec().unwrap();
        classify(&Interest::parse(&interest).unwrap(), 1)
    }

    #[test]
    fn suffix_determines_the_request() {
        let of = |path_end, requested| Some(Classified { path_end, requested });
        assert_eq!(classified("/x/a/b/32=metadata", true), of(3, Requested::Metadata));
        assert_eq!(classified("/x/32=metadata", true), of(1, Requested::Metadata));
        assert_eq!(classified("/x/a/32=ls/32=metadata", true), of(2, Requested::ListMetadata));
        let catalogue = of(1, Requested::MissingCatalogue);
        assert_eq!(classified("/x/32=catalogue/32=metadata", true), catalogue);
        let segment = Requested::Segment { version: 7, segment: 300 };
        assert_eq!(classified("/x/a/v=7/seg=300", false), of(2, segment));
        let segment = Requested::ListSegment { version: 7, segment: 0 };
        assert_eq!(classified("/x/32=ls/v=7/seg=0", false), of(1, segment));
        let node = Requested::Manifest { version: 7, node: 9 };
        assert_eq!(classified("/x/a/32=manifest/v=7/seg=9", false), of(2, node));
        let leaf = Requested::Leaf { version: 7, leaf: 9 };
        assert_eq!(classified("/x/a/32=leaves/v=7/seg=9", false), of(2, leaf));
        assert_eq!(classified("/x/a", true), of(2, Requested::First { version: None }));
        assert_eq!(classified("/x/a/v=7", true), of(2, Requested::First { version: Some(7) }));
        // The path is refused.
        assert_eq!(classified("/x/v=7/32=metadata", true), of(2, Requested::Metadata));
        assert_eq!(classified("/x/v=7/a/b/c/32=metadata", true), of(5, Requested::Metadata));
        let full = format!("/x/a/v=7/seg=300/sha256digest={}", "07".repeat(32));
        assert_eq!(
            classified(&full, false),
            of(2, Requested::Segment { version: 7, segment: 300 })
        );
    }

    #[test]
    fn other_names_are_not_recognised() {
        for (uri, can_be_prefix) in [
            ("/x", false),
            ("/x/a", false),
            ("/x/a/seg=0", true),
            ("/x/a/32=metadata", false),
            ("/x/a/32=ls", true),
            ("/x/a/v=7", false),
            ("/x/a/seg=0/v=7", false),
            ("/x/a/32=ls/v=7", false),
            ("/x/a/32=other/v=7/seg=0", false),
            ("/x/a/32=ls/v=7/seg=0/b", false),
            ("/x/a/v=7/b/seg=0", false),
            ("/x/a/v=7/seg=0/32=metadata", true),
            ("/x/a/32=manifest/v=7/seg=0/32=metadata", true),
        ] {
            assert_eq!(classified(uri, can_be_prefix), None, "{uri}");
        }
    }
}
