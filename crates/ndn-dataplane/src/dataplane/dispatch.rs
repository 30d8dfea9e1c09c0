//! Which worker has which names.

use std::time::Duration;

use ndn_packet::NameRef;
use ndn_table::{NdtError, PREFIX_HASHES_MAX, Timestamp};

use super::Dataplane;
use crate::balance::{Balanced, Balancer, EntryLoad};
use crate::view::WorkerView;

/// How long a packet may take from where it is dispatched into a PIT.
const ON_THE_WAY: Duration = Duration::from_millis(200);

impl Dataplane {
    /// Which worker's shard a name belongs to, and the load of the shards; none if there is only
    /// one.
    #[must_use]
    pub fn balancer(&self) -> Option<&Balancer> {
        self.balancer.as_ref()
    }

    /// The entry of the dispatch table that a name belongs to; none if there is only one worker,
    /// or the name is longer than any that is forwarded.
    #[must_use]
    pub fn dispatch_entry(&self, name: NameRef<'_>) -> Option<usize> {
        let mut hashes = [0; PREFIX_HASHES_MAX];
        let count = self.hasher.hash_prefixes(name, &mut hashes)?;
        let route = self.balancer.as_ref()?.ndt().find(name, &hashes[..count]);
        Some(usize::from(route.entry))
    }

    /// Looks at the load of the shards, and moves names between them if it is uneven. With a
    /// single worker, nothing happens.
    pub fn balance(&mut self, now: Timestamp) -> Balanced {
        let Self { balancer, workers, .. } = self;
        let Some(balancer) = balancer else { return Balanced::default() };
        let load_of = |entry| {
            let loads = workers.iter().filter_map(|worker| worker.loads.as_deref());
            loads.fold(EntryLoad::default(), |sum, load| EntryLoad {
                count: sum.count.wrapping_add(load.count(entry)),
                components: sum.components.max(load.components(entry)),
            })
        };
        balancer.balance(now, load_of, |shard| pending_until(workers, shard, now))
    }

    /// Gives an entry of the dispatch table to a shard.
    ///
    /// # Errors
    /// See [`NdtError`]; with a single worker, [`NdtError::NoSuchEntry`].
    pub fn set_dispatch(
        &mut self,
        entry: usize,
        shard: u8,
        now: Timestamp,
    ) -> Result<(), NdtError> {
        let Self { balancer, workers, .. } = self;
        let balancer = balancer.as_mut().ok_or(NdtError::NoSuchEntry)?;
        balancer.set(entry, shard, |shard| pending_until(workers, shard, now))
    }
}

/// When nothing is pending any more in a shard that is pending now, or on its way there.
fn pending_until(workers: &[WorkerView], shard: u8, now: Timestamp) -> Timestamp {
    let latest =
        workers.get(usize::from(shard)).map(|worker| worker.counters.latest_expiry_ns.value());
    Timestamp::from_nanos(latest.unwrap_or(0)).max(now).plus(ON_THE_WAY)
}
