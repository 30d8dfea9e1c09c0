//! The ledger of a shard: who holds how much of each scarce table, and what each may hold.
//!
//! Every place of a table is charged to a principal ([`PrincipalKey`]): to the principal of the
//! downstream whose Interest took it. The tables charge and give back themselves, so a place cannot
//! be freed without its charge. A charge is the increment of a counter in a record that the packets
//! of a principal share.
//!
//! **Reserves.** A class of principals other than [`PrincipalClass::Remote`] has a reserve of each
//! table that the other classes cannot use. What is left of the table is open to all.
//!
//! **Shares.** The share of a principal is an equal part of what is open to all, among all
//! principals that hold something of the table, and an equal part of the reserve of its class,
//! among those of its class. While there is room, a principal may hold more than its share. When
//! there is none, a principal at its share or above it is refused, and for one below it, what
//! principals above their shares hold is evicted. As the shares add up to no more than the table,
//! somebody is above his share whenever somebody below finds no room.

use std::collections::{BTreeMap, HashMap};

use ndn_types::{PrincipalClass, PrincipalKey};

/// Number of principals that a shard distinguishes. What further ones take is charged to
/// [`PrincipalKey::OTHER`].
const PRINCIPALS_MAX: usize = 1 << 15;
/// Number of IPv6 networks of 64 bits that are distinguished within one of 48 bits. Further ones
/// share a principal.
const NETWORKS_PER_SITE_MAX: u32 = 16;

/// A principal in the ledger of one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PrincipalIndex(u16);

impl PrincipalIndex {
    /// [`PrincipalKey::OTHER`], which every ledger has.
    pub const OTHER: Self = Self(0);
}

/// A scarce table of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Resource {
    /// PIT entries. An entry is charged to the principal of its first in-record.
    Entries,
    /// In-records beyond the first of their entry, charged to the principal of the downstream.
    InRecords,
    /// Out-records beyond the first of their entry, charged to the principal of the entry.
    OutRecords,
    /// PIT tokens that are too long for their in-record.
    LongTokens,
    /// Memory for Interests that are too long for their entry, in blocks of
    /// [`LONG_BLOCK_BYTES`](Self::LONG_BLOCK_BYTES).
    LongBlocks,
    /// Places in the table of short-prefix Interests.
    ShortPrefixes,
}

impl Resource {
    /// All resources, in the order of [`index`](Self::index).
    pub const ALL: [Self; 6] = [
        Self::Entries,
        Self::InRecords,
        Self::OutRecords,
        Self::LongTokens,
        Self::LongBlocks,
        Self::ShortPrefixes,
    ];
    /// Number of resources.
    pub const COUNT: usize = Self::ALL.len();
    /// Unit of [`Self::LongBlocks`], bytes.
    pub const LONG_BLOCK_BYTES: usize = 64;

    /// Position in [`ALL`](Self::ALL).
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Name in output and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Entries => "pit_entries",
            Self::InRecords => "further_in_records",
            Self::OutRecords => "further_out_records",
            Self::LongTokens => "long_pit_tokens",
            Self::LongBlocks => "long_interest_blocks",
            Self::ShortPrefixes => "short_prefix_interests",
        }
    }
}

/// Reserves of the classes, as a percentage of each table. Their sum is at most 90.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserves {
    /// Of management.
    pub management: u8,
    /// Of applications on this host.
    pub local: u8,
    /// Of faces that the configuration or an operator made.
    pub neighbour: u8,
}

impl Default for Reserves {
    fn default() -> Self {
        Self { management: 1, local: 10, neighbour: 20 }
    }
}

impl Reserves {
    /// No reserves: all principals have equal shares.
    pub const NONE: Self = Self { management: 0, local: 0, neighbour: 0 };

    fn of(self, capacity: u32) -> [u32; PrincipalClass::COUNT] {
        let part = |percent: u8| {
            let places = u64::from(capacity) * u64::from(percent) / 100;
            u32::try_from(places).unwrap_or(u32::MAX)
        };
        [part(self.management), part(self.local), part(self.neighbour), 0]
    }
}

