//! `faceEvents` and `routingEvents`: faces as they are created, destroyed, and go up or down; routes and strategies as they
//! change.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_graphql::Error;
use async_graphql::dynamic::{
    FieldValue, Object, SubscriptionField, SubscriptionFieldFuture, TypeRef,
};
use futures_util::stream::unfold;
use namewire_control::{EventSink, FaceEvent, Operations, RoutingEvent};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::broadcast::{
    self,
    error::{RecvError, TryRecvError},
};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

use super::access;
use super::shapes::{Shape, plain};
use crate::calls::{Calls, Unanswered};
use crate::tokens::Role;

/// Shortest interval between two results of a subscription.
const INTERVAL: Duration = Duration::from_millis(100);
/// Events that wait for a slow subscription, and maximum number of events in one result.
const EVENTS_MAX: usize = 256;
/// Maximum number of subscriptions to events of a kind, of all clients together.
const SUBSCRIPTIONS_MAX: usize = 32;

/// Asks the control thread to pass events to a receiver.
type Watch<E> = fn(&dyn Operations, EventSink<E>) -> Result<(), String>;

/// Events of a kind, which the control thread pushes to all subscriptions.
pub(super) struct EventFeed<E>(Arc<Feed<E>>);

struct Feed<E> {
    /// Limits the subscriptions.
    places: Arc<Semaphore>,
    events: broadcast::Sender<E>,
    watch: Watch<E>,
    /// Whether the control thread pushes events.
    is_connected: Mutex<bool>,
}

impl<E> fmt::Debug for EventFeed<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("EventFeed")
    }
}

/// The feed of faces.
pub(super) fn faces() -> EventFeed<FaceEvent> {
    EventFeed::new(|operations, sink| operations.watch_faces(sink))
}

/// The feed of routes and strategies.
pub(super) fn routing() -> EventFeed<RoutingEvent> {
    EventFeed::new(|operations, sink| operations.watch_routing(sink))
}

impl<E: Clone + Send + 'static> EventFeed<E> {
    fn new(watch: Watch<E>) -> Self {
        Self(Arc::new(Feed {
            places: Arc::new(Semaphore::new(SUBSCRIPTIONS_MAX)),
            events: broadcast::Sender::new(EVENTS_MAX),
            watch,
            is_connected: Mutex::new(false),
        }))
    }

    /// The events from now on. The first subscription connects the feed with the control thread.
    async fn subscribe(&self, calls: &Calls) -> Result<broadcast::Receiver<E>, Unanswered> {
        let mut is_connected = self.0.is_connected.lock().await;
        if !*is_connected {
            let feed = Arc::downgrade(&self.0);
            let push = move |event| {
                let feed = feed.upgrade();
                // Without a subscription, the event is lost.
                feed.inspect(|feed| drop(feed.events.send(event))).is_some()
            };
            let (sink, watch) = (EventSink(Box::new(push)), self.0.watch);
            calls.call(move |operations| watch(operations, sink)).await?;
            *is_connected = true;
        }
        Ok(self.0.events.subscribe())
    }
}

/// The types of the results.
pub(super) fn types() -> [Object; 4] {
    let list = |name: &str| Shape::List(Box::new(Shape::Object(name.to_owned())));
    let results = |name: &str, help: &str, of: &str| {
        Object::new(name)
            .description(help)
            .field(plain("lost", "Events lost so far, because there were too many.", Shape::Number))
            .field(plain("events", "In the order in which they happened.", list(of)))
    };
    let optional = |shape| Shape::Optional(Box::new(shape));
    let kinds = "`route-added`, `route-changed`, `route-removed`, `strategy-set`, `strategy-unset`, or `more`: further \
                 changes that have no event each, because there were too many at once.";
    [
        results("FaceEvents", "The events of faces since the previous result.", "FaceEvent"),
        Object::new("FaceEvent")
            .description("An event of a face.")
            .field(plain("kind", "`created`, `destroyed`, `up` or `down`.", Shape::Text))
            .field(plain("face_id", "The face.", Shape::Number))
            .field(plain("remote_uri", "URI of its peer.", Shape::Text))
            .field(plain("local_uri", "URI of its own end.", Shape::Text))
            .field(plain("persistency", "`on-demand`, `persistent` or `permanent`.", Shape::Text)),
        results(
            "RoutingEvents",
            "The changes of routes and strategies since the previous result.",
            "RoutingEvent",
        ),
        Object::new("RoutingEvent")
            .description("A change of a route, or of the strategy of a name.")
            .field(plain("kind", kinds, Shape::Text))
            .field(plain("name", "The prefix, a URI.", Shape::Text))
            .field(plain("face_id", "Next hop of the route.", optional(Shape::Number)))
            .field(plain("origin", "Origin of the route.", optional(Shape::Text)))
            .field(plain("cost", "Cost of the route.", optional(Shape::Number)))
            .field(plain("strategy", "The strategy that was set.", optional(Shape::Text))),
    ]
}

