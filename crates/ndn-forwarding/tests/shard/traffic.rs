//! Random traffic with few names and faces, so that packets interact.

use crate::model::{Arrival, Departure, Face, Model, OutToken, Strategy, Time};
use crate::random::Random;
use crate::wire::{Component, Data, GENERIC, Interest, Name, Packet, name};
use crate::world::World;

/// All times are multiples of this, and all lifetimes one more: no deadline falls into the tick of
/// the timer wheel before a burst.
const GRID_MS: u64 = 4;

/// The token of an arriving packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenChoice {
    /// The token in the arrival.
    Given,
    /// The token sent on that face with an Interest of this name, if any.
    Returned(Name),
}

#[derive(Clone, Debug)]
pub struct Op {
    pub arrival: Arrival,
    pub token: TokenChoice,
}

/// A change between two bursts.
#[derive(Clone, Debug)]
pub enum Change {
    /// Adds a next hop of this cost to the prefix.
    Route(Name, Face, u32),
    /// Removes a next hop of the prefix.
    Unroute(Name, Face),
    /// Sets the strategy of the prefix.
    Choose(Name, Strategy),
    /// Erases cached Data below the name.
    Erase(Name),
    /// Removes the face for good.
    RemoveFace(Face),
    /// Moves the dispatch table entry of this name to another shard.
    Move(Name, u8),
    /// Splits the dispatch table entry of this name to this depth.
    Split(Name, usize),
    /// Settles all moves.
    Settle,
}

impl Change {
    /// Applies the change to the model.
    pub fn apply(&self, model: &mut Model) {
        match self {
            Self::Route(prefix, face, cost) => model.set_route(prefix, *face, *cost),
            Self::Unroute(prefix, face) => model.remove_route(prefix, *face),
            Self::Choose(prefix, strategy) => {
                model.strategies.insert(prefix.clone(), *strategy);
            }
            Self::Erase(prefix) => model.store.erase(prefix),
            Self::RemoveFace(face) => model.remove_face(*face),
            Self::Move(..) | Self::Split(..) | Self::Settle => {}
        }
    }
}

/// One burst.
#[derive(Clone, Debug)]
pub struct Step {
    pub now: Time,
    /// Before the burst.
    pub changes: Vec<Change>,
    pub ops: Vec<Op>,
}

/// Generates the traffic of one case. Answers derive from what a model has sent, so the case does
/// not depend on the forwarder under test.
pub struct Generator<'a> {
    random: &'a mut Random,
    world: &'a World,
    shard_count: usize,
    model: Model,
    /// Interests that went upstream.
    outstanding: Vec<(Face, Interest)>,
    now: Time,
    unique_nonce: u32,
    /// Over all routes so far, so that no two costs are equal.
    cost_max: u32,
}

impl<'a> Generator<'a> {
    pub fn new(random: &'a mut Random, world: &'a World, shard_count: usize) -> Self {
        let model = world.model();
        Self {
            random,
            world,
            shard_count,
            model,
            outstanding: Vec::new(),
            now: GRID_MS,
            unique_nonce: 100,
            cost_max: 2000,
        }
    }

    pub fn steps(mut self, count: usize) -> Vec<Step> {
        (0..count).map(|_| self.step()).collect()
    }

    fn step(&mut self) -> Step {
        self.now += GRID_MS * *self.random.pick(&[0, 0, 1, 2, 3, 10, 60]);
        let mut changes = if self.world.moves { self.moves() } else { Vec::new() };
        if self.world.changes && self.random.percent(20) {
            changes.push(self.change());
        }
        changes.iter().for_each(|change| change.apply(&mut self.model));
        let count_max = *self.random.pick(&[1, 4, 20]);
        let count = 1 + self.random.below(count_max);
        // A removed face receives nothing more; packets received before its removal can only be
        // Interests here.
        let may_arrive = |op: &Op, model: &Model| {
            matches!(op.arrival.packet, Packet::Interest(_)) || !model.is_gone(op.arrival.face)
        };
        let ops: Vec<Op> = (0..count).map(|_| self.op()).collect();
        let ops: Vec<Op> = ops.into_iter().filter(|op| may_arrive(op, &self.model)).collect();
        for op in &ops {
            for departure in
                self.model.receive(self.now, &op.arrival, &mut |found| found[0].clone())
            {
                self.remember(departure);
            }
        }
        Step { now: self.now, changes, ops }
    }

