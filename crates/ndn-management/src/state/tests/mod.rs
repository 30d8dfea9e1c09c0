//! The control plane on virtual time, with a data plane that is a few maps.
#![allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking"
)]

mod datasets;
mod departures;
mod faces;
mod learning;
mod random;
mod readvertise;
mod tables;
mod trust;

use std::cell::Cell;
use std::collections::BTreeMap;

use ndn_packet::{DataBuilder, InterestBuilder};
use ndn_types::{FaceUri, LinkType, Scope};

use super::*;
use crate::client::CommandBuilder;
use crate::dataset::{DatasetItem, FaceCounters, FaceProperties, ForwarderCounters};
use crate::dispatch::IgnoreReason;
use crate::rib::FibUpdate;
use crate::strategy_name::StrategyList;
use crate::testing::name;

/// The application that most tests speak for.
const APP: u64 = 300;
/// A face to another host.
const TUNNEL: u64 = 301;

const SECOND: Duration = Duration::from_secs(1);

#[derive(Default)]
struct FakeTelemetry {
    face_reads: Cell<usize>,
}

impl Telemetry for FakeTelemetry {
    fn face(&self, face_id: u64) -> FaceActivity {
        self.face_reads.set(self.face_reads.get() + 1);
        let counters = FaceCounters { in_interests: face_id, ..FaceCounters::default() };
        FaceActivity { counters, expiration_period_ms: (face_id == TUNNEL).then_some(600) }
    }

    fn forwarder(&self) -> ForwarderCounters {
        ForwarderCounters {
            in_interests: 11,
            unsatisfied_interests: 12,
            ..ForwarderCounters::default()
        }
    }

    fn tables(&self) -> TableSizes {
        TableSizes {
            pit_entries: 1,
            measurements_entries: 2,
            cs_entries: 3,
            cs_hits: 4,
            cs_misses: 5,
        }
    }

    fn channels(&self) -> Vec<String> {
        vec!["udp4://0.0.0.0:6363".to_owned(), "unix:///run/nfd/nfd.sock".to_owned()]
    }
}

/// Management, and what it made of the data plane.
struct Harness {
    state: ControlState,
    telemetry: FakeTelemetry,
    now: Now,
    nonce: u64,
    /// The FIB of the forwarding threads.
    fib: BTreeMap<Name, Vec<NextHop>>,
    /// Data sent since the last call that took them: packet, and whether it may be cached.
    sent: Vec<(Vec<u8>, bool)>,
    /// Batches of FIB updates since the last call that took them: whether a command waited.
    batches: Vec<bool>,
    /// Every other action since the last call that took them.
    actions: Vec<Action>,
}

/// The process of a Unix socket, or the address of a peer.
fn principal_of(remote_uri: &str) -> PrincipalKey {
    let address = FaceUri::parse(remote_uri).ok().and_then(|uri| uri.socket_address());
    address.map_or(PrincipalKey::LocalApplication { uid: 1000, pid: 7 }, PrincipalKey::remote)
}

fn record(face_id: u64, remote_uri: &str, scope: Scope) -> FaceRecord {
    let is_tunnel = scope == Scope::NonLocal;
    FaceRecord {
        properties: FaceProperties {
            face_id,
            remote_uri: remote_uri.to_owned(),
            local_uri: "unix:///run/nfd/nfd.sock".to_owned(),
            scope,
            persistency: Persistency::OnDemand,
            link_type: LinkType::PointToPoint,
            flags: 0,
        },
        base_congestion_marking_interval_ns: Some(100_000_000),
        default_congestion_threshold: Some(65_536),
        mtu: Some(65_535),
        principal: principal_of(remote_uri),
        keeper: None,
        capabilities: FaceCapabilities { change_persistency: is_tunnel, override_mtu: is_tunnel },
    }
}

impl Harness {
    fn new() -> Self {
        Self::with_config(ControlConfig { version: "test".to_owned(), ..ControlConfig::default() })
    }

