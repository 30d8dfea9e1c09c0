//! GraphQL: the operations of the control socket and of NFD's management protocol, by one schema.
//!
//! The schema follows from declarations: requests and results of the control protocol (`namewire_control::REQUESTS`,
//! `RESULTS`), datasets, counters, and the rules of management commands. What is written by hand is the access to each request.

mod access;
mod captures;
mod events;
mod log;
mod management;
mod names;
mod packets;
pub(crate) mod post;
mod requests;
pub(crate) mod sampler;
mod shapes;
mod subscriptions;
mod tasks;
pub(crate) mod waiting;
pub(crate) mod websocket;

use std::collections::BTreeMap;

use async_graphql::dynamic::{Object, Schema, SchemaBuilder, Subscription};
use namewire_control::{REQUESTS, RESULTS, SERVICE_TIMES_RESULTS};
use ndn_counters::{CallValues, ExchangeValues, FaceValues, QueueDepthValues, WorkerValues};
use ndn_disk::DiskValues;
use ndn_forwarding::{InterestAccount, ShardValues};
use ndn_ring::PoolValues;
use ndn_types::{CounterInfo, CounterValues};

use crate::calls::Calls;
use crate::tasks::Tasks;
use sampler::Sampler;
use shapes::Types;

/// Maximum depth of a query.
const DEPTH_MAX: usize = 12;
/// Maximum number of fields of a query.
const FIELDS_MAX: usize = 400;
/// Maximum number of directives on a field.
const DIRECTIVES_MAX: usize = 4;

/// Builds the schema, which executes operations with what is given.
///
/// # Errors
/// A declaration has a type that the schema does not know; the tests show this.
pub(crate) fn schema(operations: Option<(Calls, Sampler, Tasks)>) -> Result<Schema, String> {
    let mut types = Types::new(counters());
    types.declare(RESULTS)?;
    types.declare(SERVICE_TIMES_RESULTS)?;
    types.declare(management::RESULTS)?;
    management::declare_structures(&mut types)?;
    names::declare(&mut types);
    tasks::declare(&mut types);
    let mut query = Object::new("Query").description("Reads the state of the forwarder.");
    let mut mutation = Object::new("Mutation").description("Changes the forwarder.");
    for info in REQUESTS {
        let Some((kind, field)) = requests::field(info, &mut types)? else { continue };
        match kind {
            access::Kind::Query => query = query.field(field),
            access::Kind::Mutation => mutation = mutation.field(field),
        }
    }
    for field in management::queries(&mut types)? {
        query = query.field(field);
    }
    query = query.field(names::query()).field(captures::dissection());
    query = query.field(tasks::query()).field(tasks::history());
    mutation = mutation.field(requests::measurement());
    for field in management::mutations()? {
        mutation = mutation.field(field);
    }
    mutation = tasks::mutations().into_iter().fold(mutation, Object::field);
    let subscription = Subscription::new("Subscription").description("Follows the forwarder.");
    let subscription = subscription.field(subscriptions::counters());
    let subscription = subscription.field(packets::subscription()).field(tasks::subscription());
    let subscription = subscription.field(captures::subscription()).field(log::subscription());
    let subscription = events::subscriptions().into_iter().fold(subscription, Subscription::field);
    let mut builder = Schema::build("Query", Some("Mutation"), Some("Subscription"))
        .register(query)
        .register(mutation)
        .register(subscription)
        .limit_depth(DEPTH_MAX)
        .limit_complexity(FIELDS_MAX)
        .limit_directives(DIRECTIVES_MAX);
    if let Some((calls, sampler, tasks)) = operations {
        builder = builder.data(tasks);
        builder = builder.data(calls).data(sampler).data(captures::CapturePlaces::new());
        builder = builder.data(events::faces()).data(events::routing());
    }
    let declared = packets::types().into_iter().chain(captures::types()).chain(log::types());
    let declared = declared.chain(events::types());
    let builder = declared.fold(builder, SchemaBuilder::register);
    types.register(builder).finish().map_err(|error| error.to_string())
}

/// The sets of counters that results contain, by the name of their type.
fn counters() -> BTreeMap<&'static str, Vec<&'static CounterInfo>> {
    BTreeMap::from([
        ("WorkerValues", WorkerValues::declarations()),
        ("CallValues", CallValues::declarations()),
        ("PoolValues", PoolValues::declarations()),
        ("ShardValues", ShardValues::declarations()),
        ("ExchangeValues", ExchangeValues::declarations()),
        ("QueueDepthValues", QueueDepthValues::declarations()),
        ("DiskValues", DiskValues::declarations()),
        ("InterestAccount", InterestAccount::declarations()),
        ("FaceValues", FaceValues::declarations()),
    ])
}

/// The schema in the schema definition language.
///
/// # Errors
/// A declaration has a type that the schema does not know; the tests show this.
pub fn sdl() -> Result<String, String> {
    schema(None).map(|schema| schema.sdl())
}
