//! State shared by the connection task and the handles: tables, output, connection state; and the
//! interface of producers, [`Handler`] and [`Request`].

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::num::NonZeroI32;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use ndn_packet::{DataBuilder, EncodeError, Interest, LpHeader, NackReason, Name, NameRef};
use ndn_security::{SignError, Signer, data_len_max, write_data};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::Instant;

use crate::lp::PitToken;
use crate::output::Output;
use crate::pending::PendingTable;

/// Output size in bytes above which no further Interests are served.
pub(crate) const OUTPUT_HIGH: usize = 1024 * 1024;

/// Time after a reconnection in which applications are still registering their prefixes, so that a
/// Nack of reason NoRoute is not final.
const SETTLING: Duration = Duration::from_secs(10);

/// State of the connection to the forwarder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionState {
    /// Connected.
    Connected,
    /// Lost; reconnecting.
    Reconnecting,
    /// Ended for good.
    Closed,
}

/// Served prefixes with longest prefix match.
#[derive(Default)]
pub(crate) struct Routes {
    next_id: u64,
    handlers: HashMap<Box<[u8]>, Route>,
    lengths: BTreeMap<usize, usize>,
}

pub(crate) struct Route {
    id: u64,
    prefix: Name,
    handler: Arc<dyn Handler>,
    /// Whether the prefix is registered with the forwarder.
    registered: bool,
}

impl Routes {
    /// Adds a handler; returns `None` if the prefix has one already.
    pub(crate) fn insert(&mut self, prefix: &Name, handler: Arc<dyn Handler>) -> Option<u64> {
        if self.handlers.contains_key(prefix.value()) {
            return None;
        }
        self.next_id += 1;
        let route = Route { id: self.next_id, prefix: prefix.clone(), handler, registered: false };
        self.handlers.insert(prefix.value().into(), route);
        *self.lengths.entry(prefix.len()).or_default() += 1;
        Some(self.next_id)
    }

    /// Removes a handler and returns it, to be dropped outside the lock: its destructor may lock
    /// too.
    #[must_use]
    pub(crate) fn remove(&mut self, prefix: &Name, id: u64) -> Option<Route> {
        if self.handlers.get(prefix.value()).is_none_or(|route| route.id != id) {
            return None;
        }
        let removed = self.handlers.remove(prefix.value());
        if let Some(count) = self.lengths.get_mut(&prefix.len()) {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&prefix.len());
            }
        }
        removed
    }

    pub(crate) fn set_registered(&mut self, prefix: &Name) {
        if let Some(route) = self.handlers.get_mut(prefix.value()) {
            route.registered = true;
        }
    }

    pub(crate) fn registered(&self) -> Vec<Name> {
        let registered = self.handlers.values().filter(|route| route.registered);
        registered.map(|route| route.prefix.clone()).collect()
    }

    pub(crate) fn find(&self, name: NameRef<'_>) -> Option<Arc<dyn Handler>> {
        self.lengths.range(..=name.len()).rev().find_map(|(length, _)| {
            let route = self.handlers.get(name.prefix(*length).value())?;
            Some(Arc::clone(&route.handler))
        })
    }

    /// Removes all handlers, to be dropped outside the lock.
    #[must_use]
    pub(crate) fn take_all(&mut self) -> Self {
        std::mem::take(self)
    }
}

/// The state under the lock.
#[derive(Default)]
pub(crate) struct Tables {
    pub(crate) pending: PendingTable,
    pub(crate) routes: Routes,
    pub(crate) output: Output,
    /// Time of the last reconnection.
    pub(crate) reconnected_at: Option<Instant>,
}

/// Shared between the connection's task and the handles.
pub(crate) struct Shared {
    tables: Mutex<Tables>,
    /// Wakes the writer.
    pub(crate) output_ready: Notify,
    /// Wakes the reader that waits for the output to shrink.
    pub(crate) output_space: Notify,
    /// Wakes blocking threads that wait for the output to shrink.
    blocking_space: Condvar,
    pub(crate) state: watch::Sender<ConnectionState>,
    /// Number of handles of the application; at zero the connection ends.
    handles: AtomicUsize,
    pub(crate) no_handles: Notify,
    /// The last datagram was refused: no process listens on the port.
    is_refused: AtomicBool,
    /// The process of the forwarder; 0 if it is not known.
    process: AtomicI32,
    /// Number of consecutive connections that ended before anything was received.
    pub(crate) turned_away: watch::Sender<u32>,
}

