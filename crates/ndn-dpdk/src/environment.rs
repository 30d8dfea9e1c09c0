//! DPDK's environment (EAL): memory, devices and drivers, once in a process.

use std::ffi::{CString, c_char};
use std::io;
use std::sync::Mutex;

use ndn_sys::cpu;
use thiserror::Error;

use crate::shim;

/// Why there is no environment.
#[derive(Debug, Error)]
pub enum EnvironmentError {
    /// An argument has a NUL character, or there are too many.
    #[error("DPDK takes no such arguments")]
    Arguments,
    /// Standard error has DPDK's own message.
    #[error("DPDK does not start with these arguments: {0}")]
    Start(io::Error),
    /// It was tried before, which is possible once.
    #[error(
        "DPDK was started before with other arguments, or has failed to start: start the program anew"
    )]
    Before,
}

/// The state of DPDK in this process.
enum State {
    New,
    /// With these arguments.
    Started(Vec<String>),
    Failed,
}

static STATE: Mutex<State> = Mutex::new(State::New);

/// Starts DPDK with arguments as its programs take them (`--in-memory`, `--vdev=...`), without the name of a
/// program. Once it has started, the same arguments do nothing. The calling thread stays on the processors
/// that it may use, although DPDK would pin it.
///
/// # Errors
/// See [`EnvironmentError`].
pub fn start(arguments: &[String]) -> Result<(), EnvironmentError> {
    let mut state = STATE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match &*state {
        State::New => {}
        State::Started(before) if before == arguments => return Ok(()),
        State::Started(_) | State::Failed => return Err(EnvironmentError::Before),
    }
    let all = std::iter::once("namewire").chain(arguments.iter().map(String::as_str));
    let all: Result<Vec<CString>, _> = all.map(CString::new).collect();
    let all = all.map_err(|_| EnvironmentError::Arguments)?;
    let count = i32::try_from(all.len()).map_err(|_| EnvironmentError::Arguments)?;
    // DPDK keeps pointers to its arguments, and permutes them.
    let pointers: Vec<*mut c_char> =
        all.into_iter().map(CString::into_raw).chain([std::ptr::null_mut()]).collect();
    let pointers = Vec::leak(pointers);
    *state = State::Failed;
    let processors = cpu::allowed_cpus();
    // SAFETY: `count` strings that live as long as the program, and a null pointer behind them.
    let result = unsafe { shim::namewire_dpdk_start(count, pointers.as_mut_ptr()) };
    if let Ok(processors) = processors {
        // Best effort: it would only be slower.
        let _ = cpu::allow_cpus(&processors);
    }
    if result < 0 {
        return Err(EnvironmentError::Start(io::Error::from_raw_os_error(-result)));
    }
    *state = State::Started(arguments.to_vec());
    Ok(())
}
