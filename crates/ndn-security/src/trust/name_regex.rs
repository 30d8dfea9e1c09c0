//! Regular expressions over names, as trust rules use them (ndn-cxx documentation, "NDN Regular
//! Expression"): `^<a><>*([<b><c>])$`. What stands between `<` and `>` is a regular expression over
//! the URI form of one component, which it has to match whole; `<>` matches any.

use ndn_packet::{Component, Name, NameRef};
use regex_automata::nfa::thompson::pikevm::PikeVM;

/// Maximum number of steps for one name: the cost of a hostile name is bounded.
const STEPS_MAX: usize = 200_000;
/// Parentheses within each other at most.
const DEPTH_MAX: usize = 32;

/// A compiled expression.
#[derive(Debug, Clone)]
pub(super) struct NameRegex {
    /// As it was written.
    text: String,
    items: Vec<Repeat>,
    group_count: usize,
    starts_anywhere: bool,
    ends_anywhere: bool,
}

/// Where the groups of a match are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NameMatch {
    groups: Vec<Option<(usize, usize)>>,
}

#[derive(Debug, Clone)]
struct Repeat {
    item: Item,
    min: usize,
    max: usize,
}

#[derive(Debug, Clone)]
enum Item {
    Component(Pattern),
    Set { is_negated: bool, patterns: Vec<Pattern> },
    Group { number: usize, items: Vec<Repeat> },
}

#[derive(Debug, Clone)]
enum Pattern {
    Any,
    Regex(Box<PikeVM>),
}

impl Pattern {
    fn new(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::Any);
        }
        let whole = format!("^(?:{text})$");
        let regex = PikeVM::new(&whole).map_err(|error| format!("<{text}>: {error}"))?;
        Ok(Self::Regex(Box::new(regex)))
    }

    fn matches(&self, component: Component<'_>) -> bool {
        match self {
            Self::Any => true,
            Self::Regex(regex) => {
                regex.is_match(&mut regex.create_cache(), component.to_string().as_bytes())
            }
        }
    }
}

impl NameRegex {
    /// Compiles an expression.
    pub(super) fn new(whole: &str) -> Result<Self, String> {
        let (text, starts_anywhere) = match whole.strip_prefix('^') {
            Some(rest) => (rest, false),
            None => (whole, true),
        };
        let (text, ends_anywhere) = match text.strip_suffix('$') {
            Some(rest) => (rest, false),
            None => (text, true),
        };
        let mut parser = Parser { rest: text, group_count: 0 };
        let items = parser.items(0)?;
        if !parser.rest.is_empty() {
            return Err(format!("`{}` was not expected", parser.rest));
        }
        let group_count = parser.group_count;
        Ok(Self { text: whole.to_owned(), items, group_count, starts_anywhere, ends_anywhere })
    }

    /// As it was written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Matches a name.
    pub(super) fn matches(&self, name: NameRef<'_>) -> Option<NameMatch> {
        let components: Vec<Component<'_>> = name.components().collect();
        let last_start = if self.starts_anywhere { components.len() } else { 0 };
        let mut steps_left = STEPS_MAX;
        (0..=last_start).find_map(|start| {
            let mut matcher = Matcher::new(self, &components, &mut steps_left);
            let is_match = matcher.is_match(&self.items, start);
            is_match.then_some(NameMatch { groups: matcher.groups })
        })
    }

    /// Checks that `template` refers to no group that there is not.
    pub(super) fn check_template(&self, template: &str) -> Result<(), String> {
        for part in template_parts(template)? {
            if let Part::Group(number) = part
                && number > self.group_count
            {
                return Err(format!("\\{number} refers to a group that is not there"));
            }
        }
        Ok(())
    }
}

