//! Errors for C.

use std::ffi::{c_char, c_int};
use std::path::Path;

use ndn_access::{AccessError, ErrorKind};

/// Length of the text, `NAMEWIRE_ERROR_TEXT_LEN`.
pub(crate) const TEXT_LEN: usize = 512;

/// `struct namewire_error`.
#[derive(Debug)]
#[repr(C)]
pub struct Error {
    pub(crate) number: c_int,
    pub(crate) text: [c_char; TEXT_LEN],
}

pub(crate) const EINVAL: c_int = 22;
const EIO: c_int = 5;
const EAGAIN: c_int = 11;
const EACCES: c_int = 13;
const EHOSTDOWN: c_int = 112;

/// The reason of a failure, with a number as in errno.
#[derive(Debug)]
pub(crate) struct Failure {
    number: c_int,
    text: String,
}

impl Failure {
    pub(crate) fn new(number: c_int, text: &str) -> Self {
        Self { number, text: text.to_owned() }
    }

    pub(crate) fn forked(text: &str) -> Self {
        Self::new(EHOSTDOWN, text)
    }

    /// Of a file or directory.
    pub(crate) fn of_path(path: &Path, error: &std::io::Error) -> Self {
        Self {
            number: error.raw_os_error().unwrap_or(EINVAL),
            text: format!("{}: {error}", path.display()),
        }
    }

    /// Of a thread that cannot be started.
    pub(crate) fn of_thread(error: &std::io::Error) -> Self {
        Self { number: EAGAIN, text: format!("a thread cannot be started: {error}") }
    }
}

impl From<AccessError> for Failure {
    fn from(error: AccessError) -> Self {
        Self { number: number(error.kind()), text: error.to_string() }
    }
}

pub(crate) fn invalid(text: &str) -> AccessError {
    AccessError::new(ErrorKind::Invalid, text)
}

/// The number of an error, as in errno of Linux.
fn number(kind: ErrorKind) -> c_int {
    match kind {
        ErrorKind::NotFound => 2,
        ErrorKind::Interrupted => 4,
        ErrorKind::Unverified | ErrorKind::Unusable => EIO,
        ErrorKind::Busy => EAGAIN,
        ErrorKind::Denied | ErrorKind::Refused(_) => EACCES,
        ErrorKind::NotDirectory => 20,
        ErrorKind::IsDirectory => 21,
        ErrorKind::Invalid => EINVAL,
        ErrorKind::Unreachable => 101,
        ErrorKind::Unanswered => 110,
        ErrorKind::Disconnected => EHOSTDOWN,
        ErrorKind::Changed => 116,
    }
}

/// A text that ends with a zero; a long one is cut at the end of a character.
pub(crate) fn text_of(text: &str) -> [c_char; TEXT_LEN] {
    let cut = &text[..text.floor_char_boundary(TEXT_LEN - 1)];
    let mut filled = [0; TEXT_LEN];
    for (to, from) in filled.iter_mut().zip(cut.bytes().filter(|byte| *byte != 0)) {
        *to = c_char::from_ne_bytes([from]);
    }
    filled
}

/// Writes an error where the caller wants it.
///
/// # Safety
/// `error` is null or points to a `struct namewire_error`.
pub(crate) unsafe fn fill(error: *mut Error, reason: &Failure) {
    if error.is_null() {
        return;
    }
    let text = text_of(&reason.text);
    // The caller may not have written to it yet.
    // SAFETY: as the caller guarantees.
    unsafe { error.write(Error { number: reason.number, text }) };
}
