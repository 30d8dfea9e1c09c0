//! The configuration reference and the sample file, made from the declarations of the settings.

use std::fmt::Write;

use ndn_types::units_table;

use crate::config::Config;
use crate::declaration::{
    Described, Description, Reload, RestartReason, Table as _, describe_table,
};

/// The introduction of the reference.
const REFERENCE_HEAD: &str = "# Configuration reference

Every setting of the TOML file that `namewire run --config FILE` reads. `namewire config reference` prints this page,
and `namewire config sample` the same as a file to start from. No table is required. A table in double brackets
(`[[…]]`) can be repeated. `namewire config check FILE` validates a file, `namewire config convert FILE` converts an
nfd.conf.

A default of *none* means that there is no value, and *required* that there is no default; the value in parentheses is
an example. A changed setting takes effect when SIGHUP makes the forwarder read its configuration again (*reload*), or at
the next start (*restart*), for one of these reasons:

";

/// The introduction of the table of units.
const UNITS_HEAD: &str = "Sizes and durations have a unit, in this file, where they are in quotes, in scenario files of `namewire traffic`, and on
command lines: `64KiB`, `1.5GB`, `250ms`, `1.5s`. A number without a unit is rejected, except `0`.
";

/// The introduction of the sample.
const SAMPLE_HEAD: &str = "# Sample configuration of `namewire run`: every setting with its default. No setting is required.
#
# A setting behind a single `#` has no default value; its value is an example. Sizes and durations are numbers
# with a unit (\"64KiB\", \"1.5GB\"; \"20us\", \"1.5s\", \"10min\"). A changed setting takes effect at the next start (restart), or when SIGHUP makes the forwarder
# read its configuration again (reload).
#
# `namewire config check FILE` validates a file, `namewire config reference` prints the same as a page.
";

fn describe() -> Vec<Described> {
    describe_table("", &Config::initial())
}

/// The reference of all settings, in Markdown.
#[must_use]
pub fn reference() -> String {
    let mut page = REFERENCE_HEAD.to_owned();
    for reason in RestartReason::ALL {
        let _ = writeln!(page, "- *{}*: {reason}.", reason.word());
    }
    let _ = write!(page, "\n## Units\n\n{UNITS_HEAD}\n{}", units_table());
    for table in describe() {
        let _ = write!(page, "\n## {}\n", title(table.key));
        write_reference(&mut page, &table);
    }
    page
}

/// The title of a table: `static_faces` is `Static faces`.
fn title(key: &str) -> String {
    let words = key.replace('_', " ");
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().collect::<String>()).unwrap_or_default()
        + letters.as_str()
}

fn write_reference(page: &mut String, table: &Described) {
    match &table.description {
        Description::Table { documentation, is_item, entries, .. } => {
            let (open, close) = if *is_item { ("[[", "]]") } else { ("[", "]") };
            if has_settings(entries) {
                let _ = write!(page, "\n### `{open}{}{close}`\n", table.path);
            }
            let _ = write!(page, "\n{}\n", paragraph(documentation));
            if has_settings(entries) {
                page.push_str("\n| setting | values | default | takes effect at | description |\n");
                page.push_str("|---|---|---|---|---|\n");
            }
            entries.iter().for_each(|entry| write_row(page, entry));
            entries.iter().for_each(|entry| write_reference(page, entry));
        }
        Description::Entries { keys, values, example, reload } => {
            let _ = write!(
                page,
                "\n### `[{}]`\n\n{} Values: {values}. Takes effect at {reload}. Example: `{example}`. Keys: {keys}.\n",
                table.path,
                paragraph(table.documentation),
            );
        }
        Description::Setting { .. } => {}
    }
}

fn has_settings(entries: &[Described]) -> bool {
    entries.iter().any(|entry| matches!(entry.description, Description::Setting { .. }))
}

