//! Shards whose packets arrive at any worker: the work of a worker without its sockets.
//!
//! Interests and Data arrive uniformly at all workers, independent of the owner of their names: each worker has a
//! consumer face and a producer face, and routes lead to all producers. With two workers, half of all packets cross a
//! ring on their way to a shard, and half of the packets sent by shards cross a ring on their way to a face: two
//! crossings per exchange.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, ensure};
use ndn_dataplane::{Exchange, KINDS, Message, RoutedSink};
use ndn_forwarding::{BURST_SIZE, Burst, Dispatcher, PacketKind, ShardMessage, SharedTables};
use ndn_types::Timestamp;

use crate::rig::{Rig, RigConfig, Sink};

/// Maximum pending Interests of one worker, if the rings have room for all of them.
const OUTSTANDING_MAX: u64 = 8_192;
/// Interests, and Data, per burst.
const EXCHANGES_PER_BURST: u64 = 32;
/// Maximum messages taken from one ring at a time.
const TAKEN_MAX: usize = BURST_SIZE / 2;
/// An idle worker gives up after this time: its Interests have expired, because the machine had paused.
const TIMEOUT_NS: u64 = 10_000_000_000;

/// One worker of several.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) rig: Rig,
    pub(crate) exchange: Exchange,
    dispatcher: Dispatcher,
    /// Packets received by other workers.
    crossed: Burst,
    /// Maximum pending Interests of this worker. Each waits in at most one ring, so the rings have room for those of all
    /// workers even while one of them does not run.
    outstanding_max: u64,
    next_interest: u64,
    /// Received Interests.
    opened: u64,
    /// Nanoseconds of work.
    busy_ns: u64,
}

/// Creates this number of workers, each with a shard.
pub(crate) fn workers(count: usize, cs_packets: u32, clock: fn() -> u64) -> Result<Vec<Worker>> {
    let shared = SharedTables::new(count, 2);
    let exchanges = Exchange::between(count)?;
    let workers = exchanges.into_iter().enumerate().map(|(number, exchange)| {
        let (shard, workers) = (u8::try_from(number)?, u8::try_from(count)?);
        let config = RigConfig { cs_packets, shard, workers, ..crate::case::BASE };
        let prefix_length = config.shape.name(0).len();
        let mut rig = Rig::new(config, prefix_length, clock())?;
        rig.clock = clock;
        rig.shard.join_others(shared.clone());
        let room = room_to_others(&exchange, number);
        Ok(Worker {
            rig,
            exchange,
            outstanding_max: OUTSTANDING_MAX
                .min(((room / count) as u64).saturating_sub(EXCHANGES_PER_BURST)),
            dispatcher: Dispatcher::new(shared.ndt.clone(), shard),
            crossed: Burst::new(),
            next_interest: number as u64,
            opened: 0,
            busy_ns: 0,
        })
    });
    workers.collect()
}

/// Returns the minimum room in the rings from a worker to the others.
fn room_to_others(exchange: &Exchange, number: usize) -> usize {
    let others = (0..exchange.worker_count()).filter(|&to| to != number);
    let kinds = [PacketKind::Data, PacketKind::Interest];
    let rooms = others.flat_map(|to| kinds.map(|kind| exchange.outbound.room(to, kind)));
    let room = rooms.min().unwrap_or(usize::MAX);
    // The last eighth is not for received packets.
    room - room / 8
}

/// Runs this number of exchanges per worker, each worker on its own thread; returns the exchanges per second of all
/// workers. Only busy time counts.
pub(crate) fn stretch(workers: &mut [Worker], exchanges: u64, cpus: &[usize]) -> Result<f64> {
    let (count, done) = (workers.len(), AtomicUsize::new(0));
    let done = &done;
    let rates: Vec<Result<f64>> = std::thread::scope(|scope| {
        let threads = workers.iter_mut().zip(cpus).map(|(worker, &cpu)| {
            scope.spawn(move || {
                ndn_sys::cpu::pin_thread(cpu)?;
                let result = worker.stretch(exchanges, done, count);
                if result.is_err() {
                    // The other threads must not wait for this one.
                    done.fetch_add(count, Ordering::AcqRel);
                }
                result
            })
        });
        let threads: Vec<_> = threads.collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<f64>>| {
            thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a worker has panicked")))
        };
        threads.into_iter().map(join).collect()
    });
    for worker in workers.iter() {
        let counters = worker.exchange.counters();
        let dropped = counters.ring_full_total() + counters.crossing_no_buffer.value();
        ensure!(dropped == 0, "{dropped} packets found no room in a ring, or no buffer");
    }
    rates.into_iter().sum()
}

/// Runs this number of exchanges per worker, all on this thread.
pub(crate) fn stretch_in_turn(workers: &mut [Worker], exchanges: u64) -> Result<()> {
    workers.iter_mut().for_each(Worker::begin);
    while workers.iter().any(|worker| worker.outstanding() > 0 || worker.opened < exchanges) {
        for worker in workers.iter_mut() {
            worker.round(exchanges)?;
        }
    }
    Ok(())
}

