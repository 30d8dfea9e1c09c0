//! Event loops: wait, read the clock, receive, send.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ndn_sys::clock;
use ndn_sys::cpu::CpuTimes;
use ndn_sys::poll::{Events, Interest, Poller};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::endpoint::{Calls, Endpoint};
use crate::{Consumer, Producer};

/// A face with this much unsent output gets no further Interests.
const BACKLOG_MAX: usize = 512 * 1024;
/// Maximum number of Interests made before received answers are handled.
const BURST_MAX: usize = 1024;
/// Longest wait, so that a request to stop is noticed.
const WAIT_MAX_NS: u64 = 100_000_000;
/// Typical lateness of the kernel's timers: shorter waits spin.
const TIMER_SLACK_NS: u64 = 80_000;
const NS_PER_MS: u64 = 1_000_000;
const PROGRESS_INTERVAL_NS: u64 = 1_000_000_000;

/// Resource usage of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunFigures {
    /// From the first packet to the end.
    pub wall: Duration,
    /// CPU time of its threads, user and kernel.
    pub cpu: Duration,
    /// System calls, and packets received by them.
    pub calls: Calls,
    /// Messages dropped by the kernel because the sockets were not read in time.
    pub receive_drops: u64,
}

impl RunFigures {
    /// Sum of two concurrent threads.
    #[must_use]
    pub fn beside(self, other: Self) -> Self {
        Self {
            wall: self.wall.max(other.wall),
            cpu: self.cpu + other.cpu,
            calls: self.calls.plus(other.calls),
            receive_drops: self.receive_drops + other.receive_drops,
        }
    }
}

/// A socket failed, or the forwarder closed it.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct RunError {
    /// The error.
    pub error: io::Error,
    /// Resource usage until then.
    pub figures: RunFigures,
}

impl From<io::Error> for RunError {
    /// Before anything was sent.
    fn from(error: io::Error) -> Self {
        Self { error, figures: RunFigures::default() }
    }
}

/// All faces of one generator.
struct Faces {
    endpoints: Vec<Endpoint>,
    poller: Poller,
    events: Events,
    writing: Vec<bool>,
}

impl Faces {
    fn new(endpoints: Vec<Endpoint>) -> io::Result<Self> {
        let poller = Poller::new()?;
        for (token, endpoint) in (0_u64..).zip(&endpoints) {
            poller.add(endpoint.fd(), token, Interest::Readable)?;
        }
        let count = endpoints.len();
        Ok(Self {
            endpoints,
            poller,
            events: Events::with_capacity(count.min(256)),
            writing: vec![false; count],
        })
    }

    /// Sends what the sockets accept; waits for those that do not accept all.
    fn flush(&mut self) -> io::Result<()> {
        for (index, endpoint) in self.endpoints.iter_mut().enumerate() {
            let blocked = endpoint.backlog() > 0 && !endpoint.flush()?;
            if blocked != self.writing[index] {
                let interest =
                    if blocked { Interest::ReadableAndWritable } else { Interest::Readable };
                self.poller.modify(endpoint.fd(), index as u64, interest)?;
                self.writing[index] = blocked;
            }
        }
        Ok(())
    }

