//! The control thread: a loop over services. It passes what is ready or due, events of the data plane, actions of
//! management's state machine, calls of other threads and messages between services to the service that handles them.
//!
//! | module | content |
//! |---|---|
//! | `service` | the interface of services: events, deadlines, and the view of the forwarder in one call |
//! | `commands` | the parts of the data plane that services use |
//! | `face_table` | existing faces, limits of new ones |
//! | `connector` | creation of faces: host names, TCP connections |
//! | `listening` | accepted connections |
//! | `websocket`, `memif`, `sessions` | handshakes and faces of WebSocket, memif and WebTransport |
//! | `interfaces`, `path_mtu` | network interfaces; path MTUs of UDP faces |
//! | `management`, `replies` | management Interests, their actions and replies |
//! | `setup` | initial state of management and its internal face |
//! | `operator` | the operations of the control socket, on the threads of their callers |
//! | `quotas`, `refusals` | faces that exceed their quotas; log of commands and rejected connections |
//! | `unreported` | faces whose state is reported later, by principal |
//!
//! A service owns its state. In a call it has a [view](service::Cx) of the settings, the faces, the time, and of the part
//! of the data plane that it names; it affects other services by [events](service::Event) only, which go to the services
//! that [`receivers`](service::Event::receivers) names, in this order. A new service is a field of [`Control`], a line in
//! [`Control::parts`] and a [`ServiceName`](service::ServiceName).

pub(crate) mod commands;
mod connector;
pub(crate) mod face_table;
mod interfaces;
pub(crate) mod listening;
pub(crate) mod management;
mod memif;
pub(crate) mod operator;
mod path_mtu;
mod quotas;
mod refusals;
mod replies;
pub(crate) mod service;
pub(crate) mod sessions;
pub(crate) mod setup;
mod tokens;
mod unreported;
#[cfg(feature = "vip")]
mod vip;
mod websocket;

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use anyhow::Context;
use namewire_control::ConfigStatus;
use ndn_dataplane::{Command, CsSettings, Dataplane, FaceDebt, MemoryFaceOptions, WorkerGone};
use ndn_face::InternalEnd;
use ndn_forwarding::ProducerRegions;
use ndn_management::{ControlState, FACE_ID_INTERNAL, TableItems, TablePart, status};
use ndn_sys::clock::Clock;
use ndn_sys::poll::{Events, Interest, Poller, Waker};
use tracing::{error, info, warn};

use connector::Connector;
use face_table::MemoryFaceAnswer;
use interfaces::Interfaces;
use listening::Listening;
use management::{LocalAnswer, Management};
use memif::Memif;
use path_mtu::PathMtus;
use quotas::Quotas;
pub use service::Reason;
use service::{AnyService, Core, Deadline, Event, Timers};
use sessions::Sessions;
use setup::internal_face;
use websocket::WebSocketHandshakes;

use self::tokens::{
    TOKEN_CALLS, TOKEN_DATAPLANE, TOKEN_INTERNAL, TOKEN_KEY_CHAIN, TOKEN_LINKS, TOKEN_NAMES,
    TOKEN_SESSIONS, TOKEN_STOP,
};
use super::balance::BalanceSchedule;
use super::calls::Calls;
use super::captures::Captures;
use super::ethernet::OwnPort;
use super::listeners::Listeners;
use super::reload::Reload;
use super::static_setup::StaticSetup;
use super::tables::ForwardingTables;
use super::{addresses, faces, settings};
use crate::config::Config;
use crate::environment::now;
use crate::hooks::{Hooks, Requests};

/// Maximum descriptors handled per round.
pub(super) const EVENTS_PER_ROUND: usize = 64;
/// Maximum calls of other threads executed per round.
const CALLS_PER_ROUND: usize = 64;

/// The forwarder has no source of a configuration: it runs on virtual time.
const NO_CONFIGURATION: &str = "this forwarder has no configuration to read";

const WORKER_GONE: &str = "the forwarding worker has ended by itself";

/// Parts that the control thread is built from.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) clock: Clock,
    /// For the descriptors of the control thread.
    pub(super) poller: Poller,
    /// Network interfaces are monitored.
    pub(super) has_link_monitor: bool,
    pub(super) management: ControlState,
    pub(super) key_chain: Arc<Waker>,
    pub(super) dataplane: Dataplane,
    pub(super) tables: ForwardingTables,
    pub(super) listeners: Listeners,
    pub(super) calls: Calls<Control>,
    /// Devices driven by a driver of this process.
    pub(super) own: Vec<OwnPort>,
    /// Keys of the exchange of VIP, if it is enabled.
    #[cfg(feature = "vip")]
    pub(super) vip: Option<crate::vip::Keys>,
}

