//! Management: Interests from its face, from the control socket and from the embedding program, and their answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use ndn_dataplane::{CommandMark, CsSettings};
use ndn_face::InternalEnd;
use ndn_forwarding::LearningRequest;
use ndn_management::state::CreatedFace;
use ndn_management::{
    Action, ControlState, FACE_ID_INTERNAL, FaceCreationError, FaceRecord, FaceSpecification,
    FibUpdate, RequestOutcome, TableItems, TablePart, Ticket,
};
use ndn_packet::{Data, Interest, LpHeader, LpPacket, Name};
use ndn_security::trust::AnchorChange;
use ndn_sys::clock::Clock;
use ndn_sys::poll::Waker;
use tracing::{error, info, warn};

use super::commands::TableCommands;
use super::replies::{Replies, segment_name};
use super::service::{CONTROL_SOCKET, Deadline, Event, FaceRequest, Reason, Service, ServiceName};
use super::tokens::{TOKEN_INTERNAL, TOKEN_KEY_CHAIN};
use crate::destinations::Restorations;
use crate::faces::FaceSpec;
use crate::tables::{ForwardingTables, Published};
use crate::telemetry::Figures;
use namewire_control::management_timeout;
use ndn_types::Timestamp;

/// Why an operation of this host is refused.
pub(super) const MANAGEMENT_OFF: &str = "management is turned off (management.enabled)";
/// CachePolicyType NoCache.
const NO_CACHE: u64 = 1;
/// Status code of a face creation that may succeed later, as in NFD.
const CREATION_FAILED: u32 = 504;
/// TLV-TYPE of Data (first byte).
const DATA_TYPE: u8 = 6;
/// Maximum pending local requests.
const LOCAL_MAX: usize = 1024;
/// Maximum Interests answered per round, so that one busy client neither starves other clients nor delays a shutdown.
const INTERESTS_PER_ROUND: usize = 64;
/// Time after which a round takes no further Interests: until the next one, nothing is taken from the queue of
/// the internal face, which has room for some tens of milliseconds at the highest rates.
const INTERESTS_TIME: Duration = Duration::from_millis(5);
/// Capacity of the internal face, in frames per direction.
pub(super) const INTERNAL_QUEUE: usize = 4096;
/// Maximum packets taken from the internal face per round.
const PACKETS_PER_ROUND: usize = INTERNAL_QUEUE;
/// Retry interval for a full queue: doubled while the queue has no room.
const RETRY_MIN: Duration = Duration::from_millis(2);
const RETRY_MAX: Duration = Duration::from_millis(128);

/// The view of this service.
type Cx<'a> = super::service::Cx<'a, dyn TableCommands>;

/// The Data that answers a management Interest, or the reason for the failure.
pub(crate) type LocalAnswer = Result<Vec<u8>, String>;

/// Management: its state machine, its face and the tables of the workers.
#[derive(Debug)]
pub(crate) struct Management {
    state: ControlState,
    /// The state machine has to be called: something has happened since the last timeout.
    is_touched: bool,
    /// Faces that get the routes of faces that they replace.
    restorations: Restorations,
    internal: InternalEnd,
    /// The next packet, from a face whose event has not arrived yet.
    early: Option<Incoming>,
    /// The last face that a packet has waited for in this way.
    awaited_face: u64,
    clock: Clock,
    replies: Replies,
    local: LocalRequests,
    /// The commands that workers have to execute before the marked replies and answers are sent.
    mark: Option<CommandMark>,
    tickets: Tickets,
    tables: ForwardingTables,
    /// Readable once keys of commands have been read.
    key_chain: Arc<Waker>,
    /// Local URIs of the listeners, and of the Ethernet interfaces that accept stations.
    channels: Vec<String>,
    ethernet_channels: Vec<String>,
    /// Totals of the data plane, read once per round.
    figures: Option<Figures>,
    /// Packets are left in the internal face.
    is_behind: bool,
    /// A command waits for the workers to use changed tables.
    is_fib_awaited: bool,
    /// Set while replies wait for the workers.
    blocked: Option<Blocked>,
}

