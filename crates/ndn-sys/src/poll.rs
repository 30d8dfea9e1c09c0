//! Waiting for readiness, and waking a thread that waits.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

/// The events to wait for on a descriptor. Errors and hang-ups are always reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// There is something to read or to accept.
    Readable,
    /// Also when there is room to write.
    ReadableAndWritable,
    /// Only when there is room to write, or a connection attempt has ended.
    Writable,
    /// Only errors and hang-ups.
    Closed,
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Self::Readable => EventFlags::IN,
            Self::ReadableAndWritable => EventFlags::IN | EventFlags::OUT,
            Self::Writable => EventFlags::OUT,
            Self::Closed => EventFlags::empty(),
        }
    }
}

/// Readiness of one descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The token given to [`Poller::add`].
    pub token: u64,
    /// Reading will not block: there is data, the end of the stream, or an error to fetch.
    pub readable: bool,
    /// Writing will not block, or will fail.
    pub writable: bool,
    /// Hang-up or error.
    pub closed: bool,
}

/// Room for the events of one wait, and for as many that were [pushed](Self::push): the kernel, which
/// fills its room if it can, leaves them theirs.
pub struct Events {
    buffer: Vec<epoll::Event>,
    pushed: Vec<epoll::Event>,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

impl Events {
    /// Room for `capacity` events (at least 1) of the kernel, and for as many pushed ones.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Self { buffer: Vec::with_capacity(capacity), pushed: Vec::with_capacity(capacity) }
    }

    /// Number of events of the last wait, and of those pushed since.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.len() + self.pushed.len()
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.pushed.clear();
    }

    /// Adds an event that the source with this token is readable; false if there is no room. The
    /// event is [writable](Event::writable), too, which distinguishes it from one of the kernel.
    #[must_use]
    pub fn push(&mut self, token: u64) -> bool {
        let has_room = self.pushed.len() < self.pushed.capacity();
        if has_room {
            let flags = EventFlags::IN | EventFlags::OUT;
            self.pushed.push(epoll::Event { flags, data: EventData::new_u64(token) });
        }
        has_room
    }

    /// Whether there is no event.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty() && self.pushed.is_empty()
    }

    /// Event `index`: those of the last wait come first, and then those pushed since.
    ///
    /// # Panics
    /// If there are no more than `index`.
    #[must_use]
    pub fn event(&self, index: usize) -> Event {
        let epoll::Event { flags, data, .. } = match self.buffer.get(index) {
            Some(event) => *event,
            None => self.pushed[index - self.buffer.len()],
        };
        let closed = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        Event {
            token: data.u64(),
            readable: closed || flags.contains(EventFlags::IN),
            writable: closed || flags.contains(EventFlags::OUT),
            closed,
        }
    }

    /// All events.
    pub fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        (0..self.len()).map(|index| self.event(index))
    }
}

/// A set of descriptors to wait for (epoll, level-triggered).
///
/// Until the first wait that may sleep, calls of its wakers are found without the kernel, and the kernel is asked for other
/// descriptors only: a simulation of whole forwarders
/// polls and wakes far more often than anything else, and never sleeps.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    wakers: RefCell<Vec<WakerInSet>>,
    /// Something other than wakers was added.
    has_descriptors: Cell<bool>,
    /// There was a wait that might sleep, of this set or of one that has its descriptor.
    has_slept: Cell<bool>,
    /// The waker of which calls are looked for first: not always the same, if there is no room for the events of all.
    first: Cell<usize>,
}

/// A waker in a [`Poller`], which does not keep its descriptor open.
#[derive(Debug)]
struct WakerInSet {
    token: u64,
    flags: Arc<WakerFlags>,
    event: Weak<OwnedFd>,
}

