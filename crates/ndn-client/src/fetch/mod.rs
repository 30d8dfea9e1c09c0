//! Fetches segmented objects: the state machine, its congestion control, and the driver.

mod cache_bypass;
mod congestion;
mod discovery;
mod driver;
mod object;
mod packets;
mod requester;
mod rtt;
mod segments;
mod state;
mod verified;

use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ndn_packet::{Data, KeyLocator, NackReason, Name, SignatureType};
use ndn_security::{
    DigestVerifier, Sha256Digest, Verifier, VerifyError, sha256, sha256_each, sha256_parts,
    verify_data, verify_digests,
};
use thiserror::Error;

use crate::express::{ExpressError, nack_text};
use crate::handle::Handle;
use crate::trust::Trust;

pub use cache_bypass::CacheBypass;
pub use congestion::{AnsweredSegment, Congestion, Controller, Cubic, Delay, Fixed, WindowMode};
pub use discovery::{Discovery, FoundObject};
pub(crate) use discovery::{METADATA, discover};
pub use driver::ObjectStream;
pub(crate) use object::{fetch, fetch_segment, learn_certificates};
pub use packets::{PacketStream, ReceivedSegment, Release};
pub use rtt::{RtoBounds, RttEstimator};
pub use state::{
    BypassBy, DataOutcome, DeadlineReason, FetchConfig, FetchState, Refused, Transmit,
};
pub(crate) use verified::express_verified;

/// Repetition of discovery Interests.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(1);

/// Why a fetch failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FetchFailure {
    /// A segment was not answered in time.
    #[error(
        "segment {segment} was not answered within {} s ({attempts} attempt{})",
        waited.as_secs_f64(),
        if *.attempts == 1 { "" } else { "s" }
    )]
    Timeout {
        /// Segment number.
        segment: u64,
        /// Number of attempts.
        attempts: u32,
        /// Time since the first of them.
        waited: Duration,
    },
    /// A segment reached the maximum number of Nacks.
    #[error("segment {segment} was answered with Nacks: {reason}")]
    Nack {
        /// Segment number.
        segment: u64,
        /// The reason in the last one.
        reason: NackReason,
    },
    /// Two segments state different final segments.
    #[error("segments state different final segments: {known}, then {now}")]
    FinalBlockIdChanged {
        /// Stated first.
        known: u64,
        /// Stated now.
        now: u64,
    },
    /// A segment beyond the stated final one was received.
    #[error("segment {segment} lies beyond the final segment {last}")]
    BeyondFinalBlock {
        /// Segment number.
        segment: u64,
        /// Stated final segment.
        last: u64,
    },
    /// The producer answered a segment with an application Nack.
    #[error("the producer answered segment {segment} with an application Nack")]
    ApplicationNack {
        /// Segment number.
        segment: u64,
    },
    /// A segment failed verification.
    #[error("segment {segment} does not verify: {reason}")]
    Verification {
        /// Segment number.
        segment: u64,
        /// The reason.
        reason: String,
    },
}

/// Counters and estimates of a fetch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FetchProgress {
    /// Content bytes received, without duplicates.
    pub bytes: u64,
    /// Segments received, without duplicates.
    pub segments: u64,
    /// Final segment, once known.
    pub final_segment: Option<u64>,
    /// Interests sent.
    pub interests: u64,
    /// Retransmissions among them.
    pub retransmissions: u64,
    /// Interests declared lost because later ones were answered.
    pub losses: u64,
    /// Interests declared lost after the retransmission time-out.
    pub timeouts: u64,
    /// Interests declared lost and answered later.
    pub spurious_losses: u64,
    /// Nacks received.
    pub nacks: u64,
    /// Data that failed verification, and were requested again bypassing caches.
    pub refused: u64,
    /// Data received with a congestion mark.
    pub congestion_marks: u64,
    /// Number of window decreases.
    pub window_decreases: u64,
    /// Current window, in segments.
    pub window: usize,
    /// Number of outstanding segments.
    pub in_flight: usize,
    /// Smoothed round-trip time.
    pub rtt: Option<Duration>,
    /// Retransmission time-out.
    pub rto: Duration,
}

