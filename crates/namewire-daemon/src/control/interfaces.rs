//! Network interfaces, and the faces that depend on them.

use std::time::Duration;

use ndn_dataplane::Command;
use ndn_management::request::FaceOptions;
use ndn_management::{Persistency, status};
use ndn_sys::netlink::LinkMonitor;
use ndn_types::PrincipalKey;
use tracing::info;

use super::service::{Cx, Reason, Service};
use crate::bound::InterfaceFaces;
use crate::ethernet::{Context, EthernetPorts, OwnPort};
use crate::faces::{self, FaceSpec};
use crate::multicast::MulticastFaces;

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
}

/// Events of network interfaces.
#[derive(Debug)]
pub(super) enum InterfacesEvent {
    /// Interfaces have changed.
    LinksChanged,
    /// The settings have changed.
    Reloaded,
    /// Create a face for an Ethernet station.
    CreateStation { mac: [u8; 6], interface: String, spec: FaceSpec },
    /// Change the settings of a face, and how long it stays and who keeps it.
    UpdateFace {
        face_id: u64,
        kept: Option<(Persistency, Option<PrincipalKey>)>,
        options: FaceOptions,
    },
}

impl Interfaces {
    /// Creates the service with the devices that are driven by a driver of this process. Without `has_monitor`,
    /// interfaces are only polled.
    pub(super) fn new(cx: &mut Cx, has_monitor: bool, own: Vec<OwnPort>) -> Self {
        let mut interfaces = Self {
            multicast: MulticastFaces::default(),
            bound: InterfaceFaces::default(),
            ethernet: EthernetPorts::default(),
            monitor: if has_monitor { LinkMonitor::new().ok() } else { None },
        };
        for port in own {
            interfaces.ethernet.add_own(port, &mut context(cx));
        }
        if cx.config.listeners.multicast.enabled {
            cx.timers.set(Reason::Multicast, Some(0));
        }
        if !cx.config.bound_faces.is_empty() {
            cx.timers.set(Reason::BoundFaces, Some(0));
        }
        interfaces.note_ethernet(cx);
        interfaces
    }

    /// Readable when [`InterfacesEvent::LinksChanged`] is due.
    pub(super) fn monitor(&self) -> Option<&LinkMonitor> {
        self.monitor.as_ref()
    }

    /// Returns the driver of an interface in use.
    pub(super) fn driver(&self, interface: &str) -> Option<&'static str> {
        self.ethernet.driver(interface)
    }

    /// Updates what other services know about Ethernet interfaces.
    fn note_ethernet(&self, cx: &mut Cx) {
        cx.timers.set(Reason::Ethernet, self.ethernet.next_deadline_ns(&cx.config));
        cx.ethernet_channels = self.ethernet.channels().collect();
    }

    fn poll_multicast(&mut self, cx: &mut Cx) {
        let next =
            self.multicast.poll(&cx.config, &mut cx.dataplane).then(|| cx.after(POLL_INTERVAL));
        cx.timers.set(Reason::Multicast, next);
    }

    fn poll_bound(&mut self, cx: &mut Cx) {
        let next = self.bound.poll(&cx.config, &mut cx.dataplane).then(|| cx.after(POLL_INTERVAL));
        cx.timers.set(Reason::BoundFaces, next);
    }

    fn poll_ethernet(&mut self, cx: &mut Cx) {
        let faces = &cx.faces.known;
        let has_face = |name: &str| faces.values().any(|face| face.interface() == Some(name));
        let (now_ns, config) = (cx.now.monotonic_ns, &cx.config);
        let mut context = Context { now_ns, config, dataplane: &mut cx.dataplane };
        self.ethernet.poll(&mut context, has_face);
        for resized in self.ethernet.take_resized() {
            let lengths = cx.faces.known.iter().filter_map(|(&face_id, face)| {
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
    type Event = InterfacesEvent;

    fn handle_event(&mut self, cx: &mut Cx, event: InterfacesEvent) {
        match event {
            InterfacesEvent::LinksChanged => {
                if let Some(monitor) = &self.monitor {
                    monitor.reset();
                }
                self.ethernet.poll_soon();
            }
            InterfacesEvent::Reloaded => {
                self.poll_multicast(cx);
                self.poll_bound(cx);
                self.ethernet.poll_soon();
            }
            InterfacesEvent::CreateStation { mac, interface, spec } => {
                match self.ethernet.new_face(mac, &interface, &spec, &mut context(cx)) {
                    Ok(face) => cx.dataplane.send(Command::AddFace(Box::new(face))),
                    Err(reason) => {
                        info!(interface, reason, "no face on an interface");
                        let text = format!("Cannot create a face on {interface}: {reason}");
                        cx.attempt_failed(&spec, status::CONNECT_FAILED, text);
                    }
                }
            }
            InterfacesEvent::UpdateFace { face_id, kept, options } => {
                let Some(face) = cx.faces.known.get_mut(&face_id) else { return };
                let mtu = face.interface().and_then(|name| self.ethernet.mtu(name));
                faces::apply(&options, &mut face.options, mtu);
                if let Some((persistency, keeper)) = kept {
                    faces::set_persistency(persistency, keeper, &mut face.options);
                }
                let options = Box::new(face.options);
                return cx.dataplane.send(Command::UpdateFace { face_id, options });
            }
        }
        self.note_ethernet(cx);
    }

    fn handle_timeout(&mut self, cx: &mut Cx, reason: Reason) {
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

const fn context(cx: &mut Cx) -> Context<'_> {
    Context { now_ns: cx.now.monotonic_ns, config: &cx.config, dataplane: &mut cx.dataplane }
}