impl NameMatch {
    /// The name that `template` makes of the groups of the match: `\1` is the first group, `\0` the
    /// whole name, `<a>` a component.
    pub(super) fn expand(&self, name: NameRef<'_>, template: &str) -> Name {
        let mut expanded = Name::new();
        for part in template_parts(template).unwrap_or_default() {
            match part {
                Part::Component(component) => {
                    expanded.append(Name::from_uri(component).unwrap_or_default().as_ref());
                }
                Part::Group(0) => {
                    expanded.append(name);
                }
                Part::Group(number) => {
                    if let Some(Some((start, end))) = self.groups.get(number - 1) {
                        expanded.append(name.prefix(*end).suffix(*start));
                    }
                }
            }
        }
        expanded
    }
}

enum Part<'a> {
    Component(&'a str),
    Group(usize),
}

fn template_parts(template: &str) -> Result<Vec<Part<'_>>, String> {
    let mut parts = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('\\') {
            let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let number = after[..digits].parse().map_err(|_| "a number has to follow `\\`")?;
            parts.push(Part::Group(number));
            rest = &after[digits..];
        } else if let Some((component, after)) =
            rest.strip_prefix('<').and_then(|rest| rest.split_once('>'))
        {
            parts.push(Part::Component(component));
            rest = after;
        } else {
            return Err(format!("`{rest}` is neither a group nor a component"));
        }
    }
    Ok(parts)
}

struct Parser<'a> {
    rest: &'a str,
    group_count: usize,
}

impl Parser<'_> {
    fn items(&mut self, depth: usize) -> Result<Vec<Repeat>, String> {
        let mut items = Vec::new();
        loop {
            let item = match self.rest.chars().next() {
                None | Some(')') => return Ok(items),
                Some('<') => Item::Component(Pattern::new(&self.component()?)?),
                Some('[') => self.set()?,
                Some('(') if depth == DEPTH_MAX => {
                    return Err("too many parentheses within each other".to_owned());
                }
                Some('(') => {
                    self.group_count += 1;
                    let number = self.group_count;
                    self.rest = &self.rest[1..];
                    let items = self.items(depth + 1)?;
                    self.rest = self.rest.strip_prefix(')').ok_or("a `)` is missing")?;
                    Item::Group { number, items }
                }
                Some(other) => return Err(format!("`{other}` was not expected")),
            };
            let (min, max) = self.repetition()?;
            items.push(Repeat { item, min, max });
        }
    }

    /// The text between `<` and its `>`.
    fn component(&mut self) -> Result<String, String> {
        let mut depth = 0;
        for (at, c) in self.rest.char_indices() {
            match c {
                '<' => depth += 1,
                '>' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                let text = self.rest[1..at].to_owned();
                self.rest = &self.rest[at + 1..];
                return Ok(text);
            }
        }
        Err("a `>` is missing".to_owned())
    }

    fn set(&mut self) -> Result<Item, String> {
        self.rest = &self.rest[1..];
        let is_negated = self.rest.starts_with('^');
        if is_negated {
            self.rest = &self.rest[1..];
        }
        let mut patterns = Vec::new();
        while self.rest.starts_with('<') {
            patterns.push(Pattern::new(&self.component()?)?);
        }
        self.rest = self.rest.strip_prefix(']').ok_or("a `]` is missing")?;
        Ok(Item::Set { is_negated, patterns })
    }

    fn repetition(&mut self) -> Result<(usize, usize), String> {
        let (bounds, length) = match self.rest.chars().next() {
            Some('?') => ((0, 1), 1),
            Some('*') => ((0, usize::MAX), 1),
            Some('+') => ((1, usize::MAX), 1),
            Some('{') => {
                let end = self.rest.find('}').ok_or("a `}` is missing")?;
                let inner = &self.rest[1..end];
                let number = |text: &str, empty: usize| match text {
                    "" => Ok(empty),
                    text => text
                        .parse::<usize>()
                        .map_err(|_| format!("`{{{inner}}}` is no number of repetitions")),
                };
                let bounds = match inner.split_once(',') {
                    Some((min, max)) => (number(min, 0)?, number(max, usize::MAX)?),
                    None if inner.is_empty() => {
                        return Err("`{}` is no number of repetitions".to_owned());
                    }
                    None => (number(inner, 0)?, number(inner, 0)?),
                };
                if bounds.0 > bounds.1 {
                    return Err(format!("`{{{inner}}}` is no number of repetitions"));
                }
                (bounds, end + 1)
            }
            Some(_) | None => return Ok((1, 1)),
        };
        self.rest = &self.rest[length..];
        Ok(bounds)
    }
}