impl Poller {
    /// An empty set.
    ///
    /// # Errors
    /// Those of `epoll_create1(2)`.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            wakers: RefCell::default(),
            has_descriptors: Cell::default(),
            has_slept: Cell::default(),
            first: Cell::default(),
        })
    }

    /// Waits for `descriptor` too, and reports it as `token`. It leaves the set when it is closed.
    ///
    /// # Errors
    /// Those of `epoll_ctl(2)`, such as a descriptor that is in the set already.
    pub fn add(&self, descriptor: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        self.has_descriptors.set(true);
        Ok(epoll::add(&self.epoll, descriptor, EventData::new_u64(token), interest.flags())?)
    }

    /// Waits for calls of `waker` too, and reports them as `token`.
    ///
    /// # Errors
    /// Those of `epoll_ctl(2)`, such as a waker that is in the set already.
    pub fn add_waker(&self, waker: &Waker, token: u64) -> io::Result<()> {
        epoll::add(&self.epoll, waker, EventData::new_u64(token), EventFlags::IN)?;
        if !self.has_slept.get() {
            waker.flags.needs_event.store(false, Ordering::SeqCst);
            waker.clear_event();
        }
        let event = Arc::downgrade(&waker.event);
        let one = WakerInSet { token, flags: Arc::clone(&waker.flags), event };
        if self.has_slept.get() {
            one.use_event();
        }
        self.wakers.borrow_mut().push(one);
        Ok(())
    }

    /// Does not wait for calls of `waker` any more.
    ///
    /// # Errors
    /// Those of `epoll_ctl(2)`, such as a waker that is not in the set.
    pub fn remove_waker(&self, waker: &Waker) -> io::Result<()> {
        self.wakers.borrow_mut().retain(|other| !Arc::ptr_eq(&other.flags, &waker.flags));
        if !waker.flags.needs_event.swap(true, Ordering::SeqCst) && waker.flags.is_awake() {
            write_event(&waker.event);
        }
        Ok(epoll::delete(&self.epoll, waker)?)
    }

    /// Changes the events to wait for on `descriptor`, and its token.
    ///
    /// # Errors
    /// Those of `epoll_ctl(2)`, such as a descriptor that is not in the set.
    pub fn modify(&self, descriptor: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, descriptor, EventData::new_u64(token), interest.flags())?)
    }

    /// Does not wait for `descriptor` any more.
    ///
    /// # Errors
    /// Those of `epoll_ctl(2)`, such as a descriptor that is not in the set.
    pub fn remove(&self, descriptor: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, descriptor)?)
    }

    /// Waits until a descriptor is ready or `timeout` has passed, `None` for as long as it takes.
    /// The time is rounded up to a millisecond; zero does not wait. A signal ends the wait without
    /// an event.
    ///
    /// # Errors
    /// Those of `epoll_wait(2)`.
    pub fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        events.clear();
        if timeout != Some(Duration::ZERO) {
            self.use_events();
        }
        if !self.has_slept.get() {
            let has_room = self.find_calls(events);
            if !self.has_descriptors.get() || !has_room {
                return Ok(());
            }
        }
        let timeout = timeout.map(whole_millis);
        match epoll::wait(&self.epoll, spare_capacity(&mut events.buffer), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// From now on a thread may wait for the descriptor of the set.
    fn use_events(&self) {
        if !self.has_slept.replace(true) {
            self.wakers.borrow().iter().for_each(WakerInSet::use_event);
        }
    }

    /// Adds the events of wakers that were called and not reset. Returns whether there is room for more.
    fn find_calls(&self, events: &mut Events) -> bool {
        let wakers = self.wakers.borrow();
        let first = self.first.get() % wakers.len().max(1);
        let (before, after) = wakers.split_at(first);
        let in_turn = after.iter().chain(before).zip(first..);
        for (waker, number) in in_turn.filter(|(waker, _)| waker.is_called()) {
            if events.buffer.len() == events.buffer.capacity() {
                self.first.set(number);
                break;
            }
            let data = EventData::new_u64(waker.token);
            events.buffer.push(epoll::Event { flags: EventFlags::IN, data });
        }
        events.buffer.len() < events.buffer.capacity()
    }
}

impl WakerInSet {
    fn is_called(&self) -> bool {
        // One that was dropped is not in the set any more.
        self.flags.is_awake() && self.event.strong_count() > 0
    }

    /// From now on its calls are events of the kernel.
    fn use_event(&self) {
        self.flags.needs_event.store(true, Ordering::SeqCst);
        // A call at the same time finds this flag, or is found here.
        if let Some(event) = self.event.upgrade()
            && self.flags.is_awake()
        {
            write_event(&event);
        }
    }
}

impl Drop for Poller {
    /// Its wakers may be in another set afterwards.
    fn drop(&mut self) {
        self.use_events();
    }
}

impl AsFd for Poller {
    /// Readable when a wait would return events.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.use_events();
        self.epoll.as_fd()
    }
}

/// Milliseconds for `epoll_wait`, whose maximum is about 24 days.
fn whole_millis(timeout: Duration) -> Timespec {
    let millis = timeout.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128);
    let millis = i64::try_from(millis).unwrap_or(i64::from(i32::MAX));
    Timespec { tv_sec: millis / 1000, tv_nsec: millis % 1000 * 1_000_000 }
}

/// Wakes the thread that waits for it in a [`Poller`] (eventfd).
#[derive(Debug)]
pub struct Waker {
    event: Arc<OwnedFd>,
    flags: Arc<WakerFlags>,
}

/// State of a [`Waker`].
#[derive(Debug)]
struct WakerFlags {
    /// It was called since the last [`reset`](Waker::reset): another call changes nothing.
    is_awake: AtomicBool,
    /// A thread may wait for its descriptor.
    needs_event: AtomicBool,
}

