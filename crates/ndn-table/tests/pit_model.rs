//! Model test of the PIT against a list of Interests that is searched linearly.
#![allow(clippy::cast_possible_truncation, reason = "small test numbers")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;

use common::{Hashed, data, digest, hasher, interest, name_of, with_digest};
use ndn_table::{
    DataKey, FaceIndex, InRecord, Ledger, OnlyMatch, OutRecord, Pcct, PcctConfig, PitError,
    PitIndex, PitMatches, PlainInterest, Resource, StrategyId, Token, long_blocks,
};
use ndn_types::{
    NANOS_PER_MILLI, PrincipalIndex, PrincipalKey, Reserves, Resources as _, ShareVerdict,
    Timestamp,
};
use proptest::prelude::*;

const ENTRIES_MAX: usize = 40;
const EXTRA_RECORDS_MAX: usize = 30;
const PRINCIPALS: usize = 3;
const FACES: usize = 8;

/// Name value, CanBePrefix, MustBeFresh.
type Key = (Vec<u8>, bool, bool);

#[derive(Clone, Debug, PartialEq)]
struct InModel {
    nonce: u32,
    renewed: Timestamp,
    lifetime_ms: u32,
    token: Vec<u8>,
}

#[derive(Clone, Debug)]
struct EntryModel {
    index: PitIndex,
    token: Token,
    wire: Vec<u8>,
    expiry: Timestamp,
    in_records: BTreeMap<u32, InModel>,
    out_records: BTreeMap<u32, (u32, Timestamp, u32)>,
    is_published: bool,
}

#[derive(Clone, Debug)]
enum Operation {
    Insert {
        name: Vec<u16>,
        digest_of: Option<u8>,
        can_be_prefix: bool,
        must_be_fresh: bool,
        padding: usize,
    },
    InRecord {
        entry: usize,
        face: u32,
        nonce: u32,
        lifetime_ms: u32,
        token: usize,
    },
    OutRecord {
        entry: usize,
        face: u32,
        nonce: u32,
        lifetime_ms: u32,
    },
    RemoveRecord {
        entry: usize,
        face: u32,
        incoming: bool,
    },
    /// Removes the in-records of all faces but those of this bit map.
    Retain {
        entry: usize,
        faces: u8,
    },
    /// Charges an entry to the downstream that expires last.
    ChargeToLatest {
        entry: usize,
    },
    /// Puts an Interest in the table of short-prefix Interests.
    Publish {
        entry: usize,
    },
    /// A face changes its principal.
    ChangePrincipal {
        face: usize,
        principal: usize,
    },
    /// The last face of a principal closes. It is attached again with its next Interest.
    Detach {
        principal: usize,
    },
    /// Evicts for a principal what others hold above their shares.
    Evict {
        principal: usize,
        resource: usize,
    },
    ClearRecords {
        entry: usize,
        incoming: bool,
    },
    SetExpiry {
        entry: usize,
        ahead_ms: u64,
    },
    Data {
        name: Vec<u16>,
        content: u8,
    },
    Advance {
        nanos: u64,
    },
}

