//! The cases and their execution.

use anyhow::{Result, ensure};
use ndn_caching::PolicyKind;

use crate::floor::{BATCH, Exchange, Floor};
use crate::measure::{Spread, resident_mib, steal_ns};
use crate::rig::{Rig, RigConfig};
use crate::traffic::{NameOrder, NameShape};
use crate::{PipelineCase, PipelineOptions};

/// Number of pending Interests.
const OUTSTANDING: usize = 20_480;

/// Interests, and Data, per burst.
const EXCHANGES_PER_BURST: u64 = 32;

/// Longer than the lifetime of the Interests.
const UNANSWERED_WARM_NANOS: u64 = 5_000_000_000;

/// The names that the Interests of a case request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// New names.
    Unique(Mix),
    /// Names in the Content Store.
    Hits,
    /// A prefix of everything in the Content Store, with CanBePrefix.
    CommonPrefix,
}

/// Mix of exceptional Interests: one in this number, 0 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Mix {
    can_be_prefix_every: u64,
    unanswered_every: u64,
}

impl Mix {
    fn is_can_be_prefix(self, sequence: u64) -> bool {
        self.can_be_prefix_every != 0 && sequence.is_multiple_of(self.can_be_prefix_every)
    }

    fn is_unanswered(self, sequence: u64) -> bool {
        self.unanswered_every != 0 && sequence.is_multiple_of(self.unanswered_every)
    }
}

/// One case.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    kind: Kind,
    config: RigConfig,
}

pub(crate) const BASE: RigConfig = RigConfig {
    shape: NameShape { components: 4, prefix_count: 10_000, order: NameOrder::Random },
    payload: 1000,
    cs_packets: 1_000_000,
    pit_entries: 65_536,
    policy: PolicyKind::Lru,
    with_tokens: true,
    shard: 0,
    workers: 1,
};

/// The base with names in this order.
pub(crate) fn with_order(order: NameOrder) -> RigConfig {
    RigConfig { shape: NameShape { order, ..BASE.shape }, ..BASE }
}

/// All cases.
pub(crate) fn cases() -> Vec<Case> {
    let unique = Kind::Unique(Mix::default());
    let can_be_prefix = Kind::Unique(Mix { can_be_prefix_every: 100, ..Mix::default() });
    let unanswered = Kind::Unique(Mix { unanswered_every: 100, ..Mix::default() });
    let case = |name: &str, kind, config| Case { name: name.to_owned(), kind, config };
    let shaped = |components, prefix_count| RigConfig {
        shape: NameShape { components, prefix_count, ..BASE.shape },
        ..BASE
    };
    let mut cases = vec![
        case("base", unique, BASE),
        case("segment-runs", unique, with_order(NameOrder::Segments)),
        case("cs-hits", Kind::Hits, BASE),
        case("can-be-prefix-1%", can_be_prefix, BASE),
        // Interests stay pending for 4 s, and their Nonces are remembered for 6 s.
        case("unanswered-1%", unanswered, RigConfig { pit_entries: 1 << 18, ..BASE }),
        case("without-tokens", unique, RigConfig { with_tokens: false, ..BASE }),
        case("components-7", unique, shaped(7, 10_000)),
        case("components-13", unique, shaped(13, 10_000)),
        case("payload-100", unique, RigConfig { payload: 100, ..BASE }),
        case("payload-8000", unique, RigConfig { payload: 8000, cs_packets: 200_000, ..BASE }),
        case("fib-100000", unique, shaped(4, 100_000)),
        case("fib-1000000", unique, shaped(4, 1_000_000)),
        case("can-be-prefix-of-million", Kind::CommonPrefix, shaped(4, 1)),
    ];
    // Every Data is inserted and evicts another.
    cases.extend(PolicyKind::ALL.map(|policy| {
        let config = RigConfig { policy, cs_packets: 100_000, ..BASE };
        case(&format!("policy-{policy}"), unique, config)
    }));
    cases
}

/// New names, or names in the Content Store, of which nothing was evicted.
pub(crate) fn of_policy(policy: PolicyKind, are_hits: bool) -> Case {
    let kind = if are_hits { Kind::Hits } else { Kind::Unique(Mix::default()) };
    // The Content Store is larger than the number of pending Interests.
    let config = RigConfig { policy, cs_packets: 32_768, ..BASE };
    Case { name: format!("policy-{policy}"), kind, config }
}

