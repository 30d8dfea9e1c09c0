//! NFD management protocol: commands, datasets, RIB.
#![forbid(unsafe_code)]
