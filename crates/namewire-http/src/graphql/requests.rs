//! Requests of the control socket as fields of the schema.

use std::time::Duration;

use async_graphql::dynamic::{Field, FieldFuture, InputValue, ResolverContext, TypeRef};
use namewire_control::{RequestInfo, execute};
use serde_json::{Map, Value};

use super::access::{self, Kind};
use super::shapes::{NUMBER, Shape, Types, camel, json_of};
use crate::tokens::Role;

/// The field of a request; `None` if the request is not part of the schema.
///
/// # Errors
/// A type of the declaration has no shape.
pub(super) fn field(
    info: &'static RequestInfo,
    types: &mut Types,
) -> Result<Option<(Kind, Field)>, String> {
    let (Some((kind, role)), Some(result)) = (access::of_request(info), info.result) else {
        return Ok(None);
    };
    let shape = Shape::parse(result)?;
    types.declare_parts(&shape);
    let of = shape.type_ref();
    let mut field = Field::new(camel(info.method), of, move |context| {
        let shape = shape.clone();
        FieldFuture::new(async move {
            let (calls, principal) = access::authorize(&context, role)?;
            let parameters = parameters(info, &context);
            let passed = parameters.clone();
            let called =
                calls.call(move |operations| execute(info.method, &passed, operations)).await;
            let called = called.map_err(|failure| access::unanswered(&failure));
            if kind == Kind::Mutation {
                access::log_change(&principal, info.method, &Value::Object(parameters), &called);
            }
            Ok(shape.value(&called?))
        })
    })
    .description(format!("{} (`{}` of the control socket; role {role})", info.help, info.method));
    for parameter in info.parameters {
        let of = Shape::parse(parameter.of)?;
        let argument = InputValue::new(camel(parameter.name), of.type_ref());
        field = field.argument(argument.description(parameter.help));
    }
    Ok(Some((kind, field)))
}

/// The arguments of a field as the parameters of the request.
fn parameters(info: &RequestInfo, context: &ResolverContext<'_>) -> Map<String, Value> {
    let parameter = |name: &str| {
        let argument = context.args.get(&camel(name));
        (name.to_owned(), argument.map_or(Value::Null, |argument| json_of(argument.as_value())))
    };
    info.parameters.iter().map(|info| parameter(info.name)).collect()
}

/// Maximum duration of a measurement, milliseconds.
const MEASUREMENT_MS_MAX: u64 = 60_000;

/// `traceLatency`: the request `trace.latency`, which is answered when its time is over.
pub(super) fn measurement() -> Field {
    let shape = Shape::Object("ServiceTimesReport".to_owned());
    let field = Field::new("traceLatency", shape.type_ref(), move |context| {
        let shape = shape.clone();
        FieldFuture::new(async move {
            let (calls, principal) = access::authorize(&context, Role::Admin)?;
            let milliseconds = context.args.try_get("milliseconds")?.u64()?;
            if milliseconds > MEASUREMENT_MS_MAX {
                return Err(access::bad_input(format!(
                    "milliseconds: the maximum is {MEASUREMENT_MS_MAX}"
                )));
            }
            let started =
                calls.call(move |operations| operations.measure_service_times(milliseconds));
            let started = started.await.map_err(|failure| access::unanswered(&failure));
            let arguments = serde_json::json!({ "milliseconds": milliseconds });
            access::log_change(&principal, "trace.latency", &arguments, &started);
            let stream = started?;
            tokio::time::sleep(Duration::from_millis(milliseconds)).await;
            let report = calls.call(move |_| {
                serde_json::to_value(stream.trace.report()).map_err(|error| error.to_string())
            });
            Ok(shape.value(&report.await.map_err(|failure| access::unanswered(&failure))?))
        })
    });
    let help = "Measures service times; the result follows when the time is over (`trace.latency` of the control socket; \
                role admin).";
    let argument = InputValue::new("milliseconds", TypeRef::named_nn(NUMBER));
    field.description(help).argument(argument.description("Duration; a minute at most."))
}
