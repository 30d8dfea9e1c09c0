//! The problems of a configuration file, with their locations.

use std::fmt;
use std::ops::Range;

use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode,
};

use crate::conflict::Conflict;
use crate::key_location::find_first;

/// Maximum size of a configuration file in bytes. No configuration written by hand comes near it.
pub const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// A problem of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The bytes of the file at fault; none if the file does not have the setting.
    pub span: Option<Range<usize>>,
    /// The bytes of other settings that conflict with this one.
    pub related: Vec<Range<usize>>,
    /// The error, without the location.
    pub message: String,
    /// The correction.
    pub help: Option<String>,
}

impl Problem {
    /// Its position among the problems of a file.
    fn order(&self) -> usize {
        self.span.as_ref().map_or(usize::MAX, |span| span.start)
    }
}

/// The message about a file without content.
pub(crate) const FILE_IS_EMPTY: &str =
    "the file is empty: the program that should have written it has probably failed";

/// A rejected configuration. Its `Display` form has one line for each problem: `file:line:column: reason`, or
/// `file: reason` if the file does not have the setting.
#[derive(Debug)]
pub struct ConfigError {
    origin: String,
    text: String,
    problems: Vec<Problem>,
}

impl ConfigError {
    pub(crate) fn unreadable(origin: &str, error: &std::io::Error) -> Self {
        Self::whole_file(origin, format!("the configuration cannot be read: {error}"))
    }

    pub(crate) fn too_large(origin: &str, length: u64) -> Self {
        let max = FILE_BYTES_MAX;
        Self::whole_file(
            origin,
            format!("the configuration has {length} bytes; at most {max} are read"),
        )
    }

    /// A message with the location of the first of some settings that the file has.
    pub(crate) fn located(origin: &str, text: &str, keys: &[String], message: &str) -> Self {
        let message = message.to_owned();
        match find_first(text, keys) {
            None => Self::whole_file(origin, message),
            Some(span) => {
                let problem =
                    Problem { span: Some(span), related: Vec::new(), message, help: None };
                Self::rejected(origin, text, vec![problem])
            }
        }
    }

    /// Adds conflicts between settings of the same file.
    #[must_use]
    pub fn with(mut self, conflicts: &[Conflict]) -> Self {
        self.problems.extend(conflicts.iter().map(|conflict| Problem {
            span: find_first(&self.text, &conflict.keys),
            related: Vec::new(),
            message: conflict.reason.clone(),
            help: None,
        }));
        self.problems.sort_by_key(Problem::order);
        self
    }

    pub(crate) fn empty(origin: &str) -> Self {
        let message =
            format!("{FILE_IS_EMPTY} (write a comment if every setting should have its default)");
        Self::whole_file(origin, message)
    }

    pub(crate) fn nfd_conf(origin: &str) -> Self {
        let message = "this is a configuration of NFD: `namewire run --nfd-conf FILE` uses it, \
                       `namewire config convert FILE` checks and converts it";
        Self::whole_file(origin, message.to_owned())
    }

    pub(crate) fn rejected(origin: &str, text: &str, mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(Problem::order);
        problems.dedup();
        Self { origin: origin.to_owned(), text: text.to_owned(), problems }
    }

    fn whole_file(origin: &str, message: String) -> Self {
        let problem = Problem { span: None, related: Vec::new(), message, help: None };
        Self { origin: origin.to_owned(), text: String::new(), problems: vec![problem] }
    }

    /// The problems in the order of their location in the file; those without one come last.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Line and column, both from 1, of a byte of the file.
    pub fn position(&self, offset: usize) -> (usize, usize) {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
        (line, column)
    }

    /// The problems with the lines of the file they are in, for a terminal.
    pub fn render(&self, colour: bool) -> String {
        let theme =
            if colour { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let handler = GraphicalReportHandler::new_themed(theme).with_links(false);
        let source = NamedSource::new(&self.origin, self.text.clone());
        let mut rendered = String::new();
        for problem in &self.problems {
            let span = problem.span.clone().filter(|_| !self.text.is_empty());
            let report = Located { problem, source: &source, span };
            // Writing into a string fails only if the handler does; then the plain line stands in.
            if handler.render_report(&mut rendered, &report).is_err() {
                rendered.push_str(&problem.message);
            }
        }
        rendered
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                formatter.write_str("\n")?;
            }
            write!(formatter, "{}:", self.origin)?;
            let span = problem.span.as_ref().filter(|_| !self.text.is_empty());
            if let Some(span) = span {
                let (line, column) = self.position(span.start);
                write!(formatter, "{line}:{column}:")?;
            }
            write!(formatter, " {}", problem.message)?;
            if span.is_some() {
                for related in &problem.related {
                    write!(formatter, "; see line {}", self.position(related.start).0)?;
                }
            }
            if let Some(help) = &problem.help {
                write!(formatter, " ({help})")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// A problem with its source text, in the form that miette draws.
#[derive(Debug)]
struct Located<'a> {
    problem: &'a Problem,
    source: &'a NamedSource<String>,
    /// Its location, if it has one.
    span: Option<Range<usize>>,
}

impl fmt::Display for Located<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.span.is_none() {
            write!(formatter, "{}: ", self.source.name())?;
        }
        formatter.write_str(&self.problem.message)
    }
}

impl std::error::Error for Located<'_> {}

impl Diagnostic for Located<'_> {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.problem.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.span.is_some().then_some(self.source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let span = self.span.as_ref()?;
        let label = |text: &str, span: &Range<usize>| {
            LabeledSpan::new_with_span(Some(text.to_owned()), span.clone())
        };
        let related = self.problem.related.iter().map(|span| label("and here", span));
        let mut labels: Vec<_> = related.collect();
        labels.push(label("here", span));
        Some(Box::new(labels.into_iter()))
    }
}
