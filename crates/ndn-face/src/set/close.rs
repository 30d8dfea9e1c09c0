//! How faces end, and how permanent ones come back.

use ndn_ring::PacketPool;
use ndn_sys::poll::Interest;
use ndn_sys::stream;
use ndn_table::{FaceIndex, Timestamp};

use std::io;
use std::os::fd::AsFd;

use crate::datagram::ChannelId;
use crate::face::{Connection, Face, Transport};
use crate::memif::Rings;
use crate::reconnect::{Reconnect, ReconnectAction};
use crate::set::{FaceSet, face_in, token_of};
use crate::{CloseReason, FaceChange, FaceEvent, Persistency};

impl FaceSet {
    /// Destroys a face; `false` if there is none. What waits in its output queue is thrown away.
    pub fn remove(&mut self, index: FaceIndex, pool: &PacketPool) -> bool {
        if !self.contains(index) {
            return false;
        }
        let Some(mut face) = self.faces[index.slot() as usize].take() else { return false };
        face.link.close(&mut self.reassembly_budget);
        if let Some(deadline) = face.deadline.take() {
            self.deadlines.remove(&(deadline, index));
        }
        if let Some(input) = face.own_input {
            self.remove_channel(input, pool);
        }
        match &mut face.transport {
            // The poller forgets a descriptor that is closed.
            Transport::Stream(stream) => {
                if let Some(mut queue) = stream.output.take() {
                    queue.discard(pool, &mut self.output_budget);
                    self.spare_queues.put(queue);
                }
                if let Some(websocket) = &stream.websocket {
                    self.reassembly_budget.give_back(websocket.message.len());
                }
            }
            Transport::Datagram { channel, peer } => {
                let (id, peer) = (*channel, *peer);
                if let Some(channel) = self.channel_mut(id) {
                    if channel.owner == Some(index) {
                        self.remove_channel(id, pool);
                    } else if let Some(peer) = peer {
                        channel.peers.remove(&peer);
                    }
                }
            }
            Transport::Ether { port, mac } => {
                let (port, mac) = (*port, *mac);
                self.leave_port(port, mac, index);
            }
            Transport::Memif(memif) => memif.leave(&self.poller, &mut self.output_budget),
            Transport::Internal(end) => {
                let removed = self.poller.remove(end);
                debug_assert!(removed.is_ok(), "an internal face is in the poller");
            }
        }
        true
    }

    /// Closes a UDP socket and destroys its faces; returns them.
    pub fn remove_channel(&mut self, id: ChannelId, pool: &PacketPool) -> Vec<FaceIndex> {
        let Some(mut channel) = self.channels.get_mut(id.0 as usize).and_then(Option::take) else {
            return Vec::new();
        };
        self.shared_channels.retain(|other| *other != id);
        self.forget_pending(id, pool);
        channel.queue.discard(pool);
        let mut faces: Vec<_> = channel.peers.drain().map(|(_, face)| face).collect();
        faces.extend(channel.owner);
        faces.retain(|face| self.remove(*face, pool));
        faces
    }

    /// The stream of a face is of no use any more.
    pub(super) fn lose_connection(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        reason: CloseReason,
        pool: &PacketPool,
    ) {
        let Some(face) = face_in(&mut self.faces, index) else { return };
        let options = face.options;
        let remote = options.reconnect_to.filter(|_| options.persistency == Persistency::Permanent);
        let change = match (&mut face.transport, remote) {
            (Transport::Stream(stream), Some(remote)) => {
                stream.partial = Vec::new();
                if let Some(mut queue) = stream.output.take() {
                    queue.discard(pool, &mut self.output_budget);
                    self.spare_queues.put(queue);
                }
                let reconnect = Reconnect::new(now, remote, self.reconnect_waits);
                // Closes the old connection; the poller forgets it.
                stream.connection = Connection::Down { reconnect, attempt: None };
                self.arm(index);
                FaceChange::Down(reason)
            }
            (Transport::Memif(memif), _)
                if memif.server.is_some() && options.persistency == Persistency::Permanent =>
            {
                memif.leave(&self.poller, &mut self.output_budget);
                let reconnect = Reconnect::new(now, (), self.reconnect_waits);
                memif.rings = Rings::Waiting(reconnect);
                self.arm(index);
                FaceChange::Down(reason)
            }
            (_, _) => {
                self.remove(index, pool);
                FaceChange::Closed(reason)
            }
        };
        self.events.push_back(FaceEvent { face: index, change });
    }

