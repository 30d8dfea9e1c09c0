//! The queue of management: Interests, and commands and announcements whose certificates have arrived.
//!
//! Management is one thread, and it takes longer to verify a command than to send one. Its time is therefore divided:
//! the classes of principals take turns, and the principals of each class. The next is the one that has received least
//! time (start-time fair queueing: Goyal, Vin and Cheng, SIGCOMM 1996), so a request waits for one or two of each other
//! principal, however many these have sent, and however long theirs take. The memory of waiting requests is divided by
//! the policy of the ledger.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use ndn_packet::Name;
use ndn_types::{
    Capacity, LedgerReport, PrincipalClass, PrincipalIndex, PrincipalKey, RankedLedger, Reserves,
    ShareVerdict,
};

use super::certificates::WaitingRequest;

/// Memory of what waits, bytes.
const BYTES_MAX: usize = 4 << 20;
/// Least share of a principal, bytes: a few of the largest packets.
const SHARE_MIN: usize = 64 << 10;
/// Bytes charged for a request in addition to its packet.
const OVERHEAD_BYTES: usize = 256;
/// Least time that a request counts as.
const COST_MIN: Duration = Duration::from_micros(10);

ndn_types::resource! {
    /// The memory of what waits, which principals share.
    pub struct RequestBytes = "management_bytes";
}

/// Something to be handled.
#[derive(Debug)]
pub(super) enum Request {
    /// An Interest that has arrived on a face.
    Interest { wire: Vec<u8>, face_id: u64 },
    /// A command whose certificate has arrived, or an announcement that has arrived, or its certificate has.
    Judge(WaitingRequest),
    /// An Interest with this name that a face refused: its learnt route ends, also that of an announcement before.
    Forget { name: Name, face_id: u64 },
}

impl Request {
    /// The face that it came from.
    pub(super) fn face_id(&self) -> u64 {
        match self {
            Self::Interest { face_id, .. } | Self::Forget { face_id, .. } => *face_id,
            Self::Judge(waiting) => waiting.face_id(),
        }
    }

    fn bytes(&self) -> u32 {
        let length = match self {
            Self::Interest { wire, .. } => wire.len(),
            Self::Judge(waiting) => waiting.wire().len(),
            Self::Forget { name, .. } => name.as_ref().encoded_len(),
        };
        u32::try_from(length + OVERHEAD_BYTES).unwrap_or(u32::MAX)
    }
}

/// A request in the queue of its principal.
#[derive(Debug)]
struct Queued {
    request: Request,
    principal: PrincipalIndex,
}

/// The requests of all principals.
#[derive(Debug)]
pub(super) struct Requests {
    /// By principal, in the order of arrival; none is empty.
    queues: HashMap<PrincipalKey, VecDeque<Queued>>,
    ledger: RankedLedger<RequestBytes, 1>,
    classes: Turns<PrincipalClass>,
    principals: [Turns<PrincipalKey>; PrincipalClass::COUNT],
    /// The principal of the request that was taken last.
    last: Option<PrincipalKey>,
}

