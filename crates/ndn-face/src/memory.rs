//! Memory that the faces of a worker share, divided between principals.

use ndn_table::FaceIndex;
use ndn_types::{
    Capacity, LedgerReport, PrincipalIndex, PrincipalKey, RankedLedger, Reserves, Resources,
};

/// Least share of a principal in the memory for output: some of the largest packets.
const OUTPUT_SHARE_MIN: usize = 64 << 10;
/// Least share of a principal in the memory for reassembly: one of the largest packets, and what is kept beside it.
const REASSEMBLY_SHARE_MIN: usize = 16 << 10;
/// Memory for link reliability of the faces of a worker, and the least share of a principal: a few frames.
const RELIABILITY_BYTES_MAX: usize = 32 << 20;
const RELIABILITY_SHARE_MIN: usize = 64 << 10;

/// The memory of the face layer, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryKind {
    /// Frames that wait for peers that do not read.
    Output,
    /// Messages of which not all fragments have arrived.
    Reassembly,
    /// Frames that reliable links may have to send again, and the numbers of received ones.
    Reliability,
}

impl MemoryKind {
    /// Number of kinds.
    pub const COUNT: usize = 3;
}

impl Resources<{ MemoryKind::COUNT }> for MemoryKind {
    const ALL: [Self; Self::COUNT] = [Self::Output, Self::Reassembly, Self::Reliability];

    #[inline]
    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            Self::Output => "output_bytes",
            Self::Reassembly => "reassembly_bytes",
            Self::Reliability => "reliability_bytes",
        }
    }
}

/// Memory of a worker's faces that principals hold.
pub type MemoryReport = LedgerReport<{ MemoryKind::COUNT }>;

/// A face in the books of its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder(u32);

impl Holder {
    /// A link service that is not a face of a worker.
    pub const UNACCOUNTED: Self = Self(0);
}

/// Memory of a face.
#[derive(Debug, Clone, Copy, Default)]
struct FaceAccount {
    /// `None` for [`Holder::UNACCOUNTED`].
    face: Option<FaceIndex>,
    principal: PrincipalIndex,
    held: [u32; MemoryKind::COUNT],
    /// Whether it is in the lists of its principal.
    listed: [[bool; 2]; MemoryKind::COUNT],
}

/// The step by which a face gives memory back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EvictionStep {
    /// It drops frames or messages.
    Shed = 0,
    /// It closes: what is left is a part of a frame or of a WebSocket message, without which its connection is of no
    /// use.
    Close = 1,
}

/// The faces of a principal that have taken memory since they were asked to give it back, by [`EvictionStep`].
type Lists = [[Vec<Holder>; 2]; MemoryKind::COUNT];

/// The memory of all faces of a worker.
///
/// Within its share, a principal gets memory although none is left. What is used beyond the capacity then is taken from
/// others, once, when the worker asks for evictions: so the work is proportional to what was taken.
#[derive(Debug)]
pub struct FaceMemory {
    ledger: RankedLedger<MemoryKind, { MemoryKind::COUNT }>,
    /// By holder.
    accounts: Vec<FaceAccount>,
    unused: Vec<Holder>,
    /// By principal.
    lists: Vec<Lists>,
}

/// A demand on a face to give memory back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Eviction {
    pub(crate) face: FaceIndex,
    pub(crate) holder: Holder,
    pub(crate) step: EvictionStep,
    /// Bytes that the principal of the face may keep.
    pub(crate) keeps: u32,
}

impl FaceMemory {
    /// Memory of which nothing is used, in bytes; that for link reliability has a size of its own.
    #[must_use]
    pub fn new(output_bytes: usize, reassembly_bytes: usize, reserves: Reserves) -> Self {
        let output = Capacity::with_floor(output_bytes, OUTPUT_SHARE_MIN.min(output_bytes));
        let floor = REASSEMBLY_SHARE_MIN.min(reassembly_bytes);
        let reassembly = Capacity::with_floor(reassembly_bytes, floor);
        let reliability = Capacity::with_floor(RELIABILITY_BYTES_MAX, RELIABILITY_SHARE_MIN);
        Self {
            ledger: RankedLedger::new([output, reassembly, reliability], reserves),
            accounts: vec![FaceAccount::default()],
            unused: Vec::new(),
            lists: Vec::new(),
        }
    }

