//! Arrangement of a forwarder on a machine of two NUMA nodes.

use std::fmt;
use std::str::FromStr;

/// The division of faces and workers between the first and the second node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrangement {
    /// Everything on one node.
    P1,
    /// Faces of clients and forwarding workers; faces of servers.
    P2,
    /// Faces of clients; faces of servers and forwarding workers.
    P3,
    /// All faces; forwarding workers.
    P4,
}

impl FromStr for Arrangement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "P1" => Ok(Self::P1),
            "P2" => Ok(Self::P2),
            "P3" => Ok(Self::P3),
            "P4" => Ok(Self::P4),
            _ => Err(format!("\"{text}\" is none of P1, P2, P3 and P4")),
        }
    }
}

impl fmt::Display for Arrangement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
