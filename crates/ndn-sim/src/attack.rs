//! Random attacks of few principals on one forwarder.
//!
//! The attacker has one address or several, or is one user of this host or several, and has many ports. A seed
//! determines what it sends: floods of Interests of any kind, unsolicited Data and Nacks, signed commands, fragments,
//! valid requests to management if it is a user, and ports that close and open; and when time passes or its Interests
//! are answered. After each move, bystanders that stay below their shares exchange packets of all kinds, and management
//! answers an application among them; at the end, everything is given back.

use std::collections::BTreeSet;
use std::fmt;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use namewire_config::TrustRules;
use namewire_daemon::{Environment, Management, Seeds, SteppedForwarder};
use ndn_dataplane::{MemoryFaceOptions, SteppedWorker};
use ndn_face::InternalEnd;
use ndn_forwarding::InterestAccount;
use ndn_management::client::CommandBuilder;
use ndn_management::{ControlParameters, ControlResponse, Dataset, Verb, route_flag};
use ndn_packet::{
    Data, DataBuilder, InterestBuilder, KeyLocator, LpHeader, LpPacket, NackReason, Name, NameRef,
    SignatureInfo, SignatureType,
};
use ndn_sys::clock::ManualClock;
use ndn_table::Resource;
use ndn_types::{LinkType, Persistency, PrincipalKey, Resources as _, Scope, Timestamp};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::forwarder::{CLOCK_ORIGIN, UNIX_ORIGIN, config};
use crate::monitor::Seen;
use crate::node::NodeSpec;
use crate::requests::{Wish, command, list, named, strategy};
use crate::simulation::{Failure, data};

/// Moves of an attack.
const MOVES: usize = 10;
/// Frames that a face queues each way.
const FACE_QUEUE: usize = 512;
/// Faces of a strategy that sends to all next hops.
const UPSTREAMS: usize = 4;
/// Prefixes for which each bystander makes ASF measure: far more than shards, so that each shard knows the next hops.
const LEARNT_PREFIXES: u32 = 64;
/// Times that it does so, and the time between two: longer than an Interest is pending.
const LEARNING_ROUNDS: u32 = 5;
const LEARNING_INTERVAL: Duration = Duration::from_secs(5);
/// Holding of each bystander during the attack, in percent of each table, if there is one attacker: a third of its
/// share. With more, it is less.
const HELD_PERCENT: usize = 4;
/// Addresses of the attacker at most, and the smallest PIT in which the shares of ten are of use.
const ADDRESSES_MAX: usize = 10;
const PIT_OF_MANY_MIN: usize = 6000;
/// User ID of the first attacker.
const FIRST_USER: u32 = 2000;
/// The bystander that is an application.
const APPLICATION: usize = 1;
/// Places of the FIB for each attacker, so that each of them can take half of what is left.
const FIB_PER_ATTACKER: usize = 1024;
/// Requests of users that wait for management before each request of the application.
const REQUESTS_AHEAD: usize = 100;
/// Requests of users that wait for management at a time: of more, many would be dropped before it.
const REQUESTS_AT_ONCE: usize = 100;
/// In one of this number of attacks, the first series of requests is sent at once.
const BURST_SEEDS: u64 = 4;
/// Rules by which no certificate is trusted: each signed command waits for one.
const COMMAND_RULES: &str = "rule { id rib for interest checker { type customized \
    key-locator { type name regex ^<>*<KEY><>{1,3}$ } } }\n\
    rule { id certificates for data checker { type hierarchical } }";
/// Of the exchanges of bystanders, this part has to succeed, in percent.
const SERVICE_PERCENT: u64 = 99;
/// Longer than any Interest of a remote peer is pending.
const REST: Duration = Duration::from_secs(70);
/// Steps after which a forwarder that still works has a livelock.
const STEPS_MAX: usize = 20_000;

/// A fault that is planted in the forwarder, to verify that attacks find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttackFault {
    /// A table is first come, first served.
    Unshared(Resource),
    /// A place of a table is charged and never given back.
    Leaked(Resource),
    /// Routes are first come, first served.
    UnsharedRoutes,
    /// A route is charged and never given back.
    LeakedRoute,
    /// A place of a table is charged, and given back when the ports of the attacker close.
    HeldUntilClosed,
}

impl AttackFault {
    /// All of them.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let kinds = [Self::Unshared as fn(Resource) -> Self, Self::Leaked];
        let of_tables = kinds.into_iter().flat_map(|kind| Resource::ALL.map(kind));
        of_tables.chain([Self::UnsharedRoutes, Self::LeakedRoute, Self::HeldUntilClosed]).collect()
    }
}

impl fmt::Display for AttackFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unshared(resource) => write!(formatter, "unshared-{}", resource.name()),
            Self::Leaked(resource) => write!(formatter, "leaked-{}", resource.name()),
            Self::UnsharedRoutes => formatter.write_str("unshared-routes"),
            Self::LeakedRoute => formatter.write_str("leaked-route"),
            Self::HeldUntilClosed => formatter.write_str("held-until-closed"),
        }
    }
}

impl FromStr for AttackFault {
    type Err = String;

    /// Reads a name as written by `Display`.
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::all().into_iter().find(|fault| fault.to_string() == text);
        found.ok_or_else(|| {
            let names: Vec<_> = Self::all().iter().map(Self::to_string).collect();
            format!("`{text}` is none of {}", names.join(", "))
        })
    }
}

/// Where the Interests of a flood lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// To an upstream that does not answer.
    Hole,
    /// To several upstreams at once that do not answer.
    All,
    /// To a producer that answers.
    Producer,
    /// To the producer, for names that bystanders are going to ask for.
    Next,
    /// To the hole, with names of one component.
    Root,
    /// To next hops that ASF measures, under the prefix that bystanders use next. The cheaper one does not answer.
    Measured,
}

