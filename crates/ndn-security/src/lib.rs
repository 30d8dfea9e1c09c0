//! Keys, signers, verifiers and certificates for NDN packets.
//!
//! Pure: no I/O, no clock. Wall-clock time is an argument; only the generation of keys and the
//! blinding inside signatures draw on the random generator of the cryptographic library.
#![forbid(unsafe_code)]

mod base64_text;
mod der;
mod digest;
mod error;
mod oid;
mod pbes2;
mod private_key;
mod public_key;

pub use der::DerError;
pub use digest::{SHA256_LEN, Sha256, Sha256Digest, sha256, sha256_parts};
pub use error::{KeyError, SignError, VerifyError};
pub use pbes2::EncryptionSeed;
pub use private_key::{KeyType, PrivateKey};
pub use public_key::PublicKey;
