//! Face records of management, and the parameters of new faces.

use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};

use ndn_dataplane::{FaceCreated, NewFace};
use ndn_face::{FaceOptions, LinkOptions, NewDatagram, NewStream};
use ndn_forwarding::{FaceProperties, PitTokenPolicy};
use ndn_management::{FaceCapabilities, FaceRecord, face_flag};
use ndn_packet::MAX_PACKET_SIZE;
use ndn_types::{FaceUri, PrincipalClass, PrincipalKey};
use ndn_types::{Persistency, Scope, duration_ns};
use ndn_webtransport::{Accepted, Target};

use super::addresses;
use super::local_peers::PeerIdentity;
use super::settings;
use super::streams::LocalEnd;
use crate::config::{Config, PitTokens};

/// Returns management's record of a new face.
pub(super) fn record(face: &FaceCreated) -> FaceRecord {
    let FaceCreated { options, remote, local, .. } = face;
    let mut flags = 0;
    for (bit, is_set) in [
        (face_flag::LOCAL_FIELDS, options.properties.local_fields),
        (face_flag::LP_RELIABILITY, options.link.reliability),
        (face_flag::CONGESTION_MARKING, options.link.congestion_marking),
    ] {
        flags |= if is_set { bit } else { 0 };
    }
    let is_session = local.scheme() == "quic";
    let is_datagram = options.link.mtu.is_some() && !is_session;
    FaceRecord {
        properties: ndn_management::FaceProperties {
            face_id: options.properties.face_id,
            remote_uri: addresses::named(remote).to_string(),
            local_uri: addresses::named(local).to_string(),
            scope: options.properties.scope,
            persistency: options.persistency,
            link_type: options.properties.link_type,
            flags,
        },
        base_congestion_marking_interval_ns: Some(duration_ns(options.link.congestion_interval)),
        default_congestion_threshold: Some(options.link.congestion_threshold as u64),
        mtu: Some(options.link.mtu.unwrap_or(MAX_PACKET_SIZE) as u64),
        principal: options.properties.principal,
        keeper: options.keeper,
        capabilities: FaceCapabilities {
            // As in NFD, also for an accepted TCP connection.
            change_persistency: is_datagram || remote.is_tcp(),
            override_mtu: is_datagram,
        },
    }
}

/// Parameters of a face for an accepted connection.
pub(super) fn accepted(
    face_id: u64,
    stream: OwnedFd,
    peer: Option<SocketAddr>,
    local: &LocalEnd,
    identity: &PeerIdentity,
    config: &Config,
) -> NewFace {
    use std::os::fd::AsRawFd;
    let is_websocket = matches!(local, LocalEnd::WebSocket { .. });
    let (remote, local) = match (local, peer) {
        (LocalEnd::Tcp { address, .. } | LocalEnd::WebSocket { address, .. }, Some(peer)) => {
            let own =
                ndn_sys::stream::tcp_addresses(stream.as_fd()).map_or(*address, |(own, _)| own);
            if is_websocket {
                (FaceUri::websocket_client(peer), FaceUri::websocket(own))
            } else {
                (FaceUri::tcp(peer), FaceUri::tcp(own))
            }
        }
        (LocalEnd::Tcp { address, .. } | LocalEnd::WebSocket { address, .. }, None) => {
            (FaceUri::null(), FaceUri::tcp(*address))
        }
        // Faces of memif are created after the handshake.
        (LocalEnd::Unix(path) | LocalEnd::Memif(path), _) => {
            let remote = FaceUri::descriptor(stream.as_raw_fd());
            (remote, FaceUri::unix(path))
        }
    };
    let PeerIdentity { scope, principal, .. } = *identity;
    let pit_tokens = match scope {
        // Some applications reject an Interest with a PIT token.
        Scope::Local => PitTokenPolicy::Never,
        Scope::NonLocal => PitTokenPolicy::WhenSeen,
    };
    let is_remote = scope == Scope::NonLocal;
    let properties =
        FaceProperties { pit_tokens, principal, ..FaceProperties::point_to_point(face_id, scope) };
    let interests_per_second = config.limits.interests_per_second.filter(|_| is_remote);
    let options = FaceOptions {
        link: LinkOptions {
            interests_per_second,
            ..settings::stream_link(&config.faces, &config.limits)
        },
        // Used if the face becomes permanent: NFD also connects to the peer's source port.
        reconnect_to: peer.filter(|_| !is_websocket),
        ..FaceOptions::stream(properties, Persistency::OnDemand)
    };
    let transport = match is_websocket {
        true => NewStream::WebSocket(stream),
        false => NewStream::Plain(stream),
    };
    NewFace { ticket: None, transport: transport.into(), options, remote, local }
}

