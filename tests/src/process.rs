//! Processes that end with the test.

use std::fs::File;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::wait_until;

/// A running process; killed when dropped. What it prints goes to files, so that it never blocks
/// and a failing test can show it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
    name: String,
}

impl Process {
    /// Starts `command`; `directory` gets files with what it prints.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn start(name: &str, mut command: Command, directory: &Path) -> Self {
        let stdout = directory.join(format!("{name}.stdout"));
        let stderr = directory.join(format!("{name}.stderr"));
        command.stdin(Stdio::null());
        command.stdout(File::create(&stdout).expect("a file for standard output"));
        command.stderr(File::create(&stderr).expect("a file for standard error"));
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{name} ({command:?}) cannot be started: {error}"));
        Self { child, stdout, stderr, name: name.to_owned() }
    }

    /// The standard output so far.
    pub fn stdout(&self) -> String {
        read(&self.stdout)
    }

    /// The standard error so far.
    pub fn stderr(&self) -> String {
        read(&self.stderr)
    }

    /// Waits until a line of its standard output contains `text`.
    ///
    /// # Panics
    /// It ends, or too much time passes.
    pub fn wait_for_output(&mut self, text: &str) {
        let what = format!("{} to print {text}", self.name);
        wait_until(&what, || {
            if self.stdout().contains(text) {
                return Some(());
            }
            if let Some(status) = self.child.try_wait().expect("its state") {
                panic!(
                    "{} ended with {status} before it printed {text}:\n{}",
                    self.name,
                    self.everything()
                );
            }
            None
        });
    }

    /// Waits until it ends.
    ///
    /// # Panics
    /// It does not.
    pub fn wait(&mut self) -> ExitStatus {
        let what = format!("{} to end", self.name);
        wait_until(&what, || self.child.try_wait().expect("its state"))
    }

    /// Whether it runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("its state").is_none()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        // It may have ended just now, which is for the caller to find out.
        let _ = kill_process(self.pid(), signal);
    }

    /// Its number.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// All that it printed.
    pub fn everything(&self) -> String {
        format!(
            "--- {} stdout\n{}--- {} stderr\n{}",
            self.name,
            self.stdout(),
            self.name,
            self.stderr()
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.everything());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `command` with the default action of SIGHUP, which nohup and service managers ignore for all that they start.
#[must_use]
pub fn ended_by_hangup(command: &Command) -> Command {
    let mut ended = Command::new("env");
    ended.arg("--default-signal=HUP").arg(command.get_program()).args(command.get_args());
    for (variable, value) in command.get_envs() {
        match value {
            Some(value) => ended.env(variable, value),
            None => ended.env_remove(variable),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        ended.current_dir(directory);
    }
    ended
}

fn read(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_else(|error| format!("({error})").into_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Runs `command` to its end.
///
/// # Panics
/// It cannot be started, or does not end in time.
pub fn run_to_end(command: Command) -> Output {
    run_to_end_within(crate::TIMEOUT * 2, command)
}

/// As [`run_to_end`], with a limit of time.
///
/// # Panics
/// It cannot be started, or does not end in time.
pub fn run_to_end_within(limit: Duration, mut command: Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child =
        command.spawn().unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"));
    // Both outputs end with the process, which is noticed at once.
    let (outputs_open, outputs_ended) = mpsc::channel::<()>();
    let drain = |stream: Option<Box<dyn Read + Send>>| {
        let open = outputs_open.clone();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stream.map(|mut stream| stream.read_to_end(&mut bytes));
            drop(open);
            bytes
        })
    };
    let stdout = drain(child.stdout.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>));
    let stderr = drain(child.stderr.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>));
    drop(outputs_open);
    let deadline = crate::now() + limit;
    let _ = outputs_ended.recv_timeout(limit);
    let status = loop {
        if let Some(status) = child.try_wait().expect("its state") {
            break status;
        }
        if crate::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            break ExitStatus::from_raw(9);
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    Output {
        status,
        stdout: stdout.join().expect("no panic"),
        stderr: stderr.join().expect("no panic"),
    }
}
