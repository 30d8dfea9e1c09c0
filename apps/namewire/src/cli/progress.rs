//! The clock of commands, and the progress of those that compute for minutes: a bar on a terminal, else a line every half
//! minute.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::output::{self, grouped, span_for_people};

/// Time between two lines.
const LINE_INTERVAL: Duration = Duration::from_secs(30);
/// Time between two updates of the bar, which shows the time that has passed.
const BAR_INTERVAL: Duration = Duration::from_millis(500);

/// The present, for rates and times that people read.
pub(super) fn now() -> Instant {
    Instant::now()
}

/// The text of a line of at most `columns`: the fields that fit it, the most important ones first, then those about a silence.
pub(super) fn fitting(fields: &[String], silence: &[String], columns: usize) -> String {
    let mut text = String::new();
    for (position, field) in fields.iter().chain(silence).enumerate() {
        let gap = match position {
            0 => "",
            _ if position <= fields.len() => "  ",
            _ => " ",
        };
        let length = text.chars().count() + gap.len() + field.chars().count();
        if position > 0 && length > columns {
            break;
        }
        text.extend([gap, field]);
    }
    text
}

/// Notes on standard error while a bar may be shown, which would overwrite them.
#[derive(Clone)]
pub(super) struct Notes(Arc<Writer>);

type Writer = dyn Fn(&dyn fmt::Display) + Send + Sync;

impl Notes {
    /// Notes above a bar.
    pub(super) fn above(bar: &ProgressBar) -> Self {
        Self::written_above(bar, output::note)
    }

    fn written_above(
        bar: &ProgressBar,
        write: impl Fn(&dyn fmt::Display) + Send + Sync + 'static,
    ) -> Self {
        let bar = bar.clone();
        Self(Arc::new(move |text| bar.suspend(|| write(text))))
    }

    pub(super) fn write(&self, text: &dyn fmt::Display) {
        (self.0)(text);
    }
}

impl Default for Notes {
    fn default() -> Self {
        Self(Arc::new(output::note))
    }
}

impl fmt::Debug for Notes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Notes")
    }
}

/// The progress of a computation whose parts are counted.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    /// Such as `runs`.
    parts: &'static str,
    /// The time of the last line.
    noted: Mutex<Instant>,
}

impl Progress {
    pub(super) fn new(total: usize, parts: &'static str) -> Self {
        // It draws nothing unless standard error is a terminal.
        let bar = ProgressBar::new(total as u64);
        if !bar.is_hidden() {
            let template = format!(
                "{{bar:25}} {{pos}} of {{len}} {parts}, {{elapsed}} passed, about {{eta}} left"
            );
            let style = ProgressStyle::with_template(&template);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.enable_steady_tick(BAR_INTERVAL);
        }
        Self { bar, parts, noted: Mutex::new(now()) }
    }

    /// One more part is done.
    pub(super) fn add(&self) {
        self.bar.inc(1);
        self.note();
    }

    /// This many parts are done.
    pub(super) fn set(&self, done: usize) {
        self.bar.set_position(done as u64);
        self.note();
    }

    /// Removes the bar.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn note(&self) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if self.bar.is_hidden() && noted.elapsed() >= LINE_INTERVAL {
            *noted = now();
            output::note(&format_args!("namewire: {}", self.line()));
        }
    }

    fn line(&self) -> String {
        let passed = span_for_people(ndn_types::duration_ms(self.bar.elapsed()));
        let (done, total) = (self.bar.position(), self.bar.length().unwrap_or_default());
        format!("{} of {} {} after {passed}", grouped(done), grouped(total), self.parts)
    }
}

/// A terminal of some columns for tests of what it shows.
#[cfg(test)]
#[derive(Clone, Debug)]
pub(super) struct Screen {
    columns: usize,
    shown: Arc<Mutex<Characters>>,
}

/// The characters of a terminal, and its cursor.
#[cfg(test)]
#[derive(Debug, Default)]
struct Characters {
    rows: Vec<Vec<char>>,
    row: usize,
    column: usize,
}

#[cfg(test)]
impl Screen {
    pub(super) fn new(columns: u16) -> Self {
        Self { columns: columns.into(), shown: Arc::default() }
    }