/// Parameters of a TCP face to `remote`, already connected. A local one is charged to the user of its peer, whom it
/// must find again when it connects again.
pub(super) fn connected_tcp(
    face_id: u64,
    stream: OwnedFd,
    remote: SocketAddr,
    identity: &PeerIdentity,
    spec: &FaceSpec,
    config: &Config,
) -> NewFace {
    let local = ndn_sys::stream::tcp_addresses(stream.as_fd())
        .map_or(FaceUri::null(), |(local, _)| FaceUri::tcp(local));
    let mut properties = spec.properties(face_id, identity.scope, Some(identity.principal));
    if identity.principal.class() == PrincipalClass::Local {
        properties.principal = identity.principal;
    }
    let mut options = FaceOptions {
        link: settings::stream_link(&config.faces, &config.limits),
        reconnect_to: Some(remote),
        ..FaceOptions::stream(properties, spec.persistency)
    };
    spec.apply(&mut options, config, None);
    let transport = NewStream::Plain(stream).into();
    NewFace { ticket: spec.ticket, transport, options, remote: FaceUri::tcp(remote), local }
}

/// Parameters of a face for an accepted session.
pub(super) fn accepted_session(
    face_id: u64,
    session: Accepted,
    mtu: usize,
    config: &Config,
) -> NewFace {
    let properties = FaceProperties {
        pit_tokens: PitTokenPolicy::WhenSeen,
        principal: PrincipalKey::remote(session.remote),
        ..FaceProperties::point_to_point(face_id, Scope::NonLocal)
    };
    let options = FaceOptions {
        link: LinkOptions {
            mtu: Some(mtu),
            interests_per_second: config.limits.interests_per_second,
            ..settings::stream_link(&config.faces, &config.limits)
        },
        ..FaceOptions::stream(properties, Persistency::OnDemand)
    };
    NewFace {
        ticket: None,
        transport: NewStream::Plain(session.stream).into(),
        options,
        remote: FaceUri::quic(session.remote),
        local: FaceUri::quic(session.local),
    }
}

/// Parameters of a face for a session opened here. The session limits its frame length.
pub(super) fn opened_session(
    face_id: u64,
    session: Accepted,
    mtu: usize,
    target: &Target,
    spec: &FaceSpec,
    config: &Config,
) -> NewFace {
    let peer = PrincipalKey::remote(session.remote);
    let properties = spec.properties(face_id, Scope::NonLocal, Some(peer));
    let mut options = FaceOptions {
        link: LinkOptions {
            mtu: Some(mtu),
            ..settings::stream_link(&config.faces, &config.limits)
        },
        ..FaceOptions::stream(properties, spec.persistency)
    };
    spec.apply(&mut options, config, Some(mtu));
    NewFace {
        ticket: spec.ticket,
        transport: NewStream::Plain(session.stream).into(),
        options,
        // The target was parsed from a face URI.
        remote: FaceUri::parse(&target.to_string())
            .unwrap_or_else(|_| FaceUri::quic(session.remote)),
        local: FaceUri::quic(session.local),
    }
}

/// Parameters of a UDP face to `remote`.
pub(super) fn datagram(
    face_id: u64,
    remote: SocketAddr,
    spec: &FaceSpec,
    config: &Config,
) -> NewFace {
    let mtu = settings::mtu(&config.faces);
    let peer = PrincipalKey::remote(remote);
    let properties = spec.properties(face_id, Scope::NonLocal, Some(peer));
    let mut options = FaceOptions {
        link: settings::datagram_link(&config.faces, &config.limits),
        idle_timeout: Some(config.faces.idle_timeout),
        ..FaceOptions::datagram(properties, spec.persistency, mtu)
    };
    spec.apply(&mut options, config, None);
    NewFace {
        ticket: spec.ticket,
        transport: NewDatagram::To(remote).into(),
        options,
        remote: FaceUri::udp(remote),
        // The worker assigns the socket, the kernel the address.
        local: FaceUri::null(),
    }
}

/// First ticket of static faces; lower ones are management's.
pub(super) const FIRST_STATIC_TICKET: u64 = 1 << 63;

