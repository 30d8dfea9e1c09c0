//! Evening out the load of the shards: which entries of the dispatch table move, and which are
//! split. A state machine of the control thread; workers only count.

use std::sync::Arc;

use ndn_table::{NDT_ENTRIES, Ndt, Timestamp};

/// Packets counted in a period below which nothing is changed: too little to tell anything.
const COUNTED_MIN: u64 = 200;
/// Parts per thousand by which the largest load may exceed the mean.
const TOLERANCE_PERMILLE: u64 = 50;
/// Entries moved in one period at most.
const MOVES_MAX: usize = 1024;
/// An entry is split if its load is more than this part of what a shard should have.
const SPLIT_DIVISOR: u64 = 2;

/// What the workers count of an entry, all together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EntryLoad {
    /// Packets so far; starts over after 2^32.
    pub count: u32,
    /// Components of a name that belongs to it.
    pub components: usize,
}

/// What one look at the load has led to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Balanced {
    /// Entries that were given to another shard.
    pub moved: usize,
    /// Entries that were split.
    pub split: usize,
    /// Entries whose earlier change has settled.
    pub settled: usize,
}

/// Moves and splits entries of a dispatch table.
#[derive(Debug)]
pub struct Balancer {
    ndt: Arc<Ndt>,
    /// Counts at the last look.
    seen: Vec<u32>,
    /// Packets counted between the last two looks, and the earlier ones by half each.
    loads: Vec<u32>,
    /// Changed entries, and when nothing is pending any more where they were.
    unsettled: Vec<(usize, Timestamp)>,
}

impl Balancer {
    /// A balancer of this table, which changes it alone.
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

    /// Packets counted of an entry of late.
    #[must_use]
    pub fn load(&self, entry: usize) -> u32 {
        self.loads.get(entry).copied().unwrap_or(0)
    }

    /// When the next change settles.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.unsettled.iter().map(|(_, at)| *at).min()
    }

    /// Ends changes whose time has come.
    pub fn settle(&mut self, now: Timestamp) -> usize {
        let before = self.unsettled.len();
        let ndt = &self.ndt;
        self.unsettled.retain(|&(entry, at)| at > now || !ndt.settle(entry));
        before - self.unsettled.len()
    }

    /// Looks at what was counted since the last time, and changes the table. `pending_until` says
    /// of a shard when the last of its Interests so far stops being pending.
    pub fn balance(
        &mut self,
        now: Timestamp,
        load_of: impl Fn(usize) -> EntryLoad,
        pending_until: impl Fn(u8) -> Timestamp,
    ) -> Balanced {
        let settled = self.settle(now);
        let mut done = Balanced { settled, ..Balanced::default() };
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
            done.split = self.split(now, mean, &load_of, &pending_until);
        }
        if done.split == 0 {
            let made = moves.into_iter().filter(|&(entry, shard)| {
                let moved = self.set(entry, shard, &pending_until);
                moved.is_ok()
            });
            done.moved = made.count();
        }
        done
    }

    /// Gives one entry to a shard, as an operator asks.
    ///
    /// # Errors
    /// Those of [`Ndt::move_entry`].
    pub fn set(
        &mut self,
        entry: usize,
        shard: u8,
        pending_until: impl Fn(u8) -> Timestamp,
    ) -> Result<(), ndn_table::NdtError> {
        let previous = self.ndt.get(entry).ok_or(ndn_table::NdtError::NoSuchEntry)?.shard;
        self.ndt.move_entry(entry, shard)?;
        if previous != shard {
            self.unsettled.push((entry, pending_until(previous)));
        }
        Ok(())
    }

    /// The load of each shard, as the table is now.
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

    /// Splits the entries that are too much for one shard, by as many components as their names
    /// have.
    fn split(
        &mut self,
        now: Timestamp,
        mean: u64,
        load_of: &impl Fn(usize) -> EntryLoad,
        pending_until: &impl Fn(u8) -> Timestamp,
    ) -> usize {
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
                self.unsettled.push((entry, pending_until(found.shard).max(now)));
                count += 1;
            }
        }
        count
    }

    /// Which entries to give to which shards: from the one that has most to the one that has
    /// least, the largest that does not turn the difference round first. Says whether that is
    /// enough.
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
mod tests;
