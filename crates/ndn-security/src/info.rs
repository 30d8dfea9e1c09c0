//! The INFO format: trees of keys and values, in which NFD's configuration and the trust rules of
//! ndn-cxx are written (Boost.PropertyTree documentation, "INFO Parser").
//!
//! A line holds a key and perhaps a value; `{` and `}` enclose the children of the entry before
//! them; `;` begins a comment; words may be quoted; `#include "file"` puts another file in place.

use std::fmt;
use std::sync::Arc;

/// One entry with its children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The key.
    pub key: String,
    /// The value; empty where there is none.
    pub value: String,
    /// The entries between the braces, in order.
    pub children: Vec<Node>,
    /// The file.
    pub origin: Arc<str>,
    /// The line of the key, from 1; 0 for a root.
    pub line: usize,
}

/// An error in a text, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InfoError {
    /// The file.
    pub origin: Arc<str>,
    /// The line, from 1.
    pub line: usize,
    /// The reason.
    pub message: String,
}

impl fmt::Display for InfoError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.origin, self.line, self.message)
    }
}

impl std::error::Error for InfoError {}

/// Braces within braces at most.
const DEPTH_MAX: usize = 64;
/// Files within files at most.
const INCLUDE_DEPTH_MAX: usize = 16;

/// Reads the file that an `#include` names.
pub type Include<'a> = &'a mut dyn FnMut(&str) -> Result<String, String>;

impl Node {
    /// Reads a text; `origin` names it in errors. The result has no key, and the entries of the
    /// text as children.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn parse(origin: &str, text: &str, include: Include<'_>) -> Result<Self, InfoError> {
        let origin: Arc<str> = Arc::from(origin);
        let mut root = Self::new(String::new(), Arc::clone(&origin), 0);
        parse_into(&mut root, &origin, text, include, 0)?;
        Ok(root)
    }

    /// As [`Node::parse`], for a text that may include nothing.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn parse_single(origin: &str, text: &str) -> Result<Self, InfoError> {
        Self::parse(origin, text, &mut |_| Err("files cannot be included here".to_owned()))
    }

    const fn new(key: String, origin: Arc<str>, line: usize) -> Self {
        Self { key, value: String::new(), children: Vec::new(), origin, line }
    }

    /// The first child with this key.
    #[must_use]
    pub fn child(&self, key: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.key == key)
    }

    /// An error about this entry.
    #[must_use]
    pub fn error(&self, message: impl Into<String>) -> InfoError {
        InfoError { origin: Arc::clone(&self.origin), line: self.line, message: message.into() }
    }

    /// The children as text, which [`Node::parse`] reads as the same tree.
    #[must_use]
    pub fn children_to_text(&self) -> String {
        let mut out = String::new();
        self.children.iter().for_each(|child| child.write(&mut out, 0));
        out
    }

    /// Where the lines of [`Self::children_to_text`] come from.
    #[must_use]
    pub fn places_of_lines(&self) -> Vec<(Arc<str>, usize)> {
        let mut places = Vec::new();
        self.children.iter().for_each(|child| child.add_places(&mut places));
        places
    }

    fn add_places(&self, places: &mut Vec<(Arc<str>, usize)>) {
        let own = || (Arc::clone(&self.origin), self.line);
        places.push(own());
        if !self.children.is_empty() {
            places.push(own());
            self.children.iter().for_each(|child| child.add_places(places));
            places.push(own());
        }
    }

    fn write(&self, out: &mut String, depth: usize) {
        let indent = "  ".repeat(depth);
        out.push_str(&indent);
        out.push_str(&quoted(&self.key));
        if !self.value.is_empty() {
            out.push(' ');
            out.push_str(&quoted(&self.value));
        }
        out.push('\n');
        if !self.children.is_empty() {
            out.push_str(&format!("{indent}{{\n"));
            self.children.iter().for_each(|child| child.write(out, depth + 1));
            out.push_str(&format!("{indent}}}\n"));
        }
    }
}

