//! Commands that wait for a certificate.

use std::sync::Arc;

use ndn_packet::{Data, Interest, InterestBuilder, Name};
use ndn_security::Certificate;

use super::{Action, ControlState, Executing, Handled};
use crate::Now;
use crate::authorize::Requester;
use crate::command::Verb;
use crate::dispatch::{self, Dispatch};
use crate::response::{ControlResponse, status};

/// Commands that wait at one time; more are refused.
const WAITING_MAX: usize = 256;
/// Commands that wait from one face: nobody keeps the others from being heard.
const WAITING_PER_FACE_MAX: usize = 16;
/// Certificates that one command may ask for.
pub(super) const FETCHES_MAX: usize = 25;
/// How long each may take.
pub(super) const PATIENCE_MS: u64 = 4000;

#[derive(Debug)]
struct Waiting {
    wire: Vec<u8>,
    requester: Requester,
    verb: Verb,
    signer: String,
    progress: Progress,
    deadline_ns: u64,
}

/// What a command has asked for so far, the last one in vain yet.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) asked: Vec<Name>,
    pub(super) fetched: Vec<Arc<Certificate>>,
}

#[derive(Debug, Default)]
pub(super) struct WaitingTable {
    entries: Vec<Waiting>,
}

impl WaitingTable {
    pub(super) fn next_deadline_ns(&self) -> Option<u64> {
        self.entries.iter().map(|entry| entry.deadline_ns).min()
    }

    fn has_room_for(&self, requester: Requester) -> bool {
        let of_face = self.entries.iter().filter(|entry| entry.requester == requester).count();
        self.entries.len() < WAITING_MAX && of_face < WAITING_PER_FACE_MAX
    }

    fn take_if(&mut self, is_wanted: impl Fn(&Waiting) -> bool) -> Vec<Waiting> {
        let (taken, kept) =
            std::mem::take(&mut self.entries).into_iter().partition(|entry| is_wanted(entry));
        self.entries = kept;
        taken
    }
}

impl ControlState {
    /// Lets a command wait for a certificate, and asks for it: the requester first, then the
    /// network.
    pub(super) fn wait_for_certificate(
        &mut self,
        now: Now,
        interest: &Interest<'_>,
        requester: Requester,
        (verb, signer, name): (Verb, String, Name),
        mut progress: Progress,
    ) -> Handled {
        let is_futile = progress.asked.contains(&name) || progress.asked.len() == FETCHES_MAX;
        if is_futile || !self.waiting.has_room_for(requester) {
            let reason = format!("certificate {name} cannot be had");
            return self.refuse_untrusted(interest, verb, signer, reason);
        }
        let is_asked_for = self.waiting.entries.iter().any(|entry| {
            entry.requester == requester && entry.progress.asked.last() == Some(&name)
        });
        if !is_asked_for {
            self.ask_for_certificate(&name, requester.face_id);
        }
        progress.asked.push(name);
        let deadline_ns = now.monotonic_ns.saturating_add(PATIENCE_MS * 1_000_000);
        let wire = interest.wire().to_vec();
        let handled = Handled::Command { verb, signer: signer.clone(), code: None };
        self.waiting.entries.push(Waiting { wire, requester, verb, signer, progress, deadline_ns });
        handled
    }

    /// Asks for a certificate: the face that needs it first, then the network.
    pub(super) fn ask_for_certificate(&mut self, name: &Name, face_id: u64) {
        let request = InterestBuilder::new(name)
            .can_be_prefix(true)
            .must_be_fresh(true)
            .lifetime_ms(PATIENCE_MS)
            .to_vec();
        for next_hop in [Some(face_id), None] {
            if let Ok(wire) = request.clone() {
                self.actions.push_back(Action::SendInterest { wire, next_hop });
            }
        }
    }

    /// Takes a Data that came to management's own face: a certificate that was asked for. What
    /// became of the commands that waited for it comes out of [`ControlState::poll_outcome`].
    pub fn handle_data(&mut self, now: Now, wire: &[u8]) {
        let Ok(data) = Data::parse(wire) else {
            self.counters.malformed += 1;
            return;
        };
        if self.is_answer_to_readvertise(now, &data) {
            return;
        }
        let waiting = self.waiting.take_if(|entry| {
            entry.progress.asked.last().is_some_and(|name| data.name().starts_with(name.as_ref()))
        });
        let awaits_announcement = self.learnt.awaits(data.name());
        if waiting.is_empty() && !awaits_announcement {
            return;
        }
        let certificate = Certificate::parse(wire.to_vec()).map(Arc::new);
        if awaits_announcement {
            self.judge_announcements(now, data.name(), certificate.as_ref().ok());
        }
        for entry in waiting {
            let Waiting { wire, requester, verb, signer, mut progress, .. } = entry;
            let Ok(interest) = Interest::parse(&wire) else { continue };
            let handled = match &certificate {
                Ok(certificate) => {
                    progress.fetched.push(Arc::clone(certificate));
                    self.judge_again(now, &interest, requester, progress)
                }
                Err(error) => self.refuse_untrusted(&interest, verb, signer, error.to_string()),
            };
            self.outcomes.push_back((requester.face_id, handled));
        }
    }

    fn judge_again(
        &mut self,
        now: Now,
        interest: &Interest<'_>,
        requester: Requester,
        progress: Progress,
    ) -> Handled {
        let authorizer = &mut *self.collaborators.authorizer;
        match dispatch::dispatch(now, interest, requester, authorizer, &progress.fetched) {
            Dispatch::Execute(command) => {
                self.execute(Executing { now, name: interest.name() }, *command)
            }
            Dispatch::Refuse { verb, response, signer, reason } => {
                self.refuse(interest.name(), verb, &response, signer, reason)
            }
            Dispatch::NeedsCertificate { verb, signer, name } => {
                self.wait_for_certificate(now, interest, requester, (verb, signer, name), progress)
            }
            Dispatch::Ignore(reason) => Handled::Ignored(reason),
            // A command does not become anything else meanwhile.
            Dispatch::Publish { .. }
            | Dispatch::NackDataset(_)
            | Dispatch::Stored
            | Dispatch::Events => Handled::Malformed,
        }
    }

    /// Refuses the commands whose certificates did not come in time.
    pub(super) fn give_up_waiting(&mut self, now: Now) {
        for entry in self.waiting.take_if(|entry| entry.deadline_ns <= now.monotonic_ns) {
            let Ok(interest) = Interest::parse(&entry.wire) else { continue };
            let name = entry.progress.asked.last().cloned().unwrap_or_default();
            let reason = format!("certificate {name} cannot be had");
            let handled = self.refuse_untrusted(&interest, entry.verb, entry.signer, reason);
            self.outcomes.push_back((entry.requester.face_id, handled));
        }
    }

    fn refuse_untrusted(
        &mut self,
        interest: &Interest<'_>,
        verb: Verb,
        signer: String,
        reason: String,
    ) -> Handled {
        let text = format!("authorization rejected: {reason}");
        let response = ControlResponse::new(status::FORBIDDEN, text);
        self.refuse(interest.name(), verb, &response, signer, reason)
    }
}