    /// Opens the account of a face.
    pub(crate) fn attach(&mut self, face: FaceIndex, key: PrincipalKey) -> Holder {
        let principal = self.attach_principal(key);
        let account = FaceAccount { face: Some(face), principal, ..FaceAccount::default() };
        if let Some(holder) = self.unused.pop() {
            self.accounts[holder.0 as usize] = account;
            return holder;
        }
        self.accounts.push(account);
        Holder(u32::try_from(self.accounts.len() - 1).unwrap_or_default())
    }

    fn attach_principal(&mut self, key: PrincipalKey) -> PrincipalIndex {
        let principal = self.ledger.attach(key);
        if principal.index() >= self.lists.len() {
            self.lists.resize_with(principal.index() + 1, Lists::default);
        }
        principal
    }

    /// Charges what a face holds to another principal: an operator has changed whose face it is.
    pub(crate) fn change_principal(&mut self, holder: Holder, key: PrincipalKey) {
        let next = self.attach_principal(key);
        let account = &mut self.accounts[holder.0 as usize];
        let previous = std::mem::replace(&mut account.principal, next);
        let FaceAccount { held, listed, .. } = *account;
        for kind in MemoryKind::ALL {
            self.ledger.charge(next, kind, held[kind.index()]);
            self.ledger.release(previous, kind, held[kind.index()]);
            for step in [EvictionStep::Shed, EvictionStep::Close] {
                if listed[kind.index()][step as usize] {
                    let list = |principal: PrincipalIndex| (principal.index(), kind.index());
                    let (from, to) = (list(previous), list(next));
                    self.lists[from.0][from.1][step as usize].retain(|listed| *listed != holder);
                    self.lists[to.0][to.1][step as usize].push(holder);
                }
            }
        }
        self.ledger.detach(previous);
    }

    /// Closes the account of a face, which has given everything back.
    pub(crate) fn detach(&mut self, holder: Holder) {
        let account = std::mem::take(&mut self.accounts[holder.0 as usize]);
        debug_assert_eq!(account.held, [0; MemoryKind::COUNT], "the face holds memory");
        let lists = self.lists[account.principal.index()].as_flattened_mut().iter_mut();
        for (list, is_listed) in lists.zip(account.listed.as_flattened()) {
            if *is_listed {
                list.retain(|listed| *listed != holder);
            }
        }
        self.ledger.detach(account.principal);
        self.unused.push(holder);
    }

    /// The memory for the output of a face.
    #[inline]
    pub fn output(&mut self, holder: Holder) -> Account<'_> {
        Account { memory: self, holder, kind: MemoryKind::Output }
    }

    /// The principal that a face is charged to.
    #[inline]
    pub(crate) fn principal(&self, holder: Holder) -> PrincipalIndex {
        self.accounts.get(holder.0 as usize).map_or(PrincipalIndex::OTHER, |one| one.principal)
    }

    /// The memory for messages that a face receives.
    #[inline]
    pub fn reassembly(&mut self, holder: Holder) -> Account<'_> {
        Account { memory: self, holder, kind: MemoryKind::Reassembly }
    }

    /// The memory for the reliable link of a face.
    #[inline]
    pub fn reliability(&mut self, holder: Holder) -> Account<'_> {
        Account { memory: self, holder, kind: MemoryKind::Reliability }
    }

    /// Memory that principals hold.
    #[must_use]
    pub fn report(&self) -> MemoryReport {
        self.ledger.report()
    }

    /// Bytes in use.
    #[must_use]
    pub fn used(&self, kind: MemoryKind) -> usize {
        self.ledger.used(kind) as usize
    }

    /// Whether an eviction may be due ([`next_eviction`](Self::next_eviction)).
    #[inline]
    pub(crate) fn is_scarce(&self) -> bool {
        MemoryKind::ALL.into_iter().any(|kind| !self.ledger.is_open(kind, 0))
    }

    /// While more is used than there is: the face that gives back next. Its account says when it is done.
    pub(crate) fn next_eviction(&mut self, kind: MemoryKind) -> Option<Eviction> {
        let debt = self.ledger.debt(kind)?;
        let lists = &mut self.lists[debt.principal.index()][kind.index()];
        for step in [EvictionStep::Shed, EvictionStep::Close] {
            while let Some(holder) = lists[step as usize].pop() {
                let account = &mut self.accounts[holder.0 as usize];
                account.listed[kind.index()][step as usize] = false;
                if account.held[kind.index()] > 0
                    && let Some(face) = account.face
                {
                    return Some(Eviction { face, holder, step, keeps: debt.keeps });
                }
            }
        }
        debug_assert!(false, "what a principal holds is held by listed faces");
        None
    }

    /// Notes what a face could not shed, after an eviction.
    pub(crate) fn note_shed(&mut self, kind: MemoryKind, eviction: Eviction, has_more: bool) {
        if self.accounts[eviction.holder.0 as usize].held[kind.index()] > 0 {
            let step = if has_more { EvictionStep::Shed } else { EvictionStep::Close };
            self.list(eviction.holder, kind, step);
        }
    }

    fn list(&mut self, holder: Holder, kind: MemoryKind, step: EvictionStep) {
        let account = &mut self.accounts[holder.0 as usize];
        let is_listed = &mut account.listed[kind.index()][step as usize];
        if account.face.is_some() && !std::mem::replace(is_listed, true) {
            self.lists[account.principal.index()][kind.index()][step as usize].push(holder);
        }
    }
}