/// Specification of a requested face.
#[derive(Debug, Clone, Copy)]
pub(super) struct FaceSpec {
    /// Ticket of the requester.
    pub(super) ticket: Option<u64>,
    /// Persistency.
    pub(super) persistency: Persistency,
    /// The principal that keeps the face; `None`: an operator.
    pub(super) keeper: Option<PrincipalKey>,
    /// When the face sends PIT tokens of this forwarder.
    pub(super) pit_tokens: PitTokenPolicy,
    /// Settings that differ from the defaults.
    pub(super) options: ndn_management::request::FaceOptions,
}

impl FaceSpec {
    /// Returns whether a command waits for the face.
    pub(super) fn is_command(&self) -> bool {
        self.ticket.is_some_and(|ticket| ticket < FIRST_STATIC_TICKET)
    }

    /// Specification of a face like a removed one, without a requester.
    pub(super) fn again(options: &FaceOptions) -> Self {
        let FaceOptions { properties, persistency, keeper, link, .. } = options;
        let interval = duration_ns(link.congestion_interval);
        Self {
            ticket: None,
            persistency: *persistency,
            keeper: *keeper,
            pit_tokens: properties.pit_tokens,
            options: ndn_management::request::FaceOptions {
                lp_reliability: Some(link.reliability),
                congestion_marking: Some(link.congestion_marking),
                base_congestion_marking_interval_ns: Some(interval),
                default_congestion_threshold: Some(link.congestion_threshold as u64),
                // The session determines its MTU, and its peer is remote.
                mtu: None,
                local_fields: None,
                driver: None,
            },
        }
    }

    /// Properties of the face, whose peer is this principal, if it is known by its address or user. The packets of a face
    /// that a user keeps are charged as if the peer had connected by itself.
    pub(super) fn properties(
        &self,
        face_id: u64,
        scope: Scope,
        peer: Option<PrincipalKey>,
    ) -> FaceProperties {
        let own = FaceProperties::point_to_point(face_id, scope);
        FaceProperties {
            principal: self.keeper.map_or(own.principal, |keeper| peer.unwrap_or(keeper)),
            pit_tokens: match scope {
                Scope::Local if self.pit_tokens == PitTokenPolicy::WhenSeen => {
                    PitTokenPolicy::Never
                }
                Scope::Local | Scope::NonLocal => self.pit_tokens,
            },
            local_fields: self.options.local_fields.unwrap_or(false),
            ..own
        }
    }

    /// Applies the specification to the options of the face. The link limits the frame length, if known.
    pub(super) fn apply(
        &self,
        options: &mut FaceOptions,
        config: &Config,
        mtu_of_link: Option<usize>,
    ) {
        options.keeper = self.keeper;
        if options.properties.principal.class() == PrincipalClass::Remote {
            options.link.interests_per_second = config.limits.interests_per_second;
        }
        apply(&self.options, options, mtu_of_link);
    }
}

/// Sets the persistency and the keeper of a face. A face that an operator makes persistent or permanent is a neighbour, and
/// has no rate limit.
pub(super) fn set_persistency(
    persistency: Persistency,
    keeper: Option<PrincipalKey>,
    options: &mut FaceOptions,
) {
    (options.persistency, options.keeper) = (persistency, keeper);
    if options.persistency != Persistency::OnDemand && keeper.is_none() {
        let properties = &mut options.properties;
        properties.principal = properties.principal.kept_by_operator(properties.face_id);
        options.link.interests_per_second = None;
    }
}

/// Applies management's changes to `options`; management has checked them. The link limits the frame length, if
/// known.
pub(super) fn apply(
    change: &ndn_management::request::FaceOptions,
    options: &mut FaceOptions,
    mtu_of_link: Option<usize>,
) {
    if let Some(local_fields) = change.local_fields {
        options.properties.local_fields = local_fields;
        options.link.local_fields = local_fields;
    }
    if let Some(reliability) = change.lp_reliability {
        options.link.reliability = reliability;
    }
    if let Some(marking) = change.congestion_marking {
        options.link.congestion_marking = marking;
    }
    if let Some(interval) = change.base_congestion_marking_interval_ns {
        options.link.congestion_interval = std::time::Duration::from_nanos(interval);
    }
    if let Some(threshold) = change.default_congestion_threshold {
        options.link.congestion_threshold = usize::try_from(threshold).unwrap_or(usize::MAX);
    }
    if let Some(mtu) = change.mtu
        && options.link.mtu.is_some()
    {
        let mtu = usize::try_from(mtu).unwrap_or(usize::MAX);
        options.link.mtu = Some(mtu.min(mtu_of_link.unwrap_or(MAX_PACKET_SIZE)));
    }
}

