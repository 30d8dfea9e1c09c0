//! Structures of the header.

use std::ffi::{c_char, c_void};

/// `struct namewire_options`.
#[derive(Debug)]
#[repr(C)]
pub struct Options {
    pub(crate) size: usize,
    pub(crate) transport: *const c_char,
    pub(crate) verify: *const c_char,
    pub(crate) timeout_ms: u64,
    pub(crate) lifetime_ms: u64,
    pub(crate) metadata_lifetime_ms: u64,
    pub(crate) cache_bytes: u64,
    pub(crate) read_ahead_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            size: size_of::<Self>(),
            transport: std::ptr::null(),
            verify: std::ptr::null(),
            timeout_ms: 0,
            lifetime_ms: 0,
            metadata_lifetime_ms: 0,
            cache_bytes: 0,
            read_ahead_bytes: 0,
        }
    }
}

/// `struct namewire_stat`.
#[derive(Debug)]
#[repr(C)]
pub struct Stat {
    size: u64,
    modified_ns: u64,
    version: u64,
    permissions: u32,
    is_directory: u8,
    size_known: u8,
}

impl Stat {
    pub(crate) fn of(stat: &ndn_access::Stat) -> Self {
        Self {
            size: stat.size.unwrap_or(0),
            modified_ns: stat.modified_ns.unwrap_or(0),
            version: stat.version().unwrap_or(0),
            permissions: stat.permissions.unwrap_or(0).into(),
            is_directory: stat.is_directory.into(),
            size_known: stat.size.is_some().into(),
        }
    }
}

/// `struct namewire_entry`.
#[derive(Debug)]
#[repr(C)]
pub struct Entry {
    pub(crate) name: *const c_char,
    pub(crate) is_directory: u8,
}

/// `struct namewire_part`.
#[derive(Debug)]
#[repr(C)]
pub struct Part {
    pub(crate) offset: u64,
    pub(crate) buffer: *mut c_void,
    pub(crate) length: usize,
    pub(crate) read: usize,
}
