//! The control plane as a state machine: Interests, events and completions in, actions out.
//!
//! [`ControlState`] owns what management is the authority for (RIB, FIB, strategy choices, face
//! records, Content Store settings, published datasets, the event stream). It touches neither
//! sockets nor clocks: what has to happen in the data plane comes out of
//! [`ControlState::poll_action`], and what happened there is told to it.

mod action;
mod commands;
mod config;
mod datasets;
mod departures;
mod faces;
mod learning;
mod pending;
mod readvertise;
mod report;
mod strategies;
mod waiting;

use std::collections::{BTreeMap, VecDeque};

use ndn_packet::{ContentType, DataBuilder, Interest, Name, NameRef};
use ndn_security::trust::AnchorChange;

pub use action::{
    Action, CreatedFace, CsConfiguration, FaceActivity, FaceCapabilities, FaceCreationError,
    FaceRecord, FaceSpecification, TableSizes, Telemetry, Ticket,
};
pub use commands::RouteError;
pub use config::{Collaborators, ControlConfig};
pub use learning::Learning;
pub use report::{ControlCounters, Handled};
pub use strategies::{
    DEFAULT_STRATEGIES, STRATEGY_CHOICES_MAX, StrategyChanges, StrategyChoiceError,
};

use crate::authorize::{AnySigner, Requester};
use crate::dataset::{DatasetItem, FaceEventNotification};
use crate::dispatch::{self, Dispatch};
use crate::notification::NotificationStream;
use crate::publisher::{self, DatasetPublisher};
use crate::response::{ControlResponse, status};
use crate::types::{FaceEventKind, Scope};
use crate::{Fib, FibUpdate, Now, Rib, TopPrefix, Verb};
use datasets::Listings;
use departures::Departures;
use faces::FaceTable;
use learning::LearntRoutes;
use pending::PendingTable;
use readvertise::Readvertising;
use waiting::{Progress, WaitingTable};

/// The command that is being carried out.
#[derive(Debug, Clone, Copy)]
struct Executing<'a> {
    now: Now,
    /// Name of the Interest: the name of the answer.
    name: NameRef<'a>,
}

/// How far a command got.
#[derive(Debug)]
enum Outcome {
    Reply(ControlResponse),
    /// The answer comes when the data plane is done.
    Deferred,
}

impl Outcome {
    fn reply(code: u32, text: impl Into<String>) -> Self {
        Self::Reply(ControlResponse::new(code, text))
    }

    fn busy() -> Self {
        Self::reply(status::INTERNAL_ERROR, "Too many commands are in progress")
    }
}

/// The control plane. See the module documentation.
#[derive(Debug)]
pub struct ControlState {
    config: ControlConfig,
    collaborators: Collaborators,
    rib: Rib,
    fib: Fib,
    faces: FaceTable,
    strategy_choices: BTreeMap<Name, Name>,
    strategy_generation: u64,
    cs: CsConfiguration,
    publisher: DatasetPublisher,
    listings: Listings,
    events: NotificationStream,
    pending: PendingTable,
    waiting: WaitingTable,
    departures: Departures,
    /// Somebody waits for one of the FIB updates, or for one that was passed on before.
    is_awaited: bool,
    /// FIB updates were passed on for which nobody waited.
    is_unpublished: bool,
    readvertising: Readvertising,
    learnt: LearntRoutes,
    outcomes: VecDeque<(u64, Handled)>,
    anchor_changes: VecDeque<AnchorChange>,
    fib_updates: BTreeMap<Name, FibUpdate>,
    actions: VecDeque<Action>,
    counters: ControlCounters,
}