/// What a principal holds.
#[derive(Debug, Clone, Copy)]
struct Account {
    held: [u32; Resource::COUNT],
    /// Number of its faces.
    faces: u32,
    class: PrincipalClass,
    key: PrincipalKey,
}

/// One scarce table.
#[derive(Debug, Clone, Copy, Default)]
struct Table {
    capacity: u32,
    /// Capacity without the reserves.
    open: u32,
    total: u32,
    reserves: [u32; PrincipalClass::COUNT],
    used: [u32; PrincipalClass::COUNT],
    /// Number of principals that hold something.
    active: [u32; PrincipalClass::COUNT],
}

impl Table {
    fn new(capacity: usize, reserves: Reserves) -> Self {
        let capacity = u32::try_from(capacity).unwrap_or(u32::MAX);
        let reserves = reserves.of(capacity);
        let open = capacity.saturating_sub(reserves.iter().sum());
        Self { capacity, open, reserves, ..Self::default() }
    }

    /// Whether a class may take `count` places more.
    fn has_room(&self, class: PrincipalClass, count: u32) -> bool {
        let places = self.used.iter().zip(self.reserves);
        let in_open: u32 = places.map(|(used, reserve)| used.saturating_sub(reserve)).sum();
        let class = class.index();
        let reserved = self.reserves[class].saturating_sub(self.used[class]);
        in_open.saturating_add(count.saturating_sub(reserved)) <= self.open
    }

    /// Shares by class, with one more active principal in `newcomer`.
    fn shares(&self, newcomer: Option<PrincipalClass>) -> [u32; PrincipalClass::COUNT] {
        let is_new = |class: usize| u32::from(newcomer.is_some_and(|new| new.index() == class));
        let active = |class: usize| self.active[class] + is_new(class);
        let all: u32 = (0..PrincipalClass::COUNT).map(active).sum();
        std::array::from_fn(|class| {
            let of_reserve = self.reserves[class] / active(class).max(1);
            (self.open / all.max(1) + of_reserve).max(1)
        })
    }
}

/// May a principal take something more of a table?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Yes, there is room.
    Room,
    /// Yes, in place of what others hold above these limits.
    Evict(Limits),
    /// No, it has its share.
    Refused,
}

/// Limits by class above which principals give way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits([u32; PrincipalClass::COUNT]);

/// What each principal holds of the tables of a shard.
#[derive(Debug)]
pub struct Ledger {
    accounts: Vec<Account>,
    tables: [Table; Resource::COUNT],
    by_key: HashMap<PrincipalKey, PrincipalIndex>,
    /// Number of principals by network of 48 bits.
    networks: HashMap<PrincipalKey, u32>,
    free: Vec<PrincipalIndex>,
}

impl Ledger {
    pub(crate) fn new(capacities: [usize; Resource::COUNT], reserves: Reserves) -> Self {
        let mut ledger = Self {
            accounts: Vec::new(),
            tables: capacities.map(|capacity| Table::new(capacity, reserves)),
            by_key: HashMap::new(),
            networks: HashMap::new(),
            free: Vec::new(),
        };
        // It stays: nothing else ends the attachment.
        let other = ledger.attach(PrincipalKey::OTHER);
        debug_assert_eq!(other, PrincipalIndex::OTHER);
        ledger
    }

    /// Adds a face of a principal.
    pub fn attach(&mut self, key: PrincipalKey) -> PrincipalIndex {
        let index = self.find_or_add(key);
        self.account_mut(index).faces += 1;
        index
    }

