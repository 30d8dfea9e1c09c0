//! Changes of the paged hash table that snapshots share.

use super::paged::PagedVec;
use crate::bucket::{Bucket, Tag};
use crate::hash_index::{PROBE_MAX, home_bucket};

/// Shows the buckets where items of `hash` may lie, until `stop` says so; whether it did.
fn for_probes(
    buckets: &mut PagedVec<Bucket>,
    hash: u64,
    mut stop: impl FnMut(&mut PagedVec<Bucket>, usize) -> bool,
) -> Option<usize> {
    let count = buckets.len();
    let home = home_bucket(hash, count);
    (0..PROBE_MAX).find(|distance| stop(buckets, (home + distance) % count))
}

/// Notes on the `distance` buckets before an item that it went past them, or that it no longer
/// does.
fn for_passed(
    buckets: &mut PagedVec<Bucket>,
    hash: u64,
    distance: usize,
    change: impl Fn(&mut Bucket),
) {
    let count = buckets.len();
    let home = home_bucket(hash, count);
    for step in 0..distance {
        change(buckets.element_mut((home + step) % count));
    }
}

/// Adds an item; false when the neighbourhood is full.
pub(super) fn insert_item(buckets: &mut PagedVec<Bucket>, hash: u64, reference: u32) -> bool {
    let distance = for_probes(buckets, hash, |buckets, position| {
        !buckets.element(position).is_full()
            && buckets.element_mut(position).insert(Tag::of(hash), reference)
    });
    if let Some(distance) = distance {
        for_passed(buckets, hash, distance, Bucket::note_passed);
    }
    distance.is_some()
}

pub(super) fn remove_item(buckets: &mut PagedVec<Bucket>, hash: u64, reference: u32) {
    let distance = for_probes(buckets, hash, |buckets, position| {
        buckets.element(position).contains(Tag::of(hash), reference)
            && buckets.element_mut(position).remove(Tag::of(hash), reference)
    });
    if let Some(distance) = distance {
        for_passed(buckets, hash, distance, Bucket::forget_passed);
    }
}

pub(super) fn replace_item(buckets: &mut PagedVec<Bucket>, hash: u64, old: u32, new: u32) {
    for_probes(buckets, hash, |buckets, position| {
        buckets.element(position).contains(Tag::of(hash), old)
            && buckets.element_mut(position).replace(Tag::of(hash), old, new)
    });
}
