//! Batches of packets over a connected UDP socket, one packet per datagram.

use std::cmp::Reverse;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;

use ndn_sys::udp::{
    MESSAGE_LENGTH_MAX, ReceiveBatch, SEGMENTS_MAX, SendBatch, SendBuilder, UdpSocket,
};

const MESSAGES_PER_CALL: usize = 32;
const SLICES_PER_CALL: usize = 1024;
const MESSAGE_BUFFER: usize = 65_536;

/// The receiving half.
#[derive(Debug)]
pub(super) struct DatagramInput {
    batch: ReceiveBatch,
    buffers: Vec<u8>,
}

impl Default for DatagramInput {
    fn default() -> Self {
        Self {
            batch: ReceiveBatch::with_capacity(MESSAGES_PER_CALL),
            buffers: vec![0; MESSAGES_PER_CALL * MESSAGE_BUFFER],
        }
    }
}

impl DatagramInput {
    /// Reads once and hands over every datagram; false when there was none.
    pub(super) fn receive(
        &mut self,
        socket: &UdpSocket,
        mut handle: impl FnMut(&[u8]),
    ) -> io::Result<bool> {
        let pairs = self.buffers.chunks_mut(MESSAGE_BUFFER).map(|buffer| [buffer, &mut []]);
        let count = match self.batch.receive(socket.as_fd(), pairs) {
            Ok(count) => count,
            Err(error) if is_passing(&error) => return Ok(false),
            Err(error) => return Err(error),
        };
        for (index, buffer) in self.buffers.chunks(MESSAGE_BUFFER).take(count).enumerate() {
            let message = self.batch.message(index);
            let segment = message.segment_length.unwrap_or(message.length).max(1);
            buffer[..message.length].chunks(segment).for_each(&mut handle);
        }
        Ok(count > 0)
    }
}

/// No datagram now, or word that one of ours found no socket: a program that is just starting.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionRefused)
}

/// The sending half: packets that wait, and where they lie.
#[derive(Debug)]
pub(super) struct DatagramOutput {
    bytes: Vec<u8>,
    packets: Vec<Range<usize>>,
    /// Packets differ in length.
    mixed: bool,
    batch: SendBatch,
    /// The last packet of each message of a system call.
    runs: Vec<usize>,
}

impl Default for DatagramOutput {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            packets: Vec::new(),
            mixed: false,
            batch: SendBatch::with_capacity(MESSAGES_PER_CALL, SLICES_PER_CALL),
            runs: Vec::with_capacity(MESSAGES_PER_CALL),
        }
    }
}

impl DatagramOutput {
    /// Queues the packet that `write` appends.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        let packet = start..self.bytes.len();
        self.mixed |= self.packets.first().is_some_and(|first| first.len() != packet.len());
        self.packets.push(packet);
    }

    /// Bytes waiting to be sent.
    pub(super) fn backlog(&self) -> usize {
        self.packets.first().map_or(0, |first| self.bytes.len() - first.start)
    }

    /// Sends runs of packets of one length as one message each, for the kernel to cut up; true
    /// when nothing is left. As a forwarder may, it makes neighbours of packets of one length.
    pub(super) fn flush(&mut self, socket: &UdpSocket, calls: &mut u64) -> io::Result<bool> {
        if self.mixed {
            self.packets.sort_unstable_by_key(|packet| (Reverse(packet.len()), packet.start));
        }
        let mut next = 0;
        while next < self.packets.len() {
            let mut builder = self.batch.start();
            self.runs.clear();
            plan(&self.bytes, &self.packets, next, socket, &mut builder, &mut self.runs);
            *calls += 1;
            match builder.send(socket.as_fd()) {
                Ok(0) => break,
                Ok(sent) => next = self.runs[sent - 1],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        self.keep_from(next);
        Ok(self.packets.is_empty())
    }

    /// Forgets the packets before `next`.
    fn keep_from(&mut self, next: usize) {
        let mut rest = Vec::new();
        for packet in &mut self.packets[next..] {
            let start = rest.len();
            rest.extend_from_slice(&self.bytes[packet.clone()]);
            *packet = start..rest.len();
        }
        self.packets.drain(..next);
        if self.packets.is_empty() {
            self.bytes.clear();
            self.mixed = false;
        } else {
            self.bytes = rest;
        }
    }
}

/// Lays out the messages of one system call from packet `next` on, and where each ends.
fn plan<'d>(
    bytes: &'d [u8],
    packets: &[Range<usize>],
    mut next: usize,
    socket: &UdpSocket,
    builder: &mut SendBuilder<'_, 'd>,
    runs: &mut Vec<usize>,
) {
    while let Some(first) = packets.get(next) {
        let length = first.len();
        let most = if socket.can_segment() {
            SEGMENTS_MAX.min(MESSAGE_LENGTH_MAX / length.max(1)).max(1)
        } else {
            1
        };
        let equal = packets[next..].iter().take(most).take_while(|one| one.len() == length);
        let mut end = next + equal.count();
        // The last datagram of a message may be shorter.
        if end - next < most && packets.get(end).is_some_and(|one| one.len() < length) {
            end += 1;
        }
        if !builder.has_room(end - next) {
            return;
        }
        let mut joined = first.clone();
        for packet in &packets[next + 1..end] {
            if packet.start != joined.end {
                builder.push_slice(&bytes[joined]);
                joined = packet.clone();
            }
            joined.end = packet.end;
        }
        builder.push_slice(&bytes[joined]);
        let segment = (end - next > 1).then(|| u16::try_from(length).unwrap_or(0));
        builder.end_message(None, segment);
        runs.push(end);
        next = end;
    }
}