/// The events of a subscription.
#[derive(Debug)]
struct Events<E> {
    received: broadcast::Receiver<E>,
    lost: u64,
    /// Counts towards the limit of subscriptions.
    _place: OwnedSemaphorePermit,
}

impl<E: Clone + Serialize> Events<E> {
    /// Waits for events; `None` when the server ends.
    async fn next(&mut self) -> Option<Value> {
        let mut events = Vec::new();
        let lost_before = self.lost;
        let received = self.received.recv().await;
        self.add(received, &mut events)?;
        // What happens at the same time is one result.
        tokio::time::sleep(INTERVAL).await;
        while events.len() < EVENTS_MAX {
            match self.received.try_recv() {
                Ok(event) => events.push(event),
                Err(TryRecvError::Lagged(count)) => self.lost += count,
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        debug_assert!(!events.is_empty() || self.lost > lost_before);
        Some(json!({ "lost": self.lost, "events": events }))
    }

    fn add(&mut self, received: Result<E, RecvError>, events: &mut Vec<E>) -> Option<()> {
        match received {
            Ok(event) => events.push(event),
            Err(RecvError::Lagged(count)) => self.lost += count,
            Err(RecvError::Closed) => return None,
        }
        Some(())
    }
}

/// The subscriptions `faceEvents` and `routingEvents`.
pub(super) fn subscriptions() -> [SubscriptionField; 2] {
    let faces = "Faces as they are created, destroyed, and go up or down; ten results a second at most; role read. \
                 (`/localhost/nfd/faces/events` of NFD's management protocol)";
    let routing = "Routes as they are added, changed and removed, and strategies as they are set and unset, by commands, the \
                   configuration or expiry; ten results a second at most; role read.";
    [
        subscription::<FaceEvent>("faceEvents", "FaceEvents").description(faces),
        subscription::<RoutingEvent>("routingEvents", "RoutingEvents").description(routing),
    ]
}

fn subscription<E: Clone + Serialize + Send + 'static>(name: &str, of: &str) -> SubscriptionField {
    SubscriptionField::new(name, TypeRef::named_nn(of), |context| {
        SubscriptionFieldFuture::new(async move {
            let (calls, _) = access::authorize(&context, Role::Read)?;
            let feed = context.data::<EventFeed<E>>()?;
            let place = Arc::clone(&feed.0.places).try_acquire_owned();
            let place = place.map_err(|_| access::busy("too many subscriptions to events"))?;
            let received = feed.subscribe(&calls).await;
            let received = received.map_err(|failure| access::unanswered(&failure))?;
            let events = Events { received, lost: 0, _place: place };
            Ok(unfold(events, |mut events| async move {
                let result = events.next().await?;
                Some((Ok::<_, Error>(FieldValue::owned_any(result)), events))
            }))
        })
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn event(face_id: u64) -> FaceEvent {
        let [kind, persistency] = ["created", "persistent"].map(str::to_owned);
        let (remote_uri, local_uri) = (String::new(), String::new());
        FaceEvent { kind, face_id, remote_uri, local_uri, persistency }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_subscription_loses_the_oldest_events_and_receives_their_number() {
        let feed = faces();
        let place = Arc::clone(&feed.0.places).try_acquire_owned().unwrap();
        let mut events = Events { received: feed.0.events.subscribe(), lost: 0, _place: place };
        for face_id in 0..EVENTS_MAX as u64 + 3 {
            feed.0.events.send(event(face_id)).unwrap();
        }
        let result = events.next().await.unwrap();
        let received = result["events"].as_array().unwrap();
        assert_eq!((&result["lost"], received.len()), (&3.into(), EVENTS_MAX));
        assert_eq!(received[0], serde_json::to_value(event(3)).unwrap());
        drop(feed);
        assert!(events.next().await.is_none(), "the server has ended");
    }
}
