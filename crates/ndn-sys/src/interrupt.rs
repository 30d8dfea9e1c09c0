//! Interrupts of shared rings: eventfds that a peer holds as well, and may use as it likes.
//!
//! Whether reading and writing an eventfd waits is a flag of what both processes have open, so the peer
//! can change it at any time, and can fill the counter: a plain `write(2)` could then block for ever.
//! Nothing here does. The counter is read with `RWF_NOWAIT`, and added to by the kernel itself, which
//! does so at the end of an asynchronous read (`IOCB_FLAG_RESFD`) and never waits for room.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, ReadWriteFlags};

/// Reads that may be unfinished or unprocessed.
const READS_MAX: usize = 64;
/// `IOCB_CMD_PREAD`.
const COMMAND_READ: u16 = 0;
/// `IOCB_FLAG_RESFD`.
const FLAG_SIGNAL: u32 = 1;

/// An eventfd that both sides of a ring have.
#[derive(Debug)]
pub struct Interrupt {
    event: OwnedFd,
}

impl Interrupt {
    /// A new one.
    ///
    /// # Errors
    /// Those of `eventfd(2)`, and as for [`adopt`](Self::adopt).
    pub fn new() -> io::Result<Self> {
        Self { event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? }.checked()
    }

    /// The interrupt of a peer. Check the ring once before waiting for it.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it is something else, [`io::ErrorKind::Unsupported`] on a
    /// kernel that cannot read it without waiting (before 5.8).
    pub fn adopt(event: OwnedFd) -> io::Result<Self> {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", event.as_raw_fd()))?;
        match link.to_str() {
            Some("anon_inode:[eventfd]") => Self { event }.checked(),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "an interrupt is no eventfd")),
        }
    }

    /// Clears pending interrupts, so that it is no longer readable. Check the ring after
    /// this, not before, or an interrupt is missed.
    pub fn clear(&self) {
        // It fails only if no interrupt is pending.
        let _ = self.read();
    }

    fn read(&self) -> Result<usize, Errno> {
        let mut counter = [0; 8];
        let mut slices = [IoSliceMut::new(&mut counter)];
        // At the file's own position, which eventfds ignore.
        rustix::io::preadv2(&self.event, &mut slices, u64::MAX, ReadWriteFlags::NOWAIT)
    }

    fn checked(self) -> io::Result<Self> {
        match self.read() {
            Ok(_) | Err(Errno::AGAIN) => Ok(self),
            Err(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl AsFd for Interrupt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// `struct iocb` of `linux/aio_abi.h`, little-endian.
#[repr(C)]
#[derive(Default)]
struct Request {
    data: u64,
    #[cfg(target_endian = "big")]
    flags_of_key: u32,
    key: u32,
    #[cfg(target_endian = "little")]
    flags_of_key: u32,
    command: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    length: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    signalled: u32,
}

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Completion {
    data: u64,
    request: u64,
    result: i64,
    second_result: i64,
}

const _: () = assert!(size_of::<Request>() == 64 && size_of::<Completion>() == 32);

/// Raises interrupts without ever waiting.
#[derive(Debug)]
pub struct Interrupter {
    /// An `aio_context_t`: an address, that of a ring which the kernel has mapped.
    context: NonNull<libc::c_void>,
    /// `/dev/zero`, of which zero bytes are read.
    nothing: OwnedFd,
    /// Reads since completions were taken for the last time.
    unseen: usize,
}

// SAFETY: the context is of the process, and used by one thread at a time.
unsafe impl Send for Interrupter {}

impl Interrupter {
    /// One for all rings of a thread.
    ///
    /// # Errors
    /// Those of `io_setup(2)`: the system has a limit (`/proc/sys/fs/aio-max-nr`).
    pub fn new() -> io::Result<Self> {
        let nothing = std::fs::File::open("/dev/zero")?.into();
        let mut context: *mut libc::c_void = std::ptr::null_mut();
        // SAFETY: the kernel stores one address.
        let result = unsafe { libc::syscall(libc::SYS_io_setup, READS_MAX, &raw mut context) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        let context = NonNull::new(context).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { context, nothing, unseen: 0 })
    }

    /// Raises `interrupt`.
    ///
    /// # Errors
    /// Those of `io_submit(2)`: a broken invariant, as nothing that the peer does matters here.
    pub fn raise(&mut self, interrupt: &Interrupt) -> io::Result<()> {
        if self.unseen == READS_MAX {
            self.forget_completions();
        }
        let descriptor = |fd: BorrowedFd<'_>| u32::try_from(fd.as_raw_fd()).unwrap_or(u32::MAX);
        let mut request = Request {
            command: COMMAND_READ,
            file: descriptor(self.nothing.as_fd()),
            flags: FLAG_SIGNAL,
            signalled: descriptor(interrupt.as_fd()),
            ..Request::default()
        };
        let mut requests = [&raw mut request];
        // SAFETY: one live request, which reads no bytes into no buffer, and is over when the call
        // returns, because such a file has nothing to wait for.
        let result = unsafe {
            libc::syscall(libc::SYS_io_submit, self.context.as_ptr(), 1_i64, requests.as_mut_ptr())
        };
        if result == 1 {
            self.unseen += 1;
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Makes room for further reads.
    fn forget_completions(&mut self) {
        let mut completions = [Completion::default(); READS_MAX];
        let no_wait = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: there is room for the requested number of completions.
        unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context.as_ptr(),
                0_i64,
                READS_MAX,
                completions.as_mut_ptr(),
                &raw const no_wait,
            )
        };
        self.unseen = 0;
    }
}

impl Drop for Interrupter {
    fn drop(&mut self) {
        // SAFETY: the context is not used after this.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::poll::{Events, Interest, Poller};

    fn is_raised(poller: &Poller) -> bool {
        let mut events = Events::with_capacity(1);
        poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
        !events.is_empty()
    }

    #[test]
    fn interrupts_are_raised_and_cleared() {
        let (interrupt, mut interrupter) = (Interrupt::new().unwrap(), Interrupter::new().unwrap());
        let peer = Interrupt::adopt(interrupt.as_fd().try_clone_to_owned().unwrap()).unwrap();
        let poller = Poller::new().unwrap();
        poller.add(&peer, 1, Interest::Readable).unwrap();
        for _ in 0..5 {
            assert!(!is_raised(&poller));
            for _ in 0..3 * READS_MAX {
                interrupter.raise(&interrupt).unwrap();
            }
            assert!(is_raised(&poller));
            peer.clear();
        }
    }

    #[test]
    fn full_counter_of_a_blocking_descriptor_does_not_block() {
        let (interrupt, mut interrupter) = (Interrupt::new().unwrap(), Interrupter::new().unwrap());
        rustix::io::ioctl_fionbio(&interrupt, false).unwrap();
        interrupt.clear();
        rustix::io::write(&interrupt.event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        for _ in 0..3 * READS_MAX {
            interrupter.raise(&interrupt).unwrap();
        }
        interrupt.clear();
        interrupt.clear();
    }

    #[test]
    fn descriptor_of_another_kind_is_rejected() {
        let (pipe, _) = rustix::pipe::pipe().unwrap();
        assert!(Interrupt::adopt(pipe).is_err());
        assert!(Interrupt::adopt(tempfile::tempfile().unwrap().into()).is_err());
    }
}