impl ControlState {
    /// An empty control plane: no faces but those inside the forwarder, no strategy choices.
    #[must_use]
    pub fn new(config: ControlConfig, collaborators: Collaborators) -> Self {
        let mut events = TopPrefix::Localhost.to_name();
        events.push_generic("faces").push_generic("events");
        Self {
            collaborators,
            rib: Rib::new(config.rib_routes_max),
            fib: Fib::new(config.fib_entries_max),
            faces: FaceTable::new(),
            strategy_choices: BTreeMap::new(),
            strategy_generation: 0,
            cs: config.cs,
            publisher: DatasetPublisher::new(config.publisher),
            listings: Listings::default(),
            events: NotificationStream::new(events, NotificationStream::RECENT_MAX_DEFAULT),
            pending: PendingTable::default(),
            waiting: WaitingTable::default(),
            departures: Departures::default(),
            is_awaited: false,
            is_unpublished: false,
            readvertising: Readvertising::default(),
            learnt: LearntRoutes::default(),
            outcomes: VecDeque::new(),
            anchor_changes: VecDeque::new(),
            fib_updates: BTreeMap::new(),
            actions: VecDeque::new(),
            counters: ControlCounters::default(),
            config,
        }
    }

    /// The routes.
    #[must_use]
    pub const fn rib(&self) -> &Rib {
        &self.rib
    }

    /// The next hops.
    #[must_use]
    pub const fn fib(&self) -> &Fib {
        &self.fib
    }

    /// The record of a face.
    #[must_use]
    pub fn face(&self, face_id: u64) -> Option<&FaceRecord> {
        self.faces.get(face_id)
    }

    /// Every face, by FaceId.
    pub fn faces(&self) -> impl Iterator<Item = &FaceRecord> {
        self.faces.iter()
    }

    /// Prefixes and strategy names, in canonical order.
    pub fn strategy_choices(&self) -> impl Iterator<Item = (&Name, &Name)> {
        self.strategy_choices.iter()
    }

    /// The Content Store's settings.
    #[must_use]
    pub const fn cs(&self) -> CsConfiguration {
        self.cs
    }

    /// What management did.
    #[must_use]
    pub const fn counters(&self) -> &ControlCounters {
        &self.counters
    }

    /// Takes an Interest that the forwarder delivered to management. `face_id` is the face on which
    /// it arrived; [`ControlState::face_created`] must have been called for it before.
    pub fn handle_interest(
        &mut self,
        now: Now,
        wire: &[u8],
        face_id: u64,
        telemetry: &dyn Telemetry,
    ) -> Handled {
        self.counters.interests += 1;
        let Ok(interest) = Interest::parse(wire) else {
            self.counters.malformed += 1;
            return Handled::Malformed;
        };
        let Some(face) = self.faces.get(face_id) else {
            self.counters.unknown_face += 1;
            return Handled::UnknownFace;
        };
        let requester = Requester { face_id, scope: face.properties.scope };
        let authorizer = &mut *self.collaborators.authorizer;
        let dispatched = dispatch::dispatch(now, &interest, requester, authorizer, &[]);
        self.carry_out(now, &interest, requester, dispatched, telemetry)
    }

    /// Takes an Interest of an operator of this host that came over no face, such as over a control socket. It is
    /// authorised by the way it came. A command that refers to the face it came over refers to none.
    pub fn handle_operator_interest(
        &mut self,
        now: Now,
        wire: &[u8],
        telemetry: &dyn Telemetry,
    ) -> Handled {
        self.counters.interests += 1;
        let Ok(interest) = Interest::parse(wire) else {
            self.counters.malformed += 1;
            return Handled::Malformed;
        };
        let requester = Requester { face_id: 0, scope: Scope::Local };
        let mut authorizer = AnySigner::default();
        let dispatched = dispatch::dispatch(now, &interest, requester, &mut authorizer, &[]);
        self.carry_out(now, &interest, requester, dispatched, telemetry)
    }

