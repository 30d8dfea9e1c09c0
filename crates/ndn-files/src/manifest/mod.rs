//! Manifests: one signature for all segments of a version (docs/data/manifests.md has the format).

mod build;
mod digests;
mod disk;
mod fetch;
mod nodes;
mod root;
mod tree;

pub use fetch::{Manifest, ManifestError, ManifestRoot, fetch_manifest, find_manifest};

pub(crate) use build::{
    Built, LeafDigests, SignedLeaf, Source, Store, build, build_of, leaf_fanout, signed_leaf,
    store_for,
};
pub use disk::check_manifest_directory;
pub(crate) use disk::{DiskCache, Hashed};
pub(crate) use nodes::BuildFailure;
pub(crate) use root::{leaves_name, manifest_name};
