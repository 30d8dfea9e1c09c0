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
    /// Messages dropped by the kernel because they were not read in time.
    drops: u32,
}

impl Default for DatagramInput {
    fn default() -> Self {
        Self {
            batch: ReceiveBatch::with_capacity(MESSAGES_PER_CALL),
            buffers: vec![0; MESSAGES_PER_CALL * MESSAGE_BUFFER],
            drops: 0,
        }
    }
}

impl DatagramInput {
    /// Number of messages dropped by the kernel because they were not read in time.
    pub(super) fn drops(&self) -> u32 {
        self.drops
    }

    /// Reads once and passes on every datagram; returns false when there was none.
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
            self.drops = message.dropped.unwrap_or(self.drops);
            let segment = message.segment_length.unwrap_or(message.length).max(1);
            buffer[..message.length].chunks(segment).for_each(&mut handle);
        }
        Ok(count > 0)
    }
}

/// No datagram now, or an ICMP error about an earlier one: the other program is just starting.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionRefused)
}

/// The sending half: queued packets.
#[derive(Debug)]
pub(super) struct DatagramOutput {
    bytes: Vec<u8>,
    packets: Vec<Range<usize>>,
    /// Packets before this one have been sent.
    first: usize,
    /// Bytes of the others.
    backlog: usize,
    /// Packets differ in length.
    mixed: bool,
    /// Maximum number of packets per message (GSO).
    run_max: usize,
    batch: SendBatch,
    /// The last packet of each message of a system call.
    runs: Vec<usize>,
    /// The second of two buffers: unsent packets move there.
    spare: Vec<u8>,
}

impl Default for DatagramOutput {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            packets: Vec::new(),
            first: 0,
            backlog: 0,
            mixed: false,
            run_max: SEGMENTS_MAX,
            batch: SendBatch::with_capacity(MESSAGES_PER_CALL, SLICES_PER_CALL),
            runs: Vec::with_capacity(MESSAGES_PER_CALL),
            spare: Vec::new(),
        }
    }
}

impl DatagramOutput {
    /// Sets the maximum number of packets per message (GSO).
    pub(super) fn set_run_max(&mut self, packets: usize) {
        self.run_max = packets.clamp(1, SEGMENTS_MAX);
    }

    /// Queues the packet that `write` appends; returns its length.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        let start = self.bytes.len();
        write(&mut self.bytes);
        let packet = start..self.bytes.len();
        let length = packet.len();
        self.backlog += length;
        self.mixed |= self.packets.first().is_some_and(|first| first.len() != length);
        self.packets.push(packet);
        length
    }

    /// Removes the packet queued last.
    pub(super) fn take_last(&mut self) -> Vec<u8> {
        let Some(packet) = self.packets.pop() else { return Vec::new() };
        self.backlog -= packet.len();
        self.bytes.split_off(packet.start)
    }

    /// Bytes waiting to be sent.
    pub(super) fn backlog(&self) -> usize {
        self.backlog
    }

    /// Sends runs of packets of one length as one message each, to be segmented by the kernel
    /// (GSO); returns true when nothing is left. Like a forwarder, it may reorder packets to make
    /// runs of one length.
    pub(super) fn flush(&mut self, socket: &UdpSocket, calls: &mut u64) -> io::Result<bool> {
        if self.mixed {
            self.packets[self.first..]
                .sort_unstable_by_key(|packet| (Reverse(packet.len()), packet.start));
        }
        let begin = self.first;
        while self.first < self.packets.len() {
            let Self { bytes, packets, first, batch, runs, run_max, .. } = self;
            let mut builder = batch.start();
            runs.clear();
            let run_max = if socket.can_segment() { *run_max } else { 1 };
            plan(bytes, packets, *first, run_max, &mut builder, runs);
            *calls += 1;
            match builder.send(socket.as_fd()) {
                Ok(0) => break,
                Ok(sent) => *first = runs[sent - 1],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        self.backlog -= self.packets[begin..self.first].iter().map(Range::len).sum::<usize>();
        self.forget_sent();
        Ok(self.packets.is_empty())
    }

    /// Releases the space of sent packets once it is the larger part: each byte moves at most once,
    /// however often the socket blocks.
    fn forget_sent(&mut self) {
        if self.first == self.packets.len() {
            self.packets.clear();
            self.bytes.clear();
            self.mixed = false;
        } else if self.backlog <= self.bytes.len() / 2 {
            self.spare.clear();
            self.packets.drain(..self.first);
            for packet in &mut self.packets {
                let start = self.spare.len();
                self.spare.extend_from_slice(&self.bytes[packet.clone()]);
                *packet = start..self.spare.len();
            }
            std::mem::swap(&mut self.bytes, &mut self.spare);
        } else {
            return;
        }
        self.first = 0;
    }
}

/// Lays out the messages of one system call from packet `next` on, and their ends.
fn plan<'d>(
    bytes: &'d [u8],
    packets: &[Range<usize>],
    mut next: usize,
    run_max: usize,
    builder: &mut SendBuilder<'_, 'd>,
    runs: &mut Vec<usize>,
) {
    while let Some(first) = packets.get(next) {
        let length = first.len();
        let most = run_max.min(MESSAGE_LENGTH_MAX / length.max(1)).max(1);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Unsent bytes are preserved, whatever was sent before them, and each moves at most once.
    #[test]
    fn unsent_bytes_are_preserved() {
        let mut output = DatagramOutput::default();
        let mut model = std::collections::VecDeque::new();
        for step in 0..2000_usize {
            let packet = vec![u8::try_from(step % 251).unwrap(); 1 + step % 7];
            output.push(|out| out.extend_from_slice(&packet));
            model.push_back(packet);
            if step % 3 > 0 && step % 400 > 200 {
                for _ in 0..step % 5 {
                    let Some(gone) = model.pop_front() else { break };
                    output.first += 1;
                    output.backlog -= gone.len();
                }
                output.forget_sent();
            }
            let left = output.packets[output.first..].iter();
            let left: Vec<_> = left.map(|one| output.bytes[one.clone()].to_vec()).collect();
            assert!(left.iter().eq(model.iter()));
            assert_eq!(output.backlog(), model.iter().map(Vec::len).sum::<usize>());
            assert!(output.bytes.len() <= 2 * output.backlog() + 7 || step % 400 <= 200);
        }
    }
}
