//! Management: Interests from its face, from the control socket and from the embedding program, and their answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use ndn_dataplane::{Command, CsSettings};
use ndn_face::InternalEnd;
use ndn_forwarding::LearningRequest;
use ndn_management::state::CreatedFace;
use ndn_management::{
    Action, FaceCreationError, FaceRecord, FaceSpecification, FibUpdate, Handled, Ticket,
};
use ndn_packet::{Data, Interest, LpHeader, LpPacket, Name};
use ndn_security::trust::AnchorChange;
use ndn_sys::poll::Waker;
use ndn_table::Timestamp;
use tracing::{error, info, warn};

use super::replies::{Replies, segment_name};
use super::service::{CONTROL_SOCKET, Cx, FaceRequest, Message, Reason, Service};
use crate::faces::FaceSpec;
use crate::tables::{ForwardingTables, Published};
use crate::telemetry::Figures;
use namewire_control::management_timeout;

/// CachePolicyType NoCache.
const NO_CACHE: u64 = 1;
/// TLV-TYPE of Data (first byte).
const DATA_TYPE: u8 = 6;
/// Maximum pending local requests.
const LOCAL_MAX: usize = 1024;
/// Retry interval for full queues.
const RETRY: Duration = Duration::from_millis(2);

/// The Data that answers a management Interest, or the reason for the failure.
pub(crate) type LocalAnswer = Result<Vec<u8>, String>;

/// Management's face and tables.
#[derive(Debug)]
pub(super) struct Management {
    internal: InternalEnd,
    replies: Replies,
    local: LocalRequests,
    tickets: Tickets,
    pub(super) tables: ForwardingTables,
    /// Readable once keys of commands have been read.
    key_chain: Arc<Waker>,
    /// Local URIs of the listeners.
    channels: Vec<String>,
    /// Totals of the data plane, read once per round.
    figures: Option<Figures>,
    /// Packets are left in the internal face.
    is_behind: bool,
    /// A command waits for the workers to use changed tables.
    is_fib_awaited: bool,
}

/// A packet that has arrived on the internal face.
#[derive(Debug)]
pub(super) struct Incoming {
    /// FaceId of the face on which the forwarder received it.
    pub(super) face_id: u64,
    wire: Vec<u8>,
}

/// Events of management.
#[derive(Debug)]
pub(super) enum ManagementEvent {
    /// A packet has arrived on the internal face.
    Incoming(Incoming),
    /// The state machine requests an action, except those of other services.
    Action(Action),
    /// A face was created.
    FaceAdded { ticket: Option<u64>, record: FaceRecord },
    /// The requested face exists.
    FaceExists { ticket: Option<u64>, face_id: u64 },
    /// The requested face was not created: status code and reason.
    FaceFailed { ticket: Option<u64>, code: u32, text: String },
    /// A strategy asks about learnt routes.
    Learning(LearningRequest),
    /// The workers have erased packets; `more` is set if there are others.
    CsErased { ticket: u64, erased: u64, more: bool },
}

impl Service for Management {
    type Event = ManagementEvent;

    fn handle_event(&mut self, cx: &mut Cx, event: ManagementEvent) {
        match event {
            ManagementEvent::Incoming(incoming) => self.handle_incoming(cx, incoming),
            ManagementEvent::Action(action) => self.perform(cx, action),
            ManagementEvent::FaceAdded { ticket, record } => match self.tickets.take(ticket) {
                Some(ticket) => {
                    cx.state.face_creation_done(cx.now, ticket, Ok(CreatedFace::New(record)));
                }
                None => cx.state.face_created(cx.now, record),
            },
            ManagementEvent::FaceExists { ticket, face_id } => {
                let record = cx.state.face(face_id).cloned();
                if let (Some(ticket), Some(record)) = (self.tickets.take(ticket), record) {
                    cx.state.face_creation_done(cx.now, ticket, Ok(CreatedFace::Existing(record)));
                }
            }
            ManagementEvent::FaceFailed { ticket, code, text } => {
                if let Some(ticket) = self.tickets.take(ticket) {
                    let reason = crate::text::without_numbers(&text);
                    let failure = FaceCreationError { code, reason };
                    cx.state.face_creation_done(cx.now, ticket, Err(failure));
                }
            }
            ManagementEvent::Learning(request) => learn(cx, request),
            ManagementEvent::CsErased { ticket, erased, more } => {
                if let Some(ticket) = self.tickets.take(Some(ticket)) {
                    cx.state.cs_erase_done(ticket, erased, more);
                }
            }
        }
    }

