//! Reads and writes of a file by io_uring: one thread has many in progress.

use std::io;
use std::io::ErrorKind::{Interrupted, ResourceBusy, WouldBlock};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd as _};
use std::sync::Arc;
use std::time::Duration;

use io_uring::{IoUring, opcode, squeue, types};

use crate::poll::Waker;

/// Number of the entry that waits for the waker. Those of operations are small.
const WAKER: u64 = u64::MAX;

/// Pause before a wait is repeated that the kernel refused with EAGAIN or EBUSY.
const RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// A read or write, with a value of the caller.
#[derive(Debug)]
pub struct Operation<T> {
    /// Whether bytes are written to the file.
    pub is_write: bool,
    /// First byte of the file.
    pub offset: u64,
    /// Memory, which belongs to the operation until it has ended.
    pub memory: Vec<u8>,
    /// The part of the memory that is filled or written.
    pub range: Range<usize>,
    /// The value.
    pub value: T,
}

/// Operations on a file. The thread that makes the ring uses and drops it; for others, waits fail.
pub struct FileRing<F, T> {
    ring: IoUring,
    file: F,
    waker: Arc<Waker>,
    is_waker_polled: bool,
    /// Operations in progress by number: the kernel reads or writes their memory.
    operations: Vec<Option<Operation<T>>>,
    free: Vec<u32>,
}

impl<F, T> std::fmt::Debug for FileRing<F, T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let in_progress = self.operations.len() - self.free.len();
        formatter
            .debug_struct("FileRing")
            .field("in_progress", &in_progress)
            .finish_non_exhaustive()
    }
}

fn set_up(entries: u32) -> io::Result<IoUring> {
    IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(entries)
}

/// Whether the kernel grants a ring to this thread.
#[must_use]
pub fn is_available() -> bool {
    set_up(1).is_ok()
}

impl<F: AsFd, T> FileRing<F, T> {
    /// A ring for up to `capacity` operations in progress. Calls of `waker` end its [waits](Self::wait).
    ///
    /// # Errors
    /// Those of `io_uring_setup(2)`: the kernel is older than 6.1, or refuses io_uring (`kernel.io_uring_disabled`,
    /// filters of system calls).
    pub fn new(file: F, waker: Arc<Waker>, capacity: u32) -> io::Result<Self> {
        Ok(Self {
            ring: set_up(capacity.saturating_add(1))?,
            file,
            waker,
            is_waker_polled: false,
            operations: (0..capacity).map(|_| None).collect(),
            free: (0..capacity).collect(),
        })
    }

    /// Adds an operation, which begins with the next [wait](Self::wait).
    ///
    /// # Panics
    /// If there is no [room](Self::has_room), or the range exceeds the memory.
    pub fn push(&mut self, operation: Operation<T>) {
        // Before it is counted as in progress.
        assert!(operation.memory.get(operation.range.clone()).is_some(), "the range has no memory");
        let number = self.free.pop().expect("the caller has checked that there is room");
        let operation = self.operations[number as usize].insert(operation);
        let bytes = &mut operation.memory[operation.range.clone()];
        let file = types::Fd(self.file.as_fd().as_raw_fd());
        // The kernel moves less than this anyway (read(2)): the operation ends early.
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let entry = if operation.is_write {
            opcode::Write::new(file, bytes.as_ptr(), length).offset(operation.offset).build()
        } else {
            opcode::Read::new(file, bytes.as_mut_ptr(), length).offset(operation.offset).build()
        };
        self.submit(&entry.user_data(u64::from(number)));
    }
}

