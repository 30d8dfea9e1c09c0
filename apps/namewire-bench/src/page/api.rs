//! Nodes on other hosts, which are asked by their HTTP API.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// Maximum time of a request.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// The version of this program, which the nodes A and B must have.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Where an API is, and how it is asked.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ApiOptions {
    /// Its address, such as `https://host:6380`.
    pub(crate) url: String,
    /// A token of role operate, of nodes on other hosts admin.
    pub(crate) token: String,
}

impl fmt::Debug for ApiOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ApiOptions").field("url", &self.url).finish_non_exhaustive()
    }
}

/// A client of an API.
#[derive(Debug)]
pub(super) struct Api {
    options: ApiOptions,
    client: reqwest::Client,
    runtime: Runtime,
}

impl Api {
    /// Nothing is sent yet.
    pub(super) fn new(options: &ApiOptions) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = reqwest::Client::builder().timeout(REQUEST_TIME).build()?;
        Ok(Self { options: options.clone(), client, runtime })
    }

    /// The API of node A or B, which must have the version of this program: its tasks are part of the benchmark.
    pub(super) fn of_node(options: &ApiOptions) -> anyhow::Result<Self> {
        let api = Self::new(options)?;
        let answer = api.query("{ version { version } }")?;
        let version = answer["version"]["version"].as_str().unwrap_or("unknown");
        let url = &options.url;
        ensure!(
            version == VERSION,
            "the API at {url} is that of Namewire {version}, and this benchmark needs {VERSION} there"
        );
        Ok(api)
    }

    /// The data of a query or mutation.
    pub(super) fn query(&self, text: &str) -> anyhow::Result<Value> {
        let ApiOptions { url, token } = &self.options;
        let asked = async {
            let request = self.client.post(format!("{}/graphql", url.trim_end_matches('/')));
            let request = request.bearer_auth(token).header("Content-Type", "application/json");
            let response = request.body(json!({ "query": text }).to_string()).send().await?;
            let status = response.status();
            anyhow::Ok((status, response.text().await?))
        };
        let (status, body) =
            self.runtime.block_on(asked).with_context(|| format!("the API at {url}"))?;
        let Ok(mut answer) = serde_json::from_str::<Value>(&body) else {
            bail!("the API at {url} answers {status}: {}", body.trim());
        };
        let error = &answer["errors"][0]["message"];
        ensure!(error.is_null(), "the API at {url}: {}", error.as_str().unwrap_or(""));
        Ok(answer["data"].take())
    }
}
