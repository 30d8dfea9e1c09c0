//! The reference to a connection that everything in this crate works with.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ndn_packet::{EncodeError, Interest, LpHeader, MAX_PACKET_SIZE, NackReason, Name};
use ndn_security::{Signer, verify_data};
use rand::RngExt;
use tokio::sync::{mpsc, oneshot};

use crate::address::ForwarderAddress;
use crate::express::{ExpressError, InterestRequest};
use crate::pending::{FlowEvent, InterestAnswer, Key, ReceivedData};
use crate::shared::Shared;

/// First pause after a congestion Nack; it doubles with each.
const CONGESTION_PAUSE: Duration = Duration::from_millis(10);
/// First and longest pause after a Nack by a forwarder that has restarted recently; it doubles with
/// each.
const SETTLING_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Maximum lead of SignatureTimes over the clock. Each command has a later one, in milliseconds; forwarders that check keys
/// refuse those that are two minutes away from their clocks (ndn-cxx, "Command Interest").
pub(crate) const COMMAND_LEAD_MAX_MS: u64 = 60_000;

/// State shared by all handles of one connection.
pub(crate) struct Common {
    pub(crate) shared: Arc<Shared>,
    pub(crate) command_signer: Arc<dyn Signer>,
    /// `/localhost/nfd`, or `/localhop/nfd` where the forwarder does not treat us as local.
    pub(crate) command_prefix: Name,
    /// SignatureTime of the last command; strictly increasing.
    pub(crate) last_command_ms: AtomicU64,
    /// Serializes key-signed commands while they wait for their SignatureTime.
    pub(crate) command_turn: tokio::sync::Mutex<()>,
    pub(crate) address: Option<ForwarderAddress>,
}

impl Common {
    /// SignatureTime for the next command, in milliseconds since 1970.
    pub(crate) fn next_command_ms(&self) -> u64 {
        let now = crate::real_time::unix_ms();
        let step = |last: u64| Some(now.max(last + 1));
        match self.last_command_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step) {
            Ok(last) | Err(last) => now.max(last + 1),
        }
    }

    /// Time until the next SignatureTime is within [`COMMAND_LEAD_MAX_MS`]. If the clock was put back by more, SignatureTimes
    /// go on from the present time.
    pub(crate) fn command_pause(&self) -> Duration {
        let now = crate::real_time::unix_ms();
        let latest_ms = now + COMMAND_LEAD_MAX_MS;
        let restart =
            |last: u64| (last.saturating_sub(latest_ms) > COMMAND_LEAD_MAX_MS).then_some(now);
        match self.last_command_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, restart) {
            Ok(_) => Duration::ZERO,
            Err(last) => Duration::from_millis((last + 1).saturating_sub(latest_ms)),
        }
    }
}

/// A counted reference to a connection: it ends when the last one is dropped and queued output is
/// written.
pub(crate) struct Handle {
    common: Arc<Common>,
}

