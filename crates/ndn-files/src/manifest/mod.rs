//! Manifests: one signature for all segments of a version (docs/data/manifests.md has the format).

mod build;
mod digests;
mod disk;
mod fetch;
mod nodes;
mod root;
mod segments;
mod tree;

pub use fetch::{Manifest, ManifestError, ManifestRoot, fetch_manifest, find_manifest};

pub(crate) use build::{
    Built, Hashing, Source, Store, build, build_of, digests_of_leaf, leaf_fanout, signed_leaf,
    store_for,
};
pub(crate) use disk::DigestDirectory;
pub use disk::check_manifest_directory;
pub(crate) use nodes::BuildFailure;
pub(crate) use root::{leaves_name, manifest_name};
pub(crate) use segments::SegmentDigests;
