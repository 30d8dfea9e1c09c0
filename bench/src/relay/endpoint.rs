//! One socket of the generator or of the dumb relay: batches of packets in and out.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ndn_sys::udp::{UdpOptions, UdpSocket};
use rustix::io::Errno;

use super::datagram::{DatagramInput, DatagramOutput};
use super::statistics::Calls;
use super::wire::split_tlv;

const READ_BUFFER: usize = 256 * 1024;

/// A connected, non-blocking stream or datagram socket.
#[derive(Debug)]
pub(super) struct Endpoint {
    socket: Socket,
    input: Input,
    output: Output,
    calls: Calls,
}

#[derive(Debug)]
enum Socket {
    Stream(OwnedFd),
    Datagram(UdpSocket),
}

/// The receiving half.
#[derive(Debug)]
enum Input {
    Stream { buffer: Vec<u8>, filled: usize },
    Datagram(DatagramInput),
}

/// The sending half: packets queued since the last flush.
#[derive(Debug)]
pub(super) enum Output {
    /// Unix or TCP: one run of bytes.
    Stream { bytes: Vec<u8>, sent: usize },
    /// UDP: bytes and where each packet ends.
    Datagram(DatagramOutput),
}

impl Endpoint {
    /// Takes over a connected stream socket.
    pub(super) fn stream(socket: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Self {
            socket: Socket::Stream(socket),
            input: Input::Stream { buffer: vec![0; READ_BUFFER], filled: 0 },
            output: Output::Stream { bytes: Vec::with_capacity(READ_BUFFER), sent: 0 },
            calls: Calls::default(),
        })
    }

    /// A UDP socket between two ports of the loopback interface.
    pub(super) fn datagram(local_port: u16, remote_port: u16) -> io::Result<Self> {
        let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let socket = UdpSocket::new(&UdpOptions {
            remote: Some(loopback(remote_port)),
            ..UdpOptions::bound_to(loopback(local_port))
        })?;
        Ok(Self {
            socket: Socket::Datagram(socket),
            input: Input::Datagram(DatagramInput::default()),
            output: Output::Datagram(DatagramOutput::default()),
            calls: Calls::default(),
        })
    }

    /// Queues one packet that `write` appends.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.calls.sent_frames += 1;
        self.output.push(write);
    }

    /// System calls so far, and packets: those given to [`push`](Self::push) count as sent.
    pub(super) fn calls(&self) -> Calls {
        self.calls
    }

    /// Sends what it can; true when nothing is left.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        let calls = &mut self.calls.send_calls;
        match (&self.socket, &mut self.output) {
            (Socket::Stream(socket), Output::Stream { bytes, sent }) => {
                flush_stream(socket, bytes, sent, calls)
            }
            (Socket::Datagram(socket), Output::Datagram(output)) => output.flush(socket, calls),
            _ => unreachable!("both halves are of the socket's kind"),
        }
    }

    /// Reads once and hands over every whole packet and the sending half; false when there was
    /// nothing to read.
    pub(super) fn receive(
        &mut self,
        mut handle: impl FnMut(&[u8], &mut Output),
    ) -> io::Result<bool> {
        let output = &mut self.output;
        self.calls.receive_calls += 1;
        let frames = &mut self.calls.received_frames;
        let mut handle = |packet: &[u8]| {
            *frames += 1;
            handle(packet, output);
        };
        match (&self.socket, &mut self.input) {
            (Socket::Stream(socket), Input::Stream { buffer, filled }) => {
                receive_stream(socket, buffer, filled, &mut handle)
            }
            (Socket::Datagram(socket), Input::Datagram(input)) => {
                input.receive(socket, &mut handle)
            }
            _ => unreachable!("both halves are of the socket's kind"),
        }
    }

    /// Bytes waiting to be sent.
    pub(super) fn backlog(&self) -> usize {
        match &self.output {
            Output::Stream { bytes, sent } => bytes.len() - sent,
            Output::Datagram(output) => output.backlog(),
        }
    }

    /// The socket, to wait on.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Stream(socket) => socket.as_fd(),
            Socket::Datagram(socket) => socket.as_fd(),
        }
    }
}

impl Output {
    /// Queues one packet that `write` appends.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        match self {
            Self::Stream { bytes, .. } => write(bytes),
            Self::Datagram(output) => output.push(write),
        }
    }
}

fn flush_stream(
    socket: &OwnedFd,
    bytes: &mut Vec<u8>,
    sent: &mut usize,
    calls: &mut u64,
) -> io::Result<bool> {
    while *sent < bytes.len() {
        *calls += 1;
        match rustix::io::write(socket, &bytes[*sent..]) {
            Ok(count) => *sent += count,
            Err(Errno::AGAIN) => {
                bytes.drain(..*sent);
                *sent = 0;
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        }
    }
    bytes.clear();
    *sent = 0;
    Ok(true)
}

fn receive_stream(
    socket: &OwnedFd,
    buffer: &mut [u8],
    filled: &mut usize,
    mut handle: impl FnMut(&[u8]),
) -> io::Result<bool> {
    let count = match rustix::io::read(socket, &mut buffer[*filled..]) {
        Ok(0) => {
            let reason = "the forwarder closed the connection";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, reason));
        }
        Ok(count) => count,
        Err(Errno::AGAIN) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    *filled += count;
    let mut at = 0;
    while let Some((_, _, length)) = split_tlv(&buffer[at..*filled]) {
        handle(&buffer[at..at + length]);
        at += length;
    }
    buffer.copy_within(at..*filled, 0);
    *filled -= at;
    Ok(true)
}