/// Replies that could not be sent.
#[derive(Debug, Clone, Copy)]
struct Blocked {
    /// They wait for room; otherwise for the workers to execute commands, which the workers announce.
    is_full: bool,
    retry_at: Timestamp,
    interval: Duration,
}

/// A packet that has arrived on the internal face.
#[derive(Debug)]
struct Incoming {
    /// FaceId of the face on which the forwarder received it.
    face_id: u64,
    wire: Vec<u8>,
}

impl Service for Management {
    type Dataplane = dyn TableCommands;
    const NAME: ServiceName = ServiceName::Management;

    #[expect(clippy::wildcard_enum_match_arm, reason = "`Event::receivers` is exhaustive")]
    fn handle_event(&mut self, cx: &mut Cx<'_>, event: Event) -> Option<Event> {
        match event {
            Event::Ready(TOKEN_INTERNAL) => {
                self.internal.reset();
                self.is_behind = true;
            }
            // Commands that wait for a key are tried again.
            Event::Ready(TOKEN_KEY_CHAIN) => {
                self.key_chain.reset();
                self.is_touched = true;
            }
            event => return self.handle_change(cx, event),
        }
        None
    }

    fn next_deadline(&self) -> Option<Deadline> {
        if self.is_touched {
            return Some((Timestamp::ZERO, Reason::Management));
        }
        let has_requests = self.state.has_requests() && !self.replies.is_full();
        if self.is_behind || has_requests {
            return Some((Timestamp::ZERO, Reason::Interests));
        }
        // Work that could continue at once only makes more replies that wait.
        let earliest = self.blocked.map_or(Timestamp::ZERO, |blocked| blocked.retry_at);
        let at = |at: Option<Timestamp>, reason| at.map(|at| (at.max(earliest), reason));
        let restoring = (!self.restorations.is_empty()).then_some(Timestamp::ZERO);
        let retried = self.blocked.filter(|blocked| blocked.is_full);
        let deadlines = [
            at(self.state.next_deadline(), Reason::Management),
            at(restoring, Reason::Management),
            at(self.tables.is_updating().then_some(Timestamp::ZERO), Reason::Management),
            at(self.local.next_deadline(), Reason::LocalRequest),
            at(retried.map(|blocked| blocked.retry_at), Reason::FullQueue),
        ];
        deadlines.into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>, _: Reason) {
        self.is_touched = false;
        self.handle_interests(cx);
        self.state.handle_timeout(cx.now());
        self.local.handle_timeout(cx.now().monotonic);
        if self.state.is_listing() {
            let figures =
                read_figures(&mut self.figures, &self.channels, &self.ethernet_channels, cx);
            let telemetry = figures.telemetry(cx.faces().all(), cx.now().monotonic);
            self.state.continue_listings(cx.now(), &telemetry);
        }
        self.report_outcomes(cx);
        while let Some(change) = self.state.poll_anchor_change() {
            log_anchor_change(&change);
        }
        // A route unregistered in this round must not return in it.
        self.perform_actions(cx);
        self.tables.continue_updating();
        self.restorations.advance(&mut self.state, cx.now().monotonic);
    }
}

impl Management {
    /// Management whose face's other end is `internal`.
    pub(super) fn new(
        state: ControlState,
        internal: InternalEnd,
        tables: ForwardingTables,
        key_chain: Arc<Waker>,
        channels: Vec<String>,
        clock: Clock,
    ) -> Self {
        Self {
            state,
            is_touched: true,
            restorations: Restorations::default(),
            internal,
            early: None,
            awaited_face: 0,
            clock,
            replies: Replies::default(),
            local: LocalRequests::default(),
            mark: None,
            tickets: Tickets::default(),
            tables,
            key_chain,
            channels,
            ethernet_channels: Vec::new(),
            figures: None,
            is_behind: false,
            is_fib_awaited: true,
            blocked: None,
        }
    }

