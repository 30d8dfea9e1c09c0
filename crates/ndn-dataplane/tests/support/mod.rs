//! A data plane between real sockets, seen as the control thread sees it.
#![allow(clippy::unwrap_used, dead_code, missing_docs, reason = "test code, not all of it for all")]
#![allow(unreachable_pub, missing_debug_implementations, reason = "test code")]

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket as Peer};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use ndn_dataplane::{
    Command, Dataplane, DataplaneOptions, Event, FaceCreated, NewFace, OnDemandOptions,
    OverloadOptions, Roles, WorkerOptions,
};
use ndn_face::{FaceOptions, FaceSetOptions, LinkOptions, NewStream};
use ndn_forwarding::{
    FaceProperties, PitTokenPolicy, ShardConfig, StrategyTable, UnsolicitedPolicy,
};
use ndn_packet::{DataBuilder, InterestBuilder, Name, SignatureInfo, SignatureType};
use ndn_sys::clock::Clock;
use ndn_sys::poll::{Events, Interest, Poller};
use ndn_sys::udp::{UdpOptions, UdpSocket};
use ndn_table::{FaceIndex, FibConfig, FibWriter, NameHasher, NextHop, PcctConfig, StrategyId};
use ndn_types::{FaceUri, Persistency, Scope};

/// Time for which a test waits for the worker before it fails. An erasure waits for the disk, which may be slow beside others.
pub const TIMEOUT: Duration = Duration::from_secs(60);
pub const UDP_IDLE_TIMEOUT: Duration = Duration::from_secs(600);

pub struct Bed {
    pub dataplane: Dataplane,
    fib: FibWriter,
    pub poller: Poller,
}

impl Bed {
    pub fn new() -> Self {
        Self::with_faces_max(8)
    }

    pub fn with_faces_max(faces_max: usize) -> Self {
        Self::with_limits(faces_max, Duration::from_secs(3600))
    }

    pub fn with_limits(faces_max: usize, interest_lifetime_max: Duration) -> Self {
        Self::with_workers(1, faces_max, interest_lifetime_max)
    }

    /// A data plane with this number of workers, which share a UDP port.
    pub fn with_workers(count: usize, faces_max: usize, interest_lifetime_max: Duration) -> Self {
        Self::with_roles(&vec![Roles::default(); count], faces_max, interest_lifetime_max)
    }

    /// A worker for each of these.
    pub fn with_roles(roles: &[Roles], faces_max: usize, interest_lifetime_max: Duration) -> Self {
        Self::start(options(roles, faces_max, interest_lifetime_max))
    }

    /// Workers whose queue management neither marks nor refuses Interests, however slow the machine is.
    pub fn without_queue_management(count: usize) -> Self {
        let roles = vec![Roles::default(); count];
        let (mut options, fib, strategies) = options(&roles, 64, Duration::from_secs(3600));
        options.overload.mark_after = Duration::from_secs(3600);
        options.overload.shed_after = Duration::from_secs(3600);
        Self::start((options, fib, strategies))
    }

    pub fn start(
        (options, mut fib, strategies): (DataplaneOptions, FibWriter, StrategyTable),
    ) -> Self {
        let dataplane = Dataplane::start(options, fib.publish(), Arc::new(strategies)).unwrap();
        let poller = Poller::new().unwrap();
        poller.add(dataplane.event_waker(), 0, Interest::Readable).unwrap();
        Self { dataplane, fib, poller }
    }

    pub fn command(&mut self, command: Command) {
        self.dataplane.send(command);
        self.dataplane.wake();
    }

    /// The next event of the worker.
    pub fn event(&mut self) -> Event {
        let mut events = Events::with_capacity(1);
        let clock = real_clock();
        let deadline = clock.now() + TIMEOUT;
        loop {
            self.dataplane.event_waker().reset();
            if let Some(event) = self.dataplane.next_event().unwrap() {
                return event;
            }
            let left = deadline - clock.now();
            assert!(!left.is_zero(), "no event within {TIMEOUT:?}");
            // Returns earlier if a signal interrupts it.
            self.poller.wait(&mut events, Some(left)).unwrap();
        }
    }

    pub fn added(&mut self) -> FaceCreated {
        let mut event = self.event();
        // May come again at any time while peers are refused.
        while let Event::PeerRefused { .. } = event {
            event = self.event();
        }
        let Event::FaceAdded { face, .. } = event else { panic!("{event:?}") };
        *face
    }

    /// A face of a local application, and the application's end of it.
    pub fn application(&mut self) -> (FaceCreated, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        far.set_read_timeout(Some(TIMEOUT)).unwrap();
        let command = self.new_application(near);
        self.command(command);
        (self.added(), far)
    }

    /// The command that makes a face of the worker's end of a local application's connection.
    pub fn new_application(&self, near: UnixStream) -> Command {
        near.set_nonblocking(true).unwrap();
        let face_id = self.dataplane.allocate_face_id();
        let properties = FaceProperties::point_to_point(face_id, Scope::Local);
        Command::AddFace(Box::new(NewFace {
            ticket: Some(face_id),
            transport: NewStream::Plain(near.into()).into(),
            options: FaceOptions::stream(properties, Persistency::OnDemand),
            remote: FaceUri::null(),
            local: FaceUri::null(),
        }))
    }

