//! Lists that mostly have one element.

use std::ops::Deref;

/// A list of fixed length. One element takes no memory of its own: tables have millions of such lists.
#[derive(Debug, Clone)]
pub struct OneOrMany<T>(Elements<T>);

#[derive(Debug, Clone)]
enum Elements<T> {
    One(T),
    /// Any other number of elements.
    Many(Box<[T]>),
}

impl<T: Copy> OneOrMany<T> {
    /// Replaces the elements. Takes memory only for several ones, of another number than before.
    pub fn set(&mut self, elements: &[T]) {
        match &mut self.0 {
            Elements::Many(own) if own.len() == elements.len() => own.copy_from_slice(elements),
            Elements::One(_) | Elements::Many(_) => *self = elements.into(),
        }
    }
}

impl<T: Copy> From<&[T]> for OneOrMany<T> {
    fn from(elements: &[T]) -> Self {
        Self(match elements {
            [element] => Elements::One(*element),
            _ => Elements::Many(elements.into()),
        })
    }
}

impl<T> Default for OneOrMany<T> {
    fn default() -> Self {
        Self(Elements::Many(Box::default()))
    }
}

impl<T> From<Vec<T>> for OneOrMany<T> {
    fn from(mut elements: Vec<T>) -> Self {
        match elements.pop() {
            Some(element) if elements.is_empty() => Self(Elements::One(element)),
            last => {
                elements.extend(last);
                Self(Elements::Many(elements.into_boxed_slice()))
            }
        }
    }
}

impl<T> Deref for OneOrMany<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Elements::One(element) => std::slice::from_ref(element),
            Elements::Many(elements) => elements,
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
            let list = OneOrMany::from(elements.clone());
            assert_eq!(*list, *elements);
            assert_eq!(matches!(list.0, Elements::One(_)), length == 1);
            for other in 0..4_u64 {
                let other: Vec<u64> = (10..10 + other).collect();
                let mut replaced = list.clone();
                replaced.set(&other);
                assert_eq!(*replaced, *other);
                assert_eq!(matches!(replaced.0, Elements::One(_)), other.len() == 1);
            }
        }
        assert!(OneOrMany::<u64>::default().is_empty());
    }

    #[test]
    fn one_pair_of_numbers_takes_three_words() {
        assert_eq!(size_of::<OneOrMany<(u64, u64)>>(), 3 * size_of::<u64>());
    }
}
