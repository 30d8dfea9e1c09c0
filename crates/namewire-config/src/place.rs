//! Where settings stand in a file.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeArray, DeTable};

use super::reader::Findings;

/// Where a setting stands, to be objected to once others have been read.
#[derive(Debug)]
pub(super) struct Place<'a> {
    findings: &'a Findings,
    path: String,
    span: Range<usize>,
}

impl<'a> Place<'a> {
    pub(super) const fn new(findings: &'a Findings, path: String, span: Range<usize>) -> Self {
        Self { findings, path, span }
    }

    /// Objects to this setting, which does not go together with the other.
    pub(super) fn object_beside(&self, other: &Self, reason: &str) {
        let spans = vec![self.span.clone(), other.span.clone()];
        self.findings.report_clash(spans, format!("`{}`: {reason}", self.path));
    }
}

/// Where these settings stand, given as dotted paths. Where none of them is written down, the nearest
/// table above the first one.
pub(super) fn find(document: &Spanned<DeTable<'_>>, keys: &[&str]) -> Vec<Range<usize>> {
    let mut exact = Vec::new();
    let mut near = 0..0;
    for (index, key) in keys.iter().enumerate() {
        let (span, is_exact) = find_one(document, key);
        if is_exact && !exact.contains(&span) {
            exact.push(span);
        } else if index == 0 {
            near = span;
        }
    }
    if exact.is_empty() {
        exact.push(near);
    }
    exact
}

/// Where in a text the first of these settings stands that is written down, or the table that it belongs to. One of
/// an array of tables is named by its number, from 0 on.
pub(super) fn find_first(text: &str, keys: &[&str]) -> Option<Range<usize>> {
    let (document, _) = DeTable::parse_recoverable(text);
    let found: Vec<_> = keys.iter().map(|key| find_one(&document, key)).collect();
    let exact = found.iter().find(|(_, is_exact)| *is_exact);
    let near = || found.iter().find(|(span, _)| !span.is_empty());
    exact.or_else(near).map(|(span, _)| span.clone())
}

fn find_one(document: &Spanned<DeTable<'_>>, key: &str) -> (Range<usize>, bool) {
    let (mut table, mut array, mut span) = (Some(document.get_ref()), None, 0..0);
    for part in key.split('.') {
        let number: Option<usize> = part.parse().ok();
        let item =
            array.zip(number).and_then(|(array, number): (&DeArray<'_>, _)| array.get(number));
        let value = if let Some(item) = item {
            span = item.span();
            item
        } else {
            let found = table.and_then(|table| table.get_key_value(part));
            let Some((name, value)) = found else { return (span, false) };
            // Tables of several lines are where their name is.
            span = name.span();
            value
        };
        table = value.get_ref().as_table();
        array = value.get_ref().as_array();
    }
    (span, true)
}