impl Handle {
    pub(crate) fn new(common: Arc<Common>) -> Self {
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
    pub(crate) fn address(&self) -> Option<&ForwarderAddress> {
        self.common.address.as_ref()
    }

    /// Opens a flow: Data exactly one component below `prefix` arrive through the returned
    /// receiver, at most `capacity` queued.
    pub(crate) fn open_flow(&self, prefix: &Name, capacity: usize) -> Flow {
        let (sender, receiver) = mpsc::channel(capacity.max(1));
        let key = self.shared().lock().pending.insert_flow(prefix.as_ref(), sender);
        Flow { handle: self.clone(), key, receiver }
    }

    /// Sends contiguous encoded Interests. Answers arrive only through flows.
    pub(crate) fn send_packets(&self, packets: &[u8]) {
        self.shared().send(|output| output.push(&LpHeader::default(), packets));
    }

    /// Sends an Interest, waits for its Data and verifies it by the verifier of the request.
    pub(crate) async fn express(
        &self,
        request: &InterestRequest,
    ) -> Result<ReceivedData, ExpressError> {
        let wire = request.encode()?;
        let wait = request.retransmission_interval.unwrap_or(request.lifetime);
        let (retransmissions, waits_after_nack) =
            (request.retransmissions, request.waits_after_nack);
        let received = self.express_encoded(wire, retransmissions, wait, waits_after_nack).await?;
        if let Some(verifier) = &request.verifier {
            let data = received.data();
            verify_data(&data, verifier.as_ref()).map_err(|reason| ExpressError::Verification {
                name: data.name().to_uri(),
                reason,
            })?;
        }
        Ok(received)
    }

    /// Sends an encoded Interest and waits for its Data; retransmits up to `retransmissions` times
    /// with another Nonce when `wait` has passed. If `waits_after_nack`, a Nack of reason NoRoute
    /// is accepted only once the forwarder has been connected for some seconds.
    ///
    /// # Errors
    /// `Timeout`, `Nack`, `NotListening`, `Closed`; `TooLong`; `Encode` if `wire` is not an
    /// Interest.
    pub(crate) async fn express_encoded(
        &self,
        mut wire: Vec<u8>,
        retransmissions: u32,
        wait: Duration,
        waits_after_nack: bool,
    ) -> Result<ReceivedData, ExpressError> {
        if wire.len() > MAX_PACKET_SIZE {
            return Err(ExpressError::TooLong(wire.len()));
        }
        let mut pending: Option<Pending<'_>> = None;
        let (mut congestion_pause, mut settling_pause) = (CONGESTION_PAUSE, SETTLING_PAUSE.0);
        let mut waited = Duration::ZERO;
        let (mut attempt, mut is_first) = (0, true);
        while attempt <= retransmissions {
            if !std::mem::take(&mut is_first) {
                renew_nonce(&mut wire)?;
            }
            let last = attempt == retransmissions;
            let interest = Interest::parse(&wire).map_err(|_| not_an_interest())?;
            // The answer to the last transmission may take the whole lifetime.
            let lifetime = Duration::from_millis(interest.lifetime_ms());
            let wait = if last { wait.max(lifetime) } else { wait };
            let current = match &mut pending {
                Some(current) => current,
                None => pending.insert(self.insert_pending(&interest)),
            };
            self.shared().send(|output| output.push(&LpHeader::default(), &wire));
            match tokio::time::timeout(wait, &mut current.receiver).await {
                // The entry stays: an answer to either transmission is accepted.
                Err(_) => {
                    waited += wait;
                    attempt += 1;
                    continue;
                }
                Ok(Ok(InterestAnswer::Data(data))) => return Ok(data),
                Ok(Ok(InterestAnswer::Closed) | Err(_)) => return Err(ExpressError::Closed),
                Ok(Ok(InterestAnswer::Nack(NackReason::NO_ROUTE)))
                    if waits_after_nack && self.shared().is_settling() =>
                {
                    tokio::time::sleep(settling_pause).await;
                    settling_pause = (settling_pause * 2).min(SETTLING_PAUSE.1);
                }
                Ok(Ok(InterestAnswer::Nack(NackReason::DUPLICATE))) if !last => attempt += 1,
                Ok(Ok(InterestAnswer::Nack(NackReason::CONGESTION))) if !last => {
                    tokio::time::sleep(congestion_pause).await;
                    congestion_pause *= 2;
                    attempt += 1;
                }
                Ok(Ok(InterestAnswer::Nack(reason))) => {
                    return Err(ExpressError::Nack { name: interest.name().to_uri(), reason });
                }
            }
            pending = None;
        }
        if self.shared().is_refused() {
            let forwarder = self.address().map_or_else(String::new, ToString::to_string);
            return Err(ExpressError::NotListening { forwarder });
        }
        let name = Interest::parse(&wire).map_or_else(|_| String::new(), |i| i.name().to_uri());
        Err(ExpressError::Timeout { name, attempts: retransmissions + 1, waited })
    }

    fn insert_pending(&self, interest: &Interest<'_>) -> Pending<'_> {
        let (sender, receiver) = oneshot::channel();
        let key = self.shared().lock().pending.insert(interest, sender);
        Pending { handle: self, key, receiver }
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.common))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.common.shared.remove_handle();
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("address", &self.common.address).finish_non_exhaustive()
    }
}

/// A pending Interest; removed when dropped.
struct Pending<'a> {
    handle: &'a Handle,
    key: Key,
    receiver: oneshot::Receiver<InterestAnswer>,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.handle.shared().lock().pending.remove(&self.key);
    }
}

fn not_an_interest() -> ExpressError {
    ExpressError::Encode(EncodeError::InvalidField { ty: ndn_packet::types::INTEREST })
}

/// Replaces the Nonce of an encoded Interest; signatures do not cover it.
fn renew_nonce(wire: &mut [u8]) -> Result<(), ExpressError> {
    let offset = Interest::parse(wire).map_err(|_| not_an_interest())?.nonce_offset();
    if let Some(nonce) = offset.and_then(|offset| wire.get_mut(offset..offset + 4)) {
        nonce.copy_from_slice(&rand::rng().random::<[u8; 4]>());
    }
    Ok(())
}

/// The receiving end of [`Handle::open_flow`]; dropping it ends the flow.
#[derive(Debug)]
pub(crate) struct Flow {
    handle: Handle,
    key: Key,
    receiver: mpsc::Receiver<FlowEvent>,
}

impl Flow {
    /// Waits for events and appends them to `events`, at most `limit`; returns their number, 0 if
    /// the connection has ended.
    pub(crate) async fn receive(&mut self, events: &mut Vec<FlowEvent>, limit: usize) -> usize {
        self.receiver.recv_many(events, limit).await
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.handle.shared().lock().pending.remove(&self.key);
    }
}
