//! Reads typed values out of a spanned TOML document and collects every problem on the way.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use ndn_dataplane::Arrangement;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Problem;
use super::place::Place;
use super::types::WorkerCount;
use super::units::{ByteSize, parse_duration};

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
}

impl Findings {
    pub(super) fn report(&self, span: Range<usize>, message: String, help: Option<String>) {
        self.problems.borrow_mut().push(Problem { span, message, help });
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
}

impl<'a> Section<'a> {
    pub(super) fn root(findings: &'a Findings, document: &'a Spanned<DeTable<'a>>) -> Self {
        let table = Some(document.get_ref());
        Self { findings, path: String::new(), span: document.span(), table, known: Vec::new() }
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
        self.read_checked(key, target, |value| {
            if range.contains(value) {
                Ok(())
            } else {
                let (value, low, high) =
                    (value.shown(), range.start().shown(), range.end().shown());
                Err(format!("{value} is out of range: it must lie between {low} and {high}"))
            }
        });
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
        let Some(value) = self.lookup_value::<T>(key) else {
            let path = self.path_of(key);
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
        Section { findings: self.findings, path, span, table, known: Vec::new() }
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

    /// Reports the keys that nothing asked for.
    pub(super) fn finish(self) {
        for (key, _) in self.table.into_iter().flatten() {
            let name = key.get_ref().as_ref();
            if !self.known.contains(&name) {
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
        self.known.push(key);
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

/// A value that can be read from TOML.
pub(super) trait FromToml: Sized {
    /// Reads it, or says what is wrong.
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String>;

    /// What it looks like, for the reference.
    fn kind() -> String {
        "text".to_owned()
    }
}

fn expected(wanted: &str, found: &DeValue<'_>) -> String {
    match found.as_str() {
        Some(text) if text.len() <= 40 => format!("expected {wanted}, found {text:?} in quotes"),
        _ => format!("expected {wanted}, found {}", found.type_str()),
    }
}

fn text_of<'v>(wanted: &str, value: &'v DeValue<'_>) -> Result<&'v str, String> {
    value.as_str().ok_or_else(|| expected(wanted, value))
}

impl FromToml for bool {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        value.as_bool().ok_or_else(|| expected("true or false", value))
    }

    fn kind() -> String {
        "`true` or `false`".to_owned()
    }
}

macro_rules! whole_number {
    ($($number:ty),*) => {$(
        impl FromToml for $number {
            fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
                let integer = value.as_integer().ok_or_else(|| expected("a whole number", value))?;
                <$number>::from_str_radix(integer.as_str(), integer.radix()).map_err(|_| {
                    format!("{integer} is out of range: it must lie between 0 and {}", <$number>::MAX)
                })
            }

            fn kind() -> String {
                "whole number".to_owned()
            }
        }
    )*};
}

whole_number!(u8, u16, u32, u64, usize);

impl FromToml for String {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        text_of("a string", value).map(str::to_owned)
    }
}

impl FromToml for PathBuf {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        let text = text_of("a path", value)?;
        if text.is_empty() || text.contains('\0') {
            return Err("the path is empty or has a NUL character".to_owned());
        }
        Ok(Self::from(text))
    }

    fn kind() -> String {
        "path".to_owned()
    }
}

impl FromToml for Duration {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        parse_duration(text_of("a duration such as \"250ms\" or \"10min\"", value)?)
    }

    fn kind() -> String {
        "duration".to_owned()
    }
}

impl FromToml for ByteSize {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match value {
            DeValue::Integer(_) => u64::from_toml(value).map(Self),
            DeValue::String(text) => text.parse(),
            DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_)
            | DeValue::Table(_) => Err(expected("a size such as \"64KiB\"", value)),
        }
    }

    fn kind() -> String {
        "size".to_owned()
    }
}

impl FromToml for WorkerCount {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match value.as_str() {
            Some("auto") => Ok(Self::Auto),
            Some(_) => Err(expected("a whole number or \"auto\"", value)),
            None => usize::from_toml(value).map(Self::Fixed),
        }
    }

    fn kind() -> String {
        "whole number or `\"auto\"`".to_owned()
    }
}

impl FromToml for Arrangement {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        text_of("P1, P2, P3 or P4", value)?.parse()
    }

    fn kind() -> String {
        "`\"P1\"`, `\"P2\"`, `\"P3\"` or `\"P4\"`".to_owned()
    }
}

impl FromToml for SocketAddr {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        let text = text_of("an address and a port", value)?;
        text.parse().map_err(|_| format!("\"{text}\" is not an address and a port"))
    }

    fn kind() -> String {
        "address and port".to_owned()
    }
}

impl FromToml for IpAddr {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        let text = text_of("an IP address", value)?;
        text.parse().map_err(|_| format!("`{text}` is not an IP address"))
    }

    fn kind() -> String {
        "IP address".to_owned()
    }
}

impl<T: FromToml> FromToml for Vec<T> {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        let items = value.as_array().ok_or_else(|| expected("a list", value))?;
        let (mut read, mut reasons) = (Vec::new(), Vec::new());
        for item in items {
            match T::from_toml(item.get_ref()) {
                Ok(value) => read.push(value),
                Err(reason) => reasons.push(reason),
            }
        }
        if reasons.is_empty() { Ok(read) } else { Err(reasons.join("; ")) }
    }

    fn kind() -> String {
        format!("list: {}", T::kind())
    }
}

/// Reads one of a fixed set of words.
pub(super) fn one_of<T: Copy>(value: &DeValue<'_>, choices: &[(&str, T)]) -> Result<T, String> {
    let words =
        || choices.iter().map(|(word, _)| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
    let text = value.as_str().ok_or_else(|| expected(&format!("one of {}", words()), value))?;
    choices
        .iter()
        .find(|(word, _)| *word == text)
        .map(|(_, choice)| *choice)
        .ok_or_else(|| format!("`{text}` is not one of {}", words()))
}

/// Words, for the reference.
pub(super) fn words(choices: &[&str]) -> String {
    choices.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", ")
}

/// How a bound of a range is written in a message.
pub(super) trait Shown {
    fn shown(&self) -> String;
}

macro_rules! shown_as_displayed {
    ($($number:ty),*) => {$(
        impl Shown for $number {
            fn shown(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

shown_as_displayed!(u8, u16, u32, u64, usize, ByteSize);

impl Shown for Duration {
    fn shown(&self) -> String {
        super::units::format_duration(*self)
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