/// The fetch of digests by [`PacketVerifier::load`].
pub type Loading = Pin<Box<dyn Future<Output = Result<(), FetchError>> + Send>>;

/// Verifies whole packets, from knowledge of their digests.
pub trait PacketVerifier: Send + Sync {
    /// Fetches the digests of these segments; `None` if they are known. A fetch awaits it before it checks segments.
    fn load(&self, _segments: RangeInclusive<u64>) -> Option<Loading> {
        None
    }

    /// Whether `data`, which has this implicit digest, is the expected packet.
    ///
    /// # Errors
    /// `NotListed`, or another reason.
    fn check_digest(&self, data: &Data<'_>, digest: &Sha256Digest) -> Result<(), VerifyError>;

    /// The implicit digest of a segment, if known: used to request the right packet where a cache
    /// returns a wrong one.
    fn expected(&self, _segment: u64) -> Option<Sha256Digest> {
        None
    }

    /// Whether to accept an application Nack in place of a segment. The default accepts a Nack
    /// without known signer, so that the fetch of a deleted object ends soon.
    ///
    /// # Errors
    /// Why it is rejected.
    fn check_nack(&self, _nack: &Data<'_>) -> Result<(), VerifyError> {
        Ok(())
    }
}

/// A signature that was not checked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UncheckedSignature {
    /// The name in the KeyLocator.
    pub key_name: Option<Name>,
    /// Its algorithm.
    pub signature_type: SignatureType,
}

/// Which signatures are verified.
#[derive(Clone, Default)]
pub enum Verification {
    /// None.
    Skip,
    /// DigestSha256 must match; signatures with keys are accepted unverified.
    #[default]
    Digest,
    /// All, with this verifier.
    Verifier(Arc<dyn Verifier>),
    /// All, by trust rules; certificates are fetched as needed.
    Trust(Arc<Trust>),
    /// Whole packets; signatures only as far as this verifier does.
    Packets(Arc<dyn PacketVerifier>),
}

impl Verification {
    /// Verifies one Data.
    ///
    /// # Errors
    /// Those of [`verify_data`].
    pub fn check(&self, data: &Data<'_>) -> Result<(), VerifyError> {
        match self {
            Self::Skip => Ok(()),
            Self::Digest => {
                let info = data.signature_info().map_err(VerifyError::Malformed)?;
                if info.signature_type == SignatureType::DIGEST_SHA256 {
                    verify_data(data, &DigestVerifier)
                } else {
                    Ok(())
                }
            }
            Self::Verifier(verifier) => verify_data(data, verifier.as_ref()),
            Self::Trust(trust) => trust.check(data),
            Self::Packets(verifier) => verifier.check_digest(data, &sha256(data.wire())),
        }
    }

    /// The signature of `data` if [`Self::check`] accepts it unchecked, except for a digest, which nobody has signed.
    #[must_use]
    pub fn unchecked(&self, data: &Data<'_>) -> Option<UncheckedSignature> {
        if !matches!(self, Self::Skip | Self::Digest) {
            return None;
        }
        let info = data.signature_info().ok()?;
        if info.signature_type == SignatureType::DIGEST_SHA256 {
            return None;
        }
        let key_name = match info.key_locator {
            Some(KeyLocator::Name(name)) => Some(name.to_name()),
            Some(KeyLocator::Digest(_)) | None => None,
        };
        Some(UncheckedSignature { key_name, signature_type: info.signature_type })
    }

