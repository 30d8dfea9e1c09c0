#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod cache;
mod catalogue;
mod counters;
mod download;
mod listing;
mod local;
mod manifest;
mod metadata;
mod not_served;
mod packet;
mod path;
mod preparations;
mod prepare;
mod read;
mod real_time;
mod refusal_reason;
mod request;
mod root;
mod schedule;
mod serve;
mod server;
mod source;
mod stat;
mod versions;
mod walk;
// The tests contain the example.
#[cfg(test)]
extern crate self as ndn_files;
#[cfg(test)]
mod tests;

pub use catalogue::{
    CatalogueEntry, CatalogueError, CatalogueIndex, PageCache, PageReference, decode_page,
    encode_page, fetch_index, fetch_page,
};
pub use counters::{Counters, Event, Observer};
pub use download::{
    Attributes, EarlierFetch, Extent, Origin, PartError, PartFile, Progress, REPLICAS_MAX,
    ReceiveError, Received, ReplicaError, ReplicaReport, ReplicaStream, SegmentStream, Unusable,
    Workers, has_changed, has_content, is_reserved_name, is_unchanged, newer_version, receive,
    record,
};
pub use listing::{ListingEntry, parse_listing};
pub use manifest::{
    Manifest, ManifestError, ManifestRoot, check_manifest_directory, fetch_manifest, find_manifest,
};
pub use metadata::{FileMetadata, MetadataError, SignedLeaves};
pub use path::Refusal;
pub use preparations::Preparation;
pub use refusal_reason::{is_denial, refusal_reason};
pub use request::{LEAVES, LIST, MANIFEST, METADATA};
pub use root::{Root, RootOptions};
pub use server::{FileServer, Mount, ServerOptions, StartError};
pub use source::{
    FileSource, ListFailure, OpenFailure, Opened, SourceEntry, SourceFile, SourceListing,
};
pub use stat::{FileKind, FileStat};
