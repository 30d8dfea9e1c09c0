//! Finds settings in a TOML document.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// The spans of settings, given as dotted paths. If the document has none of them, the span of the nearest table
/// above the first.
///
/// `items` maps the numbers of tables in the configuration to those in the document, by the path of their array.
pub(crate) fn find_all(
    document: &Spanned<DeTable<'_>>,
    keys: &[String],
    items: &BTreeMap<String, Vec<usize>>,
) -> Vec<Range<usize>> {
    let mut exact = Vec::new();
    let mut near = 0..0;
    for (index, key) in keys.iter().enumerate() {
        let (span, is_exact) = find(document, &in_document(key, items));
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

/// Whether the document has a setting, given as a dotted path.
pub(crate) fn is_present(document: &Spanned<DeTable<'_>>, key: &str) -> bool {
    find(document, key).1
}

/// The span of the first setting that a text has, or of the table that it belongs to.
pub(crate) fn find_first(text: &str, keys: &[String]) -> Option<Range<usize>> {
    let (document, _) = DeTable::parse_recoverable(text);
    let found: Vec<_> = keys.iter().map(|key| find(&document, key)).collect();
    let exact = found.iter().find(|(_, is_exact)| *is_exact);
    let near = || found.iter().find(|(span, _)| !span.is_empty());
    exact.or_else(near).map(|(span, _)| span.clone())
}

/// The path of a setting with the number of its table in the document.
fn in_document(key: &str, items: &BTreeMap<String, Vec<usize>>) -> String {
    let mut path = String::new();
    for part in key.split('.') {
        let number = part.parse().ok().and_then(|number: usize| items.get(&path)?.get(number));
        if !path.is_empty() {
            path.push('.');
        }
        match number {
            Some(number) => path.push_str(&number.to_string()),
            None => path.push_str(part),
        }
    }
    path
}

/// The span of a setting and true, or that of the nearest table above it and false.
fn find(document: &Spanned<DeTable<'_>>, key: &str) -> (Range<usize>, bool) {
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
            // Tables span several lines: their name says where they begin.
            span = if has_tables(value.get_ref()) { name.span() } else { value.span() };
            value
        };
        table = value.get_ref().as_table();
        array = value.get_ref().as_array();
    }
    (span, true)
}

fn has_tables(value: &DeValue<'_>) -> bool {
    value.is_table()
        || value.as_array().is_some_and(|items| items.iter().any(|item| item.get_ref().is_table()))
}
