//! Records of PIT entries at their limits.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Hashed, hasher, interest, name_of};
use ndn_table::{FaceIndex, InRecord, Pcct, PcctConfig, PitError, PitIndex};
use ndn_types::{PrincipalIndex, PrincipalKey, Timestamp};
use proptest::prelude::*;

const LONG_TOKENS_MAX: u16 = 5;

fn renew(pcct: &mut Pcct, entry: PitIndex, record: InRecord, token: &[u8]) -> Result<(), PitError> {
    let place = pcct.find_in_record(entry, record.face).unwrap();
    pcct.renew_in_record(entry, place, record, token)
}

#[test]
fn in_record_is_unchanged_when_token_store_is_full() {
    let (early, late) = (Timestamp::from_millis(5), Timestamp::from_millis(6));
    let mut config = PcctConfig::with_capacity(16, 16, early);
    config.extra_records_max = u32::from(LONG_TOKENS_MAX);
    let mut pcct = Pcct::new(&config, hasher());
    let face = FaceIndex::new(1, 1);
    let entries: Vec<PitIndex> = (0..=LONG_TOKENS_MAX)
        .map(|number| {
            let name = name_of(&[number]);
            let hashed = Hashed::new(&name);
            let key = hashed.interest(false, false);
            pcct.insert_new_interest(&key, &interest(&name, 0), PrincipalIndex::OTHER).unwrap()
        })
        .collect();
    let (&last, others) = entries.split_last().unwrap();
    for &entry in others {
        pcct.add_in_record(entry, InRecord::new(face, 1, 100, early), &[1; 9]).unwrap();
    }
    pcct.add_in_record(last, InRecord::new(face, 2, 200, early), b"short").unwrap();
    let seen = |pcct: &Pcct, entry| {
        let record = *pcct.in_records(entry).next().unwrap();
        let token = pcct.token_bytes(&record).to_vec();
        (record.nonce, record.lifetime_ms, record.renewed, token)
    };
    let (full, renewed) = (Err(PitError::TokensFull), Ok(()));
    assert_eq!(renew(&mut pcct, last, InRecord::new(face, 3, 300, late), &[3; 9]), full);
    assert_eq!(seen(&pcct, last), (2, 200, early, b"short".to_vec()));
    for length in [33, 300] {
        let too_long = vec![4; length];
        assert_eq!(renew(&mut pcct, others[0], InRecord::new(face, 4, 400, late), &too_long), full);
        assert_eq!(seen(&pcct, others[0]), (1, 100, early, vec![1; 9]));
    }
    // A long token reuses the slot of a long one, and a short one releases it.
    assert_eq!(renew(&mut pcct, others[0], InRecord::new(face, 5, 500, late), &[5; 32]), renewed);
    assert_eq!(seen(&pcct, others[0]), (5, 500, late, vec![5; 32]));
    assert_eq!(renew(&mut pcct, others[0], InRecord::new(face, 6, 600, late), b"short"), renewed);
    assert_eq!(renew(&mut pcct, last, InRecord::new(face, 7, 700, late), &[7; 10]), renewed);
    assert_eq!(seen(&pcct, last), (7, 700, late, vec![7; 10]));
    assert_eq!(seen(&pcct, others[0]), (6, 600, late, b"short".to_vec()));
    assert_eq!(seen(&pcct, others[1]), (1, 100, early, vec![1; 9]));
}

