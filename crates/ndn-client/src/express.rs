//! Expresses one Interest.

use std::sync::Arc;
use std::time::Duration;

use ndn_packet::{
    DEFAULT_LIFETIME_MS, EncodeError, Interest, InterestBuilder, LpHeader, MAX_PACKET_SIZE,
    NackReason, Name, NameRef,
};
use ndn_security::{
    AntiReplay, SignError, Signer, Verifier, VerifyError, sha256, sign_interest, verify_data,
};
use ndn_types::duration_ms;
use rand::RngExt;
use thiserror::Error;
use tokio::sync::oneshot;

use crate::endpoint::{Endpoint, unix_ms};
use crate::pending::{Answer, Key, ReceivedData};

/// First pause after a congestion Nack; it doubles with each.
const CONGESTION_PAUSE: Duration = Duration::from_millis(10);
/// First and longest pause after a Nack by a forwarder that has restarted recently; it doubles with
/// each.
const SETTLING_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Why no Data was received.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExpressError {
    /// No answer.
    #[error(
        "no answer to {name} within {} ms ({attempts} attempt{})",
        .waited.as_millis(),
        if *.attempts == 1 { "" } else { "s" }
    )]
    Timeout {
        /// Name of the Interest.
        name: String,
        /// Number of transmissions.
        attempts: u32,
        /// Total time waited.
        waited: Duration,
    },
    /// The forwarder returned a Nack.
    #[error("{}", nack_text(name, *reason))]
    Nack {
        /// Name of the Interest.
        name: String,
        /// Reason.
        reason: NackReason,
    },
    /// Datagrams to the forwarder's address are refused.
    #[error("no forwarder listens at {forwarder}: datagrams are refused")]
    NotListening {
        /// Its address.
        forwarder: String,
    },
    /// The connection to the forwarder has ended for good.
    #[error("the connection to the forwarder has ended")]
    Closed,
    /// The Interest cannot be encoded.
    #[error("the Interest cannot be encoded: {0}")]
    Encode(#[source] EncodeError),
    /// The Interest exceeds the maximum packet size.
    #[error("the Interest has {0} bytes; a packet has at most {MAX_PACKET_SIZE}")]
    TooLong(usize),
    /// The Interest cannot be signed.
    #[error("the Interest cannot be signed: {0}")]
    Sign(#[source] SignError),
    /// The signature of the Data is invalid or not trusted.
    #[error("the Data {name} does not verify: {reason}")]
    Verification {
        /// Name of the Data.
        name: String,
        /// The reason.
        #[source]
        reason: VerifyError,
    },
}

fn nack_text(name: &str, reason: NackReason) -> String {
    match reason {
        NackReason::NO_ROUTE => format!("no route to {name}"),
        NackReason::CONGESTION => format!("congestion on the path to {name}"),
        NackReason::DUPLICATE => format!("{name} was dropped as a loop (duplicate Nonce)"),
        other => format!("Nack for {name}: {other}"),
    }
}

/// An Interest to be expressed, with options.
#[derive(Clone)]
pub struct InterestRequest {
    name: Name,
    can_be_prefix: bool,
    must_be_fresh: bool,
    lifetime: Duration,
    hop_limit: Option<u8>,
    forwarding_hint: Vec<Name>,
    parameters: Option<Vec<u8>>,
    signer: Option<Arc<dyn Signer>>,
    verifier: Option<Arc<dyn Verifier>>,
    retransmissions: u32,
    retransmission_interval: Option<Duration>,
    waits_after_nack: bool,
}

impl InterestRequest {
    /// An Interest for exactly `name`, with the default lifetime of 4 s, sent once.
    #[must_use]
    pub fn new(name: impl Into<Name>) -> Self {
        Self {
            name: name.into(),
            can_be_prefix: false,
            must_be_fresh: false,
            lifetime: Duration::from_millis(DEFAULT_LIFETIME_MS),
            hop_limit: None,
            forwarding_hint: Vec::new(),
            parameters: None,
            signer: None,
            verifier: None,
            retransmissions: 0,
            retransmission_interval: None,
            waits_after_nack: true,
        }
    }

    /// Sets CanBePrefix.
    #[must_use]
    pub fn can_be_prefix(mut self, can_be_prefix: bool) -> Self {
        self.can_be_prefix = can_be_prefix;
        self
    }

    /// Sets MustBeFresh.
    #[must_use]
    pub fn must_be_fresh(mut self, must_be_fresh: bool) -> Self {
        self.must_be_fresh = must_be_fresh;
        self
    }

    /// Sets InterestLifetime, rounded to milliseconds.
    #[must_use]
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = lifetime;
        self
    }

    /// Sets HopLimit.
    #[must_use]
    pub fn hop_limit(mut self, hop_limit: u8) -> Self {
        self.hop_limit = Some(hop_limit);
        self
    }

    /// Adds a name to ForwardingHint.
    #[must_use]
    pub fn forwarding_hint(mut self, name: Name) -> Self {
        self.forwarding_hint.push(name);
        self
    }

    /// Sets ApplicationParameters; the digest component is added to the name.
    #[must_use]
    pub fn parameters(mut self, parameters: Vec<u8>) -> Self {
        self.parameters = Some(parameters);
        self
    }

    /// Signs the Interest, with the current time and a random nonce against replay.
    #[must_use]
    pub fn signer(mut self, signer: Arc<dyn Signer>) -> Self {
        self.signer = Some(signer);
        self
    }

    /// Verifies the answer.
    #[must_use]
    pub fn verifier(mut self, verifier: Arc<dyn Verifier>) -> Self {
        self.verifier = Some(verifier);
        self
    }

    /// Sends the Interest up to `count` times more without an answer.
    #[must_use]
    pub fn retransmissions(mut self, count: u32) -> Self {
        self.retransmissions = count;
        self
    }

    /// Retransmission interval, instead of the lifetime.
    #[must_use]
    pub fn retransmission_interval(mut self, interval: Duration) -> Self {
        self.retransmission_interval = Some(interval);
        self
    }

    /// Accepts a Nack at once even if the forwarder has restarted recently; see
    /// [`Endpoint::express_encoded`].
    #[must_use]
    pub fn believe_nacks(mut self) -> Self {
        self.waits_after_nack = false;
        self
    }

    /// The name without digests that encoding adds.
    #[must_use]
    pub fn name(&self) -> NameRef<'_> {
        self.name.as_ref()
    }

    /// Encodes the Interest with a new Nonce.
    fn encode(&self) -> Result<Vec<u8>, ExpressError> {
        let mut random = rand::rng();
        let hint: Vec<NameRef<'_>> = self.forwarding_hint.iter().map(Name::as_ref).collect();
        let mut builder = InterestBuilder::new(self.name.as_ref())
            .can_be_prefix(self.can_be_prefix)
            .must_be_fresh(self.must_be_fresh)
            .forwarding_hint(&hint)
            .nonce(random.random())
            .lifetime_ms(duration_ms(self.lifetime));
        if let Some(hop_limit) = self.hop_limit {
            builder = builder.hop_limit(hop_limit);
        }
        if let Some(parameters) = &self.parameters {
            builder = builder.parameters(parameters);
        }
        match &self.signer {
            None => builder.to_vec_with_parameters(sha256).map_err(ExpressError::Encode),
            Some(signer) => {
                let nonce: [u8; 8] = random.random();
                let anti_replay = AntiReplay {
                    nonce: Some(&nonce),
                    time_ms: Some(unix_ms()),
                    sequence_num: None,
                };
                sign_interest(&builder, signer.as_ref(), &anti_replay).map_err(ExpressError::Sign)
            }
        }
    }
}

