//! The management decoder: blocks, face URIs, and commands that reach a control plane.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

use ndn_management::{
    AccessControl, Action, ChannelStatus, Collaborators, ControlConfig, ControlParameters,
    ControlResponse, ControlState, CreatedFace, CsInfo, DatasetItem, FaceActivity,
    FaceCapabilities, FaceEventNotification, FaceProperties, FaceQueryFilter, FaceRecord,
    FaceStatus, FibEntry, ForwarderCounters, ForwarderStatus, RibEntry, StrategyChoice,
    StrategyList, TableSizes, Telemetry, decode_dataset,
};
use ndn_packet::tlv::frame_len;
use ndn_packet::{Data, Interest};
use ndn_security::info::Node;
use ndn_security::trust::TrustPolicy;
use ndn_types::{FaceUri, LinkType, Now, Persistency, PrincipalKey, Scope};

/// Takes the bytes as one block, as a face URI, and as a run of Interests for management.
pub(crate) fn management(bytes: &[u8]) {
    blocks(bytes);
    if let Ok(text) = core::str::from_utf8(bytes) {
        face_uri(text);
    }
    if matches!(bytes.first(), Some(5)) {
        interests(bytes);
    }
}

fn blocks(bytes: &[u8]) {
    block::<ChannelStatus>(bytes);
    block::<CsInfo>(bytes);
    block::<FaceEventNotification>(bytes);
    block::<FaceQueryFilter>(bytes);
    block::<FaceStatus>(bytes);
    block::<FibEntry>(bytes);
    block::<RibEntry>(bytes);
    block::<StrategyChoice>(bytes);
    if let Ok(status) = ForwarderStatus::decode(bytes) {
        assert_eq!(ForwarderStatus::decode(&status.to_vec()), Ok(status));
    }
    if let Ok(parameters) = ControlParameters::decode(bytes) {
        assert_eq!(ControlParameters::decode(&parameters.to_vec()), Ok(parameters));
    }
    if let Ok(response) = ControlResponse::decode(bytes) {
        assert_eq!(ControlResponse::decode(&response.to_vec()), Ok(response));
    }
}

fn block<T: DatasetItem + PartialEq + Debug>(bytes: &[u8]) {
    if let Ok(item) = T::decode(bytes) {
        assert_eq!(T::decode(&item.to_vec()), Ok(item));
    }
    if let Ok(items) = decode_dataset::<T>(bytes) {
        let encoded: Vec<u8> = items.iter().flat_map(DatasetItem::to_vec).collect();
        assert_eq!(decode_dataset::<T>(&encoded), Ok(items));
    }
}

fn face_uri(text: &str) {
    let Ok(uri) = FaceUri::parse(text) else { return };
    assert_eq!(FaceUri::parse(&uri.to_string()), Ok(uri.clone()));
    if let Ok(canonical) = uri.canonize() {
        // Only who knows the link can name it.
        assert!(canonical.is_canonical() || canonical.lacks_zone(), "{canonical}");
    }
}

struct Nothing;

impl Telemetry for Nothing {
    fn face(&self, _: u64) -> FaceActivity {
        FaceActivity::default()
    }

    fn forwarder(&self) -> ForwarderCounters {
        ForwarderCounters::default()
    }

    fn tables(&self) -> TableSizes {
        TableSizes::default()
    }

    fn channels(&self) -> Vec<String> {
        Vec::new()
    }
}

fn face(face_id: u64, remote_uri: &str, scope: Scope) -> FaceRecord {
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
        base_congestion_marking_interval_ns: None,
        default_congestion_threshold: None,
        mtu: Some(8800),
        keeper: None,
        principal: PrincipalKey::LocalApplication { uid: 1000, pid: 7 },
        capabilities: FaceCapabilities { change_persistency: true, override_mtu: true },
    }
}

/// The application that sends the Interests, and a face that commands may name.
const FACES: [(u64, Scope); 2] = [(256, Scope::Local), (257, Scope::NonLocal)];

/// The network may register what it has certificates for, of which there are none.
fn access() -> AccessControl {
    thread_local!(static POLICY: TrustPolicy = policy());
    let mut access = AccessControl::everyone_local();
    POLICY.with(|policy| {
        access.set_localhop_rib(policy.clone());
        access.set_announcements(policy.clone());
    });
    access
}

