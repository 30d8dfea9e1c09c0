//! The application's handle.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ndn_packet::Name;
use ndn_security::Signer;
use ndn_types::duration_ms;
use tokio::sync::watch;

use crate::address::ForwarderAddress;
use crate::pending::{FlowEvent, Key};
use crate::shared::{ConnectionState, Shared};

/// State shared by all handles of one endpoint.
pub(crate) struct Common {
    pub(crate) shared: Arc<Shared>,
    pub(crate) command_signer: Arc<dyn Signer>,
    /// `/localhost/nfd`, or `/localhop/nfd` where the forwarder does not treat us as local.
    pub(crate) command_prefix: Name,
    /// SignatureTime of the last command; strictly increasing.
    pub(crate) last_command_ms: AtomicU64,
    pub(crate) address: Option<ForwarderAddress>,
}

impl Common {
    /// SignatureTime for the next command, in milliseconds since 1970.
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

/// A connection to a forwarder, to express and serve Interests. Cheap to clone; when the last clone
/// is dropped, queued output is written and the connection ends.
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

    /// The forwarder's address of the first connection; `None` for a stream given by the caller.
    #[must_use]
    pub fn address(&self) -> Option<&ForwarderAddress> {
        self.common.address.as_ref()
    }

    /// Whether the last datagram to the forwarder was refused: no process listens on its port.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.shared().is_refused()
    }

    /// The state of the connection, and its changes. It becomes closed when no handle is left and
    /// all output is written; over WebTransport, when the peer has been notified, too.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<ConnectionState> {
        self.shared().state.subscribe()
    }

    /// The number of consecutive connections that ended before anything was received, and its
    /// changes. A forwarder that has reached its face limit accepts a connection and closes it at
    /// once, as does one that refuses this application.
    #[must_use]
    pub fn turned_away(&self) -> watch::Receiver<u32> {
        self.shared().turned_away.subscribe()
    }

    /// Number of pending Interests.
    #[must_use]
    pub fn pending_count(&self) -> usize {
        self.shared().lock().pending.len()
    }

    /// Opens a flow: Data exactly one component below `prefix` arrive through the returned
    /// receiver, at most `capacity` queued. For applications that send many Interests with one
    /// prefix.
    #[must_use]
    pub fn open_flow(&self, prefix: &Name, capacity: usize) -> Flow {
        let (sender, receiver) = tokio::sync::mpsc::channel(capacity.max(1));
        let key = self.shared().lock().pending.insert_flow(prefix.as_ref(), sender);
        Flow { endpoint: self.clone(), key, receiver }
    }

    /// Sends contiguous encoded Interests. Answers arrive only through flows.
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

/// The receiving end of [`Endpoint::open_flow`]; dropping it ends the flow.
#[derive(Debug)]
pub struct Flow {
    endpoint: Endpoint,
    key: Key,
    receiver: tokio::sync::mpsc::Receiver<FlowEvent>,
}

impl Flow {
    /// Waits for events and appends them to `events`, at most `limit`; returns their number, 0 if
    /// the endpoint is closed.
    pub async fn receive(&mut self, events: &mut Vec<FlowEvent>, limit: usize) -> usize {
        self.receiver.recv_many(events, limit).await
    }

    /// The endpoint of the flow.
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