/// The number of services.
const SERVICES: usize = 12 + cfg!(feature = "vip") as usize;

/// The control thread.
#[derive(Debug)]
pub(super) struct Control {
    core: Core,
    timers: Timers,
    management: Management,
    listening: Listening,
    websocket: WebSocketHandshakes,
    memif: Memif,
    sessions: Sessions,
    connector: Connector,
    statics: StaticSetup,
    interfaces: Interfaces,
    paths: PathMtus,
    quotas: Quotas,
    balance: BalanceSchedule,
    captures: Captures,
    #[cfg(feature = "vip")]
    vip: vip::Vip,
    calls: Calls<Control>,
    /// Set while the control thread runs.
    reload: Option<Reload>,
}

impl Control {
    /// Sets everything up; Interests are answered from [`run`](Self::run) on.
    pub(super) fn new(config: &Config, parts: Parts) -> anyhow::Result<Self> {
        let Parts { clock, has_link_monitor, management: mut state, key_chain, .. } = parts;
        let Parts { poller, mut dataplane, tables, mut listeners, calls, own, .. } = parts;
        let (near, mut far) = InternalEnd::pair(management::INTERNAL_QUEUE)?;
        let principals = far.divide(settings::reserves(&config.limits));
        let regions = ProducerRegions::new(config.tables.network_regions.clone());
        dataplane.send(Command::SetRegions(Arc::new(regions)));
        dataplane.send(Command::ConfigureCs(CsSettings {
            capacity_packets: Some(config.tables.cs.capacity_packets),
            admit: Some(config.tables.cs.admit),
            serve: Some(config.tables.cs.serve),
        }));
        dataplane.send(Command::AddFace(Box::new(internal_face(far))));
        #[cfg(feature = "vip")]
        let vip = vip::Vip::new(config, parts.vip, &mut dataplane, now(&clock))?;
        choose_strategies(&mut state, config)?;
        let opened = std::mem::take(&mut listeners.webtransport);
        let (addresses, local_uris) = (listeners.addresses.clone(), listeners.local_uris());
        let sessions = Sessions::new(opened, addresses.sessions.clone(), clock.clone())?;
        let connector = Connector::new(
            addresses,
            Arc::clone(&listeners.streams.local_peers),
            settings::reserves(&config.limits),
        )?;
        let balance = BalanceSchedule::new(&dataplane);
        let mut core = Core::new(config, clock.clone(), poller, dataplane, principals);
        // Without memory for it, the policy of the start stays.
        if let Err(reason) = core.set_cs_policy(config.tables.cs.policy) {
            error!("the Content Store has the policy {}: {reason}", core.cs_policy);
        }
        let management = Management::new(state, near, tables, key_chain, local_uris, clock.clone());
        let mut control = Self {
            timers: Timers::default(),
            management,
            sessions,
            connector,
            listening: Listening::new(listeners),
            websocket: WebSocketHandshakes::new(settings::reserves(&config.limits)),
            memif: Memif::new(config),
            statics: StaticSetup::new(config),
            interfaces: Interfaces::new(&mut core.cx(), has_link_monitor, own),
            paths: PathMtus::default(),
            quotas: Quotas::new(&core.cx()),
            balance,
            captures: Captures::new(clock),
            #[cfg(feature = "vip")]
            vip,
            calls,
            reload: None,
            core,
        };
        control.watch_wakers()?;
        control.deliver();
        control.work();
        Ok(control)
    }

    /// The services in the order of [`ServiceName`](service::ServiceName).
    fn parts(&mut self) -> (&mut Core, [&mut dyn AnyService; SERVICES]) {
        let services: [&mut dyn AnyService; SERVICES] = [
            &mut self.management,
            &mut self.connector,
            &mut self.websocket,
            &mut self.memif,
            &mut self.sessions,
            &mut self.listening,
            &mut self.statics,
            &mut self.interfaces,
            &mut self.quotas,
            &mut self.paths,
            &mut self.balance,
            &mut self.captures,
            #[cfg(feature = "vip")]
            &mut self.vip,
        ];
        (&mut self.core, services)
    }

