//! The user guide: what it tells people to type is typed, on two hosts with a link between them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

use namewire_tests::{Topology, now, program, run_to_end, wait_until};

const HOSTS: [&str; 2] = ["east", "west"];
/// The addresses that the guide has.
const ADDRESSES: [&str; 2] = ["192.0.2.1", "192.0.2.2"];

fn guide() -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/guide.md");
    std::fs::read_to_string(path).unwrap()
}

/// The blocks of a language, and what was said right before them.
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

/// A shell on each host that runs what appears in its folder, one file after the other.
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
    fn new() -> Option<Self> {
        let mut topology = Topology::new(&HOSTS, &[("east", "west")])?;
        for host in HOSTS {
            let folder = topology.directory().join(host);
            std::fs::create_dir_all(folder.join("bin")).unwrap();
            std::os::unix::fs::symlink(program(), folder.join("bin/namewire")).unwrap();
            std::fs::write(folder.join("shell"), SHELL).unwrap();
            let folder = folder.display();
            let command = format!(
                "env -u NDN_CLIENT_TRANSPORT -u XDG_RUNTIME_DIR HOME={folder} \
                 PATH={folder}/bin:$PATH unshare -m sh -c 'cd {folder}; . ./shell'"
            );
            topology.start(host, &format!("shell_{host}"), &command);
        }
        Some(Self { topology, counts: [0; 2] })
    }

    /// Runs a block; its exit status, and what it has printed.
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

    /// Runs a block until it succeeds: what it asks for may not be there yet.
    fn perform(&mut self, host: usize, block: &str) {
        let deadline = now() + namewire_tests::PATIENCE * 2;
        loop {
            let (is_done, said) = self.run(host, block);
            if is_done {
                return;
            }
            assert!(now() < deadline, "{}:\n{block}\n{said}", HOSTS[host]);
        }
    }
}

#[test]
fn what_the_guide_says_can_be_done() {
    let Some(mut hosts) = Hosts::new() else { return };
    let mut text = guide();
    for (address, [node, peer]) in ADDRESSES.iter().zip([["east", "west"], ["west", "east"]]) {
        text = text.replace(address, &hosts.topology.address(node, peer));
    }
    let mut count = 0;
    for (before, block) in blocks(&text, "sh") {
        // A comment that names the host, and the line of the fence.
        let Some(host) = HOSTS.iter().position(|host| before == format!("<!-- run {host} -->"))
        else {
            panic!("nobody runs this block:\n{block}");
        };
        hosts.perform(host, &block);
        count += 1;
    }
    assert!(count > 20, "{count} blocks");
}

#[test]
fn the_configurations_of_the_guide_are_good() {
    let directory = tempfile::tempdir().unwrap();
    let blocks = blocks(&guide(), "toml");
    assert!(!blocks.is_empty());
    for (_, block) in blocks {
        check(&directory.path().join("namewire.toml"), &block);
    }
}

fn check(file: &Path, text: &str) {
    std::fs::write(file, text).unwrap();
    let mut command = Command::new(program());
    command.args(["config", "check"]).arg(file);
    let output = run_to_end(command);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
}
