//! The ledger: who holds how much of each scarce resource, and what each may hold.
//!
//! Everything scarce is charged to a principal ([`PrincipalKey`]) by the table that holds it, and
//! given back when it is freed. A charge is the increment of a counter in a record that the packets of a
//! principal share. What a principal may hold is decided by the policy in `shares`.

use std::collections::{BTreeMap, HashMap};
use std::marker::PhantomData;

use crate::shares::{Capacity, Division, Limits, Reserves, ShareVerdict};
use crate::{PrincipalClass, PrincipalKey};

/// Number of principals that a ledger distinguishes. What further ones take is charged to
/// [`PrincipalKey::OTHER`].
const PRINCIPALS_MAX: usize = 1 << 15;
/// Number of IPv6 networks of 64 bits that are distinguished within one of 48 bits, of processes of one user, and of users
/// of a range. Further ones share the principal of their [group](PrincipalKey::group).
const MEMBERS_PER_GROUP_MAX: u32 = 16;

/// A principal in one ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PrincipalIndex(u16);

impl PrincipalIndex {
    /// [`PrincipalKey::OTHER`], which every ledger has.
    pub const OTHER: Self = Self(0);

    /// Position in tables with one place for each principal.
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The `N` scarce resources that one ledger divides.
pub trait Resources<const N: usize>: Copy {
    /// All of them, in the order of [`index`](Self::index).
    const ALL: [Self; N];

    /// Position in [`ALL`](Self::ALL).
    fn index(self) -> usize;

    /// Name in output and metrics.
    fn name(self) -> &'static str;
}

/// Declares the only resource of a ledger, a unit type, with its name in output and metrics.
///
/// ```
/// ndn_types::resource! {
///     /// Places in a queue.
///     pub struct Places = "places";
/// }
/// ```
#[macro_export]
macro_rules! resource {
    ($(#[$attribute:meta])* $visibility:vis struct $resource:ident = $name:literal;) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $visibility struct $resource;

        impl $crate::Resources<1> for $resource {
            const ALL: [Self; 1] = [Self];

            fn index(self) -> usize {
                0
            }

            fn name(self) -> &'static str {
                $name
            }
        }
    };
}

/// The holdings of a principal.
#[derive(Debug, Clone, Copy)]
struct Account<const N: usize> {
    held: [u32; N],
    /// Number of attachments.
    faces: u32,
    class: PrincipalClass,
    key: PrincipalKey,
}

/// The account of each principal for `N` resources.
#[derive(Debug)]
pub struct Ledger<R, const N: usize> {
    accounts: Vec<Account<N>>,
    divisions: [Division; N],
    by_key: HashMap<PrincipalKey, PrincipalIndex>,
    /// Number of members by group: principals, and groups that have members.
    members: HashMap<PrincipalKey, u32>,
    free: Vec<PrincipalIndex>,
    reserves: Reserves,
    resources: PhantomData<R>,
}

impl<R: Resources<N>, const N: usize> Ledger<R, N> {
    /// Nothing held; the capacities are in the order of [`Resources::ALL`].
    #[must_use]
    pub fn new(capacities: [Capacity; N], reserves: Reserves) -> Self {
        let mut ledger = Self {
            accounts: Vec::new(),
            divisions: capacities.map(|capacity| Division::new(capacity, reserves)),
            by_key: HashMap::new(),
            members: HashMap::new(),
            free: Vec::new(),
            reserves,
            resources: PhantomData,
        };
        // It stays: nothing else ends the attachment.
        let other = ledger.attach(PrincipalKey::OTHER);
        debug_assert_eq!(other, PrincipalIndex::OTHER);
        ledger
    }

    /// Attaches a face of a principal, or something else that is to keep its index. A principal has its index while something
    /// is attached or it holds something.
    pub fn attach(&mut self, key: PrincipalKey) -> PrincipalIndex {
        let index = self.find_or_add(key);
        self.account_mut(index).faces += 1;
        index
    }

    /// Ends an attachment.
    pub fn detach(&mut self, index: PrincipalIndex) {
        let account = self.account_mut(index);
        debug_assert!(account.faces > 0, "{} has no faces", account.key);
        account.faces -= 1;
        self.retire_if_unused(index);
    }

