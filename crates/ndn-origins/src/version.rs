//! Versions of objects.

use ndn_files::{FileKind, FileStat};
use ndn_security::sha256;
use object_store::ObjectMeta;

/// Nanoseconds in a second.
const SECOND_NS: u64 = 1_000_000_000;

/// State of an object; `None` if the origin does not state when it was changed.
///
/// HTTP gives times in seconds, so the nanoseconds are derived from entity tag and length: two states of one second have
/// different versions.
pub(crate) fn stat_of(object: &ObjectMeta) -> Option<FileStat> {
    let seconds = u64::try_from(object.last_modified.timestamp()).ok().filter(|at| *at > 0)?;
    // Some servers put the tag in quotes in one answer and not in another.
    let tag = object.e_tag.as_deref().unwrap_or_default().trim_matches('"');
    let identity = format!("{tag} {} {seconds}", object.size);
    let [a, b, c, d, ..] = sha256(identity.as_bytes());
    let fraction = u64::from(u32::from_be_bytes([a, b, c, d])) % SECOND_NS;
    let version_ns = seconds.saturating_mul(SECOND_NS).saturating_add(fraction);
    Some(FileStat::remote(FileKind::Regular, object.size, version_ns, identity.as_bytes()))
}

/// Whether an answer is of the state `expected`.
pub(crate) fn is_same(expected: &ObjectMeta, answered: &ObjectMeta) -> bool {
    stat_of(answered)
        .is_some_and(|now| stat_of(expected).is_some_and(|expected| expected.is_same_content(&now)))
}

/// The entity tag for `If-Match`, which compares strongly; `None` if it is weak or missing.
pub(crate) fn strong_tag(object: &ObjectMeta) -> Option<String> {
    object.e_tag.clone().filter(|tag| !tag.starts_with("W/"))
}
