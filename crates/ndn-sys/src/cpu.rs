//! Processors, CPU time and process limits.

use std::io;
use std::num::NonZeroU64;
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setpriority_process, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// Runs the calling thread on processor `cpu` only.
///
/// # Errors
/// If there is no such processor, or it is not allowed to this process.
pub fn pin_thread(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("no processor {cpu}")));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// Lets the calling thread run on these processors only.
///
/// # Errors
/// If none of them is allowed to this process.
pub fn allow_cpus(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU).for_each(|&cpu| set.set(cpu));
    Ok(sched_setaffinity(None, &set)?)
}

/// Gives the calling thread the highest priority of ordinary threads (nice -20).
///
/// # Errors
/// Those of `setpriority(2)`: without `CAP_SYS_NICE`, `RLIMIT_NICE` usually forbids it.
pub fn raise_priority() -> io::Result<()> {
    // Of the calling thread, not of its process.
    Ok(setpriority_process(None, -20)?)
}

/// Requests slices of this length from the scheduler for the calling thread, 0.1 to 100 ms. A thread with short slices that uses
/// less than its share of a processor runs as soon as it wakes up, and not when the slice of another thread ends
/// (`sched_setattr(2)`). Linux before 6.12 ignores it; a thread of another scheduling policy than `SCHED_OTHER` stays as it is.
///
/// # Errors
/// Those of `sched_getattr(2)` and `sched_setattr(2)`.
pub fn set_slice(slice: Duration) -> io::Result<()> {
    let size = u32::try_from(size_of::<libc::sched_attr>()).unwrap_or(0);
    let mut attributes = std::mem::MaybeUninit::<libc::sched_attr>::zeroed();
    // SAFETY: the kernel writes at most `size` bytes, and all bytes of the structure are initialized.
    let mut attributes = unsafe {
        let place = attributes.as_mut_ptr();
        if libc::syscall(libc::SYS_sched_getattr, 0, place, size, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        attributes.assume_init()
    };
    if attributes.sched_policy != libc::SCHED_OTHER.cast_unsigned() {
        return Ok(());
    }
    attributes.sched_runtime = u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX);
    // SAFETY: the kernel reads as many bytes as `size` of the structure says.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets timers of the calling thread fire up to `slack` after their time, in place of 50 µs. Threads that it starts inherit it.
///
/// # Errors
/// Those of `PR_SET_TIMERSLACK(2const)`.
pub fn set_timer_slack(slack: Duration) -> io::Result<()> {
    // Zero would request the default.
    let slack_ns = u64::try_from(slack.as_nanos()).unwrap_or(u64::MAX).max(1);
    Ok(rustix::thread::set_current_timer_slack(NonZeroU64::new(slack_ns))?)
}

/// Processors that the calling thread may run on, in ascending order.
///
/// # Errors
/// Those of `sched_getaffinity(2)`.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// CPU time used so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuTimes {
    /// In the program itself.
    pub user: Duration,
    /// In the kernel on its behalf.
    pub system: Duration,
}

impl CpuTimes {
    /// Of the whole process.
    ///
    /// # Errors
    /// Those of `getrusage(2)`.
    pub fn of_process() -> io::Result<Self> {
        Self::read(libc::RUSAGE_SELF)
    }

    /// Of the calling thread.
    ///
    /// # Errors
    /// Those of `getrusage(2)`.
    pub fn of_thread() -> io::Result<Self> {
        Self::read(libc::RUSAGE_THREAD)
    }

    /// Of the child processes that have ended and been waited for.
    ///
    /// # Errors
    /// Those of `getrusage(2)`.
    pub fn of_children() -> io::Result<Self> {
        Self::read(libc::RUSAGE_CHILDREN)
    }

    /// User and system time together.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.user + self.system
    }

    fn read(target: libc::c_int) -> io::Result<Self> {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: the call fills the whole structure if it returns 0.
        let usage = unsafe {
            if libc::getrusage(target, usage.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            usage.assume_init()
        };
        Ok(Self { user: duration(usage.ru_utime), system: duration(usage.ru_stime) })
    }
}