    fn find_or_add(&mut self, key: PrincipalKey) -> PrincipalIndex {
        if let Some(&index) = self.by_key.get(&key) {
            return index;
        }
        if let Err(group) = self.join_group(key) {
            return self.find_or_add(group);
        }
        let account = Account { held: [0; N], faces: 0, class: key.class(), key };
        let index = match self.free.pop() {
            Some(index) => {
                *self.account_mut(index) = account;
                index
            }
            None if self.accounts.len() < PRINCIPALS_MAX => {
                self.accounts.push(account);
                PrincipalIndex(u16::try_from(self.accounts.len() - 1).unwrap_or_default())
            }
            None => {
                self.leave_group(key);
                return PrincipalIndex::OTHER;
            }
        };
        self.by_key.insert(key, index);
        index
    }

    /// Whether it is counted as a member of its group.
    fn is_counted(&self, key: PrincipalKey) -> bool {
        self.by_key.contains_key(&key) || self.members.contains_key(&key)
    }

    /// Counts a principal as a member of its group, and the group as one of its own group.
    ///
    /// # Errors
    /// The group that is full.
    fn join_group(&mut self, key: PrincipalKey) -> Result<(), PrincipalKey> {
        let Some(group) = key.group().filter(|_| !self.is_counted(key)) else { return Ok(()) };
        match self.members.get_mut(&group) {
            Some(MEMBERS_PER_GROUP_MAX..) => return Err(group),
            Some(members) => *members += 1,
            None => {
                self.join_group(group)?;
                self.members.insert(group, 1);
            }
        }
        Ok(())
    }

    /// Undoes [`join_group`](Self::join_group), once the principal is neither attached nor a group with members.
    fn leave_group(&mut self, key: PrincipalKey) {
        let Some(group) = key.group().filter(|_| !self.is_counted(key)) else { return };
        let Some(members) = self.members.get_mut(&group) else { return };
        *members -= 1;
        if *members == 0 {
            self.members.remove(&group);
            self.leave_group(group);
        }
    }

    #[cold]
    fn retire_if_unused(&mut self, index: PrincipalIndex) {
        let Account { held, faces, key, .. } = *self.account(index);
        if faces == 0 && held.iter().all(|held| *held == 0) {
            self.by_key.remove(&key);
            self.leave_group(key);
            self.free.push(index);
        }
    }

    /// Charges `count` units to a principal.
    #[inline(always)]
    pub fn charge(&mut self, index: PrincipalIndex, resource: R, count: u32) {
        let account = &mut self.accounts[index.index()];
        debug_assert_eq!(self.by_key.get(&account.key), Some(&index), "{} is gone", account.key);
        let held = &mut account.held[resource.index()];
        self.divisions[resource.index()].add(account.class, *held, count);
        *held += count;
    }

    /// Gives `count` units back.
    #[inline]
    pub fn release(&mut self, index: PrincipalIndex, resource: R, count: u32) {
        let account = &mut self.accounts[index.index()];
        let held = &mut account.held[resource.index()];
        debug_assert!(*held >= count, "{} gives back what it does not hold", account.key);
        *held -= count;
        self.divisions[resource.index()].remove(account.class, *held, count);
        if *held == 0 && account.faces == 0 {
            self.retire_if_unused(index);
        }
    }

    /// Whether there is room for everybody, without touching the reserves.
    #[must_use]
    #[inline]
    pub fn is_open(&self, resource: R, count: u32) -> bool {
        let Division { total, open, .. } = self.divisions[resource.index()];
        total + count <= open
    }

    /// Whether a principal that gets [`ShareVerdict::Evict`] may take `count` units more before what gives way is found:
    /// there are units beyond the capacity ([`Capacity::with_spare`]).
    #[must_use]
    #[cold]
    pub fn has_spare(&self, index: PrincipalIndex, resource: R, count: u32) -> bool {
        self.divisions[resource.index()].has_spare(self.class(index), count)
    }

    /// Whether a principal may take `count` units more.
    #[must_use]
    #[cold]
    pub fn verdict(&self, index: PrincipalIndex, resource: R, count: u32) -> ShareVerdict {
        let account = self.account(index);
        let held = account.held[resource.index()];
        self.divisions[resource.index()].verdict(account.class, held, count)
    }

    /// As [`verdict`](Self::verdict), of a resource that nobody can give back before its time: whether as many units remain
    /// for the class of a principal as it would hold (dynamic thresholds: Choudhury and Hahne, IEEE/ACM Transactions on
    /// Networking 6(2), 1998). One principal alone gets half of what is open to it, two get a third each, and something is
    /// left for the next one.
    #[must_use]
    pub fn has_room_beside_others(&self, index: PrincipalIndex, resource: R, count: u32) -> bool {
        let account = self.account(index);
        let required = account.held[resource.index()].saturating_add(count);
        required <= self.divisions[resource.index()].free(account.class)
    }

