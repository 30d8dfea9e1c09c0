//! Writes tables and settings as TOML.

use std::fmt::Write as _;

/// A TOML document that is being written.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    out: String,
    /// The header of the current table, until its first setting is written.
    header: Option<String>,
}

impl Writer {
    /// Begins a table, whose header is written with its first setting.
    pub(crate) fn begin_table(&mut self, path: &str) {
        self.header = (!path.is_empty()).then(|| format!("[{path}]"));
    }

    /// Begins a table of an array, which is written even if it has no settings.
    pub(crate) fn begin_item(&mut self, path: &str) {
        self.header = Some(format!("[[{path}]]"));
        self.write_header();
    }

    /// Writes a setting.
    pub(crate) fn write(&mut self, key: &str, value: &str) {
        self.write_header();
        let _ = writeln!(self.out, "{key} = {value}");
    }

    /// The document.
    pub(crate) fn finish(self) -> String {
        self.out
    }

    fn write_header(&mut self) {
        if let Some(header) = self.header.take() {
            let gap = if self.out.is_empty() { "" } else { "\n" };
            let _ = writeln!(self.out, "{gap}{header}");
        }
    }
}
