//! Options of a data plane.

use std::io;
use std::time::Duration;

use ndn_face::{FaceOptions, FaceSetOptions, InternalEnd, LinkOptions};
use ndn_forwarding::{FaceProperties, PitTokenPolicy, ShardConfig};
use ndn_ring::{PagePreference, PoolError};
use ndn_sys::clock::Clock;
use ndn_sys::udp::UdpSocket;
use ndn_types::{FaceUri, LinkType, Persistency, PrincipalKey, Scope};

use crate::command::NewFace;
use crate::disk::DiskPort;
use crate::overload::OverloadOptions;

/// Options of a data plane.
#[derive(Debug)]
pub struct DataplaneOptions {
    /// Sizes and policies of the tables of each shard; [`Dataplane::start`](crate::Dataplane::start) sets its number and the time
    /// of construction.
    pub shard: ShardConfig,
    /// 64 KiB blocks of packet buffers of each worker.
    pub pool_blocks: u32,
    /// Kind of their pages. The workers of a NUMA node share its huge pages evenly.
    pub pool_pages: PagePreference,
    /// Limits of the faces of each worker together.
    pub faces: FaceSetOptions,
    /// Maximum number of faces on all workers.
    pub faces_max: usize,
    /// The workers: 1 to [`SHARDS_MAX`](ndn_table::SHARDS_MAX).
    pub workers: Vec<WorkerOptions>,
    /// Number of name components for dispatch, with several workers.
    pub dispatch_depth: usize,
    /// On-demand faces of UDP peers.
    pub on_demand: OnDemandOptions,
    /// Maximum time of polling after the last packet, before a worker sleeps.
    pub spin: Duration,
    /// Queue management of Interests.
    pub overload: OverloadOptions,
    /// A random number.
    pub nonce_seed: u64,
    /// Maximum time that an Interest is pending, whatever its lifetime.
    pub interest_lifetime_max: Duration,
    /// The same for Interests of on-demand peers.
    pub remote_lifetime_max: Duration,
    /// HopLimit added to Interests without one; 0 for none.
    pub default_hop_limit: u8,
    /// The clock of the workers.
    pub clock: Clock,
}

/// Options of one worker.
#[derive(Debug, Default)]
pub struct WorkerOptions {
    /// UDP sockets, and whether peers get on-demand faces. Every worker with faces has one for each address.
    pub channels: Vec<(UdpSocket, bool)>,
    /// The processor to pin its thread to; `None` leaves placement to the kernel.
    pub cpu: Option<usize>,
    /// The NUMA node of that processor.
    pub node: Option<usize>,
    /// Its roles.
    pub roles: Roles,
    /// The disk tier of its Content Store, if it has one.
    pub disk: Option<DiskPort>,
}

/// The roles of a worker. By default all; a dedicated worker has one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roles {
    /// Whether it has faces that peers and applications make: on-demand faces.
    pub clients: bool,
    /// Whether it has faces that the forwarder makes: configured, or by a management command.
    pub servers: bool,
    /// Forwards: has a shard of PIT and Content Store.
    pub forwards: bool,
}

impl Default for Roles {
    fn default() -> Self {
        Self { clients: true, servers: true, forwards: true }
    }
}

impl Roles {
    /// Faces and no names.
    pub const IO: Self = Self { clients: true, servers: true, forwards: false };
    /// Names and no faces.
    pub const FORWARDING: Self = Self { clients: false, servers: false, forwards: true };

    /// Whether it may have a face.
    #[must_use]
    pub fn has_faces(self) -> bool {
        self.clients || self.servers
    }
}

/// Options of on-demand faces of UDP peers.
#[derive(Debug, Clone, Copy)]
pub struct OnDemandOptions {
    /// Largest datagram, bytes.
    pub mtu: usize,
    /// Options of their link services.
    pub link: LinkOptions,
    /// Time without a packet after which they close.
    pub idle_timeout: Duration,
    /// When to send PIT tokens.
    pub pit_tokens: PitTokenPolicy,
    /// Maximum number of faces of one remote principal, on all workers together.
    pub per_peer_max: usize,
}

/// Why a data plane cannot start.
#[derive(Debug, thiserror::Error)]
pub enum DataplaneError {
    /// A system call failed.
    #[error("cannot start a worker: {0}")]
    Io(#[from] io::Error),
    /// There is no memory for packet buffers.
    #[error("cannot reserve packet buffers: {0}")]
    Pool(#[from] PoolError),
    /// The processor does not exist, or is not allowed to this process.
    #[error("cannot run a worker on CPU {cpu}: {error}")]
    Cpu {
        /// The processor.
        cpu: usize,
        /// The reason.
        error: io::Error,
    },
}

/// A face whose frames go through queues in this process, with FaceUri `memory://NUMBER`.
#[derive(Debug, Clone, Copy)]
pub struct MemoryFaceOptions {
    /// The number in the FaceUri, chosen by the embedding program.
    pub number: u64,
    /// Whether the other end is a local application.
    pub scope: Scope,
    /// Whether the other end distributes frames to several neighbours.
    pub link_type: LinkType,
    /// The principal that is charged for its packets; `None` for a principal of its own, of the class of neighbours.
    pub principal: Option<PrincipalKey>,
    /// When the face goes away. An on-demand face also closes when it is idle.
    pub persistency: Persistency,
    /// Maximum frame, bytes; longer packets are fragmented.
    pub mtu: usize,
    /// Maximum number of frames that wait in each direction; further ones are dropped and counted.
    pub queue_frames_max: usize,
}

impl MemoryFaceOptions {
    /// The face with one end of a pair. `ticket` and `face_id` are those of [`NewFace`].
    #[must_use]
    pub fn new_face(&self, ticket: Option<u64>, face_id: u64, end: InternalEnd) -> NewFace {
        let own = FaceProperties::point_to_point(face_id, self.scope);
        let principal = self.principal.unwrap_or(own.principal);
        let properties = FaceProperties { principal, link_type: self.link_type, ..own };
        NewFace {
            ticket,
            transport: end.into(),
            options: FaceOptions::datagram(properties, self.persistency, self.mtu),
            remote: FaceUri::memory(self.number),
            local: FaceUri::memory(self.number),
        }
    }
}
