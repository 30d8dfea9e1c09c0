//! `bench model`: speed of the capacity model.
//!
//! Interests that the fast engine simulates per second of processor time, over one and two threads, and the processor time
//! of a verdict on M/M/1/10 beside SimPy, Ciw and the exact model checker stormpy on the same queue.

use std::fs;
use std::process::Command;

use anyhow::Context;
use ndn_model::check::{Checker, Method, Runner};
use ndn_model::fast::FastEngine;
use ndn_model::file::Model;
use ndn_model::property::Property;
use ndn_model::random::TraceRandom;
use ndn_model::smc::fixed::okamoto_sample_size;
use ndn_sys::clock;
use serde::Serialize;

use ndn_pipeline_bench::Machine;

/// Traces of a measurement.
const TRACES: u32 = 100;
const ROUNDS: u32 = 5;
/// Error of a verdict.
const ERROR: f64 = 0.01;
/// Distance within which the verdict would be known by the number of traces that the paper's tool takes.
const PRECISION: f64 = 0.01;
/// SimPy and Ciw simulate this many of the verdict's traces, at most; the time of the others follows.
const SIMULATED_TRACES: u32 = 20;

/// Options of the bench.
#[derive(Debug, Clone)]
pub struct ModelOptions {
    /// The Python interpreter with SimPy, Ciw and stormpy.
    pub python: String,
}

/// Speed of one model.
#[derive(Debug, Clone, Serialize)]
pub struct ModelCase {
    /// The forwarder.
    pub forwarder: String,
    /// Its workers, or forwarding threads.
    pub workers: usize,
    /// Simulated Interests per second of processor time, at best of some rounds.
    pub interests_per_cpu_s: f64,
    /// The same per second of elapsed time with two threads over one: 2 if nothing is shared.
    pub scaling: f64,
}

/// A verdict on M/M/1/10 at 90 % load.
#[derive(Debug, Clone, Serialize)]
pub struct VerdictCase {
    /// The property to decide.
    pub property: String,
    /// Traces of 1 ms.
    pub traces: u32,
    /// Processor time of the model.
    pub seconds: f64,
    /// Traces of the paper's tool for a verdict with this error (Okamoto 1958).
    pub fixed_traces: u64,
    /// Share of lost packets: 0.0508 is exact.
    pub loss: f64,
    /// Other simulators; none of those that are not installed.
    pub simulators: Vec<Simulator>,
    /// Seconds of `stormpy` to solve the queue as a Markov chain, and its share of lost packets; none if it is not
    /// installed.
    pub stormpy: Option<(f64, f64)>,
}

/// Another simulator of the verdict's queue.
#[derive(Debug, Clone, Serialize)]
pub struct Simulator {
    /// Its name.
    pub name: String,
    /// Processor time for as many traces as the model's verdict takes.
    pub seconds: f64,
    /// It over that of the model.
    pub ratio: f64,
    /// The same for a verdict by the number of traces that the paper's tool takes.
    pub fixed_ratio: f64,
    /// Share of lost packets.
    pub loss: f64,
}

/// Report of the bench.
#[derive(Debug, Clone, Serialize)]
pub struct ModelReport {
    /// The machine.
    pub machine: Machine,
    /// Processes that wanted a processor, on average over the last minute.
    pub load: f64,
    /// One per model.
    pub cases: Vec<ModelCase>,
    /// Time of a verdict.
    pub verdict: VerdictCase,
}

/// Quantiles such as a calibration gives: 64 cells and a tail.
fn law(mean_ns: f64) -> String {
    let quantiles: Vec<String> = (0..=64)
        .map(|cell| format!("\"{:.3} ns\"", mean_ns * (0.5 + f64::from(cell) / 66.0)))
        .collect();
    let quantiles = quantiles.join(", ");
    format!(
        "{{ quantiles = [{quantiles}], tail = {{ probability = 0.01, mean = \"{mean_ns} ns\" }} }}"
    )
}

/// 200 m of fibre on each side: what a station sends becomes known to others so much ahead.
const LINKS: &str = "[links]\nconsumer = { delay = \"1 us\" }\nproducer = { delay = \"1 us\" }\n";

fn namewire(workers: usize) -> String {
    format!(
        "[forwarder]\nkind = \"namewire\"\nworkers = {workers}\ndispatch = {{ balanced = true }}\n\
         [services]\ninput = {{ interest = \"0 ns\", data = \"0 ns\" }}\n\
         forward = {{ interest = {}, data = {} }}\noutput = {{ interest = \"0 ns\", data = \"0 ns\" }}\n\
         produce = \"10 ns\"\n{LINKS}[[consumers]]\nrate = \"{} M/s\"\nprefixes = 255\n\
         [run]\nhorizon = \"{} us\"\n",
        law(400.0),
        law(300.0),
        1.1 * workers as f64,
        5000.0 / (1.1 * workers as f64),
    )
}