/// Reading rules takes longer than handling a command.
fn policy() -> TrustPolicy {
    let rules = "rule { id a for interest checker { type customized key-locator {
        type name regex ^<>*<KEY><>{1,3}$ } } checker { type customized sig-type sha256 } }
        rule { id b for data checker { type hierarchical } }";
    let node = Node::parse_single("rules", rules).expect("rules");
    TrustPolicy::from_info(&node, &mut |_| Ok(Vec::new())).expect("rules")
}

/// The packets of a run, to the first that is not complete.
fn packets(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (packet, rest) = bytes.split_at_checked(frame_len(bytes).ok()??)?;
        bytes = rest;
        Some(packet)
    })
}

fn interests(bytes: &[u8]) {
    // Other packets change nothing in a new state, which takes longer to make than they take to be refused.
    if !packets(bytes).any(|packet| Interest::parse(packet).is_ok()) {
        return;
    }
    let strategies =
        StrategyList::new().with("best-route", 5, |_| Ok(())).with("asf", 5, |_| Ok(()));
    let collaborators = Collaborators {
        authorizer: Box::new(access()),
        ..Collaborators::with_strategies(strategies)
    };
    let mut state = ControlState::new(ControlConfig::default(), collaborators);
    let mut now = Now { unix: Duration::from_secs(1_700_000_000), ..Now::default() };
    for (face_id, scope) in FACES {
        state.face_created(now, face(face_id, "fd://1", scope));
    }
    let mut destroyed = BTreeSet::new();
    for packet in packets(bytes) {
        state.receive_interest(packet.to_vec(), FACES[0].0);
        while state.handle_next(now, &Nothing) {}
        state.handle_data(now, packet, FACES[0].0);
        while state.handle_next(now, &Nothing) {}
        while state.poll_outcome().is_some() {}
        carry_out(&mut state, now, Interest::parse(packet).ok().as_ref(), &mut destroyed);
        now.monotonic += Duration::from_millis(1);
        now.unix += Duration::from_millis(1);
        state.handle_timeout(now);
        state.continue_listings(now, &Nothing);
        check(&state, &destroyed);
    }
    while state.is_changing_routes() {
        state.handle_timeout(now);
    }
    check(&state, &BTreeSet::new());
}

/// Does at once what management wants; answers belong to the Interest.
fn carry_out(
    state: &mut ControlState,
    now: Now,
    interest: Option<&Interest<'_>>,
    destroyed: &mut BTreeSet<u64>,
) {
    let mut next_face_id = 300;
    while let Some(action) = state.poll_action() {
        match action {
            Action::SendData { wire, .. } => {
                let data = Data::parse(&wire).expect("management sends Data");
                let is_event =
                    data.name().last().is_some_and(|last| last.as_sequence_num().is_some());
                let answers =
                    interest.is_some_and(|interest| data.name().starts_with(interest.name()));
                assert!(is_event || answers, "{} answers nothing", data.name());
            }
            Action::CreateFace { ticket, specification } => {
                let uri = specification.remote.to_string();
                let record = face(next_face_id, &uri, Scope::NonLocal);
                next_face_id += 1;
                state.face_creation_done(now, ticket, Ok(CreatedFace::New(record)));
            }
            Action::EraseCs { ticket, limit, .. } => state.cs_erase_done(ticket, limit, true),
            Action::DestroyFace { face_id } => {
                state.face_destroyed(now, face_id);
                destroyed.insert(face_id);
            }
            Action::CancelFace { .. }
            | Action::SendInterest { .. }
            | Action::UpdateFib { .. }
            | Action::UpdateFace { .. }
            | Action::ForgetRoute { .. }
            | Action::SetStrategy { .. }
            | Action::UnsetStrategy { .. }
            | Action::ConfigureCs(_) => {}
        }
    }
}

/// Nothing points to a face that is gone, but for a while to those that have been `destroyed`.
fn check(state: &ControlState, destroyed: &BTreeSet<u64>) {
    let is_changing = state.is_changing_routes();
    let exists = |id: u64| state.face(id).is_some() || is_changing && destroyed.contains(&id);
    for (prefix, routes) in state.rib().iter() {
        assert!(routes.iter().all(|route| exists(route.face_id)), "{prefix}");
    }
    for (prefix, next_hops) in state.fib().iter() {
        assert!(next_hops.iter().all(|hop| exists(hop.face_id)), "{prefix}");
    }
}