impl std::fmt::Debug for InterestRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InterestRequest").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A pending Interest; removed when dropped.
struct Pending<'a> {
    endpoint: &'a Endpoint,
    key: Key,
    receiver: oneshot::Receiver<Answer>,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.endpoint.shared().lock().pending.remove(&self.key);
    }
}

impl Endpoint {
    /// Sends an Interest and waits for its Data. Dropping the future cancels.
    ///
    /// # Errors
    /// See [`ExpressError`].
    pub async fn express(&self, request: &InterestRequest) -> Result<ReceivedData, ExpressError> {
        let wire = request.encode()?;
        let wait = request.retransmission_interval.unwrap_or(request.lifetime);
        let (retransmissions, waits_after_nack) =
            (request.retransmissions, request.waits_after_nack);
        let received = self.express_wire(wire, retransmissions, wait, waits_after_nack).await?;
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
    /// with another Nonce when `wait` has passed. A Nack of reason NoRoute is accepted only once
    /// the forwarder has been connected for some seconds.
    ///
    /// # Errors
    /// `Timeout`, `Nack`, `NotListening`, `Closed`; `TooLong`; `Encode` if `wire` is not an
    /// Interest.
    pub async fn express_encoded(
        &self,
        wire: Vec<u8>,
        retransmissions: u32,
        wait: Duration,
    ) -> Result<ReceivedData, ExpressError> {
        self.express_wire(wire, retransmissions, wait, true).await
    }

    async fn express_wire(
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
                Ok(Ok(Answer::Data(data))) => return Ok(data),
                Ok(Ok(Answer::Closed) | Err(_)) => return Err(ExpressError::Closed),
                Ok(Ok(Answer::Nack(NackReason::NO_ROUTE)))
                    if waits_after_nack && self.shared().is_settling() =>
                {
                    tokio::time::sleep(settling_pause).await;
                    settling_pause = (settling_pause * 2).min(SETTLING_PAUSE.1);
                }
                Ok(Ok(Answer::Nack(NackReason::DUPLICATE))) if !last => attempt += 1,
                Ok(Ok(Answer::Nack(NackReason::CONGESTION))) if !last => {
                    tokio::time::sleep(congestion_pause).await;
                    congestion_pause *= 2;
                    attempt += 1;
                }
                Ok(Ok(Answer::Nack(reason))) => {
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
        Pending { endpoint: self, key, receiver }
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
