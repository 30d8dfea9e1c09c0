//! A paged array whose versions share pages.
//!
//! A change copies the pages that it touches; a page is free once no version refers to it. The
//! array reuses free pages itself. Returning them to the heap fragments it: a FIB that was filled
//! entry by entry took 14 KB for each.

use std::sync::Arc;

/// Elements of a page. A larger page makes a change more expensive (it copies a page), and a
/// version and a lookup cheaper (fewer page pointers to copy and to keep in the cache).
const PAGE: usize = 256;
/// Maximum number of free pages kept: a few versions of hundreds of changes each, released by the
/// shards at one time.
const SPARE_PAGES_MAX: usize = 4096;

type Page<T> = Arc<[T; PAGE]>;

/// An array whose clones share pages: a clone copies a pointer per page, and changing an element
/// afterwards copies its page.
#[derive(Debug)]
pub(super) struct PagedVec<T> {
    pages: Vec<Page<T>>,
    /// Free pages for the next changes. Clones have none.
    spare: Vec<Page<T>>,
}

impl<T> Clone for PagedVec<T> {
    fn clone(&self) -> Self {
        Self { pages: self.pages.clone(), spare: Vec::new() }
    }
}

impl<T: Clone> PagedVec<T> {
    /// An array of at least `len` copies of `value`.
    pub(super) fn new(len: usize, value: &T) -> Self {
        let mut array = Self { pages: Vec::new(), spare: Vec::new() };
        array.grow(len, value);
        array
    }

    /// Grows to at least `len` elements, filled with copies of `value`. All new elements share one
    /// page until they are changed.
    pub(super) fn grow(&mut self, len: usize, value: &T) {
        if self.len() < len {
            let page = Arc::new(std::array::from_fn(|_| value.clone()));
            self.pages.resize(len.div_ceil(PAGE), page);
        }
    }

    /// Number of elements.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.pages.len() * PAGE
    }

    #[inline(always)]
    pub(super) fn element(&self, index: usize) -> &T {
        &self.pages[index / PAGE][index % PAGE]
    }

    /// The element, in a page that no other version shares.
    pub(super) fn element_mut(&mut self, index: usize) -> &mut T {
        let page = &mut self.pages[index / PAGE];
        if Arc::get_mut(page).is_none()
            && let Some(mut copy) = self.spare.pop()
            && let Some(elements) = Arc::get_mut(&mut copy)
        {
            elements.clone_from_slice(&page[..]);
            *page = copy;
        }
        &mut Arc::make_mut(page)[index % PAGE]
    }

    /// Takes over the pages of a version that is no longer referenced, except those shared with
    /// others.
    pub(super) fn reuse(&mut self, version: Self) {
        for mut page in version.pages.into_iter().chain(version.spare) {
            if self.spare.len() < SPARE_PAGES_MAX && Arc::get_mut(&mut page).is_some() {
                self.spare.push(page);
            }
        }
    }

    /// Frees half of the spare pages, rounded up.
    pub(super) fn trim(&mut self) {
        self.spare.truncate(self.spare.len() / 2);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn published_versions_are_unchanged_when_pages_are_reused(
            steps in prop::collection::vec((0..5 * PAGE, 0..100_u8, 0..4_u8), 1..200)
        ) {
            let mut array = PagedVec::new(5 * PAGE, &0_u8);
            let mut oracle = vec![0_u8; array.len()];
            let mut versions: Vec<(PagedVec<u8>, Vec<u8>)> = Vec::new();
            for (index, value, what) in steps {
                *array.element_mut(index) = value;
                oracle[index] = value;
                match what {
                    0 => versions.push((array.clone(), oracle.clone())),
                    1 if !versions.is_empty() => {
                        let (gone, _) = versions.swap_remove(index % versions.len());
                        array.reuse(gone);
                    }
                    _ => {}
                }
                for (version, expected) in versions.iter().chain([&(array.clone(), oracle.clone())]) {
                    prop_assert!((0..version.len()).all(|i| *version.element(i) == expected[i]));
                }
            }
        }
    }

    #[test]
    fn successive_changes_reuse_pages() {
        let mut array = PagedVec::new(20 * PAGE, &0_u32);
        let (mut published, mut made) = (array.clone(), std::collections::BTreeSet::new());
        for number in 0..10_000 {
            let index = (number * 7919) % array.len();
            *array.element_mut(index) = 1;
            made.insert(array.pages[index / PAGE].as_ptr().addr());
            array.reuse(std::mem::replace(&mut published, array.clone()));
        }
        // The page shared by all elements at first, the array's own, and one that is copied into.
        // An allocator may return freed memory, so the free pages are counted too.
        let spare = array.spare.len();
        assert!(made.len() <= 23 && (1..=3).contains(&spare), "{} {spare}", made.len());
        (0..2).for_each(|_| array.trim());
        assert!(array.spare.is_empty());
    }
}
