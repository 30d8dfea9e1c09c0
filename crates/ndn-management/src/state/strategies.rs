//! Strategy choices: single ones by command, and those of a configuration together.

use std::collections::BTreeMap;
use std::ops::Bound;

use ndn_packet::{Name, NameRef};
use ndn_types::{LedgerReport, PrincipalIndex, PrincipalKey, Reserves};

use super::action::Action;
use super::outbox::Outbox;
use crate::command::TopPrefix;
use crate::journal::Journal;
use crate::range::NameRange;
use crate::share::{Charge, Share, ShareUsedUp, places};
use crate::strategy_name::{StrategyCatalog, StrategyError};
use crate::types::PREFIX_DEPTH_MAX;

/// Default of `strategy_choices_max` in the configuration of the control plane.
pub const STRATEGY_CHOICES_MAX: usize = 65_536;

/// The reason why a strategy choice is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StrategyChoiceError {
    /// The strategy cannot be used.
    #[error(transparent)]
    Strategy(#[from] StrategyError),
    /// The prefix has more than [`PREFIX_DEPTH_MAX`] components.
    #[error("Prefix has too many components (limit is {PREFIX_DEPTH_MAX})")]
    PrefixTooLong,
    /// There are too many choices, or too many different instances.
    #[error("There are too many strategy choices")]
    Full,
    /// The principal has its share of them.
    #[error(transparent)]
    ShareUsedUp(#[from] ShareUsedUp),
}

ndn_types::resource! {
    /// Strategy choices, which principals share.
    pub struct StrategyChoicePlaces = "strategy_choices";
}

ndn_types::resource! {
    /// Strategies with their parameters that are in use. Each principal is charged for those that it uses.
    pub struct StrategyInstancePlaces = "strategy_instances";
}

/// The strategy of a prefix.
#[derive(Debug)]
struct Choice {
    instance: Name,
    /// The charge for it; `None`: it is an operator's.
    charge: Option<Charge>,
}

/// The choices of an instance by one principal.
#[derive(Debug, Default)]
struct Uses {
    count: usize,
    /// The charge for the instance; `None`: they are an operator's.
    charge: Option<Charge>,
}

/// NFD's strategy choices at start: prefix, and strategy without its version.
pub const DEFAULT_STRATEGIES: [(&str, &str); 4] = [
    ("/", "/localhost/nfd/strategy/best-route"),
    ("/localhost", "/localhost/nfd/strategy/multicast"),
    ("/localhost/nfd", "/localhost/nfd/strategy/best-route"),
    ("/ndn/broadcast", "/localhost/nfd/strategy/multicast"),
];

/// The choice for `/localhop/nfd` while management serves it, as for `/localhost/nfd`: that of a shorter prefix is for others to
/// make.
const LOCALHOP_STRATEGY: (&str, &str) = ("/localhop/nfd", "/localhost/nfd/strategy/best-route");

/// Choices to be made and to be removed, checked by `ControlState::plan_strategies`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StrategyChanges {
    unset: Vec<Name>,
    set: BTreeMap<Name, Name>,
}

impl StrategyChanges {
    /// The instances of the choices to be made.
    pub fn strategies(&self) -> impl Iterator<Item = NameRef<'_>> {
        self.set.values().map(Name::as_ref)
    }
}

/// The strategy of each prefix that has one of its own.
pub(super) struct StrategyChoices {
    catalog: Box<dyn StrategyCatalog + Send>,
    choices: BTreeMap<Name, Choice>,
    /// By instance and owner of the choices.
    uses: BTreeMap<Name, BTreeMap<Option<PrincipalIndex>, Uses>>,
    /// Number of choices of operators.
    choices_of_operators: usize,
    /// Number of instances that operators have chosen.
    instances_of_operators: usize,
    choice_share: Share<StrategyChoicePlaces>,
    instance_share: Share<StrategyInstancePlaces>,
    choices_max: usize,
    instances_max: usize,
    serves_localhop: bool,
    generation: u64,
    /// Choices that have changed; `None`: removed.
    pub(super) journal: Journal<(Name, Option<Name>)>,
}

