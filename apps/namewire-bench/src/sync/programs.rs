//! The programs that copy the tree: `namewire sync`, rsync and rclone, each from a server of its own over loopback.

use std::fs::{self, File};
use std::io::Read;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::program;
use crate::started::{Folder, Process, free_port};

/// A program that keeps a copy of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Copier {
    Namewire,
    Rsync,
    Rclone,
}

impl Copier {
    pub(super) const ALL: [Self; 3] = [Self::Namewire, Self::Rsync, Self::Rclone];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Namewire => "namewire",
            Self::Rsync => "rsync",
            Self::Rclone => "rclone",
        }
    }

    /// The program; none if it is not installed.
    fn executable(self) -> Option<PathBuf> {
        match self {
            Self::Namewire => program::namewire().ok(),
            Self::Rsync | Self::Rclone => program::on_path(self.name()),
        }
    }
}

/// The servers of the tree, and the folder of all files.
#[derive(Debug)]
pub(super) struct Programs {
    // Dropped in this order.
    servers: Vec<Process>,
    /// Each program that is installed, with the port of its server.
    copiers: Vec<(Copier, PathBuf, u16)>,
    /// The rules by which `namewire sync` verifies files.
    rules: Option<PathBuf>,
    folder: Folder,
}

impl Programs {
    /// Creates the folder and starts the servers of the directory `source` in it. With `rules`, that of `namewire sync` signs
    /// with an identity, and files are verified by trust rules.
    pub(super) fn start(folder: Folder, source: &Path, rules: bool) -> anyhow::Result<Self> {
        let mut programs = Self { servers: Vec::new(), copiers: Vec::new(), rules: None, folder };
        if let Some(executable) = Copier::Namewire.executable().filter(|_| rules) {
            programs.rules = Some(programs.make_rules(&executable)?);
        }
        for copier in Copier::ALL {
            let Some(executable) = copier.executable() else { continue };
            let port = free_port()?;
            let servers = match copier {
                Copier::Namewire => programs.namewire(&executable, source)?,
                Copier::Rsync => vec![programs.rsync(&executable, source, port)?],
                Copier::Rclone => vec![programs.rclone(&executable, source, port)?],
            };
            // The file server ends before its forwarder.
            programs.servers.splice(0..0, servers);
            programs.copiers.push((copier, executable, port));
        }
        Ok(programs)
    }

    /// The programs that are installed.
    pub(super) fn copiers(&self) -> Vec<Copier> {
        self.copiers.iter().map(|(copier, ..)| *copier).collect()
    }

    /// Makes `copy` equal to the tree; returns the time of the process.
    pub(super) fn copy(&self, copier: Copier, copy: &Path) -> anyhow::Result<Duration> {
        let found = self.copiers.iter().find(|(one, ..)| *one == copier);
        let (_, executable, port) = found.context(copier.name())?;
        let mut command = self.command(executable);
        match copier {
            Copier::Namewire => {
                match copy.exists() {
                    true => command.args(["sync", "--delete", "/bench"]).arg(copy),
                    false => command.args(["get", "--recursive", "/bench", "--output"]).arg(copy),
                };
                if let Some(rules) = &self.rules {
                    command.arg(format!("--verify=rules:{}", rules.display()));
                }
            }
            Copier::Rsync => {
                let source = format!("rsync://127.0.0.1:{port}/tree/");
                command.args(["--archive", "--delete", &source]).arg(copy);
            }
            Copier::Rclone => {
                let url = format!("http://127.0.0.1:{port}");
                command.args(["sync", "--create-empty-src-dirs", "--webdav-url", &url, ":webdav:"]);
                command.arg(copy);
            }
        }
        let start = Instant::now();
        let (status, printed) = run_in_terminal(command).with_context(|| copier.name())?;
        let time = start.elapsed();
        ensure!(status.success(), "{}: {}", copier.name(), printed.trim());
        Ok(time)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, executable: &Path) -> Command {
        let mut command = Command::new(executable);
        let socket = format!("unix://{}", self.path("nfd.sock").display());
        command.env("NDN_CLIENT_TRANSPORT", socket).env("HOME", self.folder.path());
        command.env("XDG_CACHE_HOME", self.path("cache")).env("NO_PROXY", "*");
        command.env("RCLONE_CONFIG", self.path("rclone.conf")).current_dir(self.folder.path());
        command
    }