    pub(super) fn bar(&self) -> ProgressBar {
        let target = indicatif::ProgressDrawTarget::term_like(Box::new(self.clone()));
        ProgressBar::with_draw_target(Some(1), target)
    }

    /// Notes to it above a bar of it.
    pub(super) fn notes_above(&self, bar: &ProgressBar) -> Notes {
        let screen = self.clone();
        Notes::written_above(bar, move |text| screen.write(&format!("{text}\n")))
    }

    /// The lines down to the last one that is not empty.
    pub(super) fn lines(&self) -> Vec<String> {
        let shown = self.shown.lock().unwrap();
        let lines = shown.rows.iter().map(|row| String::from_iter(row).trim_end().to_owned());
        let mut lines: Vec<_> = lines.collect();
        while lines.pop_if(|line| line.is_empty()).is_some() {}
        lines
    }

    fn write(&self, text: &str) {
        let mut shown = self.shown.lock().unwrap();
        let Characters { rows, row, column } = &mut *shown;
        for one in text.chars() {
            // A character after the last column begins the next line.
            if one == '\n' || *column == self.columns {
                (*row, *column) = (*row + 1, 0);
            }
            if matches!(one, '\n' | '\r') {
                *column = 0;
                continue;
            }
            rows.resize(rows.len().max(*row + 1), Vec::new());
            let line = &mut rows[*row];
            line.resize(line.len().max(*column + 1), ' ');
            line[*column] = one;
            *column += 1;
        }
    }
}

#[cfg(test)]
impl indicatif::TermLike for Screen {
    fn width(&self) -> u16 {
        u16::try_from(self.columns).unwrap()
    }

    fn move_cursor_up(&self, lines: usize) -> std::io::Result<()> {
        self.shown.lock().unwrap().row -= lines;
        Ok(())
    }

    fn move_cursor_down(&self, lines: usize) -> std::io::Result<()> {
        self.shown.lock().unwrap().row += lines;
        Ok(())
    }

    fn move_cursor_right(&self, columns: usize) -> std::io::Result<()> {
        self.shown.lock().unwrap().column += columns;
        Ok(())
    }

    fn move_cursor_left(&self, columns: usize) -> std::io::Result<()> {
        self.shown.lock().unwrap().column -= columns;
        Ok(())
    }

    fn write_line(&self, text: &str) -> std::io::Result<()> {
        self.write(&format!("{text}\n"));
        Ok(())
    }

    fn write_str(&self, text: &str) -> std::io::Result<()> {
        self.write(text);
        Ok(())
    }

    fn clear_line(&self) -> std::io::Result<()> {
        let mut shown = self.shown.lock().unwrap();
        let row = shown.row;
        shown.rows.get_mut(row).into_iter().for_each(Vec::clear);
        shown.column = 0;
        Ok(())
    }

    fn flush(&self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_do_not_fit_a_line_are_left_out_whole() {
        let fields = ["1.0 MiB", "5.0 MiB/s", "rtt 12.3 ms"].map(str::to_owned);
        let of = |columns| fitting(&fields, &[], columns);
        assert_eq!(of(31), "1.0 MiB  5.0 MiB/s  rtt 12.3 ms");
        assert_eq!([of(30), of(18)], ["1.0 MiB  5.0 MiB/s"; 2]);
        assert_eq!([of(17), of(0)], ["1.0 MiB"; 2]);
        let silence = ["no answer for 6 s", "via face 288"].map(str::to_owned);
        let of = |columns| fitting(&fields[..1], &silence, columns);
        assert_eq!(of(39), "1.0 MiB  no answer for 6 s via face 288");
        assert_eq!(of(38), "1.0 MiB  no answer for 6 s");
    }

    #[test]
    fn line_counts_the_parts_that_are_done() {
        let progress = Progress::new(1200, "runs");
        progress.add();
        assert!(progress.line().starts_with("1 of 1 200 runs after "), "{}", progress.line());
        progress.set(1200);
        assert!(progress.line().starts_with("1 200 of 1 200 runs after "), "{}", progress.line());
        progress.end();
    }
}
