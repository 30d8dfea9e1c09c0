//! Configuration of this project's forwarder for the benches.

use std::net::SocketAddr;
use std::path::Path;

/// A Unix socket, optional UDP and TCP ports on these addresses (of one port each), a Content Store of `cs_packets`
/// packets, this number of workers, and no other listeners.
pub(crate) fn namewire(
    socket: &Path,
    udp: &[SocketAddr],
    tcp: &[SocketAddr],
    cs_packets: u32,
    workers: usize,
) -> String {
    let (udp, tcp) = (listener(udp), listener(tcp));
    format!(
        "[listeners.unix]\npath = \"{}\"\n\
         [listeners.tcp]\n{tcp}\
         [listeners.udp]\n{udp}\
         [forwarder]\nworkers = {workers}\n\
         [tables.cs]\ncapacity_packets = {cs_packets}\n\
         [log]\nlevel = \"warn\"\n",
        socket.display(),
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