/// The memory of one kind, as one face uses it.
#[derive(Debug)]
pub struct Account<'a> {
    memory: &'a mut FaceMemory,
    holder: Holder,
    kind: MemoryKind,
}

impl Account<'_> {
    /// The memory of another kind, as the face uses it.
    pub(crate) fn of(&mut self, kind: MemoryKind) -> Account<'_> {
        Account { memory: self.memory, holder: self.holder, kind }
    }

    fn face(&mut self) -> &mut FaceAccount {
        &mut self.memory.accounts[self.holder.0 as usize]
    }

    /// Bytes that the face holds.
    #[must_use]
    pub fn held(&self) -> usize {
        self.memory.accounts[self.holder.0 as usize].held[self.kind.index()] as usize
    }

    /// Whether the principal of the face holds more than `bytes`.
    pub(crate) fn principal_exceeds(&mut self, bytes: u32) -> bool {
        let principal = self.face().principal;
        self.memory.ledger.held(principal, self.kind) > bytes
    }

    /// Whether `bytes` more fit.
    #[must_use]
    pub fn has_room(&mut self, bytes: usize) -> bool {
        let Ok(bytes) = u32::try_from(bytes) else { return false };
        let principal = self.face().principal;
        let ledger = &self.memory.ledger;
        ledger.is_open(self.kind, bytes) || ledger.may_take(principal, self.kind, bytes)
    }

    /// Uses `bytes` more if they fit.
    #[must_use]
    pub fn take(&mut self, bytes: usize) -> bool {
        let fits = self.has_room(bytes);
        if fits {
            self.force(bytes);
        }
        fits
    }

    /// Uses `bytes` more even beyond the capacity.
    pub(crate) fn force(&mut self, bytes: usize) {
        let count = u32::try_from(bytes).unwrap_or(u32::MAX);
        if count == 0 {
            return;
        }
        let kind = self.kind;
        let face = self.face();
        face.held[kind.index()] += count;
        let principal = face.principal;
        self.memory.ledger.charge(principal, kind, count);
        self.memory.list(self.holder, kind, EvictionStep::Shed);
    }

    /// Gives `bytes` back.
    pub fn give_back(&mut self, bytes: usize) {
        let count = u32::try_from(bytes).unwrap_or(u32::MAX);
        let kind = self.kind;
        let face = self.face();
        debug_assert!(count <= face.held[kind.index()], "the face holds less");
        let count = count.min(face.held[kind.index()]);
        face.held[kind.index()] -= count;
        let principal = face.principal;
        self.memory.ledger.release(principal, kind, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: MemoryKind = MemoryKind::Output;

    fn face(slot: u32) -> FaceIndex {
        FaceIndex::new(slot, 1)
    }

    fn memory() -> FaceMemory {
        FaceMemory::new(1 << 20, 1 << 20, Reserves::NONE)
    }

    fn neighbour(face_id: u64) -> PrincipalKey {
        PrincipalKey::Neighbour { face_id }
    }

    #[test]
    fn faces_of_the_largest_principal_are_evicted_until_it_has_its_share() {
        let mut memory = memory();
        let hog = [1, 2, 3].map(|slot| memory.attach(face(slot), neighbour(1)));
        let other = memory.attach(face(4), neighbour(2));
        for holder in hog {
            assert!(memory.output(holder).take(300_000));
        }
        assert!(!memory.output(hog[0]).take(200_000));
        assert!(memory.output(other).take(400_000), "within its share");
        let mut evicted = Vec::new();
        while let Some(eviction) = memory.next_eviction(KIND) {
            assert_eq!(eviction.step, EvictionStep::Shed);
            evicted.push(eviction.face);
            let mut account = memory.output(eviction.holder);
            let held = account.held();
            account.give_back(held);
            memory.note_shed(KIND, eviction, false);
        }
        assert_eq!(evicted, [face(3)]);
        assert_eq!(memory.output(other).held(), 400_000);
    }

    #[test]
    fn faces_that_cannot_release_memory_are_closed_after_one_request() {
        let mut memory = memory();
        let hog: Vec<_> = (1..=10).map(|slot| memory.attach(face(slot), neighbour(1))).collect();
        let other = memory.attach(face(20), neighbour(2));
        for holder in &hog {
            assert!(memory.reassembly(*holder).take(100_000));
        }
        assert!(memory.reassembly(other).take(400_000));
        let (mut asked, mut closed) = (0, 0);
        while let Some(eviction) = memory.next_eviction(MemoryKind::Reassembly) {
            match eviction.step {
                EvictionStep::Shed => {
                    asked += 1;
                    memory.note_shed(MemoryKind::Reassembly, eviction, false);
                }
                EvictionStep::Close => {
                    closed += 1;
                    let mut account = memory.reassembly(eviction.holder);
                    account.give_back(account.held());
                    memory.detach(eviction.holder);
                }
            }
        }
        assert_eq!((asked, closed), (10, 4));
        assert_eq!(memory.next_eviction(MemoryKind::Reassembly), None);
    }

    #[test]
    fn memory_of_a_face_is_charged_to_its_new_principal() {
        let mut memory = memory();
        let [first, second] = [1, 2].map(|slot| memory.attach(face(slot), neighbour(1)));
        assert!(memory.output(first).take(300_000) && memory.output(second).take(400_000));
        memory.change_principal(first, neighbour(1));
        memory.change_principal(first, neighbour(2));
        let report = memory.report();
        let held = |key| {
            let of = report.principals.iter().find(|principal| principal.key == key);
            of.map(|principal| (principal.faces, principal.held[KIND.index()]))
        };
        assert_eq!(held(neighbour(1)), Some((1, 400_000)));
        assert_eq!(held(neighbour(2)), Some((1, 300_000)));
        // It is found if it is to give back.
        let other = memory.attach(face(3), neighbour(3));
        memory.output(second).give_back(400_000);
        assert!(memory.output(first).take(400_000) && memory.output(other).take(500_000));
        assert_eq!(memory.next_eviction(KIND).map(|eviction| eviction.face), Some(face(1)));
        memory.output(first).give_back(700_000);
        memory.output(other).give_back(500_000);
        [first, second, other].into_iter().for_each(|holder| memory.detach(holder));
        assert!(memory.report().is_zero() && memory.report().principals.len() == 1);
    }

    #[test]
    fn closed_face_leaves_no_charge() {
        let mut memory = memory();
        for round in 0..1000 {
            let holder = memory.attach(face(round), neighbour(1));
            assert!(memory.output(holder).take(1000) && memory.reassembly(holder).take(10));
            memory.output(holder).give_back(1000);
            memory.reassembly(holder).give_back(10);
            memory.detach(holder);
        }
        assert_eq!((memory.accounts.len(), memory.unused.len()), (2, 1));
        assert!(memory.report().is_zero());
        assert!(memory.lists.as_flattened().as_flattened().iter().all(Vec::is_empty));
    }
}
