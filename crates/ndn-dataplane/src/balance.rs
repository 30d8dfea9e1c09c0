//! Load balancing between shards: which entries of the dispatch table move, and which are split. A state
//! machine of the control thread; workers only count.

use std::sync::Arc;
use std::time::Duration;

use ndn_table::{NDT_ENTRIES, Ndt};
use ndn_types::Timestamp;

use crate::worker::RING_TIMEOUT;

/// Minimum number of packets counted in a period; with fewer, the table stays as it is.
const COUNTED_MIN: u64 = 200;
/// Packets in all shards since the last measurement below which a measurement moves nothing: loads are halved with each,
/// so that twice as many samples are less than is needed.
pub const MEASURED_PACKETS_MIN: u64 = COUNTED_MIN / 2 * ndn_forwarding::LOAD_SAMPLE as u64;
/// Parts per thousand by which the largest load may exceed the mean.
const TOLERANCE_PERMILLE: u64 = 50;
/// Maximum number of entries moved in one period.
const MOVES_MAX: usize = 1024;
/// Maximum number of times that the end of a move is put off because Interests were renewed at the previous shard.
const RENEWALS_MAX: u8 = 4;
/// Maximum time from the dispatch of a packet to the publication of its PIT entry: the wait of a worker for room in a
/// ring, and a round.
const CROSSING_TIME_MAX: Duration = RING_TIMEOUT.saturating_add(Duration::from_millis(200));
/// An entry is split if its load is above this fraction of the mean load of a shard.
const SPLIT_DIVISOR: u64 = 2;

/// The load of an entry on all workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EntryLoad {
    /// Packets, modulo 2^32.
    pub count: u32,
    /// Number of components of one of its names.
    pub components: usize,
}

/// The changes of one period.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Balanced {
    /// Entries moved to another shard.
    pub moved: usize,
    /// Entries split.
    pub split: usize,
    /// Entries whose change has settled.
    pub settled: usize,
    /// Those of them whose previous shard may have Interests that were renewed too often.
    pub overdue: usize,
}

/// The latest expiries of Interests that are pending in a shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LatestExpiries {
    /// Of all.
    pub all: Timestamp,
    /// Of those that were renewed there after their names had moved to another shard.
    pub renewed: Timestamp,
}

/// A changed entry.
#[derive(Debug)]
struct Unsettled {
    entry: usize,
    previous: u8,
    /// The end of the stage.
    at: Timestamp,
    stage: Stage,
}

/// The stages of a change.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// Packets dispatched before are on their way to the previous shard.
    Crossing,
    /// Interests are pending in the previous shard. This many times they were renewed meanwhile.
    Pending(u8),
}

impl Unsettled {
    fn new(entry: usize, previous: u8, now: Timestamp) -> Self {
        Self { entry, previous, at: now.plus(CROSSING_TIME_MAX), stage: Stage::Crossing }
    }

    /// Ends the stages that are over. Returns whether there is a further one.
    fn advance(&mut self, now: Timestamp, latest_of: impl Fn(u8) -> LatestExpiries) -> bool {
        if self.at > now {
            return true;
        }
        let LatestExpiries { all, renewed } = latest_of(self.previous);
        (self.at, self.stage) = match self.stage {
            Stage::Crossing => (all.max(renewed), Stage::Pending(0)),
            Stage::Pending(RENEWALS_MAX) => return false,
            Stage::Pending(renewals) => (renewed, Stage::Pending(renewals + 1)),
        };
        self.at > now
    }
}

/// Moves and splits entries of a dispatch table.
#[derive(Debug)]
pub struct Balancer {
    ndt: Arc<Ndt>,
    /// Counts of the last period.
    seen: Vec<u32>,
    /// Load: packets of the last period, plus those of earlier periods with halving weights.
    loads: Vec<u32>,
    /// Changed entries whose previous shards may have pending Interests for their names.
    unsettled: Vec<Unsettled>,
}

impl Balancer {
    /// The balancer of a table. Nothing else changes the table.
    #[must_use]
    pub fn new(ndt: Arc<Ndt>) -> Self {
        let (seen, loads) = (vec![0; NDT_ENTRIES], vec![0; NDT_ENTRIES]);
        Self { ndt, seen, loads, unsettled: Vec::new() }
    }

    /// The table.
    #[must_use]
    pub fn ndt(&self) -> &Ndt {
        &self.ndt
    }

    /// The load of an entry.
    #[must_use]
    pub fn load(&self, entry: usize) -> u32 {
        self.loads.get(entry).copied().unwrap_or(0)
    }