    /// Removes a face of a principal.
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
        if let Some(site) = key.site() {
            let networks = self.networks.entry(site).or_insert(0);
            if *networks >= NETWORKS_PER_SITE_MAX {
                return self.find_or_add(site);
            }
            *networks += 1;
        }
        let account = Account { held: [0; Resource::COUNT], faces: 0, class: key.class(), key };
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
                self.forget_network(key);
                return PrincipalIndex::OTHER;
            }
        };
        self.by_key.insert(key, index);
        index
    }

    fn forget_network(&mut self, key: PrincipalKey) {
        let Some(site) = key.site() else { return };
        let Some(networks) = self.networks.get_mut(&site) else { return };
        *networks -= 1;
        if *networks == 0 {
            self.networks.remove(&site);
        }
    }

    #[cold]
    fn retire_if_unused(&mut self, index: PrincipalIndex) {
        let Account { held, faces, key, .. } = *self.account(index);
        if faces == 0 && held.iter().all(|held| *held == 0) {
            self.by_key.remove(&key);
            self.forget_network(key);
            self.free.push(index);
        }
    }

    /// Charges `count` places to a principal.
    #[inline]
    pub(crate) fn charge(&mut self, index: PrincipalIndex, resource: Resource, count: u32) {
        let account = &mut self.accounts[usize::from(index.0)];
        let table = &mut self.tables[resource.index()];
        let held = &mut account.held[resource.index()];
        table.active[account.class.index()] += u32::from(*held == 0);
        *held += count;
        table.used[account.class.index()] += count;
        table.total += count;
    }

    /// Gives `count` places back.
    #[inline]
    pub(crate) fn release(&mut self, index: PrincipalIndex, resource: Resource, count: u32) {
        let account = &mut self.accounts[usize::from(index.0)];
        let table = &mut self.tables[resource.index()];
        let held = &mut account.held[resource.index()];
        debug_assert!(*held >= count, "{} gives back what it does not hold", account.key);
        *held -= count;
        table.used[account.class.index()] -= count;
        table.total -= count;
        if *held == 0 {
            table.active[account.class.index()] -= 1;
            if account.faces == 0 {
                self.retire_if_unused(index);
            }
        }
    }

    /// Whether there is room for everybody, without touching the reserves.
    #[must_use]
    #[inline]
    pub fn is_open(&self, resource: Resource, count: u32) -> bool {
        let table = &self.tables[resource.index()];
        table.total + count <= table.open
    }

    /// Whether a principal may take `count` places more.
    #[must_use]
    #[cold]
    pub fn verdict(&self, index: PrincipalIndex, resource: Resource, count: u32) -> Verdict {
        let account = self.account(index);
        let table = &self.tables[resource.index()];
        if table.has_room(account.class, count) {
            return Verdict::Room;
        }
        let held = account.held[resource.index()];
        let newcomer = (held == 0).then_some(account.class);
        let shares = table.shares(newcomer);
        if held + count > shares[account.class.index()] {
            return Verdict::Refused;
        }
        // What a class holds within its reserve makes room for that class only.
        let own = account.class.index();
        Verdict::Evict(Limits(std::array::from_fn(|class| {
            let helps = class == own || table.used[class] > table.reserves[class];
            if helps { shares[class] } else { u32::MAX }
        })))
    }

    /// Whether a principal holds more than its limit, and so gives way.
    #[must_use]
    #[inline]
    pub fn exceeds(&self, index: PrincipalIndex, resource: Resource, limits: Limits) -> bool {
        let account = self.account(index);
        account.held[resource.index()] > limits.0[account.class.index()]
    }

    /// What a principal holds.
    #[must_use]
    pub fn held(&self, index: PrincipalIndex, resource: Resource) -> u32 {
        self.account(index).held[resource.index()]
    }

    /// The class of a principal.
    #[must_use]
    pub fn class(&self, index: PrincipalIndex) -> PrincipalClass {
        self.account(index).class
    }

    /// What is held of each table, by principal.
    #[must_use]
    pub fn report(&self) -> LedgerReport {
        let tables = Resource::ALL.map(|resource| {
            let Table { capacity, total, reserves, used, .. } = self.tables[resource.index()];
            let shares = self.tables[resource.index()].shares(None);
            TableReport { capacity, total, reserves, used, shares }
        });
        let principals = self.by_key.iter().map(|(&key, &index)| {
            let Account { held, faces, .. } = *self.account(index);
            PrincipalReport { key, faces, held }
        });
        LedgerReport { tables, principals: principals.collect() }
    }

    /// Whether the ledger has exactly these charges.
    pub(crate) fn agrees_with(
        &self,
        held: &BTreeMap<PrincipalIndex, [u32; Resource::COUNT]>,
    ) -> bool {
        let known = self.by_key.values().map(|&index| (index, self.account(index).held));
        let known = known.filter(|(_, held)| *held != [0; Resource::COUNT]);
        let mut sums = [[0; PrincipalClass::COUNT]; Resource::COUNT];
        for (index, held) in held {
            for (sum, held) in sums.iter_mut().zip(held) {
                sum[self.class(*index).index()] += held;
            }
        }
        let are_sums = self
            .tables
            .iter()
            .zip(sums)
            .all(|(table, sum)| table.used == sum && table.total == sum.iter().sum::<u32>());
        are_sums && known.collect::<BTreeMap<_, _>>() == *held
    }

    fn account(&self, index: PrincipalIndex) -> &Account {
        &self.accounts[usize::from(index.0)]
    }

    fn account_mut(&mut self, index: PrincipalIndex) -> &mut Account {
        &mut self.accounts[usize::from(index.0)]
    }
}

