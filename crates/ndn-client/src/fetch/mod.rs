//! Fetching segmented objects: the state machine, its congestion control, and the driver.

mod config;
mod congestion;
mod discovery;
mod driver;
mod object;
mod packets;
mod past_cache;
mod requester;
mod rtt;
mod segments;
mod state;
mod verified;

use std::sync::Arc;
use std::time::Duration;

use ndn_packet::{Data, SignatureType};
use ndn_security::{
    DigestVerifier, Sha256Digest, Verifier, VerifyError, sha256, sha256_each, verify_data,
    verify_digests,
};
use thiserror::Error;

use crate::endpoint::Endpoint;
use crate::express::ExpressError;
use crate::trust::Trust;

pub use config::FetchConfig;
pub use congestion::{Answer, Congestion, Controller, Cubic, Delay, Fixed, WindowMode};
pub use discovery::{Discovery, FoundObject};
pub use driver::ObjectStream;
pub use packets::{PacketStream, ReceivedSegment, Release};
pub use past_cache::PastCache;
pub use rtt::{RtoBounds, RttEstimator};
pub use state::{DataOutcome, DeadlineReason, FetchState, PastCacheBy, Refused, Transmit};

/// Repetition of discovery Interests.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(1);

/// Why a fetch cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FetchFailure {
    /// A segment was asked for too often without an answer.
    #[error("segment {segment} was not answered in {attempts} attempts")]
    Timeout {
        /// Segment number.
        segment: u64,
        /// How often it was asked for.
        attempts: u32,
    },
    /// A segment was refused too often with a Nack.
    #[error("segment {segment} was refused with a Nack again and again")]
    Nack {
        /// Segment number.
        segment: u64,
    },
    /// Two segments state different final segments.
    #[error("segments disagree on the final segment: {known}, then {now}")]
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
    /// A segment did not verify.
    #[error("segment {segment} does not verify: {reason}")]
    Verification {
        /// Segment number.
        segment: u64,
        /// Why.
        reason: String,
    },
}

/// Counters and estimates of a fetch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FetchProgress {
    /// Content bytes received, duplicates not counted.
    pub bytes: u64,
    /// Segments received, duplicates not counted.
    pub segments: u64,
    /// Final segment, once known.
    pub final_segment: Option<u64>,
    /// Interests sent.
    pub interests: u64,
    /// Interests among them that were sent again.
    pub retransmissions: u64,
    /// Interests given up because later ones were answered.
    pub losses: u64,
    /// Interests given up after the retransmission time-out.
    pub timeouts: u64,
    /// Interests given up although their answer was still to come.
    pub spurious_losses: u64,
    /// Nacks received.
    pub nacks: u64,
    /// Data that did not verify, and were asked for again past the cache that may hold them.
    pub refused: u64,
    /// Data received with a congestion mark.
    pub congestion_marks: u64,
    /// Times that the window was decreased.
    pub window_decreases: u64,
    /// Segments that may be outstanding now.
    pub window: usize,
    /// Segments that are outstanding now.
    pub in_flight: usize,
    /// Smoothed round-trip time.
    pub rtt: Option<Duration>,
    /// Retransmission time-out.
    pub rto: Duration,
}

/// Checks whole packets, by what is known of them from elsewhere.
pub trait PacketVerifier: Send + Sync {
    /// Whether `data`, which has this implicit digest, is the packet that is expected.
    ///
    /// # Errors
    /// `NotListed`, or what else is wrong.
    fn check_digest(&self, data: &Data<'_>, digest: &Sha256Digest) -> Result<(), VerifyError>;

    /// The implicit digest that a segment must have, if that is known: by it, the right packet can be
    /// asked for where a wrong one is in the way.
    fn expected(&self, _segment: u64) -> Option<Sha256Digest> {
        None
    }

    /// Whether an application Nack in the place of a segment is believed. One of which nobody knows who
    /// may sign it is, unless this says otherwise: an object that is gone has to end soon.
    ///
    /// # Errors
    /// Why it is not.
    fn check_nack(&self, _nack: &Data<'_>) -> Result<(), VerifyError> {
        Ok(())
    }
}

/// Which signatures are checked.
#[derive(Clone, Default)]
pub enum Verification {
    /// None.
    Skip,
    /// DigestSha256 must be right; other signatures, whose keys are not known, are taken as they are.
    #[default]
    Digest,
    /// All, with this verifier.
    Verifier(Arc<dyn Verifier>),
    /// All, by rules; certificates are fetched as they are needed.
    Trust(Arc<Trust>),
    /// All packets as a whole, their signatures only as far as this does.
    Packets(Arc<dyn PacketVerifier>),
}

impl Verification {
    /// Checks one Data.
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

