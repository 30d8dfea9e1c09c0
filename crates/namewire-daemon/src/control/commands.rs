//! The parts of the data plane that services use.

use std::fmt::Debug;
use std::sync::Arc;

use ndn_dataplane::{
    Balanced, Command, CommandMark, CsSettings, Dataplane, FaceRefusal, NewFace, NewPort,
    PortChange,
};
use ndn_face::{FaceOptions, FrameTap, PortId};
use ndn_forwarding::{Counters, LinkEvent, StrategyTable};
use ndn_packet::Name;
use ndn_table::{FibSnapshot, Token};
use ndn_types::{PrincipalKey, Timestamp};

/// A part of the data plane, as a trait object.
pub(crate) trait Part {
    /// Returns the part of this data plane.
    fn of(dataplane: &mut Dataplane) -> &mut Self;
}

/// Commands about faces.
pub(crate) trait FaceCommands: Debug {
    /// Returns a FaceId that was never used.
    fn allocate_face_id(&mut self) -> u64;

    /// Returns why a principal may not have another on-demand face, if so.
    fn face_refusal(&self, principal: PrincipalKey) -> Option<FaceRefusal>;

    /// Creates a face.
    fn add_face(&mut self, face: NewFace);

    /// Replaces the options of a face.
    fn update_face(&mut self, face_id: u64, options: FaceOptions);

    /// Closes a face.
    fn remove_face(&mut self, face_id: u64);

    /// Reports an event of the link of a face.
    fn set_link(&mut self, face_id: u64, event: LinkEvent);

    /// Gives a UDP face a socket of its own.
    fn separate_input(&mut self, face_id: u64);

    /// See [`Dataplane::is_behind`].
    fn is_behind(&self) -> bool;
}

/// Commands about network devices and faces.
pub(crate) trait PortCommands: FaceCommands {
    /// Maximum number of workers with sockets of one device.
    fn port_workers(&self) -> usize;

    /// Adds a device.
    fn add_port(&mut self, port: NewPort);

    /// Changes a device.
    fn change_port(&mut self, port: PortId, change: PortChange);
}

/// Commands about tables, and the progress of the workers, for management.
pub(crate) trait TableCommands: FaceCommands {
    /// Publishes tables to the workers.
    fn set_tables(&mut self, fib: Arc<FibSnapshot>, strategies: Option<Arc<StrategyTable>>);

    /// Changes the settings of the Content Store.
    fn configure_cs(&mut self, settings: CsSettings);

    /// Erases packets of the Content Store; [`Event::CsErased`](super::service::Event::CsErased) answers.
    fn erase_cs(&mut self, ticket: u64, prefix: Name, limit: usize, is_whole_name: bool);

    /// Answers a search for a prefix announcement.
    fn answer_learning(&mut self, ticket: Token, announcement: Option<Box<[u8]>>);

    /// Sends the commands to the workers.
    fn wake(&mut self);

    /// See [`Dataplane::has_one_worker`].
    fn has_one_worker(&self) -> bool;

    /// See [`Dataplane::mark`].
    fn mark(&self) -> CommandMark;

    /// See [`Dataplane::has_executed`].
    fn has_executed(&self, mark: &CommandMark) -> bool;

    /// Sum of the counters of all workers.
    fn counters(&self) -> Counters;
}

/// Commands about VIP.
#[cfg(feature = "vip")]
pub(crate) trait VipCommands: Debug {
    /// Creates the face of the exchange.
    fn add_vip_face(&mut self, face: NewFace);

    /// Gives the workers decisions of VIP; [`Event::VipRequests`](super::service::Event::VipRequests) has the requests
    /// that they have counted.
    fn exchange_vip(
        &mut self,
        decisions: Arc<ndn_forwarding::VipDecisions>,
        requests: Box<ndn_forwarding::VipRequests>,
    );
}

#[cfg(feature = "vip")]
impl VipCommands for Dataplane {
    fn add_vip_face(&mut self, face: NewFace) {
        self.send(Command::AddFace(Box::new(face)));
    }

    fn exchange_vip(
        &mut self,
        decisions: Arc<ndn_forwarding::VipDecisions>,
        requests: Box<ndn_forwarding::VipRequests>,
    ) {
        self.send(Command::ExchangeVip { decisions, requests });
    }
}

#[cfg(feature = "vip")]
impl Part for dyn VipCommands {
    fn of(dataplane: &mut Dataplane) -> &mut Self {
        dataplane
    }
}