    /// When the next change settles.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.unsettled.iter().map(|one| one.at).min()
    }

    /// Settles changes that are due. Returns their number, and that of those that are overdue.
    fn settle(
        &mut self,
        now: Timestamp,
        latest_of: impl Fn(u8) -> LatestExpiries,
    ) -> (usize, usize) {
        let before = self.unsettled.len();
        let (ndt, mut overdue) = (&self.ndt, 0);
        self.unsettled.retain_mut(|one| {
            if one.advance(now, &latest_of) {
                return true;
            }
            overdue += usize::from(latest_of(one.previous).renewed > now);
            !ndt.settle(one.entry)
        });
        (before - self.unsettled.len(), overdue)
    }

    /// Evaluates the counts since the last call, and changes the table. `latest_of` returns the latest expiries of the
    /// Interests that are pending in a shard.
    pub fn balance(
        &mut self,
        now: Timestamp,
        load_of: impl Fn(usize) -> EntryLoad,
        latest_of: impl Fn(u8) -> LatestExpiries,
    ) -> Balanced {
        let (settled, overdue) = self.settle(now, latest_of);
        let mut done = Balanced { settled, overdue, ..Balanced::default() };
        for entry in 0..NDT_ENTRIES {
            let count = load_of(entry).count;
            // Half of what was before counts, too: less noise, and still soon forgotten.
            let since = count.wrapping_sub(self.seen[entry]);
            self.loads[entry] = (self.loads[entry] / 2).saturating_add(since);
            self.seen[entry] = count;
        }
        let mut shards = self.shard_loads();
        let total: u64 = shards.iter().sum();
        if total < COUNTED_MIN {
            return done;
        }
        let mean = total / self.ndt.members().len() as u64;
        let (moves, is_enough) = self.plan_moves(mean, &mut shards);
        // While names move, nothing can be split, and the other way round. So what moves can do
        // is left to them.
        if !is_enough && self.unsettled.is_empty() {
            done.split = self.split(now, mean, &load_of);
        }
        if done.split == 0 {
            let moves = moves.into_iter();
            done.moved =
                moves.filter(|&(entry, shard)| self.set(entry, shard, now).is_ok()).count();
        }
        done
    }

    /// Moves an entry to a shard by a command of an operator.
    ///
    /// # Errors
    /// Those of [`Ndt::move_entry`].
    pub fn set(
        &mut self,
        entry: usize,
        shard: u8,
        now: Timestamp,
    ) -> Result<(), ndn_table::NdtError> {
        let previous = self.ndt.get(entry).ok_or(ndn_table::NdtError::NoSuchEntry)?.shard;
        self.ndt.move_entry(entry, shard)?;
        if previous != shard {
            self.unsettled.push(Unsettled::new(entry, previous, now));
        }
        Ok(())
    }

    /// The load of each shard with the current table.
    #[must_use]
    pub fn shard_loads(&self) -> Vec<u64> {
        let mut shards = vec![0; self.ndt.shard_count()];
        for (entry, &load) in self.loads.iter().enumerate() {
            if let Some(found) = self.ndt.get(entry) {
                shards[usize::from(found.shard)] += u64::from(load);
            }
        }
        shards
    }

    /// Splits the entries with too much load for one shard, at the depth of their names.
    fn split(&mut self, now: Timestamp, mean: u64, load_of: &impl Fn(usize) -> EntryLoad) -> usize {
        let too_much = mean / SPLIT_DIVISOR;
        let mut count = 0;
        for entry in 0..NDT_ENTRIES {
            let is_hot = u64::from(self.loads[entry]) > too_much;
            let Some(found) = self.ndt.get(entry).filter(|_| is_hot) else { continue };
            let components = load_of(entry).components;
            if found.depth != 0 || components <= self.ndt.depth() {
                continue;
            }
            if self.ndt.split_entry(entry, components).is_ok() {
                self.unsettled.push(Unsettled::new(entry, found.shard, now));
                count += 1;
            }
        }
        count
    }

    /// Plans moves: from the shard with the highest load to the one with the lowest, the largest entry first that
    /// does not reverse their difference. Returns whether that evens out the load.
    fn plan_moves(&self, mean: u64, shards: &mut [u64]) -> (Vec<(usize, u8)>, bool) {
        // Beside what is tolerated, two standard deviations of counting by sample.
        let allowed = mean + mean * TOLERANCE_PERMILLE / 1000 + 2 * mean.isqrt();
        let mut by_shard: Vec<Vec<usize>> = vec![Vec::new(); shards.len()];
        for entry in (0..NDT_ENTRIES).filter(|&entry| self.loads[entry] > 0) {
            if let Some(found) = self.ndt.get(entry).filter(|found| found.is_settled) {
                by_shard[usize::from(found.shard)].push(entry);
            }
        }
        for entries in &mut by_shard {
            entries.sort_unstable_by_key(|&entry| std::cmp::Reverse(self.loads[entry]));
        }
        let mut moves = Vec::new();
        while moves.len() < MOVES_MAX {
            let members = self.ndt.members().iter().map(|member| usize::from(*member));
            let numbered = || members.clone().map(|shard| (shard, shards[shard]));
            let Some((from, most)) = numbered().max_by_key(|(_, load)| *load) else { break };
            let Some((to, least)) = numbered().min_by_key(|(_, load)| *load) else { break };
            if most <= allowed {
                return (moves, true);
            }
            // Larger ones would only exchange the roles of the two.
            let fits = |entry: &usize| u64::from(self.loads[*entry]) * 2 <= most - least;
            let Some(place) = by_shard[from].iter().position(fits) else { break };
            let entry = by_shard[from].remove(place);
            moves.push((entry, u8::try_from(to).unwrap_or(u8::MAX)));
            let load = u64::from(self.loads[entry]);
            shards[from] -= load;
            shards[to] += load;
        }
        (moves, false)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::cast_precision_loss, reason = "tests")]

    use ndn_forwarding::{LOAD_SAMPLE, NdtLoads, Sampled};
    use ndn_packet::Name;
    use ndn_table::{NameHasher, PREFIX_HASHES_MAX};

    use super::*;

    /// Interests per simulated second.
    const RATE: u64 = 80_000;
    const PERIOD_MS: u64 = 500;
    const LIFETIME_MS: u64 = 4_000;

    struct Simulation {
        balancer: Balancer,
        hasher: NameHasher,
        loads: NdtLoads,
        now: Timestamp,
        random: u64,
        until_sample: u32,
        /// Interests for each shard in the last second.
        shards: Vec<u64>,
    }

    impl Simulation {
        fn new(shards: usize) -> Self {
            Self {
                balancer: Balancer::new(Arc::new(Ndt::new(shards, 2))),
                hasher: NameHasher::new(*b"a key of a test!"),
                loads: NdtLoads::default(),
                now: Timestamp::from_millis(1),
                random: 7,
                until_sample: LOAD_SAMPLE,
                shards: vec![0; shards],
            }
        }

        fn random(&mut self) -> u64 {
            self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut mixed = self.random;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            mixed ^ (mixed >> 31)
        }

        /// Half a second of traffic, and one period of the balancer.
        fn period(&mut self, mut name: impl FnMut(u64) -> Name) -> Balanced {
            self.shards.fill(0);
            for _ in 0..RATE * PERIOD_MS / 1000 {
                let drawn = self.random();
                let name = name(drawn);
                let mut hashes = [0; PREFIX_HASHES_MAX];
                let count = self.hasher.hash_prefixes(name.as_ref(), &mut hashes).unwrap();
                let route = self.balancer.ndt().find(name.as_ref(), &hashes[..count]);
                self.shards[usize::from(route.shard)] += 1;
                self.until_sample -= 1;
                if self.until_sample == 0 {
                    self.until_sample = LOAD_SAMPLE;
                    let components = u16::try_from(count - 1).unwrap();
                    self.loads.note(Sampled::new(route.entry, components));
                }
            }
            self.now = self.now.plus_millis(PERIOD_MS);
            let loads = &self.loads;
            let until = self.now.plus_millis(LIFETIME_MS);
            let load_of = |entry| EntryLoad {
                count: loads.count(entry),
                components: loads.components(entry),
            };
            let latest = LatestExpiries { all: until, ..LatestExpiries::default() };
            self.balancer.balance(self.now, load_of, |_| latest)
        }

        /// Largest load over the mean, in the last period.
        fn imbalance(&self) -> f64 {
            let most = *self.shards.iter().max().unwrap() as f64;
            most * self.shards.len() as f64 / self.shards.iter().sum::<u64>() as f64
        }
    }

    #[test]
    fn zipf_traffic_is_balanced_within_six_seconds() {
        let weights: Vec<f64> = (1..=1000).map(|rank| 1.0 / f64::from(rank)).collect();
        let total: f64 = weights.iter().sum();
        for shards in [2, 8, 16] {
            let mut simulation = Simulation::new(shards);
            let mut serial = 0_u64;
            let mut draw = |drawn: u64| {
                let mut left = drawn as f64 / u64::MAX as f64 * total;
                let rank = weights.iter().position(|weight| {
                    left -= weight;
                    left <= 0.0
                });
                serial += 1;
                Name::from_uri(&format!("/zipf/p{}/n{serial}", rank.unwrap_or(999))).unwrap()
            };
            for _ in 0..12 {
                simulation.period(&mut draw);
            }
            simulation.period(&mut draw);
            let imbalance = simulation.imbalance();
            assert!(imbalance <= 1.15, "{shards} shards: {imbalance}");
        }
    }

    #[test]
    fn single_prefix_is_split_over_all_shards_within_five_seconds() {
        for shards in [2, 8, 16] {
            let mut simulation = Simulation::new(shards);
            let mut serial = 0_u64;
            let mut draw = |_| {
                serial += 1;
                Name::from_uri(&format!("/one/prefix/n{serial}")).unwrap()
            };
            simulation.period(&mut draw);
            for _ in 0..10 {
                simulation.period(&mut draw);
            }
            let imbalance = simulation.imbalance();
            assert!(imbalance <= 1.15, "{shards} shards: {imbalance}");
        }
    }

    #[test]
    fn balanced_traffic_causes_no_moves() {
        let mut simulation = Simulation::new(4);
        let mut serial = 0_u64;
        for _ in 0..6 {
            let done = simulation.period(|_| {
                serial += 1;
                Name::from_uri(&format!("/p{serial}/x")).unwrap()
            });
            assert_eq!(done, Balanced::default());
        }
    }

    #[test]
    fn little_traffic_causes_no_moves_and_moves_settle() {
        let mut balancer = Balancer::new(Arc::new(Ndt::new(2, 2)));
        let start = Timestamp::from_millis(100);
        let load = |entry| EntryLoad { count: if entry < 20 { 9 } else { 0 }, components: 3 };
        let none = |_| LatestExpiries::default();
        assert_eq!(balancer.balance(Timestamp::ZERO, load, none), Balanced::default());
        balancer.set(5, 0, start).unwrap();
        let crossed = start.plus(CROSSING_TIME_MAX);
        assert_eq!(balancer.next_deadline(), Some(crossed));
        assert!(!balancer.ndt().get(5).unwrap().is_settled);
        assert_eq!(balancer.settle(start, none), (0, 0));
        assert_eq!(balancer.settle(crossed, none), (1, 0));
        assert!(balancer.ndt().get(5).unwrap().is_settled);
        assert!(balancer.set(5, 2, crossed).is_err(), "there is no such shard");
    }

    /// Pending Interests are known once no packet is on its way any more; a renewed one is pending for longer.
    #[test]
    fn move_settles_when_the_last_interest_at_the_previous_shard_has_ended() {
        let mut balancer = Balancer::new(Arc::new(Ndt::new(2, 2)));
        let start = Timestamp::from_millis(100);
        let crossed = start.plus(CROSSING_TIME_MAX);
        let after = |millis| crossed.plus_millis(millis);
        balancer.set(5, 0, start).unwrap();
        let settle = |balancer: &mut Balancer, now, all, renewed| {
            let other = LatestExpiries { all: Timestamp::MAX, renewed: Timestamp::MAX };
            let previous = LatestExpiries { all, renewed };
            balancer.settle(now, |shard| if shard == 1 { previous } else { other })
        };
        // Read when the last packet has arrived.
        assert_eq!(settle(&mut balancer, after(0), after(10), Timestamp::ZERO), (0, 0));
        assert_eq!(balancer.next_deadline(), Some(after(10)));
        // Others that have arrived since do not count, renewed ones do.
        assert_eq!(settle(&mut balancer, after(9), after(90), after(30)), (0, 0));
        assert_eq!(settle(&mut balancer, after(10), after(90), after(30)), (0, 0));
        assert_eq!(balancer.next_deadline(), Some(after(30)));
        assert_eq!(settle(&mut balancer, after(30), after(90), after(30)), (1, 0));
        // Not without end.
        let mut now = after(30);
        balancer.set(5, 1, now).unwrap();
        let mut renewals = 0;
        let overdue = loop {
            now = now.plus(CROSSING_TIME_MAX);
            let later = LatestExpiries { all: now, renewed: now.plus_millis(1) };
            match balancer.settle(now, |_| later) {
                (0, 0) => renewals += 1,
                (1, overdue) => break overdue,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((renewals, overdue), (u32::from(RENEWALS_MAX) + 1, 1));
        assert!(balancer.ndt().get(5).unwrap().is_settled);
    }
}
