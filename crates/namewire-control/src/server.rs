//! Server of the control socket.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ndn_forwarding::TraceFilter;
use ndn_packet::Name;
use ndn_sys::clock;
use ndn_sys::file::FileIdentity;
use ndn_sys::stream::listen_unix;
use serde_json::Value;

use super::packet_trace::{PacketTraceStream, TraceLine};
use super::protocol::{
    Dispatch, FaceLimit, LINE_LEN_MAX, LedgerStatus, LinkCounters, LogLevels, ManagementData,
    MemifStatus, Request, Response, Statistics, Version, WaitingFace, WebTransportStatus,
};
use super::service_times::ServiceTimesReport;
use crate::capture::{CaptureFilter, CapturedPacket, PcapngWriter};

/// Maximum concurrent connections; further ones are closed at once.
const CONNECTIONS_MAX: usize = 16;
/// Maximum time that captured packets stay in a buffer.
const CAPTURE_FLUSH: Duration = Duration::from_millis(200);
/// Maximum number of packets that are sent after the client has closed its sending side.
const LATE_PACKETS_MAX: usize = 8192;
/// Timeout of a blocked write and of an incomplete request. An idle connection stays open.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum duration of a service time measurement: one hour.
const TRACE_MS_MAX: u64 = 3_600_000;
/// Poll interval for a closed connection during a measurement.
const PAUSE_STEP: Duration = Duration::from_millis(100);
/// Time in which connections end by themselves once the socket is closed, nanoseconds.
const CLOSE_TIMEOUT_NS: u64 = 1_000_000_000;
/// Poll interval for their end.
const CLOSE_STEP: Duration = Duration::from_millis(5);
/// Upper limit of the snap length.
const SNAP_LEN_MAX: usize = 65_536;

/// Operations of a running forwarder for its control socket. Called on the socket's threads.
pub trait Handler: Send + Sync + 'static {
    /// Returns the log levels in force.
    fn log_directives(&self) -> String;

    /// Changes log levels.
    ///
    /// # Errors
    /// The levels cannot be changed; the text is the reason.
    fn set_log_directives(&self, directives: &str) -> Result<(), String>;

    /// Returns the counters of the workers.
    fn statistics(&self) -> Statistics;

    /// Returns the link counters of at most a hundred faces: those with the lowest FaceIds above `after`.
    ///
    /// # Errors
    /// The counters are not available; the text is the reason.
    fn links(&self, after: Option<u64>) -> Result<BTreeMap<u64, LinkCounters>, String>;

    /// Returns required faces that are missing or being created: all, or those that Interests with `name` would go
    /// to.
    ///
    /// # Errors
    /// The state is not available; the text is the reason.
    fn waiting_faces(&self, name: Option<&Name>) -> Result<Vec<WaitingFace>, String>;

    /// Returns the number of faces and its limit.
    ///
    /// # Errors
    /// The numbers are not available; the text is the reason.
    fn face_limit(&self) -> Result<FaceLimit, String>;

    /// Returns what principals hold of the tables of the PIT.
    ///
    /// # Errors
    /// A worker does not answer; the text is the reason.
    fn limits(&self) -> Result<LedgerStatus, String>;

    /// Executes a management Interest; returns the Data.
    ///
    /// # Errors
    /// There is no Data; the text is the reason.
    fn management(&self, interest: Vec<u8>) -> Result<Vec<u8>, String>;

    /// Returns the state of the memif listener.
    ///
    /// # Errors
    /// The state is not available; the text is the reason.
    fn memif(&self) -> Result<MemifStatus, String>;

    /// Returns the state of the WebTransport listener.
    ///
    /// # Errors
    /// The state is not available; the text is the reason.
    fn webtransport(&self) -> Result<WebTransportStatus, String>;

    /// Reports or changes the dispatch of names to workers.
    ///
    /// # Errors
    /// The dispatch cannot be changed; the text is the reason.
    fn dispatch(&self, action: DispatchAction) -> Result<Dispatch, String>;

    /// Starts to measure service times, until the trace is dropped.
    fn trace_service_times(&self) -> Box<dyn ServiceTimesTrace>;

    /// Starts to trace the decisions about packets, until the stream is dropped.
    ///
    /// # Errors
    /// Another client traces packets.
    fn trace_packets(&self, filter: TraceFilter) -> Result<PacketTraceStream, String>;

    /// Starts a capture, which ends once the stream's receiver is dropped.
    ///
    /// # Errors
    /// The capture cannot start, for example because the face does not exist.
    fn start_capture(&self, filter: CaptureFilter) -> Result<CaptureStream, String>;
}

