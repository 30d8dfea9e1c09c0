//! The shard against the model, under random traffic.

use std::collections::BTreeMap;

use crate::bed::{Bed, Sent, SentKind, face_id};
use crate::model::{Arrival, Departure, Face, Model, OutToken};
use crate::random::Random;
use crate::traffic::{Change, Generator, Op, Step, TokenChoice};
use crate::wire::{Data, Name, Packet};
use crate::world::World;

/// The compared properties of a packet: all, except that of our own tokens only the presence
/// counts.
pub type Seen = (Face, SentKind, Vec<u8>, Option<Vec<u8>>, u64, Option<u64>);

/// Number of random sequences of 60 bursts, divided between the tests.
const SEQUENCES: u64 = 10_000;

/// Seeds per test.
const SEEDS: u64 = 1_000_000_000;

/// Time before moves settle: longer than any Interest is pending or a Nonce is kept.
const SETTLED_BEFORE_MS: u64 = 7_000;

/// The PIT tokens sent with Interests, by face and name.
type OwnTokens = BTreeMap<(Face, Name), Vec<u8>>;

/// Runs a case; reports where the forwarder and the model differ.
fn run(world: &World, shard_count: usize, steps: &[Step]) -> Result<(), String> {
    let (mut model, mut bed) = (world.model(), world.bed(shard_count));
    let mut own_tokens = OwnTokens::new();
    for (number, step) in steps.iter().enumerate() {
        if step.changes.iter().any(|change| matches!(change, Change::Settle)) {
            // Interests expire in time, not only at the next arrival.
            model.advance(step.now - SETTLED_BEFORE_MS);
            bed.advance(step.now - SETTLED_BEFORE_MS);
        }
        for change in &step.changes {
            change.apply(&mut model);
            apply_change(&mut bed, change);
        }
        let arrivals: Vec<Arrival> = step.ops.iter().map(|op| resolve(op, &own_tokens)).collect();
        bed.sent.0.clear();
        for burst in arrivals.chunks(ndn_forwarding::BURST_SIZE) {
            bed.process(step.now, burst);
        }
        bed.check_accounts().map_err(|error| format!("step {number}: {error}"))?;
        bed.check_ledgers().map_err(|error| format!("step {number}: {error}"))?;
        let mut sent: Vec<Seen> = bed.sent.0.iter().map(seen_sent).collect();
        let mut expected = Vec::new();
        let mut unexplained = sent.clone();
        for arrival in &arrivals {
            let mut choose = |found: &[Data]| observed(found, arrival, &unexplained);
            let departures = model.receive(step.now, arrival, &mut choose);
            note_tokens(&departures, &bed, &mut own_tokens);
            for seen in departures.iter().map(seen_departure) {
                if let Some(position) = unexplained.iter().position(|other| *other == seen) {
                    unexplained.remove(position);
                }
                expected.push(seen);
            }
        }
        sent.sort();
        expected.sort();
        if sent != expected {
            return Err(describe(number, step, &sent, &expected));
        }
        // The ingress keeps the block for rewritten Interests, and each shard the block for copies
        // of cached Data.
        let kept = 1 + if shard_count > 1 { u32::try_from(shard_count).unwrap() } else { 0 };
        if bed.blocks_in_use() > kept {
            return Err(format!("step {number}: packet buffers were not released"));
        }
    }
    compare_ends(&mut model, &mut bed, steps.last().map_or(0, |step| step.now))
}

/// A change that the table rejects is skipped.
pub fn apply_change(bed: &mut Bed, change: &Change) {
    match change {
        Change::Route(prefix, face, cost) => bed.add_route(prefix, *face, u64::from(*cost)),
        Change::Unroute(prefix, face) => {
            bed.remove_route(prefix, *face);
        }
        Change::Choose(prefix, strategy) => bed.set_strategy(prefix, &strategy.uri()),
        Change::Erase(prefix) => bed.erase(prefix),
        Change::RemoveFace(face) => bed.remove_face(*face),
        Change::Move(changed, shard) => {
            let _ = bed.ndt().move_entry(bed.ndt_entry(changed), *shard);
        }
        Change::Split(changed, depth) => {
            let _ = bed.ndt().split_entry(bed.ndt_entry(changed), *depth);
        }
        Change::Settle => bed.settle_moves(),
    }
}

