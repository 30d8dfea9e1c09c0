//! A forwarder on another host as F, by its HTTP API.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use ndn_client::ForwarderAddress;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::plan::{PageTransport, Plan};
use crate::relay::clock;

/// Maximum time of a request.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// Where the forwarder is, and how it is asked.
#[derive(Clone)]
pub(crate) struct RemoteOptions {
    /// Its address for nodes: `udp://host:port` or `tcp://host:port`.
    pub(crate) transport: String,
    /// Address of its HTTP API.
    pub(crate) api: String,
    /// A token of role operate.
    pub(crate) token: String,
}

impl fmt::Debug for RemoteOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RemoteOptions")
            .field("transport", &self.transport)
            .finish_non_exhaustive()
    }
}

impl RemoteOptions {
    /// Checks that a plan can be run with it.
    ///
    /// # Errors
    /// The input that cannot be used.
    pub(crate) fn check(&self, plan: &Plan) -> Result<(), String> {
        let own = match self.transport.parse() {
            Ok(ForwarderAddress::Udp { .. }) => PageTransport::Udp,
            Ok(ForwarderAddress::Tcp { .. }) => PageTransport::Tcp,
            Ok(_) | Err(_) => {
                return Err("the address of the forwarder is udp://… or tcp://…".to_owned());
            }
        };
        if plan.transport != own {
            return Err(format!("transport: that of {} is needed", self.transport));
        }
        let default = Plan::default();
        if plan.has_link() || plan.peers != default.peers || plan.workers != default.workers {
            return Err(
                "workers, peers and the link are those of a forwarder that the benchmark starts"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

/// The forwarder.
pub(super) struct Remote {
    options: RemoteOptions,
    client: reqwest::Client,
    runtime: Runtime,
}

impl Remote {
    /// Erases what the benchmark before has left in its Content Store.
    pub(super) fn prepare(options: &RemoteOptions) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = reqwest::Client::builder().timeout(REQUEST_TIME).build()?;
        let remote = Self { options: options.clone(), client, runtime };
        remote.query(
            "mutation { a: csErase(name: \"/A\") { count } b: csErase(name: \"/B\") { count } }",
        )?;
        Ok(remote)
    }

    /// Its address for nodes.
    pub(super) fn transport(&self) -> &str {
        &self.options.transport
    }

    /// Time that its workers have been busy so far, since an arbitrary moment.
    pub(super) fn busy(&self) -> anyhow::Result<Duration> {
        let data = self.query("{ statistics { workers { waitedNs } } }")?;
        let now = clock::monotonic_ns();
        let workers = data["statistics"]["workers"].as_array().context("no workers")?;
        let waited = workers.iter().filter_map(|worker| worker["waitedNs"].as_u64()).sum::<u64>();
        let all = u64::try_from(workers.len())?;
        // The moment is the same for all readings of this process.
        Ok(Duration::from_nanos((now * all + (1 << 62)).saturating_sub(waited)))
    }

    /// Hits of its Content Store so far.
    pub(super) fn cache_hits(&self) -> anyhow::Result<Option<u64>> {
        Ok(self.query("{ cs { hits } }")?["cs"]["hits"].as_u64())
    }

    fn query(&self, text: &str) -> anyhow::Result<Value> {
        let url = format!("{}/graphql", self.options.api.trim_end_matches('/'));
        let asked = async {
            let request = self.client.post(url).bearer_auth(&self.options.token);
            let request = request.header("Content-Type", "application/json");
            let response = request.body(json!({ "query": text }).to_string()).send().await?;
            let status = response.status();
            anyhow::Ok((status, response.text().await?))
        };
        let asked = self.runtime.block_on(asked);
        let (status, body) = asked.with_context(|| format!("the API at {}", self.options.api))?;
        let Ok(mut answer) = serde_json::from_str::<Value>(&body) else {
            bail!("the API at {} answers {status}: {}", self.options.api, body.trim());
        };
        let error = &answer["errors"][0]["message"];
        ensure!(
            error.is_null(),
            "the API at {}: {}",
            self.options.api,
            error.as_str().unwrap_or("")
        );
        Ok(answer["data"].take())
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Peers;
    use super::*;

    #[test]
    fn inputs_of_a_forwarder_that_is_started_are_refused() {
        let (api, token) = ("http://127.0.0.1:1".to_owned(), "secret".to_owned());
        let options = RemoteOptions { transport: "udp://router:6363".to_owned(), api, token };
        let plan = Plan { transport: PageTransport::Udp, ..Plan::default() };
        assert_eq!(options.check(&plan), Ok(()));
        for (wrong, reason) in [
            (Plan::default(), "transport"),
            (Plan { workers: 2, ..plan }, "workers"),
            (Plan { peers: Peers::Nfd, ..plan }, "peers"),
            (Plan { delay_ms: 1.0, ..plan }, "link"),
        ] {
            assert!(options.check(&wrong).unwrap_err().contains(reason), "{reason}");
        }
        let unix = RemoteOptions { transport: "unix:///x".to_owned(), ..options };
        assert!(unix.check(&plan).is_err() && !format!("{unix:?}").contains("secret"));
    }
}