    /// The state machine.
    pub(super) const fn state(&self) -> &ControlState {
        &self.state
    }

    /// The state machine and the tables, to change settings.
    pub(crate) const fn change(&mut self) -> (&mut ControlState, &mut ForwardingTables) {
        self.is_touched = true;
        (&mut self.state, &mut self.tables)
    }

    /// Readable when packets have arrived.
    pub(super) const fn internal(&self) -> &InternalEnd {
        &self.internal
    }

    /// Readable once keys of commands have been read. Commands that wait for a key are tried again then.
    pub(super) fn key_chain(&self) -> &Waker {
        &self.key_chain
    }

    /// Handles an event that may change the state.
    #[expect(clippy::wildcard_enum_match_arm, reason = "`Event::receivers` is exhaustive")]
    fn handle_change(&mut self, cx: &mut Cx<'_>, mut event: Event) -> Option<Event> {
        match event {
            Event::FaceAdded { ticket, ref record, .. } => self.face_added(cx, ticket, record),
            Event::FaceExists { ticket, face_id } => {
                let record = self.state.face(face_id).cloned();
                if let Some(ticket) = self.tickets.take(ticket) {
                    let existing = record.map(CreatedFace::Existing).ok_or_else(|| {
                        let reason = "the face with this peer has just closed".to_owned();
                        FaceCreationError { code: CREATION_FAILED, reason }
                    });
                    self.state.face_creation_done(cx.now(), ticket, existing);
                }
            }
            Event::FaceFailed { ticket, code, ref text } => {
                if let Some(ticket) = self.tickets.take(ticket) {
                    let reason = crate::config::text::without_numbers(text);
                    let failure = FaceCreationError { code, reason };
                    self.state.face_creation_done(cx.now(), ticket, Err(failure));
                }
            }
            Event::FaceClosed { face_id, ref mut lost } => {
                let destinations = self.restorations.end(&self.state, face_id);
                if let Some(face) = lost.take_if(|face| face.needs_session()) {
                    cx.post(Event::SessionLost { face_id, face, destinations });
                }
                self.state.face_destroyed(cx.now(), face_id);
            }
            Event::FaceStateChanged { face_id, is_up } => {
                self.state.face_changed_state(cx.now(), face_id, is_up);
            }
            Event::FaceResized { face_id, length } => {
                self.state.face_resized(face_id, length as u64);
            }
            Event::AddRoute { prefix, route } => {
                if let Err(error) = self.state.add_route(prefix.as_ref(), route) {
                    warn!(%prefix, %error, "a route of the configuration was rejected");
                }
                self.is_touched = true;
                return None;
            }
            Event::RemoveRoute { ref prefix, face_id, origin } => {
                self.state.remove_route(prefix.as_ref(), face_id, origin);
                self.is_touched = true;
                return None;
            }
            Event::EndFace(face_id) => {
                cx.post(Event::DestroyFace(face_id));
                cx.dataplane().remove_face(face_id);
                return None;
            }
            Event::AdoptFace { face_id, persistency } => {
                self.state.adopt_face(face_id, persistency);
            }
            Event::RestoreRoutes { face_id, destinations } => {
                self.restorations.begin(face_id, destinations);
                self.is_touched = true;
                return None;
            }
            Event::Learning(request) => {
                self.learn(cx, request);
                self.is_touched = true;
                return None;
            }
            Event::CsErased { ticket, erased, more } => {
                if let Some(ticket) = self.tickets.take(Some(ticket)) {
                    self.state.cs_erase_done(ticket, erased, more);
                }
            }
            Event::ListenersChanged { ref local_uris, .. } => {
                self.channels.clone_from(local_uris);
            }
            Event::EthernetChannels(channels) => {
                self.ethernet_channels = channels;
                return None;
            }
            other => return other.unhandled(),
        }
        self.is_touched = true;
        Some(event)
    }

