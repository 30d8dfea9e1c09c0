//! `faceEvents`: faces as they are created, destroyed, and go up or down.

use std::sync::Arc;
use std::time::Duration;

use async_graphql::Error;
use async_graphql::dynamic::{
    FieldValue, Object, SubscriptionField, SubscriptionFieldFuture, TypeRef,
};
use futures_util::stream::unfold;
use namewire_control::Operations;
use ndn_management::{FaceEventNotification, Management, decode_dataset};
use ndn_packet::{ComponentType, Data, InterestBuilder, Name};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::access;
use super::shapes::{Shape, plain};
use crate::calls::ManagementBy;
use crate::tokens::Role;

/// The stream of management (NFD wiki, `FaceMgmt`, `Notification`).
const PREFIX: &str = "/localhost/nfd/faces/events";
/// Interval between two reads of the stream.
const INTERVAL: Duration = Duration::from_millis(250);
/// Maximum number of events in one result: management keeps as many.
const EVENTS_MAX: u64 = 256;
/// Maximum number of subscriptions, of all clients together.
const SUBSCRIPTIONS_MAX: usize = 32;

/// Limits the subscriptions.
#[derive(Debug, Clone)]
pub(super) struct FaceEventPlaces(Arc<Semaphore>);

impl FaceEventPlaces {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(SUBSCRIPTIONS_MAX)))
    }
}

/// The types of the results.
pub(super) fn types() -> [Object; 2] {
    let events = Shape::List(Box::new(Shape::Object("FaceEvent".to_owned())));
    [
        Object::new("FaceEvents")
            .description("The events of faces since the previous result.")
            .field(plain("lost", "Events lost so far, because there were too many.", Shape::Number))
            .field(plain("events", "In the order in which they happened.", events)),
        Object::new("FaceEvent")
            .description("An event of a face.")
            .field(plain("kind", "`created`, `destroyed`, `up` or `down`.", Shape::Text))
            .field(plain("face_id", "The face.", Shape::Number))
            .field(plain("remote_uri", "URI of its peer.", Shape::Text))
            .field(plain("local_uri", "URI of its own end.", Shape::Text))
            .field(plain("persistency", "`on-demand`, `persistent` or `permanent`.", Shape::Text)),
    ]
}

/// The events of a subscription.
#[derive(Debug, Clone, Copy, Default)]
struct Position {
    /// Number of the next event.
    next: u64,
    lost: u64,
}

/// The event that answers an Interest, with its number.
fn event(
    management: &mut ManagementBy<'_>,
    number: Option<u64>,
) -> Option<(u64, FaceEventNotification)> {
    let mut name = Name::from_uri(PREFIX).ok()?;
    if let Some(number) = number {
        name.push_sequence_num(number);
    }
    let interest = InterestBuilder::new(name.as_ref()).can_be_prefix(number.is_none()).nonce(1);
    let answer = management.exchange(interest.to_vec().ok()?).ok()?;
    let data = Data::parse(&answer).ok()?;
    let number = data.name().last()?.number_of_type(ComponentType::SEQUENCE_NUM)?;
    let events: Vec<FaceEventNotification> = decode_dataset(data.content()?).ok()?;
    Some((number, events.into_iter().next()?))
}

/// The position after the latest event.
fn begin(operations: &dyn Operations) -> Result<Position, String> {
    let mut management = ManagementBy(operations);
    // Management that is turned off is an error, and not a stream without events.
    management.status().map_err(|error| error.to_string())?;
    let next = event(&mut management, None).map_or(0, |(number, _)| number + 1);
    Ok(Position { next, lost: 0 })
}

/// The events from a position on.
fn read(operations: &dyn Operations, mut position: Position) -> (Position, Vec<Value>) {
    let mut management = ManagementBy(operations);
    let Some((latest, _)) = event(&mut management, None) else { return (position, Vec::new()) };
    let first = (latest + 1).saturating_sub(EVENTS_MAX).max(position.next);
    position.lost += first - position.next;
    let mut events = Vec::new();
    for number in first..=latest {
        match event(&mut management, Some(number)) {
            Some((_, FaceEventNotification { kind, properties })) => events.push(json!({
                "kind": kind.to_string(),
                "face_id": properties.face_id,
                "remote_uri": properties.remote_uri,
                "local_uri": properties.local_uri,
                "persistency": properties.persistency.to_string(),
            })),
            None => position.lost += 1,
        }
    }
    position.next = position.next.max(latest + 1);
    (position, events)
}

/// The subscription `faceEvents`.
pub(super) fn subscription() -> SubscriptionField {
    let field = SubscriptionField::new("faceEvents", TypeRef::named_nn("FaceEvents"), |context| {
        SubscriptionFieldFuture::new(async move {
            let (calls, _) = access::authorize(&context, Role::Read)?;
            let places = Arc::clone(&context.data::<FaceEventPlaces>()?.0);
            let place = places.try_acquire_owned();
            let place = place.map_err(|_| access::busy("too many subscriptions to face events"))?;
            let started = calls.call(begin).await;
            let position = started.map_err(|failure| access::unanswered(&failure))?;
            Ok(unfold((position, calls, place), |(mut position, calls, place)| async move {
                loop {
                    tokio::time::sleep(INTERVAL).await;
                    let read = calls.call(move |operations| Ok(read(operations, position))).await;
                    // A forwarder that does not answer now may answer later.
                    let Ok((now, events)) = read else { continue };
                    let is_worth_it = !events.is_empty() || now.lost > position.lost;
                    position = now;
                    if is_worth_it {
                        let result = json!({ "lost": position.lost, "events": events });
                        let result = Ok::<_, Error>(FieldValue::owned_any(result));
                        return Some((result, (position, calls, place)));
                    }
                }
            }))
        })
    });
    let help = "Faces as they are created, destroyed, and go up or down, four times a second while there are events; \
                role read. (`/localhost/nfd/faces/events` of NFD's management protocol)";
    field.description(help)
}
