//! Network devices and the faces on them.

use std::io;
use std::sync::Arc;

use ndn_ring::PacketPool;
use ndn_sys::poll::Interest;
use ndn_table::{FaceIndex, Timestamp};

use crate::datagram::ChannelCounters;
use crate::ether::{Port, PortId, PortOptions, PortSocket, is_group};
use crate::face::Transport;
use crate::set::{FaceSet, face_in, port_token};
use crate::{CloseReason, FaceChange, FaceCounters, FaceEvent, FaceOptions, Persistency};

impl FaceSet {
    /// Takes a network device, to make faces on with [`add_station`](Self::add_station). If it
    /// `accepts`, stations that have no face are reported as
    /// [`Progress::NewStation`](crate::Progress::NewStation).
    ///
    /// # Errors
    /// If there is such a port already, or the poller does not take the socket.
    pub fn add_port(
        &mut self,
        port: PortId,
        options: PortOptions,
    ) -> io::Result<Arc<ChannelCounters>> {
        let slot = port.0 as usize;
        if port.0 >= PortId::COUNT_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if self.ports.get(slot).is_some_and(Option::is_some) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if let Some(socket) = &options.socket {
            self.await_port(socket, port)?;
        }
        if slot >= self.ports.len() {
            self.ports.resize_with(slot + 1, || None);
        }
        let added = Box::new(Port::new(options));
        let counters = Arc::clone(&added.counters);
        self.ports[slot] = Some(added);
        Ok(counters)
    }

    /// Makes a face for a station behind a network device, or for the group that its socket has
    /// joined.
    ///
    /// # Errors
    /// If the slot of `index` is taken, there is no such port, or there is such a face on it.
    pub fn add_station(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        port: PortId,
        mac: [u8; 6],
        options: &FaceOptions,
    ) -> io::Result<Arc<FaceCounters>> {
        self.check_vacant(index)?;
        // One of another worker is gone: who asks knows that there is none.
        if self.station_face(port, mac).is_some_and(|known| self.contains(known)) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let behind = self.port_mut(port).ok_or(io::ErrorKind::NotFound)?;
        let is_up = behind.is_up;
        if is_group(mac) {
            behind.group = Some(index);
        } else {
            behind.stations.insert(mac, index);
            behind.own_count += 1;
        }
        let counters = self.insert(now, index, Transport::Ether { port, mac }, options);
        if !is_up {
            let change = FaceChange::Down(CloseReason::NoLink);
            self.events.push_back(FaceEvent { face: index, change });
        }
        Ok(counters)
    }

    /// The face of a station on a network device, such as the one that a created face would double. It may be known to
    /// be another worker's.
    #[must_use]
    pub fn station_face(&self, port: PortId, mac: [u8; 6]) -> Option<FaceIndex> {
        let port = self.ports.get(port.0 as usize)?.as_deref()?;
        if is_group(mac) { port.group } else { port.stations.get(&mac).copied() }
    }

    /// The name of a network device, if a station that nobody asked for may have a face on it.
    #[must_use]
    pub fn port_for_stranger(&self, port: PortId) -> Option<Arc<str>> {
        let port = self.ports.get(port.0 as usize)?.as_deref()?;
        port.has_room().then(|| Arc::clone(&port.name))
    }

    /// Frames can go out of a network device from now on, or no more. Its faces stay.
    pub fn set_port_state(&mut self, port: PortId, is_up: bool) {
        let Some(changed) = self.port_mut(port) else { return };
        if std::mem::replace(&mut changed.is_up, is_up) == is_up {
            return;
        }
        let change = if is_up { FaceChange::Up } else { FaceChange::Down(CloseReason::NoLink) };
        for face in self.faces_on(port) {
            self.events.push_back(FaceEvent { face, change });
        }
    }

    /// Waits for what a port's sockets bring.
    fn await_port(&self, socket: &PortSocket, port: PortId) -> io::Result<()> {
        let mut descriptors = socket.descriptors();
        descriptors.try_for_each(|one| self.poller.add(one, port_token(port), Interest::Readable))
    }