/// An active measurement of service times.
pub trait ServiceTimesTrace: Send {
    /// Returns the measurements since the start.
    fn report(&self) -> ServiceTimesReport;
}

/// Action on the dispatch of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DispatchAction {
    /// Report only.
    List,
    /// Move the entry of a name to a worker.
    Set {
        /// The name.
        name: Name,
        /// The worker.
        worker: u8,
    },
    /// Balance the load.
    Balance,
}

/// An active capture.
pub struct CaptureStream {
    /// The packets in capture order.
    pub packets: Receiver<CapturedPacket>,
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

/// A connection being served, and its thread.
type Connection = (UnixStream, JoinHandle<()>);

/// A served control socket. Dropping it ends its threads and removes the socket file.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    listener: UnixListener,
    /// Identity of the socket file.
    file: FileIdentity,
    stopping: Arc<AtomicBool>,
    /// Returns the connections at its end.
    accepting: Option<JoinHandle<Vec<Connection>>>,
    /// The connections when no further ones are accepted.
    connections: Vec<Connection>,
}

/// A bound socket that is not served yet: connections wait in the backlog.
#[derive(Debug)]
pub struct ControlListener {
    path: PathBuf,
    listener: UnixListener,
    /// Identity of the socket file.
    file: FileIdentity,
}

impl ControlListener {
    /// Opens the socket at `path` for its owner only. Replaces a socket file without a listener.
    ///
    /// # Errors
    /// Another process listens there (`AddrInUse`), or the file system reports an error.
    pub fn open(path: &Path) -> io::Result<Self> {
        let (socket, file) = listen_unix(path, 0o600)?;
        let listener = UnixListener::from(socket);
        listener.set_nonblocking(false)?;
        Ok(Self { path: path.to_owned(), listener, file })
    }

    /// Returns the identity of the socket file.
    #[must_use]
    pub const fn file(&self) -> FileIdentity {
        self.file
    }

    /// Serves the socket on separate threads.
    ///
    /// # Errors
    /// There is no descriptor or no thread left.
    pub fn serve(self, handler: Arc<dyn Handler>) -> io::Result<ControlSocket> {
        let Self { path, listener, file } = self;
        let accepted = listener.try_clone()?;
        let stopping = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&stopping);
        let acceptor = Acceptor { handler, connections: Vec::new(), stopping: stops };
        let accepting = std::thread::Builder::new()
            .name("control-socket".to_owned())
            .spawn(move || acceptor.accept_all(&accepted))?;
        let (accepting, connections) = (Some(accepting), Vec::new());
        Ok(ControlSocket { path, listener, file, stopping, accepting, connections })
    }
}

