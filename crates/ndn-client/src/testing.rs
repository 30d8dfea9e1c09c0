//! An in-memory forwarder for tests: routes, a PIT without timers, `rib/register`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use ndn_management::{ControlParameters, ControlResponse};
use ndn_packet::{Data, DataBuilder, Interest, LpHeader, LpPacket, NackReason, Name, Packet};
use ndn_security::{DigestSigner, DigestVerifier, sign_data, verify_interest};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;

use crate::framer::Framer;
use crate::{Endpoint, EndpointOptions};
use ndn_packet::lp::append_packet;

/// Behaviour of the network between the applications.
#[derive(Debug, Clone, Default)]
pub(crate) struct Behaviour {
    /// Delay of each packet.
    pub(crate) delay: Duration,
    /// Fraction of Data lost.
    pub(crate) loss: f64,
    /// Each Interest to an application carries a PIT token, which must be returned.
    pub(crate) tokens: bool,
    /// Every this many Data, one has a congestion mark.
    pub(crate) mark_every: Option<u64>,
    /// Status code of command responses, 200 if `None`.
    pub(crate) command_status: Option<u32>,
}

struct PitEntry {
    name: Name,
    can_be_prefix: bool,
    /// Face and its token.
    downstream: usize,
    /// Token sent upstream.
    token: Vec<u8>,
}

#[derive(Default)]
struct State {
    faces: HashMap<usize, mpsc::UnboundedSender<(Vec<u8>, Duration)>>,
    next_face: usize,
    routes: HashMap<Name, usize>,
    pit: Vec<PitEntry>,
    interests: Vec<String>,
    token_mismatches: u64,
    data_count: u64,
    next_token: u64,
}

/// The forwarder.
#[derive(Clone)]
pub(crate) struct FakeForwarder {
    state: Arc<Mutex<State>>,
    behaviour: Arc<Mutex<Behaviour>>,
    random: Arc<Mutex<StdRng>>,
}

impl FakeForwarder {
    pub(crate) fn new(behaviour: Behaviour) -> Self {
        Self {
            state: Arc::default(),
            behaviour: Arc::new(Mutex::new(behaviour)),
            random: Arc::new(Mutex::new(StdRng::seed_from_u64(7))),
        }
    }

