//! Tables, lines and JSON on standard output, and notes on standard error.

mod table;

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use ndn_counters::LinkDropReason;
use ndn_forwarding::DropReason;
use serde_json::{Value, json};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use crate::config::text::without_numbers;
use namewire_control::MemifRefusal;
pub use table::Table;
pub(super) use table::{print_text, wrapped};

/// Whether standard error is a log whose lines are JSON.
static IS_JSON_LOG: AtomicBool = AtomicBool::new(false);

/// Lets [`note`] write lines of JSON, as those of the log of this process on standard error.
pub fn note_as_json_lines() {
    IS_JSON_LOG.store(true, Ordering::Relaxed);
}

/// Writes lines to standard error, without characters that could change the terminal: names of others are in them. Errors are ignored.
pub fn note(text: &dyn std::fmt::Display) {
    let text = without_numbers(&text.to_string());
    if IS_JSON_LOG.load(Ordering::Relaxed) {
        let line = escaped_json(&json_line(&text).to_string());
        let _ = writeln!(io::stderr().lock(), "{line}");
        return;
    }
    let lines: Vec<_> = text.split('\n').map(without_control).collect();
    let _ = writeln!(io::stderr().lock(), "{}", lines.join("\n"));
}

/// Writes a warning to standard error. Each line begins with the name of the program, as those of failures do.
pub fn warn(text: &dyn std::fmt::Display) {
    let text = text.to_string().replace('\n', "\nnamewire: ");
    note(&format_args!("namewire: warning: {text}"));
}

/// A note as a line of a JSON log.
pub fn json_line(text: &str) -> Value {
    let mut time = String::new();
    // Writing to a String does not fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    let text = text.strip_prefix("namewire: ").unwrap_or(text).replace("\nnamewire: ", "\n");
    let (level, message) = match text.strip_prefix("warning: ") {
        Some(warning) => ("warn", warning),
        None => ("error", text.as_str()),
    };
    json!({ "time": time, "level": level, "module": "namewire", "message": message })
}

/// A drop reason in words; JSON has the name of the counter.
pub(super) fn reason_in_words(reason: &str) -> String {
    let of_faces = LinkDropReason::ALL.into_iter().map(LinkDropReason::info);
    let of_memif = MemifRefusal::ALL.into_iter().map(MemifRefusal::info);
    let of_shards = DropReason::ALL.into_iter().map(DropReason::info);
    let mut reasons = of_faces.chain(of_shards).chain(of_memif);
    let words = reasons.find(|info| info.name == reason).and_then(|info| info.words);
    words.map_or_else(|| reason.replace('_', " "), str::to_owned)
}

/// Columns of the terminal that shows progress; 80 if they are unknown.
pub(super) fn progress_columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(80)
}

/// Bytes in at most four characters, as `ls -h` shows them: `999`, `1.2K`, `340M`.
pub(super) fn bytes_in_four(bytes: u64) -> String {
    let (mut unit, mut amount) = (' ', u128::from(bytes) * 10);
    // Tenths; a further unit where the whole part would have four digits.
    for next in ['K', 'M', 'G', 'T', 'P', 'E'] {
        if amount < 10_000 {
            break;
        }
        (unit, amount) = (next, amount / 1024);
    }
    match (unit, amount) {
        (' ', amount) => (amount / 10).to_string(),
        (unit, 0..100) => format!("{}.{}{unit}", amount / 10, amount % 10),
        (unit, amount) => format!("{}{unit}", amount / 10),
    }
}

/// Lines of `label: value`, the values in one column.
pub(super) fn print_fields(fields: &[(&str, String)]) -> io::Result<()> {
    let width = fields.iter().map(|(label, _)| label.len()).max().unwrap_or(0) + 1;
    let mut out = io::stdout().lock();
    for (label, value) in fields {
        writeln!(out, "{:<width$} {value}", format!("{label}:"))?;
    }
    Ok(())
}

/// One line of text.
pub fn print_line(line: &str) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{line}")
}

/// Version of the form of JSON (docs/reference/json.md). A field that is added does not change it.
pub(super) const JSON_SCHEMA: u64 = 1;

/// A JSON value, laid out over lines; an object, and each object of a list, states its version.
pub fn print_json(value: &Value) -> io::Result<()> {
    print_line(&json_text(value))
}

/// The text of [`print_json`].
pub(super) fn json_text(value: &Value) -> String {
    escaped_json(&format!("{:#}", with_schema(value.clone())))
}

/// An object of a stream of JSON, in one line.
pub(super) fn print_json_line(value: Value) -> io::Result<()> {
    print_line(&json_text_of_line(value))
}

/// The text of [`print_json_line`].
pub(super) fn json_text_of_line(value: Value) -> String {
    escaped_json(&with_schema(value).to_string())
}

fn with_schema(mut value: Value) -> Value {
    let objects = if let Value::Array(elements) = &mut value {
        elements.as_mut_slice()
    } else {
        std::slice::from_mut(&mut value)
    };
    for fields in objects.iter_mut().filter_map(Value::as_object_mut) {
        fields.insert("schema".to_owned(), JSON_SCHEMA.into());
    }
    value
}

