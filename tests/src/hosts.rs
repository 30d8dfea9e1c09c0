//! Addresses that stand for other hosts.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::peers::skip;
use crate::skip_unless_found;

/// The address of another host, in a test that runs [`with_hosts`].
#[must_use]
pub const fn host(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 51, 100, number)
}

/// Furnishes a network namespace, which lasts until standard input ends.
const SHELL: &str =
    "ip link set lo up && ip address add 198.51.100.1/24 dev lo && echo ready && cat";

/// Runs a test in a network namespace of its own, in which every address of 198.51.100.0/24 is an address of this host, but
/// none of its loopback addresses: a socket that is bound to one stands for another host. Forwarders and programs that the
/// test starts are in the namespace, too. Skips the test where the kernel does not allow that.
///
/// # Panics
/// The test fails.
pub fn with_hosts(test: impl FnOnce() + Send) {
    let run = || match enter_namespace() {
        Ok(mut keeper) => {
            test();
            drop(keeper.stdin.take());
            let _ = keeper.wait();
        }
        Err(reason) => skip("network-namespaces", &reason.to_string()),
    };
    // The namespace is that of one thread, and of those that it starts.
    let ended = std::thread::scope(|scope| scope.spawn(run).join());
    if let Err(panic) = ended {
        std::panic::resume_unwind(panic);
    }
}

fn enter_namespace() -> Result<std::process::Child, String> {
    if !["unshare", "ip"].into_iter().all(skip_unless_found) {
        return Err("a program is missing".to_owned());
    }
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", SHELL]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut keeper = command.spawn().map_err(|error| error.to_string())?;
    let output = keeper.stdout.take().expect("a pipe");
    let mut line = String::new();
    let _ = BufReader::new(output).read_line(&mut line);
    if line.trim() != "ready" {
        return Err("only root can make a network namespace for a thread".to_owned());
    }
    let namespace = File::open(format!("/proc/{}/ns/net", keeper.id()));
    let namespace = namespace.map_err(|error| error.to_string())?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|error| error.to_string())?;
    Ok(keeper)
}
