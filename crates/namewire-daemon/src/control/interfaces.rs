//! Network interfaces, and the faces that depend on them.

use ndn_sys::netlink::LinkMonitor;
use ndn_table::Timestamp;

use super::service::{Cx, Reason, Service};
use crate::bound::InterfaceFaces;
use crate::config::Config;
use crate::ethernet::{Context, EthernetPorts, OwnPort};
use crate::multicast::MulticastFaces;

/// UDP multicast faces, faces bound to interfaces, Ethernet ports.
#[derive(Debug)]
pub(crate) struct Interfaces {
    multicast: MulticastFaces,
    bound: InterfaceFaces,
    pub(super) ethernet: EthernetPorts,
    /// Readable when interfaces have changed. Without a monitor they are only polled.
    monitor: Option<LinkMonitor>,
}

/// Events of the interface service.
#[derive(Debug)]
pub(crate) enum InterfacesEvent {
    /// Interfaces have changed.
    LinksChanged,
    /// The settings have changed.
    Reloaded,
    /// Devices driven by a driver of this process.
    OwnPorts(Vec<OwnPort>),
}

impl Interfaces {
    /// Creates the service without faces.
    pub(super) fn new(has_monitor: bool) -> Self {
        Self {
            multicast: MulticastFaces::default(),
            bound: InterfaceFaces::default(),
            ethernet: EthernetPorts::default(),
            monitor: if has_monitor { LinkMonitor::new().ok() } else { None },
        }
    }

    /// Readable when [`InterfacesEvent::LinksChanged`] is due.
    pub(super) fn monitor(&self) -> Option<&LinkMonitor> {
        self.monitor.as_ref()
    }

    fn poll_ethernet(&mut self, cx: &mut Cx<'_>) {
        let (config, faces) = (cx.config, &*cx.faces);
        let has_face = |name: &str| faces.values().any(|face| face.interface() == Some(name));
        let dataplane = &mut *cx.dataplane;
        let mut context = Context { now_ns: cx.now.monotonic_ns, config, dataplane };
        self.ethernet.look(&mut context, has_face);
        for resized in self.ethernet.take_resized() {
            let lengths = cx.faces.iter().filter_map(|(&face_id, face)| {
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

    fn handle_event(&mut self, cx: &mut Cx<'_>, event: InterfacesEvent) {
        let (now_ns, config) = (cx.now.monotonic_ns, cx.config);
        match event {
            InterfacesEvent::LinksChanged => {
                if let Some(monitor) = &self.monitor {
                    monitor.reset();
                }
                self.ethernet.poll_soon();
            }
            InterfacesEvent::Reloaded => {
                self.multicast.poll_anew(now_ns, config, cx.dataplane);
                self.bound.poll_anew(now_ns, config, cx.dataplane);
                self.ethernet.poll_soon();
            }
            InterfacesEvent::OwnPorts(ports) => {
                let mut context = Context { now_ns, config, dataplane: cx.dataplane };
                ports.into_iter().for_each(|port| self.ethernet.add_own(port, &mut context));
            }
        }
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        let (now_ns, config) = (cx.now.monotonic_ns, cx.config);
        self.multicast.look(now_ns, config, cx.dataplane);
        self.bound.look(now_ns, config, cx.dataplane);
        self.poll_ethernet(cx);
    }

    fn next_deadline(&self, config: &Config) -> Option<(Timestamp, Reason)> {
        let deadlines = [
            (self.multicast.next_deadline_ns(config), Reason::Multicast),
            (self.bound.next_deadline_ns(config), Reason::BoundFaces),
            (self.ethernet.next_deadline_ns(config), Reason::Ethernet),
        ];
        let deadlines = deadlines.into_iter().filter_map(|(at_ns, reason)| Some((at_ns?, reason)));
        let first = deadlines.min_by_key(|(at_ns, _)| *at_ns);
        first.map(|(at_ns, reason)| (Timestamp::from_nanos(at_ns), reason))
    }
}