#[test]
fn principal_without_faces_keeps_its_account_when_its_record_becomes_the_first() {
    for way in 0..3 {
        let now = Timestamp::from_millis(5);
        let mut pcct = Pcct::new(&PcctConfig::with_capacity(16, 16, now), hasher());
        let neighbour = |face_id| PrincipalKey::Neighbour { face_id };
        let [first, second] = [1, 2].map(|face_id| pcct.ledger_mut().attach(neighbour(face_id)));
        let name = name_of(&[1]);
        let hashed = Hashed::new(&name);
        let key = hashed.interest(false, false);
        let entry = pcct.insert_new_interest(&key, &interest(&name, 0), first).unwrap();
        let faces = [1, 2].map(|slot| FaceIndex::new(slot, 1));
        let places = [(faces[0], first), (faces[1], second)].map(|(face, principal)| {
            let record = InRecord::new(face, 1, 100, now).charged_to(principal);
            pcct.add_in_record(entry, record, &[]).unwrap()
        });
        pcct.ledger_mut().detach(second);
        match way {
            0 => pcct.charge_to(entry, places[1]),
            1 => assert!(pcct.remove_in_record(entry, faces[0])),
            _ => assert_eq!(pcct.retain_in_records(entry, |_, record| record.face == faces[1]), 1),
        }
        assert_eq!(pcct.entry(entry).principal(), second);
        assert_eq!(pcct.ledger_mut().attach(neighbour(2)), second, "it holds the entry");
        assert_ne!(pcct.ledger_mut().attach(neighbour(3)), second);
        assert!(pcct.ledger_is_exact());
        pcct.erase(entry);
        assert!(pcct.ledger().report().is_zero());
    }
}

/// An in-record with few different values, so that ties are frequent.
fn few_valued(slot: u32, nonce: u32, lifetime_ms: u32, principal: PrincipalIndex) -> InRecord {
    let now = Timestamp::from_millis(5);
    InRecord::new(FaceIndex::new(slot, 1), nonce, lifetime_ms, now).charged_to(principal)
}

proptest! {
    #[test]
    fn search_of_in_records_agrees_with_the_iterator(
        records in prop::collection::btree_map(0..12_u32, (0..4_u32, 1..4_u32, 0..3_usize), 0..12),
        order in any::<prop::sample::Index>(),
        (slot, nonce, lifetime_ms, of) in (0..12_u32, 0..4_u32, 1..4_u32, 0..3_usize),
    ) {
        let now = Timestamp::from_millis(5);
        let mut pcct = Pcct::new(&PcctConfig::with_capacity(16, 64, now), hasher());
        let neighbours = [1, 2, 3].map(|face_id| PrincipalKey::Neighbour { face_id });
        let principals = neighbours.map(|neighbour| pcct.ledger_mut().attach(neighbour));
        let name = name_of(&[1]);
        let hashed = Hashed::new(&name);
        let key = hashed.interest(false, false);
        let entry = pcct.insert_new_interest(&key, &interest(&name, 0), principals[0]).unwrap();
        let mut records: Vec<_> = records.into_iter().collect();
        if !records.is_empty() {
            let length = records.len();
            records.rotate_left(order.index(length));
        }
        for (slot, (nonce, lifetime_ms, of)) in records {
            let record = few_valued(slot, nonce, lifetime_ms, principals[of]);
            pcct.add_in_record(entry, record, &[]).unwrap();
        }
        let new = few_valued(slot, nonce, lifetime_ms, principals[of]);
        let found = pcct.search_in_records(entry, &new);
        let all: Vec<InRecord> = pcct.in_records(entry).copied().collect();
        let others = || all.iter().filter(|record| record.face != new.face);
        prop_assert_eq!(found.count, all.len());
        prop_assert_eq!(found.own, pcct.find_in_record(entry, new.face));
        let own = all.iter().find(|record| record.face == new.face);
        prop_assert_eq!(found.own_has_nonce, own.is_some_and(|record| record.nonce == new.nonce));
        prop_assert_eq!(found.other_has_nonce, others().any(|record| record.nonce == new.nonce));
        let of_principal = all.iter().filter(|record| record.principal == new.principal).count();
        prop_assert_eq!(found.of_principal, of_principal);
        let earliest = all.iter().map(InRecord::expiry).min().unwrap_or(Timestamp::MAX);
        prop_assert_eq!(found.earliest, earliest);
        // The last of several that expire at the same time is charged.
        let latest = others().max_by_key(|record| record.expiry());
        let place = latest.and_then(|record| pcct.find_in_record(entry, record.face));
        prop_assert_eq!(found.latest_other, place.zip(latest.map(InRecord::expiry)));
    }
}
