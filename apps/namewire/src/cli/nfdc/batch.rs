//! Batch files: one command a line, words in quotes or with backslashes, `#` in front of comments,
//! lines that end with a backslash go on.

use std::io::Read;
use std::path::Path;

use super::grammar::{self, Parsed};
use super::session::Exit;

/// Reads the commands of a file, or of standard input for `-`.
pub(super) fn read(file: &str) -> Result<Vec<Parsed>, Exit> {
    let (text, origin) = if file == "-" {
        let mut text = String::new();
        std::io::stdin()
            .lock()
            .read_to_string(&mut text)
            .map_err(crate::config::text_file::in_words)?;
        (text, "standard input")
    } else {
        let text = crate::config::text_file::read(Path::new(file)).map_err(|error| {
            let error = crate::config::text::without_numbers(&error.to_string());
            Exit::new(2, format!("ERROR: Could not open `{file}` batch file ({error})"))
        })?;
        (text, file)
    };
    parse(&text, origin)
}

fn parse(text: &str, origin: &str) -> Result<Vec<Parsed>, Exit> {
    let mut commands = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((mut number, first)) = lines.next() {
        let mut line = first.to_owned();
        while line.chars().rev().filter(|c| *c == '\\').count() % 2 == 1 && line.ends_with('\\') {
            line.pop();
            let Some((next, more)) = lines.next() else { break };
            number = next;
            line.push_str(more);
        }
        let words = words(&line);
        let is_comment = words.first().is_none_or(|word| word.starts_with('#'));
        if is_comment {
            continue;
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        commands.push(grammar::parse(&words).map_err(|message| {
            let number = number + 1;
            Exit::new(
                2,
                format!("{message}\n  >> Syntax error on line {number} of the batch in {origin}"),
            )
        })?);
    }
    Ok(commands)
}

fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => word.extend(chars.next()),
            '"' | '\'' if quote == Some(c) => quote = None,
            '"' | '\'' if quote.is_none() => quote = Some(c),
            ' ' | '\t' if quote.is_none() => words.push(std::mem::take(&mut word)),
            other => word.push(other),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_lines_with_comments_quotes_and_continuations_are_parsed() {
        let text = "# a comment\n\n  face list\nroute add \\\n  \"/a b\" 300\n\tcs\n";
        let commands = parse(text, "x").unwrap();
        let names: Vec<&str> = commands.iter().map(|parsed| parsed.command).collect();
        assert_eq!(names, ["face list", "route add", "cs info"]);
        let name = commands[1].arguments.name("prefix").unwrap();
        assert_eq!(name.to_uri(), "/a%20b");
        let error = parse("cs\nface nosuch\n", "file").unwrap_err();
        assert_eq!(error.status, 2);
        assert!(error.message.ends_with("Syntax error on line 2 of the batch in file"));
    }
}