/// A word as it has to be written.
fn quoted(word: &str) -> String {
    let is_plain = !word.is_empty()
        && word.chars().all(|c| !c.is_whitespace() && !matches!(c, ';' | '"' | '\\' | '\0'))
        && !word.starts_with(['{', '}', '#']);
    if is_plain {
        return word.to_owned();
    }
    let mut out = String::from("\"");
    for c in word.chars() {
        match c {
            '\0' => out.push_str("\\0"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// The kind of the next word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Key,
    Value,
    /// The string before it ended with a backslash.
    Continuation,
}

fn parse_into(
    root: &mut Node,
    origin: &Arc<str>,
    text: &str,
    include: Include<'_>,
    include_depth: usize,
) -> Result<(), InfoError> {
    // Children that are open, the innermost last, as indexes from the root.
    let mut path: Vec<usize> = Vec::new();
    let mut expected = Expected::Key;
    for (index, line) in text.lines().enumerate() {
        let fail = |message: &str| InfoError {
            origin: Arc::clone(origin),
            line: index + 1,
            message: message.to_owned(),
        };
        let mut words = Words { rest: line };
        while let Some(start) = words.skip_space() {
            let open = descend(root, &path);
            match start {
                '{' if expected == Expected::Continuation => {
                    return Err(fail("a string has to go on here"));
                }
                '{' => {
                    words.skip_char();
                    if open.children.is_empty() {
                        return Err(fail("`{` without a key before it"));
                    }
                    if path.len() == DEPTH_MAX {
                        return Err(fail("too many braces within each other"));
                    }
                    path.push(open.children.len() - 1);
                    expected = Expected::Key;
                }
                '}' => {
                    words.skip_char();
                    path.pop().ok_or_else(|| fail("`}` without a `{` before it"))?;
                    expected = Expected::Key;
                }
                '#' if expected == Expected::Key => {
                    words.skip_char();
                    let (word, _, _) = words.next_word().map_err(fail)?;
                    if word != "include" {
                        return Err(fail(&format!("unknown directive `#{word}`")));
                    }
                    words.skip_space();
                    let (file, _, _) = words.next_word().map_err(fail)?;
                    if include_depth == INCLUDE_DEPTH_MAX {
                        return Err(fail("files include each other too deeply"));
                    }
                    let included = include(&file)
                        .map_err(|reason| fail(&format!("cannot include {file}: {reason}")))?;
                    let origin = Arc::from(file.as_str());
                    parse_into(open, &origin, &included, include, include_depth + 1)?;
                }
                _ => {
                    let (word, is_string, is_continued) = words.next_word().map_err(fail)?;
                    expected = match expected {
                        Expected::Key => {
                            let mut node = Node::new(word, Arc::clone(origin), index + 1);
                            node.children = Vec::new();
                            open.children.push(node);
                            Expected::Value
                        }
                        Expected::Continuation if !is_string => {
                            return Err(fail("a string has to go on here"));
                        }
                        Expected::Value | Expected::Continuation => {
                            if let Some(last) = open.children.last_mut() {
                                last.value.push_str(&word);
                            }
                            if is_continued { Expected::Continuation } else { Expected::Key }
                        }
                    };
                }
            }
        }
        if expected == Expected::Value {
            expected = Expected::Key;
        }
    }
    let last_line = text.lines().count().max(1);
    let fail = |message: &str| InfoError {
        origin: Arc::clone(origin),
        line: last_line,
        message: message.to_owned(),
    };
    match (path.is_empty(), expected) {
        (false, _) => Err(fail("a `}` is missing")),
        (true, Expected::Continuation) => Err(fail("a string has to go on")),
        (true, Expected::Key | Expected::Value) => Ok(()),
    }
}

fn descend<'n>(root: &'n mut Node, path: &[usize]) -> &'n mut Node {
    path.iter().fold(root, |node, &index| &mut node.children[index])
}

/// The rest of a line.
struct Words<'a> {
    rest: &'a str,
}

