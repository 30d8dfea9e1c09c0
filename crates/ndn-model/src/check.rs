//! Decides a property of a model, trace by trace.
//!
//! A [`Runner`] simulates traces and may run on any thread. A [`Checker`] takes their values in order of
//! the trace number and says when there are enough: the result is the same at any number of threads.

use crate::engine::Engine;
use crate::file::Model;
use crate::property::{Property, Trace};
use crate::random::TraceRandom;
use crate::rare::{Splitter, Splitting};
use crate::smc::fixed::{clopper_pearson, okamoto_interval, okamoto_sample_size};
use crate::smc::mean::BoundedSample;
use crate::smc::quantile::{dkw_interval, dkw_sample_size, sample_quantile};
use crate::smc::sequence::BetaBinomialSequence;
use crate::smc::splitting::SplittingEstimate;
use crate::smc::test::{Hypotheses, SamplingPlan, Sprt};
use crate::smc::{Interval, MethodError, Verdict, require_unit};

/// Simulates the traces of a model and evaluates a property's observation on each.
#[derive(Debug)]
pub struct Runner<'m> {
    model: &'m Model,
    property: &'m Property,
    traces: Traces<'m>,
    seed: u64,
}

/// The traces of an observation.
#[derive(Debug)]
enum Traces<'m> {
    /// One.
    Plain(Engine<'m>),
    /// Those of a replication of importance splitting.
    Split(Box<Splitter<'m>>),
}

impl<'m> Runner<'m> {
    /// A runner of traces under `seed`.
    #[must_use]
    pub fn new(model: &'m Model, property: &'m Property, seed: u64) -> Self {
        Self { model, property, traces: Traces::Plain(Engine::new(&model.network)), seed }
    }

    /// A runner whose observations are replications of importance splitting.
    #[must_use]
    pub fn splitting(
        model: &'m Model,
        property: &'m Property,
        seed: u64,
        splitting: Splitting,
    ) -> Self {
        let splitter = Splitter::new(model, property, splitting);
        Self { model, property, traces: Traces::Split(Box::new(splitter)), seed }
    }

    /// The observation of one trace: 1 or 0 for a formula, else the number. Of a replication: an estimate of its mean, or of
    /// the mean of its complement if the formula is [rarely false](Property::is_rarely_false).
    pub fn observe(&mut self, trace: u32) -> f64 {
        let random = TraceRandom::new(self.seed, trace);
        match &mut self.traces {
            Traces::Plain(engine) => {
                let result = engine.run(random, self.model.horizon_ps);
                self.property.observe(&Trace::new(self.model, result))
            }
            Traces::Split(splitter) => splitter.replicate(random),
        }
    }
}

/// A method, with what it needs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Method {
    /// Beta-binomial confidence sequence: stops when decided, or when the interval has this width.
    ConfidenceSequence {
        /// Half of the width at which an estimate stops.
        precision: f64,
    },
    /// Okamoto's number of traces.
    Okamoto {
        /// Largest distance of the estimate.
        precision: f64,
    },
    /// Clopper–Pearson after a fixed number of traces.
    ClopperPearson {
        /// Number of traces.
        traces: u32,
    },
    /// Wald's test of P >= threshold + margin against P <= threshold - margin.
    Sprt {
        /// Half of the indifference region.
        margin: f64,
    },
    /// A single sampling plan for the same hypotheses.
    SamplingPlan {
        /// Half of the indifference region.
        margin: f64,
    },
    /// Betting confidence sequence for a mean between bounds.
    Betting {
        /// Half of the width at which it stops.
        precision: f64,
        /// Bounds of the observed number.
        bounds: (f64, f64),
    },
    /// Empirical Bernstein after a fixed number of traces, for a mean between bounds.
    EmpiricalBernstein {
        /// Number of traces.
        traces: u32,
        /// Bounds of the observed number.
        bounds: (f64, f64),
    },
    /// Dvoretzky–Kiefer–Wolfowitz after a fixed number of traces, for a quantile.
    Dkw {
        /// Number of traces; the smallest that bounds the quantile if none.
        traces: Option<u32>,
    },
    /// Importance splitting, for rare events: observations are replications.
    Splitting {
        /// Number of replications.
        replications: u32,
    },
}

