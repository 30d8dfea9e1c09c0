//! Producers and consumers of nodes on other hosts: tasks that their HTTP APIs run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::api::{Api, ApiOptions};
use super::fetch_node::{Figures, Order, Reported};
use crate::relay::clock;

/// Time between two readings of a task.
const INTERVAL: Duration = Duration::from_millis(250);
/// Time between two readings of a task that starts or ends.
const START_INTERVAL: Duration = Duration::from_millis(20);
/// Time for a task to be ready.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Time after which a task that was asked to end has been killed.
const END_TIMEOUT: Duration = Duration::from_secs(12);
/// Time to find a task whose start was not answered.
const FIND_TIMEOUT: Duration = Duration::from_secs(5);
/// Part of a message of tasks that serve their metrics: a producer has registered its prefixes then.
const RUNNING: &str = "metrics at ";

/// A task of a node; ended when dropped.
#[derive(Debug)]
struct Task {
    api: Api,
    id: u64,
}

impl Task {
    /// Starts it by this mutation, with these arguments.
    fn start(
        options: &ApiOptions,
        mutation: &str,
        arguments: &[(&str, Value)],
    ) -> anyhow::Result<Self> {
        let api = Api::of_node(options)?;
        // Strings, lists, numbers and truth values are written in GraphQL as in JSON.
        let given: Vec<_> =
            arguments.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        // A token that may not list tasks may not start one: the error of the start says which role it takes.
        let latest = |tasks: Vec<Value>| tasks.first().and_then(|task| task["id"].as_u64());
        let before = list(&api).ok().map(|tasks| latest(tasks).unwrap_or(0));
        let started =
            api.query(&format!("mutation {{ {mutation}({}) {{ id }} }}", given.join(", ")));
        let id = match started {
            Ok(answer) => answer[mutation]["id"].as_u64(),
            // The answer was lost: a task that was started nevertheless is this one.
            Err(error) if is_lost(&error) => {
                let found = before.and_then(|before| find(&api, before, (mutation, arguments)));
                Some(found.ok_or(error)?)
            }
            Err(error) => return Err(error),
        };
        Ok(Self { api, id: id.context("the API has started no task")? })
    }

    /// Its fields, with the results after this number of bytes.
    fn read(&self, result_after: usize) -> anyhow::Result<Value> {
        let Self { api, id } = self;
        let fields = "state messages result cpuNs";
        let mut answer = api
            .query(&format!("{{ tasks(id: {id}, resultAfter: {result_after}) {{ {fields} }} }}"))?;
        let task = answer["tasks"][0].take();
        if task.is_null() {
            bail!("the node has forgotten task {id}: its forwarder was started again");
        }
        Ok(task)
    }
}

/// Whether a request was sent, and its answer did not arrive.
fn is_lost(error: &anyhow::Error) -> bool {
    error.downcast_ref::<reqwest::Error>().is_some_and(|error| !error.is_connect())
}

/// The tasks of a node, the latest first.
fn list(api: &Api) -> anyhow::Result<Vec<Value>> {
    let mut answer = api.query("{ tasks { id kind arguments } }")?;
    serde_json::from_value(answer["tasks"].take()).context("tasks")
}

/// The number of the task that this mutation with these arguments has started after the task `before`.
fn find(api: &Api, before: u64, (mutation, arguments): (&str, &[(&str, Value)])) -> Option<u64> {
    // The last words of its command are its names.
    let names = arguments.iter().find_map(|(_, value)| value.as_array())?;
    let is_it = |task: &&Value| {
        task["id"].as_u64() > Some(before)
            && task["kind"].as_str() == mutation.strip_suffix("Start")
            && task["arguments"].as_array().is_some_and(|words| words.ends_with(names))
    };
    let start = clock::monotonic_ns();
    while since(start) < FIND_TIMEOUT {
        let found = list(api).ok().and_then(|tasks| tasks.iter().find(is_it)?["id"].as_u64());
        if found.is_some() {
            return found;
        }
        clock::pause(INTERVAL);
    }
    None
}

/// Whether a task has not ended.
fn is_running(task: &Value) -> bool {
    matches!(task["state"].as_str(), Some("running" | "stopping"))
}

