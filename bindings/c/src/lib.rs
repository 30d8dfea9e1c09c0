//! The C library: `include/namewire.h` documents the interface, README.md the rules.

mod error;
pub mod serve;
mod types;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use ndn_access::keys::verification;
use ndn_access::{AccessError, AccessOptions, Blocking, BlockingFile, DiskCacheOptions, ErrorKind};
use ndn_client::EndpointOptions;
use ndn_client::fetch::FetchOptions;
use ndn_files::ListingEntry;
use ndn_packet::Name;

use crate::error::{Error, Failure, fill, invalid};
use crate::types::{CacheCounters, Entry, Lookup, Options, Part, Stat, copy_of};

/// A connection to a forwarder.
#[derive(Debug)]
pub struct Context {
    blocking: Blocking,
}

/// One version of a file.
#[derive(Debug)]
pub struct File {
    file: BlockingFile,
    name: CString,
}

/// The entries of a directory, and the number of those that were returned.
#[derive(Debug)]
pub struct Directory {
    entries: Vec<(CString, bool, Option<ndn_access::Stat>)>,
    next: std::sync::atomic::AtomicUsize,
}

impl Directory {
    fn new(entries: impl Iterator<Item = (ListingEntry, Option<ndn_access::Stat>)>) -> Self {
        // File names of listings have no zeros.
        let entries = entries.filter_map(|(entry, stat)| {
            CString::new(entry.file_name).ok().map(|name| (name, entry.is_directory, stat))
        });
        Self { entries: entries.collect(), next: std::sync::atomic::AtomicUsize::new(0) }
    }

    /// The next entry; `None` after the last one.
    fn take(&self) -> Option<&(CString, bool, Option<ndn_access::Stat>)> {
        let index = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.entries.get(index)
    }
}

/// A wait without interruption.
fn uninterrupted() -> bool {
    false
}

/// Runs `work`; fills `error` if it fails or panics.
///
/// # Safety
/// `error` is null or points to a `struct namewire_error`.
unsafe fn run<T>(error: *mut Error, failed: T, work: impl FnOnce() -> Result<T, Failure>) -> T {
    let result = catch_unwind(AssertUnwindSafe(work));
    let result = result.unwrap_or_else(|_| {
        let text = "the library failed: this is a fault of Namewire";
        Err(AccessError::new(ErrorKind::Unusable, text).into())
    });
    match result {
        Ok(value) => value,
        Err(reason) => {
            // SAFETY: as the caller guarantees.
            unsafe { fill(error, &reason) };
            failed
        }
    }
}

/// A string of the caller.
///
/// # Safety
/// `text` is null or a string that ends with a zero, and stays valid for `'a`.
unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<Option<&'a str>, AccessError> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller guarantees.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| invalid(&format!("{what} is not UTF-8")))
}

/// A name of the caller.
///
/// # Safety
/// As of [`text`].
unsafe fn name_of(uri: *const c_char) -> Result<Name, AccessError> {
    // SAFETY: as the caller guarantees.
    let uri = unsafe { text(uri, "the name") }?.ok_or_else(|| invalid("the name is NULL"))?;
    Name::from_uri(uri).map_err(|error| invalid(&format!("{uri:?} is not a name: {error}")))
}

/// An object of the caller.
///
/// # Safety
/// `object` is null or points to an object of this library that is not closed.
unsafe fn object<'a, T>(object: *const T, what: &str) -> Result<&'a T, AccessError> {
    // SAFETY: as the caller guarantees.
    unsafe { object.as_ref() }.ok_or_else(|| invalid(&format!("the {what} is NULL")))
}

