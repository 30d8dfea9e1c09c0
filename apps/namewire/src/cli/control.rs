//! How commands find the control socket of a running forwarder.

use std::path::{Path, PathBuf};

use clap::Args;
use ndn_client::{Candidates, ForwarderAddress};

use super::failure::{Failure, Outcome};
use crate::config::Config;
use crate::control_socket::{ControlClient, ControlError};

/// Which forwarder to talk to.
#[derive(Args, Debug)]
pub(super) struct ControlOptions {
    /// Control socket of the forwarder [default: beside its Unix socket, ending in .control.sock]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

impl ControlOptions {
    /// Connects to the control socket that the options, the environment or the defaults name.
    pub(super) fn connect(&self) -> Outcome<ControlClient> {
        let paths = match &self.control {
            Some(path) => vec![path.clone()],
            None => default_paths()?,
        };
        connect_to_first(&paths).map_err(|error| match &error {
            ControlError::Connect { source, .. } => {
                let hint = if source.kind() == std::io::ErrorKind::PermissionDenied {
                    "it belongs to the user who runs the forwarder"
                } else {
                    "is a forwarder running? --control names another socket"
                };
                Failure::Unreachable(format!("{error} ({hint})"))
            }
            ControlError::Io(_)
            | ControlError::Silent
            | ControlError::Malformed(_)
            | ControlError::Refused(_) => Failure::Failed(error.to_string()),
        })
    }
}

/// Connects where the first of them listens; where none does, the error is that of the first.
fn connect_to_first(paths: &[PathBuf]) -> Result<ControlClient, ControlError> {
    let mut attempts = paths.iter().map(PathBuf::as_path).map(ControlClient::connect);
    let first = attempts.next().unwrap_or_else(|| ControlClient::connect(Path::new("")));
    first.or_else(|error| attempts.find_map(Result::ok).ok_or(error))
}

/// Beside the Unix sockets where the other commands look for the forwarder, in the same order.
fn default_paths() -> Outcome<Vec<PathBuf>> {
    let candidates =
        Candidates::from_environment().map_err(|error| Failure::Usage(error.to_string()))?;
    let beside = |socket: PathBuf| {
        let mut config = Config::default();
        config.listeners.unix.path = Some(socket);
        config.control_socket_path()
    };
    let paths: Vec<PathBuf> = candidates
        .addresses
        .into_iter()
        .filter_map(|address| match address {
            ForwarderAddress::Unix(socket) => beside(socket),
            ForwarderAddress::Tcp { .. }
            | ForwarderAddress::Udp { .. }
            | ForwarderAddress::Memif(_)
            | ForwarderAddress::WebTransport(_) => None,
        })
        .collect();
    // A forwarder named by host and port has its control socket where nothing was said about one.
    Ok(if paths.is_empty() {
        Config::default().control_socket_path().into_iter().collect()
    } else {
        paths
    })
}