/// Converts a configuration value into the forwarding policy.
pub(super) fn pit_token_policy(pit_tokens: PitTokens) -> PitTokenPolicy {
    match pit_tokens {
        PitTokens::Auto => PitTokenPolicy::WhenSeen,
        PitTokens::Always => PitTokenPolicy::Always,
        PitTokens::Never => PitTokenPolicy::Never,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::num::NonZeroU32;
    use std::os::unix::net::UnixStream;

    use super::*;

    const USER: PrincipalKey = PrincipalKey::LocalApplication { uid: 1000, pid: 0 };
    const NEIGHBOUR: PrincipalKey = PrincipalKey::Neighbour { face_id: 300 };

    fn spec(keeper: Option<PrincipalKey>) -> FaceSpec {
        FaceSpec {
            ticket: Some(1),
            persistency: Persistency::Persistent,
            keeper,
            pit_tokens: PitTokenPolicy::WhenSeen,
            options: ndn_management::request::FaceOptions::default(),
        }
    }

    fn config() -> Config {
        let mut config = Config::default();
        config.limits.interests_per_second = NonZeroU32::new(1000);
        config
    }

    fn peer() -> SocketAddr {
        "192.0.2.1:6363".parse().unwrap()
    }

    /// The principal of its packets and of the face, and whether the limits of on-demand peers apply.
    fn charges(options: &FaceOptions) -> (PrincipalKey, PrincipalKey, bool) {
        let has_limits = options.link.interests_per_second.is_some();
        assert_eq!(options.gives_way(), options.keeper.is_some());
        (options.properties.principal, options.holder(), has_limits)
    }

    #[test]
    fn packets_over_udp_are_those_of_the_peer_unless_an_operator_made_the_face() {
        let address = PrincipalKey::remote(peer());
        let made_for = |keeper| charges(&datagram(300, peer(), &spec(keeper), &config()).options);
        assert_eq!(made_for(Some(USER)), (address, USER, true));
        assert_eq!(made_for(None), (NEIGHBOUR, NEIGHBOUR, false));
    }

    #[test]
    fn packets_over_tcp_are_those_of_the_peer_unless_an_operator_made_the_face() {
        let made = |identity: &PeerIdentity, keeper| {
            let stream = OwnedFd::from(UnixStream::pair().unwrap().0);
            let face = connected_tcp(300, stream, peer(), identity, &spec(keeper), &config());
            charges(&face.options)
        };
        let remote = PeerIdentity::remote(peer());
        let address = PrincipalKey::remote(peer());
        assert_eq!(made(&remote, Some(USER)), (address, USER, true));
        assert_eq!(made(&remote, None), (NEIGHBOUR, NEIGHBOUR, false));
        // Of a program of another user on this host.
        let other = PrincipalKey::LocalApplication { uid: 1001, pid: 0 };
        let local = PeerIdentity { scope: Scope::Local, principal: other, not_local: None };
        assert_eq!(made(&local, Some(USER)), (other, USER, false));
        assert_eq!(made(&local, None), (other, NEIGHBOUR, false));
    }

    #[test]
    fn packets_of_a_peer_without_an_address_are_those_of_the_user() {
        let station = PrincipalKey::station([2, 0, 0, 0, 0, 1]);
        for (peer, keeper, principal) in [
            (None, Some(USER), USER),
            (None, None, NEIGHBOUR),
            (Some(station), Some(USER), station),
            (Some(station), None, NEIGHBOUR),
        ] {
            let properties = spec(keeper).properties(300, Scope::NonLocal, peer);
            assert_eq!(properties.principal, principal);
        }
    }

    #[test]
    fn face_that_a_user_keeps_has_limits_until_an_operator_keeps_it() {
        let mut options = datagram(300, peer(), &spec(Some(USER)), &config()).options;
        let address = PrincipalKey::remote(peer());
        let other = PrincipalKey::LocalApplication { uid: 1001, pid: 0 };
        set_persistency(Persistency::Permanent, Some(other), &mut options);
        assert_eq!(charges(&options), (address, other, true));
        set_persistency(Persistency::Permanent, None, &mut options);
        assert_eq!(charges(&options), (NEIGHBOUR, NEIGHBOUR, false));
    }

    #[test]
    fn face_that_is_on_demand_again_is_charged_to_its_address() {
        let mut options = datagram(300, peer(), &spec(Some(USER)), &config()).options;
        set_persistency(Persistency::OnDemand, None, &mut options);
        let address = PrincipalKey::remote(peer());
        assert_eq!((options.holder(), options.gives_way()), (address, true));
    }
}
