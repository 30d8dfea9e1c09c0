//! Commands of the program that the API runs: traffic generators, fetches, file servers and benchmarks. Each is a process,
//! so that its load and its failures are not those of the forwarder.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{Semaphore, watch};

use crate::calls::{Unanswered, permit_of};
use crate::running_process::RunningProcess;
use crate::tokens::Role;

/// Maximum number of tasks that run at a time.
pub(crate) const RUNNING_MAX: usize = 8;
/// Tasks that are listed; of those that have ended, the oldest is forgotten.
const LISTED_MAX: usize = 50;
/// The last part of the messages of a task that is kept, and the first part of its results, in bytes.
const MESSAGES_LEN_MAX: usize = 16 << 10;
const RESULT_LEN_MAX: usize = 1 << 20;
/// Time that tasks have to end before they are killed.
const END_TIME: Duration = Duration::from_secs(1);
/// Time within which the rest of the output of a process that has ended is read.
const REST_TIME: Duration = Duration::from_millis(200);
/// Shortest and longest time between two results for one who follows the tasks; the longest, while one runs.
const RESULT_TIMES: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];
/// Maximum time to read the history of benchmarks.
const HISTORY_TIME: Duration = Duration::from_secs(5);
/// Maximum time to read the metrics of a task.
const METRICS_TIME: Duration = Duration::from_secs(1);

/// The program that tasks run, and what they may use.
#[derive(Debug, Clone)]
pub struct TaskPrograms {
    /// The program `namewire`.
    pub executable: PathBuf,
    /// The transport that connects them to the forwarder, as in `NDN_CLIENT_TRANSPORT`.
    pub transport: String,
    /// Directories that file servers may serve and fetches may write to.
    pub directories: Vec<PathBuf>,
    /// Directory of files that tasks keep.
    pub state: Option<PathBuf>,
}

/// Program and arguments to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Order {
    /// The kind of the task, such as `fileServer`.
    pub(crate) kind: &'static str,
    /// The role that may stop it.
    pub(crate) role: Role,
    /// The arguments of the program.
    pub(crate) arguments: Vec<String>,
    /// The name of the token.
    pub(crate) principal: String,
    /// Milliseconds since 1970.
    pub(crate) unix_ms: u64,
}

/// A task that cannot be started or stopped; the reason.
pub(crate) type Refused = String;

/// The tasks of a forwarder.
#[derive(Clone)]
pub(crate) struct Tasks {
    programs: Option<Arc<TaskPrograms>>,
    shared: Arc<Shared>,
    /// One: the history is read by a process.
    readings: Arc<Semaphore>,
}

impl fmt::Debug for Tasks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tasks").field("programs", &self.programs).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Shared {
    list: Mutex<List>,
    ended: Condvar,
    /// Notified of each change of the list.
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct List {
    last_id: u64,
    tasks: VecDeque<Task>,
    is_closed: bool,
}

struct Task {
    id: u64,
    order: Order,
    /// Present while the process runs.
    process: Option<RunningProcess>,
    is_stopping: bool,
    status: Option<ExitStatus>,
    messages: Vec<u8>,
    result: Vec<u8>,
}

impl Task {
    fn state(&self) -> &'static str {
        match (self.status, self.is_stopping) {
            (None, false) => "running",
            (None, true) => "stopping",
            (Some(_), true) => "stopped",
            (Some(status), false) if status.success() => "done",
            (Some(_), false) => "failed",
        }
    }

    /// With the results after this number of bytes.
    fn to_json(&self, result_after: usize) -> Value {
        let Order { kind, arguments, principal, unix_ms, .. } = &self.order;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut result = self.result.get(result_after..).unwrap_or_default();
        // A character of which the rest is missing comes with it.
        if let Err(error) = std::str::from_utf8(result)
            && error.error_len().is_none()
        {
            result = &result[..error.valid_up_to()];
        }
        let cpu = self.process.as_ref().and_then(RunningProcess::cpu_time);
        let cpu_ns = cpu.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        json!({
            "id": self.id, "kind": kind, "arguments": arguments, "principal": principal, "unix_ms": unix_ms,
            "state": self.state(), "status": self.status.and_then(|status| status.code()),
            "messages": text(&self.messages), "result": text(result), "metrics": {}, "cpu_ns": cpu_ns,
        })
    }

    /// The address at which it serves its metrics, which it prints.
    fn metrics_url(&self) -> Option<String> {
        let messages = String::from_utf8_lossy(&self.messages);
        let (_, rest) = messages.split_once("metrics at ")?;
        Some(rest.lines().next()?.to_owned())
    }
}

