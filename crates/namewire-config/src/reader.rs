//! Access to the tables of a TOML document, and the problems found in them.

use std::cell::{LazyCell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::Problem;
use crate::value::expected;

/// Keys that are often looked for in the wrong table, as dotted paths, each with the place where they belong.
const MISPLACED: [(&str, &str); 2] = [
    (
        "listeners.memif.secret",
        "secrets of clients are set in [[memif_secrets]], with `socket` and `secret`",
    ),
    (
        "limits.pending_interests_per_face",
        "pending Interests are shared by address: see `neighbour_reserve` and `remote_interest_lifetime`",
    ),
];

/// A setting or table of the configuration.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// Its dotted path.
    pub(crate) path: String,
    /// As it is written for a person: `[a.b]` for a table, `[[a]]` for one that can be repeated.
    pub(crate) shown: String,
    pub(crate) is_table: bool,
}

/// Places with the words of an unknown key are proposed if there are at most this many.
const PLACES_SHOWN_MAX: usize = 3;

/// The problems of a document, collected by all of its sections.
#[derive(Debug)]
pub(crate) struct Findings {
    /// The settings and tables of the configuration, among which unknown keys are looked for.
    places: LazyCell<Vec<Place>>,
    problems: RefCell<Vec<Problem>>,
    /// Of each array of tables, by dotted path: the numbers of the tables that were read without a problem in a
    /// required setting, and are in the configuration.
    items: RefCell<BTreeMap<String, Vec<usize>>>,
}

impl Findings {
    /// No problems yet, in a configuration with these settings and tables.
    pub(crate) fn new(places: fn() -> Vec<Place>) -> Self {
        let places = LazyCell::new(places);
        Self { places, problems: RefCell::default(), items: RefCell::default() }
    }

    pub(crate) fn report(&self, span: Range<usize>, message: String, help: Option<String>) {
        let problem = Problem { span: Some(span), related: Vec::new(), message, help };
        self.problems.borrow_mut().push(problem);
    }

    /// Records that the table with this number in the document is the next of the configuration.
    pub(crate) fn accept_item(&self, path: &str, number: usize) {
        self.items.borrow_mut().entry(path.to_owned()).or_default().push(number);
    }

    pub(crate) fn into_parts(self) -> (Vec<Problem>, BTreeMap<String, Vec<usize>>) {
        (self.problems.into_inner(), self.items.into_inner())
    }
}

/// One table of the document. A key that is not looked up before [`Section::finish`] is unknown.
#[derive(Debug)]
pub(crate) struct Section<'a> {
    findings: &'a Findings,
    path: String,
    span: Range<usize>,
    /// None if the document leaves the table out: its settings have their defaults.
    table: Option<&'a DeTable<'a>>,
    known: Vec<&'static str>,
    /// Whether all required settings were read.
    is_complete: bool,
}

impl<'a> Section<'a> {
    /// The table above all others.
    pub(crate) fn root(findings: &'a Findings, document: &'a Spanned<DeTable<'a>>) -> Self {
        Self::new(findings, String::new(), document.span(), Some(document.get_ref()))
    }

    fn new(
        findings: &'a Findings,
        path: String,
        span: Range<usize>,
        table: Option<&'a DeTable<'a>>,
    ) -> Self {
        Self { findings, path, span, table, known: Vec::new(), is_complete: true }
    }

    /// The value of `key`, if the document has it.
    pub(crate) fn value(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.known.push(key);
        self.table.and_then(|table| table.get(key))
    }

    /// Reports that a required setting is missing.
    pub(crate) fn report_missing(&mut self, key: &str) {
        self.is_complete = false;
        let message = format!("`{}` is missing", self.path_of(key));
        self.findings.report(self.span.clone(), message, None);
    }

    /// Reports that a required setting has a bad value.
    pub(crate) fn reject_required(&mut self, key: &str, span: Range<usize>, reason: &str) {
        self.is_complete = false;
        self.reject(key, span, reason);
    }

    /// Reports that a setting has a bad value.
    pub(crate) fn reject(&self, key: &str, span: Range<usize>, reason: &str) {
        self.findings.report(span, format!("`{}`: {reason}", self.path_of(key)), None);
    }

    /// The table under `key`.
    pub(crate) fn section(&mut self, key: &'static str) -> Self {
        let path = self.path_of(key);
        let (table, span) = match self.value(key) {
            None => (None, self.span.clone()),
            Some(value) => {
                let table = value.get_ref().as_table();
                if table.is_none() {
                    self.reject(key, value.span(), &expected("a table", value.get_ref()));
                }
                (table, value.span())
            }
        };
        Self::new(self.findings, path, span, table)
    }

