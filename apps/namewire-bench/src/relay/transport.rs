//! Transports of the exchanges.

use std::str::FromStr;

use super::program::Program;

/// Transport of the exchanges of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Unix stream sockets.
    Unix,
    /// TCP over the loopback interface.
    Tcp,
    /// UDP over the loopback interface.
    Udp,
    /// UDP over pairs of virtual Ethernet devices.
    UdpVeth,
    /// Frames (AF_PACKET) over pairs of virtual Ethernet devices.
    Ether,
    /// As `Ether`; the forwarder uses AF_XDP.
    Xdp,
    /// Shared memory.
    Memif,
}

/// Names of the transports.
const NAMES: [(Transport, &str); 7] = [
    (Transport::Unix, "unix"),
    (Transport::Tcp, "tcp"),
    (Transport::Udp, "udp"),
    (Transport::UdpVeth, "udp-veth"),
    (Transport::Ether, "ether"),
    (Transport::Xdp, "xdp"),
    (Transport::Memif, "memif"),
];

impl Transport {
    /// Name on the command line and in cases.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(transport, _)| *transport == self).map_or("", |(_, name)| name)
    }

    /// Returns whether it needs network devices, and so a namespace.
    #[must_use]
    pub fn needs_devices(self) -> bool {
        match self {
            Self::Unix | Self::Tcp | Self::Udp | Self::Memif => false,
            Self::UdpVeth | Self::Ether | Self::Xdp => true,
        }
    }

    /// Returns whether the forwarder receives datagrams.
    pub(crate) fn is_udp(self) -> bool {
        matches!(self, Self::Udp | Self::UdpVeth)
    }

    /// Returns the reason why a program cannot take part, if any.
    pub(super) fn excludes(self, program: Program) -> Option<&'static str> {
        match (program, self) {
            (Program::Ndnd, Self::Ether | Self::Xdp) => Some("has no faces over Ethernet"),
            (Program::Nfd, Self::Xdp) => Some("has no AF_XDP"),
            (Program::Nfd | Program::Ndnd, Self::Memif) => Some("has no shared memory"),
            (Program::Dumb, Self::Ether | Self::Xdp | Self::Memif) => {
                Some("testpmd takes its place")
            }
            (Program::Testpmd, Self::Unix | Self::Tcp | Self::Udp | Self::UdpVeth) => {
                Some("the dumb relay takes its place")
            }
            (
                Program::Namewire | Program::Nfd | Program::Dumb | Program::Testpmd | Program::Ndnd,
                _,
            ) => None,
        }
    }
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = NAMES.iter().find(|(_, name)| *name == text);
        found.map(|(transport, _)| *transport).ok_or_else(|| {
            let names: Vec<_> = NAMES.iter().map(|(_, name)| *name).collect();
            format!("transports are {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_identify_transports() {
        for (transport, name) in NAMES {
            assert_eq!((transport.name(), name.parse()), (name, Ok(transport)));
        }
        assert!("carrier-pigeon".parse::<Transport>().unwrap_err().contains("udp-veth"));
    }
}
