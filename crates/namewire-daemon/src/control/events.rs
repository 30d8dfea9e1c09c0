//! Handles the events of the data plane.

use ndn_dataplane::{Command, Event, FaceCreated, WorkerGone};
use ndn_face::{CloseReason, FaceOptions};
use ndn_forwarding::{LearningRequest, Scope};
use ndn_management::state::{CreatedFace, Learning};
use ndn_management::{FACE_ID_INTERNAL, FaceProperties, Now, Ticket, status};
use tracing::{debug, error, info, warn};

use super::{Control, Excess};
use crate::addresses;
use crate::faces::{self, Down, KnownFace};

impl Control {
    /// Returns whether there was an event.
    pub(super) fn handle_events(&mut self, now: Now) -> Result<bool, WorkerGone> {
        let mut has_handled = false;
        while let Some(event) = self.dataplane.next_event()? {
            self.handle_event(now, event);
            has_handled = true;
        }
        Ok(has_handled)
    }

    pub(super) fn handle_event(&mut self, now: Now, event: Event) {
        match event {
            Event::FaceAdded { ticket, mut face } => {
                face.local = addresses::near_end(&face.remote, &face.local);
                self.face_added(now, ticket, &face);
            }
            Event::FaceExists { ticket, face_id } => {
                let record = self.state.face(face_id).cloned();
                self.names.is_made(ticket);
                self.statics.face_exists(&mut self.state, ticket, face_id);
                if let (Some(ticket), Some(record)) = (self.take_ticket(ticket), record) {
                    self.state.face_creation_done(now, ticket, Ok(CreatedFace::Existing(record)));
                }
                self.serve_others(now, ticket, face_id);
            }
            Event::FaceRefused { ticket, face_id, error } => {
                match ticket {
                    // Connections of one burst can exceed the limit before this thread has counted them.
                    None => self.full.face_refused(now, face_id, &error),
                    Some(_) => warn!(face_id, %error, "a face was not made"),
                }
                self.strangers.remove(&face_id);
                self.memif.face_removed(face_id);
                self.webtransport.forget(face_id);
                let refused = std::io::Error::new(error.kind(), error.to_string());
                self.end_memory_face(face_id, Err(refused));
                let text = format!("Face creation failed: {}", addresses::words(&error));
                self.not_connected(now, ticket, status::INTERNAL_ERROR, &text);
            }
            Event::FaceClosed { face_id, reason } => {
                let face = self.faces.remove(&face_id);
                if let Some(face) = &face {
                    self.quotas.face_removed(face.index, face_id);
                }
                match (reason, face.as_ref().is_some_and(|face| is_local(&face.options))) {
                    (Some(reason), false) => info!(face_id, %reason, "face closed"),
                    (None, false) => info!(face_id, "face destroyed"),
                    (Some(reason), true) => debug!(face_id, %reason, "face closed"),
                    (None, true) => debug!(face_id, "face destroyed"),
                }
                self.strangers.remove(&face_id);
                self.memif.face_removed(face_id);
                self.webtransport.forget(face_id);
                let lost = face.filter(|_| reason.is_some());
                let lost = lost.and_then(|face| self.lost_session(face_id, &face));
                self.state.face_destroyed(now, face_id);
                if let Some(lost) = lost {
                    self.statics.session_lost(now.monotonic_ns, lost);
                }
            }
            Event::FaceDown { face_id, reason } => {
                // A face can start down: a memif face waits for its server's answer.
                let begins = reason == CloseReason::Failed(std::io::ErrorKind::NotConnected);
                let reason = match begins {
                    true => "it waits for its peer".to_owned(),
                    false => reason.to_string(),
                };
                let face = self.faces.get_mut(&face_id);
                let earlier = face.as_ref().and_then(|face| face.down.as_ref());
                let (was_down, since_ns) =
                    earlier.map_or((false, now.monotonic_ns), |down| (true, down.since_ns));
                let is_news = earlier.is_none_or(|down| down.reason != reason);
                match (begins, was_down) {
                    (true, _) => info!(face_id, "the face is not up yet: {reason}"),
                    (false, true) if is_news => info!(face_id, %reason, "the face stays down"),
                    (false, true) => debug!(face_id, %reason, "the face stays down"),
                    (false, false) => info!(face_id, %reason, "face down"),
                }
                if let Some(face) = face {
                    face.down = Some(Down { reason, since_ns });
                }
                if !was_down {
                    self.state.face_changed_state(now, face_id, false);
                }
            }
            Event::FaceUp { face_id } => {
                info!(face_id, "face up");
                if let Some(face) = self.faces.get_mut(&face_id) {
                    face.down = None;
                }
                self.state.face_changed_state(now, face_id, true);
            }
            Event::PeerRefused { peer } => {
                warn!(%peer, "a UDP peer got no face: there are as many as there may be, or as many of this peer");
            }
            Event::QuotaUsedUp { face, refused } => {
                self.quotas.refused(&mut self.faces, face, refused);
            }
            // Closed on this thread so that packets do not wait for the close; the face may get another socket then.
            Event::SocketUnused(socket) => drop(socket),
            Event::Learning(request) => self.learn(now, request),
            Event::CsErased { ticket, erased, more } => {
                if let Some(ticket) = self.take_ticket(Some(ticket)) {
                    self.state.cs_erase_done(ticket, erased as u64, more);
                }
            }
        }
    }