impl Shared {
    pub(crate) fn new(state: ConnectionState) -> Arc<Self> {
        Arc::new(Self {
            tables: Mutex::default(),
            output_ready: Notify::new(),
            output_space: Notify::new(),
            blocking_space: Condvar::new(),
            state: watch::Sender::new(state),
            handles: AtomicUsize::new(0),
            no_handles: Notify::new(),
            is_refused: AtomicBool::new(false),
            process: AtomicI32::new(0),
            turned_away: watch::Sender::new(0),
        })
    }

    /// Locks the tables, for a short time and never across an await.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Tables> {
        // No invariant spans a panic: handlers run outside the lock.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the tables once the output is below its limit; for blocking threads only.
    pub(crate) fn lock_with_space(&self) -> MutexGuard<'_, Tables> {
        let tables = self.lock();
        self.blocking_space
            .wait_while(tables, |tables| tables.output.len() >= OUTPUT_HIGH)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends to the output and wakes the writer.
    pub(crate) fn send<T>(&self, push: impl FnOnce(&mut Output) -> T) -> T {
        let result = push(&mut self.lock().output);
        self.output_ready.notify_one();
        result
    }

    /// Notifies all waiters that the output has shrunk.
    pub(crate) fn announce_space(&self) {
        self.output_space.notify_one();
        self.blocking_space.notify_all();
    }

    pub(crate) fn add_handle(&self) {
        self.handles.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove_handle(&self) {
        if self.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.no_handles.notify_one();
        }
    }

    /// Whether the forwarder reconnected a short time ago, so that routes may be missing.
    pub(crate) fn is_settling(&self) -> bool {
        self.lock().reconnected_at.is_some_and(|at| at.elapsed() < SETTLING)
    }

    /// Records whether the datagram port of the forwarder is open.
    pub(crate) fn set_refused(&self, is_refused: bool) {
        self.is_refused.store(is_refused, Ordering::Relaxed);
    }

    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }

    /// Records the process of the forwarder of the present connection.
    pub(crate) fn set_process(&self, process: Option<NonZeroI32>) {
        self.process.store(process.map_or(0, NonZeroI32::get), Ordering::Relaxed);
    }

    pub(crate) fn process(&self) -> Option<i32> {
        Some(self.process.load(Ordering::Relaxed)).filter(|process| *process != 0)
    }

    pub(crate) fn set_state(&self, state: ConnectionState) {
        self.state.send_replace(state);
    }
}

/// Maximum number of concurrent Interests of one asynchronous handler; more are dropped.
const REQUESTS_MAX: usize = 4096;

/// Handler of the Interests under a prefix.
pub trait Handler: Send + Sync + 'static {
    /// Handles one Interest. Called on the connection task: it must not block. It may answer at
    /// once, or keep the request and answer later from any thread, or never.
    fn handle(&self, request: Request);

    /// Called when no further Interest is available for now: a handler that wakes threads can do so
    /// once per batch.
    fn handle_batch_end(&self) {}
}

impl<F: Fn(Request) + Send + Sync + 'static> Handler for F {
    fn handle(&self, request: Request) {
        self(request);
    }
}

/// An Interest to be answered. If dropped without an answer, it times out.
pub struct Request {
    wire: Bytes,
    token: PitToken,
    shared: Arc<Shared>,
}

impl Request {
    /// `wire` must have been parsed as an Interest.
    pub(crate) fn new(wire: Bytes, token: PitToken, shared: Arc<Shared>) -> Self {
        Self { wire, token, shared }
    }

