//! The application's handle to the network.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ndn_packet::Name;
use ndn_security::Signer;
use ndn_types::duration_ms;
use tokio::sync::watch;

use crate::address::ForwarderAddress;
use crate::pending::{FlowEvent, Key};
use crate::shared::{ConnectionState, Shared};

/// What all handles of one endpoint have in common.
pub(crate) struct Common {
    pub(crate) shared: Arc<Shared>,
    pub(crate) command_signer: Arc<dyn Signer>,
    /// `/localhost/nfd`, or `/localhop/nfd` where the forwarder does not take us for local.
    pub(crate) command_prefix: Name,
    /// SignatureTime of the last command; each is later than the one before.
    pub(crate) last_command_ms: AtomicU64,
    pub(crate) address: Option<ForwarderAddress>,
}

impl Common {
    /// Time for the next command, in milliseconds since 1970.
    pub(crate) fn next_command_ms(&self) -> u64 {
        let now = unix_ms();
        let step = |last: u64| Some(now.max(last + 1));
        match self.last_command_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step) {
            Ok(last) | Err(last) => now.max(last + 1),
        }
    }
}

/// Milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    duration_ms(ndn_sys::clock::wall_clock())
}

/// A connection to a forwarder, over which Interests are expressed and served. Cheap to clone; when
/// the last clone is dropped, what is queued is written and the connection ends.
pub struct Endpoint {
    common: Arc<Common>,
}

impl Endpoint {
    pub(crate) fn of(common: Arc<Common>) -> Self {
        common.shared.add_handle();
        Self { common }
    }

    pub(crate) fn common(&self) -> &Common {
        &self.common
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.common.shared
    }

    /// The forwarder's address that was connected to first; `None` for a stream given by the caller.
    #[must_use]
    pub fn address(&self) -> Option<&ForwarderAddress> {
        self.common.address.as_ref()
    }

    /// Whether the last datagram to the forwarder was refused: nobody has its port.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.shared().is_refused()
    }

    /// The state of the connection, and its changes. It is closed at last when no handle is left and everything is
    /// written; over WebTransport, when the other side has been told of the end, too.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<ConnectionState> {
        self.shared().state.subscribe()
    }

    /// How many connections in a row have ended before anything came by them, and its changes. A forwarder that has
    /// as many faces as it may takes a connection and closes it at once, as does one that refuses us.
    #[must_use]
    pub fn turned_away(&self) -> watch::Receiver<u32> {
        self.shared().turned_away.subscribe()
    }

    /// Number of Interests that wait for an answer.
    #[must_use]
    pub fn pending_count(&self) -> usize {
        self.shared().lock().pending.len()
    }

    /// Opens a flow: Data exactly one component below `prefix` come through the returned receiver,
    /// at most `capacity` waiting. For who sends many Interests with names of one prefix.
    #[must_use]
    pub fn open_flow(&self, prefix: &Name, capacity: usize) -> Flow {
        let (sender, receiver) = tokio::sync::mpsc::channel(capacity.max(1));
        let key = self.shared().lock().pending.insert_flow(prefix.as_ref(), sender);
        Flow { endpoint: self.clone(), key, receiver }
    }

    /// Sends encoded Interests that lie one behind the other. Answers come only through flows.
    pub fn send_packets(&self, packets: &[u8]) {
        self.shared().send(|output| output.push(&ndn_packet::LpHeader::default(), packets));
    }
}

impl Clone for Endpoint {
    fn clone(&self) -> Self {
        Self::of(Arc::clone(&self.common))
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.common.shared.remove_handle();
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("address", &self.common.address).finish_non_exhaustive()
    }
}

/// The receiving end of [`Endpoint::open_flow`]; dropped, the flow ends.
#[derive(Debug)]
pub struct Flow {
    endpoint: Endpoint,
    key: Key,
    receiver: tokio::sync::mpsc::Receiver<FlowEvent>,
}

impl Flow {
    /// Waits for events and appends them to `events`, at most `limit`; returns how many came, 0 if
    /// the endpoint is closed.
    pub async fn receive(&mut self, events: &mut Vec<FlowEvent>, limit: usize) -> usize {
        self.receiver.recv_many(events, limit).await
    }

    /// The endpoint that it belongs to.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.endpoint.shared().lock().pending.remove(&self.key);
    }
}