    /// Called every round, so that commands that wait for a key are tried again.
    fn handle_timeout(&mut self, cx: &mut Cx, _: Reason) {
        cx.state.handle_timeout(cx.now);
        self.local.handle_timeout(cx.now_ns());
        if cx.state.is_listing() {
            self.read_figures(cx);
            let Some(figures) = &self.figures else { return };
            let telemetry = figures.telemetry(&cx.faces.known, cx.now.monotonic_ns);
            cx.state.continue_listings(cx.now, &telemetry);
        }
        report_outcomes(cx);
        while let Some(change) = cx.state.poll_anchor_change() {
            log_anchor_change(&change);
        }
        self.tables.collect();
    }
}

impl Management {
    /// Management whose face's other end is `internal`.
    pub(super) fn new(
        internal: InternalEnd,
        tables: ForwardingTables,
        key_chain: Arc<Waker>,
        channels: Vec<String>,
    ) -> Self {
        Self {
            internal,
            replies: Replies::default(),
            local: LocalRequests::default(),
            tickets: Tickets::default(),
            tables,
            key_chain,
            channels,
            figures: None,
            is_behind: false,
            is_fib_awaited: true,
        }
    }

    /// Readable when packets have arrived.
    pub(super) const fn internal(&self) -> &InternalEnd {
        &self.internal
    }

    /// Readable once keys of commands have been read. Commands that wait for a key are tried again in every round.
    pub(super) fn key_chain(&self) -> &Waker {
        &self.key_chain
    }

    /// Time and reason of the next [`handle_timeout`](Service::handle_timeout) of the state machine.
    pub(super) fn next_deadline(&self, cx: &Cx) -> Option<(Timestamp, Reason)> {
        let at_ns = cx.state.next_deadline_ns()?;
        Some((Timestamp::from_nanos(at_ns), Reason::Management))
    }

    /// Returns the next packet of the internal face.
    pub(super) fn receive(&mut self, cx: &Cx) -> Option<Incoming> {
        while let Some(frame) = self.internal.receive() {
            self.is_behind = true;
            let Ok(packet) = LpPacket::parse(&frame) else { continue };
            if let (Some(wire), Some(face_id)) = (packet.fragment(), packet.incoming_face_id())
                && packet.nack().is_none()
                && cx.config.management.enabled
            {
                return Some(Incoming { face_id, wire: wire.to_vec() });
            }
        }
        self.is_behind = false;
        None
    }

    fn handle_incoming(&mut self, cx: &mut Cx, incoming: Incoming) {
        let Incoming { face_id, wire } = incoming;
        if wire.first() == Some(&DATA_TYPE) {
            cx.state.handle_data(cx.now, &wire, face_id);
        } else {
            self.local.note_interests();
            cx.state.receive_interest(wire, face_id);
        }
        report_outcomes(cx);
    }

    /// Handles the request whose turn it is, unless too many replies wait. Returns false if there is none.
    pub(super) fn handle_next(&mut self, cx: &mut Cx) -> bool {
        if self.replies.is_full() || !cx.state.has_requests() {
            return false;
        }
        self.read_figures(cx);
        let Some(figures) = &self.figures else { return false };
        let began_ns = cx.clock.now_ns();
        let telemetry = figures.telemetry(&cx.faces.known, cx.now.monotonic_ns);
        let has_handled = cx.state.handle_next(cx.now, &telemetry);
        cx.state.charge(cx.clock.now_ns().saturating_sub(began_ns));
        report_outcomes(cx);
        has_handled
    }