    fn face_added(&mut self, cx: &mut Cx<'_>, ticket: Option<u64>, record: &FaceRecord) {
        match self.tickets.take(ticket) {
            Some(ticket) => {
                let new = Ok(CreatedFace::New(record.clone()));
                self.state.face_creation_done(cx.now(), ticket, new);
            }
            None => self.state.face_created(cx.now(), record.clone()),
        }
        if record.properties.face_id == FACE_ID_INTERNAL {
            // The user is the final one: privileges have been given up.
            self.state.set_operator_users(vec![0, rustix::process::geteuid().as_raw()]);
            if let Err(error) = self.state.register_management() {
                error!(%error, "management cannot be reached");
            }
            cx.post(Event::ManagementReachable);
        }
    }

    /// Handles a self-learning request.
    fn learn(&mut self, cx: &mut Cx<'_>, request: LearningRequest) {
        match request {
            LearningRequest::Learn { face_id, name, announcement } => {
                let announcement = announcement.into_vec();
                self.state.receive_announcement(cx.now(), face_id, name.as_ref(), announcement);
            }
            LearningRequest::Forget { face_id, name } => {
                self.state.receive_refusal(face_id, name);
            }
            LearningRequest::Find { ticket, name } => {
                let announcement = self.state.find_announcement(cx.now(), name.as_ref());
                let announcement = announcement.map(Vec::into_boxed_slice);
                cx.dataplane().answer_learning(ticket, announcement);
            }
        }
    }

    /// Takes Interests from the internal face; [`finish_round`](Self::finish_round) sends the replies. The commands of
    /// one round share one version of the FIB: copying the changed pages costs more than the changes.
    fn handle_interests(&mut self, cx: &mut Cx<'_>) {
        if let Some(early) = self.early.take() {
            self.handle_incoming(cx, early);
        }
        let mut packets_left = PACKETS_PER_ROUND;
        let ends = self.clock.now() + INTERESTS_TIME;
        for _ in 0..INTERESTS_PER_ROUND {
            self.receive_packets(cx, &mut packets_left);
            if !self.handle_next(cx) || packets_left == 0 || self.clock.now() >= ends {
                return;
            }
        }
    }

    /// Empties the queue of the internal face into that of the principals. Takes at most `left`
    /// packets, and subtracts them.
    fn receive_packets(&mut self, cx: &mut Cx<'_>, left: &mut usize) {
        while *left > 0 && self.early.is_none() {
            let Some(incoming) = self.receive(cx) else { return };
            *left -= 1;
            let face_id = incoming.face_id;
            if self.state.face(face_id).is_none() && self.awaited_face != face_id {
                // The face was created during this round. Its event was sent before its Interest.
                (self.early, self.awaited_face) = (Some(incoming), face_id);
            } else {
                self.handle_incoming(cx, incoming);
            }
        }
    }

    /// Returns the next packet of the internal face.
    fn receive(&mut self, cx: &Cx<'_>) -> Option<Incoming> {
        while let Some(frame) = self.internal.receive() {
            self.is_behind = true;
            let Ok(packet) = LpPacket::parse(&frame) else { continue };
            if let (Some(wire), Some(face_id)) = (packet.fragment(), packet.incoming_face_id())
                && packet.nack().is_none()
                && cx.config().management.enabled
            {
                return Some(Incoming { face_id, wire: wire.to_vec() });
            }
        }
        self.is_behind = false;
        None
    }

    fn handle_incoming(&mut self, cx: &mut Cx<'_>, incoming: Incoming) {
        let Incoming { face_id, wire } = incoming;
        if wire.first() == Some(&DATA_TYPE) {
            self.state.handle_data(cx.now(), &wire, face_id);
        } else {
            self.local.note_interests();
            self.state.receive_interest(wire, face_id);
        }
        self.report_outcomes(cx);
    }

