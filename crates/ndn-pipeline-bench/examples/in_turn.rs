//! Drives shards from one thread, for tools that count instructions: `in_turn random|segments SHARDS
//! local|uniform EXCHANGES`. See `scripts/count-instructions`.

use anyhow::{Context as _, bail};
use ndn_pipeline_bench::{Arrival, NameOrder, run_in_turn};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [names, shards, arrival, exchanges] = &arguments[..] else {
        bail!("four arguments: random|segments SHARDS local|uniform EXCHANGES");
    };
    let names = match names.as_str() {
        "random" => NameOrder::Random,
        "segments" => NameOrder::Segments,
        other => bail!("`{other}` is neither random nor segments"),
    };
    let arrival = match arrival.as_str() {
        "local" => Arrival::Local,
        "uniform" => Arrival::Uniform,
        other => bail!("`{other}` is neither local nor uniform"),
    };
    let exchanges = exchanges.parse().context("a number of exchanges")?;
    run_in_turn(shards.parse()?, names, arrival, exchanges)
}
