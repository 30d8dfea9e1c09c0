//! Hosts that runs use over SSH: an agent of this program on each, and the messages between it and the lab.
//!
//! A message is a line of JSON on the standard input or output of the agent. An agent whose input ends, because the lab or the
//! connection has ended, ends what it has started, and exits.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ndn_sys::clock::Clock;
use serde::{Deserialize, Serialize};

use crate::experiment::Host;
use crate::leftovers;
use crate::programs::find;
use crate::testbed::{Driven, Endpoints};

/// Version of the messages: an agent of another one is refused.
pub(crate) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "/1");
/// Mark of the processes of connections.
const MARK: &str = "ssh";
/// Time for an agent to start; a copy of this program may be on its way.
const START_TIMEOUT: Duration = Duration::from_secs(300);
/// Time for an agent to end what it has started.
const END_TIMEOUT: Duration = Duration::from_secs(20);
/// Time between two attempts to see whether an agent has ended.
const END_INTERVAL: Duration = Duration::from_millis(10);
/// Readings of a clock of which the one with the shortest way counts.
const CLOCK_READINGS: usize = 20;

/// A message to an agent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Read the clock.
    Time,
    /// Find a forwarder, and read its version.
    Version(String),
    /// Prepare a run: choose ports.
    Prepare(Box<Assignment>),
    /// Start the forwarders, and connect the clients.
    Start(Box<Endpoints>),
    /// Begin the load at this time of the agent's clock.
    Drive {
        /// The time.
        origin_ns: u64,
    },
    /// All hosts are done with the load.
    Stop,
}

/// A message of an agent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// It has started.
    Hello(Hello),
    /// Its clock.
    Time(u64),
    /// Version of a forwarder.
    Version(String),
    /// UDP ports of the nodes of a run, in their order.
    Ports(Vec<u16>),
    /// The forwarders run.
    Started,
    /// All requests of its consumers are complete.
    Complete,
    /// The outcome of a run, whose forwarders have ended.
    Driven(Box<Driven>),
    /// An order was not performed; a run has ended.
    Failed {
        /// Why.
        reason: String,
        /// The last output of the forwarders.
        log: String,
    },
}

/// An agent and its connection.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// [`VERSION`].
    pub(crate) version: String,
    /// The variable `SSH_CONNECTION`: address and port of the client, and of the server.
    pub(crate) connection: String,
}

/// A host's part of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Assignment {
    /// The experiment file.
    pub(crate) text: String,
    /// Files that it names.
    pub(crate) inputs: Vec<(String, String)>,
    /// The run.
    pub(crate) cell: usize,
    pub(crate) replication: usize,
    pub(crate) seed: u32,
    /// Identifier of the experiment.
    pub(crate) id: String,
    /// Number of the host, and its nodes.
    pub(crate) host: usize,
    pub(crate) nodes: BTreeSet<usize>,
    /// Longest time of the run.
    pub(crate) limit_ms: u64,
}

/// The clock of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClockOffset {
    /// Its time minus that of this machine.
    pub(crate) offset_ns: i64,
    /// Largest error.
    pub(crate) error_ns: u64,
}

/// A connection to a host.
#[derive(Debug)]
pub(crate) struct Agent {
    host: String,
    child: Child,
    input: Option<ChildStdin>,
    reports: Receiver<Result<Report, String>>,
    log: PathBuf,
    /// Addresses of the host, and of this machine as the host sees it.
    pub(crate) addresses: (Ipv4Addr, Option<Ipv4Addr>),
}

impl Agent {
    /// Sends an order.
    ///
    /// # Errors
    /// The connection has ended.
    pub(crate) fn send(&mut self, order: &Order) -> Result<(), String> {
        let line = serde_json::to_string(order).map_err(|error| self.failed(&error))?;
        let sent = match &mut self.input {
            Some(input) => writeln!(input, "{line}").and_then(|()| input.flush()),
            None => Err(std::io::Error::other("no connection")),
        };
        sent.map_err(|error| self.failed(&error))
    }

    /// The next message.
    ///
    /// # Errors
    /// The connection has ended, or there is none in time.
    pub(crate) fn receive(&self, limit: Duration) -> Result<Report, String> {
        match self.reports.recv_timeout(limit) {
            Ok(Ok(report)) => Ok(report),
            Ok(Err(reason)) => Err(self.failed(&reason)),
            Err(RecvTimeoutError::Timeout) => Err(self.failed(&format!("no answer in {limit:?}"))),
            Err(RecvTimeoutError::Disconnected) => Err(self.failed(&"the connection has ended")),
        }
    }

