//! Commands of the control thread to a worker.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use ndn_face::{
    FaceOptions, FrameTap, MemoryReport, NewTransport, OnDemandSettings, PortId, PortSocket,
};
use ndn_forwarding::{LinkEvent, ProducerRegions, StrategyTable, TraceFilter, TraceSink};
use ndn_packet::Name;
use ndn_table::{CsReplacement, FibSnapshot, LedgerReport, Token};
use ndn_types::FaceUri;

/// A command to a worker. Commands are carried out in order, between bursts.
#[derive(Debug)]
pub enum Command {
    /// Make a face; answered by [`Event::FaceAdded`](crate::Event::FaceAdded) or
    /// [`Event::FaceRefused`](crate::Event::FaceRefused).
    AddFace(Box<NewFace>),
    /// Change the options of a face. No effect if it has closed.
    UpdateFace {
        /// The face.
        face_id: u64,
        /// All options.
        options: Box<FaceOptions>,
    },
    /// An event of the link of a face that the control thread noticed. No effect if the face has closed.
    SetLink {
        /// The face.
        face_id: u64,
        /// The event.
        event: LinkEvent,
    },
    /// Give a UDP face on a shared socket a socket of its own, because Interests are sent there and Data is not to
    /// wait behind the Interests of others. No effect if it has closed or has such a socket.
    SeparateInput {
        /// The face.
        face_id: u64,
    },
    /// Close a face; answered by [`Event::FaceClosed`](crate::Event::FaceClosed).
    RemoveFace {
        /// The face.
        face_id: u64,
    },
    /// Add a network device, for faces on it.
    AddPort(Box<NewPort>),
    /// Change a network device.
    ChangePort {
        /// The device.
        port: PortId,
        /// The change.
        change: Box<PortChange>,
    },
    /// Use these tables from the next burst on.
    SetTables {
        /// The FIB.
        fib: Arc<FibSnapshot>,
        /// The strategy instances, if they have changed.
        strategies: Option<Arc<StrategyTable>>,
    },
    /// Use other producer regions.
    SetRegions(Arc<ProducerRegions>),
    /// Change the Content Store.
    ConfigureCs(CsSettings),
    /// Put another replacement policy in force, built for the shard of one worker
    /// ([`Dataplane::set_cs_policy`](crate::Dataplane::set_cs_policy)).
    SetCsPolicy(Box<CsReplacement>),
    /// Erase up to `limit` packets under `prefix`; answered by
    /// [`Event::CsErased`](crate::Event::CsErased).
    EraseCs {
        /// Returned with the answer.
        ticket: u64,
        /// The prefix.
        prefix: Name,
        /// Maximum number of packets.
        limit: usize,
        /// Whether `prefix` is the whole name of a Data. Then the disk forgets that Data until a restart, and no others
        /// under the prefix.
        is_whole_name: bool,
    },
    /// Answer [`LearningRequest::Find`](ndn_forwarding::LearningRequest::Find).
    AnswerLearning {
        /// The ticket of the request.
        ticket: Token,
        /// The announcement to send with the Data, if there is one.
        announcement: Option<Box<[u8]>>,
    },
    /// Follow these decisions of VIP, and count local requests anew; answered by
    /// [`Event::VipRequests`](crate::Event::VipRequests) with those counted before, if they were counted.
    #[cfg(feature = "vip")]
    ExchangeVip {
        /// The decisions.
        decisions: Arc<ndn_forwarding::VipDecisions>,
        /// An empty table of requests.
        requests: Box<ndn_forwarding::VipRequests>,
    },
    /// Show every frame to this tap from now on; `None` ends that.
    SetTap(Option<Box<dyn FrameTap>>),
    /// Report what principals hold; no answer where there is no room for one. Workers that forward report their tables
    /// too.
    ReportLedgers {
        /// Whether the worker forwards.
        forwards: bool,
        /// Where the report goes.
        answer: SyncSender<WorkerLedgers>,
    },
    /// Start or stop measuring service times.
    Trace(bool),
    /// Trace the decisions about these packets from now on; `None` ends that.
    TracePackets(Option<(TraceFilter, Arc<dyn TraceSink>)>),
    /// Send what waits, close all faces and end.
    Stop,
}

/// Resources of one worker that principals hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerLedgers {
    /// The tables of its shard, if it forwards.
    pub tables: Option<LedgerReport>,
    /// The memory of its faces.
    pub memory: MemoryReport,
}

/// A new face.
#[derive(Debug)]
pub struct NewFace {
    /// Returned with the answer.
    pub ticket: Option<u64>,
    /// Its transport.
    pub transport: NewTransport,
    /// Its options, with its FaceId.
    pub options: FaceOptions,
    /// The remote FaceUri.
    pub remote: FaceUri,
    /// The local FaceUri. The worker replaces it for a face on a shared socket.
    pub local: FaceUri,
}

/// A new network device. Each face on it belongs to one worker.
#[derive(Debug)]
pub struct NewPort {
    /// Its number, which is unique.
    pub port: PortId,
    /// Its name.
    pub name: Arc<str>,
    /// The link is up.
    pub is_up: bool,
    /// Whether stations get on-demand faces.
    pub accepts: bool,
    /// Its sockets, for one worker each, at most [`Dataplane::port_workers`](crate::Dataplane::port_workers). The
    /// worker of the first one gets the faces that commands make.
    pub sockets: Vec<PortSocket>,
    /// Settings of on-demand faces of stations.
    pub on_demand: OnDemandSettings,
}

/// A change of a network device.
#[derive(Debug)]
pub enum PortChange {
    /// The link is up or down.
    Link(bool),
    /// It has new sockets ([`NewPort::sockets`]), and other settings of on-demand faces. For a worker without a
    /// socket, the device is gone.
    Sockets(Vec<PortSocket>, OnDemandSettings),
    /// Close its sockets, because new ones cannot be opened before. Faces wait for those.
    Suspend,
    /// Its address has changed.
    Address([u8; 6]),
    /// Its use has changed; the faces of stations stay.
    Purpose {
        /// Stations get on-demand faces.
        accepts: bool,
        /// It leaves its group, whose face closes.
        leaves_group: bool,
    },
    /// It has disappeared. Permanent faces of stations wait for it.
    Gone,
    /// Remove it and its faces.
    Remove,
}

/// Settings of the Content Store; `None` leaves a setting unchanged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CsSettings {
    /// Capacity, packets.
    pub capacity_packets: Option<usize>,
    /// Admit arriving Data.
    pub admit: Option<bool>,
    /// Satisfy Interests.
    pub serve: Option<bool>,
}