/// The part of the expression that follows the current item.
#[derive(Clone, Copy)]
enum Frame<'r> {
    /// The items behind it in a sequence.
    Rest { items: &'r [Repeat], then: usize },
    /// Further repetitions of an item whose repetition number `done` began at `start`.
    Again { repeat: &'r Repeat, done: usize, start: usize, then: usize },
    /// The end of a group that began at `start`.
    GroupEnd { number: usize, start: usize, then: usize },
}

/// The end of the expression: the continuation of its first item. Other continuations are numbers of frames, plus one.
const ACCEPT: usize = 0;

/// An alternative to try when matching fails: to continue without another repetition.
struct Alternative {
    at: usize,
    then: usize,
    /// Lengths of `frames` and `undo` to go back to.
    frame_count: usize,
    undo_count: usize,
}

/// The next thing to do, at a component.
enum Step<'r> {
    Sequence { items: &'r [Repeat], then: usize },
    Repeat { repeat: &'r Repeat, done: usize, then: usize },
    Continue { then: usize },
}

/// A backtracking matcher with its own stack: its depth is that of the name times that of the parentheses, and a name from
/// the network can have thousands of components.
struct Matcher<'r, 'a, 'n> {
    components: &'a [Component<'n>],
    ends_anywhere: bool,
    groups: Vec<Option<(usize, usize)>>,
    steps_left: &'a mut usize,
    frames: Vec<Frame<'r>>,
    alternatives: Vec<Alternative>,
    /// Former values of groups, to be restored when matching fails.
    undo: Vec<(usize, Option<(usize, usize)>)>,
}

