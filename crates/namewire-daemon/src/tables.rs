//! The FIB and the strategy instances that shards read and the control thread changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ndn_forwarding::strategy::{StrategyError, StrategyTable};
use ndn_management::{FibUpdate, StrategyCatalog, StrategyName};
use ndn_packet::{Name, NameRef};
use ndn_table::{
    FaceIndex, FibConfig, FibError, FibSnapshot, FibWriter, NameHasher, NextHop, StrategyId,
};

/// Entries of the FIB that a change of a shorter prefix updates at once, and in each slice that follows: less than a
/// millisecond of work.
const ENTRIES_AT_ONCE: usize = 2048;

/// The control thread's FIB and strategy instances.
#[derive(Debug)]
pub(super) struct ForwardingTables {
    fib: FibWriter,
    strategies: StrategyTable,
    default_strategy: StrategyId,
    /// Number of prefixes per strategy instance.
    strategy_uses: BTreeMap<StrategyId, usize>,
    /// Version of the strategies that the shards have.
    published_strategies: Option<u64>,
    fib_changed: bool,
}

/// New tables for the shards.
#[derive(Debug, Clone)]
pub(super) struct Published {
    /// The FIB.
    pub(super) fib: Arc<FibSnapshot>,
    /// The strategies that it refers to, if they changed.
    pub(super) strategies: Option<Arc<StrategyTable>>,
}

impl ForwardingTables {
    /// An empty FIB of at most `entries_max` prefixes, with best-route everywhere.
    pub(super) fn new(hasher: NameHasher, entries_max: usize) -> Self {
        let (strategies, default_strategy) = StrategyTable::with_best_route();
        let mut fib = FibWriter::new(&FibConfig { entries_max, hasher, default_strategy });
        fib.set_entries_at_once(ENTRIES_AT_ONCE);
        Self {
            fib,
            strategies,
            default_strategy,
            strategy_uses: BTreeMap::from([(default_strategy, 1)]),
            published_strategies: None,
            fib_changed: true,
        }
    }

    /// The tables to start a data plane with.
    pub(super) fn initial(&mut self) -> (Arc<FibSnapshot>, Arc<StrategyTable>) {
        self.fib.finish_updating();
        self.fib_changed = false;
        self.published_strategies = Some(self.strategies.version());
        (self.fib.publish(), Arc::new(self.strategies.clone()))
    }

    /// Applies FIB updates of the RIB. Next hops through removed faces are skipped.
    pub(super) fn apply(
        &mut self,
        updates: Vec<FibUpdate>,
        index_of: impl Fn(u64) -> Option<FaceIndex>,
    ) -> Result<(), (Name, FibError)> {
        let mut result = Ok(());
        // Removals come first to make room for additions.
        let (gone, set): (Vec<_>, Vec<_>) =
            updates.into_iter().partition(|update| matches!(update, FibUpdate::Remove { .. }));
        for update in gone.into_iter().chain(set) {
            let (prefix, next_hops) = match update {
                FibUpdate::Set { prefix, next_hops } => (prefix, next_hops),
                FibUpdate::Remove { prefix } => (prefix, Vec::new()),
            };
            let next_hops: Vec<NextHop> = next_hops
                .iter()
                .filter_map(|hop| {
                    let face = index_of(hop.face_id)?;
                    Some(NextHop { face, cost: hop.cost })
                })
                .collect();
            self.fib_changed = true;
            if let Err(error) = self.fib.set_next_hops(prefix.as_ref(), &next_hops) {
                result = Err((prefix, error));
            }
        }
        result
    }

    /// Whether there are entries that changes of shorter prefixes have not reached yet.
    pub(super) fn is_updating(&self) -> bool {
        self.fib.is_updating()
    }

    /// Updates some of these entries.
    pub(super) fn continue_updating(&mut self) {
        if self.fib.is_updating() {
            self.fib.continue_updating(ENTRIES_AT_ONCE);
            self.fib_changed = true;
        }
    }

