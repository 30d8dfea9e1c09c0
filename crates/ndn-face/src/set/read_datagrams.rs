//! Receiving from UDP sockets.

use std::io;

use ndn_ring::PacketPool;
use ndn_table::Timestamp;

use crate::datagram::{ChannelId, DatagramInput, Opened};
use crate::link::Sender;
use crate::set::receive::{Origin, Pending, Progress, RxSink, Waited};
use crate::set::{FaceSet, face_in};

impl FaceSet {
    /// Receives from a UDP socket: once, and again while there is much, until that is enough.
    pub(super) fn read_channel(
        &mut self,
        now: Timestamp,
        id: ChannelId,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) -> Progress {
        let Some(mut input) = self.datagrams.take() else { return Progress::Done };
        input.begin_event(self.datagrams_per_event);
        let received = self.receive(now, id, &mut input, pool);
        self.datagrams = Some(input);
        if received == Progress::Done && self.pending.is_some() {
            return self.take_datagrams(now, id, pool, sink);
        }
        received
    }

    /// One system call. What it brings is pending then.
    fn receive(
        &mut self,
        now: Timestamp,
        id: ChannelId,
        input: &mut DatagramInput,
        pool: &PacketPool,
    ) -> Progress {
        let Some(channel) = self.channels.get_mut(id.0 as usize).and_then(Option::as_deref_mut)
        else {
            return Progress::Done;
        };
        self.calls.receive_calls.increment();
        match input.receive(channel, pool) {
            Ok(true) => {
                self.pending = Some(Pending::Datagrams(id));
                self.has_more = input.has_more();
                self.emptied = (!self.has_more).then_some(id);
                channel.standing.watch(now, !self.has_more, &channel.socket);
            }
            Ok(false) => return Progress::NoBlock,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.has_more = false;
                self.emptied = Some(id);
                channel.standing.watch(now, true, &channel.socket);
            }
            Err(_) => channel.counters.receive_errors.increment(),
        }
        Progress::Done
    }

    /// Takes datagrams out of what was received.
    pub(super) fn take_datagrams(
        &mut self,
        now: Timestamp,
        id: ChannelId,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) -> Progress {
        let Some(mut input) = self.datagrams.take() else { return Progress::Done };
        let progress = loop {
            if input.is_done() {
                self.pending = None;
                if !input.reads_on() {
                    break Progress::Done;
                }
                let received = self.receive(now, id, &mut input, pool);
                if self.pending.is_none() {
                    break received;
                }
            }
            let progress = self.take_message(now, id, &mut input, pool, sink);
            if progress != Progress::Done {
                break progress;
            }
        };
        self.datagrams = Some(input);
        progress
    }

    /// Takes the datagrams of one message.
    fn take_message(
        &mut self,
        now: Timestamp,
        id: ChannelId,
        input: &mut DatagramInput,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) -> Progress {
        if input.current().is_none() {
            let Some(channel) = self.channels.get_mut(id.0 as usize).and_then(Option::as_deref_mut)
            else {
                input.close();
                return Progress::Done;
            };
            if let Some(count) = input.kernel_count() {
                let new_drops = channel.count_drops(count);
                self.calls.socket_drops(channel.owner.is_some()).add(new_drops);
                self.heard.drops += new_drops;
            }
            let opened = input.open(channel, pool);
            self.heard.datagrams = input.taken();
            match opened {
                Opened::Nothing => return Progress::Done,
                Opened::Stranger(peer) => {
                    return Progress::NewPeer { channel: id, local: channel.local, peer };
                }
                Opened::Message(index, waited) => {
                    self.waited = waited.map(|waited| Waited {
                        channel: id,
                        since: Timestamp::from_nanos(now.as_nanos().saturating_sub(waited)),
                    });
                    if let Some(face) = face_in(&mut self.faces, index) {
                        face.link.counters().last_received_ns.set(now.as_nanos());
                    }
                }
            }
        }
        let Some((message, block)) = input.current() else { return Progress::Done };
        let sender = message.sender.map(Sender::Internet);
        let origin = Origin { face: message.face, sender };
        loop {
            let length = message.segment_length.min(block.filled().len());
            if length == 0 {
                break;
            }
            if sink.is_full() {
                return Progress::SinkFull;
            }
            self.calls.received_frames.increment();
            self.calls.received_bytes.add(length as u64);
            if !self.deliver(now, origin, block, length, pool, sink) {
                break;
            }
        }
        input.close();
        Progress::Done
    }
}
