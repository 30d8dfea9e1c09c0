//! The identity of the process, and dropping privileges.

use std::ffi::{CStr, CString};
use std::io;

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_keep_capabilities,
    set_no_new_privs,
};

/// Longest record of the databases of users and groups that is read.
const RECORD_LEN_MAX: usize = 1 << 20;
/// Groups of one user at most.
const GROUPS_MAX: usize = 65_536;

/// Means "unchanged" in `setresuid(2)` and `chown(2)`: no user has this number.
const UNCHANGED: u32 = u32::MAX;

/// A user of the system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name, or the number where the system has no name for it.
    pub name: String,
    /// The number.
    pub uid: u32,
    /// The primary group.
    pub gid: u32,
}

/// The identity that a process takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The user; not root.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// All groups, the group itself among them.
    pub groups: Vec<u32>,
}

/// A right of root's that can be kept without being root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// To bind ports below 1024 (`CAP_NET_BIND_SERVICE`).
    BindPorts,
    /// To open packet sockets, and to bind sockets to interfaces on kernels before 5.7 (`CAP_NET_RAW`).
    RawNetwork,
    /// To attach XDP programs (`CAP_NET_ADMIN`).
    NetworkAdmin,
    /// To load them (`CAP_BPF`).
    Bpf,
}

impl Capability {
    const fn set(self) -> CapabilitySet {
        match self {
            Self::BindPorts => CapabilitySet::NET_BIND_SERVICE,
            Self::RawNetwork => CapabilitySet::NET_RAW,
            Self::NetworkAdmin => CapabilitySet::NET_ADMIN,
            Self::Bpf => CapabilitySet::BPF,
        }
    }
}

/// The user with this name, or with this number.
///
/// # Errors
/// Those of `getpwnam_r(3)`.
pub fn find_user(name: &str) -> io::Result<Option<User>> {
    let text = CString::new(name)?;
    let found = with_record(|record, buffer| {
        let mut entry = std::ptr::null_mut();
        // SAFETY: the name ends in a zero byte, record and buffer are live and of the given lengths.
        let error = unsafe {
            libc::getpwnam_r(
                text.as_ptr(),
                record,
                buffer.as_mut_ptr(),
                buffer.len(),
                &raw mut entry,
            )
        };
        // SAFETY: the call has left a null pointer, or one to the record.
        let entry: Option<&libc::passwd> = unsafe { entry.as_ref() };
        (error, entry.map(|entry| (entry.pw_uid, entry.pw_gid)))
    })?;
    if let Some((uid, gid)) = found {
        if uid == UNCHANGED || gid == UNCHANGED {
            return Ok(None);
        }
        return Ok(Some(User { name: name.to_owned(), uid, gid }));
    }
    name.parse().map_or(Ok(None), user_with_number)
}

/// The name of the user with this number, or the number if there is none.
#[must_use]
pub fn user_name(uid: u32) -> String {
    user_with_number(uid).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name)
}

fn user_with_number(uid: u32) -> io::Result<Option<User>> {
    if uid == UNCHANGED {
        return Ok(None);
    }
    with_record(|record, buffer| {
        let mut entry = std::ptr::null_mut();
        // SAFETY: record and buffer are live and of the given lengths.
        let error = unsafe {
            libc::getpwuid_r(uid, record, buffer.as_mut_ptr(), buffer.len(), &raw mut entry)
        };
        // SAFETY: the call has left a null pointer, or one to the record.
        let entry: Option<&libc::passwd> = unsafe { entry.as_ref() };
        let user = entry.map(|entry| {
            // SAFETY: the name of a record that was found ends in a zero byte.
            let name = unsafe { CStr::from_ptr(entry.pw_name) }.to_string_lossy().into_owned();
            User { name, uid: entry.pw_uid, gid: entry.pw_gid }
        });
        (error, user)
    })
}

/// The number of the group with this name, or of this number.
///
/// # Errors
/// Those of `getgrnam_r(3)`.
pub fn find_group(name: &str) -> io::Result<Option<u32>> {
    let text = CString::new(name)?;
    let found = with_record(|record, buffer| {
        let mut entry = std::ptr::null_mut();
        // SAFETY: the name ends in a zero byte, record and buffer are live and of the given lengths.
        let error = unsafe {
            libc::getgrnam_r(
                text.as_ptr(),
                record,
                buffer.as_mut_ptr(),
                buffer.len(),
                &raw mut entry,
            )
        };
        // SAFETY: the call has left a null pointer, or one to the record.
        let entry: Option<&libc::group> = unsafe { entry.as_ref() };
        (error, entry.map(|entry| entry.gr_gid))
    })?;
    Ok(found.or_else(|| name.parse().ok()).filter(|group| *group != UNCHANGED))
}