    /// Creates strategy instances for later calls of [`ForwardingTables::set_strategy`].
    ///
    /// # Errors
    /// A [`StrategyError`] of one of the strategies.
    pub(super) fn prepare_strategies<'a>(
        &mut self,
        strategies: impl IntoIterator<Item = NameRef<'a>>,
    ) -> Result<(), StrategyError> {
        // What is removed is used by no entry.
        self.fib.finish_updating();
        let mut prepared = self.strategies.clone();
        let mut kept = BTreeSet::new();
        for strategy in strategies {
            let is_used = |id| self.is_used(id) || kept.contains(&id);
            kept.insert(insert_strategy(&mut prepared, strategy, is_used)?);
        }
        self.strategies = prepared;
        Ok(())
    }

    /// Sets the strategy of `prefix`.
    pub(super) fn set_strategy(
        &mut self,
        prefix: NameRef<'_>,
        strategy: NameRef<'_>,
    ) -> Result<(), StrategyChangeError> {
        let (uses, default_strategy) = (&self.strategy_uses, self.default_strategy);
        let is_used = |id| id == default_strategy || uses.contains_key(&id);
        let id = match self.strategies.insert(strategy) {
            Err(StrategyError::TooMany) => {
                self.fib.finish_updating();
                insert_strategy(&mut self.strategies, strategy, is_used)?
            }
            result => result?,
        };
        let previous = self.fib.strategy(prefix);
        self.fib.set_strategy(prefix, id)?;
        self.count_use(previous, Some(id));
        self.fib_changed = true;
        Ok(())
    }

    /// Removes the strategy of `prefix`, which then inherits that of the next shorter prefix; `/` returns to
    /// best-route.
    pub(super) fn unset_strategy(&mut self, prefix: NameRef<'_>) {
        let previous = self.fib.strategy(prefix);
        if prefix.is_empty() {
            // `/` has an entry from the start, so this cannot fail.
            let _ = self.fib.set_strategy(prefix, self.default_strategy);
        } else {
            self.fib.unset_strategy(prefix);
        }
        self.count_use(previous, self.fib.strategy(prefix));
        self.fib_changed = true;
    }

    fn is_used(&self, id: StrategyId) -> bool {
        id == self.default_strategy || self.strategy_uses.contains_key(&id)
    }

    /// Updates the use counts when a prefix changes its instance.
    fn count_use(&mut self, previous: Option<StrategyId>, current: Option<StrategyId>) {
        if let Some(id) = current {
            *self.strategy_uses.entry(id).or_default() += 1;
        }
        if let Some(id) = previous
            && let Some(uses) = self.strategy_uses.get_mut(&id)
        {
            *uses -= 1;
            if *uses == 0 {
                self.strategy_uses.remove(&id);
            }
        }
    }

    /// Returns the changes since the last call, for the shards.
    pub(super) fn publish(&mut self) -> Option<Published> {
        if !self.fib_changed {
            return None;
        }
        let version = self.strategies.version();
        let is_new = self.published_strategies != Some(version);
        let strategies = is_new.then(|| Arc::new(self.strategies.clone()));
        self.published_strategies = Some(version);
        self.fib_changed = false;
        Some(Published { fib: self.fib.publish(), strategies })
    }

    /// Frees FIB versions that no shard uses any more.
    pub(super) fn collect(&mut self) {
        self.fib.collect();
    }
}

/// Returns the id of a strategy instance. If the table is full, unused instances are removed.
fn insert_strategy(
    table: &mut StrategyTable,
    strategy: NameRef<'_>,
    is_used: impl FnMut(StrategyId) -> bool,
) -> Result<StrategyId, StrategyError> {
    match table.insert(strategy) {
        Err(StrategyError::TooMany) => {
            table.retain(is_used);
            table.insert(strategy)
        }
        result => result,
    }
}

