//! Client of the control socket, for `namewire log`, `namewire capture` and others.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ndn_packet::{Interest, Name};
use rustix::net::sockopt::socket_peercred;
use serde::de::DeserializeOwned;

use super::packet_trace::TraceLine;
use super::protocol::{
    MANAGEMENT_MARGIN, ManagementData, RESPONSE_LEN_MAX, Request, Response, management_timeout,
};

/// Failure of a request on the control socket.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No forwarder listens at the path.
    #[error("cannot connect to the control socket {path}: {source}")]
    Connect {
        /// The path.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// The connection failed.
    #[error("the control connection failed: {0}")]
    Io(#[from] io::Error),
    /// No answer arrived in time.
    #[error("no answer on the control socket: {0}")]
    Silent(String),
    /// The forwarder closed the connection.
    #[error("the forwarder has ended, or has closed the control connection")]
    Ended,
    /// The answer is malformed.
    #[error("the forwarder gave no proper answer: {0}")]
    Malformed(String),
    /// The forwarder refused.
    #[error("{0}")]
    Refused(String),
}

/// Time limit for an answer, in addition to the requested duration.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection to the control socket of a forwarder.
#[derive(Debug)]
pub struct ControlClient {
    reader: BufReader<UnixStream>,
}

impl ControlClient {
    /// Connects to the socket at `path`.
    ///
    /// # Errors
    /// [`ControlError::Connect`].
    pub fn connect(path: &Path) -> Result<Self, ControlError> {
        let failed = |source| ControlError::Connect { path: path.to_owned(), source };
        let stream = UnixStream::connect(path).map_err(failed)?;
        let server = socket_peercred(&stream).map_err(|error| failed(error.into()))?.uid;
        let own = rustix::process::geteuid();
        // Somebody else may have made a socket of this name in a directory such as /tmp.
        if !own.is_root() && server != own && !server.is_root() {
            let text = format!("user {} listens there", server.as_raw());
            return Err(failed(io::Error::new(ErrorKind::PermissionDenied, text)));
        }
        Ok(Self { reader: BufReader::new(stream) })
    }

    /// Sends a request and waits for its result.
    ///
    /// # Errors
    /// The connection fails, the answer is malformed, or the forwarder refuses.
    pub fn call<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, ControlError> {
        let takes = if let Request::TraceLatency { milliseconds } = request {
            Duration::from_millis(*milliseconds)
        } else {
            Duration::ZERO
        };
        self.call_within(request, PATIENCE + takes)
    }

    /// As [`Self::call`], with a time limit.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn call_within<T: DeserializeOwned>(
        &mut self,
        request: &Request,
        patience: Duration,
    ) -> Result<T, ControlError> {
        self.reader.get_ref().set_read_timeout(Some(patience))?;
        let mut line = serde_json::to_vec(request).map_err(io::Error::from)?;
        line.push(b'\n');
        self.reader.get_mut().write_all(&line)?;
        let mut answer = String::new();
        let limit = u64::try_from(RESPONSE_LEN_MAX).unwrap_or(u64::MAX);
        self.reader.by_ref().take(limit).read_line(&mut answer).map_err(|error| {
            let is_late = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
            if is_late { self.silent() } else { ControlError::Io(error) }
        })?;
        if answer.is_empty() {
            return Err(ControlError::Ended);
        }
        self.reader.get_ref().set_read_timeout(None)?;
        let malformed = |error: serde_json::Error| ControlError::Malformed(error.to_string());
        match serde_json::from_str(&answer).map_err(malformed)? {
            Response::Result(result) => serde_json::from_value(result).map_err(malformed),
            Response::Error(reason) => Err(ControlError::Refused(reason)),
        }
    }

    /// Executes a management Interest; returns the Data.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn management(&mut self, interest: &[u8]) -> Result<Vec<u8>, ControlError> {
        let lifetime_ms = Interest::parse(interest).map_or(0, |interest| interest.lifetime_ms());
        let patience = management_timeout(lifetime_ms) + MANAGEMENT_MARGIN;
        let request = Request::Management { interest: BASE64.encode(interest) };
        let ManagementData { data } = self.call_within(&request, patience)?;
        BASE64.decode(data).map_err(|error| ControlError::Malformed(error.to_string()))
    }

    /// Determines why no answer has arrived.
    fn silent(&self) -> ControlError {
        let peer =
            socket_peercred(self.reader.get_ref()).ok().map(|peer| peer.pid.as_raw_nonzero());
        let stopped = peer.filter(|pid| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
            stat.is_ok_and(|stat| is_stopped(&stat))
        });
        ControlError::Silent(match stopped {
            Some(pid) => format!("process {pid} is stopped; `kill -CONT {pid}` makes it go on"),
            None => "is the forwarder busy, or the socket that of applications? (--control names another)"
                .to_owned(),
        })
    }

    /// Turns the connection into a trace of the decisions about packets: the iterator returns them until the forwarder
    /// ends it, which [`StreamEnd`] requests.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn trace_packets(
        mut self,
        name: &Name,
        sample: u32,
    ) -> Result<
        (impl Iterator<Item = Result<TraceLine, ControlError>> + use<>, StreamEnd),
        ControlError,
    > {
        self.call::<()>(&Request::TracePackets { name: name.to_string(), sample })?;
        let end = StreamEnd(self.reader.get_ref().try_clone()?);
        let lines = self.reader.lines().map(|line| {
            let malformed = |error: serde_json::Error| ControlError::Malformed(error.to_string());
            serde_json::from_str(&line?).map_err(malformed)
        });
        Ok((lines, end))
    }

    /// Turns the connection into a capture: the reader returns pcapng until the forwarder ends it, which
    /// [`StreamEnd`] requests.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn start_capture(
        mut self,
        face_id: Option<u64>,
        snap_len: usize,
    ) -> Result<(impl Read, StreamEnd), ControlError> {
        self.call::<()>(&Request::CaptureStart { face_id, snap_len })?;
        let end = StreamEnd(self.reader.get_ref().try_clone()?);
        Ok((self.reader, end))
    }
}

/// Returns whether a line of /proc/PID/stat belongs to a stopped process (proc_pid_stat(5)).
fn is_stopped(stat: &str) -> bool {
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
    state.is_some_and(|state| state.starts_with(['T', 't']))
}

/// Ends a capture or a trace from another thread.
#[derive(Debug)]
pub struct StreamEnd(UnixStream);

impl StreamEnd {
    /// Requests the remaining packets and the end.
    ///
    /// # Errors
    /// The connection is closed already.
    pub fn finish(&self) -> io::Result<()> {
        self.0.shutdown(Shutdown::Write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stopped_process_is_recognized() {
        assert!(is_stopped("17 (a) b) T 1 17 17 0"));
        assert!(!is_stopped("17 (T ) S 1 17 17 0"));
        assert!(!is_stopped(""));
    }
}
