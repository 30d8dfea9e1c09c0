//! Catalogues: signed lists of the files of a server, to be searched without asking for each file (`docs/data/catalogue.md`).
//!
//! An index names pages by their digests. A change of one file changes one page and the index, so that consumers fetch little
//! again.

mod fetch;
mod format;
mod pages;
mod publish;
mod sidecar;
mod update;

pub use fetch::{PageCache, fetch_index, fetch_page};
pub use format::{
    CatalogueEntry, CatalogueError, CatalogueIndex, PageReference, decode_page, encode_page,
};
pub(crate) use publish::PublishedCatalogue;
pub(crate) use update::{Catalogued, Cataloguer};
