//! A forwarder under test, and the Interests offered to it.

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Context, anyhow};
use hdrhistogram::Histogram;
use ndn_traffic::io::{Endpoint, RunFigures, run_consumer, run_producer};
use ndn_traffic::{
    Consumer, ConsumerPattern, ConsumerScenario, Load, Names, Producer, ProducerPattern,
    ProducerScenario,
};
use serde::Deserialize;

use super::report::{Losses, OverloadOptions};
use crate::relay::Transport;
use crate::relay::addresses::Addresses;
use crate::relay::attach::register_udp_face;
use crate::relay::clock::{monotonic_ns, pause};
use crate::relay::program::Program;
use crate::relay::programs::{CS_CAPACITY, Running};
use crate::relay::statistics::ask_workers;
use crate::relay::wire::PREFIX;
use crate::started::Folder;
use ndn_pipeline_bench::steal_ns;

/// Shorter than the default, which limits the state of a consumer.
const LIFETIME_MS: u32 = 500;
/// Interests in flight of the closed loops, over all consumers.
const WINDOW: u32 = 1024;
/// Sockets per consumer, so that the kernel can distribute them over several workers.
const FACES_PER_CONSUMER: u16 = 4;
/// Settings of both modes: without per-peer quotas, which would reject Interests too.
const ANSWERS_FIRST: &str = "[limits]\ninterests_per_second = 0\n";
const AS_IT_COMES: &str = "[limits]\ninterests_per_second = 0\n\
    [overload]\nanswers_first = false\n";
/// Interests after an offer: the kernel reports earlier drops with them.
const FEW: u64 = 512;
const NS_PER_S: u64 = 1_000_000_000;
/// Pause between two offers, in which pending Interests end.
const PAUSE: Duration = Duration::from_millis(300);

/// A forwarder and the ports of its peers.
pub(super) struct Subject<'a> {
    options: &'a OverloadOptions,
    payload: usize,
    workers: usize,
    running: Running,
    addresses: Addresses,
    /// Seed of the next names.
    seed: u64,
    /// Removed after the end of the program.
    _folder: Folder,
}

/// Result of one offer.
pub(super) struct OfferResult {
    pub(super) seconds: f64,
    pub(super) sent: u64,
    pub(super) satisfied: u64,
    /// Interests satisfied before the end of the stretch.
    pub(super) satisfied_in_time: u64,
    pub(super) nacked: u64,
    pub(super) answers: u64,
    pub(super) losses: Losses,
    pub(super) latency_ns: Histogram<u64>,
    pub(super) forwarder_busy: f64,
    pub(super) producer_busy: f64,
    /// Steal time as a share.
    pub(super) stolen: f64,
}

impl OfferResult {
    pub(super) fn per_second(&self, count: u64) -> f64 {
        to_f64(count) / self.seconds
    }

    /// Share of the Interests satisfied before the end: with a growing queue, many are satisfied only after the last
    /// one is sent.
    pub(super) fn satisfied_share(&self) -> f64 {
        to_f64(self.satisfied_in_time) / to_f64(self.sent.max(1))
    }

    /// Messages lost by the generator itself, relative to the Interests.
    pub(super) fn lost_by_generator(&self) -> f64 {
        let Losses { producer_socket, consumer_socket, .. } = self.losses;
        (producer_socket + consumer_socket) / self.per_second(self.sent).max(1.0)
    }
}

/// Consumers and producer after an offer, with their CPU times.
struct Generated {
    consumers: Vec<(Consumer, RunFigures)>,
    producer: (Producer, RunFigures),
    /// CPU time of the forwarder up to the end of the offer.
    forwarder_ns: u64,
}

/// Counters of the workers that locate drops.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
struct Drops {
    shared_socket_drops: u64,
    own_socket_drops: u64,
    shed_interests: u64,
    ring_full: u64,
}