    pub fn route(&mut self, prefix: &str, face: FaceIndex) {
        let prefix = Name::from_uri(prefix).unwrap();
        self.fib.set_next_hops(prefix.as_ref(), &[NextHop { face, cost: 1 }]).unwrap();
        let fib = self.fib.publish();
        self.command(Command::SetTables { fib, strategies: None });
        self.settle();
    }

    /// Waits until all workers have executed the commands that were sent.
    pub fn settle(&mut self) {
        let mut events = Events::with_capacity(1);
        while !self.dataplane.has_executed_all() {
            self.poller.wait(&mut events, Some(TIMEOUT)).unwrap();
            assert!(!events.is_empty(), "a worker does not carry out its commands");
            self.dataplane.event_waker().reset();
        }
    }

    pub fn erase(&mut self, prefix: &str, limit: usize) -> (usize, bool) {
        let prefix = Name::from_uri(prefix).unwrap();
        self.command(Command::EraseCs { ticket: 5, prefix, limit, is_whole_name: false });
        let event = self.event();
        let Event::CsErased { ticket: 5, erased, more } = event else { panic!("{event:?}") };
        (erased, more)
    }

    pub fn udp_address(&self) -> SocketAddr {
        self.dataplane.workers()[0].channels()[0].0
    }
}

/// A peer that sends and receives datagrams.
pub fn peer() -> Peer {
    let peer = Peer::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    peer.set_read_timeout(Some(TIMEOUT)).unwrap();
    peer
}

pub fn interest(uri: &str, nonce: u32) -> Vec<u8> {
    let name = Name::from_uri(uri).unwrap();
    InterestBuilder::new(&name).nonce(nonce).to_vec().unwrap()
}

pub fn data(uri: &str) -> Vec<u8> {
    let name = Name::from_uri(uri).unwrap();
    let info = SignatureInfo::new(SignatureType::DIGEST_SHA256);
    DataBuilder::new(&name)
        .content(&[7; 3000])
        .to_vec(&info, 32, |_, signature| {
            signature.fill(1);
            Some(32)
        })
        .unwrap()
}

pub fn expect(stream: &mut UnixStream, wire: &[u8]) {
    let mut bytes = vec![0; wire.len()];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes, wire);
}

/// A data plane with a worker for each of these roles, which share a UDP port.
pub fn options(
    roles: &[Roles],
    faces_max: usize,
    interest_lifetime_max: Duration,
) -> (DataplaneOptions, FibWriter, StrategyTable) {
    let count = roles.len();
    let hasher = NameHasher::new([7; 16]);
    let (strategies, default_strategy): (StrategyTable, StrategyId) =
        StrategyTable::with_best_route();
    let fib = FibWriter::new(&FibConfig { entries_max: 64, hasher, default_strategy });
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let options = UdpOptions { reuse_port: count > 1, ..UdpOptions::bound_to(local) };
    let first = UdpSocket::new(&options).unwrap();
    let options = UdpOptions { local: first.local_address().unwrap(), ..options };
    let others = (1..count).map(|_| UdpSocket::new(&options).unwrap());
    let sockets: Vec<UdpSocket> = others.chain([first]).collect();
    let workers = sockets.into_iter().zip(roles).map(|(socket, &roles)| {
        let channels = if roles.has_faces() { vec![(socket, true)] } else { Vec::new() };
        WorkerOptions { channels, roles, ..WorkerOptions::default() }
    });
    let now = real_clock().now();
    let options = DataplaneOptions {
        shard: ShardConfig {
            shard: 0,
            hasher,
            pcct: PcctConfig::with_capacity(8192, 1024, now),
            dead_nonce_lifetime_ms: 6000,
            dead_nonce_capacity: 512,
            strategy_timer_capacity: 256,
            unsolicited: UnsolicitedPolicy::DropAll,
        },
        pool_blocks: 64,
        pool_pages: ndn_ring::PagePreference::Best,
        faces: FaceSetOptions::default(),
        faces_max,
        workers: workers.collect(),
        dispatch_depth: 2,
        on_demand: OnDemandOptions {
            mtu: 8800,
            link: LinkOptions::datagram(8800),
            idle_timeout: UDP_IDLE_TIMEOUT,
            pit_tokens: PitTokenPolicy::Never,
            per_peer_max: 100,
        },
        spin: Duration::ZERO,
        overload: OverloadOptions::default(),
        nonce_seed: 1,
        interest_lifetime_max,
        remote_lifetime_max: interest_lifetime_max,
        default_hop_limit: 0,
        clock: real_clock(),
    };
    (options, fib, strategies)
}

/// The clock of the kernel, on which the threads of workers wait.
#[expect(clippy::disallowed_methods, reason = "workers with threads run in real time")]
pub fn real_clock() -> Clock {
    Clock::system()
}