/// Interests of all ports in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flood {
    /// Number of Interests.
    pub count: usize,
    /// Where they lead.
    pub target: Target,
    /// The number of different names; with few, ports join the Interests of others.
    pub names: usize,
    /// Additional bytes of each name.
    pub length: usize,
    /// Bytes of the PIT token.
    pub token: usize,
    /// InterestLifetime, ms.
    pub lifetime_ms: u64,
    /// CanBePrefix.
    pub can_be_prefix: bool,
    /// MustBeFresh.
    pub must_be_fresh: bool,
    /// All have the same Nonce.
    pub has_one_nonce: bool,
    /// A ForwardingHint leads them to the hole, whatever their names.
    pub has_hint: bool,
}

/// Valid requests of a user to management.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserRequests {
    /// The purpose of all of them.
    pub wish: Wish,
    /// Number of requests.
    pub count: usize,
    /// The number of different names.
    pub names: usize,
    /// Additional bytes of each name.
    pub length: usize,
    /// It takes everything back.
    pub is_taken_back: bool,
}

/// A move of the attacker, or of the network while it attacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// It sends Interests.
    Flood(Flood),
    /// It sends fragments.
    Fragments {
        /// Number of fragments.
        count: usize,
        /// Bytes of each.
        length: usize,
        /// FragCount. With 2, all are first fragments; else any, of messages that are never complete.
        parts: u64,
    },
    /// It sends Data.
    Data {
        /// Number of Data.
        count: usize,
        /// Bytes of the Content.
        length: usize,
        /// They answer Interests of its other ports; else nobody has asked for them.
        is_asked_for: bool,
    },
    /// It sends Nacks, of Interests that bystanders wait for, that its own ports wait for, or that there are not.
    Nacks(usize),
    /// It sends registrations with signatures that cannot be verified.
    Commands {
        /// Number of commands.
        count: usize,
        /// Number of keys.
        keys: usize,
    },
    /// It sends valid requests to management.
    Requests(UserRequests),
    /// It closes this number of ports, and opens as many.
    Churn(usize),
    /// The upstream answers its Interests but one of this number.
    AnswerAllBut(usize),
    /// Time passes.
    Wait(Duration),
}

/// An attack, determined by its seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attack {
    /// The seed that it was made of.
    pub seed: u64,
    /// Forwarding workers.
    pub workers: usize,
    /// Capacity of the PIT, in entries.
    pub pit_capacity: usize,
    /// Addresses of the attacker, or users.
    pub addresses: usize,
    /// The attacker is users of this host, whose ports are applications.
    pub are_users: bool,
    /// Ports of the attacker, of all addresses in turn.
    pub ports: usize,
    /// The moves; `None` where shrinking has removed one.
    pub moves: Vec<Option<Move>>,
}

/// Result of an attack without a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AttackOutcome {
    /// Frames of the attacker that the forwarder took.
    pub frames: u64,
    /// Exchanges of bystanders, and how many of them succeeded.
    pub exchanges: u64,
    /// Those that succeeded.
    pub served: u64,
    /// Interests that were refused or evicted.
    pub refused: u64,
    /// Interests of management for certificates of the attacker.
    pub certificates: u64,
    /// Valid requests of users to management.
    pub requests: u64,
}

impl AttackOutcome {
    /// Takes in that of another attack.
    pub fn add(&mut self, other: Self) {
        self.frames += other.frames;
        self.exchanges += other.exchanges;
        self.served += other.served;
        self.refused += other.refused;
        self.certificates += other.certificates;
        self.requests += other.requests;
    }
}

impl Attack {
    /// The attack of a seed.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        // The largest has room for more short-prefix Interests than their table.
        let pit_capacity = [400, 1500, 6000, 20_000][random.random_range(0..4)];
        let are_users = random.random_bool(0.5);
        let random_move = |_| Some(random_move(pit_capacity, are_users, &mut random));
        let moves = (0..MOVES).map(random_move).collect();
        Self {
            seed,
            workers: random.random_range(1..=3),
            pit_capacity,
            addresses: match random.random_range(0..3) {
                0 if pit_capacity >= PIT_OF_MANY_MIN => random.random_range(2..=ADDRESSES_MAX),
                _ => 1,
            },
            are_users,
            ports: random.random_range(1..=60),
            moves,
        }
    }

    /// The numbers of its moves.
    #[must_use]
    pub fn elements(&self) -> Vec<usize> {
        (0..self.moves.len()).filter(|&number| self.moves[number].is_some()).collect()
    }

    /// The attack without some of its moves.
    #[must_use]
    pub fn without(&self, removed: &[usize]) -> Self {
        let mut attack = self.clone();
        removed.iter().for_each(|&number| attack.moves[number] = None);
        attack
    }

    /// Runs the attack against a forwarder, with a planted fault if there is one.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn run(&self, fault: Option<AttackFault>) -> Result<AttackOutcome, Failure> {
        let mut field = match Field::new(self, fault) {
            Ok(field) => field,
            Err(error) => return Err(failure(Duration::ZERO, format!("no start: {error:#}"))),
        };
        let result = field.attack(self);
        result.map_err(|reason| failure(field.elapsed, reason))
    }

    /// Leaves out the moves that the failure does not need. `None` if the attack does not fail.
    #[must_use]
    pub fn shrink(&self, fault: Option<AttackFault>) -> Option<(Self, Failure)> {
        let mut failure = self.run(fault).err()?;
        let mut smallest = self.clone();
        for number in self.elements() {
            let candidate = smallest.without(&[number]);
            if let Err(other) = candidate.run(fault) {
                (smallest, failure) = (candidate, other);
            }
        }
        Some((smallest, failure))
    }
}

fn failure(at: Duration, reason: String) -> Failure {
    Failure { at, node: None, reason, recent: Vec::new() }
}