/// # Safety
/// The strings of `options` are null or end with a zero.
unsafe fn connect(options: &Options) -> Result<Context, AccessError> {
    // SAFETY: as the caller guarantees.
    let transport = unsafe { text(options.transport, "the transport") }?;
    // SAFETY: as the caller guarantees.
    let verify = unsafe { text(options.verify, "verify") }?;
    // SAFETY: as the caller guarantees.
    let cache_dir = unsafe { text(options.cache_dir, "cache_dir") }?;
    // SAFETY: as the caller guarantees.
    let cache_dir_size = unsafe { text(options.cache_dir_size, "cache_dir_size") }?;
    let disk_cache = cache_dir.map(|at| DiskCacheOptions::from_words(at.into(), cache_dir_size));
    let address = transport.map(str::parse).transpose();
    let address = address.map_err(|error| invalid(&format!("{error}")))?;
    let or_default = |value: u64, default: Duration| match value {
        0 => default,
        milliseconds => Duration::from_millis(milliseconds),
    };
    let usual = AccessOptions::default();
    let fetching = FetchOptions {
        lifetime: or_default(options.lifetime_ms, usual.fetching.lifetime),
        verification: verification(verify.unwrap_or("digest"))
            .map_err(|error| invalid(&error.to_string()))?,
        ..usual.fetching
    };
    let options = AccessOptions {
        fetching,
        metadata_lifetime: or_default(options.metadata_lifetime_ms, usual.metadata_lifetime),
        allow_older: usual.allow_older,
        cache_bytes_max: match options.cache_bytes {
            0 => usual.cache_bytes_max,
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        },
        disk_cache: disk_cache.transpose()?,
        read_ahead_bytes_max: match options.read_ahead_bytes {
            0 => usual.read_ahead_bytes_max,
            bytes => bytes,
        },
        deadline: or_default(options.timeout_ms, usual.deadline),
    };
    let connection = EndpointOptions { address, ..EndpointOptions::default() };
    Ok(Context { blocking: Blocking::connect(connection, options)? })
}

/// Version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn namewire_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Connects to a forwarder.
///
/// # Safety
/// `options` is null or points to a `struct namewire_options` whose strings end with a zero; `error` as of all functions: null,
/// or pointing to a `struct namewire_error`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn namewire_connect(
    options: *const Options,
    error: *mut Error,
) -> *mut Context {
    // SAFETY: as the caller guarantees.
    unsafe {
        run(error, std::ptr::null_mut(), || {
            let options = copy_of(options)?;
            Ok(Box::into_raw(Box::new(connect(&options)?)))
        })
    }
}

/// Ends a connection.
///
/// # Safety
/// `context` is null, or was returned by [`namewire_connect`] and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn namewire_disconnect(context: *mut Context) {
    // SAFETY: as the caller guarantees.
    unsafe { free(context) };
}

/// # Safety
/// `object` is null, or was made by this library and is not used any more.
unsafe fn free<T>(object: *mut T) {
    if !object.is_null() {
        // SAFETY: as the caller guarantees.
        let object = unsafe { Box::from_raw(object) };
        // A panic would end the process; nothing is left to be reported to.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(object)));
    }
}

/// Counts what the caches of a connection did.
///
/// # Safety
/// `context` was returned by [`namewire_connect`]; `counters` points to a `struct namewire_cache_counters`; `error` as of all
/// functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn namewire_cache_counters(
    context: *const Context,
    counters: *mut CacheCounters,
    error: *mut Error,
) -> c_int {
    // SAFETY: as the caller guarantees.
    unsafe {
        run(error, -1, || {
            let context = object(context, "context")?;
            let counters = counters.as_mut().ok_or_else(|| invalid("the result is NULL"))?;
            *counters = CacheCounters::of(context.blocking.access());
            Ok(0)
        })
    }
}

/// Opens the current version of a file.
///
/// # Safety
/// `context` was returned by [`namewire_connect`]; `name` ends with a zero; `error` as of all functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn namewire_open(
    context: *const Context,
    name: *const c_char,
    error: *mut Error,
) -> *mut File {
    // SAFETY: as the caller guarantees.
    unsafe {
        run(error, std::ptr::null_mut(), || {
            let context = object(context, "context")?;
            let file = context.blocking.open(&name_of(name)?, &mut uninterrupted)?;
            let name = CString::new(file.file().name().to_uri()).unwrap_or_default();
            Ok(Box::into_raw(Box::new(File { file, name })))
        })
    }
}

/// Closes a file.
///
/// # Safety
/// `file` is null, or was returned by [`namewire_open`] and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn namewire_close(file: *mut File) {
    // SAFETY: as the caller guarantees.
    unsafe { free(file) };
}

/// Name with version of an open file; null for null.
///
/// # Safety
/// `file` is null, or was returned by [`namewire_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn namewire_file_name(file: *const File) -> *const c_char {
    // SAFETY: as the caller guarantees.
    unsafe { file.as_ref() }.map_or(std::ptr::null(), |file| file.name.as_ptr())
}

