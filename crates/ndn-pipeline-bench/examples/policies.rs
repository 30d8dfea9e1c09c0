//! Drives a shard with a replacement policy of the Content Store, for tools that count instructions: `policies POLICY
//! hits|misses EXCHANGES`. See `scripts/count-policies`.

use anyhow::{Context as _, bail};
use ndn_pipeline_bench::run_policy_in_turn;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [policy, requests, exchanges] = &arguments[..] else {
        bail!("three arguments: POLICY hits|misses EXCHANGES");
    };
    let are_hits = match requests.as_str() {
        "hits" => true,
        "misses" => false,
        other => bail!("`{other}` is neither hits nor misses"),
    };
    run_policy_in_turn(
        policy.parse()?,
        are_hits,
        exchanges.parse().context("a number of exchanges")?,
    )
}
