//! Processes management Interests and sends the replies.

use ndn_dataplane::{Command, CsSettings, WorkerGone};
use ndn_management::{Action, FibUpdate, Now};
use ndn_packet::{LpHeader, LpPacket};
use ndn_security::trust::AnchorChange;
use tracing::{error, info, warn};

use super::Control;
use super::replies::segment_name;
use crate::faces;
use crate::tables::Published;
use crate::telemetry::Figures;

/// CachePolicyType NoCache.
const NO_CACHE: u64 = 1;
/// TLV-TYPE of Data (first byte).
const DATA_TYPE: u8 = 6;
/// Maximum Interests answered per round, so that one busy client neither starves other clients nor delays a shutdown.
const INTERESTS_PER_ROUND: usize = 64;

impl Control {
    /// Takes Interests from the internal face; [`work`](Self::work) sends the replies. The commands of one round
    /// share one version of the FIB: copying the changed pages costs more than the changes.
    ///
    /// # Errors
    /// A worker has ended.
    pub(super) fn handle_interests(&mut self, now: Now) -> Result<(), WorkerGone> {
        if self.replies.is_full() {
            self.is_behind = true;
            return Ok(());
        }
        let mut figures = None;
        for _ in 0..INTERESTS_PER_ROUND {
            let Some(frame) = self.internal.receive() else {
                self.is_behind = false;
                return Ok(());
            };
            let Ok(packet) = LpPacket::parse(&frame) else { continue };
            let (Some(wire), Some(face_id)) = (packet.fragment(), packet.incoming_face_id()) else {
                continue;
            };
            if packet.nack().is_some() || !self.config.management.enabled {
                continue;
            }
            if wire.first() == Some(&DATA_TYPE) {
                self.state.handle_data(now, wire);
                self.report_outcomes();
                continue;
            }
            if self.state.face(face_id).is_none() {
                // The face was created during this round. Its event was sent before its Interest.
                self.handle_events(now)?;
            }
            // The figures are read once per round.
            let figures = figures.get_or_insert_with(|| self.figures());
            let telemetry = figures.telemetry(&self.faces, now.monotonic_ns);
            self.local.note_interests();
            let handled = self.state.handle_interest(now, wire, face_id, &telemetry);
            self.note_handled(now, face_id, handled);
        }
        self.is_behind = true;
        Ok(())
    }

    /// Collects the data-plane figures that datasets report, except those of faces.
    pub(super) fn figures(&self) -> Figures {
        let channels = self.channels.iter().cloned().chain(self.interfaces.ethernet.channels());
        let mut channels: Vec<String> = channels.collect();
        // Grouped by scheme, as NFD does.
        channels.sort_unstable();
        Figures { counters: self.dataplane.counters(), channels }
    }

    /// Logs the outcomes of deferred commands.
    pub(super) fn report_outcomes(&mut self) {
        while let Some((face_id, handled)) = self.state.poll_outcome() {
            self.note_handled(self.now(), face_id, handled);
        }
    }

    /// Logs changes of trust anchors.
    pub(super) fn report_anchors(&mut self) {
        while let Some(change) = self.state.poll_anchor_change() {
            match change {
                AnchorChange::Changed { path, count } => {
                    info!(path, count, "trust anchors have changed");
                }
                AnchorChange::Unreadable { path, reason } => {
                    warn!(
                        path,
                        reason, "trust anchors cannot be read again: they stay as they are"
                    );
                }
            }
        }
    }

    /// Performs the actions of the state machine and publishes their results. Returns whether there was an action.
    pub(super) fn work(&mut self, now: Now) -> bool {
        let has_performed = self.perform_all(now);
        self.publish_tables();
        let has_sent = self.send_replies();
        self.dataplane.wake();
        has_performed || has_sent
    }

    /// Performs the actions of the state machine without publishing tables. Returns whether there was an action.
    pub(super) fn perform_all(&mut self, now: Now) -> bool {
        let mut has_performed = false;
        while let Some(action) = self.state.poll_action() {
            self.perform(now, action);
            has_performed = true;
        }
        has_performed
    }

    /// Publishes changed tables to the workers. While routes to removed faces are deleted in parts, publishes only if
    /// a command waits for a change: each version copies all pages that differ from the last.
    pub(super) fn publish_tables(&mut self) {
        if self.state.is_removing() && !self.is_fib_awaited {
            return;
        }
        self.is_fib_awaited = false;
        if let Some(published) = self.tables.publish() {
            let Published { fib, strategies } = published;
            self.dataplane.send(Command::SetTables { fib, strategies });
        }
    }

