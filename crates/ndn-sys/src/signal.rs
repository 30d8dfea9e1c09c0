//! Signals of threads.

use std::marker::PhantomData;

/// Blocks all signals but those of faults in the calling thread: other threads handle them, and a write to a closed connection
/// is an error without SIGPIPE. For the threads of a library, which leaves signals to the program.
pub fn block_in_thread() {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` initializes the set, which the other functions read, and change, afterwards.
    unsafe {
        libc::sigfillset(set.as_mut_ptr());
        for fault in [
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGFPE,
            libc::SIGILL,
            libc::SIGTRAP,
            libc::SIGABRT,
            libc::SIGSYS,
        ] {
            libc::sigdelset(set.as_mut_ptr(), fault);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
    }
}

/// The signals that a thread blocks.
pub struct SignalMask(libc::sigset_t);

impl SignalMask {
    /// The mask of the calling thread.
    #[must_use]
    pub fn of_thread() -> Self {
        Self::change(libc::SIG_BLOCK, None)
    }

    /// The calling thread has this mask until the guard is dropped. For functions of a program on threads of a library: the
    /// processes that they start inherit the mask.
    pub fn enter(&self) -> Entered {
        Entered { former: Self::change(libc::SIG_SETMASK, Some(self)), of_thread: PhantomData }
    }

    /// Returns the mask before the change.
    fn change(how: libc::c_int, mask: Option<&Self>) -> Self {
        let mask = mask.map_or(std::ptr::null(), |mask| &raw const mask.0);
        // The kernel has fewer signals than the set has room for.
        let mut former = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: `mask` is null, or a set that is only read. `former` is written to, and its bits are initialized before.
        unsafe {
            libc::pthread_sigmask(how, mask, former.as_mut_ptr());
            Self(former.assume_init())
        }
    }
}

impl std::fmt::Debug for SignalMask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignalMask").finish_non_exhaustive()
    }
}

/// The calling thread has another mask while this exists.
#[derive(Debug)]
#[must_use = "the former mask is restored when this is dropped"]
pub struct Entered {
    former: SignalMask,
    /// It is dropped by the thread whose mask it restores.
    of_thread: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        SignalMask::change(libc::SIG_SETMASK, Some(&self.former));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_blocked(signal: libc::c_int) -> bool {
        let mask = SignalMask::of_thread();
        // SAFETY: the set is initialized, and only read.
        unsafe { libc::sigismember(&raw const mask.0, signal) == 1 }
    }

    #[test]
    fn thread_blocks_all_but_faults() {
        let before = is_blocked(libc::SIGTERM);
        let thread = std::thread::spawn(|| {
            let signals =
                [libc::SIGPIPE, libc::SIGTERM, libc::SIGUSR1, libc::SIGSEGV, libc::SIGABRT];
            let (program, of_program) = (SignalMask::of_thread(), signals.map(is_blocked));
            block_in_thread();
            let within = {
                let _program = program.enter();
                signals.map(is_blocked)
            };
            assert_eq!(within, of_program);
            signals.map(is_blocked)
        });
        assert_eq!(thread.join().unwrap(), [true, true, true, false, false]);
        assert_eq!(is_blocked(libc::SIGTERM), before, "of this thread only");
    }
}
