//! Errors of model files.

use core::fmt;

/// An error in a model file, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// Line from 1, if known.
    pub line: Option<usize>,
    /// Column from 1, if known.
    pub column: Option<usize>,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (Some(line), Some(column)) => {
                write!(f, "line {line}, column {column}: {}", self.reason)
            }
            _ => f.write_str(&self.reason),
        }
    }
}

impl core::error::Error for FileError {}

impl FileError {
    pub(super) fn at(
        text: &str,
        span: Option<core::ops::Range<usize>>,
        reason: impl Into<String>,
    ) -> Self {
        let place = span.map(|span| {
            let before = &text[..span.start.min(text.len())];
            let line = before.matches('\n').count() + 1;
            let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
            (line, column)
        });
        Self { line: place.map(|p| p.0), column: place.map(|p| p.1), reason: reason.into() }
    }
}