    /// Watches the wakers that exist from the start, and the link monitor.
    fn watch_wakers(&self) -> std::io::Result<()> {
        let poller = &self.core.poller;
        poller.add_waker(self.core.dataplane.event_waker(), TOKEN_DATAPLANE)?;
        poller.add_waker(self.management.internal().waker(), TOKEN_INTERNAL)?;
        poller.add_waker(self.management.key_chain(), TOKEN_KEY_CHAIN)?;
        poller.add_waker(self.calls.waker(), TOKEN_CALLS)?;
        poller.add_waker(self.sessions.waker(), TOKEN_SESSIONS)?;
        poller.add_waker(self.connector.names().waker(), TOKEN_NAMES)?;
        #[cfg(feature = "vip")]
        if let Some(waker) = self.vip.waker() {
            poller.add_waker(waker, tokens::TOKEN_VIP)?;
        }
        match self.interfaces.monitor() {
            Some(monitor) => poller.add(monitor, TOKEN_LINKS, Interest::Readable),
            None => Ok(()),
        }
    }

    /// Runs until a stop is requested.
    pub(super) fn run(&mut self, hooks: Hooks, started: Config) -> anyhow::Result<()> {
        let Hooks { requests, source, log, mut on_listening } = hooks;
        self.reload = Some(Reload { source, log, started });
        self.core.poller.add_waker(requests.waker(), TOKEN_STOP)?;
        let mut ready = Events::with_capacity(EVENTS_PER_ROUND);
        while !requests.is_stop_requested() {
            let wait = self.next_deadline().map(|(at, _)| at - self.core.clock.now());
            self.round(wait, &mut ready, Some(&requests))?;
            if requests.take_reload() {
                // The reason of a failure was logged.
                let _ = self.reload();
            }
            self.announce(&mut on_listening);
        }
        info!("stopping");
        Ok(())
    }

    /// Handles what is ready or due, without waiting. Returns whether there was work.
    ///
    /// # Errors
    /// A worker has ended by a fault of its own.
    pub(super) fn step(&mut self, ready: &mut Events) -> anyhow::Result<bool> {
        // Workers announce all that they have for the control thread by a waker.
        if !self.core.poller.may_have_events() && !self.timers.is_due(self.core.clock.now()) {
            return Ok(false);
        }
        self.round(Some(Duration::ZERO), ready, None)
    }

    /// Waits at most this long (`None`: without limit), then handles what is ready or due.
    fn round(
        &mut self,
        wait: Option<Duration>,
        ready: &mut Events,
        requests: Option<&Requests>,
    ) -> anyhow::Result<bool> {
        self.core.poller.wait(ready, wait)?;
        self.core.now = now(&self.core.clock);
        let is_due = self.timers.is_due(self.core.now.monotonic);
        for event in ready.iter() {
            self.handle_ready(event.token, requests);
        }
        // Face events precede the Interests of these faces.
        let has_events = self.handle_events().context(WORKER_GONE)? || !ready.is_empty();
        self.handle_timeouts();
        let has_worked = self.work();
        Ok(is_due || has_events || has_worked)
    }

    fn handle_ready(&mut self, token: u64, requests: Option<&Requests>) {
        match token {
            TOKEN_STOP => requests.into_iter().for_each(|requests| requests.waker().reset()),
            TOKEN_DATAPLANE => self.core.dataplane.event_waker().reset(),
            TOKEN_CALLS => self.execute_calls(),
            token => {
                self.core.events.push_back(Event::Ready(token));
                self.deliver();
            }
        }
    }

    /// Announces the listening addresses once management is reachable: its face exists and all workers have its
    /// routes.
    fn announce(&mut self, on_listening: &mut (dyn FnMut(&str) + Send)) {
        let Core { faces, dataplane, config, .. } = &self.core;
        let is_reachable = faces.get(FACE_ID_INTERNAL).is_some()
            && (dataplane.has_one_worker() || dataplane.has_executed_all());
        if is_reachable && !self.listening.is_announced() {
            self.memif.log_secrecy(config);
            let hashes = self.sessions.status(config).self_signed_hashes();
            self.listening.announce(config, &hashes, on_listening);
        }
    }

    /// Reads the configuration again.
    ///
    /// # Errors
    /// The reason why the settings are not in force.
    fn reload(&mut self) -> Result<ConfigStatus, String> {
        let Self { core, management, sessions, listening, reload, .. } = self;
        let reload = reload.as_ref().ok_or(NO_CONFIGURATION)?;
        let status = reload.run(core, management, sessions, listening)?;
        core.events.push_back(Event::Reloaded);
        self.deliver();
        self.work();
        Ok(status)
    }

