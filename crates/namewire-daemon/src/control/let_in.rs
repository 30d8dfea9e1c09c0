//! Operators who are let in although there are as many faces as there may be.

use std::collections::HashMap;

use ndn_dataplane::{NewFace, NewTransport};

/// How long the place of who has asked is kept: it connects at once.
const PLACE_KEPT_NS: u64 = 5_000_000_000;
/// Processes that may have asked at a time.
const PLACES_MAX: usize = 64;

/// Processes whose next connection gets a face for operators, by their numbers, and until when.
#[derive(Debug, Default)]
pub(super) struct LetIn {
    until_ns: HashMap<u32, u64>,
}

impl LetIn {
    /// Notes that a process has asked.
    pub(super) fn note(&mut self, now_ns: u64, process: u32) {
        self.until_ns.retain(|_, until_ns| *until_ns > now_ns);
        if self.until_ns.len() < PLACES_MAX {
            self.until_ns.insert(process, now_ns + PLACE_KEPT_NS);
        }
    }

    /// Whether a process has asked a short time ago; that is used up by it.
    pub(super) fn take(&mut self, now_ns: u64, process: u32) -> bool {
        self.until_ns.remove(&process).is_some_and(|until_ns| until_ns > now_ns)
    }
}

/// The same face, as that of an operator.
pub(super) fn of_operator(face: NewFace) -> NewFace {
    if let NewTransport::Stream(stream) = face.transport {
        NewFace { transport: NewTransport::Operator(stream), ..face }
    } else {
        face
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_asked_is_let_in_once_and_soon() {
        let mut places = LetIn::default();
        assert!(!places.take(0, 7));
        places.note(0, 7);
        assert!(!places.take(1, 8), "another process");
        assert!(places.take(1, 7));
        assert!(!places.take(1, 7), "a second connection");
        places.note(0, 7);
        assert!(!places.take(PLACE_KEPT_NS, 7), "too late");
    }

    #[test]
    fn only_so_many_are_remembered() {
        let mut places = LetIn::default();
        (0..1000).for_each(|process| places.note(0, process));
        assert_eq!(places.until_ns.len(), PLACES_MAX);
        places.note(PLACE_KEPT_NS, 1000);
        assert!(places.take(PLACE_KEPT_NS, 1000), "the others had their time");
    }
}
