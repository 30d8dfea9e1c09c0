//! `namewire run`: the process of the forwarder.
//!
//! | module | what it holds |
//! |---|---|
//! | `logging` | where log lines go, and which levels they have |
//! | `privileges` | the change to another user |
//! | `service_manager` | readiness for systemd, or `namewire start` |
//! | `signals` | SIGTERM, SIGINT and SIGHUP |

pub mod logging;
mod privileges;
pub(crate) mod service_manager;
mod signals;

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::Context;
use namewire_daemon::{ConfigSource, Environment, Hooks, OpenForwarder, Plan};
use namewire_http::{HttpListener, TaskPrograms};
use ndn_sys::clock::Clock;
use privileges::Change;

use crate::config::{Config, Conflict};
use logging::{LogFile, LogHandle};

/// Whether this program has the HTTP API.
pub(crate) const HAS_HTTP_API: bool = cfg!(feature = "http-api");
/// The reason why it is refused otherwise.
pub(crate) const WITHOUT_HTTP_API: &str = "this program was built without the HTTP API (cargo feature \"http-api\", which is on by default)";

/// The resources of this machine and process that a configuration needs, checked before anything is
/// opened.
#[derive(Debug)]
pub(crate) struct Prepared {
    plan: Plan,
    privileges: Change,
}

