//! Runs the commands of the pages under docs/start and docs/operating, in the order of docs/SUMMARY.md, on two
//! hosts with a link between them, and validates every configuration that the documents show.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

use namewire_tests::{Topology, now, program, run_to_end, wait_until};

const HOSTS: [&str; 2] = ["east", "west"];
/// The addresses of the hosts in the documents.
const ADDRESSES: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
/// Folders of the pages whose commands are run.
const FOLDERS: [&str; 2] = ["start/", "operating/"];
/// A configuration of NFD, for the page about moving from it.
const NFD_CONF: &str = "\
authorizations
{
  authorize
  {
    certfile any
    privileges
    {
      faces
      fib
      cs
      strategy-choice
    }
  }
}
tables { cs_max_packets 1000 }
face_system
{
  unix { path /run/nfd/nfd.sock }
  udp { mcast no }
}
rib { localhost_security { trust-anchor { type any } } }
";

fn documents() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

fn read(page: &str) -> String {
    std::fs::read_to_string(documents().join(page))
        .unwrap_or_else(|error| panic!("{page}: {error}"))
}

/// The pages of the book, in its order.
fn pages() -> Vec<String> {
    let summary = read("SUMMARY.md");
    let links = summary.lines().filter_map(|line| line.split_once("](")?.1.strip_suffix(')'));
    links.map(str::to_owned).collect()
}

fn is_run(page: &str) -> bool {
    FOLDERS.iter().any(|folder| page.starts_with(folder))
}

/// The fenced blocks of a language, each with the line before its fence.
fn blocks(text: &str, language: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut before = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            let block: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
            if line.trim_start_matches('`') == language {
                found.push((std::mem::take(&mut before), format!("{}\n", block.join("\n"))));
            }
        }
        before = line.to_owned();
    }
    found
}

/// A shell on each host that runs the scripts in its folder, one after the other.
const SHELL: &str = r#"
mount -t tmpfs tmpfs /run
number=0
while :; do
  until test -e $number.ready; do sleep 0.02; done
  . ./$number.sh > $number.out 2>&1 < /dev/null
  number=$((number + 1))
done
"#;

struct Hosts {
    topology: Topology,
    counts: [usize; 2],
}

impl Hosts {
    /// `None` where network namespaces cannot be made.
    fn new() -> Option<Self> {
        let mut topology = Topology::new(&HOSTS, &[("east", "west")])?;
        for host in HOSTS {
            let folder = topology.directory().join(host);
            std::fs::create_dir_all(folder.join("bin")).unwrap();
            std::os::unix::fs::symlink(program(), folder.join("bin/namewire")).unwrap();
            std::fs::write(folder.join("shell"), SHELL).unwrap();
            std::fs::write(folder.join("nfd.conf"), NFD_CONF).unwrap();
            let folder = folder.display();
            let command = format!(
                "env -u NDN_CLIENT_TRANSPORT -u XDG_RUNTIME_DIR HOME={folder} \
                 PATH={folder}/bin:$PATH unshare -m sh -c 'cd {folder}; . ./shell'"
            );
            topology.start(host, &format!("shell_{host}"), &command);
        }
        Some(Self { topology, counts: [0; 2] })
    }

    /// Runs a block; returns whether it succeeded, and its output.
    fn run(&mut self, host: usize, block: &str) -> (bool, String) {
        let number = self.counts[host];
        self.counts[host] += 1;
        let folder: PathBuf = self.topology.directory().join(HOSTS[host]);
        let file = |ending: &str| folder.join(format!("{number}.{ending}"));
        std::fs::write(file("block"), block).unwrap();
        let script = format!("sh -eu {number}.block; echo $? > {number}.status");
        std::fs::write(file("sh"), script).unwrap();
        std::fs::write(file("ready"), "").unwrap();
        let status = wait_until(&format!("{}: {block}", HOSTS[host]), || {
            std::fs::read_to_string(file("status")).ok().filter(|status| status.ends_with('\n'))
        });
        (status == "0\n", std::fs::read_to_string(file("out")).unwrap())
    }

    /// Runs a block until it succeeds: a process that an earlier block started may not be ready yet.
    fn perform(&mut self, host: usize, block: &str) {
        let deadline = now() + namewire_tests::TIMEOUT * 2;
        loop {
            let (is_done, output) = self.run(host, block);
            if is_done {
                return;
            }
            assert!(now() < deadline, "{}:\n{block}\n{output}", HOSTS[host]);
        }
    }
}

#[test]
fn commands_of_start_and_operating_pages_succeed() {
    let Some(mut hosts) = Hosts::new() else { return };
    let mut count = 0;
    for page in pages().into_iter().filter(|page| is_run(page)) {
        let mut text = read(&page);
        for (address, [node, peer]) in ADDRESSES.iter().zip([["east", "west"], ["west", "east"]]) {
            text = text.replace(address, &hosts.topology.address(node, peer));
        }
        for (before, block) in blocks(&text, "sh") {
            // The line before the fence is a comment that names the host.
            let host = HOSTS.iter().position(|host| before == format!("<!-- run {host} -->"));
            let host = host.unwrap_or_else(|| panic!("{page}: no host for this block:\n{block}"));
            hosts.perform(host, &block);
            count += 1;
        }
    }
    assert!(count > 30, "{count} blocks");
}

#[test]
fn commands_that_are_not_run_have_a_reason() {
    let mut count = 0;
    for page in pages().into_iter().filter(|page| is_run(page)) {
        let text = read(&page);
        let lines: Vec<_> = text.lines().map(str::trim_start).collect();
        for pair in lines.windows(2).filter(|pair| pair[1] == "```console") {
            let reason = pair[0].strip_prefix("<!-- not run: ");
            assert!(reason.is_some(), "{page}: no reason after this line: {}", pair[0]);
            count += 1;
        }
    }
    assert!(count > 10, "{count} blocks");
}

#[test]
fn configurations_in_the_documents_are_valid() {
    let directory = tempfile::tempdir().unwrap();
    let mut count = 0;
    for page in pages() {
        for (before, block) in blocks(&read(&page), "toml") {
            // Needs a certificate, or a program that was built with DPDK or VIP.
            if before != "<!-- not checked -->" {
                check(&page, &directory.path().join("namewire.toml"), &block);
                count += 1;
            }
        }
    }
    assert!(count >= 10, "{count} configurations");
}

fn check(page: &str, file: &Path, text: &str) {
    std::fs::write(file, text).unwrap();
    let mut command = Command::new(program());
    let is_experiment = text.contains("[factors]");
    command.args([if is_experiment { "lab" } else { "config" }, "check"]).arg(file);
    let output = run_to_end(command);
    assert!(
        output.status.success(),
        "{page}:\n{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