impl Method {
    /// The assumptions of the method, and the coverage of its interval.
    #[must_use]
    pub const fn caveat(self) -> &'static str {
        match self {
            Self::ConfidenceSequence { .. } => {
                "beta-binomial confidence sequence: traces independent; covers at all numbers of traces at once"
            }
            Self::Okamoto { .. } => {
                "Okamoto bound: traces independent, their number fixed beforehand"
            }
            Self::ClopperPearson { .. } => {
                "Clopper-Pearson: traces independent, their number fixed beforehand; exact"
            }
            Self::Sprt { .. } => {
                "SPRT: traces independent; errors as stated outside the indifference region, none inside"
            }
            Self::SamplingPlan { .. } => {
                "single sampling plan: traces independent; errors as stated outside the indifference region"
            }
            Self::Betting { .. } => {
                "betting: traces independent, values within the bounds; covers at all numbers of traces at once"
            }
            Self::EmpiricalBernstein { .. } => {
                "empirical Bernstein: traces independent, values within the bounds, number fixed beforehand"
            }
            Self::Dkw { .. } => {
                "DKW: traces independent, their number fixed beforehand; all quantiles at once"
            }
            Self::Splitting { .. } => {
                "importance splitting: replications independent, their number fixed beforehand; unbiased; the interval covers \
                 as their mean is nearly normal (Student), and always if their standard error is above a tenth of it"
            }
        }
    }
}

/// Why a property cannot be checked in a way.
#[derive(Debug, Clone, PartialEq)]
pub enum CheckError {
    /// The method does not answer the property.
    Mismatch(&'static str),
    /// A parameter of the method.
    Method(MethodError),
    /// A trace has no value, for example the mean latency where nothing was satisfied.
    NoValue {
        /// The trace.
        trace: u32,
    },
}

impl core::fmt::Display for CheckError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Mismatch(reason) => f.write_str(reason),
            Self::Method(error) => write!(f, "{error}"),
            Self::NoValue { trace } => write!(
                f,
                "trace {trace} has no value: nothing to take it of (no packet, or none satisfied)"
            ),
        }
    }
}

impl core::error::Error for CheckError {}

impl From<MethodError> for CheckError {
    fn from(error: MethodError) -> Self {
        Self::Method(error)
    }
}

/// The answer to a property.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckResult {
    /// The decision, for P >= threshold.
    pub verdict: Option<Verdict>,
    /// The point estimate.
    pub estimate: f64,
    /// The interval, where the method has one.
    pub interval: Option<Interval>,
    /// Traces used.
    pub traces: u32,
    /// Whether the method came to its end; else the limit of traces ended it.
    pub is_complete: bool,
    /// The assumptions of the method, and the coverage of the interval.
    pub caveat: &'static str,
}

/// Takes observations in order of the trace number until the method has enough.
#[derive(Debug, Clone)]
pub struct Checker {
    method: Method,
    error: f64,
    /// Threshold of P >= θ, and level of a quantile.
    threshold: Option<f64>,
    level: f64,
    /// Whether replications estimate the complement.
    is_complement: bool,
    sequence: BetaBinomialSequence,
    sprt: Option<Sprt>,
    plan: Option<SamplingPlan>,
    sample: Option<BoundedSample>,
    values: Vec<f64>,
    /// Traces of a method with a fixed number.
    fixed: Option<u64>,
    sum: f64,
    count: u32,
    is_complete: bool,
}

impl Checker {
    /// A checker of `property` by `method`, wrong with probability at most `error`.
    ///
    /// # Errors
    /// A method that does not answer the property, or a parameter out of range.
    pub fn new(property: &Property, method: Method, error: f64) -> Result<Self, CheckError> {
        let (is_formula, threshold, level) = match property {
            Property::ProbabilityAtLeast(_, threshold) => (true, Some(*threshold), 0.5),
            Property::Probability(_) => (true, None, 0.5),
            Property::Expectation(_) => (false, None, 0.5),
            Property::Quantile(level, _) => (false, None, *level),
        };
        let is_quantile = matches!(property, Property::Quantile(..));
        let mut checker = Self {
            method,
            error,
            threshold,
            level,
            is_complement: property.is_rarely_false(),
            sequence: BetaBinomialSequence::new(error)?,
            sprt: None,
            plan: None,
            sample: None,
            values: Vec::new(),
            fixed: None,
            sum: 0.0,
            count: 0,
            is_complete: false,
        };
        let fits = match method {
            Method::ConfidenceSequence { .. }
            | Method::Okamoto { .. }
            | Method::ClopperPearson { .. } => is_formula,
            Method::Sprt { .. } | Method::SamplingPlan { .. } => threshold.is_some(),
            Method::Betting { .. } | Method::EmpiricalBernstein { .. } => {
                !is_formula && !is_quantile
            }
            Method::Dkw { .. } => is_quantile,
            Method::Splitting { .. } => is_formula || property.natural_bounds() == Some((0.0, 1.0)),
        };
        if !fits {
            return Err(CheckError::Mismatch(
                "this method does not answer this property: formulas by confidence sequence, Okamoto or \
                 Clopper-Pearson, and with a threshold by SPRT or sampling plan; expectations by betting or \
                 empirical Bernstein; quantiles by DKW; formulas and E(share(..)) by splitting",
            ));
        }
        checker.prepare()?;
        Ok(checker)
    }

