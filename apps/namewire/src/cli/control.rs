//! Finds the control socket of a running forwarder.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use ndn_client::{Candidates, ForwarderAddress};

use super::arguments::duration;
use super::connect::{note_stopped, transport};
use super::failure::{Failure, Outcome};
use crate::config::Config;
use namewire_control::{ControlClient, ControlError};

/// The forwarder to connect to.
#[derive(Args, Debug)]
pub(super) struct ControlOptions {
    /// Control socket of the forwarder [default: the path of its Unix socket with the ending
    /// .control.sock]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Unix socket of the forwarder: unix:///path or a path
    #[arg(long, value_name = "URI", value_parser = unix_socket, conflicts_with = "control")]
    transport: Option<PathBuf>,
}

/// The path of the Unix socket, from which that of the control socket follows.
fn unix_socket(text: &str) -> Result<PathBuf, String> {
    match transport(text)? {
        ForwarderAddress::Unix(path) => Ok(path),
        ForwarderAddress::Tcp { .. }
        | ForwarderAddress::Udp { .. }
        | ForwarderAddress::Memif(_)
        | ForwarderAddress::WebTransport(_) => {
            Err("this is told by the control socket, on the forwarder's host: name its Unix socket, or the \
                 control socket with --control"
                .to_owned())
        }
    }
}

/// The control socket in the directory of a Unix socket.
fn beside(socket: PathBuf) -> Option<PathBuf> {
    let mut config = Config::default();
    config.listeners.unix.path = Some(socket);
    config.control_socket_path()
}

impl ControlOptions {
    /// Connects to the control socket that the options, the environment or the defaults name.
    pub(super) fn connect(&self) -> Outcome<ControlClient> {
        let paths = match (&self.control, &self.transport) {
            (Some(path), _) => vec![path.clone()],
            (None, Some(socket)) => beside(socket.clone()).into_iter().collect(),
            (None, None) => default_paths()?,
        };
        let (client, path) = connect_to_first(&paths)?;
        note_stopped(&path.display(), client.process());
        Ok(client)
    }
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        let text = error.to_string();
        match error {
            ControlError::Connect { source, .. }
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                Self::Unreachable(format!("{text} (it belongs to the user who runs the forwarder)"))
            }
            ControlError::Connect { path, source } => Self::Unreachable(format!(
                "no forwarder can be reached at its control socket {}: {source}. Start one (namewire start), or name \
                 another with --control PATH.",
                path.display()
            )),
            ControlError::Silent(_) => Self::NoAnswer(text),
            ControlError::Ended => Self::Unreachable(text),
            ControlError::Io(_) | ControlError::Malformed(_) | ControlError::Refused(_) => {
                Self::Failed(text)
            }
        }
    }
}

/// Parses the length of a measurement.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    let span = duration(text)?;
    match (SPAN_MIN..=SPAN_MAX).contains(&span) {
        true => Ok(span),
        false => Err("it is from 10ms to 1h".to_owned()),
    }
}

/// The shortest and the longest interval that a command observes.
const SPAN_MIN: Duration = Duration::from_millis(10);
const SPAN_MAX: Duration = Duration::from_hours(1);

/// Connects to the first path that accepts the connection; if none does, the error is that of the first one that exists, else of
/// the first.
fn connect_to_first(paths: &[PathBuf]) -> Result<(ControlClient, &Path), ControlError> {
    let is_absent = |error: &ControlError| matches!(error, ControlError::Connect { source, .. } if source.kind() == io::ErrorKind::NotFound);
    let mut failure: Option<ControlError> = None;
    for path in paths {
        match ControlClient::connect(path) {
            Ok(client) => return Ok((client, path.as_path())),
            Err(error) if failure.is_none() => failure = Some(error),
            Err(error) if failure.as_ref().is_some_and(is_absent) && !is_absent(&error) => {
                failure = Some(error);
            }
            Err(_) => {}
        }
    }
    let none = Path::new("");
    failure.map_or_else(|| Ok((ControlClient::connect(none)?, none)), Err)
}

/// In the directories of the Unix sockets that the other commands try, in the same order.
fn default_paths() -> Outcome<Vec<PathBuf>> {
    let candidates =
        Candidates::from_environment().map_err(|error| Failure::Usage(error.to_string()))?;
    let sockets = candidates.addresses.iter().filter_map(|address| match address {
        ForwarderAddress::Unix(socket) => beside(socket.clone()),
        ForwarderAddress::Tcp { .. }
        | ForwarderAddress::Udp { .. }
        | ForwarderAddress::Memif(_)
        | ForwarderAddress::WebTransport(_) => None,
    });
    let paths: Vec<PathBuf> = sockets.collect();
    if !paths.is_empty() {
        return Ok(paths);
    }
    // A forwarder of this host that is not named by its Unix socket has its control socket at the
    // default path.
    match candidates.addresses.iter().find(|address| !is_of_this_host(address)) {
        None => Ok(Config::default().control_socket_path().into_iter().collect()),
        Some(address) => Err(Failure::Usage(format!(
            "{address} ({source}) may be on another host, and this is told by the control socket, on the \
             forwarder's host: for one that runs here, name its Unix socket with --transport, or the control \
             socket with --control",
            source = candidates.source
        ))),
    }
}

fn is_of_this_host(address: &ForwarderAddress) -> bool {
    let host = match address {
        ForwarderAddress::Unix(_) | ForwarderAddress::Memif(_) => return true,
        ForwarderAddress::Tcp { host, .. } | ForwarderAddress::Udp { host, .. } => host,
        ForwarderAddress::WebTransport(target) => &target.host,
    };
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_hosts_are_distinguished_from_this_one() {
        for (uri, is_here) in [
            ("unix:///run/nfd/nfd.sock", true),
            ("tcp://127.0.0.1", true),
            ("tcp6://[::1]:7000", true),
            ("udp://localhost", true),
            ("tcp://192.0.2.77", false),
            ("udp4://router.example", false),
            ("https://router.example:6367/ndn", false),
        ] {
            assert_eq!(is_of_this_host(&uri.parse().unwrap()), is_here, "{uri}");
        }
    }

    #[test]
    fn length_of_a_measurement_is_bounded() {
        assert_eq!(span("50ms"), Ok(Duration::from_millis(50)));
        for wrong in ["1ms", "2h", "0", "1"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
    }
}
