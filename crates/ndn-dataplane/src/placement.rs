//! Placement: the roles and processors of the workers.
//!
//! On a machine of two NUMA nodes, faces of clients, faces of servers and forwarding workers can be
//! divided between the nodes in four ways: [`Arrangement`]. A worker is pinned before it writes to its tables
//! and buffers, so that they lie on its node (first touch).
//!
//! Tested with simulated topologies only, not on hardware of two nodes.

use ndn_sys::topology::Topology;
use ndn_table::SHARDS_MAX;
use ndn_types::Arrangement;

use crate::options::Roles;

/// The planned role and processor of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerPlacement {
    /// Its roles.
    pub roles: Roles,
    /// The processor that it is pinned to, if any.
    pub cpu: Option<usize>,
    /// The NUMA node of that processor.
    pub node: Option<usize>,
}

/// Number of workers of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workers {
    /// All of them.
    pub count: usize,
    /// Workers with faces and without a shard. If there are any, the others only forward; otherwise every worker
    /// does both.
    pub io: usize,
}

/// Why a placement is impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// No worker would forward.
    #[error("{io} of {count} workers for input and output leave none to forward")]
    NoForwardingWorker {
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
        /// Minimum number of such workers.
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

/// The roles of the workers, those with faces first, without processors.
///
/// # Errors
/// [`PlacementError::NoForwardingWorker`].
pub fn plan_roles(workers: Workers) -> Result<Vec<Roles>, PlacementError> {
    let Workers { count, io } = workers;
    if io >= count {
        return Err(PlacementError::NoForwardingWorker { io, count });
    }
    let others = if io == 0 { Roles::default() } else { Roles::FORWARDING };
    let roles = std::iter::repeat_n(Roles::IO, io);
    Ok(roles.chain(std::iter::repeat_n(others, count - io)).collect())
}

/// Gives each worker a core of its own on its node. The nodes are the first two with usable processors.
///
/// # Errors
/// See [`PlacementError`].
pub fn plan_placement(
    topology: &Topology,
    workers: Workers,
    arrangement: Arrangement,
) -> Result<Vec<WorkerPlacement>, PlacementError> {
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
        core.map(|core| WorkerPlacement { roles, cpu: Some(core.cpu), node: Some(node) })
            .ok_or(node)
    };
    let places: Result<Vec<WorkerPlacement>, usize> = roles.iter().copied().map(place).collect();
    places.map_err(|node| PlacementError::TooFewCores {
        node,
        cores: topology.cores().iter().filter(|core| core.node == node).count(),
        workers: roles.iter().filter(|roles| node_of(roles) == node).count(),
    })
}

/// Gives the first half, rounded up, the faces of clients, and the rest those of servers.
fn divide_faces(io: &mut [Roles]) {
    let clients = io.len().div_ceil(2);
    for (number, roles) in io.iter_mut().enumerate() {
        *roles = Roles { clients: number < clients, servers: number >= clients, forwards: false };
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::fs;
    use std::path::PathBuf;

    use super::*;

    /// A directory with the layout of `/`, removed when dropped.
    struct Machine(PathBuf);

    impl Machine {
        /// `cores_per_node` cores of two threads on each node; the second threads have the higher numbers.
        fn new(name: &str, nodes: usize, cores_per_node: usize) -> Self {
            let name = format!("namewire-placement-{}-{name}", std::process::id());
            let machine = Self(std::env::temp_dir().join(name));
            let cores = nodes * cores_per_node;
            for cpu in 0..2 * cores {
                let list = format!("{},{}\n", cpu % cores, cpu % cores + cores);
                machine.write(&format!("cpu/cpu{cpu}/topology/thread_siblings_list"), &list);
            }
            for node in 0..nodes {
                let range = |first: usize| format!("{first}-{}", first + cores_per_node - 1);
                let (first, second) = (node * cores_per_node, cores + node * cores_per_node);
                let list = format!("{},{}\n", range(first), range(second));
                machine.write(&format!("node/node{node}/cpulist"), &list);
            }
            machine
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.join("sys/devices/system").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn topology(&self, allowed: &[usize]) -> Topology {
            Topology::read(&self.0, allowed)
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// Each worker as its role (clients, servers, io for both, forwards, all) and its processor.
    fn shown(places: &[WorkerPlacement]) -> Vec<String> {
        let letter = |roles: Roles| match (roles.clients, roles.servers, roles.forwards) {
            (true, true, true) => "all",
            (true, true, false) => "io",
            (true, false, false) => "clients",
            (false, true, false) => "servers",
            (false, false, true) => "forwards",
            _ => "odd",
        };
        places
            .iter()
            .map(|place| format!("{} {}", letter(place.roles), place.cpu.unwrap()))
            .collect()
    }

    #[test]
    fn arrangements_divide_faces_and_workers_between_two_nodes() {
        let machine = Machine::new("four", 2, 4);
        let topology = machine.topology(&(0..16).collect::<Vec<_>>());
        let workers = Workers { count: 4, io: 2 };
        for (arrangement, expected) in [
            (Arrangement::P1, ["io 0", "io 1", "forwards 2", "forwards 3"]),
            (Arrangement::P2, ["clients 0", "servers 4", "forwards 1", "forwards 2"]),
            (Arrangement::P3, ["clients 0", "servers 4", "forwards 5", "forwards 6"]),
            (Arrangement::P4, ["io 0", "io 1", "forwards 4", "forwards 5"]),
        ] {
            let places = plan_placement(&topology, workers, arrangement).unwrap();
            assert_eq!(shown(&places), expected, "{arrangement}");
            let node_of = |cpu: usize| topology.processors()[cpu].node;
            assert!(places.iter().all(|place| place.node == place.cpu.map(node_of)));
        }
        let all = plan_placement(&topology, Workers { count: 3, io: 0 }, Arrangement::P1).unwrap();
        assert_eq!(shown(&all), ["all 0", "all 1", "all 2"]);
    }

    #[test]
    fn placement_uses_allowed_processors_only() {
        let machine = Machine::new("allowed", 2, 2);
        let topology = machine.topology(&[1, 5, 6, 7]);
        let places =
            plan_placement(&topology, Workers { count: 2, io: 1 }, Arrangement::P4).unwrap();
        assert_eq!(shown(&places), ["io 1", "forwards 6"]);
    }

    #[test]
    fn impossible_placement_is_refused() {
        let (two, one) = (Machine::new("two", 2, 2), Machine::new("one", 1, 4));
        let (two, one) = (two.topology(&[0, 1, 2, 3]), one.topology(&[0, 1, 2, 3]));
        let plan = |topology: &Topology, count, io, arrangement| {
            plan_placement(topology, Workers { count, io }, arrangement).unwrap_err()
        };
        assert_eq!(
            plan(&two, 2, 2, Arrangement::P1),
            PlacementError::NoForwardingWorker { io: 2, count: 2 }
        );
        assert_eq!(
            plan(&two, 3, 1, Arrangement::P2),
            PlacementError::TooFewIo { arrangement: Arrangement::P2, least: 2 }
        );
        assert_eq!(plan(&one, 3, 2, Arrangement::P3), PlacementError::OneNode(Arrangement::P3));
        assert_eq!(
            plan(&two, 4, 1, Arrangement::P4),
            PlacementError::TooFewCores { node: 1, cores: 2, workers: 3 }
        );
        assert!("P5".parse::<Arrangement>().is_err());
        assert_eq!("P3".parse(), Ok(Arrangement::P3));
    }
}
