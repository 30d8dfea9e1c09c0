//! Decides whether a sleeping thread must be woken.
//!
//! A wake-up costs a system call for the waking thread and a good part of a millisecond for the
//! sleeping one; both are saved while the other thread is awake.

use crate::sync::{AtomicBool, Ordering};

/// Whether the consuming thread sleeps, or is about to.
///
/// The consuming thread calls [`prepare`](Self::prepare), polls for messages once more, sleeps if
/// there are none, and calls [`awake`](Self::awake). A thread that has published messages calls
/// [`take_wake`](Self::take_wake) once for all of them, and wakes the consumer if it returns true.
/// Either the consumer sees the messages, or the producer sees that it sleeps: no wake-up is lost.
///
/// All three exchange the value, so that they have a total order and each sees the exchanges before it.
/// The cost is an atomic instruction per burst for the producer, as that of a fence.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct SleepFlag(AtomicBool);

impl SleepFlag {
    /// The flag of a thread that is awake.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// The thread is about to sleep. It must poll for messages after this call and before it
    /// sleeps.
    pub fn prepare(&self) {
        // A sender's exchange that comes after this one finds `true`; if it comes before, this
        // thread sees the messages published before it.
        self.0.swap(true, Ordering::AcqRel);
    }

    /// The thread has woken up, or does not sleep.
    pub fn awake(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }

    /// To be called after publishing messages: whether the caller must wake the thread. Of several
    /// callers, only one must.
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
