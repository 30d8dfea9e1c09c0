//! Management Interests that arrive over no face: from the control socket and from the embedding program.

use std::sync::mpsc::SyncSender;

use ndn_management::{Handled, Now};
use ndn_packet::{Data, Interest, Name};
use ndn_types::duration_ns;

use super::Control;

/// Minimum time that a request waits for its Data; an Interest with a longer lifetime waits for its lifetime.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);
/// Maximum pending requests.
const WAITING_MAX: usize = 1024;

/// The Data that answers a request, or the reason for the failure.
pub(crate) type LocalAnswer = Result<Vec<u8>, String>;

/// A management Interest, and the channel for its Data.
#[derive(Debug)]
pub(crate) struct LocalRequest {
    /// The packet.
    pub(crate) interest: Vec<u8>,
    /// Receives one answer.
    pub(crate) answer: SyncSender<LocalAnswer>,
}

/// A request without an answer yet.
#[derive(Debug)]
struct Waiting {
    name: Name,
    can_be_prefix: bool,
    /// An Interest received on a face may expect the same Data.
    is_shared: bool,
    deadline_ns: u64,
    answer: SyncSender<LocalAnswer>,
}

/// Requests that wait for management, or for the workers to use the tables that a command changed.
#[derive(Debug, Default)]
pub(super) struct LocalRequests {
    waiting: Vec<Waiting>,
    answered: Vec<(SyncSender<LocalAnswer>, Vec<u8>)>,
}

impl LocalRequests {
    /// Records that Interests have arrived on faces.
    pub(super) fn note_interests(&mut self) {
        self.waiting.iter_mut().for_each(|one| one.is_shared = true);
    }

    /// Takes a Data of management if it answers requests. Returns true if no Interest on a face expects the same
    /// Data.
    pub(super) fn take_reply(&mut self, wire: &[u8]) -> bool {
        if self.waiting.is_empty() {
            return false;
        }
        let Ok(data) = Data::parse(wire) else { return false };
        let (mut is_taken, mut is_shared) = (false, false);
        let answers = |one: &mut Waiting| {
            data.name() == one.name.as_ref()
                || one.can_be_prefix && data.name().starts_with(one.name.as_ref())
        };
        for waiting in self.waiting.extract_if(.., answers) {
            is_taken = true;
            is_shared |= waiting.is_shared;
            self.answered.push((waiting.answer, wire.to_vec()));
        }
        is_taken && !is_shared
    }

    /// Returns whether answers wait for [`send`](Self::send).
    pub(super) fn has_answers(&self) -> bool {
        !self.answered.is_empty()
    }

    /// Sends the answers. The caller ensures that all workers use the new tables.
    pub(super) fn send(&mut self) {
        for (answer, wire) in self.answered.drain(..) {
            // The requester may have gone.
            let _ = answer.send(Ok(wire));
        }
    }

    /// Time of the next [`handle_timeout`](Self::handle_timeout).
    pub(super) fn next_deadline_ns(&self) -> Option<u64> {
        self.waiting.iter().map(|one| one.deadline_ns).min()
    }

    /// Fails requests that have timed out.
    pub(super) fn handle_timeout(&mut self, now_ns: u64) {
        for late in self.waiting.extract_if(.., |one| one.deadline_ns <= now_ns) {
            let _ = late.answer.send(Err("management gave no answer in time".to_owned()));
        }
    }
}

impl Control {
    /// Executes a request of an operator of this host. Access control does not apply: access to the control socket,
    /// or embedding the forwarder, grants every permission.
    pub(crate) fn handle_local_request(&mut self, now: Now, request: LocalRequest) {
        let LocalRequest { interest, answer } = request;
        // The requester may have gone, here and below.
        let refuse = |reason: String| drop(answer.send(Err(reason)));
        if !self.config.management.enabled {
            return refuse("management is turned off (management.enabled)".to_owned());
        }
        if self.local.waiting.len() >= WAITING_MAX {
            return refuse("too many requests wait for management".to_owned());
        }
        let Ok(parsed) = Interest::parse(&interest) else {
            return refuse("the request is not an Interest".to_owned());
        };
        let lifetime_ns = parsed.lifetime_ms().saturating_mul(1_000_000);
        let waiting = Waiting {
            name: parsed.name().to_name(),
            can_be_prefix: parsed.can_be_prefix(),
            is_shared: self.state.is_listing(),
            deadline_ns: now.monotonic_ns.saturating_add(duration_ns(PATIENCE).max(lifetime_ns)),
            answer: answer.clone(),
        };
        let figures = self.figures();
        let telemetry = figures.telemetry(&self.faces, now.monotonic_ns);
        let handled = self.state.handle_operator_interest(now, &interest, &telemetry);
        match &handled {
            Handled::Ignored(reason) => refuse(format!("not a management Interest: {reason}")),
            Handled::Malformed => refuse("the request is not an Interest".to_owned()),
            Handled::Data { answered: false } | Handled::Event { answered: false } => {
                refuse("there is no such Data".to_owned());
            }
            Handled::Command { .. }
            | Handled::Refused { .. }
            | Handled::Data { .. }
            | Handled::Event { .. }
            | Handled::UnknownFace => self.local.waiting.push(waiting),
        }
        self.note_handled(now, 0, handled);
    }
}