    /// An application connected to this forwarder.
    pub(crate) fn attach(&self) -> Endpoint {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        self.serve(theirs);
        let (reader, writer) = tokio::io::split(ours);
        Endpoint::from_stream(reader, writer, &EndpointOptions::default())
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.behaviour.lock().unwrap());
    }

    /// Names of all Interests received from applications, in order.
    pub(crate) fn interests(&self) -> Vec<String> {
        self.state.lock().unwrap().interests.clone()
    }

    /// Registered prefixes.
    pub(crate) fn routes(&self) -> Vec<String> {
        let mut routes: Vec<_> =
            self.state.lock().unwrap().routes.keys().map(Name::to_uri).collect();
        routes.sort();
        routes
    }

    pub(crate) fn token_mismatches(&self) -> u64 {
        self.state.lock().unwrap().token_mismatches
    }

    /// Closes all connections and removes all routes.
    pub(crate) fn cut(&self) {
        let mut state = self.state.lock().unwrap();
        state.faces.clear();
        state.routes.clear();
        state.pit.clear();
    }

    /// Serves one connection.
    pub(crate) fn serve<S>(&self, stream: S)
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
    {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let (sender, mut receiver) = mpsc::unbounded_channel::<(Vec<u8>, Duration)>();
        let face = {
            let mut state = self.state.lock().unwrap();
            state.next_face += 1;
            let face = state.next_face;
            state.faces.insert(face, sender);
            face
        };
        let start = tokio::time::Instant::now();
        let this = self.clone();
        let read = tokio::spawn(async move {
            let mut framer = Framer::default();
            while let Ok(count) = reader.read(framer.space()).await
                && count > 0
            {
                framer.read(count);
                while let Some(frame) = framer.next_frame().unwrap() {
                    this.receive(face, &frame, start.elapsed());
                }
            }
        });
        tokio::spawn(async move {
            while let Some((packet, due)) = receiver.recv().await {
                tokio::time::sleep_until(start + due).await;
                if writer.write_all(&packet).await.is_err() {
                    break;
                }
            }
            let _ = writer.shutdown().await;
            read.abort();
        });
    }

    fn receive(&self, face: usize, frame: &Bytes, now: Duration) {
        let packet = LpPacket::parse(frame).unwrap();
        let Some(fragment) = packet.fragment() else {
            return;
        };
        let token = packet.pit_token().unwrap_or_default();
        let behaviour = self.behaviour.lock().unwrap().clone();
        let due = now + behaviour.delay;
        match Packet::parse(fragment).unwrap() {
            Packet::Interest(_) if packet.nack().is_some() => {}
            Packet::Interest(interest) => self.receive_interest(face, &interest, &behaviour, due),
            Packet::Data(data) => self.receive_data(&data, token, &behaviour, due),
        }
    }

    fn receive_interest(
        &self,
        face: usize,
        interest: &Interest<'_>,
        behaviour: &Behaviour,
        due: Duration,
    ) {
        let name = interest.name();
        let mut state = self.state.lock().unwrap();
        state.interests.push(name.to_uri());
        if name.to_uri().starts_with("/localhost/nfd/rib/") {
            let answer = command(&mut state, face, interest, behaviour);
            let _ = state.faces[&face].send((answer, due));
            return;
        }
        let route = (0..=name.len())
            .rev()
            .find_map(|length| state.routes.get(&name.prefix(length).to_name()).copied())
            .filter(|route| *route != face);
        let Some(upstream) = route else {
            let header = LpHeader { nack: Some(NackReason::NO_ROUTE), ..LpHeader::default() };
            let mut out = Vec::new();
            append_packet(&mut out, &header, interest.wire());
            let _ = state.faces[&face].send((out, due));
            return;
        };
        state.next_token += 1;
        let token = if behaviour.tokens {
            state.next_token.to_be_bytes()[2..].to_vec()
        } else {
            Vec::new()
        };
        state.pit.push(PitEntry {
            name: name.to_name(),
            can_be_prefix: interest.can_be_prefix(),
            downstream: face,
            token: token.clone(),
        });
        let mut out = Vec::new();
        let header = LpHeader { pit_token: &token, ..LpHeader::default() };
        append_packet(&mut out, &header, interest.wire());
        let _ = state.faces[&upstream].send((out, due));
    }

    fn receive_data(&self, data: &Data<'_>, token: &[u8], behaviour: &Behaviour, due: Duration) {
        let mut state = self.state.lock().unwrap();
        state.data_count += 1;
        let marked =
            behaviour.mark_every.is_some_and(|every| state.data_count.is_multiple_of(every));
        if self.random.lock().unwrap().random_bool(behaviour.loss) {
            return;
        }
        let name = data.name();
        let digest = ndn_security::sha256(data.wire());
        let satisfied: Vec<PitEntry> = state
            .pit
            .extract_if(.., |entry| {
                let requested = entry.name.as_ref();
                match requested.implicit_digest() {
                    Some(expected_digest) => {
                        requested.parent() == name && *expected_digest == digest
                    }
                    None => requested == name || entry.can_be_prefix && name.starts_with(requested),
                }
            })
            .collect();
        if behaviour.tokens && !satisfied.iter().any(|entry| entry.token == token) {
            state.token_mismatches += 1;
        }
        for entry in satisfied {
            let mut out = Vec::new();
            let header = LpHeader { congestion_mark: marked.then_some(1), ..LpHeader::default() };
            append_packet(&mut out, &header, data.wire());
            if let Some(face) = state.faces.get(&entry.downstream) {
                let _ = face.send((out, due));
            }
        }
    }
}

fn command(
    state: &mut State,
    face: usize,
    interest: &Interest<'_>,
    behaviour: &Behaviour,
) -> Vec<u8> {
    let name = interest.name();
    let info = verify_interest(interest, &DigestVerifier).unwrap();
    assert!(info.nonce.is_some() && info.time_ms.is_some());
    let verb = name.component(3).unwrap().value().to_vec();
    let parameters = ControlParameters::decode(name.component(4).unwrap().value()).unwrap();
    let prefix = parameters.name.clone().unwrap();
    let code = behaviour.command_status.unwrap_or(200);
    if code == 200 && verb == b"register" {
        state.routes.insert(prefix, face);
    } else if code == 200 {
        state.routes.remove(&prefix);
    }
    let text = if code == 200 { "OK" } else { "no" };
    let content = ControlResponse::new(code, text).with_body(&parameters).to_vec();
    sign_data(&DataBuilder::new(name).content(&content).freshness_ms(1000), &DigestSigner).unwrap()
}

/// Both ends of a raw connection: the endpoint, and the peer's side for the test.
pub(crate) fn raw() -> (Endpoint, DuplexStream) {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (reader, writer) = tokio::io::split(ours);
    (Endpoint::from_stream(reader, writer, &EndpointOptions::default()), theirs)
}
