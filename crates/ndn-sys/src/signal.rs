//! Signals of threads.

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

/// Blocks no signal in the calling thread. For functions of a program: the processes that they start inherit the mask.
pub fn unblock_in_thread() {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` initializes the set, which is read afterwards.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_blocked(signal: libc::c_int) -> bool {
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: without a new mask, the current one is written to `set`.
        unsafe {
            assert_eq!(
                libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), set.as_mut_ptr()),
                0
            );
            libc::sigismember(set.as_ptr(), signal) == 1
        }
    }

    #[test]
    fn thread_blocks_all_but_faults() {
        let before = is_blocked(libc::SIGTERM);
        let thread = std::thread::spawn(|| {
            block_in_thread();
            let signals =
                [libc::SIGPIPE, libc::SIGTERM, libc::SIGUSR1, libc::SIGSEGV, libc::SIGABRT];
            let blocked = signals.map(is_blocked);
            unblock_in_thread();
            (blocked, signals.map(is_blocked))
        });
        assert_eq!(thread.join().unwrap(), ([true, true, true, false, false], [false; 5]));
        assert_eq!(is_blocked(libc::SIGTERM), before, "of this thread only");
    }
}
