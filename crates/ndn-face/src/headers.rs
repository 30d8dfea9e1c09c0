//! Headers of two layers in one piece, as the output queues take them.

/// Headers that are put together in place: those of a message and of NDNLPv2's of most frames.
const SHORT: usize = 192;

/// Calls `then` with both headers, the outer one first. Short ones need no memory.
pub(crate) fn with_joined<T>(outer: &[u8], inner: &[u8], then: impl FnOnce(&[u8]) -> T) -> T {
    let mut short = [0; SHORT];
    let Some(both) = short.get_mut(..outer.len() + inner.len()) else {
        return then(&[outer, inner].concat());
    };
    both[..outer.len()].copy_from_slice(outer);
    both[outer.len()..].copy_from_slice(inner);
    then(both)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_any_length_follow_each_other() {
        for length in [0, 1, SHORT - 3, SHORT - 2, SHORT, 1000] {
            let inner: Vec<u8> = (0..=255).cycle().take(length).collect();
            let joined = with_joined(&[7, 8], &inner, <[u8]>::to_vec);
            assert_eq!((&joined[..2], &joined[2..]), (&[7, 8][..], &inner[..]));
        }
    }
}