/// What a ledger knows, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerReport {
    /// The tables, in the order of [`Resource::ALL`].
    pub tables: [TableReport; Resource::COUNT],
    /// The principals that have faces or hold something, in no order.
    pub principals: Vec<PrincipalReport>,
}

impl LedgerReport {
    /// Whether nothing is held.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        let holds_nothing = |principal: &PrincipalReport| principal.held == [0; Resource::COUNT];
        self.tables.iter().all(|table| table.total == 0)
            && self.principals.iter().all(holds_nothing)
    }
}

/// One table. Arrays are in the order of [`PrincipalClass::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableReport {
    /// Places of the table.
    pub capacity: u32,
    /// Places in use.
    pub total: u32,
    /// Reserves of the classes.
    pub reserves: [u32; PrincipalClass::COUNT],
    /// Places in use by the classes.
    pub used: [u32; PrincipalClass::COUNT],
    /// Share of a principal of each class.
    pub shares: [u32; PrincipalClass::COUNT],
}

/// One principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrincipalReport {
    /// The principal.
    pub key: PrincipalKey,
    /// Number of its faces.
    pub faces: u32,
    /// What it holds of each table, in the order of [`Resource::ALL`].
    pub held: [u32; Resource::COUNT],
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

    use proptest::prelude::*;

    use super::*;

    const R: Resource = Resource::Entries;

    fn ledger(capacity: usize, reserves: Reserves) -> Ledger {
        Ledger::new([capacity; Resource::COUNT], reserves)
    }

    fn remote(number: u32) -> PrincipalKey {
        PrincipalKey::remote((Ipv4Addr::from_bits(number), 1).into())
    }

    fn local(pid: u32) -> PrincipalKey {
        PrincipalKey::LocalApplication { uid: 1, pid }
    }

    #[test]
    fn remote_principals_never_use_the_reserves() {
        let mut ledger = ledger(1000, Reserves { management: 5, local: 10, neighbour: 20 });
        let peer = ledger.attach(remote(1));
        let mut taken = 0;
        while ledger.verdict(peer, R, 1) == Verdict::Room {
            ledger.charge(peer, R, 1);
            taken += 1;
        }
        assert_eq!(taken, 650);
        assert_eq!(ledger.verdict(peer, R, 1), Verdict::Refused);
        for (key, reserve) in [
            (PrincipalKey::Management, 50),
            (local(1), 100),
            (PrincipalKey::Neighbour { face_id: 300 }, 200),
        ] {
            let index = ledger.attach(key);
            for number in 0..reserve {
                assert_eq!(ledger.verdict(index, R, 1), Verdict::Room, "{key} {number}");
                ledger.charge(index, R, 1);
            }
            assert_ne!(ledger.verdict(index, R, 1), Verdict::Room, "{key}");
        }
    }

    #[test]
    fn principal_below_its_share_displaces_one_above() {
        let mut ledger = ledger(100, Reserves::NONE);
        let [greedy, modest] = [1, 2].map(|number| ledger.attach(remote(number)));
        ledger.charge(greedy, R, 100);
        let Verdict::Evict(limits) = ledger.verdict(modest, R, 1) else { panic!("no eviction") };
        assert!(ledger.exceeds(greedy, R, limits) && !ledger.exceeds(modest, R, limits));
        ledger.release(greedy, R, 50);
        ledger.charge(modest, R, 50);
        assert_eq!(ledger.verdict(modest, R, 1), Verdict::Refused, "both have their shares");
        assert_eq!(ledger.verdict(greedy, R, 1), Verdict::Refused);
    }

    #[test]
    fn use_of_the_own_reserve_is_evicted_for_the_same_class_only() {
        let mut ledger = ledger(100, Reserves { management: 0, local: 20, neighbour: 0 });
        let [first, second] = [1, 2].map(|pid| ledger.attach(local(pid)));
        let peers = [1, 2].map(|number| ledger.attach(remote(number)));
        ledger.charge(first, R, 20);
        ledger.charge(peers[0], R, 80);
        let Verdict::Evict(limits) = ledger.verdict(peers[1], R, 1) else { panic!("no eviction") };
        assert!(ledger.exceeds(peers[0], R, limits));
        assert!(!ledger.exceeds(first, R, limits), "it uses the reserve");
        assert!(matches!(ledger.verdict(second, R, 1), Verdict::Evict(_)));
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
        assert_eq!(distinct.len(), NETWORKS_PER_SITE_MAX as usize + 1);
        indices.into_iter().for_each(|index| ledger.detach(index));
        assert_eq!(ledger.report().principals.len(), 1, "only the one for others");
        assert!(ledger.networks.is_empty());
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
    fn principal_without_faces_is_known_while_it_holds_something() {
        let mut ledger = ledger(100, Reserves::NONE);
        let peer = ledger.attach(remote(1));
        ledger.charge(peer, R, 3);
        ledger.detach(peer);
        assert_eq!(ledger.attach(remote(1)), peer);
        ledger.detach(peer);
        ledger.release(peer, R, 3);
        assert_eq!(ledger.report().principals.len(), 1);
    }

    /// One in four requests releases instead.
    fn requests() -> impl Strategy<Value = Vec<(usize, bool)>> {
        proptest::collection::vec((0..6_usize, prop::bool::weighted(0.75)), 0..600)
    }

    proptest! {
        /// The table never overflows, a principal below its share is never refused, and when it
        /// has to displace another, there is one.
        #[test]
        fn below_its_share_nobody_is_refused(
            capacity in 1..80_usize,
            percents in (0..20_u8, 0..30_u8, 0..40_u8),
            requests in requests(),
        ) {
            let (management, neighbour, local_part) = percents;
            let reserves = Reserves { management, local: local_part, neighbour };
            let mut ledger = ledger(capacity, reserves);
            let keys = [
                PrincipalKey::Management, local(1), local(2),
                PrincipalKey::Neighbour { face_id: 1 }, remote(1), remote(2),
            ];
            let indices = keys.map(|key| ledger.attach(key));
            for (who, takes) in requests {
                let index = indices[who];
                if !takes {
                    if ledger.held(index, R) > 0 {
                        ledger.release(index, R, 1);
                    }
                    continue;
                }
                match ledger.verdict(index, R, 1) {
                    Verdict::Room => ledger.charge(index, R, 1),
                    Verdict::Refused => {
                        let is_new = ledger.held(index, R) == 0;
                        let newcomer = is_new.then_some(ledger.class(index));
                        let shares = ledger.tables[R.index()].shares(newcomer);
                        let class = ledger.class(index).index();
                        prop_assert!(ledger.held(index, R) >= shares[class]);
                    }
                    Verdict::Evict(limits) => {
                        let victim = indices.iter().find(|&&it| ledger.exceeds(it, R, limits));
                        // Shares of less than one place are rounded up.
                        if let Some(&victim) = victim {
                            ledger.release(victim, R, 1);
                            prop_assert_eq!(ledger.verdict(index, R, 1), Verdict::Room);
                            ledger.charge(index, R, 1);
                        } else {
                            prop_assert!(ledger.tables[R.index()].open < 6, "nobody is above");
                        }
                    }
                }
                prop_assert!(ledger.tables[R.index()].total as usize <= capacity);
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
