//! Strategy names: `/localhost/nfd/strategy/<name>/v=<version>/<parameter>~<value>/...`, and the
//! rule by which a version is chosen (NFD wiki, `StrategyChoice`).

use ndn_packet::{Name, NameRef};

/// A strategy name taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StrategyName<'a> {
    /// The name in front of the version.
    pub base: NameRef<'a>,
    /// The version, if given.
    pub version: Option<u64>,
    /// The components behind the version.
    pub parameters: NameRef<'a>,
    /// All of it.
    whole: NameRef<'a>,
}

/// Why a strategy cannot be chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StrategyError {
    /// There is no such strategy, or none of the wanted version or a later one. Answered with 404.
    #[error("Strategy not registered")]
    NotRegistered,
    /// The parameters are not for this strategy. Answered with 409.
    #[error("Error instantiating strategy: {0}")]
    BadParameters(String),
}

/// Knows the strategies that the forwarder has.
pub trait StrategyCatalog {
    /// Checks a strategy name as a command gives it and returns the name of the instance: the same,
    /// with the version added if there was none.
    ///
    /// # Errors
    /// [`StrategyError`].
    fn resolve(&self, strategy: NameRef<'_>) -> Result<Name, StrategyError>;
}

impl<'a> StrategyName<'a> {
    /// Takes `name` apart at its last version component, which cannot be the first component.
    #[must_use]
    pub fn parse(name: NameRef<'a>) -> Self {
        let version_at = name
            .components()
            .enumerate()
            .skip(1)
            .filter_map(|(index, component)| Some((index, component.as_version_or_marked()?)))
            .last();
        match version_at {
            Some((index, version)) => Self {
                base: name.prefix(index),
                version: Some(version),
                parameters: name.suffix(index + 1),
                whole: name,
            },
            None => Self { base: name, version: None, parameters: NameRef::ROOT, whole: name },
        }
    }

    /// The version to use out of those that there are: the highest, or the wanted one, or the next
    /// higher one.
    #[must_use]
    pub fn select_version(&self, versions: impl IntoIterator<Item = u64>) -> Option<u64> {
        let versions = versions.into_iter();
        match self.version {
            None => versions.max(),
            Some(requested) => versions.filter(|version| *version >= requested).min(),
        }
    }

    /// The name of the instance: as given, with `selected` as its version if there was none.
    #[must_use]
    pub fn instance_name(&self, selected: u64) -> Name {
        let mut name = self.whole.to_name();
        if self.version.is_none() {
            name.push_version(selected);
        }
        name
    }

    /// The parameters as names and values; of a repeated one the last counts.
    ///
    /// # Errors
    /// [`StrategyError::BadParameters`] for a component without `~`, or with nothing on one side
    /// of it, or that is not text.
    pub fn parse_parameters(&self) -> Result<Vec<(String, String)>, StrategyError> {
        let bad = |reason: &str| StrategyError::BadParameters(reason.to_owned());
        let mut parameters: Vec<(String, String)> = Vec::new();
        for component in self.parameters.components() {
            let text = std::str::from_utf8(component.value())
                .map_err(|_| bad("a parameter is not text"))?;
            let (key, value) = text
                .split_once('~')
                .ok_or_else(|| bad("parameters have the form <parameter>~<value>"))?;
            if key.is_empty() || value.is_empty() {
                return Err(bad("neither the name nor the value of a parameter may be empty"));
            }
            parameters.retain(|(other, _)| other != key);
            parameters.push((key.to_owned(), value.to_owned()));
        }
        Ok(parameters)
    }
}

/// Checks the parameters of one strategy.
pub type ParameterCheck = fn(&[(String, String)]) -> Result<(), String>;

/// A catalog as a plain list.
#[derive(Debug, Clone, Default)]
pub struct StrategyList {
    strategies: Vec<(Name, u64, ParameterCheck)>,
}

impl StrategyList {
    /// An empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self { strategies: Vec::new() }
    }

    /// Adds the strategy `/localhost/nfd/strategy/<name>/v=<version>`.
    #[must_use]
    pub fn with(mut self, name: &str, version: u64, check: ParameterCheck) -> Self {
        let mut base = Name::new();
        base.push_generic("localhost")
            .push_generic("nfd")
            .push_generic("strategy")
            .push_generic(name);
        self.strategies.push((base, version, check));
        self
    }
}

impl StrategyCatalog for StrategyList {
    fn resolve(&self, strategy: NameRef<'_>) -> Result<Name, StrategyError> {
        let parsed = StrategyName::parse(strategy);
        let candidates = self.strategies.iter().filter(|(base, ..)| *base == parsed.base);
        let version = parsed
            .select_version(candidates.clone().map(|(_, version, _)| *version))
            .ok_or(StrategyError::NotRegistered)?;
        let parameters = parsed.parse_parameters()?;
        for (_, _, check) in candidates.filter(|(_, candidate, _)| *candidate == version) {
            check(&parameters).map_err(StrategyError::BadParameters)?;
        }
        Ok(parsed.instance_name(version))
    }
}

#[cfg(test)]
mod tests;
