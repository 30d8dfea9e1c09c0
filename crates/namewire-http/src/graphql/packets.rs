//! `packets`: the decisions about packets while they are made.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use async_graphql::dynamic::{
    InputValue, Object, SubscriptionField, SubscriptionFieldFuture, TypeRef,
};
use namewire_control::{PacketTraceStream, TracedPacket};
use serde_json::{Value, json};

use super::access;
use super::shapes::{NUMBER, Shape, plain};
use super::subscriptions::{Taken, followed};
use crate::tokens::Role;

/// Maximum number of packets in one result; further ones follow in the next.
const PACKETS_MAX: usize = 250;

/// The types of the results.
pub(super) fn types() -> [Object; 2] {
    let texts = || Shape::List(Box::new(Shape::Text));
    let packets = Shape::List(Box::new(Shape::Object("TracedPacket".to_owned())));
    [
        Object::new("PacketTrace")
            .description("The packets that were traced since the previous result.")
            .field(plain(
                "lost",
                "Packets not reported so far, because there were too many.",
                Shape::Number,
            ))
            .field(plain("packets", "In the order of the decisions of each worker.", packets)),
        Object::new("TracedPacket")
            .description("The decisions about one packet.")
            .field(plain(
                "unix_ms",
                "Time of the decisions, milliseconds since 1970.",
                Shape::Number,
            ))
            .field(plain("worker", "The worker whose shard decided.", Shape::Number))
            .field(plain(
                "face_id",
                "The face that received the packet; 0 if it was destroyed meanwhile.",
                Shape::Number,
            ))
            .field(plain("packet", "`Interest`, `Data` or `Nack`.", Shape::Text))
            .field(plain(
                "name",
                "Its name, as a URI; a long one is cut and ends with `…`.",
                Shape::Text,
            ))
            .field(plain(
                "decisions",
                "The decisions in order, such as `CS hit` or `dropped no_next_hop`.",
                texts(),
            )),
    ]
}

fn take(trace: &PacketTraceStream) -> Option<Taken> {
    let mut packets = Vec::new();
    while packets.len() < PACKETS_MAX {
        match (trace.packets)(Duration::ZERO) {
            Ok(packet) => packets.push(json_of(&packet)),
            Err(RecvTimeoutError::Disconnected) if packets.is_empty() => return None,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    Some(Taken { items: packets, lost: (trace.lost)() })
}

fn json_of(packet: &TracedPacket) -> Value {
    let TracedPacket { worker, unix_ns, face_id, packet, name, decisions } = packet;
    let decisions: Vec<String> = decisions.iter().map(ToString::to_string).collect();
    json!({
        "worker": worker, "unix_ms": unix_ns / 1_000_000, "face_id": face_id, "packet": packet, "name": name,
        "decisions": decisions,
    })
}

/// The subscription `packets`.
pub(super) fn subscription() -> SubscriptionField {
    let field = SubscriptionField::new("packets", TypeRef::named_nn("PacketTrace"), |context| {
        SubscriptionFieldFuture::new(async move {
            let (calls, _) = access::authorize(&context, Role::Operate)?;
            let name = context.args.get("name").map_or(Ok("/"), |value| value.string())?;
            let name = name.parse().map_err(|error| access::bad_input(format!("name: {error}")))?;
            let sample = context.args.get("sample").map_or(Ok(1), |value| value.u64())?;
            let sample = u32::try_from(sample).ok().filter(|&sample| sample > 0);
            let sample =
                sample.ok_or_else(|| access::bad_input("sample: it is from 1 to 4294967295"))?;
            let started =
                calls.call(move |operations| operations.trace_packets(name, sample)).await;
            let trace = started.map_err(|failure| access::unanswered(&failure))?;
            Ok(followed(
                trace,
                take,
                |Taken { items, lost }| json!({ "lost": lost, "packets": items }),
            ))
        })
    });
    let name = InputValue::new("name", TypeRef::named(TypeRef::STRING))
        .description("Only packets whose names have this prefix, a URI; all packets by default.");
    let sample = InputValue::new("sample", TypeRef::named(NUMBER))
        .description("One of this number of packets; 1 by default.");
    let help = "The decisions about packets, four times a second while there are any; role operate. One client traces at \
                a time. (`trace.packets` of the control socket)";
    field.argument(name).argument(sample).description(help)
}