    /// Divides the places of something of which all are taken, such as the records of one entry: whose place one more of
    /// `principal` takes, if it may. `holders` are the principals of all places, which are put in order.
    pub fn victim_among(
        &self,
        holders: &mut [PrincipalIndex],
        principal: PrincipalIndex,
    ) -> Option<PrincipalIndex> {
        holders.sort_unstable();
        let holders = &*holders;
        let mut division = Division::new(Capacity::of(holders.len()), self.reserves);
        let (mut own, class) = (0, self.class(principal));
        let groups = || holders.chunk_by(|a, b| a == b).map(|group| (group[0], group.len()));
        let groups = || groups().map(|(holder, held)| (holder, u32::try_from(held).unwrap_or(0)));
        for (holder, held) in groups() {
            division.add(self.class(holder), 0, held);
            own += if holder == principal { held } else { 0 };
        }
        let limits = division.limits_for(class, own)?;
        let excess = |(holder, held): (PrincipalIndex, u32)| {
            let excess = held.checked_sub(limits.of(self.class(holder)))?;
            (excess > 0).then_some((excess, holder))
        };
        groups().filter_map(excess).max().map(|(_, holder)| holder)
    }

    /// While more is used than there is: the limits above which principals give back, how much in all, and what is
    /// open to all.
    pub(crate) fn excess(&self, resource: R) -> Option<(Limits, u32, u32)> {
        let division = &self.divisions[resource.index()];
        division.excess().map(|(limits, excess)| (limits, excess, division.open))
    }

    /// Whether a principal holds more than its limit, and so gives way.
    #[must_use]
    #[inline]
    pub fn exceeds(&self, index: PrincipalIndex, resource: R, limits: Limits) -> bool {
        let account = self.account(index);
        account.held[resource.index()] > limits.of(account.class)
    }

    /// Units of a resource.
    #[must_use]
    pub fn capacity(&self, resource: R) -> u32 {
        self.divisions[resource.index()].capacity
    }

    /// Units in use.
    #[must_use]
    pub fn used(&self, resource: R) -> u32 {
        self.divisions[resource.index()].total
    }

    /// Plants a fault: the resource is not shared, but first come, first served.
    #[cfg(feature = "planted-faults")]
    pub fn stop_sharing(&mut self, resource: R) {
        self.divisions[resource.index()].open = u32::MAX / 2;
    }

    /// Returns the units that a principal holds.
    #[must_use]
    pub fn held(&self, index: PrincipalIndex, resource: R) -> u32 {
        self.account(index).held[resource.index()]
    }

    /// The name of a principal.
    #[must_use]
    pub fn key(&self, index: PrincipalIndex) -> PrincipalKey {
        self.account(index).key
    }

    /// The class of a principal.
    #[must_use]
    pub fn class(&self, index: PrincipalIndex) -> PrincipalClass {
        self.account(index).class
    }

    /// Returns the units of each resource in use, in total and by principal.
    #[must_use]
    pub fn report(&self) -> LedgerReport<N> {
        let resources = R::ALL.map(|resource| {
            let division = &self.divisions[resource.index()];
            let Division { capacity, total, reserves, used, .. } = *division;
            ResourceReport { capacity, total, reserves, used, shares: division.shares(None) }
        });
        let principals = self.by_key.iter().map(|(&key, &index)| {
            let Account { held, faces, .. } = *self.account(index);
            PrincipalReport { key, faces, held }
        });
        LedgerReport { resources, principals: principals.collect() }
    }

    /// Whether the ledger has exactly these charges.
    pub fn agrees_with(&self, held: &BTreeMap<PrincipalIndex, [u32; N]>) -> bool {
        let known = self.by_key.values().map(|&index| (index, self.account(index).held));
        let known = known.filter(|(_, held)| *held != [0; N]);
        let mut sums = [[0; PrincipalClass::COUNT]; N];
        for (index, held) in held {
            for (sum, held) in sums.iter_mut().zip(held) {
                sum[self.class(*index).index()] += held;
            }
        }
        let is_sum = |(division, sum): (&Division, [u32; PrincipalClass::COUNT])| {
            division.used == sum && division.total == sum.iter().sum::<u32>()
        };
        let are_sums = self.divisions.iter().zip(sums).all(is_sum);
        are_sums && known.collect::<BTreeMap<_, _>>() == *held
    }

