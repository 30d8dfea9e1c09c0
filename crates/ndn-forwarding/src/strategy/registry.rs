//! Strategies by name, and strategy instances by id.

use ndn_packet::{Name, NameRef};
use ndn_table::StrategyId;
use thiserror::Error;

use super::Strategy;
use super::access::Access;
use super::asf::Asf;
use super::best_route::BestRoute;
use super::multicast::Multicast;
use super::parameters::{ParameterError, Parameters};
use super::self_learning::SelfLearning;
use super::spread::{FastRoute, Random, RoundRobin, Sequential};
use super::strategy_ref::StrategyRef;
#[cfg(feature = "vip")]
use super::vip::Vip;

/// Prefix of strategy names.
const PREFIX: &str = "/localhost/nfd/strategy";

/// Why a strategy name was rejected.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StrategyError {
    /// No strategy has that name, or none has that version or a higher one.
    #[error("there is no strategy {0}")]
    Unknown(Name),
    /// The version is older than the existing one; reported in NFD's words.
    #[error("{strategy} does not support version {version}")]
    Version {
        /// Class name of the strategy in NFD's messages.
        strategy: String,
        /// The requested version.
        version: u64,
    },
    /// Invalid parameters.
    #[error(transparent)]
    Parameters(#[from] ParameterError),
    /// The table of instances is full.
    #[error("no more than {} strategy instances can be in use", StrategyTable::INSTANCES_MAX)]
    TooMany,
}

type Construct = fn(&mut Parameters) -> Result<StrategyRef, ParameterError>;

/// An available strategy.
struct RegisteredStrategy {
    name: &'static str,
    version: u64,
    about: &'static str,
    construct: Construct,
    /// As in NFD, an unknown parameter is ignored, and of one given twice the last counts.
    is_lenient: bool,
}

/// By name; versions of one name ascend.
const STRATEGIES: &[RegisteredStrategy] = &[
    RegisteredStrategy {
        name: "access",
        version: 1,
        about: "sends to the next hop that answered last, and to all others when it does not answer",
        construct: |parameters| Access::construct(parameters).map(StrategyRef::new),
        is_lenient: false,
    },
    RegisteredStrategy {
        name: "asf",
        version: 5,
        about: "sends to the next hop with the shortest round-trip time, and probes others",
        construct: |parameters| Asf::construct(parameters).map(StrategyRef::new),
        is_lenient: true,
    },
    RegisteredStrategy {
        name: "best-route",
        version: 5,
        about: "sends to the next hop of lowest cost, and retransmissions to others",
        construct: |parameters| BestRoute::construct(parameters).map(StrategyRef::BestRoute),
        is_lenient: true,
    },
    RegisteredStrategy {
        name: "fast-route",
        version: 1,
        about: "sends to all next hops once, and then to the first that answered",
        construct: |parameters| FastRoute::construct(parameters).map(StrategyRef::new),
        is_lenient: false,
    },
    RegisteredStrategy {
        name: "multicast",
        version: 5,
        about: "sends to all next hops",
        construct: |parameters| Multicast::construct(parameters).map(StrategyRef::new),
        is_lenient: true,
    },
    RegisteredStrategy {
        name: "random",
        version: 1,
        about: "sends to a random next hop",
        construct: |parameters| Random::construct(parameters).map(StrategyRef::new),
        is_lenient: false,
    },
    RegisteredStrategy {
        name: "round-robin",
        version: 1,
        about: "sends to the next hops in turn",
        construct: |parameters| RoundRobin::construct(parameters).map(StrategyRef::new),
        is_lenient: false,
    },
    RegisteredStrategy {
        name: "self-learning",
        version: 1,
        about: "sends to all next hops, broadcasts Interests without a route, and learns routes from the answers",
        construct: |parameters| SelfLearning::construct(parameters).map(StrategyRef::new),
        is_lenient: false,
    },
    RegisteredStrategy {
        name: "sequential",
        version: 1,
        about: "sends to the cheapest next hop, and each retransmission to the next one",
        construct: |parameters| Sequential::construct(parameters).map(StrategyRef::new),
        is_lenient: false,
    },
    #[cfg(feature = "vip")]
    RegisteredStrategy {
        name: "vip",
        version: 1,
        about: "sends to the next hop to which most virtual Interests were sent; without them as best-route",
        construct: |parameters| Vip::construct(parameters).map(StrategyRef::new),
        is_lenient: false,
    },
    RegisteredStrategy {
        name: "weighted",
        version: 1,
        about: "sends to the next hops in turn, by weight",
        construct: |parameters| RoundRobin::construct_weighted(parameters).map(StrategyRef::new),
        is_lenient: false,
    },
];