    fn with_config(config: ControlConfig) -> Self {
        let refuse = |parameters: &[(String, String)]| match parameters {
            [] => Ok(()),
            [(key, _), ..] => Err(format!("unknown parameter {key}")),
        };
        let strategies =
            StrategyList::new().with("best-route", 5, refuse).with("multicast", 5, refuse);
        let state = ControlState::new(config, Collaborators::with_strategies(strategies));
        let monotonic = Timestamp::ZERO + 1000 * SECOND;
        let now = Now { monotonic, unix: Duration::from_secs(1_700_000_000) };
        let mut harness = Self {
            state,
            telemetry: FakeTelemetry::default(),
            now,
            nonce: 0,
            fib: BTreeMap::new(),
            sent: Vec::new(),
            batches: Vec::new(),
            actions: Vec::new(),
        };
        harness.state.face_created(now, record(APP, "fd://20", Scope::Local));
        harness.state.face_created(now, record(TUNNEL, "udp4://192.0.2.1:6363", Scope::NonLocal));
        harness.run();
        harness.sent.clear();
        harness
    }

    /// Calls the state at a deadline, as its owner does.
    fn handle_timeout(&mut self) {
        self.state.handle_timeout(self.now);
        self.state.continue_listings(self.now, &self.telemetry);
    }

    fn pass(&mut self, time: Duration) {
        self.now.monotonic += time;
        self.now.unix += time;
    }

    fn advance(&mut self, by: Duration) {
        self.pass(by);
        while self.state.next_deadline().is_some_and(|deadline| deadline <= self.now.monotonic) {
            self.handle_timeout();
        }
        self.run();
    }

    /// Carries out what management wants.
    fn run(&mut self) {
        while let Some(action) = self.state.poll_action() {
            match action {
                Action::UpdateFib { updates, is_awaited } => {
                    self.batches.push(is_awaited);
                    for update in updates {
                        match update {
                            FibUpdate::Set { prefix, next_hops } => {
                                self.fib.insert(prefix, next_hops)
                            }
                            FibUpdate::Remove { prefix } => self.fib.remove(&prefix),
                        };
                    }
                }
                Action::SendData { wire, may_cache } => self.sent.push((wire, may_cache)),
                other => self.actions.push(other),
            }
        }
        let management: BTreeMap<Name, Vec<NextHop>> =
            self.state.fib().iter().map(|(name, hops)| (name.to_name(), hops.to_vec())).collect();
        assert_eq!(self.fib, management, "the forwarding threads have another FIB than management");
    }

    fn interest(&mut self, wire: &[u8], face_id: u64) -> RequestOutcome {
        let handled = self.state.handle_interest(self.now, wire, face_id, &self.telemetry);
        self.run();
        handled
    }

    /// Handles what waits for its turn.
    fn handle_all(&mut self) {
        while self.state.handle_next(self.now, &self.telemetry) {}
        self.run();
    }

    fn begin(
        &mut self,
        face_id: u64,
        verb: Verb,
        parameters: &ControlParameters,
    ) -> RequestOutcome {
        self.nonce += 1;
        let wire = CommandBuilder::default()
            .digest_signed_interest(verb, parameters, self.nonce, self.now.unix_ms())
            .unwrap();
        self.interest(&wire, face_id)
    }

    /// Issues a command of an operator, as over the control socket.
    fn operator_command(&mut self, verb: Verb, parameters: &ControlParameters) -> RequestOutcome {
        self.nonce += 1;
        let wire = CommandBuilder::default()
            .digest_signed_interest(verb, parameters, self.nonce, self.now.unix_ms())
            .unwrap();
        let handled = self.state.handle_operator_interest(self.now, &wire, &self.telemetry);
        self.run();
        handled
    }

    /// Issues a command that is answered at once.
    fn command(
        &mut self,
        face_id: u64,
        verb: Verb,
        parameters: &ControlParameters,
    ) -> ControlResponse {
        let handled = self.begin(face_id, verb, parameters);
        let response = self.response();
        let code = match handled {
            RequestOutcome::Command { code, .. } => code.unwrap(),
            RequestOutcome::Refused { code, .. } => code,
            other => panic!("{other:?}"),
        };
        assert_eq!(code, response.code);
        response
    }