    fn account(&self, index: PrincipalIndex) -> &Account<N> {
        &self.accounts[index.index()]
    }

    fn account_mut(&mut self, index: PrincipalIndex) -> &mut Account<N> {
        &mut self.accounts[index.index()]
    }
}

/// The state of a ledger at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerReport<const N: usize> {
    /// The resources, in the order of [`Resources::ALL`].
    pub resources: [ResourceReport; N],
    /// The principals that have faces or hold something, in no order.
    pub principals: Vec<PrincipalReport<N>>,
}

impl<const N: usize> LedgerReport<N> {
    /// Whether nothing is held.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        let holds_nothing = |principal: &PrincipalReport<N>| principal.held == [0; N];
        self.resources.iter().all(|resource| resource.total == 0)
            && self.principals.iter().all(holds_nothing)
    }
}

/// One resource. Arrays are in the order of [`PrincipalClass::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceReport {
    /// Units of it.
    pub capacity: u32,
    /// Units in use.
    pub total: u32,
    /// Reserves of the classes.
    pub reserves: [u32; PrincipalClass::COUNT],
    /// Units in use by the classes.
    pub used: [u32; PrincipalClass::COUNT],
    /// Share of a principal of each class.
    pub shares: [u32; PrincipalClass::COUNT],
}

