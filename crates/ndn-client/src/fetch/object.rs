//! Endpoint operations on objects: find and fetch.

use ndn_packet::{ContentType, Name};
use ndn_security::VerifyError;

use super::cache_bypass::CacheBypass;
use super::discovery::{FoundObject, discover};
use super::driver::ObjectStream;
use super::packets::PacketStream;
use super::{FetchError, FetchFailure, FetchOptions, Verification};
use crate::endpoint::Endpoint;
use crate::express::{ExpressError, InterestRequest};
use crate::pending::ReceivedData;

impl Endpoint {
    /// Finds the latest version of the object `name` and fetches it in its own task, which ends
    /// when the stream is dropped.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub async fn fetch(
        &self,
        name: &Name,
        options: &FetchOptions,
    ) -> Result<ObjectStream, FetchError> {
        let found = self.find(name, options).await?;
        self.learn_certificates(&found, options).await?;
        Ok(self.fetch_found(found, 0, options))
    }

    /// Fetches the certificates needed for the segments of an object, if trust rules verify them:
    /// verification of many segments then need not wait for certificates.
    ///
    /// # Errors
    /// As [`Self::fetch_segment`], for the first segment.
    pub async fn learn_certificates(
        &self,
        found: &FoundObject,
        options: &FetchOptions,
    ) -> Result<(), FetchError> {
        if matches!(options.verification, Verification::Trust(_)) && found.is_segmented() {
            self.fetch_segment(found, 0, options).await?;
        }
        Ok(())
    }

    /// Finds the latest version of the object `name`.
    ///
    /// # Errors
    /// `Discovery`, `NotFound`, `MalformedMetadata`, `Verification`.
    pub async fn find(
        &self,
        name: &Name,
        options: &FetchOptions,
    ) -> Result<FoundObject, FetchError> {
        discover(self, name, options).await
    }

    /// Fetches the segments of an object from `first_segment` on, in its own task, which ends when
    /// the stream is dropped. An object without segments is delivered whole.
    #[must_use]
    pub fn fetch_found(
        &self,
        found: FoundObject,
        first_segment: u64,
        options: &FetchOptions,
    ) -> ObjectStream {
        ObjectStream::start(self, found, first_segment, options)
    }

    /// Fetches the packets of a segmented object from `first_segment` on, in its own task, which
    /// ends when the stream is dropped. The packets are not verified: the caller must do that.
    #[must_use]
    pub fn fetch_packets(
        &self,
        found: FoundObject,
        first_segment: u64,
        options: &FetchOptions,
    ) -> PacketStream {
        PacketStream::start(self, found, first_segment, options)
    }

    /// Fetches one segment of an object.
    ///
    /// # Errors
    /// `Failed` if there is no answer, a Nack, or an answer that fails verification.
    pub async fn fetch_segment(
        &self,
        found: &FoundObject,
        segment: u64,
        options: &FetchOptions,
    ) -> Result<ReceivedData, FetchError> {
        let name = found.segment_name(segment);
        let attempts = options.config.retransmissions_max;
        let request = InterestRequest::new(name.clone())
            .lifetime(options.lifetime)
            .retransmission_interval(options.discovery_interval())
            .retransmissions(attempts);
        let failed = |failure| FetchError::Failed { name: found.prefix.to_uri(), failure };
        let received = self.express(&request).await.map_err(|error| match error {
            ExpressError::Timeout { attempts, .. } => {
                failed(FetchFailure::Timeout { segment, attempts })
            }
            ExpressError::Nack { .. } => failed(FetchFailure::Nack { segment }),
            ExpressError::Closed => FetchError::Closed,
            other @ (ExpressError::NotListening { .. }
            | ExpressError::Encode(_)
            | ExpressError::TooLong(_)
            | ExpressError::Sign(_)
            | ExpressError::Verification { .. }) => FetchError::Discovery(other),
        })?;
        let nack = || failed(FetchFailure::ApplicationNack { segment });
        let is_nack = |received: &ReceivedData| received.data().content_type() == ContentType::NACK;
        let was_nack = is_nack(&received);
        let reason = match check_segment(self, &received, options).await {
            Ok(()) if was_nack => return Err(nack()),
            Ok(()) => return Ok(received),
            Err(reason) => reason.to_string(),
        };
        // A cache may hold a wrong packet. A producer without this segment has no packet of its
        // digest either.
        let cache_bypass = CacheBypass::new(self, found, options);
        let expected = options.verification.expected(segment);
        let fresh_first = was_nack && expected.is_some();
        for expected in fresh_first.then_some(None).into_iter().chain([expected]) {
            let Ok(again) = cache_bypass.fetch(segment, expected.as_ref()).await else { continue };
            match check_segment(self, &again, options).await {
                Ok(()) if is_nack(&again) => return Err(nack()),
                Ok(()) => return Ok(again),
                Err(_) => {}
            }
        }
        Err(failed(FetchFailure::Verification { segment, reason }))
    }

    /// Requests segments that failed verification again, bypassing caches.
    #[must_use]
    pub fn cache_bypass(&self, found: &FoundObject, options: &FetchOptions) -> CacheBypass {
        CacheBypass::new(self, found, options)
    }
}

/// Verifies a segment, or an application Nack in its place.
async fn check_segment(
    endpoint: &Endpoint,
    received: &ReceivedData,
    options: &FetchOptions,
) -> Result<(), VerifyError> {
    let (data, verification) = (received.data(), &options.verification);
    // A verifier of whole packets needs no certificates.
    if matches!(verification, Verification::Packets(_)) && data.content_type() == ContentType::NACK
    {
        return verification.check_nack(&data);
    }
    verification.check_fetching(endpoint, options.lifetime, &data).await
}