    /// The parsed Interest.
    #[must_use]
    pub fn interest(&self) -> Interest<'_> {
        Interest::parse(&self.wire).expect("parsed when it was received")
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> NameRef<'_> {
        self.interest().name()
    }

    /// Maximum length of an answer's link header.
    pub const HEADER_LEN_MAX: usize = 64;

    /// Writes the link header of an answer of `packet_len` bytes to the end of `out`, which has
    /// [`Self::HEADER_LEN_MAX`] bytes, and returns its length: 0 where none is needed.
    ///
    /// # Errors
    /// The header cannot be encoded.
    pub fn write_header(&self, packet_len: usize, out: &mut [u8]) -> Result<usize, EncodeError> {
        let header = self.header();
        if header.is_empty() {
            return Ok(0);
        }
        let length = header.encoded_len(packet_len);
        let start = out.len().checked_sub(length).ok_or(EncodeError::BufferTooSmall)?;
        header.write_prefix(packet_len, &mut out[start..])?;
        Ok(length)
    }

    pub(crate) fn token(&self) -> &PitToken {
        &self.token
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn header(&self) -> LpHeader<'_> {
        LpHeader { pit_token: self.token.as_bytes(), ..LpHeader::default() }
    }

    /// Answers with an encoded Data packet.
    pub fn answer(&self, data: &[u8]) {
        self.shared.send(|output| output.push(&self.header(), data));
    }

    /// Encodes and signs `data` as the answer, directly into the connection's output.
    ///
    /// # Errors
    /// When the packet cannot be encoded or signed; nothing is sent then.
    pub fn answer_with(
        &self,
        data: &DataBuilder<'_>,
        signer: &dyn Signer,
    ) -> Result<(), SignError> {
        self.shared.send(|output| push_data(output, &self.header(), data, signer))
    }

    /// As [`Self::answer_with`], for threads that may block: signs outside the lock and waits while
    /// the output is full.
    pub(crate) fn answer_blocking(
        &self,
        data: &DataBuilder<'_>,
        signer: &dyn Signer,
        scratch: &mut Vec<u8>,
    ) -> Result<(), SignError> {
        scratch.resize(data_len_max(data, signer), 0);
        let length = write_data(data, signer, scratch)?;
        let mut tables = self.shared.lock_with_space();
        tables.output.push(&self.header(), &scratch[..length]);
        drop(tables);
        self.shared.output_ready.notify_one();
        Ok(())
    }

    /// Answers with a Nack.
    pub fn nack(&self, reason: NackReason) {
        let header = LpHeader { nack: Some(reason), ..self.header() };
        self.shared.send(|output| output.push(&header, &self.wire));
    }
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request").field("name", &self.name()).finish_non_exhaustive()
    }
}

fn push_data(
    output: &mut Output,
    header: &LpHeader<'_>,
    data: &DataBuilder<'_>,
    signer: &dyn Signer,
) -> Result<(), SignError> {
    let length_max = data_len_max(data, signer);
    if header.is_empty() {
        return output.push_with(length_max, |out| write_data(data, signer, out));
    }
    // The header contains the length of the packet, which depends on the signature.
    let mut packet = vec![0; length_max];
    let length = write_data(data, signer, &mut packet)?;
    output.push(header, &packet[..length]);
    Ok(())
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A handler that runs an asynchronous function for each Interest.
pub struct AsyncHandler {
    run: Box<dyn Fn(Request) -> Work + Send + Sync>,
    places: Arc<Semaphore>,
}

impl AsyncHandler {
    /// Runs `function` in its own task for each Interest, at most 4096 at a time.
    pub fn new<F, W>(function: F) -> Self
    where
        F: Fn(Request) -> W + Send + Sync + 'static,
        W: Future<Output = ()> + Send + 'static,
    {
        let run = move |request| -> Work { Box::pin(function(request)) };
        Self { run: Box::new(run), places: Arc::new(Semaphore::new(REQUESTS_MAX)) }
    }
}

impl std::fmt::Debug for AsyncHandler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncHandler").finish_non_exhaustive()
    }
}

impl Handler for AsyncHandler {
    fn handle(&self, request: Request) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            tracing::debug!(name = %request.name(), "too many Interests at a time, one is dropped");
            return;
        };
        let work = (self.run)(request);
        tokio::spawn(async move {
            work.await;
            drop(place);
        });
    }
}
