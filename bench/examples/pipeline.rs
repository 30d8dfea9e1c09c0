//! Runs `bench pipeline` and prints its report: `cargo run --release -p namewire-bench --example
//! pipeline [filter [pairs]]`.

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut options = namewire_bench::PipelineOptions {
        filter: arguments.next(),
        ..namewire_bench::PipelineOptions::default()
    };
    if let Some(pairs) = arguments.next() {
        options.pairs = pairs.parse()?;
    }
    let report = namewire_bench::run_pipeline(&options, |line| eprintln!("{line}"))?;
    #[expect(clippy::print_stdout, reason = "the output of the example")]
    {
        println!("{}", serde_json::to_string_pretty(&report)?);
    }
    Ok(())
}
