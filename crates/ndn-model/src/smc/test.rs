//! Decisions about P >= θ.

use libm::{log, sqrt};

use super::{MethodError, Verdict, require_unit};
use crate::special::{binomial_cdf, normal_quantile};

/// The hypotheses "P >= `accept`" and "P <= `reject`", and how often either is decided wrongly.
///
/// Between the two lies the indifference region: there either answer counts as right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hypotheses {
    accept: f64,
    reject: f64,
    false_reject: f64,
    false_accept: f64,
}

impl Hypotheses {
    /// Decides between P >= `accept` and P <= `reject`; the first is rejected wrongly with at most
    /// `false_reject`, the second accepted wrongly with at most `false_accept`.
    ///
    /// # Errors
    /// A parameter outside (0, 1), or `accept` not above `reject`.
    pub fn new(
        accept: f64,
        reject: f64,
        false_reject: f64,
        false_accept: f64,
    ) -> Result<Self, MethodError> {
        require_unit("accept", accept)?;
        require_unit("reject", reject)?;
        require_unit("false_reject", false_reject)?;
        require_unit("false_accept", false_accept)?;
        if accept <= reject {
            let accepted = "above the probability to reject at";
            return Err(MethodError::OutOfRange { name: "accept", value: accept, accepted });
        }
        Ok(Self { accept, reject, false_reject, false_accept })
    }
}

/// Wald's sequential probability ratio test (Annals of Mathematical Statistics 1945).
///
/// Stops as soon as the likelihood ratio leaves [`false_accept`, 1 / `false_reject`]: with these bounds
/// (Ville's inequality) both error probabilities hold strictly, not only Wald's approximation of
/// them. Assumes independent traces, taken in order; says nothing inside the indifference region.
#[derive(Debug, Clone, Copy)]
pub struct Sprt {
    /// Change of the log ratio (reject over accept) with a success and with a failure.
    success: f64,
    failure: f64,
    reject_at: f64,
    accept_at: f64,
    successes: u64,
    failures: u64,
    verdict: Verdict,
}

impl Sprt {
    /// A test that has seen no trace.
    #[must_use]
    pub fn new(hypotheses: Hypotheses) -> Self {
        let Hypotheses { accept, reject, false_reject, false_accept } = hypotheses;
        Self {
            success: log(reject / accept),
            failure: log((1.0 - reject) / (1.0 - accept)),
            reject_at: -log(false_reject),
            accept_at: log(false_accept),
            successes: 0,
            failures: 0,
            verdict: Verdict::Undecided,
        }
    }

    /// Takes the next trace into account. A decision is final: later traces do not change it.
    pub fn observe(&mut self, success: bool) -> Verdict {
        if self.verdict != Verdict::Undecided {
            return self.verdict;
        }
        if success {
            self.successes += 1;
        } else {
            self.failures += 1;
        }
        let ratio = self.successes as f64 * self.success + self.failures as f64 * self.failure;
        if ratio >= self.reject_at {
            self.verdict = Verdict::Fails;
        } else if ratio <= self.accept_at {
            self.verdict = Verdict::Holds;
        }
        self.verdict
    }

    /// Traces that led to the verdict.
    #[must_use]
    pub const fn trials(&self) -> u64 {
        self.successes + self.failures
    }

    /// The decision so far.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }
}

/// A single sampling plan: run `trials` traces, accept if more than `threshold` satisfy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SamplingPlan {
    /// Number of traces.
    pub trials: u64,
    /// The property is accepted when more traces than this satisfy it.
    pub threshold: u64,
}

impl SamplingPlan {
    /// The plan with the fewest traces whose exact binomial error probabilities keep to `hypotheses`
    /// (Grubbs: "On designing single sampling inspection plans", 1949).
    #[must_use]
    pub fn smallest(hypotheses: Hypotheses) -> Self {
        PlanSearch::below_smallest(hypotheses).first_plan()
    }

    /// The plan with the fewest traces to which one more may be added: that number has a plan too.
    ///
    /// Exact binomial error probabilities oscillate with the threshold, so the [`smallest`](Self::smallest)
    /// number may be an isolated one (0.96 against 0.94 at 1 %: 2546, after which the next is the
    /// often quoted 2564). Traces that come from several machines rarely number exactly as planned.
    #[must_use]
    pub fn smallest_extensible(hypotheses: Hypotheses) -> Self {
        let mut search = PlanSearch::below_smallest(hypotheses);
        let mut previous = search.next_plan();
        loop {
            let next = search.next_plan();
            if let (Some(plan), Some(_)) = (previous, next) {
                return plan;
            }
            previous = next;
        }
    }

    /// The decision after all traces.
    #[must_use]
    pub const fn verdict(self, successes: u64) -> Verdict {
        if successes > self.threshold { Verdict::Holds } else { Verdict::Fails }
    }
}

