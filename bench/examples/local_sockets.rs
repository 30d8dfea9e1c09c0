//! Packets between two threads over a Unix stream in large writes, and over `SOCK_SEQPACKET` in batches of
//! `sendmmsg` and `recvmmsg`: million packets per second and processor time of each end.
//!
//! `cargo run --release -p namewire-bench --example local_sockets`
#![expect(clippy::print_stdout, reason = "a program")]

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use ndn_sys::clock;
use ndn_sys::cpu::CpuTimes;
use ndn_sys::udp::{ReceiveBatch, SendBatch};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

/// Packets sent before the clock is read.
const PACKETS: usize = 2_000_000;
/// Packets of one write or one batch.
const BATCH: usize = 64;
const READ_BUFFER: usize = 256 * 1024;

/// What one way of sending took.
struct Figures {
    wall: Duration,
    sender: Duration,
    receiver: Duration,
}

fn main() -> io::Result<()> {
    for payload in [100, 1200, 8000] {
        let packets = if payload > 4000 { PACKETS / 8 } else { PACKETS };
        for _ in 0..3 {
            for (name, figures) in [
                ("stream", over(SocketType::STREAM, payload, packets)?),
                ("seqpacket", over(SocketType::SEQPACKET, payload, packets)?),
            ] {
                let per_packet = |time: Duration| time.as_secs_f64() * 1e9 / packets as f64;
                println!(
                    "{name:<9} {payload:>4} B: {:>5.2} M packets/s, sender {:>4.0} ns, receiver {:>4.0} ns",
                    packets as f64 / figures.wall.as_secs_f64() / 1e6,
                    per_packet(figures.sender),
                    per_packet(figures.receiver),
                );
            }
        }
    }
    Ok(())
}

fn over(kind: SocketType, length: usize, packets: usize) -> io::Result<Figures> {
    let (near, far) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    for socket in [&near, &far] {
        rustix::net::sockopt::set_socket_send_buffer_size(socket, 4 << 20)?;
    }
    let start = clock::now();
    std::thread::scope(|scope| {
        let sending = scope.spawn(move || send(kind, near, length, packets));
        let receiving = scope.spawn(move || receive(kind, far, length, packets));
        let ended = |_| io::Error::other("a thread has panicked");
        let sender = sending.join().map_err(ended)??;
        let receiver = receiving.join().map_err(ended)??;
        Ok(Figures { wall: Duration::from_nanos(clock::now() - start), sender, receiver })
    })
}

fn send(kind: SocketType, socket: OwnedFd, length: usize, packets: usize) -> io::Result<Duration> {
    let bytes = vec![0x5A; length * BATCH];
    if kind == SocketType::STREAM {
        let mut stream = std::os::unix::net::UnixStream::from(socket);
        for _ in 0..packets / BATCH {
            stream.write_all(&bytes)?;
        }
        return Ok(CpuTimes::of_thread()?.total());
    }
    let mut batch = SendBatch::with_capacity(BATCH, BATCH);
    let mut left = packets / BATCH * BATCH;
    while left > 0 {
        let mut builder = batch.start();
        for packet in bytes.chunks(length).take(left) {
            builder.push_slice(packet);
            builder.end_message(None, None);
        }
        match builder.send(socket.as_fd()) {
            Ok(sent) => left -= sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait(&socket, true)?,
            Err(error) => return Err(error),
        }
    }
    CpuTimes::of_thread().map(|times| times.total())
}

fn receive(
    kind: SocketType,
    socket: OwnedFd,
    length: usize,
    packets: usize,
) -> io::Result<Duration> {
    let mut left = packets / BATCH * BATCH * length;
    let mut buffers = vec![0; READ_BUFFER.max(BATCH * length)];
    let mut batch = ReceiveBatch::with_capacity(BATCH);
    while left > 0 {
        if kind == SocketType::STREAM {
            left -= rustix::io::read(&socket, &mut buffers[..READ_BUFFER])?;
            continue;
        }
        let pairs = buffers.chunks_mut(length).take(BATCH).map(|buffer| [buffer, &mut []]);
        match batch.receive(socket.as_fd(), pairs) {
            // What comes after the end has no length.
            Ok(count) => left -= (0..count).map(|one| batch.message(one).length).sum::<usize>(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait(&socket, false)?,
            Err(error) => return Err(error),
        }
    }
    CpuTimes::of_thread().map(|times| times.total())
}

fn wait(socket: &OwnedFd, to_write: bool) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};
    let flags = if to_write { PollFlags::OUT } else { PollFlags::IN };
    poll(&mut [PollFd::new(socket, flags)], None)?;
    Ok(())
}