impl StrategyChoices {
    pub(super) fn new(
        catalog: Box<dyn StrategyCatalog + Send>,
        (choices_max, instances_max): (usize, usize),
        reserves: Reserves,
    ) -> Self {
        Self {
            catalog,
            choices: BTreeMap::new(),
            uses: BTreeMap::new(),
            choices_of_operators: 0,
            instances_of_operators: 0,
            choice_share: Share::new(StrategyChoicePlaces, (choices_max, usize::MAX), reserves),
            instance_share: Share::new(
                StrategyInstancePlaces,
                (instances_max, usize::MAX),
                reserves,
            ),
            choices_max,
            instances_max,
            serves_localhop: false,
            generation: 0,
            journal: Journal::default(),
        }
    }

    /// Returns the choices that each principal holds.
    pub(super) fn choice_report(&self) -> LedgerReport<1> {
        self.choice_share.report()
    }

    /// Returns the instances that each principal holds.
    pub(super) fn instance_report(&self) -> LedgerReport<1> {
        self.instance_share.report()
    }

    pub(super) fn len(&self) -> usize {
        self.choices.len()
    }

    /// Prefixes and strategy names, in canonical order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Name, &Name)> {
        self.choices.iter().map(|(prefix, choice)| (prefix, &choice.instance))
    }

    /// Those of a range.
    pub(super) fn range<'a>(
        &'a self,
        range: &'a NameRange,
    ) -> impl Iterator<Item = (&'a Name, &'a Name)> {
        let found = self.choices.range::<[u8], _>((range.start(), Bound::Unbounded));
        let found = found.map(|(prefix, choice)| (prefix, &choice.instance));
        found.take_while(|(prefix, _)| range.has(prefix.as_ref()))
    }

    /// A number that changes with every change.
    pub(super) const fn generation(&self) -> u64 {
        self.generation
    }

    /// Makes the [`DEFAULT_STRATEGIES`] choices.
    pub(super) fn set_defaults(&mut self, outbox: &mut Outbox) -> Result<(), StrategyChoiceError> {
        for (prefix, strategy) in DEFAULT_STRATEGIES {
            self.set(&parse(prefix), parse(strategy).as_ref(), None, outbox)?;
        }
        Ok(())
    }

    /// Notes whether management serves `/localhop/nfd`, which gets its default if it has no choice, and loses it again. Another
    /// choice stays.
    pub(super) fn serve_localhop(&mut self, is_served: bool, outbox: &mut Outbox) {
        let prefix = TopPrefix::Localhop.to_name();
        let choice = self.choices.get(prefix.value()).map(|choice| &choice.instance);
        let is_default = choice == self.default_instance(&prefix).as_ref();
        if self.serves_localhop && !is_served && is_default {
            self.unset(&prefix, outbox);
        }
        self.serves_localhop = is_served;
        self.restore_localhop(outbox);
    }

    /// Chooses the default for `/localhop/nfd` if management serves it and nobody has chosen another strategy.
    pub(super) fn restore_localhop(&mut self, outbox: &mut Outbox) {
        let prefix = TopPrefix::Localhop.to_name();
        if !self.choices.contains_key(prefix.value())
            && let Some(strategy) = self.default_of(&prefix)
        {
            // A catalog without it has no default for the root either.
            let _ = self.set(&prefix, parse(strategy).as_ref(), None, outbox);
        }
    }

    /// The instance that is chosen for a prefix from the start.
    fn default_instance(&self, prefix: &Name) -> Option<Name> {
        self.resolve(prefix, parse(self.default_of(prefix)?).as_ref()).ok()
    }

    /// The strategy of a prefix that has one from the start.
    fn default_of(&self, prefix: &Name) -> Option<&'static str> {
        let localhop = self.serves_localhop.then_some(LOCALHOP_STRATEGY);
        let mut defaults = DEFAULT_STRATEGIES.into_iter().chain(localhop);
        defaults.find(|(uri, _)| parse(uri) == *prefix).map(|(_, strategy)| strategy)
    }

    /// Chooses a strategy for a prefix; returns the name of the instance. The choice is charged to `principal`, unless an
    /// operator makes it (`None`).
    pub(super) fn set(
        &mut self,
        prefix: &Name,
        strategy: NameRef<'_>,
        principal: Option<PrincipalKey>,
        outbox: &mut Outbox,
    ) -> Result<Name, StrategyChoiceError> {
        let instance = self.resolve(prefix, strategy)?;
        let previous = self.choices.get(prefix.value());
        if principal.is_some() && previous.is_some_and(|choice| choice.instance == instance) {
            return Ok(instance);
        }
        let is_new = previous.is_none();
        let is_new_instance = !self.uses.contains_key(instance.value());
        // What ends with the previous choice is free for this one.
        let (ends_own_use, ends_instance) =
            previous.map_or((false, false), |choice| self.is_only_use(choice));
        let instances = self.uses.len() - usize::from(ends_instance);
        if is_new && self.choices.len() >= self.choices_max
            || is_new_instance && instances >= self.instances_max
        {
            return Err(StrategyChoiceError::Full);
        }
        if let Some(principal) = principal {
            let owner = previous.and_then(|choice| choice.charge).map(|charge| charge.owner);
            let index = self.choice_share.index_of(principal);
            if owner != Some(index) {
                self.choice_share.check(principal, places(prefix.as_ref()))?;
            }
            let is_exchange = owner == Some(index) && ends_own_use;
            if !is_exchange && !self.has_instance(&instance, index) {
                self.instance_share.check(principal, 1)?;
            }
        }
        self.choose(prefix.clone(), instance.clone(), principal, outbox);
        Ok(instance)
    }

    /// Whether a principal, by its index among those with choices, uses an instance already.
    fn has_instance(&self, instance: &Name, principal: PrincipalIndex) -> bool {
        self.uses.get(instance.value()).is_some_and(|uses| uses.contains_key(&Some(principal)))
    }

    /// Whether a choice is the only one of its instance by its owner, and the only one by anybody.
    fn is_only_use(&self, Choice { instance, charge }: &Choice) -> (bool, bool) {
        let owner = charge.map(|charge| charge.owner);
        let Some(by_owner) = self.uses.get(instance.value()) else { return (false, false) };
        let is_only_own = by_owner.get(&owner).is_some_and(|uses| uses.count == 1);
        (is_only_own, is_only_own && by_owner.len() == 1)
    }

    /// Removes the choice for a prefix other than `/`; returns whether it existed.
    pub(super) fn unset(&mut self, prefix: &Name, outbox: &mut Outbox) -> bool {
        if prefix.is_empty() {
            return false;
        }
        let Some(choice) = self.choices.remove(prefix.value()) else { return false };
        self.release(choice);
        self.note_use_of_operators();
        self.generation += 1;
        self.journal.note(|| (prefix.clone(), None));
        outbox.push(Action::UnsetStrategy { prefix: prefix.clone() });
        true
    }

    /// Checks whether all these choices are possible together, after those for the `withdrawn` prefixes are removed. A
    /// withdrawn prefix of [`DEFAULT_STRATEGIES`] gets its default again.
    pub(super) fn plan<'a>(
        &self,
        withdrawn: impl IntoIterator<Item = &'a Name>,
        chosen: impl IntoIterator<Item = (&'a Name, NameRef<'a>)>,
    ) -> Result<StrategyChanges, (Name, StrategyChoiceError)> {
        let mut changes = StrategyChanges::default();
        for prefix in withdrawn {
            let Some(strategy) = self.default_of(prefix) else {
                changes.unset.push(prefix.clone());
                continue;
            };
            let instance = self.resolve(prefix, parse(strategy).as_ref());
            let instance = instance.map_err(|error| (prefix.clone(), error))?;
            changes.set.insert(prefix.clone(), instance);
        }
        for (prefix, strategy) in chosen {
            let instance = self.resolve(prefix, strategy);
            let instance = instance.map_err(|error| (prefix.clone(), error))?;
            changes.set.insert(prefix.clone(), instance);
        }
        let exists = |prefix: &&Name| self.choices.contains_key(prefix.value());
        let removed = changes.unset.iter().filter(exists).count();
        let mut count = self.choices.len().saturating_sub(removed);
        for prefix in changes.set.keys().filter(|prefix| !exists(prefix)) {
            count += 1;
            if count > self.choices_max {
                return Err((prefix.clone(), StrategyChoiceError::Full));
            }
        }
        Ok(changes)
    }

    /// Makes planned changes; no choice may be made between the plan and this call.
    pub(super) fn change(&mut self, changes: StrategyChanges, outbox: &mut Outbox) {
        for prefix in &changes.unset {
            self.unset(prefix, outbox);
        }
        for (prefix, instance) in changes.set {
            self.choose(prefix, instance, None, outbox);
        }
    }

    fn resolve(&self, prefix: &Name, strategy: NameRef<'_>) -> Result<Name, StrategyChoiceError> {
        if prefix.len() > PREFIX_DEPTH_MAX {
            return Err(StrategyChoiceError::PrefixTooLong);
        }
        Ok(self.catalog.resolve(strategy)?)
    }

    /// The owner of the choice is `principal`; `None`: an operator.
    fn choose(
        &mut self,
        prefix: Name,
        instance: Name,
        principal: Option<PrincipalKey>,
        outbox: &mut Outbox,
    ) {
        let places = places(prefix.as_ref());
        let charge = principal.map(|principal| self.choice_share.charge(principal, places));
        self.choices_of_operators += usize::from(charge.is_none());
        let owner = charge.map(|charge| charge.owner);
        let uses = self.uses.entry(instance.clone()).or_default().entry(owner).or_default();
        if uses.count == 0 {
            uses.charge = principal.map(|principal| self.instance_share.charge(principal, 1));
            self.instances_of_operators += usize::from(principal.is_none());
        }
        uses.count += 1;
        let choice = Choice { instance: instance.clone(), charge };
        let previous = self.choices.insert(prefix.clone(), choice);
        let is_same = previous.as_ref().is_some_and(|previous| previous.instance == instance);
        if let Some(previous) = previous {
            self.release(previous);
        }
        self.note_use_of_operators();
        if !is_same {
            self.generation += 1;
            self.journal.note(|| (prefix.clone(), Some(instance.clone())));
            outbox.push(Action::SetStrategy { prefix, strategy: instance });
        }
    }

    fn release(&mut self, Choice { instance, charge }: Choice) {
        self.choices_of_operators -= usize::from(charge.is_none());
        let owner = charge.map(|charge| charge.owner);
        if let Some(by_owner) = self.uses.get_mut(instance.value())
            && let Some(uses) = by_owner.get_mut(&owner)
        {
            uses.count -= 1;
            if uses.count == 0 {
                self.instances_of_operators -= usize::from(uses.charge.is_none());
                uses.charge.into_iter().for_each(|charge| self.instance_share.release(charge));
                by_owner.remove(&owner);
            }
            if by_owner.is_empty() {
                self.uses.remove(instance.value());
            }
        }
        charge.into_iter().for_each(|charge| self.choice_share.release(charge));
    }

    fn note_use_of_operators(&mut self) {
        self.choice_share.set_operators(self.choices_of_operators);
        self.instance_share.set_operators(self.instances_of_operators);
    }
}

impl std::fmt::Debug for StrategyChoices {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("StrategyChoices")
            .field("choices", &self.choices)
            .finish_non_exhaustive()
    }
}

fn parse(uri: &str) -> Name {
    Name::from_uri(uri).unwrap_or_default()
}
