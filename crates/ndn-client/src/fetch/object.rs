//! Fetches objects by name, and single segments.

use ndn_packet::{ContentType, Name};
use ndn_security::VerifyError;

use super::cache_bypass::CacheBypass;
use super::discovery::{FoundObject, discover};
use super::driver::ObjectStream;
use super::{FetchError, FetchFailure, FetchOptions, Verification};
use crate::express::{ExpressError, InterestRequest};
use crate::handle::Handle;
use crate::pending::ReceivedData;

/// Finds the latest version of the object `name` and fetches it in its own task, which ends when
/// the stream is dropped.
pub(crate) async fn fetch(
    handle: &Handle,
    name: &Name,
    options: &FetchOptions,
) -> Result<ObjectStream, FetchError> {
    let found = discover(handle, name, options).await?;
    learn_certificates(handle, &found, options).await?;
    Ok(ObjectStream::start(handle, found, 0, options))
}

/// Fetches the certificates needed for the segments of an object, if trust rules verify them.
pub(crate) async fn learn_certificates(
    handle: &Handle,
    found: &FoundObject,
    options: &FetchOptions,
) -> Result<(), FetchError> {
    if matches!(options.verification, Verification::Trust(_)) && found.is_segmented() {
        fetch_segment(handle, found, 0, options).await?;
    }
    Ok(())
}

/// Fetches one segment of an object.
///
/// # Errors
/// `Failed` if there is no answer, a Nack, or an answer that fails verification.
pub(crate) async fn fetch_segment(
    handle: &Handle,
    found: &FoundObject,
    segment: u64,
    options: &FetchOptions,
) -> Result<ReceivedData, FetchError> {
    let name = found.segment_name(segment);
    let interval = options.discovery_interval();
    // They end with the last lifetime.
    let before_last = options.lifetime.saturating_mul(options.config.retransmissions_max);
    let retransmissions = before_last.as_nanos() / interval.as_nanos().max(1);
    let request = InterestRequest::new(name.clone())
        .lifetime(options.lifetime)
        .retransmission_interval(interval)
        .retransmissions(u32::try_from(retransmissions).unwrap_or(u32::MAX));
    let failed = |failure| FetchError::Failed { name: found.prefix.to_uri(), failure };
    let received = handle.express(&request).await.map_err(|error| match error {
        ExpressError::Timeout { attempts, waited, .. } => {
            failed(FetchFailure::Timeout { segment, attempts, waited })
        }
        ExpressError::Nack { reason, .. } => failed(FetchFailure::Nack { segment, reason }),
        ExpressError::Closed => FetchError::Closed,
        other @ (ExpressError::NotListening { .. }
        | ExpressError::Encode(_)
        | ExpressError::TooLong(_)
        | ExpressError::Sign(_)
        | ExpressError::Verification { .. }) => FetchError::Discovery(other),
    })?;
    options.verification.load(segment..=segment).await?;
    let nack = || failed(FetchFailure::ApplicationNack { segment });
    let is_nack = |received: &ReceivedData| received.data().content_type() == ContentType::NACK;
    let was_nack = is_nack(&received);
    let reason = match check_segment(handle, &received, options).await {
        Ok(()) if was_nack => return Err(nack()),
        Ok(()) => return Ok(received),
        Err(reason) => reason.to_string(),
    };
    // A cache may hold a wrong packet. A producer without this segment has no packet of its
    // digest either.
    let cache_bypass = CacheBypass::new(handle, found, options);
    let expected = options.verification.expected(segment);
    let fresh_first = was_nack && expected.is_some();
    for expected in fresh_first.then_some(None).into_iter().chain([expected]) {
        let Ok(again) = cache_bypass.fetch(segment, expected.as_ref()).await else { continue };
        match check_segment(handle, &again, options).await {
            Ok(()) if is_nack(&again) => return Err(nack()),
            Ok(()) => return Ok(again),
            Err(_) => {}
        }
    }
    Err(failed(FetchFailure::Verification { segment, reason }))
}

/// Verifies a segment, or an application Nack in its place.
async fn check_segment(
    handle: &Handle,
    received: &ReceivedData,
    options: &FetchOptions,
) -> Result<(), VerifyError> {
    let (data, verification) = (received.data(), &options.verification);
    // A verifier of whole packets needs no certificates.
    if matches!(verification, Verification::Packets(_)) && data.content_type() == ContentType::NACK
    {
        return verification.check_nack(&data);
    }
    verification.check_fetching(handle, options.lifetime, &data).await
}
