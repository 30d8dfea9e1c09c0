#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;

use super::*;
use crate::testing::name;

const fn hop(face_id: u64, cost: u64) -> NextHop {
    NextHop { face_id, cost }
}

fn set(prefix: &Name, next_hops: &[NextHop]) -> FibUpdate {
    FibUpdate::Set { prefix: prefix.clone(), next_hops: next_hops.to_vec() }
}

#[test]
fn last_change_of_a_next_hop_prevails() {
    let mut fib = Fib::new(10);
    let a = name("/a");
    assert_eq!(fib.add_next_hop(&a, hop(300, 10)).unwrap(), Some(set(&a, &[hop(300, 10)])));
    assert_eq!(fib.add_next_hop(&a, hop(300, 10)).unwrap(), None);
    assert_eq!(
        fib.apply(set(&a, &[hop(300, 20)]), &Rib::default()),
        Some(set(&a, &[hop(300, 20)]))
    );
    assert_eq!(fib.add_next_hop(&a, hop(300, 5)).unwrap(), Some(set(&a, &[hop(300, 5)])));
    assert_eq!(
        fib.apply(FibUpdate::Remove { prefix: a.clone() }, &Rib::default()),
        Some(FibUpdate::Remove { prefix: a })
    );
    assert!(fib.is_empty() && fib.entries.is_empty() && fib.faces.is_empty());
}

#[test]
fn rib_changes_only_the_next_hops_that_changed_in_it() {
    let mut fib = Fib::new(10);
    let a = name("/a");
    fib.apply(set(&a, &[hop(300, 1), hop(301, 2)]), &Rib::default());
    fib.add_next_hop(&a, hop(400, 0)).unwrap();
    fib.remove_next_hop(&a, 300).unwrap();
    // 301 changes; 300 stays removed, 400 stays.
    assert_eq!(
        fib.apply(set(&a, &[hop(300, 1), hop(301, 3)]), &Rib::default()),
        Some(set(&a, &[hop(400, 0), hop(301, 3)]))
    );
    assert_eq!(
        fib.apply(FibUpdate::Remove { prefix: a.clone() }, &Rib::default()),
        Some(set(&a, &[hop(400, 0)]))
    );
    assert_eq!(fib.remove_next_hop(&a, 400), Some(FibUpdate::Remove { prefix: a.clone() }));
    assert_eq!(fib.remove_next_hop(&a, 400), None);
    assert!(fib.entries.is_empty());
}

#[test]
fn limit_counts_prefixes() {
    let mut fib = Fib::new(1);
    fib.add_next_hop(&name("/a"), hop(300, 1)).unwrap();
    assert_eq!(fib.add_next_hop(&name("/b"), hop(300, 1)), Err(FibFull { entries_max: 1 }));
    assert!(fib.entries.len() == 1);
    fib.add_next_hop(&name("/a"), hop(301, 1)).unwrap();
    fib.remove_face(300, 9);
    fib.remove_face(301, 9);
    fib.add_next_hop(&name("/b"), hop(300, 1)).unwrap();
}

#[derive(Debug, Clone)]
enum Operation {
    Add(usize, NextHop),
    Remove(usize, u64),
    Rib(usize, Vec<(u64, u64)>),
    RemoveFace(u64, usize),
}

fn any_operation() -> impl Strategy<Value = Operation> {
    let prefix = 0..4_usize;
    let face = 300..304_u64;
    prop_oneof![
        (prefix.clone(), face.clone(), 0..3_u64).prop_map(|(p, f, c)| Operation::Add(p, hop(f, c))),
        (prefix.clone(), face.clone()).prop_map(|(p, f)| Operation::Remove(p, f)),
        (prefix, prop::collection::btree_map(face.clone(), 0..3_u64, 0..4))
            .prop_map(|(p, hops)| Operation::Rib(p, hops.into_iter().collect())),
        (face, 0..5_usize).prop_map(|(face_id, most)| Operation::RemoveFace(face_id, most)),
    ]
}

/// One cost per prefix and face, and the last next hops of the RIB.
#[derive(Default)]
struct NaiveFib {
    hops: BTreeMap<(usize, u64), u64>,
    from_rib: BTreeMap<(usize, u64), u64>,
}

