//! Ports and paths of the processes of one run.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use ndn_memif::Address;

use super::dumb::PRODUCER_SUFFIX;
use super::link::{Link, Side};
use super::program::Program;
use super::transport::Transport;

/// Ports and paths of one run.
#[derive(Debug, Clone)]
pub(crate) struct Addresses {
    /// Folder for sockets, configuration and logs.
    pub(crate) folder: PathBuf,
    /// The UDP or TCP port that the program listens on.
    pub(crate) udp_port: u16,
    /// The UDP port of the producer.
    pub(crate) producer_port: u16,
    /// The UDP ports of the consumers.
    pub(crate) consumer_ports: Vec<u16>,
    /// Transport of the exchanges.
    pub(crate) transport: Transport,
    /// Devices between generator and program, if the transport uses any.
    pub(crate) link: Option<Arc<Link>>,
    /// Further lines of this project's configuration.
    pub(crate) settings: &'static str,
    /// Content Store capacity, in packets.
    pub(crate) cs_packets: u32,
    /// Workers of this project's forwarder.
    pub(crate) workers: usize,
}

impl Addresses {
    /// The Unix socket of the program.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("forwarder.sock")
    }

    /// Socket on which a program reports its system calls, if it does.
    pub(crate) fn statistics_socket(&self, program: Program) -> Option<PathBuf> {
        match program {
            Program::Namewire => Some(self.socket().with_extension("control.sock")),
            Program::Dumb => Some(self.folder.join("statistics.sock")),
            Program::Nfd | Program::Ndnd | Program::Testpmd => None,
        }
    }

    /// Address on which the program listens for this side.
    pub(super) fn program_address(&self, side: Side) -> SocketAddr {
        let ip = self.link.as_ref().map_or(Ipv4Addr::LOCALHOST, |link| link.far_ip(side));
        SocketAddr::from((ip, self.udp_port))
    }

    /// The generator's address on this side.
    pub(super) fn generator_address(&self, side: Side, port: u16) -> SocketAddr {
        let ip = self.link.as_ref().map_or(Ipv4Addr::LOCALHOST, |link| link.near_ip(side));
        SocketAddr::from((ip, port))
    }

    /// The memif interface for this side. testpmd has a socket for each.
    pub(super) fn memif(&self, program: Program, side: Side) -> Address {
        let (name, id) = match (program.is_dumb(), side) {
            (false, Side::Consumer) => ("memif.sock", 1),
            (false, Side::Producer) => ("memif.sock", 2),
            (true, Side::Consumer) => ("consumer.sock", 0),
            (true, Side::Producer) => ("producer.sock", 0),
        };
        Address { socket: self.folder.join(name), id: Some(id) }
    }

    /// Address of the producer.
    pub(super) fn producer_address(&self) -> SocketAddr {
        self.generator_address(Side::Producer, self.producer_port)
    }

    /// Addresses of the dumb relay's UDP sockets: the producer's, then the consumers'.
    pub(super) fn dumb_sockets(&self) -> Vec<(SocketAddr, SocketAddr)> {
        let mut sockets = vec![(self.program_address(Side::Producer), self.producer_address())];
        for (port, &consumer) in (self.udp_port + 1..).zip(&self.consumer_ports) {
            let mut local = self.program_address(Side::Consumer);
            local.set_port(port);
            sockets.push((local, self.generator_address(Side::Consumer, consumer)));
        }
        sockets
    }

    /// Returns a command that runs a program in the namespace of the generator's link.
    pub(super) fn command(&self, executable: &Path) -> Command {
        match &self.link {
            Some(link) => link.inside(executable),
            None => Command::new(executable),
        }
    }

    /// Socket for the producer: the dumb relay has a separate one.
    pub(crate) fn producer_socket(&self, program: Program) -> PathBuf {
        let mut path = self.socket().into_os_string();
        if program == Program::Dumb {
            path.push(PRODUCER_SUFFIX);
        }
        PathBuf::from(path)
    }
}