    /// Stops the data plane.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        let Self { core, listening, .. } = self;
        // Socket files are removed first, so that no new client connects.
        drop(listening);
        core.dataplane.stop().context(WORKER_GONE)
    }

    /// The authoritative tables.
    pub(super) const fn state(&self) -> &ControlState {
        self.management.state()
    }

    /// The authoritative tables, for faults that a simulation plants.
    #[cfg(feature = "planted-faults")]
    pub(super) const fn state_mut(&mut self) -> &mut ControlState {
        self.management.change().0
    }

    /// The workers.
    pub(super) const fn dataplane(&self) -> &Dataplane {
        &self.core.dataplane
    }

    /// Counts and scores of VIP, if it is enabled.
    #[cfg(feature = "vip")]
    pub(super) fn vip_status(&self) -> Option<namewire_control::VipStatus> {
        self.vip.status()
    }

    /// The clock.
    pub(super) const fn clock(&self) -> &Clock {
        &self.core.clock
    }

    /// Time and reason of the next [`step`](Self::step) if no descriptor becomes ready before.
    pub(super) fn next_deadline(&self) -> Option<Deadline> {
        self.timers.next()
    }

    /// Updates the timer table after calls of services.
    fn set_timers(&mut self) {
        let deadlines = self.parts().1.map(|service| service.deadline());
        self.timers.set_all(deadlines);
    }

    /// Calls the services whose deadlines are due. A service that is due again, for another reason or because it has more
    /// work, is called in the next round.
    fn handle_timeouts(&mut self) {
        let now = self.core.now.monotonic;
        for number in 0..SERVICES {
            let (core, services) = self.parts();
            if let Some((at, reason)) = services[number].deadline()
                && at <= now
            {
                services[number].time_out(core, reason);
                self.deliver();
            }
        }
    }

    /// Changes the FIB of the workers and leaves that of management as it is: a fault that a simulation plants.
    #[cfg(feature = "planted-faults")]
    pub(super) fn update_fib(&mut self, updates: Vec<ndn_management::FibUpdate>) {
        self.management.update_fib(&mut self.core.cx(), updates);
        self.work();
    }

    /// Performs the actions of the state machine and publishes their results. Returns whether there was work.
    fn work(&mut self) -> bool {
        let mut has_performed = false;
        while self.management.perform_actions(&mut self.core.cx()) {
            has_performed = true;
            self.deliver();
        }
        let has_sent = self.management.finish_round(&mut self.core.cx());
        #[cfg(feature = "vip")]
        self.deliver();
        self.set_timers();
        has_performed || has_sent
    }

    /// Handles the events of the data plane. Returns whether there was one.
    fn handle_events(&mut self) -> Result<bool, WorkerGone> {
        let mut has_handled = false;
        while let Some(event) = self.core.dataplane.next_event()? {
            self.handle_event(event);
            has_handled = true;
        }
        Ok(has_handled)
    }

    /// Updates the face table with an event of the data plane, and delivers the event.
    fn handle_event(&mut self, event: ndn_dataplane::Event) {
        self.core.handle_dataplane_event(event);
        self.deliver();
    }

    /// Delivers events, and those that they cause.
    fn deliver(&mut self) {
        let (core, mut services) = self.parts();
        while let Some(event) = core.events.pop_front() {
            let receivers = event.receivers();
            let mut event = Some(event);
            for &receiver in receivers {
                let service = &mut services[receiver as usize];
                debug_assert_eq!(service.name(), receiver);
                event = event.and_then(|event| service.offer(core, event));
            }
        }
    }

    /// Executes calls of other threads.
    fn execute_calls(&mut self) {
        self.calls.waker().reset();
        for _ in 0..CALLS_PER_ROUND {
            let Some(call) = self.calls.poll() else { return };
            call(self);
            self.deliver();
        }
        // Others may wait.
        self.calls.waker().wake();
    }

    /// Creates the in-memory face of one end of a pair; answers once management knows it.
    pub(super) fn add_memory_face(
        &mut self,
        options: &MemoryFaceOptions,
        end: InternalEnd,
        answer: MemoryFaceAnswer,
    ) {
        let Core { faces, dataplane, .. } = &mut self.core;
        faces.add_memory_face(dataplane, options, end, answer);
    }

    /// The first items of a part of a table.
    pub(super) fn table_part(
        &mut self,
        part: &TablePart,
        items_max: usize,
    ) -> Result<TableItems, String> {
        self.core.now = now(&self.core.clock);
        self.management.table_part(&mut self.core.cx(), part, items_max)
    }

    /// Executes a management Interest that arrives over no face.
    pub(super) fn handle_local_interest(
        &mut self,
        interest: &[u8],
        answer: SyncSender<LocalAnswer>,
    ) {
        self.core.now = now(&self.core.clock);
        self.management.handle_local_interest(&mut self.core.cx(), interest, answer);
        self.deliver();
        self.set_timers();
    }
}