    fn moves(&mut self) -> Vec<Change> {
        if self.random.percent(5) {
            // Longer than any Interest is pending or a Nonce is kept.
            self.now += 2_500 * GRID_MS;
            return vec![Change::Settle];
        }
        let count = if self.random.percent(20) { self.random.below(3) } else { 0 };
        (0..count).map(|_| self.one_move()).collect()
    }

    fn change(&mut self) -> Change {
        let prefixes = ["/a", "/b", "/b/a", "/a/b", "/wide", "/hint/x"];
        let prefix = name(prefixes[self.random.below(prefixes.len())]);
        match self.random.below(10) {
            0..3 => {
                self.cost_max += 1;
                // Cheaper or more expensive than the existing ones.
                let cost = *self.random.pick(&[self.cost_max, 4000 - self.cost_max]);
                Change::Route(prefix, self.face(), cost)
            }
            3..5 => Change::Unroute(prefix, self.face()),
            5..7 => {
                let strategies = [
                    Strategy::multicast(),
                    Strategy::best_route(),
                    Strategy::best_route_without_timeout(),
                ];
                Change::Choose(prefix, *self.random.pick(&strategies))
            }
            7..9 => Change::Erase(self.name(3)),
            _ => Change::RemoveFace(self.face()),
        }
    }

    fn one_move(&mut self) -> Change {
        let changed = self.name(3);
        if self.random.percent(30) {
            return Change::Split(changed, self.world.depth + 1 + self.random.below(3));
        }
        let shard = self.random.below(self.shard_count);
        Change::Move(changed, u8::try_from(shard).unwrap())
    }

    fn remember(&mut self, departure: Departure) {
        if let Packet::Interest(interest) = departure.packet {
            debug_assert!(
                departure.token == OutToken::Own || departure.token == OutToken::Echo(Vec::new())
            );
            self.outstanding.push((departure.face, interest));
            if self.outstanding.len() > 12 {
                self.outstanding.remove(0);
            }
        }
    }

    fn op(&mut self) -> Op {
        let answers = !self.outstanding.is_empty();
        match self.random.below(100) {
            0..45 => self.interest(),
            45..70 if answers => self.answering_data(),
            45..80 => self.random_data(),
            80..95 if answers => self.answering_nack(),
            _ => self.random_nack(),
        }
    }

    fn interest(&mut self) -> Op {
        let mut arrival = Arrival::new(self.face(), Packet::Interest(self.random_interest()));
        arrival.token = self.downstream_token();
        arrival.mark = self.mark();
        if self.random.percent(5) {
            arrival.next_hop = Some(*self.random.pick(&[0, 1, 3, 6, 77]));
        }
        Op { arrival, token: TokenChoice::Given }
    }

    fn answering_data(&mut self) -> Op {
        let (face, interest) = self.outstanding[self.random.below(self.outstanding.len())].clone();
        let mut data_name = interest.name.clone();
        if data_name.last().is_some_and(|component| component.0 == 1) {
            data_name.pop();
        }
        if interest.can_be_prefix && self.random.percent(60) {
            for _ in 0..=self.random.below(3) {
                data_name.push(self.component());
            }
        }
        let mut op = self.data(data_name);
        op.arrival.face = if self.random.percent(90) { face } else { self.face() };
        op.token = match self.random.below(10) {
            0..6 => TokenChoice::Returned(interest.name),
            6 => {
                op.arrival.token = self.foreign_token();
                TokenChoice::Given
            }
            _ => TokenChoice::Given,
        };
        op
    }

    fn random_data(&mut self) -> Op {
        let name = self.name(5);
        self.data(name)
    }

    fn data(&mut self, name: Name) -> Op {
        let data = self.variant(name);
        let mut arrival = Arrival::new(self.face(), Packet::Data(data));
        arrival.mark = self.mark();
        arrival.no_cache = self.random.percent(5);
        Op { arrival, token: TokenChoice::Given }
    }

