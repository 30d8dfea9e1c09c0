//! Reads typed values out of a spanned TOML document and collects every problem on the way.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Problem;
use super::place::Place;
pub(super) use super::values::{FromToml, Shown, one_of, words};
use super::values::{expected, number_in};

/// What the reader has found out so far; shared by the sections of one document.
#[derive(Debug, Default)]
pub(super) struct Findings {
    problems: RefCell<Vec<Problem>>,
    /// All keys asked for, by dotted path: the schema, as a side product of reading.
    asked: RefCell<BTreeMap<String, Value>>,
}

/// What values a key takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Value {
    /// In words; none for tables.
    pub(super) kind: Option<String>,
    /// The least and the most.
    pub(super) range: Option<(String, String)>,
    /// There is no default.
    pub(super) is_required: bool,
}

impl Findings {
    pub(super) fn report(&self, span: Range<usize>, message: String, help: Option<String>) {
        self.problems.borrow_mut().push(Problem {
            span: Some(span),
            beside: Vec::new(),
            message,
            help,
        });
    }

    /// Settings that do not go together are one problem, told where it shows, with the places of the others.
    pub(super) fn report_clash(&self, spans: Vec<Range<usize>>, message: String) {
        let mut beside = spans;
        beside.sort_by_key(|span| span.start);
        if let Some(span) = beside.pop() {
            self.problems.borrow_mut().push(Problem {
                span: Some(span),
                beside,
                message,
                help: None,
            });
        }
    }

    pub(super) fn into_parts(self) -> (Vec<Problem>, BTreeMap<String, Value>) {
        (self.problems.into_inner(), self.asked.into_inner())
    }
}

/// One table of the document. Keys not asked for by the time of [`Section::finish`] are unknown.
#[derive(Debug)]
pub(super) struct Section<'a> {
    findings: &'a Findings,
    path: String,
    span: Range<usize>,
    /// None where the document leaves the table out: all its settings keep their defaults.
    table: Option<&'a DeTable<'a>>,
    known: Vec<&'static str>,
    /// Keys of other places that were objected to.
    misplaced: Vec<&'static str>,
}

impl<'a> Section<'a> {
    pub(super) fn root(findings: &'a Findings, document: &'a Spanned<DeTable<'a>>) -> Self {
        let table = Some(document.get_ref());
        Self {
            findings,
            path: String::new(),
            span: document.span(),
            table,
            known: Vec::new(),
            misplaced: Vec::new(),
        }
    }

    /// Reads `key` into `target`, which keeps its value where the key is absent.
    pub(super) fn read<T: FromToml>(&mut self, key: &'static str, target: &mut T) {
        self.read_checked(key, target, |_| Ok(()));
    }

    /// As [`Self::read`], with a number from `range` only.
    pub(super) fn read_in<T>(
        &mut self,
        key: &'static str,
        target: &mut T,
        range: std::ops::RangeInclusive<T>,
    ) where
        T: FromToml + PartialOrd + Shown,
    {
        let bounds = (range.start().shown(), range.end().shown());
        let path = self.path_of(key);
        self.findings.asked.borrow_mut().entry(path).or_default().range = Some(bounds);
        let Some(value) = self.lookup_value::<T>(key) else { return };
        match number_in(value.get_ref(), &range) {
            Ok(read) => *target = read,
            Err(reason) => self.reject(key, value.span(), &reason),
        }
    }

    /// As [`Self::read_in`], for a setting whose absence means something.
    pub(super) fn read_optional_in<T>(
        &mut self,
        key: &'static str,
        target: &mut Option<T>,
        range: std::ops::RangeInclusive<T>,
    ) where
        T: FromToml + PartialOrd + Shown,
    {
        let Some(value) = self.lookup_value::<T>(key) else { return };
        match number_in(value.get_ref(), &range) {
            Ok(read) => *target = Some(read),
            Err(reason) => self.reject(key, value.span(), &reason),
        }
    }

    /// As [`Self::read`], with the values that `check` accepts only.
    pub(super) fn read_checked<T: FromToml>(
        &mut self,
        key: &'static str,
        target: &mut T,
        check: impl Fn(&T) -> Result<(), String>,
    ) {
        let Some(value) = self.lookup_value::<T>(key) else { return };
        match T::from_toml(value.get_ref()).and_then(|read| check(&read).map(|()| read)) {
            Ok(read) => *target = read,
            Err(reason) => self.reject(key, value.span(), &reason),
        }
    }

    /// As [`Self::read`], for a setting whose absence means something.
    pub(super) fn read_optional<T: FromToml>(&mut self, key: &'static str, target: &mut Option<T>) {
        if let Some(value) = self.lookup_value::<T>(key) {
            match T::from_toml(value.get_ref()) {
                Ok(read) => *target = Some(read),
                Err(reason) => self.reject(key, value.span(), &reason),
            }
        }
    }

    /// Reads a key that must be there.
    pub(super) fn read_required<T: FromToml>(&mut self, key: &'static str) -> Option<T> {
        self.read_required_checked(key, |_| Ok(()))
    }

