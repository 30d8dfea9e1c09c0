//! The configuration that benches give to this project's forwarder.

use std::path::Path;

/// A Unix socket, perhaps a UDP port on the IPv4 loopback address, a cache of `cs_packets`
/// packets, so many workers, and nothing else that listens.
pub(crate) fn namewire(
    socket: &Path,
    udp_port: Option<u16>,
    cs_packets: u32,
    workers: usize,
) -> String {
    let udp = match udp_port {
        Some(port) => format!("enabled = true\naddresses = [\"127.0.0.1\"]\nport = {port}\n"),
        None => "enabled = false\n".to_owned(),
    };
    format!(
        "[listeners.unix]\npath = \"{}\"\n\
         [listeners.tcp]\nenabled = false\n\
         [listeners.udp]\n{udp}\
         [forwarder]\nworkers = {workers}\n\
         [tables.cs]\ncapacity_packets = {cs_packets}\n\
         [log]\nlevel = \"warn\"\n",
        socket.display()
    )
}