/// One principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrincipalReport<const N: usize> {
    /// The principal.
    pub key: PrincipalKey,
    /// Number of its attachments: its faces, in a ledger that only faces are attached to.
    pub faces: u32,
    /// Units of each resource that it holds, in the order of [`Resources::ALL`].
    pub held: [u32; N],
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

    use proptest::prelude::*;

    use super::*;

    crate::resource! {
        /// The only resource.
        pub(crate) struct Places = "places";
    }

    const R: Places = Places;

    fn ledger(capacity: usize, reserves: Reserves) -> Ledger<Places, 1> {
        Ledger::new([Capacity::of(capacity)], reserves)
    }

    fn remote(number: u32) -> PrincipalKey {
        PrincipalKey::remote((Ipv4Addr::from_bits(number), 1).into())
    }

    fn local(pid: u32) -> PrincipalKey {
        PrincipalKey::LocalApplication { uid: 1, pid }
    }

    #[test]
    fn one_principal_of_a_class_leaves_room_for_the_next_one() {
        let reserves = Reserves { management: 1, local: 10, neighbour: 20 };
        let mut ledger = ledger(4096, reserves);
        let mut taken = |key| {
            let index = ledger.attach(key);
            let mut taken = 0;
            while ledger.has_room_beside_others(index, R, 1) {
                ledger.charge(index, R, 1);
                taken += 1;
            }
            taken
        };
        // Half of what remains for its class each.
        let of_processes: Vec<u32> = (1..=12).map(|pid| taken(local(pid))).collect();
        assert_eq!(of_processes, [1619, 809, 405, 202, 101, 51, 25, 13, 6, 3, 2, 1]);
        assert_eq!((taken(local(13)), taken(remote(1))), (0, 0));
        assert_eq!(taken(PrincipalKey::Neighbour { face_id: 1 }), 410);
        assert_eq!(taken(PrincipalKey::Management), 20);
    }

    #[test]
    fn remote_principals_never_use_the_reserves() {
        let mut ledger = ledger(1000, Reserves { management: 5, local: 10, neighbour: 20 });
        let peer = ledger.attach(remote(1));
        let mut taken = 0;
        while ledger.verdict(peer, R, 1) == ShareVerdict::Room {
            ledger.charge(peer, R, 1);
            taken += 1;
        }
        assert_eq!(taken, 650);
        assert_eq!(ledger.verdict(peer, R, 1), ShareVerdict::Refused);
        for (key, reserve) in [
            (PrincipalKey::Management, 50),
            (local(1), 100),
            (PrincipalKey::Neighbour { face_id: 300 }, 200),
        ] {
            let index = ledger.attach(key);
            for number in 0..reserve {
                assert_eq!(ledger.verdict(index, R, 1), ShareVerdict::Room, "{key} {number}");
                ledger.charge(index, R, 1);
            }
            assert_ne!(ledger.verdict(index, R, 1), ShareVerdict::Room, "{key}");
        }
    }

    #[test]
    fn principal_below_its_share_displaces_one_above() {
        let mut ledger = ledger(100, Reserves::NONE);
        let [greedy, modest] = [1, 2].map(|number| ledger.attach(remote(number)));
        ledger.charge(greedy, R, 100);
        let ShareVerdict::Evict(limits) = ledger.verdict(modest, R, 1) else {
            panic!("no eviction")
        };
        assert!(ledger.exceeds(greedy, R, limits) && !ledger.exceeds(modest, R, limits));
        ledger.release(greedy, R, 50);
        ledger.charge(modest, R, 50);
        assert_eq!(ledger.verdict(modest, R, 1), ShareVerdict::Refused, "both have their shares");
        assert_eq!(ledger.verdict(greedy, R, 1), ShareVerdict::Refused);
    }

    #[test]
    fn use_of_a_reserve_is_evicted_for_principals_of_the_same_class_only() {
        let mut ledger = ledger(100, Reserves { management: 0, local: 20, neighbour: 0 });
        let [first, second] = [1, 2].map(|pid| ledger.attach(local(pid)));
        let peers = [1, 2].map(|number| ledger.attach(remote(number)));
        ledger.charge(first, R, 20);
        ledger.charge(peers[0], R, 80);
        let ShareVerdict::Evict(limits) = ledger.verdict(peers[1], R, 1) else {
            panic!("no eviction")
        };
        assert!(ledger.exceeds(peers[0], R, limits));
        assert!(!ledger.exceeds(first, R, limits), "it uses the reserve");
        assert!(matches!(ledger.verdict(second, R, 1), ShareVerdict::Evict(_)));
    }

    /// A user may have 65,536 user IDs (subuid(5)).
    #[test]
    fn users_of_a_range_beyond_the_limit_share_a_principal() {
        let mut ledger = ledger(100, Reserves::NONE);
        let users = 100_000..100_100;
        let processes = users.map(|uid| PrincipalKey::LocalApplication { uid, pid: uid });
        let indices: Vec<_> = processes.map(|key| ledger.attach(key)).collect();
        let mut distinct = indices.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), MEMBERS_PER_GROUP_MAX as usize + 1);
        let range = PrincipalKey::UserRange { first: 65_536 };
        assert_eq!(ledger.key(indices[99]), range);
        indices.into_iter().for_each(|index| ledger.detach(index));
        assert!(ledger.report().is_zero());
    }

    /// The IDs of people from a directory service are from 65,536 on, too.
    #[test]
    fn processes_of_one_user_leave_the_range_to_other_users() {
        let mut ledger = ledger(100, Reserves::NONE);
        let key = |uid, pid| PrincipalKey::LocalApplication { uid, pid };
        let user = |uid| key(uid, 0);
        let mut indices: Vec<_> = (1..=20).map(|pid| ledger.attach(key(100_000, pid))).collect();
        let keys: Vec<_> = indices.iter().map(|index| ledger.key(*index)).collect();
        assert_eq!(keys[15], key(100_000, 16));
        assert_eq!(keys[16..], [user(100_000); 4]);
        for uid in 100_001..100_016 {
            indices.push(ledger.attach(key(uid, 7)));
            assert_eq!(ledger.key(*indices.last().unwrap()), key(uid, 7));
        }
        let range = PrincipalKey::UserRange { first: 65_536 };
        indices.push(ledger.attach(key(100_016, 7)));
        assert_eq!(ledger.key(*indices.last().unwrap()), range, "the seventeenth user");
        // A user is a member while it or one of its processes is.
        indices.drain(..20).for_each(|index| ledger.detach(index));
        let next = [user(100_016), key(100_016, 8)].map(|key| ledger.attach(key));
        assert_eq!(next.map(|index| ledger.key(index)), [user(100_016), key(100_016, 8)]);
        ledger.detach(next[0]);
        let last = ledger.attach(key(100_017, 7));
        assert_eq!(ledger.key(last), range);
        indices.into_iter().chain([next[1], last]).for_each(|index| ledger.detach(index));
        assert_eq!(ledger.report().principals.len(), 1, "only the one for others");
        assert!(ledger.members.is_empty());
    }

    #[test]
    fn networks_of_a_site_beyond_the_limit_share_a_principal() {
        let mut ledger = ledger(100, Reserves::NONE);
        let network = |number: u16| {
            let address = Ipv6Addr::new(0x2001, 0xdb8, 7, number, 0, 0, 0, 1);
            PrincipalKey::remote(SocketAddr::from((address, 1)))
        };
        let indices: Vec<_> = (0..100).map(|number| ledger.attach(network(number))).collect();
        let mut distinct = indices.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), MEMBERS_PER_GROUP_MAX as usize + 1);
        indices.into_iter().for_each(|index| ledger.detach(index));
        assert_eq!(ledger.report().principals.len(), 1, "only the one for others");
        assert!(ledger.members.is_empty());
    }

    #[test]
    fn principals_beyond_the_limit_share_one() {
        let mut ledger = ledger(100, Reserves::NONE);
        let count = u32::try_from(PRINCIPALS_MAX).unwrap() - 1;
        let indices: Vec<_> = (0..count).map(|number| ledger.attach(remote(number))).collect();
        assert!(!indices.contains(&PrincipalIndex::OTHER));
        assert_eq!(ledger.attach(remote(count)), PrincipalIndex::OTHER);
        ledger.detach(PrincipalIndex::OTHER);
        ledger.detach(indices[7]);
        assert_eq!(ledger.attach(remote(count)), indices[7]);
    }

    #[test]
    fn principal_without_faces_keeps_its_account_while_it_has_charges() {
        let mut ledger = ledger(100, Reserves::NONE);
        let peer = ledger.attach(remote(1));
        ledger.charge(peer, R, 3);
        ledger.detach(peer);
        assert_eq!(ledger.attach(remote(1)), peer);
        ledger.detach(peer);
        ledger.release(peer, R, 3);
        assert_eq!(ledger.report().principals.len(), 1);
    }

    /// The share as docs/operating/limits.md states it, of the principals of the property below:
    /// management, two local ones, a neighbour, two remote ones. `percents` are the reserves of
    /// management, local principals and neighbours.
    fn share(capacity: usize, percents: [u8; 3], held: [u32; 6], principal: usize) -> usize {
        let [management, local, neighbour] =
            percents.map(|percent| capacity * usize::from(percent) / 100);
        let open = capacity - management - local - neighbour;
        // The one that asks counts as one that holds something.
        let holds = |other: usize| usize::from(other == principal || held[other] > 0);
        let holders: usize = (0..6).map(holds).sum();
        let of_class = match principal {
            0 => management,
            1 | 2 => local / (holds(1) + holds(2)),
            3 => neighbour,
            _ => 0,
        };
        (open / holders + of_class).max(1)
    }

    #[test]
    fn share_has_a_part_of_the_shared_places_and_of_the_reserve() {
        // Reserves of 50, 100 and 200 places leave 650.
        let mut ledger = ledger(1000, Reserves { management: 5, local: 10, neighbour: 20 });
        let neighbour = PrincipalKey::Neighbour { face_id: 300 };
        let keys = [PrincipalKey::Management, local(1), local(2), neighbour, remote(1), remote(2)];
        let indices = keys.map(|key| ledger.attach(key));
        let shares = |ledger: &Ledger<Places, 1>| ledger.report().resources[0].shares;
        assert_eq!(shares(&ledger), [700, 750, 850, 650], "as if each were the only one");
        for (index, expected) in indices.into_iter().zip([
            // 650 / 1 + 50, 650 / 1 + 100, 650 / 1 + 200, 650 / 1
            [700, 750, 850, 650],
            // 650 / 2: 325
            [375, 425, 525, 325],
            // 650 / 3: 216; 100 / 2: 50
            [266, 266, 416, 216],
            // 650 / 4: 162
            [212, 212, 362, 162],
            // 650 / 5: 130
            [180, 180, 330, 130],
            // 650 / 6: 108
            [158, 158, 308, 108],
        ]) {
            ledger.charge(index, R, 1);
            assert_eq!(shares(&ledger), expected);
        }
        ledger.charge(indices[4], R, 107);
        ledger.charge(indices[5], R, 541);
        assert_eq!(ledger.verdict(indices[4], R, 1), ShareVerdict::Refused, "it has its 108");
        ledger.release(indices[4], R, 1);
        ledger.charge(indices[5], R, 1);
        assert!(matches!(ledger.verdict(indices[4], R, 1), ShareVerdict::Evict(_)), "it has 107");
    }

    #[test]
    fn places_of_one_entry_are_divided_with_reserves() {
        let mut ledger = ledger(100_000, Reserves::default());
        let one = |last: u16| ledger_key(last);
        let mut holders: Vec<_> = (0..1024).map(|last| ledger.attach(one(last))).collect();
        let [newcomer, first] = [2000, 0].map(|last| ledger.attach(one(last)));
        let application = ledger.attach(local(1));
        assert_eq!(ledger.victim_among(&mut holders, newcomer), None, "each has one");
        let mut given = 0;
        while let Some(victim) = ledger.victim_among(&mut holders, application) {
            assert_ne!(victim, application);
            let at = holders.iter().position(|holder| *holder == victim).unwrap();
            holders[at] = application;
            given += 1;
        }
        assert_eq!(given, 102, "the reserve of 10 %");
        // One that has many gives way to others of its class, down to its share.
        holders[..600].fill(first);
        holders[600..].fill(newcomer);
        let third = ledger.attach(one(2001));
        assert_eq!(ledger.victim_among(&mut holders, third), Some(first));
        assert_eq!(ledger.victim_among(&mut holders, newcomer), None, "it has its share");
    }

    fn ledger_key(number: u16) -> PrincipalKey {
        let [high, low] = number.to_be_bytes();
        PrincipalKey::remote(([10, 0, high, low], 6363).into())
    }

    #[test]
    fn free_reserve_is_granted_while_others_exceed_the_shared_part() {
        let mut ledger = ledger(100, Reserves { management: 0, local: 80, neighbour: 0 });
        let [first, second] = [1, 2].map(|pid| ledger.attach(local(pid)));
        let peer = ledger.attach(remote(1));
        ledger.charge(second, R, 1);
        // More than its share, which is 3 + 40, in a reserve that has room.
        ledger.charge(first, R, 60);
        // Entries of others have passed to it.
        ledger.charge(peer, R, 20);
        for _ in 0..19 {
            assert_eq!(ledger.verdict(first, R, 1), ShareVerdict::Room);
            ledger.charge(first, R, 1);
        }
        ledger.release(first, R, 10);
        ledger.charge(peer, R, 10);
        let ShareVerdict::Evict(limits) = ledger.verdict(first, R, 1) else {
            panic!("no eviction")
        };
        assert!(ledger.exceeds(peer, R, limits) && !ledger.exceeds(second, R, limits));
    }

    #[test]
    fn new_principal_is_refused_without_a_search_when_all_have_the_least_share() {
        let mut ledger = ledger(10, Reserves::NONE);
        for number in 0..10 {
            let index = ledger.attach(remote(number));
            ledger.charge(index, R, 1);
        }
        let newcomer = ledger.attach(remote(10));
        assert_eq!(ledger.verdict(newcomer, R, 1), ShareVerdict::Refused);
        let first = ledger.attach(remote(0));
        ledger.charge(first, R, 1);
        assert!(matches!(ledger.verdict(newcomer, R, 1), ShareVerdict::Evict(_)), "one holds two");
    }

    #[test]
    #[should_panic(expected = "is gone")]
    #[cfg(debug_assertions)]
    fn departed_principal_is_not_charged() {
        let mut ledger = ledger(10, Reserves::NONE);
        let index = ledger.attach(remote(1));
        ledger.charge(index, R, 1);
        ledger.detach(index);
        ledger.release(index, R, 1);
        ledger.charge(index, R, 1);
    }

    /// A table whose places are searched a few at a time, as a shard does.
    struct Table {
        ledger: Ledger<Places, 1>,
        /// The holder of each place.
        places: Vec<Option<usize>>,
        indices: [PrincipalIndex; 6],
        clock_hand: usize,
    }

    impl Table {
        const STEPS: usize = 4;

        fn new(places: usize, reserves: Reserves) -> Self {
            let spare = places / Self::STEPS;
            let capacity =
                Capacity::of(places - spare).with_spare(u32::try_from(spare).unwrap_or(0));
            let mut ledger = Ledger::new([capacity], reserves);
            let keys = [
                PrincipalKey::Management,
                local(1),
                local(2),
                PrincipalKey::Neighbour { face_id: 1 },
                remote(1),
                remote(2),
            ];
            let indices = keys.map(|key| ledger.attach(key));
            Self { ledger, places: vec![None; places], indices, clock_hand: 0 }
        }

        fn admit(&mut self, principal: usize) -> bool {
            let mut steps = Self::STEPS;
            loop {
                let limits = match self.ledger.verdict(self.indices[principal], R, 1) {
                    ShareVerdict::Room => return true,
                    ShareVerdict::Refused => return false,
                    ShareVerdict::Evict(limits) => limits,
                };
                let exceeds = |holder: usize| self.ledger.exceeds(self.indices[holder], R, limits);
                loop {
                    if steps == 0 {
                        return self.ledger.has_spare(self.indices[principal], R, 1);
                    }
                    steps -= 1;
                    self.clock_hand = (self.clock_hand + 1) % self.places.len();
                    if self.places[self.clock_hand].is_some_and(exceeds) {
                        break;
                    }
                }
                self.set(self.clock_hand, None);
            }
        }

        fn set(&mut self, place: usize, holder: Option<usize>) {
            if let Some(next) = holder {
                self.ledger.charge(self.indices[next], R, 1);
            }
            if let Some(previous) = std::mem::replace(&mut self.places[place], holder) {
                self.ledger.release(self.indices[previous], R, 1);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        /// However long the search takes, there is a place for a principal below its share or within the reserve of
        /// its class.
        #[test]
        fn spare_places_suffice_until_the_search_finds_a_victim(
            places in 10..100_usize,
            percents in [0..20_u8, 0..40_u8, 0..30_u8],
            requests in proptest::collection::vec((0..6_usize, 0..10_u8, any::<usize>()), 0..600),
        ) {
            let [management, local_part, neighbour] = percents;
            let reserves = Reserves { management, local: local_part, neighbour };
            let mut table = Table::new(places, reserves);
            for (principal, what, place) in requests {
                let place = place % places;
                if what == 0 {
                    table.set(place, None);
                    continue;
                }
                let division = table.ledger.divisions[0];
                let class = table.ledger.class(table.indices[principal]).index();
                let is_reserved = division.used[class] < division.reserves[class];
                let held = table.indices.map(|index| table.ledger.held(index, R));
                let capacity = division.capacity as usize;
                let is_below = (held[principal] as usize) < share(capacity, percents, held, principal);
                let is_admitted = table.admit(principal);
                prop_assert!(is_admitted || !is_reserved, "within its reserve");
                prop_assert!(is_admitted || !is_below || division.open < 6, "below its share");
                if is_admitted {
                    let free = table.places.iter().position(Option::is_none);
                    prop_assert!(free.is_some(), "no place is free");
                    // Another one pays for a place, or a place is taken.
                    let is_moved = what == 1 && table.places[place].is_some();
                    let place = if is_moved { place } else { free.unwrap_or_default() };
                    table.set(place, Some(principal));
                }
            }
        }
    }

    /// One in four requests releases instead.
    fn requests() -> impl Strategy<Value = Vec<(usize, bool)>> {
        proptest::collection::vec((0..6_usize, prop::bool::weighted(0.75)), 0..600)
    }

    proptest! {
        /// The table never overflows, a principal below its share is never refused, and when it
        /// has to displace another, there is one.
        #[test]
        fn principal_below_its_share_is_never_refused(
            capacity in 1..80_usize,
            percents in [0..20_u8, 0..40_u8, 0..30_u8],
            requests in requests(),
        ) {
            let [management, local_part, neighbour] = percents;
            let reserves = Reserves { management, local: local_part, neighbour };
            let mut ledger = ledger(capacity, reserves);
            let keys = [
                PrincipalKey::Management, local(1), local(2),
                PrincipalKey::Neighbour { face_id: 1 }, remote(1), remote(2),
            ];
            let indices = keys.map(|key| ledger.attach(key));
            for (principal, takes) in requests {
                let index = indices[principal];
                if !takes {
                    if ledger.held(index, R) > 0 {
                        ledger.release(index, R, 1);
                    }
                    continue;
                }
                match ledger.verdict(index, R, 1) {
                    ShareVerdict::Room => ledger.charge(index, R, 1),
                    ShareVerdict::Refused => {
                        let held = indices.map(|index| ledger.held(index, R));
                        let is_below = (held[principal] as usize) < share(capacity, percents, held, principal);
                        // Shares of less than one place are rounded up.
                        prop_assert!(!is_below || ledger.divisions[0].open < 6);
                    }
                    ShareVerdict::Evict(limits) => {
                        let victim = indices.iter().find(|&&it| ledger.exceeds(it, R, limits));
                        // Shares of less than one place are rounded up.
                        if let Some(&victim) = victim {
                            ledger.release(victim, R, 1);
                            prop_assert_eq!(ledger.verdict(index, R, 1), ShareVerdict::Room);
                            ledger.charge(index, R, 1);
                        } else {
                            prop_assert!(ledger.divisions[0].open < 6, "nobody is above");
                        }
                    }
                }
                prop_assert!(ledger.divisions[0].total as usize <= capacity);
            }
            for index in indices {
                for _ in 0..ledger.held(index, R) {
                    ledger.release(index, R, 1);
                }
            }
            prop_assert!(ledger.report().is_zero());
        }
    }
}
