//! ndn-cxx's key chain: identities, keys and certificates in an SQLite database (the PIB), private
//! keys in files (the TPM), in the locations of ndn-cxx, `ndnsec` and python-ndn.
//!
//! Time and randomness are arguments; the database and the files are I/O.
#![forbid(unsafe_code)]

mod error;
mod key_chain;
mod location;
mod pib;
mod tpm;

pub use error::KeyChainError;
pub use key_chain::{KeyChain, KeyId, NewDefault};
pub use location::Locations;
pub use pib::{Access, CertificateEntry, IdentityEntry, KeyEntry};