    /// Executes a request of an operator of this host. Access control does not apply: access to the control socket,
    /// or embedding the forwarder, grants every permission.
    pub(super) fn handle_local_interest(
        &mut self,
        cx: &mut Cx,
        interest: &[u8],
        answer: SyncSender<LocalAnswer>,
    ) {
        // The requester may have gone, here and below.
        let refuse = |reason: String| drop(answer.send(Err(reason)));
        if !cx.config.management.enabled {
            return refuse("management is turned off (management.enabled)".to_owned());
        }
        if self.local.waiting.len() >= LOCAL_MAX {
            return refuse("too many requests wait for management".to_owned());
        }
        let Ok(parsed) = Interest::parse(interest) else {
            return refuse("the request is not an Interest".to_owned());
        };
        let waiting = Waiting {
            name: parsed.name().to_name(),
            can_be_prefix: parsed.can_be_prefix(),
            is_shared: cx.state.is_listing() || cx.state.has_requests(),
            deadline_ns: cx.after(management_timeout(parsed.lifetime_ms())),
            answer: answer.clone(),
        };
        self.read_figures(cx);
        let Some(figures) = &self.figures else { return };
        let telemetry = figures.telemetry(&cx.faces.known, cx.now.monotonic_ns);
        let handled = cx.state.handle_operator_interest(cx.now, interest, &telemetry);
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
            | Handled::UnknownFace
            | Handled::Dropped
            | Handled::Announcement(_) => self.local.waiting.push(waiting),
        }
        cx.timers.set(Reason::LocalRequest, self.local.next_deadline_ns());
        cx.post(Message::Handled { face_id: CONTROL_SOCKET, handled });
    }

    /// Reads the totals of the data plane that datasets report.
    fn read_figures(&mut self, cx: &Cx) {
        self.figures.get_or_insert_with(|| {
            let channels = self.channels.iter().chain(&cx.ethernet_channels);
            let mut channels: Vec<String> = channels.cloned().collect();
            // Grouped by scheme, as NFD does.
            channels.sort_unstable();
            Figures { counters: cx.dataplane.counters(), channels }
        });
    }

    fn perform(&mut self, cx: &mut Cx, action: Action) {
        match action {
            Action::UpdateFib { updates, is_awaited } => {
                self.is_fib_awaited |= is_awaited;
                separate_next_hops(cx, &updates);
                let indexes = |face_id: u64| cx.faces.known.get(&face_id).map(|face| face.index);
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
                    Some(name) => self.replies.push_segment(cx.now, name, frame),
                    None => self.replies.push(frame),
                }
            }
            Action::SendInterest { wire, next_hop } => {
                self.replies.push(interest_frame(&wire, next_hop));
            }
            Action::CreateFace { ticket, specification } => {
                let FaceSpecification { remote, local, persistency, keeper, options } =
                    *specification;
                let spec = FaceSpec {
                    ticket: Some(self.tickets.add(ticket)),
                    persistency,
                    keeper,
                    pit_tokens: ndn_forwarding::PitTokenPolicy::WhenSeen,
                    options,
                };
                cx.post(Message::Create(Box::new(FaceRequest { remote, local, spec })));
            }
            Action::CancelFace { ticket } => {
                if let Some(ticket) = self.tickets.find(ticket) {
                    cx.post(Message::Cancel { ticket });
                }
            }
            Action::DestroyFace { face_id } => cx.dataplane.send(Command::RemoveFace { face_id }),
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
                cx.dataplane.send(Command::ConfigureCs(CsSettings {
                    capacity_packets: Some(
                        usize::try_from(settings.capacity).unwrap_or(usize::MAX),
                    ),
                    admit: Some(settings.admit),
                    serve: Some(settings.serve),
                }));
            }
            Action::EraseCs { ticket, prefix, limit } => {
                let ticket = self.tickets.add(ticket);
                let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                cx.dataplane.send(Command::EraseCs { ticket, prefix, limit });
            }
            // Other services perform these.
            Action::UpdateFace { .. } | Action::ForgetRoute { .. } => {}
        }
    }

    /// Publishes changed tables and sends replies. Returns whether a reply was sent.
    pub(super) fn finish_round(&mut self, cx: &mut Cx) -> bool {
        self.figures = None;
        self.publish_tables(cx);
        let has_sent = self.send_replies(cx);
        cx.dataplane.wake();
        let has_requests = cx.state.has_requests() && !self.replies.is_full();
        let is_behind = self.is_behind || has_requests;
        cx.timers.set(Reason::Interests, is_behind.then(|| cx.now_ns()));
        let is_unsent = !self.replies.is_empty() || self.local.has_answers();
        cx.timers.set(Reason::FullQueue, is_unsent.then(|| cx.after(RETRY)));
        cx.timers.set(Reason::LocalRequest, self.local.next_deadline_ns());
        has_sent
    }

    /// Publishes changed tables to the workers. While routes to removed faces are deleted in parts, publishes only if
    /// a command waits for a change: each version copies all pages that differ from the last.
    fn publish_tables(&mut self, cx: &mut Cx) {
        if cx.state.is_removing() && !self.is_fib_awaited {
            return;
        }
        self.is_fib_awaited = false;
        if let Some(published) = self.tables.publish() {
            let Published { fib, strategies } = published;
            cx.dataplane.send(Command::SetTables { fib, strategies });
        }
    }

    /// Sends replies while the internal face has room. Tables have been sent before: the worker uses them from the
    /// moment it sees the reply. Returns whether a reply was sent.
    fn send_replies(&mut self, cx: &mut Cx) -> bool {
        if self.replies.is_empty() && !self.local.has_answers() {
            return false;
        }
        // The worker executes commands before it polls the internal face again.
        cx.dataplane.wake();
        // Local answers pass through no worker: what the requester sends next may reach any of them first.
        let has_answered = self.local.has_answers() && cx.dataplane.has_executed_all();
        if has_answered {
            self.local.send();
        }
        // The other workers have executed them once this is true.
        if !cx.dataplane.is_settled() {
            return has_answered;
        }
        self.replies.send(&mut self.internal) || has_answered
    }
}

