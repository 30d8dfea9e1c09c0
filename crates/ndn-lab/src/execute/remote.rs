//! Runs on hosts over SSH.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddrV4;
use std::time::Duration;

use ndn_sys::clock::Clock;

use super::outcome::{CLOCK_ERROR, RunFailure};
use crate::hosts::{Agent, Assignment, ClockOffset, Hosts, Order, Report};
use crate::network::Network;
use crate::testbed::place::Addresses;
use crate::testbed::{Driven, Testbed, measures};

/// Time between the last message before a load and its begin on all hosts.
const LEAD: Duration = Duration::from_millis(500);
/// Time for an answer beyond that of the run.
const GRACE: Duration = Duration::from_secs(60);

/// A run on hosts.
pub(super) struct RemoteRun<'a> {
    pub(super) testbed: &'a Testbed,
    pub(super) network: &'a Network<'a>,
    /// By node: number of its host.
    pub(super) places: Vec<usize>,
    /// The assignment of each host but for its number and nodes.
    pub(super) assignment: Assignment,
    pub(super) limit: Duration,
}

impl RemoteRun<'_> {
    /// Performs it.
    ///
    /// # Errors
    /// A host fails.
    pub(super) fn perform(
        &self,
        hosts: &Hosts,
        clock: &Clock,
    ) -> Result<BTreeMap<String, f64>, RunFailure> {
        let mut agents = hosts.take()?;
        let measured = self.perform_with(&mut agents, clock)?;
        // Agents of a run that failed end, with all that they have started.
        hosts.give_back(agents);
        Ok(measured)
    }

    fn perform_with(
        &self,
        agents: &mut [Agent],
        clock: &Clock,
    ) -> Result<BTreeMap<String, f64>, RunFailure> {
        let offsets = offsets(agents, clock)?;
        let begin = clock.now();
        let addresses = self.prepare(agents)?;
        for agent in &mut *agents {
            agent.send(&Order::Start(Box::new(addresses.endpoints.clone())))?;
        }
        let links = self.testbed.start_links(self.network, addresses, clock)?;
        for agent in &*agents {
            let Report::Started = self.receive(agent)? else { return Err(unexpected(agent)) };
        }
        let start_ms = (clock.now() - begin).as_secs_f64() * 1e3;
        let overflows = links.as_ref().map_or(0, |links| links.overflows());
        let origin = (clock.now() + LEAD).as_nanos();
        for (agent, offset) in agents.iter_mut().zip(&offsets) {
            let origin_ns = origin.checked_add_signed(offset.offset_ns).unwrap_or(origin);
            agent.send(&Order::Drive { origin_ns })?;
        }
        for agent in &*agents {
            let Report::Complete = self.receive(agent)? else { return Err(unexpected(agent)) };
        }
        for agent in &mut *agents {
            agent.send(&Order::Stop)?;
        }
        let mut driven = Driven::none();
        for agent in &*agents {
            let Report::Driven(part) = self.receive(agent)? else { return Err(unexpected(agent)) };
            driven.add(*part);
        }
        let overflows = links.as_ref().map_or(0, |links| links.overflows()) - overflows;
        let mut all = measures(self.network, &driven, (start_ms, overflows))?;
        let after = self::offsets(agents, clock)?;
        let error_ns = offsets.iter().zip(&after).map(|(before, after)| {
            // Both estimates, and the drift between them.
            let drift = before.offset_ns.abs_diff(after.offset_ns);
            before.error_ns.max(after.error_ns) + drift
        });
        all.insert(CLOCK_ERROR.to_owned(), error_ns.max().unwrap_or(0) as f64 / 1e6);
        Ok(all)
    }

    /// Distributes the nodes, and collects their addresses.
    fn prepare(&self, agents: &mut [Agent]) -> Result<Addresses, RunFailure> {
        let topology = self.network.topology;
        let mut listen = vec![None; topology.nodes.len()];
        for (host, agent) in agents.iter_mut().enumerate() {
            let own = self.places.iter().enumerate().filter(|(_, place)| **place == host);
            let nodes: BTreeSet<usize> = own.map(|(node, _)| node).collect();
            let assignment = Assignment { host, nodes, ..self.assignment.clone() };
            agent.send(&Order::Prepare(Box::new(assignment)))?;
        }
        for (host, agent) in agents.iter().enumerate() {
            let Report::Ports(ports) = self.receive(agent)? else { return Err(unexpected(agent)) };
            let nodes = (0..listen.len()).filter(|node| self.places[*node] == host);
            for (node, port) in nodes.collect::<Vec<_>>().into_iter().zip(ports) {
                listen[node] = Some(SocketAddrV4::new(agent.addresses.0, port));
            }
        }
        let listen: Option<Vec<SocketAddrV4>> = listen.into_iter().collect();
        let listen = listen.ok_or_else(|| "a host has chosen too few ports".to_owned())?;
        let emulator = |node: usize| {
            let (_, own) = agents[self.places[node]].addresses;
            own.filter(|_| self.testbed.is_emulated)
        };
        if self.testbed.is_emulated && (0..listen.len()).any(|node| emulator(node).is_none()) {
            let reason = "emulated links lead through this machine, which has no IPv4 address for the hosts; links = \"direct\"";
            return Err(reason.to_owned().into());
        }
        let addresses = Addresses::new(topology, listen, emulator);
        addresses.map_err(|error| format!("sockets of emulated links: {error}").into())
    }

    /// The next message of an agent; the failure if it is one.
    fn receive(&self, agent: &Agent) -> Result<Report, RunFailure> {
        let report = agent.receive(self.limit + GRACE)?;
        if let Report::Failed { reason, log } = report {
            return Err(RunFailure { reason: agent.failed(&reason), log });
        }
        Ok(report)
    }
}

fn unexpected(agent: &Agent) -> RunFailure {
    agent.failed(&"another answer than expected").into()
}

fn offsets(agents: &mut [Agent], clock: &Clock) -> Result<Vec<ClockOffset>, String> {
    agents.iter_mut().map(|agent| agent.clock_offset(clock)).collect()
}
