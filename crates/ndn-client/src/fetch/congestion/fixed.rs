//! A window that stays as it is.

use super::{Answer, Congestion, Controller};

/// Always the same number of Interests, whatever comes.
#[derive(Debug, Clone)]
pub struct Fixed {
    size: usize,
}

impl Fixed {
    /// A window of `size` segments, one at least.
    #[must_use]
    pub fn new(size: u32) -> Self {
        Self { size: usize::try_from(size).unwrap_or(usize::MAX).max(1) }
    }
}

impl Controller for Fixed {
    fn size(&self) -> usize {
        self.size
    }

    fn on_answer(&mut self, _answer: &Answer) {}

    fn on_congestion(&mut self, _congestion: Congestion) {}
}
