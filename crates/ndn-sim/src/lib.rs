//! Networks of whole forwarders on virtual time, in one thread.
//!
//! A seed determines everything: topology, links (rate, delay, queue, loss, reordering, duplication, MTU, NDNLPv2
//! reliability), shared media, workers and their order, applications, routing loops, bursts, partitions, crashes and restarts, changes of routes, strategies
//! and faces. While a scenario runs, [`Monitor`] checks what every node sends against what it received;
//! at the end [`Simulation`] checks that the network serves every reachable prefix and that every node
//! accounts for every Interest. A failing seed is shrunk to the elements that the failure needs and can
//! be replayed.
//!
//! [`Attack`] is another kind of scenario: few principals with many ports against one forwarder that serves
//! others.
//!
//! | module | contents |
//! |---|---|
//! | `attack` | [`Attack`]: random attacks of addresses or users |
//! | `requests` | [`Wish`]: valid requests of users to management |
//! | `forwarder` | [`start_forwarder`]: a Namewire forwarder as a [`Node`] |
//! | `node` | [`Node`]: a forwarder as the simulation sees it |
//! | `scenario` | [`Scenario`]: topology, load and faults of a seed |
//! | `monitor` | [`Monitor`]: invariants on the frames of one node |
//! | `simulation` | [`Simulation`]: events on virtual time |
//! | `shrink` | [`shrink()`]: the smallest part of a scenario that still fails |
#![forbid(unsafe_code)]

mod attack;
mod forwarder;
mod monitor;
mod node;
mod requests;
mod scenario;
mod shrink;
mod simulation;

pub use attack::{Attack, AttackFault, AttackOutcome, Flood, Move, Target, UserRequests};
pub use forwarder::{PlantedFault, start_faulty_forwarder, start_forwarder};
pub use monitor::{Monitor, Violation};
pub use node::{Node, NodeSpec, Port, PortKind, PortSpec, Pressure};
pub use requests::Wish;
pub use scenario::{
    Burst, Edge, Element, Fault, Limits, Medium, Producer, Request, RouteLoop, STRATEGIES,
    Scenario, StrategyChoice,
};
pub use shrink::{Shrunk, shrink};
pub use simulation::{Failure, ScenarioOutcome, Simulation, Start};
