//! Answers of the server that take time or turn the connection into a stream.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufWriter, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use ndn_types::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::capture::{CaptureFilter, CapturedPacket, CapturedPeer, PcapngWriter};
use crate::log_feed::{LogLine, LogStream};
use crate::packet_trace::{PacketTraceStream, TraceLine};
use crate::protocol::Response;
use crate::service_times::{ServiceTimesReport, ServiceTimesStream};

/// Maximum time that captured packets stay in a buffer.
const CAPTURE_FLUSH: Duration = Duration::from_millis(200);
/// Maximum number of packets or messages that are sent after the client has closed its sending side.
const LATE_PACKETS_MAX: usize = 8192;
/// Maximum duration of a service time measurement: one hour.
const TRACE_MS_MAX: u64 = 3_600_000;
/// Poll interval for a closed connection during a measurement.
const PAUSE_STEP: Duration = Duration::from_millis(100);

/// Writes an answer over time. Further requests may follow, unless it breaks.
type WriteResponse = dyn FnOnce(&UnixStream) -> io::Result<ControlFlow<()>>;

/// The answer to a request.
pub(crate) enum ResponseBody {
    /// A result.
    Result(Value),
    /// A result that takes time, or a stream.
    Stream(Box<WriteResponse>),
}

impl ResponseBody {
    pub(crate) fn result(result: impl Serialize) -> Result<Self, String> {
        serde_json::to_value(result).map(Self::Result).map_err(|error| error.to_string())
    }

    /// An answer over time whose result has type `R`.
    pub(crate) fn stream<R: Serialize>(stream: impl ResponseStream<Result = R> + 'static) -> Self {
        Self::Stream(Box::new(move |connection| {
            let Some(result) = stream.result(connection)? else {
                return Ok(ControlFlow::Break(()));
            };
            respond(connection, &Response::Result(serde_json::to_value(result)?))?;
            stream.write(connection)
        }))
    }
}

/// An answer that the server writes over time. Dropping it ends what it measures.
pub(crate) trait ResponseStream {
    /// The type of its result.
    type Result: Serialize;

    /// Waits for the result; `None` if the client closes the connection before.
    fn result(&self, connection: &UnixStream) -> io::Result<Option<Self::Result>>;

    /// Writes what follows the result.
    fn write(&self, connection: &UnixStream) -> io::Result<ControlFlow<()>>;
}

/// An active capture.
pub struct CaptureStream {
    /// The packets to capture.
    pub filter: CaptureFilter,
    /// Returns the next packet in capture order; waits for it for this time.
    pub packets: Box<dyn Fn(Duration) -> Result<CapturedPacket, RecvTimeoutError> + Send>,
    /// Returns the peer of a face.
    pub peers: Box<dyn Fn(u64) -> Option<CapturedPeer> + Send>,
    /// Returns the number of packets dropped because the stream was full.
    pub dropped: Box<dyn Fn() -> u64 + Send>,
}

impl fmt::Debug for CaptureStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CaptureStream")
            .field("dropped", &(self.dropped)())
            .finish_non_exhaustive()
    }
}

impl ResponseStream for ServiceTimesStream {
    type Result = ServiceTimesReport;

    fn result(&self, connection: &UnixStream) -> io::Result<Option<ServiceTimesReport>> {
        let is_over = pause(connection, self.milliseconds.min(TRACE_MS_MAX))?;
        Ok(is_over.then(|| self.trace.report()))
    }

    fn write(&self, _: &UnixStream) -> io::Result<ControlFlow<()>> {
        Ok(ControlFlow::Continue(()))
    }
}

impl ResponseStream for CaptureStream {
    type Result = ();

    fn result(&self, _: &UnixStream) -> io::Result<Option<()>> {
        Ok(Some(()))
    }

    fn write(&self, connection: &UnixStream) -> io::Result<ControlFlow<()>> {
        write_capture(connection, self)?;
        Ok(ControlFlow::Break(()))
    }
}

impl ResponseStream for PacketTraceStream {
    type Result = ();

    fn result(&self, _: &UnixStream) -> io::Result<Option<()>> {
        Ok(Some(()))
    }

    fn write(&self, connection: &UnixStream) -> io::Result<ControlFlow<()>> {
        let forms = (TraceLine::Packet, TraceLine::Lost);
        write_lines(connection, |timeout| (self.packets)(timeout), || (self.lost)(), forms)?;
        Ok(ControlFlow::Break(()))
    }
}

impl ResponseStream for LogStream {
    type Result = ();

    fn result(&self, _: &UnixStream) -> io::Result<Option<()>> {
        Ok(Some(()))
    }