impl Core {
    /// Updates the face table with an event of the data plane, and posts what services need of it.
    fn handle_dataplane_event(&mut self, event: ndn_dataplane::Event) {
        use ndn_dataplane::Event as DataplaneEvent;
        let now = self.now.monotonic;
        let posted = match event {
            DataplaneEvent::FaceAdded { ticket, mut face } => {
                face.local = addresses::near_end(&face.remote, &face.local);
                let record = Box::new(faces::record(&face));
                let (face_id, index) = (record.properties.face_id, face.index);
                self.faces.face_added(now, face_id, &face, ticket.is_some());
                self.settle_faces();
                Event::FaceAdded { ticket, index, record }
            }
            DataplaneEvent::FaceExists { ticket, face_id, unused } => {
                self.faces.face_unused(unused);
                match self.faces.get(face_id) {
                    Some(_) => Event::FaceExists { ticket, face_id },
                    // The events of workers are received in turn.
                    None => Event::FaceAwaited { ticket, face_id },
                }
            }
            DataplaneEvent::FaceRefused { ticket, face_id, error } => {
                match ticket {
                    // Connections of one burst can exceed the limit before this thread has counted them.
                    None => self.log.full.face_refused(self.now, face_id, &error),
                    Some(_) => self.log.full.command_refused(self.now, face_id, &error),
                }
                self.faces.face_refused(face_id, &error);
                self.events.push_back(Event::FaceRefused(face_id));
                let text = format!("Face creation failed: {}", addresses::words(&error));
                Event::AttemptFailed { ticket, code: status::INTERNAL_ERROR, text }
            }
            DataplaneEvent::FaceClosed { face_id, reason } => {
                let face = self.faces.face_closed(now, face_id, reason);
                let lost = face.filter(|_| reason.is_some()).map(Box::new);
                Event::FaceClosed { face_id, lost }
            }
            DataplaneEvent::FaceDown { face_id, reason } => {
                let is_reported = self.faces.face_down(now, face_id, reason);
                return self.post_state(face_id, is_reported.then_some(false));
            }
            DataplaneEvent::FaceUp { face_id, is_reached } => {
                let is_reported = self.faces.face_up(now, face_id, is_reached);
                return self.post_state(face_id, is_reported.then_some(true));
            }
            DataplaneEvent::PeerRefused { remote } => {
                warn!(%remote, "peer rejected: the limit of faces, or of faces per peer, is reached");
                return;
            }
            // Closed on this thread so that packets do not wait for the close; the face may get another socket then.
            DataplaneEvent::SocketUnused(socket) => return drop(socket),
            DataplaneEvent::Learning(request) => Event::Learning(request),
            DataplaneEvent::CsErased { ticket, erased, more } => {
                Event::CsErased { ticket, erased: erased as u64, more }
            }
            #[cfg(feature = "vip")]
            DataplaneEvent::VipRequests(requests) => Event::VipRequests(requests),
        };
        self.events.push_back(posted);
    }

    /// Posts the state of a face if it is to be reported now.
    fn post_state(&mut self, face_id: u64, is_up: Option<bool>) {
        self.events.extend(is_up.map(|is_up| Event::FaceStateChanged { face_id, is_up }));
        if self.faces.has_unreported() {
            self.events.push_back(Event::FaceUnreported);
        }
    }

    /// Closes faces of principals that have more than their share, while others need them: those that have received
    /// nothing for the longest time.
    fn settle_faces(&mut self) {
        for FaceDebt { principal, count, faces } in self.dataplane.face_debts() {
            for face_id in self.faces.least_recent(count, faces) {
                self.log.refused.face_given_up(self.now, principal, face_id);
                self.dataplane.give_up_face(face_id);
            }
        }
    }
}

fn choose_strategies(state: &mut ControlState, config: &Config) -> anyhow::Result<()> {
    state.set_default_strategies()?;
    for choice in &config.strategy_choices {
        state
            .set_strategy(&choice.prefix, choice.strategy.as_ref())
            .with_context(|| format!("strategy {} for {}", choice.strategy, choice.prefix))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