/// A count with its digits in groups of three: `1 234 567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped
}

/// A count and what is counted: `1 packet`, `2 packets`.
pub fn counted(number: u64, one: &str) -> String {
    let ending = match number {
        1 => "",
        _ if one.ends_with(['s', 'x']) || one.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{} {one}{ending}", grouped(number))
}

/// Bytes in a suitable unit: `10.0 MiB`.
#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
pub(super) fn bytes_for_people(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut amount = bytes as f64 / 1024.0;
    let mut unit = 0;
    while amount >= 1023.95 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    format!("{amount:.1} {}", UNITS[unit])
}

/// A duration in at most two units: `3 d 4 h`, `250 ms`.
pub(super) fn span_for_people(milliseconds: u64) -> String {
    const UNITS: [(&str, u64); 4] =
        [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)];
    let Some(first) = UNITS.iter().position(|(_, length)| milliseconds >= *length) else {
        return format!("{milliseconds} ms");
    };
    let (unit, length) = UNITS[first];
    let mut text = format!("{} {unit}", milliseconds / length);
    if let Some((next_unit, next_length)) = UNITS.get(first + 1) {
        let rest = milliseconds % length / next_length;
        if rest > 0 {
            text.push_str(&format!(" {rest} {next_unit}"));
        }
    }
    text
}

/// Whether a character could change the terminal, or the order of others in a line.
pub(super) fn changes_terminal(character: char) -> bool {
    let reorders = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    character.is_control() || reorders
}

/// JSON of one or more lines, with escapes for characters that could change the terminal.
fn escaped_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        match character != '\n' && changes_terminal(character) {
            true => shown.push_str(&format!("\\u{:04x}", u32::from(character))),
            false => shown.push(character),
        }
    }
    shown
}

/// `text` with escapes for characters that could change the terminal.
pub(crate) fn without_control(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match changes_terminal(character) {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn note_in_a_json_log_is_a_line_of_it() {
        let line = json_line("namewire: warning: a \"b\"");
        assert_eq!((&line["level"], &line["message"]), (&json!("warn"), &json!("a \"b\"")));
        let line = json_line("namewire: one\nnamewire: two");
        assert_eq!((&line["level"], &line["message"]), (&json!("error"), &json!("one\ntwo")));
        assert_eq!(line.to_string().lines().count(), 1);
        assert!(line["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{line}");
    }

    #[test]
    fn objects_and_those_of_lists_state_the_version_of_the_form() {
        let read = |value| serde_json::from_str::<Value>(&json_text(&value)).unwrap();
        let (a, b) = (serde_json::json!({ "a": 1 }), serde_json::json!({ "a": 1, "schema": 1 }));
        assert_eq!(read(a.clone()), b);
        assert_eq!(read(serde_json::json!([a, 2])), serde_json::json!([b, 2]));
        assert_eq!(read(serde_json::json!([])), serde_json::json!([]));
    }

    #[test]
    fn json_stays_valid_without_characters_that_change_a_terminal() {
        let value = json!({ "name": "a\u{7f}\u{9b}\u{202e}\n\"ü" });
        for text in [json_text(&value), json_text_of_line(value.clone())] {
            let lines: Vec<_> = text.split('\n').map(without_control).collect();
            assert_eq!(lines.join("\n"), text);
            let read: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(read["name"], value["name"]);
        }
    }

    #[test]
    fn bytes_have_four_characters_at_most() {
        for (bytes, shown) in [
            (0, "0"),
            (999, "999"),
            (1000, "0.9K"),
            (1229, "1.2K"),
            (10 << 10, "10K"),
            (1000 << 10, "0.9M"),
            (340 << 20, "340M"),
            (1023 << 30, "0.9T"),
        ] {
            assert_eq!(bytes_in_four(bytes), shown, "{bytes}");
        }
        assert!((0..64).all(|bits| bytes_in_four(u64::MAX >> bits).len() <= 4));
    }

    #[test]
    fn amounts_are_formatted_in_suitable_units() {
        assert_eq!(reason_in_words("too_many_fragments"), "too many fragments");
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1 234 567");
        assert_eq!(counted(0, "packet"), "0 packets");
        assert_eq!(counted(1, "packet"), "1 packet");
        assert_eq!(counted(2, "process"), "2 processes");
        assert_eq!(counted(1000, "packet"), "1 000 packets");
        assert_eq!(bytes_for_people(1023), "1023 B");
        assert_eq!(bytes_for_people(1024), "1.0 KiB");
        assert_eq!(bytes_for_people(10 << 20), "10.0 MiB");
        assert_eq!(bytes_for_people((1 << 20) - 1), "1.0 MiB");
        assert_eq!(span_for_people(0), "0 ms");
        assert_eq!(span_for_people(61_000), "1 min 1 s");
        assert_eq!(span_for_people(90_000_000), "1 d 1 h");
        assert_eq!(span_for_people(86_400_000), "1 d");
        assert_eq!(span_for_people(59_999), "59 s");
    }
}
