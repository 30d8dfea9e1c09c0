//! Structures of the header.

use std::ffi::{c_char, c_void};

use ndn_access::{AccessError, DiskCacheCounters};

use crate::error::{TEXT_LEN, invalid, text_of};

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
    pub(crate) cache_dir: *const c_char,
    pub(crate) cache_dir_size: *const c_char,
}

/// Options that begin with their size.
///
/// # Safety
/// The first member is the size, as `usize`; all members are integers or pointers of the size of the alignment.
pub(crate) unsafe trait SizedOptions: Default {}

// SAFETY: as the trait requires.
unsafe impl SizedOptions for Options {}

// SAFETY: as the trait requires.
unsafe impl SizedOptions for ServeOptions {}

/// A copy of the options of a caller, who may have been compiled with an older version of the library: what that did not have
/// is zero. The defaults if `options` is null.
///
/// # Safety
/// `options` is null or points to as many bytes as its first member states.
pub(crate) unsafe fn copy_of<T: SizedOptions>(options: *const T) -> Result<T, AccessError> {
    let mut own = T::default();
    if options.is_null() {
        return Ok(own);
    }
    // SAFETY: as the caller guarantees.
    let size = unsafe { options.cast::<usize>().read() };
    let is_ours = (size_of::<usize>()..=size_of::<T>()).contains(&size);
    // No member is cut.
    if !is_ours || !size.is_multiple_of(align_of::<T>()) {
        return Err(invalid(
            "the size of the options is wrong, or that of a newer version of the library",
        ));
    }
    // SAFETY: both have `size` bytes, and every member is an integer or a pointer.
    unsafe {
        std::ptr::copy_nonoverlapping(options.cast::<u8>(), (&raw mut own).cast(), size);
    }
    Ok(own)
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
            cache_dir: std::ptr::null(),
            cache_dir_size: std::ptr::null(),
        }
    }
}

/// `struct namewire_serve_options`.
#[derive(Debug)]
#[repr(C)]
pub struct ServeOptions {
    pub(crate) size: usize,
    pub(crate) sign: *const c_char,
    pub(crate) freshness_ms: u64,
    pub(crate) segment_bytes: usize,
    pub(crate) manifest_directory: *const c_char,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            size: size_of::<Self>(),
            sign: std::ptr::null(),
            freshness_ms: 0,
            segment_bytes: 0,
            manifest_directory: std::ptr::null(),
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

/// `struct namewire_lookup`.
#[derive(Debug)]
#[repr(C)]
pub struct Lookup {
    pub(crate) name: *const c_char,
    pub(crate) stat: Stat,
    pub(crate) exists: u8,
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

/// `struct namewire_cache_counters`.
#[derive(Debug)]
#[repr(C)]
pub struct CacheCounters {
    memory_bytes: u64,
    hits: u64,
    misses: u64,
    damaged: u64,
    stored: u64,
    dropped: u64,
    evicted_bytes: u64,
    warning: [c_char; TEXT_LEN],
}

impl CacheCounters {
    pub(crate) fn of(access: &ndn_access::Access) -> Self {
        let memory_bytes = u64::try_from(access.cached_bytes()).unwrap_or(u64::MAX);
        let DiskCacheCounters { hits, misses, damaged, stored, dropped, evicted_bytes, warning } =
            access.disk_cache().unwrap_or_default();
        let warning = text_of(&warning.unwrap_or_default());
        Self { memory_bytes, hits, misses, damaged, stored, dropped, evicted_bytes, warning }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;
    use std::path::Path;
    use std::process::Command;

    use super::*;
    use crate::error::Error;

    /// The sizes and offsets of structures, as expressions in C with their values here.
    macro_rules! layouts {
        ($($structure:literal $own:ident { $($member:ident),* })*) => {
            [$(
                (format!("sizeof(struct {})", $structure), size_of::<$own>()),
                (format!("_Alignof(struct {})", $structure), align_of::<$own>()),
                $((
                    format!("offsetof(struct {}, {})", $structure, stringify!($member)),
                    offset_of!($own, $member),
                ),)*
            )*]
        };
    }

    #[test]
    fn structures_have_the_layout_of_the_header() {
        let layouts = layouts! {
            "namewire_error" Error { number, text }
            "namewire_options" Options {
                size, transport, verify, timeout_ms, lifetime_ms, metadata_lifetime_ms, cache_bytes,
                read_ahead_bytes, cache_dir, cache_dir_size
            }
            "namewire_serve_options" ServeOptions {
                size, sign, freshness_ms, segment_bytes, manifest_directory
            }
            "namewire_stat" Stat {
                size, modified_ns, version, permissions, is_directory, size_known
            }
            "namewire_entry" Entry { name, is_directory }
            "namewire_lookup" Lookup { name, stat, exists }
            "namewire_part" Part { offset, buffer, length, read }
            "namewire_cache_counters" CacheCounters {
                memory_bytes, hits, misses, damaged, stored, dropped, evicted_bytes, warning
            }
        };
        let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/namewire.h");
        let text = std::fs::read_to_string(&header).unwrap();
        let defined =
            text.lines().filter(|line| line.starts_with("struct ") && line.ends_with('{'));
        let sizes = layouts.iter().filter(|(expression, _)| expression.starts_with("sizeof"));
        assert_eq!(defined.count(), sizes.count(), "all structures of the header are compared");

        let directory = tempfile::tempdir().unwrap();
        let [source, program] = ["layout.c", "layout"].map(|name| directory.path().join(name));
        let mut code =
            "#include <namewire.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void)\n{\n"
                .to_owned();
        for (expression, _) in &layouts {
            code.push_str(&format!("\tprintf(\"{expression} %zu\\n\", {expression});\n"));
        }
        code.push_str("\treturn 0;\n}\n");
        std::fs::write(&source, code).unwrap();
        let mut compile = Command::new("cc");
        compile.arg("-std=c11").arg("-I").arg(header.parent().unwrap());
        compile.arg(&source).arg("-o").arg(&program);
        let compiled = compile
            .output()
            .unwrap_or_else(|error| panic!("cc is needed to compare with the header: {error}"));
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        let printed = String::from_utf8(Command::new(program).output().unwrap().stdout).unwrap();
        let own: Vec<_> =
            layouts.iter().map(|(expression, value)| format!("{expression} {value}")).collect();
        assert_eq!(printed.lines().collect::<Vec<_>>(), own);
    }
}