    fn carry_out(
        &mut self,
        now: Now,
        interest: &Interest<'_>,
        requester: Requester,
        dispatched: Dispatch,
        telemetry: &dyn Telemetry,
    ) -> Handled {
        let handled = match dispatched {
            Dispatch::Execute(command) => {
                self.execute(Executing { now, name: interest.name() }, *command)
            }
            Dispatch::Refuse { verb, response, signer, reason } => {
                self.refuse(interest.name(), verb, &response, signer, reason)
            }
            Dispatch::NeedsCertificate { verb, signer, name } => {
                let wanted = (verb, signer, name);
                self.wait_for_certificate(now, interest, requester, wanted, Progress::default())
            }
            Dispatch::Publish { dataset, prefix } => {
                self.publish(now, &dataset, prefix.as_ref(), telemetry);
                Handled::Data { answered: true }
            }
            Dispatch::NackDataset(response) => {
                self.nack(interest.name(), &response);
                Handled::Data { answered: true }
            }
            Dispatch::Stored => Handled::Data { answered: self.send_stored(now, interest.name()) },
            Dispatch::Events => Handled::Event { answered: self.send_event(now, interest) },
            Dispatch::Ignore(reason) => Handled::Ignored(reason),
        };
        if matches!(
            handled,
            Handled::Ignored(_)
                | Handled::Data { answered: false }
                | Handled::Event { answered: false }
        ) {
            self.counters.ignored += 1;
        }
        handled
    }

    /// Takes a face that came into being, or the first word of one that did. A face that is known
    /// already is left as it is.
    pub fn face_created(&mut self, now: Now, record: FaceRecord) {
        if self.faces.get(record.properties.face_id).is_some() {
            return;
        }
        self.notify(now, FaceEventKind::Created, &record);
        self.faces.insert(record);
    }

    /// Forgets a face that is gone, with its routes and next hops: many of them a part at a time, see
    /// [`ControlState::is_removing`].
    pub fn face_destroyed(&mut self, now: Now, face_id: u64) {
        let Some(record) = self.faces.remove(face_id) else { return };
        self.face_departed(face_id);
        self.notify(now, FaceEventKind::Destroyed, &record);
    }

    /// Passes on that a face lost or regained its link.
    pub fn face_changed_state(&mut self, now: Now, face_id: u64, is_up: bool) {
        let Some(record) = self.faces.get(face_id).cloned() else { return };
        let kind = if is_up { FaceEventKind::Up } else { FaceEventKind::Down };
        self.notify(now, kind, &record);
    }

    /// Takes the longest frame that a face has from now on, because its path has changed.
    pub fn face_resized(&mut self, face_id: u64, mtu: u64) {
        self.faces.resize(face_id, mtu);
    }