    fn namewire(&self, executable: &Path, source: &Path) -> anyhow::Result<Vec<Process>> {
        let mut forwarder = self.command(executable);
        forwarder.arg("run").arg("--socket").arg(self.path("nfd.sock"));
        forwarder.args(["--no-udp", "--no-tcp"]);
        let ready = |printed: &str| printed.contains("listening on");
        let forwarder = Process::serve(self.folder.path(), "forwarder", forwarder, ready)?;
        let mut server = self.command(executable);
        server.arg("serve").arg(source).args(["--prefix", "/bench"]);
        if self.rules.is_some() {
            server.args(["--identity", "/bench"]);
        }
        let server = Process::serve(self.folder.path(), "server", server, |printed| {
            printed.contains("serving ")
        })?;
        Ok(vec![server, forwarder])
    }

    /// Makes the identity of the server, and the rules that trust it.
    fn make_rules(&self, executable: &Path) -> anyhow::Result<PathBuf> {
        let printed = |arguments: &[&str]| {
            let output = self.command(executable).args(arguments).output().context("namewire")?;
            let complaint = String::from_utf8_lossy(&output.stderr);
            ensure!(
                output.status.success(),
                "namewire {}: {}",
                arguments.join(" "),
                complaint.trim()
            );
            Ok(output.stdout)
        };
        printed(&["key", "gen", "/bench"])?;
        fs::write(self.path("root.cert"), printed(&["cert", "dump", "/bench"])?)?;
        let rules = self.path("bench.rules");
        fs::write(&rules, "anchor root.cert\ndata /bench/** by /bench\n")?;
        Ok(rules)
    }

    fn rsync(&self, executable: &Path, source: &Path, port: u16) -> anyhow::Result<Process> {
        let (file, path) = (self.path("rsyncd.conf"), source.display());
        let user = rustix::process::geteuid().as_raw();
        let group = rustix::process::getegid().as_raw();
        // A daemon of root would read as another user.
        let identity =
            if user == 0 { format!("uid = {user}\ngid = {group}\n") } else { String::new() };
        let text = format!("use chroot = no\n{identity}[tree]\npath = {path}\nread only = yes\n");
        fs::write(&file, text)?;
        let mut daemon = self.command(executable);
        daemon.args(["--daemon", "--no-detach", "--address=127.0.0.1", &format!("--port={port}")]);
        daemon.arg("--config").arg(&file);
        Process::serve(self.folder.path(), "rsyncd", daemon, |_| is_listening(port))
    }

    fn rclone(&self, executable: &Path, source: &Path, port: u16) -> anyhow::Result<Process> {
        let mut server = self.command(executable);
        server.args(["serve", "webdav", "--read-only", "--dir-cache-time", "0s"]);
        server.args(["--addr", &format!("127.0.0.1:{port}")]).arg(source);
        Process::serve(self.folder.path(), "rclone", server, |_| is_listening(port))
    }
}

/// Runs a program whose standard error is a terminal, so that it shows its progress; returns what it wrote there.
fn run_in_terminal(mut command: Command) -> anyhow::Result<(ExitStatus, String)> {
    let mut terminal =
        File::from(openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?);
    grantpt(&terminal)?;
    unlockpt(&terminal)?;
    let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal, size)?;
    let path = ptsname(&terminal, Vec::new())?;
    let standard_error = File::options().read(true).write(true).open(path.to_str()?)?;
    command.env("TERM", "xterm").stdin(Stdio::null()).stdout(Stdio::null()).stderr(standard_error);
    let mut child = command.spawn()?;
    // Reading ends with an error when no process has the other side open.
    drop(command);
    let (mut printed, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(length @ 1..) = terminal.read(&mut piece) {
        printed.extend_from_slice(&piece[..length]);
    }
    Ok((child.wait()?, String::from_utf8_lossy(&printed).into_owned()))
}

fn is_listening(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}