    /// Verifies many Data, with the result of [`Self::check`] for each. Digests are computed side
    /// by side, which is faster than one after the other.
    #[must_use]
    pub fn check_each(&self, all: &[Data<'_>]) -> Vec<Result<(), VerifyError>> {
        let is_digest = |data: &Data<'_>| {
            let info = data.signature_info();
            info.is_ok_and(|info| info.signature_type == SignatureType::DIGEST_SHA256)
        };
        match self {
            Self::Packets(verifier) => {
                let wires: Vec<_> = all.iter().map(Data::wire).collect();
                let digests = sha256_each(&wires);
                let both = all.iter().zip(&digests);
                both.map(|(data, digest)| verifier.check_digest(data, digest)).collect()
            }
            Self::Digest if all.iter().all(is_digest) => verify_digests(all),
            Self::Skip | Self::Digest | Self::Verifier(_) | Self::Trust(_) => {
                all.iter().map(|data| self.check(data)).collect()
            }
        }
    }

    /// Verifies an application Nack received in place of a segment.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn check_nack(&self, nack: &Data<'_>) -> Result<(), VerifyError> {
        match self {
            Self::Packets(verifier) => verifier.check_nack(nack),
            Self::Skip | Self::Digest | Self::Verifier(_) | Self::Trust(_) => self.check(nack),
        }
    }

    /// As [`Self::check`], and fetches missing certificates with this InterestLifetime.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub(crate) async fn check_fetching(
        &self,
        handle: &Handle,
        lifetime: Duration,
        data: &Data<'_>,
    ) -> Result<(), VerifyError> {
        match self {
            Self::Trust(trust) => trust.check_fetching(handle, lifetime, data).await,
            Self::Skip | Self::Digest | Self::Verifier(_) | Self::Packets(_) => self.check(data),
        }
    }

    /// Whether each packet is verified by a key: a manifest can replace that.
    #[must_use]
    pub fn is_by_key(&self) -> bool {
        matches!(self, Self::Verifier(_) | Self::Trust(_))
    }

    /// Identifies what is accepted, for storage of what was verified: equal for the same keys and rules only. `None` if that cannot
    /// be said.
    #[must_use]
    pub fn fingerprint(&self) -> Option<Sha256Digest> {
        let (kind, identity) = match self {
            Self::Skip => (b'n', Some(Sha256Digest::default())),
            Self::Digest => (b'd', Some(Sha256Digest::default())),
            Self::Verifier(verifier) => (b'v', verifier.fingerprint()),
            Self::Trust(trust) => (b't', trust.fingerprint()),
            Self::Packets(_) => (b'p', None),
        };
        identity.map(|identity| sha256_parts(&[&[kind], &identity]))
    }

    /// Whether both are the same verifier, with the same keys for all names. False for trust rules,
    /// which may use other keys for other names.
    #[must_use]
    pub fn is_same_verifier(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Verifier(one), Self::Verifier(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Fetches what is needed to check these segments: digests that are not known yet.
    ///
    /// # Errors
    /// The digests cannot be fetched, or are not those of the object.
    pub async fn load(&self, segments: RangeInclusive<u64>) -> Result<(), FetchError> {
        match self {
            Self::Packets(verifier) => match verifier.load(segments) {
                Some(loading) => loading.await,
                None => Ok(()),
            },
            Self::Skip | Self::Digest | Self::Verifier(_) | Self::Trust(_) => Ok(()),
        }
    }

    /// The implicit digest of a segment, if known.
    #[must_use]
    pub fn expected(&self, segment: u64) -> Option<Sha256Digest> {
        match self {
            Self::Packets(verifier) => verifier.expected(segment),
            Self::Skip | Self::Digest | Self::Verifier(_) | Self::Trust(_) => None,
        }
    }
}

impl std::fmt::Debug for Verification {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Skip => "Skip",
            Self::Digest => "Digest",
            Self::Verifier(_) => "Verifier",
            Self::Trust(_) => "Trust",
            Self::Packets(_) => "Packets",
        })
    }
}

