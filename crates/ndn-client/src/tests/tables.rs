//! Model tests of the tables of Interests and handlers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use ndn_packet::{Data, DataBuilder, Interest, InterestBuilder, NackReason, Name};
use ndn_security::{NullSigner, sha256, sign_data};
use proptest::prelude::*;
use tokio::sync::{mpsc, oneshot};

use crate::Request;
use crate::pending::{FlowEvent, InterestAnswer, Key, PendingTable};
use crate::shared::Routes;

/// Names over a small alphabet, so that they collide.
fn any_name() -> impl Strategy<Value = Name> {
    proptest::collection::vec(0u64..3, 1..5).prop_map(|components| {
        let mut name = Name::new();
        for component in components {
            name.push_segment(component);
        }
        name
    })
}

#[derive(Debug, Clone)]
enum Operation {
    Ask { name: Name, can_be_prefix: bool, digest_of: Option<bool> },
    Answer(Name),
    Refuse { name: Name, can_be_prefix: bool },
    Cancel(usize),
    OpenFlow(Name),
    CloseFlow(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    let ask = (any_name(), any::<bool>(), any::<Option<bool>>());
    prop_oneof![
        5 => ask.prop_map(|(name, can_be_prefix, digest_of)| {
            Operation::Ask { name, can_be_prefix, digest_of }
        }),
        4 => any_name().prop_map(Operation::Answer),
        1 => (any_name(), any::<bool>())
            .prop_map(|(name, can_be_prefix)| Operation::Refuse { name, can_be_prefix }),
        1 => (0usize..40).prop_map(Operation::Cancel),
        1 => any_name().prop_map(Operation::OpenFlow),
        1 => (0usize..4).prop_map(Operation::CloseFlow),
    ]
}

fn data(name: &Name) -> Vec<u8> {
    sign_data(&DataBuilder::new(name.as_ref()), &NullSigner).unwrap()
}

struct Asked {
    interest: Vec<u8>,
    key: Key,
    receiver: oneshot::Receiver<InterestAnswer>,
}

struct Opened {
    prefix: Name,
    key: Key,
    receiver: mpsc::Receiver<FlowEvent>,
}

proptest! {
    /// The table answers exactly those Interests for which `Interest::matches` holds, and flows get
    /// exactly the Data and Nacks one component below them.
    #[test]
    fn pending_table_agrees_with_a_list(operations in proptest::collection::vec(operation(), 1..120)) {
        let mut table = PendingTable::default();
        let mut asked: Vec<Asked> = Vec::new();
        let mut flows: Vec<Opened> = Vec::new();
        for operation in operations {
            match operation {
                Operation::Ask { mut name, can_be_prefix, digest_of } => {
                    if let Some(right) = digest_of {
                        let mut digest = sha256(&data(&name));
                        digest[0] ^= u8::from(!right);
                        name.push_implicit_digest(&digest);
                    }
                    let interest = InterestBuilder::new(name.as_ref())
                        .can_be_prefix(can_be_prefix)
                        .to_vec()
                        .unwrap();
                    let (sender, receiver) = oneshot::channel();
                    let key = table.insert(&Interest::parse(&interest).unwrap(), sender);
                    asked.push(Asked { interest, key, receiver });
                }
                Operation::Answer(name) => {
                    let wire = Bytes::from(data(&name));
                    let parsed = Data::parse(&wire).unwrap();
                    table.handle_data(&parsed, &wire, false);
                    let mut rest = Vec::new();
                    for mut question in asked {
                        let interest = Interest::parse(&question.interest).unwrap();
                        let got = question.receiver.try_recv();
                        if interest.matches(&parsed, sha256) {
                            prop_assert!(matches!(got, Ok(InterestAnswer::Data(_))), "{}", interest.name());
                        } else {
                            prop_assert!(got.is_err(), "{} by {}", interest.name(), name);
                            rest.push(question);
                        }
                    }
                    asked = rest;
                    for flow in &mut flows {
                        let got = flow.receiver.try_recv();
                        let expected = name.as_ref().parent() == flow.prefix.as_ref();
                        prop_assert_eq!(matches!(got, Ok(FlowEvent::Data(_))), expected);
                    }
                }
                Operation::Refuse { name, can_be_prefix } => {
                    let interest = InterestBuilder::new(name.as_ref())
                        .can_be_prefix(can_be_prefix)
                        .to_vec()
                        .unwrap();
                    table.handle_nack(&Interest::parse(&interest).unwrap(), NackReason::NO_ROUTE);
                    let mut rest = Vec::new();
                    for mut question in asked {
                        let got = question.receiver.try_recv();
                        if question.interest == interest {
                            prop_assert!(matches!(got, Ok(InterestAnswer::Nack(NackReason::NO_ROUTE))));
                        } else {
                            prop_assert!(got.is_err());
                            rest.push(question);
                        }
                    }
                    asked = rest;
                    for flow in &mut flows {
                        let got = flow.receiver.try_recv();
                        let expected = name.as_ref().parent() == flow.prefix.as_ref();
                        prop_assert_eq!(matches!(got, Ok(FlowEvent::Nack { .. })), expected);
                    }
                }
                Operation::Cancel(index) => {
                    if index < asked.len() {
                        table.remove(&asked.remove(index).key);
                    }
                }
                Operation::OpenFlow(prefix) => {
                    let (sender, receiver) = mpsc::channel(4);
                    let key = table.insert_flow(prefix.as_ref(), sender);
                    flows.push(Opened { prefix, key, receiver });
                }
                Operation::CloseFlow(index) => {
                    if index < flows.len() {
                        table.remove(&flows.remove(index).key);
                    }
                }
            }
            prop_assert_eq!(table.len(), asked.len());
        }
        for question in asked {
            table.remove(&question.key);
        }
        for flow in flows {
            table.remove(&flow.key);
        }
        prop_assert!(table.is_empty());
    }

    /// The handler found is that of the longest prefix in a plain map.
    #[test]
    fn routes_agree_with_a_map(
        operations in proptest::collection::vec((any_name(), any::<bool>()), 1..40),
        lookups in proptest::collection::vec(any_name(), 1..20),
    ) {
        let mut routes = Routes::default();
        let mut model: BTreeMap<Vec<u8>, (Name, u64, usize)> = BTreeMap::new();
        let hits: Arc<Mutex<Vec<usize>>> = Arc::default();
        for (number, (prefix, insert)) in operations.into_iter().enumerate() {
            if insert {
                let hits = Arc::clone(&hits);
                let handler = Arc::new(move |_: Request| hits.lock().unwrap().push(number));
                let id = routes.insert(&prefix, handler);
                prop_assert_eq!(id.is_none(), model.contains_key(prefix.value()));
                if let Some(id) = id {
                    model.insert(prefix.value().to_vec(), (prefix, id, number));
                }
            } else if let Some((_, id, _)) = model.remove(prefix.value()) {
                prop_assert!(routes.remove(&prefix, id + 1_000_000).is_none());
                prop_assert!(routes.remove(&prefix, id).is_some());
            }
        }
        for name in lookups {
            let expected = model
                .values()
                .filter(|(prefix, ..)| name.as_ref().starts_with(prefix.as_ref()))
                .max_by_key(|(prefix, ..)| prefix.len())
                .map(|(.., number)| *number);
            let found = routes.find(name.as_ref());
            prop_assert_eq!(found.is_some(), expected.is_some());
            if let Some(handler) = found {
                hits.lock().unwrap().clear();
                let wire = InterestBuilder::new(name.as_ref()).to_vec().unwrap();
                let shared = crate::shared::Shared::new(crate::ConnectionState::Connected);
                handler.handle(Request::new(wire.into(), crate::lp::PitToken::default(), shared));
                prop_assert_eq!(hits.lock().unwrap().first().copied(), expected);
            }
        }
        let registered: BTreeSet<_> = routes.registered().into_iter().collect();
        prop_assert!(registered.is_empty());
    }
}
