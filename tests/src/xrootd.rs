//! XRootD's server and its programs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::{Process, run_to_end, wait_until};

/// A running server.
#[derive(Debug)]
pub struct XRootD {
    process: Process,
    port: u16,
}

impl XRootD {
    /// Starts a server with these lines of configuration, and others for its port and its files, which are in the folder
    /// `name` of `directory`. Other users can open the directory from now on.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn start(name: &str, configuration: &str, directory: &Path) -> Self {
        let own = directory.join(name);
        fs::create_dir_all(own.join("run")).unwrap();
        let file = own.join("xrootd.cfg");
        let run = own.join("run").display().to_string();
        let fixed =
            format!("xrd.port any\nxrd.network nodnr\nall.adminpath {run}\nall.pidpath {run}\n");
        fs::write(&file, fixed + configuration).unwrap();
        let mut command = Command::new("xrootd");
        if rustix::process::geteuid().is_root() {
            // It does not run as root.
            fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
            let mut chown = Command::new("chown");
            chown.args(["-R", "xrootd"]).arg(&own);
            assert!(run_to_end(chown).status.success());
            command.args(["-R", "xrootd"]);
        }
        command.arg("-c").arg(&file).env("HOME", &own).current_dir(&own);
        let mut process = Process::start(name, command, directory);
        let port = wait_until("XRootD to be ready", || {
            assert!(process.is_running(), "{}", process.everything());
            let printed = process.stderr();
            let line = printed.lines().find(|line| {
                line.ends_with("initialization completed.") && line.contains(" anon@")
            })?;
            line.rsplit(':').next()?.split(' ').next()?.parse().ok()
        });
        Self { process, port }
    }

    /// The address of the server.
    #[must_use]
    pub fn address(&self) -> String {
        format!("root://127.0.0.1:{}", self.port)
    }

    /// The URL of a path, which begins with a slash.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.address())
    }

    /// Log of the server.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.stderr()
    }

    /// Whether the server runs.
    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }
}

/// A program of XRootD's client.
#[must_use]
pub fn xrootd_command(program: &str, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("XRDCP_ALLOW_HTTP", "1").env("HOME", directory);
    command
}

/// Copies a file by `xrdcp`.
///
/// # Panics
/// It fails.
#[must_use]
pub fn xrdcp(url: &str, directory: &Path) -> Vec<u8> {
    let out = directory.join("copied");
    let output = try_xrdcp(url, &out, directory);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read(&out).unwrap()
}

/// Copies a file to `out` by `xrdcp`.
#[must_use]
pub fn try_xrdcp(url: &str, out: &Path, directory: &Path) -> Output {
    let mut command = xrootd_command("xrdcp", directory);
    command.args(["--nopbar", "--force", url]).arg(out);
    run_to_end(command)
}

/// Reads from the file of which the URL and a copy are given, with one vectored read for each further argument
/// (`offset+length`, more of them after commas).
const VECTOR_READS: &str = r#"
import sys
from XRootD import client
url, copy, *reads = sys.argv[1:]
content = open(copy, "rb").read()
file = client.File()
status, _ = file.open(url)
assert status.ok, status
for read in reads:
    wanted = [tuple(map(int, part.split("+"))) for part in read.split(",")]
    status, read = file.vector_read(wanted)
    assert status.ok, status
    assert [(part.offset, part.length) for part in read.chunks] == wanted
    for part in read.chunks:
        assert bytes(part.buffer) == content[part.offset:part.offset + part.length], part.offset
    print(len(read.chunks))
file.close()
"#;

/// Reads by XRootD's module for Python: one vectored read of each element of `reads`, of `(offset, length)`; their bytes have
/// to be those of `copy`. Prints the number of parts of each.
#[must_use]
pub fn xrootd_vector_reads(
    url: &str,
    copy: &Path,
    reads: &[Vec<(usize, usize)>],
    directory: &Path,
) -> Output {
    let argument = |read: &Vec<(usize, usize)>| {
        let parts: Vec<_> = read.iter().map(|(at, length)| format!("{at}+{length}")).collect();
        parts.join(",")
    };
    let mut command = xrootd_command("/usr/bin/python3", directory);
    command.args(["-c", VECTOR_READS, url]).arg(copy).args(reads.iter().map(argument));
    run_to_end(command)
}