    /// Adds the name of the host, and what `ssh` has printed.
    pub(crate) fn failed(&self, reason: &dyn std::fmt::Display) -> String {
        let printed = std::fs::read_to_string(&self.log).unwrap_or_default();
        let last = printed.lines().rev().find(|line| !line.trim().is_empty());
        let last = last.map(|line| format!(" ({})", line.trim())).unwrap_or_default();
        format!("host {}: {reason}{last}", self.host)
    }

    /// Estimates the offset of its clock, by the exchange with the shortest way.
    ///
    /// # Errors
    /// The connection has ended.
    pub(crate) fn clock_offset(&mut self, clock: &Clock) -> Result<ClockOffset, String> {
        let mut best: Option<ClockOffset> = None;
        for _ in 0..CLOCK_READINGS {
            let sent = clock.now();
            self.send(&Order::Time)?;
            let Report::Time(read_ns) = self.receive(START_TIMEOUT)? else {
                return Err(self.failed(&"another answer than the time"));
            };
            let way_ns = clock.now().nanos_since(sent);
            let middle_ns = sent.plus_nanos(way_ns / 2).as_nanos();
            let offset_ns = read_ns.cast_signed() - middle_ns.cast_signed();
            let found = ClockOffset { offset_ns, error_ns: way_ns.div_ceil(2) };
            best = Some(best.filter(|best| best.error_ns <= found.error_ns).unwrap_or(found));
        }
        best.ok_or_else(|| self.failed(&"no time"))
    }

    /// The version of a forwarder.
    ///
    /// # Errors
    /// It is not there.
    #[expect(clippy::wildcard_enum_match_arm, reason = "another report is a fault")]
    pub(crate) fn version(&mut self, program: &str) -> Result<String, String> {
        self.send(&Order::Version(program.to_owned()))?;
        match self.receive(START_TIMEOUT)? {
            Report::Version(version) => Ok(version),
            Report::Failed { reason, .. } => Err(self.failed(&reason)),
            _ => Err(self.failed(&"another answer than a version")),
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // The end of its input ends the agent, and it ends what it has started.
        self.input = None;
        let attempts = END_TIMEOUT.as_nanos() / END_INTERVAL.as_nanos();
        for _ in 0..attempts {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(END_INTERVAL),
                Ok(Some(_)) | Err(_) => return,
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The hosts of an experiment.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// Agents of all hosts, which no run uses at present. Dropped first.
    idle: Mutex<Vec<Vec<Agent>>>,
    hosts: Vec<Host>,
    options: Vec<String>,
    is_copied: bool,
    directory: PathBuf,
    ssh: PathBuf,
    started: AtomicUsize,
    /// Sockets of the connections.
    control: tempfile::TempDir,
}

impl Hosts {
    /// Hosts without connections. Paths in `options` are relative to `directory`.
    ///
    /// # Errors
    /// There is no OpenSSH client.
    pub(crate) fn new(
        hosts: &[Host],
        options: &[String],
        is_copied: bool,
        directory: &Path,
    ) -> Result<Self, String> {
        let ssh = find("ssh", directory)?;
        let permission = leftovers::starting();
        let control = leftovers::directory(&permission);
        drop(permission);
        Ok(Self {
            idle: Mutex::new(Vec::new()),
            hosts: hosts.to_owned(),
            options: options.to_owned(),
            is_copied,
            directory: directory.to_owned(),
            ssh,
            started: AtomicUsize::new(0),
            control: control.map_err(|error| format!("temporary directory: {error}"))?,
        })
    }

    /// Number of the host of each node.
    pub(crate) fn places(&self, nodes: &[String], placement: &[(String, String)]) -> Vec<usize> {
        let mut turn = 0..;
        let place = |node: &String| {
            let named = placement.iter().find(|(name, _)| name == node);
            let host =
                named.and_then(|(_, host)| self.hosts.iter().position(|one| one.name == *host));
            host.unwrap_or_else(|| turn.next().unwrap_or(0) % self.hosts.len())
        };
        nodes.iter().map(place).collect()
    }

    /// An agent for each host, that no other run uses.
    ///
    /// # Errors
    /// Names the host.
    pub(crate) fn take(&self) -> Result<Vec<Agent>, String> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(|| (0..self.hosts.len()).map(|host| self.start(host)).collect(), Ok)
    }

    /// Keeps agents for the next run.
    pub(crate) fn give_back(&self, agents: Vec<Agent>) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(agents);
    }

    fn start(&self, number: usize) -> Result<Agent, String> {
        let host = &self.hosts[number];
        let failed = |error: &dyn std::fmt::Display| format!("host {}: {error}", host.name);
        let io_failed = |error: std::io::Error| failed(&error);
        let program = match self.is_copied {
            true => Some(File::open("/proc/self/exe").map_err(io_failed)?),
            false => None,
        };
        let len = program.as_ref().map(|file| file.metadata().map(|data| data.len()));
        let len = len.transpose().map_err(io_failed)?;
        let log = self.started.fetch_add(1, Ordering::Relaxed).to_string();
        let log = self.control.path().join(format!("{log}.log"));
        let mut command = Command::new(&self.ssh);
        command.args(&self.options).args(["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]);
        // The first connection to a host serves the later ones, too, and ends with the last of them.
        let socket = self.control.path().join(number.to_string());
        command.args(["-o", "ControlMaster=auto", "-o", "ControlPersist=no"]);
        command.args([
            "-o",
            "ServerAliveInterval=15",
            "-o",
            &format!("ControlPath={}", socket.display()),
        ]);
        command.arg("--").arg(&host.name).arg(remote_command(len)).current_dir(&self.directory);
        let permission = leftovers::starting();
        command.stderr(File::create(&log).map_err(io_failed)?);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = leftovers::spawn(&mut command, MARK, &permission).map_err(io_failed)?;
        drop(permission);
        let mut input = child.stdin.take();
        let output = child.stdout.take().ok_or_else(|| failed(&"no standard output"))?;
        let (send, reports) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let parse = |line: String| {
                    serde_json::from_str(&line).map_err(|_| format!("it printed: {line}"))
                };
                let report = line.map_err(|error| error.to_string()).and_then(parse);
                if send.send(report).is_err() {
                    break;
                }
            }
        });
        if let (Some(mut program), Some(input)) = (program, &mut input) {
            // If the host does not take it, its answer says why.
            let _ = std::io::copy(&mut program, input);
        }
        let addresses = (Ipv4Addr::UNSPECIFIED, None);
        let mut agent = Agent { host: host.name.clone(), child, input, reports, log, addresses };
        let Report::Hello(hello) = agent.receive(START_TIMEOUT)? else {
            return Err(agent.failed(&"another first message than expected"));
        };
        if hello.version != VERSION {
            let reason = format!(
                "its namewire is {}, this one {VERSION}; `copy = true` copies this one",
                hello.version
            );
            return Err(agent.failed(&reason));
        }
        let mut fields = hello.connection.split_ascii_whitespace();
        let client = fields.next().and_then(|text| text.parse().ok());
        let server = fields.nth(1).and_then(|text| text.parse().ok());
        let address = host.address.or(server).ok_or_else(|| {
            agent.failed(&format!("no IPv4 address; write \"{}=ADDRESS\"", host.name))
        })?;
        agent.addresses = (address, client);
        Ok(agent)
    }
}

