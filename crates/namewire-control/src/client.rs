//! Client of the control socket, for `namewire log`, `namewire capture` and others: the connection.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ndn_sys::peer::{StoppedProcess, process_of_peer, user_of_peer};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::protocol::{RESPONSE_LEN_MAX, Response};

/// Number of the user root.
const ROOT: u32 = 0;

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

/// A connection to the control socket of a forwarder.
#[derive(Debug)]
pub struct ControlClient {
    reader: BufReader<UnixStream>,
    /// Time limit for answers, instead of that of the request.
    timeout: Option<Duration>,
}

impl ControlClient {
    /// Connects to the socket at `path`.
    ///
    /// # Errors
    /// [`ControlError::Connect`].
    pub fn connect(path: &Path) -> Result<Self, ControlError> {
        let failed = |source| ControlError::Connect { path: path.to_owned(), source };
        let stream = UnixStream::connect(path).map_err(failed)?;
        let server = user_of_peer(&stream).map_err(failed)?;
        let own = rustix::process::geteuid().as_raw();
        // Somebody else may have made a socket of this name in a directory such as /tmp.
        if own != ROOT && server != own && server != ROOT {
            let text = format!("user {server} listens there");
            return Err(failed(io::Error::new(ErrorKind::PermissionDenied, text)));
        }
        Ok(Self { reader: BufReader::new(stream), timeout: None })
    }

    /// The process of the forwarder, if the system reports it.
    #[must_use]
    pub fn process(&self) -> Option<i32> {
        process_of_peer(self.reader.get_ref())
    }

    /// Waits for answers for this long only.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// Sends a request and waits for its result, for `timeout` unless the client has [one](Self::with_timeout).
    pub(crate) fn exchange<T: DeserializeOwned>(
        &mut self,
        request: &impl Serialize,
        timeout: Duration,
    ) -> Result<T, ControlError> {
        let timeout = self.timeout.unwrap_or(timeout);
        self.reader.get_ref().set_read_timeout(Some(timeout))?;
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

    /// Determines why no answer has arrived.
    fn silent(&self) -> ControlError {
        ControlError::Silent(match self.process().and_then(StoppedProcess::with_id) {
            Some(stopped) => stopped.to_string(),
            None => "is the forwarder busy, or the socket that of applications? (--control names another)"
                .to_owned(),
        })
    }

    /// Returns the reader of the stream that follows the answer, and the handle that ends it.
    pub(crate) fn into_stream(self) -> Result<(BufReader<UnixStream>, StreamEnd), ControlError> {
        let end = StreamEnd(self.reader.get_ref().try_clone()?);
        Ok((self.reader, end))
    }
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