impl<'a> Subject<'a> {
    pub(super) fn start(
        options: &'a OverloadOptions,
        workers: usize,
        payload: usize,
        answers_first: bool,
    ) -> anyhow::Result<Self> {
        let number = u16::from(!answers_first);
        let folder = Folder::new(&format!("namewire-overload-{}-{number}", std::process::id()))?;
        let consumers = u16::try_from(options.cpus.len() - workers - 1)?;
        let first = options.first_port + number * 512;
        let addresses = Addresses {
            folder: folder.path().to_owned(),
            udp_port: first,
            producer_port: first + 1,
            consumer_ports: (0..consumers * FACES_PER_CONSUMER)
                .map(|one| first + 2 + one)
                .collect(),
            transport: Transport::Udp,
            link: None,
            settings: if answers_first { ANSWERS_FIRST } else { AS_IT_COMES },
            cs_packets: CS_CAPACITY,
            workers,
        };
        let executable = crate::program::namewire()?;
        let cpus = &options.cpus[..workers];
        let running = Running::start(Program::Namewire, &executable, &addresses, cpus)?;
        let operator = UnixStream::connect(addresses.socket())?;
        register_udp_face(&operator, addresses.producer_port)?;
        let seed = u64::from(number) << 32;
        Ok(Self { options, payload, workers, running, addresses, seed, _folder: folder })
    }

