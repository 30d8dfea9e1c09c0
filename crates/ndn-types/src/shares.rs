//! The policy by which principals share a scarce resource.
//!
//! **Reserves.** A class of principals other than [`PrincipalClass::Remote`] has a reserve of each
//! resource that the other classes cannot use. What is left is open to all.
//!
//! **Shares.** The share of a principal is an equal part of what is open to all, among all
//! principals that hold something of the resource, and an equal part of the reserve of its class,
//! among those of its class; at least the floor of the resource, below which a share is of no use.
//! While there is room, a principal may hold more than its share. When there is none, a principal
//! at its share or above it is refused, and for one below it, what principals above their shares
//! hold is to give way. As the shares add up to no more than the resource, somebody is above his
//! share whenever somebody below finds no room. Only if there are more principals than floors fit
//! is one below its share refused. Within the reserve of its class, a principal is never above its
//! share.
//!
//! **Example.** A table has 1,000 places, of which 100 are the reserve of local applications; 900 are
//! open to all. A remote peer A takes 900 and is refused the next one: the other 100 are not for it.
//! A remote peer B asks for a place. With two principals the share of each is 450, so A gives way
//! for B, place by place, until both hold 450. A local application takes 100 places at once, and
//! asks for one more. Its share is 900 / 3 + 100 = 400, those of A and B are 300 now: they give way,
//! until all have their shares. When it holds nothing any more, A and B get 450 again, and its 100
//! places are free for the next application.
//!
//! **Spare places.** Finding what gives way can take long. A resource may have some places beyond its
//! capacity, which are taken meanwhile.

use crate::PrincipalClass;

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

/// The size of a scarce resource, in its units: places, bytes, connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    units: u32,
    floor: u32,
    spare: u32,
}

impl Capacity {
    /// More units count as this number: sums beyond a capacity do not overflow.
    const UNITS_MAX: u32 = 1 << 30;

    /// A resource of `units` units, 2^30 at most, of which a share of one is of use.
    #[must_use]
    pub fn of(units: usize) -> Self {
        Self::with_floor(units, 1)
    }

    /// As [`of`](Self::of), with a least share of `floor` units.
    #[must_use]
    pub fn with_floor(units: usize, floor: usize) -> Self {
        let saturated = |count| u32::try_from(count).unwrap_or(u32::MAX).min(Self::UNITS_MAX);
        Self { units: saturated(units), floor: saturated(floor).max(1), spare: 0 }
    }

    /// There are `spare` units more, for the time that the search for what gives way takes.
    #[must_use]
    pub const fn with_spare(self, spare: u32) -> Self {
        Self { spare, ..self }
    }
}

/// The use of one scarce resource by the classes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Division {
    pub(crate) capacity: u32,
    /// Capacity without the reserves.
    pub(crate) open: u32,
    pub(crate) total: u32,
    floor: u32,
    spare: u32,
    pub(crate) reserves: [u32; PrincipalClass::COUNT],
    pub(crate) used: [u32; PrincipalClass::COUNT],
    /// Number of principals that hold something.
    active: [u32; PrincipalClass::COUNT],
}

impl Division {
    pub(crate) fn new(capacity: Capacity, reserves: Reserves) -> Self {
        let Capacity { units, floor, spare } = capacity;
        let reserves = reserves.of(units);
        let open = units.saturating_sub(reserves.iter().sum());
        let none = [0; PrincipalClass::COUNT];
        Self { capacity: units, open, total: 0, floor, spare, reserves, used: none, active: none }
    }

    /// A principal that held `held` takes `count` units.
    #[inline]
    pub(crate) fn add(&mut self, class: PrincipalClass, held: u32, count: u32) {
        self.active[class.index()] += u32::from(held == 0);
        self.used[class.index()] += count;
        self.total += count;
    }

    /// A principal gives `count` units back and holds `held` then.
    #[inline]
    pub(crate) fn remove(&mut self, class: PrincipalClass, held: u32, count: u32) {
        self.used[class.index()] -= count;
        self.total -= count;
        self.active[class.index()] -= u32::from(held == 0);
    }

    /// Units in use of the part that is open to all.
    fn used_of_open(&self) -> u32 {
        let classes = self.used.iter().zip(self.reserves);
        classes.map(|(used, reserve)| used.saturating_sub(reserve)).sum()
    }

    /// Whether a class takes `count` units more from its reserve alone.
    fn is_reserved(&self, class: PrincipalClass, count: u32) -> bool {
        let class = class.index();
        count <= self.reserves[class].saturating_sub(self.used[class])
    }