impl Tasks {
    /// No tasks yet; without programs, none can be started.
    pub(crate) fn new(programs: Option<TaskPrograms>) -> Self {
        let (programs, readings) = (programs.map(Arc::new), Arc::new(Semaphore::new(1)));
        Self { programs, shared: Arc::default(), readings }
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.shared.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The programs.
    ///
    /// # Errors
    /// There are none.
    pub(crate) fn programs(&self) -> Result<&TaskPrograms, Refused> {
        let none =
            "this forwarder runs no tasks: it is not the program namewire, or has no Unix socket";
        self.programs.as_deref().ok_or_else(|| none.to_owned())
    }

    /// A path that a task may use: one of the permitted directories, or below one.
    ///
    /// # Errors
    /// It does not exist, or is elsewhere.
    pub(crate) fn permitted(&self, path: &Path) -> Result<PathBuf, Refused> {
        let found = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
        let permitted = self.programs()?.directories.iter();
        let mut permitted = permitted.filter_map(|directory| directory.canonicalize().ok());
        match permitted.any(|directory| found.starts_with(directory)) {
            true => Ok(found),
            false => Err(format!("{}: it is not in control.http.directories", path.display())),
        }
    }

    /// Starts a task, and returns its number.
    ///
    /// # Errors
    /// There are too many, or the program cannot be run.
    pub(crate) fn start(&self, order: Order) -> Result<u64, Refused> {
        let programs = self.programs()?;
        let mut command = command(programs);
        command.args(&order.arguments).env("NDN_CLIENT_TRANSPORT", &programs.transport);
        command.env_remove("NOTIFY_SOCKET").stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let id = self.add(order)?;
        let (started, is_started) = channel();
        let own = self.clone();
        // The process ends with the thread that has started it.
        let thread = std::thread::Builder::new().name("task".to_owned());
        let running = thread.spawn(move || own.run(id, command, &started));
        let spawned = match running {
            Ok(_) => is_started.recv().unwrap_or_else(|_| Err(io::Error::other("no thread"))),
            Err(error) => Err(error),
        };
        if let Err(error) = spawned {
            self.lock().tasks.retain(|task| task.id != id);
            return Err(format!("{}: {error}", programs.executable.display()));
        }
        Ok(id)
    }

    /// Reads the history of benchmarks: the output of the program with these arguments. One is read at a time, on no thread
    /// of the operations.
    ///
    /// # Errors
    /// Others are read; or the program cannot be run, fails, or takes or prints too much.
    pub(crate) async fn read_history(&self, arguments: &[String]) -> Result<String, Unanswered> {
        let programs = self.programs().map_err(Unanswered::Refused)?;
        let _permit = permit_of(&self.readings).await?;
        if self.lock().is_closed {
            return Err(Unanswered::Refused("the forwarder is stopping".to_owned()));
        }
        let mut command = tokio::process::Command::from(command(programs));
        command.args(arguments).env_remove("NOTIFY_SOCKET").stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let reason = match tokio::time::timeout(HISTORY_TIME, output_of(command)).await {
            Err(_) => format!("the history was not read within {} s", HISTORY_TIME.as_secs()),
            Ok(Err(error)) => format!("{}: {error}", programs.executable.display()),
            Ok(Ok(output)) if output.stdout.len() > RESULT_LEN_MAX => {
                format!("the history is longer than {RESULT_LEN_MAX} bytes")
            }
            Ok(Ok(output)) if output.status.success() => {
                return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
            }
            Ok(Ok(output)) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        };
        Err(Unanswered::Refused(reason))
    }

    fn add(&self, order: Order) -> Result<u64, Refused> {
        let mut list = self.lock();
        if list.is_closed {
            return Err("the forwarder is stopping".to_owned());
        }
        if list.tasks.iter().filter(|task| task.status.is_none()).count() >= RUNNING_MAX {
            return Err(format!("{RUNNING_MAX} tasks are running: stop one first"));
        }
        let oldest = list.tasks.iter().position(|task| task.status.is_some());
        if let Some(oldest) = oldest.filter(|_| list.tasks.len() >= LISTED_MAX) {
            list.tasks.remove(oldest);
        }
        list.last_id += 1;
        let id = list.last_id;
        let (process, status, is_stopping) = (None, None, false);
        let (messages, result) = (Vec::new(), Vec::new());
        list.tasks.push_back(Task { id, order, process, is_stopping, status, messages, result });
        self.shared.changed.send_replace(());
        Ok(id)
    }

    /// Runs a process to its end.
    fn run(&self, id: u64, mut command: Command, started: &Sender<io::Result<()>>) {
        let opened = command.spawn().and_then(|mut child| {
            match RunningProcess::of(&child) {
                Ok(process) => Ok((child, process)),
                Err(error) => {
                    // It has not been used yet.
                    let _ = child.kill();
                    let _ = child.wait();
                    Err(error)
                }
            }
        });
        let (mut child, process) = match opened {
            Ok(opened) => opened,
            // The other end waits for it.
            Err(error) => return drop(started.send(Err(error))),
        };
        self.change(id, |task| task.process = Some(process));
        let _ = started.send(Ok(()));
        let (messages, results) = (child.stderr.take(), child.stdout.take());
        let (is_read, all_read) = channel();
        self.read(id, messages, is_read.clone(), |task, part| keep_last(&mut task.messages, part));
        self.read(id, results, is_read, |task, part| {
            let room = RESULT_LEN_MAX.saturating_sub(task.result.len());
            task.result.extend_from_slice(&part[..part.len().min(room)]);
        });
        let status = child.wait().unwrap_or_default();
        // Both have ended with the process, unless a process that it left behind still has its output.
        let _ = all_read.recv_timeout(REST_TIME).and_then(|()| all_read.recv_timeout(REST_TIME));
        self.change(id, |task| (task.process, task.status) = (None, Some(status)));
        self.shared.ended.notify_all();
    }

    /// Reads a pipe of a task to its end, on a thread that reports it.
    fn read(
        &self,
        id: u64,
        pipe: Option<impl Read + Send + 'static>,
        is_read: Sender<()>,
        keep: fn(&mut Task, &[u8]),
    ) {
        let Some(mut pipe) = pipe else { return };
        let own = self.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = pipe.read(&mut buffer) {
                own.change(id, |task| keep(task, &buffer[..length]));
            }
            // Fails if nobody waits for it any more.
            let _ = is_read.send(());
        });
    }

    fn change(&self, id: u64, change: impl FnOnce(&mut Task)) {
        if let Some(task) = self.lock().tasks.iter_mut().find(|task| task.id == id) {
            change(task);
        }
        self.shared.changed.send_replace(());
    }

    /// The changes from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.shared.changed.subscribe()
    }

    /// Waits for the time of the next result for one who follows the tasks; `None` when the server ends.
    pub(crate) async fn next_change(&self, changes: &mut watch::Receiver<()>) -> Option<()> {
        let [shortest, longest] = RESULT_TIMES;
        tokio::time::sleep(shortest).await;
        let is_running = self.lock().tasks.iter().any(|task| task.status.is_none());
        let changed = changes.changed();
        match is_running {
            true => match tokio::time::timeout(longest - shortest, changed).await {
                Ok(changed) => changed.ok(),
                // Its figures have changed.
                Err(_) => Some(()),
            },
            false => changed.await.ok(),
        }
    }

    /// All tasks, or one, the latest first, with their results after this number of bytes.
    pub(crate) fn list(&self, id: Option<u64>, result_after: usize) -> Vec<Value> {
        let list = self.lock();
        let tasks = list.tasks.iter().rev().filter(|task| id.is_none_or(|id| task.id == id));
        tasks.map(|task| task.to_json(result_after)).collect()
    }

    /// The role that may stop a task; `None` if there is no such task.
    pub(crate) fn role_of(&self, id: u64) -> Option<Role> {
        let list = self.lock();
        list.tasks.iter().find(|task| task.id == id).map(|task| task.order.role)
    }

    /// Sends a signal to a task that runs; returns whether there is one.
    pub(crate) fn signal(&self, id: u64, signal: Signal) -> bool {
        let mut list = self.lock();
        let Some(task) = list.tasks.iter_mut().find(|task| task.id == id) else { return false };
        let Some(process) = &task.process else { return false };
        task.is_stopping = true;
        self.shared.changed.send_replace(());
        process.signal(signal);
        true
    }

    /// Ends all tasks; there are no further ones.
    pub(crate) fn end_all(&self) {
        let mut list = self.lock();
        list.is_closed = true;
        for signal in [Signal::INT, Signal::KILL] {
            for task in &mut list.tasks {
                if let Some(process) = &task.process {
                    task.is_stopping = true;
                    process.signal(signal);
                }
            }
            let is_running = |list: &mut List| list.tasks.iter().any(|task| task.status.is_none());
            let waited = self.shared.ended.wait_timeout_while(list, END_TIME, is_running);
            list = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The metrics that a task serves, rounded to whole numbers; none if it does not serve any or does not answer.
    pub(crate) async fn metrics(&self, id: u64) -> BTreeMap<String, u64> {
        let url = self.lock().tasks.iter().find(|task| task.id == id).and_then(|task| {
            // The port of one that has ended may be another program's.
            task.process.as_ref().and_then(|_| task.metrics_url())
        });
        let Some(url) = url else { return BTreeMap::new() };
        let read = async {
            let client = reqwest::Client::builder().no_proxy().timeout(METRICS_TIME).build()?;
            client.get(url).send().await?.text().await
        };
        read.await.map(|text| samples(&text)).unwrap_or_default()
    }
}

/// The command without arguments; where there is `setpriv`, the process ends with the forwarder, whatever ends that.
fn command(programs: &TaskPrograms) -> Command {
    let setpriv = Path::new("/usr/bin/setpriv");
    if !setpriv.exists() {
        return Command::new(&programs.executable);
    }
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(&programs.executable);
    command
}

/// Runs a process to its end. It is killed if the future is dropped before.
async fn output_of(mut command: tokio::process::Command) -> io::Result<Output> {
    let mut child = command.spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr) = tokio::try_join!(first_part(stdout), first_part(stderr))?;
    Ok(Output { status: child.wait().await?, stdout, stderr })
}

