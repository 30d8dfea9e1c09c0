//! What an endpoint offers for objects: to find and to fetch them.

use ndn_packet::{ContentType, Data, Name};

use super::discovery::{FoundObject, discover};
use super::driver::ObjectStream;
use super::packets::PacketStream;
use super::past_cache::PastCache;
use super::{FetchError, FetchFailure, FetchOptions, Verification};
use crate::endpoint::Endpoint;
use crate::express::{ExpressError, InterestRequest};
use crate::pending::ReceivedData;

impl Endpoint {
    /// Finds the latest version of the object `name` and fetches it in a task of its own, which ends
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

    /// Fetches the certificates that the segments of an object need, where rules judge them: who
    /// verifies many segments at a time does not wait for certificates.
    ///
    /// # Errors
    /// As [`Self::fetch_segment`], of which it asks for the first one.
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

    /// Fetches the segments of an object from `first_segment` on, in a task of its own, which ends
    /// when the stream is dropped. An object without segments is passed on whole.
    #[must_use]
    pub fn fetch_found(
        &self,
        found: FoundObject,
        first_segment: u64,
        options: &FetchOptions,
    ) -> ObjectStream {
        ObjectStream::start(self, found, first_segment, options)
    }

    /// Fetches the packets of an object that has segments, from `first_segment` on, in a task of its
    /// own, which ends when the stream is dropped. They are not verified: that is left to who takes
    /// them.
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
    /// `Failed` if it is not answered, refused or does not verify.
    pub async fn fetch_segment(
        &self,
        found: &FoundObject,
        segment: u64,
        options: &FetchOptions,
    ) -> Result<ReceivedData, FetchError> {
        let mut name = found.prefix.clone();
        name.push_segment(segment);
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
            other @ (ExpressError::NobodyListens
            | ExpressError::Encode(_)
            | ExpressError::TooLong(_)
            | ExpressError::Sign(_)
            | ExpressError::Verification { .. }) => FetchError::Discovery(other),
        })?;
        let data = received.data();
        let is_nack = |data: &Data<'_>| data.content_type() == ContentType::NACK;
        let nack = || failed(FetchFailure::ApplicationNack { segment });
        // A manifest lists no Nacks, and a version that is gone has to end soon.
        if is_nack(&data) && !options.verification.is_by_key() {
            return Err(nack());
        }
        let checked = options.verification.check_fetching(self, options.lifetime, &data).await;
        let reason = match checked {
            Ok(()) if is_nack(&data) => return Err(nack()),
            Ok(()) => return Ok(received),
            Err(reason) => reason.to_string(),
        };
        // A cache may hold a wrong one.
        let past_cache = PastCache::new(self, &found.prefix, options);
        let expected = options.verification.expected(segment);
        let again = past_cache.fetch(segment, expected.as_ref()).await;
        let right = again.ok().filter(|again| options.verification.check(&again.data()).is_ok());
        if right.as_ref().is_some_and(|right| is_nack(&right.data())) {
            return Err(nack());
        }
        right.ok_or_else(|| failed(FetchFailure::Verification { segment, reason }))
    }
}
