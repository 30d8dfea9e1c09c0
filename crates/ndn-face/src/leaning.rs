//! Whether a face or a socket brings answers or questions.

/// How far one side can be ahead: so many reads of the other kind change the opinion.
const LIMIT: i8 = 8;

/// What has been read from a face or a socket of late: Data and Nacks, or Interests.
///
/// One sample for each read is enough. Nothing is tuned, and there is nothing to tune.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Leaning(i8);

impl Leaning {
    /// A read has brought an answer, or a question.
    #[inline]
    pub(crate) fn note(&mut self, is_answer: bool) {
        self.0 = if is_answer { LIMIT.min(self.0 + 1) } else { (-LIMIT).max(self.0 - 1) };
    }

    /// Whether it mostly brings answers.
    #[inline]
    pub(crate) fn is_upstream(self) -> bool {
        self.0 > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_opinion_follows_what_comes() {
        let mut leaning = Leaning::default();
        assert!(!leaning.is_upstream());
        (0..1000).for_each(|_| leaning.note(true));
        assert!(leaning.is_upstream());
        (0..7).for_each(|_| leaning.note(false));
        assert!(leaning.is_upstream(), "a producer may ask now and then");
        leaning.note(false);
        assert!(!leaning.is_upstream());
        (0..1000).for_each(|_| leaning.note(false));
        (0..8).for_each(|_| leaning.note(true));
        assert!(!leaning.is_upstream());
        leaning.note(true);
        assert!(leaning.is_upstream());
    }
}
