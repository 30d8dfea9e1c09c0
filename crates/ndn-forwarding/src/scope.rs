//! The `/localhost` and `/localhop` name scopes.

use ndn_packet::NameRef;

use crate::Flags;

/// The start of the value of a Name TLV whose first component is `localhost`.
const LOCALHOST: &[u8] = b"\x08\x09localhost";
/// The start of the value of a Name TLV under `/localhost/nfd`.
const LOCALHOST_NFD: &[u8] = b"\x08\x09localhost\x08\x03nfd";
/// The start of the value of a Name TLV whose first component is `localhop`.
const LOCALHOP: &[u8] = b"\x08\x08localhop";
/// The start of the value of a Name TLV under `/localhop/nfd`.
const LOCALHOP_NFD: &[u8] = b"\x08\x08localhop\x08\x03nfd";
/// Common part of both, after the component length.
const LOCAL: &[u8; 4] = b"loca";

/// Whether `name` is under `/localhost`.
pub(crate) fn is_localhost(name: NameRef<'_>) -> bool {
    name.value().starts_with(LOCALHOST)
}

/// Whether `name` is one of management.
pub(crate) fn is_management(name: NameRef<'_>) -> bool {
    name.value().starts_with(LOCALHOST_NFD)
}

/// Whether `name` is one of management for neighbours, if it serves them.
pub(crate) fn is_management_for_neighbours(name: NameRef<'_>) -> bool {
    name.value().starts_with(LOCALHOP_NFD)
}

/// Whether `name` is under `/localhop`.
pub(crate) fn is_localhop(name: NameRef<'_>) -> bool {
    name.value().starts_with(LOCALHOP)
}

/// [`Flags::LOCALHOST`] or [`Flags::LOCALHOP`], if the name with this value is under one of them.
#[inline(always)]
pub(crate) fn flags(name: &[u8]) -> Flags {
    if may_be_local(name) { local_flags(name) } else { Flags::default() }
}

/// Whether the name with this value may be under one of them: almost every name fails on four bytes. Other bytes may follow the
/// value.
#[inline(always)]
pub(crate) fn may_be_local(name: &[u8]) -> bool {
    matches!(name, [_, _, a, b, c, d, ..] if [*a, *b, *c, *d] == *LOCAL)
}

#[cold]
fn local_flags(name: &[u8]) -> Flags {
    Flags::default()
        .with(Flags::LOCALHOST, name.starts_with(LOCALHOST))
        .with(Flags::LOCALHOP, name.starts_with(LOCALHOP))
}