fn ndn_dpdk(threads: usize) -> String {
    format!(
        "[forwarder]\nkind = \"ndn-dpdk\"\ninput-threads = 2\nforwarding-threads = {threads}\n\
         dispatch = {{ balanced = true }}\n\
         [services]\ninput = {{ interest = \"20 ns\", data = \"20 ns\" }}\n\
         forward = {{ interest = {}, data = {} }}\noutput = {{ interest = \"20 ns\", data = \"20 ns\" }}\n\
         produce = \"10 ns\"\n{LINKS}[[consumers]]\nrate = \"{} M/s\"\nprefixes = 255\n\
         [run]\nhorizon = \"{} us\"\n",
        law(400.0),
        law(300.0),
        1.1 * threads as f64,
        5000.0 / (1.1 * threads as f64),
    )
}

/// M/M/1/10: a forwarding thread whose queue of Interests holds nine packets beside the one in service. Data take
/// next to no time.
const QUEUE: &str = "[forwarder]\nkind = \"ndn-dpdk\"\nqueue-capacity = 9\nbursts = [1, 1, 1]\n\
    [services]\ninput = { interest = \"0 ns\", data = \"0 ns\" }\n\
    forward = { interest = { exponential = \"900 ns\" }, data = \"1 ps\" }\n\
    output = { interest = \"0 ns\", data = \"0 ns\" }\n\
    [[consumers]]\ninterval = { exponential = \"1 us\" }\n[run]\nhorizon = \"1 ms\"\n";

const SIMPY: &str = r"
import random, simpy, sys, time
traces = int(sys.argv[1])
begin = time.process_time()
sent = lost = 0
for trace in range(traces):
    rng = random.Random(trace)
    env = simpy.Environment()
    server = simpy.Resource(env, 1)
    def packet(env):
        with server.request() as turn:
            yield turn
            yield env.timeout(rng.expovariate(1 / 900.0))
    def source(env):
        global sent, lost
        while True:
            yield env.timeout(rng.expovariate(1 / 1000.0))
            sent += 1
            if server.count + len(server.queue) >= 10:
                lost += 1
            else:
                env.process(packet(env))
    env.process(source(env))
    env.run(until=1e6)
print(time.process_time() - begin, lost / sent)
";

const CIW: &str = r#"
import ciw, sys, time
traces = int(sys.argv[1])
begin = time.process_time()
network = ciw.create_network(
    arrival_distributions=[ciw.dists.Exponential(1 / 1000.0)],
    service_distributions=[ciw.dists.Exponential(1 / 900.0)],
    number_of_servers=[1],
    queue_capacities=[9],
)
sent = lost = 0
for trace in range(traces):
    ciw.seed(trace)
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_time(1e6)
    sent += simulation.nodes[0].number_of_individuals
    lost += len(simulation.get_all_records(only=["rejection"]))
print(time.process_time() - begin, lost / sent)
"#;

/// The queue as a Markov chain: arrivals see the time average, so that the share of the time with ten packets is the
/// share of lost ones.
const STORMPY: &str = r#"
import stormpy, tempfile, time
places = 10
text = f"""ctmc
module queue
 n : [0..{places}] init 0;
 <> n<{places} -> {1 / 1000.0!r} : (n'=n+1);
 <> n>0 -> {1 / 900.0!r} : (n'=n-1);
endmodule
label "full" = n={places};
"""
begin = time.perf_counter()
with tempfile.NamedTemporaryFile("w", suffix=".prism") as file:
    file.write(text)
    file.flush()
    program = stormpy.parse_prism_program(file.name)
formulas = stormpy.parse_properties('LRA=? ["full"]', program)
model = stormpy.build_model(program, formulas)
result = stormpy.model_checking(model, formulas[0])
print(time.perf_counter() - begin, result.get_value(model.initial_states[0]))
"#;

/// Processor time of this thread in seconds.
fn processor_time() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let on_cpu_ns = text.split(' ').next().and_then(|field| field.parse::<f64>().ok());
    on_cpu_ns.unwrap_or(f64::NAN) / 1e9
}

/// Interests of some traces, and their rate per second of processor time.
fn simulate(model: &Model, first: u32) -> (usize, f64) {
    let mut engine = FastEngine::without_digests(&model.network);
    let _ = engine.run(TraceRandom::new(1, first), model.horizon_ps);
    let begin = processor_time();
    let mut interests = 0;
    for trace in 0..TRACES {
        interests += engine.run(TraceRandom::new(1, first + trace), model.horizon_ps).records.len();
    }
    (interests, interests as f64 / (processor_time() - begin))
}

fn model_of(text: &str) -> anyhow::Result<Model> {
    Model::parse(text).context("a model of the bench")
}

