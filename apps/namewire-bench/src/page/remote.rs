//! The nodes that are on other hosts: which, and a forwarder there as F.

use std::time::Duration;

use anyhow::Context;
use ndn_client::ForwarderAddress;

use super::api::{Api, ApiOptions};
use super::plan::{Node, PageTransport, Peers, Plan, ProducerKind};
use crate::relay::clock;

/// A forwarder on another host.
#[derive(Debug, Clone)]
pub(crate) struct RemoteOptions {
    /// Its address for nodes: `udp://host:port` or `tcp://host:port`.
    pub(crate) transport: String,
    /// Its HTTP API.
    pub(crate) api: ApiOptions,
}

/// The nodes that are on other hosts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Elsewhere {
    /// F.
    pub(crate) forwarder: Option<RemoteOptions>,
    /// The API of A.
    pub(crate) a: Option<ApiOptions>,
    /// The API of B.
    pub(crate) b: Option<ApiOptions>,
}

impl Elsewhere {
    /// The API of a node, if it is elsewhere.
    pub(super) fn node(&self, node: Node) -> Option<&ApiOptions> {
        match node {
            Node::A => self.a.as_ref(),
            Node::B => self.b.as_ref(),
        }
    }

    /// Checks that a plan can be run with them.
    ///
    /// # Errors
    /// The input that cannot be used.
    pub(crate) fn check(&self, plan: &Plan) -> Result<(), String> {
        let has_nodes = self.a.is_some() || self.b.is_some();
        let Some(forwarder) = &self.forwarder else {
            // Nodes elsewhere could not reach it.
            return match has_nodes {
                true => Err("nodes on other hosts need a forwarder that they can reach".to_owned()),
                false => Ok(()),
            };
        };
        let own = match forwarder.transport.parse() {
            Ok(ForwarderAddress::Udp { .. }) => PageTransport::Udp,
            Ok(ForwarderAddress::Tcp { .. }) => PageTransport::Tcp,
            Ok(_) | Err(_) => {
                return Err("the address of the forwarder is udp://… or tcp://…".to_owned());
            }
        };
        if plan.transport != own {
            return Err(format!("transport: that of {} is needed", forwarder.transport));
        }
        if plan.has_link() || plan.peers != Peers::None || plan.workers != Plan::default().workers {
            return Err(
                "workers, peers and the link are those of a forwarder that the benchmark starts"
                    .to_owned(),
            );
        }
        if has_nodes && plan.producer == ProducerKind::Files {
            return Err("producer: the nodes on other hosts have the generator only".to_owned());
        }
        Ok(())
    }
}

/// A forwarder on another host as F.
#[derive(Debug)]
pub(super) struct Remote {
    transport: String,
    api: Api,
}

impl Remote {
    /// Erases what the benchmark before has left in its Content Store.
    pub(super) fn prepare(options: &RemoteOptions) -> anyhow::Result<Self> {
        let api = Api::new(&options.api)?;
        api.query(
            "mutation { a: csErase(name: \"/A\") { count } b: csErase(name: \"/B\") { count } }",
        )?;
        Ok(Self { transport: options.transport.clone(), api })
    }

    /// Its address for nodes.
    pub(super) fn transport(&self) -> &str {
        &self.transport
    }

    /// Time that its workers have been busy so far, since an arbitrary moment.
    pub(super) fn busy(&self) -> anyhow::Result<Duration> {
        let data = self.api.query("{ statistics { workers { waitedNs } } }")?;
        let now = clock::monotonic_ns();
        let workers = data["statistics"]["workers"].as_array().context("no workers")?;
        let waited = workers.iter().filter_map(|worker| worker["waitedNs"].as_u64()).sum::<u64>();
        let all = u64::try_from(workers.len())?;
        // The moment is the same for all readings of this process.
        Ok(Duration::from_nanos((now * all + (1 << 62)).saturating_sub(waited)))
    }

    /// Hits of its Content Store so far.
    pub(super) fn cache_hits(&self) -> anyhow::Result<Option<u64>> {
        Ok(self.api.query("{ cs { hits } }")?["cs"]["hits"].as_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_of_nodes_that_are_started_are_refused() {
        let api = ApiOptions { url: "http://127.0.0.1:1".to_owned(), token: "secret".to_owned() };
        let of = |transport: &str| {
            Some(RemoteOptions { transport: transport.to_owned(), api: api.clone() })
        };
        let forwarder = Elsewhere { forwarder: of("udp://router:6363"), ..Elsewhere::default() };
        let plan = Plan { transport: PageTransport::Udp, ..Plan::default() };
        assert_eq!(forwarder.check(&plan), Ok(()));
        let nodes = Elsewhere { a: Some(api.clone()), b: Some(api.clone()), ..forwarder.clone() };
        assert_eq!(nodes.check(&plan), Ok(()));
        for (wrong, reason) in [
            (Plan::default(), "transport"),
            (Plan { workers: 2, ..plan }, "workers"),
            (Plan { peers: Peers::Nfd, ..plan }, "peers"),
            (Plan { delay_ms: 1.0, ..plan }, "link"),
        ] {
            assert!(forwarder.check(&wrong).unwrap_err().contains(reason), "{reason}");
        }
        let files = Plan { producer: ProducerKind::Files, ..plan };
        assert_eq!(forwarder.check(&files), Ok(()));
        assert!(nodes.check(&files).unwrap_err().contains("producer"));
        let alone = Elsewhere { forwarder: None, ..nodes };
        assert!(alone.check(&plan).unwrap_err().contains("forwarder"));
        let unix = Elsewhere { forwarder: of("unix:///x"), ..forwarder };
        assert!(unix.check(&plan).is_err() && !format!("{unix:?}").contains("secret"));
    }
}