impl Worker {
    /// Runs this number of exchanges and the work for other workers; returns exchanges per second of work.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    fn stretch(&mut self, exchanges: u64, done: &AtomicUsize, count: usize) -> Result<f64> {
        self.begin();
        let (mut is_done, mut last) = (false, (self.rig.clock)());
        while done.load(Ordering::Acquire) < count {
            if self.round(exchanges)? {
                last = (self.rig.clock)();
            } else {
                let idle = (self.rig.clock)().saturating_sub(last);
                let left = self.outstanding();
                ensure!(is_done || idle < TIMEOUT_NS, "{left} Interests are never answered");
                std::hint::spin_loop();
            }
            if !is_done && self.opened == exchanges && self.outstanding() == 0 {
                is_done = true;
                done.fetch_add(1, Ordering::AcqRel);
            }
        }
        Ok(exchanges as f64 * 1e9 / self.busy_ns as f64)
    }

    fn begin(&mut self) {
        (self.opened, self.busy_ns, self.rig.output.data) = (0, 0, 0);
    }

    /// Returns the number of pending Interests of this worker.
    fn outstanding(&self) -> u64 {
        self.opened - self.rig.output.data
    }

    /// Runs one round of the loop; returns false if there was no work.
    fn round(&mut self, exchanges: u64) -> Result<bool> {
        let has_received = self.receive(exchanges)?;
        let has_waiting = KINDS.iter().any(|&kind| {
            (0..self.exchange.worker_count()).any(|from| self.exchange.waiting(from, kind) > 0)
        });
        if has_received || has_waiting {
            self.busy_ns += self.process()?;
        }
        Ok(has_received || has_waiting)
    }

    /// Receives one burst: new Interests, and Data for those pending at this worker.
    fn receive(&mut self, exchanges: u64) -> Result<bool> {
        let left = exchanges - self.opened;
        let may_open = left > 0 && self.outstanding() < self.outstanding_max;
        if may_open {
            for _ in 0..EXCHANGES_PER_BURST.min(left) {
                self.rig.receive_numbered_interest(self.next_interest)?;
                self.next_interest += self.exchange.worker_count() as u64;
                self.opened += 1;
            }
        }
        let waiting = self.rig.outstanding() as u64;
        let may_answer = waiting > 0 && (!may_open || waiting >= self.outstanding_max / 2);
        if may_answer {
            for _ in 0..EXCHANGES_PER_BURST.min(waiting) {
                self.rig.receive_next_data()?;
            }
        }
        Ok(may_open || may_answer)
    }

    /// Processes the received packets and the messages of other workers.
    #[inline(never)]
    pub(crate) fn process(&mut self) -> Result<u64> {
        let start = (self.rig.clock)();
        let now = Timestamp::from_nanos(start);
        let rig = &mut self.rig;
        rig.parse();
        self.dispatcher.prefetch(&rig.burst);
        self.dispatcher.dispatch_all(&mut rig.burst, &rig.pool, |burst, index, to| {
            self.exchange.outbound.send_packet(usize::from(to), burst, index, &rig.pool);
        });
        let faces = Sink { pool: &rig.pool, output: &mut rig.output };
        let outbound = Some(&mut self.exchange.outbound);
        let mut sink = RoutedSink { faces, outbound, pool: &rig.pool };
        rig.shard.poll_timers(now, &mut sink);
        rig.shard.process_burst(now, &mut rig.burst, &rig.pool, &mut sink);
        rig.burst.release(&rig.pool);
        rig.shard.end_burst();
        for kind in KINDS {
            for from in 0..self.exchange.worker_count() {
                self.take(now, from, kind);
            }
            self.process_crossed(now);
        }
        let rig = &mut self.rig;
        rig.output.flush(&rig.pool);
        self.exchange.outbound.wake();
        rig.pool.settle();
        rig.pool.reclaim();
        ensure!(rig.shard.take_messages().next().is_none(), "nothing is wide");
        rig.finish(start)
    }

    /// Takes a part of the messages in a ring. The packets for the shard of several rings of a kind share bursts, as in a worker.
    fn take(&mut self, now: Timestamp, from: usize, kind: PacketKind) {
        let mut left = TAKEN_MAX;
        while left > 0 {
            let rig = &mut self.rig;
            let mut sink = Sink { pool: &rig.pool, output: &mut rig.output };
            let count = left.min(BURST_SIZE - self.crossed.len());
            let taken = self.exchange.take_each(from, kind, count, |message, _| {
                // The frequent messages first, as a worker does.
                if let Message::RemoteTx(outgoing) = message {
                    outgoing.send(&rig.pool, &mut sink);
                } else if let Message::Shard(ShardMessage::Packet(packet)) = message {
                    let is_pushed = self.crossed.push_packet(packet, &rig.pool, &rig.hasher);
                    assert!(is_pushed, "no more are taken than fit");
                } else {
                    panic!("nothing is wide");
                }
            });
            left = if taken < count { 0 } else { left - taken };
            if self.crossed.is_full() {
                self.process_crossed(now);
            }
        }
    }

    /// Processes the burst of packets that others have received.
    fn process_crossed(&mut self, now: Timestamp) {
        if self.crossed.is_empty() {
            return;
        }
        let rig = &mut self.rig;
        let faces = Sink { pool: &rig.pool, output: &mut rig.output };
        let outbound = Some(&mut self.exchange.outbound);
        let mut sink = RoutedSink { faces, outbound, pool: &rig.pool };
        rig.shard.process_burst(now, &mut self.crossed, &rig.pool, &mut sink);
        self.crossed.release(&rig.pool);
        rig.shard.end_burst();
    }
}
