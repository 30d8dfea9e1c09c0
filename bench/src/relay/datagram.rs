//! Batches of packets over a connected UDP socket, one packet per datagram.

use std::io;

use ndn_sys::udp::{MESSAGE_LENGTH_MAX, ReceiveBatch, SEGMENTS_MAX, SendBatch, UdpSocket};
use std::os::fd::AsFd;

const MESSAGES_PER_CALL: usize = 32;
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

/// The sending half: packets that wait, and where they end.
#[derive(Debug)]
pub(super) struct DatagramOutput {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    batch: SendBatch,
}

impl Default for DatagramOutput {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            ends: Vec::new(),
            batch: SendBatch::with_capacity(MESSAGES_PER_CALL, MESSAGES_PER_CALL),
        }
    }
}

impl DatagramOutput {
    /// Queues the packet that `write` appends.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// Bytes waiting to be sent.
    pub(super) fn backlog(&self) -> usize {
        self.bytes.len()
    }

    /// Sends runs of packets of one length as one message each, for the kernel to cut up; true
    /// when nothing is left.
    pub(super) fn flush(&mut self, socket: &UdpSocket) -> io::Result<bool> {
        let (mut start, mut next) = (0, 0);
        while next < self.ends.len() {
            let mut builder = self.batch.start();
            let mut runs = Vec::with_capacity(MESSAGES_PER_CALL);
            let (mut run_start, mut at) = (start, next);
            while at < self.ends.len() && builder.has_room(1) {
                let length = self.ends[at] - run_start;
                let most = if socket.can_segment() {
                    SEGMENTS_MAX.min(MESSAGE_LENGTH_MAX / length.max(1)).max(1)
                } else {
                    1
                };
                let run_first = at;
                let mut end = self.ends[at];
                at += 1;
                while at < self.ends.len() && at - run_first < most && self.ends[at] - end == length
                {
                    end = self.ends[at];
                    at += 1;
                }
                builder.push_slice(&self.bytes[run_start..end]);
                let segment = (at - run_first > 1).then(|| u16::try_from(length).unwrap_or(0));
                builder.end_message(None, segment);
                runs.push((at, end));
                run_start = end;
            }
            match builder.send(socket.as_fd()) {
                Ok(0) => break,
                Ok(sent) => (next, start) = runs[sent - 1],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        self.bytes.drain(..start);
        self.ends.drain(..next);
        for end in &mut self.ends {
            *end -= start;
        }
        Ok(self.ends.is_empty())
    }
}