impl<F, T> FileRing<F, T> {
    /// Whether another operation can be added.
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Whether no operation is in progress.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.free.len() == self.operations.len()
    }

    /// Begins the operations that were added, and waits until one has ended or the waker was called, which is reset. Passes
    /// operations that have ended to `end`, with the number of bytes read or written, which may be less than requested. A
    /// signal ends the wait, too.
    ///
    /// # Errors
    /// Those of `io_uring_enter(2)`.
    pub fn wait(&mut self, mut end: impl FnMut(Operation<T>, io::Result<usize>)) -> io::Result<()> {
        if !self.is_waker_polled {
            let waker = types::Fd(self.waker.as_fd().as_raw_fd());
            let events = u32::from(libc::POLLIN.cast_unsigned());
            self.submit(&opcode::PollAdd::new(waker, events).build().user_data(WAKER));
            self.is_waker_polled = true;
        }
        match self.ring.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if error.kind() == Interrupted => {}
            // No memory for a request: the next wait tries it again. It would fail at once again for some time, so that
            // callers would spin.
            Err(error) if matches!(error.kind(), WouldBlock | ResourceBusy) => {
                std::thread::sleep(RETRY_INTERVAL);
            }
            Err(error) => return Err(error),
        }
        loop {
            let next = self.ring.completion().next();
            let Some(ended) = next else { return Ok(()) };
            if ended.user_data() == WAKER {
                self.waker.reset();
                self.is_waker_polled = false;
                continue;
            }
            let number = u32::try_from(ended.user_data()).unwrap_or(u32::MAX);
            let operation = self.operations.get_mut(number as usize).and_then(Option::take);
            let Some(operation) = operation else { continue };
            self.free.push(number);
            let result = usize::try_from(ended.result())
                .map_err(|_| io::Error::from_raw_os_error(-ended.result()));
            end(operation, result);
        }
    }

    fn submit(&mut self, entry: &squeue::Entry) {
        // SAFETY: the memory of an operation is on the heap and neither used nor freed until the kernel has reported its
        // end: the operation stays in `operations`, which only the ring can reach, and if the ring is dropped, it waits. The
        // descriptors are open until the kernel has accepted the entry, since `file` and `waker` are dropped after that.
        let pushed = unsafe { self.ring.submission().push(entry) };
        // There are as many entries as operations and one more, and the kernel takes all of them in each wait.
        pushed.expect("the queue has room for all operations and the waker");
    }
}

