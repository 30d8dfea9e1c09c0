//! Which worker runs on which processor, and what it does there.
//!
//! On a machine of two NUMA nodes, faces of clients, faces of servers and forwarding workers can be
//! divided between the nodes in four ways: [`Arrangement`]. What a worker writes first lies on its
//! node (first touch), and a worker is pinned before it writes to its tables and buffers.
//!
//! Tested with made-up machines only, not on hardware of two nodes.

use std::fmt;
use std::str::FromStr;

use ndn_sys::topology::Topology;
use ndn_table::SHARDS_MAX;

use crate::options::Roles;

/// What lies on the first node, and what on the second.
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

/// One worker as planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// What it does.
    pub roles: Roles,
    /// Where it is pinned, if it is.
    pub cpu: Option<usize>,
    /// The NUMA node of that processor.
    pub node: Option<usize>,
}

/// How many workers of which kind there are to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workers {
    /// All of them.
    pub count: usize,
    /// Those of them that have faces and no names. With none, every worker forwards and has faces;
    /// with some, the others only forward.
    pub io: usize,
}

/// Why there is no such placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// Nobody would forward.
    #[error("{io} of {count} workers for input and output leave none to forward")]
    NobodyForwards {
        /// Workers for faces.
        io: usize,
        /// All workers.
        count: usize,
    },
    /// The arrangement has faces on a node without forwarding workers.
    #[error("{arrangement} takes at least {least} workers for input and output")]
    TooFewIo {
        /// The arrangement.
        arrangement: Arrangement,
        /// How many it takes.
        least: usize,
    },
    /// There is one node only.
    #[error("{0} takes two NUMA nodes with processors that may be used; there is one")]
    OneNode(Arrangement),
    /// A node has fewer cores than there are workers for it.
    #[error("NUMA node {node} has {cores} cores that may be used, for {workers} workers")]
    TooFewCores {
        /// The node.
        node: usize,
        /// Its usable cores.
        cores: usize,
        /// The workers for it.
        workers: usize,
    },
}

/// Workers where the configuration names neither a number nor processors: one on one or two processors,
/// where a second thread costs more than it adds, otherwise one for each physical core.
#[must_use]
pub fn default_worker_count(topology: &Topology) -> usize {
    match topology.processors_max() {
        0..=2 => 1,
        3.. => topology.parallelism().min(SHARDS_MAX),
    }
}

/// The roles of the workers, those with faces first, without a place for any.
///
/// # Errors
/// [`PlacementError::NobodyForwards`].
pub fn plan_roles(workers: Workers) -> Result<Vec<Roles>, PlacementError> {
    let Workers { count, io } = workers;
    if io >= count {
        return Err(PlacementError::NobodyForwards { io, count });
    }
    let others = if io == 0 { Roles::default() } else { Roles::FORWARDING };
    let roles = std::iter::repeat_n(Roles::IO, io);
    Ok(roles.chain(std::iter::repeat_n(others, count - io)).collect())
}

/// Gives each worker a core of its own on the node that it belongs to. The nodes are the first and
/// the second that have processors which may be used.
///
/// # Errors
/// See [`PlacementError`].
pub fn plan_placement(
    topology: &Topology,
    workers: Workers,
    arrangement: Arrangement,
) -> Result<Vec<Place>, PlacementError> {
    let mut roles = plan_roles(workers)?;
    let least = match arrangement {
        Arrangement::P1 => 0,
        Arrangement::P2 | Arrangement::P3 => 2,
        Arrangement::P4 => 1,
    };
    if workers.io < least {
        return Err(PlacementError::TooFewIo { arrangement, least });
    }
    if matches!(arrangement, Arrangement::P2 | Arrangement::P3) {
        divide_faces(&mut roles[..workers.io]);
    }
    let nodes = topology.nodes();
    let first = nodes.first().copied().unwrap_or(0);
    let second = match (nodes.get(1), arrangement) {
        (Some(&second), _) => second,
        (None, Arrangement::P1) => first,
        (None, _) => return Err(PlacementError::OneNode(arrangement)),
    };
    let node_of = |roles: &Roles| {
        let is_on_second = match arrangement {
            Arrangement::P1 => false,
            Arrangement::P2 => roles.servers,
            Arrangement::P3 => !roles.clients,
            Arrangement::P4 => roles.forwards,
        };
        if is_on_second { second } else { first }
    };
    let mut cores = topology.cores();
    let place = |roles: Roles| {
        let node = node_of(&roles);
        let position = cores.iter().position(|core| core.node == node);
        let core = position.map(|position| cores.remove(position));
        core.map(|core| Place { roles, cpu: Some(core.cpu), node: Some(node) }).ok_or(node)
    };
    let places: Result<Vec<Place>, usize> = roles.iter().copied().map(place).collect();
    places.map_err(|node| PlacementError::TooFewCores {
        node,
        cores: topology.cores().iter().filter(|core| core.node == node).count(),
        workers: roles.iter().filter(|roles| node_of(roles) == node).count(),
    })
}

/// The first half, rounded up, has the faces of clients, the rest those of servers.
fn divide_faces(io: &mut [Roles]) {
    let clients = io.len().div_ceil(2);
    for (number, roles) in io.iter_mut().enumerate() {
        *roles = Roles { clients: number < clients, servers: number >= clients, forwards: false };
    }
}

#[cfg(test)]
mod tests;