/// Describes the current version of a file or directory.
///
/// # Safety
/// `context` was returned by [`namewire_connect`]; `name` ends with a zero; `found` points to a `struct namewire_stat`; `error`
/// as of all functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn namewire_stat(
    context: *const Context,
    name: *const c_char,
    found: *mut Stat,
    error: *mut Error,
) -> c_int {
    // SAFETY: as the caller guarantees.
    unsafe {
        run(error, -1, || {
            let context = object(context, "context")?;
            let found = found.as_mut().ok_or_else(|| invalid("the result is NULL"))?;
            let stat = context.blocking.stat(&name_of(name)?, &mut uninterrupted)?;
            *found = Stat::of(&stat);
            Ok(0)
        })
    }
}

/// Describes an open file.
///
/// # Safety
/// `file` was returned by [`namewire_open`]; `found` points to a `struct namewire_stat`; `error` as of all functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn namewire_fstat(
    file: *const File,
    found: *mut Stat,
    error: *mut Error,
) -> c_int {
    // SAFETY: as the caller guarantees.
    unsafe {
        run(error, -1, || {
            let found = found.as_mut().ok_or_else(|| invalid("the result is NULL"))?;
            *found = Stat::of(&object(file, "file")?.file.file().stat());
            Ok(0)
        })
    }
}

/// Checks the buffer of a read.
fn check_buffer(buffer: *mut c_void, length: usize) -> Result<(), AccessError> {
    match length == 0 || (!buffer.is_null() && isize::try_from(length).is_ok()) {
        true => Ok(()),
        false => Err(invalid("the buffer is NULL or too long")),
    }
}

/// Reads at an offset.
///
/// # Safety
/// `file` was returned by [`namewire_open`]; `buffer` has `length` bytes; `error` as of all functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn namewire_pread(
    file: *const File,
    buffer: *mut c_void,
    length: usize,
    offset: u64,
    error: *mut Error,
) -> isize {
    // SAFETY: as the caller guarantees; at most `length` bytes are written to `buffer`, whatever a read returns.
    unsafe {
        run(error, -1, || {
            let file = object(file, "file")?;
            let left = file.file.file().size().saturating_sub(offset);
            let length = length.min(usize::try_from(left).unwrap_or(usize::MAX));
            check_buffer(buffer, length)?;
            let mut filled = 0;
            while filled < length {
                let [at, left] = [filled, length - filled].map(|count| count as u64);
                let parts = file.file.read_parts(offset + at, left, &mut uninterrupted)?;
                if parts.is_empty() {
                    break;
                }
                for part in parts {
                    let place = buffer.cast::<u8>().add(filled);
                    let count = part.len().min(length - filled);
                    std::ptr::copy_nonoverlapping(part.as_ptr(), place, count);
                    filled += count;
                }
            }
            Ok(isize::try_from(filled).unwrap_or(isize::MAX))
        })
    }
}

/// Reads several parts.
///
/// # Safety
/// `file` was returned by [`namewire_open`]; `parts` has `count` elements whose buffers have their lengths; `error` as of all
/// functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn namewire_preadv(
    file: *const File,
    parts: *mut Part,
    count: usize,
    error: *mut Error,
) -> isize {
    // SAFETY: as the caller guarantees.
    unsafe {
        run(error, -1, || {
            let file = object(file, "file")?;
            if count == 0 {
                return Ok(0);
            }
            if parts.is_null() {
                return Err(invalid("the parts are NULL").into());
            }
            let parts = std::slice::from_raw_parts_mut(parts, count);
            let range = |part: &Part| {
                let length = u64::try_from(part.length).unwrap_or(u64::MAX);
                part.offset..part.offset.saturating_add(length)
            };
            let ranges: Vec<_> = parts.iter().map(range).collect();
            let read = file.file.read_vectored(&ranges, &mut uninterrupted)?;
            let mut total = 0;
            for (part, bytes) in parts.iter_mut().zip(&read) {
                let length = bytes.len().min(part.length);
                check_buffer(part.buffer, length)?;
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), part.buffer.cast(), length);
                part.read = length;
                total += length;
            }
            Ok(isize::try_from(total).unwrap_or(isize::MAX))
        })
    }
}

