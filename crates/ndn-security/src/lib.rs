//! Keys, signers, verifiers and certificates for NDN packets.
//!
//! Pure: no I/O, no clock. Wall-clock time is an argument; only the generation of keys and the
//! blinding inside signatures draw on the random generator of the cryptographic library.
#![forbid(unsafe_code)]

mod base64_text;
mod certificate;
mod der;
mod digest;
mod error;
pub mod info;
mod oid;
mod pbes2;
mod private_key;
mod public_key;
mod safe_bag;
mod signer;
pub mod trust;
mod verifier;

pub use certificate::{Certificate, CertificateOptions, SELF, identity_of_key, key_name};
pub use der::DerError;
pub use digest::{
    SHA256_LEN, Sha256, Sha256Digest, sha1, sha256, sha256_each, sha256_pair, sha256_parts,
};
pub use error::{CertificateError, KeyError, SignError, VerifyError};
pub use pbes2::EncryptionSeed;
pub use private_key::{KeyType, PrivateKey};
pub use public_key::PublicKey;
pub use safe_bag::SafeBag;
pub use signer::{
    AntiReplay, DigestSigner, HmacKey, KeySigner, Locator, NullSigner, Signer, data_len_max,
    sign_data, sign_interest, write_data,
};
pub use verifier::{
    DigestVerifier, Verifier, verify_data, verify_digests, verify_interest,
    verify_parameters_digest,
};