    /// The tables of the array under `key`, written `[[key]]`, with their numbers. None without the key.
    pub(crate) fn sections(&mut self, key: &'static str) -> Option<Vec<(usize, Self)>> {
        let path = self.path_of(key);
        let value = self.value(key)?;
        let DeValue::Array(items) = value.get_ref() else {
            let requested = format!("tables, each under its own [[{path}]]");
            self.reject(key, value.span(), &expected(&requested, value.get_ref()));
            return None;
        };
        let mut sections = Vec::new();
        for (number, item) in items.iter().enumerate() {
            if let DeValue::Table(table) = item.get_ref() {
                let section = Self::new(self.findings, path.clone(), item.span(), Some(table));
                sections.push((number, section));
            } else {
                self.reject(key, item.span(), &expected("a table", item.get_ref()));
            }
        }
        Some(sections)
    }

    /// Records that the table with this number of the array under `key` is in the configuration.
    pub(crate) fn accept_item(&self, key: &str, number: usize) {
        self.findings.accept_item(&self.path_of(key), number);
    }

    /// All keys of this table with their values, for a table whose keys are not fixed.
    pub(crate) fn entries<T>(
        self,
        check_key: impl Fn(&str) -> Result<(), String>,
        read: impl Fn(&DeValue<'_>) -> Result<T, String>,
    ) -> Vec<(String, T)> {
        let mut entries = Vec::new();
        for (key, value) in self.table.into_iter().flatten() {
            let name = key.get_ref().as_ref();
            if let Err(reason) = check_key(name) {
                self.reject(name, key.span(), &reason);
            }
            match read(value.get_ref()) {
                Ok(read) => entries.push((name.to_owned(), read)),
                Err(reason) => self.reject(name, value.span(), &reason),
            }
        }
        entries
    }

    /// Reports the unknown keys. Returns whether all required settings were read.
    pub(crate) fn finish(self) -> bool {
        for (key, value) in self.table.into_iter().flatten() {
            let name = key.get_ref().as_ref();
            if !self.known.contains(&name) {
                self.report_unknown(name, key.span(), is_table(value.get_ref()));
            }
        }
        self.is_complete
    }

    fn report_unknown(&self, name: &str, span: Range<usize>, is_table: bool) {
        let path = self.path_of(name);
        if let Some((_, place)) = MISPLACED.iter().find(|(misplaced, _)| *misplaced == path) {
            let message = format!("`{path}` is no key here");
            return self.findings.report(span, message, Some((*place).to_owned()));
        }
        let place = match self.path.is_empty() {
            true => String::new(),
            false => format!(" in `{}`", self.path),
        };
        let elsewhere = || with_words(&path, &self.findings.places, is_table);
        let help = if let Some(suggestion) = closest(name, &self.known) {
            format!("did you mean `{suggestion}`?")
        } else if let Some(places) = elsewhere() {
            let places = places.iter().map(|place| format!("`{}`", place.shown));
            format!("did you mean {}?", places.collect::<Vec<_>>().join(" or "))
        } else {
            format!("known here: {}", self.known.join(", "))
        };
        self.findings.report(span, format!("unknown key `{name}`{place}"), Some(help));
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

/// Whether a value is a table, or an array of tables.
fn is_table(value: &DeValue<'_>) -> bool {
    if let DeValue::Array(items) = value {
        return items.iter().any(|item| item.get_ref().as_table().is_some());
    }
    value.as_table().is_some()
}

/// The settings, or tables, whose paths have the words of this one and as few others as possible.
fn with_words<'p>(path: &str, places: &'p [Place], is_table: bool) -> Option<Vec<&'p Place>> {
    fn words(text: &str) -> Vec<&str> {
        // `route` is in `static_routes`.
        text.split(['.', '_', '-']).map(|word| word.trim_end_matches('s')).collect()
    }
    let typed = words(path);
    let has_words = |place: &&Place| {
        let of_place = words(&place.path);
        place.is_table == is_table && typed.iter().all(|word| of_place.contains(word))
    };
    let found = places.iter().filter(has_words);
    let fewest = found.clone().map(|place| words(&place.path).len()).min()?;
    let found: Vec<_> = found.filter(|place| words(&place.path).len() == fewest).collect();
    Some(found).filter(|found| found.len() <= PLACES_SHOWN_MAX)
}

/// The known word nearest to a mistyped one, if any is near. Of several words, each is.
#[must_use]
pub fn closest<'k>(typed: &str, known: &[&'k str]) -> Option<&'k str> {
    let third_of = |word: &str| word.chars().count() / 3;
    let words = typed.split('_').count();
    let is_near = |key: &str| {
        words == 1
            || words != key.split('_').count()
            || typed.split('_').zip(key.split('_')).all(|(word, other)| {
                edit_distance(word, other) <= third_of(word).max(third_of(other)).max(1)
            })
    };
    known
        .iter()
        .map(|key| (edit_distance(typed, key), *key))
        .filter(|(distance, key)| *distance <= third_of(typed).max(2) && is_near(key))
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