/// A running case.
pub(crate) struct Run {
    rig: Rig,
    kind: Kind,
    /// The next name to request.
    next_interest: u64,
    /// The next name to answer.
    next_data: u64,
    /// Interests skipped without an answer.
    unanswered: u64,
    outstanding_max: usize,
}

impl Case {
    /// Creates the initial state of a case.
    pub(crate) fn start(&self) -> Result<Run> {
        self.start_with(ndn_sys::clock::now)
    }

    /// Creates the initial state of a case with another clock.
    pub(crate) fn start_with(&self, clock: fn() -> u64) -> Result<Run> {
        let mut rig = Rig::new(self.config, self.prefix_length(), clock())?;
        rig.clock = clock;
        Ok(Run {
            rig,
            kind: self.kind,
            next_interest: 0,
            next_data: 0,
            unanswered: 0,
            outstanding_max: 0,
        })
    }

    /// Runs the case: warm-up, then stretches alternating with the floor.
    pub(crate) fn run(&self, options: &PipelineOptions) -> Result<PipelineCase> {
        let mut run = self.start()?;
        // The floor is created first, because touching its memory takes longer than an Interest's lifetime.
        let mut floor = run.floor();
        run.warm()?;
        let before = Totals::of(&run);
        let (mut shard_ns, mut floor_ns) = (Vec::new(), Vec::new());
        let mut discarded = 0;
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64);
        while shard_ns.len() < options.pairs {
            ensure!(
                discarded < 10 * options.pairs,
                "the host takes the processor away all the time"
            );
            let (steal, start) = (steal_ns(), ndn_sys::clock::now());
            let of_shard = run.stretch(options.stretch)?;
            let of_floor = run.floor_stretch(&mut floor, options.stretch);
            let elapsed = ndn_sys::clock::now() - start;
            // The kernel counts steal over all processors, in ticks of 10 ms.
            if (steal_ns() - steal) * 100 > elapsed * cpus {
                discarded += 1;
                continue;
            }
            shard_ns.push(of_shard);
            floor_ns.push(of_floor);
        }
        let (shard, floor) = (Spread::of(&shard_ns), Spread::of(&floor_ns));
        Ok(PipelineCase {
            pairs: shard_ns.len(),
            pairs_discarded: discarded,
            ..self.report(&run, &before, &shard, &floor)?
        })
    }

    /// Length of the names with CanBePrefix.
    fn prefix_length(&self) -> usize {
        let shape = &self.config.shape;
        match self.kind {
            Kind::CommonPrefix => shape.prefix(0).len(),
            Kind::Unique(_) | Kind::Hits => shape.name(0).len() - shape.last_component_length(),
        }
    }

    fn report(
        &self,
        run: &Run,
        before: &Totals,
        shard: &Spread,
        floor: &Spread,
    ) -> Result<PipelineCase> {
        let totals = Totals::of(run);
        let pit_inserts = totals.pit_inserts - before.pit_inserts;
        let cs_evictions = totals.cs_evictions - before.cs_evictions;
        let interests = totals.interests - before.interests;
        let hits = totals.hits - before.hits;
        let answered = interests - (totals.unanswered - before.unanswered);
        if let Kind::Unique(_) = self.kind {
            ensure!(pit_inserts == interests, "{hits} of {interests} Interests were not forwarded");
            ensure!(
                cs_evictions == answered,
                "the Content Store has evicted {cs_evictions} Data for {answered}"
            );
            ensure!(run.outstanding_max >= 20_000, "too few Interests are outstanding");
        } else {
            ensure!(hits == interests, "the Content Store answers all");
        }
        ensure!(totals.data - before.data == answered, "every Data is forwarded");
        ensure!(totals.dropped == 0, "{} packets were dropped", totals.dropped);
        let (resident_mib, huge_pages_mib) = resident_mib();
        Ok(PipelineCase {
            case: self.name.clone(),
            ns_per_exchange: shard.median,
            ns_per_exchange_spread: (shard.least, shard.most),
            floor_ns: floor.median,
            floor_ns_spread: (floor.least, floor.most),
            ratio: shard.median / floor.median,
            pairs: 0,
            pairs_discarded: 0,
            name_components: self.config.shape.components,
            name_bytes: self.config.shape.name(0).len(),
            payload_bytes: self.config.payload,
            fib_entries: self.config.shape.prefix_count,
            cs_packets: self.config.cs_packets,
            outstanding: run.outstanding_max,
            hit_ratio: ratio(hits, interests),
            pit_inserts,
            cs_evictions,
            resident_mib,
            huge_pages_mib,
        })
    }
}