    /// Handles a self-learning request.
    fn learn(&mut self, now: Now, request: LearningRequest) {
        match request {
            LearningRequest::Learn { face_id, name, announcement } => {
                match self.state.learn_announcement(now, face_id, name.as_ref(), &announcement) {
                    Learning::Learnt(prefix) => debug!(face_id, %prefix, "a route was learnt"),
                    Learning::Waiting => {}
                    Learning::Refused(reason) => {
                        debug!(face_id, reason, "an announcement was refused");
                    }
                }
            }
            LearningRequest::Forget { face_id, name } => {
                if let Some(prefix) = self.state.forget_learnt(face_id, name.as_ref()) {
                    debug!(face_id, %prefix, "a learnt route has ended");
                }
            }
            LearningRequest::Find { ticket, name } => {
                let announcement = self.state.find_announcement(now, name.as_ref());
                let announcement = announcement.map(Vec::into_boxed_slice);
                self.dataplane.send(Command::AnswerLearning { ticket, announcement });
            }
        }
    }

    pub(super) fn face_added(&mut self, now: Now, ticket: Option<u64>, face: &FaceCreated) {
        let record = faces::record(face);
        let FaceProperties { face_id, remote_uri, local_uri, .. } = &record.properties;
        let face_id = *face_id;
        match is_local(&face.options) {
            false => info!(face_id, remote = remote_uri, local = local_uri, "face created"),
            true => debug!(face_id, remote = remote_uri, local = local_uri, "face created"),
        }
        self.faces.insert(
            face_id,
            KnownFace {
                index: face.index,
                options: face.options,
                counters: std::sync::Arc::clone(&face.counters),
                remote: face.remote.clone(),
                excess: Excess::default(),
                down: None,
                // A requested face has its own socket from the start.
                is_separated: ticket.is_some() || !face.remote.is_udp(),
                local: face.local.clone(),
            },
        );
        self.captures.face_added(face.index, face_id);
        self.quotas.face_added(face.index, face_id);
        match self.take_ticket(ticket) {
            Some(ticket) => {
                self.state.face_creation_done(now, ticket, Ok(CreatedFace::New(record)));
            }
            None => self.state.face_created(now, record),
        }
        self.names.is_made(ticket);
        self.statics.face_added(&mut self.state, ticket, face_id);
        self.serve_others(now, ticket, face_id);
        self.follow_session(face_id);
        self.end_memory_face(face_id, Ok(()));
        if face_id == FACE_ID_INTERNAL {
            if let Err(error) = self.state.register_management() {
                error!(%error, "management cannot be reached");
            }
            // Earlier connections wait in the backlog: the worker gets the route to management before the first
            // application.
            if let Err(error) = self.start_accepting() {
                error!(%error, "connections cannot be accepted");
            }
            self.listen_for_sessions();
        }
    }

    pub(super) fn take_ticket(&mut self, number: Option<u64>) -> Option<Ticket> {
        self.tickets.take(number)
    }

    pub(super) fn new_ticket(&mut self, ticket: Ticket) -> u64 {
        self.tickets.add(ticket)
    }
}

/// Returns whether the face belongs to a local application; such faces come and go often and are logged at a lower
/// level.
fn is_local(options: &FaceOptions) -> bool {
    options.properties.scope == Scope::Local
}