impl WakerFlags {
    fn is_awake(&self) -> bool {
        self.is_awake.load(Ordering::SeqCst)
    }
}

impl Waker {
    /// A waker that has not been called.
    ///
    /// # Errors
    /// Those of `eventfd(2)`.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (is_awake, needs_event) = (AtomicBool::new(false), AtomicBool::new(true));
        let flags = Arc::new(WakerFlags { is_awake, needs_event });
        Ok(Self { event: Arc::new(event), flags })
    }

    /// Makes the waker readable until [`reset`](Self::reset). Calls in between add nothing.
    pub fn wake(&self) {
        if !self.flags.is_awake.swap(true, Ordering::SeqCst)
            && self.flags.needs_event.load(Ordering::SeqCst)
        {
            write_event(&self.event);
        }
    }

    /// Makes the waker unreadable. Look for work after this, not before, or a call is missed.
    pub fn reset(&self) {
        if self.flags.needs_event.load(Ordering::SeqCst) {
            self.clear_event();
        }
        // Last: a call before it writes nothing, and has made its work visible; a call after it writes.
        self.flags.is_awake.swap(false, Ordering::SeqCst);
    }

    fn clear_event(&self) {
        // Fails only if the waker was not used.
        let _ = rustix::io::read(&self.event, &mut [0_u8; 8]);
    }
}