fn random_move(pit_capacity: usize, are_users: bool, random: &mut StdRng) -> Move {
    if are_users && random.random_bool(0.4) {
        return Move::Requests(random_requests(random));
    }
    match random.random_range(0..13) {
        0 => Move::Fragments {
            count: random.random_range(1..2000),
            length: [100, 1400, 8000][random.random_range(0..3)],
            parts: [2, 2, 3, 10][random.random_range(0..4)],
        },
        1 => Move::Churn(random.random_range(1..40)),
        2 => Move::AnswerAllBut([1, 3, 50, 500][random.random_range(0..4)]),
        3 => Move::Wait(Duration::from_millis(random.random_range(1..8000))),
        4 => Move::Data {
            count: random.random_range(1..3000),
            length: [0, 100, 8000][random.random_range(0..3)],
            is_asked_for: random.random_bool(0.5),
        },
        5 => Move::Nacks(random.random_range(1..3000)),
        6 => Move::Commands {
            count: random.random_range(1..600),
            keys: [1, 10, 600][random.random_range(0..3)],
        },
        _ => Move::Flood(random_flood(pit_capacity, random)),
    }
}

fn random_requests(random: &mut StdRng) -> UserRequests {
    let count = random.random_range(1..1500);
    UserRequests {
        wish: Wish::ALL[random.random_range(0..Wish::ALL.len())],
        count,
        names: [1, 10, count, count][random.random_range(0..4)],
        length: [0, 0, 300, 3000][random.random_range(0..4)],
        is_taken_back: random.random_bool(0.3),
    }
}

fn random_flood(pit_capacity: usize, random: &mut StdRng) -> Flood {
    let targets = [
        Target::Hole,
        Target::Hole,
        Target::All,
        Target::Producer,
        Target::Next,
        Target::Root,
        Target::Measured,
        Target::Measured,
    ];
    let length = match random.random_range(0..4) {
        0 | 1 => 0,
        2 => random.random_range(0..400),
        _ => random.random_range(0..7500),
    };
    let most = if length > 400 { pit_capacity / 2 } else { (pit_capacity * 3 / 2).max(3000) };
    let count = random.random_range(most / 4..=most.min(20_000));
    let target = targets[random.random_range(0..targets.len())];
    let is_root = target == Target::Root;
    Flood {
        count,
        target,
        names: [1, 10, count / 10 + 1, count][if is_root { 3 } else { random.random_range(0..4) }],
        length,
        token: [0, 4, 20, 32][random.random_range(0..4)],
        lifetime_ms: [1, 100, 4000, 60_000, 3_600_000][random.random_range(0..5)],
        can_be_prefix: is_root || random.random_bool(0.3),
        must_be_fresh: random.random_bool(0.2),
        has_one_nonce: random.random_bool(0.05),
        // Retransmission suppression of other strategies counts Interests with another hint, too.
        has_hint: target == Target::Measured && random.random_bool(0.7),
    }
}

/// The other end of a face.
#[derive(Debug)]
struct Port {
    face_id: u64,
    end: InternalEnd,
}

impl Port {
    fn receive(&mut self) -> Option<Seen> {
        Seen::parse(&self.end.receive()?)
    }

    fn drain(&mut self) {
        while self.end.receive().is_some() {}
    }
}

/// A forwarder, the attacker and the others.
#[derive(Debug)]
struct Field {
    forwarder: SteppedForwarder,
    clock: ManualClock,
    elapsed: Duration,
    fault: Option<AttackFault>,
    addresses: usize,
    are_users: bool,
    attackers: Vec<Port>,
    /// Ports of the attacker that were opened.
    opened: usize,
    /// A peer with another address, an application, a neighbour.
    bystanders: Vec<Port>,
    producer: Port,
    /// Takes Interests; see [`Move::AnswerAllBut`].
    hole: Port,
    /// Frames that the hole has taken, those of the attacker only.
    unanswered: Vec<Name>,
    /// Takes Interests of the bystanders until the end.
    slow: Port,
    slow_names: Vec<Name>,
    /// The cheaper next hop of [`Target::Measured`].
    dead: Port,
    upstreams: Vec<Port>,
    /// Interests of the bystanders that came to [`Self::upstreams`].
    upstream_arrivals: usize,
    faces: u64,
    nonce: u32,
    round: u32,
    /// The first exchange that failed in this round.
    first_failed: Option<String>,
    /// The last requests of the users, which they repeat.
    repeated: Option<UserRequests>,
    /// The next series of requests is sent at once, without regard to what is dropped.
    is_burst_next: bool,
    /// Prefixes for which users may have chosen strategies. These stay when the face of the user closes.
    chosen: BTreeSet<Name>,
    outcome: AttackOutcome,
}

fn remote(number: u8) -> PrincipalKey {
    PrincipalKey::remote((Ipv4Addr::new(192, 0, 2, number), 6363).into())
}

/// The principal of a port of the attacker, and its scope.
fn attacker(port: usize, addresses: usize, are_users: bool) -> (Scope, PrincipalKey) {
    let number = u8::try_from(port % addresses.max(1)).unwrap_or_default();
    if are_users {
        let (uid, pid) = (FIRST_USER + u32::from(number), 1 + u32::from(number));
        return (Scope::Local, PrincipalKey::LocalApplication { uid, pid });
    }
    let address = Ipv4Addr::new(198, 51, 100, number);
    (Scope::NonLocal, PrincipalKey::remote((address, 6363).into()))
}

fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap_or_default()
}