impl<'r, 'a, 'n> Matcher<'r, 'a, 'n> {
    fn new(regex: &NameRegex, components: &'a [Component<'n>], steps_left: &'a mut usize) -> Self {
        Self {
            components,
            ends_anywhere: regex.ends_anywhere,
            groups: vec![None; regex.group_count],
            steps_left,
            frames: Vec::new(),
            alternatives: Vec::new(),
            undo: Vec::new(),
        }
    }

    /// Matches `items` in sequence from component `start`, with as many repetitions as possible first.
    fn is_match(&mut self, items: &'r [Repeat], start: usize) -> bool {
        let (mut at, mut step) = (start, Step::Sequence { items, then: ACCEPT });
        loop {
            let next = match step {
                Step::Sequence { items: [], then } => Some((at, Step::Continue { then })),
                Step::Sequence { items: [repeat, items @ ..], then } => {
                    let then = self.push(Frame::Rest { items, then });
                    Some((at, Step::Repeat { repeat, done: 0, then }))
                }
                Step::Repeat { repeat, done, then } => self.repeat(repeat, done, at, then),
                Step::Continue { then: ACCEPT } => {
                    if self.ends_anywhere || at == self.components.len() {
                        return true;
                    }
                    None
                }
                Step::Continue { then } => self.resume(self.frames[then - 1], at),
            };
            match next.or_else(|| self.backtrack()) {
                Some((next_at, next_step)) => (at, step) = (next_at, next_step),
                None => return false,
            }
        }
    }

    /// Begins repetition number `done`, or ends the repetitions; `None` if neither is possible.
    fn repeat(
        &mut self,
        repeat: &'r Repeat,
        done: usize,
        at: usize,
        then: usize,
    ) -> Option<(usize, Step<'r>)> {
        *self.steps_left = self.steps_left.checked_sub(1)?;
        if done == repeat.max {
            return Some((at, Step::Continue { then }));
        }
        if done >= repeat.min {
            let (frame_count, undo_count) = (self.frames.len(), self.undo.len());
            self.alternatives.push(Alternative { at, then, frame_count, undo_count });
        }
        let is_match = match &repeat.item {
            Item::Component(pattern) => pattern.matches(*self.components.get(at)?),
            Item::Set { is_negated, patterns } => {
                let component = *self.components.get(at)?;
                patterns.iter().any(|pattern| pattern.matches(component)) != *is_negated
            }
            Item::Group { number, items } => {
                let then = self.push(Frame::Again { repeat, done, start: at, then });
                let then = self.push(Frame::GroupEnd { number: *number, start: at, then });
                return Some((at, Step::Sequence { items, then }));
            }
        };
        // Progress is certain here, so that no frame has to check it.
        is_match.then_some((at + 1, Step::Repeat { repeat, done: done + 1, then }))
    }

    fn resume(&mut self, frame: Frame<'r>, at: usize) -> Option<(usize, Step<'r>)> {
        match frame {
            Frame::Rest { items, then } => Some((at, Step::Sequence { items, then })),
            // A repetition of nothing leads nowhere.
            Frame::Again { repeat, done, start, then } => (at > start || done < repeat.min)
                .then_some((at, Step::Repeat { repeat, done: done + 1, then })),
            Frame::GroupEnd { number, start, then } => {
                let group = &mut self.groups[number - 1];
                self.undo.push((number, group.replace((start, at))));
                Some((at, Step::Continue { then }))
            }
        }
    }

    fn backtrack(&mut self) -> Option<(usize, Step<'r>)> {
        let Alternative { at, then, frame_count, undo_count } = self.alternatives.pop()?;
        self.frames.truncate(frame_count);
        for (number, group) in self.undo.drain(undo_count..).rev() {
            self.groups[number - 1] = group;
        }
        Some((at, Step::Continue { then }))
    }

    /// Keeps a frame; returns its number as a continuation.
    fn push(&mut self, frame: Frame<'r>) -> usize {
        self.frames.push(frame);
        self.frames.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(regex: &str, name: &str) -> bool {
        let name = Name::from_uri(name).unwrap();
        NameRegex::new(regex).unwrap().matches(name.as_ref()).is_some()
    }

    fn expanded(regex: &str, name: &str, template: &str) -> String {
        let name = Name::from_uri(name).unwrap();
        let found = NameRegex::new(regex).unwrap().matches(name.as_ref()).unwrap();
        found.expand(name.as_ref(), template).to_uri()
    }

    #[test]
    fn components_sets_and_repetitions_match() {
        let command = "^<localhop><nfd><rib>[<register><unregister>]<>{1,3}$";
        assert!(matches(command, "/localhop/nfd/rib/register/p"));
        assert!(matches(command, "/localhop/nfd/rib/unregister/1/2/3"));
        assert!(!matches(command, "/localhop/nfd/rib/register"));
        assert!(!matches(command, "/localhop/nfd/rib/register/1/2/3/4"));
        assert!(!matches(command, "/localhop/nfd/rib/list/p"));
        assert!(matches("^[^<a><b>]$", "/c"));
        assert!(!matches("^[^<a><b>]$", "/a"));
        assert!(matches("^<>{3}$", "/a/b/c") && !matches("^<>{3}$", "/a/b"));
        assert!(matches("^<a>?<b>+$", "/b/b") && matches("^<a>?<b>+$", "/a/b"));
        assert!(matches("^<>{,1}$", "/") && !matches("^<>{,1}$", "/a/b"));
        assert!(matches("^<>{2,}$", "/a/b/c") && !matches("^<>{2,}$", "/a"));
    }

    #[test]
    fn anchors_are_optional() {
        assert!(matches("<b>", "/a/b/c"));
        assert!(!matches("^<b>", "/a/b/c") && matches("^<a>", "/a/b/c"));
        assert!(!matches("<b>$", "/a/b/c") && matches("<c>$", "/a/b/c"));
    }

    #[test]
    fn component_is_matched_by_a_regular_expression() {
        assert!(matches("^<ksk-.*>$", "/ksk-123") && !matches("^<ksk-.*>$", "/aksk-1"));
        assert!(matches("^<a|b>$", "/b") && !matches("^<a|b>$", "/ab"));
        assert!(matches("^<v=[0-9]+>$", "/v=7") && !matches("^<v=[0-9]+>$", "/v"));
    }

    #[test]
    fn template_is_expanded_with_groups() {
        let key = "^(<>*)<KEY><>{1,3}$";
        assert_eq!(expanded(key, "/net/alice/KEY/k", "\\1"), "/net/alice");
        assert_eq!(expanded(key, "/net/alice/KEY/k/self/v=1", "\\1"), "/net/alice");
        assert_eq!(expanded("^(<a>(<>))<>*$", "/a/b/c", "<x>\\2\\1"), "/x/b/a/b");
        assert_eq!(expanded("^(<>)(<>*)$", "/a/b/c", "\\2"), "/b/c");
        assert_eq!(expanded("^(<>*)$", "/", "\\1"), "/");
        assert!(NameRegex::new("^(<>)$").unwrap().check_template("\\2").is_err());
        assert!(NameRegex::new("^(<>)$").unwrap().check_template("x").is_err());
        assert!(NameRegex::new("^(<>)$").unwrap().check_template("\\1\\0<a>").is_ok());
    }

    #[test]
    fn malformed_expression_is_refused() {
        for bad in ["^<a$", "^a$", "^[<a>$", "^(<a>$", "^<a>{2,1}$", "^<a>{}$", "^<a>)$", "<(>"] {
            assert!(NameRegex::new(bad).is_err(), "{bad}");
        }
        assert!(NameRegex::new(&"(".repeat(1000)).is_err());
    }

    #[test]
    fn steps_for_a_hostile_name_are_limited() {
        let regex = NameRegex::new("^(<>*)(<>*)(<>*)(<>*)(<>*)(<>*)<never>$").unwrap();
        let mut name = Name::new();
        (0..200).for_each(|_| {
            name.push_generic("a");
        });
        assert!(regex.matches(name.as_ref()).is_none());
        assert!(NameRegex::new("^(<a>?)*$").unwrap().matches(name.as_ref()).is_some());
    }

    /// The same by recursion, as an oracle.
    struct Recursive<'a, 'n> {
        components: &'a [Component<'n>],
        groups: Vec<Option<(usize, usize)>>,
        steps_left: &'a mut usize,
    }

    type Then<'t, 'a, 'n> = &'t mut dyn FnMut(&mut Recursive<'a, 'n>, usize) -> bool;

    impl<'a, 'n> Recursive<'a, 'n> {
        /// Matches `items` one behind the other from `at`, as much as possible first, and then `then`.
        fn sequence(&mut self, items: &[Repeat], at: usize, then: Then<'_, 'a, 'n>) -> bool {
            match items {
                [] => then(self, at),
                [first, rest @ ..] => {
                    self.repeat(first, 0, at, &mut |matcher, at| matcher.sequence(rest, at, then))
                }
            }
        }

        fn repeat(
            &mut self,
            repeat: &Repeat,
            done: usize,
            at: usize,
            then: Then<'_, 'a, 'n>,
        ) -> bool {
            if *self.steps_left == 0 {
                return false;
            }
            *self.steps_left -= 1;
            if done < repeat.max {
                let is_match = self.item(&repeat.item, at, &mut |matcher, next| {
                    // A repetition of nothing leads nowhere.
                    (next > at || done < repeat.min) && matcher.repeat(repeat, done + 1, next, then)
                });
                if is_match {
                    return true;
                }
            }
            done >= repeat.min && then(self, at)
        }

        fn item(&mut self, item: &Item, at: usize, then: Then<'_, 'a, 'n>) -> bool {
            let component = self.components.get(at).copied();
            match item {
                Item::Component(pattern) => {
                    component.is_some_and(|component| pattern.matches(component))
                        && then(self, at + 1)
                }
                Item::Set { is_negated, patterns } => {
                    component.is_some_and(|component| {
                        patterns.iter().any(|pattern| pattern.matches(component)) != *is_negated
                    }) && then(self, at + 1)
                }
                Item::Group { number, items } => {
                    let before = self.groups[number - 1];
                    let is_match = self.sequence(items, at, &mut |matcher, end| {
                        let inner = matcher.groups[number - 1];
                        matcher.groups[number - 1] = Some((at, end));
                        then(matcher, end) || {
                            matcher.groups[number - 1] = inner;
                            false
                        }
                    });
                    if !is_match {
                        self.groups[number - 1] = before;
                    }
                    is_match
                }
            }
        }
    }

    impl NameRegex {
        fn matches_by_recursion(&self, name: NameRef<'_>) -> Option<NameMatch> {
            let components: Vec<Component<'_>> = name.components().collect();
            let last_start = if self.starts_anywhere { components.len() } else { 0 };
            let mut steps_left = STEPS_MAX;
            (0..=last_start).find_map(|start| {
                let mut matcher = Recursive {
                    components: &components,
                    groups: vec![None; self.group_count],
                    steps_left: &mut steps_left,
                };
                let (ends_anywhere, end) = (self.ends_anywhere, components.len());
                let is_match =
                    matcher.sequence(&self.items, start, &mut |_, at| ends_anywhere || at == end);
                is_match.then_some(NameMatch { groups: matcher.groups })
            })
        }
    }

    fn expression() -> impl Strategy<Value = String> {
        let component = prop_oneof!["<a>", "<b>", "<>", r"\[<a><c>\]", r"\[\^<b>\]"];
        let repetition = prop_oneof![
            4 => Just(""), 1 => Just("*"), 1 => Just("+"), 1 => Just("?"), 1 => Just("{2}"),
            1 => Just("{,2}"), 1 => Just("{1,3}"), 1 => Just("{0}"), 1 => Just("{2,}")
        ];
        let item =
            (component, repetition.clone()).prop_map(|(item, times)| format!("{item}{times}"));
        item.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(|items| items.concat()),
                (inner, repetition.clone()).prop_map(|(items, times)| format!("({items}){times}")),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn matches_equal_those_of_the_recursive_matcher(
            expression in expression(),
            (starts, ends) in (any::<bool>(), any::<bool>()),
            components in proptest::collection::vec("[abc]", 0..9),
        ) {
            let (start, end) = (if starts { "^" } else { "" }, if ends { "$" } else { "" });
            let regex = NameRegex::new(&format!("{start}{expression}{end}")).unwrap();
            let mut name = Name::new();
            for component in &components {
                name.push_generic(component);
            }
            prop_assert_eq!(regex.matches(name.as_ref()), regex.matches_by_recursion(name.as_ref()));
        }
    }

    #[test]
    fn long_name_is_matched_on_a_small_stack() {
        let long = || {
            let mut name = Name::new();
            (0..4200).for_each(|_| {
                name.push_generic("a");
            });
            let key = NameRegex::new("^(<>*)<KEY><>{1,3}$").unwrap();
            assert!(key.matches(name.as_ref()).is_none());
            let all = NameRegex::new("^((<>)*)$").unwrap();
            assert!(all.matches(name.as_ref()).is_some());
            name.push_generic("KEY").push_generic("k");
            let found = key.matches(name.as_ref()).unwrap();
            assert_eq!(found.expand(name.as_ref(), "\\1").len(), 4200);
        };
        let thread = std::thread::Builder::new().stack_size(128 << 10).spawn(long);
        thread.unwrap().join().unwrap();
    }
}