impl Run {
    /// Fills the Content Store until it has evicted twice its capacity, and leaves the number of unanswered Interests
    /// that the case requires.
    pub(crate) fn warm(&mut self) -> Result<()> {
        let capacity = u64::from(self.rig.config.cs_packets);
        let kind = std::mem::replace(&mut self.kind, Kind::Unique(Mix::default()));
        while self.rig.counters.cs_evictions.value() < 2 * capacity {
            self.exchange_unique(EXCHANGES_PER_BURST, Mix::default())?;
        }
        if let Kind::Unique(mix) = kind
            && mix.unanswered_every != 0
        {
            // Until unanswered Interests expire as fast as they arrive.
            let start = ndn_sys::clock::now();
            while ndn_sys::clock::now() - start < UNANSWERED_WARM_NANOS {
                self.exchange_unique(EXCHANGES_PER_BURST, mix)?;
            }
        }
        if !matches!(kind, Kind::Unique(_)) {
            while self.next_data < self.next_interest {
                self.answer(EXCHANGES_PER_BURST, Mix::default())?;
                self.rig.process()?;
            }
        }
        self.kind = kind;
        self.outstanding_max = 0;
        Ok(())
    }

    /// Fills the Content Store up to a tenth, so that nothing is evicted.
    pub(crate) fn fill(&mut self) -> Result<()> {
        let names = u64::from(self.rig.config.cs_packets) * 9 / 10;
        while self.next_interest < names {
            self.exchange_unique(EXCHANGES_PER_BURST, Mix::default())?;
        }
        while self.next_data < self.next_interest {
            self.answer(EXCHANGES_PER_BURST, Mix::default())?;
            self.rig.process()?;
        }
        ensure!(self.rig.counters.cs_evictions.value() == 0, "the Content Store evicted Data");
        Ok(())
    }

    /// Runs this number of exchanges through the shard; returns nanoseconds per exchange.
    pub(crate) fn stretch(&mut self, exchanges: u64) -> Result<f64> {
        let mut nanos = 0;
        let bursts = exchanges.div_ceil(EXCHANGES_PER_BURST);
        for _ in 0..bursts {
            nanos += match self.kind {
                Kind::Unique(mix) => self.exchange_unique(EXCHANGES_PER_BURST, mix)?,
                Kind::Hits => self.exchange_hits(EXCHANGES_PER_BURST)?,
                Kind::CommonPrefix => self.exchange_common_prefix(EXCHANGES_PER_BURST)?,
            };
        }
        Ok(ratio(nanos, bursts * EXCHANGES_PER_BURST))
    }

    /// The shard and its surroundings.
    pub(crate) fn rig_mut(&mut self) -> &mut Rig {
        &mut self.rig
    }

    /// One burst of new Interests and of Data for the oldest pending ones.
    fn exchange_unique(&mut self, count: u64, mix: Mix) -> Result<u64> {
        let shape = self.rig.config.shape;
        for _ in 0..count {
            let name = shape.name(self.next_interest);
            if mix.is_can_be_prefix(self.next_interest) {
                let parent = &name[..name.len() - shape.last_component_length()];
                self.rig.receive_interest_for(parent, true)?;
            } else {
                self.rig.receive_interest_for(&name, false)?;
            }
            self.next_interest += 1;
        }
        if self.rig.outstanding() >= OUTSTANDING {
            self.answer(count, mix)?;
        }
        let nanos = self.rig.process()?;
        self.outstanding_max = self.outstanding_max.max(self.rig.outstanding());
        Ok(nanos)
    }

    /// Interests for random recently cached names.
    fn exchange_hits(&mut self, count: u64) -> Result<u64> {
        let window = u64::from(self.rig.config.cs_packets) * 9 / 10;
        for _ in 0..count {
            self.next_interest += 1;
            let age = self.next_interest.wrapping_mul(0x9E37_79B9_7F4A_7C15) % window;
            self.rig.receive_interest(self.next_data - 1 - age)?;
        }
        self.rig.process()
    }