    fn prepare(&mut self) -> Result<(), CheckError> {
        let hypotheses = |margin: f64| {
            let threshold = self.threshold.unwrap_or(0.5);
            let accept = require_unit("threshold plus margin", threshold + margin)?;
            let reject = require_unit("threshold minus margin", threshold - margin)?;
            Hypotheses::new(accept, reject, self.error, self.error)
        };
        match self.method {
            Method::ConfidenceSequence { precision } => {
                require_unit("precision", precision)?;
            }
            Method::Okamoto { precision } => {
                self.fixed = Some(okamoto_sample_size(precision, self.error)?)
            }
            Method::ClopperPearson { traces } => self.fixed = Some(u64::from(traces)),
            Method::Sprt { margin } => self.sprt = Some(Sprt::new(hypotheses(margin)?)),
            Method::SamplingPlan { margin } => {
                let plan = SamplingPlan::smallest_extensible(hypotheses(margin)?);
                self.fixed = Some(plan.trials);
                self.plan = Some(plan);
            }
            Method::Betting { precision, bounds } => {
                if !(precision.is_finite() && precision > 0.0) {
                    let accepted = "finite and above zero";
                    return Err(MethodError::OutOfRange {
                        name: "precision",
                        value: precision,
                        accepted,
                    }
                    .into());
                }
                self.sample = Some(BoundedSample::new(bounds.0, bounds.1)?);
            }
            Method::EmpiricalBernstein { traces, bounds } => {
                self.sample = Some(BoundedSample::new(bounds.0, bounds.1)?);
                self.fixed = Some(u64::from(traces));
            }
            Method::Dkw { traces } => {
                let least = dkw_sample_size(self.level, self.error)?;
                self.fixed = Some(traces.map_or(least, u64::from));
            }
            Method::Splitting { replications } => {
                if replications < 2 {
                    let (name, value) = ("traces", f64::from(replications));
                    let accepted = "at least 2";
                    return Err(MethodError::OutOfRange { name, value, accepted }.into());
                }
                self.fixed = Some(u64::from(replications));
            }
        }
        if self.fixed == Some(0) {
            return Err(MethodError::OutOfRange {
                name: "traces",
                value: 0.0,
                accepted: "at least 1",
            }
            .into());
        }
        Ok(())
    }

    /// Traces that the method needs, if that is known beforehand.
    #[must_use]
    pub const fn traces_needed(&self) -> Option<u64> {
        self.fixed
    }

    /// Traces so far: the number of the next one.
    #[must_use]
    pub const fn traces(&self) -> u32 {
        self.count
    }

    /// Whether the method has enough.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Takes the observation of the next trace; returns whether the method has enough. Later ones are
    /// ignored.
    ///
    /// # Errors
    /// An observation that is not a number, or outside the bounds of the method.
    pub fn observe(&mut self, value: f64) -> Result<bool, CheckError> {
        if self.is_complete {
            return Ok(true);
        }
        if value.is_nan() {
            return Err(CheckError::NoValue { trace: self.count });
        }
        self.sum += value;
        self.count += 1;
        let success = value > 0.5;
        self.sequence.observe(success);
        if let Some(sample) = &mut self.sample {
            sample.observe(value)?;
        }
        if matches!(self.method, Method::Dkw { .. } | Method::Splitting { .. }) {
            self.values.push(value);
        }
        self.is_complete = match self.method {
            Method::ConfidenceSequence { precision } => self.is_sequence_complete(precision),
            Method::Sprt { .. } => {
                self.sprt.as_mut().is_some_and(|t| t.observe(success) != Verdict::Undecided)
            }
            Method::Betting { precision, .. } => {
                self.is_inspection() && self.is_narrow(precision)?
            }
            Method::Okamoto { .. }
            | Method::ClopperPearson { .. }
            | Method::SamplingPlan { .. }
            | Method::EmpiricalBernstein { .. }
            | Method::Dkw { .. }
            | Method::Splitting { .. } => {
                self.fixed.is_some_and(|traces| u64::from(self.count) >= traces)
            }
        };
        Ok(self.is_complete)
    }