/// The command that starts an agent; with a length, of the program, of that length in bytes, on its standard input.
fn remote_command(program_len: Option<u64>) -> String {
    let Some(len) = program_len else { return "exec namewire lab agent".to_owned() };
    // Users have various shells. The agent has the number of the shell, so the directory is its own. What arrives of a program
    // is less if the lab ends.
    format!(
        "exec sh -c 'umask 077; {}; d=$(mktemp -d \"${{TMPDIR:-/tmp}}/{}$o-XXXXXX\") || exit; \
         trap \"rm -rf \\\"$d\\\"\" EXIT; head -c {len} > \"$d/namewire\" && \
         test $(wc -c < \"$d/namewire\") -eq {len} && chmod 700 \"$d/namewire\" && \
         exec \"$d/namewire\" lab agent'",
        leftovers::SHELL_IDENTITY,
        leftovers::PREFIX
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_without_a_place_are_dealt_out_in_turn() {
        let host = |name: &str| Host { name: name.to_owned(), address: None };
        let hosts = Hosts {
            idle: Mutex::default(),
            hosts: vec![host("a"), host("b")],
            options: Vec::new(),
            is_copied: false,
            directory: PathBuf::new(),
            ssh: PathBuf::new(),
            started: AtomicUsize::new(0),
            control: tempfile::tempdir().unwrap(),
        };
        let nodes = ["r", "s", "t", "u"].map(str::to_owned);
        assert_eq!(hosts.places(&nodes, &[]), [0, 1, 0, 1]);
        let placement = [("s".to_owned(), "a".to_owned()), ("absent".to_owned(), "b".to_owned())];
        assert_eq!(hosts.places(&nodes, &placement), [0, 0, 1, 0]);
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        let mut driven = Driven::default();
        driven.baseline.insert(17, crate::testbed::Reading::default());
        let line = serde_json::to_string(&Report::Driven(Box::new(driven.clone()))).unwrap();
        let Report::Driven(read) = serde_json::from_str(&line).unwrap() else { panic!("{line}") };
        assert_eq!(*read, driven);
    }
}