/// Reasons why a strategy choice cannot be applied.
#[derive(Debug, thiserror::Error)]
pub(super) enum StrategyChangeError {
    /// Error of the strategy.
    #[error(transparent)]
    Strategy(#[from] StrategyError),
    /// Error of the FIB.
    #[error(transparent)]
    Fib(#[from] FibError),
}

/// The strategies that management can choose.
#[derive(Debug, Default)]
pub(super) struct Catalog;

impl StrategyCatalog for Catalog {
    fn resolve(&self, strategy: NameRef<'_>) -> Result<Name, ndn_management::StrategyError> {
        let instance = StrategyTable::resolve(strategy).map_err(|error| match error {
            StrategyError::Unknown(_) => ndn_management::StrategyError::NotRegistered,
            StrategyError::Version { .. }
            | StrategyError::Parameters(_)
            | StrategyError::TooMany => {
                ndn_management::StrategyError::BadParameters(error.to_string())
            }
        })?;
        // Parameters stay as given, so that a listing shows the requested name.
        let parsed = StrategyName::parse(strategy);
        let version = StrategyName::parse(instance.as_ref()).version.unwrap_or(0);
        Ok(parsed.instance_name(version))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn name(uri: &str) -> Name {
        Name::from_uri(uri).unwrap()
    }

    fn tables() -> ForwardingTables {
        ForwardingTables::new(NameHasher::new([1; 16]), 100)
    }

    #[test]
    fn strategy_of_a_short_prefix_reaches_longer_ones_in_slices() {
        let hasher = NameHasher::new([1; 16]);
        let mut tables = ForwardingTables::new(hasher, 20_000);
        let face = FaceIndex::new(3, 1);
        let prefix = |number: usize| name(&format!("/p/{number}"));
        let count = 4 * ENTRIES_AT_ONCE;
        for number in 0..count {
            tables.fib.set_next_hop(prefix(number).as_ref(), face, 0).unwrap();
        }
        let (before, _) = tables.initial();
        let multicast = name("/localhost/nfd/strategy/multicast");
        tables.set_strategy(NameRef::ROOT, multicast.as_ref()).unwrap();
        let has_changed = |fib: &FibSnapshot, number| {
            let prefix = prefix(number);
            let mut hashes = vec![0; prefix.len() + 1];
            hasher.hash_prefixes(prefix.as_ref(), &mut hashes).unwrap();
            let strategy = |fib: &FibSnapshot| {
                fib.entry(fib.find_longest_prefix(prefix.as_ref(), &hashes)).strategy()
            };
            strategy(fib) != strategy(&before)
        };
        let changed = |tables: &mut ForwardingTables| {
            let fib = tables.publish().unwrap().fib;
            (0..count).filter(|number| has_changed(&fib, *number)).count()
        };
        let mut slices = 0;
        while tables.is_updating() {
            let changed = changed(&mut tables);
            assert!(changed <= (slices + 1) * ENTRIES_AT_ONCE && changed < count, "{changed}");
            tables.continue_updating();
            slices += 1;
        }
        assert!(slices >= 4);
        assert_eq!(changed(&mut tables), count);
    }

    fn next_hops(published: &Published, hasher: NameHasher, uri: &str) -> Vec<u32> {
        let name = name(uri);
        let mut hashes = [0; ndn_table::PREFIX_HASHES_MAX];
        let count = hasher.hash_prefixes(name.as_ref(), &mut hashes).unwrap();
        let slot = published.fib.find_longest_prefix(name.as_ref(), &hashes[..count]);
        let entry = published.fib.entry(slot);
        entry.next_hops().iter().map(|hop| hop.face.slot()).collect()
    }

    #[test]
    fn updates_without_unknown_faces_reach_the_snapshot() {
        let mut tables = tables();
        let faces = HashMap::from([(300, FaceIndex::new(3, 1)), (301, FaceIndex::new(4, 1))]);
        let index_of = |face_id| faces.get(&face_id).copied();
        let hop = |face_id, cost| ndn_management::NextHop { face_id, cost };
        let set = FibUpdate::Set {
            prefix: name("/a"),
            next_hops: vec![hop(300, 1), hop(999, 2), hop(301, 3)],
        };
        tables.apply(vec![set], index_of).unwrap();
        let published = tables.publish().unwrap();
        let hasher = NameHasher::new([1; 16]);
        assert_eq!(next_hops(&published, hasher, "/a/b"), [3, 4]);
        assert!(tables.publish().is_none(), "nothing has changed since");
        tables.apply(vec![FibUpdate::Remove { prefix: name("/a") }], index_of).unwrap();
        let published = tables.publish().unwrap();
        assert!(next_hops(&published, hasher, "/a/b").is_empty());
    }

    #[test]
    fn removed_prefix_makes_room_for_an_added_one() {
        let mut tables = ForwardingTables::new(NameHasher::new([1; 16]), 2);
        let next_hops = vec![ndn_management::NextHop { face_id: 300, cost: 1 }];
        let index_of = |_| Some(FaceIndex::new(3, 1));
        let set = |uri: &str| FibUpdate::Set { prefix: name(uri), next_hops: next_hops.clone() };
        tables.apply(vec![set("/z")], index_of).unwrap();
        assert!(tables.apply(vec![set("/a")], index_of).is_err(), "there is no more room");
        let gone = FibUpdate::Remove { prefix: name("/z") };
        tables.apply(vec![set("/a"), gone], index_of).unwrap();
    }

    #[test]
    fn new_strategy_instances_are_published_with_the_fib() {
        let mut tables = tables();
        assert!(tables.publish().unwrap().strategies.is_some());
        let multicast = name("/localhost/nfd/strategy/multicast");
        tables.set_strategy(name("/m").as_ref(), multicast.as_ref()).unwrap();
        assert!(tables.publish().unwrap().strategies.is_some());
        tables.set_strategy(name("/n").as_ref(), multicast.as_ref()).unwrap();
        assert!(tables.publish().unwrap().strategies.is_none(), "the same instance");
        tables.unset_strategy(NameRef::ROOT);
        assert!(tables.publish().is_some());
    }

    #[test]
    fn unused_strategy_instances_are_replaced() {
        let (mut tables, catalog) = (tables(), Catalog);
        for number in 0..3 * StrategyTable::INSTANCES_MAX {
            let uri = format!(
                "/localhost/nfd/strategy/best-route/v=5/retx-suppression-max~{}",
                100 + number
            );
            let strategy = catalog.resolve(name(&uri).as_ref()).unwrap();
            let prefix = name(if number % 2 == 0 { "/a" } else { "/b" });
            tables.set_strategy(prefix.as_ref(), strategy.as_ref()).unwrap();
            if number % 7 == 0 {
                tables.unset_strategy(prefix.as_ref());
            }
            let published = tables.publish().unwrap();
            let in_use = tables.fib.strategies().map(|(_, id)| id);
            let shards = published.strategies.unwrap();
            in_use.for_each(|id| assert!(shards.strategy(id).is_some(), "{number}"));
        }
        let expected: usize = tables.strategy_uses.values().sum();
        assert_eq!(tables.fib.strategies().count(), expected);
        assert!(tables.strategy_uses.len() <= 3);
    }

    #[test]
    fn catalog_resolves_versions_and_rejects_unknown_strategies() {
        let catalog = Catalog;
        let resolve = |uri: &str| catalog.resolve(name(uri).as_ref());
        let best_route = "/localhost/nfd/strategy/best-route";
        assert_eq!(resolve(best_route).unwrap(), name(&format!("{best_route}/v=5")));
        let older = resolve(&format!("{best_route}/v=4")).unwrap_err().to_string();
        assert!(older.ends_with("BestRouteStrategy does not support version 4"), "{older}");
        assert_eq!(
            resolve("/localhost/nfd/strategy/none"),
            Err(ndn_management::StrategyError::NotRegistered)
        );
        assert!(matches!(
            resolve("/localhost/nfd/strategy/access/v=1/what~1"),
            Err(ndn_management::StrategyError::BadParameters(_))
        ));
    }
}