/// Parameters of the fetch of an object.
#[derive(Debug, Clone)]
pub struct FetchOptions {
    /// Window, time-outs, limits.
    pub config: FetchConfig,
    /// Method of finding the version.
    pub discovery: Discovery,
    /// InterestLifetime of all Interests.
    pub lifetime: Duration,
    /// Number of retransmissions of discovery Interests, sent once a second or when they expire.
    /// Discovery fails after at most `lifetime` times one more than this.
    pub discovery_retransmissions: u32,
    /// Verification, also of the metadata.
    pub verification: Verification,
}

impl FetchOptions {
    /// Sets the maximum time without an answer, the lifetime times one more than `retries`, and the maximum number of
    /// retransmissions of discovery. Interests are retransmitted at least when they expire.
    pub fn give_up_after(&mut self, retries: u32) {
        self.config.retransmissions_max = retries;
        self.discovery_retransmissions = self.discovery_retransmissions.min(retries);
        let rto = &mut self.config.rto;
        rto.max = self.lifetime;
        rto.min = rto.min.min(rto.max);
        rto.initial = rto.initial.min(rto.max);
    }

    fn discovery_attempts(&self) -> u32 {
        self.discovery_retransmissions.saturating_add(1)
    }

    fn discovery_interval(&self) -> Duration {
        DISCOVERY_INTERVAL.min(self.lifetime)
    }
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self {
            config: FetchConfig::default(),
            discovery: Discovery::default(),
            lifetime: Duration::from_millis(ndn_packet::DEFAULT_LIFETIME_MS),
            discovery_retransmissions: 3,
            verification: Verification::default(),
        }
    }
}

/// Why an object cannot be fetched.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FetchError {
    /// No version found. A Nack is that for the object, not for a name of metadata.
    #[error("{}", discovery_text(.0))]
    Discovery(#[source] ExpressError),
    /// The producer reports that the object does not exist.
    #[error("there is no such object: {name}")]
    NotFound {
        /// Name of the object; of the Data that is the Nack, if that is not metadata.
        name: String,
        /// Its content, which may hold a reason.
        content: bytes::Bytes,
    },
    /// The metadata is malformed.
    #[error("the metadata {name} does not hold a name")]
    MalformedMetadata {
        /// Name of the metadata.
        name: String,
    },
    /// The answer of discovery failed verification.
    #[error("{name} does not verify: {reason}")]
    Verification {
        /// Name of the Data.
        name: String,
        /// The reason.
        #[source]
        reason: VerifyError,
    },
    /// The fetch failed.
    #[error("{}", failed_text(.name, .failure))]
    Failed {
        /// Name with version.
        name: String,
        /// The reason.
        #[source]
        failure: FetchFailure,
    },
    /// The object exceeds the caller's limit.
    #[error("the object is longer than {limit} bytes")]
    TooLong {
        /// Limit in bytes.
        limit: usize,
    },
    /// The connection to the forwarder has ended.
    #[error("the connection to the forwarder has ended")]
    Closed,
}

/// A Nack has the same text for an object that cannot be found and for a segment of it.
fn discovery_text(error: &ExpressError) -> String {
    match error {
        ExpressError::Nack { .. } => error.to_string(),
        ExpressError::Timeout { .. }
        | ExpressError::NotListening { .. }
        | ExpressError::Closed
        | ExpressError::Encode(_)
        | ExpressError::TooLong(_)
        | ExpressError::Sign(_)
        | ExpressError::Verification { .. } => format!("the object cannot be found: {error}"),
    }
}

fn failed_text(name: &str, failure: &FetchFailure) -> String {
    match failure {
        FetchFailure::Nack { reason, .. } => nack_text(name, *reason),
        FetchFailure::Timeout { .. }
        | FetchFailure::FinalBlockIdChanged { .. }
        | FetchFailure::BeyondFinalBlock { .. }
        | FetchFailure::ApplicationNack { .. }
        | FetchFailure::Verification { .. } => format!("{name} cannot be fetched: {failure}"),
    }
}

#[cfg(test)]
mod simulation;
