//! Network devices and the stations behind them.

use std::sync::atomic::Ordering;

use ndn_face::{FaceOptions, LinkOptions, PortId, PortOptions};
use ndn_table::Timestamp;
use ndn_types::FaceUri;

use super::Worker;
use super::crew::Foreign;
use crate::command::{NewPort, PortChange, StationOptions};
use crate::dataplane::OnDemandOptions;
use crate::event::{Event, FaceCreated};
use crate::peers::{Party, Unclaimed};

impl Worker {
    pub(super) fn add_port(&mut self, new: NewPort) {
        let NewPort { port, name, is_up, accepts, sockets, stations } = new;
        let (socket, has_others) = (sockets.into_iter().next(), self.crew.is_some());
        let options = PortOptions { name, socket, is_up, accepts, has_others };
        match self.faces.add_port(port, options) {
            Ok(_) => self.stations.push((port, stations)),
            Err(error) => tracing::warn!(?port, %error, "a network device cannot be used"),
        }
    }

    pub(super) fn change_port(&mut self, now: Timestamp, port: PortId, change: PortChange) {
        self.flush(now);
        let changed = match change {
            PortChange::Link(is_up) => {
                self.faces.set_port_state(port, is_up);
                Ok(())
            }
            PortChange::Sockets(sockets, options) => {
                if let Some((_, stations)) = self.stations.iter_mut().find(|(id, _)| *id == port) {
                    *stations = options;
                }
                self.faces.set_port_socket(port, sockets.into_iter().next(), &self.pool)
            }
            PortChange::Suspend => self.faces.close_port_socket(port, &self.pool),
            PortChange::Address(mac) => {
                self.faces.set_port_mac(port, mac);
                Ok(())
            }
            PortChange::Purpose { accepts, leaves_group } => {
                self.faces.set_port_purpose(port, accepts, leaves_group, &self.pool);
                Ok(())
            }
            PortChange::Gone => self.faces.set_port_socket(port, None, &self.pool),
            PortChange::Remove => {
                self.stations.retain(|(id, _)| *id != port);
                self.faces.remove_port(port, &self.pool);
                Ok(())
            }
        };
        if let Err(error) = changed {
            tracing::warn!(?port, %error, "a network device cannot be used");
        }
        while let Some(socket) = self.faces.take_unused_socket() {
            self.events.send(Event::SocketUnused(socket));
        }
        // The next command may make a face in the place of one that has closed.
        self.report_faces();
    }

    /// Makes a face for a station that has spoken first.
    #[cold]
    pub(super) fn add_station(&mut self, now: Timestamp, port: PortId, mac: [u8; 6]) {
        let (party, foreign) = (Party::station(port, mac), Foreign::Station(port, Some(mac)));
        if let Some((other, _)) = self.face_of(party) {
            return self.adopt_foreign(foreign, other);
        }
        let stations = self.stations.iter().find(|(id, _)| *id == port);
        let Some(&(_, stations)) = stations else { return };
        let name = self.faces.port_for_new_station(port);
        let name = name.filter(|_| self.numbers.has_room_for_strangers());
        let face_id = self.next_face_id.fetch_add(1, Ordering::Relaxed);
        let allocated = name.and_then(|name| Some((name, self.numbers.allocate(face_id)?)));
        let Some((name, index)) = allocated else {
            self.counters.refused_peers.increment();
            return;
        };
        let claimed = match &self.crew {
            Some(crew) => crew.registry.claim_for_stranger(party, index, face_id),
            None => Ok(()),
        };
        if let Err(unclaimed) = claimed {
            self.numbers.release(index);
            match unclaimed {
                Unclaimed::Exists(other, _) => self.adopt_foreign(foreign, other),
                Unclaimed::NoRoom => self.counters.refused_peers.increment(),
            }
            return;
        }
        let options = self.on_demand.station_options(face_id, stations);
        match self.faces.add_station(now, index, port, mac, &options) {
            Ok(counters) => {
                self.announce_face(index, &options.properties);
                let (remote, local) = (FaceUri::ethernet(mac), FaceUri::device(&name));
                let face = FaceCreated { index, options, remote, local, counters };
                self.events.send(Event::FaceAdded { ticket: None, face: Box::new(face) });
            }
            Err(_) => {
                self.release_number(index);
                self.counters.refused_peers.increment();
            }
        }
    }
}

impl Worker {
    /// Finds out who has the face of a group that somebody has sent to.
    #[cold]
    pub(super) fn hear_group(&mut self, port: PortId) {
        if let Some((other, _)) = self.face_of(Party::Station(port, None)) {
            self.adopt_foreign(Foreign::Station(port, None), other);
        }
    }
}

impl OnDemandOptions {
    /// Options of a face for a station that has spoken first.
    fn station_options(&self, face_id: u64, stations: StationOptions) -> FaceOptions {
        let StationOptions { mtu, idle_timeout } = stations;
        let options = self.face_options(face_id);
        let link = LinkOptions { mtu: Some(mtu), ..options.link };
        FaceOptions { link, idle_timeout: Some(idle_timeout), ..options }
    }
}
