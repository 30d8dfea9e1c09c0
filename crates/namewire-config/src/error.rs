//! What is wrong with a configuration file, and where.

use std::fmt;
use std::ops::Range;

use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode,
};

use super::Contradiction;

/// One thing wrong with a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Bytes of the file at fault; none if it is a setting that the file does not have.
    pub span: Option<Range<usize>>,
    /// Bytes of other settings that this one does not go together with.
    pub beside: Vec<Range<usize>>,
    /// What is wrong, without the place.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Problem {
    /// Where it stands among others.
    fn order(&self) -> usize {
        self.span.as_ref().map_or(usize::MAX, |span| span.start)
    }
}

/// Said of a file without a byte.
pub(super) const FILE_IS_EMPTY: &str = "the file is empty: whatever was to write it has failed";

/// A configuration that was refused. Its `Display` form has one line per problem:
/// `file:line:column: reason`, or `file: reason` for what has no place in the file.
#[derive(Debug)]
pub struct ConfigError {
    origin: String,
    text: String,
    problems: Vec<Problem>,
}

impl ConfigError {
    pub(super) fn unreadable(origin: &str, error: &std::io::Error) -> Self {
        Self::whole_file(origin, format!("the configuration cannot be read: {error}"))
    }

    pub(super) fn too_large(origin: &str, length: u64) -> Self {
        let max = super::FILE_BYTES_MAX;
        Self::whole_file(
            origin,
            format!("the configuration has {length} bytes; at most {max} are read"),
        )
    }

    /// What is wrong with settings of a file that was read well, at the place of the first of them that it has.
    pub(super) fn located(origin: &str, text: &str, fault: &Contradiction) -> Self {
        Self::located_at(origin, text, &fault.keys, fault.reason.clone())
    }

    /// As [`Self::located`], of settings that need not be wrong.
    pub(super) fn located_at(origin: &str, text: &str, keys: &[&str], message: String) -> Self {
        match super::place::find_first(text, keys) {
            None => Self::whole_file(origin, message),
            Some(span) => {
                let problem = Problem { span: Some(span), beside: Vec::new(), message, help: None };
                Self::rejected(origin, text, vec![problem])
            }
        }
    }

    /// And what is wrong with settings of the file elsewhere.
    #[must_use]
    pub fn with(mut self, faults: &[Contradiction]) -> Self {
        self.problems.extend(faults.iter().map(|fault| Problem {
            span: super::place::find_first(&self.text, &fault.keys),
            beside: Vec::new(),
            message: fault.reason.clone(),
            help: None,
        }));
        self.problems.sort_by_key(Problem::order);
        self
    }

    pub(super) fn empty(origin: &str) -> Self {
        let message = format!(
            "{FILE_IS_EMPTY} (where every setting is to have its default, a line of comment says so)"
        );
        Self::whole_file(origin, message)
    }

    pub(super) fn of_nfd(origin: &str) -> Self {
        let message = "this is a configuration of NFD: `namewire run --nfd-conf FILE` uses it, \
                       `namewire config convert FILE` prints what it becomes";
        Self::whole_file(origin, message.to_owned())
    }

    pub(super) fn rejected(origin: &str, text: &str, mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(Problem::order);
        problems.dedup();
        Self { origin: origin.to_owned(), text: text.to_owned(), problems }
    }

    fn whole_file(origin: &str, message: String) -> Self {
        let problem = Problem { span: None, beside: Vec::new(), message, help: None };
        Self { origin: origin.to_owned(), text: String::new(), problems: vec![problem] }
    }

    /// The problems in the order of their place in the file; those without one come last.
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
                for beside in &problem.beside {
                    write!(formatter, "; see line {}", self.position(beside.start).0)?;
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
    /// Its place, if it has one.
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
        let beside = self.problem.beside.iter().map(|span| label("and here", span));
        let mut labels: Vec<_> = beside.collect();
        labels.push(label("here", span));
        Some(Box::new(labels.into_iter()))
    }
}
