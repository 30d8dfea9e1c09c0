//! Routing daemons: `ndnd dv` on the forwarders of a testbed, in place of routes that the lab computes.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::place;
use super::program::Program;
use crate::leftovers;

/// Prefix of all daemons.
const NETWORK: &str = "/lab";

/// A daemon; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Daemon {
    child: Child,
}

impl Daemon {
    /// Starts the daemon of a node, whose neighbours have these addresses, on the forwarder with this socket.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start(
        node: usize,
        neighbours: &[String],
        socket: &Path,
        (directory, mark): (&Path, &str),
        namespace: Option<&str>,
    ) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("ndnd dv of node {node}: {error}");
        let mut text = format!(
            "dv:\n  network: {NETWORK}\n  router: {NETWORK}/n{node}\n  keychain: insecure\n  trust_anchors: []\n  \
             advertise_interval: 1000\n  router_dead_interval: 5000\n  neighbors:\n"
        );
        for uri in neighbours {
            // A text has no other error than a full memory.
            let _ = writeln!(text, "    - uri: {uri}");
        }
        let own = directory.join(format!("dv-{node}"));
        let permission = leftovers::starting();
        fs::create_dir(&own).map_err(failed)?;
        let configuration = own.join("dv.yml");
        fs::write(&configuration, text).map_err(failed)?;
        let mut command = Command::new(Program::Ndnd.locate()?);
        command.args(["dv", "run"]).arg(&configuration);
        let mut command = place::wrapped(command, namespace);
        let output = File::create(own.join("log")).map_err(failed)?;
        command.stdin(Stdio::null()).stdout(output.try_clone().map_err(failed)?).stderr(output);
        command.env("NDN_CLIENT_TRANSPORT", format!("unix://{}", socket.display()));
        command.env("HOME", &own).current_dir(&own);
        let child = leftovers::spawn(&mut command, mark, &permission).map_err(failed)?;
        drop(permission);
        Ok(Self { child })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The prefix that a forwarder has in its RIB when its daemon knows the one of another node.
pub(super) fn known_daemon(node: usize) -> String {
    format!("{NETWORK}/32=DV/32=PFS{NETWORK}/n{node}")
}
