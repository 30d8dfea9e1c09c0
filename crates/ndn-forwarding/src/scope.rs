//! Names that do not leave the machine, or the next hop.

use ndn_packet::NameRef;

/// The start of the value of a Name TLV whose first component is `localhost`.
const LOCALHOST: &[u8] = b"\x08\x09localhost";
/// The same for `localhop`.
const LOCALHOP: &[u8] = b"\x08\x08localhop";

/// Whether `name` is under `/localhost`.
#[inline]
pub(crate) fn is_localhost(name: NameRef<'_>) -> bool {
    name.value().starts_with(LOCALHOST)
}

/// Whether `name` is under `/localhop`.
#[inline]
pub(crate) fn is_localhop(name: NameRef<'_>) -> bool {
    name.value().starts_with(LOCALHOP)
}
