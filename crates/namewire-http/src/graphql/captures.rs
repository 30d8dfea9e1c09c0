//! `capture`: packets of faces while they are received and sent; `dissect`: the elements of a packet.

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use async_graphql::dynamic::{
    Field, FieldFuture, FieldValue, InputValue, Object, ResolverContext, SubscriptionField,
    SubscriptionFieldFuture, TypeRef,
};
use async_graphql::{Error, Lookahead};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_util::stream::unfold;
use namewire_control::CaptureStream;
use namewire_control::capture::{
    CaptureFilter, CapturedKind, CapturedKinds, CapturedPacket, CapturedPeer, Direction,
    PacketSummary, PcapngWriter, SNAP_LEN_MAX,
};
use ndn_packet::Name;
use ndn_packet::dissect::dissect;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::access::{self, bad_input};
use super::management::{name, number, text};
use super::shapes::{NUMBER, Shape, plain};
use crate::calls::Calls;
use crate::tokens::Role;

/// Maximum number of captures, of all clients together: the workers copy each packet for each of them.
const CAPTURES_MAX: usize = 4;
/// Interval between the results of a capture.
const INTERVAL: Duration = Duration::from_millis(250);
/// Maximum number of packets in one result, and of bytes of them. Further packets follow in the next.
const PACKETS_MAX: usize = 1000;
const BYTES_MAX: usize = 1 << 20;

/// Limits the number of captures.
#[derive(Clone)]
pub(super) struct CapturePlaces(Arc<Semaphore>);

impl CapturePlaces {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(CAPTURES_MAX)))
    }
}

/// The types of the results.
pub(super) fn types() -> [Object; 3] {
    let texts = || Shape::List(Box::new(Shape::Text));
    let optional = |shape| Shape::Optional(Box::new(shape));
    let packets = Shape::List(Box::new(Shape::Object("CapturedPacket".to_owned())));
    let lost = "Packets lost so far, because there were too many.";
    [
        Object::new("Capture")
            .description("The packets that were captured since the previous result.")
            .field(plain("lost", lost, Shape::Number))
            .field(plain("packets", "In the order of their capture.", packets))
            .field(plain(
                "pcapng",
                "The packets as a part of a pcapng file, in base64: the parts of all results are a file for Wireshark.",
                Shape::Text,
            )),
        Object::new("CapturedPacket")
            .description("A packet as it was on the link, NDNLPv2 header included.")
            .field(plain("unix_ms", "Milliseconds since 1970.", Shape::Number))
            .field(plain("face_id", "The face; 0 if it is not known.", Shape::Number))
            .field(plain("peer", "URI of the peer of the face.", Shape::Text))
            .field(plain("direction", "`received` or `sent`.", Shape::Text))
            .field(plain(
                "packet",
                "`Interest`, `Data`, `Nack`, `NDNLPv2` (a fragment, or acknowledgements) or `other`.",
                Shape::Text,
            ))
            .field(plain("name", "Its name, as a URI; fragments have none.", optional(Shape::Text)))
            .field(plain("details", "Its fields, in words.", texts()))
            .field(plain("bytes", "Its length on the link, bytes.", Shape::Number))
            .field(plain("wire", "The packet, in base64; possibly truncated.", Shape::Text)),
        Object::new("Dissection")
            .description("The elements of a packet.")
            .field(plain("text", "One line for each element, indented by its depth.", Shape::Text))
            .field(plain("error", "The error of its format; null without one.", optional(Shape::Text))),
    ]
}

/// A capture and what a client has received of it.
struct Reader {
    stream: CaptureStream,
    with_wire: bool,
    /// Writes the file, if it is selected.
    file: Option<PcapngWriter<Vec<u8>>>,
    peers: HashMap<u64, CapturedPeer>,
    reported: u64,
    _place: OwnedSemaphorePermit,
}

