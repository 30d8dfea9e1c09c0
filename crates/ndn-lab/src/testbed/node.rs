//! A node of a testbed: the process of a forwarder, its faces and routes.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ndn_management::{
    ControlParameters, CsInfo, Dataset, FaceStatus, Management, RibEntry, Verb, face_flag,
    route_origin,
};
use ndn_packet::Name;
use ndn_sys::clock::Clock;
use ndn_types::Timestamp;
use serde::{Deserialize, Serialize};

use super::management::{LastCommand, Operator};
use super::program::{Program, Sockets};
use crate::leftovers;
use crate::network::NodeRoute;

/// Time for a forwarder to listen.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Routes that every forwarder has in its FIB at once after the commands.
const ROUTES_AT_ONCE: usize = 32;
/// Time between two attempts to connect to a forwarder that starts.
const CONNECT_INTERVAL: Duration = Duration::from_millis(5);
/// Bytes at the end of the output of a forwarder that are kept for a failed run.
const LOG_LEN: u64 = 4096;
/// Time between two readings of a dataset: NFD answers the second one from memory if it comes earlier.
const DATASET_INTERVAL: Duration = Duration::from_millis(1100);

/// A forwarder that was started.
#[derive(Debug)]
pub(super) struct Node {
    name: String,
    program: Program,
    child: Child,
    log: PathBuf,
    sockets: Sockets,
    operator: Option<Operator>,
    /// By neighbour: the face that leads there.
    faces: Vec<u64>,
    /// Time at which its counts were read.
    read_at: Option<Timestamp>,
    clock: Clock,
    last_command: LastCommand,
}

/// Counts of a node since its start.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeCounts {
    pub(crate) cs_hits: u64,
    /// Interests that it sent on links.
    pub(crate) link_interests: u64,
    /// Interests and Data that it sent and received on links.
    pub(crate) link_packets: u64,
    /// Bytes of those.
    pub(crate) link_bytes: u64,
    /// Data that applications sent to it.
    pub(crate) application_data: u64,
    /// Time of its processors.
    pub(crate) cpu: Duration,
}