    /// Waits for packets, or until `time_ns`.
    fn wait(&mut self, time_ns: u64) -> io::Result<()> {
        let time_ns = time_ns.min(WAIT_MAX_NS).saturating_sub(TIMER_SLACK_NS);
        if (1..NS_PER_MS).contains(&time_ns) {
            // epoll counts in milliseconds.
            let time = Timespec { tv_sec: 0, tv_nsec: i64::try_from(time_ns).unwrap_or(0) };
            let mut fds = [PollFd::from_borrowed_fd(self.poller.as_fd(), PollFlags::IN)];
            match poll(&mut fds, Some(&time)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let whole = Duration::from_millis(time_ns / NS_PER_MS);
        self.poller.wait(&mut self.events, Some(whole))
    }

    fn calls(&self) -> Calls {
        self.endpoints.iter().map(Endpoint::calls).fold(Calls::default(), Calls::plus)
    }

    /// The resource usage of a run with this start and result.
    fn figures(
        &self,
        start_ns: u64,
        cpu_start: Duration,
        ended: io::Result<()>,
    ) -> Result<RunFigures, RunError> {
        let figures = RunFigures {
            wall: Duration::from_nanos(clock::now() - start_ns),
            cpu: CpuTimes::of_thread()?.total().saturating_sub(cpu_start),
            calls: self.calls(),
            receive_drops: self.endpoints.iter().map(Endpoint::receive_drops).sum(),
        };
        match ended {
            Ok(()) => Ok(figures),
            Err(error) => Err(RunError { error, figures }),
        }
    }
}

/// Runs a consumer over connected sockets, face `n` on `endpoints[n]`, until it is done. It stops
/// sending at `end_ns`, or when `stop` becomes true. `progress` is called once a second.
///
/// # Errors
/// When a socket fails or the forwarder closes it.
pub fn run_consumer(
    consumer: &mut Consumer,
    endpoints: Vec<Endpoint>,
    end_ns: Option<u64>,
    stop: &AtomicBool,
    progress: impl FnMut(&Consumer),
) -> Result<RunFigures, RunError> {
    let mut faces = Faces::new(endpoints)?;
    let (start, cpu_start) = (clock::now(), CpuTimes::of_thread()?.total());
    let ended = ask(consumer, &mut faces, (start, end_ns), stop, progress);
    faces.figures(start, cpu_start, ended)
}

/// Sends Interests from the first of these times to the second, and handles the answers.
fn ask(
    consumer: &mut Consumer,
    faces: &mut Faces,
    (start, end_ns): (u64, Option<u64>),
    stop: &AtomicBool,
    mut progress: impl FnMut(&Consumer),
) -> io::Result<()> {
    let (mut now, mut next_progress) = (start, start + PROGRESS_INTERVAL_NS);
    loop {
        if stop.load(Ordering::Relaxed) || end_ns.is_some_and(|end| end <= now) {
            consumer.stop();
        }
        consumer.handle_timeout(now);
        if consumer.is_done() {
            return Ok(());
        }
        let all_made = make_interests(consumer, &mut faces.endpoints, now);
        faces.flush()?;
        let deadline = consumer.next_deadline().unwrap_or(u64::MAX);
        // After the end, only answers and expiries are awaited.
        let deadline = end_ns.filter(|&end| end > now).map_or(deadline, |end| deadline.min(end));
        faces.wait(if all_made { deadline.saturating_sub(now) } else { 0 })?;
        now = clock::now();
        let Faces { endpoints, events, .. } = &mut *faces;
        for event in events.iter().filter(|event| event.readable || event.closed) {
            let face = usize::try_from(event.token).unwrap_or(usize::MAX);
            let Some(endpoint) = endpoints.get_mut(face) else { continue };
            endpoint.receive(|frame, _| consumer.handle_frame(face, frame, now))?;
        }
        if now >= next_progress {
            next_progress = now + PROGRESS_INTERVAL_NS;
            progress(consumer);
        }
    }
}

/// Makes the due Interests; returns false when there are more than a burst.
fn make_interests(consumer: &mut Consumer, endpoints: &mut [Endpoint], now: u64) -> bool {
    let mut skipped = 0;
    for _ in 0..BURST_MAX {
        let Some(face) = consumer.next_face(now) else { return true };
        if endpoints[face].backlog() > BACKLOG_MAX {
            consumer.skip_face();
            skipped += 1;
            if skipped == endpoints.len() {
                return true;
            }
            continue;
        }
        let interest = consumer.make_interest(now);
        endpoints[face].push(|out| out.extend_from_slice(interest));
    }
    false
}

/// Runs a producer over connected sockets until `stop` becomes true. `progress` is called once a
/// second.
///
/// # Errors
/// When a socket fails or the forwarder closes it.
pub fn run_producer(
    producer: &mut Producer,
    endpoints: Vec<Endpoint>,
    stop: &AtomicBool,
    progress: impl FnMut(&Producer),
) -> Result<RunFigures, RunError> {
    let mut faces = Faces::new(endpoints)?;
    let (start, cpu_start) = (clock::now(), CpuTimes::of_thread()?.total());
    let ended = answer(producer, &mut faces, start, stop, progress);
    faces.figures(start, cpu_start, ended)
}

/// Answers received Interests, from `start` on.
fn answer(
    producer: &mut Producer,
    faces: &mut Faces,
    start: u64,
    stop: &AtomicBool,
    mut progress: impl FnMut(&Producer),
) -> io::Result<()> {
    let mut next_progress = start + PROGRESS_INTERVAL_NS;
    while !stop.load(Ordering::Relaxed) {
        faces.wait(WAIT_MAX_NS)?;
        let Faces { endpoints, events, .. } = &mut *faces;
        for event in events.iter().filter(|event| event.readable || event.closed) {
            let face = usize::try_from(event.token).unwrap_or(usize::MAX);
            // A peer that does not read its answers gets no others.
            let Some(endpoint) = endpoints.get_mut(face) else { continue };
            if endpoint.backlog() <= BACKLOG_MAX {
                endpoint.receive(|frame, output| {
                    producer.handle_frame(frame, |write| output.push(|out| write(out)));
                })?;
            }
        }
        faces.flush()?;
        let now = clock::now();
        if now >= next_progress {
            next_progress = now + PROGRESS_INTERVAL_NS;
            progress(producer);
        }
    }
    Ok(())
}