    /// When [`ControlState::handle_timeout`] wants to be called next, on the monotonic clock.
    #[must_use]
    pub fn next_deadline_ns(&self) -> Option<u64> {
        let deadlines = [
            self.rib.next_deadline_ns(),
            self.pending.next_deadline_ns(),
            self.publisher.next_deadline_ns(),
            self.listings_deadline_ns(),
            self.is_removing().then_some(0),
            self.waiting.next_deadline_ns(),
            self.learnt.next_deadline_ns(),
            self.readvertise_deadline_ns(),
            self.collaborators.authorizer.next_refresh_ns(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Lets routes expire (many of them a part at a time, see [`ControlState::is_removing`]), and forgets what
    /// nobody waits for. Large datasets are made by
    /// [`ControlState::go_on_listing`].
    pub fn handle_timeout(&mut self, now: Now) {
        self.routes_expired(now.monotonic_ns);
        self.go_on_removing();
        self.pending.handle_timeout(now.monotonic_ns);
        self.publisher.drop_idle(now);
        self.forget_listings(now);
        self.give_up_waiting(now);
        self.give_up_announcements(now);
        self.readvertise(now);
        let changes = self.collaborators.authorizer.refresh(now);
        self.anchor_changes.extend(changes);
    }

    /// The next thing to do. FIB updates come first, in one batch per call.
    pub fn poll_action(&mut self) -> Option<Action> {
        let is_awaited = std::mem::take(&mut self.is_awaited) || !self.is_removing();
        if !self.fib_updates.is_empty() || is_awaited && self.is_unpublished {
            let updates = std::mem::take(&mut self.fib_updates).into_values().collect();
            self.is_unpublished = !is_awaited;
            return Some(Action::UpdateFib { updates, is_awaited });
        }
        self.actions.pop_front()
    }

    /// What became of a command that had to wait for a certificate: the face that it came from,
    /// and the outcome.
    pub fn poll_outcome(&mut self) -> Option<(u64, Handled)> {
        self.outcomes.pop_front()
    }

    /// Whether the trust anchors that are read again can be, by who this process is now.
    ///
    /// # Errors
    /// What cannot be read, and why.
    pub fn check_anchors(&self) -> Result<(), String> {
        self.collaborators.authorizer.check_anchors()
    }

    /// What has changed about trust anchors that were read again.
    pub fn poll_anchor_change(&mut self) -> Option<AnchorChange> {
        self.anchor_changes.pop_front()
    }

    fn refuse(
        &mut self,
        name: NameRef<'_>,
        verb: Verb,
        response: &ControlResponse,
        signer: String,
        reason: String,
    ) -> Handled {
        self.counters.refused += 1;
        self.respond(name, response);
        Handled::Refused { verb, signer, code: response.code, reason }
    }

    /// Carries the changes of the RIB into the FIB.
    fn rib_changed(&mut self) {
        self.is_awaited |= self.carry_into_fib();
    }

    /// As [`ControlState::rib_changed`], but nobody waits for it; true if anything has changed.
    fn carry_into_fib(&mut self) -> bool {
        let mut is_changed = false;
        for update in self.rib.take_updates() {
            if let Some(update) = self.fib.apply(update) {
                self.fib_deferred(update);
                is_changed = true;
            }
        }
        is_changed
    }

    fn fib_changed(&mut self, update: FibUpdate) {
        self.is_awaited = true;
        self.fib_deferred(update);
    }

    /// As [`ControlState::fib_changed`], but nobody waits for it.
    fn fib_deferred(&mut self, update: FibUpdate) {
        let prefix = match &update {
            FibUpdate::Set { prefix, .. } | FibUpdate::Remove { prefix } => prefix.clone(),
        };
        self.fib_updates.insert(prefix, update);
    }

    fn respond(&mut self, name: NameRef<'_>, response: &ControlResponse) {
        let content = response.to_vec();
        let data = DataBuilder::new(name).freshness_ms(publisher::FRESHNESS_MS).content(&content);
        let wire = self.collaborators.signer.sign(&data);
        self.send(wire, true);
    }

    fn nack(&mut self, name: NameRef<'_>, response: &ControlResponse) {
        let content = response.to_vec();
        let data = DataBuilder::new(name)
            .content_type(ContentType::NACK)
            .freshness_ms(publisher::FRESHNESS_MS)
            .content(&content);
        let wire = self.collaborators.signer.sign(&data);
        self.send(wire, true);
    }

    fn notify(&mut self, now: Now, kind: FaceEventKind, record: &FaceRecord) {
        let notification = FaceEventNotification { kind, properties: record.properties.clone() };
        let data = self.events.post(now, notification.to_vec()).data();
        let wire = self.collaborators.signer.sign(&data);
        self.send(wire, false);
    }

    fn send_event(&mut self, now: Now, interest: &Interest<'_>) -> bool {
        let Some(notification) = self.events.find(now, interest) else { return false };
        let wire = self.collaborators.signer.sign(&notification.data());
        self.send(wire, false);
        true
    }

    fn send(&mut self, wire: Option<Vec<u8>>, may_cache: bool) {
        match wire {
            Some(wire) => self.actions.push_back(Action::SendData { wire, may_cache }),
            None => self.counters.unsigned += 1,
        }
    }
}

#[cfg(test)]
mod tests;
