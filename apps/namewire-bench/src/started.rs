//! Processes and folders of a bench. They end with their owner, or all at once with [`end_started`] on an interrupt.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Maximum time of the start of a server.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Existing processes and folders.
static STARTED: Mutex<Started> = Mutex::new(Started { processes: Vec::new(), folders: Vec::new() });

struct Started {
    /// By process id. The descriptor identifies the process even if the id has been reused.
    processes: Vec<(u32, OwnedFd)>,
    folders: Vec<PathBuf>,
}

fn started() -> MutexGuard<'static, Started> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills all processes that benches of this process have started, including stopped ones, and removes their folders.
/// The caller exits afterwards: a thread that starts or ends another process blocks for ever, so that it does not
/// report the kills.
pub fn end_started() {
    let started = started();
    for (_, process) in &started.processes {
        // A process that has ended on its own needs no signal.
        let _ = pidfd_send_signal(process, Signal::KILL);
    }
    for folder in &started.folders {
        // A leftover folder under the temporary directory is no reason to fail.
        let _ = fs::remove_dir_all(folder);
    }
    std::mem::forget(started);
}

/// A TCP port that is free at this moment.
pub(crate) fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// A started program; killed when dropped.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn spawn(command: &mut Command) -> io::Result<Self> {
        let mut started = started();
        let mut child = command.spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let opened = pid.ok_or_else(|| io::Error::other("a process without a number"));
        match opened.and_then(|pid| Ok(pidfd_open(pid, PidfdFlags::empty())?)) {
            Ok(descriptor) => {
                started.processes.push((child.id(), descriptor));
                Ok(Self(child))
            }
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// Starts a server that prints to a file of its name in `folder`, and waits until `is_ready` accepts what it prints.
    pub(crate) fn serve(
        folder: &Path,
        name: &str,
        mut command: Command,
        is_ready: impl Fn(&str) -> bool,
    ) -> anyhow::Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let out = fs::File::create(&log)?;
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        let mut process = Self::spawn(&mut command).with_context(|| name.to_owned())?;
        let start = Instant::now();
        loop {
            let printed = fs::read_to_string(&log).unwrap_or_default();
            if let Some(status) = process.try_wait()? {
                bail!("{name} ended at once ({status}): {printed}");
            }
            if is_ready(&printed) {
                return Ok(process);
            }
            ensure!(start.elapsed() < START_TIMEOUT, "{name} is not ready: {printed}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Takes the pipes to its input and from its output, if there are any.
    pub(crate) fn pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>) {
        (self.0.stdin.take(), self.0.stdout.take())
    }

    /// Ends the process now.
    pub(crate) fn kill(&mut self) {
        // It may have ended on its own.
        let _ = self.0.kill();
    }

    /// Returns the exit status if the process has ended.
    pub(crate) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.0.try_wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let mut started = started();
        let _ = self.0.kill();
        let _ = self.0.wait();
        let own = self.0.id();
        started.processes.retain(|(process, _)| *process != own);
    }
}

/// A folder under the temporary directory; removed when dropped.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Creates the folder with this name, which must differ between processes.
    pub(crate) fn new(name: &str) -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(name);
        let mut started = started();
        fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        started.folders.push(path.clone());
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let mut started = started();
        // A leftover folder under the temporary directory is no reason to fail.
        let _ = fs::remove_dir_all(&self.0);
        started.folders.retain(|folder| *folder != self.0);
    }
}