/// Describes files and directories.
///
/// # Safety
/// `context` was returned by [`namewire_connect`]; `lookups` has `count` elements, whose names end with a zero; `error` as of all
/// functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn namewire_stat_each(
    context: *const Context,
    lookups: *mut Lookup,
    count: usize,
    error: *mut Error,
) -> c_int {
    // SAFETY: as the caller guarantees.
    unsafe {
        run(error, -1, || {
            let context = object(context, "context")?;
            if count == 0 {
                return Ok(0);
            }
            if lookups.is_null() {
                return Err(invalid("the lookups are NULL").into());
            }
            let lookups = std::slice::from_raw_parts_mut(lookups, count);
            let names = lookups.iter().map(|lookup| name_of(lookup.name));
            let names = names.collect::<Result<Vec<_>, _>>()?;
            let found = context.blocking.describe_each(names, &mut uninterrupted)?;
            for (lookup, stat) in lookups.iter_mut().zip(&found) {
                lookup.exists = stat.is_some().into();
                if let Some(stat) = stat {
                    lookup.stat = Stat::of(stat);
                }
            }
            Ok(0)
        })
    }
}

/// Opens a directory.
///
/// # Safety
/// `context` was returned by [`namewire_connect`]; `name` ends with a zero; `error` as of all functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn namewire_opendir(
    context: *const Context,
    name: *const c_char,
    error: *mut Error,
) -> *mut Directory {
    // SAFETY: as the caller guarantees.
    unsafe {
        run(error, std::ptr::null_mut(), || {
            let context = object(context, "context")?;
            let entries = context.blocking.list(&name_of(name)?, &mut uninterrupted)?;
            let entries = entries.into_iter().map(|entry| (entry, None));
            Ok(Box::into_raw(Box::new(Directory::new(entries))))
        })
    }
}

/// Opens a directory, whose entries are described.
///
/// # Safety
/// As of [`namewire_opendir`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn namewire_opendirplus(
    context: *const Context,
    name: *const c_char,
    error: *mut Error,
) -> *mut Directory {
    // SAFETY: as the caller guarantees.
    unsafe {
        run(error, std::ptr::null_mut(), || {
            let context = object(context, "context")?;
            let name = name_of(name)?;
            let entries = context.blocking.list_described(&name, true, &mut uninterrupted)?;
            Ok(Box::into_raw(Box::new(Directory::new(entries.into_iter()))))
        })
    }
}

/// Returns the next entry of a directory.
///
/// # Safety
/// `directory` is null or was returned by [`namewire_opendir`]; `entry` is null or points to a `struct namewire_entry`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn namewire_readdir(directory: *const Directory, entry: *mut Entry) -> c_int {
    // SAFETY: as the caller guarantees.
    let (directory, entry) = unsafe { (directory.as_ref(), entry.as_mut()) };
    let Some((directory, entry)) = directory.zip(entry) else { return 0 };
    let Some((name, is_directory, _)) = directory.take() else { return 0 };
    *entry = Entry { name: name.as_ptr(), is_directory: u8::from(*is_directory) };
    1
}

/// Returns the next entry of a directory, and describes it.
///
/// # Safety
/// As of [`namewire_readdir`]; `found` is null or points to a `struct namewire_stat`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn namewire_readdirplus(
    directory: *const Directory,
    entry: *mut Entry,
    found: *mut Stat,
) -> c_int {
    // SAFETY: as the caller guarantees.
    let (directory, entry, found) = unsafe { (directory.as_ref(), entry.as_mut(), found.as_mut()) };
    let Some(((directory, entry), found)) = directory.zip(entry).zip(found) else { return -1 };
    let Some((name, is_directory, stat)) = directory.take() else { return 0 };
    let Some(stat) = stat else { return -1 };
    *entry = Entry { name: name.as_ptr(), is_directory: u8::from(*is_directory) };
    *found = Stat::of(stat);
    1
}

/// Closes a directory.
///
/// # Safety
/// `directory` is null, or was returned by [`namewire_opendir`] and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn namewire_closedir(directory: *mut Directory) {
    // SAFETY: as the caller guarantees.
    unsafe { free(directory) };
}
