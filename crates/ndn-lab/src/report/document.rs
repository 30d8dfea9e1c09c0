//! A document, written as Markdown or as one HTML page.

use core::fmt::Write;

/// A part of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Block {
    /// A heading of level 1 to 3.
    Heading(u8, String),
    Paragraph(String),
    List(Vec<String>),
    /// The first row is the heading.
    Table(Vec<Vec<String>>),
    /// A file name, what the figure shows, and the SVG.
    Figure {
        file: String,
        caption: String,
        svg: String,
    },
    /// Text as it is.
    Code(String),
}

/// Writes Markdown; figures are links to files in `figures/`.
pub(super) fn markdown(blocks: &[Block]) -> String {
    let mut text = String::new();
    for block in blocks {
        match block {
            Block::Heading(level, title) => {
                let marks = "#".repeat(usize::from(*level));
                let _ = write!(text, "{marks} {}\n\n", inline(title));
            }
            Block::Paragraph(paragraph) => {
                let _ = write!(text, "{}\n\n", inline(paragraph));
            }
            Block::List(items) => {
                items.iter().for_each(|item| {
                    let _ = writeln!(text, "- {}", inline(item));
                });
                text.push('\n');
            }
            Block::Table(rows) => {
                for (number, row) in rows.iter().enumerate() {
                    let cells: Vec<String> = row.iter().map(|cell| inline(cell)).collect();
                    let _ = writeln!(text, "| {} |", cells.join(" | "));
                    if number == 0 {
                        let _ = writeln!(text, "|{}", "---|".repeat(row.len()));
                    }
                }
                text.push('\n');
            }
            Block::Figure { file, caption, .. } => {
                let _ = write!(text, "![{}](figures/{file})\n\n", inline(caption));
            }
            Block::Code(code) => {
                // A fence that is longer than any in the text.
                let fence = "`"
                    .repeat(code.split(|c| c != '`').map(str::len).max().unwrap_or(0).max(2) + 1);
                let _ = write!(text, "{fence}text\n{}\n{fence}\n\n", code.trim_end());
            }
        }
    }
    while text.ends_with("\n\n") {
        text.pop();
    }
    text
}

/// Text of a line, with the characters of Markdown's markup escaped.
fn inline(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' => {
                escaped.push('\\');
                escaped.push(character);
            }
            '\n' | '\r' => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

const STYLE: &str = "
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #1b1b1b;
  background: #fff }
h1 { line-height: 1.2 } h2 { border-top: 1px solid #ccc; padding-top: 1rem; margin-top: 2rem }
table { border-collapse: collapse; margin: 1rem 0; font-size: 0.9rem; display: block; overflow-x: auto }
th, td { border-bottom: 1px solid #ddd; padding: 0.25rem 0.75rem; text-align: left; font-variant-numeric: tabular-nums }
th { border-bottom: 2px solid #888 } td.number { text-align: right }
figure { margin: 1rem 0; overflow-x: auto } figcaption { color: #555; font-size: 0.9rem }
pre { background: #f4f4f4; padding: 1rem; overflow-x: auto; font-size: 0.85rem }
";

/// Writes one HTML page that needs no other file.
pub(super) fn html(title: &str, blocks: &[Block]) -> String {
    let title = escape(title);
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n"
    );
    for block in blocks {
        match block {
            Block::Heading(level, title) => {
                let _ = writeln!(text, "<h{level}>{}</h{level}>", escape(title));
            }
            Block::Paragraph(paragraph) => {
                let _ = writeln!(text, "<p>{}</p>", escape(paragraph));
            }
            Block::List(items) => {
                text.push_str("<ul>\n");
                items.iter().for_each(|item| {
                    let _ = writeln!(text, "<li>{}</li>", escape(item));
                });
                text.push_str("</ul>\n");
            }
            Block::Table(rows) => {
                text.push_str("<table>\n");
                for (number, row) in rows.iter().enumerate() {
                    let cells = row.iter().map(|cell| match number {
                        0 => format!("<th scope=\"col\">{}</th>", escape(cell)),
                        _ if is_number(cell) => {
                            format!("<td class=\"number\">{}</td>", escape(cell))
                        }
                        _ => format!("<td>{}</td>", escape(cell)),
                    });
                    let _ = writeln!(text, "<tr>{}</tr>", cells.collect::<String>());
                }
                text.push_str("</table>\n");
            }
            Block::Figure { caption, svg, .. } => {
                let caption = escape(caption);
                let _ = writeln!(
                    text,
                    "<figure role=\"img\" aria-label=\"{caption}\">\n{svg}<figcaption>{caption}</figcaption></figure>"
                );
            }
            Block::Code(code) => {
                let _ = writeln!(text, "<pre>{}</pre>", escape(code));
            }
        }
    }
    text.push_str("</body>\n</html>\n");
    text
}

fn is_number(cell: &str) -> bool {
    cell.trim_start_matches(['-', '−', '+']).starts_with(|c: char| c.is_ascii_digit())
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_texts_is_escaped() {
        let cells = |row: [&str; 2]| row.map(str::to_owned).to_vec();
        let blocks = [
            Block::Heading(1, "a < b".to_owned()),
            Block::Table(vec![cells(["x|y", "z"]), cells(["<script>", "-1.5"])]),
            Block::Figure {
                file: "f.svg".to_owned(),
                caption: "\"c\"".to_owned(),
                svg: "<svg></svg>".to_owned(),
            },
            Block::Code("```\ncode\n".to_owned()),
        ];
        let page = html("a < b", &blocks);
        for part in [
            "<h1>a &lt; b</h1>",
            "<td>&lt;script&gt;</td><td class=\"number\">-1.5</td>",
            "<svg></svg>",
            "aria-label=\"&quot;c&quot;\"",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("<script"));
        assert_eq!(
            markdown(&blocks),
            "# a \\< b\n\n| x\\|y | z |\n|---|---|\n| \\<script\\> | -1.5 |\n\n![\"c\"](figures/f.svg)\n\n\
             ````text\n```\ncode\n````\n"
        );
    }
}
