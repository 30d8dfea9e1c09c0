//! The worker's side of the queue of events for the control thread.

use std::collections::BTreeMap;

use crate::event::Event;
use crate::queue::Sender;

/// Events for the control thread. While it is behind, the last change of each face waits here: earlier ones of the same face
/// are dropped. The worker makes no on-demand faces meanwhile, so as many changes wait as it had faces at most.
#[derive(Debug)]
pub(crate) struct EventQueue {
    queue: Sender<Event>,
    /// By FaceId.
    deferred: BTreeMap<u64, Event>,
}

impl EventQueue {
    pub(crate) const fn new(queue: Sender<Event>) -> Self {
        Self { queue, deferred: BTreeMap::new() }
    }

    /// Queues an event, of which there is one for each command or each new face at most.
    pub(super) fn send(&mut self, event: Event) {
        self.queue.send(event);
    }

    /// Queues a change of a face, or keeps it until the queue has room.
    pub(super) fn report(&mut self, face_id: u64, event: Event) {
        if self.is_full() {
            self.deferred.insert(face_id, event);
        } else {
            self.queue.send(event);
        }
    }

    /// Queues the changes that the queue has room for.
    pub(super) fn report_deferred(&mut self) {
        while !self.queue.is_full()
            && let Some((_, event)) = self.deferred.pop_first()
        {
            self.queue.send(event);
        }
    }

    /// Drops the change of a face that a command closes.
    pub(super) fn forget(&mut self, face_id: u64) {
        self.deferred.remove(&face_id);
    }

    /// Whether the control thread is behind: what can wait, or be rejected, should not be sent.
    pub(super) fn is_full(&self) -> bool {
        self.queue.is_full() || !self.deferred.is_empty()
    }

    /// Wakes the control thread if events were queued since the last time.
    pub(super) fn wake(&mut self) {
        self.queue.wake();
    }

    /// Wakes the control thread although nothing was queued.
    pub(super) fn wake_now(&self) {
        self.queue.wake_now();
    }
}

#[cfg(test)]
mod tests {
    use ndn_face::CloseReason;

    use super::*;
    use crate::queue::{QUEUE_LENGTH, channel};

    #[test]
    fn last_change_of_each_face_waits_for_room() {
        let (sender, inbox) = channel().unwrap();
        let mut events = EventQueue::new(sender);
        let up = |face_id| Event::FaceUp { face_id, is_reached: false };
        let down = |face_id| Event::FaceDown { face_id, reason: CloseReason::NoLink };
        for _ in 0..QUEUE_LENGTH {
            events.report(1, up(1));
        }
        assert!(events.is_full() && events.deferred.is_empty());
        for round in 0..1000 {
            for face_id in 1..=3 {
                events.report(face_id, if round % 2 == 0 { up(face_id) } else { down(face_id) });
            }
        }
        events.report_deferred();
        events.forget(2);
        assert_eq!(events.deferred.len(), 2);
        let first: Vec<_> = (0..2).map(|_| inbox.receive().unwrap().unwrap()).collect();
        assert!(first.iter().all(|event| matches!(event, Event::FaceUp { face_id: 1, .. })));
        // There is room, but the others come first.
        events.report(4, up(4));
        events.report_deferred();
        assert_eq!(events.deferred.len(), 1);
        assert!(inbox.receive().unwrap().is_some());
        events.report_deferred();
        assert!(events.deferred.is_empty());
        let rest: Vec<_> = std::iter::from_fn(|| inbox.receive().unwrap()).collect();
        let [.., a, b, c] = &rest[..] else { panic!("{rest:?}") };
        assert!(matches!(a, Event::FaceDown { face_id: 1, .. }), "{a:?}");
        assert!(matches!(b, Event::FaceDown { face_id: 3, .. }), "{b:?}");
        assert!(matches!(c, Event::FaceUp { face_id: 4, .. }), "{c:?}");
    }
}