/// CPU time that the calling thread has used so far. Exact, where [`CpuTimes::of_thread`] is as old as the last tick of the
/// scheduler.
#[must_use]
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Mean steal time of these processors since boot, in nanoseconds: the time for which the host of a virtual machine had
/// them run something else. The kernel counts it in steps of 10 ms.
#[must_use]
pub fn steal_ns_of(cpus: &[usize]) -> u64 {
    const NS_PER_TICK: u64 = 10_000_000;
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let of = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let cpu = fields.next()?.strip_prefix("cpu")?.parse::<usize>().ok()?;
        let ticks = fields.nth(7)?.parse::<u64>().ok()?;
        cpus.contains(&cpu).then_some(ticks * NS_PER_TICK)
    };
    let count = u64::try_from(cpus.len()).unwrap_or(1).max(1);
    text.lines().filter_map(of).sum::<u64>() / count
}

/// CPU time that the process `pid` has used so far, user and system, in all its threads, those that
/// have ended included.
///
/// # Errors
/// If there is no such process, or it may not be inspected.
pub fn process_time(pid: u32) -> io::Result<Duration> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut clock: libc::clockid_t = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: each call stores one value of the type that it is given a pointer to.
    unsafe {
        // Unlike most calls it returns the error instead of setting `errno`.
        match libc::clock_getcpuclockid(pid, &raw mut clock) {
            0 => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
        if libc::clock_gettime(clock, &raw mut time) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0))
        + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0)))
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0))
        + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
}

/// Raises the number of descriptors that the process may have open as far as it may without
/// privileges, and returns it; `None` for no limit.
///
/// # Errors
/// Those of `setrlimit(2)`.
pub fn raise_descriptor_limit() -> io::Result<Option<u64>> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        setrlimit(Resource::Nofile, limit)?;
    }
    Ok(limit.current)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_is_pinned_where_it_may_run() {
        std::thread::spawn(|| {
            let cpu = *allowed_cpus().unwrap().last().unwrap();
            pin_thread(cpu).unwrap();
            assert_eq!(allowed_cpus().unwrap(), [cpu]);
            assert!(pin_thread(usize::MAX).is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn raised_priority_and_exact_timers_are_those_of_the_thread() {
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let before = nice();
        std::thread::spawn(move || {
            set_timer_slack(Duration::ZERO).unwrap();
            assert_eq!(rustix::thread::current_timer_slack().unwrap(), 1);
            // Not everybody may do so.
            if raise_priority().is_ok() {
                assert_eq!(nice(), -20);
            }
        })
        .join()
        .unwrap();
        assert_eq!(nice(), before);
    }

    #[test]
    fn short_slices_keep_the_nice_value() {
        std::thread::spawn(|| {
            let nice = || rustix::process::getpriority_process(None).unwrap();
            let before = nice();
            set_slice(Duration::from_micros(100)).unwrap();
            assert_eq!(nice(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn cpu_time_grows_with_work() {
        let before = CpuTimes::of_thread().unwrap();
        let mut sum = 0_u64;
        while CpuTimes::of_thread().unwrap().total() == before.total() {
            sum = std::hint::black_box((0..100_000_u64).fold(sum, u64::wrapping_add));
        }
        assert!(CpuTimes::of_process().unwrap().total() >= before.total());
    }

    #[test]
    fn cpu_time_of_a_process_includes_all_threads() {
        let id = std::process::id();
        let (earlier, measured) = (CpuTimes::of_process().unwrap(), process_time(id).unwrap());
        let later = process_time(id).unwrap();
        // The kernel counts one of them in microseconds.
        assert!(earlier.total() <= measured + Duration::from_millis(1) && measured <= later);
        assert!(process_time(u32::MAX).is_err());
    }

    #[test]
    fn descriptor_limit_is_at_its_maximum() {
        let limit = raise_descriptor_limit().unwrap();
        assert_eq!(limit, getrlimit(Resource::Nofile).maximum);
    }
}
