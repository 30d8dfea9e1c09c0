//! When a thread that sleeps has to be woken.
//!
//! A wake-up is a system call for the thread that wakes and a good part of a millisecond for the
//! one that sleeps; both are spared while the other thread is awake anyway.

use crate::sync::{AtomicBool, Ordering};

/// Says whether the thread that takes messages sleeps, or is about to.
///
/// That thread calls [`prepare`](Self::prepare), looks once more whether there are messages, sleeps
/// if there are none, and calls [`awake`](Self::awake). A thread that has left messages calls
/// [`take_wake`](Self::take_wake), once for all of them, and wakes the other if that says so. Either
/// the one sees the messages, or the other sees that it sleeps: a message is never slept over.
///
/// All three exchange the value, so that they have one order and each sees what came before it.
/// That is a locked instruction per burst for who sends, as a fence would be.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct SleepFlag(AtomicBool);

impl SleepFlag {
    /// That of a thread that is awake.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// The thread is about to sleep. It has to look for messages after this and before it does.
    pub fn prepare(&self) {
        // Either a sender's exchange comes after this one, and finds `true`; or before, and then
        // this thread sees what was left before it.
        self.0.swap(true, Ordering::AcqRel);
    }

    /// The thread has woken up, or does not sleep after all.
    pub fn awake(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }

    /// After messages were left: whether the caller has to wake the thread. Of several callers,
    /// one has to.
    #[must_use]
    pub fn take_wake(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_wake_per_sleep() {
        let flag = SleepFlag::new();
        assert!(!flag.take_wake(), "awake");
        flag.prepare();
        assert!(flag.take_wake());
        assert!(!flag.take_wake(), "somebody else wakes it already");
        flag.prepare();
        flag.awake();
        assert!(!flag.take_wake());
    }
}