/// Once everything has expired, the counters of both are equal.
fn compare_ends(model: &mut Model, bed: &mut Bed, now: u64) -> Result<(), String> {
    let end = now + 100_000;
    model.advance(end);
    bed.advance(end);
    bed.check_accounts()?;
    let sum = |count: fn(&ndn_forwarding::Counters) -> u64| -> u64 {
        bed.counters.iter().map(|counters| count(counters)).sum()
    };
    let satisfied = sum(|counters| counters.satisfied_interests.value());
    let unsatisfied = sum(|counters| counters.unsatisfied_interests.value());
    if (satisfied, unsatisfied) != (model.satisfied, model.unsatisfied) {
        return Err(format!(
            "satisfied and unsatisfied: {satisfied}, {unsatisfied} instead of {}, {}",
            model.satisfied, model.unsatisfied
        ));
    }
    let pending: usize = bed.shards.iter_mut().map(|shard| shard.pcct_mut().pit_len()).sum();
    if !bed.shards.iter().all(|shard| shard.ledger().is_zero()) {
        return Err("something is charged and nothing is pending".to_owned());
    }
    if bed.published() != 0 {
        return Err("an Interest is published and not pending".to_owned());
    }
    if pending != 0 || model.pit_len() != 0 {
        return Err(format!("{pending} PIT entries never expire"));
    }
    Ok(())
}

/// Where several cached Data satisfy an Interest, any is allowed: use the one that was sent.
fn observed(found: &[Data], arrival: &Arrival, unexplained: &[Seen]) -> Data {
    let answers = unexplained.iter().filter(|(face, kind, _, token, ..)| {
        *face == arrival.face && *kind == SentKind::Data && token.as_ref() == Some(&arrival.token)
    });
    let mut answers =
        answers.filter_map(|(_, _, wire, ..)| found.iter().find(|data| data.encode() == *wire));
    answers.next().unwrap_or(&found[0]).clone()
}

fn resolve(op: &Op, own_tokens: &OwnTokens) -> Arrival {
    let mut arrival = op.arrival.clone();
    if let TokenChoice::Returned(name) = &op.token {
        let token = own_tokens.get(&(arrival.face, name.clone()));
        arrival.token = token.cloned().unwrap_or_default();
    }
    arrival
}

/// Records the tokens of Interests that both have sent.
fn note_tokens(departures: &[Departure], bed: &Bed, own_tokens: &mut OwnTokens) {
    for departure in departures.iter().filter(|departure| departure.token == OutToken::Own) {
        let wire = departure.packet.encode();
        let sent = bed.sent.0.iter().rfind(|s| s.face == departure.face && s.wire == wire);
        if let Some(sent) = sent {
            let key = (departure.face, departure.packet.name().clone());
            own_tokens.insert(key, sent.token.clone());
        }
    }
}

pub fn seen_sent(sent: &Sent) -> Seen {
    let is_own = sent.kind == SentKind::Interest && sent.token.len() == ndn_table::TOKEN_LENGTH;
    let token = (!is_own).then(|| sent.token.clone());
    (sent.face, sent.kind, sent.wire.clone(), token, sent.mark, sent.incoming_face)
}

pub fn seen_departure(departure: &Departure) -> Seen {
    let kind = match departure.packet {
        Packet::Interest(_) => SentKind::Interest,
        Packet::Data(_) => SentKind::Data,
        Packet::Nack(reason, _) => SentKind::Nack(reason),
    };
    let token = match &departure.token {
        OutToken::Own => None,
        OutToken::Echo(token) => Some(token.clone()),
    };
    let incoming_face =
        departure.incoming_face.map(|face| if face == 254 { 254 } else { face_id(face) });
    (departure.face, kind, departure.packet.encode(), token, departure.mark, incoming_face)
}