    /// Checks many Data: what [`Self::check`] says of each. What has to be hashed only is hashed side by
    /// side, which takes less time than one after the other.
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

    /// Checks an application Nack that came in the place of a segment.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn check_nack(&self, nack: &Data<'_>) -> Result<(), VerifyError> {
        match self {
            Self::Packets(verifier) => verifier.check_nack(nack),
            Self::Skip | Self::Digest | Self::Verifier(_) | Self::Trust(_) => self.check(nack),
        }
    }

    /// As [`Self::check`]; certificates that are missing are fetched, with this InterestLifetime.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub async fn check_fetching(
        &self,
        endpoint: &Endpoint,
        lifetime: Duration,
        data: &Data<'_>,
    ) -> Result<(), VerifyError> {
        match self {
            Self::Trust(trust) => trust.check_fetching(endpoint, lifetime, data).await,
            Self::Skip | Self::Digest | Self::Verifier(_) | Self::Packets(_) => self.check(data),
        }
    }

    /// Whether keys are to vouch for what is fetched, each packet by itself: a manifest can take that
    /// over.
    #[must_use]
    pub fn is_by_key(&self) -> bool {
        matches!(self, Self::Verifier(_) | Self::Trust(_))
    }

    /// Whether both are the one verifier, which takes the same keys for all names. Rules are not: they may
    /// have other keys for other names.
    #[must_use]
    pub fn is_same_verifier(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Verifier(one), Self::Verifier(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// The implicit digest that a segment must have, if that is known.
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

/// How an object is fetched.
#[derive(Debug, Clone)]
pub struct FetchOptions {
    /// Window, time-outs, limits.
    pub config: FetchConfig,
    /// How the version is found.
    pub discovery: Discovery,
    /// InterestLifetime of all Interests.
    pub lifetime: Duration,
    /// How often discovery Interests are repeated, once a second or as often as they end. Finding
    /// the version is given up after at most `lifetime` times one more than this.
    pub discovery_retransmissions: u32,
    /// Which signatures are checked, of the metadata too.
    pub verification: Verification,
}

impl FetchOptions {
    /// Gives up after asking `retries` times again, for the version too. Interests are repeated at
    /// least as often as they end, so that silence is borne for no longer than the lifetime times one
    /// more than `retries`.
    pub fn give_up_after(&mut self, retries: u32) {
        self.config.retransmissions_max = retries;
        self.discovery_retransmissions = self.discovery_retransmissions.min(retries);
        let rto = &mut self.config.rto;
        rto.max = rto.max.min(self.lifetime);
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
    /// Nobody tells the version.
    #[error("the object cannot be found: {0}")]
    Discovery(#[source] ExpressError),
    /// The producer says that there is no such object.
    #[error("there is no such object: {name} is an application Nack")]
    NotFound {
        /// Name of the Nack.
        name: String,
        /// Its content, which may say why.
        content: bytes::Bytes,
    },
    /// The metadata cannot be read.
    #[error("the metadata {name} does not hold a name")]
    MalformedMetadata {
        /// Name of the metadata.
        name: String,
    },
    /// What discovery brought does not verify.
    #[error("{name} does not verify: {reason}")]
    Verification {
        /// Name of the Data.
        name: String,
        /// Why not.
        #[source]
        reason: VerifyError,
    },
    /// The fetch failed.
    #[error("{name} cannot be fetched: {failure}")]
    Failed {
        /// Name with version.
        name: String,
        /// Why.
        #[source]
        failure: FetchFailure,
    },
    /// The object is longer than the caller allows.
    #[error("the object is longer than {limit} bytes")]
    TooLong {
        /// Bytes allowed.
        limit: usize,
    },
    /// The connection to the forwarder has ended.
    #[error("the connection to the forwarder has ended")]
    Closed,
}

#[cfg(test)]
mod simulation;
