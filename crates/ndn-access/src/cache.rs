//! Segments in memory, up to a number of bytes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use lru::LruCache;

/// Identifies one version of an object: a prefix of the digest of its name, or a number for a name without version.
pub(crate) type ObjectKey = [u8; 16];

/// Verified contents of segments of all objects; the least recently used ones are removed when the limit is exceeded.
pub(crate) struct SegmentCache {
    segments: Mutex<Segments>,
    bytes_max: usize,
}

struct Segments {
    by_use: LruCache<(ObjectKey, u64), Bytes>,
    bytes: usize,
}

impl SegmentCache {
    pub(crate) fn new(bytes_max: usize) -> Self {
        let segments = Segments { by_use: LruCache::unbounded(), bytes: 0 };
        Self { segments: Mutex::new(segments), bytes_max }
    }

    pub(crate) fn find(&self, object: ObjectKey, segment: u64) -> Option<Bytes> {
        self.lock().by_use.get(&(object, segment)).cloned()
    }

    pub(crate) fn contains(&self, object: ObjectKey, segment: u64) -> bool {
        self.lock().by_use.contains(&(object, segment))
    }

    /// Content that is longer than the limit is not stored.
    pub(crate) fn insert(&self, object: ObjectKey, segment: u64, content: Bytes) {
        let length = content.len();
        if length > self.bytes_max {
            return;
        }
        let mut segments = self.lock();
        segments.bytes += length;
        if let Some(previous) = segments.by_use.put((object, segment), content) {
            segments.bytes -= previous.len();
        }
        while segments.bytes > self.bytes_max {
            let Some((_, removed)) = segments.by_use.pop_lru() else { return };
            segments.bytes -= removed.len();
        }
    }

    /// Bytes of content.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, Segments> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for SegmentCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SegmentCache").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn least_recently_used_segments_are_removed() {
        let cache = SegmentCache::new(25);
        let content = |length: usize| Bytes::from(vec![7; length]);
        let [one, two, three] = [1, 2, 3].map(|object| [object; 16]);
        cache.insert(one, 0, content(10));
        cache.insert(one, 1, content(10));
        assert!(cache.find(one, 0).is_some());
        cache.insert(two, 0, content(10));
        assert_eq!(
            [(one, 0), (one, 1), (two, 0)].map(|(o, s)| cache.contains(o, s)),
            [true, false, true]
        );
        cache.insert(one, 0, content(5));
        assert_eq!(cache.bytes(), 15);
        cache.insert(three, 0, content(26));
        assert!(!cache.contains(three, 0) && cache.contains(two, 0));
    }

    proptest! {
        #[test]
        fn bytes_are_those_of_the_segments_and_bounded(
            inserts in prop::collection::vec((0_u8..3, 0_u64..5, 0_usize..20), 0..100)
        ) {
            let cache = SegmentCache::new(40);
            for (object, segment, length) in inserts {
                cache.insert([object; 16], segment, Bytes::from(vec![0; length]));
                prop_assert!(cache.contains([object; 16], segment));
                let held: usize = cache.lock().by_use.iter().map(|(_, content)| content.len()).sum();
                prop_assert_eq!(held, cache.bytes());
                prop_assert!(held <= 40);
            }
        }
    }
}
