//! Starts the forwarder and offers the rates.

use std::fs;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Context, anyhow};
use hdrhistogram::Histogram;
use ndn_traffic::io::{Endpoint, run_consumer, run_producer};
use ndn_traffic::{
    Arrivals, Consumer, ConsumerPattern, ConsumerScenario, Load, Names, Producer, ProducerPattern,
    ProducerScenario,
};

use super::{OverloadCase, OverloadOptions};
use crate::median;
use crate::relay::attach::register_udp_face;
use crate::relay::clock::{monotonic_ns, pause, steal_ns};
use crate::relay::programs::{Addresses, CS_CAPACITY, Program, Running};
use crate::relay::wire::PREFIX;

/// Shorter than by default, so that a consumer need not remember too many.
const LIFETIME_MS: u32 = 500;
/// Interests in flight of the closed loops, over all consumers.
const WINDOW: u32 = 1024;
/// Share of the time that the host may take away before a round is discarded.
const STEAL_MAX: f64 = 0.01;
/// Share of the aimed-at rate that has to be sent.
const SENT_MIN: f64 = 0.95;
/// The settings of both modes: without the quotas of peers, which would refuse Interests, too.
const ANSWERS_FIRST: &str = "[limits]\npending_interests_per_face = 0\ninterests_per_second = 0\n";
const AS_IT_COMES: &str = "[limits]\npending_interests_per_face = 0\ninterests_per_second = 0\n\
    [overload]\nanswers_first = false\n";
/// Between two rounds, so that what is pending ends.
const PAUSE: Duration = Duration::from_millis(600);

/// A forwarder, and the ports of its peers.
struct Subject<'a> {
    options: &'a OverloadOptions,
    running: Running,
    addresses: Addresses,
    /// Of the next names.
    seed: u64,
}

impl Drop for Subject<'_> {
    fn drop(&mut self) {
        // A leftover folder under the temporary directory is no reason to fail.
        let _ = fs::remove_dir_all(&self.addresses.folder);
    }
}

/// What came of one offer.
struct Outcome {
    seconds: f64,
    sent: u64,
    satisfied: u64,
    nacked: u64,
    answers: u64,
    latency_ns: Histogram<u64>,
    forwarder_busy: f64,
    stolen: f64,
}

/// Measures all rates in one mode. The first call finds out which rate is sustainable.
pub(super) fn run_mode(
    options: &OverloadOptions,
    answers_first: bool,
    sustainable_per_s: &mut Option<f64>,
    progress: &mut impl FnMut(&str),
) -> anyhow::Result<Vec<OverloadCase>> {
    let mode = if answers_first { "answers first" } else { "as it comes" };
    progress(&format!("{mode}: start and warm"));
    let mut subject = Subject::start(options, answers_first)?;
    let sustainable = match *sustainable_per_s {
        Some(rate) => {
            subject.warm()?;
            rate
        }
        None => *sustainable_per_s.insert(subject.sustainable()?),
    };
    progress(&format!("{mode}: {sustainable:.0}/s are sustainable"));
    let mut rows = Vec::new();
    for &ratio in &options.ratios {
        let row = subject.case(answers_first, ratio, sustainable)?;
        progress(&format!(
            "{mode}: {ratio:.1} x, {:.0}/s sent, {:.0}/s satisfied",
            row.offered_per_s, row.satisfied_per_s
        ));
        rows.push(row);
    }
    Ok(rows)
}

