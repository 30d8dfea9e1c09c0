//! Network interfaces, and the faces that depend on them.

use std::time::Duration;

use ndn_management::status;
use ndn_sys::netlink::LinkMonitor;
use ndn_types::Timestamp;

use super::commands::PortCommands;
use super::service::{Deadline, Event, Reason, Service, ServiceName};
use super::tokens::TOKEN_LINKS;
use crate::bound::InterfaceFaces;
use crate::ethernet::{Context, EthernetPorts, OwnPort};
use crate::faces;
use crate::multicast::MulticastFaces;

/// The view of this service.
type Cx<'a> = super::service::Cx<'a, dyn PortCommands>;

/// Poll interval for interfaces with UDP faces.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// UDP multicast faces, faces bound to interfaces, Ethernet ports.
#[derive(Debug)]
pub(super) struct Interfaces {
    multicast: MulticastFaces,
    bound: InterfaceFaces,
    ethernet: EthernetPorts,
    /// Readable when interfaces have changed. Without a monitor they are only polled.
    monitor: Option<LinkMonitor>,
    /// Time of the next poll of each kind.
    next_multicast: Option<Timestamp>,
    next_bound: Option<Timestamp>,
    next_ethernet: Option<Timestamp>,
    /// Local URIs of the Ethernet interfaces that accept stations.
    channels: Vec<String>,
}

impl Interfaces {
    /// Creates the service with the devices that are driven by a driver of this process. Without `has_monitor`,
    /// interfaces are only polled.
    pub(super) fn new(cx: &mut Cx<'_>, has_monitor: bool, own: Vec<OwnPort>) -> Self {
        let mut interfaces = Self {
            multicast: MulticastFaces::default(),
            bound: InterfaceFaces::default(),
            ethernet: EthernetPorts::default(),
            monitor: if has_monitor { LinkMonitor::new().ok() } else { None },
            next_multicast: cx.config().listeners.multicast.enabled.then_some(Timestamp::ZERO),
            next_bound: (!cx.config().bound_faces.is_empty()).then_some(Timestamp::ZERO),
            next_ethernet: None,
            channels: Vec::new(),
        };
        for port in own {
            interfaces.ethernet.add_own(port, &mut context(cx));
        }
        interfaces.note_ethernet(cx);
        interfaces
    }

    /// Readable when interfaces have changed.
    pub(super) fn monitor(&self) -> Option<&LinkMonitor> {
        self.monitor.as_ref()
    }

    /// Returns the driver of an interface in use.
    pub(super) fn driver(&self, interface: &str) -> Option<&'static str> {
        self.ethernet.driver(interface)
    }

    /// Updates the time of the next poll, and the interfaces that management lists.
    fn note_ethernet(&mut self, cx: &mut Cx<'_>) {
        self.next_ethernet = self.ethernet.next_deadline(cx.config());
        let channels: Vec<String> = self.ethernet.channels().collect();
        if channels != self.channels {
            self.channels.clone_from(&channels);
            cx.post(Event::EthernetChannels(channels));
        }
    }

    fn poll_multicast(&mut self, cx: &mut Cx<'_>) {
        let is_polled = self.multicast.poll(cx.config(), cx.dataplane());
        self.next_multicast = is_polled.then(|| cx.after(POLL_INTERVAL));
    }

    fn poll_bound(&mut self, cx: &mut Cx<'_>) {
        let is_polled = self.bound.poll(cx.config(), cx.dataplane());
        self.next_bound = is_polled.then(|| cx.after(POLL_INTERVAL));
    }

    fn poll_ethernet(&mut self, cx: &mut Cx<'_>) {
        let (now, config) = (cx.now().monotonic, cx.config());
        let (faces, dataplane) = cx.faces_and_dataplane();
        let has_face = |name: &str| faces.all().values().any(|face| face.interface() == Some(name));
        self.ethernet.poll(&mut Context { now, config, dataplane }, has_face);
        for resized in self.ethernet.take_resized() {
            let lengths = cx.faces().all().iter().filter_map(|(&face_id, face)| {
                let is_on_it = face.interface() == Some(&resized.name);
                let length = resized.frame_length(face.options.link.mtu).filter(|_| is_on_it);
                length.map(|length| (face_id, length))
            });
            let lengths: Vec<(u64, usize)> = lengths.collect();
            lengths.into_iter().for_each(|(face_id, length)| cx.resize(face_id, length));
        }
    }
}

impl Service for Interfaces {
    type Dataplane = dyn PortCommands;
    const NAME: ServiceName = ServiceName::Interfaces;

    #[expect(clippy::wildcard_enum_match_arm, reason = "`Event::receivers` is exhaustive")]
    fn handle_event(&mut self, cx: &mut Cx<'_>, event: Event) -> Option<Event> {
        match event {
            Event::Ready(TOKEN_LINKS) => {
                if let Some(monitor) = &self.monitor {
                    monitor.reset();
                }
                self.ethernet.poll_soon();
                cx.post(Event::LinksChanged);
            }
            Event::Reloaded => {
                self.poll_multicast(cx);
                self.poll_bound(cx);
                self.ethernet.poll_soon();
                self.note_ethernet(cx);
                return Some(event);
            }
            Event::CreateStation { mac, interface, spec } => {
                match self.ethernet.new_face(mac, &interface, &spec, &mut context(cx)) {
                    Ok(face) => cx.add_face(face),
                    Err(reason) => {
                        let text = format!("Cannot create a face on {interface}: {reason}");
                        cx.attempt_failed(&interface, &spec, status::CONNECT_FAILED, text);
                    }
                }
            }
            Event::UpdateFace { face_id, kept, options: changes } => {
                let interface = cx.faces().get(face_id).and_then(|face| face.interface());
                let mtu = interface.and_then(|name| self.ethernet.mtu(name));
                cx.change_face(face_id, |options| {
                    faces::apply(&changes, options, mtu);
                    if let Some((persistency, keeper)) = kept {
                        faces::set_persistency(persistency, keeper, options);
                    }
                });
                return None;
            }
            other => return other.unhandled(),
        }
        self.note_ethernet(cx);
        None
    }

    fn next_deadline(&self) -> Option<Deadline> {
        let kinds = [
            (self.next_multicast, Reason::Multicast),
            (self.next_bound, Reason::BoundFaces),
            (self.next_ethernet, Reason::Ethernet),
        ];
        kinds.into_iter().filter_map(|(at, reason)| Some((at?, reason))).min()
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>, reason: Reason) {
        if reason == Reason::Multicast {
            self.poll_multicast(cx);
        } else if reason == Reason::BoundFaces {
            self.poll_bound(cx);
        } else {
            self.poll_ethernet(cx);
            self.note_ethernet(cx);
        }
    }
}

fn context<'a>(cx: &'a mut Cx<'_>) -> Context<'a> {
    Context { now: cx.now().monotonic, config: cx.config(), dataplane: cx.dataplane() }
}