fn write_event(event: &OwnedFd) {
    // The only possible failure is a counter that is full, and then it is readable anyway.
    let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_WAIT: Option<Duration> = Some(Duration::ZERO);

    #[test]
    fn waker_is_readable_until_it_is_reset() {
        let (poller, waker) = (Poller::new().unwrap(), Waker::new().unwrap());
        let mut events = Events::with_capacity(4);
        poller.add_waker(&waker, 7).unwrap();
        poller.wait(&mut events, NO_WAIT).unwrap();
        assert!(events.is_empty());
        waker.wake();
        waker.wake();
        for _ in 0..2 {
            poller.wait(&mut events, None).unwrap();
            let expected = Event { token: 7, readable: true, writable: false, closed: false };
            assert_eq!(events.iter().collect::<Vec<_>>(), [expected]);
        }
        waker.reset();
        waker.reset();
        poller.wait(&mut events, NO_WAIT).unwrap();
        assert!(events.is_empty());
    }

    #[test]
    fn waker_is_reported_with_and_without_other_descriptors() {
        let (near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
        let (poller, wakers) = (Poller::new().unwrap(), [(); 2].map(|()| Waker::new().unwrap()));
        let mut events = Events::with_capacity(4);
        let mut tokens = || {
            poller.wait(&mut events, NO_WAIT).unwrap();
            events.iter().map(|event| event.token).collect::<Vec<_>>()
        };
        wakers[0].wake();
        for (token, waker) in (0..).zip(&wakers) {
            poller.add_waker(waker, token).unwrap();
            assert!(poller.add_waker(waker, token).is_err());
        }
        for _ in 0..2 {
            assert_eq!(tokens(), [0]);
            wakers[0].reset();
            assert_eq!(tokens(), []);
            wakers[1].wake();
            assert_eq!(tokens(), [1]);
            wakers[1].reset();
            wakers[0].wake();
            poller.add(&near, 7, Interest::Readable).unwrap();
            assert_eq!(tokens(), [0]);
            poller.remove(&near).unwrap();
        }
        poller.remove_waker(&wakers[0]).unwrap();
        assert_eq!(tokens(), []);
        assert!(poller.remove_waker(&wakers[0]).is_err());
    }

    /// Until the first wait that may sleep, events are in turn if there is room for some of them only, and those of wakers that
    /// were dropped are none.
    #[test]
    fn calls_are_found_before_the_first_sleep_and_after_it() {
        let (poller, wakers) = (Poller::new().unwrap(), [(); 3].map(|()| Waker::new().unwrap()));
        let mut events = Events::with_capacity(1);
        // The allocator may give more room than was asked for.
        let room = events.buffer.capacity();
        wakers[0].wake();
        for (token, waker) in (0..).zip(&wakers) {
            poller.add_waker(waker, token).unwrap();
        }
        wakers[1].wake();
        let mut found = std::collections::BTreeSet::new();
        for _ in 0..2_usize.div_ceil(room) {
            poller.wait(&mut events, NO_WAIT).unwrap();
            found.extend(events.iter().map(|event| event.token));
        }
        assert_eq!(found, [0, 1].into());
        // Calls that were no events of the kernel become some.
        let mut found = std::collections::BTreeSet::new();
        for _ in 0..2_usize.div_ceil(room) {
            poller.wait(&mut events, None).unwrap();
            for event in events.iter() {
                found.insert(event.token);
                wakers[usize::try_from(event.token).unwrap()].reset();
            }
        }
        assert_eq!(found, [0, 1].into());
        poller.wait(&mut events, NO_WAIT).unwrap();
        assert!(events.is_empty());
        wakers[2].wake();
        poller.wait(&mut events, None).unwrap();
        assert_eq!(events.event(0).token, 2);
        let (poller, waker) = (Poller::new().unwrap(), Waker::new().unwrap());
        poller.add_waker(&waker, 7).unwrap();
        waker.wake();
        drop(waker);
        poller.wait(&mut events, NO_WAIT).unwrap();
        assert!(events.is_empty());
    }

    /// Each call that follows a reset is seen by a wait, however calls and resets overlap.
    #[test]
    fn wake_up_by_another_thread_is_not_lost() {
        const COUNT: u64 = 20_000;
        let (poller, waker) = (Poller::new().unwrap(), Waker::new().unwrap());
        let done = std::sync::atomic::AtomicU64::new(0);
        poller.add_waker(&waker, 1).unwrap();
        std::thread::scope(|scope| {
            let (waker, done) = (&waker, &done);
            scope.spawn(move || {
                for number in 1..=COUNT {
                    done.store(number, Ordering::Release);
                    waker.wake();
                }
            });
            let mut events = Events::with_capacity(1);
            while done.load(Ordering::Acquire) < COUNT {
                let seen = done.load(Ordering::Acquire);
                poller.wait(&mut events, Some(Duration::from_secs(10))).unwrap();
                assert!(!events.is_empty(), "the call after number {seen} was lost");
                waker.reset();
            }
        });
    }

    #[test]
    fn wake_up_at_the_first_sleep_is_not_lost() {
        let mut events = Events::with_capacity(1);
        for _ in 0..500 {
            let (poller, waker) = (Poller::new().unwrap(), Waker::new().unwrap());
            poller.add_waker(&waker, 1).unwrap();
            let begin = std::sync::Barrier::new(2);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    begin.wait();
                    waker.wake();
                });
                begin.wait();
                poller.wait(&mut events, Some(Duration::from_secs(10))).unwrap();
                assert!(!events.is_empty(), "the call was lost");
            });
        }
    }

    #[test]
    fn interest_and_membership_change() {
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let poller = Poller::new().unwrap();
        let mut events = Events::with_capacity(4);
        poller.add(&near, 1, Interest::Readable).unwrap();
        assert!(poller.add(&near, 1, Interest::Readable).is_err());
        poller.modify(&near, 2, Interest::ReadableAndWritable).unwrap();
        poller.wait(&mut events, None).unwrap();
        let expected = Event { token: 2, readable: false, writable: true, closed: false };
        assert_eq!(events.event(0), expected);
        drop(far);
        poller.modify(&near, 3, Interest::Writable).unwrap();
        poller.wait(&mut events, None).unwrap();
        assert!(events.event(0).closed && events.event(0).readable);
        poller.remove(&near).unwrap();
        poller.wait(&mut events, NO_WAIT).unwrap();
        assert!(events.is_empty());
        assert!(poller.remove(&near).is_err());
    }

    #[test]
    fn wait_leaves_room_for_pushed_events() {
        let (poller, wakers) = (Poller::new().unwrap(), [(); 3].map(|()| Waker::new().unwrap()));
        for (token, waker) in (0..).zip(&wakers) {
            poller.add(waker, token, Interest::Readable).unwrap();
            waker.wake();
        }
        let mut events = Events::with_capacity(2);
        for _ in 0..3 {
            poller.wait(&mut events, None).unwrap();
            assert_eq!(events.len(), 2, "forgets what was pushed, and fills its room");
            // However much room the allocator gave.
            let pushed: Vec<u64> = (10..).take_while(|&token| events.push(token)).collect();
            assert!(pushed.len() >= 2);
            assert_eq!(events.len(), 2 + pushed.len());
            assert!(events.iter().take(2).all(|event| event.token < 3 && !event.writable));
            let last: Vec<_> = events.iter().skip(2).collect();
            assert!(last.iter().all(|event| event.readable && event.writable && !event.closed));
            assert_eq!(last.iter().map(|event| event.token).collect::<Vec<_>>(), pushed);
        }
        events.clear();
        assert!(events.is_empty() && events.push(1) && !events.is_empty());
    }

    #[test]
    fn timeouts_are_rounded_up() {
        assert_eq!(whole_millis(Duration::ZERO).tv_nsec, 0);
        assert_eq!(whole_millis(Duration::from_nanos(1)).tv_nsec, 1_000_000);
        assert_eq!(whole_millis(Duration::from_millis(2500)).tv_sec, 2);
        assert_eq!(whole_millis(Duration::MAX).tv_sec, i64::from(i32::MAX) / 1000);
    }
}