fn speed(forwarder: &str, workers: usize, text: &str) -> anyhow::Result<ModelCase> {
    let model = model_of(text)?;
    let best = (0..ROUNDS).map(|round| simulate(&model, round * TRACES).1).fold(0.0, f64::max);
    // In turn, so that disturbances meet both.
    let elapsed = |threads: u32| {
        let begin_ns = clock::now();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let model = &model;
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        simulate(model, (thread * ROUNDS + round) * TRACES);
                    }
                });
            }
        });
        (clock::now() - begin_ns) as f64 / 1e9
    };
    let ratios = (0..3).map(|_| 2.0 * elapsed(1) / elapsed(2));
    let scaling = ndn_pipeline_bench::median(ratios);
    Ok(ModelCase { forwarder: forwarder.to_owned(), workers, interests_per_cpu_s: best, scaling })
}

/// Seconds and loss of a Python program; none if what it needs is not installed.
fn beside(python: &str, program: &str, arguments: &[String]) -> Option<(f64, f64)> {
    let output = Command::new(python).args(["-c", program]).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut fields = text.split_ascii_whitespace().map(str::parse::<f64>);
    Some((fields.next()?.ok()?, fields.next()?.ok()?))
}

fn verdict(options: &ModelOptions, progress: &mut impl FnMut(&str)) -> anyhow::Result<VerdictCase> {
    let text = "P(share(dropped) <= 0.1) >= 0.95";
    let model = model_of(QUEUE)?;
    let property = Property::parse(text, &model).context("the property of the bench")?;
    let method = Method::ConfidenceSequence { precision: PRECISION };
    let begin = processor_time();
    let mut runner = Runner::new(&model, &property, 1);
    let mut checker = Checker::new(&property, method, ERROR)?;
    while !checker.observe(runner.observe(checker.traces()))? {}
    let seconds = processor_time() - begin;
    let traces = checker.traces();
    let share =
        Property::parse("E(share(dropped))", &model).context("the property of the bench")?;
    let mut runner = Runner::new(&model, &share, 1);
    let loss = (0..traces).map(|trace| runner.observe(trace)).sum::<f64>() / f64::from(traces);
    let fixed_traces = okamoto_sample_size(PRECISION, ERROR)?;
    let simulated = traces.min(SIMULATED_TRACES);
    let python = &options.python;
    let mut skipped = |name: &str| {
        let install = format!("pip install {name}");
        progress(&format!("SKIPPED: {python} has no {name} ({install}): no comparison"));
    };
    let mut simulators = Vec::new();
    for (name, program) in [("simpy", SIMPY), ("ciw", CIW)] {
        let Some((of_simulated, loss)) = beside(python, program, &[simulated.to_string()]) else {
            skipped(name);
            continue;
        };
        let of_trace = of_simulated / f64::from(simulated);
        simulators.push(Simulator {
            name: name.to_owned(),
            seconds: of_trace * f64::from(traces),
            ratio: of_trace * f64::from(traces) / seconds,
            fixed_ratio: of_trace * fixed_traces as f64 / seconds,
            loss,
        });
    }
    let stormpy = beside(python, STORMPY, &[]);
    if stormpy.is_none() {
        skipped("stormpy");
    }
    let text = text.to_owned();
    Ok(VerdictCase { property: text, traces, seconds, fixed_traces, loss, simulators, stormpy })
}

/// Measures the engine and a verdict.
///
/// # Errors
/// A model of the bench is refused.
pub fn run_model(
    options: &ModelOptions,
    mut progress: impl FnMut(&str),
) -> anyhow::Result<ModelReport> {
    let mut cases = Vec::new();
    for workers in [1, 8] {
        progress(&format!("{workers} workers"));
        cases.push(speed("namewire", workers, &namewire(workers))?);
        cases.push(speed("ndn-dpdk", workers, &ndn_dpdk(workers))?);
    }
    progress("a verdict");
    let verdict = verdict(options, &mut progress)?;
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().and_then(|field| field.parse().ok()).unwrap_or(f64::NAN);
    Ok(ModelReport { machine: Machine::read(), load, cases, verdict })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_of_the_modelled_queue_equals_the_excess_load() {
        let model = model_of(QUEUE).unwrap();
        let share = Property::parse("E(share(dropped))", &model).unwrap();
        let mut runner = Runner::new(&model, &share, 1);
        let loss = (0..400).map(|trace| runner.observe(trace)).sum::<f64>() / 400.0;
        assert!((loss - 0.050_813_731_3).abs() < 0.003, "{loss}");
    }

    #[test]
    fn models_of_the_bench_are_accepted() {
        for text in [namewire(1), namewire(8), ndn_dpdk(1), ndn_dpdk(8)] {
            let model = model_of(&text).unwrap();
            assert!(simulate(&model, 0).0 > 100 * 4900);
        }
    }
}