impl Drop for Task {
    fn drop(&mut self) {
        let Self { api, id } = self;
        // One that has ended is refused; one that cannot be reached stays until its forwarder ends.
        if api.query(&format!("mutation {{ taskStop(id: {id}) {{ id }} }}")).is_err() {
            return;
        }
        // The next one has the same names.
        let start = clock::monotonic_ns();
        while since(start) < END_TIMEOUT && self.read(0).is_ok_and(|task| is_running(&task)) {
            clock::pause(START_INTERVAL);
        }
    }
}

fn since(start_ns: u64) -> Duration {
    Duration::from_nanos(clock::monotonic_ns() - start_ns)
}

/// A producer of a node on another host.
#[derive(Debug)]
pub(super) struct RemoteProducer(Task);

impl RemoteProducer {
    /// Starts a packet generator, and waits until it has registered its prefixes at the forwarder.
    pub(super) fn start(
        options: &ApiOptions,
        forwarder: &str,
        prefixes: &[String],
        (payload, suffix, digest): (u32, Option<&str>, bool),
    ) -> anyhow::Result<Self> {
        let mut arguments = vec![
            ("prefixes", json!(prefixes)),
            ("payload", json!(payload)),
            ("digest", json!(digest)),
            ("transport", json!(forwarder)),
            ("localhop", json!(true)),
        ];
        arguments.extend(suffix.map(|suffix| ("suffix", json!(suffix))));
        let task = Task::start(options, "trafficProducerStart", &arguments)?;
        let start = clock::monotonic_ns();
        loop {
            let seen = task.read(0)?;
            let messages = seen["messages"].as_str().unwrap_or_default();
            if messages.contains(RUNNING) {
                return Ok(Self(task));
            }
            if !is_running(&seen) {
                bail!("the producer has ended at once: {}", messages.trim());
            }
            if since(start) >= START_TIMEOUT {
                bail!("the producer is not ready after a minute: {}", messages.trim());
            }
            clock::pause(START_INTERVAL);
        }
    }

    /// CPU time so far.
    pub(super) fn cpu(&self) -> anyhow::Result<Duration> {
        let task = self.0.read(0)?;
        let reason =
            || format!("the producer has ended: {}", task["messages"].as_str().unwrap_or(""));
        Ok(Duration::from_nanos(task["cpuNs"].as_u64().with_context(reason)?))
    }
}

/// A consumer of a node on another host.
pub(super) struct RemoteConsumer {
    stop: Arc<AtomicBool>,
    reason: Arc<Mutex<String>>,
    /// Started by [`RemoteConsumer::go`].
    ready: Option<Follower>,
    thread: Option<JoinHandle<()>>,
}

/// A follower of the task.
struct Follower {
    options: ApiOptions,
    order: Order,
    number: usize,
    reports: Sender<Reported>,
}

impl RemoteConsumer {
    /// One that waits for [`RemoteConsumer::go`]. Its figures go to `reports` with this number.
    pub(super) fn new(
        options: &ApiOptions,
        order: Order,
        (number, reports): (usize, Sender<Reported>),
    ) -> anyhow::Result<Self> {
        // A token or a version that cannot be used is reported before the trial begins.
        Api::of_node(options)?;
        let ready = Some(Follower { options: options.clone(), order, number, reports });
        Ok(Self { stop: Arc::default(), reason: Arc::default(), ready, thread: None })
    }

    /// Begins to fetch.
    pub(super) fn go(&mut self) -> anyhow::Result<()> {
        let Some(follower) = self.ready.take() else { return Ok(()) };
        let (stop, reason) = (Arc::clone(&self.stop), Arc::clone(&self.reason));
        let run = move || {
            if let Err(error) = follower.follow(&stop) {
                *reason.lock().unwrap_or_else(PoisonError::into_inner) = format!("{error:#}");
            }
            // Nobody waits for it after an interrupt.
            let _ = follower.reports.send((follower.number, None));
        };
        self.thread = Some(std::thread::Builder::new().name("figures".to_owned()).spawn(run)?);
        Ok(())
    }

    /// Why it has ended.
    pub(super) fn reason(&self) -> String {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for RemoteConsumer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The reason has been reported.
            let _ = thread.join();
        }
    }
}

