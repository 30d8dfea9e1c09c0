//! Who may use which operation, and the errors of the API.

use std::fmt::Display;

use async_graphql::dynamic::ResolverContext;
use async_graphql::{Error, ErrorExtensions, Response};
use namewire_control::RequestInfo;
use ndn_management::CallError;

use crate::calls::{Calls, Unanswered};
use crate::counters::HttpCounters;
use crate::tokens::{Principal, Role};

/// Whether an operation reads or changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Query,
    Mutation,
}

/// The requests of the control socket that are part of the schema, and the roles that they need.
const REQUESTS: [(&str, Role); 21] = [
    ("version", Role::Read),
    ("log.levels", Role::Read),
    ("log.set", Role::Admin),
    ("management", Role::Admin),
    ("statistics", Role::Read),
    ("links", Role::Read),
    ("faces.waiting", Role::Read),
    ("faces.waiting_for", Role::Read),
    ("faces.limit", Role::Read),
    ("limits", Role::Read),
    ("webtransport", Role::Read),
    ("memif", Role::Read),
    ("interfaces", Role::Read),
    ("vip", Role::Read),
    ("ndt.list", Role::Read),
    ("ndt.set", Role::Admin),
    ("ndt.balance", Role::Admin),
    ("cs.policy", Role::Read),
    ("cs.set_policy", Role::Admin),
    ("config.check", Role::Admin),
    ("config.reload", Role::Admin),
];

/// The kind of a request, and the role that it needs; `None` if it is not part of the schema.
pub(super) fn of_request(info: &RequestInfo) -> Option<(Kind, Role)> {
    let (_, role) = REQUESTS.iter().find(|(name, _)| *name == info.method)?;
    Some((if info.is_audited { Kind::Mutation } else { Kind::Query }, *role))
}

/// Codes of errors, in `extensions.code`.
pub(crate) const UNAUTHENTICATED: &str = "UNAUTHENTICATED";
pub(crate) const FORBIDDEN: &str = "FORBIDDEN";
const BAD_INPUT: &str = "BAD_INPUT";
const REFUSED: &str = "REFUSED";
const UNAVAILABLE: &str = "UNAVAILABLE";
const QUERY_INVALID: &str = "QUERY_INVALID";
const QUERY_TOO_DEEP: &str = "QUERY_TOO_DEEP";
const QUERY_TOO_LARGE: &str = "QUERY_TOO_LARGE";

/// Gives the errors of GraphQL itself a code, and counts a query that it has refused. Those of a field are about its
/// arguments, others about the whole query; the library distinguishes these by their text only.
pub(super) fn coded(mut response: Response, counters: &HttpCounters) -> Response {
    let mut is_refused = false;
    for error in &mut response.errors {
        let extensions = error.extensions.get_or_insert_default();
        if extensions.get("code").is_none() {
            let is_of_field = !error.path.is_empty();
            extensions.set("code", code_of(&error.message, is_of_field));
            is_refused |= !is_of_field;
        }
    }
    if is_refused {
        counters.refused_query.increment();
    }
    response
}

fn code_of(message: &str, is_of_field: bool) -> &'static str {
    let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
    match is_of_field {
        true => BAD_INPUT,
        false if has(&["too deep", "recursion", "recursive depth"]) => QUERY_TOO_DEEP,
        false if has(&["too complex", "number of directives"]) => QUERY_TOO_LARGE,
        false => QUERY_INVALID,
    }
}

/// An error with a code.
pub(super) fn error(code: &'static str, text: impl Display) -> Error {
    Error::new(text.to_string()).extend_with(|_, extensions| extensions.set("code", code))
}

/// An argument that cannot be used.
pub(super) fn bad_input(text: impl Display) -> Error {
    error(BAD_INPUT, text)
}

/// A limit that is reached.
pub(super) fn busy(text: impl Display) -> Error {
    error(UNAVAILABLE, text)
}

/// An operation that is refused for this reason.
pub(super) fn refusal(reason: impl Display) -> Error {
    error(REFUSED, reason)
}

/// An operation that failed.
pub(super) fn unanswered(failure: &Unanswered) -> Error {
    match failure {
        Unanswered::Refused(reason) => error(REFUSED, reason),
        Unanswered::Busy | Unanswered::Silent => error(UNAVAILABLE, failure),
    }
}

/// A command that management refused: with its status code.
pub(super) fn refused(failure: &CallError) -> Error {
    let CallError::Refused { code, .. } = failure else { return error(REFUSED, failure) };
    let status = *code;
    error(REFUSED, failure).extend_with(|_, extensions| extensions.set("status", status))
}

/// The principal of a request, if it has the role.
///
/// # Errors
/// The request has no valid token, or one of a lower role.
pub(super) fn authorize(
    context: &ResolverContext<'_>,
    role: Role,
) -> Result<(Calls, Principal), Error> {
    let principal = context.data_opt::<Principal>();
    let principal = principal
        .ok_or_else(|| error(UNAUTHENTICATED, "a token is needed (namewire control token)"))?;
    if principal.role < role {
        let text = format!(
            "the token `{}` has the role {}; {role} is needed",
            principal.name, principal.role
        );
        return Err(error(FORBIDDEN, text));
    }
    Ok((context.data::<Calls>()?.clone(), principal.clone()))
}

/// Logs a change with its principal and outcome.
pub(super) fn log_change<T>(
    principal: &Principal,
    operation: &str,
    arguments: &serde_json::Value,
    outcome: &Result<T, Error>,
) {
    let (name, role) = (principal.name.as_str(), principal.role.name());
    match outcome {
        Ok(_) => {
            tracing::info!(principal = name, role, operation, %arguments, "changed by the HTTP API")
        }
        Err(error) => tracing::warn!(
            principal = name, role, operation, %arguments, reason = error.message,
            "a change by the HTTP API was rejected"
        ),
    }
}

#[cfg(test)]
mod tests {
    use async_graphql::{PathSegment, ServerError};

    use super::*;

    #[test]
    fn errors_of_fields_are_not_counted_as_refused_queries() {
        let counters = HttpCounters::default();
        let path = vec![PathSegment::Field("faces".to_owned())];
        let of_field = ServerError { path, ..ServerError::new("not a number", None) };
        for (error, code, count) in
            [(of_field, BAD_INPUT, 0), (ServerError::new("Unknown field", None), QUERY_INVALID, 1)]
        {
            let response = coded(Response::from_errors(vec![error]), &counters);
            let response = serde_json::to_value(&response).unwrap();
            assert_eq!(response["errors"][0]["extensions"]["code"], code, "{response}");
            assert_eq!(counters.refused_query.value(), count, "{response}");
        }
    }
}