impl RegisteredStrategy {
    fn versioned_name(&self) -> Name {
        let mut name = Name::from_uri(PREFIX).expect("constant is a valid name");
        name.push_generic(self.name).push_version(self.version);
        name
    }

    /// Class name in NFD's messages, such as `BestRouteStrategy`.
    fn class_name(&self) -> String {
        let words = self.name.split('-').map(|word| word[..1].to_ascii_uppercase() + &word[1..]);
        words.collect::<String>() + "Strategy"
    }

    /// Checks that the version is the requested one; another may have a different meaning.
    fn check_version(&self, version: Option<u64>) -> Result<(), StrategyError> {
        match version {
            Some(version) if version != self.version => {
                Err(StrategyError::Version { strategy: self.class_name(), version })
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Parsed strategy name.
#[derive(Debug)]
struct RequestedStrategy<'a> {
    /// Name without version and parameters.
    base: NameRef<'a>,
    version: Option<u64>,
    parameters: NameRef<'a>,
}

impl<'a> RequestedStrategy<'a> {
    /// The last component that is a version ends the name of the strategy.
    fn parse(name: NameRef<'a>) -> Self {
        let versions = name.components().enumerate();
        let version =
            versions.filter_map(|(index, c)| Some((index, c.as_version_or_marked()?))).last();
        match version {
            Some((index, version)) => Self {
                base: name.prefix(index),
                version: Some(version),
                parameters: name.suffix(index + 1),
            },
            None => Self { base: name, version: None, parameters: NameRef::ROOT },
        }
    }

    /// The highest version, or the requested one or the next higher.
    fn find(&self) -> Option<&'static RegisteredStrategy> {
        let versions =
            STRATEGIES.iter().filter(|known| known.versioned_name().as_ref().parent() == self.base);
        match self.version {
            Some(version) => {
                versions.filter(|known| known.version >= version).min_by_key(|known| known.version)
            }
            None => versions.max_by_key(|known| known.version),
        }
    }
}

/// An available strategy, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownStrategy {
    /// Name with version.
    pub name: Name,
    /// Description.
    pub about: &'static str,
    /// Names and defaults of its parameters.
    pub parameters: Vec<(&'static str, String)>,
}

/// All strategies.
pub fn known_strategies() -> impl Iterator<Item = KnownStrategy> {
    STRATEGIES.iter().map(|known| {
        let mut parameters = Parameters::default();
        // Every strategy can be constructed with defaults; this reads the parameters that it takes.
        let _ = (known.construct)(&mut parameters);
        KnownStrategy {
            name: known.versioned_name(),
            about: known.about,
            parameters: parameters.into_read(),
        }
    })
}

/// A strategy with its parameters, under its number.
#[derive(Debug, Clone)]
struct Instance {
    id: StrategyId,
    /// With version and parameters.
    name: Name,
    strategy: StrategyRef,
}

/// The strategy instances that a [`StrategyId`] of the FIB refers to.
///
/// The control thread changes it, and hands a copy to the shards together with the FIB that refers to it. A number has two
/// parts, a slot and the generation of its instance, so that the number of a removed instance is not that of its successor:
/// a pending Interest keeps the number of the strategy that forwarded it.
#[derive(Debug, Clone, Default)]
pub struct StrategyTable {
    instances: Vec<Option<Instance>>,
    generation: u32,
    /// Counts insertions and removals.
    version: u64,
    #[cfg(feature = "planted-faults")]
    is_forgetful: bool,
}

impl StrategyTable {
    /// Maximum number of instances; each combination of parameters is one.
    pub const INSTANCES_MAX: usize = 1 << Self::SLOT_BITS;
    const SLOT_BITS: u32 = 10;

    /// A table whose only instance, of the number that is returned, is best-route.
    #[must_use]
    pub fn with_best_route() -> (Self, StrategyId) {
        let mut table = Self::default();
        let name =
            Name::from_uri("/localhost/nfd/strategy/best-route").expect("constant is a valid name");
        let id = table.insert(name.as_ref()).expect("best-route is registered");
        (table, id)
    }

    /// The full name, with version and parameters, of the instance that a strategy name asks for. The name may omit the
    /// version; parameters follow it.
    ///
    /// # Errors
    /// See [`StrategyError`].
    pub fn resolve(name: NameRef<'_>) -> Result<Name, StrategyError> {
        construct(name).map(|(name, _)| name)
    }

    /// The number of the instance that `name` asks for, which is created if it does not exist.
    ///
    /// # Errors
    /// See [`StrategyError`].
    pub fn insert(&mut self, name: NameRef<'_>) -> Result<StrategyId, StrategyError> {
        let (name, strategy) = construct(name)?;
        if let Some(instance) = self.instances.iter().flatten().find(|known| known.name == name) {
            return Ok(instance.id);
        }
        let vacant = self.instances.iter().position(Option::is_none);
        let slot = vacant.unwrap_or(self.instances.len());
        if slot >= Self::INSTANCES_MAX {
            return Err(StrategyError::TooMany);
        }
        let number = u32::try_from(slot).expect("below INSTANCES_MAX");
        let id = StrategyId(self.generation << Self::SLOT_BITS | number);
        let instance = Some(Instance { id, name, strategy });
        match self.instances.get_mut(slot) {
            Some(vacant) => *vacant = instance,
            None => self.instances.push(instance),
        }
        self.version += 1;
        Ok(id)
    }

    /// Removes the instances that are not in use.
    pub fn retain(&mut self, mut is_used: impl FnMut(StrategyId) -> bool) {
        let mut is_changed = false;
        for slot in &mut self.instances {
            is_changed |= slot.take_if(|instance| !is_used(instance.id)).is_some();
        }
        if is_changed {
            self.generation = self.generation.wrapping_add(1);
            self.version += 1;
        }
    }

    /// A number that changes with every change of the table.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Plants a fault: a copy whose strategies forget Interests; `None` if this one is such a copy.
    #[cfg(feature = "planted-faults")]
    #[must_use]
    pub fn to_forgetful(&self) -> Option<Self> {
        let mut table = Self { is_forgetful: true, ..self.clone() };
        for instance in table.instances.iter_mut().flatten() {
            let forgetful = super::forgetful::Forgetful::new(instance.strategy.clone());
            instance.strategy = StrategyRef::new(forgetful);
        }
        (!self.is_forgetful).then_some(table)
    }

    /// The name of an instance, with version and parameters.
    #[must_use]
    pub fn name(&self, id: StrategyId) -> Option<NameRef<'_>> {
        self.instance(id).map(|instance| instance.name.as_ref())
    }

    /// The instance itself; `None` if it was removed.
    #[must_use]
    pub fn strategy(&self, id: StrategyId) -> Option<&dyn Strategy> {
        Some(self.find(id)?)
    }

    #[inline]
    pub(crate) fn find(&self, id: StrategyId) -> Option<&StrategyRef> {
        self.instance(id).map(|instance| &instance.strategy)
    }

    /// Whether an instance is one of best-route.
    pub(crate) fn is_best_route(&self, id: StrategyId) -> bool {
        matches!(self.find(id), Some(StrategyRef::BestRoute(_)))
    }

    /// Whether an instance has to be called before a Data satisfies an Interest.
    #[inline(always)]
    pub(crate) fn observes_data(&self, id: StrategyId) -> bool {
        match self.instances.get(id.0 as usize % Self::INSTANCES_MAX) {
            // An instance that was removed makes no difference.
            Some(Some(instance)) => !matches!(instance.strategy, StrategyRef::BestRoute(_)),
            Some(None) | None => false,
        }
    }

    #[inline]
    fn instance(&self, id: StrategyId) -> Option<&Instance> {
        let slot = id.0 as usize % Self::INSTANCES_MAX;
        self.instances.get(slot)?.as_ref().filter(|instance| instance.id == id)
    }
}

/// Constructs the strategy that a name asks for; returns it with its full name.
fn construct(name: NameRef<'_>) -> Result<(Name, StrategyRef), StrategyError> {
    let requested = RequestedStrategy::parse(name);
    let known = requested.find().ok_or_else(|| StrategyError::Unknown(name.to_name()))?;
    known.check_version(requested.version)?;
    let mut parameters = Parameters::parse(requested.parameters, known.is_lenient)?;
    let strategy = (known.construct)(&mut parameters)?;
    if !known.is_lenient {
        parameters.finish()?;
    }
    let mut full_name = known.versioned_name();
    full_name.append(requested.parameters);
    Ok((full_name, strategy))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(table: &mut StrategyTable, uri: &str) -> Result<String, StrategyError> {
        let name = Name::from_uri(uri).unwrap();
        let id = table.insert(name.as_ref())?;
        Ok(table.name(id).unwrap().to_uri())
    }

    #[test]
    fn version_may_be_omitted() {
        let mut table = StrategyTable::default();
        let base = "/localhost/nfd/strategy/best-route";
        let full = format!("{base}/v=5");
        for requested in [base, &format!("{base}/v=5"), &format!("{base}/%FD%05")] {
            assert_eq!(insert(&mut table, requested), Ok(full.clone()));
        }
        assert_eq!(table.instances.len(), 1);
        let older = StrategyError::Version { strategy: "BestRouteStrategy".to_owned(), version: 4 };
        assert_eq!(older.to_string(), "BestRouteStrategy does not support version 4");
        for requested in ["v=4", "%FD%04"] {
            assert_eq!(insert(&mut table, &format!("{base}/{requested}")), Err(older.clone()));
        }
        for requested in [&format!("{base}/v=6"), "/localhost/nfd/strategy/no", "/a", "/"] {
            assert!(
                matches!(insert(&mut table, requested), Err(StrategyError::Unknown(_))),
                "{requested}"
            );
        }
    }

    #[test]
    fn described_parameters_are_accepted() {
        let mut table = StrategyTable::default();
        let known: Vec<_> = known_strategies().collect();
        assert_eq!(known.len(), STRATEGIES.len());
        for strategy in &known {
            let mut name = strategy.name.clone();
            for (parameter, default) in &strategy.parameters {
                name.push_generic(format!("{parameter}~{default}"));
            }
            assert_eq!(insert(&mut table, &name.to_uri()), Ok(name.to_uri()));
        }
        assert!(known.iter().any(|strategy| strategy.parameters.len() == 3));
    }

    #[test]
    fn parameters_make_a_separate_instance() {
        let mut table = StrategyTable::with_best_route().0;
        let base = "/localhost/nfd/strategy/best-route/v=5";
        let slow = format!("{base}/retx-suppression-initial~50/retx-suppression-multiplier~1.5");
        assert_eq!(insert(&mut table, &slow), Ok(slow.clone()));
        assert_eq!(table.instances.len(), 2);
        assert_eq!(insert(&mut table, &slow), Ok(slow));
        assert_eq!(table.instances.len(), 2);
    }

    #[test]
    fn unknown_parameters_are_ignored_where_nfd_ignores_them() {
        let mut table = StrategyTable::default();
        for tail in [
            "best-route/v=5/no-such~1",
            "multicast/v=5/retx-suppression-max~50/retx-suppression-max~60",
            "asf/v=5/no-such~1/max-timeouts~0",
            "asf/v=5/probing-interval~1000000",
        ] {
            let name = format!("{PREFIX}/{tail}");
            assert_eq!(insert(&mut table, &name), Ok(name.clone()));
        }
        let short = insert(&mut table, &format!("{PREFIX}/asf/v=5/probing-interval~999"));
        let reason = short.unwrap_err().to_string();
        assert_eq!(reason, "Probing interval must be >= 1000 milliseconds");
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        let mut table = StrategyTable::default();
        for tail in [
            "best-route/v=5/x",
            "best-route/v=5/retx-suppression-initial~",
            "best-route/v=5/retx-suppression-initial~0",
            "best-route/v=5/retx-suppression-initial~-1",
            "best-route/v=5/retx-suppression-initial~300",
            "best-route/v=5/retx-suppression-multiplier~0.5",
            "best-route/v=5/retx-suppression-multiplier~NaN",
            "asf/v=5/probing-interval~999",
            "asf/v=5/max-timeouts~-1",
            "asf/v=5/probing-interval~2000/measurements-lifetime~2000",
            "multicast/v=5/retx-suppression-max~5",
            "weighted/v=1/no-such~1",
            "access/v=1/retx-suppression-initial~10",
        ] {
            let result = insert(&mut table, &format!("{PREFIX}/{tail}"));
            assert!(matches!(result, Err(StrategyError::Parameters(_))), "{tail}: {result:?}");
        }
        assert!(table.instances.is_empty());
    }

    #[test]
    fn removed_instances_make_room_and_their_numbers_are_not_reused() {
        let (mut table, default) = StrategyTable::with_best_route();
        let name = |number: usize| {
            Name::from_uri(&format!(
                "{PREFIX}/best-route/v=5/retx-suppression-max~{}",
                100 + number
            ))
            .unwrap()
        };
        for number in 1..StrategyTable::INSTANCES_MAX {
            table.insert(name(number).as_ref()).unwrap();
        }
        let kept = table.insert(name(5).as_ref()).unwrap();
        let removed = table.insert(name(6).as_ref()).unwrap();
        assert_eq!(table.insert(name(5000).as_ref()), Err(StrategyError::TooMany));
        let version = table.version();
        table.retain(|id| id == default || id == kept);
        assert_ne!(table.version(), version);
        assert!(table.strategy(removed).is_none() && table.name(removed).is_none());
        for number in 5000..5000 + StrategyTable::INSTANCES_MAX - 2 {
            let id = table.insert(name(number).as_ref()).unwrap();
            assert!(table.strategy(id).is_some());
        }
        assert!(table.strategy(removed).is_none(), "its slot has another instance");
        assert_eq!(table.name(kept).unwrap(), name(5));
        assert!(table.strategy(default).is_some());
    }
}