    /// Betting bounds cost time proportional to the sample: computed when it has grown by a twentieth.
    const fn is_inspection(&self) -> bool {
        let step = self.count / 20;
        step == 0 || self.count.is_multiple_of(step.next_power_of_two())
    }

    fn is_narrow(&self, precision: f64) -> Result<bool, CheckError> {
        let Some(sample) = &self.sample else { return Ok(false) };
        Ok(sample.betting(self.error)?.width() <= 2.0 * precision)
    }

    fn is_sequence_complete(&mut self, precision: f64) -> bool {
        match self.threshold {
            Some(threshold) => self.sequence.decide_at_least(threshold) != Verdict::Undecided,
            None => self.sequence.interval().width() <= 2.0 * precision,
        }
    }

    /// Returns the answer as of the traces so far.
    ///
    /// # Errors
    /// A parameter of the method out of range.
    pub fn answer(&self) -> Result<CheckResult, CheckError> {
        let (successes, trials) = (self.sequence.successes(), self.sequence.trials());
        let mut sequence = self.sequence;
        let interval = match self.method {
            Method::ConfidenceSequence { .. } => Some(sequence.interval()),
            // Before the fixed number of traces, an interval would not cover.
            Method::Okamoto { precision } if self.is_complete => {
                Some(okamoto_interval(successes, trials, precision))
            }
            Method::ClopperPearson { .. } if self.is_complete => {
                Some(clopper_pearson(successes, trials, self.error))
            }
            Method::Betting { .. } => {
                self.sample.as_ref().map(|s| s.betting(self.error)).transpose()?
            }
            Method::EmpiricalBernstein { .. } if self.is_complete => {
                self.sample.as_ref().map(|s| s.empirical_bernstein(self.error)).transpose()?
            }
            Method::Dkw { .. } if self.is_complete => {
                Some(dkw_interval(&self.sorted(), self.level, self.error)?)
            }
            Method::Splitting { .. } if self.is_complete => {
                let own = SplittingEstimate::of(self.values.clone(), self.error)?.interval;
                let complement = Interval::new(1.0 - own.high, 1.0 - own.low);
                Some(if self.is_complement { complement } else { own })
            }
            Method::Okamoto { .. }
            | Method::ClopperPearson { .. }
            | Method::EmpiricalBernstein { .. }
            | Method::Dkw { .. }
            | Method::Splitting { .. }
            | Method::Sprt { .. }
            | Method::SamplingPlan { .. } => None,
        };
        let verdict = self.threshold.map(|threshold| match self.method {
            Method::Sprt { .. } => self.sprt.map_or(Verdict::Undecided, |test| test.verdict()),
            Method::SamplingPlan { .. } if self.is_complete => {
                self.plan.map_or(Verdict::Undecided, |plan| plan.verdict(successes))
            }
            Method::ConfidenceSequence { .. }
            | Method::Okamoto { .. }
            | Method::ClopperPearson { .. }
            | Method::SamplingPlan { .. }
            | Method::Betting { .. }
            | Method::EmpiricalBernstein { .. }
            | Method::Dkw { .. }
            | Method::Splitting { .. } => {
                interval.map_or(Verdict::Undecided, |interval| interval.decide_at_least(threshold))
            }
        });
        let estimate = if matches!(self.method, Method::Dkw { .. }) {
            sample_quantile(&self.sorted(), self.level).unwrap_or(f64::NAN)
        } else if self.is_complement && matches!(self.method, Method::Splitting { .. }) {
            1.0 - self.sum / f64::from(self.count)
        } else {
            self.sum / f64::from(self.count)
        };
        let (traces, is_complete) = (self.count, self.is_complete);
        Ok(CheckResult {
            verdict,
            estimate,
            interval,
            traces,
            is_complete,
            caveat: self.method.caveat(),
        })
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::file::tests::EXAMPLE;

    fn check(model: &Model, text: &str, method: Method) -> CheckResult {
        let property = Property::parse(text, model).unwrap();
        let mut runner = Runner::new(model, &property, 1);
        let mut checker = Checker::new(&property, method, 0.01).unwrap();
        while checker.traces() < 4000 {
            let value = runner.observe(checker.traces());
            if checker.observe(value).unwrap() {
                break;
            }
        }
        checker.answer().unwrap()
    }

    /// A small model of one worker at the edge: some traces lose packets.
    fn edge() -> Model {
        let text = EXAMPLE
            .replace("workers = 2", "workers = 1\nnic-capacity = 24")
            .replace("10 ms", "200 us")
            .replace("1 ms", "20 us")
            .replace("\"1 M/s\"", "\"1.3 M/s\"");
        Model::parse(&text).unwrap()
    }

    #[test]
    fn methods_agree_on_a_probability() {
        let model = edge();
        let text = "P(all(satisfied))";
        let sequence = check(&model, text, Method::ConfidenceSequence { precision: 0.06 });
        assert!(
            sequence.is_complete && sequence.estimate > 0.05 && sequence.estimate < 0.95,
            "{sequence:?}"
        );
        let okamoto = check(&model, text, Method::Okamoto { precision: 0.05 });
        assert_eq!(okamoto.traces, 1060);
        let exact = check(&model, text, Method::ClopperPearson { traces: 2000 });
        for answer in [&sequence, &okamoto] {
            assert!(answer.interval.unwrap().contains(exact.estimate), "{answer:?} {exact:?}");
        }
        let (above, below) = (exact.estimate + 0.15, exact.estimate - 0.15);
        for (threshold, verdict) in [(above, Verdict::Fails), (below, Verdict::Holds)] {
            let text = format!("{text} >= {threshold:.3}");
            for method in [
                Method::ConfidenceSequence { precision: 0.01 },
                Method::Sprt { margin: 0.05 },
                Method::SamplingPlan { margin: 0.05 },
            ] {
                let answer = check(&model, &text, method);
                assert_eq!(answer.verdict, Some(verdict), "{method:?} {answer:?}");
            }
        }
    }

    #[test]
    fn expectations_and_quantiles_have_intervals() {
        let model = edge();
        let text = "E(share(satisfied))";
        let betting = check(&model, text, Method::Betting { precision: 0.01, bounds: (0.0, 1.0) });
        let bounds = (0.0, 1.0);
        let bernstein = check(&model, text, Method::EmpiricalBernstein { traces: 500, bounds });
        assert!(betting.is_complete && betting.interval.unwrap().width() <= 0.02);
        assert!(bernstein.interval.unwrap().contains(betting.estimate));
        let quantile =
            check(&model, "Q(0.5, quantile(latency, 0.9))", Method::Dkw { traces: Some(200) });
        assert!(quantile.interval.unwrap().contains(quantile.estimate), "{quantile:?}");
        assert!(quantile.estimate > 20e6, "two links of 20 us: {quantile:?}");
    }

    #[test]
    fn method_that_cannot_decide_the_property_is_rejected() {
        let model = edge();
        let new = |text: &str, method| {
            Checker::new(&Property::parse(text, &model).unwrap(), method, 0.01).map(|_| ())
        };
        let sprt = Method::Sprt { margin: 0.01 };
        assert!(matches!(new("P(all(satisfied))", sprt), Err(CheckError::Mismatch(_))));
        assert!(matches!(new("E(throughput)", sprt), Err(CheckError::Mismatch(_))));
        let wide = Method::Sprt { margin: 0.2 };
        assert!(matches!(new("P(all(satisfied)) >= 0.9", wide), Err(CheckError::Method(_))));
        assert!(new("P(all(satisfied)) >= 0.9", sprt).is_ok());
    }

    #[test]
    fn an_interrupted_fixed_size_method_gives_no_interval() {
        let model = edge();
        let property = Property::parse("P(all(satisfied))", &model).unwrap();
        let mut checker =
            Checker::new(&property, Method::ClopperPearson { traces: 10 }, 0.05).unwrap();
        checker.observe(1.0).unwrap();
        let answer = checker.answer().unwrap();
        assert!(!answer.is_complete && answer.interval.is_none());
        assert!(matches!(checker.observe(f64::NAN), Err(CheckError::NoValue { trace: 1 })));
    }
}
