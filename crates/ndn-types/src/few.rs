//! Lists that mostly have one element.

use std::ops::Deref;

/// A list of fixed length. One element takes no memory of its own: tables have millions of such lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Few<T> {
    /// Exactly one element.
    One(T),
    /// Any number of elements.
    Many(Box<[T]>),
}

impl<T> Few<T> {
    /// The elements.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        match self {
            Self::One(element) => vec![element],
            Self::Many(elements) => elements.into_vec(),
        }
    }
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self::Many(Box::default())
    }
}

impl<T> From<Vec<T>> for Few<T> {
    fn from(mut elements: Vec<T>) -> Self {
        match elements.pop() {
            Some(element) if elements.is_empty() => Self::One(element),
            last => {
                elements.extend(last);
                Self::Many(elements.into_boxed_slice())
            }
        }
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::One(element) => std::slice::from_ref(element),
            Self::Many(elements) => elements,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_of_any_length_is_what_it_was_made_of() {
        for length in 0..4_u64 {
            let elements: Vec<u64> = (0..length).collect();
            let few = Few::from(elements.clone());
            assert_eq!(*few, *elements);
            assert_eq!(matches!(few, Few::One(_)), length == 1);
            assert_eq!(few.into_vec(), elements);
        }
        assert!(Few::<u64>::default().is_empty());
    }

    #[test]
    fn one_pair_of_numbers_takes_three_words() {
        assert_eq!(size_of::<Few<(u64, u64)>>(), 3 * size_of::<u64>());
    }
}