impl Reader {
    /// A result with the packets since the last call, if there are any; ends with the capture.
    fn take(&mut self) -> io::Result<ControlFlow<(), Option<Value>>> {
        let (mut packets, mut bytes) = (Vec::new(), 0);
        let mut is_open = true;
        while packets.len() < PACKETS_MAX && bytes < BYTES_MAX {
            match (self.stream.packets)(Duration::ZERO) {
                Ok(packet) => {
                    let (shown, length) = self.show(&packet)?;
                    bytes += length;
                    packets.push(shown);
                }
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => {
                    is_open = false;
                    break;
                }
            }
        }
        let lost = (self.stream.dropped)();
        if packets.is_empty() && lost == self.reported {
            return Ok(if is_open { ControlFlow::Continue(None) } else { ControlFlow::Break(()) });
        }
        self.reported = lost;
        let file = self.file.as_mut().map(|file| std::mem::take(file.output())).unwrap_or_default();
        let result = json!({ "lost": lost, "packets": packets, "pcapng": BASE64.encode(file) });
        Ok(ControlFlow::Continue(Some(result)))
    }

    /// A packet as JSON and the number of its bytes. It is written to the file, too.
    fn show(&mut self, packet: &CapturedPacket) -> io::Result<(Value, usize)> {
        let CapturedPacket { face_id, direction, unix_ns, bytes, original_len } = packet;
        let Self { stream, peers, file, with_wire, .. } = self;
        let of_face =
            || (stream.peers)(*face_id).unwrap_or_else(|| format!("face {face_id}").into());
        let peer = peers.entry(*face_id).or_insert_with(of_face);
        if let Some(file) = file {
            file.write(packet, peer)?;
        }
        let PacketSummary { kind, name, details, length: _ } = PacketSummary::new(Some(bytes));
        let direction = match direction {
            Direction::Received => "received",
            Direction::Sent => "sent",
        };
        let wire = if *with_wire { BASE64.encode(bytes) } else { String::new() };
        let shown = json!({
            "unix_ms": unix_ns / 1_000_000, "face_id": face_id, "peer": peer.uri, "direction": direction,
            "packet": kind.word(), "name": name.map(|name| name.to_string()), "details": details,
            "bytes": original_len, "wire": wire,
        });
        Ok((shown, bytes.len()))
    }
}

fn kinds(context: &ResolverContext<'_>) -> Result<CapturedKinds, Error> {
    let Some(argument) = context.args.get("types").filter(|value| !value.is_null()) else {
        return Ok(CapturedKinds::default());
    };
    let known = |word: &str| {
        let kind: Result<CapturedKind, String> = word.parse();
        kind.map_err(|reason| bad_input(format!("types: {reason}")))
    };
    argument.list()?.iter().map(|word| known(word.string()?)).collect()
}

