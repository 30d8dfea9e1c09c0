//! Subscriptions of the schema.

use std::time::Duration;

use async_graphql::Error;
use async_graphql::dynamic::{
    FieldValue, InputValue, ResolverContext, SubscriptionField, SubscriptionFieldFuture, TypeRef,
};
use futures_util::Stream;
use futures_util::stream::unfold;
use serde_json::Value;

use super::access;
use super::sampler::{
    FACES_MAX, Faces, INTERVAL_MAX, INTERVAL_MIN, PART_INTERVAL_MIN, Part, Sampler,
};
use super::shapes::NUMBER;
use crate::tokens::Role;

/// Interval between the results of a source that is [followed].
const FOLLOW_INTERVAL: Duration = Duration::from_millis(250);

/// The items of a source since the previous call.
pub(super) struct Taken {
    pub(super) items: Vec<Value>,
    /// Items that were lost so far.
    pub(super) lost: u64,
}

/// Follows a source until `take` returns nothing.
pub(super) fn followed<'a, S: Send + 'a>(
    source: S,
    take: fn(&S) -> Option<Taken>,
    result: fn(Taken) -> Value,
) -> impl Stream<Item = Result<FieldValue<'a>, Error>> + Send + 'a {
    unfold((source, 0), move |(source, reported)| async move {
        loop {
            tokio::time::sleep(FOLLOW_INTERVAL).await;
            let taken = take(&source)?;
            let lost = taken.lost;
            // Without items, only a greater number of lost ones is worth a message.
            if !taken.items.is_empty() || lost > reported {
                return Some((Ok(FieldValue::owned_any(result(taken))), (source, lost)));
            }
        }
    })
}

/// Interval without the argument `intervalMs`.
const INTERVAL_MS_DEFAULT: u64 = 1000;

/// The faces that a subscription to counters has chosen.
fn faces(context: &ResolverContext<'_>) -> Result<Faces, Error> {
    let Some(given) = context.args.get("faceIds").filter(|value| !value.is_null()) else {
        return Ok(Faces::First);
    };
    let given = given.list()?;
    if given.len() > FACES_MAX {
        return Err(access::bad_input(format!("faceIds: the maximum is {FACES_MAX}")));
    }
    Ok(Faces::Chosen(given.iter().map(|value| value.u64()).collect::<Result<_, _>>()?))
}

/// `counters`: counters of the workers and of faces at an interval.
pub(super) fn counters() -> SubscriptionField {
    let field = SubscriptionField::new("counters", TypeRef::named_nn("Sample"), |context| {
        SubscriptionFieldFuture::new(async move {
            access::authorize(&context, Role::Read)?;
            let interval = context.args.get("intervalMs").map(|value| value.u64()).transpose()?;
            let interval = Duration::from_millis(interval.unwrap_or(INTERVAL_MS_DEFAULT));
            if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&interval) {
                return Err(access::bad_input("intervalMs: it is from 100 to 3600000"));
            }
            let faces = match context.look_ahead().field("faces").exists() {
                true => faces(&context)?,
                false => Faces::None,
            };
            let is_field = |field: &&str| context.look_ahead().field(field).exists();
            let is_selected = |part: &Part| part.fields().iter().any(is_field);
            let parts: Vec<Part> = Part::ALL.into_iter().filter(is_selected).collect();
            if !parts.is_empty() && interval < PART_INTERVAL_MIN {
                return Err(access::bad_input(
                    "intervalMs: with limits or dispatch, 1000 at least",
                ));
            }
            let subscription = context.data::<Sampler>()?.subscribe(interval, faces, parts);
            let subscription =
                subscription.ok_or_else(|| access::busy("too many subscriptions"))?;
            Ok(unfold(subscription, |mut subscription| async move {
                let sample = subscription.next().await?;
                Some((Ok(FieldValue::owned_any(sample)), subscription))
            }))
        })
    });
    let help = "Interval, milliseconds: 1000 by default, 100 at least; with `limits` or `dispatch` 1000 at least.";
    let interval = InputValue::new("intervalMs", TypeRef::named(NUMBER)).description(help);
    let help = "Only these faces, 1,000 at most; the 1,000 with the lowest FaceIds without it.";
    let face_ids = InputValue::new("faceIds", TypeRef::named_nn_list(NUMBER)).description(help);
    field
        .argument(interval)
        .argument(face_ids)
        .description(
            "Counters of the workers and of faces, and what is held of limits, at an interval; role read.",
        )
}