    /// Gives a port another socket: its device has another MTU or has come back. Without a socket,
    /// the device is gone: permanent faces of stations wait for it, others close.
    ///
    /// # Errors
    /// If there is no such port, or the poller does not take the socket.
    pub fn set_port_socket(
        &mut self,
        port: PortId,
        socket: Option<PortSocket>,
        pool: &PacketPool,
    ) -> io::Result<()> {
        let is_gone = socket.is_none();
        self.close_port_socket(port, pool)?;
        if let Some(socket) = socket {
            self.await_port(&socket, port)?;
            if let Some(changed) = self.port_mut(port) {
                changed.socket = Some(socket);
            }
        }
        if is_gone {
            self.close_impermanent(port, pool);
            self.set_port_state(port, false);
        }
        Ok(())
    }

    /// Takes the socket of a port away, whose faces wait for another one: a driver that has a device for
    /// itself gives it up, once [`take_unused_socket`](Self::take_unused_socket) is closed.
    ///
    /// # Errors
    /// If there is no such port.
    pub fn close_port_socket(&mut self, port: PortId, pool: &PacketPool) -> io::Result<()> {
        self.forget_pending_port(port);
        let changed = self.port_mut(port).ok_or(io::ErrorKind::NotFound)?;
        changed.queue.discard(pool);
        changed.reported = false;
        changed.waits_writable = false;
        let socket = changed.socket.take();
        self.retire(socket);
        Ok(())
    }

    /// A socket that is out of use, to be closed by whoever has time: the kernel waits until nobody looks at
    /// it any more, for tens of milliseconds where there are several queues.
    pub fn take_unused_socket(&mut self) -> Option<PortSocket> {
        self.unused_sockets.pop()
    }

    fn retire(&mut self, socket: Option<PortSocket>) {
        let Some(socket) = socket else { return };
        for descriptor in socket.descriptors() {
            // It was added when the port got it.
            let removed = self.poller.remove(descriptor);
            debug_assert!(removed.is_ok(), "the sockets of a port are in the poller");
        }
        self.unused_sockets.push(socket);
    }

    /// The device of a port has another address.
    pub fn set_port_mac(&mut self, port: PortId, mac: [u8; 6]) {
        if let Some(socket) = self.port_mut(port).and_then(|port| port.socket.as_mut()) {
            socket.set_mac(mac);
        }
    }

    fn close_impermanent(&mut self, port: PortId, pool: &PacketPool) {
        let Some(gone) = self.port_mut(port) else { return };
        let group = gone.group;
        for index in self.faces_on(port) {
            let face = face_in(&mut self.faces, index);
            let stays = face.is_some_and(|face| face.options.persistency == Persistency::Permanent);
            if !stays || group == Some(index) {
                self.close(index, CloseReason::InterfaceGone, pool);
            }
        }
    }

    /// Makes a port ask for faces of strangers or not, and closes the face of its group if that is
    /// another one now. Faces of stations stay.
    pub fn set_port_purpose(
        &mut self,
        port: PortId,
        accepts: bool,
        leaves_group: bool,
        pool: &PacketPool,
    ) {
        let Some(changed) = self.port_mut(port) else { return };
        changed.accepts = accepts;
        if let Some(group) = changed.group.take_if(|_| leaves_group)
            && self.contains(group)
        {
            self.close(group, CloseReason::InterfaceGone, pool);
        }
    }

    /// Gives up a network device and destroys its faces.
    pub fn remove_port(&mut self, port: PortId, pool: &PacketPool) {
        self.forget_pending_port(port);
        for index in self.faces_on(port) {
            self.close(index, CloseReason::InterfaceGone, pool);
        }
        if let Some(mut removed) = self.ports.get_mut(port.0 as usize).and_then(Option::take) {
            removed.queue.discard(pool);
            self.retire(removed.socket.take());
        }
    }

    /// A face on a port is destroyed.
    pub(super) fn leave_port(&mut self, port: PortId, mac: [u8; 6], index: FaceIndex) {
        let Some(port) = self.port_mut(port) else { return };
        if port.group == Some(index) {
            port.group = None;
        } else if port.stations.get(&mac) == Some(&index) {
            port.stations.remove(&mac);
            port.own_count -= 1;
        }
    }

    /// The faces on a port, but those of other workers.
    fn faces_on(&self, port: PortId) -> Vec<FaceIndex> {
        let port = self.ports.get(port.0 as usize).and_then(Option::as_deref);
        let mut faces = port.map(Port::faces).unwrap_or_default();
        faces.retain(|&face| self.contains(face));
        faces
    }

    pub(super) fn port_mut(&mut self, port: PortId) -> Option<&mut Port> {
        self.ports.get_mut(port.0 as usize)?.as_deref_mut()
    }
}
