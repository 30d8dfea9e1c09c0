//! The forwarder as users start it, with two or more workers: balance of the load, and cost when idle.

mod idle;
mod skew;

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use crate::relay::clock;
use crate::started::{Folder, Process};

pub use idle::{IdleOptions, IdleReport, run_idle};
pub use skew::{SkewCase, SkewOptions, SkewReport, run_skew};

/// Start timeout of the forwarder.
const START_TIMEOUT_NS: u64 = 10_000_000_000;

/// Processes and files of a bench; removed on drop.
#[derive(Debug)]
struct Live {
    executable: PathBuf,
    forwarder: Process,
    /// Removed after the end of the forwarder.
    folder: Folder,
}

/// Interest counters of a worker's shard.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
struct Interests {
    entered: u64,
    passed_on: u64,
}

impl Live {
    /// Starts a forwarder with `workers` workers.
    fn start(workers: usize) -> anyhow::Result<Self> {
        let folder = Folder::new(&format!("namewire-live-{}", std::process::id()))?;
        let executable = crate::program::namewire()?;
        let config = folder.path().join("namewire.toml");
        let socket = folder.path().join("forwarder.sock");
        let text = format!(
            "[forwarder]\nworkers = {workers}\n[log]\nlevel = \"warn\"\n\
             [listeners.unix]\npath = {socket:?}\n\
             [listeners.tcp]\nenabled = false\n[listeners.udp]\nenabled = false\n\
             [listeners.multicast]\nenabled = false\n"
        );
        fs::write(&config, text)?;
        let mut command = Command::new(&executable);
        command.arg("run").arg("--config").arg(config);
        let forwarder = spawn(&mut command, folder.path(), "forwarder")?;
        let mut live = Self { executable, forwarder, folder };
        let begin = clock::monotonic_ns();
        while UnixStream::connect(live.socket()).is_err() {
            if live.forwarder.try_wait()?.is_some() {
                let printed = fs::read_to_string(live.folder.path().join("forwarder.err"));
                bail!("the forwarder ended at once: {}", printed.unwrap_or_default().trim());
            }
            ensure!(
                clock::monotonic_ns() - begin < START_TIMEOUT_NS,
                "the forwarder does not listen"
            );
            clock::pause(Duration::from_millis(5));
        }
        Ok(live)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("forwarder.sock")
    }

    /// Returns a command of a program that uses the forwarder.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.executable);
        command.args(arguments);
        command.env("NDN_CLIENT_TRANSPORT", format!("unix://{}", self.socket().display()));
        command
    }

    /// Starts such a command.
    fn spawn(&self, name: &str, arguments: &[&str]) -> anyhow::Result<Process> {
        spawn(&mut self.command(arguments), self.folder.path(), name)
    }

    /// Returns the Interests forwarded by each shard, without those passed to other shards.
    fn interests(&self) -> anyhow::Result<Vec<u64>> {
        #[derive(Deserialize)]
        struct Worker {
            total: Total,
        }
        #[derive(Deserialize)]
        struct Total {
            interests: Interests,
        }
        let output = self.command(&["workers", "--duration", "10ms", "--json"]).output()?;
        if !output.status.success() {
            bail!("no figures of the workers: {}", String::from_utf8_lossy(&output.stderr));
        }
        let workers: Vec<Worker> = serde_json::from_slice(&output.stdout)?;
        let interests = workers.into_iter().map(|worker| worker.total.interests);
        Ok(interests.map(|one| one.entered.saturating_sub(one.passed_on)).collect())
    }
}

/// Starts a process whose output goes to files.
fn spawn(command: &mut Command, folder: &Path, name: &str) -> anyhow::Result<Process> {
    command.stdin(Stdio::null());
    command.stdout(fs::File::create(folder.join(format!("{name}.out")))?);
    command.stderr(fs::File::create(folder.join(format!("{name}.err")))?);
    Process::spawn(command).with_context(|| format!("cannot start {command:?}"))
}
