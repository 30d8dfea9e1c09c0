//! Routes and next hops of faces that are gone, and routes whose time is over.
//!
//! A million of them take seconds. They are removed some at a time, and management serves others in
//! between. Meanwhile none of them is shown: lists of routes and of next hops are finished after the last
//! (commands and the other datasets do not wait). Nothing is sent to a face that is gone either, as forwarding
//! knows by itself which faces exist; only a shorter prefix is found in their place, and routes of others are
//! inherited past them, once they are gone. What has expired is used until the version of the FIB that is
//! published after its slice.

use std::collections::VecDeque;

use super::ControlState;

/// Prefixes that are dealt with at a time: 5 to 10 ms of work. One prefix whose route has CHILD_INHERIT is as
/// many FIB updates as there are entries below it, and all of them are in its slice. Few in tests, so that
/// random ones meet several slices.
pub(super) const SLICE_PREFIXES: usize = if cfg!(test) { 3 } else { 256 };
/// Slices of expired routes for one version of the FIB: they are used until then, so this is a matter of less
/// than a second; each version copies what differs from the last.
pub(super) const SLICES_PER_VERSION: usize = 64;
/// Slices that one command waits for where a table is full: some tenths of a second.
pub(super) const ROOM_SLICES_MAX: usize = 32;

/// What is left to be removed.
#[derive(Debug, Default)]
pub(super) struct Departures {
    /// Faces that are gone, in this order.
    pub(super) faces: VecDeque<u64>,
    /// Routes that expired by then are left.
    expired_ns: Option<u64>,
    /// Slices of expired routes since the last version that was asked for because of them.
    expired_slices: usize,
}

impl ControlState {
    /// Whether routes or next hops of faces that are gone, or routes that have expired, are left:
    /// [`handle_timeout`](Self::handle_timeout) removes some with every call.
    #[must_use]
    pub fn is_removing(&self) -> bool {
        !self.departures.faces.is_empty() || self.departures.expired_ns.is_some()
    }

    /// A face is gone: what leads there goes now, or begins to.
    pub(super) fn face_departed(&mut self, face_id: u64) {
        if self.remove_some(face_id) {
            // Whatever else is being removed: what its prefixes hid is to be found.
            self.is_awaited = true;
        } else {
            self.departures.faces.push_back(face_id);
        }
    }

    /// Routes whose expiry is `now_ns` or earlier are to be removed, if there are any.
    pub(super) fn routes_expired(&mut self, now_ns: u64) {
        if self.rib.next_deadline_ns().is_some_and(|deadline_ns| deadline_ns <= now_ns) {
            self.departures.expired_ns = Some(now_ns);
        }
    }

    /// Removes one more slice of expired routes and one of what leads to a face that is gone.
    pub(super) fn go_on_removing(&mut self) {
        self.remove_expired();
        let Some(&face_id) = self.departures.faces.front() else { return };
        if self.remove_some(face_id) {
            self.departures.faces.pop_front();
            self.is_awaited = true;
        }
    }

    /// Removes slices until there is room, nothing is left or [`ROOM_SLICES_MAX`] did not help.
    pub(super) fn make_room(&mut self, is_full: impl Fn(&Self) -> bool) {
        for _ in 0..ROOM_SLICES_MAX {
            if !self.is_removing() || !is_full(self) {
                break;
            }
            self.go_on_removing();
        }
    }

    /// Removes a slice of expired routes.
    fn remove_expired(&mut self) {
        let Some(now_ns) = self.departures.expired_ns.take() else { return };
        self.rib.handle_timeout(now_ns, SLICE_PREFIXES);
        self.carry_into_fib();
        self.departures.expired_slices += 1;
        self.routes_expired(now_ns);
        if self.departures.expired_ns.is_none()
            || self.departures.expired_slices >= SLICES_PER_VERSION
        {
            self.departures.expired_slices = 0;
            self.is_awaited = true;
        }
    }

    /// Removes a slice of what leads to a face; true if nothing is left.
    fn remove_some(&mut self, face_id: u64) -> bool {
        for _ in 0..SLICE_PREFIXES {
            if self.rib.remove_face(face_id, 1) > 0 {
                self.carry_into_fib();
            } else if let Some(update) = self.fib.remove_first(face_id) {
                // One that the RIB did not ask for.
                self.fib_deferred(update);
            } else {
                return true;
            }
        }
        !self.rib.has_face(face_id) && !self.fib.has_face(face_id)
    }
}
