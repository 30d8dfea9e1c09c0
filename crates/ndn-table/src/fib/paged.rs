//! An array in pages that are shared between versions.

use std::sync::Arc;

/// Elements of a page.
const PAGE: usize = 32;

/// Pages of a directory.
const DIRECTORY: usize = 64;

/// An array whose clones share pages: a clone copies one pointer per 2048 elements, and changing
/// an element afterwards copies its directory (64 pointers) and its page (32 elements).
#[derive(Clone, Debug)]
pub(super) struct PagedVec<T> {
    directories: Vec<Arc<Directory<T>>>,
    len: usize,
}

type Directory<T> = [Arc<[T; PAGE]>; DIRECTORY];

impl<T: Clone> PagedVec<T> {
    /// An array of at least `len` copies of `value`.
    pub(super) fn new(len: usize, value: &T) -> Self {
        let mut array = Self { directories: Vec::new(), len: 0 };
        array.grow(len, value);
        array
    }

    /// Makes room for at least `len` elements, the new ones being copies of `value`.
    pub(super) fn grow(&mut self, len: usize, value: &T) {
        while self.len < len {
            let page = || Arc::new(std::array::from_fn(|_| value.clone()));
            self.directories.push(Arc::new(std::array::from_fn(|_| page())));
            self.len += PAGE * DIRECTORY;
        }
    }

    /// Number of elements.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(super) fn element(&self, index: usize) -> &T {
        &self.directories[index / (PAGE * DIRECTORY)][index / PAGE % DIRECTORY][index % PAGE]
    }

    /// The element, in a page that no other version shares.
    pub(super) fn element_mut(&mut self, index: usize) -> &mut T {
        let directory = Arc::make_mut(&mut self.directories[index / (PAGE * DIRECTORY)]);
        &mut Arc::make_mut(&mut directory[index / PAGE % DIRECTORY])[index % PAGE]
    }
}
