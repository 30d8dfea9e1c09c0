//! Calls into Python from threads of the package.
//!
//! CPython before 3.13 ends a thread that asks for the interpreter's lock while the interpreter ends. The thread's frames are
//! unwound then, and the guard of PyO3 among them aborts the process. So no such call is in progress when the interpreter
//! begins to end: a function that runs at exit ([`end_calls`]) lets no further call begin, and waits for those that run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pyo3::prelude::*;

/// Calls in progress: the process in the upper half, [`ENDED`], and the number of calls below.
static CALLS: AtomicU64 = AtomicU64::new(0);

/// No further call begins.
const ENDED: u64 = 1 << 31;

/// The end of the interpreter waits for calls this many milliseconds at most: they only pass results on.
const WAIT_MS_MAX: u32 = 10_000;

/// A call in progress.
struct Call;

impl Call {
    /// None after [`end_calls`].
    fn begin() -> Option<Self> {
        let begun = CALLS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |calls| {
            let calls = of_this_process(calls);
            (calls & ENDED == 0).then_some(calls + 1)
        });
        begun.ok().map(|_| Self)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let _ = CALLS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |calls| {
            // A process that was forked within the call counts from 0.
            let counted = calls == of_this_process(calls) && calls & (ENDED - 1) != 0;
            counted.then(|| calls - 1)
        });
    }
}

/// `calls`, or no calls in a process that was forked since: its threads are not there.
fn of_this_process(calls: u64) -> u64 {
    let process = u64::from(std::process::id()) << 32;
    if calls >> 32 == process >> 32 { calls } else { process }
}

/// Runs `call` with the interpreter's lock, on a thread that does not have it. Does nothing, and returns None, once the interpreter
/// ends.
pub(crate) fn call<R>(call: impl FnOnce(Python<'_>) -> R) -> Option<R> {
    let _call = Call::begin()?;
    Python::try_attach(call)
}

/// Waits until no thread of the package calls Python, and lets none begin. Runs when the interpreter begins to end.
#[pyfunction]
pub(crate) fn end_calls(py: Python<'_>) {
    let _ = CALLS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |calls| {
        Some(of_this_process(calls) | ENDED)
    });
    py.detach(|| {
        for _ in 0..WAIT_MS_MAX {
            if CALLS.load(Ordering::SeqCst) & (ENDED - 1) == 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}
