//! Programs of other projects that transfer a file: NDN tools over their own forwarders, and a web server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::cases::FetchedContent;
use super::folder::Served;
use super::programs::{CasePrograms, Fetcher, Server, command, first, forwarder, free_port};
use crate::relay::program::Program;

/// Other programs to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Other {
    /// `ndnd put` and `ndnd cat` over ndnd.
    Ndnd,
    /// `ndnputchunks` and `ndncatchunks` over NFD.
    Nfd,
    /// `curl` from nginx over loopback TCP, without verification.
    Nginx,
}

pub(super) const ALL: [Other; 3] = [Other::Ndnd, Other::Nfd, Other::Nginx];

impl Other {
    pub(super) fn case(self) -> &'static str {
        match self {
            Self::Ndnd => "ndnd-unix",
            Self::Nfd => "nfd-unix-chunks",
            Self::Nginx => "nginx-curl",
        }
    }

    /// Returns the verification of the fetcher: `ndnd cat` and `ndncatchunks` verify neither signatures nor digests,
    /// and TCP has checksums.
    pub(super) fn verified(self) -> &'static str {
        match self {
            Self::Ndnd | Self::Nfd | Self::Nginx => "nothing",
        }
    }

    /// A long file would take minutes.
    pub(super) fn what(self) -> FetchedContent {
        match self {
            Self::Ndnd | Self::Nfd => FetchedContent::Part,
            Self::Nginx => FetchedContent::File,
        }
    }

    fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Ndnd => &["ndnd"],
            Self::Nfd => &["nfd", "ndnputchunks", "ndncatchunks"],
            Self::Nginx => &["nginx", "curl"],
        }
    }

    /// Returns the first of its programs that is not on PATH.
    pub(super) fn missing(self) -> Option<&'static str> {
        self.programs().iter().copied().find(|program| on_path(program).is_none())
    }
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Starts the programs of `other`.
pub(super) fn start(
    other: Other,
    folder: &Path,
    cpus: &[usize],
    served: Served,
) -> anyhow::Result<CasePrograms> {
    match other {
        Other::Ndnd => {
            let executable = located("ndnd")?;
            let put: &[&str] = &["put", "--expose", "/bench/file"];
            let cat = ["cat", "/bench/file"];
            let producer = (executable.clone(), put, "Registered route");
            over(Program::Ndnd, (folder, cpus), served, producer, (executable, &cat))
        }
        Other::Nfd => {
            let put: &[&str] = &["/bench/file"];
            let cat = ["-q", "/bench/file"];
            let producer = (located("ndnputchunks")?, put, " with prefix ");
            let consumer = (located("ndncatchunks")?, &cat[..]);
            over(Program::Nfd, (folder, cpus), served, producer, consumer)
        }
        Other::Nginx => nginx(folder, cpus, served),
    }
}

fn located(program: &str) -> anyhow::Result<PathBuf> {
    on_path(program).with_context(|| format!("{program} is not on PATH"))
}

/// Starts a producer that reads the file from standard input, for a consumer that writes to standard output.
fn over(
    program: Program,
    (folder, cpus): (&Path, &[usize]),
    served: Served,
    (producer, put, ready): (PathBuf, &[&str], &str),
    (consumer, cat): (PathBuf, &[&str]),
) -> anyhow::Result<CasePrograms> {
    let executable = program.locate().with_context(|| format!("no {}", program.name()))?;
    let (forwarder, socket) = forwarder(program, &executable, folder, first(cpus), 0)?;
    let mut command = command(&producer, &socket, folder);
    command.args(put);
    let server = Server::start(command, ready, Some(fs::File::open(&served.path)?), folder)?;
    let fetcher = Fetcher {
        executable: consumer,
        arguments: cat.iter().map(|&argument| argument.to_owned()).collect(),
        to_stdout: true,
        transport: format!("unix://{}", socket.display()),
    };
    let (folder, forwarder, cpus) = (folder.to_owned(), Some(forwarder), cpus.to_owned());
    Ok(CasePrograms { folder, case: None, served, fetcher, cpus, server, forwarder, socket })
}

/// Starts nginx as one process with its own configuration, on a free port.
fn nginx(folder: &Path, cpus: &[usize], served: Served) -> anyhow::Result<CasePrograms> {
    let port = free_port()?;
    let own = folder.join("nginx");
    fs::create_dir_all(&own)?;
    let (own, root) = (own.display(), served.root());
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("  {kind}_temp_path {own}/{kind};\n"))
        .collect();
    let text = format!(
        "daemon off;\nmaster_process off;\nerror_log stderr warn;\npid {own}/pid;\nevents {{}}\n\
         http {{\n{temporary}  access_log off;\n  sendfile on;\n  server {{\n\
         \x20   listen 127.0.0.1:{port};\n    location / {{ root {}; }}\n  }}\n}}\n",
        root.display()
    );
    let config = folder.join("nginx.conf");
    fs::write(&config, text)?;
    let mut command = Command::new(located("nginx")?);
    command.arg("-c").arg(&config).arg("-p").arg(folder);
    let server = Server::start_listening(command, port, folder)?;
    let url = format!("http://127.0.0.1:{port}/{}", served.what.name());
    let arguments = ["--silent", "--show-error", "--fail", "--output", "OUTPUT", &url];
    let fetcher = Fetcher {
        executable: located("curl")?,
        arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
        to_stdout: false,
        transport: String::new(),
    };
    let (folder, cpus) = (folder.to_owned(), cpus.to_owned());
    let socket = PathBuf::new();
    Ok(CasePrograms { folder, case: None, served, fetcher, cpus, server, forwarder: None, socket })
}