/// Walks over numbers of traces, each with the largest threshold that keeps `false_reject`.
#[derive(Debug)]
struct PlanSearch {
    hypotheses: Hypotheses,
    next: SamplingPlan,
}

impl PlanSearch {
    fn below_smallest(hypotheses: Hypotheses) -> Self {
        let Hypotheses { accept, reject, false_reject, false_accept } = hypotheses;
        let spread = |p: f64| sqrt(p * (1.0 - p));
        let root = (normal_quantile(1.0 - false_reject).max(0.0) * spread(accept)
            + normal_quantile(1.0 - false_accept).max(0.0) * spread(reject))
            / (accept - reject);
        // Half of what the normal approximation asks for.
        let trials = ((0.5 * root * root) as u64).max(1);
        let threshold = ((trials as f64 * reject) as u64).saturating_sub(1);
        Self { hypotheses, next: SamplingPlan { trials, threshold } }
    }

    fn first_plan(mut self) -> SamplingPlan {
        loop {
            if let Some(plan) = self.next_plan() {
                return plan;
            }
        }
    }

    /// The plan with the next number of traces, if there is one; the number goes up by one.
    fn next_plan(&mut self) -> Option<SamplingPlan> {
        let Hypotheses { accept, reject, false_reject, false_accept } = self.hypotheses;
        let SamplingPlan { trials, mut threshold } = self.next;
        while threshold > 0 && binomial_cdf(threshold, trials, accept) > false_reject {
            threshold -= 1;
        }
        while threshold + 1 < trials && binomial_cdf(threshold + 1, trials, accept) <= false_reject
        {
            threshold += 1;
        }
        self.next = SamplingPlan { trials: trials + 1, threshold };
        let keeps = binomial_cdf(threshold, trials, accept) <= false_reject
            && 1.0 - binomial_cdf(threshold, trials, reject) <= false_accept;
        keeps.then_some(SamplingPlan { trials, threshold })
    }
}

/// Number of consecutive traces that have to satisfy the property to conclude P >= `probability` with `confidence`: the
/// smallest n with `probability`^n <= 1 - `confidence`.
///
/// # Errors
/// Either argument outside (0, 1).
pub fn runs_without_failure(probability: f64, confidence: f64) -> Result<u64, MethodError> {
    require_unit("probability", probability)?;
    require_unit("confidence", confidence)?;
    Ok((log(1.0 - confidence) / log(probability)).ceil() as u64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::random::{StreamId, TraceRandom};

    #[test]
    fn sampling_plan_is_that_of_the_literature() {
        let hypotheses = Hypotheses::new(0.96, 0.94, 0.01, 0.01).unwrap();
        // Checked by summing the binomial probabilities: 2546 traces keep both errors as well.
        let smallest = SamplingPlan { trials: 2546, threshold: 2420 };
        assert_eq!(SamplingPlan::smallest(hypotheses), smallest);
        let plan = SamplingPlan::smallest_extensible(hypotheses);
        assert_eq!(plan, SamplingPlan { trials: 2564, threshold: 2437 });
        assert_eq!(plan.verdict(2437), Verdict::Fails);
        assert_eq!(plan.verdict(2438), Verdict::Holds);
    }

    #[test]
    fn runs_without_failure_are_those_of_the_literature() {
        assert_eq!(runs_without_failure(0.999, 0.99).unwrap(), 4603);
        assert!(runs_without_failure(1.0, 0.99).is_err());
    }

    #[test]
    fn contradictory_hypotheses_are_refused() {
        assert!(Hypotheses::new(0.9, 0.95, 0.01, 0.01).is_err());
        assert!(Hypotheses::new(0.9, 0.8, 0.0, 0.01).is_err());
        assert!(Hypotheses::new(f64::NAN, 0.8, 0.01, 0.01).is_err());
    }

    #[test]
    fn sprt_errs_no_more_often_than_stated() {
        for (accept, reject) in [(0.96, 0.94), (0.999, 0.99), (0.01, 0.001), (0.55, 0.45)] {
            let hypotheses = Hypotheses::new(accept, reject, 0.05, 0.05).unwrap();
            for (p, wrong) in [(accept, Verdict::Fails), (reject, Verdict::Holds)] {
                let errors = (0..400u32)
                    .filter(|trace| {
                        let mut draw = TraceRandom::new(1, *trace).draw(StreamId(0), 0);
                        let mut test = Sprt::new(hypotheses);
                        while test.observe(draw.unit() < p) == Verdict::Undecided {}
                        test.verdict() == wrong
                    })
                    .count();
                // Four standard deviations above 5 % of 400.
                assert!(errors <= 37, "{errors} wrong of 400 at {p}");
            }
        }
    }
}