impl Requests {
    pub(super) fn new(reserves: Reserves) -> Self {
        let bytes = Capacity::with_floor(BYTES_MAX, SHARE_MIN);
        Self {
            queues: HashMap::new(),
            ledger: RankedLedger::new([bytes], reserves),
            classes: Turns::default(),
            principals: std::array::from_fn(|_| Turns::default()),
            last: None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Whether a command or an announcement of this face and principal requires this certificate.
    pub(super) fn has(&self, name: &Name, face_id: u64, key: PrincipalKey) -> bool {
        // Of a principal with many parts, they are in the queue of the whole.
        let groups = std::iter::successors(Some(key), |key| key.group());
        let queues = groups.chain([PrincipalKey::OTHER]).filter_map(|key| self.queues.get(&key));
        queues.flatten().any(|Queued { request, .. }| {
            request.face_id() == face_id
                && match request {
                    Request::Interest { .. } | Request::Forget { .. } => false,
                    Request::Judge(waiting) => waiting.progress().requires(name),
                }
        })
    }

    /// Returns the holdings of all principals.
    pub(super) fn report(&self) -> LedgerReport<1> {
        self.ledger.report()
    }

    /// Queues a request of a principal. Returns those that are not handled: this one, if its principal has its share and
    /// there is no room, or the oldest ones of the principals that hold most.
    pub(super) fn push(&mut self, key: PrincipalKey, request: Request) -> Vec<Request> {
        let bytes = request.bytes();
        let principal = self.ledger.attach(key);
        let mut displaced = Vec::new();
        loop {
            let limits = match self.ledger.verdict(principal, RequestBytes, bytes) {
                ShareVerdict::Room => break,
                ShareVerdict::Evict(limits) => Some(limits),
                ShareVerdict::Refused => None,
            };
            let victim = limits.and_then(|limits| self.ledger.victim(RequestBytes, limits));
            let oldest = victim.and_then(|victim| self.take_oldest(self.ledger.key(victim)));
            let Some(oldest) = oldest else {
                self.ledger.detach(principal);
                displaced.push(request);
                return displaced;
            };
            displaced.push(oldest);
        }
        self.ledger.charge(principal, RequestBytes, bytes);
        let key = self.ledger.key(principal);
        self.queues.entry(key).or_default().push_back(Queued { request, principal });
        self.principals[key.class().index()].add(key);
        self.classes.add(key.class());
        displaced
    }

    /// The request whose turn it is.
    pub(super) fn pop(&mut self) -> Option<Request> {
        let class = self.classes.next()?;
        let key = self.principals[class.index()].next()?;
        self.last = Some(key);
        let request = self.take_oldest(key);
        self.charge(COST_MIN);
        request
    }

    /// The request that was taken last took this long.
    pub(super) fn charge(&mut self, cost: Duration) {
        let Some(key) = self.last else { return };
        self.principals[key.class().index()].charge(key, cost);
        self.classes.charge(key.class(), cost);
    }

    fn take_oldest(&mut self, key: PrincipalKey) -> Option<Request> {
        let queue = self.queues.get_mut(&key)?;
        let Queued { request, principal } = queue.pop_front()?;
        if queue.is_empty() {
            self.queues.remove(&key);
            let of_class = &mut self.principals[key.class().index()];
            of_class.remove(key);
            if of_class.is_empty() {
                self.classes.remove(key.class());
            }
        }
        self.ledger.release(principal, RequestBytes, request.bytes());
        self.ledger.detach(principal);
        Some(request)
    }
}

/// The time that a key has received, and the number of its arrival, which breaks ties.
type Place = (Duration, u64);

/// Turns between keys, by the processor time that each was given.
#[derive(Debug)]
struct Turns<K> {
    /// The places of keys. Others were given `least`.
    places: BTreeMap<K, Place>,
    /// The keys that wait for their turn.
    waiting: BTreeSet<(Place, K)>,
    /// The others that were given more than `least`.
    resting: BTreeSet<(Place, K)>,
    /// The time that the last key in turn had received before it.
    least: Duration,
    arrivals: u64,
}

impl<K> Default for Turns<K> {
    fn default() -> Self {
        let (waiting, resting) = (BTreeSet::new(), BTreeSet::new());
        Self { places: BTreeMap::new(), waiting, resting, least: Duration::ZERO, arrivals: 0 }
    }
}

impl<K: Ord + Copy> Turns<K> {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A key waits, unless it does already.
    fn add(&mut self, key: K) {
        let place = *self.places.entry(key).or_insert((self.least, 0));
        if self.waiting.contains(&(place, key)) {
            return;
        }
        self.resting.remove(&(place, key));
        self.insert(key, place.0);
    }

    fn insert(&mut self, key: K, given: Duration) {
        self.arrivals += 1;
        let place = (given, self.arrivals);
        self.places.insert(key, place);
        self.waiting.insert((place, key));
    }

    /// A key waits no longer. If none does, nobody owes time to another.
    fn remove(&mut self, key: K) {
        let Some(&place) = self.places.get(&key) else { return };
        self.waiting.remove(&(place, key));
        if self.waiting.is_empty() {
            self.resting.clear();
            self.places.clear();
        } else {
            self.resting.insert((place, key));
        }
    }

    /// The key whose turn it is.
    fn next(&mut self) -> Option<K> {
        let ((least, _), key) = *self.waiting.first()?;
        self.least = least;
        while let Some((place, rested)) = self.resting.first().copied()
            && place.0 <= least
        {
            self.resting.pop_first();
            self.places.remove(&rested);
        }
        Some(key)
    }

    /// Adds to what a key was given, unless no other waits.
    fn charge(&mut self, key: K, cost: Duration) {
        if self.waiting.is_empty() {
            return;
        }
        let place = *self.places.entry(key).or_insert((self.least, 0));
        let given = place.0.saturating_add(cost);
        if self.waiting.remove(&(place, key)) {
            self.insert(key, given);
        } else {
            self.resting.remove(&(place, key));
            self.places.insert(key, (given, 0));
            self.resting.insert(((given, 0), key));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use ndn_security::trust::Search;
    use ndn_types::Timestamp;

    use super::super::certificates::{Progress, WaitingAnnouncement};
    use super::*;
    use crate::testing::name;

    const PEER: PrincipalKey = PrincipalKey::Neighbour { face_id: 1 };

    fn remote(last: u8) -> PrincipalKey {
        PrincipalKey::remote(([192, 0, 2, last], 6363).into())
    }

    fn interest(face_id: u64, length: usize) -> Request {
        Request::Interest { wire: vec![0; length], face_id }
    }

    fn drain(requests: &mut Requests) {
        while requests.pop().is_some() {}
        assert!(requests.is_empty() && requests.report().is_zero());
        for turns in &requests.principals {
            assert!(
                turns.waiting.is_empty() && turns.resting.is_empty() && turns.places.is_empty()
            );
        }
    }

    #[test]
    fn principal_waits_for_one_request_of_each_other() {
        let mut requests = Requests::new(Reserves::NONE);
        for number in 0..100 {
            for last in 1..=3 {
                assert!(requests.push(remote(last), interest(number, 100)).is_empty());
            }
        }
        for _ in 0..30 {
            requests.pop().unwrap();
            requests.charge(Duration::from_micros(100));
        }
        requests.push(remote(4), interest(1000, 100));
        let mut served = std::iter::from_fn(|| {
            let request = requests.pop();
            requests.charge(Duration::from_micros(100));
            request
        });
        let position = served.position(|request| request.face_id() == 1000).unwrap();
        assert!(position <= 3, "after {position} others");
        drain(&mut requests);
    }

    #[test]
    fn time_is_divided_and_not_the_number_of_requests() {
        let mut requests = Requests::new(Reserves::NONE);
        for _ in 0..1000 {
            requests.push(remote(1), interest(1, 100));
            requests.push(remote(2), interest(2, 100));
        }
        let mut served = [0, 0];
        for _ in 0..220 {
            let face = requests.pop().unwrap().face_id();
            // Those of the first take ten times as long.
            requests.charge(Duration::from_micros(if face == 1 { 990 } else { 90 }));
            served[usize::from(face == 2)] += 1;
        }
        assert_eq!(served, [20, 200]);
        drain(&mut requests);
    }

    #[test]
    fn many_addresses_take_no_time_of_applications_and_neighbours() {
        let mut requests = Requests::new(Reserves::default());
        for last in 0..=255 {
            for _ in 0..10 {
                requests.push(remote(last), interest(999, 100));
            }
        }
        let application = PrincipalKey::LocalApplication { uid: 1, pid: 2 };
        for face_id in 0..10 {
            requests.push(PEER, interest(face_id, 100));
            requests.push(application, interest(100 + face_id, 100));
        }
        let order: Vec<_> = (0..30).map(|_| requests.pop().unwrap().face_id()).collect();
        assert_eq!(order.iter().filter(|face| **face == 999).count(), 10, "{order:?}");
        drain(&mut requests);
    }

    #[test]
    fn principal_that_returns_has_no_credit() {
        let mut requests = Requests::new(Reserves::NONE);
        for _ in 0..100 {
            requests.push(remote(1), interest(1, 100));
        }
        requests.push(remote(2), interest(2, 100));
        for _ in 0..50 {
            requests.pop().unwrap();
        }
        for _ in 0..100 {
            requests.push(remote(2), interest(2, 100));
        }
        let served = (0..20).filter(|_| requests.pop().unwrap().face_id() == 2).count();
        assert!((10..=11).contains(&served), "{served}");
        drain(&mut requests);
    }

    #[test]
    fn new_principals_without_end_do_not_overtake_one_that_waits() {
        let mut requests = Requests::new(Reserves::NONE);
        let peer =
            |number: u32| PrincipalKey::remote((std::net::Ipv4Addr::from_bits(number), 1).into());
        for number in 0..10 {
            requests.push(peer(number), interest(1, 100));
        }
        requests.push(peer(u32::MAX), interest(2, 100));
        let mut handled = 0;
        while requests.pop().unwrap().face_id() == 1 {
            handled += 1;
            requests.push(peer(1000 + handled), interest(1, 100));
            assert!(handled <= 10, "those before it");
        }
        drain(&mut requests);
    }

    #[test]
    fn full_memory_is_divided_and_the_oldest_requests_give_way() {
        let mut requests = Requests::new(Reserves::default());
        let mut refused = 0;
        for number in 0..10_000 {
            refused += requests.push(remote(1), interest(number, 1000 - OVERHEAD_BYTES)).len();
        }
        // 69 % of 4 MiB.
        let held = 10_000 - refused;
        assert!((2800..2900).contains(&held), "{held}");
        let displaced = requests.push(remote(2), interest(20_000, 1000 - OVERHEAD_BYTES));
        assert_eq!(displaced.iter().map(Request::face_id).collect::<Vec<_>>(), [0]);
        assert!(requests.push(PEER, interest(1, 8000)).is_empty(), "it has a reserve");
        drain(&mut requests);
    }

    /// The seventeenth process of a user is charged to the user.
    #[test]
    fn request_of_a_process_among_many_is_found() {
        let mut requests = Requests::new(Reserves::NONE);
        let process = |pid| PrincipalKey::LocalApplication { uid: 1, pid };
        let required = |face_id| {
            let mut progress = Progress::new(Timestamp::MAX);
            progress.update(Search { names: vec![name("/key")], ..Search::default() });
            let wire = Vec::new();
            let waiting = WaitingAnnouncement { wire, face_id, progress };
            Request::Judge(WaitingRequest::Announcement(Box::new(waiting)))
        };
        for pid in 1..=20 {
            requests.push(process(pid), required(u64::from(pid)));
        }
        for pid in 1..=20 {
            assert!(requests.has(&name("/key"), pid.into(), process(pid)), "process {pid}");
            assert!(!requests.has(&name("/key"), 99, process(pid)));
        }
        drain(&mut requests);
    }

    #[test]
    fn principals_that_were_served_are_forgotten() {
        let mut requests = Requests::new(Reserves::NONE);
        for round in 0..1000_u32 {
            let peer = PrincipalKey::remote((std::net::Ipv4Addr::from_bits(round), 1).into());
            requests.push(peer, interest(1, 100));
            requests.push(PEER, interest(1, 100));
            requests.pop().unwrap();
            requests.pop().unwrap();
        }
        assert!(requests.principals.iter().all(|turns| turns.places.len() < 10));
        drain(&mut requests);
    }
}