/// Reads a pipe to its end; one byte more than the limit if there is more.
async fn first_part(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut part = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(RESULT_LEN_MAX as u64 + 1).read_to_end(&mut part).await?;
    }
    Ok(part)
}

/// Appends to messages, of which the last part is kept, and the first line with an address.
fn keep_last(messages: &mut Vec<u8>, part: &[u8]) {
    messages.extend_from_slice(part);
    let excess = messages.len().saturating_sub(MESSAGES_LEN_MAX);
    if excess > 0 {
        // Whole lines, after the first one.
        let first = messages.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let end = (first + excess).min(messages.len());
        let end =
            messages[end..].iter().position(|byte| *byte == b'\n').map_or(end, |at| end + at + 1);
        messages.drain(first..end);
    }
}

/// The samples of a text in Prometheus' format, without the labels that are the same for all.
fn samples(text: &str) -> BTreeMap<String, u64> {
    let sample = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        let value = value.parse::<f64>().ok()?;
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let labels = labels.trim_end_matches('}').split(',');
        let own = labels.filter(|label| !label.is_empty() && !label.starts_with("host="));
        let own: Vec<&str> = own.collect();
        let name = match own.is_empty() {
            true => name.to_owned(),
            false => format!("{name}{{{}}}", own.join(",")),
        };
        Some((name, to_whole(value)))
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(sample).collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "such a conversion saturates, and metrics are not negative"
)]
fn to_whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Tasks that are commands of the shell.
    fn tasks() -> Tasks {
        Tasks::new(Some(TaskPrograms {
            executable: "/bin/sh".into(),
            transport: "unix:///nowhere".to_owned(),
            directories: vec![std::env::temp_dir()],
            state: None,
        }))
    }

    fn start(tasks: &Tasks, script: &str) -> Result<u64, Refused> {
        let arguments = ["-c", script].map(str::to_owned).to_vec();
        let (role, principal) = (Role::Operate, "test".to_owned());
        tasks.start(Order { kind: "fetch", role, arguments, principal, unix_ms: 5 })
    }

    fn wait(tasks: &Tasks, id: u64, state: &str) -> Value {
        wait_for(tasks, id, ("state", state))
    }

    #[expect(clippy::disallowed_methods, reason = "processes run in real time")]
    fn wait_for(tasks: &Tasks, id: u64, (field, value): (&str, &str)) -> Value {
        let start = Instant::now();
        loop {
            let task = tasks.list(Some(id), 0).remove(0);
            if task[field] == value {
                return task;
            }
            assert!(start.elapsed() < Duration::from_secs(30), "{task}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn results_messages_and_exit_status_are_kept() {
        let tasks = tasks();
        let id = start(&tasks, "echo $NDN_CLIENT_TRANSPORT; echo why >&2; exit 3").unwrap();
        let task = wait(&tasks, id, "failed");
        assert_eq!((&task["status"], &task["result"]), (&json!(3), &json!("unix:///nowhere\n")));
        for (after, result) in [(5, "///nowhere\n"), (16, ""), (17, "")] {
            assert_eq!(tasks.list(Some(id), after)[0]["result"], result);
        }
        assert!(task["cpu_ns"].is_null());
        assert_eq!((&task["messages"], &task["principal"]), (&json!("why\n"), &json!("test")));
        let id = start(&tasks, "true").unwrap();
        wait(&tasks, id, "done");
        assert!(!tasks.signal(id, Signal::INT) && !tasks.signal(99, Signal::INT));
    }

    async fn read_history(tasks: &Tasks, script: &str) -> Result<String, Refused> {
        let read = tasks.read_history(&["-c", script].map(str::to_owned)).await;
        read.map_err(|failure| failure.to_string())
    }

    #[tokio::test]
    async fn history_is_read_or_its_reason_is_given() {
        let tasks = tasks();
        assert_eq!(read_history(&tasks, "echo { }").await, Ok("{ }\n".to_owned()));
        let failed = read_history(&tasks, "echo out; echo why >&2; exit 1").await;
        assert_eq!(failed, Err("why".to_owned()));
        let long = read_history(&tasks, "head -c 2000000 /dev/zero").await;
        assert_eq!(long, Err("the history is longer than 1048576 bytes".to_owned()));
        tasks.end_all();
        let late = read_history(&tasks, "echo { }").await;
        assert_eq!(late, Err("the forwarder is stopping".to_owned()));
        assert!(Tasks::new(None).read_history(&[]).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn history_that_is_not_read_in_time_makes_room_for_others() {
        let tasks = tasks();
        let late = read_history(&tasks, "exec sleep 1000").await;
        assert_eq!(late, Err("the history was not read within 5 s".to_owned()));
        let other = tasks.readings.acquire().await.unwrap();
        let busy = read_history(&tasks, "echo { }").await;
        assert_eq!(busy, Err("too many requests at a time".to_owned()));
        drop(other);
        tokio::time::resume();
        assert_eq!(read_history(&tasks, "echo { }").await, Ok("{ }\n".to_owned()));
    }

    #[test]
    fn running_tasks_are_limited_and_end_with_the_server() {
        let tasks = tasks();
        for _ in 0..RUNNING_MAX {
            start(&tasks, "exec sleep 1000").unwrap();
        }
        assert!(start(&tasks, "true").unwrap_err().contains("8 tasks are running"));
        assert!(tasks.signal(1, Signal::TERM));
        wait(&tasks, 1, "stopped");
        // One that does not obey, and leaves a process behind that has its output.
        let command = "trap '' INT; echo ready >&2; while :; do sleep 5; done";
        let id = start(&tasks, command).unwrap();
        let task = wait_for(&tasks, id, ("messages", "ready\n"));
        assert!(task["cpu_ns"].as_u64() > Some(0), "{task}");
        tasks.end_all();
        assert!(tasks.list(None, 0).iter().all(|task| task["state"] == "stopped"));
        assert_eq!(tasks.list(Some(id), 0).len(), 1);
        assert!(start(&tasks, "true").unwrap_err().contains("stopping"));
    }

    #[tokio::test(start_paused = true)]
    async fn followers_of_tasks_notice_each_change() {
        let tasks = tasks();
        let mut changes = tasks.changes();
        let longer = RESULT_TIMES[1] * 100;
        let idle = tokio::time::timeout(longer, tasks.next_change(&mut changes)).await;
        assert!(idle.is_err(), "nothing runs, and nothing has changed");
        let follower = tasks.clone();
        let next = tokio::spawn(async move { follower.next_change(&mut changes).await });
        tokio::time::sleep(longer).await;
        start(&tasks, "true").unwrap();
        assert_eq!(next.await.unwrap(), Some(()));
    }

    #[test]
    fn paths_elsewhere_are_refused() {
        let tasks = tasks();
        let inside = tempfile::tempdir().unwrap();
        assert!(tasks.permitted(inside.path()).is_ok());
        let link = inside.path().join("link");
        std::os::unix::fs::symlink("/etc", &link).unwrap();
        for path in ["/", "/etc", link.to_str().unwrap(), "/nowhere"] {
            assert!(tasks.permitted(Path::new(path)).is_err(), "{path}");
        }
        assert!(Tasks::new(None).permitted(inside.path()).is_err());
    }

    #[test]
    fn messages_are_bounded_and_keep_the_address_of_metrics() {
        let mut messages = b"metrics at http://127.0.0.1:1/metrics\n".to_vec();
        for number in 0..10_000 {
            keep_last(&mut messages, format!("line {number}\n").as_bytes());
        }
        let text = String::from_utf8(messages).unwrap();
        assert!(text.len() <= MESSAGES_LEN_MAX && text.ends_with("line 9999\n"), "{}", text.len());
        assert!(text.starts_with("metrics at http://127.0.0.1:1/metrics\nline "), "{text}");
    }

    #[test]
    fn samples_are_read_from_their_text() {
        let text = "# HELP a_total A.\n# TYPE a_total counter\na_total{host=\"x\"} 3\n\
                    b_total{host=\"x\",reason=\"timeout\"} 4.6\nc 1e3\n";
        let expected = [("a_total", 3), ("b_total{reason=\"timeout\"}", 5), ("c", 1000)];
        assert_eq!(samples(text), expected.map(|(name, value)| (name.to_owned(), value)).into());
    }
}
