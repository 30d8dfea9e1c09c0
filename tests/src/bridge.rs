//! Hosts in network namespaces of their own, on a bridge.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::peers::{skip, skip_unless_found};
use crate::process::{Process, run_to_end};
use crate::program::program;
use crate::wait_until;

/// A bridge, and hosts with one port of it each, whose forwarders are started by `host*.sh`. What
/// appears in `commands` is done beside the bridge. All of it ends with the first process.
const SCRIPT: &str = r#"
set -e
cd "$1"
mount -t sysfs sysfs /sys 2>/dev/null || true
ip link set lo up
ip link add bridge0 type bridge
ip link set bridge0 up
plug() {
  ip link add port$1 mtu 9000 type veth peer name eth0 address 02:00:00:00:00:0$1 mtu 9000 netns $(cat host$1.pid)
  ip link set port$1 master bridge0
  ip link set port$1 up
  nsenter -n -t $(cat host$1.pid) ip link set eth0 up
}
for host in $2; do
  unshare -n sh -c '
    echo $$ > host$0.new; mv host$0.new host$0.pid
    until test -e host$0.ready; do sleep 0.05; done
    ip link set lo up
    . ./host$0.sh
  ' $host &
done
for host in $2; do
  until test -s host$host.pid; do sleep 0.05; done
  plug $host
  touch host$host.ready
done
while :; do
  if test -e commands; then mv commands doing; . ./doing; touch done; fi
  sleep 0.05
done
"#;

/// The script that starts a host, made from the directory and the host's number.
pub type Script = fn(&Path, usize) -> String;

/// Hosts on a bridge, and what is done beside it. All of it ends when it is dropped.
#[derive(Debug)]
pub struct Bridge {
    /// Where scripts, sockets and files are.
    pub directory: tempfile::TempDir,
    /// Ended before the directory goes.
    process: Option<Process>,
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.process.take();
    }
}

impl Bridge {
    /// Hosts that are started by these scripts. None where the kernel does not allow it.
    #[must_use]
    pub fn new(scripts: &[Script]) -> Option<Self> {
        Self::in_namespaces("-rnm", scripts)
    }

    /// As [`new`](Self::new), with the rights of root outside of the namespaces, which XDP programs need.
    #[must_use]
    pub fn of_root(scripts: &[Script]) -> Option<Self> {
        Self::in_namespaces("-nm", scripts)
    }