    fn answering_nack(&mut self) -> Op {
        let (face, interest) = self.outstanding[self.random.below(self.outstanding.len())].clone();
        let face = if self.random.percent(90) { face } else { self.face() };
        let token = TokenChoice::Returned(interest.name.clone());
        let mut arrival = Arrival::new(face, Packet::Nack(self.reason(), interest));
        arrival.mark = self.mark();
        Op { arrival, token }
    }

    fn random_nack(&mut self) -> Op {
        let interest = Interest { nonce: Some(self.nonce()), ..self.random_interest() };
        let arrival = Arrival::new(self.face(), Packet::Nack(self.reason(), interest));
        Op { arrival, token: TokenChoice::Given }
    }

    fn random_interest(&mut self) -> Interest {
        let mut interest_name = self.name(4);
        if self.random.percent(10) {
            interest_name = self.variant(interest_name).full_name();
        }
        let hint = match self.random.below(12) {
            0 => vec![name("/hint/x/y")],
            1 => vec![name("/none"), name("/hint/x")],
            2 => vec![name("/region")],
            _ => Vec::new(),
        };
        Interest {
            name: interest_name,
            can_be_prefix: self.random.percent(40),
            must_be_fresh: self.random.percent(30),
            hint,
            nonce: Some(self.nonce()),
            lifetime_ms: self.lifetime_ms(),
            hop_limit: *self.random.pick(&[None, None, None, Some(0), Some(1), Some(2), Some(255)]),
        }
    }

    /// One of four Data of a name: no more, so that all of them can be cached.
    fn variant(&mut self, name: Name) -> Data {
        let (freshness_ms, content) = *self.random.pick(&[
            (None, "x"),
            (Some(9), "y"),
            (Some(401), "x"),
            (Some(60_001), "y"),
        ]);
        Data { name, freshness_ms, content: content.into() }
    }

    fn lifetime_ms(&mut self) -> Option<u64> {
        Some(*self.random.pick(&self.world.lifetimes_ms))
    }

    /// A name of up to `length` components, sometimes of none, and sometimes of many more.
    fn name(&mut self, length: usize) -> Name {
        let length = match self.random.below(50) {
            0 => 0,
            1 => 12,
            _ => 1 + self.random.below(length),
        };
        let first = *self.random.pick(&["a", "a", "b", "wide", "wide", "localhost", "localhop"]);
        let mut result = name(first);
        while result.len() < length {
            result.push(self.component());
        }
        result.truncate(length);
        result
    }

    fn component(&mut self) -> Component {
        Component(GENERIC, self.random.pick(&[b"a", b"b"]).to_vec())
    }

    fn face(&mut self) -> Face {
        self.world.faces[self.random.below(self.world.faces.len())].0
    }

    fn nonce(&mut self) -> u32 {
        let is_repeated = self.world.lifetimes_ms.len() == 1 && self.random.percent(50);
        if is_repeated {
            return u32::try_from(self.random.below(6)).unwrap();
        }
        self.unique_nonce += 1;
        self.unique_nonce
    }

    fn mark(&mut self) -> u64 {
        *self.random.pick(&[0, 0, 0, 1])
    }

    fn reason(&mut self) -> u64 {
        *self.random.pick(&[0, 50, 100, 150, 150])
    }

    fn downstream_token(&mut self) -> Vec<u8> {
        let length = *self.random.pick(&[0, 0, 1, 6, 7, 10, 32]);
        vec![b'A' + u8::try_from(self.random.below(2)).unwrap(); length]
    }

    /// A token of another forwarder. It may name any shard, or none that exists.
    fn foreign_token(&mut self) -> Vec<u8> {
        let shard = self.random.below(self.shard_count + 1);
        let shard = u8::try_from(shard).unwrap() + *self.random.pick(&[0, 0, 200]);
        let entry = u8::try_from(self.random.below(4)).unwrap();
        match self.random.below(3) {
            0 => vec![shard, 0, 0, entry, 0, 1],
            1 => vec![shard; 4],
            _ => vec![7; 32],
        }
    }
}
