//! Routes and next hops of faces that are gone.
//!
//! A million of them take seconds. They are removed some at a time, and management serves others in
//! between. Meanwhile nothing that leads to such a face is shown: lists of routes and of next hops are
//! finished after the last of them (commands and the other datasets do not wait). Nothing is sent there
//! either, as forwarding knows by itself which faces exist; only a shorter prefix is found in their place,
//! and routes of others are inherited past them, once they are gone.

use super::ControlState;

/// Prefixes that are dealt with at a time: some milliseconds of work, the data plane's share included. Few in
/// tests, so that random ones meet several slices.
pub(super) const SLICE_PREFIXES: usize = if cfg!(test) { 3 } else { 256 };

impl ControlState {
    /// Whether routes or next hops of faces that are gone are left: [`handle_timeout`](Self::handle_timeout)
    /// removes some with every call.
    #[must_use]
    pub fn is_removing(&self) -> bool {
        !self.departures.is_empty()
    }

    /// A face is gone: what leads there goes now, or begins to.
    pub(super) fn face_departed(&mut self, face_id: u64) {
        if !self.remove_some(face_id) {
            self.departures.push_back(face_id);
        }
    }

    /// Removes one more slice.
    pub(super) fn go_on_removing(&mut self) {
        let Some(&face_id) = self.departures.front() else { return };
        if self.remove_some(face_id) {
            self.departures.pop_front();
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