fn name() -> impl Strategy<Value = Vec<u16>> {
    prop_oneof![
        4 => proptest::collection::vec(0..2_u16, 0..5),
        1 => proptest::collection::vec(Just(0_u16), 60..64),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let lifetime = || prop_oneof![0..50_u32, 0..20_000_u32];
    prop_oneof![
        6 => (name(), proptest::option::weighted(0.2, 0..2_u8), any::<bool>(), any::<bool>(), 0..200_usize)
            .prop_map(|(name, digest_of, can_be_prefix, must_be_fresh, padding)| {
                Operation::Insert { name, digest_of, can_be_prefix, must_be_fresh, padding }
            }),
        6 => (0..40_usize, 0..8_u32, any::<u32>(), lifetime(), 0..34_usize).prop_map(
            |(entry, face, nonce, lifetime_ms, token)| Operation::InRecord { entry, face, nonce, lifetime_ms, token }),
        4 => (0..40_usize, 0..8_u32, any::<u32>(), lifetime()).prop_map(
            |(entry, face, nonce, lifetime_ms)| Operation::OutRecord { entry, face, nonce, lifetime_ms }),
        2 => (0..40_usize, 0..8_u32, any::<bool>()).prop_map(
            |(entry, face, incoming)| Operation::RemoveRecord { entry, face, incoming }),
        1 => (0..40_usize, any::<u8>()).prop_map(|(entry, faces)| Operation::Retain { entry, faces }),
        2 => (0..40_usize).prop_map(|entry| Operation::ChargeToLatest { entry }),
        1 => (0..40_usize).prop_map(|entry| Operation::Publish { entry }),
        1 => (0..FACES, 0..PRINCIPALS).prop_map(
            |(face, principal)| Operation::ChangePrincipal { face, principal }),
        4 => (0..PRINCIPALS).prop_map(|principal| Operation::Detach { principal }),
        1 => (0..PRINCIPALS, 0..Resource::COUNT).prop_map(
            |(principal, resource)| Operation::Evict { principal, resource }),
        1 => (0..40_usize, any::<bool>()).prop_map(|(entry, incoming)| Operation::ClearRecords { entry, incoming }),
        4 => (0..40_usize, 0..12_000_u64).prop_map(|(entry, ahead_ms)| Operation::SetExpiry { entry, ahead_ms }),
        4 => (name(), 0..2_u8).prop_map(|(name, content)| Operation::Data { name, content }),
        3 => (0..3_000 * NANOS_PER_MILLI).prop_map(|nanos| Operation::Advance { nanos }),
    ]
}

/// The packet whose digest an Interest names.
fn data_of(name: &[u8], content: u8) -> Vec<u8> {
    data(name, &[content])
}

struct World {
    pcct: Pcct,
    now: Timestamp,
    model: BTreeMap<Key, EntryModel>,
    dead_tokens: Vec<Token>,
    /// The principals that have a face.
    attached: [Option<PrincipalIndex>; PRINCIPALS],
    /// The principal of each face.
    principal_of: [usize; FACES],
}

impl World {
    fn new() -> Self {
        let now = Timestamp::from_millis(5);
        let mut config = PcctConfig::with_capacity(ENTRIES_MAX as u32, 16, now);
        config.extra_records_max = EXTRA_RECORDS_MAX as u32;
        config.pit_bytes_max = 4 << 20;
        config.reserves = Reserves::NONE;
        Self {
            pcct: Pcct::new(&config, hasher()),
            now,
            model: BTreeMap::new(),
            dead_tokens: Vec::new(),
            attached: [None; PRINCIPALS],
            principal_of: std::array::from_fn(|face| face % PRINCIPALS),
        }
    }

    /// A principal, with a face.
    fn attach(&mut self, principal: usize) -> PrincipalIndex {
        let key = PrincipalKey::Neighbour { face_id: 300 + principal as u64 };
        *self.attached[principal].get_or_insert_with(|| self.pcct.ledger_mut().attach(key))
    }

    fn nth(&mut self, entry: usize) -> Option<&mut EntryModel> {
        let count = self.model.len();
        (count > 0).then(|| self.model.values_mut().nth(entry % count).unwrap())
    }

    fn insert(&mut self, key: Key, wire: Vec<u8>) {
        let hashed = Hashed::new(&key.0);
        let lookup = hashed.interest(key.1, key.2);
        let known = self.model.get(&key);
        assert_eq!(self.pcct.find_interest(&lookup), known.map(|entry| entry.index));
        if known.is_some() {
            return;
        }
        let principal = self.attach(wire.len() % PRINCIPALS);
        let result = self.pcct.insert_new_interest(&lookup, &wire, principal);
        match result {
            Err(error) => assert_eq!((error, self.model.len()), (PitError::Full, ENTRIES_MAX)),
            Ok(index) => {
                assert!(self.model.len() < ENTRIES_MAX);
                let token = self.pcct.token(index, 9);
                assert!(!self.dead_tokens.contains(&token));
                let entry = self.pcct.entry(index);
                assert_eq!(entry.expiry(), Timestamp::MAX);
                assert_eq!((entry.strategy_state, entry.strategy_id), (0, 0));
                self.model.insert(
                    key,
                    EntryModel {
                        index,
                        token,
                        wire,
                        expiry: Timestamp::MAX,
                        in_records: BTreeMap::new(),
                        out_records: BTreeMap::new(),
                        is_published: false,
                    },
                );
            }
        }
    }

    fn erase(&mut self, index: PitIndex) {
        let key = self.model.iter().find(|(_, entry)| entry.index == index).unwrap().0.clone();
        let entry = self.model.remove(&key).unwrap();
        self.pcct.erase(index);
        self.dead_tokens.push(entry.token);
    }

    /// Lets a Data take the place of an entry.
    fn replace(&mut self, only: OnlyMatch, key: &DataKey<'_>, packet: &[u8]) {
        let key_of = |(_, entry): &(&Key, &EntryModel)| entry.index == only.entry();
        let requested = self.model.iter().find(key_of).unwrap().0.clone();
        self.dead_tokens.push(self.model.remove(&requested).unwrap().token);
        self.pcct.strip(only.entry());
        let cached = self.pcct.replace_by_data(only, key, packet, 1000, self.now).unwrap();
        assert_eq!(self.pcct.data(cached), packet);
        assert!(self.pcct.find_only_match(key).is_none(), "the item is a Data");
    }

    /// Every record beyond the first of its entry takes a slot in the side array.
    fn extra_records(&self) -> (usize, usize) {
        self.model.values().fold((0, 0), |(incoming, outgoing), entry| {
            (
                incoming + entry.in_records.len().saturating_sub(1),
                outgoing + entry.out_records.len().saturating_sub(1),
            )
        })
    }

    fn in_record(&mut self, entry: usize, face: u32, new: InModel) {
        let now = self.now;
        let (extra, _) = self.extra_records();
        let records = self.model.values().flat_map(|entry| entry.in_records.values());
        let long_tokens = records.filter(|record| record.token.len() > 8).count();
        let Some(entry) = self.nth(entry) else { return };
        let index = entry.index;
        let is_known = entry.in_records.contains_key(&face);
        let has_place = entry.in_records.get(&face).is_some_and(|record| record.token.len() > 8);
        let needs_place = new.token.len() > 8 && !has_place;
        let expected = if new.token.len() > 32 || (needs_place && long_tokens == EXTRA_RECORDS_MAX)
        {
            Err(PitError::TokensFull)
        } else if !is_known && !entry.in_records.is_empty() && extra == EXTRA_RECORDS_MAX {
            Err(PitError::RecordsFull)
        } else {
            entry.in_records.insert(face, new.clone());
            Ok(())
        };
        let principal = self.attach(self.principal_of[face as usize]);
        let record = InRecord::new(FaceIndex::from_bits(face), new.nonce, new.lifetime_ms, now)
            .charged_to(principal);
        let place = self.pcct.find_in_record(index, record.face);
        assert_eq!(place.is_some(), is_known);
        let result = match place {
            Some(place) => {
                self.pcct.renew_in_record(index, place, record, &new.token).map(|()| place)
            }
            None => self.pcct.add_in_record(index, record, &new.token),
        };
        assert_eq!(result.map(|_| ()), expected);
        if let Ok(place) = result {
            let records: Vec<_> = self.pcct.in_records(index).collect();
            let charged = records.iter().find(|other| other.face == record.face).unwrap();
            assert_eq!(charged.principal, principal);
            let is_last = records.iter().all(|other| other.expiry() <= record.expiry());
            if is_last {
                self.pcct.charge_to(index, place);
                assert_eq!(self.pcct.entry(index).principal(), principal);
            }
        }
    }

    fn out_record(&mut self, entry: usize, face: u32, nonce: u32, lifetime_ms: u32) {
        let now = self.now;
        let (_, extra) = self.extra_records();
        let Some(entry) = self.nth(entry) else { return };
        let index = entry.index;
        let is_known = entry.out_records.contains_key(&face);
        let fits = is_known || entry.out_records.is_empty() || extra < EXTRA_RECORDS_MAX;
        let previous = entry.out_records.get(&face).map(|(nonce, ..)| *nonce);
        if fits {
            entry.out_records.insert(face, (nonce, now, lifetime_ms));
        }
        let face = FaceIndex::from_bits(face);
        let result = self.pcct.insert_out_record(index, face, nonce, lifetime_ms, now);
        assert_eq!(result, if fits { Ok(previous) } else { Err(PitError::RecordsFull) });
        if fits {
            let record = self.pcct.out_record_mut(index, face).unwrap();
            assert_eq!(record.nack_reason, None);
            assert_eq!(record.strategy_state, if is_known { 7 } else { 0 });
            assert_eq!(record.measured_depth, if is_known { 3 } else { OutRecord::UNMEASURED });
            record.nack_reason = Some(50);
            record.strategy_state = 7;
            record.measured_depth = 3;
        }
    }

    fn data(&mut self, name: &[u8], content: u8) {
        let packet = data_of(name, content);
        let full = with_digest(name, &digest(&packet));
        let mut expected: Vec<PitIndex> = self
            .model
            .iter()
            .filter(|((requested, can_be_prefix, _), _)| {
                let has_digest =
                    requested.len() >= 34 && requested[requested.len() - 34..][..2] == [1, 32];
                if has_digest {
                    *requested == full
                } else {
                    requested == name || *can_be_prefix && name.starts_with(requested)
                }
            })
            .map(|(_, entry)| entry.index)
            .collect();
        expected.sort();
        let hashed = Hashed::new(name);
        let mut matches = PitMatches::default();
        if self.pcct.prefetch_data_bucket(hashed.data().name_hash()) {
            self.pcct.prefetch_prefix_buckets(hashed.data().hashes());
        }
        self.pcct.prefetch_data_entries(hashed.data().name_hash());
        self.pcct.find_pit_matches(&hashed.data(), || digest(&packet), &mut matches);
        let mut found = matches.as_slice().to_vec();
        let lengths =
            found.iter().map(|&index| self.pcct.interest_name(index).value().len().min(name.len()));
        assert!(lengths.is_sorted_by(|a, b| a >= b));
        found.sort();
        assert_eq!(found, expected);
        let only = self.pcct.find_only_match(&hashed.data());
        assert!(only.is_none_or(|only| found == [only.entry()]));
        match only {
            Some(only) if content.is_multiple_of(2) => {
                self.replace(only, &hashed.data(), &packet);
            }
            _ => found.into_iter().for_each(|index| self.erase(index)),
        }
    }

    fn expire(&mut self) {
        let mut budget = 10_000;
        while let Some(index) = self.pcct.pop_expired(self.now, &mut budget) {
            let entry = self.model.values().find(|entry| entry.index == index).unwrap();
            assert!(entry.expiry <= self.now);
            self.erase(index);
        }
        assert!(budget > 0);
        // Ticks of the wheel, and 250 ms for slots whose deadline was moved earlier repeatedly.
        for entry in self.model.values() {
            let slack = 252 * NANOS_PER_MILLI;
            assert!(entry.expiry.plus_nanos(slack) > self.now, "{entry:?} at {:?}", self.now);
        }
    }

    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Insert { name, digest_of, can_be_prefix, must_be_fresh, padding } => {
                let mut name = name_of(&name);
                if let Some(content) = digest_of {
                    let full = with_digest(&name, &digest(&data_of(&name, content)));
                    if full.len() <= 34 + 62 * 4 {
                        name = full;
                    }
                }
                let wire = interest(&name, padding);
                self.insert((name, can_be_prefix, must_be_fresh), wire);
            }
            Operation::InRecord { entry, face, nonce, lifetime_ms, token } => {
                let token = (0..token as u8).collect();
                let renewed = self.now;
                self.in_record(entry, face, InModel { nonce, renewed, lifetime_ms, token });
            }
            Operation::OutRecord { entry, face, nonce, lifetime_ms } => {
                self.out_record(entry, face, nonce, lifetime_ms);
            }
            Operation::RemoveRecord { entry, face, incoming } => {
                let Some(entry) = self.nth(entry) else { return };
                let index = entry.index;
                let removed = if incoming {
                    (entry.in_records.remove(&face).is_some(), FaceIndex::from_bits(face))
                } else {
                    (entry.out_records.remove(&face).is_some(), FaceIndex::from_bits(face))
                };
                let result = if incoming {
                    self.pcct.remove_in_record(index, removed.1)
                } else {
                    self.pcct.remove_out_record(index, removed.1)
                };
                assert_eq!(result, removed.0);
            }
            Operation::Retain { entry, faces } => {
                let Some(entry) = self.nth(entry) else { return };
                let index = entry.index;
                let before = entry.in_records.len();
                entry.in_records.retain(|face, _| faces & 1 << face != 0);
                let removed = before - entry.in_records.len();
                let keep = |_: &Ledger, record: &InRecord| faces & 1 << record.face.to_bits() != 0;
                assert_eq!(self.pcct.retain_in_records(index, keep), removed);
            }
            Operation::ChargeToLatest { entry } => {
                let Some(entry) = self.nth(entry) else { return };
                let index = entry.index;
                let expiries = entry.in_records.values();
                let latest = expiries
                    .map(|record| record.renewed.plus_millis(u64::from(record.lifetime_ms)))
                    .max();
                assert_eq!(self.pcct.charge_to_latest(index), latest);
            }
            Operation::Publish { entry } => {
                let Some(entry) = self.nth(entry) else { return };
                entry.is_published = true;
                let index = entry.index;
                self.pcct.note_published(index);
            }
            Operation::ChangePrincipal { face, principal } => self.principal_of[face] = principal,
            Operation::Detach { principal } => {
                if let Some(index) = self.attached[principal].take() {
                    self.pcct.ledger_mut().detach(index);
                }
            }
            Operation::Evict { principal, resource } => self.evict(principal, resource),
            Operation::ClearRecords { entry, incoming } => {
                let Some(entry) = self.nth(entry) else { return };
                let index = entry.index;
                if incoming {
                    entry.in_records.clear();
                    self.pcct.clear_in_records(index);
                } else {
                    entry.out_records.clear();
                    self.pcct.clear_out_records(index);
                }
            }
            Operation::SetExpiry { entry, ahead_ms } => {
                let now = self.now;
                let Some(entry) = self.nth(entry) else { return };
                entry.expiry = now.plus_millis(ahead_ms);
                let (index, expiry) = (entry.index, entry.expiry);
                self.pcct.set_expiry(index, expiry, now);
            }
            Operation::Data { name, content } => self.data(&name_of(&name), content),
            Operation::Advance { nanos } => {
                self.now = self.now.plus_nanos(nanos);
                self.expire();
            }
        }
    }

    /// Evicts until there is room, as a shard does.
    fn evict(&mut self, principal: usize, resource: usize) {
        let (principal, resource) = (self.attach(principal), Resource::ALL[resource]);
        let mut budget = 1000;
        while let ShareVerdict::Evict(limits) = self.pcct.ledger().verdict(principal, resource, 1) {
            let victim = self.pcct.next_victim(resource, limits, None, &mut budget);
            let Some(victim) = victim else {
                assert!(budget > 0, "all places were checked");
                return;
            };
            let owner = self.pcct.entry(victim.entry).principal();
            let Some(face) = victim.face else {
                assert!(self.pcct.ledger().exceeds(owner, resource, limits));
                self.erase(victim.entry);
                continue;
            };
            let entry = self.model.values_mut().find(|entry| entry.index == victim.entry).unwrap();
            if resource == Resource::OutRecords {
                assert!(self.pcct.ledger().exceeds(owner, resource, limits));
                assert!(entry.out_records.remove(&face.to_bits()).is_some());
                assert!(self.pcct.remove_out_record(victim.entry, face));
            } else {
                let mut records = self.pcct.in_records(victim.entry);
                let holder = records.find(|record| record.face == face).unwrap().principal;
                drop(records);
                assert!(self.pcct.ledger().exceeds(holder, resource, limits));
                assert!(entry.in_records.remove(&face.to_bits()).is_some());
                assert!(self.pcct.remove_in_record(victim.entry, face));
            }
        }
    }

    /// The charges that do not depend on the order of records.
    fn check_totals(&self) {
        let report = self.pcct.ledger().report();
        let total = |resource: Resource| report.resources[resource.index()].total as usize;
        let records = || self.model.values().flat_map(|entry| entry.in_records.values());
        let blocks = self.model.values().map(|entry| long_blocks(entry.wire.len()) as usize);
        let totals = Resource::ALL.map(total);
        let (further_in, further_out) = self.extra_records();
        let long_tokens = records().filter(|record| record.token.len() > 8).count();
        let published = self.model.values().filter(|entry| entry.is_published).count();
        let expected =
            [self.model.len(), further_in, further_out, long_tokens, blocks.sum(), published];
        assert_eq!(totals, expected);
        assert!(self.pcct.ledger_is_exact());
    }

    fn check(&self) {
        self.check_totals();
        assert_eq!(self.pcct.pit_len(), self.model.len());
        assert_eq!(
            self.pcct.in_records_len(),
            self.model.values().map(|entry| entry.in_records.len()).sum::<usize>()
        );
        assert_eq!(self.pcct.extra_record_counts(), self.extra_records());
        for ((name, can_be_prefix, must_be_fresh), model) in &self.model {
            let entry = self.pcct.entry(model.index);
            assert_eq!(self.pcct.interest(model.index), model.wire);
            assert_eq!(self.pcct.interest_name(model.index).value(), name);
            assert_eq!(
                (entry.can_be_prefix(), entry.must_be_fresh()),
                (*can_be_prefix, *must_be_fresh)
            );
            assert_eq!(entry.expiry(), model.expiry);
            assert_eq!(entry.in_record_count(), model.in_records.len());
            assert_eq!(entry.out_record_count(), model.out_records.len());
            assert_eq!(self.pcct.find_token(model.token), Some(model.index));
            let in_records: BTreeMap<_, _> = self
                .pcct
                .in_records(model.index)
                .map(|record| {
                    assert_eq!(
                        record.expiry(),
                        record.renewed.plus_millis(u64::from(record.lifetime_ms))
                    );
                    (
                        record.face.to_bits(),
                        InModel {
                            nonce: record.nonce,
                            renewed: record.renewed,
                            lifetime_ms: record.lifetime_ms,
                            token: self.pcct.token_bytes(record).to_vec(),
                        },
                    )
                })
                .collect();
            assert_eq!(in_records, model.in_records);
            let out_records: BTreeMap<_, _> = self
                .pcct
                .out_records(model.index)
                .map(|record| {
                    (record.face.to_bits(), (record.nonce, record.renewed, record.lifetime_ms))
                })
                .collect();
            assert_eq!(out_records, model.out_records);
        }
        for &token in &self.dead_tokens {
            assert_eq!(self.pcct.find_token(token), None);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn agrees_with_the_model(operations in proptest::collection::vec(operation(), 1..150)) {
        let mut world = World::new();
        for operation in operations {
            world.apply(operation);
            world.check();
        }
        for index in world.model.values().map(|entry| entry.index).collect::<Vec<_>>() {
            world.erase(index);
        }
        world.check();
        prop_assert!(world.pcct.ledger().report().is_zero());
        let known = world.pcct.ledger().report().principals.len();
        let attached = world.attached.iter().flatten().count();
        prop_assert_eq!(known, attached + 1, "the others are forgotten");
    }
}

#[test]
fn plain_interest_equals_one_that_gets_its_records_later() {
    let now = Timestamp::from_millis(5);
    let config = PcctConfig::with_capacity(64, 16, now);
    for (must_be_fresh, upstream) in [(false, None), (true, Some(8))] {
        let (mut one, mut other) = (Pcct::new(&config, hasher()), Pcct::new(&config, hasher()));
        let name = Hashed::new(&name_of(&[1, 2]));
        let wire = interest(&name.value, 0);
        let record = InRecord::new(FaceIndex::from_bits(7), 9, 4000, now);
        let new = PlainInterest {
            wire: &wire,
            name_hash: name.data().name_hash(),
            name_components: 2,
            must_be_fresh,
            strategy: StrategyId(3),
            upstream: upstream.map(FaceIndex::from_bits),
        };
        let with_token = record.with_token(*b"token\0\0\0", 5);
        let (plain, _) = one.insert_plain_interest(&new, with_token).unwrap();
        let key = name.interest(false, must_be_fresh);
        let index = other.insert_new_interest(&key, &wire, PrincipalIndex::OTHER).unwrap();
        other.add_in_record(index, record, b"token").unwrap();
        other.set_expiry(index, record.expiry(), now);
        other.entry_mut(index).strategy_id = 3;
        if let Some(face) = new.upstream {
            other.insert_out_record(index, face, 9, 4000, now).unwrap();
        }
        assert_eq!(format!("{:?}", one.entry(plain)), format!("{:?}", other.entry(index)));
        assert_eq!(one.find_interest(&key), Some(plain));
        assert_eq!((one.in_records_len(), one.ledger_is_exact()), (1, true));
        let long = interest(&name.value, 200);
        let refused = one.insert_plain_interest(&PlainInterest { wire: &long, ..new }, record);
        assert_eq!(refused.err(), Some(PitError::TooLong));
        assert_eq!(one.pit_len(), 1);
    }
}

/// An entry has one timer record however often it is renewed or its slot reused, and is returned
/// within a tick or two of its expiry.
#[test]
fn expiry_is_on_time_with_one_timer_per_entry() {
    let mut now = Timestamp::from_millis(1000);
    let mut pcct = Pcct::new(&PcctConfig::with_capacity(64, 16, now), hasher());
    let name = Hashed::new(&name_of(&[1, 2]));
    let wire = interest(&name.value, 0);
    for _ in 0..10_000 {
        let index = pcct
            .insert_new_interest(&name.interest(false, false), &wire, PrincipalIndex::OTHER)
            .unwrap();
        pcct.set_expiry(index, now.plus_millis(4000), now);
        now = now.plus_millis(1);
        assert_eq!(pcct.pop_expired(now, &mut 4), None);
        pcct.erase(index);
    }
    let index = pcct
        .insert_new_interest(&name.interest(false, false), &wire, PrincipalIndex::OTHER)
        .unwrap();
    let deadline = now.plus_millis(20_000);
    pcct.set_expiry(index, deadline, now);
    let mut polls = 0;
    let late = loop {
        now = pcct.next_deadline().unwrap();
        polls += 1;
        if let Some(expired) = pcct.pop_expired(now, &mut 100) {
            assert_eq!(expired, index);
            break now.nanos_since(deadline);
        }
    };
    assert!(now >= deadline && late <= 2 * NANOS_PER_MILLI, "{late} ns late");
    assert!(polls < 20, "woken {polls} times");
}

/// Interests with invented digests do not displace other Interests of the name, and only Data of
/// that name are hashed.
#[test]
fn many_digests_of_one_name_do_not_affect_other_interests() {
    let now = Timestamp::ZERO;
    let mut pcct = Pcct::new(&PcctConfig::with_capacity(2048, 16, now), hasher());
    let base = Hashed::new(&name_of(&[1, 2]));
    let packet = data(&base.value, &[7]);
    let mut indices = Vec::new();
    for number in 0..1000_u32 {
        let mut fake = [0; 32];
        fake[..4].copy_from_slice(&number.to_be_bytes());
        let name = Hashed::new(&with_digest(&base.value, &fake));
        let wire = interest(&name.value, 0);
        indices.push(
            pcct.insert_new_interest(&name.interest(false, false), &wire, PrincipalIndex::OTHER)
                .unwrap(),
        );
    }
    let full = Hashed::new(&with_digest(&base.value, &digest(&packet)));
    let plain = pcct.insert_new_interest(
        &base.interest(true, false),
        &interest(&base.value, 0),
        PrincipalIndex::OTHER,
    );
    let exact = pcct.insert_new_interest(
        &full.interest(false, true),
        &interest(&full.value, 0),
        PrincipalIndex::OTHER,
    );
    let mut found = PitMatches::default();
    pcct.find_pit_matches(&base.data(), || digest(&packet), &mut found);
    assert_eq!(found.as_slice(), [plain.unwrap(), exact.unwrap()]);
    let hashed = (0..1000_u16).filter(|&number| {
        let name = Hashed::new(&name_of(&[3, number]));
        let mut is_hashed = false;
        let compute = || {
            is_hashed = true;
            [0; 32]
        };
        pcct.find_pit_matches(&name.data(), compute, &mut found);
        is_hashed
    });
    assert!(hashed.count() < 5, "Data of other names are not hashed");
    indices.extend(found.as_slice());
    for index in indices {
        pcct.erase(index);
    }
    pcct.erase(exact.unwrap());
    pcct.find_pit_matches(&base.data(), || unreachable!("nobody asks for a digest"), &mut found);
}
