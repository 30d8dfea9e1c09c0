//! The configuration that benches give to this project's forwarder.

use std::net::SocketAddr;
use std::path::Path;

/// Which threads the workers of this project's forwarder run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// As they are by default: one for all, until one each would forward a third more.
    AsNeeded,
    /// One each.
    Each,
}

impl Threads {
    /// What the setting is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AsNeeded => "as-needed",
            Self::Each => "each",
        }
    }
}

impl std::str::FromStr for Threads {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::AsNeeded, Self::Each];
        all.into_iter().find(|one| one.name() == text).ok_or_else(|| "as-needed or each".to_owned())
    }
}

/// A Unix socket, perhaps UDP and TCP ports on these addresses (of one port each), a cache of `cs_packets`
/// packets, so many workers on such threads, and nothing else that listens.
pub(crate) fn namewire(
    socket: &Path,
    udp: &[SocketAddr],
    tcp: &[SocketAddr],
    cs_packets: u32,
    (workers, threads): (usize, Threads),
) -> String {
    let (udp, tcp) = (listener(udp), listener(tcp));
    format!(
        "[listeners.unix]\npath = \"{}\"\n\
         [listeners.tcp]\n{tcp}\
         [listeners.udp]\n{udp}\
         [forwarder]\nworkers = {workers}\nthreads = \"{}\"\n\
         [tables.cs]\ncapacity_packets = {cs_packets}\n\
         [log]\nlevel = \"warn\"\n",
        socket.display(),
        threads.name()
    )
}

/// The settings of a listener.
fn listener(addresses: &[SocketAddr]) -> String {
    let Some(port) = addresses.first().map(SocketAddr::port) else {
        return "enabled = false\n".to_owned();
    };
    let quoted = addresses.iter().map(|address| format!("\"{}\"", address.ip()));
    let quoted = quoted.collect::<Vec<_>>().join(", ");
    format!("enabled = true\naddresses = [{quoted}]\nport = {port}\n")
}
