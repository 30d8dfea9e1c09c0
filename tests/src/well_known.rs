//! The ndn-app crate connects to `/run/nfd/nfd.sock` and nothing else.
//!
//! Where mount namespaces can be made, its programs get one of their own in which that path leads to
//! the forwarder under test (`interop/ndn-app/run.sh`). Where they cannot, as in many containers, the
//! path itself is made to lead there for as long as a test runs, one test at a time, provided that
//! nothing is there.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::process::run_to_end;

const WELL_KNOWN: &str = "/run/nfd/nfd.sock";

/// The way by which programs with a fixed socket path reach the forwarder under test.
#[derive(Clone, Debug)]
enum Way {
    Namespace,
    Link,
    None(String),
}

fn way() -> &'static Way {
    static WAY: OnceLock<Way> = OnceLock::new();
    WAY.get_or_init(|| {
        let Some(refusal) = namespace_refusal() else { return Way::Namespace };
        match try_link() {
            Ok(()) => Way::Link,
            Err(obstacle) => Way::None(format!("no mount namespace ({refusal}), and {obstacle}")),
        }
    })
}

/// Why programs cannot get to a forwarder of ours, if they cannot.
pub(crate) fn unreachable() -> Option<String> {
    match way() {
        Way::Namespace | Way::Link => None,
        Way::None(reason) => Some(reason.clone()),
    }
}

/// Whether the path itself leads to the forwarder under test.
pub(crate) fn is_by_link() -> bool {
    matches!(way(), Way::Link)
}

/// While it exists, the well-known path leads to one forwarder; dropped, it is gone.
#[derive(Debug)]
pub struct WellKnownPath {
    path: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl WellKnownPath {
    /// Makes the path lead to `socket`, if that is what it takes here.
    ///
    /// # Panics
    /// Something has come there in the meantime.
    #[must_use]
    pub fn to(socket: &Path) -> Option<Self> {
        static TURN: Mutex<()> = Mutex::new(());
        if !is_by_link() {
            return None;
        }
        // A failed test left nothing behind that matters.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        symlink(socket, WELL_KNOWN).expect("nothing is at the well-known path");
        Some(Self { path: PathBuf::from(WELL_KNOWN), _turn: turn })
    }
}

impl Drop for WellKnownPath {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn namespace_refusal() -> Option<String> {
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command.args(["--mount", "--propagation", "private", "mount", "-t", "tmpfs", "none", "/run"]);
    let output = run_to_end(command);
    let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    (!output.status.success()).then_some(reason)
}

/// Whether a link can be made, without leaving one.
fn try_link() -> Result<(), String> {
    let path = Path::new(WELL_KNOWN);
    if path.symlink_metadata().is_ok() {
        return Err(format!("{WELL_KNOWN} is in use"));
    }
    path.parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| symlink("/nonexistent", path))
        .and_then(|()| std::fs::remove_file(path))
        .map_err(|error| format!("{WELL_KNOWN} cannot be made: {error}"))
}