impl Field {
    fn new(attack: &Attack, fault: Option<AttackFault>) -> anyhow::Result<Self> {
        let clock = ManualClock::new(Timestamp::ZERO + CLOCK_ORIGIN, UNIX_ORIGIN);
        let seeds = Seeds::from_number(attack.seed);
        let environment = Environment { clock: clock.clone().into(), seeds };
        let spec = NodeSpec {
            number: 0,
            workers: attack.workers,
            cs_capacity: 0,
            pit_capacity: attack.pit_capacity,
            ports: Vec::new(),
            has_signed_commands: false,
            seed: attack.seed,
        };
        let mut config = config(&spec);
        config.management.localhop_rib =
            TrustRules::Inline { text: COMMAND_RULES.to_owned(), directory: PathBuf::new() };
        config.tables.fib_capacity = FIB_PER_ATTACKER * attack.addresses;
        let mut forwarder = SteppedForwarder::new(&config, &environment)?;
        forwarder.shuffle_steps(attack.seed);
        let mut faces = 0;
        let mut add = |scope, principal| add_face(&mut forwarder, &mut faces, scope, principal);
        let attackers = (0..attack.ports).map(|port| {
            let (scope, principal) = attacker(port, attack.addresses, attack.are_users);
            add(scope, Some(principal))
        });
        let attackers = attackers.collect::<anyhow::Result<_>>()?;
        let application = PrincipalKey::LocalApplication { uid: 1000, pid: 7 };
        let bystanders = vec![
            add(Scope::NonLocal, Some(remote(2)))?,
            add(Scope::Local, Some(application))?,
            add(Scope::NonLocal, None)?,
        ];
        let mut neighbour = || add(Scope::NonLocal, None);
        let [producer, hole, slow, dead] = [neighbour()?, neighbour()?, neighbour()?, neighbour()?];
        let upstreams: Vec<_> =
            (0..UPSTREAMS).map(|_| add(Scope::NonLocal, None)).collect::<anyhow::Result<_>>()?;
        let routes = [
            ("/good", &producer, 0),
            ("/slow", &slow, 0),
            ("/", &hole, 0),
            ("/asf", &producer, 10),
        ];
        for (prefix, port, cost) in routes {
            forwarder.add_route(&name(prefix), port.face_id, cost)?;
        }
        // The hole would be a next hop otherwise, and the best one once it has answered the attacker: see `AnswerAllBut`.
        let capture = ControlParameters {
            name: Some(name("/asf")),
            face_id: Some(dead.face_id),
            flags: Some(route_flag::CHILD_INHERIT | route_flag::CAPTURE),
            ..ControlParameters::default()
        };
        forwarder.command(Verb::RibRegister, &capture)?;
        forwarder.set_strategy(&name("/asf"), &name("/localhost/nfd/strategy/asf"))?;
        for port in &upstreams {
            forwarder.add_route(&name("/all"), port.face_id, 0)?;
        }
        forwarder.set_strategy(&name("/all"), &name("/localhost/nfd/strategy/multicast"))?;
        let mut field = Self {
            forwarder,
            clock,
            elapsed: Duration::ZERO,
            fault,
            addresses: attack.addresses,
            are_users: attack.are_users,
            attackers,
            opened: attack.ports,
            bystanders,
            producer,
            hole,
            unanswered: Vec::new(),
            slow,
            slow_names: Vec::new(),
            dead,
            upstreams,
            upstream_arrivals: 0,
            faces,
            nonce: 0,
            round: 0,
            first_failed: None,
            repeated: None,
            is_burst_next: attack.seed.is_multiple_of(BURST_SEEDS),
            chosen: BTreeSet::new(),
            outcome: AttackOutcome::default(),
        };
        field.plant();
        Ok(field)
    }

    fn plant(&mut self) {
        let workers = self.forwarder.workers_mut().iter_mut();
        match self.fault {
            None => {}
            Some(AttackFault::Unshared(resource)) => {
                workers.for_each(|worker: &mut SteppedWorker| worker.stop_sharing(resource));
            }
            Some(AttackFault::Leaked(resource)) => {
                workers.for_each(|worker: &mut SteppedWorker| worker.leak_charge(resource));
            }
            Some(AttackFault::UnsharedRoutes) => self.forwarder.stop_sharing_routes(),
            Some(AttackFault::LeakedRoute) => self.forwarder.leak_route(),
            Some(AttackFault::HeldUntilClosed) => {
                workers.for_each(|worker: &mut SteppedWorker| worker.leak_charge(Resource::ALL[0]));
            }
        }
    }

    fn attack(&mut self, attack: &Attack) -> Result<AttackOutcome, String> {
        self.learn()?;
        self.hold(attack)?;
        self.serve("before the attack")?;
        for (number, of_attack) in attack.moves.iter().enumerate() {
            let Some(of_attack) = of_attack else { continue };
            self.make_move(of_attack)?;
            self.serve(&format!("after move {number}, {of_attack:?}"))?;
        }
        self.release()?;
        self.check_service()?;
        self.rest()?;
        let counters = self.forwarder.counters();
        let account = InterestAccount::of(&counters);
        self.outcome.refused = account.refused + account.evicted;
        Ok(self.outcome)
    }

    /// The bystanders make ASF measure that the cheaper next hop of a prefix does not answer.
    fn learn(&mut self) -> Result<(), String> {
        for round in 0..LEARNING_ROUNDS {
            for prefix in 0..LEARNT_PREFIXES {
                for bystander in 0..self.bystanders.len() {
                    let uri = format!("/asf/learnt-{prefix}/{bystander}/{round}");
                    let wire = self.interest(&uri, 4000, false, false);
                    self.bystanders[bystander].end.send(wire).map_err(|_| "no room to learn")?;
                }
                self.settle()?;
            }
            self.wait(LEARNING_INTERVAL)?;
            self.bystanders.iter_mut().for_each(Port::drain);
        }
        Ok(())
    }

    /// The bystanders have pending Interests, less than their shares, for all of the attack.
    fn hold(&mut self, attack: &Attack) -> Result<(), String> {
        // The attackers and five others divide the tables.
        let held = attack.pit_capacity * HELD_PERCENT * 6 / (attack.addresses + 5) / 100;
        for number in 0..held {
            for bystander in 0..self.bystanders.len() {
                let uri = format!("/slow/{bystander}/{number}");
                let wire = self.interest(&uri, 60_000, false, false);
                self.bystanders[bystander].end.send(wire).map_err(|_| "no room to hold")?;
            }
            self.settle()?;
        }
        Ok(())
    }