    /// As [`Self::read_required`]; `check` says what is wrong with a value.
    pub(super) fn read_required_checked<T: FromToml>(
        &mut self,
        key: &'static str,
        check: impl Fn(&T) -> Result<(), String>,
    ) -> Option<T> {
        let path = self.path_of(key);
        self.findings.asked.borrow_mut().entry(path.clone()).or_default().is_required = true;
        let Some(value) = self.lookup_value::<T>(key) else {
            self.findings.report(self.span.clone(), format!("`{path}` is missing"), None);
            return None;
        };
        match T::from_toml(value.get_ref()).and_then(|read| check(&read).map(|()| read)) {
            Ok(read) => Some(read),
            Err(reason) => {
                self.reject(key, value.span(), &reason);
                None
            }
        }
    }

    /// The table under `key`.
    pub(super) fn section(&mut self, key: &'static str) -> Section<'a> {
        let path = self.path_of(key);
        let (table, span) = match self.lookup(key) {
            None => (None, self.span.clone()),
            Some(value) => {
                let table = value.get_ref().as_table();
                if table.is_none() {
                    self.reject(key, value.span(), &expected("a table", value.get_ref()));
                }
                (table, value.span())
            }
        };
        Section {
            findings: self.findings,
            path,
            span,
            table,
            known: Vec::new(),
            misplaced: Vec::new(),
        }
    }

    /// The tables of the array under `key`, written `[[key]]`.
    pub(super) fn sections(&mut self, key: &'static str) -> Vec<Section<'a>> {
        let path = self.path_of(key);
        let Some(value) = self.lookup(key) else { return Vec::new() };
        let DeValue::Array(items) = value.get_ref() else {
            let reason =
                expected(&format!("tables, each under its own [[{path}]]"), value.get_ref());
            self.reject(key, value.span(), &reason);
            return Vec::new();
        };
        let mut sections = Vec::new();
        for item in items {
            if let DeValue::Table(table) = item.get_ref() {
                let (findings, path, span) = (self.findings, path.clone(), item.span());
                sections.push(Section {
                    findings,
                    path,
                    span,
                    table: Some(table),
                    known: Vec::new(),
                    misplaced: Vec::new(),
                });
            } else {
                self.reject(key, item.span(), &expected("a table", item.get_ref()));
            }
        }
        sections
    }

    /// Every key of this table with its value, for tables whose keys are not fixed.
    pub(super) fn entries<T: FromToml>(
        mut self,
        check_key: impl Fn(&str) -> Result<(), String>,
    ) -> Vec<(String, T)> {
        let Some(table) = self.table.take() else { return Vec::new() };
        let mut entries = Vec::new();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            if let Err(reason) = check_key(name) {
                self.reject(name, key.span(), &reason);
            }
            match T::from_toml(value.get_ref()) {
                Ok(read) => entries.push((name.to_owned(), read)),
                Err(reason) => self.reject(name, value.span(), &reason),
            }
        }
        entries
    }

    /// Reports a problem with the value of `key`, seen only together with other settings.
    pub(super) fn object(&self, key: &str, reason: &str) {
        let span =
            self.table.and_then(|table| table.get(key)).map_or(self.span.clone(), Spanned::span);
        self.reject(key, span, reason);
    }

    /// Where the value of `key` is, or this table if it is absent.
    pub(super) fn place(&self, key: &str) -> Place<'a> {
        let value = self.table.and_then(|table| table.get(key));
        let span = value.map_or(self.span.clone(), Spanned::span);
        Place::new(self.findings, self.path_of(key), span)
    }

    /// Reports a key that is looked for here first, and belongs elsewhere.
    pub(super) fn misplaced(&mut self, key: &'static str, place: &str) {
        self.misplaced.push(key);
        if let Some((found, _)) = self.table.and_then(|table| table.get_key_value(key)) {
            let message = format!("`{}` is no key here", self.path_of(key));
            self.findings.report(found.span(), message, Some(place.to_owned()));
        }
    }

    /// Reports the keys that nothing asked for.
    pub(super) fn finish(self) {
        for (key, _) in self.table.into_iter().flatten() {
            let name = key.get_ref().as_ref();
            if !self.known.contains(&name) && !self.misplaced.contains(&name) {
                let place = if self.path.is_empty() {
                    String::new()
                } else {
                    format!(" in `{}`", self.path)
                };
                let help = match closest(name, &self.known) {
                    Some(suggestion) => format!("did you mean `{suggestion}`?"),
                    None => format!("known here: {}", self.known.join(", ")),
                };
                self.findings.report(
                    key.span(),
                    format!("unknown key `{name}`{place}"),
                    Some(help),
                );
            }
        }
    }

    fn lookup_value<T: FromToml>(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        let path = self.path_of(key);
        self.findings.asked.borrow_mut().entry(path).or_default().kind = Some(T::kind());
        self.lookup(key)
    }

    fn lookup(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.findings.asked.borrow_mut().entry(self.path_of(key)).or_default();
        self.table.and_then(|table| table.get(key))
    }

    /// Whether `key` is there, with any value.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.is_some_and(|table| table.contains_key(key))
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn reject(&self, key: &str, span: Range<usize>, reason: &str) {
        self.findings.report(span, format!("`{}`: {reason}", self.path_of(key)), None);
    }
}

/// The known key nearest to a mistyped one, if any is near.
fn closest<'k>(typed: &str, known: &[&'k str]) -> Option<&'k str> {
    let threshold = (typed.chars().count() / 3).max(2);
    known
        .iter()
        .map(|key| (edit_distance(typed, key), *key))
        .filter(|(distance, _)| *distance <= threshold)
        .min()
        .map(|(_, key)| key)
}

/// Levenshtein distance in characters.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
