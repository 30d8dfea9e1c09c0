//! Decisions on commands and announcements: the authorizer, and what waits until it can decide.

use std::collections::VecDeque;
use std::sync::Arc;

use ndn_packet::{Data, Interest, Name};
use ndn_security::Certificate;
use ndn_security::trust::{AnchorChange, Search, Validation};
use ndn_types::{LedgerReport, Now, PrincipalKey, Reserves, Timestamp};

use super::certificates::{
    Admission, CertificateFetches, FetchContext, Progress, ReceivedCertificate, WaitingRequest,
    WaitingTable,
};
use crate::authorize::{Authority, Authorizer, Requester};
use crate::dispatch::{self, Dispatch};

/// The authorizer, what waits for certificates, and the Interests that fetch these.
pub(super) struct Authorization {
    authorizer: Box<dyn Authorizer + Send>,
    waiting: WaitingTable,
    fetches: CertificateFetches,
    anchor_changes: VecDeque<AnchorChange>,
    operator_users: Vec<u32>,
    operators: Operators,
}

/// Users whom the configuration trusts, and what the others may do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Operators {
    /// User IDs whose programs act for operators, beside root and the user of the forwarder.
    pub users: Vec<u32>,
    /// Whether all others can change only what is theirs.
    pub protect_others: bool,
}

impl Authorization {
    pub(super) fn new(authorizer: Box<dyn Authorizer + Send>, reserves: Reserves) -> Self {
        Self {
            authorizer,
            waiting: WaitingTable::new(reserves),
            fetches: CertificateFetches::default(),
            anchor_changes: VecDeque::new(),
            operator_users: Vec::new(),
            operators: Operators::default(),
        }
    }

    /// Sets the user IDs whose programs act for operators.
    pub(super) fn set_operator_users(&mut self, users: Vec<u32>) {
        self.operator_users = users;
    }

    /// Sets further such users, and what the others may do. Returns users that are no operators any more.
    pub(super) fn set_operators(&mut self, operators: Operators) -> Vec<u32> {
        let mut former = std::mem::replace(&mut self.operators, operators).users;
        former.retain(|uid| !self.is_operator(*uid));
        former
    }

    fn is_operator(&self, uid: u32) -> bool {
        self.operator_users.contains(&uid) || self.operators.users.contains(&uid)
    }

    /// Whether users that are no operators can change only what is theirs.
    pub(super) const fn protects_others(&self) -> bool {
        self.operators.protect_others
    }

    /// The authority on which a command of `principal` is executed, where its signature gives it `authority`.
    pub(super) fn authority_of(&self, principal: PrincipalKey, authority: Authority) -> Authority {
        let is_operator = matches!(
            principal,
            PrincipalKey::LocalApplication { uid, .. } if self.is_operator(uid)
        );
        if is_operator { Authority::Operator } else { authority }
    }

    /// Replaces the authorizer, which refuses what the previous one has executed.
    pub(super) fn replace_authorizer(&mut self, mut authorizer: Box<dyn Authorizer + Send>) {
        authorizer.inherit(self.authorizer.replay_records());
        self.authorizer = authorizer;
    }

    /// Whether `/localhop/nfd` is served.
    pub(super) fn is_localhop_enabled(&self) -> bool {
        self.authorizer.is_localhop_enabled()
    }

    /// Whether this process can read the trust anchors that are refreshed from files.
    pub(super) fn check_anchors(&self) -> Result<(), String> {
        self.authorizer.check_anchors()
    }

    /// The next change of refreshed trust anchors.
    pub(super) fn poll_anchor_change(&mut self) -> Option<AnchorChange> {
        self.anchor_changes.pop_front()
    }

    /// Returns the holdings of all principals.
    pub(super) fn report(&self) -> LedgerReport<1> {
        self.waiting.report()
    }

    /// Decides on a request with the certificates that previous decisions required.
    pub(super) fn dispatch(
        &mut self,
        now: Now,
        interest: &Interest<'_>,
        requester: Requester,
        fetched: &[Arc<Certificate>],
    ) -> Dispatch {
        dispatch::dispatch(now, interest, requester, &mut *self.authorizer, fetched)
    }

    /// Decides on a prefix announcement.
    pub(super) fn authorize_announcement(
        &mut self,
        now: Now,
        announcement: &Data<'_>,
        fetched: &[Arc<Certificate>],
    ) -> Validation {
        self.authorizer.authorize_announcement(now, announcement, fetched)
    }

