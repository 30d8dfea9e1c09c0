//! Responses that are analysed, and why there is no analysis of them.

use ndn_model::screen::ScreenError;

/// A response, in the order of the runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// Index of the cell.
    pub cell: usize,
    /// Block in time.
    pub block: usize,
    /// The response.
    pub value: f64,
}

/// Why there is no analysis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnalysisError {
    /// A cell of a two-level design has no response.
    EmptyCell(String),
    /// An observation is not a finite number.
    NotFinite(String),
    /// Too few observations, or all the same.
    Screen(ScreenError),
}

impl core::fmt::Display for AnalysisError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::EmptyCell(cell) => {
                write!(f, "the cell {cell} has no response: effects cannot be computed without it")
            }
            Self::NotFinite(cell) => write!(f, "a response of the cell {cell} is not a number"),
            Self::Screen(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for AnalysisError {}