impl Words<'_> {
    /// The character that comes next; `None` at the end of the line or at a comment.
    fn skip_space(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next().filter(|c| *c != ';')
    }

    fn skip_char(&mut self) {
        let mut chars = self.rest.chars();
        chars.next();
        self.rest = chars.as_str();
    }

    /// A word, whether it was quoted, and whether a quoted one goes on on the next line.
    fn next_word(&mut self) -> Result<(String, bool, bool), &'static str> {
        if let Some(rest) = self.rest.strip_prefix('"') {
            self.rest = rest;
            let word = self.take_until(|c| c == '"')?;
            if !self.rest.starts_with('"') {
                return Err("a string has no end");
            }
            self.skip_char();
            let is_continued = self.rest.trim_start().starts_with('\\');
            if is_continued {
                self.rest = "";
            }
            return Ok((word, true, is_continued));
        }
        let word = self.take_until(|c| c.is_whitespace() || c == ';')?;
        if word.is_empty() { Err("a word is missing") } else { Ok((word, false, false)) }
    }

    fn take_until(&mut self, is_end: impl Fn(char) -> bool) -> Result<String, &'static str> {
        let mut word = String::new();
        let mut chars = self.rest.chars();
        loop {
            self.rest = chars.as_str();
            match chars.next() {
                Some('\\') => word.push(match chars.next() {
                    Some('0') => '\0',
                    Some('a') => '\x07',
                    Some('b') => '\x08',
                    Some('f') => '\x0c',
                    Some('n') => '\n',
                    Some('r') => '\r',
                    Some('t') => '\t',
                    Some('v') => '\x0b',
                    Some(c @ ('"' | '\'' | '\\')) => c,
                    Some(_) | None => return Err("unknown escape sequence"),
                }),
                Some(c) if !is_end(c) => word.push(c),
                Some(_) | None => return Ok(word),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Node, InfoError> {
        Node::parse_single("test", text)
    }

    #[test]
    fn keys_values_and_children_are_parsed() {
        let root = parse(
            "; a comment\nrib\n{\n  readvertise_nlsr no ; off\n  \"two words\" \"a \\\"b\\\"\"\n  x {\n }\n}\nlog { level INFO }\n",
        )
        .unwrap();
        let [rib, log] = &root.children[..] else { panic!("{root:?}") };
        assert_eq!((rib.key.as_str(), rib.line), ("rib", 2));
        assert_eq!(rib.child("readvertise_nlsr").unwrap().value, "no");
        assert_eq!(rib.child("two words").unwrap().value, "a \"b\"");
        assert!(rib.child("x").unwrap().children.is_empty());
        assert_eq!(log.child("level").unwrap().value, "INFO");
    }

    #[test]
    fn regular_expression_is_one_word() {
        let root = parse("regex ^<localhop><nfd><rib>[<register><unregister>]<>{1,3}$\nk \\\\1\n");
        let root = root.unwrap();
        let regex = "^<localhop><nfd><rib>[<register><unregister>]<>{1,3}$";
        assert_eq!(root.child("regex").unwrap().value, regex);
        assert_eq!(root.child("k").unwrap().value, "\\1");
    }

    #[test]
    fn strings_continue_and_files_are_included() {
        let mut include = |file: &str| match file {
            "more.conf" => Ok("b 2\n".to_owned()),
            _ => Err("no such file".to_owned()),
        };
        let text = "a \"one \" \\\n  \"two\"\n#include \"more.conf\"\n";
        let root = Node::parse("main", text, &mut include).unwrap();
        assert_eq!(root.child("a").unwrap().value, "one two");
        assert_eq!(root.child("b").unwrap().value, "2");
        assert_eq!(&*root.child("b").unwrap().origin, "more.conf");
        let error = Node::parse("main", "\n#include gone\n", &mut include).unwrap_err();
        assert_eq!(error.to_string(), "main:2: cannot include gone: no such file");
    }

    #[test]
    fn error_names_the_line() {
        for (text, line) in [
            ("a\n}\n", 2),
            ("{\n", 1),
            ("a {\nb\n", 2),
            ("a \"b\n", 1),
            ("a \\q\n", 1),
            ("#define x\n", 1),
            ("a \"b\" \\\nc\n", 2),
        ] {
            assert_eq!(parse(text).unwrap_err().line, line, "{text:?}");
        }
        assert!(parse(&"a {".repeat(100)).is_err());
        let mut endless = |_: &str| Ok("#include again".to_owned());
        assert!(Node::parse("x", "#include again", &mut endless).is_err());
    }

    #[test]
    fn written_info_is_parsed_to_the_same() {
        let text = "a \"x;y\" { b \\\\1 \"\" empty {c d } }\nregex ^<>*$";
        let root = parse(text).unwrap();
        let again = parse(&root.children_to_text()).unwrap();
        fn same(a: &Node, b: &Node) -> bool {
            (&a.key, &a.value, a.children.len()) == (&b.key, &b.value, b.children.len())
                && a.children.iter().zip(&b.children).all(|(a, b)| same(a, b))
        }
        assert!(same(&root, &again), "{}", root.children_to_text());
    }
}
