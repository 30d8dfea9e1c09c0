//! Forwarders in network namespaces of their own, with links between them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::peers::skip;
use crate::process::run_to_end;
use crate::program::program;
use crate::{skip_unless_found, wait_until};

/// Lines of shell from standard input, one after the other; the result of each goes to standard
/// output. The namespaces and all that runs in them end with this process.
const SHELL: &str = r#"
mount -t tmpfs tmpfs /run || exit 1
cd "$1"
in_node() { node=$1; shift; exec nsenter --net=/run/netns/"$node" "$@"; }
echo ready
while read -r line; do
  eval "$line" >> shell.log 2>&1 < /dev/null
  echo "done $?"
done
"#;

/// Nodes with links between them; each node is a network namespace, each link a veth pair.
///
/// The link between `a` and `b` ends at interface `to-b` of `a` and `to-a` of `b`. A forwarder of a
/// node listens on a Unix socket, and on UDP and TCP port 6363 of the node.
#[derive(Debug)]
pub struct Topology {
    shell: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    links: Vec<[String; 2]>,
    starts: BTreeMap<String, u32>,
    directory: TempDir,
}

impl Topology {
    /// Makes nodes and links; `None` where the kernel does not allow it.
    ///
    /// # Panics
    /// The namespaces are there, but cannot be furnished.
    #[must_use]
    pub fn new(nodes: &[&str], links: &[(&str, &str)]) -> Option<Self> {
        if !["unshare", "nsenter", "ip"].into_iter().all(skip_unless_found) {
            return None;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let mut command = Command::new("unshare");
        command.args(["-rnm", "--pid", "--fork", "--kill-child", "sh", "-c", SHELL, "sh"]);
        command.arg(directory.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let complaints = directory.path().join("shell.stderr");
        command.stderr(File::create(&complaints).expect("a file"));
        let mut shell = command.spawn().expect("unshare starts");
        let input = shell.stdin.take().expect("a pipe");
        let output = BufReader::new(shell.stdout.take().expect("a pipe"));
        let links = links.iter().map(|(a, b)| [(*a).to_owned(), (*b).to_owned()]).collect();
        let starts = BTreeMap::new();
        let mut topology = Self { shell, input, output, links, starts, directory };
        if topology.line() != "ready" || !topology.try_shell("ip netns add probe") {
            let why = [complaints, topology.directory.path().join("shell.log")];
            let why = why.map(|file| std::fs::read_to_string(file).unwrap_or_default());
            skip("network-namespaces", why.concat().trim());
            return None;
        }
        topology.furnish(nodes);
        Some(topology)
    }

    fn furnish(&mut self, nodes: &[&str]) {
        for node in nodes {
            self.shell(&format!("ip netns add {node} && ip -n {node} link set lo up"));
        }
        for (number, [a, b]) in self.links.clone().into_iter().enumerate() {
            self.shell(&format!("ip -n {a} link add to-{b} type veth peer name to-{a} netns {b}"));
            for (node, peer, host) in [(&a, &b, 1), (&b, &a, 2)] {
                self.shell(&format!("ip -n {node} addr add 10.9.{number}.{host}/24 dev to-{peer}"));
                self.shell(&format!("ip -n {node} link set to-{peer} up"));
            }
        }
    }

    /// Runs a line of shell in the namespace that holds the others.
    ///
    /// # Panics
    /// It fails.
    pub fn shell(&mut self, line: &str) {
        let log = self.directory.path().join("shell.log");
        assert!(
            self.try_shell(line),
            "{line}:\n{}",
            std::fs::read_to_string(log).unwrap_or_default()
        );
    }

    fn try_shell(&mut self, line: &str) -> bool {
        writeln!(self.input, "{line}").expect("the shell reads");
        self.line() == "done 0"
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        // Nothing is read at the end, and nothing is no answer.
        let _ = self.output.read_line(&mut line);
        line.trim_end().to_owned()
    }

    /// A directory that goes away with the topology.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Starts a program at a node; `name` is what [`Self::stop`] calls it. What it prints goes to
    /// `<name>.stdout` and `<name>.stderr`.
    pub fn start(&mut self, node: &str, name: &str, command: &str) {
        *self.starts.entry(name.to_owned()).or_default() += 1;
        self.shell(&format!(
            "in_node {node} {command} > {name}.stdout 2>> {name}.stderr & pid_{name}=$!"
        ));
    }

    /// Ends a program.
    pub fn stop(&mut self, name: &str) {
        self.shell(&format!("kill $pid_{name}; wait $pid_{name}; true"));
    }

    /// Starts a forwarder at a node, with these lines of configuration beyond its sockets, and waits
    /// until it listens.
    ///
    /// # Panics
    /// It does not.
    pub fn start_forwarder(&mut self, node: &str, toml: &str) {
        self.start_forwarder_as(node, "enabled = false", toml, "");
    }

    /// As [`Self::start_forwarder`], with the key chain of this home directory.
    pub fn start_forwarder_in(&mut self, home: &Path, node: &str, toml: &str) {
        let environment = format!("env HOME={} ", home.display());
        self.start_forwarder_as(node, "enabled = false", toml, &environment);
    }

    /// As [`Self::start_forwarder`], with a UDP multicast face on each link.
    pub fn start_forwarder_with_multicast(&mut self, node: &str, toml: &str) {
        self.start_forwarder_as(node, "enabled = true\ninterfaces = [\"to-*\"]", toml, "");
    }

    fn start_forwarder_as(&mut self, node: &str, multicast: &str, toml: &str, environment: &str) {
        let config = self.directory.path().join(format!("{node}.toml"));
        let text = format!(
            "[forwarder]\nworkers = {}\n[listeners.unix]\npath = \"{}\"\n\
             [listeners.multicast]\n{multicast}\n[control]\nenabled = false\n{toml}\n",
            crate::forwarder::worker_count(),
            self.socket(node).display()
        );
        std::fs::write(config, text).expect("a configuration file");
        let stdout = self.directory.path().join(format!("{node}.stdout"));
        // That of an earlier one says that it listens.
        let _ = std::fs::remove_file(&stdout);
        let command = format!("{environment}{} run --config {node}.toml", program().display());
        self.start(node, node, &command);
        wait_until(&format!("the forwarder of {node}"), || {
            let printed = std::fs::read_to_string(&stdout).unwrap_or_default();
            printed.contains("NDN_CLIENT_TRANSPORT=").then_some(())
        });
    }

    /// The Unix socket of a node's forwarder.
    #[must_use]
    pub fn socket(&self, node: &str) -> PathBuf {
        self.directory.path().join(format!("{node}.sock"))
    }

    /// The address of `node` on its link with `peer`.
    ///
    /// # Panics
    /// There is no such link.
    #[must_use]
    pub fn address(&self, node: &str, peer: &str) -> String {
        let mut links = self.links.iter().enumerate();
        let found = links.find_map(|(number, [a, b])| match (a == node, b == node) {
            (true, _) if b == peer => Some((number, 1)),
            (_, true) if a == peer => Some((number, 2)),
            _ => None,
        });
        let (number, host) = found.expect("a link between the two");
        format!("10.9.{number}.{host}")
    }

    /// Cuts or restores the link between two nodes; only the two kernels notice.
    pub fn set_link(&mut self, a: &str, b: &str, state: &str) {
        self.shell(&format!("ip -n {a} link set to-{b} {state}"));
    }

    /// A command of ours that is to use a node's forwarder.
    #[must_use]
    pub fn command(&self, node: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        let transport = format!("unix://{}", self.socket(node).display());
        command.args(arguments).env("NDN_CLIENT_TRANSPORT", transport);
        command
    }

    /// Runs `namewire` with these arguments at a node's forwarder.
    #[must_use]
    pub fn run(&self, node: &str, arguments: &[&str]) -> Output {
        run_to_end(self.command(node, arguments))
    }

    /// The output of `namewire` with these arguments at a node.
    ///
    /// # Panics
    /// The command fails.
    #[must_use]
    pub fn output(&self, node: &str, arguments: &[&str]) -> String {
        let output = self.run(node, arguments);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{node}: namewire {arguments:?}: {complaint}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Creates a permanent face from a node to its neighbour and returns its number.
    ///
    /// # Panics
    /// The forwarder refuses.
    #[must_use]
    pub fn create_face(&self, node: &str, scheme: &str, neighbour: &str) -> u64 {
        let uri = format!("{scheme}://{}:6363", self.address(neighbour, node));
        let arguments = ["face", "create", &uri, "--persistency", "permanent", "--json"];
        let face: Value = serde_json::from_str(&self.output(node, &arguments)).expect("JSON");
        face["face_id"].as_u64().expect("the number of the face")
    }

    /// Adds a route.
    ///
    /// # Panics
    /// The forwarder refuses.
    pub fn add_route(&self, node: &str, prefix: &str, face_id: u64, further: &[&str]) {
        let face_id = face_id.to_string();
        let _ = self.output(node, &[&["route", "add", prefix, &face_id], further].concat());
    }

    /// A face as `face list` has it, if it is there.
    #[must_use]
    pub fn face(&self, node: &str, face_id: u64) -> Option<Value> {
        let output = self.run(node, &["face", "list", "--json"]);
        let faces: Vec<Value> = serde_json::from_slice(&output.stdout).ok()?;
        faces.into_iter().find(|face| face["face_id"] == face_id)
    }

    /// A counter of a face, such as `out_interests`.
    ///
    /// # Panics
    /// There is no such face or counter.
    #[must_use]
    pub fn counter(&self, node: &str, face_id: u64, key: &str) -> u64 {
        let face = self.face(node, face_id).expect("the face");
        face["counters"][key].as_u64().expect("a counter")
    }
}

impl Drop for Topology {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let printed = |name: String| {
                let text = std::fs::read_to_string(self.directory.path().join(&name));
                eprintln!("--- {name}\n{}", text.unwrap_or_default());
            };
            self.starts.keys().for_each(|name| printed(format!("{name}.stderr")));
            printed("shell.log".to_owned());
        }
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
