//! Requests a segment again that failed verification, with an Interest that the holder of the wrong
//! packet does not answer.

use std::time::Duration;

use ndn_packet::{Convention, InterestBuilder, Name};
use ndn_security::Sha256Digest;

use super::FetchOptions;
use super::discovery::FoundObject;
use crate::express::{ExpressError, InterestRequest};
use crate::handle::Handle;
use crate::pending::ReceivedData;

/// Number of retransmissions of such an Interest.
const RETRANSMISSIONS_MAX: u32 = 3;

/// The name to request a segment by, and MustBeFresh. Only the right packet matches its implicit
/// digest; if the digest is unknown, caches are bypassed once their packet is stale.
pub(super) fn bypass_name(
    (prefix, convention): (&Name, Convention),
    segment: u64,
    expected: Option<&Sha256Digest>,
) -> (Name, bool) {
    let mut name = prefix.clone();
    convention.push_segment(&mut name, segment);
    if let Some(digest) = expected {
        name.push_implicit_digest(digest);
    }
    (name, expected.is_none())
}

/// The Interest for it.
pub(super) fn bypass_interest(
    object: (&Name, Convention),
    segment: u64,
    expected: Option<&Sha256Digest>,
    nonce: u32,
    lifetime_ms: u64,
) -> Vec<u8> {
    let (name, must_be_fresh) = bypass_name(object, segment, expected);
    let interest = InterestBuilder::new(name.as_ref())
        .must_be_fresh(must_be_fresh)
        .nonce(nonce)
        .lifetime_ms(lifetime_ms);
    interest.to_vec().unwrap_or_default()
}

/// Requests single segments of an object, bypassing caches.
#[derive(Debug, Clone)]
pub struct CacheBypass {
    handle: Handle,
    prefix: Name,
    convention: Convention,
    lifetime: Duration,
    interval: Duration,
    retransmissions: u32,
}

impl CacheBypass {
    pub(crate) fn new(handle: &Handle, found: &FoundObject, options: &FetchOptions) -> Self {
        Self {
            handle: handle.clone(),
            prefix: found.prefix.clone(),
            convention: found.convention,
            lifetime: options.lifetime,
            interval: options.discovery_interval(),
            retransmissions: options.config.retransmissions_max.min(RETRANSMISSIONS_MAX),
        }
    }

    /// Requests `segment` by its full name if its implicit digest is `expected`, otherwise with
    /// MustBeFresh. The result is **not verified**.
    ///
    /// # Errors
    /// Those of [`Endpoint::express`](crate::Endpoint::express).
    pub async fn fetch(
        &self,
        segment: u64,
        expected: Option<&Sha256Digest>,
    ) -> Result<ReceivedData, ExpressError> {
        let (name, must_be_fresh) = bypass_name((&self.prefix, self.convention), segment, expected);
        let request = InterestRequest::new(name)
            .must_be_fresh(must_be_fresh)
            .lifetime(self.lifetime)
            .retransmission_interval(self.interval)
            .retransmissions(self.retransmissions);
        self.handle.express(&request).await
    }
}