    /// The only response that was sent.
    fn response(&mut self) -> ControlResponse {
        let mut responses = self.responses();
        assert_eq!(responses.len(), 1);
        responses.remove(0)
    }

    fn responses(&mut self) -> Vec<ControlResponse> {
        let sent = std::mem::take(&mut self.sent);
        sent.iter()
            .map(|(wire, _)| {
                let data = Data::parse(wire).unwrap();
                assert_eq!(data.freshness_ms(), Some(1000));
                ControlResponse::decode(data.content().unwrap()).unwrap()
            })
            .collect()
    }

    fn fib(&self, uri: &str) -> Vec<(u64, u64)> {
        let hops = self.fib.get(name(uri).value()).map(Vec::as_slice).unwrap_or_default();
        hops.iter().map(|hop| (hop.face_id, hop.cost)).collect()
    }

    fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }
}

fn named(uri: &str) -> ControlParameters {
    ControlParameters { name: Some(name(uri)), ..ControlParameters::default() }
}

fn deep_name(len: usize) -> Name {
    let mut name = Name::new();
    (0..len).for_each(|_| {
        name.push_generic("x");
    });
    name
}

#[test]
fn malformed_packet_and_unknown_face_are_counted() {
    let mut harness = Harness::new();
    assert_eq!(harness.interest(&[5, 0], APP), RequestOutcome::Malformed);
    let dataset = name("/localhost/nfd/rib/list");
    let wire = InterestBuilder::new(&dataset).can_be_prefix(true).to_vec().unwrap();
    assert_eq!(harness.interest(&wire, 999), RequestOutcome::UnknownFace);
    assert_eq!(harness.interest(&wire, TUNNEL), RequestOutcome::Ignored(IgnoreReason::NotLocal));
    assert!(harness.sent.is_empty());
    let counters = harness.state.counters();
    assert_eq!(
        (counters.interests, counters.malformed, counters.unknown_face, counters.ignored),
        (3, 1, 1, 1)
    );
}

#[test]
fn answer_has_the_name_of_the_command_and_follows_the_fib_update() {
    let mut harness = Harness::new();
    let wire = CommandBuilder::default()
        .digest_signed_interest(Verb::RibRegister, &named("/a"), 1, 2)
        .unwrap();
    harness.state.handle_interest(harness.now, &wire, APP, &harness.telemetry);
    let first = harness.state.poll_action().unwrap();
    assert!(matches!(first, Action::UpdateFib { is_awaited: true, .. }));
    let Some(Action::SendData { wire: answer, may_cache }) = harness.state.poll_action() else {
        panic!()
    };
    assert_eq!(Data::parse(&answer).unwrap().name(), Interest::parse(&wire).unwrap().name());
    assert!(may_cache);
    assert_eq!(harness.state.poll_action(), None);
}

#[test]
fn command_whose_answer_would_not_fit_into_a_packet_is_refused() {
    let mut harness = Harness::new();
    for (length, code) in [(3900, status::OK), (4200, status::NAME_TOO_LONG)] {
        let uri = format!("/{}", "a".repeat(length));
        let response = harness.command(APP, Verb::RibRegister, &named(&uri));
        assert_eq!((response.code, harness.fib(&uri).len()), (code, usize::from(code == 200)));
    }
}

#[test]
fn answer_that_cannot_be_signed_is_counted() {
    let mut harness = Harness::new();
    harness.state.outbox.signer = Box::new(|_: &DataBuilder<'_>| None);
    harness.begin(APP, Verb::RibRegister, &named("/a"));
    assert!(harness.sent.is_empty());
    assert_eq!(harness.state.counters().unsigned, 1);
    // The command was carried out nevertheless.
    assert_eq!(harness.fib("/a"), [(APP, 0)]);
}
