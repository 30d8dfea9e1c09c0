//! Tables on standard output.

use std::io::{self, Write};

/// Columns between two columns of a table.
const GAP: usize = 2;
/// Columns by which further lines of a row are indented.
const INDENT: usize = 4;
/// Minimum width of a last column whose text takes several lines.
const WRAPPED_MIN: usize = 24;

/// A table with headings. Columns are as wide as their widest cell. On a terminal, columns that do not fit a line are in
/// further, indented lines of their row, and a text that does not fit its line is wrapped. No cell is shortened: rows stay
/// different, and names can be copied.
#[derive(Debug)]
pub struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// Rows have one line each.
    is_whole: bool,
}

/// The columns of a line of each row, with their widths.
type Line = Vec<(usize, usize)>;

impl Table {
    /// A table with these columns. A heading that begins with `>` aligns its column to the right.
    pub fn new(headings: &[&'static str]) -> Self {
        Self { headings: headings.to_vec(), rows: Vec::new(), is_whole: false }
    }

    /// The table with one line for each row, as long as that may be.
    pub fn whole(self) -> Self {
        Self { is_whole: true, ..self }
    }

    /// Adds a row, one cell for each heading.
    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.headings.len());
        self.rows.push(cells);
    }

    /// Writes the table, or `nothing` if it has no rows.
    pub fn print(&self, nothing: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if self.rows.is_empty() {
            return writeln!(out, "{nothing}");
        }
        out.write_all(self.render(terminal_columns()).as_bytes())
    }

    pub(in crate::cli) fn render(&self, line_len_max: Option<usize>) -> String {
        let headings = self.headings.iter().map(|heading| heading.trim_start_matches('>'));
        let headings: Vec<String> = headings.map(str::to_owned).collect();
        let lines = self.lines(line_len_max.filter(|_| !self.is_whole));
        let mut text = String::new();
        for row in std::iter::once(&headings).chain(&self.rows) {
            for (number, line) in lines.iter().enumerate() {
                let indent = if number == 0 { 0 } else { INDENT };
                self.render_line(row, line, indent, &mut text);
            }
        }
        text
    }

    /// Appends the cells of a line of a row. It takes several lines if texts are wrapped.
    fn render_line(&self, row: &[String], line: &Line, indent: usize, text: &mut String) {
        let cells: Vec<_> =
            line.iter().map(|(column, width)| wrapped(&row[*column], *width)).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        for position in 0..height {
            let mut shown = " ".repeat(indent);
            for ((column, width), cell) in line.iter().zip(&cells) {
                let cell = cell.get(position).map_or("", String::as_str);
                let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
                let is_right = self.headings[*column].starts_with('>');
                let (first, second) = if is_right { (&*padding, cell) } else { (cell, &*padding) };
                shown.extend([first, second, &" ".repeat(GAP)]);
            }
            let shown = shown.trim_end();
            // Each row has its first line.
            if indent == 0 || !shown.is_empty() {
                text.push_str(shown);
                text.push('\n');
            }
        }
    }

    /// Divides the columns between lines of at most `limit` characters: one line, if all fit it.
    fn lines(&self, limit: Option<usize>) -> Vec<Line> {
        let limit = limit.unwrap_or(usize::MAX);
        let (mut lines, mut line) = (Vec::new(), Line::new());
        let mut used = 0;
        for (column, heading) in self.headings.iter().enumerate() {
            let cells = self.rows.iter().map(|row| row[column].as_str());
            let cells = cells.chain([heading.trim_start_matches('>')]);
            let length = |text: &str| text.chars().count();
            let width = cells.clone().map(length).max().unwrap_or(0);
            let is_last_text = column + 1 == self.headings.len() && !heading.starts_with('>');
            let width_min = match is_last_text {
                true => cells.flat_map(words).map(length).max().unwrap_or(0).max(WRAPPED_MIN),
                false => width,
            };
            let begin = if line.is_empty() { 0 } else { used + GAP };
            let fits = line.is_empty() || begin.saturating_add(width.min(width_min)) <= limit;
            let begin = if fits { begin } else { INDENT };
            if !fits {
                lines.push(std::mem::take(&mut line));
            }
            let width = width.min(limit.saturating_sub(begin));
            line.push((column, width));
            used = begin + width;
        }
        lines.push(line);
        lines
    }
}

/// Columns of the terminal, if standard output is one.
fn terminal_columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Writes a text. On a terminal, it takes several lines if it does not fit one; these are indented.
pub(in crate::cli) fn print_text(text: &str) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{}", filled(text, terminal_columns()))
}

fn filled(text: &str, columns: Option<usize>) -> String {
    match columns.filter(|columns| text.chars().count() > *columns) {
        Some(columns) => {
            wrapped(text, columns.saturating_sub(INDENT)).join(&format!("\n{:INDENT$}", ""))
        }
        None => text.to_owned(),
    }
}