    /// Closes a face for a reason of its own.
    pub(super) fn close(&mut self, index: FaceIndex, reason: CloseReason, pool: &PacketPool) {
        self.remove(index, pool);
        let change = FaceChange::Closed(reason);
        self.events.push_back(FaceEvent { face: index, change });
    }

    /// The time of a face without connection has come.
    pub(super) fn poll_reconnect(&mut self, now: Timestamp, index: FaceIndex) {
        let Some((reconnect, attempt)) = down(&mut self.faces, index) else { return };
        let failure = match reconnect.poll(now) {
            ReconnectAction::None => None,
            ReconnectAction::GiveUp => {
                *attempt = None;
                Some(io::ErrorKind::TimedOut)
            }
            ReconnectAction::Connect(remote) => {
                let started = stream::connect_tcp(remote).and_then(|started| {
                    self.poller.add(&started, token_of(index), Interest::Writable)?;
                    Ok(started)
                });
                match started {
                    Ok(started) => {
                        *attempt = Some(started);
                        None
                    }
                    Err(error) => {
                        reconnect.handle_failure(now);
                        Some(error.kind())
                    }
                }
            }
        };
        self.stays_down(index, failure);
    }

    /// Tells why a face without a connection has not got it back.
    fn stays_down(&mut self, face: FaceIndex, failure: Option<io::ErrorKind>) {
        if let Some(kind) = failure {
            let change = FaceChange::Down(CloseReason::Failed(kind));
            self.events.push_back(FaceEvent { face, change });
        }
    }

    /// An attempt to connect has ended.
    pub(super) fn handle_attempt(&mut self, now: Timestamp, index: FaceIndex) {
        let Some((reconnect, attempt)) = down(&mut self.faces, index) else { return };
        let Some(connected) = attempt.take() else { return };
        let result = stream::take_error(connected.as_fd())
            .and_then(|()| self.poller.modify(&connected, token_of(index), Interest::Readable));
        if let Err(error) = result {
            reconnect.handle_failure(now);
            self.stays_down(index, Some(error.kind()));
        } else if let Some(Face { transport: Transport::Stream(stream), .. }) =
            face_in(&mut self.faces, index)
        {
            stream.connection = Connection::Up(connected);
            self.events.push_back(FaceEvent { face: index, change: FaceChange::Up });
        }
        self.arm(index);
    }

    /// Returns the blocks that the set holds to `pool`, at the end of the worker. Packets that
    /// were received and not taken are lost.
    pub fn release_blocks(&mut self, pool: &PacketPool) {
        self.pending = None;
        if let Some(datagrams) = &mut self.datagrams {
            datagrams.release(pool);
        }
        for block in [self.stream_block.take(), self.copy_block.take()].into_iter().flatten() {
            pool.finish(block);
        }
    }
}

/// The reconnection of a face that is down.
fn down(
    faces: &mut [Option<Box<Face>>],
    index: FaceIndex,
) -> Option<(&mut Reconnect, &mut Option<std::os::fd::OwnedFd>)> {
    match &mut face_in(faces, index)?.transport {
        Transport::Stream(stream) => match &mut stream.connection {
            Connection::Down { reconnect, attempt } => Some((reconnect, attempt)),
            Connection::Up(_) => None,
        },
        Transport::Datagram { .. }
        | Transport::Ether { .. }
        | Transport::Memif(_)
        | Transport::Internal(_) => None,
    }
}
