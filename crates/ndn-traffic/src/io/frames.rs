//! Batches of packets in Ethernet frames to and from one station, one packet per frame.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;

use ndn_packet::tlv::frame_len;
use ndn_sys::packet::{LinkAddress, PacketSocket};
use ndn_sys::udp::SendBatch;

const FRAMES_PER_CALL: usize = 256;
/// Maximum number of frames taken from the ring at a time.
const FRAMES_PER_TURN: usize = 1024;

/// Minimum payload of an Ethernet frame. Virtual devices carry shorter ones, but NFD rejects them.
const PAYLOAD_MIN: usize = 46;
const PADDING: [u8; PAYLOAD_MIN] = [0; PAYLOAD_MIN];

/// Passes on received frames; returns false when there was none. Frames that do not begin with a
/// whole packet, and padding, are skipped.
pub(super) fn receive(socket: &mut PacketSocket, mut handle: impl FnMut(&[u8])) -> bool {
    let mut count = 0;
    while count < FRAMES_PER_TURN {
        let Some(frame) = socket.peek() else { break };
        if let Ok(Some(length)) = frame_len(frame.payload)
            && let Some(packet) = frame.payload.get(..length)
        {
            handle(packet);
        }
        socket.release();
        count += 1;
    }
    count > 0
}

/// The sending half: queued packets and their lengths.
#[derive(Debug)]
pub(super) struct FrameOutput {
    bytes: Vec<u8>,
    /// Bytes before this one have been sent.
    sent: usize,
    lengths: VecDeque<usize>,
    batch: SendBatch,
    to: LinkAddress,
}

impl FrameOutput {
    pub(super) fn new(to: LinkAddress) -> Self {
        Self {
            bytes: Vec::new(),
            sent: 0,
            lengths: VecDeque::new(),
            batch: SendBatch::with_capacity(FRAMES_PER_CALL, 2 * FRAMES_PER_CALL),
            to,
        }
    }

    /// Queues the packet that `write` appends; returns its length.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        let start = self.bytes.len();
        write(&mut self.bytes);
        let length = self.bytes.len() - start;
        self.lengths.push_back(length);
        length
    }

    /// Removes the packet queued last.
    pub(super) fn take_last(&mut self) -> Vec<u8> {
        let length = self.lengths.pop_back().unwrap_or(0);
        self.bytes.split_off(self.bytes.len() - length)
    }

    /// Bytes waiting to be sent.
    pub(super) fn backlog(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Sends what the device accepts; returns true when nothing is left.
    pub(super) fn flush(&mut self, socket: &PacketSocket, calls: &mut u64) -> io::Result<bool> {
        while !self.lengths.is_empty() {
            let mut builder = self.batch.start();
            let mut at = self.sent;
            for &length in self.lengths.iter().take(FRAMES_PER_CALL) {
                builder.push_slice(&self.bytes[at..at + length]);
                if length < PAYLOAD_MIN {
                    builder.push_slice(&PADDING[length..]);
                }
                builder.end_frame(&self.to);
                at += length;
            }
            *calls += 1;
            let sent = match builder.send(socket.as_fd()) {
                Ok(sent) => sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The queue of the device is full: the frame is lost, as on any link.
                Err(error) if error.raw_os_error() == Some(NO_BUFFERS) => 1,
                Err(error) => return Err(error),
            };
            self.sent += self.lengths.drain(..sent).sum::<usize>();
        }
        if self.lengths.is_empty() {
            self.bytes.clear();
            self.sent = 0;
        } else if self.sent >= self.bytes.len() / 2 {
            // Each byte moves at most once.
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
        Ok(self.lengths.is_empty())
    }
}

/// `ENOBUFS`.
const NO_BUFFERS: i32 = rustix::io::Errno::NOBUFS.raw_os_error();