    fn in_namespaces(namespaces: &str, scripts: &[Script]) -> Option<Self> {
        for needed in ["unshare", "nsenter", "ip", "python3"] {
            if !skip_unless_found(needed) {
                return None;
            }
        }
        let mut probe = Command::new("unshare");
        let make = "ip link add probe0 type veth && ip link add probe1 type bridge";
        probe.args([
            namespaces,
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-c",
            make,
        ]);
        let probed = run_to_end(probe);
        if !probed.status.success() {
            let why = String::from_utf8_lossy(&probed.stderr);
            skip("network-namespaces", why.trim());
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let mut hosts = Vec::new();
        for (host, script) in (1..).zip(scripts) {
            let path = directory.path().join(format!("host{host}.sh"));
            std::fs::write(path, script(directory.path(), host)).unwrap();
            hosts.push(host.to_string());
        }
        let mut command = Command::new("unshare");
        command.args([
            namespaces,
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-c",
            SCRIPT,
            "sh",
        ]);
        command.arg(directory.path()).arg(hosts.join(" "));
        let process = Process::start("bridge", command, directory.path());
        Some(Self { directory, process: Some(process) })
    }

    /// A file of the bridge.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The program on a host.
    pub fn command(&self, host: usize, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        let transport = format!("unix://{}", self.path(&format!("host{host}.sock")).display());
        command.args(arguments).env("NDN_CLIENT_TRANSPORT", transport);
        command
    }

    /// Runs the program on a host.
    pub fn run(&self, host: usize, arguments: &[&str]) -> Output {
        run_to_end(self.command(host, arguments))
    }

    /// Runs the program on a host, to good effect.
    pub fn succeed(&self, host: usize, arguments: &[&str]) {
        let output = self.run(host, arguments);
        assert!(output.status.success(), "host {host}: {arguments:?}: {output:?}");
    }

    /// The faces of a host between these ends.
    pub fn faces(&self, host: usize, remote: &str, local: &str) -> Vec<Value> {
        let output = self.run(host, &["face", "list", "--json"]);
        let faces: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let is_requested =
            |face: &Value| face["remote_uri"] == remote && face["local_uri"] == local;
        faces.into_iter().filter(is_requested).collect()
    }

    /// The face of a host to `remote`, once there is one.
    pub fn face(&self, host: usize, remote: &str) -> Value {
        wait_until(remote, || self.faces(host, remote, "dev://eth0").pop())
    }

    /// Does something beside the bridge, and waits until it is done.
    pub fn change(&self, commands: &str) {
        let path = self.path("commands");
        std::fs::write(path.with_extension("new"), commands).unwrap();
        std::fs::rename(path.with_extension("new"), path).unwrap();
        wait_until("the commands", || std::fs::remove_file(self.path("done")).ok());
    }

    /// A server of pings on a host, once it can be reached.
    pub fn ping_server(&self, host: usize, prefix: &str) -> Process {
        let command = self.command(host, &["ping-server", prefix]);
        let name = format!("server{}", prefix.replace('/', "-"));
        let server = Process::start(&name, command, self.directory.path());
        wait_until(prefix, || {
            let routes = self.run(host, &["nfdc", "route", "list"]);
            String::from_utf8_lossy(&routes.stdout).contains(prefix).then_some(())
        });
        server
    }

    /// Pings until one comes back: a link that has just come up may lose some.
    pub fn ping(&self, host: usize, prefix: &str) {
        wait_until(prefix, || {
            let ping = self.run(host, &["ping", prefix, "--count", "1", "--timeout", "1s"]);
            ping.status.success().then_some(())
        });
    }

    /// Pings ten times, all of which come back.
    pub fn ping_often(&self, host: usize, prefix: &str) {
        self.ping(host, prefix);
        let waiting = ["--interval", "5ms", "--timeout", "30s", "--require-all"];
        self.succeed(host, &[&["ping", prefix, "--count", "10"], &waiting[..]].concat());
    }

    /// Pings ten times under a flood, for which the kernel may drop some, and returns the number of answers: a lost one is not
    /// waited for any longer.
    pub fn ping_under_flood(&self, host: usize, prefix: &str) -> u64 {
        let waiting = ["--interval", "5ms", "--timeout", "1s", "--json"];
        let pings = self.run(host, &[&["ping", prefix, "--count", "10"], &waiting[..]].concat());
        let report: Value = serde_json::from_slice(&pings.stdout).unwrap_or_default();
        report["answered"].as_u64().unwrap_or_else(|| panic!("host {host}: {pings:?}"))
    }
}

/// Writes the configuration of a host's forwarder, with `more` in `[listeners.ethernet]`, and gives the
/// command that runs it.
#[must_use]
pub fn forwarder_of_host(directory: &Path, host: usize, more: &str) -> String {
    let text = format!(
        "[listeners.unix]\npath = \"{0}/host{host}.sock\"\n[listeners.tcp]\nenabled = false\n\
         [listeners.udp]\nenabled = false\n[listeners.ethernet]\nenabled = true\n\
         except = [\"other*\"]\nring = \"256KiB\"\n{more}\n[forwarder]\nworkers = 1\n",
        directory.display()
    );
    let path = directory.join(format!("host{host}.toml"));
    std::fs::write(&path, text).unwrap();
    format!("'{}' run --config '{}'", program().display(), path.display())
}

/// Runs the forwarder of a host again and again: its process is in `forwarder*.pid`, `ended*` says that it has
/// ended, and `again*` has it start once more.
#[must_use]
pub fn looping(host: usize, forwarder: &str) -> String {
    format!(
        "while :; do {forwarder} & echo $! > forwarder{host}.new\n\
         mv forwarder{host}.new forwarder{host}.pid; wait $! || true; touch ended{host}\n\
         until test -e again{host}; do sleep 0.05; done; rm again{host}; done\n"
    )
}

/// The address of a host.
#[must_use]
pub fn station(host: usize) -> String {
    format!("ether://[02:00:00:00:00:{host:02x}]")
}
