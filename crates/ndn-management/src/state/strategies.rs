//! Strategy choices: single ones by command, and those of a configuration together.

use std::collections::BTreeMap;

use ndn_packet::{Name, NameRef};

use super::action::Action;
use super::outbox::Outbox;
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
}

/// NFD's strategy choices at start: prefix, and strategy without its version.
pub const DEFAULT_STRATEGIES: [(&str, &str); 4] = [
    ("/", "/localhost/nfd/strategy/best-route"),
    ("/localhost", "/localhost/nfd/strategy/multicast"),
    ("/localhost/nfd", "/localhost/nfd/strategy/best-route"),
    ("/ndn/broadcast", "/localhost/nfd/strategy/multicast"),
];

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
    choices: BTreeMap<Name, Name>,
    /// The number of prefixes with each instance.
    uses: BTreeMap<Name, usize>,
    choices_max: usize,
    instances_max: usize,
    generation: u64,
}

impl StrategyChoices {
    pub(super) fn new(
        catalog: Box<dyn StrategyCatalog + Send>,
        choices_max: usize,
        instances_max: usize,
    ) -> Self {
        let (choices, uses) = (BTreeMap::new(), BTreeMap::new());
        Self { catalog, choices, uses, choices_max, instances_max, generation: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.choices.len()
    }

    /// Prefixes and strategy names, in canonical order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Name, &Name)> {
        self.choices.iter()
    }

    /// A number that changes with every change.
    pub(super) const fn generation(&self) -> u64 {
        self.generation
    }

    /// Makes the [`DEFAULT_STRATEGIES`] choices.
    pub(super) fn set_defaults(&mut self, outbox: &mut Outbox) -> Result<(), StrategyChoiceError> {
        for (prefix, strategy) in DEFAULT_STRATEGIES {
            self.set(&parse(prefix), parse(strategy).as_ref(), outbox)?;
        }
        Ok(())
    }

    /// Chooses a strategy for a prefix; returns the name of the instance.
    pub(super) fn set(
        &mut self,
        prefix: &Name,
        strategy: NameRef<'_>,
        outbox: &mut Outbox,
    ) -> Result<Name, StrategyChoiceError> {
        let instance = self.resolve(prefix, strategy)?;
        let is_new = !self.choices.contains_key(prefix.value());
        let is_new_instance = !self.uses.contains_key(instance.value());
        if is_new && self.choices.len() >= self.choices_max
            || is_new_instance && self.uses.len() >= self.instances_max
        {
            return Err(StrategyChoiceError::Full);
        }
        self.choose(prefix.clone(), instance.clone(), outbox);
        Ok(instance)
    }

    /// Removes the choice for a prefix other than `/`; returns whether it existed.
    pub(super) fn unset(&mut self, prefix: &Name, outbox: &mut Outbox) -> bool {
        if prefix.is_empty() {
            return false;
        }
        let Some(instance) = self.choices.remove(prefix.value()) else { return false };
        self.release(&instance);
        self.generation += 1;
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
            let default = DEFAULT_STRATEGIES.iter().find(|(uri, _)| parse(uri) == *prefix);
            let Some((_, strategy)) = default else {
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
            self.choose(prefix, instance, outbox);
        }
    }

    fn resolve(&self, prefix: &Name, strategy: NameRef<'_>) -> Result<Name, StrategyChoiceError> {
        if prefix.len() > PREFIX_DEPTH_MAX {
            return Err(StrategyChoiceError::PrefixTooLong);
        }
        Ok(self.catalog.resolve(strategy)?)
    }

    fn choose(&mut self, prefix: Name, instance: Name, outbox: &mut Outbox) {
        if self.choices.get(prefix.value()) == Some(&instance) {
            return;
        }
        self.generation += 1;
        *self.uses.entry(instance.clone()).or_default() += 1;
        if let Some(previous) = self.choices.insert(prefix.clone(), instance.clone()) {
            self.release(&previous);
        }
        outbox.push(Action::SetStrategy { prefix, strategy: instance });
    }

    fn release(&mut self, instance: &Name) {
        if let Some(uses) = self.uses.get_mut(instance.value()) {
            *uses -= 1;
            if *uses == 0 {
                self.uses.remove(instance.value());
            }
        }
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
