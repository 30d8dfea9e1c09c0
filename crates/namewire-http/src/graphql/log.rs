//! `log`: the messages of the log while they are logged.

use async_graphql::dynamic::{
    InputValue, Object, SubscriptionField, SubscriptionFieldFuture, TypeRef,
};
use namewire_control::{LogSeverity, LogStream};
use serde_json::{Value, json};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use super::access::{self, bad_input};
use super::management::text;
use super::shapes::{Shape, plain};
use super::subscriptions::{Taken, followed};
use crate::tokens::Role;

/// Maximum number of messages in one result; further ones follow in the next.
const MESSAGES_MAX: usize = 500;

/// The types of the results.
pub(super) fn types() -> [Object; 2] {
    let messages = Shape::List(Box::new(Shape::Object("LogMessage".to_owned())));
    let lost = "Messages lost so far, because there were too many.";
    [
        Object::new("LogMessages")
            .description("The messages since the previous result.")
            .field(plain("lost", lost, Shape::Number))
            .field(plain("messages", "In the order in which they were logged.", messages)),
        Object::new("LogMessage")
            .description("A message of the log.")
            .field(plain("unix_ms", "Milliseconds since 1970.", Shape::Number))
            .field(plain("level", "`trace`, `debug`, `info`, `warn` or `error`.", Shape::Text))
            .field(plain("module", "The module that logged it.", Shape::Text))
            .field(plain("message", "The text, with its fields as `name=value`.", Shape::Text)),
    ]
}

fn take(log: &LogStream) -> Option<Taken> {
    let mut items = Vec::new();
    while items.len() < MESSAGES_MAX {
        match log.next(Duration::ZERO) {
            Ok(message) => items.push(serde_json::to_value(message).unwrap_or(Value::Null)),
            Err(RecvTimeoutError::Disconnected) if items.is_empty() => return None,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    Some(Taken { items, lost: log.lost() })
}

/// The subscription `log`.
pub(super) fn subscription() -> SubscriptionField {
    let field = SubscriptionField::new("log", TypeRef::named_nn("LogMessages"), |context| {
        SubscriptionFieldFuture::new(async move {
            let (calls, _) = access::authorize(&context, Role::Read)?;
            let word = text(&context, "level")?.unwrap_or_else(|| "trace".to_owned());
            let level = LogSeverity::ALL.into_iter().find(|level| level.name() == word);
            let level = level.ok_or_else(|| {
                let names = LogSeverity::ALL.map(LogSeverity::name).join(", ");
                bad_input(format!("level: `{word}` is not one of {names}"))
            })?;
            let module = text(&context, "module")?;
            let followed_log = calls.call(move |operations| operations.follow_log(level, module));
            let log = followed_log.await.map_err(|failure| access::unanswered(&failure))?;
            Ok(followed(
                log,
                take,
                |Taken { items, lost }| json!({ "lost": lost, "messages": items }),
            ))
        })
    });
    let text = || TypeRef::named(TypeRef::STRING);
    let help = "The least serious level; `trace` by default. What the levels in force suppress is not sent.";
    let level = InputValue::new("level", text()).description(help);
    let module = InputValue::new("module", text())
        .description("Only messages of this module and of its parts, such as `ndn_dataplane`.");
    let help = "The log: its latest 500 messages, then new ones, four times a second; role read. (`log.follow` of the \
                control socket)";
    field.argument(level).argument(module).description(help)
}