/// Distribution of names over the workers.
pub(crate) trait NameDispatch: Debug {
    /// Packets forwarded by all workers.
    fn packets(&self) -> u64;

    /// Returns whether no entry is moving to another worker.
    fn is_settled(&self) -> bool;

    /// Moves names if the load of the workers is uneven.
    fn balance(&mut self, now: Timestamp) -> Balanced;
}

/// Access of captures to the frames of all faces.
pub(crate) trait TapCommands: Debug {
    /// Shows every frame to this tap from now on; `None` ends that.
    fn set_tap(&mut self, tap: Option<Box<dyn FrameTap>>);
}

impl FaceCommands for Dataplane {
    fn allocate_face_id(&mut self) -> u64 {
        Self::allocate_face_id(self)
    }

    fn face_refusal(&self, principal: PrincipalKey) -> Option<FaceRefusal> {
        Self::face_refusal(self, principal)
    }

    fn add_face(&mut self, face: NewFace) {
        self.send(Command::AddFace(Box::new(face)));
    }

    fn update_face(&mut self, face_id: u64, options: FaceOptions) {
        self.send(Command::UpdateFace { face_id, options: Box::new(options) });
    }

    fn remove_face(&mut self, face_id: u64) {
        self.send(Command::RemoveFace { face_id });
    }

    fn set_link(&mut self, face_id: u64, event: LinkEvent) {
        self.send(Command::SetLink { face_id, event });
    }

    fn separate_input(&mut self, face_id: u64) {
        self.send(Command::SeparateInput { face_id });
    }

    fn is_behind(&self) -> bool {
        Self::is_behind(self)
    }
}

impl PortCommands for Dataplane {
    fn port_workers(&self) -> usize {
        Self::port_workers(self)
    }

    fn add_port(&mut self, port: NewPort) {
        self.send(Command::AddPort(Box::new(port)));
    }

    fn change_port(&mut self, port: PortId, change: PortChange) {
        self.send(Command::ChangePort { port, change: Box::new(change) });
    }
}

impl TableCommands for Dataplane {
    fn set_tables(&mut self, fib: Arc<FibSnapshot>, strategies: Option<Arc<StrategyTable>>) {
        self.send(Command::SetTables { fib, strategies });
    }

    fn configure_cs(&mut self, settings: CsSettings) {
        self.send(Command::ConfigureCs(settings));
    }

    fn erase_cs(&mut self, ticket: u64, prefix: Name, limit: usize, is_whole_name: bool) {
        self.send(Command::EraseCs { ticket, prefix, limit, is_whole_name });
    }

    fn answer_learning(&mut self, ticket: Token, announcement: Option<Box<[u8]>>) {
        self.send(Command::AnswerLearning { ticket, announcement });
    }

    fn wake(&mut self) {
        Self::wake(self);
    }

    fn has_one_worker(&self) -> bool {
        Self::has_one_worker(self)
    }

    fn mark(&self) -> CommandMark {
        Self::mark(self)
    }

    fn has_executed(&self, mark: &CommandMark) -> bool {
        Self::has_executed(self, mark)
    }

    fn counters(&self) -> Counters {
        Self::counters(self)
    }
}

impl NameDispatch for Dataplane {
    fn packets(&self) -> u64 {
        self.workers().iter().map(|worker| worker.worker_counters().packets.value()).sum()
    }

    fn is_settled(&self) -> bool {
        self.balancer().is_none_or(|balancer| balancer.next_deadline().is_none())
    }

    fn balance(&mut self, now: Timestamp) -> Balanced {
        Self::balance(self, now)
    }
}

impl TapCommands for Dataplane {
    fn set_tap(&mut self, tap: Option<Box<dyn FrameTap>>) {
        self.send(Command::SetTap(tap));
    }
}

impl Part for dyn FaceCommands {
    fn of(dataplane: &mut Dataplane) -> &mut Self {
        dataplane
    }
}

impl Part for dyn PortCommands {
    fn of(dataplane: &mut Dataplane) -> &mut Self {
        dataplane
    }
}

impl Part for dyn TableCommands {
    fn of(dataplane: &mut Dataplane) -> &mut Self {
        dataplane
    }
}

impl Part for dyn NameDispatch {
    fn of(dataplane: &mut Dataplane) -> &mut Self {
        dataplane
    }
}

impl Part for dyn TapCommands {
    fn of(dataplane: &mut Dataplane) -> &mut Self {
        dataplane
    }
}
