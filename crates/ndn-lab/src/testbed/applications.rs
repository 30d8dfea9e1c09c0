//! Consumers and producers that are programs: bulk transfers (`namewire serve`, `namewire get`) and the traffic generator
//! (`namewire traffic`). A consumer prints its results as JSON.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use ndn_cache_sim::trace::Request;
use ndn_client::fetch::WindowMode;
use ndn_sys::clock::Clock;
use serde_json::Value;

use super::program::Program;
use super::settings::Workload;
use crate::leftovers;
use crate::network::packets::prefix;
use crate::network::{Flow, Network};

/// Time for a producer to be ready; it may have to hash its files.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
/// Time between two readings of its output.
const READY_INTERVAL: Duration = Duration::from_millis(10);

/// A producer; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Producer {
    child: Child,
}

impl Producer {
    /// Starts the producer of a source, and waits until it has registered its prefix at the forwarder with this socket.
    ///
    /// # Errors
    /// It cannot be started, or is not ready in time.
    pub(super) fn start(
        workload: Workload,
        (network, source): (&Network<'_>, u32),
        socket: &Path,
        (directory, mark): (&Path, &str),
        clock: &Clock,
    ) -> Result<Self, String> {
        let failed =
            |error: &dyn std::fmt::Display| format!("producer of source {source}: {error}");
        let io_failed = |error: std::io::Error| failed(&error);
        let mut command = Command::new(Program::Namewire.locate()?);
        let own = directory.join(format!("producer-{source}"));
        let permission = leftovers::starting();
        fs::create_dir_all(own.join("files")).map_err(io_failed)?;
        let files = own.join("files");
        if workload == Workload::Transfer {
            for object in objects_of(network, source) {
                let file = File::create(files.join(object_name(object)));
                // The bytes are zeros, and take no space.
                let size = network.sizes[object as usize];
                file.and_then(|file| file.set_len(size)).map_err(io_failed)?;
            }
        }
        let ready = if workload == Workload::Traffic { "responding" } else { "serving " };
        command.args(producer_arguments(workload, (network, source), &files.to_string_lossy()));
        let output = own.join("output");
        add_transport(&mut command, socket);
        command.env("HOME", &own).current_dir(&own).stdin(Stdio::null());
        let file = File::create(&output).map_err(io_failed)?;
        command.stdout(file.try_clone().map_err(io_failed)?).stderr(file);
        let child = leftovers::spawn(&mut command, mark, &permission).map_err(io_failed)?;
        drop(permission);
        let mut producer = Self { child };
        let begin = clock.now();
        loop {
            let printed = fs::read_to_string(&output).unwrap_or_default();
            if printed.contains(ready) {
                return Ok(producer);
            }
            let is_late = clock.now() - begin > READY_TIMEOUT;
            if is_late || producer.child.try_wait().map_err(io_failed)?.is_some() {
                return Err(failed(&format!("is not ready: {}", printed.trim())));
            }
            std::thread::sleep(READY_INTERVAL);
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The name of an object below the prefix of its source.
pub(crate) fn object_name(object: u32) -> String {
    format!("object-{object}")
}

/// The objects of a source.
pub(crate) fn objects_of(network: &Network<'_>, source: u32) -> Vec<u32> {
    let all = network.sources.iter().enumerate();
    all.filter(|(_, other)| **other == source).map(|(object, _)| object as u32).collect()
}

/// Arguments of the producer of a source, which serves `files`, without those of its forwarder.
pub(crate) fn producer_arguments(
    workload: Workload,
    (network, source): (&Network<'_>, u32),
    files: &str,
) -> Vec<String> {
    let (name, size) = (prefix(source).to_string(), format!("{}B", network.segment_bytes));
    let arguments = match workload {
        Workload::Traffic => {
            ["traffic", "producer", &name, "--freshness", "1h", "--payload", &size].to_vec()
        }
        Workload::Distribution | Workload::Transfer => {
            ["serve", files, "--prefix", &name, "--segment-size", &size].to_vec()
        }
    };
    arguments.into_iter().map(str::to_owned).collect()
}

/// Arguments of the consumer that fetches an object into `output`, without those of its forwarder.
pub(crate) fn transfer_arguments(network: &Network<'_>, object: u32, output: &str) -> Vec<String> {
    let name = format!("{}/{}", prefix(network.sources[object as usize]), object_name(object));
    let (option, value) = match network.window {
        WindowMode::Fixed(window) => ("--window", window.to_string()),
        WindowMode::Delay { .. } => ("--congestion", "delay".to_owned()),
        WindowMode::Cubic { .. } => ("--congestion", "cubic".to_owned()),
    };
    ["get", &name, "-o", output, "--json", option, &value].map(str::to_owned).to_vec()
}

/// Arguments of the traffic generator of a node, without those of its forwarder.
pub(crate) fn traffic_arguments(network: &Network<'_>, node: usize) -> Vec<String> {
    let load = &network.topology.load;
    let mut arguments = ["traffic", "consumer", "--json"].map(str::to_owned).to_vec();
    let sources: BTreeSet<u32> = network.sources.iter().copied().collect();
    arguments.extend(sources.into_iter().map(|source| prefix(source).to_string()));
    let mut add = |option: &str, value: String| arguments.extend([option.to_owned(), value]);
    add("--duration", format!("{}ms", (load.duration_s * 1e3) as u64));
    add("--components", network.name_components.to_string());
    add("--seed", ((network.seed >> 1) + node as u64).to_string());
    if network.has_popular_names {
        add("--repeat", load.objects.to_string());
        add("--zipf", load.zipf.to_string());
    }
    match network.window {
        WindowMode::Fixed(window) => add("--window", window.to_string()),
        WindowMode::Cubic { .. } | WindowMode::Delay { .. } => {
            add("--rate", load.requests_per_s.to_string());
            arguments.push("--poisson".to_owned());
        }
    }
    arguments
}

fn add_transport(command: &mut Command, socket: &Path) {
    command.arg("--transport").arg(format!("unix://{}", socket.display()));
}

/// A consumer to be started.
#[derive(Debug)]
pub(super) struct Consumer {
    /// Time of its start.
    pub(super) at: Duration,
    /// Node, and the object of a transfer.
    pub(super) request: Request,
    command: Command,
}

/// Measurements of a consumer.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConsumerMeasurements {
    /// From its first Interest to the last segment.
    pub(super) elapsed: Duration,
    pub(super) interests: u64,
    pub(super) retransmissions: u64,
    /// Of the traffic generator.
    pub(super) flow: Option<Flow>,
}

impl Consumer {
    /// The consumers of some nodes, in the order of their starts. `socket` is that of the forwarder of a node.
    ///
    /// # Errors
    /// The program is not found.
    pub(super) fn all(
        workload: Workload,
        network: &Network<'_>,
        (nodes, origin): (&BTreeSet<usize>, Duration),
        socket: impl Fn(usize) -> PathBuf,
    ) -> Result<Vec<Self>, String> {
        let program = Program::Namewire.locate()?;
        let start = |at: Duration, request: Request, arguments: Vec<String>| {
            let mut command = Command::new(&program);
            command.args(arguments);
            add_transport(&mut command, &socket(request.node as usize));
            command.stdin(Stdio::null()).stderr(Stdio::piped());
            Self { at, request, command }
        };
        if workload == Workload::Transfer {
            let transfer = |request: &Request| {
                let at = origin + Duration::from_secs_f64(request.time_s);
                let arguments = transfer_arguments(network, request.object, "-");
                let mut one = start(at, *request, arguments);
                // The object; the results follow on standard error.
                one.command.stdout(Stdio::null());
                one
            };
            let own = |request: &&Request| nodes.contains(&(request.node as usize));
            return Ok(network.requests.iter().filter(own).map(transfer).collect());
        }
        let traffic = |node: &usize| {
            let request = Request { time_s: 0.0, node: *node as u32, object: 0 };
            let mut one = start(origin, request, traffic_arguments(network, *node));
            one.command.stdout(Stdio::piped());
            one
        };
        let own = network.topology.consumers.iter().filter(|node| nodes.contains(node));
        Ok(own.map(traffic).collect())
    }

    /// Starts it.
    ///
    /// # Errors
    /// Those of the operating system.
    pub(super) fn spawn(mut self, mark: &str) -> Result<Child, String> {
        let permission = leftovers::starting();
        let child = leftovers::spawn(&mut self.command, mark, &permission);
        child.map_err(|error| format!("a consumer does not start: {error}"))
    }
}

/// The results that a consumer of a node printed.
///
/// # Errors
/// It has failed, with its reason.
pub(super) fn outcome(
    workload: Workload,
    node: u32,
    output: std::io::Result<Output>,
) -> Result<ConsumerMeasurements, String> {
    let failed = |reason: &dyn std::fmt::Display| format!("a consumer of node {node}: {reason}");
    let output = output.map_err(|error| failed(&error))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let last = errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        return Err(failed(&format!("{}: {}", output.status, last.trim())));
    }
    let printed = String::from_utf8_lossy(&output.stdout);
    let text = if workload == Workload::Transfer { &errors } else { &printed };
    // Other lines may be before it.
    let json = text.find('{').map_or("", |begin| &text[begin..]);
    let json = json.rfind('}').map_or("", |end| &json[..=end]);
    let value: Value = serde_json::from_str(json)
        .map_err(|error| failed(&format!("its results are no JSON ({error}): {text}")))?;
    let number = |value: &Value, key: &str| value[key].as_u64().unwrap_or(0);
    let span = |value: &Value, per_s: f64| {
        Duration::try_from_secs_f64(value.as_f64().unwrap_or(0.0) / per_s).unwrap_or_default()
    };
    let elapsed = span(&value["elapsed_ms"], 1e3);
    if workload == Workload::Transfer {
        return Ok(ConsumerMeasurements {
            elapsed,
            interests: number(&value, "interests"),
            retransmissions: number(&value, "retransmissions"),
            flow: None,
        });
    }
    let mut flow = Flow { node, elapsed, ..Flow::default() };
    let mut delays = Duration::ZERO;
    for pattern in value["patterns"].as_array().into_iter().flatten() {
        let satisfied = number(pattern, "satisfied");
        flow.sent += number(pattern, "sent");
        flow.satisfied += satisfied;
        delays += span(&pattern["latency"]["mean_us"], 1e6) * u32::try_from(satisfied).unwrap_or(0);
        flow.p99 = flow.p99.max(span(&pattern["latency"]["p99_us"], 1e6));
    }
    flow.mean = delays / u32::try_from(flow.satisfied.max(1)).unwrap_or(u32::MAX);
    Ok(ConsumerMeasurements { elapsed, interests: flow.sent, retransmissions: 0, flow: Some(flow) })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    fn output(code: i32, stdout: &str, stderr: &str) -> std::io::Result<Output> {
        let status = ExitStatus::from_raw(code << 8);
        Ok(Output { status, stdout: stdout.into(), stderr: stderr.into() })
    }

    #[test]
    fn results_of_consumers_are_read() {
        let text =
            "a note\n{\n \"elapsed_ms\": 12.5, \"interests\": 11,\n \"retransmissions\": 1}\n";
        let found = outcome(Workload::Transfer, 3, output(0, "", text)).unwrap();
        let expected = (Duration::from_micros(12_500), 11, 1);
        assert_eq!((found.elapsed, found.interests, found.retransmissions), expected);
        let pattern = |satisfied: u64, mean: f64, p99: f64| {
            format!(
                "{{\"sent\": 10, \"satisfied\": {satisfied}, \"latency\": {{\"mean_us\": {mean}, \"p99_us\": {p99}}}}}"
            )
        };
        let text = format!(
            "{{\"elapsed_ms\": 1000, \"patterns\": [{}, {}]}}",
            pattern(10, 100.0, 900.0),
            pattern(5, 400.0, 500.0)
        );
        let flow = outcome(Workload::Traffic, 3, output(0, &text, "")).unwrap().flow.unwrap();
        assert_eq!((flow.node, flow.sent, flow.satisfied), (3, 20, 15));
        assert_eq!((flow.mean.as_micros(), flow.p99.as_micros()), (200, 900));
        let error = outcome(Workload::Transfer, 3, output(4, "", "x\nno route\n")).unwrap_err();
        assert_eq!(error, "a consumer of node 3: exit status: 4: no route");
        let error = outcome(Workload::Transfer, 3, output(0, "", "nothing")).unwrap_err();
        assert!(error.contains("are no JSON"), "{error}");
    }
}
