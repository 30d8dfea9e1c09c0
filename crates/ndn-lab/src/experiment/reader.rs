//! Reads tables of TOML; each fault names line, key and reason.

use core::ops::{Range, RangeInclusive};

use serde_spanned::Spanned;
use toml::de::{DeTable, DeValue};

/// A fault in an experiment file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Line, from 1; `None` for a key that is absent from the whole file.
    pub line: Option<usize>,
    /// Path of the key, such as `factors.policy`; empty for the whole file.
    pub key: String,
    /// The reason.
    pub reason: String,
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.reason)
    }
}

impl core::error::Error for Fault {}

/// Parses a file and calls `read` with its table.
pub(super) fn read_file<T>(
    text: &str,
    read: impl FnOnce(&Section<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let table = DeTable::parse(text).map_err(|error| Fault {
        line: error.span().map(|span| line_of(text, &span)),
        key: String::new(),
        reason: error.message().to_owned(),
    })?;
    read(&Section { text, path: String::new(), line: None, table: table.get_ref() })
}

fn line_of(text: &str, span: &Range<usize>) -> usize {
    text.as_bytes()[..span.start.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// A table and its place in the file.
#[derive(Debug)]
pub(super) struct Section<'a> {
    text: &'a str,
    path: String,
    line: Option<usize>,
    table: &'a DeTable<'a>,
}

impl<'a> Section<'a> {
    /// Refuses keys other than these.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), Fault> {
        let unknown = self.keys().into_iter().find(|key| !known.contains(key));
        unknown.map_or(Ok(()), |key| {
            Err(self.fault(key, format!("unknown key; known: {}", known.join(", "))))
        })
    }

    /// A fault at a key, or where the key is absent, at its table.
    pub(super) fn fault(&self, key: &str, reason: impl Into<String>) -> Fault {
        let found = self.table.get_key_value(key);
        let path = match (self.path.as_str(), key) {
            ("", key) => key.to_owned(),
            (path, "") => path.to_owned(),
            (path, key) => format!("{path}.{key}"),
        };
        Fault {
            line: found.map_or(self.line, |(key, _)| Some(line_of(self.text, &key.span()))),
            key: path,
            reason: reason.into(),
        }
    }

    /// Keys in the order of the file.
    pub(super) fn keys(&self) -> Vec<&'a str> {
        let mut keys: Vec<_> = self.table.keys().collect();
        keys.sort_by_key(|key| key.span().start);
        keys.into_iter().map(|key| key.get_ref().as_ref()).collect()
    }

    /// The value if it is there, and a table or array of tables at it.
    fn value(&self, key: &str) -> Option<&'a DeValue<'a>> {
        self.table.get(key).map(Spanned::get_ref)
    }

    /// A text.
    pub(super) fn text(&self, key: &str) -> Result<Option<String>, Fault> {
        let expected = "expected a text in quotes";
        self.value(key)
            .map(|value| value.as_str().map(str::to_owned).ok_or_else(|| self.fault(key, expected)))
            .transpose()
    }

    /// A text that has to be there.
    pub(super) fn required_text(&self, key: &str) -> Result<String, Fault> {
        self.text(key)?.ok_or_else(|| self.fault(key, "is missing"))
    }

    /// A whole number in a range.
    pub(super) fn count(
        &self,
        key: &str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, Fault> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let number = value.as_integer().and_then(|digits| {
            u64::from_str_radix(&digits.as_str().replace('_', ""), digits.radix()).ok()
        });
        let number = number.filter(|number| range.contains(number));
        number.map(Some).ok_or_else(|| {
            let (first, last) = (range.start(), range.end());
            self.fault(key, format!("expected a whole number from {first} to {last}"))
        })
    }

    /// True or false.
    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, Fault> {
        let expected = "expected true or false";
        self.value(key)
            .map(|value| value.as_bool().ok_or_else(|| self.fault(key, expected)))
            .transpose()
    }

    /// A positive duration with its unit, in milliseconds.
    pub(super) fn duration_ms(&self, key: &str) -> Result<Option<u64>, Fault> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let unit_ms = match unit.trim() {
            "ms" => 1.0,
            "s" => 1e3,
            "min" => 6e4,
            "h" => 3.6e6,
            _ => f64::NAN,
        };
        let duration_ms = number.parse::<f64>().unwrap_or(f64::NAN) * unit_ms;
        if (1.0..=1e12).contains(&duration_ms) {
            Ok(Some(duration_ms as u64))
        } else {
            let expected = "expected a duration of 1 ms or more with unit ms, s, min or h: \"30s\"";
            Err(self.fault(key, expected))
        }
    }

    /// A text, number, true or false, as text.
    pub(super) fn scalar(&self, key: &str) -> Result<Option<String>, Fault> {
        let expected = "expected a text, a number, true or false";
        self.value(key)
            .map(|value| scalar(value).ok_or_else(|| self.fault(key, expected)))
            .transpose()
    }

    /// A list of texts, numbers, true or false, as texts.
    pub(super) fn scalars(&self, key: &str) -> Result<Option<Vec<String>>, Fault> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let elements = value.as_array().map(|array| array.iter());
        let elements = elements.and_then(|all| all.map(|one| scalar(one.get_ref())).collect());
        let expected = "expected a list of texts or numbers in brackets";
        elements.map(Some).ok_or_else(|| self.fault(key, expected))
    }

    /// A table below.
    pub(super) fn section(&self, key: &str) -> Result<Option<Section<'a>>, Fault> {
        let expected = "expected a table";
        self.value(key)
            .map(|value| {
                let table = value.as_table().ok_or_else(|| self.fault(key, expected))?;
                Ok(self.below(key, table))
            })
            .transpose()
    }

    /// A table below that has to be there.
    pub(super) fn required_section(&self, key: &str) -> Result<Section<'a>, Fault> {
        self.section(key)?.ok_or_else(|| self.fault(key, "the table is missing"))
    }

    /// Whether a table is at the key.
    pub(super) fn is_section(&self, key: &str) -> bool {
        self.value(key).is_some_and(DeValue::is_table)
    }

    /// Tables in a list.
    pub(super) fn sections(&self, key: &str) -> Result<Option<Vec<Section<'a>>>, Fault> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let tables: Option<Vec<_>> = value.as_array().and_then(|array| {
            let below = |(number, one): (usize, &'a Spanned<DeValue<'a>>)| {
                let table = one.get_ref().as_table()?;
                let mut section = self.below(&format!("{key}[{number}]"), table);
                section.line = Some(line_of(self.text, &one.span()));
                Some(section)
            };
            array.iter().enumerate().map(below).collect()
        });
        tables.map(Some).ok_or_else(|| self.fault(key, "expected a list of tables"))
    }

    fn below(&self, key: &str, table: &'a DeTable<'a>) -> Section<'a> {
        let at = self.fault(key, "");
        Section { text: self.text, path: at.key, line: at.line, table }
    }
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.as_ref().to_owned()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(value) => Some(value.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}
