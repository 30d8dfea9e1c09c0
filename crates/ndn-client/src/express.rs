//! One Interest with its options, and why it has no answer.

use std::sync::Arc;
use std::time::Duration;

use ndn_packet::{
    DEFAULT_LIFETIME_MS, EncodeError, InterestBuilder, MAX_PACKET_SIZE, NackReason, Name, NameRef,
};
use ndn_security::{AntiReplay, SignError, Signer, Verifier, VerifyError, sha256, sign_interest};
use ndn_types::duration_ms;
use rand::RngExt;
use thiserror::Error;

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

/// The text about a Nack.
pub(crate) fn nack_text(name: &str, reason: NackReason) -> String {
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
    pub(crate) lifetime: Duration,
    hop_limit: Option<u8>,
    forwarding_hint: Vec<Name>,
    parameters: Option<Vec<u8>>,
    signer: Option<Arc<dyn Signer>>,
    pub(crate) verifier: Option<Arc<dyn Verifier>>,
    pub(crate) retransmissions: u32,
    pub(crate) retransmission_interval: Option<Duration>,
    pub(crate) waits_after_nack: bool,
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

    /// Accepts a Nack of reason NoRoute at once, even if the forwarder was connected only a few
    /// seconds ago.
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
    pub(crate) fn encode(&self) -> Result<Vec<u8>, ExpressError> {
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
                    time_ms: Some(crate::real_time::unix_ms()),
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
