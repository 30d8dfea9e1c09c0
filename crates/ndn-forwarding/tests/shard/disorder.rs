//! Several shards without waiting for one packet to complete before the next: results depend on the
//! order then, but invariants hold.

use ndn_packet::NameRef;
use ndn_table::{InterestKey, NameHasher, PREFIX_HASHES_MAX};
use ndn_types::Timestamp;

use crate::bed::{Bed, Sent, SentKind};
use crate::differential::{apply_change, case_count};
use crate::model::{Arrival, Time};
use crate::random::Random;
use crate::traffic::{Generator, TokenChoice};
use crate::wire::{Component, Interest, Name, Packet, digest_component, name, name_value};
use crate::world::World;

/// An Interest that has arrived, and its outcome.
struct Asked {
    arrival: Arrival,
    interest: Interest,
}

impl Asked {
    /// Whether Data with this name and full name satisfies it.
    fn matches(&self, name: &Name, full_name: &Name) -> bool {
        let own = &self.interest.name;
        own == name || own == full_name || (self.interest.can_be_prefix && name.starts_with(own))
    }

    /// Whether it is pending in any shard.
    fn is_pending(&self, bed: &mut Bed, now: Time) -> bool {
        let value = name_value(&self.interest.name);
        let name = NameRef::from_value(&value).unwrap();
        let mut hashes = [0; PREFIX_HASHES_MAX];
        let hasher = NameHasher::new(*b"a key for tests.");
        let count = hasher.hash_prefixes(name, &mut hashes).unwrap();
        let Interest { can_be_prefix, must_be_fresh, .. } = self.interest;
        let key = InterestKey::new(name, &hashes[..count], can_be_prefix, must_be_fresh);
        let now = Timestamp::from_millis(now);
        bed.shards.iter_mut().any(|shard| {
            let pcct = shard.pcct_mut();
            pcct.find_interest(&key).is_some_and(|entry| {
                pcct.in_records(entry)
                    .any(|record| record.face.slot() == self.arrival.face && record.expiry() > now)
            })
        })
    }
}

fn data_names(wire: &[u8]) -> (Name, Name) {
    let data = ndn_packet::Data::parse(wire).unwrap();
    let components = data.name().components();
    let name: Name = components
        .map(|component| Component(component.ty().value(), component.value().to_vec()))
        .collect();
    let mut full_name = name.clone();
    full_name.push(digest_component(wire));
    (name, full_name)
}

fn check(seed: u64, shard_count: usize) {
    let mut random = Random::new(seed);
    let world = World::random(&mut random, shard_count);
    let steps = Generator::new(&mut random, &world, shard_count).steps(40);
    let mut bed = world.bed(shard_count);
    // Strategies that the model does not implement: the model is not used here.
    let strategy = *random.pick(&["", "asf", "access", "random", "self-learning"]);
    if !strategy.is_empty() {
        for prefix in ["/b", "/a/a", "/wide"] {
            bed.set_strategy(&name(prefix), &format!("/localhost/nfd/strategy/{strategy}"));
        }
    }
    let mut asked: Vec<Asked> = Vec::new();
    let end = steps.last().map_or(0, |step| step.now);
    for step in &steps {
        let arrivals: Vec<Arrival> = step.ops.iter().map(|op| op.arrival.clone()).collect();
        assert!(
            step.ops.iter().all(|op| op.token == TokenChoice::Given || op.arrival.token.is_empty())
        );
        step.changes.iter().for_each(|change| apply_change(&mut bed, change));
        bed.sent.0.clear();
        for arrival in &arrivals {
            if let Packet::Interest(interest) = &arrival.packet
                && !interest.name.is_empty()
            {
                asked.push(Asked { arrival: arrival.clone(), interest: interest.clone() });
            }
        }
        bed.process_in_disorder(step.now, &arrivals, &mut |bound| random.below(bound));
        bed.check_accounts().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        check_sent(&bed.sent.0, &asked, seed);
        if random.percent(50) {
            bed.sent.0.clear();
            bed.settle_crossings(step.now);
            check_sent(&bed.sent.0, &asked, seed);
            // This strategy holds Data until the control thread has answered.
            if strategy != "self-learning" {
                check_lost(&mut bed, &asked, step.now, seed);
            }
            bed.check_accounts().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
    }
    bed.settle_crossings(end);
    bed.advance(end + 100_000);
    bed.check_accounts().unwrap_or_else(|error| panic!("seed {seed}, at the end: {error}"));
    let pending: usize = bed.shards.iter_mut().map(|shard| shard.pcct_mut().in_records_len()).sum();
    assert_eq!(pending, 0, "seed {seed}: in-records that never end");
}

/// Data is sent only to faces with a matching Interest.
fn check_sent(sent: &[Sent], asked: &[Asked], seed: u64) {
    for sent in sent.iter().filter(|sent| sent.kind == SentKind::Data) {
        let (name, full_name) = data_names(&sent.wire);
        let is_answer = asked.iter().any(|asked| {
            asked.arrival.face == sent.face
                && asked.arrival.token == sent.token
                && asked.matches(&name, &full_name)
        });
        assert!(is_answer, "seed {seed}: unsolicited {sent:02x?}");
    }
}

/// Once all messages are delivered, no Interest is pending for cached Data.
fn check_lost(bed: &mut Bed, asked: &[Asked], now: Time, seed: u64) {
    let cached: Vec<(Name, Name)> = bed
        .shards
        .iter_mut()
        .flat_map(|shard| shard.pcct_mut().cached_packets().map(data_names).collect::<Vec<_>>())
        .collect();
    for one in asked.iter().filter(|asked| !asked.interest.must_be_fresh) {
        let is_cached = cached.iter().any(|(name, full_name)| one.matches(name, full_name));
        assert!(
            !is_cached || !one.is_pending(bed, now),
            "seed {seed} at {now} ms: {:?} waits for what is cached",
            one.arrival
        );
    }
}

#[test]
fn two_shards_lose_nothing_with_reordered_messages() {
    (0..case_count(10)).for_each(|seed| check(seed, 2));
}

#[test]
fn five_shards_lose_nothing_with_reordered_messages() {
    (0..case_count(10)).for_each(|seed| check(1_000_000_000 + seed, 5));
}