impl Follower {
    /// Passes the figures on until the last ones.
    fn follow(&self, stop: &AtomicBool) -> anyhow::Result<()> {
        let Order {
            transport, names, can_be_prefix, is_repeated, verify, window, duration, ..
        } = &self.order;
        let arguments = [
            ("transport", json!(transport)),
            ("names", json!(names)),
            ("canBePrefix", json!(can_be_prefix)),
            ("repeated", json!(is_repeated)),
            ("verify", json!(verify)),
            ("durationS", json!(duration.as_secs())),
            match window.parse::<u32>() {
                Ok(size) => ("window", json!(size)),
                Err(_) => ("congestion", json!(window)),
            },
        ];
        let task = Task::start(&self.options, "benchmarkFetchStart", &arguments)?;
        let mut lines = Lines::default();
        while !stop.load(Ordering::Relaxed) {
            let seen = task.read(lines.length)?;
            for figures in lines.take(seen["result"].as_str().unwrap_or_default())? {
                let is_end = figures.is_end;
                if self.reports.send((self.number, Some(figures))).is_err() || is_end {
                    return Ok(());
                }
            }
            if !is_running(&seen) {
                bail!("{}", seen["messages"].as_str().unwrap_or_default().trim());
            }
            clock::pause(INTERVAL);
        }
        Ok(())
    }
}

/// The lines of a result that is read in parts.
#[derive(Debug, Default)]
struct Lines {
    /// Length of the parts so far.
    length: usize,
    /// The last line, which is not complete.
    rest: String,
}

impl Lines {
    /// The figures that the next part completes.
    fn take(&mut self, part: &str) -> anyhow::Result<Vec<Figures>> {
        self.length += part.len();
        self.rest.push_str(part);
        let Some(end) = self.rest.rfind('\n') else { return Ok(Vec::new()) };
        let rest = self.rest.split_off(end + 1);
        let complete = std::mem::replace(&mut self.rest, rest);
        let figures = complete.lines().map(|line| serde_json::from_str(line).context("figures"));
        figures.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// An API that starts a task beside one of somebody else, and closes the connection before it answers.
    #[test]
    fn task_whose_start_is_not_answered_is_found_and_ended() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let api = std::thread::spawn(move || {
            let task = |id: u64, name: &str| json!({ "id": id, "kind": "trafficProducer", "arguments": ["--", "/A", name] });
            let mut tasks = vec![task(4, "/mine")];
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                let (mut line, mut length) = (String::from("first"), 0);
                while !line.trim().is_empty() {
                    line.clear();
                    stream.read_line(&mut line).unwrap();
                    let field = line.to_lowercase();
                    let value = field.strip_prefix("content-length:");
                    length = value.map_or(length, |value| value.trim().parse().unwrap());
                }
                let mut query = vec![0; length];
                stream.read_exact(&mut query).unwrap();
                let query = String::from_utf8(query).unwrap();
                if query.contains("Start") {
                    tasks = vec![task(6, "/other"), task(5, "/mine"), task(4, "/mine")];
                    continue;
                }
                let answer = json!({ "data": {
                    "version": { "version": env!("CARGO_PKG_VERSION") }, "tasks": tasks,
                } });
                let answer = answer.to_string();
                let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length:";
                write!(stream.get_mut(), "{head} {}\r\n\r\n{answer}", answer.len()).unwrap();
                if query.contains("taskStop") {
                    return query;
                }
            }
            unreachable!("a listener has no end")
        });
        let arguments = [("prefixes", json!(["/A", "/mine"])), ("payload", json!(9))];
        let options = ApiOptions { url, token: "secret".to_owned() };
        let task = Task::start(&options, "trafficProducerStart", &arguments).unwrap();
        assert_eq!(task.id, 5);
        drop(task);
        assert!(api.join().unwrap().contains("taskStop(id: 5)"));
    }

    #[test]
    fn figures_are_read_from_parts_of_lines() {
        let of = |data| Figures { data, ..Figures::default() };
        let text: String = (1..=3)
            .map(|data| format!("{}\n", serde_json::to_string(&of(data)).unwrap()))
            .collect();
        for cut in 0..text.len() {
            let mut lines = Lines::default();
            let mut read = lines.take(&text[..cut]).unwrap();
            assert_eq!(lines.length, cut);
            read.extend(lines.take(&text[cut..]).unwrap());
            assert_eq!(read, [of(1), of(2), of(3)]);
        }
        assert!(Lines::default().take("no figures\n").is_err());
    }
}