fn describe(number: usize, step: &Step, sent: &[Seen], expected: &[Seen]) -> String {
    let only = |these: &[Seen], those: &[Seen]| {
        let mut rest = these.to_vec();
        for that in those {
            if let Some(position) = rest.iter().position(|this| this == that) {
                rest.remove(position);
            }
        }
        let lines: Vec<_> = rest.iter().map(|seen| format!("  {seen:02x?}")).collect();
        lines.join("\n")
    };
    format!(
        "step {number} at {} ms\nsent but not expected:\n{}\nexpected but not sent:\n{}",
        step.now,
        only(sent, expected),
        only(expected, sent)
    )
}

/// Removes steps from a failing case while it still fails.
fn shrink(world: &World, shard_count: usize, steps: Vec<Step>) -> Vec<Step> {
    let mut smallest = steps;
    let mut chunk = smallest.len().div_ceil(2);
    while chunk > 0 {
        let mut start = 0;
        while start < smallest.len() {
            let mut candidate = smallest.clone();
            candidate.drain(start..(start + chunk).min(candidate.len()));
            if run(world, shard_count, &candidate).is_err() {
                smallest = candidate;
            } else {
                start += chunk;
            }
        }
        chunk /= 2;
    }
    for index in 0..smallest.len() {
        let mut op = 0;
        while op < smallest[index].ops.len() {
            let mut candidate = smallest.clone();
            candidate[index].ops.remove(op);
            if run(world, shard_count, &candidate).is_err() {
                smallest = candidate;
            } else {
                op += 1;
            }
        }
    }
    smallest
}

fn check(seed: u64, shard_count: usize) {
    let mut random = Random::new(seed);
    let world = World::random(&mut random, shard_count);
    check_in(&world, random, seed, shard_count);
}

/// Names move, cached Data does not: so the Content Store serves nothing.
fn check_moves(seed: u64, shard_count: usize) {
    let mut random = Random::new(seed);
    let world = World::random(&mut random, shard_count);
    let world = World { serves: false, moves: true, ..world };
    check_in(&world, random, seed, shard_count);
}

fn check_in(world: &World, mut random: Random, seed: u64, shard_count: usize) {
    let steps = Generator::new(&mut random, world, shard_count).steps(60);
    if run(world, shard_count, &steps).is_err() {
        let smallest = shrink(world, shard_count, steps);
        let failure = run(world, shard_count, &smallest).unwrap_err();
        let lines = smallest.iter().flat_map(|step| {
            let changes = step.changes.iter().map(move |c| format!("{:>6} ms  {c:?}\n", step.now));
            changes.chain(step.ops.iter().map(move |op| format!("{:>6} ms  {op:?}\n", step.now)))
        });
        panic!(
            "seed {seed}, {shard_count} shards\n{world:?}\n{}{failure}",
            lines.collect::<String>()
        );
    }
}

/// The number of sequences for `percent` of the total; more on request, for a longer search.
pub fn case_count(percent: u64) -> u64 {
    let all = std::env::var("NAMEWIRE_CASES").ok().and_then(|count| count.parse().ok());
    (all.unwrap_or(SEQUENCES) * percent).div_ceil(100)
}

#[test]
fn one_shard_forwards_like_the_model() {
    (0..case_count(20)).for_each(|seed| check(seed, 1));
}

#[test]
fn two_shards_forward_like_one_model() {
    (0..case_count(25)).for_each(|seed| check(SEEDS + seed, 2));
}

#[test]
fn three_shards_forward_like_one_model() {
    (0..case_count(20)).for_each(|seed| check(2 * SEEDS + seed, 3));
}

#[test]
fn eight_shards_forward_like_one_model() {
    (0..case_count(15)).for_each(|seed| check(3 * SEEDS + seed, 8));
}

#[test]
fn moves_between_two_shards_do_not_change_behaviour() {
    (0..case_count(10)).for_each(|seed| check_moves(4 * SEEDS + seed, 2));
}

#[test]
fn moves_between_five_shards_do_not_change_behaviour() {
    (0..case_count(10)).for_each(|seed| check_moves(5 * SEEDS + seed, 5));
}