    fn write(&self, connection: &UnixStream) -> io::Result<ControlFlow<()>> {
        let forms = (LogLine::Message, LogLine::Lost);
        write_lines(connection, |timeout| self.next(timeout), || self.lost(), forms)?;
        Ok(ControlFlow::Break(()))
    }
}

pub(crate) fn respond(mut stream: &UnixStream, response: &Response) -> io::Result<()> {
    let mut line = serde_json::to_vec(response)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// The peer of a face, which is asked for once.
fn peer_of<'n>(
    capture: &CaptureStream,
    face_id: u64,
    named: &'n mut HashMap<u64, CapturedPeer>,
) -> &'n CapturedPeer {
    let name = || (capture.peers)(face_id).unwrap_or_else(|| format!("face {face_id}").into());
    named.entry(face_id).or_insert_with(name)
}

/// The monotonic clock of the kernel. The threads of the control socket wait for the kernel, whatever clock the
/// forwarder has.
#[expect(clippy::disallowed_methods, reason = "threads that wait for the kernel in real time")]
pub(crate) fn real_time() -> Timestamp {
    Timestamp::from_nanos(ndn_sys::clock::now())
}

/// Sends packets until the client closes its side or the forwarder ends the stream.
fn write_capture(stream: &UnixStream, capture: &CaptureStream) -> io::Result<()> {
    let filter = &capture.filter;
    stream.set_nonblocking(false)?;
    let mut writer = PcapngWriter::new(BufWriter::new(stream), filter.snap_len)?;
    let mut named = HashMap::new();
    if let Some(face_id) = filter.face_id {
        writer.describe_face(face_id, peer_of(capture, face_id, &mut named))?;
    }
    writer.flush()?;
    let (mut last_ns, mut checked) = (0, real_time());
    loop {
        match (capture.packets)(CAPTURE_FLUSH) {
            Ok(packet) => {
                last_ns = packet.unix_ns;
                writer.write(&packet, peer_of(capture, packet.face_id, &mut named))?;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        // By time, so that a capture without pauses ends too.
        let now = real_time();
        if now - checked >= CAPTURE_FLUSH {
            checked = now;
            writer.flush()?;
            if peer_has_closed(stream)? {
                break;
            }
        }
    }
    // Packets captured before the client closed its sending side are still sent.
    let late = std::iter::from_fn(|| (capture.packets)(Duration::ZERO).ok());
    for packet in late.take(LATE_PACKETS_MAX) {
        last_ns = packet.unix_ns;
        writer.write(&packet, peer_of(capture, packet.face_id, &mut named))?;
    }
    writer.write_dropped(last_ns, (capture.dropped)())?;
    writer.flush()
}

/// Sends items, one JSON object per line, until the client closes its side or the forwarder ends the stream. The number
/// of lost items follows whenever it has grown.
fn write_lines<T, L: Serialize>(
    stream: &UnixStream,
    next: impl Fn(Duration) -> Result<T, RecvTimeoutError>,
    lost_so_far: impl Fn() -> u64,
    (of_item, of_lost): (impl Fn(T) -> L, impl Fn(u64) -> L),
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let mut writer = BufWriter::new(stream);
    let (mut reported, mut checked) = (0, real_time());
    let mut is_open = true;
    while is_open {
        match next(CAPTURE_FLUSH) {
            Ok(item) => write_line(&mut writer, &of_item(item))?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => is_open = false,
        }
        let now = real_time();
        if is_open && now - checked < CAPTURE_FLUSH {
            continue;
        }
        checked = now;
        let lost = lost_so_far();
        if lost > reported {
            reported = lost;
            write_line(&mut writer, &of_lost(lost))?;
        }
        writer.flush()?;
        is_open = is_open && !peer_has_closed(stream)?;
    }
    let late = std::iter::from_fn(|| next(Duration::ZERO).ok());
    for item in late.take(LATE_PACKETS_MAX) {
        write_line(&mut writer, &of_item(item))?;
    }
    writer.flush()
}

fn write_line(writer: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *writer, line)?;
    writer.write_all(b"\n")
}

/// Waits; returns false if the client has closed the connection meanwhile.
fn pause(stream: &UnixStream, milliseconds: u64) -> io::Result<bool> {
    let end = real_time().plus_millis(milliseconds);
    loop {
        let left = end - real_time();
        if left.is_zero() {
            return Ok(true);
        }
        std::thread::sleep(left.min(PAUSE_STEP));
        let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
        match rustix::net::recv(stream, &mut [0_u8; 1], flags) {
            Ok((0, _)) => return Ok(false),
            Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn peer_has_closed(mut stream: &UnixStream) -> io::Result<bool> {
    stream.set_nonblocking(true)?;
    let read = stream.read(&mut [0; 16]);
    stream.set_nonblocking(false)?;
    match read {
        Ok(count) => Ok(count == 0),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}
