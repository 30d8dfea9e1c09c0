//! Which faces a worker may have: their numbers, and the limits of those that peers make by sending.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ndn_face::{ChannelId, FaceOptions, LinkOptions, PortId};
use ndn_forwarding::{FaceProperties, Scope};
use ndn_sys::udp::udp_route;
use ndn_table::{FaceIndex, Timestamp};
use ndn_types::{Persistency, PrincipalKey};

use crate::command::StationOptions;
use crate::faces::FaceNumbers;
use crate::options::OnDemandOptions;

/// Minimum time between two reports of a rejected peer to the control thread: addresses are easily forged.
const REJECTION_REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Admission of faces to one worker.
#[derive(Debug)]
pub(crate) struct FaceAdmission {
    pub(crate) numbers: FaceNumbers,
    /// UDP sockets that datagram faces share, with their local addresses.
    pub(crate) channels: Vec<(ChannelId, SocketAddr)>,
    pub(crate) on_demand: OnDemandOptions,
    /// By network device, the options of on-demand faces of stations.
    pub(crate) stations: Vec<(PortId, StationOptions)>,
    pub(crate) next_face_id: Arc<AtomicU64>,
    /// Time of the next report of a rejected peer.
    pub(crate) next_rejection_report: Timestamp,
}

impl FaceAdmission {
    /// A FaceId that was never used.
    pub(super) fn new_face_id(&self) -> u64 {
        self.next_face_id.fetch_add(1, Ordering::Relaxed)
    }

    /// An index for an on-demand face of a UDP peer; none if a limit is reached.
    pub(super) fn allocate_for_peer(
        &mut self,
        peer: SocketAddr,
        face_id: u64,
    ) -> Option<FaceIndex> {
        self.numbers.allocate(face_id, PrincipalKey::remote(peer))
    }

    /// Frees the number of a face that has closed.
    pub(super) fn release(&mut self, index: FaceIndex) {
        self.numbers.release(index);
    }

    /// Whether to report a rejected peer now.
    pub(super) fn reports_rejection(&mut self, now: Timestamp) -> bool {
        let is_due = now >= self.next_rejection_report;
        if is_due {
            self.next_rejection_report = now.plus(REJECTION_REPORT_INTERVAL);
        }
        is_due
    }

    /// The socket to send to a peer by: the one bound to the source address of the route, else one
    /// bound to all addresses, else any of the address family.
    pub(super) fn channel_to(&self, peer: SocketAddr) -> Option<(ChannelId, SocketAddr)> {
        let family = |address: &SocketAddr| address.is_ipv4() == peer.is_ipv4();
        let usable = || self.channels.iter().copied().filter(|(_, local)| family(local));
        let first = usable().next()?;
        if usable().count() == 1 {
            return Some(first);
        }
        // The kernel is asked only where there is a choice.
        let source = udp_route(peer).ok().map(|route| route.source);
        let at_source = usable().find(|(_, local)| Some(local.ip()) == source);
        let at_all = || usable().find(|(_, local)| local.ip().is_unspecified());
        at_source.or_else(at_all).or(Some(first))
    }

    /// Options of on-demand faces of stations on a network device.
    pub(super) fn stations_of(&self, port: PortId) -> Option<StationOptions> {
        self.stations.iter().find(|(id, _)| *id == port).map(|(_, stations)| *stations)
    }

    /// Changes the options of on-demand faces of stations on a network device.
    pub(super) fn set_stations(&mut self, port: PortId, options: StationOptions) {
        if let Some((_, stations)) = self.stations.iter_mut().find(|(id, _)| *id == port) {
            *stations = options;
        }
    }

    /// Options of an on-demand face of a UDP peer.
    pub(super) fn peer_options(&self, face_id: u64, peer: SocketAddr) -> FaceOptions {
        self.on_demand_options(face_id, PrincipalKey::remote(peer))
    }

    fn on_demand_options(&self, face_id: u64, principal: PrincipalKey) -> FaceOptions {
        let OnDemandOptions { mtu, link, idle_timeout, pit_tokens, .. } = self.on_demand;
        let properties = FaceProperties {
            pit_tokens,
            principal,
            ..FaceProperties::point_to_point(face_id, Scope::NonLocal)
        };
        FaceOptions {
            link,
            idle_timeout: Some(idle_timeout),
            ..FaceOptions::datagram(properties, Persistency::OnDemand, mtu)
        }
    }

    /// Options of an on-demand face of a station.
    pub(super) fn station_options(
        &self,
        face_id: u64,
        mac: [u8; 6],
        stations: StationOptions,
    ) -> FaceOptions {
        let StationOptions { mtu, idle_timeout } = stations;
        let options = self.on_demand_options(face_id, PrincipalKey::station(mac));
        let link = LinkOptions { mtu: Some(mtu), ..options.link };
        FaceOptions { link, idle_timeout: Some(idle_timeout), ..options }
    }
}
