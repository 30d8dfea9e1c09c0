//! Waiting for readiness, and waking a thread that waits.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
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
/// A [stepped](Self::stepped) one never sleeps, and finds calls of its wakers without the kernel.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    stepped: Option<SteppedWakers>,
}

/// The wakers of a stepped [`Poller`].
#[derive(Debug, Default)]
struct SteppedWakers {
    /// Set by each call of one of them, and cleared by a search that finds none to be called.
    has_calls: Arc<AtomicBool>,
    /// Each with its token.
    wakers: RefCell<Vec<(u64, Arc<WakerState>)>>,
    /// Something other than wakers was added.
    has_descriptors: Cell<bool>,
    /// The waker with which a search begins: not always the same, if there is no room for the events of all.
    first: Cell<usize>,
}

impl Poller {
    /// An empty set.
    ///
    /// # Errors
    /// Those of `epoll_create1(2)`.
    pub fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, stepped: None })
    }

    /// An empty set for a forwarder on virtual time, which polls and wakes far more often than anything else: only
    /// descriptors that are not wakers take system calls. All its waits have a timeout of zero. No other thread calls a waker
    /// while it is added, and a waker that was added is in no other set afterwards.
    ///
    /// # Errors
    /// Those of `epoll_create1(2)`.
    pub fn stepped() -> io::Result<Self> {
        Ok(Self { stepped: Some(SteppedWakers::default()), ..Self::new()? })
    }

    /// Waits for `descriptor` too, and reports it as `token`. It leaves the set when it is closed.
    ///
    /// # Errors
    /// Those of `epoll_ctl(2)`, such as a descriptor that is in the set already.
    pub fn add(&self, descriptor: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        if let Some(stepped) = &self.stepped {
            stepped.has_descriptors.set(true);
        }
        Ok(epoll::add(&self.epoll, descriptor, EventData::new_u64(token), interest.flags())?)
    }

    /// Waits for calls of `waker` too, and reports them as `token`.
    ///
    /// # Errors
    /// Those of `epoll_ctl(2)`, such as a waker that is in the set already.
    pub fn add_waker(&self, waker: &Waker, token: u64) -> io::Result<()> {
        match &self.stepped {
            Some(stepped) => stepped.add(waker, token),
            None => Ok(epoll::add(&self.epoll, waker, EventData::new_u64(token), EventFlags::IN)?),
        }
    }

    /// Does not wait for calls of `waker` any more.
    ///
    /// # Errors
    /// Those of `epoll_ctl(2)`, such as a waker that is not in the set.
    pub fn remove_waker(&self, waker: &Waker) -> io::Result<()> {
        match &self.stepped {
            Some(stepped) => stepped.remove(waker),
            None => self.remove(waker),
        }
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

    /// Whether a wait might return events, without a system call: false only for a stepped set without descriptors whose
    /// wakers were not called since their last reset.
    #[must_use]
    pub fn may_have_events(&self) -> bool {
        let stepped = self.stepped.as_ref();
        stepped.is_none_or(|stepped| stepped.has_descriptors.get() || stepped.is_called())
    }

    /// Waits until a descriptor is ready or `timeout` has passed, `None` for as long as it takes.
    /// The time is rounded up to a millisecond; zero does not wait. A signal ends the wait without
    /// an event.
    ///
    /// # Errors
    /// Those of `epoll_wait(2)`.
    pub fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        events.clear();
        if let Some(stepped) = &self.stepped {
            debug_assert_eq!(timeout, Some(Duration::ZERO), "a stepped set never sleeps");
            let has_room = stepped.find_calls(events);
            if !stepped.has_descriptors.get() || !has_room {
                return Ok(());
            }
        }
        let timeout = timeout.map(whole_millis);
        match epoll::wait(&self.epoll, spare_capacity(&mut events.buffer), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Poller {
    /// Readable when a wait would return events; a stepped set has none of wakers there.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl SteppedWakers {
    fn add(&self, waker: &Waker, token: u64) -> io::Result<()> {
        if waker.state.stepped.set(Arc::clone(&self.has_calls)).is_err() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.wakers.borrow_mut().push((token, Arc::clone(&waker.state)));
        // It may have been called before.
        self.has_calls.store(true, Ordering::Release);
        Ok(())
    }

    fn remove(&self, waker: &Waker) -> io::Result<()> {
        let mut wakers = self.wakers.borrow_mut();
        let place = wakers.iter().position(|(_, state)| Arc::ptr_eq(state, &waker.state));
        wakers.remove(place.ok_or(io::ErrorKind::NotFound)?);
        Ok(())
    }

    /// Whether a waker was called and not reset.
    fn is_called(&self) -> bool {
        self.has_calls.load(Ordering::Relaxed)
            && self.search(|wakers| wakers.iter().any(|(_, state)| state.is_called()))
    }

    /// Adds the events of wakers that were called and not reset. Returns whether there is room for more.
    fn find_calls(&self, events: &mut Events) -> bool {
        if !self.has_calls.load(Ordering::Relaxed) {
            return true;
        }
        self.search(|wakers| {
            let first = self.first.get() % wakers.len().max(1);
            let (before, after) = wakers.split_at(first);
            let in_turn = after.iter().chain(before).zip(first..);
            for ((token, _), number) in in_turn.filter(|((_, state), _)| state.is_called()) {
                if events.buffer.len() == events.buffer.capacity() {
                    self.first.set(number);
                    break;
                }
                let data = EventData::new_u64(*token);
                events.buffer.push(epoll::Event { flags: EventFlags::IN, data });
            }
            !events.buffer.is_empty()
        });
        events.buffer.len() < events.buffer.capacity()
    }

    /// Calls `find` with the wakers, which returns whether one is called.
    fn search(&self, find: impl FnOnce(&[(u64, Arc<WakerState>)]) -> bool) -> bool {
        // First: a call during the search is noted for the next one. Acquire: the search finds the waker of a call that this
        // has seen.
        self.has_calls.swap(false, Ordering::Acquire);
        let is_called = find(&self.wakers.borrow());
        if is_called {
            // Not a store: that would hide a call of another thread at this moment from the next search.
            self.has_calls.fetch_or(true, Ordering::Relaxed);
        }
        is_called
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
    event: OwnedFd,
    state: Arc<WakerState>,
}

/// The state of a [`Waker`], which a stepped [`Poller`] reads.
#[derive(Debug, Default)]
struct WakerState {
    /// It was called since the last [`reset`](Waker::reset): another call changes nothing.
    is_awake: AtomicBool,
    /// In a stepped set: where a call is noted, in place of an event of the kernel.
    stepped: OnceLock<Arc<AtomicBool>>,
}

impl WakerState {
    /// Whether the waker was called since the last reset. One that was dropped is in no set any more.
    fn is_called(self: &Arc<Self>) -> bool {
        self.is_awake.load(Ordering::Acquire) && Arc::strong_count(self) > 1
    }
}

impl Waker {
    /// A waker that has not been called.
    ///
    /// # Errors
    /// Those of `eventfd(2)`.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { event, state: Arc::default() })
    }

    /// Makes the waker readable until [`reset`](Self::reset). Calls in between add nothing.
    pub fn wake(&self) {
        let WakerState { is_awake, stepped } = &*self.state;
        if !is_awake.swap(true, Ordering::AcqRel) {
            match stepped.get() {
                Some(has_calls) => has_calls.store(true, Ordering::Release),
                None => {
                    // The only possible failure is a counter that is full, and then it is readable anyway.
                    let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
                }
            }
        }
    }

    /// Makes the waker unreadable. Look for work after this, not before, or a call is missed.
    pub fn reset(&self) {
        if self.state.stepped.get().is_none() {
            // Fails only if the waker was not used.
            let _ = rustix::io::read(&self.event, &mut [0_u8; 8]);
        }
        // Last: a call before it writes nothing, and has made its work visible; a call after it writes.
        self.state.is_awake.swap(false, Ordering::AcqRel);
    }
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
        for poller in [Poller::new().unwrap(), Poller::stepped().unwrap()] {
            let wakers = [(); 2].map(|()| Waker::new().unwrap());
            let mut events = Events::with_capacity(4);
            let mut tokens = || {
                poller.wait(&mut events, NO_WAIT).unwrap();
                let tokens: Vec<_> = events.iter().map(|event| event.token).collect();
                assert!(tokens.is_empty() || poller.may_have_events());
                tokens
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
    }

    #[test]
    fn stepped_set_knows_whether_a_waker_is_called() {
        let (poller, wakers) =
            (Poller::stepped().unwrap(), [(); 3].map(|()| Waker::new().unwrap()));
        let mut events = Events::with_capacity(1);
        // The allocator may give more room than was asked for.
        let room = events.buffer.capacity();
        for (token, waker) in (0..).zip(&wakers) {
            poller.add_waker(waker, token).unwrap();
        }
        for _ in 0..3 {
            assert!(!poller.may_have_events());
            wakers[0].wake();
            wakers[1].wake();
            // Events are in turn if there is room for some of them only.
            let mut found = std::collections::BTreeSet::new();
            for _ in 0..2_usize.div_ceil(room) {
                assert!(poller.may_have_events());
                poller.wait(&mut events, NO_WAIT).unwrap();
                found.extend(events.iter().map(|event| event.token));
            }
            assert_eq!(found, [0, 1].into());
            wakers[0].reset();
            assert!(poller.may_have_events());
            wakers[1].reset();
        }
        wakers[2].wake();
        drop(wakers);
        assert!(!poller.may_have_events(), "a dropped waker is in no set");
        poller.wait(&mut events, NO_WAIT).unwrap();
        assert!(events.is_empty());
        assert!(Poller::new().unwrap().may_have_events(), "only a wait can say");
    }

    #[test]
    fn call_by_another_thread_is_found_by_a_stepped_set() {
        const COUNT: u64 = 20_000;
        let (poller, waker) = (Poller::stepped().unwrap(), Waker::new().unwrap());
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
            let mut seen = 0;
            while seen < COUNT {
                if poller.may_have_events() {
                    waker.reset();
                    seen = done.load(Ordering::Acquire);
                } else {
                    std::thread::yield_now();
                }
            }
        });
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
