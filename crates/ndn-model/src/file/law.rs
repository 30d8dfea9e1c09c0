//! Distributions of durations in model files.

use core::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use super::quantity::{Duration, FewCount, Ratio};
use crate::distribution::{Distribution, ErlangBranch, QuantileTable};
use crate::units;

/// A distribution of durations: `"700 ns"`, or a table with one family.
#[derive(Debug, Clone)]
pub(super) struct DurationLaw(pub(super) Distribution);

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct LawTable {
    exponential: Option<Duration>,
    uniform: Option<[Duration; 2]>,
    weibull: Option<ShapeScale>,
    gamma: Option<ShapeScale>,
    lognormal: Option<MedianSigma>,
    hyper_erlang: Option<Vec<BranchTable>>,
    quantiles: Option<Vec<Duration>>,
    tail: Option<TailTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShapeScale {
    shape: f64,
    scale: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MedianSigma {
    median: Duration,
    sigma: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BranchTable {
    weight: Ratio,
    phases: FewCount,
    mean: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TailTable {
    probability: Ratio,
    mean: Duration,
}

impl<'de> Deserialize<'de> for DurationLaw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LawVisitor;
        impl<'de> Visitor<'de> for LawVisitor {
            type Value = Distribution;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as \"700 ns\", or a table such as { exponential = \"700 ns\" }")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Distribution, E> {
                units::duration_ps(text).map(Distribution::Constant).map_err(E::custom)
            }

            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Distribution, M::Error> {
                let table = LawTable::deserialize(de::value::MapAccessDeserializer::new(map))?;
                table.distribution().map_err(de::Error::custom)
            }
        }
        let law = deserializer.deserialize_any(LawVisitor)?;
        match law.fault() {
            Some(fault) => Err(de::Error::custom(fault)),
            None => Ok(Self(law)),
        }
    }
}

impl LawTable {
    fn distribution(self) -> Result<Distribution, String> {
        let tail = self.tail.map_or((0.0, 0.0), |tail| (tail.probability.0, tail.mean.0));
        let has_quantiles = self.quantiles.is_some();
        let mut laws = Vec::new();
        laws.extend(self.exponential.map(|mean| Distribution::Exponential { mean: mean.0 }));
        laws.extend(
            self.uniform.map(|[low, high]| Distribution::Uniform { low: low.0, high: high.0 }),
        );
        laws.extend(
            self.weibull.map(|w| Distribution::Weibull { shape: w.shape, scale: w.scale.0 }),
        );
        laws.extend(self.gamma.map(|g| Distribution::Gamma { shape: g.shape, scale: g.scale.0 }));
        laws.extend(
            self.lognormal
                .map(|l| Distribution::Lognormal { mu: libm::log(l.median.0), sigma: l.sigma }),
        );
        laws.extend(self.hyper_erlang.map(|branches| {
            let branch = |b: &BranchTable| ErlangBranch {
                weight: b.weight.0,
                phases: b.phases.0 as u32,
                mean: b.mean.0,
            };
            Distribution::HyperErlang(branches.iter().map(branch).collect())
        }));
        laws.extend(self.quantiles.map(|quantiles| {
            Distribution::Empirical(QuantileTable {
                quantiles: quantiles.iter().map(|q| q.0).collect(),
                tail_probability: tail.0,
                tail_mean: tail.1,
            })
        }));
        if tail.0 > 0.0 && !has_quantiles {
            return Err("a tail belongs to quantiles".into());
        }
        match (laws.pop(), laws.is_empty()) {
            (Some(law), true) => Ok(law),
            (None, _) => {
                Err("no family is given: exponential, uniform, weibull, gamma, lognormal, \
                              hyper-erlang or quantiles"
                    .into())
            }
            (Some(_), false) => Err("more than one family is given".into()),
        }
    }
}

/// A distribution as a model file writes it.
#[must_use]
pub fn law(distribution: &Distribution) -> String {
    let ns = |ps: f64| format!("\"{:.3} ns\"", ps / 1e3);
    match distribution {
        Distribution::Constant(value) => ns(*value),
        Distribution::Exponential { mean } => format!("{{ exponential = {} }}", ns(*mean)),
        Distribution::Uniform { low, high } => {
            format!("{{ uniform = [{}, {}] }}", ns(*low), ns(*high))
        }
        Distribution::Weibull { shape, scale } => {
            format!("{{ weibull = {{ shape = {shape:?}, scale = {} }} }}", ns(*scale))
        }
        Distribution::Gamma { shape, scale } => {
            format!("{{ gamma = {{ shape = {shape:?}, scale = {} }} }}", ns(*scale))
        }
        Distribution::Lognormal { mu, sigma } => {
            format!("{{ lognormal = {{ median = {}, sigma = {sigma:?} }} }}", ns(mu.exp()))
        }
        Distribution::HyperErlang(branches) => {
            let branch = |b: &ErlangBranch| {
                format!(
                    "{{ weight = {:?}, phases = {}, mean = {} }}",
                    b.weight,
                    b.phases,
                    ns(b.mean)
                )
            };
            let branches: Vec<String> = branches.iter().map(branch).collect();
            format!("{{ hyper-erlang = [{}] }}", branches.join(", "))
        }
        Distribution::Empirical(table) => {
            let quantiles: Vec<String> = table.quantiles.iter().map(|q| ns(*q)).collect();
            format!(
                "{{ quantiles = [{}], tail = {{ probability = {:?}, mean = {} }} }}",
                quantiles.join(", "),
                table.tail_probability,
                ns(table.tail_mean)
            )
        }
    }
}
