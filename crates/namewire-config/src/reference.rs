//! The configuration reference: what the sample explains, with the values that the reader takes.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::reader::Value;
use super::{SAMPLE, schema};

/// Begins the page.
const HEAD: &str = "# Configuration reference

Every setting of the TOML file that `namewire run --config FILE` reads. This page is what
`namewire config reference` prints, made from the program; `namewire config sample` prints the same as a
file to start from. No table is required; a table that may come as often as needed (`[[…]]`) has keys that are,
where it is there. `namewire config check FILE` tells what is wrong with a file, `namewire config convert FILE` what
an nfd.conf becomes.

Sizes are whole numbers with a unit (`\"64KiB\"`, `\"16MiB\"`, `\"1GB\"`; a plain number counts bytes), durations
likewise (`\"20us\"`, `\"250ms\"`, `\"5s\"`, `\"10min\"`, `\"1h\"`). A default of *none* has no value, and *required* has
none to fall back to; what stands beside is an example. A cell that is empty belongs to the explanation above it.
";

/// The sample with the settings that it shows commented out switched on.
pub(super) fn full_sample() -> String {
    let lines = SAMPLE.lines().map(|line| hidden(line).unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

/// A setting or table that is commented out: right behind the `#`.
fn hidden(line: &str) -> Option<&str> {
    let is_setting =
        |rest: &&str| rest.starts_with("[[") || rest.starts_with(|c: char| c.is_ascii_lowercase());
    line.strip_prefix('#').filter(is_setting)
}

/// The page, in Markdown.
///
/// The examples and explanations are those of the sample; kinds and bounds are those of the reader.
#[must_use]
pub fn reference() -> String {
    let (_, _, values) = schema::read_with_values(&full_sample());
    let mut page = Page { out: HEAD.to_owned(), values, ..Page::default() };
    // What comes before the first headline is about the file as a whole.
    for line in SAMPLE.lines().skip_while(|line| !line.starts_with("# ----")) {
        page.add(line);
    }
    page.out
}

/// The keys of all settings, as dotted paths.
pub fn keys() -> Vec<String> {
    let (_, _, values) = schema::read_with_values(&full_sample());
    values.into_iter().filter(|(_, value)| value.kind.is_some()).map(|(key, _)| key).collect()
}

#[derive(Default)]
struct Page {
    out: String,
    values: BTreeMap<String, Value>,
    /// The table that settings are in, as a dotted path.
    table: String,
    /// Whether rows of settings are being written.
    in_rows: bool,
    /// What was explained and not yet made use of.
    comment: Vec<String>,
}

impl Page {
    fn add(&mut self, line: &str) {
        let setting = hidden(line).unwrap_or(line);
        let is_hidden = hidden(line).is_some();
        if let Some(title) = line.strip_prefix("# ----") {
            self.text();
            let _ = write!(self.out, "\n## {}\n", title.trim_matches(['-', ' ']));
            self.in_rows = false;
        } else if line.is_empty() {
            self.text();
        } else if setting.starts_with('[') {
            self.heading(setting);
        } else if let Some((key, example)) = setting.split_once(" = ")
            && (is_hidden || !line.starts_with('#'))
        {
            self.row(key, example, is_hidden);
        } else {
            self.comment.push(line.trim_start_matches(['#', ' ']).to_owned());
        }
    }

    /// An explanation that stands by itself.
    fn text(&mut self) {
        if !self.comment.is_empty() {
            let _ = write!(self.out, "\n{}\n", self.comment.join("\n"));
            self.comment.clear();
            self.in_rows = false;
        }
    }

    fn heading(&mut self, line: &str) {
        self.table = line.trim_matches(['[', ']']).to_owned();
        let _ = write!(self.out, "\n### `{line}`\n");
        self.in_rows = false;
        self.text();
    }

    fn row(&mut self, key: &str, example: &str, is_hidden: bool) {
        if !self.in_rows {
            self.out.push_str("\n| setting | values | default | |\n|---|---|---|---|\n");
            self.in_rows = true;
        }
        let path = format!("{}.{key}", self.table);
        // Tables whose keys are not fixed are known as a whole.
        let value = self.values.get(&path).cloned().unwrap_or_default();
        let mut kind = value.kind.unwrap_or_else(|| "level, as above".to_owned());
        if let Some((low, high)) = value.range {
            let _ = write!(kind, ", {low} to {high}");
        }
        let default = match (value.is_required, is_hidden) {
            (true, _) => format!("*required* (`{example}`)"),
            (false, false) => format!("`{example}`"),
            (false, true) => format!("*none* (`{example}`)"),
        };
        let meaning = std::mem::take(&mut self.comment).join(" ");
        let cells =
            [format!("`{key}`"), kind, default, meaning].map(|cell| cell.replace('|', "\\|"));
        let _ = writeln!(self.out, "| {} |", cells.join(" | "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_in_docs_is_what_the_program_prints() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/configuration.md");
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            page == reference(),
            "run `make reference`, which writes docs/reference/configuration.md anew"
        );
    }

    #[test]
    fn every_setting_has_a_row_with_its_values() {
        let page = reference();
        let (_, _, values) = schema::read_with_values(&full_sample());
        for (path, value) in values {
            let Some(kind) = value.kind else { continue };
            let key = path.rsplit('.').next().unwrap();
            let row = |line: &str| {
                line.starts_with(&format!("| `{key}` |"))
                    && line.contains(&kind.replace('|', "\\|"))
            };
            assert!(page.lines().any(row), "{path}: {kind}");
            if value.is_required {
                let is_told = |line: &str| row(line) && line.contains("*required*");
                assert!(page.lines().any(is_told), "{path}");
            }
        }
    }
}