impl ControlSocket {
    /// Opens the socket at `path` and serves it.
    ///
    /// # Errors
    /// As [`ControlListener::open`] and [`ControlListener::serve`].
    pub fn serve(path: &Path, handler: Arc<dyn Handler>) -> io::Result<Self> {
        ControlListener::open(path)?.serve(handler)
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Accepts no further connections and removes the socket file. Requests of existing connections are still answered.
    pub fn close(&mut self) {
        self.stopping.store(true, Ordering::Release);
        // Wakes the accepting thread with an error, even if the socket file is gone.
        let woken = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both).is_ok();
        if let Some(accepting) = self.accepting.take().filter(|_| woken) {
            // A panic of that thread has been reported there.
            self.connections = accepting.join().unwrap_or_default();
        }
        // The file may have been replaced meanwhile.
        if FileIdentity::of(&self.path).is_ok_and(|file| file == self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Drop for ControlSocket {
    /// The handler must not wait for the thread that drops the socket.
    fn drop(&mut self) {
        if self.accepting.is_some() {
            self.close();
        }
        let shut_down = |connections: &[Connection], how| {
            for (stream, _) in connections {
                // A connection that has ended cannot be shut down any more.
                let _ = rustix::net::shutdown(stream, how);
            }
        };
        // A capture or an answer may still be written.
        shut_down(&self.connections, rustix::net::Shutdown::Read);
        let deadline_ns = clock::now() + CLOSE_TIMEOUT_NS;
        while self.connections.iter().any(|(_, thread)| !thread.is_finished())
            && clock::now() < deadline_ns
        {
            std::thread::sleep(CLOSE_STEP);
        }
        shut_down(&self.connections, rustix::net::Shutdown::Both);
        for (_, thread) in self.connections.drain(..) {
            let _ = thread.join();
        }
    }
}

struct Acceptor {
    handler: Arc<dyn Handler>,
    connections: Vec<Connection>,
    stopping: Arc<AtomicBool>,
}

impl Acceptor {
    fn accept_all(mut self, listener: &UnixListener) -> Vec<Connection> {
        for stream in listener.incoming() {
            if self.stopping.load(Ordering::Acquire) {
                break;
            }
            match stream {
                Ok(stream) => self.serve_on_a_thread(stream),
                // Out of descriptors: accepting again at once would spin.
                Err(error) => {
                    tracing::warn!(%error, "the control socket cannot accept");
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
        self.connections
    }

    fn serve_on_a_thread(&mut self, stream: UnixStream) {
        self.connections.retain(|(_, thread)| !thread.is_finished());
        if self.connections.len() >= CONNECTIONS_MAX {
            tracing::warn!("the control socket has too many connections");
            return;
        }
        let handler = Arc::clone(&self.handler);
        let served = stream.try_clone().and_then(|served| {
            let serving = move || {
                if let Err(error) = serve_connection(&served, handler.as_ref()) {
                    tracing::debug!(%error, "a control connection ended");
                }
                // The acceptor still has a descriptor of the connection.
                let _ = rustix::net::shutdown(&served, rustix::net::Shutdown::Both);
            };
            std::thread::Builder::new().name("control".to_owned()).spawn(serving)
        });
        match served {
            Ok(thread) => self.connections.push((stream, thread)),
            Err(error) => tracing::warn!(%error, "no thread for a control connection"),
        }
    }
}

fn serve_connection(stream: &UnixStream, handler: &dyn Handler) -> io::Result<()> {
    stream.set_write_timeout(Some(STALL_TIMEOUT))?;
    stream.set_read_timeout(Some(STALL_TIMEOUT))?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    loop {
        line.clear();
        let limit = u64::try_from(LINE_LEN_MAX).unwrap_or(u64::MAX);
        match reader.by_ref().take(limit).read_line(&mut line) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && line.is_empty() => continue,
            Err(error) => return Err(error),
        }
        if !line.ends_with('\n') {
            respond(stream, &Response::Error("the request is too long or has no end".to_owned()))?;
            return Ok(());
        }
        let request = match serde_json::from_str(&line) {
            Ok(request) => request,
            Err(error) => {
                respond(stream, &Response::Error(format!("not a request: {error}")))?;
                continue;
            }
        };
        if let Request::TraceLatency { milliseconds } = request {
            let trace = handler.trace_service_times();
            if !pause(stream, milliseconds.min(TRACE_MS_MAX))? {
                return Ok(());
            }
            let report = serde_json::to_value(trace.report())?;
            drop(trace);
            respond(stream, &Response::Result(report))?;
        } else if let Request::TracePackets { name, sample } = &request {
            let prefix =
                Name::from_uri(name).map_err(|error| format!("{name} is no name: {error}"));
            let filter = prefix.map(|prefix| TraceFilter { prefix, sample: *sample });
            match filter.and_then(|filter| handler.trace_packets(filter)) {
                Ok(trace) => {
                    respond(stream, &Response::Result(Value::Null))?;
                    return write_trace(stream, &trace);
                }
                Err(reason) => respond(stream, &Response::Error(reason))?,
            }
        } else if let Request::CaptureStart { face_id, snap_len } = request {
            let filter = CaptureFilter { face_id, snap_len: snap_len.min(SNAP_LEN_MAX) };
            match handler.start_capture(filter) {
                Ok(capture) => {
                    respond(stream, &Response::Result(Value::Null))?;
                    return write_capture(stream, filter, &capture);
                }
                Err(reason) => respond(stream, &Response::Error(reason))?,
            }
        } else {
            respond(stream, &answer(&request, handler))?;
        }
    }
}

/// Converts a result into an answer.
fn told<T: serde::Serialize>(result: Result<T, String>) -> Response {
    match result.map(serde_json::to_value) {
        Ok(Ok(value)) => Response::Result(value),
        Ok(Err(error)) => Response::Error(error.to_string()),
        Err(reason) => Response::Error(reason),
    }
}

fn answer(request: &Request, handler: &dyn Handler) -> Response {
    let levels = || LogLevels { directives: handler.log_directives() };
    let result = match request {
        Request::Version => serde_json::to_value(Version {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            process_id: std::process::id(),
        }),
        Request::LogLevels => serde_json::to_value(levels()),
        Request::LogSet { directives } => match handler.set_log_directives(directives) {
            Ok(()) => {
                tracing::info!(%directives, "log levels changed");
                serde_json::to_value(levels())
            }
            Err(reason) => return Response::Error(reason),
        },
        Request::Statistics => serde_json::to_value(handler.statistics()),
        Request::Links { after } => return told(handler.links(*after)),
        Request::WaitingFaces => return told(handler.waiting_faces(None)),
        Request::WaitingFor { name } => match Name::from_uri(name) {
            Ok(name) => return told(handler.waiting_faces(Some(&name))),
            Err(error) => return Response::Error(format!("{name} is no name: {error}")),
        },
        Request::FaceLimit => return told(handler.face_limit()),
        Request::Limits => return told(handler.limits()),
        Request::Management { interest } => return told(management(interest, handler)),
        Request::Memif => return told(handler.memif()),
        Request::WebTransport => return told(handler.webtransport()),
        Request::NdtList => return told(handler.dispatch(DispatchAction::List)),
        Request::NdtBalance => return told(handler.dispatch(DispatchAction::Balance)),
        Request::NdtSet { name, worker } => match Name::from_uri(name) {
            Ok(name) => {
                return told(handler.dispatch(DispatchAction::Set { name, worker: *worker }));
            }
            Err(error) => return Response::Error(format!("{name} is no name: {error}")),
        },
        Request::CaptureStart { .. }
        | Request::TraceLatency { .. }
        | Request::TracePackets { .. } => {
            return Response::Error("this is no simple request".to_owned());
        }
    };
    result.map_or_else(|error| Response::Error(error.to_string()), Response::Result)
}

fn management(interest: &str, handler: &dyn Handler) -> Result<ManagementData, String> {
    let interest = BASE64.decode(interest).map_err(|error| format!("not base64: {error}"))?;
    Ok(ManagementData { data: BASE64.encode(handler.management(interest)?) })
}

fn respond(mut stream: &UnixStream, response: &Response) -> io::Result<()> {
    let mut line = serde_json::to_vec(response)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Sends packets until the client closes its side or the forwarder ends the stream.
fn write_capture(
    stream: &UnixStream,
    filter: CaptureFilter,
    capture: &CaptureStream,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let mut writer = PcapngWriter::new(BufWriter::new(stream), filter.snap_len)?;
    if filter.face_id.is_some() {
        writer.describe_face(filter.face_id)?;
    }
    writer.flush()?;
    let (mut last_ns, mut checked_ns) = (0, clock::now());
    loop {
        match capture.packets.recv_timeout(CAPTURE_FLUSH) {
            Ok(packet) => {
                last_ns = packet.unix_ns;
                writer.write(&packet)?;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        // By time, so that a capture without pauses ends too.
        let now_ns = clock::now();
        if u128::from(now_ns - checked_ns) >= CAPTURE_FLUSH.as_nanos() {
            checked_ns = now_ns;
            writer.flush()?;
            if peer_has_closed(stream)? {
                break;
            }
        }
    }
    // Packets captured before the client closed its sending side are still sent.
    for packet in capture.packets.try_iter().take(LATE_PACKETS_MAX) {
        last_ns = packet.unix_ns;
        writer.write(&packet)?;
    }
    writer.write_dropped(last_ns, (capture.dropped)())?;
    writer.flush()
}

/// Sends traced packets until the client closes its side or the forwarder ends the stream. The number of lost packets
/// follows whenever it has grown.
fn write_trace(stream: &UnixStream, trace: &PacketTraceStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let mut writer = BufWriter::new(stream);
    let (mut reported, mut checked_ns) = (0, clock::now());
    let mut is_open = true;
    while is_open {
        match trace.packets.recv_timeout(CAPTURE_FLUSH) {
            Ok(packet) => write_line(&mut writer, &TraceLine::Packet(packet))?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => is_open = false,
        }
        let now_ns = clock::now();
        if is_open && u128::from(now_ns - checked_ns) < CAPTURE_FLUSH.as_nanos() {
            continue;
        }
        checked_ns = now_ns;
        let lost = (trace.lost)();
        if lost > reported {
            reported = lost;
            write_line(&mut writer, &TraceLine::Lost(lost))?;
        }
        writer.flush()?;
        is_open = is_open && !peer_has_closed(stream)?;
    }
    for packet in trace.packets.try_iter().take(LATE_PACKETS_MAX) {
        write_line(&mut writer, &TraceLine::Packet(packet))?;
    }
    writer.flush()
}

fn write_line(writer: &mut impl Write, line: &TraceLine) -> io::Result<()> {
    serde_json::to_writer(&mut *writer, line)?;
    writer.write_all(b"\n")
}

/// Waits; returns false if the client has closed the connection meanwhile.
fn pause(stream: &UnixStream, milliseconds: u64) -> io::Result<bool> {
    let begin = clock::now();
    let nanos = milliseconds * 1_000_000;
    loop {
        let left = nanos.saturating_sub(clock::now() - begin);
        if left == 0 {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_nanos(left).min(PAUSE_STEP));
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