    /// The Interests that the bystanders hold are answered.
    fn release(&mut self) -> Result<(), String> {
        for name in std::mem::take(&mut self.slow_names) {
            self.outcome.exchanges += 1;
            let _ = self.slow.end.send(data(&name, None, None));
            self.settle()?;
            let served = self.bystanders.iter_mut().filter_map(|port| {
                matches!(port.receive(), Some(Seen::Data(data)) if data.name == name).then_some(())
            });
            self.outcome.served += served.count() as u64;
        }
        Ok(())
    }

    fn interest(&mut self, uri: &str, lifetime_ms: u64, prefix: bool, fresh: bool) -> Vec<u8> {
        self.interest_by(&[], uri, lifetime_ms, prefix, fresh)
    }

    /// An Interest with a ForwardingHint.
    fn interest_by(
        &mut self,
        hint: &[NameRef<'_>],
        uri: &str,
        lifetime_ms: u64,
        prefix: bool,
        fresh: bool,
    ) -> Vec<u8> {
        self.nonce += 1;
        let name = name(uri);
        let builder = InterestBuilder::new(&name).nonce(self.nonce).lifetime_ms(lifetime_ms);
        let builder = builder.forwarding_hint(hint);
        builder.can_be_prefix(prefix).must_be_fresh(fresh).to_vec().unwrap_or_default()
    }

    fn make_move(&mut self, of_attack: &Move) -> Result<(), String> {
        match *of_attack {
            Move::Flood(flood) => self.flood(&flood),
            Move::Fragments { count, length, parts } => self.send_fragments(count, length, parts),
            Move::Data { count, length, is_asked_for } => {
                self.send_data(count, length, is_asked_for)
            }
            Move::Nacks(count) => self.send_nacks(count),
            Move::Commands { count, keys } => self.send_commands(count, keys),
            Move::Requests(requests) => self.send_requests(&requests),
            Move::Churn(count) => self.churn(count),
            Move::AnswerAllBut(number) => self.answer_all_but(number),
            Move::Wait(time) => self.wait(time),
        }
    }

    fn flood(&mut self, flood: &Flood) -> Result<(), String> {
        let filler = "x".repeat(flood.length);
        let (one_nonce, round) = (self.nonce + 1, self.round);
        let hole = name("/hole");
        let hints = [hole.as_ref()];
        let hint = if flood.has_hint { &hints[..] } else { &[] };
        for number in 0..flood.count {
            let serial = number % flood.names.max(1);
            let uri = match flood.target {
                Target::Hole => format!("/hole/{round}/{serial}/{filler}"),
                Target::All => format!("/all/{round}/{serial}/{filler}"),
                Target::Producer => format!("/good/attack/{round}/{serial}/{filler}"),
                Target::Next => format!("/good/{}/{}/0/{}", round + 1, serial % 3, serial / 3),
                Target::Root => format!("/r{round}-{serial}"),
                Target::Measured => {
                    format!("/asf/{}/{serial}/{filler}", round + u32::from(serial % 2 == 1))
                }
            };
            if flood.has_one_nonce {
                self.nonce = one_nonce;
            }
            let Flood { lifetime_ms, can_be_prefix, must_be_fresh, .. } = *flood;
            let wire = self.interest_by(hint, &uri, lifetime_ms, can_be_prefix, must_be_fresh);
            let port = number % self.attackers.len();
            self.send_attack(port, with_token(&wire, flood.token))?;
            // The link to the producer is no resource of the forwarder: its queue does not overflow.
            let of_producer = [Target::Producer, Target::Next, Target::Measured];
            let is_answered = of_producer.contains(&flood.target);
            if is_answered && number % (FACE_QUEUE / 2) == 0 {
                self.settle()?;
            }
        }
        self.settle()
    }

    fn send_attack(&mut self, port: usize, frame: Vec<u8>) -> Result<(), String> {
        if let Err(frame) = self.attackers[port].end.send(frame) {
            self.settle()?;
            let sent = self.attackers[port].end.send(frame);
            self.outcome.frames += u64::from(sent.is_ok());
        } else {
            self.outcome.frames += 1;
        }
        Ok(())
    }

    fn send_fragments(&mut self, count: usize, length: usize, parts: u64) -> Result<(), String> {
        let payload = vec![6; length];
        for number in 0..count {
            self.nonce += 1;
            // The first one of each message is missing, or all others are.
            let index = if parts == 2 { 0 } else { 1 + number as u64 % (parts - 1) };
            let sequence = u64::from(self.nonce) * 1000 + index;
            let frame = fragment(sequence, index, parts, &payload);
            self.send_attack(number % self.attackers.len(), frame)?;
        }
        self.settle()
    }

    fn send_data(&mut self, count: usize, length: usize, is_asked: bool) -> Result<(), String> {
        let (round, content) = (self.round, vec![8; length]);
        for number in 0..count {
            let port = number % self.attackers.len();
            let name = name(&format!("/hole/data/{round}/{number}"));
            if is_asked {
                let wire = self.interest(&name.to_uri(), 4000, false, false);
                self.send_attack((port + 1) % self.attackers.len(), wire)?;
                if number % FACE_QUEUE == 0 {
                    self.settle()?;
                }
            }
            let info = SignatureInfo::new(SignatureType::DIGEST_SHA256);
            let builder = DataBuilder::new(&name).content(&content).freshness_ms(3_600_000);
            let wire = builder.to_vec(&info, ndn_security::SHA256_LEN, |_, signature| {
                signature.fill(9);
                Some(signature.len())
            });
            self.send_attack(port, wire.unwrap_or_default())?;
        }
        self.settle()
    }

    fn send_nacks(&mut self, count: usize) -> Result<(), String> {
        let reasons = [NackReason::CONGESTION, NackReason::DUPLICATE, NackReason::NO_ROUTE];
        for number in 0..count {
            let uri = match number % 3 {
                0 => format!("/slow/{}/{}", number / 3 % 3, number / 9),
                1 => format!("/hole/{}/{}/", self.round, number / 3),
                _ => format!("/nowhere/{number}"),
            };
            let wire = self.interest(&uri, 4000, false, false);
            let reason = reasons[number / 3 % reasons.len()];
            let header = LpHeader { nack: Some(reason), ..LpHeader::default() };
            let mut frame = Vec::new();
            ndn_packet::lp::append_packet(&mut frame, &header, &wire);
            self.send_attack(number % self.attackers.len(), frame)?;
        }
        self.settle()
    }

    fn send_commands(&mut self, count: usize, keys: usize) -> Result<(), String> {
        let builder = CommandBuilder::new(name("/localhop/nfd"));
        for number in 0..count {
            self.nonce += 1;
            let key = name(&format!("/attacker/{}/KEY/k", number % keys));
            let unix = self.clock.unix_time();
            let nonce = self.nonce.to_be_bytes();
            let info = SignatureInfo {
                key_locator: Some(KeyLocator::Name(key.as_ref())),
                nonce: Some(&nonce),
                time_ms: u64::try_from(unix.as_millis()).ok(),
                ..SignatureInfo::new(SignatureType::SHA256_WITH_ECDSA)
            };
            let parameters =
                ControlParameters { name: Some(name("/good")), ..ControlParameters::default() };
            let sign = |_: &[&[u8]], signature: &mut [u8]| {
                signature.fill(3);
                Some(signature.len())
            };
            let verb = Verb::RibRegister;
            let wire = builder.signed_interest(verb, &parameters, self.nonce, &info, 71, sign);
            self.send_attack(number % self.attackers.len(), wire.unwrap_or_default())?;
        }
        self.settle()
    }

    /// The number and the time of the next request.
    fn stamp(&mut self) -> (u64, u64) {
        self.nonce += 1;
        (u64::from(self.nonce), u64::try_from(self.clock.unix_time().as_millis()).unwrap_or(0))
    }

    fn send_requests(&mut self, requests: &UserRequests) -> Result<(), String> {
        let UserRequests { wish, count, names, length, is_taken_back } = *requests;
        let filler = "u".repeat(length);
        let prefix = |round, serial: usize| name(&format!("/user/{round}/{serial}/{filler}"));
        let round = self.round;
        let is_burst = std::mem::take(&mut self.is_burst_next);
        for number in 0..count {
            let prefix = prefix(round, number % names.max(1));
            if wish == Wish::Strategies {
                self.chosen.insert(prefix.clone());
            }
            let (serial, unix_ms) = self.stamp();
            let request = wish.request(&prefix, serial, unix_ms);
            self.send_request(number, request, is_burst)?;
            self.outcome.requests += 1;
        }
        self.settle()?;
        for number in (0..count).filter(|_| is_taken_back) {
            let (serial, unix_ms) = self.stamp();
            let prefix = prefix(round, number % names.max(1));
            let Some(withdrawal) = wish.withdrawal(&prefix, serial, unix_ms) else { break };
            self.send_request(number, withdrawal, is_burst)?;
        }
        self.repeated = Some(*requests);
        self.settle()
    }

    /// Sends a request of a series; unless this is a burst, after the earlier ones have reached management.
    fn send_request(
        &mut self,
        number: usize,
        request: Vec<u8>,
        is_burst: bool,
    ) -> Result<(), String> {
        if !is_burst && number.is_multiple_of(REQUESTS_AT_ONCE) {
            self.settle()?;
        }
        self.send_attack(number % self.attackers.len(), request)
    }

    /// The users repeat their last requests; the forwarder has not taken them yet.
    fn repeat_requests(&mut self) {
        let Some(UserRequests { wish, length, .. }) = self.repeated else { return };
        for number in 0..REQUESTS_AHEAD {
            let (serial, unix_ms) = self.stamp();
            let uri = format!("/user/again/{}/{}", number % 10, "u".repeat(length));
            let prefix = name(&uri);
            if wish == Wish::Strategies {
                self.chosen.insert(prefix.clone());
            }
            let port = number % self.attackers.len();
            let _ = self.attackers[port].end.send(wish.request(&prefix, serial, unix_ms));
            self.outcome.requests += 1;
        }
    }

    fn churn(&mut self, count: usize) -> Result<(), String> {
        for _ in 0..count.min(self.attackers.len()) {
            let closed = self.attackers.remove(0);
            let destroyed = self.forwarder.destroy_face(closed.face_id);
            destroyed.map_err(|error| format!("management: {error}"))?;
            let (forwarder, faces) = (&mut self.forwarder, &mut self.faces);
            let (scope, principal) = attacker(self.opened, self.addresses, self.are_users);
            self.opened += 1;
            let opened = add_face(forwarder, faces, scope, Some(principal));
            self.attackers.push(opened.map_err(|error| format!("no face: {error:#}"))?);
        }
        self.settle()
    }

    fn answer_all_but(&mut self, number: usize) -> Result<(), String> {
        for (position, name) in std::mem::take(&mut self.unanswered).into_iter().enumerate() {
            if position.is_multiple_of(number) {
                continue;
            }
            if self.hole.end.send(data(&name, None, None)).is_err() {
                self.settle()?;
            }
        }
        self.settle()
    }

    fn wait(&mut self, time: Duration) -> Result<(), String> {
        let end = self.elapsed + time;
        while self.elapsed < end {
            let step = Duration::from_millis(250).min(end - self.elapsed);
            self.clock.advance(step);
            self.elapsed += step;
            self.settle()?;
        }
        Ok(())
    }

    /// Steps until the forwarder has nothing left to do at this time.
    fn settle(&mut self) -> Result<(), String> {
        for _ in 0..STEPS_MAX {
            self.attackers.iter_mut().for_each(Port::drain);
            self.take_attacks();
            let is_active = self.answer_bystanders();
            let has_worked = self.forwarder.step().map_err(|error| format!("{error:#}"))?;
            if !has_worked && !is_active {
                return Ok(());
            }
        }
        Err(format!("is not done after {STEPS_MAX} steps at one instant"))
    }

    fn take_attacks(&mut self) {
        let keys = name("/attacker");
        while let Some(seen) = self.hole.receive() {
            if let Seen::Interest { name, .. } = seen {
                self.outcome.certificates += u64::from(name.starts_with(keys.as_ref()));
                self.unanswered.push(name);
            }
        }
        self.dead.drain();
        while let Some(seen) = self.slow.receive() {
            if let Seen::Interest { name, .. } = seen {
                self.slow_names.push(name);
            }
        }
    }

    /// Upstreams of the bystanders answer. Returns whether there was something.
    fn answer_bystanders(&mut self) -> bool {
        let mut is_active = false;
        while let Some(seen) = self.producer.receive() {
            is_active = true;
            let Seen::Interest { mut name, selectors, .. } = seen else { continue };
            if selectors.can_be_prefix {
                name.push_generic("answer").push_generic("version");
            }
            let _ = self.producer.end.send(data(&name, None, None));
        }
        let by = name("/all/by");
        for port in &mut self.upstreams {
            while let Some(seen) = port.receive() {
                let Seen::Interest { name, .. } = seen else { continue };
                if name.starts_with(by.as_ref()) {
                    is_active = true;
                    self.upstream_arrivals += 1;
                    if self.upstream_arrivals == UPSTREAMS {
                        let _ = port.end.send(data(&name, None, None));
                    }
                }
            }
        }
        is_active
    }

    /// All kinds of exchanges of all bystanders, and a request to management.
    fn serve(&mut self, when: &str) -> Result<(), String> {
        self.round += 1;
        let round = self.round;
        let before = self.outcome;
        self.first_failed = None;
        for bystander in 0..self.bystanders.len() {
            for number in 0..4 {
                let short = format!("/good/{round}/{bystander}/0/{number}");
                self.exchange(bystander, &short, false)?;
            }
            for length in [150, 700, 2000, 4000] {
                let filler = "y".repeat(length);
                self.exchange(bystander, &format!("/good/{round}/{bystander}/{filler}"), false)?;
            }
            for number in 0..2 {
                let measured = format!("/asf/{round}/{bystander}/{number}");
                self.exchange(bystander, &measured, false)?;
            }
            self.exchange(bystander, "/good", true)?;
            self.fragmented(bystander)?;
            self.upstream_arrivals = 0;
            self.exchange(bystander, &format!("/all/by/{round}/{bystander}"), false)?;
        }
        self.aggregate()?;
        self.manage()?;
        let status = self.forwarder.status();
        status.map_err(|error| format!("management does not answer {when}: {error}"))?;
        let failed = |outcome: AttackOutcome| outcome.exchanges - outcome.served;
        let lost = failed(self.outcome) - failed(before);
        // Each round has to be served by itself, so that the failure names the move.
        if lost * 100 > (self.outcome.exchanges - before.exchanges) * (100 - SERVICE_PERCENT) {
            let all = self.outcome.exchanges - before.exchanges;
            let first = self.first_failed.take().unwrap_or_default();
            let first: String = first.chars().take(100).collect();
            return Err(format!(
                "{lost} of {all} exchanges of bystanders fail {when}, the first for {first}"
            ));
        }
        Ok(())
    }

    /// The application registers a prefix, chooses a strategy for it, lists the routes, and takes both back.
    fn manage(&mut self) -> Result<(), String> {
        let round = u64::from(self.round);
        let prefix = name(&format!("/mine/{round}"));
        let named = named(&prefix);
        // Among many principals, the share of the instances is small: it chooses the same again.
        let strategy = strategy(10_000 + if self.addresses == 1 { round } else { 0 });
        let chosen = ControlParameters { strategy: Some(strategy), ..named.clone() };
        for (verb, parameters) in [
            (Verb::RibRegister, &named),
            (Verb::FibAddNextHop, &named),
            (Verb::StrategySet, &chosen),
        ] {
            self.manage_by(verb, parameters)?;
        }
        self.repeat_requests();
        let (serial, _) = self.stamp();
        let _ = self.bystanders[APPLICATION].end.send(list(&Dataset::RibList, serial));
        self.settle()?;
        self.note_served(APPLICATION, "rib/list");
        for verb in [Verb::StrategyUnset, Verb::FibRemoveNextHop, Verb::RibUnregister] {
            self.manage_by(verb, &named)?;
        }
        Ok(())
    }

    fn manage_by(&mut self, verb: Verb, parameters: &ControlParameters) -> Result<(), String> {
        self.repeat_requests();
        let (serial, unix_ms) = self.stamp();
        let wire = command(verb, parameters, serial, unix_ms);
        let _ = self.bystanders[APPLICATION].end.send(wire);
        self.settle()?;
        self.outcome.exchanges += 1;
        let mut answer = None;
        while let Some(frame) = self.bystanders[APPLICATION].end.receive() {
            answer = response(&frame).or(answer);
        }
        match answer {
            Some(response) if response.is_ok() => self.outcome.served += 1,
            other => {
                let text = other.map_or_else(|| "no answer".to_owned(), |other| other.text);
                self.first_failed.get_or_insert_with(|| format!("{verb:?}: {text}"));
            }
        }
        Ok(())
    }

    fn note_served(&mut self, bystander: usize, uri: &str) {
        self.outcome.exchanges += 1;
        let mut is_served = false;
        while let Some(seen) = self.bystanders[bystander].receive() {
            is_served |= matches!(seen, Seen::Data(_));
        }
        if is_served {
            self.outcome.served += 1;
        } else {
            self.first_failed.get_or_insert_with(|| uri.to_owned());
        }
    }

    fn exchange(&mut self, bystander: usize, uri: &str, prefix: bool) -> Result<(), String> {
        let wire = self.interest(uri, 4000, prefix, prefix);
        let _ = self.bystanders[bystander].end.send(wire);
        self.settle()?;
        self.note_served(bystander, uri);
        Ok(())
    }

    /// An Interest in two fragments.
    fn fragmented(&mut self, bystander: usize) -> Result<(), String> {
        let uri = format!("/good/{}/{bystander}/{}", self.round, "z".repeat(3000));
        let wire = self.interest(&uri, 4000, false, false);
        let (first, second) = wire.split_at(1500);
        let sequence = u64::from(self.nonce) * 1000;
        for (index, part) in [(0, first), (1, second)] {
            let frame = fragment(sequence + index, index, 2, part);
            let _ = self.bystanders[bystander].end.send(frame);
            self.settle()?;
        }
        self.note_served(bystander, &format!("fragments of {uri}"));
        Ok(())
    }

    /// All bystanders ask for the same names at once, with long tokens.
    fn aggregate(&mut self) -> Result<(), String> {
        for number in 0..4 {
            let uri = format!("/good/{}/together/{number}", self.round);
            for bystander in 0..self.bystanders.len() {
                let wire = self.interest(&uri, 4000, false, false);
                let _ = self.bystanders[bystander].end.send(with_token(&wire, 20));
            }
            self.settle()?;
            (0..self.bystanders.len()).for_each(|bystander| self.note_served(bystander, &uri));
        }
        Ok(())
    }

    fn check_service(&self) -> Result<(), String> {
        let AttackOutcome { exchanges, served, .. } = self.outcome;
        if served * 100 < exchanges * SERVICE_PERCENT {
            return Err(format!("{served} of {exchanges} exchanges of bystanders succeed"));
        }
        Ok(())
    }

    /// The attacker closes its ports. An operator removes the strategies that it has chosen.
    fn leave(&mut self) -> Result<(), String> {
        for Port { face_id, .. } in std::mem::take(&mut self.attackers) {
            let destroyed = self.forwarder.destroy_face(face_id);
            destroyed.map_err(|error| format!("management: {error}"))?;
        }
        if self.fault.take_if(|fault| *fault == AttackFault::HeldUntilClosed).is_some() {
            let workers = self.forwarder.workers_mut().iter_mut();
            workers.for_each(|worker| worker.release_leaked_charge(Resource::ALL[0]));
        }
        for prefix in std::mem::take(&mut self.chosen) {
            let unset = self.forwarder.command(Verb::StrategyUnset, &named(&prefix));
            unset.map_err(|error| format!("management: {error}"))?;
        }
        self.settle()
    }

    /// Nobody holds anything but faces; if `is_closed`, the attacker holds none of these.
    fn check_given_back(&self, is_closed: bool) -> Result<(), String> {
        let status = self.forwarder.limits();
        let attackers: Vec<_> = (0..self.addresses)
            .map(|port| attacker(port, self.addresses, self.are_users).1)
            .flat_map(|key| [key, key.without_process()])
            .map(|key| key.to_string())
            .collect();
        for one in status.principals.iter().filter(|one| one.class != "management") {
            let has_faces = !is_closed || !attackers.contains(&one.principal);
            let held = one
                .held
                .iter()
                .find(|(table, held)| **held > 0 && !(has_faces && table.as_str() == "faces"));
            if let Some((table, held)) = held {
                let name = &one.principal;
                return Err(format!("the ledger is not at zero: {name} holds {held} of {table}"));
            }
        }
        for ledger in self.forwarder.ledgers() {
            let tables = ledger.tables.as_ref().map(|tables| tables.resources);
            let totals = Resource::ALL.iter().zip(tables.iter().flatten());
            if let Some((resource, table)) = totals.into_iter().find(|(_, table)| table.total > 0) {
                let (name, total) = (resource.name(), table.total);
                return Err(format!("the ledger is not at zero: {total} of {name} are held"));
            }
            if !ledger.memory.is_zero() {
                return Err("the ledger is not at zero: memory of faces is held".to_owned());
            }
        }
        Ok(())
    }

    /// After the longest lifetime, everything is given back and accounted for.
    fn rest(&mut self) -> Result<(), String> {
        if self.are_users {
            // Their Interests may be pending for an hour.
            self.leave()?;
        }
        self.wait(REST)?;
        if !self.are_users {
            // The end of their faces would give back what they hold for too long.
            let checked = self.check_given_back(false);
            checked.map_err(|reason| format!("{reason}, while its faces are open"))?;
        }
        self.leave()?;
        self.check_given_back(true)?;
        let account = InterestAccount::of(&self.forwarder.counters());
        // What one worker passed on to another entered once.
        let outcomes = account.accounted_for() - account.passed_on;
        if account.pending > 0 || account.entered != outcomes {
            return Err(format!("not all Interests are accounted for: {account:?}"));
        }
        Ok(())
    }
}

fn response(frame: &[u8]) -> Option<ControlResponse> {
    let lp = LpPacket::parse(frame).ok()?;
    let data = Data::parse(lp.fragment()?).ok()?;
    ControlResponse::decode(data.content()?).ok()
}

fn add_face(
    forwarder: &mut SteppedForwarder,
    number: &mut u64,
    scope: Scope,
    principal: Option<PrincipalKey>,
) -> anyhow::Result<Port> {
    *number += 1;
    let options = MemoryFaceOptions {
        number: *number,
        scope,
        link_type: LinkType::PointToPoint,
        principal,
        persistency: Persistency::Permanent,
        mtu: 8800,
        queue_frames_max: FACE_QUEUE,
    };
    let (face_id, end) = forwarder.add_memory_face(&options)?;
    Ok(Port { face_id, end })
}

/// A frame with a PIT token of this length.
fn with_token(packet: &[u8], length: usize) -> Vec<u8> {
    if length == 0 {
        return packet.to_vec();
    }
    let (token, mut frame) = (vec![7; length], Vec::new());
    let header = LpHeader { pit_token: &token, ..LpHeader::default() };
    ndn_packet::lp::append_packet(&mut frame, &header, packet);
    debug_assert!(LpPacket::parse(&frame).is_ok());
    frame
}

/// A fragment of a packet.
fn fragment(sequence: u64, index: u64, count: u64, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let header = LpHeader {
        sequence: Some(sequence),
        frag_index: Some(index),
        frag_count: Some(count),
        ..LpHeader::default()
    };
    ndn_packet::lp::append_packet(&mut frame, &header, payload);
    frame
}
