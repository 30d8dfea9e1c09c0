//! The load generator: consumers and a producer on one thread, over the sockets of one forwarder.

use std::io;
use std::time::Duration;

use ndn_traffic::io::Endpoint;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::clock;
use super::window::{Tally, Window};
use super::wire::{self, INTEREST_LENGTH_MAX, ReceivedPacket};

/// Timeout of a lost exchange. Some forwarders need most of a second for a window of 4096.
const LOSS_TIMEOUT_NS: u64 = 2_000_000_000;
/// Maximum length of a stretch, even with too few exchanges.
const STRETCH_MAX_NS: u64 = 30_000_000_000;
/// Maximum wait in the kernel before lost exchanges are searched.
const WAIT_MAX: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// Maximum wait in an open loop before due exchanges are sent.
const OPEN_WAIT_MAX: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000 };
/// Maximum unsent output of a consumer that opens further exchanges.
const BACKLOG_MAX: usize = 512 * 1024;

/// One measured stretch of the closed loop.
#[derive(Debug)]
pub(super) struct Stretch {
    /// Outcomes of the exchanges.
    pub(super) tally: Tally,
    /// Length of the stretch.
    pub(super) wall_ns: u64,
    /// CPU time of this thread, without the time of polls that found no packet.
    pub(super) generator_cpu_ns: u64,
}

/// CPU time of polls in which the generator neither received nor sent a packet.
#[derive(Debug, Default)]
struct IdleTime {
    sum_ns: u64,
    /// CPU time at the end of the last poll, if it found nothing.
    since_ns: Option<u64>,
}

impl IdleTime {
    /// Records the end of a poll. The first of several idle polls in a row does not count: its start is unknown.
    fn note(&mut self, was_busy: bool) {
        if was_busy {
            self.since_ns = None;
            return;
        }
        let now_ns = clock::thread_cpu_ns();
        if let Some(since_ns) = self.since_ns.replace(now_ns) {
            self.sum_ns += now_ns - since_ns;
        }
        std::hint::spin_loop();
    }
}

/// Consumers and a producer connected to one forwarder.
#[derive(Debug)]
pub(super) struct Generator {
    consumers: Vec<Endpoint>,
    producer: Endpoint,
    window: Window,
    payload: Vec<u8>,
    mixed: bool,
    next_consumer: usize,
    /// Prefixes below that of the bench, if more than one: one per route.
    prefixes: u32,
    /// Exchanges started per second; `None` keeps the window full.
    rate: Option<u32>,
    /// Polling time before a wait in the kernel; zero disables polling.
    polling_ns: u64,
}

impl Generator {
    /// Creates a generator that sends Interests on `consumers` and answers them on `producer`.
    pub(super) fn new(consumers: Vec<Endpoint>, producer: Endpoint, prefixes: u32) -> Self {
        Self {
            consumers,
            producer,
            window: Window::new(1, 0),
            payload: Vec::new(),
            mixed: false,
            next_consumer: 0,
            prefixes,
            rate: None,
            polling_ns: 0,
        }
    }

    /// Sets the following load: `window` exchanges in flight over all consumers, Data with `payload` bytes of
    /// content, names of different lengths with `mixed`. Names are never reused.
    pub(super) fn reshape(&mut self, window: u32, payload: usize, mixed: bool) {
        self.window = Window::new(window, self.window.opened());
        self.payload = vec![0x5A; payload];
        self.mixed = mixed;
    }

    /// Sets the number of exchanges started per second, within the limit of the window; `None` starts one for each
    /// that ends.
    pub(super) fn set_rate(&mut self, rate: Option<u32>) {
        self.rate = rate;
    }

    /// Sets the polling time before a wait in the kernel. Fast programs with shared memory poll too (testpmd always):
    /// a wake-up takes longer than a window of exchanges.
    pub(super) fn set_polling(&mut self, polling: Duration) {
        self.polling_ns = u64::try_from(polling.as_nanos()).unwrap_or(u64::MAX);
    }