/// Starts a capture.
async fn start(context: &ResolverContext<'_>) -> Result<(Calls, Reader), Error> {
    let (calls, principal) = access::authorize(context, Role::Admin)?;
    let wants = |field: fn(Lookahead<'_>) -> Lookahead<'_>| field(context.look_ahead()).exists();
    let name = text(context, "name")?.map(|uri| name("name", &uri)).transpose()?;
    let with_wire = wants(|selected| selected.field("packets").field("wire"));
    let face_id = number(context, "faceId")?;
    let snap_len = number(context, "snapLen")?.and_then(|length| usize::try_from(length).ok());
    let snap_len = snap_len.unwrap_or(SNAP_LEN_MAX);
    let sample = number(context, "sample")?.map(u32::try_from).transpose();
    let sample = sample.map_err(|_| bad_input("sample: the number is too large"))?;
    let all = CaptureFilter::new(face_id, snap_len, sample);
    let filter = CaptureFilter { name, types: kinds(context)?, ..all };
    let places = context.data::<CapturePlaces>()?;
    let place = Arc::clone(&places.0).try_acquire_owned();
    let place =
        place.map_err(|_| access::busy(format!("{CAPTURES_MAX} captures are under way")))?;
    let arguments =
        json!({ "face_id": face_id, "name": filter.name.as_ref().map(Name::to_string) });
    let started = calls.call(move |operations| {
        let CaptureFilter { face_id, name, types, snap_len, sample } = filter;
        operations.start_capture(face_id, name, types, snap_len, Some(sample))
    });
    let started = started.await.map_err(|failure| access::unanswered(&failure));
    access::log_change(&principal, "capture.start", &arguments, &started);
    let stream = started?;
    let file = wants(|selected| selected.field("pcapng"))
        .then(|| PcapngWriter::new(Vec::new(), stream.filter.snap_len))
        .transpose();
    let file = file.map_err(access::busy)?;
    let peers = HashMap::new();
    Ok((calls, Reader { stream, with_wire, file, peers, reported: 0, _place: place }))
}

/// The subscription `capture`.
pub(super) fn subscription() -> SubscriptionField {
    let field = SubscriptionField::new("capture", TypeRef::named_nn("Capture"), |context| {
        SubscriptionFieldFuture::new(async move {
            let (calls, reader) = start(&context).await?;
            Ok(unfold(Some((calls, reader)), |state| async move {
                let (calls, mut reader) = state?;
                loop {
                    tokio::time::sleep(INTERVAL).await;
                    // It may wait until the FaceId of a new face is known.
                    let taken = calls.call(move |_| {
                        let taken = reader.take().map_err(|error| error.to_string())?;
                        Ok((taken, reader))
                    });
                    match taken.await {
                        Ok((ControlFlow::Break(()), _)) => return None,
                        Ok((ControlFlow::Continue(None), same)) => reader = same,
                        Ok((ControlFlow::Continue(Some(result)), same)) => {
                            return Some((Ok(FieldValue::owned_any(result)), Some((calls, same))));
                        }
                        Err(failure) => return Some((Err(access::unanswered(&failure)), None)),
                    }
                }
            }))
        })
    });
    let number = || TypeRef::named(NUMBER);
    let types = TypeRef::List(Box::new(TypeRef::named_nn(TypeRef::STRING)));
    let arguments = [
        ("faceId", number(), "Only packets of this face."),
        (
            "name",
            TypeRef::named(TypeRef::STRING),
            "Only packets whose names have this prefix, a URI.",
        ),
        ("types", types, "Only packets of these types, in the words of the field `packet`."),
        (
            "snapLen",
            number(),
            "Maximum bytes captured per packet: 65536 by default and at most. The fields of a truncated packet are not known.",
        ),
        (
            "sample",
            number(),
            "One of this number of selected packets, chosen at random; all by default.",
        ),
    ];
    let help = "Packets of faces as they were on the link, four times a second while there are any; role admin. There are at \
                most four captures at a time. (`capture.start` of the control socket)";
    arguments.into_iter().fold(field.description(help), |field, (name, of, help)| {
        field.argument(InputValue::new(name, of).description(help))
    })
}

/// The query `dissect`.
pub(super) fn dissection() -> Field {
    let shape = Shape::Object("Dissection".to_owned());
    let field = Field::new("dissect", shape.type_ref(), move |context| {
        let shape = shape.clone();
        FieldFuture::new(async move {
            access::authorize(&context, Role::Read)?;
            let packet = context.args.try_get("packet")?.string()?;
            let packet = BASE64.decode(packet);
            let packet = packet.map_err(|error| bad_input(format!("packet: {error}")))?;
            let dissection = dissect(&packet);
            let error = dissection.error().map(|error| error.to_string());
            Ok(shape.value(&json!({ "text": dissection.as_str(), "error": error })))
        })
    });
    let argument = InputValue::new("packet", TypeRef::named_nn(TypeRef::STRING));
    field
        .argument(argument.description("The packet, in base64."))
        .description("The elements of a packet, as `namewire dissect` shows them; role read.")
}