impl<F, T> Drop for FileRing<F, T> {
    /// Waits for the operations in progress.
    fn drop(&mut self) {
        while !self.is_idle() {
            if self.wait(|_, _| {}).is_err() {
                // Nobody will know when the kernel has ended: the memory stays allocated for ever.
                std::mem::forget(std::mem::take(&mut self.operations));
                return;
            }
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::fs::File;
    use std::io::Write as _;
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::FileExt as _;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{RecvTimeoutError, channel};

    use super::*;

    const BLOCK: usize = 4096;

    /// A ring of this thread; `None` where the kernel refuses io_uring.
    fn ring<F: AsFd, T>(file: F, capacity: u32) -> Option<(FileRing<F, T>, Arc<Waker>)> {
        let waker = Arc::new(Waker::new().unwrap());
        match FileRing::new(file, Arc::clone(&waker), capacity) {
            Ok(ring) => Some((ring, waker)),
            Err(error) => {
                eprintln!("skipped: io_uring is not available: {error}");
                None
            }
        }
    }

    fn operation(number: usize, memory: Vec<u8>, is_write: bool) -> Operation<usize> {
        let range = 16..16 + BLOCK;
        Operation { is_write, offset: (number * BLOCK) as u64, memory, range, value: number }
    }

    fn block(number: usize) -> Vec<u8> {
        vec![number.to_le_bytes()[0]; BLOCK + 32]
    }

    /// Carries operations out, and returns them with their results in the order of their numbers.
    fn carry_out(
        ring: &mut FileRing<&File, usize>,
        operations: Vec<Operation<usize>>,
    ) -> Vec<(Operation<usize>, io::Result<usize>)> {
        let (mut operations, mut ended) = (operations.into_iter(), Vec::new());
        loop {
            while ring.has_room()
                && let Some(operation) = operations.next()
            {
                ring.push(operation);
            }
            if ring.is_idle() {
                ended.sort_by_key(|(operation, _): &(Operation<usize>, _)| operation.value);
                return ended;
            }
            ring.wait(|operation, result| ended.push((operation, result))).unwrap();
        }
    }

    #[test]
    fn blocks_are_written_and_read() {
        let file = tempfile::tempfile().unwrap();
        let Some((mut ring, _)) = ring(&file, 8) else { return };
        let writes = (0..100).map(|number| operation(number, block(number), true)).collect();
        let written = carry_out(&mut ring, writes);
        assert!(written.iter().all(|(_, result)| matches!(result, Ok(BLOCK))));
        let mut found = vec![0; BLOCK];
        file.read_exact_at(&mut found, 7 * BLOCK as u64).unwrap();
        assert_eq!(found, block(7)[..BLOCK]);
        let reads = (0..101).map(|number| operation(number, block(0), false)).collect();
        let mut read = carry_out(&mut ring, reads);
        assert!(matches!(read.pop(), Some((_, Ok(0)))), "behind the end");
        assert_eq!(read.len(), 100);
        for (number, (operation, result)) in read.iter().enumerate() {
            assert!(matches!(result, Ok(BLOCK)), "{result:?}");
            assert_eq!(operation.memory[16..16 + BLOCK], block(number)[..BLOCK]);
            assert!(operation.memory[..16].iter().all(|&byte| byte == 0), "not of the range");
            assert!(operation.memory[16 + BLOCK..].iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn error_ends_one_operation() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, block(1)).unwrap();
        let file = File::open(&path).unwrap();
        let Some((mut ring, _)) = ring(&file, 2) else { return };
        let both = vec![operation(0, block(0), true), operation(0, block(0), false)];
        let mut results: Vec<_> = carry_out(&mut ring, both)
            .into_iter()
            .map(|(operation, result)| (operation.is_write, result.map_err(|e| e.raw_os_error())))
            .collect();
        results.sort_by_key(|(is_write, _)| *is_write);
        assert_eq!(results, [(false, Ok(BLOCK)), (true, Err(Some(libc::EBADF)))]);
    }

    #[test]
    fn drop_waits_for_operations_in_progress() {
        let (read_end, write_end) = rustix::pipe::pipe().unwrap();
        let is_written = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = channel();
        let thread = std::thread::spawn({
            let is_written = Arc::clone(&is_written);
            move || {
                let Some((mut ring, waker)) = ring::<OwnedFd, usize>(read_end, 1) else {
                    return true;
                };
                ring.push(operation(0, block(0), false));
                // The read begins, and nothing ends it.
                waker.wake();
                ring.wait(|_, _| panic!("the pipe is empty")).unwrap();
                sender.send(()).unwrap();
                drop(ring);
                is_written.load(Ordering::Acquire)
            }
        });
        if receiver.recv().is_err() {
            // There is no io_uring.
            assert!(thread.join().unwrap());
            return;
        }
        // A drop that does not wait has ended by then, and the sender with it.
        let ended = receiver.recv_timeout(Duration::from_millis(50));
        assert_eq!(ended, Err(RecvTimeoutError::Timeout));
        is_written.store(true, Ordering::Release);
        File::from(write_end).write_all(&[1]).unwrap();
        assert!(thread.join().unwrap());
    }

    #[test]
    fn filter_of_system_calls_is_an_error() {
        let refused = std::thread::spawn(|| {
            refuse_io_uring();
            let waker = Arc::new(Waker::new().unwrap());
            FileRing::<_, ()>::new(tempfile::tempfile().unwrap(), waker, 4).map(drop)
        });
        let error = refused.join().unwrap().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EPERM));
    }

    /// Lets io_uring_setup(2) of the calling thread fail, as container runtimes do.
    fn refuse_io_uring() {
        let instruction = |code: u32, jump_if_false: u8, k: u32| libc::sock_filter {
            code: u16::try_from(code).unwrap(),
            jt: 0,
            jf: jump_if_false,
            k,
        };
        let number = u32::try_from(libc::SYS_io_uring_setup).unwrap();
        let refusal = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
        let mut filter = [
            instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
            instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, number),
            instruction(libc::BPF_RET | libc::BPF_K, 0, refusal),
            instruction(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
        // SAFETY: the program outlives the calls, which affect the calling thread only.
        let results = unsafe {
            [
                libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
                libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program),
            ]
        };
        assert_eq!(results, [0, 0]);
    }
}