    /// Handles the request whose turn it is, unless too many replies wait, and performs its actions: both take time of its
    /// principal. Returns false if there is none.
    fn handle_next(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.replies.is_full() || !self.state.has_requests() {
            return false;
        }
        let figures = read_figures(&mut self.figures, &self.channels, &self.ethernet_channels, cx);
        let telemetry = figures.telemetry(cx.faces().all(), cx.now().monotonic);
        let began = self.clock.now();
        let has_handled = self.state.handle_next(cx.now(), &telemetry);
        self.perform_actions(cx);
        self.state.charge(self.clock.now() - began);
        self.report_outcomes(cx);
        has_handled
    }

    /// The first items of a part of a table.
    pub(super) fn table_part(
        &mut self,
        cx: &mut Cx<'_>,
        part: &TablePart,
        items_max: usize,
    ) -> Result<TableItems, String> {
        if !cx.config().management.enabled {
            return Err(MANAGEMENT_OFF.to_owned());
        }
        let figures = read_figures(&mut self.figures, &self.channels, &self.ethernet_channels, cx);
        let telemetry = figures.telemetry(cx.faces().all(), cx.now().monotonic);
        Ok(self.state.table_part(cx.now(), part, items_max, &telemetry))
    }

    /// Executes a request of an operator of this host. Access control does not apply: access to the control socket,
    /// or embedding the forwarder, grants every permission.
    pub(super) fn handle_local_interest(
        &mut self,
        cx: &mut Cx<'_>,
        interest: &[u8],
        answer: SyncSender<LocalAnswer>,
    ) {
        // The requester may have gone, here and below.
        let refuse = |reason: String| drop(answer.send(Err(reason)));
        if !cx.config().management.enabled {
            return refuse(MANAGEMENT_OFF.to_owned());
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
            is_shared: self.state.is_listing() || self.state.has_requests(),
            deadline: cx.after(management_timeout(parsed.lifetime_ms())),
            answer: answer.clone(),
        };
        self.is_touched = true;
        let figures = read_figures(&mut self.figures, &self.channels, &self.ethernet_channels, cx);
        let telemetry = figures.telemetry(cx.faces().all(), cx.now().monotonic);
        let handled = self.state.handle_operator_interest(cx.now(), interest, &telemetry);
        match &handled {
            RequestOutcome::Ignored(reason) => {
                refuse(format!("not a management Interest: {reason}"))
            }
            RequestOutcome::Malformed => refuse("the request is not an Interest".to_owned()),
            RequestOutcome::Data { answered: false }
            | RequestOutcome::Event { answered: false } => {
                refuse("there is no such Data".to_owned());
            }
            RequestOutcome::Command { .. }
            | RequestOutcome::Refused { .. }
            | RequestOutcome::Data { .. }
            | RequestOutcome::Event { .. }
            | RequestOutcome::UnknownFace
            | RequestOutcome::Dropped
            | RequestOutcome::Announcement(_) => self.local.waiting.push(waiting),
        }
        cx.post(Event::Handled { face_id: CONTROL_SOCKET, handled });
    }

    /// Posts the outcomes of requests.
    fn report_outcomes(&mut self, cx: &mut Cx<'_>) {
        while let Some((face_id, handled)) = self.state.poll_outcome() {
            cx.post(Event::Handled { face_id, handled });
        }
    }

    /// Performs the actions of the state machine without publishing tables. Returns whether there was an action.
    pub(super) fn perform_actions(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut has_performed = false;
        while let Some(action) = self.state.poll_action() {
            self.perform(cx, action);
            has_performed = true;
        }
        has_performed
    }

