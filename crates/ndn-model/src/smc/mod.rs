//! Statistical model checking: estimates and decisions from independent traces.
//!
//! Every method assumes **independent, identically distributed observations**: one per trace, or one
//! batch mean per trace. The packets of one trace share queues and are not independent; a method that
//! is fed with packets covers nothing.
//!
//! | module | question | valid |
//! |---|---|---|
//! | [`fixed`] | P with a sample size fixed beforehand: Okamoto/Chernoff, Clopper–Pearson | at that size only |
//! | [`mod@test`] | is P >= θ? SPRT, single sampling plan, runs without failure | SPRT: whenever it stops |
//! | [`sequence`] | P, at any number of interim analyses: beta-binomial confidence sequence (the default) | at every size at once |
//! | [`quantile`] | quantiles: Dvoretzky–Kiefer–Wolfowitz, order statistics | at a fixed size |
//! | [`mean`] | the mean of bounded observations: empirical Bernstein, betting | fixed size; at every size |
//! | [`splitting`] | the probability of rare events: fixed-effort importance splitting | asymptotically |

pub mod fixed;
pub mod mean;
pub mod quantile;
pub mod sequence;
pub mod splitting;
pub mod test;

/// A confidence interval: contains the true value with the stated confidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// The interval from `low` to `high`.
    #[must_use]
    pub const fn new(low: f64, high: f64) -> Self {
        Self { low, high }
    }

    /// Whether `value` lies inside or on an end.
    #[must_use]
    pub fn contains(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Upper end minus lower end.
    #[must_use]
    pub fn width(self) -> f64 {
        self.high - self.low
    }

    /// The verdict of the interval on "the value is at least `threshold`".
    #[must_use]
    pub fn decide_at_least(self, threshold: f64) -> Verdict {
        if self.low >= threshold {
            Verdict::Holds
        } else if self.high < threshold {
            Verdict::Fails
        } else {
            Verdict::Undecided
        }
    }
}

/// The answer to a question about a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The property holds, with the stated error probability.
    Holds,
    /// The property does not hold, with the stated error probability.
    Fails,
    /// The observations do not decide it.
    Undecided,
}

/// Why a method cannot be applied.
#[derive(Debug, Clone, PartialEq)]
pub enum MethodError {
    /// A parameter is outside the range that the method accepts.
    OutOfRange {
        /// Name of the parameter.
        name: &'static str,
        /// Its value.
        value: f64,
        /// The accepted range.
        accepted: &'static str,
    },
}

impl core::fmt::Display for MethodError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self::OutOfRange { name, value, accepted } = self;
        write!(f, "{name} = {value} is out of range: {accepted}")
    }
}

impl core::error::Error for MethodError {}

/// Checks that `value` lies strictly between 0 and 1.
pub(crate) fn require_unit(name: &'static str, value: f64) -> Result<f64, MethodError> {
    if value > 0.0 && value < 1.0 {
        Ok(value)
    } else {
        Err(MethodError::OutOfRange { name, value, accepted: "strictly between 0 and 1" })
    }
}
