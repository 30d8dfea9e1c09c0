//! The stream of face events (NFD wiki, `FaceMgmt`, `Notification`), from the subscriber's side.

use std::time::Duration;

use ndn_client::{Endpoint, ExpressError, InterestRequest};
use ndn_management::{FaceEventNotification, decode_dataset};
use ndn_packet::{ComponentType, Name};
use tokio::task::JoinHandle;

use crate::cli::failure::{Failure, Outcome};

const PREFIX: &str = "/localhost/nfd/faces/events";

/// Lifetime of an Interest for the next event. After it the faces are listed again, which recovers from lost events.
const LIFETIME: Duration = Duration::from_secs(60);

/// The stream of face events.
#[derive(Debug)]
pub(super) struct FaceEvents {
    endpoint: Endpoint,
    prefix: Name,
    next: JoinHandle<Result<(u64, FaceEventNotification), Failure>>,
}

impl FaceEvents {
    /// Subscribes to the next event; later events are not missed.
    pub(super) async fn subscribe(endpoint: &Endpoint) -> Outcome<Self> {
        let prefix = super::super::arguments::name(PREFIX).map_err(Failure::Failed)?;
        let request = InterestRequest::new(prefix.clone()).can_be_prefix(true).must_be_fresh(true);
        let next = tokio::spawn(event(endpoint.clone(), request));
        // The Interest is sent before any packet of the caller.
        tokio::task::yield_now().await;
        Ok(Self { endpoint: endpoint.clone(), prefix, next })
    }

    /// The next event; `None` after a timeout or an invalid response, which ends the subscription.
    pub(super) async fn next(&mut self) -> Option<FaceEventNotification> {
        let (number, notification) = (&mut self.next).await.ok()?.ok()?;
        let mut name = self.prefix.clone();
        name.push_sequence_num(number + 1);
        let request = InterestRequest::new(name);
        self.next = tokio::spawn(event(self.endpoint.clone(), request));
        Some(notification)
    }
}

impl Drop for FaceEvents {
    fn drop(&mut self) {
        self.next.abort();
    }
}

async fn event(
    endpoint: Endpoint,
    request: InterestRequest,
) -> Outcome<(u64, FaceEventNotification)> {
    let received = endpoint.express(&request.lifetime(LIFETIME)).await.map_err(Failure::from);
    let received = received.map_err(|failure| Failure::Failed(failure.to_string()))?;
    let broken = || Failure::from(ExpressError::Closed);
    let data = received.data();
    let number =
        data.name().last().and_then(|last| last.number_of_type(ComponentType::SEQUENCE_NUM));
    let events: Vec<FaceEventNotification> =
        decode_dataset(&received.content()).map_err(|_| broken())?;
    let event = events.into_iter().next().ok_or_else(broken)?;
    Ok((number.ok_or_else(broken)?, event))
}