    /// The processors of the consumers.
    fn consumer_cpus(&self) -> &'a [usize] {
        &self.options.cpus[self.workers + 1..]
    }

    /// Returns the duration of an offer.
    pub(super) fn stretch(&self) -> Duration {
        self.options.stretch
    }

    /// Returns the number of consumers.
    pub(super) fn consumers(&self) -> usize {
        self.consumer_cpus().len()
    }

    /// Fills the Content Store, until it evicts.
    pub(super) fn warm(&mut self) -> anyhow::Result<()> {
        let each = u64::from(CS_CAPACITY) * 3 / self.consumers() as u64;
        self.offer(self.window(), Some(each), Duration::from_secs(30)).map(drop)
    }

    /// Returns the load of a closed loop.
    pub(super) fn window(&self) -> Load {
        Load::Window(WINDOW / u32::try_from(self.consumers()).unwrap_or(1))
    }

    fn drops(&self) -> anyhow::Result<Drops> {
        let path = self.addresses.statistics_socket(Program::Namewire);
        let workers: Vec<Drops> = ask_workers(&path.context("a socket for statistics")?)?;
        Ok(workers.into_iter().fold(Drops::default(), |sum, one| Drops {
            shared_socket_drops: sum.shared_socket_drops + one.shared_socket_drops,
            own_socket_drops: sum.own_socket_drops + one.own_socket_drops,
            shed_interests: sum.shed_interests + one.shed_interests,
            ring_full: sum.ring_full + one.ring_full,
        }))
    }

    /// Lets each consumer send for this duration, or this number of Interests.
    pub(super) fn offer(
        &mut self,
        load: Load,
        count: Option<u64>,
        stretch: Duration,
    ) -> anyhow::Result<OfferResult> {
        self.seed += 1 << 16;
        let drops_before = self.drops()?;
        let (cpu_before, steal_before) = (self.running.cpu_ns()?, steal_ns());
        let start_ns = monotonic_ns();
        let end_ns = start_ns + u64::try_from(stretch.as_nanos())?;
        let Generated { consumers, producer, forwarder_ns } = self.generate(load, count, end_ns)?;
        let elapsed_ns = monotonic_ns() - start_ns;
        // The kernel reports drops with the next delivered message.
        let few = Some(FEW / self.consumers() as u64);
        self.generate(self.window(), few, monotonic_ns() + NS_PER_S)?;
        let drops = self.drops()?;
        let seconds = match count {
            None => stretch.as_secs_f64(),
            Some(_) => to_f64(elapsed_ns) / 1e9,
        };
        let rate = |after: u64, before: u64| to_f64(after - before) / seconds;
        let drops_of = |figures: &RunFigures| to_f64(figures.receive_drops) / seconds;
        let mut outcome = OfferResult {
            seconds,
            sent: 0,
            satisfied: 0,
            satisfied_in_time: 0,
            nacked: 0,
            answers: producer.0.counters().iter().map(|pattern| pattern.data).sum(),
            losses: Losses {
                interest_socket: rate(drops.shared_socket_drops, drops_before.shared_socket_drops),
                answer_socket: rate(drops.own_socket_drops, drops_before.own_socket_drops),
                shed: rate(drops.shed_interests, drops_before.shed_interests),
                between_workers: rate(drops.ring_full, drops_before.ring_full),
                producer_socket: drops_of(&producer.1),
                consumer_socket: consumers.iter().map(|(_, figures)| drops_of(figures)).sum(),
            },
            latency_ns: Histogram::new(3)?,
            forwarder_busy: to_f64(forwarder_ns - cpu_before)
                / 1e9
                / seconds
                / to_f64(self.workers as u64),
            producer_busy: producer.1.cpu.as_secs_f64() / seconds,
            stolen: to_f64(steal_ns() - steal_before) / to_f64(elapsed_ns),
        };
        for (consumer, _) in &consumers {
            // Consumers with a fixed number of Interests have no stop time.
            let in_time = consumer.at_stop().unwrap_or_else(|| consumer.totals());
            outcome.satisfied_in_time += in_time.satisfied;
        }
        for pattern in consumers.iter().flat_map(|(consumer, _)| consumer.counters()) {
            outcome.sent += pattern.sent;
            outcome.satisfied += pattern.satisfied;
            outcome.nacked += pattern.nacked;
            outcome.latency_ns.add(&pattern.latency_ns)?;
        }
        pause(PAUSE);
        Ok(outcome)
    }

    /// Returns the consumers' scenario: each name is requested once.
    fn questions(&self, load: Load, count: Option<u64>) -> ConsumerScenario {
        let pattern = ConsumerPattern {
            prefix: prefix(),
            components: 6,
            names: Names::Unique,
            lifetime_ms: LIFETIME_MS,
            ..ConsumerPattern::default()
        };
        ConsumerScenario {
            patterns: vec![pattern],
            load,
            faces: u32::from(FACES_PER_CONSUMER),
            burst: u32::try_from(self.options.burst).unwrap_or(1),
            outstanding_max: 1 << 20,
            count,
        }
    }

    /// Runs producer and consumers until `end_ns`, or until this number of Interests is done.
    fn generate(&self, load: Load, count: Option<u64>, end_ns: u64) -> anyhow::Result<Generated> {
        let (stop, never) = (AtomicBool::new(false), AtomicBool::new(false));
        let mut producer = Producer::new(&answers(self.payload), self.seed)?;
        // Sockets are created here, so that a port in use is reported before the start.
        let forwarder_port = self.addresses.udp_port;
        let answering = Endpoint::datagram(self.addresses.producer_port, forwarder_port)?;
        let mut asking = Vec::new();
        for ports in self.addresses.consumer_ports.chunks(usize::from(FACES_PER_CONSUMER)) {
            let mut endpoints = Vec::new();
            for &port in ports {
                let mut endpoint = Endpoint::datagram(port, forwarder_port)?;
                endpoint.set_packets_per_message(self.options.burst);
                endpoints.push(endpoint);
            }
            asking.push(endpoints);
        }
        let scenario = self.questions(load, count);
        let (producer_cpu, seed) = (self.options.cpus[self.workers], self.seed);
        thread::scope(|scope| {
            let producing = scope.spawn(|| {
                pin(producer_cpu)?;
                Ok(run_producer(&mut producer, vec![answering], &stop, |_| {})?)
            });
            let mut consuming = Vec::new();
            for ((number, endpoints), &cpu) in (0_u64..).zip(asking).zip(self.consumer_cpus()) {
                let (scenario, never) = (&scenario, &never);
                consuming.push(scope.spawn(move || {
                    pin(cpu)?;
                    let mut consumer = Consumer::new(scenario, seed + number, monotonic_ns())?;
                    let figures =
                        run_consumer(&mut consumer, endpoints, Some(end_ns), never, |_| {})?;
                    Ok((consumer, figures))
                }));
            }
            if count.is_none() {
                pause(Duration::from_nanos(end_ns.saturating_sub(monotonic_ns())));
            }
            let at_end = self.running.cpu_ns();
            let consumers: anyhow::Result<Vec<_>> = consuming.into_iter().map(joined).collect();
            let at_end = if count.is_none() { at_end } else { self.running.cpu_ns() };
            stop.store(true, Ordering::Relaxed);
            let figures = joined(producing)?;
            Ok((consumers?, figures, at_end?))
        })
        .map(|(consumers, figures, forwarder_ns)| Generated {
            consumers,
            producer: (producer, figures),
            forwarder_ns,
        })
    }
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

#[expect(clippy::cast_precision_loss, reason = "counts and times far below 2^53")]
pub(super) fn to_f64(number: u64) -> f64 {
    number as f64
}