impl Node {
    /// Starts a forwarder whose output goes to a file of `directory`.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start(
        (name, program): (&str, Program),
        mut command: Command,
        (directory, mark): (&Path, &str),
        sockets: Sockets,
        clock: &Clock,
    ) -> Result<Self, String> {
        let failed =
            |error: std::io::Error| format!("{name}: {} does not start: {error}", program.name());
        let log = directory.join("log");
        let permission = leftovers::starting();
        let output = File::create(&log).map_err(failed)?;
        command.stdin(Stdio::null()).stdout(output.try_clone().map_err(failed)?).stderr(output);
        // Keys that it makes, and settings of clients, are those of no user.
        command.env("HOME", directory).current_dir(directory);
        let child = leftovers::spawn(&mut command, mark, &permission).map_err(failed)?;
        drop(permission);
        Ok(Self {
            name: name.to_owned(),
            program,
            child,
            log,
            sockets,
            operator: None,
            faces: Vec::new(),
            read_at: None,
            clock: clock.clone(),
            last_command: LastCommand::default(),
        })
    }

    /// Path of its Unix socket.
    pub(super) fn socket(&self) -> &Path {
        &self.sockets.unix
    }

    /// Number of its process.
    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    fn failed(&self, error: impl std::fmt::Display) -> String {
        format!("{}: {}: {error}", self.name, self.program.name())
    }

    /// Waits until it accepts connections.
    ///
    /// # Errors
    /// It has ended, or does not listen in time.
    pub(super) fn await_listening(&mut self) -> Result<(), String> {
        let begin = self.clock.now();
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                let log = self.log();
                let last = log.lines().rfind(|line| !line.trim().is_empty());
                let last = last.unwrap_or("without a message");
                return Err(self.failed(format!("ended at its start ({status}): {last}")));
            }
            match Operator::connect(&self.sockets.unix, &self.clock, &self.last_command) {
                Ok(operator) => {
                    self.operator = Some(operator);
                    return Ok(());
                }
                Err(error) if self.clock.now() - begin > START_TIMEOUT => {
                    return Err(self.failed(format!("does not listen: {error}")));
                }
                Err(_) => std::thread::sleep(CONNECT_INTERVAL),
            }
        }
    }

    fn operator(&mut self) -> Result<&mut Operator, String> {
        let name = &self.name;
        self.operator.as_mut().ok_or_else(|| format!("{name}: not connected"))
    }

    /// Creates the faces to its neighbours, in their order.
    ///
    /// # Errors
    /// A face is refused.
    pub(super) fn create_faces(&mut self, uris: &[String]) -> Result<(), String> {
        for uri in uris {
            let made = self.operator()?.create_face(uri);
            self.faces.push(made.map_err(|error| self.failed(format!("face {uri}: {error}")))?);
        }
        Ok(())
    }

    /// Adds routes to neighbours.
    ///
    /// # Errors
    /// One is refused.
    pub(super) fn add_routes(&mut self, routes: &[NodeRoute]) -> Result<(), String> {
        let faces = self.faces.clone();
        let parameters = routes.iter().map(|route| ControlParameters {
            name: Some(route.prefix.clone()),
            face_id: faces.get(route.neighbour).copied(),
            cost: Some(route.cost),
            flags: Some(0),
            ..ControlParameters::default()
        });
        let added = self.operator()?.commands(Verb::RibRegister, parameters);
        added.map_err(|(number, error)| {
            let name = routes.get(number).map(|route| route.prefix.to_string());
            self.failed(format!("route {}: {error}", name.unwrap_or_default()))
        })?;
        if routes.len() > ROUTES_AT_ONCE { self.await_fib(routes) } else { Ok(()) }
    }

    /// Waits until the FIB has the prefixes: NFD answers commands before it changes the FIB, and takes milliseconds for an entry
    /// when there are many.
    fn await_fib(&mut self, routes: &[NodeRoute]) -> Result<(), String> {
        let prefixes: BTreeSet<_> = routes.iter().map(|route| &route.prefix).collect();
        let (mut entries, mut grown_at) = (0, self.clock.now());
        loop {
            self.await_dataset();
            let status = self.operator()?.status();
            let status = status.map_err(|error| self.failed(format!("status/general: {error}")))?;
            let now = self.clock.now();
            self.read_at = Some(now);
            if status.fib_entries >= prefixes.len() as u64 {
                return Ok(());
            }
            if status.fib_entries > entries {
                (entries, grown_at) = (status.fib_entries, now);
            }
            if now - grown_at > START_TIMEOUT {
                let routes = prefixes.len();
                return Err(
                    self.failed(format!("{entries} entries in the FIB for {routes} routes"))
                );
            }
        }
    }

    /// Prefixes with routes.
    ///
    /// # Errors
    /// Its management does not answer.
    pub(super) fn prefixes(&mut self) -> Result<BTreeSet<String>, String> {
        self.await_dataset();
        let entries = self.operator()?.dataset::<RibEntry>(&Dataset::RibList);
        let entries = entries.map_err(|error| self.failed(format!("rib/list: {error}")))?;
        self.read_at = Some(self.clock.now());
        Ok(entries.into_iter().map(|entry| entry.name.to_string()).collect())
    }

    /// Waits until datasets are read anew.
    fn await_dataset(&self) {
        if let Some(read_at) = self.read_at {
            std::thread::sleep(read_at + DATASET_INTERVAL - self.clock.now());
        }
    }

    /// Sets the strategy of all names: its name below `/localhost/nfd/strategy`.
    ///
    /// # Errors
    /// It is refused.
    pub(super) fn set_strategy(&mut self, strategy: &str) -> Result<(), String> {
        let mut name = Name::new();
        for component in ["localhost", "nfd", "strategy", strategy] {
            name.push_generic(component);
        }
        let set = self.operator()?.set_strategy(&Name::new(), &name);
        set.map_err(|error| self.failed(format!("strategy {strategy}: {error}")))
    }

    /// Connects consumers.
    ///
    /// # Errors
    /// The forwarder accepts no connection.
    pub(super) fn connect_consumers(&self) -> Result<std::os::unix::net::UnixStream, String> {
        let connected = Operator::connect(&self.sockets.unix, &self.clock, &self.last_command);
        Ok(connected.map_err(|error| self.failed(error))?.into_stream())
    }

    /// Connects a producer of the prefix.
    ///
    /// # Errors
    /// The forwarder refuses.
    pub(super) fn connect_producer(
        &self,
        prefix: &Name,
    ) -> Result<std::os::unix::net::UnixStream, String> {
        let connected = Operator::connect(&self.sockets.unix, &self.clock, &self.last_command);
        let mut producer = connected.map_err(|error| self.failed(error))?;
        let parameters = ControlParameters {
            name: Some(prefix.clone()),
            // Routing daemons announce the prefixes of clients.
            origin: Some(route_origin::CLIENT),
            cost: Some(0),
            flags: Some(0),
            ..ControlParameters::default()
        };
        let added = producer.command(Verb::RibRegister, &parameters);
        added.map_err(|error| self.failed(format!("route {prefix}: {error}")))?;
        if self.program.has_cache_policy() {
            // The node of a source does not cache its own objects: producers say so in a local field.
            let mut parameters = ControlParameters::default();
            parameters.set_flag(face_flag::LOCAL_FIELDS, true);
            let updated = producer.command(Verb::FaceUpdate, &parameters);
            updated.map_err(|error| self.failed(format!("local fields: {error}")))?;
        }
        Ok(producer.into_stream())
    }

    /// Reads its counts.
    ///
    /// # Errors
    /// Its management does not answer.
    pub(super) fn counts(&mut self) -> Result<NodeCounts, String> {
        self.await_dataset();
        let cpu = ndn_sys::cpu::process_time(self.process());
        let cpu = cpu.map_err(|error| self.failed(error))?;
        let infos = self.operator()?.dataset::<CsInfo>(&Dataset::CsInfo);
        let infos = infos.map_err(|error| self.failed(format!("cs/info: {error}")))?;
        let faces = self.operator()?.dataset::<FaceStatus>(&Dataset::FaceList);
        let faces = faces.map_err(|error| self.failed(format!("faces/list: {error}")))?;
        self.read_at = Some(self.clock.now());
        let cs_hits = infos.first().map_or(0, |info| info.hits);
        let mut counts = NodeCounts { cs_hits, cpu, ..NodeCounts::default() };
        for face in faces.iter().filter(|face| self.faces.contains(&face.properties.face_id)) {
            let own = &face.counters;
            counts.link_interests += own.out_interests;
            counts.link_packets +=
                own.in_interests + own.in_data + own.out_interests + own.out_data;
            counts.link_bytes += own.in_bytes + own.out_bytes;
        }
        let is_application = |face: &&FaceStatus| {
            let uri = &face.properties.remote_uri;
            let is_own = ["internal", "null", "dev"].iter().any(|scheme| uri.starts_with(scheme));
            !is_own && !self.faces.contains(&face.properties.face_id)
        };
        let applications = faces.iter().filter(is_application);
        counts.application_data = applications.map(|face| face.counters.in_data).sum();
        Ok(counts)
    }

    /// Largest resident memory so far, in bytes (proc(5): `VmHWM`).
    pub(super) fn memory_bytes(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.process()));
        let text = text.unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    }

    /// The end of its output; empty if there is none.
    pub(super) fn log(&self) -> String {
        let read = || -> std::io::Result<Vec<u8>> {
            let mut file = File::open(&self.log)?;
            let len = file.metadata()?.len();
            file.seek(SeekFrom::Start(len.saturating_sub(LOG_LEN)))?;
            let mut bytes = Vec::new();
            file.take(LOG_LEN).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let text = String::from_utf8_lossy(&read().unwrap_or_default()).into_owned();
        match text.is_empty() {
            true => text,
            false => format!("{}:\n{text}", self.name),
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It keeps nothing that has to be written; its socket is in the directory of the run.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
