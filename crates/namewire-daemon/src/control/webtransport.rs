//! Faces of WebTransport sessions.

use ndn_dataplane::Command;
use ndn_face::Persistency;
use ndn_management::{Now, status};
use ndn_types::FaceUri;
use ndn_webtransport::{Accepted, Identity, Target};
use tracing::{debug, error, info};

use super::Control;
use crate::destinations::Destinations;
use crate::faces::{self, KnownFace, Wanted};
use crate::static_setup::LostSession;
use crate::webtransport::{FollowedPath, SessionEvent};

impl Control {
    /// Starts to listen for sessions, if configured.
    pub(super) fn listen_for_sessions(&mut self) {
        let opened = std::mem::take(&mut self.listeners.webtransport);
        if opened.sockets.is_empty() {
            return;
        }
        if let Err(error) = self.webtransport.listen(&self.config, opened) {
            error!("no WebTransport sessions can be accepted: {error:#}");
        }
        self.listeners.webtransport_hashes = self.webtransport_status().self_signed_hashes();
    }

    /// Reads the certificate files again, if configured.
    pub(crate) fn read_certificate(&self) -> anyhow::Result<Option<Identity>> {
        self.webtransport.read_certificate(&self.config.listeners.webtransport)
    }

    /// Replaces the certificate.
    pub(crate) fn use_certificate(&self, certificate: Option<Identity>) {
        self.webtransport.use_certificate(certificate);
    }

    /// Status for the control socket.
    pub(super) fn webtransport_status(&self) -> namewire_control::WebTransportStatus {
        self.webtransport.status(&self.config, &self.listeners.webtransport_addresses)
    }

    /// Handles sessions that have opened or failed.
    pub(super) fn take_sessions(&mut self, now: Now) {
        for event in self.webtransport.take_events() {
            match event {
                SessionEvent::Accepted(session) => self.session_accepted(now, session),
                SessionEvent::Path { face_id, length } => {
                    if let Some(followed) = self.webtransport.followed(face_id) {
                        followed.found = length;
                    }
                    self.follow_session(face_id);
                }
                SessionEvent::Connected { target, wanted, result } => {
                    self.session_opened(now, &target, &wanted, result);
                }
            }
        }
    }

    /// Creates a face, or closes the session by dropping its stream.
    fn session_accepted(&mut self, now: Now, session: Accepted) {
        if self.faces.len() >= self.config.limits.faces {
            return self.full.connection_refused(now, self.config.limits.faces);
        }
        let peer = session.remote;
        if !self.strangers.has_room(peer.ip()) {
            return self.refused_peers.peer_refused(now, peer);
        }
        let face_id = self.dataplane.allocate_face_id();
        self.strangers.add(face_id, peer.ip());
        let mtu = self.webtransport.follow(face_id, &session.mtu);
        let face = faces::accepted_session(face_id, session, mtu, &self.config);
        self.dataplane.send(Command::AddFace(Box::new(face)));
    }

    /// Sets the frame length of an existing face to the path MTU of its session.
    pub(super) fn follow_session(&mut self, face_id: u64) {
        let Some(mtu) = self.faces.get(&face_id).map(|face| face.options.link.mtu) else { return };
        let Some(followed) = self.webtransport.followed(face_id) else { return };
        let FollowedPath { given, found } = *followed;
        if mtu != Some(given) {
            // An operator has set another MTU.
            return self.webtransport.forget(face_id);
        }
        if found != given {
            debug!(
                face_id,
                before = given,
                now = found,
                "the path of a session takes other frames"
            );
            followed.given = found;
            let (_, mut cx) = self.interfaces_and_cx(self.now());
            cx.resize(face_id, found);
        }
    }

    /// Starts to open a session for a face.
    pub(super) fn open_session(&mut self, now: Now, uri: &FaceUri, wanted: &Wanted) {
        let existing = self.faces.iter().find(|(_, face)| face.remote == *uri);
        if let Some((&face_id, _)) = existing {
            let event = ndn_dataplane::Event::FaceExists { ticket: wanted.ticket, face_id };
            return self.handle_event(now, event);
        }
        if !self.connecting.begin(uri, wanted) {
            return;
        }
        let uri = uri.to_string();
        let begun = match uri.parse::<Target>() {
            Err(error) => Err(error.to_string()),
            Ok(target) => self
                .webtransport
                .connect(&self.config, target, *wanted)
                .map_err(|error| error.to_string()),
        };
        if let Err(reason) = begun {
            self.session_failed(now, &uri, wanted, &reason);
        }
    }

    /// Returns the session to open again if the face was permanent and had one.
    pub(super) fn lost_session(&self, face_id: u64, face: &KnownFace) -> Option<LostSession> {
        if face.remote.scheme() != "https" || face.options.persistency != Persistency::Permanent {
            return None;
        }
        Some(LostSession {
            face_id,
            remote: face.remote.clone(),
            wanted: Wanted::again(&face.options),
            destinations: Destinations::of(&self.state, face_id),
        })
    }

    fn session_opened(
        &mut self,
        now: Now,
        target: &Target,
        wanted: &Wanted,
        result: Result<Accepted, String>,
    ) {
        match result {
            // The face was destroyed meanwhile: dropping the session closes it.
            Ok(_)
                if self.statics.is_cancelled(wanted.ticket)
                    && !self.connecting.is_shared(wanted.ticket) =>
            {
                let text = "the face is not wanted any more";
                self.not_connected(now, wanted.ticket, status::CONNECT_FAILED, text);
            }
            Ok(session) => {
                let face_id = self.dataplane.allocate_face_id();
                // A configured or requested MTU stays.
                let mtu = match wanted.options.mtu {
                    None => self.webtransport.follow(face_id, &session.mtu),
                    Some(_) => session.mtu.value(),
                };
                let config = &self.config;
                let face = faces::opened_session(face_id, session, mtu, target, wanted, config);
                self.dataplane.send(Command::AddFace(Box::new(face)));
            }
            Err(reason) => self.session_failed(now, &target.to_string(), wanted, &reason),
        }
    }

    fn session_failed(&mut self, now: Now, uri: &str, wanted: &Wanted, reason: &str) {
        info!(uri, reason, "cannot open a WebTransport session");
        let text = format!("Cannot connect to {uri}: {reason}");
        self.not_connected(now, wanted.ticket, status::CONNECT_FAILED, &text);
    }
}
