use std::collections::VecDeque;
use std::time::Duration;

/// Millionths of a request.
pub type Amount = u64;
/// One request.
pub const REQUEST: Amount = 1_000_000;
/// Index of an object, in the order of [`VirtualPlane::add_object`].
pub type ObjectId = usize;
/// Index of a neighbour, in the order of [`VirtualPlane::add_neighbour`].
pub type NeighbourId = usize;

/// Largest `V` and largest amount of one message; more is lost and counted.
const AMOUNT_MAX: Amount = 1 << 60;
/// Slots without a message after which a neighbour is not sent to.
const SILENT_SLOTS_MAX: u32 = 3;
/// Slots of a neighbour that can end within one of this node: with equal slots that are not synchronised, two.
const NEIGHBOUR_SLOTS_MAX: u64 = 2;

/// The score by which objects are cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Score {
    /// `V` (VIP).
    Count,
    /// Mean of the VIPs that arrived per slot over the window, with local requests (VIP2).
    Arrivals,
}

/// Settings of a node.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Duration Δ of a slot, in milliseconds.
    pub slot_ms: u64,
    /// Size of the cache, in bytes.
    pub cache_bytes: u64,
    /// Rate at which the cache is read, in bytes per second.
    pub read_bytes_per_s: u64,
    /// Slots over which arrivals and sent VIPs are averaged; at least 1.
    pub window_slots: usize,
    /// Score.
    pub score: Score,
    /// Score that a cached object costs.
    pub read_penalty: Amount,
    /// Score that an object costs which was not cached in the slot before.
    pub write_penalty: Amount,
}

/// VIPs that leave for a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Receiver.
    pub neighbour: NeighbourId,
    /// Object.
    pub object: ObjectId,
    /// Amount.
    pub amount: Amount,
}

/// Sums since the creation. `requested + received` = `sent + drained + absorbed` + V of all objects + the arrivals
/// of the slot that has not ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that originated here.
    pub requested: Amount,
    /// VIPs accepted from neighbours.
    pub received: Amount,
    /// VIPs that left for neighbours.
    pub sent: Amount,
    /// VIPs that the virtual cache served, and what exceeded the largest `V`.
    pub drained: Amount,
    /// VIPs of objects that this node is a source of.
    pub absorbed: Amount,
    /// VIPs of neighbours that were refused: of unknown objects, of absent neighbours, or more than a link
    /// carries.
    pub lost: Amount,
}

#[derive(Debug)]
struct Object {
    /// Removed; its place is free for another object.
    is_vacant: bool,
    size_bytes: u64,
    is_source: bool,
    is_cached: bool,
    /// V.
    count: Amount,
    /// Arrivals of the slot that has not ended.
    arrivals: Amount,
    /// Arrivals of the slots in the window.
    window_sum: Amount,
}

/// A neighbour and the link to it.
#[derive(Debug)]
pub struct Neighbour {
    /// Of Data from the neighbour: bounds the VIPs that are sent.
    capacity_bytes_per_s: u64,
    /// Of Data to the neighbour: bounds the VIPs that are accepted.
    return_bytes_per_s: u64,
    /// Removed; its place is free for another neighbour.
    is_vacant: bool,
    is_present: bool,
    /// It confirms what it is sent.
    is_reached: bool,
    silent_slots: u32,
    /// Bytes that the VIPs received in this slot stand for.
    received_bytes: u128,
    counts: Vec<Amount>,
    is_routable: Vec<bool>,
    /// The VIPs sent in each slot of the window, and their sums by object.
    sent: VecDeque<Option<(ObjectId, Amount)>>,
    sent_sums: Vec<Amount>,
    response: Duration,
}

impl Neighbour {
    fn is_usable(&self) -> bool {
        self.is_present && self.is_reached && self.silent_slots <= SILENT_SLOTS_MAX
    }

    fn carry_max(&self, settings: &Settings, size_bytes: u64) -> Amount {
        let bytes = u128::from(self.capacity_bytes_per_s) * u128::from(settings.slot_ms) / 1000;
        to_amount(bytes * u128::from(REQUEST) / u128::from(size_bytes))
    }

