//! The operations of the forwarder, called from asynchronous tasks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use namewire_control::Operations;
use ndn_management::{CallError, Management};
use ndn_types::duration_ms;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of operations at a time. Each blocks a thread until the control thread has answered.
pub(crate) const CALLS_MAX: usize = 8;
/// Maximum number of these for requests that take no token.
const OPEN_CALLS_MAX: usize = 2;
/// Maximum time to wait for a free thread, and then for the answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// An operation without an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// All threads are busy.
    Busy,
    /// The forwarder does not answer.
    Silent,
    /// The forwarder is stopping, or refuses the operation; the text is the reason.
    Refused(String),
}

impl fmt::Display for Unanswered {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => formatter.write_str("too many requests at a time"),
            Self::Silent => formatter.write_str("the forwarder does not answer"),
            Self::Refused(reason) => formatter.write_str(reason),
        }
    }
}

/// Calls operations on threads of the runtime.
#[derive(Clone)]
pub(crate) struct Calls {
    operations: Arc<dyn Operations>,
    permits: Arc<Semaphore>,
    open_permits: Arc<Semaphore>,
}

impl fmt::Debug for Calls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Calls").field("permits", &self.permits).finish_non_exhaustive()
    }
}

impl Calls {
    pub(crate) fn new(operations: Arc<dyn Operations>) -> Self {
        let permits = |count| Arc::new(Semaphore::new(count));
        Self { operations, permits: permits(CALLS_MAX), open_permits: permits(OPEN_CALLS_MAX) }
    }

    /// The forwarder's time in seconds since 1970.
    pub(crate) fn unix_s(&self) -> u64 {
        self.operations.clock().unix_time().as_secs()
    }

    /// As [`call`](Self::call), for a request that takes no token. Of these, few are executed at a time, so that clients with
    /// a token do not wait for those without one.
    pub(crate) async fn call_openly<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&dyn Operations) -> Result<T, String> + Send + 'static,
    ) -> Result<T, Unanswered> {
        let permit = permit_of(&self.open_permits).await?;
        self.call(move |operations| {
            let _permit = permit;
            operation(operations)
        })
        .await
    }

    /// Calls an operation. It continues if the caller stops to wait.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&dyn Operations) -> Result<T, String> + Send + 'static,
    ) -> Result<T, Unanswered> {
        let permit = permit_of(&self.permits).await?;
        let operations = Arc::clone(&self.operations);
        let called = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            operation(operations.as_ref())
        });
        match tokio::time::timeout(TIMEOUT, called).await {
            Ok(Ok(result)) => result.map_err(Unanswered::Refused),
            Ok(Err(_)) | Err(_) => Err(Unanswered::Silent),
        }
    }
}

/// Waits for a permit, for a limited time.
pub(crate) async fn permit_of(
    permits: &Arc<Semaphore>,
) -> Result<OwnedSemaphorePermit, Unanswered> {
    match tokio::time::timeout(TIMEOUT, Arc::clone(permits).acquire_owned()).await {
        Ok(Ok(permit)) => Ok(permit),
        Ok(Err(_)) | Err(_) => Err(Unanswered::Busy),
    }
}

/// The forwarder's time in milliseconds since 1970.
pub(crate) fn unix_ms(operations: &dyn Operations) -> u64 {
    duration_ms(operations.clock().unix_time())
}

/// Management by the operation that executes one Interest.
pub(crate) struct ManagementBy<'a>(pub(crate) &'a dyn Operations);

impl Management for ManagementBy<'_> {
    fn exchange(&mut self, interest: Vec<u8>) -> Result<Vec<u8>, CallError> {
        let answer = self.0.management(interest).map_err(CallError::NoAnswer)?;
        Ok(answer.data)
    }

    fn nonce(&mut self) -> u32 {
        ndn_management::nonce_at(self.0.clock().now())
    }

    fn unix_ms(&self) -> u64 {
        unix_ms(self.0)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::RwLock;

    use namewire_config::Config;
    use namewire_daemon::{Environment, Forwarder, Hooks};

    use super::*;

    /// A forwarder without peers.
    pub(crate) fn forwarder() -> Forwarder {
        let mut config = Config::default();
        let listeners = &mut config.listeners;
        (listeners.unix.enabled, listeners.tcp.enabled) = (false, false);
        // The port is free at this moment.
        let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let loopback = std::net::Ipv4Addr::LOCALHOST.into();
        (listeners.udp.addresses, listeners.udp.port) = (vec![loopback], port);
        config.control.enabled = false;
        let hooks = Hooks::none().unwrap();
        Forwarder::start(&config, Environment::system(), hooks).unwrap()
    }

    #[test]
    fn calls_without_a_token_leave_room_for_others() {
        let forwarder = forwarder();
        let calls = Calls::new(forwarder.operations());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let gate = Arc::new(RwLock::new(()));
        let closed = gate.write().unwrap();
        let answered = runtime.block_on(async {
            for _ in 0..2 * CALLS_MAX {
                let (calls, gate) = (calls.clone(), Arc::clone(&gate));
                tokio::spawn(async move {
                    let wait = move |_: &dyn Operations| {
                        drop(gate.read());
                        Ok(())
                    };
                    calls.call_openly(wait).await.unwrap();
                });
            }
            // They begin.
            tokio::task::yield_now().await;
            tokio::time::timeout(TIMEOUT, calls.call(|_| Ok(7))).await.unwrap()
        });
        drop(closed);
        assert_eq!(answered, Ok(7));
        drop(runtime);
        forwarder.shut_down().unwrap();
    }
}