    /// Interests for the common prefix of all cached names.
    fn exchange_common_prefix(&mut self, count: u64) -> Result<u64> {
        let prefix = self.rig.config.shape.prefix(0);
        for _ in 0..count {
            self.rig.receive_interest_for(&prefix, true)?;
        }
        self.rig.process()
    }

    /// Receives the Data for this number of the oldest pending Interests.
    fn answer(&mut self, count: u64, mix: Mix) -> Result<()> {
        for _ in 0..count.min(self.next_interest - self.next_data) {
            if mix.is_unanswered(self.next_data) {
                self.rig.forget_interest()?;
                self.unanswered += 1;
            } else {
                self.rig.receive_data(self.next_data)?;
            }
            self.next_data += 1;
        }
        Ok(())
    }

    /// Creates a floor with tables and a store of the shard's sizes.
    fn floor(&self) -> Floor {
        let config = &self.rig.config;
        let (pit, cs) = (config.pit_entries as usize, config.cs_packets as usize);
        // Hash index (16 bytes per item), PIT entries, headers of the inserted and the evicted Data, name prefixes,
        // FIB.
        let index = 16 * (pit + cs);
        let fib = 128 * config.shape.prefix_count.max(1) as usize;
        let table_bytes = [index, 256 * pit, 64 * cs, 64 * cs, 64 * cs, fib];
        Floor::new(table_bytes, cs, self.rig.data.len())
    }

    /// Runs this number of exchanges through the floor; returns nanoseconds per exchange.
    fn floor_stretch(&self, floor: &mut Floor, exchanges: u64) -> f64 {
        let (interests, data) = (&self.rig.interests, &self.rig.data);
        let mut received = vec![0; BATCH * (interests.len() + data.len())];
        let (mut nanos, mut sum, mut sequence) = (0, 0_u64, self.next_interest);
        let batches = exchanges.div_ceil(EXCHANGES_PER_BURST);
        for _ in 0..batches {
            for place in received.chunks_exact_mut(interests.len() + data.len()) {
                let name = self.rig.config.shape.name(sequence);
                sequence += 1;
                let (interest_place, data_place) = place.split_at_mut(interests.len());
                interests.write(&name, 1, interest_place);
                data.write(&name, sequence, data_place);
            }
            let start = ndn_sys::clock::now();
            let mut exchanges = [EMPTY_EXCHANGE; BATCH];
            let places = received.chunks_exact(interests.len() + data.len());
            for (exchange, place) in exchanges.iter_mut().zip(places) {
                let (interest, data_wire) = place.split_at(interests.len());
                *exchange = Exchange {
                    interest,
                    interest_name: &interest[interests.name_range()],
                    data: data_wire,
                    data_name: &data_wire[data.name_range()],
                };
            }
            sum = sum.wrapping_add(floor.run(&exchanges));
            nanos += ndn_sys::clock::now() - start;
        }
        std::hint::black_box(sum);
        ratio(nanos, batches * EXCHANGES_PER_BURST)
    }
}

const _: () = assert!(BATCH as u64 == EXCHANGES_PER_BURST);

const EMPTY_EXCHANGE: Exchange<'_> =
    Exchange { interest: &[], interest_name: &[], data: &[], data_name: &[] };

/// Counters of the shard.
struct Totals {
    interests: u64,
    hits: u64,
    pit_inserts: u64,
    cs_evictions: u64,
    data: u64,
    dropped: u64,
    unanswered: u64,
}

impl Totals {
    fn of(run: &Run) -> Self {
        let counters = &run.rig.counters;
        Self {
            interests: counters.in_interests.value(),
            hits: counters.cs_hits.value(),
            pit_inserts: counters.pit_inserts.value(),
            cs_evictions: counters.cs_evictions.value(),
            data: counters.out_data.value(),
            dropped: counters.dropped_total(),
            unanswered: run.unanswered,
        }
    }
}

/// The quotient of two counts.
#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn ratio(numerator: u64, denominator: u64) -> f64 {
    numerator as f64 / denominator as f64
}
