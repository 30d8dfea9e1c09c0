//! An array in pages that are shared between versions.

use std::sync::Arc;

/// Elements of a page. Larger pages make a change dearer (it copies a page) and a version and a
/// lookup cheaper (fewer page pointers to copy, and to keep in the cache).
const PAGE: usize = 256;

/// An array whose clones share pages: a clone copies a pointer per page, and changing an element
/// afterwards copies its page.
#[derive(Clone, Debug)]
pub(super) struct PagedVec<T> {
    pages: Vec<Arc<[T; PAGE]>>,
}

impl<T: Clone> PagedVec<T> {
    /// An array of at least `len` copies of `value`.
    pub(super) fn new(len: usize, value: &T) -> Self {
        let mut array = Self { pages: Vec::new() };
        array.grow(len, value);
        array
    }

    /// Makes room for at least `len` elements, the new ones being copies of `value`. The new pages
    /// are one until they are changed.
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
        &mut Arc::make_mut(&mut self.pages[index / PAGE])[index % PAGE]
    }
}
