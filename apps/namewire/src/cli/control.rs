//! How commands find the control socket of a running forwarder.

use std::path::PathBuf;

use clap::Args;

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
        let path = self.control.clone().unwrap_or_else(default_path);
        ControlClient::connect(&path).map_err(|error| match &error {
            ControlError::Connect { source, .. } => {
                let hint = if source.kind() == std::io::ErrorKind::PermissionDenied {
                    "it belongs to the user who runs the forwarder"
                } else {
                    "is a forwarder running? --control names another socket"
                };
                Failure::Unreachable(format!("{error} ({hint})"))
            }
            ControlError::Io(_) | ControlError::Malformed(_) | ControlError::Refused(_) => {
                Failure::Failed(error.to_string())
            }
        })
    }
}

/// Beside the Unix socket that `NDN_CLIENT_TRANSPORT` names, else beside the default one.
fn default_path() -> PathBuf {
    let mut config = Config::default();
    let transport = std::env::var("NDN_CLIENT_TRANSPORT").unwrap_or_default();
    if let Some(path) = transport.strip_prefix("unix://") {
        config.listeners.unix.path = Some(PathBuf::from(path));
    }
    config.control_socket_path().unwrap_or_default()
}
