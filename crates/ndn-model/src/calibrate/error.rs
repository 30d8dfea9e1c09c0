//! Reasons why a campaign cannot be calibrated.

/// A reason why a campaign cannot be calibrated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CalibrateError {
    /// Too few runs for the number of effects.
    TooFewRuns {
        /// Usable runs.
        runs: usize,
        /// Runs needed at least.
        needed: usize,
    },
    /// No run has service times.
    NotTraced,
    /// The runs do not determine the effects, or a cost is not positive.
    Undetermined(String),
}

impl core::fmt::Display for CalibrateError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::TooFewRuns { runs, needed } => {
                write!(f, "the campaign has {runs} usable runs, a calibration needs {needed}")
            }
            Self::NotTraced => f.write_str("no run of the campaign has service times"),
            Self::Undetermined(reason) => f.write_str(reason),
        }
    }
}

impl core::error::Error for CalibrateError {}
