//! Strategy choices: one by command, or all that a configuration has, together.

use std::collections::BTreeMap;

use ndn_packet::{Name, NameRef};

use super::{Action, ControlState, Outcome};
use crate::ControlParameters;
use crate::response::{ControlResponse, status};
use crate::strategy_name::StrategyError;
use crate::types::PREFIX_DEPTH_MAX;

/// Strategy choices at most, unless [`ControlConfig`](super::ControlConfig) says otherwise.
pub const STRATEGY_CHOICES_MAX: usize = 65_536;

/// Why a strategy choice was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StrategyChoiceError {
    /// The strategy cannot be used.
    #[error(transparent)]
    Strategy(#[from] StrategyError),
    /// The prefix has more than [`PREFIX_DEPTH_MAX`] components.
    #[error("Prefix has too many components (limit is {PREFIX_DEPTH_MAX})")]
    PrefixTooLong,
    /// No room for another choice.
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

/// Choices that can be made, and others that are to be taken back: what
/// [`ControlState::plan_strategies`] has found good.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StrategyChanges {
    unset: Vec<Name>,
    set: BTreeMap<Name, Name>,
}

impl StrategyChanges {
    /// The instances that are to be used.
    pub fn strategies(&self) -> impl Iterator<Item = NameRef<'_>> {
        self.set.values().map(Name::as_ref)
    }
}

impl ControlState {
    /// Makes the [`DEFAULT_STRATEGIES`] choices.
    ///
    /// # Errors
    /// [`StrategyChoiceError`] if the catalog does not have one of them.
    pub fn set_default_strategies(&mut self) -> Result<(), StrategyChoiceError> {
        for (prefix, strategy) in DEFAULT_STRATEGIES {
            self.set_strategy(&parse(prefix), parse(strategy).as_ref())?;
        }
        Ok(())
    }

    /// Chooses a strategy for a prefix; returns the name of the instance.
    ///
    /// # Errors
    /// [`StrategyChoiceError`]; nothing is changed then.
    pub fn set_strategy(
        &mut self,
        prefix: &Name,
        strategy: NameRef<'_>,
    ) -> Result<Name, StrategyChoiceError> {
        let instance = self.resolve_choice(prefix, strategy)?;
        let is_new = !self.strategy_choices.contains_key(prefix.value());
        if is_new && self.strategy_choices.len() >= self.config.strategy_choices_max {
            return Err(StrategyChoiceError::Full);
        }
        self.choose(prefix.clone(), instance.clone());
        Ok(instance)
    }

    /// Takes back the choice for a prefix other than `/`; tells whether there was one.
    pub fn unset_strategy(&mut self, prefix: &Name) -> bool {
        if prefix.is_empty() || self.strategy_choices.remove(prefix.value()).is_none() {
            return false;
        }
        self.strategy_generation += 1;
        self.actions.push_back(Action::UnsetStrategy { prefix: prefix.clone() });
        true
    }

    /// Whether all of these choices can be made, once those for the `withdrawn` prefixes are taken
    /// back; a prefix of [`DEFAULT_STRATEGIES`] that is withdrawn gets its own again. Choices for
    /// other prefixes stay. Changes nothing: [`ControlState::change_strategies`] does.
    ///
    /// # Errors
    /// The prefix that has no good choice, or that there is no room for, and why.
    pub fn plan_strategies<'a>(
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
            let instance = self.resolve_choice(prefix, parse(strategy).as_ref());
            let instance = instance.map_err(|error| (prefix.clone(), error))?;
            changes.set.insert(prefix.clone(), instance);
        }
        for (prefix, strategy) in chosen {
            let instance = self.resolve_choice(prefix, strategy);
            let instance = instance.map_err(|error| (prefix.clone(), error))?;
            changes.set.insert(prefix.clone(), instance);
        }
        let is_there = |prefix: &&Name| self.strategy_choices.contains_key(prefix.value());
        let gone = changes.unset.iter().filter(is_there).count();
        let mut count = self.strategy_choices.len().saturating_sub(gone);
        for prefix in changes.set.keys().filter(|prefix| !is_there(prefix)) {
            count += 1;
            if count > self.config.strategy_choices_max {
                return Err((prefix.clone(), StrategyChoiceError::Full));
            }
        }
        Ok(changes)
    }

    /// Makes the changes that were found good; nothing may have been chosen in between.
    pub fn change_strategies(&mut self, changes: StrategyChanges) {
        for prefix in &changes.unset {
            self.unset_strategy(prefix);
        }
        for (prefix, instance) in changes.set {
            self.choose(prefix, instance);
        }
    }

    fn resolve_choice(
        &self,
        prefix: &Name,
        strategy: NameRef<'_>,
    ) -> Result<Name, StrategyChoiceError> {
        if prefix.len() > PREFIX_DEPTH_MAX {
            return Err(StrategyChoiceError::PrefixTooLong);
        }
        Ok(self.collaborators.strategies.resolve(strategy)?)
    }

    fn choose(&mut self, prefix: Name, instance: Name) {
        if self.strategy_choices.get(prefix.value()) == Some(&instance) {
            return;
        }
        self.strategy_generation += 1;
        self.strategy_choices.insert(prefix.clone(), instance.clone());
        self.actions.push_back(Action::SetStrategy { prefix, strategy: instance });
    }

    pub(super) fn strategy_set(
        &mut self,
        prefix: &Name,
        strategy: NameRef<'_>,
        mut parameters: ControlParameters,
        success_text: &str,
    ) -> Outcome {
        match self.set_strategy(prefix, strategy) {
            Ok(instance) => {
                parameters.strategy = Some(instance);
                Outcome::Reply(
                    ControlResponse::new(status::OK, success_text).with_body(&parameters),
                )
            }
            Err(error) => {
                let code = match error {
                    StrategyChoiceError::Strategy(StrategyError::NotRegistered) => {
                        status::NOT_FOUND
                    }
                    StrategyChoiceError::Strategy(StrategyError::BadParameters(_)) => {
                        status::CONFLICT
                    }
                    StrategyChoiceError::PrefixTooLong => status::NAME_TOO_LONG,
                    StrategyChoiceError::Full => status::INTERNAL_ERROR,
                };
                Outcome::reply(code, error.to_string())
            }
        }
    }
}

fn parse(uri: &str) -> Name {
    Name::from_uri(uri).unwrap_or_default()
}
