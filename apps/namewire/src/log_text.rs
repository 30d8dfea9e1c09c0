//! The text of log lines.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;

use crate::cli::output::without_control;

/// The text of an event, and its fields as `name=value`, separated by commas.
#[derive(Debug, Default)]
pub(crate) struct Text {
    pub(crate) message: String,
    pub(crate) fields: String,
}

impl Text {
    /// The fields follow the message after a colon: otherwise they would continue its last clause.
    pub(crate) fn joined(self) -> String {
        match (self.message.is_empty(), self.fields.is_empty()) {
            (_, true) => self.message,
            (true, false) => self.fields,
            (false, false) => format!("{}: {}", self.message, self.fields),
        }
    }
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let comma = if self.fields.is_empty() { "" } else { ", " };
        // Writing to a String does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, "{comma}{name}={value:?}"),
        };
    }
}

/// Writes the text of events, with escapes for control characters.
#[derive(Debug)]
pub(crate) struct TextFields;

impl<'writer> FormatFields<'writer> for TextFields {
    fn format_fields<R: RecordFields>(
        &self,
        mut writer: Writer<'writer>,
        fields: R,
    ) -> fmt::Result {
        let mut text = Text::default();
        fields.record(&mut text);
        writer.write_str(&without_control(&text.joined()))
    }
}
