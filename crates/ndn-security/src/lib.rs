//! Keys, signers, verifiers and certificates for NDN packets.
#![forbid(unsafe_code)]