    /// Notes which certificates a request of a face requires now. Returns false if it need not wait: the request is new, and
    /// none of them could be fetched a short time ago.
    pub(super) fn note_search(
        &self,
        now: Now,
        face_id: u64,
        progress: &mut Progress,
        search: Search,
    ) -> bool {
        let is_new = progress.is_new();
        progress.update(search);
        let has_failed = |name: &Name| self.fetches.has_failed(now.monotonic, name, face_id);
        !(is_new && progress.names().iter().all(has_failed))
    }

    /// Lets a request wait for the certificates that it requires, and requests those that have not been requested. Returns
    /// the request of another principal that gave way to it.
    ///
    /// # Errors
    /// The request, if there is no room for it.
    pub(super) fn wait(
        &mut self,
        principal: PrincipalKey,
        mut waiting: WaitingRequest,
        cx: &mut FetchContext<'_>,
    ) -> Result<Option<WaitingRequest>, WaitingRequest> {
        let (now, face_id) = (cx.now.monotonic, waiting.face_id());
        let has_failed = |name: &Name| self.fetches.has_failed(now, name, face_id);
        let new = waiting.progress_mut().take_new(now, has_failed);
        let deadline = waiting.progress().fetch_deadline();
        match self.waiting.add(principal, waiting) {
            Admission::Admitted(displaced) => {
                for name in new {
                    self.fetches.begin(&name, (face_id, deadline), cx);
                }
                Ok(displaced)
            }
            Admission::Refused(waiting) => Err(waiting),
        }
    }

    /// Takes the requests that a certificate was received for, which have it from now on.
    pub(super) fn take_awaiting(
        &mut self,
        arrival: &ReceivedCertificate,
        cx: &mut FetchContext<'_>,
    ) -> Vec<WaitingRequest> {
        let mut taken = self.waiting.take_awaiting(arrival);
        taken.iter_mut().for_each(|waiting| waiting.progress_mut().add(arrival));
        // Nothing on other faces can use it.
        let is_for = |face_id| !taken.iter().any(|waiting| waiting.face_id() == face_id);
        self.fetches.arrived(&arrival.certificate, is_for, false, cx);
        taken
    }

    /// Takes the announcements and commands that `is_selected` selects.
    pub(super) fn take_if(
        &mut self,
        is_selected: impl Fn(&WaitingRequest) -> bool,
    ) -> Vec<WaitingRequest> {
        self.waiting.take_if(is_selected)
    }

    /// Notes whether a certificate, by which a request of this face was judged, is of use.
    pub(super) fn note_judgement(
        &mut self,
        face_id: u64,
        (arrival, is_used): (&ReceivedCertificate, bool),
        cx: &mut FetchContext<'_>,
    ) {
        self.fetches.arrived(&arrival.certificate, |one| one == face_id, is_used, cx);
    }

    /// Ends those of these fetches for a face that nothing requires any more. `is_queued`: a request that has its turn later
    /// requires the certificate.
    pub(super) fn end_fetches(
        &mut self,
        required: &[Name],
        face_id: u64,
        is_queued: impl Fn(&Name) -> bool,
    ) {
        for name in required {
            if !self.waiting.has(name, face_id) && !is_queued(name) {
                self.fetches.cancel(name, face_id);
            }
        }
    }

    /// Ends the waits and fetches for a destroyed face.
    pub(super) fn face_destroyed(&mut self, face_id: u64) {
        self.waiting.face_destroyed(face_id);
        self.fetches.face_destroyed(face_id);
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        let deadlines = [
            self.waiting.next_deadline(),
            self.fetches.next_deadline(),
            self.authorizer.next_refresh(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Requests certificates again, and reads trust anchors again. Returns the requests that have waited for their time.
    pub(super) fn handle_timeout(&mut self, cx: &mut FetchContext<'_>) -> Vec<WaitingRequest> {
        self.fetches.handle_timeout(cx);
        self.anchor_changes.extend(self.authorizer.refresh(cx.now));
        self.waiting.take_expired(cx.now.monotonic)
    }

    #[cfg(test)]
    pub(super) fn authorizer_mut(&mut self) -> &mut Box<dyn Authorizer + Send> {
        &mut self.authorizer
    }
}