/// Gives on-demand UDP peers that become next hops sockets of their own, so that their answers do not arrive on the
/// shared socket.
fn separate_next_hops(cx: &mut Cx, updates: &[FibUpdate]) {
    for update in updates {
        let FibUpdate::Set { next_hops, .. } = update else { continue };
        for &ndn_management::NextHop { face_id, .. } in next_hops {
            if let Some(face) = cx.faces.known.get_mut(&face_id)
                && !std::mem::replace(&mut face.is_separated, true)
            {
                cx.dataplane.send(Command::SeparateInput { face_id });
            }
        }
    }
}

/// Handles a self-learning request.
fn learn(cx: &mut Cx, request: LearningRequest) {
    match request {
        LearningRequest::Learn { face_id, name, announcement } => {
            let announcement = announcement.into_vec();
            cx.state.receive_announcement(cx.now, face_id, name.as_ref(), announcement);
        }
        LearningRequest::Forget { face_id, name } => {
            cx.state.receive_refusal(face_id, name);
        }
        LearningRequest::Find { ticket, name } => {
            let announcement = cx.state.find_announcement(cx.now, name.as_ref());
            let announcement = announcement.map(Vec::into_boxed_slice);
            cx.dataplane.send(Command::AnswerLearning { ticket, announcement });
        }
    }
}

/// Passes on the outcomes of requests.
fn report_outcomes(cx: &mut Cx) {
    while let Some((face_id, handled)) = cx.state.poll_outcome() {
        cx.post(Message::Handled { face_id, handled });
    }
}

fn log_anchor_change(change: &AnchorChange) {
    match change {
        AnchorChange::Changed { path, count } => {
            info!(path, count, "trust anchors have changed");
        }
        AnchorChange::Unreadable { path, reason } => {
            warn!(path, reason, "trust anchors cannot be read again: they stay as they are");
        }
    }
}

/// Requests to the data plane that management waits for: its tickets, by request number.
#[derive(Debug, Default)]
struct Tickets {
    tickets: BTreeMap<u64, Ticket>,
    last: u64,
}

impl Tickets {
    /// Returns the number for a new request.
    fn add(&mut self, ticket: Ticket) -> u64 {
        self.last += 1;
        self.tickets.insert(self.last, ticket);
        self.last
    }

    /// Returns the number of a request.
    fn find(&self, ticket: Ticket) -> Option<u64> {
        self.tickets.iter().find(|(_, one)| **one == ticket).map(|(number, _)| *number)
    }

    /// Ends a request and returns its ticket.
    fn take(&mut self, number: Option<u64>) -> Option<Ticket> {
        self.tickets.remove(&number?)
    }
}

/// A local request without an answer yet.
#[derive(Debug)]
struct Waiting {
    name: Name,
    can_be_prefix: bool,
    /// An Interest received on a face may expect the same Data.
    is_shared: bool,
    deadline_ns: u64,
    answer: SyncSender<LocalAnswer>,
}

/// Local requests that wait for management, or for the workers to use the tables that a command changed.
#[derive(Debug, Default)]
struct LocalRequests {
    waiting: Vec<Waiting>,
    answered: Vec<(SyncSender<LocalAnswer>, Vec<u8>)>,
}

impl LocalRequests {
    /// Records that Interests have arrived on faces.
    fn note_interests(&mut self) {
        self.waiting.iter_mut().for_each(|one| one.is_shared = true);
    }

    /// Takes a Data of management if it answers requests. Returns true if no Interest on a face expects the same
    /// Data.
    fn take_reply(&mut self, wire: &[u8]) -> bool {
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
    fn has_answers(&self) -> bool {
        !self.answered.is_empty()
    }

    /// Sends the answers. The caller ensures that all workers use the new tables.
    fn send(&mut self) {
        for (answer, wire) in self.answered.drain(..) {
            // The requester may have gone.
            let _ = answer.send(Ok(wire));
        }
    }

    /// Time of the next [`handle_timeout`](Self::handle_timeout).
    fn next_deadline_ns(&self) -> Option<u64> {
        self.waiting.iter().map(|one| one.deadline_ns).min()
    }

    /// Fails requests that have timed out.
    fn handle_timeout(&mut self, now_ns: u64) {
        for late in self.waiting.extract_if(.., |one| one.deadline_ns <= now_ns) {
            let _ = late.answer.send(Err("management gave no answer in time".to_owned()));
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
