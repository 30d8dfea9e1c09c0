//! Drives shards from one thread, for tools that count instructions: `in_turn SHARDS local|uniform
//! EXCHANGES`. See `scripts/count-instructions`.

use anyhow::{Context as _, bail};
use ndn_pipeline_bench::{Arrival, run_in_turn};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [shards, arrival, exchanges] = &arguments[..] else {
        bail!("three arguments: SHARDS local|uniform EXCHANGES");
    };
    let arrival = match arrival.as_str() {
        "local" => Arrival::Local,
        "uniform" => Arrival::Uniform,
        other => bail!("`{other}` is neither local nor uniform"),
    };
    run_in_turn(shards.parse()?, arrival, exchanges.parse().context("a number of exchanges")?)
}