impl<'a> Subject<'a> {
    fn start(options: &'a OverloadOptions, answers_first: bool) -> anyhow::Result<Self> {
        let number = u16::from(!answers_first);
        let folder =
            std::env::temp_dir().join(format!("namewire-overload-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let consumers = u16::try_from(options.cpus.len() - 2)?;
        let first = options.first_port + number * 512;
        let addresses = Addresses {
            folder,
            udp_port: first,
            producer_port: first + 1,
            consumer_ports: (0..consumers).map(|consumer| first + 2 + consumer).collect(),
            udp: true,
            settings: if answers_first { ANSWERS_FIRST } else { AS_IT_COMES },
            workers: 1,
        };
        let executable = std::env::current_exe()?;
        let running =
            Running::start(Program::Namewire, &executable, &addresses, &options.cpus[..1])?;
        let operator = UnixStream::connect(addresses.socket())?;
        register_udp_face(&operator, addresses.producer_port)?;
        Ok(Self { options, running, addresses, seed: u64::from(number) << 32 })
    }

    /// Fills the Content Store, until it evicts.
    fn warm(&mut self) -> anyhow::Result<()> {
        let each = u64::from(CS_CAPACITY) * 3 / self.addresses.consumer_ports.len() as u64;
        self.offer(Load::Window(self.window()), Some(each), Duration::from_secs(30)).map(drop)
    }

    fn window(&self) -> u32 {
        WINDOW / u32::try_from(self.addresses.consumer_ports.len()).unwrap_or(1)
    }

    /// Exchanges per second of a closed loop.
    fn sustainable(&mut self) -> anyhow::Result<f64> {
        self.warm()?;
        let mut rates = Vec::new();
        for _ in 0..self.options.rounds.max(3) {
            let load = Load::Window(self.window());
            let outcome = self.offer(load, None, self.options.stretch)?;
            rates.push(per_second(outcome.satisfied, &outcome));
        }
        Ok(median(rates.into_iter()))
    }

    fn case(
        &mut self,
        answers_first: bool,
        ratio: f64,
        sustainable: f64,
    ) -> anyhow::Result<OverloadCase> {
        let consumers = to_f64(self.addresses.consumer_ports.len() as u64);
        let per_consumer = ratio * sustainable / consumers;
        let load = Load::Rate { per_second: per_consumer, arrivals: Arrivals::Fixed };
        let (mut outcomes, mut discarded) = (Vec::new(), 0);
        for _ in 0..self.options.rounds {
            let outcome = self.offer(load, None, self.options.stretch)?;
            if outcome.stolen > STEAL_MAX {
                discarded += 1;
            }
            outcomes.push(outcome);
        }
        // If the host was never quiet, what there is is better than nothing, and says so.
        if discarded < outcomes.len() {
            outcomes.retain(|outcome| outcome.stolen <= STEAL_MAX);
        }
        let over = |figure: &dyn Fn(&Outcome) -> f64| median(outcomes.iter().map(figure));
        let offered_per_s = over(&|one| per_second(one.sent, one));
        let millis =
            |quantile: f64| over(&|one| to_f64(one.latency_ns.value_at_quantile(quantile)) / 1e6);
        Ok(OverloadCase {
            answers_first,
            ratio,
            offered_per_s,
            satisfied_per_s: over(&|one| per_second(one.satisfied, one)),
            of_peak: 0.0,
            satisfied: over(&|one| to_f64(one.satisfied) / to_f64(one.sent.max(1))),
            nacked_per_s: over(&|one| per_second(one.nacked, one)),
            answers_lost: over(&|one| {
                1.0 - to_f64(one.satisfied) / to_f64(one.answers.max(one.satisfied).max(1))
            }),
            p50_ms: millis(0.5),
            p99_ms: millis(0.99),
            forwarder_busy: over(&|one| one.forwarder_busy),
            generator_bound: offered_per_s < SENT_MIN * ratio * sustainable,
            rounds_discarded: discarded,
        })
    }

    /// Lets all consumers send for so long, or so many Interests each.
    fn offer(
        &mut self,
        load: Load,
        count: Option<u64>,
        stretch: Duration,
    ) -> anyhow::Result<Outcome> {
        self.seed += 1 << 16;
        let (stop, never) = (AtomicBool::new(false), AtomicBool::new(false));
        let addresses = &self.addresses;
        let mut producer = Producer::new(&answers(self.options.payload), self.seed)?;
        // Sockets are made here, so that a port that is taken is told before anything starts.
        let answering = Endpoint::datagram(addresses.producer_port, addresses.udp_port)?;
        let mut asking = Vec::new();
        for &port in &addresses.consumer_ports {
            asking.push(Endpoint::datagram(port, addresses.udp_port)?);
        }
        let scenario = questions(load, count);
        let (cpus, seed) = (&self.options.cpus, self.seed);
        let (cpu_before, stolen) = (self.running.cpu_ns()?, steal_ns());
        let start_ns = monotonic_ns();
        let end_ns = start_ns + u64::try_from(stretch.as_nanos())?;
        let (consumers, forwarder_ns, elapsed_ns) = thread::scope(|scope| {
            let producing = scope.spawn(|| {
                pin(cpus[1])?;
                run_producer(&mut producer, vec![answering], &stop, |_| {})?;
                anyhow::Ok(())
            });
            let mut consuming: Vec<ScopedJoinHandle<'_, anyhow::Result<Consumer>>> = Vec::new();
            for ((number, endpoint), &cpu) in (0_u64..).zip(asking).zip(&cpus[2..]) {
                let (scenario, never) = (&scenario, &never);
                consuming.push(scope.spawn(move || {
                    pin(cpu)?;
                    let mut consumer = Consumer::new(scenario, seed + number, monotonic_ns())?;
                    run_consumer(&mut consumer, vec![endpoint], Some(end_ns), never, |_| {})?;
                    Ok(consumer)
                }));
            }
            if count.is_none() {
                pause(Duration::from_nanos(end_ns.saturating_sub(monotonic_ns())));
            }
            let at_end = (self.running.cpu_ns(), monotonic_ns() - start_ns);
            let consumers: anyhow::Result<Vec<Consumer>> =
                consuming.into_iter().map(joined).collect();
            stop.store(true, Ordering::Relaxed);
            joined(producing)?;
            anyhow::Ok((consumers?, at_end.0?.saturating_sub(cpu_before), at_end.1))
        })?;
        let seconds = stretch.as_secs_f64();
        let stolen = to_f64(steal_ns() - stolen) / to_f64(monotonic_ns() - start_ns);
        let mut outcome = Outcome {
            seconds,
            sent: 0,
            satisfied: 0,
            nacked: 0,
            answers: producer.counters().iter().map(|pattern| pattern.data).sum(),
            latency_ns: Histogram::new(3)?,
            forwarder_busy: to_f64(forwarder_ns) / to_f64(elapsed_ns),
            stolen,
        };
        for pattern in consumers.iter().flat_map(Consumer::counters) {
            outcome.sent += pattern.sent;
            outcome.satisfied += pattern.satisfied;
            outcome.nacked += pattern.nacked;
            outcome.latency_ns.add(&pattern.latency_ns)?;
        }
        pause(PAUSE);
        Ok(outcome)
    }
}

/// What the consumers ask for: names that come once.
fn questions(load: Load, count: Option<u64>) -> ConsumerScenario {
    let pattern = ConsumerPattern {
        prefix: prefix(),
        components: 6,
        names: Names::Unique,
        lifetime_ms: LIFETIME_MS,
        ..ConsumerPattern::default()
    };
    ConsumerScenario { patterns: vec![pattern], load, faces: 1, outstanding_max: 1 << 20, count }
}

fn answers(payload: usize) -> ProducerScenario {
    let pattern =
        ProducerPattern { prefix: prefix(), payload: vec![payload], ..ProducerPattern::default() };
    ProducerScenario { patterns: vec![pattern] }
}

fn prefix() -> String {
    format!("/{}", String::from_utf8_lossy(PREFIX))
}

fn joined<T>(thread: ScopedJoinHandle<'_, anyhow::Result<T>>) -> anyhow::Result<T> {
    thread.join().map_err(|_| anyhow!("a thread of the generator panicked"))?
}

fn pin(cpu: usize) -> anyhow::Result<()> {
    ndn_sys::cpu::pin_thread(cpu).with_context(|| format!("cannot run on CPU {cpu}"))
}

fn per_second(count: u64, outcome: &Outcome) -> f64 {
    to_f64(count) / outcome.seconds
}

#[expect(clippy::cast_precision_loss, reason = "counts and times far below 2^53")]
fn to_f64(number: u64) -> f64 {
    number as f64
}
