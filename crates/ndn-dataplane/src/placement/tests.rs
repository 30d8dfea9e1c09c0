//! Machines that are files, and where the workers go on them.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::PathBuf;

use super::*;

/// A directory that looks like `/`, removed when dropped.
struct Machine(PathBuf);

impl Machine {
    /// So many cores of two threads on each node; the second threads have the higher numbers.
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

/// Each worker as a letter for what it does (clients, servers, io for both, forwards, all) and its
/// processor.
fn shown(places: &[Place]) -> Vec<String> {
    let letter = |roles: Roles| match (roles.clients, roles.servers, roles.forwards) {
        (true, true, true) => "all",
        (true, true, false) => "io",
        (true, false, false) => "clients",
        (false, true, false) => "servers",
        (false, false, true) => "forwards",
        _ => "odd",
    };
    places.iter().map(|place| format!("{} {}", letter(place.roles), place.cpu.unwrap())).collect()
}

#[test]
fn the_four_arrangements_divide_faces_and_workers_between_two_nodes() {
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
fn only_processors_that_may_be_used_are() {
    let machine = Machine::new("allowed", 2, 2);
    let topology = machine.topology(&[1, 5, 6, 7]);
    let places = plan_placement(&topology, Workers { count: 2, io: 1 }, Arrangement::P4).unwrap();
    assert_eq!(shown(&places), ["io 1", "forwards 6"]);
}

#[test]
fn what_cannot_be_is_refused() {
    let (two, one) = (Machine::new("two", 2, 2), Machine::new("one", 1, 4));
    let (two, one) = (two.topology(&[0, 1, 2, 3]), one.topology(&[0, 1, 2, 3]));
    let plan = |topology: &Topology, count, io, arrangement| {
        plan_placement(topology, Workers { count, io }, arrangement).unwrap_err()
    };
    assert_eq!(
        plan(&two, 2, 2, Arrangement::P1),
        PlacementError::NobodyForwards { io: 2, count: 2 }
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
