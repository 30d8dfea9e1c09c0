//! Asking for a segment again whose packet did not verify: by a name that whoever holds the wrong packet
//! does not answer.

use std::time::Duration;

use ndn_packet::{Convention, InterestBuilder, Name};
use ndn_security::Sha256Digest;

use super::FetchOptions;
use super::discovery::FoundObject;
use crate::endpoint::Endpoint;
use crate::express::{ExpressError, InterestRequest};
use crate::pending::ReceivedData;

/// How often such an Interest is repeated.
const RETRANSMISSIONS_MAX: u32 = 3;

/// The name under which a segment is asked for again, and whether it has to be fresh. With the implicit
/// digest no other packet is an answer; where it is not known, caches are passed by once what they hold
/// is no longer fresh.
pub(super) fn name_past_cache(
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
pub(super) fn interest_past_cache(
    object: (&Name, Convention),
    segment: u64,
    expected: Option<&Sha256Digest>,
    nonce: u32,
    lifetime_ms: u64,
) -> Vec<u8> {
    let (name, must_be_fresh) = name_past_cache(object, segment, expected);
    let interest = InterestBuilder::new(name.as_ref())
        .must_be_fresh(must_be_fresh)
        .nonce(nonce)
        .lifetime_ms(lifetime_ms);
    interest.to_vec().unwrap_or_default()
}

/// Asks for single segments of an object again.
#[derive(Debug, Clone)]
pub struct PastCache {
    endpoint: Endpoint,
    prefix: Name,
    convention: Convention,
    lifetime: Duration,
    interval: Duration,
    retransmissions: u32,
}

impl PastCache {
    pub(super) fn new(endpoint: &Endpoint, found: &FoundObject, options: &FetchOptions) -> Self {
        Self {
            endpoint: endpoint.clone(),
            prefix: found.prefix.clone(),
            convention: found.convention,
            lifetime: options.lifetime,
            interval: options.discovery_interval(),
            retransmissions: options.config.retransmissions_max.min(RETRANSMISSIONS_MAX),
        }
    }

    /// Asks for `segment` by its full name if its implicit digest is `expected`, and otherwise for one
    /// that is fresh. What comes is **not verified**.
    ///
    /// # Errors
    /// Those of [`Endpoint::express`].
    pub async fn fetch(
        &self,
        segment: u64,
        expected: Option<&Sha256Digest>,
    ) -> Result<ReceivedData, ExpressError> {
        let (name, must_be_fresh) =
            name_past_cache((&self.prefix, self.convention), segment, expected);
        let request = InterestRequest::new(name)
            .must_be_fresh(must_be_fresh)
            .lifetime(self.lifetime)
            .retransmission_interval(self.interval)
            .retransmissions(self.retransmissions);
        self.endpoint.express(&request).await
    }
}