/// Looks something up with an ever larger buffer, until it is large enough.
fn with_record<R, T>(
    mut poll: impl FnMut(*mut R, &mut [libc::c_char]) -> (libc::c_int, Option<T>),
) -> io::Result<Option<T>> {
    let mut length = 1024;
    loop {
        let mut buffer = vec![0; length];
        let mut record = std::mem::MaybeUninit::<R>::uninit();
        match poll(record.as_mut_ptr(), &mut buffer) {
            (libc::ERANGE, _) if length < RECORD_LEN_MAX => length *= 2,
            (0, found) => return Ok(found),
            // Systems differ in how they report a missing entry (getpwnam(3), "ERRORS").
            (libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM, _) => return Ok(None),
            (error, _) => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// All groups of a user whose group is `gid`.
///
/// # Errors
/// If the user is in too many groups.
pub fn groups_of(user: &User, gid: u32) -> io::Result<Vec<u32>> {
    let name = CString::new(user.name.as_str())?;
    let mut groups: Vec<libc::gid_t> = vec![0; 64];
    loop {
        let mut count = libc::c_int::try_from(groups.len()).unwrap_or(libc::c_int::MAX);
        // SAFETY: the name ends in a zero byte, and there is room for the given number of groups.
        let result =
            unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count) };
        let count = usize::try_from(count).unwrap_or(0);
        if result >= 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        if groups.len() >= GROUPS_MAX {
            return Err(io::Error::other(format!("{} is in too many groups", user.name)));
        }
        groups.resize(count.max(groups.len() * 2), 0);
    }
}

/// Whether this thread may change its identity.
#[must_use]
pub fn can_become_another() -> bool {
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
    capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

/// Gives up every right but those of `identity` and the capabilities in `kept`, for good: no program
/// that is started gets more either. Threads that are started later inherit it.
///
/// # Errors
/// If there are several threads already, which would keep theirs, and those of the calls, such as
/// for a user that this user namespace does not know. Privileges dropped before the error stay dropped.
pub fn become_identity(identity: &Identity, kept: &[Capability]) -> io::Result<()> {
    let Identity { uid, gid, groups } = identity;
    if [*uid, *gid].contains(&UNCHANGED) || groups.contains(&UNCHANGED) {
        return Err(io::Error::other(format!("{UNCHANGED} is no user and no group")));
    }
    if thread_count()? != 1 {
        return Err(io::Error::other("there are several threads already"));
    }
    let check = |what: &str, result: libc::c_int| match result {
        0 => Ok(()),
        _ => {
            let error = io::Error::last_os_error();
            Err(io::Error::new(error.kind(), format!("{what}: {error}")))
        }
    };
    set_keep_capabilities(!kept.is_empty())?;
    // SAFETY: the list is live and of the given length.
    check("setgroups", unsafe { libc::setgroups(groups.len(), groups.as_ptr()) })?;
    // SAFETY: these take numbers only.
    unsafe {
        check("setresgid", libc::setresgid(*gid, *gid, *gid))?;
        check("setresuid", libc::setresuid(*uid, *uid, *uid))?;
    }
    let kept = kept.iter().fold(CapabilitySet::empty(), |sets, capability| sets | capability.set());
    // Of those that there are: a container may have been given fewer.
    let kept = kept & capabilities(None)?.permitted;
    let inheritable = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable })?;
    set_keep_capabilities(false)?;
    set_no_new_privs(true)?;
    // SAFETY: it takes a number only.
    if unsafe { libc::setuid(0) } == 0 {
        return Err(io::Error::other("root's rights can be had back"));
    }
    Ok(())
}

/// Lets this process lock as much memory as it likes, or as much as it may: AF_XDP has the kernel lock
/// the memory for frames.
pub fn raise_locked_memory() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let no_limit = Rlimit { current: None, maximum: None };
    if setrlimit(Resource::Memlock, no_limit).is_err() {
        let maximum = getrlimit(Resource::Memlock).maximum;
        // If it may not be raised, the step that needs more memory reports the error.
        let _ = setrlimit(Resource::Memlock, Rlimit { current: maximum, maximum });
    }
}

/// Threads of this process.
fn thread_count() -> io::Result<usize> {
    Ok(std::fs::read_dir("/proc/self/task")?.count())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn users_and_groups_are_found_by_name_and_number() {
        let root = find_user("root").unwrap().unwrap();
        assert_eq!((root.uid, root.gid), (0, 0));
        assert_eq!(find_user("0").unwrap(), Some(root.clone()));
        assert_eq!(find_user("no-such-user-here").unwrap(), None);
        assert_eq!(find_user("4294967294").unwrap(), None);
        assert_eq!(find_user("4294967295").unwrap(), None);
        assert_eq!([0, 4_294_967_294].map(user_name), ["root", "4294967294"]);
        assert_eq!(find_group("4294967295").unwrap(), None);
        for (uid, gid) in [(u32::MAX, 7), (7, u32::MAX)] {
            let nobody = Identity { uid, gid, groups: vec![7] };
            let refused = become_identity(&nobody, &[]).unwrap_err().to_string();
            assert!(refused.contains("is no user"), "{refused}");
        }
        assert!(find_user("a\0b").is_err());
        assert_eq!(find_group("root").unwrap(), Some(0));
        assert_eq!(find_group("77").unwrap(), Some(77));
        assert_eq!(find_group("no-such-group-here").unwrap(), None);
        assert!(groups_of(&root, 77).unwrap().contains(&77));
    }

    #[test]
    fn privileges_are_not_dropped_while_other_threads_run() {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || stopped.recv());
        let before = rustix::process::getuid();
        let nobody = Identity { uid: 65_534, gid: 65_534, groups: vec![65_534] };
        assert!(become_identity(&nobody, &[]).is_err());
        assert_eq!(rustix::process::getuid(), before);
        drop(stop);
        let _ = other.join().unwrap();
    }
}
