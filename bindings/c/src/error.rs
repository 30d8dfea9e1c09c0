//! Errors for C.

use std::ffi::{c_char, c_int};

use ndn_access::{AccessError, ErrorKind};

/// Length of the text, `NAMEWIRE_ERROR_TEXT_LEN`.
const TEXT_LEN: usize = 512;

/// `struct namewire_error`.
#[derive(Debug)]
#[repr(C)]
pub struct Error {
    number: c_int,
    text: [c_char; TEXT_LEN],
}

pub(crate) fn invalid(text: &str) -> AccessError {
    AccessError::new(ErrorKind::Invalid, text)
}

/// The number of an error, as in errno of Linux.
fn number(kind: ErrorKind) -> c_int {
    match kind {
        ErrorKind::NotFound => 2,
        ErrorKind::Interrupted => 4,
        ErrorKind::Unverified | ErrorKind::Unusable => 5,
        ErrorKind::Busy => 11,
        ErrorKind::NotDirectory => 20,
        ErrorKind::IsDirectory => 21,
        ErrorKind::Invalid => 22,
        ErrorKind::Unreachable => 101,
        ErrorKind::Unanswered => 110,
        ErrorKind::Disconnected => 112,
        ErrorKind::Changed => 116,
    }
}

/// Writes an error where the caller wants it; a long text is cut at the end of a character.
///
/// # Safety
/// `error` is null or points to a `struct namewire_error`.
pub(crate) unsafe fn fill(error: *mut Error, reason: &AccessError) {
    if error.is_null() {
        return;
    }
    let reason_text = reason.to_string();
    let cut = &reason_text[..reason_text.floor_char_boundary(TEXT_LEN - 1)];
    let mut text = [0; TEXT_LEN];
    for (to, from) in text.iter_mut().zip(cut.bytes().filter(|byte| *byte != 0)) {
        *to = c_char::from_ne_bytes([from]);
    }
    // The caller may not have written to it yet.
    // SAFETY: as the caller guarantees.
    unsafe { error.write(Error { number: number(reason.kind()), text }) };
}