impl Prepared {
    /// Checks the configuration as a whole, against the machine, and the user that it names.
    ///
    /// # Errors
    /// All conflicts, each with the setting or file at fault.
    pub(crate) fn new(config: &Config) -> Result<Self, Vec<Conflict>> {
        match (Plan::new(config, &Clock::system()), privileges::plan(config).map_err(of_privileges))
        {
            (Ok(plan), Ok(privileges)) => Ok(Self { plan, privileges }),
            (plan, privileges) => {
                Err(plan.err().into_iter().flatten().chain(privileges.err()).collect())
            }
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn of_privileges(error: anyhow::Error) -> Conflict {
    let is_group = error.to_string().starts_with("privileges.group");
    let key = if is_group { "privileges.group" } else { "privileges.user" };
    Conflict::from_error(&[key, "privileges.user"], &error)
}

/// Runs the forwarder until SIGTERM or SIGINT. SIGHUP makes it read `source`, and open `log_file` again.
///
/// # Errors
/// A failure of the start, with the address, path or setting; or a worker that panicked.
pub(crate) fn run(
    config: &Config,
    prepared: Prepared,
    source: ConfigSource,
    log_file: Option<LogFile>,
) -> anyhow::Result<()> {
    let Prepared { plan, privileges } = prepared;
    // Default paths are those of the user who starts it, also of a listener that is enabled after privileges were dropped.
    let _ = crate::config::default_socket_path();
    let log = logging::init(&config.log, log_file).map_err(anyhow::Error::msg)?;
    // Best effort: fewer descriptors only mean fewer connections.
    if let Err(error) = ndn_sys::cpu::raise_descriptor_limit() {
        tracing::warn!(%error, "the limit of open files was not raised");
    }
    let signals = signals::Signals::new()?;
    let forwarder = OpenForwarder::open(config, plan, Environment::system())?;
    if config.control.http.enabled && !HAS_HTTP_API {
        anyhow::bail!(WITHOUT_HTTP_API);
    }
    let http = HttpListener::open(&config.control.http)?.map(|http| match programs(config) {
        Some(programs) => http.with_programs(programs),
        None => http,
    });
    // Before there are threads, which have their own capabilities.
    let state = http.as_ref().and_then(|_| config.control.http.token_file());
    let state = state.and_then(|file| namewire_daemon::make_state_directory(&file));
    privileges::carry_out(&privileges, &forwarder, state.as_ref())?;
    http.as_ref().map_or(Ok(()), HttpListener::make_tokens).context("the HTTP API")?;
    warn_of_rotation(&log, &privileges);
    check_anchors(&forwarder, &privileges)?;
    let requests = signals.watch()?;
    let (own_line, ready) = http.as_ref().map(|http| (line_of(http), http.ready())).unzip();
    let log_of_start = log.clone();
    let on_listening = Box::new(move |lines: &str| {
        announce(&[lines, own_line.as_deref().unwrap_or_default()].concat(), &log_of_start);
        ready.iter().for_each(|ready| ready.store(true, Ordering::Release));
    });
    let forwarder =
        forwarder.start(Hooks { requests, source, log: Arc::new(log), on_listening })?;
    // Kept until the forwarder ends.
    let _http = match http {
        // The condition lets the linker leave the server out.
        Some(http) if HAS_HTTP_API => {
            Some(http.serve(forwarder.operations()).context("the HTTP API")?)
        }
        Some(_) | None => None,
    };
    forwarder.join()
}

/// The programs that tasks of the HTTP API run; `None` if they cannot connect to this forwarder.
fn programs(config: &Config) -> Option<TaskPrograms> {
    let socket = config.socket_path()?;
    let tokens = config.control.http.token_file();
    Some(TaskPrograms {
        executable: std::env::current_exe().ok()?,
        transport: format!("unix://{}", socket.display()),
        directories: config.control.http.directories.clone(),
        state: tokens.and_then(|file| Some(file.parent()?.to_owned())),
    })
}

/// The line that announces the HTTP API.
fn line_of(http: &HttpListener) -> String {
    let scheme = http.scheme();
    http.addresses().iter().map(|address| format!("HTTP API: {scheme}://{address}/\n")).collect()
}

/// Prints the listening addresses, and that the log file cannot be written, which does not end the forwarder. Notifies the
/// service manager that it is ready.
fn announce(lines: &str, log: &LogHandle) {
    lines.lines().for_each(|line| tracing::info!("{line}"));
    // They are in the log already.
    if is_log_on_standard_output() && tracing::enabled!(tracing::Level::INFO) {
        return service_manager::notify_ready();
    }
    // Errors do not matter: the forwarder listens.
    let failure = log.failure_of_file();
    let failure = failure.map_or_else(String::new, |reason| format!("namewire: {reason}\n"));
    if let Err(error) = io::stdout().lock().write_all([&failure, lines].concat().as_bytes()) {
        tracing::warn!(%error, "standard output cannot be written");
    }
    service_manager::notify_ready();
}

/// Whether standard output and standard error are one terminal, file, pipe or socket, as under a service manager.
fn is_log_on_standard_output() -> bool {
    if io::stdout().is_terminal() && io::stderr().is_terminal() {
        return true;
    }
    let identity = |found: rustix::fs::Stat| (found.st_dev, found.st_ino);
    let (out, log) = (rustix::fs::fstat(io::stdout()), rustix::fs::fstat(io::stderr()));
    out.is_ok_and(|out| log.is_ok_and(|log| identity(out) == identity(log)))
}

/// Warn if the new user cannot create the next log file, which would fail at the first rotation
/// only.
fn warn_of_rotation(log: &LogHandle, change: &Change) {
    if let (Change::Become(identity, _), Some(directory)) = (change, log.closed_directory()) {
        let (uid, directory) = (identity.uid, directory.display());
        tracing::warn!(
            uid,
            %directory,
            "the user cannot create files in the directory of the log: log rotation must create the next file for this user"
        );
    }
}

/// Warn if the new user cannot read trust anchors, which would fail at the first refresh only.
fn check_anchors(forwarder: &OpenForwarder, change: &Change) -> anyhow::Result<()> {
    let Change::Become(identity, _) = change else { return Ok(()) };
    let uid = identity.uid;
    forwarder.check_anchors().map_err(|reason| {
        anyhow::anyhow!("trust anchors with `refresh` must be readable for user {uid}: {reason}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    #[test]
    fn faults_of_the_machine_and_of_the_user_are_reported_together() {
        let text = "forwarder.cpus = [4000]\nprivileges.user = \"nobody-of-this-name\"";
        let faults = Prepared::new(&parse("test", text).unwrap()).unwrap_err();
        let keys: Vec<_> = faults.iter().map(|fault| fault.keys[0].as_str()).collect();
        assert_eq!(keys, ["forwarder.cpus", "privileges.user"], "{faults:?}");
    }
}