fn write_row(page: &mut String, entry: &Described) {
    let Description::Setting { values, default, example, is_required, reload } = &entry.description
    else {
        return;
    };
    let default = match default {
        _ if *is_required => format!("*required* (`{example}`)"),
        Some(default) => format!("`{default}`"),
        None => format!("*none* (`{example}`)"),
    };
    let key = format!("`{}`", entry.key);
    let cells = [key, values.clone(), default, reload.to_string(), paragraph(entry.documentation)];
    let _ = writeln!(page, "| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
}

/// The lines of a text as one.
fn paragraph(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

/// The sample: a file with every setting, its documentation and its default.
#[must_use]
pub fn sample() -> String {
    let mut out = SAMPLE_HEAD.to_owned();
    for table in describe() {
        let _ = write!(out, "\n# {:-<98}\n", format!("---- {} ", title(table.key)));
        write_sample(&mut out, &table);
    }
    out
}

fn write_sample(out: &mut String, table: &Described) {
    match &table.description {
        Description::Table { documentation, is_item, is_present, entries } => {
            out.push('\n');
            write_comment(out, documentation);
            let mark = if *is_present { "" } else { "#" };
            if *is_item {
                let _ = writeln!(out, "{mark}[[{}]]", table.path);
            } else if has_settings(entries) {
                let _ = writeln!(out, "[{}]", table.path);
            }
            entries.iter().for_each(|entry| write_sample_setting(out, entry, mark));
            entries.iter().for_each(|entry| write_sample(out, entry));
        }
        Description::Entries { keys, values, example, reload } => {
            out.push('\n');
            write_comment(out, table.documentation);
            write_comment(out, &facts(values, *reload));
            write_comment(out, &format!("Keys: {keys}."));
            let _ = writeln!(out, "[{}]\n#{example}", table.path);
        }
        Description::Setting { .. } => {}
    }
}

fn write_sample_setting(out: &mut String, entry: &Described, mark: &str) {
    let Description::Setting { values, default, example, is_required, reload } = &entry.description
    else {
        return;
    };
    write_comment(out, entry.documentation);
    write_comment(out, &facts(values, *reload));
    let (mark, value) = match default {
        Some(default) => (mark, default),
        None if *is_required => (mark, example),
        None => ("#", example),
    };
    let _ = writeln!(out, "{mark}{} = {value}", entry.key);
}

/// The type of a setting and when it takes effect.
fn facts(values: &str, reload: Reload) -> String {
    let values = values.replace('`', "");
    let takes_effect = match reload {
        Reload::Restart(_) => "Takes effect at restart.",
        Reload::NewFaces => "Takes effect at reload, for new faces.",
        Reload::Live => "Takes effect at reload.",
    };
    format!("Values: {values}. {takes_effect}")
}

/// Writes a text as comment, in lines of at most 100 characters.
fn write_comment(out: &mut String, text: &str) {
    const WIDTH: usize = 100;
    let mut line = String::from("#");
    for word in text.split_whitespace() {
        if line.len() + 1 + word.len() > WIDTH && line.len() > 1 {
            let _ = writeln!(out, "{line}");
            line = String::from("#");
        }
        let _ = write!(line, " {word}");
    }
    let _ = writeln!(out, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{parse, read};

    /// The settings, with their tables.
    fn settings(tables: &[Described]) -> Vec<Described> {
        let of = |entry: &Described| match &entry.description {
            Description::Table { entries, .. } => settings(entries),
            Description::Setting { .. } | Description::Entries { .. } => vec![entry.clone()],
        };
        tables.iter().flat_map(of).collect()
    }

    /// The sample with the settings that it shows commented out switched on.
    fn full_sample() -> String {
        let is_setting = |rest: &&str| {
            rest.starts_with("[[") || rest.starts_with(|c: char| c.is_ascii_lowercase())
        };
        let line =
            |line| str::strip_prefix(line, "#").filter(is_setting).unwrap_or(line).to_owned();
        sample().lines().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn committed_page_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/configuration.md");
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(page == reference(), "run `make reference`, which writes {path}");
    }

    #[test]
    fn sample_has_the_defaults() {
        assert_eq!(parse("sample", &sample()).unwrap(), Config::default());
    }

    #[test]
    fn sample_shows_every_setting() {
        let sample = full_sample();
        let (_, problems) = read(&sample).unwrap();
        // Settings that exclude each other are shown together.
        let is_expected =
            |message: &str| ["only Ethernet", "only rules"].iter().any(|one| message.contains(one));
        assert!(problems.iter().all(|problem| is_expected(&problem.message)), "{problems:?}");
        let document: toml::Table = sample.parse().unwrap();
        for setting in settings(&describe()) {
            let mut value = Some(toml::Value::Table(document.clone()));
            for part in setting.path.split('.') {
                value = value.and_then(|value| {
                    let table = value.as_array().map_or(Some(&value), |items| items.first());
                    table?.get(part).cloned()
                });
            }
            assert!(value.is_some(), "the sample lacks {}", setting.path);
        }
    }

    #[test]
    fn reference_has_a_row_for_every_setting() {
        let page = reference();
        for setting in settings(&describe()) {
            let section = setting.path.strip_suffix(&format!(".{}", setting.key)).unwrap();
            if let Description::Setting { values, .. } = &setting.description {
                let heading = |heading: &&str| heading.trim_matches(['[', ']']) == section;
                let mut tables = page.split("\n### `");
                let table =
                    tables.find(|table| table.split('`').next().as_ref().is_some_and(heading));
                let table = table.unwrap();
                let row = format!("| `{}` | {} |", setting.key, values.replace('|', "\\|"));
                assert!(table.contains(&row), "{}: {row}", setting.path);
            }
        }
    }

    #[test]
    fn every_setting_has_documentation() {
        for setting in settings(&describe()) {
            let text = setting.documentation.trim();
            assert!(text.ends_with('.') && text.len() > 8, "{}: {text}", setting.path);
        }
    }
}