    /// Sends replies while the internal face has room. Tables have been sent before: the worker uses them from the
    /// moment it sees the reply. Returns whether a reply was sent.
    pub(super) fn send_replies(&mut self) -> bool {
        if self.replies.is_empty() && !self.local.has_answers() {
            return false;
        }
        // The worker executes commands before it polls the internal face again.
        self.dataplane.wake();
        // Local answers pass through no worker: what the requester sends next may reach any of them first.
        let has_answered = self.local.has_answers() && self.dataplane.has_executed_all();
        if has_answered {
            self.local.send();
        }
        // The other workers have executed them once this is true.
        if !self.dataplane.is_settled() {
            return has_answered;
        }
        self.replies.send(&mut self.internal) || has_answered
    }

    /// Gives on-demand UDP peers that become next hops sockets of their own, so that their answers do not arrive on
    /// the shared socket.
    fn separate_next_hops(&mut self, updates: &[FibUpdate]) {
        for update in updates {
            let FibUpdate::Set { next_hops, .. } = update else { continue };
            for &ndn_management::NextHop { face_id, .. } in next_hops {
                if let Some(face) = self.faces.get_mut(&face_id)
                    && !std::mem::replace(&mut face.is_separated, true)
                {
                    self.dataplane.send(Command::SeparateInput { face_id });
                }
            }
        }
    }

    pub(super) fn perform(&mut self, now: Now, action: Action) {
        match action {
            Action::UpdateFib { updates, is_awaited } => {
                self.is_fib_awaited |= is_awaited;
                self.separate_next_hops(&updates);
                let indexes = |face_id: u64| self.faces.get(&face_id).map(|face| face.index);
                if let Err((prefix, error)) = self.tables.apply(updates, indexes) {
                    error!(%prefix, %error, "a route could not be put into the FIB");
                }
            }
            Action::SendData { wire, may_cache } => {
                if self.local.take_reply(&wire) {
                    return;
                }
                let frame = reply_frame(&wire, may_cache);
                match segment_name(&wire, may_cache) {
                    Some(name) => self.replies.push_segment(now, name, frame),
                    None => self.replies.push(frame),
                }
            }
            Action::SendInterest { wire, next_hop } => {
                self.replies.push(interest_frame(&wire, next_hop));
            }
            Action::CreateFace { ticket, specification } => {
                let ticket = self.new_ticket(ticket);
                self.create_specified(now, ticket, &specification);
            }
            Action::UpdateFace { face_id, persistency, options } => {
                if let Some(face) = self.faces.get_mut(&face_id) {
                    let mtu = face.interface().and_then(|name| self.interfaces.ethernet.mtu(name));
                    faces::apply(&options, &mut face.options, mtu);
                    if let Some(persistency) = persistency {
                        faces::set_persistency(persistency, &mut face.options);
                    }
                    let options = Box::new(face.options);
                    self.dataplane.send(Command::UpdateFace { face_id, options });
                }
            }
            Action::DestroyFace { face_id } => {
                if self.statics.cancel(face_id) {
                    info!(face_id, "the face of a session that has ended is not opened again");
                }
                self.dataplane.send(Command::RemoveFace { face_id });
            }
            Action::ForgetRoute { prefix, face_id, origin } => {
                self.statics.forget_route(face_id, &prefix, origin);
            }
            Action::SetStrategy { prefix, strategy } => {
                self.is_fib_awaited = true;
                if let Err(error) = self.tables.set_strategy(prefix.as_ref(), strategy.as_ref()) {
                    error!(%prefix, %strategy, %error, "a strategy could not be set");
                }
            }
            Action::UnsetStrategy { prefix } => {
                self.is_fib_awaited = true;
                self.tables.unset_strategy(prefix.as_ref());
            }
            Action::ConfigureCs(settings) => {
                self.dataplane.send(Command::ConfigureCs(CsSettings {
                    capacity_packets: Some(
                        usize::try_from(settings.capacity).unwrap_or(usize::MAX),
                    ),
                    admit: Some(settings.admit),
                    serve: Some(settings.serve),
                }));
            }
            Action::EraseCs { ticket, prefix, limit } => {
                let ticket = self.new_ticket(ticket);
                let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                self.dataplane.send(Command::EraseCs { ticket, prefix, limit });
            }
        }
    }
}

/// Encodes a Data as a frame of the internal face.
fn reply_frame(wire: &[u8], may_cache: bool) -> Vec<u8> {
    if may_cache {
        return wire.to_vec();
    }
    with_header(&LpHeader { cache_policy: Some(NO_CACHE), ..LpHeader::default() }, wire)
}

/// Encodes an Interest as a frame of the internal face.
fn interest_frame(wire: &[u8], next_hop: Option<u64>) -> Vec<u8> {
    if next_hop.is_none() {
        return wire.to_vec();
    }
    with_header(&LpHeader { next_hop_face_id: next_hop, ..LpHeader::default() }, wire)
}

fn with_header(header: &LpHeader<'_>, wire: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; header.encoded_len(wire.len()) + wire.len()];
    match header.write(wire, &mut frame) {
        Ok(_) => frame,
        Err(_) => wire.to_vec(),
    }
}