    /// Adds what was sent in the slot that ends.
    fn shift(&mut self, sent: Option<(ObjectId, Amount)>, window_slots: usize) {
        if let Some((object, amount)) = sent {
            self.sent_sums[object] = self.sent_sums[object].saturating_add(amount);
        }
        self.sent.push_back(sent);
        if self.sent.len() > window_slots
            && let Some(Some((object, amount))) = self.sent.pop_front()
        {
            self.sent_sums[object] = self.sent_sums[object].saturating_sub(amount);
        }
    }
}

fn to_amount(value: u128) -> Amount {
    Amount::try_from(value).unwrap_or(AMOUNT_MAX).min(AMOUNT_MAX)
}

/// The virtual plane of one node. Slots of neighbours need not be synchronised: what they report is used when the
/// next slot starts, what they send when the slot ends.
#[derive(Debug)]
pub struct VirtualPlane {
    settings: Settings,
    objects: Vec<Object>,
    /// Places of removed objects.
    vacant: Vec<ObjectId>,
    neighbours: Vec<Neighbour>,
    /// Arrivals of the slots in the window: object and amount.
    arrivals: VecDeque<Vec<(ObjectId, Amount)>>,
    counters: Counters,
}

impl VirtualPlane {
    /// A node without objects and neighbours.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let settings = Settings { window_slots: settings.window_slots.max(1), ..settings };
        Self {
            settings,
            objects: Vec::new(),
            vacant: Vec::new(),
            neighbours: Vec::new(),
            arrivals: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Adds an object; a size of 0 counts as 1. No neighbour is a next hop for it yet.
    pub fn add_object(&mut self, size_bytes: u64, is_source: bool) -> ObjectId {
        let object = Object {
            is_vacant: false,
            size_bytes: size_bytes.max(1),
            is_source,
            is_cached: false,
            count: 0,
            arrivals: 0,
            window_sum: 0,
        };
        if let Some(vacant) = self.vacant.pop() {
            self.objects[vacant] = object;
            return vacant;
        }
        self.objects.push(object);
        for neighbour in &mut self.neighbours {
            neighbour.counts.push(0);
            neighbour.is_routable.push(false);
            neighbour.sent_sums.push(0);
        }
        self.objects.len() - 1
    }

    /// Removes an object. Its VIPs count as drained; its number is that of the next object that is added.
    pub fn remove_object(&mut self, id: ObjectId) {
        let Some(object) = self.objects.get_mut(id).filter(|object| !object.is_vacant) else {
            return;
        };
        let rest = object.count.saturating_add(object.arrivals);
        self.counters.drained = self.counters.drained.saturating_add(rest);
        object.is_vacant = true;
        self.vacant.push(id);
        (object.is_source, object.is_cached) = (false, false);
        (object.count, object.arrivals, object.window_sum) = (0, 0, 0);
        for slot in &mut self.arrivals {
            slot.retain(|&(object, _)| object != id);
        }
        for neighbour in &mut self.neighbours {
            neighbour.counts[id] = 0;
            neighbour.is_routable[id] = false;
            neighbour.sent_sums[id] = 0;
            for sent in &mut neighbour.sent {
                sent.take_if(|(object, _)| *object == id);
            }
        }
    }

    /// Declares whether this node is a source of an object.
    pub fn set_source(&mut self, object: ObjectId, is_source: bool) {
        if let Some(object) = self.objects.get_mut(object) {
            object.is_source = is_source && !object.is_vacant;
        }
    }

    /// Sets the size of an object that has become known.
    pub fn set_size(&mut self, object: ObjectId, size_bytes: u64) {
        if let Some(object) = self.objects.get_mut(object) {
            object.size_bytes = size_bytes.max(1);
        }
    }

    /// Adds a neighbour from which Data can arrive at the first rate, and to which Data can leave at the second. Nothing
    /// is sent to it before its first report.
    pub fn add_neighbour(
        &mut self,
        capacity_bytes_per_s: u64,
        return_bytes_per_s: u64,
    ) -> NeighbourId {
        let objects = self.objects.len();
        let neighbour = Neighbour {
            capacity_bytes_per_s,
            return_bytes_per_s,
            is_vacant: false,
            is_present: true,
            is_reached: true,
            silent_slots: SILENT_SLOTS_MAX + 1,
            received_bytes: 0,
            counts: vec![0; objects],
            is_routable: vec![false; objects],
            sent: VecDeque::new(),
            sent_sums: vec![0; objects],
            response: Duration::MAX,
        };
        if let Some(vacant) = self.neighbours.iter().position(|neighbour| neighbour.is_vacant) {
            self.neighbours[vacant] = neighbour;
            return vacant;
        }
        self.neighbours.push(neighbour);
        self.neighbours.len() - 1
    }

    /// Removes a neighbour. Its number is that of the next neighbour that is added.
    pub fn remove_neighbour(&mut self, neighbour: NeighbourId) {
        if let Some(neighbour) = self.neighbours.get_mut(neighbour) {
            neighbour.is_vacant = true;
            neighbour.is_present = false;
            neighbour.counts.fill(0);
            neighbour.is_routable.fill(false);
        }
    }

    /// Declares whether a neighbour confirms what it is sent; otherwise it is sent nothing. A new one does.
    pub fn set_reached(&mut self, neighbour: NeighbourId, is_reached: bool) {
        if let Some(neighbour) = self.neighbours.get_mut(neighbour) {
            neighbour.is_reached = is_reached;
        }
    }

    /// Declares a neighbour as present or absent. What an absent one reported is forgotten, what it sends is
    /// lost.
    pub fn set_present(&mut self, neighbour: NeighbourId, is_present: bool) {
        if let Some(neighbour) = self.neighbours.get_mut(neighbour) {
            neighbour.is_present = is_present;
            neighbour.silent_slots = SILENT_SLOTS_MAX + 1;
            neighbour.counts.fill(0);
        }
    }

    /// Whether Interests for `object` may go to `neighbour`.
    pub fn set_routable(&mut self, neighbour: NeighbourId, object: ObjectId, is_routable: bool) {
        let neighbour = self.neighbours.get_mut(neighbour);
        if let Some(entry) = neighbour.and_then(|neighbour| neighbour.is_routable.get_mut(object)) {
            *entry = is_routable;
        }
    }

    /// Counts requests that originate at this node.
    pub fn request(&mut self, object: ObjectId, amount: Amount) {
        if let Some(object) = self.objects.get_mut(object).filter(|object| !object.is_vacant) {
            let accepted = amount.min(AMOUNT_MAX - object.arrivals);
            object.arrivals += accepted;
            self.counters.requested = self.counters.requested.saturating_add(accepted);
        }
    }

    /// A neighbour reports `V` of the objects for which it changed; also none, as a sign of life.
    pub fn receive_counts(&mut self, neighbour: NeighbourId, counts: &[(ObjectId, Amount)]) {
        let Some(neighbour) = self.neighbours.get_mut(neighbour) else { return };
        if !neighbour.is_present {
            return;
        }
        neighbour.silent_slots = 0;
        for &(object, count) in counts {
            if let Some(entry) = neighbour.counts.get_mut(object) {
                *entry = count.min(AMOUNT_MAX);
            }
        }
    }

    /// A neighbour sends VIPs. Accepted is as much as the link carries in two slots.
    pub fn receive_vips(&mut self, neighbour: NeighbourId, object: ObjectId, amount: Amount) {
        let accepted = self.acceptable(neighbour, object, amount);
        if let (Some(neighbour), Some(object)) =
            (self.neighbours.get_mut(neighbour), self.objects.get_mut(object))
        {
            neighbour.received_bytes += u128::from(accepted) * u128::from(object.size_bytes);
            object.arrivals += accepted;
        }
        self.counters.received = self.counters.received.saturating_add(accepted);
        self.counters.lost = self.counters.lost.saturating_add(amount - accepted);
    }

    fn acceptable(&self, neighbour: NeighbourId, object: ObjectId, amount: Amount) -> Amount {
        let (Some(neighbour), Some(object)) =
            (self.neighbours.get(neighbour), self.objects.get(object))
        else {
            return 0;
        };
        if !neighbour.is_present || object.is_vacant {
            return 0;
        }
        let bytes = u128::from(neighbour.return_bytes_per_s)
            * u128::from(self.settings.slot_ms * NEIGHBOUR_SLOTS_MAX)
            * u128::from(REQUEST)
            / 1000;
        let room = bytes.saturating_sub(neighbour.received_bytes) / u128::from(object.size_bytes);
        amount.min(to_amount(room)).min(AMOUNT_MAX - object.arrivals)
    }

    /// A Data packet arrived from `neighbour`, this long after its Interest.
    pub fn response(&mut self, neighbour: NeighbourId, duration: Duration) {
        if let Some(neighbour) = self.neighbours.get_mut(neighbour) {
            neighbour.response = duration;
        }
    }

    /// Starts a slot: equations (3) to (6) with what the neighbours reported. Returns the VIPs to send.
    pub fn start_slot(&mut self) -> Vec<Transfer> {
        let choices = self.choose_objects();
        self.choose_cached();
        self.drain();
        self.send(choices)
    }

    /// Ends a slot: equations (7) and (1) with what arrived since its start.
    pub fn end_slot(&mut self) {
        self.add_arrivals();
        for neighbour in &mut self.neighbours {
            neighbour.silent_slots = neighbour.silent_slots.saturating_add(1);
            neighbour.received_bytes = 0;
        }
    }

    /// (3): difference, neighbour, object; largest difference first.
    fn choose_objects(&self) -> Vec<(Amount, NeighbourId, ObjectId)> {
        let mut choices = Vec::with_capacity(self.neighbours.len());
        for (id, neighbour) in self.neighbours.iter().enumerate() {
            if !neighbour.is_usable() {
                continue;
            }
            let mut best: Option<(Amount, ObjectId)> = None;
            for (object, state) in self.objects.iter().enumerate() {
                let difference = state.count.saturating_sub(neighbour.counts[object]);
                let is_better = best.is_none_or(|(largest, _)| difference > largest);
                if neighbour.is_routable[object] && difference > 0 && is_better {
                    best = Some((difference, object));
                }
            }
            choices.extend(best.map(|(difference, object)| (difference, id, object)));
        }
        choices.sort_by_key(|&(difference, id, _)| (std::cmp::Reverse(difference), id));
        choices
    }

    /// (4): a knapsack, by score per byte; or the one object that is worth more than all these. The sum of the
    /// scores is at least half of the largest possible, and with equal sizes it is the largest.
    fn choose_cached(&mut self) {
        let capacity = self.settings.cache_bytes;
        let worth = |object: ObjectId| -> Amount {
            let write =
                if self.objects[object].is_cached { 0 } else { self.settings.write_penalty };
            self.score(object).saturating_sub(self.settings.read_penalty.saturating_add(write))
        };
        let mut candidates: Vec<(Amount, u64, ObjectId)> = (0..self.objects.len())
            .map(|object| (worth(object), self.objects[object].size_bytes, object))
            .filter(|&(worth, size, object)| {
                worth > 0 && size <= capacity && !self.objects[object].is_source
            })
            .collect();
        candidates.sort_by(|a, b| {
            let (left, right) =
                (u128::from(b.0) * u128::from(a.1), u128::from(a.0) * u128::from(b.1));
            left.cmp(&right).then(a.2.cmp(&b.2))
        });
        let mut chosen = Vec::new();
        let (mut bytes, mut sum) = (0, 0u128);
        for &(worth, size, object) in &candidates {
            if size <= capacity - bytes {
                bytes += size;
                sum += u128::from(worth);
                chosen.push(object);
            }
        }
        let single =
            candidates.iter().min_by_key(|&&(worth, _, object)| (std::cmp::Reverse(worth), object));
        if let Some(&(worth, _, object)) = single
            && u128::from(worth) > sum
        {
            chosen = vec![object];
        }
        for object in &mut self.objects {
            object.is_cached = false;
        }
        for object in chosen {
            self.objects[object].is_cached = true;
        }
    }

    /// (5).
    fn drain(&mut self) {
        let bytes = u128::from(self.settings.read_bytes_per_s) * u128::from(self.settings.slot_ms);
        let cache = u128::from(self.settings.cache_bytes.max(1)) * 1000;
        let rate = to_amount(bytes * u128::from(REQUEST) / cache);
        for object in self.objects.iter_mut().filter(|object| object.is_cached) {
            let amount = object.count.min(rate);
            object.count -= amount;
            self.counters.drained = self.counters.drained.saturating_add(amount);
        }
    }

    /// (6).
    fn send(&mut self, choices: Vec<(Amount, NeighbourId, ObjectId)>) -> Vec<Transfer> {
        let mut transfers = Vec::with_capacity(choices.len());
        for (_, neighbour, object) in choices {
            let state = &mut self.objects[object];
            let carried = self.neighbours[neighbour].carry_max(&self.settings, state.size_bytes);
            let amount = carried.min(state.count);
            if amount > 0 {
                state.count -= amount;
                self.counters.sent = self.counters.sent.saturating_add(amount);
                transfers.push(Transfer { neighbour, object, amount });
            }
        }
        for (id, neighbour) in self.neighbours.iter_mut().enumerate() {
            let sent = transfers.iter().find(|transfer| transfer.neighbour == id);
            let sent = sent.map(|transfer| (transfer.object, transfer.amount));
            neighbour.shift(sent, self.settings.window_slots);
        }
        transfers
    }

    /// (7) and (1).
    fn add_arrivals(&mut self) {
        let mut arrivals = Vec::new();
        for (id, object) in self.objects.iter_mut().enumerate() {
            let amount = std::mem::take(&mut object.arrivals);
            if amount > 0 {
                arrivals.push((id, amount));
                object.window_sum = object.window_sum.saturating_add(amount);
            }
            if object.is_source {
                let absorbed = amount.saturating_add(object.count);
                self.counters.absorbed = self.counters.absorbed.saturating_add(absorbed);
                object.count = 0;
            } else {
                object.count += amount;
                let excess = object.count.saturating_sub(AMOUNT_MAX);
                object.count -= excess;
                self.counters.drained = self.counters.drained.saturating_add(excess);
            }
        }
        self.arrivals.push_back(arrivals);
        if self.arrivals.len() > self.settings.window_slots {
            for (object, amount) in self.arrivals.pop_front().unwrap_or_default() {
                let object = &mut self.objects[object];
                object.window_sum = object.window_sum.saturating_sub(amount);
            }
        }
    }

    /// `V` of an object; 0 of one that does not exist.
    #[must_use]
    pub fn count(&self, object: ObjectId) -> Amount {
        self.objects.get(object).map_or(0, |object| object.count)
    }

    /// Whether the virtual cache has the object.
    #[must_use]
    pub fn is_cached(&self, object: ObjectId) -> bool {
        self.objects.get(object).is_some_and(|object| object.is_cached)
    }

    /// Whether nothing is known about an object: no VIPs here and at neighbours, and no arrivals in the window. It may
    /// be removed.
    #[must_use]
    pub fn is_idle(&self, object: ObjectId) -> bool {
        let is_known = |neighbour: &Neighbour| neighbour.counts.get(object).is_some_and(|&v| v > 0);
        let is_idle =
            |state: &Object| state.count == 0 && state.arrivals == 0 && state.window_sum == 0;
        self.objects.get(object).is_none_or(is_idle) && !self.neighbours.iter().any(is_known)
    }

    /// The last `V` of an object that a neighbour reported.
    #[must_use]
    pub fn reported(&self, neighbour: NeighbourId, object: ObjectId) -> Amount {
        let neighbour = self.neighbours.get(neighbour);
        neighbour.and_then(|neighbour| neighbour.counts.get(object).copied()).unwrap_or(0)
    }

    /// Sum of the VIPs that were sent to a neighbour for an object over the window.
    #[must_use]
    pub fn sent(&self, neighbour: NeighbourId, object: ObjectId) -> Amount {
        let neighbour = self.neighbours.get(neighbour).filter(|neighbour| neighbour.is_usable());
        neighbour.and_then(|neighbour| neighbour.sent_sums.get(object).copied()).unwrap_or(0)
    }

    /// Score of an object; 0 of one that does not exist.
    #[must_use]
    pub fn score(&self, object: ObjectId) -> Amount {
        let Some(object) = self.objects.get(object) else { return 0 };
        match self.settings.score {
            Score::Count => object.count,
            Score::Arrivals => object.window_sum / self.settings.window_slots as u64,
        }
    }

    /// Sums since the creation.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Next hop for an Interest: of `candidates`, the neighbour with the largest mean of VIPs sent for the object
    /// over the window; of equal ones that with the shortest last response time. `None` if no VIPs were sent to
    /// any: the caller decides by other means.
    #[must_use]
    pub fn next_hop(
        &self,
        object: ObjectId,
        candidates: impl Iterator<Item = NeighbourId>,
    ) -> Option<NeighbourId> {
        let order = |id: &NeighbourId| {
            let response = self.neighbours.get(*id).map(|neighbour| neighbour.response);
            (std::cmp::Reverse(self.sent(*id, object)), response, *id)
        };
        candidates.filter(|id| self.sent(*id, object) > 0).min_by_key(order)
    }
}