    fn perform(&mut self, cx: &mut Cx<'_>, action: Action) {
        match action {
            Action::UpdateFib { updates, is_awaited } => {
                self.is_fib_awaited |= is_awaited;
                separate_next_hops(cx, &updates);
                let indexes = |face_id: u64| cx.faces().get(face_id).map(|face| face.index);
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
                    Some(name) => self.replies.push_segment(cx.now(), name, frame),
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
                cx.post(Event::Create(Box::new(FaceRequest { remote, local, spec })));
            }
            Action::CancelFace { ticket } => {
                if let Some(ticket) = self.tickets.find(ticket) {
                    cx.post(Event::Cancel { ticket });
                }
            }
            Action::UpdateFace { face_id, persistency, keeper, options } => {
                let kept = persistency.map(|persistency| (persistency, keeper));
                cx.post(Event::UpdateFace { face_id, kept, options });
            }
            Action::DestroyFace { face_id } => {
                cx.post(Event::DestroyFace(face_id));
                cx.dataplane().remove_face(face_id);
            }
            Action::ForgetRoute { prefix, face_id, origin } => {
                self.restorations.forget(face_id, &prefix, origin);
                cx.post(Event::ForgetRoute { prefix, face_id, origin });
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
                cx.dataplane().configure_cs(CsSettings {
                    capacity_packets: Some(
                        usize::try_from(settings.capacity).unwrap_or(usize::MAX),
                    ),
                    admit: Some(settings.admit),
                    serve: Some(settings.serve),
                });
            }
            Action::EraseCs { ticket, prefix, limit, is_whole_name } => {
                let ticket = self.tickets.add(ticket);
                let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                cx.dataplane().erase_cs(ticket, prefix, limit, is_whole_name);
            }
        }
    }

    /// Changes the FIB of the workers and leaves that of the state machine as it is: a fault that a simulation plants.
    #[cfg(feature = "planted-faults")]
    pub(super) fn update_fib(&mut self, cx: &mut Cx<'_>, updates: Vec<FibUpdate>) {
        self.perform(cx, Action::UpdateFib { updates, is_awaited: true });
    }

    /// Publishes changed tables and sends replies. Returns whether a reply was sent.
    pub(super) fn finish_round(&mut self, cx: &mut Cx<'_>) -> bool {
        self.figures = None;
        self.tables.collect();
        self.publish_tables(cx);
        let has_sent = self.send_replies(cx);
        cx.dataplane().wake();
        let is_blocked = !self.replies.is_empty() || self.local.has_answers();
        self.blocked = is_blocked.then(|| {
            let is_full = self.replies.is_ready();
            match self.blocked {
                // The retry of other work leaves the interval as it is.
                Some(before) if !has_sent && cx.now().monotonic < before.retry_at => {
                    Blocked { is_full, ..before }
                }
                before => {
                    let longer = before.filter(|_| !has_sent).map(|one| one.interval * 2);
                    let interval = longer.unwrap_or(RETRY_MIN).min(RETRY_MAX);
                    Blocked { is_full, retry_at: cx.after(interval), interval }
                }
            }
        });
        has_sent
    }

    /// Publishes changed tables to the workers. While routes to removed faces are deleted in parts, or entries follow a
    /// change of a shorter prefix, publishes only if a command waits for a change: each version copies all pages that differ
    /// from the last.
    fn publish_tables(&mut self, cx: &mut Cx<'_>) {
        let is_changing = self.state.is_changing_routes() || self.tables.is_updating();
        if is_changing && !self.is_fib_awaited {
            return;
        }
        self.is_fib_awaited = false;
        if let Some(published) = self.tables.publish() {
            let Published { fib, strategies } = published;
            #[cfg(feature = "vip")]
            cx.post(Event::TablesPublished(Arc::clone(&fib)));
            cx.dataplane().set_tables(fib, strategies);
        }
    }

