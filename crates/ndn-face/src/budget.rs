//! A memory limit that many faces share.

/// Bytes in use, and their limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    used: usize,
    limit: usize,
}

impl Budget {
    /// Nothing used of `limit` bytes.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self { used: 0, limit }
    }

    /// Bytes in use.
    #[must_use]
    pub const fn used(&self) -> usize {
        self.used
    }

    /// Whether `bytes` more fit.
    #[must_use]
    pub const fn has_room(&self, bytes: usize) -> bool {
        bytes <= self.limit.saturating_sub(self.used)
    }

    /// Uses `bytes` more if they fit.
    #[must_use]
    pub fn take(&mut self, bytes: usize) -> bool {
        let fits = self.has_room(bytes);
        if fits {
            self.used += bytes;
        }
        fits
    }

    /// Uses `bytes` more even beyond the limit.
    pub(crate) fn force(&mut self, bytes: usize) {
        self.used += bytes;
    }

    /// Gives `bytes` back.
    pub fn give_back(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.used);
        self.used = self.used.saturating_sub(bytes);
    }
}