    /// Keeps the window full until `duration` has passed and the window has turned over `turns` times, but no longer
    /// than [`STRETCH_MAX_NS`]; counts the exchanges of that time.
    ///
    /// # Errors
    /// A socket fails or the forwarder closes it.
    pub(super) fn run(&mut self, duration: Duration, turns: u64) -> io::Result<Stretch> {
        let start = clock::monotonic_ns();
        let cpu_start = clock::thread_cpu_ns();
        let end = start + u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.window.take_tally();
        let enough = self.window.size() * turns;
        let mut now = start;
        let opened = self.window.opened();
        let (mut received_ns, mut idle) = (start, IdleTime::default());
        while now < end || self.window.ended() < enough && now < start + STRETCH_MAX_NS {
            let due = self.rate.map(|rate| (now - start) * u64::from(rate) / 1_000_000_000);
            let begun = self.window.opened() - opened;
            self.fill(now, due.map_or(u64::MAX, |due| due.saturating_sub(begun)))?;
            let has_sent = self.window.opened() - opened > begun;
            let polls = now - received_ns < self.polling_ns;
            if !polls {
                self.wait()?;
            }
            now = clock::monotonic_ns();
            let has_received = self.answer()? | self.collect(now)?;
            if has_received || !polls {
                received_ns = now;
            }
            idle.note(!polls || has_received || has_sent);
            self.window.expire(now, LOSS_TIMEOUT_NS);
        }
        Ok(Stretch {
            tally: self.window.take_tally(),
            wall_ns: now - start,
            generator_cpu_ns: (clock::thread_cpu_ns() - cpu_start).saturating_sub(idle.sum_ns),
        })
    }

    /// Opens at most `most` exchanges while the window has room, and sends their Interests.
    fn fill(&mut self, now: u64, most: u64) -> io::Result<()> {
        let count = self.consumers.len();
        let mut interest = [0; INTEREST_LENGTH_MAX];
        for _ in 0..most {
            let index = self.next_consumer % count;
            let consumer = &mut self.consumers[index];
            if consumer.backlog() > BACKLOG_MAX {
                break;
            }
            let Some((slot, sequence)) = self.window.open(now) else { break };
            // The second component: the face, or one of many prefixes.
            let second = match self.prefixes {
                1 => u32::try_from(index).unwrap_or(u32::MAX),
                prefixes => u32::try_from(sequence % u64::from(prefixes)).unwrap_or(0),
            };
            let length = wire::write_interest(&mut interest, second, slot, sequence, self.mixed);
            consumer.push(|out| out.extend_from_slice(&interest[..length]));
            self.next_consumer = index + 1;
        }
        for consumer in &mut self.consumers {
            if consumer.backlog() > 0 {
                consumer.flush()?;
            }
        }
        Ok(())
    }

    fn wait(&mut self) -> io::Result<()> {
        for endpoint in self.consumers.iter_mut().chain(std::iter::once(&mut self.producer)) {
            if endpoint.prepare_to_wait()? {
                return Ok(());
            }
        }
        let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(self.consumers.len() + 1);
        for endpoint in self.consumers.iter().chain(std::iter::once(&self.producer)) {
            let mut flags = PollFlags::IN;
            if endpoint.backlog() > 0 {
                flags |= PollFlags::OUT;
            }
            fds.push(PollFd::from_borrowed_fd(endpoint.fd(), flags));
        }
        let wait = if self.rate.is_some() { &OPEN_WAIT_MAX } else { &WAIT_MAX };
        match poll(&mut fds, Some(wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Producer: answers every Interest with its Data. Returns false if there was none.
    fn answer(&mut self) -> io::Result<bool> {
        let Self { producer, payload, .. } = self;
        let has_received = producer.receive(|tlv, output| {
            if let ReceivedPacket::Interest { name, pit_token } = wire::read_frame(tlv) {
                output.push(|out| wire::write_data(out, name, pit_token, payload));
            }
        })?;
        self.producer.flush()?;
        Ok(has_received)
    }

    /// Consumers: Data and Nacks free slots of the window. Returns false if there were none.
    fn collect(&mut self, now: u64) -> io::Result<bool> {
        let window = &mut self.window;
        let mut has_received = false;
        for consumer in &mut self.consumers {
            has_received |= consumer.receive(|tlv, _| match wire::read_frame(tlv) {
                ReceivedPacket::Data { slot, sequence } => {
                    window.close(slot, sequence, false, now);
                }
                ReceivedPacket::Nack { slot, sequence } => {
                    window.close(slot, sequence, true, now);
                }
                ReceivedPacket::Interest { .. } | ReceivedPacket::Other => {}
            })?;
        }
        Ok(has_received)
    }
}