    /// Units that are missing if a class takes `count` more.
    fn missing(&self, class: PrincipalClass, count: u32) -> u32 {
        if self.is_reserved(class, count) {
            // However much others use of what is open to all, the reserve is for this class.
            return (self.total + count).saturating_sub(self.capacity);
        }
        let class = class.index();
        let reserved = self.reserves[class].saturating_sub(self.used[class]);
        let required = self.used_of_open().saturating_add(count - reserved);
        required.saturating_sub(self.open)
    }

    /// Units that a class can take without a unit of another.
    pub(crate) fn free(&self, class: PrincipalClass) -> u32 {
        let class = class.index();
        let reserved = self.reserves[class].saturating_sub(self.used[class]);
        let open = self.open.saturating_sub(self.used_of_open());
        (reserved + open).min(self.capacity.saturating_sub(self.total))
    }

    /// Whether a class may take `count` units more before what gives way for them is found.
    pub(crate) fn has_spare(&self, class: PrincipalClass, count: u32) -> bool {
        self.missing(class, count) <= self.spare
    }

    /// Shares by class, with one more active principal in `newcomer`.
    pub(crate) fn shares(&self, newcomer: Option<PrincipalClass>) -> [u32; PrincipalClass::COUNT] {
        let is_new = |class: usize| u32::from(newcomer.is_some_and(|new| new.index() == class));
        let active = |class: usize| self.active[class] + is_new(class);
        let all: u32 = (0..PrincipalClass::COUNT).map(active).sum();
        std::array::from_fn(|class| {
            let of_reserve = self.reserves[class] / active(class).max(1);
            (self.open / all.max(1) + of_reserve).max(self.floor)
        })
    }

    /// May a principal that holds `held` take `count` units more?
    pub(crate) fn verdict(&self, own: PrincipalClass, held: u32, count: u32) -> ShareVerdict {
        if self.missing(own, count) == 0 {
            return ShareVerdict::Room;
        }
        let newcomer = (held == 0).then_some(own);
        let shares = self.shares(newcomer);
        let limits = self.limits(shares, Some(own));
        let is_within_share = held + count <= shares[own.index()] || self.is_reserved(own, count);
        if is_within_share && self.may_exceed(limits) {
            ShareVerdict::Evict(limits)
        } else {
            ShareVerdict::Refused
        }
    }

    /// Of something of which all is taken: the limits above which others give way to a principal that holds `held`, if
    /// it may have one unit more. For a principal within the reserve of its class, others give way also if all have their
    /// shares.
    pub(crate) fn limits_for(&self, own: PrincipalClass, held: u32) -> Option<Limits> {
        if self.is_reserved(own, 1) {
            return Some(Limits(PrincipalClass::ALL.map(|class| {
                let class = class.index();
                if self.used[class] > self.reserves[class] { 0 } else { u32::MAX }
            })));
        }
        match self.verdict(own, held, 1) {
            ShareVerdict::Evict(limits) => Some(limits),
            ShareVerdict::Room | ShareVerdict::Refused => None,
        }
    }

    /// Whether any principal can be above its limit: each holds one unit at least, so one of them holds the others at
    /// most. Nobody is if the principals are more than the units.
    fn may_exceed(&self, limits: Limits) -> bool {
        (0..PrincipalClass::COUNT).any(|class| {
            let others = self.active[class].saturating_sub(1);
            self.used[class].saturating_sub(others) > limits.0[class]
        })
    }

    /// Limits above which principals make room for the class `own`, or in the part that is open to all.
    fn limits(&self, shares: [u32; PrincipalClass::COUNT], own: Option<PrincipalClass>) -> Limits {
        Limits(PrincipalClass::ALL.map(|class| {
            // What a class holds within its reserve makes room for that class only.
            let (class, is_own) = (class.index(), own == Some(class));
            let helps = is_own || self.used[class] > self.reserves[class];
            if helps { shares[class] } else { u32::MAX }
        }))
    }

    /// While more is used than there is: who has to give back, and how much in all.
    pub(crate) fn excess(&self) -> Option<(Limits, u32)> {
        let excess = self.used_of_open().checked_sub(self.open).filter(|excess| *excess > 0)?;
        Some((self.limits(self.shares(None), None), excess))
    }
}

/// May a principal take something more of a resource?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareVerdict {
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

impl Limits {
    /// The limit of a class.
    #[inline]
    pub(crate) const fn of(self, class: PrincipalClass) -> u32 {
        self.0[class.index()]
    }

    /// The same classes give way, with everything that they hold.
    pub(crate) fn without_shares(self) -> Self {
        Self(self.0.map(|limit| if limit == u32::MAX { limit } else { 0 }))
    }
}