impl NaiveFib {
    fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Add(prefix, hop) => {
                self.hops.insert((*prefix, hop.face_id), hop.cost);
            }
            Operation::Remove(prefix, face_id) => {
                self.hops.remove(&(*prefix, *face_id));
            }
            Operation::RemoveFace(face_id, most) => {
                let through = self.hops.keys().filter(|(_, face)| face == face_id);
                let first: Vec<(usize, u64)> = through.take(*most).copied().collect();
                self.hops.retain(|key, _| !first.contains(key));
            }
            Operation::Rib(prefix, hops) => {
                for face_id in 300..304 {
                    let key = (*prefix, face_id);
                    let cost =
                        hops.iter().find(|(face, _)| *face == face_id).map(|(_, cost)| *cost);
                    if self.from_rib.get(&key).copied() == cost {
                        continue;
                    }
                    match cost {
                        Some(cost) => {
                            (self.from_rib.insert(key, cost), self.hops.insert(key, cost))
                        }
                        None => (self.from_rib.remove(&key), self.hops.remove(&key)),
                    };
                }
            }
        }
    }

    fn of(&self, prefix: usize) -> Vec<NextHop> {
        let hops = self.hops.iter().filter(|((p, _), _)| *p == prefix);
        let mut hops: Vec<NextHop> =
            hops.map(|((_, face_id), cost)| hop(*face_id, *cost)).collect();
        // At equal cost, those of the RIB come first, in its order.
        hops.sort_by_key(|hop| {
            let of_rib = self.from_rib.get(&(prefix, hop.face_id)).copied();
            (hop.cost, of_rib.is_none(), of_rib, hop.face_id)
        });
        hops
    }
}

proptest! {
    #[test]
    fn agrees_with_one_cost_per_prefix_and_face(operations in prop::collection::vec(any_operation(), 1..40)) {
        let prefixes = ["/", "/a", "/a/b", "/b"].map(name);
        let mut fib = Fib::new(100);
        let mut naive = NaiveFib::default();
        let mut forwarding: BTreeMap<Name, Vec<NextHop>> = BTreeMap::new();
        for operation in operations {
            naive.apply(&operation);
            let updates = match operation {
                Operation::Add(prefix, hop) => {
                    fib.add_next_hop(&prefixes[prefix], hop).unwrap().into_iter().collect()
                }
                Operation::Remove(prefix, face_id) => {
                    fib.remove_next_hop(&prefixes[prefix], face_id).into_iter().collect()
                }
                Operation::RemoveFace(face_id, most) => fib.remove_face(face_id, most),
                Operation::Rib(prefix, hops) => {
                    let mut hops: Vec<NextHop> = hops.iter().map(|(f, c)| hop(*f, *c)).collect();
                    hops.sort_by_key(|hop| (hop.cost, hop.face_id));
                    let prefix = prefixes[prefix].clone();
                    let update = if hops.is_empty() {
                        FibUpdate::Remove { prefix }
                    } else {
                        FibUpdate::Set { prefix, next_hops: hops }
                    };
                    fib.apply(update, &Rib::default()).into_iter().collect::<Vec<_>>()
                }
            };
            for update in updates {
                match update {
                    FibUpdate::Set { prefix, next_hops } => {
                        prop_assert_ne!(forwarding.insert(prefix, next_hops.clone()), Some(next_hops));
                    }
                    FibUpdate::Remove { prefix } => prop_assert!(forwarding.remove(&prefix).is_some()),
                }
            }
            for (index, prefix) in prefixes.iter().enumerate() {
                let expected = naive.of(index);
                prop_assert_eq!(fib.find(prefix.as_ref()).unwrap_or_default(), &expected[..]);
                prop_assert_eq!(forwarding.get(prefix).cloned().unwrap_or_default(), expected);
            }
            prop_assert_eq!(fib.len(), forwarding.len());
            for face_id in 300..304 {
                let through = naive.hops.iter().filter(|((_, face), _)| *face == face_id);
                prop_assert_eq!(fib.has_face(face_id), through.clone().next().is_some());
                let own: Vec<(NameRef<'_>, u64)> = through
                    .filter(|(key, cost)| naive.from_rib.get(key) != Some(cost))
                    .map(|((prefix, _), cost)| (prefixes[*prefix].as_ref(), *cost))
                    .collect();
                prop_assert_eq!(fib.own_next_hops(face_id).collect::<Vec<_>>(), own);
            }
        }
    }
}
