//! Reachability tests, compatible with `ndnping` and `ndnpingserver`: Interests for
//! `<prefix>/ping/<number>`.

use std::sync::Arc;
use std::time::Duration;

use ndn_packet::{DataBuilder, NackReason, Name};
use ndn_security::Signer;
use ndn_types::duration_ms;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::endpoint::Endpoint;
use crate::express::{ExpressError, InterestRequest};
use crate::register::{RegisterError, Registration};
use crate::shared::Request;

/// Component after the prefix.
const PING: &str = "ping";

/// Content of an answer.
const PAYLOAD: &[u8] = b"NDN TLV Ping Response";

/// Outcome of a ping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PingOutcome {
    /// Answered after this time.
    Answer(Duration),
    /// Nack received after this time.
    Nack(NackReason, Duration),
    /// Not answered.
    Timeout,
}

/// Sends numbered pings.
#[derive(Debug)]
pub struct Pinger {
    endpoint: Endpoint,
    base: Name,
    lifetime: Duration,
    must_be_fresh: bool,
}

impl Pinger {
    /// Pings `<prefix>/ping`, or `<prefix>/ping/<identifier>` if there is one; each waits for
    /// `lifetime`.
    #[must_use]
    pub fn new(
        endpoint: &Endpoint,
        prefix: &Name,
        identifier: Option<&str>,
        lifetime: Duration,
    ) -> Self {
        let mut base = prefix.clone();
        base.push_generic(PING);
        if let Some(identifier) = identifier {
            base.push_generic(identifier);
        }
        Self { endpoint: endpoint.clone(), base, lifetime, must_be_fresh: true }
    }

    /// Accepts stale Data from caches.
    #[must_use]
    pub fn allow_stale(mut self) -> Self {
        self.must_be_fresh = false;
        self
    }

    /// Sends one ping and waits for its outcome.
    ///
    /// # Errors
    /// Those of [`Endpoint::express`] other than `Timeout`, `NotListening` and `Nack`.
    pub async fn ping(&self, number: u64) -> Result<PingOutcome, ExpressError> {
        let mut name = self.base.clone();
        name.push_generic(number.to_string());
        let request = InterestRequest::new(name)
            .must_be_fresh(self.must_be_fresh)
            .lifetime(self.lifetime)
            .believe_nacks();
        let start = Instant::now();
        match self.endpoint.express(&request).await {
            Ok(_) => Ok(PingOutcome::Answer(start.elapsed())),
            Err(ExpressError::Nack { reason, .. }) => {
                Ok(PingOutcome::Nack(reason, start.elapsed()))
            }
            Err(ExpressError::Timeout { .. } | ExpressError::NotListening { .. }) => {
                Ok(PingOutcome::Timeout)
            }
            Err(error) => Err(error),
        }
    }
}

/// Answers pings until dropped.
#[derive(Debug)]
pub struct PingServer {
    registration: Registration,
    answered: watch::Receiver<u64>,
}

impl PingServer {
    /// Registers `<prefix>/ping` and answers with Data of `freshness`. The content has
    /// `payload_len` bytes, or is the default text.
    ///
    /// # Errors
    /// Those of [`Endpoint::produce`].
    pub async fn start(
        endpoint: &Endpoint,
        prefix: &Name,
        freshness: Duration,
        payload_len: Option<usize>,
        signer: Arc<dyn Signer>,
    ) -> Result<Self, RegisterError> {
        let mut name = prefix.clone();
        name.push_generic(PING);
        let (counter, answered) = watch::channel(0);
        let payload = payload_len.map_or_else(|| PAYLOAD.to_vec(), |length| vec![b'a'; length]);
        let freshness_ms = duration_ms(freshness);
        let handler = move |request: Request| {
            let name = request.name();
            let data = DataBuilder::new(name).freshness_ms(freshness_ms).content(&payload);
            match request.answer_with(&data, signer.as_ref()) {
                Ok(()) => counter.send_modify(|count| *count += 1),
                Err(error) => tracing::warn!(%name, %error, "a ping cannot be answered"),
            }
        };
        let registration = endpoint.produce(&name, handler).await?;
        Ok(Self { registration, answered })
    }

    /// Number of pings answered.
    #[must_use]
    pub fn answered(&self) -> u64 {
        *self.answered.borrow()
    }

    /// Returns once this number of pings was answered, or the server has ended.
    pub async fn until_answered(&self, count: u64) {
        let mut answered = self.answered.clone();
        // An error means that the handler is gone.
        let _ = answered.wait_for(|answered| *answered >= count).await;
    }

    /// The prefix that is served.
    #[must_use]
    pub fn prefix(&self) -> &Name {
        self.registration.prefix()
    }

    /// Stops and waits until the forwarder has removed the route, or the connection has ended.
    ///
    /// # Errors
    /// When the forwarder refuses, or does not answer within a second.
    pub async fn stop(self) -> Result<(), crate::manage::CommandError> {
        self.registration.unregister().await
    }
}
