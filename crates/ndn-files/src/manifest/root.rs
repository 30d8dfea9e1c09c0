//! The root of a manifest.

use ndn_packet::tlv::{Reader, append_name, append_number, append_tlv};
use ndn_packet::{Component, DecodeError, Name, NameRef, types};
use ndn_security::{SHA256_LEN, Sha256Digest};

use super::tree::Tree;
use crate::request::{LEAVES, MANIFEST};

/// Format version.
pub(super) const FORMAT: u64 = 1;

const SEGMENT_SIZE: u32 = 0xF500;
const SIZE: u32 = 0xF502;
const FORMAT_TYPE: u32 = 0xF530;
const FANOUT: u32 = 0xF532;
const DIGESTS: u32 = 0xF534;

/// Content of the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Root {
    /// Name of the object with its version.
    pub(super) name: Name,
    pub(super) size: u64,
    pub(super) segment_size: u64,
    pub(super) fanout: u64,
    pub(super) digests: Vec<Sha256Digest>,
}

/// Why a root is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum RootError {
    #[error("{0}")]
    Malformed(#[from] DecodeError),
    #[error("its format is {0}, {FORMAT} is the one that is known")]
    Format(u64),
    #[error("{0}")]
    Contradiction(&'static str),
}

impl Root {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        append_number(&mut out, FORMAT_TYPE, FORMAT);
        append_name(&mut out, self.name.as_ref());
        append_number(&mut out, SEGMENT_SIZE, self.segment_size);
        append_number(&mut out, SIZE, self.size);
        append_number(&mut out, FANOUT, self.fanout);
        append_tlv(&mut out, DIGESTS, self.digests.as_flattened());
        out
    }

    /// Parses a root: it lists as many digests as one of this size.
    pub(super) fn decode(content: &[u8]) -> Result<(Self, Tree), RootError> {
        let (root, tree) = Self::read(content)?;
        if u64::try_from(root.digests.len()) != Ok(tree.root_digests()) {
            return Err(RootError::Contradiction(
                "another number of digests than the size asks for",
            ));
        }
        Ok((root, tree))
    }

    /// Parses a root, or a signed leaf, which has the same form. The number of digests is not checked.
    pub(super) fn read(content: &[u8]) -> Result<(Self, Tree), RootError> {
        let mut reader = Reader::new(content);
        let format = reader.read_expected(FORMAT_TYPE)?.number()?;
        if format != FORMAT {
            return Err(RootError::Format(format));
        }
        let name = NameRef::from_tlv(&reader.read_expected(types::NAME)?)?.to_name();
        let segment_size = reader.read_expected(SEGMENT_SIZE)?.number()?;
        let size = reader.read_expected(SIZE)?.number()?;
        let fanout = reader.read_expected(FANOUT)?.number()?;
        let digests = reader.read_expected(DIGESTS)?;
        reader.finish()?;
        if segment_size == 0 {
            return Err(RootError::Contradiction("segments without bytes"));
        }
        let tree = Tree::new(size.div_ceil(segment_size).max(1), fanout)
            .ok_or(RootError::Contradiction("a tree that there cannot be"))?;
        let digests =
            digests_of(digests.value()).ok_or(RootError::Contradiction("a part of a digest"))?;
        Ok((Self { name, size, segment_size, fanout, digests }, tree))
    }
}

/// Concatenated digests; `None` if the last one is incomplete.
pub(super) fn digests_of(bytes: &[u8]) -> Option<Vec<Sha256Digest>> {
    let (digests, rest) = bytes.as_chunks::<SHA256_LEN>();
    rest.is_empty().then(|| digests.to_vec())
}

/// Name of the manifest of the object `versioned`.
pub(crate) fn manifest_name(versioned: &Name) -> Name {
    with_keyword(versioned, MANIFEST)
}

/// Name of the signed leaves of the object `versioned`.
pub(crate) fn leaves_name(versioned: &Name) -> Name {
    with_keyword(versioned, LEAVES)
}

fn with_keyword(versioned: &Name, keyword: Component<'_>) -> Name {
    let mut name = versioned.as_ref().parent().to_name();
    name.push(keyword);
    let last = versioned.as_ref().last();
    name.push(last.unwrap_or(Component::generic(&[])));
    name
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn example() -> Root {
        Root {
            name: Name::from_uri("/x/file/v=7").unwrap(),
            size: 20_000,
            segment_size: 8192,
            fanout: 252,
            digests: vec![[1; 32], [2; 32], [3; 32]],
        }
    }

    #[test]
    fn encoding_round_trips() {
        let (root, tree) = Root::decode(&example().encode()).unwrap();
        assert_eq!((root, tree), (example(), Tree::new(3, 252).unwrap()));
        assert_eq!(manifest_name(&example().name).to_uri(), "/x/file/32=manifest/v=7");
    }

    #[test]
    fn inconsistent_roots_are_rejected() {
        for wrong in [
            Root { size: 30_000, ..example() },
            Root { segment_size: 0, ..example() },
            Root { fanout: 1, ..example() },
            Root { digests: vec![[1; 32]; 4], ..example() },
            Root { size: u64::MAX, ..example() },
        ] {
            let read = Root::decode(&wrong.encode());
            assert!(matches!(read, Err(RootError::Contradiction(_))), "{read:?}");
        }
        let mut newer = Vec::new();
        append_number(&mut newer, FORMAT_TYPE, 2);
        assert_eq!(Root::decode(&newer), Err(RootError::Format(2)));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(flips in prop::collection::vec(any::<(usize, u8)>(), 0..4), cut in any::<usize>()) {
            let mut content = example().encode();
            for (at, byte) in flips {
                let at = at % content.len();
                content[at] = byte;
            }
            let length = cut % (content.len() * 2);
            content.truncate(length);
            if let Ok((root, tree)) = Root::decode(&content) {
                prop_assert_eq!(u64::try_from(root.digests.len()).unwrap(), tree.root_digests());
            }
        }
    }
}