    /// Sends replies while the internal face has room. Tables have been sent before: the worker uses them from the
    /// moment it sees the reply. Returns whether a reply was sent.
    fn send_replies(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.replies.is_empty() && !self.local.has_answers() {
            return false;
        }
        let dataplane = cx.dataplane();
        // The worker executes commands before it polls the internal face again.
        dataplane.wake();
        if dataplane.has_one_worker() {
            self.replies.mark();
            self.replies.settle();
        }
        let mut has_answered = false;
        // At most twice: what has come since the mark is perhaps executed, too. Commands that are sent all the time do
        // not delay the replies to those before.
        for _ in 0..2 {
            if !self.replies.is_staged() && !self.local.has_answers() {
                break;
            }
            let mark = self.mark.get_or_insert_with(|| {
                self.replies.mark();
                self.local.mark();
                dataplane.mark()
            });
            if !dataplane.has_executed(mark) {
                break;
            }
            self.mark = None;
            self.replies.settle();
            // Local answers pass through no worker: what the requester sends next may reach any of them first.
            has_answered |= self.local.send();
        }
        self.replies.send(&mut self.internal) || has_answered
    }
}

/// Returns the totals of the data plane that datasets report; reads them once per round.
fn read_figures<'a>(
    figures: &'a mut Option<Figures>,
    channels: &[String],
    ethernet_channels: &[String],
    cx: &mut Cx<'_>,
) -> &'a Figures {
    figures.get_or_insert_with(|| {
        let mut channels = [channels, ethernet_channels].concat();
        // Grouped by scheme, as NFD does.
        channels.sort_unstable();
        Figures { counters: cx.dataplane().counters(), channels }
    })
}

/// Gives on-demand UDP peers that become next hops sockets of their own, so that their answers do not arrive on the
/// shared socket.
fn separate_next_hops(cx: &mut Cx<'_>, updates: &[FibUpdate]) {
    for update in updates {
        let FibUpdate::Set { next_hops, .. } = update else { continue };
        for &ndn_management::NextHop { face_id, .. } in next_hops {
            cx.separate_input(face_id);
        }
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
    deadline: Timestamp,
    answer: SyncSender<LocalAnswer>,
}

/// Local requests that wait for management, or for the workers to use the tables that a command changed.
#[derive(Debug, Default)]
struct LocalRequests {
    waiting: Vec<Waiting>,
    answered: Vec<(SyncSender<LocalAnswer>, Vec<u8>)>,
    /// Number of `answered` that the next call of [`send`](Self::send) sends.
    marked: usize,
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

    /// The next [`send`](Self::send) sends the answers so far.
    fn mark(&mut self) {
        self.marked = self.answered.len();
    }

    /// Sends the marked answers; returns whether there were any. The caller ensures that all workers use the new tables.
    fn send(&mut self) -> bool {
        let count = std::mem::take(&mut self.marked);
        for (answer, wire) in self.answered.drain(..count) {
            // The requester may have gone.
            let _ = answer.send(Ok(wire));
        }
        count > 0
    }

    /// Time of the next [`handle_timeout`](Self::handle_timeout).
    fn next_deadline(&self) -> Option<Timestamp> {
        self.waiting.iter().map(|one| one.deadline).min()
    }

    /// Fails requests that have timed out.
    fn handle_timeout(&mut self, now: Timestamp) {
        for late in self.waiting.extract_if(.., |one| one.deadline <= now) {
            let _ = late.answer.send(Err("management gave no answer in time".to_owned()));
        }
    }
}

/// Encodes a Data as a frame of the internal face.
pub(super) fn reply_frame(wire: &[u8], may_cache: bool) -> Vec<u8> {
    if may_cache {
        return wire.to_vec();
    }
    with_header(&LpHeader { cache_policy: Some(NO_CACHE), ..LpHeader::default() }, wire)
}

/// Encodes an Interest as a frame of the internal face.
pub(super) fn interest_frame(wire: &[u8], next_hop: Option<u64>) -> Vec<u8> {
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