/// The text in lines of at most `width` characters. A longer word stays whole.
pub(in crate::cli) fn wrapped(text: &str, width: usize) -> Vec<String> {
    if text.chars().count() <= width {
        return vec![text.to_owned()];
    }
    let mut lines: Vec<String> = Vec::new();
    for word in words(text) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The parts of a text that stay in one line: words, and numbers (`faces 1 234`, `2.2 KiB`) with those beside them, but for a
/// comma or semicolon between them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let all = rest.take()?;
        let is_end = |at: usize| {
            let (before, next) = (&all[..at], &all[at + 1..]);
            let is_digit = |one: char| one.is_ascii_digit();
            let is_joined = match (before.ends_with(is_digit), next.starts_with(is_digit)) {
                (true, true) => are_groups(before, next),
                (true, false) => next.starts_with(char::is_alphanumeric),
                (false, is_before_number) => is_before_number && !before.ends_with([',', ';']),
            };
            !is_joined
        };
        let Some((end, _)) = all.match_indices(' ').find(|(at, _)| is_end(*at)) else {
            return Some(all);
        };
        rest = Some(&all[end + 1..]);
        Some(&all[..end])
    })
}

/// Whether there is one number around a space, whose digits are in groups of three.
fn are_groups(before: &str, next: &str) -> bool {
    let digits =
        |text: &mut dyn Iterator<Item = char>| text.take_while(char::is_ascii_digit).count();
    digits(&mut before.chars().rev()) <= 3 && digits(&mut next.chars()) == 3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(headings: &[&'static str], rows: &[&[&str]]) -> Table {
        let mut table = Table::new(headings);
        rows.iter().for_each(|row| table.row(row.iter().map(ToString::to_string).collect()));
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let table = table(&["NAME", ">COST"], &[&["/a", "1"], &["/example/long", "100000"]]);
        let expected = "NAME             COST\n\
                        /a                  1\n\
                        /example/long  100000\n";
        assert_eq!(table.render(None), expected);
        assert_eq!(table.render(Some(21)), expected);
        assert_eq!(table.whole().render(Some(1)), expected);
    }

    #[test]
    fn columns_that_do_not_fit_a_line_are_in_further_lines() {
        let rows: [&[&str]; 2] = [
            &["reassembly_table_bytes", "1 000 KiB", "2", "7"],
            &["reassembly_queue_bytes", "3", "4", "70"],
        ];
        let table = table(&["RESOURCE", ">USED", ">CAPACITY", ">SHARE"], &rows);
        assert_eq!(
            table.render(Some(40)),
            "RESOURCE                     USED\n    \
             CAPACITY  SHARE\n\
             reassembly_table_bytes  1 000 KiB\n           \
             2      7\n\
             reassembly_queue_bytes          3\n           \
             4     70\n"
        );
    }

    #[test]
    fn long_names_are_whole() {
        let long = format!("/begin{}/end", "/x".repeat(500));
        let rows: [&[&str]; 3] = [&[&long, "12", "7"], &["/short", "1", "100000"], &["/", "", ""]];
        let shown = table(&["NAME", "FACE", ">COST"], &rows).render(Some(40));
        let lines = [
            "NAME",
            "    FACE    COST",
            &long,
            "    12         7",
            "/short",
            "    1     100000",
            "/",
        ];
        assert_eq!(shown.lines().collect::<Vec<_>>(), lines);
    }

    #[test]
    fn last_text_is_wrapped_within_its_column() {
        let holds = "dataset_bytes 2.2 KiB, pit_entries 1 234, routes 2, faces 1";
        let rows: [&[&str]; 2] =
            [&["process 4711 (namewire) of alice", holds], &["management", "-"]];
        let table = table(&["PRINCIPAL", "HOLDS"], &rows);
        assert_eq!(
            table.render(Some(60)),
            "PRINCIPAL                         HOLDS\n\
             process 4711 (namewire) of alice  dataset_bytes 2.2 KiB,\n                                  \
             pit_entries 1 234,\n                                  \
             routes 2, faces 1\n\
             management                        -\n"
        );
    }

    #[test]
    fn texts_below_tables_fit_the_terminal() {
        let text = "tcp4://192.0.2.1:6363 is being created, next in 8 s; last: Connection refused";
        let shown = filled(text, Some(50));
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(
            lines,
            [
                "tcp4://192.0.2.1:6363 is being created, next",
                "    in 8 s; last: Connection refused",
            ]
        );
        assert_eq!([filled(text, Some(80)), filled(text, None)], [text, text]);
    }

    #[test]
    fn lists_of_numbers_are_wrapped() {
        for (text, width, expected) in [
            ("300: 2.0, 301: 0.0, 302: 1.5", 20, &["300: 2.0, 301: 0.0,", "302: 1.5"][..]),
            ("1, 2, 4, 8, 16", 8, &["1, 2, 4,", "8, 16"]),
            ("1 2 4 8 16", 5, &["1 2 4", "8 16"]),
            ("routes 1 234 567; faces 2 KiB", 18, &["routes 1 234 567;", "faces 2 KiB"]),
        ] {
            assert_eq!(wrapped(text, width), expected, "{text}");
        }
    }
}
